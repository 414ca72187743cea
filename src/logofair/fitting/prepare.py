"""From users' columns to cells: check them, calibrate, and order rows as the stored policy will compare them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.calibration import METHODS, Calibrator, CrossFit, cross_fit, rising_chances
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
from logofair.columns.labels import Codes, encode
from logofair.errors import InputError
from logofair.fitting.solution import CalibrationRows

__all__ = ["Prepared", "checked_rows", "ordered_cells", "prepare", "with_chances"]


_MOST_FOLDS = 1000


@dataclass(frozen=True, eq=False)
class Prepared:
    """Calibrated rows and their cells: one sort, on which any number of promises can be solved."""

    rows: CalibrationRows
    cells: Cells
    fitted: CrossFit


def checked_rows(
    scores: object, labels: object, groups: object, clients: object, sample_weight: object, calibration: str, basis: str
) -> CalibrationRows:
    """Check every column at the door."""
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
    client = Codes((None,), np.zeros(score.size, dtype=np.int32)) if clients is None else encode(clients, "clients")
    same_length(score.size, labels=label, groups=group, clients=client)
    if len(group.names) < 2:
        raise InputError(f"groups: only one group, {group.names[0]!r}; fairness compares two or more.")
    return CalibrationRows(score, label, group, client, _scaled(weights(sample_weight, score.size)), score, score)


def _scaled(weight: Floats | None) -> Floats | None:
    """Weights whose sums and inverse sums are finite; a row of less than 1e-200 of the largest weight counts 0."""
    if weight is None or (weight.max() < 1e100 and weight[weight > 0].min() > 1e-100):
        return weight
    relative = weight / weight.max()
    return np.where(relative < 1e-200, 0.0, relative)


def prepare(rows: CalibrationRows, calibration: str, basis: str, folds: object, seed: int) -> Prepared:
    """Calibrate checked rows and order them into cells."""
    fitted = _calibrate(rows, calibration, folds, seed)
    rows = with_chances(rows, fitted.calibrator, fitted.eta, rows.clients.codes)
    return Prepared(rows, ordered_cells(rows, basis), fitted)


def _calibrate(rows: CalibrationRows, method: str, folds: object, seed: int) -> CrossFit:
    """Turn scores into chances, out of fold."""
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or not 2 <= folds <= _MOST_FOLDS:
        raise InputError(f"folds: got {folds!r}; pass a whole number from 2 to {_MOST_FOLDS}.")
    folds = min(int(folds), max(2, rows.scores.size))  # more folds than rows leave one row out each
    return cross_fit(
        rows.scores,
        rows.labels,
        rows.groups.codes,
        rows.clients.codes,
        n_groups=len(rows.groups.names),
        n_clients=len(rows.clients.names),
        method=method,
        weights=rows.weights,
        folds=folds,
        rng=np.random.default_rng(seed),
    )


def with_chances(
    rows: CalibrationRows, calibrator: Calibrator, out_of_fold: Floats, clients: Integers
) -> CalibrationRows:
    """Add what the stored policy compares with its thresholds, and honest chances that rise with it."""
    calibrated = calibrator(rows.scores, rows.groups.codes, clients)
    if calibrated is rows.scores:
        return rows
    eta = rising_chances(calibrated, out_of_fold, rows.cells, rows.weights)
    return replace(rows, calibrated=calibrated, eta=eta)


def ordered_cells(rows: CalibrationRows, basis: str) -> Cells:
    """Rows ordered by the calibrated score, valued by their chance or by their label."""
    plain = rows.eta is rows.calibrated
    return build_cells(
        rows.calibrated,
        rows.groups.codes,
        rows.clients.codes,
        n_groups=len(rows.groups.names),
        n_clients=len(rows.clients.names),
        values=rows.labels if basis == "labels" else (None if plain else rows.eta),
        weights=rows.weights,
        rising=basis == "eta",
    )
