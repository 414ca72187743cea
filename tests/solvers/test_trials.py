"""Trial prices in batches: valid, new, few rounds, and a mixture within its tolerances whatever was tried."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from logofair.datasets import dirichlet_sites, load_adult
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.decomposition import Decomposition, TriedPrices, _Incumbent, solve_exact
from logofair.solvers.joint import solve_joint
from logofair.solvers.limits import Limits
from logofair.solvers.local import local_bound, solve_local
from logofair.solvers.problem import Problem
from logofair.solvers.trials import PriceMarks, price_marks, trial_prices, trial_size
from support.examples import examples
from support.oracles import EVERY_NOTION, HIGHS, Case, random_case, rates_of

modest = examples(15)
WIDER = 2e-11  # rows of the master are a little wider than required


def beginning(problem: Problem) -> Decomposition:
    return Decomposition(problem.over_all, TriedPrices.empty(*problem.over_all.defined.shape[1:]))


def answered(problem: Problem, state: Decomposition, prices: np.ndarray) -> Decomposition:
    """The state with the sites' answers to a batch, as a server computes it: from all answers anew."""
    tried = state.tried
    for each in prices:
        gain = problem.priced_gain(each)
        answer = solve_local(problem, *gain)
        gained = problem.accuracy(answer.u, answer.v) - problem.baseline
        rates = problem.global_shares(answer.u, answer.v)
        bound = float(problem.site_mass @ local_bound(problem, *gain, answer.prices))
        tried = tried.joined_with(TriedPrices(each[None], np.array([gained]), rates[None], np.array([bound])))
    return Decomposition(state.required, tried)


def marks_of(problem: Problem) -> PriceMarks:
    return price_marks(problem.mass.sum(axis=0), problem.positives.sum(axis=0), problem.global_rates)


def solved(problem: Problem, target: float, *, size: int, most: int) -> tuple[int, Decomposition]:
    """Rounds until the gap is certified (``most + 1``: it is not), and the last state."""
    state, marks = beginning(problem), marks_of(problem)
    for done in range(1, most + 1):
        state = answered(problem, state, trial_prices(state, size, marks))
        if state.incumbent.optimality_gap <= target:
            return done, state
    return most + 1, state


def excess(found: _Incumbent, state: Decomposition) -> float:
    rates = np.tensordot(found.weights[1:], state.tried.rates, 1)
    return float(np.max(state.required.excess(rates[None]), initial=0.0))


def small_problem(seed: int, **given) -> Problem:
    return random_case(np.random.default_rng(seed), rows=60, sites=3, **given).problem()


@modest
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1, 2, 5, 12, 40]))
def test_trials_are_new_few_enough_and_sum_to_zero_over_the_groups_that_count(seed, size):
    problem = small_problem(seed)
    state, marks = beginning(problem), marks_of(problem)
    counts = state.counts
    for _ in range(3):
        prices = trial_prices(state, size, marks)
        assert len(prices) <= size
        assert np.isfinite(prices).all()
        assert np.all(prices[:, ~counts] == 0)
        assert np.abs(prices.sum(axis=1)).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(prices).max(initial=0.0))
        every = np.concatenate([state.tried.prices, prices])
        assert len(np.unique(every, axis=0)) == len(every)
        assert np.array_equal(prices, trial_prices(state, size, marks))
        state = answered(problem, state, prices)


@modest
@given(seed=st.integers(0, 10_000), notion=st.sampled_from(["demographic_parity", "equalized_odds"]))
def test_a_batch_holds_the_prices_that_a_solve_in_memory_would_try(seed, notion):
    problem = small_problem(seed, groups=2, global_=[notion], tolerances=(0.01, 0.05))
    state = beginning(problem)
    for _ in range(3):
        batch = trial_prices(state, 12, marks_of(problem))
        state = answered(problem, state, batch)
        if state.incumbent.optimality_gap <= 1e-9:
            break
        wanted = state.incumbent.half_way
        known = np.concatenate([trial_prices(state, 12, marks_of(problem)), state.tried.prices])
        # Where the master's prices are cut off, the two are projected in different units.
        if np.array_equal(state.incumbent.near_prices, state.incumbent.prices):
            assert np.abs(known - wanted).max(axis=(1, 2)).min() <= 1e-9 * (1.0 + np.abs(wanted).max())


