"""``fit(..., confidence=)``: rules that are certified for new rows, by rank or on rows held out.

The rows are parted at random. Some choose the rule, its calibrator included; the others place its thresholds (by rank)
or test it (held out), so that no promise rests on the rows that chose what it is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from logofair.auditing.certification import (
    POWER,
    TRUE_GAP,
    added_up,
    held_out_errors,
    holm,
    rank_errors,
    rows_needed,
    tolerances_by_rank,
    tolerances_on_held_out_rows,
)
from logofair.auditing.chance import pair_limits
from logofair.auditing.measure import Tally, counting_labels, counts_rows, tally_of
from logofair.calibration.crossfit import deal_folds
from logofair.columns.checks import Floats, Label
from logofair.columns.segments import Booleans, Indices, RowOrder
from logofair.errors import InputError
from logofair.fitting.prepare import CalibrationRows, Prepared, order_by_cell, ordered_cells, prepare, with_chances
from logofair.fitting.promises import CANNOT, CERTIFIED, NOT_REQUIRED, Promise, Promises, SupportedTolerances
from logofair.fitting.ranks import choose_ranks, place_thresholds
from logofair.notions import Rate, as_number
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy
from logofair.requirements import Requirement, Requirements, tolerance_of
from logofair.solvers.problem import Problem, make_problem

__all__ = ["Parted", "check_confidence", "part_rows", "promise", "supported_tolerances"]

Solve: TypeAlias = Callable[[Problem], Mixtures]

# Of ten parts of the rows, those that choose the rule. By rank few choose well enough, since the others still place the
# thresholds. Held out, the gap of a rule fitted on a share s of n rows has a noise of about 0.8 / sqrt(s n) standard
# errors of a row and its limit a margin of 1.64 / sqrt((1 - s) n): together least for s = 0.38, 2% more for a half, and
# accuracy wants more rows to choose.
_PARTS = 10
_CHOOSE = {"rank": 3, "held out": 5}
_RATES = (0.05, 0.95)  # rows needed are told for rates between these: at 0 the approximation would need none


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
class Parted:
    """Rows in two parts: those that choose the rule, calibrated by themselves, and all in their calibrated scores."""

    method: str  # "rank" or "held out"
    why: str  # in words
    chooses: Booleans
    part: Prepared
    prepared: Prepared


def part_rows(
    prepared: Prepared, requirements: Requirements, calibration: str, basis: str, folds: object, key: int
) -> Parted | None:
    """Part the rows at random, every cell alike; None where nothing is required.

    The policy's calibrator is that of the rows that choose: with it, scores of the others are compared with thresholds
    that had no part in making them comparable.
    """
    rows = prepared.rows
    rates = _required_rates(requirements)
    if not rates:
        return None
    _check_labels(rates, rows)
    method, why = _method(rates, rows)
    order = order_by_cell(rows, prepared.rising) or RowOrder.of(rows.scores, rows.cells, prepared.cells.rows.size)
    chooses = np.empty(rows.scores.size, dtype=bool)
    # a stream of its own: the folds of the calibration are drawn from the key alone
    chooses[order.rows] = deal_folds(order, _PARTS, np.random.default_rng([key, 1])) < _CHOOSE[method]
    if not chooses.any():  # fewer rows than parts
        chooses[:] = True
    part = prepare(rows.at(chooses), calibration, basis, folds, key)
    return Parted(method, why, chooses, part, _calibrated_by(part, prepared, basis))


def _required_rates(requirements: Requirements) -> tuple[Rate, ...]:
    """The rates of which something is required, each once."""
    local = [r.rate for r, t in zip(requirements.local, requirements.tolerances.T, strict=True) if np.isfinite(t).any()]
    return tuple(dict.fromkeys([*local, *(r.rate for r in requirements.global_ if r.tolerance is not None)]))


def _check_labels(rates: tuple[Rate, ...], rows: CalibrationRows) -> None:
    for rate in rates:
        if rows.labels is None and rate.needs_labels:
            raise InputError(
                f"confidence: a promise about the {rate.name} of new rows needs labels; pass labels, or leave out "
                "confidence."
            )


def _method(rates: tuple[Rate, ...], rows: CalibrationRows) -> tuple[str, str]:
    """How promises are made, and why so."""
    if rows.weights is not None:
        return "held out", "on rows held out: the rows are weighted, so there is no promise by rank"
    if len(rates) > 1:
        return "held out", "on rows held out: several rates are required, so there is no promise by rank"
    if not counts_rows(rates[0]):
        return "held out", "on rows held out: the rate is no share of rows, so there is no promise by rank"
    return "rank", "by rank: 3 of 10 rows choose the targets, the others place the thresholds"


def _calibrated_by(part: Prepared, prepared: Prepared, basis: str) -> Prepared:
    """All rows in the calibrated scores of a part; their chances are still those of all folds."""
    order = order_by_cell(prepared.rows, prepared.rising)
    fitted = replace(prepared.fitted, calibrator=part.fitted.calibrator)
    rows = with_chances(prepared.rows, fitted.calibrator, fitted.eta, prepared.rows.clients.codes, order)
    return Prepared(rows, ordered_cells(rows, basis, order), fitted, prepared.rising)


def promise(
    parted: Parted,
    requirements: Requirements,
    otherwise: Mixtures,
    confidence: float,
    key: int,
    solve: Solve,
    fill: Callable[[Prepared, Mixtures], Mixtures],
) -> tuple[Mixtures, Promises]:
    """The rules that promises are about, and these.

    ``otherwise`` are the rules fitted on all rows, for cells where no row is left to place a threshold; ``fill`` gives
    rules to cells of a part that have no rows in it.
    """
    problem = make_problem(requirements, parted.part.cells)
    if parted.method == "rank":
        return _by_rank(parted, requirements, problem, otherwise, confidence, key, solve)
    mixtures = fill(parted.part, solve(problem))
    return mixtures, _on_held_out_rows(parted, requirements, mixtures, confidence)


def _by_rank(
    parted: Parted,
    requirements: Requirements,
    problem: Problem,
    otherwise: Mixtures,
    confidence: float,
    key: int,
    solve: Solve,
) -> tuple[Mixtures, Promises]:
    rows, error = parted.prepared.rows, 1.0 - confidence
    (rate,) = _required_rates(requirements)
    counted = _counted(rows, rate)
    counts, placing = _by_cell(rows, counted), counted & ~parted.chooses
    ranks = choose_ranks(problem, rate, _by_cell(rows, placing), counts, error, solve)
    rng = np.random.default_rng([key, 2])
    mixtures = place_thresholds(ranks, rows.calibrated[placing], rows.cells[placing], otherwise, rng)
    made, known = added_up(ranks.risks, error), (ranks.rows > 0).all(axis=1)
    bounds = np.full(len(known), np.nan)
    bounds[known] = ranks.laws.at(known).bounds(error)
    merged_known = (ranks.rows.sum(axis=0) > 0).all()
    sides = {
        "local": _Found(made[None, :-1], bounds[None], counts[None], ranks.laws.means[None]),
        "global": _Found(
            made[None, -1:],
            ranks.merged.bounds(error)[None] if merged_known else np.full((1, 1), np.nan),
            counts.sum(axis=0)[None, None],
            ranks.merged.means[None],
        ),
    }
    required = np.isfinite(problem.local_tolerance[:, 0]) if problem.local_rates else np.zeros(len(known), dtype=bool)
    largest = ranks.laws.at(required).largest_bound(error) if required.any() and known[required].all() else None
    judged = int((ranks.risks <= 1.0).sum())
    share = 1.0 - _CHOOSE["rank"] / _PARTS
    errors = rank_errors(error, judged, len(rows.groups.names))
    needs = _Needs(errors, 0.0, share, f"by rank, {_together(judged)}")
    entries = tuple(_Sentences(requirements, rows, needs).promises(sides))
    return mixtures, Promises(confidence, parted.why, entries, largest)


def _on_held_out_rows(parted: Parted, requirements: Requirements, mixtures: Mixtures, confidence: float) -> Promises:
    rows, error = parted.prepared.rows, 1.0 - confidence
    tally, rates = _tally(parted, mixtures), tuple(r.rate for r in (*requirements.local, *requirements.global_))
    first = len(requirements.local)
    tolerances = np.concatenate([requirements.tolerances.T.ravel(), [tolerance_of(r) for r in requirements.global_]])
    shares, people = _shares(tally, rates[:first]), _people(tally, rates[:first])
    merged = tally.merged()
    shares = np.concatenate([shares, _shares(merged, rates[first:])])
    people = np.concatenate([people, _people(merged, rates[first:])])
    judged = np.isfinite(tolerances) & ~np.isnan(shares).any(axis=1)
    made, bounds = np.zeros(judged.size, dtype=bool), np.full(judged.size, np.nan)
    made[judged] = holm(shares[judged], people[judged], tolerances[judged], error)
    bounds[judged] = pair_limits(shares[judged], people[judged], error, upper=True)
    counts = [_by_cell(rows, _counted(rows, rate)) for rate in rates]
    clients, groups = len(rows.clients.names), len(rows.groups.names)
    local = (first, clients)
    end = first * clients
    sides = {
        "local": _Found(
            made[:end].reshape(local),
            bounds[:end].reshape(local),
            np.array(counts[:first], dtype=np.int64).reshape(first, clients, groups),
            shares[:end].reshape(first, clients, groups),
        ),
        "global": _Found(
            made[end:, None],
            bounds[end:, None],
            np.array([each.sum(axis=0) for each in counts[first:]], dtype=np.int64).reshape(-1, 1, groups),
            shares[end:, None],
        ),
    }
    required = np.isfinite(tolerances[:end])
    largest = float(bounds[:end][required].max()) if required.any() and judged[:end][required].all() else None
    share = 1.0 - _CHOOSE["held out"] / _PARTS
    how = f"Holm's correction, {_together(int(judged.sum()))}, power {POWER:g}"
    needs = _Needs(held_out_errors(error, int(judged.sum())), TRUE_GAP, share, how)
    return Promises(confidence, parted.why, tuple(_Sentences(requirements, rows, needs).promises(sides)), largest)


def _together(promises: int) -> str:
    return "one promise" if promises == 1 else f"{promises:,} promises together"


def _tally(parted: Parted, mixtures: Mixtures) -> Tally:
    """What the rule does on the rows held out."""
    rows, held_out = parted.prepared.rows, parted.prepared.rows.at(~parted.chooses)
    policy = Policy(rows.groups.names, rows.clients.names, mixtures, parted.prepared.fitted.calibrator, None, 0)
    chance = policy.chances(rows.calibrated[~parted.chooses], held_out.cells)
    return tally_of(chance, held_out.labels, held_out.weights, held_out.groups, held_out.clients, None)


def _shares(tally: Tally, rates: tuple[Rate, ...]) -> Floats:
    """Every rate of every client, (rates * clients, groups); NaN where it is no share of rows."""
    found = [tally.rate(rate) if counts_rows(rate) else np.full(tally.mass.shape[:2], np.nan) for rate in rates]
    return np.concatenate([*found, np.zeros((0, tally.mass.shape[1]))])


def _people(tally: Tally, rates: tuple[Rate, ...]) -> Floats:
    return np.concatenate([*(tally.effective_rows(rate) for rate in rates), np.zeros((0, tally.mass.shape[1]))])


def _counted(rows: CalibrationRows, rate: Rate) -> Booleans:
    """Which rows count in a rate, with some weight."""
    weighty = np.ones(rows.scores.size, dtype=bool) if rows.weights is None else rows.weights > 0
    if rows.labels is None or not rate.needs_labels:
        return weighty
    return weighty & np.isin(rows.labels, counting_labels(rate))


def _by_cell(rows: CalibrationRows, which: Booleans) -> Indices:
    """How many of some rows every cell has, (clients, groups)."""
    shape = len(rows.clients.names), len(rows.groups.names)
    return np.bincount(rows.cells[which], minlength=shape[0] * shape[1]).reshape(shape)


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found of one side: (rates, clients), and (rates, clients, groups) for rows and rates."""

    made: Booleans
    bounds: Floats
    counts: Indices
    rates: Floats


