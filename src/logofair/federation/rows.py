"""Rows of the sites of a batch, from their columns to calibrated cells: checks, calibration, pooling, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from logofair.calibration.federated import ROWS_AT_ONCE, FoldedRows, GroupMaps, cell_calibrators, fold_rows
from logofair.calibration.maps import Calibrator, log_odds
from logofair.columns.attributes import known_groups
from logofair.columns.cells import Cells
from logofair.columns.checks import (
    binary,
    not_empty,
    probabilities,
    same_length,
    same_order,
    weights,
)
from logofair.columns.labels import Codes
from logofair.errors import InputError, RefusedError
from logofair.federation.exchange import Refusal
from logofair.federation.plan import Plan
from logofair.federation.privacy import Release, release
from logofair.fitting import pooling
from logofair.fitting.solving import CalibrationRows, cells_with_borrowed, with_chances


@dataclass(frozen=True, eq=False)
class SiteColumns:
    """A site's columns as they come from a file or from arrays; what the plan does not need may be None.

    Examples
    --------
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M"], scores=[0.9, 0.3, 0.6])
    >>> rows.labels is None
    True
    """

    sensitive_features: object
    scores: object
    labels: object = None
    sample_weight: object = None


def joined(parts: Sequence[CalibrationRows], sites: tuple[str, ...]) -> CalibrationRows:
    """The rows of several sites of these names, one site after the other."""
    sizes = [part.scores.size for part in parts]
    filled = [np.ones(part.scores.size) if part.weights is None else part.weights for part in parts]
    labels = [part.labels for part in parts if part.labels is not None]
    return CalibrationRows(
        np.concatenate([part.scores for part in parts]),
        np.concatenate(labels) if len(labels) == len(parts) else None,
        Codes(parts[0].groups.names, np.concatenate([part.groups.codes for part in parts])),
        Codes(sites, np.repeat(np.arange(len(parts), dtype=np.int32), sizes)),
        None if all(part.weights is None for part in parts) else np.concatenate(filled),
    )


def of_sites(rows: CalibrationRows, first: int, last: int) -> CalibrationRows:
    """The rows of the sites from number ``first`` up to, not with, ``last``, numbered from 0 again."""
    some = rows.at(slice(*np.searchsorted(rows.sites.codes, [first, last])))
    return replace(some, sites=Codes(rows.sites.names[first:last], some.sites.codes - np.int32(first)))


def site_rows(columns: SiteColumns, plan: Plan) -> CalibrationRows:
    """Check a site's columns against the plan."""
    same_order(
        sensitive_features=columns.sensitive_features,
        scores=columns.scores,
        labels=columns.labels,
        sample_weight=columns.sample_weight,
    )
    group = known_groups(columns.sensitive_features, plan.groups)
    not_empty(group.size, "sensitive_features")
    if group.min() < 0:
        row = int(np.argmin(group))
        raise RefusedError(
            Refusal.UNKNOWN_GROUP,
            f"sensitive_features: row {row} is of a group that is not in the plan "
            f"({', '.join(map(repr, plan.groups))}); drop such rows, or agree on a plan that names it.",
        )
    if plan.calibration != "none" and columns.labels is None:
        raise RefusedError(Refusal.NO_LABELS, "labels: missing, but the plan calibrates; name their column.")
    score = probabilities(columns.scores)
    label = None if columns.labels is None else binary(columns.labels)
    same_length(group.size, scores=score, labels=label)
    weight = weights(columns.sample_weight, group.size, "sample_weight")
    if weight is not None and plan.privacy is not None:
        raise InputError("sample_weight: rows cannot be weighted with differential privacy; leave it out.")
    sites = Codes((None,), np.zeros(group.size, dtype=np.int32))  # whose name is for the batch
    return CalibrationRows(score, label, Codes(plan.groups, group), sites, weight)


class Chances(NamedTuple):
    """Rows with their calibrated chances, and the calibrator for new rows."""

    rows: CalibrationRows
    calibrator: Calibrator


