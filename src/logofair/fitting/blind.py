"""Fits of rules that may not look at the sensitive attribute: they see score, group probabilities and site.

Rates count the true groups of the calibration rows, and their labels, wherever these are known: the chance of a label,
calibrated without groups, is wrong within them, and equalized odds counted by it would do nothing. Elsewhere everybody
counts in every group by the probability of belonging to it; then there is a bound, on all rules that see the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from logofair.columns.attributes import Attributes, read_groups
from logofair.columns.cells import Cells
from logofair.columns.checks import Floats, Integers, same_length
from logofair.columns.labels import Codes, one_site
from logofair.columns.segments import Indices
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.pooling import cells_may_borrow
from logofair.fitting.solution import Away, difference_by_probability
from logofair.fitting.solving import CalibrationRows, FitSettings, Prepared, calibrate, ordered_cells
from logofair.outcomes import CALIBRATION_ROWS, Outcomes
from logofair.policy.info import PoolingInfo, PromisesInfo
from logofair.policy.linear import LinearRules, read_probabilities
from logofair.requirements import Requirements
from logofair.solvers.blind import BlindOptimum, BlindRows, solve_blind
from logofair.solvers.certificate import LARGEST_OPTIMALITY_GAP, Certificate, TolerancePrices
from logofair.solvers.problem import Problem, make_problem

_PRECISION = 1e-8  # to which a linear program keeps what is required


@dataclass(frozen=True, eq=False)
class Sight:
    """What rules see of everybody's group, (rows, groups), and whether rates count the true groups of these rows."""

    groups: Codes  # the true ones, or by default the most probable
    seen: Floats
    groups_known: bool


def check_away(settings: FitSettings, confidence: float | None, *, smallest: bool) -> None:
    """Raise where something is asked for that rules which may not look cannot have."""
    refused = {
        'objective: "gap"': smallest and "its search needs a proof at each step, and there may be none here",
        'solver: "algorithm1"': settings.algorithm1 is not None and "its thresholds are one for each group",
        "confidence": confidence is not None
        and "only thresholds of groups can be certified; test on other rows instead",
        'pooling: "full"': settings.pooling == "full" and "nobody's group is seen, so no group can borrow",
    }
    for what, why in refused.items():
        if why:
            raise InputError(f"{what} cannot be had with a policy that may not look at groups: {why}.")


def read_sight(table: object, sensitive_features: object) -> Sight:
    """Check the probabilities of the groups."""
    known = None if sensitive_features is None else read_groups(sensitive_features)
    if known is not None and Attributes(known.names).columns:
        raise InputError(
            "group_probabilities: are of the groups of one column, but sensitive_features has several; pass the one "
            "that they are of."
        )
    names, seen = read_probabilities(table, () if known is None else known.names)
    if (seen == seen[:1]).all():
        raise InputError(
            "group_probabilities: all rows have the same, which say nothing of anybody's group; fit a classifier "
            "of the groups whose probabilities differ."
        )
    likely = Codes(names, seen.argmax(axis=1).astype(np.int32))
    return Sight(known or likely, seen, known is not None)


@dataclass(frozen=True, eq=False)
class SolvedAway:
    """The optimum of rules that may not look, as they are stored."""

    prepared: Prepared
    problem: Problem
    mixtures: LinearRules
    merged: LinearRules | Callable[[], LinearRules | None] | None  # as of other rules
    certificate: Certificate
    optimum: BlindOptimum
    away: Away
    coins: dict[str, Any]
    best: LinearRules | None
    certified: Outcomes = field(default_factory=Outcomes)
    promises: PromisesInfo | None = None


def solve_away(rows: CalibrationRows, sight: Sight, requirements: Requirements, settings: FitSettings) -> SolvedAway:
    """Find the best rules that may not look, calibrated without groups.

    Raises
    ------
    InfeasibleError
        If no such rule meets all requirements, with those that conflict.
    """
    same_length(rows.scores.size, group_probabilities=sight.seen)
    counts_labels = sight.groups_known and rows.labels is not None
    for item in requirements.items:
        if (item.measure == "precision" or any(rate.slope for rate in item.rates)) and not counts_labels:
            raise InputError(
                f"require: {str(item)!r} counts by label, and probabilities of groups tell such a rate wrongly; pass "
                "true labels and groups, or require selection rates."
            )
    basis = "labels" if counts_labels else settings.basis  # chances without groups mislead of the labels within one
    everybody = Codes(("",), np.zeros_like(rows.groups.codes))
    alike, shape = replace(rows, groups=everybody), (len(rows.sites.names), 1)
    alone = not cells_may_borrow(settings.pooling, alike.cells, rows.weights, shape)
    alike, fitted, _ = calibrate(alike, settings, alone=alone)

    def at(sites: Codes, codes: Integers) -> CalibrationRows:
        return replace(
            alike, scores=fitted.calibrator(alike.scores, everybody.codes, codes), groups=rows.groups, sites=sites
        )

    def over_all() -> LinearRules | None:
        try:
            one = at(one_site(rows.scores.size), np.full_like(everybody.codes, -1))
            return _solved(one, sight, requirements.merged(), basis)[-1].rules
        except InfeasibleError:
            return None

    here = at(rows.sites, rows.sites.codes)
    problem, away, order, optimum = _solved(here, sight, requirements, basis)
    chance = optimum.rules.chances(away.chances, away.site, away.seen)
    best = chance if optimum.best is None else optimum.best.chances(away.chances, away.site, away.seen)
    every = chance, away.accepted(away.unconstrained), best
    shares, before, best_shares = (_shares(problem, away.selected(each)[0]) for each in every)
    later = cache(over_all)
    by_probability = {}
    if sight.groups_known:
        rates = dict.fromkeys((*requirements.rates_of("local"), *requirements.rates_of("global")))
        positives, groups = None if rows.labels is None else away.values, rows.groups.codes[order]
        off = difference_by_probability(rates, chance, away.seen, groups, away.mass, positives)
        by_probability[CALIBRATION_ROWS] = off
    pooling = PoolingInfo(strength=None if fitted.held_out is None else fitted.strength)
    return SolvedAway(
        prepared=Prepared(replace(alike, groups=rows.groups), problem.cells, fitted, pooling),
        problem=problem,
        mixtures=optimum.rules,
        merged=None if not rows.has_sites else later if requirements.only_gaps else later(),
        certificate=_certificate(problem, optimum, *shares, basis),
        optimum=optimum,
        away=Away(
            shares,
            before,
            best_shares,
            sight.groups_known,
            by_probability,
            partial(_bound_by_probability, here, sight, requirements),
        ),
        best=optimum.best,
        coins={"coin_share": float(away.mass @ ((chance > 0.0) & (chance < 1.0)))},
    )


