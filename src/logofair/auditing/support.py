"""How many rows the rates of an audit rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing import Audit
from logofair.auditing.measure import FEW_ROWS
from logofair.columns.checks import Label
from logofair.notions import NOTIONS

__all__ = ["FEW_ROWS", "Support"]


@dataclass(frozen=True, eq=False)
class Support:
    """How many rows every rate rests on: ``rows[rate, client, group]``, with the names of all three.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> measured = audit([1, 0, 0, 0], [1, 0, 1, 0], groups=["M", "M", "F", "F"])
    >>> Support.of(measured, "equalized_odds").smallest()
    ('true positive rate', 'all', 'F', 1)
    """

    rows: npt.NDArray[np.intp]
    rates: tuple[str, ...]
    clients: tuple[Label, ...]
    groups: tuple[Label, ...]

    @classmethod
    def of(cls, measured: Audit, notion: str) -> Support:
        """Count the rows behind the rates of an audit."""
        rates, counts = NOTIONS[notion].rates, measured.counts
        mass, positives = (counts[name].astype(np.float64) for name in ("rows", "positives"))
        rows = np.stack([rate.denominator(mass, positives) for rate in rates]).astype(np.intp)
        return cls(rows, tuple(rate.name for rate in rates), measured.clients, measured.groups)

    @property
    def small_cells(self) -> npt.NDArray[np.bool_]:
        """Which (client, group) cells have a rate that rests on few rows."""
        return np.asarray((self.rows < FEW_ROWS).any(axis=0))

    @property
    def small_clients(self) -> npt.NDArray[np.bool_]:
        """Which clients have such a cell."""
        return np.asarray(self.small_cells.any(axis=1))

    def smallest(self) -> tuple[str, Label, Label, int]:
        """The rate, client and group that rest on the fewest rows, and how many."""
        rate, client, group = np.unravel_index(self.rows.argmin(), self.rows.shape)
        return self.rates[rate], self.clients[client], self.groups[group], int(self.rows[rate, client, group])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "fewer_than": FEW_ROWS,
            "clients": int(self.small_clients.sum()),
            "cells": int(self.small_cells.sum()),
            "smallest": dict(zip(("rate", "client", "group", "rows"), self.smallest(), strict=True)),
        }
