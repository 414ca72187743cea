"""Clients whose one local constraint is on selection rates (demographic parity): solved by bisection over ranks.

With every group's rate free to move in a window ``[floor, floor + tolerance]``, a client's best gain is a concave
function of the floor alone. Its slope is known at any floor from the scores at two ranks per group, and it can only
change sign where a window's edge passes a row: so a binary search over ranks, group by group, finds the optimum
exactly, for all clients at once. Much faster than pivoting, and any number of groups.
"""

from __future__ import annotations

import numpy as np

from logofair.inputs import Floats
from logofair.segments import Indices, search_runs
from logofair.solvers.problem import Problem

# A share of a cell's mass this close to a row's edge lies on it: rounding errors are a hundred times smaller.
_EDGE = 1e-13


def solve_by_rank(problem: Problem, gain_u: Floats, gain_v: Floats) -> tuple[Floats, Floats, Floats]:
    """Best u and v of every cell and the multipliers that prove it, for gains with ``gain_v >= 0``."""
    clients, groups = problem.shape
    every = np.arange(clients * groups)
    _, free_u, free_v = problem.cells.best_corner(every, gain_v.ravel(), gain_u.ravel())
    u, v = free_u.reshape(problem.shape), free_v.reshape(problem.shape)
    counts = problem.local_counts[..., 0]
    tolerance = problem.local_tolerance[:, 0]
    width = np.where(counts, u, -np.inf).max(axis=1) - np.where(counts, u, np.inf).min(axis=1)
    multipliers = np.zeros((clients, groups, 1))
    tight = np.flatnonzero(width > tolerance)
    if tight.size:
        windows = _Windows(problem, tight, gain_u[tight], gain_v[tight])
        floor = windows.best_floor()
        low, high = floor[:, None], (floor + tolerance[tight])[:, None]
        inside = np.where(counts[tight], np.clip(u[tight], low, np.minimum(high, 1.0)), u[tight])
        v[tight] = np.where(counts[tight], windows.positives(inside), v[tight])
        u[tight] = inside
        multipliers[tight, :, 0] = windows.multipliers(floor)
    return u, v, multipliers


