"""The top of the report: the verdict, and accuracy and gaps before and after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logofair.auditing import FEW_ROWS
from logofair.auditing.measure import value_of
from logofair.columns.checks import Floats
from logofair.report.contents import ReportContents
from logofair.report.markup import (
    Cell,
    Element,
    Node,
    Section,
    few_mark,
    grid,
    named,
    note,
    number,
    paragraph,
    rows_cell,
    span,
    tag,
    tolerance_cell,
)
from logofair.report.measured import BeforeAfter, MeasuredRows
from logofair.report.wording import counted, figure, name_of, signed, tolerance_of

__all__ = ["glance_section", "verdict_banner"]


_SIGNS = {"met": "✓", "partly": "◐", "missed": "✗", "unmeasured": "?", "nothing": "–"}


def verdict_banner(contents: ReportContents) -> Element:
    """Return what was required and what was found, with the verdict in words and a sign."""
    verdict = contents.verdict
    said = (("Required", verdict.required), ("Found", verdict.found), ("On new rows", verdict.on_new_rows))
    lines = [(name, words) for name, words in said if words]
    sign = tag("span", _SIGNS[verdict.state], class_="sign", aria_hidden="true")
    return tag(
        "section",
        tag("h2", sign, verdict.title, id="verdict-title"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", words)) for name, words in lines]),
        id="verdict",
        class_=f"verdict {verdict.state}",
        aria_labelledby="verdict-title",
    )


def glance_section(contents: ReportContents) -> Section:
    """Return accuracy and gaps before and after, as tiles and as tables."""
    shown = contents.new or contents.calibration
    kinds = [contents.calibration, *([contents.new] if contents.new else [])]
    where = "test rows, which took no part in the fit" if contents.new else "calibration rows"
    return Section(
        "glance",
        "Before and after",
        (
            paragraph(
                f"Before: accept from score 1/2. After: the policy, in expectation over its coins. "
                f"The figures here are from {counted(shown.size, 'row')}: the {where}."
            ),
            tag("div", list(_tiles(shown)), class_="tiles"),
            *(_table(measured) for measured in kinds),
            note(
                "A gap is the largest rate over the groups less the smallest. Its “rows” are those that count in the "
                f"rate of the smallest group; with fewer than {FEW_ROWS} a gap is mostly noise. “By chance” is where "
                "each gap by itself could lie at 95%, were the rows drawn again; the verdict judges all gaps together."
            ),
        ),
    )


def _tiles(measured: MeasuredRows) -> Iterator[Element]:
    before, after = measured.accuracy
    yield _tile("Accuracy", before, after, signed(after - before))
    if len(measured.clients) > 1:
        yield _gap_tile("Gap over all clients", measured.global_, name_place=False)
        yield _gap_tile("Largest gap inside a client", measured.local, name_place=True)
    else:
        yield _gap_tile("Gap between groups", measured.local, name_place=False)


def _gap_tile(title: str, pair: BeforeAfter, *, name_place: bool) -> Element:
    """The largest gap before and the largest after; of many clients between large cells, where there are any."""
    shown = pair.large if name_place and not np.isnan(pair.after.large.gaps).all() else pair
    (before, _), (after, at) = _largest_of(shown.before.gaps), _largest_of(shown.after.gaps)
    if after is None:
        return _tile(title, before, None, "no two groups can be compared")
    rate, place = at
    tolerance = float(pair.tolerance[rate, place])
    required = f"tolerance {tolerance_of(tolerance)}" if np.isfinite(tolerance) else "nothing required"
    where = f", now at {name_of(pair.after.clients[place])}" if name_place else ""
    only = f"; only rates on {FEW_ROWS} rows or more" if shown is not pair and pair.few.any() else ""
    few = few_mark(bool(shown.few[rate, place]))
    return _tile(title, before, after, f"{pair.rates[rate].name}{where}; {required}{only} ", few)


def _largest_of(gaps: Floats) -> tuple[float | None, tuple[int, int]]:
    """The largest gap, None if none is defined; and its rate and place."""
    rate, place = np.unravel_index(int(np.where(np.isnan(gaps), -1.0, gaps).argmax()), gaps.shape)
    return value_of(gaps[rate, place]), (int(rate), int(place))


def _tile(title: str, before: float | None, after: float | None, *small: Node) -> Element:
    spoken = f"{title}: {figure(before, 3)} before, {figure(after, 3)} after"
    numbers = tag(
        "p",
        tag("span", figure(before, 3), class_="was"),
        tag("span", " → ", class_="arrow"),
        tag("span", figure(after, 3), class_="is"),
        class_="change",
        role="img",
        aria_label=spoken,
    )
    return tag("div", tag("h3", title), numbers, tag("p", small, class_="small"), class_="tile")


def _table(measured: MeasuredRows) -> Element:
    """One set of rows: accuracy, gaps over all clients, and the largest gaps inside clients."""
    basis = "counted with labels" if measured.with_labels else "counted in chances: there are no labels"
    titles = ["figure", "before", "after", "tolerance", "after, by chance", "rows"]
    (before, after), blank = measured.accuracy, Cell(("",))
    rows = [[named("accuracy"), number(before), number(after), blank, blank, number(measured.size)]]
    if len(measured.clients) > 1:
        rows += [
            _line(measured.global_, k, 0, f"{r.name} gap, all clients") for k, r in enumerate(measured.global_.rates)
        ]
    for k, rate in enumerate(measured.local.rates):
        rows += _largest(measured, k, rate.name)
    return grid(f"{measured.title} ({counted(measured.size, 'row')}, {basis})", titles, rows)


def _largest(measured: MeasuredRows, rate: int, name: str) -> Iterator[list[Cell]]:
    """The largest gap after inside any client, and the largest between large cells."""
    pair, gaps = measured.local, measured.local.after.gaps[rate]
    if np.isnan(gaps).all() or gaps.size == 1:
        yield _line(pair, rate, 0, f"{name} gap")
        return
    place = int(np.nanargmax(gaps))
    yield _line(pair, rate, place, f"largest {name} gap inside a client ({name_of(measured.clients[place])})")
    large = pair.large.after.gaps[rate]
    if pair.few[rate, place] and not np.isnan(large).all():
        place = int(np.nanargmax(large))
        words = f"the same between groups of {FEW_ROWS} rows or more ({name_of(measured.clients[place])})"
        yield _line(pair.large, rate, place, words)


def _line(pair: BeforeAfter, rate: int, place: int, words: str) -> list[Cell]:
    """One gap at one place."""
    low, high = (float(end[rate, place]) for end in pair.interval)
    return [
        named(words),
        number(float(pair.before.gaps[rate, place])),
        number(float(pair.after.gaps[rate, place])),
        tolerance_cell(float(pair.tolerance[rate, place])),
        span(low, high),
        rows_cell(int(pair.after.smallest_rows[rate, place])),
    ]
