"""Gaps between the rates of groups at every site, with what they rest on: intervals, rows, the noise floor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.chance import TAIL, Floor, limits_against, noise_floor, pair_limits, share_limits
from logofair.auditing.measure import Measured, Tally, counting_labels, counts_rows, value_of
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import plain
from logofair.columns.segments import Booleans, Indices
from logofair.notions import Rate
from logofair.outcomes import FEW_ROWS


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
    def shown(self) -> bool:
        """Whether a gap is shown beyond chance."""
        return self.value is not None and self.value.low is not None and self.value.low >= 0.00005

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        named = {name: plain(getattr(self, name)) for name in ("highest", "lowest", "site")}
        figure = {"value": None} if self.value is None else self.value.as_dict()
        return figure | {"rate": self.rate} | named | {"reason": self.reason}


@dataclass(frozen=True, eq=False)
class Side:
    """The rates of one side, local or global: ``values[rate, site, group]`` and ``gaps[rate, site]``, NaN if undefined.

    Only rates that rest on ``fewest`` rows or more have a value. Lower limits are corrected for ``comparisons``. The
    noise floor is that of ``like``, where given, another rule on the same rows: it hardly depends on the rule, and is
    the most expensive figure where many rules are measured.
    """

    rates: tuple[Rate, ...]
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]
    tally: Tally
    values: Floats
    gaps: Floats
    highest: npt.NDArray[np.intp]
    lowest: npt.NDArray[np.intp]
    comparisons: int
    fewest: int = 1
    like: Side | None = None

    @classmethod
    def of(
        cls,
        rates: tuple[Rate, ...],
        groups: tuple[Label, ...],
        sites: tuple[Label | None, ...],
        tally: Tally,
        *,
        values: Floats | None = None,
        comparisons: int | None = None,
        fewest: int = 1,
        like: Side | None = None,
    ) -> Side:
        """Measure every rate, and its gap at every site; comparisons are by default these pairs of groups."""
        values = np.stack([tally.rate(rate) for rate in rates]) if values is None else values
        known = ~np.isnan(values)
        high, low = np.where(known, values, -np.inf), np.where(known, values, np.inf)
        enough = known.sum(2) >= 2
        gaps = np.subtract(high.max(2), low.min(2), where=enough, out=np.full(enough.shape, np.nan))
        comparisons = count_pairs(values) if comparisons is None else comparisons
        return cls(rates, groups, sites, tally, values, gaps, high.argmax(2), low.argmin(2), comparisons, fewest, like)

    @cached_property
    def rows(self) -> Indices:
        """Rows behind each rate, (rates, sites, groups)."""
        return np.stack([self.tally.rows_behind(rate) for rate in self.rates])

    @cached_property
    def effective(self) -> Floats:
        """Effective number of rows behind each rate, (rates, sites, groups)."""
        return np.stack([self.tally.effective_rows(rate) for rate in self.rates])

    @cached_property
    def gap_rows(self) -> Indices:
        """Rows behind each gap: the fewer of those behind its two rates, (rates, sites); 0 where undefined."""
        ends = [np.take_along_axis(self.rows, at[..., None], 2)[..., 0] for at in (self.highest, self.lowest)]
        return np.where(np.isnan(self.gaps), 0, np.minimum(*ends))

    @cached_property
    def large(self) -> Side:
        """The side without small cells: rates that rest on :data:`FEW_ROWS` rows or more."""
        return self._only(self.rows >= FEW_ROWS, FEW_ROWS, None if self.like is None else self.like.large)

    @cached_property
    def headline(self) -> Side:
        """The side that pages show first: large cells, so that the noise of a few people makes no gap.

        A rate keeps all cells where large ones have no gap, or where a gap is shown beyond chance among all cells and
        none among the large. Rates are chosen one by one, so that adding a rate never lowers the gap.
        """
        shown, large = (np.fmax.reduce(side.limits[0], axis=1) > 0.0 for side in (self, self.large))
        every = np.isnan(self.large.gaps).all(axis=1) | (shown & ~large)
        return self._only((self.rows >= FEW_ROWS) | every[:, None, None], self.fewest, self.like)

    def _only(self, which: Booleans, fewest: int, like: Side | None) -> Side:
        """The same over some cells."""
        names, values = (self.rates, self.groups, self.sites), np.where(which, self.values, np.nan)
        return Side.of(*names, self.tally, values=values, comparisons=self.comparisons, fewest=fewest, like=like)

    @cached_property
    def _shares(self) -> Floats:
        """The values of those rates that are shares of rows; NaN for others, which have no such intervals."""
        counted = np.array([counts_rows(rate) for rate in self.rates])[:, None, None]
        return np.where(counted, self.values, np.nan)

    @cached_property
    def rate_limits(self) -> tuple[Floats, Floats]:
        """Ends of the 95% interval of every rate, each (rates, sites, groups); NaN where there is none."""
        return share_limits(self._shares, self.effective)

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Both ends of the 95% interval of every gap, (rates, sites); NaN where undefined, or of no shares of rows.

        Upper ends are not corrected: the pair of groups that is worst in truth is one fixed pair, so the largest upper
        end of several gaps is one of the largest gap. Lower ends are corrected for all comparisons, so that the largest
        of several is one of the largest gap, too.
        """
        tail = np.full(self.gaps.shape, TAIL)
        lower = pair_limits(self._shares, self.effective, tail / max(self.comparisons, 1), upper=False)
        return lower, pair_limits(self._shares, self.effective, tail, upper=True)

    @cached_property
    def floor(self) -> Floor:
        """Gaps that rules without any true gap would show on these rows by chance."""
        return self.floor_at(0.0) if self.like is None else self.like.floor

    def floor_at(self, gap: float) -> Floor:
        """Gaps that rules would show on these rows if the true one were ``gap`` at every site."""
        return noise_floor(self._shares, self.effective, [rate.name for rate in self.rates], gap)

    def candidates(self, rate: int, first: int) -> Booleans:
        """Which pairs of a group and another, (sites, groups), may be those of the largest gap in truth."""
        low, high = (part[rate] for part in self.rate_limits)
        with np.errstate(invalid="ignore"):
            limits = limits_against(first, self._shares[rate], low, high, upper=True)
            return np.asarray(limits >= np.fmax.reduce(self.limits[0], axis=None))

    @property
    def squared_errors(self) -> Floats:
        """Squared standard error of every rate, (rates, sites, groups), one hit and one miss added."""
        centre = (self._shares * self.effective + 1.0) / (self.effective + 2.0)
        return np.asarray(centre * (1.0 - centre) / (self.effective + 2.0))

    def gap(self, rate: int, place: int) -> Gap:
        """The gap of one rate at one site."""
        low, high = (end[rate, place] for end in self.limits)
        return self._gap(rate, place, low, high)

    def largest(self) -> tuple[Gap, ...]:
        """The gap of every rate at the site where it is largest."""
        places, floors = _argmax(self.gaps, 1), self.floor.by_rate.tolist()
        low, high = (np.fmax.reduce(end, axis=1) for end in self.limits)
        every = range(len(self.rates))
        return tuple(self._gap(k, int(places[k]), low[k], high[k], *floors[k], anywhere=True) for k in every)

    def by_site(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every site; its floor is that of the site."""
        rates, floors = _argmax(self.gaps, 0), self.floor.by_site.tolist()
        low, high = (np.fmax.reduce(end, axis=0) for end in self.limits)
        return tuple(self._gap(int(rates[c]), c, low[c], high[c], floors[c]) for c in range(len(self.sites)))

    def worst(self) -> Gap:
        """The largest gap of any rate at any site."""
        rate, place = np.unravel_index(_argmax(self.gaps, None), self.gaps.shape)
        low, high = (np.fmax.reduce(end, axis=None) for end in self.limits)
        return self._gap(int(rate), int(place), low, high, *self.floor[:2], anywhere=True)

    def _gap(
        self,
        rate: int,
        place: int,
        low: float,
        high: float,
        floor: float = math.nan,
        detectable: float = math.nan,
        *,
        anywhere: bool = False,
    ) -> Gap:
        """One gap with given limits, which are of the largest true gap: that may be between another pair of groups.

        An undefined gap has no site where it is the largest ``anywhere``.
        """
        name, site, gap = self.rates[rate].name, self.sites[place], float(self.gaps[rate, place])
        if math.isnan(gap):
            have = f"a {name} on {self.fewest} rows or more" if self.fewest > 1 else f"a defined {name}"
            return Gap(None, name, site=None if anywhere else site, reason=f"fewer than two groups have {have}")
        value = Measured(
            gap,
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

        def measured(at: tuple[int, int, int]) -> Measured | None:
            if math.isnan(self.values[at]):
                return None
            ends = {"low": value_of(low[at]), "high": value_of(high[at])}
            return Measured(float(self.values[at]), **ends, rows=int(self.rows[at]))

        return {
            rate.name: {group: measured((k, place, a)) for a, group in enumerate(self.groups)}
            for k, rate in enumerate(self.rates)
        }

    def undefined(self, place: int) -> Iterator[str]:
        """Sentences on the undefined rates of one site, with the reason of each."""
        site = self.sites[place]
        for k, a in np.argwhere(np.isnan(self.values[:, place])).tolist():
            counting = counting_labels(self.rates[k])
            those = f"rows with label {counting[0]}" if len(counting) == 1 else "rows"
            why = "its value is not finite"
            if not self.tally.rows[place, a, counting].any():
                why = f"no {those}"
            elif not self.tally.mass[place, a, counting].any():
                why = f"all {those} have weight 0"
            where = f"group {self.groups[a]!r}{'' if site is None else f' at site {site!r}'}"
            yield f"{self.rates[k].name} of {where} is undefined: {why}"


def _argmax(gaps: Floats, axis: int | None) -> npt.NDArray[np.intp]:
    """Where the largest gap stands; undefined ones come last."""
    return np.asarray(np.where(np.isnan(gaps), -1.0, gaps).argmax(axis))


def count_pairs(values: Floats) -> int:
    """How many pairs of one group and another are compared, of rates by (..., group), NaN where there is none."""
    known = (~np.isnan(values)).sum(axis=-1)
    return int((known * (known - 1)).sum())
