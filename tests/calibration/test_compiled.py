"""The optional compiled code and the numpy code agree: the same folds, the same chances, the same policy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

import logofair
from logofair.calibration.crossfit import deal_folds
from logofair.columns.segments import RowOrder

pytest.importorskip("numba")


def people(seed: int, n: int, n_clients: int):
    """Too sure scores of rows with weights, some of them 0."""
    rng = np.random.default_rng(seed)
    groups, clients = rng.integers(0, 2, n), rng.integers(0, n_clients, n)
    chances = expit(logit(rng.beta(1.5, 2.0, n)) + rng.normal(0.0, 0.5, n_clients)[clients] + 0.3 * groups)
    return expit(1.5 * logit(chances)), rng.random(n) < chances, groups, clients, rng.choice([0.0, 0.5, 1.0, 2.0], n)


@pytest.mark.parametrize(("n_clients", "weighted", "digits"), [(2, False, None), (60, True, None), (400, False, 2)])
def test_both_find_the_same_policy(monkeypatch, n_clients, weighted, digits):
    scores, labels, groups, clients, weights = people(n_clients, 4000, n_clients)
    scores = scores if digits is None else np.round(scores, digits)
    found = []
    for setting in ("0", "1"):
        monkeypatch.setenv("LOGOFAIR_ACCELERATE", setting)
        more = {"sample_weight": weights} if weighted else {}
        solution = logofair.fit(scores, labels, groups=groups, clients=clients, pooling="none", random_state=0, **more)
        accepted = solution.policy.probabilities(scores, groups=groups, clients=clients)
        found.append((solution, accepted))
    (one, accepted), (other, same) = found
    np.testing.assert_allclose(one.rows.out_of_fold, other.rows.out_of_fold, atol=1e-9)
    np.testing.assert_allclose(one.rows.eta, other.rows.eta, atol=1e-9)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-9)
    assert np.average(np.abs(accepted - same)) < 1e-6
    assert one.calibration_errors.global_after == pytest.approx(other.calibration_errors.global_after, abs=1e-9)


def test_both_find_the_same_maps_of_small_cells_where_scores_mislead(monkeypatch):
    scores, labels, groups, clients, _ = people(1, 3000, 150)
    labels = labels ^ (clients % 3 == 0)  # slopes there would be negative, were they allowed to
    found = []
    for setting in ("0", "1"):
        monkeypatch.setenv("LOGOFAIR_ACCELERATE", setting)
        solution = logofair.fit(scores, labels, groups=groups, clients=clients, pooling="none", random_state=0)
        found.append(solution.policy.calibrator.maps.parameters)
    np.testing.assert_allclose(*found, atol=1e-8)
    assert (found[0][:, :2] == 0.0).any()


@pytest.mark.parametrize("parts", [1, 5])
def test_both_deal_the_same_folds(monkeypatch, parts):
    rng = np.random.default_rng(0)
    order = RowOrder.of(rng.random(500), rng.integers(0, 20, 500).astype(np.int32), 20)
    folds = []
    for setting in ("0", "1"):
        monkeypatch.setenv("LOGOFAIR_ACCELERATE", setting)
        folds.append(deal_folds(order, 5, *(np.random.default_rng(part) for part in range(parts))))
    assert np.array_equal(*folds)
