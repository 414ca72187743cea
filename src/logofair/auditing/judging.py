"""Requirements judged on counted rows: an outcome for each, at every site where it holds.

On the rows that chose the rule figures are exact. On other rows each has an interval whose two ends have different
errors. The end that can show that a requirement is met is that of one comparison: the worst pair of groups in truth is
one fixed pair. The end that can show that it is exceeded is corrected for all comparisons of the audit, so that no site
is blamed for chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from logofair.auditing.chance import TAIL, count_pairs, pair_figure, pair_limits, ratio_limits, share_limits
from logofair.auditing.measure import Changes, Tally, as_one_site, counts_rows, tally_of, value_of
from logofair.columns.attributes import Attributes
from logofair.columns.checks import Floats, Label
from logofair.columns.segments import Booleans, Indices
from logofair.costs import ACCURACY, Costs
from logofair.notions import DEMOGRAPHIC_PARITY, Rate
from logofair.outcomes import (
    CALIBRATION_ROWS,
    EXCEEDED,
    FEW_ROWS,
    MET,
    NOT_MEASURED,
    ROUNDING,
    UNCLEAR,
    Outcome,
    Outcomes,
    by_urgency,
    room,
    states_of,
)
from logofair.requirement import ALL, TODAY, People, Population, Requirement, population_name

# From the error of one end, (places, 1), to both ends of the intervals of some shares, each (places, populations).
_Limits: TypeAlias = Callable[[Floats], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class CountedRules:
    """Tallies of the rule that is judged (``after``) and, where it is known, of the unconstrained rule (``before``).

    ``changes`` count the rows that the two rules decide differently, inside sites and over all: without them the
    distance from a limit "today" has no interval, nor has a loss. ``sites`` is (None,) where there are none. ``costs``
    are those of errors (None: accuracy counts). ``best``: the best rules that meet what sites require of themselves, as
    the rule ``before``, where losses inside sites are limited and they are known.
    """

    after: Tally
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]
    before: Tally | None = None
    changes: tuple[Changes, Changes] | None = None
    costs: Costs | None = None
    best: CountedRules | None = None

    @classmethod
    def of(cls, before: Floats, after: Floats, rows: tuple[Any, ...], *, changes: bool = True) -> CountedRules:
        """Count two rules on checked rows, ``(labels, weights, groups, sites, ids)`` as `tally_of` takes them."""
        groups, sites, counted = rows[2].names, rows[3].names, None
        if changes:
            inside = Changes.of(after - before, rows)
            counted = inside, inside if len(sites) == 1 else Changes.of(after - before, as_one_site(rows))
        return cls(tally_of(after, *rows), groups, sites, tally_of(before, *rows), counted)

    def over_all(self) -> CountedRules:
        """The same rows as of one site."""
        before = None if self.before is None else self.before.merged()
        changes = None if self.changes is None else (self.changes[1], self.changes[1])
        costs = None if self.costs is None else self.costs.mean()
        return CountedRules(self.after.merged(), self.groups, (None,), before, changes, costs)

    @cached_property
    def attributes(self) -> Attributes:
        """The columns that the groups are of."""
        return Attributes(self.groups)

    def members(self, population: Population) -> Booleans:
        """Which groups belong to a population; the empty one is everyone."""
        return self.attributes.members(population)

    def parted(self, requirement: Requirement) -> tuple[tuple[Label, ...], Indices]:
        """The groups that a requirement compares, and to which of them each group of the rows belongs."""
        return self.attributes.parted(requirement.by or ALL)


def judge(
    requirements: Iterable[Requirement],
    rules: CountedRules,
    basis: str,
    *,
    known: Iterable[Label | None] | None = None,
    shares: Mapping[Requirement, float] | None = None,
    prices: Mapping[Requirement, Floats] | None = None,
    precision: float = ROUNDING,
    comparisons: tuple[int, int] | None = None,
    most: int | None = None,
) -> Outcomes:
    """Judge requirements on counted rows.

    Parameters
    ----------
    requirements, rules
        What must hold, and what was counted.
    basis : str
        ``"calibration rows"``, on which figures are exact but for ``precision``, or ``"test rows"``.
    known : labels, optional
        The sites that requirements are about: nothing is required of others. By default all.
    shares, prices : mappings, optional
        The share of the rows that a bound in people comes to, and the dual prices at each of the sites, by requirement.
    comparisons : pair of int, optional
        For how many comparisons inside sites, and over all, intervals are corrected (:func:`count_comparisons`); by
        default for those of these requirements.
    most : int, optional
        Keep at most so many outcomes of each requirement, the worst and least certain: the verdict does not change.
    """
    required, exact = tuple(requirements), basis == CALIBRATION_ROWS
    sides = rules, rules.over_all()  # a requirement's scope, whether it is global, says which
    counts = comparisons or count_comparisons(required, rules)
    there = None if known is None else {str(site) for site in known}
    entries: list[Outcome] = []
    for each in required:
        side, tail = sides[each.scope.is_global], TAIL / counts[each.scope.is_global]
        bound = (shares or {}).get(each, np.nan) if isinstance(each.bound, People) else each.bound
        fixed = None if bound == TODAY else float(bound)
        found = _figure(compared(each, side), fixed, tail, exact=exact)
        limit = found.before if fixed is None else np.full(found.after.shape, fixed)
        if exact:
            left = room(each.relation, limit, found.after) * accepted_share(each, side)
            states = np.where(left >= -precision, MET, EXCEEDED).astype(object)
        else:
            states = states_of(each.relation, limit, found.low, found.high)
            states[states == NOT_MEASURED] = UNCLEAR  # for want of an interval; figures that are unknown follow
        states[np.isnan(found.after) | np.isnan(limit)] = NOT_MEASURED
        places = _covered(each, side.sites, there)
        if most is not None and len(places) > most:
            at = np.array(places)
            left = room(each.relation, limit, found.after)
            places = np.sort(at[by_urgency(states[at], left[at], found.rows[at])[:most]]).tolist()
        price = (prices or {}).get(each)
        numbers = {"limit": limit} | {name: getattr(found, name) for name in ("before", "after", "low", "high")}
        for c in places:
            figures: dict[str, Any] = {name: value_of(float(number[c])) for name, number in numbers.items()}
            figures |= {"rows": int(found.rows[c]) or None, "rate": found.rate[c], "groups": found.groups[c]}
            own = None if price is None else float(price[c])
            entries.append(Outcome(each, side.sites[c], **figures, state=str(states[c]), basis=basis, price=own))
    return Outcomes(tuple(entries))


def accepted_share(requirement: Requirement, rules: CountedRules) -> Floats:
    """What rounding is measured in, at every place: of a precision all people of whom some are accepted."""
    if requirement.measure != "precision":
        return np.ones(len(rules.sites))
    members = np.where(rules.members(requirement.who[0]), 0, -1).tolist()
    return np.asarray(np.nan_to_num(rules.after.gathered(members, 1).rate(rates_of(requirement)[0])[:, 0]))


def _covered(requirement: Requirement, sites: Sequence[Label | None], known: Iterable[str] | None = None) -> list[int]:
    """The places of the known sites where a requirement holds; None, all of them, is always known."""
    return [
        c
        for c, site in enumerate(sites)
        if site is None or (requirement.scope.covers(site) and (known is None or str(site) in known))
    ]


def count_comparisons(
    requirements: Iterable[Requirement],
    rules: CountedRules,
    local: Sequence[Rate] = (),
    global_: Sequence[Rate] = (),
) -> tuple[int, int]:
    """How many comparisons are made inside sites, and over all of them.

    Pairs of groups whose rates are compared, those of the audited rates ``local`` and ``global_`` whether something is
    required of them or not, and rates that are compared with their limits.
    """
    alone, sides = rules.sites == (None,), (rules, rules.over_all())
    audited = (local, ()) if alone and tuple(local) == tuple(global_) else (local, global_)
    counts = [
        sum(count_pairs(part.rate(rate)) for rate in rates for part in _by_attribute(side))
        for side, rates in zip(sides, audited, strict=True)
    ]
    for each in requirements:
        side, places = sides[each.scope.is_global], _covered(each, sides[each.scope.is_global].sites)
        if each.measure in ("gap", "ratio"):
            known = (*local, *global_) if alone else audited[each.scope.is_global]
            apart = each.measure == "ratio" or each.by == ALL or len(each.by) > 1
            rates = [rate for rate in each.rates if apart or rate not in known]
            names, place = rules.parted(each)
            tally = side.after.gathered(place.tolist(), len(names))
            count = sum(count_pairs(tally.rate(rate)[places]) for rate in rates)
        else:
            several = each.measure == "rate" and not each.who
            count = len(places) * (len(rules.parted(each)[0]) if several else 2 if each.relation == "=" else 1)
        counts[each.scope.is_global] += count
    counts = [sum(counts)] * 2 if alone else counts  # one site is all of them
    return max(counts[0], 1), max(counts[1], 1)


def _by_attribute(rules: CountedRules) -> list[Tally]:
    """The tallies whose groups are compared: of one attribute, or of each of several by itself."""
    parted = map(rules.attributes.parted, rules.attributes.alone)
    return [rules.after.gathered(place.tolist(), len(names)) for names, place in parted] or [rules.after]


# ---------------------------------------------------------------- figures with their intervals


@dataclass(frozen=True, eq=False)
class Compared:
    """Shares of some populations at every place, (rates, places, populations), of which a requirement's figure is made.

    ``names`` are the groups that a population is named after, ``rows`` how many rows its share rests on, ``people`` the
    effective number of rows. ``limits`` gives the interval of a single share.
    """

    requirement: Requirement
    rates: tuple[str, ...]
    names: list[tuple[Label, ...]]
    before: Floats
    after: Floats
    rows: Indices
    people: Floats
    limits: _Limits
    has_interval: Booleans  # (rates, 1): whether a rate is a share of rows; others have no binomial interval

    @property
    def of_pairs(self) -> bool:
        """Whether every population is compared with every other."""
        return self.requirement.measure in ("gap", "ratio")

    @cached_property
    def beside(self) -> Floats:
        """What is subtracted from each share to find the worst: its own limit where that is today's share, else 0."""
        of_today = self.requirement.bound == TODAY and not self.of_pairs
        return np.where(of_today & ~np.isnan(self.before), self.before, 0.0)

    def figure(self, values: Floats) -> tuple[Floats, Indices]:
        """The figure at every place, and the populations that it is of: the ends of a gap or ratio, or the worst."""
        if self.of_pairs:
            return pair_figure(values, ratio=self.requirement.measure == "ratio")
        worst = _worst(values, self.requirement.relation, axis=-1)[..., None]
        return np.take_along_axis(values, worst, axis=-1)[..., 0], worst

    def end(self, which: Booleans, tail: Floats, *, kept: bool) -> Floats:
        """The end of the figure's interval that can show that a limit is ``kept``, or else that it is exceeded.

        ``which`` populations count. ``tail`` is the error of the end, (rates, places): of the worst comparison where it
        is kept, of each comparison where it is exceeded.
        """
        measure, at_most = self.requirement.measure, self.requirement.relation != ">="
        shares = np.where(which, self.after, np.nan)
        if self.of_pairs:
            limits = pair_limits if measure == "gap" else ratio_limits
            found = limits(shares, self.people, tail, upper=kept == (measure == "gap"))
        else:
            low, high = (np.where(which, end - self.beside, np.nan) for end in self.limits(tail[..., None]))
            found = (np.fmax if at_most else np.fmin).reduce(high if kept == at_most else low, axis=-1)
        # Today's gap as a limit is uncertain too, and has no interval yet.
        known = self.has_interval & (not self.of_pairs or self.requirement.bound != TODAY)
        return np.where(known, found, np.nan)

    def only(self, rate: int, population: int | None = None) -> Compared:
        """One of the rates, of one population or of all: (places, populations)."""
        which = slice(None) if population is None else slice(population, population + 1)
        arrays: dict[str, Any] = {
            name: getattr(self, name)[rate][:, which] for name in ("before", "after", "rows", "people")
        }

        def limits(tail: Floats) -> tuple[Floats, Floats]:
            low, high = self.limits(tail)
            return low[rate][:, which], high[rate][:, which]

        arrays |= {"rates": (self.rates[rate],), "names": self.names[which], "has_interval": self.has_interval[rate]}
        return replace(self, **arrays, limits=limits)


