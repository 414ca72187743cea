"""A page in a terminal: the verdict, the table of limits, an answer for each question, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from logofair.words.phrases import columns_text, cut, width, wrapped
from logofair.words.sections import Bullets, Cell, CellText, Command, Facts, Page, Paragraph, Part, Section, Table

_LINES = 20  # of one screen: where there is more to say, blank lines go first
_LABEL = 11  # columns of the word that a line begins with
_NARROWEST = 40
_NAMES = 12  # columns that names have at least


def page_text(page: Page, *, verbose: bool, width: int) -> str:
    """Return a page as lines of at most so many columns."""
    most = max(width, _NARROWEST)
    blocks = [wrapped(page.title, most)]
    if page.verdict is not None:
        blocks.append(list(_verdict_lines(page, most)))
    elif page.table is not None:
        blocks.append(list(_table_lines(page.table, most)))
    answers = [line for each in page.answers if each.name for line in _labelled(each.name, each.line, most)]
    if page.more is not None:
        blocks.append(list(_table_lines(page.more, most)))
    warnings = [line for text in page.warnings for line in _labelled("!", text, most, label=2)]
    blocks.append([*answers, *warnings])
    if verbose:
        blocks += [list(_section_lines(section, most)) for section in page.sections]
    written = [f"Wrote {', '.join(page.written)}."] if page.written else []
    blocks.append([*written, *_next_lines(page, most)])
    blocks = [block for block in blocks if block]
    apart = min(len(blocks) - 1, _LINES - sum(map(len, blocks))) if not verbose else len(blocks) - 1
    lines = [line for at, block in enumerate(blocks) for line in [*([""] if 0 < at <= apart else []), *block]]
    return "\n".join(lines) + "\n"


def _verdict_lines(page: Page, most: int) -> Iterator[str]:
    """The verdict in one word beside the table of limits, or beside its sentence where there is no table."""
    assert page.verdict is not None
    word = page.verdict.word
    label = max(_LABEL, len(word) + 2)
    if page.table is None:
        yield from _labelled(word, page.verdict.words, most, label=label)
        return
    for place, line in enumerate(_table_lines(page.table, most - label)):
        yield f"{word if place == 0 else '':<{label}}{line}".rstrip()


def _table_lines(table: Table, most: int) -> Iterator[str]:
    """A table whose first column gives way where the page is too narrow for its names."""
    lines = [[_text(cell) for cell in line] for line in (table.head, *table.rows)]
    figures = sum(max(width(line[at]) for line in lines) for at in range(1, len(table.align)))
    wanted = max(width(line[0]) for line in lines)
    apart = 3 if wanted + figures + 3 * (len(table.align) - 1) <= most else 2
    names = max(_NAMES, most - figures - apart * (len(table.align) - 1))
    *above, head = wrapped(lines[0][0], names)
    lines = [[cut(head, names), *lines[0][1:]], *([cut(line[0], names), *line[1:]] for line in lines[1:])]
    yield from (cut(line, names) for line in above)
    yield from columns_text(_last_wrapped(lines, table.align, most, apart), table.align, apart=apart)
    if table.after:
        yield from wrapped(table.after, most)


def _last_wrapped(lines: list[list[str]], align: str, most: int, apart: int) -> list[list[str]]:
    """Lines of which the last cell, where it is a sentence that is too long, goes on below itself."""
    room = most - sum(max(width(line[at]) for line in lines) + apart for at in range(len(align) - 1))
    if align[-1] != "l" or max(width(line[-1]) for line in lines) <= room or room < _NAMES:
        return lines
    found = []
    for line in lines:
        first, *others = wrapped(line[-1], room)
        found += [[*line[:-1], first], *([*[""] * (len(align) - 1), each] for each in others)]
    return found


def _text(cell: CellText) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _labelled(name: str, text: str, most: int, label: int = _LABEL) -> Iterator[str]:
    """Text beside a word; its further lines stand below the text."""
    for place, line in enumerate(wrapped(text, most - label)):
        yield f"{name if place == 0 else '':<{label}}{line}".rstrip()


def _next_lines(page: Page, most: int) -> Iterator[str]:
    """What to do next; a command that is too long for a line stands on lines of its own, to be copied as it is."""
    command, lead = page.next, f"Next{page.next_tells and f', {page.next_tells}'}:"
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


def _section_lines(section: Section, most: int) -> Iterator[str]:
    yield section.title
    yield "-" * width(section.title)
    for place, part in enumerate(section.parts):
        if place and not isinstance(part, Paragraph):
            yield ""
        yield from _part_lines(part, most)


def _part_lines(part: Part, most: int) -> Iterator[str]:
    """One part of a section; pictures are left to those who can show them."""
    if isinstance(part, Paragraph):
        yield from wrapped(part.text, most)
    elif isinstance(part, Bullets):
        for line in part.lines:
            yield from _labelled("-", line, most, label=2)
    elif isinstance(part, Command):
        yield f"  {part.text}"
    elif isinstance(part, Facts):
        label = min(max((width(name) for name, _ in part.lines), default=0) + 2, 24)
        for name, value in part.lines:
            yield from _labelled(cut(name, label - 1), value, most, label=label)
    elif isinstance(part, Table):
        yield from wrapped(f"{part.caption}:", most)
        yield from _table_lines(part, most)
