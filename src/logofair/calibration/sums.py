"""What sites tell a federation so that all rows and every group can be fitted: sums over their rows, no row.

There are ``folds + 1`` fits side by side: fit f leaves out fold f, the last one leaves out nothing. Sites draw
their own folds. A fit has the units "all rows" (number 0) and group g (number 1 + g). Sites' counts and sums
simply add up to those of the federation. Many sites can be worked on at once: each has the numbers it has alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logofair.calibration.calibrator import Sample
from logofair.calibration.crossfit import assign_folds
from logofair.calibration.logistic import FAMILIES, Family
from logofair.calibration.newton import Runs, Units, unit_sums
from logofair.columns.checks import Binary, Floats, Integers, nearest_name
from logofair.columns.segments import Indices, RowOrder, grouped
from logofair.errors import InputError

# Rows of several fits worked on at once, so that small sites are quick and large ones do not fill the memory.
ROWS_AT_ONCE = 1 << 20


def summable_family(method: str) -> Family:
    """The family of a method that can be fitted through sums over sites; raise InputError for others."""
    if method in FAMILIES:
        return FAMILIES[method]
    problem = "needs no sums" if method == "none" else "cannot be fitted through sums over sites"
    raise InputError(
        f"calibration: method {method!r} {problem}{nearest_name(method, FAMILIES)}; in a federation use one of "
        f"{', '.join(FAMILIES)}, or 'none' without rounds of calibration."
    )


@dataclass(frozen=True, eq=False)
class Points:
    """Where sums are asked for."""

    at: Floats  # one point per fit and unit, (k, fits, 1 + groups)
    places: Indices  # as which group each group's rows are summed, -1: not at all, (groups,)
    live: npt.NDArray[np.bool_]  # which of them are asked for, (fits, 1 + groups); the sums of the others are 0


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Sites' labelled rows, those of a cell and fold next to one another; made by :func:`fold_rows`."""

    method: str
    folds: int  # how many the federation agreed on; a site of few rows may lack some
    sample: Sample  # the rows by site, then group, then fold
    fold: npt.NDArray[np.int16]  # of each of them
    order: Indices  # their places in the order in which they came
    by_score: RowOrder  # the rows by cell and score

    @property
    def n_groups(self) -> int:
        """How many groups the federation has."""
        return self.sample.units.n_groups

    def portions(self, fits: Indices) -> list[Indices]:
        """Cut fits into portions whose rows are handled at once."""
        size = max(1, ROWS_AT_ONCE // max(1, self.fold.size))
        return [fits[first : first + size] for first in range(0, fits.size, size)]

    def runs(self, fits: Indices) -> tuple[Runs, Indices]:
        """The rows of some fits one after another, with labels as targets, one run per fit and cell, and its unit.

        Unit ``place * cells + cell`` is a cell in the fit at that place.
        """
        family, sample, n_cells = FAMILIES[self.method], self.sample, self.sample.units.n_cells
        inside = [np.flatnonzero(self.fold != fit) for fit in fits]
        rows = np.concatenate(inside)
        place = np.repeat(np.arange(fits.size), [part.size for part in inside])
        counts = np.bincount(place * n_cells + sample.cells[rows], minlength=fits.size * n_cells)
        present = np.flatnonzero(counts)
        starts = np.concatenate(([0], np.cumsum(counts[present])))
        columns = tuple(column[rows] for column in family.features(sample.scores))
        weights = None if sample.weights is None else sample.weights[rows]
        return Runs(columns, family.intercept, sample.labels[rows], weights, starts), present


def fold_rows(
    method: str,
    scores: Floats,
    labels: Binary | None,
    group_codes: Integers,
    site_codes: Integers,
    *,
    n_groups: int,
    weights: Floats | None = None,
    folds: int = 5,
    rngs: Sequence[np.random.Generator],
) -> FoldedRows:
    """Assign the rows of each site, one for each of ``rngs``, to random folds, stratified by group.

    As in :func:`cross_fit`. The same rows and the same state of a site's generator give the same folds, so that a
    site may draw them again for every message.
    """
    summable_family(method)
    if labels is None:
        raise InputError(
            f"calibration: this site has no labels, and method {method!r} needs them; pass labels, or agree on "
            "method 'none'."
        )
    units = Units(n_groups, len(rngs))
    sample = Sample(scores, labels, group_codes, site_codes, weights, units)
    by_score = RowOrder.of(scores, sample.cells, units.n_cells)
    fold = assign_folds(by_score, folds, *rngs)
    together = grouped(by_score.cells * folds + fold, units.n_cells * folds)
    order = by_score.rows[together]
    return FoldedRows(method, folds, sample.at(order), fold[together], order, by_score)


def calibration_counts(rows: FoldedRows, places: Indices) -> Floats:
    """Count each site's rows by label, fit and group, (sites, 2, m, fits, groups); the mass stands last.

    The ``places`` say as which group each group's rows are counted (:func:`~logofair.calibration.fits.summed_at`).
    Only for "platt" the sum of ``logit(score)`` comes before it: his targets, which depend on the counts of all
    sites, then need no round of their own.
    """
    family, sample = FAMILIES[rows.method], rows.sample
    mass = np.ones_like(sample.scores) if sample.weights is None else sample.weights
    columns = [mass * feature for feature in family.features(sample.scores)] if family.smoothed else []
    shape = (sample.units.n_sites, rows.n_groups, rows.folds)
    by_label = []
    for label in (0.0, 1.0):
        chosen = sample.labels == label
        keys = sample.cells[chosen] * rows.folds + rows.fold[chosen]
        tables = [np.bincount(keys, weights=column[chosen], minlength=math.prod(shape)) for column in (*columns, mass)]
        by_label.append(np.reshape(tables, (-1, *shape)).astype(np.float64))  # of no rows: whole
    in_fold = placed(np.moveaxis(np.stack(by_label), (2, 4), (0, 3)), places)  # (sites, 2, m, folds, groups)
    everywhere = sum(in_fold[:, :, :, f : f + 1] for f in range(rows.folds))  # one by one: see newton._added
    return np.concatenate([everywhere - in_fold, everywhere], axis=3)


def placed(tables: Floats, places: Indices) -> Floats:
    """Numbers of groups, which are the last axis, added up as those of the groups as which they are summed."""
    found = np.zeros_like(tables)
    for group, place in enumerate(places):
        if place >= 0:
            found[..., place] += tables[..., group]
    return found


def calibration_sums(rows: FoldedRows, points: Points) -> Floats:
    """Sum the log-loss of each site's labels, its gradient and packed Hessian, at one point per fit and unit.

    The sums are (sites, 1 + k + k(k+1)/2, fits, 1 + groups).
    """
    k, fits, n_units = points.at.shape
    sites = rows.sample.units.n_sites
    sums = np.zeros((1 + k + k * (k + 1) // 2, fits, sites, n_units))
    for some in rows.portions(np.flatnonzero(points.live.any(axis=1))):
        runs, unit = rows.runs(some)
        counts = points.places[unit % rows.n_groups] >= 0
        runs, unit = runs.keep(counts), unit[counts]
        at = np.repeat(points.at[:, some][:, :, None, np.append(0, 1 + points.places)], sites, axis=2)
        if points.live[some, 0].any():
            of_all = unit_sums(runs, unit // rows.n_groups, at[..., 0].reshape(k, -1))
            sums[..., 0][:, some] = of_all.reshape(len(sums), some.size, sites)
        if points.live[some, 1:].any():
            of_groups = unit_sums(runs, unit, at[..., 1:].reshape(k, -1)).reshape(len(sums), some.size, sites, -1)
            sums[..., 1:][:, some] = placed(of_groups, points.places)
    return np.where(points.live, np.moveaxis(sums, 2, 0), 0.0)
