"""How rows are dealt to sites and split into parts; seeded, no row twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

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
from logofair.columns.labels import Codes, encode
from logofair.errors import InputError

Counts: TypeAlias = npt.NDArray[np.int64]

# numpy's Dirichlet draws overflow to all zeros near the largest double.
_LARGEST_ALPHA = 1e100


def dirichlet_sites(sensitive: object, *, n_sites: int, alpha: float, rng: RandomSource) -> Integers:
    """Deal rows to sites that differ in their groups: the smaller ``alpha``, the more so.

    For each group shares are drawn from Dir_K(alpha), and its shuffled rows divided by share; a site may end up with
    few rows of a group, or none.

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
    groups, n_sites, alpha = checked_deal(sensitive, n_sites, alpha)
    random, sizes = generator(rng), np.bincount(groups.codes, minlength=len(groups.names))
    counts = [divided(int(size), random.dirichlet(np.full(n_sites, alpha))) for size in sizes]
    return dealt(groups, np.array(counts), random)


def checked_deal(sensitive: object, n_sites: int, alpha: float) -> tuple[Codes, int, float]:
    """Check what rows are dealt by."""
    groups = encode(sensitive, "sensitive")
    not_empty(len(groups), "sensitive")
    n_sites = whole_number(n_sites, "n_sites")
    if n_sites > len(groups):
        raise InputError(f"n_sites: got {n_sites} sites for {len(groups)} rows; pass at most one site per row.")
    return groups, n_sites, positive_number(alpha, "alpha", _LARGEST_ALPHA)


def divided(size: int, shares: Floats) -> Counts:
    """How many of ``size`` rows each site gets: the running shares rounded down, and the last site takes the rest."""
    cuts = np.floor(np.cumsum(shares[:-1]) * size).astype(np.int64)
    counts: Counts = np.diff(np.concatenate([[0], np.minimum(cuts, size), [size]]))
    return counts


def dealt(groups: Codes, counts: Counts, rng: np.random.Generator) -> Integers:
    """The site of each row, where each site gets so many of each group's shuffled rows: ``counts``, (groups, sites)."""
    sites: Integers = np.empty(len(groups), dtype=np.int32)
    for group, rows_at_sites in enumerate(counts):
        shuffled = rng.permutation(np.flatnonzero(groups.codes == group))
        sites[shuffled] = np.repeat(np.arange(rows_at_sites.size, dtype=np.int32), rows_at_sites)
    return sites


def split(n_rows: int, fractions: Mapping[str, float], *, rng: RandomSource) -> dict[str, npt.NDArray[np.intp]]:
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
