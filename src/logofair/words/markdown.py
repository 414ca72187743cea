"""Markdown in which names from data stay text, and YAML in which they stay strings."""

from __future__ import annotations

import re
from typing import Any

from logofair.columns.harmless import harmless

_MARKS = re.compile(r"([\\`*_\[\]<>#|~&!$]|:(?=//))")
# What YAML does not take as it is, and the line ends and marks of direction that it does.
_UNQUOTED = re.compile(
    "[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    '|["\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]'
)


def one_line(text: object) -> str:
    r"""Return text on one line; control characters, line ends among them, are written as escapes.

    Examples
    --------
    >>> print(one_line("north\nsouth\x1b[2J"))
    north\nsouth\x1b[2J
    """
    return harmless(str(text)).replace("\t", "\\t").replace("\n", "\\n")


class Markdown(str):
    """Text that is Markdown already, and not escaped again."""


def escaped(text: object) -> Markdown:
    r"""Return text as Markdown that shows it as it is.

    Examples
    --------
    >>> print(escaped("*bold* | <b> [link](x)"))
    \*bold\* \| \<b\> \[link\](x)
    """
    return Markdown(_MARKS.sub(r"\\\1", one_line(text)))


def code(text: object) -> Markdown:
    """Return text as code of Markdown.

    Examples
    --------
    >>> print(code("a `b` c"))
    `` a `b` c ``
    """
    line = one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if "`" in line else ""
    return Markdown(f"{fence}{space}{line}{space}{fence}")


def yaml_lines(value: Any, depth: int = 0) -> list[str]:
    r"""Return plain values as lines of YAML; text is quoted, so that none is read as anything else.

    Examples
    --------
    >>> print("\n".join(yaml_lines({"tags": ["yes", 'a: "b"'], "metrics": [{"type": "x", "value": 0.5}]})))
    tags:
    - "yes"
    - "a: \"b\""
    metrics:
    - type: "x"
      value: 0.5
    """
    indent, lines = "  " * depth, []
    if isinstance(value, dict):
        for name, part in value.items():
            inner = yaml_lines(part, depth + isinstance(part, dict)) if isinstance(part, dict | list) else []
            lines += [f"{indent}{name}:", *inner] if inner else [f"{indent}{name}: {_scalar(part)}"]
        return lines
    for part in value:
        inner = yaml_lines(part, depth + 1) if isinstance(part, dict) else [f"{indent}  {_scalar(part)}"]
        lines += [f"{indent}- {inner[0].strip()}", *inner[1:]]
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return f'"{_UNQUOTED.sub(_yaml_escape, value)}"'
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _yaml_escape(found: re.Match[str]) -> str:
    character, number = found[0], ord(found[0])
    if character in '"\\':
        return f"\\{character}"
    return f"\\u{0xFFFD if 0xD800 <= number < 0xE000 else number:04x}"
