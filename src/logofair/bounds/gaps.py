"""The bound with gaps: the best joint distribution whose rates agree, as a linear program.

The program of AGLFOP (Hamman and Dutta, ICLR 2024) with the gaps of a notion in place of mutual information. Its
variables are the shares accepted of every client, group and label: the oracle's problem with the label as the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.bounds.oracle import oracle
from logofair.bounds.result import AccuracyBound
from logofair.bounds.table import LabelTable
from logofair.columns.checks import Floats
from logofair.fitting.solution import Solution
from logofair.notions import NotionLike

__all__ = ["GapBound", "gap_bound"]


@dataclass(frozen=True, eq=False)
class GapBound(AccuracyBound):
    """What :func:`gap_bound` returns.

    Attributes
    ----------
    accuracy, bound : float
        As in :class:`AccuracyBound`.
    distribution : array of shape (clients, groups, 2, 2)
        Q(s, z, y, yhat): client, group, label, decision.
    table : LabelTable
        What it was found for, with the names of clients and groups.
    solution : Solution
        The core's solution with its certificate and its prices; its score is the label.

    Examples
    --------
    >>> from logofair.bounds import label_table
    >>> found = gap_bound(label_table([1, 1, 0, 0], groups=["F", "F", "M", "M"]), local_tolerance=0)
    >>> found.distribution.shape, found.optimality_gap <= 1e-6
    ((1, 2, 2, 2), True)
    >>> print(found.summary())
    No rule within these tolerances has an accuracy above 0.5000; 0.5000 is reached.
    """

    distribution: Floats
    table: LabelTable
    solution: Solution
    _of = "rule within these tolerances"

    @property
    def shares(self) -> Floats:
        """Share accepted of every client, group and label, (clients, groups, 2); 0 where there is nobody."""
        mass = self.table.mass
        return np.divide(self.distribution[..., 1], mass, out=np.zeros_like(mass), where=mass > 0)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        required = {"requirements": self.solution.requirements.as_dict()}
        return super().as_dict() | required | self.table.names() | {"distribution": self.distribution.tolist()}


def gap_bound(
    table: LabelTable,
    *,
    notion: NotionLike | Mapping[str, NotionLike] = "demographic_parity",
    local_tolerance: float | None = 0.02,
    global_tolerance: float | None = 0.02,
) -> GapBound:
    """Find the accuracy that no rule with these gaps can exceed, whatever its model.

    The decision may depend on the label itself, so the bound is loose for any given model: a notion that compares rates
    within a label, such as equalized odds, does not restrict it at all. :func:`logofair.bounds.oracle` is the tight
    bound for given scores.

    Parameters
    ----------
    table : LabelTable
        The shares of clients, groups and labels: :func:`logofair.bounds.label_table` counts them.
    notion, local_tolerance, global_tolerance
        As in :func:`logofair.fit`; None: that side is not constrained.

    Returns
    -------
    GapBound
        The bound, and the distribution that reaches it.

    Raises
    ------
    InputError
        If some argument cannot be used.
    SolverError
        If no distribution with a valid certificate was found.

    Examples
    --------
    Two groups that the label tells apart: with equal selection rates half of the decisions are wrong.

    >>> from logofair.bounds import label_table
    >>> round(gap_bound(label_table([1, 1, 0, 0], groups=["F", "F", "M", "M"]), local_tolerance=0).bound, 9)
    0.5
    """
    client, group, label = (place.ravel() for place in np.nonzero(table.mass > 0))
    scores = label.astype(np.float64)
    groups = [table.groups[place] for place in group]
    clients = None if table.clients == (None,) else [table.clients[place] for place in client]
    best = oracle(
        scores,
        label,
        groups=groups,
        clients=clients,
        notion=notion,
        local_tolerance=local_tolerance,
        global_tolerance=global_tolerance,
        sample_weight=table.mass[client, group, label],
    )
    shares = np.zeros_like(table.mass)
    shares[client, group, label] = best.solution.policy.probabilities(scores, groups=groups, clients=clients)
    return GapBound(table.accuracy(shares), best.bound, table.distribution(shares), table, best.solution)
