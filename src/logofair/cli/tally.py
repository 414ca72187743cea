"""Counting for an audit, file by file and in batches: no file needs to fit into memory.

Every file becomes a small table with a line per client, group, label and decision; columns are checked on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.auditing.measure import Tally
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import encode
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles
from logofair.files.rows import no_rows_error, whole_column
from logofair.files.tables import Table, open_table
from logofair.files.values import (
    as_chances,
    check_clients,
    check_missing,
    check_scores,
    join_groups,
    number,
    plain_values,
)

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

__all__ = ["FileTally", "count_rows"]


_COUNTS = ("rows", "mass", "accepted")
_MOST_CELLS = 2_000_000  # more combinations of client, group and label than this are ids passed by mistake


@dataclass(frozen=True, eq=False)
class FileTally:
    """What was counted, with the names of the clients and groups; ``clients`` is (None,) where there are none."""

    tally: Tally
    groups: tuple[Label, ...]
    clients: tuple[Label | None, ...]
    rows: int
    dropped: int

    @property
    def accepted(self) -> float | None:
        """Share of the rows' mass that is accepted."""
        return self.tally.accepted_share()


def count_rows(files: DataFiles, columns: ColumnNames, threshold: float, progress: Progress) -> FileTally:
    """Count the rows of every client, group and label, and how many of them are accepted."""
    read = [_part(path, columns, threshold) for path in progress(files.paths, "Counting", len(files.paths))]
    parts, pl = [part for part, _ in read], polars_module()
    if files.by_file:
        parts = [part.with_columns(client=pl.lit(path.stem)) for part, path in zip(parts, files.paths, strict=True)]
    used = [role for role in parts[0].columns if role in _COUNTS or role in columns.by_role() or role == "client"]
    counted = [role for role in used if role not in ("score", "weight")]
    complete = {role: whole_column([part[role] for part in parts], role, files, columns) for role in counted}
    group = join_groups([complete.pop(role) for role in used if role.startswith("group ")])
    rows = int(complete["rows"].sum())
    if not rows:
        raise no_rows_error(files, columns)
    if "client" in complete:
        check_clients(complete["client"].n_unique(), rows, columns.client)
    tally, groups, clients = _tallied(complete, group, columns)
    if len(groups) < 2:
        where = " and ".join(map(repr, columns.group))
        raise InputError(f"--group: every row of {where} is of group {groups[0]!r}; a gap needs at least two groups.")
    return FileTally(tally, groups, clients, rows, sum(left_out for _, left_out in read))


def _tallied(
    complete: dict[str, polars.Series], group: polars.Series, columns: ColumnNames
) -> tuple[Tally, tuple[Label, ...], tuple[Label | None, ...]]:
    """The lines of the table as arrays by (client, group, label), and the names of groups and clients."""
    groups = encode(group.to_list(), "groups")
    clients = encode(complete["client"].to_list(), "clients") if "client" in complete else None
    names: tuple[Label | None, ...] = (None,) if clients is None else clients.names
    shape = (len(names), len(groups.names), 2)
    cell = groups.codes.astype(np.intp) * 2
    cell += 0 if clients is None else clients.codes.astype(np.intp) * 2 * shape[1]
    cell += complete["label"].to_numpy() if columns.label else 0

    def summed(column: polars.Series) -> Floats:
        sums = np.bincount(cell, column.cast(polars_module().Float64).to_numpy(), minlength=int(np.prod(shape)))
        return np.asarray(sums, dtype=np.float64).reshape(shape)

    mass = complete.get("mass", complete["rows"])
    accepted = mass * complete["decision"] if columns.decision else complete["accepted"]
    rows = summed(complete["rows"]).round().astype(np.intp)
    return Tally(rows, summed(mass), summed(accepted), columns.label is not None), groups.names, names


