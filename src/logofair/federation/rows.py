"""A client's rows, from its columns to what the solver counts: checks, calibration, pooling, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from logofair.calibration import Calibrator
from logofair.calibration.fits import LEAST_ROWS, PARTS, clipped_counts
from logofair.calibration.levels import GroupMaps, cell_calibrators, strength_losses
from logofair.calibration.sums import ROWS_AT_ONCE, FoldedRows, Points, calibration_counts, calibration_sums, fold_rows
from logofair.cells.cells import Cells
from logofair.columns.checks import (
    Binary,
    Floats,
    Integers,
    binary,
    not_empty,
    probabilities,
    same_length,
    same_order,
    weights,
)
from logofair.columns.labels import Codes, encode_known
from logofair.columns.segments import Booleans, cell_numbers
from logofair.errors import InputError, RefusedError
from logofair.federation.plan import Plan
from logofair.federation.privacy import Release, release
from logofair.federation.replies import (
    CandidateErrors,
    Contributors,
    Curvature,
    FoldCounts,
    FoldHistograms,
    GroupRows,
    PriorSums,
    Refusal,
    ScoreMoments,
    ShiftMoments,
    Sums,
)
from logofair.federation.requests import (
    CurvatureRequest,
    FoldCountsRequest,
    FoldHistogramsRequest,
    GroupRowsRequest,
    PriorRequest,
    ScoreMomentsRequest,
    ShiftMomentsRequest,
)
from logofair.fitting import pooling
from logofair.fitting.prepare import CalibrationRows, cells_with_borrowed, order_by_cell, with_chances


@dataclass(frozen=True, eq=False)
class SiteColumns:
    """A site's columns as they come from a file or from arrays; what the plan does not need may be None.

    Examples
    --------
    >>> rows = SiteColumns(groups=["F", "F", "M"], scores=[0.9, 0.3, 0.6])
    >>> rows.labels is None
    True
    """

    groups: object
    scores: object
    labels: object = None
    sample_weight: object = None


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site's rows after checking."""

    groups: Integers
    scores: Floats
    labels: Binary | None
    weights: Floats | None

    def at(self, which: Booleans) -> SiteRows:
        """Some of the rows."""

        def some(part: Any) -> Any:
            return None if part is None else part[which]

        return SiteRows(*(some(getattr(self, each.name)) for each in fields(self)))


def site_rows(columns: SiteColumns, plan: Plan) -> SiteRows:
    """Check a site's columns against the plan."""
    same_order(groups=columns.groups, scores=columns.scores, labels=columns.labels, sample_weight=columns.sample_weight)
    group = encode_known(columns.groups, plan.groups, "groups")
    not_empty(group.size, "groups")
    if group.min() < 0:
        row = int(np.argmin(group))
        raise RefusedError(
            Refusal.UNKNOWN_GROUP,
            f"groups: row {row} is of a group that is not in the plan ({', '.join(map(repr, plan.groups))}); "
            "drop such rows, or agree on a plan that names it.",
        )
    if plan.needs_labels and columns.labels is None:
        raise RefusedError(Refusal.NO_LABELS, "labels: missing, but the plan calibrates; name their column.")
    score = probabilities(columns.scores)
    label = None if columns.labels is None else binary(columns.labels)
    same_length(group.size, scores=score, labels=label)
    weight = weights(columns.sample_weight, group.size, "sample_weight")
    if weight is not None and plan.privacy is not None:
        raise InputError("sample_weight: rows cannot be weighted with differential privacy; leave it out.")
    return SiteRows(group, score, label, weight)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows that sites' policies are made from, those of a client next to one another."""

    scores: Floats
    groups: Integers
    sites: Integers
    labels: Binary | None
    weights: Floats | None

    @classmethod
    def joined(cls, parts: Sequence[tuple[Floats, Integers, Binary | None, Floats | None]]) -> ScoredRows:
        """Scores, groups, labels and weights of every client, one client after the other."""
        scores, groups, labels, weights = zip(*parts, strict=True)
        sizes = [each.size for each in groups]
        filled = [np.ones(size) if each is None else each for each, size in zip(weights, sizes, strict=True)]
        return cls(
            np.concatenate(scores),
            np.concatenate(groups),
            np.repeat(np.arange(len(parts), dtype=np.int32), sizes),
            None if any(each is None for each in labels) else np.concatenate(labels),
            None if all(each is None for each in weights) else np.concatenate(filled),
        )

    def cells(self, n_groups: int) -> Integers:
        """The cell of every row."""
        return cell_numbers(self.groups, self.sites, n_groups)

    def of(self, first: int, last: int) -> ScoredRows:
        """The rows of the sites from one number up to another, which are numbered from 0."""
        low, high = np.searchsorted(self.sites, [first, last])
        labels = None if self.labels is None else self.labels[low:high]
        weights = None if self.weights is None else self.weights[low:high]
        sites = self.sites[low:high] - np.int32(first)
        return ScoredRows(self.scores[low:high], self.groups[low:high], sites, labels, weights)


