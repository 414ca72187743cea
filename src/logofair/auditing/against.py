"""A stored policy on the rows of some files, compared with another rule on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.auditing import Audit, Comparison
from logofair.auditing.comparison import compared_audits
from logofair.auditing.judging import CountedRules, judge, looked_at
from logofair.auditing.result import FITTED_ROWS, RuleAudit
from logofair.auditing.rows import AuditedRows, checked_columns, policy_costs, policy_requirements
from logofair.columns.checks import Floats, Integers, Label, listed, shown
from logofair.columns.labels import Codes, encode
from logofair.costs import Costs, read_costs
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, DataFiles, DataSource, find_files
from logofair.files.rows import DataRows, read_rows
from logofair.files.tables import column_names
from logofair.files.values import CostsText, costs_by_site, label_text
from logofair.notions import NOTIONS, Notion
from logofair.outcomes import TEST_ROWS, Outcomes
from logofair.policy.info import ColumnsInfo
from logofair.policy.policy import Policy
from logofair.progress import Progress
from logofair.requirement import TODAY
from logofair.requirements import Requirements

# What people want of decisions that are there already, of their groups, their sites and so many rows.
Wanted: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Sequence[float]], Requirements]

UNCONSTRAINED = "unconstrained"  # the policy's own rule that nothing is required of
BASE = "base"  # the rule that accepts scores from the threshold on

_IN_FIT = {
    "all": FITTED_ROWS,
    "some": "some of these rows chose the rule, so that these figures are no test of it; leave those out (--where)",
    "none": "these rows of the file took no part in the fit",
    "another file": "this is another file than that of the fit; whether people are the same is not checked",
    "unknown": "the policy does not tell which file it was fitted on, so that these rows may be of the fit",
}


@dataclass(frozen=True)
class RuleNames:
    """A policy's file and the rule to compare it with: its own that nothing is required of, or another.

    Another is a policy's file, or `BASE`, score >= ``threshold``.

    ``scale`` is that of the scores, ``na`` the texts that stand for a missing value; None: as in the fit.
    """

    policy: Path
    against: str = UNCONSTRAINED
    threshold: float = 0.5
    scale: str | None = None
    na: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class ComparedRules:
    """A policy against another rule on the same rows: for every notion the difference, the policy less the other.

    ``in_fit`` says which of the rows the policy was fitted on: "all", "some", "none", "unknown", or "another file";
    ``against_in_fit`` the same of another policy, None of score >= threshold. ``unknown`` are the rows of sites that
    the policy does not know, which took its merged rule.
    """

    policy: Policy
    name: str
    against: str
    by_notion: Mapping[str, Comparison]
    columns: ColumnNames
    rows: DataRows
    unknown: int
    in_fit: str
    against_in_fit: str | None
    outcomes: Outcomes = field(default_factory=Outcomes)

    @property
    def sentence(self) -> str:
        """Whether the rows tested the policy, in words without a full stop."""
        return _IN_FIT[self.in_fit]

    @property
    def policy_audit(self) -> RuleAudit:
        """What the policy does on the rows."""
        found = _rule_audit({name: found.second for name, found in self.by_notion.items()})
        return replace(found, outcomes=self.outcomes)

    @property
    def against_audit(self) -> RuleAudit:
        """What the other rule does on the rows."""
        return _rule_audit({name: found.first for name, found in self.by_notion.items()})

    def required(self, notion: str) -> Floats | None:
        """What the policy requires of a notion inside the rows' sites, (rates, sites); None: nothing.

        A policy that knows no sites requires nothing inside them.
        """
        rules, local = self.policy, self.by_notion[notion].second.local
        required = [
            item
            for item in rules.info.requirements.items
            if item.measure == "gap" and item.rates == NOTIONS[notion].rates and isinstance(item.bound, float)
        ]
        if not rules.has_sites:
            return None
        each = [
            min([float(item.bound) for item in required if item.scope.covers(site)], default=np.inf)  # type: ignore[arg-type]
            for site in local.sites
        ]
        tolerance = np.array([each] * len(local.rates))
        return tolerance if np.isfinite(tolerance).any() else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "policy": self.name,
            "against": self.against,
            "rows_in_fit": self.in_fit,
            "rows_in_fit_of_other": self.against_in_fit,
            "unknown_site_rows": self.unknown,
            "sentence": self.sentence,
            "differences": {name: found.as_dict() for name, found in self.by_notion.items()},
            "other": self.against_audit.as_dict(),
        }


def _rule_audit(audits: dict[str, Audit]) -> RuleAudit:
    first = next(iter(audits.values()))
    return RuleAudit(first.local.tally, audits, first.costs)


def compare_rules(
    data: Sequence[str],
    columns: ColumnNames,
    names: RuleNames,
    notions: Sequence[Notion],
    progress: Progress,
    costs: CostsText | None = None,
    wanted: Wanted | None = None,
) -> ComparedRules:
    """Decide on the rows of files by a policy and by another rule, in expectation over coins, and compare them.

    What ``columns`` does not name is as in the fit; what is not ``wanted`` or costs otherwise is as in the policy.
    """
    rules = Policy.load(names.policy)
    files, named = policy_columns(rules, data, columns, names)
    rows = read_rows(files, named, progress)
    after, unknown = _chances(rules, rows, names.policy.name)
    before, other, other_in_fit = _others(data, columns, names, rules, rows, progress)
    checked = _checked(after, rows)
    in_fit = rows_in_fit(rules, rows.source)
    measured = [notion for notion in notions if checked.positive is not None or not notion.needs_labels]
    steps = progress(measured, "Comparing", len(measured))
    fitted = in_fit in ("all", "some")
    priced = None if checked.positive is None else _costs(costs, rules, checked)
    compared = {notion.name: _compared(before, checked, notion, priced, fitted=fitted) for notion in steps}
    outcomes = _outcomes(rules, checked, rows, wanted, before)
    found = (rules, names.policy.name, other, compared, named, rows, unknown, in_fit, other_in_fit)
    return ComparedRules(*found, outcomes)


def _costs(costs: CostsText | None, policy: Policy, rows: AuditedRows) -> Costs | None:
    """What errors cost, by default as in the policy."""
    sites = None if rows.site.names == (None,) else list(rows.site.names)
    given = costs_by_site(costs, sites)
    return policy_costs(policy, rows.site.names) if given is None else read_costs(given, rows.site, "--costs")


def _outcomes(policy: Policy, checked: AuditedRows, rows: DataRows, wanted: Wanted | None, before: Floats) -> Outcomes:
    """What is found of what was wanted, or else of what the policy was made for.

    Before is the rule that the policy is compared with; where a limit is what the unconstrained rule gives, that one.
    """
    names = (checked.group.names, checked.site.names)
    columns = (checked.positive, checked.weight, checked.group, checked.site, checked.ids)
    counted = CountedRules.of(before, checked.chance, columns, ())
    if wanted is None:
        required, known = policy_requirements(policy, *names)
    else:
        required, known = wanted(*names, counted.after.site_mass), names[1]
    sentences, there, of_today = required.items, known or names[1], counted
    if any(each.bound == TODAY for each in sentences):
        first = _chances(policy, rows, "", unconstrained=True)[0]
        of_today = CountedRules.of(first, checked.chance, columns, sentences)
    together = looked_at(sentences, counted)
    given: dict[str, Any] = {"known": there, "shares": required.shares, "together": together}
    found = [judge([each], of_today if each.bound == TODAY else counted, TEST_ROWS, **given) for each in sentences]
    return Outcomes(tuple(outcome for each in found for outcome in each))


def policy_columns(
    policy: Policy, data: Sequence[str], columns: ColumnNames, names: RuleNames
) -> tuple[DataFiles, ColumnNames]:
    """The files, and the columns named with those of the fit for the others."""
    named = (policy.info.columns or ColumnsInfo()).filling(columns, names.scale, names.na)
    if columns.site is None and (
        policy.site is not None  # then all rows are of the policy's site
        or named.site not in (None, *column_names(find_files(data, site="any").paths[0]))  # or named by their files
    ):
        named = replace(named, site=None)
    files = find_files(data, site=named.site)
    named.require(files, score="the model's scores", group="the groups")
    return (files if policy.site is None else replace(files, by_file=False)), named


def rows_in_fit(policy: Policy, source: DataSource) -> str:
    """Which of the rows of some files the policy was fitted on: "all", "some", "none", "unknown", or "another file"."""
    fitted = policy.info.data
    if fitted is None:
        return "unknown"
    if fitted.fingerprint != source.fingerprint:
        return "another file"
    here, there = (each.columns.get("where", "") for each in (source, fitted))
    if here == there:
        return "all"
    (has, _), (had, had_not) = _conditions(here), _conditions(there)
    others = any(has.get(name, value) != value for name, value in had.items())
    return "none" if others or (had_not and had_not.items() <= has.items()) else "some"


def _conditions(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Columns and values that rows have, and those that they have not, of what `ColumnNames.conditions` says."""
    have, _, have_not = f" and {text}".partition(" and not ")
    pairs = [[pair.partition("=") for pair in part.split(" and ") if pair] for part in (have, have_not)]
    has, has_not = ({name: value for name, _, value in part} for part in pairs)
    return has, has_not


