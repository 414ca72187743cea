"""The oracle, the best any fair policy could do with given scores on given rows, and its like without scores.

The bound with gaps is the program of AGLFOP (Hamman and Dutta, ICLR 2024) with the gaps of a notion in place of mutual
information. Its variables are the shares accepted of every site, group and label: the oracle's problem with the label
as the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.auditing import Audit
from logofair.columns.checks import Floats
from logofair.fitting.fit import fit
from logofair.fitting.solution import Solution
from logofair_reproduction.bounds.table import LabelTable


@dataclass(frozen=True, eq=False)
class AccuracyBound:
    """An accuracy that is reached, and one that no rule of the kind exceeds.

    ``accuracy`` is that of the rule found, its coins counted by their chances; ``bound`` is at most 1e-6 above it.
    """

    accuracy: float
    bound: float


@dataclass(frozen=True, eq=False)
class Oracle(AccuracyBound):
    """What :func:`oracle` returns: ``audit`` measures the rows with their labels, ``solution`` has the policy."""

    audit: Audit
    solution: Solution


def oracle(
    scores: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    sample_weight: object = None,
    **required: Any,
) -> Oracle:
    """Find the best weighted thresholds for these rows, with a look at their labels.

    Accuracy and every rate are counted with the labels of the rows on which the result is measured, and the thresholds
    of every site and group are chosen on those very rows. So this is a bound on what any thresholds could reach with
    these scores there, the line "best achievable" of a table, and no method: on other rows nothing follows. Of
    ``scores`` only the order inside each site and group matters; the columns and what is ``required``, notion and
    tolerances, are as in :func:`logofair.fit`.

    Examples
    --------
    Group F can be told apart without error, group M only backwards, which the oracle sees:

    >>> found = oracle([0.9, 0.2, 0.7, 0.4], [1, 0, 0, 1], sensitive_features=["F", "F", "M", "M"], local_tolerance=0)
    >>> round(found.accuracy, 6), found.audit.global_gap
    (1.0, 0.0)
    """
    solution = fit(
        scores,
        labels,
        sensitive_features=sensitive_features,
        sites=sites,
        calibration="none",
        basis="labels",
        sample_weight=sample_weight,
        **required,
    )
    measured = solution.compared.second
    bound = solution.certificate.dual
    assert measured.accuracy is not None
    assert bound is not None
    return Oracle(measured.accuracy, min(1.0, bound), measured, solution)


@dataclass(frozen=True, eq=False)
class GapBound(AccuracyBound):
    """What :func:`gap_bound` returns.

    ``shares`` are the shares accepted of every site, group and label, (sites, groups, 2); ``solution`` has the
    certificate and the prices, with the label as the score.
    """

    shares: Floats
    solution: Solution


def gap_bound(table: LabelTable, **required: Any) -> GapBound:
    """Find the accuracy that no rule with these gaps can exceed, whatever its model.

    The decision may depend on the label itself, so the bound is loose for any given model: a notion that compares rates
    within a label, such as equalized odds, does not restrict it at all. :func:`oracle` is the tight
    bound for given scores.

    What is ``required``, notion and tolerances, is as in :func:`logofair.fit`.

    Examples
    --------
    Two groups that the label tells apart: with equal selection rates half of the decisions are wrong.

    >>> from logofair_reproduction.bounds import label_table
    >>> found = gap_bound(label_table([1, 1, 0, 0], sensitive_features=["F", "F", "M", "M"]), local_tolerance=0)
    >>> round(found.accuracy, 6), round(found.bound, 6)
    (0.5, 0.5)
    """
    site, group, label = (place.ravel() for place in np.nonzero(table.mass > 0))
    scores = label.astype(np.float64)
    groups = [table.groups[place] for place in group]
    sites = None if table.sites == (None,) else [table.sites[place] for place in site]
    weight = table.mass[site, group, label]
    best = oracle(scores, label, sensitive_features=groups, sites=sites, sample_weight=weight, **required)
    shares = np.zeros_like(table.mass)
    shares[site, group, label] = best.solution.policy.probabilities(scores, sensitive_features=groups, sites=sites)
    return GapBound(table.accuracy(shares), best.bound, shares, best.solution)
