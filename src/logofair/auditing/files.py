"""Audits of users' files: of decisions or scores in them, or of a policy compared with another rule on their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.impact import ImpactRatios, impact_tables
from logofair.auditing.judging import CountedRules, count_comparisons, judge
from logofair.auditing.measure import Tally, people_of, with_both_labels
from logofair.auditing.result import Audit, Comparison
from logofair.auditing.rows import AuditedRows, checked_columns, compared_audits, policy_costs, policy_requirements
from logofair.columns.attributes import read_groups
from logofair.columns.checks import Floats, listed_names, shown
from logofair.columns.labels import Codes, check_groups, check_spelling, encode, one_site
from logofair.costs import Costs, read_costs
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, DataSource, find_files, site_name
from logofair.files.rows import DataRows, no_rows_error, read_rows, source_of, whole_column
from logofair.files.tables import Table, estimated_rows, open_table
from logofair.files.values import (
    CostsText,
    as_chances,
    check_scores,
    check_sites,
    costs_by_site,
    label_text,
    places_by_text,
    plain_values,
)
from logofair.notions import DEMOGRAPHIC_PARITY, NOTIONS, Notion
from logofair.outcomes import TEST_ROWS, Outcomes
from logofair.policy.deciding import columns_of_fit
from logofair.policy.policy import Policy
from logofair.progress import Stages
from logofair.records import Intersection, Result
from logofair.requirement import Requirement, read_requirements
from logofair.requirements import Requirements, requirements_of_notion

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

UNCONSTRAINED = "unconstrained"  # the policy's own unconstrained rule
_BASE = "base"  # the rule that accepts scores >= threshold
_COUNTS = ("rows", "mass", "accepted", "people", "squares", "accepted squares")
_MOST_CELLS = 2_000_000  # more combinations of site, group and label than this are ids passed by mistake


@dataclass(frozen=True)
class RuleNames:
    """A policy's file, and the rule ``against`` which to compare it: `UNCONSTRAINED`, the base rule, or another file.

    ``scale`` is that of the scores, ``na`` the texts that stand for a missing value; None: as in the fit.
    """

    policy: Path
    against: str = UNCONSTRAINED
    threshold: float = 0.5
    scale: str | None = None
    na: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class ComparedRules:
    """A policy against another rule on the same rows; differences, by notion, are its figures less the other's.

    ``in_fit`` says which of the rows the policy was fitted on: "all", "some", "none", "unknown", or "another file";
    ``against_in_fit`` says so of the other policy, None where the other rule is none. ``unknown`` is how many rows are
    of sites that the policy does not know, and took its merged rule.
    """

    policy: Policy
    name: str
    against: str
    by_notion: Mapping[str, Comparison]
    rows: DataRows
    unknown: int
    in_fit: str
    against_in_fit: str | None


@dataclass(frozen=True, eq=False)
class FileAudit(Result):
    """What an audit of files found, by notion; ``compared``: of a policy, ``ratios``: where asked for alone."""

    files: DataFiles
    columns: ColumnNames
    threshold: float | None
    rows: int
    dropped: int
    by_notion: dict[str, Audit]
    outcomes: Outcomes
    compared: ComparedRules | None = None
    ratios: ImpactRatios | None = None

    @property
    def first(self) -> Audit:
        """Any of the audits: all are of the same rows."""
        return next(iter(self.by_notion.values()))

    @cached_property
    def source(self) -> DataSource:
        """Where the rows came from."""
        if self.compared is not None:
            return self.compared.rows.source
        return source_of(self.files, self.columns, self.rows)

    @property
    def impact(self) -> ImpactRatios:
        """Selection rates and impact ratios by each column of groups, and by all of them."""
        if self.ratios is not None:
            return self.ratios
        assert self.compared is not None  # else they are asked of `categories`, which also counts unknown ones
        parts = [tuple(each) if isinstance(each, Intersection) else (each,) for each in self.first.groups]
        return impact_tables(self.first.local.tally, parts, self.columns.group)

    def in_json(self) -> dict[str, Any]:
        """Return rates first, every figure with its interval and rows."""
        first, rules, compared = self.first, _rule_values(self.by_notion), None
        if (found := self.compared) is not None:
            compared = {
                "policy": found.name,
                "against": found.against,
                "rows_in_fit": found.in_fit,
                "rows_in_fit_of_other": found.against_in_fit,
                "unknown_site_rows": found.unknown,
                "differences": found.by_notion,
                "other": _rule_values({name: each.first for name, each in found.by_notion.items()}),
            }
        gaps = rules.pop("gaps")
        return {
            "data": self.files.name,
            "files": len(self.files.paths),
            "columns": self.columns.described(),
            "threshold": self.threshold,
            "rows": self.rows,
            "rows_left_out": self.dropped,
            "groups": first.groups,
            "fitted_rows": first.fitted_rows,
            "costs": first.costs,
            **rules,
            "outcomes": self.outcomes,
            "notions": {name: gaps[name] | {"small": each.small} for name, each in self.by_notion.items()},
            "compared": compared,
            "sites": [self._site(place) for place in range(len(first.sites))],
        }

    def _site(self, place: int) -> dict[str, Any]:
        """A site with its rates and gaps."""
        side, costs = self.first.local, self.first.costs
        tally, audits = side.tally.only(place), self.by_notion.values()
        accuracy, cost = tally.measured_accuracy(), None if costs is None else tally.measured_cost(costs.only(place))
        rates = {rate: row for audit in audits for rate, row in audit.local.measured_rates(place).items()}
        return {
            "site": side.sites[place],
            "rows": int(tally.rows.sum()),
            "rows_by_group": tally.rows.sum(2)[0],
            "rates": rates,
            "accuracy": None if accuracy is None else float(accuracy),
            "cost": None if cost is None else float(cost),
            "gaps": {name: audit.site_gaps[place] for name, audit in self.by_notion.items()},
        }


def _rule_values(audits: Mapping[str, Audit]) -> dict[str, Any]:
    """What a rule does as plain values, with its largest gaps by notion."""
    first = next(iter(audits.values()))
    rates = {rate: row for audit in audits.values() for rate, row in audit.rates.items()}
    figures = {"rates": rates, "accepted": first.accepted, "accuracy": first.accuracy, "cost": first.cost}
    return {**figures, "gaps": {name: audit.headline for name, audit in audits.items()}}


def examine(
    data: Sequence[str],
    columns: ColumnNames,
    threshold: float,
    notion: Sequence[str],
    progress: Progress,
    costs: CostsText | None = None,
    wanted: tuple[Requirement, ...] | None = None,
) -> FileAudit:
    """Audit decisions, or scores from a threshold on, in files: the notions named, or all that the labels allow."""
    files = find_files(data, site=columns.site)
    columns.require(files, group="the groups to compare, such as sex")
    _require_decisions(files, columns)
    notions = _notions(notion, costs, files, columns)
    rules, rows, dropped = _count_rows(files, columns, threshold, progress)
    tally, groups, sites = rules.after, rules.groups, rules.sites
    priced = _costs(costs, Codes(sites, np.zeros(0, dtype=np.int32)), None)
    if any(item.needs_unconstrained for item in wanted or ()):
        raise InputError(
            "--require: 'today' and losses compare with a policy's unconstrained rule; add --policy, or require "
            "something else."
        )
    people = tuple(tally.mass.sum(axis=(1, 2)).tolist())
    required = Requirements(wanted or (), sites, groups, people=people, column=columns.group[0])
    measured = [each for each in notions if tally.labelled or not each.needs_labels]
    rates = tuple(dict.fromkeys(rate for each in measured for rate in each.rates))
    comparisons = count_comparisons(required.items, rules, rates, rates)
    audits = {
        each.name: Audit.of(tally, groups, sites, each.rates, comparisons=comparisons, costs=priced)
        for each in measured
    }
    outcomes = judge(required.items, rules, TEST_ROWS, shares=required.shares, comparisons=comparisons)
    return FileAudit(files, columns, None if columns.decision else threshold, rows, dropped, audits, outcomes)


def wanted_requirements(
    notions: Sequence[str], local_tolerance: float | None, global_tolerance: float | None, sentences: Sequence[str]
) -> tuple[Requirement, ...] | None:
    """The requirements of an audit: gaps of some notions within tolerances, and sentences; None where neither is given.

    Examples
    --------
    >>> list(map(str, wanted_requirements((), None, 0.1, ["accepted <= 0.2 overall"]) or ()))
    ['selection rate gap <= 0.1 overall', 'accepted <= 0.2 overall']
    """
    within = local_tolerance is not None or global_tolerance is not None
    if not within and not sentences:
        return None
    names = notions or ([DEMOGRAPHIC_PARITY.name] if within else [])
    items = (item for name in names for item in requirements_of_notion(name, local_tolerance, global_tolerance)[0])
    return tuple(dict.fromkeys((*items, *read_requirements(sentences))))


def _require_decisions(files: DataFiles, columns: ColumnNames) -> None:
    """Raise unless the files have either scores or decisions."""
    if columns.decision is None:
        columns.require(files, score="scores (or --decision that of decisions)")
    elif columns.score is not None:
        raise InputError("--decision: given together with --score; audit either the scores or the decisions.")


def _notions(names: Sequence[str], costs: CostsText | None, files: DataFiles, columns: ColumnNames) -> list[Notion]:
    """The notions named, by default all; raise where one of these, or a cost, needs labels that are not there."""
    if any(NOTIONS[name].needs_labels for name in names):
        columns.require(files, label="labels, which these notions count by")
    if costs is not None:
        columns.require(files, label="labels, which tell the errors that --costs is of")
    return [NOTIONS[name] for name in dict.fromkeys(names or NOTIONS)]


def categories(data: Sequence[str], columns: ColumnNames, threshold: float, progress: Progress) -> FileAudit:
    """Impact ratios of the categories in files, and nothing else of an audit."""
    used = columns.only("score", "decision", "weight", "id", "site")
    files = find_files(data, site=used.site)
    used.require(files, group="the categories, such as sex")
    _require_decisions(files, used)
    rules, rows, dropped = _count_rows(files, used, threshold, progress, unknown=True)
    ratios = impact_tables(rules.after, rules.groups, used.group)
    limit = None if used.decision else threshold
    return FileAudit(files, used, limit, rows, dropped, {}, Outcomes(), ratios=ratios)


# ---------------------------------------------------------------- a policy's decisions


def examine_policy(
    data: Sequence[str],
    columns: ColumnNames,
    names: RuleNames,
    notion: Sequence[str],
    progress: Progress,
    costs: CostsText | None = None,
    wanted: tuple[Requirement, ...] | None = None,
) -> FileAudit:
    """Audit a policy's decisions on the rows of files, in expectation over its coins, and compare it with another rule.

    Columns that are not named are those of the fit; requirements and costs that are not given are the policy's.
    """
    if columns.decision is not None:
        raise InputError("--decision: given together with --policy; audit either the decisions or the policy.")
    notions = _notions(notion, costs, find_files(data, site="any"), columns)
    policy = Policy.load(names.policy)
    files, named = _policy_columns(policy, data, columns, names)
    rows = read_rows(files, named, progress)
    after, unknown = _chances(policy, rows, names.policy.name)
    before, other, other_in_fit = _other_rule(data, columns, names, policy, rows, progress)
    given = (rows.labels, rows.groups, rows.sites, "demographic_parity", rows.scores, rows.weights, rows.ids)
    checked = checked_columns(after, *given)
    in_fit, labelled = _rows_in_fit(policy, rows.source), checked.positive is not None
    priced = _costs(costs, checked.site, policy) if labelled else None
    compared: dict[str, Comparison] = {}
    measured = [each for each in notions if labelled or not each.needs_labels]
    for each in progress(measured, "Comparing", len(measured)):
        found = compared_audits(before, after, checked.columns, each.rates, each.rates, priced)
        second = replace(found.second, fitted_rows=in_fit in ("all", "some"))
        compared[each.name] = replace(found, second=second)
    outcomes = _outcomes(policy, checked, rows, wanted, before)
    against = ComparedRules(policy, names.policy.name, other, compared, rows, unknown, in_fit, other_in_fit)
    audits = {name: found.second for name, found in compared.items()}
    limit = names.threshold if names.against == _BASE else None
    return FileAudit(files, named, limit, rows.source.rows, rows.dropped, audits, outcomes, against)


def _costs(costs: CostsText | None, sites: Codes, policy: Policy | None) -> Costs | None:
    """What errors cost, by default as in the policy."""
    given = costs_by_site(costs, None if sites.names == (None,) else list(sites.names))
    return policy_costs(policy, sites.names) if given is None else read_costs(given, sites, "--costs")


def _outcomes(
    policy: Policy, checked: AuditedRows, rows: DataRows, wanted: tuple[Requirement, ...] | None, before: Floats
) -> Outcomes:
    """Outcomes of the requirements given, or else of the policy's own.

    ``before`` are the chances of the rule that the policy is compared with; for a limit of "today" the unconstrained
    rule takes its place.
    """
    names = (checked.group.names, checked.site.names)
    counted = of_today = CountedRules.of(before, checked.chance, checked.columns, changes=False)
    if wanted is None:
        required, known = policy_requirements(policy, *names)
    else:
        people = np.bincount(checked.site.codes, checked.weight, minlength=len(names[1]))
        required, known = Requirements(wanted, *names[::-1], people=tuple(map(float, people))), names[1]
    if any(each.needs_unconstrained for each in required.items):
        first = _chances(policy, rows, "", unconstrained=True)[0]
        of_today = CountedRules.of(first, checked.chance, checked.columns)
        of_today = replace(of_today, costs=policy_costs(policy, checked.site.names))
    comparisons = count_comparisons(required.items, counted)
    given: dict[str, Any] = {"known": known or names[1], "shares": required.shares, "comparisons": comparisons}
    found = [
        judge([each], of_today if each.needs_unconstrained else counted, TEST_ROWS, **given) for each in required.items
    ]
    return Outcomes(tuple(outcome for each in found for outcome in each))


def _policy_columns(
    policy: Policy, data: Sequence[str], columns: ColumnNames, names: RuleNames
) -> tuple[DataFiles, ColumnNames]:
    """The files, and their columns: those named, and for the others the columns of the fit."""
    files, named = columns_of_fit(policy, data, columns, names.scale, names.na)
    if policy.site is not None and columns.site is None:  # then all rows are of the policy's site
        named = replace(named, site=None)
    named.require(files, score="the model's scores", group="the groups")
    return (files if policy.site is None else replace(files, by_file=False)), named


def _rows_in_fit(policy: Policy, source: DataSource) -> str:
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


def _conditions(text: str) -> list[dict[str, str]]:
    """Columns and values that rows must have, and those that they must not have, read from `ColumnNames.conditions`."""
    have, _, have_not = f" and {text}".partition(" and not ")
    pairs = ([pair.partition("=") for pair in part.split(" and ") if pair] for part in (have, have_not))
    return [{name: value for name, _, value in part} for part in pairs]


def _other_rule(
    data: Sequence[str], columns: ColumnNames, names: RuleNames, policy: Policy, rows: DataRows, progress: Progress
) -> tuple[Floats, str, str | None]:
    """The other rule's chances on the same rows, its name, and which of the rows it was fitted on."""
    assert rows.scores is not None
    if names.against == UNCONSTRAINED:
        return _chances(policy, rows, "", unconstrained=True)[0], "no requirement", None
    if names.against == _BASE:
        return (rows.scores >= names.threshold).astype(np.float64), f"score >= {names.threshold:g}", None
    other, name = Policy.load(names.against), Path(names.against).name
    files, named = _policy_columns(other, data, columns, names)
    own = rows if named.described() == rows.source.columns else read_rows(files, named, progress)
    if own.source.rows != rows.source.rows:
        raise InputError(
            f"--against: {own.source.rows:,} rows are complete for this policy, {rows.source.rows:,} for the first; "
            "leave the others out of the file to compare on the same rows."
        )
    return _chances(other, own, name)[0], name, _rows_in_fit(other, rows.source)


