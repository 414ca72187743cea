"""Requirements: what must hold inside every site and over all of them.

Gaps within tolerances, ratios of rates, floors and ceilings of single groups' rates, and capacities: each is a set of
linear rows over rates (:mod:`logofair.solvers.limits`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from logofair.columns.checks import Floats, Label, listed, nearest_name
from logofair.columns.labels import Codes, check_sites
from logofair.costs import Costs, costs_sentence, read_costs
from logofair.errors import InputError
from logofair.notions import NOTIONS, NotionLike, Rate, as_number, named_notion, sides

# Below this a tolerance is noise to a solver working in doubles, and is treated as 0.
SMALLEST_TOLERANCE = 1e-9
# Above this a tolerance for rates of the user's own, in whatever unit, overflows sooner than it binds.
LARGEST_TOLERANCE = 1e100
_ROUNDING = 0.01  # of the last digit of an amount that is said


# Of all people of a site, or of all sites, the share that is selected from a group: these add up to a capacity.
SELECTED = Rate("share selected", 1.0, 0.0)


@dataclass(frozen=True)
class Ratio:
    """A tolerance as a ratio: the smallest rate is at least this share of the largest.

    Where nobody is selected a ratio says nothing: rejecting everybody meets any. Pair it with a floor.

    Examples
    --------
    >>> import logofair
    >>> scores, groups = [0.9, 0.8, 0.7, 0.6, 0.4, 0.2], ["a", "a", "a", "b", "b", "b"]
    >>> required = {"local_tolerance": logofair.Ratio(0.5), "global_tolerance": None}
    >>> solution = logofair.fit(scores, None, groups=groups, calibration="none", **required)
    >>> print(solution.requirements.summary())
    The smallest selection rate of any group is at least 0.5 times the largest (demographic parity).
    """

    least: float

    def __post_init__(self) -> None:
        value = as_number(self.least)
        if not 0.0 < value <= 1.0:
            raise InputError(f"Ratio: got {self.least!r}; a ratio of rates is above 0 and at most 1, such as 0.8.")
        object.__setattr__(self, "least", value)

    def __str__(self) -> str:
        return f"ratio {self.least:g}"


@dataclass(frozen=True)
class Exactly:
    """A capacity that is met, not only kept: exactly this share of people is selected, in expectation.

    Examples
    --------
    >>> Exactly(0.2)
    Exactly(share=0.2)
    """

    share: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", _share(self.share, "Exactly"))


Tolerance: TypeAlias = float | Ratio | None


def plain_tolerance(tolerance: Tolerance) -> float | str | None:
    """A tolerance for files: a ratio as it is typed.

    Examples
    --------
    >>> plain_tolerance(0.02), plain_tolerance(Ratio(0.8)), plain_tolerance(None)
    (0.02, 'ratio:0.8', None)
    """
    return f"ratio:{tolerance.least:g}" if isinstance(tolerance, Ratio) else tolerance


@dataclass(frozen=True)
class Requirement:
    """One rate whose gap must stay within a tolerance (``None``: free where not overridden), or within a ratio."""

    notion: str
    rate: Rate
    tolerance: float | None
    ratio: float | None = None

    @property
    def kind(self) -> str:
        """Which of the two it is (:data:`CALLED`)."""
        return "tolerance" if self.ratio is None else "ratio"


def strictest(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """One requirement for each rate, with the least tolerance and the largest ratio that is required of it."""
    found: dict[Rate, Requirement] = {}
    for each in requirements:
        known = found.setdefault(each.rate, each)
        tolerance = min(tolerance_of(known), tolerance_of(each))
        ratio = max(known.ratio or 0.0, each.ratio or 0.0)
        named = each if tolerance_of(each) < tolerance_of(known) else known
        found[each.rate] = replace(named, tolerance=_finite(tolerance), ratio=ratio or None)
    return tuple(found.values())


@dataclass(frozen=True)
class RateLimit:
    """A floor or a ceiling of a group's rate, inside each site or over all of them.

    ``group`` None: of every group; ``value`` None: what the rule gives that group that nothing is required of.
    """

    side: str
    kind: str  # "floor" or "ceiling"
    notion: str
    rate: Rate
    group: Label | None
    value: float | None


@dataclass(frozen=True)
class Capacity:
    """How large a share of people may be selected at most, and at least (0: no matter)."""

    side: str
    most: float
    least: float = 0.0

    @property
    def ends(self) -> tuple[Capacity, ...]:
        """At most so many and, where it has to be met, at least so many, each by itself."""
        most, least = replace(self, least=0.0), replace(self, most=np.inf)
        return (most, least) if self.least > 0 else (most,)

    @property
    def kind(self) -> str:
        """What one end is (:data:`CALLED`)."""
        return "most selected" if np.isfinite(self.most) else "least selected"


@dataclass(frozen=True)
class Requirements:
    """Requirements inside each site and over all of them.

    ``tolerances`` and ``ratios`` are (sites, local requirements), infinity and 0 meaning free; ``site_tolerances``
    are the single sites whose tolerance replaces that of the local requirements. ``costs`` None: accuracy counts.
    """

    local: tuple[Requirement, ...]
    global_: tuple[Requirement, ...]
    tolerances: Floats
    site_tolerances: tuple[tuple[Label, Tolerance], ...] = ()
    ratios: Floats | None = None
    limits: tuple[RateLimit, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    costs: Costs | None = None
    groups: tuple[Label, ...] = ()  # as the problem numbers them

    @property
    def only_gaps(self) -> bool:
        """Whether nothing but gaps is required to be within tolerances."""
        ratios = self.ratios is not None and bool(np.any(self.ratios > 0))
        return not (ratios or any(each.ratio for each in self.global_) or self.limits or self.capacities)

    @property
    def are_tolerances(self) -> bool:
        """Whether tolerances are all that is required, and accuracy is all that counts."""
        return self.only_gaps and self.costs is None

    def merged(self) -> Requirements:
        """The same for one site that holds all rows: local is global, and the stricter holds."""
        local = strictest((*self.local, *self.global_))
        return Requirements(
            local,
            (),
            np.array([[tolerance_of(r) for r in local]]),
            ratios=np.array([[r.ratio or 0.0 for r in local]]),
            limits=tuple(dict.fromkeys(replace(limit, side="local") for limit in self.limits)),
            capacities=tuple(dict.fromkeys(replace(each, side="local") for each in self.capacities)),
            costs=None if self.costs is None else self.costs.mean(),
            groups=self.groups,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], sites: Sequence[Label | None], groups: Sequence[Label]) -> Requirements:
        """The inverse of :meth:`as_dict` for sites and groups of these names."""
        local, global_ = (
            tuple(Requirement(item["notion"], _rate(item), item["tolerance"], item["ratio"]) for item in data[side])
            for side in ("local", "global")
        )
        tolerances = np.tile([tolerance_of(each) for each in local], (len(sites), 1))
        ratios = np.tile([each.ratio or 0.0 for each in local], (len(sites), 1))
        place = {str(name): i for i, name in enumerate(sites)}
        for item in data["single sites"]:
            if item["site"] in place:
                own = item["tolerance"] if item.get("ratio") is None else None
                tolerances[place[item["site"]]] = np.inf if own is None else own
                ratios[place[item["site"]]] = item.get("ratio") or 0.0
        by_text = {str(name): name for name in groups}
        limits = tuple(
            RateLimit(each["side"], each["kind"], "", _rate(each), by_text.get(each["group"]), each["value"])
            for each in data["limits"]
            if each["group"] is None or each["group"] in by_text
        )
        return cls(
            local,
            global_,
            tolerances,
            ratios=ratios,
            limits=limits,
            capacities=tuple(Capacity(each["side"], each["most"], each["least"]) for each in data["capacities"]),
            costs=None if data["costs"] is None else Costs.from_dict(data["costs"]),
            groups=tuple(groups),
        )

    def over_all(self) -> Requirements:
        """What holds inside the one site there is, as what holds over all of several."""
        return replace(
            self,
            local=(),
            global_=self.local,
            tolerances=np.zeros((self.tolerances.shape[0], 0)),
            ratios=None,
            limits=tuple(replace(each, side="global") for each in self.limits),
            capacities=tuple(replace(each, side="global") for each in self.capacities),
        )

    def one_by_one(self, over_all: str = "over all") -> dict[str, Requirements]:
        """Every requirement as it was typed, alone, by what it is called; ``over_all`` is where the global ones hold.

        A floor of every group is one, as is a tolerance of several rates; those of single sites are one together.
        What has one name gives way together.
        """
        found: dict[str, Requirements] = {}
        for name, one in (*self._local_one_by_one(), *self._others_one_by_one(over_all)):
            found[name] = found[name]._beside(one) if name in found else one
        return found

    @property
    def _inside(self) -> str:
        """Where local requirements hold, in words; one site has no global side (:meth:`merged`)."""
        return "inside sites" if self.global_ else ""

    @property
    def _nothing(self) -> Requirements:
        """That nothing is required, at the same costs."""
        none = self.tolerances[:, :0]
        return replace(
            self, local=(), global_=(), tolerances=none, site_tolerances=(), ratios=none, limits=(), capacities=()
        )

    def _beside(self, other: Requirements) -> Requirements:
        """Both of two that were taken out of one."""
        parts = ("local", "global_", "limits", "capacities")
        joined: dict[str, Any] = {part: getattr(self, part) + getattr(other, part) for part in parts}
        return replace(
            self,
            tolerances=np.hstack([self.tolerances, other.tolerances]),
            ratios=np.hstack(
                [each.tolerances[:, :0] if each.ratios is None else each.ratios for each in (self, other)]
            ),
            **joined,
        )

    def _local_one_by_one(self) -> Iterator[tuple[str, Requirements]]:
        """Tolerances and ratios inside sites: those of all, and those of the sites that have their own."""
        ratios = np.zeros_like(self.tolerances) if self.ratios is None else self.ratios
        typed = np.array([[tolerance_of(r) for r in self.local]]), np.array([[r.ratio or 0.0 for r in self.local]])
        usual = np.all((self.tolerances == typed[0]) & (ratios == typed[1]), axis=1, keepdims=True)
        for notion in dict.fromkeys(r.notion for r in self.local):
            own = [k for k, r in enumerate(self.local) if r.notion == notion]
            for where, some in ((self._inside, usual), ("at single sites", ~usual)):
                tolerance, ratio = np.where(some, self.tolerances, np.inf)[:, own], np.where(some, ratios, 0.0)[:, own]
                for kind, gap, share in (("tolerance", tolerance, 0.0 * ratio), ("ratio", 0.0 * ratio + np.inf, ratio)):
                    if np.isfinite(gap).any() or share.any():
                        local = tuple(self.local[k] for k in own)
                        one = replace(self._nothing, local=local, tolerances=gap, ratios=share)
                        yield called(kind, where, [r.rate for r in local]), one

    def _others_one_by_one(self, over_all: str) -> Iterator[tuple[str, Requirements]]:
        """What is required over all, floors, ceilings and capacities."""
        nothing, where = self._nothing, {"local": self._inside, "global": over_all}
        for notion in dict.fromkeys(r.notion for r in self.global_):
            own = [r for r in self.global_ if r.notion == notion]
            parts = {
                "tolerance": tuple(replace(r, ratio=None) for r in own if r.tolerance is not None),
                "ratio": tuple(replace(r, tolerance=None) for r in own if r.ratio is not None),
            }
            for kind, some in parts.items():
                if some:
                    yield called(kind, over_all, [r.rate for r in some]), replace(nothing, global_=some)
        for side, kind, notion, group in dict.fromkeys((x.side, x.kind, x.notion, x.group) for x in self.limits):
            same = [x for x in self.limits if (x.side, x.kind, x.notion, x.group) == (side, kind, notion, group)]
            name = called(kind, where[side], [x.rate for x in same], group)
            yield name, replace(nothing, limits=tuple(same))
        for each in self.capacities:
            for end in each.ends:
                yield called(end.kind, where[each.side]), replace(nothing, capacities=(end,))

    def summary(self) -> str:
        """What must hold, in words."""
        return " ".join(requirement_sentences(self.as_dict()))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for files and reports."""
        sides = {
            side: [
                {
                    "notion": r.notion,
                    "rate": r.rate.name,
                    "tolerance": r.tolerance,
                    "ratio": r.ratio,
                    "line": r.rate.line,
                }
                for r in items
            ]
            for side, items in (("local", self.local), ("global", self.global_))
        }
        single = [
            {
                "site": str(name),
                "tolerance": None if isinstance(t, Ratio) else t,
                "ratio": t.least if isinstance(t, Ratio) else None,
            }
            # Tolerances first, as a policy stores them.
            for name, t in sorted(self.site_tolerances, key=lambda each: isinstance(each[1], Ratio))
        ]
        limits = [
            {
                "side": each.side,
                "kind": each.kind,
                "rate": each.rate.name,
                "group": None if each.group is None else str(each.group),
                "value": each.value,
                "line": each.rate.line,
            }
            for each in self.limits
        ]
        return sides | {
            "single sites": single,
            "limits": limits,
            "capacities": [{"side": each.side, "most": each.most, "least": each.least} for each in self.capacities],
            "costs": None if self.costs is None else self.costs.as_dict(),
        }


