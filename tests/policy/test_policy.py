"""The policy: decisions follow the stored rules, the same id gets the same one, and bad rows get one sentence."""

from __future__ import annotations

import datetime
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import logofair
from logofair.errors import InputError
from logofair.policy.info import PolicyInfo
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy
from support.examples import examples
from support.policies import mixtures_of, policy_of

modest = examples(80)


def certain(*thresholds: float) -> Mixtures:
    return mixtures_of(*([(1.0, t, True)] for t in thresholds), single=list(thresholds))


# Group a: score >= 1/2 with chance 0.3, score >= 0.2 with chance 0.5, otherwise rejected. Group b: score <= 0.4.
MIXED = mixtures_of([(0.5, 0.2, True), (0.3, 0.5, True)], [(1.0, 0.4, False)], single=[0.35, np.inf])


def brute_force(policy: Policy, scores, cells, mixtures: Mixtures | None = None) -> list[float]:
    """Chances from the stored rules, one row and one rule at a time."""
    rules = policy.mixtures if mixtures is None else mixtures
    return [
        sum(
            w * (score >= t if up else score <= t)
            for w, t, up in zip(rules.weight[cell], rules.threshold[cell], rules.above[cell], strict=True)
        )
        for score, cell in zip(scores, cells, strict=True)
    ]


@pytest.fixture(scope="module")
def fitted() -> tuple[Policy, dict[str, np.ndarray]]:
    """A calibrated policy with mixed cells, and its rows."""
    rng = np.random.default_rng(3)
    n = 1500
    group, site = rng.integers(0, 2, n), rng.integers(0, 3, n)
    score = rng.beta(1 + group, 2, n)
    label = (rng.random(n) < score**1.5).astype(int)
    rows = {"sensitive_features": np.array(["men", "women"])[group], "sites": np.array(["X", "Y", "Z"])[site]}
    solution = logofair.fit(
        score, label, **rows, notion="equalized_odds", local_tolerance=0.01, global_tolerance=0.0, random_state=5
    )
    assert solution.policy.mixtures.mixed.any()
    return solution.policy, {"scores": score, **rows}


# ---------------------------------------------------------------- decisions follow the rules


def test_chances_and_decisions_by_hand():
    policy = policy_of(MIXED)
    scores, groups = [0.1, 0.2, 0.5, 0.4, 0.41], ["a", "a", "a", "b", "b"]
    np.testing.assert_allclose(policy.probabilities(scores, sensitive_features=groups), [0.0, 0.5, 0.8, 1.0, 0.0])
    decided = policy.decide(scores, sensitive_features=groups, random_state=1)
    assert decided.dtype == np.int64
    assert decided[[0, 3, 4]].tolist() == [0, 1, 0]


def test_chances_are_the_rules_of_the_rows_cell(fitted):
    policy, rows = fitted
    group = np.array([policy.groups.index(g) for g in rows["sensitive_features"]])
    site = np.array([policy.sites.index(c) for c in rows["sites"]])
    eta = policy.calibrator(rows["scores"], group.astype(np.int32), site.astype(np.int32))
    np.testing.assert_allclose(policy.probabilities(**rows), brute_force(policy, eta, site * 2 + group), atol=1e-12)


def test_the_share_of_acceptances_over_many_seeds_is_the_chance(fitted):
    policy, rows = fitted
    few = {name: column[:200] for name, column in rows.items()}
    chance, seeds = policy.probabilities(**few), 1500
    accepted = sum(policy.decide(**few, random_state=seed) for seed in range(seeds))
    certain = (chance == 0.0) | (chance == 1.0)
    np.testing.assert_array_equal(accepted[certain] / seeds, chance[certain])
    error = np.sqrt(chance * (1 - chance) / seeds)
    assert np.all(np.abs(accepted / seeds - chance) <= 5 * error)


def test_the_share_of_acceptances_over_many_ids_is_the_chance():
    policy = policy_of(MIXED, key=8)
    n = 40_000
    decided = policy.decide(np.full(n, 0.3), sensitive_features=["a"] * n, ids=np.arange(n))
    assert decided.mean() == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("ab"), st.integers(0, 99)), max_size=12), st.randoms())
