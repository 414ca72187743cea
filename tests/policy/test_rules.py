"""The table of rules: one line per site and group that a person can read and check."""

from __future__ import annotations

import re

import numpy as np
import pytest

import logofair
from logofair.policy.mixtures import Mixtures
from logofair.policy.rules import RuleRow, RuleTable


def table_of(*cells, groups=("a", "b"), sites=(None,)) -> RuleTable:
    """Rules (weight, threshold, above) per cell, as a table."""
    filled = [[*cell, *[(0.0, 0.0, True)] * (3 - len(cell))] for cell in cells]
    weight, threshold, above = (np.array([[rule[i] for rule in cell] for cell in filled]) for i in range(3))
    return RuleTable(tuple(groups), tuple(sites), Mixtures(weight, threshold, above, np.full(len(cells), 0.5)))


@pytest.mark.parametrize(
    ("rules", "words", "needs_coin"),
    [
        ([(1.0, 0.5, True)], "accepted from a score of 0.5 up; rejected below", False),
        ([(1.0, 0.25, False)], "rejected from a score of 0.25 up; accepted below", False),
        ([(1.0, 0.0, True)], "accepted whatever the score", False),
        ([(1.0, 1.0, False)], "accepted whatever the score", False),
        ([], "rejected whatever the score", False),
        (
            [(0.6, 0.5, True), (0.4, 0.25, True)],
            "accepted from a score of 0.5 up; between 0.25 and 0.5, 40 % by a coin; rejected below",
            True,
        ),
        ([(0.9, 0.5, True)], "90 % by a coin from a score of 0.5 up; rejected below", True),
        (
            [(0.5, 0.5, True), (0.25, 0.4, False), (0.125, 0.0, True)],
            "62 % by a coin from a score of 0.5 up; between 0.4 and 0.5, 12 % by a coin; 38 % by a coin below",
            True,
        ),
        ([(0.3, 0.1, True), (0.3, 0.2, True), (0.4, 0.3, True)], None, True),
    ],
)
def test_a_rule_is_spelled_out_with_the_share_of_each_threshold(rules, words, needs_coin):
    row = table_of(rules, [(1.0, 0.5, True)])[0]
    assert row.needs_coin is needs_coin
    assert "coin from" not in row.rule if words is None else row.rule == words


def test_thresholds_that_differ_look_different():
    row = table_of([(0.6, 0.41236, True), (0.4, 0.41237, True)], [])[0]
    assert (
        row.rule == "accepted from a score of 0.41237 up; between 0.41236 and 0.41237, 60 % by a coin; rejected below"
    )
    neighbours = table_of([(0.6, 0.3, True), (0.4, 0.3 + 1e-15, True)], [])[0]
    low, high = re.search("between (.*) and (.*), 60 %", neighbours.rule).groups()
    assert float(low) < float(high)


def test_a_small_share_does_not_look_like_none_nor_a_large_one_like_all():
    row = table_of([(1 - 1e-7, 0.5, True), (1e-7, 0.0, True)], [])[0]
    assert row.rule == "accepted from a score of 0.5 up; fewer than 0.1 % by a coin below"
    assert row.needs_coin


def test_the_table_prints_every_site_and_group_in_columns():
    cells = [[(1.0, 0.5, True)], [(1.0, 0.25, True)], [], [(1.0, 0.0, True)]]
    table = table_of(*cells, groups=("men", "women"), sites=("Rome", 7))
    assert str(table).splitlines() == [
        "site    group    rule",
        "'Rome'  'men'    accepted from a score of 0.5 up; rejected below",
        "'Rome'  'women'  accepted from a score of 0.25 up; rejected below",
        "7       'men'    rejected whatever the score",
        "7       'women'  accepted whatever the score",
    ]


def test_a_table_is_read_row_by_row_from_both_ends():
    table = table_of([(1.0, 0.5, True)], [], [(0.5, 0.0, True)], [(1.0, 0.0, True)], sites=("X", "Y"))
    assert len(table) == 4
    assert list(table) == [table[i] for i in range(4)]
    assert table[-1] == table[3] == RuleRow("Y", "b", "accepted whatever the score", False)
    assert [(row.site, row.group) for row in table] == [("X", "a"), ("X", "b"), ("Y", "a"), ("Y", "b")]
    assert [row.needs_coin for row in table] == table.mixtures.mixed.tolist()
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            table[beyond]


def test_a_long_table_prints_its_beginning_and_says_how_much_is_left():
    table = table_of(*[[(1.0, 0.5, True)]] * 100, groups=range(2), sites=range(50))
    lines = str(table).splitlines()
    assert len(lines) == 42
    assert lines[-1] == "... and 60 more"
    assert len(list(table)) == 100


def test_a_policy_without_sites_speaks_of_all():
    assert str(table_of([(1.0, 0.5, True)], [])).splitlines()[1].startswith("all   'a'    accepted from")


def test_the_table_of_a_fitted_policy_states_its_mixtures():
    rng = np.random.default_rng(0)
    n = 400
    group = rng.integers(0, 2, n)
    policy = logofair.fit(
        rng.beta(1 + group, 2, n), None, groups=group, sites=rng.integers(0, 2, n), calibration="none"
    ).policy
    assert len(policy.rules) == 4
    assert [row.needs_coin for row in policy.rules] == policy.mixtures.mixed.tolist()
    assert any(row.needs_coin for row in policy.rules)


def test_policies_and_rules_show_themselves_briefly():
    solution = logofair.fit([0.9, 0.2], None, groups=["a", "b"], calibration="none", local_tolerance=None)
    assert repr(solution.policy).startswith("Policy(1 sites, 2 groups, ")
    assert repr(solution.policy.rules) == str(solution.policy.rules)
