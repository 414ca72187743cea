"""Pooling: what the score distribution of a small cell borrows from its group at the other clients.

A cell of twenty rows knows its rates to a tenth; a rule fitted to them is fair to those twenty people and nobody else.
So a cell's measure becomes ``W own + (1 - W) prior`` with ``W = n / (n + kappa)``, in accuracy and in every rate. The
prior is the group's distribution of raw scores over all clients, moved by a shift in log-odds where sites differ, and
read through the cell's own calibrator: chances are never borrowed. The mass of a cell stays, and a cell puts into the
prior the mass it takes out, so that without shifts the group's distribution over all clients stays what it was.

Prior and kappa are chosen by cross-validation of held-out rates. Everything that clients would have to tell for it is
a sum over them: counts, moments of shifts, one histogram on fixed bins per group, and the candidates' errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from logofair.calibration.crossfit import deal_folds
from logofair.calibration.logistic import EDGE
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Booleans, Indices, RowOrder

__all__ = ["POOLING", "Borrowed", "Choice", "ScoredRows", "borrow", "choose"]

POOLING = ("auto", "none", "full")

# Log-odds lie in [-14, 14] (scores are moved EDGE = 1e-6 away from 0 and 1) and are counted in bins this narrow.
_LIMIT, _BINS_PER_UNIT = 14, 32
_BINS = 2 * _LIMIT * _BINS_PER_UNIT
# Held-out rates are compared at this many thresholds, spread evenly over the rows; at fewer where cells are many.
_THRESHOLDS, _FEWEST_THRESHOLDS, _MOST_ENTRIES = 31, 7, 1 << 23
_KINDS = ("group", "client", "cell")
_KAPPAS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, np.inf)
# While candidates are compared, cells give to the prior as if kappa were this: one prior for all of them.
_KAPPA_WHILE_CHOOSING = 100.0
# Borrowing too much where sites differ costs more than too little where they are alike: so the least kappa is taken
# whose held-out error exceeds the best one's by less than this many standard errors of the difference.
_MARGIN = 0.5
# Cells of this many rows know their rates to 0.004: where all have them, there is nothing to choose.
_ENOUGH_ROWS = 20_000
# A cell that would borrow less than this share borrows nothing.
_LEAST_SHARE = 1e-3
# A cell's prior has at most this many rows; fewer where cells are many.
_MOST_PRIOR_ROWS, _FEWEST_PRIOR_ROWS, _MOST_ROWS_IN_ALL = 256, 32, 1 << 20


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Raw scores in log-odds, the cells and the weights of rows, each (n,)."""

    odds: Floats
    cells: Integers
    weights: Floats | None
    n_groups: int
    n_clients: int

    @classmethod
    def of(cls, scores: Floats, cells: Integers, weights: Floats | None, n_groups: int, n_clients: int) -> ScoredRows:
        """Rows from their scores."""
        inside = np.clip(scores, EDGE, 1.0 - EDGE)
        return cls(np.log(inside) - np.log1p(-inside), cells, weights, n_groups, n_clients)

    def at(self, rows: Booleans) -> ScoredRows:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return ScoredRows(self.odds[rows], self.cells[rows], weights, self.n_groups, self.n_clients)

    def sums(self, values: Floats | None) -> Floats:
        """Weighted sum of a column (None: of 1) over each cell, (clients, groups)."""
        if values is not None and self.weights is not None:
            values = values * self.weights
        column = self.weights if values is None else values
        summed = np.bincount(self.cells, column, self.n_groups * self.n_clients)
        return np.asarray(summed, dtype=np.float64).reshape(self.n_clients, self.n_groups)

    @cached_property
    def mass(self) -> Floats:
        """Weight of each cell, (clients, groups)."""
        return self.sums(None)

    @cached_property
    def counts(self) -> Floats:
        """How many rows of equal weight each cell is worth, (clients, groups)."""
        return self.mass if self.weights is None else _ratio(self.mass**2, self.sums(self.weights))

    def may_borrow(self, pooling: str) -> bool:
        """Whether there is anybody to borrow from, and for "auto" a cell that has not enough rows of its own."""
        if pooling == "none" or np.count_nonzero(self.mass.sum(axis=1)) < 2:
            return False
        return pooling == "full" or bool(self.counts[self.counts > 0].min() < _ENOUGH_ROWS)

    def shifts(self, kind: str) -> Floats:
        """How far each cell's prior is moved in log-odds, (clients, groups).

        Nowhere for the kind "group"; for "client" by one number for all groups of a client; for "cell" by another one
        for each group besides. Each is a mean drawn to 0 as far as its own variance explains it.
        """
        if kind in ("none", "group"):
            return np.zeros_like(self.mass)
        mass, total = self.mass, self.sums(self.odds)
        centre, means, noise = _ratio(total.sum(axis=0), mass.sum(axis=0)), _ratio(total, mass), self._noise(total)
        of_client = mass.sum(axis=1)
        raw = _ratio((total - mass * centre).sum(axis=1), of_client)
        shift = np.zeros_like(mass) + _drawn_in(raw, _ratio((mass**2 * noise).sum(axis=1), of_client**2))[:, None]
        if kind == "client":
            return shift
        rest = np.where(mass > 0, means - centre - shift, 0.0)
        return np.stack([shift[:, a] + _drawn_in(rest[:, a], noise[:, a]) for a in range(self.n_groups)], axis=1)

    def _noise(self, total: Floats) -> Floats:
        """Variance of each cell's mean log-odds, from the variance inside the cells of its group; 0 where empty."""
        inside = self.sums(self.odds**2) - _ratio(total**2, self.mass)
        freedom = self.mass * (1.0 - _ratio(np.ones_like(self.mass), np.maximum(self.counts, 1.0)))
        return _ratio(_ratio(inside.sum(axis=0), freedom.sum(axis=0)) * (self.mass > 0), self.counts)

    def histogram(self, share: Floats, shifts: Floats) -> tuple[Floats, Floats]:
        """Mass and summed log-odds in every bin, (groups, bins) each, of cells that give a share and are moved back."""
        residual = self.odds - shifts.ravel()[self.cells]
        weight = share.ravel()[self.cells] * (1.0 if self.weights is None else self.weights)
        place = (self.cells % self.n_groups) * _BINS + _bins(residual)
        shape = self.n_groups, _BINS
        mass, total = (np.bincount(place, w, self.n_groups * _BINS) for w in (weight, weight * residual))
        return np.asarray(mass, np.float64).reshape(shape), np.asarray(total, np.float64).reshape(shape)


