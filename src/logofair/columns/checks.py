"""Checks of what users pass: columns in, checked arrays out, or one clear sentence.

All other code trusts what these functions return. Messages say where, what was got and what
to do; they never quote more than one value of the user's data.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sized
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int32]
Binary: TypeAlias = npt.NDArray[np.int8]  # 0 and 1
Label: TypeAlias = Hashable
RandomSource: TypeAlias = "np.random.Generator | int"

NAMED = 20  # names that one sentence lists


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
        meant = "scores are probabilities of label 1" if where == "scores" else "it holds probabilities"
        raise InputError(f"{where}: row {row} is {floats[row]:g}, outside [0, 1]; {meant}: {hint}.")
    return floats


def binary(values: object, where: str = "labels") -> Binary:
    """Return a column of 0/1 (or False/True) as whole numbers of one byte, never the caller's own."""
    array = column(values, where)
    advice = "expected 0 and 1: map the positive label to 1 and the other to 0"
    found = array if array.dtype.kind in "bui" else _floats(array, where, advice)
    wrong = (found != 0) & (found != 1)
    if np.any(wrong):
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{where}: row {row} is {shown(array[row])}; {advice}.")
    return found.astype(np.int8)


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
        raise InputError(f"{where}: row {row} is {shown(array[row])}; {advice}.") from None


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


def same_length(n: int, **columns: Sized | None) -> None:
    """Raise unless every column given has ``n`` rows."""
    for name, values in columns.items():
        if values is not None and len(values) != n:
            raise InputError(f"{name}: has {len(values)} rows, but the first column has {n}; pass one value per row.")


def same_order(**columns: object) -> None:
    """Raise where two pandas columns have the same index in another order: rows are paired by position.

    Indices that hold other rows say nothing: scores that a model returned are often numbered anew.
    """
    known: tuple[str, Any] | None = None
    each = ((name, values.values() if isinstance(values, Mapping) else [values]) for name, values in columns.items())
    for name, values in ((name, one) for name, several in each for one in several):
        if type(values).__module__.partition(".")[0] != "pandas" or not hasattr(values, "index"):
            continue
        index: Any = values.index
        if known is None:
            known = name, index
        elif (
            len(index) == len(known[1]) and not index.equals(known[1]) and not len(index.symmetric_difference(known[1]))
        ):
            raise InputError(
                f"{name}: its index is that of {known[0]} in another order; pass {name}.reindex({known[0]}.index), or "
                f"{name}.to_numpy() to pair rows by position."
            )


def not_empty(n: int, where: str) -> None:
    """Raise if there are no rows."""
    if n == 0:
        raise InputError(f"{where}: no rows; pass at least one.")


def listed_names(names: Collection[Any], most: int = NAMED, *, show: Callable[[Any], str] | None = None) -> str:
    """The first names, by default as Python writes them, and how many more there are."""
    first = ", ".join(map(show or shown, islice(names, most)))
    return first if len(names) <= most else f"{first} and {len(names) - most:,} more"


def shown(value: object) -> str:
    """A value as one short piece of a sentence."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else text[:37] + "..."


def random_number(random_state: object) -> int:
    """Return a ``random_state`` as a non-negative integer; raise on anything else."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise InputError(f"random_state: got {shown(random_state)}; pass a non-negative integer, or None.")


def matrix(values: object, where: str) -> Floats:
    """Return a table of finite numbers (array, nested list, data frame) as a float64 matrix."""
    if hasattr(values, "to_numpy"):  # pandas and polars frames
        values = values.to_numpy()
    try:
        table: Floats = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{where}: expected a table of numbers, each row of equal length; encode text first."
        ) from None
    if table.ndim != 2:
        raise InputError(f"{where}: expected rows and columns, got an array of shape {table.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(table)  # finite where every value is, unless it overflows: one cheap pass
    if not np.isfinite(total) and not np.all(np.isfinite(table)):
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise InputError(f"{where}: row {row} holds a missing or infinite value; drop or repair such rows.")
    return table


def whole_number(value: Any, where: str, least: int = 1) -> int:
    """Return an integer of at least ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(
            f"{where}: expected a whole number, got {shown(value)}; pass an int of at least {least}."
        ) from None
    if isinstance(value, bool | np.bool_) or number < least:
        raise InputError(f"{where}: got {shown(value)}; pass a whole number of at least {least}.")
    return number


def positive_number(value: Any, where: str, most: float) -> float:
    """Return a number above 0 and at most ``most``."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: expected a number above 0, got {shown(value)}.") from None
    if isinstance(value, bool | str) or not 0.0 < number <= most:
        raise InputError(f"{where}: got {shown(value)}; pass a number above 0 and at most {most:g}.")
    return number


def generator(rng: object) -> np.random.Generator:
    """Return a generator as it is, or a fresh one from a number."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        raise InputError("rng: got None; pass a number such as 0, or a np.random.Generator, so that runs repeat.")
    return np.random.default_rng(whole_number(rng, "rng", least=0))
