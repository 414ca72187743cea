"""Post-processing on histograms: without noise the optimum of the bins, with noise the same again for a seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logofair.datasets import Dataset
from logofair_reproduction.experiments.experiment import Case, Split
from logofair_reproduction.experiments.measuring import BINS, private_chances
from logofair_reproduction.experiments.scores import SplitData
from support.oracles import spelled_out

TOLERANCE = 0.02


def rows_and_scores(n=600, random_state=0):
    """Rows of which the same are calibrated on and tested on, with their scores."""
    random = np.random.default_rng(random_state)
    groups, sites = random.choice(["a", "b"], n), random.choice(["north", "south", "west"], n)
    scores = random.beta(1 + (groups == "b"), 2)
    labels = (random.random(n) < scores).astype(np.int64)
    data = Dataset(name="toy", features=np.zeros((n, 1)), feature_names=("x",), labels=labels, sensitive=groups)
    all_rows = np.arange(n)
    return SplitData(Split("toy", 0), data, sites, {"calibration": all_rows, "test": all_rows}), scores


def case(epsilon, notion="demographic_parity", random_state=0):
    return Case("privacy_dp", Split("toy", random_state), notion, "private", TOLERANCE, TOLERANCE, epsilon, 1)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_without_noise_the_rule_is_the_best_that_treats_rows_of_a_bin_alike(notion):
    rows, scores = rows_and_scores()
    chances, about = private_chances(case(None, notion), rows, scores, scores)
    midpoints = (np.minimum(np.floor(scores * BINS), BINS - 1) + 0.5) / BINS
    required = {"notion": notion, "local_tolerance": TOLERANCE, "global_tolerance": TOLERANCE}
    problem = spelled_out(midpoints, required | {"sensitive_features": rows.data.sensitive, "sites": rows.sites})
    best, _ = problem.best_rows()
    assert problem.accuracy(chances) == pytest.approx(best, abs=2e-6)
    assert problem.violation(chances) == pytest.approx(0.0, abs=1e-9)
    assert about["noise"] == 0.0


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_rows_of_one_bin_group_and_site_have_one_chance(epsilon):
    rows, scores = rows_and_scores()
    if epsilon is not None:
        pytest.importorskip("opendp")
    chances, _ = private_chances(case(epsilon), rows, scores, scores)
    bins = np.floor(scores * BINS).astype(int)
    cells = {}
    for place, chance in zip(zip(bins, rows.data.sensitive, rows.sites, strict=True), chances, strict=True):
        assert cells.setdefault(place, chance) == chance, place
    assert len(set(chances.tolist())) > 1


def test_noise_is_the_same_again_for_a_seed_and_another_for_another_seed_or_epsilon():
    pytest.importorskip("opendp")
    rows, scores = rows_and_scores()

    def chances(epsilon, random_state=0):
        return private_chances(case(epsilon, random_state=random_state), rows, scores, scores)[0].tolist()

    assert chances(0.1) == chances(0.1)
    assert chances(0.1) != chances(0.1, random_state=1)
    assert chances(0.1) != chances(0.3)


def test_less_epsilon_is_more_noise_and_heavy_noise_costs_fairness():
    pytest.importorskip("opendp")
    rows, scores = rows_and_scores(4000)
    found = {epsilon: private_chances(case(epsilon), rows, scores, scores) for epsilon in (10.0, 0.1)}
    assert found[10.0][1]["noise"] < 0.1 * found[0.1][1]["noise"]
    gaps = {epsilon: rows.rows("test").audit(chances, "demographic_parity") for epsilon, (chances, _) in found.items()}
    alone = rows.rows("test").audit(scores >= 0.5, "demographic_parity")
    assert gaps[10.0].local_gap < 0.5 * alone.local_gap
    assert gaps[0.1].local_gap > gaps[10.0].local_gap


def test_clients_and_groups_that_only_test_rows_have_are_decided_by_the_merged_rule():
    rows, scores = rows_and_scores()
    sites = rows.sites.copy()
    sites[:50] = "elsewhere"
    parts = {"calibration": np.arange(50, 600), "test": np.arange(600)}
    chances, _ = private_chances(case(None), replace(rows, sites=sites, parts=parts), scores[50:], scores)
    assert chances.size == 600
    assert np.isfinite(chances).all()
