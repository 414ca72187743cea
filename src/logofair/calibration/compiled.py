"""What calibration does to all rows, compiled: the optional counterparts of numpy's code, the same to rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.arithmetic import SMALLEST_PIVOT
from logofair.calibration.newton import MOST_STEPS, ROUNDING, Normal, Runs
from logofair.columns.acceleration import piece_by_piece, pieces_of_runs, side_by_side
from logofair.columns.checks import Floats, Integers
from logofair.columns.compiled import NO_WEIGHTS, compiled, empty_stack, inlined, pool_run
from logofair.columns.segments import Booleans, Indices

_SMALL_CHANCE = 1e-290  # a row halves a product of chances at most: this one stays far from the smallest double


def beta_sums(
    runs: Runs, cell: Indices, fold: Indices, shape: tuple[int, int], at: Floats, wanted: Booleans, without: int
) -> Floats:
    """Each wanted unit's log-loss, its gradient and packed Hessian in every fold but one, (10, units, folds).

    ``shape`` are cells and folds; the unit of a run is its cell modulo their number. ``without`` may be no fold at all.
    """
    (n_cells, folds), size = shape, at.shape[1]
    weights = NO_WEIGHTS if runs.weights is None else runs.weights
    rows = (*runs.columns, runs.targets, weights, runs.starts)
    parts, points = pieces_of_runs(runs.starts), at.T.copy()
    # Where units are cells, no two runs have the same place; else every part has a table of its own.
    tables = np.zeros((1 if size == n_cells else len(parts), size * folds, 10))

    def add(part: int) -> None:
        some = parts[part].start, parts[part].stop
        _add_sums(some, rows, cell, fold, points, wanted, without, folds, tables[part % len(tables)])

    side_by_side(add, range(len(parts)), runs.targets.size)
    total = tables[0] if len(tables) else np.zeros((size * folds, 10))
    for table in tables[1:]:
        total += table
    return np.asarray(total.T.reshape(10, size, folds))


@compiled
def _add_sums(some, columns, cell, fold, at, wanted, without, folds, table):
    first, second, targets, weights, starts = columns
    for run in range(some[0], some[1]):
        unit = cell[run] % len(at)
        if wanted[unit] and fold[run] != without:
            begin, end, key = starts[run], starts[run + 1], unit * folds + fold[run]
            point = at[unit, 0], at[unit, 1], at[unit, 2]
            sums = _row_sums((first, second, targets, weights, begin, end, end, end), point)
            for i in range(10):
                table[key, i] += sums[i]


@inlined
def _row_sums(rows, point):
    """The sums of some rows, but for those from ``skipped`` to before ``resumed``."""
    first, second, targets, weights, begin, skipped, resumed, end = rows
    # Ten numbers by name: in registers they cost half of what they cost in an array.
    a, b, c = point
    loss = g0 = g1 = g2 = h00 = h01 = h02 = h11 = h12 = h22 = 0.0
    together = 1.0  # the chance of several rows: one logarithm for many costs half of what one for each does
    for i in range(begin, end - (resumed - skipped)):
        row = i if i < skipped else i + (resumed - skipped)
        x, y, target = first[row], second[row], targets[row]
        margin = a * x + b * y + c
        tail = math.exp(-abs(margin))
        likely = 1.0 / (1.0 + tail)
        unlikely = tail * likely
        curvature = likely * unlikely
        residual = (likely if margin >= 0.0 else unlikely) - target
        miss = max(margin, 0.0) - margin * target
        if weights.size:
            miss, residual, curvature = miss * weights[row], residual * weights[row], curvature * weights[row]
            loss -= weights[row] * math.log(likely)
        else:
            together *= likely
            if together < _SMALL_CHANCE:
                loss -= math.log(together)
                together = 1.0
        loss += miss
        g0 += residual * x
        g1 += residual * y
        g2 += residual
        h02 += curvature * x
        h12 += curvature * y
        h22 += curvature
        h00 += curvature * x * x
        h01 += curvature * x * y
        h11 += curvature * y * y
    loss -= math.log(together)
    return loss, g0, g1, g2, h00, h01, h02, h11, h12, h22


def beta_cells(
    runs: Runs, cell: Indices, fold: Indices, beliefs: Normal, without: Indices, least_gain: Floats
) -> Floats:
    """The maps of cells in every fit, (3, fits, cells), each by the steps that :class:`Descent` would take.

    ``beliefs`` are the groups', fit by fit; a cell starts at its group's map in the last fit. ``least_gain`` is that of
    every cell in every fit, (fits * cells,). All fits of a cell run while its rows are in the nearest cache, which pays
    where cells are small.
    """
    weights = NO_WEIGHTS if runs.weights is None else runs.weights
    rows = (*runs.columns, runs.targets, weights, runs.starts)
    centre = beliefs.centre.T.reshape(without.size, -1, 3).copy()
    precision = beliefs.precision[*np.triu_indices(3)].T.reshape(without.size, -1, 6).copy()
    least = least_gain.reshape(without.size, -1)
    first_run = np.searchsorted(cell, np.arange(least.shape[1] + 1))
    found = np.empty((least.shape[1], without.size, 3))

    def descend(cells: slice) -> None:
        _cells((cells.start, cells.stop), rows, fold, first_run, centre, precision, without, least, found)

    side_by_side(descend, pieces_of_runs(runs.starts[first_run]), runs.targets.size)
    return found.transpose(2, 1, 0)


@compiled
def _cells(some, columns, fold, first_run, centre, precision, without, least, found):
    first, second, targets, weights, starts = columns
    groups = centre.shape[1]
    for c in range(some[0], some[1]):
        begin, end, group = starts[first_run[c]], starts[first_run[c + 1]], c % groups
        for fit in range(without.size):
            skipped = resumed = end
            for run in range(first_run[c], first_run[c + 1]):
                if fold[run] == without[fit]:
                    skipped, resumed = starts[run], starts[run + 1]
            rows = first, second, targets, weights, begin, skipped, resumed, end
            a, b, c_ = centre[fit, group]
            if end - begin > resumed - skipped:
                p, q, r = centre[-1, group]
                h00, h01, h02, h11, h12, h22 = precision[fit, group]
                prior = (a, b, c_), (h00, h01, h02, h11, h12, h22)
                found[c, fit] = _descended(rows, (p, q, r), prior, least[fit, c])
            else:
                found[c, fit] = a, b, c_


@inlined
def _descended(rows, best, prior, least_gain):
    """The point of least penalised loss, by the steps of :class:`Descent`."""
    sums = _row_sums(rows, best)
    step, gain = _aimed(sums, best, prior)
    lowest = sums[0] + _penalty(best, prior)
    for _ in range(MOST_STEPS):
        point = best[0] + step[0], best[1] + step[1], best[2] + step[2]
        if gain <= least_gain:
            return point
        sums = _row_sums(rows, point)
        value = sums[0] + _penalty(point, prior)
        if value <= lowest + ROUNDING * (1.0 + abs(value)):
            best, lowest = point, value
            step, gain = _aimed(sums, best, prior)
        else:
            step = 0.5 * step[0], 0.5 * step[1], 0.5 * step[2]
    return best


@inlined
def _penalty(point, prior):
    centre, sharp = prior
    away = point[0] - centre[0], point[1] - centre[1], point[2] - centre[2]
    product = _product(sharp, away)
    return 0.5 * (away[0] * product[0] + away[1] * product[1] + away[2] * product[2])


@inlined
def _product(packed, vector):
    """A symmetric matrix times a vector."""
    h00, h01, h02, h11, h12, h22 = packed
    x, y, z = vector
    return h00 * x + h01 * y + h02 * z, h01 * x + h11 * y + h12 * z, h02 * x + h12 * y + h22 * z


@inlined
def _aimed(sums, best, prior):
    """The step of :func:`bounded_step` for two slopes and an intercept, and what the quadratic model says it gains."""
    centre, p = prior
    pull = _product(p, (best[0] - centre[0], best[1] - centre[1], best[2] - centre[2]))
    right = -(sums[1] + pull[0]), -(sums[2] + pull[1]), -(sums[3] + pull[2])
    h00, h01, h02 = sums[4] + p[0], sums[5] + p[1], sums[6] + p[2]
    h11, h12, h22 = sums[7] + p[3], sums[8] + p[4], sums[9] + p[5]
    hessian = h00, h01, h02, h11, h12, h22
    step = _solved(hessian, right)
    if best[0] + step[0] >= 0.0 and best[1] + step[1] >= 0.0:
        return step, -_model_change(hessian, right, step)
    x, y, (r0, r1, r2) = best[0], best[1], right
    chosen, least = (0.0, 0.0, 0.0), np.inf
    flat = _solved((1.0, 0.0, 0.0, h11, h12, h22), (0.0, r1 + h01 * x, r2 + h02 * x))
    move = -x, flat[1], flat[2]
    value = _model_change(hessian, right, move)
    if y + move[1] >= 0.0 and value < least:
        chosen, least = move, value
    flat = _solved((h00, 0.0, h02, 1.0, 0.0, h22), (r0 + h01 * y, 0.0, r2 + h12 * y))
    move = flat[0], -y, flat[2]
    value = _model_change(hessian, right, move)
    if x + move[0] >= 0.0 and value < least:
        chosen, least = move, value
    flat = _solved((1.0, 0.0, 0.0, 1.0, 0.0, h22), (0.0, 0.0, r2 + h02 * x + h12 * y))
    move = -x, -y, flat[2]
    value = _model_change(hessian, right, move)
    if value < least:
        chosen, least = move, value
    return chosen, -_model_change(hessian, right, chosen)


@inlined
def _model_change(hessian, right, step):
    product = _product(hessian, step)
    first, second = step[0] * (0.5 * product[0] - right[0]), step[1] * (0.5 * product[1] - right[1])
    return first + second + step[2] * (0.5 * product[2] - right[2])


@inlined
def _solved(packed, right):
    """As :func:`logofair.arithmetic.solve` does it."""
    h00, h01, h02, h11, h12, h22 = packed
    r0, r1, r2 = right
    f1, f2 = h01 / h00, h02 / h00
    l11, l12, l22 = h11 - f1 * h01, h12 - f1 * h02, h22 - f2 * h02
    p1 = max(l11, SMALLEST_PIVOT * h11)
    f = (h12 - f2 * h01) / p1
    r1 -= f1 * r0
    r2 -= f2 * r0
    r2 -= f * r1
    z = r2 / max(l22 - f * l12, SMALLEST_PIVOT * h22)
    y = (r1 - l12 * z) / p1
    return (r0 - h02 * z - h01 * y) / h00, y, z


def beta_class_sums(
    runs: Runs, first_class: Indices, classes: int, size: int, per_odds: float, widest: float
) -> Floats:
    """Mass, summed features and summed targets of the rows of each class of log-odds, (4, size)."""
    weights = NO_WEIGHTS if runs.weights is None else runs.weights
    first, second = runs.columns
    found = _class_sums(first, second, runs.targets, weights, runs.starts, first_class, classes, size, per_odds, widest)
    return np.asarray(found.T)


@compiled
def _class_sums(first, second, targets, weights, starts, first_class, classes, size, per_odds, widest):
    sums = np.zeros((size, 4))
    for run in range(starts.size - 1):
        for i in range(starts[run], starts[run + 1]):
            place = (first[i] + second[i] + widest) * per_odds
            row = sums[first_class[run] + int(min(max(place, 0.0), classes - 1.0))]
            weight = weights[i] if weights.size else 1.0
            row[0] += weight
            row[1] += weight * first[i]
            row[2] += weight * second[i]
            row[3] += weight * targets[i]
    return sums


def beta_chances(scores: Floats, unit: Indices, fold: npt.NDArray[np.int16], tables: Floats, edge: float) -> Floats:
    """Chances by the map of each row's unit in the table of its fold, (folds, units, 3)."""
    chances = np.empty_like(scores)
    piece_by_piece(
        lambda rows: _chances(scores[rows], unit[rows], fold[rows], tables, edge, chances[rows]), scores.size
    )
    return chances


