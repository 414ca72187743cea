"""Coins: the same key and id give the same number anywhere, for ever, and all together they are uniform."""

from __future__ import annotations

import datetime
import decimal
import uuid

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.policy.coins import coin_words, coins, id_words, place_words, read_ids
from support.examples import examples

modest = examples(60)
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
texts = st.text(st.characters(exclude_characters="\0"), max_size=6)


def mix(word: int) -> int:
    """SplitMix64's finaliser in plain integers."""
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & MASK
    return word ^ word >> 31


def step(word: int, state: int) -> int:
    return mix((word * GOLDEN + state) & MASK)


def coin(word: int, key: int, place: int = 7) -> float:
    return (step(word, step(place, mix((key + GOLDEN) & MASK))) >> 11) / 2**53


def text_word(text: str) -> int:
    state = 0
    for position, character in enumerate(text, start=1):
        state = step(state, ord(character) + position)
    return state


def text_coin(text: str, key: int) -> float:
    return coin(text_word(text), key)


def id_coins(ids: object, key: int, place: int = 7) -> np.ndarray:
    """Coins of ids that all belong to one site and group."""
    words = id_words(ids)
    return coins(coin_words(words, np.full(words.size, place, dtype=np.uint64), key))


def row_coins(n: int, key: int) -> np.ndarray:
    return id_coins(np.arange(n), key)


# ---------------------------------------------------------------- what a coin is


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.integers(0, 2**70))
@modest
def test_an_integer_has_the_coin_of_its_64_bits(ids, key):
    expected = [coin(i & MASK, key) for i in ids]
    assert id_coins(ids, key).tolist() == expected
    assert id_coins(np.array(ids, dtype=np.int64), key).tolist() == expected


@given(st.lists(texts, max_size=5), st.integers(0, 2**70))
@modest
def test_a_text_has_the_coin_of_its_characters(ids, key):
    expected = [text_coin(i, key) for i in ids]
    assert id_coins(ids, key).tolist() == expected
    assert id_coins(np.array(ids, dtype=object), key).tolist() == expected
    assert id_coins(np.array(ids, dtype=np.str_), key).tolist() == expected


def test_coins_are_pinned_so_that_every_version_decides_alike():
    assert row_coins(3, 0).tolist() == [0.20669852500181585, 0.31566520763159533, 0.05430285515805777]
    assert id_coins([5, -1], 3).tolist() == [0.5845976152937, 0.18519664104968225]
    assert id_coins(["ann", "", "Zoë"], 3).tolist() == [0.74358506466696, 0.9918218920676956, 0.8670636949279438]
    assert id_coins([2**70], 3).tolist() == [0.7337160327810004]
    assert place_words(["north"], ["F", "M"]).tolist() == [
        8082862567162175651,
        12041132820446041425,
        6563258920446454588,
        707599067376247296,
    ]


def test_the_coin_of_a_row_depends_on_its_seed_and_position_alone():
    np.testing.assert_array_equal(row_coins(5, 7), row_coins(50, 7)[:5])
    assert not np.any(row_coins(50, 7) == row_coins(50, 8))


def test_no_rows_have_no_coins():
    for none in ([], (), np.zeros(0), np.zeros(0, dtype=np.str_), np.zeros(0, dtype=object)):
        assert id_coins(none, 1).shape == (0,)
    assert row_coins(0, 1).shape == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_row_and_the_id_0_have_coins_like_any_other(seed):
    # The mix of 0 is 0, so that nothing times anything must not be all that is mixed.
    assert row_coins(1, seed)[0] > 0.001
    assert id_coins([0], seed)[0] > 0.001
    assert id_coins([""], seed)[0] > 0.001


# ---------------------------------------------------------------- sites and groups


@given(st.lists(texts, min_size=1, max_size=4), st.lists(texts, min_size=1, max_size=3), st.integers(0, 2**70))
@modest
def test_the_site_and_then_the_group_are_mixed_in_by_their_texts(sites, groups, key):
    # Rows of sites that are not known have their group alone.
    expected = [step(text_word(g), text_word(c)) for c in [*sites, ""] for g in groups]
    places = place_words(sites, groups)
    assert places.tolist() == expected
    words = np.full(places.size, 5, dtype=np.uint64)
    assert coins(coin_words(words, places, key)).tolist() == [coin(5, key, place) for place in expected]


def test_the_same_ids_toss_unrelated_coins_at_every_site_and_in_every_group():
    ids = np.arange(20_000)
    places = place_words([f"site {k}" for k in range(6)], ["F", "M"])
    together = np.array([id_coins(ids, 0, place) for place in places.tolist()])
    related = np.corrcoef(together) - np.eye(places.size)
    assert np.abs(related).max() < 0.03
    # The mean over sites varies as that of independent coins: one twelfth, divided by their number.
    assert together.mean(axis=0).var() == pytest.approx(1 / 12 / places.size, rel=0.05)


# ---------------------------------------------------------------- one id, one coin


@given(st.lists(texts, min_size=1, max_size=5), texts)
@modest
def test_a_text_has_the_same_coin_alone_and_beside_a_longer_one(ids, other):
    beside = id_coins([*ids, other + "much longer"], 9)[:-1]
    np.testing.assert_array_equal(beside, [id_coins([i], 9)[0] for i in ids])


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", ">i8", ">i2", "O"])
def test_an_integer_has_the_same_coin_in_every_type(kind):
    ids = np.array([0, 1, 100, -1, -100])
    np.testing.assert_array_equal(id_coins(ids.astype(kind), 4), id_coins(ids.tolist(), 4))


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", ">u4"])
def test_a_positive_integer_has_the_same_coin_signed_and_unsigned(kind):
    ids = np.array([0, 1, 100])
    np.testing.assert_array_equal(id_coins(ids.astype(kind), 4), id_coins(ids, 4))


