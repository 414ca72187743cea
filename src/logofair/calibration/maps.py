"""Maps from scores to chances of label 1: of all rows, of every group and of every cell; and the calibrator they make.

Logistic maps are logistic regressions on features of the score (see :mod:`logofair.calibration.fits`). Isotonic maps
are nondecreasing curves of least squares, blended with their parent's: a unit's map is ``W own + (1 - W) parent`` with
``W = n / (n + strength)``; the parent of all rows is the identity. Own curves are constant on each block of scores with
one value and linear between blocks, stored as knots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from logofair import records
from logofair.columns.checks import Binary, Floats, Integers, whole_number
from logofair.columns.rows import Rows
from logofair.columns.segments import Indices, RowOrder, cell_numbers, pieces_in_threads, pool_starts, run_means
from logofair.errors import InputError
from logofair.records import checked

# The prior on the identity map is worth this many rows of evenly spread scores: enough to keep the map of one row, one
# label or one score finite, and invisible among a hundred rows.
IDENTITY_ROWS = 1.0
# Scores are moved into [_EDGE, 1 - _EDGE] before a logarithm is taken: those of 0 and 1 have infinite log-odds.
_EDGE = 1e-6
# Parameters are rounded to so many binary digits behind the point, which moves no chance by more than 1e-10.
_BINARY_DIGITS = 36
# How many evenly spread scores stand for "a row" where no data has been seen yet.
_REFERENCE_SCORES = 1000


@dataclass(frozen=True)
class Units:
    """What has a map of its own: unit 0 is all rows, unit 1 + g group g, unit 1 + n_groups + cell a cell.

    A cell is one (group, site) pair, numbered by :func:`cell_numbers`.
    """

    n_groups: int
    n_sites: int

    @classmethod
    def in_rows(cls, rows: Rows) -> Units:
        """Those of some rows."""
        return cls(len(rows.groups.names), len(rows.sites.names))

    @property
    def n_cells(self) -> int:
        """How many (group, site) pairs there are."""
        return self.n_groups * self.n_sites

    @property
    def size(self) -> int:
        """How many units there are."""
        return 1 + self.n_groups + self.n_cells

    def of(self, group_codes: Integers, site_codes: Integers) -> Indices:
        """The unit that serves every row: its cell, or its group where the site is unknown (-1)."""
        # Site -1 falls on the numbers just before the cells, which are the groups'.
        return cell_numbers(group_codes, site_codes, self.n_groups).astype(np.int64) + (1 + self.n_groups)


class _Maps(records.Family):
    """From scores to chances: one map per unit, in the order of :class:`Units`."""

    def __call__(self, scores: Floats, unit: Indices, n_groups: int) -> Floats:
        """Eta of every row by its unit's map."""
        raise NotImplementedError

    def check(self, units: Units) -> None:
        """Raise where these are not maps of such units."""
        raise NotImplementedError


# ---------------------------------------------------------------- logistic maps


