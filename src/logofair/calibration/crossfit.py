"""Cross-fitting: eta of every row from a calibrator that has not seen its label, and the calibration error left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.calibration.calibrator import STRENGTH, Calibrator, Fits, Sample
from logofair.calibration.fits import NO_FOLD
from logofair.calibration.logistic import LogisticMaps
from logofair.columns.acceleration import pieces_of_runs, two_at_once
from logofair.columns.checks import Binary, Floats, Integers
from logofair.columns.segments import (
    Indices,
    RowOrder,
    gather,
    group_by,
    narrowest,
    pool_starts,
    run_means,
    run_starts,
    run_sums,
)

# Prior strengths are compared on as few folds as hold this many rows: the held-out loss is precise enough then.
_ENOUGH_ROWS = 20_000
# Two strengths are equally good if their held-out log-losses, summed over all rows, differ by less than this many nats
# (the likelihood-ratio test of one parameter at 5 %): the larger, which shrinks more, is taken. Without it, where sites
# are alike, cells of 20 rows lost .003 to .005 nats a row more than under their group's map.
_INDIFFERENCE = 2.0
# Chances are moved this far from 0 and 1 before a logarithm is taken, or one row could outweigh all others.
LEAST_CHANCE = 1e-12
# A bin of the calibration error has at least this many rows where its cell does: with fewer the error is mostly noise.
_ROWS_PER_BIN = 25
_MOST_BINS = 15


def isotonic_chances(order: RowOrder, levels: Floats, chances: Floats, weights: Floats | None = None) -> Floats:
    """Isotonic regression of ``chances`` on ``levels`` inside each cell; rows of equal level get the same chance.

    All columns are in the ``order`` of the rows by cell and level. Pooling adjacent violators keeps the mean of each
    pool, and so the expected accuracy of every rule that treats the rows of a pool alike. A pooled chance is an average
    with neighbours whose fits have seen the row's label: it is no longer out of fold, so compare the ``chances`` given
    with labels, not these.
    """
    if levels.size == 0:
        return chances
    changes, mass = order.changes(levels), weights
    if mass is not None and not mass.min() >= 1e-12 * mass.max() > 0.0:
        # Isotonic regression needs weights of at least 1e-12 of the cell's largest.
        rows = np.diff(order.starts)
        largest = np.maximum.reduceat(mass, order.starts[:-1][rows > 0])
        floor = np.where(largest > 0.0, 1e-12 * largest, 1.0)
        mass = np.maximum(mass, np.repeat(floor, rows[rows > 0]))
    if changes.all():
        rising = _isotonic(chances, mass, order.starts)
        return np.clip(rising, 0.0, 1.0, out=rising)
    level_starts = run_starts(changes)
    lengths = np.diff(level_starts)
    level_mass = lengths.astype(np.float64) if mass is None else run_sums(mass, level_starts)
    means = run_sums(chances if mass is None else mass * chances, level_starts) / level_mass
    cell_starts = np.searchsorted(level_starts, order.starts)
    return np.repeat(np.clip(_isotonic(means, level_mass, cell_starts), 0.0, 1.0), lengths)


def _isotonic(values: Floats, mass: Floats | None, starts: Indices) -> Floats:
    """Isotonic regression of values in [0, 1], in each run by itself."""
    rising = np.empty_like(values)
    for part in pieces_of_runs(starts):
        begin, lengths = starts[part.start], np.diff(starts[part.start : part.stop + 1])
        some = slice(begin, starts[part.stop])
        own = np.ones_like(values[some]) if mass is None else mass[some]
        pools = pool_starts(values[some], own, np.repeat(np.arange(lengths.size), lengths))
        begins = np.append(pools, own.size)
        rising[some] = np.repeat(run_means(values[some], own, begins), np.diff(begins))
    return rising


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold chances: of each row by the calibrator fitted without its fold. Computed when asked for."""

    scores: Floats  # in input order
    order: RowOrder  # of the rows by cell and score
    fold: npt.NDArray[np.int16]  # of each row, in that order
    without: tuple[Calibrator, ...]  # the calibrator without each fold

    def chances(self, ordered: Floats | None = None) -> Floats:
        """Chance of each row by its cell's map, in the order by cell and score; computed at every call to save memory.

        ``ordered`` are the scores in that order, where the caller has them.
        """
        scores = gather(self.scores, self.order.rows) if ordered is None else ordered
        return held_out_chances(scores, self.order.cells + (1 + self.without[0].n_groups), self.fold, self.without)

    @property
    def in_input_order(self) -> Floats:
        """The chances in the order of the input."""
        return self.order.in_input_order(self.chances())

    def merged(self, scores: Floats, groups: Indices, rows: npt.NDArray[Any]) -> Floats:
        """Chances of some rows by their groups' maps, for rules that ignore the site; ``rows`` are their places."""
        return held_out_chances(scores, groups + 1, self.order.in_input_order(self.fold)[rows], self.without)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The calibrator of all rows, and the out-of-fold chances of those rows."""

    calibrator: Calibrator  # fitted on all rows: for new ones
    held_out: HeldOut | None = None  # None for method "none"
    errors: CalibrationErrors | None = None  # of the scores and of eta; None for method "none", which measures nothing
    strength: float = STRENGTH  # of the cells' prior, in rows
    chances: Floats | None = None  # out of fold, in the order of the rows by cell and score; dropped to save memory

    @classmethod
    def measured(cls, calibrator: Calibrator, held_out: HeldOut, sample: Sample, strength: float) -> CrossFit:
        """The cross-fit with the out-of-fold chances of its sample, and their calibration errors."""
        columns = sample.columns_at(held_out.order.rows)
        chances = held_out.chances(columns[0])
        errors = calibration_errors(*columns, chances, held_out.order.starts)
        return cls(calibrator, held_out, errors, strength, chances)

    @property
    def eta(self) -> Floats:
        """Chance of every row, by the calibrator fitted without the row's fold."""
        assert self.held_out is not None
        return (
            self.held_out.in_input_order if self.chances is None else self.held_out.order.in_input_order(self.chances)
        )


