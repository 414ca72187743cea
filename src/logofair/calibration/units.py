"""The units of a calibration and their numbers: all rows, then the groups, then the cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.calibration.runs import Places
from logofair.inputs import Integers

__all__ = ["IDENTITY_ROWS", "Units"]

# The identity map counts as this many rows of evenly spread scores: enough to keep one row, one label or
# one score finite, too few to be seen in a hundred rows.
IDENTITY_ROWS = 1.0


@dataclass(frozen=True)
class Units:
    """Unit 0 is all rows, unit 1 + g group g, unit 1 + n_groups + cell a cell.

    A cell is one (group, client) pair; its number is ``client * n_groups + group``.
    """

    n_groups: int
    n_clients: int

    @property
    def n_cells(self) -> int:
        """How many (group, client) pairs there are."""
        return self.n_groups * self.n_clients

    @property
    def size(self) -> int:
        """How many units there are."""
        return 1 + self.n_groups + self.n_cells

    def cells(self, group_codes: Integers, client_codes: Integers) -> Places:
        """The cell of every row; its client must be known."""
        # In 64 bits: many clients times many groups may not fit into the codes' 32.
        return client_codes.astype(np.int64) * self.n_groups + group_codes

    def of(self, group_codes: Integers, client_codes: Integers) -> Places:
        """The unit that serves every row: its cell, or its group where the client is unknown (-1)."""
        # Client -1 falls on the numbers just before the cells, which are the groups'.
        return self.cells(group_codes, client_codes) + (1 + self.n_groups)