def log_odds(scores: Floats) -> Floats:
    """Log-odds of scores, which are kept off 0 and 1."""
    inside = np.clip(scores, _EDGE, 1.0 - _EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _beta_features(scores: Floats) -> tuple[Floats, ...]:
    inside = np.clip(scores, _EDGE, 1.0 - _EDGE)
    return np.log(inside), -np.log1p(-inside)


@dataclass(frozen=True)
class Family:
    """A logistic calibration map: its features, and the parameters under which it changes nothing."""

    features: Callable[[Floats], tuple[Floats, ...]]  # scores, (n,), to what varies with them, each (n,)
    intercept: bool  # whether a constant feature follows
    identity: tuple[float, ...]  # the parameters of the identity map
    smoothed: bool = False  # whether targets are Platt's, slightly inside 0 and 1, in place of the labels

    @property
    def slopes(self) -> tuple[int, ...]:
        """The places of the parameters that must not be negative."""
        return tuple(range(len(self.identity) - self.intercept))

    def margin(self, scores: Floats, parameters: Floats) -> Floats:
        """Log-odds of label 1, (n,), from the scores, (n,), and each row's parameters, (k, n)."""
        # Summed column by column: a matrix product rounds differently for different numbers of rows.
        margin = parameters[-1].copy() if self.intercept else np.zeros_like(scores)
        for coefficient, column in zip(parameters[list(self.slopes)], self.features(scores), strict=True):
            margin += coefficient * column
        return margin

    def reference_information(self) -> Floats:
        """Fisher information about the parameters in one row, (k, k): evenly spread scores, identity map."""
        scores = (np.arange(_REFERENCE_SCORES) + 0.5) / _REFERENCE_SCORES
        columns = np.vstack([*self.features(scores), *[np.ones_like(scores)] * self.intercept])
        sums = (columns[:, None] * columns * (scores * (1.0 - scores))).sum(axis=2)
        # Rounded, since the last digits of logarithms differ between machines.
        return np.asarray(np.ldexp(np.rint(np.ldexp(sums / _REFERENCE_SCORES, 40)) + 0.0, -40))


FAMILIES = {
    "beta": Family(_beta_features, intercept=True, identity=(1.0, 1.0, 0.0)),
    "platt": Family(lambda scores: (log_odds(scores),), intercept=True, identity=(1.0, 0.0), smoothed=True),
    "temperature": Family(lambda scores: (log_odds(scores),), intercept=False, identity=(1.0,)),
}
METHODS = (*FAMILIES, "isotonic", "none")


@dataclass(frozen=True, eq=False)
class LogisticMaps(_Maps):
    """One logistic map per unit; ``parameters`` is (units, k), in the order of :class:`Units`."""

    method: str
    parameters: Floats

    @classmethod
    def of(cls, method: str, parameters: Floats) -> LogisticMaps:
        """Maps of fitted parameters, rounded: their last digits differ between machines, and files are shorter."""
        return cls(method, np.ldexp(np.rint(np.ldexp(parameters, _BINARY_DIGITS)) + 0.0, -_BINARY_DIGITS))

    def __call__(self, scores: Floats, unit: Indices, n_groups: int) -> Floats:
        """Eta of every row by its unit's map."""
        chosen = np.vstack([np.take(parameter, unit) for parameter in self.parameters.T])
        return np.asarray(expit(FAMILIES[self.method].margin(scores, chosen)))

    def check(self, units: Units) -> None:
        """Raise where these are not maps of such units."""
        if self.method not in FAMILIES:
            raise InputError(f"'method' must be one of {', '.join(FAMILIES)}, got {self.method!r}.")
        family = FAMILIES[self.method]
        checked(self.parameters, (units.size, len(family.identity)))
        if np.any(self.parameters[:, list(family.slopes)] < 0.0):
            raise InputError("'parameters' holds a negative slope, which would reverse the scores.")


# ---------------------------------------------------------------- isotonic maps


@dataclass(frozen=True, eq=False)
class IsotonicMaps(_Maps):
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


def isotonic_fits(
    scores: Floats,
    labels: Binary,
    weights: Floats | None,
    cells: npt.NDArray[np.integer],
    fold: npt.NDArray[np.int16],
    units: Units,
) -> Callable[[tuple[float, float], int], IsotonicMaps]:
    """Fits of curves to columns by cell and score, without rows of weight 0.

    Each is asked for with the strengths of the groups' and the cells' prior, in rows, and the fold that it leaves out.
    Where all rows are of one site, cells have their groups' curves, as in logistic fits.
    """
    columns = scores, labels.astype(np.float64), np.ones_like(scores) if weights is None else weights, fold
    by_level = []
    for size in (1, units.n_groups):
        at = RowOrder.of(scores, cells % size, size).rows
        by_level.append((size, cells[at] % size, *(column[at] for column in columns)))
    by_level.append((units.n_cells, cells, *columns))

    def fit(strengths: tuple[float, float], without: int) -> IsotonicMaps:
        shares: list[Floats] = []
        lengths, knots = [], []
        for (size, *level, of_fold), strength in zip(by_level, (IDENTITY_ROWS, *strengths), strict=True):
            inside = of_fold != without
            if len(shares) == 2 and np.unique(level[0][inside] // units.n_groups).size <= 1:
                inside = np.zeros_like(inside)
            unit, at, label, weight = (column[inside] for column in level)
            mass = np.bincount(unit, weights=weight, minlength=size)
            shares.append(np.divide(mass, mass + strength, out=np.zeros(size), where=mass > 0.0))
            of_knot, at, value = isotonic_knots(unit, at, label, weight)
            lengths.append(np.bincount(of_knot, minlength=size))
            knots.append((at, value))
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        at, value = (np.concatenate(column) for column in zip(*knots, strict=True))
        return IsotonicMaps(np.concatenate(shares), starts, at, value)

    return fit


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


# ---------------------------------------------------------------- the calibrator


@dataclass(frozen=True, eq=False)
class Calibrator:
    """Chance of label 1 given score, group and site: eta = P(Y = 1 | score, group, site).

    Within a cell (a group at a site) a higher score never has a lower eta.
    """

    method: str  # one of METHODS
    n_groups: int
    n_sites: int
    maps: _Maps | None  # of all rows, of every group and of every cell; None: method "none"

    def __call__(self, scores: Floats, group_codes: Integers, site_codes: Integers) -> Floats:
        """Eta of every row; site code -1 (unknown) takes the map of the row's group."""
        return self.at(scores, Units(self.n_groups, self.n_sites).of(group_codes, site_codes))

    def at(self, scores: Floats, unit: Indices) -> Floats:
        """Eta of every row by the map of its unit: its cell, or its group (numbered as in :class:`Units`)."""
        if self.maps is None:
            return scores
        maps, eta = self.maps, np.empty_like(scores)

        def read(rows: slice) -> None:
            eta[rows] = maps(scores[rows], unit[rows], self.n_groups)

        pieces_in_threads(read, scores.size)
        return eta

    @classmethod
    def joined(cls, parts: Sequence[Calibrator]) -> Calibrator:
        """One calibrator for the sites of several, in this order; all parts have the same maps of groups."""
        first, sites = parts[0], sum(part.n_sites for part in parts)
        parents = 1 + first.n_groups
        tables = [part.maps.parameters for part in parts if isinstance(part.maps, LogisticMaps)]
        parameters = np.vstack([tables[0][:parents], *(table[parents:] for table in tables)])
        return cls(first.method, first.n_groups, sites, LogisticMaps(first.method, parameters))

    def check(self) -> None:
        """Raise where its parts do not fit together: a calibrator read from a file may hold anything."""
        for name in ("n_groups", "n_sites"):
            whole_number(getattr(self, name), name)
        wanted = {"none": type(None), "isotonic": IsotonicMaps}.get(self.method, LogisticMaps)
        if self.method not in METHODS or type(self.maps) is not wanted:
            raise InputError(f"'method' must be one of {', '.join(METHODS)}, with its maps, got {self.method!r}.")
        if self.maps is not None:
            self.maps.check(Units(self.n_groups, self.n_sites))
