"""The one way of all text to a terminal: control characters are shown and not obeyed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from logofair.columns.harmless import harmless


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
