"""Rows of files counted as a tally, in one pass over each file.

No file needs to fit into memory: it becomes a table with a line for every site, group, label and decision, and its
columns are checked on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import Tally, people_of, with_both_labels
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import Codes, check_groups, check_spelling, encode, one_site
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, site_name
from logofair.files.rows import no_rows_error, whole_column
from logofair.files.tables import Table, estimated_rows, open_table
from logofair.files.values import as_chances, as_numbers, check_scores, check_sites, join_groups, plain_values
from logofair.progress import Stages

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

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
    lines = {role: whole_column([part[role] for part in parts], role, files, columns) for role in counted}
    parts_of_groups = [lines.pop(role) for role in used if role.startswith("group ")]
    rows = int(lines["rows"].sum())
    if not rows:
        raise no_rows_error(files, columns)
    if "site" in lines:
        check_sites(lines["site"].n_unique(), rows, columns.site)
    named = list(zip(*parts_of_groups, strict=True)) if unknown else join_groups(parts_of_groups).to_list()
    groups = encode(named, "groups")
    sites = encode(lines["site"].to_list(), "sites") if "site" in lines else one_site(len(groups))
    if len(groups.names) < 2 and not unknown:
        where, only = " and ".join(map(repr, columns.group)), groups.names[0]
        raise InputError(f"--group: every row of {where} is of group {only!r}; a gap needs at least two groups.")
    if not unknown:
        check_groups(groups.names, rows, "--group")
        check_spelling(sites.names, "--site")
    tally = _tallied(lines, groups, sites, labelled=columns.label is not None)
    return FileTally(tally, groups.names, sites.names, rows, sum(left_out for _, left_out in read))


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
        needed = [role for role in keys if not (unknown and role.startswith("group "))]
        _check(table, counted, keys, needed, columns)
        complete = counted.drop_nulls(needed) if needed else counted
        left_out = int(counted["lines"].sum()) - int(complete["rows"].sum())
        return complete.filter(pl.col("rows") > 0), left_out


def _number(role: str, kind: Any, scale: str) -> list[Any]:
    """A column of numbers, null where one is missing; and for text a mark on cells that hold something else."""
    pl = polars_module()
    read = as_numbers(pl.col(role), kind, scale if role == "score" else "chance")
    unread = pl.col(role).is_not_null() & read.is_null()  # NaN can be read
    return [read.fill_nan(None), *([unread.alias(f"unread {role}")] if kind == pl.String else [])]


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
            table.check_numbers(role, columns.scale if role == "score" else "chance")
    if not columns.drop_missing:
        for role in needed:
            table.check_missing(role, int(counted.filter(pl.col(role).is_null())["lines"].sum()), rows)
        for role in ("score", "weight"):
            if role in table.names and counted["rows"].sum() < rows:
                read = _number(role, table.rows.collect_schema()[role], columns.scale)[0]
                table.check_missing(role, int(table.collect(table.rows.select(read.is_null().sum())).item()), rows)
    if "low" in counted.columns and counted["low"].count():
        low, high = counted.select(pl.col("low").min(), pl.col("high").max()).row(0)
        check_scores(low, high, columns.scale, table.where("score"))
    if "lightest" in counted.columns and (counted["lightest"].min() or 0) < 0:  # type: ignore[operator]
        table.check_weights()
