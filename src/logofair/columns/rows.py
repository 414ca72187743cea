"""Rows of people, once checked: what is calibrated, ordered into cells, and solved on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Binary, Floats, Integers
from logofair.columns.labels import Codes
from logofair.columns.segments import Booleans, RowOrder, cell_numbers


@dataclass(frozen=True, eq=False)
class Rows:
    """The columns of rows, each (n,)."""

    scores: Floats
    labels: Binary | None
    groups: Codes
    sites: Codes
    weights: Floats | None
    ids: Codes | None = None  # the person of each row, where ids were given

    def at(self, which: Booleans | npt.NDArray[np.integer[Any]] | slice) -> Self:
        """Some of the rows, with the names of all groups and sites."""
        groups, sites, ids = (
            None if each is None else replace(each, codes=each.codes[which])
            for each in (self.groups, self.sites, self.ids)
        )
        labels = None if self.labels is None else self.labels[which]
        weights = None if self.weights is None else self.weights[which]
        columns: dict[str, Any] = {"groups": groups, "sites": sites, "ids": ids, "labels": labels, "weights": weights}
        return replace(self, scores=self.scores[which], **columns)

    @property
    def shape(self) -> tuple[int, int]:
        """How many sites there are, and groups."""
        return len(self.sites.names), len(self.groups.names)

    @property
    def cells(self) -> Integers:
        """Number of each row's cell."""
        return cell_numbers(self.groups.codes, self.sites.codes, len(self.groups.names))

    def order(self) -> RowOrder:
        """The rows by cell and score."""
        return RowOrder.of(self.scores, self.cells, math.prod(self.shape))

    @cached_property
    def people(self) -> Codes | None:
        """The person of each row; None where nobody has several rows, or no ids were given."""
        return None if self.ids is None or np.bincount(self.ids.codes).max() <= 1 else self.ids
