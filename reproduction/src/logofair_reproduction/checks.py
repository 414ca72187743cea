"""Checks of settings that only experiments have."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from logofair.columns.checks import shown
from logofair.errors import InputError


def not_negative(value: Any, where: str) -> float:
    """Return a finite number of at least 0."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= number < np.inf:
        raise InputError(f"{where}: got {shown(value)}; pass a number of at least 0.")
    return number
