"""What is promised for new rows: per requirement and site certified, or what it would take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from logofair.auditing.certification import rows_needed, single_rows_needed
from logofair.auditing.measure import counting_labels, counts_rows
from logofair.auditing.result import aligned
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import plain
from logofair.columns.segments import Booleans, Indices
from logofair.notions import Rate
from logofair.outcomes import MET, NEW_ROWS, UNCLEAR, Outcome, Outcomes
from logofair.policy.info import PromiseInfo, PromisesInfo
from logofair.requirement import TODAY, People, Requirement
from logofair.requirements import RateLimit, Requirements, tolerance_of

CERTIFIED, CANNOT, NOT_REQUIRED = "certified", "cannot certify", "not asked"
BY_RANK, HELD_OUT = "by rank", "on rows held out"
RATES = (0.05, 0.95)  # rows needed are told for rates between these: at 0 the approximation would need none
_LISTED = 12  # promises of a table for people; more are counted
_NAMED = 3  # of those, the ones that are farthest from a promise


_KINDS = {
    ("gap", "<="): "gap",
    ("ratio", ">="): "ratio",
    ("rate", ">="): "floor",
    ("rate", "<="): "ceiling",
    ("accepted", "<="): "capacity",
    ("accepted", "="): "exact capacity",
}

# What is promised of a rate, by the kind of the requirement.
_CLAIMS = {
    "gap": "the gap of the {rate}{where} is within {value:g}",
    "ratio": "the smallest {rate} of any group{where} is at least {value:g} times the largest",
    "floor": "the {rate} of {of}{where} is at least {value:g}",
    "ceiling": "the {rate} of {of}{where} is at most {value:g}",
    "capacity": "the share selected{where} is at most {value:g}",
    "exact capacity": "the share selected{where} is exactly {value:g}",
}
_SUBJECTS = {
    "gap": "the gap{where}",
    "ratio": "the ratio of the {rate}{where}",
    "floor": "the {rate} of {of}{where}",
    "ceiling": "the {rate} of {of}{where}",
    "capacity": "the share selected{where}",
    "exact capacity": "the share selected{where}",
}
_REQUIRED = {"gap": "tolerance", "exact capacity": "capacity"}  # what other numbers are called is their kind


@dataclass(frozen=True)
class Promise:
    """One gap of new rows, inside a site or over all of them; or a ratio, a floor, a ceiling or a capacity.

    Attributes
    ----------
    side : str
        ``"local"`` or ``"global"``; ``rate``: of what; ``site``: where (None: over all sites, or there is one).
    tolerance : float or None
        What was required: the tolerance, or the ratio, floor, ceiling or capacity; None: nothing.
    status : str
        ``"certified"``, ``"cannot certify"`` or ``"not asked"``.
    bound : float or None
        What the gap of new rows stays below with the confidence asked for, this gap by itself. All certified gaps stay
        within their tolerances together, which takes more: a bound just below its tolerance may not be enough. A ratio
        and a rate with a floor stay above theirs.
    group, rows : label and int, or None
        The group with the fewest rows that count here, and how many they are.
    rows_needed : int or None
        How many rows of every group it would take to certify the tolerance; None: no number would do.
    reason : str
        Why it cannot be certified.
    kind : str
        ``"gap"``, ``"ratio"``, ``"floor"``, ``"ceiling"``, ``"capacity"`` or ``"exact capacity"``.
    of_group : label or None
        Whose floor or ceiling it is; None: every group's.

    Examples
    --------
    >>> print(Promise("local", "selection rate", 7, 0.1, "certified", bound=0.083))
    certified: the gap of the selection rate inside site 7 is within 0.1 (bound 0.0830)
    """

    side: str
    rate: str
    site: Label | None
    tolerance: float | None
    status: str
    bound: float | None = None
    group: Label | None = None
    rows: int | None = None
    rows_needed: int | None = None
    reason: str = ""
    kind: str = "gap"
    of_group: Label | None = None

    def __str__(self) -> str:
        if self.status == CANNOT:
            return f"{self.status}: {self.reason}"
        if self.status == NOT_REQUIRED:
            return f"{self.status}: {self.reason or self.what}"
        return f"{self.status}: {self.claim} (bound {self.bound:.4f})"

    @property
    def claim(self) -> str:
        """What was required, as a statement about new rows."""
        return self._worded(_CLAIMS)

    @property
    def subject(self) -> str:
        """What it is about, and where."""
        return self._worded(_SUBJECTS)

    @property
    def what(self) -> str:
        """What it is about, for a line of a table."""
        return self.rate if self.kind == "gap" else replace(self, side="local", site=None).subject[4:]

    def _worded(self, sentences: Mapping[str, str]) -> str:
        of = "every group" if self.of_group is None else f"group {self.of_group!r}"
        return sentences[self.kind].format(rate=self.rate, where=self.where, of=of, value=self.tolerance or 0.0)

    @property
    def place(self) -> str:
        """Where the gap is, for a line of a table."""
        if self.side == "global":
            return "over all sites"
        return "between groups" if self.site is None else f"site {self.site!r}"

    @property
    def figures(self) -> list[str]:
        """Tolerance, bound, rows of the smallest group and, where these are fewer, rows needed, as text."""
        if self.status == NOT_REQUIRED:
            return ["", "", "", ""]
        short = self.status == CANNOT and self.missing > 0
        needed = "" if not short else "no number" if self.rows_needed is None else f"{self.rows_needed:,}"
        bound = "" if self.bound is None else f"{self.bound:.4f}"
        return [f"{self.tolerance:g}", bound, "" if self.rows is None else f"{self.rows:,}", needed]

    @property
    def where(self) -> str:
        """Where the gap is, in words."""
        if self.side == "global":
            return " over all sites"
        return "" if self.site is None else f" inside site {self.site!r}"

    @property
    def missing(self) -> float:
        """How many rows of the smallest group it lacks; infinite where no number would do."""
        return math.inf if self.rows_needed is None else max(0, self.rows_needed - (self.rows or 0))

    @property
    def info(self) -> PromiseInfo:
        """What a policy stores of it."""
        site, group, of = (None if name is None else str(name) for name in (self.site, self.group, self.of_group))
        found = (self.tolerance, self.status, self.bound, str(self), group, self.rows, self.rows_needed)
        return PromiseInfo(self.side, self.rate, site, *found, self.kind, of)

    @classmethod
    def of(cls, info: PromiseInfo) -> Promise:
        """The promise that a policy stores."""
        names = (each.name for each in fields(cls) if each.name != "reason")
        return cls(**{name: getattr(info, name) for name in names}, reason=info.sentence.partition(": ")[2])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        named = {name: plain(getattr(self, name)) for name in ("site", "group", "of_group")}
        return vars(self) | named | {"sentence": str(self)}


@dataclass(frozen=True, eq=False, repr=False)
class Promises(Sequence[Promise]):
    """What holds for new rows: a :class:`Promise` for every requirement and site, in order.

    All certified promises hold together with the confidence asked for, were the rows drawn again and the policy fitted
    again; for new rows drawn like the calibration rows of the same site. Made by :func:`logofair.fit`.

    Attributes
    ----------
    confidence : float or None
        None: no promises were asked for.
    method, why : str
        How they were made, ``"by rank"`` or ``"on rows held out"``, and why so, in words.
    largest_local_bound : float or None
        What the largest local gap of new rows stays below with this confidence.
    accuracy, accuracy_without : float or None
        Expected accuracy on the calibration rows with and without ``confidence``; with costs, the cost per person.
    measure : str
        Which of the two: ``"accuracy"`` or ``"cost"``.

    Examples
    --------
    >>> import numpy as np
    >>> import logofair
    >>> rng = np.random.default_rng(0)
    >>> sex, score = rng.integers(0, 2, 6000), rng.random(6000)
    >>> tolerances = {"local_tolerance": 0.1, "global_tolerance": None}
    >>> solution = logofair.fit(score, rng.random(6000) < score, sensitive_features=sex, confidence=0.95, **tolerances)
    >>> solution.promises[0].status, bool(solution.promises[0].bound < 0.1)
    ('certified', True)
    >>> logofair.fit(score, None, sensitive_features=sex, calibration="none").promises[0].status
    'not asked'
    """

    confidence: float | None
    method: str
    why: str
    entries: tuple[Promise, ...]
    largest_local_bound: float | None = None
    accuracy: float | None = None
    accuracy_without: float | None = None
    measure: str = "accuracy"

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Promise: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Promise, ...]: ...
    def __getitem__(self, index: int | slice) -> Promise | tuple[Promise, ...]:
        return self.entries[index]

    @property
    def price(self) -> float | None:
        """Expected accuracy on the calibration rows that the promises cost; below 0 where gaps there are larger.

        With costs, what they add to the cost per person.
        """
        if self.accuracy is None or self.accuracy_without is None:
            return None
        lost = self.accuracy_without - self.accuracy
        return -lost if self.measure == "cost" else lost

    def without_bounds(self, accuracy: float) -> Promises:
        """The same of the rules of a fit without confidence, of this accuracy: bounds were of those that were tried."""
        entries = tuple(replace(promise, bound=None) for promise in self.entries)
        return replace(self, entries=entries, largest_local_bound=None, accuracy=accuracy, accuracy_without=accuracy)

    def with_status(self, status: str) -> tuple[Promise, ...]:
        """Those of one status."""
        return tuple(promise for promise in self.entries if promise.status == status)

    @property
    def required(self) -> int:
        """How many gaps were to be certified: those of which something is required."""
        return sum(promise.status != NOT_REQUIRED for promise in self.entries)

    @property
    def headline(self) -> str:
        """Whether anything is certified beyond the calibration rows, in a sentence."""
        if self.confidence is None:
            return "Nothing is promised for new rows: no confidence was asked for."
        made, what = len(self.with_status(CERTIFIED)), called([promise.kind for promise in self.entries])
        price = price_words(self.price, self.measure) if made else ""
        return f"{certified_words(self.confidence, self.method, made, self.required, what)}{price}."

    def summary(self) -> str:
        """Return the promises in a few lines for people."""
        table = self.table()
        return "\n".join([self.headline, *([aligned(table)] if table else []), *self.details()])

    __repr__ = __str__ = summary

    def table(self) -> list[list[str]]:
        """Lines of a table, the first its head: each promise, or of many how many there are of a kind.

        Empty where none was asked for.
        """
        if self.confidence is None or not self.required:
            return []
        if len(self.entries) > _LISTED:
            head = [called([p.kind for p in self.entries]), CERTIFIED, "cannot", NOT_REQUIRED, "rows", "needed"]
            return [head, *(self._counted(*kind) for kind in dict.fromkeys((p.what, p.side) for p in self.entries))]
        rates, what = {promise.what for promise in self.entries}, called([promise.kind for promise in self.entries])
        named = [f"{p.what}, {p.place}" if len(rates) > 1 else p.place for p in self.entries]
        first = what if len(rates) > 1 else f"gap of the {rates.pop()}" if what == "gap" else rates.pop()
        head = [first, "", "tolerance" if what == "gap" else "required", "bound", "rows", "needed"]
        return [head, *([name, p.status, *p.figures] for name, p in zip(named, self.entries, strict=True))]

    def _counted(self, rate: str, side: str) -> list[str]:
        """How many promises of a kind have each status, with the median rows that those refused have and need."""
        those = [p for p in self.entries if (p.what, p.side) == (rate, side)]
        counts = [sum(p.status == status for p in those) for status in (CERTIFIED, CANNOT, NOT_REQUIRED)]
        refused = [p for p in those if p.status == CANNOT]
        where = "over all" if side == "global" else "inside sites"
        medians = (_median([p.rows for p in refused]), _median([p.rows_needed for p in refused]))
        return [
            f"{rate}, {where}",
            *(f"{count:,}" for count in counts),
            *("" if m is None else f"{m:,}" for m in medians),
        ]

    def details(self) -> Iterator[str]:
        """What follows the headline and the table, line by line."""
        if self.confidence is None or not self.required:
            return
        yield f"Made {self.method}: {self.why}."
        if len(self.entries) > _LISTED:
            yield from self._of_many()
        else:
            yield from map(str, self.with_status(CANNOT))
        if (
            self.largest_local_bound is not None
            and sum(p.side == "local" and p.kind == "gap" for p in self.entries) > 1
        ):
            sure = with_confidence(self.confidence)
            yield f"The largest local gap of new rows stays below {self.largest_local_bound:.4f} {sure}."
        if (price := self.price_sentence()) is not None:
            yield price

    def _of_many(self) -> Iterator[str]:
        """How many rows those lack that cannot be certified, and the first of them by name."""
        refused = sorted(self.with_status(CANNOT), key=lambda promise: -promise.missing)
        if not refused:
            return
        medians = [_median([getattr(p, name) for p in refused]) for name in ("rows", "rows_needed")]
        has, needs = ("none" if median is None else f"{median:,}" for median in medians)
        yield (
            f"Of the {len(refused):,} that cannot be certified, the median has {has} rows of its smallest group and "
            f"would need {needs}; these are the farthest from a promise."
        )
        yield from (promise.reason for promise in refused[:_NAMED])

    def price_sentence(self) -> str | None:
        """What the promises cost, and what the certificate means beside them; None where there are none."""
        if self.price is None:
            return None
        gaps = called([p.kind for p in self.entries]) == "gap"
        if not self.with_status(CERTIFIED):
            less = "ask for wider tolerances" if gaps else "require less"
            return f"Nothing is certified, so the policy is that of a fit without confidence; {less}, or add rows."
        beyond = "at gaps beyond the tolerances there" if gaps else "with requirements missed there"
        costs = self.measure == "cost"
        rows = f"expected {'cost per person' if costs else 'accuracy'} on the calibration rows"
        cost = f"The promises {'add' if costs else 'cost'} {self.price:.4f} {'to the ' if costs else ''}{rows}"
        if self.price < 0:  # no rule within the tolerances there would be better
            cost = f"With the promises {rows} is {-self.price:.4f} {'lower' if costs else 'higher'}, {beyond}"
        within = "within the tolerances" if gaps else "that meets them"
        return (
            f"{cost} ({self.accuracy_without:.4f} without, {self.accuracy:.4f} with them); the certificate still "
            f"bounds what any rule {within} on these rows could reach, promises or not."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("confidence", "method", "why", "largest_local_bound", "accuracy", "accuracy_without", "price")
        figures = {name: getattr(self, name) for name in names}
        counts = {status: len(self.with_status(status)) for status in (CERTIFIED, CANNOT, NOT_REQUIRED)}
        needed = _median([promise.rows_needed for promise in self.with_status(CANNOT)])
        listed = {"promises": [promise.as_dict() for promise in self.entries]}
        return figures | {"counts": counts, "median_rows_needed": needed} | listed

    def outcomes(self, requirements: Iterable[Requirement]) -> Outcomes:
        """What is certified of each requirement, for new rows; nothing where no confidence was asked for."""
        asked = [promise for promise in self.entries if promise.status != NOT_REQUIRED]
        return Outcomes(tuple(found for each in requirements for found in _certified(each, asked)))

    @property
    def info(self) -> PromisesInfo | None:
        """What a policy stores of them; None where none were asked for."""
        if self.confidence is None:
            return None
        price, every = self.price or 0.0, tuple(promise.info for promise in self.entries)
        largest = self.largest_local_bound
        return PromisesInfo(self.confidence, self.method, price, every, self.why, largest, self.measure)

    @classmethod
    def of(cls, info: PromisesInfo, accuracy: float | None = None) -> Promises:
        """The promises that a policy stores, whose expected accuracy on the calibration rows is this."""
        every = tuple(map(Promise.of, info.promises))
        without = None if accuracy is None else accuracy + (-info.price if info.measure == "cost" else info.price)
        largest = info.largest_local_bound
        return cls(info.confidence, info.method, info.why, every, largest, accuracy, without, info.measure)


def _certified(requirement: Requirement, promises: Sequence[Promise]) -> Iterator[Outcome]:
    """The outcome of a requirement at every site: of several rates or groups all must be certified."""
    kind = _KINDS.get((requirement.measure, requirement.relation))
    if kind is None or (requirement.measure == "rate" and requirement.who == ((),)):
        return  # nothing is certified of rates of everyone, nor of differences
    rates = [rate.name for rate in requirement.rates or (SELECTED,)]
    alone = all(promise.side == "local" and promise.site is None for promise in promises)
    whose = [group for population in requirement.who for group in population]

    def is_of(promise: Promise) -> bool:
        there = alone or (
            requirement.scope.is_global if promise.side == "global" else requirement.scope.covers(promise.site)
        )
        same_group = not whose or promise.of_group is None or str(promise.of_group) in whose
        same_bound = requirement.bound in (TODAY, promise.tolerance) or isinstance(requirement.bound, People)
        return there and promise.kind == kind and promise.rate in rates and same_group and same_bound

    by_site: dict[Label | None, list[Promise]] = {}
    for promise in filter(is_of, promises):
        by_site.setdefault(promise.site, []).append(promise)
    for site, found in by_site.items():
        bounds = [promise.bound for promise in found if promise.bound is not None]
        known, least = len(bounds) == len(found), kind in ("ratio", "floor")
        smallest = min(found, key=lambda promise: promise.rows or 0)
        needed = [promise.rows_needed for promise in found]
        yield Outcome(
            requirement,
            site,
            found[0].tolerance,
            before=None,
            after=None,
            low=min(bounds) if known and least else None,
            high=max(bounds) if known and not least else None,
            rows=smallest.rows,
            state=MET if all(promise.status == CERTIFIED for promise in found) else UNCLEAR,
            basis=NEW_ROWS,
            rows_needed=None if None in needed else max(each for each in needed if each is not None),
            rate=smallest.rate,
            groups=() if smallest.group is None else (smallest.group,),
        )


def with_confidence(confidence: float) -> str:
    """A confidence in words, never rounded up to certainty.

    Examples
    --------
    >>> with_confidence(0.95), with_confidence(0.9999999)
    ('with 95% confidence', 'with 99.99999% confidence')
    """
    return f"with {100 * confidence:.12g}% confidence"


def called(kinds: Iterable[str]) -> str:
    """What promises of these kinds are about: gaps, or requirements of any kind."""
    return "gap" if set(kinds) <= {"gap"} else "requirement"


def certified_words(confidence: float, method: str, made: int, required: int, what: str = "gap") -> str:
    """How many gaps are certified for new rows, with which confidence and how, in words without a full stop.

    Examples
    --------
    >>> certified_words(0.95, "by rank", 3, 4)
    'Partly certified for new rows: 3 of 4 required gaps, with 95% confidence, by rank'
    >>> certified_words(0.95, "by rank", 4, 4)
    'Certified for new rows: all 4 required gaps together, with 95% confidence, by rank'
    """
    sure = with_confidence(confidence)
    if not required:
        return f"Nothing is promised for new rows {sure}: nothing is required"
    what = "required gap" if what == "gap" else what
    all_gaps = f"the {what}" if required == 1 else f"all {required:,} {what}s together"
    if made == required:
        return f"Certified for new rows: {all_gaps}, {sure}, {method}"
    none = f"the {what}" if required == 1 else f"none of the {required:,} {what}s"
    some = f"Partly certified for new rows: {made:,} of {required:,} {what}s"
    return f"{some if made else f'Not certified for new rows: {none}'}, {sure}, {method}"


def price_words(price: float | None, measure: str) -> str:
    """What promises cost, as it follows what is certified; empty where that is not known.

    Examples
    --------
    >>> price_words(0.00417, "accuracy"), price_words(-0.001, "accuracy"), price_words(None, "accuracy")
    (', for 0.0042 of expected accuracy', ', at no price', '')
    """
    if price is None:
        return ""
    what = "expected accuracy" if measure == "accuracy" else "expected cost per person"
    return f", for {price:.4f} of {what}" if price >= 0.00005 else ", at no price"


def _median(numbers: list[int | None]) -> int | None:
    """The median of those known; None where there is none."""
    known = [number for number in numbers if number is not None]
    return round(float(np.median(known))) if known else None


@dataclass(frozen=True, eq=False)
class Claim:
    """What is to be promised of one rate, at every site or over all of them.

    ``group`` is the number of the group whose floor or ceiling it is; None: of every group. ``values`` is what is
    required, (sites,) or (1,); NaN: nothing.
    """

    side: str
    kind: str
    rate: Rate
    values: Floats
    group: int | None = None

    @property
    def required(self) -> Booleans:
        """Where something is."""
        return np.asarray(np.isfinite(self.values))

    @property
    def alone(self) -> bool:
        """Whether it is about one rate, not about several that are compared."""
        return self.group is not None or self.kind.endswith("capacity")

    def columns(self, by_group: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What it rests on, of what was counted by group, (places, groups): all of it, or of one group, or summed."""
        if self.kind.endswith("capacity"):
            return np.asarray(by_group.sum(axis=1, keepdims=True))
        return by_group if self.group is None else by_group[:, self.group : self.group + 1]

    def promise(self, site: Label | None, value: float | None, groups: tuple[Label, ...]) -> Promise:
        """The promise at a place, whose status is still to be found."""
        of = None if self.group is None else groups[self.group]
        return Promise(self.side, self.rate.name, site, value, CERTIFIED, kind=self.kind, of_group=of)


