"""Results as tables: figures with intervals and the paper's beside them, and methods compared on the same splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.experiment import METHODS, Experiment, load_experiment
from logofair_reproduction.experiments.summaries import differences, lines, short

_REFERENCE = "logofair_lg"  # the method that all others are compared with
_COLUMNS = {
    "accuracy": "accuracy",
    "local_gap": "local gap",
    "local_gap_30": "on 30+ rows",
    "floor": "floor",
    "floor_at_tolerance": "at tol.",
    "global_gap": "global gap",
}
_BARE = ("floor", "floor_at_tolerance")  # shown without an interval
_COMPARED = {"accuracy": "accuracy", "local_gap_30": "local gap, 30+ rows", "global_gap": "global gap"}
# What a table is about; its rows differ in the rest.
SUBJECT = ("experiment", "data", "sensitive", "limit", "scheme", "notion", "budget")


@dataclass(frozen=True, eq=False)
class Table:
    """A table of text from an experiment."""

    experiment: str
    title: str
    caption: str
    rows: pl.DataFrame


def tables_of(found: pl.DataFrame) -> list[Table]:
    """The tables of some records (:func:`summaries.measured`): one a subject, and one of differences if it has any."""
    made = []
    for part in found.partition_by(SUBJECT, maintain_order=True):
        plan = load_experiment(part["experiment"][0])[0]
        made.append(_results(plan, part))
        if plan.shows == "table" and len(plan.tolerances) == 1:
            made += _differences(plan, part)
    return made


def as_markdown(table: Table) -> str:
    """A table with its title and caption as Markdown, which terminals show as it is."""
    with pl.Config(
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=-1,
        fmt_str_lengths=1000,
    ):
        return f"### {table.title}\n\n{table.caption}\n\n{table.rows}\n"


def _results(plan: Experiment, found: pl.DataFrame) -> Table:
    """The figures of every method at every place; methods in the order of their list, in which bounds come last."""
    summed = lines(found)
    shown = summed.filter(pl.col("figure").is_in(list(_COLUMNS)))
    shown = shown.with_columns(cell=pl.Series([_cell(row) for row in shown.iter_rows(named=True)], dtype=pl.String))
    place = ["alpha", "clients", "method", "global_tolerance", "local_tolerance", "level", "solver_budget"]
    seeds = shown.group_by(place).agg(seeds=pl.col("seeds").max().cast(pl.String))
    # The protocol ends by itself: its rounds are measured.
    took = pl.format("{}, then it ends", pl.col("mean").round(2))
    own = summed.filter(pl.col("figure") == "rounds").select("method", took=took)
    wide = shown.pivot("figure", index=place, values="cell").join(seeds, on=place, nulls_equal=True)
    wide = wide.join(own, on="method", how="left").with_columns(
        rank=pl.col("method").replace_strict({name: number for number, name in enumerate(METHODS)})
    )
    names = {name: title for name, title in _COLUMNS.items() if name in wide.columns}
    methods = pl.col("method").replace({name: each.title for name, each in METHODS.items()})
    if plan.shows == "curve":
        at = [methods, pl.coalesce(short(plan.along), "took").alias(axis_of(plan))]
        wide = wide.sort("rank", plan.along, "solver_budget")
    elif len(plan.tolerances) > 1:
        at = [methods, short("local_tolerance"), short("global_tolerance")]
        wide = wide.sort("rank", "global_tolerance", "local_tolerance", "solver_budget")
    else:
        at = [short("alpha").fill_null("natural"), methods]
        wide = wide.sort("alpha", "rank", "solver_budget")
    rows = wide.select(*at, *(pl.col(name).alias(title) for name, title in names.items()), "seeds").fill_null("-")
    rows = rows.rename(lambda name: name.replace("_", " "))
    subject = subject_words(found.row(0, named=True))
    return Table(plan.name, f"{plan.title}: {subject}", _caption(plan, found, summed), rows)


def axis_of(plan: Experiment) -> str:
    """What a curve runs along, in a word."""
    levels = "rounds" if plan.name.startswith("rounds") else "epsilon"
    return levels if plan.along == "level" else plan.along


def _cell(row: Mapping[str, Any], *, signed: bool = False) -> str:
    """The mean and how far its interval reaches, in how many seeds it is defined if not in all, and the paper's."""
    text = f"{row['mean']:{'+' if signed else ''}.3f}"
    if row["high"] is not None and row["figure"] not in _BARE:
        text += f" ±{row['high'] - row['mean']:.3f}"
    if row["runs"] < row["seeds"]:
        text += f", {row['runs']} seeds"
    if row.get("claimed") is not None:
        text += f" ({row['claimed']:.4f}{'*' if row['doubt'] else ''})"
    return text


