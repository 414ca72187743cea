"""Reading stored numbers back: arrays of the right shape, or one sentence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import InputError

__all__ = ["count_of", "numbers_of", "refuse"]


def refuse(problem: str) -> InputError:
    """The error for a stored calibrator with a problem."""
    return InputError(f"stored calibrator: {problem}; save it again with as_json.")


def count_of(data: Mapping[str, object], key: str) -> int:
    """A stored count of at least 1."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refuse(f"{key!r} must be a whole number from 1, got {_shown(value)}")
    return value


def numbers_of(data: Mapping[str, object], key: str, shape: tuple[int | None, ...]) -> Floats:
    """A stored array of finite numbers; ``None`` in the shape: any length."""
    value = data.get(key)
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):  # lists of differing length
        raise refuse(f"{key!r} must be an array of numbers, got lists of differing length") from None
    if array.size == 0 and isinstance(value, list):
        array = array.astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise refuse(f"{key!r} must be an array of numbers, got {_shown(value)}")
    if array.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any" if length is None else str(length) for length in shape)
        raise refuse(f"{key!r} must have the shape {wanted}, got {' x '.join(map(str, array.shape))}")
    if not np.all(np.isfinite(array)):
        raise refuse(f"{key!r} holds a value that is not finite")
    return np.ascontiguousarray(array, dtype=np.float64)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