def claims_of(requirements: Requirements, today: Today | None = None) -> list[Claim]:
    """What is to be promised, the local requirements first.

    Without ``today`` the floors and ceilings that go by the rule that nothing is required of are not known.
    """
    found = []
    sides = (
        ("local", requirements.local, requirements.tolerances.T, requirements.ratios.T),
        (
            "global",
            requirements.global_,
            np.array([[tolerance_of(r)] for r in requirements.global_]),
            np.array([[r.ratio or 0.0] for r in requirements.global_]),
        ),
    )
    for side, items, tolerances, least in sides:
        for item, tolerance, ratio in zip(items, tolerances, least, strict=True):
            if np.isfinite(tolerance).any() or not (ratio > 0).any():
                found.append(Claim(side, "gap", item.rate, np.where(np.isfinite(tolerance), tolerance, np.nan)))
            if (ratio > 0).any():
                found.append(Claim(side, "ratio", item.rate, np.where(ratio > 0, ratio, np.nan)))
        for limit in requirements.limits:
            if limit.side == side:
                found += _limit_claims(limit, requirements.groups, today)
        for each in requirements.capacities:
            if each.side == side and np.isfinite(each.most):
                kind = "exact capacity" if each.least == each.most else "capacity"
                found.append(Claim(side, kind, SELECTED, np.where(each.at, each.most, np.nan)))
    return found


