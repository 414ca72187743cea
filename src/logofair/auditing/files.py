"""Files counted and measured: their rows as a small table, the rates and gaps of the notions asked for.

No file needs to fit into memory: each becomes a table with a line per site, group, label and decision, and its columns
are checked on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.auditing.against import BASE, ComparedRules, RuleNames, Wanted, compare_rules
from logofair.auditing.impact import ImpactRatios, impact_tables
from logofair.auditing.measure import Measured, Tally, people_of, value_of, with_both_labels
from logofair.auditing.result import Audit, RuleAudit
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import Codes, check_groups, check_spelling, encode, plain
from logofair.costs import Costs, read_costs
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, DataSource, find_files, site_name
from logofair.files.rows import no_rows_error, source_of, whole_column
from logofair.files.tables import Table, estimated_rows, open_table
from logofair.files.values import (
    CostsText,
    as_chances,
    as_numbers,
    check_scores,
    check_sites,
    costs_by_site,
    join_groups,
    plain_values,
)
from logofair.notions import NOTIONS, Notion
from logofair.progress import Stages
from logofair.requirement import TODAY
from logofair.requirements import Requirements

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

Places: TypeAlias = npt.NDArray[np.intp]

_COUNTS = ("rows", "mass", "accepted", "people", "squares", "accepted squares")
_MOST_CELLS = 2_000_000  # more combinations of site, group and label than this are ids passed by mistake


@dataclass(frozen=True, eq=False)
class FileTally:
    """What was counted, with the names of the sites and groups; ``sites`` is (None,) where there are none."""

    tally: Tally
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]
    rows: int
    dropped: int


@dataclass(frozen=True, eq=False)
class FileAudit:
    """What an audit of files found; ``compared`` where a policy decided.

    ``tolerance`` None is what the policy requires inside sites, for the notions it requires.
    """

    data: str
    files: int
    columns: ColumnNames
    threshold: float | None
    tolerance: float | None
    counted: FileTally
    measured: RuleAudit
    compared: ComparedRules | None = None

    def tolerance_of(self, notion: str) -> Floats | float | None:
        """By what the sites' gaps of a notion are judged, one for all or (rates, sites); None: by nothing."""
        if self.tolerance is not None or self.compared is None:
            return self.tolerance
        return self.compared.required(notion)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: rates first, every figure with its interval and rows."""
        return audit_values(self)

    @property
    def counts(self) -> str:
        """What figures rest on: rows, or people where ids tell them apart."""
        return "rows" if self.columns.id is None else "people"


def examine(
    data: Sequence[str],
    columns: ColumnNames,
    threshold: float,
    tolerance: float,
    notion: Sequence[str],
    progress: Progress,
    costs: CostsText | None = None,
    wanted: Wanted | None = None,
) -> FileAudit:
    """Count the rows of the files and measure the notions asked for; without labels those that need none."""
    files = find_files(data, site=columns.site)
    columns.require(files, group="the groups to compare, such as sex")
    require_decisions(files, columns)
    notions = _notions(notion, files, columns)
    _need_labels(costs, files, columns)
    counted = count_rows(files, columns, threshold, progress)
    priced = _costs(costs, counted)
    required = _requirements(wanted, counted)
    items, shares = ((), None) if required is None else (required.items, required.shares)
    measured = RuleAudit.of(counted.tally, counted.groups, counted.sites, notions, priced, items, shares)
    limit = None if columns.decision else threshold
    return FileAudit(files.name, len(files.paths), columns, limit, tolerance, counted, measured)


def examine_policy(
    data: Sequence[str],
    columns: ColumnNames,
    names: RuleNames,
    tolerance: float | None,
    notion: Sequence[str],
    progress: Progress,
    costs: CostsText | None = None,
    wanted: Wanted | None = None,
) -> FileAudit:
    """Measure a policy on the rows of the files, and compare it with another rule."""
    if columns.decision is not None:
        raise InputError("--decision: given together with --policy; audit either the decisions or the policy.")
    found = find_files(data, site="any")
    notions = _notions(notion, found, columns)
    _need_labels(costs, found, columns)
    compared = compare_rules(data, columns, names, notions, progress, costs, wanted)
    measured, rows = compared.policy_audit, compared.rows
    audit = next(iter(measured.by_notion.values()))
    counted = FileTally(measured.tally, audit.groups, audit.local.sites, rows.source.rows, rows.dropped)
    limit, files = names.threshold if names.against == BASE else None, len(rows.source.files)
    return FileAudit(rows.source.name, files, compared.columns, limit, tolerance, counted, measured, compared)


def require_decisions(files: DataFiles, columns: ColumnNames) -> None:
    """Raise unless the files have either scores or decisions."""
    if columns.decision is None:
        columns.require(files, score="scores (or --decision that of decisions)")
    elif columns.score is not None:
        raise InputError("--decision: given together with --score; audit either the scores or the decisions.")


def _notions(names: Sequence[str], files: DataFiles, columns: ColumnNames) -> list[Notion]:
    """The notions asked for, by default all; labels must be there where one that was asked for counts by them."""
    if any(NOTIONS[name].needs_labels for name in names):
        columns.require(files, label="labels, which these notions count by")
    return [NOTIONS[name] for name in dict.fromkeys(names or NOTIONS)]


def _need_labels(costs: CostsText | None, files: DataFiles, columns: ColumnNames) -> None:
    """Raise where errors have costs and there are no labels to tell them by."""
    if costs is not None:
        columns.require(files, label="labels, which tell the errors that --costs is of")


def _costs(costs: CostsText | None, counted: FileTally) -> Costs | None:
    """What errors cost at every site."""
    if costs is None:
        return None
    names = None if counted.sites == (None,) else list(counted.sites)
    sites = Codes(counted.sites, np.zeros(0, dtype=np.int32))
    return read_costs(costs_by_site(costs, names), sites, "--costs")


def _requirements(wanted: Wanted | None, counted: FileTally) -> Requirements | None:
    """What is wanted."""
    if wanted is None:
        return None
    required = wanted(counted.groups, counted.sites, counted.tally.site_mass)
    if any(item.bound == TODAY for item in required.items):
        raise InputError(
            "--require: today is what a policy gives that nothing is required of; add --policy, or a number."
        )
    return required


def count_rows(
    files: DataFiles, columns: ColumnNames, threshold: float, progress: Progress, *, unknown: bool = False
) -> FileTally:
    """Count the rows of every site, group and label, and how many of them are accepted.

    With ``unknown`` rows that lack a group count too: groups are then tuples, None in place of a missing value.
    """
    with Stages(progress, "Counting", sum(map(estimated_rows, files.paths))) as stages:
        read = [_part(path, columns, threshold, stages.done, unknown=unknown) for path in files.paths]
    parts, pl = [part for part, _ in read], polars_module()
    if files.by_file:
        parts = [part.with_columns(site=pl.lit(site_name(path))) for part, path in zip(parts, files.paths, strict=True)]
    used = [role for role in parts[0].columns if role in _COUNTS or role in columns.by_role() or role == "site"]
    counted = [role for role in used if role not in ("score", "weight")]
    complete = {role: whole_column([part[role] for part in parts], role, files, columns) for role in counted}
    parts_of_groups = [complete.pop(role) for role in used if _is_group(role)]
    rows = int(complete["rows"].sum())
    if not rows:
        raise no_rows_error(files, columns)
    if "site" in complete:
        check_sites(complete["site"].n_unique(), rows, columns.site)
    named = list(zip(*parts_of_groups, strict=True)) if unknown else join_groups(parts_of_groups).to_list()
    tally, groups, sites = _tallied(complete, named, columns)
    if len(groups) < 2 and not unknown:
        where = " and ".join(map(repr, columns.group))
        raise InputError(f"--group: every row of {where} is of group {groups[0]!r}; a gap needs at least two groups.")
    if not unknown:
        check_groups(groups, rows, "--group")
        check_spelling(sites, "--site")
    return FileTally(tally, groups, sites, rows, sum(left_out for _, left_out in read))


def _tallied(
    complete: dict[str, polars.Series], group: list[Any], columns: ColumnNames
) -> tuple[Tally, tuple[Label, ...], tuple[Label | None, ...]]:
    """The lines of the table as arrays by (site, group, label), and the names of groups and sites."""
    groups = encode(group, "groups")
    sites = encode(complete["site"].to_list(), "sites") if "site" in complete else None
    names: tuple[Label | None, ...] = (None,) if sites is None else sites.names
    shape = (len(names), len(groups.names), 2)
    cell = groups.codes.astype(np.intp) * 2
    cell += 0 if sites is None else sites.codes.astype(np.intp) * 2 * shape[1]
    cell += complete["label"].to_numpy() if columns.label else 0

    def summed(column: polars.Series) -> Floats:
        sums = np.bincount(cell, column.cast(polars_module().Float64).to_numpy(), minlength=int(np.prod(shape)))
        return np.asarray(sums, dtype=np.float64).reshape(shape)

    mass = complete.get("mass", complete["rows"])
    accepted = mass * complete["decision"] if columns.decision else complete["accepted"]
    rows, labelled = _integers(summed(complete["rows"])), columns.label is not None
    if "id" in complete:
        tally = _by_person(complete, accepted, cell, rows, summed(mass), summed(accepted), labelled=labelled)
        return tally, groups.names, names
    squares = complete.get("squares", complete["rows"])
    if "accepted squares" in complete:
        products = complete["accepted squares"]
    else:
        products = squares * complete["decision"] if columns.decision else accepted
    people = with_both_labels(_integers(summed(complete.get("people", complete["rows"]))))
    chance = [with_both_labels(summed(each)) for each in (squares, products)]
    return Tally(rows, summed(mass), summed(accepted), people, chance[0], labelled, chance[1]), groups.names, names


def _by_person(
    complete: dict[str, polars.Series],
    accepted: polars.Series,
    cell: Places,
    rows: Places,
    mass: Floats,
    hits: Floats,
    *,
    labelled: bool,
) -> Tally:
    """The tally of lines with ids: people at every site, and over all of them."""
    weight, held = (
        each.cast(polars_module().Float64).to_numpy() for each in (complete.get("mass", complete["rows"]), accepted)
    )
    chance = np.divide(held, weight, out=np.zeros_like(weight), where=weight > 0)
    ids, shape = encode(complete["id"].to_list(), "ids"), (rows.shape[0], rows.shape[1])
    people, squares, products = people_of(cell // 2, cell % 2, weight, chance, ids, shape)
    tally = Tally(rows, mass, hits, people, squares, labelled, products)
    group = cell // 2 % shape[1]
    people, squares, products = people_of(group, cell % 2, weight, chance, ids, (1, shape[1]))
    over_all = replace(tally.summed(0), people=people, squares=squares, products=products)
    return replace(tally, over_all=over_all)


def _integers(counts: Floats) -> Places:
    return counts.round().astype(np.intp)


def _part(
    path: Path, columns: ColumnNames, threshold: float, seen: Callable[[int], None], *, unknown: bool
) -> tuple[polars.DataFrame, int]:
    """One file's table, checked; and how many rows were left out; with ``unknown`` none for lack of a group."""
    pl = polars_module()
    with open_table(path, columns.by_role(), columns.where, missing=columns.na, seen=seen) as table:
        numbers = [role for role in ("score", "weight") if role in table.names]
        schema = table.rows.collect_schema()
        for role, kind in schema.items():  # refuses dates, lists and whatever else no column may hold
            expected = "numbers" if role in numbers else "text or numbers"
            plain_values(pl.Series([], dtype=kind), table.where(role), expected)
        keys = [role for role in table.names if role not in numbers]
        rows = table.rows.with_columns(
            *(each for role in numbers for each in _number(role, schema[role], columns.scale))
        )
        counted = table.collect(rows.group_by(keys).agg(*_sums(numbers, columns, threshold)))
        needed = [role for role in keys if not (unknown and _is_group(role))]
        _check(table, counted, keys, needed, columns)
        complete = counted.drop_nulls(needed) if needed else counted
        left_out = int(counted["lines"].sum()) - int(complete["rows"].sum())
        return complete.filter(pl.col("rows") > 0), left_out


