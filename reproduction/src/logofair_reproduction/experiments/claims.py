"""Claims (``claims.toml``) judged on records: a claim is a sentence and the comparisons it is about.

A comparison is a method's figure less another's on the same splits, less the paper's, or at the largest value of
something less at the smallest. It speaks for the claim, against it, or leaves it open because chance alone could
decide: the end of its interval decides (``READINGS``). The comparisons make the verdict. A claim about all of them is
confirmed by all and falls with one, so that one is to be beyond what chance does among so many (Bonferroni). A claim
about most of them is confirmed by more than half of the comparisons of each figure, and falls where more than half of a
figure's speak against it. A figure of the paper's has no interval of its own: there the mean decides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

import polars as pl

from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.experiment import METHODS
from logofair_reproduction.experiments.summaries import intervals, over_seeds, short, with_paper

SIGNS = {"confirmed": "✓", "not confirmed": "✗", "not testable": "○"}
SIGNS_MEAN = (
    "✓ confirmed: the figures of this run show it. ✗ not confirmed: they show the contrary. ○ not testable: chance "
    "alone could decide what is open; other rows would tell, more seeds hardly. Empty: not claimed there, or not run. "
    "DP: demographic parity, EO: equalized odds. The end of a 95 % interval decides every comparison, in the paper's "
    "claims and in ours, and the mean where it is with the paper's figures; one comparison alone refutes a claim only "
    "beyond what chance does among so many (Bonferroni)."
)
_VERDICT: dict[str, Any] = {
    **dict.fromkeys(("source", "claim", "verdict"), pl.String),
    "columns": pl.List(pl.String),
    **dict.fromkeys(("for", "against", "open"), pl.Int64),
    "not run": pl.String,
}
_RUN = ("budget", "sensitive", "limit", "scheme")  # records that differ in these are never compared
_PLACE = ("experiment", "method", "clients", "alpha", "local_tolerance", "global_tolerance", "level")

_LOW, _HIGH, _MEAN, _MARGIN = (pl.col(name) for name in ("low", "high", "mean", "margin"))
# When a difference speaks for a claim, and when against it; else, and always with one seed, it is open.
READINGS = {
    "higher": (_LOW > 0, _HIGH < 0),
    "lower": (_HIGH < 0, _LOW > 0),
    "no lower": (_LOW >= -_MARGIN, _HIGH < 0),
    "no higher": (_HIGH <= _MARGIN, _LOW > 0),
    "at most": (_HIGH <= _MARGIN, _LOW > _MARGIN),
    "at least": (_LOW >= _MARGIN, _HIGH < _MARGIN),
    "within": ((_LOW >= -_MARGIN) & (_HIGH <= _MARGIN), (_LOW > _MARGIN) | (_HIGH < -_MARGIN)),
    "grows within": ((_LOW > 0) & (_HIGH <= _MARGIN), (_HIGH < 0) | (_LOW > _MARGIN)),
    "mean no lower": (_MEAN >= 0, _HIGH < 0),
    "mean no higher": (_MEAN <= 0, _LOW > 0),
}
# What one method is compared along, and what stays the same meanwhile.
_HELD = {
    **dict.fromkeys(("alpha", "clients", "level"), ()),
    "local_tolerance": ("global_tolerance",),
    "global_tolerance": ("local_tolerance",),
    "experiment": ("alpha",),
}


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim, as ``claims.toml`` has it.

    Parameters
    ----------
    source, short, sentence : str
        Who makes it, ``paper`` or ``logofair``, and what it says: in a few words, and in full.
    experiments : sequence of str
        Which experiments show it: each judged by itself, all at once where ``together``.
    compare : sequence of mappings
        Comparisons: the methods ``one`` less ``other`` at every alpha (or ``paper``, or none: the figure as it is), or
        ``one`` ``along`` something, at its largest value less at its smallest; ``reads`` tells by figure how the
        difference is read, a key of ``READINGS`` and perhaps a margin; ``at`` keeps some values alone.
    most : bool
        Whether most comparisons of each figure must speak for it ("typically"), in place of all.
    data : sequence of str
        The data sets it is about; empty: all.
    """

    source: str
    short: str
    sentence: str
    experiments: Sequence[str]
    compare: Sequence[Mapping[str, Any]]
    most: bool = False
    together: bool = False
    data: Sequence[str] = ()