@dataclass(frozen=True, eq=False)
class Chances:
    """The same rows as they count, and the calibrator that reads new ones."""

    rows: CalibrationRows
    calibrator: Calibrator


@dataclass(frozen=True, eq=False)
class Preparation:
    """What each client does with its own rows before there are cells; the first axis of all sums counts sites."""

    rows: tuple[SiteRows, ...]
    plan: Plan
    sites: tuple[str, ...]

    @classmethod
    def of(cls, rows: Sequence[SiteRows], plan: Plan, sites: tuple[str, ...]) -> Preparation:
        """The rows that count: those of groups with fewer than the plan's smallest cell at their site do not."""
        return cls(tuple(_counted(each, plan) for each in rows), plan, sites)

    @property
    def weight(self) -> Floats:
        """What the rows of each client weigh in all."""
        return np.array([float(each.groups.size if each.weights is None else each.weights.sum()) for each in self.rows])

    def contributors(self, made: tuple[Release, ...], roster: tuple[str, ...]) -> Contributors:
        """To what each client contributes: groups, and those people of them of whom a global rate is a share."""
        noised = self.plan.privacy is not None
        rows = self._noised(made) if noised else self._scored
        shape, cells = (len(self.rows), len(self.plan.groups)), rows.cells(len(self.plan.groups))
        counted = np.ones(cells.size) if rows.weights is None else rows.weights if noised else 1.0 * (rows.weights > 0)
        chances = rows.scores if rows.labels is None or not self.plan.needs_labels else rows.labels
        people, positives = (
            np.bincount(cells, each, shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for each in (counted, counted * chances)
        )
        expected = [rate.denominator(people, positives) for rate in self.plan.group_rates]
        own = np.array([[float(site == name) for name in roster] for site in self.sites])
        marks = (
            people > 0,
            np.stack(expected, axis=2) >= 1.0 if expected else np.zeros((*shape, 0)),
            self._full_folds() if self.plan.needs_labels else np.zeros((*shape, len(PARTS))),
        )
        return Contributors(*(np.array(list(map(np.multiply.outer, own, each))) for each in marks))

    def _full_folds(self) -> Booleans:
        """Where each fold of a client's group holds both labels, and the group its part of rows, (sites, groups, 3)."""
        every = np.arange(len(self.plan.groups))
        mass = np.concatenate([calibration_counts(rows, every)[:, :, -1] for rows in self._folded])
        full = np.all(mass[:, :, -1:] > mass[:, :, :-1], axis=(1, 2))
        rows, _ = self._numbers
        return np.asarray(full[:, :, None] & (rows[:, :, None] * np.array(PARTS) >= LEAST_ROWS))

    @property
    def _numbers(self) -> tuple[Floats, Floats]:
        """How many rows of positive weight each client has of each group, and what they weigh, (sites, groups)."""
        rows, shape = self._scored, (len(self.rows), len(self.plan.groups))
        cells, weights = rows.cells(shape[1]), np.ones(rows.scores.size) if rows.weights is None else rows.weights
        number, mass = (
            np.bincount(cells, each, shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for each in (weights > 0, weights)
        )
        return number, mass

    def group_rows(self) -> GroupRows:
        """How many rows each client has of each group, up to what is enough; and what they weigh."""
        number, mass = self._numbers
        of_groups, of_all = clipped_counts(number)
        return GroupRows(rows=of_groups, everybody=of_all[:, None], mass=mass)

    def answer(self, request: Any) -> Sums:
        """Answer a request of calibration or pooling."""
        if isinstance(request, GroupRowsRequest):
            return self.group_rows()
        if isinstance(request, FoldCountsRequest | CurvatureRequest):
            return self._for_calibration(request)
        return self._for_prior(request)

    def _for_calibration(self, request: FoldCountsRequest | CurvatureRequest) -> Sums:
        """Answer a round of the calibration."""
        folded, points = self._folded, Points(request.at, request.places, request.live)
        sums = np.concatenate([calibration_sums(rows, points) for rows in folded])
        if isinstance(request, FoldCountsRequest):
            return FoldCounts(
                counts=np.concatenate([calibration_counts(rows, request.places) for rows in folded]), sums=sums
            )
        return Curvature(sums=sums)

    @cached_property
    def _scored(self) -> ScoredRows:
        return ScoredRows.joined([(rows.scores, rows.groups, rows.labels, rows.weights) for rows in self.rows])

    @cached_property
    def _folded(self) -> Sequence[FoldedRows]:
        """The rows in calibration folds, the same in every message, some sites at a time."""
        scored = self._scored
        ends = np.bincount(scored.sites, minlength=len(self.rows)).cumsum() * (self.plan.folds + 1)
        bounds = np.flatnonzero(np.diff(ends // ROWS_AT_ONCE)) + 1
        return [self._fold_some(scored, *some) for some in pairwise([0, *bounds.tolist(), len(self.rows)])]

    def _fold_some(self, scored: ScoredRows, first: int, last: int) -> FoldedRows:
        some = scored.of(first, last)
        return fold_rows(
            self.plan.calibration,
            some.scores,
            some.labels,
            some.groups,
            some.sites,
            n_groups=len(self.plan.groups),
            weights=some.weights,
            folds=self.plan.folds,
            rngs=[_site_rng(self.plan, site, "folds") for site in self.sites[first:last]],
        )

    def _for_prior(self, request: Any) -> Sums:
        """Answer a request of the pooling."""
        scored = self._scored
        parts = [self._one_prior(number, scored.of(number, number + 1), request) for number in range(len(self.rows))]
        sums = type(parts[0]).stacked(parts)
        if isinstance(sums, ScoreMoments):
            return replace(sums, losses=self._strength_losses(request.maps))
        return sums

    def _one_prior(self, number: int, scored: ScoredRows, request: Any) -> Sums:
        rows = self._for_pooling(scored, 1)
        if isinstance(request, PriorRequest):
            choice = pooling.Choice.of(request.kind, request.kappa)
            return PriorSums(**vars(pooling.prior_sums(rows, choice, request.rule)))
        rows = rows.in_folds(self.plan.folds, _site_rng(self.plan, self.sites[number], "pooling folds"))
        if isinstance(request, ScoreMomentsRequest):
            size = np.array([float(rows.odds.size)])
            return ScoreMoments(**vars(pooling.score_moments(rows)), losses=np.zeros(0), rows=size)
        if isinstance(request, ShiftMomentsRequest):
            return ShiftMoments(sums=pooling.shift_moments(rows, request.reference))
        known = request.reference, request.between
        if isinstance(request, FoldHistogramsRequest):
            return FoldHistograms(mass=pooling.fold_histograms(rows, *known))
        return CandidateErrors(**vars(pooling.candidate_errors(rows, *known, request.priors)))

    def _for_pooling(self, rows: ScoredRows, n_sites: int) -> pooling.ScoredRows:
        """Rows of some sites as pooling sees them."""
        n_groups = len(self.plan.groups)
        cells = rows.cells(n_groups)
        return pooling.ScoredRows.of(rows.scores, cells, rows.weights, n_groups, n_sites)

    def _strength_losses(self, maps: GroupMaps | None) -> Floats:
        if self.plan.calibration == "none":
            return np.zeros((len(self.rows), 0, self.plan.folds))
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        return np.concatenate([strength_losses(rows, maps, pooling.STRENGTHS["auto"]) for rows in self._folded])

    def borrowing(
        self, own: Chances, priors: pooling.GroupPriors, *, fill: bool = False
    ) -> tuple[Cells, pooling.Borrowed]:
        """Cells of the rows and of what they borrow, and that; ``fill``: cells without rows borrow one."""
        rows = self._for_pooling(self._scored, len(self.rows))
        mass = rows.mass[-1]
        borrowed = pooling.borrow(rows, priors, np.where(mass == 0, 1.0, mass) if fill else mass)
        return cells_with_borrowed(own.rows, borrowed, own.calibrator), borrowed

    def releases(self, made: tuple[Release, ...]) -> tuple[Release, ...]:
        """Each client's noised histogram, made once: where one was made before, it is that one."""
        privacy, groups = self.plan.privacy, len(self.plan.groups)
        if privacy is None or made:
            return made
        return tuple(release(rows.scores, rows.groups, n_groups=groups, privacy=privacy) for rows in self.rows)

    def chances(self, maps: GroupMaps | None, made: tuple[Release, ...]) -> Chances:
        """The rows as they count: the scores themselves, calibrated chances, or noised histograms."""
        none = Calibrator("none", len(self.plan.groups), len(self.rows), None)
        if self.plan.privacy is not None:
            return Chances(self._columns(self._noised(made)), none)
        if self.plan.calibration == "none":
            return Chances(self._columns(self._scored), none)
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        rows, fits = self._columns(self._scored), [cell_calibrators(each, maps) for each in self._folded]
        calibrator = Calibrator.joined([fit.calibrator for fit in fits])
        eta, order = np.concatenate([fit.eta for fit in fits]), order_by_cell(rows)
        return Chances(with_chances(rows, calibrator, order, lambda: eta[order.rows], eta), calibrator)

    def _noised(self, made: tuple[Release, ...]) -> ScoredRows:
        """The rows as the sites' noised histograms have them."""
        tables = (each.rows() for each in made)
        return ScoredRows.joined([(middle, codes, None, counts) for middle, codes, counts in tables])

    def _columns(self, rows: ScoredRows) -> CalibrationRows:
        """The rows under the names of the plan."""
        groups, sites = Codes(self.plan.groups, rows.groups), Codes(self.sites, rows.sites)
        return CalibrationRows(rows.scores, rows.labels, groups, sites, rows.weights)


def _counted(rows: SiteRows, plan: Plan) -> SiteRows:
    """A site's rows without the groups that have fewer than the plan's smallest cell."""
    if plan.smallest_cell == 1:
        return rows
    counted = rows.groups if rows.weights is None else rows.groups[rows.weights > 0]
    stay = np.bincount(counted, minlength=len(plan.groups))[rows.groups] >= plan.smallest_cell
    return rows if stay.all() else rows.at(stay)


def _site_rng(plan: Plan, site: str, purpose: str) -> np.random.Generator:
    """Randomness of one site for one purpose: the same in every process and at every call."""
    digest = hashlib.sha256(f"{plan.random_state}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
