"""Every site's own problem, given the prices of the global rates: sites are then independent of each other.

max  gain of (u, v) in its cells    s.t.  its local gaps are within its tolerances

In general the sites' small programs are pivoted side by side (:mod:`logofair.solvers.simplex`). Where the one local
constraint is on selection rates (demographic parity) there is a much faster way, for any number of groups: with every
group's rate free to move in a window ``[floor, floor + tolerance]``, a site's best gain is a concave function of the
floor alone. Its slope is known at any floor from the scores at two ranks per group, and it can only change sign where a
window's edge passes a row: so a binary search over ranks, group by group, finds the optimum exactly, for all sites at
once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices, search_runs
from logofair.solvers.limits import given_to_cells, range_of, zero_sum
from logofair.solvers.problem import Problem, total_price
from logofair.solvers.simplex import Corners, Pricer, Tableau, maximise, refactorise, start

# An answer may leave its constraints by rounding errors only.
_ROUNDING = 1e-11
# Prices beyond this, of gains of order 1, come from a basis that is singular but for rounding.
_LARGEST_PRICE = 1e10
_ROUNDED = 2.0**-50  # of prices times rates: what their sums may be off by


@dataclass(frozen=True)
class LocalAnswer:
    """The sites' best (u, v), and the prices that prove an upper bound on what they gain."""

    u: Floats  # (sites, groups)
    v: Floats  # (sites, groups)
    prices: Floats  # (sites, groups, local rates), summing to 0 over the groups of each rate
    sound: bool = True  # whether every site's program was solved within rounding errors
    tableau: Tableau | None = None


def solve_local(
    problem: Problem, gain_u: Floats, gain_v: Floats, tableau: Tableau | None = None, missed: float = 0.0
) -> LocalAnswer:
    """Solve every site's problem for the gain ``gain_u * u + gain_v * v``.

    A tableau continues an earlier solve. An answer may gain less than a site's best by what may be ``missed``.
    """
    sites, groups = problem.shape
    if not problem.inside.limited.any():
        _, u, v = _best_corners(problem, gain_u, gain_v, np.arange(sites))
        return LocalAnswer(u, v, np.zeros((sites, groups, len(problem.local_rates))))
    if problem.compares_selection and gain_v.min() >= 0:
        u, v, prices = _solve_by_rank(problem, gain_u, gain_v)
        return LocalAnswer(u, v, zero_sum(prices, problem.inside.compared, 1), bool(_within(problem, u, v).all()))
    return _solve_by_simplex(problem, gain_u, gain_v, tableau, missed)


def _solve_by_simplex(
    problem: Problem, gain_u: Floats, gain_v: Floats, tableau: Tableau | None, missed: float
) -> LocalAnswer:
    """Pivot from where the tableau stands, or from what is best without limits."""
    rows, price = problem.inside.layout, _pricer(problem, gain_u, gain_v)
    if tableau is None:
        everyone = np.arange(gain_u.shape[0])
        free = price(np.zeros(rows.low.shape), everyone, np.ones(everyone.size, dtype=bool))
        tableau = start(rows.low, rows.high, rows.slope, rows.family, rows.touched, free)
    else:  # the basic corners gain something else now; slacks and floors gain nothing
        block = np.minimum(tableau.kind, tableau.blocks - 1)
        gain = np.take_along_axis(gain_u, block, 1) * tableau.u + np.take_along_axis(gain_v, block, 1) * tableau.v
        tableau.gain = np.where(tableau.kind < tableau.blocks, gain, 0.0)
    maximise(tableau, price, missed)
    for _ in range(2):
        u, v, weight = tableau.mixture()
        lowest = np.min(np.where(tableau.kind < tableau.blocks, tableau.solution, 0.0), axis=1)
        right = tableau.done & (lowest > -_ROUNDING) & (np.max(np.abs(weight - 1.0), axis=1) < _ROUNDING)
        wrong = np.flatnonzero(~(right & _within(problem, u, v)))
        # Pivot on from what the bases of these say themselves, without the rounding of earlier pivots.
        part = tableau.take(wrong)
        if wrong.size == 0 or not refactorise(part):
            break
        maximise(part, lambda prices, some, gains: price(prices, wrong[some], gains), missed)  # noqa: B023
        tableau.put(wrong, part)
    prices = problem.inside.repaired(rows.by_rate(tableau.prices()[1]))
    sound = wrong.size == 0 and np.abs(prices).max(initial=0.0) <= _LARGEST_PRICE
    return LocalAnswer(u, v, prices, bool(sound), tableau)


def local_bound(problem: Problem, gain_u: Floats, gain_v: Floats, prices: Floats, missed: float = 0.0) -> Floats:
    """No rule that misses its local requirements by this much at most gains more, whatever the prices, (sites,)."""
    priced = problem.locally_priced(gain_u, gain_v, prices)
    value, _, _ = _best_corners(problem, *priced, np.arange(problem.shape[0]))
    each = given_to_cells(np.abs(prices), problem.local_parted)
    lost = _ROUNDED * total_price(each, np.abs(problem.local[0]) + np.abs(problem.local[1]))
    return np.asarray((value + lost).sum(axis=1) + problem.inside.support_function(prices, missed))


