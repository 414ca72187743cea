"""The rules of a policy as bands of scores: who is accepted with which chance, at each site and of each group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.columns.checks import Floats, Label

if TYPE_CHECKING:
    from logofair.policy.policy import Policy

_HALVINGS = 60


@dataclass(frozen=True)
class Band:
    """Scores that have the same chance of acceptance, from ``low`` up to ``high``, on both scales.

    The outer bands begin at 0 and end at 1. Raw scores are as in the files the policy was made from, which may hold
    percentages or logits; otherwise, without calibration, both scales are the same.
    """

    low: float
    high: float
    chance: float
    raw_low: float
    raw_high: float


@dataclass(frozen=True)
class RuleRow:
    """The rule of one site and group, its bands from the lowest scores up."""

    site: Label | None
    group: Label
    bands: tuple[Band, ...]
    too_small: bool = False  # whether the group has too few rows at a federation's site to say: it is the merged rule


@dataclass(frozen=True, eq=False)
class RuleTable:
    """All rules of a policy, made row by row; printing it says the first 20 in words.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.2], None, sensitive_features=["a", "b"], calibration="none",
    ...     local_tolerance=None, global_tolerance=None)
    >>> print(solution.policy.rules)
    group   rule
    a       accepted from 0.5; rejected below 0.5
    b       accepted from 0.5; rejected below 0.5
    """

    policy: Policy

    def __len__(self) -> int:
        return len(self.policy.groups) * len(self.policy.sites)

    def __getitem__(self, number: int) -> RuleRow:
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        return self.of(*divmod(number % len(self), len(self.policy.groups)))

    def __iter__(self) -> Iterator[RuleRow]:
        return (self[number] for number in range(len(self)))

    def of(self, site: int, group: int) -> RuleRow:
        """The rule of a site and group by their numbers; site -1 stands for those that the policy does not know."""
        name = self.policy.groups[group]
        where = None if site < 0 else self.policy.sites[site]
        return RuleRow(where, name, bands_of(self.policy, site, group), str(name) in self.policy.too_small)

    def __str__(self) -> str:
        from logofair.words.explained import rules_text

        return rules_text(self.policy)

    __repr__ = __str__


def _raw_scores(policy: Policy, calibrated: Floats, groups: Any, sites: Any) -> Floats:
    """Return the raw score at which the calibrated one reaches each value; sites of code -1 are unknown ones.

    A higher raw score never has a lower calibrated one, so halving finds the place. Values that are not reached give 1.
    """
    groups, sites = np.asarray(groups, dtype=np.int32), np.asarray(sites, dtype=np.int32)
    groups = np.zeros_like(groups) if policy.looks_away else groups
    low, high = np.zeros_like(calibrated), np.ones_like(calibrated)
    at_once = policy.calibrator(low, groups, sites) >= calibrated
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reached = policy.calibrator(middle, groups, sites) >= calibrated
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.where(at_once, 0.0, high)


def in_files(chances: Floats, scale: str) -> Floats:
    """Return scores as files of this scale hold them; log-odds end where chances are 0 or 1 to the last bit."""
    if scale == "logit":
        inside = np.clip(chances, 2.0**-53, 1 - 2.0**-53)
        return np.asarray(np.log(inside / (1 - inside)))
    return 100.0 * chances if scale == "percent" else chances


def bands_of(policy: Policy, site: int, group: int) -> tuple[Band, ...]:
    """Return the bands of one site and group by their numbers, lowest first; site -1: those of unknown sites."""
    rules, cell = policy.mixtures, site * len(policy.groups) + group
    if site < 0:
        if policy.merged is None:
            return ()
        rules, cell = policy.merged, group
    mixtures = rules.shown
    threshold = mixtures.threshold[cell][mixtures.weight[cell] > 0]
    edges = np.concatenate(([0.0], np.unique(threshold[(threshold > 0) & (threshold < 1)]), [1.0]))
    middle = (edges[:-1] + edges[1:]) / 2
    chances = mixtures.chances(middle, np.full(middle.size, cell))
    differs = np.concatenate(([True], np.diff(chances) != 0))
    edges, chances = np.append(edges[:-1][differs], 1.0), chances[differs]
    raw = _raw_scores(policy, edges[1:-1], np.full(edges.size - 2, group), np.full(edges.size - 2, site))
    raw = np.concatenate(([0.0], raw, [1.0]))
    raw = in_files(raw, "chance" if policy.info.columns is None else policy.info.columns.scale)
    return tuple(
        Band(*(float(v) for v in (edges[i], edges[i + 1], chances[i], raw[i], raw[i + 1]))) for i in range(chances.size)
    )