def _chances(policy: Policy, rows: DataRows, name: str, *, unconstrained: bool = False) -> tuple[Floats, int]:
    """A policy's chances of acceptance, and how many rows are of sites that it does not know.

    ``unconstrained``: those of its unconstrained rule.
    """
    assert rows.groups is not None
    groups, places = places_by_text(rows.groups, policy.groups), None
    if (groups < 0).any() and not policy.looks_away:
        strange, known = rows.groups.labels[groups < 0], listed_names(policy.groups, 6)
        raise InputError(
            f"--group: {strange.size:,} rows are of groups that {name} does not know, such as {shown(strange[0])} "
            f"(it knows {known}); leave them out, or correct --group."
        )
    if policy.has_sites:
        if rows.sites is None:
            many = f"{len(policy.sites):,} sites"
            raise InputError(f"--site: not given, but {name} has rules for {many}; name the column of sites.")
        places = places_by_text(rows.sites, policy.sites)
        if (places < 0).any() and not policy.has_merged:
            strange = rows.sites[places < 0]
            raise InputError(
                f"--site: {strange.size:,} rows are of sites that {name} does not know, such as "
                f"{shown(strange[0])}, and it has no merged rule for them; leave such rows out."
            )
    elif policy.site is not None and rows.sites is not None:
        others = [other for other in encode(rows.sites, "sites").names if label_text(other) != policy.site]
        if others:
            raise InputError(
                f"--site: {name} is of site {policy.site!r} alone, but there are rows of "
                f"{listed_names(others)}; leave them out."
            )
    sites = None if places is None else Codes(policy.sites, places)
    decide = policy.unconstrained if unconstrained else policy.probabilities
    seen: dict[str, Any] = {"sensitive_features": Codes(policy.groups, groups)}
    if policy.looks_away:
        seen = {"group_probabilities": rows.probabilities or None}
    chance = decide(rows.scores, sites=sites, on_unknown="merged", **seen)
    return chance, 0 if places is None else int((places < 0).sum())


