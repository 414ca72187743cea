"""From users' columns to cells: check them, calibrate, and order rows as the stored policy will compare them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.calibration import METHODS, Calibrator, CrossFit, Sample, cross_fit, rising_chances
from logofair.calibration.newton import Units
from logofair.cells.cells import Cells, build_cells
from logofair.columns.checks import (
    Floats,
    Integers,
    binary,
    nearest_name,
    not_empty,
    probabilities,
    same_length,
    weights,
)
from logofair.columns.labels import Codes, encode, one_client
from logofair.columns.segments import Booleans, Indices, RowOrder, cell_numbers
from logofair.errors import InputError

__all__ = [
    "CalibratedScores",
    "CalibrationRows",
    "Prepared",
    "checked_rows",
    "order_by_cell",
    "ordered_cells",
    "prepare",
    "with_chances",
]


_MOST_FOLDS = 1000


@dataclass(frozen=True, eq=False)
class CalibratedScores:
    """What calibration made of rows: the calibrated scores, the chances they count with, and their order.

    ``scores`` is what the stored policy compares with its thresholds, ``out_of_fold`` the chance of label 1 estimated
    without the row's fold: the one to compare with labels. ``eta`` is the chance each row counts with: those of rows
    side by side averaged until they rise with ``scores``. ``order`` is that of the rows by cell and calibrated score.
    """

    scores: Floats
    eta: Floats
    out_of_fold: Floats
    order: RowOrder


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """The calibration rows after checking; ``calibration`` is None where scores are taken as they are."""

    scores: Floats
    labels: Floats | None
    groups: Codes
    clients: Codes
    weights: Floats | None
    calibration: CalibratedScores | None = None

    def at(self, which: Booleans) -> CalibrationRows:
        """Some of the rows, not yet calibrated, with the names of all groups and clients."""
        return CalibrationRows(
            self.scores[which],
            None if self.labels is None else self.labels[which],
            Codes(self.groups.names, self.groups.codes[which]),
            Codes(self.clients.names, self.clients.codes[which]),
            None if self.weights is None else self.weights[which],
        )

    @property
    def calibrated(self) -> Floats:
        """What the stored policy compares with its thresholds."""
        return self.scores if self.calibration is None else self.calibration.scores

    @property
    def eta(self) -> Floats:
        """The chance of label 1 each row counts with; for a comparison with labels take ``out_of_fold``."""
        return self.scores if self.calibration is None else self.calibration.eta

    @property
    def out_of_fold(self) -> Floats:
        """The chance of label 1, estimated without the row's own label."""
        return self.scores if self.calibration is None else self.calibration.out_of_fold

    @property
    def has_clients(self) -> bool:
        """Whether the user said which client each row is of."""
        return self.clients.names != (None,)

    @property
    def cells(self) -> Integers:
        """Number of each row's cell."""
        return cell_numbers(self.groups.codes, self.clients.codes, len(self.groups.names))


@dataclass(frozen=True, eq=False)
class Prepared:
    """Calibrated rows and their cells: one sort, on which any number of requirements can be solved.

    ``rising`` is the order of the rows by score alone, from which any order by cell and score follows without another
    sort; None where bare scores were sorted, which is faster and all that rows of equal weight and value need.
    """

    rows: CalibrationRows
    cells: Cells
    fitted: CrossFit
    rising: Indices | None


def checked_rows(
    scores: object, labels: object, groups: object, clients: object, sample_weight: object, calibration: str, basis: str
) -> CalibrationRows:
    """Check every column."""
    for value, known, where in ((calibration, METHODS, "calibration"), (basis, ("eta", "labels"), "basis")):
        if not isinstance(value, str) or value not in known:
            raise InputError(f"{where}: got {value!r}{nearest_name(value, known)}; use one of {', '.join(known)}.")
    score = probabilities(scores)
    not_empty(score.size, "scores")
    if labels is None and (calibration != "none" or basis == "labels"):
        raise InputError(
            f"labels: missing, but calibration={calibration!r} with basis={basis!r} needs them; "
            "pass labels, or use calibration='none' with basis='eta'."
        )
    label = None if labels is None else binary(labels)
    group = encode(groups, "groups")
    client = one_client(score.size) if clients is None else encode(clients, "clients")
    same_length(score.size, labels=label, groups=group, clients=client)
    if len(group.names) < 2:
        raise InputError(f"groups: only one group, {group.names[0]!r}; fairness compares two or more.")
    return CalibrationRows(score, label, group, client, _scaled(weights(sample_weight, score.size)))


