"""Everything that must hold of some rows: requirements, in the names of these rows' sites and groups.

The usual ones have a short way, a notion with a tolerance inside sites and one over all of them, which makes the same
objects as the sentences do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import Any, TypeAlias

import numpy as np

from logofair.columns.attributes import Attributes
from logofair.columns.checks import Floats, Label, nearest_name, shown
from logofair.columns.labels import Codes
from logofair.columns.segments import Booleans, Indices
from logofair.costs import ACCURACY, Costs, read_costs
from logofair.errors import InputError
from logofair.notions import EQUALIZED_ODDS, KNOWN_RATES, Notion, Rate, as_number, named_notion, sides
from logofair.records import InBrief
from logofair.requirement import ALL, LARGEST_BOUND, TODAY, People, Population, Requirement, Scope, read_requirements

# Below this a tolerance is noise to a solver working in doubles, and is treated as 0.
_SMALLEST_TOLERANCE = 1e-9
_ROUNDING = 0.01  # of the last digit of an amount that is said


DEFAULT = "default"  # an argument that was not given, where None means something
USUAL_TOLERANCE = 0.02  # inside sites and over all of them, where nothing else is said
Given: TypeAlias = "float | str | None"


@dataclass(frozen=True)
class Combination:
    """A sum of rates, each times a number: (number, rate, numbers of the groups), None of these meaning everyone."""

    name: str
    terms: tuple[tuple[float, Rate, tuple[int, ...] | None], ...]

    def normalised(self) -> tuple[Combination, float]:
        """The same in units of order 1, and how many of these one of its own has (:meth:`Rate.normalised`)."""
        rates = [rate.normalised() for _, rate, _ in self.terms]
        unit = min(own for _, own in rates)
        terms = zip(self.terms, rates, strict=True)
        scaled = tuple((number * (unit / own), rate, groups) for (number, _, groups), (rate, own) in terms)
        return replace(self, terms=scaled), unit

    @property
    def slope(self) -> float:
        """0 where positives count as all others do, in every rate."""
        return max(abs(rate.slope) for _, rate, _ in self.terms)

    @property
    def ends(self) -> tuple[float, float]:
        """What it lies between whatever the rule."""
        low = high = 0.0
        for number, rate, _ in self.terms:
            some = [number * end for end in rate.ends]
            low, high = low + min(some), high + max(some)
        return low, high


# The share of all people that is selected.
SELECTED = Combination("share selected", ((1.0, KNOWN_RATES["selection rate"], None),))


@dataclass(frozen=True, eq=False)
class Holding:
    """One requirement as it holds on one side: of which rate or combination, of which group, where.

    ``group`` is the number of a group, None where it is of every group by itself or compares them; groups are those
    that ``parted`` makes of the cells' (None: the cells' own). ``at`` says at which sites it holds; over all sites it
    has one entry.
    """

    requirement: Requirement
    of: Rate | Combination
    group: int | None
    at: Booleans
    bounds: Floats  # at every site; NaN: what it is today
    parted: tuple[int, ...] | None = None

    @property
    def relation(self) -> str:
        """How the rate or combination is to its bound: of a loss, what is gained has to be at least so much."""
        return ">=" if self.requirement.is_loss else self.requirement.relation

    @property
    def measure(self) -> str:
        """What is measured: "gap", "ratio", "rate" (of groups) or "combination"."""
        measure = self.requirement.measure
        return "combination" if isinstance(self.of, Combination) else measure


@dataclass(frozen=True)
class RequirementsInfo:
    """Requirements as files hold them, without the names of sites and groups, which stand elsewhere."""

    require: tuple[InBrief[Requirement], ...] = ()
    looked_at: tuple[tuple[InBrief[Rate], ...], tuple[InBrief[Rate], ...]] = ((), ())  # inside sites and over all
    people: tuple[float, ...] = ()  # how many rows every site had, where a number of people is required
    costs: InBrief[Costs] | None = None  # of errors; None: accuracy

    def about(self, sites: Sequence[Label | None], groups: Sequence[Label]) -> Requirements:
        """The same of sites and groups of these names; what is of others has no place there."""
        items = of_places(self.require, map(str, sites), groups)
        return Requirements(items, tuple(sites), tuple(groups), self.costs, self.people, self.looked_at)


def of_places(items: Iterable[Requirement], sites: Iterable[str], groups: Sequence[Label]) -> tuple[Requirement, ...]:
    """Requirements as far as they are about these sites and groups."""
    known_sites, attributes, found = set(sites), Attributes(tuple(groups)), []
    for item in items:
        named = tuple(site for site in item.scope.sites if site in known_sites)
        there = all(attributes.members(population).any() for population in item.who)
        if there and (named or item.scope.where != "at"):
            found.append(replace(item, scope=Scope(item.scope.where, named)))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Requirements:
    """Requirements as typed, and the sites and groups that they are about.

    ``sites`` is (None,) where there are none. ``costs`` None: accuracy counts. ``people`` is how many rows every site
    has, for bounds in people. ``looked_at`` are the rates that are shown inside sites and over all, required or not.
    ``best`` is what the best rules that meet the sites' own requirements gain per person over rejecting everybody, for
    losses inside sites. ``column`` is the name of a single column of groups, if it has one. Of several columns what is
    required by none of them is required by each.
    """

    items: tuple[Requirement, ...]
    sites: tuple[Label | None, ...]
    groups: tuple[Label, ...]
    costs: Costs | None = None
    people: tuple[float, ...] = ()
    looked_at: tuple[tuple[Rate, ...], tuple[Rate, ...]] = ((), ())
    best: tuple[float, ...] = ()
    column: str | None = None

    def __post_init__(self) -> None:
        """Refuse names of columns, groups and sites that there are not."""
        object.__setattr__(self, "items", tuple(dict.fromkeys(chain(*map(self._by_attribute, self.items)))))
        for item in self.items:
            for population in item.who:
                self._check_population(item, population)
            for name in item.scope.sites:
                if self.sites == (None,):
                    raise InputError(f"require: {str(item)!r} names sites, but sites= is missing; pass them.")
                if name not in self._sites_by_text:
                    raise InputError(
                        f"require: {str(item)!r} names site {name!r}, which has no rows"
                        f"{nearest_name(name, self._sites_by_text)}; there are {len(self.sites)} sites, the first is "
                        f"{self.sites[0]!r}."
                    )

    def _by_attribute(self, item: Requirement) -> list[Requirement]:
        """A requirement by the columns that it names, or by each by itself; a single column need not be named."""
        columns = self.attributes.columns or tuple(filter(None, [self.column]))
        named = () if item.by == ALL else item.by
        if strange := [name for name in named if name not in columns]:
            advice = f"use one of {', '.join(columns)}" if columns else "leave it out, or pass {name: column}"
            raise InputError(
                f"require: {str(item)!r} names column {strange[0]!r}, which is not among the sensitive features"
                f"{nearest_name(strange[0], columns)}; {advice}."
            )
        if not self.attributes.columns:
            who = tuple(tuple(self._without_column(item, each) for each in population) for population in item.who)
            return [item if (item.by, item.who) == ((), who) else replace(item, by=(), who=who)]
        each_group = item.measure in ("gap", "ratio") or (item.measure == "rate" and not item.who)
        return [replace(item, by=(name,)) for name in columns] if each_group and not item.by else [item]

    def _without_column(self, item: Requirement, member: str | tuple[str, str]) -> str:
        """A group of the single column by its value alone."""
        if isinstance(member, str):
            return member
        if member[0] != self.column:
            known = "has no name" if self.column is None else f"is called {self.column!r}"
            raise InputError(
                f"require: {str(item)!r} names column {member[0]!r}, but the only one {known}; write {member[1]!r} "
                "alone."
            )
        return member[1]

    def _check_population(self, item: Requirement, population: Population) -> None:
        """Refuse groups that there are not, that are of several columns, or that nobody is in together."""
        attributes, seen = self.attributes, dict[str, str]()
        for member in population:
            value, where = (member, "") if isinstance(member, str) else (member[1], f" in column {member[0]!r}")
            columns = attributes.columns_of(member)
            if len(columns) > 1:
                both = " or ".join(f"{column}={value}" for column in columns)
                raise InputError(f"require: {str(item)!r}: {value!r} occurs in {' and '.join(columns)}; write {both}.")
            if not attributes.members([member]).any():
                known = list(map(str, chain(*attributes.values)))
                near = nearest_name(value, known)
                raise InputError(
                    f"require: {str(item)!r} names group {value!r}, which has no rows{where}{near}; use one of "
                    f"{', '.join(map(repr, known))}."
                )
            column = columns[0] if columns else ""
            if seen.setdefault(column, value) != value:
                raise InputError(
                    f"require: {str(item)!r}: nobody is {seen[column]!r} and {value!r}; name one value of a column."
                )
        if not attributes.members(population).any():
            raise InputError(f"require: {str(item)!r}: no row is of all of these groups at once; name fewer of them.")

    @cached_property
    def attributes(self) -> Attributes:
        """The columns that the groups are of."""
        return Attributes(self.groups)

    def _group_of(self, population: Population) -> tuple[tuple[int, ...] | None, int]:
        """How groups are made of the cells' so that a population is one of them, and its number; see `Holding`."""
        attributes, members = self.attributes, self.attributes.members(population)
        columns = [attributes.columns_of(member)[0] for member in population if attributes.columns]
        _, place = attributes.parted(columns or ALL)
        return _parted(place), int(place[members][0])

    @cached_property
    def _sites_by_text(self) -> dict[str, int]:
        return {str(label): place for place, label in enumerate(self.sites)}

    @property
    def alone(self) -> bool:
        """Whether there is one site, so that what holds inside it and over all is the same."""
        return len(self.sites) == 1

    @property
    def only_gaps(self) -> bool:
        """Whether nothing but gaps is required to be within tolerances."""
        return all(item.measure == "gap" and item.bound != TODAY for item in self.items)

    def only(self, items: Iterable[Requirement]) -> Requirements:
        """Some of them."""
        return replace(self, items=tuple(items))

    @property
    def of_sites_alone(self) -> Requirements:
        """What sites require of themselves, but for what they may lose."""
        return self.only(item for item in self.items if not (item.is_loss or item.scope.is_global))

    def merged(self) -> Requirements:
        """The same for one site that holds all rows: what is required of single sites by name has no place there."""
        rates = tuple(dict.fromkeys((*self.looked_at[0], *self.looked_at[1])))
        return replace(
            self,
            items=tuple(_merged(item) for item in self.items if item.scope.where != "at" and not item.is_loss_inside),
            sites=(None,),
            people=(sum(self.people),) if self.people else (),
            costs=None if self.costs is None else self.costs.mean(),
            looked_at=(rates, ()),
        )

    def over_all(self) -> Requirements:
        """What holds inside the one site there is, as what holds over all of several."""
        items = tuple(replace(item, scope=Scope("overall")) for item in self.items)
        return replace(self, items=items, looked_at=((), (*self.looked_at[0], *self.looked_at[1])))

    @cached_property
    def holding(self) -> dict[str, list[Holding]]:
        """Every requirement of each side, "local" and "global", spelt out by its rates."""
        found: dict[str, list[Holding]] = {"local": [], "global": []}
        for side, item in product(found, self.items):
            at = self._at(item, side)
            if not at.any():
                continue
            if item.is_loss:
                found[side] += self._losses(item, side, at)
                continue
            if item.bound == TODAY:
                bounds = np.full(at.size, np.nan)
            elif isinstance(item.bound, People):
                rows = np.array([sum(self.people)] if at.size == 1 else self.people)
                bounds = item.bound.number / np.maximum(rows, 1.0)
            elif item.measure == "precision":  # which is in the combination itself
                bounds = np.zeros(at.size)
            else:
                noise = item.measure == "gap" and float(item.bound) < _SMALLEST_TOLERANCE
                bounds = np.full(at.size, 0.0 if noise else float(item.bound))
            numbers = [self._numbers(who) if who else None for who in item.who]  # None: everyone
            names, place = self.attributes.parted(item.by or ALL)
            shares = all(rate.is_share for rate in item.rates)
            if item.measure in ("gap", "ratio") or (item.measure == "rate" and not numbers and shares):
                found[side] += [Holding(item, rate, None, at, bounds, _parted(place)) for rate in item.rates]
            elif item.measure == "rate" and shares and numbers[0] is not None:
                parted, group = self._group_of(item.who[0])
                found[side].append(Holding(item, item.rates[0], group, at, bounds, parted))
            elif item.measure == "rate" and not numbers:
                each = [tuple(np.flatnonzero(place == a).tolist()) for a in range(len(names))]
                found[side] += [
                    Holding(item, _combined(item, [own]), a, at, bounds, _parted(place)) for a, own in enumerate(each)
                ]
            else:
                found[side].append(Holding(item, _combined(item, numbers), None, at, bounds))
        return found

    def _numbers(self, population: Population) -> tuple[int, ...]:
        """The numbers of the groups that a population is made of."""
        return tuple(np.flatnonzero(self.attributes.members(population)).tolist())

    def _losses(self, item: Requirement, side: str, at: Booleans) -> Iterator[Holding]:
        """What a loss limits: the gain over rejecting everybody, at the costs of every site."""
        costs = ACCURACY if self.costs is None else self.costs
        if item.measure.startswith("cost") != (self.costs is not None):
            count, given = ("accuracy", "without") if self.costs is None else ("cost", "with")
            raise InputError(
                f"require: {str(item)!r}: {given} costs= rules are judged by {count}; write '{count} loss'."
            )
        if side == "global" and not costs.same_everywhere:
            raise InputError(f"require: {str(item)!r}: costs differ between sites; limit the cost loss per site.")
        bounds = np.full(at.size, np.nan)
        if item.is_loss_inside and self.best:
            bounds = np.array(self.best) - float(item.bound)  # type: ignore[arg-type]
        accepted, rejected = costs.wrongly_accepted, costs.wrongly_rejected
        pairs = np.broadcast_to(np.column_stack([accepted, rejected]), (at.size, 2))
        for pair in np.unique(pairs, axis=0):
            gain = Rate("gain over rejecting all", -float(pair[0]), float(pair.sum()), (1.0, 0.0))
            here = at & (pairs == pair).all(axis=1)
            yield Holding(item, Combination(gain.name, ((1.0, gain, None),)), None, here, bounds)

    def _at(self, item: Requirement, side: str) -> Booleans:
        """At which sites a requirement holds on a side; over all sites it is one place."""
        if side == "global":
            return np.array([item.scope.is_global and not self.alone])
        if self.sites == (None,):
            return np.array([item.scope.where != "at"])
        if item.scope.is_global:
            return np.full(len(self.sites), self.alone)
        found = np.full(len(self.sites), item.scope.where == "per site")
        found[[self._sites_by_text[name] for name in item.scope.sites]] = item.scope.where == "at"
        return found

    @property
    def shares(self) -> dict[Requirement, float]:
        """What bounds in people come to: of one that holds at several sites, at the first of them."""
        found = {}
        for each in chain(*self.holding.values()):
            if isinstance(each.requirement.bound, People):
                found[each.requirement] = float(each.bounds[int(np.argmax(each.at))])
        return found

    def rates_of(self, side: str) -> tuple[Rate, ...]:
        """The rates whose gaps a side is about: those required, or where none is those looked at."""
        if side == "global" and self.alone:
            return ()
        required = dict.fromkeys(each.of for each in self.holding[side] if each.measure in ("gap", "ratio"))
        return tuple(required) or self.looked_at[0 if side == "local" else 1]  # type: ignore[arg-type]

    @property
    def info(self) -> RequirementsInfo:
        """The same as files hold it."""
        counted = any(isinstance(item.bound, People) for item in self.items)
        return RequirementsInfo(self.items, self.looked_at, self.people if counted else (), self.costs)


