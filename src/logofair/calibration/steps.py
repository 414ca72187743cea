"""One step of Newton's method for many small convex fits at once, some parameters never negative.

Units (all rows, a group, a cell) are fitted side by side. Parameters are stored (k, units) and matrices
(k, k, units), so that every operation is one pass over the units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from logofair.calibration.runs import Places, packed_places
from logofair.inputs import Floats

__all__ = ["Normal", "bounded_step", "model_change", "penalised_derivatives", "penalised_loss", "solve"]

_SMALLEST_PIVOT = 1e-14


@dataclass(frozen=True, eq=False)
class Normal:
    """Gaussian beliefs about the parameters of units: centres (k, units), precisions (k, k, units)."""

    centre: Floats
    precision: Floats

    def of(self, units: Places) -> Normal:
        """The beliefs about some units."""
        return Normal(self.centre[:, units], self.precision[:, :, units])


def penalised_loss(sums: Floats, prior: Normal, point: Floats) -> Floats:
    """Loss of the rows, the first of their sums, and of leaving the prior, at a point (k, units); (units,)."""
    away = point - prior.centre
    return np.asarray(sums[0] + 0.5 * np.sum(away * _product(prior.precision, away), axis=0))


def penalised_derivatives(sums: Floats, prior: Normal, point: Floats) -> tuple[Floats, Floats]:
    """Gradient (k, units) and Hessian (k, k, units) of the penalised loss at a point (k, units)."""
    k = len(point)
    gradient = sums[1 : 1 + k] + _product(prior.precision, point - prior.centre)
    return gradient, sums[1 + k :][packed_places(k)] + prior.precision


def bounded_step(hessian: Floats, gradient: Floats, point: Floats, slopes: tuple[int, ...]) -> Floats:
    """Step to the minimum of the quadratic model among points whose slopes are not negative, (k, units).

    Where the free minimum has a negative slope, the best of the faces "these slopes are 0" is taken.
    """
    step = solve(hessian, -gradient)
    outside = np.flatnonzero(np.any((point + step)[list(slopes)] < 0.0, axis=0))
    if not outside.size:
        return step
    hessian, gradient, point = hessian[:, :, outside], gradient[:, outside], point[:, outside]
    chosen, least = np.zeros_like(point), np.full(outside.size, np.inf)
    for size in range(1, len(slopes) + 1):
        for zeros in combinations(slopes, size):
            move = _step_to_face(hessian, gradient, point, list(zeros))
            value = model_change(hessian, gradient, move)
            better = np.all((point + move)[list(slopes)] >= 0.0, axis=0) & (value < least)
            chosen, least = np.where(better, move, chosen), np.where(better, value, least)
    step[:, outside] = chosen
    return step


def solve(matrix: Floats, right: Floats) -> Floats:
    """Solve one positive definite (k, k) system per unit by its LDL' factors, (k, units)."""
    k = len(right)
    lower, pivots, solution = np.zeros_like(matrix), np.empty_like(right), right.copy()
    for j in range(k):
        pivot = matrix[j, j] - sum(lower[j, i] ** 2 * pivots[i] for i in range(j))
        pivots[j] = np.maximum(pivot, _SMALLEST_PIVOT * matrix[j, j])
        for i in range(j + 1, k):
            lower[i, j] = (matrix[i, j] - sum(lower[i, h] * lower[j, h] * pivots[h] for h in range(j))) / pivots[j]
    for j in range(k):
        for i in range(j):
            solution[j] -= lower[j, i] * solution[i]
    solution /= pivots
    for j in reversed(range(k)):
        for i in range(j + 1, k):
            solution[j] -= lower[i, j] * solution[i]
    return solution


def _step_to_face(hessian: Floats, gradient: Floats, point: Floats, zeros: list[int]) -> Floats:
    """Step to the model's minimum among points whose parameters ``zeros`` are 0."""
    matrix, right = hessian.copy(), -gradient
    for j in zeros:
        right += hessian[:, j] * point[j]
    for j in zeros:
        matrix[j, :], matrix[:, j], matrix[j, j] = 0.0, 0.0, 1.0
        right[j] = 0.0
    step = solve(matrix, right)
    step[zeros] = -point[zeros]
    return step


def model_change(hessian: Floats, gradient: Floats, step: Floats) -> Floats:
    """Change of the quadratic model along a step, (units,)."""
    return np.asarray(np.sum(step * (gradient + 0.5 * _product(hessian, step)), axis=0))


def _product(matrix: Floats, vector: Floats) -> Floats:
    """One matrix-vector product per unit."""
    return np.asarray(np.einsum("ijn,jn->in", matrix, vector))
