"""The rows of the cases: embedded (Adult, scored by a fixed formula) and generated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from logofair.datasets import load_adult


@dataclass(frozen=True)
class Columns:
    """Rows as a user has them; ``sites`` None: of one site, ``weight`` None: all count alike."""

    scores: Any
    labels: Any
    groups: Any
    sites: Any = None
    weight: Any = None

    def at(self, rows: Any) -> Columns:
        """Some of the rows."""
        return Columns(
            self.scores[rows],
            self.labels[rows],
            self.groups[rows],
            None if self.sites is None else self.sites[rows],
            None if self.weight is None else self.weight[rows],
        )


@cache
def columns(name: str) -> Columns:
    """The rows of a name that the cases use."""
    return _MADE[name]()


def _chance(log_odds: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-log_odds))


@cache
def _adult(sensitive: str) -> Columns:
    """All of Adult, dealt to five sites by age and education, scored by a formula that no training can change."""
    data = load_adult(sensitive)
    feature = {name: data.features[:, place] for place, name in enumerate(data.feature_names)}
    age, education, hours = (feature[name] for name in ("age", "education-num", "hours-per-week"))
    married = feature["marital-status=Married-civ-spouse"]
    log_odds = -6.2 + 4.6 * education + 2.0 * age + 1.7 * hours + 2.2 * married + 30.0 * feature["capital-gain"]
    place = (np.arange(age.size) * 7 + np.floor(age * 10).astype(int)) % 11 + np.floor(education * 4).astype(int)
    sites = np.array(["north", "east", "south", "west", "centre"])[np.digitize(place, [3, 6, 8, 11])]
    return Columns(_chance(log_odds), np.asarray(data.labels).astype(int), np.asarray(data.sensitive), sites)


def _every(rows: Columns, step: int) -> Columns:
    return rows.at(np.arange(0, rows.labels.size, step))


def _coarse() -> Columns:
    """Scores of two decimals, so that many people share one: rules then toss coins."""
    rows = _every(_adult("sex"), 9)
    return replace(rows, scores=np.round(rows.scores, 2))


def _by_race() -> Columns:
    """Five groups: everybody of the three small ones, a few of the others."""
    rows = _adult("race")
    large = np.isin(rows.groups, ["White", "Black"])
    return rows.at(~large | (np.arange(large.size) % 10 == 0))


def _weighted() -> Columns:
    rows = _every(_adult("sex"), 8)
    return replace(rows, weight=0.5 + 1.5 * ((np.arange(rows.labels.size) * 0.618033988749895) % 1.0))


def generated(rows: int, groups: int, sites: int, seed: int, decimals: int | None = None) -> Columns:
    """Rows drawn at random; later groups score higher, and sites differ."""
    rng = np.random.default_rng(seed)
    group, site = (np.floor(rng.random(rows) * many).astype(int) for many in (groups, sites))
    shift = 1.2 * group / max(groups - 1, 1) - 0.8 + 0.6 * np.sin(1.0 + site)
    scores = _chance(1.6 * (rng.random(rows) + rng.random(rows) - 1.0) * 2.0 + shift)
    labels = (rng.random(rows) < scores).astype(int)
    scores = scores if decimals is None else np.round(scores, decimals)
    return Columns(scores, labels, np.array([f"g{each}" for each in group]), np.array([f"s{each}" for each in site]))


def _empty_cells() -> Columns:
    """Twelve sites, some without a group, one with a single row."""
    rows = generated(900, 3, 12, seed=5)
    place = np.array([int(site[1:]) for site in rows.sites])
    group = np.array([int(each[1:]) for each in rows.groups])
    kept = (place % 3 != group) | (place > 5)
    kept[np.flatnonzero(place == 4)[1:]] = False
    return rows.at(kept)


_MADE = {
    "adult": lambda: _every(_adult("sex"), 8),
    "adult, other rows": lambda: _adult("sex").at(np.arange(3, 48842, 16)),
    "adult, one site": lambda: replace(_every(_adult("sex"), 8), sites=None),
    "adult, coarse": _coarse,
    "adult by race": _by_race,
    "adult, weighted": _weighted,
    "two sites": lambda: generated(1500, 2, 2, seed=1),
    "three groups": lambda: generated(2400, 3, 4, seed=2),
    "three groups, coarse": lambda: generated(1500, 3, 3, seed=3, decimals=2),
    "four groups": lambda: generated(3000, 4, 3, seed=4),
    "200 sites": lambda: generated(9000, 2, 200, seed=6),
    "empty cells": _empty_cells,
    "large": lambda: generated(24000, 2, 2, seed=7),
    "four sites": lambda: generated(1600, 2, 4, seed=8),
}
