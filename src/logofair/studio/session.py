"""The studio's session: rows are checked and calibrated once, and fitted again for every setting of the page."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.rows import compared_audits
from logofair.columns.cells import Cells
from logofair.columns.checks import Floats, Label, nearest_name
from logofair.costs import ACCURACY
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.fit import fit
from logofair.fitting.solution import Solution
from logofair.fitting.solving import (
    FitSettings,
    certified,
    checked_pooling,
    checked_rows,
    merged_cells,
    merged_rules,
    prepare,
    shares_of,
    solved_on,
    with_best,
)
from logofair.notions import NOTIONS
from logofair.policy.info import ColumnsInfo, PolicyInfo
from logofair.policy.mixtures import Mixtures, base_rule, evaluate, filled, reduce
from logofair.policy.policy import Policy
from logofair.policy.rules import in_files
from logofair.progress import Progress, no_progress
from logofair.requirement import Requirement, Scope
from logofair.requirements import Requirements, gaps, make_requirements
from logofair.solvers.decomposition import ExactSolver
from logofair.solvers.problem import Problem, unconstrained
from logofair.tradeoff import Recommendation, recommend
from logofair.tradeoff.result import MeasuredRows
from logofair.tradeoff.sweep import checked_test_rows
from logofair.words import About

# Warm starts: solvers that are kept, one for each set of local requirements, and best responses of sites that one of
# them keeps, beyond which looking through these costs more than they save.
_SOLVERS, _ANSWERS = 8, 40
_COLUMNS = ("scores", "labels", "sensitive_features", "sites", "sample_weight")
_RANDOM_STATES = 2**32  # to draw from: short enough to be typed
FIT_OPTIONS = ("calibration", "basis", "pooling")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the page's controls say: arguments of :func:`logofair.fit`, of rows that stay as they are.

    ``costs`` is a pair for all sites, or one for each by its name; ``require`` are sentences. ``by`` names the
    attribute whose groups the notion compares ("all": the intersections), of several; None: each by itself.
    """

    notion: str = "demographic_parity"
    local: float | None = None
    overall: float | None = None
    require: tuple[str, ...] = ()
    costs: tuple[float, float] | dict[str, tuple[float, float]] | None = None
    confidence: float | None = None
    by: str | None = None

    def exchanged(self, old: Requirement, new: Requirement | None) -> Setting:
        """The setting with one requirement replaced, or dropped, be it a sentence or one of the two tolerances."""
        if str(old) in self.require:
            kept = (str(new) if text == str(old) else text for text in self.require if new or text != str(old))
            return replace(self, require=tuple(kept))
        bound = None if new is None else float(new.bound)  # type: ignore[arg-type]
        return replace(self, overall=bound) if old.scope.is_global else replace(self, local=bound)


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold that the user has set by hand: from which score, as in the files, a group is accepted at a site."""

    site: str
    group: str
    score: float


@dataclass(frozen=True, eq=False)
class MeasuredSolution:
    """The solution of one setting, optimal or changed by hand, with its audit: all that the page shows comes from it.

    ``compared`` sets it beside the unconstrained rule, measured on test rows where there are some, else expected on
    those of the fit; ``changed`` is the share of every (site, group) there that is decided otherwise than by that rule,
    None where that is not known.
    """

    setting: Setting
    solution: Solution
    compared: Comparison
    changed: Floats | None


@dataclass(eq=False)
class Session:
    """What a page needs to answer every setting.

    Parameters
    ----------
    rows : mapping
        Columns as :func:`logofair.fit` names them.
    options : mapping
        How rules are found, whatever is required: calibration, basis and pooling.
    start : Setting
        What the page shows first.
    random_state : int, optional
        Drawn where it is not given: an export states it, so that the same policy can be made again.
    test_rows : mapping, optional
        Columns of people who take no part in the fit, on whom every setting is measured.
    given : tuple of Requirement
        Requirements given as objects, by whose own rates a setting's sentences may speak.
    about : About
        What the page and its exports say of the data.
    columns : ColumnsInfo, optional
        Of the files the rows are from.
    finished : callable, optional
        What is done to a solution before it is exported.
    progress : Progress
        Shows how far the calibration is.
    """

    rows: Mapping[str, Any]
    options: Mapping[str, Any]
    start: Setting
    random_state: int | None = None
    test_rows: Mapping[str, Any] | None = None
    given: tuple[Requirement, ...] = ()
    about: About = field(default_factory=About)
    columns: ColumnsInfo | None = None
    finished: Callable[[Solution], Solution] | None = None
    progress: Progress = no_progress

    def __post_init__(self) -> None:
        if self.random_state is None:
            self.random_state = secrets.randbelow(_RANDOM_STATES)
        self.options = {"calibration": "beta", "basis": "eta", "pooling": "auto", **self.options}
        calibration, basis, pooling = (self.options[name] for name in FIT_OPTIONS)
        columns = {name: self.rows.get(name) for name in _COLUMNS}
        checked = checked_rows(**columns, calibration=calibration, basis=basis, ids=self.rows.get("ids"))
        self.basis, self._sites, self._groups = basis, checked.sites, checked.groups
        self.groups = checked.groups.names
        if len(self.sites) == 1:  # where the smaller tolerance holds
            given = [each for each in (self.start.local, self.start.overall) if each is not None]
            self.start = replace(self.start, local=None, overall=min(given, default=None))
        settings = FitSettings(calibration, basis, checked_pooling(pooling, basis), self.random_state)
        self.requirements(self.start)  # only to refuse a wrong one before a long calibration
        (self.prepared,) = self.progress((prepare(checked, settings) for _ in range(1)), "Calibrating", 1)
        self._solvers = OrderedDict[Any, ExactSolver]()
        self._test = None
        if self.test_rows is not None:
            known, prepared = self.prepared.rows, self.prepared
            rows = checked_test_rows(self.test_rows, known)
            rates = NOTIONS["demographic_parity"].rates
            self._test = MeasuredRows.of(
                rows, known.sites.names, prepared.fitted.calibrator, (rates, rates), fitted=False
            )

    @property
    def sites(self) -> tuple[Label | None, ...]:
        """The names of the sites; (None,) where there are none."""
        return self._sites.names

    @property
    def largest_site(self) -> str:
        """The name of the site with the most rows."""
        return str(self.sites[int(np.bincount(self._sites.codes).argmax())])

    # ------------------------------------------------------------ what a setting asks for

    def arguments(self, setting: Setting) -> dict[str, Any]:
        """What :func:`logofair.fit` has to be given for a setting, besides the rows."""
        if setting.notion not in NOTIONS:
            hint = nearest_name(setting.notion, NOTIONS)
            raise InputError(f"notion: got {setting.notion!r}{hint}; use one of {', '.join(NOTIONS)}.")
        require, limits = self.items(setting), {"local": setting.local, "global": setting.overall}
        if setting.by is not None:  # a tolerance cannot say by which attribute: they become requirements
            scopes = {"local": Scope("per site"), "global": Scope("overall")}
            for side, limit in limits.items():
                items = [] if limit is None else gaps(NOTIONS[setting.notion], limit, scopes[side])
                require += [replace(item, by="all" if setting.by == "all" else (setting.by,)) for item in items]
            limits = dict.fromkeys(limits)
        costs: Any = setting.costs
        if isinstance(costs, dict):
            names = {str(name): name for name in self.sites}
            costs = {names.get(name, name): pair for name, pair in costs.items()}
        found: dict[str, Any] = {"notion": setting.notion, "require": require, "costs": costs}
        found |= {f"{side}_tolerance": limit for side, limit in limits.items()}
        return found if setting.confidence is None else found | {"confidence": setting.confidence}

    def items(self, setting: Setting) -> list[Requirement]:
        """The requirements of a setting's sentences, which may name rates of those that were given as objects."""
        known = {str(item): item for item in self.given}
        rates = [rate for item in self.given for rate in item.rates]
        return [known.get(text) or Requirement.parse(text, rates) for text in setting.require]

    def requirements(self, setting: Setting) -> Requirements:
        """What must hold, in the names of these rows' sites and groups."""
        asked = self.arguments(setting)
        asked.pop("confidence", None)
        return make_requirements(**asked, sites=self._sites, groups=self._groups)

    # ------------------------------------------------------------ answers

    def solved(self, setting: Setting) -> MeasuredSolution:
        """The certified optimum of a setting, warm-started with what sites answered in earlier ones."""
        required, cells = self.requirements(setting), self.prepared.cells
        required, best = with_best(required, cells, self.basis)
        problem, (mixtures, certificate, optimum) = solved_on(
            cells, required, lambda problem: certified(problem, self.basis, *self._warm(problem, required))
        )
        certificate = replace(certificate, pooling=self.prepared.pooling.prior)
        merged = cache(lambda: None if self._merged is None else merged_rules(self._merged, required, self.basis))
        if not cells.mass.all():
            mixtures = filled(cells, mixtures, merged(), required.costs)
            best = best and filled(cells, best, merged(), required.costs)
        rows = self.prepared.rows
        solution = Solution(
            policy=Policy(
                rows.groups.names,
                rows.sites.names,
                mixtures,
                self.prepared.fitted.calibrator,
                merged if rows.has_sites else None,
                self.random_state or 0,
                PolicyInfo(requirements=required.info, columns=self.columns),
            ),
            certificate=certificate,
            requirements=required,
            problem=problem,
            warnings=(),
            solver=optimum.solver,
            rounds=optimum.rounds,
            rows=rows,
            pooling=self.prepared.pooling,
            best=best,
        )
        return self._measured(setting, solution)

    def by_hand(self, found: MeasuredSolution, thresholds: tuple[Threshold, ...]) -> MeasuredSolution:
        """The same rules but for thresholds that the user has set; how good they are is measured, not optimised."""
        rules, solution = found.solution.policy.mixtures, found.solution
        assert isinstance(rules, Mixtures)
        mixtures = Mixtures(rules.weight.copy(), rules.threshold.copy(), rules.above.copy(), rules.single.copy())
        for each in thresholds:
            site, group = self.place(each.site), _place(each.group, self.groups, "group")
            chance = np.array([from_files(each.score, self.scale)])
            (from_,) = self.prepared.fitted.calibrator(chance, np.array([group]), np.array([site]))
            cell = site * len(self.groups) + group
            mixtures.weight[cell], mixtures.threshold[cell] = [1.0, 0.0, 0.0], [from_, 0.0, 0.0]
            mixtures.above[cell], mixtures.single[cell] = True, from_
        problem, policy = solution.problem, replace(solution.policy, mixtures=mixtures)
        u, v = shares_of(problem, mixtures)
        value, violation = problem.reported(problem.accuracy(u, v)), problem.violation(u, v)
        certificate = replace(solution.certificate, primal=value, violation=violation)
        return self._measured(found.setting, replace(solution, policy=policy, certificate=certificate, tested=None))

    def frontier(self, setting: Setting, side: str) -> Iterator[tuple[float, MeasuredSolution]]:
        """The optimum at every limit of one side, the loosest first; limits that no rule meets are left out."""
        free = self.solved(replace(setting, local=None, overall=None, confidence=None))
        gap = largest_gap(free, setting, side)
        for limit in (gap * (np.arange(12, -1, -1) / 12) ** 1.5).tolist():
            try:
                yield limit, self.solved(replace(setting, **{side: min(limit, 0.999)}, confidence=None))
            except InfeasibleError:
                return

    def recommended(self, setting: Setting) -> Recommendation:
        """The tightest limits that these rows can certify for new people."""
        how = {name: self.options[name] for name in FIT_OPTIONS}
        return recommend(
            **self.rows, **how, costs=self.arguments(setting)["costs"], random_state=self.random_state or 0
        )

    def fitted(self, setting: Setting) -> MeasuredSolution:
        """The solution of :func:`logofair.fit` itself, without a warm start: an export that a command can repeat."""
        solution = fit(**self.rows, **self.options, **self.arguments(setting), random_state=self.random_state)
        solution = solution if self.finished is None else self.finished(solution)
        if solution.tested is None and self.test_rows is not None:
            solution = solution.test(**self.test_rows)
        return replace(self._measured(setting, solution), solution=solution)

    # ------------------------------------------------------------ how settings are solved and measured

    def _warm(self, problem: Problem, required: Requirements) -> list[Callable[[Problem], Any]]:
        """The solver that keeps the sites' best responses under these local requirements, to start from.

        None for a single site, which needs no prices, and for limits on losses inside sites.
        """
        inside = [item for item in required.items if not item.scope.is_global]
        if required.alone or any(item.is_loss_inside for item in required.items):
            return []
        key = tuple(map(str, inside)), problem.global_rates, str(required.costs and required.costs.condensed())
        solver = self._solvers.pop(key, None)
        if solver is None or len(solver.answers) > _ANSWERS:
            solver = ExactSolver()
        self._solvers[key] = solver
        while len(self._solvers) > _SOLVERS:
            self._solvers.popitem(last=False)
        return [solver.solve]

    @cached_property
    def _merged(self) -> Cells | None:
        """All rows as those of one site, for the rules of sites that are not known."""
        return merged_cells(self.prepared, self.basis) if self.prepared.rows.has_sites else None

    def _measured(self, setting: Setting, solution: Solution) -> MeasuredSolution:
        """Audit a solution on the test rows, as :meth:`Solution.test` does, or without any on the rows of the fit."""
        costs, names = solution.requirements.costs, (self.groups, self.sites)
        before = self._unconstrained(solution.problem)
        if self._test is None:
            rules, (local, global_) = solution.counted(solution.problem), solution.rates
            assert rules.before is not None
            first, second = (
                Audit.of(tally, *names, local, global_, costs=costs, fitted_rows=True)
                for tally in (rules.before, rules.after)
            )
            second = replace(second, outcomes=solution.proved)
            changed = _changed(solution.problem.cells, before, solution.policy.mixtures, solution.problem.shape)
            return MeasuredSolution(setting, solution, Comparison.of(first, second, gaps=False), changed)
        test, required = self._test, solution.requirements
        rows, shape = test.rows, (len(test.rows.sites.names), len(self.groups))
        per_site = None if costs is None else costs.at(self._known_sites)
        even = np.broadcast_to((per_site or ACCURACY).break_even, (shape[0],))
        base = base_rule(test.places.size, np.repeat(even, shape[1]))
        after, best = self._on_test_rows(solution, solution.policy.mixtures), None
        if solution.best is not None:
            best = self._on_test_rows(solution, solution.best).chances(test.calibrated, rows.cells)
        compared = compared_audits(
            (test.calibrated >= even[rows.sites.codes]).astype(np.float64),
            after.chances(test.calibrated, rows.cells),
            (rows.labels, rows.weights, rows.groups, rows.sites, rows.ids),
            *solution.rates,
            per_site,
            required.items,
            self.sites if rows.has_sites else rows.sites.names,
            required.shares,
            best,
            gaps=False,
        )
        changed = _changed(test.cells, base, after, shape)
        return MeasuredSolution(setting, replace(solution, tested=compared), compared, changed)

    def _on_test_rows(self, solution: Solution, rules: Any) -> Mixtures:
        """Rules of the cells of the test rows, as a policy decides: where it does not know a site, the merged ones."""
        assert self._test is not None
        if (self._known_sites < 0).any():
            even = (solution.requirements.costs or ACCURACY).mean().break_even
            rules = rules.joined_with(solution.policy.merged or base_rule(len(self.groups), even))
        found: Mixtures = rules.at(self._test.places)
        return found

    @cached_property
    def _known_sites(self) -> Any:
        """For every site of the test rows its number among those of the fit; below 0 where it is not known."""
        assert self._test is not None
        number = {name: place for place, name in enumerate(self.sites)}
        return np.array([number.get(name, -1) for name in self._test.rows.sites.names])

    def _unconstrained(self, problem: Problem) -> Mixtures:
        """The unconstrained rule, as thresholds."""
        u, v = unconstrained(problem.cells, problem.row_gain)
        return reduce(problem.cells, u.ravel(), v.ravel(), selection_only=False)

    # ------------------------------------------------------------ one site

    @property
    def scale(self) -> str:
        """What scores are in the files."""
        return "chance" if self.columns is None else self.columns.scale

    def place(self, site: str) -> int:
        """The number of a site by its name."""
        return 0 if self.sites == (None,) else _place(site, self.sites, "site")

    def scores_of(self, site: int, group: int) -> Floats:
        """The scores of a group at a site, lowest first, as in the files."""
        order = self._order
        cell = site * len(self.groups) + group
        rows = order.rows[order.starts[cell] : order.starts[cell + 1]]
        return in_files(self.prepared.rows.scores[rows], self.scale)

    @cached_property
    def _order(self) -> Any:
        made = self.prepared.rows.calibration
        return self.prepared.rows.order() if made is None else made.order


