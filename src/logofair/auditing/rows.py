"""Checked rows measured: the audit of one rule, and two rules compared on the same rows.

The difference of a figure has the interval that pairing allows: chance in who was drawn largely cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from logofair.auditing.chance import TAIL
from logofair.auditing.judging import CountedRules, count_comparisons, judge
from logofair.auditing.measure import Changes, Measured, as_one_site, tally_of
from logofair.auditing.result import Audit, Comparison, Side
from logofair.columns import checks as inputs
from logofair.columns.attributes import Attributes, columns_like, read_groups
from logofair.columns.checks import Binary, Floats, Label
from logofair.columns.labels import Codes, check_groups, check_spelling, encode, one_site
from logofair.columns.segments import Booleans
from logofair.costs import ACCURACY, Costs, read_costs
from logofair.errors import InputError
from logofair.notions import Notion, Rate, named_notion, sides
from logofair.outcomes import TEST_ROWS
from logofair.policy.policy import Policy
from logofair.requirement import Requirement
from logofair.requirements import Requirements, make_requirements

_MOST_CELLS = 20_000_000  # more (site, group) pairs than this are ids passed by mistake
_EVERYBODY = Rate("everybody", constant=1.0, slope=0.0)


def audit(
    decisions: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    notion: object = "demographic_parity",
    scores: object = None,
    sample_weight: object = None,
    ids: object = None,
    policy: Policy | None = None,
    group_probabilities: object = None,
    chances: bool = False,
    costs: object = None,
    local_tolerance: float | None = None,
    global_tolerance: float | None = None,
    require: object = (),
) -> Audit:
    """Measure a decision rule's accuracy, its gaps over all sites, and its gaps inside each of them.

    Parameters
    ----------
    decisions : column of 0 and 1, or None
        What was decided: of scores, ``scores >= 0.5``, as the command line does. With ``chances=True`` chances of
        acceptance, 0 to 1. None: those of ``policy`` on ``scores``.
    labels : column of 0 and 1, or None
        None where no rate needs labels, as for demographic parity; accuracy is then undefined.
    sensitive_features, sites : columns of any hashable labels
        ``sites=None``: all rows belong to one site.
    notion : str, Notion, several of them in a list, tuple or mapping, or {"local": ..., "global": ...}
        Whose rates to measure.
    scores : column of probabilities, optional
        What ``policy`` decides by.
    sample_weight : column of numbers, none negative, optional
        How much each row counts; by default all count alike. Intervals rest on the effective number of rows.
    ids : column of labels, optional
        Who each row is of: rows of the same id at a site are one person, who counts once in every interval.
    policy : Policy, optional
        Decides in place of ``decisions``; sites it does not know take its merged rule.
    group_probabilities : table, optional
        What a policy that may not look at groups decides by, as in :func:`logofair.fit`.
    chances : bool
        Whether ``decisions`` are chances of acceptance: every figure is then an expectation over them.
    costs : pair of numbers, or mapping from every site to its pair, optional
        What a wrongly accepted row costs, and a wrongly rejected one: the audit then has a ``cost``, the mean over the
        rows. With costs 1 and 1 it is 1 less the accuracy. By default those of the policy, if any.
    local_tolerance, global_tolerance, require
        What is required, as in :func:`logofair.fit`: ``outcomes`` then says of each whether these rows show that it is
        met, that it is exceeded, or neither. By default what the policy was made for, if any. "today" needs a policy,
        which knows its rule without any requirement.

    Returns
    -------
    Audit
        The figures, and the reason for every one that is undefined.

    Raises
    ------
    InputError
        If a column cannot be used, there is only one group, or labels are needed and not given.

    Examples
    --------
    >>> found = audit([1, 1, 0, 1], [1, 0, 0, 1], sensitive_features=["M", "M", "F", "F"], sites=["a", "b", "a", "b"])
    >>> found.accuracy, found.global_gap, found.local_gap
    (0.75, 0.5, 1.0)
    >>> found.global_gap.low, round(found.global_gap.high, 2), found.global_gap.rows
    (0.0, 0.99, 2)
    >>> print(found.local_gaps[0])
    1.0000 (selection rate, 'M' over 'F', site 'a'; 95%: 0.0000 to 1.0000; 1 row)

    A wrong rejection is three times as bad as a wrong approval:

    >>> dear = audit([1, 1, 0, 0], [1, 0, 0, 1], sensitive_features=["M", "M", "F", "F"], costs=(1, 3))
    >>> dear.accuracy, dear.cost
    (0.5, 1.0)
    """
    if policy is not None:
        if decisions is not None:
            raise InputError("decisions: given together with policy=; pass None, or leave the policy out.")
        if scores is None:
            raise InputError("scores: missing, but the policy decides by them; pass one per row.")
        sensitive_features = columns_like(sensitive_features, policy.groups)
        before, decisions = policy_chances(policy, scores, sensitive_features, sites, group_probabilities)
        chances = True
    columns = (labels, sensitive_features, sites, notion, scores, sample_weight, ids)
    rows = checked_columns(decisions, *columns, chances=chances)
    names, rates = (rows.group.names, rows.site.names), (rows.local.rates, rows.global_.rates)
    tolerances, there = (local_tolerance, global_tolerance), rows.site.names
    if policy is None or any(each is not None for each in tolerances) or require:
        measured = {"local": rows.local, "global": rows.global_}
        required = make_requirements(require, measured, *tolerances, rows.site, rows.group)
    else:
        required, there = policy_requirements(policy, *names)
    of_today = [str(item) for item in required.items if item.needs_unconstrained]
    if policy is not None:
        rules = CountedRules.of(before, rows.chance, rows.columns, changes=bool(of_today))
    elif of_today:
        raise InputError(
            f"require: {of_today[0]!r}: 'today' and losses compare with a policy's unconstrained rule; pass policy=, "
            "or require something else."
        )
    else:
        rules = CountedRules(tally_of(rows.chance, *rows.columns), *names)
    priced = policy_costs(policy, rows.site.names) if costs is None else read_costs(costs, rows.site)
    return _audited(rules, *rates, required.items, there, required.shares, costs=priced)


def compare(
    decisions: object,
    others: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    notion: object = "demographic_parity",
    sample_weight: object = None,
    ids: object = None,
    chances: bool = False,
    costs: object = None,
) -> Comparison:
    """Compare two decision rules on the same rows; arguments as for :func:`logofair.audit`.

    Each row is decided by both, so chance in who was drawn largely cancels: the interval of a difference is much
    narrower than two intervals side by side suggest.

    Parameters
    ----------
    decisions, others : columns
        0 and 1, of the first and the second rule.
    labels, sensitive_features, sites, notion, sample_weight, ids, chances, costs
        As for :func:`logofair.audit`.

    Returns
    -------
    Comparison
        The second rule's figures less the first's.

    Examples
    --------
    >>> found = compare([1, 1, 0, 1], [1, 1, 1, 1], [1, 0, 1, 1], sensitive_features=["a", "a", "b", "b"])
    >>> float(found.accuracy), float(found.global_gap)
    (0.25, -0.5)
    """
    inputs.same_order(decisions=decisions, others=others)
    columns = (labels, sensitive_features, sites, notion, None, sample_weight, ids)
    first, second = (checked_columns(each, *columns, chances=chances) for each in (decisions, others))
    priced = None if costs is None else read_costs(costs, first.site)
    return compared_audits(first.chance, second.chance, first.columns, first.local.rates, first.global_.rates, priced)


def _audited(
    rules: CountedRules,
    local: tuple[Rate, ...],
    global_: tuple[Rate, ...],
    requirements: Iterable[Requirement] = (),
    known: Iterable[Label | None] | None = None,
    shares: Mapping[Requirement, float] | None = None,
    **others: Any,
) -> Audit:
    """Measure a counted rule, and judge it by requirements on sites that are ``known``.

    ``shares`` are the shares of the rows that bounds in people come to. All that is looked at corrects the intervals.
    """
    items = tuple(requirements)
    comparisons = count_comparisons(items, rules, local, global_)
    rules = replace(rules, costs=others.get("costs"))
    outcomes = judge(items, rules, TEST_ROWS, known=known, shares=shares, comparisons=comparisons)
    names = rules.groups, rules.sites
    return Audit.of(rules.after, *names, local, global_, comparisons=comparisons, outcomes=outcomes, **others)


def policy_requirements(
    policy: Policy, groups: tuple[Label, ...], sites: tuple[Label | None, ...]
) -> tuple[Requirements, tuple[Label | None, ...]]:
    """What a policy was made for, in the names of the rows, and the sites it is about.

    Of a federation's site only what holds inside it; what holds for a policy without sites holds over all of them.
    """
    required = policy.info.requirements.about(policy.sites, groups)
    if policy.site is not None:
        required = required.only(item for item in required.items if not item.scope.is_global)
    if policy.has_sites:
        named = {str(name): name for name in sites}
        return required, tuple(named.get(str(name), name) for name in policy.sites)
    return (required, sites) if len(sites) == 1 else (required.over_all(), ())


def policy_costs(policy: Policy | None, sites: Sequence[Label | None]) -> Costs | None:
    """What errors cost by the policy, at these sites; at those it does not know what they cost on average."""
    if policy is None or policy.info.requirements.costs is None:
        return None
    place = {str(name): i for i, name in enumerate(policy.sites)}
    at = np.array([place.get(str(name), -1) for name in sites])
    return policy.info.requirements.costs.at(at)


def policy_chances(
    policy: Policy, scores: object, groups: object, sites: object, group_probabilities: object = None
) -> tuple[Floats, Floats]:
    """Chances of acceptance by a policy's unconstrained rule, and by the policy; unknown sites take the merged rule."""
    at: dict[str, Any] = {"sites": sites, "group_probabilities": group_probabilities}
    at["sensitive_features"] = None if policy.looks_away else groups  # which are there to count by
    at["on_unknown"] = "merged" if policy.has_merged else "raise"
    return policy.unconstrained(scores, **at), policy.probabilities(scores, **at)