@modest
def test_permuting_rows_with_their_ids_permutes_decisions(rows, random):
    policy = policy_of(MIXED, key=2)
    order = list(range(len(rows)))
    random.shuffle(order)

    def decide(chosen):
        scores, groups, ids = ([row[i] for row in chosen] for i in range(3))
        return policy.decide(scores, sensitive_features=groups, ids=ids)

    np.testing.assert_array_equal(decide([rows[i] for i in order]), decide(rows)[order])


def test_the_same_id_gets_the_same_decision_alone_and_in_any_batch(fitted):
    policy, rows = fitted
    ids = np.array([f"person-{i}" for i in range(rows["scores"].size)])
    together = policy.decide(**rows, ids=ids)
    for row in range(0, 60):
        alone = {name: column[[row]] for name, column in rows.items()}
        assert policy.decide(**alone, ids=ids[[row]])[0] == together[row]
        assert policy.decide(**alone, ids=[str(ids[row])])[0] == together[row]


def test_a_higher_score_is_never_rejected_where_the_same_id_was_accepted_with_a_lower_one():
    policy = policy_of(MIXED)
    ids = np.arange(500)
    low, high = (policy.decide(np.full(500, s), sensitive_features=["a"] * 500, ids=ids) for s in (0.3, 0.6))
    assert np.all(high >= low)
    assert high.sum() > low.sum()


def test_coins_depend_on_the_policys_key_with_ids_and_on_the_seed_without():
    n = 200
    rows = {"scores": np.full(n, 0.3), "sensitive_features": ["a"] * n}
    with_keys = [policy_of(MIXED, key=k).decide(**rows, ids=np.arange(n)).tolist() for k in (1, 1, 2)]
    assert with_keys[0] == with_keys[1] != with_keys[2]
    seeds = [policy_of(MIXED, key=k).decide(**rows, random_state=s).tolist() for k, s in ((1, 4), (2, 4), (1, 5))]
    assert seeds[0] == seeds[1] != seeds[2]


