"""A folder of results as files for readers: one HTML page, tables as Markdown and LaTeX, figures as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logofair.errors import InputError
from logofair.experiments.records import FILE, read_records
from logofair.experiments.summaries import Line, lines
from logofair.files.writing import put_whole

if TYPE_CHECKING:
    from logofair.experiments.claims import Verdict

__all__ = ["Rendered", "render"]


@dataclass(frozen=True)
class Rendered:
    """What a folder's results say: the lines of its tables, the verdicts on the paper's claims, the files written."""

    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]
    files: tuple[Path, ...]


def render(folder: Path) -> Rendered:
    """Write the page, the tables and the figures of all results in a folder; nothing is trained or measured.

    Examples
    --------
    >>> render(Path("nowhere"))
    Traceback (most recent call last):
    logofair.errors.InputError: nowhere: holds no results (results.jsonl); name a folder of logofair reproduce.
    """
    found = lines(read_records(folder))
    if not found:
        raise InputError(f"{folder}: holds no results ({FILE}); name a folder of logofair reproduce.")
    from logofair.experiments.claims import verdicts

    written: list[Path] = []
    for name, data in _contents(found):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        put_whole(path, data)
        written.append(path)
    return Rendered(tuple(found), tuple(verdicts(found)), tuple(written))


def _contents(found: list[Line]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of all files."""
    from logofair.experiments.figures import figures_of
    from logofair.experiments.page import page_html
    from logofair.experiments.tables import as_latex, as_markdown, tables_of

    yield "page.html", page_html(found).encode()
    tables = tables_of(found)
    yield "tables.md", "\n\n".join(map(as_markdown, tables)).encode() + b"\n"
    yield "tables.tex", "\n\n".join(map(as_latex, tables)).encode() + b"\n"
    for figure in figures_of(found):
        yield f"figures/{figure.name}.svg", figure.svg.encode()
        yield f"figures/{figure.name}.png", figure.png
