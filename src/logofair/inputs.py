"""The doors: users' columns in, checked arrays out, or one clear sentence.

Everything below the doors trusts what these functions return. Messages say where, what was got and what
to do; they never quote more than one value of the user's data.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

__all__ = ["Codes", "Floats", "InputError", "Integers", "column", "encode", "encode_known"]

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int32]
Label: TypeAlias = Hashable

# Integer labels spanning at most this many values per row are looked up in a table instead of sorted.
_TABLE_SPAN = 4

# The numpy kinds that hold a list of one plain type without changing any value (2**63 beside -1 becomes a float).
_EXACT_KINDS = {bool: "b", int: "iu", float: "f"}


class InputError(ValueError):
    """Input that cannot be used; the message says where, what was got and what to do, on one line.

    Examples
    --------
    >>> import logofair
    >>> try:
    ...     logofair.fit([0.9, 1.2], [1, 0], groups=["a", "b"])
    ... except logofair.InputError as error:
    ...     print(error)
    scores: row 1 is 1.2, outside [0, 1]; scores are probabilities of label 1: divide percentages by 100.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))  # what was got may be an array, which prints on several


def nearest_name(name: object, known: Iterable[object]) -> str:
    """Return ``" (did you mean ...?)"`` where some known name is close, else nothing."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def column(values: object, where: str) -> npt.NDArray[Any]:
    """Return any one-dimensional column (list, array, pandas, polars) as an array."""
    if values is None:
        raise InputError(f"{where}: got None; pass one value per row.")
    if np.ma.is_masked(values):  # asarray would show what lies under the mask
        raise InputError(f"{where}: some rows are masked; drop or fill such rows.")
    try:  # not values.to_numpy(): an arrow column refuses that for text
        array = np.asarray(values)
    except ValueError:  # a ragged list
        raise InputError(f"{where}: rows of differing length; pass one value per row.") from None
    except Exception as error:  # a column's own code failed, say a tensor on another device
        raise InputError(f"{where}: got {type(values).__name__}, which is no column of values ({error}).") from error
    if array.ndim == 2 and 1 in array.shape and array.size:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise InputError(f"{where}: expected one value per row, got an array of shape {array.shape}.")
    return array


def numbers(values: object, where: str) -> Floats:
    """Return a column of finite numbers as float64."""
    floats = _floats(column(values, where), where, "expected numbers: convert them first")
    with np.errstate(all="ignore"):  # the sum may overflow without harm
        total = np.sum(floats)
    # The sum is finite exactly when no row is NaN or infinite (and nothing overflows): one cheap pass.
    if not np.isfinite(total) and not np.all(np.isfinite(floats)):
        row = int(np.flatnonzero(~np.isfinite(floats))[0])
        raise InputError(
            f"{where}: row {row} is {floats[row]}; every value must be a finite number: drop or repair such rows."
        )
    return floats


def probabilities(values: object, where: str = "scores") -> Floats:
    """Return a column of numbers in [0, 1]."""
    floats = numbers(values, where)
    if floats.size and (floats.min() < 0.0 or floats.max() > 1.0):
        row = int(np.flatnonzero((floats < 0.0) | (floats > 1.0))[0])
        percentages = floats.min() >= 0 and floats.max() <= 100
        hint = "divide percentages by 100" if percentages else "pass logits through a sigmoid"
        raise InputError(
            f"{where}: row {row} is {floats[row]:g}, outside [0, 1]; scores are probabilities of label 1: {hint}."
        )
    return floats


def binary(values: object, where: str = "labels") -> Floats:
    """Return a column of 0/1 (or False/True) as float64."""
    array = column(values, where)
    advice = "expected 0 and 1: map the positive label to 1 and the other to 0"
    floats = _floats(array, where, advice)
    wrong = (floats != 0.0) & (floats != 1.0)
    if np.any(wrong):
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{where}: row {row} is {_shown(array[row])}; {advice}.")
    return floats


def _floats(array: npt.NDArray[Any], where: str, advice: str) -> Floats:
    """Return a column as float64, or say which row is no number."""
    try:
        if array.size == 0:
            return np.zeros(0)
        if array.dtype.kind not in "buifOUST":  # dates and complex numbers would convert, losing their meaning
            raise TypeError
        with np.errstate(over="ignore"):  # too large for a double: infinite, which the caller refuses
            return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        row = next((i for i, value in enumerate(array.tolist()) if not _is_number(value)), 0)
        raise InputError(f"{where}: row {row} is {_shown(array[row])}; {advice}.") from None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return value is None  # numpy reads None as NaN, which is refused by its own sentence
    return True


def weights(values: object, n: int, where: str = "sample_weight") -> Floats | None:
    """Return checked row weights, or None for equal weights."""
    if values is None:
        return None
    floats = numbers(values, where)
    same_length(n, **{where: floats})
    if floats.size and floats.min() < 0:
        row = int(np.argmin(floats))
        raise InputError(f"{where}: row {row} is {floats[row]:g}; weights must not be negative.")
    if floats.size and not floats.max() > 0:
        raise InputError(f"{where}: all weights are zero; at least one row must count.")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.sum(floats)):
            raise InputError(f"{where}: their sum is infinite; divide all weights by the largest.")
    return floats


def same_length(n: int, **columns: npt.NDArray[Any] | Codes | None) -> None:
    """Raise unless every column given has ``n`` rows."""
    for name, values in columns.items():
        if values is not None and len(values) != n:
            raise InputError(f"{name}: has {len(values)} rows, but the first column has {n}; pass one value per row.")


def not_empty(n: int, where: str) -> None:
    """Raise if there are no rows."""
    if n == 0:
        raise InputError(f"{where}: no rows; pass at least one.")


@dataclass(frozen=True)
class Codes:
    """A column of labels as integers: ``names[codes[i]]`` is row i's label."""

    names: tuple[Label, ...]
    codes: Integers

    def __len__(self) -> int:
        return self.codes.size

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The column itself, as objects."""
        table = np.empty(len(self.names), dtype=object)
        for i, name in enumerate(self.names):  # one by one: numpy would unpack tuples
            table[i] = name
        return table[self.codes]


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
    """Number the labels of a column by their place in ``names``; -1 where a label is not among them."""
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
            f"{where}: labels must be hashable (text, numbers, tuples), got {_shown(_unhashable(array))}."
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


def _shown(value: object) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else text[:37] + "..."


def seed_number(random_state: object) -> int:
    """Return a seed as a non-negative integer; raise on anything else."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise InputError(f"random_state: got {random_state!r}; pass a non-negative integer, or None.")
