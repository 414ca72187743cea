"""Which requirements hold on some rows, and how surely: kept, broken, or too small to say.

On the rows that chose a rule the figures are proved; on others each has its interval, and a requirement is kept or
broken where chance does not explain it, all sites judged together. A ratio where nobody is selected says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from logofair.auditing.chance import TAIL, least_ratio_limits, pair_limits, share_limits
from logofair.auditing.changes import Changes, one_place
from logofair.auditing.measure import Measured, Tally, counts_rows, tally_of, value_of
from logofair.columns.checks import Floats, Label, listed
from logofair.columns.labels import plain
from logofair.columns.segments import Booleans, Indices
from logofair.notions import KNOWN_RATES, Rate
from logofair.requirements import SELECTED, Band, Capacity, Combination, RateLimit, Requirements, tolerance_of
from logofair.solvers.limits import Limits
from logofair.solvers.problem import Problem

KEPT, BROKEN, UNCLEAR = "kept", "broken", "too small to say"
SILENT, UNMEASURED = "says nothing", "not measured"
_ORDER = (BROKEN, UNCLEAR, SILENT, UNMEASURED, KEPT)
_AT_LEAST = ("ratio", "floor", "least selected")  # the others are at most
_ROUNDING = 1e-9
_LABELS = "needs labels"
_CALLED = {
    "tolerance": "gap of the {rate}",
    "ratio": "smallest {rate} against the largest",
    "floor": "{rate} of {group}",
    "ceiling": "{rate} of {group}",
    "most selected": "share of people selected",
    "least selected": "share of people selected",
}


@dataclass(frozen=True)
class CheckedAt:
    """A requirement at one site, or over all (None): what must hold, what was found, and whether it does."""

    site: Label | None
    required: float
    found: Measured | None
    state: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        found, required = None if self.found is None else self.found.as_dict(), value_of(self.required)
        return {"site": plain(self.site), "required": required, "found": found, "state": self.state}


@dataclass(frozen=True, eq=False)
class RequirementCheck:
    """One requirement wherever it holds: inside sites, or over all of them.

    ``kind`` is "tolerance", "ratio", "floor", "ceiling", "most selected" or "least selected"; ``group`` whose rate it
    is, where it is of one; ``sites`` where it holds, (None,) over all or where there is one site. ``required``,
    ``found``, ``low``, ``high`` and ``rows`` have one entry per site (NaN: not measured; of ``low`` and ``high``:
    proved, no interval), ``states`` says whether it is kept there. ``today`` says that the number is what the rule
    gives that nothing is required of, NaN where that is not measured either. ``reason`` says why nothing is measured,
    where that is so everywhere. ``price`` is what giving way by a unit would win at most, where that is known; of
    floors and ceilings, of those of all groups together.

    Examples
    --------
    >>> import logofair
    >>> found = logofair.audit([1, 0] * 50 + [1] * 100, None, groups=["a"] * 100 + ["b"] * 100,
    ...                        require=["selection rate ratio >= 0.8 overall", "accepted <= 0.7 overall"])
    >>> for check in found.requirements:
    ...     print(check)
    The smallest selection rate against the largest is 0.5000 (95%: 0.3983 to 0.6182; 200 rows), at least 0.8: broken.
    The share of people selected is 0.7500 (95%: 0.6840 to 0.8084; 200 rows), at most 0.7: too small to say.
    """

    side: str
    kind: str
    rate: str
    group: Label | None
    sites: tuple[Label | None, ...]
    required: Floats
    found: Floats
    low: Floats
    high: Floats
    rows: Indices
    states: tuple[str, ...]
    today: bool = False
    price: Floats | None = None
    reason: str = ""

    @property
    def called(self) -> str:
        """What it is of, in words."""
        return _CALLED[self.kind].format(rate=self.rate, group=f"group {self.group!r}")

    @property
    def how(self) -> str:
        """Which way it binds."""
        return "at least" if self.kind in _AT_LEAST else "at most"

    @property
    def room(self) -> Floats:
        """What is left before it is broken, by site; negative: by how much it is."""
        return np.asarray(self.found - self.required if self.kind in _AT_LEAST else self.required - self.found)

    @property
    def state(self) -> str:
        """The worst of its states: broken anywhere, else too small to say anywhere, and so on."""
        return min(self.states, key=_ORDER.index)

    def count(self, state: str) -> int:
        """At how many sites it has a state."""
        return sum(each == state for each in self.states)

    def at(self, place: int) -> CheckedAt:
        """One site."""
        found = value_of(float(self.found[place]))
        low, high = (value_of(float(end[place])) for end in (self.low, self.high))
        measured = None if found is None else Measured(found, low=low, high=high, rows=int(self.rows[place]) or None)
        return CheckedAt(self.sites[place], float(self.required[place]), measured, self.states[place])

    @property
    def worst(self) -> CheckedAt:
        """Where it is in the worst state, and of these with the least room."""
        room = np.where(np.isnan(self.room), np.inf, self.room)
        return self.at(min(range(len(self.states)), key=lambda i: (_ORDER.index(self.states[i]), room[i])))

    @property
    def where(self) -> str:
        """Where it holds, in words; empty for a single site."""
        if self.side == "global":
            return "over all sites"
        return "" if self.sites == (None,) else "inside each site"

    def __str__(self) -> str:
        """One sentence: of many sites the worst, and how many are in each state."""
        at = self.worst
        if at.state == SILENT:
            return f"The {self._about}: nobody is selected there, so a ratio says nothing{self._others}."
        return f"The {self.reading}, {self._must(at)}: {at.state}{self._because}{self._others}."

    @property
    def reading(self) -> str:
        """What was found, of many sites at the worst, in words."""
        found = self.worst.found
        return self._about if found is None else f"{self._about} is {found}"

    @property
    def _about(self) -> str:
        at = self.worst
        where = f" {self.where}" if self.side == "global" else "" if at.site is None else f" at site {at.site!r}"
        return f"{self.called}{where}"

    def _must(self, at: CheckedAt) -> str:
        """What must hold, in words."""
        if not self.today:
            return f"{self.how} {at.required:g}"
        number = "" if np.isnan(at.required) else f"{at.required:.4f}, "
        return f"{self.how} {number}what it is without any requirement"

    @property
    def _because(self) -> str:
        return f": {self.reason}" if self.reason else ""

    @property
    def _others(self) -> str:
        if len(self.sites) < 2:
            return ""
        if len(set(self.states)) == 1:
            return f" (so at all {len(self.sites):,} sites)"
        counts = [f"{self.count(state):,} {state}" for state in reversed(_ORDER) if self.count(state)]
        return f" ({len(self.sites):,} sites: {listed(counts, len(counts))})"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "side": self.side,
            "kind": self.kind,
            "rate": self.rate,
            "group": plain(self.group),
            "today": self.today,
            "state": self.state,
            "reason": self.reason or None,
            "sentence": str(self),
            "by_site": [self.at(place).as_dict() for place in range(len(self.sites))],
        }


@dataclass(frozen=True, eq=False)
class Today:
    """What the rule does on the same rows that nothing is required of, and what has changed since, by row."""

    tally: Tally
    local: Changes
    global_: Changes

    @classmethod
    def of(cls, unconstrained: Floats, chance: Floats, rows: tuple[Any, ...]) -> Today:
        """Compare a rule with that one on checked rows, as :func:`compared_audits` takes them."""
        change = chance - unconstrained
        return cls(tally_of(unconstrained, *rows), Changes.of(change, rows), Changes.of(change, one_place(rows)))

    def side(self, side: str) -> tuple[Tally, Changes]:
        """That inside sites or over all."""
        return (self.tally, self.local) if side == "local" else (self.tally.merged(), self.global_)


@dataclass(frozen=True, eq=False)
class _Side:
    """The numbers of one side's requirements: for every site or once for all of them."""

    side: str
    sites: tuple[Label | None, ...]
    groups: tuple[Label, ...]
    rates: tuple[Rate | Combination, ...]
    tolerance: Floats  # (n, rates)
    limits: Limits
    today: Booleans  # (rates,): floors or ceilings are what no requirement gives

    def checks(self, figures: _Figures) -> Iterator[RequirementCheck]:
        """Every requirement of the side, with what was found of it."""
        for k, rate in enumerate(self.rates):
            if np.isfinite(self.tolerance[:, k]).any():
                yield from self._check("tolerance", k, None, self.tolerance[:, k], figures)
            if (self.limits.ratio[:, k] > 0).any():
                ratio = np.where(self.limits.ratio[:, k] > 0, self.limits.ratio[:, k], np.nan)
                yield from self._check("ratio", k, None, ratio, figures)
            for kind, ends in (("floor", self.limits.least), ("ceiling", self.limits.most)):
                for a in np.flatnonzero(np.isfinite(ends[..., k]).any(axis=0)).tolist():
                    yield from self._check(kind, k, a, ends[:, a, k], figures)
            if rate == SELECTED:
                least, most = self.limits.total_least[:, k], self.limits.total_most[:, k]
                yield from self._check("least selected", k, None, np.where(least > 0, least, np.inf), figures)
                yield from self._check("most selected", k, None, np.where(most < 1, most, np.inf), figures)

    def _check(
        self, kind: str, rate: int, group: int | None, required: Floats, figures: _Figures
    ) -> Iterator[RequirementCheck]:
        at = np.flatnonzero(np.isfinite(required))
        if not at.size:
            return
        today = bool(self.today[rate]) and kind in ("floor", "ceiling")
        tail = TAIL / at.size  # all sites are judged together
        found, low, high, rows, silent = figures.of(kind, rate, group, tail, today)
        if figures.reason and today:
            required = np.where(np.isfinite(required), np.nan, required)
        states = tuple(_states(kind, required[at], found[at], low[at], high[at], silent[at]))
        yield RequirementCheck(
            self.side,
            kind,
            self.rates[rate].name,
            None if group is None else self.groups[group],
            (None,) if len(self.sites) == 1 else tuple(self.sites[i] for i in at.tolist()),
            required[at],
            found[at],
            low[at],
            high[at],
            rows[at],
            states,
            today,
            figures.price(rate, at),
            figures.reason,
        )