class _Windows:
    """The clients whose constraint binds, and the slopes of their gain in the floor; arrays are (clients, groups)."""

    def __init__(self, problem: Problem, clients: Indices, gain_u: Floats, gain_v: Floats) -> None:
        cells = problem.cells
        groups = problem.shape[1]
        self.cells, self.counts = cells, problem.local_counts[clients, :, 0]
        self.number = clients[:, None] * groups + np.arange(groups)
        self.first, self.size = cells.starts[self.number], np.diff(cells.starts)[self.number]
        self.mass = cells.mass[self.number]
        self.gain_u, self.gain_v = gain_u, gain_v
        self.tolerance = problem.local_tolerance[clients, 0]

    def block(self, u: Floats, *, rising: bool) -> Indices:
        """Block that the top share u takes in next (rising), or gives up first; -1: none left, size: none taken."""
        below = (1.0 - u) * self.mass
        edge = _EDGE * self.mass
        if self.cells.mass_below is None:
            unit = np.ceil(below - edge) - 1.0 if rising else np.floor(below + edge)
            return np.asarray(unit, dtype=np.int64)
        start = (self.first + self.number).ravel()
        target = (below - edge if rising else below + edge).ravel()
        after = np.full(start.size, not rising)
        found = search_runs(self.cells.mass_below, start, start + self.size.ravel() + 1, target, right=after)
        return found.reshape(u.shape) - 1

    def slope(self, u: Floats, *, rising: bool) -> Floats:
        """Gain per unit of u just above or below the top share u; -inf where none is left, inf where none is taken."""
        block = self.block(u, rising=rising)
        inside = (block >= 0) & (block < self.size)
        line = self.gain_u + self.gain_v * self.cells.values[np.where(inside, self.first + block, 0)]
        return np.where(inside, line, np.where(block < 0, -np.inf, np.inf))

    def slopes(self, floor: Floats, *, rising: bool) -> Floats:
        """Each group's slope of its best gain within the window, as the floor rises or falls."""
        low = self.slope(np.broadcast_to(floor[:, None], self.size.shape), rising=rising)
        top = np.broadcast_to((floor + self.tolerance)[:, None], self.size.shape)
        high = self.slope(top, rising=rising)
        return np.where(self.counts, np.minimum(low, 0.0) + np.maximum(high, 0.0), 0.0)

    def best_floor(self) -> Floats:
        """The lowest floor from which the gain no longer rises: some window's edge lies on a row's edge there."""
        low, high = np.full(self.tolerance.size, -1.0), np.ones(self.tolerance.size)
        for group in range(self.size.shape[1]):
            for shift in (np.zeros_like(self.tolerance), self.tolerance):
                low, high = self._search(group, shift, low, high)
        return high

    def _search(self, group: int, shift: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Narrow the bracket to neighbouring edges of one group's rows; the gain rises at low, not at high."""
        size = np.where(self.counts[:, group], self.size[:, group], 0)
        first = self._blocks_within(group, low + shift)
        last = np.minimum(self._blocks_within(group, high + shift) + 1, size + 1)
        while True:
            open_ = np.flatnonzero(last - first > 1)
            if open_.size == 0:
                return low, high
            part = self._part(open_)
            middle = (first[open_] + last[open_]) >> 1
            floor = part._share(group, middle) - shift[open_]
            rises = (floor < 0.0) | (part.slopes(np.maximum(floor, 0.0), rising=True).sum(axis=1) > 0.0)
            inside = (floor > low[open_]) & (floor < high[open_])
            low[open_] = np.where(rises & inside, floor, low[open_])
            high[open_] = np.where(~rises & inside, floor, high[open_])
            first[open_], last[open_] = np.where(rises, middle, first[open_]), np.where(rises, last[open_], middle)

    def _part(self, clients: Indices) -> _Windows:
        """The windows of some of the clients."""
        part = object.__new__(_Windows)
        part.cells = self.cells
        for name in ("counts", "number", "first", "size", "mass", "gain_u", "gain_v", "tolerance"):
            setattr(part, name, getattr(self, name)[clients])
        return part

    def _blocks_within(self, group: int, share: Floats) -> Indices:
        """How many blocks of a group's top lie within a share of its mass; -1 for a negative share."""
        wide = np.broadcast_to(share[:, None], self.size.shape)
        taken = self.size[:, group] - 1 - self.block(wide, rising=True)[:, group]
        return np.where(share < 0, -1, np.clip(taken, 0, self.size[:, group]))

    def _share(self, group: int, blocks: Indices) -> Floats:
        """Share of a group's mass in its highest blocks."""
        cut = np.maximum(self.size[:, group] - blocks, 0)
        below, _ = self.cells.below(self.number[:, group], cut)
        return 1.0 - below

    def positives(self, u: Floats) -> Floats:
        """Positives among the top share u of every cell, one block taken in part."""
        block = np.clip(self.block(u, rising=True), 0, np.maximum(self.size - 1, 0))
        flat = self.number.ravel()
        below, positives = (a.reshape(u.shape) for a in self.cells.below(flat, block.ravel()))
        value = self.cells.values[np.minimum(self.first + block, self.cells.values.size - 1)]
        total = (self.cells.positives[flat] * self.cells.scale[flat]).reshape(u.shape)
        return np.asarray(total - positives - (1.0 - u - below) * value)

    def multipliers(self, floor: Floats) -> Floats:
        """Slopes that sum to zero over the groups, between those to the left and to the right of the floor."""
        left, right = self.slopes(floor, rising=False), self.slopes(floor, rising=True)
        # Past the last row a slope is infinite, and any number up to there will do: more than the others' sum does.
        limit = np.sum(1.0 + np.abs(self.gain_u) + np.abs(self.gain_v), axis=1, keepdims=True)
        left, right = np.minimum(left, limit), np.maximum(right, -limit)
        surplus, deficit = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
        between = np.divide(surplus, surplus - deficit, out=np.zeros_like(surplus), where=surplus > deficit)
        return np.asarray(between * right + (1.0 - between) * left)