@dataclass(frozen=True)
class _Comparison:
    """One method less another, or along something, in one figure."""

    one: str
    other: str
    along: str
    at: Mapping[str, Sequence[float]]
    figure: str
    reads: str
    margin: float


CLAIMS = [
    Claim(**facts)
    for facts in tomllib.loads(files("logofair_reproduction.experiments").joinpath("claims.toml").read_text("utf-8"))[
        "claim"
    ]
]


def judge(found: pl.DataFrame, claims: Iterable[Claim] = CLAIMS) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Judge claims on records (:func:`summaries.measured`), each experiment and data set by itself.

    Returns the verdicts and the comparisons they rest on. A verdict is ``confirmed``, ``not confirmed`` or ``not
    testable``, with how many comparisons speak ``for`` the claim, ``against`` it, and leave it ``open``; ``columns``
    are the data set and its notions in short, such as Adult DP.
    """
    derived = found.with_columns(
        distance=(pl.col("local_gap") - pl.col("global_gap")).abs(),
        above_floor=pl.col("local_gap") - pl.col("floor_at_tolerance"),
    )
    judged = [each for claim in claims for each in _of_claim(claim, derived)]
    verdicts = pl.DataFrame([verdict for verdict, _ in judged], schema=_VERDICT)
    return verdicts, pl.concat([checks for _, checks in judged] or [pl.DataFrame({"claim": []}, {"claim": pl.String})])


def matrix(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Claims by data sets and notions, a sign each; empty where nothing was claimed or could be compared."""
    tested = verdicts.filter((pl.col("verdict") != "not testable") | (pl.col("open") > 0)).explode("columns")
    names = list(dict.fromkeys(tested["columns"]))
    data = [name.split()[0] for name in names]
    columns = sorted(names, key=lambda name: (data.index(name.split()[0]), name))
    signs = tested.with_columns(sign=pl.col("verdict").replace(SIGNS))
    signs = signs.pivot("columns", index=["source", "claim"], values="sign")
    return signs.select("source", "claim", *columns).fill_null("")


def _of_claim(claim: Claim, found: pl.DataFrame) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """A claim's verdict for each data set that has records for it, and what it rests on."""
    for names in [claim.experiments] if claim.together else [[name] for name in claim.experiments]:
        here = found.filter(pl.col("experiment").is_in(names))
        for data in claim.data or here["data"].unique(maintain_order=True):
            run = _one_run(here.filter(pl.col("data") == data))
            if run.is_empty():
                continue
            comparisons = _comparisons(claim, run)
            checks, lacking = _checks(comparisons, run, most=claim.most), _lacking(comparisons, run)
            initials = ["".join(word[0].upper() for word in notion.split("_")) for notion in run["notion"].unique()]
            columns = [f"{CATALOGUE[data].title.split()[0]} {notion}" for notion in sorted(initials)]
            states = checks["state"].to_list()
            verdict = {
                "source": claim.source,
                "claim": claim.short,
                "verdict": _verdict(checks, most=claim.most, complete=not lacking),
                "columns": columns,
                **{state: states.count(state) for state in ("for", "against", "open")},
                "not run": ", ".join(lacking),
            }
            about = (pl.lit(claim.short).alias("claim"), pl.lit(", ".join(columns)).alias("place"))
            yield verdict, checks.select(*about, pl.all())


def _one_run(found: pl.DataFrame) -> pl.DataFrame:
    """Of several runs, on other rows perhaps, that with the most settings tried, then the most records."""
    runs = found.group_by(_RUN, maintain_order=True).len()
    best = runs.sort("budget", "len", descending=True, maintain_order=True).head(1)
    own = found.join(best, on=_RUN, nulls_equal=True, how="semi", maintain_order="left")
    # Algorithm 1 with all its settings (null) comes before quick runs of it.
    by_settings = own.sort("alpha", "level", "solver_budget", nulls_last=False, maintain_order=True)
    return by_settings.unique([*_PLACE, "random_state"], keep="first", maintain_order=True)


