"""Partitions: no row twice, seeded, spread as the Dirichlet distribution says or as the data have them."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.datasets import Dataset, dirichlet_sites, partition, split
from logofair.datasets.partition import partition_rows
from logofair.errors import InputError
from support.examples import examples

seeds = st.integers(0, 2**32)


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[str], int, float, int]:
    """Groups of some rows, a number of sites, alpha and a seed."""
    sensitive = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=120))
    n_sites = draw(st.integers(1, min(12, len(sensitive))))
    alpha = draw(st.one_of(st.floats(0.05, 100.0), st.sampled_from([1e-300, 1e-3, 1e100])))
    return sensitive, n_sites, alpha, draw(seeds)


def cells(sensitive: np.ndarray, sites: np.ndarray, n_sites: int) -> np.ndarray:
    """Rows per (group, site), counted one cell at a time."""
    return np.array([[np.sum((sensitive == a) & (sites == c)) for c in range(n_sites)] for a in np.unique(sensitive)])


@examples(100)
@given(parts())
def test_every_row_goes_to_one_of_the_sites(case: tuple[list[str], int, float, int]) -> None:
    sensitive, n_sites, alpha, seed = case
    sites = dirichlet_sites(sensitive, n_sites=n_sites, alpha=alpha, rng=seed)
    assert sites.shape == (len(sensitive),)
    assert sites.dtype.kind == "i"
    assert sites.min() >= 0
    assert sites.max() < n_sites


@examples(50)
@given(parts())
def test_the_same_seed_deals_the_same_and_a_generator_serves_as_well(case: tuple[list[str], int, float, int]) -> None:
    sensitive, n_sites, alpha, seed = case
    first = dirichlet_sites(sensitive, n_sites=n_sites, alpha=alpha, rng=seed)
    again = dirichlet_sites(sensitive, n_sites=n_sites, alpha=alpha, rng=np.random.default_rng(seed))
    np.testing.assert_array_equal(first, again)


def test_different_seeds_deal_differently() -> None:
    sensitive = ["a", "b"] * 100
    first, second = (dirichlet_sites(sensitive, n_sites=4, alpha=1.0, rng=seed) for seed in (1, 2))
    assert np.any(first != second)


@examples(50)
@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=4), n_sites=st.integers(1, 6), seed=seeds)
def test_a_very_large_alpha_gives_every_site_an_equal_share_of_every_group(
    sizes: list[int], n_sites: int, seed: int
) -> None:
    sensitive = np.repeat(np.arange(len(sizes)), sizes)
    n_sites = min(n_sites, sensitive.size)
    sites = dirichlet_sites(sensitive, n_sites=n_sites, alpha=1e12, rng=seed)
    shares = np.array(sizes)[:, None] / n_sites
    assert np.all(np.abs(cells(sensitive, sites, n_sites) - shares) <= 1.0 + 1e-3)


def test_a_very_small_alpha_gives_each_group_to_one_site() -> None:
    sensitive = np.repeat(["a", "b", "c"], 50)
    sites = dirichlet_sites(sensitive, n_sites=5, alpha=1e-6, rng=0)
    np.testing.assert_array_equal(cells(sensitive, sites, 5).max(axis=1), [50, 50, 50])


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_shares_have_the_mean_and_variance_of_the_dirichlet_distribution(alpha: float) -> None:
    n, n_sites, repeats = 500, 4, 600
    rng = np.random.default_rng(7)
    sensitive = np.zeros(n, dtype=int)
    shares = np.array(
        [
            np.bincount(dirichlet_sites(sensitive, n_sites=n_sites, alpha=alpha, rng=rng), minlength=n_sites)
            for _ in range(repeats)
        ]
    ) / n  # fmt: skip
    variance = (1 / n_sites) * (1 - 1 / n_sites) / (n_sites * alpha + 1)
    np.testing.assert_allclose(shares.mean(axis=0), 1 / n_sites, atol=5 * np.sqrt(variance / repeats))
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.25)


def test_groups_are_shuffled_before_they_are_dealt() -> None:
    sites = dirichlet_sites(np.zeros(1000, dtype=int), n_sites=2, alpha=100.0, rng=0)
    of_first_half = np.mean(sites[:500] == 0)
    assert 0.3 < of_first_half < 0.7


@examples(60)
@given(
    sizes=st.lists(st.integers(20, 400), min_size=1, max_size=3),
    n_sites=st.integers(1, 5),
    alpha=st.floats(0.1, 50.0),
    seed=seeds,
)
def test_the_authors_scheme_fills_every_cell_with_20_rows_or_says_that_it_could_not(
    sizes: list[int], n_sites: int, alpha: float, seed: int
) -> None:
    sensitive = np.repeat(np.arange(len(sizes)), sizes)
    settings_ = {"n_sites": n_sites, "alpha": alpha, "rng": seed, "scheme": "authors"}
    if min(sizes) < 20 * n_sites:
        with pytest.raises(InputError, match="too few for"):
            dirichlet_sites(sensitive, **settings_)  # type: ignore[arg-type]
        return
    refusal = ""
    try:
        with mock.patch.object(partition, "_MOST_DRAWS", 50):
            sites = dirichlet_sites(sensitive, **settings_)  # type: ignore[arg-type]
    except InputError as error:
        refusal = str(error)
    assert "none of 50 draws" in refusal if refusal else cells(sensitive, sites, n_sites).min() >= 20


def test_the_authors_scheme_draws_its_shares_with_twice_alpha() -> None:
    n, alpha, repeats = 5000, 2.0, 600
    rng = np.random.default_rng(3)
    shares = np.array(
        [
            np.mean(dirichlet_sites(np.zeros(n, int), n_sites=2, alpha=alpha, rng=rng, scheme="authors"))
            for _ in range(repeats)
        ]
    )
    np.testing.assert_allclose(shares.var(), 0.25 / (2 * 2 * alpha + 1), rtol=0.2)


def test_the_authors_scheme_gives_up_after_the_redraws_allowed_and_says_what_it_got() -> None:
    sensitive = np.repeat(["a", "b"], [1000, 100])
    message = (
        r"with alpha 1e-06 and 2 sites none of 20,000 draws gave every \(value, site\) cell 20 rows, "
        r"the best had a cell of 0; pass a larger alpha"
    )
    with pytest.raises(InputError, match=message):
        dirichlet_sites(sensitive, n_sites=2, alpha=1e-6, rng=0, scheme="authors")


def test_in_the_authors_scheme_no_site_holds_its_full_share_before_the_last_group() -> None:
    # A site with n/K rows of the first group gets none of the second: an empty cell, so all is drawn again.
    sensitive = np.repeat(["a", "b"], [600, 400])
    for seed in range(30):
        sites = dirichlet_sites(sensitive, n_sites=3, alpha=1.0, rng=seed, scheme="authors")
        assert cells(sensitive, sites, 3)[0].max() < 1000 / 3


def test_the_authors_scheme_refuses_a_group_too_small_for_its_cells_at_once() -> None:
    sensitive = np.repeat(["a", "b"], [1000, 99])
    with pytest.raises(InputError, match="value 'b' has 99 rows, too few for 5 sites with 20 each"):
        dirichlet_sites(sensitive, n_sites=5, alpha=1.0, rng=0, scheme="authors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha: got 0.0; pass a number above 0"),
        ({"alpha": -1}, "alpha: got -1; pass a number above 0"),
        ({"alpha": float("nan")}, "alpha: got nan"),
        ({"alpha": float("inf")}, "alpha: got inf"),
        ({"alpha": "much"}, "alpha: expected a number above 0, got 'much'"),
        ({"n_sites": 0}, "n_sites: got 0; pass a whole number of at least 1"),
        ({"n_sites": 2.0}, "n_sites: expected a whole number, got 2.0"),
        ({"n_sites": True}, "n_sites: got True"),
        ({"n_sites": 5}, "n_sites: got 5 sites for 4 rows"),
        ({"scheme": "author"}, r"scheme: got 'author' \(did you mean 'authors'\?\)"),
        ({"rng": None}, "rng: got None"),
        ({"rng": -1}, "rng: got -1"),
        ({"sensitive": []}, "sensitive: no rows"),
        ({"sensitive": ["a", None, "b", "a"]}, "sensitive: row 1 is missing"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    fields = {"sensitive": ["a", "b", "a", "b"], "n_sites": 2, "alpha": 0.5, "rng": 0} | changes
    with pytest.raises(InputError, match=message):
        dirichlet_sites(fields.pop("sensitive"), **fields)  # type: ignore[arg-type]


@examples(100)
@given(n=st.integers(40, 500), weights=st.lists(st.integers(1, 9), min_size=1, max_size=4), seed=seeds)
def test_a_split_puts_every_row_in_exactly_one_part_of_the_size_asked(n: int, weights: list[int], seed: int) -> None:
    fractions = {f"part {i}": weight / sum(weights) for i, weight in enumerate(weights)}
    parts = split(n, fractions, rng=seed)
    assert list(parts) == list(fractions)
    np.testing.assert_array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))
    for name, rows in parts.items():
        assert abs(rows.size - fractions[name] * n) <= 1.0
        assert np.all(np.diff(rows) > 0)
    again = split(n, fractions, rng=np.random.default_rng(seed))
    assert all(np.array_equal(parts[name], again[name]) for name in parts)


def test_the_papers_protocol_splits_adult_into_17095_17094_and_14653_rows() -> None:
    parts = split(48_842, {"train": 0.35, "calibration": 0.35, "test": 0.3}, rng=0)
    assert {name: rows.size for name, rows in parts.items()} == {"train": 17_095, "calibration": 17_094, "test": 14_653}


def test_splits_with_different_seeds_differ_and_are_no_runs_of_neighbours() -> None:
    first, second = (split(1000, {"train": 0.7, "test": 0.3}, rng=seed)["test"] for seed in (0, 1))
    assert np.any(first != second)
    assert 0.2 < np.mean(first < 500) < 0.8


@pytest.mark.parametrize(
    ("n", "fractions", "message"),
    [
        (10, {"train": 0.7, "test": 0.2}, "fractions: the parts sum to 0.9; make them sum to 1"),
        (10, {}, "fractions: the parts sum to 0"),
        (10, {"train": 1.5, "test": -0.5}, "fractions: part 'train': got 1.5"),
        (10, {"train": 1.0, "test": 0.0}, "fractions: part 'test': got 0.0"),
        (10, [0.7, 0.3], "fractions: got .* pass a mapping such as {'train': 0.7, 'test': 0.3}"),
        (1, {"train": 0.7, "test": 0.3}, "fractions: part 'test' gets none of 1 rows"),
        (0, {"train": 1.0}, "n_rows: got 0"),
    ],
)
def test_splits_that_cannot_be_made_are_refused(n: int, fractions: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(n, fractions, rng=0)


def people(n: int = 400, *, sites: object = None, seed: int = 0) -> Dataset:
    """Rows of two groups and two labels, these in unequal numbers."""
    rng = np.random.default_rng(seed)
    return Dataset(
        name="toy",
        features=rng.random((n, 1)),
        feature_names=("x",),
        labels=rng.random(n) < 0.3,
        sensitive=rng.choice(["a", "b"], n),
        sites=sites,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("scheme", ["plain", "authors"])
@pytest.mark.parametrize(("by", "field"), [("sensitive", "sensitive"), ("label", "labels")])
def test_dealing_by_a_column_is_the_dirichlet_deal_of_that_column(by: str, field: str, scheme: str) -> None:
    data = people()
    parts = partition_rows(data, by=by, n_sites=3, alpha=1.0, scheme=scheme, rng=5)
    sites = dirichlet_sites(getattr(data, field), n_sites=3, alpha=1.0, rng=5, scheme=scheme)
    np.testing.assert_array_equal(parts.sites, sites)
    np.testing.assert_array_equal(parts.rows, np.arange(400))


def test_dealing_by_label_spreads_labels_unevenly_and_groups_evenly() -> None:
    data = people(20_000)
    parts = partition_rows(data, by="label", n_sites=4, alpha=0.3, rng=2)
    by_site = [parts.sites == c for c in range(4)]
    labels = [data.labels[mask].mean() for mask in by_site]
    groups = [(data.sensitive[mask] == "a").mean() for mask in by_site if mask.sum() > 500]
    assert max(labels) - min(labels) > 0.2
    assert max(groups) - min(groups) < 0.1


def test_the_authors_scheme_deals_labels_or_says_why_it_cannot() -> None:
    with pytest.raises(InputError, match=r"value 1 has \d+ rows, too few for 10 sites with 20 each"):
        partition_rows(people(), by="label", n_sites=10, alpha=1.0, scheme="authors", rng=0)
    with pytest.raises(InputError, match=r"gave every \(value, site\) cell 20 rows"):
        partition_rows(people(), by="label", n_sites=2, alpha=1e-6, scheme="authors", rng=0)


def test_a_site_that_gets_no_rows_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"n_sites: with alpha 1e-06, \d of 5 sites got no rows; pass fewer sites"):
        partition_rows(people(), by="sensitive", n_sites=5, alpha=1e-6, rng=0)


TOWNS = np.repeat(["north", "south", "east", "west"], [100, 50, 200, 50])


def test_natural_sites_are_those_of_the_data_set() -> None:
    parts = partition_rows(people(sites=TOWNS), by="natural")
    np.testing.assert_array_equal(parts.sites, TOWNS)
    np.testing.assert_array_equal(parts.rows, np.arange(400))


@pytest.mark.parametrize(
    ("choices", "kept"),
    [
        ({"least_rows": 50}, {"north", "south", "east", "west"}),
        ({"least_rows": 51}, {"north", "east"}),
        ({"n_sites": 1}, {"east"}),
        ({"n_sites": 3}, {"east", "north", "south"}),  # south and west are equal: the first by name
        ({"n_sites": 1, "least_rows": 60}, {"east"}),
    ],
)
def test_rows_of_natural_sites_not_chosen_are_left_out(choices: dict[str, int], kept: set[str]) -> None:
    order = np.random.default_rng(3).permutation(400)
    data = people(sites=TOWNS[order])
    parts = partition_rows(data, by="natural", **choices)  # type: ignore[arg-type]
    expected = np.flatnonzero(np.isin(TOWNS[order], list(kept)))
    np.testing.assert_array_equal(parts.rows, expected)
    np.testing.assert_array_equal(parts.sites, TOWNS[order][expected])


@examples(60)
@given(
    codes=st.lists(st.integers(0, 9), min_size=2, max_size=80).filter(lambda c: len(set(c)) > 1),
    least=st.integers(1, 12),
    seed=seeds,
)
def test_natural_sites_kept_and_left_out_are_all_rows_once(codes: list[int], least: int, seed: int) -> None:
    data = people(len(codes), sites=codes, seed=seed)
    sizes = {code: codes.count(code) for code in set(codes)}
    if max(sizes.values()) < least:
        with pytest.raises(InputError, match=f"least_rows: got {least}, but the largest natural site of toy has"):
            partition_rows(data, by="natural", least_rows=least)
        return
    parts = partition_rows(data, by="natural", least_rows=least)
    assert set(parts.sites.tolist()) == {code for code, size in sizes.items() if size >= least}
    assert parts.rows.size == sum(size for size in sizes.values() if size >= least)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"by": "lable"}, r"by: got 'lable' \(did you mean 'label'\?\); use one of sensitive, label, natural"),
        ({"by": "natural", "n_sites": 5}, "n_sites: got 5, but toy has 4 natural sites; pass at most as many"),
        (
            {"by": "natural", "n_sites": 3, "least_rows": 60},
            "n_sites: got 3, but toy has 2 natural sites with at least 60 rows",
        ),
        ({"by": "natural", "n_sites": 0}, "n_sites: got 0"),
        ({"by": "natural", "least_rows": 0}, "least_rows: got 0"),
        ({"by": "natural", "alpha": 0.5}, "alpha: got 0.5, but natural sites are not random"),
        ({"by": "label", "least_rows": 5}, "least_rows: got 5, but only natural sites are chosen"),
        ({"n_sites": None}, "n_sites: expected a whole number, got None"),
        ({"alpha": None}, "alpha: expected a number above 0, got None"),
        ({"rng": None}, "rng: got None"),
        ({"scheme": "plane"}, r"scheme: got 'plane' \(did you mean 'plain'\?\)"),
    ],
)
def test_deals_that_make_no_sense_are_refused(choices: dict[str, object], message: str) -> None:
    usual = {} if choices.get("by") == "natural" else {"n_sites": 2, "alpha": 1.0, "rng": 0}
    with pytest.raises(InputError, match=message):
        partition_rows(people(sites=TOWNS), **(usual | choices))  # type: ignore[arg-type]


def test_a_data_set_without_natural_sites_says_so() -> None:
    alone = r"by: toy has one natural site alone, 'north'; take in more of them, or use 'sensitive' or 'label'\.$"
    with pytest.raises(InputError, match=alone):
        partition_rows(Dataset("toy", [[0.0]] * 2, ("x",), [0, 1], ["a", "b"], ["north"] * 2), by="natural")
    with pytest.raises(InputError, match="by: toy has no natural sites; use 'sensitive' or 'label'"):
        partition_rows(people(), by="natural")
