"""The master in whole numbers is the optimum of its linear program, and its numbers are exact."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from logofair.solvers.limits import Limits, gap_of
from logofair.solvers.rational import best_mixture
from support.examples import examples
from support.mixtures import best_value, masters
from support.oracles import HIGHS, regions

ROUNDING = 2.0**-36  # by which every tolerance may be exceeded


@st.composite
def answers(draw):
    """Answers as sites' totals are, of all sites together."""
    gains, rates, tolerance = draw(masters(sizes=(1, 3, 12, 60), bunches=(1,)))
    return gains[:, 0], rates[:, 0], tolerance


@examples(150)
@given(answers())
def test_it_is_the_optimum_of_the_linear_program_within_the_tolerances(master):
    gains, rates, tolerance = master
    found, counts = best_mixture(gains, rates, regions(tolerance)), np.isfinite(tolerance)
    best = best_value(gains, rates, tolerance)
    assert best - 1e-9 <= found.value <= best + 1e-9 + ROUNDING * np.abs(found.prices).sum()
    assert found.value == pytest.approx(found.weights[1:] @ gains, abs=1e-14)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-14)
    gaps = gap_of(np.tensordot(found.weights[1:], rates, 1), counts, axis=0)
    assert np.all(gaps <= tolerance.min(axis=0) + 1.01 * ROUNDING)
    assert np.count_nonzero(found.weights) <= 1 + counts.sum()


@examples(100)
@given(answers())
def test_its_prices_prove_that_no_mixture_gains_more(master):
    gains, rates, tolerance = master
    found, counts = best_mixture(gains, rates, regions(tolerance)), np.isfinite(tolerance)
    assert np.all(found.prices[~counts] == 0)
    size = 1.0 + np.abs(found.prices).max()
    assert np.abs(found.prices.sum(axis=0)).max() <= 1e-12 * size
    worth = 0.5 * np.sum(np.abs(found.prices) * np.where(counts, tolerance + ROUNDING, 0.0))
    priced = np.append(0.0, gains - np.tensordot(rates, found.prices, 2))
    assert priced.max() + worth == pytest.approx(found.value, abs=1e-11 * size)


def test_the_numbers_are_the_exact_ones_rounded_once():
    # Two answers with gaps of 1/3 and 1/7 on either side, by hand: x/3 - (1-x)/7 = tolerance.
    rates = np.array([[[1 / 3], [0.0]], [[0.0], [1 / 7]]])
    found = best_mixture(np.array([0.5, 0.25]), rates, regions(np.full((2, 1), 1 / 64)))
    one, other = (Fraction(round(Fraction(each) * 2**60), 2**60) for each in (1 / 3, 1 / 7))
    tolerance = Fraction(1, 64) + Fraction(ROUNDING)
    share = (tolerance + other) / (one + other)
    assert found.weights.tolist() == [0.0, float(share), float(1 - share)]
    assert found.value == float(share / 2 + (1 - share) / 4)
    price = Fraction(1, 4) / (one + other)
    assert found.prices.ravel().tolist() == [float(price), -float(price)]


@examples(30)
@given(answers())
def test_answers_that_come_twice_or_are_worthless_change_nothing_but_their_own_weights(master):
    gains, rates, tolerance = master
    once = best_mixture(gains, rates, regions(tolerance))
    twice = best_mixture(np.append(gains, gains), np.concatenate([rates, rates]), regions(tolerance))
    assert twice.value == once.value
    worse = best_mixture(np.append(gains, gains - 1.0), np.concatenate([rates, rates]), regions(tolerance))
    assert worse.value == once.value
    assert worse.weights[: once.weights.size].tolist() == once.weights.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_corner_where_everything_is_tied_does_not_make_it_go_round_in_circles(seed):
    rng = np.random.default_rng(seed)
    rates = rng.integers(0, 2, (200, 4, 2)).astype(float)
    gains = rng.integers(0, 3, 200) / 8
    tolerance = np.zeros((4, 2))
    assert best_mixture(gains, rates, regions(tolerance)).value == pytest.approx(
        best_value(gains, rates, tolerance), abs=1e-9
    )


@st.composite
def limited_masters(draw):
    """Masters with ratios, floors and ceilings besides; everybody may be rejected or not."""
    gains, rates, tolerance = draw(answers())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups, kinds = tolerance.shape
    limits = Limits.within(np.full((1, kinds), np.inf), groups)
    for k in range(kinds):
        if draw(st.booleans()):
            limits.ratio[0, k] = draw(st.sampled_from([0.5, 0.8, 1.0]))
            if np.isinf(tolerance[:, k]).all():  # the ratio alone compares; else all compared have the rate's tolerance
                tolerance[:, k] = 1.0
        which = rng.random(groups) < 0.5
        limits.least[0, which, k] = np.round(0.7 * rng.random(which.sum()), 2)
        which = rng.random(groups) < 0.3
        limits.most[0, which, k] = np.round(0.3 + 0.7 * rng.random(which.sum()), 2)
    return gains, rates, tolerance, limits, draw(st.booleans())


def least_excess(gains, rates, tolerance, limits, rejecting):
    """The optimum by HiGHS, or None and by how much some requirement is missed at least."""
    if rejecting:
        gains, rates = np.append(0.0, gains), np.concatenate([np.zeros((1, *rates.shape[1:])), rates])
    rows, ends = [], []
    for k in range(tolerance.shape[1]):
        for a, b in permutations(np.flatnonzero(np.isfinite(tolerance[:, k])), 2):
            rows += [rates[:, a, k] - rates[:, b, k], limits.ratio[0, k] * rates[:, a, k] - rates[:, b, k]]
            ends += [tolerance[a, k], 0.0]
        for a in range(tolerance.shape[0]):
            rows += [-rates[:, a, k], rates[:, a, k]]
            ends += [-max(limits.least[0, a, k], -9.0), min(limits.most[0, a, k], 9.0)]
    one = np.ones((1, gains.size))
    found = linprog(-gains, np.array(rows), np.array(ends) + ROUNDING, one, [1.0], method="highs", options=HIGHS)
    if found.status == 0:
        return -found.fun, 0.0
    elastic = np.column_stack([rows, -np.ones(len(rows))])
    cost, equal = np.append(np.zeros(gains.size), 1.0), np.append(one, [[0.0]], axis=1)
    return None, linprog(cost, elastic, ends, equal, [1.0], method="highs", options=HIGHS).fun


@examples(200)
@given(limited_masters())
def test_ratios_floors_and_ceilings_hold_or_the_mixture_that_misses_them_is_known(master):
    gains, rates, tolerance, limits, rejecting = master
    found = best_mixture(gains, rates, regions(tolerance, limits), rejecting=rejecting)
    best, missed = least_excess(gains, rates, tolerance, limits, rejecting)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    priced = np.append([0.0] if rejecting else [], -np.tensordot(rates, found.prices, 2))
    limits = replace(limits, least=np.maximum(limits.least, 0.0), most=np.minimum(limits.most, 1.0))
    size, region = 1.0 + np.abs(found.prices).sum(), regions(tolerance, limits).support_function(found.prices[None])[0]
    if best is None:
        assert found.value == -np.inf
        assert missed > 0
        assert priced.max() + region < 1e-9 * size  # the prices prove it
    else:
        assert found.value == pytest.approx(best, abs=1e-9) or missed < 1e-9
        priced += np.append([0.0] if rejecting else [], gains)
        assert priced.max() + region == pytest.approx(found.value, abs=1e-9 * size)
