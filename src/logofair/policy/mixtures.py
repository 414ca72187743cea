"""Mixtures: each cell's rule as at most three weighted thresholds, and back to its (u, v).

At the optimum a cell may need a point inside its polygon, which no single threshold reaches: the paper's rule
``F >= 0`` says nothing where F vanishes on a whole cell, and for equalized odds it often does. Three thresholds suffice
for any point, and there is a choice: the rows that are left to a coin are those between the outermost thresholds. So
the mixture is a chord of the polygon's edge through the point, as short as it can be with one end on a corner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from logofair.columns.cells import Cells
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Booleans, Indices, in_threads, pieces, search_runs
from logofair.costs import ACCURACY, Costs
from logofair.records import Family, checked

# A weight below this is no randomisation worth the name.
NEGLIGIBLE = 1e-12
# Rows looked at together, which stay in the cache.
_PIECE = 1 << 16
# What u and v, of order 1, are known to.
_ROUNDING = 1e-15

# Weights, cuts and sides (upper) of up to three corners per cell, each (cells, corners).
_Corners: TypeAlias = tuple[Floats, Indices, Booleans]


class Rules(Family):
    """What a policy decides by: one rule for every cell, or for everybody of a site; each has parts with weights."""

    weight: Floats

    @property
    def mixed(self) -> Booleans:
        """Which rules need a coin."""
        return np.asarray(((self.weight > 0) & (self.weight < 1)).any(axis=1))

    @property
    def shown(self) -> Mixtures:
        """The rules of every site and group as thresholds of the score, for people to read."""
        raise NotImplementedError

    def chances(self, scores: Floats, cells: Integers, seen: Floats | None = None) -> Floats:
        """Chance of acceptance of rows, by the numbers of their rules; ``seen`` are the groups' probabilities."""
        raise NotImplementedError

    def joined_with(self, *more: Any) -> Any:
        """These rules and others of the kind, one after another."""
        raise NotImplementedError

    def base(self, groups: int) -> Rules:
        """The rule of the kind that accepts from a score of 1/2."""
        raise NotImplementedError

    def check(self, sites: int, groups: int) -> None:
        """Raise `ValueError` where these are not rules of so many sites and groups."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Mixtures(Rules):
    """Per cell up to three rules "score >= threshold" (``above``) or "score <= threshold", each with a weight.

    A row is accepted with the total weight of the rules that accept it; what the weights lack to 1 rejects.
    All arrays are (cells, 3); ``single`` (cells,) is the deterministic threshold with the nearest selection rate.
    """

    weight: Floats
    threshold: Floats
    above: Booleans
    single: Floats

    @property
    def shown(self) -> Mixtures:
        """These very rules."""
        return self

    @property
    def deterministic(self) -> Mixtures:
        """The rules without coins: one threshold in every cell."""
        one = np.ones((self.single.size, 1))
        return Mixtures(one, self.single[:, None], one > 0, self.single)

    @property
    def score_blind(self) -> Booleans:
        """Which cells give every score the same chance: accept all, reject all, or a coin whatever the score."""
        cells = np.arange(self.single.size)
        lowest = self.chances(np.zeros(cells.size), cells)
        blind = np.abs(self.chances(np.ones(cells.size), cells) - lowest) < NEGLIGIBLE
        some = cells[blind]
        # A chance can change at a threshold only: at it, just above it or just below it.
        for threshold in self.threshold[some].T:
            for score in (threshold, np.nextafter(threshold, 1.0), np.nextafter(threshold, 0.0)):
                blind[some] &= np.abs(self.chances(score, some) - lowest[some]) < NEGLIGIBLE
        return np.asarray(blind)

    def chances(self, scores: Floats, cells: Integers | Indices, seen: Floats | None = None) -> Floats:
        """Chance of acceptance of rows, by the numbers of their cells: the weight of all rules that accept a row."""
        del seen  # whose group is known
        used = np.flatnonzero(self.weight.any(axis=0))
        rules = [(self.weight[:, j].copy(), self.threshold[:, j].copy(), self.above[:, j].copy()) for j in used]
        chance = np.zeros(scores.size)
        for first in range(0, scores.size, _PIECE):
            piece = slice(first, first + _PIECE)
            score, cell, found = scores[piece], cells[piece], chance[piece]
            for weight, threshold, above in rules:
                limit = threshold[cell]
                accepts = score >= limit
                if not above.all():
                    accepts = np.where(above[cell], accepts, score <= limit)
                found += accepts * weight[cell]
            # The weights of all rules may sum to slightly less than 1: that is rounding, not chance.
            found[found > 1.0 - NEGLIGIBLE] = 1.0
        return chance

    def at(self, cells: Indices) -> Mixtures:
        """The rules of some cells."""
        return Mixtures(*(getattr(self, part.name)[cells] for part in fields(self)))

    def joined_with(self, *more: Mixtures) -> Mixtures:
        """These rules and others, one after another."""
        return Mixtures(*(np.concatenate([getattr(m, part.name) for m in (self, *more)]) for part in fields(self)))

    def base(self, groups: int) -> Mixtures:
        """The rule that accepts from a score of 1/2."""
        del groups
        return base_rule(1)

    def check(self, sites: int, groups: int) -> None:
        """Raise `ValueError` where these are not rules of so many sites and groups."""
        cells = sites * groups
        for array in (self.weight, self.threshold):
            checked(array, (cells, 3), low=0, high=1)
        checked(self.above, (cells, 3))
        checked(self.single[np.isfinite(self.single)], (None,), low=0, high=1)
        if self.single.shape != (cells,) or np.any(np.isnan(self.single) | (self.single < 0)):
            raise ValueError("single")
        if self.weight.sum(axis=1).max() > 1.0 + 1e-9:
            raise ValueError("weights")


def base_rule(cells: int, even: Floats | float = 0.5) -> Mixtures:
    """Accept scores >= 1/2 in any number of cells, or from the chance on at which both errors cost the same."""
    first = np.array([1.0, 0.0, 0.0])
    weight, above = np.tile(first, (cells, 1)), np.ones((cells, 3), dtype=bool)
    threshold = np.broadcast_to(np.asarray(even, dtype=np.float64), (cells,))
    return Mixtures(weight, threshold[:, None] * weight, above, threshold.copy())


def filled(cells: Cells, mixtures: Mixtures, merged: Mixtures | None, costs: Costs | None = None) -> Mixtures:
    """Give cells without rows their group's merged rule, or what wins at these costs: some row may come one day.

    ``merged`` are rules of the groups, or of all cells. Without costs a score >= 1/2 wins.
    """
    empty = np.flatnonzero(cells.mass == 0)
    if empty.size == 0:
        return mixtures
    even = np.broadcast_to((costs or ACCURACY).break_even, (cells.n_sites,))
    rule, others = np.arange(cells.mass.size), merged or base_rule(cells.mass.size, np.repeat(even, cells.n_groups))
    rule[empty] = rule.size + empty % others.single.size
    return mixtures.joined_with(others).at(rule)


def evaluate(cells: Cells, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """(u, v) of every cell under the stored rules, each (cells,)."""
    cells = cells.levels
    u, v = np.zeros(mixtures.single.size), np.zeros(mixtures.single.size)
    for weight, threshold, above in zip(mixtures.weight.T, mixtures.threshold.T, mixtures.above.T, strict=True):
        used = np.flatnonzero(weight > 0)
        corner_u, corner_v = cells.corner(used, _cuts(cells, used, threshold[used], above[used]), above[used])
        u[used] += weight[used] * corner_u
        v[used] += weight[used] * corner_v
    return u, v


def _cuts(cells: Cells, which: Indices, threshold: Floats, above: Booleans) -> Indices:
    """The cut behind a threshold: "score >= t" accepts the blocks not below t; "score <= t" those not above it."""
    return search_runs(cells.lowest, cells.starts[which], cells.starts[which + 1], threshold, right=~above)


def coin_shares(cells: Cells, mixtures: Mixtures) -> Floats:
    """Share of every cell's mass whose chance of acceptance is neither 0 nor 1."""
    cells, mixed, shares = cells.levels, np.flatnonzero(mixtures.mixed), np.zeros(mixtures.single.size)
    if cells.lowest.size == 0 or mixed.size == 0:
        return shares
    # Between neighbouring cuts of a cell's rules all rows have one chance, that of the first of them.
    first, size = cells.starts[mixed], cells.sizes(mixed)
    rules = mixtures.at(mixed)
    used = np.flatnonzero(rules.weight.any(axis=0))
    cuts = [_cuts(cells, mixed, rules.threshold[:, j], rules.above[:, j]) for j in used]
    for low, high in pairwise(np.sort([np.zeros_like(size), *cuts, size], axis=0)):
        some = np.flatnonzero(low < high)
        chance = mixtures.chances(cells.lowest[(first + low)[some]], mixed[some])
        some = some[(chance > 0.0) & (chance < 1.0)]
        shares[mixed[some]] += cells.below(mixed[some], high[some])[0] - cells.below(mixed[some], low[some])[0]
    return shares


