"""Masses of the (site, group, label) cells, the rates they make, and the gaps between rates with their limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.chance import TAIL, Floor, limits_against, noise_floor, pair_limits, share_limits
from logofair.columns.checks import Binary, Floats, Label
from logofair.columns.labels import Codes, one_site, plain
from logofair.columns.segments import Booleans, Indices
from logofair.costs import Costs
from logofair.notions import Rate
from logofair.outcomes import FEW_ROWS

_BOTH = 2  # where a tally keeps what is counted without regard to labels
_LARGEST_RATE = 1e300  # keeps the difference of two rates finite; only a user's own rate comes near


class Measured(float):
    """A figure that knows what it rests on: a float with ``low``, ``high``, ``rows``, ``floor`` and ``detectable``.

    ``low`` and ``high`` are the ends of its 95% interval, were the rows drawn again; None where there is none.
    ``rows`` is how many rows it rests on (people, where ids repeat); of a gap, those behind the rate of each of its
    groups at least. ``floor`` is what a rule without any gap would show on these rows on average, and ``detectable``
    what it stays below in 19 of 20 such draws: a gap up to there cannot be told from chance.

    Examples
    --------
    >>> gap = Measured(0.05, low=0.0, high=0.12, rows=140, floor=0.03, detectable=0.08)
    >>> gap + 0.01, gap.high, str(gap)
    (0.060000000000000005, 0.12, '0.0500 (95%: 0.0000 to 0.1200; 140 rows)')
    """

    low: float | None
    high: float | None
    rows: int | None
    floor: float | None
    detectable: float | None

    def __new__(
        cls,
        value: float,
        *,
        low: float | None = None,
        high: float | None = None,
        rows: int | None = None,
        floor: float | None = None,
        detectable: float | None = None,
    ) -> Measured:
        """Make a float that knows what it rests on."""
        self = super().__new__(cls, value)
        self.low, self.high, self.rows, self.floor, self.detectable = low, high, rows, floor, detectable
        return self

    @property
    def interval(self) -> str:
        """Both ends of its interval as people read them; empty where there is none."""
        return "" if self.low is None else f"{text(self.low)} to {text(self.high)}"

    def __str__(self) -> str:
        chance = f"95%: {self.interval}" if self.interval else ""
        rows = "" if self.rows is None else f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        rests = "; ".join(part for part in (chance, rows) if part)
        return f"{text(self)} ({rests})" if rests else text(self)

    def times(self, unit: float) -> Measured:
        """The same in another unit; below 0, what was high is low."""
        low, high = (None if end is None else end * unit for end in (self.low, self.high)[:: 1 if unit > 0 else -1])
        return Measured(float(self) * unit, low=low, high=high, rows=self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _measured, (float(self), vars(self))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; the floor only of gaps."""
        found = {"value": float(self), "low": self.low, "high": self.high, "rows": self.rows}
        return found if self.floor is None else found | {"floor": self.floor, "detectable": self.detectable}


def _measured(value: float, rests: dict[str, Any]) -> Measured:
    return Measured(value, **rests)


