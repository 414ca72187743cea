"""What a method does on the test rows of a split: its accuracy and gaps, and the noise floor of the local one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers
from logofair.columns.labels import encode, encode_known
from logofair.federation.privacy import Privacy, at_edges, histogram, midpoints, release, without_negatives
from logofair.fitting.fit import fit
from logofair.fitting.solution import Solution
from logofair.notions import named_notion
from logofair.policy.policy import Policy
from logofair.requirement import Scope
from logofair.requirements import gaps
from logofair.solvers.algorithm1 import Algorithm1, Round, finish, rounds
from logofair.solvers.problem import Problem
from logofair_reproduction.bounds import aglfop, gap_bound, information, label_table, oracle
from logofair_reproduction.datasets import CATALOGUE
from logofair_reproduction.datasets.preparing import cache_folder, check_about, is_prepared
from logofair_reproduction.experiments.experiment import METHODS, Case, MethodPlan, Training, Trial, trials
from logofair_reproduction.experiments.scores import Machine, SplitData, Trained, trained, versions

_VIOLATION_STEP = 0.001  # excesses over a tolerance that differ by less count as equal
_LEAST_INFORMATION = 1e-6  # nats
DELTA, BINS = 1e-6, 32  # of noised histograms


def measure(case: Case, rows: SplitData, machine: Machine) -> dict[str, Any]:
    """Measure one case; what was trained before is read, the rest is trained first.

    Returns the case's plain values, ``figures`` by name (None where undefined), the ``setting`` used and those
    ``tried`` on the calibration rows, and what else a reader needs: rows, versions, seconds beside training.
    """
    plan, started = METHODS[case.method], time.perf_counter()
    models = tuple(_model(rows, training, machine) for training in case.trainings)
    found, about = _KINDS[plan.kind](case, plan, rows, models)
    return {
        **case.as_dict(),
        "figures": {name: None if value is None else round(float(value), 6) for name, value in found.items()},
        **about,
        "rows": {part: int(places.size) for part, places in rows.parts.items()},
        "sample": _sample(rows, machine),
        "seconds": round(time.perf_counter() - started, 3),
        "date": date.today().isoformat(),
        "versions": versions(),
        "trained_with": dict(models[0].trained_with),
    }


@lru_cache(maxsize=8)
def _model(rows: SplitData, training: Training, machine: Machine) -> Trained:
    model = trained(lambda: rows, training, machine)
    model.check_rows(rows, machine.folder)
    return model


def _sample(rows: SplitData, machine: Machine) -> dict[str, Any]:
    """Of how many rows these are, of which year where that is known, and how many natural sites they have."""
    name, natural = rows.split.data, rows.data.sites
    found: dict[str, Any] = {"of": len(rows.data)} if rows.split.limit is None else {}
    folder = cache_folder(name, machine.cache)
    if CATALOGUE[name].needs_files and is_prepared(folder):
        about = check_about(folder, name)
        origin = {"of": about["counts"].get("rows kept"), "year": about.get("year")}
        found |= {key: value for key, value in origin.items() if value is not None}
    return found if natural is None else found | {"natural": int(np.unique(natural).size)}


Models = tuple[Trained, ...]
Outcome = tuple[dict[str, float | None], dict[str, Any]]


def _decided(case: Case, plan: MethodPlan, rows: SplitData, models: Models) -> Outcome:
    """A trained model's own decisions."""
    (model,) = models
    about = {"setting": dict(model.setting), "tried": [dict(each) for each in model.tried]}
    scores = model.test if plan.half else model.decided
    return _figures(case, rows, scores >= 0.5), about


def _processed(case: Case, plan: MethodPlan, rows: SplitData, models: Models) -> Outcome:
    """Scores post-processed on the calibration rows."""
    solver, tried = _solver(case, plan, rows, models)
    solution = _fitted(case, plan, rows, models, solver)
    about: dict[str, Any] = {"setting": {**models[0].setting, "pooling": _pooling(plan)}, "tried": tried}
    if isinstance(solver, Algorithm1):
        about["setting"] |= {"T": solver.rounds, "S": solver.local_steps, "sharpness": solver.sharpness}
    found = _figures(case, rows, _chances(solution.policy, models[0].test, rows))
    certificate = solution.certificate
    found |= {"violation": certificate.violation, "optimality_gap": certificate.optimality_gap}
    return found, about


