"""Many small penalised logistic regressions at once by Newton's method: state in, state out, fed with sums over rows.

A unit is what has a calibration map of its own: all rows, a group, or a cell. A :class:`Descent` sees no row. It names
the points at which it needs sums over the rows of its units (log-loss, gradient, Hessian), and takes these sums: from
rows in memory (:class:`Runs`, :func:`map_estimate`), or added up over many sites.

All rows, every group and every cell are levels, each with the one above as its :class:`Prior`: a level's parameters are
the most probable ones under a Gaussian centred at the parent's, as sharp as ``strength`` rows of the parent. So an
empty cell has its group's map, and a large one its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from logofair.calibration.maps import IDENTITY_ROWS, Family
from logofair.columns.checks import Binary, Floats
from logofair.columns.segments import PIECE, Booleans, Indices, in_threads

_SMALLEST_PIVOT = 1e-14
_SURE = 1e-8  # for odds below this log(1 + odds) is replaced by the odds, which have all digits
# Every prior has at least the information of this many rows of the parent and as many of the identity map. Otherwise an
# empty cell would have no parameters, and one whose parent is sure of every label would have none that are finite.
_FEWEST_ROWS = 1e-6
# A unit is done when its next step would gain less than this many nats. That step (some 1e-5 standard errors) is still
# taken, and what is left is about its square.
_LEAST_GAIN = 1e-10
_ROUNDING = 1e-12  # an increase below this share of the loss is rounding, not a step too long
MOST_STEPS = 200


def packed_places(k: int) -> Indices:
    """Where entry (i, j) of a symmetric (k, k) matrix lies among its k(k+1)/2 packed ones, (k, k)."""
    places = np.zeros((k, k), dtype=np.int64)
    places[np.triu_indices(k)] = np.arange(k * (k + 1) // 2)
    return np.maximum(places, places.T)


@dataclass(frozen=True)
class Runs:
    """Rows of many logistic regressions: those of one run stand next to one another."""

    columns: tuple[Floats, ...]  # the features that vary, each (n,)
    intercept: bool  # whether a constant feature follows
    targets: Floats | Binary  # labels, or chances of label 1, (n,)
    weights: Floats | None  # all positive; None: each row counts once
    starts: Indices  # run r holds the rows starts[r] to starts[r + 1], at least one; (runs + 1,)
    linear: Floats | None = None  # a term of each run's gradient that means over rows leave out, (k, runs)

    @property
    def mass(self) -> Floats:
        """Sum of the weights of each run."""
        if self.weights is None:
            return np.diff(self.starts).astype(np.float64)
        return np.add.reduceat(self.weights, self.starts[:-1]) if self.starts.size > 1 else np.zeros(0)

    def keep(self, wanted: Booleans) -> Runs:
        """The wanted runs alone."""
        if wanted.all():
            return self
        lengths = np.diff(self.starts)
        rows = np.repeat(wanted, lengths)
        return Runs(
            tuple(column[rows] for column in self.columns),
            self.intercept,
            self.targets[rows],
            None if self.weights is None else self.weights[rows],
            np.concatenate(([0], np.cumsum(lengths[wanted]))),
            None if self.linear is None else self.linear[:, wanted],
        )

    def sums(self, parameters: Floats, chunk: int = PIECE) -> Floats:
        """Each run's log-loss, its gradient and packed Hessian in the parameters, stacked, ``chunk`` rows at a time.

        Parameters (k, runs) to sums (1 + k + k(k+1)/2, runs).
        """
        k, size = len(parameters), self.starts.size - 1
        # Long runs are cut at places counted from their own start, short ones never: so a run's sums are the same, to
        # the last digit, whatever runs stand beside it.
        pieces = -(-np.diff(self.starts) // chunk)
        first_piece = np.concatenate(([0], np.cumsum(pieces)))
        run = np.repeat(np.arange(size), pieces)
        starts = self.starts[run] + chunk * (np.arange(run.size) - first_piece[run])
        ends = np.append(starts[1:], self.targets.size)
        totals = np.zeros((1 + k + k * (k + 1) // 2, run.size))

        def add(some: Indices) -> None:
            rows, lengths = slice(starts[some[0]], ends[some[-1]]), ends[some] - starts[some]
            terms = self._terms(rows, [np.repeat(p[run[some]], lengths) for p in parameters])
            totals[:, some] = np.add.reduceat(terms, starts[some] - rows.start, axis=1)

        if run.size:
            together = np.split(np.arange(run.size), np.flatnonzero(np.diff(starts // chunk)) + 1)
            in_threads(add, together, self.targets.size)
        if run.size > size:
            totals = np.add.reduceat(totals, first_piece[:-1], axis=1)
        if self.linear is not None:
            totals[0] += (self.linear * parameters).sum(axis=0)
            totals[1 : 1 + k] += self.linear
        return totals

    def _terms(self, rows: slice, parameters: list[Floats]) -> Floats:
        """Each row's terms of these sums."""
        features, targets = [column[rows] for column in self.columns], self.targets[rows]
        if self.intercept:
            features.append(np.ones(targets.size))
        margin = parameters[0] * features[0]
        for parameter, feature in zip(parameters[1:], features[1:], strict=True):
            margin += parameter * feature
        # In terms of the less likely label, whose chance and loss keep all digits however small they are.
        size, up = np.abs(margin), margin >= 0.0
        tail = np.exp(-size)
        likely = 1.0 / (1.0 + tail)
        unlikely = tail * likely
        against = np.where(up, 1.0 - targets, targets)
        excess = against - unlikely
        loss = size * against + np.where(tail < _SURE, tail, -np.log(likely))
        residual, curvature = np.where(up, excess, -excess), likely * unlikely
        if self.weights is not None:
            loss, residual, curvature = (term * self.weights[rows] for term in (loss, residual, curvature))
        k = len(features)
        table = np.empty((1 + k + k * (k + 1) // 2, targets.size))
        table[0] = loss
        place = 1 + k
        for i, feature in enumerate(features):
            np.multiply(residual, feature, out=table[1 + i])
            bent = curvature * feature
            for other in features[i:]:
                np.multiply(bent, other, out=table[place])
                place += 1
        return table


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal distributions of the parameters of units: centres (k, units), precisions (k, k, units)."""

    centre: Floats
    precision: Floats

    def of(self, units: Indices) -> Normal:
        """Those of some units."""
        return Normal(self.centre[:, units], self.precision[:, :, units])


def penalised_loss(sums: Floats, prior: Normal, point: Floats) -> Floats:
    """Log-loss of the rows (the first of their sums) and penalty of the prior at a point (k, units); (units,)."""
    away = point - prior.centre
    return np.asarray(sums[0] + 0.5 * _added(away * _product(prior.precision, away)))


def penalised_derivatives(sums: Floats, prior: Normal, point: Floats) -> tuple[Floats, Floats]:
    """Gradient (k, units) and Hessian (k, k, units) of the penalised loss at a point (k, units)."""
    k = len(point)
    gradient = sums[1 : 1 + k] + _product(prior.precision, point - prior.centre)
    return gradient, sums[1 + k :][packed_places(k)] + prior.precision


def solve(matrix: Floats, right: Floats) -> Floats:
    """Solve positive definite systems by elimination: (k, k, ...) and (k, ...), one system for each of what follows.

    Linear algebra libraries add in an order that depends on the processor. Here the order is fixed, and each operation
    is rounded as IEEE 754 says: the bits are the same on every machine.

    Examples
    --------
    >>> import numpy as np
    >>> solve(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([2.0, 3.0])).tolist()
    [0.0, 1.0]
    """
    left, solution = matrix.copy(), right.copy()
    pivots = np.empty_like(right)
    for j in range(len(right)):
        pivots[j] = np.maximum(left[j, j], _SMALLEST_PIVOT * matrix[j, j])
        factor = left[j + 1 :, j] / pivots[j]
        left[j + 1 :, j + 1 :] -= factor[:, None] * left[None, j, j + 1 :]
        solution[j + 1 :] -= factor * solution[j]
    for j in reversed(range(len(right))):
        solution[j] /= pivots[j]
        solution[:j] -= left[:j, j] * solution[j]
    return solution


def bounded_step(hessian: Floats, gradient: Floats, point: Floats, slopes: tuple[int, ...]) -> Floats:
    """Newton step under the constraint that slopes are not negative, (k, units): to the quadratic model's minimum.

    Where the unconstrained minimum has a negative slope, all sets of slopes that may be 0 are tried.
    """
    step = solve(hessian, -gradient)
    outside = np.flatnonzero(np.any((point + step)[list(slopes)] < 0.0, axis=0))
    if not outside.size:
        return step
    hessian, gradient, point = hessian[:, :, outside], gradient[:, outside], point[:, outside]
    chosen, least = np.zeros_like(point), np.full(outside.size, np.inf)
    for size in range(1, len(slopes) + 1):
        for zeros in combinations(slopes, size):
            free, move, right = [j for j in range(len(point)) if j not in zeros], -point, -gradient
            for j in zeros:
                right += hessian[:, j] * point[j]
            move[free] = solve(hessian[free][:, free], right[free])
            value = model_change(hessian, gradient, move)
            better = np.all((point + move)[list(slopes)] >= 0.0, axis=0) & (value < least)
            chosen, least = np.where(better, move, chosen), np.where(better, value, least)
    step[:, outside] = chosen
    return step


def model_change(hessian: Floats, gradient: Floats, step: Floats) -> Floats:
    """Change of the quadratic model along a step, (units,)."""
    return _added(step * (gradient + 0.5 * _product(hessian, step)))


def _product(matrix: Floats, vector: Floats) -> Floats:
    """One matrix-vector product per unit."""
    return _added(matrix.swapaxes(0, 1) * vector[:, None])


def _added(terms: Floats) -> Floats:
    """Sum over the first axis, one term after the other.

    How numpy's sums round depends on the number of units and on the processor (fused multiply-add).
    """
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return np.asarray(total)


@dataclass(frozen=True, eq=False)
class Descent:
    """The state of Newton's method for many units; asks for sums over rows and never sees a row."""

    prior: Normal  # of each unit's parameters: the penalty
    slopes: tuple[int, ...]  # the places of the parameters that must not be negative
    best: Floats  # the point of least loss known of each unit, (k, units)
    sums: Floats  # there, without the penalty, as in Runs.sums; at first the loss is infinite
    step: Floats  # from best to the point to try next, (k, units)
    live: Indices  # the units not done yet, ascending
    least_gain: Floats  # a unit is done when its next step would gain no more than this many nats; (units,)
    slack: float  # an increase by up to this many nats is taken for rounding, for sums of limited precision

    @classmethod
    def start(
        cls,
        prior: Normal,
        slopes: tuple[int, ...],
        *,
        at: Floats | None = None,
        least_gain: float | Floats = _LEAST_GAIN,
        slack: float = 0.0,
    ) -> Descent:
        """Begin at the prior's centres, or at other points (k, units)."""
        best = prior.centre if at is None else at
        k, units = best.shape
        sums = np.zeros((1 + k + k * (k + 1) // 2, units))
        sums[0] = np.inf
        gain = np.atleast_1d(np.asarray(least_gain, dtype=np.float64))
        return cls(prior, slopes, best, sums, np.zeros_like(best), np.arange(units), gain, slack)

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
        """Parameters after every unit's next step, and the curvature before that step."""
        hessian = self.sums[1 + len(self.best) :][packed_places(len(self.best))]
        return Normal(self.best + self.step, hessian + self.prior.precision)

    @property
    def result(self) -> Normal:
        """Parameters of least penalised loss, and the curvature there; live units are given at their best point."""
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
        return replace(self, best=best, sums=known, step=step)._with_next_step(ahead)

    def under(self, prior: Normal, units: Indices) -> Descent:
        """The same state under new priors of some units, of which sums must be known."""
        centre, precision = self.prior.centre.copy(), self.prior.precision.copy()
        centre[:, units], precision[:, :, units] = prior.centre, prior.precision
        return replace(self, prior=Normal(centre, precision))._with_next_step(units)

    def _with_next_step(self, units: Indices) -> Descent:
        """Choose the next step of some units from their best point; they are live if it gains enough."""
        best = self.best[:, units]
        gradient, hessian = penalised_derivatives(self.sums[:, units], self.prior.of(units), best)
        move = bounded_step(hessian, gradient, best, self.slopes)
        step, going = self.step.copy(), np.zeros(self.best.shape[1], dtype=bool)
        step[:, units] = move
        going[self.live] = True
        least_gain = np.broadcast_to(self.least_gain, going.size)[units]
        going[units] = -model_change(hessian, gradient, move) > least_gain
        return replace(self, step=step, live=np.flatnonzero(going))


def map_estimate(runs: Runs, owner: Indices, prior: Normal, slopes: tuple[int, ...]) -> Normal:
    """Parameters of least penalised loss with slopes >= 0, and the curvature there.

    ``owner[r]`` is the unit to which run r belongs; a unit without rows keeps its prior exactly.
    """
    descent = Descent.start(prior, slopes)
    for _ in range(MOST_STEPS):
        before, descent = descent, descent.take(unit_sums(runs, owner, descent.point))
        if descent.done:
            break
        stay = np.isin(before.live, descent.live, assume_unique=True)
        if not stay.all():  # only the runs of units that stay, which are numbered anew
            wanted, renumbered = stay[owner], np.cumsum(stay) - 1
            runs, owner = runs.keep(wanted), renumbered[owner[wanted]]
    return descent.result


def unit_sums(runs: Runs, owner: Indices, point: Floats) -> Floats:
    """Each unit's sums over its runs, as in :meth:`Runs.sums`, at one point per unit, (k, units)."""
    by_run = runs.sums(point[:, owner])
    return np.vstack([np.bincount(owner, weights=row, minlength=point.shape[1]) for row in by_run])


# ---------------------------------------------------------------- priors and targets


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of a level of units, and its strength in rows."""

    family: Family
    normal: Normal
    rows: float

    @classmethod
    def on_identity(cls, family: Family) -> Prior:
        """The prior of all rows, centred at the identity map; one unit."""
        centre, information = np.array(family.identity)[:, None], family.reference_information()[:, :, None]
        return cls.around(family, centre, information, IDENTITY_ROWS)

    @classmethod
    def around(cls, family: Family, centre: Floats, information: Floats, rows: float) -> Prior:
        """Gaussian priors at the centres of units, each with the information of this many rows."""
        rows = max(rows, _FEWEST_ROWS)
        least = _FEWEST_ROWS * family.reference_information()[:, :, None]
        return cls(family, Normal(centre, rows * information + least), rows)

    def of(self, units: Indices) -> Prior:
        """The prior of each unit of the next level, given the number of its parent."""
        return replace(self, normal=self.normal.of(units))

    def on(self, level: Normal, seen: Floats, strength: float) -> Prior:
        """The prior of the next level, centred at this level's fitted units; ``seen`` are their rows, (units,)."""
        return Prior.around(self.family, level.centre, self.information(level, seen), strength)

    def information(self, level: Normal, seen: Floats) -> Floats:
        """Fisher information of one row about each of these units' parameters."""
        # The prior's rows count as rows here: so a unit without any passes its parent's information on.
        return level.precision / (seen + self.rows)


def platt_targets(negatives: Floats, positives: Floats) -> tuple[Floats, Floats]:
    """Platt's targets: 1/(N- + 2) for label 0 and (N+ + 1)/(N+ + 2) for label 1.

    The counts are those of all rows, on every level: his prior stands for knowing nothing, and groups and cells know
    their parent's map. A label without rows keeps itself as target.
    """
    low = np.where(negatives > 0.0, 1.0 / (negatives + 2.0), 0.0)
    high = np.where(positives > 0.0, (positives + 1.0) / (positives + 2.0), 1.0)
    return low, high


def with_targets(sums: Floats, point: Floats, shift: Floats) -> Floats:
    """Turn sums with labels as targets into sums with other targets: the difference is linear in the point."""
    sums = sums.copy()
    sums[0] += np.sum(shift * point, axis=0)
    sums[1 : 1 + len(shift)] += shift
    return sums
