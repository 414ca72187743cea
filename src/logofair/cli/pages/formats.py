"""Audits and fits in the forms that auditors ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from logofair.auditing.files import FileAudit, count_rows, data_source, require_decisions
from logofair.auditing.impact import impact_tables
from logofair.cli.options import typed_command
from logofair.cli.pages.audit import rule_words
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.rows import source_of
from logofair.fitting.solution import Solution
from logofair.progress import Progress
from logofair.report import ReportHeading, annex_iv_text, ll144_text, model_card_text

_TEXTS: Mapping[str, Callable[..., str]] = {"model-card": model_card_text, "annex-iv": annex_iv_text}


def heading_of(title: str | None, purpose: str | None, author: str | None, decision_word: str | None) -> ReportHeading:
    """What the options of a report say, and the day."""
    return ReportHeading(title, purpose, author, date.today().isoformat(), decision_word or "accepted")


def categories_text(
    data: Sequence[str],
    columns: ColumnNames,
    threshold: float,
    heading: ReportHeading,
    progress: Progress,
) -> str:
    """Count the people of every category, of unknown ones too, and show rates and ratios as Local Law 144 asks."""
    used = columns.only("score", "decision", "weight", "id", "site")
    files = find_files(data, site=used.site)
    used.require(files, group="the categories, such as sex")
    require_decisions(files, used)
    counted = count_rows(files, used, threshold, progress, unknown=True)
    return ll144_text(
        impact_tables(counted.tally, counted.groups, used.group),
        data=source_of(files, used, counted.rows),
        command=typed_command(),
        heading=heading,
        rule=rule_words(used, threshold),
        left_out=counted.dropped,
    )


def audit_text(form: str, found: FileAudit, data: Sequence[str], heading: ReportHeading) -> str:
    """Show an audit in one of the forms."""
    compared, source = found.compared, data_source(found, data)
    policy = None if compared is None else compared.policy
    rule = rule_words(found.columns, found.threshold) if compared is None else f"{compared.name}, its coins averaged"
    warning = compared.sentence if compared is not None and compared.in_fit != "none" else ""
    common: dict[str, Any] = {"data": source, "command": typed_command(), "heading": heading, "policy": policy}
    if form != "ll144":
        return _TEXTS[form](found.measured, rule=rule, warning=warning, **common)
    assert compared is not None  # without a policy people of unknown category count too: categories_text
    names = [compared.rows.group_parts[name] for name in found.counted.groups]
    ratios = impact_tables(found.counted.tally, names, found.columns.group)
    return ll144_text(ratios, rule=rule, warning=warning, left_out=found.counted.dropped, **common)


def fit_text(form: str, solution: Solution, heading: ReportHeading) -> str:
    """Show a fit in one of the forms that describe a rule."""
    return _TEXTS[form](solution, data=solution.policy.info.data, command=typed_command(), heading=heading)