def _pooling(plan: MethodPlan) -> str:
    """The paper's procedure has none, nor has one that counts labels."""
    return "none" if plan.solver == "algorithm1" or plan.basis == "labels" else "auto"


def _tolerances(case: Case, plan: MethodPlan, models: Models) -> dict[str, Any]:
    """The tolerances of a case: as required, or as large as a baseline's gaps on the calibration rows."""
    if plan.tolerances == "required":
        return {"local_tolerance": case.local_tolerance, "global_tolerance": case.global_tolerance}
    did = models[1].did
    return {f"{side}_tolerance": _as_tolerance(did[f"{side}_gap"]) for side in ("local", "global")}


def _as_tolerance(gap: float | None) -> float | None:
    """A gap as a tolerance: none where it is undefined, or so large that it forbids nothing."""
    return None if gap is None or gap >= 1.0 else gap


def _notion(case: Case) -> str | dict[str, str]:
    """The notion of both sides, or one for each."""
    local, global_ = case.notions
    return local if local == global_ else {"local": local, "global": global_}


def _fitted(
    case: Case, plan: MethodPlan, rows: SplitData, models: Models, solver: str | Algorithm1 = "exact"
) -> Solution:
    part = rows.rows("calibration")
    return fit(
        models[0].calibration,
        part.labels,
        sensitive_features=part.groups,
        sites=part.sites,
        notion=_notion(case),
        solver=solver,
        pooling=_pooling(plan),
        basis=plan.basis,
        calibration="none" if plan.basis == "labels" else "beta",
        random_state=case.split.random_state,
        **_tolerances(case, plan, models),
    )


def _solver(
    case: Case, plan: MethodPlan, rows: SplitData, models: Models
) -> tuple[str | Algorithm1, list[dict[str, Any]]]:
    """The solver, and for Algorithm 1 what its settings did on the calibration rows, of which the best is taken."""
    if plan.solver == "exact":
        return "exact", []
    found: list[tuple[tuple[float, float], Algorithm1, dict[str, Any]]] = []
    problem, runs = _algorithm1_runs(replace(case, level=None), rows, models, every=case.level is not None)
    for trial, states in runs:
        wanted = trial.rounds if case.level is None else (int(case.level),)
        for state in states:
            if state.number in wanted and (rule := finish(problem, state)) is not None:
                gaps = problem.local_gaps(rule.u, rule.v), problem.global_gaps(rule.u, rule.v)
                limits = problem.local_limits.tolerance, problem.global_limits.tolerance[0]
                excess = max(float(np.max(gap - most, initial=0.0)) for gap, most in zip(gaps, limits, strict=True))
                accuracy = problem.accuracy(rule.u, rule.v)
                did = {
                    **trial.setting,
                    "rounds": state.number,
                    "accuracy": round(accuracy, 5),
                    "excess": round(excess, 5),
                }
                order = (_VIOLATION_STEP * round(excess / _VIOLATION_STEP), -accuracy)
                found.append((order, Algorithm1(rounds=state.number, **trial.setting), did))
    best = min(found, key=lambda each: each[0])
    return best[1], [did for _, _, did in found]


@lru_cache(maxsize=1)
def _algorithm1_runs(
    case: Case, rows: SplitData, models: Models, *, every: bool
) -> tuple[Problem, list[tuple[Trial, list[Round]]]]:
    """The problem of a case, and the rounds of Algorithm 1 on it with each of its settings: every one, or those listed.

    The last runs are remembered: a run of 100 rounds passes through its tenth, so one serves every number of rounds.
    """
    problem = _fitted(case, METHODS[case.method], rows, models).problem
    tried = trials("", "algorithm1", case.solver_budget)
    runs = [Algorithm1(rounds=max(trial.rounds), **trial.setting) for trial in tried]
    return problem, [
        (trial, list(rounds(problem, run, None if every else trial.rounds)))
        for trial, run in zip(tried, runs, strict=True)
    ]


def _chances(policy: Policy, scores: Floats, rows: SplitData) -> Floats:
    test = rows.rows("test")
    return policy.probabilities(scores, sensitive_features=test.groups, sites=test.sites, on_unknown="merged")