def _comparisons(claim: Claim, run: pl.DataFrame) -> list[_Comparison]:
    """A claim's comparisons one by one; by the paper's procedure where it was run for all methods that are named."""
    ours = [name for each in claim.compare for name in (*each["one"], *each.get("other", ())) if "{solver}" in name]
    published = all(name.format(solver="algorithm1") in run["method"] for name in ours)
    solver = "algorithm1" if published else "logofair"
    found = []
    for each in claim.compare:
        for one, other, (figure, read) in product(each["one"], each.get("other", [""]), each["reads"].items()):
            reads, margin = (read, 0.0) if isinstance(read, str) else read
            names = (one.format(solver=solver), other.format(solver=solver))
            found.append(_Comparison(*names, each.get("along", ""), each.get("at", {}), figure, reads, margin))
    return found


def _lacking(comparisons: Sequence[_Comparison], run: pl.DataFrame) -> list[str]:
    """The methods that were not run, or not at every alpha that others were."""
    found = []
    for method in dict.fromkeys(name for each in comparisons for name in (each.one, each.other) if name in METHODS):
        own = run.filter(pl.col("method") == method)
        without = sorted(set(run["alpha"].drop_nulls()) - set(own["alpha"]))
        if own.is_empty():
            found.append(METHODS[method].title)
        elif without:
            found.append(f"{METHODS[method].title} at alpha {', '.join(f'{alpha:g}' for alpha in without)}")
    return found


def _verdict(checks: pl.DataFrame, *, most: bool, complete: bool) -> str:
    """The verdict that comparisons make; ``complete``: of all methods the claim is about."""
    state = pl.col("state")
    shares = checks.group_by("figure").agg(for_it=(state == "for").mean(), against=(state == "against").mean())
    enough = shares["for_it"] > 0.5 if most else shares["for_it"] == 1.0
    if checks.height and complete and enough.all():
        return "confirmed"
    return "not confirmed" if (shares["against"] > (0.5 if most else 0.0)).any() else "not testable"


def _checks(comparisons: Sequence[_Comparison], run: pl.DataFrame, *, most: bool) -> pl.DataFrame:
    """One row for every comparison: both figures, the difference over the seeds, its state, and a remark on it."""
    found = over_seeds(
        pl.concat([_values(each, run) for each in comparisons]),
        *("where", "one", "other", "figure", "reads", "margin", "along"),
        one_mean=pl.col("one_value").mean(),
        other_mean=pl.col("other_value").mean(),
        below_floor=(pl.col("gap").mean() <= pl.col("floor").mean())
        & (pl.col("gap_other").mean() <= pl.col("floor_other").mean()),
        floor=pl.col("floor").mean(),
        floor_change=(pl.col("floor") - pl.col("floor_other")).mean(),
    )
    speaks_for, against = (_read(side) for side in (0, 1))
    among_all = intervals(found, max(found.height, 1)).select(against).to_series()
    state = pl.when(_LOW.is_null()).then(pl.lit("open")).when(against).then(pl.lit("against"))
    found = found.with_columns(state=state.when(speaks_for).then(pl.lit("for")).otherwise(pl.lit("open")))
    by_chance = (pl.col("state") == "against") & ~among_all & pl.lit(not most)
    one_of_many = pl.lit(f"against by itself, but within chance for one of {found.height} comparisons")
    found = found.with_columns(remark=pl.coalesce(_why_open(), pl.when(by_chance).then(one_of_many)))
    titles = {name: plan.title for name, plan in METHODS.items()}
    return found.drop("error", "along", "below_floor", "floor", "floor_change").with_columns(
        pl.col("one", "other").replace(titles),
        state=pl.when(pl.col("remark").is_null()).then("state").otherwise(pl.lit("open")),
    )