@pytest.mark.parametrize("kind", ["<U5", ">U5", "U40", "O", np.dtypes.StringDType()], ids=str)
def test_a_text_has_the_same_coin_in_every_type(kind):
    ids = ["ann", "bob", "", "Zoë", "王"]
    np.testing.assert_array_equal(id_coins(np.array(ids, dtype=kind), 4), id_coins(ids, 4))


def test_a_column_of_any_library_has_the_same_coins():
    for ids in (["ann", "bob"], [3, 2**40]):
        for form in (pandas.Series(ids), polars.Series(ids), np.array(ids)[::-1][::-1], np.array(ids)[:, None]):
            np.testing.assert_array_equal(id_coins(form, 4), id_coins(ids, 4))


def test_integers_too_large_for_one_numpy_type_keep_their_coins():
    # As an array this list would be one of floats.
    np.testing.assert_array_equal(id_coins([2**63, -1, 7], 4), [coin(2**63, 4), coin(MASK, 4), coin(7, 4)])
    together = id_coins([5, 2**64, 2**64 + 5, -(2**80), 2**200], 4)
    assert together[0] == coin(5, 4)
    assert np.unique(together).size == 5


def test_large_integers_that_share_their_last_64_bits_have_different_coins():
    # Time-based UUIDs of one machine do.
    assert np.unique(id_coins([(k << 64) + 12345 for k in range(1, 1000)], 4)).size == 999


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30))
@modest
def test_equal_ids_have_equal_coins_and_different_ones_different(ids):
    coins = id_coins(ids, 2)
    np.testing.assert_array_equal(np.equal.outer(coins, coins), np.equal.outer(np.array(ids), np.array(ids)))


def test_another_key_tosses_other_coins():
    ids = np.arange(1000)
    assert abs(np.corrcoef(id_coins(ids, 1), id_coins(ids, 2))[0, 1]) < 0.1
    assert not np.any(id_coins(ids, 1) == id_coins(ids, 2))


# ---------------------------------------------------------------- fair


@pytest.mark.parametrize(
    "coins",
    [
        row_coins(100_000, 0),
        row_coins(100_000, 1),
        id_coins(np.arange(100_000) * 2**32, 5),
        id_coins(-np.arange(100_000), 5),
        id_coins([f"patient-{k:06d}" for k in range(100_000)], 5),
        id_coins([f"{k:x}" for k in range(100_000)], 5),
    ],
    ids=["rows", "seed 1", "high bits", "negative", "padded text", "short text"],
)
def test_coins_are_uniform_and_neighbours_are_unrelated(coins):
    assert coins.min() >= 0.0
    assert coins.max() < 1.0
    counts = np.bincount((coins * 100).astype(int), minlength=100)
    chi_square = np.sum((counts - 1000.0) ** 2 / 1000.0)
    assert 50 < chi_square < 160  # 99 degrees of freedom: 4 standard deviations
    assert abs(np.corrcoef(coins[1:], coins[:-1])[0, 1]) < 0.015
    pairs = np.bincount((coins[1::2] * 10).astype(int) * 10 + (coins[::2] * 10).astype(int), minlength=100)
    assert 50 < np.sum((pairs - 500.0) ** 2 / 500.0) < 160


# ---------------------------------------------------------------- what is no id


@pytest.mark.parametrize(
    ("ids", "row"),
    [
        (["ann", None], 1),
        ([7, None], 1),
        ([None, "ann"], 0),
        (["ann", float("nan")], 1),
        ([7, 8, float("nan")], 2),
        (np.array(["ann", None], dtype=object), 1),
        (np.array([1.0, np.nan]), 0),
        (pandas.Series(["ann", None]), 1),
        (pandas.Series([7, None]), 0),
        (polars.Series(["ann", None]), 1),
        (np.array(["2020-01-01", "NaT"], dtype="M8[D]"), 0),
    ],
    ids=repr,
)
def test_a_missing_id_is_refused_by_its_row(ids, row):
    with pytest.raises(InputError, match=rf"^ids: row {row} is .*integers or text.*missing\.$"):
        read_ids(ids)


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        1.5,
        True,
        np.bool_(True),
        1j,
        b"ann",
        ("ann", 1),
        ["ann"],
        datetime.date(2020, 1, 1),
        decimal.Decimal(1),
        uuid.UUID(int=1),
        object,
    ],
    ids=repr,
)
def test_an_id_that_is_neither_an_integer_nor_text_is_refused(value):
    with pytest.raises(InputError, match=r"^ids: row 0 is .*; ids are integers or text"):
        read_ids([value, value])


@pytest.mark.parametrize("kind", ["f4", "f8", "?", "c16", "S3", "M8[D]", "m8[s]"])
def test_arrays_of_other_types_are_refused(kind):
    with pytest.raises(InputError, match=r"^ids: row 0 is .*; ids are integers or text"):
        read_ids(np.array([1, 0]).astype(kind))


@pytest.mark.parametrize("ids", [["ann", 7], [7, "ann"], np.array(["ann", 7], dtype=object)], ids=repr)
def test_integers_beside_text_are_refused(ids):
    with pytest.raises(InputError, match=r"^ids: integers and text are mixed; use one kind"):
        read_ids(ids)


@pytest.mark.parametrize("ids", [None, "ann", 7, {"ann": 1}, np.zeros((2, 2), dtype=int)], ids=repr)
def test_what_is_no_column_is_refused(ids):
    with pytest.raises(InputError, match=r"^ids: "):
        read_ids(ids)
