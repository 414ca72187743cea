"""Where chance leaves a gap: the interval of the difference of two groups' shares."""

from __future__ import annotations

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.notions import Rate

__all__ = ["NORMAL", "counts_rows", "gap_interval"]

NORMAL = 1.96  # half the width of a 95% interval, in standard errors


def gap_interval(
    high: Floats, high_rows: Indices, low: Floats, low_rows: Indices, errors: float = NORMAL
) -> tuple[Floats, Floats]:
    """Both ends of the interval of ``high - low``, the shares of two groups with so many rows each.

    By Agresti and Caffo (2000), so that it stands with few rows too; NaN where a share is. Each gap is taken by
    itself; the largest of many groups' gaps errs upwards as well, which no such interval covers.

    Parameters
    ----------
    high, low : arrays of the same shape
        The larger and the smaller share.
    high_rows, low_rows : arrays of that shape
        Rows behind each.
    errors : float
        Half the width in standard errors; 1.96 for 95%.

    Examples
    --------
    40 of 50 and 20 of 40:

    >>> low, high = gap_interval(np.array([0.8]), np.array([50]), np.array([0.5]), np.array([40]))
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.1009], [0.476])
    """
    gap = high - low
    (top, top_error), (bottom, bottom_error) = _adjusted(high, high_rows), _adjusted(low, low_rows)
    middle, half = top - bottom, errors * np.sqrt(top_error + bottom_error)
    return np.clip(middle - half, 0.0, gap), np.clip(middle + half, gap, 1.0)


def _adjusted(share: Floats, rows: Indices) -> tuple[Floats, Floats]:
    """A share with one success and one failure added, and its squared standard error."""
    centre = (share * rows + 1.0) / (rows + 2.0)
    return centre, centre * (1.0 - centre) / (rows + 2.0)


def counts_rows(rate: Rate) -> bool:
    """Whether every row counts in a rate once or not at all: such a share of rows alone has this interval."""
    lines = [(float(rate.moment(label)), float(rate.weight(label))) for label in (0.0, 1.0)]
    return all(top == bottom and top in (0.0, 1.0) for top, bottom in lines)