@dataclass(frozen=True)
class _Needs:
    """What a promise takes: standard errors, the true gap as a share of the tolerance, the share of rows that test."""

    errors: float
    gap: float
    share: float
    how: str

    def rows(self, rates: Floats, tolerance: float) -> int | None:
        """Rows of every group; None where no number suffices."""
        known = np.clip(rates[~np.isnan(rates)], *_RATES)
        rate = float(known[np.argmin(np.abs(known - 0.5))]) if known.size else 0.5
        needed = float(rows_needed(rate, tolerance, self.gap * tolerance, self.errors))
        return math.ceil(needed / self.share) if math.isfinite(needed) else None


@dataclass(frozen=True, eq=False)
class _Sentences:
    """Puts what was found into promises."""

    requirements: Requirements
    rows: CalibrationRows
    needs: _Needs

    def promises(self, sides: dict[str, _Found]) -> Iterator[Promise]:
        """Every promise, rate by rate and client by client, then the global ones.

        Where all required rates are one, what was found of a side stands for each of its requirements.
        """
        clients = self.rows.clients.names
        for k, (requirement, tolerances) in enumerate(
            zip(self.requirements.local, self.requirements.tolerances.T.tolist(), strict=True)
        ):
            for c, tolerance in enumerate(tolerances):
                yield self._promise("local", requirement, clients[c], tolerance, sides["local"], (k, c))
        for k, requirement in enumerate(self.requirements.global_):
            yield self._promise("global", requirement, None, tolerance_of(requirement), sides["global"], (k, 0))

    def _promise(
        self,
        side: str,
        requirement: Requirement,
        client: Label | None,
        tolerance: float,
        found: _Found,
        place: tuple[int, int],
    ) -> Promise:
        rate = requirement.rate
        if not math.isfinite(tolerance):
            where = "" if client is None else f" inside client {client!r}"
            reason = f"nothing is required of the {rate.name}{where}"
            return Promise(side, rate.name, client, None, NOT_REQUIRED, reason=reason)
        counts, bound = found.counts[place], float(found.bounds[place])
        least = int(counts.argmin())
        made = bool(found.made[place])
        stated = Promise(
            side,
            rate.name,
            client,
            tolerance,
            CERTIFIED if made else CANNOT,
            bound=None if math.isnan(bound) else bound,
            group=self.rows.groups.names[least],
            rows=int(counts[least]),
            rows_needed=self.needs.rows(found.rates[place], tolerance),
        )
        return stated if made else replace(stated, reason=self._reason(stated, rate))

    def _reason(self, stated: Promise, rate: Rate) -> str:
        """Why a promise cannot be made."""
        if not counts_rows(rate):
            return f"the {rate.name} is no share of rows, so no bound of its gap{stated.where} is known"
        labels = counting_labels(rate)
        labelled = f" with label {labels[0]}" if rate.needs_labels and len(labels) == 1 else ""
        assert stated.rows is not None
        assert stated.tolerance is not None
        of_group = f"of group {stated.group!r}{labelled}"
        has = f"client {stated.client!r} has" if stated.client is not None else "there are"
        if stated.rows == 0:
            return f"{has} no rows {of_group}"
        bound = "" if stated.bound is None else f"the bound of the gap{stated.where} is {stated.bound:.4f}"
        if stated.rows_needed is None:
            return f"no number of rows shows that a gap{stated.where} is within {stated.tolerance:g}"
        if stated.rows < stated.rows_needed or stated.bound is None:
            rows = f"{stated.rows:,} row{'' if stated.rows == 1 else 's'}"
            needed = f"{stated.rows_needed:,} would be needed for {stated.tolerance:.2f} ({self.needs.how})"
            return f"{has} {rows} {of_group}; {needed}"
        return f"{bound} on {stated.rows:,} rows {of_group} or more, above {stated.tolerance:g} ({self.needs.how})"


