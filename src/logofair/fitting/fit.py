"""``logofair.fit``: check the input, calibrate, solve, and hand back a policy with its certificate."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from logofair._version import __version__
from logofair.cells.cells import Cells
from logofair.columns.checks import random_number
from logofair.errors import InfeasibleError, InputError, SolverError
from logofair.fitting.confidence import CalibrationSplit, check_confidence, promise, split_rows
from logofair.fitting.prepare import Prepared, checked_pooling, checked_rows, ordered_cells, prepare, with_merged
from logofair.fitting.promises import CERTIFIED, Promises, none_made
from logofair.fitting.solution import NO_MERGED_RULE, Solution, cell_warnings, empty_ratios
from logofair.notions import NotionLike
from logofair.policy.info import OutcomeInfo, PolicyInfo, RequirementsInfo
from logofair.policy.mixtures import Mixtures, evaluate, filled, reduce
from logofair.policy.policy import DeferredRules, Policy
from logofair.progress import Progress, Stages, no_progress
from logofair.requirements import DEFAULT, Given, Requirements, make_requirements
from logofair.solvers.algorithm1 import Algorithm1, finish, rounds, solver_settings
from logofair.solvers.certificate import Certificate, certify
from logofair.solvers.conflicts import conflict_of
from logofair.solvers.decomposition import Optimum, solve_exact
from logofair.solvers.joint import solve_joint
from logofair.solvers.problem import Problem, make_problem

_STAGES = 4  # columns checked, rows prepared, solved, handed over


def fit(
    scores: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    notion: NotionLike | Mapping[str, NotionLike] = DEFAULT,
    local_tolerance: Given = DEFAULT,
    global_tolerance: Given = DEFAULT,
    require: object = (),
    costs: object = None,
    solver: str | Algorithm1 = "exact",
    calibration: str = "beta",
    basis: str = "eta",
    pooling: str = "auto",
    confidence: float | None = None,
    ids: object = None,
    sample_weight: object = None,
    random_state: int | None = None,
    progress: Progress = no_progress,
) -> Solution:
    """Find the most accurate decision rule that is fair inside every site and over all of them.

    Parameters
    ----------
    scores : array-like of shape (n,)
        The classifier's probabilities of label 1 on rows it was not trained on.
    labels : array-like of shape (n,) or None
        0 or 1. None is allowed where nothing needs them: ``calibration="none"`` with ``basis="eta"``.
    sensitive_features : array-like of shape (n,)
        The sensitive attribute: any hashable labels, two groups or more.
    sites : array-like of shape (n,), optional
        The site of each row; by default all rows belong to one site, and the smaller tolerance holds.
    notion : str, Notion or mapping
        The short way to the usual requirements: ``"demographic_parity"`` (by default), ``"equal_opportunity"``,
        ``"predictive_equality"``, ``"equalized_odds"``, a :class:`Notion`, or ``{"local": ..., "global": ...}``.
    local_tolerance, global_tolerance : float or None
        Largest gap allowed inside each site and over all of them; None: not constrained. Both are 0.02 where neither
        is given; where one is, the other side is not constrained.
    require : str, Requirement, or several of either
        What must hold, as sentences: ``"true positive rate ratio >= 0.8 per site"``, ``"accepted <= 0.2 overall"``
        (see :class:`Requirement`), beside what the short way says; nothing is added to them where none of its
        arguments is given. Where nobody is selected a ratio says nothing: pair it with a floor. ``today`` is what the
        rule gives that nothing is required of. The merged rule for unknown sites meets what names no site.
    costs : pair of float or mapping, optional
        What a wrongly accepted and a wrongly rejected row cost, for all sites or ``{site: pair}``. The policy is
        then the cheapest, and certificate and prices are in cost per row. None: the most accurate (1 and 1).
    solver : {"exact", "algorithm1"} or Algorithm1
        The certified optimum, or the paper's iterative procedure (whose result may violate its tolerances).
    calibration : {"beta", "platt", "temperature", "isotonic", "none"}
        How scores become chances of label 1 in each group and site, cross-fitted on these rows.
    basis : {"eta", "labels"}
        What counts as positive when rates and accuracy are measured: the calibrated chance, or the label itself (the
        best achievable with these scores on these very rows).
    pooling : {"auto", "none", "full"}
        What small cells (a group at a site) borrow from their group at the other sites: a prior of scores, read by
        the cell's own calibrator, and strength of that calibrator; both by cross-validation ("auto"), nothing ("none":
        every cell has a map of its own, in which its group's is worth one row), or everything ("full": all sites of a
        group share one distribution and one map). With ``basis="labels"`` nothing.
    confidence : float, optional
        Also certify what holds for new rows, with this confidence: 0.95, say (see :class:`Promises`). One rate (all
        notions but equalized odds) of rows without weights is certified by rank: 3 of 10 rows, drawn at random, choose
        target rates, and the others place the thresholds. Otherwise, and where ratios, floors, ceilings or capacities
        are required, half of the rows choose the policy and the others test it. Small cells borrow among the rows that
        choose; what is promised rests on a site's own rows. Where nothing can be certified, the policy is that of a
        fit without ``confidence``. None: nothing is promised. The certificate is still about the calibration rows: its
        bound is that of all rules, its accuracy and violation those of this policy, which gives some accuracy for what
        it promises (``solution.promises.price``).
    ids : array-like of shape (n,), optional
        Who each row is of, any hashable labels: rows of one person stay together in folds and splits, and intervals and
        promises are by person. Every row counts in the rule. Promises are then on rows held out, never by rank. Without
        ids, or where no id stands twice, every row is taken for a person.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, in calibration and in the rule.
    random_state : int, optional
        For the calibration folds (0 by default: the rules are reproducible), and the key of the policy's coins (drawn
        anew for every fit by default, so that policies toss independent coins; the policy stores it).
    progress : Progress, optional
        ``progress(steps, what, total)`` passes steps through and shows how many are done.

    Returns
    -------
    Solution
        ``policy``, ``certificate``, ``promises``, ``warnings`` and a ``summary()``. The policy also has a rule for
        sites that are not known yet, that of all rows taken as one site; it is made when it is first needed, of
        rows that the policy keeps until then: to decide on such a site, to be saved or to be shown.

    Raises
    ------
    InputError
        If some argument cannot be used.
    InfeasibleError
        If no rule meets all requirements, with the few that conflict and the least by which each would have to give.
    SolverError
        If no policy with a valid certificate was found.

    Examples
    --------
    >>> import numpy as np
    >>> import logofair
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> label = rng.random(3000) < score
    >>> solution = logofair.fit(score, label, sensitive_features=sex, sites=site, local_tolerance=0.05)
    >>> bool(solution.certificate.optimality_gap <= 1e-6), bool(solution.certificate.violation <= 1e-9)
    (True, True)
    """
    stages = Stages(progress, "Fitting", _STAGES)
    rows = checked_rows(scores, labels, sensitive_features, sites, sample_weight, calibration, basis, ids)
    number = None if random_state is None else random_number(random_state)
    requirements = make_requirements(
        require, notion, local_tolerance, global_tolerance, rows.sites, rows.groups.names, costs=costs
    )
    settings, level = solver_settings(solver), check_confidence(confidence)
    lent = checked_pooling(pooling, basis)
    if settings is not None and not requirements.are_tolerances:
        raise InputError(
            "solver: 'algorithm1' knows gaps and accuracy alone; use 'exact', or require gaps alone, without costs."
        )
    stages.done(1)
    prepared = prepare(rows, calibration, basis, number or 0, lent)
    stages.done(1)
    solved, promises = _solved(prepared, requirements, settings, basis), none_made(requirements, level)
    split = None if level is None else split_rows(prepared, requirements, calibration, basis, number or 0, lent)
    if split is not None and level is not None:
        found, promises = _for_new_rows(split, requirements, level, number or 0, settings, basis)
        without = _own_value(solved, basis)
        if promises.with_status(CERTIFIED):
            solved, promises = found, replace(promises, accuracy_without=without)
        else:  # rules that were chosen on fewer rows, and for nothing
            promises = promises.without_bounds(without)
    stages.done(1)
    key = secrets.randbits(64) if number is None else number
    solution = _handed_over(solved, requirements, promises, calibration, key)
    stages.done(1)
    return solution


@dataclass(frozen=True, eq=False)
class _Solved:
    """The optimum on prepared rows, as rules that can be stored."""

    prepared: Prepared
    problem: Problem
    mixtures: Mixtures
    merged: Mixtures | DeferredRules | None  # for sites that are not known yet
    certificate: Certificate
    optimum: Optimum


def _solved(prepared: Prepared, requirements: Requirements, settings: Algorithm1 | None, basis: str) -> _Solved:
    problem = make_problem(requirements, prepared.cells)
    try:
        mixtures, certificate, optimum = _solve(problem, settings, basis=basis)
    except InfeasibleError:
        raise conflict_of(requirements, prepared.cells) from None
    certificate = replace(certificate, pooling=prepared.pooling.prior)
    rules = _merged(prepared, requirements, basis) if prepared.rows.has_sites else None
    mixtures = filled(problem.cells, mixtures, None if isinstance(rules, DeferredRules) else rules, requirements.costs)
    return _Solved(prepared, problem, mixtures, rules, certificate, optimum)


def _merged(prepared: Prepared, requirements: Requirements, basis: str) -> Mixtures | DeferredRules | None:
    """The merged rules, where no cell needs them now to be made when they are first asked for.

    Only for gaps alone, which some rule always meets: otherwise whether there are any is a warning of the fit.
    """

    def make(of: Prepared) -> Mixtures | None:
        return merged_rules(merged_cells(of, basis), requirements, basis)

    if not (requirements.only_gaps and prepared.cells.mass.all()):
        return make(prepared)
    own = prepared.rows.calibration is not None  # which copied them
    later = prepared if own else replace(prepared, rows=prepared.rows.copied())
    return DeferredRules(lambda: make(later))


def _handed_over(
    solved: _Solved, requirements: Requirements, promises: Promises, calibration: str, key: int
) -> Solution:
    """The solution: a policy that says of itself what was required, proved and promised."""
    prepared, policy = solved.prepared, _policy(solved, requirements, promises, calibration, key)
    warnings = tuple(cell_warnings(solved.problem, prepared.rows, merged=solved.merged is not None))
    solution = Solution(
        policy=policy,
        certificate=solved.certificate,
        requirements=requirements,
        problem=solved.problem,
        warnings=(*warnings, *([NO_MERGED_RULE] if prepared.rows.has_sites and solved.merged is None else [])),
        solver=solved.optimum.solver,
        rounds=solved.optimum.rounds,
        calibration_errors=prepared.fitted.errors,
        rows=prepared.rows,
        pooling=prepared.pooling,
        promises=promises,
    )
    empty = () if requirements.only_gaps else empty_ratios(solution.proved)
    warned = (*solution.warnings, *empty)
    info = replace(
        policy.info,
        found=tuple(map(OutcomeInfo.of, solution.stored_outcomes)),
        warnings=tuple(warning.brief() for warning in warned),
        coin_share=solution.coin_share,
        score_blind_rules=solution.score_blind_rules,
    )
    return solution.with_info(info, warnings=warned)


def _policy(solved: _Solved, requirements: Requirements, promises: Promises, calibration: str, key: int) -> Policy:
    """The rules, with what was required, proved and promised of them."""
    rows = solved.prepared.rows
    return Policy(
        groups=rows.groups.names,
        sites=rows.sites.names,
        mixtures=solved.mixtures,
        calibrator=solved.prepared.fitted.calibrator,
        merged_rules=solved.merged,
        key=key,
        info=PolicyInfo(
            requirements=RequirementsInfo.of(requirements),
            certificate=solved.certificate.info,
            rows=int(rows.scores.size),
            calibration=calibration,
            pooling=solved.prepared.pooling,
            solver=solved.optimum.solver,
            promises=promises.info,
            version=__version__,
        ),
    )


def _solve(problem: Problem, settings: Algorithm1 | None, basis: str) -> tuple[Mixtures, Certificate, Optimum]:
    """Solve as the user asked, store the rules, and measure what was stored."""
    if settings is None:
        return certified(problem, basis)
    *_, last = rounds(problem, settings)
    optimum = finish(problem, last)
    if optimum is None:
        raise SolverError("algorithm1: a site's own problem could not be solved; use solver='exact'.")
    return (*_stored(problem, optimum, basis), optimum)


def _own_value(solved: _Solved, basis: str) -> float:
    """Expected accuracy, or cost, of rules on the sites' own rows, nothing borrowed."""
    problem, prepared = solved.problem, solved.prepared
    if prepared.pooling.prior != "none":
        problem = replace(problem, cells=ordered_cells(prepared.rows, basis, None))
    u, v = (part.reshape(problem.shape) for part in evaluate(problem.cells, solved.mixtures))
    return problem.reported(problem.accuracy(u, v))


