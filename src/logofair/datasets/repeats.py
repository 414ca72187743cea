"""Rows that would count twice: a person in two files, or twice in one, and a state in two files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from logofair.datasets.streams import Table
from logofair.inputs import InputError
from logofair.tables import polars_module

if TYPE_CHECKING:
    import polars

__all__ = ["Repeats", "refuse_shared"]


class Repeats:
    """Remembers who was read, 8 bytes a row, and finds out who was read before; ``columns`` say who a row is.

    Examples
    --------
    >>> import polars
    >>> from pathlib import Path
    >>> people = Repeats(("ID",))
    >>> for name in ("a.csv", "b.csv"):
    ...     people.add(Table(Path(name), None, ("ID",), ",", 9), polars.DataFrame({"ID": ["07", "8"]}))
    >>> people.refuse()
    Traceback (most recent call last):
    logofair.inputs.InputError: b.csv: 2 of its 2 rows are in a.csv too (the same ID); leave one of the files.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._of: dict[str, list[npt.NDArray[np.uint64]]] = {}

    def add(self, table: Table, rows: polars.DataFrame) -> None:
        """Note the rows of a piece of a table; those that do not tell who they are go unseen."""
        pl = polars_module()
        # "06", 6 and 6.0 are one number, whatever kind of file it stands in.
        cells = [
            pl.col(name).cast(pl.String).str.strip_suffix(".0").str.strip_chars_start("0") for name in self._columns
        ]
        marks = rows.select(mark=pl.concat_str(cells, separator=" "))["mark"].drop_nulls()
        self._of.setdefault(table.where, []).append(marks.hash().to_numpy())

    def refuse(self) -> None:
        """Raise one sentence where a row is there twice."""
        found = {where: np.concatenate(parts) for where, parts in self._of.items()}
        if not found or _repeated(np.concatenate(list(found.values()))) == 0:
            return
        what, before = " and ".join(self._columns), dict[str, npt.NDArray[np.uint64]]()
        for where, own in found.items():
            if inside := _repeated(own):
                raise InputError(
                    f"{where}: {inside:,} of its {own.size:,} rows repeat the {what} of another row in it; "
                    "download it again, or take them out."
                )
            for other, theirs in before.items():
                if common := np.intersect1d(own, theirs).size:
                    both = f"{common:,} of its {own.size:,} rows are in {other} too (the same {what})"
                    raise InputError(f"{where}: {both}; leave one of the files.")
            before[where] = own


def _repeated(marks: npt.NDArray[np.uint64]) -> int:
    return int(marks.size - np.unique(marks).size)


def refuse_shared(places: Mapping[str, set[str]], what: str) -> None:
    """Raise one sentence where two tables have rows of one place: they do not tell whether these are the same people.

    Examples
    --------
    >>> refuse_shared({"a.csv": {"CA", "TX"}, "b.parquet": {"CA"}}, "the state")
    Traceback (most recent call last):
    logofair.inputs.InputError: b.parquet: has rows of the state CA, as a.csv has, and may repeat it; leave one of them.
    """
    first: dict[str, str] = {}
    for where, own in places.items():
        for place in sorted(own):
            if place in first:
                both = f"has rows of {what} {place}, as {first[place]} has, and may repeat it"
                raise InputError(f"{where}: {both}; leave one of them.")
            first[place] = where
