"""The master in memory: the optimum of its linear program, bunch by bunch, wherever it goes on from."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

from logofair.solvers.limits import Limits, Regions, gap_of, support_of_tolerances, zero_sum
from logofair.solvers.master import Master
from logofair.solvers.rational import best_mixture
from support.examples import examples
from support.mixtures import best_value, masters
from support.oracles import HIGHS, regions

modest = examples(60)
WIDER = 2e-11  # by which every tolerance may be exceeded


def started(tolerance, bunches) -> Master:
    return Master.start(regions(tolerance).layout, np.ones(bunches, dtype=bool))


def solved(gains, rates, tolerance) -> Master:
    master = started(tolerance, gains.shape[1])
    master.add(gains, rates)
    assert master.maximise()
    return master


@modest
@given(masters())
def test_it_is_the_optimum_of_the_linear_program_within_the_tolerances(answers):
    gains, rates, tolerance = answers
    weights = solved(*answers).weights
    assert np.sum(weights[1:] * gains) == pytest.approx(best_value(*answers, WIDER), abs=1e-9)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=0), 1.0, atol=1e-12)
    gaps = gap_of(np.einsum("tb,tbak->ak", weights[1:], rates), np.isfinite(tolerance), axis=0)
    assert np.all(gaps <= tolerance.min(axis=0) + 1e-10)


@modest
@given(masters())
def test_its_prices_prove_that_no_mixture_gains_more(answers):
    gains, rates, tolerance = answers
    prices = solved(*answers).prices.reshape(tolerance.shape)
    summed = zero_sum(prices, np.isfinite(tolerance), 0)
    np.testing.assert_allclose(prices, summed, atol=1e-7)
    worth = np.maximum(0.0, gains - np.einsum("tbak,ak->tb", rates, summed)).max(axis=0).sum()
    assert worth + support_of_tolerances(summed, tolerance) == pytest.approx(best_value(*answers, WIDER), abs=1e-7)


def limited(rng, groups):
    """Two rates, the first compared by a ratio and between floors and ceilings, the second adding up to a total."""
    limits = Limits.within(np.full((1, 2), np.inf), groups)
    limits.ratio[0, 0] = rng.choice([0.0, 0.5, 0.9, 1.0])
    if rng.random() < 0.7:
        limits.least[0, :, 0] = rng.choice([-np.inf, 0.2, 0.5], groups)
        limits.most[0, :, 0] = rng.choice([np.inf, 0.6, 0.9], groups)
    limits.total_most[0, 1] = rng.choice([0.2, 0.5]) * groups
    if rng.random() < 0.5:
        limits.total_least[0, 1] = limits.total_most[0, 1] * rng.choice([0.8, 1.0])
    return limits


def best_limited(gains, rates, limits, rejecting) -> float | None:
    """The optimum by HiGHS over the weights of the answers and of rejecting everybody; None: there is none."""
    answers, bunches, groups, _ = rates.shape
    first, second = (np.append(rates[..., k].reshape(-1, groups), np.zeros((bunches, groups)), 0).T for k in (0, 1))
    ratio, total = limits.ratio[0, 0], second.sum(axis=0)
    rows = [(ratio * first[a] - first[b], 0.0) for a, b in permutations(range(groups), 2) if ratio > 0]
    rows += [(-first[a], -limits.least[0, a, 0]) for a in range(groups)]
    rows += [(first[a], limits.most[0, a, 0]) for a in range(groups)]
    rows += [(total, limits.total_most[0, 1]), (-total, -limits.total_least[0, 1])]
    rows = [(row, end) for row, end in rows if np.isfinite(end)]
    bunch = np.append(np.tile(np.eye(bunches), answers), np.eye(bunches), axis=1)
    bounds = [(0, None)] * gains.size + [(0, None if may else 0) for may in rejecting]
    found = linprog(
        -np.append(gains.ravel(), np.zeros(bunches)),
        np.array([row for row, _ in rows]),
        [end for _, end in rows],
        bunch,
        np.ones(bunches),
        bounds,
        method="highs",
        options=HIGHS,
    )
    assert found.status in (0, 2)
    return None if found.status == 2 else -found.fun


def test_ratios_floors_and_totals_are_met_or_nothing_meets_them():
    met = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        groups, bunches, size = int(rng.integers(2, 5)), int(rng.choice([1, 4])), int(rng.choice([2, 6, 15]))
        gains, rates = (
            rng.normal(0.05, 0.1, (size, bunches)) / bunches,
            rng.random((size, bunches, groups, 2)) / bunches,
        )
        limits, rejecting = limited(rng, groups), rng.random(bunches) < 0.5
        rows = Regions(limits, np.ones((1, groups, 2), dtype=bool)).layout
        best, master = best_limited(gains, rates, limits, rejecting), Master.start(rows, rejecting)
        for gain, rate in zip(gains, rates, strict=True):
            master.add(gain[None], rate[None])
            assert master.maximise()
        assert master.within == (best is not None)
        if best is not None:
            assert np.sum(master.weights[1:] * gains) == pytest.approx(best, abs=1e-8)
            met += 1
    assert 15 <= met <= 50


@modest
@given(masters())
def test_answers_that_come_one_after_the_other_end_in_the_same_value(answers):
    gains, rates, tolerance = answers
    master = started(tolerance, gains.shape[1])
    for gain, rate in zip(gains, rates, strict=True):
        master.add(gain[None], rate[None])
        assert master.maximise()
    assert np.sum(master.weights[1:] * gains) == pytest.approx(best_value(*answers, WIDER), abs=1e-9)


@modest
@given(masters())
def test_one_bunch_gains_what_the_master_in_whole_numbers_does_and_more_bunches_no_less(answers):
    gains, rates, tolerance = answers
    summed = gains.sum(axis=1), rates.sum(axis=1)
    whole = best_mixture(*summed, regions(tolerance)).value
    one = solved(summed[0][:, None], summed[1][:, None], tolerance)
    assert np.sum(one.weights[1:, 0] * summed[0]) == pytest.approx(whole, abs=1e-9)
    assert np.sum(solved(*answers).weights[1:] * gains) >= whole - 1e-9