def _best_corners(problem: Problem, gain_u: Floats, gain_v: Floats, sites: Indices) -> tuple[Floats, Floats, Floats]:
    groups = problem.shape[1]
    cells = (sites[:, None] * groups + np.arange(groups)).ravel()
    found = problem.cells.best_corner(cells, gain_v.ravel(), gain_u.ravel())
    value, u, v = (array.reshape(-1, groups) for array in found)
    return value, u, v


def _pricer(problem: Problem, gain_u: Floats, gain_v: Floats) -> Pricer:
    """Best corners of the sites' groups for given prices of their local rates."""
    lu, lv = problem.local
    rows = problem.inside.layout

    def price(prices: Floats, sites: Indices, gains: Booleans) -> Corners:
        everyone = sites.size == lu.shape[0]
        some = slice(None) if everyone else sites
        some_u, some_v, rate_u, rate_v = gain_u[some], gain_v[some], lu[some], lv[some]
        each = given_to_cells(rows.by_rate(prices), problem.local_parted)
        constant, slope = -total_price(each, rate_u), -total_price(each, rate_v)
        if gains.all():
            constant, slope = some_u + constant, some_v + slope
        else:
            constant, slope = (
                line + np.where(gains[:, None], own, 0.0) for line, own in ((constant, some_u), (slope, some_v))
            )
        priced, u, v = _best_corners(problem, constant, slope, sites)
        touched = rows.by_row(rate_u * u[..., None] + rate_v * v[..., None])
        return Corners(some_u * u + some_v * v, priced, touched, u, v)

    return price


def _within(problem: Problem, u: Floats, v: Floats) -> Booleans:
    """Whether every local gap of a site is within its tolerance but for rounding, (sites,)."""
    return np.asarray(np.max(problem.local_excess(u, v), axis=1, initial=0.0) < _ROUNDING)


# A share of a cell's mass this close to a row's edge lies on it: rounding errors are a hundred times smaller.
_EDGE = 1e-13


def _solve_by_rank(problem: Problem, gain_u: Floats, gain_v: Floats) -> tuple[Floats, Floats, Floats]:
    """Best u and v of every cell and the prices that prove it, for gains with ``gain_v >= 0``."""
    sites, groups = problem.shape
    every = np.arange(sites * groups)
    _, free_u, free_v = problem.cells.best_corner(every, gain_v.ravel(), gain_u.ravel())
    u, v = free_u.reshape(problem.shape), free_v.reshape(problem.shape)
    counts = problem.inside.compared[..., 0]
    tolerance = problem.local_limits.tolerance[:, 0]
    low, high = range_of(u, counts, 1)
    prices = np.zeros((sites, groups, 1))
    tight = np.flatnonzero(high - low > tolerance)
    if tight.size:
        windows = _Windows(problem, tight, gain_u[tight].T, gain_v[tight].T)
        floor = windows.best_floor(low[tight], high[tight], u[tight].T)
        inside = np.clip(u[tight].T, floor, np.minimum(floor + tolerance[tight], 1.0))
        inside = np.where(windows.counts, inside, u[tight].T)
        v[tight] = np.where(windows.counts, windows.positives(inside), v[tight].T).T
        u[tight] = inside.T
        prices[tight, :, 0] = windows.prices(floor).T
    return u, v, prices


