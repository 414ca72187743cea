"""The oracle: the best that any fair policy could do with given scores on given rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from logofair.auditing import Audit
from logofair.bounds.result import AccuracyBound
from logofair.fitting.fit import fit
from logofair.fitting.solution import Solution
from logofair.notions import NotionLike

__all__ = ["Oracle", "oracle"]


@dataclass(frozen=True, eq=False)
class Oracle(AccuracyBound):
    """What :func:`oracle` returns: a bound, not a method.

    Attributes
    ----------
    accuracy, bound : float
        As in :class:`AccuracyBound`, of weighted thresholds on the scores.
    audit : Audit
        Gaps and accuracy measured on the rows with their labels.
    solution : Solution
        The policy with its certificate, whose basis is ``"labels"``.

    Examples
    --------
    >>> found = oracle([0.9, 0.2, 0.7, 0.4], [1, 0, 0, 1], groups=["F", "F", "M", "M"], local_tolerance=0)
    >>> found.audit.global_gap, found.solution.certificate.basis
    (0.0, 'labels')
    """

    audit: Audit
    solution: Solution
    _of = "policy on these scores within these tolerances"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return super().as_dict() | {
            "requirements": self.solution.requirements.as_dict(),
            "audit": self.audit.as_dict(),
        }


def oracle(
    scores: object,
    labels: object,
    *,
    groups: object,
    clients: object = None,
    notion: NotionLike | Mapping[str, NotionLike] = "demographic_parity",
    local_tolerance: float | None = 0.02,
    global_tolerance: float | None = 0.02,
    sample_weight: object = None,
) -> Oracle:
    """Find the best weighted thresholds for these rows, with a look at their labels.

    Accuracy and every rate are counted with the labels of the rows on which the result is measured, and the thresholds
    of every client and group are chosen on those very rows. So this is a bound on what any thresholds could reach with
    these scores there, the line "best achievable" of a table, and no method: on other rows nothing follows.

    Parameters
    ----------
    scores : column of probabilities
        The classifier's scores; only their order inside each client and group matters.
    labels : column of 0 and 1
        The true labels of the same rows.
    groups, clients, notion, local_tolerance, global_tolerance, sample_weight
        As in :func:`logofair.fit`.

    Returns
    -------
    Oracle
        Its accuracy, the proof of it, and its audit on the rows.

    Raises
    ------
    InputError
        If some argument cannot be used.
    SolverError
        If no policy with a valid certificate was found.

    Examples
    --------
    Group F can be told apart without error, group M only backwards, which the oracle sees:

    >>> found = oracle([0.9, 0.2, 0.7, 0.4], [1, 0, 0, 1], groups=["F", "F", "M", "M"])
    >>> round(found.accuracy, 6)
    1.0
    """
    solution = fit(
        scores,
        labels,
        groups=groups,
        clients=clients,
        notion=notion,
        local_tolerance=local_tolerance,
        global_tolerance=global_tolerance,
        calibration="none",
        basis="labels",
        sample_weight=sample_weight,
        merged=False,
    )
    measured = solution.measured
    assert measured is not None  # fit refuses basis="labels" without labels
    assert measured.accuracy is not None
    return Oracle(measured.accuracy, min(1.0, solution.certificate.dual), measured, solution)