def coin_share(cells: Cells, mixtures: Mixtures) -> float:
    """Share of all cells' mass whose chance of acceptance is neither 0 nor 1."""
    return float(coin_shares(cells, mixtures) @ cells.mass / (cells.mass.sum() or 1.0))


def score_blind_rules(cells: Cells, mixtures: Mixtures) -> int:
    """Number of cells with rows whose rule gives the same chance to every score."""
    return int((mixtures.score_blind & (cells.mass > 0)).sum())


def reduce(cells: Cells, u: Floats, v: Floats, *, selection_only: bool) -> Mixtures:
    """Rules that realise (u, v) in every cell (flat, one entry per cell).

    Where only selection rates are constrained, u alone matters and the rows with the highest scores are taken: the
    same rates at no lower accuracy, with at most one score value left to chance.
    """
    made = Mixtures(np.empty((u.size, 3)), np.empty((u.size, 3)), np.empty((u.size, 3), dtype=bool), np.empty(u.size))

    def some(part: slice) -> None:
        found = _rules(cells, np.arange(part.start, part.stop), u[part], v[part], selection_only=selection_only)
        for each in fields(Mixtures):
            getattr(made, each.name)[part] = getattr(found, each.name)

    in_threads(some, pieces(u.size), cells.levels.values.size)
    return made


