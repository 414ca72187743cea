"""From users' columns to rules that can be stored: check, calibrate, borrow, order into cells, solve, certify.

Rows are ordered as the stored policy compares them with its thresholds, and the certificate is measured on these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from logofair.calibration import METHODS, STRENGTH, Calibrator, CrossFit, cross_fit, isotonic_chances
from logofair.calibration.maps import log_odds
from logofair.columns.attributes import Attributes, read_groups
from logofair.columns.cells import Cells, build_cells, cells_in_order
from logofair.columns.checks import (
    Floats,
    binary,
    nearest_name,
    not_empty,
    probabilities,
    same_length,
    same_order,
    shown,
    weights,
)
from logofair.columns.labels import Codes, check_groups, check_spelling, encode, one_site
from logofair.columns.rows import Rows
from logofair.columns.segments import RowOrder, cell_numbers, gather, pieces_in_threads
from logofair.errors import InfeasibleError, InputError, SolverError
from logofair.fitting.pooling import (
    POOLING,
    STRENGTHS,
    Borrowed,
    Choice,
    ScoredRows,
    borrow,
    cells_may_borrow,
    choose,
    group_priors,
)
from logofair.outcomes import Outcomes
from logofair.policy.info import PoolingInfo, PromisesInfo
from logofair.policy.mixtures import Mixtures, coin_share, evaluate, filled, reduce, score_blind_rules
from logofair.requirements import Requirements
from logofair.solvers.algorithm1 import Algorithm1, finish, rounds
from logofair.solvers.certificate import Certificate, certify
from logofair.solvers.decomposition import Optimum, solve_exact
from logofair.solvers.joint import conflict_of, solve_joint
from logofair.solvers.problem import Problem, make_problem

_BASES = ("eta", "labels")
_FOLDS = 5  # of the calibration, and of what pooling is chosen by


@dataclass(frozen=True)
class FitSettings:
    """How rules are fitted, whatever is required of them: the arguments of :func:`logofair.fit` once checked."""

    calibration: str
    basis: str
    pooling: str
    random_state: int  # of folds and splits
    algorithm1: Algorithm1 | None = None  # None: the certified optimum


# ---------------------------------------------------------------- rows, checked


@dataclass(frozen=True, eq=False)
class _CalibratedScores:
    """What calibration made of rows, in their ``order`` by cell and score.

    ``scores`` is what the stored policy compares with its thresholds, ``chances()`` are out of fold, and ``eta`` is the
    chance each row counts with: those of rows side by side, averaged until they rise with ``scores``.
    """

    order: RowOrder
    scores: Floats
    chances: Callable[[], Floats]
    weights: Floats | None  # of the rows as they came

    @cached_property
    def eta(self) -> Floats:
        """The chance each row counts with; made when it is first asked for."""
        weights = None if self.weights is None else self.weights[self.order.rows]
        return isotonic_chances(self.order, self.scores, self.chances(), weights)


@dataclass(frozen=True, eq=False)
class CalibrationRows(Rows):
    """The rows to fit on; ``calibration`` is None where scores are taken as they are."""

    calibration: _CalibratedScores | None = None

    def at(self, which: Any) -> CalibrationRows:
        """Some of the rows, not yet calibrated."""
        return replace(super().at(which), calibration=None)

    def copied(self) -> CalibrationRows:
        """Rows that do not change when the caller writes into his arrays; labels and codes are copies already."""
        return replace(self, scores=self.scores.copy(), weights=None if self.weights is None else self.weights.copy())

    @cached_property
    def calibrated(self) -> Floats:
        """What the stored policy compares with its thresholds."""
        made = self.calibration
        return self.scores if made is None else made.order.in_input_order(made.scores)

    @cached_property
    def eta(self) -> Floats:
        """The chance of label 1 each row counts with."""
        made = self.calibration
        return self.scores if made is None else made.order.in_input_order(made.eta)

    @property
    def has_sites(self) -> bool:
        """Whether the user said which site each row is of."""
        return self.sites.names != (None,)


def checked_rows(
    scores: object,
    labels: object,
    sensitive_features: object,
    sites: object,
    sample_weight: object,
    calibration: str,
    basis: str,
    ids: object = None,
) -> CalibrationRows:
    """Check every column."""
    for value, known, where in ((calibration, METHODS, "calibration"), (basis, _BASES, "basis")):
        if not isinstance(value, str) or value not in known:
            raise InputError(f"{where}: got {value!r}{nearest_name(value, known)}; use one of {', '.join(known)}.")
    same_order(
        scores=scores,
        labels=labels,
        sensitive_features=sensitive_features,
        sites=sites,
        sample_weight=sample_weight,
        ids=ids,
    )
    score = probabilities(scores)
    not_empty(score.size, "scores")
    if labels is None and (calibration != "none" or basis == "labels"):
        raise InputError(
            f"labels: missing, but calibration={calibration!r} with basis={basis!r} needs them; "
            "pass labels, or use calibration='none' with basis='eta'."
        )
    label = None if labels is None else binary(labels)
    group = read_groups(sensitive_features)
    site = one_site(score.size) if sites is None else encode(sites, "sites")
    people = None if ids is None else encode(ids, "ids")
    same_length(score.size, labels=label, sensitive_features=group, sites=site, ids=people)
    if len(group.names) < 2:
        raise InputError(f"sensitive_features: only one group, {group.names[0]!r}; fairness compares two or more.")
    if not Attributes(group.names).columns:  # each by itself is checked already
        check_groups(group.names, score.size)
    check_spelling(site.names, "sites")
    if label is not None and calibration != "none" and (label == label[0]).all():
        raise InputError(
            f"labels: every one of the {label.size:,} rows has label {label[0]}, so nothing can be learnt of the "
            "other; check which column and which value mean label 1."
        )
    weight = weights(sample_weight, score.size)
    if weight is not None and not (weight.max() < 1e100 and weight[weight > 0].min() > 1e-100):
        # Scaled, so that sums and inverse sums are finite; a row of less than 1e-200 of the largest weight counts 0.
        weight = weight / weight.max()
        weight[weight < 1e-200] = 0.0
    return CalibrationRows(score, label, group, site, weight, ids=people)


def check_other_people(fitted: Codes, ids: Codes) -> None:
    """Raise where people to test on are among those fitted on."""
    if both := set(map(str, ids.names)) & set(map(str, fitted.names)):
        raise InputError(
            f"ids: the policy was fitted on {len(both):,} of these people, such as {shown(min(both))}; a test "
            "needs other people."
        )


def checked_pooling(pooling: object, basis: str) -> str:
    """What cells may borrow; with labels as basis nothing, since a borrowed score has none."""
    if not isinstance(pooling, str) or pooling not in POOLING:
        raise InputError(f"pooling: got {pooling!r}{nearest_name(pooling, POOLING)}; use one of {', '.join(POOLING)}.")
    if basis == "labels" and pooling == "full":
        raise InputError("pooling: 'full' needs basis='eta', since borrowed scores have no labels; use 'none'.")
    return "none" if basis == "labels" else pooling


# ---------------------------------------------------------------- rows, calibrated and ordered into cells


@dataclass(frozen=True, eq=False)
class Prepared:
    """Calibrated rows and their cells: one sort, on which any number of requirements can be solved.

    ``pooling`` says what the cells borrow besides.
    """

    rows: CalibrationRows
    cells: Cells
    fitted: CrossFit
    pooling: PoolingInfo


def prepare(rows: CalibrationRows, settings: FitSettings) -> Prepared:
    """Calibrate checked rows, let small cells borrow, and order all into cells."""
    pooling = settings.pooling
    n_sites, n_groups = rows.shape
    # Where nobody needs to borrow there is nothing to choose: cells have rows enough, or are their groups.
    alone = not cells_may_borrow(pooling, rows.cells, rows.weights, rows.shape)
    rows, fitted, folds = calibrate(rows, settings, alone=alone)
    borrowed: Borrowed | None = None
    choice = Choice()
    if not alone:
        people = None if rows.people is None else rows.people.codes
        scored = ScoredRows(log_odds(rows.scores), rows.cells, rows.weights, n_groups, n_sites, people=people)
        rng = np.random.default_rng((settings.random_state, 1))  # folds of its own: scores taken as they are have none
        choice = choose(scored, pooling, folds, rng, None if fitted.held_out is None else fitted.held_out.order)
        if choice.kind != "none":
            borrowed = borrow(scored, group_priors(scored, choice), scored.mass[-1])
        del scored  # sixteen bytes a row, before more are made
    rows = with_fitted(rows, fitted)
    about = PoolingInfo(strength=None if fitted.held_out is None else fitted.strength)
    if borrowed is None or not borrowed.cells:
        return Prepared(rows, ordered_cells(rows, settings.basis), fitted, about)
    cells = cells_with_borrowed(rows, borrowed, fitted.calibrator)
    cells = replace(cells, rows=np.bincount(rows.cells, minlength=cells.rows.size))
    share = borrowed.largest_share
    about = replace(about, prior=choice.kind, kappa=choice.kappa, cells=borrowed.cells, largest_share=share)
    return Prepared(rows, cells, fitted, about)


def calibrate(rows: CalibrationRows, settings: FitSettings, *, alone: bool) -> tuple[CalibrationRows, CrossFit, int]:
    """Cross-fit the calibrators of all cells; also the rows kept for it, and the folds.

    ``alone`` says that no cell may borrow.
    """
    folds = min(_FOLDS, max(2, rows.scores.size))  # more folds than rows leave one row out each
    fitted = CrossFit(Calibrator("none", rows.shape[1], rows.shape[0], None))
    if settings.calibration != "none":
        rows = rows.copied()  # chances out of fold are made anew when they are asked for
        strengths = (STRENGTH,) if alone and settings.pooling != "none" else STRENGTHS[settings.pooling]
        rng = np.random.default_rng(settings.random_state)
        fitted = cross_fit(rows, settings.calibration, folds=folds, rng=rng, strengths=strengths)
    return rows, fitted, folds


def with_fitted(rows: CalibrationRows, fitted: CrossFit) -> CalibrationRows:
    """Add what a fit made of the rows, if it calibrates at all."""
    held_out = fitted.held_out
    if held_out is None:
        return replace(rows, calibration=None)
    return with_chances(rows, fitted.calibrator, held_out.order, held_out.chances)


def with_chances(
    rows: CalibrationRows,
    calibrator: Calibrator,
    order: RowOrder,
    chances: Callable[[], Floats],
    *,
    merged: bool = False,
) -> CalibrationRows:
    """Add what the stored policy compares with its thresholds, and chances that rise with it.

    ``order`` is that of the rows by cell and score, in which the out-of-fold ``chances`` are given. With ``merged`` the
    rows are those of one site, and their groups' maps are read.
    """
    calibrated, cells, first = np.empty_like(rows.scores), order.cells, 1 if merged else 1 + calibrator.n_groups

    def read(some: slice) -> None:  # a piece at a time: the scores themselves in that order are not needed
        calibrated[some] = calibrator.at(rows.scores[order.rows[some]], cells[some] + first)

    pieces_in_threads(read, calibrated.size)
    if order.falls(calibrated):  # by rounding: sorted afresh
        given, found = order, order.in_input_order(calibrated)
        order = RowOrder.of(found, rows.cells, given.starts.size - 1)
        calibrated, chances = found[order.rows], partial(_reordered, chances, given, order)
    return replace(rows, calibration=_CalibratedScores(order, calibrated, chances, rows.weights))


def _reordered(chances: Callable[[], Floats], given: RowOrder, wanted: RowOrder) -> Floats:
    return np.asarray(given.in_input_order(chances())[wanted.rows])


def ordered_cells(rows: CalibrationRows, basis: str) -> Cells:
    """Rows ordered by the calibrated score.

    Their value is their chance or their label, as the basis says; with basis "scores" it is the calibrated score
    itself, for what follows from scores and rules alone.
    """
    made, (n_sites, n_groups) = rows.calibration, rows.shape
    labels = rows.labels if basis == "labels" else None
    if made is None:
        return build_cells(
            rows.scores,
            rows.groups.codes,
            rows.sites.codes,
            n_groups=n_groups,
            n_sites=n_sites,
            values=labels,
            weights=rows.weights,
            rising=labels is None,
        )
    values, order = made.eta if basis == "eta" else made.scores, made.order
    if labels is not None:
        values = labels[order.rows].astype(np.float64)
    own = None if rows.weights is None else rows.weights[order.rows]
    return cells_in_order(made.scores, values, own, order.starts, n_groups=n_groups, rising=labels is None)


def cells_with_borrowed(rows: CalibrationRows, borrowed: Borrowed, calibrator: Calibrator) -> Cells:
    """Cells of the rows and of what each cell borrows, all read by the cell's own calibrator."""
    made, (n_sites, n_groups) = rows.calibration, rows.shape
    order = rows.order() if made is None else made.order
    scores = rows.scores[order.rows] if made is None else made.scores
    own = borrowed.counts.ravel()[order.cells]
    if rows.weights is not None:
        own *= rows.weights[order.rows]
    read = calibrator(borrowed.scores, borrowed.groups, borrowed.sites)
    cells = np.concatenate([order.cells, cell_numbers(borrowed.groups, borrowed.sites, n_groups)])
    scores, weight = np.concatenate([scores, read]), np.concatenate([own, borrowed.weights])
    together = RowOrder.of(scores, cells, n_groups * n_sites)
    scores, weight = scores[together.rows], weight[together.rows]
    values = scores
    if made is not None:
        values = isotonic_chances(together, scores, np.concatenate([made.chances(), read])[together.rows], weight)
    return cells_in_order(scores, values, weight, together.starts, n_groups=n_groups, rising=True)