def test_more_rows_than_are_looked_at_together_are_decided_like_a_few():
    policy, n = policy_of(certain(0.25, 0.75)), 200_001
    scores, groups = np.random.default_rng(0).random(n), np.tile(["a", "b", "a"], n // 3)
    expected = scores >= np.where(groups == "a", 0.25, 0.75)
    np.testing.assert_array_equal(policy.decide(scores, sensitive_features=groups), expected)
    np.testing.assert_array_equal(policy.decide(scores, sensitive_features=groups, deterministic=True), expected)


def test_a_certain_rule_is_found_in_any_of_the_three_places():
    rules = mixtures_of([(0.0, 0.0, True), (1.0, 0.3, True)], [(0.0, 0.0, True), (0.0, 0.0, True), (1.0, 0.6, False)])
    policy = policy_of(rules)
    rows = {"scores": [0.2, 0.4, 0.5, 0.7], "sensitive_features": ["a", "a", "b", "b"]}
    assert policy.decide(**rows).tolist() == policy.probabilities(**rows).tolist() == [0, 1, 1, 0]


def test_no_rule_rejects_all():
    policy = policy_of(mixtures_of([], []))
    rows = {"scores": [0.0, 1.0], "sensitive_features": ["a", "b"]}
    assert policy.decide(**rows).tolist() == policy.probabilities(**rows).tolist() == [0, 0]


def test_weights_that_sum_to_one_but_for_rounding_accept_surely_and_toss_no_coin():
    policy = policy_of(mixtures_of([(0.7, 0.1, True), (0.2, 0.2, True), (0.1, 0.3, True)], [(1.0, 0.5, True)]))
    assert 0.7 + 0.2 + 0.1 < 1.0
    assert policy.probabilities([0.9], sensitive_features=["a"]).tolist() == [1.0]
    assert [policy.decide([0.9], sensitive_features=["a"], random_state=seed).tolist() for seed in range(9)] == [
        [1]
    ] * 9


def test_the_deterministic_mode_is_one_threshold_per_cell_and_tosses_no_coin():
    decided = policy_of(MIXED).decide(
        [0.34, 0.35, 0.0, 1.0], sensitive_features=["a", "a", "b", "b"], deterministic=True
    )
    assert decided.tolist() == [0, 1, 0, 0]


def test_the_deterministic_mode_has_the_accuracy_and_the_violation_the_solution_states():
    rng = np.random.default_rng(1)
    group, scores = rng.integers(0, 2, 61), rng.random(61)
    solution = logofair.fit(
        scores, None, sensitive_features=group, local_tolerance=0.0, global_tolerance=0.0, calibration="none"
    )
    decided = solution.policy.decide(scores, sensitive_features=group, deterministic=True)
    accuracy, violation = solution.deterministic
    assert np.mean(np.where(decided == 1, scores, 1 - scores)) == pytest.approx(accuracy)
    assert abs(decided[group == 0].mean() - decided[group == 1].mean()) == pytest.approx(violation)
    assert violation > 0.0  # what the coins are for


# ---------------------------------------------------------------- unknown sites and groups

THREE = {"mixtures": certain(0.1, 0.2, 0.3, 0.4), "sites": ("X", "Y"), "merged": certain(0.6, 0.7)}


def test_unknown_sites_are_refused_by_name_unless_told_otherwise():
    policy = policy_of(**THREE)
    with pytest.raises(InputError, match=r"^sites: row 1 is 'W', a site .*'X', 'Y'.*on_unknown='merged'.*'base'"):
        policy.decide([0.5, 0.5], sensitive_features=["a", "a"], sites=["X", "W"])


def test_unknown_sites_take_the_merged_rule_of_their_group():
    rows = {"scores": [0.15, 0.59, 0.6, 0.69, 0.7, 0.35], "sensitive_features": [*"aaabba"], "sites": [*"XWWWWY"]}
    policy = policy_of(**THREE)
    assert policy.decide(**rows, on_unknown="merged").tolist() == [1, 0, 1, 0, 1, 1]
    assert policy.probabilities(**rows, on_unknown="merged").tolist() == [1, 0, 1, 0, 1, 1]
    assert policy.decide(**rows, on_unknown="merged", deterministic=True).tolist() == [1, 0, 1, 0, 1, 1]


def test_unknown_sites_take_the_raw_score_if_told_so():
    rows = {"scores": [0.15, 0.49, 0.5, 0.35], "sensitive_features": [*"abab"], "sites": [*"XWWY"]}
    policy = policy_of(**THREE)
    for deterministic in (False, True):
        assert policy.decide(**rows, on_unknown="base", deterministic=deterministic).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("on_unknown", ["raise", "merged"])
def test_unknown_groups_are_refused_by_name_unless_the_base_rule_is_asked_for(on_unknown):
    with pytest.raises(InputError, match=r"^sensitive_features: row 2 is 'c', a group .*'a', 'b'.*on_unknown='base'"):
        policy_of(**THREE).decide(
            [0.5] * 3, sensitive_features=["a", "b", "c"], sites=["X", "W", "Y"], on_unknown=on_unknown
        )


def test_unknown_groups_take_the_raw_score_with_known_and_unknown_sites():
    rows = {"scores": [0.45, 0.5, 0.45, 0.5, 0.15], "sensitive_features": [*"cccca"], "sites": [*"XXWWX"]}
    assert policy_of(**THREE).decide(**rows, on_unknown="base").tolist() == [0, 1, 0, 1, 1]


def test_a_policy_without_a_merged_rule_says_so():
    policy = policy_of(certain(0.1, 0.2, 0.3, 0.4), sites=("X", "Y"))
    with pytest.raises(InputError, match=r"^on_unknown: 'merged' needs the merged rule.*see its warnings"):
        policy.decide([0.5], sensitive_features=["a"], sites=["W"], on_unknown="merged")
    # It is missed only by rows that need it.
    assert policy.decide([0.15], sensitive_features=["a"], sites=["X"], on_unknown="merged").tolist() == [1]


def test_the_merged_rule_reads_the_groups_calibrator_and_the_base_rule_none(fitted):
    policy, rows = fitted
    strangers = {**rows, "sites": np.full(rows["scores"].size, "elsewhere")}
    group = np.array([policy.groups.index(g) for g in rows["sensitive_features"]], dtype=np.int32)
    eta = policy.calibrator(rows["scores"], group, np.full_like(group, -1))
    expected = brute_force(policy, eta, group, policy.merged)
    np.testing.assert_allclose(policy.probabilities(**strangers, on_unknown="merged"), expected, atol=1e-12)
    assert not np.allclose(policy.probabilities(**rows), expected)
    np.testing.assert_array_equal(policy.decide(**strangers, on_unknown="base"), rows["scores"] >= 0.5)


def test_known_rows_are_decided_alike_whatever_stands_beside_them(fitted):
    policy, rows = fitted
    ids = np.arange(rows["scores"].size)
    alone = policy.decide(**rows, ids=ids)
    mixed = {name: column.copy() for name, column in rows.items()}
    mixed["sites"][::3] = "?"
    for on_unknown in ("merged", "base"):
        beside = policy.decide(**mixed, ids=ids, on_unknown=on_unknown)
        known = mixed["sites"] != "?"
        np.testing.assert_array_equal(beside[known], alone[known])


@pytest.mark.parametrize("on_unknown", ["Raise", "", None, 1, ["raise"], np.array(["raise", "base"])], ids=repr)
def test_another_on_unknown_is_refused(on_unknown):
    with pytest.raises(InputError, match=r"^on_unknown: got .*; use one of raise, merged, base\.$"):
        policy_of(MIXED).decide([0.5], sensitive_features=["a"], on_unknown=on_unknown)


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize("kind", ["i1", "u1", "i8", "u8", "f4", "f8", "O", "?"])
def test_labels_that_are_equal_in_python_are_the_same_label(kind):
    policy = policy_of(certain(0.2, 0.8), groups=(0, 1))
    groups = np.array([0, 1, 1]).astype(kind)
    assert policy.decide([0.5, 0.5, 0.9], sensitive_features=groups).tolist() == [1, 0, 1]
    assert policy.decide([0.5, 0.5, 0.9], sensitive_features=groups.tolist()).tolist() == [1, 0, 1]


def test_text_that_looks_like_a_number_is_another_label():
    with pytest.raises(
        InputError, match=r"^sensitive_features: row 0 is '1', a group the policy does not know \(it knows 0, 1\)"
    ):
        policy_of(MIXED, groups=(0, 1)).decide([0.5], sensitive_features=["1"])


@pytest.mark.parametrize(
    "groups",
    [("a", "b"), (3, -7), (False, True), (0.5, 1.5), (("x", 1), ("x", 2)), ("a", 1), (2**70, 1), ((), ("x",))],
    ids=repr,
)
def test_labels_of_any_kind_are_found_again_in_any_order(groups):
    policy = policy_of(certain(0.2, 0.8), groups=groups)
    first, second = groups
    assert policy.decide([0.5] * 3, sensitive_features=[second, first, second]).tolist() == [0, 1, 0]
    as_array = np.fromiter([second, first], dtype=object, count=2)
    assert policy.decide([0.5] * 2, sensitive_features=as_array).tolist() == [0, 1]


@pytest.mark.parametrize("strange", [("x", 3), "c", 7, 0.5], ids=repr)
def test_an_unknown_label_is_named_as_it_was_written(strange):
    policy = policy_of(MIXED, groups=(("x", 1), ("x", 2)))
    with pytest.raises(InputError) as error:
        policy.decide([0.5, 0.5], sensitive_features=[("x", 1), strange])
    assert str(error.value).startswith(f"sensitive_features: row 1 is {strange!r}, a group the policy does not know")


def test_columns_of_any_library_are_decided_alike():
    policy = policy_of(certain(0.2, 0.8, 0.8, 0.2), sites=("X", "Y"))
    scores, groups, sites = [0.5, 0.5, 0.5], ["a", "b", "b"], ["X", "X", "Y"]
    for make in (list, tuple, np.array, pandas.Series, polars.Series):
        assert policy.decide(make(scores), sensitive_features=make(groups), sites=make(sites)).tolist() == [1, 0, 1]


# ---------------------------------------------------------------- bad rows, no rows


def test_sites_must_be_given_where_the_policy_has_some_and_only_there():
    with pytest.raises(InputError, match=r"^sites: missing, but the policy has rules for 2 sites"):
        policy_of(**THREE).decide([0.5], sensitive_features=["a"])
    with pytest.raises(InputError, match=r"^sites: the policy was fitted without sites; leave them out\.$"):
        policy_of(MIXED).decide([0.5], sensitive_features=["a"], sites=["X"])


def policy_of_site(site="north"):
    return replace(policy_of(certain(0.2, 0.8), sites=(site,)), info=PolicyInfo(site=site))


def test_a_federated_policy_decides_on_its_own_sites_rows_with_and_without_sites():
    rows = {"scores": [0.5, 0.5], "sensitive_features": ["a", "b"]}
    assert policy_of_site().decide(**rows).tolist() == [1, 0]
    assert policy_of_site().decide(**rows, sites=["north", "north"]).tolist() == [1, 0]
    assert policy_of_site("7").decide(**rows, sites=np.array([7, 7])).tolist() == [
        1,
        0,
    ]  # a name, written as a number
    assert policy_of_site().decide([], sensitive_features=[], sites=[]).tolist() == []


def test_a_federated_policy_refuses_rows_of_other_sites_unless_told_otherwise():
    rows = {"scores": [0.5, 0.5, 0.6], "sensitive_features": ["a", "b", "b"], "sites": ["north", "south", "south"]}
    other = r"^sites: row 1 is 'south', but the policy is of site 'north' alone; take that site's policy, leave"
    with pytest.raises(InputError, match=other):
        policy_of_site().decide(**rows)
    with pytest.raises(InputError, match=other):
        policy_of_site().probabilities(**rows)
    with pytest.raises(InputError, match=r"^on_unknown: 'merged' needs .* which this policy lacks; use 'base'\.$"):
        policy_of_site().decide(**rows, on_unknown="merged")
    assert policy_of_site().decide(**rows, on_unknown="base").tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"scores": [0.5, np.nan]}, "scores: row 1 is nan"),
        ({"scores": [0.5, np.inf]}, "scores: row 1 is inf"),
        ({"scores": [0.5, 1.5]}, "scores: row 1 is 1.5, outside"),
        ({"scores": [-0.1, 0.5]}, "scores: row 0 is -0.1, outside"),
        ({"scores": ["x", 0.5]}, "scores: row 0 is 'x'"),
        ({"scores": None}, "scores: got None"),
        ({"scores": [[0.5, 0.5], [0.5, 0.5]]}, "scores: expected one value per row"),
        ({"sensitive_features": ["a"]}, "sensitive_features: has 1 rows, but the first column has 2"),
        ({"sensitive_features": ["a", None]}, "sensitive_features: row 1 is missing"),
        ({"sensitive_features": None}, "sensitive_features: got None"),
        ({"sites": ["X"] * 3}, "sites: has 3 rows, but the first column has 2"),
        ({"sites": ["X", float("nan")]}, "sites: row 1 is missing"),
        ({"ids": [1, 2, 3]}, "ids: has 3 rows, but the first column has 2"),
        ({"ids": [1.5, 2.5]}, "ids: row 0 is 1.5"),
        ({"ids": ["x", None]}, "ids: row 1 is None"),
        ({"random_state": -1}, "random_state: got -1"),
        ({"random_state": "x"}, "random_state: got 'x'"),
        ({"deterministic": "no"}, "deterministic: got 'no'"),
    ],
    ids=repr,
)
def test_bad_rows_are_refused_even_where_no_coin_is_needed(wrong, sentence):
    rows = {"scores": [0.5, 0.5], "sensitive_features": ["a", "b"], "sites": ["X", "Y"]}
    with pytest.raises(InputError) as error:
        policy_of(**THREE).decide(**{**rows, **wrong})
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("none", [[], (), np.zeros(0), np.zeros(0, dtype=object), pandas.Series([], dtype=float)])
@pytest.mark.parametrize("on_unknown", ["raise", "merged", "base"])
def test_no_rows_are_decided_as_none(none, on_unknown):
    policy = policy_of(mixtures_of(*[[(0.5, 0.5, True)]] * 4), sites=("X", "Y"), merged=MIXED)
    decided = policy.decide(none, sensitive_features=none, sites=none, ids=none, on_unknown=on_unknown)
    assert decided.shape == (0,)
    assert decided.dtype == np.int64
    assert policy.probabilities(none, sensitive_features=none, sites=none, on_unknown=on_unknown).shape == (0,)