class _Figure(NamedTuple):
    """A gap, ratio, rate or difference at every place (a site, or all together); NaN where undefined."""

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    rows: Indices
    rate: list[str]
    groups: list[tuple[Label, ...]]


def _figure(own: Compared, limit: float | None, tail: float, *, exact: bool) -> _Figure:
    """The figure at every place, of the worst rate, with its interval.

    ``limit`` None is what the unconstrained rule gives, ``tail`` the error of a single comparison once it is corrected
    for all. Of several rates the worst ends are taken, which need not be of the worst rate.
    """
    relation, corrected = own.requirement.relation, np.full(own.after.shape[:-1], tail)
    single = corrected if relation == "=" else np.full_like(corrected, TAIL)  # "=" can be exceeded at both ends
    among = np.ones(own.after.shape, dtype=bool) if exact else _large_enough(own, limit, corrected)
    after, at = own.figure(np.where(among, own.after - own.beside, np.nan))
    beside = np.take_along_axis(own.beside, at, axis=-1)[..., 0]
    before = own.figure(np.where(among, own.before - own.beside, np.nan))[0] + beside
    known, low = ~np.isnan(after), np.full(after.shape, np.nan)
    high = low
    if not exact:
        kept, exceeded = own.end(among, single, kept=True), own.end(among, corrected, kept=False)
        low, high = (kept, exceeded) if relation == ">=" else (exceeded, kept)
        low, high = np.where(known, np.minimum(low, after), np.nan), np.where(known, np.maximum(high, after), np.nan)
    # A ratio of rates that are all 0 is undefined, yet it rests on rows.
    all_zero = (own.requirement.measure == "ratio") & ((~np.isnan(own.after)).sum(axis=-1) >= 2)
    rows = np.where(known | all_zero, np.take_along_axis(own.rows, at, axis=-1).min(axis=-1), 0)
    after = after + beside
    worst, reduced = _worst(after, relation, axis=0).tolist(), (np.fmin if relation == ">=" else np.fmax).reduce
    return _Figure(
        before=reduced(before, axis=0),
        after=reduced(after, axis=0),
        low=reduced(low + beside, axis=0),
        high=reduced(high + beside, axis=0),
        rows=np.array([rows[k, c] for c, k in enumerate(worst)]),
        rate=[own.rates[k] for k in worst],
        groups=[tuple(name for a in at[k, c].tolist() for name in own.names[a]) for c, k in enumerate(worst)],
    )


