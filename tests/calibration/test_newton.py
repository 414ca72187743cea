"""The batched logistic fit: its sums, its steps, its optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit

from logofair.calibration.maps import _EDGE, FAMILIES
from logofair.calibration.newton import (
    Descent,
    Normal,
    Runs,
    bounded_step,
    map_estimate,
    model_change,
    penalised_derivatives,
    penalised_loss,
    solve,
    unit_sums,
)
from logofair.columns.segments import grouped
from support.examples import examples

Array = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)
families = pytest.mark.parametrize("name", FAMILIES)


def random_runs(rng: np.random.Generator, name: str, n_runs: int = 4, *, weighted: bool = True) -> Runs:
    lengths = rng.integers(1, 30, n_runs)
    n = int(lengths.sum())
    family = FAMILIES[name]
    targets = rng.choice([0.0, 0.1, 0.9, 1.0], n)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    weights = rng.uniform(0.1, 3.0, n) if weighted else None
    return Runs(family.features(rng.random(n)), family.intercept, targets, weights, starts)


def random_prior(rng: np.random.Generator, name: str, units: int) -> Normal:
    k = len(FAMILIES[name].identity)
    roots = rng.normal(size=(units, k, k))
    precision = np.einsum("nij,nkj->ikn", roots, roots) + 0.3 * np.eye(k)[:, :, None]
    return Normal(np.abs(rng.normal(1.0, 1.0, (k, units))), precision)


def posterior(runs: Runs, owner: NDArray[np.int64], prior: Normal, point: Array) -> tuple[Array, Array, Array]:
    """Penalised loss, gradient and Hessian at a point."""
    sums = unit_sums(runs, owner, point)
    return penalised_loss(sums, prior, point), *penalised_derivatives(sums, prior, point)


def loss_by_hand(runs: Runs, run: int, parameters: Array) -> float:
    """Cross-entropy of one run by its definition."""
    rows = slice(runs.starts[run], runs.starts[run + 1])
    targets = runs.targets[rows]
    features = np.column_stack([column[rows] for column in runs.columns] + [np.ones_like(targets)] * runs.intercept)
    margin = features @ parameters
    entropy = np.logaddexp(0.0, margin) - targets * margin
    return float(np.average(entropy, weights=None if runs.weights is None else runs.weights[rows]) * runs.mass[run])


@families
@examples(15)
@given(seed=seeds, weighted=st.booleans())
def test_the_summed_loss_is_the_cross_entropy_of_each_run(name: str, seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    runs = random_runs(rng, name, weighted=weighted)
    parameters = rng.normal(size=(len(FAMILIES[name].identity), runs.starts.size - 1))
    by_hand = [loss_by_hand(runs, run, parameters[:, run]) for run in range(runs.starts.size - 1)]
    np.testing.assert_allclose(runs.sums(parameters)[0], by_hand, rtol=1e-10)


@families
@examples(15)
@given(seed=seeds)
def test_gradient_and_hessian_agree_with_finite_differences(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, owner = random_runs(rng, name), np.array([0, 1, 0, 2])
    prior = random_prior(rng, name, 3)
    point = rng.normal(1.0, 0.5, prior.centre.shape)
    _, gradient, hessian = posterior(runs, owner, prior, point)
    for j in range(len(point)):
        shift = np.zeros_like(point)
        shift[j] = 1e-5
        above, below = posterior(runs, owner, prior, point + shift), posterior(runs, owner, prior, point - shift)
        np.testing.assert_allclose((above[0] - below[0]) / 2e-5, gradient[j], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose((above[1] - below[1]) / 2e-5, hessian[j], rtol=1e-5, atol=1e-5)


@families
def test_sums_do_not_depend_on_where_rows_are_cut_into_chunks(name: str) -> None:
    rng = np.random.default_rng(3)
    runs = random_runs(rng, name, 40)
    parameters = rng.normal(size=(len(FAMILIES[name].identity), runs.starts.size - 1))
    whole = runs.sums(parameters)
    for chunk in (1, 7, 64):
        np.testing.assert_allclose(runs.sums(parameters, chunk), whole, rtol=1e-12, atol=1e-12)


def test_the_loss_of_a_sure_and_right_prediction_keeps_its_digits() -> None:
    runs = Runs((np.array([40.0, -40.0]),), False, np.array([1.0, 0.0]), None, np.array([0, 1, 2]))
    loss, gradient, hessian = runs.sums(np.ones((1, 2)))
    np.testing.assert_allclose(loss, np.exp(-40.0), rtol=1e-12)
    np.testing.assert_allclose(gradient, -40.0 * np.exp(-40.0), rtol=1e-12)
    np.testing.assert_allclose(hessian, 1600.0 * np.exp(-40.0), rtol=1e-12)


@examples(20)
@given(seed=seeds)
def test_a_kept_run_has_the_same_sums_as_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs = random_runs(rng, "beta", 6)
    parameters, wanted = rng.normal(size=(3, 6)), rng.random(6) < 0.5
    kept = runs.keep(wanted)
    np.testing.assert_allclose(kept.sums(parameters[:, wanted]), runs.sums(parameters)[:, wanted], rtol=1e-12)
    np.testing.assert_allclose(kept.mass, runs.mass[wanted])


@examples(30)
@given(seed=seeds, k=st.integers(1, 3))
def test_the_batched_solver_agrees_with_lapack(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(5, k, k))
    matrix = np.einsum("nij,nkj->ikn", roots, roots) + 0.1 * np.eye(k)[:, :, None]
    right = rng.normal(size=(k, 5))
    for unit in range(5):
        expected = np.linalg.solve(matrix[:, :, unit], right[:, unit])
        np.testing.assert_allclose(solve(matrix, right)[:, unit], expected, rtol=1e-8, atol=1e-8)


@families
@examples(25)
@given(seed=seeds)
def test_the_bounded_step_minimises_the_model_among_points_without_negative_slopes(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    family = FAMILIES[name]
    prior = random_prior(rng, name, 6)
    gradient = rng.normal(size=prior.centre.shape) * 5.0
    step = bounded_step(prior.precision, gradient, prior.centre, family.slopes)
    for unit in range(6):
        root = np.linalg.cholesky(prior.precision[:, :, unit]).T
        lowest = np.full(len(step), -np.inf)
        lowest[list(family.slopes)] = -prior.centre[list(family.slopes), unit]
        right = np.linalg.solve(root.T, -gradient[:, unit])
        oracle = lsq_linear(root, right, bounds=(lowest, np.inf), tol=1e-14)
        assert np.sum((root @ step[:, unit] - right) ** 2) <= 2 * oracle.cost + 1e-8
        assert np.all(step[:, unit] >= lowest)


@families
@examples(12)
@given(seed=seeds)
def test_every_unit_is_fitted_as_an_independent_optimiser_would(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, family = random_runs(rng, name), FAMILIES[name]
    prior, owner = random_prior(rng, name, 4), np.arange(4)
    fitted = map_estimate(runs, owner, prior, family.slopes)
    reached, gradient, hessian = posterior(runs, owner, prior, fitted.centre)
    assert np.abs(bounded_step(hessian, gradient, fitted.centre, family.slopes)).max() < 1e-8
    for unit in range(4):
        centre, precision = prior.centre[:, unit], prior.precision[:, :, unit]

        def objective(point: Array, unit: int = unit, centre: Array = centre, precision: Array = precision) -> float:
            return loss_by_hand(runs, unit, point) + 0.5 * float((point - centre) @ precision @ (point - centre))

        bounds = [(0.0 if j in family.slopes else None, None) for j in range(len(centre))]
        oracle = minimize(objective, centre, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
        # The objective bends by 0.3 at least, so a point as low as the optimiser's is also near it.
        assert reached[unit] == pytest.approx(oracle.fun, abs=1e-5)
        assert reached[unit] <= oracle.fun + 1e-9
        assert reached[unit] == pytest.approx(objective(fitted.centre[:, unit]))


def in_one_loop(runs: Runs, owner: NDArray[np.int64], prior: Normal, slopes: tuple[int, ...]) -> Normal:
    """Newton's method written down as one loop."""
    best, curvature = prior.centre.copy(), prior.precision.copy()
    step, lowest = np.zeros_like(best), np.full(best.shape[1], np.inf)
    live = np.arange(best.shape[1])
    while live.size:
        point = best[:, live] + step[:, live]
        value, gradient, hessian = posterior(runs, owner, prior.of(live), point)
        down = value <= lowest[live] + 1e-12 * (1.0 + np.abs(value))
        step[:, live[~down]] *= 0.5
        ahead, point = live[down], point[:, down]
        gradient, hessian = gradient[:, down], hessian[:, :, down]
        move = bounded_step(hessian, gradient, point, slopes)
        finished = -model_change(hessian, gradient, move) <= 1e-10
        best[:, ahead] = np.where(finished, point + move, point)
        step[:, ahead], lowest[ahead], curvature[:, :, ahead] = move, value[down], hessian
        stay = ~np.isin(live, ahead[finished])
        wanted = stay[owner]
        # Left-over rows are cut into other vectors by the processor, which may round them differently.
        runs, owner, live = runs.keep(wanted), (np.cumsum(stay) - 1)[owner[wanted]], live[stay]
    return Normal(best, curvature)


