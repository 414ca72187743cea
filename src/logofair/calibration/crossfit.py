"""Cross-fitting: an eta for every row from a calibrator that has not seen the row's label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logofair.calibration.calibrator import Calibrator, fit_calibrator
from logofair.calibration.error import CalibrationErrors, errors_by_cell
from logofair.calibration.runs import Places, Units
from logofair.columns.checks import Floats, Integers
from logofair.columns.order import RowOrder
from logofair.columns.segments import group_by, pool_starts, run_starts, run_sums

__all__ = ["CrossFit", "Sample", "cross_fit", "deal_folds", "held_out_chances", "out_of_fold", "rising_chances"]


def rising_chances(order: RowOrder, levels: Floats, chances: Floats, weights: Floats | None = None) -> Floats:
    """Smooth ``chances`` to rise with ``levels`` inside each cell; rows of equal level get the same.

    ``order`` is that of the rows by cell and level.

    Examples
    --------
    >>> import numpy as np
    >>> levels, one_cell = np.array([0.1, 0.2, 0.3]), np.zeros(3, dtype=np.int32)
    >>> rising_chances(RowOrder.of(levels, one_cell, 1), levels, np.array([0.2, 0.4, 0.3])).tolist()
    [0.2, 0.35, 0.35]
    """
    if levels.size == 0:
        return chances
    place = order.rows
    mass = np.ones(levels.size) if weights is None else np.maximum(weights, 1e-12 * weights.max())[place]
    sums = mass * chances[place]
    starts = run_starts(order.changes(levels[place]))
    level_mass = run_sums(mass, starts)
    pools = pool_starts(run_sums(sums, starts) / level_mass, level_mass, order.cells[starts[:-1]])
    begins = np.append(starts[pools], levels.size)
    means = run_sums(sums, begins) / run_sums(mass, begins)
    smooth = np.empty_like(chances)
    smooth[place] = np.repeat(np.clip(means, 0.0, 1.0), np.diff(begins))
    return smooth


@dataclass(frozen=True, eq=False)
class Sample:
    """Labelled rows and their units, each column (n,)."""

    scores: Floats
    labels: Floats
    group_codes: Integers
    client_codes: Integers
    weights: Floats | None
    units: Units

    @property
    def cells(self) -> Places:
        """The cell of every row."""
        return self.units.cells(self.group_codes, self.client_codes)

    def at(self, rows: Places | npt.NDArray[np.bool_]) -> Sample:
        """The rows at some places."""
        return Sample(
            self.scores[rows],
            self.labels[rows],
            self.group_codes[rows],
            self.client_codes[rows],
            None if self.weights is None else self.weights[rows],
            self.units,
        )

    def fit(self, method: str) -> Calibrator:
        """A calibrator fitted to the rows."""
        return fit_calibrator(
            self.scores,
            self.labels,
            self.group_codes,
            self.client_codes,
            n_groups=self.units.n_groups,
            n_clients=self.units.n_clients,
            method=method,
            weights=self.weights,
        )


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Out-of-fold chances and the calibrator refitted on all rows.

    Parameters
    ----------
    eta : Floats
        For every row the chance of label 1 by the calibrator fitted without the row's fold.
    merged_eta : Floats
        Likewise by the map of the row's group, for rules that ignore the client.
    calibrator : Calibrator
        Fitted on all rows: for new ones.
    errors : CalibrationErrors or None
        Calibration errors of the scores and of ``eta``; None for method "none", which measures nothing.
    """

    eta: Floats
    merged_eta: Floats
    calibrator: Calibrator
    errors: CalibrationErrors | None


def cross_fit(
    scores: Floats,
    labels: Floats | None,
    group_codes: Integers,
    client_codes: Integers,
    *,
    n_groups: int,
    n_clients: int,
    method: str = "beta",
    weights: Floats | None = None,
    folds: int = 5,
    rng: np.random.Generator,
    order: RowOrder | None = None,
) -> CrossFit:
    """Calibrate every row by a fit to the other folds, and fit once more on all rows.

    The folds balance cells, labels and scores. ``order`` is that of the rows by cell and score, where it is known
    already. The other parameters are those of :func:`fit_calibrator`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(2000)
    >>> labels = (rng.random(2000) < truth).astype(float)
    >>> groups, clients = np.arange(2000, dtype=np.int32) % 2, np.zeros(2000, dtype=np.int32)
    >>> too_sure = truth**2 / (truth**2 + (1 - truth) ** 2)
    >>> fit = cross_fit(too_sure, labels, groups, clients, n_groups=2, n_clients=1, rng=rng)
    >>> bool(np.abs(fit.eta - truth).mean() < 0.03)
    True
    >>> bool(fit.errors.overall_after < 0.5 * fit.errors.overall_before)
    True
    """
    if method == "none" or labels is None:
        calibrator = fit_calibrator(
            scores, labels, group_codes, client_codes, n_groups=n_groups, n_clients=n_clients, method=method
        )
        return CrossFit(scores, scores, calibrator, None)
    sample = Sample(scores, labels, group_codes, client_codes, weights, Units(n_groups, n_clients))
    order = RowOrder.of(scores, sample.cells, sample.units.n_cells) if order is None else order
    dealt, fold = deal_folds(sample, order, folds, rng)
    ordered = sample.at(dealt)
    eta, merged_eta = np.empty_like(scores), np.empty_like(scores)
    eta[dealt], merged_eta[dealt] = out_of_fold(ordered, fold, method)
    errors = errors_by_cell(scores, eta, labels, sample.cells, weights, order)
    return CrossFit(eta, merged_eta, ordered.fit(method), errors)


def deal_folds(
    sample: Sample, order: RowOrder, folds: int, rng: np.random.Generator
) -> tuple[Places, npt.NDArray[np.int16]]:
    """Order of the rows by cell, label and score, and the fold of each row in that order.

    Each next ``folds`` rows get the folds in random order ("permuted blocks"), so any stretch of the
    order, such as a cell or the positives of a cell, has every fold the same number of times to within
    two. ``order`` is that of the rows by cell and score.
    """
    strata = 2 * order.cells + (sample.labels[order.rows] > 0.5)
    dealt, _ = group_by(strata, 2 * sample.units.n_cells, order.rows)
    blocks = np.tile(np.arange(folds, dtype=np.int16), (-(-dealt.size // folds), 1))
    return dealt, rng.permuted(blocks, axis=1).ravel()[: dealt.size]


def out_of_fold(sample: Sample, fold: npt.NDArray[np.int16], method: str) -> tuple[Floats, Floats]:
    """Eta of every row, by its cell's map and by its group's, from fits without the row's fold."""
    return held_out_chances(sample, fold, lambda number: sample.at(fold != number).fit(method))


def held_out_chances(
    sample: Sample, fold: npt.NDArray[np.int16], calibrator_without: Callable[[int], Calibrator]
) -> tuple[Floats, Floats]:
    """Eta of every row, by its cell's map and by its group's, from the calibrator without the row's fold."""
    eta, merged_eta = np.empty_like(sample.scores), np.empty_like(sample.scores)
    for number in np.unique(fold):
        held_out = fold == number
        calibrator, rows = calibrator_without(int(number)), sample.at(held_out)
        eta[held_out] = calibrator(rows.scores, rows.group_codes, rows.client_codes)
        merged_eta[held_out] = calibrator(rows.scores, rows.group_codes, np.full_like(rows.client_codes, -1))
    return eta, merged_eta
