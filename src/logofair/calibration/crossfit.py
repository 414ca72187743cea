"""Cross-fitting: an eta for every row from a calibrator that has not seen its label, and the error left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from logofair.calibration.calibrator import STRENGTH, Calibrator, Sample, fit_calibrator
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices, RowOrder, group_by, pool_starts, run_starts, run_sums

__all__ = [
    "CalibrationErrors",
    "CrossFit",
    "calibration_errors",
    "cross_fit",
    "deal_folds",
    "folds_compared",
    "held_out_chances",
    "log_losses",
    "out_of_fold",
    "rising_chances",
    "walked",
]


# Strengths are compared on the first folds that hold this many rows: more tell no more.
_ENOUGH_ROWS = 20_000
# No label is thought less likely than this, or one row would outweigh all others.
LEAST_CHANCE = 1e-12


def rising_chances(order: RowOrder, levels: Floats, chances: Floats, weights: Floats | None = None) -> Floats:
    """Smooth ``chances`` to rise with ``levels`` inside each cell; rows of equal level get the same.

    ``order`` is that of the rows by cell and level. The means of rows side by side are kept, so a rule that decides
    them alike has the expected accuracy it had. But each row's smooth chance is a mean with its neighbours', whose fits
    knew its label: no chances rise with the score and are all free of their own labels. Test ``chances`` on labels.
    """
    if levels.size == 0:
        return chances
    place = order.rows
    mass = np.ones(levels.size) if weights is None else _positive(weights[place], order)
    sums = mass * chances[place]
    starts = run_starts(order.changes(levels[place]))
    level_mass = run_sums(mass, starts)
    pools = pool_starts(run_sums(sums, starts) / level_mass, level_mass, order.cells[starts[:-1]])
    begins = np.append(starts[pools], levels.size)
    means = run_sums(sums, begins) / run_sums(mass, begins)
    smooth = np.empty_like(chances)
    smooth[place] = np.repeat(np.clip(means, 0.0, 1.0), np.diff(begins))
    return smooth


def _positive(weights: Floats, order: RowOrder) -> Floats:
    """Weights in the order of the rows, those of 0 next to nothing beside the largest of their cell."""
    present = np.diff(order.starts) > 0
    largest = np.maximum.reduceat(weights, order.starts[:-1][present])
    floor = np.where(largest > 0.0, 1e-12 * largest, 1.0)
    return np.asarray(np.maximum(weights, np.repeat(floor, np.diff(order.starts)[present])))


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Out-of-fold chances and the calibrator refitted on all rows."""

    eta: Floats  # of every row, by the calibrator fitted without the row's fold
    merged_eta: Floats  # likewise by the map of the row's group, for rules that ignore the client
    calibrator: Calibrator  # fitted on all rows: for new ones
    errors: CalibrationErrors | None  # of the scores and of eta; None for method "none", which measures nothing
    strength: float = STRENGTH  # how many rows the group's map is worth in a cell


def cross_fit(
    sample: Sample,
    method: str,
    *,
    folds: int = 5,
    rng: np.random.Generator,
    order: RowOrder | None = None,
    strengths: tuple[float, ...] = (STRENGTH,),
) -> CrossFit:
    """Calibrate every row by a fit to the other folds, and fit once more on all rows.

    ``order`` is that of the rows by cell and score, where it is known already. Of several ``strengths`` of the cells'
    maps, rising, the one with the least held-out log-loss is taken, as far as a walk from the middle one finds it.
    """
    order = RowOrder.of(sample.scores, sample.cells, sample.units.n_cells) if order is None else order
    ordered, fold = sample.at(order.rows), deal_folds(order, folds, rng)

    @cache
    def chances(strength: float, first: int) -> tuple[Floats, Floats]:
        return out_of_fold(ordered, fold, method, strength, first)

    enough = folds_compared(folds, fold.size)
    strength = walked(strengths, lambda each: log_losses(ordered, chances(each, enough)[0], fold, enough).sum())
    eta, merged_eta = np.empty_like(sample.scores), np.empty_like(sample.scores)
    eta[order.rows], merged_eta[order.rows] = chances(strength, folds)
    errors = calibration_errors(sample, eta, order)
    return CrossFit(eta, merged_eta, fit_calibrator(ordered, method, cell_strength=strength), errors, strength)


