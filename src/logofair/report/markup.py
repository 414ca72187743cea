"""HTML and SVG as a tree of elements: text is escaped when it is rendered, so no name in the data can become markup.

Tables are plain without JavaScript, sortable and searchable with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from logofair.auditing import FEW_ROWS, Measured
from logofair.report.wording import UNDEFINED, figure, signed, tolerance_of

_LONG = 20  # lines of a table that has a height of its own
_VOID = frozenset({"br", "col", "input", "link", "meta"})
# Control characters, halves of surrogate pairs (which UTF-8 cannot hold) and what Unicode calls no characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True)
class Trusted:
    """Markup of our own (style, script, a finished picture) that is written as it is: never data."""

    markup: str


@dataclass(frozen=True)
class Element:
    """An element with its attributes and children; build one with :func:`tag`."""

    name: str
    attributes: tuple[tuple[str, str | None], ...]
    children: tuple[Node, ...]

    def __str__(self) -> str:
        return render(self)


Node: TypeAlias = Element | Trusted | str | None


def tag(name: str, /, *children: Node | Iterable[Node], **attributes: str | float | bool | None) -> Element:
    """Return an element; ``class_`` and ``aria_label`` become ``class`` and ``aria-label``.

    Attributes that are None or False are left out, and those that are True have no value. Children may be nested in
    lists; None is nothing.

    Examples
    --------
    >>> print(tag("a", "<script>", href="#site-1", class_="name", hidden=False))
    <a href="#site-1" class="name">&lt;script&gt;</a>
    """
    written = tuple(
        (key.rstrip("_").replace("_", "-"), None if value is True else _text(value))
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Element(name, written, tuple(_flat(children)))


def render(node: Node) -> str:
    """Return the markup of a tree."""
    parts: list[str] = []
    _write(node, parts)
    return "".join(parts)


def _write(node: Node, parts: list[str]) -> None:
    if node is None:
        return
    if isinstance(node, str):
        parts.append(_escaped(node))
    elif isinstance(node, Trusted):
        parts.append(node.markup)
    else:
        opened = "".join(
            f" {key}" if value is None else f' {key}="{_escaped(value)}"' for key, value in node.attributes
        )
        parts.append(f"<{node.name}{opened}>")
        for child in node.children:
            _write(child, parts)
        if node.name not in _VOID:
            parts.append(f"</{node.name}>")


def _escaped(text: str) -> str:
    """Text that stays text; characters that no HTML document may hold become a visible mark."""
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _text(value: str | float | bool) -> str:
    """A number as short as a picture needs it: a hundredth of a pixel."""
    if isinstance(value, str):
        return value
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _flat(children: Iterable[Node | Iterable[Node]]) -> Iterable[Node]:
    for child in children:
        if child is None or isinstance(child, str | Element | Trusted):
            yield child
        else:
            yield from _flat(child)


@dataclass(frozen=True)
class Section:
    """A part of a report: its address, its title, what it says, and its own parts."""

    anchor: str
    title: str
    body: tuple[Node, ...]
    children: tuple[Section, ...] = ()


def render_section(section: Section, level: int = 2) -> Element:
    """Return a section as markup, with its heading at a level and those of its parts below."""
    title = f"{section.anchor}-title"
    return tag(
        "section",
        tag(f"h{level}", section.title, id=title),
        section.body,
        [render_section(child, level + 1) for child in section.children],
        id=section.anchor,
        aria_labelledby=title,
    )


def paragraph(*words: Node) -> Element:
    """Return a paragraph."""
    return tag("p", words)


def note(*words: Node) -> Element:
    """Return a paragraph in small print."""
    return tag("p", words, class_="note")


@dataclass(frozen=True)
class Cell:
    """What a cell of a table shows and how it is marked; ``heading`` names its row.

    Numbers are sorted by what stands first in their cell, unless ``key`` says otherwise.
    """

    content: tuple[Node, ...]
    mark: str | None = None
    style: str | None = None
    key: float | None = None
    heading: bool = False
    numeric: bool = True


def text(*words: Node, mark: str | None = None) -> Cell:
    """Return a cell of words."""
    return Cell(words, mark, numeric=False)


def named(name: str, link: str | None = None) -> Cell:
    """Return a cell with a name from the data, which names its row."""
    shown = tag("bdi", name)
    return Cell((shown if link is None else tag("a", shown, href=link),), heading=True, numeric=False)


def number(value: float | None) -> Cell:
    """Return a cell with a figure, or that there is none."""
    if value is None or math.isnan(value):
        return Cell((UNDEFINED,), "none")
    return Cell((f"{value:,}" if isinstance(value, int) else figure(value),))


def rows_cell(rows: int) -> Cell:
    """Return a cell with a number of rows, marked where they are few."""
    return Cell((f"{rows:,} ", few_mark(True)) if rows < FEW_ROWS else (f"{rows:,}",))


def tolerance_cell(tolerance: float) -> Cell:
    """Return a cell with a tolerance; a free one is sorted as the largest."""
    return Cell((tolerance_of(tolerance),), key=1e9 if math.isinf(tolerance) else None)


def measured_cell(value: Measured | None) -> Cell:
    """Return a cell with a figure and its interval below."""
    if value is None:
        return Cell((UNDEFINED,), "none")
    return Cell((figure(value), *_interval(value)))


def difference_cell(value: Measured | None) -> Cell:
    """Return a cell with a difference and its interval below."""
    if value is None:
        return Cell(("–",), "none")
    return Cell((signed(value), *_interval(value, signed)))


def _interval(value: Measured, form: Callable[[float], str] = figure) -> Iterable[Node]:
    if value.low is not None and value.high is not None:
        yield from (" ", tag("small", f"{form(value.low)} to {form(value.high)}", class_="chance"))


def folded(summary: str, *parts: Node | Iterable[Node]) -> Element:
    """Return parts that are shown once the reader asks for them; on paper they are."""
    return tag("details", tag("summary", summary), *parts)


def few_mark(few: bool) -> Element | None:
    """Return the mark of a figure that rests on few rows."""
    return tag("span", "few rows", class_="few") if few else None


def grid(
    caption: str,
    titles: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    search: str | None = None,
    stacked: bool = True,
    full: bool = False,
) -> Element:
    """Return a table in a frame.

    Where the page is narrow, the cells of a ``stacked`` table stand below one another, each beside its title; other
    tables scroll. ``search`` offers a search field with this name above the table, where there is JavaScript. A row of
    one cell is a heading over those that follow. A long table has a height of its own; one in ``full`` only on a phone.
    """
    first = next((row for row in rows if len(row) == len(titles)), None)
    numeric = [cell.numeric for cell in first] if first else [False] * len(titles)
    head = [
        tag("th", title, scope="col", class_="n" if number_below else None)
        for title, number_below in zip(titles, numeric, strict=True)
    ]
    body = [_row(row, titles) for row in rows]
    parts = (tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body))
    table = tag("table", parts, data_search=search, class_="stacked" if stacked else None)
    # A frame that scrolls must be reachable by keyboard, under a short name.
    frame = "scroll" if len(rows) <= _LONG else "scroll long full" if full else "scroll long"
    return tag("div", table, class_=frame, role="region", aria_label=caption.split(". ")[0], tabindex="0")


def _row(row: Sequence[Cell], titles: Sequence[str]) -> Element:
    if len(row) == 1 < len(titles):
        return tag("tr", tag("th", row[0].content, colspan=str(len(titles)), scope="colgroup"), class_="over")
    return tag("tr", [_cell(cell, title) for cell, title in zip(row, titles, strict=True)])


def _cell(cell: Cell, title: str) -> Element:
    marks = " ".join(filter(None, ("n" if cell.numeric else None, cell.mark))) or None
    if cell.heading:
        return tag("th", cell.content, scope="row", class_=marks)
    return tag("td", cell.content, class_=marks, style=cell.style, data_key=cell.key, data_title=title)
