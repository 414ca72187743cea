"""Post-processing on noised histograms: what a site that keeps its rows to itself sends in their place.

Every site's calibration rows become its histogram, with the noise of differential privacy or without, and the
federation is solved on these, which has the same optimum as the protocol's rounds. The noise is seeded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers
from logofair.columns.labels import encode, encode_known
from logofair.federation.privacy import Privacy, at_edges, histogram, midpoints, release, without_negatives
from logofair.fitting.fit import fit
from logofair.policy.policy import Policy
from logofair_reproduction.experiments.experiment import Case
from logofair_reproduction.experiments.scores import SplitData

DELTA, BINS = 1e-6, 32


def private_chances(case: Case, rows: SplitData, scores: Floats, test_scores: Floats) -> tuple[Floats, dict[str, Any]]:
    """Chances of acceptance on the test rows by a policy made of histograms; ``case.level`` is epsilon, None: no noise.

    Also returns how the histograms were made. Scores are taken as chances, since calibrating them needs labels.
    """
    part, test = rows.rows("calibration"), rows.rows("test")
    groups, sites = encode(part.groups, "groups"), encode(part.sites, "sites")
    n_groups, n_sites = len(groups.names), len(sites.names)
    made = [
        _counts(scores[own], groups.codes[own], n_groups, case.level, (case.split.random_state, site))
        for site in range(n_sites)
        for own in [sites.codes == site]
    ]
    policy = _policy(
        case,
        scores=np.tile(midpoints(BINS), n_sites * n_groups),
        groups=np.tile(np.repeat(np.arange(n_groups), BINS), n_sites),
        sites=np.repeat(np.arange(n_sites), n_groups * BINS),
        weights=np.concatenate([counts.ravel() for counts, _ in made]).astype(np.float64),
    )
    chances = policy.probabilities(
        test_scores,
        groups=encode_known(test.groups, groups.names, "groups"),
        sites=encode_known(test.sites, sites.names, "sites"),
        on_unknown="merged",
    )
    return chances, {"bins": BINS, "delta": DELTA, "noise": round(made[0][1], 2)}


def _counts(
    scores: Floats, groups: Integers, n_groups: int, epsilon: float | None, key: tuple[int, int]
) -> tuple[npt.NDArray[np.integer[Any]], float]:
    """One site's histogram, whole counts from 0, and the standard deviation of the noise in it."""
    if epsilon is None:
        return histogram(scores, groups, n_groups, BINS), 0.0
    stream = int(np.random.default_rng([*key, round(1000 * epsilon)]).integers(2**31))
    privacy = Privacy(epsilon, DELTA, bins=BINS)
    noised = release(scores, groups, n_groups=n_groups, privacy=privacy, random_state=stream)
    return without_negatives(noised.counts), noised.scale


def _policy(case: Case, *, scores: Floats, groups: Integers, sites: Integers, weights: Floats) -> Policy:
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