def _merged(item: Requirement) -> Requirement:
    """What holds over all sites, or inside each, as what holds inside the only one."""
    unconstrained = item.is_loss and "unconstrained" not in item.measure
    measure = f"{item.measure} from unconstrained" if unconstrained else item.measure
    return replace(item, measure=measure, scope=Scope("per site"))


def _parted(place: Indices) -> tuple[int, ...] | None:
    """To which group every cell belongs; None: each is one."""
    return None if np.array_equal(place, np.arange(place.size)) else tuple(place.tolist())


def _combined(item: Requirement, groups: Sequence[tuple[int, ...] | None]) -> Combination:
    """What a requirement is of, where it is of no group's rate alone: everyone's rate, or one less another."""
    if item.measure == "accepted":
        return SELECTED
    name = str(item).partition(f" {item.relation} ")[0]
    if item.measure == "precision":  # at least p: positives accepted less p times all accepted are 0 or more
        beyond = Rate(f"{name} beyond {item.bound}", -float(item.bound), 1.0, (1.0, 0.0))  # type: ignore[arg-type]
        return Combination(beyond.name, ((1.0, beyond, groups[0]),))
    numbers = (1.0, -1.0) if item.measure == "difference" else (1.0,)
    return Combination(name, tuple(zip(numbers, item.rates, groups, strict=True)))


