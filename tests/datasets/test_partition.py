"""Deals and splits: no row twice, seeded, spread as the Dirichlet distribution says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.datasets import dirichlet_sites, split
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
