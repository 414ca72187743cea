"""Post-processing on noised histograms: what a site that keeps its rows to itself sends in their place.

Every site's calibration rows become its histogram, with the noise of differential privacy or without, and the
federation is solved on these, which has the same optimum as the protocol's rounds. The noise is seeded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from logofair.columns.checks import Floats, Integers
from logofair.columns.labels import encode, encode_known
from logofair.federation.privacy import Privacy, Release, at_edges, histogram, release
from logofair.fitting.fit import fit
from logofair.policy.policy import Policy
from logofair_reproduction.experiments.experiment import Case
from logofair_reproduction.experiments.scores import SplitData

DELTA, BINS = 1e-6, 32


def private_chances(case: Case, rows: SplitData, scores: Floats, test_scores: Floats) -> tuple[Floats, dict[str, Any]]:
    """Chances of acceptance on the test rows by a policy made of histograms; ``case.level`` is epsilon, None: no noise.

    Also returns how the histograms were made. Scores are taken as chances, since calibrating them needs labels.
    """
    epsilon = case.level
    part, test = rows.rows("calibration"), rows.rows("test")
    groups, sites = encode(part.groups, "groups"), encode(part.sites, "sites")
    made = [
        _release(scores[own], groups.codes[own], len(groups.names), epsilon, (case.split.random_state, site))
        for site in range(len(sites.names))
        for own in [sites.codes == site]
    ]
    binned, code, weights = (np.concatenate(column) for column in zip(*(each.rows() for each in made), strict=True))
    policy = _policy(case, binned, code, np.repeat(np.arange(len(made)), len(groups.names) * BINS), weights)
    chances = policy.probabilities(
        test_scores,
        groups=encode_known(test.groups, groups.names, "groups"),
        sites=encode_known(test.sites, sites.names, "sites"),
        on_unknown="merged",
    )
    return chances, {"bins": BINS, "delta": DELTA, "noise": round(made[0].scale, 2)}


def _release(scores: Floats, groups: Integers, n_groups: int, epsilon: float | None, key: tuple[int, int]) -> Release:
    """One site's histogram, with its own noise where there is any."""
    if epsilon is None:
        counts = histogram(scores, groups, n_groups, BINS)
        return Release(counts, Privacy(1.0, DELTA, bins=BINS), np.inf, 0.0, 0.0, "no noise")
    stream = int(np.random.default_rng([*key, round(1000 * epsilon)]).integers(2**31))
    privacy = Privacy(epsilon, DELTA, bins=BINS)
    return release(scores, groups, n_groups=n_groups, privacy=privacy, random_state=stream)


def _policy(case: Case, scores: Floats, groups: Integers, sites: Integers, weights: Floats) -> Policy:
    """The exact policy on the histograms' midpoints, its thresholds moved to the edges of the bins."""
    policy = fit(
        scores,
        None,
        groups=groups,
        sites=sites,
        notion=case.notion,
        local_tolerance=case.local_tolerance,
        global_tolerance=case.global_tolerance,
        calibration="none",
        pooling="none",
        sample_weight=weights,
    ).policy
    if policy.merged is None:
        return policy
    return replace(policy, mixtures=at_edges(policy.mixtures, BINS), merged_rules=at_edges(policy.merged, BINS))