@dataclass(frozen=True, eq=False)
class AuditedRows:
    """Checked columns, and the notions whose rates are measured on either side."""

    chance: Floats
    positive: Binary | None
    score: Floats | None
    weight: Floats | None
    group: Codes
    site: Codes
    ids: Codes | None
    local: Notion
    global_: Notion

    @property
    def columns(self) -> tuple[Any, ...]:
        """Those that every rule on these rows shares, as `tally_of` takes them."""
        return self.positive, self.weight, self.group, self.site, self.ids


def checked_columns(
    decisions: object,
    labels: object,
    sensitive_features: object,
    sites: object,
    notion: object,
    scores: object,
    sample_weight: object,
    ids: object,
    *,
    chances: bool = True,
) -> AuditedRows:
    """Check every column of an audit."""
    local, global_ = map(_merged, (notion, notion) if isinstance(notion, list | tuple) else sides(notion))
    inputs.same_order(
        decisions=decisions,
        labels=labels,
        sensitive_features=sensitive_features,
        sites=sites,
        scores=scores,
        sample_weight=sample_weight,
        ids=ids,
    )
    chance = checked_chances(decisions, chances=chances)
    positive = None if labels is None else inputs.binary(labels)
    score = None if scores is None else inputs.probabilities(scores)
    weight = inputs.weights(sample_weight, chance.size)
    group = read_groups(sensitive_features)
    site = one_site(chance.size) if sites is None else encode(sites, "sites")
    people = None if ids is None else encode(ids, "ids")
    inputs.same_length(chance.size, labels=positive, sensitive_features=group, sites=site, scores=score, ids=people)
    if len(group.names) < 2:
        raise InputError(
            f"sensitive_features: every row is of group {group.names[0]!r:.40}; a gap needs at least two groups."
        )
    if not Attributes(group.names).columns:  # each by itself is checked already
        check_groups(group.names, len(group))
    check_spelling(site.names, "sites")
    if len(group.names) * len(site.names) > _MOST_CELLS:
        many = f"{len(group.names)} groups at {len(site.names)} sites"
        raise InputError(
            f"sensitive_features: {many} are too many to audit; pass names of groups and sites, not ids of rows."
        )
    if positive is None and (local.needs_labels or global_.needs_labels):
        raise InputError("labels: got None, but a rate of the notion counts by label; pass 0 or 1 for every row.")
    return AuditedRows(chance, positive, score, weight, group, site, people, local, global_)


