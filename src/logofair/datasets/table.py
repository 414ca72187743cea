"""The one shape of every data set: features, labels, sensitive groups, clients, and what a reader must know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.arguments import matrix
from logofair.inputs import Floats, InputError, binary, column, not_empty, same_length

__all__ = ["Dataset"]

_GROUPS_SHOWN = 6


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows of people, with the terms and the known harms of the data.

    Parameters
    ----------
    name : str
        Short name of the data set.
    features : array of shape (n_rows, n_features)
        What a model sees, as float64.
    feature_names : tuple of str
        One name per column of ``features``.
    labels : array of shape (n_rows,)
        0 or 1.
    sensitive : array of shape (n_rows,)
        The sensitive group of each row, as text.
    clients : array of shape (n_rows,), optional
        The natural client of each row (a state, a school); None where the data have none.
    licence, citation : str
        Terms of use, and how to cite the source.
    known_harms : tuple of str
        What the data misrepresent, one sentence each.

    Examples
    --------
    >>> people = Dataset(
    ...     name="toy", features=[[0.1], [0.9], [0.4]], feature_names=("age",), labels=[0, 1, 1],
    ...     sensitive=["a", "b", "a"], clients=["north", "south", "south"],
    ... )
    >>> people
    Dataset(toy: 3 rows, 1 feature, 66.7 % positive, groups a 2, b 1, 2 natural clients)
    >>> people.take([0, 2]).labels
    array([0, 1])
    """

    name: str
    features: Floats
    feature_names: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    sensitive: npt.NDArray[np.str_]
    clients: npt.NDArray[Any] | None = None
    licence: str = ""
    citation: str = ""
    known_harms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "features": matrix(self.features, "features"),
            "feature_names": tuple(self.feature_names),
            "labels": binary(self.labels, "labels").astype(np.int64),
            "sensitive": column(self.sensitive, "sensitive").astype(np.str_),
            "clients": None if self.clients is None else column(self.clients, "clients"),
        }
        n_rows, n_features = checked["features"].shape
        not_empty(n_rows, "features")
        same_length(n_rows, **{name: checked[name] for name in ("labels", "sensitive", "clients")})
        if len(checked["feature_names"]) != n_features:
            raise InputError(
                f"feature_names: got {len(checked['feature_names'])} names for {n_features} columns of features; "
                "name every column."
            )
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return self.labels.size

    def __repr__(self) -> str:
        groups, sizes = np.unique(self.sensitive, return_counts=True)
        listed = ", ".join(f"{group} {size:,}" for group, size in zip(groups, sizes, strict=True))
        n_features = self.features.shape[1]
        parts = (
            f"{len(self):,} row{'s' * (len(self) != 1)}",
            f"{n_features:,} feature{'s' * (n_features != 1)}",
            f"{100 * self.labels.mean():.1f} % positive",
            f"groups {listed}" if groups.size <= _GROUPS_SHOWN else f"{groups.size:,} groups",
            "no natural clients" if self.clients is None else f"{len(set(self.clients.tolist())):,} natural clients",
        )
        return f"Dataset({self.name}: {', '.join(parts)})"

    def take(self, rows: npt.ArrayLike) -> Dataset:
        """Return the data set of some rows, in the order given.

        Parameters
        ----------
        rows : array of int or bool
            Row numbers from 0, or one True or False per row.

        Examples
        --------
        >>> toy = Dataset("toy", features=[[0.1], [0.9]], feature_names=("age",), labels=[0, 1], sensitive=["a", "b"])
        >>> toy.take([True, False])
        Dataset(toy: 1 row, 1 feature, 0.0 % positive, groups a 1, no natural clients)
        """
        chosen = self._row_numbers(rows)
        return replace(
            self,
            features=self.features[chosen],
            labels=self.labels[chosen],
            sensitive=self.sensitive[chosen],
            clients=None if self.clients is None else self.clients[chosen],
        )

    def _row_numbers(self, rows: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Checked row numbers of a selection."""
        chosen = column(rows, "rows")
        not_empty(chosen.size, "rows")
        if chosen.dtype.kind == "b":
            same_length(len(self), rows=chosen)
            return np.flatnonzero(chosen)
        if chosen.dtype.kind not in "iu":
            raise InputError(f"rows: expected row numbers or a mask, got values of type {chosen.dtype}.")
        if int(chosen.min()) < 0 or int(chosen.max()) >= len(self):
            wrong = int(chosen.min() if chosen.min() < 0 else chosen.max())
            raise InputError(f"rows: got row number {wrong}; {self.name} has rows 0 to {len(self) - 1}.")
        return chosen.astype(np.intp)
