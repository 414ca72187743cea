"""Rows in runs, one run per cell, and the sums over them that a logistic fit needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import cell_numbers

__all__ = ["IDENTITY_ROWS", "Places", "Runs", "Units", "packed_places"]


Places: TypeAlias = npt.NDArray[np.int64]

# Rows worked on at once: a table of ten numbers per row should stay in the processor's second cache.
_CHUNK = 1 << 15


def packed_places(k: int) -> Places:
    """Where entry (i, j) of a symmetric (k, k) matrix lies among its k(k+1)/2 packed ones, (k, k)."""
    places = np.zeros((k, k), dtype=np.int64)
    places[np.triu_indices(k)] = np.arange(k * (k + 1) // 2)
    return np.maximum(places, places.T)


@dataclass(frozen=True)
class Runs:
    """Rows of a logistic regression, those of a cell next to one another.

    Parameters
    ----------
    columns : tuple of Floats
        The features that vary, each (n,).
    intercept : bool
        Whether a constant feature follows.
    targets : Floats
        What the regression aims at, in [0, 1], (n,).
    weights : Floats or None
        Row weights, all positive; None: each row counts once.
    starts : Places
        Run r holds the rows ``starts[r]`` to ``starts[r + 1]``, at least one; (runs + 1,).
    """

    columns: tuple[Floats, ...]
    intercept: bool
    targets: Floats
    weights: Floats | None
    starts: Places

    @property
    def size(self) -> int:
        """How many runs there are."""
        return self.starts.size - 1

    @property
    def mass(self) -> Floats:
        """Sum of the weights of each run."""
        if self.weights is None:
            return np.diff(self.starts).astype(np.float64)
        return np.add.reduceat(self.weights, self.starts[:-1]) if self.size else np.zeros(0)

    def keep(self, wanted: npt.NDArray[np.bool_]) -> Runs:
        """Only the wanted runs."""
        if wanted.all():
            return self
        lengths = np.diff(self.starts)
        rows = np.repeat(wanted, lengths)
        return Runs(
            tuple(column[rows] for column in self.columns),
            self.intercept,
            self.targets[rows],
            None if self.weights is None else self.weights[rows],
            np.concatenate(([0], np.cumsum(lengths[wanted]))),
        )

    def sums(self, parameters: Floats) -> Floats:
        """Each run's log-loss, its gradient and packed Hessian in the parameters, stacked.

        Parameters (k, runs) to sums (1 + k + k(k+1)/2, runs).
        """
        k = len(parameters)
        totals = np.zeros((1 + k + k * (k + 1) // 2, self.size))
        n = self.targets.size
        for first in range(0, n, _CHUNK):
            last = min(first + _CHUNK, n)
            low = int(np.searchsorted(self.starts, first, side="right")) - 1
            high = int(np.searchsorted(self.starts, last, side="left"))
            starts = np.maximum(self.starts[low:high] - first, 0)
            lengths = np.diff(starts, append=last - first)
            terms = self._terms(slice(first, last), [np.repeat(p[low:high], lengths) for p in parameters])
            totals[:, low:high] += np.add.reduceat(terms, starts, axis=1)
        return totals

    def _terms(self, rows: slice, parameters: list[Floats]) -> Floats:
        """The rows' own shares of the sums."""
        features = [column[rows] for column in self.columns]
        targets = self.targets[rows]
        if self.intercept:
            features.append(np.ones_like(targets))
        margin = parameters[0] * features[0]
        for parameter, feature in zip(parameters[1:], features[1:], strict=True):
            margin += parameter * feature
        loss, residual, curvature = _logistic(margin, targets)
        if self.weights is not None:
            loss, residual, curvature = (term * self.weights[rows] for term in (loss, residual, curvature))
        k = len(features)
        table = np.empty((1 + k + k * (k + 1) // 2, targets.size))
        table[0] = loss
        place = 1 + k
        for i, feature in enumerate(features):
            np.multiply(residual, feature, out=table[1 + i])
            bent = curvature * feature
            for other in features[i:]:
                np.multiply(bent, other, out=table[place])
                place += 1
        return table


def _logistic(margin: Floats, targets: Floats) -> tuple[Floats, Floats, Floats]:
    """Log-loss of the log-odds ``margin`` and its first two derivatives."""
    # Written in terms of the unlikelier label, whose chance and loss keep their digits however small.
    size, up = np.abs(margin), margin >= 0.0
    tail = np.exp(-size)
    likely = 1.0 / (1.0 + tail)
    unlikely = tail * likely
    against = np.where(up, 1.0 - targets, targets)
    excess = against - unlikely
    return size * against + np.log1p(tail), np.where(up, excess, -excess), likely * unlikely


# The identity map counts as this many rows of evenly spread scores: enough to keep one row, one label or
# one score finite, too few to be seen in a hundred rows.
IDENTITY_ROWS = 1.0


@dataclass(frozen=True)
class Units:
    """Unit 0 is all rows, unit 1 + g group g, unit 1 + n_groups + cell a cell.

    A cell is one (group, client) pair, numbered by :func:`cell_numbers`.
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
        return cell_numbers(group_codes, client_codes, self.n_groups).astype(np.int64)

    def of(self, group_codes: Integers, client_codes: Integers) -> Places:
        """The unit that serves every row: its cell, or its group where the client is unknown (-1)."""
        # Client -1 falls on the numbers just before the cells, which are the groups'.
        return self.cells(group_codes, client_codes) + (1 + self.n_groups)