def largest_gap(found: MeasuredSolution, setting: Setting, side: str) -> float:
    """The largest gap of a notion's rates on one side under some rules, in expectation on the rows of the fit."""
    tally = found.solution.counted(found.solution.problem).after
    tally = tally.merged() if side == "overall" else tally
    rates = np.stack([tally.rate(rate) for rate in NOTIONS[setting.notion].rates])
    known = ~np.isnan(rates).any(axis=-1)
    return float(np.ptp(rates[known], axis=-1).max(initial=0.0)) or 0.01


def _changed(cells: Cells, before: Mixtures, after: Any, shape: tuple[int, int]) -> Floats | None:
    """The share of every cell that two rules decide differently; ``before`` is deterministic.

    Of a row that is accepted with chance b, 0 or 1, before and p after, p + b - 2 b p is the chance of a change.
    """
    if not (isinstance(after, Mixtures) and before.above[before.weight > 0].all()):
        return None  # where the rule before accepts low scores, the two overlap in more than one way
    from_ = np.where(before.weight[:, :1] > 0, before.threshold[:, :1], np.inf)
    both = np.where(after.above, np.maximum(after.threshold, from_), from_)
    upward = np.ones_like(after.above)
    overlap, _ = evaluate(cells, replace(after, weight=after.weight * after.above, threshold=both, above=upward))
    (now, _), (then, _) = evaluate(cells, after), evaluate(cells, before)
    for part, alone in enumerate(np.eye(3)):  # a mixture's rules "score <= t" overlap from the threshold before up to t
        weight = after.weight[:, part] * ~after.above[:, part]
        one = replace(after, weight=alone * (weight > 0)[:, None])
        overlap = overlap + weight * np.maximum(evaluate(cells, one)[0] + then - 1.0, 0.0)
    return np.asarray(np.maximum(now + then - 2.0 * overlap, 0.0)).reshape(shape)


def _place(name: str, names: tuple[Label | None, ...], what: str) -> int:
    """The number of a name."""
    texts = list(map(str, names))
    if name not in texts:
        raise InputError(f"{what}: there is none called {name!r}{nearest_name(name, texts)}.")
    return texts.index(name)


def from_files(score: float, scale: str) -> float:
    """A score of the files as a chance."""
    if scale == "logit":
        return float(1.0 / (1.0 + np.exp(-score)))
    return min(max(score / 100.0 if scale == "percent" else score, 0.0), 1.0)
