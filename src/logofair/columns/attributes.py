"""Several attributes at once: the groups of each, and of their intersections.

Where several columns are given, rows are ordered into cells by their :class:`Intersection`, such as "women and Black".
A group of one column, such as "women", is a union of these; so is one of some columns together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from logofair.columns.checks import Integers, Label, column, nearest_name, same_length
from logofair.columns.labels import Codes, check_groups, encode, encode_known, sorted_labels
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InputError
from logofair.records import Intersection


@dataclass(frozen=True)
class Attributes:
    """The columns behind some groups: of intersections each of theirs, else a single one, whose name is not known."""

    groups: tuple[Label, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Their names; none where there is a single one."""
        return self.groups[0].columns if self.groups and isinstance(self.groups[0], Intersection) else ()

    @property
    def alone(self) -> list[list[str]]:
        """Each of several columns by itself; none where there is a single one."""
        return [[column] for column in self.columns]

    @cached_property
    def values(self) -> list[tuple[Label, ...]]:
        """The values of every column that occur, in their order in the groups; of a single one the groups."""
        if not self.columns:
            return [self.groups]
        return [tuple(dict.fromkeys(each)) for each in zip(*self.groups, strict=True)]

    def parted(self, by: Iterable[str] | str = ()) -> tuple[tuple[Label, ...], Indices]:
        """The groups of some columns (all: of every one together), and to which of them each intersection belongs.

        Groups of one of several columns are called by their value, or by column and value where it occurs in another.
        """
        every = np.arange(len(self.groups))
        places = list(range(len(self.columns))) if isinstance(by, str) else sorted(map(self.columns.index, by))
        if len(places) == len(self.columns):
            return self.groups, every
        keys = [tuple(group[place] for place in places) for group in self.groups]  # type: ignore[index]
        found = {key: number for number, key in enumerate(sorted(dict.fromkeys(keys), key=self._order(places)))}
        names: list[Label] = [Intersection(key, (self.columns[place] for place in places)) for key in found]
        if len(places) == 1:
            names = [self.name_of(places[0], key[0]) for key in found]
        return tuple(names), np.array([found[key] for key in keys], dtype=np.int64)

    def _order(self, places: Sequence[int]) -> Callable[[tuple[Label, ...]], tuple[int, ...]]:
        """The order in which the groups of some columns stand: by the values, as these are sorted in each."""
        ranks = [{value: rank for rank, value in enumerate(sorted_labels(self.values[place]))} for place in places]
        return lambda key: tuple(rank[value] for rank, value in zip(ranks, key, strict=True))

    def name_of(self, place: int, value: Label) -> Label:
        """How a group of one column is called."""
        alike = sum(str(value) in map(str, values) for values in self.values)
        return value if alike == 1 else f"{self.columns[place]}={value}"

    def members(self, population: Iterable[str | tuple[str, str]]) -> Booleans:
        """Which groups belong to a population, whose members are values or (column, value); the empty one is everyone.

        A value that does not occur is nobody's.
        """
        found = np.ones(len(self.groups), dtype=bool)
        for member in population:
            found &= [self._is_in(group, member) for group in self.groups]
        return found

    def _is_in(self, group: Label, member: str | tuple[str, str]) -> bool:
        if not self.columns:
            return str(group) == (member if isinstance(member, str) else member[1])
        pairs = zip(self.columns, group, strict=True)  # type: ignore[call-overload]
        return any(member in (str(value), (column, str(value))) for column, value in pairs)

    def columns_of(self, member: str | tuple[str, str]) -> list[str]:
        """The columns in which a value occurs, or the one that is named where it occurs there; none of a single one."""
        return [
            column
            for column, values in zip(self.columns, self.values, strict=bool(self.columns))
            for value in values
            if member in (str(value), (column, str(value)))
        ]


# ---------------------------------------------------------------- what users pass


