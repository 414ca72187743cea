"""From users' columns to cells: check them, calibrate, borrow, and order rows as the stored policy compares them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from logofair.calibration import METHODS, STRENGTH, Calibrator, CrossFit, HeldOut, Sample, cross_fit, isotonic_chances
from logofair.calibration.newton import Units
from logofair.cells.cells import Cells, build_cells, cells_in_order
from logofair.columns.acceleration import piece_by_piece
from logofair.columns.checks import (
    Binary,
    Floats,
    Integers,
    binary,
    nearest_name,
    not_empty,
    probabilities,
    same_length,
    same_order,
    shown,
    weights,
)
from logofair.columns.labels import Codes, check_groups, check_spelling, encode, one_site
from logofair.columns.segments import Booleans, RowOrder, cell_numbers, gather
from logofair.errors import InputError
from logofair.fitting.pooling import (
    POOLING,
    STRENGTHS,
    Borrowed,
    Choice,
    ScoredRows,
    borrow,
    cells_may_borrow,
    choose,
    group_priors,
)
from logofair.policy.info import PoolingInfo

BASES = ("eta", "labels")
FOLDS = 5  # of the calibration, and of what pooling is chosen by


@dataclass(frozen=True, eq=False)
class CalibratedScores:
    """What calibration made of rows: the calibrated scores, the chances they count with, and their order.

    ``scores`` is what the stored policy compares with its thresholds, ``eta`` the chance each row counts with: those
    out of fold of rows side by side, averaged until they rise with ``scores``. Both are in the ``order`` of the rows
    by cell and score.
    """

    order: RowOrder
    scores: Floats
    smoothed: Callable[[], Floats]  # makes ``eta``

    @classmethod
    def of(
        cls, order: RowOrder, scores: Floats, chances: Callable[[], Floats], rows: CalibrationRows
    ) -> CalibratedScores:
        """From scores and chances in an order; where rounding let a calibrated score fall, rows are sorted afresh."""
        given = order
        if given.falls(scores):
            in_input_order = given.in_input_order(scores)
            order = RowOrder.of(in_input_order, rows.cells, given.starts.size - 1)
            scores = in_input_order[order.rows]

        def smoothed() -> Floats:
            own = chances() if order is given else given.in_input_order(chances())[order.rows]
            return isotonic_chances(order, scores, own, rows.weights_in(order))

        return cls(order, scores, smoothed)

    @cached_property
    def eta(self) -> Floats:
        """The chance each row counts with; made when it is first asked for."""
        return self.smoothed()

    def made(self) -> CalibratedScores:
        """The same with chances made now, so that those they are made of can be let go."""
        return replace(self, smoothed=partial(np.asarray, self.smoothed()))

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibratedScores, (self.order, self.scores, partial(np.asarray, self.eta))


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """The calibration rows after checking; ``calibration`` is None where scores are taken as they are.

    ``held_out`` are the out-of-fold chances of label 1 in input order, or the calibrators that give them.
    """

    scores: Floats
    labels: Binary | None
    groups: Codes
    sites: Codes
    weights: Floats | None
    calibration: CalibratedScores | None = None
    held_out: HeldOut | Floats | None = None
    ids: Codes | None = None  # the person of each row, where ids were given

    def at(self, which: Booleans) -> CalibrationRows:
        """Some of the rows, not yet calibrated, with the names of all groups and sites."""
        return CalibrationRows(
            self.scores[which],
            None if self.labels is None else self.labels[which],
            Codes(self.groups.names, self.groups.codes[which]),
            Codes(self.sites.names, self.sites.codes[which]),
            None if self.weights is None else self.weights[which],
            ids=None if self.ids is None else Codes(self.ids.names, self.ids.codes[which]),
        )

    def copied(self) -> CalibrationRows:
        """Rows that do not change when the caller writes into his arrays; labels and codes are copies already."""
        return replace(self, scores=self.scores.copy(), weights=None if self.weights is None else self.weights.copy())

    @cached_property
    def calibrated(self) -> Floats:
        """What the stored policy compares with its thresholds."""
        made = self.calibration
        return self.scores if made is None else made.order.in_input_order(made.scores)

    @cached_property
    def eta(self) -> Floats:
        """The chance of label 1 each row counts with; for a comparison with labels take ``out_of_fold``."""
        made = self.calibration
        return self.scores if made is None else made.order.in_input_order(made.eta)

    @cached_property
    def out_of_fold(self) -> Floats:
        """The chance of label 1, estimated without the row's fold: the one to compare with labels."""
        if self.held_out is None:
            return self.scores
        return self.held_out.in_input_order if isinstance(self.held_out, HeldOut) else self.held_out

    @cached_property
    def people(self) -> Codes | None:
        """The person of each row; None where nobody has several rows, or no ids were given."""
        return None if self.ids is None or np.bincount(self.ids.codes).max() <= 1 else self.ids

    @property
    def has_sites(self) -> bool:
        """Whether the user said which site each row is of."""
        return self.sites.names != (None,)

    def weights_in(self, order: RowOrder) -> Floats | None:
        """The weights in an order of the rows."""
        return None if self.weights is None else self.weights[order.rows]

    @property
    def cells(self) -> Integers:
        """Number of each row's cell."""
        return cell_numbers(self.groups.codes, self.sites.codes, len(self.groups.names))


