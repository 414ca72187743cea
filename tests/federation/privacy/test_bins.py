"""Bins: counts, counts without negatives, and rules that treat every row as its bin was treated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import brentq

from logofair.columns.cells import build_cells
from logofair.federation.privacy import at_edges, histogram, midpoints, without_negatives
from logofair.fitting.fit import fit
from logofair.policy.mixtures import Mixtures, evaluate
from support.examples import examples

COUNTS = hnp.arrays(np.int64, st.tuples(st.integers(1, 3), st.sampled_from([2, 4, 16])), elements=st.integers(-60, 60))
BINS = st.sampled_from([2, 8, 32, 1024])


@examples(50)
@given(eta=hnp.arrays(np.float64, st.integers(0, 30), elements=st.floats(0, 1)), bins=BINS)
def test_every_row_is_counted_once_in_the_bin_whose_edges_hold_it(eta, bins):
    counts = histogram(eta, np.zeros(eta.size, dtype=np.int32), 2, bins)
    expected, _ = np.histogram(eta, bins=np.arange(bins + 1) / bins)
    np.testing.assert_array_equal(counts, [expected, np.zeros(bins)])


def test_a_score_on_an_edge_belongs_to_the_bin_above_and_one_to_the_last():
    eta = np.array([0.0, 0.25, np.nextafter(0.25, 0), 1.0])
    np.testing.assert_array_equal(histogram(eta, np.zeros(4, dtype=np.int32), 1, 4), [[2, 1, 0, 1]])


@examples(100)
@given(counts=COUNTS)
def test_counts_without_negatives_are_the_nearest_with_the_same_total(counts):
    found = without_negatives(counts)
    assert found.dtype == np.int64
    assert found.min() >= 0
    for row, made in zip(counts, found, strict=True):
        total = max(int(row.sum()), 0)
        assert made.sum() == total
        if total:
            level = brentq(lambda t, row=row, total=total: np.maximum(row - t, 0).sum() - total, -200.0, 200.0)
            assert np.abs(made - np.maximum(row - level, 0)).max() < 1 + 1e-6  # rounded to whole rows


@examples(30)
@given(counts=COUNTS)
def test_counts_that_have_no_negatives_are_left_alone(counts):
    np.testing.assert_array_equal(without_negatives(np.abs(counts)), np.abs(counts))


def test_clipping_alone_would_invent_people():
    random = np.random.default_rng(0)
    true = np.zeros((200, 32), dtype=np.int64)
    true[:, 5] = 500
    noised = true + np.rint(random.normal(0, 6, true.shape)).astype(np.int64)
    assert np.maximum(noised, 0).sum(axis=1).mean() > 560
    assert without_negatives(noised).sum(axis=1).mean() == pytest.approx(500, abs=6 * 6 * np.sqrt(32 / 200))


def noised_policy(seed, bins, notion, local):
    """A policy on noised bins of two sites, some of them empty, with its rows."""
    random = np.random.default_rng(seed)
    weights = np.maximum(np.rint(random.normal(3, 6, (2, 2, bins))), 0)
    weights[0, 0, 0] += 1
    shape = weights.shape
    sites, groups = (np.broadcast_to(a, shape).ravel() for a in (np.arange(2)[:, None, None], np.arange(2)[:, None]))
    scores = np.broadcast_to(midpoints(bins), shape).ravel()
    return fit(
        scores, None, sensitive_features=groups, sites=sites, notion=notion,
        local_tolerance=local, global_tolerance=0.02, sample_weight=weights.ravel(), calibration="none", pooling="none",
    )  # fmt: skip


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    bins=st.sampled_from([2, 8, 32]),
    notion=st.sampled_from(["demographic_parity", "equalized_odds"]),
    local=st.sampled_from([0.0, 0.05, None]),
)
def test_a_rule_at_the_edges_treats_every_row_as_the_midpoint_of_its_bin(seed, bins, notion, local):
    found = noised_policy(seed, bins, notion, local).policy
    moved = replace(found, mixtures=at_edges(found.mixtures, bins), merged_rules=at_edges(found.merged, bins))
    edges = np.arange(bins + 1) / bins
    scores = np.concatenate([edges, np.nextafter(edges[1:], 0), np.random.default_rng(seed).random(50)])
    snapped = midpoints(bins)[np.minimum((scores * bins).astype(int), bins - 1)]
    for site in (0, 1, "unknown"):
        for group in (0, 1):
            where = {"sensitive_features": [group] * scores.size, "sites": [site] * scores.size, "on_unknown": "merged"}
            real, bin_ = moved.probabilities(scores, **where), found.probabilities(snapped, **where)
            np.testing.assert_array_equal(real, bin_)
            one = moved.decide(scores, **where, deterministic=True)
            np.testing.assert_array_equal(one, found.decide(snapped, **where, deterministic=True))


@examples(30)
@given(seed=st.integers(0, 10**6), bins=st.sampled_from([2, 8, 32]))
def test_moving_rules_to_the_edges_changes_nothing_on_the_bins_themselves(seed, bins):
    solution = noised_policy(seed, bins, "equalized_odds", 0.02)
    rules, cells = solution.policy.mixtures, solution.problem.cells
    moved = at_edges(rules, bins)
    for one, other in ((moved, rules), (moved.deterministic, rules.deterministic)):
        np.testing.assert_array_equal(evaluate(cells, one), evaluate(cells, other))


def test_a_threshold_inside_an_empty_bin_moves_to_an_edge():
    scores, groups = midpoints(8)[[0, 7, 0, 7]], np.array([0, 0, 1, 1])
    found = fit(scores, None, sensitive_features=groups, calibration="none", sample_weight=[5, 5, 5, 5]).policy
    thresholds = at_edges(found.mixtures, 8).threshold[:, 0]
    assert np.all(thresholds * 8 == np.rint(thresholds * 8))


def test_rules_that_accept_no_bin_accept_nobody():
    weight = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    threshold, above = np.array([[0.9, 0, 0], [0.1, 0, 0]]), np.array([[True] * 3, [False, True, True]])
    moved = at_edges(Mixtures(weight, threshold, above, np.array([0.9, np.inf])), bins=2)
    assert moved.weight.max() == 0
    assert np.all(np.isinf(moved.single))
    code = np.zeros(3, dtype=np.int32)
    cells = build_cells(np.array([0.0, 0.5, 1.0]), code[[0, 0, 0]], code, n_groups=2, n_sites=1)
    assert evaluate(cells, moved)[0].max() == 0
