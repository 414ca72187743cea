"""A client's rows on their way to cells: trained model, calibration and noise, each inside the client."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from logofair.calibration import Calibrator, rising_chances
from logofair.calibration.levels import cell_calibrators
from logofair.calibration.sums import OwnRows, Points, calibration_counts, calibration_sums, deal_rows
from logofair.columns.checks import Floats, Integers
from logofair.columns.order import RowOrder
from logofair.errors import RefusedError
from logofair.federation import messages as ask
from logofair.federation.messages import Curvature, FoldCounts, Model, Moments, Refusal, Sums, Update
from logofair.federation.plan import Plan, Training
from logofair.federation.privacy.release import Release, release
from logofair.federation.rows import SiteRows
from logofair.federation.state import ClientState
from logofair.training.logistic import train_locally
from logofair.training.schedule import Schedule

__all__ = ["Chances", "Preparation", "ScoredRows", "prepare"]


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

    def answer(self, request: Any, memory: ClientState) -> Sums:
        """Answer a request of the training or of the calibration."""
        parts = [self._one(number, request, memory) for number in range(len(self.rows))]
        return type(parts[0]).side_by_side(parts)

    def _one(self, number: int, request: Any, memory: ClientState) -> Sums:
        if isinstance(request, ask.MomentsRequest):
            return self._moments(number)
        if isinstance(request, ask.UpdateRequest):
            return self._update(number, request)
        rows = self.dealt(number, memory)
        sums = calibration_sums(rows, Points(request.at, request.live))
        if isinstance(request, ask.CountsRequest):
            return FoldCounts(counts=calibration_counts(rows), sums=sums)
        return Curvature(sums=sums)

    def scored(self, number: int, memory: ClientState) -> ScoredRows:
        """The rows a client's policy is made from: all of them, or those the model was not trained on."""
        rows = self.rows[number]
        if self.plan.training is None:
            assert rows.scores is not None
            return ScoredRows(rows.scores, rows.groups, rows.labels, rows.weights)
        if memory.model is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        held_out = ~self._trained_on(number, self.plan.training)
        assert rows.features is not None
        scores = expit(_design(rows.features[held_out], memory.model) @ memory.model.parameters)
        labels = None if rows.labels is None else rows.labels[held_out]
        return ScoredRows(scores, rows.groups[held_out], labels, None)

    def dealt(self, number: int, memory: ClientState) -> OwnRows:
        """A client's rows dealt into calibration folds, the same in every message."""
        scored = self.scored(number, memory)
        return deal_rows(
            self.plan.calibration,
            scored.scores,
            scored.labels,
            scored.groups,
            n_groups=len(self.plan.groups),
            weights=scored.weights,
            folds=self.plan.folds,
            rng=own_random(self.plan, self.sites[number], "folds"),
        )

    def releases(self, memory: ClientState) -> tuple[Release, ...]:
        """Each client's noised histogram, made once: asked again, it is the one remembered."""
        privacy = self.plan.privacy
        if privacy is None or memory.releases:
            return memory.releases
        every = [self.scored(number, memory) for number in range(len(self.rows))]
        groups = len(self.plan.groups)
        return tuple(release(each.scores, each.groups, n_groups=groups, privacy=privacy) for each in every)

    def _trained_on(self, number: int, training: Training) -> Any:
        """Which of a client's rows train the model: a fixed random share, at least one and not all."""
        n = self.rows[number].groups.size
        order = own_random(self.plan, self.sites[number], "training rows").permutation(n)
        return order < min(max(round(training.share * n), 1), max(n - 1, 1))

    def _moments(self, number: int) -> Moments:
        training, rows = self.plan.training, self.rows[number]
        if training is None or rows.features is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        table = rows.features[self._trained_on(number, training)]
        mass = np.array([float(len(table))])
        return Moments(mass=mass, first=table.sum(axis=0), second=np.sum(table**2, axis=0))

    def _update(self, number: int, request: ask.UpdateRequest) -> Update:
        training, rows = self.plan.training, self.rows[number]
        if training is None or rows.features is None or rows.labels is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        chosen = self._trained_on(number, training)
        schedule = Schedule(training.local_epochs, training.learning_rate, training.batch_size)
        rng = own_random(self.plan, self.sites[number], f"training round {request.round}")
        design = _design(rows.features[chosen], request.model)
        after = train_locally(design, rows.labels[chosen], request.model.parameters, schedule, rng)
        mass = float(chosen.sum())
        return Update(mass=np.array([mass]), parameters=mass * after)


def prepare(bench: Preparation, memory: ClientState) -> tuple[Chances, ...]:
    """Every client's rows as they count: the scores themselves, calibrated chances, or a noised histogram."""
    plan, groups = bench.plan, len(bench.plan.groups)
    none = Calibrator("none", groups, 1, None)
    if plan.privacy is not None:
        tables = (each.rows() for each in memory.releases)
        return tuple(Chances(codes, counts, middle, middle, none) for middle, codes, counts in tables)
    every = [bench.scored(number, memory) for number in range(len(bench.rows))]
    if plan.calibration == "none":
        return tuple(Chances(each.groups, each.weights, each.scores, each.scores, none) for each in every)
    assert memory.maps is not None
    fits = [cell_calibrators(bench.dealt(number, memory), memory.maps) for number in range(len(every))]
    prepared = []
    for each, fit in zip(every, fits, strict=True):
        calibrated = fit.calibrator(each.scores, each.groups, np.zeros_like(each.groups))
        order = RowOrder.of(calibrated, each.groups, groups)
        eta = rising_chances(order, calibrated, fit.eta, each.weights)
        prepared.append(Chances(each.groups, each.weights, calibrated, eta, fit.calibrator))
    return tuple(prepared)


def own_random(plan: Plan, site: str, purpose: str) -> np.random.Generator:
    """Randomness of one site for one purpose: the same wherever and however often it is asked for."""
    seed = hashlib.sha256(f"{plan.seed}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(seed[:16], "big"))


def _design(features: Floats, model: Model) -> Floats:
    scaled = (features - model.mean) / model.spread
    return np.column_stack([scaled, np.ones(len(scaled))])