SELECTED = Rate("share selected", 1.0, 0.0)  # of all people

# The floors or ceilings of a requirement that goes by what the groups have without any, (places, groups).
Today: TypeAlias = Callable[[RateLimit], Floats]


def _limit_claims(limit: RateLimit, groups: tuple[Label, ...], today: Today | None) -> Iterator[Claim]:
    """A floor or a ceiling; one by what the groups have today is of each group by itself."""
    own = None if limit.group is None else groups.index(limit.group)
    if limit.value is not None or today is None:
        value = np.nan if limit.value is None else limit.value
        yield Claim(limit.side, limit.kind, limit.rate, np.where(limit.at, value, np.nan), own)
        return
    rates = today(limit)
    for group in range(len(groups)) if own is None else (own,):
        yield Claim(limit.side, limit.kind, limit.rate, np.where(limit.at, rates[:, group], np.nan), group)


def none_made(requirements: Requirements, confidence: float | None = None) -> Promises:
    """Nothing is promised: one entry per requirement, not one per site."""
    entries = []
    for claim in claims_of(requirements):
        every = np.unique(claim.values[claim.required])
        required = every.size > 0 or claim.kind in ("floor", "ceiling")
        given = confidence is None and required
        reason = "no confidence was given" if given else f"nothing is required of the {claim.rate.name}"
        value = _common(requirements, claim)
        entries.append(replace(claim.promise(None, value, requirements.groups), status=NOT_REQUIRED, reason=reason))
    return Promises(confidence, "", "nothing is required", tuple(entries))


