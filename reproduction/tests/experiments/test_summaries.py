"""Records over their seeds, against figures computed by hand and by scipy; and the paper's figures beside them."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from logofair_reproduction.experiments.summaries import (
    differences,
    intervals,
    lines,
    measured,
    over_seeds,
    paper_figures,
)
from made.results import records


def summary(values):
    found = over_seeds(pl.DataFrame({"of": "a", "value": values}, schema={"of": pl.String, "value": pl.Float64}), "of")
    return found.row(0, named=True) if found.height else None


def test_an_interval_and_its_p_are_those_computed_by_hand():
    found = summary([0.01, 0.02, 0.03])
    # Standard deviation 0.01; the mean's variance is 1/3 + 0.3/0.7 of it (Nadeau and Bengio), and Student's t of 2
    # degrees of freedom reaches 4.3027; its two-sided p has the closed form below.
    error = 0.01 * math.sqrt(1 / 3 + 3 / 7)
    assert (found["low"], found["high"]) == pytest.approx((0.02 - 4.3027 * error, 0.02 + 4.3027 * error), abs=1e-6)
    statistic = 0.02 / error
    assert found["p"] == pytest.approx(1 - statistic / math.sqrt(statistic**2 + 2))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20).filter(lambda values: np.std(values) > 1e-6))
def test_without_the_share_tested_the_interval_would_be_scipys(values):
    found, plain = summary(values), stats.ttest_1samp(values, 0.0)
    n = len(values)
    wider = math.sqrt((1 / n + 0.3 / 0.7) * n)
    scipys = plain.confidence_interval(0.95)
    assert found["high"] - found["mean"] == pytest.approx(wider * (scipys.high - scipys.low) / 2)
    assert found["p"] == pytest.approx(2 * stats.t.sf(abs(plain.statistic) / wider, n - 1))


def test_intervals_of_several_comparisons_are_wider_and_one_is_as_it_was():
    found = over_seeds(pl.DataFrame({"of": "a", "value": [0.01, 0.02, 0.04, 0.03, 0.02]}), "of")
    alone, among = (intervals(found, number).row(0, named=True) for number in (1, 5))
    assert alone["high"] == pytest.approx(found["high"][0])
    # Tables of Student's t of 4 degrees of freedom: 2.776 leaves 2.5 %, 4.604 leaves 0.5 %.
    assert (among["high"] - among["mean"]) / (alone["high"] - alone["mean"]) == pytest.approx(4.604 / 2.776, abs=1e-3)


def test_one_seed_has_no_interval_and_an_undefined_figure_no_summary():
    single = summary([0.8])
    assert (single["mean"], single["low"], single["high"], single["p"], single["runs"]) == (0.8, None, None, None, 1)
    assert summary([None, None]) is None
    some = summary([0.01, -0.02, None, 0.04])
    assert (some["runs"], some["seeds"], some["alike"]) == (3, 4, 2)


def test_figures_that_never_vary_have_p_1_at_0_and_0_elsewhere():
    assert [summary([value] * 4)["p"] for value in (0.0, 0.25)] == [1.0, 0.0]


def test_no_mean_mixes_records_made_with_other_settings():
    old = records("fedfb", {"accuracy": [0.5, 0.5, 0.5]}, plan="old")
    new = records("fedfb", {"accuracy": [0.8, 0.9]}, plan="new")
    (row,) = lines(measured([*old, *new])).iter_rows(named=True)
    assert (row["mean"], row["runs"], row["seeds"]) == (pytest.approx(0.85), 2, 2)


def test_the_interval_of_a_gap_ends_at_0_and_that_of_a_difference_does_not():
    wide = {"local_gap": [0.0, 0.01, 0.02], "accuracy": [0.0, 0.01, 0.02]}
    found = measured([*records("logofair_lg", wide), *records("fedfb", {name: [0.0] * 3 for name in wide})])
    low = {row["figure"]: row["low"] for row in lines(found).iter_rows(named=True) if row["method"] == "logofair_lg"}
    assert (low["local_gap"], low["accuracy"]) == pytest.approx((0.0, -0.0276), abs=1e-4)
    apart = differences(found, "logofair_lg", "fedfb", "local_gap")
    assert apart["low"][0] == pytest.approx(-0.0276, abs=1e-4)


def test_methods_are_compared_split_by_split_at_the_same_place():
    one = [each for alpha in (0.5, 5.0) for each in records("fedfb", {"accuracy": [0.8, 0.9, None]}, alpha=alpha)]
    other = records("fedavg", {"accuracy": [0.7, 0.75, 0.8]}, alpha=5.0)
    (row,) = differences(measured([*one, *other]), "fedfb", "fedavg", "accuracy").iter_rows(named=True)
    assert (row["alpha"], row["mean"], row["runs"], row["seeds"]) == (5.0, pytest.approx(0.125), 2, 3)


def doubts(**place):
    found = paper_figures().filter(
        *(pl.col(name) == value for name, value in place.items()), pl.col("doubt").is_not_null()
    )
    return dict(found.select("figure", "doubt").rows())


def test_columns_of_the_paper_that_differ_by_one_amount_are_found_by_rule():
    place = {"experiment": "sensitivity_dp", "method": "logofair_lg"}
    celeba = doubts(**place, data="celeba", at="0, 0.02")
    assert set(celeba) == {"accuracy", "local_gap", "global_gap"}
    assert celeba["accuracy"] == "differs from enem's by 0.16 in 6 of 9 rows"
    assert not doubts(**place, data="adult", at="0, 0.02")
    assert not doubts(**place, data="celeba", at="0, 0")


def test_figures_that_are_the_same_for_both_notions_are_no_targets_but_for_accuracy_without_requirements():
    fairfed = doubts(experiment="comparison_dp", method="fairfed", data="adult", at="100")
    assert set(fairfed) == {"local_gap", "global_gap"}
    assert "same for both notions" in fairfed["local_gap"]
    assert not doubts(experiment="comparison_dp", method="fedavg", data="adult", at="0.5")
