"""Many small convex fits at once: Newton's method, some parameters never negative.

Units (all rows, a group, a cell) are fitted side by side. Parameters are stored (k, units) and matrices
(k, k, units), so that every operation is one pass over the units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from logofair.calibration.runs import Places, Runs, packed_places
from logofair.inputs import Floats

__all__ = ["Normal", "bounded_step", "most_probable", "posterior", "solve"]

# A unit is done when its next step promises to gain less than this many nats. The step (some 1e-5 standard
# errors) is still taken, and leaves about its square.
_PROMISE = 1e-10
# An increase below this share of the loss is rounding, not a step too long.
_ROUNDING = 1e-12
_MOST_STEPS = 200
_SMALLEST_PIVOT = 1e-14


@dataclass(frozen=True)
class Normal:
    """Gaussian beliefs about the parameters of units: centres (k, units), precisions (k, k, units)."""

    centre: Floats
    precision: Floats

    def of(self, units: Places) -> Normal:
        """The beliefs about some units."""
        return Normal(self.centre[:, units], self.precision[:, :, units])


def most_probable(runs: Runs, owner: Places, prior: Normal, slopes: tuple[int, ...]) -> Normal:
    """Parameters of least penalised loss with slopes >= 0, and the curvature there.

    ``owner[r]`` is the unit to which run r belongs; a unit without rows keeps its prior exactly.
    """
    best, curvature = prior.centre.copy(), prior.precision.copy()
    step, lowest = np.zeros_like(best), np.full(best.shape[1], np.inf)
    live = np.arange(best.shape[1])
    for _ in range(_MOST_STEPS):
        point = best[:, live] + step[:, live]
        value, gradient, hessian = posterior(runs, owner, prior.of(live), point)
        down = value <= lowest[live] + _ROUNDING * (1.0 + np.abs(value))
        step[:, live[~down]] *= 0.5
        ahead, point = live[down], point[:, down]
        gradient, hessian = gradient[:, down], hessian[:, :, down]
        move = bounded_step(hessian, gradient, point, slopes)
        finished = -_model(hessian, gradient, move) <= _PROMISE
        best[:, ahead] = np.where(finished, point + move, point)
        step[:, ahead], lowest[ahead], curvature[:, :, ahead] = move, value[down], hessian
        going = np.ones(best.shape[1], dtype=bool)
        going[ahead[finished]] = False
        runs, owner, live = _narrowed(runs, owner, live, going)
        if not live.size:
            break
    return Normal(best, curvature)


def posterior(runs: Runs, owner: Places, prior: Normal, point: Floats) -> tuple[Floats, Floats, Floats]:
    """Penalised loss (units,), gradient (k, units) and Hessian (k, k, units) at a point (k, units)."""
    k, units = point.shape
    by_run = runs.sums(point[:, owner])
    sums = np.vstack([np.bincount(owner, weights=row, minlength=units) for row in by_run])
    away = point - prior.centre
    pull = _product(prior.precision, away)
    value = sums[0] + 0.5 * np.sum(away * pull, axis=0)
    return value, sums[1 : 1 + k] + pull, sums[1 + k :][packed_places(k)] + prior.precision


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
            value = _model(hessian, gradient, move)
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


def _model(hessian: Floats, gradient: Floats, step: Floats) -> Floats:
    """Change of the quadratic model along a step, (units,)."""
    return np.asarray(np.sum(step * (gradient + 0.5 * _product(hessian, step)), axis=0))


def _product(matrix: Floats, vector: Floats) -> Floats:
    """One matrix-vector product per unit."""
    return np.asarray(np.einsum("ijn,jn->in", matrix, vector))


def _narrowed(runs: Runs, owner: Places, live: Places, going: np.ndarray) -> tuple[Runs, Places, Places]:
    """Drop the units that are done, and their runs."""
    stay = going[live]
    if stay.all():
        return runs, owner, live
    wanted = stay[owner]
    renumbered = np.cumsum(stay) - 1
    return runs.keep(wanted), renumbered[owner[wanted]], live[stay]
