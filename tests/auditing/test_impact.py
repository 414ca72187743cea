"""Selection rates and impact ratios by category: hand-computed cases, limits that cover, what is undefined."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

import logofair
from logofair.auditing import impact_ratios
from logofair.auditing.chance import TAIL, quotient_limits, ratio_floor
from logofair.errors import InputError


def ratios(found, table=0):
    return {each.name: None if each.ratio is None else float(each.ratio) for each in found.tables[table].categories}


def test_rates_and_ratios_of_every_column_and_of_their_intersection_by_hand():
    #                 F/A: 1 of 2    F/B: 0 of 2   M/A: 2 of 2   M/B: 1 of 4
    decisions = [1, 0, 0, 0, 1, 1, 1, 0, 0, 0]
    sex, race = ["F"] * 4 + ["M"] * 6, ["A", "A", "B", "B", "A", "A", "B", "B", "B", "B"]
    found = impact_ratios(decisions, categories={"sex": sex, "race": race})
    assert [table.by for table in found.tables] == [("sex",), ("race",), ("sex", "race")]
    assert ratios(found, 0) == {("F",): 0.5, ("M",): 1.0}  # 1/4 against 3/6
    assert ratios(found, 1) == pytest.approx({("A",): 1.0, ("B",): (1 / 6) / (3 / 4)})
    assert ratios(found, 2) == {("F", "A"): 0.5, ("F", "B"): 0.0, ("M", "A"): 1.0, ("M", "B"): 0.25}
    assert [each.people for each in found.tables[2].categories] == [2, 2, 2, 4]
    assert all(table.unknown == 0 for table in found.tables)


def test_people_of_unknown_category_are_counted_once_for_each_table_and_are_in_none():
    sex = ["F", None, "M", float("nan"), "M"]
    race = ["A", "A", None, None, "B"]
    found = impact_ratios([1, 1, 1, 0, 0], categories={"sex": sex, "race": race})
    assert [table.unknown for table in found.tables] == [2, 2, 3]
    assert found.people == 5
    assert ratios(found, 0) == {("F",): 1.0, ("M",): 0.5}
    assert ratios(found, 1) == {("A",): 1.0, ("B",): 0.0}
    assert [each.name for each in found.tables[2].categories] == [("F", "A"), ("M", "B")]


@pytest.mark.parametrize(
    ("decisions", "sex", "why"),
    [
        ([0, 0, 0], ["F", "F", "M"], "nobody selected"),
        ([1, 0, 1], ["F", "F", "F"], "fewer than two rates"),
        ([1, 0, 1], [None, None, None], "no categories"),
    ],
)
def test_a_ratio_that_is_undefined_is_none_with_a_reason(decisions, sex, why):
    (table,) = impact_ratios(decisions, categories={"sex": sex}).tables
    assert all(each.ratio is None for each in table.categories)
    assert table.floor is None
    assert why == table.why_no_ratio


def test_categories_below_two_percent_are_marked_and_ratios_stand_without_them_too():
    sex = ["M"] * 100 + ["F"] * 99 + ["X"]  # X: 0.5 %, all selected
    decisions = [1] * 50 + [0] * 50 + [1] * 33 + [0] * 66 + [1]
    (table,) = impact_ratios(decisions, categories={"sex": sex}).tables
    by_name = {each.name[0]: each for each in table.categories}
    assert [name for name, each in by_name.items() if each.small] == ["X"]
    assert (float(by_name["M"].ratio), float(by_name["M"].ratio_of_large)) == (0.5, 1.0)
    assert float(by_name["F"].ratio_of_large) == pytest.approx(2 / 3)
    assert by_name["X"].ratio_of_large is None
    exactly = impact_ratios([1] * 100, categories={"sex": ["a"] * 2 + ["b"] * 98}).tables[0]
    assert not exactly.small  # 2 % is not below 2 %


def test_rates_are_those_of_an_audit_with_weights_and_ids():
    rng = np.random.default_rng(0)
    sex, decisions = rng.choice(["F", "M"], 300), rng.integers(0, 2, 300)
    weights, ids = rng.random(300), rng.integers(0, 150, 300)
    found = impact_ratios(decisions, categories={"sex": sex}, sample_weight=weights, ids=ids).tables[0]
    audit = logofair.audit(decisions, None, sensitive_features=sex, sample_weight=weights, ids=ids)
    for category in found.categories:
        expected = audit.rates["selection rate"][category.name[0]]
        assert category.rate == pytest.approx(expected)
        assert (category.rate.low, category.rate.high) == pytest.approx((expected.low, expected.high))
        assert category.rate.rows == expected.rows == category.people
    assert found.gap.value == pytest.approx(audit.global_gap)


def test_names_of_columns_may_be_anything():
    found = impact_ratios([1, 0], categories={"n": ["a", "b"], "ids": ["c", "d"]})
    assert [table.by for table in found.tables] == [("n",), ("ids",), ("n", "ids")]


def test_bad_columns_are_refused():
    with pytest.raises(InputError, match="categories 'sex': has 1 rows"):
        impact_ratios([1, 0], categories={"sex": ["F"]})
    with pytest.raises(InputError, match="categories: pass a mapping"):
        impact_ratios([1, 0], categories={})


def test_limits_of_ratios_to_the_largest_cover_the_truth_by_every_outcome_weighed():
    sizes = np.array([6, 8, 9])
    outcomes = np.array(list(itertools.product(*(range(n + 1) for n in sizes))))
    limits = np.array([limits_of_ratios(hits, sizes) for hits in outcomes])
    for chances in ((0.5, 0.5, 0.5), (0.2, 0.25, 0.3), (0.05, 0.6, 0.5), (0.9, 0.9, 0.4), (0.1, 0.02, 0.1)):
        true = np.array(chances) / max(chances)
        weight = binom.pmf(outcomes, sizes, chances).prod(axis=1)
        missed = (limits[:, 0] > true + 1e-12) | (limits[:, 1] < true - 1e-12)
        assert (weight @ missed <= 0.05).all()


def limits_of_ratios(hits, sizes):
    """Both ends of the interval of every category's ratio; where nobody is selected it may be anything."""
    rows = [(f"category {c}", row < hits[c]) for c, size in enumerate(sizes) for row in range(size)]
    sex, decisions = zip(*rows, strict=True)
    (table,) = impact_ratios(decisions, categories={"sex": sex}).tables
    ratios = [each.ratio for each in table.categories]
    return [
        [0.0 if each is None else each.low for each in ratios],
        [1.0 if each is None else each.high for each in ratios],
    ]


