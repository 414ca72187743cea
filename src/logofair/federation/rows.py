"""A client's rows, from its columns to what the solver counts: checks, trained model, calibration, pooling, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from logofair.calibration import Calibrator
from logofair.calibration.levels import GroupMaps, cell_calibrators, strength_losses
from logofair.calibration.sums import OwnRows, Points, calibration_counts, calibration_sums, deal_rows
from logofair.columns.checks import Floats, Integers, binary, matrix, not_empty, probabilities, same_length, weights
from logofair.columns.labels import Codes, encode_known
from logofair.columns.segments import Booleans
from logofair.errors import InputError, RefusedError
from logofair.federation.plan import Plan, Training
from logofair.federation.privacy import Release, release
from logofair.federation.replies import (
    CandidateErrors,
    Curvature,
    FoldCounts,
    FoldHistograms,
    Moments,
    PriorSums,
    Refusal,
    ScoreMoments,
    ShiftMoments,
    Sums,
    Update,
)
from logofair.federation.requests import (
    CurvatureRequest,
    FoldCountsRequest,
    FoldHistogramsRequest,
    Model,
    MomentsRequest,
    PriorRequest,
    ScoreMomentsRequest,
    ShiftMomentsRequest,
    UpdateRequest,
)
from logofair.fitting import pooling
from logofair.fitting.prepare import CalibrationRows, with_borrowed, with_chances
from logofair.training.logistic import train_locally
from logofair.training.schedule import Schedule


@dataclass(frozen=True, eq=False)
class SiteColumns:
    """A site's columns as they come from a file or from arrays; what the plan does not need may be None."""

    groups: object
    scores: object = None
    labels: object = None
    sample_weight: object = None
    features: object = None


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site's rows after checking; ``scores`` are missing until a model is trained, where one is."""

    groups: Integers
    scores: Floats | None
    labels: Floats | None
    weights: Floats | None
    features: Floats | None

    def at(self, which: Booleans) -> SiteRows:
        """Some of the rows."""
        parts = (self.scores, self.labels, self.weights, self.features)
        return SiteRows(self.groups[which], *(None if each is None else each[which] for each in parts))


def site_rows(columns: SiteColumns, plan: Plan) -> SiteRows:
    """Check a site's columns against the plan."""
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
        raise RefusedError(Refusal.NO_LABELS, "labels: missing, but the plan calibrates or trains; name their column.")
    trains = plan.training is not None
    score = None if trains else probabilities(columns.scores)
    label = None if columns.labels is None else binary(columns.labels)
    table = _features(columns, plan)
    same_length(group.size, scores=score, labels=label, features=table)
    weight = weights(columns.sample_weight, group.size, "sample_weight")
    if weight is not None and (trains or plan.privacy is not None):
        raise InputError("sample_weight: rows cannot be weighted with training or differential privacy; leave it out.")
    return SiteRows(group, score, label, weight, table)


def _features(columns: SiteColumns, plan: Plan) -> Floats | None:
    if plan.training is None:
        return None
    table = matrix(columns.features, "features")
    if table.shape[1] != len(plan.training.features):
        raise InputError(
            f"features: got {table.shape[1]} columns, but the plan names {len(plan.training.features)}: "
            "pass the plan's columns in its order."
        )
    return table


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows a client's policy is made from."""

    scores: Floats
    groups: Integers
    labels: Floats | None
    weights: Floats | None


@dataclass(frozen=True, eq=False)
class Chances:
    """The same rows as they count, and the calibrator that reads new ones."""

    rows: CalibrationRows
    calibrator: Calibrator

    @property
    def groups(self) -> Integers:
        """Group of each row."""
        return self.rows.groups.codes

    @property
    def eta(self) -> Floats:
        """The chance of label 1 each row counts with."""
        return self.rows.eta

    @property
    def weight(self) -> Floats:
        """Weight of each row."""
        return np.ones(self.groups.size) if self.rows.weights is None else self.rows.weights


