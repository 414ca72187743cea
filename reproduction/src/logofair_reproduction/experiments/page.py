"""A folder of results as files for readers: one HTML page with all of it, and the tables as Markdown."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, StrictUndefined

from logofair.errors import InputError
from logofair.files.writing import put_whole
from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.claims import CLAIMS, SIGNS_MEAN, Claim, judge, matrix
from logofair_reproduction.experiments.experiment import load_experiment
from logofair_reproduction.experiments.figures import figures_of
from logofair_reproduction.experiments.records import FILE, read_records
from logofair_reproduction.experiments.summaries import PLACE, lines, measured
from logofair_reproduction.experiments.tables import Table, as_markdown, p_words, tables_of

# Rows of the data sets as the paper tells them, and in words.
_OF_PAPER = {
    "adult": (45_000, "more than 45,000"),
    "enem": (1_400_000, "about 1.4 million"),
    "celeba": (200_000, "about 200,000 images"),
}
_WORDS = {"local_gap_30": "local gap (30+ rows)", "above_floor": "local gap less the floor at the tolerance"}


def render(folder: Path) -> list[Table]:
    """Write page.html and tables.md of all results in a folder; return the tables, last the one of verdicts."""
    records = read_records(folder)
    if not records:
        raise InputError(f"{folder}: holds no results ({FILE}); name a folder of logofair reproduce.")
    found = measured(records)
    tables, (verdicts, comparisons) = tables_of(found), judge(found)
    signs = Table("", "Verdicts by data set and notion", SIGNS_MEAN, matrix(verdicts))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode()
    template = files("logofair_reproduction.experiments").joinpath("page.html.jinja").read_text("utf-8")
    page = environment.from_string(template).render(
        about=list(_about(records, found)),
        matrix=signs,
        claims=list(_by_claim(verdicts, comparisons)),
        plans=[load_experiment(name)[0] for name in found["experiment"].unique(maintain_order=True)],
        figures=figures_of(lines(found)),
        tables=tables,
    )
    put_whole(folder / "page.html", page.encode())
    put_whole(folder / "tables.md", "\n".join(map(as_markdown, [signs, *tables])).encode())
    return [*tables, signs]


def _about(records: Sequence[Mapping[str, Any]], found: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """What the results were measured on, when, with which versions, and what makes them again."""
    for name in found["data"].unique(maintain_order=True):
        rows = _rows_of(name, records)
        yield "Data", f"{CATALOGUE[name].title}: {CATALOGUE[name].summary} {rows[:1].upper()}{rows[1:]}"
    seeds = _range(found.group_by(*PLACE).len()["len"])
    yield "Seeds", f"{seeds} for each figure; each deals the rows to clients and parts anew"
    if days := [record["date"] for record in records if "date" in record]:
        yield "Measured", _range(days)
    versions: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in (*record.get("versions", {}).items(), *record.get("trained_with", {}).items()):
            versions.setdefault(name, {})[value] = None
    yield "Versions", ", ".join(f"{name} {' and '.join(values)}" for name, values in versions.items())
    yield "Command", f"logofair reproduce {' '.join(found['experiment'].unique(maintain_order=True))}"


def _range(values: Iterable[Any]) -> str:
    """The least and the largest, or the only one."""
    known = sorted(values)
    return " to ".join(dict.fromkeys((f"{known[0]}", f"{known[-1]}")))


def _rows_of(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """What the rows of a data set are, run by run: how many, of how many, of which year; and how many the paper has."""
    runs = {record["limit"]: record for record in records if record["data"] == name and "rows" in record}
    least, of_paper = _OF_PAPER.get(name, (0, ""))
    said = []
    for limit, record in runs.items():
        rows, sample = sum(record["rows"].values()), record.get("sample", {})
        drawn = limit is not None and sample.get("of") != rows
        words = f"{rows:,} of {sample['of']:,} rows" if drawn and "of" in sample else f"{rows:,} rows"
        words += f" of {sample['year']}" if "year" in sample else ""
        words += ", drawn at random" if drawn else ""
        natural = CATALOGUE[name].natural_sites
        words += f", {sample['natural']:,} natural clients ({natural})" if natural and "natural" in sample else ""
        said.append(f"a sample: {words}" if drawn or rows < least else words)
    return "; ".join(said) + (f" (the paper: {of_paper})" if said and of_paper else "")


def _by_claim(verdicts: pl.DataFrame, comparisons: pl.DataFrame) -> Iterator[tuple[Claim, pl.DataFrame, pl.DataFrame]]:
    """Each claim with a table of its verdicts, and one of what they rest on."""
    for claim in CLAIMS:
        own = verdicts.filter(pl.col("claim") == claim.short)
        place = pl.col("columns").list.join(", ").alias("place")
        rests = comparisons.filter(pl.col("claim") == claim.short).iter_rows(named=True)
        yield claim, own.select(place, pl.exclude("source", "claim", "columns")), pl.DataFrame(map(_compared, rests))


def _compared(row: Mapping[str, Any]) -> dict[str, str]:
    """A comparison in words."""
    reach = "one seed" if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}, p {p_words(row['p'])}"
    return {
        "place": row["place"],
        "where": row["where"],
        "figure": _WORDS.get(row["figure"], row["figure"].replace("_", " ")),
        "of": f"{row['one']} {row['one_mean']:.4f}",
        "less": f"{row['other']} {row['other_mean']:.4f}" if row["other"] else "",
        "difference": f"{row['mean']:+.4f} ({reach}; same sign in {row['alike']} of {row['runs']})",
        "state": row["state"],
        "remark": row["remark"] or "",
    }
