"""The noise is as wide as the accountant says, and the accountant agrees with formulas of our own."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from logofair.federation.privacy import Privacy, add_noise, smallest_scale

SENSITIVITIES = {"add-remove": 1.0, "replace": math.sqrt(2.0)}
# How far the data sets' counts lie apart, in the bins that differ.
STEPS = {"add-remove": [1], "replace": [-1, 1]}


def analytic_epsilon(scale, delta, sensitivity):
    """Epsilon of the continuous Gaussian mechanism (Balle and Wang, 2018, theorem 8), in logarithms."""

    def excess(epsilon):
        near, far = sensitivity / (2 * scale), epsilon * scale / sensitivity
        return norm.cdf(near - far) - math.exp(epsilon + norm.logcdf(-near - far)) - delta

    return brentq(excess, 1e-9, 200.0)


def exact_delta(scale, epsilon, steps):
    """Delta of the discrete Gaussian mechanism by summing over all outcomes of the bins that differ."""
    values = np.arange(-int(25 * scale) - 3, int(25 * scale) + 4)
    density = np.exp(-0.5 * (values / scale) ** 2)
    density /= density.sum()
    here, there = np.ones(1), np.ones(1)
    for step in steps:
        shifted = np.interp(values - step, values, density, left=0.0, right=0.0)
        here, there = np.multiply.outer(here, density).ravel(), np.multiply.outer(there, shifted).ravel()
    return float(np.maximum(here - math.exp(epsilon) * there, 0.0).sum())


@pytest.mark.parametrize("neighbours", SENSITIVITIES)
@pytest.mark.parametrize("delta", [1e-4, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_accountant_matches_the_analytic_gaussian_mechanism(epsilon, delta, neighbours):
    scale, spent, _ = smallest_scale(Privacy(epsilon, delta, neighbours))
    tight = analytic_epsilon(scale, delta, SENSITIVITIES[neighbours])
    # The library goes by way of concentrated privacy: dearer the larger delta is, and never too cheap.
    assert tight <= spent <= epsilon
    assert spent <= (1.16 if delta > 1e-6 else 1.1) * tight


@pytest.mark.parametrize("neighbours", SENSITIVITIES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_the_whole_number_noise_keeps_its_promise_summed_over_all_outcomes(epsilon, neighbours):
    scale, spent, _ = smallest_scale(Privacy(epsilon, 1e-6, neighbours))
    assert exact_delta(scale, spent, STEPS[neighbours]) <= 1e-6
    assert exact_delta(scale / 1.5, spent, STEPS[neighbours]) > 1e-6  # the sum would notice


def shares_above(noised, thresholds):
    ordered = np.sort(noised)
    return 1.0 - np.searchsorted(ordered, thresholds) / ordered.size


def distinguishes(scale, epsilon, delta, samples=20_000):
    """Whether some event tells the two neighbours' releases apart better than (epsilon, delta) allows.

    The difference of the two bins that change is sufficient for the pair; slack of six standard errors.
    """
    zeros = np.zeros(samples, dtype=np.int64)
    here = add_noise(zeros, scale) - add_noise(zeros, scale)
    there = add_noise(zeros + 1, scale) - add_noise(zeros - 1, scale)
    thresholds = np.arange(-6 * scale, 6 * scale)
    for first, second in ((here, there), (there, here), (-here, -there), (-there, -here)):
        p, q = shares_above(first, thresholds), shares_above(second, thresholds)
        error = 6 * (np.sqrt(p / samples) + math.exp(epsilon) * np.sqrt(q / samples) + 1 / samples)
        if np.any(p > math.exp(epsilon) * q + delta + error):
            return True
    return False


def test_nobody_tells_neighbouring_releases_apart_beyond_epsilon():
    scale, _, _ = smallest_scale(Privacy(0.5, 1e-3))
    assert not distinguishes(scale, 0.5, 1e-3)


def test_the_same_experiment_convicts_noise_that_is_too_narrow():
    scale, _, _ = smallest_scale(Privacy(0.5, 1e-3))
    assert distinguishes(scale / 4, 0.5, 1e-3)


@pytest.mark.parametrize("scale", [0.8, 6.4, 55.8])
@pytest.mark.parametrize("draw", [add_noise, partial(add_noise, random_state=0)])
def test_noise_is_whole_centred_and_as_wide_as_stated(draw, scale):
    samples = 20_000
    noise = draw(np.full((4, samples // 4), 7, dtype=np.int64), scale) - 7
    assert noise.dtype == np.int64
    assert noise.shape == (4, samples // 4)
    assert abs(noise.mean()) < 6 * scale / math.sqrt(samples)
    values = np.arange(-400, 401)
    density = np.exp(-0.5 * (values / scale) ** 2)
    width = math.sqrt((values**2 * density).sum() / density.sum())
    assert noise.std() == pytest.approx(width, rel=6 / math.sqrt(samples))


def test_seeded_noise_depends_on_its_seed_alone():
    counts = np.zeros(100, dtype=np.int64)
    one, same, other = (add_noise(counts, 5.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.any(one != other)