def _for_new_rows(
    split: CalibrationSplit,
    requirements: Requirements,
    confidence: float,
    key: int,
    settings: Algorithm1 | None,
    basis: str,
) -> tuple[_Solved, Promises]:
    """The rules that are certified for new rows, and what is; the bound stays that of all rules on all rows."""

    def fill(part: Prepared, rules: Mixtures) -> Mixtures:
        empty = bool((part.cells.mass == 0).any())
        merged = merged_rules(merged_cells(part, basis), requirements, basis) if empty else None
        return filled(part.cells, rules, merged, requirements.costs)

    def solve(problem: Problem) -> Mixtures:
        return _solve(problem, settings, basis)[0]

    solved = _solved(split.prepared, requirements, settings, basis)
    mixtures, promises = promise(split, requirements, solved.mixtures, confidence, key, solve, fill)
    prices = solved.optimum.local_prices, solved.optimum.global_prices
    certificate = certify(solved.problem, mixtures, *prices, basis)
    promises = replace(promises, accuracy=certificate.primal, measure=certificate.objective)
    prepared = replace(solved.prepared, pooling=split.part.pooling)  # what the rows that choose borrow
    return replace(solved, prepared=prepared, mixtures=mixtures, certificate=certificate), promises


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
            found = _first_certified(given, basis, (*first, solve_exact, solve_joint))
        except InfeasibleError as error:
            conflict = error
            continue
        if found is not None:
            return found
        break
    if conflict is not None:
        raise conflict
    raise SolverError(
        "exact: no policy with a valid certificate was found, so none is returned; "
        "loosen a tolerance slightly, and please report the case."
    )


def _first_certified(
    problem: Problem, basis: str, attempts: Iterable[Callable[[Problem], Optimum | None]]
) -> tuple[Mixtures, Certificate, Optimum] | None:
    for attempt in attempts:
        optimum = attempt(problem)
        if optimum is not None:
            mixtures, certificate = _stored(problem, optimum, basis)
            if certificate.holds:
                return mixtures, certificate, optimum
    return None


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