def make_requirements(
    require: object,
    notion: object,
    local_tolerance: object,
    global_tolerance: object,
    sites: Codes,
    groups: Codes,
    *,
    costs: object = None,
) -> Requirements:
    """Read what must hold of rows of these groups and sites.

    Where there are no sites, ``sites`` are those of :func:`logofair.columns.labels.one_site`.
    With ``require`` alone the short way adds nothing.
    """
    one_site = sites.names == (None,)
    items, looked_at = read_items(require, notion, local_tolerance, global_tolerance, one_site=one_site)
    found = Requirements(
        items,
        sites.names,
        groups.names,
        None if costs is None else read_costs(costs, sites),
        tuple(np.bincount(sites.codes, minlength=len(sites.names)).astype(float).tolist()),
        looked_at,
        column=groups.column,
    )
    for each in chain(*found.holding.values()):
        if isinstance(each.requirement.bound, People) and np.max(each.bounds[each.at]) > 1.0:
            raise InputError(f"require: {str(each.requirement)!r} is about more people than there are; ask for fewer.")
    return found


def read_items(
    require: object, notion: object, local_tolerance: object, global_tolerance: object, *, one_site: bool = False
) -> tuple[tuple[Requirement, ...], tuple[tuple[Rate, ...], tuple[Rate, ...]]]:
    """What was typed in either way, each once, and the rates that are looked at on either side."""
    typed = () if require is None else read_requirements(require)
    items, looked_at = requirements_of_notion(notion, local_tolerance, global_tolerance, alone=bool(typed))
    if one_site:  # which makes both sides the same
        strictest = {item.rates: item for item in sorted(items, key=lambda item: -float(item.bound))}  # type: ignore[arg-type]
        items = tuple(replace(item, scope=Scope("overall")) for item in strictest.values())
    return tuple(dict.fromkeys((*items, *typed))), looked_at


