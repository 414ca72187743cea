"""The server's side of a federated calibration: all rows and every group, fitted through totals of the sites' sums.

The formulas are those of :func:`fit_logistic`. A round costs a real engine seconds, and two things save rounds:

* The groups do not wait until all rows are fitted. Sums over rows know nothing of priors, so every round asks for
  both, and the groups' prior follows the fit of all rows.
* The first round asks for the groups at the identity map, which add up to all rows, and for all rows at softened maps,
  another one for each fit. Scores that are far too sure of themselves (naive Bayes, random forests) would send Newton's
  method astray from the identity; from the best softened map it needs as few steps as from the identity otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from logofair.calibration.calibrator import STRENGTH, Calibrator
from logofair.calibration.crossfit import (
    CrossFit,
    HeldOut,
    folds_compared,
    held_out_chances,
    local_search,
    log_losses,
)
from logofair.calibration.fits import NO_FOLD, CellFits, FoldRuns, has_own_map, serving_maps
from logofair.calibration.logistic import (
    FAMILIES,
    Family,
    LogisticMaps,
    Prior,
    gaussian_prior,
    platt_targets,
    with_targets,
)
from logofair.calibration.newton import Descent, Normal, packed_places
from logofair.calibration.sums import FoldedRows, Points, calibration_counts, summable_family
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.errors import InputError

# A fit is done when its next step, which is still taken, would gain less than this many nats. Against 1e-10, as in a
# central fit, this saved up to one round on Adult and ACS, and no chance moved by more than 3e-5.
_LEAST_GAIN = 1e-6
# The same of a site's cells, per row: sites' fits cost no rounds.
_LEAST_CELL_GAIN = 1e-13
# Newton's method needs 3 to 8, for a handful of rows up to 12; many more mean that the totals do not belong to one
# set of rows.
_MOST_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class GroupMaps:
    """What the federation publishes: the maps of all rows and of the groups, and the priors of a site's cells."""

    method: str
    everyone: Floats  # parameters of all rows, (k, fits); the last fit is the one of all folds
    groups: Floats  # parameters of the groups, (k, fits, groups)
    information: Floats  # what a row tells of a cell's map: packed symmetric matrices, (k(k+1)/2, fits, groups)
    mass: Floats  # rows of label 0 and of label 1 in each fit that were summed, (2, fits)
    places: Indices  # as which group each group was summed, -1: not at all, (groups,)
    strength: float = STRENGTH  # of the cells' prior, in rows

    def prior(self, fits: Indices) -> Normal:
        """The priors of a site's cells in some fits; unit ``place * groups + group``."""
        k = len(self.groups)
        information = self.information[packed_places(k)][:, :, fits].reshape(k, k, -1)
        return gaussian_prior(FAMILIES[self.method], self.groups[:, fits].reshape(k, -1), information, self.strength)