def supported_tolerances(
    rows: CalibrationRows, requirements: Requirements, chance: Floats, confidence: float
) -> SupportedTolerances:
    """The smallest local tolerance that could be certified at each client, for all rates required inside clients."""
    error, clients = 1.0 - confidence, len(rows.clients.names)
    by_rank, held_out = np.zeros(clients), np.zeros(clients)
    rates = tuple(dict.fromkeys(r.rate for r in (requirements.local or requirements.global_)))
    _check_labels(rates, rows)
    tally = tally_of(chance, rows.labels, rows.weights, rows.groups, rows.clients, None)
    for rate in rates:
        counts = tally.effective_rows(rate)
        merged = np.nan_to_num(tally.summed(1).rate(rate)[:, 0], nan=0.5)
        common = np.clip(merged, *_RATES)
        shares = {way: 1.0 - part / _PARTS for way, part in _CHOOSE.items()}
        by_rank = np.maximum(by_rank, tolerances_by_rank(shares["rank"] * counts, common, error / len(rates)))
        found = tolerances_on_held_out_rows(shares["held out"] * counts, common, error / len(rates))
        held_out = np.maximum(held_out, found)
    if rates and _method(rates, rows)[0] != "rank":
        by_rank = np.full(clients, np.nan)
    return SupportedTolerances(confidence, rows.clients.names, by_rank, held_out)