# ---------------------------------------------------------------- rows counted in one pass over each file
# No file needs to fit into memory: it becomes a table with a line for every site, group, label and decision.


def _count_rows(
    files: DataFiles, columns: ColumnNames, threshold: float, progress: Progress, *, unknown: bool = False
) -> tuple[CountedRules, int, int]:
    """Count the rows of every site, group and label, and how many of them are accepted; and rows used and left out.

    With ``unknown`` rows that lack a group count too: groups are then tuples, None in place of a missing value.
    """
    with Stages(progress, "Counting", sum(map(estimated_rows, files.paths))) as stages:
        read = [_part(path, columns, threshold, stages.done, unknown=unknown) for path in files.paths]
    parts, pl = [part for part, _ in read], polars_module()
    if files.by_file:
        parts = [part.with_columns(site=pl.lit(site_name(path))) for part, path in zip(parts, files.paths, strict=True)]
    used = [role for role in parts[0].columns if role in _COUNTS or role in columns.by_role() or role == "site"]
    counted = [role for role in used if role not in ("score", "weight")]
    lines = {role: whole_column([part[role] for part in parts], role, files, columns) for role in counted}
    parts_of_groups = [lines.pop(role) for role in used if role.startswith("group ")]
    rows = int(lines["rows"].sum())
    if not rows:
        raise no_rows_error(files, columns)
    if "site" in lines:
        check_sites(lines["site"].n_unique(), rows, columns.site)
    if unknown:
        groups = encode(list(zip(*parts_of_groups, strict=True)), "groups")
    else:
        named = zip(columns.group, (part.to_list() for part in parts_of_groups), strict=True)
        groups = read_groups(dict(named), "--group", rows)
    sites = encode(lines["site"].to_list(), "sites") if "site" in lines else one_site(len(groups))
    if len(groups.names) < 2 and not unknown:
        where, only = " and ".join(map(repr, columns.group)), groups.names[0]
        raise InputError(f"--group: every row of {where} is of group {only!r}; a gap needs at least two groups.")
    if not unknown:
        if len(parts_of_groups) == 1:
            check_groups(groups.names, rows, "--group")
        check_spelling(sites.names, "--site")
    tally = _tallied(lines, groups, sites, labelled=columns.label is not None)
    return CountedRules(tally, groups.names, sites.names), rows, sum(left_out for _, left_out in read)