def _rate(item: Mapping[str, Any]) -> Rate:
    return Rate.called(item["rate"], item["line"])


def requirement_sentences(required: Mapping[str, Any], local: str = "", *, place: str = "site") -> Iterator[str]:
    """Say what must hold, given what ``as_dict`` returns; ``local`` is where the local requirements hold.

    One site has no global side (:meth:`Requirements.merged`), so there is no place to name. ``place`` is what
    participants are called.
    """
    tolerances: dict[tuple[str, str, float], list[str]] = {}
    inside = f"{local or f'Inside each {place}'}, the" if required["global"] else "The"
    ratios: list[str] = []
    for where, items in ((inside, required["local"]), (f"Over all {place}s, the", required["global"])):
        for item in items:
            if item["tolerance"] is not None:
                tolerances.setdefault((where, item["notion"], item["tolerance"]), []).append(item["rate"])
            if item.get("ratio") is not None:
                ratios.append(
                    f"{where} smallest {item['rate']} of any group is at least {item['ratio']:g} times the largest "
                    f"({_named(item['notion'])})."
                )
    for (where, notion, tolerance), rates in tolerances.items():
        differ = "differs" if len(rates) == 1 else "differ"
        the_rates = " and the ".join(rates)
        yield f"{where} {the_rates} of any two groups {differ} by at most {tolerance:g} ({_named(notion)})."
    yield from ratios
    single = [_single(item) for item in required["single sites"]]
    more = list(_limit_sentences(required, inside.removesuffix(", the"), f"Over all {place}s"))
    if single:
        start = "In place of that, the" if tolerances or ratios else "The"
        yield f"{start} gap at single {place}s: {listed(single, len(single))}."
    elif not (tolerances or ratios or more):
        yield "Nothing: every gap is free."
    yield from more


