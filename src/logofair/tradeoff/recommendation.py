"""``logofair.recommend``: the tightest limits that these rows can certify for new people, and what they cost.

Whoever tries many limits and keeps the tightest that passes a test is wrong far more often than the test. So the error
is split over the notions that are tried. By rank, where certificates follow from numbers of rows alone, any search is
free. On rows held out a few limits are tried, told beforehand by numbers of people, and share the error. (Limits in a
fixed sequence from the loosest on would each have all of it, but a fit spends what a limit allows: each step fails with
a chance of about 20%, however loose it is, so that the sequence ends long before the limit that could be certified.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from logofair.auditing.certification import held_out_errors, rows_needed
from logofair.auditing.measure import counting_labels
from logofair.columns.checks import Label, random_number
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InputError
from logofair.fitting.certifying import (
    BY_RANK,
    CalibrationSplit,
    certify_for_new_rows,
    check_confidence,
    split_rows,
)
from logofair.fitting.solving import (
    FitSettings,
    Prepared,
    Solved,
    checked_pooling,
    checked_rows,
    prepare,
    solve_prepared,
)
from logofair.notions import NOTIONS, Notion, NotionLike, Rate, named_notion
from logofair.outcomes import MET, TRUE_GAP, Outcomes
from logofair.policy.mixtures import evaluate
from logofair.progress import Progress, no_progress
from logofair.records import Result
from logofair.reportable import Reportable
from logofair.requirements import USUAL_TOLERANCE, Requirements, make_requirements

LIMITS = (0.2, 0.15, 0.1, 0.08, 0.05, 0.03, 0.02, 0.01)  # looser ones nobody would call fair
_TRIES = 3  # on rows held out
_ENOUGH = 0.5  # a limit inside sites is recommended where it is certified for sites with this share of the people
_VOID = 2.0  # a limit on gaps says little where the rate over everybody is less than this many times as large
_CONFIDENCE_STEPS = 1e6  # a line's confidence is rounded up to this, so that it can be typed, where that is below 1


@dataclass(frozen=True, eq=False)
class RecommendedLimits(Result):
    """What these rows can certify of one notion.

    Attributes
    ----------
    notion : str
        What is fair, and ``rates``: which rates that compares.
    local_limit, global_limit : float or None
        The tightest limits inside sites and over all that can be certified; None: none can.
    confidence : float
        What the line takes of the confidence asked for, so that all lines hold together.
    method : str
        ``"by rank"`` or ``"on rows held out"``.
    certified : Outcomes
        What is claimed for new rows, all of it with this confidence: over all, and at each site that is claimed.
    too_small : tuple of labels
        Sites at which the limit cannot be certified.
    value, unlimited, usual : float
        Expected accuracy (or cost per person) on these rows: with these limits certified, without any, and of the plain
        fit that requires 0.02 inside sites and over all and certifies nothing.
    share : float
        How large the compared rate is over everybody under these rules: limits near or above it say little.
    rows_needed : int or None
        Where nothing can be certified: people of every group that the loosest limit would take.

    Examples
    --------
    >>> from logofair import recommend
    >>> rows = {"sensitive_features": ["a", "b"] * 2000, "calibration": "none"}
    >>> (line,) = recommend([0.9, 0.8, 0.3, 0.2] * 1000, None, **rows).lines
    >>> line.global_limit, line.method, len(line.certified)
    (0.05, 'by rank', 1)
    """

    notion: str
    rates: tuple[Rate, ...]
    local_limit: float | None
    global_limit: float | None
    confidence: float
    method: str
    certified: Outcomes
    too_small: tuple[Label, ...]
    value: float
    unlimited: float
    usual: float
    share: float
    rows_needed: int | None

    @property
    def found(self) -> bool:
        """Whether there is anything to recommend."""
        return self.local_limit is not None or self.global_limit is not None

    @property
    def sites(self) -> tuple[Label, ...]:
        """The sites at which the limit is certified."""
        return tuple(each.site for each in self.certified if each.site is not None)

    @property
    def price(self) -> float:
        """What it costs against no limits at all: accuracy, or cost per person."""
        return abs(self.unlimited - self.value)

    @property
    def is_void(self) -> bool:
        """Whether the rate is so low that gaps within these limits say little: a ratio would say more."""
        limits = [limit for limit in (self.local_limit, self.global_limit) if limit is not None]
        return bool(limits) and self.share < _VOID * max(limits)

    @property
    def arguments(self) -> dict[str, Any]:
        """What :func:`logofair.fit` must be given, beside the rows and as ``random_state`` the recommendation's."""
        limits = {"local_tolerance": self.local_limit, "global_tolerance": self.global_limit}
        notion = self.notion if self.notion in NOTIONS else Notion(self.notion, given=self.rates)
        return {"notion": notion, **limits, "confidence": self.confidence}

    def in_json(self) -> dict[str, Any]:
        """Return its fields, the rates by name."""
        return vars(self) | {"rates": [rate.name for rate in self.rates]}


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation(Reportable):
    """The tightest limits that these rows can certify, one line for each notion; made by :func:`recommend`.

    All that is claimed in all lines holds for new people with the confidence asked for, were the rows drawn again.

    Examples
    --------
    >>> from logofair import recommend
    >>> rows = {"sensitive_features": ["a", "b"] * 10, "calibration": "none"}
    >>> found = recommend([0.9, 0.2] * 10, None, **rows)
    >>> found, found.best
    (Recommendation(demographic_parity: nothing), None)
    """

    lines: tuple[RecommendedLimits, ...]
    confidence: float
    random_state: int
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]
    rows: int
    objective: str  # accuracy, or cost per person

    @property
    def best(self) -> RecommendedLimits | None:
        """The line to begin with: the tightest that says something, inside sites before over all; then the cheapest."""
        found = [line for line in self.lines if line.found]

        def order(line: RecommendedLimits) -> tuple[bool, bool, float, float]:
            limit = line.global_limit if line.local_limit is None else line.local_limit
            return line.is_void, line.local_limit is None, limit or 0.0, line.price

        return min(found, key=order, default=None)

    def __repr__(self) -> str:
        found = (f"{line.notion}: {line.arguments if line.found else 'nothing'}" for line in self.lines)
        return f"Recommendation({', '.join(found)})"