def _ratio(above: Floats, below: Floats) -> Floats:
    """A quotient that is 0 where the denominator is."""
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)


def _drawn_in(means: Floats, noise: Floats) -> Floats:
    """Means drawn to 0 by their noise (variance); how far they truly differ follows from moments.

    These are DerSimonian and Laird's: four sums over the clients.
    """
    weight = _ratio(np.ones_like(noise), noise)
    total = weight.sum()
    if total == 0.0:
        return np.zeros_like(means)
    centre = (weight * means).sum() / total
    excess = (weight * (means - centre) ** 2).sum() - ((noise > 0).sum() - 1)
    scale = total - (weight**2).sum() / total
    variance = max(0.0, excess / scale) if scale > 1e-9 * total else 0.0
    return np.where(noise > 0, means * _ratio(np.full_like(noise, variance), variance + noise), 0.0)


def _bins(odds: Floats) -> Indices:
    return np.clip(((odds + _LIMIT) * _BINS_PER_UNIT).astype(np.int64), 0, _BINS - 1)


def own_shares(counts: Floats, kappa: float) -> Floats:
    """W: what part of each cell's measure its own rows are."""
    if kappa == 0.0 or np.isinf(kappa):
        return np.where(counts > 0, float(kappa == 0.0), 0.0)
    return counts / (counts + kappa)


@dataclass(frozen=True)
class Choice:
    """Which prior cells borrow from, and how many rows it is worth (``kappa``).

    ``kind``: "none"; "group", the group's rows at all clients; "client", these moved by the client's shift in log-odds;
    "cell", moved by a shift for each group of the client.
    """

    kind: str = "none"
    kappa: float = 0.0


def choose(rows: ScoredRows, pooling: str, folds: int, rng: np.random.Generator) -> Choice:
    """What the option says, or for "auto" the candidate with the least error on held-out rows.

    ``rows`` may borrow.
    """
    if pooling == "full":
        return Choice("group", np.inf)
    order = RowOrder.of(rows.odds, rows.cells, rows.mass.size)
    fold = np.empty(rows.odds.size, dtype=np.int64)
    fold[order.rows] = deal_folds(order, folds, rng)
    return least_error(held_out_errors(rows, fold))


def least_error(errors: Floats) -> Choice:
    """The choice from held-out errors of every kind, kappa and cell: the best kind, and the least kappa as good."""
    total = errors.sum(axis=2)
    kind, best = np.unravel_index(np.argmin(total), total.shape)
    excess = errors[kind] - errors[kind, best]
    error = np.sqrt(excess.shape[1] * excess.var(axis=1))
    kappa = _KAPPAS[int(np.argmax(excess.sum(axis=1) <= _MARGIN * error))]
    return Choice(_KINDS[kind], kappa) if kappa > 0 else Choice()