@dataclass(frozen=True)
class Gap:
    """The largest rate over the groups minus the smallest; ``value`` is None where ``reason`` says why.

    ``highest`` and ``lowest`` are the groups concerned, ``site`` is None for all sites together. ``value`` is a
    :class:`Measured`; its interval is None where the rate is not the share of some rows that is accepted.

    Examples
    --------
    >>> print(Gap(Measured(0.25, low=0.03, high=0.42, rows=40), "selection rate", "M", "F", site="north"))
    0.2500 (selection rate, 'M' over 'F', site 'north'; 95%: 0.0300 to 0.4200; 40 rows)
    """

    value: Measured | None
    rate: str
    highest: Label | None = None
    lowest: Label | None = None
    site: Label | None = None
    reason: str | None = None

    def __str__(self) -> str:
        what = self.reason if self.value is None else self.rate
        what = f"{what}, {self.highest!r} over {self.lowest!r}" if self.value else what
        what = f"{what}{'' if self.site is None else f', site {self.site!r}'}"
        figure, _, rests = str("undefined" if self.value is None else self.value).partition(" (")
        return f"{figure} ({what}{f'; {rests}' if rests else ')'}"

    @property
    def finding(self) -> str:
        """What the gap shows beyond chance, in words without a full stop; empty where that cannot be said."""
        gap = self.value
        if gap is None or gap.low is None:
            return ""
        if self.shown:
            return f"a gap of at least {text(gap.low)} is shown"
        # one criterion: what was found here and not shown could not be seen either
        unseen = (
            "" if gap.detectable is None else f"; gaps below {text(max(gap.detectable, gap))} could not be seen here"
        )
        return f"no unfairness shown{unseen}"

    @property
    def shown(self) -> bool:
        """Whether a gap is shown beyond chance."""
        return self.value is not None and self.value.low is not None and self.value.low >= 0.00005

    @property
    def chance(self) -> str:
        """What a rule without any gap would show on these rows, in words; empty where that is not known."""
        gap = self.value
        if gap is None or gap.floor is None or gap.detectable is None:
            return ""
        return f"chance alone shows {text(gap.floor)} on average, up to {text(gap.detectable)}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        named = {name: plain(getattr(self, name)) for name in ("highest", "lowest", "site")}
        figure = {"value": None} if self.value is None else self.value.as_dict()
        return figure | {"rate": self.rate} | named | {"finding": self.finding, "reason": self.reason}


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows, mass and accepted mass by (site, group, label); without labels all stand under label 0.

    By (site, group, label or both) stands how much chance there is in the masses: how many ``people`` have any
    weight, the sum of their squared weights (``squares``), and of weight times accepted weight (``products``; None
    where weights have nothing to do with decisions). A person is an id of one group at one site, or a row where
    there are no ids; ``over_all`` counts all sites as one where ids repeat: a person may be at several.
    """

    rows: npt.NDArray[np.intp]
    mass: Floats
    accepted: Floats
    people: Indices
    squares: Floats
    labelled: bool
    products: Floats | None = None
    over_all: Tally | None = None

    @property
    def site_mass(self) -> list[float]:
        """Rows of every site, by weight."""
        mass: list[float] = self.mass.reshape(len(self.mass), -1).sum(axis=1).tolist()
        return mass

    @classmethod
    def counted(cls, rows: npt.NDArray[np.intp], mass: Floats, accepted: Floats) -> Tally:
        """Labelled rows of which nobody stands under both labels, and whose weights hardly differ within a cell."""
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.where(rows > 0, mass * mass / rows, 0.0)
        return cls(rows, mass, accepted, with_both_labels(rows), with_both_labels(squares), labelled=True)

    def merged(self) -> Tally:
        """All sites as one."""
        return self.summed(0) if self.over_all is None else self.over_all

    def summed(self, axis: int) -> Tally:
        """All sites as one (axis 0), or all groups (axis 1)."""
        return Tally(
            self.rows.sum(axis, keepdims=True),
            self.mass.sum(axis, keepdims=True),
            self.accepted.sum(axis, keepdims=True),
            self.people.sum(axis, keepdims=True),
            self.squares.sum(axis, keepdims=True),
            self.labelled,
            None if self.products is None else self.products.sum(axis, keepdims=True),
        )

    def gathered(self, place: Sequence[int], count: int) -> Tally:
        """Groups summed to ``count`` others, each to the one at its place; those with place -1 are left out."""
        at = np.asarray(place, dtype=np.intp)

        def sums(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = np.zeros((part.shape[0], count, part.shape[2]), part.dtype)
            np.add.at(np.swapaxes(found, 0, 1), at[at >= 0], np.swapaxes(part[:, at >= 0], 0, 1))
            return found

        return Tally(
            sums(self.rows),
            sums(self.mass),
            sums(self.accepted),
            sums(self.people),
            sums(self.squares),
            self.labelled,
            None if self.products is None else sums(self.products),
            self.over_all and self.over_all.gathered(place, count),
        )

    def accepting(self, accepted: Floats) -> Tally:
        """The same rows with another rule's accepted mass; how far weights go with its decisions is not known."""
        over_all = self.over_all and replace(self.over_all, accepted=accepted.sum(0, keepdims=True), products=None)
        return replace(self, accepted=accepted, products=None, over_all=over_all)

    def only(self, site: int) -> Tally:
        """One site."""
        place = slice(site, site + 1)
        products = None if self.products is None else self.products[place]
        counts = (self.rows[place], self.mass[place], self.accepted[place], self.people[place], self.squares[place])
        return Tally(*counts, self.labelled, products)

    def accuracy(self) -> Floats:
        """Expected share of right decisions by site; NaN where undefined."""
        return _ratio(self._right().sum(1), self.labelled * self.mass.sum((1, 2)))

    def measured_accuracy(self) -> Measured | None:
        """Expected share of right decisions over all sites; None without labels."""
        if not self.labelled:
            return None
        merged = self.merged()
        products = merged.products
        if products is not None:
            products = products[..., 1] + merged.squares[..., 0] - products[..., 0]
        return merged._share(merged._right(), products, by_label=True)

    def cost(self, costs: Costs) -> Floats:
        """Expected cost of a row by site; NaN where undefined."""
        return _ratio(_spent(self.accepted, self.mass, costs).sum(1), self.labelled * self.mass.sum((1, 2)))

    def measured_cost(self, costs: Costs) -> Measured | None:
        """Expected cost of a row over all sites; None without labels.

        It is a share of the dearest error, so that its interval is that of a share; where errors differ in cost it is
        wider than need be, since costs between 0 and the dearest vary less.
        """
        if not self.labelled:
            return None
        merged, parts = self.merged(), self if self.over_all is None else self.over_all
        products = None
        if parts.products is not None and (costs.alike or parts is self):  # a person at sites of other costs: unknown
            products = _spent(parts.products, parts.squares, costs) / costs.largest
        share = merged._share(_spent(self.accepted, self.mass, costs) / costs.largest, products, by_label=True)
        return None if share is None else share.times(costs.largest)

    def measured_accepted(self) -> Measured | None:
        """Expected share of all mass that is accepted; None where there is no mass."""
        merged = self.merged()
        return merged._share(merged.accepted, None if merged.products is None else merged.products[..., _BOTH])

    def _right(self) -> Floats:
        return np.asarray(self.accepted[..., 1] + (self.mass[..., 0] - self.accepted[..., 0]))

    def rate(self, rate: Rate) -> Floats:
        """One rate by (site, group); NaN where undefined."""
        if rate.needs_labels and not self.labelled:
            return np.full(self.mass.shape[:2], np.nan)
        with np.errstate(over="ignore", invalid="ignore"):  # a user's own rate may be huge
            # Label by label: the difference of two sums would lose a light label beside a heavy one.
            top = [rate.numerator(self.accepted[..., label], label * self.accepted[..., label]) for label in (0, 1)]
            return _ratio(top[0] + top[1], self.mass_behind(rate))

    def mass_behind(self, rate: Rate) -> Floats:
        """The denominator of one rate by (site, group)."""
        parts = [rate.denominator(self.mass[..., label], label * self.mass[..., label]) for label in (0, 1)]
        return np.asarray(parts[0] + parts[1])

    def rows_behind(self, rate: Rate) -> Indices:
        """How many rows (people, where ids repeat) count in one rate by (site, group), each with some weight."""
        return np.asarray(self.people[..., _place(counting_labels(rate))], dtype=np.int64)

    def effective_rows(self, rate: Rate) -> Floats:
        """How many rows of equal weight would leave as much to chance, by (site, group)."""
        counting = counting_labels(rate)
        place, mass = _place(counting), self.mass[..., counting].sum(axis=-1)
        accepted = self.accepted[..., counting].sum(axis=-1)
        products = None if self.products is None else self.products[..., place]
        effective = _effective(mass, accepted, self.squares[..., place], products)
        return np.minimum(effective, self.people[..., place])  # squares of weights near 0 underflow

    def _share(self, hits: Floats, products: Floats | None, *, by_label: bool = False) -> Measured | None:
        """All sites' share of the mass that ``hits`` holds, with its interval; None where there is no mass.

        Products ``by_label`` leave out those of a person's weight under one label with hits under the other. They are
        0 at least and all such products of weights at most; that end is taken which leaves more to chance.
        """
        mass, held, squares = (np.array(part.sum()) for part in (self.mass, hits, self.squares[..., _BOTH]))
        if not mass > 0:
            return None
        known = None if products is None else np.array(products.sum())
        if known is not None and by_label and held < mass / 2:
            known = known + max(float(squares - self.squares[..., :_BOTH].sum()), 0.0)
        rows = _effective(mass, held, squares, known)
        share = min(float(held / mass), 1.0)
        low, high = share_limits(np.array(share), rows)
        return Measured(
            share, low=value_of(float(low)), high=value_of(float(high)), rows=int(self.people[..., _BOTH].sum())
        )

    def why_undefined(self, rate: Rate, site: int, group: int) -> str:
        """Why a rate has no value in a cell."""
        counting = counting_labels(rate)
        those = f"rows with label {counting[0]}" if len(counting) == 1 else "rows"
        if not self.rows[site, group, counting].any():
            return f"no {those}"
        return "its value is not finite" if self.mass[site, group, counting].any() else f"all {those} have weight 0"


