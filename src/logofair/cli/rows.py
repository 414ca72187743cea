"""The rows of some data in memory, checked and ready to fit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.cli.data import ColumnNames, DataFiles
from logofair.columns.checks import Floats, nearest_name, shown
from logofair.errors import InputError
from logofair.files.scan import Scan, refuse_text, scanned
from logofair.files.tables import DataSource, fingerprint, kind_of, number_values, polars_module
from logofair.files.values import (
    as_chances,
    check_clients,
    check_scores,
    join_groups,
    refuse_missing,
    two_values,
    united,
)

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

__all__ = ["DataRows", "read_rows", "refuse_unmatched"]


_LISTED = 10


def refuse_unmatched(files: DataFiles, columns: ColumnNames) -> None:
    """Raise where no row has all the values asked for, with those that there are.

    Examples
    --------
    >>> import tempfile
    >>> from logofair.cli.data import find_files
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("p,part", "0.5,test", "0.25,train", sep=chr(10), file=file, flush=True)
    ...     refuse_unmatched(find_files([file.name]), ColumnNames(where=(("part", "tets"),)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    logofair.errors.InputError: --where: no row has part=tets (did you mean 'test'?); part holds 'test' and 'train'.
    """
    if not columns.where or any(_matched(path, columns.where) for path in files.paths):
        return
    for condition in columns.where:
        if not any(_matched(path, [condition]) for path in files.paths):
            name, value = condition
            seen = _values(files, name)
            hint = nearest_name(value, [text for text in seen if text != value])
            raise InputError(f"--where: no row has {name}={value}{hint}; {name} holds {_listed(seen)}.")
    raise InputError(f"--where: no row has {columns.conditions}, though some have each of them; ask for less.")


def _matched(path: Path, where: Sequence[tuple[str, str]]) -> bool:
    """Whether a file has such a row."""
    with scanned(path, {}, where) as scan:
        return scan.collect(scan.numbered.head(1)).height > 0


def _values(files: DataFiles, name: str) -> list[str]:
    """The values of a column, as they are typed; one more than are listed."""
    pl, seen = polars_module(), dict[str, None]()
    for path in files.paths:
        with scanned(path, {"value": name}) as scan:
            texts = pl.col("value").cast(pl.String).drop_nulls().unique().sort().head(_LISTED + 1)
            seen |= dict.fromkeys(scan.collect(scan.table.select(texts)).to_series().to_list())
        if len(seen) > _LISTED:
            break
    return sorted(seen)[: _LISTED + 1]


def _listed(values: list[str]) -> str:
    """Values for people."""
    if not values:
        return "no value at all"
    if len(values) > _LISTED:
        return ", ".join(map(shown, values[:_LISTED])) + " and more"
    *others, last = map(shown, values)
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, eq=False)
class DataRows:
    """Checked columns, as :func:`logofair.fit` takes them; None where there is no such column.

    ``dropped``: how many rows were left out because they lack a value.
    """

    scores: Floats | None
    labels: npt.NDArray[np.int64] | None
    groups: npt.NDArray[Any]
    clients: npt.NDArray[Any] | None
    weights: Floats | None
    dropped: int
    source: DataSource


def read_rows(files: DataFiles, columns: ColumnNames, progress: Progress) -> DataRows:
    """Read the named columns of all files.

    Examples
    --------
    >>> import tempfile
    >>> from logofair.cli.pages.console import showing_progress
    >>> from logofair.cli.data import find_files
    >>> with tempfile.TemporaryDirectory() as folder, showing_progress(quiet=True) as progress:
    ...     for site in ("north", "south"):
    ...         with Path(folder, f"{site}.csv").open("w") as file:
    ...             print("p,sex", "0.5,F", "0.75,M", sep=chr(10), file=file)
    ...     rows = read_rows(find_files([folder]), ColumnNames(score="p", group=("sex",)), progress)
    >>> rows.clients.tolist(), rows.groups.tolist(), rows.source.rows
    (['north', 'north', 'south', 'south'], ['F', 'M', 'F', 'M'], 4)
    """
    read = [_part(path, files, columns) for path in progress(files.paths, "Reading", len(files.paths))]
    parts = [part for part, _ in read]
    whole = {role: _whole([part[role] for part in parts], role, files, columns) for role in parts[0].columns}
    group = join_groups([whole.pop(role) for role in parts[0].columns if role.startswith("group ")])
    rows = group.len()
    if not rows:
        refuse_unmatched(files, columns)
        raise InputError(f"{files.name}: every row lacks a value in some column named; nothing is left to work on.")
    found: dict[str, Any] = {role: _array(column) for role, column in whole.items()}
    if "client" in found:
        check_clients(whole["client"].n_unique(), rows, columns.client)
    names = tuple(path.name for path in files.paths)
    source = DataSource(files.name, names, _fingerprint(files.paths), rows, columns.described())
    return DataRows(
        scores=found.get("score"),
        labels=found.get("label"),
        groups=_array(group),
        clients=found.get("client"),
        weights=found.get("weight"),
        dropped=sum(left_out for _, left_out in read),
        source=source,
    )


def _part(path: Path, files: DataFiles, columns: ColumnNames) -> tuple[polars.DataFrame, int]:
    """One file's complete rows, with scores and weights as numbers; and how many rows were left out."""
    pl = polars_module()
    with scanned(path, columns.by_role(), columns.where) as scan:
        table = scan.collect(scan.table)
        if not table.height and not columns.where:
            raise InputError(f"{path}: has columns but no rows; pass a file with at least one.")
        for role in ("score", "weight"):
            if role in scan.names:
                table = table.with_columns(_numbers(scan, table[role]))
        complete = table.drop_nulls()
        for role in table.columns if not columns.drop_missing else ():
            refuse_missing(table[role].null_count(), table.height, scan.where(role))
        if "score" in scan.names and complete.height:
            low, high = complete.select(pl.col("score").min(), pl.col("score").max().alias("high")).row(0)
            check_scores(low, high, columns.scale, scan.where("score"))
            complete = complete.with_columns(as_chances(pl.col("score"), columns.scale))
    if files.by_file:
        complete = complete.with_columns(client=pl.lit(path.stem))
    return complete, table.height - complete.height


def _numbers(scan: Scan, column: polars.Series) -> polars.Series:
    """A column of numbers, null where one is missing; raise where a cell is none."""
    pl, role = polars_module(), column.name
    if column.dtype == pl.String and column.cast(pl.Float64, strict=False).null_count() > column.null_count():
        refuse_text(scan, role)  # which names the row by its number in the file
    numbers: polars.Series = pl.Series(role, number_values(column, scan.where(role))).fill_nan(None)
    return numbers


def _whole(parts: Sequence[polars.Series], role: str, files: DataFiles, columns: ColumnNames) -> polars.Series:
    """A column of all files."""
    if role in ("score", "weight") or (role == "client" and files.by_file):
        column: polars.Series = polars_module().concat(list(parts))
        return column
    named = columns.by_role()[role]
    places = [f"{path}: column {named!r}" for path in files.paths]
    column = united(parts, places, [kind_of(path) == "CSV" for path in files.paths])
    if role != "label":
        return column
    return two_values(column, f"{files.name}: column {named!r}", columns.positive, "--positive")


def _array(column: polars.Series) -> npt.NDArray[Any]:
    """A column as an array; rows of the same text share it."""
    pl = polars_module()
    if column.dtype != pl.String:
        return np.array(column.to_numpy())
    names = column.unique(maintain_order=True)
    places = column.cast(pl.Enum(names)).to_physical().to_numpy()
    global_: npt.NDArray[Any] = np.array(names.to_list(), dtype=object)[places]
    return global_


def _fingerprint(paths: Sequence[Path]) -> str:
    """Of one file its own; of several that of the list of them."""
    if len(paths) == 1:
        return fingerprint(paths[0])
    listed = "\n".join(f"{fingerprint(path)}  {path.name}" for path in sorted(paths, key=lambda path: path.name))
    return hashlib.sha256(listed.encode()).hexdigest()