def _number(role: str, kind: Any, scale: str) -> list[Any]:
    """A column of numbers, null where one is missing; and, of text, whether a cell holds something else."""
    pl = polars_module()
    read = as_numbers(pl.col(role), kind, scale if role == "score" else "chance")
    unread = pl.col(role).is_not_null() & read.is_null()  # NaN can be read
    return [read.fill_nan(None), *([unread.alias(f"unread {role}")] if kind == pl.String else [])]


def _sums(numbers: Sequence[str], columns: ColumnNames, threshold: float) -> list[Any]:
    """What is counted in each line: all rows, complete rows and their mass, accepted mass, and what checks need."""
    pl = polars_module()
    if not numbers:
        return [pl.len().alias("lines"), pl.len().alias("rows")]
    complete, weighted = pl.all_horizontal([pl.col(role).is_not_null() for role in numbers]), "weight" in numbers
    found = [pl.len().alias("lines"), complete.sum().alias("rows")]
    found += [pl.col(f"^unread {role}$").any() for role in numbers]
    if weighted:
        weight = pl.col("weight").filter(complete)
        found += [weight.sum().alias("mass"), pl.col("weight").min().alias("lightest")]
        found += [(weight > 0).sum().alias("people"), (weight * weight).sum().alias("squares")]
        if "score" in numbers:
            taken = as_chances(pl.col("score"), columns.scale) >= threshold
            found += [(pl.col("weight") ** 2).filter(complete & taken).sum().alias("accepted squares")]
    if "score" in numbers:
        accepts = as_chances(pl.col("score"), columns.scale) >= threshold
        accepted = pl.col("weight").filter(complete & accepts).sum() if weighted else accepts.sum().cast(pl.Float64)
        found += [accepted.alias("accepted"), pl.col("score").min().alias("low"), pl.col("score").max().alias("high")]
    return found