def _large_enough(own: Compared, limit: float | None, tail: Floats) -> Booleans:
    """The populations that count on rows which did not choose the rule.

    Those of few rows are left out where enough others can be compared, unless they show, however few, that the limit is
    exceeded.
    """
    large = (own.rows >= FEW_ROWS) & ~np.isnan(own.after)
    among = large | (large.sum(axis=-1, keepdims=True) < (2 if own.of_pairs else 1))
    if limit is None or among.all():
        return np.asarray(among)
    ends = (own.end(which, tail, kept=False) for which in (np.ones_like(among), among))
    by_all, by_large = (room(own.requirement.relation, np.array(limit), end) < 0.0 for end in ends)
    return np.asarray(among | (by_all & ~by_large)[..., None])


def _worst(values: Floats, relation: str, *, axis: int) -> npt.NDArray[np.intp]:
    """Where the figure with the least room stands; undefined ones come last."""
    if relation == ">=":
        return np.asarray(np.where(np.isnan(values), np.inf, values).argmin(axis))
    return np.asarray(np.where(np.isnan(values), -np.inf, values).argmax(axis))


def rates_of(requirement: Requirement) -> tuple[Rate, ...]:
    """The rates that a requirement counts with."""
    return requirement.rates or DEMOGRAPHIC_PARITY.rates