def _states(kind: str, required: Floats, found: Floats, low: Floats, high: Floats, silent: Booleans) -> Iterator[str]:
    sign = 1.0 if kind in _AT_LEAST else -1.0
    worst, best = (low, high) if sign > 0 else (high, low)
    worst, best = (np.where(np.isnan(end), found, end) for end in (worst, best))
    for i in range(required.size):
        if silent[i]:
            yield SILENT
        elif np.isnan(found[i]):
            yield UNMEASURED
        elif sign * (worst[i] - required[i]) >= -_ROUNDING:
            yield KEPT
        else:
            yield BROKEN if sign * (best[i] - required[i]) < -_ROUNDING else UNCLEAR


_Found = tuple[Floats, Floats, Floats, Indices, Booleans]


class _Figures:
    """What was found of a requirement: value, both ends of its interval, rows, and where nobody is selected."""

    reason = ""  # why nothing was found

    def of(self, kind: str, number: int, group: int | None, tail: float, today: bool) -> _Found:
        """Of the rate of this number, by site."""
        raise NotImplementedError

    def price(self, rate: int, at: Indices) -> Floats | None:
        """What giving way wins at most, where that is known."""
        return None


def _compared(kind: str, values: Floats) -> tuple[Floats, Booleans]:
    """The gap or the smallest ratio of rates, (n, groups), and where a ratio says nothing, since all are 0."""
    known = (~np.isnan(values)).sum(axis=1) >= 2
    high = np.max(np.where(np.isnan(values), -np.inf, values), axis=1)
    low = np.min(np.where(np.isnan(values), np.inf, values), axis=1)
    silent = known & (high <= 0.0) & (kind == "ratio")
    with np.errstate(invalid="ignore", divide="ignore"):
        found = high - low if kind == "tolerance" else low / high
    return np.where(known & ~silent, found, np.nan), silent


