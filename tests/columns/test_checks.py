"""The doors: what every column becomes, and the sentence that answers a bad one."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from logofair.columns import labels
from logofair.columns.checks import (
    binary,
    column,
    nearest_name,
    not_empty,
    numbers,
    probabilities,
    same_length,
    weights,
)
from logofair.columns.labels import Codes, encode, encode_known
from logofair.errors import InputError
from support.examples import examples

modest = examples(80)
integer_types = st.sampled_from([np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")])
integer_columns = integer_types.flatmap(lambda kind: arrays.arrays(kind, st.integers(1, 12)))
hashables = st.one_of(
    st.text(max_size=3),
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.binary(max_size=2),
    st.tuples(st.integers(0, 2), st.text(max_size=1)),
    st.frozensets(st.integers(0, 3), max_size=2),
    st.dates(),
    st.fractions(),
)


def decoded(codes: Codes) -> list[object]:
    return [codes.names[code] for code in codes.codes]


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3], (1, 2, 3), range(1, 4), np.array([1, 2, 3]), np.array([[1], [2], [3]]), np.array([[1, 2, 3]])],
    ids=repr,
)
def test_a_column_is_one_value_per_row_in_any_form(values):
    assert column(values, "x").tolist() == [1, 2, 3]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frame_columns_are_columns(library):
    frames = pytest.importorskip(library)
    table = frames.DataFrame({"x": [1, 2, 3], "name": ["a", "b", "a"]})
    assert column(table["x"], "x").tolist() == [1, 2, 3]
    assert column(table[["x"]], "x").tolist() == [1, 2, 3]
    assert decoded(encode(table["name"], "name")) == ["a", "b", "a"]


def test_arrow_columns_are_columns():
    arrow = pytest.importorskip("pyarrow")
    assert decoded(encode(arrow.array(["b", "a", "b"]), "x")) == ["b", "a", "b"]
    assert decoded(encode(arrow.array(["b", "a"]).dictionary_encode(), "x")) == ["b", "a"]
    assert binary(arrow.array([True, False]), "x").tolist() == [1.0, 0.0]
    with pytest.raises(InputError, match=r"^x: row 1 is missing"):
        encode(arrow.array(["b", None]), "x")


class Grumpy:
    def __repr__(self):
        return "Grumpy()"

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not on this device")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (None, r"x: got None; pass one value per row\."),
        (3, r"x: expected one value per row, got an array of shape \(\)\."),
        ("abc", r"x: expected one value per row, got an array of shape \(\)\."),
        ({1, 2}, r"x: expected one value per row, got an array of shape \(\)\."),
        (np.zeros((2, 3)), r"x: expected one value per row, got an array of shape \(2, 3\)\."),
        (np.zeros((0, 1)), r"x: expected one value per row, got an array of shape \(0, 1\)\."),
        ([[1], [2, 3]], r"x: rows of differing length; pass one value per row\."),
        (Grumpy(), r"x: got Grumpy, which is no column of values \(not on this device\)\."),
        (np.ma.array([1, 2], mask=[False, True]), r"x: some rows are masked; drop or fill such rows\."),
    ],
    ids=repr,
)
def test_what_is_no_column_is_refused(values, sentence):
    with pytest.raises(InputError, match=f"^{sentence}$"):
        column(values, "x")


def test_a_masked_array_without_masked_rows_is_a_column():
    assert column(np.ma.array([1, 2], mask=[False, False]), "x").tolist() == [1, 2]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "values",
    [
        [0, 1],
        [False, True],
        ["0", "1.0"],
        np.array([b"0", b"1"]),
        np.array([0, 1], dtype=np.uint8),
        np.array([0, 1], dtype=np.float16),
        np.array([0, True], dtype=object),
        [fractions.Fraction(0), decimal.Decimal(1)],
    ],
    ids=repr,
)
def test_numbers_of_any_type_become_doubles_and_labels_bytes(values):
    for read, kind in ((numbers, np.float64), (probabilities, np.float64), (binary, np.int8)):
        found = read(values, "x")
        assert found.dtype == kind
        assert found.tolist() == [0, 1]


@pytest.mark.parametrize("kind", [bool, np.int8, np.int64, np.float64])
def test_labels_are_never_the_callers_own(kind):
    given = np.array([0, 1], dtype=kind)
    assert not np.shares_memory(binary(given), given)


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False)))
@example(values=[1.7e308, 1.7e308])
@modest
def test_finite_numbers_are_accepted_even_where_their_sum_overflows(values):
    assert numbers(values, "x").tolist() == values


@given(values=st.lists(st.floats(), min_size=1))
@example(values=[math.inf, -math.inf])
@modest
def test_the_first_number_that_is_not_finite_is_named(values):
    rows = [i for i, value in enumerate(values) if not math.isfinite(value)]
    if rows:
        with pytest.raises(InputError, match=rf"^x: row {rows[0]} is (nan|-?inf); every value must be a finite number"):
            numbers(values, "x")
    else:
        assert numbers(values, "x").tolist() == values


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([0.5, "half"], r"x: row 1 is 'half'; expected numbers: convert them first\."),
        ([1 + 2j], r"x: row 0 is \(1\+2j\); expected numbers"),
        (np.array(["2020-01-01"], dtype="M8[D]"), r"x: row 0 is datetime\.date\(2020, 1, 1\); expected numbers"),
        ([1, 10**400], r"x: row 1 is 10000"),
        ([0.5, None], r"x: row 1 is nan; every value must be a finite number: drop or repair such rows\."),
        ([None, "x"], r"x: row 1 is 'x'; expected numbers"),
        ([0.5, {}], r"x: row 1 is \{\}; expected numbers"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused_by_its_row(values, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        numbers(values, "x")


def test_a_number_too_large_for_a_double_is_refused():
    wide = np.array([1, 0], dtype=np.longdouble)
    wide[1] = np.ldexp(np.longdouble(1), 2000)
    with pytest.raises(InputError, match=r"^x: row 1 is inf"):
        numbers(wide, "x")


def test_missing_numbers_of_pandas_are_refused():
    pandas = pytest.importorskip("pandas")
    for kind in ("Int64", "Float64", "float64"):
        with pytest.raises(InputError, match=r"^x: row 1 is "):
            numbers(pandas.Series([1, None], dtype=kind), "x")


@given(values=st.lists(st.floats(0, 1)))
@modest
def test_probabilities_from_zero_to_one_pass_unchanged(values):
    assert probabilities(values).tolist() == values


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            [0.5, 40, 99],
            r"row 1 is 40, outside \[0, 1\]; scores are probabilities of label 1: divide percentages by 100\.",
        ),
        ([0.5, 100], r"row 1 is 100, .*: divide percentages by 100\."),
        ([0.5, 100.5], r"row 1 is 100\.5, .*: pass logits through a sigmoid\."),
        ([0.5, 2.5, -1.5], r"row 1 is 2\.5, .*: pass logits through a sigmoid\."),
        ([-1e-9], r"row 0 is -1e-09, .*: pass logits through a sigmoid\."),
    ],
    ids=repr,
)
def test_scores_outside_the_range_get_a_hint(values, sentence):
    with pytest.raises(InputError, match=f"^scores: {sentence}$"):
        probabilities(values)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0, 2], "row 1 is 2"),
        ([1, -1], "row 1 is -1"),
        ([0.0, 0.5], r"row 1 is 0\.5"),
        ([0, math.nan], "row 1 is nan"),
        ([0, None], "row 1 is None"),
        (["0", "1", "yes"], "row 2 is 'yes'"),
        (["no"], "row 0 is 'no'"),
        ([0, "x" * 100], "row 1 is 'x{36}\\.\\.\\."),
        ([1j], "row 0 is 1j"),
    ],
    ids=repr,
)
def test_labels_other_than_zero_and_one_are_refused_by_their_row(values, shown):
    with pytest.raises(InputError, match=f"^labels: {shown}; expected 0 and 1: map the positive label to 1"):
        binary(values)


def test_empty_columns_of_any_type_are_empty_numbers():
    for kind in ("f8", "O", "U1", "M8[D]", "c16"):
        assert numbers(np.zeros(0, dtype=kind), "x").shape == (0,)
        assert binary(np.zeros(0, dtype=kind), "x").shape == (0,)
        assert probabilities(np.zeros(0, dtype=kind), "x").shape == (0,)


# ---------------------------------------------------------------- weights and lengths


def test_no_weights_are_equal_weights():
    assert weights(None, 3) is None
    assert weights([1, 0, 2.5], 3).tolist() == [1.0, 0.0, 2.5]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1, 2], r"has 2 rows, but the first column has 3; pass one value per row\."),
        ([1, -2, 1], r"row 1 is -2; weights must not be negative\."),
        ([0, 0, 0], r"all weights are zero; at least one row must count\."),
        ([1, math.nan, 1], r"row 1 is nan; every value must be a finite number"),
        ([1.7e308] * 3, r"their sum is infinite; divide all weights by the largest\."),
    ],
    ids=repr,
)
def test_unusable_weights_are_refused(values, sentence):
    with pytest.raises(InputError, match=f"^sample_weight: {sentence}"):
        weights(values, 3)


def test_lengths_are_compared_and_absent_columns_skipped():
    same_length(2, a=np.zeros(2), b=None, c=encode(["x", "y"], "c"))
    with pytest.raises(InputError, match=r"^c: has 1 rows, but the first column has 2; pass one value per row\.$"):
        same_length(2, a=np.zeros(2), c=encode(["x"], "c"))


def test_no_rows_are_refused():
    not_empty(1, "decisions")
    with pytest.raises(InputError, match=r"^decisions: no rows; pass at least one\.$"):
        not_empty(0, "decisions")


# ---------------------------------------------------------------- names


def test_a_misspelt_name_gets_the_nearest_known_one():
    known = ["demographic_parity", "equalized_odds"]
    assert nearest_name("equalised_odds", known) == " (did you mean 'equalized_odds'?)"
    assert nearest_name("", known) == ""
    assert nearest_name("quux", known) == ""
    assert nearest_name(12, [11, 120, 900]) == " (did you mean '120'?)"
    assert nearest_name("x", []) == ""


# ---------------------------------------------------------------- encoding


@pytest.mark.parametrize(
    ("values", "names", "codes"),
    [
        ([0, 1, 0], (0, 1), [0, 1, 0]),
        ([7, 3, 7, 1000], (3, 7, 1000), [1, 0, 1, 2]),
        ([5, -3, 0], (-3, 0, 5), [2, 0, 1]),
        ([10**9, -(10**9), 5], (-(10**9), 5, 10**9), [2, 0, 1]),
        ([10**30, 1], (1, 10**30), [1, 0]),
        ([2**63, 2**63 + 1, -1], (-1, 2**63, 2**63 + 1), [1, 2, 0]),
        ([True, False], (False, True), [1, 0]),
        ([True, True], (True,), [0, 0]),
        ([2.5, -1.0, 2.5], (-1.0, 2.5), [1, 0, 1]),
        (["b", "a", "b"], ("a", "b"), [1, 0, 1]),
        (["a\0", "a"], ("a", "a\0"), [1, 0]),
        ([1, "1", 1], (1, "1"), [0, 1, 0]),
        (["x", 2, 1.5, True], (True, 1.5, 2, "x"), [3, 2, 1, 0]),
        ([(1, "b"), (1, "a")], ((1, "a"), (1, "b")), [1, 0]),
        ([(1, "b"), (1,)], ((1,), (1, "b")), [1, 0]),
        ([b"b", b"a"], (b"a", b"b"), [1, 0]),
        ([np.int64(4), np.str_("x")], (4, "x"), [0, 1]),
        (np.array([128, 255, 128], dtype=np.uint8), (128, 255), [0, 1, 0]),
        (np.array([-128, 127], dtype=np.int8), (-128, 127), [0, 1]),
        (np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64), (2**64 - 2, 2**64 - 1), [1, 0]),
        (np.array([2**64 - 1, 0], dtype=np.uint64), (0, 2**64 - 1), [1, 0]),
        (np.array([-(2**63), 2**63 - 1]), (-(2**63), 2**63 - 1), [0, 1]),
        (np.array([2**63 - 1, 2**63 - 2]), (2**63 - 2, 2**63 - 1), [1, 0]),
        (np.array([-(2**63), -(2**63) + 1]), (-(2**63), -(2**63) + 1), [0, 1]),
        (np.array(["b", "a"]), ("a", "b"), [1, 0]),
        (np.array(["b", 1], dtype=object), (1, "b"), [1, 0]),
        (np.array(["b", "a"], dtype=np.dtypes.StringDType()), ("a", "b"), [1, 0]),
        (np.array([(1, 2), (0, 2)], dtype="i4,i4"), ((0, 2), (1, 2)), [1, 0]),
        (np.array(["2021", "2020"], dtype="M8[D]"), (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), [1, 0]),
        ([], (), []),
    ],
    ids=repr,
)
def test_labels_are_numbered_in_sorted_order(values, names, codes):
    found = encode(values, "groups")
    assert found.names == names
    assert [type(name) for name in found.names] == [type(name) for name in names]
    assert found.codes.tolist() == codes
    assert found.codes.dtype == np.int32
    assert len(found) == len(codes)


@given(values=st.lists(hashables, max_size=12))
@modest
def test_every_list_of_labels_can_be_decoded_again(values):
    found = encode(values, "groups")
    assert decoded(found) == values
    assert set(found.names) == set(values)
    assert len(found.names) == len(set(values))


@given(values=integer_columns)
@modest
def test_every_integer_column_can_be_decoded_again(values):
    found = encode(values, "groups")
    assert decoded(found) == values.tolist()
    assert list(found.names) == sorted(set(values.tolist()))


@given(values=st.lists(st.text(max_size=2) | st.integers(-3, 3), min_size=1, max_size=12), random=st.randoms())
@modest
def test_the_names_do_not_depend_on_the_order_of_rows(values, random):
    shuffled = random.sample(values, len(values))
    assert encode(shuffled, "groups").names == encode(values, "groups").names


def test_labels_whose_comparison_overflows_have_a_fixed_order_too():
    values = [np.int8(-1), fractions.Fraction(1, 128), False]
    assert encode(values, "groups").names == encode(values[::-1], "groups").names


def test_pandas_labels_are_encoded_as_their_values():
    pandas = pytest.importorskip("pandas")
    ordered = pandas.Categorical(["low", "high"], categories=["low", "mid", "high"], ordered=True)
    assert decoded(encode(pandas.Series(ordered), "groups")) == ["low", "high"]
    assert decoded(encode(ordered, "groups")) == ["low", "high"]
    for kind in ("Int64", "string", "category", "str", "object"):
        assert decoded(encode(pandas.Series([3, 1, 3]).astype(kind), "groups")) in ([3, 1, 3], ["3", "1", "3"])
    assert encode(pandas.Series([3, 1], dtype="Int64"), "groups").names == (1, 3)
    assert encode(pandas.Index([3, 1]), "groups").names == (1, 3)
    pairs = pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    assert encode(pairs, "groups").names == (("a", 1), ("b", 2))


coded_columns = {
    "pandas": lambda frames, values: frames.Categorical(values, categories=["unused", *dict.fromkeys(values)]),
    "pandas series": lambda frames, values: frames.Series(values, dtype="category"),
    "pandas index": lambda frames, values: frames.CategoricalIndex(values),
    "pandas text": lambda frames, values: frames.Series(values, dtype="str"),
    "polars": lambda frames, values: frames.Series(values).cast(frames.Categorical),
    "polars enum": lambda frames, values: frames.Series(values).cast(
        frames.Enum([*sorted(set(values), reverse=True), "?"])
    ),
    "polars text": lambda frames, values: frames.Series(values),
    "pyarrow": lambda frames, values: frames.array(values).dictionary_encode(),
    "pyarrow chunks": lambda frames, values: frames.chunked_array(
        [frames.array(part, frames.string()).dictionary_encode() for part in (values[:2], values[2:])]
    ),
    "pyarrow text": lambda frames, values: frames.array(values),
}


@pytest.mark.parametrize("form", coded_columns)
def test_columns_that_hold_codes_are_numbered_like_their_labels(form):
    frames = pytest.importorskip(form.split()[0])
    values = ["M", "F", "M", "x", "F", "M"]
    column = coded_columns[form](frames, values)
    expected = encode(values, "groups")
    found = encode(column, "groups")
    assert (found.names, found.codes.tolist()) == (expected.names, expected.codes.tolist())
    assert found.codes.dtype == np.int32
    assert encode_known(column, ("x", "M"), "groups").tolist() == [1, -1, 1, 0, -1, 1]
    assert encode(column[:0], "groups").names == ()


@pytest.mark.parametrize("form", [form for form in coded_columns if form != "pandas"])
def test_missing_labels_of_columns_that_hold_codes_are_refused_by_their_row(form):
    frames = pytest.importorskip(form.split()[0])
    make = {"polars enum": lambda: frames.Series(["a", "b", None]).cast(frames.Enum(["a", "b"]))}
    column = make.get(form, lambda: coded_columns[form](frames, ["a", "b", None]))()
    with pytest.raises(InputError, match=r"^groups: row 2 is missing"):
        encode(column, "groups")


@pytest.mark.parametrize(
    "last", ["woman", 7, None, float("nan"), decimal.Decimal("NaN"), ("man", 1), np.str_("man"), [], math.inf]
)
def test_text_in_objects_of_its_own_is_numbered_with_pandas_as_without(last, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.setattr(labels, "mostly_distinct", lambda rows: True)
    rows = np.array(["man", "woman", "man", "x", None], dtype=object)
    rows[-1] = last

    def outcome():
        try:
            found = encode(rows, "groups")
        except InputError as error:
            return str(error)
        return found.names, list(map(type, found.names)), found.codes.tolist(), found.codes.dtype

    with_pandas = outcome()
    monkeypatch.setattr(labels, "_distinct_by_pandas", lambda rows, where: None)
    assert outcome() == with_pandas
    assert "row 4 is missing" in with_pandas if last is None else with_pandas


def test_categories_need_not_be_text():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([3, 1, 3, 2]).astype("category")[:3]
    assert (encode(column, "groups").names, encode(column, "groups").codes.tolist()) == ((1, 3), [1, 0, 1])
    assert encode_known(column, (3,), "groups").tolist() == [0, -1, 0]


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (["F", None], 1),
        (["F", math.nan], 1),
        ([math.nan, 1.0], 0),
        (np.array([1.0, math.nan]), 1),
        (np.array(["F", math.nan], dtype=object), 1),
        (np.array(["2020", "NaT"], dtype="M8[D]"), 1),
        ([1, 2, np.datetime64("NaT")], 2),
        ([decimal.Decimal("NaN"), 1], 0),
        ([None, ["unhashable"]], 0),
    ],
    ids=repr,
)
def test_missing_labels_are_refused_by_their_row(values, row):
    for read in (lambda: encode(values, "groups"), lambda: encode_known(values, ("F", 1), "groups")):
        with pytest.raises(InputError, match=rf"^groups: row {row} is missing; drop such rows, or give them a label"):
            read()


@pytest.mark.parametrize("kind", ["Int64", "string", "category", "object", "float", "boolean"])
def test_missing_labels_of_pandas_are_refused(kind):
    pandas = pytest.importorskip("pandas")
    values = pandas.Series([1, 0, None]).astype({"string": "object", "boolean": "boolean"}.get(kind, kind))
    with pytest.raises(InputError, match=r"^groups: row 2 is missing"):
        encode(values, "groups")
    with pytest.raises(InputError, match=r"^groups: row 2 is missing"):
        encode(pandas.Series(["a", "b", pandas.NA], dtype="string"), "groups")


@pytest.mark.parametrize("values", [[["F"], ["M"]], [{"F"}, "M"], ["F", {}], [np.zeros(1), np.ones(1)]], ids=repr)
def test_unhashable_labels_are_refused_by_value(values):
    with pytest.raises(InputError, match=r"^groups: labels must be hashable \(text, numbers, tuples\), got [\[{a]"):
        encode(values, "groups")


def test_a_table_in_place_of_labels_is_refused():
    with pytest.raises(InputError, match=r"^groups: expected one value per row, got an array of shape \(2, 2\)\.$"):
        encode(np.array([["F", "M"], ["M", "F"]]), "groups")


# ---------------------------------------------------------------- encoding by known names


@pytest.mark.parametrize(
    ("values", "names", "codes"),
    [
        ([3, 5, 4], (5, 3), [1, 0, -1]),
        ([2, 6, -(10**18), 10**18], (3, 5), [-1, -1, -1, -1]),
        (np.array([0, 1, 255, 2], dtype=np.uint8), (0, 1), [0, 1, -1, -1]),
        (np.array([0, 4, 5, 255], dtype=np.uint8), (5, 7), [-1, -1, 0, -1]),
        (np.array([0, 1, 255], dtype=np.uint8), (1000, 1001), [-1, -1, -1]),
        (np.array([0, 255], dtype=np.uint8), (-1, 0, 255), [1, 2]),
        (np.array([-128, 127], dtype=np.int8), (-128, 127, 300), [0, 1]),
        (np.array([2**64 - 1, 1, 2**63], dtype=np.uint64), (1, 2), [-1, 0, -1]),
        (np.array([2**64 - 1, 1], dtype=np.uint64), (2**64 - 1, -1), [0, -1]),
        (np.array([2**64 - 1, 0], dtype=np.uint64), (-1, 0), [-1, 1]),
        (np.array([-(2**63), 2**63 - 1, 0]), (0, 1), [-1, -1, 0]),
        (np.array([-(2**63), 2**63 - 1, 0]), (-(2**63), -(2**63) + 1), [0, -1, -1]),
        (np.array([-(2**63), 2**63 - 1, 0]), (-(2**63), 2**63 - 1), [0, 1, -1]),
        (np.array([2**63 - 1, 0]), (2**63 - 2, 2**63 - 1), [1, -1]),
        ([0, 10**6, 5], (0, 10**6), [0, 1, -1]),
        ([True, False], (0, 1), [1, 0]),
        ([1, 0, 2], (False, True), [1, 0, -1]),
        ([1.0, 2.0, 2.5], (1, 2), [0, 1, -1]),
        (["b", "c", "a"], ("a", "b"), [1, -1, 0]),
        (["1", 1], (1,), [-1, 0]),
        ([(1, 2), (3, 4)], ((3, 4),), [-1, 0]),
        ([5, 6], (), [-1, -1]),
        ([], (5, 6), []),
        ([], ("a",), []),
    ],
    ids=repr,
)
def test_labels_are_numbered_by_their_place_among_the_known(values, names, codes):
    found = encode_known(values, names, "groups")
    assert found.tolist() == codes
    assert found.dtype == np.int32


@given(
    values=integer_columns, names=st.lists(st.integers(-(2**64), 2**64) | st.integers(-9, 9), unique=True, max_size=6)
)
@modest
def test_known_integers_are_found_and_all_others_are_not(values, names):
    names += [int(value) for value in values[:3] if int(value) not in names]
    names = list(dict.fromkeys(names))
    expected = [names.index(value) if value in names else -1 for value in values.tolist()]
    assert encode_known(values, tuple(names), "groups").tolist() == expected


@given(values=st.lists(hashables, max_size=10), names=st.lists(hashables, max_size=5))
@modest
def test_known_labels_of_any_type_are_found_and_all_others_are_not(values, names):
    names = list(dict.fromkeys([*names, *values[::2]]))
    expected = [names.index(value) if value in names else -1 for value in values]
    assert encode_known(values, tuple(names), "groups").tolist() == expected


@given(values=st.lists(hashables, min_size=1, max_size=10))
@modest
def test_a_column_is_known_by_its_own_names(values):
    own = encode(values, "groups")
    assert encode_known(values, own.names, "groups").tolist() == own.codes.tolist()