def compared(requirement: Requirement, rules: CountedRules) -> Compared:
    """The shares that a requirement compares: of all groups, or of the one population it is about."""
    if requirement.measure == "difference":
        return _difference(requirement, rules)
    if requirement.is_loss:
        return _loss(requirement, rules)
    if requirement.measure == "precision":
        rules = replace(rules, after=rules.after.of_accepted, before=rules.before and rules.before.of_accepted)
    groups, parted = rules.parted(requirement)
    place = parted.tolist()
    names: list[tuple[Label, ...]] = [(group,) for group in groups]
    if requirement.who or requirement.measure == "accepted":
        population = requirement.who[0] if requirement.who else ()
        members = rules.members(population)
        place = np.where(members, 0, -1).tolist()
        names = [tuple(group for group, own in zip(rules.groups, members, strict=True) if population and own)]
        if rules.attributes.columns:
            names = [(population_name(population),) if population else ()]
    after, rates = rules.after.gathered(place, len(names)), rates_of(requirement)
    values, people = (np.stack([of(rate) for rate in rates]) for of in (after.rate, after.effective_rows))
    rows, before = np.stack([after.rows_behind(rate) for rate in rates]), np.full(values.shape, np.nan)
    limits: _Limits = partial(share_limits, values, people)
    if rules.before is not None:
        first = rules.before.gathered(place, len(names))
        before = np.stack([first.rate(rate) for rate in rates])
        if requirement.bound == TODAY:  # of the change, since both rules decide on the same rows
            change = None
            if rules.changes is not None:
                changes = rules.changes[0].gathered(place, len(names))
                change = tuple(map(np.stack, zip(*map(changes.rates, rates), strict=True)))
            limits = partial(_limits_of_change, before, change, (0.0, 1.0))
    counted, called = np.array([[counts_rows(rate)] for rate in rates]), tuple(rate.name for rate in rates)
    if requirement.measure == "precision":
        called = ("precision",)
        values, before = (np.where(rules.after.labelled, each, np.nan) for each in (values, before))
    return Compared(requirement, called, names, before, values, rows, people, limits, counted)


