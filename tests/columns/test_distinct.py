"""Rows that are alike: the same numbers as a dictionary gives, however the hash falls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from logofair.columns import labels
from logofair.columns.labels import distinct_rows, encode, mostly_distinct, text_words
from support.examples import examples

modest = examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
texts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5), max_size=20)


def numbered(rows: list) -> tuple[list[int], list[int]]:
    """Each row's number and each number's first row, by a dictionary."""
    place: dict = {}
    numbers = [place.setdefault(row, len(place)) for row in rows]
    return numbers, [numbers.index(number) for number in range(len(place))]


@pytest.mark.parametrize("bits", [0, 2, 16])
@given(rows=texts)
@modest
def test_texts_are_numbered_in_the_order_they_come_however_many_share_a_slot(bits, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "_FIRST_BITS", bits or 1)
        if bits == 0:
            patch.setattr(labels, "_MOST_BITS", 1)
        found = distinct_rows(text_words(np.array(rows, dtype=np.str_)))
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == numbered(rows)


@given(places=st.lists(st.integers(0, 6), max_size=30))
@modest
def test_rows_that_share_an_object_are_alike_and_equal_objects_are_not(places):
    objects = [("x", 1), "a", None, 2.5, float("nan"), tuple(["x", 1][:2]), "b"]  # two equal tuples, two objects
    column = np.fromiter((objects[place] for place in places), dtype=object, count=len(places))
    found = distinct_rows(np.frombuffer(column, dtype=np.uintp).reshape(-1, 1))
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == numbered([id(objects[place]) for place in places])


def test_many_texts_are_numbered_as_numpy_does():
    rows = np.random.default_rng(0).integers(0, 150_000, 200_000).astype(np.str_)
    numbers, firsts = distinct_rows(text_words(rows))
    names, first, codes = np.unique(rows, return_index=True, return_inverse=True)
    assert sorted(firsts.tolist()) == sorted(first.tolist())
    assert np.array_equal(rows[firsts][numbers], names[codes])


@pytest.mark.parametrize("text", ["é", "王", "\U0001f600", "a" * 9, ""])
def test_text_of_any_width_and_script_tells_rows_apart(text):
    rows = np.array([text, text + "x", "x" + text, text])
    assert distinct_rows(text_words(rows))[0].tolist() == [0, 1, 2, 0] if text else [0, 1, 1, 0]
    assert distinct_rows(text_words(rows.astype(rows.dtype.newbyteorder(">"))))[0].tolist()[-1] == 0


def test_rows_that_never_part_are_left_to_a_dictionary(monkeypatch):
    monkeypatch.setattr(labels, "_slots", lambda rows, turn, bits: np.zeros(rows.shape[0], dtype=np.uint64))
    rows = np.array([f"{row % 90}" for row in range(400)])
    assert distinct_rows(text_words(rows)) is None
    found = encode(rows, "groups")
    assert found.names == tuple(sorted(set(rows.tolist())))
    assert [found.names[code] for code in found.codes] == rows.tolist()


def test_objects_that_rows_do_not_share_are_recognised_by_a_few_of_them():
    apart = [f"row {row % 7}" for row in range(70_000)]
    assert mostly_distinct(apart)
    assert not mostly_distinct(apart[:5000])
    same = [apart[row // 10] for row in range(70_000)]
    assert not mostly_distinct(same)
    assert encode(apart, "x").names == tuple(f"row {number}" for number in range(7))
    assert encode(np.array(apart, dtype=object), "x").codes.tolist() == [row % 7 for row in range(70_000)]