def _named(notion: str) -> str:
    return notion.replace("_", " ") if notion in NOTIONS else notion


def _single(item: Mapping[str, Any]) -> str:
    """What holds at a single site."""
    if item.get("ratio") is not None:
        return f"{item['site']} ratio at least {item['ratio']:g}"
    return f"{item['site']} {'free' if item['tolerance'] is None else 'at most {:g}'.format(item['tolerance'])}"


def _limit_sentences(required: Mapping[str, Any], inside: str, over_all: str) -> Iterator[str]:
    """Floors, ceilings and capacities, in words."""
    alone = not required["global"] and inside == "The"
    for item in required.get("limits", ()):
        where = "" if alone else f"{inside if item['side'] == 'local' else over_all}, "
        whose = "every group" if item["group"] is None else f"group {item['group']!r}"
        bound = "at least" if item["kind"] == "floor" else "at most"
        what = "what it is without any requirement" if item["value"] is None else f"{item['value']:g}"
        sentence = f"{where}the {item['rate']} of {whose} is {bound} {what}."
        yield sentence[0].upper() + sentence[1:]
    for item in required.get("capacities", ()):
        where = "" if alone else f"{inside if item['side'] == 'local' else over_all}, "
        bound = "exactly" if item["least"] == item["most"] else "at most"
        sentence = f"{where}{bound} {item['most']:g} of all people are selected."
        yield sentence[0].upper() + sentence[1:]
    if required.get("costs") is not None:
        yield costs_sentence(required["costs"])


