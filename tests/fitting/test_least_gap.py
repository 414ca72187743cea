"""The smallest factor on the limits of gaps, against a program over rows at it and a step below it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import logofair
from logofair import InfeasibleError, InputError
from logofair.notions import KNOWN_RATES
from logofair.requirement import TODAY, Requirement
from support.required import Required

STEP = 1e-4


def drawn(seed: int) -> Required:
    """A random problem with limits on gaps, on a loss, and perhaps others."""
    rng = np.random.default_rng(seed)
    found = Required.spoken(seed, forms=9)
    others = [item for item in found.items if not item.is_loss_inside][: int(rng.integers(3))]
    rate, loss = rng.choice(list(KNOWN_RATES)), "accuracy" if found.costs is None else "cost"
    texts = [
        f"{rate} gap <= {rng.choice([0.02, 0.05, 0.1])} overall",
        f"{loss} loss <= {0.1 * rng.random():.3f} overall",
        *([f"{rate} gap <= 0.1 per site"] if rng.random() < 0.5 else []),
    ]
    return replace(found, items=list(dict.fromkeys([*map(Requirement.parse, texts), *others])))


def at(required: Required, factor: float, giving: float = 0.0) -> bool:
    """Whether some rule meets everything, but for an amount, with the limits on gaps multiplied."""
    items = [
        replace(item, bound=min(item.bound * factor, 0.99)) if item.measure == "gap" and item.bound != TODAY else item
        for item in required.items
    ]
    return replace(required, items=items).possible(items, dict.fromkeys(items, giving))


def check(required: Required) -> bool:
    """Fit and compare with the program; whether there is a factor."""
    try:
        solution = logofair.fit(required.chances, None, objective="gap", **required.arguments())
    except InfeasibleError:
        assert not at(required, 1e3)
        return False
    found = solution.least_gap
    assert solution.certificate.holds
    assert at(required, found.factor + 1e-6, giving=1e-9)  # which a certificate lets pass
    assert found.below is None or (found.below == pytest.approx(found.factor - STEP) and "conflict" in found.proof)
    assert found.below is None or not at(required, found.below - 1e-6)
    return True


def test_no_smaller_factor_would_do_by_a_program_over_rows():
    assert sum(check(drawn(seed)) for seed in (*range(12), 1500031)) > 5  # a loss missed by 9e-10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_no_smaller_factor_would_do_in_many_problems(first):
    assert sum(check(drawn(seed)) for seed in range(first, first + 100)) > 50


def columns(n=1500):
    rng = np.random.default_rng(0)
    sex, site = rng.choice(["F", "M"], n), rng.choice(["north", "south"], n)
    score = rng.beta(1 + (sex == "M"), 2)
    return score, (rng.random(n) < score).astype(int), {"sensitive_features": sex, "sites": site, "random_state": 0}


def test_the_solution_keeps_the_scaled_limits_at_the_cost_allowed_and_says_so():
    score, label, given = columns()
    limits = {"local_tolerance": 0.2, "global_tolerance": 0.1}
    dear = logofair.fit(score, label, objective="gap", require="accuracy loss <= 0.005 overall", **limits, **given)
    cheap = logofair.fit(score, label, objective="gap", require="accuracy loss <= 0.01 overall", **limits, **given)
    assert dear.least_gap.factor > cheap.least_gap.factor > 0
    local, over_all, loss = cheap.requirements.items
    assert (local.bound, over_all.bound) == pytest.approx((0.2 * cheap.least_gap.factor, 0.1 * cheap.least_gap.factor))
    assert str(loss) == "accuracy loss <= 0.01 overall"
    (lost,) = (each.after for each in cheap.proved if each.requirement.is_loss)
    assert lost == pytest.approx(0.01, abs=1e-5)
    assert "the smallest possible" in " ".join(cheap.summary().split())
    free = logofair.fit(score, label, objective="gap", require="accuracy loss <= 0.5 overall", **limits, **given)
    assert (free.least_gap.factor, free.least_gap.below) == (0.0, None)
    assert logofair.fit(score, label, **limits, **given).as_dict()["least_gap"] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "gaps"}, "objective: got 'gaps'.* use one of accuracy, gap"),
        ({}, "needs to know what it may cost; require 'accuracy loss <= 0.01 overall'"),
        ({"costs": (1, 3)}, "require 'cost loss <= 0.01 overall'"),
        ({"require": "accuracy loss <= 0.1 per site"}, "require the loss overall, or 'from unconstrained'"),
        ({"require": "accuracy loss <= 0.1 overall"}, "pass notion= or a tolerance"),
        ({"require": "accuracy loss <= 0.1 overall", "local_tolerance": 0.0}, "which are all 0"),
        (
            {"require": "accuracy loss <= 0.1 overall", "local_tolerance": 0.1, "confidence": 0.9},
            "chooses the limits by all rows",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(given, said):
    score, label, own = columns(200)
    with pytest.raises(InputError, match=said):
        logofair.fit(score, label, **({"objective": "gap"} | given), **own)