def _common(requirements: Requirements, claim: Claim) -> float | None:
    """What is required of most sites: the number that is not of single ones."""
    items = requirements.local if claim.side == "local" else requirements.global_
    for item in items:
        if item.rate == claim.rate and claim.kind in ("gap", "ratio"):
            return item.tolerance if claim.kind == "gap" else item.ratio
    return float(claim.values[0]) if claim.required.any() else None


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of every claim, place by place: site by site, or over all."""

    made: Booleans  # (promises,): certified together with the others
    bounds: Floats  # (promises,): of each by itself; NaN where there is none
    counts: Sequence[Indices]  # for each: rows that count in the rate, (groups it rests on,)
    rates: Sequence[Floats]  # for each: (groups it rests on,)


@dataclass(frozen=True)
class Needs:
    """What a promise takes."""

    errors: float  # standard errors between the gap and the tolerance
    gap: float  # the true gap that is reckoned with, as a share of the tolerance
    share: float  # of the rows that place or test
    how: str  # the way, the correction and the power, in words
    counts: str = "rows"  # what is counted: rows, or people who have several

    def rows(self, rates: Floats, promise: Promise) -> int | None:
        """Rows of every group; None where no number suffices."""
        known, value = np.clip(rates[~np.isnan(rates)], *RATES), promise.tolerance or 0.0
        if promise.kind == "gap":
            rate = float(known[np.argmin(np.abs(known - 0.5))]) if known.size else 0.5
            needed = float(self.at(rate, value))
        elif promise.kind == "ratio":
            rate = float(known.min()) if known.size else 0.5
            needed = float(self.at(rate, (1.0 - value) * rate / value))
        else:
            room = (known.min() - value if promise.kind == "floor" else value - known.max()) if known.size else 0.0
            rate = float(known.min() if promise.kind == "floor" else known.max()) if known.size else 0.5
            needed = math.ceil(single_rows_needed(rate, room, self.errors) / self.share) if room > 0 else math.inf
        return int(needed) if math.isfinite(needed) else None

    def at(self, rate: Floats | float, tolerance: Floats | float) -> Floats:
        """Rows of every group for these rates and tolerances; infinity where no number suffices."""
        return np.ceil(rows_needed(rate, tolerance, self.gap * np.asarray(tolerance), self.errors) / self.share)


def stated(
    requirements: Requirements,
    claims: Sequence[Claim],
    sites: tuple[Label | None, ...],
    groups: tuple[Label, ...],
    found: Found,
    needs: Needs,
    because: str = "",
) -> Iterator[Promise]:
    """What was found, as promises; ``because``: why none could be made, where that is known beforehand."""
    place = 0
    for each in claims:
        where = sites if each.side == "local" else (None,)
        for at, (site, value) in enumerate(zip(where, each.values.tolist(), strict=True)):
            if math.isfinite(value):
                yield _stated(each.promise(site, value, groups), each, groups, found, place, needs, because)
            elif each.kind == "gap" and not _has_ratio(requirements, each, at):
                free = replace(each.promise(site, None, groups), status=NOT_REQUIRED)
                yield replace(free, reason=f"nothing is required of the {each.rate.name}{free.where}")
            place += 1


def _has_ratio(requirements: Requirements, claim: Claim, site: int) -> bool:
    """Whether a ratio is required at a site where no tolerance is."""
    if claim.side == "global":
        return False
    rate = [item.rate for item in requirements.local].index(claim.rate)
    return bool(requirements.ratios[site, rate] > 0)


def _stated(
    start: Promise, claim: Claim, groups: tuple[Label, ...], found: Found, place: int, needs: Needs, because: str
) -> Promise:
    counts, bound = found.counts[place], float(found.bounds[place])
    least = int(counts.argmin())
    group = start.of_group if claim.alone else groups[least]
    promise = replace(
        start,
        bound=None if math.isnan(bound) else bound,
        group=group,
        rows=int(counts[least]),
        rows_needed=needs.rows(found.rates[place], start),
    )
    reason = because or _why_not(promise, claim.rate, needs)
    return promise if found.made[place] else replace(promise, status=CANNOT, reason=reason)


def _why_not(promise: Promise, rate: Rate, needs: Needs) -> str:
    """Why a promise cannot be made."""
    if promise.kind == "exact capacity":
        return (
            f"{promise.subject} is met in expectation, so that no number of rows shows that it is {promise.tolerance:g}"
        )
    if not counts_rows(rate):
        return f"the {rate.name} is no share of rows, so no bound of its gap{promise.where} is known"
    labels, count, needed = counting_labels(rate), promise.rows or 0, promise.rows_needed
    of_group = f" of group {promise.group!r}" if promise.group is not None else ""
    of_group += f" with label {labels[0]}" if len(labels) == 1 else ""
    has = "there are" if promise.site is None else f"site {promise.site!r} has"
    if count == 0:
        return f"{has} no {needs.counts}{of_group}"
    if needed is None and promise.kind in ("gap", "ratio"):
        claim = f"a gap{promise.where} is within {promise.tolerance:g}" if promise.kind == "gap" else promise.claim
        return f"no number of {needs.counts} shows that {claim}"
    if (needed is not None and count < needed) or promise.bound is None:
        one = {"rows": "row", "people": "person"}[needs.counts]
        rows, more = (
            f"{count:,} {one if count == 1 else needs.counts}{of_group}",
            "more" if needed is None else f"{needed:,}",
        )
        return f"{has} {rows}; {more} would be needed for {promise.tolerance:.2f} ({needs.how})"
    shown = f"the bound of {promise.subject} is {promise.bound:.4f} on {count:,} {needs.counts}{of_group} or more"
    return f"{shown}; the {_REQUIRED.get(promise.kind, promise.kind)} is {promise.tolerance:g} ({needs.how})"