def _rules(cells: Cells, every: Indices, u: Floats, v: Floats, *, selection_only: bool) -> Mixtures:
    """Rules that realise (u, v) in some cells."""
    u = np.clip(u, 0.0, 1.0)
    top = _edge(cells, every, u, upper=True)
    single = _single(cells.levels, every, top if cells.hull_of is None else _edge(cells.hull_of, every, u, upper=True))
    weight, cuts, upper = top if selection_only else _inside(cells, every, u, v, top)
    cuts, upper = cells.rules(every[:, None], cuts, upper)
    cells = cells.levels
    weight[weight < NEGLIGIBLE] = 0.0
    weight[weight > 1 - NEGLIGIBLE] = 1.0
    # Accepting nobody is not a rule: its weight is left to rejection.
    sizes = cells.sizes(every)
    weight[np.where(upper, cuts == sizes[:, None], cuts == 0)] = 0.0
    order = np.argsort(-weight, axis=1, kind="stable")
    weight = np.take_along_axis(weight, order, axis=1)
    cuts, upper = np.take_along_axis(cuts, order, axis=1), np.take_along_axis(upper, order, axis=1)
    threshold = np.where(weight > 0, _thresholds(cells, every, cuts, upper), 0.0)
    # "All" and "nobody" as score >= 1/2 where that is the same: new rows then meet the base rule.
    lowest, highest = _extremes(cells, every)
    everybody = (weight[:, 0] == 1.0) & (threshold[:, 0] == 0.0) & (lowest >= 0.5)
    nobody = (weight.max(axis=1) == 0.0) & (highest < 0.5)
    threshold[everybody | nobody, 0], weight[nobody, 0], upper[nobody, 0] = 0.5, 1.0, True
    return Mixtures(weight, threshold, np.where(weight > 0, upper, True), single)


def _extremes(cells: Cells, every: Indices) -> tuple[Floats, Floats]:
    """Lowest and highest score of every cell (inf and -inf for an empty one)."""
    zero = np.zeros(every.size, dtype=np.int64)
    _, lowest = cells.thresholds(every, zero)
    highest, _ = cells.thresholds(every, cells.sizes(every))
    return lowest, highest


def _edge(cells: Cells, which: Indices, u: Floats, *, upper: bool) -> _Corners:
    """Two neighbouring corners of the upper or the lower edge that mix to u (the third column is unused)."""
    target = 1.0 - u if upper else u
    cut = _first_cut(cells, which, lambda below_u, below_v: below_u > target)
    low, high = _whole_ties(cells, which, cut - 1)
    side = np.full(u.size, upper)
    (u_low, _), (u_high, _) = cells.corner(which, low, side), cells.corner(which, high, side)
    width = u_low - u_high
    share = np.divide(u - u_high, width, out=np.zeros_like(u), where=width != 0)
    # Within rounding of a corner there is nothing to toss a coin for, however narrow the edge.
    share = np.where(np.abs(u - u_low) <= _ROUNDING, 1.0, np.where(np.abs(u - u_high) <= _ROUNDING, 0.0, share))
    share = np.clip(share, 0.0, 1.0)
    weight = np.column_stack([share, np.where(cells.mass[which] > 0, 1.0 - share, 0.0), np.zeros_like(u)])
    return weight, np.column_stack([low, high, high]), np.column_stack([side, side, side])