def _check(
    table: Table, counted: polars.DataFrame, keys: Sequence[str], needed: Sequence[str], columns: ColumnNames
) -> None:
    """Raise where a column of the file cannot be used, or one that is needed lacks values."""
    pl, rows = polars_module(), int(counted["lines"].sum())
    if not rows and not columns.where:
        raise InputError(f"{table.file}: has columns but no rows; pass a file with at least one.")
    if counted.height > _MOST_CELLS and counted.select(pl.struct(_but_id(keys)).n_unique()).item() > _MOST_CELLS:
        raise InputError(f"{table.file}: has too many sites and groups to audit; name columns of sites, not of ids.")
    for role in ("score", "weight"):
        if f"unread {role}" in counted.columns and counted[f"unread {role}"].any():
            table.check_numbers(role, columns.scale if role == "score" else "chance")
    if not columns.drop_missing:
        for role in needed:
            table.check_missing(role, int(counted.filter(pl.col(role).is_null())["lines"].sum()), rows)
        for role in ("score", "weight"):
            if role in table.names and counted["rows"].sum() < rows:
                table.check_missing(role, _missing(table, role, columns.scale), rows)
    if "low" in counted.columns and counted["low"].count():
        low, high = counted.select(pl.col("low").min(), pl.col("high").max()).row(0)
        check_scores(low, high, columns.scale, table.where("score"))
    if "lightest" in counted.columns and (counted["lightest"].min() or 0) < 0:  # type: ignore[operator]
        table.check_weights()


