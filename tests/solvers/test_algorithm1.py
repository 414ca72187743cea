"""The paper's procedure, corrected and as printed: its slope, its smoothing, its convergence, and what it admits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit

import logofair
from logofair.errors import InputError
from logofair.solvers.algorithm1 import Algorithm1, SmoothedDual, finish, rounds
from logofair.solvers.decomposition import solve_exact
from support.examples import examples
from support.oracles import EVERY_NOTION, Case, cases, random_case, rates_of

modest = examples(30)


def last_round(problem, **settings_):
    *_, last = rounds(problem, Algorithm1(**settings_))
    return last


def small_case(notion="demographic_parity", tolerance=0.05, weighted=False) -> Case:
    rng, both = np.random.default_rng(2), {"local": [notion], "global_": [notion]}
    return random_case(rng, groups=2, sites=2, rows=60, tolerances=(tolerance,), weighted=weighted, **both)


def softplus_dual(case: Case, local, global_, sharpness: float) -> float:
    """The smoothed dual summed row by row; ``local`` not per site's mass but as it is."""
    share, size = case.mass, {}
    line = np.zeros(case.scores.size)  # F per unit of the cell's mass, times that mass
    penalty = []
    for i in range(case.scores.size):
        cell = (case.sites == case.sites[i]) & (case.groups == case.groups[i])
        size[i] = math.fsum(share[cell])
        line[i] = size[i] * (2.0 * case.scores[i] - 1.0)
    for tolerance, rates, prices, sites in (
        (case.local_tolerance, case.local_rates, local, range(case.n_sites)),
        (case.global_tolerance[None], case.global_rates, global_[None], [None]),
    ):
        for place, site in enumerate(sites):
            for a, k in np.ndindex(prices.shape[1:]):
                rate = case.coefficients(rates[k], site, a)
                if rate is None or not np.isfinite(tolerance[place, k]):
                    continue
                for i in np.flatnonzero(rate):
                    line[i] -= prices[place, a, k] * rate[i] / share[i] * size[i]
                penalty.append(0.5 * tolerance[place, k] * abs(prices[place, a, k]))
    each = [share[i] / size[i] * np.logaddexp(0.0, sharpness * line[i]) / sharpness for i in range(line.size)]
    return math.fsum(share * (1.0 - case.scores)) + math.fsum(each) + math.fsum(penalty)


@pytest.mark.parametrize("notion", EVERY_NOTION)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_smoothed_dual_is_the_softplus_of_every_row(notion, weighted):
    case = small_case(notion, weighted=weighted)
    state = last_round(case.problem(), rounds=3, local_steps=2, sharpness=40.0)
    expected = softplus_dual(case, state.local_multipliers, state.global_multipliers, 40.0)
    assert state.smoothed == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("notion", EVERY_NOTION)
@pytest.mark.parametrize("groups", [2, 3])
def test_the_first_step_is_the_projected_slope_of_the_smoothed_dual(notion, groups):
    case = random_case(
        np.random.default_rng(4),
        groups=groups,
        sites=1,
        rows=50,
        local=[notion],
        global_=[notion],
        tolerances=(0.03,),
    )
    step, sharpness = 1e-5, 30.0
    state = last_round(case.problem(), rounds=1, local_steps=1, sharpness=sharpness, step=step)
    zero = np.zeros_like(state.local_multipliers), np.zeros_like(state.global_multipliers)
    pairs = [(a, b) for a in range(groups) for b in range(groups) if a != b]
    for side in (0, 1):
        rates = zero[side].shape[-1]
        expected = np.zeros_like(zero[side])
        for (a, b), k in ((pair, k) for pair in pairs for k in range(rates)):
            # One multiplier >= 0 per ordered pair: its slope from finite differences in the direction a up, b down.
            tiny, ahead = 1e-6, [z.copy() for z in zero]
            ahead[side][..., a, k], ahead[side][..., b, k] = tiny, -tiny
            slope = (softplus_dual(case, *ahead, sharpness) - softplus_dual(case, *zero, sharpness)) / tiny
            move = max(-step * slope, 0.0)
            expected[..., a, k] += move
            expected[..., b, k] -= move
        found = (state.local_multipliers, state.global_multipliers)[side]
        np.testing.assert_allclose(found / step, expected / step, rtol=0, atol=1e-3)
        assert np.any(found != 0)


