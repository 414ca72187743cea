"""How far chances are from what happened, per cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logofair.calibration.runs import Places, Units
from logofair.columns.checks import Floats, Integers
from logofair.columns.order import RowOrder

__all__ = ["CalibrationErrors", "calibration_errors", "errors_by_cell"]

# A bin holds at least this many rows, as long as the cell has that many: fewer are mostly noise.
_ROWS_PER_BIN = 25
_MOST_BINS = 15


@dataclass(frozen=True, eq=False)
class CalibrationErrors:
    """Expected calibration error of every cell before (scores) and after (eta) calibration.

    The rows of a cell are cut by score into bins of equal count, the same before and after; the error is
    the weighted mean over the bins of ``|mean label - mean prediction|``. A perfect calibrator shows a
    positive error too, from chance alone: about ``0.4 / sqrt(rows per bin)``.

    Parameters
    ----------
    before, after : Floats
        The errors of the cells, (n_cells,); NaN where no row counts.
    counts : array of int
        Rows in each cell, (n_cells,).
    overall_before, overall_after : float
        The mean of the cells' errors, each cell by its weight.
    """

    before: Floats
    after: Floats
    counts: npt.NDArray[np.int64]
    global_before: float
    global_after: float


def calibration_errors(
    scores: Floats,
    eta: Floats,
    labels: Floats,
    group_codes: Integers,
    client_codes: Integers,
    *,
    n_groups: int,
    n_clients: int,
    weights: Floats | None = None,
) -> CalibrationErrors:
    """Measure the calibration error of scores and of eta in every cell.

    ``eta`` should not have been fitted to the same rows' labels (see :func:`cross_fit`).

    Examples
    --------
    >>> import numpy as np
    >>> scores, eta, labels = np.full(4, 0.9), np.full(4, 0.5), np.array([0.0, 1.0, 0.0, 1.0])
    >>> codes = np.zeros(4, dtype=np.int32)
    >>> errors = calibration_errors(scores, eta, labels, codes, codes, n_groups=1, n_clients=2)
    >>> errors.before.round(6).tolist(), errors.global_after
    ([0.4, nan], 0.0)
    """
    units = Units(n_groups, n_clients)
    cells = units.cells(group_codes, client_codes)
    return errors_by_cell(scores, eta, labels, cells, weights, RowOrder.of(scores, cells, units.n_cells))


def errors_by_cell(
    scores: Floats, eta: Floats, labels: Floats, cells: Places, weights: Floats | None, order: RowOrder
) -> CalibrationErrors:
    """The errors, given every row's cell and the order of the rows by cell and score."""
    counts = np.diff(order.starts)
    starts = _bin_starts(scores[order.rows], counts)
    cell_of_bin = order.cells[starts]
    weights = np.ones_like(scores) if weights is None else weights
    mass = np.bincount(cells, weights=weights, minlength=counts.size).astype(np.float64)
    before, global_before = _errors((weights * (labels - scores))[order.rows], starts, cell_of_bin, mass)
    after, global_after = _errors((weights * (labels - eta))[order.rows], starts, cell_of_bin, mass)
    return CalibrationErrors(before, after, counts, global_before, global_after)


def _bin_starts(scores: Floats, counts: Places) -> Places:
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


def _errors(residuals: Floats, starts: Places, cell_of_bin: Places, mass: Floats) -> tuple[Floats, float]:
    """Error of every cell, and their mean, from weighted residuals in the order of the bins."""
    misses = np.abs(np.add.reduceat(residuals, starts)) if starts.size else np.zeros(0)
    by_cell = np.bincount(cell_of_bin, weights=misses, minlength=mass.size)
    errors = np.divide(by_cell, mass, out=np.full(mass.size, np.nan), where=mass > 0.0)
    total = float(mass.sum())
    return errors, float(by_cell.sum()) / total if total > 0.0 else float("nan")
