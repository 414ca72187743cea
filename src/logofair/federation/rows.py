"""A client's rows, from its columns to what the solver counts: checks, trained model, calibration and noise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from logofair.calibration import Calibrator, rising_chances
from logofair.calibration.levels import GroupMaps, cell_calibrators
from logofair.calibration.sums import OwnRows, Points, calibration_counts, calibration_sums, deal_rows
from logofair.columns.checks import Floats, Integers, binary, matrix, not_empty, probabilities, same_length, weights
from logofair.columns.labels import encode_known
from logofair.columns.segments import RowOrder
from logofair.errors import InputError, RefusedError
from logofair.federation.plan import Plan, Training
from logofair.federation.privacy import Release, release
from logofair.federation.replies import Curvature, FoldCounts, Moments, Refusal, Sums, Update
from logofair.federation.requests import FoldCountsRequest, Model, MomentsRequest, UpdateRequest
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
    """The same rows as they count; ``calibrated`` is what the stored policy compares with its thresholds."""

    groups: Integers
    weights: Floats | None
    calibrated: Floats
    eta: Floats
    calibrator: Calibrator

    @property
    def weight(self) -> Floats:
        """Weight of each row."""
        return np.ones(self.groups.size) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class Preparation:
    """What each client does with its own rows before there are cells; the first axis of all sums counts clients."""

    rows: tuple[SiteRows, ...]
    plan: Plan
    sites: tuple[str, ...]

    def answer(self, request: Any, model: Model | None) -> Sums:
        """Answer a request of the training or of the calibration; ``model`` is the trained one, where there is one."""
        parts = [self._one(number, request, model) for number in range(len(self.rows))]
        return type(parts[0]).stacked(parts)

    def _one(self, number: int, request: Any, model: Model | None) -> Sums:
        if isinstance(request, MomentsRequest):
            return self._moments(number)
        if isinstance(request, UpdateRequest):
            return self._update(number, request)
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
            return tuple(Chances(codes, counts, middle, middle, none) for middle, codes, counts in tables)
        every = [self.scored(number, model) for number in range(len(self.rows))]
        if self.plan.calibration == "none":
            return tuple(Chances(each.groups, each.weights, each.scores, each.scores, none) for each in every)
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        return tuple(self._calibrated(number, each, model, maps) for number, each in enumerate(every))

    def _calibrated(self, number: int, rows: ScoredRows, model: Model | None, maps: GroupMaps) -> Chances:
        fit = cell_calibrators(self._dealt(number, model), maps)
        calibrated = fit.calibrator(rows.scores, rows.groups, np.zeros_like(rows.groups))
        order = RowOrder.of(calibrated, rows.groups, len(self.plan.groups))
        eta = rising_chances(order, calibrated, fit.eta, rows.weights)
        return Chances(rows.groups, rows.weights, calibrated, eta, fit.calibrator)

    def _trained_on(self, number: int, training: Training) -> Any:
        """Which of a client's rows train the model: a fixed random share, at least one and not all."""
        n = self.rows[number].groups.size
        order = _client_rng(self.plan, self.sites[number], "training rows").permutation(n)
        return order < min(max(round(training.share * n), 1), max(n - 1, 1))

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


def _client_rng(plan: Plan, site: str, purpose: str) -> np.random.Generator:
    """Randomness of one site for one purpose: the same in every process and at every call."""
    digest = hashlib.sha256(f"{plan.random_state}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _design(features: Floats, model: Model) -> Floats:
    scaled = (features - model.mean) / model.deviation
    return np.column_stack([scaled, np.ones(len(scaled))])
