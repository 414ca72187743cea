"""A folder of results as files for readers: one HTML page, tables as Markdown and LaTeX, figures as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logofair.datasets import CATALOGUE
from logofair.datasets.preparing import cache_folder, check_about, is_prepared
from logofair.errors import InputError
from logofair.experiments.records import FILE, read_records
from logofair.experiments.summaries import Line, lines
from logofair.files.writing import put_whole

if TYPE_CHECKING:
    from logofair.experiments.claims import Verdict

__all__ = ["Rendered", "check_packages", "render"]

# Rows of the data sets as the paper tells them.
_OF_PAPER = {"adult": "more than 45,000", "enem": "about 1.4 million", "celeba": "about 200,000 images"}


@dataclass(frozen=True)
class Rendered:
    """What a folder's results say: the lines of its tables, the verdicts on claims, and the files written."""

    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]
    files: tuple[Path, ...]


def check_packages() -> None:
    """Raise where a package is missing that :func:`render` needs, before hours are spent on what it shows."""
    from logofair.experiments.drawing import need_matplotlib

    need_matplotlib()


def render(folder: Path, cache: Path | None = None) -> Rendered:
    """Write the page, the tables and the figures of all results in a folder; nothing is trained or measured.

    ``cache`` is the folder of prepared data, where rows are counted.

    Examples
    --------
    >>> render(Path("nowhere"))
    Traceback (most recent call last):
    logofair.errors.InputError: nowhere: holds no results (results.jsonl); name a folder of logofair reproduce.
    """
    records = read_records(folder)
    if not records:
        raise InputError(f"{folder}: holds no results ({FILE}); name a folder of logofair reproduce.")
    from logofair.experiments.claims import verdicts

    found = lines(records)
    said, written = verdicts(found), list[Path]()
    for name, data in _contents(found, said, records, cache):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        put_whole(path, data)
        written.append(path)
    return Rendered(tuple(found), tuple(said), tuple(written))


def _contents(
    found: Sequence[Line], said: Sequence[Verdict], records: Sequence[Mapping[str, Any]], cache: Path | None
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of all files."""
    from logofair.experiments.figures import by_experiment, figures_of
    from logofair.experiments.page import RunAbout, page_html
    from logofair.experiments.tables import as_latex, as_markdown, tables_of

    parts = by_experiment(found)
    tables = {name: tables_of(part) for name, part in parts.items()}
    figures = {name: figures_of(part) for name, part in parts.items()}
    data = {name: _rows_of(name, records, cache) for name in dict.fromkeys(line.place["data"] for line in found)}
    about = RunAbout(
        command=f"logofair reproduce {' '.join(parts)}",
        made=date.today().isoformat(),
        data={name: words for name, words in data.items() if words},
        versions=records[-1].get("versions", {}),
    )
    yield "page.html", page_html(found, about=about, verdicts=said, tables=tables, figures=figures).encode()
    for name, as_words in (("tables.md", as_markdown), ("tables.tex", as_latex)):
        yield name, ("\n\n".join(as_words(table) for made in tables.values() for table in made) + "\n").encode()
    for figure in (figure for made in figures.values() for figure in made):
        yield f"figures/{figure.name}.svg", figure.svg.encode()
        yield f"figures/{figure.name}.png", figure.png


def _rows_of(name: str, records: Sequence[Mapping[str, Any]], cache: Path | None) -> str:
    """How many rows the splits of a data set have, of which year where that is known, and how many the paper has."""
    sizes = [sum(record["rows"].values()) for record in records if record["data"] == name and "rows" in record]
    if not sizes:
        return ""
    folder = cache_folder(name, cache)
    prepared = CATALOGUE[name].needs_files and is_prepared(folder)
    year = check_about(folder, name).get("year") if prepared else None
    words = f"{max(sizes):,} rows" + (f" of {year}" if year else "")
    return f"{words} (the paper: {_OF_PAPER[name]})" if name in _OF_PAPER else words