@dataclass(frozen=True, eq=False)
class Side:
    """The rates of one side: ``values[rate, site, group]`` and ``gaps[rate, site]``, NaN where undefined.

    Only rates that rest on ``fewest`` rows or more have a value. ``like`` is another rule on the same rows whose noise
    floor serves: it hardly depends on the rule, and is the dearest figure where many rules are measured. ``looked_at``
    is how many statements are judged together, over which lower limits are corrected.
    """

    rates: tuple[Rate, ...]
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]
    tally: Tally
    values: Floats
    gaps: Floats
    highest: npt.NDArray[np.intp]
    lowest: npt.NDArray[np.intp]
    looked_at: int
    fewest: int = 1
    like: Side | None = None

    @cached_property
    def rows(self) -> Indices:
        """Rows behind each rate, (rates, sites, groups)."""
        return np.stack([self.tally.rows_behind(rate) for rate in self.rates])

    @cached_property
    def effective(self) -> Floats:
        """How many rows of equal weight would leave as much to chance, (rates, sites, groups)."""
        return np.stack([self.tally.effective_rows(rate) for rate in self.rates])

    @cached_property
    def gap_rows(self) -> Indices:
        """Rows behind each gap: the fewer of those behind its two rates, (rates, sites); 0 where undefined."""
        ends = [np.take_along_axis(self.rows, at[..., None], 2)[..., 0] for at in (self.highest, self.lowest)]
        return np.where(np.isnan(self.gaps), 0, np.minimum(*ends))

    @cached_property
    def large(self) -> Side:
        """The same over large cells alone: rates that rest on :data:`FEW_ROWS` rows or more."""
        return self._only(self.rows >= FEW_ROWS, FEW_ROWS, None if self.like is None else self.like.large)

    @cached_property
    def headline(self) -> Side:
        """What is told: gaps between large cells, so that a few people make none.

        Of all cells where a rate has no gap between large ones, and where one is shown beyond chance among all and none
        among the large: that must not be hidden. Each rate by itself, so a gap of two is never below that of one.
        """
        shown, large = (np.fmax.reduce(side.limits[0], axis=1) > 0.0 for side in (self, self.large))
        every = np.isnan(self.large.gaps).all(axis=1) | (shown & ~large)
        return self._only((self.rows >= FEW_ROWS) | every[:, None, None], self.fewest, self.like)

    def _only(self, which: Booleans, fewest: int, like: Side | None) -> Side:
        """The same over some cells."""
        values = np.where(which, self.values, np.nan)
        return _compared(self.rates, self.groups, self.sites, self.tally, values, self.looked_at, fewest, like)

    @cached_property
    def _shares(self) -> Floats:
        """The values of those rates that are shares of rows; NaN elsewhere, which no limit here is for."""
        counted = np.array([counts_rows(rate) for rate in self.rates])[:, None, None]
        return np.where(counted, self.values, np.nan)

    @cached_property
    def rate_limits(self) -> tuple[Floats, Floats]:
        """Ends of the 95% interval of every rate, each (rates, sites, groups); NaN where there is none."""
        return share_limits(self._shares, self.effective)

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Both ends of the 95% interval of every gap, (rates, sites); NaN where undefined, or of no shares of rows.

        The upper end is that of the gap by itself: the pair of groups that is worst in truth is one fixed pair, so the
        largest upper end of some gaps is that of the largest of them too. The lower end is corrected over all that is
        looked at, so the largest lower end of some gaps is that of the largest of them.
        """
        tail = np.full(self.gaps.shape, TAIL)
        lower = pair_limits(self._shares, self.effective, tail / max(self.looked_at, 1), upper=False)
        return lower, pair_limits(self._shares, self.effective, tail, upper=True)

    @cached_property
    def floor(self) -> Floor:
        """What rules without any gap would show on these rows."""
        return self.floor_at(0.0) if self.like is None else self.like.floor

    def floor_at(self, gap: float) -> Floor:
        """What rules would show on these rows whose true gap is so large at every site."""
        return noise_floor(self._shares, self.effective, [rate.name for rate in self.rates], gap)

    def could_be_worst(self, rate: int, first: int) -> Booleans:
        """Which pairs of a group and another, (sites, groups), may be those of the largest gap in truth."""
        low, high = (part[rate] for part in self.rate_limits)
        with np.errstate(invalid="ignore"):
            return np.asarray(limits_against(first, self._shares[rate], low, high, upper=True) >= self._largest_lower)

    @property
    def squared_errors(self) -> Floats:
        """Squared standard error of every rate, (rates, sites, groups), one row of either kind added."""
        centre = (self._shares * self.effective + 1.0) / (self.effective + 2.0)
        return np.asarray(centre * (1.0 - centre) / (self.effective + 2.0))

    @cached_property
    def _largest_lower(self) -> float:
        return float(_largest(self.limits[0], (0, 1))[0, 0])

    def gap(self, rate: int, place: int) -> Gap:
        """The gap of one rate at one site."""
        low, high = self.limits
        return self._gap(rate, place, low[rate, place], high[rate, place])

    def _largest_limits(self, together: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Both ends of the interval of the largest gap over some axes of (rates, sites), which remain as 1."""
        low, high = self.limits
        return _largest(low, together), _largest(high, together)

    def largest(self) -> tuple[Gap, ...]:
        """The gap of every rate at the site where it is largest."""
        (low, high), at = self._largest_limits((1,)), _argmax(self.gaps, 1)
        floors = self.floor.by_rate.tolist()
        found = [self._gap(k, int(at[k]), low[k, 0], high[k, 0], *floors[k]) for k in range(len(self.rates))]
        return tuple(gap if gap.reason is None else replace(gap, site=None) for gap in found)

    def by_site(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every site; its floor is that of the site."""
        (low, high), at = self._largest_limits((0,)), _argmax(self.gaps, 0)
        floors = self.floor.by_site.tolist()
        return tuple(self._gap(int(at[c]), c, low[0, c], high[0, c], floors[c]) for c in range(len(self.sites)))

    def worst(self) -> Gap:
        """The largest gap of any rate at any site."""
        rate, place = np.unravel_index(int(np.where(np.isnan(self.gaps), -1.0, self.gaps).argmax()), self.gaps.shape)
        (low, high), floor = self._largest_limits((0, 1)), self.floor
        gap = self._gap(int(rate), int(place), low[0, 0], high[0, 0], floor.mean, floor.detectable)
        return gap if gap.reason is None else replace(gap, site=None)

    def _gap(
        self, rate: int, place: int, low: float, high: float, floor: float = math.nan, detectable: float = math.nan
    ) -> Gap:
        name, site, gap = self.rates[rate].name, self.sites[place], float(self.gaps[rate, place])
        if math.isnan(gap):
            have = f"a {name} on {self.fewest} rows or more" if self.fewest > 1 else f"a defined {name}"
            return Gap(None, name, site=site, reason=f"fewer than two groups have {have}")
        value = Measured(
            gap,
            # the limits are of the largest gap in truth, which may be of another pair than the largest found
            low=None if math.isnan(low) else min(float(low), gap),
            high=None if math.isnan(high) else max(float(high), gap),
            rows=int(self.gap_rows[rate, place]),
            floor=value_of(floor),
            detectable=value_of(detectable),
        )
        highest, lowest = (self.groups[int(at[rate, place])] for at in (self.highest, self.lowest))
        return Gap(value, name, highest, lowest, site)

    def measured_rates(self, place: int) -> dict[str, dict[Label, Measured | None]]:
        """Every rate of every group at one site; None where undefined."""
        low, high = self.rate_limits
        found: dict[str, dict[Label, Measured | None]] = {}
        for k, rate in enumerate(self.rates):
            row: dict[Label, Measured | None] = {}
            for a, group in enumerate(self.groups):
                at, value = (k, place, a), float(self.values[k, place, a])
                ends = {"low": value_of(low[at]), "high": value_of(high[at])}
                row[group] = None if math.isnan(value) else Measured(value, rows=int(self.rows[at]), **ends)
            found[rate.name] = row
        return found

    def undefined(self, place: int) -> Iterator[str]:
        """Sentences on the undefined rates of one site."""
        at = "" if self.sites[place] is None else f" at site {self.sites[place]!r}"
        for rate, group in np.argwhere(np.isnan(self.values[:, place])).tolist():
            why = self.tally.why_undefined(self.rates[rate], place, group)
            yield f"{self.rates[rate].name} of group {self.groups[group]!r}{at} is undefined: {why}"


def _spent(accepted: Floats, mass: Floats, costs: Costs) -> Floats:
    """What errors cost by (site, group), given accepted and all mass by label."""
    wrongly_accepted = costs.wrongly_accepted[:, None] * accepted[..., 0]
    wrongly_rejected = costs.wrongly_rejected[:, None] * np.maximum(mass[..., 1] - accepted[..., 1], 0.0)
    return np.asarray(wrongly_accepted + wrongly_rejected)


def _largest(values: Floats, axes: tuple[int, ...]) -> Floats:
    """The largest value along some axes, which remain as 1; NaN where none is known."""
    known = ~np.isnan(values)
    found = np.max(values, axis=axes, keepdims=True, where=known, initial=-np.inf)
    return np.where(known.any(axis=axes, keepdims=True), found, np.nan)


def _effective(mass: Floats, hits: Floats, squares: Floats, products: Floats | None) -> Floats:
    """How many rows of equal weight would leave a share of the mass to as much chance.

    By the weights alone (Kish); fewer, where heavy rows are the rare ones among hits or misses, by the share's variance
    sum w^2 (y - p)^2.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        by_weight = np.where(squares > 0, mass * mass / squares, 0.0)
        if products is None:
            return np.asarray(by_weight)
        share = hits / mass
        variance = (1.0 - 2.0 * share) * products + share * share * squares
        by_share = share * (1.0 - share) * mass * mass / variance
        known = (variance > 1e-12 * squares) & (share > 0) & (share < 1)
        return np.asarray(np.where(known, np.minimum(by_weight, by_share), by_weight))


def _argmax(gaps: Floats, axis: int) -> npt.NDArray[np.intp]:
    """Where the largest gap stands; undefined ones come last."""
    return np.asarray(np.where(np.isnan(gaps), -1.0, gaps).argmax(axis))


def counts_rows(rate: Rate) -> bool:
    """Whether every row counts in a rate once or not at all: such a share of rows alone has this interval."""
    lines = [(float(rate.moment(label)), float(rate.weight(label))) for label in (0.0, 1.0)]
    return all(top == bottom and top in (0.0, 1.0) for top, bottom in lines)


def tally_of(
    chance: Floats,
    positive: Binary | None,
    weight: Floats | None,
    group: Codes,
    site: Codes,
    ids: Codes | None = None,
) -> Tally:
    """Count and weigh the rows of every (site, group, label); rows of one id are one person."""
    weight = comparable(weight)
    shape = (len(site.names), len(group.names))
    cell = site.codes.astype(np.intp) * shape[1] + group.codes
    label = np.zeros_like(cell) if positive is None else positive.astype(np.intp)
    both = (*shape, 2)
    rows = np.bincount(2 * cell + label, minlength=math.prod(both)).reshape(both)
    mass = rows.astype(np.float64) if weight is None else _sums(2 * cell + label, weight, both)
    accepted = _sums(2 * cell + label, chance if weight is None else weight * chance, both)
    if weight is None and ids is None:
        people, squares, products = rows, mass, accepted
    else:
        people, squares, products = people_of(cell, label, weight, chance, ids, shape)
    if ids is None:
        people, squares, products = map(with_both_labels, (people, squares, products))
    several = ids is not None and shape[0] > 1
    over_all = tally_of(chance, positive, weight, group, one_site(cell.size), ids) if several else None
    return Tally(rows, mass, accepted, people, squares, positive is not None, products, over_all)


def comparable(weight: Floats | None) -> Floats | None:
    """Weights of order 1: only their proportions matter, and squares of tiny or huge ones must be finite."""
    return None if weight is None else np.ldexp(weight, -int(np.frexp(weight.max(initial=0.0))[1]))


def with_both_labels(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What was counted by label and, behind it, without regard to labels, where nobody stands under both."""
    return np.concatenate([part, part.sum(axis=2, keepdims=True)], axis=2)


def people_of(
    cell: npt.NDArray[np.intp],
    label: npt.NDArray[np.intp],
    weight: Floats | None,
    chance: Floats,
    ids: Codes | None,
    shape: tuple[int, int],
) -> tuple[Indices, Floats, Floats]:
    """People of some weight, and the sums of their squared weights and of weight times accepted weight.

    By (site, group, label); with ids also by both labels.
    """
    weight = np.ones(cell.size) if weight is None else weight
    if ids is None:
        place, both = 2 * cell + label, (*shape, 2)
        parts = (weight > 0, weight * weight, weight * weight * chance)
        count, squares, products = (_sums(place, part, both) for part in parts)
        return count.astype(np.int64), squares, products
    pairs, person = np.unique(cell * len(ids.names) + ids.codes, return_inverse=True)

    def own(values: Floats) -> Floats:
        """Every person's sum by label, and of both."""
        sums = np.bincount(2 * person + label, values, minlength=2 * pairs.size).reshape(-1, 2)
        return np.column_stack([sums, sums.sum(axis=1)])

    mass, accepted = own(weight), own(weight * chance)
    at = 3 * (pairs // len(ids.names))[:, None] + np.arange(3)
    parts = (mass > 0, mass * mass, mass * accepted)
    count, squares, products = (_sums(at.ravel(), part.ravel(), (*shape, 3)) for part in parts)
    return count.astype(np.int64), squares, products


def _sums(place: npt.NDArray[np.intp], values: npt.NDArray[Any], shape: tuple[int, ...]) -> Floats:
    """Sum of the values at every place."""
    return np.bincount(place, values, minlength=math.prod(shape)).astype(np.float64, copy=False).reshape(shape)


def side_of(
    rates: tuple[Rate, ...],
    groups: tuple[Label, ...],
    sites: tuple[Label | None, ...],
    tally: Tally,
    like: Side | None = None,
    looked_at: int | None = None,
) -> Side:
    """Measure every rate, and its gap at every site; lower limits are corrected over these pairs of groups, or more."""
    values = np.stack([tally.rate(rate) for rate in rates])
    looked_at = compared_pairs(values) if looked_at is None else looked_at
    return _compared(rates, groups, sites, tally, values, looked_at, like=like)


def compared_pairs(values: Floats) -> int:
    """How many pairs of one group and another are compared, of rates by (..., group), NaN where there is none."""
    known = (~np.isnan(values)).sum(axis=-1)
    return int((known * (known - 1)).sum())


def _compared(
    rates: tuple[Rate, ...],
    groups: tuple[Label, ...],
    sites: tuple[Label | None, ...],
    tally: Tally,
    values: Floats,
    looked_at: int,
    fewest: int = 1,
    like: Side | None = None,
) -> Side:
    """The side with these values of its rates."""
    known = ~np.isnan(values)
    high, low = np.where(known, values, -np.inf), np.where(known, values, np.inf)
    enough = known.sum(2) >= 2
    gaps = np.subtract(high.max(2), low.min(2), where=enough, out=np.full(enough.shape, np.nan))
    return Side(rates, groups, sites, tally, values, gaps, high.argmax(2), low.argmin(2), looked_at, fewest, like)


def counting_labels(rate: Rate) -> list[int]:
    """The labels whose rows count in a rate."""
    return [label for label in (0, 1) if rate.weight(float(label)) > 0]


def _place(counting: list[int]) -> int:
    """Where a tally keeps the people whose rows count: under their label, or under both."""
    return counting[0] if len(counting) == 1 else _BOTH


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """``top / bottom``, or NaN where that is no finite number."""
    with np.errstate(all="ignore"):
        value = top / bottom
    return np.where((bottom > 0) & (bottom < np.inf) & (np.abs(value) < _LARGEST_RATE), value, np.nan)


def value_of(number: float) -> float | None:
    """A number, or None for NaN."""
    return None if math.isnan(number) else float(number)


def text(number: float | None) -> str:
    """A figure as people read it."""
    return "undefined" if number is None else f"{number:.4f}"
