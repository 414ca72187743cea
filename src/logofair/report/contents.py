"""The contents of a report: all that its sections draw on, gathered once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from logofair.columns.checks import Label
from logofair.files.inputs import DataSource
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.solution import Solution
from logofair.policy.rules import RuleRow
from logofair.report.heading import ReportHeading
from logofair.report.markup import Element, note
from logofair.report.measured import MeasuredRows
from logofair.report.verdict import Verdict
from logofair.report.wording import name_of

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier


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
    for column in (rows.groups, rows.sites):
        digest.update(repr(column.names).encode("utf-8", "backslashreplace"))
        digest.update(np.ascontiguousarray(column.codes, dtype="<i8").tobytes())
    return digest.hexdigest()


# Cells and sites listed one by one: a page stays below 6 MB.
_MOST_CELLS, _MOST_SITES = 2000, 600


@dataclass(frozen=True, eq=False)
class ReportContents:
    """A solution, what was measured of it, and where it comes from: which data, which command, which day."""

    solution: Solution
    data: DataSource
    command: str
    heading: ReportHeading
    calibration: MeasuredRows
    tested: MeasuredRows | None
    verdict: Verdict
    frontier: Frontier | None

    @property
    def shown(self) -> MeasuredRows:
        """The rows whose figures come first: those that took no part in the fit, where there are any."""
        return self.tested or self.calibration

    @property
    def has_sites(self) -> bool:
        """Whether there are sites to compare."""
        return len(self.solution.policy.sites) > 1

    @cached_property
    def sites(self) -> list[str]:
        """The name of every site of the policy."""
        return [name_of(name) for name in self.solution.policy.sites]

    @cached_property
    def groups(self) -> list[str]:
        """Every group's name."""
        return [name_of(name) for name in self.solution.policy.groups]

    @cached_property
    def listed(self) -> list[int]:
        """The policy's sites whose rules are shown: all, or those with the most rows."""
        most = max(1, min(_MOST_SITES, _MOST_CELLS // len(self.groups)))
        rows = self.calibration.after.local.tally.rows.sum(axis=(1, 2))
        return sorted(np.argsort(-rows, kind="stable")[:most].tolist())

    @property
    def unlisted(self) -> Element | None:
        """A note where some sites are not shown one by one."""
        missing = len(self.sites) - len(self.listed)
        return (
            note(f"The {len(self.listed):,} sites with the most rows are listed; {missing:,} are not.")
            if missing
            else None
        )

    def link(self, site: int) -> str | None:
        """The address of a site's card, if it has one."""
        return self.shown.link(self.solution.policy.sites[site])

    def price(self, rate: str, site: Label | None) -> float:
        """What 0.01 more local tolerance for a rate at a site would win at most; 0 where nothing is required."""
        for check in self.solution.requirement_checks:
            if (check.side, check.kind, check.rate) == ("local", "tolerance", rate) and site in check.sites:
                return 0.0 if check.price is None else 0.01 * float(check.price[check.sites.index(site)])
        return 0.0

    def rule(self, site: Label | None, group: Label) -> str:
        """The policy's rule for a site and a group."""
        policy = self.solution.policy
        if site not in policy.sites or group not in policy.groups:
            return "the merged rule"
        return self.rule_text(policy.rules[policy.sites.index(site) * len(policy.groups) + policy.groups.index(group)])

    def rule_text(self, row: RuleRow) -> str:
        """A rule in words, with the report's own for a positive decision."""
        return row.rule.replace("accepted", self.heading.accepted)