def _tallied(lines: dict[str, polars.Series], groups: Codes, sites: Codes, *, labelled: bool) -> Tally:
    """The tally of a table's lines, each of which stands for several rows."""
    shape, group = (len(sites.names), len(groups.names)), groups.codes.astype(np.intp)
    cell = sites.codes * shape[1] + group
    label = lines["label"].to_numpy().astype(np.intp) if labelled else np.zeros_like(cell)
    numbers = {role: lines[role].cast(polars_module().Float64).to_numpy() for role in _COUNTS if role in lines}
    rows, decision = numbers["rows"], lines["decision"].to_numpy() if "decision" in lines else None
    mass = numbers.get("mass", rows)
    accepted = numbers["accepted"] if decision is None else mass * decision

    def summed(values: Floats) -> Floats:
        sums = np.bincount(2 * cell + label, values, minlength=2 * shape[0] * shape[1])
        return np.asarray(sums, dtype=np.float64).reshape(*shape, 2)

    def integers(values: Floats) -> npt.NDArray[np.intp]:
        return summed(values).round().astype(np.intp)

    if "id" not in lines:
        squared = numbers.get("squares", rows)
        accepted_squared = numbers.get("accepted squares", accepted if decision is None else squared * decision)
        counts = integers(numbers.get("people", rows)), summed(squared), summed(accepted_squared)
        people, squares, products = map(with_both_labels, counts)
        return Tally(integers(rows), summed(mass), summed(accepted), people, squares, labelled, products)
    chance = np.divide(accepted, mass, out=np.zeros_like(mass), where=mass > 0)
    ids = encode(lines["id"].to_list(), "ids")
    people, squares, products = people_of(cell, label, mass, chance, ids, shape)
    tally = Tally(integers(rows), summed(mass), summed(accepted), people, squares, labelled, products)
    # Over all sites people are counted again: one who is at two of them is one person.
    people, squares, products = people_of(group, label, mass, chance, ids, (1, shape[1]))
    return replace(tally, over_all=replace(tally.summed(0), people=people, squares=squares, products=products))