def requirements_of_notion(
    notion: object, local_tolerance: object, global_tolerance: object, *, alone: bool = False
) -> tuple[tuple[Requirement, ...], tuple[tuple[Rate, ...], tuple[Rate, ...]]]:
    """The requirements of a notion with two tolerances, and the rates of either side; nothing where none was given.

    ``alone``: whether, where none was given, nothing is meant.
    """
    meant, *tolerances = short_way(notion, local_tolerance, global_tolerance, alone=alone)
    each_side = [named_notion(each, "notion") for each in sides(meant)]
    found: list[Requirement] = []
    for name, where, own, tolerance in zip(
        ("local", "global"), (Scope("per site"), Scope("overall")), each_side, tolerances, strict=True
    ):
        number = check_tolerance(tolerance, f"{name}_tolerance", own.of_shares)
        if number is not None:
            found += gaps(own, number, where)
    return tuple(found), (each_side[0].rates, each_side[1].rates)


def short_way(
    notion: object, local_tolerance: object, global_tolerance: object, *, alone: bool = False
) -> tuple[Any, Any, Any]:
    """The notion and the two tolerances that are meant where some were not given; ``alone`` as above.

    Examples
    --------
    >>> short_way(DEFAULT, 0.05, DEFAULT), short_way(DEFAULT, DEFAULT, DEFAULT, alone=True)
    (('demographic_parity', 0.05, None), ('demographic_parity', None, None))
    """
    given = (notion, local_tolerance, global_tolerance)
    is_default = [isinstance(each, str) and each == DEFAULT for each in given]
    usual = USUAL_TOLERANCE if all(is_default[1:]) and not (alone and is_default[0]) else None
    defaults = ("demographic_parity", usual, usual)
    meant = [own if missing else each for each, own, missing in zip(given, defaults, is_default, strict=True)]
    return meant[0], meant[1], meant[2]


