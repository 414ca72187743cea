"""Federated calibration: a server fits the maps of all rows and of every group through totals of sums, without a row.

There are ``folds + 1`` fits side by side: fit f leaves out fold f, the last one leaves out nothing. Sites draw their
own folds. A fit has the units "all rows" (number 0) and group g (number 1 + g). The sites' counts and sums add up to
those of the federation. Several sites may be in one batch: each has the numbers that it has alone.

The formulas are those of :func:`~logofair.calibration.fits.fit_logistic`, and a site fits its cells by the same code.
Since a round takes a real engine seconds, two things save rounds:

* The groups are fitted at the same time as all rows. Sums over rows do not depend on priors, so every round asks for
  both, and the groups' prior follows the fit of all rows.
* The first round asks for the groups' sums at the identity map, which add up to those of all rows, and for all rows'
  at maps with smaller slopes, another one in each fit. From the identity Newton's method would diverge where scores are
  far overconfident (naive Bayes, random forests); from the best of these maps it takes few steps there, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from logofair.calibration.crossfit import (
    STRENGTH,
    CrossFit,
    HeldOut,
    assign_folds,
    folds_compared,
    held_out_chances,
    local_search,
    log_losses,
)
from logofair.calibration.fits import NO_FOLD, CellFits, FoldRuns, has_own_map, over_folds, serving_maps
from logofair.calibration.maps import FAMILIES, Calibrator, LogisticMaps, Units
from logofair.calibration.newton import Descent, Prior, packed_places, platt_targets, with_targets
from logofair.columns.checks import Floats
from logofair.columns.rows import Rows
from logofair.columns.segments import Indices, RowOrder, grouped
from logofair.errors import InputError

# Rows of several sites worked on at once, so that small sites are quick and large ones do not fill the memory.
ROWS_AT_ONCE = 1 << 20
# A fit is done when its next step, which is still taken, would gain less than this many nats. Compared with the 1e-10
# of a central fit, this saved up to one round on Adult and ACS, and no chance moved by more than 3e-5.
_LEAST_GAIN = 1e-6
# The same per row for a site's cells, whose fits cost no rounds.
_LEAST_CELL_GAIN = 1e-13
# Newton's method takes 3 to 8 rounds, up to 12 for a handful of rows; many more mean that the totals are not sums over
# one set of rows.
_MOST_ROUNDS = 60


# --- What a site answers: counts and sums over its rows.


@dataclass(frozen=True, eq=False)
class Points:
    """The points at which the server asks for sums."""

    at: Floats  # one point per fit and unit, (k, fits, 1 + groups)
    places: Indices  # the group with which each group's rows are summed, -1: they stay at the sites, (groups,)
    live: npt.NDArray[np.bool_]  # which points are asked for, (fits, 1 + groups); the sums of others are 0


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Sites' labelled rows, those of a cell and fold next to one another; made by :func:`fold_rows`."""

    method: str
    folds: int  # how many the federation agreed on; a site of few rows may lack some
    sample: Rows  # the rows by site, then group, then fold
    fold: npt.NDArray[np.int16]  # of each of them
    order: Indices  # their places in input order
    by_score: RowOrder  # the rows by cell and score

    @property
    def units(self) -> Units:
        """What has a map of its own."""
        return Units.in_rows(self.sample)

    @cached_property
    def runs(self) -> FoldRuns:
        """The rows of the logistic regressions, one run for each cell and fold."""
        sample, units = self.sample, self.units
        assert sample.labels is not None
        keys = sample.cells.astype(np.int64) * self.folds + self.fold
        counts = np.bincount(keys, minlength=units.n_cells * self.folds).reshape(-1, self.folds)
        columns = sample.scores, sample.labels, sample.weights
        return FoldRuns.of(FAMILIES[self.method], units, *columns, counts, by_row=True)


def fold_rows(method: str, sample: Rows, rngs: Sequence[np.random.Generator], folds: int = 5) -> FoldedRows:
    """Assign the rows of each site to random folds, stratified by group; one rng for each site.

    The same rows and the same state of a site's rng give the same folds, so a site may draw them again in every round.
    """
    by_score = sample.order()
    fold = assign_folds(by_score, folds, *rngs)
    together = grouped(by_score.cells * folds + fold, Units.in_rows(sample).n_cells * folds)
    order = by_score.rows[together]
    return FoldedRows(method, folds, sample.at(order), fold[together], order, by_score)