@dataclass(frozen=True, eq=False)
class Prepared:
    """Calibrated rows and their cells: one sort, on which any number of requirements can be solved.

    ``order`` is that of the rows by cell and raw score; None where bare scores, or scores with labels, were sorted,
    which is faster and all that rows of equal weight need. ``pooling`` says what the cells borrow besides.
    """

    rows: CalibrationRows
    cells: Cells
    fitted: CrossFit
    order: RowOrder | None
    pooling: PoolingInfo


def checked_rows(
    scores: object,
    labels: object,
    sensitive_features: object,
    sites: object,
    sample_weight: object,
    calibration: str,
    basis: str,
    ids: object = None,
) -> CalibrationRows:
    """Check every column."""
    for value, known, where in ((calibration, METHODS, "calibration"), (basis, BASES, "basis")):
        if not isinstance(value, str) or value not in known:
            raise InputError(f"{where}: got {value!r}{nearest_name(value, known)}; use one of {', '.join(known)}.")
    same_order(
        scores=scores,
        labels=labels,
        sensitive_features=sensitive_features,
        sites=sites,
        sample_weight=sample_weight,
        ids=ids,
    )
    score = probabilities(scores)
    not_empty(score.size, "scores")
    if labels is None and (calibration != "none" or basis == "labels"):
        raise InputError(
            f"labels: missing, but calibration={calibration!r} with basis={basis!r} needs them; "
            "pass labels, or use calibration='none' with basis='eta'."
        )
    label = None if labels is None else binary(labels)
    group = encode(sensitive_features, "sensitive_features")
    site = one_site(score.size) if sites is None else encode(sites, "sites")
    people = None if ids is None else encode(ids, "ids")
    same_length(score.size, labels=label, sensitive_features=group, sites=site, ids=people)
    if len(group.names) < 2:
        raise InputError(f"sensitive_features: only one group, {group.names[0]!r}; fairness compares two or more.")
    check_groups(group.names, score.size)
    check_spelling(site.names, "sites")
    if label is not None and calibration != "none" and (label == label[0]).all():
        raise InputError(
            f"labels: every one of the {label.size:,} rows has label {label[0]}, so nothing can be learnt of the "
            "other; check which column and which value mean label 1."
        )
    return CalibrationRows(score, label, group, site, _scaled(weights(sample_weight, score.size)), ids=people)


def _scaled(weight: Floats | None) -> Floats | None:
    """Weights whose sums and inverse sums are finite; a row of less than 1e-200 of the largest weight counts 0."""
    if weight is None or (weight.max() < 1e100 and weight[weight > 0].min() > 1e-100):
        return weight
    relative = weight / weight.max()
    return np.where(relative < 1e-200, 0.0, relative)


def check_other_people(fitted: Codes, ids: Codes) -> None:
    """Raise where people to test on are among those fitted on."""
    if both := set(map(str, ids.names)) & set(map(str, fitted.names)):
        raise InputError(
            f"ids: the policy was fitted on {len(both):,} of these people, such as {shown(min(both))}; a test "
            "needs other people."
        )


