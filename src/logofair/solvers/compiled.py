"""The same pivots as in :mod:`logofair.solvers.simplex`, compiled: one client after the other, clients in parallel.

Optional (``pip install 'logofair[fast]'``). It works on the same tableau, so either code continues where the other
stopped; the numpy one is the reference. Compiling takes seconds once and is cached on disk.
"""

from __future__ import annotations

import numba
import numpy as np

from logofair.inputs import Floats
from logofair.solvers.problem import Problem
from logofair.solvers.simplex import OPTIMAL, PIVOT, TIE, Tableau

_ENOUGH_CLIENTS = 64  # for fewer, waking threads costs more than it saves
_PIVOTS = 60  # more than any sound program needs; the rest is left to the reference code


def maximise_compiled(tableau: Tableau, problem: Problem, gain_u: Floats, gain_v: Floats) -> None:
    """Pivot every program until it cannot improve, in place; ``done`` says which got there."""
    cells, (rate_u, rate_v) = problem.cells, problem.local
    mass_below = cells.mass_below if cells.mass_below is not None else np.zeros(0)
    run = _maximise_serial if tableau.done.size < _ENOUGH_CLIENTS else _maximise_parallel
    run(
        (tableau.inverse, tableau.solution, tableau.gain, tableau.u, tableau.v, tableau.rates),
        tableau.kind,
        tableau.at_upper,
        tableau.floor,
        tableau.tolerance,
        tableau.done,
        (gain_u, gain_v, rate_u, rate_v),
        (cells.starts, cells.values, cells.positives_below, mass_below, cells.scale, cells.positives),
    )


@numba.njit(cache=True)
def _corner(cell, slope, constant, table):
    """Return (u, v) of the best corner of a cell for ``slope * v + constant * u``; as Cells.best_corner."""
    starts, values, positives_below, mass_below, scale, positives = table
    first, last = starts[cell], starts[cell + 1]
    if first == last:
        return 0.0, 0.0
    upper = slope >= 0
    zero = -constant / slope if slope != 0 else (-np.inf if constant > 0 else np.inf)
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < zero or (not upper and values[middle] == zero):
            low = middle + 1
        else:
            high = middle
    cut = low - first
    below = float(cut) if mass_below.size == 0 else mass_below[low + cell]
    u, v = below * scale[cell], positives_below[low + cell] * scale[cell]
    if upper:
        return 1.0 - u, positives[cell] * scale[cell] - v
    return u, v


@numba.njit(cache=True)
def _enter(dual, kind, at_upper, tolerance, gains, table, client, limit, column):
    """Best entering column, written to ``column``: its kind (-1: none), direction, u, v."""
    gain_u, gain_v, rate_u, rate_v = gains
    groups, rates = rate_u.shape[1], rate_u.shape[2]
    count = groups * rates
    best, chosen, direction, best_u, best_v = limit, -1, 1.0, 0.0, 0.0
    for a in range(groups):
        slope, constant = gain_v[client, a], gain_u[client, a]
        for k in range(rates):
            price = dual[groups + a * rates + k]
            slope -= price * rate_v[client, a, k]
            constant -= price * rate_u[client, a, k]
        u, v = _corner(client * groups + a, slope, constant, table)
        gain = slope * v + constant * u - dual[a]
        if gain > best:
            best, chosen, direction, best_u, best_v = gain, a, 1.0, u, v
    for i in range(count):
        bound = tolerance[i]
        if bound > 0 and bound < np.inf and not np.any(kind == groups + i):
            gain = -dual[groups + i] if at_upper[i] else dual[groups + i]
            if gain > best:
                best, chosen, direction = gain, groups + i, -1.0 if at_upper[i] else 1.0
    for k in range(rates):
        drift = 0.0
        for a in range(groups):
            drift += dual[groups + a * rates + k]
        if abs(drift) > best and not np.any(kind == groups + count + k):
            best, chosen, direction = abs(drift), groups + count + k, -1.0 if drift < 0 else 1.0
    column[:] = 0.0
    if chosen >= groups + count:
        for a in range(groups):
            column[groups + a * rates + chosen - groups - count] = -1.0
    elif chosen >= groups:
        column[chosen] = -1.0
    elif chosen >= 0:
        column[chosen] = 1.0
        for k in range(rates):
            value = rate_u[client, chosen, k] * best_u + rate_v[client, chosen, k] * best_v
            column[groups + chosen * rates + k] = value
    return chosen, direction, best_u, best_v


