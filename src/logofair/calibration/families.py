"""The parametric maps: logistic regressions on features of a score.

All are ``eta = sigmoid(sum_j parameter_j * feature_j(score))`` and differ in their features alone::

    beta          ln s, -ln(1 - s), 1      parameters a, b >= 0 and c       (Kull et al. 2017)
    platt         logit s, 1               slope >= 0 and intercept         (Platt 1999)
    temperature   logit s                  1 / T >= 0                       (Guo et al. 2017)

Slopes are never negative, so a higher score never gets a lower ``eta``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from logofair.inputs import Floats

__all__ = ["EDGE", "FAMILIES", "Family"]

# Scores are moved into [EDGE, 1 - EDGE] before a logarithm is taken: 0 and 1 have none.
EDGE = 1e-6
# How many evenly spread scores stand for "a row" where no data has been seen yet.
_REFERENCE_SCORES = 1000


@dataclass(frozen=True)
class Family:
    """A logistic calibration map: its features, and the parameters under which it changes nothing.

    Parameters
    ----------
    features : callable
        Scores, shape (n,), to the features that vary with them, each (n,).
    intercept : bool
        Whether a constant feature follows.
    identity : tuple of float
        The parameters of the identity map.
    smoothed : bool
        Whether targets are Platt's, slightly inside 0 and 1, in place of the labels.
    """

    features: Callable[[Floats], tuple[Floats, ...]]
    intercept: bool
    identity: tuple[float, ...]
    smoothed: bool = False

    @property
    def slopes(self) -> tuple[int, ...]:
        """The places of the parameters that must not be negative."""
        return tuple(range(len(self.identity) - self.intercept))

    def margin(self, scores: Floats, parameters: Floats) -> Floats:
        """Log-odds of label 1, (n,), from the scores, (n,), and each row's parameters, (k, n)."""
        # Summed column by column: a matrix product rounds differently for different numbers of rows.
        margin = parameters[-1].copy() if self.intercept else np.zeros_like(scores)
        for coefficient, column in zip(parameters[list(self.slopes)], self.features(scores), strict=True):
            margin += coefficient * column
        return margin

    def reference_information(self) -> Floats:
        """Fisher information about the parameters in one row, (k, k): evenly spread scores, identity map."""
        scores = (np.arange(_REFERENCE_SCORES) + 0.5) / _REFERENCE_SCORES
        columns = np.vstack([*self.features(scores), *[np.ones_like(scores)] * self.intercept])
        return np.asarray((columns * (scores * (1.0 - scores))) @ columns.T / _REFERENCE_SCORES)


def _beta_features(scores: Floats) -> tuple[Floats, ...]:
    inside = np.clip(scores, EDGE, 1.0 - EDGE)
    return np.log(inside), -np.log1p(-inside)


def _logit_feature(scores: Floats) -> tuple[Floats, ...]:
    inside = np.clip(scores, EDGE, 1.0 - EDGE)
    return (np.log(inside) - np.log1p(-inside),)


FAMILIES = {
    "beta": Family(_beta_features, intercept=True, identity=(1.0, 1.0, 0.0)),
    "platt": Family(_logit_feature, intercept=True, identity=(1.0, 0.0), smoothed=True),
    "temperature": Family(_logit_feature, intercept=False, identity=(1.0,)),
}
