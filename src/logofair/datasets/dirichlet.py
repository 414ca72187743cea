"""Dealing rows to clients by Dirichlet shares of every group: seeded, every row exactly once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.arguments import RandomSource, generator, positive_number, whole_number
from logofair.inputs import Floats, InputError, Integers, nearest_name, not_empty
from logofair.labels import Codes, encode

__all__ = ["dirichlet_clients"]

Counts: TypeAlias = npt.NDArray[np.int64]

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
    what: str = "group",
) -> Integers:
    """Deal rows to clients so that groups are spread unevenly: the smaller ``alpha``, the more so.

    Parameters
    ----------
    sensitive : column of labels
        The group of each row, or any other column whose values are to be spread, such as the labels 0 and 1.
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
    what : str
        What a value of the column is called in error messages.

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
        _check_sizes(sizes, groups, what, n_clients)
        counts = _authors_counts(sizes, what, n_clients, alpha, random, whole_number(max_redraws, "max_redraws"))
    else:
        hint = nearest_name(scheme, ("plain", "authors"))
        raise InputError(f"scheme: got {scheme!r}{hint}; use 'plain' or 'authors'.")
    return _deal(groups, counts, random)


def _plain_counts(sizes: Counts, n_clients: int, alpha: float, rng: np.random.Generator) -> Counts:
    """Rows of each group (down) for each client (across), by Dirichlet shares."""
    return np.array([_by_share(rng.dirichlet(np.full(n_clients, alpha)), int(size)) for size in sizes])


def _authors_counts(
    sizes: Counts, what: str, n_clients: int, alpha: float, rng: np.random.Generator, max_redraws: int
) -> Counts:
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
        f"({what}, client) cell {SMALLEST_CELL} rows, the best had a cell of {best}; pass a larger alpha, "
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


def _check_sizes(sizes: Counts, groups: Codes, what: str, n_clients: int) -> None:
    """Raise where no draw could give every cell enough rows."""
    smallest = int(np.argmin(sizes))
    if sizes[smallest] < SMALLEST_CELL * n_clients:
        raise InputError(
            f"dirichlet_clients: {what} {groups.names[smallest]!r} has {sizes[smallest]} rows, too few for {n_clients} "
            f"clients with {SMALLEST_CELL} each; pass fewer clients, or use scheme='plain'."
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
