"""Adult: the embedded originals, what the loader makes of them, and the type of every data set."""

from __future__ import annotations

import hashlib
import lzma
from importlib.resources import files

import numpy as np
import pytest

from logofair.datasets import Dataset, load_adult
from logofair.errors import InputError

DATA = files("logofair.datasets") / "data"
FILES = {
    "adult.data": (3_974_305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
    "adult.test": (2_003_153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
}
ROWS_OF_ADULT_DATA = 32_561


def original(name: str) -> bytes:
    return lzma.decompress((DATA / f"{name}.xz").read_bytes())


@pytest.fixture(scope="module")
def adult() -> Dataset:
    return load_adult()


@pytest.fixture(scope="module")
def records() -> list[list[str]]:
    """The rows as fields, split in the plainest way."""
    lines = [line for name in FILES for line in original(name).decode().splitlines()]
    return [[field.strip() for field in line.split(",")] for line in lines if line.count(",") == 14]


def column_of(adult: Dataset, name: str) -> np.ndarray:
    return adult.features[:, adult.feature_names.index(name)]


@pytest.mark.parametrize("name", FILES)
def test_the_embedded_files_decompress_to_the_published_originals(name: str) -> None:
    size, checksum = FILES[name]
    content = original(name)
    assert len(content) == size
    assert hashlib.sha256(content).hexdigest() == checksum


def test_the_embedded_data_stay_below_one_and_a_half_megabytes() -> None:
    assert sum(len(item.read_bytes()) for item in DATA.iterdir()) < 1_500_000


def test_the_licence_file_names_source_terms_citation_changes_and_harms(adult: Dataset) -> None:
    text = (DATA / "ADULT-LICENCE.txt").read_text(encoding="utf-8")
    needed = ("UCI Machine Learning Repository", "CC BY 4.0", "10.24432/C5XW20", "Compression only", "Retiring Adult")
    assert [words for words in needed if words not in text] == []
    assert [checksum for _, checksum in FILES.values() if checksum not in text] == []
    assert adult.licence in text


def test_rows_and_positives_of_each_file_are_the_published_counts(adult: Dataset) -> None:
    first, second = adult.labels[:ROWS_OF_ADULT_DATA], adult.labels[ROWS_OF_ADULT_DATA:]
    assert len(adult) == 48_842
    assert (first.size, first.sum()) == (32_561, 7_841)
    assert (second.size, second.sum()) == (16_281, 3_846)


def test_group_sizes_by_sex_and_by_race(adult: Dataset) -> None:
    by_sex = dict(zip(*np.unique(adult.sensitive, return_counts=True), strict=True))
    by_race = dict(zip(*np.unique(load_adult("race").sensitive, return_counts=True), strict=True))
    assert by_sex == {"Female": 16_192, "Male": 32_650}
    assert by_race == {
        "Amer-Indian-Eskimo": 470,
        "Asian-Pac-Islander": 1_519,
        "Black": 4_685,
        "Other": 406,
        "White": 41_762,
    }


def test_labels_and_groups_agree_row_by_row_with_the_originals(adult: Dataset, records: list[list[str]]) -> None:
    np.testing.assert_array_equal(adult.labels, [record[14].rstrip(".") == ">50K" for record in records])
    np.testing.assert_array_equal(adult.sensitive, [record[9] for record in records])


@pytest.mark.parametrize(
    ("name", "place", "low", "high"),
    [
        ("age", 0, 17, 90),
        ("education-num", 4, 1, 16),
        ("capital-gain", 10, 0, 99_999),
        ("capital-loss", 11, 0, 4_356),
        ("hours-per-week", 12, 1, 99),
    ],
)
def test_numeric_columns_are_the_originals_scaled_to_the_unit_interval(
    adult: Dataset, records: list[list[str]], name: str, place: int, low: int, high: int
) -> None:
    values = column_of(adult, name)
    assert (values.min(), values.max()) == (0.0, 1.0)
    np.testing.assert_allclose(low + values * (high - low), [float(record[place]) for record in records], atol=1e-9)


@pytest.mark.parametrize(
    ("name", "place", "n_categories"),
    [
        ("workclass", 1, 9),
        ("marital-status", 5, 7),
        ("occupation", 6, 15),
        ("relationship", 7, 6),
        ("race", 8, 5),
        ("sex", 9, 2),
        ("native-country", 13, 42),
    ],
)
def test_categorical_columns_are_one_hot_and_keep_the_missing_value_as_a_category(
    adult: Dataset, records: list[list[str]], name: str, place: int, n_categories: int
) -> None:
    columns = [i for i, feature in enumerate(adult.feature_names) if feature.startswith(f"{name}=")]
    assert len(columns) == n_categories
    block = adult.features[:, columns]
    np.testing.assert_array_equal(np.unique(block), [0.0, 1.0])
    np.testing.assert_array_equal(block.sum(axis=1), 1.0)
    chosen = np.array([adult.feature_names[i].split("=")[1] for i in columns])[block.argmax(axis=1)]
    np.testing.assert_array_equal(chosen, [record[place] for record in records])


def test_missing_values_are_2799_in_workclass_2809_in_occupation_and_857_in_country(adult: Dataset) -> None:
    missing = {name: int(column_of(adult, f"{name}=?").sum()) for name in ("workclass", "occupation", "native-country")}
    assert missing == {"workclass": 2_799, "occupation": 2_809, "native-country": 857}


def test_census_weight_and_education_in_words_are_left_out(adult: Dataset) -> None:
    assert len(adult.feature_names) == len(set(adult.feature_names)) == 91
    assert {name.split("=")[0] for name in adult.feature_names}.isdisjoint({"fnlwgt", "education", "income"})


def test_an_unknown_sensitive_column_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"sensitive: got 'rase' \(did you mean 'race'\?\); use one of sex"):
        load_adult("rase")


def test_adult_states_its_terms_and_harms_and_has_no_natural_sites(adult: Dataset) -> None:
    assert adult.licence == "CC BY 4.0"
    assert "10.24432/C5XW20" in adult.citation
    for subject in ("1994", "Female or Male", "50,000 USD", "fnlwgt", "Retiring Adult"):
        assert any(subject in harm for harm in adult.known_harms), subject
    assert adult.sites is None


def test_the_shares_below_the_threshold_are_those_the_harms_state(adult: Dataset) -> None:
    black = load_adult("race").sensitive == "Black"
    below = [1 - adult.labels[mask].mean() for mask in (adult.labels >= 0, black, adult.sensitive == "Female")]
    stated = [harm for harm in adult.known_harms if "lie below it" in harm]
    words = "{:.0%} of all rows, {:.0%} of Black people and {:.0%} of women lie below it".format(*below)
    assert words.replace("%", " %") in stated[0]


def toy(**changes: object) -> Dataset:
    fields: dict[str, object] = {
        "name": "toy",
        "features": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "feature_names": ("x", "y"),
        "labels": [0, 1, 1],
        "sensitive": ["a", "b", "a"],
        "sites": ["north", "south", "south"],
        "licence": "ours",
    }
    return Dataset(**(fields | changes))  # type: ignore[arg-type]


def test_taking_rows_takes_them_in_order_from_every_column_and_keeps_the_terms() -> None:
    taken = toy().take([2, 0])
    assert len(taken) == 2
    np.testing.assert_array_equal(taken.features, [[4.0, 5.0], [0.0, 1.0]])
    np.testing.assert_array_equal(taken.labels, [1, 0])
    np.testing.assert_array_equal(taken.sensitive, ["a", "a"])
    np.testing.assert_array_equal(taken.sites, ["south", "north"])
    assert (taken.name, taken.feature_names, taken.licence) == ("toy", ("x", "y"), "ours")


def test_a_mask_takes_the_rows_where_it_is_true() -> None:
    np.testing.assert_array_equal(toy().take([False, True, True]).features, toy().take([1, 2]).features)


def test_the_representation_fits_one_line_and_says_what_is_there() -> None:
    assert repr(toy()) == "Dataset(toy: 3 rows, 2 features, 66.7 % positive, groups a 2, b 1, 2 natural sites)"
    many = toy(features=np.zeros((7, 2)), labels=[0] * 7, sensitive=list("abcdefg"), sites=None)
    assert repr(many) == "Dataset(toy: 7 rows, 2 features, 0.0 % positive, 7 groups, no natural sites)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1]}, "labels: has 2 rows, but the first column has 3"),
        ({"labels": [0, 1, 2]}, "labels: row 2 is 2; expected 0 and 1"),
        ({"sensitive": ["a"]}, "sensitive: has 1 rows"),
        ({"sites": [1, 2]}, "sites: has 2 rows"),
        ({"feature_names": ("x",)}, "feature_names: got 1 names for 2 columns"),
        ({"features": [1.0, 2.0, 3.0]}, r"features: expected rows and columns, got an array of shape \(3,\)"),
        ({"features": [["x"], ["y"], ["z"]]}, "features: expected a table of numbers"),
        ({"features": [[0.0], [np.nan], [np.inf]]}, "features: row 1 holds a missing or infinite value"),
        ({"features": np.empty((0, 2))}, "features: no rows"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        toy(**changes)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([3], "rows: got row number 3; toy has rows 0 to 2"),
        ([-1], "rows: got row number -1"),
        ([True], "rows: has 1 rows, but the first column has 3"),
        ([0.5], "rows: expected row numbers or a mask"),
        ([], "rows: no rows"),
        ([False, False, False], "features: no rows"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        toy().take(rows)  # type: ignore[arg-type]
