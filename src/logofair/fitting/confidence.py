"""``fit(..., confidence=)``: rules that are certified for new rows, by rank or on rows held out.

The rows are split at random. Some choose the rule, its calibrator included; the others place its thresholds (by rank)
or test it (held out), so that no promise rests on the rows that chose what it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.auditing.certification import (
    POWER,
    TRUE_GAP,
    added_up,
    held_out_errors,
    holm,
    rank_errors,
    ratios_on_held_out_rows,
    targets_on_held_out_rows,
)
from logofair.auditing.chance import pair_limits, share_limits, smallest_ratio_limit
from logofair.auditing.measure import Tally, counting_labels, counts_rows, tally_of
from logofair.calibration.crossfit import assign_folds, assign_folds_by_person
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.prepare import CalibrationRows, Prepared, order_by_cell, ordered_cells, prepare, with_fitted
from logofair.fitting.promises import (
    BY_RANK,
    HELD_OUT,
    RATES,
    Claim,
    Found,
    Needs,
    Promises,
    claims_of,
    stated,
)
from logofair.fitting.ranks import choose_ranks, place_thresholds
from logofair.notions import Rate, as_number
from logofair.policy.info import PoolingInfo
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy
from logofair.requirements import SELECTED, RateLimit, Requirements
from logofair.solvers.limits import Limits
from logofair.solvers.problem import Problem, make_problem

Solve: TypeAlias = Callable[[Problem], Mixtures]

# Of ten parts of the rows, those that choose the rule. By rank few choose well enough, since the others still place the
# thresholds. Held out, the gap of a rule fitted on a share s of n rows has a noise of about 0.8 / sqrt(s n) standard
# errors of a row and its limit a margin of 1.64 / sqrt((1 - s) n): together least for s = 0.38, 2% more for a half, and
# accuracy wants more rows to choose.
_PARTS = 10
_CHOOSE = {BY_RANK: 3, HELD_OUT: 5}


def check_confidence(confidence: object) -> float | None:
    """Return a confidence between 0 and 1, or None; raise otherwise."""
    if confidence is None:
        return None
    value = as_number(confidence)
    if not 0.0 < value < 1.0:
        raise InputError(
            f"confidence: got {confidence!r}; pass a number above 0 and below 1, such as 0.95, or None for no promises."
        )
    return value


@dataclass(frozen=True, eq=False)
class CalibrationSplit:
    """A random split of the calibration rows: one part chooses the rule, the other certifies it for new rows."""

    method: str  # "by rank" or "on rows held out"
    why: str  # in words
    chooses: Booleans  # which rows choose the rule
    part: Prepared  # these, calibrated by themselves
    prepared: Prepared  # all rows, in the calibrated scores of that part


def split_rows(
    prepared: Prepared, requirements: Requirements, calibration: str, basis: str, key: int, pooling: str
) -> CalibrationSplit | None:
    """Split the rows at random, stratified by cell; None where nothing is required.

    The policy's calibrator is fitted to the part that chooses, so that for the other part the calibrated scores are as
    independent of the labels as for new rows.
    """
    rows = prepared.rows
    rates = _required_rates(requirements)
    if not rates:
        return None
    _check_labels(rates, rows)
    method, why = _method(rates, rows, gaps=requirements.only_gaps)
    if rows.ids is None:
        why = f"{why}; rows are taken for people, since there are no ids"
    rng = np.random.default_rng(
        [key, 1]
    )  # a stream of its own: the folds of the calibration are drawn from the key alone
    if rows.people is not None:
        n_cells = len(rows.groups.names) * len(rows.sites.names)
        chooses = assign_folds_by_person(rows.people.codes, rows.cells, n_cells, _PARTS, rng) < _CHOOSE[method]
    else:
        order = prepared.order or order_by_cell(rows)
        chooses = np.empty(rows.scores.size, dtype=bool)
        chooses[order.rows] = assign_folds(order, _PARTS, rng) < _CHOOSE[method]
    if not chooses.any():  # fewer rows than parts
        chooses[:] = True
    part = prepare(rows.at(chooses), calibration, basis, key, pooling)
    return CalibrationSplit(method, why, chooses, part, _calibrated_by(part, prepared, basis))


def _required_rates(requirements: Requirements) -> tuple[Rate, ...]:
    """The rates of which something is required, each once."""
    due = (each for each in claims_of(requirements) if each.required.any() or each.kind in ("floor", "ceiling"))
    return tuple(dict.fromkeys(each.rate for each in due))


def _check_labels(rates: tuple[Rate, ...], rows: CalibrationRows) -> None:
    for rate in rates:
        if rows.labels is None and rate.needs_labels:
            raise InputError(
                f"confidence: a promise about the {rate.name} of new rows needs labels; pass labels, or leave out "
                "confidence."
            )


def _method(rates: tuple[Rate, ...], rows: CalibrationRows, *, gaps: bool) -> tuple[str, str]:
    """How promises are made, and why so; ``gaps``: they are all that is required."""
    if not gaps:
        return HELD_OUT, "more than gaps is required, so there is no promise by rank"
    if rows.people is not None:
        return (
            HELD_OUT,
            f"{len(rows.people.names):,} people have {rows.scores.size:,} rows, so there is no promise by rank",
        )
    if rows.weights is not None:
        return HELD_OUT, "the rows are weighted, so there is no promise by rank"
    if len(rates) > 1:
        return HELD_OUT, "several rates are required, so there is no promise by rank"
    if not counts_rows(rates[0]):
        return HELD_OUT, "the rate is no share of rows, so there is no promise by rank"
    return BY_RANK, "3 of 10 rows choose the targets, the others place the thresholds"


def _calibrated_by(part: Prepared, prepared: Prepared, basis: str) -> Prepared:
    """All rows in the calibrated scores of a part; their chances are still those of all folds."""
    fitted = replace(prepared.fitted, calibrator=part.fitted.calibrator)
    rows = with_fitted(prepared.rows, fitted)
    return Prepared(rows, ordered_cells(rows, basis, prepared.order), fitted, prepared.order, PoolingInfo())


def promise(
    split: CalibrationSplit,
    requirements: Requirements,
    otherwise: Mixtures,
    confidence: float,
    key: int,
    solve: Solve,
    fill: Callable[[Prepared, Mixtures], Mixtures],
) -> tuple[Mixtures, Promises]:
    """The rules that promises are about, and these.

    ``otherwise`` are the rules fitted on all rows, for cells whose threshold is not placed by rank; ``fill`` gives
    rules to cells of a part that have no rows in it.
    """
    problem = make_problem(requirements, split.part.cells)
    if split.method == BY_RANK:
        return _by_rank(split, requirements, problem, otherwise, confidence, key, solve)
    claims = claims_of(requirements, lambda limit: _today(problem, limit))
    try:
        first = fill(split.part, solve(problem))
    except InfeasibleError:
        return otherwise, _none_possible(split, requirements, claims, confidence)
    try:
        mixtures = fill(split.part, solve(_tightened(problem, split, first, claims, 1.0 - confidence)))
    except InfeasibleError:  # there is no room for the limits
        mixtures = first
    return _on_held_out_rows(split, requirements, claims, mixtures, otherwise, confidence)


def _today(problem: Problem, limit: RateLimit) -> Floats:
    """The floors or ceilings of a limit by what groups have without any requirement; NaN where a group has no rate."""
    local = limit.side == "local"
    limits = problem.local_limits if local else problem.global_limits
    assert limits is not None
    defined = problem.local_defined if local else problem.global_defined[None]
    rate = problem.column(limit.side, "rate", limit.rate)
    ends = limits.least if limit.kind == "floor" else limits.most
    return np.where(defined[..., rate], ends[..., rate], np.nan)


def _by_rank(
    split: CalibrationSplit,
    requirements: Requirements,
    problem: Problem,
    otherwise: Mixtures,
    confidence: float,
    key: int,
    solve: Solve,
) -> tuple[Mixtures, Promises]:
    rows, error = split.prepared.rows, 1.0 - confidence
    (rate,) = _required_rates(requirements)
    counted = _counted(rows, rate)
    counts, placing = _by_cell(rows, counted), counted & ~split.chooses
    ranks = choose_ranks(problem, rate, _by_cell(rows, placing), counts, error, solve)
    made = added_up(ranks.risks, error)
    bounds, merged_bounds = ranks.bounds(error)
    kept = _kept(made[None, :-1], made[-1:])
    placed = ranks.only(kept)
    rng = np.random.default_rng([key, 2])
    mixtures = place_thresholds(placed, rows.calibrated[placing], rows.cells[placing], otherwise, rng)
    bounds = np.where(kept, bounds, np.nan)
    merged_bounds = merged_bounds if kept.all() else np.full(1, np.nan)

    def every(local: npt.NDArray[Any], merged: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # one rate is required: what was found of it stands for each of its requirements
        return np.concatenate([*[local] * len(requirements.local), *[merged] * len(requirements.global_)])

    found = Found(
        every(made[:-1], made[-1:]),
        every(bounds, merged_bounds),
        list(every(counts, counts.sum(axis=0, keepdims=True))),
        list(every(ranks.laws.means, ranks.merged.means)),
    )
    judged = int((ranks.risks <= 1.0).sum())
    needs = _needs(BY_RANK, error, judged, rows)
    claims = claims_of(requirements)
    entries = tuple(stated(requirements, claims, rows.sites.names, rows.groups.names, found, needs))
    return mixtures, Promises(confidence, split.method, split.why, entries, placed.largest_local_bound(error))


def _kept(made: Booleans, global_made: Booleans) -> Booleans:
    """At which sites the rules that promises are about are worth their price, (sites,).

    Where they get no promise, the rules fitted on all rows are better: few of a small site's rows choose badly. A
    global promise is about the rules of all. Whose rules are kept changes no promise about others: by rank it follows
    from ranks and numbers of rows alone, and on rows held out each promise was tested by itself. ``made`` is
    (requirements, sites).
    """
    return np.asarray(made.any(axis=0) | global_made.any())


@dataclass(frozen=True, eq=False)
class _Rests:
    """What a promise rests on, at every site or over all: the shares counted and by how many, (places, groups)."""

    claim: Claim
    shares: Floats
    people: Floats

    @classmethod
    def of(cls, claim: Claim, tally: Tally) -> _Rests:
        """Read what is claimed off a tally of all sites."""
        tally = tally if claim.side == "local" else tally.merged()
        if claim.kind.endswith("capacity"):
            tally = tally.summed(1)
        own = slice(None) if claim.group is None else slice(claim.group, claim.group + 1)
        return cls(claim, _shares(tally, claim.rate)[:, own], tally.effective_rows(claim.rate)[:, own])

    @property
    def judged(self) -> Booleans:
        """Where something is required and every share is known, (places,)."""
        return np.asarray(self.claim.required & ~np.isnan(self.shares).any(axis=1) & (self.people > 0).all(axis=1))

    def limits(self, tail: Floats) -> Floats:
        """What each stays below, or above, but for a chance of ``tail``, (places,)."""
        kind = self.claim.kind
        if kind == "gap":
            return pair_limits(self.shares, self.people, tail, upper=True)
        if kind == "ratio":
            return smallest_ratio_limit(self.shares, self.people, tail)
        if kind == "exact capacity":
            return np.full(tail.shape, np.nan)
        # the group that is worst in truth is one fixed group: its own limit is a bound of the worst
        low, high = share_limits(self.shares, self.people, tail[:, None])
        return np.asarray(low.min(axis=1) if kind == "floor" else high.max(axis=1))

    def holds(self, tail: Floats) -> Booleans:
        """Which are shown to be as required, (places,)."""
        limits = self.limits(tail)
        above = self.claim.kind in ("ratio", "floor")
        return np.asarray(limits >= self.claim.values if above else limits <= self.claim.values)


def _tightened(
    problem: Problem, split: CalibrationSplit, mixtures: Mixtures, claims: list[Claim], error: float
) -> Problem:
    """The problem with requirements that leave room for the limits on the rows held out, where these are enough.

    A rule that uses its tolerance up on the rows that choose it would hardly ever be shown to keep it on others.
    Nothing of these is looked at: there are as many of them as choose, and ``mixtures`` is fitted on those.
    """
    tally = _tally(split, mixtures, split.chooses)
    parts = [_Rests.of(each, tally) for each in claims if counts_rows(each.rate)]
    error /= max(sum(int(part.judged.sum()) for part in parts), 1)
    tolerances = {"local": problem.local_tolerance.copy(), "global": problem.global_tolerance[None].copy()}
    limits = {"local": _copied(problem.local_limits), "global": _copied(problem.global_limits)}
    for part in parts:
        side = part.claim.side
        if not part.judged.any():
            continue
        if part.claim.kind in ("gap", "ratio"):
            of = tally if side == "local" else tally.merged()
            k = problem.column(side, part.claim.kind, part.claim.rate)
            common = np.clip(_common_rate(of, part.claim.rate), *RATES)
            if part.claim.kind == "gap":
                tolerances[side][:, k] = targets_on_held_out_rows(part.people, common, tolerances[side][:, k], error)
            else:
                own = limits[side].ratio[:, k]
                tighter = ratios_on_held_out_rows(part.people, common, own, error)
                limits[side].ratio[:, k] = np.where(part.judged, tighter, own)
        elif part.claim.kind != "exact capacity":
            of_groups = part.claim.kind in ("floor", "ceiling")
            k = problem.column(side, "rate" if of_groups else "combination", part.claim.rate if of_groups else SELECTED)
            _tighten(limits[side], k, part, error)
    return replace(
        problem,
        local_tolerance=tolerances["local"],
        global_tolerance=tolerances["global"][0],
        local_limits=None if problem.local_limits is None else limits["local"],
        global_limits=None if problem.global_limits is None else limits["global"],
    )


def _copied(limits: Limits | None) -> Limits:
    """Limits that may be written to."""
    return Limits.none(1, 1, 0) if limits is None else Limits(*(getattr(limits, f.name).copy() for f in fields(limits)))


def _tighten(limits: Limits, rate: int, part: _Rests, error: float) -> None:
    """Tighten a floor, a ceiling or a capacity, in place, by the room that its limits take."""
    claim = part.claim
    values = claim.values[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # where there is nobody, there is no room
        deviation = np.sqrt(np.clip(values, *RATES) * (1.0 - np.clip(values, *RATES)) / part.people)
        room = held_out_errors(error, 1) * deviation
        target = values + room if claim.kind == "floor" else values - room
        target = np.where(part.judged[:, None] & (target > 0.0) & (target < 1.0), target, values)
    target = np.where(np.isnan(target), -np.inf if claim.kind == "floor" else np.inf, target)
    own = slice(None) if claim.group is None else slice(claim.group, claim.group + 1)
    if claim.kind == "capacity":
        limits.total_most[:, rate] = np.minimum(limits.total_most[:, rate], target[:, 0])
    elif claim.kind == "floor":
        limits.least[:, own, rate] = np.maximum(limits.least[:, own, rate], target)
    else:
        limits.most[:, own, rate] = np.minimum(limits.most[:, own, rate], target)


def _on_held_out_rows(
    split: CalibrationSplit,
    requirements: Requirements,
    claims: list[Claim],
    mixtures: Mixtures,
    otherwise: Mixtures,
    confidence: float,
) -> tuple[Mixtures, Promises]:
    rows, error = split.prepared.rows, 1.0 - confidence
    tally = _tally(split, mixtures, ~split.chooses)
    parts = [_Rests.of(each, tally) for each in claims]
    ends = np.cumsum([0, *(each.values.size for each in claims)]).tolist()
    places = [slice(*pair) for pair in pairwise(ends)]
    judged = np.concatenate([part.judged for part in parts])
    made, bounds = np.zeros(judged.size, dtype=bool), np.full(judged.size, np.nan)

    def holds(tail: Floats) -> Booleans:
        every = np.full(judged.size, error)
        every[judged] = tail
        shown = [part.holds(every[at]) for part, at in zip(parts, places, strict=True)]
        return np.asarray(np.concatenate(shown)[judged])

    number = int(judged.sum())
    made[judged] = holm(holds, number, error)
    for part, at in zip(parts, places, strict=True):
        bounds[at] = np.where(part.judged, part.limits(np.full(part.judged.size, error)), np.nan)
    size = sum(each.values.size for each in claims if each.side == "local")
    kept = _kept(made[:size].reshape(-1, len(rows.sites.names)), made[size:])
    local = np.concatenate([np.full(each.values.size, each.side == "local") for each in claims])
    bounds[local & ~np.tile(kept, judged.size // kept.size + 1)[: judged.size]] = np.nan
    bounds[~local & (not kept.all())] = np.nan
    gaps = np.concatenate([each.required & (each.kind == "gap") & (each.side == "local") for each in claims])
    # the pair that is worst in truth is one fixed pair: its own limit is a bound of the largest gap
    largest = float(bounds[gaps].max()) if gaps.any() and not np.isnan(bounds[gaps]).any() else None
    needs = _needs(HELD_OUT, error, number, rows)
    found = Found(made, bounds, _rows_behind(rows, claims), [share for part in parts for share in part.shares])
    entries = tuple(stated(requirements, claims, rows.sites.names, rows.groups.names, found, needs))
    rule = np.arange(mixtures.single.size)
    own = np.repeat(kept, len(rows.groups.names))
    chosen = mixtures.and_also(otherwise).at(np.where(own, rule, rule + rule.size))
    return chosen, Promises(confidence, split.method, split.why, entries, largest)


def _rows_behind(rows: CalibrationRows, claims: list[Claim]) -> list[Indices]:
    """The rows, or people where ids repeat, that each promise is about, by the groups it rests on."""
    found: list[Indices] = []
    nobody = np.zeros(rows.scores.size)
    tally = tally_of(nobody, rows.labels, rows.weights, rows.groups, rows.sites, rows.people)
    for each in claims:
        counts = tally if each.side == "local" else tally.merged()
        found += list(each.columns(counts.rows_behind(each.rate)))
    return found


def _none_possible(
    split: CalibrationSplit, requirements: Requirements, claims: list[Claim], confidence: float
) -> Promises:
    """Nothing can be promised: the rows that would choose a rule know none that meets the requirements."""
    rows, counts = split.prepared.rows, _rows_behind(split.prepared.rows, claims)
    nothing = np.full(len(counts), np.nan)
    found = Found(np.zeros(len(counts), dtype=bool), nothing, counts, [np.full(n.size, np.nan) for n in counts])
    needs = _needs(HELD_OUT, 1.0 - confidence, len(counts), rows)
    because = "on the rows left to choose a rule none meets all requirements"
    entries = tuple(stated(requirements, claims, rows.sites.names, rows.groups.names, found, needs, because))
    return Promises(confidence, split.method, split.why, entries)


def _needs(method: str, error: float, promises: int, rows: CalibrationRows) -> Needs:
    """What each of so many promises takes."""
    if method == BY_RANK:
        errors = rank_errors(error, promises, len(rows.groups.names))
        return Needs(errors, 0.0, _rows_left(method), f"by rank, {_together(promises)}")
    how = f"Holm's correction, {_together(promises)}, power {POWER:g}"
    counts = "rows" if rows.people is None else "people"
    return Needs(held_out_errors(error, promises), TRUE_GAP, _rows_left(method), how, counts)


def _together(promises: int) -> str:
    return "one promise" if promises == 1 else f"{promises:,} promises together"


def _tally(split: CalibrationSplit, mixtures: Mixtures, which: Booleans) -> Tally:
    """What the rule does on some of the rows."""
    rows, some = split.prepared.rows, split.prepared.rows.at(which)
    policy = Policy(rows.groups.names, rows.sites.names, mixtures, split.prepared.fitted.calibrator, None, 0)
    chance = policy.chances(rows.calibrated[which], some.cells)
    return tally_of(
        chance, some.labels, some.weights, some.groups, some.sites, None if rows.people is None else some.ids
    )


def _shares(tally: Tally, rate: Rate) -> Floats:
    """A rate of every site and group; NaN where it is no share of rows, for which there are no limits."""
    return tally.rate(rate) if counts_rows(rate) else np.full(tally.mass.shape[:2], np.nan)


def _common_rate(tally: Tally, rate: Rate) -> Floats:
    """The rate of all groups together at every site, (sites,); a half where there is none."""
    return np.nan_to_num(tally.summed(1).rate(rate)[:, 0], nan=0.5)


def _counted(rows: CalibrationRows, rate: Rate) -> Booleans:
    """Which rows count in a rate, with some weight."""
    weighty = np.ones(rows.scores.size, dtype=bool) if rows.weights is None else rows.weights > 0
    if rows.labels is None or not rate.needs_labels:
        return weighty
    return weighty & np.isin(rows.labels, counting_labels(rate))


def _by_cell(rows: CalibrationRows, which: Booleans) -> Indices:
    """How many of some rows every cell has, (sites, groups)."""
    shape = len(rows.sites.names), len(rows.groups.names)
    return np.bincount(rows.cells[which], minlength=shape[0] * shape[1]).reshape(shape)


def _rows_left(method: str) -> float:
    """The share of the rows that place thresholds or test: those that did not choose the rule."""
    return 1.0 - _CHOOSE[method] / _PARTS