def folds_compared(folds: int, rows: int) -> int:
    """How many folds, from the first, strengths are compared on."""
    return -(-folds * min(_ENOUGH_ROWS, rows) // max(rows, 1))


def walked(points: tuple[float, ...], loss: Callable[[float], float]) -> float:
    """The first point from the middle, up or else down, that neither neighbour betters."""
    at = len(points) // 2
    for step in (1, -1):
        while 0 <= at + step < len(points) and loss(points[at + step]) < loss(points[at]):
            at += step
    return points[at]


def log_losses(sample: Sample, chances: Floats, fold: npt.NDArray[np.int16], first: int) -> Floats:
    """Summed negative log-likelihood of the labels in each of the first folds, of every client, (clients, first)."""
    here, clients = fold < first, sample.units.n_clients
    right = np.where(sample.labels > 0.5, chances, 1.0 - chances)[here]
    weights = 1.0 if sample.weights is None else sample.weights[here]
    places = sample.client_codes[here].astype(np.int64) * first + fold[here]
    losses = np.bincount(places, -np.log(np.maximum(right, LEAST_CHANCE)) * weights, clients * first)
    return np.asarray(losses, dtype=np.float64).reshape(clients, first)


def deal_folds(order: RowOrder, folds: int, *rngs: np.random.Generator) -> npt.NDArray[np.int16]:
    """The fold of each row, in the given order by cell and score: drawn at random, each cell dealt evenly.

    Every cell has each fold the same number of times to within one. Nothing else is balanced: were labels, the rows
    outside a fold would tell those inside it (with coins for labels and 100 rows in a cell, eta guessed 54 of 100).
    Each of the ``rngs`` deals an equal part of the cells, one part after the other: the folds of its rows do not depend
    on the other parts.
    """
    cells = order.starts.size - 1
    share = cells // len(rngs)
    begins = order.starts[:: max(share, 1)]
    drawn = np.empty(order.rows.size, dtype=np.int64)
    place, numbers = np.empty(cells, dtype=np.int64), np.empty((len(rngs), folds), dtype=np.int16)
    for part, rng in enumerate(rngs):
        first, last = begins[part], begins[part + 1]
        drawn[first:last] = first + rng.permutation(last - first)
        # Cells in an order drawn at random: in their own, five rows at each client would put a group into one fold.
        place[part * share : (part + 1) * share] = part * share + rng.permutation(share)
        # In an order of their own, or the few rows of each small client would all lie in the first folds.
        numbers[part] = rng.permutation(folds)
    by_cell, _ = group_by(place[order.cells[drawn]], cells, drawn)
    dealer = np.repeat(np.arange(len(rngs)), np.diff(begins))
    fold = np.empty(drawn.size, dtype=np.int16)
    fold[by_cell] = numbers[dealer, (np.arange(drawn.size) - begins[dealer]) % folds]
    return fold


def out_of_fold(
    sample: Sample, fold: npt.NDArray[np.int16], method: str, cell_strength: float = STRENGTH, first: int | None = None
) -> tuple[Floats, Floats]:
    """Eta of every row, by its cell's map and by its group's, from fits without the row's fold.

    Of the ``first`` folds only, where that is given.
    """

    def without(number: int) -> Calibrator:
        return fit_calibrator(sample.at(fold != number), method, cell_strength=cell_strength)

    return held_out_chances(sample, fold, without, first)


def held_out_chances(
    sample: Sample,
    fold: npt.NDArray[np.int16],
    calibrator_without: Callable[[int], Calibrator],
    first: int | None = None,
) -> tuple[Floats, Floats]:
    """Eta of every row, by its cell's map and by its group's, from the calibrator without the row's fold."""
    eta, merged_eta = np.empty_like(sample.scores), np.empty_like(sample.scores)
    for number in np.unique(fold)[:first]:
        held_out = fold == number
        calibrator, rows = calibrator_without(int(number)), sample.at(held_out)
        eta[held_out] = calibrator(rows.scores, rows.group_codes, rows.client_codes)
        merged_eta[held_out] = calibrator(rows.scores, rows.group_codes, np.full_like(rows.client_codes, -1))
    return eta, merged_eta


# A bin holds at least this many rows, as long as the cell has that many: fewer are mostly noise.
_ROWS_PER_BIN = 25
_MOST_BINS = 15


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


def calibration_errors(sample: Sample, eta: Floats, order: RowOrder) -> CalibrationErrors:
    """Measure the error of scores and of eta, given the order of the rows by cell and score.

    ``eta`` should not have been fitted to the same rows' labels (see :func:`cross_fit`).
    """
    scores, labels = sample.scores, sample.labels
    counts = np.diff(order.starts)
    starts = _bin_starts(scores[order.rows], counts)
    cell_of_bin = order.cells[starts]
    weights = np.ones_like(scores) if sample.weights is None else sample.weights
    mass = np.bincount(sample.cells, weights=weights, minlength=counts.size).astype(np.float64)
    before, global_before = _errors((weights * (labels - scores))[order.rows], starts, cell_of_bin, mass)
    after, global_after = _errors((weights * (labels - eta))[order.rows], starts, cell_of_bin, mass)
    return CalibrationErrors(before, after, counts, global_before, global_after)


def _bin_starts(scores: Floats, counts: Indices) -> Indices:
    """First row of every bin, from scores ordered within their cells; equal scores share a bin."""
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    bins = np.clip(counts // _ROWS_PER_BIN, 1, _MOST_BINS)
    place = np.arange(scores.size)
    new_cell = np.zeros(scores.size, dtype=bool)
    new_cell[starts[counts > 0]] = True
    new_score = new_cell.copy()
    new_score[1:] |= np.diff(scores) != 0.0
    first_equal = np.maximum.accumulate(np.where(new_score, place, 0))
    bin_of_row = (first_equal - np.repeat(starts, counts)) * np.repeat(bins, counts) // np.repeat(counts, counts)
    changes = new_cell
    changes[1:] |= np.diff(bin_of_row) != 0
    return np.flatnonzero(changes)


def _errors(residuals: Floats, starts: Indices, cell_of_bin: Indices, mass: Floats) -> tuple[Floats, float]:
    """Error of every cell, and their mean, from weighted residuals in the order of the bins."""
    misses = np.abs(np.add.reduceat(residuals, starts)) if starts.size else np.zeros(0)
    by_cell = np.bincount(cell_of_bin, weights=misses, minlength=mass.size)
    errors = np.divide(by_cell, mass, out=np.full(mass.size, np.nan), where=mass > 0.0)
    total = float(mass.sum())
    return errors, float(by_cell.sum()) / total if total > 0.0 else float("nan")
