"""A page: a verdict, answers to three questions and a tree of sections, and how a terminal and a browser show them.

Every result becomes one :class:`Page`; a terminal, a browser, a notebook and JSON show the same one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from logofair.columns.harmless import harmless
from logofair.files.writing import put_whole
from logofair.outcomes import EXCEEDED, MET, NOT_MEASURED, UNCLEAR
from logofair.words import charts
from logofair.words.charts import Svg
from logofair.words.phrases import NOTHING, columns_text, cut, points, width, wrapped

_T = TypeVar("_T")
_MARKS = {MET: "✓", EXCEEDED: "✗", UNCLEAR: "?", NOT_MEASURED: "–"}
_PHONE = 42  # characters in a line on a phone
_NAME, _TEXT = 11, 24  # characters after which a phone wraps the names in a table's first column, and other text
_LINES = 20  # of one screen in a terminal: a longer page gives up the blank lines between its blocks
_LABEL = 11  # columns of a terminal for the word at the beginning of a line, such as "Cost"
_NARROWEST = 40  # columns that a terminal is taken to have at least
_TERMINAL_NAMES = 12  # columns of a terminal that names in a table have at least
# Letters of scripts that are written from right to left, Hebrew and Arabic among them.
_RIGHT = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]+"
_FROM_THE_RIGHT = re.compile(f"{_RIGHT}(?:[ '\"-]+{_RIGHT})*")


def _beside(name: str, lines: Iterable[str], label: int = _LABEL) -> list[str]:
    """Lines with a word to the left of the first; the others are indented as far."""
    return [f"{'' if place else name:<{label}}{line}".rstrip() for place, line in enumerate(lines)]


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``key`` is what it is sorted by, ``state`` whether a limit is met, shown in colour too."""

    text: str
    key: float | None = None
    state: str | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def sort_key(self) -> str | None:
        """The key for the browser's sorting; None where the text is a plain number, by which it can sort itself."""
        begins = self.text[:1].isdigit() and self.text.replace(",", "").replace(".", "").isdigit()
        return None if self.key is None or begins else f"{self.key:.6g}"


CellText: TypeAlias = Cell | str


def in_points(value: float | None) -> Cell:
    """Return the cell of a share in points."""
    return Cell(points(value), value)


def number(value: int | None) -> Cell:
    """Return the cell of a number of people."""
    return Cell(NOTHING if value is None else f"{value:,}", value)


@dataclass(frozen=True)
class Table:
    """Rows of cells; ``align`` has an l or an r for each column, ``caption`` says what the table shows.

    In a browser a table with ``search`` can be sorted and searched; that is the label of the search field. ``after`` is
    a line below the table.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[CellText, ...], ...]
    align: str
    search: str | None = None
    after: str = ""

    def fits(self, most: int) -> bool:
        """Whether a terminal of so many columns shows it with no name cut."""
        lines = [[str(cell) for cell in line] for line in (self.head, *self.rows)]
        return sum(2 + max(width(line[at]) for line in lines) for at in range(len(self.head))) - 2 <= most

    @property
    def wide(self) -> bool:
        """Whether it is too wide for a phone, which then shows each row as lines of its own."""

        def needed(at: int) -> int:
            longest = max([0, *(width(str(line[at])) for line in self.rows)])
            # figures are not broken over lines, names and other text are
            room = longest if self.align[at] == "r" else min(longest, _NAME if at == 0 else _TEXT)
            return max([room, *map(width, self.head[at].split())])

        return sum(needed(at) + 1 for at in range(len(self.head))) > _PHONE

    def text_lines(self, most: int) -> list[str]:
        """Return it for a terminal: names in the first column are cut, text in the last is wrapped in its column."""
        lines = [[str(cell) for cell in line] for line in (self.head, *self.rows)]
        # A line with a name alone is a heading of those below it, and takes the whole width.
        headings = {at: line[0] for at, line in enumerate(lines) if len(line) > 1 and not any(line[1:])}
        lines = [line for at, line in enumerate(lines) if at not in headings]
        widths = [max(width(line[at]) for line in lines) for at in range(len(self.head))]
        apart = 3 if sum(widths) + 3 * (len(widths) - 1) <= most else 2
        names = max(_TERMINAL_NAMES, most - sum(widths[1:]) - apart * (len(widths) - 1))
        *above, lines[0][0] = wrapped(lines[0][0], names)
        lines = [[cut(line[0], names), *line[1:]] for line in lines]
        room = most - sum(max(width(line[at]) for line in lines) + apart for at in range(len(widths) - 1))
        if self.align[-1] == "l" and room >= _TERMINAL_NAMES:
            blank = [""] * (len(widths) - 1)
            parts = [(line[:-1], wrapped(line[-1], room)) for line in lines]
            lines = [[*(blank if at else first), part] for first, last in parts for at, part in enumerate(last)]
        after = wrapped(self.after, most) if self.after else []
        shown = columns_text(lines, self.align, apart=apart)
        for at, heading in headings.items():  # their places are counted with those before them
            shown.insert(at, cut(heading, most))
        return [*(cut(line, names) for line in above), *shown, *after]


Column: TypeAlias = tuple[str, str, Callable[[_T], CellText]]


def table_of(
    caption: str,
    columns: Sequence[Column[_T] | None],
    things: Iterable[_T],
    *,
    search: str | None = None,
    after: str = "",
) -> Table:
    """Return a table with a row for each thing; a column is its head, an l or an r, and a function to its cell.

    A column that is None is left out.
    """
    shown = [column for column in columns if column is not None]
    rows = tuple(tuple(cell(each) for _, _, cell in shown) for each in things)
    return Table(
        caption, tuple(head for head, _, _ in shown), rows, "".join(align for _, align, _ in shown), search, after
    )


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two."""

    text: str

    def text_lines(self, most: int) -> list[str]:
        """Return it for a terminal."""
        return wrapped(self.text, most)


