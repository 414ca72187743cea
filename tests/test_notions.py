"""Rates, notions and tolerances: what they mean, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.notions import (
    DEMOGRAPHIC_PARITY,
    EQUAL_OPPORTUNITY,
    EQUALIZED_ODDS,
    NOTIONS,
    PREDICTIVE_EQUALITY,
    Notion,
    Rate,
    named_notion,
    sides,
)
from logofair.requirements import _SMALLEST_TOLERANCE, DEFAULT, check_tolerance, requirements_of_notion
from support.examples import examples

modest = examples(60)
SELECTION, TRUE_POSITIVE, FALSE_POSITIVE = Notion("all", given=(None, 1, 0)).rates
BENEFIT = Rate("benefit", -1.0, 2.0, base=(1.0, 0.0))

chances = st.floats(0, 1)
row_lists = st.lists(st.tuples(chances, chances, st.floats(0.1, 3)), min_size=1, max_size=10)


# ---------------------------------------------------------------- rates


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(SELECTION, 0.5), (TRUE_POSITIVE, 0.75), (FALSE_POSITIVE, 0.25), (BENEFIT, 0.25)],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_rates_of_four_rows_agree_with_hand_computation(rate, expected):
    # Two rows accepted out of four, eta 1 and 1/2; in all, eta adds up to 2.
    # Selection 2/4; true positives 1.5/2; false positives 0.5/2; benefit (1.5 - 0.5)/4.
    found = rate.numerator(np.array(2.0), np.array(1.5)) / rate.denominator(np.array(4.0), np.array(2.0))
    assert found == expected


@pytest.mark.parametrize("rate", [SELECTION, TRUE_POSITIVE, FALSE_POSITIVE, BENEFIT], ids=lambda rate: rate.name)
@given(rows=row_lists)
@modest
def test_sums_over_rows_and_sums_over_masses_agree(rate, rows):
    eta, chance, weight = (np.array(values) for values in zip(*rows, strict=True))
    top = rate.numerator(np.sum(weight * chance), np.sum(weight * chance * eta))
    bottom = rate.denominator(np.sum(weight), np.sum(weight * eta))
    assert top == pytest.approx(np.sum(weight * chance * rate.numerator(1.0, eta)), abs=1e-9)
    assert bottom == pytest.approx(np.sum(weight * rate.denominator(1.0, eta)), abs=1e-9)


@pytest.mark.parametrize("rate", [SELECTION, TRUE_POSITIVE, FALSE_POSITIVE, Rate("mine", 2.0, -1.5)])
@given(mass=st.floats(0.1, 100), share=chances)
@modest
def test_accepting_all_makes_a_rate_without_its_own_base_one(rate, mass, share):
    everything = rate.numerator(np.array(mass), np.array(mass * share))
    assert everything == rate.denominator(np.array(mass), np.array(mass * share))


def test_lines_are_evaluated_for_numbers_and_arrays_alike():
    assert BENEFIT.numerator(1.0, 0.75) == 0.5
    assert BENEFIT.numerator(1.0, np.array([0.0, 0.5, 1.0])).tolist() == [-1.0, 0.0, 1.0]
    assert BENEFIT.denominator(1.0, np.array([0.0, 1.0])).tolist() == [1.0, 1.0]
    assert FALSE_POSITIVE.denominator(1.0, 0.25) == 0.75


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("r", math.inf, 0.0), r"Rate 'r': its lines in eta must be pairs of finite numbers, got \(inf, 0\.0\)"),
        (("r", 0.0, math.nan), r"Rate 'r': its lines in eta must be pairs of finite numbers"),
        (("r", 1.0, 0.0, (1.0, math.inf)), r"Rate 'r': its lines in eta must be pairs of finite numbers"),
        (("r", "1", 0.0), r"Rate 'r': its lines in eta must be pairs of finite numbers, got \('1', 0\.0\)"),
        (("r", None, 0.0), r"Rate 'r': its lines in eta must be pairs of finite numbers"),
        (("r", 10**400, 0.0), r"Rate 'r': its lines in eta must be pairs of finite numbers"),
        (("r", 1.0, 0.0, (1.0,)), r"Rate 'r': its lines .* and base=\(1\.0,\)\."),
        (("r", 1.0, 0.0, (1.0, 0.0, 0.0)), r"Rate 'r': its lines in eta must be pairs"),
        (("r", 1.0, 0.0, 1.0), r"Rate 'r': its lines .* and base=1\.0\."),
        (("r", 1.0, 0.0, ("a", "b")), r"Rate 'r': its lines in eta must be pairs"),
        (("r", -1.0, 2.0), r"Rate 'r': the denominator -1 \+ 2 \* eta must not be negative for eta between 0 and 1"),
        (("r", 1.0, 0.0, (1.0, -2.0)), r"Rate 'r': the denominator 1 \+ -2 \* eta must not be negative"),
        (("r", 0.0, 0.0), r"Rate 'r': the denominator 0 \+ 0 \* eta must not be .* nor zero throughout; pass another"),
        (("r", 1.0, 0.0, (0.0, -0.0)), r"Rate 'r': the denominator .* nor zero throughout"),
        ((3, 1.0, 0.0), r"Rate: its name must be text, got 3\."),
        ((["r"], 1.0, 0.0), r"Rate: its name must be text, got \['r'\]\."),
    ],
    ids=repr,
)
def test_a_rate_that_cannot_be_measured_is_refused(arguments, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        Rate(*arguments)


@pytest.mark.parametrize("base", [(0.0, 1.0), (1.0, -1.0), (1.0, 0.0), (2.0, -1.5)])
def test_a_denominator_may_vanish_at_one_end(base):
    assert Rate("r", 1.0, 0.0, base=base).denominator(1.0, 0.5) > 0


def test_rates_are_values():
    listed = Rate("r", 1, 0, base=[1, 0])
    assert listed == Rate("r", 1.0, 0.0, base=(1.0, 0.0))
    assert hash(listed) == hash(Rate("r", 1.0, 0.0, base=(1.0, 0.0)))
    assert Rate("r", np.float32(1), np.int64(0)) == Rate("r", 1.0, 0.0)


# ---------------------------------------------------------------- notions


def test_the_named_notions_are_conditioned_as_the_paper_says():
    assert {name: notion.given for name, notion in NOTIONS.items()} == {
        "demographic_parity": (None,),
        "equal_opportunity": (1,),
        "predictive_equality": (0,),
        "equalized_odds": (1, 0),
    }
    assert EQUALIZED_ODDS.rates == EQUAL_OPPORTUNITY.rates + PREDICTIVE_EQUALITY.rates
    assert [rate.name for rate in EQUALIZED_ODDS.rates] == ["true positive rate", "false positive rate"]


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ((None,), False),
        ((1,), True),
        ((0,), True),
        ((None, 1), True),
        ((BENEFIT,), True),
        ((Rate("r", 2.0, 0.0, base=(1.0, 0.0)),), False),
        ((Rate("r", 1.0, 0.0, base=(1.0, -1.0)),), True),
    ],
    ids=repr,
)
def test_labels_are_needed_exactly_where_eta_enters_a_line(given, needed):
    assert Notion("mine", given=given).needs_labels is needed


@pytest.mark.parametrize("given", [(1, 0), [1, 0], (1.0, np.int64(0))], ids=repr)
def test_the_labels_of_a_notion_may_come_in_a_list(given):
    notion = Notion("mine", given=given)
    assert notion.rates == EQUALIZED_ODDS.rates
    assert hash(notion) == hash(Notion("mine", given=(1, 0)))


def test_a_single_condition_needs_no_tuple():
    assert Notion("mine", given=None).rates == DEMOGRAPHIC_PARITY.rates
    assert Notion("mine", given=1).given == (1,)
    assert Notion("mine", given=BENEFIT).rates == (BENEFIT,)


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("mine", (), r"Notion 'mine': given= is empty; name at least one rate, e\.g\. given=\(None,\)\."),
        ("mine", [], r"Notion 'mine': given= is empty"),
        (
            "mine",
            (2,),
            r"Notion 'mine': given= holds 2; a rate is conditioned on None, 0 or 1, or is a logofair\.Rate\.",
        ),
        ("mine", ("1",), r"Notion 'mine': given= holds '1'"),
        ("mine", (True,), r"Notion 'mine': given= holds True"),
        ("mine", (math.nan,), r"Notion 'mine': given= holds nan"),
        ("mine", ((1, 0),), r"Notion 'mine': given= holds \(1, 0\)"),
        ("mine", (np.array([1]),), r"Notion 'mine': given= holds array\(\[1\]\)"),
        ("mine", (np.array([1, 0]),), r"Notion 'mine': given= holds array\(\[1, 0\]\)"),
        ("mine", {1}, r"Notion 'mine': given= holds \{1\}"),
        (None, (1,), r"Notion: its name must be text, got None\."),
    ],
    ids=repr,
)
def test_a_notion_of_no_rate_is_refused(name, given, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        Notion(name, given=given)


def test_notions_are_found_by_name_or_passed_through():
    own = Notion("mine", given=(1,))
    assert named_notion(own, "notion") is own
    assert named_notion("equalized_odds", "notion") is EQUALIZED_ODDS


@pytest.mark.parametrize(
    ("notion", "sentence"),
    [
        (
            "equal_odds",
            r"unknown notion 'equal_odds' \(did you mean 'equalized_odds'\?\); use one of demographic_parity,",
        ),
        ("DP", r"unknown notion 'DP'; use one of .*, or a logofair\.Notion\.$"),
        (3, r"unknown notion 3; use one of"),
        (["equalized_odds"], r"unknown notion \['equalized_odds'\]"),
        (None, r"unknown notion None"),
        ("x" * 5000, r"unknown notion 'x{36}\.\.\.; use one of"),
    ],
    ids=repr,
)
def test_an_unknown_notion_is_refused_with_the_known_ones(notion, sentence):
    with pytest.raises(InputError, match=f"^notion: {sentence}"):
        named_notion(notion, "notion")


# ---------------------------------------------------------------- tolerances


@pytest.mark.parametrize(
    ("tolerance", "value"),
    [
        (None, None),
        (0, 0.0),
        (0.02, 0.02),
        (1, 1.0),
        (2.5, 2.5),
        (-0.0, 0.0),
        (_SMALLEST_TOLERANCE, _SMALLEST_TOLERANCE),
        (_SMALLEST_TOLERANCE / 2, 0.0),
        (5e-324, 0.0),
        (np.float32(0.5), 0.5),
        (np.int64(1), 1.0),
        (Fraction(1, 4), 0.25),
    ],
    ids=repr,
)
def test_tolerances_are_numbers_and_the_tiny_ones_zero(tolerance, value):
    found = check_tolerance(tolerance, "local_tolerance", of_shares=False)
    assert found == value
    assert found is None or type(found) is float


@pytest.mark.parametrize(
    "tolerance",
    [
        *(
            True,
            False,
            np.True_,
            "0.02",
            b"1",
            [0.02],
            (0.02,),
            np.array(0.02),
            {},
            1j,
            math.nan,
            Decimal("0.1"),
            object,
        ),
        *(math.nan, -1e-12, -1, math.inf, -math.inf, 10**400),
    ],
    ids=lambda value: repr(value)[:9],
)
def test_a_tolerance_that_is_no_number_or_out_of_range_is_refused(tolerance):
    with pytest.raises(InputError, match=r"^local_tolerance: a tolerance is a number from 0 to 1e\+100, or None"):
        check_tolerance(tolerance, "local_tolerance", of_shares=False)


@pytest.mark.parametrize("tolerance", [1, 2, 2.5e307])
def test_a_tolerance_of_one_or_more_for_shares_is_refused(tolerance):
    with pytest.raises(InputError, match=r"^local_tolerance: .*below 1.*None"):
        requirements_of_notion("equalized_odds", tolerance, None)


def asked(*given, **more):
    """What the short way asks for, as sentences."""
    return [str(item) for item in requirements_of_notion(*given, **more)[0]]


def test_a_rate_of_ones_own_has_tolerances_in_its_own_unit():
    own = Notion("mine", given=(BENEFIT, None))
    with pytest.raises(InputError, match=r"between shares|below 1"):
        requirements_of_notion(own, 1500, None)  # one of its two rates is a share
    alone = Notion("alone", given=(BENEFIT,))
    assert asked(alone, 1500, None) == ["benefit gap <= 1500 per site"]
    with pytest.raises(InputError, match=r"^local_tolerance: .* from 0 to 1e\+100, .*; got 2\.5e\+307\."):
        requirements_of_notion(alone, 2.5e307, None)


# ---------------------------------------------------------------- the short way and sides


def test_a_notion_is_spelt_out_as_one_requirement_per_rate_but_for_equalized_odds():
    assert asked("equalized_odds", 0.02, None) == ["equalized odds gap <= 0.02 per site"]
    own = Notion("mine", given=(BENEFIT, None))
    assert asked(own, None, 0.1) == ["benefit gap <= 0.1 overall", "selection rate gap <= 0.1 overall"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((DEFAULT, DEFAULT, DEFAULT), ["selection rate gap <= 0.02 per site", "selection rate gap <= 0.02 overall"]),
        ((DEFAULT, 0.1, DEFAULT), ["selection rate gap <= 0.1 per site"]),
        ((DEFAULT, DEFAULT, 0.1), ["selection rate gap <= 0.1 overall"]),
        ((DEFAULT, None, DEFAULT), []),
        (("equal_opportunity", 0, None), ["true positive rate gap <= 0 per site"]),
        (
            ({"local": "demographic_parity", "global": "equal_opportunity"}, 0.1, 0.2),
            ["selection rate gap <= 0.1 per site", "true positive rate gap <= 0.2 overall"],
        ),
    ],
)
def test_nobody_gets_a_requirement_they_did_not_write(given, found):
    assert asked(*given) == found


def test_beside_sentences_the_short_way_adds_nothing_unless_it_is_taken():
    assert asked(DEFAULT, DEFAULT, DEFAULT, alone=True) == []
    assert asked("equal_opportunity", DEFAULT, DEFAULT, alone=True) == [
        "true positive rate gap <= 0.02 per site",
        "true positive rate gap <= 0.02 overall",
    ]


@pytest.mark.parametrize(
    ("notion", "tolerance", "sentence"),
    [
        ("equalized_odds", "0.1", r"local_tolerance: a tolerance is a number"),
        ("equalized_odds", True, r"local_tolerance: a tolerance is a number"),
        ("equalized_odds", -1, r"local_tolerance: a tolerance is a number .*; got -1\."),
        ({"parity": 0.1}, 0.1, r"notion: got {'parity': 0\.1}"),
        ("parity", 0.1, r"notion: unknown notion 'parity'"),
    ],
    ids=repr,
)
def test_bad_requirements_are_refused(notion, tolerance, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        requirements_of_notion(notion, tolerance, None)


@pytest.mark.parametrize("notion", ["equalized_odds", EQUALIZED_ODDS], ids=repr)
def test_one_notion_serves_both_sides(notion):
    assert sides(notion) == (notion, notion)


def test_a_mapping_by_side_is_split():
    split = sides({"global": "equalized_odds", "local": "demographic_parity"})
    assert split == ("demographic_parity", "equalized_odds")


@pytest.mark.parametrize(
    ("notion", "sentence"),
    [
        (
            {"local": "x"},
            r"notion: a mapping by side needs both 'local' and 'global', got \['local'\]; switch a side off",
        ),
        ({"local": "x", "global": "y", 3: 0.1}, r"notion: a mapping by side .* got \['3', 'global', 'local'\]"),
        (None, r"notion: got None; use one of demographic_parity, .*, a logofair\.Notion or a mapping\."),
        (["equalized_odds"], r"notion: got \['equalized_odds'\]; use one of"),
        (BENEFIT, r"notion: got Rate\("),
    ],
    ids=repr,
)
def test_what_names_no_side_is_refused(notion, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        sides(notion)
