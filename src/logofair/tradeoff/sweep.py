"""``logofair.frontier``: check, calibrate and sort once, then solve every pair of tolerances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from logofair.cells.cells import Cells
from logofair.columns.checks import Floats, random_number
from logofair.columns.labels import Codes
from logofair.costs import ACCURACY
from logofair.errors import InfeasibleError
from logofair.fitting.solution import cell_warnings
from logofair.fitting.solving import (
    CalibrationRows,
    FitSettings,
    Prepared,
    certified,
    checked_pooling,
    checked_rows,
    merged_cells,
    merged_rules,
    prepare,
)
from logofair.notions import Notion, Rate, named_notion, sides
from logofair.policy.mixtures import Mixtures, base_rule, evaluate, filled
from logofair.progress import Progress, no_progress
from logofair.requirement import Requirement, Scope
from logofair.requirements import Combination, Requirements, make_requirements
from logofair.solvers.conflicts import conflict_of
from logofair.solvers.decomposition import ExactSolver
from logofair.solvers.limits import Limits
from logofair.solvers.problem import Problem, make_problem
from logofair.tradeoff.grid import Grid, Ratio, Tolerance, Tolerances
from logofair.tradeoff.measured import MeasuredRows, checked_test_rows
from logofair.tradeoff.result import Frontier, InfeasiblePoint, Objective, Point, UnconstrainedRule

TestRows: TypeAlias = tuple[CalibrationRows, Codes | None]  # with the ids of people, where there are any


@dataclass(frozen=True, eq=False)
class _Required:
    """What is fair inside each site and over all, and ``held``, what is required at every point besides."""

    local: Notion
    global_: Notion
    held: Requirements

    def varied(self, local: Tolerance, global_: Tolerance) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...]]:
        """What is required inside sites and over all at a pair of tolerances, besides what holds at every point."""
        sides = (self.local, Scope("per site"), local), (self.global_, Scope("overall"), global_)
        found = [
            ()
            if tolerance is None
            else tuple(
                Requirement(measure="ratio", rates=(rate,), relation=">=", bound=tolerance.least, scope=scope)
                if isinstance(tolerance, Ratio)
                else Requirement(measure="gap", rates=(rate,), relation="<=", bound=tolerance, scope=scope)
                for rate in notion.rates
            )
            for notion, scope, tolerance in sides
        ]
        return found[0], found[1]

    def at(self, local: Tolerance, global_: Tolerance) -> Requirements:
        """The requirements at a pair of tolerances; of one site the price of two alike is that over all."""
        of_local, of_global = self.varied(local, global_)
        return self.held.only(dict.fromkeys((*of_global, *of_local, *self.held.items)))


@dataclass(frozen=True, eq=False)
class _Sweep:
    """Calibrated rows in cells, and what is required of them.

    ``every_rate`` is a problem in which all rates count, by which gaps are measured whatever is constrained.
    """

    requirements: _Required
    prepared: Prepared
    basis: str
    every_rate: Problem
    unconstrained: UnconstrainedRule
    measured_rows: MeasuredRows | None

    @classmethod
    def of(cls, requirements: _Required, prepared: Prepared, basis: str, test: TestRows | None) -> _Sweep:
        """Measure the unconstrained rule, on other rows where there are some."""
        free, cells = requirements.held, prepared.cells
        rates = (requirements.local.rates, requirements.global_.rates)
        local_rates, global_rates = ([rate.normalised() for rate in side] for side in rates)
        every_rate = Problem(
            cells=cells,
            local_rates=tuple(rate for rate, _ in local_rates),
            global_rates=tuple(rate for rate, _ in global_rates),
            local_limits=_no_gaps(cells, cells.n_sites, local_rates),
            global_limits=_no_gaps(cells, 1, global_rates),
        )
        try:
            mixtures, certificate, _ = certified(make_problem(free, cells), basis)
        except InfeasibleError:  # what holds at every point cannot be met without any tolerance
            raise conflict_of(free, cells) from None
        local, global_ = map(_largest, _gaps(every_rate, mixtures))
        ratios = _smallest_ratios(every_rate, mixtures)
        base = UnconstrainedRule(certificate.primal, local, global_, None, Objective(free.costs), *ratios)
        found = cls(requirements, prepared, basis, every_rate, base, None)
        rows, ids = (prepared.rows, prepared.rows.ids) if test is None else test
        if rows.labels is None and any(rate.needs_labels for side in rates for rate in side):
            return found
        known, calibrator = prepared.rows.sites.names, prepared.fitted.calibrator
        on = MeasuredRows.of(rows, known, calibrator, rates, fitted=test is None, ids=ids, costs=free.costs)
        measured = on.audit(replace(found, measured_rows=on)._measured_rule(mixtures, free))
        unconstrained = replace(base, measured=measured)
        return replace(found, unconstrained=unconstrained, measured_rows=replace(on, base=measured))

    @cached_property
    def _merged_cells(self) -> Cells | None:
        """All rows taken as one site, where a measured row's site is unknown, or its cell had no rows in the fit."""
        rows, fit = self.measured_rows, self.prepared.cells
        if rows is None or not self.prepared.rows.has_sites:
            return None
        without_rule = np.append(fit.mass == 0, np.ones(fit.n_groups, dtype=bool))
        needed = without_rule[rows.places[rows.cells.mass > 0]].any()
        return merged_cells(self.prepared, self.basis) if needed else None

    def _measured_rule(self, mixtures: Mixtures, requirements: Requirements) -> Mixtures:
        """The rule of every cell of the measured rows, as in the policy of ``fit``: also where the fit had no rows."""
        assert self.measured_rows is not None
        together = self._merged_cells
        merged = None if together is None else merged_rules(together, requirements, self.basis)
        cells, costs = self.prepared.cells, requirements.costs
        others = merged or base_rule(cells.n_groups, (costs or ACCURACY).mean().even)
        return filled(cells, mixtures, merged, costs).and_also(others).at(self.measured_rows.places)

    def points(self, local_tolerances: Tolerances, global_tolerances: Tolerances) -> Iterator[Point | InfeasiblePoint]:
        """Solve every pair: strictest local tolerance first, and at each the loosest global one first.

        In this order an earlier point's answers can be mixed at every later one of which the same rates are required,
        and what no rule meets it does not meet at a stricter global tolerance.
        """
        solvers: dict[tuple[Rate | Combination, ...], ExactSolver] = {}
        for local in local_tolerances:
            impossible = False
            for global_ in reversed(global_tolerances):
                point = self._impossible(local, global_) if impossible else self._solved(local, global_, solvers)
                impossible = isinstance(point, InfeasiblePoint)
                yield point
            solvers = {rates: solver.looser() for rates, solver in solvers.items()}

    def _impossible(self, local: Tolerance, global_: Tolerance) -> InfeasiblePoint:
        """The proof that no rule is within a pair of tolerances."""
        return InfeasiblePoint(local, global_, conflict_of(self.requirements.at(local, global_), self.prepared.cells))

    def _solved(
        self, local: Tolerance, global_: Tolerance, known: dict[tuple[Rate | Combination, ...], ExactSolver]
    ) -> Point | InfeasiblePoint:
        """The best rule within a pair of tolerances, or the proof that there is none."""
        required = self.requirements.at(local, global_)
        problem = make_problem(required, self.prepared.cells)
        # A single site's requirements are all local: nothing is left to vary at one local tolerance.
        solvers = [] if self.requirements.held.alone else [known.setdefault(problem.global_rates, ExactSolver()).solve]
        try:
            mixtures, certificate, _ = certified(problem, self.basis, *solvers)
        except InfeasibleError:
            return self._impossible(local, global_)
        certificate = replace(certificate, pooling=self.prepared.pooling.prior)
        local_gap, global_gap = map(_largest, _gaps(self.every_rate, mixtures))
        # Of a tolerance, not of what else is required; a single site's stands on either side.
        local_price, global_price = (
            sum(
                float(price.sum())
                for side in ("local", "global")
                for item in varied
                if (price := certificate.prices.of.get((item, side))) is not None
            )
            for varied in self.requirements.varied(local, global_)
        )
        objective = self.unconstrained.objective
        return Point(
            local_tolerance=local,
            global_tolerance=global_,
            certificate=certificate,
            loss=objective.loss(certificate.primal, self.unconstrained.value),
            local_gap=local_gap,
            global_gap=global_gap,
            local_price=local_price,
            global_price=global_price,
            rule=None if self.measured_rows is None else self._measured_rule(mixtures, required),
            rows=self.measured_rows,
            objective=objective,
        )