def test_nothing_that_is_passed_in_is_changed(fitted):
    policy, rows = fitted
    columns = {**rows, "ids": np.arange(rows["scores"].size)}
    before = {name: column.copy() for name, column in columns.items()}
    frozen = {name: column.copy() for name, column in columns.items()}
    for column in frozen.values():
        column.flags.writeable = False
    for mode in ({}, {"deterministic": True}, {"on_unknown": "merged"}, {"on_unknown": "base"}):
        np.testing.assert_array_equal(policy.decide(**columns, **mode), policy.decide(**frozen, **mode))
    plain = policy_of(MIXED)  # without calibration the scores themselves are compared
    scores = rows["scores"].copy()
    chance = plain.probabilities(scores, sensitive_features=["a"] * scores.size)
    chance[:] = -1.0
    plain.decide(scores, sensitive_features=["a"] * scores.size, random_state=0)[:] = -1
    np.testing.assert_array_equal(scores, rows["scores"])
    for name, column in before.items():
        np.testing.assert_array_equal(columns[name], column)


junk = st.one_of(
    st.none(),
    st.integers(-2, 3),
    st.text(max_size=3),
    st.floats(),
    st.booleans(),
    st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "X", "Y", "q"]), st.floats(), st.integers()), max_size=3),
    st.lists(st.lists(st.integers(0, 1), max_size=2), max_size=3),
    st.lists(st.tuples(st.integers(0, 1)), max_size=3),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=2),
    arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, max_dims=2, max_side=3, min_side=0)),
)