# What a requirement of a kind is called, and which way it gives.
CALLED = {
    "tolerance": ("the tolerance of the gap of the {rate} {where}", "larger"),
    "ratio": ("the ratio of the {rate} {where}", "smaller"),
    "floor": ("the floor of the {rate} of {group} {where}", "lower"),
    "ceiling": ("the ceiling of the {rate} of {group} {where}", "higher"),
    "most selected": ("the capacity {where}", "larger"),
    "least selected": ("the capacity that has to be met {where}", "smaller"),
}


def called(kind: str, where: str, rates: Iterable[Rate] = (), group: Label | None = None) -> str:
    """What a requirement is called, as it was typed: of one rate or several, of one group or (None) of every group.

    Examples
    --------
    >>> from logofair.notions import EQUALIZED_ODDS
    >>> called("floor", "over all", EQUALIZED_ODDS.rates)
    'the floor of the true positive rate and the false positive rate of every group over all'
    """
    rate = " and the ".join(dict.fromkeys(rate.name for rate in rates))
    whose = "every group" if group is None else f"group {group!r}"
    return CALLED[kind][0].format(rate=rate, group=whose, where=where).rstrip()


def way_of(name: str) -> str | None:
    """Which way a requirement of this name gives; None where it is no such name.

    Examples
    --------
    >>> way_of("the capacity that has to be met over all"), way_of("selection rate")
    ('smaller', None)
    """
    starts = {template.partition(" {")[0]: way for template, way in CALLED.values()}
    return next((starts[start] for start in sorted(starts, key=len, reverse=True) if name.startswith(start)), None)