@dataclass(frozen=True, eq=False)
class Preparation:
    """What each site does with its own rows before there are cells: folds, calibration, pooling, noise."""

    rows: CalibrationRows  # those that count
    plan: Plan
    sites: tuple[str, ...]

    @classmethod
    def of(cls, parts: Sequence[CalibrationRows], plan: Plan, sites: tuple[str, ...]) -> Preparation:
        """Rows count in groups with at least the plan's smallest cell of rows at their site."""
        rows = joined(parts, sites)
        cells = rows.cells
        there = np.bincount(cells, None if rows.weights is None else rows.weights > 0)
        stay = there[cells] >= plan.smallest_cell
        return cls(rows if plan.smallest_cell == 1 or stay.all() else rows.at(stay), plan, sites)

    @property
    def shape(self) -> tuple[int, int]:
        """How many sites there are, and groups."""
        return len(self.sites), len(self.plan.groups)

    @cached_property
    def folded(self) -> Sequence[FoldedRows]:
        """The rows in calibration folds, the same in every exchange; some sites at a time, to bound the memory."""
        ends = np.bincount(self.rows.sites.codes, minlength=len(self.sites)).cumsum() * (self.plan.folds + 1)
        bounds = np.flatnonzero(np.diff(ends // ROWS_AT_ONCE)) + 1
        folded = []
        for first, last in pairwise([0, *bounds.tolist(), len(self.sites)]):
            own = of_sites(self.rows, first, last)
            assert own.labels is not None  # which a plan that calibrates asks for
            rngs = [_site_rng(self.plan, site, "folds") for site in self.sites[first:last]]
            folded.append(fold_rows(self.plan.calibration, own, rngs, self.plan.folds))
        return folded

    def pooled_rows(self, *, in_folds: bool) -> Iterator[pooling.ScoredRows]:
        """The rows of one site after the other as pooling takes them, in random folds if asked."""
        for number, site in enumerate(self.sites):
            rows = _scored(of_sites(self.rows, number, number + 1))
            yield rows.in_folds(self.plan.folds, _site_rng(self.plan, site, "pooling folds")) if in_folds else rows

    def borrowing(
        self, own: Chances, priors: pooling.GroupPriors, *, fill: bool = False
    ) -> tuple[Cells, pooling.Borrowed]:
        """Cells of the rows and of what they borrow, and what that is; ``fill``: cells without rows borrow one row."""
        rows = _scored(self.rows)
        mass = rows.mass[-1]
        borrowed = pooling.borrow(rows, priors, np.where(mass == 0, 1.0, mass) if fill else mass)
        return cells_with_borrowed(own.rows, borrowed, own.calibrator), borrowed

    def releases(self, made: tuple[Release, ...]) -> tuple[Release, ...]:
        """Each site's noised histogram, released once: those ``made`` before are taken as they are."""
        privacy, groups = self.plan.privacy, len(self.plan.groups)
        if privacy is None or made:
            return made
        own = (of_sites(self.rows, site, site + 1) for site in range(len(self.sites)))
        return tuple(release(rows.scores, rows.groups.codes, n_groups=groups, privacy=privacy) for rows in own)

    def chances(self, maps: GroupMaps | None, made: tuple[Release, ...]) -> Chances:
        """The rows with their chances: the scores themselves, cross-fitted ones, or those of noised histograms."""
        plan, rows = self.plan, self.rows if self.plan.privacy is None else self.noised(made)
        if plan.privacy is not None or plan.calibration == "none":
            return Chances(rows, Calibrator("none", len(plan.groups), len(self.sites), None))
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        fits = [cell_calibrators(each, maps) for each in self.folded]
        calibrator = Calibrator.joined([fit.calibrator for fit in fits])
        eta, order = np.concatenate([fit.eta for fit in fits]), rows.order()
        return Chances(with_chances(rows, calibrator, order, partial(np.take, eta, order.rows)), calibrator)

    def noised(self, made: tuple[Release, ...]) -> CalibrationRows:
        """The sites' noised histograms as rows: one per bin, weighted by its count."""
        parts = []
        for middle, codes, counts in (each.rows() for each in made):
            groups, sites = Codes(self.plan.groups, codes), Codes((None,), 0 * codes)
            parts.append(CalibrationRows(middle, None, groups, sites, counts))
        return joined(parts, self.sites)


def _scored(rows: CalibrationRows) -> pooling.ScoredRows:
    """Rows as pooling takes them."""
    sites, groups = rows.shape
    return pooling.ScoredRows(log_odds(rows.scores), rows.cells, rows.weights, groups, sites)


def _site_rng(plan: Plan, site: str, purpose: str) -> np.random.Generator:
    """Randomness of one site for one purpose: the same in every process and at every call."""
    digest = hashlib.sha256(f"{plan.random_state}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
