"""What totals tell a site of three: the attack counts rows that are there, and a local tolerance takes it away."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.totals import (
    attacked,
    attacked_bins,
    attacked_folds,
    attacked_points,
    attacked_steps,
    counted_folds,
    fixed_by_calibration,
    generated,
    slow_steps,
    sums_of_few_rows,
    with_small_group,
)
from logofair.errors import InputError
from logofair.federation import make_plan
from logofair.federation.exchanges import calibrating

pytestmark = pytest.mark.tool


@pytest.mark.parametrize("allies", [(0,), (2,), (0, 1)])
def test_between_two_cuts_lie_as_many_rows_of_the_others_as_the_totals_say(allies):
    sites = generated(60, np.random.default_rng(1))
    plan = make_plan(groups=[0, 1], global_tolerance=0.02, calibration="none", secure=True)
    seen = attacked(sites, plan, allies)
    others = [each for number, each in enumerate(sites.values()) if number not in allies]
    for group, low, high, rows in seen.intervals:
        there = [
            np.sum((each.sensitive_features == group) & (each.scores > low) & (each.scores < high)) for each in others
        ]
        assert abs(rows - sum(there)) <= 1  # a row on a cut may count on either side
    assert seen.alone() > 0  # the attack is a real one, and docs/THREATS.md says so
    assert seen.prices <= plan.most_prices


def test_a_plan_can_ask_for_more_than_usual_and_most_prices_says_so():
    sites = generated(300, np.random.default_rng(0))
    plans = [
        make_plan(groups=[0, 1], global_tolerance=0.02, calibration="none", secure=True, trials=trials)
        for trials in (0, 1000)
    ]
    usual, many = (attacked(sites, plan) for plan in plans)
    assert usual.alone(0.1) < many.alone(0.1)
    assert plans[0].most_prices < 2000 < plans[1].most_prices
    steps = slow_steps(300)
    assert attacked_steps(sites, steps) > usual.alone(0.1)
    assert steps.most_prices == 301


def test_a_site_that_lies_in_its_answers_reads_more_the_longer_it_keeps_a_run_going():
    sites, free = generated(300, np.random.default_rng(0)), {"global_tolerance": 0.02, "calibration": "none"}
    plans = [make_plan(groups=[0, 1], secure=True, **free, rounds=rounds) for rounds in (None, 60)]
    usual, long = (attacked(sites, plan, lies=np.random.default_rng(0)) for plan in plans)
    assert attacked(sites, plans[0]).prices < usual.prices <= plans[0].most_prices < long.prices
    assert usual.alone(0.1) < long.alone(0.1)  # the attack is a real one


LOOKERS = [(), (0,), (1,), (2,)]


@pytest.mark.parametrize("small", [6, 8, 10])
def test_ten_numbers_a_fold_told_every_row_of_a_small_group_and_are_not_sent_any_more(small):
    """By the server alone, and by each of three sites that takes its own numbers off."""
    sites = with_small_group(400, small, np.random.default_rng(0))
    before = make_plan(groups=[0, 1], pooling="none")  # the totals of a secure plan, which would not send them
    with sums_of_few_rows():
        read = [attacked_folds(sites, before, allies) for allies in LOOKERS]
    assert [known for known, _ in read] == [of for _, of in read]  # the attack is a real one: every row
    assert [of for _, of in read] == [3 * small, *[2 * small] * 3]
    for plan in (before, make_plan(groups=[0, 1], secure=True)):
        assert [attacked_folds(sites, plan, allies)[0] for allies in LOOKERS] == [0] * 4


def test_a_site_that_has_a_group_nearly_alone_reads_nothing_of_the_others():
    """The group is large, and its own numbers taken off, the sums are those of a few rows."""
    few, many = (with_small_group(400, n, np.random.default_rng(1)) for n in (8, 700))
    sites = {**few, "a": many["a"]}
    before = make_plan(groups=[0, 1], pooling="none")
    with sums_of_few_rows():
        assert attacked_folds({**few, "a": with_small_group(2000, 700, np.random.default_rng(1))["a"]}, before, (0,))[0]
    for plan in (before, make_plan(groups=[0, 1], secure=True)):
        assert attacked_folds(sites, plan, (0,))[0] == 0


def test_a_site_that_claims_many_rows_read_all_of_the_others_and_reads_none_any_more():
    sites = with_small_group(400, 15, np.random.default_rng(9))  # both labels in each fold, everywhere
    plan = make_plan(groups=[0, 1], secure=True)
    with counted_folds():
        assert attacked_folds(sites, plan, (2,)) == (0, 30)
        assert attacked_folds(sites, plan, (2,), claimed=500.0) == (30, 30)
    assert attacked_folds(sites, plan, (2,), claimed=500.0) == (0, 30)


def test_a_site_that_chooses_by_lies_where_others_are_summed_reads_little_in_the_rounds_there_are(monkeypatch):
    sites, plan = generated(1000, np.random.default_rng(0)), make_plan(groups=[0, 1], secure=True)
    now, _ = attacked_points(sites, plan)
    monkeypatch.setattr(calibrating, "MOST_ROUNDS", 60)
    before, _ = attacked_points(sites, plan)
    assert now <= 2
    assert before > 10  # the attack is a real one


def test_all_sums_of_calibration_together_fix_few_scores_and_of_few_rows_none_are_sent():
    plan = make_plan(groups=[0, 1], secure=True)
    known, of = fixed_by_calibration(with_small_group(400, 170, np.random.default_rng(0)), plan, 0.1)
    assert 0 < known < 0.05 * of
    assert fixed_by_calibration(with_small_group(400, 15, np.random.default_rng(9)), plan, 0.1) == (0, 30)


def test_histograms_for_pooling_hold_rows_alone_which_is_why_secure_sums_refuse_them():
    sites = generated(300, np.random.default_rng(0))
    plan = make_plan(groups=[0, 1], calibration="none", pooling="full")
    assert min(attacked_bins(sites, plan, (site,)) for site in range(3)) > 60
    with pytest.raises(InputError, match="hold single rows alone in their bins"):
        make_plan(groups=[0, 1], calibration="none", pooling="full", secure=True)