def _part(
    path: Path, columns: ColumnNames, threshold: float, seen: Callable[[int], None], *, unknown: bool
) -> tuple[polars.DataFrame, int]:
    """One file's table, checked, and how many rows were left out; rows without a group stay with ``unknown``."""
    pl = polars_module()
    roles, missing = columns.by_role(), columns.na
    with open_table(path, roles, columns.where, missing=missing, scale=columns.scale, seen=seen) as table:
        numbers = [role for role in ("score", "weight") if role in table.names]
        schema = table.rows.collect_schema()
        for role, kind in schema.items():  # refuses dates, lists and whatever else no column may hold
            expected = "numbers" if role in numbers else "text or numbers"
            plain_values(pl.Series([], dtype=kind), table.where(role), expected)
        keys = [role for role in table.names if role not in numbers]
        rows = table.rows.with_columns(*(each for role in numbers for each in _number(table, role)))
        counted = table.collect(rows.group_by(keys).agg(*_sums(numbers, columns, threshold)))
        needed = [role for role in keys if not (unknown and role.startswith("group "))]
        _check(table, counted, keys, needed, columns)
        complete = counted.drop_nulls(needed) if needed else counted
        left_out = int(counted["lines"].sum()) - int(complete["rows"].sum())
        return complete.filter(pl.col("rows") > 0), left_out


