"""Mixtures: each cell's rule as at most three weighted thresholds, and back to its (u, v).

At the optimum a cell may need a point inside its polygon, which no single threshold reaches: the paper's rule
``F >= 0`` says nothing where F vanishes on a whole cell, and for equalized odds it often does. Any point of a convex
polygon lies in a triangle of one fixed corner and two neighbours, so three thresholds always suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from logofair.cells.cells import Cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices, search_runs
from logofair.files.documents import numbers_in, numbers_out, of_type

# A weight below this is no randomisation worth the name.
NEGLIGIBLE = 1e-12
# What u and v, of order 1, are known to.
_ROUNDING = 1e-15

# Weights, cuts and sides (upper) of up to three corners per cell, each (cells, corners).
Corners: TypeAlias = tuple[Floats, Indices, Booleans]


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Per cell up to three rules "score >= threshold" (``above``) or "score <= threshold", each with a weight.

    A row is accepted with the total weight of the rules that accept it; what the weights lack to 1 rejects.
    All arrays are (cells, 3); ``single`` (cells,) is the deterministic threshold with the nearest selection rate.
    """

    weight: Floats
    threshold: Floats
    above: Booleans
    single: Floats

    @property
    def mixed(self) -> Booleans:
        """Which cells need a coin."""
        return np.asarray(((self.weight > 0) & (self.weight < 1)).any(axis=1))

    def at(self, cells: Indices) -> Mixtures:
        """The rules of some cells."""
        return Mixtures(*(getattr(self, part.name)[cells] for part in fields(self)))

    def and_also(self, *more: Mixtures) -> Mixtures:
        """These rules and others, one after another."""
        return Mixtures(*(np.concatenate([getattr(m, part.name) for m in (self, *more)]) for part in fields(self)))

    def as_json(self) -> dict[str, Any]:
        """Plain lists, from which :meth:`from_json` rebuilds the same floats."""
        # JSON has no infinity; null stands for "reject all"
        single = [None if np.isinf(t) else t for t in self.single.tolist()]
        return {
            "weight": numbers_out(self.weight),
            "threshold": numbers_out(self.threshold),
            "above": self.above.tolist(),
            "single": single,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], cells: int) -> Mixtures:
        """Rebuild stored rules of so many cells; raise where they are damaged (for `or_damaged`)."""
        weight = numbers_in(data["weight"], (cells, 3), low=0, high=1)
        threshold = numbers_in(data["threshold"], (cells, 3), low=0, high=1)
        above, single = np.array(data["above"]), of_type(data["single"], list)
        rejects = np.array([limit is None for limit in single])
        limits = numbers_in([0.0 if limit is None else limit for limit in single], (cells,), low=0, high=1)
        if above.shape != (cells, 3) or above.dtype != bool or weight.sum(axis=1).max() > 1.0 + 1e-9:
            raise ValueError("above or weights")
        return cls(weight, threshold, above, np.where(rejects, np.inf, limits))


def base_rule(cells: int) -> Mixtures:
    """Score >= 1/2 for any number of cells."""
    first = np.array([1.0, 0.0, 0.0])
    weight, above = np.tile(first, (cells, 1)), np.ones((cells, 3), dtype=bool)
    return Mixtures(weight, 0.5 * weight, above, np.full(cells, 0.5))


def filled(cells: Cells, mixtures: Mixtures, merged: Mixtures | None) -> Mixtures:
    """Give cells without rows their group's merged rule, or score >= 1/2: some row may come one day."""
    empty = np.flatnonzero(cells.mass == 0)
    if empty.size == 0:
        return mixtures
    rule = np.arange(cells.mass.size)
    rule[empty] = rule.size + empty % cells.n_groups
    return mixtures.and_also(merged or base_rule(cells.n_groups)).at(rule)


