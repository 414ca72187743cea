"""Chances that rise with the score: out-of-fold estimates, smoothed along the order in which rows are decided.

The policy compares the *refitted* calibrated score with its thresholds, while honest chances come from calibrators that
did not see the row. Within a cell the two orders differ a little. Isotonic regression of the honest chances on the
policy's own order gives every row a chance that is both, so that what is certified is the very policy that is stored.
"""

from __future__ import annotations

import numpy as np

from logofair.inputs import Floats, Integers
from logofair.segments import pool_starts, run_starts, run_sums

__all__ = ["rising_chances"]


def rising_chances(order: Floats, chances: Floats, cells: Integers, weights: Floats | None = None) -> Floats:
    """Smooth ``chances`` to rise with ``order`` inside each cell; rows of equal order get the same.

    Examples
    --------
    >>> import numpy as np
    >>> one_cell = np.zeros(3, dtype=np.int32)
    >>> rising_chances(np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.4, 0.3]), one_cell).tolist()
    [0.2, 0.35, 0.35]
    """
    if order.size == 0:
        return chances
    place = np.lexsort((order, cells))
    mass = np.ones(order.size) if weights is None else np.maximum(weights, 1e-12 * weights.max())[place]
    sums, cell, level = mass * chances[place], cells[place], order[place]
    rungs = run_starts((np.diff(level) != 0) | (np.diff(cell) != 0))
    rung_mass = run_sums(mass, rungs)
    pools = pool_starts(run_sums(sums, rungs) / rung_mass, rung_mass, cell[rungs[:-1]])
    begins = np.append(rungs[pools], order.size)
    means = run_sums(sums, begins) / run_sums(mass, begins)
    smooth = np.empty_like(chances)
    smooth[place] = np.repeat(np.clip(means, 0.0, 1.0), np.diff(begins))
    return smooth