def _number(table: Table, role: str) -> list[Any]:
    """A column of numbers, null where one is missing; and for text a mark on cells that hold something else."""
    pl, read = polars_module(), table.numbers(role)
    unread = pl.col(role).is_not_null() & read.is_null()  # NaN can be read
    is_text = table.rows.collect_schema()[role] == pl.String
    return [read.fill_nan(None), *([unread.alias(f"unread {role}")] if is_text else [])]


def _sums(numbers: Sequence[str], columns: ColumnNames, threshold: float) -> list[Any]:
    """What each line sums: all rows, complete rows and their mass, accepted mass, and what checks need."""
    pl = polars_module()
    if not numbers:
        return [pl.len().alias("lines"), pl.len().alias("rows")]
    complete, weight = pl.all_horizontal([pl.col(role).is_not_null() for role in numbers]), pl.col("weight")
    found = [pl.len().alias("lines"), complete.sum().alias("rows")]
    found += [pl.col(f"^unread {role}$").any() for role in numbers]
    if "weight" in numbers:
        own = weight.filter(complete)
        found += [own.sum().alias("mass"), weight.min().alias("lightest")]
        found += [(own > 0).sum().alias("people"), (own * own).sum().alias("squares")]
    if "score" in numbers:
        score = pl.col("score")
        taken = as_chances(score, columns.scale) >= threshold
        accepted = taken.sum().cast(pl.Float64)
        if "weight" in numbers:
            accepted = weight.filter(complete & taken).sum()
            found += [(weight**2).filter(complete & taken).sum().alias("accepted squares")]
        found += [accepted.alias("accepted"), score.min().alias("low"), score.max().alias("high")]
    return found