@numba.njit(cache=True)
def _leave(moved, solution, kind, tolerance, groups):
    """Ratio test: row (-1: none), step, and whether it leaves at its upper bound."""
    row, step, size, upper = -1, np.inf, 0.0, False
    count = tolerance.size
    for i in range(moved.size):
        change = moved[i]
        if abs(change) <= PIVOT:
            continue
        low, high = -np.inf, np.inf
        if kind[i] < groups:
            low = 0.0
        elif kind[i] < groups + count and tolerance[kind[i] - groups] < np.inf:
            low, high = 0.0, tolerance[kind[i] - groups]
        room = solution[i] - low if change > 0 else high - solution[i]
        ratio = max(room, 0.0) / abs(change)
        if ratio < step - TIE or (ratio <= step + TIE and ratio < np.inf and abs(change) > size):
            row, step, size, upper = i, ratio, abs(change), change < 0
    return row, step, upper


@numba.njit(cache=True)
def _one(client, inverse, solution, gain, at_u, at_v, at_rates, kind, at_upper, floor, tolerance, gains, table):
    """Pivot one program; whether it reached its optimum."""
    gain_u, gain_v, rate_u, _ = gains
    groups, rates = rate_u.shape[1], rate_u.shape[2]
    rows, count = solution.size, groups * rates
    dual, column, moved = np.empty(rows), np.empty(rows), np.empty(rows)
    for _ in range(_PIVOTS):
        scale = 0.0
        for j in range(rows):
            dual[j] = 0.0
            scale = max(scale, abs(gain[j]))
        for i in range(rows):
            if gain[i] != 0.0:
                for j in range(rows):
                    dual[j] += gain[i] * inverse[i, j]
        chosen, direction, u, v = _enter(
            dual, kind, at_upper, tolerance, gains, table, client, OPTIMAL * (1.0 + scale), column
        )
        if chosen < 0:
            return True
        for i in range(rows):
            total = 0.0
            for j in range(rows):
                total += inverse[i, j] * column[j]
            moved[i] = total * direction
        row, step, upper = _leave(moved, solution, kind, tolerance, groups)
        slack = groups <= chosen < groups + count
        if slack and tolerance[chosen - groups] <= step:
            step = tolerance[chosen - groups]
            for i in range(rows):
                solution[i] -= step * moved[i]
            at_upper[chosen - groups] = not at_upper[chosen - groups]
            continue
        if row < 0:
            return False
        for i in range(rows):
            solution[i] -= step * moved[i]
        left = kind[row]
        if groups <= left < groups + count:
            at_upper[left - groups] = upper
        pivot = moved[row] * direction
        for j in range(rows):
            inverse[row, j] /= pivot
        for i in range(rows):
            factor = moved[i] * direction
            if i != row and factor != 0.0:
                for j in range(rows):
                    inverse[i, j] -= factor * inverse[row, j]
        origin = 0.0
        if slack and direction < 0:
            origin = tolerance[chosen - groups]
        elif chosen >= groups + count:
            origin = floor[chosen - groups - count]
        solution[row], kind[row] = origin + direction * step, chosen
        at_u[row], at_v[row], gain[row] = 0.0, 0.0, 0.0
        at_rates[row, :] = 0.0
        if chosen < groups:
            at_u[row], at_v[row] = u, v
            gain[row] = gain_u[client, chosen] * u + gain_v[client, chosen] * v
            for k in range(rates):
                at_rates[row, k] = column[groups + chosen * rates + k]
    return False


def _maximise(state, kind, at_upper, floor, tolerance, done, gains, table):
    inverse, solution, gain, at_u, at_v, at_rates = state
    for client in numba.prange(done.size):
        done[client] = _one(
            client,
            inverse[client],
            solution[client],
            gain[client],
            at_u[client],
            at_v[client],
            at_rates[client],
            kind[client],
            at_upper[client],
            floor[client],
            tolerance[client],
            gains,
            table,
        )


_maximise_serial = numba.njit(cache=True)(_maximise)
_maximise_parallel = numba.njit(cache=True, parallel=True)(_maximise)