def _limits_of_change(
    before: Floats, change: tuple[Floats, ...] | None, range_: tuple[float, float], tail: Floats
) -> tuple[Floats, Floats]:
    """Both ends of a share from its change (mean and squared error); NaN where changes were not counted."""
    if change is None:
        return (np.full(before.shape, np.nan),) * 2
    mean, half = change[0], -ndtri(tail) * np.sqrt(change[1])
    return np.clip(before + mean - half, *range_), np.clip(before + mean + half, *range_)


def _difference(requirement: Requirement, rules: CountedRules) -> Compared:
    """One population's rate less another's as a weighted sum of the groups' shares, since populations may overlap.

    Its limits add the squares of the shares' distances from their limits, as Newcombe's (1998) for two shares do.
    """
    weights, rates = [], list(requirement.rates)
    for rate, population, sign in zip(rates, requirement.who, (1.0, -1.0), strict=True):
        mass = np.where(rules.members(population), rules.after.mass_behind(rate), 0.0)
        with np.errstate(invalid="ignore"):
            weights.append(sign * mass / mass.sum(axis=1, keepdims=True))
    if rates[0] == rates[1]:
        rates, weights = rates[:1], [weights[0] + weights[1]]
    weight = np.concatenate(weights, axis=1)

    def summed(by_rate: list[Floats], factor: Floats = weight) -> Floats:
        parts = np.concatenate(by_rate, axis=1)
        return np.asarray(np.where(factor == 0.0, 0.0, factor * parts).sum(axis=1, keepdims=True))

    shares = np.concatenate([rules.after.rate(rate) for rate in rates], axis=1)
    people = np.concatenate([rules.after.effective_rows(rate) for rate in rates], axis=1)
    after = summed([shares])
    before = np.full(after.shape, np.nan) if rules.before is None else summed([rules.before.rate(r) for r in rates])

    def limits(tail: Floats) -> tuple[Floats, Floats]:
        tail = tail.reshape(-1, 1)  # by place: there is one figure
        low, high = share_limits(shares, people, tail)
        below = np.where(weight > 0.0, shares - low, high - shares)
        above = np.where(weight > 0.0, high - shares, shares - low)
        mixed = _mix_errors(requirement, rules, tail)
        ends = summed([below**2], weight**2) + mixed[0], summed([above**2], weight**2) + mixed[1]
        return (after - np.sqrt(ends[0]))[None], (after + np.sqrt(ends[1]))[None]

    own: _Limits = limits
    if requirement.bound == TODAY and rules.before is not None:
        change = None
        if rules.changes is not None:
            by_rate = [rules.changes[0].rates(rate) for rate in rates]
            mean, error = (summed([each[k] for each in by_rate], weight ** (k + 1)) for k in (0, 1))
            change = mean[None], error[None]
        own = partial(_limits_of_change, before[None], change, (-np.inf, np.inf))
    rows = np.min(
        [
            rules.after.gathered(np.where(rules.members(population), 0, -1).tolist(), 1).rows_behind(rate)
            for rate, population in zip(requirement.rates, requirement.who, strict=True)
        ],
        axis=0,
    )
    names = [tuple(group for group in rules.groups if any(str(group) in each for each in requirement.who))]
    if rules.attributes.columns:
        names = [tuple(population_name(population) for population in requirement.who if population)]
    called, known = (requirement.rates[0].name,), np.array([[all(map(counts_rows, rates))]])
    figures = before[None], after[None], rows[None], rows[None].astype(float)
    return Compared(requirement, called, names, *figures, own, known)