@given(st.data())
@examples(150)
def test_junk_is_decided_or_refused_but_never_crashes(data):
    rows = {
        "scores": [0.3, 0.9],
        "sensitive_features": ["a", "b"],
        "sites": ["X", "Y"],
        "ids": [1, 2],
        "random_state": 3,
        "on_unknown": "raise",
        "deterministic": False,
    }
    for name in data.draw(st.sets(st.sampled_from(sorted(rows)), min_size=1)):
        rows[name] = data.draw(junk, label=name)
    policy = policy_of(mixtures_of(*[[(0.5, 0.2, True)]] * 4), sites=("X", "Y"), merged=MIXED)
    try:
        decided = policy.decide(**rows)
    except InputError:
        return
    assert decided.dtype == np.int64
    assert decided.ndim == 1
    assert set(decided.tolist()) <= {0, 1}


# ---------------------------------------------------------------- independent coins


def test_rules_with_coins_need_ids_or_a_random_state():
    policy = policy_of(MIXED)
    sentence = r"^ids: missing, but the rules of 2 of these 3 rows toss coins; pass ids=.*random_state=.*deterministic="
    with pytest.raises(InputError, match=sentence):
        policy.decide([0.3, 0.1, 0.3], sensitive_features=["a", "a", "b"])
    with pytest.raises(InputError, match=r"^ids: missing"):  # one row at a time would toss the same coin for ever
        policy.decide([0.3], sensitive_features=["a"])


