"""Mixtures: each cell's rule as at most three weighted thresholds, and back to its (u, v).

At the optimum a cell may need a point inside its polygon, which no single threshold reaches: the paper's rule
``F >= 0`` says nothing where F vanishes on a whole cell, and for equalized odds it often does. Any point of a convex
polygon lies in a triangle of one fixed corner and two neighbours, so three thresholds always suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from logofair.cells import Booleans, Cells
from logofair.inputs import Floats
from logofair.segments import Indices, search_runs

# A weight below this is rounding, not randomisation.
_NEGLIGIBLE = 1e-11


@dataclass(frozen=True)
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


def evaluate(cells: Cells, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """(u, v) of every cell under the stored rules, each (cells,)."""
    return _sum_rules(cells, mixtures.weight, mixtures.threshold, mixtures.above)


def evaluate_single(cells: Cells, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """(u, v) of every cell under its one deterministic threshold."""
    one = np.ones((mixtures.single.size, 1))
    return _sum_rules(cells, one, mixtures.single[:, None], one > 0)


def _sum_rules(cells: Cells, weight: Floats, threshold: Floats, above: Booleans) -> tuple[Floats, Floats]:
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
    if selection_only:
        weight, cuts, upper = _from_the_top(cells, every, u)
    else:
        weight, cuts, upper = _in_triangle(cells, every, u, v)
    weight[weight < _NEGLIGIBLE] = 0.0
    weight[weight > 1 - _NEGLIGIBLE] = 1.0
    # Accepting nobody is not a rule: its weight is left to rejection.
    sizes = np.diff(cells.starts)
    weight[np.where(upper, cuts == sizes[:, None], cuts == 0)] = 0.0
    order = np.argsort(-weight, axis=1, kind="stable")
    weight = np.take_along_axis(weight, order, axis=1)
    cuts, upper = np.take_along_axis(cuts, order, axis=1), np.take_along_axis(upper, order, axis=1)
    threshold = np.where(weight > 0, _thresholds(cells, every, cuts, upper), 0.0)
    _prefer_half(cells, every, weight, threshold, upper)
    return Mixtures(weight, threshold, np.where(weight > 0, upper, True), _single(cells, every, u))


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


def _from_the_top(cells: Cells, every: Indices, u: Floats) -> tuple[Floats, Indices, Booleans]:
    """The highest scores of mass u: two neighbouring cuts (the third column is unused)."""
    sizes = np.diff(cells.starts)
    low = _first_cut(cells, every, lambda below_u, below_v: below_u > 1.0 - u)
    low, high = _whole_ties(cells, every, np.clip(low - 1, 0, np.maximum(sizes - 1, 0)))
    u_more, _ = cells.corner(every, low, np.ones(u.size, dtype=bool))
    u_less, _ = cells.corner(every, high, np.ones(u.size, dtype=bool))
    width = u_more - u_less
    more = np.divide(u - u_less, width, out=np.zeros_like(u), where=width > 0)
    more = np.clip(more, 0.0, 1.0)
    weight = np.column_stack([more, np.where(sizes > 0, 1.0 - more, 0.0), np.zeros_like(u)])
    return weight, np.column_stack([low, high, high]), np.ones(weight.shape, dtype=bool)


def _in_triangle(cells: Cells, every: Indices, u: Floats, v: Floats) -> tuple[Floats, Indices, Booleans]:
    """Two neighbouring corners and "reject all" or "accept all", whichever needs the smaller weight."""
    weight, cuts, upper = _fan(cells, every, u, v)
    total = np.where(cells.mass > 0, 1.0, 0.0)
    share = cells.positives * cells.scale
    # The complement of a rule rejects what it accepts: the fan from "accept all" is the complement's fan.
    other, other_cuts, other_upper = _fan(cells, every, total - u, share - v)
    apex, other_apex = 1.0 - weight.sum(axis=1), 1.0 - other.sum(axis=1)
    turned = (other_apex < apex - _NEGLIGIBLE)[:, None]
    zero = np.zeros((u.size, 1), dtype=np.int64)
    accept_all = np.where(turned[:, 0], np.maximum(other_apex, 0.0), 0.0)
    return (
        np.column_stack([np.where(turned, other, weight), accept_all]),
        np.hstack([np.where(turned, other_cuts, cuts), zero]),
        np.hstack([np.where(turned, ~other_upper, upper), zero == 0]),
    )


def _fan(cells: Cells, every: Indices, u: Floats, v: Floats) -> tuple[Floats, Indices, Booleans]:
    """Weights of the two corners of the edge that the ray from "reject all" through (u, v) meets."""
    share = cells.positives * cells.scale
    upper = v >= share * u
    sizes = np.diff(cells.starts)

    def beyond(below_u: Floats, below_v: Floats) -> Booleans:
        # Mean value of the rows above (upper) or below the cut has passed that of the mixture, v / u.
        rise = (share - below_v) * u > v * (1.0 - below_u)
        return np.where(upper, rise, below_v * u > v * below_u)

    cut = _first_cut(cells, every, beyond)
    low, high = _whole_ties(cells, every, np.clip(cut - 1, 0, np.maximum(sizes - 1, 0)))
    (u1, v1), (u2, v2) = cells.corner(every, low, upper), cells.corner(every, high, upper)
    area = u1 * v2 - u2 * v1
    flat = np.abs(area) <= 1e-14 * np.maximum(u1, u2)
    safe = np.where(flat, 1.0, area)
    w1, w2 = (u * v2 - u2 * v) / safe, (u1 * v - u * v1) / safe
    # On a ray through both corners either will do: take the one that accepts more.
    larger = np.maximum(u1, u2)
    alone = np.divide(u, larger, out=np.zeros_like(u), where=larger > 0)
    w1, w2 = np.where(flat, np.where(u1 >= u2, alone, 0.0), w1), np.where(flat, np.where(u1 >= u2, 0.0, alone), w2)
    w1, w2 = np.clip(w1, 0.0, 1.0), np.clip(w2, 0.0, 1.0)
    excess = np.maximum(w1 + w2, 1.0)
    return np.column_stack([w1 / excess, w2 / excess]), np.column_stack([low, high]), np.column_stack([upper, upper])


def _first_cut(cells: Cells, every: Indices, beyond: Callable[[Floats, Floats], Booleans]) -> Indices:
    """Smallest cut at which a monotone condition on the sums below it holds (the last cut if none)."""
    low, high = np.zeros(every.size, dtype=np.int64), np.diff(cells.starts)
    for _ in range(int(high.max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        holds = beyond(*cells.below(every, middle))
        low, high = np.where(holds | (low >= high), low, middle + 1), np.where(holds, middle, high)
    return np.minimum(low, np.diff(cells.starts))


def _whole_ties(cells: Cells, every: Indices, block: Indices) -> tuple[Indices, Indices]:
    """Cuts just below and just above all blocks that share a block's score: a threshold cannot part them."""
    first, last = cells.starts[:-1], cells.starts[1:]
    if cells.lowest.size == 0:
        return block, block
    score = cells.lowest[np.minimum(first + block, cells.lowest.size - 1)]
    no = np.zeros(every.size, dtype=bool)
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


def _single(cells: Cells, every: Indices, u: Floats) -> Floats:
    """The one upper threshold per cell whose selection rate is nearest to u; infinity rejects all."""
    weight, cuts, upper = _from_the_top(cells, every, u)
    cut = np.where(weight[:, 0] >= 0.5, cuts[:, 0], cuts[:, 1])
    threshold = _thresholds(cells, every, cut[:, None], upper[:, :1])[:, 0]
    lowest, highest = _extremes(cells, every)
    half = ((cut == 0) & (lowest >= 0.5)) | ((cut >= np.diff(cells.starts)) & (highest < 0.5))
    return np.where(half, 0.5, np.where(cut >= np.diff(cells.starts), np.inf, threshold))