@modest
@given(cases(), st.sampled_from([5.0, 50.0, 500.0]))
def test_smoothing_raises_the_dual_by_at_most_cells_times_ln_2_over_sharpness(case, sharpness):
    for state in rounds(case.problem(), Algorithm1(rounds=2, local_steps=2, sharpness=sharpness)):
        assert state.objective <= state.smoothed + 1e-9
        assert state.smoothed <= state.objective + case.n_groups * case.n_sites * math.log(2) / sharpness + 1e-9


@modest
@given(cases())
def test_every_round_proves_an_upper_bound(case):
    best = case.best_rows()[0]
    for state in rounds(case.problem(), Algorithm1(rounds=3, local_steps=3, sharpness=20.0)):
        assert state.objective >= best - 1e-8


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_with_one_local_step_the_smoothed_dual_never_rises(notion):
    case = small_case(notion)
    values = [state.smoothed for state in rounds(case.problem(), Algorithm1(rounds=40, local_steps=1, sharpness=60.0))]
    assert np.all(np.diff(values) <= 1e-12)
    assert values[-1] < values[0]


@pytest.mark.parametrize("notion", ["demographic_parity", pytest.param("equal_opportunity", marks=pytest.mark.slow)])
def test_it_approaches_the_exact_optimum_with_sharpness_and_rounds(notion):
    case = small_case(notion)
    problem = case.problem()
    best = case.best_rows()[0]
    efforts = ((20.0, 50), (100.0, 400), (800.0, 4000))
    excess = [last_round(problem, rounds=r, local_steps=1, sharpness=s).objective - best for s, r in efforts]
    assert excess[0] > excess[1] > excess[2] >= -1e-9
    assert excess[2] < 2e-3
    optimum = solve_exact(problem)
    assert problem.accuracy(optimum.u, optimum.v) == pytest.approx(best, abs=1e-6)


def printed_algorithm(case: Case, settings_: Algorithm1, sign: float):
    """The paper's Algorithm 1 line by line, over rows of two groups: lambda_1 - lambda_2, and mu_1 - mu_2 by site."""
    cells = [(case.sites == case.sites[i]) & (case.groups == case.groups[i]) for i in range(case.scores.size)]
    p = np.array([case.mass[cell].sum() for cell in cells])
    a = np.where(case.groups == 0, 1.0, -1.0)

    def phi(rates, sites):
        columns = [sum(case.coefficients(rate, c, g) for c in sites for g in (0, 1)) for rate in rates]
        return a[:, None] * np.column_stack(columns) * (p / case.mass)[:, None]

    phi_g, psi = phi(case.global_rates, [None]), phi(case.local_rates, range(case.n_sites))
    beta, one = settings_.sharpness, np.array([[1.0], [-1.0]])

    def slopes(c, lambda_, mu):  # of H^c in (lambda_1, lambda_2) and (mu_1, mu_2)
        f = p * (2 * case.scores - 1) - phi_g @ (lambda_[0] - lambda_[1]) - psi @ (mu[0] - mu[1])
        counts = np.where(case.sites == c, case.mass / p * expit(beta * f), 0.0)
        of_lambda = case.global_tolerance / case.n_sites - one * (counts @ phi_g)
        return of_lambda, case.local_tolerance[c] - one * (counts @ psi)

    lambda_ = np.zeros((2, phi_g.shape[1]))
    mu = [np.zeros((2, psi.shape[1])) for _ in range(case.n_sites)]
    for _ in range(settings_.rounds):
        changes = []
        for c in range(case.n_sites):
            own = lambda_
            for _ in range(settings_.local_steps):
                of_mu = slopes(c, lambda_, mu[c])[1]
                of_lambda = slopes(c, own, mu[c])[0]
                mu[c] = np.maximum(mu[c] + sign * settings_.local_step * of_mu, 0.0)
                own = np.maximum(own + sign * settings_.step * of_lambda, 0.0)
            changes.append(own - lambda_)
        lambda_ = lambda_ + sum(changes)
    return lambda_[0] - lambda_[1], np.array([each[0] - each[1] for each in mu])


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize(("form", "sign"), [("printed", 1.0), ("descending", -1.0)])
def test_the_printed_forms_are_the_papers_lines(notion, form, sign):
    case = small_case(notion, tolerance=0.02)
    settings_ = Algorithm1(rounds=3, local_steps=4, sharpness=30.0, step=0.02, local_step=0.005, form=form)
    *_, last = rounds(case.problem(), settings_)
    lambda_, mu = printed_algorithm(case, settings_, sign)
    np.testing.assert_allclose(last.global_multipliers, [lambda_, -lambda_], rtol=0, atol=1e-12)
    np.testing.assert_allclose(last.local_multipliers, np.stack([mu, -mu], axis=1), rtol=0, atol=1e-12)
    assert np.abs(lambda_).max() > 1e-4
    assert np.abs(mu).max() > 1e-4


