"""Partitions of the rows of a data set into sites, and splits into parts; seeded, no row twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import (
    Floats,
    Integers,
    RandomSource,
    generator,
    not_empty,
    positive_number,
    whole_number,
)
from logofair.columns.labels import encode
from logofair.datasets.table import Dataset, chosen
from logofair.errors import InputError

_Counts: TypeAlias = npt.NDArray[np.int64]
_RowNumbers: TypeAlias = npt.NDArray[np.intp]

# The authors' code redraws until every (group, site) cell holds this many rows.
_SMALLEST_CELL = 20
_MOST_DRAWS = 20_000
# numpy's Dirichlet draws overflow to all zeros near the largest double.
_LARGEST_ALPHA = 1e100


def dirichlet_sites(
    sensitive: object,
    *,
    n_sites: int,
    alpha: float,
    rng: RandomSource,
    scheme: str = "plain",
) -> Integers:
    """Partition rows into sites that differ in their groups: the smaller ``alpha``, the more so.

    Parameters
    ----------
    sensitive : column of labels
        The group of each row, or any other column by whose values sites are to differ, such as the labels 0 and 1.
    n_sites : int
        Number of sites K, at most one per row.
    alpha : float
        Concentration of the Dirichlet distribution; the paper uses 0.5, 5 and 100.
    rng : np.random.Generator or int
        Source of randomness, or a seed.
    scheme : {"plain", "authors"}
        "plain": for each group draw shares from Dir_K(alpha) and divide its shuffled rows by share; a site
        may end up with few rows of a group, or none. "authors", as in the code released with the paper:
        shares from Dir_K(2 alpha); sites that already hold n/K rows get none of the groups still to
        come; all shares are drawn again until every (group, site) cell holds at least 20 rows, or refused
        after 20,000 draws, which take about a second. On Adult at alpha 0.5 it takes, on average, 0.2
        redraws with 5 sites and some 1,700 with 50.

    Returns
    -------
    array of shape (n_rows,)
        The site of each row, from 0 to K - 1.

    Examples
    --------
    >>> sites = dirichlet_sites(["a", "b"] * 50, n_sites=3, alpha=0.5, rng=0)
    >>> np.bincount(sites, minlength=3)
    array([26,  9, 65])
    """
    groups = encode(sensitive, "sensitive")
    not_empty(len(groups), "sensitive")
    n_sites = whole_number(n_sites, "n_sites")
    if n_sites > len(groups):
        raise InputError(f"n_sites: got {n_sites} sites for {len(groups)} rows; pass at most one site per row.")
    alpha = positive_number(alpha, "alpha", _LARGEST_ALPHA)
    random = generator(rng)
    sizes = np.bincount(groups.codes, minlength=len(groups.names))
    if chosen(scheme, ("plain", "authors"), "scheme") == "plain":
        counts = np.array([_divided(int(size), random.dirichlet(np.full(n_sites, alpha))) for size in sizes])
    else:
        smallest = int(np.argmin(sizes))
        if sizes[smallest] < _SMALLEST_CELL * n_sites:
            raise InputError(
                f"dirichlet_sites: value {groups.names[smallest]!r} has {sizes[smallest]} rows, too few for {n_sites} "
                f"sites with {_SMALLEST_CELL} each; pass fewer sites, or use scheme='plain'."
            )
        best = 0
        for _ in range(_MOST_DRAWS):
            counts = _authors_draw(sizes, n_sites, alpha, random)
            best = max(best, int(counts.min()))
            if best >= _SMALLEST_CELL:
                break
        else:
            raise InputError(
                f"dirichlet_sites: with alpha {alpha:g} and {n_sites} sites none of {_MOST_DRAWS:,} draws gave every "
                f"(value, site) cell {_SMALLEST_CELL} rows, the best had a cell of {best}; pass a larger alpha, "
                "fewer sites, or scheme='plain'."
            )
    sites: Integers = np.empty(len(groups), dtype=np.int32)
    for group, rows_at_sites in enumerate(counts):
        shuffled = random.permutation(np.flatnonzero(groups.codes == group))
        sites[shuffled] = np.repeat(np.arange(n_sites, dtype=np.int32), rows_at_sites)
    return sites


def _authors_draw(sizes: _Counts, n_sites: int, alpha: float, rng: np.random.Generator) -> _Counts:
    """One draw in which sites that already hold n/K rows get none of the later groups."""
    counts: _Counts = np.zeros((sizes.size, n_sites), dtype=np.int64)
    full = sizes.sum() / n_sites
    for group, size in enumerate(sizes):
        shares = rng.dirichlet(np.full(n_sites, 2.0 * alpha))
        shares[counts.sum(axis=0) >= full] = 0.0
        if shares.sum() == 0.0:  # alpha so small that only full sites drew anything: a draw to repeat
            return np.zeros_like(counts)
        counts[group] = _divided(int(size), shares / shares.sum())
    return counts


def _divided(size: int, shares: Floats) -> _Counts:
    """How many of ``size`` rows each site gets: the running shares rounded down, and the last site takes the rest."""
    cuts = np.floor(np.cumsum(shares[:-1]) * size).astype(np.int64)
    counts: _Counts = np.diff(np.concatenate([[0], np.minimum(cuts, size), [size]]))
    return counts


class Partition(NamedTuple):
    """Which rows belong to which site.

    Examples
    --------
    >>> Partition(np.array([0, 2]), np.array(["north", "south"])).rows
    array([0, 2])
    """

    rows: _RowNumbers
    """Numbers of the rows that have a site, in increasing order."""
    sites: npt.NDArray[Any]
    """The site of each of these rows."""


def partition_rows(
    dataset: Dataset,
    *,
    by: str = "sensitive",
    n_sites: int | None = None,
    alpha: float | None = None,
    scheme: str = "plain",
    least_rows: int | None = None,
    rng: RandomSource | None = None,
) -> Partition:
    """Partition the rows of a data set into sites, at random or as they are in the data.

    Parameters
    ----------
    dataset : Dataset
        The rows.
    by : {"sensitive", "label", "natural"}
        "sensitive" or "label": by `dirichlet_sites`, so that sites differ in their groups or in their labels; every
        site must get rows. "natural": the data set's own sites.
    n_sites : int
        Number of sites. For natural sites optional: only so many, the largest (of equals the first by name).
    alpha, scheme, rng
        As of `dirichlet_sites`; not for natural sites.
    least_rows : int, optional
        Only natural sites with at least so many rows.

    Returns
    -------
    Partition
        The rows and their sites. Rows of other natural sites are left out, never merged into one.

    Examples
    --------
    >>> people = Dataset(
    ...     name="toy", features=[[0.1], [0.9], [0.4], [0.2]], feature_names=("age",), labels=[0, 1, 1, 0],
    ...     sensitive=["a", "b", "a", "b"], sites=["north", "south", "south", "south"],
    ... )
    >>> partition_rows(people, by="label", n_sites=2, alpha=1.0, rng=0).sites
    array([1, 1, 0, 1], dtype=int32)
    >>> partition_rows(people, by="natural", least_rows=2).rows
    array([1, 2, 3])
    """
    if chosen(by, ("sensitive", "label", "natural"), "by") == "natural":
        if alpha is not None:
            raise InputError(f"alpha: got {alpha!r}, but natural sites are not random; leave it out.")
        return _natural_sites(dataset, n_sites, least_rows)
    if least_rows is not None:
        raise InputError(f"least_rows: got {least_rows!r}, but only natural sites are chosen; use by='natural'.")
    values = dataset.sensitive if by == "sensitive" else dataset.labels
    arguments: dict[str, Any] = {"n_sites": n_sites, "alpha": alpha, "rng": rng}  # dirichlet_sites refuses None
    sites = dirichlet_sites(values, **arguments, scheme=scheme)
    empty = np.count_nonzero(np.bincount(sites, minlength=arguments["n_sites"]) == 0)
    if empty:
        raise InputError(
            f"n_sites: with alpha {alpha:g}, {empty} of {n_sites} sites got no rows; "
            "pass fewer sites, a larger alpha or another seed."
        )
    return Partition(np.arange(len(dataset)), sites)


def _natural_sites(dataset: Dataset, n_sites: int | None, least_rows: int | None) -> Partition:
    """The data set's own sites: those with enough rows, or the largest of them."""
    if dataset.sites is None:
        raise InputError(f"by: {dataset.name} has no natural sites; use 'sensitive' or 'label'.")
    natural = encode(dataset.sites, "sites")
    if len(natural.names) == 1:
        only = f"one natural site alone, {natural.names[0]!r}"
        raise InputError(f"by: {dataset.name} has {only}; take in more of them, or use 'sensitive' or 'label'.")
    sizes = np.bincount(natural.codes, minlength=len(natural.names))
    by_size = np.argsort(-sizes, kind="stable")
    least = 1 if least_rows is None else whole_number(least_rows, "least_rows")
    available = int((sizes >= least).sum())
    if not available:
        raise InputError(
            f"least_rows: got {least:,}, but the largest natural site of {dataset.name} has {sizes.max():,} rows; "
            "pass less."
        )
    kept = available if n_sites is None else whole_number(n_sites, "n_sites")
    if kept > available:
        enough = f" with at least {least:,} rows" * (least > 1)
        raise InputError(
            f"n_sites: got {kept:,}, but {dataset.name} has {available:,} natural sites{enough}; pass at most as many."
        )
    rows = np.flatnonzero(np.isin(natural.codes, by_size[:kept]))
    return Partition(rows, dataset.sites[rows])