def _scaled(weight: Floats | None) -> Floats | None:
    """Weights whose sums and inverse sums are finite; a row of less than 1e-200 of the largest weight counts 0."""
    if weight is None or (weight.max() < 1e100 and weight[weight > 0].min() > 1e-100):
        return weight
    relative = weight / weight.max()
    return np.where(relative < 1e-200, 0.0, relative)


def prepare(rows: CalibrationRows, calibration: str, basis: str, folds: object, random_state: int) -> Prepared:
    """Calibrate checked rows and order them into cells."""
    bare = calibration == "none" and basis == "eta" and rows.weights is None
    rising = None if bare else np.argsort(rows.scores, kind="stable")
    order = order_by_cell(rows, rising)
    fitted = _calibrate(rows, calibration, folds, random_state, order)
    rows = with_chances(rows, fitted.calibrator, fitted.eta, rows.clients.codes, order)
    return Prepared(rows, ordered_cells(rows, basis, order), fitted, rising)


def order_by_cell(rows: CalibrationRows, rising: Indices | None) -> RowOrder | None:
    """The rows by cell and score, from their order by score alone."""
    n_cells = len(rows.groups.names) * len(rows.clients.names)
    return None if rising is None else RowOrder.of(rows.scores, rows.cells, n_cells, rising)


def _calibrate(
    rows: CalibrationRows, method: str, folds: object, random_state: int, order: RowOrder | None
) -> CrossFit:
    """Turn scores into chances, out of fold."""
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or not 2 <= folds <= _MOST_FOLDS:
        raise InputError(f"folds: got {folds!r}; pass a whole number from 2 to {_MOST_FOLDS}.")
    folds = min(int(folds), max(2, rows.scores.size))  # more folds than rows leave one row out each
    units = Units(len(rows.groups.names), len(rows.clients.names))
    if method == "none" or rows.labels is None:
        return CrossFit(rows.scores, rows.scores, Calibrator("none", units.n_groups, units.n_clients, None), None)
    sample = Sample(rows.scores, rows.labels, rows.groups.codes, rows.clients.codes, rows.weights, units)
    return cross_fit(sample, method, folds=folds, rng=np.random.default_rng(random_state), order=order)


def with_chances(
    rows: CalibrationRows, calibrator: Calibrator, out_of_fold: Floats, clients: Integers, order: RowOrder | None
) -> CalibrationRows:
    """Add what the stored policy compares with its thresholds, and chances that rise with it."""
    if calibrator.method == "none" or order is None:
        return replace(rows, calibration=None)
    calibrated = calibrator(rows.scores, rows.groups.codes, clients)
    order = order.along(calibrated)
    eta = rising_chances(order, calibrated, out_of_fold, rows.weights)
    return replace(rows, calibration=CalibratedScores(calibrated, eta, out_of_fold, order))


def ordered_cells(rows: CalibrationRows, basis: str, order: RowOrder | None) -> Cells:
    """Rows ordered by the calibrated score, valued by their chance or by their label; ``order`` is by raw score."""
    made = rows.calibration
    return build_cells(
        rows.calibrated,
        rows.groups.codes,
        rows.clients.codes,
        n_groups=len(rows.groups.names),
        n_clients=len(rows.clients.names),
        values=rows.labels if basis == "labels" else (None if made is None else made.eta),
        weights=rows.weights,
        rising=basis == "eta",
        order=order if made is None else made.order,
    )
