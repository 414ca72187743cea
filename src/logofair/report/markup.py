"""HTML and SVG as a tree of elements: text is escaped when it is rendered, so no name in the data can become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

__all__ = ["Attribute", "Element", "Node", "Section", "Trusted", "note", "paragraph", "render", "render_section", "tag"]


_VOID = frozenset({"br", "col", "input", "link", "meta"})
# Control characters, halves of surrogate pairs (which UTF-8 cannot hold) and what Unicode calls no characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True)
class Trusted:
    """Markup of our own (style, script, a finished picture) that is written as it is: never data.

    Examples
    --------
    >>> render(Trusted("<hr>"))
    '<hr>'
    """

    markup: str


@dataclass(frozen=True)
class Element:
    """An element with its attributes and children; build one with :func:`tag`.

    Examples
    --------
    >>> str(Element("p", (("class", "note"),), ("Hello",)))
    '<p class="note">Hello</p>'
    """

    name: str
    attributes: tuple[tuple[str, str | None], ...]
    children: tuple[Node, ...]

    def __str__(self) -> str:
        return render(self)


Node: TypeAlias = Element | Trusted | str | None
Attribute: TypeAlias = str | float | bool | None


def tag(name: str, /, *children: Node | Iterable[Node], **attributes: Attribute) -> Element:
    """Return an element; ``class_`` and ``aria_label`` become ``class`` and ``aria-label``.

    Attributes that are None or False are left out, and those that are True have no value. Children may be nested in
    lists; None is nothing.

    Examples
    --------
    >>> print(tag("a", "<script>", href="#client-1", class_="name", hidden=False))
    <a href="#client-1" class="name">&lt;script&gt;</a>
    """
    written = tuple(
        (key.rstrip("_").replace("_", "-"), None if value is True else _text(value))
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Element(name, written, tuple(_flat(children)))


def render(node: Node) -> str:
    """Return the markup of a tree.

    Examples
    --------
    >>> render(tag("p", "5 < 6", tag("br"), Trusted("&middot;")))
    '<p>5 &lt; 6<br>&middot;</p>'
    """
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
