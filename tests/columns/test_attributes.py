"""Several attributes at once: what users pass, the intersections that occur, and the groups of each attribute."""

from __future__ import annotations

import pickle
from collections.abc import Hashable

import numpy as np
import pandas as pd
import polars as pl
import pytest

from logofair import InputError
from logofair.columns.attributes import Attributes, known_groups, read_groups
from logofair.records import Intersection, plain, read

SEX, RACE = ["women", "men", "women", "men"], ["Black", "white", "white", "white"]


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_cells_are_the_intersections_that_occur_whatever_holds_the_columns(frame):
    found = read_groups(frame({"sex": SEX, "race": RACE}))
    assert found.names == (("men", "white"), ("women", "Black"), ("women", "white"))
    assert found.codes.tolist() == [1, 0, 2, 0]
    assert {name.columns for name in found.names} == {("sex", "race")}
    assert str(found.names[1]) == "women and Black"


def test_a_single_column_has_its_own_groups_and_its_name():
    for given in ({"sex": SEX}, pd.DataFrame({"sex": SEX}), pd.Series(SEX, name="sex")):
        found = read_groups(given)
        assert (found.names, found.column) == (("men", "women"), "sex")
    assert read_groups(SEX).column is None


def test_groups_of_some_columns_are_unions_of_intersections():
    attributes = Attributes(read_groups({"sex": SEX, "race": RACE}).names)
    assert attributes.parted(["sex"])[0] == ("men", "women")
    assert attributes.parted(["sex"])[1].tolist() == [0, 1, 1]
    assert attributes.parted(["race"])[1].tolist() == [1, 0, 1]
    for by in ("all", ["sex", "race"], ["race", "sex"]):
        assert attributes.parted(by)[1].tolist() == [0, 1, 2]
    assert attributes.members(["women"]).tolist() == [False, True, True]
    assert attributes.members([("race", "white"), "women"]).tolist() == [False, False, True]
    assert attributes.members([]).all()
    assert not attributes.members(["nobody"]).any()


def test_groups_of_two_among_three_columns_are_intersections_of_these():
    names = read_groups({"a": [0, 0, 1, 1], "b": [0, 0, 0, 1], "c": [0, 1, 0, 1]}).names
    groups, place = Attributes(names).parted(["c", "a"])
    assert groups == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert place.tolist() == [0, 1, 2, 3]
    assert Attributes(names).parted(["a", "b"])[1].tolist() == [0, 0, 1, 2]


def test_a_value_of_two_columns_is_called_with_its_column():
    names = read_groups({"sex": ["F", "other", "other"], "race": ["other", "x", "other"]}).names
    assert Attributes(names).parted(["sex"])[0] == ("F", "sex=other")
    assert Attributes(names).columns_of("other") == ["sex", "race"]


def test_rows_are_placed_among_known_intersections_by_the_names_of_columns():
    names = read_groups({"sex": SEX, "race": RACE}).names
    later = {"race": ["Black", "Black", "Martian"], "sex": ["women", "men", "men"]}
    assert known_groups(later, names).tolist() == [1, -1, -1]
    with pytest.raises(InputError, match="no column 'race'; pass a frame or a mapping of sex, race"):
        known_groups({"sex": ["men"]}, names)
    with pytest.raises(InputError, match="got 2 columns, but the groups known here are of one"):
        known_groups(later, ("men", "women"))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"sex": ["F", None], "race": ["x", "y"]}, "sex: row 1 is missing; drop such rows, or give them a label of th"),
        ({"sex": ["F", "M"], "race": ["x", "x"]}, "race has only one value, 'x'; leave the column out"),
        ({"sex": ["F", "M"], "race": ["x", "y", "y"]}, "race: has 3 rows, but the first column has 2"),
        ({"sex": ["F", "M", "f"] * 9, "race": ["x", "y", "z"] * 9}, "'F' and 'f' differ by capitals"),
        ({"sex": ["F", "M"] * 9, "id": list(range(18))}, "id: 18 groups among 18 rows"),
        ({}, "got no column; name at least one"),
        (np.array([["F", "x"], ["M", "y"]]), "a table of 2 columns without names; pass a frame"),
    ],
)
def test_columns_that_cannot_be_used_are_refused_in_one_sentence(columns, sentence):
    with pytest.raises(InputError, match=f"^sensitive_features: .*{sentence}"):
        read_groups(columns)


def test_an_intersection_knows_its_columns_in_every_copy():
    group = Intersection(("women", 3), ("sex", "age"))
    assert pickle.loads(pickle.dumps(group)).columns == ("sex", "age")
    stored = plain((group, "men"))
    assert stored == [{"sex": "women", "age": 3}, "men"]
    (found, other) = read(stored, tuple[Hashable, ...])
    assert (found, found.columns, other) == (group, group.columns, "men")