def read_groups(values: object, where: str = "sensitive_features", rows: int | None = None) -> Codes:
    """Number the groups of one column, or the intersections that occur of several: a frame, or a mapping by name.

    ``rows`` is how many rows there are where these are not lines of their own.
    """
    if isinstance(values, Codes):
        return values
    columns = _named_columns(values, where)
    coded = {name: encode(each, where if len(columns) < 2 else f"{where}: {name}") for name, each in columns.items()}
    (name, first), *others = coded.items()
    if not others:
        return first if name is None else Codes(first.names, first.codes, str(name))
    same_length(len(first), **{f"{where}: {name}": each for name, each in others})
    for name, each in coded.items():
        if len(each.names) == 1:
            raise InputError(
                f"{where}: {name} has only one value, {each.names[0]!r}; leave the column out, or add rows of others."
            )
        check_groups(each.names, rows or len(each), f"{where}: {name}")
    number = np.ravel_multi_index([each.codes for each in coded.values()], [len(each.names) for each in coded.values()])
    present, codes = np.unique(number, return_inverse=True)
    places = np.unravel_index(present, [len(each.names) for each in coded.values()])
    names = (
        Intersection((each.names[i] for each, i in zip(coded.values(), at, strict=True)), map(str, coded))
        for at in zip(*(place.tolist() for place in places), strict=True)
    )
    return Codes(tuple(names), codes.reshape(-1).astype(np.int32))


def known_groups(values: object, names: Sequence[Label], where: str = "sensitive_features") -> Integers:
    """Number the groups of rows by their place in ``names``; -1 where one is not among them."""
    columns = Attributes(tuple(names)).columns
    if isinstance(values, Codes) and values.names == tuple(names):
        return values.codes
    if not columns:
        one, *others = _named_columns(values, where).values()
        if others:
            raise InputError(
                f"{where}: got {1 + len(others)} columns, but the groups known here are of one; pass that one."
            )
        return encode_known(one, names, where)
    if isinstance(values, Codes):
        place = {name: i for i, name in enumerate(names)}
        return np.array([place.get(name, -1) for name in values.names], dtype=np.int32)[values.codes]
    given: Any = columns_like(values, names, where)
    parts = [tuple(dict.fromkeys(each)) for each in zip(*names, strict=True)]
    coded = [encode_known(given[name], part, f"{where}: {name}") for name, part in zip(columns, parts, strict=True)]
    same_length(len(coded[0]), **{f"{where}: {name}": each for name, each in zip(columns, coded, strict=True)})
    table = np.full([len(part) + 1 for part in parts], -1, dtype=np.int32)  # the last place: no known value
    for number, group in enumerate(names):
        table[tuple(part.index(value) for part, value in zip(parts, group, strict=True))] = number  # type: ignore[call-overload]
    return np.asarray(table[tuple(coded)])


def row_of(values: object, row: int) -> Label:
    """What one row holds, of several columns together."""
    found = []
    for each in _named_columns(values, "values").values():
        # A list of tuples is a column of labels: as an array it would have two dimensions.
        entry: Any = each[row] if isinstance(each, list | tuple) else column(each, "values")[row]
        found.append(entry.item() if isinstance(entry, np.generic) else entry)
    return found[0] if len(found) == 1 else Intersection(found, ())


def columns_like(values: object, names: Sequence[Label], where: str = "sensitive_features") -> object:
    """The columns that known groups are of, in their order; of a single one as it is."""
    columns = Attributes(tuple(names)).columns
    if not columns or isinstance(values, Codes):
        return values
    given = {str(name): each for name, each in _named_columns(values, where).items()}
    for name in columns:
        if name not in given:
            near = nearest_name(name, given)
            raise InputError(f"{where}: no column {name!r}{near}; pass a frame or a mapping of {', '.join(columns)}.")
    return {name: given[name] for name in columns}


def _named_columns(values: Any, where: str) -> dict[Any, object]:
    """The columns of a mapping or a frame by name; a single column by its own name, or None where it has none."""
    if isinstance(values, Mapping):
        found = dict(values)
    elif hasattr(values, "column_names"):  # Arrow
        found = {name: values.column(name) for name in values.column_names}
    elif hasattr(values, "columns") and not callable(values.columns):  # pandas and polars
        found = {name: values[name] for name in values.columns}
    else:
        if getattr(values, "ndim", 1) == 2 and values.shape[1] > 1:
            raise InputError(
                f"{where}: a table of {values.shape[1]} columns without names; pass a frame, or a mapping of names to "
                "columns."
            )
        name = getattr(values, "name", None)
        return {name if isinstance(name, str) and name else None: values}
    if not found:
        raise InputError(f"{where}: got no column; name at least one.")
    return found