@dataclass(frozen=True, eq=False)
class Preparation:
    """What each client does with its own rows before there are cells; the first axis of all sums counts clients."""

    rows: tuple[SiteRows, ...]
    plan: Plan
    sites: tuple[str, ...]

    @classmethod
    def of(cls, rows: Sequence[SiteRows], plan: Plan, sites: tuple[str, ...]) -> Preparation:
        """The rows that count: those of groups with fewer than the plan's smallest cell at their site do not."""
        return cls(tuple(_counted(each, plan, site) for each, site in zip(rows, sites, strict=True)), plan, sites)

    def answer(self, request: Any, model: Model | None) -> Sums:
        """Answer a request of training, calibration or pooling; ``model`` is the trained one, where there is one."""
        parts = [self._one(number, request, model) for number in range(len(self.rows))]
        return type(parts[0]).stacked(parts)

    def _one(self, number: int, request: Any, model: Model | None) -> Sums:
        if isinstance(request, MomentsRequest):
            return self._moments(number)
        if isinstance(request, UpdateRequest):
            return self._update(number, request)
        if not isinstance(request, FoldCountsRequest | CurvatureRequest):
            return self._for_prior(number, request, model)
        rows = self._dealt(number, model)
        sums = calibration_sums(rows, Points(request.at, request.live))
        if isinstance(request, FoldCountsRequest):
            return FoldCounts(counts=calibration_counts(rows), sums=sums)
        return Curvature(sums=sums)

    def scored(self, number: int, model: Model | None) -> ScoredRows:
        """The rows a client's policy is made from: all of them, or those the model was not trained on."""
        rows = self.rows[number]
        if self.plan.training is None:
            assert rows.scores is not None
            return ScoredRows(rows.scores, rows.groups, rows.labels, rows.weights)
        if model is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        held_out = ~self._trained_on(number, self.plan.training)
        assert rows.features is not None
        scores = expit(_design(rows.features[held_out], model) @ model.parameters)
        labels = None if rows.labels is None else rows.labels[held_out]
        return ScoredRows(scores, rows.groups[held_out], labels, None)

    def _dealt(self, number: int, model: Model | None) -> OwnRows:
        """A client's rows dealt into calibration folds, the same in every message."""
        scored = self.scored(number, model)
        return deal_rows(
            self.plan.calibration,
            scored.scores,
            scored.labels,
            scored.groups,
            n_groups=len(self.plan.groups),
            weights=scored.weights,
            folds=self.plan.folds,
            rng=_client_rng(self.plan, self.sites[number], "folds"),
        )

    def _for_prior(self, number: int, request: Any, model: Model | None) -> Sums:
        """Answer a request of the pooling."""
        rows = self._for_pooling(number, model)
        if isinstance(request, PriorRequest):
            choice = pooling.Choice.of(request.kind, request.kappa)
            return PriorSums(**vars(pooling.prior_sums(rows, choice, request.rule)))
        rows = rows.dealt(self.plan.folds, _client_rng(self.plan, self.sites[number], "pooling folds"))
        if isinstance(request, ScoreMomentsRequest):
            losses = self._strength_losses(number, request.maps, model)
            size = np.array([float(rows.odds.size)])
            return ScoreMoments(**vars(pooling.score_moments(rows)), losses=losses, rows=size)
        if isinstance(request, ShiftMomentsRequest):
            return ShiftMoments(sums=pooling.shift_moments(rows, request.reference))
        known = request.reference, request.between
        if isinstance(request, FoldHistogramsRequest):
            return FoldHistograms(mass=pooling.fold_histograms(rows, *known))
        return CandidateErrors(**vars(pooling.candidate_errors(rows, *known, request.priors)))

    def _for_pooling(self, number: int, model: Model | None) -> pooling.ScoredRows:
        """A client's rows as pooling sees them."""
        rows = self.scored(number, model)
        return pooling.ScoredRows.of(rows.scores, rows.groups, rows.weights, len(self.plan.groups), 1)

    def _strength_losses(self, number: int, maps: GroupMaps | None, model: Model | None) -> Floats:
        if self.plan.calibration == "none":
            return np.zeros((0, self.plan.folds))
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        return strength_losses(self._dealt(number, model), maps, pooling.STRENGTHS["auto"])

    def borrowing(
        self, number: int, own: Chances, model: Model | None, priors: pooling.GroupPriors
    ) -> tuple[Chances, pooling.Borrowed]:
        """A client's rows together with what its cells borrow."""
        borrowed = pooling.borrow(self._for_pooling(number, model), priors)
        return Chances(with_borrowed(own.rows, borrowed, own.calibrator), own.calibrator), borrowed

    def releases(self, made: tuple[Release, ...]) -> tuple[Release, ...]:
        """Each client's noised histogram, made once: where one was made before, it is that one."""
        privacy, groups = self.plan.privacy, len(self.plan.groups)
        if privacy is None or made:
            return made
        return tuple(release(rows.scores, rows.groups, n_groups=groups, privacy=privacy) for rows in self.rows)

    def chances(self, model: Model | None, maps: GroupMaps | None, made: tuple[Release, ...]) -> tuple[Chances, ...]:
        """Every client's rows as they count: the scores themselves, calibrated chances, or a noised histogram."""
        none = Calibrator("none", len(self.plan.groups), 1, None)
        if self.plan.privacy is not None:
            tables = (each.rows() for each in made)
            noised = [ScoredRows(middle, codes, None, counts) for middle, codes, counts in tables]
            return tuple(Chances(self._columns(number, each), none) for number, each in enumerate(noised))
        every = [self.scored(number, model) for number in range(len(self.rows))]
        if self.plan.calibration == "none":
            return tuple(Chances(self._columns(number, each), none) for number, each in enumerate(every))
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        return tuple(self._calibrated(number, each, model, maps) for number, each in enumerate(every))

    def _columns(self, number: int, rows: ScoredRows) -> CalibrationRows:
        """A client's rows under the names of the plan."""
        client = Codes((self.sites[number],), np.zeros(rows.groups.size, dtype=np.int32))
        return CalibrationRows(rows.scores, rows.labels, Codes(self.plan.groups, rows.groups), client, rows.weights)

    def _calibrated(self, number: int, scored: ScoredRows, model: Model | None, maps: GroupMaps) -> Chances:
        dealt, rows = self._dealt(number, model), self._columns(number, scored)
        fit = cell_calibrators(dealt, maps)
        return Chances(with_chances(rows, fit.calibrator, fit.eta, rows.clients.codes, dealt.by_score), fit.calibrator)

    def _trained_on(self, number: int, training: Training) -> Booleans:
        return _trained_on(self.rows[number].groups.size, self.plan, self.sites[number], training)

    def _moments(self, number: int) -> Moments:
        training, rows = self.plan.training, self.rows[number]
        if training is None or rows.features is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        table = rows.features[self._trained_on(number, training)]
        mass = np.array([float(len(table))])
        return Moments(mass=mass, first=table.sum(axis=0), second=np.sum(table**2, axis=0))

    def _update(self, number: int, request: UpdateRequest) -> Update:
        training, rows = self.plan.training, self.rows[number]
        if training is None or rows.features is None or rows.labels is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        chosen = self._trained_on(number, training)
        schedule = Schedule(training.local_epochs, training.learning_rate, training.batch_size)
        rng = _client_rng(self.plan, self.sites[number], f"training round {request.round}")
        design = _design(rows.features[chosen], request.model)
        after = train_locally(design, rows.labels[chosen], request.model.parameters, schedule, rng)
        mass = float(chosen.sum())
        return Update(mass=np.array([mass]), parameters=mass * after)


