"""Fixed bins of the score: counts of rows, noised counts without negatives, and rules that treat a bin as one.

Bin j of B holds the chances in ``[j/B, (j+1)/B)``; the last one holds 1 as well. B is a power of two, so that every
edge and every midpoint is an exact double and no row can fall on the wrong side of an edge by rounding.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers
from logofair.policy.mixtures import Mixtures

Counts: TypeAlias = npt.NDArray[np.int64]


def histogram(eta: Floats, groups: Integers, n_groups: int, bins: int) -> Counts:
    """Rows of every group (down) in every bin (across).

    Examples
    --------
    >>> histogram(np.array([0.1, 0.5, 1.0]), np.array([0, 0, 1], dtype=np.int32), 2, bins=2)
    array([[1, 1],
           [0, 1]])
    """
    place = np.minimum((eta * bins).astype(np.int64), bins - 1)
    return np.bincount(groups.astype(np.int64) * bins + place, minlength=n_groups * bins).reshape(n_groups, bins)


def midpoints(bins: int) -> Floats:
    """The chance that stands for each bin.

    Examples
    --------
    >>> midpoints(4)
    array([0.125, 0.375, 0.625, 0.875])
    """
    return (np.arange(bins) + 0.5) / bins


def without_negatives(counts: Counts) -> Counts:
    """The nearest counts from 0 up with the same total in every row (all 0 where the total is not positive).

    Clipping alone would turn the noise of every empty bin into people: with the noise's width s it adds 0.4 s of them
    to each, all over the scores. Here what clipping adds is taken back evenly from the bins that remain, which is the
    least-squares projection onto counts of this total (Norm-Sub; Wang et al., 2020), rounded to whole rows by largest
    remainder. Whole-number arithmetic: the same on every machine.

    Examples
    --------
    >>> without_negatives(np.array([[10, -3, 2, 1], [-5, 1, 1, 1]]))
    array([[9, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    return np.array([_projected(row) for row in counts], dtype=np.int64).reshape(counts.shape)


def _projected(counts: Counts) -> Counts:
    """One row of :func:`without_negatives`."""
    total = int(counts.sum())
    if total <= 0:
        return np.zeros_like(counts)
    falling = -np.sort(-counts)
    excess = np.cumsum(falling) - total
    size = np.arange(1, counts.size + 1)
    # The largest k counts stay positive after each gives up excess / k.
    kept = int(np.flatnonzero(falling * size > excess)[-1]) + 1
    share = np.maximum(counts * kept - excess[kept - 1], 0)  # kept times the projection, still whole
    rounded: Counts = share // kept
    most = np.argsort(rounded * kept - share, kind="stable")[: total - int(rounded.sum())]
    rounded[most] += 1
    return rounded


def at_edges(rules: Mixtures, bins: int) -> Mixtures:
    """The same rules on real scores: every threshold is moved to the edge of the bins it accepts.

    A rule found on midpoints accepts or rejects a bin as a whole, but its threshold lies anywhere between two
    midpoints, inside an empty bin for example, and would there part rows that were counted as one. At the edge every
    row of a bin is treated as its midpoint was, by "score >= edge" or by "score <= the last double below the edge".
    A bin that was mixed keeps its chance: each of its rows is accepted with it, by its own coin.

    Parameters
    ----------
    rules : Mixtures
        Rules of a policy found on the midpoints of the bins.
    bins : int
        Number of bins.

    Examples
    --------
    >>> from logofair.policy.mixtures import base_rule
    >>> rules = base_rule(1)
    >>> rules.threshold[0, 0] = 0.3
    >>> float(at_edges(rules, bins=4).threshold[0, 0])
    0.25
    """
    first = np.ceil(rules.threshold * bins - 0.5)  # lowest bin that "score >= threshold" accepts
    last = np.floor(rules.threshold * bins - 0.5)  # highest bin that "score <= threshold" accepts
    lower = np.where(last == bins - 1, 1.0, np.nextafter((last + 1.0) / bins, 0.0))
    nobody = np.where(rules.above, first == bins, last < 0)
    used = (rules.weight > 0) & ~nobody
    threshold = np.where(used, np.where(rules.above, first / bins, lower), 0.0)
    single = np.ceil(rules.single * bins - 0.5)
    return Mixtures(
        weight=np.where(used, rules.weight, 0.0),
        threshold=threshold,
        above=rules.above | ~used,
        single=np.where(single >= bins, np.inf, single / bins),
    )
