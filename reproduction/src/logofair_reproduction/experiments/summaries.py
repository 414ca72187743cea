"""Records as one polars frame: figures over the seeds with intervals, and the paper's figures beside them.

The splits of a data set overlap, so figures of different seeds vary less than those of fresh data would. The variance
of a mean is therefore enlarged by the share of rows tested to rows trained on (Nadeau and Bengio, 2003), in intervals
and in paired tests alike. Rows that calibrate a rule or choose a setting count as trained on, so the share is the same
for all methods: 30 to 70.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import t as student

from logofair_reproduction.experiments.experiment import METHODS, experiment_names, load_experiment

TESTED = 0.3 / 0.7  # rows tested on, for every row trained or calibrated on
CONFIDENCE = 0.95
# What one line of a table is about; its records differ in their seeds alone.
PLACE = {
    **dict.fromkeys(("experiment", "data", "sensitive"), pl.String),
    **dict.fromkeys(("limit", "clients"), pl.Int64),
    "alpha": pl.Float64,
    **dict.fromkeys(("scheme", "notion", "method"), pl.String),
    **dict.fromkeys(("local_tolerance", "global_tolerance", "level"), pl.Float64),
    **dict.fromkeys(("budget", "solver_budget"), pl.Int64),
}
FIGURES = (
    *("accuracy", "local_gap", "local_gap_30", "mean_local_gap", "global_gap"),
    *("floor", "floor_at_tolerance", "global_floor"),
    *("violation", "optimality_gap", "rounds", "exchanges"),
)
_PAPER = {"accuracy": "accuracy", "local": "local_gap", "global": "global_gap"}
_ROW = ("table", "method", "dataset", "at")  # of the paper's tables


def measured(records: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """One row for every record: its place, its seed, the setting chosen and its figures, null where undefined.

    Where settings were changed between two runs (``plan``), the seeds of the later one alone: no mean mixes the two.
    """
    rows = [
        {name: record.get(name) for name in (*PLACE, "plan", "random_state")}
        | {"setting": json.dumps(record.get("setting", {}))}
        | {name: record["figures"].get(name) for name in FIGURES}
        for record in records
    ]
    types = {"plan": pl.String, "random_state": pl.Int64, "setting": pl.String}
    found = pl.DataFrame(rows, schema={**PLACE, **types, **dict.fromkeys(FIGURES, pl.Float64)}, strict=False)
    return found.filter(pl.col("plan").eq_missing(pl.col("plan").last().over(*PLACE))).drop("plan")


def over_seeds(values: pl.DataFrame, *by: str, **more: pl.Expr) -> pl.DataFrame:
    """Summarise ``value`` over the seeds of every group.

    ``mean`` with its 95 % interval ``low`` to ``high`` and ``p``, the chance of a mean so far from 0 by chance alone,
    all three null with fewer than two runs; ``runs``: in how many of the ``seeds`` it is defined; ``alike``: in how
    many it has the mean's sign. ``more`` are further aggregations. Groups where it is nowhere defined are left out.
    """
    value = pl.col("value")
    found = values.group_by(by, maintain_order=True).agg(
        mean=value.mean(),
        error=value.std() * (1.0 / value.count() + TESTED).sqrt(),
        alike=(value.sign() == value.mean().sign()).sum(),
        runs=value.count(),
        seeds=pl.len(),
        **more,
    )
    found = intervals(found.filter(pl.col("runs") > 0))
    mean, error = (found[name].to_numpy().astype(np.float64) for name in ("mean", "error"))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2.0 * student.sf(np.abs(mean) / error, found["runs"].to_numpy() - 1)
    p = np.where((mean == 0.0) & (error == 0.0), 1.0, p)
    return found.with_columns(p=pl.Series(p, dtype=pl.Float64).fill_nan(None))


def intervals(found: pl.DataFrame, comparisons: int = 1) -> pl.DataFrame:
    """Add the interval of every mean, wide enough for those of all ``comparisons`` to hold at once (Bonferroni)."""
    errors = np.asarray(student.isf((1.0 - CONFIDENCE) / 2.0 / comparisons, found["runs"].to_numpy() - 1))
    reach = pl.col("error") * pl.Series(errors, dtype=pl.Float64).fill_nan(None)
    return found.with_columns(low=pl.col("mean") - reach, high=pl.col("mean") + reach)


def lines(found: pl.DataFrame) -> pl.DataFrame:
    """One row for every figure at every place, over the seeds: :func:`over_seeds`, and the paper's figure ``claimed``.

    A gap is nowhere below 0, nor is its interval. ``doubt`` says why a figure of the paper is no target.
    """
    values = found.unpivot(FIGURES, index=list(PLACE), variable_name="figure")
    low = pl.when(pl.col("figure").str.contains("gap")).then(pl.col("low").clip(0.0)).otherwise("low")
    return with_paper(over_seeds(values, *PLACE, "figure").with_columns(low=low))


def differences(found: pl.DataFrame, one: str, other: str, *figures: str) -> pl.DataFrame:
    """Figures of one method less those of another, split by split, for every place of one beside every of the other."""
    same = ("experiment", "data", "sensitive", "limit", "clients", "alpha", "scheme", "notion", "budget")
    own = ("local_tolerance", "global_tolerance", "level")
    mine, theirs = (found.filter(pl.col("method") == method) for method in (one, other))
    both = mine.join(theirs, on=[*same, "random_state"], nulls_equal=True, maintain_order="left")
    by = (*same, *own, *(f"{name}_right" for name in own))
    less = both.select(*by, *(pl.col(name) - pl.col(f"{name}_right") for name in figures))
    return over_seeds(less.unpivot(figures, index=by, variable_name="figure"), *by, "figure")


def short(name: str) -> pl.Expr:
    """A number as it is written: 100 in place of 100.0."""
    return pl.col(name).cast(pl.String).str.strip_suffix(".0")


def with_paper(found: pl.DataFrame) -> pl.DataFrame:
    """Add ``claimed``, the paper's figure at each place, null without one, and ``doubt``."""
    tolerances = pl.format("{}, {}", short("local_tolerance"), short("global_tolerance"))
    at = pl.when(pl.col("experiment").str.starts_with("sensitivity")).then(tolerances).otherwise(short("alpha"))
    keys = ["experiment", "method", "data", "at", "figure"]
    return found.with_columns(at=at).join(paper_figures(), on=keys, how="left", maintain_order="left").drop("at")


