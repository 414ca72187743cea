"""``logofair.frontier``: check, calibrate and sort once, then solve every pair of tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from logofair.auditing.chance import pair_figure
from logofair.auditing.measure import value_of
from logofair.auditing.result import Side
from logofair.columns.attributes import known_groups
from logofair.columns.cells import Cells
from logofair.columns.checks import listed_names, random_number
from logofair.columns.labels import Codes
from logofair.costs import ACCURACY
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.solution import cell_warnings, expected_tally
from logofair.fitting.solving import (
    CalibrationRows,
    FitSettings,
    Prepared,
    certified,
    check_other_people,
    checked_pooling,
    checked_rows,
    merged_cells,
    merged_rules,
    prepare,
    solved_on,
    with_best,
)
from logofair.notions import Notion, Rate, as_number, named_notion, sides
from logofair.policy.mixtures import Mixtures, base_rule, evaluate, filled
from logofair.progress import Progress, no_progress
from logofair.requirement import Requirement, Scope
from logofair.requirements import Combination, Requirements, check_tolerance, make_requirements
from logofair.solvers.certificate import Certificate
from logofair.solvers.decomposition import ExactSolver, Optimum
from logofair.solvers.joint import conflict_of
from logofair.solvers.problem import Problem, make_problem
from logofair.tradeoff.result import Frontier, InfeasiblePoint, MeasuredRows, Point, Tolerance, Tolerances, slack

_MEASURES = ("gap", "ratio")
_TOLERANCES_BETWEEN = 6  # default tolerances between parity and the unconstrained rule's gap
_NO_GAP = 1e-6  # a gap below this leaves nothing to trade
_MOST_POINTS = 10_000
_RATIOS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)  # the default beside a chosen ratio

_Pair: TypeAlias = tuple[Tolerance, Tolerance]
_COLUMNS = ("scores", "labels", "sensitive_features", "sites", "sample_weight", "ids")


@dataclass(frozen=True)
class _Grid:
    """The tolerances asked for on each side (None: the default), and the pair to have among them, if any.

    ``alone``: a single site, for which local and global are the same; the default is then the global side alone.
    """

    measure: str
    local: Tolerances | None
    global_: Tolerances | None
    chosen: _Pair | None
    alone: bool

    @classmethod
    def of(cls, local: object, global_: object, chosen: object, measure: str, *, alone: bool) -> _Grid:
        """Check the lists and the pair."""
        if measure not in _MEASURES:
            raise InputError(f"measure: got {measure!r}; use one of {', '.join(_MEASURES)}.")
        pair: _Pair | None = None
        if chosen is not None:
            if not isinstance(chosen, tuple | list) or len(chosen) != 2:
                raise InputError(f"chosen: got {chosen!r}; pass a pair (local tolerance, global tolerance).")
            pair = _tolerance(chosen[0], "chosen: local", measure), _tolerance(chosen[1], "chosen: global", measure)
        inside = None if local is None else _read_grid(local, "local_tolerances", measure)
        over_all = None if global_ is None else _read_grid(global_, "global_tolerances", measure)
        if pair is not None and alone and inside is None:
            stricter = _in_order({each for each in pair if each is not None}, measure)
            pair = (None, stricter[0] if stricter else None)
        if measure == "ratio":  # the sides that the pair constrains vary, without a pair the global one
            asked = pair or (None, None if inside or over_all else 1.0)
            inside = inside or ((*_RATIOS, None) if asked[0] is not None and not alone else (None,))
            over_all = over_all or ((*_RATIOS, None) if asked[1] is not None else (None,))
        size = len(inside or ()) * len(over_all or ())
        if size > _MOST_POINTS:
            raise InputError(f"local_tolerances: the grid has {size:,} points; pass at most {_MOST_POINTS:,}.")
        return cls(measure, inside, over_all, pair, alone)

    def filled(self, local_gap: float | None, global_gap: float | None) -> tuple[Tolerances, Tolerances]:
        """The tolerances of both sides, given the gaps of the unconstrained rule."""
        local = self.local or ((None,) if self.alone else _default_grid(local_gap))
        global_ = self.global_ or _default_grid(global_gap)
        if self.chosen is None:
            return local, global_
        inside, over_all = self.chosen
        return _in_order({*local, inside}, self.measure), _in_order({*global_, over_all}, self.measure)


def _tolerance(given: object, where: str, measure: str) -> Tolerance:
    if measure == "gap" or given is None:
        return check_tolerance(given, where, of_shares=False)
    if not 0.0 < as_number(given) <= 1.0:
        raise InputError(f"{where}: got {given!r}; a ratio of rates is above 0 and at most 1, such as 0.8.")
    return as_number(given)


def _read_grid(tolerances: object, where: str, measure: str = "gap") -> Tolerances:
    """Check a list of tolerances; return the strictest first without repetition, None (not constrained) last.

    Examples
    --------
    >>> _read_grid([None, 0.1, 0, 0.1], "local_tolerances")
    (0.0, 0.1, None)
    >>> _read_grid([0.8, 0.9], "local_tolerances", "ratio")
    (0.9, 0.8)
    """
    if isinstance(tolerances, str | bytes) or not isinstance(tolerances, Iterable):
        raise InputError(f"{where}: got {tolerances!r}; pass a list of tolerances such as [0, 0.01, 0.05, None].")
    checked = {_tolerance(each, where, measure) for each in tolerances}
    if not checked:
        raise InputError(f"{where}: the list is empty; pass at least one tolerance, or leave it out.")
    return _in_order(checked, measure)


def _in_order(tolerances: set[Tolerance], measure: str) -> Tolerances:
    """The strictest first, None last."""
    bound = [each for each in tolerances if each is not None]
    return (*sorted(bound, key=lambda each: slack(each, measure)), *([None] if None in tolerances else []))


def _default_grid(gap: float | None) -> Tolerances:
    """Tolerances from parity to the unconstrained rule's gap, where a side stops binding, and None.

    In between stand the six largest of 1, 2, 5, 10, ... (in units of any power of ten), so that neighbours
    differ by a factor of about two. The gap itself is rounded up to two digits; where that is all that shares can
    differ by, 1, None says the same.

    Examples
    --------
    >>> _default_grid(0.1774)
    (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.18, None)
    >>> _default_grid(1.0)
    (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, None)
    >>> _default_grid(0.0)
    (0.0, None)
    """
    if gap is None or gap < _NO_GAP:
        return 0.0, None
    power = math.floor(math.log10(gap))
    multiple = math.ceil(gap / 10.0 ** (power - 1))
    last = float(f"{multiple}e{power - 1}")
    last = last if last >= gap else float(f"{multiple + 1}e{power - 1}")
    steps = [float(f"{digit}e{power - k}") for k in range(_TOLERANCES_BETWEEN) for digit in (5, 2, 1)]
    between = [step for step in steps if step < 0.95 * gap][:_TOLERANCES_BETWEEN]
    return 0.0, *sorted(between), *([] if last == 1.0 else [last]), None


# ---------------------------------------------------------------- points


@dataclass(frozen=True, eq=False)
class _Required:
    """What is fair inside each site and over all, and ``held``, what is required at every point besides.

    Tolerances are of gaps or of ratios, as ``measure`` says.
    """

    local: Notion
    global_: Notion
    measure: str
    held: Requirements

    def varied(self, local: Tolerance, global_: Tolerance) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...]]:
        """What is required inside sites and over all at a pair of tolerances, besides what holds at every point."""

        def of(notion: Notion, scope: Scope, bound: Tolerance) -> tuple[Requirement, ...]:
            if bound is None:
                return ()
            how: dict[str, Any] = {"measure": self.measure, "relation": ">=" if self.measure == "ratio" else "<="}
            return tuple(Requirement(rates=(rate,), bound=bound, scope=scope, **how) for rate in notion.rates)

        return of(self.local, Scope("per site"), local), of(self.global_, Scope("overall"), global_)

    def at(self, local: Tolerance, global_: Tolerance) -> Requirements:
        """The requirements at a pair of tolerances; of one site the price of two alike is that over all."""
        of_local, of_global = self.varied(local, global_)
        return self.held.only(dict.fromkeys((*of_global, *of_local, *self.held.items)))


@dataclass(frozen=True, eq=False)
class _Sweep:
    """Calibrated rows in cells, and what is required of them; ``problem`` is that of what holds at every point.

    ``stops`` are how far the unconstrained rule's rates are from parity, inside sites and over all: looser tolerances
    bind nothing.
    """

    requirements: _Required
    prepared: Prepared
    basis: str
    problem: Problem
    stops: tuple[float | None, float | None] = (None, None)
    unconstrained: Point | None = None
    measured_rows: MeasuredRows | None = None

    @classmethod
    def of(cls, requirements: _Required, prepared: Prepared, basis: str, test: CalibrationRows | None) -> _Sweep:
        """Measure the unconstrained rule, on other rows where there are some."""
        free, cells = requirements.held, prepared.cells
        free = with_best(free, cells, basis)[0]
        # Where this raises, what holds at every point cannot be met without any tolerance.
        problem, (mixtures, certificate, _) = solved_on(cells, free, lambda problem: certified(problem, basis))
        found = cls(requirements, prepared, basis, problem)
        local, global_ = (_from_parity(side, requirements.measure) for side in found._sides(mixtures))
        found = replace(found, stops=(local, global_))
        rates = (requirements.local.rates, requirements.global_.rates)
        rows = prepared.rows if test is None else test
        if rows.labels is not None or not any(rate.needs_labels for side in rates for rate in side):
            known, calibrator = prepared.rows.sites.names, prepared.fitted.calibrator
            on = MeasuredRows.of(rows, known, calibrator, rates, fitted=test is None, costs=free.costs)
            found = replace(found, measured_rows=on)
        base = found._point(None, None, free, mixtures, certificate)
        if found.measured_rows is not None:  # whose noise floors serve all others
            found = replace(found, measured_rows=replace(found.measured_rows, base=base.measured))
        return replace(found, unconstrained=base)

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
        others = merged or base_rule(cells.n_groups, (costs or ACCURACY).mean().break_even)
        return filled(cells, mixtures, merged, costs).joined_with(others).at(self.measured_rows.places)

    def points(self, local_tolerances: Tolerances, global_tolerances: Tolerances) -> Iterator[Point | InfeasiblePoint]:
        """Solve every pair: strictest local tolerance first, and at each the loosest global one first.

        In this order an earlier point's answers can be mixed at every later one of which the same rates are required,
        and what no rule meets it does not meet at a stricter global tolerance.
        """
        solvers: dict[tuple[Rate | Combination, ...], ExactSolver] = {}
        for local in local_tolerances:
            impossible = False
            for global_ in reversed(global_tolerances):
                point = self._solved(local, global_, None if impossible else solvers)
                impossible = isinstance(point, InfeasiblePoint)
                yield point
            # What a site may lose is counted against another rule there: earlier answers may lose too much.
            inside = any(item.is_loss_inside for item in self.requirements.held.items)
            solvers = {} if inside else {rates: each.at_looser_tolerances() for rates, each in solvers.items()}

    def _solved(
        self, local: Tolerance, global_: Tolerance, known: dict[tuple[Rate | Combination, ...], ExactSolver] | None
    ) -> Point | InfeasiblePoint:
        """The best rule within a pair of tolerances, or the proof that there is none.

        ``known`` are the solvers of earlier points, by the rates that are limited over all; None: it is known that no
        rule is within.
        """

        def solve(problem: Problem) -> tuple[Mixtures, Certificate, Optimum]:
            # A single site's requirements are all local: nothing is left to vary at one local tolerance.
            if known is None or self.requirements.held.alone:
                return certified(problem, self.basis)
            return certified(problem, self.basis, known.setdefault(problem.global_rates, ExactSolver()).solve)

        required, cells = self.requirements.at(local, global_), self.prepared.cells
        try:
            required = with_best(required, cells, self.basis)[0]
            if known is None:
                raise conflict_of(required, cells)
            _, (mixtures, certificate, _) = solved_on(cells, required, solve)
        except InfeasibleError as error:
            return InfeasiblePoint(local, global_, error)
        return self._point(local, global_, required, mixtures, certificate)

    def _point(
        self,
        local: Tolerance,
        global_: Tolerance,
        required: Requirements,
        mixtures: Mixtures,
        certificate: Certificate,
    ) -> Point:
        """A pair of tolerances with the best rule within them."""
        local_gap, global_gap = (_from_parity(side, "gap") for side in self._sides(mixtures))
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
        lost = 0.0 if self.unconstrained is None else self.unconstrained.value - certificate.primal
        return Point(
            local_tolerance=local,
            global_tolerance=global_,
            certificate=replace(certificate, pooling=self.prepared.pooling.prior),
            loss=lost if certificate.objective == "accuracy" else -lost,
            local_gap=local_gap,
            global_gap=global_gap,
            local_price=local_price,
            global_price=global_price,
            rule=None if self.measured_rows is None else self._measured_rule(mixtures, required),
            rows=self.measured_rows,
        )

    def _sides(self, mixtures: Mixtures) -> tuple[Side, Side]:
        """The rates of both notions under some rules, in expectation, whatever is constrained."""
        u, v = (share.reshape(self.problem.shape) for share in evaluate(self.problem.cells, mixtures))
        tally, rows = expected_tally(self.problem, u, v), self.prepared.rows
        local = Side.of(self.requirements.local.rates, rows.groups.names, rows.sites.names, tally)
        return local, Side.of(self.requirements.global_.rates, rows.groups.names, (None,), tally.merged())


def _from_parity(side: Side, measure: str) -> float | None:
    """How far rates are from parity at most: the largest gap, or what the smallest ratio lacks to 1.

    None where nothing is compared.
    """
    if measure == "ratio":
        return value_of(1.0 - np.fmin.reduce(pair_figure(side.values, ratio=True)[0], axis=None))
    return value_of(np.fmax.reduce(side.gaps, axis=None))


def checked_test_rows(given: object, fit: CalibrationRows) -> CalibrationRows:
    """Check columns of rows to measure on, by the names :func:`logofair.fit` has for them."""
    if not isinstance(given, Mapping) or not {"scores", "labels", "sensitive_features"} <= set(given) <= set(_COLUMNS):
        raise InputError(
            "test_rows: pass a mapping of columns such as {'scores': ..., 'labels': ..., 'sensitive_features': ...}; "
            f"it may have {', '.join(_COLUMNS)}."
        )
    scores, labels, groups, sites, weight, people = (given.get(name) for name in _COLUMNS)
    try:
        # As measuring does, calibration needs labels.
        rows = checked_rows(scores, labels, groups, sites, weight, "beta", "eta", people)
        if rows.has_sites != fit.has_sites:
            missing, there = ("test rows", "rows to fit on") if fit.has_sites else ("rows to fit on", "test rows")
            raise InputError(
                f"sites: the {there} have them and the {missing} do not; pass them for both or for neither."
            )
        codes = known_groups(groups, fit.groups.names)
        if (codes < 0).any():
            strange = next(name for name in rows.groups.names if name not in fit.groups.names)
            known = listed_names(fit.groups.names)
            raise InputError(f"sensitive_features: no rule is fitted for {strange!r}; the rows to fit on have {known}.")
        if rows.ids is not None and fit.ids is not None:
            check_other_people(fit.ids, rows.ids)
    except InputError as error:
        raise InputError(f"test_rows: {error}") from None
    return replace(rows, groups=Codes(fit.groups.names, codes))


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
        A pair of tolerances to add to the grid.
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
    held = make_requirements(require, notion, None, None, rows.sites, rows.groups, costs=costs)
    grid = _Grid.of(local_tolerances, global_tolerances, chosen, measure, alone=held.alone)
    requirements = _Required(local_notion, global_notion, measure, held)
    requirements.varied(*([None, None] if measure == "gap" else [1.0, 1.0]))  # raises where a rate has no ratio
    test = None if test_rows is None else checked_test_rows(test_rows, rows)
    settings = FitSettings(calibration, basis, checked_pooling(pooling, basis), key)
    (prepared,) = progress((prepare(rows, settings) for _ in range(1)), "Calibrating", 1)
    sweep = _Sweep.of(requirements, prepared, basis, test)
    local, global_ = grid.filled(*sweep.stops)
    assert sweep.unconstrained is not None
    points = sorted(
        progress(sweep.points(local, global_), "Solving", len(local) * len(global_)),
        key=lambda point: (local.index(point.local_tolerance), global_.index(point.global_tolerance)),
    )
    if not any(isinstance(point, Point) for point in points) and isinstance(points[-1], InfeasiblePoint):
        raise points[-1].error
    strict = requirements.at(local[0], global_[0])
    strictest = make_problem(strict.only(item for item in strict.items if not item.is_loss), prepared.cells)
    return Frontier(
        measure=measure,
        local_tolerances=local,
        global_tolerances=global_,
        every=tuple(points),
        unconstrained=sweep.unconstrained,
        stops=sweep.stops,
        unit=1.0 if held.costs is None else held.costs.largest,
        notions=(requirements.local.name, requirements.global_.name),
        groups=rows.groups.names,
        sites=rows.sites.names,
        rows=rows.scores.size,
        test_rows=0 if test is None else test.scores.size,
        basis=basis,
        calibration=calibration,
        pooling=prepared.pooling,
        warnings=tuple(cell_warnings(strictest, prepared.rows, merged=sites is not None)),
        held={
            "require": list(map(str, held.items)),
            "costs": None if held.costs is None else held.costs.condensed(),
        },
    )