def test_ascent_leaves_the_optimum_further_behind_every_round():
    problem = small_case(tolerance=0.02).problem()
    found = [state.smoothed for state in rounds(problem, Algorithm1(rounds=60, local_steps=1, form="printed"))]
    assert np.all(np.diff(found) > 0)
    assert found[-1] - found[-2] > 10 * (found[1] - found[0])


def test_with_descent_the_printed_sum_over_the_sites_wants_a_step_as_many_times_shorter():
    case, steps = skewed_case(), {"sharpness": 20.0, "local_steps": 1}
    problem, best = case.problem(), case.best_rows()[0]
    corrected = last_round(problem, rounds=300, **steps)
    step = Algorithm1(**steps).step_length(SmoothedDual(problem).squared_norms().max(axis=0), 2)
    shorter = last_round(problem, rounds=300, form="descending", step=step / case.n_sites, **steps)
    assert shorter.objective == pytest.approx(corrected.objective, abs=1e-8)
    assert corrected.objective - best < 0.001
    as_long = last_round(problem, rounds=300, form="descending", step=step, **steps)
    assert as_long.objective - best > 1.0


def test_with_one_local_step_the_price_is_that_of_the_smoothed_minimum():
    case = skewed_case(tolerance=0.02)
    settings_ = Algorithm1(rounds=400, local_steps=1, sharpness=20.0)
    *_, last = rounds(case.problem(), settings_)

    def dual(price):
        return softplus_dual(case, np.zeros((8, 2, 0)), np.array([[price], [-price]]), 20.0)

    least = minimize_scalar(dual, bounds=(-0.5, 0.5), method="bounded", options={"xatol": 1e-7})
    assert last.global_multipliers[0, 0] == pytest.approx(least.x, abs=1e-5)
    # Each site projects by itself: both multipliers of the pair stay above 0, by a share of the step.
    assert 1e-5 < last.smoothed - least.fun < 0.01


def skewed_case(tolerance=0.0) -> Case:
    """Nothing is required inside eight sites whose groups are far apart: no local multiplier shortens the step."""
    rng, rows = np.random.default_rng(5), 800
    groups, sites = rng.integers(0, 2, rows), rng.integers(0, 8, rows)
    scores = rng.beta(1.0 + 2.0 * groups, 2.0)
    return Case(
        scores, groups, sites, 2, 8, (), rates_of(["demographic_parity"]), np.zeros((8, 0)), np.array([tolerance])
    )


def test_it_yields_one_round_at_a_time_and_can_be_stopped():
    problem = small_case().problem()
    numbers = []
    for state in rounds(problem, Algorithm1(rounds=10**9, local_steps=1)):
        numbers.append(state.number)
        if state.number == 3:
            break
    assert numbers == [1, 2, 3]
    assert len(list(rounds(problem, Algorithm1(rounds=5, local_steps=2)))) == 5


