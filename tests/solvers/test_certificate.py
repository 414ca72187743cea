"""The certificate: recomputed by hand, a bound on every fair rule, and prices that keep their word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import logofair
from logofair.policy.mixtures import reduce
from logofair.solvers.certificate import certify
from logofair.solvers.decomposition import solve_exact
from logofair.solvers.joint import solve_joint
from support.examples import examples
from support.oracles import EVERY_NOTION, Case, Request, cases, random_case, random_request, spelled_out

modest = examples(40)
requests = st.integers(0, 10**9).map(lambda seed: random_request(np.random.default_rng(seed)))


def check(request: Request, solution: logofair.Solution) -> None:
    """Hold a certificate against sums over the rows and the program over all rows."""
    certificate, chance = solution.certificate, request.chances(solution)
    assert certificate.primal == pytest.approx(request.case.accuracy(chance), abs=1e-9)
    assert certificate.violation == pytest.approx(request.case.violation(chance), abs=1e-9)
    assert certificate.violation <= 1e-9
    assert certificate.optimality_gap == pytest.approx(certificate.dual - certificate.primal, abs=1e-15)
    # Where two sides ask for parity of a site of a millionth, rounding errors in a gap cost millions of their size.
    price = certificate.prices.local.sum() + certificate.prices.global_.sum()
    assert -1e-9 - price * certificate.violation <= certificate.optimality_gap <= 1e-6
    best = request.case.best_rows()[0]
    assert certificate.primal == pytest.approx(best, abs=1e-6 + 1e-9 * price)
    assert certificate.dual >= best - 1e-9 - 1e-9 * price


@modest
@given(requests)
def test_it_holds_when_recomputed_from_the_policy_row_by_row(request_):
    check(request_, logofair.fit(request_.scores, None, **request_.arguments))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, 200))
def test_it_holds_on_many_random_problems(start):
    for seed in range(start, start + 200):
        request = random_request(np.random.default_rng(seed))
        check(request, logofair.fit(request.scores, None, **request.arguments))


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_it_holds_where_sites_have_a_millionth_of_the_weight(notion):
    rng = np.random.default_rng(8)
    case = random_case(rng, groups=3, sites=6, rows=100)
    arguments = {
        "sensitive_features": case.groups,
        "sites": case.sites,
        "notion": EVERY_NOTION[notion],
        "local_tolerance": 0.0,
        "global_tolerance": 0.01,
        "sample_weight": np.where(case.sites == 0, 1e6, 1.0),
        "calibration": "none",
        "pooling": "none",
    }
    request = Request(case.scores, arguments, spelled_out(case.scores, arguments))
    check(request, logofair.fit(case.scores, None, **arguments))


@pytest.mark.parametrize("others", [1, 60])
def test_certain_rows_are_nobodys_false_positives_to_the_last_digit(others):
    # The last site's group 1 cannot have false positives: a rounding error there must not become a rate.
    rng = np.random.default_rng(19)
    scores = np.append(rng.random(1000), [0.3, 0.8, 1.0, 1.0, 1.0])
    arguments = {
        "sensitive_features": np.append(np.arange(1000) % 2, [0, 0, 1, 1, 1]),
        "sites": np.append(np.arange(1000) % others, [others] * 5),
        "notion": "predictive_equality",
        "local_tolerance": 0.0,
        "global_tolerance": None,
        "calibration": "none",
        "pooling": "none",
    }
    request = Request(scores, arguments, spelled_out(scores, arguments))
    check(request, logofair.fit(scores, None, **arguments))


@pytest.mark.parametrize("notion", ["predictive_equality", "equalized_odds"])
def test_it_holds_where_chances_are_next_to_certain(notion):
    rng = np.random.default_rng(0)
    groups, sites, scores = rng.integers(0, 2, 60), rng.integers(0, 2, 60), rng.random(60)
    sure = (groups == 1) & (sites == 1)
    scores[sure] = 1.0 - 1e-11 * rng.random(sure.sum())
    bounds = {"local_tolerance": 0.01, "global_tolerance": 0.02}
    alone = {"calibration": "none", "pooling": "none"}
    arguments = {"sensitive_features": groups, "sites": sites, "notion": notion, **alone, **bounds}
    request = Request(scores, arguments, spelled_out(scores, arguments))
    check(request, logofair.fit(scores, None, **arguments))


def dual(problem, local, global_) -> float:
    """The bound that prices prove."""
    nobody = np.zeros(problem.mass.size)
    return certify(problem, reduce(problem.cells, nobody, nobody, selection_only=True), local, global_, "eta").dual


def prices(problem, rng, size=1.0):
    """Random prices: 0 where a rate does not count, summing to 0 over the groups."""
    found = []
    for counts, axis in ((problem.inside.compared, 1), (problem.over_all.compared[0], 0)):
        drawn = np.where(counts, size * rng.normal(size=counts.shape), 0.0)
        mean = drawn.sum(axis=axis, keepdims=True) / np.maximum(counts.sum(axis=axis, keepdims=True), 1)
        found.append(np.where(counts, drawn - mean, 0.0))
    return found


def seeded(seed):
    return np.random.default_rng(seed)


@modest
@given(cases(), st.builds(seeded, st.integers(0, 10**6)), st.sampled_from([0.0, 0.05, 1.0, 30.0]))
def test_the_bound_is_the_sum_over_rows_of_what_each_could_gain(case, rng, size):
    problem = case.problem()
    local, global_ = prices(problem, rng, size)
    assert dual(problem, local, global_) == pytest.approx(case.dual(local, global_), abs=1e-9 * (1 + size))


@modest
@given(cases(), st.builds(seeded, st.integers(0, 10**6)), st.sampled_from([0.0, 0.05, 1.0]))
def test_no_fair_rule_exceeds_the_bound_whatever_the_prices(case, rng, size):
    problem = case.problem()
    bound = dual(problem, *prices(problem, rng, size))
    for _ in range(3):
        accuracy, chance = case.best_rows(objective=rng.normal(size=case.scores.size))
        assert case.violation(chance) <= 1e-8
        assert accuracy <= bound + 1e-7
    assert case.best_rows()[0] <= bound + 1e-7


@modest
@given(cases(), st.builds(seeded, st.integers(0, 10**6)), st.floats(0, 1))
def test_the_bound_is_convex_in_the_prices(case, rng, share):
    problem = case.problem()
    one, other = prices(problem, rng), prices(problem, rng)
    between = [share * a + (1 - share) * b for a, b in zip(one, other, strict=True)]
    assert dual(problem, *between) <= share * dual(problem, *one) + (1 - share) * dual(problem, *other) + 1e-9


def slopes(problem, local, global_):
    """A subgradient of the bound: tolerances less the rates of the rule that is best at the prices."""
    gain_u, gain_v = problem.priced_gain(global_)
    lu, lv = problem.local
    every = np.arange(problem.mass.size)
    line = (gain_v - np.sum(local * lv, axis=2)).ravel(), (gain_u - np.sum(local * lu, axis=2)).ravel()
    _, u, v = (array.reshape(problem.shape) for array in problem.cells.best_corner(every, *line))
    bounds = [
        np.where(np.isfinite(t), t, 0.0) for t in (problem.local_limits.tolerance, problem.global_limits.tolerance[0])
    ]
    own = 0.5 * bounds[0][:, None, :] * np.sign(local) - problem.local_values(u, v)
    return own * problem.site_mass[:, None, None], 0.5 * bounds[1] * np.sign(global_) - problem.global_shares(u, v)


@modest
@given(cases(), st.builds(seeded, st.integers(0, 10**6)))
def test_the_rates_of_the_best_rule_are_a_subgradient_of_the_bound(case, rng):
    problem = case.problem()
    here, there = prices(problem, rng), prices(problem, rng)
    along = sum(np.sum(g * (b - a)) for g, a, b in zip(slopes(problem, *here), here, there, strict=True))
    assert dual(problem, *there) >= dual(problem, *here) + along - 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_the_slope_of_the_bound_agrees_with_finite_differences(seed):
    rng = np.random.default_rng(seed)
    problem = random_case(rng, groups=3, sites=3, rows=60, tolerances=(0.0, 0.05), weighted=False).problem()
    here, step = prices(problem, rng), prices(problem, rng, 1e-7)
    along = sum(np.sum(g * d) for g, d in zip(slopes(problem, *here), step, strict=True))
    ahead = dual(problem, *(a + d for a, d in zip(here, step, strict=True)))
    behind = dual(problem, *(a - d for a, d in zip(here, step, strict=True)))
    assert (ahead - behind) / 2 == pytest.approx(along, abs=1e-12)
    assert along != 0


def solved(case: Case):
    """Certificate of the best policy."""
    problem = case.problem()
    optimum = solve_exact(problem) or solve_joint(problem)
    mixtures = reduce(problem.cells, optimum.u.ravel(), optimum.v.ravel(), selection_only=False)
    return certify(problem, mixtures, optimum.local_prices, optimum.global_prices, "eta")


@modest
@given(cases(), st.sampled_from([1e-3, 0.02, 0.3]), st.data())
def test_prices_bound_what_a_looser_tolerance_wins_from_both_sides(case, more, data):
    case = replace(case, local_tolerance=np.minimum(case.local_tolerance, 0.1), global_tolerance=case.global_tolerance)
    before = solved(case)
    assume(before.holds)
    places = [*np.ndindex(case.local_tolerance.shape), *np.ndindex(case.global_tolerance.shape)]
    place = data.draw(st.sampled_from(places))
    local, global_ = case.local_tolerance.copy(), case.global_tolerance.copy()
    (local if len(place) == 2 else global_)[place] += more
    after = solved(replace(case, local_tolerance=local, global_tolerance=global_))
    assume(after.holds)
    first, second = (c.prices.local[place] if len(place) == 2 else c.prices.global_[place] for c in (before, after))
    won = after.primal - before.primal
    assert won <= first * more + 1e-6
    assert won >= second * more - 1e-6


def test_a_price_by_hand():
    # Scores 0.9 (group 0) and 0.4 (group 1): with gap at most t, accept the first and the second with chance 1 - t.
    # One unit of t wins (1 - 2 * 0.4) / 2 = 0.1. At t = 0 no smaller tolerance exists, so a higher price is true too.
    for tolerance in (0.25, 0.0):
        certificate = logofair.fit(
            [0.9, 0.4],
            None,
            sensitive_features=[0, 1],
            calibration="none",
            local_tolerance=tolerance,
            global_tolerance=None,
        ).certificate
        price = certificate.prices.local.item()
        assert certificate.primal == pytest.approx((0.9 + 0.4 * (1 - tolerance) + 0.6 * tolerance) / 2, abs=1e-9)
        assert price == pytest.approx(0.1) if tolerance else price >= 0.1 - 1e-9


def test_an_unfair_rule_does_not_hold_however_accurate_it_is():
    case = random_case(
        np.random.default_rng(0), groups=2, sites=3, rows=80, local=["demographic_parity"], tolerances=(0.01,)
    )
    problem = case.problem()
    base = case.scores >= 0.5
    every = np.arange(problem.mass.size)
    _, u, v = problem.cells.best_corner(every, np.full(every.size, 2.0), np.full(every.size, -1.0))
    optimum = solve_exact(problem)
    mixtures = reduce(problem.cells, u, v, selection_only=False)
    certificate = certify(problem, mixtures, optimum.local_prices, optimum.global_prices, "eta")
    assert certificate.primal == pytest.approx(case.accuracy(base.astype(float)), abs=1e-9)
    assert certificate.violation == pytest.approx(case.violation(base.astype(float)), abs=1e-9)
    assert certificate.violation > 0.01
    assert not certificate.holds


def test_a_fair_rule_that_could_be_better_does_not_hold():
    case = random_case(np.random.default_rng(1), groups=2, sites=2, rows=60, tolerances=(0.05,))
    problem = case.problem()
    nobody = np.zeros(problem.mass.size)
    optimum = solve_exact(problem)
    rejecting = reduce(problem.cells, nobody, nobody, selection_only=False)
    certificate = certify(problem, rejecting, optimum.local_prices, optimum.global_prices, "eta")
    assert certificate.violation == 0
    assert certificate.optimality_gap == pytest.approx(
        case.best_rows()[0] - case.accuracy(np.zeros(case.scores.size)), abs=1e-6
    )
    assert not certificate.holds


@pytest.mark.parametrize("dual", [-np.inf, np.nan, 0.79])
def test_a_rule_that_seems_better_than_its_bound_does_not_hold(dual):
    found = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=list("abab"), calibration="none").certificate
    assert found.holds
    assert not replace(found, dual=dual, optimality_gap=dual - found.primal).holds
    assert not replace(found, optimality_gap=-2e-6).holds
    assert replace(found, optimality_gap=-1e-9).holds
    assert replace(found, optimality_gap=-2e-6, cost_unit=10.0).holds