def checked_pooling(pooling: object, basis: str) -> str:
    """What cells may borrow; with labels as basis nothing, since a borrowed score has none."""
    if not isinstance(pooling, str) or pooling not in POOLING:
        raise InputError(f"pooling: got {pooling!r}{nearest_name(pooling, POOLING)}; use one of {', '.join(POOLING)}.")
    if basis == "labels" and pooling == "full":
        raise InputError("pooling: 'full' needs basis='eta', since borrowed scores have no labels; use 'none'.")
    return "none" if basis == "labels" else pooling


def prepare(rows: CalibrationRows, calibration: str, basis: str, random_state: int, pooling: str = "none") -> Prepared:
    """Calibrate checked rows, let small cells borrow, and order all into cells."""
    folds = min(FOLDS, max(2, rows.scores.size))  # more folds than rows leave one row out each
    if calibration != "none":  # chances out of fold are made anew when they are asked for
        rows = rows.copied()
    # Calibration orders rows itself, while it draws folds.
    order = order_by_cell(rows) if calibration == "none" and rows.weights is not None else None
    shape = len(rows.sites.names), len(rows.groups.names)
    alone = not cells_may_borrow(pooling, rows.cells, rows.weights, shape)
    # Where nobody needs to borrow there is nothing to choose: cells have rows enough, or are their groups.
    strengths = (STRENGTH,) if alone and pooling != "none" else STRENGTHS[pooling]
    fitted = _calibrate(rows, calibration, folds, random_state, strengths)
    order = order if fitted.held_out is None else fitted.held_out.order
    about = PoolingInfo(strength=None if fitted.calibrator.method == "none" else fitted.strength)
    borrowed: Borrowed | None = None
    choice = Choice()
    if not alone:
        people = None if rows.people is None else rows.people.codes
        scored = ScoredRows.of(rows.scores, rows.cells, rows.weights, shape[1], shape[0], people)
        rng = np.random.default_rng((random_state, 1))  # folds of its own: scores taken as they are have none
        choice = choose(scored, pooling, folds, rng, order)
        if choice.kind != "none":
            borrowed = borrow(scored, group_priors(scored, choice), scored.mass[-1])
    if borrowed is None or not borrowed.cells:
        rows, fitted = with_fitted(rows, fitted), replace(fitted, chances=None)
        return Prepared(rows, ordered_cells(rows, basis, order), fitted, order, about)
    rows = with_fitted(rows, replace(fitted, chances=None))
    cells = cells_with_borrowed(rows, borrowed, fitted.calibrator, fitted.chances)
    cells = replace(cells, rows=np.bincount(rows.cells, minlength=cells.rows.size))
    about = replace(
        about, prior=choice.kind, kappa=choice.finite_kappa, cells=borrowed.cells, largest_share=borrowed.largest_share
    )
    return Prepared(rows, cells, replace(fitted, chances=None), order, about)


def cells_with_borrowed(
    rows: CalibrationRows, borrowed: Borrowed, calibrator: Calibrator, chances: Floats | None = None
) -> Cells:
    """Cells of the rows and of what each cell borrows, all read by the cell's own calibrator.

    ``chances`` are those out of fold, in the order of the calibrated rows, where they are at hand.
    """
    made, n_groups, n_sites = rows.calibration, len(rows.groups.names), len(rows.sites.names)
    order = order_by_cell(rows) if made is None else made.order
    scores = rows.scores[order.rows] if made is None else made.scores
    weights, of_rows = borrowed.counts.ravel()[order.cells], rows.weights_in(order)
    if of_rows is not None:
        weights *= of_rows
    read = calibrator(borrowed.scores, borrowed.groups, borrowed.sites)
    cells = np.concatenate([order.cells, cell_numbers(borrowed.groups, borrowed.sites, n_groups)])
    scores, weights = np.concatenate([scores, read]), np.concatenate([weights, borrowed.weights])
    together = RowOrder.of(scores, cells, n_groups * n_sites)
    scores, weights = scores[together.rows], weights[together.rows]
    if made is None:
        values = scores
    else:
        own = rows.out_of_fold[order.rows] if chances is None else chances
        values = isotonic_chances(together, scores, np.concatenate([own, read])[together.rows], weights)
    return cells_in_order(scores, values, weights, together.starts, n_groups=n_groups, rising=True)