@pytest.mark.parametrize(
    ("scores", "groups", "options"),
    [
        ([0.3], ["a"], {"ids": ["ann"]}),
        ([0.3], ["a"], {"random_state": 0}),
        ([0.3], ["a"], {"deterministic": True}),
        ([0.3, 0.9], ["b", "b"], {}),
        ([], [], {}),
    ],
)
def test_nothing_is_missing_where_no_rule_of_the_rows_tosses_a_coin(scores, groups, options):
    policy_of(MIXED).decide(scores, sensitive_features=groups, **options)
    policy_of(MIXED).probabilities(scores, sensitive_features=groups)


def half_at(sites: tuple[str, ...], groups: tuple[str, ...] = ("a", "b"), key: int = 3) -> Policy:
    """Everybody is accepted with chance one half."""
    rules = mixtures_of(*[[(0.5, 0.0, True)]] * (len(sites) * len(groups)))
    return policy_of(rules, groups, sites, merged=mixtures_of(*[[(0.5, 0.0, True)]] * len(groups)), key=key)


def test_sites_and_groups_whose_ids_run_alike_are_accepted_independently():
    sites, n = tuple(f"site {k}" for k in range(40)), 300
    policy, ids = half_at(sites), np.tile(np.arange(n), 80)
    rows = {"sensitive_features": np.repeat(["a", "b"], 40 * n), "sites": np.tile(np.repeat(sites, n), 2)}
    for how in ({"ids": ids}, {"random_state": 5}):
        decided = policy.decide(np.full(ids.size, 0.5), **rows, **how).reshape(80, n)
        # Of each person's 80 coins about 40 are won, with the variance of 80 independent ones.
        assert decided.sum(axis=0).var() == pytest.approx(20, rel=0.35)
        assert decided.mean() == pytest.approx(0.5, abs=0.02)


