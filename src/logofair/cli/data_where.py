"""What to say where no row has the values asked for by ``--where``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from logofair.cli.data import Columns, DataFiles
from logofair.cli.data_scan import scanned
from logofair.inputs import InputError, nearest_name, shown
from logofair.tables import polars_module

__all__ = ["refuse_unmatched"]

_LISTED = 10


def refuse_unmatched(files: DataFiles, columns: Columns) -> None:
    """Raise where no row has all the values asked for, with those that there are.

    Examples
    --------
    >>> import tempfile
    >>> from logofair.cli.data import find_files
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("p,part", "0.5,test", "0.25,train", sep=chr(10), file=file, flush=True)
    ...     refuse_unmatched(find_files([file.name]), Columns(where=(("part", "tets"),)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    logofair.inputs.InputError: --where: no row has part=tets (did you mean 'test'?); part holds 'test' and 'train'.
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
