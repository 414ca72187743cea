"""Many small convex fits at once by Newton's method: state in, state out, fed with sums over rows.

A descent sees no row. It names the points at which it needs sums over the rows of its units, and takes the sums: from
the rows at hand (:func:`most_probable`), or from many clients' added up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from logofair.calibration.runs import Places, Runs, packed_places
from logofair.columns.checks import Floats

__all__ = [
    "Descent",
    "Normal",
    "bounded_step",
    "model_change",
    "most_probable",
    "penalised_derivatives",
    "penalised_loss",
    "solve",
    "unit_sums",
]


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


# A unit is done when its next step would gain less than this many nats. The step (some 1e-5 standard
# errors) is still taken, and leaves about its square.
_LEAST_GAIN = 1e-10
# An increase below this share of the loss is rounding, not a step too long.
_ROUNDING = 1e-12
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Descent:
    """Units on their way to the least penalised loss; it asks for sums over rows and never sees one.

    Parameters
    ----------
    prior : Normal
        What each unit is believed to be before any row is seen: the penalty.
    slopes : tuple of int
        The places of the parameters that must not be negative.
    best : Floats
        The lowest point known of each unit, (k, units).
    sums : Floats
        Log-loss, gradient and packed Hessian there, without the penalty, as in :meth:`Runs.sums`; before
        anything is known the loss is infinite.
    step : Floats
        From ``best`` to the point to try next, (k, units).
    live : Places
        The units not done yet, ascending.
    least_gain : float
        A unit is done when its next step would gain no more than this many nats.
    slack : float
        An increase up to this many nats does not count as one; for sums of limited precision.

    Examples
    --------
    One unit, no rows: it keeps its prior.

    >>> import numpy as np
    >>> descent = Descent.start(Normal(np.ones((1, 1)), np.ones((1, 1, 1))), slopes=(0,))
    >>> descent.point.tolist(), descent.done
    ([[1.0]], False)
    >>> descent = descent.take(np.zeros((3, 1)))
    >>> descent.result.centre.tolist(), descent.done
    ([[1.0]], True)
    """

    prior: Normal
    slopes: tuple[int, ...]
    best: Floats
    sums: Floats
    step: Floats
    live: Places
    least_gain: float
    slack: float

    @classmethod
    def start(
        cls,
        prior: Normal,
        slopes: tuple[int, ...],
        *,
        at: Floats | None = None,
        least_gain: float = _LEAST_GAIN,
        slack: float = 0.0,
    ) -> Descent:
        """Begin at the prior's centres, or at other points (k, units)."""
        best = prior.centre if at is None else at
        k, units = best.shape
        sums = np.zeros((1 + k + k * (k + 1) // 2, units))
        sums[0] = np.inf
        return cls(prior, slopes, best, sums, np.zeros_like(best), np.arange(units), least_gain, slack)

    def again(self, at: Floats) -> Descent:
        """Begin anew at other points, (k, units)."""
        return Descent.start(self.prior, self.slopes, at=at, least_gain=self.least_gain, slack=self.slack)

    @property
    def point(self) -> Floats:
        """Where the sums of the live units are needed, (k, live units)."""
        return self.best[:, self.live] + self.step[:, self.live]

    @property
    def done(self) -> bool:
        """Whether no unit is live."""
        return not self.live.size

    @property
    def ahead(self) -> Normal:
        """Parameters as if every unit took its next step and stopped, and the curvature before that step."""
        hessian = self.sums[1 + len(self.best) :][packed_places(len(self.best))]
        return Normal(self.best + self.step, hessian + self.prior.precision)

    @property
    def result(self) -> Normal:
        """Parameters of least penalised loss, and the curvature there; live units stay at their best."""
        ahead = self.ahead
        ahead.centre[:, self.live] = self.best[:, self.live]
        return ahead

    def take(self, sums: Floats) -> Descent:
        """Take the sums of the live units at :attr:`point`: step on where they are lower, else halve the step."""
        live, point = self.live, self.point
        prior = self.prior.of(live)
        value = penalised_loss(sums, prior, point)
        lowest = penalised_loss(self.sums[:, live], prior, self.best[:, live])
        down = value <= lowest + _ROUNDING * (1.0 + np.abs(value)) + self.slack
        ahead = live[down]
        best, known, step = self.best.copy(), self.sums.copy(), self.step.copy()
        best[:, ahead], known[:, ahead] = point[:, down], sums[:, down]
        step[:, live[~down]] *= 0.5
        return replace(self, best=best, sums=known, step=step)._aimed(ahead)

    def under(self, prior: Normal, units: Places) -> Descent:
        """The same sums under new beliefs about some units, each with at least one point known."""
        centre, precision = self.prior.centre.copy(), self.prior.precision.copy()
        centre[:, units], precision[:, :, units] = prior.centre, prior.precision
        return replace(self, prior=Normal(centre, precision))._aimed(units)

    def _aimed(self, units: Places) -> Descent:
        """Choose the next step of some units from their best point, and whether they go on."""
        best = self.best[:, units]
        gradient, hessian = penalised_derivatives(self.sums[:, units], self.prior.of(units), best)
        move = bounded_step(hessian, gradient, best, self.slopes)
        step, going = self.step.copy(), np.zeros(self.best.shape[1], dtype=bool)
        step[:, units] = move
        going[self.live] = True
        going[units] = -model_change(hessian, gradient, move) > self.least_gain
        return replace(self, step=step, live=np.flatnonzero(going))


def most_probable(runs: Runs, owner: Places, prior: Normal, slopes: tuple[int, ...]) -> Normal:
    """Parameters of least penalised loss with slopes >= 0, and the curvature there.

    ``owner[r]`` is the unit to which run r belongs; a unit without rows keeps its prior exactly.
    """
    descent = Descent.start(prior, slopes)
    for _ in range(_MOST_STEPS):
        before, descent = descent, descent.take(unit_sums(runs, owner, descent.point))
        if descent.done:
            break
        runs, owner = _narrowed(runs, owner, np.isin(before.live, descent.live, assume_unique=True))
    return descent.result


def unit_sums(runs: Runs, owner: Places, point: Floats) -> Floats:
    """Each unit's sums over its runs, as in :meth:`Runs.sums`, at one point per unit, (k, units)."""
    by_run = runs.sums(point[:, owner])
    return np.vstack([np.bincount(owner, weights=row, minlength=point.shape[1]) for row in by_run])


def _narrowed(runs: Runs, owner: Places, stay: npt.NDArray[np.bool_]) -> tuple[Runs, Places]:
    """Only the runs of units that stay, which are numbered anew."""
    if stay.all():
        return runs, owner
    wanted = stay[owner]
    renumbered = np.cumsum(stay) - 1
    return runs.keep(wanted), renumbered[owner[wanted]]