def _inside(cells: Cells, every: Indices, u: Floats, v: Floats, top: _Corners) -> _Corners:
    """Corners of any point: those of an edge where it lies on one, otherwise of a short chord."""
    weight, cuts, upper = top
    share = cells.positive_shares(every)
    margin = NEGLIGIBLE * share * (1.0 - share) + _ROUNDING * share
    rest = np.flatnonzero(v < _positives(cells, every, top) - margin)
    if rest.size:
        bottom = _edge(cells, every[rest], u[rest], upper=False)
        weight[rest], cuts[rest], upper[rest] = bottom
        rest = rest[v[rest] > _positives(cells, every[rest], bottom) + margin[rest]]
        weight[rest], cuts[rest], upper[rest] = _short_chord(cells, every[rest], u[rest], v[rest])
    return weight, cuts, upper


def _positives(cells: Cells, which: Indices, corners: _Corners) -> Floats:
    """The selected positives v of two corners' mixture."""
    weight, cuts, upper = corners
    (_, v1), (_, v2) = (cells.corner(which, cuts[:, j], upper[:, j]) for j in (0, 1))
    return np.asarray(weight[:, 0] * v1 + weight[:, 1] * v2)


def _short_chord(cells: Cells, which: Indices, u: Floats, v: Floats) -> _Corners:
    """Three corners that mix to (u, v), a point inside the polygon: a short chord's start, and the two around its end.

    Only rows between the ends need a coin: on the upper edge all rows above are accepted and all below rejected. For a
    point below the diagonal the chord is one of the lower edge, whose rules, reversed, are the complement's.
    """
    share = cells.positive_shares(which)
    upper = v >= share * u
    u, v = np.where(upper, u, 1.0 - u), np.where(upper, v, share - v)
    _, cut = _whole_ties(cells, which, _shortest_start(cells, which, u, v) - 1)
    start, slope, block = _aim(cells, which, u, v, cut)
    near, second = _whole_ties(cells, which, block)
    end, part = _meet(cells, which, u, v, slope, near, second)
    # u is met whatever rounding did to the end.
    first = (end - u) / (end - start)
    weight = np.column_stack([first, (1.0 - first) * (1.0 - part), (1.0 - first) * part])
    return weight, np.column_stack([cut, second, near]), np.column_stack([upper, upper, upper])


def _shortest_start(cells: Cells, which: Indices, u: Floats, v: Floats) -> Indices:
    """The cut of the upper edge from which the chord through (u, v) is shortest, less than a row more than any chord.

    As a start moves left, so does its end. So no chord that starts between two cuts is shorter than from the right one
    of them to the left one's end: ranges of cuts that cannot win are dropped, the others halved.
    """
    owner, best = np.arange(which.size), cells.sizes(which)
    low, high = _first_cut(cells, which, lambda below_u, _: 1.0 - below_u < u), best - 1
    # "Reject all" is always a start: above the diagonal its chord ends at the latest at "accept all".
    start, leftmost = _chord_ends(cells, which, u, v, best)
    shortest = leftmost - start
    while True:
        least = leftmost - (1.0 - cells.below(which[owner], low)[0])
        going = (low <= high) & (least < shortest[owner])
        owner, low, high, leftmost = owner[going], low[going], high[going], leftmost[going]
        if owner.size == 0:
            return best
        middle = (low + high) >> 1
        start, end = _chord_ends(cells, which[owner], u[owner], v[owner], middle)
        np.minimum.at(shortest, owner, end - start)
        found = end - start == shortest[owner]
        best[owner[found]] = middle[found]
        owner, leftmost = np.concatenate([owner, owner]), np.concatenate([end, leftmost])
        low, high = np.concatenate([low, middle + 1]), np.concatenate([middle - 1, high])


def _chord_ends(cells: Cells, which: Indices, u: Floats, v: Floats, cut: Indices) -> tuple[Floats, Floats]:
    """Where the chord through (u, v) from the upper corner at a cut starts and ends; infinite where it has no end."""
    start, slope, block = _aim(cells, which, u, v, cut)
    near = np.maximum(block, 0)
    end, _ = _meet(cells, which, u, v, slope, near, near + 1)
    endless = (block < 0) & (cut < cells.sizes(which))
    return start, np.where(endless, np.inf, end)


