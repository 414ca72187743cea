"""Tables: plain without JavaScript, sortable and searchable with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from logofair.report.markup import Element, Node, tag
from logofair.report.wording import UNDEFINED, figure, tolerance_of

__all__ = ["Cell", "Column", "few_mark", "grid", "named", "number", "span", "text", "tolerance_cell"]


@dataclass(frozen=True)
class Column:
    """A column's title, and whether it holds numbers; a ``long`` title comes from the data and may be broken.

    Examples
    --------
    >>> Column("rows", numeric=True).marks
    'n'
    """

    title: str
    numeric: bool = False
    long: bool = False

    @property
    def marks(self) -> str | None:
        """Classes of the heading."""
        return " ".join([*(["n"] if self.numeric else []), *(["long"] if self.long else [])]) or None


@dataclass(frozen=True)
class Cell:
    """What a cell shows and how it is marked; ``heading`` names its row.

    Numbers are sorted by what stands first in their cell, unless ``key`` says otherwise.
    """

    content: tuple[Node, ...]
    mark: str | None = None
    style: str | None = None
    key: float | None = None
    heading: bool = False


def text(*words: Node, mark: str | None = None) -> Cell:
    """Return a cell of words.

    Examples
    --------
    >>> text("none").content
    ('none',)
    """
    return Cell(words, mark)


def named(name: str, link: str | None = None) -> Cell:
    """Return a cell with a name from the data, which names its row.

    Examples
    --------
    >>> print(named("<north>", "#client-1").content[0])
    <a href="#client-1"><bdi>&lt;north&gt;</bdi></a>
    """
    shown = tag("bdi", name)
    return Cell((shown if link is None else tag("a", shown, href=link),), heading=True)


def number(value: float | None, digits: int = 4, *, mark: str | None = None, after: Node = None) -> Cell:
    """Return a cell with a figure, or that there is none.

    Examples
    --------
    >>> number(1200).content, number(0.25).content, number(None).content
    (('1,200',), ('0.2500',), ('not measured',))
    """
    if value is None or math.isnan(value):
        return Cell((UNDEFINED,), "none")
    shown = f"{value:,}" if isinstance(value, int) else figure(value, digits)
    return Cell((shown,) if after is None else (shown, " ", after), mark)


def tolerance_cell(tolerance: float | None) -> Cell:
    """Return a cell with a tolerance; a free one is sorted as the largest.

    Examples
    --------
    >>> tolerance_cell(0.02).content, tolerance_cell(None).key
    (('0.02',), 1000000000.0)
    """
    free = tolerance is None or math.isinf(tolerance)
    return Cell((tolerance_of(tolerance),), key=1e9 if free else None)


def span(low: float, high: float) -> Cell:
    """Return a cell with an interval, sorted by its upper end.

    Examples
    --------
    >>> span(0.0, 0.0412).content
    ('0.000–0.041',)
    """
    if math.isnan(low) or math.isnan(high):
        return Cell((UNDEFINED,), "none")
    return Cell((f"{figure(low, 3)}–{figure(high, 3)}",), "span", key=high)


def few_mark(few: bool) -> Element | None:
    """Return the mark of a figure that rests on few rows.

    Examples
    --------
    >>> print(few_mark(True))
    <span class="few">few rows</span>
    """
    return tag("span", "few rows", class_="few") if few else None


def grid(
    caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, search: str | None = None
) -> Element:
    """Return a table in a frame that scrolls where the page is narrow.

    Parameters
    ----------
    caption : str
        What the table shows.
    columns, rows : sequences
        Titles, and a cell for each.
    search : str, optional
        Offers a search field with this name above the table, where there is JavaScript.

    Examples
    --------
    >>> table = grid("Sites", [Column("site"), Column("rows", numeric=True)], [[named("<north>"), number(1200)]])
    >>> str(table)[-107:]
    '<tbody><tr><th scope="row"><bdi>&lt;north&gt;</bdi></th><td class="n">1,200</td></tr></tbody></table></div>'
    """
    head = tag("tr", [tag("th", c.title, scope="col", class_=c.marks) for c in columns])
    body = [tag("tr", [_cell(cell, column) for cell, column in zip(row, columns, strict=True)]) for row in rows]
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body), data_search=search)
    # A frame that scrolls must be reachable by keyboard.
    return tag("div", table, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cell(cell: Cell, column: Column) -> Element:
    marks = " ".join(filter(None, ("n" if column.numeric else None, cell.mark))) or None
    if cell.heading:
        return tag("th", cell.content, scope="row", class_=marks)
    return tag("td", cell.content, class_=marks, style=cell.style, data_key=cell.key)