# ---------------------------------------------------------------- rules


@dataclass(frozen=True, eq=False)
class Solved:
    """The optimum on prepared rows, as rules that can be stored."""

    prepared: Prepared
    problem: Problem
    mixtures: Mixtures
    merged: Mixtures | Callable[[], Mixtures | None] | None  # for sites that are not known yet, or how to make them
    certificate: Certificate
    optimum: Optimum
    best: Mixtures | None = None  # the best rules that meet what is required inside sites, where losses are limited
    certified: Outcomes = field(default_factory=Outcomes)  # for new rows, where a confidence was asked for
    promises: PromisesInfo | None = None

    @property
    def own_value(self) -> float:
        """Expected accuracy, or cost, on the sites' own rows, nothing borrowed."""
        problem = own_problem(self.problem, self.certificate, self.prepared.rows)
        return problem.reported(problem.accuracy(*shares_of(problem, self.mixtures)))

    @property
    def coins(self) -> dict[str, Any]:
        """On which share of the rows a coin decides, and how many rules ignore the score."""
        borrowed = self.certificate.pooling != "none"
        cells = ordered_cells(self.prepared.rows, "scores") if borrowed else self.problem.cells
        blind = score_blind_rules(self.problem.cells, self.mixtures)
        return {"coin_share": coin_share(cells, self.mixtures), "score_blind_rules": blind}