@dataclass(frozen=True)
class Bullets:
    """Sentences, each by itself."""

    lines: tuple[str, ...]

    def text_lines(self, most: int) -> list[str]:
        """Return them for a terminal."""
        return [line for each in self.lines for line in _beside("-", wrapped(each, most - 2), 2)]


@dataclass(frozen=True)
class Facts:
    """Names with their values; ``code`` sets values in a fixed-width font, as one would type them."""

    lines: tuple[tuple[str, str], ...]
    code: bool = False

    def text_lines(self, most: int) -> list[str]:
        """Return them for a terminal."""
        label = min(max((width(name) for name, _ in self.lines), default=0) + 2, 24)
        parts = ((cut(name, label - 1), wrapped(value, most - label)) for name, value in self.lines)
        return [line for name, value in parts for line in _beside(name, value, label)]


@dataclass(frozen=True)
class Command:
    """A command to copy."""

    text: str

    def text_lines(self, most: int) -> list[str]:
        """Return it for a terminal, whatever its width."""
        return [f"  {self.text}"]


@dataclass(frozen=True)
class Picture:
    """A picture; ``table`` holds the same figures for those who do not see it, ``after`` is a line below it."""

    svg: Svg
    caption: str
    table: Table | None = None
    after: str = ""

    def text_lines(self, most: int) -> list[str]:
        """Return nothing: a terminal shows no picture."""
        return []


Part: TypeAlias = "Table | Paragraph | Bullets | Facts | Command | Picture"


@dataclass(frozen=True)
class Section:
    """A title and its parts; one that is ``folded`` opens at a click."""

    anchor: str
    title: str
    parts: tuple[Part, ...]
    folded: bool = False

    def text_lines(self, most: int) -> list[str]:
        """Return it for a terminal."""
        lines = [self.title, "-" * width(self.title)]
        for place, part in enumerate(self.parts):
            lines += [""] if place and not isinstance(part, Paragraph) else []
            lines += wrapped(f"{part.caption}:", most) if isinstance(part, Table) else []
            lines += part.text_lines(most)
        return lines


@dataclass(frozen=True)
class Verdict:
    """MET, EXCEEDED, UNCLEAR or NOT MEASURED, and the sentence that says it in figures."""

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
        mark = "; " if self.unit or " -> " in self.figure else ": "  # a detail adds to a figure, but explains a word
        return mark.join(filter(None, (first, self.detail)))


def what_it_costs(figure: str, unit: str = "", detail: str = "") -> Answer:
    """Return the answer to the second question."""
    return Answer("What does it cost?", "Cost", figure, unit, detail)


def can_rely(figure: str, *details: str) -> Answer:
    """Return the answer to the third question."""
    return Answer("Can I rely on it?", "Rely on it", figure, "", "; ".join(filter(None, details)))


