"""Calibration: from scores to chances, eta = P(Y = 1 | score, group, site).

The maps form a hierarchical model: every cell (a group at a site) has a map of its own, with its group's map as prior,
and the groups' prior is the map of all rows. The fewer rows a unit has, the more it shrinks to its prior. Where one
site has all rows its cells are the groups. Methods: "beta" (default), "platt" and "temperature" are logistic
regressions on features of the score, "isotonic" is a free nondecreasing curve, "none" takes the scores as they are.
"""

from __future__ import annotations

from logofair.calibration.crossfit import (
    STRENGTH,
    CrossFit,
    HeldOut,
    cross_fit,
    fit_calibrator,
    isotonic_chances,
)
from logofair.calibration.maps import METHODS, Calibrator

__all__ = [
    "METHODS",
    "STRENGTH",
    "Calibrator",
    "CrossFit",
    "HeldOut",
    "cross_fit",
    "fit_calibrator",
    "isotonic_chances",
]
