"""The same pivots as in :mod:`logofair.solvers.simplex`, compiled: one client after the other, in threads.

Optional (``pip install 'logofair[fast]'``). It works on the same tableau, so either code continues where the other
stopped; the numpy one is the reference. Compiling takes seconds once and is cached on disk.
"""

from __future__ import annotations

import numpy as np

from logofair.columns.acceleration import pieces, side_by_side
from logofair.columns.checks import Floats
from logofair.columns.compiled import compiled, inlined
from logofair.solvers.problem import Problem
from logofair.solvers.simplex import FAR, OPTIMAL, PIVOT, TIE, WITHIN, Tableau

_PIVOTS = 20  # for each row: more than any sound program needs; the rest is left to the reference code
_FEWEST_CLIENTS, _PIECES = 64, 16  # in a piece: for fewer clients, waking threads costs more than it saves


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
        (tableau.low, tableau.high, tableau.slope),
        (tableau.family, tableau.touched, problem.local_layout.rate, problem.local_limits is None),
        tableau.done,
        (gain_u, gain_v, rate_u, rate_v),
        (cells.starts, cells.values, cells.positives_below, mass_below, cells.scale, cells.positives),
        u,
        v,
        prices,
        off,
        missed,
    )

    def pivot(part: slice) -> None:
        _some(part.start, part.stop, *arrays)

    side_by_side(pivot, pieces(off.size, max(_FEWEST_CLIENTS, off.size // _PIECES)), cells.levels.values.size)
    return u, v, prices if problem.local_limits is None else problem.repaired_local(prices), off


@inlined
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


@inlined
def _enter(client, price, basic, at_upper, ends, rows, families, gains, table, counted, limit, missed, column):
    """Best entering column, written to ``column``: its kind (-1: none is worth it), direction, u, v.

    Not ``counted``: corners gain nothing but what the prices say.
    """
    gain_u, gain_v, rate_u, rate_v = gains
    low, high, slopes = ends
    family, touched, rate, _ = rows
    groups, count = rate_u.shape[1], family.size
    best, chosen, direction, best_u, best_v = limit, -1, 1.0, 0.0, 0.0
    possible = 0.0  # no more can be gained by all columns together
    for a in range(groups):
        slope = gain_v[client, a] if counted else 0.0
        constant = gain_u[client, a] if counted else 0.0
        for j in range(rate.size):
            own = price[groups + touched[a, j]]
            slope -= own * rate_v[client, a, rate[j]]
            constant -= own * rate_u[client, a, rate[j]]
        u, v = _corner(client * groups + a, slope, constant, table)
        gain = slope * v + constant * u - price[a]
        possible += max(gain, 0.0)
        if gain > best:
            best, chosen, direction, best_u, best_v = gain, a, 1.0, u, v
    for i in range(count):
        free = low[client, i] == -np.inf and high[client, i] == np.inf
        if high[client, i] > low[client, i] and not free and not basic[groups + i]:
            gain = -price[groups + i] if at_upper[client, i] else price[groups + i]
            possible += max(gain, 0.0) * min(high[client, i] - low[client, i], FAR)
            if gain > best:
                best, chosen, direction = gain, groups + i, -1.0 if at_upper[client, i] else 1.0
    for f in range(families):
        drift = 0.0
        for i in range(count):
            if family[i] == f:
                drift += slopes[client, i] * price[groups + i]
        if abs(drift) > limit and not basic[groups + count + f]:
            possible = np.inf  # a floor has no end
            if abs(drift) > best:
                best, chosen, direction = abs(drift), groups + count + f, -1.0 if drift < 0 else 1.0
    if counted and possible <= missed:
        return -1, direction, best_u, best_v
    column[:] = 0.0
    if chosen >= groups + count:
        for i in range(count):
            if family[i] == chosen - groups - count:
                column[groups + i] = -slopes[client, i]
    elif chosen >= groups:
        column[chosen] = -1.0
    elif chosen >= 0:
        column[chosen] = 1.0
        for j in range(rate.size):
            value = rate_u[client, chosen, rate[j]] * best_u + rate_v[client, chosen, rate[j]] * best_v
            column[groups + touched[chosen, j]] = value
    return chosen, direction, best_u, best_v


@inlined
def _ends(client, kind, ends, groups):
    """Between what a variable has to stay: corners above 0, slacks within their limits, floors anywhere."""
    if kind < groups:
        return 0.0, np.inf
    if kind < groups + ends[0].shape[1]:
        return ends[0][client, kind - groups], ends[1][client, kind - groups]
    return -np.inf, np.inf


@inlined
def _outside(client, solution, kind, ends, groups, outside):
    """Write which way each basic variable has to go to be within its ends: 1 up, -1 down, 0; whether all are."""
    within = True
    for i in range(outside.size):
        low, high = _ends(client, kind[client, i], ends, groups)
        outside[i] = 0.0
        if solution[client, i] < low - WITHIN:
            outside[i], within = 1.0, False
        elif solution[client, i] > high + WITHIN:
            outside[i], within = -1.0, False
    return within


@inlined
def _leave(client, moved, solution, kind, ends, groups, outside):
    """Ratio test: row (-1: none), step, and whether it leaves at its upper bound; the outside stop as they get in."""
    row, step, size, upper = -1, np.inf, 0.0, False
    for i in range(moved.size):
        change = moved[i]
        if abs(change) <= PIVOT:
            continue
        low, high = _ends(client, kind[client, i], ends, groups)
        lower = -np.inf if outside[i] > 0 else high if outside[i] < 0 else low
        higher = np.inf if outside[i] < 0 else low if outside[i] > 0 else high
        room = solution[client, i] - lower if change > 0 else higher - solution[client, i]
        ratio = max(room, 0.0) / abs(change)
        if ratio < step - TIE or (ratio <= step + TIE and ratio < np.inf and abs(change) > size):
            row, step, size = i, ratio, abs(change)
            upper = change < 0 if outside[i] == 0 else outside[i] < 0
    return row, step, upper


@inlined
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


@inlined
def _remember(client, state, gains, rows, row, chosen, u, v, column):
    """Note gain, place and rates of the corner that entered; a slack or floor has none."""
    _, _, gain, at_u, at_v, at_rates = state
    gain_u, gain_v, rate_u, _ = gains
    groups, touched = rate_u.shape[1], rows[1]
    corner = chosen < groups
    at_u[client, row], at_v[client, row] = (u, v) if corner else (0.0, 0.0)
    gain[client, row] = gain_u[client, chosen] * u + gain_v[client, chosen] * v if corner else 0.0
    for j in range(touched.shape[1]):
        at_rates[client, row, j] = column[groups + touched[chosen, j]] if corner else 0.0


@inlined
def _price(client, inverse, gain, price):
    """Write the prices of a program's rows; the largest gain of its basic variables by size."""
    price[:] = 0.0
    largest = 0.0
    for i in range(price.size):
        largest = max(largest, abs(gain[i]))
        if gain[i] != 0.0:
            for j in range(price.size):
                price[j] += gain[i] * inverse[client, i, j]
    return largest


@inlined
def _direct(client, inverse, column, direction, moved):
    """Write how the basic variables fall as the entering column moves in its direction."""
    for i in range(moved.size):
        total = 0.0
        for j in range(moved.size):
            total += inverse[client, i, j] * column[j]
        moved[i] = total * direction


@inlined
def _origin(client, chosen, direction, floor, ends, groups):
    """Value of a variable before it enters: of a slack at either end, of a floor, else 0."""
    count = ends[0].shape[1]
    if groups <= chosen < groups + count:
        return ends[1][client, chosen - groups] if direction < 0 else ends[0][client, chosen - groups]
    return floor[client, chosen - groups - count] if chosen >= groups + count else 0.0


@inlined
def _one(client, state, kind, at_upper, floor, ends, rows, gains, table, missed, work):
    """Pivot one program, from the basis where it stands, at the gains of now; whether it can improve no more."""
    inverse, solution, gain, at_u, at_v, _ = state
    price, column, moved, outside, basic = work
    groups, size, count = gains[2].shape[1], solution.shape[1], ends[0].shape[1]
    basic[:] = False
    for i in range(size):
        block = kind[client, i]
        basic[block] = True
        gain[client, i] = 0.0
        if block < groups:
            gain[client, i] = gains[0][client, block] * at_u[client, i] + gains[1][client, block] * at_v[client, i]
    for _ in range(_PIVOTS * size):
        counted = _outside(client, solution, kind, ends, groups, outside)
        least = OPTIMAL * (1.0 + _price(client, inverse, gain[client] if counted else outside, price))
        chosen, direction, u, v = _enter(
            client, price, basic, at_upper, ends, rows, floor.shape[1], gains, table, counted, least, missed, column
        )
        if chosen < 0:
            return True
        _direct(client, inverse, column, direction, moved)
        row, step, upper = _leave(client, moved, solution, kind, ends, groups, outside)
        slack = chosen - groups
        width = ends[1][client, slack] - ends[0][client, slack] if 0 <= slack < count else np.inf
        flips = 0 <= slack < count and width <= step and width < np.inf
        if flips:  # the slack reaches its other bound before any row leaves
            step = width
            at_upper[client, slack] = not at_upper[client, slack]
        elif row < 0:
            return False
        for i in range(size):
            solution[client, i] -= step * moved[i]
        if flips:
            continue
        left = kind[client, row]
        basic[left], basic[chosen] = left < groups, True
        if groups <= left < groups + count:
            at_upper[client, left - groups] = upper
        _eliminate(client, inverse, moved, row, direction)
        solution[client, row] = _origin(client, chosen, direction, floor, ends, groups) + direction * step
        kind[client, row] = chosen
        _remember(client, state, gains, rows, row, chosen, u, v, column)
    return False


@inlined
def _read(client, state, kind, floor, ends, rows, gains, u, v, prices, work):
    """Write a program's mixture and prices; how far its weights and rows are off."""
    inverse, solution, gain, at_u, at_v, _ = state
    _, _, rate_u, rate_v = gains
    low, high, slopes = ends
    family, touched, rate, balanced = rows
    groups, count, price, value = rate_u.shape[1], family.size, work[0], work[1]
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
    value[:] = 0.0
    _price(client, inverse, gain[client], price)
    for a in range(groups):
        for k in range(rate_u.shape[2]):
            prices[client, a, k] = 0.0
        for j in range(rate.size):
            k = rate[j]
            value[touched[a, j]] += rate_u[client, a, k] * u[client, a] + rate_v[client, a, k] * v[client, a]
            prices[client, a, k] += price[groups + touched[a, j]]
    for i in range(count):
        lowest = floor[client, family[i]]
        for j in range(solution.shape[1]):
            if kind[client, j] == groups + count + family[i]:
                lowest = solution[client, j]
        slack = value[i] - slopes[client, i] * lowest
        off = max(off, low[client, i] - slack, slack - high[client, i])
    if balanced:
        _balance(client, prices, high)
    return off


@inlined
def _balance(client, prices, high):
    """Prices that sum to 0 over the groups that are compared, and are 0 elsewhere."""
    groups, rates = prices.shape[1], prices.shape[2]
    for k in range(rates):
        total, members = 0.0, 0
        for a in range(groups):
            if high[client, a * rates + k] < np.inf:
                total += prices[client, a, k]
                members += 1
        for a in range(groups):
            compared = high[client, a * rates + k] < np.inf
            prices[client, a, k] = prices[client, a, k] - total / members if compared else 0.0


@compiled
def _some(first, last, state, kind, at_upper, floor, ends, rows, done, gains, table, u, v, prices, off, missed):
    """Pivot and read the programs of some clients."""
    size = state[1].shape[1]
    work = (
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size + floor.shape[1], dtype=np.bool_),
    )
    for client in range(first, last):
        done[client] = _one(client, state, kind, at_upper, floor, ends, rows, gains, table, missed, work)
        off[client] = _read(client, state, kind, floor, ends, rows, gains, u, v, prices, work)


@compiled
def accepted_shares(values, share, starts, constant, slope):
    """Shares accepted of every cell and of its positives, as in :class:`logofair.solvers.algorithm1.OrderedPairs`."""
    u, v = np.zeros(starts.size - 1), np.zeros(starts.size - 1)
    for cell in range(u.size):
        for row in range(starts[cell], starts[cell + 1]):
            accepted = share[row] / (1.0 + np.exp(-constant[cell] - slope[cell] * values[row]))
            u[cell] += accepted
            v[cell] += accepted * values[row]
    return u, v