@dataclass(frozen=True, eq=False)
class _Counted(_Figures):
    """On counted rows, with intervals."""

    rates: tuple[Rate | Combination, ...]
    tally: Tally
    today: tuple[Tally, Changes] | None

    def of(self, kind: str, number: int, group: int | None, tail: float, today: bool) -> _Found:
        rate, nobody = self.rates[number], np.zeros(self.tally.mass.shape[0], dtype=bool)
        if isinstance(rate, Combination):
            everybody, selected = self.tally.summed(1), KNOWN_RATES["selection rate"]
            share, people = everybody.rate(selected)[:, 0], everybody.effective_rows(selected)[:, 0]
            return share, *share_limits(share, people, tail), everybody.rows_behind(selected)[:, 0], nobody
        values, people, rows = self.tally.rate(rate), self.tally.effective_rows(rate), self.tally.rows_behind(rate)
        shares = values if counts_rows(rate) else np.full_like(values, np.nan)
        if group is not None:
            low, high = (
                self._against_today(rate, group, tail)
                if today and self.today is not None
                else (each[:, group] for each in share_limits(shares, people, tail))
            )
            return values[:, group], low, high, rows[:, group], nobody
        found, silent = _compared(kind, values)
        count = np.where(np.isnan(values), 0, rows).sum(axis=1)
        if kind == "ratio":
            return found, *least_ratio_limits(shares, people, tail), count, silent
        known = np.maximum((~np.isnan(shares)).sum(axis=1), 2)
        low = pair_limits(shares, people, tail / (known * (known - 1)), upper=False)
        return found, low, pair_limits(shares, people, np.full(known.shape, tail), upper=True), count, silent

    def _against_today(self, rate: Rate, group: int, tail: float) -> tuple[Floats, Floats]:
        """The interval of what has changed since today's rule, about that rule's rate: both count the same rows."""
        assert self.today is not None
        tally, changes = self.today
        mean, error = (each[:, group] for each in changes.rates(rate))
        half = float(-ndtri(tail)) * np.sqrt(error)
        start = tally.rate(rate)[:, group] + mean
        return np.clip(start - half, 0.0, 1.0), np.clip(start + half, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class _NotMeasured(_Figures):
    """Nothing, for a reason."""

    sites: int
    reason: str

    def of(self, kind: str, number: int, group: int | None, tail: float, today: bool) -> _Found:
        none = np.full(self.sites, np.nan)
        return none, none, none, np.zeros(self.sites, dtype=np.int64), np.zeros(self.sites, dtype=bool)


def measured_requirements(
    requirements: Requirements,
    known: Sequence[Label | None],
    tally: Tally,
    groups: tuple[Label, ...],
    sites: tuple[Label | None, ...],
    today: Today | None = None,
) -> tuple[RequirementCheck, ...]:
    """Judge requirements on counted rows; ``known`` are the sites they are about: nothing is required of others.

    Without ``today`` floors and ceilings that are today's rates are left out. Without labels what counts by label is
    not measured, and said to be so.
    """
    asked = _Asked.of(requirements, groups, today is not None)
    by_label = None if tally.labelled else replace(asked.counting(by_label=True), capacities=())
    asked = asked if tally.labelled else asked.counting(by_label=False)
    found: list[RequirementCheck] = []
    for side in ("local", "global"):
        counted = tally if side == "local" else tally.merged()
        names = sites if side == "local" else (None,)
        then = None if today is None else today.side(side)
        numbers = _numbers(asked, side, known, names, groups, None if then is None else then[0])
        found += numbers.checks(_Counted(numbers.rates, counted, then))
        if by_label is not None:
            found += _numbers(by_label, side, known, names, groups, None).checks(_NotMeasured(len(names), _LABELS))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is judged: gaps, floors and ceilings, capacities."""

    local: tuple[Band, ...]
    global_: tuple[Band, ...]
    tolerances: Floats
    ratios: Floats
    limits: tuple[RateLimit, ...]
    capacities: tuple[Capacity, ...]

    @classmethod
    def of(cls, requirements: Requirements, groups: tuple[Label, ...], today: bool) -> _Asked:
        """What requirements ask of groups that there are; where today's rates are not known, nothing of these."""
        limits = tuple(
            limit
            for limit in requirements.limits
            if (limit.group is None or limit.group in set(groups)) and (limit.value is not None or today)
        )
        r = requirements
        return cls(r.local, r.global_, r.tolerances, r.ratios, limits, r.capacities)

    def counting(self, *, by_label: bool) -> _Asked:
        """What counts by label, or what does not."""
        kept = [k for k, each in enumerate(self.local) if each.rate.needs_labels == by_label]
        return replace(
            self,
            local=tuple(self.local[k] for k in kept),
            global_=tuple(each for each in self.global_ if each.rate.needs_labels == by_label),
            tolerances=self.tolerances[:, kept],
            ratios=self.ratios[:, kept],
            limits=tuple(each for each in self.limits if each.rate.needs_labels == by_label),
        )


def _numbers(
    asked: _Asked,
    side: str,
    known: Sequence[Label | None],
    sites: tuple[Label | None, ...],
    groups: tuple[Label, ...],
    today: Tally | None,
) -> _Side:
    """One side's requirements as numbers for these sites and groups; ``known`` are the sites they are about."""
    compared = asked.local if side == "local" else asked.global_
    limits = [each for each in asked.limits if each.side == side]
    limited = list(dict.fromkeys(each.rate for each in limits))
    capacities = [each for each in asked.capacities if each.side == side]
    everyone: list[Rate | Combination] = [SELECTED] if capacities else []
    rates = (*(each.rate for each in compared), *limited, *everyone)
    n, place = len(sites), {name: i for i, name in enumerate(known)}
    at = np.array([place.get(name, -1) for name in sites]) if side == "local" else np.zeros(1, dtype=np.int64)
    tolerance, found = np.full((n, len(rates)), np.inf), Limits.none(n, len(groups), len(rates))
    if side == "local":
        tolerance[at >= 0, : len(compared)] = asked.tolerances[at[at >= 0]]
        found.ratio[at >= 0, : len(compared)] = asked.ratios[at[at >= 0]]
    else:
        tolerance[:, : len(compared)] = [tolerance_of(each) for each in compared]
        found.ratio[:, : len(compared)] = [each.ratio or 0.0 for each in compared]
    for limit in limits:
        k, own = len(compared) + limited.index(limit.rate), slice(None)
        own = own if limit.group is None else slice(groups.index(limit.group), groups.index(limit.group) + 1)
        here = np.flatnonzero((at >= 0) & np.array(limit.at)[np.maximum(at, 0)])
        value: Any = limit.value
        if limit.value is None:
            then = np.zeros((n, len(groups))) if today is None else today.rate(limit.rate)
            value = np.clip(then[here, own], 0.0, 1.0)
        ends, stricter = (found.least, np.maximum) if limit.kind == "floor" else (found.most, np.minimum)
        ends[here, own, k] = stricter(ends[here, own, k], value)
    for each in capacities:
        here = np.flatnonzero((at >= 0) & np.array(each.at)[np.maximum(at, 0)])
        found.total_most[here, -1] = np.minimum(found.total_most[here, -1], each.most)
        if each.least > 0:
            found.total_least[here, -1] = np.maximum(found.total_least[here, -1], each.least)
    of_today = {limit.rate for limit in limits if limit.value is None}
    marks = np.array([k >= len(compared) and rate in of_today for k, rate in enumerate(rates)], dtype=bool)
    return _Side(side, sites, groups, rates, tolerance, found, marks)


@dataclass(frozen=True, eq=False)
class _Proved(_Figures):
    """In expectation on the rows of a problem."""

    rates: tuple[Rate | Combination, ...]
    values: Floats  # (n, groups, rates), NaN where a rate is not there
    prices: Floats  # (n, rates)

    def of(self, kind: str, number: int, group: int | None, tail: float, today: bool) -> _Found:
        values = self.values[..., number]
        none = np.full(values.shape[0], np.nan)
        nobody, rows = np.zeros(none.shape, dtype=bool), np.zeros(none.shape, dtype=np.int64)
        if self.rates[number] == SELECTED:
            return np.nansum(values, axis=1), none, none, rows, nobody
        if group is not None:
            return values[:, group], none, none, rows, nobody
        found, silent = _compared(kind, values)
        return found, none, none, rows, silent

    def price(self, rate: int, at: Indices) -> Floats | None:
        return np.asarray(self.prices[at, rate])


def proved_requirements(
    problem: Problem,
    shares: tuple[Floats, Floats],
    prices: tuple[Floats, Floats],
    names: tuple[tuple[Label | None, ...], tuple[Label, ...]],
    requirements: Requirements,
) -> tuple[RequirementCheck, ...]:
    """Judge requirements on the rows of a problem, in expectation, where rules have these (u, v).

    ``prices`` are those of tolerances inside sites, (sites, rates), and over all, (rates,).
    """
    sites, groups = names
    local, global_ = problem.local_values(*shares), problem.global_shares(*shares)[None]
    sides = (
        ("local", sites, problem.local_rates, problem.local_tolerance, problem.local_limits, problem.local_units),
        (
            "global",
            (None,),
            problem.global_rates,
            problem.global_tolerance[None],
            problem.global_limits,
            problem.global_units,
        ),
    )
    there = (problem.local_limited, problem.global_limited[None])
    found: list[RequirementCheck] = []
    for (side, places, rates, tolerance, limits, units), values, defined, price in zip(
        sides, (local, global_), there, (prices[0], prices[1][None]), strict=True
    ):
        unit = np.broadcast_to(units, (len(rates),))
        of_today = {limit.rate for limit in requirements.limits if limit.value is None and limit.side == side}
        numbers = _Side(
            side,
            places,
            groups,
            rates,
            tolerance / unit,
            Limits.none(tolerance.shape[0], len(groups), len(rates)) if limits is None else limits,
            np.array(
                [problem.kind(side, k) == "limit" and rate in of_today for k, rate in enumerate(rates)], dtype=bool
            ),
        )
        known = np.where(defined, values, np.nan) / unit
        found += numbers.checks(_Proved(rates, known, price))
    return tuple(found)
