"""Checks that loaders, partitions and training share: matrices, counts and sources of randomness."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from logofair.inputs import Floats, InputError

__all__ = ["RandomSource", "generator", "matrix", "not_negative", "positive_number", "whole_number"]

RandomSource: TypeAlias = "np.random.Generator | int"


def matrix(values: object, where: str) -> Floats:
    """Return a table of finite numbers (array, nested list, data frame) as a float64 matrix."""
    if hasattr(values, "to_numpy"):  # pandas and polars frames
        values = values.to_numpy()
    try:
        table: Floats = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{where}: expected a table of numbers, one row of equal length per record; encode text first."
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
        raise InputError(f"{where}: expected a whole number, got {value!r}; pass an int of at least {least}.") from None
    if isinstance(value, bool | np.bool_) or number < least:
        raise InputError(f"{where}: got {value!r}; pass a whole number of at least {least}.")
    return number


def positive_number(value: Any, where: str, most: float) -> float:
    """Return a number above 0 and at most ``most``."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: expected a number above 0, got {value!r}.") from None
    if isinstance(value, bool | str) or not 0.0 < number <= most:
        raise InputError(f"{where}: got {value!r}; pass a number above 0 and at most {most:g}.")
    return number


def not_negative(value: Any, where: str) -> float:
    """Return a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise InputError(f"{where}: got {value!r}; pass a number of at least 0.")
    return float(value)


def generator(rng: object, where: str = "rng") -> np.random.Generator:
    """Return a generator as it is, or a fresh one from a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        raise InputError(f"{where}: got None; pass a seed such as 0, or a np.random.Generator, so that runs repeat.")
    return np.random.default_rng(whole_number(rng, where, least=0))
