"""Totals under masks are the totals of the contributors, whoever vanishes, to the stated precision."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import GarbledTotalError, SecureRefusalError, SumError
from logofair.federation.secure import SecureRefusal
from support.examples import examples
from support.secure_sites import STEP, Federation, added, names, some_values, words_of

SUMS = 3
STAGES = ("keys", "shares", *(f"{stage} {r}" for r in range(1, SUMS + 1) for stage in ("masked", "unmask")))


@st.composite
def vanishings(draw):
    """A roster size, and for up to a third of its sites the stage before which each vanishes."""
    n = draw(st.integers(3, 10))
    who = draw(st.lists(st.sampled_from(names(n)), unique=True, max_size=n // 3))
    return n, {site: draw(st.sampled_from(STAGES)) for site in who}


def quantised_total(values, sites, steps):
    """In fractions: round each value to its step, half to even, and add."""
    units = [sum(round(Fraction(values[s][i]) / Fraction(step)) for s in sites) for i, step in enumerate(steps)]
    return [float(unit * Fraction(step)) for unit, step in zip(units, steps, strict=True)]


@examples(10)
@given(case=vanishings(), seed=st.integers(0, 2**32))
def test_whoever_vanishes_up_to_a_third_the_total_is_exactly_that_of_the_contributors(case, seed):
    n, when = case
    federation = Federation(n, seed=seed, agreed_without=names(n))
    steps = np.array([2.0**-20, 2.0**-30, 1.0])

    def enter(stage):
        federation.gone |= {site for site, left in when.items() if left == stage}
        return n - len(federation.gone) >= federation.server.roster.fewest

    for stage, act in (("keys", federation.keys), ("shares", federation.shares)):
        if not enter(stage):
            with pytest.raises(SumError, match="are needed"):
                act()
            return
        act()
    rng = np.random.default_rng(seed)
    for number in range(1, SUMS + 1):
        values = {site: rng.normal(size=3) * 1000 for site in federation.sites}
        federation.begin_sum(steps)
        if not enter(f"masked {number}"):
            with pytest.raises(SumError, match="masked: "):
                federation.contribute(values)
            return
        federation.contribute(values)
        contributors = set(federation.sites) - federation.gone
        assert set(federation.server.contributors) == contributors
        enter(f"unmask {number}")
        federation.unmask()
        assert federation.server.total.tolist() == quantised_total(values, contributors, steps)
        assert set(federation.server.participants) == contributors
        assert set(federation.server.missing) == set(federation.sites) - contributors


@examples(15)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.floats(1e-12, 1e3), min_size=1, max_size=4))
def test_a_total_is_right_to_half_a_step_per_contributor(seed, steps):
    federation = Federation(3, seed=seed).set_up()
    rng = np.random.default_rng(seed)
    values = {site: rng.normal(size=len(steps)) for site in federation.sites}
    total = federation.add(values, steps)
    for i, step in enumerate(steps):
        exact = sum(Fraction(values[site][i]) for site in federation.sites)
        slack = sum(abs(values[site][i]) for site in federation.sites) * 2.0**-51  # steps that are no powers of two
        assert abs(Fraction(total[i]) - exact) <= Fraction(3 * step / 2 + slack)


def test_the_largest_values_that_are_allowed_do_not_wrap():
    for n in (3, 7):
        federation = Federation(n).set_up()
        largest = 2.0**62 / n * STEP
        total = federation.add({site: np.array([largest, -largest]) for site in federation.sites})
        np.testing.assert_allclose(total, [2.0**62 * STEP, -(2.0**62) * STEP], rtol=1e-15)


@pytest.mark.parametrize("value", [np.nextafter(2.0**62 / 3 * STEP, np.inf), -1e300, np.nan, np.inf])
def test_a_value_that_could_wrap_or_is_no_number_is_refused_by_its_own_site(value):
    federation = Federation(3).set_up()
    federation.begin_sum([STEP])
    before = dict(federation.clients)
    with pytest.raises(SecureRefusalError) as refused:
        federation.masked({site: [value] for site in federation.sites})
    assert refused.value.code is SecureRefusal.OUT_OF_RANGE
    assert federation.clients == before


def test_a_site_that_refused_its_own_value_is_left_out_and_the_others_go_on():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    federation.gone = {"site-2"}
    federation.contribute(values)
    federation.unmask()
    assert federation.server.total.tolist() == added(values, ("site-0", "site-1", "site-3")).tolist()
    assert federation.server.missing == ("site-2",)


def test_an_impossible_total_is_a_clear_failure():
    federation = Federation(3).set_up()
    federation.begin_sum([STEP] * 2)
    messages = federation.masked({site: [1.0, 50.0] for site in federation.sites})
    federation.server = federation.server.collect_masked(messages)
    federation.confirm()
    words = words_of(messages["site-1"])
    words[1] += np.uint64(2**62)
    shares, contributions = federation.shares_of(), federation.server.contributions
    contributions["site-1"] = replace(contributions["site-1"], vector=words.tobytes())
    with pytest.raises(GarbledTotalError, match=r"^sum 1: entry 1 of the total is beyond its limit"):
        federation.server.collect_unmasked(shares)


def test_too_few_shares_lose_nothing_and_a_second_try_succeeds():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    federation.contribute(values)
    for stage, act in (("confirm", federation.confirm), ("unmask", federation.reveal)):
        federation.gone = {"site-0", "site-1"}
        with pytest.raises(SumError, match=rf"^{stage}: 2 of 4 sites answered usably, 3 are needed"):
            act()
        federation.gone = set()
        act()
    assert federation.server.total.tolist() == added(values, federation.sites).tolist()


def test_a_message_for_one_site_of_ten_stays_small():
    federation = Federation(10).set_up()
    federation.begin_sum([STEP] * 100)
    assert {len(blob) for blob in federation.server.deliveries["site-3"].values()} == {126}
    reply = federation.masked(some_values(federation.sites, length=100))["site-3"]
    assert len(reply.vector) == 808
    assert {len(blob) for blob in reply.material.sealed.values()} == {94}