def own_problem(problem: Problem, certificate: Certificate, rows: CalibrationRows) -> Problem:
    """The problem on the sites' own rows alone."""
    borrows = certificate.pooling != "none"
    return replace(problem, cells=ordered_cells(rows, certificate.basis)) if borrows else problem


def shares_of(problem: Problem, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """How much rules accept, (sites, groups): u and v of every cell."""
    u, v = evaluate(problem.cells, mixtures)
    return u.reshape(problem.shape), v.reshape(problem.shape)


def solve_prepared(prepared: Prepared, requirements: Requirements, settings: FitSettings) -> Solved:
    """Solve on prepared rows; cells without rows take the merged rule. Requirements that conflict are named."""
    requirements, best = with_best(requirements, prepared.cells, settings.basis)
    basis = settings.basis
    problem, solved = solved_on(prepared.cells, requirements, lambda problem: solve(problem, settings))
    mixtures, certificate, optimum = solved
    certificate = replace(certificate, pooling=prepared.pooling.prior)
    now, later = None, None
    if prepared.rows.has_sites and requirements.only_gaps and prepared.cells.mass.all():
        # No cell needs the merged rules now, and some rule always meets gaps: they are made when first asked for. With
        # more than gaps, whether there are any is a warning of the fit.
        own = prepared.rows.calibration is not None  # which copied them
        kept = prepared if own else replace(prepared, rows=prepared.rows.copied())
        later = cache(lambda: merged_rules(merged_cells(kept, basis), requirements, basis))
    elif prepared.rows.has_sites:
        now = merged_rules(merged_cells(prepared, basis), requirements, basis)
    mixtures = filled(problem.cells, mixtures, now, requirements.costs)
    best = best and filled(problem.cells, best, now, requirements.costs)
    return Solved(prepared, problem, mixtures, later or now, certificate, optimum, best)


def with_best(requirements: Requirements, cells: Cells, basis: str) -> tuple[Requirements, Mixtures | None]:
    """Requirements that know what the best rules gain which meet the sites' own, and these rules; as they are needed.

    Raises
    ------
    InfeasibleError
        Where a site's own requirements cannot be met.
    """
    if not any(item.is_loss_inside for item in requirements.items):
        return requirements, None
    problem, (best, *_) = solved_on(cells, requirements.of_sites_alone, lambda problem: certified(problem, basis))
    gained = problem.site_gains(*shares_of(problem, best)) * problem.cost_unit
    each = np.divide(gained, problem.site_mass, out=np.zeros_like(gained), where=problem.site_mass > 0)
    return replace(requirements, best=tuple(each.tolist())), best


def solved_on(
    cells: Cells, requirements: Requirements, solver: Callable[[Problem], tuple[Mixtures, Certificate, Optimum]]
) -> tuple[Problem, tuple[Mixtures, Certificate, Optimum]]:
    """The problem of some requirements on cells and a solver's answer; where there is none, raise what conflicts."""
    problem = make_problem(requirements, cells)
    try:
        return problem, solver(problem)
    except InfeasibleError:
        raise conflict_of(requirements, cells) from None


def solve(problem: Problem, settings: FitSettings) -> tuple[Mixtures, Certificate, Optimum]:
    """Solve as the user asked, store the rules, and measure what was stored."""
    if settings.algorithm1 is None:
        return certified(problem, settings.basis)
    *_, last = rounds(problem, settings.algorithm1)
    optimum = finish(problem, last)
    if optimum is None:
        raise SolverError("algorithm1: a site's own problem could not be solved; use solver='exact'.")
    return (*_stored(problem, optimum, settings.basis), optimum)


def certified(
    problem: Problem, basis: str, *first: Callable[[Problem], Optimum | None]
) -> tuple[Mixtures, Certificate, Optimum]:
    """Solve by the first solver whose stored rules keep a valid certificate; raise rather than return less.

    Solvers given are tried before the exact one and its fallback.
    """
    conflict: InfeasibleError | None = None
    # A rule that misses a rate of 0 or 1 by less than a certificate sees may tell rows apart that this rate ties.
    tied = problem.tied()
    for given in (tied,) if tied is problem else (tied, problem):
        try:
            for attempt in (*first, solve_exact, solve_joint):
                if (optimum := attempt(given)) is not None:
                    mixtures, certificate = _stored(given, optimum, basis)
                    if certificate.holds:
                        return mixtures, certificate, optimum
        except InfeasibleError as error:
            conflict = error
            continue
        break
    if conflict is not None:
        raise conflict
    raise SolverError(
        "exact: no policy with a valid certificate was found, so none is returned; "
        "loosen a tolerance slightly, and please report the case."
    )


def _stored(problem: Problem, optimum: Optimum, basis: str) -> tuple[Mixtures, Certificate]:
    constrained = (*problem.local_rates, *problem.global_rates)
    selection_only = all(rate.slope == 0 for rate in constrained)
    mixtures = reduce(problem.cells, optimum.u.ravel(), optimum.v.ravel(), selection_only=selection_only)
    return mixtures, certify(problem, mixtures, optimum.local_prices, optimum.global_prices, basis)


def merged_cells(prepared: Prepared, basis: str) -> Cells:
    """The cells of the federation taken as one site, calibrated by the maps of their groups."""
    rows, held_out = prepared.rows, prepared.fitted.held_out
    one = replace(rows, sites=one_site(rows.scores.size), calibration=None)
    if held_out is not None:
        order = one.order()
        chances = held_out.merged(gather(rows.scores, order.rows), order.cells, order.rows)
        one = with_chances(one, prepared.fitted.calibrator, order, lambda: chances, merged=True)
    return ordered_cells(one, basis)


def merged_rules(cells: Cells, requirements: Requirements, basis: str) -> Mixtures | None:
    """The rules of the federation taken as one site, one per group; None where none meets the requirements there.

    That proves nothing of the sites' own rules, which need not be alike.
    """
    try:
        return certified(make_problem(requirements.merged(), cells), basis)[0]
    except InfeasibleError:
        return None