def _is_group(role: str) -> bool:
    return role.startswith("group ")


def _but_id(keys: Sequence[str]) -> list[str]:
    return [role for role in keys if role != "id"]


def _missing(table: Table, role: str, scale: str) -> int:
    """How many rows lack a number."""
    read = _number(role, table.rows.collect_schema()[role], scale)[0]
    return int(table.collect(table.rows.select(read.is_null().sum())).item())


def data_source(found: FileAudit, data: Sequence[str]) -> DataSource:
    """Where the rows came from."""
    if found.compared is not None:
        return found.compared.rows.source
    files = find_files(data, site=found.columns.site)
    return source_of(files, found.columns, found.counted.rows)


def categories(
    data: Sequence[str], columns: ColumnNames, threshold: float, progress: Progress
) -> tuple[ImpactRatios, DataSource, int]:
    """Count the people of every category, of unknown ones too: rates and ratios, where from, and rows left out."""
    used = columns.only("score", "decision", "weight", "id", "site")
    files = find_files(data, site=used.site)
    used.require(files, group="the categories, such as sex")
    require_decisions(files, used)
    counted = count_rows(files, used, threshold, progress, unknown=True)
    ratios = impact_tables(counted.tally, counted.groups, used.group)
    return ratios, source_of(files, used, counted.rows), counted.dropped