def _trained_on(n: int, plan: Plan, site: str, training: Training) -> Booleans:
    """Which of a site's n rows train the model: a fixed random share, at least one and not all."""
    order = _client_rng(plan, site, "training rows").permutation(n)
    return np.asarray(order < min(max(round(training.share * n), 1), max(n - 1, 1)))


def _counted(rows: SiteRows, plan: Plan, site: str) -> SiteRows:
    """A site's rows without the groups that have fewer than the plan's smallest cell.

    Where a model is trained, those that make the policy must be enough, and who they are depends on how many rows
    there are: groups leave until all that stay are large enough. What leaves trains no model either, or the number of
    training rows would tell how many others there are.
    """
    if plan.smallest_cell == 1:
        return rows
    while True:
        counts = np.ones(rows.groups.size, dtype=bool) if rows.weights is None else rows.weights > 0
        if plan.training is not None:
            counts = counts & ~_trained_on(rows.groups.size, plan, site, plan.training)
        size = np.bincount(rows.groups[counts], minlength=len(plan.groups))
        stay = size[rows.groups] >= plan.smallest_cell
        if stay.all():
            return rows
        rows = rows.at(stay)


def _client_rng(plan: Plan, site: str, purpose: str) -> np.random.Generator:
    """Randomness of one site for one purpose: the same in every process and at every call."""
    digest = hashlib.sha256(f"{plan.random_state}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _design(features: Floats, model: Model) -> Floats:
    scaled = (features - model.mean) / model.deviation
    return np.column_stack([scaled, np.ones(len(scaled))])
