"""What is required of rates, as regions: within a tolerance or a ratio of each other, between ends, or in their sum.

All are linear in the share selected u and the share of positives selected v of each cell. For every rate the values
that its groups may take form a region: with the lowest rate ``l`` of the groups that are compared::

    l <= r_a <= l + tolerance,   r_a <= l / ratio,   least_a <= r_a <= most_a,   total_least <= sum_a r_a <= total_most

The support function of a region at prices of the rates is the most that prices times rates can be inside it; a bound
on the optimum is the sites' best value at the prices plus the support function of every region. For a tolerance alone
and prices that sum to 0 that is the tolerance times half their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices

# A floor above a ceiling by less is rounding, of "today", say: the region has one point, not none. A certificate lets
# as much pass.
_EMPTY = 1e-9


@dataclass(frozen=True, eq=False)
class Limits:
    """What is required of some rates, in numbers, for every site or (n = 1) once over all of them.

    Rates are scaled to order 1: a unit of the user's is ``unit`` of these. Groups are those of each rate
    (:class:`Regions`): where that has fewer than others, the last are nobody's.
    """

    tolerance: Floats  # (n, rates), of the gap; inf: free
    ratio: Floats  # (n, rates); 0: none
    least: Floats  # (n, groups, rates); -inf: no floor
    most: Floats  # (n, groups, rates); inf: no ceiling
    # (n, rates), of the sum over the groups, (numbers of) a combination of rates; both are finite, or there is none
    total_least: Floats
    total_most: Floats
    unit: Floats  # (n, rates)

    @classmethod
    def within(cls, tolerance: Floats, groups: int, unit: Floats | None = None) -> Limits:
        """Tolerances, (n, rates), and nothing besides."""
        (n, rates), none = tolerance.shape, np.full_like(tolerance, np.inf)
        ends = np.full((n, groups, rates), np.inf)
        units = np.ones((n, rates)) if unit is None else np.broadcast_to(unit, (n, rates))
        return cls(tolerance, np.zeros((n, rates)), -ends, ends, -none, none, units)

    @property
    def on_totals(self) -> Booleans:
        """Which rates have a limited total, (n, rates)."""
        return np.asarray(np.isfinite(self.total_least) | np.isfinite(self.total_most))

    @cached_property
    def on_groups(self) -> Booleans:
        """Which groups have a floor, a ceiling or a part in a total, (n, groups, rates)."""
        return np.asarray(np.isfinite(self.least) | np.isfinite(self.most) | self.on_totals[:, None, :])

    @cached_property
    def more_than_tolerances(self) -> Booleans:
        """Which rates are limited by more than a tolerance, (n, rates)."""
        return np.asarray((self.ratio > 0) | self.on_groups.any(axis=1))

    @cached_property
    def only_tolerances(self) -> bool:
        """Whether tolerances are all there is."""
        return not self.more_than_tolerances.any()

    def of(self, which: Indices | Booleans) -> Limits:
        """Those of some sites."""
        return Limits(*(getattr(self, field.name)[which] for field in fields(self)))

    def rates(self, which: slice) -> Limits:
        """Those of some rates."""
        return Limits(*(getattr(self, field.name)[..., which] for field in fields(self)))

    @classmethod
    def concatenated(cls, several: Sequence[Limits]) -> Limits:
        """Those of the rates of each, one after the other."""
        return cls(*(np.concatenate([getattr(each, f.name) for each in several], axis=-1) for f in fields(cls)))


@dataclass(frozen=True, eq=False)
class Layout:
    """The regions as rows of many small programs alike (:mod:`logofair.solvers.simplex`).

    A group has the same rows as every other, one for each of ``rate``, and the last of these may be rows of all groups
    together: ``owned``, (groups, rows of a group), says which rows of the program they are, and ``touched``, (cells,
    rows of a group), which of them a cell has a part in.
    """

    low: Floats  # (n, rows)
    high: Floats
    slope: Floats
    family: Indices  # (rows,): the rate whose lowest value is taken off
    owned: Indices
    touched: Indices
    rate: Indices  # (rows of a group,)
    rates: int

    @property
    def summing(self) -> Floats:
        """Which groups' rates each row is about, (rows, groups * rates)."""
        found = np.zeros((self.family.size, len(self.owned), self.rates))
        for group, rows in enumerate(self.owned):
            found[rows, group, self.rate] = 1.0
        return found.reshape(self.family.size, -1)

    def by_rate(self, prices: Floats) -> Floats:
        """Prices of the rows, (..., rows), added up to prices of the groups' rates, (..., groups, rates)."""
        each = prices[..., self.owned]
        if self.rate.size == self.rates:
            return np.asarray(each)
        found = np.zeros((*each.shape[:-1], self.rates))
        for j, k in enumerate(self.rate.tolist()):
            found[..., k] += each[..., j]
        return found

    def by_row(self, values: Floats) -> Floats:
        """Values of the cells' rates, (..., cells, rates), for the rows that they touch."""
        return values if self.rate.size == self.rates else values[..., self.rate]


