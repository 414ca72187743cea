"""Where commands print: a page on standard output, progress on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

__all__ = ["Watch", "page", "watching"]


T = TypeVar("T")

_WIDTH = 80


class Watch(Protocol):
    """Hands the steps of some work on, and shows how many are done."""

    def __call__(self, steps: Iterable[T], what: str, total: int) -> Iterable[T]:
        """Pass ``steps`` through."""


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
def watching(*, quiet: bool = False) -> Iterator[Watch]:
    """Show progress on standard error while work goes on; silent if asked or where no terminal shows it.

    Examples
    --------
    >>> with watching(quiet=True) as watch:
    ...     list(watch(range(3), "Counting", total=3))
    [0, 1, 2]
    """
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:

        def watch(steps: Iterable[T], what: str, total: int) -> Iterable[T]:
            return progress.track(steps, total=total, description=what)

        yield watch
