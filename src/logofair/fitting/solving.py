"""From prepared rows and requirements to rules that can be stored, with a certificate that was measured on these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from logofair.cells.cells import Cells
from logofair.errors import InfeasibleError, SolverError
from logofair.fitting.prepare import CalibrationRows, Prepared, ordered_cells, prepare, with_merged
from logofair.policy.mixtures import Mixtures, evaluate, filled, reduce
from logofair.requirements import Requirements
from logofair.solvers.algorithm1 import Algorithm1, finish, rounds
from logofair.solvers.certificate import Certificate, certify
from logofair.solvers.conflicts import conflict_of
from logofair.solvers.decomposition import Optimum, solve_exact
from logofair.solvers.joint import solve_joint
from logofair.solvers.problem import Problem, make_problem


@dataclass(frozen=True)
class FitSettings:
    """How rules are fitted, whatever is required of them: the arguments of :func:`logofair.fit` once checked."""

    calibration: str
    basis: str
    pooling: str
    random_state: int  # of folds and splits
    algorithm1: Algorithm1 | None = None  # None: the certified optimum

    def prepare(self, rows: CalibrationRows) -> Prepared:
        """Calibrate checked rows and order them into cells."""
        return prepare(rows, self.calibration, self.basis, self.random_state, self.pooling)


@dataclass(frozen=True, eq=False)
class Solved:
    """The optimum on prepared rows, as rules that can be stored."""

    prepared: Prepared
    problem: Problem
    mixtures: Mixtures
    merged: Mixtures | Callable[[], Mixtures | None] | None  # for sites that are not known yet, or how to make them
    certificate: Certificate
    optimum: Optimum

    def own_value(self, basis: str) -> float:
        """Expected accuracy, or cost, on the sites' own rows, nothing borrowed."""
        problem = self.problem
        if self.prepared.pooling.prior != "none":
            problem = replace(problem, cells=ordered_cells(self.prepared.rows, basis, None))
        u, v = (part.reshape(problem.shape) for part in evaluate(problem.cells, self.mixtures))
        return problem.reported(problem.accuracy(u, v))


def solve_prepared(prepared: Prepared, requirements: Requirements, settings: FitSettings) -> Solved:
    """Solve on prepared rows; cells without rows take the merged rule. Requirements that conflict are named."""
    problem, basis = make_problem(requirements, prepared.cells), settings.basis
    try:
        mixtures, certificate, optimum = solve(problem, settings)
    except InfeasibleError:
        raise conflict_of(requirements, prepared.cells) from None
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
    return Solved(prepared, problem, mixtures, later or now, certificate, optimum)


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
    """The cells of the federation taken as one site, with the groups' calibrators."""
    return ordered_cells(with_merged(prepared.rows, prepared.fitted), basis, None)


def merged_rules(cells: Cells, requirements: Requirements, basis: str) -> Mixtures | None:
    """The rules of the federation taken as one site, one per group; None where none meets the requirements there.

    That proves nothing of the sites' own rules, which need not be alike.
    """
    try:
        return certified(make_problem(requirements.merged(), cells), basis)[0]
    except InfeasibleError:
        return None
