"""Other libraries' rules at several tolerances: Fairlearn, error-parity and OxonFair, asked for chances of acceptance.

Each is fitted to calibration rows and asked about test rows; where it tosses coins, the chances before the toss are
taken. Fairlearn and OxonFair come with ``logofair[bench]``. error-parity pins numpy below 2 and an old cvxpy, though it
runs with new ones: ``pip install 'logofair[bench,bounds]'`` and then ``pip install --no-deps error-parity ecos``.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.peers import GivenScores
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices

__all__ = ["PEERS", "Rows", "installed"]

DP = "demographic_parity"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one client: scores, labels and numbers of groups from 0, each (n,)."""

    scores: Floats
    labels: Indices
    groups: Indices


Frontier = Callable[[Rows, Rows, str, Sequence[float]], list[Floats]]  # calibration and test rows, notion, tolerances


def by_fairlearn(known: Rows, test: Rows, notion: str, tolerances: Sequence[float]) -> list[Floats]:
    """ThresholdOptimizer; it has no tolerance for equalized odds: its one rule there is mixed with score >= 1/2.

    The mixture at a tolerance follows its rule as often as keeps the tolerance on the calibration rows.
    """
    from fairlearn.postprocessing import ThresholdOptimizer

    def fitted(tol: float | None) -> Any:
        rule = ThresholdOptimizer(
            estimator=GivenScores(), constraints=notion, predict_method="predict_proba", prefit=True, tol=tol
        )
        return rule.fit(known.scores[:, None], known.labels, sensitive_features=known.groups)

    def chances(rule: Any, rows: Rows) -> Floats:
        found: Floats = rule._pmf_predict(rows.scores[:, None], sensitive_features=rows.groups)[:, 1]
        return found

    if notion == DP:
        return [chances(fitted(tolerance or None), test) for tolerance in tolerances]
    rule = fitted(None)
    most = gap(known.scores >= 0.5, known, notion)
    shares = [min(1.0, tolerance / most) if most > 0.0 else 1.0 for tolerance in tolerances]
    return [share * (test.scores >= 0.5) + (1.0 - share) * chances(rule, test) for share in shares]


def by_error_parity(known: Rows, test: Rows, notion: str, tolerances: Sequence[float]) -> list[Floats]:
    """RelaxedThresholdOptimizer, which has both notions with a tolerance."""
    from error_parity import RelaxedThresholdOptimizer

    found = []
    for tolerance in tolerances:
        rule = RelaxedThresholdOptimizer(predictor=np.ravel, constraint=notion, tolerance=tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its solver is deprecated
            rule.fit(known.scores, known.labels, group=known.groups, y_scores=known.scores)
        found.append(error_parity_chances(rule, test))
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


def by_oxonfair(known: Rows, test: Rows, notion: str, tolerances: Sequence[float]) -> list[Floats]:
    """FairPredictor by its grid over one threshold per group, with the largest gap and not the mean as constraint."""
    import oxonfair

    logging.getLogger("oxonfair").setLevel(logging.ERROR)
    metrics = oxonfair.group_metrics
    largest = metrics.pos_pred_rate.max_diff if notion == DP else metrics.equalized_odds_max
    rule = oxonfair.FairPredictor(None, for_oxonfair(known), threshold=0)
    found: list[Floats] = []
    for tolerance in tolerances:
        rule.fit(metrics.accuracy, largest, tolerance, recompute=not found)
        found.append(np.asarray(rule.predict(for_oxonfair(test)), dtype=float))
    return found


def for_oxonfair(rows: Rows) -> dict[str, Any]:
    """Rows as FairPredictor takes them."""
    return {
        "data": np.column_stack([1.0 - rows.scores, rows.scores]),
        "target": rows.labels,
        "groups": rows.groups,
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