@cache
def paper_figures() -> pl.DataFrame:
    """What the paper reports, by experiment, method, data, place in its table (``at``) and figure.

    ``doubt`` says why a figure cannot be a measurement, by two rules: the columns of two data sets differ by the very
    same amount in a third of a table's rows or more; or a method's figures on a data set are the same for both notions
    in two cells or more. Accuracy without any requirement is the same for both notions, and no sign of anything.
    """
    text = files("logofair_reproduction.experiments").joinpath("paper.json").read_text("utf-8")
    tables = {name: rows for name, rows in json.loads(text).items() if name != "source"}
    rows = [{"table": name, **row} for name, rows in tables.items() for row in rows]
    found = pl.from_dicts(rows, infer_schema_length=None)
    found = found.with_columns(
        method=pl.col("method").fill_null("LoGoFair_l&g"),
        at=pl.coalesce(pl.format("{}, {}", short("delta_local"), short("delta_global")), short("alpha")),
    )
    found = found.unpivot(list(_PAPER), index=_ROW, variable_name="figure", value_name="claimed")
    doubts = pl.concat([_repeated_columns(found), _same_for_both_notions(found)]).unique(
        [*_ROW, "figure"], keep="first"
    )
    found = found.join(doubts, on=[*_ROW, "figure"], how="left")
    ours = pl.DataFrame({"key": list(METHODS), "method": [plan.paper for plan in METHODS.values()]})
    named = [(name, load_experiment(name)[0].paper) for name in experiment_names()]
    experiments = pl.DataFrame(named, schema=["experiment", "table"], orient="row")
    return (
        found.join(ours, on="method")
        .join(experiments, on="table")
        .select(
            "experiment",
            "at",
            "claimed",
            "doubt",
            method="key",
            data="dataset",
            figure=pl.col("figure").replace(_PAPER),
        )
    )


def _repeated_columns(found: pl.DataFrame) -> pl.DataFrame:
    """The figures that differ from another data set's by one amount in a third of the rows or more."""
    other = found.rename({"dataset": "other", "claimed": "theirs"})
    pairs = found.join(other, on=["table", "method", "at", "figure"], maintain_order="left_right")
    column = ("table", "figure", "dataset", "other")
    pairs = pairs.filter(pl.col("dataset") != pl.col("other")).with_columns(
        apart=(pl.col("claimed") - pl.col("theirs")).round(4), of=pl.len().over(*column)
    )
    pairs = pairs.with_columns(same=pl.len().over(*column, "apart")).filter(3 * pl.col("same") >= pl.col("of"))
    apart = pl.format("differs from {}'s by {}", "other", pl.col("apart").abs())
    how = pl.when(pl.col("apart") == 0).then(pl.format("equals {}'s", "other")).otherwise(apart)
    return pairs.select(*_ROW, "figure", doubt=pl.format("{} in {} of {} rows", how, "same", "of"))


def _same_for_both_notions(found: pl.DataFrame) -> pl.DataFrame:
    """The figures that are the same for the other notion, where others of the method and data set are too."""
    known = found.with_columns(kind=pl.col("table").str.head(-3)).filter(
        (pl.col("method") != "FedAvg") | (pl.col("figure") != "accuracy")
    )
    other = known.rename({"table": "other"})
    pairs = known.join(other, on=["kind", "method", "dataset", "at", "figure", "claimed"], maintain_order="left")
    pairs = pairs.filter(pl.col("table") != pl.col("other"))
    pairs = pairs.with_columns(more=pl.len().over("table", "method", "dataset") - 1).filter(pl.col("more") > 0)
    doubt = pl.format("is the same for both notions, as are {} more of these figures", "more")
    return pairs.select(*_ROW, "figure", doubt=doubt)