_STEP = 1e-6  # of a ratio, over which the support function is taken for a line


@dataclass(frozen=True, eq=False)
class Regions:
    """What is required of some rates at n places, of the groups that have these rates there.

    ``parted``: to which group of each rate every cell belongs, (cells, rates); None: every cell is a group.
    """

    limits: Limits
    defined: Booleans  # (n, groups, rates): which groups have which rate
    parted: Indices | None = None

    @cached_property
    def compared(self) -> Booleans:
        """Which groups the gap and the ratio of which rate are between, (n, groups, rates)."""
        enough = self.defined.sum(axis=1, keepdims=True) > 1
        bound = np.isfinite(self.limits.tolerance) | (self.limits.ratio > 0)
        return np.asarray(self.defined & enough & bound[:, None, :])

    @cached_property
    def limited(self) -> Booleans:
        """Which groups take part in any requirement on which rate, (n, groups, rates)."""
        return np.asarray(self.compared | (self.defined & self.limits.on_groups))

    def excess(self, rates: Floats) -> Floats:
        """Largest excess over a requirement on each rate (negative: room left), (n, rates)."""
        limits = self.limits
        found = gap_of(rates, self.compared, 1) - limits.tolerance
        if limits.only_tolerances:
            return np.asarray(found)
        low, high = range_of(rates, self.compared, 1)
        has = (limits.ratio > 0) & (high >= low)
        ratio = np.where(has, limits.ratio * np.where(has, high, 0.0) - np.where(has, low, 0.0), -np.inf)
        outside = np.maximum(limits.least - rates, rates - limits.most)
        outside = np.max(np.where(self.defined, outside, -np.inf), axis=1, initial=-np.inf)
        total = np.sum(np.where(self.defined, rates, 0.0), axis=1)
        of_total = np.maximum(limits.total_least - total, total - limits.total_most)
        return np.asarray(np.maximum.reduce([found, ratio, outside, of_total]))

    def empty_ratios(self, rates: Floats) -> int:
        """How many ratios are of rates that are all 0: they are met, and say nothing."""
        _, high = range_of(rates, self.compared, 1)
        return int(np.sum((self.limits.ratio > 0) & self.compared.any(axis=1) & (high <= 0.0)))

    def repaired(self, prices: Floats) -> Floats:
        """Prices that prove a bound, whatever rounding did to them: where tolerances alone compare they sum to 0."""
        balanced = zero_sum(prices, self.compared, 1)
        return np.where(self.limits.more_than_tolerances[:, None, :], prices, balanced)

    def support_function(self, prices: Floats, missed: float = 0.0) -> Floats:
        """The most that prices times rates, (n, groups, rates), can be inside the regions, (n,).

        -inf where a region is empty, which proves that nothing is inside. Every requirement may be ``missed`` by an
        amount.
        """
        limits = self.limits
        tolerance = limits.tolerance + missed
        found = np.asarray(0.5 * np.where(np.isfinite(tolerance), tolerance, 0.0) * np.abs(prices).sum(axis=1))
        for k in np.flatnonzero(limits.more_than_tolerances.any(axis=0)):
            least, most = limits.total_least[:, k] - missed, limits.total_most[:, k] + missed
            end = np.where(prices[:, 0, k] > 0, most, least)
            of_total = prices[:, 0, k] * np.where(np.isfinite(end), end, 0.0)
            point, empty = _band_support(
                prices[..., k],
                tolerance[:, k],
                self.compared[..., k],
                limits.ratio[:, k],
                limits.least[..., k] - missed,
                limits.most[..., k] + missed,
                missed,
            )
            of_groups = np.where(empty, -np.inf, (prices[..., k] * point).sum(axis=1))
            of_groups = np.where(limits.more_than_tolerances[:, k], of_groups, found[:, k])
            found[:, k] = np.where(limits.on_totals[:, k], of_total, of_groups)
        return np.asarray(found.sum(axis=1))

    def shadow_prices(self, prices: Floats) -> Floats:
        """What a unit less of each rate's requirement would win at most, (n, rates).

        That is a unit more tolerance or capacity, a ratio lower by 1, or all floors lower and ceilings higher by a
        unit.
        """
        found, limits = np.asarray(0.5 * np.abs(prices).sum(axis=1)), self.limits
        if limits.only_tolerances:
            return found
        ends = (np.isfinite(limits.least) | np.isfinite(limits.most)).any(axis=1)
        found = np.where(ends, np.abs(prices).sum(axis=1), found)
        found = np.where(limits.on_totals, np.abs(prices[:, 0]), found)
        for k in np.flatnonzero((limits.ratio > 0).any(axis=0)):
            one = slice(k, k + 1)
            alone, price, ratio = (
                Regions(limits.rates(one), self.defined[..., one]),
                prices[..., one],
                limits.ratio[:, one],
            )
            lower = replace(alone.limits, ratio=np.maximum(ratio - _STEP, 0.5 * ratio))
            won = replace(alone, limits=lower).support_function(price) - alone.support_function(price)
            by_ratio = won / np.where(ratio > 0, ratio - lower.ratio, 1.0)[:, 0]
            found[:, k] = np.where(limits.ratio[:, k] > 0, by_ratio, found[:, k])
        return np.asarray(found)

    @cached_property
    def layout(self) -> Layout:
        """The requirements as rows of n small programs alike; rows that a program does not have are free in it."""
        (n, groups, rates), limits = self.defined.shape, self.limits
        nothing, limited = np.full((n, groups), np.inf), np.asarray(limits.more_than_tolerances.any(axis=0))
        kinds: list[tuple[int, Floats, Floats, Floats]] = []  # rate, low, high, slope: each (n, groups)
        totals: list[tuple[int, Floats, Floats]] = []
        for k in range(rates):
            own = self.compared[..., k]
            if not limited[k] or own.any():
                width = np.where(own, limits.tolerance[:, None, k], np.inf)
                kinds.append((k, np.where(own, 0.0, -np.inf), width, np.ones((n, groups))))
            if not limited[k]:
                continue
            ratio = limits.ratio[:, None, k]
            if (ratio > 0).any():
                has = own & (ratio > 0)
                slope = np.where(has, 1.0 / np.maximum(ratio, 1e-300), 1.0)
                kinds.append((k, -nothing, np.where(has, 0.0, np.inf), slope))
            least, most = (
                np.where(self.defined[..., k], ends[..., k], free)
                for ends, free in ((limits.least, -np.inf), (limits.most, np.inf))
            )
            if np.isfinite(least).any() or np.isfinite(most).any():
                kinds.append((k, least, most, np.zeros((n, groups))))
            least, most = limits.total_least[:, k], limits.total_most[:, k]
            if np.isfinite(least).any() or np.isfinite(most).any():
                totals.append((k, least, most))
        own_rows = np.arange(groups * len(kinds)).reshape(groups, len(kinds))
        common = np.broadcast_to(own_rows.size + np.arange(len(totals)), (groups, len(totals)))
        flat = [
            np.stack([kind[i] for kind in kinds], axis=2).reshape(n, -1) if kinds else np.zeros((n, 0))
            for i in (1, 2, 3)
        ]
        more = [np.stack([total[i] for total in totals], axis=1) if totals else np.zeros((n, 0)) for i in (1, 2)]
        rate = np.array([kind[0] for kind in kinds] + [total[0] for total in totals], dtype=np.int64)
        owned = np.concatenate([own_rows, common], axis=1)
        touched = owned if self.parted is None else owned[self.parted[:, rate], np.arange(rate.size)]
        return Layout(
            low=np.concatenate([flat[0], more[0]], axis=1),
            high=np.concatenate([flat[1], more[1]], axis=1),
            slope=np.concatenate([flat[2], np.zeros((n, len(totals)))], axis=1),
            family=np.concatenate([np.tile(rate[: len(kinds)], groups), rate[len(kinds) :]]),
            owned=owned,
            touched=touched,
            rate=rate,
            rates=rates,
        )


