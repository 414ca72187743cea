"""Isotonic maps against scikit-learn, numpy's interpolation and hand-computed blends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from logofair.calibration import fit_calibrator
from logofair.calibration.maps import isotonic_knots
from support.examples import examples
from support.rows import rows_of

Array = NDArray[np.float64]


def random_rows(seed: int, n: int, n_units: int, decimals: int) -> tuple[NDArray[np.int64], Array, Array, Array]:
    rng = np.random.default_rng(seed)
    units, scores = rng.integers(0, n_units, n), np.round(rng.random(n), decimals)
    order = np.lexsort((scores, units))
    labels = (rng.random(n) < scores).astype(float)
    return units[order], scores[order], labels[order], rng.uniform(0.1, 3.0, n)[order]


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), decimals=st.sampled_from([1, 8]))
def test_many_curves_fitted_at_once_are_those_of_scikit_learn(seed: int, n: int, decimals: int) -> None:
    rows = random_rows(seed, n, 4, decimals)
    units, at, values = isotonic_knots(*rows)
    for unit in np.unique(rows[0]):
        _, scores, labels, weights = (column[rows[0] == unit] for column in rows)
        expected = IsotonicRegression().fit(scores, labels, sample_weight=weights).predict(scores)
        np.testing.assert_allclose(np.interp(scores, at[units == unit], values[units == unit]), expected, atol=1e-12)


def test_more_curves_than_fit_into_one_call_are_each_as_if_alone() -> None:
    rows = random_rows(7, 6000, 700, 8)
    units, at, values = isotonic_knots(*rows)
    for unit in (0, 255, 256, 257, 511, 512, 699):
        alone, there = isotonic_knots(*(column[rows[0] == unit] for column in rows)), rows[1][rows[0] == unit]
        together = np.interp(there, at[units == unit], values[units == unit])
        np.testing.assert_allclose(together, np.interp(there, *alone[1:]), atol=1e-12)


def test_a_block_of_pooled_scores_has_knots_at_its_ends_only() -> None:
    # Labels 0 | 1 0 1 0 0 | 1 pool to 0, 2/5, 1.
    scores = np.arange(1, 8) / 10
    labels = np.array([0.0, 1, 0, 1, 0, 0, 1])
    _, at, values = isotonic_knots(np.zeros(7, dtype=np.int64), scores, labels, np.ones(7))
    assert at.tolist() == [0.1, 0.2, 0.6, 0.7]
    assert values.tolist() == pytest.approx([0.0, 0.4, 0.4, 1.0])


def test_a_map_is_the_blend_of_its_own_curve_and_its_parents() -> None:
    # Two rows at each of two sites, strength 6: all rows lean 1/5 on the score, the group 3/5 on all rows, a cell 3/4
    # on the group.
    scores, labels, codes = np.array([0.2, 0.8]), np.array([0.0, 1.0]), np.zeros(2, dtype=np.int32)
    columns = (np.tile(scores, 2), np.tile(labels, 2), np.tile(codes, 2), np.repeat(np.array([0, 1], np.int32), 2))
    calibrator = fit_calibrator(rows_of(*columns, shape=(3, 1)), "isotonic", strength=6.0)
    everyone = 4 / 5 * labels + 1 / 5 * scores
    group = 2 / 5 * labels + 3 / 5 * everyone
    cell = 1 / 4 * labels + 3 / 4 * group
    np.testing.assert_allclose(calibrator(scores, codes, codes), cell)
    np.testing.assert_allclose(calibrator(scores, codes, codes - 1), group)
    np.testing.assert_allclose(calibrator(scores, codes, codes + 2), group)


def test_between_knots_a_curve_is_linear_and_outside_them_constant() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    groups, sites = rng.integers(0, 3, n).astype(np.int32), rng.integers(0, 5, n).astype(np.int32)
    scores = rng.uniform(0.2, 0.9, n)
    labels = (rng.random(n) < scores).astype(float)
    # Strength 0: the cell's own curve and nothing else.
    calibrator = fit_calibrator(rows_of(scores, labels, groups, sites, shape=(5, 3)), "isotonic", strength=0.0)
    fresh = rng.random(n)
    eta = calibrator(fresh, groups, sites)
    for cell in range(15):
        there = sites * 3 + groups == cell
        order = np.argsort(scores[there])
        curve = isotonic_knots(
            np.zeros(order.size, dtype=np.int64), scores[there][order], labels[there][order], np.ones(order.size)
        )
        np.testing.assert_allclose(eta[there], np.interp(fresh[there], *curve[1:]), atol=1e-12)
