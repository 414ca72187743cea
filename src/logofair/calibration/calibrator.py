"""The calibrator: one map from scores to chances of label 1 for every cell, and how it is fitted and applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.calibration.fits import NO_FOLD, FoldRuns, ParentMaps, fit_logistic
from logofair.calibration.isotonic import IsotonicMaps, SortedRows, fit_isotonic
from logofair.calibration.logistic import FAMILIES, LogisticMaps
from logofair.calibration.newton import Maps, Units
from logofair.columns.acceleration import piece_by_piece
from logofair.columns.checks import Binary, Floats, Integers, whole_number
from logofair.columns.segments import Booleans, Indices, RowOrder, cell_numbers, gather, group_by, narrowest
from logofair.errors import InputError

METHODS = (*FAMILIES, "isotonic", "none")
# Default strength of a prior, in rows. Among 3, 10, ..., 3000 the held-out log-loss of beta calibration was
# lowest at 100 and 300 on census income by state and sex or race, for 2,000 to 250,000 calibration rows alike.
STRENGTH = 200.0


@dataclass(frozen=True, eq=False)
class Calibrator:
    """Chance of label 1 given score, group and site: eta = P(Y = 1 | score, group, site).

    Within a cell (a group at a site) a higher score never has a lower eta.
    """

    method: str  # one of METHODS
    n_groups: int
    n_sites: int
    maps: Maps | None  # of all rows, of every group and of every cell; None: method "none"

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

        piece_by_piece(read, scores.size)
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


@dataclass(frozen=True, eq=False)
class Sample:
    """Labelled rows and their units, each column (n,)."""

    scores: Floats
    labels: Binary
    group_codes: Integers
    site_codes: Integers
    weights: Floats | None
    units: Units
    people: Integers | None = None  # the person of each row, where somebody has several rows

    @property
    def cells(self) -> Integers:
        """The cell of every row."""
        return cell_numbers(self.group_codes, self.site_codes, self.units.n_groups)

    def columns_at(self, rows: npt.NDArray[Any]) -> tuple[Floats, Binary, Floats | None]:
        """Scores, labels and weights of the rows at some places."""
        weights = None if self.weights is None else gather(self.weights, rows)
        return gather(self.scores, rows), gather(self.labels, rows), weights

    def at(self, rows: Indices | Booleans) -> Sample:
        """The rows at some places."""
        return Sample(
            self.scores[rows],
            self.labels[rows],
            self.group_codes[rows],
            self.site_codes[rows],
            None if self.weights is None else self.weights[rows],
            self.units,
            None if self.people is None else self.people[rows],
        )


@dataclass(frozen=True, eq=False)
class Fits:
    """Calibrators to fit on the same rows, each leaving out one fold or none; rows of weight 0 are dropped."""

    method: str
    units: Units
    rows: FoldRuns | SortedRows
    without: Indices  # the fold that each fit leaves out, ``NO_FOLD`` for none
    strengths: tuple[float, float]  # in rows: of the groups' prior, and of the cells' prior for their starting point

    @classmethod
    def of(
        cls,
        method: str,
        sample: Sample,
        order: RowOrder,
        fold: npt.NDArray[np.int16],
        without: Indices,
        strengths: tuple[float, float],
    ) -> Fits:
        """Arrange rows by cell and fold, given their order by cell and score and the ``fold`` of each in that order."""
        folds = 1 + int(max(fold.max(initial=0), without.max()))
        units, rows = sample.units, order.rows
        narrow = narrowest(max(rows.size, units.n_cells * folds))
        cells: npt.NDArray[Any] = np.repeat(np.arange(units.n_cells, dtype=narrow), np.diff(order.starts))
        if sample.weights is not None and not sample.weights.all():
            counted = sample.weights[rows] > 0.0
            rows, cells, fold = rows[counted], cells[counted], fold[counted]
        if method == "isotonic":
            return cls(method, units, SortedRows.of(*sample.columns_at(rows), cells, fold, units), without, strengths)
        by_fold, starts = group_by(cells * folds + fold, units.n_cells * folds, rows)
        counts = np.diff(starts).reshape(units.n_cells, folds)
        columns = sample.columns_at(by_fold)
        del cells, by_fold
        return cls(method, units, FoldRuns.of(FAMILIES[method], units, *columns, counts), without, strengths)

    @cached_property
    def _parents(self) -> ParentMaps:
        """Maps of all rows and of the groups, which do not depend on the strength of the cells' prior."""
        assert isinstance(self.rows, FoldRuns)
        return ParentMaps.of(self.rows, self.strengths, self.without)

    def calibrators(self, strength: float, fits: Indices, *, to_compare: bool = False) -> list[Calibrator]:
        """The calibrators of some of the fits, which ``fits`` numbers as in :attr:`without`.

        ``strength`` is that of the cells' prior, in rows. Calibrators that serve ``to_compare`` strengths alone are
        fitted less precisely.
        """
        fitted: Sequence[LogisticMaps | IsotonicMaps]
        if isinstance(self.rows, FoldRuns):
            fitted = fit_logistic(self.method, self._parents, strength, fits, to_compare=to_compare)
        else:
            pair = self.strengths[0], strength
            fitted = [fit_isotonic(self.rows, pair, int(fold)) for fold in self.without[fits]]
        return [Calibrator(self.method, self.units.n_groups, self.units.n_sites, maps) for maps in fitted]


def fit_calibrator(
    sample: Sample, method: str, strength: float = STRENGTH, cell_strength: float | None = None
) -> Calibrator:
    """Fit a calibrator to labelled rows; small cells borrow strength from their group, and groups from all rows.

    A row of weight 2 counts as two rows. ``strength`` is that of the prior, in rows: a cell of as many rows ends about
    halfway between its group's map and the one its own rows would give. ``cell_strength``, where given, is that of the
    cells' prior, and ``strength`` that of the groups' alone. Where all rows are of one site, each cell has the map of
    its group.
    """
    order = RowOrder.of(sample.scores, sample.cells, sample.units.n_cells)
    fold = np.zeros(order.rows.size, dtype=np.int16)
    of_cells = strength if cell_strength is None else cell_strength
    fits = Fits.of(method, sample, order, fold, np.array([NO_FOLD]), (strength, of_cells))
    return fits.calibrators(of_cells, np.array([0]))[0]