def policy_categories(found: FileAudit) -> ImpactRatios:
    """Return the categories of an audit of a policy, by each column of its groups."""
    assert found.compared is not None
    parts = found.compared.rows.group_parts
    return impact_tables(found.counted.tally, [parts[name] for name in found.counted.groups], found.columns.group)


def audit_values(found: FileAudit) -> dict[str, Any]:
    """Plain values, ready for JSON: rates first, every figure with its interval and rows."""
    counted, measured = found.counted, found.measured.as_dict()
    return {
        "data": found.data,
        "files": found.files,
        "columns": found.columns.described(),
        "threshold": found.threshold,
        "tolerance": found.tolerance,
        "rows": counted.rows,
        "rows_left_out": counted.dropped,
        "groups": [plain(name) for name in counted.groups],
        "fitted_rows": any(audit.fitted_rows for audit in found.measured.by_notion.values()),
        "costs": None if found.measured.costs is None else found.measured.costs.as_dict(),
        **{name: measured[name] for name in ("rates", "accepted", "accuracy", "cost")},
        "outcomes": found.measured.outcomes.as_dict(),
        "notions": {name: _notion_dict(audit) for name, audit in found.measured.by_notion.items()},
        "compared": None if found.compared is None else found.compared.as_dict(),
        "sites": list(_sites(found)),
    }


def _notion_dict(audit: Audit) -> dict[str, Any]:
    """One notion's gaps, and how many sites rest on few rows."""
    return audit.largest_as_dict() | {"small": audit.small_as_dict()}


def _sites(found: FileAudit) -> Iterator[dict[str, Any]]:
    """Every site with its rates and gaps."""
    counted, audits = found.counted, found.measured.by_notion
    sizes, accuracy, costs = counted.tally.rows.sum(2), counted.tally.accuracy(), found.measured.costs
    cost = None if costs is None else counted.tally.cost(costs)
    for place, name in enumerate(counted.sites):
        rates = {rate: row for audit in audits.values() for rate, row in audit.local.measured_rates(place).items()}
        yield {
            "site": plain(name),
            "rows": int(sizes[place].sum()),
            "rows_by_group": sizes[place].tolist(),
            "rates": {
                rate: {str(group): _figure(figure) for group, figure in row.items()} for rate, row in rates.items()
            },
            "accuracy": value_of(accuracy[place]),
            "cost": None if cost is None else value_of(cost[place]),
            "gaps": {notion: audit.site_gaps[place].as_dict() for notion, audit in audits.items()},
        }


def _figure(figure: Measured | None) -> dict[str, Any] | None:
    return None if figure is None else figure.as_dict()