def _loss(requirement: Requirement, rules: CountedRules) -> Compared:
    """What each person loses on average against another rule: unconstrained, or the best that each site could have.

    Against the unconstrained rule, which decides on the same rows, its interval is that of the change.
    """
    costs, every = ACCURACY if rules.costs is None else rules.costs, [0] * len(rules.groups)
    worth = np.stack([costs.gain(np.full(len(rules.sites), label)) for label in (0.0, 1.0)], axis=-1)

    def gained(tally: Tally | None) -> Floats:
        if tally is None or not tally.labelled:
            return np.full(len(rules.sites), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((tally.accepted.sum(1) * worth).sum(-1) / tally.mass.sum((1, 2)))

    other, (rate,) = rules.best if requirement.is_loss_inside else rules, rates_of(requirement)
    first, changes = (None, None) if other is None else (other.before, other.changes)
    before, after = ((gained(first) - gained(each))[None, :, None] for each in (rules.before, rules.after))
    limits: _Limits = partial(_limits_of_change, np.full(after.shape, np.nan), None, (-np.inf, np.inf))
    if changes is not None and rules.after.labelled:
        mean, error = (each[None] for each in changes[0].gathered(every, 1).gains(worth))
        limits = partial(_limits_of_change, np.zeros_like(after), (-mean, error), (-np.inf, np.inf))
    tally = rules.after.gathered(every, 1)
    rows, people = tally.rows_behind(rate)[None], tally.effective_rows(rate)[None]
    return Compared(requirement, (requirement.measure,), [()], before, after, rows, people, limits, np.array([[True]]))


def _mix_errors(requirement: Requirement, rules: CountedRules, tail: Floats) -> tuple[Floats, Floats]:
    """Squares to add to both ends where a population is everyone: the groups' shares of everyone are sampled, too.

    Each group adds the square of its rate's distance from everyone's, times the distance of its share of everyone from
    the limits of that share; divided by 1 less the share, since the shares of a multinomial sum to 1.
    """
    found = np.zeros((2, len(rules.sites), 1))
    for place, (rate, population) in enumerate(zip(requirement.rates, requirement.who, strict=True)):
        if not population:
            mass, everyone = rules.after.mass_behind(rate), rules.after.gathered([0] * len(rules.groups), 1)
            with np.errstate(invalid="ignore", divide="ignore"):
                share = mass / mass.sum(axis=1, keepdims=True)
                low, high = share_limits(share, everyone.effective_rows(rate), tail)
                apart = np.nan_to_num(rules.after.rate(rate) - everyone.rate(rate)) / np.sqrt(1.0 - share)
                downwards, upwards = (
                    np.where(apart > 0, share - low, high - share),
                    np.where(apart > 0, high - share, share - low),
                )
                ways = (downwards, upwards) if place == 0 else (upwards, downwards)
                for end, way in zip(found, ways, strict=True):
                    end += np.where(share < 1.0, (apart * way) ** 2, 0.0).sum(axis=1, keepdims=True)
    return found[0], found[1]
