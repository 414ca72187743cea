"""Columns of labels (groups, clients) as integers, without missing values: any hashable labels, any number of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Integers, Label, column, shown
from logofair.errors import InputError

__all__ = ["Codes", "encode", "encode_known", "labels_or_none", "one_client"]


# Integer labels spanning at most this many values per row are looked up in a table instead of sorted.
_TABLE_SPAN = 4

# The numpy kinds that hold a list of one plain type without changing any value (2**63 beside -1 becomes a float).
_EXACT_KINDS = {bool: "b", int: "iu", float: "f"}


@dataclass(frozen=True)
class Codes:
    """A column of labels as integers: ``names[codes[i]]`` is row i's label."""

    names: tuple[Label, ...]
    codes: Integers

    def __len__(self) -> int:
        return self.codes.size

    def by_name(self) -> list[tuple[Label, npt.NDArray[np.intp]]]:
        """Each label with the rows it stands in, in their order."""
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.names)))[:-1]
        return list(zip(self.names, np.split(order, ends), strict=True))

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The column itself, as objects."""
        table = np.empty(len(self.names), dtype=object)
        for i, name in enumerate(self.names):  # one by one: numpy would unpack tuples
            table[i] = name
        return table[self.codes]


def one_client(rows: int) -> Codes:
    """The clients of rows that have none: one client, named None, which no row of a user's can be."""
    return Codes((None,), np.zeros(rows, dtype=np.int32))


def encode(values: object, where: str) -> Codes:
    """Number the labels of a column in sorted order (order of text where they do not compare)."""
    array = _labels(values, where)
    if array.dtype.kind in "bui" and array.size:
        return _encode_integers(array)
    if array.dtype.kind not in "buifcmM":
        return _encode_objects(array, where)
    names, codes = np.unique(array, return_inverse=True)
    return Codes(tuple(names.tolist()), codes.astype(np.int32))


def encode_known(values: object, names: Sequence[Label], where: str) -> Integers:
    """Number the labels of a column by their place in ``names``; -1 where a label is not among them.

    A column that was numbered by these names already (`Codes`, -1 where a label is not among them) stays as it is.
    """
    if isinstance(values, Codes) and values.names == tuple(names):
        return values.codes
    array = _labels(values, where)
    if len(names) and all(type(n) is int for n in names) and array.dtype.kind in "ui" and array.dtype != np.uint64:
        low, high = min(cast("Sequence[int]", names)), max(cast("Sequence[int]", names))
        if high - low < max(1024, _TABLE_SPAN * len(names)) and low > -(2**63) and high < 2**63 - 1:
            table = np.full(high - low + 3, -1, dtype=np.int32)
            table[np.asarray(names) - (low - 1)] = np.arange(len(names), dtype=np.int32)
            # Clip in 64 bits before subtracting: narrow types wrap round, and far values would too.
            found_at: Integers = table[np.clip(array.astype(np.int64), low - 1, high + 1) - (low - 1)]
            return found_at
    found = encode(array, where)
    place = {name: i for i, name in enumerate(names)}
    lookup = np.array([place.get(name, -1) for name in found.names], dtype=np.int32)
    return lookup[found.codes] if lookup.size else found.codes


def _labels(values: object, where: str) -> npt.NDArray[Any]:
    """Return a column of labels without missing values."""
    array = _listed(values) if isinstance(values, list | tuple) else column(values, where)
    if array.dtype.kind not in "buifcmMO":  # text: hashing beats sorting
        array = np.fromiter(array.tolist(), dtype=object, count=array.size)
    missing = _missing(array)
    if missing is not None:
        raise InputError(
            f"{where}: row {missing} is missing; drop such rows, or give them a label of their own such as 'unknown'."
        )
    return array


def labels_or_none(values: object, where: str) -> list[Label | None]:
    """Return a column of labels, None where one is missing."""
    array = _listed(values) if isinstance(values, list | tuple) else column(values, where)
    return [None if _is_nan(label) else label for label in array.tolist()]


def _listed(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a list as an array of the same values; numpy makes 1 into "1" beside text, and a matrix of tuples."""
    types = set(map(type, values))
    kinds = _EXACT_KINDS.get(types.pop(), "") if len(types) == 1 else ""
    if kinds:
        array = np.asarray(values)
        if array.dtype.kind in kinds:
            return array
    return np.fromiter(values, dtype=object, count=len(values))


def _missing(array: npt.NDArray[Any]) -> int | None:
    """First row whose label is None or NaN, if any."""
    if array.dtype.kind in "fcmM":
        empty = np.isnan(array) if array.dtype.kind in "fc" else np.isnat(array)
    elif array.dtype.kind == "O":
        rows = array.tolist()
        try:  # few labels are distinct: look at those first
            if not any(map(_is_nan, set(rows))):
                return None
        except TypeError:  # unhashable labels, refused later by their own sentence
            pass
        empty = np.fromiter(map(_is_nan, rows), dtype=bool, count=array.size)
    else:
        return None
    return int(np.flatnonzero(empty)[0]) if empty.any() else None


def _is_nan(value: object) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA: all but None differ from themselves."""
    if isinstance(value, tuple):  # a NaN inside would make every row a group of its own
        return any(part is not None and _is_nan(part) for part in value)
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # pandas.NA and arrays refuse to be a bool; a signalling NaN fails
        return type(value).__name__ == "NAType"


def _encode_integers(array: npt.NDArray[Any]) -> Codes:
    low, high = int(array.min()), int(array.max())
    if high - low < max(1024, _TABLE_SPAN * array.size):
        offset = _above(array, low)
        present = np.flatnonzero(np.bincount(offset, minlength=high - low + 1))
        names = tuple(low + step for step in present.tolist())  # in Python: low may be beyond int64
        if array.dtype.kind == "b":
            names = tuple(bool(name) for name in names)
        if len(names) == high - low + 1:
            return Codes(names, offset.astype(np.int32))
        table = np.zeros(high - low + 1, dtype=np.int32)
        table[present] = np.arange(present.size, dtype=np.int32)
        return Codes(names, table[offset])
    names_array, codes = np.unique(array, return_inverse=True)
    return Codes(tuple(names_array.tolist()), codes.astype(np.int32))


def _above(array: npt.NDArray[Any], low: int) -> npt.NDArray[np.intp]:
    """Return ``array - low`` as indices, where the array's own type might wrap round."""
    if array.dtype.kind == "u":
        array, low = array - array.dtype.type(low), 0
    wide = array.astype(np.intp, copy=False)
    return wide - low if low else wide


def _encode_objects(array: npt.NDArray[Any], where: str) -> Codes:
    rows = array.tolist()
    try:
        distinct = list(dict.fromkeys(rows))
    except TypeError:
        raise InputError(
            f"{where}: labels must be hashable (text, numbers, tuples), got {shown(_unhashable(array))}."
        ) from None
    try:
        with np.errstate(all="ignore"):  # comparing a float with a numpy scalar may overflow in the cast
            names = sorted(distinct)
    except TypeError:  # labels of mixed type: any fixed order will do
        names = sorted(distinct, key=lambda name: (type(name).__name__, str(name)))
    place = {name: i for i, name in enumerate(names)}
    codes = np.fromiter(map(place.__getitem__, rows), dtype=np.int32, count=array.size)
    plain = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    return Codes(plain, codes)


def _unhashable(array: npt.NDArray[Any]) -> object:
    for value in array:
        try:
            hash(value)
        except TypeError:
            return value
    return None
