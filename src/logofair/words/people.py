"""Who is affected and what it costs: rates by group, whose decisions change, accuracy or cost, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.measure import Measured
from logofair.columns.checks import Floats
from logofair.outcomes import FEW_ROWS
from logofair.words.phrases import NOTHING, counted, listed, name_of, points, short_number, span
from logofair.words.sections import Answer, Cell, CellText, Table

_GROUPS = 4  # named in a line
_BASE_RATES_DIFFER = 0.15
_TABLE_GROUPS = 6  # in the first screen's table


def cost_answer(found: Comparison, *, expected: bool = False) -> Answer:
    """Return what it costs: accuracy, or cost per person, before and after, with the interval of the difference.

    ``expected``: by predicted probabilities, for want of labels.
    """
    question, name = "What does it cost?", "Cost"
    if found.cost is not None:
        before, after = (
            short_number(None if each.cost is None else float(each.cost)) for each in (found.first, found.second)
        )
        detail = _difference(found.cost, short_number, ("more", "less"))
        return Answer(question, name, f"{before} -> {after}", "per person", detail)
    if found.accuracy is None:
        return Answer(question, name, "Not known", "", "there are no labels to tell right from wrong")
    before, after = (
        points(None if each.accuracy is None else float(each.accuracy)) for each in (found.first, found.second)
    )
    detail = _difference(found.accuracy, points, ("points won", "points lost"))
    detail += ", expected: there are no labels to count with" if expected else ""
    return Answer(question, name, f"{before} -> {after}", "% accuracy", detail)


def _difference(change: Measured, figure: object, words: tuple[str, str]) -> str:
    """By how much: the interval where it leaves no doubt about the sign, else that it may be either."""
    assert callable(figure)
    more, less = words
    low, high = (
        (float(change), float(change)) if change.low is None or change.high is None else (change.low, change.high)
    )
    if low >= 0 or high <= 0:
        ends = sorted((abs(low), abs(high)))
        first, last = figure(ends[0]), figure(ends[1])
        way = more if low >= 0 else less
        return f"could be {first} to {last} {way}" if first != last else f"{first} {way}"
    return f"could be {figure(-low)} {less} or {figure(high)} {more}"


def accepted_shares(audit: Audit) -> tuple[Floats, Floats]:
    """Return the share accepted of every group over all sites, and how many people it has."""
    tally = audit.global_.tally
    mass, accepted = tally.mass[0].sum(axis=1), tally.accepted[0].sum(axis=1)
    rows = tally.rows[0].sum(axis=1).astype(np.float64)
    return np.divide(accepted, mass, out=np.zeros_like(mass), where=mass > 0), rows


def selected_answer(found: Comparison, accepted: str) -> Answer:
    """Return whose decisions change: the share accepted of each group before and after, the most changed first."""
    (before, rows), (after, _) = accepted_shares(found.first), accepted_shares(found.second)
    order = np.argsort(-np.abs(after - before), kind="stable") if rows.size > _GROUPS else np.arange(rows.size)
    named = [
        f"{name_of(found.second.groups[at], 24)} {points(before[at], 0)} -> {points(after[at], 0)} %"
        for at in order.tolist()
    ]
    listing = listed(named, _GROUPS if rows.size <= _GROUPS else 1, last=", ")
    return Answer("", accepted.capitalize(), listing, "", _changed(found))


def changes_table(found: Comparison, accepted: str) -> Table:
    """Return who changes side: how many of each group are accepted before and after."""
    (before, rows), (after, _) = accepted_shares(found.first), accepted_shares(found.second)
    order = np.argsort(-np.abs((after - before) * rows), kind="stable")[:_TABLE_GROUPS]

    def line(at: int) -> tuple[CellText, ...]:
        was, now = round(before[at] * rows[at]), round(after[at] * rows[at])
        change = f"{now - was:+,}".replace("-", "−") if now != was else "0"
        return name_of(found.second.groups[at], 30), f"{was:,} of {rows[at]:,.0f}", f"{now:,}", Cell(change, now - was)

    lines = tuple(line(at) for at in sorted(order.tolist()))
    more = [f"{rows.size - len(lines):,} more groups change less."] if rows.size > len(lines) else []
    more += [f"{_changed(found)}."] if found.changed is not None else []
    return Table("Who changes side", ("", f"{accepted} before", "after", "change"), lines, "lrrr", after=" ".join(more))


def _changed(found: Comparison) -> str:
    """How many decisions change."""
    rows = found.second.global_.tally.rows.sum()
    if found.changed is None:
        return ""
    number = found.changed * rows  # expected over coins, where there are any
    about = "" if abs(number - round(number)) < 1e-6 * max(rows, 1) else "about "
    return f"{about}{number:,.0f} of {counted(rows, 'decision')} change"


def rates_table(audits: Sequence[tuple[str, Audit]], caption: str) -> Table:
    """Return every rate of every group over all sites, under each of some rules, with interval and people."""
    last = audits[-1][1]
    lines: list[tuple[CellText, ...]] = []
    for rate, row in last.rates.items():
        for group in row:
            figures = [audit.rates[rate][group] for _, audit in audits]
            lines.append((f"{rate}, {name_of(group, 30)}", *_cells(figures), _rows(figures[-1])))
    for name, of in (("accuracy", "accuracy"), ("accepted", "accepted")):
        figures = [getattr(audit, of) for _, audit in audits]
        if any(each is not None for each in figures):
            lines.append((name, *_cells(figures), _rows(figures[-1])))
    head = ("%", *(name for name, _ in audits), "95 % interval", "people")
    search = "Find a rate or a group" if len(lines) > 12 else None
    return Table(caption, head, tuple(lines), "l" + "r" * (len(head) - 1), search)


def _cells(figures: Sequence[Measured | None]) -> tuple[CellText, ...]:
    last = figures[-1]
    interval = NOTHING if last is None else span(last.low, last.high)
    return (*(Cell(points(each), each) for each in figures), interval)


def _rows(found: Measured | None) -> Cell:
    return Cell(
        NOTHING if found is None or found.rows is None else f"{found.rows:,}", None if found is None else found.rows
    )


def base_rates_differ(audit: Audit) -> str:
    """Return that labels differ much between groups of 30 people or more, with the extremes; else nothing."""
    tally = audit.global_.tally
    mass, rows = tally.mass[0], tally.rows[0].sum(axis=1)
    total = mass.sum(axis=1)
    known = [
        (float(mass[at, 1] / total[at]), name_of(group, 24))
        for at, group in enumerate(audit.groups)
        if tally.labelled and rows[at] >= FEW_ROWS and total[at] > 0
    ]
    (least, low), (most, high) = min(known, default=(0.0, "")), max(known, default=(0.0, ""))
    differ = most - least >= _BASE_RATES_DIFFER
    return f"Labels differ ({low} {points(least, 0)} %, {high} {points(most, 0)} %)" if differ else ""