@compiled
def _chances(scores, unit, fold, tables, edge, chances):
    for i in range(scores.size):
        score = min(max(scores[i], edge), 1.0 - edge)
        a, b, c = tables[fold[i], unit[i]]
        margin = a * math.log(score) - b * math.log1p(-score) + c
        tail = math.exp(-abs(margin))
        likely = 1.0 / (1.0 + tail)
        chances[i] = likely if margin >= 0.0 else tail * likely


def dealt_in_turn(drawn: Integers, place: Integers, n_places: int, dealt: npt.NDArray[np.int16]) -> Any:
    """Give rows what is dealt: those of the first place first, those of one place in the order they are drawn."""
    return _dealt_in_turn(drawn, place, n_places, dealt)


@compiled
def _dealt_in_turn(drawn, place, n_places, dealt):
    turn = np.zeros(n_places + 1, np.int64)
    for i in range(place.size):
        turn[place[i] + 1] += 1
    for each in range(n_places):
        turn[each + 1] += turn[each]
    given = np.empty_like(dealt)
    for i in range(drawn.size):
        row = drawn[i]
        given[row] = dealt[turn[place[row]]]
        turn[place[row]] += 1
    return given


def rising_means(values: Floats, mass: Floats | None, starts: Indices) -> Floats:
    """Isotonic regression of each run by itself, by pooling neighbours that fall."""
    mass, means = NO_WEIGHTS if mass is None else mass, np.empty_like(values)
    parts = pieces_of_runs(starts)
    side_by_side(lambda runs: _rising_means(runs.start, runs.stop, values, mass, starts, means), parts, values.size)
    return means


@compiled
def _rising_means(first, last, values, mass, starts, means):
    stack = empty_stack(starts, first, last)
    for run in range(first, last):
        begin = starts[run]
        for pool in range(pool_run(values, mass, begin, starts[run + 1], stack)):
            mean = stack[0][pool] / stack[1][pool]
            for i in range(begin, stack[2][pool]):
                means[i] = mean
            begin = stack[2][pool]
