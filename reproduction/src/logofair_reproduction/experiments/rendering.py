"""A folder of results as files for readers: one HTML page, tables as Markdown and LaTeX, figures as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logofair.errors import InputError
from logofair.files.writing import put_whole
from logofair_reproduction.datasets import CATALOGUE
from logofair_reproduction.experiments.records import FILE, PACKED, read_records
from logofair_reproduction.experiments.scores import origin_of
from logofair_reproduction.experiments.summaries import Line, lines

if TYPE_CHECKING:
    from logofair_reproduction.experiments.claims import Verdict

__all__ = ["Rendered", "check_packages", "render"]

# Rows of the data sets as the paper tells them, and in words.
_OF_PAPER = {
    "adult": (45_000, "more than 45,000"),
    "enem": (1_400_000, "about 1.4 million"),
    "celeba": (200_000, "about 200,000 images"),
}


@dataclass(frozen=True)
class Rendered:
    """What a folder's results say: the lines of its tables, the verdicts on claims, and the files written."""

    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]
    files: tuple[Path, ...]


def check_packages() -> None:
    """Raise where a package is missing that :func:`render` needs, before hours are spent on what it shows."""
    from logofair_reproduction.experiments.drawing import need_matplotlib

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
    from logofair_reproduction.experiments.claims import verdicts

    found = lines(records)
    said, written = verdicts(found), list[Path]()
    for name, data in _contents(found, said, records, folder, cache):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        put_whole(path, data)
        written.append(path)
    return Rendered(tuple(found), tuple(said), tuple(written))


def _contents(
    found: Sequence[Line],
    said: Sequence[Verdict],
    records: Sequence[Mapping[str, Any]],
    folder: Path,
    cache: Path | None,
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of all files."""
    from logofair_reproduction.experiments.figures import by_experiment, figures_of
    from logofair_reproduction.experiments.page import RunAbout, page_html
    from logofair_reproduction.experiments.tables import as_latex, as_markdown, tables_of

    parts = by_experiment(found)
    tables = {name: tables_of(part) for name, part in parts.items()}
    figures = {name: figures_of(part) for name, part in parts.items()}
    data = {name: _rows_of(name, records, cache) for name in dict.fromkeys(line.place["data"] for line in found)}
    about = RunAbout(
        command=f"logofair reproduce {' '.join(parts)}",
        made=_dates(records, folder),
        data={name: words for name, words in data.items() if words},
        versions=_versions(records),
    )
    yield "page.html", page_html(found, about=about, verdicts=said, tables=tables, figures=figures).encode()
    for name, as_words in (("tables.md", as_markdown), ("tables.tex", as_latex)):
        yield name, ("\n\n".join(as_words(table) for made in tables.values() for table in made) + "\n").encode()
    for figure in (figure for made in figures.values() for figure in made):
        yield f"figures/{figure.name}.svg", figure.svg.encode()
        yield f"figures/{figure.name}.png", figure.png


def _dates(records: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """On which days the results were measured; that of their file where they do not tell."""
    days = {record["date"] for record in records if "date" in record}
    if any("date" not in record for record in records):
        paths = [path for name in (PACKED, FILE) if (path := folder / name).is_file()]
        days |= {date.fromtimestamp(path.stat().st_mtime).isoformat() for path in paths}
    return " to ".join(dict.fromkeys((min(days), max(days))))


def _versions(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """All versions that results were measured and models trained with, and the devices, by name."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in chain(record.get("versions", {}).items(), record.get("trained_with", {}).items()):
            found.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in found.items()}


def _rows_of(name: str, records: Sequence[Mapping[str, Any]], cache: Path | None) -> str:
    """What the rows of a data set are, run by run: how many, of how many, of which year; and how many the paper has."""
    runs: dict[int | None, list[Mapping[str, Any]]] = {}
    for record in records:
        if record["data"] == name and "rows" in record:
            runs.setdefault(record["limit"], []).append(record)
    of_paper = f" (the paper: {_OF_PAPER[name][1]})" if runs and name in _OF_PAPER else ""
    return "; ".join(_sample_words(name, own, cache) for own in runs.values()) + of_paper


def _sample_words(name: str, records: Sequence[Mapping[str, Any]], cache: Path | None) -> str:
    """What the rows of some records are; prepared data tell it of records that do not."""
    rows = max(sum(record["rows"].values()) for record in records)
    sample = next((record["sample"] for record in reversed(records) if "sample" in record), None)
    if sample is None:
        sample = origin_of(name, cache)
    drawn = records[0]["limit"] is not None and sample.get("of") != rows
    of = f" of {sample['of']:,}" if drawn and "of" in sample else ""
    words = f"{rows:,}{of} rows" + (f" of {sample['year']}" if "year" in sample else "")
    words += ", drawn at random" if drawn else ""
    natural = CATALOGUE[name].natural_clients
    words += f", {sample['natural']:,} natural clients ({natural})" if natural and "natural" in sample else ""
    return f"a sample: {words}" if drawn or rows < _OF_PAPER.get(name, (0,))[0] else words