@modest
@given(
    seed=st.integers(0, 10_000),
    groups=st.integers(2, 5),
    notion=st.sampled_from(["demographic_parity", "equal_opportunity", "equalized_odds", "leaning"]),
    size=st.sampled_from([2, 6, 15]),
)
def test_the_loop_reaches_the_exact_value_and_its_mixture_is_fair(seed, groups, notion, size):
    problem = small_problem(seed, groups=groups, global_=[notion], tolerances=(0.0, 0.01, 0.05, 0.2))
    optimum = solve_exact(problem) or solve_joint(problem)
    best = problem.accuracy(optimum.u, optimum.v) - problem.baseline
    rounds, state = solved(problem, 5e-7, size=size, most=60)
    found = state.incumbent
    assert rounds <= 60
    assert found.value == pytest.approx(best, abs=1e-6)
    assert found.bound >= best - 1e-9
    assert excess(found, state) <= WIDER
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.count_nonzero(found.weights) <= 1 + state.counts.size


@examples(8)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([2, 12]))
def test_no_price_exceeds_what_can_be_optimal_and_without_that_limit_the_best_would_not_either(seed, size):
    problem = small_problem(seed, tolerances=(0.0, 0.01, 0.05, 0.3, 2.0))
    _, state = solved(problem, 1e-6, size=size, most=3)
    largest = marks_of(problem).largest
    assert np.all(np.abs(state.tried.prices).sum(axis=1) <= largest * (1.0 + 1e-12))
    free = solve_exact(problem)
    assert free is None or np.all(np.abs(free.global_prices).sum(axis=0) <= largest)


@examples(8)
@given(seed=st.integers(0, 10_000), tolerance=st.sampled_from([0.0, 1e-4, 0.01, 0.05, 0.3]))
def test_rules_that_pay_the_largest_price_for_excess_are_no_better_than_those_within_the_tolerances(seed, tolerance):
    problem = small_problem(seed, groups=3, global_=["equalized_odds"], tolerances=(tolerance,))
    _, state = solved(problem, 1e-6, size=6, most=3)
    tried, counts = state.tried, state.counts
    largest = np.full(2, marks_of(problem).largest)
    # One column for every answer, one for the excess of each rate; a row for every pair of groups.
    rows, limits = [np.append(np.ones(tried.gains.size), np.zeros(2))], [1.0]
    for k, (a, b) in product(range(2), permutations(range(3), 2)):
        if counts[a, k] and counts[b, k]:
            rows.append(np.append(tried.rates[:, a, k] - tried.rates[:, b, k], -np.eye(2)[k]))
            limits.append(tolerance)
    paid = linprog(-np.append(tried.gains, -largest), np.array(rows), limits, method="highs", options=HIGHS)
    excess = paid.x[-2:].max()
    assert excess <= max(LARGEST_VIOLATION, 1e-9 if tolerance > 0 else 0.0) + 1e-10
    assert -paid.fun == pytest.approx(state.incumbent.value, abs=1e-7)


@modest
@given(seed=st.integers(0, 10_000))
def test_every_bound_holds_and_every_mixture_stays_below_it(seed):
    problem = small_problem(seed, tolerances=(0.0, 0.01, 0.05))
    optimum = solve_exact(problem) or solve_joint(problem)
    best = problem.accuracy(optimum.u, optimum.v) - problem.baseline
    state = answered(problem, beginning(problem), trial_prices(beginning(problem), 9, marks_of(problem)))
    found = state.incumbent
    assert found.value <= best + 1e-9
    assert found.bound >= best - 1e-9
    assert excess(found, state) <= WIDER


def test_where_answers_near_the_best_prices_are_of_no_use_the_masters_own_are_tried():
    problem = small_problem(132, groups=4, global_=["leaning"], tolerances=(0.0, 0.01, 0.05, 0.2))
    assert solved(problem, 5e-7, size=6, most=30)[0] <= 30


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_the_first_batch_contains_the_zero_price_so_loose_tolerances_need_one_round(notion):
    problem = small_problem(5, global_=[notion], tolerances=(4.0,))
    assert solved(problem, 1e-9, size=1, most=1)[0] == 1


