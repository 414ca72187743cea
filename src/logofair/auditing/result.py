"""What an audit found: rates and gaps with what they rest on, over all sites and at each, and the table of outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.chance import (
    TAIL,
    Floor,
    count_pairs,
    limits_against,
    noise_floor,
    pair_figure,
    pair_limits,
    share_limits,
)
from logofair.auditing.measure import Changes, Measured, Tally, counting_labels, counts_rows, value_of
from logofair.columns.attributes import Attributes
from logofair.columns.checks import Floats, Label
from logofair.columns.segments import Booleans, Indices
from logofair.costs import Costs
from logofair.notions import Rate
from logofair.outcomes import FEW_ROWS, Outcomes
from logofair.records import Result
from logofair.reportable import Reportable


@dataclass(frozen=True)
class Gap(Result):
    """The largest rate over the groups minus the smallest; ``value`` is None where fewer than two groups have a rate.

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

    def __str__(self) -> str:
        what = f"{self.rate}, {self.highest!r} over {self.lowest!r}" if self.value else self.rate
        what = f"{what}{'' if self.site is None else f', site {self.site!r}'}"
        figure, _, rests = str("undefined" if self.value is None else self.value).partition(" (")
        return f"{figure} ({what}{f'; {rests}' if rests else ')'}"

    @property
    def shown(self) -> bool:
        """Whether a gap is shown beyond chance."""
        return self.value is not None and self.value.low is not None and self.value.low >= 0.00005

    def in_json(self) -> dict[str, Any]:
        """Return the figure with what it rests on, and whose it is."""
        figure = {} if self.value is None else self.value.in_json()
        return vars(self) | {"value": None} | figure | {"reason": None if figure else "fewer than two rates"}


@dataclass(frozen=True)
class Undefined(Result):
    """A figure that could not be measured; ``str()`` gives the sentence."""

    figure: str  # the name of a rate, "accuracy" or "cost"
    reason: str  # "no labels", "no rows", "no weight" or "not finite"
    group: Label | None = None
    site: Label | None = None
    label: int | None = None  # which the figure counts alone

    def __str__(self) -> str:
        from logofair.words.audited import undefined_sentence

        return undefined_sentence(self)

    def in_json(self) -> str:
        """Return the sentence."""
        return str(self)