def _read(side: int) -> pl.Expr:
    """Whether a difference speaks for what it is read for (0), or against it (1)."""
    return pl.coalesce([pl.when(pl.col("reads") == name).then(rule[side]) for name, rule in READINGS.items()])


def _why_open() -> pl.Expr:
    """Why a comparison of local gaps is open whatever its interval says: noise alone explains it. Null elsewhere."""
    local = pl.col("figure").str.starts_with("local_gap")
    ordered = local & pl.col("reads").is_in(["higher", "lower"])
    with_paper = local & (pl.col("other") == "paper") & (pl.col("state") != "for")
    along_alpha = (pl.col("along") == "alpha") & (pl.col("figure") != "global_gap") & (pl.col("state") == "for")
    return (
        pl.when(ordered & pl.col("below_floor"))
        .then(pl.lit("both below the noise floor"))
        .when(along_alpha & (pl.col("floor_change") <= _MEAN))
        .then(pl.format("the noise floor alone changes by {}", pl.col("floor_change").round(4)))
        .when(with_paper & (pl.col("other_mean") < pl.col("floor")))
        .then(pl.format("the noise floor of these rows is {}", pl.col("floor").round(4)))
    )


def _values(comparison: _Comparison, run: pl.DataFrame) -> pl.DataFrame:
    """A comparison's difference seed by seed, with both figures, and the local gaps and noise floors beside them."""
    one, other, keys = _sides(comparison, run)
    both = one.join(other, on=keys, suffix="_other", nulls_equal=True, maintain_order="left")
    return both.select(
        _where(comparison.along),
        *(pl.lit(getattr(comparison, name)).alias(name) for name in ("one", "other", "figure", "reads", "along")),
        *("gap", "gap_other", "floor", "floor_other"),
        margin=pl.lit(comparison.margin, pl.Float64),
        one_value="value",
        other_value="value_other",
        value=pl.col("value") - pl.col("value_other"),
    )


def _sides(comparison: _Comparison, run: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """The records on both sides of a comparison, and by which columns they are paired."""
    nothing = pl.lit(None, pl.Float64)
    sides = run.select(
        *(*_PLACE, "data", "random_state", "floor"),
        pl.col(comparison.figure).alias("value"),
        pl.col("local_gap").alias("gap"),
        pl.lit(comparison.figure).alias("figure"),
    )
    kept = (pl.col(name).is_in([float(value) for value in values]) for name, values in comparison.at.items())
    one = sides.filter(pl.col("method") == comparison.one, *kept)
    if comparison.along:
        held, size = _HELD[comparison.along], pl.col(comparison.along)
        least, most = size.min().over("method", *held), size.max().over("method", *held)
        return one.filter(size == most, most > least), one.filter(size == least), [*held, "random_state"]
    if comparison.other in METHODS:
        return one, sides.filter(pl.col("method") == comparison.other), ["alpha", "random_state"]
    value = pl.lit(0.0)
    if comparison.other == "paper":
        one = with_paper(one).filter(pl.col("claimed").is_not_null(), pl.col("doubt").is_null())
        value = pl.col("claimed")
    return one, one.with_columns(value=value, gap=nothing, floor=nothing), [*_PLACE, "random_state"]


def _where(along: str) -> pl.Expr:
    """Where a difference was measured, in words."""
    if along:
        names = (*_HELD[along], along)
        words = ", ".join(f"{name.replace('_', ' ')} {{}}" for name in names)
        return pl.format(f"{words} less {{}}", *map(short, names), short(f"{along}_other")).alias("where")
    tolerances = pl.format("tolerances {} and {}", short("local_tolerance"), short("global_tolerance"))
    return (
        pl.when(pl.col("experiment").str.starts_with("sensitivity"))
        .then(tolerances)
        .when(pl.col("level").is_not_null())
        .then(pl.format("after {} rounds", short("level")))
        .otherwise(pl.format("alpha {}", short("alpha")))
        .alias("where")
    )