@families
@examples(20)
@given(seed=seeds)
def test_a_descent_fed_with_sums_takes_the_steps_of_one_loop_to_the_bit(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, owner, prior = random_runs(rng, name, 9), rng.integers(0, 6, 9), random_prior(rng, name, 6)
    slopes = FAMILIES[name].slopes
    expected, fitted = in_one_loop(runs, owner, prior, slopes), map_estimate(runs, owner, prior, slopes)
    assert np.array_equal(fitted.centre, expected.centre)
    assert np.array_equal(fitted.precision, expected.precision)


@families
@examples(15)
@given(seed=seeds)
def test_a_descent_whose_prior_changes_on_the_way_ends_where_the_last_prior_leads(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, slopes, units = random_runs(rng, name), FAMILIES[name].slopes, np.arange(4)
    descent = Descent.start(random_prior(rng, name, 4), slopes)
    changed, last = units[rng.random(4) < 0.5], random_prior(rng, name, 4)
    for number in range(100):
        if descent.done and number > 3:
            break
        if descent.live.size:
            descent = descent.take(unit_sums(runs, units, descent.best + descent.step)[:, descent.live])
        if number == 3:
            descent = descent.under(last.of(changed), changed)
    expected = map_estimate(runs, units, descent.prior, slopes)
    assert descent.done
    assert np.array_equal(descent.prior.centre[:, changed], last.centre[:, changed])
    np.testing.assert_allclose(descent.result.centre, expected.centre, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("slack", "accepted"), [(0.0, False), (0.4, True), (0.1, False)])
def test_an_increase_within_the_slack_is_no_reason_to_halve_the_step(slack: float, accepted: bool) -> None:
    # No pull to speak of: the loss alone decides.
    start = Descent.start(Normal(np.ones((1, 1)), np.full((1, 1, 1), 1e-9)), (0,), slack=slack)
    first = start.take(np.array([[5.0], [1.0], [4.0]]))
    second = first.take(np.array([[5.2], [1.0], [4.0]]))
    assert first.point[0, 0] == pytest.approx(0.75)
    assert second.best[0, 0] == pytest.approx(0.75 if accepted else 1.0)
    assert second.point[0, 0] == pytest.approx(0.5 if accepted else 0.875)


def test_taking_sums_leaves_the_descent_before_as_it_was() -> None:
    rng = np.random.default_rng(4)
    runs, prior = random_runs(rng, "beta"), random_prior(rng, "beta", 4)
    before = Descent.start(prior, (0, 1))
    sums = unit_sums(runs, np.arange(4), before.point)
    after, again = before.take(sums), before.take(sums)
    assert np.array_equal(before.point, prior.centre)
    assert np.array_equal(after.point, again.point)
    assert not np.array_equal(after.point, before.point)


def test_a_unit_without_rows_keeps_its_prior_exactly() -> None:
    rng = np.random.default_rng(0)
    prior = random_prior(rng, "beta", 3)
    fitted = map_estimate(random_runs(rng, "beta", 2), np.array([0, 2]), prior, (0, 1))
    assert np.array_equal(fitted.centre[:, 1], prior.centre[:, 1])
    assert np.array_equal(fitted.precision[:, :, 1], prior.precision[:, :, 1])
    assert not np.array_equal(fitted.centre[:, 0], prior.centre[:, 0])


def test_a_full_step_that_overshoots_is_halved() -> None:
    # From slope 30 on data that want 1.2, Newton's full step lands far on the other side of the minimum.
    runs = Runs(
        (np.array([-2.0, -1.0, 1.0, 2.0] * 5),), False, np.array([0.0, 1.0, 0.0, 1.0] * 5), None, np.array([0, 20])
    )
    prior = Normal(np.array([[30.0]]), np.array([[[1e-4]]]))
    fitted = map_estimate(runs, np.array([0]), prior, (0,))
    value = posterior(runs, np.array([0]), prior, fitted.centre)[0]
    grid = np.linspace(0.0, 30.0, 3001)
    assert value[0] <= min(posterior(runs, np.array([0]), prior, np.array([[slope]]))[0][0] for slope in grid) + 1e-9


@examples(30)
@given(keys=st.lists(st.integers(0, 6), max_size=60))
def test_grouping_is_a_stable_sort(keys: list[int]) -> None:
    codes = np.array(keys, dtype=np.int64)
    assert np.array_equal(grouped(codes, 7), np.argsort(codes, kind="stable"))


@families
def test_the_identity_parameters_leave_scores_as_they_are(name: str) -> None:
    scores = np.linspace(_EDGE, 1.0 - _EDGE, 101)
    family = FAMILIES[name]
    parameters = np.tile(np.array(family.identity)[:, None], scores.size)
    np.testing.assert_allclose(expit(family.margin(scores, parameters)), scores, rtol=1e-9)


def test_the_reference_information_is_that_of_uniform_scores() -> None:
    # Integrals over [0, 1]: s(1-s) = 1/6, s(1-s) ln s = -5/36, s(1-s) (ln s)^2 = 19/108.
    information = FAMILIES["beta"].reference_information()
    assert information[2, 2] == pytest.approx(1 / 6, rel=1e-3)
    assert information[0, 2] == pytest.approx(-5 / 36, rel=1e-3)
    assert information[0, 0] == pytest.approx(19 / 108, rel=1e-3)
    assert information[1, 1] == pytest.approx(19 / 108, rel=1e-3)


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 12), more=st.sampled_from([(), (1,), (5,)]))
def test_systems_are_solved(seed, size, more):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*more, size, size + 2))
    matrix, right = root @ np.swapaxes(root, -1, -2), rng.normal(size=(*more, size))
    expected = np.linalg.solve(matrix, right[..., None])[..., 0]
    found = solve(np.moveaxis(matrix, 0, -1) if more else matrix, np.moveaxis(right, 0, -1) if more else right)
    found = np.moveaxis(found, -1, 0) if more else found
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