def conflict_sentence(amounts: Mapping[str, float | None], *, held: str = "", at_least: bool = False) -> str:
    """Which requirements cannot hold together, and what each would have to give with the others held.

    ``held`` are others that are part of the conflict as they are; ``at_least`` says that more may be needed. Amounts
    are rounded so that what is said is true: up, or down where more may be needed.

    Examples
    --------
    >>> for part in conflict_sentence({"the capacity": 0.10001, "the floor": None}).split(". "):
    ...     print(part)
    requirements: no rule meets all of them: the capacity and the floor conflict
    With the others held, the capacity would have to be 0.1001 larger; giving way on the floor alone is not enough.
    """
    *first, last = amounts
    named = f"{', '.join(first)} and {last} conflict" if first else f"{last} cannot be met"
    named += f", {held} being held" if held else ""
    least = "at least " if at_least else ""
    enough = [
        f"{name} would have to be {least}{_amount(amount, up=not at_least)} {way_of(name)}"
        for name, amount in amounts.items()
        if amount is not None
    ]
    vain = [name for name, amount in amounts.items() if amount is None]
    more = [*([f"With the others held, {', or '.join(enough)}"] if enough else [])]
    more += [f"giving way on {' or '.join(vain)} alone is not enough"] if vain else []
    tail = "; ".join(more)
    return f"requirements: no rule meets all of them: {named}. {tail[:1].upper()}{tail[1:]}."


def _amount(amount: float, *, up: bool) -> str:
    """An amount of four digits, rounded up or down; what a solver's rounding left counts as nothing."""
    unit = 10.0 ** (math.floor(math.log10(amount)) - 3) if amount > 0 else 1.0
    digits = math.ceil(amount / unit - _ROUNDING) if up else math.floor(amount / unit + _ROUNDING)
    return f"{digits * unit:.4g}"


def compared_rates(requirements: Iterable[Requirement]) -> tuple[Rate, ...]:
    """The rates of some requirements, each once."""
    return tuple(dict.fromkeys(requirement.rate for requirement in requirements))