def split(n_rows: int, fractions: Mapping[str, float], *, rng: RandomSource) -> dict[str, _RowNumbers]:
    """Split row numbers at random into named parts.

    Parameters
    ----------
    n_rows : int
        Number of rows to split.
    fractions : mapping of str to float
        The share of each part; together 1. The paper's protocol, 30 % for testing and half of the rest for
        post-processing, is ``{"train": 0.35, "calibration": 0.35, "test": 0.3}``.
    rng : np.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    dict of str to array of int
        The row numbers of each part, in increasing order; every row in exactly one part.

    Examples
    --------
    >>> parts = split(10, {"train": 0.7, "test": 0.3}, rng=0)
    >>> parts["train"], parts["test"]
    (array([2, 3, 4, 5, 6, 7, 9]), array([0, 1, 8]))
    """
    n_rows = whole_number(n_rows, "n_rows")
    if not isinstance(fractions, Mapping):
        raise InputError(f"fractions: got {fractions!r}; pass a mapping such as {{'train': 0.7, 'test': 0.3}}.")
    shares = {part: positive_number(share, f"fractions: part {part!r}", 1.0) for part, share in fractions.items()}
    total = sum(shares.values())
    if abs(total - 1.0) > 1e-9:
        raise InputError(f"fractions: the parts sum to {total:g}; make them sum to 1.")
    cuts = np.rint(np.cumsum(list(shares.values())) * n_rows).astype(np.int64)
    drawn = np.split(generator(rng).permutation(n_rows), cuts[:-1])
    for part, rows in zip(shares, drawn, strict=True):
        if rows.size == 0:
            raise InputError(f"fractions: part {part!r} gets none of {n_rows} rows; pass more rows or a larger share.")
    return {part: np.sort(rows) for part, rows in zip(shares, drawn, strict=True)}
