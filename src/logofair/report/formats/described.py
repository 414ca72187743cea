"""What a form describes: a rule that was made, or one that was found, with what was measured of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from logofair.auditing import Audit
from logofair.auditing.measure import Measured, text
from logofair.auditing.result import FITTED_ROWS, RuleAudit, with_few_rows
from logofair.files.inputs import DataSource
from logofair.fitting.solution import Solution
from logofair.policy.policy import Policy
from logofair.report.formats.markdown import escaped, lines_table, table
from logofair.report.heading import ReportHeading
from logofair.report.measured import MeasuredRows, audited_rows, calibration_rows, other_rows
from logofair.report.sources import data_lines, fit_lines, made_lines, policy_lines
from logofair.report.wording import gap_words, name_of, sentence


@dataclass(frozen=True, eq=False)
class Described:
    """A solution or an audit, the data it is of, and how it is headed; ``data`` of a solution is what it was made on.

    ``policy`` is what decided in an audit, ``warning`` a sentence that a reader must see first.
    """

    found: Solution | Audit | RuleAudit
    data: DataSource | None
    command: str | None
    heading: ReportHeading
    policy: Policy | None
    rule: str | None
    warning: str

    @property
    def solution(self) -> Solution | None:
        """The solution, where a rule was made."""
        return self.found if isinstance(self.found, Solution) else None

    @property
    def name(self) -> str:
        """What it is called."""
        return one_name(self.heading.title, self.data)

    @cached_property
    def measured(self) -> tuple[MeasuredRows, ...]:
        """What was measured, on other rows first."""
        if isinstance(self.found, Solution):
            return tuple(rows for rows in (other_rows(self.found), calibration_rows(self.found)) if rows is not None)
        if isinstance(self.found, RuleAudit):
            return (audited_rows(self.found, None, np.inf),)
        local, global_ = (np.full(side.gaps.shape, np.inf) for side in (self.found.local, self.found.global_))
        return (MeasuredRows("audited rows", self.found, None, local, global_, (("", self.found, None),)),)

    def source(self, rows: MeasuredRows) -> DataSource | None:
        """Where some of the rows measured came from."""
        if self.solution is None or rows.after.fitted_rows:
            return self.data
        tested = self.solution.policy.info.tested
        return None if tested is None else tested.data

    def figures(self, rows: MeasuredRows) -> Iterator[str]:
        """Rates by group, accuracy and gaps on some rows, each with interval, rows and noise floor, as Markdown."""
        if rows.after.fitted_rows:
            yield f"**{sentence(FITTED_ROWS)}**"
        if rows.in_chances:
            yield "Counted in calibrated chances of label 1: these rows have no labels."
        lines = [[_group(rate, group), *_cells(figure)] for rate, group, _, figure in rows.rates]
        lines += [[name, *_cells(figure)] for name, figure in self._totals(rows)]
        gaps = rows.gap_lines
        lines += [[escaped(f"{line.what} ({gap_words(line.after)})"), *_cells(line.after.value)] for line in gaps]
        yield table(["figure", "value", "95% interval", "rows", "chance alone shows"], lines)
        shown = [f"- {escaped(sentence(f'{line.what}: {line.after.finding}'))}" for line in gaps if line.after.finding]
        shown += [
            f"- {escaped(sentence(line.what))} {escaped(with_few_rows(line.worst))}" for line in gaps if line.worst
        ]
        shown += [f"- {escaped(str(check))}" for check in rows.after.requirements if check.kind != "tolerance"]
        if shown:
            yield "\n".join(shown)

    @staticmethod
    def _totals(rows: MeasuredRows) -> Iterator[tuple[str, Measured | None]]:
        yield "accepted, all groups", rows.after.accepted
        if rows.after.accuracy is not None:
            yield "accuracy", rows.after.accuracy
        if rows.after.cost is not None and not rows.in_chances:
            yield "cost per person", rows.after.cost

    def sources(self) -> str:
        """What the figures rest on and how to make them again, as a table."""
        return lines_table(self._source_lines())

    def _source_lines(self) -> Iterator[tuple[str, str]]:
        if self.rule:
            yield "accepted by", self.rule
        yield from () if self.data is None else data_lines(self.data)
        yield from () if self.solution is None else fit_lines(self.solution)
        yield from () if self.policy is None else policy_lines(self.policy)
        yield from made_lines(self.heading)
        if self.heading.author:
            yield "by", self.heading.author
        if self.command:
            yield "command", self.command

    def rows_title(self, rows: MeasuredRows) -> str:
        """Which rows, and how many."""
        source = self.source(rows)
        return f"{rows.size:,} {rows.name}{'' if source is None else f' ({escaped(source.name)})'}"


def one_name(title: str | None, data: DataSource | None) -> str:
    """What a rule is called: its title, or the data's name."""
    return title or (data.name if data else "") or "a decision rule"


def _group(rate: str, group: object) -> str:
    return escaped(f"{rate}, {name_of(group)}")


def _cells(figure: Measured | None) -> list[str]:
    """A figure, its interval, its rows and its noise floor."""
    if figure is None:
        return ["undefined", "", "", ""]
    chance = "" if figure.floor is None else f"{text(figure.floor)}, up to {text(figure.detectable)}"
    return [text(figure), figure.interval, "" if figure.rows is None else f"{figure.rows:,}", chance]