def _figures(case: Case, rows: SplitData, chances: object) -> dict[str, float | None]:
    """Accuracy, gaps and floors on the test rows, of the local notion inside sites and of the global one over all."""
    local, global_ = (rows.rows("test").audit(chances, notion) for notion in case.notions)
    gaps = [gap.value for gap in local.site_gaps if gap.value is not None]
    # What a rule with this true gap at every site would show at most on these rows, on average.
    floors = [local.local.floor_at(gap).mean for gap in (0.0, case.local_tolerance or 0.0)]
    floor, floor_at_tolerance = (None if np.isnan(mean) else mean for mean in floors)
    return {
        "accuracy": local.accuracy,
        "local_gap": local.local.gap().value,
        "local_gap_30": local.local.large.gap().value,
        "mean_local_gap": float(np.mean(gaps)) if gaps else None,
        "global_gap": global_.global_.gap().value,
        "floor": floor,
        "floor_at_tolerance": floor_at_tolerance,
        "global_floor": global_.global_.floor.mean,
    }


def _protocol(case: Case, plan: MethodPlan, rows: SplitData, models: Models) -> Outcome:
    """The federated protocol's policies, and the rounds of answers it took."""
    from logofair.engines.inprocess import run
    from logofair.federation import SiteColumns, make_plan

    part = rows.rows("calibration")
    sites = {
        f"client {name}": SiteColumns(
            sensitive_features=part.groups[own], scores=models[0].calibration[own], labels=part.labels[own]
        )
        for name in np.unique(part.sites)
        for own in [part.sites == name]
    }
    agreed = make_plan(
        groups=sorted(set(part.groups.tolist())),
        notion=_notion(case),
        random_state=case.split.random_state,
        run=f"seed-{case.split.random_state}",
        smallest_cell=1,  # as in a fit
        **_tolerances(case, plan, models),
    )
    done, test = run(agreed, sites), rows.rows("test")
    chances = np.empty(test.labels.size)
    for name in np.unique(test.sites):
        own = test.sites == name
        policy = done.policies[f"client {name}"]
        chances[own] = policy.probabilities(
            models[0].test[own], sensitive_features=test.groups[own], on_unknown="merged"
        )
    found = _figures(case, rows, chances)
    exchanges = sum(done.result.exchanges.values())
    return found | {"rounds": done.result.rounds, "exchanges": exchanges}, {"setting": dict(models[0].setting)}


def _bound(case: Case, plan: MethodPlan, rows: SplitData, models: Models) -> Outcome:
    """What no rule of a kind exceeds on the test rows."""
    test, setting = rows.rows("test"), {"setting": dict(models[0].setting)}
    required: dict[str, Any] = {"notion": _notion(case)}
    required |= {"local_tolerance": case.local_tolerance, "global_tolerance": case.global_tolerance}
    if plan.bound == "oracle":  # the best thresholds on the test rows, with their labels
        return _best_on_test(case, rows, models, required), setting
    if plan.bound == "oracle_same":  # the same whose gaps are at most those of LoGoFair_l&g there, site by site
        chances = _as_processed(case, rows, models)
        local, global_ = (test.audit(chances, notion) for notion in case.notions)
        of_local, of_global = (named_notion(each, "notion") for each in case.notions)
        limits = [(of_local, _as_tolerance(each.gap), Scope("at", (str(each.site),))) for each in local.by_site]
        limits.append((of_global, _as_tolerance(global_.global_.gap().value), Scope("overall")))
        required |= {"local_tolerance": None, "global_tolerance": None}
        required["require"] = [
            item for notion, own, where in limits if own is not None for item in gaps(notion, own, where)
        ]
        return _best_on_test(case, rows, models, required), setting
    table = label_table(test.labels, sensitive_features=test.groups, sites=test.sites)
    if plan.bound == "aglfop":  # whatever the model, with these gaps
        most = gap_bound(table, **required).bound
    else:  # or with decisions that tell as much about the group as those of LoGoFair_l&g do here
        shares = table.shares(
            _as_processed(case, rows, models), test.labels, sensitive_features=test.groups, sites=test.sites
        )
        # A bound for a larger limit holds for the smaller one too, and solvers need some room.
        nats = [max(nats, _LEAST_INFORMATION) for nats in information(table, shares)]
        most = aglfop(table, global_information=nats[0], local_information=nats[1]).bound
    return {"accuracy": most, "local_gap": None, "global_gap": None}, setting


