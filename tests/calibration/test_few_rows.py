"""Groups of few rows have no sums of their own above the cells: the map of the level above serves them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.calibration import cross_fit, fit_calibrator, fits
from logofair.calibration.federated import Levels, calibration_counts, calibration_sums, cell_calibrators, fold_rows
from logofair.calibration.fits import clipped_counts, summed_as
from support.rows import numbered, rows_of

METHODS = ("beta", "platt", "temperature")


@pytest.fixture(autouse=True)
def _groups_of_any_size(monkeypatch):
    """Here the least number of rows is the real one, in place of that of the other tests of this folder."""
    monkeypatch.setattr(fits, "LEAST_ROWS", 250)


def drawn(sizes, *, sites=4, seed=0):
    """So many rows of each group, at sites drawn at random, with scores that are off in every group."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    chances = rng.beta(1.2, 1.8, groups.size)
    labels = (rng.random(groups.size) < chances).astype(float)
    scores = np.clip(chances ** (1.0 + 0.4 * groups), 1e-6, 1 - 1e-6)
    where = rng.integers(0, sites, groups.size).astype(np.int32)
    return rows_of(scores, labels, groups, where, shape=(sites, len(sizes)))


def of_levels(calibrator):
    """The maps of all rows and of the groups."""
    return calibrator.maps.parameters[: 1 + calibrator.n_groups]


@given(
    st.lists(st.lists(st.integers(0, 700), min_size=3, max_size=3), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_whatever_is_summed_has_enough_rows_when_any_one_site_takes_its_own_off(rows, fed):
    counts = np.array(rows, dtype=float)  # (sites, groups)
    of_groups, everybody = clipped_counts(counts)
    places = summed_as(of_groups.sum(axis=0), float(everybody.sum()), np.array(fed))
    for place in set(places.tolist()) - {-1}:
        inside = places == place
        own = counts[:, inside].sum(axis=1)
        assert np.all(own.sum() - own >= 250)
        assert np.array(fed)[inside].any()
    left = counts[:, places == -1].sum(axis=1)
    if left.size and not all(places >= 0) and all(fed) and np.all(places == -1):
        assert left.sum() - left.max() < 250 or np.minimum(left, 250).sum() < 500


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("small", [30, 499])
def test_no_label_of_a_group_below_changes_a_map_that_others_see(method, small):
    sample = drawn((900, small, 600))
    other = replace(sample, labels=np.where(sample.groups.codes == 1, 1.0 - sample.labels, sample.labels))
    one, two = (fit_calibrator(each, method) for each in (sample, other))
    assert np.array_equal(of_levels(one), of_levels(two))
    assert np.array_equal(of_levels(one)[2], of_levels(one)[0])  # it has the map of all rows
    at = sample.groups.codes == 1
    columns = sample.scores[at], sample.groups.codes[at], sample.sites.codes[at]
    assert np.abs(one(*columns) - two(*columns)).max() > 1e-3  # while its cells learn from their own rows


@pytest.mark.parametrize("method", METHODS)
def test_where_all_groups_are_small_they_are_fitted_as_one(method):
    sample = drawn((330, 340))
    merged = replace(sample, groups=numbered(0 * sample.groups.codes, 1))
    got, expected = (of_levels(fit_calibrator(each, method)) for each in (sample, merged))
    np.testing.assert_allclose(got[:2], expected, rtol=1e-7)
    assert np.array_equal(got[1], got[2])


def test_a_group_that_one_site_has_nearly_alone_is_not_summed():
    """That site could take its own part off the sums of the fold, and see the rows of the others."""
    sample = drawn((2000, 2000))
    where = np.where((sample.groups.codes == 1) & (np.arange(4000) % 10 > 0), 0, sample.sites.codes).astype(np.int32)
    levels = of_levels(fit_calibrator(replace(sample, sites=numbered(where, 4)), "beta"))
    assert np.array_equal(levels[2], levels[0])
    assert not np.array_equal(of_levels(fit_calibrator(sample, "beta"))[2], levels[0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(100, 90), (40, 30, 20), (1, 3)])
def test_where_all_rows_are_few_every_cell_starts_from_the_scores(method, sizes):
    sample = drawn(sizes)
    calibrator = fit_calibrator(sample, method)
    identity = [1.0, 1.0, 0.0] if method == "beta" else [1.0, 0.0] if method == "platt" else [1.0]
    assert np.allclose(of_levels(calibrator), identity, atol=1e-9)
    assert np.isfinite(cross_fit(sample, method, rng=np.random.default_rng(0)).eta).all()


def test_the_rows_of_a_single_site_are_nobody_elses_and_calibrated_however_few(monkeypatch):
    sample = drawn((120, 110), sites=1)
    few = fit_calibrator(sample, "beta").maps.parameters
    monkeypatch.setattr(fits, "LEAST_ROWS", 0)
    assert np.array_equal(few, fit_calibrator(sample, "beta").maps.parameters)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(900, 40, 600), (900, 330, 600, 340), (100, 60), (400, 300), (800, 900)])
@pytest.mark.parametrize("sites", [2, 4])
def test_a_federation_and_one_place_give_every_group_and_cell_the_same_map(method, sizes, sites):
    sample = drawn(sizes, sites=sites)
    groups = len(sizes)
    dealt = []
    for site in range(sites):
        own = sample.at(sample.sites.codes == site)
        alone = replace(own, sites=numbered(0 * own.sites.codes, 1))
        dealt.append(fold_rows(method, alone, [np.random.default_rng(site)]))
    rows = np.array([np.bincount(each.sample.groups.codes, minlength=groups) for each in dealt], dtype=float)
    of_groups, everybody = clipped_counts(rows)
    places = summed_as(of_groups.sum(axis=0), float(everybody.sum()))
    levels = Levels.start(method, places, least_gain=1e-11, slack=1e-11)
    levels = levels.count(np.concatenate([calibration_counts(each, places) for each in dealt]).sum(axis=0))
    while not levels.done:
        points = levels.request
        levels = levels.take(np.concatenate([calibration_sums(each, points) for each in dealt]).sum(axis=0))
    maps, expected = levels.published, fit_calibrator(sample, method)
    together = np.vstack([maps.everyone[:, -1], maps.groups[:, -1].T])
    np.testing.assert_allclose(together, of_levels(expected), atol=2e-3)
    for site, rows in enumerate(dealt):
        cells = cell_calibrators(rows, maps).calibrator.maps.parameters[1 + groups :]
        first = 1 + groups + site * groups
        np.testing.assert_allclose(cells, expected.maps.parameters[first : first + groups], atol=2e-3)
