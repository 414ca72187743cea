"""What totals tell a site of three: the attack counts rows that are there, and a local tolerance takes it away."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.totals import attacked, attacked_steps, generated, slow_steps
from logofair.federation import make_plan

pytestmark = pytest.mark.tool


@pytest.mark.parametrize("allies", [1, 2])
def test_between_two_cuts_lie_as_many_rows_of_the_others_as_the_totals_say(allies):
    sites = generated(60, np.random.default_rng(1))
    plan = make_plan(groups=[0, 1], local_tolerance=None, calibration="none", pooling="none", secure=True)
    seen = attacked(sites, plan, allies)
    others = [sites[site] for site in "abc"[allies:]]
    for group, low, high, rows in seen.intervals:
        there = [np.sum((each.groups == group) & (each.scores > low) & (each.scores < high)) for each in others]
        assert abs(rows - sum(there)) <= 1  # a row on a cut may count on either side
    assert seen.alone() > 0  # the attack is a real one, and docs/THREATS.md says so
    assert seen.prices <= plan.most_prices


def test_a_plan_can_ask_for_more_than_usual_and_most_prices_says_so():
    sites = generated(300, np.random.default_rng(0))
    plans = [
        make_plan(groups=[0, 1], local_tolerance=None, calibration="none", pooling="none", secure=True, trials=trials)
        for trials in (0, 1000)
    ]
    usual, many = (attacked(sites, plan) for plan in plans)
    assert usual.alone(0.1) < many.alone(0.1)
    assert plans[0].most_prices < 2000 < plans[1].most_prices
    steps = slow_steps(300)
    assert attacked_steps(sites, steps) > usual.alone(0.1)
    assert steps.most_prices == 301
