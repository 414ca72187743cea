"""``logofair.frontier``: check, calibrate and sort once, then solve every pair of tolerances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from logofair.cells.cells import Cells
from logofair.columns.checks import Floats, Label, random_number
from logofair.columns.labels import Codes
from logofair.columns.segments import Booleans
from logofair.costs import ACCURACY, Costs
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.fit import certified, merged_cells, merged_rules
from logofair.fitting.prepare import CalibrationRows, Prepared, checked_pooling, checked_rows, prepare
from logofair.fitting.solution import cell_warnings
from logofair.notions import Notion, Rate, named_notion, sides
from logofair.policy.mixtures import Mixtures, base_rule, evaluate, filled
from logofair.progress import Progress, no_progress
from logofair.requirements import Ratio, Requirements, Tolerance, make_requirements
from logofair.solvers.certificate import Certificate
from logofair.solvers.conflicts import named_conflict
from logofair.solvers.decomposition import ExactSolver
from logofair.solvers.problem import Problem, make_problem
from logofair.tradeoff.grid import Grid, Tolerances, slack
from logofair.tradeoff.measured import MeasuredRows, checked_test_rows
from logofair.tradeoff.objective import Objective
from logofair.tradeoff.result import Frontier, InfeasiblePoint, Point, UnconstrainedRule

TestRows: TypeAlias = tuple[CalibrationRows, Codes | None]  # with the ids of people, where there are any


@dataclass(frozen=True, eq=False)
class FrontierRequirements:
    """What is fair inside each site and over all, and which sites have a tolerance of their own.

    ``held`` is what holds at every point besides: arguments of :func:`make_requirements`.
    """

    local: Notion
    global_: Notion
    site_tolerances: Mapping[Label, Tolerance]
    sites: Codes
    held: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, notion: object, site_tolerances: object, sites: Codes, **held: object) -> FrontierRequirements:
        """Check the notion, the tolerances of single sites, and what holds at every point."""
        both = sides(notion)
        if any(isinstance(side, Mapping) for side in both):
            raise InputError(
                "notion: a mapping to tolerances leaves nothing to vary; for several notions at once pass one Notion "
                "with the rates of all, such as Notion('both', given=(None, 1))."
            )
        local, global_ = (named_notion(side, "notion") for side in both)  # type: ignore[arg-type]  # no mapping
        single = {} if site_tolerances is None else site_tolerances
        made = cls(local, global_, single, sites, held)  # type: ignore[arg-type]  # checked next
        made.at(0.0, 0.0)
        return made

    @property
    def alone(self) -> bool:
        """Whether there is one site only, so that local and global are the same."""
        return len(self.sites.names) == 1

    @property
    def exempt(self) -> Booleans:
        """Which sites have a tolerance of their own, which no point changes."""
        return np.array([name in self.site_tolerances for name in self.sites.names])

    def at(self, local: Tolerance, global_: Tolerance) -> Requirements:
        """The requirements at a pair of tolerances."""
        notion = {"local": self.local, "global": self.global_}
        return make_requirements(notion, local, global_, self.site_tolerances, self.sites, **self.held)

    @property
    def costs(self) -> Costs | None:
        """What errors cost; None: accuracy counts."""
        return self.at(None, None).costs


@dataclass(frozen=True, eq=False)
class Sweep:
    """Calibrated rows in cells, and what is required of them.

    ``every_rate`` is a problem in which all rates count, by which gaps are measured whatever is constrained.
    """

    requirements: FrontierRequirements
    prepared: Prepared
    basis: str
    every_rate: Problem
    unconstrained: UnconstrainedRule
    measured_rows: MeasuredRows | None

    @classmethod
    def of(cls, requirements: FrontierRequirements, prepared: Prepared, basis: str, test: TestRows | None) -> Sweep:
        """Measure the unconstrained rule, on other rows where there are some."""
        rates = (requirements.local.rates, requirements.global_.rates)
        every_rate = _every_rate(prepared, *rates, requirements.exempt)
        free = replace(requirements, site_tolerances={}).at(None, None)
        try:
            mixtures, certificate, _ = certified(make_problem(free, prepared.cells), basis)
        except InfeasibleError:  # what holds at every point cannot be met without any tolerance
            raise named_conflict(free, prepared.cells) from None
        local, global_ = map(_largest, _gaps(every_rate, mixtures))
        ratios = _smallest_ratios(every_rate, mixtures)
        base = UnconstrainedRule(certificate.primal, local, global_, None, Objective(free.costs), *ratios)
        measured_rows = _measured_rows(prepared, rates, test, free.costs)
        found = cls(requirements, prepared, basis, every_rate, base, measured_rows)
        if found.measured_rows is None:
            return found
        measured = found.measured_rows.audit(found._measured_rule(mixtures, free))
        rows = replace(found.measured_rows, base=measured)
        return replace(found, unconstrained=replace(base, measured=measured), measured_rows=rows)

    @cached_property
    def _merged_cells(self) -> Cells:
        return merged_cells(self.prepared, self.basis)

    @cached_property
    def _needs_merged(self) -> bool:
        rows = self.measured_rows
        return self.prepared.rows.has_sites and rows is not None and rows.needs_merged(self.prepared.cells)

    def _measured_rule(self, mixtures: Mixtures, requirements: Requirements) -> Mixtures:
        """The rule of every cell of the measured rows, as in the policy of ``fit``: also where the fit had no rows."""
        assert self.measured_rows is not None
        merged = merged_rules(self._merged_cells, requirements, self.basis) if self._needs_merged else None
        cells, costs = self.prepared.cells, requirements.costs
        others = merged or base_rule(cells.n_groups, (costs or ACCURACY).mean().even)
        return self.measured_rows.rule(filled(cells, mixtures, merged, costs), others)

    def points(self, local_tolerances: Tolerances, global_tolerances: Tolerances) -> Iterator[Point | InfeasiblePoint]:
        """Solve every pair: strictest local tolerance first, and at each the loosest global one first.

        In this order an earlier point's answers can be mixed at every later one of which the same rates are required,
        and what no rule meets it does not meet at a stricter global tolerance.
        """
        solvers: dict[tuple[Rate, ...], ExactSolver] = {}
        for local in local_tolerances:
            impossible = False
            for global_ in reversed(global_tolerances):
                point = self._impossible(local, global_) if impossible else self._solved(local, global_, solvers)
                impossible = isinstance(point, InfeasiblePoint)
                yield point
            solvers = {rates: solver.looser() for rates, solver in solvers.items()}

    def _impossible(self, local: Tolerance, global_: Tolerance) -> InfeasiblePoint:
        """The proof that no rule is within a pair of tolerances."""
        return InfeasiblePoint(
            local, global_, named_conflict(self.requirements.at(local, global_), self.prepared.cells)
        )

    def _solved(
        self, local: Tolerance, global_: Tolerance, known: dict[tuple[Rate, ...], ExactSolver]
    ) -> Point | InfeasiblePoint:
        """The best rule within a pair of tolerances, or the proof that there is none."""
        required = self.requirements.at(local, global_)
        problem = make_problem(required, self.prepared.cells)
        # A single site's requirements are all local: nothing is left to vary at one local tolerance.
        solvers = [] if self.requirements.alone else [known.setdefault(problem.global_rates, ExactSolver()).solve]
        try:
            mixtures, certificate, _ = certified(problem, self.basis, *solvers)
        except InfeasibleError:
            return self._impossible(local, global_)
        certificate = replace(certificate, pooling=self.prepared.pooling.prior)
        rule = None if self.measured_rows is None else self._measured_rule(mixtures, required)
        return self._point(
            local, global_, mixtures, certificate, rule, self._prices(local, global_, certificate, problem)
        )

    def _point(
        self,
        local: Tolerance,
        global_: Tolerance,
        mixtures: Mixtures,
        certificate: Certificate,
        rule: Mixtures | None,
        prices: tuple[float, float],
    ) -> Point:
        local_gap, global_gap = map(_largest, _gaps(self.every_rate, mixtures))
        local_price, global_price = prices
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
            rule=rule,
            rows=self.measured_rows,
            objective=objective,
        )

    def _prices(
        self, local: Tolerance, global_: Tolerance, certificate: Certificate, problem: Problem
    ) -> tuple[float, float]:
        """What a unit more of either tolerance wins at most, or a ratio lower by a unit; not what else is required."""
        prices, required = certificate.prices, self.requirements
        of_local, of_global = (
            [k for k in range(len(rates)) if problem.kind(side, k) in ("tolerance", "ratio")]
            for side, rates in (("local", problem.local_rates), ("global", problem.global_rates))
        )
        if not required.alone:
            return float(prices.local[~required.exempt][:, of_local].sum()), float(prices.global_[of_global].sum())
        # For a single site the stricter of the two tolerances of each rate holds: the price is that of the stricter.
        tolerance = required.site_tolerances.get(required.sites.names[0], local)
        local_limit = dict.fromkeys(required.local.rates, np.inf if tolerance is None else slack(tolerance))
        global_limit = dict.fromkeys(required.global_.rates, np.inf if global_ is None else slack(global_))
        rates = [r.rate for r in required.at(local, global_).local if r.tolerance is not None or r.ratio is not None]
        stricter = [local_limit.get(rate, np.inf) < global_limit.get(rate, np.inf) for rate in rates]
        by_local, each = np.array(stricter, dtype=bool), prices.local[0][of_local]
        return 0.0 if required.exempt[0] else float(each[by_local].sum()), float(each[~by_local].sum())


def _every_rate(prepared: Prepared, local: tuple[Rate, ...], global_: tuple[Rate, ...], exempt: Booleans) -> Problem:
    """A problem in which every rate counts, except inside sites with a tolerance of their own."""
    local_rates, global_rates = ([rate.normalised() for rate in rates] for rates in (local, global_))
    return Problem(
        cells=prepared.cells,
        local_rates=tuple(rate for rate, _ in local_rates),
        global_rates=tuple(rate for rate, _ in global_rates),
        local_tolerance=np.where(exempt[:, None], np.inf, np.zeros((exempt.size, len(local_rates)))),
        global_tolerance=np.zeros(len(global_rates)),
        local_units=np.array([unit for _, unit in local_rates]),
        global_units=np.array([unit for _, unit in global_rates]),
    )


def _measured_rows(
    prepared: Prepared, rates: tuple[tuple[Rate, ...], tuple[Rate, ...]], test: TestRows | None, costs: Costs | None
) -> MeasuredRows | None:
    """Test rows or, for want of these, the rows of the fit; None where a rate needs labels and they have none."""
    known, calibrator = prepared.rows.sites.names, prepared.fitted.calibrator
    if test is not None:
        rows, ids = test
        return MeasuredRows.of(rows, known, calibrator, rates, fitted=False, ids=ids, costs=costs)
    if prepared.rows.labels is None and any(rate.needs_labels for side in rates for rate in side):
        return None
    return MeasuredRows.of(prepared.rows, known, calibrator, rates, fitted=True, ids=prepared.rows.ids, costs=costs)


def _gaps(problem: Problem, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """Local and global gaps in expectation, (sites, local rates) and (global rates,); -1 if not compared."""
    u, v = (array.reshape(problem.shape) for array in evaluate(problem.cells, mixtures))
    local, global_ = problem.local_gaps(u, v) / problem.local_units, problem.global_gaps(u, v) / problem.global_units
    local = np.where(problem.local_counts.any(axis=1), local, -1.0)
    return local, np.where(problem.global_counts.any(axis=0), global_, -1.0)


def _smallest_ratios(problem: Problem, mixtures: Mixtures) -> tuple[float | None, float | None]:
    """The smallest rate against the largest in expectation, local and global; None where nobody is selected."""
    u, v = (array.reshape(problem.shape) for array in evaluate(problem.cells, mixtures))
    sides = (
        (problem.local_values(u, v), problem.local_counts),
        (problem.global_shares(u, v)[None], problem.global_counts[None]),
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
    groups: object,
    sites: object = None,
    notion: str | Notion | Mapping[str, str | Notion] = "demographic_parity",
    local_tolerances: Iterable[float | Ratio | None] | None = None,
    global_tolerances: Iterable[float | Ratio | None] | None = None,
    site_tolerances: Mapping[Label, float | Ratio | None] | None = None,
    chosen: tuple[float | Ratio | None, float | Ratio | None] | None = None,
    costs: object = None,
    floors: object = None,
    ceilings: object = None,
    capacity: object = None,
    calibration: str = "beta",
    basis: str = "eta",
    pooling: str = "auto",
    sample_weight: object = None,
    ids: object = None,
    random_state: int | None = None,
    test_rows: Mapping[str, object] | None = None,
    progress: Progress = no_progress,
) -> Frontier:
    """Find the best rule for every pair of a grid of local and global tolerances, from one calibration and one sort.

    Parameters
    ----------
    scores, labels, groups, sites, calibration, basis, pooling, sample_weight, random_state
        As in :func:`logofair.fit`: every point is what ``fit`` would find at its tolerances.
    notion : str, Notion, or {"local": ..., "global": ...} of these
        What is fair. Not a mapping with tolerances, since these are what the grid varies.
    local_tolerances, global_tolerances : iterable of float, Ratio or None, optional
        The grid, on each side of gaps or of ratios; None inside it: not constrained. By default from 0 to the gap of
        the unconstrained rule, where a side stops binding, and None; without sites the global side alone.
    site_tolerances : mapping, optional
        Tolerances of single sites, which hold at every point.
    chosen : (float or None, float or None), optional
        A pair of tolerances to add to the grid and to mark in figures.
    costs, floors, ceilings, capacity
        As in :func:`logofair.fit`. They hold at every point and in the rule that losses are counted against, which no
        tolerance binds: a loss is what the tolerances take beyond them. With costs, values and losses are per person.
        Points that no rule meets are in ``infeasible``, each with its proof.
    ids : array of shape (n,), optional
        The person of each row, as in :func:`logofair.fit`: rows of one person share folds, and where rules are measured
        on these rows intervals are by person.
    test_rows : mapping of columns, optional
        Other rows to measure every point on, since what holds on the rows that chose a rule says little about others:
        ``"scores"``, ``"labels"``, ``"groups"`` and, as there are, ``"sites"``,
        ``"sample_weight"`` and ``"ids"`` (rows of one id at a site are one person). Sites that the fit does not
        know take the merged rule, as in the policy that ``fit`` returns.
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
    >>> surface = frontier(score, label, groups=sex, sites=site)
    >>> max(point.certificate.optimality_gap for point in surface.points) < 1e-6
    True
    >>> surface.best(accuracy_cost=0.01).loss <= 0.01
    True
    """
    rows = checked_rows(scores, labels, groups, sites, sample_weight, calibration, basis, ids)
    key = 0 if random_state is None else random_number(random_state)
    held = {"floors": floors, "ceilings": ceilings, "capacity": capacity, "costs": costs}
    requirements = FrontierRequirements.of(notion, site_tolerances, rows.sites, groups=rows.groups.names, **held)
    grid = Grid.of(local_tolerances, global_tolerances, chosen, alone=requirements.alone)
    test: TestRows | None = None if test_rows is None else checked_test_rows(test_rows, rows)
    lent = checked_pooling(pooling, basis)
    (prepared,) = progress((prepare(rows, calibration, basis, key, lent) for _ in range(1)), "Calibrating", 1)
    sweep = Sweep.of(requirements, prepared, basis, test)
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
        held={name: requirements.at(None, None).as_dict()[name] for name in ("limits", "capacities", "costs")},
    )
