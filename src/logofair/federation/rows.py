"""Rows of the sites of a batch, from their columns to calibrated cells: checks, calibration, pooling, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from logofair.calibration import Calibrator
from logofair.calibration.federated import ROWS_AT_ONCE, FoldedRows, GroupMaps, cell_calibrators, fold_rows
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
from logofair.columns.segments import cell_numbers
from logofair.errors import InputError, RefusedError
from logofair.federation.exchange import Refusal
from logofair.federation.plan import Plan
from logofair.federation.privacy import Release, release
from logofair.fitting import pooling
from logofair.fitting.solving import CalibrationRows, cells_with_borrowed, order_by_cell, with_chances


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


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site's rows after checking."""

    groups: Integers
    scores: Floats
    labels: Binary | None
    weights: Floats | None


def site_rows(columns: SiteColumns, plan: Plan) -> SiteRows:
    """Check a site's columns against the plan."""
    same_order(
        sensitive_features=columns.sensitive_features,
        scores=columns.scores,
        labels=columns.labels,
        sample_weight=columns.sample_weight,
    )
    group = encode_known(columns.sensitive_features, plan.groups, "sensitive_features")
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
    return SiteRows(group, score, label, weight)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of several sites, one site after the other; sites are numbered."""

    scores: Floats
    groups: Integers
    sites: Integers
    labels: Binary | None
    weights: Floats | None

    @classmethod
    def joined(cls, parts: Sequence[tuple[Floats, Integers, Binary | None, Floats | None]]) -> ScoredRows:
        """Join the scores, groups, labels and weights of every site."""
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

    def of_sites(self, first: int, last: int) -> ScoredRows:
        """The rows of the sites from number ``first`` up to, not with, ``last``, numbered from 0 again."""
        low, high = np.searchsorted(self.sites, [first, last])
        labels = None if self.labels is None else self.labels[low:high]
        weights = None if self.weights is None else self.weights[low:high]
        sites = self.sites[low:high] - np.int32(first)
        return ScoredRows(self.scores[low:high], self.groups[low:high], sites, labels, weights)


@dataclass(frozen=True, eq=False)
class Chances:
    """Rows with their calibrated chances, and the calibrator for new rows."""

    rows: CalibrationRows
    calibrator: Calibrator


@dataclass(frozen=True, eq=False)
class Preparation:
    """What each site does with its own rows before there are cells: folds, calibration, pooling, noise."""

    rows: tuple[SiteRows, ...]
    plan: Plan
    sites: tuple[str, ...]

    @cached_property
    def scored(self) -> ScoredRows:
        """The rows of all sites, one site after the other."""
        return ScoredRows.joined([(rows.scores, rows.groups, rows.labels, rows.weights) for rows in self.rows])

    @cached_property
    def folded(self) -> Sequence[FoldedRows]:
        """The rows in calibration folds, the same in every exchange; some sites at a time, to bound the memory."""
        scored = self.scored
        ends = np.bincount(scored.sites, minlength=len(self.rows)).cumsum() * (self.plan.folds + 1)
        bounds = np.flatnonzero(np.diff(ends // ROWS_AT_ONCE)) + 1
        folded = []
        for first, last in pairwise([0, *bounds.tolist(), len(self.rows)]):
            some = scored.of_sites(first, last)
            own = fold_rows(
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
            folded.append(own)
        return folded

    def pooled_rows(self, *, in_folds: bool) -> Iterator[pooling.ScoredRows]:
        """The rows of one site after the other as pooling takes them, in random folds if asked."""
        for number, site in enumerate(self.sites):
            rows = self._for_pooling(self.scored.of_sites(number, number + 1), 1)
            yield rows.in_folds(self.plan.folds, _site_rng(self.plan, site, "pooling folds")) if in_folds else rows

    def _for_pooling(self, rows: ScoredRows, n_sites: int) -> pooling.ScoredRows:
        """Rows of some sites as pooling takes them."""
        n_groups = len(self.plan.groups)
        cells = cell_numbers(rows.groups, rows.sites, n_groups)
        return pooling.ScoredRows.of(rows.scores, cells, rows.weights, n_groups, n_sites)

    def borrowing(
        self, own: Chances, priors: pooling.GroupPriors, *, fill: bool = False
    ) -> tuple[Cells, pooling.Borrowed]:
        """Cells of the rows and of what they borrow, and what that is; ``fill``: cells without rows borrow one row."""
        rows = self._for_pooling(self.scored, len(self.rows))
        mass = rows.mass[-1]
        borrowed = pooling.borrow(rows, priors, np.where(mass == 0, 1.0, mass) if fill else mass)
        return cells_with_borrowed(own.rows, borrowed, own.calibrator), borrowed

    def releases(self, made: tuple[Release, ...]) -> tuple[Release, ...]:
        """Each site's noised histogram, released once: those ``made`` before are taken as they are."""
        privacy, groups = self.plan.privacy, len(self.plan.groups)
        if privacy is None or made:
            return made
        return tuple(release(rows.scores, rows.groups, n_groups=groups, privacy=privacy) for rows in self.rows)

    def chances(self, maps: GroupMaps | None, made: tuple[Release, ...]) -> Chances:
        """The rows with their chances: the scores themselves, cross-fitted ones, or those of noised histograms."""
        plan, scored = self.plan, self.scored if self.plan.privacy is None else self.noised(made)
        groups, sites = Codes(plan.groups, scored.groups), Codes(self.sites, scored.sites)
        rows = CalibrationRows(scored.scores, scored.labels, groups, sites, scored.weights)
        if plan.privacy is not None or plan.calibration == "none":
            return Chances(rows, Calibrator("none", len(plan.groups), len(self.rows), None))
        if maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        fits = [cell_calibrators(each, maps) for each in self.folded]
        calibrator = Calibrator.joined([fit.calibrator for fit in fits])
        eta, order = np.concatenate([fit.eta for fit in fits]), order_by_cell(rows)
        return Chances(with_chances(rows, calibrator, order, partial(np.take, eta, order.rows)), calibrator)

    def noised(self, made: tuple[Release, ...]) -> ScoredRows:
        """The sites' noised histograms as rows: one per bin, weighted by its count."""
        tables = (each.rows() for each in made)
        return ScoredRows.joined([(middle, codes, None, counts) for middle, codes, counts in tables])


def _site_rng(plan: Plan, site: str, purpose: str) -> np.random.Generator:
    """Randomness of one site for one purpose: the same in every process and at every call."""
    digest = hashlib.sha256(f"{plan.random_state}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
