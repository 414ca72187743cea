"""Linear algebra that gives the same bits on every machine, for small matrices.

Libraries add up in an order that depends on the processor, and fuse products with sums where it can. What follows is
made of products, quotients and differences in a fixed order, each rounded as IEEE 754 says.
"""

from __future__ import annotations

import numpy as np

from logofair.columns.checks import Floats

SMALLEST_PIVOT = 1e-14


def solve(matrix: Floats, right: Floats) -> Floats:
    """Solve positive definite systems by elimination: (k, k, ...) and (k, ...), one system for each of what follows.

    Examples
    --------
    >>> import numpy as np
    >>> solve(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([2.0, 3.0])).tolist()
    [0.0, 1.0]
    """
    left, solution = matrix.copy(), right.copy()
    pivots = np.empty_like(right)
    for j in range(len(right)):
        pivots[j] = np.maximum(left[j, j], SMALLEST_PIVOT * matrix[j, j])
        factor = left[j + 1 :, j] / pivots[j]
        left[j + 1 :, j + 1 :] -= factor[:, None] * left[None, j, j + 1 :]
        solution[j + 1 :] -= factor * solution[j]
    for j in reversed(range(len(right))):
        solution[j] /= pivots[j]
        solution[:j] -= left[:j, j] * solution[j]
    return solution
