"""A revised simplex with bounded variables and column generation, for many small linear programs at once.

Every site's own problem is such a program; its blocks are its groups, and a column is a corner of a cell's polygon of
(u, v) (:mod:`logofair.columns.cells`). Corners are never listed: a pricer names the best one for given prices. A
program mixes corners (their weights sum to 1 in each *block*) to maximise a linear gain, while rates stay within
limits, a family of them (one rate of all groups) relative to its lowest::

    max  sum_j gain_j x_j    s.t.  sum of x_j in block b = 1,   x >= 0
                                   sum_j rate_ij x_j - slope_i floor_f - slack_i = 0,   low_i <= slack_i <= high_i

for every rate i of family f, with a free ``floor_f`` (the lowest rate; slope 0: the rate itself is limited). For a
tolerance alone the slope is 1 and the slack between 0 and the tolerance: one price per rate, summing to zero over a
family at the optimum, independent rows where pairwise differences would make the prices degenerate. There is no
separate phase one: while basic variables lie outside their limits, bringing them inside is all that is maximised.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices


@dataclass
class Tableau:
    """State of a batch of programs: basis inverse, basic variables and their ``kind``.

    Kinds are numbers: b for a corner of block b, ``blocks + i`` for the slack of rate i, ``blocks + rates + f`` for the
    floor of family f.
    """

    inverse: Floats  # (programs, rows, rows)
    solution: Floats  # (programs, rows)
    gain: Floats  # (programs, rows), of basic variables
    kind: Indices  # (programs, rows)
    u: Floats  # (programs, rows), of basic corners
    v: Floats
    rates: Floats  # (programs, rows, rates a block touches), of basic corners
    lower: Floats  # (programs, rows): ends of the basic variables
    upper: Floats
    side: Floats  # (programs, rates + families): nonbasic at its lower end 1, at its upper -1; 0: it cannot enter
    floor: Floats  # (programs, families): value of nonbasic floors
    low: Floats  # (programs, rates), of slacks; -inf: no limit
    high: Floats  # (programs, rates); inf: no limit
    width: Floats  # (programs, rates): how far slacks can move; 0: they are fixed, or free and never leave the basis
    slope: Floats  # (programs, rates): the factor of the family's floor
    done: Booleans  # (programs,)
    family: Indices  # (rates,): the family of each rate
    touched: Indices  # (blocks, rates a block touches): which rates they are

    @property
    def blocks(self) -> int:
        """Number of blocks of a program."""
        return int(self.touched.shape[0])

    def take(self, programs: Indices) -> Tableau:
        """Copy some of the programs."""
        return replace(self, **{name: getattr(self, name)[programs] for name in _PER_PROGRAM})

    def put(self, programs: Indices, part: Tableau) -> None:
        """Write some of the programs back."""
        for name in _PER_PROGRAM:
            getattr(self, name)[programs] = getattr(part, name)

    def prices(self, gain: Floats | None = None) -> tuple[Floats, Floats]:
        """Prices of the blocks (programs, blocks) and of the rates (programs, rates), for other gains where given."""
        prices = np.einsum("ni,nij->nj", self.gain if gain is None else gain, self.inverse)
        return prices[:, : self.blocks], prices[:, self.blocks :]

    def mixture(self) -> tuple[Floats, Floats, Floats]:
        """The mixed u and v of every block and the sum of its weights, each (programs, blocks)."""
        belongs = self.kind[:, :, None] == np.arange(self.blocks)
        weight = np.where(belongs, self.solution[:, :, None], 0.0)
        return (
            np.einsum("nib,ni->nb", weight, self.u),
            np.einsum("nib,ni->nb", weight, self.v),
            weight.sum(axis=1),
        )


_PER_PROGRAM = [field.name for field in fields(Tableau) if field.name not in ("family", "touched")]


def start(low: Floats, high: Floats, slope: Floats, family: Indices, touched: Indices, corners: Corners) -> Tableau:
    """The first basis: every block at one corner, all slacks basic, which may lie outside their limits.

    The best corners of a program without its limits are a good start, since few slacks lie far outside there.
    """
    programs, rates = high.shape
    blocks = touched.shape[0]
    rows = blocks + rates
    reached, inverse = np.zeros((programs, rates)), np.zeros((programs, rows, rows))
    inverse[:, np.arange(rows), np.arange(rows)] = np.repeat([1.0, -1.0], [blocks, rates])
    for b, own in enumerate(touched):
        reached[:, own] += corners.rates[:, b]
        inverse[:, blocks + own, b] = corners.rates[:, b]
    floor = _first_floors(reached, low, high, slope, family)
    none = np.zeros((programs, rates))
    free = np.isneginf(low) & np.isposinf(high)
    return Tableau(
        inverse=inverse,
        solution=np.concatenate([np.ones((programs, blocks)), reached - slope * floor[:, family]], axis=1),
        gain=np.concatenate([corners.gain, none], axis=1),
        kind=np.broadcast_to(np.arange(rows), (programs, rows)).copy(),
        u=np.concatenate([corners.u, none], axis=1),
        v=np.concatenate([corners.v, none], axis=1),
        rates=np.concatenate([corners.rates, np.zeros((programs, rates, touched.shape[1]))], axis=1),
        lower=np.concatenate([np.zeros((programs, blocks)), low], axis=1),
        upper=np.concatenate([np.full((programs, blocks), np.inf), high], axis=1),
        side=np.concatenate([none, np.ones(floor.shape)], axis=1),
        floor=floor,
        low=low,
        high=high,
        width=np.where(free, 0.0, np.minimum(high - low, _FREE_RANGE)),
        slope=slope,
        done=np.zeros(programs, dtype=bool),
        family=family,
        touched=touched,
    )


def _first_floors(reached: Floats, low: Floats, high: Floats, slope: Floats, family: Indices) -> Floats:
    """Where floors begin, (programs, families): rates in the middle of their window, or no rate below under a ratio."""
    programs, families = reached.shape[0], int(family.max(initial=-1)) + 1
    floors = np.zeros((programs, families))
    for f in np.unique(family).tolist():
        own = family == f
        within = (low[:, own] == 0.0) & np.isfinite(high[:, own])
        some = np.flatnonzero(within.any(axis=1))
        within, rate, end = within[some], reached[some][:, own], high[some][:, own]
        lowest, highest = np.where(within, rate, np.inf).min(axis=1), np.where(within, rate, -np.inf).max(axis=1)
        ratio = np.any((slope[some][:, own] > 0) & np.isneginf(low[some][:, own]) & np.isfinite(end), axis=1)
        middle = 0.5 * (lowest + highest - np.where(within, end, np.inf).min(axis=1))
        floors[some, f] = np.where(ratio, lowest, middle)
    return floors


def refactorise(tableau: Tableau) -> bool:
    """Recompute the inverse and the solution from the basis itself, in place: pivots accumulate rounding errors.

    False, and nothing changed, where some basis has become singular.
    """
    programs, rows = tableau.solution.shape
    blocks, rates = tableau.blocks, tableau.high.shape[1]
    basis = np.zeros((programs, rows, rows))
    kind = tableau.kind
    for b in range(blocks):
        basis[:, b, :] = kind == b
    for b in range(blocks):
        of_block = np.swapaxes(np.where((kind == b)[:, :, None], tableau.rates, 0.0), 1, 2)
        basis[:, blocks + tableau.touched[b], :] += of_block
    for i in range(rates):
        basis[:, blocks + i, :] -= kind == blocks + i
        basis[:, blocks + i, :] -= tableau.slope[:, i, None] * (kind == blocks + rates + tableau.family[i])
    try:
        tableau.inverse = np.asarray(np.linalg.inv(basis), dtype=np.float64)
    except np.linalg.LinAlgError:
        return False
    # The right-hand side once the nonbasic variables stand at their values.
    basic = np.zeros((programs, rows + tableau.floor.shape[1]), dtype=bool)
    basic[np.arange(programs)[:, None], tableau.kind] = True
    at = np.where(tableau.side[:, :rates] < 0, tableau.high, tableau.low)
    slack = np.where(basic[:, blocks:rows], 0.0, at)
    floor = np.where(basic[:, rows:], 0.0, tableau.floor)
    right = np.concatenate([np.ones((programs, blocks)), slack + tableau.slope * floor[:, tableau.family]], axis=1)
    tableau.solution = np.einsum("nij,nj->ni", tableau.inverse, right)
    return True


# A reduced gain below this (gains are of order 1) is no improvement; a pivot below that is no pivot.
_OPTIMALITY_TOLERANCE = 1e-10
PIVOT = 1e-9
_TIE_TOLERANCE = 1e-12
_FREE_RANGE = 1e6  # how far a slack can move that has a limit on one side alone
# A basic variable may leave its limits by rounding errors only.
_FEASIBILITY_TOLERANCE = 1e-12
# Rounding errors of the inverse can exceed _OPTIMALITY_TOLERANCE after many pivots; a corner then "improves" on itself
# for ever.
_REFACTORISE_AFTER = 20


@dataclass
class Corners:
    """The best corner of every block: its gain, the same less its priced rates, its rates, and where it lies."""

    gain: Floats  # (programs, blocks)
    priced: Floats  # (programs, blocks)
    rates: Floats  # (programs, blocks, rates the block touches)
    u: Floats  # (programs, blocks)
    v: Floats  # (programs, blocks)


# (prices of the rates (programs, rates), which programs, whether gains count in them (programs,)) -> the corner of
# largest gain less priced rates
Pricer = Callable[[Floats, Indices, Booleans], Corners]


def maximise(tableau: Tableau, price: Pricer, missed: float = 0.0, *, pivots: int = 500) -> Tableau:
    """Pivot until every program is within ``missed`` of its optimum (``done``), or the pivots are used up."""
    tableau.done[:] = False
    active = np.arange(tableau.done.size)
    work = tableau
    for turn in range(1, pivots + 1):
        if turn % _REFACTORISE_AFTER == 0:
            refactorise(work)
        _pivot(work, price, active, missed)
        left = np.flatnonzero(~work.done)
        if left.size == 0:
            break
        # Copying the rest out costs as much as a pivot or so: only when it pays. And before refactorising: programs
        # that are done must not be touched, or a site's last digits would depend on who is solved beside it.
        next_refactorises = (turn + 1) % _REFACTORISE_AFTER == 0 and left.size < work.done.size
        if next_refactorises or left.size < 0.7 * work.done.size:
            if work is not tableau:
                tableau.put(active, work)
            active = active[left]
            work = work.take(left)
    if work is not tableau:
        tableau.put(active, work)
    return tableau


def _pivot(work: Tableau, price: Pricer, active: Indices, missed: float) -> None:
    """One pivot in every program of ``work``, in place; marks those within ``missed`` of their optimum as done.

    Programs with a variable outside its limits gain by bringing it inside, and by nothing else.
    """
    # Which way each basic variable has to go to be within its ends: 1 up, -1 down, 0 it is.
    outside = (work.solution < work.lower - _FEASIBILITY_TOLERANCE).astype(float) - (
        work.solution > work.upper + _FEASIBILITY_TOLERANCE
    )
    within = np.asarray(~outside.any(axis=1))
    gain = np.where(within[:, None], work.gain, outside)
    block_price, rate_price = work.prices(gain)
    corners = price(rate_price, active, within)
    entering = _entering(work, corners, block_price, rate_price)
    # At prices of 1e8 gains are of 1e8, and sums of them off by 1e-7: what promises more is an improvement.
    # (Reduced column by column: numpy's own reductions are slow on short rows.)
    least = _OPTIMALITY_TOLERANCE * (1.0 + 1e-3 * functools.reduce(np.maximum, np.abs(gain).T))
    work.done = (entering.gain <= least) | (within & (entering.missed <= missed) & (entering.drift <= least))
    if work.done.all():
        return
    column = np.einsum("nij,nj->ni", work.inverse, entering.column) * entering.direction[:, None]
    row, step, to_upper, flips = _leaving(work, column, entering, outside)
    step = np.where(work.done, 0.0, step)
    _exchange(work, entering, column, row, step, to_upper, flips & ~work.done)


@dataclass
class _Entering:
    """The column that enters each program: its dense form and what to remember of it."""

    gain: Floats  # reduced gain per unit
    missed: Floats  # bound on what all corners and slacks together can still gain
    drift: Floats  # the largest reduced gain of a floor: free to move, it is in no bound
    kind: Indices
    direction: Floats  # +1: from below, -1: from above
    column: Floats  # (programs, rows)
    lower: Floats
    upper: Floats
    cost: Floats
    origin: Floats  # value of the variable before it enters
    reach: Floats  # how far it can go before its own bound
    u: Floats
    v: Floats
    rates: Floats


def _entering(work: Tableau, corners: Corners, block_price: Floats, rate_price: Floats) -> _Entering:
    """Choose the column that promises most: a corner, a slack or a floor."""
    programs, rates = rate_price.shape
    blocks = work.blocks
    pick = np.arange(programs)
    drift = np.zeros(work.floor.shape)
    if work.side[:, rates:].any():  # a floor in the basis stays there
        np.add.at(drift.T, work.family, (work.slope * rate_price).T)
    # A slack's column is -1 in its row: its reduced gain is the row's price.
    slack, floor = work.side[:, :rates] * rate_price, work.side[:, rates:] * np.abs(drift)
    gains = np.concatenate([corners.priced - block_price, slack, floor], axis=1)
    # What counts is what a variable gains over all that it can move; a tolerance is a small part of a corner's weight.
    merit = gains.copy()
    merit[:, blocks : blocks + rates] *= np.minimum(work.width, 1.0)
    kind = np.argmax(merit, axis=1)
    missed = np.einsum("nb->n", np.maximum(gains[:, :blocks], 0.0))
    missed += np.einsum("nr,nr->n", np.maximum(gains[:, blocks : blocks + rates], 0.0), work.width)
    is_corner = kind < blocks
    block = np.minimum(kind, blocks - 1)
    found = _Entering(
        gain=gains[pick, kind],
        missed=missed,
        drift=np.max(gains[:, blocks + rates :], axis=1, initial=0.0),
        kind=kind,
        direction=np.ones(programs),
        column=np.zeros((programs, blocks + rates)),
        lower=np.zeros(programs),
        upper=np.full(programs, np.inf),
        cost=np.where(is_corner, corners.gain[pick, block], 0.0),
        origin=np.zeros(programs),
        reach=np.full(programs, np.inf),
        u=np.where(is_corner, corners.u[pick, block], 0.0),
        v=np.where(is_corner, corners.v[pick, block], 0.0),
        rates=np.where(is_corner[:, None], corners.rates[pick, block], 0.0),
    )
    found.column[pick, block] = is_corner
    found.column[pick[:, None], blocks + work.touched[block]] = found.rates
    slacks = np.flatnonzero(~is_corner & (kind < blocks + rates))
    rate = kind[slacks] - blocks
    upper, low, high = work.side[slacks, rate] < 0, work.low[slacks, rate], work.high[slacks, rate]
    found.column[slacks, kind[slacks]] = -1.0
    found.direction[slacks] = np.where(upper, -1.0, 1.0)
    found.lower[slacks], found.upper[slacks] = low, high
    found.origin[slacks], found.reach[slacks] = np.where(upper, high, low), high - low
    floors = np.flatnonzero(kind >= blocks + rates)
    family = kind[floors] - blocks - rates
    found.column[floors, blocks:] = np.where(work.family == family[:, None], -work.slope[floors], 0.0)
    found.direction[floors] = np.where(drift[floors, family] < 0, -1.0, 1.0)
    found.lower[floors], found.origin[floors] = -np.inf, work.floor[floors, family]
    return found


def _leaving(
    work: Tableau, column: Floats, entering: _Entering, outside: Floats
) -> tuple[Indices, Floats, Booleans, Booleans]:
    """Ratio test: the row that leaves, the step, whether it leaves at its upper bound, whether none leaves.

    What is outside its limits stops where it gets in.
    """
    lower, upper = work.lower, work.upper
    if outside.any():
        lower = np.where(outside > 0, -np.inf, np.where(outside < 0, work.upper, work.lower))
        upper = np.where(outside < 0, np.inf, np.where(outside > 0, work.lower, work.upper))
    falls, size = column > 0, np.abs(column)
    room = np.where(falls, work.solution - lower, upper - work.solution)
    ratio = np.divide(np.maximum(room, 0.0), size, out=np.full(size.shape, np.inf), where=size > PIVOT)
    step = functools.reduce(np.minimum, ratio.T)
    # Among (nearly) equal ratios the largest pivot keeps the inverse accurate.
    tied = ratio <= step[:, None] + _TIE_TOLERANCE
    row = np.argmax(np.where(tied, size, -1.0), axis=1)
    pick = np.arange(row.size)
    flips = entering.reach <= step
    step = np.where(flips, entering.reach, ratio[pick, row])
    to_upper = np.where(outside[pick, row] == 0, ~falls[pick, row], outside[pick, row] < 0)
    return row, np.where(np.isfinite(step), step, 0.0), to_upper, flips


def _exchange(
    work: Tableau, entering: _Entering, column: Floats, row: Indices, step: Floats, to_upper: Booleans, flips: Booleans
) -> None:
    """Move along the column and swap the entering variable for the leaving one."""
    blocks = work.blocks
    work.solution -= step[:, None] * column
    flipped = np.flatnonzero(flips)
    work.side[flipped, entering.kind[flipped] - blocks] *= -1.0
    moved = np.flatnonzero(~work.done & ~flips)
    at, kind = row[moved], entering.kind[moved]
    left, end = work.kind[moved, at], np.where(to_upper[moved], -1.0, 1.0)
    slacks = left >= blocks  # floors never leave
    out = moved[slacks], left[slacks] - blocks
    work.side[out] = np.where(work.width[out] > 0, end[slacks], 0.0)
    slacks = kind >= blocks
    work.side[moved[slacks], kind[slacks] - blocks] = 0.0
    # Programs that are done get a zero column: working on whole arrays is faster than picking the moving ones out.
    unit = np.where((work.done | flips)[:, None], 0.0, column * entering.direction[:, None])
    scaled = np.zeros_like(unit)
    scaled[moved] = work.inverse[moved, at, :] / unit[moved, at][:, None]
    work.inverse -= unit[:, :, None] * scaled[:, None, :]
    work.inverse[moved, at, :] = scaled[moved]
    work.solution[moved, at] = entering.origin[moved] + entering.direction[moved] * step[moved]
    work.gain[moved, at] = entering.cost[moved]
    for name in ("kind", "lower", "upper", "u", "v", "rates"):
        getattr(work, name)[moved, at] = getattr(entering, name)[moved]
