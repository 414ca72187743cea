"""A report is a tree of sections: titles and bodies as data, rendered once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logofair.report.markup import Element, Node, tag

__all__ = ["Section", "note", "paragraph", "render_section"]


@dataclass(frozen=True)
class Section:
    """A part of a report: its address, its title, what it says, and its own parts.

    Examples
    --------
    >>> section = Section("rules", "The rules", (paragraph("Accept from 0.5."),))
    >>> [part.title for part in section.walk()]
    ['The rules']
    """

    anchor: str
    title: str
    body: tuple[Node, ...]
    children: tuple[Section, ...] = ()

    def walk(self) -> Iterator[Section]:
        """The section and all sections inside it, in reading order."""
        yield self
        for child in self.children:
            yield from child.walk()


def render_section(section: Section, level: int = 2) -> Element:
    """Return a section as markup, with its heading at a level and those of its parts below.

    Examples
    --------
    >>> str(render_section(Section("rules", "The rules", ("All.",))))
    '<section id="rules" aria-labelledby="rules-title"><h2 id="rules-title">The rules</h2>All.</section>'
    """
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
    """Return a paragraph.

    Examples
    --------
    >>> str(paragraph("One ", tag("b", "two")))
    '<p>One <b>two</b></p>'
    """
    return tag("p", words)


def note(*words: Node) -> Element:
    """Return a paragraph in small print.

    Examples
    --------
    >>> str(note("Counted with labels."))
    '<p class="note">Counted with labels.</p>'
    """
    return tag("p", words, class_="note")
