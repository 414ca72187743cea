"""Linear algebra that gives the same bits on every machine, for small matrices.

Libraries add up in an order that depends on the processor, and fuse products with sums where it can. What follows is
made of additions, products, quotients and square roots in a fixed order, each rounded as IEEE 754 says; products of
matrices are cut into pieces that no order of addition rounds.
"""

from __future__ import annotations

import math

import numpy as np

from logofair.columns.checks import Floats

_MANTISSA = 53
_SWEEPS = 30  # Jacobi's method needs 5 to 10
_NEGLIGIBLE = 1e-15  # entries beside the diagonal, against the largest
SMALLEST_PIVOT = 1e-14


def product(one: Floats, other: Floats) -> Floats:
    """The matrix product to about 40 bits, (n, k) times (k, m) (Ozaki et al., 2012).

    Both are cut into a coarse and a fine part of so few bits that sums of k products of parts are exact.

    Examples
    --------
    >>> import numpy as np
    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0], [0.1]])).round(12).tolist()
    [[3.2]]
    """
    bits = (_MANTISSA - len(other).bit_length()) // 2
    coarse, fine = _parts(one, bits, 1)
    other_coarse, other_fine = _parts(other, bits, 0)
    return np.asarray(coarse @ other_coarse + (coarse @ other_fine + fine @ other_coarse))


def _parts(matrix: Floats, bits: int, axis: int) -> tuple[Floats, Floats]:
    """The leading bits of a matrix, as far as the largest entries along an axis have them, and the following ones."""
    _, exponent = np.frexp(np.max(np.abs(matrix), axis=axis, keepdims=True, initial=0.0))
    coarse = _rounded(matrix, exponent - bits)
    return coarse, _rounded(matrix - coarse, exponent - 2 * bits)


def _rounded(matrix: Floats, exponent: Floats) -> Floats:
    """Multiples of a power of two."""
    return np.ldexp(np.rint(np.ldexp(matrix, -exponent)), exponent)


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


def principal_axes(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, ascending, and eigenvectors, in columns, of a symmetric matrix, by Jacobi's rotations.

    Examples
    --------
    >>> import numpy as np
    >>> sizes, axes = principal_axes(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> sizes.round(12).tolist(), np.abs(axes).round(3).tolist()
    ([1.0, 3.0], [[0.707, 0.707], [0.707, 0.707]])
    """
    left, axes = matrix.copy(), np.eye(len(matrix))
    negligible = _NEGLIGIBLE * float(np.max(np.abs(matrix), initial=0.0))
    for _ in range(_SWEEPS):
        rotated = False
        for p in range(len(matrix)):
            for q in range(p + 1, len(matrix)):
                if abs(left[p, q]) > negligible:
                    cosine, sine = _rotation(*map(float, (left[p, p], left[q, q], left[p, q])))
                    for table in (left.T, left, axes.T):
                        table[p], table[q] = cosine * table[p] - sine * table[q], sine * table[p] + cosine * table[q]
                    left[p, q] = left[q, p] = 0.0
                    rotated = True
        if not rotated:
            break
    sizes = np.diagonal(left)
    order = np.argsort(sizes, kind="stable")
    return sizes[order], axes[:, order]


def _rotation(first: float, second: float, mixed: float) -> tuple[float, float]:
    """Cosine and sine of the rotation that takes the mixed entry of a symmetric (2, 2) matrix away."""
    ratio = (second - first) / (2.0 * mixed)
    tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    return cosine, tangent * cosine
