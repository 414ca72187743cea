"""Dealing rows to clients, and splitting rows into parts; seeded, every row exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.arguments import RandomSource, generator, positive_number, whole_number
from logofair.inputs import Floats, InputError, Integers, nearest_name, not_empty
from logofair.labels import Codes, encode

__all__ = ["dirichlet_clients", "split"]

Counts: TypeAlias = npt.NDArray[np.int64]
RowNumbers: TypeAlias = npt.NDArray[np.intp]

# The authors' code redraws until every (group, client) cell holds this many rows.
SMALLEST_CELL = 20
# numpy's Dirichlet draws overflow to all zeros near the largest double.
_LARGEST_ALPHA = 1e100


def dirichlet_clients(
    sensitive: object,
    *,
    n_clients: int,
    alpha: float,
    rng: RandomSource,
    scheme: str = "plain",
    max_redraws: int = 20_000,
) -> Integers:
    """Deal rows to clients so that groups are spread unevenly: the smaller ``alpha``, the more so.

    Parameters
    ----------
    sensitive : column of labels
        The group of each row.
    n_clients : int
        Number of clients K, at most one per row.
    alpha : float
        Concentration of the Dirichlet distribution; the paper uses 0.5, 5 and 100.
    rng : np.random.Generator or int
        Source of randomness, or a seed.
    scheme : {"plain", "authors"}
        "plain": for each group draw shares from Dir_K(alpha) and deal its shuffled rows by share; a client
        may end up with few rows of a group, or none. "authors", as in the code released with the paper:
        shares from Dir_K(2 alpha); clients that already hold n/K rows get none of the groups still to
        come; all shares are drawn again until every (group, client) cell holds at least 20 rows.
    max_redraws : int
        How often "authors" draws again before it gives up with an error. On Adult at alpha 0.5 it takes, on
        average, 0.2 redraws with 5 clients and some 1,700 with 50; 20,000 take about a second.

    Returns
    -------
    array of shape (n_rows,)
        The client of each row, from 0 to K - 1.

    Examples
    --------
    >>> clients = dirichlet_clients(["a", "b"] * 50, n_clients=3, alpha=0.5, rng=0)
    >>> np.bincount(clients, minlength=3)
    array([26,  9, 65])
    """
    groups = encode(sensitive, "sensitive")
    not_empty(len(groups), "sensitive")
    n_clients = whole_number(n_clients, "n_clients")
    if n_clients > len(groups):
        raise InputError(f"n_clients: got {n_clients} clients for {len(groups)} rows; pass at most one client per row.")
    alpha = positive_number(alpha, "alpha", _LARGEST_ALPHA)
    random = generator(rng)
    sizes = np.bincount(groups.codes, minlength=len(groups.names))
    if scheme == "plain":
        counts = _plain_counts(sizes, n_clients, alpha, random)
    elif scheme == "authors":
        _check_sizes(sizes, groups, n_clients)
        counts = _authors_counts(sizes, n_clients, alpha, random, whole_number(max_redraws, "max_redraws"))
    else:
        hint = nearest_name(scheme, ("plain", "authors"))
        raise InputError(f"scheme: got {scheme!r}{hint}; use 'plain' or 'authors'.")
    return _deal(groups, counts, random)


def _plain_counts(sizes: Counts, n_clients: int, alpha: float, rng: np.random.Generator) -> Counts:
    """Rows of each group (down) for each client (across), by Dirichlet shares."""
    return np.array([_by_share(rng.dirichlet(np.full(n_clients, alpha)), int(size)) for size in sizes])


def _authors_counts(sizes: Counts, n_clients: int, alpha: float, rng: np.random.Generator, max_redraws: int) -> Counts:
    """The first of at most ``1 + max_redraws`` draws whose cells all hold enough rows."""
    best = 0
    for _ in range(1 + max_redraws):
        counts = _authors_draw(sizes, n_clients, alpha, rng)
        smallest = int(counts.min())
        if smallest >= SMALLEST_CELL:
            return counts
        best = max(best, smallest)
    raise InputError(
        f"dirichlet_clients: with alpha {alpha:g} and {n_clients} clients none of {1 + max_redraws} draws gave every "
        f"(group, client) cell {SMALLEST_CELL} rows, the best had a cell of {best}; pass a larger alpha, "
        "fewer clients, a larger max_redraws, or scheme='plain'."
    )


def _authors_draw(sizes: Counts, n_clients: int, alpha: float, rng: np.random.Generator) -> Counts:
    """One draw in which clients that already hold n/K rows get none of the later groups."""
    counts: Counts = np.zeros((sizes.size, n_clients), dtype=np.int64)
    full = sizes.sum() / n_clients
    for group, size in enumerate(sizes):
        shares = rng.dirichlet(np.full(n_clients, 2.0 * alpha))
        shares[counts.sum(axis=0) >= full] = 0.0
        if shares.sum() == 0.0:  # alpha so small that only full clients drew anything: a failed draw
            return np.zeros_like(counts)
        counts[group] = _by_share(shares / shares.sum(), int(size))
    return counts


def _check_sizes(sizes: Counts, groups: Codes, n_clients: int) -> None:
    """Raise where no draw could give every cell enough rows."""
    smallest = int(np.argmin(sizes))
    if sizes[smallest] < SMALLEST_CELL * n_clients:
        raise InputError(
            f"dirichlet_clients: group {groups.names[smallest]!r} has {sizes[smallest]} rows, too few for {n_clients} "
            f"clients with {SMALLEST_CELL} each; pass fewer clients, merge groups, or use scheme='plain'."
        )


def _by_share(shares: Floats, size: int) -> Counts:
    """Cut ``size`` rows where the running shares fall; the last client takes what is left."""
    cuts = np.floor(np.cumsum(shares[:-1]) * size).astype(np.int64)
    counts: Counts = np.diff(np.concatenate([[0], np.minimum(cuts, size), [size]]))
    return counts


def _deal(groups: Codes, counts: Counts, rng: np.random.Generator) -> Integers:
    """Deal each group's shuffled rows, ``counts[group, client]`` to each client."""
    clients: Integers = np.empty(len(groups), dtype=np.int32)
    numbers = np.arange(counts.shape[1], dtype=np.int32)
    for group, of_group in enumerate(counts):
        rows = rng.permutation(np.flatnonzero(groups.codes == group))
        clients[rows] = np.repeat(numbers, of_group)
    return clients


def split(n_rows: int, fractions: Mapping[str, float], *, rng: RandomSource) -> dict[str, RowNumbers]:
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
    pieces = np.split(generator(rng).permutation(n_rows), cuts[:-1])
    for part, rows in zip(shares, pieces, strict=True):
        if rows.size == 0:
            raise InputError(f"fractions: part {part!r} gets none of {n_rows} rows; pass more rows or a larger share.")
    return {part: np.sort(rows) for part, rows in zip(shares, pieces, strict=True)}
