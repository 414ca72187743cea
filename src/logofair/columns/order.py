"""The order of rows by cell and score: sorted once, on which folds, chances and cells all stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices, group_by, grouped


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Rows by cell and, inside each, by rising score; rows of equal score stand in the order they came.

    ``rows`` are their places in the user's columns; those of cell i begin at ``starts[i]``.

    Examples
    --------
    >>> import numpy as np
    >>> scores, cells = np.array([0.5, 0.9, 0.1, 0.5]), np.array([1, 0, 1, 1])
    >>> RowOrder.of(scores, cells, n_cells=2).rows.tolist()
    [1, 2, 0, 3]
    """

    rows: Indices
    starts: Indices

    @classmethod
    def of(cls, scores: Floats, cells: npt.NDArray[Any], n_cells: int, rising: Indices | None = None) -> RowOrder:
        """Order rows; ``rising`` is their stable order by score alone, where it is known already."""
        # Stable, or tied rows would be dealt to other folds on a machine that sorts in another way.
        rising = np.argsort(scores, kind="stable") if rising is None else rising
        rows, starts = group_by(cells[rising], n_cells, rising)
        return cls(rows, starts)

    @cached_property
    def cells(self) -> Indices:
        """The cell of every row, in this order."""
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    def changes(self, levels: Floats) -> Booleans:
        """Where a row's level, given in this order, or its cell differs from that of the row before."""
        return np.asarray((np.diff(levels) != 0) | (np.diff(self.cells) != 0))

    def along(self, levels: Floats) -> RowOrder:
        """The order by a column that rises with the scores inside each cell, as calibrated scores do.

        The order stays as it is but for two things. Scores that a calibrator sends to one level are tied from now on,
        so their rows stand as they came. And where rounding let a level fall, rows are sorted afresh.
        """
        if self.rows.size == 0:
            return self
        ordered = levels[self.rows]
        changes = self.changes(ordered)
        if np.any((np.diff(ordered) < 0) & (np.diff(self.cells) == 0)):
            cells = np.empty_like(self.cells)
            cells[self.rows] = self.cells
            return RowOrder.of(levels, cells, self.starts.size - 1)
        if not np.any(~changes & (np.diff(self.rows) < 0)):
            return self
        level_of = np.empty(self.rows.size, dtype=np.int64)
        level_of[self.rows] = np.cumsum(np.append(0, changes))
        return RowOrder(grouped(level_of, int(level_of.max()) + 1), self.starts)