def recommend(
    scores: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    notion: NotionLike | Iterable[NotionLike] | None = None,
    confidence: float = 0.95,
    costs: object = None,
    basis: str = "eta",
    calibration: str = "beta",
    pooling: str = "auto",
    ids: object = None,
    sample_weight: object = None,
    random_state: int = 0,
    progress: Progress = no_progress,
) -> Recommendation:
    """Find the tightest limits that these rows can certify for new people, by really fitting and certifying.

    Parameters
    ----------
    scores, labels, sensitive_features, sites, costs, basis, calibration, pooling, ids, sample_weight
        As in :func:`logofair.fit`.
    notion : str, Notion, or several, optional
        What may be meant by fair; by default every notion that the labels given allow.
    confidence : float
        With which all that is claimed, in all lines, holds for new people.
    random_state : int
        Of folds and splits. It is part of what is claimed: another split gives other limits, and whoever tries many and
        keeps the best is wrong more often than is said.
    progress : Progress, optional
        ``progress(steps, what, total)`` passes steps through and shows how many are done.

    Returns
    -------
    Recommendation
        ``lines`` with limits, sites, cost and the arguments of the fit that certifies them; ``best``, ``summary()``.

    Notes
    -----
    The error is split over the notions. By rank certificates follow from numbers of rows, so any search is free; on
    rows held out at most three limits, named beforehand by numbers of people, share the error.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair import recommend
    >>> rng = np.random.default_rng(0)
    >>> sex, score = rng.integers(0, 2, 6000), rng.random(6000)
    >>> rows = (score, rng.random(6000) < score)
    >>> found = recommend(*rows, sensitive_features=sex, notion="demographic_parity")
    >>> found.best.global_limit, found.best.confidence
    (0.05, 0.95)
    """
    rows = checked_rows(scores, labels, sensitive_features, sites, sample_weight, calibration, basis, ids)
    level, number = check_confidence(confidence), random_number(random_state)
    if level is None:
        raise InputError("confidence: got None; pass a number above 0 and below 1, such as 0.95.")
    settings = FitSettings(calibration, basis, checked_pooling(pooling, basis), number)
    notions = _notions(notion, labelled=rows.labels is not None)
    own = _confidence_of((1.0 - level) / len(notions))

    def required(each: Notion, local: float | None, over_all: float | None) -> Requirements:
        return make_requirements((), each, local, over_all, rows.sites, rows.groups, costs=costs)

    (prepared,) = progress((prepare(rows, settings) for _ in range(1)), "Calibrating", 1)
    nothing = solve_prepared(prepared, required(notions[0], None, None), settings).own_value
    searches = (_Search(each, required, prepared, settings, own) for each in notions)
    lines = progress((each.line(nothing) for each in searches), "Trying limits", len(notions))
    objective, names = "accuracy" if costs is None else "cost", (rows.groups.names, rows.sites.names)
    return Recommendation(tuple(lines), level, number, *names, rows.scores.size, objective)


