"""``logofair.fit``: check the input, calibrate, solve, and hand back a policy with its certificate."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace

from logofair import __version__
from logofair.columns.checks import random_number, same_order
from logofair.errors import InputError
from logofair.fitting.blind import SolvedAway, check_away, read_sight, solve_away
from logofair.fitting.certifying import certify_for_new_rows, check_confidence, split_rows
from logofair.fitting.least_gap import LeastGap, check_objective, least_gap
from logofair.fitting.solution import STORED_OUTCOMES, FitWarning, Solution, cell_warnings, empty_ratios
from logofair.fitting.solving import (
    FitSettings,
    Solved,
    checked_pooling,
    checked_rows,
    prepare,
    solve_prepared,
)
from logofair.notions import NotionLike
from logofair.outcomes import MET, Outcomes
from logofair.policy.info import PolicyInfo
from logofair.policy.policy import Policy
from logofair.progress import Progress, Stages, no_progress
from logofair.requirements import DEFAULT, Given, Requirements, make_requirements
from logofair.solvers.algorithm1 import Algorithm1, solver_settings

_STAGES = 4  # columns checked, rows prepared, solved, handed over


def fit(
    scores: object,
    labels: object,
    *,
    sensitive_features: object = None,
    sites: object = None,
    group_probabilities: object = None,
    notion: NotionLike | Mapping[str, NotionLike] = DEFAULT,
    local_tolerance: Given = DEFAULT,
    global_tolerance: Given = DEFAULT,
    require: object = (),
    costs: object = None,
    objective: str = "accuracy",
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
    sensitive_features : array-like of shape (n,), frame or mapping of several
        The sensitive attribute: any hashable labels, two groups or more. Of several columns requirements hold for each
        by itself unless they name theirs (``gap by sex and race``). Optional beside ``group_probabilities``.
    sites : array-like of shape (n,), optional
        The site of each row; by default all rows belong to one site, and the smaller tolerance holds.
    group_probabilities : table of shape (n, groups), optional
        For a policy that may not look at anybody's group: the probability of each group, by a classifier not trained
        on these rows, as a frame or mapping whose columns are named by the groups (or an array in the sorted order of
        ``sensitive_features``). Found is the best rule of score, probabilities and site. Where ``sensitive_features``
        are given, rates count these true groups, and labels whatever the basis; ``certificate.holds`` is then None: no
        optimality is proved. Without them rates count by probability, only selection rates can be required, and the
        certificate's bound is on all rules that see the same.
    notion : str, Notion or mapping
        The short way to the usual requirements: ``"demographic_parity"`` (by default), ``"equal_opportunity"``,
        ``"predictive_equality"``, ``"equalized_odds"``, a :class:`Notion`, or ``{"local": ..., "global": ...}``.
    local_tolerance, global_tolerance : float or None
        Largest gap allowed inside each site and over all of them; None: not constrained. Both are 0.02 where neither
        is given; where one is, the other side is not constrained.
    require : str, Requirement, or several of either
        What must hold, as sentences: ``"true positive rate ratio >= 0.8 per site"``, ``"accepted <= 0.2 overall"``
        (see :class:`Requirement`). They hold beside those of the short way; where neither ``notion`` nor a tolerance
        is given, they are all that is required. Where nobody is selected a ratio says nothing: pair it with a floor.
        ``today`` stands for the figure of the unconstrained rule. The merged rule for unknown sites meets the
        requirements that name no site.
    costs : pair of float or mapping, optional
        What a wrongly accepted and a wrongly rejected row cost, for all sites or ``{site: pair}``. The policy is
        then the cheapest, and certificate and prices are in cost per row. None: the most accurate (1 and 1).
    objective : {"accuracy", "gap"}
        What is best. ``"accuracy"``: the most accurate rules, or with ``costs`` the cheapest. ``"gap"``: the rules with
        the smallest gaps that cost no more than is required, such as ``"accuracy loss <= 0.01 overall"``: all limits on
        gaps are multiplied by the smallest factor at which some rule meets them and all else (``solution.least_gap``).
    solver : {"exact", "algorithm1"} or Algorithm1
        The certified optimum, or the paper's iterative procedure (whose result may violate its tolerances).
    calibration : {"beta", "platt", "temperature", "isotonic", "none"}
        How scores become chances of label 1 in each group and site, cross-fitted on these rows.
    basis : {"eta", "labels"}
        What counts as positive when rates and accuracy are measured: the calibrated chance, or the label itself (the
        best achievable with these scores on these very rows).
    pooling : {"auto", "none", "full"}
        What small cells (a group at a site) borrow from their group at the other sites. Two things shrink: the
        cell's distribution of scores to that of its group, and its calibrator to its group's. "auto" chooses how far
        by cross-validation; with "none" every cell stands alone (in its calibrator the group's is worth one row);
        with "full" all sites of a group share one distribution and one calibrator. With ``basis="labels"`` nothing
        is borrowed.
    confidence : float, optional
        Also certify what holds for new rows, with this confidence: 0.95, say. With it all outcomes on "new rows" that
        are met hold at once, for rows drawn like these at the same site. Gaps of a single rate (all notions but
        equalized odds) on rows without weights are certified by rank: 3 of 10 rows, drawn at random, choose target
        rates, and thresholds are order statistics of the others. Otherwise, and where ratios, floors, ceilings or
        capacities are required, half of the rows choose the policy and the held-out half tests it. Small cells borrow
        among the rows that choose; what is promised rests on a site's own rows. Where nothing can be certified, the
        policy is that of a fit without ``confidence``. None: nothing is promised. The certificate is about the
        calibration rows either way: its bound is on all rules, its accuracy and violation are those of this policy,
        which gives up some accuracy for its promises (``solution.promises.price``).
    ids : array-like of shape (n,), optional
        The person that each row is of, any hashable labels: rows of one person stay together in folds and splits, and
        intervals and promises are by person, tested on held-out rows and never by rank. Every row counts in the rule.
        Without ids, or where no id stands twice, every row is taken for a person.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, in calibration and in the rule.
    random_state : int, optional
        For the calibration folds (0 by default, so that rules can be made again), and the key of the policy's coins
        (drawn anew by default, so that two policies toss independent coins; the policy stores it).
    progress : Progress, optional
        ``progress(steps, what, total)`` passes steps through and shows how many are done.

    Returns
    -------
    Solution
        ``policy``, ``certificate``, ``outcomes``, ``warnings`` and a ``summary()``. The policy also has a rule for
        sites that are not known yet, that of all rows taken as one site. It is computed when it is first needed (to
        decide on such a site, to be saved or shown), and the policy keeps the rows until then.

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
    sight = None
    if group_probabilities is not None:
        same_order(scores=scores, group_probabilities=group_probabilities)
        sight = read_sight(group_probabilities, sensitive_features)
        sensitive_features = sight.groups
    rows = checked_rows(scores, labels, sensitive_features, sites, sample_weight, calibration, basis, ids)
    random_state = None if random_state is None else random_number(random_state)
    requirements = make_requirements(
        require, notion, local_tolerance, global_tolerance, rows.sites, rows.groups, costs=costs
    )
    algorithm1 = solver_settings(solver)
    confidence = check_confidence(confidence)
    if algorithm1 is not None and not (requirements.only_gaps and requirements.costs is None):
        raise InputError(
            "solver: 'algorithm1' limits gaps alone and counts no costs; use 'exact', or leave other requirements out."
        )
    if algorithm1 is not None and requirements.attributes.columns:
        raise InputError("solver: 'algorithm1' compares the groups of one column; use 'exact', or pass one column.")
    smallest = check_objective(objective, requirements)
    if smallest and confidence is not None:
        raise InputError(
            "objective: 'gap' chooses the limits by all rows, so no rows are left to certify them; leave out "
            "confidence, or fit the limits it finds on other rows, with confidence."
        )
    settings = FitSettings(calibration, basis, checked_pooling(pooling, basis), random_state or 0, algorithm1)
    stages.done(1)
    key = secrets.randbits(64) if random_state is None else random_state
    if sight is not None:
        check_away(settings, confidence, smallest=smallest)
        found_away = solve_away(rows, sight, requirements, settings)
        stages.done(_STAGES - 1)
        return _make_solution(found_away, requirements, settings, key)
    prepared = prepare(rows, settings)
    stages.done(1)
    least: LeastGap | None = None
    if smallest:
        requirements, least = least_gap(prepared, requirements, settings)
    solved = solve_prepared(prepared, requirements, settings)
    if confidence is not None and requirements.items:
        split = split_rows(prepared, requirements, settings)
        found = certify_for_new_rows(split, requirements, confidence, settings)
        assert found.promises is not None
        if found.certified.where(state=MET):
            lost = solved.own_value - found.certificate.primal
            price = lost if requirements.costs is None else -lost
            solved = replace(found, promises=replace(found.promises, price=price))
        else:
            # Nothing is promised, so the policy fitted on all rows stays. Bounds were about the policy that was tested.
            certified = Outcomes(tuple(replace(each, low=None, high=None) for each in found.certified))
            promises = replace(found.promises, largest_local_bound=None)
            solved = replace(solved, certified=certified, promises=promises)
    stages.done(1)
    solution = replace(_make_solution(solved, requirements, settings, key), least_gap=least)
    stages.done(1)
    return solution


def _make_solution(
    solved: Solved | SolvedAway, requirements: Requirements, settings: FitSettings, key: int
) -> Solution:
    """The policy, with what was required, proved and certified of it; both in one solution."""
    prepared, rows = solved.prepared, solved.prepared.rows
    policy = Policy(
        groups=rows.groups.names,
        sites=rows.sites.names,
        mixtures=solved.mixtures,
        calibrator=prepared.fitted.calibrator,
        merged_rules=solved.merged,
        key=key,
    )
    warnings = tuple(cell_warnings(solved.problem, rows, merged=solved.merged is not None))
    solution = Solution(
        policy=policy,
        certificate=solved.certificate,
        requirements=requirements,
        problem=solved.problem,
        warnings=(*warnings, *([FitWarning("no merged rule")] if rows.has_sites and solved.merged is None else [])),
        solver=solved.optimum.solver,
        rounds=solved.optimum.rounds,
        rows=rows,
        pooling=prepared.pooling,
        certified=solved.certified,
        best=solved.best,
        promises=solved.promises,
        away=solved.away if isinstance(solved, SolvedAway) else None,
        settings=settings,
    )
    # What a policy stores about itself is measured on the solution.
    outcomes = solved.certified.brief(STORED_OUTCOMES) + solution.proved_of(STORED_OUTCOMES)
    warned = solution.warnings if requirements.only_gaps else (*solution.warnings, *empty_ratios(solution.proved))
    info = PolicyInfo(
        requirements=requirements.info,
        certificate=solved.certificate.info,
        rows=int(rows.scores.size),
        calibration=settings.calibration,
        pooling=prepared.pooling,
        solver=solved.optimum.solver,
        promises=solved.promises,
        version=__version__,
        found=tuple(each.stored for each in outcomes),
        warnings=tuple(map(str, warned)),
        **solved.coins,
    )
    return solution.with_info(info, warnings=warned)
