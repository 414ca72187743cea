"""The whole problem as one program: the fallback agrees with the decomposition and with brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from logofair.solvers import joint
from logofair.solvers.decomposition import solve_exact
from logofair.solvers.joint import solve_joint
from support.examples import examples
from support.oracles import EVERY_NOTION, cases, random_case

modest = examples(40)


@modest
@given(cases())
def test_it_equals_the_program_over_all_rows_on_any_small_problem(case):
    problem = case.problem()
    optimum = solve_joint(problem)
    assert problem.violation(optimum.u, optimum.v) <= 1e-9
    assert problem.accuracy(optimum.u, optimum.v) == pytest.approx(case.best_rows()[0], abs=1e-6)


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_joint_exact_and_brute_force_agree(notion):
    case = random_case(np.random.default_rng(11), groups=3, sites=4, rows=100, local=[notion], tolerances=(0.0, 0.02))
    problem = case.problem()
    joint, exact = solve_joint(problem), solve_exact(problem)
    best = case.best_rows()[0]
    assert problem.accuracy(joint.u, joint.v) == pytest.approx(best, abs=1e-6)
    assert problem.accuracy(exact.u, exact.v) == pytest.approx(best, abs=1e-6)
    assert (joint.solver, exact.solver) == ("joint", "exact")


@modest
@given(cases())
def test_its_prices_prove_its_value(case):
    problem = case.problem()
    optimum = solve_joint(problem)
    bound = case.dual(optimum.local_prices, optimum.global_prices)
    assert bound == pytest.approx(problem.accuracy(optimum.u, optimum.v), abs=1e-6)


@modest
@given(cases())
def test_prices_sum_to_zero_over_the_groups_and_are_zero_where_nothing_counts(case):
    problem = case.problem()
    optimum = solve_joint(problem)
    np.testing.assert_allclose(optimum.local_prices.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(optimum.global_prices.sum(axis=0), 0.0, atol=1e-9)
    assert not optimum.local_prices[~problem.inside.compared].any()
    assert not optimum.global_prices[~problem.over_all.compared[0]].any()


def test_a_site_with_a_millionth_of_the_weight_is_solved_too():
    case = random_case(
        np.random.default_rng(4), groups=3, sites=3, rows=80, local=["equalized_odds"], tolerances=(0.01,)
    )
    case = replace(case, weights=np.where(case.sites == 2, 1.0, 1e6))
    problem = case.problem()
    optimum = solve_joint(problem)
    assert problem.violation(optimum.u, optimum.v) <= 1e-9
    assert problem.accuracy(optimum.u, optimum.v) == pytest.approx(case.best_rows()[0], abs=1e-6)


def test_too_few_rounds_of_new_corners_return_nothing(monkeypatch):
    monkeypatch.setattr(joint, "_ITERATIONS", 1)
    case = random_case(
        np.random.default_rng(6), groups=3, sites=3, rows=100, local=["equalized_odds"], tolerances=(0.01,)
    )
    assert solve_joint(case.problem()) is None
