"""Rows of people from bare codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from logofair.columns.labels import Codes
from logofair.columns.rows import Rows


def numbered(codes: Any, count: int) -> Codes:
    """Labels 0, 1, ... of so many kinds."""
    return Codes(tuple(range(count)), np.asarray(codes))


def rows_of(scores: Any, labels: Any, groups: Any, sites: Any, weights: Any = None, *, shape: tuple[int, int]) -> Rows:
    """Rows of groups and sites by number; ``shape`` says how many sites there are, and groups."""
    return Rows(scores, labels, numbered(groups, shape[1]), numbered(sites, shape[0]), weights)
