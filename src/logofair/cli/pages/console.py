"""Where commands print: a page on standard output, progress on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich import progress as bars
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn

from logofair.progress import Progress, no_progress

__all__ = ["page", "showing_progress"]


T = TypeVar("T")

_WIDTH = 80


def page() -> Console:
    """Standard output, 80 columns wide whatever it is connected to, narrower only in a narrower terminal.

    Examples
    --------
    >>> page().width <= 80
    True
    """
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
    return console


@contextmanager
def showing_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Show progress on standard error while work goes on; silent if asked or where no terminal shows it.

    Examples
    --------
    >>> with showing_progress(quiet=True) as progress:
    ...     list(progress(range(3), "Counting", total=3))
    [0, 1, 2]
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield no_progress
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with bars.Progress(*columns, console=console, transient=True) as shown:

        def progress(steps: Iterable[T], what: str, total: int) -> Iterable[T]:
            return shown.track(steps, total=total, description=what)

        yield progress