def _merged(side: object) -> Notion:
    """One notion with the rates of all those named."""
    members: list[Any] = list(side) if isinstance(side, list | tuple | Mapping) else [side]
    if not members:
        raise InputError("notion: got an empty collection; name at least one notion.")
    rates = tuple(dict.fromkeys(rate for member in members for rate in named_notion(member, "notion").rates))
    names = [rate.name for rate in rates]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"notion: two different rates are called {name!r}; give each a name of its own.")
    return Notion("audited", given=rates)


def checked_chances(decisions: object, *, chances: bool) -> Floats:
    """Chances of acceptance, one per row; without ``chances`` 0 and 1 alone: scores would look like chances."""
    chance = inputs.numbers(decisions, "decisions")
    inputs.not_empty(chance.size, "decisions")
    outside, between = (chance < 0.0) | (chance > 1.0), (chance > 0.0) & (chance < 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise InputError(f"decisions: row {row} is {chance[row]:g}; pass 0 and 1, or probabilities of acceptance.")
    if not chances and between.any():
        row = int(np.argmax(between))
        raise InputError(
            f"decisions: row {row} is {chance[row]:g}, which is no decision; pass scores >= 0.5, or chances=True if "
            "these are chances of acceptance."
        )
    return chance


# ---------------------------------------------------------------- two rules on the same rows


def compared_audits(
    before: Floats,
    after: Floats,
    rows: tuple[Any, ...],
    local: tuple[Rate, ...],
    global_: tuple[Rate, ...],
    costs: Costs | None = None,
    requirements: tuple[Requirement, ...] = (),
    known: tuple[Label | None, ...] | None = None,
    shares: Mapping[Requirement, float] | None = None,
    best: Floats | None = None,
    *,
    gaps: bool = True,
) -> Comparison:
    """Compare two rules on checked rows: ``(labels, weights, groups, sites, ids)`` as `tally_of` takes them.

    The second is judged by requirements, as by `_audited`, the first being the unconstrained rule; ``best``: chances by
    the best rules that meet what sites require of themselves, where they are known. Without ``gaps`` the changes of the
    largest gaps, the dearest figures at many sites, are left out.
    """
    rules = CountedRules.of(before, after, rows)
    rules = rules if best is None else replace(rules, best=CountedRules.of(best, after, rows))
    assert rules.before is not None
    assert rules.changes is not None
    second = _audited(rules, local, global_, requirements, known, shares, costs=costs)
    comparisons = second.local.comparisons, second.global_.comparisons
    first = Audit.of(rules.before, rules.groups, rules.sites, local, global_, comparisons=comparisons, costs=costs)
    inside, everywhere = rules.changes
    mass = float(everywhere.rises.mass.sum())
    changed = float(everywhere.rises.accepted.sum() + everywhere.falls.sum()) / mass if mass > 0 else None
    accuracy = None if rows[0] is None else _gain_per_row(after - before, rows, ACCURACY)
    saved = None if rows[0] is None or costs is None else _gain_per_row(after - before, rows, costs)
    return Comparison(
        first,
        second,
        accuracy=accuracy,
        accepted=_mean(everywhere),
        global_gap=_gap_change(first.global_, second.global_, everywhere) if gaps else None,
        local_gap=_gap_change(first.local, second.local, inside) if gaps else None,
        cost=None if saved is None else saved.times(-1.0),
        changed=changed,
    )


def _gain_per_row(change: Floats, rows: tuple[Any, ...], costs: Costs) -> Measured | None:
    """The first rule's cost per row less the second's; ``change`` are the second's chances less the first's."""
    unit = costs.largest
    gain = change * costs.at(rows[3].codes).gain(rows[0]) / unit
    mean = _mean(Changes.of(gain, as_one_site(rows)))
    return None if mean is None else mean.times(unit)


def _mean(changes: Changes) -> Measured | None:
    """The mean change over all rows, with its interval."""
    falls, squared = (part.sum(1, keepdims=True) for part in (changes.falls, changes.squared))
    everybody = Changes(changes.rises.summed(1), falls, squared)
    (mean,), (error,) = (part[0] for part in everybody.rates(_EVERYBODY))
    if np.isnan(mean):
        return None
    half, rows = float(-ndtri(TAIL)) * np.sqrt(error), int(everybody.rises.people[..., 2].sum())
    return Measured(mean, low=max(-1.0, float(mean - half)), high=min(1.0, float(mean + half)), rows=rows)


def _gap_change(first: Side, second: Side, changes: Changes) -> Measured | None:
    """Change of the largest gap, with an interval that is valid whichever pairs of groups are the worst in truth."""
    if np.isnan(first.gaps).all() or np.isnan(second.gaps).all():
        return None
    difference = float(np.nanmax(second.gaps) - np.nanmax(first.gaps))
    means, errors = map(np.stack, zip(*map(first.gathered(changes).rates, first.rates), strict=True))
    high = min(_bound_by_pairs(second, first, errors), _bound_by_changes(second, means, errors))
    low = -min(_bound_by_pairs(first, second, errors), _bound_by_changes(first, -means, errors))
    known = np.isfinite(low) and np.isfinite(high)
    return Measured(
        difference,
        low=max(-1.0, min(low, difference)) if known else None,
        high=min(1.0, max(high, difference)) if known else None,
        rows=int(min(side.gap_rows.ravel()[np.nanargmax(side.gaps)] for side in (first, second))),
    )


def _bound_by_pairs(side: Side, other: Side, changed: Floats) -> float:
    """Upper bound on this side's largest gap less the other's, from pairs of groups.

    The other's largest gap is at least that of the pair that looks worst there. This side's is that of one of its
    candidates, and the bound holds for each of them. The pair that looks worst on the other side was chosen by the same
    rows, so the error is divided among all of its candidates. ``changed`` are squared standard errors of the changes of
    rates.
    """
    at = np.unravel_index(int(np.nanargmax(other.gaps)), other.gaps.shape)
    ends = other.ends[at].tolist()
    pairs = np.ndindex(len(other.rates), len(other.groups))
    chosen = sum(int(other.candidates(rate, first).sum()) for rate, first in pairs)
    errors, (own, others) = float(-ndtri(0.5 * TAIL / max(chosen, 1))), (each.squared_errors for each in (side, other))
    covariance = 0.5 * (own + others - changed)[at]  # covariance of the two rules' rates of each group, at that site
    most = -np.inf
    for rate, first in np.ndindex(len(side.rates), len(side.groups)):
        squared = own[rate, :, first : first + 1] + own[rate] + others[at][ends].sum()
        if rate == at[0]:
            for end, sign in zip(ends, (2.0, -2.0), strict=True):  # the same people count in both gaps
                squared[at[1], end] += sign * covariance[end]
                squared[at[1]] -= sign * covariance[first] * (first == end)
        gaps = side.values[rate, :, first : first + 1] - side.values[rate] - other.gaps[at]
        limits = gaps + errors * np.sqrt(np.maximum(squared, 0.0))
        most = max(most, _largest(limits, side.candidates(rate, first)))
    return most


def _bound_by_changes(side: Side, change: Floats, errors: Floats) -> float:
    """Upper bound on this side's largest gap less the other's: the largest change of any candidate's gap.

    Whichever pair is worst on this side, its gap on the other side is at most the largest there.
    """
    most = -np.inf
    for rate, first in np.ndindex(len(side.rates), len(side.groups)):
        changed = change[rate, :, first : first + 1] - change[rate]
        half = float(-ndtri(0.5 * TAIL)) * np.sqrt(errors[rate, :, first : first + 1] + errors[rate])
        most = max(most, _largest(changed + half, side.candidates(rate, first)))
    return most


def _largest(values: Floats, which: Booleans) -> float:
    """The largest of the marked values; minus infinity where there are none."""
    return float(np.max(values, where=which & ~np.isnan(values), initial=-np.inf))
