"""What commands print with: a page on standard output, progress on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich import progress as bars
from rich.console import Console, ConsoleOptions
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from logofair.cli.group import unfiltered
from logofair.columns.harmless import harmless
from logofair.progress import Progress, no_progress

if TYPE_CHECKING:
    from logofair.outcomes import Outcomes
    from logofair.words.sections import Page, Part

_T = TypeVar("_T")

_WIDTH = 80


class _Progress(Console):
    """Standard error, on which text is written as it is and not as a terminal would obey it."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render something to text and its styles."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(harmless(part.text), part.style)


@contextmanager
def showing_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Show progress on standard error while work goes on; silent if asked or where no terminal shows it."""
    console = _Progress(file=unfiltered(sys.stderr))
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


def print_parts(*parts: Part) -> None:
    """Print parts of a page, a blank line between them."""
    click.echo("\n\n".join("\n".join(part.text_lines(_WIDTH)) for part in parts))


_COLOURS = {"MET": "green", "EXCEEDED": "red", "UNCLEAR": "yellow"}
_STATES = re.compile(r"\b(MET|EXCEEDED|UNCLEAR|met|exceeded|unclear)(?=  |$)", re.MULTILINE)


def show(shown: Page, *, as_json: bool = False, verbose: bool = False, **first: Any) -> None:
    """Print a page, or its values as JSON behind ``first``; a terminal has colours where words say the same."""
    if as_json:
        print_json(first | shown.values)
        return
    console = Console(file=unfiltered(sys.stdout))  # 80 columns, whatever it is connected to but a narrower terminal
    text = shown.text(verbose=verbose, width=min(console.width, _WIDTH) if console.is_terminal else _WIDTH)
    text = harmless(text)
    if console.is_terminal and not console.no_color:
        text = _STATES.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0].upper()]), text)
    console.file.write(text)


def fail_build(outcomes: Outcomes, fail_on: str | None, annotate: str | None) -> int:
    """Print what fails a build on standard error, a line each; return the exit code."""
    from logofair.words.gate import failing_lines

    lines = failing_lines(outcomes, fail_on, annotate=annotate) if fail_on else []
    for line in lines:
        click.echo(line, err=True)
    return 1 if lines else 0


def print_json(values: Any) -> None:
    """Print plain values as JSON."""
    click.echo(json.dumps(values, indent=2, allow_nan=False))
