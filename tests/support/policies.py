"""Policies made by hand: rules per cell, without calibration."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from logofair.calibration import Calibrator
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy


def mixtures_of(*cells: Sequence[tuple[float, float, bool]], single: Sequence[float] | None = None) -> Mixtures:
    """Rules (weight, threshold, above) per cell."""
    filled = [[*cell, *[(0.0, 0.0, True)] * (3 - len(cell))] for cell in cells]
    weight, threshold, above = (np.array([[rule[i] for rule in cell] for cell in filled]) for i in range(3))
    return Mixtures(weight, threshold, above, np.array(single if single is not None else [0.5] * len(cells)))


def policy_of(
    mixtures: Mixtures,
    groups: Sequence[Hashable] = ("a", "b"),
    sites: Sequence[Hashable] = (None,),
    merged: object = None,
    key: int = 0,
) -> Policy:
    calibrator = Calibrator("none", len(groups), len(sites), None)
    return Policy(tuple(groups), tuple(sites), mixtures, calibrator, merged, key)  # type: ignore[arg-type]