def order_by_cell(rows: CalibrationRows) -> RowOrder:
    """The rows by cell and score."""
    return RowOrder.of(rows.scores, rows.cells, len(rows.groups.names) * len(rows.sites.names))


def _calibrate(
    rows: CalibrationRows,
    method: str,
    folds: int,
    random_state: int,
    strengths: tuple[float, ...],
) -> CrossFit:
    """Turn scores into chances, out of fold."""
    units = Units(len(rows.groups.names), len(rows.sites.names))
    if method == "none" or rows.labels is None:
        return CrossFit(Calibrator("none", units.n_groups, units.n_sites, None))
    people = None if rows.people is None else rows.people.codes
    sample = Sample(rows.scores, rows.labels, rows.groups.codes, rows.sites.codes, rows.weights, units, people)
    rng = np.random.default_rng(random_state)
    return cross_fit(sample, method, folds=folds, rng=rng, strengths=strengths)


def with_fitted(rows: CalibrationRows, fitted: CrossFit) -> CalibrationRows:
    """Add what a fit made of the rows, if it calibrates at all; chances that it kept are used now."""
    held_out, kept = fitted.held_out, fitted.chances
    if held_out is None:
        return replace(rows, calibration=None, held_out=None)
    if kept is None:
        return with_chances(rows, fitted.calibrator, held_out.order, held_out.chances, held_out)
    rows = with_chances(rows, fitted.calibrator, held_out.order, lambda: kept, held_out)
    return replace(rows, calibration=rows.calibration and rows.calibration.made())


def with_chances(
    rows: CalibrationRows,
    calibrator: Calibrator,
    order: RowOrder,
    chances: Callable[[], Floats],
    held_out: HeldOut | Floats,
) -> CalibrationRows:
    """Add what the stored policy compares with its thresholds, and chances that rise with it.

    ``order`` is that of the rows by cell and score, in which the chances are given; ``held_out`` are the same in input
    order, or the calibrators that give them.
    """
    calibrated, cells = np.empty_like(rows.scores), order.cells

    def read(some: slice) -> None:  # a piece at a time: the scores themselves in that order are not needed
        calibrated[some] = calibrator.at(rows.scores[order.rows[some]], cells[some] + (1 + calibrator.n_groups))

    piece_by_piece(read, calibrated.size)
    made = CalibratedScores.of(order, calibrated, chances, rows)
    return replace(rows, calibration=made, held_out=held_out)


def with_merged(rows: CalibrationRows, fitted: CrossFit) -> CalibrationRows:
    """The rows as those of one site, calibrated by the maps of their groups."""
    one = replace(rows, sites=one_site(rows.scores.size), calibration=None, held_out=None)
    if fitted.held_out is None:
        return one
    order = order_by_cell(one)
    scores = gather(rows.scores, order.rows)
    chances = fitted.held_out.merged(scores, order.cells, order.rows)
    scores = fitted.calibrator.at(scores, order.cells + 1)
    return replace(one, calibration=CalibratedScores.of(order, scores, lambda: chances, one))


def ordered_cells(rows: CalibrationRows, basis: str, order: RowOrder | None) -> Cells:
    """Rows ordered by the calibrated score; ``order`` is that by raw score, where it is known.

    Their value is their chance or their label, as the basis says; with basis "scores" it is the calibrated score
    itself, for what follows from scores and rules alone.
    """
    n_groups, n_sites, rising = len(rows.groups.names), len(rows.sites.names), basis != "labels"
    made, labels = rows.calibration, None if rising else rows.labels
    if made is not None:
        order = made.order
    if order is None:
        codes = rows.groups.codes, rows.sites.codes
        more: Any = {"values": labels, "weights": rows.weights, "rising": rising}
        return build_cells(rows.scores, *codes, n_groups=n_groups, n_sites=n_sites, **more)
    scores = values = rows.scores[order.rows] if made is None else made.scores
    if labels is not None:
        values = labels[order.rows].astype(np.float64)
    elif made is not None and basis == "eta":
        values = made.eta
    return cells_in_order(scores, values, rows.weights_in(order), order.starts, n_groups=n_groups, rising=rising)
