"""The sites of a data set's rows in experiments: dealt at random, as the authors dealt them, or the data's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Integers, RandomSource, generator, whole_number
from logofair.columns.labels import encode
from logofair.datasets import Dataset, dirichlet_sites
from logofair.datasets.partition import Counts, checked_deal, dealt, divided
from logofair.datasets.table import chosen
from logofair.errors import InputError

# The authors' code redraws until every (group, site) cell holds this many rows.
_SMALLEST_CELL = 20
_MOST_DRAWS = 20_000


def random_sites(data: Dataset, *, n_sites: int, alpha: float, rng: RandomSource, scheme: str = "plain") -> Integers:
    """Deal a data set's rows to sites that differ in their groups, each of which must get rows.

    ``scheme``: "plain", as :func:`logofair.datasets.dirichlet_sites`, or "authors" (:func:`authors_sites`).
    """
    schemes = {"plain": dirichlet_sites, "authors": authors_sites}
    sites = schemes[chosen(scheme, schemes, "scheme")](data.sensitive, n_sites=n_sites, alpha=alpha, rng=rng)
    empty = np.count_nonzero(np.bincount(sites, minlength=n_sites) == 0)
    if empty:
        raise InputError(
            f"n_sites: with alpha {alpha:g}, {empty} of {n_sites} sites got no rows; "
            "pass fewer sites, a larger alpha or another seed."
        )
    return sites


def authors_sites(sensitive: object, *, n_sites: int, alpha: float, rng: RandomSource) -> Integers:
    """Deal rows to sites as the code released with the paper does; arguments as of ``dirichlet_sites``.

    Shares are drawn from Dir_K(2 alpha); sites that already hold n/K rows get none of the groups still to come; all
    shares are drawn again until every (group, site) cell holds at least 20 rows, or refused after 20,000 draws, which
    take about a second. On Adult at alpha 0.5 it takes, on average, 0.2 redraws with 5 sites and some 1,700 with 50.
    """
    groups, n_sites, alpha = checked_deal(sensitive, n_sites, alpha)
    random, sizes = generator(rng), np.bincount(groups.codes, minlength=len(groups.names))
    smallest = int(np.argmin(sizes))
    if sizes[smallest] < _SMALLEST_CELL * n_sites:
        raise InputError(
            f"scheme: value {groups.names[smallest]!r} has {sizes[smallest]} rows, too few for {n_sites} "
            f"sites with {_SMALLEST_CELL} each; pass fewer sites, or use scheme='plain'."
        )
    best = 0
    for _ in range(_MOST_DRAWS):
        counts = _authors_draw(sizes, n_sites, alpha, random)
        best = max(best, int(counts.min()))
        if best >= _SMALLEST_CELL:
            return dealt(groups, counts, random)
    raise InputError(
        f"scheme: with alpha {alpha:g} and {n_sites} sites none of {_MOST_DRAWS:,} draws gave every "
        f"(value, site) cell {_SMALLEST_CELL} rows, the best had a cell of {best}; pass a larger alpha, "
        "fewer sites, or scheme='plain'."
    )


def _authors_draw(sizes: Counts, n_sites: int, alpha: float, rng: np.random.Generator) -> Counts:
    """One draw in which sites that already hold n/K rows get none of the later groups."""
    counts: Counts = np.zeros((sizes.size, n_sites), dtype=np.int64)
    full = sizes.sum() / n_sites
    for group, size in enumerate(sizes):
        shares = rng.dirichlet(np.full(n_sites, 2.0 * alpha))
        shares[counts.sum(axis=0) >= full] = 0.0
        if shares.sum() == 0.0:  # alpha so small that only full sites drew anything: a draw to repeat
            return np.zeros_like(counts)
        counts[group] = divided(int(size), shares / shares.sum())
    return counts


def natural_sites(data: Dataset, n_sites: int | None = None) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
    """Numbers of the rows at the data set's own sites, the ``n_sites`` largest (None: all), and the site of each.

    Of equally large sites the first by name are taken. Rows of others are left out, never merged into one.
    """
    if data.sites is None:
        raise InputError(f"partition: {data.name} has no natural sites; use 'sensitive'.")
    natural = encode(data.sites, "sites")
    known = len(natural.names)
    if known == 1:
        only = f"one natural site alone, {natural.names[0]!r}"
        raise InputError(f"partition: {data.name} has {only}; take in more of them, or use 'sensitive'.")
    kept = known if n_sites is None else whole_number(n_sites, "n_sites")
    if kept > known:
        raise InputError(f"n_sites: got {kept:,}, but {data.name} has {known:,} natural sites; pass at most as many.")
    by_size = np.argsort(-np.bincount(natural.codes, minlength=known), kind="stable")
    rows = np.flatnonzero(np.isin(natural.codes, by_size[:kept]))
    return rows, data.sites[rows]