@dataclass(frozen=True, eq=False)
class Side:
    """The rates of one side, local or global: ``values[rate, site, group]``, NaN if undefined, and their gaps.

    Of several attributes the groups are those of each, one after the other: each of the rates ``given`` stands there
    once for every attribute, by which its name says it is, and has values for these groups alone. ``counted`` tallies
    them, ``tally`` their intersections, which ``parted`` takes to the groups of each attribute.

    Lower limits are corrected for ``comparisons``. The noise floor is that of ``like``, where given, another rule on
    the same rows: it hardly depends on the rule, and is the most expensive figure where many rules are measured.
    """

    rates: tuple[Rate, ...]
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]
    tally: Tally
    values: Floats
    comparisons: int
    counted: Tally
    given: tuple[Rate, ...]
    parted: tuple[tuple[tuple[Label, ...], list[int]], ...] = ()
    like: Side | None = None

    @classmethod
    def of(
        cls,
        rates: tuple[Rate, ...],
        groups: tuple[Label, ...],
        sites: tuple[Label | None, ...],
        tally: Tally,
        *,
        comparisons: int | None = None,
        like: Side | None = None,
    ) -> Side:
        """Measure every rate; comparisons are by default these pairs of groups."""
        attributes, counted, given = Attributes(groups), tally, rates
        parted = tuple((names, place.tolist()) for names, place in map(attributes.parted, attributes.alone))
        if parted:
            counted = Tally.beside([tally.gathered(place, len(names)) for names, place in parted])
            groups = tuple(chain(*(names for names, _ in parted)))
            rates = tuple(replace(k, name=f"{k.name} by {column}") for k in given for column in attributes.columns)
        values = np.stack([counted.rate(rate) for rate in rates])
        if parted:
            own = np.repeat(np.arange(len(parted)), [len(names) for names, _ in parted])
            of_rate = np.tile(np.arange(len(parted)), len(given))
            values[np.broadcast_to((of_rate[:, None] != own)[:, None], values.shape)] = np.nan
        comparisons = count_pairs(values) if comparisons is None else comparisons
        return cls(rates, groups, sites, tally, values, comparisons, counted, given, parted, like=like)

    def gathered(self, changes: Changes) -> Changes:
        """Changes of the groups of the rows as those of these groups."""
        parts = [changes.gathered(place, len(names)) for names, place in self.parted]
        return Changes.beside(parts) if parts else changes

    def has(self, rate: int, group: int) -> bool:
        """Whether a rate is by the attribute that a group is of."""
        ends = np.cumsum([len(names) for names, _ in self.parted])
        return not self.parted or int(np.searchsorted(ends, group, side="right")) == rate % len(self.parted)

    @cached_property
    def _gaps(self) -> tuple[Floats, npt.NDArray[np.intp]]:
        return pair_figure(self.values)

    @property
    def gaps(self) -> Floats:
        """The gap of every rate at every site, (rates, sites); NaN if undefined."""
        return self._gaps[0]

    @property
    def ends(self) -> npt.NDArray[np.intp]:
        """The groups with the largest and with the smallest rate, (rates, sites, 2)."""
        return self._gaps[1]

    @cached_property
    def rows(self) -> Indices:
        """Rows behind each rate, (rates, sites, groups)."""
        return np.stack([self.counted.rows_behind(rate) for rate in self.rates])

    @cached_property
    def effective(self) -> Floats:
        """Effective number of rows behind each rate, (rates, sites, groups)."""
        return np.stack([self.counted.effective_rows(rate) for rate in self.rates])

    @cached_property
    def gap_rows(self) -> Indices:
        """Rows behind each gap: the fewer of those behind its two rates, (rates, sites); 0 where undefined."""
        return np.where(np.isnan(self.gaps), 0, np.take_along_axis(self.rows, self.ends, axis=-1).min(axis=-1))

    @cached_property
    def large(self) -> Side:
        """The side without small cells: rates that rest on :data:`FEW_ROWS` rows or more."""
        values = np.where(self.rows >= FEW_ROWS, self.values, np.nan)
        return replace(self, values=values, like=None if self.like is None else self.like.large)

    @cached_property
    def headline(self) -> Side:
        """The side that pages show first: large cells, so that the noise of a few people makes no gap.

        A rate keeps all cells where large ones have no gap, or where a gap is shown beyond chance among all cells and
        none among the large. Rates are chosen one by one, so that adding a rate never lowers the gap.
        """
        shown, large = (np.fmax.reduce(side.limits[0], axis=1) > 0.0 for side in (self, self.large))
        every = np.isnan(self.large.gaps).all(axis=1) | (shown & ~large)
        return replace(self, values=np.where(every[:, None, None], self.values, self.large.values))

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

    def gap(self, rate: int | None = None, place: int | None = None) -> Gap:
        """The largest gap of one rate, or of any, at one site, or at any.

        Its limits are of the largest true gap, which may be between another pair of groups. Where there was something
        to choose from it has a noise floor. An undefined gap has no site where it is the largest of any site.
        """
        rates = slice(None) if rate is None else slice(rate, rate + 1)
        places = slice(None) if place is None else slice(place, place + 1)
        gaps = self.gaps[rates, places]
        at = np.unravel_index(np.where(np.isnan(gaps), -1.0, gaps).argmax(), gaps.shape)
        k, c = int(at[0]) + (rate or 0), int(at[1]) + (place or 0)
        name, gap = self.rates[k].name, float(self.gaps[k, c])
        if math.isnan(gap):
            return Gap(None, name, site=None if place is None else self.sites[place])
        floor = detectable = math.nan
        if rate is None or place is None:
            if place is not None:
                floor = float(self.floor.by_site[place])
            else:
                floor, detectable = self.floor[:2] if rate is None else self.floor.by_rate[rate]
        low, high = (float(np.fmax.reduce(end[rates, places], axis=None)) for end in self.limits)
        value = Measured(
            gap,
            low=None if math.isnan(low) else min(low, gap),
            high=None if math.isnan(high) else max(high, gap),
            rows=int(self.gap_rows[k, c]),
            floor=value_of(floor),
            detectable=value_of(detectable),
        )
        highest, lowest = (self.groups[at] for at in self.ends[k, c].tolist())
        return Gap(value, name, highest, lowest, self.sites[c])

    def largest(self) -> tuple[Gap, ...]:
        """The gap of every rate at the site where it is largest."""
        return tuple(self.gap(rate) for rate in range(len(self.rates)))

    def measured_rates(self, place: int) -> dict[str, dict[Label, Measured | None]]:
        """Every rate of every group at one site; None where undefined."""
        low, high = self.rate_limits

        def measured(at: tuple[int, int, int]) -> Measured | None:
            if math.isnan(self.values[at]):
                return None
            ends = {"low": value_of(low[at]), "high": value_of(high[at])}
            return Measured(float(self.values[at]), **ends, rows=int(self.rows[at]))

        return {
            rate.name: {group: measured((k, place, a)) for a, group in enumerate(self.groups) if self.has(k, a)}
            for k, rate in enumerate(self.rates)
        }

    def undefined(self, place: int) -> Iterator[Undefined]:
        """The undefined rates of one site, with the reason of each."""
        for k, a in np.argwhere(np.isnan(self.values[:, place])).tolist():
            if not self.has(k, a):
                continue
            counting = counting_labels(self.rates[k])
            reason = "not finite"
            if not self.counted.rows[place, a, counting].any():
                reason = "no rows"
            elif not self.counted.mass[place, a, counting].any():
                reason = "no weight"
            label = counting[0] if len(counting) == 1 else None
            yield Undefined(self.rates[k].name, reason, self.groups[a], self.sites[place], label)