def subject_words(place: Mapping[str, Any]) -> str:
    """The rows that a table or a figure is about."""
    size = f", {place['limit']:,} rows of it" if place["limit"] else ""
    groups = f", groups by {place['sensitive']}" if place["sensitive"] else ""
    return CATALOGUE[place["data"]].title + size + groups


def _caption(plan: Experiment, found: pl.DataFrame, summed: pl.DataFrame) -> str:
    """What the figures are; the experiment's own sentence first."""
    kinds = {METHODS[name].title: METHODS[name] for name in found["method"].unique(maintain_order=True)}
    bounds = [title for title, method in kinds.items() if method.kind == "bound"]
    doubts = summed["doubt"].drop_nulls().unique(maintain_order=True).to_list()
    budget, most = found["budget"][0], found.filter(pl.col("method").str.starts_with("algorithm1"))["solver_budget"]
    said = [
        plan.about,
        "Means over seeds on test rows, with 95 % intervals (a gap is nowhere below 0);",
        f"{budget} {'setting' if budget == 1 else 'settings'} of each training method tried"
        + (f", {most[0] or 'all'} of Algorithm 1's." if len(most) else "."),
        "Local gap: the largest of any client; on 30+ rows: between rates on 30 rows or more. Floor: the largest local",
        "gap that a rule without any would show on these rows by chance; at tol.: one whose true gap is the tolerance.",
    ]
    if {method.kind for method in kinds.values()} - {"trained", "bound"}:
        said.append("Rules that toss coins are measured by their chances.")
    if bounds:
        said.append(f"Bounds are not methods; they are found with the test rows' labels: {'; '.join(bounds)}.")
    if summed["claimed"].drop_nulls().len():
        said.append("In brackets: the figure that the paper claims.")
    if doubts:
        said.append(f"*: no target, for the paper's figure {'; or '.join(doubts)}.")
    return " ".join(said)


def _differences(plan: Experiment, found: pl.DataFrame) -> Iterator[Table]:
    """LoGoFair_l&g less every other method on the same splits; none where there is nothing to compare."""
    parts = [
        differences(found, one, other, *_COMPARED).with_columns(less=pl.lit(label), rank=pl.lit(rank))
        for rank, (label, one, other) in enumerate(_pairs(found["method"].unique()))
    ]
    if not any(part.height for part in parts):
        return
    shown = pl.concat(parts)
    cells = [f"{_cell(row, signed=True)} (p {p_words(row['p'])})" for row in shown.iter_rows(named=True)]
    wide = shown.with_columns(cell=pl.Series(cells)).pivot("figure", index=["alpha", "rank", "less"], values="cell")
    wide = wide.join(shown.group_by("alpha", "less").agg(pl.col("seeds").max()), on=["alpha", "less"], nulls_equal=True)
    columns = [pl.col(name).alias(title) for name, title in _COMPARED.items() if name in wide.columns]
    rows = wide.sort("alpha", "rank").select(short("alpha").fill_null("natural"), "less", *columns, short("seeds"))
    yield Table(
        plan.name,
        f"Compared on the same splits. {plan.title}: {subject_words(found.row(0, named=True))}",
        f"{METHODS[_REFERENCE].title} less each other method, split by split: above 0 is better for accuracy, below 0 "
        "for gaps. 'At its own gaps': with tolerances as large as the other method's gaps on the calibration rows, so "
        "that accuracy decides; 'on half the rows': trained on as many as the model that LoGoFair post-processes. 95 % "
        "intervals and p of paired t tests, enlarged because splits overlap (Nadeau and Bengio, 2003), not corrected "
        "for their number.",
        rows.fill_null("-"),
    )


def _pairs(measured: pl.Series) -> Iterator[tuple[str, str, str]]:
    """What is compared with what, each with its label: ours with all others, and at their own gaps."""
    for name in (name for name, plan in METHODS.items() if name in measured and plan.kind != "bound"):
        like = METHODS[name].like
        if like:
            yield from (
                (f"{METHODS[other].title}, at its own gaps", name, other)
                for other in (like, f"{like}_half")
                if other in measured
            )
        elif name != _REFERENCE and _REFERENCE in measured:
            yield METHODS[name].title, _REFERENCE, name


def p_words(p: float | None) -> str:
    """A chance as it is written."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