def cross_fit(
    sample: Sample,
    method: str,
    *,
    folds: int = 5,
    rng: np.random.Generator,
    strengths: tuple[float, ...] = (STRENGTH,),
) -> CrossFit:
    """Calibrate every row by a fit to the other folds, and fit once more on all rows; a person's rows share a fold.

    ``strengths`` of the cells' prior are in rising order; of several, a local search from the middle one takes that of
    the least held-out log-loss.
    """
    rows, n_cells = sample.scores.size, sample.units.n_cells
    if sample.people is not None:
        order = RowOrder.of(sample.scores, sample.cells, n_cells)
        fold = assign_folds_by_person(sample.people, sample.cells, n_cells, folds, rng)[order.rows]
    else:
        order, drawn = two_at_once(
            lambda: RowOrder.of(sample.scores, sample.cells, n_cells),
            lambda: draw_folds(np.array([0, rows]), n_cells, folds, rng),
            rows,
        )
        fold = drawn.assigned_to(order)
        del drawn  # six bytes a row, before columns of eight are made
    # One fit without each fold, and the last one on all rows.
    every = np.arange(folds + 1)
    without = np.append(every[:folds], NO_FOLD)
    fits = Fits.of(method, sample, order, fold, without, (STRENGTH, strengths[len(strengths) // 2]))
    enough = folds_compared(folds, fold.size)

    if len(strengths) > 1:
        places = np.flatnonzero(fold < enough)
        compared, fold_compared = sample.at(order.rows[places]), fold[places]
        unit = sample.units.of(compared.group_codes, compared.site_codes)

    @cache
    def loss(strength: float) -> float:
        rough = fits.calibrators(strength, every[:enough], to_compare=True)
        return float(log_losses(compared, held_out_chances(compared.scores, unit, fold_compared, rough)).sum())

    strength = local_search(strengths, loss)
    *without_fold, calibrator = fits.calibrators(strength, every)
    return CrossFit.measured(calibrator, HeldOut(sample.scores, order, fold, tuple(without_fold)), sample, strength)


def folds_compared(folds: int, rows: int) -> int:
    """On how many folds strengths are compared: the first ones."""
    return -(-folds * min(_ENOUGH_ROWS, rows) // max(rows, 1))


def local_search(points: tuple[float, ...], loss: Callable[[float], float]) -> float:
    """Local search from the middle point, up or else down, for a point that neither neighbour improves on.

    Losses that differ by no more than is expected by chance are equal, and of two equal points the larger is preferred.
    """
    middle = at = len(points) // 2
    while at + 1 < len(points) and loss(points[at + 1]) < loss(points[at]) + _INDIFFERENCE:
        at += 1
    if at == middle:
        while at > 0 and loss(points[at - 1]) < loss(points[at]) - _INDIFFERENCE:
            at -= 1
    return points[at]


def log_losses(sample: Sample, chances: Floats) -> Floats:
    """Negative log-likelihood of each row's label, times its weight."""
    right = np.where(sample.labels > 0.5, chances, 1.0 - chances)
    losses = -np.log(np.maximum(right, LEAST_CHANCE))
    return losses if sample.weights is None else losses * sample.weights


def assign_folds(order: RowOrder, folds: int, *rngs: np.random.Generator) -> npt.NDArray[np.int16]:
    """The fold of each row, in the given order by cell and score: random, stratified by cell and nothing else.

    Every cell has each fold the same number of times to within one. Stratifying by label too would let the rows outside
    a fold predict those inside it (with coin-flip labels and 100 rows in a cell, eta predicted 54 of 100). Each of the
    ``rngs`` draws for an equal part of the cells, those of one site, say: their folds do not depend on the others.
    """
    cells = order.starts.size - 1
    begins = order.starts[:: max(cells // len(rngs), 1)]
    return draw_folds(begins, cells, folds, *rngs).assigned_to(order)


def assign_folds_by_person(
    people: Integers, cells: Integers, n_cells: int, folds: int, rng: np.random.Generator
) -> npt.NDArray[np.int16]:
    """The fold of each row, in input order: a person's rows share one, and people are stratified by cell.

    A person counts in the cell of the first of these rows, whatever cells the others are in.
    """
    _, first, own = np.unique(people, return_index=True, return_inverse=True)
    homes = cells[first]
    order = RowOrder.of(homes.astype(np.float64), homes, n_cells)
    fold = np.empty(first.size, dtype=np.int16)
    fold[order.rows] = assign_folds(order, folds, rng)
    return fold[own]


@dataclass(frozen=True, eq=False)
class DrawnFolds:
    """The random part of assigning folds. It needs the numbers of rows and cells alone: draw it while rows are sorted.

    Rows are assigned cell after cell, in the order of ``place``, inside a cell as they are ``drawn``.
    """

    drawn: npt.NDArray[Any]  # a random permutation of the rows (whole numbers)
    place: npt.NDArray[Any]  # the place of each cell in a random order of the cells (whole numbers)
    folds: npt.NDArray[np.int16]  # the folds, one after the other in the order in which rows are assigned

    def assigned_to(self, order: RowOrder) -> npt.NDArray[np.int16]:
        """The fold of each row, in an order by cell and score."""
        of_row = np.repeat(self.place, np.diff(order.starts))
        by_cell, _ = group_by(of_row[self.drawn], self.place.size, self.drawn)
        fold = np.empty_like(self.folds)
        fold[by_cell] = self.folds
        return fold


def draw_folds(begins: Indices, cells: int, folds: int, *rngs: np.random.Generator) -> DrawnFolds:
    """Draw folds for :func:`assign_folds`; each rng draws for the rows from one of the ``begins`` to the next."""
    rows, share = int(begins[-1]), cells // len(rngs)
    narrow = narrowest(max(rows, cells))
    drawn, place = np.arange(rows, dtype=narrow), np.arange(cells, dtype=narrow)
    assigned = np.empty(rows, dtype=np.int16)
    for part, rng in enumerate(rngs):
        first, last = begins[part], begins[part + 1]
        rng.shuffle(drawn[first:last])
        # Cells in random order: otherwise sites of five rows each would put all of a group into one fold.
        rng.shuffle(place[part * share : (part + 1) * share])
        # Folds in random order, or all rows of small sites would be in the first folds.
        numbers = np.tile(rng.permutation(folds).astype(np.int16), 1 + (last - first) // folds)
        assigned[first:last] = numbers[: last - first]
    return DrawnFolds(drawn, place, assigned)


def held_out_chances(
    scores: Floats, unit: Indices, fold: npt.NDArray[np.int16], without: Sequence[Calibrator]
) -> Floats:
    """Chance of every row, by its unit's map in the calibrator without the row's fold."""
    maps = [calibrator.maps for calibrator in without]
    tables = [each.parameters for each in maps if isinstance(each, LogisticMaps)]
    if len(tables) == len(maps):  # all folds in one pass, as units of one table
        together = replace(without[0], maps=LogisticMaps(without[0].method, np.vstack(tables)))
        return together.at(scores, unit + fold * np.int64(len(tables[0])))
    chances = np.empty_like(scores)
    for number, calibrator in enumerate(without):
        here = fold == number
        chances[here] = calibrator.at(scores[here], unit[here])
    return chances


@dataclass(frozen=True, eq=False)
class CalibrationErrors:
    """Expected calibration error of every cell before (scores) and after (eta) calibration.

    The rows of a cell are cut by score into bins of equal count, the same before and after; the error is
    the weighted mean over the bins of ``|mean label - mean prediction|``. A perfect calibrator shows a
    positive error too, from chance alone: about ``0.4 / sqrt(rows per bin)``.
    """

    before: Floats  # (cells,), NaN where no row counts
    after: Floats
    counts: npt.NDArray[np.int64]  # rows in each cell
    global_before: float  # the mean of the cells' errors, each cell by its weight
    global_after: float


def calibration_errors(
    scores: Floats, labels: Binary, weights: Floats | None, eta: Floats, starts: Indices
) -> CalibrationErrors:
    """Measure the error of scores and of eta; columns of rows by cell and score, those of cell i from ``starts[i]``.

    ``eta`` should not have been fitted to the same rows' labels (see :func:`cross_fit`).
    """
    counts = np.diff(starts)
    bins = _bin_starts(scores, starts)
    cell_of_bin = np.searchsorted(starts, bins, "right") - 1
    mass = counts.astype(np.float64) if weights is None else run_sums(weights, starts)

    def errors(predictions: Floats) -> tuple[Floats, float]:
        """Error of every cell, and their mean."""
        residuals = labels - predictions
        residuals = residuals if weights is None else weights * residuals
        misses = np.abs(np.add.reduceat(residuals, bins)) if bins.size else np.zeros(0)
        by_cell = np.bincount(cell_of_bin, weights=misses, minlength=mass.size)
        of_cells = np.divide(by_cell, mass, out=np.full(mass.size, np.nan), where=mass > 0.0)
        total = float(mass.sum())
        return of_cells, float(by_cell.sum()) / total if total > 0.0 else float("nan")

    (before, global_before), (after, global_after) = errors(scores), errors(eta)
    return CalibrationErrors(before, after, counts, global_before, global_after)


def _bin_starts(scores: Floats, starts: Indices) -> Indices:
    """First row of every bin, from scores ordered within their cells; equal scores share a bin."""
    counts = np.diff(starts)
    bins = np.clip(counts // _ROWS_PER_BIN, 1, _MOST_BINS) * (counts > 0)
    cell = np.repeat(np.arange(counts.size), bins)
    number = np.arange(cell.size) - np.repeat(np.cumsum(bins) - bins, bins)
    begins = starts[cell] - (-number * counts[cell] // bins[cell])
    # A bin begins with the first row of a score: where one would cut equal scores, at the next score.
    tied = np.flatnonzero((number > 0) & (scores[begins] == scores[begins - 1]))
    if tied.size:
        ends = np.append(np.flatnonzero(np.diff(scores)) + 1, scores.size)
        begins[tied] = np.minimum(ends[np.searchsorted(ends, begins[tied])], starts[cell[tied] + 1])
    begins = begins[begins < starts[cell + 1]]
    return np.unique(begins) if tied.size else begins