@dataclass(frozen=True)
class Page:
    """Everything that is said of one result.

    ``table`` has a line for each limit; it stands on the first screen of a terminal, and a report shows the ``picture``
    in its place. ``more`` is a second table that both show. The parts ``beside`` are the report's right column.
    ``answers`` are in the order of the questions. ``warnings`` say what to do, ``next`` is one command that works, and
    ``next_tells`` says what it finds out. ``values`` is the whole result as plain values, for JSON; ``written`` are the
    files that were written.

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
    def left_column(self) -> tuple[Part, ...]:
        """The left column of a report's first screen."""
        first = self.table if self.picture is None or self.picture in self.beside else self.picture
        return tuple(part for part in (first, self.more) if part is not None)

    def text(self, *, verbose: bool = False, width: int = 80) -> str:
        """Return the page for a terminal: its first screen, with ``verbose`` all sections too."""
        most = max(width, _NARROWEST)
        first = [] if self.table is None else self.table.text_lines(most)
        if self.verdict is not None:
            word = self.verdict.word
            label = max(_LABEL, len(word) + 2)
            words = (
                wrapped(self.verdict.words, most - label) if self.table is None else self.table.text_lines(most - label)
            )
            first = _beside(word, words, label)
        answers = [_beside(each.name, wrapped(each.line, most - _LABEL)) for each in self.answers if each.name]
        answers += [_beside("!", wrapped(each, most - 2), 2) for each in self.warnings]
        blocks = [
            wrapped(self.title, most),
            first,
            [] if self.more is None else self.more.text_lines(most),
            [line for lines in answers for line in lines],
        ]
        blocks += [section.text_lines(most) for section in self.sections] if verbose else []
        written = [f"Wrote {', '.join(self.written)}."] if self.written else []
        blocks.append([*written, *self._next_lines(most)])
        blocks = [block for block in blocks if block]
        blanks = len(blocks) - 1 if verbose else min(len(blocks) - 1, _LINES - sum(map(len, blocks)))
        lines = [line for at, block in enumerate(blocks) for line in [*([""] if 0 < at <= blanks else []), *block]]
        return "\n".join(lines) + "\n"

    def _next_lines(self, most: int) -> Iterator[str]:
        """What to do next; a command that is too long for a line stands on lines of its own, to be copied as it is."""
        command, lead = self.next, f"Next{self.next_tells and f', {self.next_tells}'}:"
        if not command:
            return
        if width(f"{lead} {command}") <= most:
            yield f"{lead} {command}"
            return
        yield lead
        if width(command) <= most - 2:
            yield f"  {command}"
            return
        words = [shlex.quote(word) for word in shlex.split(command)]  # a word in quotes stays whole
        lines = [""]
        while words:
            valued = words[0].startswith("-") and len(words) > 1 and not words[1].startswith("-")
            part, words = " ".join(words[: 1 + valued]), words[1 + valued :]  # an option stays with its value
            if lines[-1] and width(lines[-1]) + width(part) + 5 > most:
                lines.append("")
            lines[-1] += f" {part}" if lines[-1] else part
        yield from (f"  {line} \\" for line in lines[:-1])
        yield f"  {lines[-1]}"

    def html(self) -> str:
        """Return the page as one HTML document: it opens offline, and no script but its own may run in it."""
        script = files("logofair.words").joinpath("script.js").read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
        return self._rendered("page.html.j2", script=Markup(script), allowed=allowed)

    def _repr_html_(self) -> str:
        """Return the first screen for a notebook."""
        return self._rendered("fragment.html.j2")

    def _rendered(self, template: str, **parts: str) -> str:
        style = Markup(files("logofair.words").joinpath("style.css").read_text("utf-8")) + charts.STYLE
        return _environment().get_template(template).render(page=self, marks=_MARKS, style=style, **parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report, one HTML file for any browser, a phone and paper; an existing one is replaced at once."""
        put_whole(path, self.html().encode("utf-8", "backslashreplace"))

    def plot(self) -> Svg:
        """Return the picture of the page."""
        none = "Nothing to draw: no requirement, or nobody to measure it on."
        return Svg.empty(none) if self.picture is None else self.picture.svg


def templates(finalize: Callable[[object], object], *, autoescape: bool) -> Environment:
    """Return the Jinja environment of these pages: every value passes ``finalize``, and none may be missing."""
    return Environment(
        loader=PackageLoader("logofair.words"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The environment for HTML: every value is escaped."""
    made = templates(lambda value: value if isinstance(value, Markup) else _readable(str(value)), autoescape=True)
    made.tests["cell"] = lambda value: isinstance(value, Cell)
    made.filters["kind"] = lambda value: type(value).__name__
    # A line breaks between words alone, never within --option.
    word = Markup("<span>{}</span>")
    made.filters["as_typed"] = lambda typed: Markup(" ").join(word.format(each) for each in harmless(typed).split(" "))
    return made


def _readable(text: str) -> str:
    r"""Text for a browser: arrows, and words read from the right kept apart from the figures beside them.

    Examples
    --------
    >>> _readable("\u05d0\u05d1 1.0 -> 2.0")
    '\u2068אב\u2069 1.0 → 2.0'
    """
    return _FROM_THE_RIGHT.sub("\u2068\\g<0>\u2069", harmless(text).replace(" -> ", " → "))