def _band_support(
    prices: Floats, tolerance: Floats, compared: Booleans, ratio: Floats, least: Floats, most: Floats, missed: float
) -> tuple[Floats, Booleans]:
    """The point of one rate's region that prices prefer, (n, groups), and whether there is none, (n,).

    The lowest rate may miss a ratio by as much as is ``missed``. What has no end given is a share, so that it lies
    between 0 and 1 at any rate.

    For a given lowest rate every group takes the end that its price prefers; that is concave in the lowest rate and
    bends only where an end changes, so the best is at one of these points. There is one as long as no limit exceeds
    another by more than rounding.
    """
    low, high = np.where(np.isfinite(least), least, 0.0), np.where(np.isfinite(most), most, 1.0)
    shrink, tolerance = np.where(ratio > 0, ratio, 0.0)[:, None], tolerance[:, None]
    width = np.where(np.isfinite(tolerance), tolerance, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.where((shrink > 0) & (shrink < 1), (width * shrink - missed) / (1.0 - shrink), 0.0)
    start = np.where(compared, np.maximum(low - width, shrink * low - missed), 0.0)
    start = np.max(start, axis=1, keepdims=True, initial=0.0)
    end = np.min(np.where(compared, high, 1.0), axis=1, keepdims=True, initial=1.0)
    points = np.concatenate([start, end, low, high - width, shrink * high - missed, bend], axis=1)
    points = np.clip(points, start, np.maximum(start, end))[:, None, :]
    reach = np.minimum(points + width[..., None], 1.0)
    by_ratio = (points + missed) / np.maximum(shrink, 1e-300)[..., None]
    reach = np.where(shrink[..., None] > 0, np.minimum(reach, by_ratio), reach)
    bottom = np.where(compared[..., None], np.maximum(low[..., None], points), low[..., None])
    top = np.where(compared[..., None], np.minimum(high[..., None], reach), high[..., None])
    price = prices[..., None]
    ends = np.where(price > 0, top, bottom)
    best = np.argmax((price * ends).sum(axis=1), axis=1)
    empty = (low > high + _EMPTY).any(axis=1) | (start > end + _EMPTY)[:, 0]
    return np.take_along_axis(ends, best[:, None, None], axis=2)[..., 0], empty


def summed_cells(values: Floats, parted: Indices | None) -> Floats:
    """What cells have of every rate, (..., cells, rates), added up to groups, in the place of as many cells."""
    if parted is None:
        return values
    found = np.zeros_like(values)
    for k, own in enumerate(parted.T):
        found[..., k] = values[..., k] @ (own[:, None] == np.arange(own.size)).astype(np.float64)
    return found


def given_to_cells(values: npt.NDArray[Any], parted: Indices | None) -> npt.NDArray[Any]:
    """What groups have of every rate, (..., groups, rates), in the place of each of their cells."""
    return values if parted is None else np.asarray(values[..., parted, np.arange(parted.shape[1])])


def zero_sum(prices: Floats, counts: Booleans, axis: int) -> Floats:
    """Prices that prove a bound: 0 where a group does not count, summing to 0 over the others along an axis."""
    members = np.maximum(counts.sum(axis=axis, keepdims=True), 1)
    mean = np.sum(np.where(counts, prices, 0.0), axis=axis, keepdims=True) / members
    return np.where(counts, prices - mean, 0.0)


def gap_of(rates: Floats, counts: Booleans, axis: int) -> Floats:
    """Largest less smallest rate along an axis, over those that count; 0 where fewer than two do."""
    lowest, highest = range_of(rates, counts, axis)
    return np.where(highest > lowest, highest - lowest, 0.0)


def range_of(rates: Floats, counts: Booleans, axis: int) -> tuple[Floats, Floats]:
    """Smallest and largest rate along an axis, over those that count; infinite and the wrong way round where none does.

    One rate after the other: reductions over a short axis are slow.
    """
    each, counted = np.moveaxis(rates, axis, 0), np.moveaxis(np.broadcast_to(counts, rates.shape), axis, 0)
    lowest, highest = np.full(each.shape[1:], np.inf), np.full(each.shape[1:], -np.inf)
    for rate, some in zip(each, counted, strict=True):
        lowest = np.where(some, np.minimum(lowest, rate), lowest)
        highest = np.where(some, np.maximum(highest, rate), highest)
    return lowest, highest


def support_of_tolerances(prices: Floats, tolerance: Floats) -> Floats:
    """Support function of the tolerances at prices of the rates, (...,); both (..., groups, rates), infinity: free.

    A unit of tolerance adds half the sum of its groups' prices by size, since these sum to 0.
    """
    finite = np.where(np.isfinite(tolerance), tolerance, 0.0)
    *many, groups, rates = prices.shape
    support = (finite * np.abs(prices)).reshape(*many, groups * rates)
    return np.asarray(0.5 * support.sum(axis=-1))