def calibration_counts(rows: FoldedRows, places: Indices) -> Floats:
    """Count each site's rows by label, fit and group, (sites, 2, m, fits, groups); the mass stands last.

    ``places`` says with which group each is summed (:func:`~logofair.calibration.fits.summed_as`). For "platt"
    alone the sum of ``logit(score)`` stands before the mass: with it Platt's targets, which depend on the counts of all
    sites, take no round of their own.
    """
    units = rows.units
    by_label = rows.runs.by_label(units.n_cells)
    by_group = by_label.reshape(*by_label.shape[:2], units.n_sites, units.n_groups, rows.folds)
    in_fold = placed(np.moveaxis(by_group, (2, 4), (0, 3)), places)  # (sites, 2, m, folds, groups)
    everywhere = sum(in_fold[:, :, :, f : f + 1] for f in range(rows.folds))  # one by one: see newton._added
    return np.concatenate([everywhere - in_fold, everywhere], axis=3)


def placed(tables: Floats, places: Indices) -> Floats:
    """Numbers of groups (the last axis), added up by the group with which each is summed; others are left out."""
    found = np.zeros_like(tables)
    for group, place in enumerate(places):
        if place >= 0:
            found[..., place] += tables[..., group]
    return found


def calibration_sums(rows: FoldedRows, points: Points) -> Floats:
    """Each site's log-loss, gradient and packed Hessian at one point per fit and unit.

    (sites, 1 + k + k(k+1)/2, fits, 1 + groups).
    """
    (k, fits, n_units), n_sites = points.at.shape, rows.units.n_sites
    runs, groups = rows.runs.summed(points.places), n_units - 1
    sums = np.zeros((n_sites, 1 + k + k * (k + 1) // 2, fits, n_units))

    def of_cells(at: Floats, wanted: npt.NDArray[np.bool_], without: int) -> Floats:
        """Sums of every site's cells at the points of their groups, (sites, m, groups)."""
        tables = over_folds(runs.sums(np.tile(at, n_sites), np.tile(wanted, n_sites), without))
        return np.moveaxis(tables.reshape(len(tables), n_sites, groups), 1, 0)

    for fit in np.flatnonzero(points.live.any(axis=1)):
        at, live, without = points.at[:, fit], points.live[fit], int(fit) if fit < rows.folds else NO_FOLD
        if live[0]:
            everybody = of_cells(np.repeat(at[:, :1], groups, axis=1), np.ones(groups, dtype=bool), without)
            sums[:, :, fit, 0] = sum(everybody[:, :, group] for group in range(groups))
        if live[1:].any():
            sums[:, :, fit, 1:] = of_cells(at[:, 1:], live[1:], without)
    return sums


# --- The server: Newton's method on totals.


@dataclass(frozen=True, eq=False)
class GroupMaps:
    """What the federation publishes: the maps of all rows and of the groups, and the priors of a site's cells."""

    method: str
    everyone: Floats  # parameters of all rows, (k, fits); the last fit is the one of all folds
    groups: Floats  # parameters of the groups, (k, fits, groups)
    information: Floats  # Fisher information of a row: packed symmetric matrices, (k(k+1)/2, fits, groups)
    mass: Floats  # rows of label 0 and of label 1 in each fit that were summed, (2, fits)
    places: Indices  # the group with which each group's rows were summed, -1: they stayed at the sites, (groups,)
    strength: float = STRENGTH  # of the cells' prior, in rows

    def prior(self, fits: Indices) -> Prior:
        """The priors of a site's cells in some fits; unit ``place * groups + group``."""
        k = len(self.groups)
        information = self.information[packed_places(k)][:, :, fits].reshape(k, k, -1)
        return Prior.around(FAMILIES[self.method], self.groups[:, fits].reshape(k, -1), information, self.strength)


@dataclass(frozen=True, eq=False)
class Levels:
    """The server's state: the fits of all rows and of the groups under way."""

    method: str
    everyone: Descent  # all rows; one unit per fit
    groups: Descent  # unit fit * groups + group
    places: Indices  # the group with which each group's rows are summed, -1: they stay at the sites, (groups,)
    counts: Floats | None = None  # the total of calibration_counts, once known
    rounds: int = 0  # how many totals of sums were taken
    most_rounds: int | None = None  # the maps are published after so many; None: after as many as it takes

    @classmethod
    def start(
        cls,
        method: str,
        places: Indices,
        *,
        folds: int = 5,
        least_gain: float = _LEAST_GAIN,
        slack: float = _LEAST_GAIN,
        most_rounds: int | None = None,
    ) -> Levels:
        """Begin with the groups at the identity map, and with all rows at maps of smaller slopes.

        ``places`` are those of :func:`~logofair.calibration.fits.summed_as`, ``least_gain`` and ``slack`` those of
        :class:`Descent`: both should exceed the rounding of summed losses.
        """
        family = FAMILIES[method]
        prior, fits = Prior.on_identity(family).normal, folds + 1
        of_fits, of_groups = (prior.of(np.zeros(size, dtype=np.int64)) for size in (fits, fits * places.size))
        softened = np.ldexp(of_fits.centre, -np.arange(1, fits + 1))
        return cls(
            method,
            Descent.start(of_fits, family.slopes, at=softened, least_gain=least_gain, slack=slack),
            Descent.start(of_groups, family.slopes, least_gain=least_gain, slack=slack),
            places,
            most_rounds=most_rounds,
        )

    @property
    def request(self) -> Points:
        """Where the sites' sums are needed."""
        fits, groups = self._shape
        of_all, of_groups = (descent.best + descent.step for descent in (self.everyone, self.groups))
        live = np.zeros((fits, 1 + groups), dtype=bool)
        live[self.everyone.live, 0] = True
        live[self.groups.live // groups, 1 + self.groups.live % groups] = True
        return Points(np.dstack([of_all[:, :, None], of_groups.reshape(-1, fits, groups)]), self.places, live)

    @property
    def done(self) -> bool:
        """Whether no more sums are needed."""
        spent = self.most_rounds is not None and self.rounds >= self.most_rounds
        return spent or (self.everyone.done and self.groups.done)

    @property
    def published(self) -> GroupMaps:
        """The fitted maps; only when done."""
        fitted = self.groups.result
        information = self._prior().information(fitted, self._mass.sum(axis=0).ravel())
        shape, serving = (-1, *self._shape), serving_maps(self.places)
        return GroupMaps(
            self.method,
            self.everyone.result.centre,
            fitted.centre.reshape(shape)[:, :, serving],
            information[np.triu_indices(len(fitted.centre))].reshape(shape)[:, :, serving],
            self._mass.sum(axis=2),
            self.places,
        )

    def count(self, counts: Floats) -> Levels:
        """Take the total of the sites' counts, before or with the first sums."""
        return replace(self, counts=counts)

    def take(self, sums: Floats) -> Levels:
        """Take the total of the sites' sums at the points asked for."""
        if self.rounds >= _MOST_ROUNDS:
            raise InputError(
                f"calibration: no end after {self.rounds} rounds of sums, so the rows behind them changed on the way; "
                "start again with the same sites in every round."
            )
        assert self.counts is not None
        if FAMILIES[self.method].smoothed:
            low, high = platt_targets(*self._mass.sum(axis=2)[:, :, None])
            by_group = (1.0 - high) * self.counts[1] - low * self.counts[0]
            shift = np.concatenate([by_group.sum(axis=2, keepdims=True), by_group], axis=2)
            sums = with_targets(sums, self.request.at, shift)
        everyone, groups, followed = self.everyone, self.groups, self.everyone.live
        if self.rounds == 0:
            # Go on from the identity map, or from a map of smaller slopes that has a lower loss on the same rows.
            all_rows = sums[:, :, 1:].sum(axis=2)
            lower = (all_rows[0] - sums[0, :, 0]) / np.maximum(self._mass.sum(axis=(0, 2)), 1.0)
            best = int(np.argmax(lower))
            if lower[best] > 0.0:
                start = _taken(everyone, sums[:, :, 0]).ahead.centre[:, best]
                everyone, groups = (d.again(np.tile(start[:, None], d.best.shape[1])) for d in (everyone, groups))
                return replace(self, everyone=everyone, groups=groups, rounds=1)
            everyone, followed = everyone.again(everyone.prior.centre).take(all_rows), np.arange(self._shape[0])
        else:
            everyone = _taken(everyone, sums[:, :, 0])
        after = replace(self, everyone=everyone, groups=_taken(groups, sums[:, :, 1:]), rounds=self.rounds + 1)
        # The groups' prior follows the fit of all rows.
        of_fits = np.repeat(followed, self._shape[1])
        units = of_fits * self._shape[1] + np.tile(np.arange(self._shape[1]), followed.size)
        return replace(after, groups=after.groups.under(after._prior().normal.of(of_fits), units))

    def _prior(self) -> Prior:
        """The groups' prior, centred at the present fit of all rows."""
        identity = Prior.on_identity(FAMILIES[self.method])
        return identity.on(self.everyone.ahead, self._mass.sum(axis=(0, 2)), STRENGTH)

    @property
    def _shape(self) -> tuple[int, int]:
        """How many fits there are, and groups."""
        return int(self.everyone.best.shape[1]), self.places.size

    @property
    def _mass(self) -> Floats:
        """Rows by label, fit and group, (2, fits, groups)."""
        assert self.counts is not None  # which come before sums
        return np.asarray(self.counts[:, -1])


def _taken(descent: Descent, sums: Floats) -> Descent:
    """The descent after the sums of its live units, if there are any."""
    return descent if descent.done else descent.take(sums.reshape(len(sums), -1)[:, descent.live])


# --- A site again: its cells around the published maps.


def cell_calibrators(rows: FoldedRows, maps: GroupMaps) -> CrossFit:
    """Fit sites' cells around the groups' maps: out-of-fold chances, and the calibrator of all their rows.

    For these sites' rows and folds it is what :func:`cross_fit` gives on all rows of the federation; the calibrator
    knows these sites alone. Since it needs no more than the published maps, a site that joins later gets its own in the
    same way. Where all rows of a fit are of one site, its cells have the groups' maps.
    """
    ((*without, calibrator),) = _calibrators(rows, maps, (maps.strength,))
    fold, order = np.empty_like(rows.fold), rows.by_score
    fold[rows.order] = rows.fold
    scores = rows.sample.scores[np.argsort(rows.order)]  # in input order
    held_out = HeldOut(scores, order, fold[order.rows], tuple(without))
    return CrossFit(calibrator, held_out, maps.strength)


def strength_losses(rows: FoldedRows, maps: GroupMaps, strengths: tuple[float, ...]) -> Floats:
    """Log-loss of held-out labels under each strength of the cells' prior, (sites, strengths, folds)."""
    sample, shape = rows.sample, (rows.units.n_sites, rows.folds)
    unit = rows.units.of(sample.groups.codes, sample.sites.codes)
    places = sample.sites.codes.astype(np.int64) * rows.folds + rows.fold
    found = []
    for *without, _ in _calibrators(rows, maps, strengths):
        losses = log_losses(sample, held_out_chances(sample.scores, unit, rows.fold, without))
        found.append(np.bincount(places, weights=losses, minlength=math.prod(shape)).reshape(shape))
    return np.stack(found, axis=1).astype(np.float64)


def least_loss(losses: Floats, strengths: tuple[float, ...], rows: int) -> float:
    """The strength that :func:`cross_fit` would choose, from the total losses over so many rows."""
    first = folds_compared(losses.shape[1], rows)
    return local_search(strengths, lambda each: float(losses[strengths.index(each), :first].sum()))


def _calibrators(rows: FoldedRows, maps: GroupMaps, strengths: tuple[float, ...]) -> Iterator[list[Calibrator]]:
    """Under each strength of the cells' prior the calibrators of these sites in every fit.

    The tolerance of the cells' fits is per row, so that a site's are as precise as if it were alone.
    """
    every, units = np.arange(rows.folds + 1), rows.units
    start = np.tile(maps.groups[:, -1], (1, units.n_sites))
    fits = CellFits(rows.runs, start, np.append(every[:-1], NO_FOLD), maps.mass, _LEAST_CELL_GAIN)
    mass = calibration_counts(rows, maps.places)[:, :, -1].sum(axis=3)
    alone = np.isclose(mass, maps.mass, rtol=1e-9, atol=0.0).all(axis=1)[:, :, None] & has_own_map(maps.places)
    for strength in strengths:
        prior = replace(maps, strength=strength).prior(every)
        own = fits.parameters(prior, every).reshape(-1, every.size, units.n_sites, units.n_groups)
        found = []
        for fit in every:
            cells = np.where(alone[:, fit], maps.groups[:, fit][:, None], own[:, fit])
            table = np.vstack([maps.everyone[:, fit], maps.groups[:, fit].T, cells.reshape(len(cells), -1).T])
            found.append(Calibrator(maps.method, units.n_groups, units.n_sites, LogisticMaps.of(maps.method, table)))
        yield found
