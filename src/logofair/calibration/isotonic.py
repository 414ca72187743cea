"""Isotonic maps: the nondecreasing curve of least squares per unit, blended with its parent's.

A unit's map is ``W own + (1 - W) parent`` with ``W = n / (n + strength)``; the parent of all rows is the identity.
Own curves are constant on each block of scores with one value and linear between blocks, stored as knots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logofair.calibration.newton import IDENTITY_ROWS, Maps, Units
from logofair.columns.checks import Binary, Floats
from logofair.columns.segments import Indices, RowOrder, pool_starts, run_means
from logofair.errors import InputError
from logofair.records import checked


@dataclass(frozen=True, eq=False)
class IsotonicMaps(Maps):
    """One piecewise linear map per unit, in the order of :class:`Units`.

    Unit u has the knots ``starts[u]`` to ``starts[u + 1]`` of (``scores``, ``values``) and counts with
    ``shares[u]``, its parent with the rest.
    """

    shares: Floats
    starts: Indices
    scores: Floats
    values: Floats

    def __call__(self, scores: Floats, unit: Indices, n_groups: int) -> Floats:
        """Eta of every row by its unit's map."""
        if not self.scores.size:
            return scores.copy()
        cell = unit - (1 + n_groups)
        groups = np.where(cell < 0, unit, 1 + cell % n_groups)
        of_group = self._blended(self._blended(scores, scores, np.zeros_like(groups)), scores, groups)
        return np.where(cell < 0, of_group, self._blended(of_group, scores, unit))

    def _blended(self, parent: Floats, scores: Floats, units: Indices) -> Floats:
        """The units' own values at the scores, mixed with the parent's; its alone where a unit has no knots."""
        first, last = self.starts[units], self.starts[units + 1] - 1
        # A binary search in all units at once: the last knot at or below each score, or the unit's first.
        low, high = first, last
        for _ in range(int(np.max(last - first, initial=0)).bit_length()):
            middle = (low + high + 1) // 2
            fits = self.scores[np.clip(middle, 0, self.scores.size - 1)] <= scores
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        left = np.minimum(low, self.scores.size - 1)
        right = np.clip(left + 1, 0, np.maximum(last, 0))
        width = np.where(right > left, self.scores[right] - self.scores[left], 1.0)
        along = np.clip((scores - self.scores[left]) / width, 0.0, 1.0)
        below, above = self.values[left], self.values[right]
        # The minimum, because rounding must not lift a row above the next knot.
        own, share = np.minimum(below + along * (above - below), above), self.shares[units]
        return np.asarray(share * own + (1.0 - share) * parent)

    def check(self, units: Units) -> None:
        """Raise where these are not maps of such units."""
        starts, scores = self.starts, self.scores
        checked(self.shares, (units.size,), low=0, high=1)
        checked(starts, (units.size + 1,))
        checked(scores, (None,), low=0, high=1)
        checked(self.values, (scores.size,), low=0, high=1)
        if starts[0] != 0 or starts[-1] != scores.size or np.any(np.diff(starts) < 0):
            raise InputError(f"'starts' must rise from 0 to the number of knots, {scores.size}.")
        if np.any(self.shares[np.diff(starts) == 0] > 0.0):
            raise InputError("'shares' must be 0 for a unit without knots.")
        inside = np.ones(max(scores.size - 1, 0), dtype=bool)
        breaks = starts[1:-1]
        inside[breaks[(breaks > 0) & (breaks < scores.size)] - 1] = False
        if np.any(np.diff(scores)[inside] <= 0.0) or np.any(np.diff(self.values)[inside] < 0.0):
            raise InputError("'scores' must rise and 'values' must not fall along a unit's knots.")


class Level(NamedTuple):
    """Labelled rows of positive weight, ordered by the units of one level and by score."""

    unit: Indices
    scores: Floats
    labels: Floats
    weights: Floats
    fold: npt.NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class SortedRows:
    """The same rows on three levels: all together, by group, and by cell."""

    units: Units
    levels: tuple[Level, Level, Level]

    @classmethod
    def of(
        cls,
        scores: Floats,
        labels: Binary,
        weights: Floats | None,
        cells: Indices,
        fold: npt.NDArray[np.int16],
        units: Units,
    ) -> SortedRows:
        """Order columns, which stand by cell and score, by each level."""
        weights = np.ones_like(scores) if weights is None else weights
        by_cell = Level(cells, scores, labels.astype(np.float64), weights, fold)

        def by(size: int) -> Level:
            level = by_cell._replace(unit=cells % size)
            at = RowOrder.of(scores, level.unit, size).rows
            return Level(*(column[at] for column in level))

        return cls(units, (by(1), by(units.n_groups), by_cell))


def fit_isotonic(rows: SortedRows, strengths: tuple[float, float], without: int) -> IsotonicMaps:
    """Fit the curves of all rows, of every group and of every cell, without the rows of one fold.

    Where all rows are of one site, cells have their groups' curves, as in logistic fits.
    """
    units = rows.units
    sizes, prior_strengths = (1, units.n_groups, units.n_cells), (IDENTITY_ROWS, *strengths)
    shares: list[Floats] = []
    lengths, knots = [], []
    for level, size, prior_strength in zip(rows.levels, sizes, prior_strengths, strict=True):
        inside = level.fold != without
        unit, scores, labels, weights = (column[inside] for column in level[:-1])
        if len(shares) == 2 and np.unique(unit // units.n_groups).size <= 1:
            unit, scores, labels, weights = unit[:0], scores[:0], labels[:0], weights[:0]
        mass = np.bincount(unit, weights=weights, minlength=size)
        shares.append(np.divide(mass, mass + prior_strength, out=np.zeros(size), where=mass > 0.0))
        of_knot, at, value = isotonic_knots(unit, scores, labels, weights)
        lengths.append(np.bincount(of_knot, minlength=size))
        knots.append((at, value))
    starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    at, value = (np.concatenate(column) for column in zip(*knots, strict=True))
    return IsotonicMaps(np.concatenate(shares), starts, at, value)


def isotonic_knots(units: Indices, scores: Floats, labels: Floats, weights: Floats) -> tuple[Indices, Floats, Floats]:
    """Unit, score and value of every knot, from rows ordered by unit and score with positive weights."""
    if not units.size:
        return units, scores, labels
    new = np.append(True, (np.diff(units) != 0) | (np.diff(scores) != 0))
    if not new.all():  # one row per unit and score: the weighted mean label, the summed weight
        starts = np.flatnonzero(new)
        mass = np.add.reduceat(weights, starts)
        labels, weights = np.add.reduceat(weights * labels, starts) / mass, mass
        units, scores = units[starts], scores[starts]
    pools = pool_starts(labels, weights, units)
    bounds = np.append(pools, units.size)
    means = np.clip(run_means(labels, weights, bounds), 0.0, 1.0)
    # A knot where a pool begins, and one where it ends.
    knots, place = np.unique(np.concatenate([pools, bounds[1:] - 1]), return_index=True)
    return units[knots], scores[knots], means[place % pools.size]
