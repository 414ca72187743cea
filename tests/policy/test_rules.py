"""The rules of a policy as bands, row by row, and in words that a person can read and check."""

from __future__ import annotations

import numpy as np
import pytest

import logofair
from logofair.policy.rules import bands_of
from support.policies import mixtures_of, policy_of


@pytest.mark.parametrize(
    ("rules", "edges", "chances"),
    [
        ([(1.0, 0.5, True)], [0, 0.5, 1], [0, 1]),
        ([(1.0, 0.25, False)], [0, 0.25, 1], [1, 0]),
        ([(1.0, 0.0, True)], [0, 1], [1]),
        ([(1.0, 1.0, False)], [0, 1], [1]),
        ([], [0, 1], [0]),
        ([(0.6, 0.5, True), (0.4, 0.25, True)], [0, 0.25, 0.5, 1], [0, 0.4, 1]),
        ([(0.9, 0.5, True)], [0, 0.5, 1], [0, 0.9]),
        ([(0.5, 0.5, True), (0.25, 0.4, False), (0.125, 0.0, True)], [0, 0.4, 0.5, 1], [0.375, 0.125, 0.625]),
    ],
)
def test_the_bands_of_a_rule_have_the_share_of_each_threshold(rules, edges, chances):
    bands = bands_of(policy_of(mixtures_of(rules, [(1.0, 0.5, True)])), 0, 0)
    np.testing.assert_allclose([*(band.low for band in bands), bands[-1].high], edges)
    np.testing.assert_allclose([band.chance for band in bands], chances)


def fitted(sites: int = 2) -> logofair.Policy:
    rng = np.random.default_rng(0)
    n = 400
    group, site = rng.integers(0, 2, n), rng.integers(0, sites, n)
    return logofair.fit(
        rng.beta(1 + group, 2, n), None, sensitive_features=group, sites=site, calibration="none"
    ).policy


def test_the_table_is_read_row_by_row_from_both_ends_and_states_the_mixtures():
    policy = fitted()
    table = policy.rules
    assert len(table) == 4
    assert list(table) == [table[i] for i in range(4)]
    assert table[-1] == table[3]
    assert [(row.site, row.group) for row in table] == [(site, group) for site in (0, 1) for group in (0, 1)]
    coins = [any(0 < band.chance < 1 for band in row.bands) for row in table]
    assert coins == policy.mixtures.mixed.tolist()
    assert any(coins)
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            table[beyond]


def test_a_table_prints_its_beginning_and_says_how_much_is_left():
    lines = str(fitted(50).rules).splitlines()
    assert lines[0].split() == ["site", "group", "rule"]
    assert len(lines) == 22
    assert lines[-1] == "... and 80 more"


def test_policies_and_rules_show_themselves_briefly():
    solution = logofair.fit([0.9, 0.2], None, sensitive_features=["a", "b"], calibration="none", local_tolerance=None)
    assert repr(solution.policy).startswith("Policy(1 sites, 2 groups, ")
    assert repr(solution.policy.rules) == str(solution.policy.rules)
    assert str(solution.policy.rules).splitlines()[0].split() == ["group", "rule"]
