"""Cross-fitting: the folds, the rows left out, the error that is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from logofair.calibration import (
    CrossFit,
    cross_fit,
    fit_calibrator,
    fits,
)
from logofair.calibration.crossfit import assign_folds
from logofair.calibration.maps import FAMILIES
from logofair.calibration.newton import Prior
from logofair.columns.rows import Rows
from logofair.columns.segments import RowOrder
from logofair.fitting.pooling import STRENGTHS
from support.examples import examples
from support.rows import rows_of

Array = NDArray[np.float64]

fitted = pytest.mark.parametrize("method", ["beta", "platt", "temperature", "isotonic"])


def drawn(n: int = 600, *, seed: int = 0, n_groups: int = 2, n_sites: int = 3, width: float = 0.7) -> Rows:
    """Overconfident scores: the truth has half their log-odds, shifted cell by cell."""
    rng = np.random.default_rng(seed)
    groups, sites = rng.integers(0, n_groups, n), rng.integers(0, n_sites, n)
    scores = rng.beta(0.8, 0.8, n)
    shift = rng.normal(0.0, width, (n_groups, n_sites))
    labels = rng.random(n) < expit(0.5 * logit(scores) + shift[groups, sites])
    codes = (groups.astype(np.int32), sites.astype(np.int32))
    return rows_of(scores, labels.astype(float), *codes, shape=(n_sites, n_groups))


def fit(sample: Rows, method: str = "beta", seed: int = 0) -> CrossFit:
    return cross_fit(sample, method, rng=np.random.default_rng(seed))


def merged_eta(result: CrossFit, sample: Rows) -> Array:
    """Chances by the maps of the groups, in the rows' own order."""
    assert result.held_out is not None
    return result.held_out.merged(sample.scores, sample.groups.codes, np.arange(sample.scores.size))


def folds_of(sample: Rows, folds: int = 5, seed: int = 0) -> NDArray[np.int16]:
    """The fold of every row, in the rows' own order."""
    by_score = RowOrder.of(sample.scores, sample.cells, int(np.prod(sample.shape)))
    fold = np.empty(sample.scores.size, dtype=np.int16)
    fold[by_score.rows] = assign_folds(by_score, folds, np.random.default_rng(seed))
    return fold


# Folds


@examples(40)
@given(n=st.integers(1, 200), n_sites=st.integers(1, 20), folds=st.integers(2, 7), seed=st.integers(0, 1000))
def test_every_cell_has_each_fold_equally_often(n: int, n_sites: int, folds: int, seed: int) -> None:
    sample = drawn(n, seed=seed, n_sites=n_sites)
    fold = folds_of(sample, folds, seed)
    for cell in np.unique(sample.cells):
        assert np.ptp(np.bincount(fold[sample.cells == cell], minlength=folds)) <= 1


def test_rows_next_to_each_other_by_score_share_a_fold_as_often_as_any_two() -> None:
    sample = drawn(500, n_groups=1, n_sites=1)
    by_score = np.argsort(sample.scores)
    together = [np.mean(np.diff(folds_of(sample, seed=seed)[by_score]) == 0) for seed in range(20)]
    assert np.mean(together) == pytest.approx(99 / 499, abs=0.012)  # three standard errors


def test_the_rows_of_small_sites_lie_in_all_folds() -> None:
    sample = drawn(2, n_groups=1, n_sites=1)
    counts = sum(np.bincount(folds_of(sample, seed=seed), minlength=5) for seed in range(500))
    assert np.all(np.abs(counts - 200) < 4 * np.sqrt(500 * 0.4 * 0.6))


def test_sites_of_as_many_rows_as_folds_do_not_put_a_group_into_one_fold() -> None:
    groups, sites = np.tile([0, 0, 0, 0, 1], 200).astype(np.int32), np.repeat(np.arange(200), 5).astype(np.int32)
    scores = np.random.default_rng(0).random(1000)
    fold = folds_of(rows_of(scores, np.zeros(1000), groups, sites, shape=(200, 2)))
    assert np.all(np.abs(np.bincount(fold[groups == 1], minlength=5) - 40) < 4 * np.sqrt(200 * 0.2 * 0.8))
    assert np.ptp(np.bincount(fold, minlength=5)) <= 1