def gaps(notion: Notion, tolerance: float, scope: Scope) -> list[Requirement]:
    """The requirements that the gaps of a notion's rates are within a tolerance."""
    several = [notion.rates] if notion.rates == EQUALIZED_ODDS.rates else [(rate,) for rate in notion.rates]
    return [Requirement(measure="gap", rates=rates, relation="<=", bound=tolerance, scope=scope) for rates in several]


def check_tolerance(tolerance: object, where: str, of_shares: bool) -> float | None:
    """Return a tolerance as a float of at least 0, or None; raise otherwise.

    ``of_shares`` says that the rates lie between 0 and 1, so that a tolerance of 1 would require nothing; rates of the
    user's own may be counted in anything, up to numbers with which nothing can be computed.
    """
    if tolerance is None:
        return None
    value = as_number(tolerance)
    if of_shares and 1.0 <= value < np.inf:
        raise InputError(
            f"{where}: got {value:g}; rates lie between 0 and 1, so a tolerance is below 1: write 0.02 for 2 percent, "
            "or None for no constraint."
        )
    if not 0.0 <= value <= LARGEST_BOUND:
        most, got = 1.0 if of_shares else LARGEST_BOUND, shown(tolerance)
        raise InputError(f"{where}: a tolerance is a number from 0 to {most:g}, or None for no constraint; got {got}.")
    return 0.0 if value < _SMALLEST_TOLERANCE else value


