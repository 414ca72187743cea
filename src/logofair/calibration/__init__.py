"""Calibration: from scores to chances, eta = P(Y = 1 | score, group, site).

Every cell (a group at a site) has a map of its own, which its group's map is the prior of, as that of all rows is of
the groups': the fewer rows, the nearer to the prior. The cells of a site that has all rows are the groups. Methods:
"beta" (default), "platt" and "temperature" are logistic regressions on features of the score, "isotonic" is a free
nondecreasing curve, "none" takes the scores as they are.
"""

from __future__ import annotations

from logofair.calibration.calibrator import METHODS, STRENGTH, Calibrator, Sample, fit_calibrator
from logofair.calibration.crossfit import (
    CalibrationErrors,
    CrossFit,
    HeldOut,
    calibration_errors,
    cross_fit,
    rising_chances,
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
    "rising_chances",
]
