"""The one shape of every data set: features, labels, sensitive groups, sites, and what a reader must know.

How stored codes become features is said here too. Their number is fixed by ranges and lists of categories and not by
the rows, so that every part of the data has the same features.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, binary, column, matrix, nearest_name, not_empty, same_length
from logofair.errors import InputError

# A number, by its range, or a code, by the names of its categories.
Feature: TypeAlias = tuple[float, float] | Mapping[int, str]

_GROUPS_SHOWN = 6


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows of people, with the terms and the known harms of the data.

    Parameters
    ----------
    name : str
        Short name of the data set.
    features : array of shape (n_rows, n_features) or (n_rows, 3, height, width)
        What a model sees: a table, as float64, or red, green and blue images of uint8. An array of images is kept as
        it is, never copied: it may be a read-only memory map of a file larger than the memory.
    feature_names : tuple of str
        One name per column of a table; empty for images.
    labels : array of shape (n_rows,)
        0 or 1.
    sensitive : array of shape (n_rows,)
        The sensitive group of each row, as text.
    sites : array of shape (n_rows,), optional
        The natural site of each row (a state, a school); None where the data have none.
    licence, citation : str
        Terms of use, and how to cite the source.
    known_harms : tuple of str
        What the data misrepresent, one sentence each.
    notes : tuple of str
        What a reader must know about these rows in particular, such as a year nobody checked, one sentence each.
    numbers : array of shape (n_rows,), optional
        The number of each row in the whole data set; None where these are all its rows, or its first ones, in order.

    Examples
    --------
    >>> people = Dataset(
    ...     name="toy", features=[[0.1], [0.9], [0.4]], feature_names=("age",), labels=[0, 1, 1],
    ...     sensitive=["a", "b", "a"], sites=["north", "south", "south"],
    ... )
    >>> people
    Dataset(toy: 3 rows, 1 feature, 66.7 % positive, groups a 2, b 1, 2 natural sites)
    >>> people.take([0, 2]).labels
    array([0, 1])
    >>> Dataset("faces", np.zeros((2, 3, 64, 64), np.uint8), feature_names=(), labels=[0, 1], sensitive=["a", "b"])
    Dataset(faces: 2 rows, 64 x 64 images, 50.0 % positive, groups a 1, b 1, no natural sites)
    """

    name: str
    features: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    sensitive: npt.NDArray[np.str_]
    sites: npt.NDArray[Any] | None = None
    licence: str = ""
    citation: str = ""
    known_harms: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "features": self.features,
            "feature_names": tuple(self.feature_names),
            "labels": binary(self.labels, "labels").astype(np.int64),
            "sensitive": column(self.sensitive, "sensitive").astype(np.str_),
            "sites": None if self.sites is None else column(self.sites, "sites"),
            "notes": tuple(self.notes),
            "numbers": None if self.numbers is None else column(self.numbers, "numbers"),
        }
        if (found := checked["numbers"]) is not None:
            if found.dtype.kind not in "iu":
                raise InputError(f"numbers: expected whole numbers of rows, got values of type {found.dtype}.")
            checked["numbers"] = found.astype(np.int64)
        images, given = self.features, len(self.feature_names)
        if isinstance(images, np.ndarray) and images.ndim > 2:  # as they are, without a copy
            if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1] != 3 or 0 in images.shape[2:]:
                raise InputError(
                    f"features: got {images.dtype} of shape {images.shape}; images are uint8 of shape (rows, 3, "
                    "height, width), a table has rows and columns."
                )
            if given:
                raise InputError(f"feature_names: got {given} names for images; pass an empty tuple.")
        else:
            checked["features"] = matrix(self.features, "features")
        n_rows = len(checked["features"])
        not_empty(n_rows, "features")
        same_length(n_rows, **{name: checked[name] for name in ("labels", "sensitive", "sites", "numbers")})
        columns = checked["features"].shape[1]
        if checked["features"].ndim == 2 and given != columns:
            raise InputError(f"feature_names: got {given} names for {columns} columns of features; name every column.")
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return self.labels.size

    @property
    def row_numbers(self) -> npt.NDArray[np.int64]:
        """The number of each row in the whole data set, from 0; `take` and loaders asked for some rows keep it."""
        return np.arange(len(self)) if self.numbers is None else self.numbers

    def __repr__(self) -> str:
        groups, sizes = np.unique(self.sensitive, return_counts=True)
        n_sites = None if self.sites is None else len(set(self.sites.tolist()))
        listed = ", ".join(f"{group} {size:,}" for group, size in zip(groups, sizes, strict=True))
        n_features, *image = self.features.shape[1:]
        parts = (
            f"{len(self):,} row{'s' * (len(self) != 1)}",
            f"{image[0]} x {image[1]} images" if image else f"{n_features:,} feature{'s' * (n_features != 1)}",
            f"{100 * self.labels.mean():.1f} % positive",
            f"groups {listed}" if groups.size <= _GROUPS_SHOWN else f"{groups.size:,} groups",
            "no natural sites" if n_sites is None else f"{n_sites:,} natural site{'s' * (n_sites != 1)}",
        )
        return f"Dataset({self.name}: {', '.join(parts)})"

    def take(self, rows: npt.ArrayLike) -> Dataset:
        """Return the data set of some rows, in the order given; their features are copied into memory.

        Parameters
        ----------
        rows : array of int or bool
            Row numbers from 0, or one True or False per row.

        Examples
        --------
        >>> toy = Dataset("toy", features=[[0.1], [0.9]], feature_names=("age",), labels=[0, 1], sensitive=["a", "b"])
        >>> toy.take([True, False])
        Dataset(toy: 1 row, 1 feature, 0.0 % positive, groups a 1, no natural sites)
        """
        chosen = column(rows, "rows")
        not_empty(chosen.size, "rows")
        if chosen.dtype.kind == "b":
            same_length(len(self), rows=chosen)
            chosen = np.flatnonzero(chosen)
        elif chosen.dtype.kind not in "iu":
            raise InputError(f"rows: expected row numbers or a mask, got values of type {chosen.dtype}.")
        elif int(chosen.min()) < 0 or int(chosen.max()) >= len(self):
            wrong = int(chosen.min() if chosen.min() < 0 else chosen.max())
            raise InputError(f"rows: got row number {wrong}; {self.name} has rows 0 to {len(self) - 1}.")
        return replace(
            self,
            features=self.features[chosen],
            labels=self.labels[chosen],
            sensitive=self.sensitive[chosen],
            sites=None if self.sites is None else self.sites[chosen],
            numbers=self.row_numbers[chosen],
        )