@dataclass(frozen=True)
class SiteAudit:
    """One site: its rows, accuracy, cost, rates, gaps, and every rate that is undefined.

    ``gap`` is the largest of the ``gaps`` of all rates, ``large_gap`` the largest between rates that rest on 30 rows or
    more.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> found = audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"], sites=["a", "a", "b"])
    >>> print(*found.by_site[1].undefined)
    selection rate of M at b is undefined: nobody is there
    """

    site: Label
    rows: int
    accuracy: Measured | None
    gap: Measured | None
    large_gap: float | None
    rates: dict[str, dict[Label, Measured | None]]
    gaps: tuple[Gap, ...]
    undefined: tuple[Undefined, ...]
    cost: Measured | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Reportable):
    """What :func:`audit` measured; arrays are in the order of ``sites`` and ``groups``.

    Accuracy, rates and gaps are :class:`Measured`: numbers that carry their interval, the rows they rest on and, for
    gaps, the noise floor. Without ``sites=`` there is one site, ``"all"``. The ``headline_`` gaps are those that pages
    show first: between rates on 30 rows or more where there are such, so that the noise of a few people does not cover
    the gaps of many. ``fitted_rows`` says that the decisions were chosen on these very rows: intervals are then too
    narrow for new ones. ``local`` and ``global_`` hold the same figures as arrays, ``costs`` what errors cost where
    that was given, ``outcomes`` whether the requirements are met on these rows. It prints as its summary.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"])
    These decisions: 3 people, F and M.
    <BLANKLINE>
    gap in points    everyone   could be   between
    selection rate      100.0   0 to 100   M over F
    <BLANKLINE>
    Gap        No gap detected: up to 100 points could hide
    Accuracy   66.7 %; could be 9 to 100
    Accepted   33 %: F 0 %, M 100 %
    <BLANKLINE>
    """

    groups: tuple[Label, ...]
    sites: tuple[Label, ...]
    local: Side
    global_: Side
    fitted_rows: bool = False
    costs: Costs | None = None
    outcomes: Outcomes = field(default_factory=Outcomes)

    @classmethod
    def of(
        cls,
        tally: Tally,
        groups: tuple[Label, ...],
        sites: tuple[Label | None, ...],
        local: tuple[Rate, ...],
        global_: tuple[Rate, ...] | None = None,
        like: Audit | None = None,
        comparisons: tuple[int, int] | None = None,
        **others: Any,
    ) -> Audit:
        """Measure counted rows: rates of ``local`` inside sites, those of ``global_`` (by default the same) over all.

        ``sites`` is ``(None,)`` where rows have no sites. ``like`` is the audit of another rule on the same rows: its
        noise floors are taken over. ``comparisons`` are how many statements inside sites, and over all, intervals are
        corrected for; by default for the gaps measured here.
        """
        inside, over_all = comparisons or (None, None)
        rates = local if global_ is None else global_
        side = Side.of(local, groups, sites, tally, comparisons=inside, like=None if like is None else like.local)
        merged = side
        if sites != (None,) or rates != local or inside != over_all:
            floors = None if like is None else like.global_
            merged = Side.of(rates, groups, (None,), tally.merged(), comparisons=over_all, like=floors)
        return cls(groups, ("all",) if sites == (None,) else sites, side, merged, **others)

    @cached_property
    def accuracy(self) -> Measured | None:
        """Expected share of right decisions; None where undefined."""
        return self.global_.tally.measured_accuracy()

    @cached_property
    def cost(self) -> Measured | None:
        """Expected cost of a row; None where undefined, or where costs were not given."""
        return None if self.costs is None else self.local.tally.measured_cost(self.costs)

    @property
    def accepted(self) -> Measured | None:
        """Expected share of the rows that is accepted."""
        return self.global_.tally.measured_accepted()

    @property
    def rates(self) -> dict[str, dict[Label, Measured | None]]:
        """Every rate of every group over all sites together; None where undefined."""
        return self.global_.measured_rates(0)

    @cached_property
    def headline_global(self) -> Gap:
        """The largest gap of any rate over all sites together, between large groups (``Side.headline``)."""
        return self.global_.headline.gap()

    @cached_property
    def headline_local(self) -> Gap:
        """The largest gap of any rate at any site, between large groups (``Side.headline``)."""
        return self.headline_global if self.local is self.global_ else self.local.headline.gap()

    @property
    def global_gap(self) -> Measured | None:
        """The largest gap over all sites; None where all are undefined."""
        return self.headline_global.value

    @property
    def local_gap(self) -> Measured | None:
        """The largest gap at any site; None where no site has any defined gap."""
        return self.headline_local.value

    @property
    def global_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate over all sites together, all groups counted."""
        return self.global_.largest()

    @property
    def local_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate at the site where it is largest, all groups counted."""
        return self.local.largest()

    @cached_property
    def site_gaps(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every site."""
        return tuple(self.local.gap(place=place) for place in range(len(self.sites)))

    @cached_property
    def by_site(self) -> tuple[SiteAudit, ...]:
        """What was measured at every site."""
        side, costs, found = self.local, self.costs, []
        large_gaps = np.fmax.reduce(side.large.gaps, axis=0)
        for place, site in enumerate(self.sites):
            tally = side.tally.only(place)
            found.append(
                SiteAudit(
                    site=site,
                    rows=int(tally.rows.sum()),
                    accuracy=tally.measured_accuracy(),
                    cost=None if costs is None else tally.measured_cost(costs.only(place)),
                    gap=self.site_gaps[place].value,
                    large_gap=value_of(large_gaps[place]),
                    rates=side.measured_rates(place),
                    gaps=tuple(side.gap(rate, place) for rate in range(len(side.rates))),
                    undefined=tuple(side.undefined(place)),
                )
            )
        return tuple(found)

    @property
    def small_sites(self) -> int:
        """Number of sites where some group's rate rests on fewer than 30 rows."""
        return int((self.local.rows < FEW_ROWS).any(axis=(0, 2)).sum())

    @property
    def undefined(self) -> tuple[Undefined, ...]:
        """Everything that could not be measured, with its reason."""
        unlabelled = () if self.local.tally.labelled else ("accuracy", "cost") if self.costs else ("accuracy",)
        found = [Undefined(figure, "no labels") for figure in unlabelled]
        found += self.global_.undefined(0)
        if self.local is not self.global_:
            for place in np.flatnonzero(np.isnan(self.local.values).any((0, 2))).tolist():
                found += self.local.undefined(place)
        return tuple(dict.fromkeys(found))

    def in_json(self) -> dict[str, Any]:
        """Return everything that was measured."""
        names = ("groups", "sites", "accuracy", "cost", "accepted", "fitted_rows", "costs", "outcomes", "by_site")
        more = ("rates", "global_gap", "local_gap", "global_gaps", "local_gaps", "undefined", "headline", "small")
        tally = self.local.tally
        counts = {"rows": tally.rows.sum(2)} | ({"positives": tally.rows[..., 1]} if tally.labelled else {})
        return {name: getattr(self, name) for name in (*names, *more)} | {"counts": counts}

    @property
    def headline(self) -> dict[str, Gap]:
        """The largest gap over all, ``"global"``, and at any site, ``"local"``, between large groups."""
        return {"global": self.headline_global, "local": self.headline_local}

    @property
    def small(self) -> dict[str, Any]:
        """How many sites and cells rest on few rows, and the rate that rests on the fewest."""
        rows = self.local.rows
        rate, site, group = np.unravel_index(rows.argmin(), rows.shape)
        return {
            "fewer_than": FEW_ROWS,
            "sites": self.small_sites,
            "cells": int((rows < FEW_ROWS).any(axis=0).sum()),
            "smallest": {
                "rate": self.local.rates[rate].name,
                "site": self.sites[site],
                "group": self.local.groups[group],
                "rows": int(rows[rate, site, group]),
            },
        }

    def __repr__(self) -> str:
        return self.summary()


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Reportable):
    """The second rule less the first on the same rows, as :func:`compare` found it.

    ``accuracy``, ``cost``, ``accepted``, ``global_gap`` and ``local_gap`` are differences, each a :class:`Measured`
    with its 95% interval, or None where undefined; ``first`` and ``second`` are the audits of the two rules.
    ``changed`` is the share of the rows whose decision changes, in expectation; None where it was not counted.

    Examples
    --------
    >>> from logofair.auditing import compare
    >>> group, label = ["M"] * 60 + ["F"] * 60, [1] * 40 + [0] * 20 + [1] * 40 + [0] * 20
    >>> print(compare([1] * 60 + [0] * 60, [1] * 40 + [0] * 20 + [1] * 40 + [0] * 20, label, sensitive_features=group))
    These decisions: 120 people, F and M.
    <BLANKLINE>
    gap in points    before   everyone   could be   between
    selection rate    100.0        0.0    0 to 18   –
    <BLANKLINE>
    Gap        No gap detected: up to 18 points could hide
    Cost       50.0 -> 100.0 % accuracy; could be 40.9 to 59.1 points won
    Accepted   F 0 -> 67 %, M 100 -> 67 %; 60 of 120 decisions change
    <BLANKLINE>
    """

    first: Audit
    second: Audit
    accuracy: Measured | None
    accepted: Measured | None
    global_gap: Measured | None
    local_gap: Measured | None
    cost: Measured | None = None
    changed: float | None = None

    @classmethod
    def of(cls, first: Audit, second: Audit, *, gaps: bool = True) -> Comparison:
        """Compare two audits by their figures alone: differences have no interval, those of gaps may be left out."""

        def difference(name: str) -> Measured | None:
            before, after = getattr(first, name), getattr(second, name)
            return None if before is None or after is None else Measured(after - before, rows=after.rows)

        names = ("accuracy", "accepted", "cost", "global_gap", "local_gap")
        known = {name: difference(name) if gaps or "gap" not in name else None for name in names}
        return cls(first, second, **known)

    @property
    def rows(self) -> int:
        """How many rows were measured."""
        return int(self.second.global_.tally.rows.sum())

    def unknown_sites(self, sites: Sequence[Label | None]) -> tuple[list[Label], int]:
        """The sites of the rows that are not among these, which a policy knows, and their rows."""
        found, known = self.second, set(sites)
        if known == {None}:
            return [], 0
        unknown = [place for place, name in enumerate(found.sites) if name not in known]
        return [found.sites[place] for place in unknown], int(found.local.tally.rows[unknown].sum())

    def figures(self) -> dict[str, Any]:
        """Return both rules' rates, accuracy and cost."""
        before, after = self.first, self.second
        names = ("accuracy", "accepted", *([] if after.cost is None else ["cost"]))
        first, second = before.rates, after.rates
        figures: dict[str, Any] = {
            "rates": {
                rate: {group: {"before": first[rate][group], "after": row[group]} for group in row}
                for rate, row in second.items()
            },
            **{
                name: {
                    "before": getattr(before, name),
                    "after": getattr(after, name),
                    "difference": getattr(self, name),
                }
                for name in names
            },
            "by_site": after.by_site if len(after.sites) > 1 else [],
        }
        return {"rows": self.rows, "fitted_rows": after.fitted_rows, **figures}

    @property
    def outcomes(self) -> Outcomes:
        """What was found about requirements of the second rule, the first's figures beside."""
        return self.second.outcomes

    def __repr__(self) -> str:
        return self.summary()

    def in_json(self) -> dict[str, Any]:
        """Return the differences."""
        names = ("accuracy", "cost", "accepted", "global_gap", "local_gap", "changed")
        return {name: getattr(self, name) for name in names}


def measured_values(audit: Audit) -> dict[str, Any]:
    """Return an audit's rates, accuracy and headline gaps."""
    cost = {} if audit.cost is None else {"cost": audit.cost}
    gaps = {"local_gap": audit.headline_local, "global_gap": audit.headline_global}
    return {"rates": audit.rates, "accuracy": audit.accuracy, **cost, **gaps}
