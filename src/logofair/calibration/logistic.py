"""Logistic maps for all rows, every group and every cell, each level with the one above as its prior.

A level's parameters are the most probable ones under a Gaussian prior centred at the parent's, as sharp as
``strength`` rows of the parent: an empty cell has its group's map, a large one its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from logofair.calibration.newton import IDENTITY_ROWS, Maps, Normal, Units
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.errors import InputError
from logofair.records import checked

# Scores are moved into [EDGE, 1 - EDGE] before a logarithm is taken: those of 0 and 1 have infinite log-odds.
EDGE = 1e-6
# Parameters are rounded to so many binary digits behind the point, which moves no chance by more than 1e-10.
_BINARY_DIGITS = 36
# How many evenly spread scores stand for "a row" where no data has been seen yet.
_REFERENCE_SCORES = 1000


@dataclass(frozen=True)
class Family:
    """A logistic calibration map: its features, and the parameters under which it changes nothing."""

    features: Callable[[Floats], tuple[Floats, ...]]  # scores, (n,), to what varies with them, each (n,)
    intercept: bool  # whether a constant feature follows
    identity: tuple[float, ...]  # the parameters of the identity map
    smoothed: bool = False  # whether targets are Platt's, slightly inside 0 and 1, in place of the labels

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
        sums = (columns[:, None] * columns * (scores * (1.0 - scores))).sum(axis=2)
        # Rounded, since the last digits of logarithms differ between machines.
        return np.asarray(np.ldexp(np.rint(np.ldexp(sums / _REFERENCE_SCORES, 40)) + 0.0, -40))


def _beta_features(scores: Floats) -> tuple[Floats, ...]:
    inside = np.clip(scores, EDGE, 1.0 - EDGE)
    return np.log(inside), -np.log1p(-inside)


def log_odds(scores: Floats) -> Floats:
    """Log-odds of scores, which are kept off 0 and 1."""
    inside = np.clip(scores, EDGE, 1.0 - EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _logit_feature(scores: Floats) -> tuple[Floats, ...]:
    return (log_odds(scores),)


FAMILIES = {
    "beta": Family(_beta_features, intercept=True, identity=(1.0, 1.0, 0.0)),
    "platt": Family(_logit_feature, intercept=True, identity=(1.0, 0.0), smoothed=True),
    "temperature": Family(_logit_feature, intercept=False, identity=(1.0,)),
}


# Every prior has at least the information of this many rows of the parent and as many of the identity map. Otherwise an
# empty cell would have no parameters, and one whose parent is sure of every label would have none that are finite.
_FEWEST_ROWS = 1e-6


@dataclass(frozen=True, eq=False)
class LogisticMaps(Maps):
    """One logistic map per unit; ``parameters`` is (units, k), in the order of :class:`Units`."""

    method: str
    parameters: Floats

    @classmethod
    def of(cls, method: str, parameters: Floats) -> LogisticMaps:
        """Maps of fitted parameters, rounded: their last digits differ between machines, and files are shorter."""
        return cls(method, np.ldexp(np.rint(np.ldexp(parameters, _BINARY_DIGITS)) + 0.0, -_BINARY_DIGITS))

    def __call__(self, scores: Floats, unit: Indices, n_groups: int) -> Floats:
        """Eta of every row by its unit's map."""
        chosen = np.vstack([np.take(parameter, unit) for parameter in self.parameters.T])
        return np.asarray(expit(FAMILIES[self.method].margin(scores, chosen)))

    def check(self, units: Units) -> None:
        """Raise where these are not maps of such units."""
        if self.method not in FAMILIES:
            raise InputError(f"'method' must be one of {', '.join(FAMILIES)}, got {self.method!r}.")
        family = FAMILIES[self.method]
        checked(self.parameters, (units.size, len(family.identity)))
        if np.any(self.parameters[:, list(family.slopes)] < 0.0):
            raise InputError("'parameters' holds a negative slope, which would reverse the scores.")


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of a level of units, and its strength in rows."""

    family: Family
    normal: Normal
    rows: float

    @classmethod
    def on_identity(cls, family: Family) -> Prior:
        """The prior of all rows, centred at the identity map; one unit."""
        centre, information = np.array(family.identity)[:, None], family.reference_information()[:, :, None]
        return cls(family, gaussian_prior(family, centre, information, IDENTITY_ROWS), IDENTITY_ROWS)

    def of(self, units: Indices) -> Prior:
        """The prior of each unit of the next level, given the number of its parent."""
        return Prior(self.family, self.normal.of(units), self.rows)

    def on(self, level: Normal, seen: Floats, strength: float) -> Prior:
        """The prior of the next level, centred at this level's fitted units; ``seen`` are their rows, (units,)."""
        normal = gaussian_prior(self.family, level.centre, self.information(level, seen), strength)
        return Prior(self.family, normal, max(strength, _FEWEST_ROWS))

    def information(self, level: Normal, seen: Floats) -> Floats:
        """Fisher information of one row about each of these units' parameters."""
        # The prior's rows count as rows here: so a unit without any passes its parent's information on.
        return level.precision / (seen + self.rows)


def gaussian_prior(family: Family, centre: Floats, information: Floats, rows: float) -> Normal:
    """Gaussian priors, each with the information of this many rows."""
    precision = max(rows, _FEWEST_ROWS) * information + _FEWEST_ROWS * family.reference_information()[:, :, None]
    return Normal(centre, precision)


def platt_targets(negatives: Floats, positives: Floats) -> tuple[Floats, Floats]:
    """Platt's targets: 1/(N- + 2) for label 0 and (N+ + 1)/(N+ + 2) for label 1.

    The counts are those of all rows, on every level: his prior stands for knowing nothing, and groups and cells know
    their parent's map. A label without rows keeps itself as target.
    """
    low = np.where(negatives > 0.0, 1.0 / (negatives + 2.0), 0.0)
    high = np.where(positives > 0.0, (positives + 1.0) / (positives + 2.0), 1.0)
    return low, high


def with_targets(sums: Floats, point: Floats, shift: Floats) -> Floats:
    """Turn sums with labels as targets into sums with other targets: the difference is linear in the point."""
    sums = sums.copy()
    sums[0] += np.sum(shift * point, axis=0)
    sums[1 : 1 + len(shift)] += shift
    return sums