def conflict_sentence(amounts: Mapping[Requirement, float | None], *, held: str = "", at_least: bool = False) -> str:
    """Which requirements cannot hold together, and what each would have to give with the others held.

    ``held`` are others that are part of the conflict as they are; ``at_least`` says that more may be needed. Amounts
    are rounded so that what is said is true: up, or down where more may be needed.

    Examples
    --------
    >>> capacity, floor = map(Requirement.parse, ("accepted <= 0.2 overall", "selection rate >= 0.3 overall"))
    >>> for part in conflict_sentence({capacity: 0.10001, floor: None}).split(". "):
    ...     print(part)
    requirements: no rule meets all of them: 'accepted <= 0.2 overall' and 'selection rate >= 0.3 overall' conflict
    With the others held, 'accepted <= 0.2 overall' would have to be 0.1001 looser; \
loosening 'selection rate >= 0.3 overall' alone is not enough.
    """
    *first, last = (repr(str(each)) for each in amounts)
    named = f"{', '.join(first)} and {last} conflict" if first else f"{last} cannot be met"
    named += f", {held} being held" if held else ""
    least, enough = "at least " if at_least else "", []
    for each, amount in amounts.items():
        if amount is not None:  # four digits; what a solver's rounding left counts as nothing
            unit = 10.0 ** (math.floor(math.log10(amount)) - 3) if amount > 0 else 1.0
            digits = math.floor(amount / unit + _ROUNDING) if at_least else math.ceil(amount / unit - _ROUNDING)
            enough.append(f"{str(each)!r} would have to be {least}{digits * unit:.4g} looser")
    vain = [repr(str(each)) for each, amount in amounts.items() if amount is None]
    more = [*([f"With the others held, {', or '.join(enough)}"] if enough else [])]
    more += [f"loosening {' or '.join(vain)} alone is not enough"] if vain else []
    tail = "; ".join(more)
    return f"requirements: no rule meets all of them: {named}. {tail[:1].upper()}{tail[1:]}."


def allows_rejecting(item: Requirement) -> bool:
    """Whether a rule that rejects everybody, whose rates are all 0, meets a requirement."""
    if item.measure in ("gap", "ratio", "precision") or item.is_loss:
        return not item.is_loss
    least = item.bound if isinstance(item.bound, float) else 1.0
    return item.bound != TODAY and (least >= 0.0 if item.relation == "<=" else least <= 0.0)