def held_out_errors(rows: ScoredRows, fold: Indices) -> Floats:
    """Error of every kind, kappa and cell, (kinds, kappas, cells): how badly other folds foretell a fold's rates.

    The squared error of the share below each of some thresholds, summed over thresholds and held-out rows, less what
    is the same for all candidates. Shifts, prior and W know the other folds only.
    """
    folds = int(fold.max()) + 1
    fine = _bins(rows.odds)
    cuts = _cuts(np.asarray(np.bincount(fine, rows.weights, _BINS), np.float64), folds * rows.mass.size)
    coarse = np.searchsorted(cuts, np.arange(_BINS))[fine]
    place = (fold * rows.mass.size + rows.cells) * (cuts.size + 1) + coarse
    table = np.bincount(place, rows.weights, folds * rows.mass.size * (cuts.size + 1))
    below = np.cumsum(table.reshape(folds, *rows.mass.shape, -1), axis=-1, dtype=np.float64)
    total, errors = below.sum(axis=0), np.zeros((len(_KINDS), len(_KAPPAS), *rows.mass.shape))
    for number in range(folds):
        known, held_out = rows.at(fold != number), below[number]
        own, seen = (_ratio(part[..., :-1], part[..., -1:]) for part in (total - held_out, held_out))
        for k, kind in enumerate(_KINDS):
            prior = _prior_below(known, known.shifts(kind), cuts)
            apart = own - prior
            # The error of prior + W (own - prior) is quadratic in W.
            constant = (prior * (prior - 2.0 * seen)).sum(axis=-1)
            linear, square = 2.0 * (apart * (prior - seen)).sum(axis=-1), (apart**2).sum(axis=-1)
            for j, kappa in enumerate(_KAPPAS):
                share = own_shares(known.counts, kappa)
                errors[k, j] += held_out[..., -1] * (constant + share * (linear + share * square))
    return errors.reshape(len(_KINDS), len(_KAPPAS), -1)


def _cuts(counts: Floats, entries: int) -> Indices:
    """Bins up to which rows are counted: thresholds spread evenly over the rows, fewer for many cells and folds."""
    number = int(np.clip(_MOST_ENTRIES // entries, _FEWEST_THRESHOLDS, _THRESHOLDS))
    below = np.cumsum(counts)
    return np.unique(np.searchsorted(below, below[-1] * np.arange(1, number + 1) / (number + 1)))


def _prior_below(rows: ScoredRows, shifts: Floats, cuts: Indices) -> Floats:
    """Share of each cell's prior up to each cut, (clients, groups, cuts)."""
    mass, _ = rows.histogram(1.0 - own_shares(rows.counts, _KAPPA_WHILE_CHOOSING), shifts)
    below = np.concatenate([np.zeros((rows.n_groups, 1)), np.cumsum(mass, axis=1)], axis=1)
    below = _ratio(below, below[:, -1:])
    at = np.clip(cuts + 1 - _BINS_PER_UNIT * shifts[..., None], 0.0, _BINS - 1e-9)
    bin_, group = at.astype(np.int64), np.arange(rows.n_groups)[:, None]
    lower, upper = below[group, bin_], below[group, bin_ + 1]
    return np.asarray(lower + (at - bin_) * (upper - lower))


@dataclass(frozen=True, eq=False)
class Borrowed:
    """What cells borrow: the share that stays their own rows', (clients, groups), and the rows of their priors.

    A prior row has a raw score, the codes of its cell and a weight, each (rows,).
    """

    own: Floats
    counts: Floats  # what share of its weight a row of each cell counts with, (clients, groups)
    scores: Floats
    groups: npt.NDArray[np.int32]
    clients: npt.NDArray[np.int32]
    weights: Floats

    @property
    def cells(self) -> int:
        """How many cells borrow."""
        return int((self.own < 1.0).sum())


def borrow(rows: ScoredRows, choice: Choice, cell_mass: Floats | None = None) -> Borrowed:
    """Carry out a choice. ``cell_mass`` is the mass each cell is to have, by default that of its rows."""
    cell_mass = rows.mass if cell_mass is None else cell_mass
    own, shifts = own_shares(rows.counts, choice.kappa), rows.shifts(choice.kind)
    own = np.where((cell_mass == 0) | (1.0 - own < _LEAST_SHARE), 1.0, own)
    mass, total = rows.histogram(1.0 - own_shares(rows.counts, choice.kappa), shifts)
    borrowing = own < 1.0
    most = int(np.clip(_MOST_ROWS_IN_ALL // max(borrowing.sum(), 1), _FEWEST_PRIOR_ROWS, _MOST_PRIOR_ROWS))
    parts = list(_prior_rows(mass, total, most, borrowing, shifts, (1.0 - own) * cell_mass))
    scores, groups, clients, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    counts = own * _ratio(cell_mass, rows.mass)
    return Borrowed(own, counts, scores, groups.astype(np.int32), clients.astype(np.int32), weights)


def _prior_rows(
    mass: Floats, total: Floats, most: int, borrowing: Booleans, shifts: Floats, borrowed: Floats
) -> Iterator[tuple[Floats, Indices, Indices, Floats]]:
    """Scores, group, client and weight of each group's prior rows: neighbouring bins of about equal mass as one."""
    for a, clients in enumerate(borrowing.T):
        here = np.flatnonzero(clients)
        share = _ratio(mass[a], mass[a].sum())
        occupied = share > 0
        place = np.floor((np.cumsum(share) - 0.5 * share)[occupied] * most)
        _, slot = np.unique(place, return_inverse=True)
        weight, odds = np.bincount(slot, mass[a][occupied]), np.bincount(slot, total[a][occupied])
        scores = expit(odds / weight + shifts[here, a][:, None])
        weights = weight / weight.sum() * borrowed[here, a][:, None]
        yield scores.ravel(), np.full(scores.size, a), np.repeat(here, weight.size), weights.ravel()