def _others(
    data: Sequence[str], columns: ColumnNames, names: RuleNames, rules: Policy, rows: DataRows, progress: Progress
) -> tuple[Floats, str, str | None]:
    """The other rule's chances on the same rows, its name, and which of the rows it was fitted on."""
    assert rows.scores is not None
    if names.against == UNCONSTRAINED:
        return _chances(rules, rows, "", unconstrained=True)[0], "no requirement", None
    if names.against == BASE:
        return (rows.scores >= names.threshold).astype(np.float64), f"score >= {names.threshold:g}", None
    other, name = Policy.load(names.against), Path(names.against).name
    files, named = policy_columns(other, data, columns, names)
    own = rows if named.described() == rows.source.columns else read_rows(files, named, progress)
    if own.source.rows != rows.source.rows:
        raise InputError(
            f"--against: {own.source.rows:,} rows are complete for this policy, {rows.source.rows:,} for the first; "
            "leave the others out of the file to compare on the same rows."
        )
    return _chances(other, own, name)[0], name, rows_in_fit(other, rows.source)


def _chances(policy: Policy, rows: DataRows, name: str, *, unconstrained: bool = False) -> tuple[Floats, int]:
    """A policy's chances of acceptance, and how many rows are of sites that it does not know.

    ``unconstrained``: those of its rule that nothing is required of.
    """
    groups, numbers = _numbers(rows.groups, policy.groups), None
    if (groups < 0).any():
        strange, known = rows.groups[groups < 0], listed(map(repr, policy.groups), len(policy.groups), 6)
        raise InputError(
            f"--group: {strange.size:,} rows are of groups that {name} does not know, such as {shown(strange[0])} "
            f"(it knows {known}); leave them out, or correct --group."
        )
    if policy.has_sites:
        if rows.sites is None:
            many = f"{len(policy.sites):,} sites"
            raise InputError(f"--site: not given, but {name} has rules for {many}; name the column of sites.")
        numbers = _numbers(rows.sites, policy.sites)
        if (numbers < 0).any() and not policy.has_merged:
            strange = rows.sites[numbers < 0]
            raise InputError(
                f"--site: {strange.size:,} rows are of sites that {name} does not know, such as "
                f"{shown(strange[0])}, and it lacks the rule of all sites taken as one; leave such rows out."
            )
    elif policy.site is not None and rows.sites is not None:
        _check_site(policy.site, rows.sites, name)
    sites = None if numbers is None else Codes(policy.sites, numbers)
    decide = policy.unconstrained if unconstrained else policy.probabilities
    chance = decide(rows.scores, sensitive_features=Codes(policy.groups, groups), sites=sites, on_unknown="merged")
    return chance, 0 if numbers is None else int((numbers < 0).sum())


