"""The exact optimum is the best of all rules: a linear program over every row agrees with it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import support.sentences as asked
from logofair.notions import NOTIONS
from logofair.solvers import decomposition
from logofair.solvers.decomposition import ExactSolver, solve_exact
from logofair.solvers.joint import solve_joint
from logofair.solvers.problem import Problem
from support.examples import examples
from support.oracles import BENEFIT, EVERY_NOTION, TOLERANCES, Case, cases, random_case, rates_of

modest = examples(60)


def value_of(case: Case) -> float:
    """Accuracy the exact solver (or, where it declines, its fallback) reaches within the tolerances."""
    problem = case.problem()
    optimum = solve_exact(problem) or solve_joint(problem)
    assert optimum is not None
    assert problem.violation(optimum.u, optimum.v) <= 1e-9
    return problem.accuracy(optimum.u, optimum.v)


def one_site(scores, groups, rate, tolerance, **columns) -> Case:
    """A case of one site with one local requirement."""
    scores, groups = np.array(scores, dtype=float), np.array(groups)
    tolerances = np.array([[tolerance]]), np.zeros(0)
    return Case(scores, groups, np.zeros_like(groups), int(groups.max()) + 1, 1, (rate,), (), *tolerances, **columns)


@modest
@given(cases(most_rows=10))
def test_the_two_oracles_agree_with_each_other(case):
    assert case.best_rows()[0] == pytest.approx(case.best_thresholds(), abs=1e-8)


@modest
@given(cases())
def test_it_equals_the_program_over_all_rows_on_any_small_problem(case):
    assert value_of(case) == pytest.approx(case.best_rows()[0], abs=1e-6)


@pytest.mark.parametrize(("local", "global_"), list(product(EVERY_NOTION, EVERY_NOTION)))
def test_it_equals_the_program_over_all_rows_for_every_pair_of_notions(local, global_):
    rng = np.random.default_rng([list(EVERY_NOTION).index(local), list(EVERY_NOTION).index(global_)])
    for tolerances in (TOLERANCES, (0.0, 1e-6), (0.01, 0.05)):
        case = random_case(rng, local=[local], global_=[global_], tolerances=tolerances)
        assert value_of(case) == pytest.approx(case.best_rows()[0], abs=1e-6)


@pytest.mark.slow
def test_it_seldom_declines():
    problems = (random_case(np.random.default_rng(seed), tolerances=(0.0, 0.01, 0.05)).problem() for seed in range(40))
    assert sum(solve_exact(problem) is None for problem in problems) <= 1


@pytest.mark.parametrize("seed", range(6))
def test_several_notions_on_one_side_hold_together(seed):
    rng = np.random.default_rng(seed)
    case = random_case(rng, local=["demographic_parity", "equalized_odds"], global_=["benefit", "equal_opportunity"])
    local, global_ = (rng.choice(TOLERANCES, t.shape) for t in (case.local_tolerance, case.global_tolerance))
    case = replace(case, local_tolerance=local, global_tolerance=global_)
    assert value_of(case) == pytest.approx(case.best_rows()[0], abs=1e-6)


@pytest.mark.parametrize("notion", EVERY_NOTION)
@pytest.mark.parametrize("heavy", [1e6, 1e8])
def test_a_site_with_a_millionth_of_the_weight_stays_within_its_own_tolerance(notion, heavy):
    rng = np.random.default_rng(3)
    case = random_case(
        rng, groups=3, sites=3, rows=90, local=[notion], global_=["equalized_odds"], tolerances=(0.0, 0.01)
    )
    case = replace(case, weights=np.where(case.sites == 1, 1.0, heavy))
    problem = case.problem()
    optimum = solve_exact(problem)
    assert problem.violation(optimum.u, optimum.v) <= 1e-9
    assert problem.accuracy(optimum.u, optimum.v) == pytest.approx(case.best_rows()[0], abs=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("notion", NOTIONS)
def test_one_or_two_rows_beside_a_million(rows, notion):
    rng = np.random.default_rng(rows)
    n = 1_000_000
    scores, groups = np.round(rng.beta(1, 2, n + rows), 3), rng.integers(0, 2, n + rows)
    groups[-rows:] = np.arange(rows)
    scores[-rows:] = [0.9, 0.2][:rows]
    sites = np.append(np.zeros(n, dtype=int), np.ones(rows, dtype=int))
    rates = rates_of([notion])
    bounds = np.full((2, len(rates)), 0.01), np.full(len(rates), 0.005)
    case = Case(scores, groups, sites, 2, 2, rates, rates, *bounds)
    problem = case.problem()
    optimum = solve_exact(problem)
    assert problem.violation(optimum.u, optimum.v) <= 1e-9
    # Equal rows as one row of their number: the program over rows stays small.
    counts = np.bincount(np.rint(1000 * scores).astype(int) * 4 + groups * 2 + sites)
    alike = np.flatnonzero(counts)
    grouped = replace(
        case,
        scores=(alike // 4) / 1000,
        groups=alike // 2 % 2,
        sites=alike % 2,
        weights=counts[alike].astype(float),
    )
    assert problem.accuracy(optimum.u, optimum.v) == pytest.approx(grouped.best_rows()[0], abs=1e-6)


def test_certain_rows_in_one_cell_do_not_disturb_the_rates_of_another():
    # Nobody in the second site's group 1 can be a false positive: that rate is undefined, not a rounding error.
    scores = [0.3, 0.55, 0.7, 0.123456789, 0.1, 1.0, 1.0, 1.0]
    groups, sites = [0, 0, 1, 1, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]
    rates = rates_of(["equalized_odds"])
    bounds = np.zeros((2, 2)), np.zeros(2)
    case = Case(np.array(scores), np.array(groups), np.array(sites), 2, 2, rates, rates, *bounds)
    assert value_of(case) == pytest.approx(case.best_rows()[0], abs=1e-6)


@modest
@given(cases(labelled=True, most_rows=8))
def test_with_labels_it_equals_the_program_over_all_thresholds(case):
    assert value_of(case) == pytest.approx(case.best_thresholds(), abs=1e-6)


def _mean(case: Case, block: list[int]) -> float:
    return float(case.labels[block] @ case.mass[block] / case.mass[block].sum())


def test_demographic_parity_by_hand():
    case = one_site([0.9, 0.7, 0.4, 0.2], [0, 0, 1, 1], NOTIONS["demographic_parity"].rates[0], 0.0)
    # Gains 2 * score - 1: (0.8, 0.4) and (-0.2, -0.6). Accepting all wins 0.4, the top halves 0.6, nobody 0.
    baseline = np.mean([0.1, 0.3, 0.6, 0.8])
    assert value_of(case) == pytest.approx(baseline + 0.6 / 4, abs=1e-9)


def test_equal_opportunity_needs_a_coin_inside_a_cell_by_hand():
    # TPR of group 0 is all or nothing (one row); group 1's rows have shares 3/4 and 1/4 of its positives.
    case = one_site([0.8, 0.6, 0.2], [0, 1, 1], NOTIONS["equal_opportunity"].rates[0], 0.0)
    # Gains 0.6; 0.2, -0.6. Accept group 0 with chance t and so much of group 1 that its TPR is t: the first row
    # up to t = 3/4 (gain 0.6 t + 0.2 t * 4/3), then the second too, losing 0.6 * 4 (t - 3/4) against 0.6 (t - 3/4).
    baseline = np.mean([0.2, 0.4, 0.8])
    assert value_of(case) == pytest.approx(baseline + (0.6 * 0.75 + 0.2) / 3, abs=1e-9)


def test_a_rate_of_the_users_own_by_hand():
    # Benefit of accepting group 0's row is 0.6, of group 1's row 0.2 per person: equal means chance 1/3 for group 0.
    case = one_site([0.8, 0.6], [0, 1], BENEFIT, 0.0)
    assert value_of(case) == pytest.approx(np.mean([0.2, 0.4]) + (0.6 / 3 + 0.2) / 2, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_loose_tolerances_give_back_the_rule_of_one_half(seed):
    case = random_case(np.random.default_rng(seed), tolerances=(10.0,))
    each = np.maximum(case.scores, 1.0 - case.scores)
    assert value_of(case) == pytest.approx(float(case.mass @ each), abs=1e-9)


@modest
@given(cases())
def test_no_constraints_at_all_give_back_the_rule_of_one_half(case):
    free = replace(
        case,
        local_tolerance=np.full_like(case.local_tolerance, np.inf),
        global_tolerance=np.full_like(case.global_tolerance, np.inf),
    )
    assert value_of(free) == pytest.approx(float(case.mass @ np.maximum(case.scores, 1.0 - case.scores)), abs=1e-9)


@modest
@given(cases(), st.data())
def test_adding_a_constraint_never_raises_accuracy(case, data):
    before = value_of(case)
    place = data.draw(st.sampled_from(list(np.ndindex(case.local_tolerance.shape))))
    tighter = case.local_tolerance.copy()
    tighter[place] = min(tighter[place], data.draw(st.sampled_from([0.0, 1e-6, 0.02])))
    assert value_of(replace(case, local_tolerance=tighter)) <= before + 1e-6


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_one_site_makes_local_and_global_the_same(notion):
    rng = np.random.default_rng(5)
    rates = rates_of([notion])
    for tolerance in (0.0, 1e-6, 0.03):
        case = random_case(rng, sites=1, local=[notion], global_=[notion])
        k = len(rates)
        free, bound = np.full(k, np.inf), np.full(k, tolerance)
        local = value_of(replace(case, local_tolerance=bound[None], global_tolerance=free))
        global_ = value_of(replace(case, local_tolerance=free[None], global_tolerance=bound))
        both = value_of(replace(case, local_tolerance=bound[None], global_tolerance=bound))
        assert local == pytest.approx(global_, abs=1e-6)
        assert local == pytest.approx(both, abs=1e-6)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_a_solver_that_remembers_answers_finds_what_a_fresh_one_finds(notion):
    case = random_case(np.random.default_rng(2), groups=3, sites=3, rows=90, local=[notion], global_=[notion])
    solver, rounds = ExactSolver(), []
    for local in (0.02, 0.1):
        for global_ in (0.2, 0.05, 0.01, 0.0):
            tolerances = np.full_like(case.local_tolerance, local), np.full_like(case.global_tolerance, global_)
            problem = replace(case, local_tolerance=tolerances[0], global_tolerance=tolerances[1]).problem()
            fresh, again = solve_exact(problem), solver.solve(problem)
            assert problem.violation(again.u, again.v) <= 1e-9
            assert problem.accuracy(again.u, again.v) == pytest.approx(problem.accuracy(fresh.u, fresh.v), abs=1e-6)
            rounds.append((fresh.rounds, again.rounds))
        solver = solver.at_looser_tolerances()
    assert sum(again for _, again in rounds) < sum(fresh for fresh, _ in rounds)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize(("groups", "box"), [(2, 0.01), (2, 1e-9), (3, 0.01), (3, 10.0)])
@pytest.mark.parametrize("seed", range(4))
def test_prices_of_some_sites_to_begin_with_change_no_optimum(notion, groups, box, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    case = random_case(rng, groups=groups, sites=40, rows=900, local=[notion], global_=[notion])
    monkeypatch.setattr(decomposition, "_FIRST_BOX", box)
    value, sampled = value_of(case), []
    monkeypatch.setattr(decomposition, "_SAMPLED_FROM", 40)
    monkeypatch.setattr(decomposition, "_SAMPLE", 4)
    of_sites = Problem.of_sites
    monkeypatch.setattr(Problem, "of_sites", lambda self, some: sampled.append(some.size) or of_sites(self, some))
    assert value_of(case) == pytest.approx(value, abs=1e-6)
    assert sampled == [4]


def fit_to_400_sites(monkeypatch, scores, labels=None, *, some=40, **given):
    """A fit whose solver begins at the prices of some sites."""
    monkeypatch.setattr(decomposition, "_SAMPLED_FROM", 400 if some else 10**9)
    monkeypatch.setattr(decomposition, "_SAMPLE", some)
    sites, groups = np.repeat(np.arange(400), 2), np.tile([0, 1], 400)
    more = {"local_tolerance": None, "global_tolerance": None, "calibration": "none", "pooling": "none"} | given
    return asked.fit(scores, labels, sensitive_features=groups, sites=sites, random_state=0, **more)


@pytest.mark.parametrize("seed", range(8))
def test_answers_that_reject_everybody_are_no_reason_to_give_up(seed, monkeypatch):
    scores = np.random.default_rng(seed).choice([0.1, 0.3, 0.9], 800, p=[0.4, 0.3, 0.3])
    solution = fit_to_400_sites(monkeypatch, scores, capacity=("exactly", 0.2))
    assert solution.solver == "exact"
    assert solution.certificate.primal == pytest.approx(best_with_a_fifth(scores), abs=1e-6)


def best_with_a_fifth(chances):
    """Expected accuracy of accepting the fifth of the rows with the highest chances."""
    chances = np.sort(chances)
    accepted = chances[-(chances.size // 5) :]
    return (accepted.sum() + (1.0 - chances[: -(chances.size // 5)]).sum()) / chances.size


def test_where_no_chance_exceeds_one_half_a_capacity_is_filled_by_the_exact_solver(monkeypatch):
    scores = np.random.default_rng(0).random(800) / 2
    solution = fit_to_400_sites(monkeypatch, scores, some=0, capacity=("exactly", 0.2))
    assert solution.solver == "exact"
    assert solution.certificate.primal == pytest.approx(best_with_a_fifth(scores), abs=1e-6)


def test_sites_without_weight_give_no_prices(monkeypatch):
    rng = np.random.default_rng(0)
    scores, weights = rng.random(800), np.zeros(800)
    weights[:2] = 1.0
    labels = (rng.random(800) < scores).astype(int)
    given = {"sample_weight": weights, "notion": "equal_opportunity", "global_tolerance": 0.1}
    solution = fit_to_400_sites(monkeypatch, scores, labels, **given)
    assert solution.certificate.holds


@modest
@given(cases(), st.randoms(use_true_random=False))
def test_renaming_groups_and_sites_changes_nothing(case, random):
    groups, sites = list(range(case.n_groups)), list(range(case.n_sites))
    random.shuffle(groups)
    random.shuffle(sites)
    renamed = replace(
        case,
        groups=np.array(groups)[case.groups],
        sites=np.array(sites)[case.sites],
        local_tolerance=case.local_tolerance[np.argsort(sites)],
    )
    assert value_of(renamed) == pytest.approx(value_of(case), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, 200))
def test_it_equals_the_program_over_all_rows_on_many_random_problems(start):
    for seed in range(start, start + 200):
        case = random_case(np.random.default_rng(seed))
        assert value_of(case) == pytest.approx(case.best_rows()[0], abs=1e-6), seed