def test_policies_of_other_keys_do_not_reject_the_same_people():
    n, ids = 4000, np.arange(4000)
    rows = {"scores": [0.5] * n, "sensitive_features": ["a"] * n, "sites": ["X"] * n, "ids": ids}
    accepted = sum(half_at(("X",), key=key).decide(**rows) for key in range(10))
    assert np.mean(accepted == 0) == pytest.approx(0.5**10, abs=0.003)


def test_the_order_of_names_changes_no_coin():
    one, other = half_at(("X", "Y"), ("a", "b")), half_at(("Y", "X"), ("b", "a"))
    rows = {"sensitive_features": [*"aabb"] * 50, "sites": [*"XYXY"] * 50, "ids": np.arange(200)}
    np.testing.assert_array_equal(one.decide([0.5] * 200, **rows), other.decide([0.5] * 200, **rows))


def test_unknown_sites_toss_by_their_group_alone():
    policy, ids = half_at(("X",)), np.arange(200)
    first, second, other = (
        policy.decide(
            [0.5] * 200, sensitive_features=[group] * 200, sites=[site] * 200, ids=ids, on_unknown="merged"
        ).tolist()
        for site, group in (("V", "a"), ("W", "a"), ("V", "b"))
    )
    assert first == second != other
    assert first != policy.decide([0.5] * 200, sensitive_features=["a"] * 200, sites=["X"] * 200, ids=ids).tolist()


def test_labels_that_no_file_holds_toss_coins_too():
    policy = half_at((datetime.date(2020, 1, 1), frozenset("ab")))
    decided = policy.decide([0.5] * 2, sensitive_features=["a", "b"], sites=list(policy.sites), ids=[1, 2])
    assert set(decided.tolist()) <= {0, 1}


# ---------------------------------------------------------------- the object


def test_policies_are_compared_by_identity():
    first, second = policy_of(MIXED), policy_of(MIXED)
    assert first == first
    assert first != second
    assert len({first, second}) == 2
    assert first.rules != second.rules


# --- rules that are made when they are first asked for


def test_merged_rules_are_made_once_when_an_unknown_site_comes():
    made = []

    def make() -> Mixtures:
        made.append(1)
        return certain(0.2, 0.8)

    policy = policy_of(certain(0.5, 0.5, 0.5, 0.5), sites=("X", "Y"), merged=cache(make))
    assert policy.has_merged
    assert policy.decide([0.6, 0.4], sensitive_features=["a", "b"], sites=["X", "Y"]).tolist() == [1, 0]
    assert not made
    again = replace(policy, key=3)
    for each in (policy, again):
        assert each.decide(
            [0.3, 0.3], sensitive_features=["a", "b"], sites=["Z", "Z"], on_unknown="merged"
        ).tolist() == [1, 0]
    assert made == [1]


def test_a_pickled_policy_holds_the_merged_rules():
    policy = policy_of(certain(0.5, 0.5), sites=("X",), merged=lambda: certain(0.2, 0.8))
    copied = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(copied.merged.threshold, certain(0.2, 0.8).threshold)
