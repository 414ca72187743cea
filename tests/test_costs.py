"""Costs: what the two errors cost, read once, and what accepting wins by them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.columns.labels import encode, one_site
from logofair.costs import ACCURACY, Costs, read_costs
from logofair.errors import InputError
from support.examples import examples

modest = examples(60)
SITES = encode(["a", "b", "b"], "sites")
amounts = st.floats(0, 1e6)


@given(amounts, amounts.filter(bool), st.floats(0, 1))
@modest
def test_accepting_wins_what_rejecting_would_be_expected_to_cost_less_what_it_costs_itself(accepted, rejected, chance):
    costs = read_costs((accepted, rejected), SITES)
    won = chance * rejected - (1 - chance) * accepted
    assert costs.gain(np.array([chance]))[0] == pytest.approx(won, abs=1e-9 * costs.largest)


def test_accuracy_is_the_special_case_of_one_and_one():
    assert ACCURACY.gain(np.array([0.0, 0.5, 1.0])).tolist() == [-1.0, 0.0, 1.0]
    assert (ACCURACY.largest, ACCURACY.same_everywhere) == (1.0, True)


def test_every_site_may_have_costs_of_its_own():
    costs = read_costs({"b": [2, np.float32(0.5)], "a": (0, 4)}, SITES)
    assert costs.wrongly_accepted.tolist() == [0.0, 2.0]
    assert costs.wrongly_rejected.tolist() == [4.0, 0.5]
    assert (costs.same_everywhere, costs.largest, costs.only(1).largest) == (False, 4.0, 2.0)
    assert costs.at(SITES.codes).gain(np.ones(3)).tolist() == [4.0, 0.5, 0.5]
    assert costs.condensed() == {"wrongly_accepted": [0.0, 2.0], "wrongly_rejected": [4.0, 0.5]}


def test_one_pair_is_that_of_every_site():
    costs = read_costs(np.array([1, 3]), SITES)
    assert costs.only(1) is costs.at(SITES.codes) is costs
    assert costs.condensed() == {"wrongly_accepted": 1.0, "wrongly_rejected": 3.0}


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        ((-1, 3), r"^costs: a wrongly accepted row costs -1; pass a number from 0"),
        ((1, math.nan), r"^costs: a wrongly rejected row costs nan; pass a number from 0"),
        ((1, math.inf), r"^costs: a wrongly rejected row costs inf"),
        ((1, 10**400), r"^costs: a wrongly rejected row costs 1000.*; pass a number from 0 to 1e\+100\.$"),
        ((1, "3"), r"^costs: a wrongly rejected row costs '3'"),
        ((True, 3), r"^costs: a wrongly accepted row costs True"),
        ((0, 0.0), r"^costs: both errors cost 0; at least one must cost something\.$"),
        ((1, 2, 3), r"^costs: got \(1, 2, 3\); pass the cost of a wrongly accepted row and of a wrongly rejected one"),
        ((1,), r"^costs: got \(1,\); pass"),
        (3, r"^costs: got 3; pass"),
        ("13", r"^costs: got '13'; pass"),
        (np.ones((2, 2)), r"^costs: a wrongly accepted row costs"),
        ({"a": (1, 1), "c": (1, 1)}, r"^costs: names site 'c', which has no rows.*there are 2 sites"),
        ({"a": (1, 1)}, r"^costs: has no pair for site 'b'; pass one for every site\.$"),
        ({"a": (1, 1), "b": (1, -2)}, r"^costs: site 'b': a wrongly rejected row costs -2"),
        ({"a": (1, 1), "b": (0, 0)}, r"^costs: site 'b': both errors cost 0"),
        ({}, r"^costs: has no pair for site 'a'"),
    ],
)
def test_what_cannot_be_costs_is_refused_in_one_sentence(costs, sentence):
    with pytest.raises(InputError, match=sentence):
        read_costs(costs, SITES)


def test_costs_of_sites_need_sites():
    with pytest.raises(InputError, match=r"^costs: names sites, but sites= is missing"):
        read_costs({"a": (1, 1)}, one_site(3))
    assert isinstance(read_costs((1, 1), one_site(3)), Costs)