def _check(
    table: Table, counted: polars.DataFrame, keys: Sequence[str], needed: Sequence[str], columns: ColumnNames
) -> None:
    """Raise where a column of the file cannot be used, or a needed one lacks values."""
    pl, rows = polars_module(), int(counted["lines"].sum())
    if not rows and not columns.where:
        raise InputError(f"{table.file}: has columns but no rows; pass a file with at least one.")
    cells = pl.struct([role for role in keys if role != "id"]).n_unique()
    if counted.height > _MOST_CELLS and counted.select(cells).item() > _MOST_CELLS:
        raise InputError(f"{table.file}: has too many sites and groups to audit; name columns of sites, not of ids.")
    for role in ("score", "weight"):
        if f"unread {role}" in counted.columns and counted[f"unread {role}"].any():
            table.check_numbers(role)
    if not columns.drop_missing:
        numbers = [role for role in ("score", "weight") if role in table.names and counted["rows"].sum() < rows]
        for role in (*(role for role in needed if counted[role].null_count()), *numbers):
            table.check_missing(role)
    if "low" in counted.columns and counted["low"].count():
        low, high = counted.select(pl.col("low").min(), pl.col("high").max()).row(0)
        check_scores(low, high, columns.scale, table.where("score"))
    if "lightest" in counted.columns and (counted["lightest"].min() or 0) < 0:  # type: ignore[operator]
        table.check_numbers("weight")
