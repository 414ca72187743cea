"""From users' columns to cells: check them, calibrate, borrow, and order rows as the stored policy compares them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.calibration import METHODS, STRENGTH, Calibrator, CrossFit, Sample, cross_fit, rising_chances
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
from logofair.columns.segments import Indices, RowOrder, cell_numbers
from logofair.errors import InputError
from logofair.fitting.pooling import POOLING, Borrowed, Choice, ScoredRows, borrow, choose
from logofair.policy.info import PoolingInfo

__all__ = [
    "CalibratedScores",
    "CalibrationRows",
    "Prepared",
    "checked_pooling",
    "checked_rows",
    "order_by_cell",
    "ordered_cells",
    "prepare",
    "with_chances",
]


_MOST_FOLDS = 1000
# What a group's map may be worth in its cells, in rows: "full" leaves them no other.
_STRENGTHS = {"none": (STRENGTH,), "auto": (50.0, STRENGTH, 800.0, 3200.0, 1e9), "full": (1e9,)}


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
    ``pooling`` says what the cells borrow besides.
    """

    rows: CalibrationRows
    cells: Cells
    fitted: CrossFit
    rising: Indices | None
    pooling: PoolingInfo


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


def checked_pooling(pooling: object, basis: str) -> str:
    """What cells may borrow; with labels as basis nothing, since a borrowed score has none."""
    if not isinstance(pooling, str) or pooling not in POOLING:
        raise InputError(f"pooling: got {pooling!r}{nearest_name(pooling, POOLING)}; use one of {', '.join(POOLING)}.")
    if basis == "labels" and pooling == "full":
        raise InputError("pooling: 'full' needs basis='eta', since borrowed scores have no labels; use 'none'.")
    return "none" if basis == "labels" else pooling


def prepare(
    rows: CalibrationRows, calibration: str, basis: str, folds: object, random_state: int, pooling: str = "none"
) -> Prepared:
    """Calibrate checked rows, let small cells borrow, and order all into cells."""
    folds = _checked_folds(folds, rows.scores.size)
    bare = calibration == "none" and basis == "eta" and rows.weights is None
    rising = None if bare else np.argsort(rows.scores, kind="stable")
    order = order_by_cell(rows, rising)
    scored = _may_borrow(rows, pooling)
    strengths = _STRENGTHS["none" if scored is None else pooling]
    fitted = _calibrate(rows, calibration, folds, random_state, order, strengths)
    rows = with_chances(rows, fitted.calibrator, fitted.eta, rows.clients.codes, order)
    # Folds of its own: scores that are taken as they are have none.
    rng = np.random.default_rng((random_state, 1))
    choice = Choice() if scored is None else choose(scored, pooling, folds, rng)
    borrowed = None if scored is None else borrow(scored, choice)
    cells = ordered_cells(rows, basis, order) if borrowed is None else _borrowing(rows, borrowed, fitted.calibrator)
    return Prepared(rows, cells, fitted, rising, _about(choice, borrowed, fitted))


def _about(choice: Choice, borrowed: Borrowed | None, fitted: CrossFit) -> PoolingInfo:
    strength = None if fitted.calibrator.method == "none" else fitted.strength
    if borrowed is None:
        return PoolingInfo(strength=strength)
    return PoolingInfo(
        choice.kind,
        None if np.isinf(choice.kappa) else choice.kappa,
        int((borrowed.own < 1.0).sum()),
        float(1.0 - borrowed.own.min()),
        strength,
    )


def _may_borrow(rows: CalibrationRows, pooling: str) -> ScoredRows | None:
    """The rows as pooling sees them; None where no cell can borrow."""
    if pooling == "none":
        return None
    n_groups, n_clients = len(rows.groups.names), len(rows.clients.names)
    scored = ScoredRows.of(rows.scores, rows.cells, rows.weights, n_groups, n_clients)
    return scored if scored.may_borrow(pooling) else None


def _borrowing(rows: CalibrationRows, borrowed: Borrowed, calibrator: Calibrator) -> Cells:
    """Cells of the rows and of what each cell borrows, read by the cell's own calibrator."""
    shape = {"n_groups": len(rows.groups.names), "n_clients": len(rows.clients.names)}
    read = calibrator(borrowed.scores, borrowed.groups, borrowed.clients)
    own = borrowed.own.ravel()[rows.cells]
    weights = np.concatenate([own if rows.weights is None else own * rows.weights, borrowed.weights])
    scores = np.concatenate([rows.calibrated, read])
    groups = np.concatenate([rows.groups.codes, borrowed.groups])
    clients = np.concatenate([rows.clients.codes, borrowed.clients])
    number = cell_numbers(groups, clients, shape["n_groups"])
    order = RowOrder.of(scores, number, shape["n_groups"] * shape["n_clients"])
    if rows.calibration is None:
        values = None
    else:
        values = rising_chances(order, scores, np.concatenate([rows.out_of_fold, read]), weights)
    cells = build_cells(scores, groups, clients, **shape, values=values, weights=weights, rising=True, order=order)
    return replace(cells, rows=np.bincount(rows.cells, minlength=borrowed.own.size))


def order_by_cell(rows: CalibrationRows, rising: Indices | None) -> RowOrder | None:
    """The rows by cell and score, from their order by score alone."""
    n_cells = len(rows.groups.names) * len(rows.clients.names)
    return None if rising is None else RowOrder.of(rows.scores, rows.cells, n_cells, rising)


def _checked_folds(folds: object, rows: int) -> int:
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or not 2 <= folds <= _MOST_FOLDS:
        raise InputError(f"folds: got {folds!r}; pass a whole number from 2 to {_MOST_FOLDS}.")
    return min(int(folds), max(2, rows))  # more folds than rows leave one row out each


def _calibrate(
    rows: CalibrationRows,
    method: str,
    folds: int,
    random_state: int,
    order: RowOrder | None,
    strengths: tuple[float, ...],
) -> CrossFit:
    """Turn scores into chances, out of fold."""
    units = Units(len(rows.groups.names), len(rows.clients.names))
    if method == "none" or rows.labels is None:
        return CrossFit(rows.scores, rows.scores, Calibrator("none", units.n_groups, units.n_clients, None), None)
    sample = Sample(rows.scores, rows.labels, rows.groups.codes, rows.clients.codes, rows.weights, units)
    rng = np.random.default_rng(random_state)
    return cross_fit(sample, method, folds=folds, rng=rng, order=order, strengths=strengths)


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
