"""Intervals, the noise floor and paired comparisons: exact by hand where possible, held to coverage elsewhere."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

import logofair
from logofair.auditing import Measured, audit, compare
from logofair.auditing.chance import TAIL, noise_floor, pair_limits, ratio_limits, share_limits
from logofair.auditing.measure import tally_of
from logofair.columns.labels import encode
from logofair.errors import InputError
from logofair.notions import NOTIONS
from support.examples import examples


def accepted(*cells):
    """Rows of (site, group, rows, accepted), as columns for an audit without labels."""
    sites, groups, decisions = [], [], []
    for site, group, rows, hits in cells:
        sites += [site] * rows
        groups += [group] * rows
        decisions += [1] * hits + [0] * (rows - hits)
    return decisions, {"sensitive_features": groups, "sites": sites}


# ---------------------------------------------------------------- limits


@given(rows=st.integers(1, 200), data=st.data())
@examples(50)
def test_the_limits_of_a_share_are_those_of_clopper_and_pearson(rows, data):
    hits = data.draw(st.integers(0, rows))
    low, high = share_limits(np.array([hits / rows]), np.array([float(rows)]))
    exact = binomtest(hits, rows).proportion_ci(1 - 2 * TAIL, method="exact")
    assert (float(low[0]), float(high[0])) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_a_pair_combines_the_exact_limits_of_its_shares():
    # 40 of 50 and 20 of 40, by hand from the exact limits of both
    first, second = (binomtest(*pair).proportion_ci(0.95, method="exact") for pair in ((40, 50), (20, 40)))
    found = audit_of(("all", "a", 50, 40), ("all", "b", 40, 20)).global_gap
    assert found == pytest.approx(0.3)
    assert found.high == pytest.approx(0.3 + np.hypot(first.high - 0.8, 0.5 - second.low))
    half = 1 - 2 * TAIL / 2  # two ordered pairs could be the worst
    first, second = (binomtest(*pair).proportion_ci(half, method="exact") for pair in ((40, 50), (20, 40)))
    assert found.low == pytest.approx(0.3 - np.hypot(0.8 - first.low, second.high - 0.5))
    assert found.rows == 40


def audit_of(*cells, **options):
    decisions, columns = accepted(*cells)
    return logofair.audit(decisions, None, **columns, **options)


def test_a_largest_gap_is_bounded_by_every_pair_and_not_by_the_largest_found():
    # The largest gap found rests on many rows; a pair on few rows may in truth have a larger one.
    found = audit_of(("a", "F", 400, 100), ("a", "M", 400, 140), ("b", "F", 12, 6), ("b", "M", 12, 6))
    gap = found.local.gap().value
    assert gap == pytest.approx(0.1)
    alone = audit_of(("a", "F", 400, 100), ("a", "M", 400, 140)).local.gap().value
    assert gap.high > 0.4 > alone.high
    assert gap.low < alone.low


@pytest.mark.parametrize(("sites", "groups", "rows"), [(1, 2, 40), (5, 2, 40), (50, 2, 20), (5, 5, 60)])
def test_at_equal_rates_the_lower_limit_of_the_largest_gap_stays_at_zero(sites, groups, rows):
    # Uncorrected limits stay there in 90% with one site and 0.4% with fifty (MATH.md 7).
    rng = np.random.default_rng(sites * groups)
    draws, false_alarms = 300, 0
    people = np.full((1, sites, groups), float(rows))
    tail = np.full((1, sites), TAIL / (sites * groups * (groups - 1)))
    for _ in range(draws):
        shares = rng.binomial(rows, 0.3, size=people.shape) / rows
        false_alarms += np.nanmax(pair_limits(shares, people, tail, upper=False)) > 0
    assert false_alarms <= binom.ppf(0.999, draws, TAIL)


@pytest.mark.parametrize("gap", [0.0, 0.15])
def test_the_upper_limit_of_the_largest_gap_covers_it(gap):
    rng = np.random.default_rng(7)
    draws, missed = 300, 0
    rates = np.full((1, 5, 2), 0.3)
    rates[0, 2, 1] += gap
    people = np.full(rates.shape, 50.0)
    for _ in range(draws):
        shares = rng.binomial(50, rates) / 50
        missed += np.nanmax(pair_limits(shares, people, TAIL, upper=True)) < gap
    assert missed <= binom.ppf(0.999, draws, TAIL)


@pytest.mark.parametrize(("rates", "people"), [((0.4, 0.32), 60), ((0.9, 0.72, 0.8), 40), ((0.05, 0.04, 0.045), 800)])
def test_the_limit_of_the_smallest_ratio_is_below_it(rates, people):
    rng, draws = np.random.default_rng(people), 2000
    shares = rng.binomial(people, rates, size=(draws, len(rates))) / people
    limits = ratio_limits(shares, np.full(shares.shape, float(people)), np.full(draws, 0.05), upper=False)
    assert np.sum(limits > 0.8) <= binom.ppf(0.999, draws, 0.05)
    assert limits.max() > 0.6  # and says something


def test_where_nobody_is_selected_a_ratio_has_no_limit_above_0():
    assert ratio_limits(np.array([0.0, 0.0]), np.array([90.0, 90.0]), 0.05, upper=False) == 0
    assert np.isnan(ratio_limits(np.array([0.2, np.nan]), np.array([90.0, 0.0]), 0.05, upper=False))


def test_a_rate_without_rows_has_no_limits_and_compares_with_nobody():
    found = audit_of(("a", "F", 30, 10), ("a", "M", 30, 12), ("b", "F", 5, 5))
    assert found.by_site[1].gap is None
    assert found.by_site[1].rates["selection rate"]["M"] is None
    assert found.local_gap.high < 0.5  # one group alone at b leaves nothing to compare


# ---------------------------------------------------------------- the noise floor


def test_the_floor_is_what_equal_rates_show_by_chance():
    # Two groups of 1 row each at rate 1/2: the gap is 0 or 1, each with chance 1/2.
    floor = noise_floor(np.array([[[1.0, 0.0]]]), np.ones((1, 1, 2)), ["selection rate"])
    assert floor.mean == pytest.approx(0.5, abs=0.07)
    assert floor.detectable == 1.0
    # Of fifty such sites one at least shows it.
    many = noise_floor(np.tile([[[1.0, 0.0]]], (1, 50, 1)), np.ones((1, 50, 2)), ["selection rate"])
    assert (many.mean, many.detectable) == (1.0, 1.0)
    assert many.by_site == pytest.approx(np.full(50, 0.5), abs=0.1)


def test_the_floor_agrees_with_the_law_of_two_binomials():
    rows, share = 40, 0.3
    law = np.outer(binom.pmf(range(rows + 1), rows, share), binom.pmf(range(rows + 1), rows, share))
    gaps = np.abs(np.subtract.outer(np.arange(rows + 1), np.arange(rows + 1))) / rows
    mean = float((law * gaps).sum())
    floor = noise_floor(np.full((1, 1, 2), share), np.full((1, 1, 2), float(rows)), ["selection rate"])
    assert floor.mean == pytest.approx(mean, abs=0.01)
    order = np.argsort(gaps, axis=None)
    quantile = gaps.ravel()[order][np.searchsorted(np.cumsum(law.ravel()[order]), 0.95)]
    assert floor.detectable == pytest.approx(quantile, abs=0.026)


def test_a_gap_within_chance_is_not_shown():
    found = audit_of(("a", "F", 40, 12), ("a", "M", 40, 16), ("b", "F", 40, 13), ("b", "M", 40, 12))
    gap = found.local.gap()
    assert gap.value.low == 0.0 < gap.value < gap.value.detectable
    assert not gap.shown


def test_where_nobody_is_accepted_chance_still_has_a_floor():
    gap = audit_of(("a", "F", 20, 0), ("a", "M", 20, 0)).global_.gap()
    assert gap.value == 0.0
    assert gap.value.detectable > 0.05


def test_a_gap_above_what_chance_shows_may_still_not_be_shown():
    gap = audit_of(("a", "F", 30, 15), ("a", "M", 30, 23)).global_.gap()
    assert not gap.shown
    assert gap.value > gap.value.detectable


def test_the_floor_of_two_rates_is_no_smaller_than_that_of_either():
    rng = np.random.default_rng(0)
    decisions, label, group, site = (rng.integers(0, 2, 300) for _ in range(4))
    columns = {"sensitive_features": group, "sites": site}
    both, one, other = (
        audit(decisions, label, **columns, notion=name).local.floor
        for name in ("equalized_odds", "equal_opportunity", "predictive_equality")
    )
    assert both.mean >= max(one.mean, other.mean)
    assert both.detectable >= max(one.detectable, other.detectable)


def test_a_small_groups_gap_that_is_shown_is_not_hidden():
    found = audit_of(("a", "F", 4000, 2000), ("a", "M", 4000, 2010), ("a", "X", 24, 0))
    assert found.headline_global == found.global_.gap()
    assert 0.2 <= found.headline_global.value.low < 0.3


def test_the_same_rows_have_the_same_floor():
    cells = ("a", "F", 40, 12), ("a", "M", 40, 16)
    assert audit_of(*cells).as_dict() == audit_of(*cells).as_dict()


# ---------------------------------------------------------------- people and weights


def test_repeated_ids_count_as_one_person():
    decisions, columns = accepted(("a", "F", 30, 10), ("a", "M", 30, 20))
    once = audit(decisions, None, **columns, ids=range(60))
    four = {name: column * 4 for name, column in columns.items()}
    repeated = audit(decisions * 4, None, **four, ids=list(range(60)) * 4)
    blind = audit(decisions * 4, None, **four)
    assert repeated.as_dict()["rates"] == once.as_dict()["rates"]
    assert repeated.global_gap.as_dict() == once.global_gap.as_dict()
    assert blind.global_gap.high < once.global_gap.high


def test_a_person_under_both_labels_is_one_person_in_the_selection_rate():
    group, site, ids = (
        encode(["F", "F", "F", "M"], "groups"),
        encode(["a"] * 4, "sites"),
        encode([1, 1, 2, 1], "ids"),
    )
    tally = tally_of(np.ones(4), np.array([1.0, 0.0, 0.0, 1.0]), None, group, site, ids)
    assert tally.people.tolist() == [[[2, 1, 2], [0, 1, 1]]]
    assert tally.squares.tolist() == [[[2.0, 1.0, 5.0], [0.0, 1.0, 1.0]]]  # person 1 of group F weighs 2 in all


def test_the_same_id_at_two_sites_is_one_person_over_all():
    decisions, columns = accepted(("a", "F", 20, 5), ("a", "M", 20, 5), ("b", "F", 20, 5), ("b", "M", 20, 5))
    found = audit(decisions, None, **columns, ids=list(range(40)) * 2)
    assert found.rates["selection rate"]["F"].rows == 20
    assert [row.rates["selection rate"]["F"].rows for row in found.by_site] == [20, 20]
    alone = audit(decisions[:40], None, sensitive_features=columns["sensitive_features"][:40])
    assert found.global_gap.as_dict() == pytest.approx(alone.global_gap.as_dict())
    assert found.accepted.as_dict() == pytest.approx(alone.accepted.as_dict())


def test_another_rules_decisions_reach_the_people_over_all():
    decisions, columns = accepted(("a", "F", 20, 5), ("a", "M", 20, 9), ("b", "F", 20, 5), ("b", "M", 20, 9))
    ids, group = encode(list(range(40)) * 2, "ids"), encode(columns["sensitive_features"], "groups")
    site = encode(columns["sites"], "sites")
    nobody, somebody = (
        tally_of(np.array(chance, dtype=float), None, None, group, site, ids) for chance in ([0] * 80, decisions)
    )
    assert nobody.accepting(somebody.accepted).merged().accepted.tolist() == somebody.merged().accepted.tolist()


def test_heavy_rows_that_are_accepted_leave_more_to_chance():
    # Weights that go with decisions: by the weights alone the interval holds the truth in 64 of 100 draws.
    rng, held, draws = np.random.default_rng(4), 0, 150
    truth = 0.05 * 5 / (0.05 * 5 + 0.95)
    for _ in range(draws):
        decisions = rng.random(1000) < 0.05
        weights = np.where(decisions, 5.0, 1.0)
        found = audit(decisions, None, sensitive_features=rng.integers(0, 2, 1000), sample_weight=weights)
        rate = found.rates["selection rate"][0]
        held += rate.low <= truth <= rate.high
    assert held >= binom.ppf(0.001, draws, 1 - 2 * TAIL)


def test_unequal_weights_leave_fewer_effective_rows():
    decisions, columns = accepted(("a", "F", 40, 20), ("a", "M", 40, 10))
    equal = audit(decisions, None, **columns, sample_weight=[3.0] * 80)
    plain = audit(decisions, None, **columns)
    assert equal.global_gap.as_dict() == pytest.approx(plain.global_gap.as_dict())
    unequal = audit(decisions, None, **columns, sample_weight=[1.0, 9.0] * 40)
    assert unequal.rates["selection rate"]["F"].rows == 40
    assert unequal.local.effective[0, 0].tolist() == pytest.approx([(20 + 180) ** 2 / (20 + 20 * 81)] * 2)
    assert unequal.global_gap.high - unequal.global_gap > plain.global_gap.high - plain.global_gap


def test_rows_of_weight_zero_are_no_rows_behind_a_rate():
    decisions, columns = accepted(("a", "F", 4, 2), ("a", "M", 4, 2))
    found = audit(decisions, None, **columns, sample_weight=[1, 0, 1, 0] * 2)
    assert found.rates["selection rate"]["F"].rows == 2


# ---------------------------------------------------------------- sites beside a tolerance


def test_nobody_is_called_unfair_for_what_chance_explains():
    # At 40 + 40 rows a gap's standard error is about 0.11: fair sites show large gaps.
    rng = np.random.default_rng(3)
    cells = [(c, g, 40, int(rng.binomial(40, 0.4))) for c in range(47) for g in "FM"]
    found = audit_of(*cells, local_tolerance=0.05).outcomes
    assert (len(found), len(found.where(state="unclear"))) == (47, 47)


def test_clear_cases_are_told_apart():
    cells = [
        ("far", "F", 400, 40),
        ("far", "M", 400, 200),
        ("near", "F", 40_000, 12_000),
        ("near", "M", 40_000, 12_040),
    ]
    found = audit_of(*cells, ("small", "F", 3, 3), ("small", "M", 3, 0), local_tolerance=0.05).outcomes
    assert {each.site: each.state for each in found} == {"far": "exceeded", "near": "met", "small": "unclear"}


def test_a_site_that_cannot_be_measured_is_not_met():
    cells = ("a", "F", 900, 90), ("a", "M", 900, 90), ("b", "F", 900, 90)
    found = audit_of(*cells, local_tolerance=0.2).outcomes
    assert {each.site: each.state for each in found} == {"a": "met", "b": "not measured"}


# ---------------------------------------------------------------- figures


def test_a_measured_figure_is_a_float_and_keeps_what_it_rests_on():
    figure = Measured(0.25, low=0.1, high=0.4, rows=7, floor=0.05, detectable=0.1)
    assert figure + 1 == 1.25
    assert f"{figure:.3f}" == "0.250"
    for same in (copy.copy(figure), copy.deepcopy(figure), pickle.loads(pickle.dumps(figure))):
        assert (same, vars(same)) == (figure, vars(figure))
    assert figure.as_dict() == {"value": 0.25, **vars(figure)}


def test_accuracy_and_the_accepted_share_have_exact_intervals():
    found = audit([1, 1, 0, 0] * 10, [1, 0, 0, 0] * 10, sensitive_features=["a", "b"] * 20)
    exact = binomtest(30, 40).proportion_ci(0.95, method="exact")
    assert (found.accuracy, found.accuracy.low, found.accuracy.high) == pytest.approx((0.75, exact.low, exact.high))
    assert (found.accuracy.rows, found.accepted.rows) == (40, 40)


# ---------------------------------------------------------------- a policy, other rows, two rules


def test_a_policy_may_decide_in_an_audit():
    rng = np.random.default_rng(0)
    sex, score = rng.integers(0, 2, 400), rng.random(400)
    label = rng.random(400) < score
    policy = logofair.fit(score, label, sensitive_features=sex, calibration="none").policy
    found = audit(None, label, sensitive_features=sex, scores=score, policy=policy)
    assert (
        found.accuracy
        == audit(
            policy.probabilities(score, sensitive_features=sex), label, sensitive_features=sex, chances=True
        ).accuracy
    )
    for options, word in (({}, "scores"), ({"scores": score, "decisions": label}, "decisions")):
        decisions = options.pop("decisions", None)
        with pytest.raises(InputError, match=word):
            audit(decisions, label, sensitive_features=sex, policy=policy, **options)


def test_figures_on_the_calibration_rows_say_that_these_chose_the_rule():
    rng = np.random.default_rng(0)
    sex, score = rng.integers(0, 2, 400), rng.random(400)
    label = rng.random(400) < score
    solution = logofair.fit(score, label, sensitive_features=sex)
    assert solution.compared.second.fitted_rows
    tested = solution.test(score[1:], label[1:], sensitive_features=sex[1:]).tested
    assert not tested.second.fitted_rows
    before = solution.policy.unconstrained(score[1:], sensitive_features=sex[1:])
    assert tested.first.accuracy == np.mean(before == label[1:])


@pytest.mark.parametrize("notion", NOTIONS)
def test_a_rule_compared_with_itself_differs_by_nothing(notion):
    rng = np.random.default_rng(5)
    label, group, site = (rng.integers(0, n, 600) for n in (2, 3, 4))
    decisions = rng.integers(0, 2, 600)
    found = compare(decisions, decisions, label, sensitive_features=group, sites=site, notion=notion)
    for figure in (found.accuracy, found.accepted, found.global_gap, found.local_gap):
        assert figure == 0.0
        assert figure.low <= 0.0 <= figure.high
    assert found.global_gap.high < 0.05  # the people are the same, and so are their decisions
    assert found.accuracy.high < 0.01  # nobody of 600 is decided otherwise: at most a few of the next


def test_pairing_narrows_the_interval_of_a_difference():
    rng = np.random.default_rng(1)
    score, group = rng.random(2000), rng.integers(0, 2, 2000)
    label = (rng.random(2000) < score).astype(int)
    found = compare(score >= 0.5, score >= 0.52, label, sensitive_features=group)
    alone = found.first.accuracy.high - found.first.accuracy.low
    assert found.accuracy.high - found.accuracy.low < alone / 2


def test_the_interval_of_a_paired_difference_covers_the_truth():
    rng = np.random.default_rng(11)
    draws, missed = 200, np.zeros(3)
    rates, other = np.array([0.2, 0.5]), np.array([0.3, 0.4])
    for _ in range(draws):
        group, uniform = rng.integers(0, 2, 400), rng.random(400)
        again = np.where(rng.random(400) < 0.8, uniform, rng.random(400))
        label = rng.random(400) < 0.4
        found = compare(uniform < rates[group], again < other[group], label, sensitive_features=group)
        truth = (0.0, 0.0, -0.2)  # accuracy and acceptance stay at a mean rate of 0.35
        for k, figure in enumerate((found.accuracy, found.accepted, found.global_gap)):
            missed[k] += not figure.low <= truth[k] <= figure.high
    assert (missed <= binom.ppf(0.999, draws, 2 * TAIL)).all()


def test_rows_of_one_person_are_no_more_sure_together_than_alone():
    rng = np.random.default_rng(2)
    before, after, group, label = (rng.integers(0, 2, 200) for _ in range(4))
    once = compare(before, after, label, sensitive_features=group, ids=range(200))
    columns = [np.tile(column, 3) for column in (before, after, label)]
    three = compare(*columns, sensitive_features=np.tile(group, 3), ids=np.tile(np.arange(200), 3))
    for name in ("accuracy", "accepted", "global_gap"):
        assert getattr(three, name).as_dict() == pytest.approx(getattr(once, name).as_dict())


def test_a_comparison_without_labels_has_no_accuracy():
    found = compare([1, 0], [0, 0], None, sensitive_features=["a", "b"])
    assert found.accuracy is None
    assert found.as_dict()["accuracy"] is None
    assert found.global_gap == -1.0


@pytest.mark.parametrize(
    "shares", [[0.5, 0.5, 0.5], [0.5, 0.5, np.nan], [np.nan, 0.5, 0.5], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0]]
)
@pytest.mark.parametrize("gap", [0.0, 0.1, 1.0])
def test_on_very_many_rows_the_floor_of_a_rule_with_a_gap_is_that_gap(shares, gap):
    floor = noise_floor(np.array([[shares]]), np.full((1, 1, 3), 1e8), ["selection rate"], gap)
    assert floor.mean == pytest.approx(gap, abs=1e-3)  # whichever groups the site has, however few are accepted


@pytest.mark.parametrize("weight", [1e-158, 5e-162, 1e-300])
def test_no_more_people_count_than_there_are_however_small_their_weights(weight):
    weights = [1.0, 1.0, weight, 0.37 * weight, 0.9 * weight]
    found = audit([1, 0, 1, 0, 1], None, sensitive_features=["a", "a", "b", "b", "b"], sample_weight=weights)
    assert np.all(found.local.effective <= [2, 3])
