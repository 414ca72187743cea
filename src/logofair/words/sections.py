"""What a page says, before it is text: a verdict, answers to three questions, and a tree of sections.

Every result becomes one :class:`Page`; a terminal, a browser, a notebook and JSON show the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from logofair.outcomes import EXCEEDED, MET, NOT_MEASURED, UNCLEAR
from logofair.words.charts import Svg
from logofair.words.phrases import width

MARKS = {MET: "✓", EXCEEDED: "✗", UNCLEAR: "?", NOT_MEASURED: "–"}
_PHONE = 42  # letters beside one another on a phone
_NAMES, _SENTENCE = 11, 24  # of which names have so many at most, and what is said of them


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``key`` is what it is sorted by, ``state`` what it says of a limit, in colour too."""

    text: str
    key: float | None = None
    state: str | None = None

    @property
    def attribute(self) -> str | None:
        """The key as a page needs it: where the text does not begin with the figure itself."""
        begins = self.text[:1].isdigit() and self.text.replace(",", "").replace(".", "").isdigit()
        return None if self.key is None or begins else f"{self.key:.6g}"


CellText: TypeAlias = Cell | str


@dataclass(frozen=True)
class Table:
    """Rows of cells; ``align`` has an l or an r for each column, ``caption`` says what it shows.

    ``search``: what a reader of a long one may search for. ``after`` is a line below it.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[CellText, ...], ...]
    align: str
    search: str | None = None
    after: str = ""

    @property
    def wide(self) -> bool:
        """Whether it is too wide for a phone, which then shows each row as lines of its own."""

        def needed(at: int) -> int:
            texts = [width(cell.text if isinstance(cell, Cell) else cell) for cell in (line[at] for line in self.rows)]
            longest = max([0, *texts])  # figures are not broken over lines, sentences and names are
            room = longest if self.align[at] == "r" else min(longest, _NAMES if at == 0 else _SENTENCE)
            return max([room, *map(width, self.head[at].split())])

        return sum(needed(at) + 1 for at in range(len(self.head))) > _PHONE


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """Sentences, each by itself."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Names and what they are; ``code``: values as they would be typed."""

    lines: tuple[tuple[str, str], ...]
    code: bool = False


@dataclass(frozen=True)
class Command:
    """What to type, as it is."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A picture; ``table`` holds the same figures for those who do not see it, ``after`` is a line below it."""

    svg: Svg
    caption: str
    table: Table | None = None
    after: str = ""


Part: TypeAlias = "Table | Paragraph | Bullets | Facts | Command | Picture"


@dataclass(frozen=True)
class Section:
    """A title and its parts; ``folded``: shown when asked for."""

    anchor: str
    title: str
    parts: tuple[Part, ...]
    folded: bool = False


@dataclass(frozen=True)
class Verdict:
    """One state in one word, and the sentence that says it in figures."""

    state: str
    words: str

    @property
    def word(self) -> str:
        """The state as pages show it."""
        return self.state.upper()


@dataclass(frozen=True)
class Answer:
    """An answer to one of the three questions: a line in a terminal, a tile in a report."""

    question: str
    name: str
    figure: str
    unit: str = ""
    detail: str = ""

    @property
    def line(self) -> str:
        """The answer in one sentence."""
        first = " ".join(filter(None, (self.figure, self.unit)))
        apart = "; " if self.unit or " -> " in self.figure else ": "
        return apart.join(filter(None, (first, self.detail)))


@dataclass(frozen=True)
class Page:
    """What there is to say of a result.

    ``table`` stands on the first screen: what was found of each limit; a report has the ``picture`` in its place, and
    parts ``beside`` it, where a terminal has a line. ``more`` is a further table of both.
    ``answers`` are in the order of the questions. ``warnings`` say what to do, ``next`` is one command that works,
    which finds what ``next_tells`` says.
    ``values`` are the plain values of the whole result.

    Examples
    --------
    >>> print(Page("Report", "Two people, a and b.", Verdict("met", "All is well.")).text())
    Two people, a and b.
    <BLANKLINE>
    MET        All is well.
    <BLANKLINE>
    """

    kind: str
    title: str
    verdict: Verdict | None = None
    table: Table | None = None
    answers: tuple[Answer, ...] = ()
    more: Table | None = None
    picture: Picture | None = None
    beside: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    next: str = ""
    next_tells: str = ""
    sections: tuple[Section, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    written: Sequence[str] = ()

    @property
    def left(self) -> tuple[Part, ...]:
        """What a report shows first."""
        first = self.table if self.picture is None or self.picture in self.beside else self.picture
        return tuple(part for part in (first, self.more) if part is not None)

    def text(self, *, verbose: bool = False, width: int = 80) -> str:
        """Return the page for a terminal: what is asked first, or with ``verbose`` everything."""
        from logofair.words.terminal import page_text

        return page_text(self, verbose=verbose, width=width)

    def html(self) -> str:
        """Return the page as one document that loads nothing."""
        from logofair.words.html import document

        return document(self)

    def _repr_html_(self) -> str:
        """Return the first screen for a notebook."""
        from logofair.words.html import fragment

        return fragment(self)