def _aim(cells: Cells, which: Indices, u: Floats, v: Floats, cut: Indices) -> tuple[Floats, Floats, Indices]:
    """Start and slope of the line from an upper corner through (u, v), and the block in which it leaves the polygon.

    The block is -1 where the line leaves elsewhere than through the upper edge.
    """
    share = cells.positive_shares(which)
    below_u, below_v = cells.below(which, cut)
    start = 1.0 - below_u
    slope = (v - (share - below_v)) / (u - start)

    def inside(below_u: Floats, below_v: Floats) -> Booleans:
        beyond = (1.0 - below_u) - u
        return np.asarray((beyond <= 0.0) | ((share - below_v) - v >= slope * beyond))

    return start, slope, _first_cut(cells, which, inside) - 1


def _meet(
    cells: Cells, which: Indices, u: Floats, v: Floats, slope: Floats, near: Indices, second: Indices
) -> tuple[Floats, Floats]:
    """Where the line through (u, v) meets the edge between two upper cuts, and how far from the second one to the near.

    ``near`` is the cut of larger u, on or below the line. The end lies at u or beyond.
    """
    upper = np.ones(which.size, dtype=bool)
    (u1, v1), (u2, v2) = cells.corner(which, near, upper), cells.corner(which, second, upper)
    below, above = v1 - v - slope * (u1 - u), v2 - v - slope * (u2 - u)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.maximum(np.nan_to_num(above / (above - below)), (u - u2) / (u1 - u2))
    part = np.clip(part, 0.0, 1.0)
    return u2 + part * (u1 - u2), part


def _first_cut(cells: Cells, which: Indices, beyond: Callable[[Floats, Floats], Booleans]) -> Indices:
    """Smallest cut at which a monotone condition on the sums below it holds (the last cut if none)."""
    size = cells.sizes(which)
    low, high = np.zeros(which.size, dtype=np.int64), size
    for _ in range(int(high.max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        holds = beyond(*cells.below(which, middle))
        low, high = np.where(holds | (low >= high), low, middle + 1), np.where(holds, middle, high)
    return np.asarray(np.minimum(low, size))


def _whole_ties(cells: Cells, which: Indices, block: Indices) -> tuple[Indices, Indices]:
    """Cuts just below and just above all blocks that share a block's score: a threshold cannot part them."""
    first, last = cells.starts[which], cells.starts[which + 1]
    block = np.clip(block, 0, np.maximum(last - first - 1, 0))
    if cells.lowest.size == 0 or cells.hull_of is not None:  # the corners of a hull are thresholds, each of them
        return block, np.minimum(block + 1, last - first)
    score = cells.lowest[np.minimum(first + block, cells.lowest.size - 1)]
    no = np.zeros(which.size, dtype=bool)
    low, high = (
        search_runs(cells.lowest, first, last, score, right=no),
        search_runs(cells.lowest, first, last, score, right=~no),
    )
    empty = first == last
    return np.where(empty, 0, low), np.where(empty, 0, high)


def _thresholds(cells: Cells, every: Indices, cuts: Indices, upper: Booleans) -> Floats:
    """A threshold for each cut: 1/2 where it fits, otherwise half-way between the neighbouring scores."""
    flat = np.repeat(every, cuts.shape[1])
    under, over = cells.thresholds(flat, cuts.ravel())
    up = upper.ravel()
    with np.errstate(invalid="ignore"):
        middle = 0.5 * under + 0.5 * over
    # Half-way between neighbouring doubles rounds to one of them: keep it on the right side.
    middle = np.where(up, np.where(middle > under, middle, over), np.where(middle < over, middle, under))
    half = np.where(up, (under < 0.5) & (over >= 0.5), (under <= 0.5) & (over > 0.5))
    threshold = np.where(half, 0.5, middle)
    threshold = np.where(np.isneginf(under) & up, 0.0, threshold)
    threshold = np.where(np.isposinf(over) & ~up, 1.0, threshold)
    return threshold.reshape(cuts.shape)


def _single(cells: Cells, every: Indices, top: _Corners) -> Floats:
    """The one upper threshold per cell whose selection rate is nearest to u; infinity rejects all."""
    weight, cuts, upper = top
    cut = np.where(weight[:, 0] >= 0.5, cuts[:, 0], cuts[:, 1])
    threshold = _thresholds(cells, every, cut[:, None], upper[:, :1])[:, 0]
    lowest, highest = _extremes(cells, every)
    nobody = cut >= cells.sizes(every)
    half = ((cut == 0) & (lowest >= 0.5)) | (nobody & (highest < 0.5))
    return np.where(half, 0.5, np.where(nobody, np.inf, threshold))
