"""A client's last step in a federated calibration: its own cells, around the published maps of the groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from logofair.calibration.calibrator import Calibrator
from logofair.calibration.crossfit import CrossFit, held_out_chances
from logofair.calibration.error import errors_by_cell
from logofair.calibration.families import FAMILIES
from logofair.calibration.levels import GroupMaps
from logofair.calibration.logistic import LogisticMaps, platt_targets
from logofair.calibration.newton import most_probable
from logofair.calibration.sums import OwnRows
from logofair.inputs import Floats

__all__ = ["cell_calibrators"]


def cell_calibrators(rows: OwnRows, maps: GroupMaps) -> CrossFit:
    """Fit a client's cells around the groups' maps: out-of-fold chances, and the calibrator of all its rows.

    The answer is that of :func:`cross_fit` on all rows of the federation, for one client's rows, with the folds
    as dealt; the calibrator knows this client alone (``n_clients`` is 1). It needs nothing but the published maps,
    so a client that joins later gets its own in the same way.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.calibration.levels import Levels
    >>> from logofair.calibration.sums import calibration_counts, calibration_sums, deal_rows
    >>> rng = np.random.default_rng(0)
    >>> scores, labels = rng.random(100), rng.integers(0, 2, 100).astype(float)
    >>> rows = deal_rows("platt", scores, labels, np.zeros(100, np.int32), n_groups=1, rng=rng)
    >>> levels = Levels.start("platt", n_groups=1).count(calibration_counts(rows))
    >>> while not levels.done:
    ...     levels = levels.take(calibration_sums(rows, levels.ask))
    >>> fit = cell_calibrators(rows, levels.published)
    >>> fit.eta.shape, fit.calibrator.n_clients
    ((100,), 1)
    """
    fitted = [_calibrator(maps, fit, cells) for fit, cells in enumerate(_cells(rows, maps))]
    eta, pooled_eta = np.empty_like(rows.sample.scores), np.empty_like(rows.sample.scores)
    eta[rows.order], pooled_eta[rows.order] = held_out_chances(rows.sample, rows.fold, fitted.__getitem__)
    sample = rows.sample.at(np.argsort(rows.order))
    rising = np.argsort(sample.scores, kind="stable")
    errors = errors_by_cell(sample.scores, eta, sample.labels, sample.cells, sample.weights, rows.n_groups, rising)
    return CrossFit(eta, pooled_eta, fitted[-1], errors)


def _cells(rows: OwnRows, maps: GroupMaps) -> Iterator[Floats]:
    """The parameters of the client's cells in every fit, each (k, groups)."""
    family = FAMILIES[maps.method]
    for fits in rows.portions(np.arange(rows.folds + 1)):
        runs, unit = rows.runs(fits)
        if family.smoothed:
            fit = np.repeat(fits[unit // rows.n_groups], np.diff(runs.starts))
            low, high = platt_targets(*maps.mass[:, fit])
            runs = replace(runs, targets=np.where(runs.targets > 0.5, high, low))
        fitted = most_probable(runs, unit, maps.prior(fits), family.slopes)
        yield from fitted.centre.reshape(-1, fits.size, rows.n_groups).swapaxes(0, 1)


def _calibrator(maps: GroupMaps, fit: int, cells: Floats) -> Calibrator:
    """The calibrator of one fit for one client."""
    parameters = np.vstack([maps.everyone[:, fit], maps.groups[:, fit].T, cells.T])
    return Calibrator(maps.method, cells.shape[1], 1, LogisticMaps(maps.method, parameters))
