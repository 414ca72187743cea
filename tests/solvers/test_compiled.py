"""The optional compiled code and the numpy code agree: same order, same sums, same certified value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.columns.acceleration import ENOUGH_ROWS, accelerated
from logofair.columns.segments import cumulative, sorted_by_cell
from logofair.notions import NOTIONS
from support.examples import examples
from support.required import Required

pytest.importorskip("numba")

from logofair.cells.compiled import running
from logofair.columns.compiled import sorted_cells


def federation(seed, *, rows, clients, groups, digits=None):
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 2, rows)
    if digits is not None:
        scores = np.round(scores, digits)
    return scores, rng.integers(0, groups, rows).astype(np.int32), rng.integers(0, clients, rows).astype(np.int32)


@pytest.mark.parametrize(
    ("rows", "clients", "digits"),
    [(0, 3, None), (1, 1, None), (50, 40, 1), (3_000, 20, 2), (20_000, 2, None), (60_000, 3, 2), (30_000, 600, None)],
)
def test_compiled_and_numpy_order_rows_alike(rows, clients, digits):
    scores, group, client = federation(0, rows=rows, clients=clients, groups=2, digits=digits)
    ordered, starts = sorted_cells(group, client, 2, clients, scores)
    sums = running(ordered, starts)
    expected, expected_starts = sorted_by_cell(group, client, 2, clients, scores)
    np.testing.assert_array_equal(ordered, expected)
    np.testing.assert_array_equal(starts, expected_starts)
    np.testing.assert_allclose(sums, cumulative(expected, expected_starts), rtol=1e-13, atol=1e-13)


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    notion=st.sampled_from(sorted(NOTIONS)),
    groups=st.integers(2, 4),
    clients=st.sampled_from([1, 3, 80]),
    local=st.sampled_from([None, 0.0, 0.01, 0.1]),
    global_=st.sampled_from([None, 0.0, 0.02]),
)
def test_compiled_and_numpy_reach_the_same_certified_value(seed, notion, groups, clients, local, global_):
    scores, group, client = federation(seed, rows=400, clients=clients, groups=groups, digits=2)
    group[:groups] = np.arange(groups)
    values = []
    for setting in ("0", "1"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOGOFAIR_ACCELERATE", setting)
            solution = logofair.fit(
                scores,
                None,
                groups=group,
                clients=client,
                notion=notion,
                local_tolerance=local,
                global_tolerance=global_,
                calibration="none",
            )
        assert solution.certificate.holds
        values.append(solution.certificate.primal)
    assert values[0] == pytest.approx(values[1], abs=1e-6)


@pytest.mark.parametrize("first", [0, 12])
def test_compiled_pivots_meet_requirements_of_every_kind_or_find_that_nothing_does(first, monkeypatch):
    monkeypatch.setenv("LOGOFAIR_ACCELERATE", "1")
    for seed in range(first, first + 12):
        required = Required.drawn(seed)
        best, costs = required.least_cost(), required.costs
        if best is None:
            with pytest.raises(logofair.InfeasibleError):
                logofair.fit(required.chances, None, **required.arguments())
            continue
        found = logofair.fit(required.chances, None, **required.arguments()).certificate
        assert (found.primal if costs else 1.0 - found.primal) == pytest.approx(best, abs=2e-6 * max(costs or (1,)))
        assert found.holds


def test_weights_and_labels_pass_through_the_compiled_pivots_too(monkeypatch):
    scores, group, client = federation(3, rows=500, clients=4, groups=2)
    rng = np.random.default_rng(3)
    labels, weights = rng.random(500) < scores, rng.uniform(0.5, 2.0, 500)
    keywords = {"groups": group, "clients": client, "notion": "equalized_odds", "sample_weight": weights}
    found = []
    for setting in ("0", "1"):
        monkeypatch.setenv("LOGOFAIR_ACCELERATE", setting)
        found.append(logofair.fit(scores, labels, **keywords, basis="labels", calibration="none").certificate)
    assert all(certificate.holds for certificate in found)
    assert found[0].primal == pytest.approx(found[1].primal, abs=1e-6)


def test_small_inputs_do_not_wait_for_the_compiled_code(monkeypatch):
    monkeypatch.delenv("LOGOFAIR_ACCELERATE", raising=False)
    assert not accelerated(ENOUGH_ROWS - 1)
    assert accelerated(ENOUGH_ROWS)
    monkeypatch.setenv("LOGOFAIR_ACCELERATE", "0")
    assert not accelerated(ENOUGH_ROWS)
    monkeypatch.setenv("LOGOFAIR_ACCELERATE", "1")
    assert accelerated(1)