def _notions(given: NotionLike | Iterable[NotionLike] | None, *, labelled: bool) -> tuple[Notion, ...]:
    """What may be meant by fair: the notions named, or all that can be certified with or without labels."""
    if given is None:
        every = tuple(NOTIONS.values())
        return every if labelled else tuple(n for n in every if not any(rate.needs_labels for rate in n.rates))
    named = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if not named:
        raise InputError("notion: got none; name one or more, or leave it out for all.")
    return tuple(dict.fromkeys(named_notion(each, "notion") for each in named))


@dataclass(frozen=True, eq=False)
class _Tried:
    """Limits that were tried, and which of the outcomes may be claimed."""

    local: float | None
    over_all: float | None
    rules: Solved
    claimed: Outcomes


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for the tightest limits of one notion, on one split that is fixed beforehand."""

    notion: Notion
    required: Callable[[Notion, float | None, float | None], Requirements]
    prepared: Prepared
    settings: FitSettings
    confidence: float

    @cached_property
    def split(self) -> CalibrationSplit:
        """Who chooses rules and who certifies them: that of the fit which certifies the same again."""
        return split_rows(self.prepared, self.required(self.notion, None, LIMITS[0]), self.settings)

    def line(self, unlimited: float) -> RecommendedLimits:
        """What can be certified of the notion, and what it costs."""
        by_rank = self.split.method == BY_RANK
        tries = [] if by_rank else self._tries()
        # Each try on rows held out may be wrong by itself: they share the error, which the printed command then has.
        confidence = _confidence_of((1.0 - self.confidence) / max(len(tries), 1))
        tried = (self._tried(*limits, confidence) for limits in tries)
        found = self._by_rank() if by_rank else next(filter(self._is_enough, tried), None)
        usual = self.required(self.notion, USUAL_TOLERANCE, USUAL_TOLERANCE)
        last = found or self._tried(None, LIMITS[0], confidence)
        solved, sites = last.rules, {each.site for each in last.claimed}
        small = (
            ()
            if found is None or found.local is None
            else tuple(n for n in self.prepared.rows.sites.names if n not in sites)
        )
        return RecommendedLimits(
            notion=self.notion.name,
            rates=self.notion.rates,
            local_limit=None if found is None else found.local,
            global_limit=None if found is None else found.over_all,
            confidence=confidence,
            method=self.split.method,
            certified=Outcomes() if found is None else found.claimed,
            too_small=small,
            value=solved.certificate.primal,
            unlimited=unlimited,
            usual=solve_prepared(self.prepared, usual, self.settings).own_value,
            share=_share(solved, self.notion.rates[0]),
            rows_needed=None if found else last.rules.certified[0].rows_needed,
        )

    def _tried(self, local: float | None, over_all: float | None, confidence: float) -> _Tried:
        requirements = self.required(self.notion, local, over_all)
        rules = certify_for_new_rows(self.split, requirements, confidence, self.settings)
        return _Tried(local, over_all, rules, rules.certified.where(state=MET))

    def _by_rank(self) -> _Tried | None:
        """The tightest limit inside enough sites, then the tightest over all beside it: here any search is free."""
        inside, local = None, None
        if self.prepared.rows.has_sites:
            inside = _tightest(lambda limit: self._tried(limit, None, self.confidence), self._is_enough)
            local = None if inside is None else inside.local
        return _tightest(lambda limit: self._tried(local, limit, self.confidence), self._is_enough) or inside

    def _tries(self) -> list[tuple[float | None, float | None]]:
        """The few tightest limits for which there are people enough, the tightest first.

        They are told from numbers of people and from the rows that choose, before anybody looks at how the others are
        decided on.
        """
        rows, shape = self.prepared.rows, self.prepared.rows.shape
        part = solve_prepared(self.split.part, self.required(self.notion, None, None), self.settings)
        errors = held_out_errors((1.0 - self.confidence) / _TRIES, len(self.notion.rates) * (shape[0] + 1))
        counts, shares = [], []
        for rate in self.notion.rates:
            tests = ~self.split.chooses
            if rows.labels is not None:
                tests &= np.isin(rows.labels, counting_labels(rate))
            counts.append(np.bincount(rows.cells[tests], minlength=shape[0] * shape[1]).reshape(shape))
            shares.append(np.clip(_share(part, rate), 0.05, 0.95))

        def enough(limit: float, of: list[Indices]) -> Booleans:
            """At which places every group has the people that the limit takes."""
            takes = [rows_needed(share, limit, TRUE_GAP * limit, errors) for share in shares]
            return np.asarray(
                np.logical_and.reduce([each.min(axis=-1) >= least for each, least in zip(of, takes, strict=True)])
            )

        over_all = [limit for limit in reversed(LIMITS) if enough(limit, [each.sum(axis=0) for each in counts])]
        inside = [
            limit
            for limit in reversed(LIMITS)
            if self.prepared.rows.has_sites and self._are_enough(enough(limit, counts))
        ]
        pairs = zip_longest(inside[:_TRIES], over_all[:_TRIES]) if inside else ((None, limit) for limit in over_all)
        return list(islice(pairs, _TRIES))

    def _is_enough(self, tried: _Tried) -> bool:
        """Whether all that was asked for is certified over all, and inside sites at enough of them."""
        met = {(each.requirement, each.site) for each in tried.claimed}
        asked = tried.rules.certified
        over_all = all((each.requirement, each.site) in met for each in asked if each.requirement.scope.is_global)
        failed = {each.site for each in asked if (each.requirement, each.site) not in met}
        return over_all and (
            tried.local is None
            or self._are_enough(np.array([name not in failed for name in self.prepared.rows.sites.names]))
        )

    def _are_enough(self, at: Booleans) -> bool:
        people = np.bincount(self.prepared.rows.sites.codes, minlength=len(self.prepared.rows.sites.names))
        return bool(people[at].sum() >= _ENOUGH * people.sum())


def _confidence_of(error: float) -> float:
    """The confidence that a fit is asked for, so that it errs so often at most."""
    rounded = math.ceil((1.0 - error) * _CONFIDENCE_STEPS) / _CONFIDENCE_STEPS
    return rounded if rounded < 1.0 else min(1.0 - error, math.nextafter(1.0, 0.0))


def _tightest(tried: Callable[[float], _Tried], enough: Callable[[_Tried], bool]) -> _Tried | None:
    """The tightest limit that is enough, by halving; None where none is."""
    found, low, high = None, 0, len(LIMITS) - 1
    while low <= high:
        middle = (low + high) // 2
        at = tried(LIMITS[middle])
        if enough(at):
            found, low = at, middle + 1
        else:
            high = middle - 1
    return found


def _share(solved: Solved, rate: Rate) -> float:
    """The rate over everybody under some rules."""
    cells = solved.problem.cells
    u, v = evaluate(cells, solved.mixtures)
    everyone = rate.denominator((cells.mass > 0).astype(np.float64), cells.positives * cells.scale)
    counted = (cells.mass * everyone).sum()
    return float((cells.mass * rate.numerator(u, v)).sum() / counted) if counted > 0 else 0.0
