"""Dealing the rows of a data set to clients, and splitting rows into parts; seeded, no row twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.arguments import RandomSource, generator, positive_number, whole_number
from logofair.datasets.dirichlet import dirichlet_clients
from logofair.datasets.table import Dataset
from logofair.inputs import InputError, Integers, Label, nearest_name
from logofair.labels import encode

__all__ = ["Dealt", "deal", "dirichlet_clients", "split"]

RowNumbers: TypeAlias = npt.NDArray[np.intp]

_WAYS = ("sensitive", "label", "natural")


@dataclass(frozen=True, eq=False, repr=False)
class Dealt:
    """Which rows belong to which client, and who was left out.

    Attributes
    ----------
    rows : array of int
        Numbers of the rows that have a client, in increasing order.
    clients : array
        The client of each of these rows.
    left_out : tuple
        The natural clients whose rows were left out, the largest first; nobody where rows are dealt by chance.
    rows_left_out : int
        How many rows these have.

    Examples
    --------
    >>> Dealt(np.array([0, 2]), np.array(["north", "south"]), left_out=("east",), rows_left_out=1)
    Dealt(2 rows of 2 clients; left out: 1 row of 1 client)
    """

    rows: RowNumbers
    clients: npt.NDArray[Any]
    left_out: tuple[Label, ...] = ()
    rows_left_out: int = 0

    def __repr__(self) -> str:
        kept = _counted(self.rows.size, len(set(self.clients.tolist())))
        without = f"; left out: {_counted(self.rows_left_out, len(self.left_out))}" if self.left_out else ""
        return f"Dealt({kept}{without})"


def _counted(rows: int, clients: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)} of {clients:,} client{'s' * (clients != 1)}"


def deal(
    dataset: Dataset,
    *,
    by: str = "sensitive",
    n_clients: int | None = None,
    alpha: float | None = None,
    scheme: str = "plain",
    least_rows: int | None = None,
    rng: RandomSource | None = None,
) -> Dealt:
    """Deal the rows of a data set to clients, by chance or as they come.

    Parameters
    ----------
    dataset : Dataset
        The rows.
    by : {"sensitive", "label", "natural"}
        "sensitive" or "label": by `dirichlet_clients`, so that clients differ in their groups or in their labels; every
        client must get rows. "natural": the data set's own clients.
    n_clients : int
        Number of clients. For natural clients optional: only so many, the largest (of equals the first by name).
    alpha, scheme, rng
        As of `dirichlet_clients`; not for natural clients.
    least_rows : int, optional
        Only natural clients with at least so many rows.

    Returns
    -------
    Dealt
        The rows and their clients. Rows of other natural clients are left out, never merged into one.

    Examples
    --------
    >>> people = Dataset(
    ...     name="toy", features=[[0.1], [0.9], [0.4], [0.2]], feature_names=("age",), labels=[0, 1, 1, 0],
    ...     sensitive=["a", "b", "a", "b"], clients=["north", "south", "south", "south"],
    ... )
    >>> deal(people, by="label", n_clients=2, alpha=1.0, rng=0).clients
    array([1, 1, 0, 1], dtype=int32)
    >>> dealt = deal(people, by="natural", least_rows=2)
    >>> dealt
    Dealt(3 rows of 1 client; left out: 1 row of 1 client)
    >>> people.take(dealt.rows).labels
    array([1, 1, 0])
    """
    if by not in _WAYS:
        raise InputError(f"by: got {by!r}{nearest_name(by, _WAYS)}; use one of {', '.join(_WAYS)}.")
    if by == "natural":
        if alpha is not None:
            raise InputError(f"alpha: got {alpha!r}, but natural clients are not dealt by chance; leave it out.")
        return _natural(dataset, n_clients, least_rows)
    if least_rows is not None:
        raise InputError(f"least_rows: got {least_rows!r}, but only natural clients are chosen; use by='natural'.")
    return Dealt(np.arange(len(dataset)), _by_chance(dataset, by, n_clients, alpha, scheme, rng))


def _by_chance(dataset: Dataset, by: str, n_clients: Any, alpha: Any, scheme: str, rng: Any) -> Integers:
    """Clients by Dirichlet shares of the groups or the labels, all with rows."""
    values, what = (dataset.sensitive, "group") if by == "sensitive" else (dataset.labels, "label")
    clients = dirichlet_clients(values, n_clients=n_clients, alpha=alpha, rng=rng, scheme=scheme, what=what)
    empty = np.flatnonzero(np.bincount(clients, minlength=n_clients) == 0)
    if empty.size:
        raise InputError(
            f"n_clients: with alpha {alpha:g}, {empty.size} of {n_clients} clients got no rows; "
            "pass fewer clients, a larger alpha or another seed."
        )
    return clients


def _natural(dataset: Dataset, n_clients: int | None, least_rows: int | None) -> Dealt:
    """The data set's own clients: those large enough, or the largest."""
    if dataset.clients is None:
        raise InputError(f"by: {dataset.name} has no natural clients; use 'sensitive' or 'label'.")
    codes = encode(dataset.clients, "clients")
    if len(codes.names) == 1:
        only = f"one natural client alone, {codes.names[0]!r}"
        raise InputError(f"by: {dataset.name} has {only}; take in more of them, or use 'sensitive' or 'label'.")
    sizes = np.bincount(codes.codes, minlength=len(codes.names))
    by_size = np.argsort(-sizes, kind="stable")
    kept = _how_many(sizes, n_clients, least_rows, dataset.name)
    rows = np.flatnonzero(np.isin(codes.codes, by_size[:kept]))
    left_out = tuple(codes.names[place] for place in by_size[kept:])
    return Dealt(rows, dataset.clients[rows], left_out, len(dataset) - rows.size)


def _how_many(sizes: npt.NDArray[np.intp], n_clients: int | None, least_rows: int | None, name: str) -> int:
    """How many of the natural clients, from the largest down, are wanted."""
    least = 1 if least_rows is None else whole_number(least_rows, "least_rows")
    available = int((sizes >= least).sum())
    if not available:
        raise InputError(
            f"least_rows: got {least:,}, but the largest natural client of {name} has {sizes.max():,} rows; pass less."
        )
    wanted = available if n_clients is None else whole_number(n_clients, "n_clients")
    if wanted > available:
        enough = f" with at least {least:,} rows" * (least > 1)
        raise InputError(
            f"n_clients: got {wanted:,}, but {name} has {available:,} natural clients{enough}; pass at most as many."
        )
    return wanted


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
