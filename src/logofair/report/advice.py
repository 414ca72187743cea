"""What may be promised for new rows, to which client, and what it takes to promise more: a paragraph and a picture."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import numpy as np

from logofair.fitting.advice import CARRIES, LARGER, NOTHING, Advice, ClientAdvice
from logofair.fitting.promises import USEFUL, with_confidence
from logofair.report.charts import TolerancePoint, tolerance_lines, tolerance_scatter
from logofair.report.contents import ReportContents
from logofair.report.markup import (
    Cell,
    Element,
    Section,
    Trusted,
    folded,
    grid,
    named,
    note,
    number,
    paragraph,
    render,
    rows_cell,
    tag,
    text,
    tolerance_cell,
)
from logofair.report.wording import counted, name_of, tolerance_of

__all__ = ["advice_picture", "advice_section"]

_WIDE, _NARROW = 860.0, 350.0
_WIDTHS = ((_WIDE, "wide"), (_NARROW, "narrow"))
_MOST_LINES = 20  # clients with a line each; more are marks
_MOST_MARKS = 2000
_NAMED = 3  # of many clients
_MARKS = {CARRIES: "circle", LARGER: "diamond", NOTHING: "cross"}


def advice_section(contents: ReportContents) -> Section:
    """Return the advice on a solution."""
    advice = contents.solution.advice_on_pages
    body = [paragraph(advice.summary())]
    if len(advice.clients) > 1:
        points = _points(advice, contents.link)
        drawn = [tag("div", _draw(advice, points, width), class_=name) for width, name in _WIDTHS]
        body += [tag("figure", *drawn, tag("figcaption", _words(advice))), *_table(advice, contents.link)]
    return Section("advice", "What may be promised", tuple(body))


def advice_picture(advice: Advice, *, width: float = _WIDE) -> str:
    """Return the picture of an advice as one SVG file: the smallest tolerance that can be promised to each client.

    Up to 20 clients have a line each; of more, the rows of their smallest group lie across. Light or dark as the reader
    has it.

    Examples
    --------
    >>> import logofair
    >>> scores, groups, clients = [0.1, 0.4, 0.6, 0.9] * 500, ["a", "b"] * 1000, ["n", "n", "s", "s"] * 500
    >>> solution = logofair.fit(scores, None, groups=groups, clients=clients, calibration="none")
    >>> advice_picture(solution.advice()).startswith("<svg")
    True
    """
    picture = _draw(advice, _points(advice, lambda _: None), width)
    style = tag("style", Trusted(files("logofair.report").joinpath("style.css").read_text("utf-8")))
    paper = tag("rect", width="100%", height="100%", style="fill: var(--paper)")
    return render(Element(picture.name, picture.attributes, (style, paper, *picture.children)))


def _draw(advice: Advice, points: list[TolerancePoint], width: float) -> Element:
    draw = tolerance_lines if len(points) <= _MOST_LINES else tolerance_scatter
    return draw(points, _meanings(advice), width=width, label=_words(advice))


def _meanings(advice: Advice) -> dict[str, str]:
    """What the marks mean."""
    if advice.tolerance is None:
        return {"diamond": f"below {USEFUL:g}", "cross": f"nothing below {USEFUL:g}"}
    return {"circle": "carries it", "diamond": "a larger one", "cross": f"none below {USEFUL:g}"}


def _words(advice: Advice) -> str:
    """What the picture shows."""
    drawn = min(len(advice.clients), _MOST_MARKS)
    some = "" if drawn == len(advice.clients) else f" of {len(advice.clients):,}"
    return (
        f"The smallest local tolerance that can be promised for new rows, {counted(drawn, 'client')}{some}, "
        f"{with_confidence(advice.confidence)} together ({advice.method})."
    )


def _points(advice: Advice, link: Callable[[int], str | None]) -> list[TolerancePoint]:
    """The clients, most able first; of many, those of most rows that cannot carry their tolerance are named."""
    smallest = np.array([np.inf if each.smallest is None else each.smallest for each in advice.clients])
    order = np.argsort(smallest, kind="stable").tolist()
    every = max(1, -(-len(order) // _MOST_MARKS))
    short = [c for c in order if advice.clients[c].status != CARRIES]
    named_ones = set(sorted(short, key=lambda c: -advice.clients[c].rows)[:_NAMED])
    return [_point(advice.clients[c], link(c), c in named_ones) for c in order[::every]]


def _point(client: ClientAdvice, link: str | None, is_named: bool) -> TolerancePoint:
    of_label = "" if client.label is None else f" with label {client.label}"
    note = (
        f"{_smallest(client)}; required {tolerance_of(client.required)}; {client.group_rows:,} rows of "
        f"{name_of(client.group)}{of_label}, {client.rows:,} in all"
    )
    return TolerancePoint(
        name_of(client.client),
        link,
        client.smallest,
        client.required,
        client.group_rows,
        _MARKS[client.status],
        is_named,
        note,
    )


def _smallest(client: ClientAdvice) -> str:
    return "no tolerance" if client.smallest is None else f"smallest tolerance {client.smallest:.4f}"


def _table(advice: Advice, link: Callable[[int], str | None]) -> list[Element]:
    """All clients, folded away."""
    titles = ["client", "rows", "smallest group", "its rows", "required", "smallest possible", "rows needed"]
    shown = advice.clients[:_MOST_MARKS]
    lines = [_line(each, link(c)) for c, each in enumerate(shown)]
    missing = len(advice.clients) - len(shown)
    left_out = [note(f"The first {len(shown):,} clients are listed; {missing:,} are not.")] if missing else []
    caption = "What each client can carry; rows needed are of every group, for the tolerance required"
    table = grid(caption, titles, lines, search="Search clients")
    return [folded(f"What each of {counted(len(advice.clients), 'client')} can carry", *left_out, table)]


def _line(client: ClientAdvice, link: str | None) -> list[Cell]:
    of_label = "" if client.label is None else f", label {client.label}"
    needed = Cell(("–",), "none") if client.rows_needed is None else number(client.rows_needed)
    return [
        named(name_of(client.client), link),
        number(client.rows),
        text(f"{name_of(client.group)}{of_label}"),
        rows_cell(client.group_rows),
        tolerance_cell(np.inf if client.required is None else client.required),
        number(client.smallest),
        needed,
    ]