def evaluate(cells: Cells, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """(u, v) of every cell under the stored rules, each (cells,)."""
    return _sum_rules(cells, mixtures.weight, mixtures.threshold, mixtures.above)


def evaluate_single(cells: Cells, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """(u, v) of every cell under its one deterministic threshold."""
    one = np.ones((mixtures.single.size, 1))
    return _sum_rules(cells, one, mixtures.single[:, None], one > 0)


def _sum_rules(cells: Cells, weight: Floats, threshold: Floats, above: Booleans) -> tuple[Floats, Floats]:
    cells = cells.levels
    u, v = np.zeros(weight.shape[0]), np.zeros(weight.shape[0])
    for j in range(weight.shape[1]):
        used = np.flatnonzero(weight[:, j] > 0)
        upper = above[used, j]
        first, last = cells.starts[used], cells.starts[used + 1]
        # "score >= t" accepts the blocks not below t; "score <= t" those not above it.
        cuts = search_runs(cells.lowest, first, last, threshold[used, j], right=~upper)
        corner_u, corner_v = cells.corner(used, cuts, upper)
        u[used] += weight[used, j] * corner_u
        v[used] += weight[used, j] * corner_v
    return u, v


def reduce(cells: Cells, u: Floats, v: Floats, *, selection_only: bool) -> Mixtures:
    """Rules that realise (u, v) in every cell (flat, one entry per cell).

    Where only selection rates are constrained, u alone matters and the rows with the highest scores are taken: the
    same rates at no lower accuracy, with at most one score value left to chance.
    """
    every = np.arange(u.size)
    u = np.clip(u, 0.0, 1.0)
    top = _edge(cells, every, u, upper=True)
    single = _single(cells.levels, every, top if cells.hull_of is None else _edge(cells.hull_of, every, u, upper=True))
    weight, cuts, upper = top if selection_only else _inside(cells, every, u, v, top)
    cuts, upper = cells.rules(every[:, None], cuts, upper)
    cells = cells.levels
    weight[weight < NEGLIGIBLE] = 0.0
    weight[weight > 1 - NEGLIGIBLE] = 1.0
    # Accepting nobody is not a rule: its weight is left to rejection.
    sizes = np.diff(cells.starts)
    weight[np.where(upper, cuts == sizes[:, None], cuts == 0)] = 0.0
    order = np.argsort(-weight, axis=1, kind="stable")
    weight = np.take_along_axis(weight, order, axis=1)
    cuts, upper = np.take_along_axis(cuts, order, axis=1), np.take_along_axis(upper, order, axis=1)
    threshold = np.where(weight > 0, _thresholds(cells, every, cuts, upper), 0.0)
    _prefer_half(cells, every, weight, threshold, upper)
    return Mixtures(weight, threshold, np.where(weight > 0, upper, True), single)


def _prefer_half(cells: Cells, every: Indices, weight: Floats, threshold: Floats, upper: Booleans) -> None:
    """Write "all" and "nobody" as score >= 1/2 where that is the same: new rows then meet the base rule, in place."""
    lowest, highest = _extremes(cells, every)
    everybody = (weight[:, 0] == 1.0) & (threshold[:, 0] == 0.0) & (lowest >= 0.5)
    nobody = (weight.max(axis=1) == 0.0) & (highest < 0.5)
    threshold[everybody | nobody, 0], weight[nobody, 0], upper[nobody, 0] = 0.5, 1.0, True


def _extremes(cells: Cells, every: Indices) -> tuple[Floats, Floats]:
    """Lowest and highest score of every cell (inf and -inf for an empty one)."""
    zero = np.zeros(every.size, dtype=np.int64)
    _, lowest = cells.thresholds(every, zero)
    highest, _ = cells.thresholds(every, np.diff(cells.starts))
    return lowest, highest


def _edge(cells: Cells, which: Indices, u: Floats, *, upper: bool) -> Corners:
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


def _inside(cells: Cells, every: Indices, u: Floats, v: Floats, top: Corners) -> Corners:
    """Corners of any point: those of an edge where it lies on one, otherwise of a triangle."""
    weight, cuts, upper = top
    share = cells.positives * cells.scale
    margin = NEGLIGIBLE * share * (1.0 - share) + _ROUNDING * share
    rest = np.flatnonzero(v < _positives(cells, every, top) - margin)
    if rest.size:
        bottom = _edge(cells, rest, u[rest], upper=False)
        on_bottom = (v[rest] <= _positives(cells, rest, bottom) + margin[rest])[:, None]
        triangle = _in_triangle(cells, rest, u[rest], v[rest], cuts[rest], bottom[1])
        weight[rest], cuts[rest], upper[rest] = (
            np.where(on_bottom, b, t) for b, t in zip(bottom, triangle, strict=True)
        )
    return weight, cuts, upper


def _positives(cells: Cells, which: Indices, corners: Corners) -> Floats:
    """The selected positives v of two corners' mixture."""
    weight, cuts, upper = corners
    (_, v1), (_, v2) = (cells.corner(which, cuts[:, j], upper[:, j]) for j in (0, 1))
    return np.asarray(weight[:, 0] * v1 + weight[:, 1] * v2)


def _in_triangle(cells: Cells, which: Indices, u: Floats, v: Floats, top: Indices, bottom: Indices) -> Corners:
    """Two neighbouring corners and "reject all" or "accept all", whichever needs the smaller weight.

    ``top`` and ``bottom`` are the cuts on both sides of u on the upper and the lower edge.
    """
    weight, cuts, upper = _fan(cells, which, u, v, top[:, 0], bottom[:, 1])
    share = (cells.positives * cells.scale)[which]
    # The complement of a rule rejects what it accepts: the fan from "accept all" is the complement's fan.
    other, other_cuts, other_upper = _fan(cells, which, 1.0 - u, share - v, bottom[:, 0], top[:, 1])
    apex, other_apex = 1.0 - weight.sum(axis=1), 1.0 - other.sum(axis=1)
    swapped = (other_apex < apex - NEGLIGIBLE)[:, None]
    zero = np.zeros((u.size, 1), dtype=np.int64)
    accept_all = np.where(swapped[:, 0], np.maximum(other_apex, 0.0), 0.0)
    return (
        np.column_stack([np.where(swapped, other, weight), accept_all]),
        np.hstack([np.where(swapped, other_cuts, cuts), zero]),
        np.hstack([np.where(swapped, ~other_upper, upper), zero == 0]),
    )


def _fan(cells: Cells, which: Indices, u: Floats, v: Floats, most: Indices, least: Indices) -> Corners:
    """Weights of the two corners of the edge that the ray from "reject all" through (u, v) meets.

    That edge lies beyond u: its larger corner is at most cut ``most`` on the upper edge, at least ``least`` on the
    lower one. Where values hardly differ the ray's direction is mere rounding, and this alone keeps the edge right.
    """
    share = (cells.positives * cells.scale)[which]
    upper = v >= share * u

    def beyond(below_u: Floats, below_v: Floats) -> Booleans:
        # Mean value of the rows above (upper) or below the cut has passed that of the mixture, v / u.
        rise = (share - below_v) * u > v * (1.0 - below_u)
        return np.where(upper, rise, below_v * u > v * below_u)

    block = _first_cut(cells, which, beyond) - 1
    low, high = _whole_ties(cells, which, np.where(upper, np.minimum(block, most), np.maximum(block, least - 1)))
    large, small = np.where(upper, low, high), np.where(upper, high, low)
    weight = _share_out(u, v, *cells.corner(which, large, upper), *cells.corner(which, small, upper))
    return weight, np.column_stack([large, small]), np.column_stack([upper, upper])


def _share_out(u: Floats, v: Floats, u1: Floats, v1: Floats, u2: Floats, v2: Floats) -> Floats:
    """Weights of two corners, u1 >= u2, that mix with (0, 0) to (u, v): exact in u, and in v up to rounding."""
    first, second = u * v2 - u2 * v, u1 * v - u * v1
    area = u1 * v2 - u2 * v1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        w2 = second / area
        # On the ray through one corner that one will do.
        w2 = np.where(np.abs(first) <= _ROUNDING * u * v2, u / u2, w2)
        w2 = np.where(np.abs(second) <= _ROUNDING * u1 * v, 0.0, w2)
        largest = np.fmin(u / u2, (u1 - u) / (u1 - u2))
    w2 = np.clip(np.nan_to_num(w2), 0.0, np.clip(np.nan_to_num(largest), 0.0, 1.0))
    # w2 may be rounding alone where the corners' rays nearly coincide; u must be met whatever it is.
    w1 = np.divide(u - w2 * u2, u1, out=np.zeros_like(u), where=u1 > 0)
    return np.column_stack([np.clip(w1, 0.0, 1.0 - w2), w2])


def _first_cut(cells: Cells, which: Indices, beyond: Callable[[Floats, Floats], Booleans]) -> Indices:
    """Smallest cut at which a monotone condition on the sums below it holds (the last cut if none)."""
    size = cells.starts[which + 1] - cells.starts[which]
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


def _single(cells: Cells, every: Indices, top: Corners) -> Floats:
    """The one upper threshold per cell whose selection rate is nearest to u; infinity rejects all."""
    weight, cuts, upper = top
    cut = np.where(weight[:, 0] >= 0.5, cuts[:, 0], cuts[:, 1])
    threshold = _thresholds(cells, every, cut[:, None], upper[:, :1])[:, 0]
    lowest, highest = _extremes(cells, every)
    half = ((cut == 0) & (lowest >= 0.5)) | ((cut >= np.diff(cells.starts)) & (highest < 0.5))
    return np.where(half, 0.5, np.where(cut >= np.diff(cells.starts), np.inf, threshold))
