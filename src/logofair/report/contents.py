"""The contents of a report: all that its sections draw on, gathered once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from logofair.files.inputs import DataSource
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.solution import Solution
from logofair.report.markup import Element, note
from logofair.report.measured import MeasuredRows, RequiredGaps
from logofair.report.verdict import Verdict
from logofair.report.wording import name_of

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

__all__ = ["ReportContents", "in_memory"]


def in_memory(name: str, solution: Solution) -> DataSource:
    """Return the source of a solution whose rows came from no file: a name, and a fingerprint of its columns.

    The same rows in the same order have the same fingerprint.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.2], None, groups=["a", "b"], calibration="none")
    >>> in_memory("two rows", solution).rows
    2
    """
    rows = solution.rows
    return DataSource(name, (), _fingerprint(rows), rows.scores.size, {})


def _fingerprint(rows: CalibrationRows) -> str:
    """SHA-256 of the checked columns."""
    digest = hashlib.sha256()
    for numbers in (rows.scores, rows.labels, rows.weights):
        digest.update(b"none;" if numbers is None else np.ascontiguousarray(numbers, dtype="<f8").tobytes())
    for column in (rows.groups, rows.clients):
        digest.update(repr(column.names).encode("utf-8", "backslashreplace"))
        digest.update(np.ascontiguousarray(column.codes, dtype="<i8").tobytes())
    return digest.hexdigest()


# Cells and clients whose rules and figures are listed one by one: several kilobytes each, and a page stays below 6 MB.
MOST_CELLS, MOST_CLIENTS = 2000, 600


@dataclass(frozen=True, eq=False)
class ReportContents:
    """A solution, what was measured of it, and where it comes from: which data, which command, which day.

    ``listed`` are the clients shown one by one, largest gap before first; all of them unless they are very many.
    """

    solution: Solution
    data: DataSource
    command: str
    made: str | None
    calibration: MeasuredRows
    new: MeasuredRows | None
    local: RequiredGaps
    global_: RequiredGaps
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

    @property
    def unlisted(self) -> Element | None:
        """A note where some clients are not shown one by one."""
        missing = len(self.clients) - len(self.listed)
        shown = f"The {len(self.listed):,} clients with the largest gaps before are listed"
        return note(f"{shown}; {missing:,} are not.") if missing else None

    def link(self, client: int) -> str | None:
        """The address of a client's card, if it has one."""
        return f"#client-{client}" if self.has_clients and client in self._with_card else None

    @cached_property
    def _with_card(self) -> frozenset[int]:
        return frozenset(self.listed)