def make_requirements(
    notion: object,
    local_tolerance: object,
    global_tolerance: object,
    site_tolerances: Mapping[Label, Tolerance] | None,
    sites: Codes,
    *,
    groups: Sequence[Label] = (),
    floors: object = None,
    ceilings: object = None,
    capacity: object = None,
    costs: object = None,
) -> Requirements:
    """Read the user's notion and tolerances; ``sites`` is that of :func:`one_site` where there are none."""
    local_notion, global_notion = sides(notion)
    local = side_requirements(local_notion, local_tolerance, "local")
    global_ = side_requirements(global_notion, global_tolerance, "global")
    tolerances = np.tile([tolerance_of(r) for r in local], (len(sites.names), 1))
    ratios = np.tile([r.ratio or 0.0 for r in local], (len(sites.names), 1))
    single = _overrides(site_tolerances, sites, of_shares=all(r.rate.is_share for r in local))
    place = {name: i for i, name in enumerate(sites.names)} if single else {}
    for name, tolerance in single.items():
        tolerances[place[name]] = np.inf if tolerance is None or isinstance(tolerance, Ratio) else tolerance
        ratios[place[name]] = tolerance.least if isinstance(tolerance, Ratio) else 0.0
    limits = (*read_limits(floors, "floor", groups), *read_limits(ceilings, "ceiling", groups))
    requirements = Requirements(
        local,
        global_,
        tolerances,
        tuple(single.items()),
        ratios,
        limits,
        read_capacity(capacity),
        None if costs is None else read_costs(costs, sites),
        tuple(groups),
    )
    if len(sites.names) == 1:
        # One site makes local and global the same; a single program is solved faster than two sides.
        alone = tuple(
            replace(r, tolerance=_finite(t), ratio=float(ratio) or None)
            for r, t, ratio in zip(local, tolerances[0], ratios[0], strict=True)
        )
        return replace(requirements, local=alone).merged()
    return requirements


def read_limits(given: object, kind: str, groups: Sequence[Label]) -> tuple[RateLimit, ...]:
    """Read floors or ceilings: ``{notion: number | {group: number} | "today"}``, for both sides or by side.

    What holds inside every site holds over all of them, so a limit for both sides is a local one.
    """
    where = f"{kind}s"
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"{where}: got {given!r}; pass a mapping from notion to number, such as {{'equal_opportunity': 0.6}}."
        )
    by_side = dict(given) if set(given) <= {"local", "global"} else {"local": given}
    found = []
    for side, limits in by_side.items():
        if limits is None:
            continue
        if not isinstance(limits, Mapping):
            raise InputError(f"{where}: the {side} side is {limits!r}; pass a mapping from notion to number.")
        for notion, value in limits.items():
            item = named_notion(notion, where)
            if not item.of_shares:
                raise InputError(
                    f"{where}: {item.name!r} has rates that are no shares of people; use one of {', '.join(NOTIONS)}."
                )
            own = value if isinstance(value, Mapping) else {None: value}
            if not own:
                raise InputError(
                    f"{where}: {notion!r} names no group; pass a rate for all or for some, or leave it out."
                )
            for group, number in own.items():
                if group is not None and group not in groups:
                    raise InputError(
                        f"{where}: names group {group!r}, which has no rows{nearest_name(group, groups)}; "
                        f"use one of {', '.join(map(repr, groups))}."
                    )
                found += [RateLimit(side, kind, item.name, rate, group, _limit(number, where)) for rate in item.rates]
    if not found:
        raise InputError(f"{where}: got {given!r}, which requires nothing; name a notion and its rate, or pass None.")
    return tuple(found)


def _limit(value: object, where: str) -> float | None:
    """A rate from 0 to 1; None for what the rule gives that nothing is required of."""
    if isinstance(value, str) and value == "today":
        return None
    number = as_number(value)
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{where}: got {value!r}; a rate lies between 0 and 1, or is 'today'.")
    return number


def read_capacity(given: object) -> tuple[Capacity, ...]:
    """Read a capacity: a share of all people, or one by side; :class:`Exactly` where it has to be met."""
    if given is None:
        return ()
    by_side = dict(given) if isinstance(given, Mapping) else {"global": given}
    if not by_side or not set(by_side) <= {"local", "global"}:
        raise InputError(f"capacity: got {given!r}; pass a share such as 0.1, or {{'local': ..., 'global': ...}}.")
    found = []
    for side, share in by_side.items():
        if share is None:
            continue
        most = share.share if isinstance(share, Exactly) else _share(share, "capacity")
        found.append(Capacity(side, most, most if isinstance(share, Exactly) else 0.0))
    if not found:
        raise InputError(f"capacity: got {given!r}, which requires nothing; pass a share such as 0.1, or None.")
    return tuple(found)