@cache
def known_terms() -> Mapping[str, Mapping[str, Any]]:
    """What ``data/terms.toml`` says of each data set: licence, citation and known harms."""
    text = (files("logofair.datasets") / "data" / "terms.toml").read_text(encoding="utf-8")
    return {
        name: {fact: tuple(value) if isinstance(value, list) else value for fact, value in facts.items()}
        for name, facts in tomllib.loads(text).items()
    }


def terms_of(name: str) -> dict[str, Any]:
    """The name and terms of a data set, as `Dataset` takes them."""
    return {"name": name, **known_terms()[name]}


def chosen(value: str, known: Iterable[str], where: str) -> str:
    """Return one of some known names; raise on any other, with the nearest."""
    names = list(known)
    if value not in names:
        raise InputError(f"{where}: got {value!r}{nearest_name(value, names)}; use one of {', '.join(names)}.")
    return value


def feature_table(
    column: Callable[[str], npt.NDArray[Any]], features: Mapping[str, Feature]
) -> tuple[Floats, tuple[str, ...]]:
    """Features of some rows side by side, and their names; ``column`` finds the column of a name.

    A number is scaled to [0, 1] by its range, and what lies outside is cut off; a code becomes one feature of 0 or 1
    for each of its categories.

    Examples
    --------
    >>> rows = {"SEX": np.array([2, 1]), "AGEP": np.array([57, 17])}
    >>> table, names = feature_table(rows.__getitem__, {"AGEP": (17, 97), "SEX": {1: "Male", 2: "Female"}})
    >>> table.tolist(), names
    ([[0.5, 0.0, 1.0], [0.0, 1.0, 0.0]], ('AGEP', 'SEX=Male', 'SEX=Female'))
    """
    names = {
        name: [name] if isinstance(feature, tuple) else [f"{name}={category}" for category in feature.values()]
        for name, feature in features.items()
    }
    all_names = tuple(name for of_feature in names.values() for name in of_feature)
    table: Floats = np.empty((column(next(iter(features))).size, len(all_names)))  # filled in parts: never twice
    place = 0
    for name, feature in features.items():
        values, block = column(name)[:, None], table[:, place : place + len(names[name])]
        if isinstance(feature, tuple):
            low, high = feature
            block[:] = np.clip((values.astype(np.float64) - low) / (high - low), 0.0, 1.0)
        else:
            block[:] = np.equal(values, np.array(list(feature)))
        place += len(names[name])
    return table, all_names
