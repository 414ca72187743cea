"""Text that may hold anything, on its way to a terminal: control characters are shown and not obeyed.

Names, notes and cells come from files and from other machines. What they hold could move a terminal's cursor, forge
lines or change what is copied, so all that commands print passes through here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["harmless", "harmless_streams", "unfiltered"]

# All but tab and line feed, and the marks that reverse the order in which text is shown.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    r"""Return text in which control characters are written as escapes.

    Examples
    --------
    >>> print(harmless("north\x1b[2J\rsouth"))
    north\x1b[2J\rsouth
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _HarmlessStream:
    """A stream of text that writes nothing but harmless text."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        self.stream.write(harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def unfiltered(stream: TextIO) -> TextIO:
    """The stream behind one of ours, for what makes its own text harmless and uses control characters itself."""
    return stream.stream if isinstance(stream, _HarmlessStream) else stream


@contextmanager
def harmless_streams() -> Iterator[None]:
    """Let nothing but harmless text reach standard output and standard error while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_HarmlessStream(unfiltered(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