def test_cells_of_one_row_are_spread_over_all_folds() -> None:
    sample = drawn(1000, n_groups=1, n_sites=1)
    lonely = rows_of(
        sample.scores, sample.labels, sample.groups.codes, np.arange(1000, dtype=np.int32), shape=(1000, 1)
    )
    assert np.bincount(folds_of(lonely)).tolist() == [200] * 5


# Rows left out


@fitted
def test_a_rows_own_label_does_not_touch_its_eta(method: str) -> None:
    """All fits start where all rows lead them; that the row's label was among these leaves no trace."""
    sample = drawn(200)
    fold, result = folds_of(sample), fit(sample, method)
    for row in (0, 57, 199):
        labels = sample.labels.copy()
        labels[row] = 1.0 - labels[row]
        flipped = replace(sample, labels=labels)
        other = fit(flipped, method)
        same_fold = fold == fold[row]
        np.testing.assert_allclose(other.eta[same_fold], result.eta[same_fold], atol=1e-7)
        np.testing.assert_allclose(
            merged_eta(other, flipped)[same_fold], merged_eta(result, sample)[same_fold], atol=1e-7
        )
        assert np.abs(other.eta - result.eta).max() > 1e-4


@fitted
def test_eta_is_that_of_a_fit_to_the_other_folds(method: str) -> None:
    sample = drawn(300)
    fold, result = folds_of(sample, seed=3), fit(sample, method, seed=3)
    for number in range(5):
        held_out = fold == number
        rest = sample.at(~held_out)
        calibrator = fit_calibrator(rest, method)
        groups, sites = sample.groups.codes[held_out], sample.sites.codes[held_out]
        eta = calibrator(sample.scores[held_out], groups, sites)
        merged = calibrator(sample.scores[held_out], groups, np.full_like(sites, -1))
        np.testing.assert_allclose(result.eta[held_out], eta, atol=2e-6)
        np.testing.assert_allclose(merged_eta(result, sample)[held_out], merged, atol=2e-6)


