"""What totals tell a site of three: the attack counts rows that are there, and a local tolerance takes it away."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.totals import attacked, generated
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
