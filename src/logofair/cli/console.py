"""What commands print with: a page on standard output, progress on standard error, tables, notes and figures."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich import box
from rich import progress as bars
from rich.console import Console, ConsoleOptions
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table

from logofair.cli.group import unfiltered
from logofair.columns.harmless import harmless
from logofair.progress import Progress, no_progress

if TYPE_CHECKING:
    from logofair.words.sections import Page

_T = TypeVar("_T")

_WIDTH = 80


class _Page(Console):
    """A console that obeys no control character in the text it is given."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render something to text and its styles."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(harmless(part.text), part.style)


def page() -> Console:
    """Standard output, 80 columns wide whatever it is connected to, narrower only in a narrower terminal."""
    console = _Page(file=unfiltered(sys.stdout), highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
    return console


@contextmanager
def showing_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Show progress on standard error while work goes on; silent if asked or where no terminal shows it."""
    console = _Page(file=unfiltered(sys.stderr))
    if quiet or not console.is_terminal:
        yield no_progress
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console, transient=True) as shown:
        starting = shown.add_task("Starting", total=None)  # libraries take their time to load

        def progress(steps: Iterable[_T], what: str, total: int) -> Iterable[_T]:
            shown.update(starting, visible=False)
            return shown.track(steps, total=total, description=what)

        yield progress


def print_page(parts: Sequence[Any], console: Console) -> None:
    """Print parts one after another, without the spaces that would fill lines up to the page's width."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


_COLOURS = {"MET": "green", "EXCEEDED": "red", "UNCLEAR": "yellow"}
_STATES = re.compile(r"\b(MET|EXCEEDED|UNCLEAR|met|exceeded|unclear)(?=  |$)", re.MULTILINE)


def show(shown: Page, *, as_json: bool = False, verbose: bool = False, **first: Any) -> None:
    """Print a page, or its values as JSON behind ``first``; a terminal has colours where words say the same."""
    if as_json:
        print_json(first | shown.values)
        return
    console = page()
    text = shown.text(verbose=verbose, width=console.width)
    if console.is_terminal and not console.no_color:
        text = _STATES.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0].upper()]), harmless(text))
        console.file.write(text)
        return
    console.file.write(harmless(text))


def print_json(values: Any) -> None:
    """Print plain values as JSON."""
    click.echo(json.dumps(values, indent=2, allow_nan=False))


def notes(lines: Iterable[tuple[str, str]]) -> Table:
    """Sentences, each beside the word it explains."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def grid(*headers: str, left: int = 1, padding: int = 2) -> Table:
    """An empty table whose first columns are text and the others figures."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, padding, 0, 0))
    for place, header in enumerate(headers):
        text = place < left
        table.add_column(header, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    return table


def lined(lines: Sequence[Sequence[str]]) -> Table:
    """A table of these lines, the first its head."""
    head, *others = lines
    table = grid(*head)
    for line in others:
        table.add_row(*line)
    return table


def titled(title: str, sentences: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Sentences, the first beside a title."""
    for sentence in sentences:
        yield title, sentence
        title = ""