def _numbers(labels: npt.NDArray[Any], names: Sequence[Label]) -> Integers:
    """The place of every label among names, found as files hold them; -1 where it is not there."""
    known = {label_text(name): place for place, name in enumerate(names)}
    found = encode(labels, "labels")
    return np.array([known.get(label_text(name), -1) for name in found.names], dtype=np.int32)[found.codes]


def _check_site(site: str, sites: npt.NDArray[Any], name: str) -> None:
    strange = [other for other in encode(sites, "sites").names if label_text(other) != site]
    if strange:
        others = listed(map(repr, strange), len(strange))
        raise InputError(f"--site: {name} is of site {site!r} alone, but there are rows of {others}; leave them out.")


def _checked(chance: Floats, rows: DataRows) -> AuditedRows:
    """The columns of an audit of chances."""
    columns = (rows.labels, rows.groups, rows.sites, "demographic_parity", rows.scores, rows.weights, rows.ids)
    return checked_columns(chance, *columns)


def _compared(before: Floats, rows: AuditedRows, notion: Notion, costs: Costs | None, *, fitted: bool) -> Comparison:
    columns = (rows.positive, rows.weight, rows.group, rows.site, rows.ids)
    found = compared_audits(before, rows.chance, columns, notion.rates, notion.rates, costs)
    return replace(found, second=replace(found.second, fitted_rows=fitted))