def _as_processed(case: Case, rows: SplitData, models: Models) -> Floats:
    """What LoGoFair_l&g decides on the test rows."""
    return _chances(_fitted(case, METHODS["logofair_lg"], rows, models).policy, models[0].test, rows)


def _best_on_test(case: Case, rows: SplitData, models: Models, required: Mapping[str, Any]) -> dict[str, float | None]:
    test, scores = rows.rows("test"), models[0].test
    found = oracle(scores, test.labels, sensitive_features=test.groups, sites=test.sites, **required)
    return _figures(case, rows, _chances(found.solution.policy, scores, rows))


def _private(case: Case, plan: MethodPlan, rows: SplitData, models: Models) -> Outcome:
    """Post-processed on noised histograms."""
    chances, about = private_chances(case, rows, models[0].calibration, models[0].test)
    return _figures(case, rows, chances), {"setting": {**models[0].setting, **about}}


def private_chances(case: Case, rows: SplitData, scores: Floats, test_scores: Floats) -> tuple[Floats, dict[str, Any]]:
    """Chances of acceptance on the test rows by a policy made of histograms; ``case.level`` is epsilon, None: no noise.

    A site that keeps its rows to itself sends a histogram of its calibration rows in their place, with the noise of
    differential privacy or without; the federation is solved on these, which has the same optimum as the protocol's
    rounds. Scores are taken as chances, since calibrating them needs labels; the noise is seeded. Also returns how the
    histograms were made.
    """
    part, test = rows.rows("calibration"), rows.rows("test")
    groups, sites = encode(part.groups, "groups"), encode(part.sites, "sites")
    n_groups, n_sites = len(groups.names), len(sites.names)
    made = [
        _counts(scores[own], groups.codes[own], n_groups, case.level, (case.split.random_state, site))
        for site in range(n_sites)
        for own in [sites.codes == site]
    ]
    policy = fit(
        np.tile(midpoints(BINS), n_sites * n_groups),
        None,
        sensitive_features=np.tile(np.repeat(np.arange(n_groups), BINS), n_sites),
        sites=np.repeat(np.arange(n_sites), n_groups * BINS),
        notion=case.notion,
        local_tolerance=case.local_tolerance,
        global_tolerance=case.global_tolerance,
        calibration="none",
        pooling="none",
        sample_weight=np.concatenate([counts.ravel() for counts, _ in made]).astype(np.float64),
    ).policy
    merged = policy.merged
    if merged is not None:  # thresholds at the edges of bins, not at their midpoints
        policy = replace(
            policy, mixtures=at_edges(policy.mixtures.shown, BINS), merged_rules=at_edges(merged.shown, BINS)
        )
    chances = policy.probabilities(
        test_scores,
        sensitive_features=encode_known(test.groups, groups.names, "groups"),
        sites=encode_known(test.sites, sites.names, "sites"),
        on_unknown="merged",
    )
    return chances, {"bins": BINS, "delta": DELTA, "noise": round(made[0][1], 2)}


def _counts(
    scores: Floats, groups: Integers, n_groups: int, epsilon: float | None, key: tuple[int, int]
) -> tuple[npt.NDArray[np.integer[Any]], float]:
    """One site's histogram, whole counts from 0, and the standard deviation of the noise in it."""
    if epsilon is None:
        return histogram(scores, groups, n_groups, BINS), 0.0
    stream = int(np.random.default_rng([*key, round(1000 * epsilon)]).integers(2**31))
    privacy = Privacy(epsilon, DELTA, bins=BINS)
    noised = release(scores, groups, n_groups=n_groups, privacy=privacy, random_state=stream)
    return without_negatives(noised.counts), noised.scale


_KINDS: Mapping[str, Callable[[Case, MethodPlan, SplitData, Models], Outcome]] = {
    "trained": _decided,
    "processed": _processed,
    "protocol": _protocol,
    "private": _private,
    "bound": _bound,
}
