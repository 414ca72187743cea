"""Rules at several tolerances: those of Fairlearn, error-parity and OxonFair, and ours, as chances of acceptance.

Each is fitted to calibration rows and can then be asked about any rows; where it tosses coins, the chances before the
toss are taken. Fairlearn and OxonFair come with ``logofair[bench]``. error-parity pins numpy below 2 and an old cvxpy,
though it runs with new ones: ``pip install 'logofair[bench]'`` and then ``pip install --no-deps error-parity ecos``, as
``make bench`` does.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

import logofair
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices

DP = "demographic_parity"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one site: scores, labels and numbers of groups from 0, each (n,)."""

    scores: Floats
    labels: Indices
    groups: Indices


Rule = Callable[[Rows], Floats]  # chances of acceptance
Frontier = Callable[[Rows, str, Sequence[float]], list[Rule]]  # fitted to rows: a notion, tolerances


class GivenScores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type information
    """A fitted model that hands its one feature back as the score."""

    classes_ = np.array([0, 1])

    def fit(self, features: Any, labels: Any) -> GivenScores:
        """Nothing to learn."""
        return self

    def predict_proba(self, features: Any) -> Floats:
        """Chances of both labels."""
        return np.column_stack([1 - features[:, 0], features[:, 0]])

    def predict(self, features: Any) -> Indices:
        """The likelier label."""
        return np.asarray(features[:, 0] >= 0.5, dtype=np.int64)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def ours(**options: Any) -> Frontier:
    """`logofair.fit` with these options, for one site."""

    def rules(known: Rows, notion: str, tolerances: Sequence[float]) -> list[Rule]:
        return [partial(_our_chances, fitted(known, notion, tolerance).policy) for tolerance in tolerances]

    def fitted(known: Rows, notion: str, tolerance: float) -> logofair.Solution:
        bounds: dict[str, Any] = {"local_tolerance": None, "global_tolerance": tolerance}
        return logofair.fit(
            known.scores, known.labels, sensitive_features=known.groups, notion=notion, **bounds, **options
        )

    return rules


def _our_chances(policy: logofair.Policy, rows: Rows) -> Floats:
    return policy.probabilities(rows.scores, sensitive_features=rows.groups)


def by_fairlearn(known: Rows, notion: str, tolerances: Sequence[float]) -> list[Rule]:
    """ThresholdOptimizer; it has no tolerance for equalized odds: its one rule there is mixed with score >= 1/2.

    The mixture at a tolerance follows its rule as often as keeps the tolerance on the calibration rows.
    """
    from fairlearn.postprocessing import ThresholdOptimizer

    def fitted(tol: float | None) -> Rule:
        rule = ThresholdOptimizer(
            estimator=GivenScores(), constraints=notion, predict_method="predict_proba", prefit=True, tol=tol
        )
        rule.fit(known.scores[:, None], known.labels, sensitive_features=known.groups)
        return lambda rows: np.asarray(rule._pmf_predict(rows.scores[:, None], sensitive_features=rows.groups)[:, 1])

    if notion == DP:
        return [fitted(tolerance or None) for tolerance in tolerances]
    fair, most = fitted(None), gap(known.scores >= 0.5, known, notion)

    def mixed(rows: Rows, share: float) -> Floats:
        return share * (rows.scores >= 0.5) + (1.0 - share) * fair(rows)

    shares = [min(1.0, tolerance / most) if most > 0.0 else 1.0 for tolerance in tolerances]
    return [partial(mixed, share=share) for share in shares]


def by_error_parity(known: Rows, notion: str, tolerances: Sequence[float]) -> list[Rule]:
    """RelaxedThresholdOptimizer, which has both notions with a tolerance."""
    from error_parity import RelaxedThresholdOptimizer

    found: list[Rule] = []
    for tolerance in tolerances:
        rule = RelaxedThresholdOptimizer(predictor=np.ravel, constraint=notion, tolerance=tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its solver is deprecated
            rule.fit(known.scores, known.labels, group=known.groups, y_scores=known.scores)
        found.append(partial(error_parity_chances, rule))
    return found


def error_parity_chances(rule: Any, rows: Rows) -> Floats:
    """Chances of acceptance of a fitted RelaxedThresholdOptimizer."""
    chance = np.zeros_like(rows.scores)
    for group, classifier in rule._realized_classifier.group_to_clf.items():
        mine = rows.groups == group
        chance[mine] = _chances_of(classifier, rows.scores[mine], float(rule.groupwise_roc_points[group][0]))
    return chance


def _chances_of(classifier: Any, scores: Floats, false_positive_rate: float) -> Floats:
    """Chance that one of error-parity's classifiers accepts: a threshold, or two mixed, or those with plain coins."""
    if not hasattr(classifier, "probabilities"):
        return np.asarray(classifier(scores), dtype=float)
    parts = [np.asarray(each(scores), dtype=float) for each in classifier.classifiers[:2]]
    parts += [np.full_like(scores, false_positive_rate)] * (len(classifier.classifiers) - 2)
    mixed: Floats = np.sum([p * part for p, part in zip(classifier.probabilities, parts, strict=True)], axis=0)
    return mixed


def by_oxonfair(known: Rows, notion: str, tolerances: Sequence[float]) -> list[Rule]:
    """FairPredictor by its grid over one threshold per group, with the largest gap and not the mean as constraint."""
    import oxonfair

    logging.getLogger("oxonfair").setLevel(logging.ERROR)
    metrics = oxonfair.group_metrics
    largest = metrics.pos_pred_rate.max_diff if notion == DP else metrics.equalized_odds_max
    rule = oxonfair.FairPredictor(None, for_oxonfair(known), threshold=0)
    found: list[Rule] = []
    for tolerance in tolerances:
        rule.fit(metrics.accuracy, largest, tolerance, recompute=not found)
        found.append(partial(_oxonfair_chances, copy.copy(rule)))  # the next tolerance moves its thresholds
    return found


def _oxonfair_chances(rule: Any, rows: Rows) -> Floats:
    return np.asarray(rule.predict(for_oxonfair(rows)), dtype=float)


def for_oxonfair(rows: Rows) -> dict[str, Any]:
    """Rows as FairPredictor takes them."""
    return {
        "data": np.column_stack([1.0 - rows.scores, rows.scores]),
        "target": rows.labels,
        "sensitive_features": rows.groups,
    }


PEERS: dict[str, tuple[str, Frontier]] = {
    "Fairlearn": ("fairlearn", by_fairlearn),
    "error-parity": ("error_parity", by_error_parity),
    "OxonFair": ("oxonfair", by_oxonfair),
}


def installed() -> dict[str, Frontier]:
    """The peers that can be asked here, by name."""
    return {name: ask for name, (module, ask) in PEERS.items() if find_spec(module) is not None}


def gap(accepted: Any, rows: Rows, notion: str) -> float:
    """Largest difference between groups' rates: of selection, or the larger of those given either label."""
    given = [np.ones(rows.labels.size, dtype=bool)] if notion == DP else [rows.labels == 1, rows.labels == 0]
    gaps = []
    for counted in given:
        group = rows.groups[counted]
        size = np.bincount(group)
        rates = np.bincount(group, weights=np.asarray(accepted, dtype=float)[counted])[size > 0] / size[size > 0]
        gaps.append(float(np.ptp(rates)))
    return max(gaps)


def accuracy(accepted: Any, rows: Rows) -> float:
    """Expected share of right decisions."""
    return float(np.mean(np.where(rows.labels == 1, accepted, 1.0 - np.asarray(accepted, dtype=float))))