def test_no_global_constraint_needs_one_trial():
    problem = small_problem(6, global_=["equalized_odds"], tolerances=(np.inf,))
    prices = trial_prices(beginning(problem), 20, marks_of(problem))
    assert prices.tolist() == np.zeros((1, *beginning(problem).counts.shape)).tolist()
    state = answered(problem, beginning(problem), prices)
    assert state.incumbent.optimality_gap == pytest.approx(0.0, abs=1e-12)
    assert len(trial_prices(state, 20, marks_of(problem))) == 0


def test_a_group_without_positives_does_not_count_in_their_rate():
    rng = np.random.default_rng(0)
    scores, groups = rng.random(90), np.repeat([0, 1, 2], 30)
    scores[groups == 2] = 0.0
    rates = rates_of(["equalized_odds"])
    bounds = np.full((2, 2), 0.05), np.full(2, 0.01)
    problem = Case(scores, groups, np.arange(90) % 2, 3, 2, rates, rates, *bounds).problem()
    assert beginning(problem).counts.tolist() == [[True, True], [True, True], [False, True]]
    assert solved(problem, 1e-6, size=20, most=12)[0] <= 12


def test_one_of_two_rates_may_be_free():
    problem = small_problem(3, groups=3, global_=["equalized_odds"], tolerances=(0.01,))
    free = replace(problem, global_limits=Limits.within(np.array([[np.inf, 0.01]]), 3))
    rounds, state = solved(free, 1e-6, size=20, most=12)
    assert rounds <= 12
    assert np.all(state.tried.prices[:, :, 0] == 0)


def test_at_its_indifference_price_no_row_of_a_group_gains():
    rates = rates_of(["equalized_odds"])
    indifference = price_marks(np.array([0.7, 0.3]), np.array([0.2, 0.1]), rates).indifference
    for eta in (0.0, 0.4, 1.0):
        for group, (positive, negative) in enumerate([(0.2, 0.5), (0.1, 0.2)]):
            gain = (
                (2 * eta - 1) - indifference[group, 0] * eta / positive - indifference[group, 1] * (1 - eta) / negative
            )
            assert gain == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(
        price_marks(np.array([0.7, 0.3]), np.array([0.2, 0.1]), rates_of(["demographic_parity"])).indifference
    ).all()


def test_a_round_of_the_usual_size_fits_into_four_kilobytes():
    for groups, rates in ((2, 1), (2, 2), (5, 1), (5, 2), (40, 2), (300, 3)):
        size = trial_size(groups, rates)
        assert 1 <= size <= 8 or 8 * size * (2 + groups * rates) + 300 <= 4096
    assert [trial_size(*shape) for shape in ((2, 1), (2, 2), (5, 1), (5, 2))] == [19, 51, 67, 39]


@pytest.fixture(scope="module")
def adult():
    data = load_adult()
    train, rows = np.arange(0, len(data), 6), np.arange(3, len(data), 4)
    model = LogisticRegression(max_iter=1000).fit(data.features[train], data.labels[train])
    groups = (data.sensitive[rows] == "Male").astype(int)
    return model.predict_proba(data.features[rows])[:, 1], groups


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize(("local", "global_"), [(0.05, 0.01), (0.02, 0.001), (0.05, 0.0), (np.inf, 0.005)])
def test_adult_needs_at_most_five_rounds(adult, notion, local, global_):
    scores, groups = adult
    sites = dirichlet_sites(groups, n_sites=5, alpha=0.5, rng=1)
    rates = rates_of([notion])
    bounds = np.full((5, len(rates)), local), np.full(len(rates), global_)
    problem = Case(scores, groups, sites, 2, 5, rates, rates, *bounds).problem()
    size = trial_size(2, len(rates))
    loosest, _ = solved(problem, 1e-5, size=1, most=1)
    assert loosest > 1  # the global constraint binds
    assert solved(problem, 1e-5, size=size, most=5)[0] <= 5
