"""Calibration: from scores to chances, eta = P(Y = 1 | score, group, site).

The maps form a hierarchical model: every cell (a group at a site) has a map of its own, with its group's map as prior,
and the groups' prior is the map of all rows. The fewer rows a unit has, the more it shrinks to its prior. Where one
site has all rows its cells are the groups. Methods: "beta" (default), "platt" and "temperature" are logistic
regressions on features of the score, "isotonic" is a free nondecreasing curve, "none" takes the scores as they are.
"""

from __future__ import annotations

from logofair.calibration.calibrator import METHODS, STRENGTH, Calibrator, Sample, fit_calibrator
from logofair.calibration.crossfit import (
    CalibrationErrors,
    CrossFit,
    HeldOut,
    calibration_errors,
    cross_fit,
    isotonic_chances,
)

__all__ = [
    "METHODS",
    "STRENGTH",
    "CalibrationErrors",
    "Calibrator",
    "CrossFit",
    "HeldOut",
    "Sample",
    "calibration_errors",
    "cross_fit",
    "fit_calibrator",
    "isotonic_chances",
]
