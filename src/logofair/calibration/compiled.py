"""What calibration does to all rows, compiled: the optional counterparts of numpy's code, the same to rounding."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from logofair.calibration.newton import SURE, Runs
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Booleans, Indices

_NO_WEIGHTS = np.zeros(0)
_ROWS_PER_PART = 1 << 13


def beta_sums(runs: Runs, parameters: Floats, wanted: Booleans) -> Floats:
    """Each wanted run's log-loss, its gradient and packed Hessian, (10, runs); 0 for the others."""
    weights = _NO_WEIGHTS if runs.weights is None else runs.weights
    # Runs side by side in parts of about equal rows: each run is summed by one thread, in its own order.
    parts = np.searchsorted(runs.starts[:-1], np.arange(0, runs.targets.size, _ROWS_PER_PART))
    bounds = np.unique(np.append(parts, runs.size))
    first, second = runs.columns
    found = _sums(first, second, runs.targets, weights, runs.starts, parameters.T.copy(), wanted, bounds)
    return np.asarray(found.T)


@numba.njit(cache=True, parallel=True, error_model="numpy")
def _sums(first, second, targets, weights, starts, parameters, wanted, bounds):
    sums = np.zeros((starts.size - 1, 10))
    for part in numba.prange(bounds.size - 1):
        for run in range(bounds[part], bounds[part + 1]):
            if wanted[run]:
                _add_run(sums[run], first, second, targets, weights, starts[run], starts[run + 1], parameters[run])
    return sums


@numba.njit(cache=True, error_model="numpy")
def _add_run(total, first, second, targets, weights, begin, end, parameters):
    # Ten numbers by name: in registers they cost half of what they cost in an array.
    a, b, c = parameters
    loss = g0 = g1 = g2 = h00 = h01 = h02 = h11 = h12 = h22 = 0.0
    for i in range(begin, end):
        x, y, target = first[i], second[i], targets[i]
        margin = a * x + b * y + c
        tail = math.exp(-abs(margin))
        likely = 1.0 / (1.0 + tail)
        unlikely = tail * likely
        curvature = likely * unlikely
        sure = tail if tail < SURE else -math.log(likely)
        if margin >= 0.0:
            residual = (1.0 - target) - unlikely
            miss = margin * (1.0 - target) + sure
        else:
            residual = unlikely - target
            miss = -margin * target + sure
        if weights.size:
            miss, residual, curvature = miss * weights[i], residual * weights[i], curvature * weights[i]
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
    total[:] = (loss, g0, g1, g2, h00, h01, h02, h11, h12, h22)


def beta_class_sums(
    runs: Runs, first_class: Indices, classes: int, size: int, per_odds: float, widest: float
) -> Floats:
    """Mass, summed features and summed targets of the rows of each class of log-odds, (4, size)."""
    weights = _NO_WEIGHTS if runs.weights is None else runs.weights
    first, second = runs.columns
    found = _class_sums(first, second, runs.targets, weights, runs.starts, first_class, classes, size, per_odds, widest)
    return np.asarray(found.T)


@numba.njit(cache=True, error_model="numpy")
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
    return np.asarray(_chances(scores, unit, fold, tables, edge))


@numba.njit(cache=True, parallel=True, error_model="numpy")
def _chances(scores, unit, fold, tables, edge):
    chances = np.empty_like(scores)
    for i in numba.prange(scores.size):
        score = min(max(scores[i], edge), 1.0 - edge)
        a, b, c = tables[fold[i], unit[i]]
        margin = a * math.log(score) - b * math.log1p(-score) + c
        tail = math.exp(-abs(margin))
        likely = 1.0 / (1.0 + tail)
        chances[i] = likely if margin >= 0.0 else tail * likely
    return chances


def dealt_in_turn(drawn: Integers, place: Integers, n_places: int, dealt: npt.NDArray[np.int16]) -> Any:
    """Give rows what is dealt: those of the first place first, those of one place in the order they are drawn."""
    return _dealt_in_turn(drawn, place, n_places, dealt)


@numba.njit(cache=True)
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
    return np.asarray(_rising_means(values, _NO_WEIGHTS if mass is None else mass, starts))


@numba.njit(cache=True, parallel=True, error_model="numpy")
def _rising_means(values, mass, starts):
    means = np.empty_like(values)
    for run in numba.prange(starts.size - 1):
        _pool(values, mass, means, starts[run], starts[run + 1])
    return means


@numba.njit(cache=True, error_model="numpy")
def _pool(values, mass, means, begin, end):
    """Pools lie on a stack: their means in ``means``, their sums, masses and ends beside it, all from ``begin`` on."""
    sums, masses, ends = np.empty(end - begin), np.empty(end - begin), np.empty(end - begin, np.int64)
    top = -1
    for i in range(begin, end):
        weight = mass[i] if mass.size else 1.0
        total, mean = weight * values[i], values[i]
        while top >= 0 and means[begin + top] >= mean:
            total += sums[top]
            weight += masses[top]
            mean = total / weight
            top -= 1
        top += 1
        means[begin + top], sums[top], masses[top], ends[top] = mean, total, weight, i + 1
    for pool in range(top, -1, -1):
        first = ends[pool - 1] if pool else begin
        mean = means[begin + pool]
        for i in range(first, ends[pool]):
            means[i] = mean
