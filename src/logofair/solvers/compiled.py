"""The same pivots as in :mod:`logofair.solvers.simplex`, compiled: one client after the other, clients in parallel.

Optional (``pip install 'logofair[fast]'``). It works on the same tableau, so either code continues where the other
stopped; the numpy one is the reference. Compiling takes seconds once and is cached on disk.
"""

from __future__ import annotations

import numba
import numpy as np

from logofair.columns.checks import Floats
from logofair.solvers.problem import Problem
from logofair.solvers.simplex import OPTIMAL, PIVOT, TIE, Tableau

_ENOUGH_CLIENTS = 64  # for fewer, waking threads costs more than it saves
_PIVOTS = 20  # for each row: more than any sound program needs; the rest is left to the reference code


def maximise_compiled(
    tableau: Tableau, problem: Problem, gain_u: Floats, gain_v: Floats, missed: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Pivot every program until it cannot improve by more than may be missed, in place; ``done``: which got there.

    Returns u, v (clients, groups), the prices (clients, groups, rates), and how far the constraints of each are off.
    """
    cells, (rate_u, rate_v) = problem.cells, problem.local
    mass_below = cells.mass_below if cells.mass_below is not None else np.zeros(0)
    u, v, off = np.empty_like(gain_u), np.empty_like(gain_v), np.empty(gain_u.shape[0])
    prices = np.empty_like(rate_u)
    arrays = (
        (tableau.inverse, tableau.solution, tableau.gain, tableau.u, tableau.v, tableau.rates),
        tableau.kind,
        tableau.at_upper,
        tableau.floor,
        tableau.high,
        tableau.done,
        (gain_u, gain_v, rate_u, rate_v),
        (cells.starts, cells.values, cells.positives_below, mass_below, cells.scale, cells.positives),
        u,
        v,
        prices,
        off,
        missed,
    )
    if off.size < _ENOUGH_CLIENTS:
        _some(0, off.size, *arrays)
    else:
        _all(*arrays)
    return u, v, prices, off


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
def _enter(client, price, basic, at_upper, tolerance, gains, table, limit, missed, column):
    """Best entering column, written to ``column``: its kind (-1: none is worth it), direction, u, v."""
    gain_u, gain_v, rate_u, rate_v = gains
    groups, rates = rate_u.shape[1], rate_u.shape[2]
    count = groups * rates
    best, chosen, direction, best_u, best_v = limit, -1, 1.0, 0.0, 0.0
    possible = 0.0  # no more can be gained by all columns together
    for a in range(groups):
        slope, constant = gain_v[client, a], gain_u[client, a]
        for k in range(rates):
            slope -= price[groups + a * rates + k] * rate_v[client, a, k]
            constant -= price[groups + a * rates + k] * rate_u[client, a, k]
        u, v = _corner(client * groups + a, slope, constant, table)
        gain = slope * v + constant * u - price[a]
        possible += max(gain, 0.0)
        if gain > best:
            best, chosen, direction, best_u, best_v = gain, a, 1.0, u, v
    for i in range(count):
        bound = tolerance[client, i]
        if bound > 0 and bound < np.inf and not basic[groups + i]:
            gain = -price[groups + i] if at_upper[client, i] else price[groups + i]
            possible += max(gain, 0.0) * bound
            if gain > best:
                best, chosen, direction = gain, groups + i, -1.0 if at_upper[client, i] else 1.0
    for k in range(rates):
        drift = 0.0
        for a in range(groups):
            drift += price[groups + a * rates + k]
        if abs(drift) > limit and not basic[groups + count + k]:
            possible = np.inf  # a floor has no end
            if abs(drift) > best:
                best, chosen, direction = abs(drift), groups + count + k, -1.0 if drift < 0 else 1.0
    if possible <= missed:
        return -1, direction, best_u, best_v
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
def _leave(client, moved, solution, kind, tolerance, groups):
    """Ratio test: row (-1: none), step, and whether it leaves at its upper bound."""
    row, step, size, upper = -1, np.inf, 0.0, False
    count = tolerance.shape[1]
    for i in range(moved.size):
        change = moved[i]
        if abs(change) <= PIVOT:
            continue
        low, high = -np.inf, np.inf
        if kind[client, i] < groups:
            low = 0.0
        elif kind[client, i] < groups + count and tolerance[client, kind[client, i] - groups] < np.inf:
            low, high = 0.0, tolerance[client, kind[client, i] - groups]
        room = solution[client, i] - low if change > 0 else high - solution[client, i]
        ratio = max(room, 0.0) / abs(change)
        if ratio < step - TIE or (ratio <= step + TIE and ratio < np.inf and abs(change) > size):
            row, step, size, upper = i, ratio, abs(change), change < 0
    return row, step, upper


@numba.njit(cache=True)
def _eliminate(client, inverse, moved, row, direction):
    """Bring the entering column into the basis inverse."""
    rows = moved.size
    pivot = moved[row] * direction
    for j in range(rows):
        inverse[client, row, j] /= pivot
    for i in range(rows):
        factor = moved[i] * direction
        if i != row and factor != 0.0:
            for j in range(rows):
                inverse[client, i, j] -= factor * inverse[client, row, j]


@numba.njit(cache=True)
def _remember(client, state, gains, row, chosen, u, v, column):
    """Note gain, place and rates of the corner that entered; a slack or floor has none."""
    _, _, gain, at_u, at_v, at_rates = state
    gain_u, gain_v, rate_u, _ = gains
    groups, rates = rate_u.shape[1], rate_u.shape[2]
    corner = chosen < groups
    at_u[client, row], at_v[client, row] = (u, v) if corner else (0.0, 0.0)
    gain[client, row] = gain_u[client, chosen] * u + gain_v[client, chosen] * v if corner else 0.0
    for k in range(rates):
        at_rates[client, row, k] = column[groups + chosen * rates + k] if corner else 0.0


@numba.njit(cache=True)
def _price(client, inverse, gain, price):
    """Write the prices of a program's rows; the largest gain of its basic variables by size."""
    price[:] = 0.0
    largest = 0.0
    for i in range(price.size):
        largest = max(largest, abs(gain[client, i]))
        if gain[client, i] != 0.0:
            for j in range(price.size):
                price[j] += gain[client, i] * inverse[client, i, j]
    return largest


@numba.njit(cache=True)
def _direct(client, inverse, column, direction, moved):
    """Write how the basic variables fall as the entering column moves in its direction."""
    for i in range(moved.size):
        total = 0.0
        for j in range(moved.size):
            total += inverse[client, i, j] * column[j]
        moved[i] = total * direction


@numba.njit(cache=True)
def _origin(client, chosen, direction, floor, tolerance, groups):
    """Value of a variable before it enters: of a slack at its upper bound, of a floor, else 0."""
    count = tolerance.shape[1]
    if groups <= chosen < groups + count and direction < 0:
        return tolerance[client, chosen - groups]
    return floor[client, chosen - groups - count] if chosen >= groups + count else 0.0


@numba.njit(cache=True)
def _one(client, state, kind, at_upper, floor, tolerance, gains, table, missed, work):
    """Pivot one program; whether it reached its optimum."""
    inverse, solution, gain, _, _, _ = state
    price, column, moved, basic = work
    groups, rows, count = gains[2].shape[1], solution.shape[1], tolerance.shape[1]
    basic[:] = False
    for i in range(rows):
        basic[kind[client, i]] = True
    for _ in range(_PIVOTS * rows):
        least = OPTIMAL * (1.0 + _price(client, inverse, gain, price))
        chosen, direction, u, v = _enter(client, price, basic, at_upper, tolerance, gains, table, least, missed, column)
        if chosen < 0:
            return True
        _direct(client, inverse, column, direction, moved)
        row, step, upper = _leave(client, moved, solution, kind, tolerance, groups)
        slack = chosen - groups
        flips = 0 <= slack < count and tolerance[client, slack] <= step
        if flips:  # the slack reaches its other bound before any row leaves
            step = tolerance[client, slack]
            at_upper[client, slack] = not at_upper[client, slack]
        elif row < 0:
            return False
        for i in range(rows):
            solution[client, i] -= step * moved[i]
        if flips:
            continue
        left = kind[client, row]
        basic[left], basic[chosen] = left < groups, True
        if groups <= left < groups + count:
            at_upper[client, left - groups] = upper
        _eliminate(client, inverse, moved, row, direction)
        solution[client, row] = _origin(client, chosen, direction, floor, tolerance, groups) + direction * step
        kind[client, row] = chosen
        _remember(client, state, gains, row, chosen, u, v, column)
    return False


@numba.njit(cache=True)
def _read(client, state, kind, tolerance, gains, u, v, prices, price):
    """Write a program's mixture and prices; how far its weights and gaps are off."""
    inverse, solution, gain, at_u, at_v, _ = state
    _, _, rate_u, rate_v = gains
    groups, rates = rate_u.shape[1], rate_u.shape[2]
    off = 0.0
    for a in range(groups):
        weight, u[client, a], v[client, a] = 0.0, 0.0, 0.0
        for i in range(solution.shape[1]):
            if kind[client, i] == a:
                off = max(off, -solution[client, i])
                weight += solution[client, i]
                u[client, a] += solution[client, i] * at_u[client, i]
                v[client, a] += solution[client, i] * at_v[client, i]
        off = max(off, abs(weight - 1.0))
    _price(client, inverse, gain, price)
    for k in range(rates):
        highest, lowest, total, members = -np.inf, np.inf, 0.0, 0
        for a in range(groups):
            prices[client, a, k] = 0.0
            if tolerance[client, a * rates + k] < np.inf:
                rate = rate_u[client, a, k] * u[client, a] + rate_v[client, a, k] * v[client, a]
                highest, lowest = max(highest, rate), min(lowest, rate)
                total += price[groups + a * rates + k]
                members += 1
        for a in range(groups):
            if tolerance[client, a * rates + k] < np.inf:
                off = max(off, highest - lowest - tolerance[client, a * rates + k])
                prices[client, a, k] = price[groups + a * rates + k] - total / members
    return off


@numba.njit(cache=True)
def _some(first, last, state, kind, at_upper, floor, tolerance, done, gains, table, u, v, prices, off, missed):
    """Pivot and read the programs of some clients."""
    rows = state[1].shape[1]
    work = (np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows + rows, dtype=np.bool_))
    for client in range(first, last):
        done[client] = _one(client, state, kind, at_upper, floor, tolerance, gains, table, missed, work)
        off[client] = _read(client, state, kind, tolerance, gains, u, v, prices, work[0])


# Not one body compiled twice: numba's cache on disk would hand the serial code out for the parallel one.
@numba.njit(cache=True, parallel=True)
def _all(state, kind, at_upper, floor, tolerance, done, gains, table, u, v, prices, off, missed):
    clients, shares = done.size, 16
    for share in numba.prange(shares):
        first, last = share * clients // shares, (share + 1) * clients // shares
        _some(first, last, state, kind, at_upper, floor, tolerance, done, gains, table, u, v, prices, off, missed)


@numba.njit(cache=True)
def accepted_shares(values, share, starts, constant, slope):
    """Shares accepted of every cell and of its positives, as in :class:`logofair.solvers.algorithm1.OrderedPairs`."""
    u, v = np.zeros(starts.size - 1), np.zeros(starts.size - 1)
    for cell in range(u.size):
        for row in range(starts[cell], starts[cell + 1]):
            accepted = share[row] / (1.0 + np.exp(-constant[cell] - slope[cell] * values[row]))
            u[cell] += accepted
            v[cell] += accepted * values[row]
    return u, v
