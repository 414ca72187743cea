"""The sites of experiments: dealt as the authors do, or the data's own; no row twice, always the same."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.datasets import Dataset, dirichlet_sites
from logofair.errors import InputError
from logofair_reproduction.datasets import dealing
from logofair_reproduction.datasets.dealing import authors_sites, natural_sites, random_sites
from support.examples import examples

seeds = st.integers(0, 2**32)


def cells(sensitive: np.ndarray, sites: np.ndarray, n_sites: int) -> np.ndarray:
    """Rows per (group, site), counted one cell at a time."""
    return np.array([[np.sum((sensitive == a) & (sites == c)) for c in range(n_sites)] for a in np.unique(sensitive)])


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
    settings_ = {"n_sites": n_sites, "alpha": alpha, "rng": seed}
    if min(sizes) < 20 * n_sites:
        with pytest.raises(InputError, match="too few for"):
            authors_sites(sensitive, **settings_)
        return
    refusal = ""
    try:
        with mock.patch.object(dealing, "_MOST_DRAWS", 50):
            sites = authors_sites(sensitive, **settings_)
    except InputError as error:
        refusal = str(error)
    assert "none of 50 draws" in refusal if refusal else cells(sensitive, sites, n_sites).min() >= 20


def test_the_authors_scheme_draws_its_shares_with_twice_alpha() -> None:
    n, alpha, repeats = 5000, 2.0, 600
    rng = np.random.default_rng(3)
    shares = np.array(
        [np.mean(authors_sites(np.zeros(n, int), n_sites=2, alpha=alpha, rng=rng)) for _ in range(repeats)]
    )
    np.testing.assert_allclose(shares.var(), 0.25 / (2 * 2 * alpha + 1), rtol=0.2)


def test_the_authors_scheme_gives_up_after_the_redraws_allowed_and_says_what_it_got() -> None:
    sensitive = np.repeat(["a", "b"], [1000, 100])
    message = (
        r"with alpha 1e-06 and 2 sites none of 20,000 draws gave every \(value, site\) cell 20 rows, "
        r"the best had a cell of 0; pass a larger alpha"
    )
    with pytest.raises(InputError, match=message):
        authors_sites(sensitive, n_sites=2, alpha=1e-6, rng=0)


def test_in_the_authors_scheme_no_site_holds_its_full_share_before_the_last_group() -> None:
    # A site with n/K rows of the first group gets none of the second: an empty cell, so all is drawn again.
    sensitive = np.repeat(["a", "b"], [600, 400])
    for seed in range(30):
        sites = authors_sites(sensitive, n_sites=3, alpha=1.0, rng=seed)
        assert cells(sensitive, sites, 3)[0].max() < 1000 / 3


def test_the_authors_scheme_refuses_a_group_too_small_for_its_cells_at_once() -> None:
    sensitive = np.repeat(["a", "b"], [1000, 99])
    with pytest.raises(InputError, match="value 'b' has 99 rows, too few for 5 sites with 20 each"):
        authors_sites(sensitive, n_sites=5, alpha=1.0, rng=0)


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


@pytest.mark.parametrize(("scheme", "deal"), [("plain", dirichlet_sites), ("authors", authors_sites)])
def test_rows_are_dealt_by_their_groups(scheme: str, deal: object) -> None:
    data, settings = people(), {"n_sites": 3, "alpha": 1.0, "rng": 5}
    np.testing.assert_array_equal(random_sites(data, scheme=scheme, **settings), deal(data.sensitive, **settings))


def test_a_site_that_gets_no_rows_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"n_sites: with alpha 1e-06, \d of 5 sites got no rows; pass fewer sites"):
        random_sites(people(), n_sites=5, alpha=1e-6, rng=0)


def test_a_scheme_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match=r"scheme: got 'plane' \(did you mean 'plain'\?\)"):
        random_sites(people(), n_sites=2, alpha=1.0, rng=0, scheme="plane")


TOWNS = np.repeat(["north", "south", "east", "west"], [100, 50, 200, 50])


@pytest.mark.parametrize(
    ("n_sites", "kept"),
    [
        (None, {"north", "south", "east", "west"}),
        (1, {"east"}),
        (3, {"east", "north", "south"}),  # south and west are equal: the first by name
    ],
)
def test_rows_of_natural_sites_not_chosen_are_left_out(n_sites: int | None, kept: set[str]) -> None:
    order = np.random.default_rng(3).permutation(400)
    rows, sites = natural_sites(people(sites=TOWNS[order]), n_sites)
    expected = np.flatnonzero(np.isin(TOWNS[order], list(kept)))
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(sites, TOWNS[order][expected])


@pytest.mark.parametrize(
    ("n_sites", "message"),
    [(5, "n_sites: got 5, but toy has 4 natural sites; pass at most as many"), (0, "n_sites: got 0")],
)
def test_more_natural_sites_than_there_are_are_refused(n_sites: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        natural_sites(people(sites=TOWNS), n_sites)


def test_a_data_set_without_natural_sites_says_so() -> None:
    alone = r"partition: toy has one natural site alone, 'north'; take in more of them, or use 'sensitive'\.$"
    with pytest.raises(InputError, match=alone):
        natural_sites(Dataset("toy", [[0.0]] * 2, ("x",), [0, 1], ["a", "b"], ["north"] * 2))
    with pytest.raises(InputError, match="partition: toy has no natural sites; use 'sensitive'"):
        natural_sites(people())
