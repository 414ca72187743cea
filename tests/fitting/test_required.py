"""Ratios, floors, ceilings, capacities and costs against a program over rows that knows nothing of cells."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import logofair
from logofair import InfeasibleError, InputError
from logofair.requirement import Requirement
from logofair.solvers import decomposition
from support.examples import examples
from support.required import Required
from support.sentences import asking


def check_proof(required: Required, error: InfeasibleError) -> None:
    """Those named cannot be met together, all but one of them can, and each has to give way by just so much."""
    own = [item for item in required.items if not item.is_loss and not item.scope.is_global]
    held = set(own) if any(item.is_loss_inside for item in required.items) else set()
    few = set(error.conflict)
    if few & held:  # sites cannot do what they require of themselves, whatever they may lose
        required, held = replace(required, items=own), set()
    every = required.binding()
    # Where chances are extreme a program is exact to 1e-7 at best, which a price of millions makes any amount.
    rounding = dict.fromkeys(every, 1e-7 if required.extreme else 0.0)
    assert few <= every
    # Beside losses against what sites can do by themselves, what these require of themselves is held.
    assert not required.possible(few | held)
    # Precision of next to nobody is met but for rounding: what has to give way is then less exact.
    steep = required.extreme or any(item.measure == "precision" for item in every)
    for item in few:
        assert any(required.possible((few - {item}) | held, giving) for giving in (rounding, {}))
        amount, step = error.least_relaxation[item], 1e-4 if steep else 1e-6
        if amount is None:
            assert not required.possible(every - {item})
        else:
            # HiGHS has taken what a rule meets that gives way once for impossible where all else gives way as well.
            assert any(required.possible(every, more | {item: amount + step}) for more in (rounding, {}))
            assert amount <= step or required.extreme or not required.possible(every, {item: amount - step})


def check(required: Required) -> bool:
    """Fit a random problem and compare with its program; whether it can be met."""
    try:
        solution = logofair.fit(required.chances, None, **required.arguments())
    except InfeasibleError as conflict:
        assert required.least_cost() is None
        check_proof(required, conflict)
        return False
    found, rounding = solution.certificate, 2e-6 * required.dearest
    cost, bound = (each if required.costs else 1.0 - each for each in (found.primal, found.dual))
    assert found.holds
    columns = {name: required.arguments()[name] for name in ("sensitive_features", "sites")}
    accepted = solution.policy.probabilities(required.chances, **columns)
    assert required.cost(accepted) == pytest.approx(cost, abs=1e-9 * required.dearest)
    assert required.violation(accepted) <= 1.1e-9
    best, loosened = required.least_cost(), required.loosened_cost()
    assert cost >= loosened - rounding
    assert bound <= cost + rounding
    assert best is None or max(cost, bound) <= best + rounding
    return True


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_the_optimum_is_that_of_a_program_over_rows(first):
    assert sum(check(Required.drawn(seed)) for seed in range(first, first + 10)) > 4


def test_it_is_where_the_solver_begins_at_the_prices_of_some_sites(monkeypatch):
    monkeypatch.setattr(decomposition, "_SAMPLE", 1)
    monkeypatch.setattr(decomposition, "_SAMPLED_FROM", 2)
    assert sum(check(Required.drawn(seed)) for seed in range(30, 50)) > 8


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_the_optimum_is_that_of_a_program_over_rows_in_many_problems(first):
    met = sum(check(Required.drawn(seed)) for seed in range(first, first + 100))
    assert 50 < met < 100


@examples(1000, few=12)
@given(seed=st.integers(0, 2**32 - 1))
@example(11035)  # a floor above a ceiling, both of a rate of which there are no rows
@example(124)  # rows on which HiGHS fails where a single requirement gives way
@example(710418)  # requirements that miss each other by 1.1e-10, less than a certificate sees, once rows are tied
@example(810066)  # an amount on which HiGHS errs
@example(40672)  # requirements that miss each other by 1.5e-9, which a certificate sees and HiGHS does not
@example(710176)  # a floor of 1 that a chance of 1e-9 keeps from being met, by less than a certificate sees
def test_the_optimum_and_the_conflict_are_those_of_a_program_over_rows_whatever_is_mixed(seed):
    check(Required.mixed(seed))


@examples(1000, few=8)
@given(seed=st.integers(0, 2**32 - 1))
def test_they_are_where_differences_precision_and_losses_are_mixed_in(seed):
    check(Required.everything(seed))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_sentences_of_every_form_are_met_as_a_program_over_rows_meets_them_or_conflict_as_there(first):
    assert 5 < sum(check(Required.spoken(seed)) for seed in range(first, first + 20)) < 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_sentences_of_every_form_are(first):
    assert 30 < sum(check(Required.spoken(seed)) for seed in range(first, first + 100)) < 100


@pytest.mark.parametrize("first", range(0, 36, 12))
def test_several_attributes_are_met_as_a_program_over_rows_meets_them_or_conflict_as_there(first):
    assert sum(check(Required.crossed(seed)) for seed in range(first, first + 12)) > 6


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2200, 100))
def test_many_problems_of_several_attributes_are(first):
    assert 60 < sum(check(Required.crossed(seed)) for seed in range(first, first + 100)) < 100


def test_precision_is_required_as_a_program_over_rows_requires_it():
    assert 5 < sum(check(Required.spoken(seed, forms=8)) for seed in range(100, 130)) < 30


def test_losses_are_limited_as_a_program_over_rows_limits_them():
    assert 5 < sum(check(Required.spoken(seed, forms=9)) for seed in range(200, 230)) < 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
@pytest.mark.parametrize("about", [7, 8], ids=["precision", "losses"])
def test_many_problems_of_precision_and_of_losses_alone_and_mixed_are_those_of_a_program_over_rows(about, first):
    drawn = (Required.spoken(seed, forms=9, about=about) for seed in range(first, first + 100))
    assert 30 < sum(map(check, drawn)) < 100


def lender(n=3000, seed=0):
    """People at three sites, of which two have the sexes further apart."""
    rng = np.random.default_rng(seed)
    sex, site = rng.choice(["F", "M"], n), rng.choice(["Bern", "Lyon", "Oslo"], n)
    score = rng.beta(1 + (sex == "M") * (1 + (site == "Oslo")), 2)
    return score, (rng.random(n) < score).astype(int), {"sensitive_features": sex, "sites": site}


def test_what_a_site_loses_is_counted_against_the_best_rule_that_meets_its_own_limits():
    score, label, columns = lender()
    asked = ["selection rate gap <= 0.1 per site", "selection rate gap <= 0.02 overall"]
    given = {"calibration": "none", "pooling": "none", "local_tolerance": None, "global_tolerance": None, **columns}
    (free, alone, fair, shared) = (
        logofair.fit(score, label, require=require, **given)
        for require in ([], asked[:1], asked, [*asked, "accuracy loss <= 0.008 per site"])
    )

    def accuracies(solution):
        chance = solution.policy.probabilities(score, **columns)
        right = score * chance + (1 - score) * (1 - chance)
        return np.array([right[columns["sites"] == site].mean() for site in solution.policy.sites])

    lost = accuracies(alone) - accuracies(fair)
    assert lost.max() > 0.009  # being fair over all costs some sites more than others
    found = [each for each in shared.proved if each.requirement.is_loss]
    assert [each.after for each in found] == pytest.approx(accuracies(alone) - accuracies(shared), abs=1e-9)
    assert [each.before for each in found] == pytest.approx(accuracies(alone) - accuracies(free), abs=1e-9)
    assert max(each.after for each in found) == pytest.approx(0.008, abs=1e-9)
    assert {each.state for each in found} == {"met"}
    assert shared.certificate.holds
    assert shared.certificate.primal < fair.certificate.primal
    tight = "accuracy loss <= 0.0001 per site"
    with pytest.raises(InfeasibleError, match="what is required inside sites being held") as conflict:
        logofair.fit(score, label, require=[*asked, tight], **given)
    (least,) = (each for item, each in conflict.value.least_relaxation.items() if item.is_loss)
    logofair.fit(score, label, require=[*asked, f"accuracy loss <= {0.0001 + least + 1e-6:.8f} per site"], **given)
    with pytest.raises(InfeasibleError):
        logofair.fit(score, label, require=[*asked, f"accuracy loss <= {0.0001 + least - 1e-5:.8f} per site"], **given)


def test_what_is_lost_on_other_rows_has_the_interval_of_the_paired_comparison():
    score, label, columns = lender()
    half = np.arange(score.size) < score.size // 2
    parts = [{name: each[which] for name, each in columns.items()} for which in (half, ~half)]
    asked = [
        "selection rate gap <= 0.05 per site",
        "selection rate gap <= 0.02 overall",
        "accuracy loss <= 0.05 overall",
    ]
    asked += ["accuracy loss <= 0.03 per site"]
    solution = logofair.fit(score[half], label[half], require=asked, random_state=0, **parts[0])
    tested = solution.test(score[~half], label[~half], **parts[1]).tested
    over_all, *inside = (each for each in tested.outcomes if each.requirement.is_loss)
    assert over_all.before == 0.0
    assert over_all.after == pytest.approx(-tested.accuracy, abs=1e-12)
    assert over_all.low <= -tested.accuracy.high + 2e-3
    assert over_all.high == pytest.approx(-tested.accuracy.low, abs=2e-3)
    assert len(inside) == 3
    assert all(each.low < each.after < each.high for each in inside)
    assert all(each.high - each.low < 0.1 for each in inside)
    known = logofair.audit(
        None, label[~half], scores=score[~half], policy=solution.policy, **parts[1]
    ).outcomes  # a policy's file does not hold the best rules of its sites by themselves
    assert [each.state for each in known if each.requirement.is_loss_inside] == ["not measured"] * 3
    assert [each.after for each in known if each.requirement.is_loss][:1] == [over_all.after]


@pytest.mark.parametrize(
    ("require", "more", "said"),
    [
        ("cost loss <= 0.1 overall", {}, "without costs= rules are judged by accuracy; write 'accuracy loss'"),
        ("accuracy loss <= 0.1 overall", {"costs": (1, 3)}, "with costs= rules are judged by cost; write 'cost loss'"),
        (
            "cost loss <= 0.1 overall",
            {"costs": {"Bern": (1, 3), "Lyon": (1, 1), "Oslo": (1, 1)}},
            "costs differ between sites; limit the cost loss per site",
        ),
    ],
)
def test_a_loss_is_of_what_rules_are_judged_by(require, more, said):
    score, label, columns = lender(200)
    with pytest.raises(InputError, match=said):
        logofair.fit(score, label, require=require, **more, **columns)
    with pytest.raises(InputError, match="losses compare with a policy's unconstrained rule"):
        logofair.audit(label, label, require="accuracy loss <= 0.1 overall", **columns)


def test_costs_of_sites_may_differ_where_each_limits_its_own_loss():
    score, label, columns = lender(600)
    costs = {"Bern": (1, 3), "Lyon": (1, 1), "Oslo": (2, 1)}
    asked = ["selection rate gap <= 0.1 overall", "cost loss <= 0.02 per site"]
    given = {"costs": costs, "calibration": "none", "pooling": "none", **columns}
    solution = logofair.fit(score, label, require=asked, **given)
    assert solution.certificate.holds
    assert {each.state for each in solution.proved if each.requirement.is_loss} == {"met"}


def test_of_nobody_accepted_a_precision_says_nothing_and_is_warned_of():
    asked = ["precision of F >= 0.9 overall", "accepted >= 0.1 overall"]
    chances, groups = [0.5, 0.4, 0.95, 0.3], ["F", "F", "M", "M"]
    solution = logofair.fit(chances, None, sensitive_features=groups, calibration="none", pooling="none", require=asked)
    (found, _) = solution.proved
    assert solution.certificate.holds
    assert (found.after, found.rows, found.state) == (None, None, "not measured")
    (warning,) = (each for each in solution.warnings if each.kind.startswith("empty"))
    assert str(warning).startswith("Nobody is selected, so that the precision of F says nothing")


def test_precision_on_other_rows_is_the_share_of_the_accepted_with_its_interval():
    decisions, labels = np.repeat([1, 1, 0, 0], [60, 40, 50, 50]), np.repeat([1, 0, 1, 0], [60, 40, 50, 50])
    groups = np.tile(["F", "M"], 100)
    asked = [f"precision of everyone >= {bound} overall" for bound in (0.4, 0.6, 0.8)]
    found = logofair.audit(decisions, labels, sensitive_features=groups, require=asked).outcomes
    assert [each.state for each in found] == ["met", "unclear", "exceeded"]
    assert {(each.after, each.rows, each.rate) for each in found} == {(0.6, 100, "precision")}
    low, high = found[1].low, found[1].high
    assert low == pytest.approx(0.502, abs=0.005)  # Wilson's, of 60 among 100
    assert 0.69 < high < 0.75
    (unknown,) = logofair.audit(decisions, None, sensitive_features=groups, require=asked[:1]).outcomes
    assert unknown.state == "not measured"


SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.55, 0.45, 0.4, 0.3, 0.2, 0.1])
GROUPS = np.array(["a", "b"] * 5)


def fitted(**required):
    given = {"local_tolerance": None, "global_tolerance": None, "calibration": "none", "random_state": 0} | required
    return logofair.fit(SCORES, None, sensitive_features=GROUPS, **asking(**given))


@pytest.mark.parametrize("capacity", [0.4, ("exactly", 0.4)])
def test_a_capacity_inside_sites_asks_nothing_of_one_without_weight(capacity):
    sites, weights = np.repeat(["north", "south"], 5), np.repeat([1.0, 0.0], 5)
    found = fitted(sites=sites, sample_weight=weights, capacity={"local": capacity}, pooling="none")
    assert found.certificate.holds
    assert found.policy.probabilities(SCORES, sensitive_features=GROUPS, sites=sites)[:5].mean() == pytest.approx(0.4)


def test_a_floor_that_exceeds_todays_rate_by_rounding_leaves_a_rule_and_a_finite_bound():
    # Today all but one tenth of the negatives of each group are rejected, in sums that miss .1 by 1e-17.
    certificate = logofair.fit(
        [0.5, 1.0, 0.1, 0.9],
        None,
        sensitive_features=[0, 0, 1, 1],
        calibration="none",
        pooling="none",
        require=["false positive rate >= 0.1 per site", "false positive rate <= today per site"],
    ).certificate
    assert certificate.holds
    assert certificate.dual == pytest.approx(certificate.primal, abs=1e-9)


def with_tiny_chances(seed):
    """Two hundred rows at three sites, three in ten of them with chances from 1e-12 to 1e-5."""
    rng = np.random.default_rng(seed)
    scores, low = rng.random(200), rng.random(200) < 0.3
    scores[low] = 10.0 ** rng.uniform(-12, -5, low.sum())
    return scores, np.arange(200) % 2, rng.integers(0, 3, 200)


@pytest.mark.parametrize("side", ["local", "global"])
@pytest.mark.parametrize("notion", ["equal_opportunity", "predictive_equality", "equalized_odds"])
def test_a_floor_of_1_accepts_all_that_count_however_small_their_chance(notion, side):
    scores, groups, sites = with_tiny_chances(0)
    scores[:20], scores[20:40] = 0.0, 1.0
    given = {"sensitive_features": groups, "sites": sites, "calibration": "none", "pooling": "none", "random_state": 0}
    given |= {"notion": notion, "local_tolerance": 0.05, "global_tolerance": 0.02}
    found = logofair.fit(scores, None, **asking(floors={side: {notion: 1.0}}, **given))
    chances = found.policy.probabilities(scores, sensitive_features=groups, sites=sites)
    assert found.certificate.holds
    counts = {"equal_opportunity": scores > 0, "predictive_equality": scores < 1}.get(notion, scores >= 0)
    assert np.all(chances[counts] >= 1 - 1e-9)
    if notion == "equal_opportunity":  # those without a chance are rejected, which costs no true positive rate
        assert np.all(chances[scores == 0] == 0)


def test_a_conflict_on_which_an_interior_point_turns_in_circles_is_proved_none_the_less():
    scores = [1, 0.9695276873032964, 0, 1e-13, 0.22286442979244192, 0.00867842635262328, 0, 0.1993119237553982]
    scores += [0.49752395051302967, 0, 0.07388432688749924, 0.15565430579360828, 1, 1, 1e-8, 0.06567493978310301]
    scores += [0.043775079526701344, 0.00831665260974579, 0.9862774464169486, 1, 1, 1e-11, 1e-11, 1]
    scores += [0.46274042770669677, 0.2578355240849527, 1e-7, 0.6162172966408751]
    groups = [int(each) for each in "0121001001021100121221221021"]
    weights = [1, 0.5, 1, 1, 2, 2, 0.5, 0.5, 1, 0, 0, 0.5, 2, 1, 0.5, 0.5, 2, 1, 2, 0, 1, 1, 0.5, 0.5, 0.5, 0.5, 1, 1]
    given = {"sensitive_features": groups, "sample_weight": weights, "calibration": "none", "pooling": "none"}
    with pytest.raises(logofair.InfeasibleError, match=r"would have to be 0\.2 looser"):
        logofair.fit(scores, None, require=["accepted = 0.7 overall", "true positive rate >= 1 overall"], **given)


@pytest.mark.parametrize("tolerance", [0.0, ("ratio", 1.0)])
def test_a_ceiling_of_0_rejects_all_that_count_and_a_gap_of_0_those_of_the_other_group(tolerance):
    scores, groups, sites = with_tiny_chances(1)
    scores = 1.0 - scores  # three in ten next to certain
    given = {"sensitive_features": groups, "sites": sites, "calibration": "none", "pooling": "none", "random_state": 0}
    given |= {"notion": "predictive_equality", "local_tolerance": None, "global_tolerance": tolerance}
    found = logofair.fit(scores, None, **asking(ceilings={"global": {"predictive_equality": {0: 0.0}}}, **given))
    assert found.certificate.holds
    assert np.all(found.policy.probabilities(scores, sensitive_features=groups, sites=sites)[scores < 1] < 1e-9)


def test_a_threshold_follows_from_costs():
    # Accepting pays where 3 eta >= 1 (1 - eta): from 1/4 on.
    decided = fitted(costs=(1, 3)).policy.decide(SCORES, sensitive_features=GROUPS)
    assert decided.tolist() == (SCORES >= 0.25).astype(int).tolist()


def test_a_certificate_of_costs_speaks_of_cost_per_person():
    certificate = fitted(costs=(10, 30)).certificate
    assert certificate.objective == "cost"
    rejected = SCORES[SCORES < 0.25].sum() * 30
    assert certificate.primal == pytest.approx((rejected + (1 - SCORES[SCORES >= 0.25]).sum() * 10) / 10)
    assert (
        "expected cost 4.2000 per person. No rule of score, group and site that keeps the limits costs less than 4.2000"
        in (certificate.summary())
    )


def test_what_is_said_of_cost_and_bound_is_true_as_printed():
    for unit in (1e-6, 1.0, 1e4):
        certificate = fitted(costs=(unit, 2.7 * unit), capacity=0.37).certificate
        said = re.search(r"cost (\d+\.\d+) per person. .* costs less than (\d+\.\d+) ", certificate.summary())
        assert float(said[1]) == pytest.approx(certificate.primal, rel=5e-4)
        assert 0.999 * certificate.dual < float(said[2]) <= certificate.dual * (1 + 1e-9)


@pytest.mark.parametrize("costs", [(1, 0), (0, 7.3), {"x": (0, 3.3), "y": (2, 0)}])
def test_a_cost_of_nothing_is_0_and_never_below(costs):
    sites = ["x"] * 4 + ["y"] * 6 if isinstance(costs, dict) else None
    certificate = fitted(costs=costs, sites=sites).certificate
    assert f"{certificate.primal:.4f}" == "0.0000"
    assert "cost 0.0000 per person. No rule" in certificate.summary()
    assert "less than 0.0000 " in certificate.summary()


def test_costs_in_other_units_make_the_same_rules():
    rules = [
        fitted(costs=(1 * unit, 3 * unit), capacity=0.45).policy.probabilities(SCORES, sensitive_features=GROUPS)
        for unit in (1, 1e9)
    ]
    assert rules[0] == pytest.approx(rules[1], abs=1e-9)


def test_at_most_so_many_are_selected_and_these_are_the_best():
    chances = fitted(capacity=0.25).policy.probabilities(SCORES, sensitive_features=GROUPS)
    assert chances.tolist() == pytest.approx([1, 1, 0.5, 0, 0, 0, 0, 0, 0, 0])


def test_exactly_so_many_are_selected():
    chances = fitted(capacity=("exactly", 0.8)).policy.probabilities(SCORES, sensitive_features=GROUPS)
    assert chances.sum() == pytest.approx(8)


def test_nobody_is_worse_off_than_today():
    free, held = (fitted(local_tolerance=0, **more) for more in ({}, {"floors": {"demographic_parity": "today"}}))
    today = fitted().policy.probabilities(SCORES, sensitive_features=GROUPS)
    for group in "ab":
        of = group == GROUPS
        assert held.policy.probabilities(SCORES, sensitive_features=GROUPS)[of].mean() >= today[of].mean() - 1e-9
    assert held.certificate.primal <= free.certificate.primal


def test_a_conflict_names_the_requirements_and_what_each_would_have_to_give():
    with pytest.raises(InfeasibleError) as caught:
        fitted(floors={"demographic_parity": {"a": 0.9}}, capacity=0.3)
    error = caught.value
    # half of the people are a's, and three of its five at most are selected
    floor, capacity = "selection rate of a >= 0.9 per site", "accepted <= 0.3 overall"
    assert typed(error) == pytest.approx({floor: 0.3, capacity: 0.15})
    assert f"{capacity!r} would have to be 0.15 looser" in str(error)


def typed(error):
    """What each requirement would have to give, as it was typed."""
    return {str(item): least for item, least in error.least_relaxation.items()}


def test_a_floor_of_every_group_is_one_requirement_and_gives_way_for_all_of_them():
    floor, capacity = "selection rate >= 0.9 per site", "accepted <= 0.3 overall"
    with pytest.raises(InfeasibleError) as caught:
        fitted(require=[floor, capacity])
    assert typed(caught.value) == pytest.approx({floor: 0.6, capacity: 0.6})
    assert f"{capacity!r} conflict. With the others held, {floor!r} would have to be 0.6 looser" in str(caught.value)


def test_a_laxer_floor_of_the_same_rate_is_held_while_the_stricter_gives_way():
    laxer, stricter = (f"true positive rate >= {floor} per site" for floor in (0.5, 0.9))
    with pytest.raises(InfeasibleError) as caught:
        fitted(require=[laxer, stricter, "true positive rate <= 0.4 per site"])
    found = typed(caught.value)
    assert found == {stricter: None} | found or found == {laxer: None} | found


def test_tolerances_of_single_sites_are_told_apart():
    of_one = "selection rate gap <= 0 at x"
    limits = ["selection rate of a >= 0.8 per site", "selection rate of b <= 0.6 per site"]
    with pytest.raises(InfeasibleError) as caught:
        fitted(sites=["x"] * 4 + ["y"] * 6, require=["selection rate gap <= 0.3 per site except x", of_one, *limits])
    found = typed(caught.value)
    assert found[of_one] == pytest.approx(0.2)
    assert len(found) == 3


def test_the_largest_ratio_that_is_possible_is_found():
    ratio = "selection rate ratio >= 0.9 per site"
    limits = ["selection rate of a >= 0.8 per site", "selection rate of b <= 0.6 per site"]
    with pytest.raises(InfeasibleError) as caught:
        fitted(require=[ratio, *limits])
    assert typed(caught.value)[ratio] == pytest.approx(0.15, abs=1e-7)


def test_where_nobody_is_selected_a_ratio_is_met_by_rejecting_all():
    required = {"require": "selection rate ratio >= 0.8 per site", "calibration": "none", "random_state": 0}
    solution = logofair.fit([0.1, 0.2, 0.3, 0.4], None, sensitive_features=list("aabb"), **required)
    assert solution.policy.probabilities([0.3, 0.4], sensitive_features=["a", "b"]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"local_tolerance": ("ratio", 1.0), "solver": "algorithm1"}, "solver: 'algorithm1' limits gaps"),
        ({"costs": (0, 0)}, "costs: both errors cost 0"),
        ({"costs": (-1, 1)}, "costs: a wrongly accepted row costs -1"),
        ({"require": "accepted <= 1.5 overall"}, "got a bound of 1.5; rates lie between 0 and 1"),
        ({"require": "accepted <= 11 people overall"}, "more people than there are; ask for fewer"),
        ({"require": "selection rate of c >= 0.2 overall"}, "names group 'c', which has no rows"),
        ({"require": "selection rate gap <= 0.1 at north"}, "names sites, but sites= is missing"),
        ({"require": "selection rate gap <= 0.1 at x", "sites": ["y", "z"] * 5}, "names site 'x', which has no rows"),
        ({"require": 0.2}, "require: got 0.2; pass sentences"),
    ],
)
def test_what_cannot_be_required_is_refused_in_one_sentence(given, said):
    with pytest.raises(InputError, match=said):
        fitted(**given)


@pytest.mark.parametrize(
    ("looser", "tighter", "step"),
    [
        ({"capacity": 0.31}, {"capacity": 0.3}, 0.01),
        ({"floors": {"demographic_parity": 0.89}}, {"floors": {"demographic_parity": 0.9}}, 0.01),
        ({"ceilings": {"demographic_parity": 0.315}}, {"ceilings": {"demographic_parity": 0.305}}, 0.01),
        ({"local_tolerance": ("ratio", 0.769)}, {"local_tolerance": ("ratio", 0.77)}, 0.001),
        ({"local_tolerance": 0.11}, {"local_tolerance": 0.1}, 0.01),
    ],
)
def test_a_price_is_what_giving_way_wins_at_most(looser, tighter, step):
    scores, groups = np.linspace(0.05, 0.95, 19), np.array(["a"] * 9 + ["b"] * 10)
    found, given = [], {"local_tolerance": None, "global_tolerance": None, "calibration": "none", "random_state": 0}
    for required in (tighter, looser):
        found.append(logofair.fit(scores, None, sensitive_features=groups, **asking(**(given | required))).certificate)
    won, price = found[1].primal - found[0].primal, float(found[0].prices.local.sum())
    assert 0 < won <= step * price + 1e-7
    if not isinstance(tighter.get("local_tolerance"), tuple):  # whose price holds whatever the largest rate is
        assert won == pytest.approx(step * price, rel=0.05)  # small steps stay on one line here


def test_what_no_rule_of_all_rows_together_meets_is_no_conflict_of_the_sites():
    rng = np.random.default_rng(0)
    branch, sex = rng.choice(["north", "south"], 1000), rng.choice(["F", "M"], 1000)
    score = rng.beta(1 + (sex == "M") + (branch == "north"), 2)
    given = {"sensitive_features": sex, "sites": branch, "calibration": "none", "pooling": "none", "random_state": 0}
    given |= {"local_tolerance": ("ratio", 0.8), "global_tolerance": None, "floors": {"equal_opportunity": "today"}}
    with pytest.raises(InfeasibleError) as error:
        logofair.fit(score, None, **asking(capacity=0.1, **given))
    capacity = 0.1 + error.value.least_relaxation[Requirement.parse("accepted <= 0.1 overall")] + 1e-6
    alone = given | {"sites": None}
    with pytest.raises(InfeasibleError):
        logofair.fit(score, None, **asking(capacity=capacity, **alone))
    solution = logofair.fit(score, None, **asking(capacity=capacity, **given))
    assert solution.certificate.holds
    assert solution.policy.merged is None
    assert solution.warnings[-1].kind == "no merged rule"
    with pytest.raises(InputError, match="see its warnings"):
        solution.policy.decide([0.5], sensitive_features=["F"], sites=["west"], on_unknown="merged", random_state=0)


@pytest.fixture(scope="module")
def borrowing():
    """A capacity where small cells borrow."""
    rng = np.random.default_rng(3)
    groups, sites = rng.choice(["a", "b"], 240), rng.choice(["north", "south", "east"], 240)
    scores = rng.beta(1 + (groups == "a"), 2)
    given = {"sensitive_features": groups, "sites": sites, "random_state": 0, "pooling": "full"}
    require = ["selection rate gap <= 0.02 per site", "accepted <= 0.3 overall"]
    return logofair.fit(scores, (rng.random(240) < scores).astype(int), require=require, **given)


def test_where_small_cells_borrow_it_is_said_what_a_capacity_is_on_the_sites_own_rows(borrowing, tmp_path):
    chances = borrowing.policy.chances(borrowing.rows.calibrated, borrowing.rows.cells)
    assert chances.mean() > 0.3005


def test_a_ratio_that_says_nothing_is_warned_of_and_the_policy_says_so():
    rng = np.random.default_rng(0)
    scores, groups, sites = rng.uniform(0.0, 0.3, 400), ["a", "b"] * 200, ["north"] * 200 + ["south"] * 200
    require = ["selection rate ratio >= 0.8 per site", "selection rate ratio >= 0.9 overall"]
    solution = logofair.fit(scores, None, sensitive_features=groups, sites=sites, calibration="none", require=require)
    found = [str(warning) for warning in solution.warnings if warning.kind == "empty ratio"]
    assert found == [
        "Nobody is selected, so that the ratio of selection rate says nothing: north and south.",
        "Nobody is selected, so that the ratio of selection rate says nothing: over all.",
    ]
    assert set(found) <= set(solution.policy.info.warnings)
    said = "3 ratios say nothing: nobody is selected there."
    assert said in solution.certificate.summary()
    assert solution.policy.info.certificate.empty_ratios == 3
    one = logofair.fit(scores, None, sensitive_features=groups, calibration="none", require=require).certificate
    assert "1 ratio says nothing: nobody is selected there." in one.summary()
