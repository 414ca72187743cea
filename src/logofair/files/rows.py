"""The rows of some data in memory: the named columns of one or more files, checked and ready to fit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, nearest_name, shown
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, DataSource, site_name
from logofair.files.tables import estimated_rows, fingerprint, kind_of, open_table
from logofair.files.values import (
    as_chances,
    as_numbers,
    binary_labels,
    check_scores,
    check_sites,
    combine_columns,
    group_parts,
    is_number,
    join_groups,
    plain_values,
)
from logofair.progress import Progress, Stages, no_progress

if TYPE_CHECKING:
    import polars

_LISTED = 10


@dataclass(frozen=True, eq=False)
class DataRows:
    """Checked columns, as :func:`logofair.fit` takes them; None where there is no such column.

    ``dropped``: how many rows were left out because they lack a value. ``group_parts`` are the values of the group
    columns by the group's name.
    """

    scores: Floats | None
    labels: npt.NDArray[np.int64] | None
    groups: npt.NDArray[Any]
    sites: npt.NDArray[Any] | None
    weights: Floats | None
    ids: npt.NDArray[Any] | None
    dropped: int
    source: DataSource
    group_parts: Mapping[Any, tuple[Any, ...]]


def read_rows(
    files: DataFiles,
    columns: ColumnNames,
    progress: Progress = no_progress,
    *,
    option: str = "--where",
) -> DataRows:
    """Read the named columns of all files; ``option`` asked for these rows."""
    wanted = columns.by_role()
    with Stages(progress, "Reading", sum(map(estimated_rows, files.paths))) as stages:
        read = [_part(path, files, columns, wanted, stages.done) for path in files.paths]
    parts = [part for part, _ in read]
    if not any(part.height for part in parts):
        raise no_rows_error(files, columns, option)
    combined = {role: whole_column([part[role] for part in parts], role, files, columns) for role in parts[0].columns}
    group_columns = [combined.pop(role) for role in parts[0].columns if role.startswith("group ")]
    group = join_groups(group_columns)
    if "site" in combined:
        check_sites(combined["site"].n_unique(), group.len(), columns.site)
    combined["group"] = group
    arrays = {role: _array(column) for role, column in combined.items()}
    return DataRows(
        scores=arrays.get("score"),
        labels=arrays.get("label"),
        groups=arrays["group"],
        sites=arrays.get("site"),
        weights=arrays.get("weight"),
        ids=arrays.get("id"),
        dropped=sum(left_out for _, left_out in read),
        source=source_of(files, columns, group.len()),
        group_parts=group_parts(group_columns, group),
    )


def source_of(files: DataFiles, columns: ColumnNames, rows: int) -> DataSource:
    """Where so many rows came from."""
    names = tuple(path.name for path in files.paths)
    marks = {path: fingerprint(path) for path in files.paths}
    mark = marks[files.paths[0]]
    if len(marks) > 1:  # that of the list of them
        lines = (f"{marks[path]}  {path.name}" for path in sorted(marks, key=lambda path: path.name))
        mark = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return DataSource(files.name, names, mark, rows, columns.described())


def no_rows_error(files: DataFiles, columns: ColumnNames, option: str = "--where") -> InputError:
    """Say why no row is left: none has the values ``option`` asked for, or all lack a value."""
    if columns.unless and any(_has_rows(path, (*columns.where, *columns.unless)) for path in files.paths):
        return InputError(f"--test-where: takes every row of {files.name}; none is left to fit on.")
    if not columns.where or any(_has_rows(path, columns.where) for path in files.paths):
        return InputError(f"{files.name}: every row lacks a value in some column named; nothing is left to work on.")
    for condition in columns.where:
        if not any(_has_rows(path, [condition]) for path in files.paths):
            name, value = condition
            seen = _values(files, name)
            hint = nearest_name(value, [text for text in seen if text != value])
            *others, last = [*map(shown, seen[:_LISTED]), *(["more"] if len(seen) > _LISTED else [])] or [
                "no value at all"
            ]
            listed = f"{', '.join(others)} and {last}" if others else last
            return InputError(f"{option}: no row has {name}={value}{hint}; {name} holds {listed}.")
    return InputError(f"{option}: no row has {columns.conditions}, though some have each of them; ask for less.")


def _has_rows(path: Path, where: Sequence[tuple[str, str]]) -> bool:
    """Whether a file has rows with these values."""
    with open_table(path, {}, where) as table:
        return table.collect(table.numbered.head(1)).height > 0


def _values(files: DataFiles, name: str) -> list[str]:
    """The values of a column, as they are typed; one more than are listed."""
    pl, seen = polars_module(), dict[str, None]()
    for path in files.paths:
        with open_table(path, {"value": name}) as table:
            texts = pl.col("value").cast(pl.String).drop_nulls().unique().sort().head(_LISTED + 1)
            seen |= dict.fromkeys(table.collect(table.rows.select(texts)).to_series().to_list())
        if len(seen) > _LISTED:
            break
    return sorted(seen)[: _LISTED + 1]


def _part(
    path: Path, files: DataFiles, columns: ColumnNames, wanted: dict[str, str], seen: Callable[[int], None]
) -> tuple[polars.DataFrame, int]:
    """One file's complete rows, with numbers as such and scores as chances; and how many rows were left out."""
    pl = polars_module()
    with open_table(path, wanted, columns.where, unless=columns.unless, missing=columns.na, seen=seen) as table:
        rows = table.collect()
        if not rows.height and not columns.conditions:
            raise InputError(f"{path}: has columns but no rows; pass a file with at least one.")
        checked = []  # numbers, or of a kind that labels may have; null where a value is missing
        for column in rows.get_columns():
            role, scale = column.name, columns.scale if column.name == "score" else "chance"
            expected = "numbers" if is_number(role) else "text or numbers"
            values = plain_values(column, table.where(role), expected)
            if is_number(role):
                values = as_numbers(values, values.dtype, scale)
                if values.null_count() > column.null_count():
                    table.check_numbers(role, scale)  # which names the row by its number in the file
            checked.append(values.fill_nan(None) if values.dtype.is_float() else values)
        rows = pl.DataFrame(checked)
        complete = rows.drop_nulls()
        if "weight" in wanted and (rows["weight"] < 0).any():
            table.check_weights()
        for role in rows.columns if not columns.drop_missing else ():
            table.check_missing(role, rows[role].null_count(), rows.height)
        if "score" in wanted and complete.height:
            scores = complete["score"]
            check_scores(float(scores.min()), float(scores.max()), columns.scale, table.where("score"))
            complete = complete.with_columns(as_chances(pl.col("score"), columns.scale))
    if files.by_file:
        complete = complete.with_columns(site=pl.lit(site_name(path)))
    return complete, rows.height - complete.height


def whole_column(parts: Sequence[polars.Series], role: str, files: DataFiles, columns: ColumnNames) -> polars.Series:
    """A column of all files, with labels and decisions as 0 and 1."""
    named = columns.by_role().get(role)
    if named is None or is_number(role):
        column: polars.Series = polars_module().concat(list(parts))
        return column
    places = [f"{path}: column {named!r}" for path in files.paths]
    column = combine_columns(parts, places, [kind_of(path) == "CSV" for path in files.paths])
    if role not in ("label", "decision"):
        return column
    positive = columns.positive
    if role == "decision" and positive not in column.cast(polars_module().String).to_list():
        positive = None  # the decisions have other names than the labels
    return binary_labels(column, f"{files.name}: column {named!r}", positive, "--positive")


def _array(column: polars.Series) -> npt.NDArray[Any]:
    """A column as an array; rows of the same text share it."""
    pl = polars_module()
    if column.dtype != pl.String:
        return np.array(column.to_numpy())
    names = column.unique(maintain_order=True)
    places = column.cast(pl.Enum(names)).to_physical().to_numpy()
    texts: npt.NDArray[Any] = np.array(names.to_list(), dtype=object)[places]
    return texts