def test_a_ratio_of_many_people_has_the_limits_of_large_samples():
    shares, people = np.array([0.4, 0.5]), np.array([4e5, 4e5])
    low, high = (quotient_limits(shares, people, TAIL, upper=upper) for upper in (False, True))
    error = np.sqrt(0.6 / (0.4 * 4e5) + 0.5 / (0.5 * 4e5))  # of the logarithm (Katz 1978)
    assert np.array([low[0], high[0]]) == pytest.approx(0.8 * np.exp([-1.96 * error, 1.96 * error]), abs=1e-4)


def test_the_smallest_ratio_by_chance_is_that_of_all_outcomes_weighed():
    sizes, shares = np.array([20.0, 30.0]), np.array([0.4, 0.6])
    chance = (0.4 * 20 + 0.6 * 30 + 1) / 52
    hits = np.array(list(itertools.product(range(21), range(31))))[1:]  # all but nobody
    ratio = (hits / sizes).min(axis=1) / (hits / sizes).max(axis=1)
    weight = binom.pmf(hits, sizes, chance).prod(axis=1)
    mean, detectable = ratio_floor(shares, sizes, "selection rate")
    assert mean == pytest.approx(np.average(ratio, weights=weight), abs=0.02)
    order = np.argsort(ratio)
    quantile = ratio[order][np.searchsorted(np.cumsum(weight[order]), 0.05)]
    assert detectable == pytest.approx(quantile, abs=0.04)
    assert np.isnan(ratio_floor(np.array([0.4, np.nan]), sizes, "selection rate")).all()


def test_a_page_shows_every_table_and_says_why_there_is_no_ratio():
    found = impact_ratios([0, 0, 0, 0], categories={"sex": ["F", "M", "F", None], "race": ["A", "B", "B", "A"]})
    first, everything = found.summary(), found.summary(verbose=True)
    assert first.startswith("Impact ratios: 4 people.")
    assert "1 person of unknown category; no ratio: nobody is selected in any category." in first
    assert all(f"by {by}" in everything for by in ("sex", "race", "sex and race"))
    assert repr(found) == first
