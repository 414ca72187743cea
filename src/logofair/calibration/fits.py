"""Cross-fitted logistic calibration: maps of all rows, every group and every cell, in one fit for each fold left out.

The levels are nested: the map of all rows is the centre of the groups' prior, and a group's map that of its cells'.

The fits of a unit (all rows, a group or a cell) share most of their rows, so they have one starting point: sums over
the rows there, by cell and fold, give each fit its first Newton step. The starting point is the optimum of the fit that
leaves out nothing. That fit comes first, and starts at the optimum for a few hundred coarse rows (means of the unit's
rows of about equal scores), or at the group's map where a cell has too few rows for that. Then the other fits go on,
each by itself, until their steps are small.

In shapes, k is the number of a map's parameters and m that of the sums a Newton step takes (:meth:`Runs.sums`): the
log-loss, its gradient and its Hessian, 1 + k + k(k+1)/2 in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from logofair.calibration.maps import Family, LogisticMaps, Units
from logofair.calibration.newton import (
    MOST_STEPS,
    Descent,
    Normal,
    Prior,
    Runs,
    map_estimate,
    packed_places,
    platt_targets,
    with_targets,
)
from logofair.columns.checks import Binary, Floats
from logofair.columns.segments import Booleans, Indices, in_threads, level_changes, narrowest, pieces, pieces_in_threads

# A fit that leaves out no fold says so by this number.
NO_FOLD = -1
# In a federation every site sees sums over the rows of a fold and can subtract its own part. If few rows of the others
# were left, their sums would reveal each row's score and label. So a group has a map of its own only if, whichever site
# is left out, the others have this many of its rows: about 50 in each of five folds.
LEAST_ROWS = 250
# Under secure sums a site may also lie about its rows. So a group has a map of its own only if at least 3 sites have a
# half of these rows each, 6 sites a fifth or 26 sites a twenty-fifth: without any one of them there are enough.
PARTS = (2, 5, 25)
# A fit has converged when its next step, which is still taken, would gain less than this many nats per row. Measured on
# units of 20 to 100,000 rows, no chance was then off by more than 14 times that number. With fewer rows in all than
# _FULL_ROWS the tolerance is smaller in proportion, since more steps cost nothing.
_LEAST_GAIN, _FULL_ROWS = 2e-6, 1_000_000
# A coarse row is the mean of the rows whose log-odds fall into one bin, with equal bins between -8 and 8: one for every
# _ROWS_PER_BIN rows of an average cell, up to _MOST_BINS. Cells too small for _FEWEST_BINS have no coarse rows.
_WIDEST_ODDS = 8.0
_FEWEST_BINS, _MOST_BINS = 16, 512
_ROWS_PER_BIN = 8
# Where cells have _LARGE_CELL rows on average, means over finer bins stand for the rows from the beginning, _FINE_BINS
# to a log-odds interval of length 1: no chance moves by more than 1e-6.
_LARGE_CELL, _FINE_BINS = 20_000, 128
_CELLS_AT_ONCE = 4_000  # so many small cells are fitted in one vectorised pass


def clipped_counts(rows: Floats) -> tuple[Floats, Floats]:
    """Each site's rows of each group, (sites, groups), and in all, (sites,), clipped at the least number.

    Where clipped numbers add up to twice the least, those of all sites but any one still add up to the least.
    """
    return np.minimum(rows, LEAST_ROWS), np.minimum(rows.sum(axis=1), LEAST_ROWS)


def summed_as(rows: Floats, everybody: float, enough_sites: Booleans | None = None) -> Indices:
    """For each group the number of the group with which its rows are summed over sites, -1: its rows stay at the sites.

    ``rows`` and ``everybody`` are the totals of :func:`clipped_counts`. A group with enough rows is summed by itself,
    and the map of all rows is fitted on such groups alone. Where no group has enough, but all together have, all are
    summed under the number 0. ``enough_sites`` says of which groups enough sites have rows (under secure sums).

    Examples
    --------
    >>> summed_as(np.array([900.0, 300.0, 700.0]), 1000.0).tolist()
    [0, -1, 2]
    >>> summed_as(np.array([300.0, 400.0]), 700.0).tolist(), summed_as(np.array([60.0, 90.0]), 150.0).tolist()
    ([0, 0], [-1, -1])
    """
    allowed = np.ones(rows.size, dtype=bool) if enough_sites is None else enough_sites
    large = (rows >= 2 * LEAST_ROWS) & allowed
    if large.any():
        return np.where(large, np.arange(rows.size), -1)
    return np.full(rows.size, 0 if everybody >= 2 * LEAST_ROWS and allowed.any() else -1)


@dataclass(frozen=True, eq=False)
class FoldRuns:
    """Labelled rows of positive weight in runs: the rows of one cell and fold stand next to one another."""

    family: Family
    units: Units
    runs: Runs  # with labels as targets
    cell: Indices  # of each run, rising
    fold: Indices  # of each run
    folds: int
    counts: Indices  # rows of each run; where cells are large, the run holds the means of their bins instead

    @classmethod
    def of(
        cls,
        family: Family,
        units: Units,
        scores: Floats,
        labels: Binary,
        weights: Floats | None,
        counts: npt.NDArray[np.int64],
        *,
        by_row: bool = False,
    ) -> FoldRuns:
        """From columns sorted by cell, fold and score, with the number of rows of each cell and fold in ``counts``.

        ``by_row`` keeps every row, also where cells are large.
        """
        present = np.flatnonzero(counts)
        starts = np.concatenate(([0], np.cumsum(counts.ravel()[present])))
        cell, fold = np.divmod(present, counts.shape[1])
        if not by_row and scores.size >= _LARGE_CELL * max(units.n_cells, 1):
            runs = _binned_runs(family, scores, labels, weights, starts)
            return cls(family, units, runs, cell, fold, counts.shape[1], np.diff(starts))
        columns = tuple(np.empty_like(scores) for _ in family.slopes)

        def read(some: slice) -> None:
            for column, feature in zip(columns, family.features(scores[some]), strict=True):
                column[some] = feature

        pieces_in_threads(read, scores.size)
        runs = Runs(columns, family.intercept, labels, weights, starts)
        return cls(family, units, runs, cell, fold, counts.shape[1], np.diff(starts))

    def of_sites(self, sites: slice) -> FoldRuns:
        """The runs of some sites, which are numbered from 0 again."""
        units = Units(self.units.n_groups, sites.stop - sites.start)
        first, last = np.searchsorted(self.cell, np.array([sites.start, sites.stop]) * units.n_groups)
        starts = self.runs.starts[first : last + 1]
        rows = slice(starts[0], starts[-1])
        weights = None if self.runs.weights is None else self.runs.weights[rows]
        columns = tuple(column[rows] for column in self.runs.columns)
        linear = None if self.runs.linear is None else self.runs.linear[:, first:last]
        runs = Runs(columns, self.runs.intercept, self.runs.targets[rows], weights, starts - starts[0], linear)
        cell = self.cell[first:last] - sites.start * units.n_groups
        fold, counts = self.fold[first:last], self.counts[first:last]
        return FoldRuns(self.family, units, runs, cell, fold, self.folds, counts)

    @cached_property
    def mass(self) -> Floats:
        """Summed weights of each cell in each fold, (cells, folds)."""
        keys = self.cell * self.folds + self.fold
        mass = np.bincount(keys, self.runs.mass, self.units.n_cells * self.folds)
        return mass.reshape(-1, self.folds).astype(np.float64)

    def by_label(self, size: int) -> Floats:
        """Sums over the rows of each label by unit and fold, (2, sums, units, folds), with units as in :meth:`sums`.

        The last sum is the weight. Platt's targets need the features too (without the intercept): they come first.
        """
        weights = 1.0 if self.runs.weights is None else self.runs.weights
        positives = np.asarray(self.runs.targets * weights, dtype=np.float64)
        features = self.runs.columns if self.family.smoothed else ()
        found = []
        for mass in (weights - positives, positives):
            columns = [*(mass * feature for feature in features), mass]
            by_run = np.stack([np.add.reduceat(column, self.runs.starts[:-1]) for column in columns])
            found.append(self._added(by_run, size, np.ones(self.cell.size, dtype=bool)))
        return np.stack(found)

    def seen(self, size: int, without: Indices) -> Floats:
        """The weight of each unit's rows that each fit sees, those outside its fold, (fits * size,)."""
        mass = np.asarray(self.mass.reshape(1, -1, size, self.folds).sum(axis=1))
        return np.asarray(_outside(mass, without)[0])

    @property
    def places(self) -> Indices:
        """How groups are summed over sites (:func:`summed_as`); with one site, each by itself."""
        units = self.units
        if units.n_sites == 1:
            return np.arange(units.n_groups)
        rows = np.bincount(self.cell, self.counts, units.n_cells).reshape(-1, units.n_groups)
        of_groups, of_all = clipped_counts(rows.astype(np.float64))
        return summed_as(of_groups.sum(axis=0), float(of_all.sum()))

    def summed(self, places: Indices) -> FoldRuns:
        """The rows that are summed over sites, each moved to the cell of the group with which it is summed."""
        groups = self.units.n_groups
        if np.array_equal(places, np.arange(groups)):
            return self
        place = places[self.cell % groups]
        stay = place >= 0
        cell = (self.cell - self.cell % groups + place)[stay]
        return replace(self, runs=self.runs.keep(stay), cell=cell, fold=self.fold[stay], counts=self.counts[stay])

    def coarse(self, size: int, bins: int) -> FoldRuns:
        """Means of rows by bin of log-odds in place of the rows: in one fold, one run for each unit that has rows."""
        runs, unit, scale = self.runs, self.cell % size, bins / (2.0 * _WIDEST_ODDS)
        position = sum(runs.columns[1:], runs.columns[0]) + _WIDEST_ODDS
        position *= scale
        keys = np.clip(position, 0, bins - 1, out=position).astype(np.int64)
        del position  # frees eight bytes a row before the next arrays are made
        keys += np.repeat((unit * bins).astype(narrowest(size * bins)), np.diff(runs.starts))
        of_rows: list[Floats | Binary | None] = [None, *runs.columns, runs.targets]
        if runs.weights is not None:
            of_rows = [runs.weights, *(column * runs.weights for column in (*runs.columns, runs.targets))]
        mass, *sums = (np.bincount(keys, column, size * bins).astype(np.float64) for column in of_rows)
        present = np.flatnonzero(mass)
        mass = mass[present]
        *columns, targets = (each[present] / mass for each in sums)
        units, first = np.unique(present // bins, return_index=True)
        means = Runs(tuple(columns), runs.intercept, targets, mass, np.append(first, present.size))
        return FoldRuns(self.family, self.units, means, units, np.zeros_like(units), 1, np.diff(means.starts))

    def sums(self, at: Floats, wanted: Booleans | None = None, without: int = NO_FOLD) -> Floats:
        """The sums of :meth:`Runs.sums` of each unit by fold, (m, units, folds); 0 for units not ``wanted``.

        ``at`` holds the parameters of each unit, (k, units). How many there are says which level is meant: one is all
        rows, as many as groups are the groups, as many as cells the cells. (A cell's group is its number modulo the
        groups.) The sums of the fold ``without`` are 0.
        """
        owner = self.cell % at.shape[1]
        some = self.fold != without if wanted is None else wanted[owner] & (self.fold != without)
        return self._added(self.runs.keep(some).sums(at[:, owner[some]]), at.shape[1], some)

    def _added(self, by_run: Floats, size: int, some: Booleans) -> Floats:
        """Numbers of some runs, (m, some), added up by unit and fold, (m, units, folds)."""
        keys = (self.cell % size * self.folds + self.fold)[some]
        tables = [np.bincount(keys, weights=row, minlength=size * self.folds) for row in by_run]
        return np.asarray(np.reshape(tables, (-1, size, self.folds)), dtype=np.float64)  # of no rows: whole


def _binned_runs(family: Family, scores: Floats, labels: Binary, weights: Floats | None, starts: Indices) -> Runs:
    """Runs in which the mean over each fine bin of log-odds stands for its rows; made piece by piece, in parallel.

    The log-loss of the rows is a smooth function of their features, for which the means are close enough, less the
    parameters times the summed features of the positives. The term ``linear`` keeps these sums exact.
    """
    some_rows = pieces(scores.size)
    tables = [np.zeros((0, 0))] * len(some_rows)

    def put(number: int) -> None:
        some = some_rows[number]
        features = np.stack(family.features(scores[some]))
        bins = ((features.sum(axis=0) + 2.0 * _WIDEST_ODDS) * _FINE_BINS).astype(np.int32)
        first = np.append(0, np.flatnonzero(level_changes(bins, np.clip(starts - some.start, 0, bins.size))) + 1)
        mass = np.ones(bins.size) if weights is None else weights[some]
        columns = np.vstack([mass * features, mass * labels[some], mass * labels[some] * features])
        mass, sums = np.add.reduceat(mass, first), np.add.reduceat(columns, first, axis=1)
        means, targets = sums[: len(features)] / mass, sums[len(features)]
        linear = targets * means - sums[len(features) + 1 :]
        tables[number] = np.vstack([first + some.start, mass, targets / mass, means, linear])

    in_threads(put, range(len(some_rows)), scores.size)
    first, mass, targets, *columns = np.concatenate(tables, axis=1)
    bounds = np.searchsorted(first, starts)
    linear = np.add.reduceat(columns[len(columns) // 2 :], bounds[:-1], axis=1)
    constant = np.zeros((int(family.intercept), linear.shape[1]))
    columns = columns[: len(columns) // 2]
    return Runs(tuple(columns), family.intercept, targets, mass, bounds, np.vstack([linear, constant]))


@dataclass(frozen=True, eq=False)
class LogisticFits:
    """The maps of all rows and of every group in each fit, and from them those of the cells."""

    rows: FoldRuns
    cell_strength: float  # of the prior, in rows, under whose optimum the cells' fits start
    without: Indices  # the fold that each fit leaves out, ``NO_FOLD`` last
    everyone: Floats  # parameters, (k, fits, 1)
    groups: Floats  # (k, fits, groups)
    information: Floats  # mean Fisher information of a row of each group in each fit, (k, k, fits, groups)
    labels: Floats  # the weight of the rows of each label in each fit, (2, fits)
    tolerance: float  # the gain per row, in nats, below which a step is a fit's last
    coarse: FoldRuns | None  # coarse rows of the cells, where they have enough
    summed: FoldRuns  # the rows that are summed over sites
    places: Indices  # the group with which each group's rows are summed (:func:`summed_as`), (groups,)

    @classmethod
    def of(cls, rows: FoldRuns, strengths: tuple[float, float], without: Indices) -> LogisticFits:
        """Fit all rows, then the groups with that map as their prior; ``without`` says which fold each fit leaves out.

        ``strengths`` are those of the groups' and of the cells' prior, in rows.
        """
        units, fits, places = rows.units, without.size, rows.places
        number = int(rows.counts.sum())
        bins = min(number // (_ROWS_PER_BIN * max(units.n_cells, 1)), _MOST_BINS)
        of_cells = rows.coarse(max(units.n_cells, 1), bins) if bins >= _FEWEST_BINS else None
        summed = rows.summed(places)
        of_groups = (summed if of_cells is None else of_cells.summed(places)).coarse(units.n_groups, _MOST_BINS)
        labels = _outside(summed.by_label(1)[:, -1], without)
        tolerance = _LEAST_GAIN * min(number / _FULL_ROWS, 1.0)

        def fitted(prior: Prior, size: int, seen: Floats) -> Normal:
            """The posterior of a level, (fits * units); all fits start at the optimum for all coarse rows."""
            last = prior.normal.of(np.arange((fits - 1) * size, fits * size))
            start = map_estimate(of_groups.runs, of_groups.cell % size, last, prior.family.slopes).centre
            descent = _fit_level(summed, prior, start, summed.sums(start), without, labels, tolerance)
            # The descent knows the curvature before its last step. How that step changed it, the coarse rows tell.
            end, k, changes = descent.result, len(start), []
            mass = of_groups.seen(size, np.array([NO_FOLD]))
            for before, after in zip(*(np.split(p, fits, axis=1) for p in (descent.best, end.centre)), strict=True):
                change = (of_groups.sums(after) - of_groups.sums(before))[1 + k :, :, 0]
                changes.append(change[packed_places(k)] / np.where(mass > 0.0, mass, 1.0))
            return Normal(end.centre, end.precision + seen * np.concatenate(changes, axis=2))

        seen_of_all, seen = summed.seen(1, without), summed.seen(units.n_groups, without)
        prior = Prior.on_identity(rows.family).of(np.zeros(fits, dtype=np.int64))
        everyone = fitted(prior, 1, seen_of_all)
        prior = prior.on(everyone, seen_of_all, strengths[0]).of(_parent_units(fits, 1, units.n_groups))
        level = fitted(prior, units.n_groups, seen)
        k, serving = len(level.centre), serving_maps(places)
        of_everyone, groups = (each.centre.reshape(k, fits, -1) for each in (everyone, level))
        information = prior.information(level, seen).reshape(k, k, fits, -1)[..., serving]
        return cls(
            rows,
            strengths[1],
            without,
            of_everyone,
            groups[:, :, serving],
            information,
            labels,
            tolerance,
            of_cells,
            summed,
            places,
        )

    def on_cells(self, strength: float, fits: Indices) -> Prior:
        """The prior of the cells of each group in some of the fits: its map, worth ``strength`` rows."""
        k = len(self.groups)
        centre, information = self.groups[:, fits].reshape(k, -1), self.information[:, :, fits].reshape(k, k, -1)
        return Prior.around(self.rows.family, centre, information, strength)

    @cached_property
    def cells(self) -> CellFits:
        """The fits of the cells; they start at the optimum under a prior of ``cell_strength``."""
        units, coarse = self.rows.units, self.coarse
        prior = self.on_cells(self.cell_strength, np.array([self.without.size - 1]))
        start = prior.normal.of(_parent_units(1, units.n_groups, units.n_cells))
        if coarse is not None:
            start = map_estimate(coarse.runs, coarse.cell, start, prior.family.slopes)
        return CellFits(self.rows, start.centre, self.without, self.labels, self.tolerance, coarse)

    def maps(self, method: str, strength: float, fits: Indices, *, to_compare: bool = False) -> list[LogisticMaps]:
        """The maps of some of the fits, with the cells shrunk towards their groups by ``strength`` rows.

        Where all rows of a fit are of one site, its cells take the maps of their groups: these were fitted on the same
        rows, which would otherwise count twice.
        """
        without, groups, units = self.without[fits], self.groups[:, fits], self.rows.units
        mass = self.summed.seen(units.n_cells, without).reshape(-1, units.n_sites, units.n_groups)
        one_site = np.count_nonzero(mass.any(axis=2), axis=1) <= 1
        alone = one_site[:, None] & np.tile(has_own_map(self.places), units.n_sites)
        cells = np.tile(groups, (1, 1, units.n_sites)) if alone.any() else groups
        if not alone.all():
            own = self.cells.parameters(self.on_cells(strength, fits), fits, to_compare=to_compare)
            cells = np.where(alone, cells, own) if alone.any() else own
        tables = np.concatenate([self.everyone[:, fits], groups, cells], axis=2)
        return [LogisticMaps.of(method, table.T) for table in tables.swapaxes(0, 1)]


@dataclass(frozen=True, eq=False)
class CellFits:
    """The fits of the cells with their groups' maps as priors; all strengths and folds have one starting point."""

    rows: FoldRuns
    start: Floats  # (k, cells)
    without: Indices  # the fold that each fit leaves out
    labels: Floats  # the weight of the rows of each label in each fit, from which Platt's targets follow, (2, fits)
    tolerance: float  # the gain per row, in nats, below which a step is a fit's last
    coarse: FoldRuns | None = None  # where cells have enough rows

    @cached_property
    def sums(self) -> Floats:
        """The cells' sums at the start, (m, cells, folds)."""
        return self.rows.sums(self.start)

    def parameters(self, prior: Prior, fits: Indices, *, to_compare: bool = False) -> Floats:
        """Parameters of the cells in some of the fits, (k, fits, cells); ``prior`` is that of each group there.

        Fits that only serve ``to_compare`` the held-out losses of several strengths can be rougher: after the first
        step, coarse rows stand for the rows.
        """
        n_groups, n_sites, without = self.rows.units.n_groups, self.rows.units.n_sites, self.without[fits]
        found = np.empty((len(self.start), fits.size, n_groups * n_sites))

        def descend(sites: slice) -> None:
            some = self.rows if sites == slice(0, n_sites) else self.rows.of_sites(sites)
            own = prior.of(_parent_units(fits.size, n_groups, some.units.n_cells))
            cells = slice(sites.start * n_groups, sites.stop * n_groups)
            known = self.start[:, cells], self.sums[:, cells], without, self.labels[:, fits], self.tolerance
            level = _fit_level(some, own, *known, self.coarse if to_compare else None)
            found[:, :, cells] = level.result.centre.reshape(found[:, :, cells].shape)

        # Not all at once: the state of all small cells in every fit would not stay in the processor's caches.
        at_once = n_sites if self.coarse is not None else max(_CELLS_AT_ONCE // n_groups, 1)
        in_threads(descend, pieces(n_sites, at_once), self.rows.runs.targets.size)
        return found


def serving_maps(places: Indices) -> Indices:
    """The group whose map each group uses: the one with which it is summed, or its own, which is its prior's."""
    return np.where(places >= 0, places, np.arange(places.size))


def has_own_map(places: Indices) -> Booleans:
    """Which groups are summed by themselves."""
    serving = serving_maps(places)
    return np.asarray((places >= 0) & (np.bincount(serving, minlength=places.size)[serving] == 1))


def _parent_units(fits: int, size: int, below: int) -> Indices:
    """The parent of every unit of the level below, in every fit; cells are numbered by site, then by group."""
    return (np.arange(fits)[:, None] * size + np.arange(below) % size).ravel()


def _outside(tables: Floats, without: Indices) -> Floats:
    """Sum tables by fold, (m, units, folds), over all folds but the one that each fit leaves out: (m, fits * units)."""
    total = over_folds(tables)
    outside = [total if fold == NO_FOLD else total - tables[:, :, fold] for fold in without]
    return np.concatenate(outside, axis=1)


def over_folds(tables: Floats) -> Floats:
    """The sum over all folds, one after the other, so that it is the same for any number of units (newton._added)."""
    return np.asarray(sum(tables[:, :, fold] for fold in range(tables.shape[2])))


def _fit_level(
    rows: FoldRuns,
    prior: Prior,
    start: Floats,
    sums: Floats,
    without: Indices,
    labels: Floats,
    tolerance: float,
    coarse: FoldRuns | None = None,
) -> Descent:
    """Fit the units of one level in every fit, (fits * units); a unit without rows keeps its prior exactly.

    ``sums``, (m, units, folds), are those at ``start``, (k, units). If the last fit leaves out nothing, it is made
    first, and the others start near its optimum. ``labels`` are the weights of the rows of each label, (2, fits), from
    which Platt's targets follow. With ``coarse`` rows, sums at all other points are approximated by theirs.
    """
    fits, slopes, size = without.size, rows.family.slopes, start.shape[1]
    seen, shift = rows.seen(size, without), np.zeros((len(start), fits * size))
    if rows.family.smoothed:
        # Platt's targets in place of the labels shift the gradient. They follow from the labels of all the fit's rows,
        # whichever sites have them.
        negatives, positives = (_outside(table, without) for table in rows.by_label(size))
        low, high = (np.repeat(target, size) for target in platt_targets(*labels))
        shift = (1.0 - high) * positives - low * negatives
    least_gain = tolerance * (seen + prior.rows)
    if without[-1] == NO_FOLD:
        last = np.arange((fits - 1) * size, fits * size)
        ahead = Descent.start(prior.normal.of(last), slopes, at=start, least_gain=least_gain[last])
        start, sums = _better_start(rows, ahead, start, sums, shift[:, last])
    share = seen / np.tile(np.maximum(rows.seen(size, np.array([NO_FOLD])), 1e-300), fits)
    sums = _outside(sums, without)
    sums[:, seen == 0.0] = 0.0
    at = np.where(seen > 0.0, np.tile(start, fits), prior.normal.centre)
    descent = Descent.start(prior.normal, slopes, at=at, least_gain=least_gain).take(with_targets(sums, at, shift))
    for _ in range(MOST_STEPS):
        if descent.done:
            break
        live, point = descent.live, descent.best + descent.step
        if coarse is not None:
            found = _sums_near(coarse, start, sums, share, point, live)
        else:
            wanted = np.zeros(fits * size, dtype=bool)
            wanted[live] = True
            by_fit = zip(np.split(point, fits, axis=1), np.split(wanted, fits), without, strict=True)
            outside = [over_folds(rows.sums(p, own, int(fold)))[:, own] for p, own, fold in by_fit if own.any()]
            found = np.concatenate(outside, axis=1)
        descent = descent.take(with_targets(found, point[:, live], shift[:, live]))
    return descent


def _better_start(
    rows: FoldRuns, descent: Descent, start: Floats, sums: Floats, shift: Floats
) -> tuple[Floats, Floats]:
    """The best point of the fit that leaves out nothing, and the sums by fold there.

    The other fits end near it: one pass over all rows here spares each of them a pass.
    """
    descent = descent.take(with_targets(over_folds(sums), start, shift))
    for _ in range(MOST_STEPS):
        if descent.done:
            break
        live, point = descent.live, descent.best + descent.step
        wanted = np.isin(np.arange(start.shape[1]), live)
        there = rows.sums(point, wanted)
        descent = descent.take(with_targets(over_folds(there)[:, live], point[:, live], shift[:, live]))
        lower = wanted & (descent.best == point).all(axis=0)
        start, sums = np.where(lower, point, start), np.where(lower[:, None], there, sums)
    return start, sums


def _sums_near(coarse: FoldRuns, start: Floats, sums: Floats, share: Floats, point: Floats, live: Indices) -> Floats:
    """The sums of the live units at ``point``, approximately, (m, live), from the exact ``sums`` at ``start``.

    ``share`` is the part of a unit's rows that each fit sees. Between the two points the smooth part of the log-loss is
    taken to change as that of the coarse rows does. The part with the labels is linear, so its change is exact.
    """
    k, size = start.shape
    fit, unit = np.divmod(live, size)
    there = coarse.sums(start)[:, unit, 0]
    here = np.empty_like(there)
    for number in np.unique(fit):
        mine, wanted = fit == number, np.zeros(size, dtype=bool)
        wanted[unit[mine]] = True
        own = point[:, number * size : (number + 1) * size]
        here[:, mine] = coarse.sums(own, wanted)[:, unit[mine], 0]
    change = share[live] * (here - there)
    known = sums[:, live]
    change[0] += ((known - share[live] * there)[1 : 1 + k] * (point[:, live] - start[:, unit])).sum(axis=0)
    return known + change