def _part(path: Path, columns: ColumnNames, threshold: float) -> tuple[polars.DataFrame, int]:
    """One file's table, checked; and how many rows were left out."""
    pl = polars_module()
    with open_table(path, columns.by_role(), columns.where) as table:
        numbers = [role for role in ("score", "weight") if role in table.names]
        schema = table.rows.collect_schema()
        for role, kind in schema.items():  # refuses dates, lists and whatever else no column may hold
            expected = "numbers" if role in numbers else "text or numbers"
            plain_values(pl.Series([], dtype=kind), table.where(role), expected)
        keys = [role for role in table.names if role not in numbers]
        rows = table.rows.with_columns(*(each for role in numbers for each in _number(role, schema[role])))
        counted = table.collect(rows.group_by(keys).agg(*_sums(numbers, columns, threshold)))
        _check(table, counted, keys, columns)
        complete = counted.drop_nulls(keys)
        left_out = int(counted["lines"].sum()) - int(complete["rows"].sum())
        return complete.filter(pl.col("rows") > 0), left_out


def _number(role: str, kind: Any) -> list[Any]:
    """A column of numbers, null where one is missing; and, of text, whether a cell holds something else."""
    pl = polars_module()
    unread = pl.col(role).is_not_null() & pl.col(role).cast(pl.Float64, strict=False).is_null()  # NaN can be read
    return [number(role), *([unread.alias(f"unread {role}")] if kind == pl.String else [])]


def _sums(numbers: Sequence[str], columns: ColumnNames, threshold: float) -> list[Any]:
    """What is counted in each line: all rows, complete rows and their mass, accepted mass, and what checks need."""
    pl = polars_module()
    if not numbers:
        return [pl.len().alias("lines"), pl.len().alias("rows")]
    complete, weighted = pl.all_horizontal([pl.col(role).is_not_null() for role in numbers]), "weight" in numbers
    found = [pl.len().alias("lines"), complete.sum().alias("rows")]
    found += [pl.col(f"^unread {role}$").any() for role in numbers]
    if weighted:
        found += [pl.col("weight").filter(complete).sum().alias("mass"), pl.col("weight").min().alias("lightest")]
    if "score" in numbers:
        accepts = as_chances(pl.col("score"), columns.scale) >= threshold
        accepted = pl.col("weight").filter(complete & accepts).sum() if weighted else accepts.sum().cast(pl.Float64)
        found += [accepted.alias("accepted"), pl.col("score").min().alias("low"), pl.col("score").max().alias("high")]
    return found


def _check(table: Table, counted: polars.DataFrame, keys: Sequence[str], columns: ColumnNames) -> None:
    """Raise where a column of the file cannot be used."""
    pl, rows = polars_module(), int(counted["lines"].sum())
    if not rows and not columns.where:
        raise InputError(f"{table.file}: has columns but no rows; pass a file with at least one.")
    if counted.height > _MOST_CELLS:
        raise InputError(f"{table.file}: has too many clients and groups to audit; name columns of sites, not of ids.")
    for role in ("score", "weight"):
        if f"unread {role}" in counted.columns and counted[f"unread {role}"].any():
            table.check_numbers(role)
    if not columns.drop_missing:
        for role in keys:
            check_missing(int(counted.filter(pl.col(role).is_null())["lines"].sum()), rows, table.where(role))
        for role in ("score", "weight"):
            if role in table.names and counted["rows"].sum() < rows:
                check_missing(_missing(table, role), rows, table.where(role))
    if "low" in counted.columns and counted["low"].count():
        low, high = counted.select(pl.col("low").min(), pl.col("high").max()).row(0)
        check_scores(low, high, columns.scale, table.where("score"))
    if "lightest" in counted.columns and (counted["lightest"].min() or 0) < 0:  # type: ignore[operator]
        raise InputError(f"{table.where('weight')}: holds a negative weight; weights must not be negative.")


def _missing(table: Table, role: str) -> int:
    """How many rows lack a number."""
    return int(table.collect(table.rows.select(number(role).is_null().sum())).item())
