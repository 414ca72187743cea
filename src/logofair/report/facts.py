"""All that the sections of a report draw on, gathered once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from logofair.report.figures import Measured, NewRows, measure_calibration, measure_new
from logofair.report.promised import Promised, promised_gaps
from logofair.report.provenance import Provenance
from logofair.report.verdict import Verdict, judge
from logofair.report.wording import name_of
from logofair.solution import Solution

if TYPE_CHECKING:
    from logofair.frontier import Frontier

__all__ = ["Facts", "gather"]

# Cells and clients whose rules and figures are listed one by one: several kilobytes each, and a page stays below 6 MB.
MOST_CELLS, MOST_CLIENTS = 2000, 600


@dataclass(frozen=True, eq=False)
class Facts:
    """A solution, what was measured of it, and where it comes from.

    ``listed`` are the clients shown one by one, largest gap before first; all of them unless they are very many.
    """

    solution: Solution
    provenance: Provenance
    calibration: Measured
    new: Measured | None
    inside: Promised
    across: Promised
    verdict: Verdict
    frontier: Frontier | None

    @property
    def has_clients(self) -> bool:
        """Whether there are clients to compare."""
        return self.solution.policy.has_clients

    @cached_property
    def clients(self) -> list[str]:
        """Every client's name."""
        return [name_of(name) for name in self.solution.policy.clients]

    @cached_property
    def groups(self) -> list[str]:
        """Every group's name."""
        return [name_of(name) for name in self.solution.policy.groups]

    @cached_property
    def ranked(self) -> list[int]:
        """Every client, by its largest gap before; those without one come last."""
        gaps = np.where(np.isnan(self.calibration.local.before.gaps), -1.0, self.calibration.local.before.gaps)
        return [int(client) for client in np.argsort(-gaps.max(axis=0), kind="stable")]

    @cached_property
    def listed(self) -> list[int]:
        """The clients shown one by one."""
        return self.ranked[: max(1, min(MOST_CLIENTS, MOST_CELLS // len(self.groups)))]

    def link(self, client: int) -> str | None:
        """The address of a client's card, if it has one."""
        return f"#client-{client}" if client in self._with_card else None

    @cached_property
    def _with_card(self) -> frozenset[int]:
        return frozenset(self.listed if self.has_clients else ())


def gather(
    solution: Solution, provenance: Provenance, new_rows: NewRows | None = None, frontier: Frontier | None = None
) -> Facts:
    """Measure all that a report shows.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> gather(solution, Provenance(in_memory("four rows", solution), "logofair fit")).clients
    ['all rows']
    """
    inside, across = promised_gaps(solution)
    calibration = measure_calibration(solution)
    new = None if new_rows is None else measure_new(solution, new_rows)
    return Facts(
        solution=solution,
        provenance=provenance,
        calibration=calibration,
        new=new,
        inside=inside,
        across=across,
        verdict=judge(solution, inside, across, calibration, new),
        frontier=frontier,
    )
