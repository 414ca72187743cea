"""What is certified is the policy that is stored, whatever the calibration: recomputed here from its own decisions."""

from __future__ import annotations

import numpy as np
import pytest

import logofair
from logofair.calibration import METHODS, isotonic_chances
from logofair.columns.segments import RowOrder


def people(seed, n=1500):
    rng = np.random.default_rng(seed)
    sex, site = rng.choice(["f", "m"], n), rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    score = rng.beta(1.5 + (sex == "m"), 2.5, n)
    return score**0.7, (rng.random(n) < score).astype(float), sex, site


def gap(chance, weight, sex):
    rates = [np.sum((chance * weight)[sex == s]) / np.sum(weight[sex == s]) for s in ("f", "m")]
    return abs(rates[0] - rates[1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("basis", ["eta", "labels"])
@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_its_decisions_on_the_calibration_rows_meet_the_requirements(method, basis, notion):
    score, label, sex, site = people(1)
    solution = logofair.fit(
        score,
        label,
        sensitive_features=sex,
        sites=site,
        notion=notion,
        local_tolerance=0.01,
        global_tolerance=0.005,
        calibration=method,
        basis=basis,
        pooling="none",
    )
    chance = solution.policy.probabilities(score, sensitive_features=sex, sites=site)
    value = label if basis == "labels" else solution.rows.eta
    weights = [np.ones_like(score)] if notion == "demographic_parity" else [value, 1.0 - value]
    for weight in weights:
        assert gap(chance, weight, sex) <= 0.005 + 1e-9
        for place in np.unique(site):
            here = site == place
            assert gap(chance[here], weight[here], sex[here]) <= 0.01 + 1e-9
    accuracy = np.mean(value * chance + (1.0 - value) * (1.0 - chance))
    assert accuracy == pytest.approx(solution.certificate.primal, abs=1e-9)
    assert solution.certificate.holds


@pytest.mark.parametrize("method", METHODS)
def test_the_merged_rule_keeps_the_smaller_tolerance_on_all_rows(method):
    score, label, sex, site = people(2)
    solution = logofair.fit(
        score,
        label,
        sensitive_features=sex,
        sites=site,
        local_tolerance=0.02,
        global_tolerance=0.01,
        calibration=method,
    )
    strangers = np.full(score.size, "west")
    chance = solution.policy.probabilities(score, sensitive_features=sex, sites=strangers, on_unknown="merged")
    assert gap(chance, np.ones_like(score), sex) <= 0.01 + 1e-9


def test_chances_rise_with_the_order_and_keep_the_mean_of_each_cell():
    rng = np.random.default_rng(0)
    order, chances = np.round(rng.random(400), 2), rng.random(400)
    cells, weights = rng.integers(0, 5, 400).astype(np.int32), rng.uniform(0.1, 2.0, 400)
    by_cell = RowOrder.of(order, cells, 5)
    columns = (column[by_cell.rows] for column in (order, chances, weights))
    smooth = by_cell.in_input_order(isotonic_chances(by_cell, *columns))
    for cell in range(5):
        here = np.flatnonzero(cells == cell)
        by_order = here[np.argsort(order[here], kind="stable")]
        assert np.all(np.diff(smooth[by_order]) >= -1e-15)
        for level in np.unique(order[here]):
            assert np.ptp(smooth[here[order[here] == level]]) == 0
        assert np.average(smooth[here], weights=weights[here]) == pytest.approx(
            np.average(chances[here], weights=weights[here]), abs=1e-12
        )
    columns = (column[by_cell.rows] for column in (order, order, weights))
    np.testing.assert_allclose(by_cell.in_input_order(isotonic_chances(by_cell, *columns)), order, atol=1e-15)


def coin_flips(seed):
    """Ten cells of 100 rows whose labels are fair coins."""
    rng = np.random.default_rng(seed)
    return rng.random(1000), rng.integers(0, 2, 1000).astype(float), np.tile(["f", "m"], 500), np.repeat(range(5), 200)


@pytest.mark.parametrize("method", ["beta", "isotonic"])
def test_chances_to_compare_with_labels_cannot_tell_coins_and_the_expected_accuracy_is_theirs(method):
    right = []
    for seed in range(20):
        score, label, sex, site = coin_flips(seed)
        solution = logofair.fit(
            score,
            label,
            sensitive_features=sex,
            sites=site,
            local_tolerance=None,
            global_tolerance=None,
            calibration=method,
            pooling="none",
            random_state=seed,
        )
        chance, made = (
            solution.policy.probabilities(score, sensitive_features=sex, sites=site),
            solution.rows.calibration,
        )
        honest = made.order.in_input_order(made.chances())
        expected = np.mean(honest * chance + (1.0 - honest) * (1.0 - chance))
        assert expected == pytest.approx(solution.certificate.primal, abs=1e-9)
        right.append(np.mean((honest >= 0.5) == (label == 1.0)))
    assert abs(np.mean(right) - 0.5) < 3.0 * np.std(right, ddof=1) / np.sqrt(len(right))