def _share(value: object, where: str) -> float:
    number = as_number(value)
    if not 0.0 < number <= 1.0:
        raise InputError(f"{where}: got {value!r}; the share of people selected is above 0 and at most 1, such as 0.1.")
    return number


def _overrides(site_tolerances: object, sites: Codes, *, of_shares: bool) -> dict[Label, Tolerance]:
    """Check the tolerances of single sites."""
    if site_tolerances is None:
        return {}
    if not isinstance(site_tolerances, Mapping):
        raise InputError(f"site_tolerances: got {site_tolerances!r}; pass a mapping from site to tolerance.")
    if site_tolerances and sites.names == (None,):
        raise InputError("site_tolerances: names sites, but sites= is missing; pass the site of each row.")
    check_sites(site_tolerances, sites, "site_tolerances")
    return {
        name: check_tolerance(tolerance, f"site_tolerances: site {name!r}", of_shares=of_shares)
        for name, tolerance in site_tolerances.items()
    }


def tolerance_of(requirement: Requirement) -> float:
    """The tolerance as a number: infinity where the rate is free."""
    return np.inf if requirement.tolerance is None else requirement.tolerance


def _finite(tolerance: float) -> float | None:
    return float(tolerance) if np.isfinite(tolerance) else None


def check_tolerance(tolerance: object, where: str, *, of_shares: bool = False) -> Tolerance:
    """Return a tolerance as a float of at least 0, a ratio of shares, or None; raise otherwise.

    ``of_shares`` says that the rates lie between 0 and 1, so that a tolerance of 1 would require nothing; rates of the
    user's own may be counted in anything, up to numbers with which nothing can be computed.
    """
    if tolerance is None or (isinstance(tolerance, Ratio) and of_shares):
        return tolerance
    if isinstance(tolerance, Ratio):
        raise InputError(f"{where}: got {tolerance}, but a ratio compares shares of people; use a tolerance.")
    value = as_number(tolerance)
    if np.isnan(value):
        raise InputError(f"{where}: a tolerance is a number from 0 to 1, or None for no constraint; got {tolerance!r}.")
    if not np.isfinite(value) or value < 0:
        raise InputError(
            f"{where}: a tolerance must be finite and at least 0, got {value!r}; use None for no constraint."
        )
    if of_shares and value >= 1.0:
        raise InputError(
            f"{where}: got {value:g}; rates lie between 0 and 1, so a tolerance is below 1: write 0.02 for 2 percent, "
            "or None for no constraint."
        )
    if value > LARGEST_TOLERANCE:
        raise InputError(f"{where}: got {value:g}, which no gap exceeds; use None for no constraint.")
    return 0.0 if value < SMALLEST_TOLERANCE else value


def side_requirements(notion: NotionLike, tolerance: object, where: str) -> tuple[Requirement, ...]:
    """Spell one side's notion and tolerance out as requirements on single rates.

    A mapping carries its own tolerances, one per notion; ``tolerance`` then only says whether the side
    is constrained at all (``None``: it is not).
    """
    if isinstance(notion, Mapping):
        if not notion:
            raise InputError(f"notion: the mapping for the {where} side is empty; name at least one notion.")
        default = tolerance if isinstance(tolerance, Ratio) else check_tolerance(tolerance, f"{where}_tolerance")
        named = [(named_notion(key, "notion"), t, f"notion: {where} tolerance of {key!r}") for key, t in notion.items()]
        pairs = [(item, check_tolerance(t, what, of_shares=item.of_shares)) for item, t, what in named]
    else:
        item = named_notion(notion, "notion")
        default = check_tolerance(tolerance, f"{where}_tolerance", of_shares=item.of_shares)
        pairs = [(item, default)]
    required = [(item, None if default is None else own) for item, own in pairs]
    return tuple(
        Requirement(item.name, rate, None, own.least) if isinstance(own, Ratio) else Requirement(item.name, rate, own)
        for item, own in required
        for rate in item.rates
    )