def _bound_by_probability(rows: CalibrationRows, sight: Sight, requirements: Requirements) -> float | None:
    """Where groups are known, what no rule beats that keeps limits on selection rates counted by probability."""
    of_labels = (item.measure == "precision" or any(rate.slope for rate in item.rates) for item in requirements.items)
    if not sight.groups_known or any(of_labels):
        return None
    try:
        problem, _, _, optimum = _solved(rows, replace(sight, groups_known=False), requirements, "eta")
    except InfeasibleError:
        return None
    assert optimum.bound is not None
    return problem.reported(problem.baseline + optimum.bound)


def _solved(
    rows: CalibrationRows, sight: Sight, requirements: Requirements, basis: str
) -> tuple[Problem, BlindRows, Indices, BlindOptimum]:
    """The problem of rows whose scores are calibrated, the rows in the order of their sites, and their optimum."""
    n_sites, n_groups = rows.shape
    cells = _cells(rows, sight, basis)
    order = np.argsort(rows.sites.codes, kind="stable")
    seen, chances, site = np.asfortranarray(sight.seen[order]), rows.scores[order], rows.sites.codes[order]
    values = chances if basis == "eta" or rows.labels is None else rows.labels[order].astype(np.float64)
    counted = np.asfortranarray(np.eye(n_groups)[rows.groups.codes[order]]) if sight.groups_known else seen
    mass = np.ones(order.size) if rows.weights is None else rows.weights[order]
    free = make_problem(requirements.only(()), cells)
    costs = np.ones((n_sites, 2)) if free.costs is None else np.array(free.costs)
    away = BlindRows(chances, seen, counted, values, mass / mass.sum(), site.astype(np.intp), costs)
    found = solve_blind(requirements, away)
    return make_problem(found.requirements or requirements, cells), away, order, found


def _shares(problem: Problem, selected: Floats) -> tuple[Floats, Floats]:
    """What is selected of every cell, as shares of its own mass: u and v."""
    mass = problem.mass[..., None]
    found = np.divide(selected, mass, out=np.zeros_like(selected), where=mass > 0.0)
    return found[..., 0], found[..., 1]


def _cells(rows: CalibrationRows, sight: Sight, basis: str) -> Cells:
    """The rows by site and true group; or all in every group, with the weight of their probability of it."""
    if sight.groups_known:
        return ordered_cells(rows, basis)
    count, n_groups = sight.seen.shape
    weights = sight.seen.T if rows.weights is None else sight.seen.T * rows.weights
    every = replace(
        rows,
        scores=np.tile(rows.scores, n_groups),
        labels=None if rows.labels is None else np.tile(rows.labels, n_groups),
        groups=Codes(rows.groups.names, np.repeat(np.arange(n_groups, dtype=np.int32), count)),
        sites=Codes(rows.sites.names, np.tile(rows.sites.codes, n_groups)),
        weights=weights.ravel(),
    )
    people = np.bincount(every.cells, sight.seen.T.ravel(), minlength=n_groups * len(rows.sites.names))
    return replace(ordered_cells(every, basis), rows=np.rint(people).astype(np.intp))


def _certificate(problem: Problem, optimum: BlindOptimum, u: Floats, v: Floats, basis: str) -> Certificate:
    """Measure the rules on the problem's cells; their bound is over rejecting everybody, as the solver's is."""
    primal, won, bound = problem.accuracy(u, v), problem.cost_unit, optimum.bound
    return Certificate(
        problem.reported(primal),
        None if bound is None else problem.reported(problem.baseline + bound),
        None if bound is None else (problem.baseline + bound - primal) * won,
        optimum.violation,
        TolerancePrices(np.zeros(0), np.zeros((0, 0))),
        basis,
        _PRECISION,
        2.0 * LARGEST_OPTIMALITY_GAP * won,  # what the solver reaches, and what it may lose when rules are stored
        objective=problem.measure,
        empty_ratios=problem.empty_ratios(u, v),
        cost_unit=won,
        looks_away=True,
    )
