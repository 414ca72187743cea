"""Requirements judged on rows: against counts by hand, and how often a verdict is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

import logofair
import support.sentences as asked
from logofair import InputError
from logofair.auditing.chance import least_ratio_limits, ratio_limits
from logofair.notions import Rate


def rows(seed, n=2000, rates=(0.5, 0.4), sites=2):
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, len(rates), n), rng.integers(0, sites, n)
    decided = rng.random(n) < np.array(rates)[group]
    return decided.astype(int), rng.integers(0, 2, n), group, site


def checks(found, kind):
    return [check for check in found.requirements if check.kind == kind]


def test_every_kind_is_found_as_it_is_counted_by_hand():
    decided, label, group, site = rows(0)
    found = asked.audit(
        decided,
        label,
        groups=group,
        sites=site,
        local_tolerance=("ratio", 0.8),
        global_tolerance=0.05,
        floors={"global": {"equal_opportunity": {1: 0.3}}},
        ceilings={"demographic_parity": 0.6},
        capacity={"local": 0.5, "global": ("exactly", 0.45)},
    )
    rate = {(c, a): decided[(site == c) & (group == a)].mean() for c in (0, 1) for a in (0, 1)}
    (ratio,) = checks(found, "ratio")
    assert ratio.sites == (0, 1)
    assert ratio.found == pytest.approx([min(rate[c, 0], rate[c, 1]) / max(rate[c, 0], rate[c, 1]) for c in (0, 1)])
    (gap,) = checks(found, "tolerance")
    over_all = [decided[group == a].mean() for a in (0, 1)]
    assert gap.found == pytest.approx([max(over_all) - min(over_all)])
    assert gap.side == "global"
    (floor,) = checks(found, "floor")
    assert floor.found == pytest.approx([decided[(group == 1) & (label == 1)].mean()])
    assert floor.state == "kept"
    assert [check.group for check in checks(found, "ceiling")] == [0, 1]
    assert checks(found, "ceiling")[1].found == pytest.approx([rate[0, 1], rate[1, 1]])
    most = {check.side: check.found for check in checks(found, "most selected")}
    assert most["local"] == pytest.approx([decided[site == c].mean() for c in (0, 1)])
    assert most["global"] == pytest.approx([decided.mean()])
    (least,) = checks(found, "least selected")
    assert least.found == pytest.approx(most["global"])
    assert found.as_dict()["requirements"][0]["kind"] == "ratio"


def test_the_interval_of_the_smallest_ratio_holds_it_in_nearly_all_draws():
    rng, people = np.random.default_rng(0), np.array([300, 200, 150])
    for true in ((0.5, 0.4, 0.45), (0.3, 0.3, 0.3), (0.05, 0.2, 0.1)):
        shares = rng.binomial(people, true, (4000, 3)) / people
        low, high = least_ratio_limits(shares, np.broadcast_to(people.astype(float), shares.shape))
        ratio = min(true) / max(true)
        assert np.mean(low > ratio) <= 0.03
        assert np.mean(high < ratio) <= 0.03


def test_where_nobody_is_selected_a_ratio_says_nothing_and_is_never_kept():
    _, _, group, site = rows(1)
    found = asked.audit(np.zeros(2000), None, groups=group, sites=site, local_tolerance=("ratio", 0.8))
    (check,) = found.requirements
    assert check.states == ("says nothing", "says nothing")
    assert "nobody is selected there, so a ratio says nothing" in str(check)
    solution = asked.fit(
        [0.1, 0.2, 0.3, 0.4],
        None,
        groups=list("aabb"),
        local_tolerance=("ratio", 0.8),
        global_tolerance=None,
        calibration="none",
        random_state=0,
    )
    assert [check.state for check in solution.requirement_checks] == ["says nothing"]


def test_few_rows_say_neither():
    found = asked.audit([1, 0, 1, 1], None, groups=list("aabb"), capacity=0.7, local_tolerance=("ratio", 0.9))
    assert {check.state for check in found.requirements} == {"too small to say"}


def test_the_limits_of_the_smallest_ratio_hold_those_of_the_impact_ratios():
    shares, people = np.array([0.5, 0.4, 0.45]), np.array([400.0, 300.0, 200.0])
    low, high = least_ratio_limits(shares[None], people[None])
    each_low, each_high = ratio_limits(shares, people)
    assert low[0] == pytest.approx(np.nanmin(each_low))
    assert high[0] >= np.nanmin(each_high)


def fitted(**more):
    rng = np.random.default_rng(5)
    n = 3000
    sex, site = np.array(["F", "M"])[rng.integers(0, 2, n)], np.array(["north", "south"])[rng.integers(0, 2, n)]
    score = rng.beta(1 + (sex == "M"), 2)
    label = (rng.random(n) < score).astype(int)
    half = slice(0, 1500), slice(1500, n)
    given = {"local_tolerance": ("ratio", 0.8), "global_tolerance": None, "costs": (1, 3), "capacity": 0.8} | more
    solution = asked.fit(
        score[half[0]], label[half[0]], groups=sex[half[0]], sites=site[half[0]], **given, random_state=0
    )
    other = {"groups": sex[half[1]], "sites": site[half[1]]}
    return solution, score[half[1]], label[half[1]], other


def test_a_policy_is_judged_by_what_it_was_made_for_and_so_is_its_file(tmp_path):
    solution, score, label, other = fitted(floors={"equal_opportunity": "today"})
    solution.policy.save(tmp_path / "policy.json")
    for policy in (solution.policy, logofair.Policy.load(tmp_path / "policy.json")):
        found = asked.audit(None, label, scores=score, policy=policy, **other)
        assert [check.kind for check in found.requirements] == ["ratio", "floor", "floor", "most selected"]
        assert found.cost is not None
        tested = solution.test(score, label, **other).tested.second
        for one, two in zip(found.requirements, tested.requirements, strict=True):
            assert one.found == pytest.approx(two.found)
            assert one.states == two.states
            assert one.low == pytest.approx(two.low)


def test_today_is_the_unconstrained_rule_on_the_same_rows():
    solution, score, label, other = fitted(floors={"global": {"equal_opportunity": "today"}}, local_tolerance=None)
    (floor,) = [
        check
        for check in asked.audit(None, label, scores=score, policy=solution.policy, **other).requirements
        if check.kind == "floor" and check.group == "F"
    ]
    calibrated = solution.policy.unconstrained(score, **other)
    mine = (other["groups"] == "F") & (label == 1)
    assert floor.required == pytest.approx([calibrated[mine].mean()])
    assert floor.today


def test_on_the_calibration_rows_every_requirement_is_proved_with_its_room_and_price():
    solution, *_ = fitted()
    ratio, most = solution.requirement_checks
    assert ratio.kind == "ratio"
    assert np.all(ratio.room > -1e-9)
    assert np.isnan(ratio.low).all()
    assert ratio.price.sum() == pytest.approx(solution.certificate.prices.local.sum())
    assert most.found[0] <= 0.8 + 1e-9


def test_evidence_tells_requirements_on_other_rows():
    solution, score, label, other = fitted()
    tested = solution.test(score, label, **other)
    kinds = [finding.how for finding in tested.policy.info.tested.findings]
    assert kinds == ["at least", "at most"]
    assert "share of people selected" in str(tested.evidence)
    assert tested.evidence.state in ("met", "unclear", "missed")


def test_rules_without_sites_are_judged_over_all_of_them():
    rng = np.random.default_rng(0)
    score, sex = rng.random(800), np.array(["F", "M"])[rng.integers(0, 2, 800)]
    policy = asked.fit(score, None, groups=sex, capacity=0.4, calibration="none", random_state=0).policy
    found = asked.audit(None, None, scores=score, groups=sex, policy=policy)
    assert [(check.side, check.kind) for check in found.requirements] == [
        ("local", "tolerance"),
        ("local", "most selected"),
    ]
    assert found.requirements[1].where == ""


@pytest.mark.parametrize("kind", ["floors", "ceilings"])
def test_today_needs_a_policy(kind):
    decided, label, group, _ = rows(0)
    with pytest.raises(InputError, match=r"^require: .*'today' is what a policy's unconstrained rule gives"):
        asked.audit(decided, label, groups=group, **{kind: {"equal_opportunity": "today"}})


def test_without_labels_what_counts_by_label_is_listed_as_not_measured(tmp_path):
    solution, score, label, other = fitted(
        floors={"equal_opportunity": "today", "demographic_parity": 0.1}, ceilings={"predictive_equality": {"F": 0.9}}
    )
    found = asked.audit(None, None, scores=score, policy=solution.policy, **other)
    whole = asked.audit(None, label, scores=score, policy=solution.policy, **other)
    key = [(check.side, check.kind, check.rate, check.group, check.sites) for check in found.requirements]
    assert sorted(key, key=str) == sorted(
        ((check.side, check.kind, check.rate, check.group, check.sites) for check in whole.requirements), key=str
    )
    unmeasured = [check for check in found.requirements if check.reason]
    assert {check.rate for check in unmeasured} == {"true positive rate", "false positive rate"}
    assert {check.state for check in unmeasured} == {"not measured"}
    assert all(check.state != "not measured" for check in found.requirements if not check.reason)
    floor = next(check for check in unmeasured if check.kind == "floor")
    assert np.isnan(floor.required).all()  # what today's rate is needs labels too
    assert str(floor) == (
        "The true positive rate of group 'F' at site 'north', at least what it is without any requirement: not "
        "measured: needs labels (so at all 2 sites)."
    )
    ceiling = next(check for check in unmeasured if check.kind == "ceiling")
    assert ceiling.required.tolist() == [0.9, 0.9]
    listed = json.loads(json.dumps(found.as_dict(), allow_nan=False))["requirements"]
    assert {each["reason"] for each in listed} == {None, "needs labels"}
    stated = next(each for each in listed if each["kind"] == "floor" and each["reason"])
    assert stated["by_site"][0] == {"site": "north", "required": None, "found": None, "state": "not measured"}


def test_a_users_own_rate_is_judged_from_the_policy_alone(tmp_path):
    benefit = logofair.Notion("benefit", given=(Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))
    shadow = Rate("shadow", 1.0, 0.0, base=(2.0, 0.0))
    rates = logofair.Notion("own", given=(*benefit.rates, shadow))
    _, score, label, other = fitted()
    solution = asked.fit(
        score, label, **other, notion=rates, local_tolerance=0.05, global_tolerance=0.02, random_state=0
    )
    solution.policy.save(tmp_path / "policy.json")
    policy = logofair.Policy.load(tmp_path / "policy.json")
    found = asked.audit(None, label, scores=score, policy=policy, **other)
    assert [(check.side, check.rate) for check in found.requirements] == [
        (side, rate) for side in ("local", "global") for rate in ("benefit", "shadow")
    ]
    chance = policy.probabilities(score, **other)
    means = [np.mean((chance * (2 * label - 1))[other["groups"] == sex]) for sex in ("F", "M")]
    assert found.requirements[2].found == pytest.approx([abs(means[0] - means[1])])
    without = asked.audit(None, None, scores=score, policy=policy, **other)
    assert [(check.rate, check.reason) for check in without.requirements if check.side == "global"] == [
        ("shadow", ""),
        ("benefit", "needs labels"),
    ]
