"""Exact counts: cells, sites and all rows within one of their summed chances, and every row keeps its chance."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.policy.coins import in_steps
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy
from support.examples import examples
from support.policies import mixtures_of, policy_of

modest = examples(80)
SITES, GROUPS = ("north", "south", "west"), ("a", "b")
inside = st.floats(0, 1, exclude_min=True, exclude_max=True)


def drawing(chances: list[float], merged: list[float] | None = None, key: int = 0) -> Policy:
    """In each cell a score from 0.4 on is accepted with the cell's chance, one from 0.8 on surely."""

    def rules(shares: list[float]) -> Mixtures:
        return mixtures_of(*[[(share, 0.4, True), (1.0 - share, 0.8, True)] for share in shares])

    return policy_of(rules(chances), GROUPS, SITES, None if merged is None else rules(merged), key)


policies = st.builds(
    drawing,
    st.lists(st.floats(0.001, 0.999), min_size=6, max_size=6),
    st.lists(st.floats(0.001, 0.999), min_size=2, max_size=2),
    st.integers(0, 2**64 - 1),
)
batches = st.lists(
    st.tuples(
        st.sampled_from([0.1, 0.5, 0.6, 0.9]),
        st.sampled_from(GROUPS),
        st.sampled_from((*SITES, "unknown")),
        st.integers(0, 99),
    ),
    max_size=40,
    unique_by=lambda row: row[3],
)


def columns(rows):
    score, group, site, person = ([row[i] for row in rows] for i in range(4))
    return {"scores": score, "sensitive_features": group, "sites": site}, person


def assert_within_one(decided, chance):
    assert abs(int(decided.sum()) - math.fsum(chance)) < 1.0 + 1e-12


# ---------------------------------------------------------------- the pass itself


@given(st.lists(inside, max_size=30), st.integers(0, 2**64 - 1))
@modest
def test_a_row_is_accepted_where_a_point_of_the_definition_falls_on_it(chances, start):
    first, begin, expected = Fraction(start, 2**64), Fraction(0), []
    for chance in chances:
        end = begin + Fraction(math.floor(Fraction(chance) * 2**64), 2**64)
        points = math.ceil(end - first) - math.ceil(begin - first)  # whole k with begin <= first + k < end
        expected.append(points == 1)
        begin = end
    assert in_steps(np.array(chances), np.uint64(start)).tolist() == expected


@given(st.lists(st.integers(1, 63), min_size=1, max_size=20))
@modest
def test_over_all_starts_each_row_is_accepted_with_its_chance_exactly(parts):
    chance = np.array(parts) / 64
    decided = [in_steps(chance, np.uint64(start << 58)) for start in range(64)]
    assert np.sum(decided, axis=0).tolist() == parts


def test_many_rows_do_not_drift():
    chance = np.random.default_rng(0).random(300_000) * 0.1
    for start in (0, 2**63, 2**64 - 1):
        decided = in_steps(chance, np.uint64(start))
        running = np.abs(np.cumsum(decided) - np.cumsum(chance.astype(np.longdouble)))
        assert running.max() < 1.0 + 1e-9


# ---------------------------------------------------------------- decisions of a policy


@given(policies, batches)
@modest
def test_every_cell_every_site_and_all_rows_are_within_one_of_their_summed_chances(policy, batch):
    rows, ids = columns(batch)
    chance = policy.probabilities(**rows, on_unknown="merged")
    decided = policy.decide(**rows, ids=ids, on_unknown="merged", exact_counts=True)
    site, group = np.array(rows["sites"]), np.array(rows["sensitive_features"])
    assert_within_one(decided, chance)
    for name in (*SITES, "unknown"):
        assert_within_one(decided[site == name], chance[site == name])
        for each in GROUPS:
            cell = (site == name) & (group == each)
            assert_within_one(decided[cell], chance[cell])
    surely = (chance == 0.0) | (chance == 1.0)
    np.testing.assert_array_equal(decided[surely], chance[surely])


@given(policies, batches, st.randoms())
@modest
def test_the_same_batch_gets_the_same_decisions_in_any_order(policy, batch, random):
    order = list(range(len(batch)))
    random.shuffle(order)

    def decide(chosen):
        rows, ids = columns(chosen)
        return policy.decide(**rows, ids=ids, on_unknown="merged", exact_counts=True)

    np.testing.assert_array_equal(decide([batch[i] for i in order]), decide(batch)[order])


def test_rows_that_share_an_id_are_told_apart_by_their_chances():
    rules = mixtures_of([(0.3, 0.2, True), (0.4, 0.4, True), (0.3, 0.6, True)], [(0.5, 0.2, True), (0.5, 0.4, True)])
    policy = policy_of(rules, key=5)
    scores = np.tile([0.3, 0.5], 10)
    ids = np.repeat(np.arange(10), 2)
    order = np.random.default_rng(1).permutation(20)
    decided = policy.decide(scores, sensitive_features=["a"] * 20, ids=ids, exact_counts=True)
    again = policy.decide(scores[order], sensitive_features=["a"] * 20, ids=ids[order], exact_counts=True)
    np.testing.assert_array_equal(again, decided[order])


def test_over_many_keys_each_row_is_accepted_with_its_chance():
    n, keys = 9, 3000
    chances = [0.5, 0.2, 0.9, 0.7, 0.35, 0.61]
    rows = {"scores": [0.5] * n, "sensitive_features": [*"ababababa"], "sites": [*SITES] * 3}
    chance = drawing(chances).probabilities(**rows)
    decided = [drawing(chances, key=key).decide(**rows, ids=range(n), exact_counts=True) for key in range(keys)]
    error = np.sqrt(chance * (1 - chance) / keys)
    assert np.all(np.abs(np.mean(decided, axis=0) - chance) <= 4.5 * error)


def test_a_row_alone_is_decided_by_its_own_coin_so_that_batches_of_one_are_not_all_alike():
    policy = drawing([0.3] * 6, key=4)
    alone = {"scores": [0.5], "sensitive_features": ["a"], "sites": ["west"]}
    both = [[policy.decide(**alone, ids=[i], exact_counts=e)[0] for e in (False, True)] for i in range(300)]
    assert all(first == second for first, second in both)
    assert 60 < sum(first for first, _ in both) < 120


def test_without_ids_the_same_batch_and_random_state_repeat():
    policy, n = drawing([0.4] * 6), 200
    rows = {"scores": [0.5] * n, "sensitive_features": ["a"] * n, "sites": ["west"] * n}
    first, again, other = (policy.decide(**rows, random_state=key, exact_counts=True) for key in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert first.sum() == other.sum() == 80


def test_exact_counts_and_no_coins_at_all_are_not_asked_for_together():
    policy = drawing([0.4] * 6)
    rows = {"scores": [0.5], "sensitive_features": ["a"], "sites": ["west"], "ids": [1]}
    with pytest.raises(InputError, match=r"^exact_counts: given together with deterministic=True"):
        policy.decide(**rows, exact_counts=True, deterministic=True)
    with pytest.raises(InputError, match=r"^exact_counts: got 'yes'; pass True or False"):
        policy.decide(**rows, exact_counts="yes")
    with pytest.raises(InputError, match=r"^ids: missing"):
        policy.decide([0.5], sensitive_features=["a"], sites=["west"], exact_counts=True)