def test_a_rounds_gaps_and_accuracy_are_those_of_the_rule_f_at_least_zero():
    case = small_case(tolerance=0.02)
    state = last_round(case.problem(), rounds=5, local_steps=5)
    line = case.mass * (2.0 * case.scores - 1.0)
    for c, a, k in np.ndindex(state.local_multipliers.shape):
        line = line - state.local_multipliers[c, a, k] * case.coefficients(case.local_rates[k], c, a)
    for a, k in np.ndindex(state.global_multipliers.shape):
        line = line - state.global_multipliers[a, k] * case.coefficients(case.global_rates[k], None, a)
    chance = (line >= 0).astype(float)
    gaps = case.gaps(chance)
    assert state.accuracy == pytest.approx(case.accuracy(chance), abs=1e-9)
    assert state.local_gap == pytest.approx(max(g.value for g in gaps if g.site is not None), abs=1e-9)
    assert state.global_gap == pytest.approx(max(g.value for g in gaps if g.site is None), abs=1e-9)


@modest
@given(cases())
def test_multipliers_sum_to_zero_over_the_groups(case):
    state = last_round(case.problem(), rounds=2, local_steps=2)
    np.testing.assert_allclose(state.local_multipliers.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(state.global_multipliers.sum(axis=0), 0.0, atol=1e-12)


@modest
@given(cases())
def test_its_policy_stays_within_the_local_tolerances_whatever_the_rounds(case):
    problem = case.problem()
    optimum = finish(problem, last_round(problem, rounds=2, local_steps=2))
    assert optimum is not None
    local_only = problem.at_prices(np.zeros(problem.over_all.defined.shape[1:]))  # the global side may be violated
    assert local_only.violation(optimum.u, optimum.v) <= 1e-9


def fitted(solver, **changes):
    rng = np.random.default_rng(12)
    groups, sites = rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    scores = rng.beta(1.0 + groups + 0.4 * sites, 2.0)
    alone = {"calibration": "none", "pooling": "none", "local_tolerance": None, "global_tolerance": 0.001}
    arguments = {"sensitive_features": groups, "sites": sites} | alone | changes
    solution = logofair.fit(scores, None, solver=solver, **arguments)
    case = Case(scores, groups, sites, 2, 3, (), rates_of(["demographic_parity"]), np.zeros((3, 0)), np.array([0.001]))
    chance = solution.policy.probabilities(scores, sensitive_features=groups, sites=sites)
    return solution, case, chance


def test_fit_reports_how_far_it_exceeds_its_tolerances():
    solution, case, chance = fitted(Algorithm1(rounds=1, local_steps=1))
    assert solution.solver == "algorithm1"
    assert solution.rounds == 1
    assert solution.certificate.violation > 1e-3
    assert solution.certificate.violation == pytest.approx(case.violation(chance), abs=1e-9)
    assert solution.certificate.primal == pytest.approx(case.accuracy(chance), abs=1e-9)
    assert solution.certificate.dual >= case.best_rows()[0] - 1e-9
    assert not solution.certificate.holds


def test_by_name_it_runs_with_the_papers_settings():
    named, _, _ = fitted("algorithm1")
    spelled, _, _ = fitted(Algorithm1(rounds=20, local_steps=20, sharpness=100.0))
    assert named.certificate.primal == spelled.certificate.primal
    assert named.rounds == 20


def test_more_rounds_violate_less():
    few, many = (fitted(Algorithm1(rounds=r, local_steps=1, sharpness=300.0))[0] for r in (1, 600))
    assert many.certificate.violation < 0.3 * few.certificate.violation


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({"rounds": 0}, "Algorithm1: rounds must be a whole number of at least 1, got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"local_steps": -1}, "local_steps must be a whole number of at least 1, got -1"),
        ({"sharpness": 0.0}, "sharpness must be a positive number, got 0.0"),
        ({"sharpness": math.nan}, "sharpness must be a positive number"),
        ({"sharpness": "high"}, "sharpness must be a positive number"),
        ({"sharpness": None}, "sharpness must be a positive number"),
        ({"step": -1.0}, "step must be a positive number, got -1.0"),
        ({"step": math.inf}, "step must be a positive number"),
        ({"local_step": 0}, "local_step must be a positive number, got 0"),
        ({"form": "upwards"}, "form must be corrected, descending or printed, got 'upwards'"),
    ],
)
def test_impossible_settings_are_refused(settings_, sentence):
    with pytest.raises(InputError, match=sentence):
        Algorithm1(**settings_)