@dataclass(frozen=True, eq=False)
class Levels:
    """Fits of all rows and of the groups, on their way; state in, state out."""

    method: str
    strength: float  # of every prior, in rows
    everyone: Descent  # all rows; one unit per fit
    groups: Descent  # unit fit * groups + group
    places: Indices  # as which group each group's rows are summed, -1: not at all, (groups,)
    counts: Floats | None = None  # the summed calibration_counts, once known
    rounds: int = 0  # how many totals were taken
    most_rounds: int | None = None  # after which the maps are taken as they are; None: as many as it takes

    @classmethod
    def start(
        cls,
        method: str,
        places: Indices,
        *,
        folds: int = 5,
        strength: float = STRENGTH,
        least_gain: float = _LEAST_GAIN,
        slack: float = _LEAST_GAIN,
        most_rounds: int | None = None,
    ) -> Levels:
        """Begin with the groups at the identity map and all rows at softened ones.

        ``places`` are those of :func:`~logofair.calibration.fits.summed_at`.
        ``least_gain`` and ``slack`` are those of :class:`Descent`; both should exceed the rounding of summed losses.
        """
        family = summable_family(method)
        prior, fits = Prior.on_identity(family).beliefs, folds + 1
        of_fits, of_groups = (prior.of(np.zeros(size, dtype=np.int64)) for size in (fits, fits * places.size))
        softened = np.ldexp(of_fits.centre, -np.arange(1, fits + 1))
        return cls(
            method,
            strength,
            Descent.start(of_fits, family.slopes, at=softened, least_gain=least_gain, slack=slack),
            Descent.start(of_groups, family.slopes, least_gain=least_gain, slack=slack),
            places,
            most_rounds=most_rounds,
        )

    @property
    def request(self) -> Points:
        """Where the sites' sums are needed."""
        shape = (self._fits, self._n_groups)
        everyone, groups = (descent.best + descent.step for descent in (self.everyone, self.groups))
        at = np.concatenate([everyone[:, :, None], groups.reshape(-1, *shape)], axis=2)
        live = np.zeros((shape[0], 1 + shape[1]), dtype=bool)
        live[self.everyone.live, 0] = True
        live[self.groups.live // shape[1], 1 + self.groups.live % shape[1]] = True
        return Points(at, self.places, live)

    @property
    def done(self) -> bool:
        """Whether nothing more is needed."""
        spent = self.most_rounds is not None and self.rounds >= self.most_rounds
        return spent or (self.everyone.done and self.groups.done)

    @property
    def published(self) -> GroupMaps:
        """The fitted maps; only when done."""
        fitted = self.groups.result
        information = self._prior().information(fitted, self._mass.sum(axis=0).ravel())
        shape, serving = (-1, self._fits, self._n_groups), serving_maps(self.places)
        return GroupMaps(
            self.method,
            self.everyone.result.centre,
            fitted.centre.reshape(shape)[:, :, serving],
            information[np.triu_indices(len(fitted.centre))].reshape(shape)[:, :, serving],
            self._mass.sum(axis=2),
            self.places,
            self.strength,
        )

    def count(self, counts: Floats) -> Levels:
        """Take the totals of the sites' counts; needed before any sums, and may come with the first of them."""
        return replace(self, counts=counts)

    def take(self, sums: Floats) -> Levels:
        """Take the totals of the sites' sums at the points asked for."""
        if self.rounds >= _MOST_ROUNDS:
            raise InputError(
                f"calibration: no end after {self.rounds} rounds of sums, so they are not sums over one set of rows; "
                "start again with the same sites in every round."
            )
        sums = self._with_platt_targets(sums)
        if self.rounds == 0:
            return self._opened(sums)
        after = replace(
            self,
            everyone=_taken(self.everyone, sums[:, :, 0]),
            groups=_taken(self.groups, sums[:, :, 1:]),
            rounds=self.rounds + 1,
        )
        return after._followed(self.everyone.live)

    def _opened(self, sums: Floats) -> Levels:
        """Go on from the identity map, or from the softened one that has a lower loss on the same rows."""
        all_rows = sums[:, :, 1:].sum(axis=2)
        lower = (all_rows[0] - sums[0, :, 0]) / np.maximum(self._mass.sum(axis=(0, 2)), 1.0)
        best = int(np.argmax(lower))
        if lower[best] <= 0.0:
            everyone = self.everyone.again(self.everyone.prior.centre).take(all_rows)
            after = replace(self, everyone=everyone, groups=_taken(self.groups, sums[:, :, 1:]), rounds=1)
            return after._followed(np.arange(self._fits))
        start = _taken(self.everyone, sums[:, :, 0]).ahead.centre[:, best]
        everyone, groups = (d.again(np.tile(start[:, None], d.best.shape[1])) for d in (self.everyone, self.groups))
        return replace(self, everyone=everyone, groups=groups, rounds=1)

    def _followed(self, fits: Indices) -> Levels:
        """Let the groups' prior in some fits be where the fit of all rows is now."""
        of_fits = np.repeat(fits, self._n_groups)
        units = of_fits * self._n_groups + np.tile(np.arange(self._n_groups), fits.size)
        return replace(self, groups=self.groups.under(self._prior().beliefs.of(of_fits), units))

    def _prior(self) -> Prior:
        """The groups' prior: all rows of their fit, as far as known."""
        return Prior.on_identity(self._family).on(self.everyone.ahead, self._mass.sum(axis=(0, 2)), self.strength)

    def _with_platt_targets(self, sums: Floats) -> Floats:
        """Turn sums with labels as targets into sums with Platt's targets: the difference is linear."""
        if not self._family.smoothed or self.counts is None:
            return sums
        low, high = platt_targets(*self._mass.sum(axis=2)[:, :, None])
        by_group = (1.0 - high) * self.counts[1] - low * self.counts[0]
        shift = np.concatenate([by_group.sum(axis=2, keepdims=True), by_group], axis=2)
        return with_targets(sums, self.request.at, shift)

    @property
    def _family(self) -> Family:
        return FAMILIES[self.method]

    @property
    def _fits(self) -> int:
        return int(self.everyone.best.shape[1])

    @property
    def _n_groups(self) -> int:
        return int(self.groups.best.shape[1]) // self._fits

    @property
    def _mass(self) -> Floats:
        """Rows by label, fit and group, (2, fits, groups)."""
        if self.counts is None:
            raise InputError("calibration: sums came before counts; take the counts of the same sites first.")
        return np.asarray(self.counts[:, -1])


def _taken(descent: Descent, sums: Floats) -> Descent:
    """Hand a descent the sums of its live units."""
    return descent if descent.done else descent.take(sums.reshape(len(sums), -1)[:, descent.live])


def cell_calibrators(rows: FoldedRows, maps: GroupMaps) -> CrossFit:
    """Fit sites' cells around the groups' maps: out-of-fold chances, and the calibrator of all their rows.

    The answer is that of :func:`cross_fit` on all rows of the federation, for these sites' rows, with the folds
    as assigned; the calibrator knows these sites alone. It needs nothing but the published maps, so a site that joins
    later gets its own in the same way. Where all rows of a fit are one site's, its cells have the groups' maps.
    """
    *without, calibrator = _calibrators(rows, maps, _cell_fits(rows, maps))
    fold, order = np.empty_like(rows.fold), rows.by_score
    fold[rows.order] = rows.fold
    sample = rows.sample.at(np.argsort(rows.order))  # as the rows came
    held_out = HeldOut(sample.scores, order, fold[order.rows], tuple(without))
    return CrossFit.measured(calibrator, held_out, sample, maps.strength)


def strength_losses(rows: FoldedRows, maps: GroupMaps, strengths: tuple[float, ...]) -> Floats:
    """Log-loss of sites' held-out labels under each strength of the cells' prior.

    (sites, strengths, folds).
    """
    sample, shape = rows.sample, (rows.sample.units.n_sites, rows.folds)
    unit = sample.units.of(sample.group_codes, sample.site_codes)
    places = sample.site_codes.astype(np.int64) * rows.folds + rows.fold
    fits, found = _cell_fits(rows, maps), []
    for strength in strengths:
        without = _calibrators(rows, replace(maps, strength=strength), fits)[:-1]
        losses = log_losses(sample, held_out_chances(sample.scores, unit, rows.fold, without))
        found.append(np.bincount(places, weights=losses, minlength=math.prod(shape)).reshape(shape))
    return np.stack(found, axis=1).astype(np.float64)


def least_loss(losses: Floats, strengths: tuple[float, ...], rows: int) -> float:
    """The strength that :func:`cross_fit` takes, from the losses of all sites with so many rows."""
    first = folds_compared(losses.shape[1], rows)
    return local_search(strengths, lambda each: float(losses[strengths.index(each), :first].sum()))


def _cell_fits(rows: FoldedRows, maps: GroupMaps) -> CellFits:
    """The fits of the sites' cells, each as precise as if its site were alone."""
    sample, family = rows.sample, FAMILIES[maps.method]
    keys = sample.cells.astype(np.int64) * rows.folds + rows.fold
    counts = np.bincount(keys, minlength=sample.units.n_cells * rows.folds).reshape(-1, rows.folds)
    runs = FoldRuns.of(family, sample.units, sample.scores, sample.labels, sample.weights, counts, by_row=True)
    start, without = np.tile(maps.groups[:, -1], (1, sample.units.n_sites)), np.append(np.arange(rows.folds), NO_FOLD)
    return CellFits(runs, start, without, maps.mass, _LEAST_CELL_GAIN)


def _calibrators(rows: FoldedRows, maps: GroupMaps, fits: CellFits) -> list[Calibrator]:
    """The sites' calibrator of every fit."""
    every, shape = np.arange(rows.folds + 1), (-1, rows.folds + 1, rows.sample.units.n_sites, rows.n_groups)
    prior = Prior(FAMILIES[maps.method], maps.prior(every), maps.strength)
    cells = fits.parameters(prior, every).reshape(shape)
    mass = calibration_counts(rows, maps.places)[:, :, -1].sum(axis=3)
    alone = np.isclose(mass, maps.mass, rtol=1e-9, atol=0.0).all(axis=1)[:, :, None] & has_own_map(maps.places)
    return [
        _calibrator(maps, fit, np.where(alone[:, fit], maps.groups[:, fit][:, None], cells[:, fit]))
        for fit in range(every.size)
    ]


def _calibrator(maps: GroupMaps, fit: int, cells: Floats) -> Calibrator:
    """The calibrator of one fit for some sites, from their cells' parameters (k, sites, groups)."""
    k, n_sites, n_groups = cells.shape
    parameters = np.vstack([maps.everyone[:, fit], maps.groups[:, fit].T, cells.reshape(k, -1).T])
    return Calibrator(maps.method, n_groups, n_sites, LogisticMaps.of(maps.method, parameters))
