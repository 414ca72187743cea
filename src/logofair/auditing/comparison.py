"""Two decision rules on the same rows: the difference of each figure, with the interval that pairing allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from logofair.auditing.chance import TAIL
from logofair.auditing.gaps import Side
from logofair.auditing.judging import CountedRules, count_comparisons, judge
from logofair.auditing.measure import Changes, Measured, as_one_site
from logofair.auditing.result import Audit, plain_figures
from logofair.auditing.rows import checked_columns
from logofair.columns.checks import Floats, Label, same_order
from logofair.columns.segments import Booleans
from logofair.costs import ACCURACY, Costs, read_costs
from logofair.notions import Rate
from logofair.outcomes import TEST_ROWS, Outcomes
from logofair.reportable import Reportable
from logofair.requirement import Requirement

_EVERYBODY = Rate("everybody", constant=1.0, slope=0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Reportable):
    """The second rule less the first on the same rows, as :func:`compare` found it.

    ``accuracy``, ``cost``, ``accepted``, ``global_gap`` and ``local_gap`` are differences, each a :class:`Measured`
    with its 95% interval, or None where undefined; ``first`` and ``second`` are the audits of the two rules.
    ``changed`` is the share of the rows whose decision changes, in expectation; None where it was not counted.

    Examples
    --------
    >>> from logofair.auditing import compare
    >>> group, label = ["M"] * 60 + ["F"] * 60, [1] * 40 + [0] * 20 + [1] * 40 + [0] * 20
    >>> print(compare([1] * 60 + [0] * 60, [1] * 40 + [0] * 20 + [1] * 40 + [0] * 20, label, sensitive_features=group))
    These decisions: 120 people, F and M.
    <BLANKLINE>
    gap in points    before   everyone   could be   between
    selection rate    100.0        0.0    0 to 18   –
    <BLANKLINE>
    Gap        No gap detected: up to 18 points could hide
    Cost       50.0 -> 100.0 % accuracy; could be 40.9 to 59.1 points won
    Accepted   F 0 -> 67 %, M 100 -> 67 %; 60 of 120 decisions change
    <BLANKLINE>
    """

    first: Audit
    second: Audit
    accuracy: Measured | None
    accepted: Measured | None
    global_gap: Measured | None
    local_gap: Measured | None
    cost: Measured | None = None
    changed: float | None = None

    @classmethod
    def of(cls, first: Audit, second: Audit) -> Comparison:
        """Compare two audits by their figures alone: differences have no interval."""

        def difference(name: str) -> Measured | None:
            before, after = getattr(first, name), getattr(second, name)
            return None if before is None or after is None else Measured(after - before, rows=after.rows)

        names = ("accuracy", "accepted", "global_gap", "local_gap", "cost")
        return cls(first, second, **{name: difference(name) for name in names})

    @property
    def rows(self) -> int:
        """How many rows were measured."""
        return int(self.second.global_.tally.rows.sum())

    def unknown_sites(self, sites: Sequence[Label | None]) -> tuple[list[Label], int]:
        """The sites of the rows that are not among these, which a policy knows, and their rows."""
        found, known = self.second, set(sites)
        if known == {None}:
            return [], 0
        unknown = [place for place, name in enumerate(found.sites) if name not in known]
        return [found.sites[place] for place in unknown], int(found.local.tally.rows[unknown].sum())

    def figures(self) -> dict[str, Any]:
        """Return both rules' rates, accuracy and cost as plain values, ready for JSON."""
        before, after = self.first, self.second
        names = ("accuracy", "accepted", *([] if after.cost is None else ["cost"]))
        first, second = before.rates, after.rates
        figures: dict[str, Any] = {
            "rates": {
                rate: {group: {"before": first[rate][group], "after": row[group]} for group in row}
                for rate, row in second.items()
            },
            **{
                name: {
                    "before": getattr(before, name),
                    "after": getattr(after, name),
                    "difference": getattr(self, name),
                }
                for name in names
            },
            "by_site": [vars(each) for each in after.by_site] if len(after.sites) > 1 else [],
        }
        return {"rows": self.rows, "fitted_rows": after.fitted_rows, **plain_figures(figures)}

    @property
    def outcomes(self) -> Outcomes:
        """What was found about requirements of the second rule, the first's figures beside."""
        return self.second.outcomes

    def __repr__(self) -> str:
        return self.summary()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        names = ("accuracy", "cost", "accepted", "global_gap", "local_gap", "changed")
        return {name: plain_figures(getattr(self, name)) for name in names}


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
    same_order(decisions=decisions, others=others)
    columns = (labels, sensitive_features, sites, notion, None, sample_weight, ids)
    first, second = (checked_columns(each, *columns, chances=chances) for each in (decisions, others))
    priced = None if costs is None else read_costs(costs, first.site)
    return compared_audits(first.chance, second.chance, first.columns, first.local.rates, first.global_.rates, priced)


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
) -> Comparison:
    """Compare two rules on checked rows: ``(labels, weights, groups, sites, ids)`` as `tally_of` takes them.

    The second is judged by requirements, which are about the sites that are ``known``, the first being the
    unconstrained rule. ``shares`` are the shares of the rows that bounds in people come to.
    """
    rules = CountedRules.of(before, after, rows)
    comparisons = count_comparisons(requirements, rules, local, global_)
    outcomes = judge(requirements, rules, TEST_ROWS, known=known, shares=shares, comparisons=comparisons)
    assert rules.before is not None
    assert rules.changes is not None
    names, given = (rules.groups, rules.sites), dict[str, Any](comparisons=comparisons, costs=costs)
    first = Audit.of(rules.before, *names, local, global_, **given)
    second = Audit.of(rules.after, *names, local, global_, outcomes=outcomes, **given)
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
        global_gap=_gap_change(first.global_, second.global_, everywhere),
        local_gap=_gap_change(first.local, second.local, inside),
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
    means, errors = map(np.stack, zip(*map(changes.rates, first.rates), strict=True))
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
    ends = int(other.highest[at]), int(other.lowest[at])
    pairs = np.ndindex(len(other.rates), len(other.groups))
    chosen = sum(int(other.candidates(rate, first).sum()) for rate, first in pairs)
    errors, (own, others) = float(-ndtri(0.5 * TAIL / max(chosen, 1))), (each.squared_errors for each in (side, other))
    covariance = 0.5 * (own + others - changed)[at]  # covariance of the two rules' rates of each group, at that site
    most = -np.inf
    for rate, first in np.ndindex(len(side.rates), len(side.groups)):
        squared = own[rate, :, first : first + 1] + own[rate] + others[at][list(ends)].sum()
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