def map_estimate(features: Array, targets: Array, weights: Array, centre: Array, precision: Array) -> Array:
    """Parameters of least penalised log-loss with slopes >= 0, by scipy to convergence."""

    def loss(point: Array) -> tuple[float, Array]:
        margin, away = features @ point, point - centre
        value = weights @ (np.logaddexp(0.0, margin) - targets * margin) + 0.5 * away @ precision @ away
        return float(value), features.T @ (weights * (expit(margin) - targets)) + precision @ away

    bounds = [(0.0, None), (0.0, None), (None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxls": 60}
    return np.asarray(minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)


def fitted_by_scipy(sample: Rows, at: Rows) -> Array:
    """Beta maps of all rows, groups and cells, each around the one above, by their definitions; eta of other rows."""
    family = FAMILIES["beta"]
    reference = family.reference_information()
    weights = np.ones_like(sample.scores) if sample.weights is None else sample.weights
    features = np.column_stack([*family.features(sample.scores), np.ones_like(sample.scores)])

    def below(rows: Array, centre: Array, information: Array, worth: float, parent: float) -> tuple[Array, Array]:
        precision = worth * information + 1e-6 * reference
        columns = features[rows], sample.labels[rows], weights[rows]
        point = map_estimate(*columns, centre, precision)
        chance = expit(columns[0] @ point)
        curvature = (columns[0] * (columns[2] * chance * (1.0 - chance))[:, None]).T @ columns[0]
        return point, (curvature + precision) / (columns[2].sum() + parent)

    everyone = below(weights > 0, np.array(family.identity), reference, 1.0, 1.0)
    eta = np.empty_like(at.scores)
    for group in np.unique(at.groups.codes):
        of_group = below((weights > 0) & (sample.groups.codes == group), *everyone, 200.0, 200.0)
        for cell in np.unique(at.cells[at.groups.codes == group]):
            point, _ = below((weights > 0) & (sample.cells == cell), *of_group, 200.0, 200.0)
            here = at.cells == cell
            eta[here] = expit(family.margin(at.scores[here], np.repeat(point[:, None], here.sum(), axis=1)))
    return eta


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", FAMILIES)
def test_small_cells_fitted_some_at_a_time_are_those_fitted_at_once(method: str, weighted: bool, monkeypatch) -> None:
    sample = drawn(700, n_sites=90)
    # Labels that differ between sites: all of a block are not those of all rows.
    sample = replace(sample, labels=np.where(sample.sites.codes > 80, 0.0, sample.labels))
    if weighted:
        sample = replace(sample, weights=np.random.default_rng(1).integers(0, 3, 700).astype(float))
    at_once = fit(sample, method)
    monkeypatch.setattr(fits, "_CELLS_AT_ONCE", 4)
    by_and_by = fit(sample, method)
    np.testing.assert_allclose(by_and_by.eta, at_once.eta, rtol=0, atol=1e-13)
    np.testing.assert_allclose(*(each.calibrator.maps.parameters for each in (by_and_by, at_once)), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", FAMILIES)
def test_bins_of_large_cells_move_no_chance_by_more_than_a_millionth(method: str, weighted: bool, monkeypatch) -> None:
    sample = drawn(40_000, n_sites=2)
    if weighted:
        sample = replace(sample, weights=np.random.default_rng(1).uniform(0.0, 3.0, 40_000))
    monkeypatch.setattr(fits, "_LEAST_GAIN", 1e-12)
    by_row = fit(sample, method)
    monkeypatch.setattr(fits, "_LARGE_CELL", 5_000)
    by_bin = fit(sample, method)
    np.testing.assert_allclose(by_bin.eta, by_row.eta, rtol=0, atol=2e-6)
    assert np.abs(by_bin.eta - by_row.eta).max() > 0.0  # they are not the same work


@pytest.mark.parametrize("method", FAMILIES)
def test_strengths_are_compared_as_by_fits_to_all_rows(method: str, monkeypatch) -> None:
    near_by, chosen = fits.CellFits.parameters, []

    def by_rows(self: fits.CellFits, prior: Prior, which: NDArray[np.int64], *, to_compare: bool) -> Array:
        return near_by(self, prior, which)

    for width in (0.0, 0.1, 0.3, 1.5):
        sample = drawn(30_000, n_sites=40, width=width)
        monkeypatch.setattr(fits.CellFits, "parameters", near_by)
        near = cross_fit(sample, method, rng=np.random.default_rng(0), strengths=STRENGTHS["auto"])
        monkeypatch.setattr(fits.CellFits, "parameters", by_rows)
        by_row = cross_fit(sample, method, rng=np.random.default_rng(0), strengths=STRENGTHS["auto"])
        assert near.strength == by_row.strength
        np.testing.assert_allclose(near.eta, by_row.eta, rtol=0, atol=1e-9)
        chosen.append(near.strength)
    assert len(set(chosen)) >= 2


@pytest.mark.parametrize(
    ("n", "n_sites", "width", "weighted"),
    [(150, 3, 0.7, False), (2000, 40, 1.5, False), (6000, 4, 1.0, True), (40_000, 2, 1.0, False)],
)
def test_out_of_fold_chances_are_those_of_every_fold_fitted_to_convergence(
    n: int, n_sites: int, width: float, weighted: bool
) -> None:
    sample = drawn(n, seed=n, n_sites=n_sites, width=width)
    if weighted:
        sample = replace(sample, weights=np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], n))
    fold, result = folds_of(sample), fit(sample)
    for number in (0, 3):
        held_out = fold == number
        oracle = fitted_by_scipy(sample.at(~held_out), sample.at(held_out))
        np.testing.assert_allclose(result.eta[held_out], oracle, atol=3e-5)


@fitted
def test_the_calibrator_is_fitted_to_all_rows(method: str) -> None:
    sample = drawn(300)
    expected = fit_calibrator(sample, method)
    rows = (sample.scores, sample.groups.codes, sample.sites.codes)
    np.testing.assert_allclose(fit(sample, method).calibrator(*rows), expected(*rows), atol=2e-6)


@fitted
def test_the_only_row_of_a_cell_gets_the_eta_of_its_group(method: str) -> None:
    sample = drawn(300)
    lonely = (sample.groups.codes == 0) & (sample.sites.codes == 1)
    lonely[np.flatnonzero(lonely)[0]] = False
    sample = sample.at(~lonely)
    alone = (sample.groups.codes == 0) & (sample.sites.codes == 1)
    result = fit(sample, method)
    merged = merged_eta(result, sample)
    assert np.array_equal(result.eta[alone], merged[alone])
    assert not np.any(result.eta[~alone] == merged[~alone])


@fitted
def test_the_same_seed_gives_the_same_eta_and_another_seed_another(method: str) -> None:
    sample = drawn(200)
    assert np.array_equal(fit(sample, method, seed=1).eta, fit(sample, method, seed=1).eta)
    assert not np.array_equal(fit(sample, method, seed=1).eta, fit(sample, method, seed=2).eta)


@fitted
def test_permuting_rows_of_distinct_scores_permutes_eta(method: str) -> None:
    sample, order = drawn(200), np.random.default_rng(5).permutation(200)
    assert np.array_equal(fit(sample.at(order), method).eta, fit(sample, method).eta[order])


@fitted
def test_a_row_of_weight_0_still_gets_an_eta(method: str) -> None:
    sample = drawn(100)
    weights = np.ones(100)
    weights[::3] = 0.0
    columns = (sample.scores, sample.labels, sample.groups.codes, sample.sites.codes)
    result = fit(rows_of(*columns, weights, shape=sample.shape), method)
    assert np.all((result.eta > 0.0) & (result.eta < 1.0))


@fitted
@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_handful_of_rows_is_no_trouble(method: str, n: int) -> None:
    sample = drawn(n)
    result = fit(sample, method)
    assert result.eta.shape == merged_eta(result, sample).shape == (n,)
    assert np.all((result.eta >= 0.0) & (result.eta <= 1.0))


@fitted
@examples(15)
@given(n=st.integers(2, 30), n_sites=st.integers(1, 12), positives=st.integers(0, 2), seed=st.integers(0, 1000))
def test_a_fold_that_holds_every_positive_is_no_trouble(
    method: str, n: int, n_sites: int, positives: int, seed: int
) -> None:
    # With so few positives the rows outside a fold often have one label only, and most cells less rows than folds.
    sample = drawn(n, seed=seed, n_sites=n_sites)
    result = fit(replace(sample, labels=(np.arange(n) < positives).astype(float)), method, seed)
    for eta in (result.eta, merged_eta(result, sample)):
        assert np.all((eta > 0.0) & (eta < 1.0))


# Coins for labels


def coin_flips(seed: int) -> Rows:
    """Ten cells of 100 rows whose labels are fair coins: no chance can tell them."""
    rng = np.random.default_rng(seed)
    groups, sites = np.tile(np.arange(2), 500), np.repeat(np.arange(5), 200)
    labels = rng.integers(0, 2, 1000).astype(float)
    return rows_of(rng.random(1000), labels, groups.astype(np.int32), sites.astype(np.int32), shape=(5, 2))


def assert_no_better_than_coins(right: list[float]) -> None:
    """Mean accuracy within three standard errors of one half."""
    assert abs(np.mean(right) - 0.5) < 3.0 * np.std(right, ddof=1) / np.sqrt(len(right))


@fitted
def test_out_of_fold_chances_cannot_tell_coins(method: str) -> None:
    right, merged_right = [], []
    for seed in range(25):
        sample = coin_flips(seed)
        result = fit(sample, method, seed)
        right.append(float(np.mean((result.eta >= 0.5) == (sample.labels == 1.0))))
        merged_right.append(float(np.mean((merged_eta(result, sample) >= 0.5) == (sample.labels == 1.0))))
    assert_no_better_than_coins(right)
    assert_no_better_than_coins(merged_right)


# Errors


def calibration_error(scores: Array, predictions: Array, labels: Array) -> float:
    """Expected calibration error over 15 bins of equal count."""
    bins = np.array_split(np.argsort(scores), 15)
    return float(sum(abs((labels - predictions)[rows].sum()) for rows in bins)) / scores.size


@fitted
def test_calibration_takes_most_of_the_error_of_distorted_scores(method: str) -> None:
    # No shifts between the cells: a temperature could not follow them.
    sample = drawn(20_000, width=0.0)
    predicted = sample.scores, fit(sample, method).eta
    before, after = np.array(
        [
            [calibration_error(sample.scores[here], each[here], sample.labels[here]) for each in predicted]
            for here in (sample.cells == cell for cell in range(int(np.prod(sample.shape))))
        ]
    ).T
    assert before.mean() > 0.1
    assert after.mean() < 0.3 * before.mean()
    assert np.all(after < before)