def _no_gaps(cells: Cells, places: int, rates: Sequence[tuple[Rate, float]]) -> Limits:
    """Limits that compare every rate, each given with its unit."""
    return Limits.within(np.zeros((places, len(rates))), cells.n_groups, np.array([unit for _, unit in rates]))


def _gaps(problem: Problem, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """Local and global gaps in expectation, (sites, local rates) and (global rates,); -1 if not compared."""
    u, v = (array.reshape(problem.shape) for array in evaluate(problem.cells, mixtures))
    local = problem.local_gaps(u, v) / problem.local_limits.unit
    global_ = problem.global_gaps(u, v) / problem.global_limits.unit[0]
    local = np.where(problem.inside.compared.any(axis=1), local, -1.0)
    return local, np.where(problem.over_all.compared[0].any(axis=0), global_, -1.0)


def _smallest_ratios(problem: Problem, mixtures: Mixtures) -> tuple[float | None, float | None]:
    """The smallest rate against the largest in expectation, local and global; None where nobody is selected."""
    u, v = (array.reshape(problem.shape) for array in evaluate(problem.cells, mixtures))
    sides = (
        (problem.local_values(u, v), problem.inside.compared),
        (problem.global_shares(u, v)[None], problem.over_all.compared),
    )
    found = []
    for rates, counts in sides:
        high = np.max(np.where(counts, rates, 0.0), axis=1)
        low = np.min(np.where(counts, rates, np.inf), axis=1)
        found.append(float(np.min(low[high > 0] / high[high > 0])) if (high > 0).any() else None)
    return found[0], found[1]


def _largest(gaps: Floats) -> float | None:
    """The largest gap; None where no two groups are compared."""
    largest = float(gaps.max())
    return largest if largest >= 0.0 else None


def frontier(
    scores: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    notion: str | Notion | Mapping[str, str | Notion] = "demographic_parity",
    measure: str = "gap",
    local_tolerances: Iterable[float | None] | None = None,
    global_tolerances: Iterable[float | None] | None = None,
    chosen: tuple[float | None, float | None] | None = None,
    require: object = (),
    costs: object = None,
    calibration: str = "beta",
    basis: str = "eta",
    pooling: str = "auto",
    sample_weight: object = None,
    ids: object = None,
    random_state: int | None = None,
    test_rows: Mapping[str, object] | None = None,
    progress: Progress = no_progress,
) -> Frontier:
    """Find the best rule for every pair of a local and a global tolerance, and what each pair costs.

    Parameters
    ----------
    scores, labels, sensitive_features, sites, calibration, basis, pooling, sample_weight, random_state
        As in :func:`logofair.fit`: every point is what ``fit`` would find at its tolerances.
    notion : str, Notion, or {"local": ..., "global": ...} of these
        What is fair; for several notions at once one Notion with the rates of all.
    measure : {"gap", "ratio"}
        What the grid is of: the largest gaps that are allowed, or the least ratios of the smallest rate to the largest.
    local_tolerances, global_tolerances : iterable of float or None, optional
        The grid; None inside it: not constrained. By default, of gaps, from 0 to the gap of the unconstrained rule,
        where a side stops binding, and None; without sites the global side alone.
    chosen : (float or None, float or None), optional
        A pair of tolerances to add to the grid and to mark in figures.
    require, costs
        As in :func:`logofair.fit`, at every point and in the rule without tolerances that losses are counted against.
        With costs, values and losses are per person. Points that no rule meets are in ``infeasible``, with the proof.
    ids : array of shape (n,), optional
        Whose each row is, as in :func:`logofair.fit`.
    test_rows : mapping of columns, optional
        Other rows to measure every point on: ``"scores"``, ``"labels"``, ``"sensitive_features"`` and, as there are,
        ``"sites"``, ``"sample_weight"`` and ``"ids"`` (rows of one id at a site are one person). Sites that the fit
        does not know take the merged rule, as in the policy that ``fit`` returns.
    progress : Progress, optional
        ``progress(steps, what, total)`` passes steps through and shows how many are done.

    Returns
    -------
    Frontier
        The points with certificates, and those that cannot be had with their proofs; ``knee``, ``best(accuracy_cost)``,
        ``summary()``, ``as_csv()``, ``as_dict()``.

    Raises
    ------
    InfeasibleError
        If no point can be had; with what holds at every point alone where that is the conflict.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.tradeoff import frontier
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> label = rng.random(3000) < score
    >>> surface = frontier(score, label, sensitive_features=sex, sites=site)
    >>> max(point.certificate.optimality_gap for point in surface.points) < 1e-6
    True
    >>> surface.best(accuracy_cost=0.01).loss <= 0.01
    True
    """
    rows = checked_rows(scores, labels, sensitive_features, sites, sample_weight, calibration, basis, ids)
    key = 0 if random_state is None else random_number(random_state)
    local_notion, global_notion = (named_notion(side, "notion") for side in sides(notion))
    held = make_requirements(require, notion, None, None, rows.sites, rows.groups.names, costs=costs)
    requirements = _Required(local_notion, global_notion, held)
    requirements.varied(*([None, None] if measure == "gap" else [Ratio(1.0)] * 2))
    grid = Grid.of(local_tolerances, global_tolerances, chosen, measure, alone=held.alone)
    test: TestRows | None = None if test_rows is None else checked_test_rows(test_rows, rows)
    settings = FitSettings(calibration, basis, checked_pooling(pooling, basis), key)
    (prepared,) = progress((prepare(rows, settings) for _ in range(1)), "Calibrating", 1)
    sweep = _Sweep.of(requirements, prepared, basis, test)
    local, global_ = grid.filled(sweep.unconstrained.local_gap, sweep.unconstrained.global_gap)
    points = sorted(
        progress(sweep.points(local, global_), "Solving", len(local) * len(global_)),
        key=lambda point: (local.index(point.local_tolerance), global_.index(point.global_tolerance)),
    )
    infeasible = tuple(point for point in points if isinstance(point, InfeasiblePoint))
    if len(infeasible) == len(points):
        raise infeasible[-1].error
    strictest = make_problem(requirements.at(local[0], global_[0]), sweep.prepared.cells)
    return Frontier(
        local_tolerances=local,
        global_tolerances=global_,
        points=tuple(point for point in points if isinstance(point, Point)),
        unconstrained=sweep.unconstrained,
        notions=(requirements.local.name, requirements.global_.name),
        groups=rows.groups.names,
        sites=rows.sites.names,
        rows=rows.scores.size,
        test_rows=0 if test is None else test[0].scores.size,
        basis=basis,
        calibration=calibration,
        pooling=prepared.pooling,
        chosen=grid.chosen,
        warnings=tuple(cell_warnings(strictest, prepared.rows, merged=sites is not None)),
        infeasible=infeasible,
        held={
            "require": list(map(str, held.items)),
            "costs": None if held.costs is None else held.costs.condensed(),
        },
    )