class _Windows:
    """The sites whose constraint binds, and the slopes of their gain in the floor; arrays are (groups, sites)."""

    def __init__(self, problem: Problem, sites: Indices, gain_u: Floats, gain_v: Floats) -> None:
        cells = problem.cells
        groups = problem.shape[1]
        self.cells, self.counts = cells, np.ascontiguousarray(problem.inside.compared[sites, :, 0].T)
        self.number = sites * groups + np.arange(groups)[:, None]
        self.first, self.size = cells.starts[self.number], np.diff(cells.starts)[self.number]
        self.mass = cells.mass[self.number]
        self.gain_u, self.gain_v = np.ascontiguousarray(gain_u), np.ascontiguousarray(gain_v)
        self.tolerance = problem.local_limits.tolerance[sites, 0]

    def block(self, u: Floats, group: int | slice, *, rising: bool) -> Indices:
        """Block that the top share u takes in next (rising), or gives up first; -1: none left, size: none taken."""
        mass = self.mass[group]
        below = (1.0 - u) * mass
        below += (-_EDGE if rising else _EDGE) * mass
        if self.cells.mass_below is None:
            np.ceil(below, out=below) if rising else np.floor(below, out=below)
            return np.asarray(below - (1.0 if rising else 0.0), dtype=np.int64)
        start = np.broadcast_to(self.first[group] + self.number[group], below.shape).ravel()
        length = np.broadcast_to(self.size[group], below.shape).ravel() + 1
        after = np.full(start.size, not rising)
        found = search_runs(self.cells.mass_below, start, start + length, below.ravel(), right=after)
        return found.reshape(below.shape) - 1

    def slope(self, u: Floats, *, rising: bool) -> Floats:
        """Gain per unit of u just above or below the top share u; -inf where none is left, inf where none is taken."""
        block = self.block(u, slice(None), rising=rising)
        inside = np.clip(block, 0, np.maximum(self.size - 1, 0))
        place = np.minimum(self.first + inside, self.cells.values.size - 1)
        line = np.asarray(self.gain_u + self.gain_v * self.cells.values[place])
        line[block < 0] = -np.inf
        line[block >= self.size] = np.inf
        return line

    def slopes(self, floor: Floats, *, rising: bool) -> Floats:
        """Each group's slope of its best gain within the window, as the floor rises or falls."""
        low, high = self.slope(floor, rising=rising), self.slope(floor + self.tolerance, rising=rising)
        return np.where(self.counts, np.minimum(low, 0.0) + np.maximum(high, 0.0), 0.0)

    def best_floor(self, lowest: Floats, highest: Floats, free: Floats) -> Floats:
        """The lowest floor from which the gain no longer rises: some window's edge lies on a row's edge there.

        Below the lowest of the groups' own best rates (``free``) it rises, and not once the window holds the highest.
        """
        low, high = np.asarray(lowest - 1e-9), np.asarray(np.maximum(highest - self.tolerance, 0.0))
        for group in range(self.size.shape[0]):
            # A window's lower edge pushes a group only above its own best rate, the upper one only below it.
            low, high = self._search(group, np.zeros_like(self.tolerance), low, high, free[group] <= high)
            low, high = self._search(group, self.tolerance, low, high, free[group] >= low + self.tolerance)
        return high

    def _search(self, group: int, shift: Floats, low: Floats, high: Floats, pushed: Booleans) -> tuple[Floats, Floats]:
        """Narrow the bracket to neighbouring edges of one group's rows; the gain rises at low, not at high."""
        first = self._blocks_within(group, low + shift)
        last = self._blocks_within(group, high + shift) + 1
        last = np.where(self.counts[group] & pushed, last, first)
        part, open_ = self, np.arange(first.size)
        while True:
            still = np.flatnonzero(last[open_] - first[open_] > 1)
            if still.size == 0:
                return low, high
            if still.size < 0.6 * open_.size:  # copying pays only once many are done
                open_, whole = open_[still], part
                part = object.__new__(_Windows)
                part.cells, part.tolerance = whole.cells, whole.tolerance[still]
                for name in ("counts", "number", "first", "size", "mass", "gain_u", "gain_v"):
                    setattr(part, name, getattr(whole, name)[:, still])
            middle = (first[open_] + last[open_]) >> 1
            size = part.size[group]
            below, _ = part.cells.below(part.number[group], np.clip(size - middle, 0, size))
            floor = 1.0 - below - shift[open_]
            rises = (floor < 0.0) | (part.slopes(np.maximum(floor, 0.0), rising=True).sum(axis=0) > 0.0)
            inside = (floor > low[open_]) & (floor < high[open_])
            low[open_] = np.where(rises & inside, floor, low[open_])
            high[open_] = np.where(~rises & inside, floor, high[open_])
            done = last[open_] - first[open_] <= 1
            first[open_] = np.where(rises & ~done, middle, first[open_])
            last[open_] = np.where(rises | done, last[open_], middle)

    def _blocks_within(self, group: int, share: Floats) -> Indices:
        """How many blocks of a group's top lie within a share of its mass; -1 for a negative share."""
        size = self.size[group]
        taken = size - 1 - self.block(share, group, rising=True)
        return np.where(share < 0, -1, np.clip(taken, 0, size))

    def positives(self, u: Floats) -> Floats:
        """Positives among the top share u of every cell, one block taken in part."""
        block = np.clip(self.block(u, slice(None), rising=True), 0, np.maximum(self.size - 1, 0))
        below, positives = self.cells.below(self.number, block)
        value = self.cells.values[np.minimum(self.first + block, self.cells.values.size - 1)]
        total = self.cells.positives[self.number] * self.cells.scale[self.number]
        return np.asarray(total - positives - (1.0 - u - below) * value)

    def prices(self, floor: Floats) -> Floats:
        """Slopes that sum to zero over the groups, between those to the left and to the right of the floor."""
        left, right = self.slopes(floor, rising=False), self.slopes(floor, rising=True)
        # Past the last row a slope is infinite, and any number up to there will do: more than the others' sum does.
        limit = np.sum(1.0 + np.abs(self.gain_u) + np.abs(self.gain_v), axis=0)
        left, right = np.minimum(left, limit), np.maximum(right, -limit)
        surplus, deficit = left.sum(axis=0), right.sum(axis=0)
        between = np.divide(surplus, surplus - deficit, out=np.zeros_like(surplus), where=surplus > deficit)
        return np.asarray(between * right + (1.0 - between) * left)
