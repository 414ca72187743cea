"""The top of the report: the verdict, and accuracy and gaps before and after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logofair.auditing.measure import FEW_ROWS
from logofair.columns.checks import Floats
from logofair.report.facts import ReportData
from logofair.report.figures import BeforeAfter, RowsMeasured
from logofair.report.grids import Cell, Column, few_mark, grid, limit, named, number, span, text
from logofair.report.markup import Element, Node, Section, note, paragraph, tag
from logofair.report.wording import counted, figure, name_of, signed, tolerance_of

__all__ = ["glance_section", "verdict_banner"]


_SIGNS = {"kept": "✓", "partly": "◐", "broken": "✗", "unmeasured": "?", "nothing": "–"}


def verdict_banner(facts: ReportData) -> Element:
    """Return what was promised and what is held, with the verdict in words and a sign.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> from logofair.report.facts import gather
    >>> from logofair.report.facts import Provenance
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> facts = gather(solution, Provenance(in_memory("four rows", solution), "logofair fit"))
    >>> "Kept on the calibration rows" in str(verdict_banner(facts))
    True
    """
    verdict = facts.verdict
    told = (("Required", verdict.promised), ("Held", verdict.held), ("On new rows", verdict.on_new_rows))
    lines = [(name, words) for name, words in told if words]
    sign = tag("span", _SIGNS[verdict.state], class_="sign", aria_hidden="true")
    return tag(
        "section",
        tag("h2", sign, verdict.title, id="verdict-title"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", words)) for name, words in lines]),
        id="verdict",
        class_=f"verdict {verdict.state}",
        aria_labelledby="verdict-title",
    )


def glance_section(facts: ReportData) -> Section:
    """Return accuracy and gaps before and after, as tiles and as tables.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> from logofair.report.facts import gather
    >>> from logofair.report.facts import Provenance
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> facts = gather(solution, Provenance(in_memory("four rows", solution), "logofair fit"))
    >>> glance_section(facts).title
    'Before and after'
    """
    shown = facts.new or facts.calibration
    kinds = [facts.calibration, *([facts.new] if facts.new else [])]
    where = "test rows, which took no part in the fit" if facts.new else "calibration rows"
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
                f"A gap is the largest rate over the groups less the smallest. “Rests on” is the size of the smallest "
                f"group behind it; with fewer than {FEW_ROWS} rows a gap is mostly noise. “By chance” is where each "
                "gap by itself could lie at 95%, were the rows drawn again; the verdict judges all gaps together."
            ),
        ),
    )


def _tiles(measured: RowsMeasured) -> Iterator[Element]:
    before, after = measured.accuracy
    yield _tile("Accuracy", before, after, signed(after - before))
    if len(measured.clients) > 1:
        yield _gap_tile("Gap across all clients", measured.overall, name_place=False)
        yield _gap_tile("Largest gap inside a client", measured.local, name_place=True)
    else:
        yield _gap_tile("Gap between groups", measured.local, name_place=False)


def _gap_tile(title: str, pair: BeforeAfter, *, name_place: bool) -> Element:
    """The largest gap before and the largest after; clients with few rows are left out where others are there."""
    enough = ~pair.few.any(axis=0)
    places = np.flatnonzero(enough) if enough.any() else np.arange(enough.size)
    found = [_largest_of(side.gaps[:, places]) for side in (pair.before, pair.after)]
    before, after = (
        None if at is None else float(side.gaps[at[0], places[at[1]]])
        for at, side in zip(found, (pair.before, pair.after), strict=True)
    )
    if found[1] is None:
        return _tile(title, before, None, "no two groups can be compared")
    rate, place = found[1][0], int(places[found[1][1]])
    tolerance = float(pair.tolerance[rate, place])
    requirements = f"tolerance {tolerance_of(tolerance)}" if np.isfinite(tolerance) else "nothing promised"
    at = f", now at {name_of(pair.after.clients[place])}" if name_place else ""
    left_out = int((~enough).sum()) if enough.any() else 0
    without = f"; without {counted(left_out, 'client')} of fewer than {FEW_ROWS} rows in a group" if left_out else ""
    few = few_mark(bool(pair.few[rate, place]))
    return _tile(title, before, after, f"{pair.rates[rate].name}{at}; {requirements}{without} ", few)


def _largest_of(gaps: Floats) -> tuple[int, int] | None:
    """Rate and place of the largest gap, if any is defined."""
    if np.isnan(gaps).all():
        return None
    rate, place = np.unravel_index(int(np.nanargmax(gaps)), gaps.shape)
    return int(rate), int(place)


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


def _table(measured: RowsMeasured) -> Element:
    """One set of rows: accuracy, gaps across, and the largest gaps inside clients."""
    basis = "counted with labels" if measured.with_labels else "counted in chances: there are no labels"
    columns = [Column("figure"), *(Column(n, numeric=True) for n in ("before", "after", "tolerance"))]
    columns += [Column("after, by chance", numeric=True), Column("rests on", numeric=True)]
    before, after = measured.accuracy
    rows = [[named("accuracy"), number(before), number(after), _blank(), _blank(), number(measured.size)]]
    if len(measured.clients) > 1:
        rows += [
            _line(measured.overall, k, 0, f"{r.name} gap, all clients") for k, r in enumerate(measured.overall.rates)
        ]
    for k, rate in enumerate(measured.local.rates):
        rows += _largest(measured, k, rate.name)
    return grid(f"{measured.title} ({counted(measured.size, 'row')}, {basis})", columns, rows)


def _largest(measured: RowsMeasured, rate: int, name: str) -> Iterator[list[Cell]]:
    """The largest gap after inside any client, and inside those with enough rows."""
    pair, gaps = measured.local, measured.local.after.gaps[rate]
    if np.isnan(gaps).all() or gaps.size == 1:
        yield _line(pair, rate, 0, f"{name} gap")
        return
    place = int(np.nanargmax(gaps))
    yield _line(pair, rate, place, f"largest {name} gap inside a client ({name_of(measured.clients[place])})")
    enough = np.where(pair.few[rate], np.nan, gaps)
    if pair.few[rate, place] and not np.isnan(enough).all():
        place = int(np.nanargmax(enough))
        words = f"the same with {FEW_ROWS} rows or more in every group ({name_of(measured.clients[place])})"
        yield _line(pair, rate, place, words)


def _line(pair: BeforeAfter, rate: int, place: int, words: str) -> list[Cell]:
    """One gap at one place."""
    low, high = (float(bound[rate, place]) for bound in pair.interval)
    few = bool(pair.few[rate, place])
    return [
        named(words),
        number(float(pair.before.gaps[rate, place])),
        number(float(pair.after.gaps[rate, place])),
        limit(float(pair.tolerance[rate, place])),
        span(low, high),
        number(int(pair.fewest[rate, place]), after=few_mark(few)),
    ]


def _blank() -> Cell:
    return text("")
