"""``python -m benchmarks.required``: other libraries' own calls for a requirement, beside ours on the same rows.

OxonFair's floor on recall, its utility and its ratio of selection rates, and error-parity's equalized odds with costs,
are asked for as their documents do, of Adult's rows scored by a logistic regression. Every rule is judged on the rows
that it was fitted on, by labels and in expectation over coins: the objective it reaches, by how much it misses the
requirement, and the least time of several fits. How to install the libraries is said in ``benchmarks/frontiers.py``.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import click
import numpy as np
from sklearn.linear_model import LogisticRegression

import logofair
from benchmarks.frontiers import Rows, accuracy, error_parity_chances, for_oxonfair
from logofair.columns.checks import Floats
from logofair.datasets import load_adult

FLOOR, RATIO, TOLERANCE = 0.9, 0.8, 0.05
ROWS = 10_000

Rule = Callable[[Rows], Floats]  # chances of acceptance, after a fit


@dataclass(frozen=True)
class Case:
    """One requirement: in words, the calls, and what counts."""

    required: str
    peer: str
    module: str
    call: str
    theirs: Rule
    ours: Rule
    objective: str  # "accuracy" or "cost"
    costs: tuple[float, float]
    missed: Callable[[Floats, Rows], float]  # by how much the requirement is broken, 0: met


def cases() -> Iterator[Case]:
    """The peers' own examples."""
    floor: dict[str, Any] = {"require": f"true positive rate >= {FLOOR:g} per site"}
    yield Case(
        f"recall of every group at least {FLOOR:g}",
        "OxonFair",
        "oxonfair",
        f"fit(gm.accuracy, gm.recall.min, {FLOOR:g})",
        partial(by_oxonfair, "recall"),
        partial(ours, **floor),
        "accuracy",
        (1.0, 1.0),
        lambda chance, rows: max(0.0, FLOOR - float(min(rates(chance, rows, 1)))),
    )
    yield Case(
        f"selection rates within a ratio of {RATIO:g}",
        "OxonFair",
        "oxonfair",
        f"fit(gm.accuracy, gm.pos_pred_rate.min_ratio, {RATIO:g})",
        partial(by_oxonfair, "ratio"),
        partial(ours, require=f"selection rate ratio >= {RATIO:g} overall"),
        "accuracy",
        (1.0, 1.0),
        lambda chance, rows: max(0.0, RATIO - float(min(rates(chance, rows)) / max(rates(chance, rows)))),
    )
    yield Case(
        f"a missed case costs 4, a needless intervention 1; recall at least {FLOOR:g}",
        "OxonFair",
        "oxonfair",
        f"fit(gm.Utility([1, 1, 5, 0]), gm.recall.min, {FLOOR:g})",
        partial(by_oxonfair, "utility"),
        partial(ours, costs=(1, 4), **floor),
        "cost",
        (1.0, 4.0),
        lambda chance, rows: max(0.0, FLOOR - float(min(rates(chance, rows, 1)))),
    )
    yield Case(
        f"a wrong rejection costs 3, a wrong acceptance 1; equalized odds to {TOLERANCE:g}",
        "error-parity",
        "error_parity",
        f'RelaxedThresholdOptimizer(constraint="equalized_odds", tolerance={TOLERANCE:g}, '
        "false_pos_cost=1, false_neg_cost=3)",
        by_error_parity,
        partial(ours, costs=(1, 3), notion="equalized_odds", global_tolerance=TOLERANCE),
        "cost",
        (1.0, 3.0),
        lambda chance, rows: max(0.0, max(float(np.ptp(rates(chance, rows, y))) for y in (0, 1)) - TOLERANCE),
    )


def rates(chance: Floats, rows: Rows, label: int | None = None) -> Floats:
    """Each group's share of accepted rows, of those with a label where one is given."""
    counted = np.ones(rows.labels.size, dtype=bool) if label is None else rows.labels == label
    group = rows.groups[counted]
    return np.asarray(np.bincount(group, weights=chance[counted]) / np.bincount(group))


def cost(chance: Floats, rows: Rows, costs: tuple[float, float]) -> float:
    """Mean cost of a row."""
    return float(np.mean(np.where(rows.labels == 1, costs[1] * (1.0 - chance), costs[0] * chance)))


def ours(rows: Rows, **required: Any) -> Floats:
    """`logofair.fit`, counting with labels as the peers do."""
    given = {"local_tolerance": None, "global_tolerance": None, "calibration": "none", "basis": "labels"} | required
    solution = logofair.fit(rows.scores, rows.labels, sensitive_features=rows.groups, **given, random_state=0)
    return solution.policy.probabilities(rows.scores, sensitive_features=rows.groups)


def by_oxonfair(requirement: str, rows: Rows) -> Floats:
    """FairPredictor as its documents ask for a requirement."""
    import oxonfair

    logging.getLogger("oxonfair").setLevel(logging.ERROR)
    metrics = oxonfair.group_metrics
    rule = oxonfair.FairPredictor(None, for_oxonfair(rows), threshold=0)
    if requirement == "recall":
        rule.fit(metrics.accuracy, metrics.recall.min, FLOOR)
    elif requirement == "ratio":
        rule.fit(metrics.accuracy, metrics.pos_pred_rate.min_ratio, RATIO, greater_is_better_const=True)
    else:
        rule.fit(metrics.Utility([1, 1, 5, 0], "testing costs"), metrics.recall.min, FLOOR)
    return np.asarray(rule.predict(for_oxonfair(rows)), dtype=float)


def by_error_parity(rows: Rows) -> Floats:
    """RelaxedThresholdOptimizer with costs."""
    from error_parity import RelaxedThresholdOptimizer

    rule = RelaxedThresholdOptimizer(
        predictor=np.ravel, constraint="equalized_odds", tolerance=TOLERANCE, false_pos_cost=1, false_neg_cost=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its solver is deprecated
        rule.fit(rows.scores, rows.labels, group=rows.groups, y_scores=rows.scores)
    return error_parity_chances(rule, rows)


def adult(count: int) -> Rows:
    """So many of Adult's embedded rows, scored by a logistic regression of the others; groups are the sexes."""
    data = load_adult()
    order = np.random.default_rng(0).permutation(data.labels.size)
    known, train = order[:count], order[count:]
    model = LogisticRegression(max_iter=2000).fit(data.features[train], data.labels[train])
    groups = np.unique(data.sensitive, return_inverse=True)[1].astype(np.int64)
    return Rows(model.predict_proba(data.features[known])[:, 1], data.labels[known].astype(np.int64), groups[known])


def timed(rule: Rule, rows: Rows, repeat: int) -> tuple[Floats, float]:
    """The chances and the least seconds of several fits."""
    seconds, chance = [], np.zeros(0)
    for _ in range(repeat):
        begin = time.perf_counter()
        chance = rule(rows)
        seconds.append(time.perf_counter() - begin)
    return chance, min(seconds)


def table(rows: Rows, repeat: int, found: Sequence[Case]) -> Iterator[str]:
    """Lines of a Markdown table: for every requirement the peer's rule and ours."""
    yield "| required | by | objective | requirement | seconds |"
    yield "|---|---|---|---|---|"
    for case in found:
        there = find_spec(case.module) is not None
        for who, rule in ((f"{case.peer}: `{case.call}`", case.theirs if there else None), ("ours", case.ours)):
            if rule is None:
                yield f"| {case.required} | {who} | not installed | | |"
                continue
            chance, seconds = timed(rule, rows, repeat)
            value = accuracy(chance, rows) if case.objective == "accuracy" else cost(chance, rows, case.costs)
            missed = case.missed(chance, rows)
            kept = "met" if missed < 5e-5 else f"missed by {missed:.4f}"
            yield f"| {case.required} | {who} | {case.objective} {value:.5f} | {kept} | {seconds:.2f} |"


@click.command()
@click.option("--rows", default=ROWS, show_default=True, help="How many rows every rule is fitted on.")
@click.option("--repeat", default=3, show_default=True, help="Fits of each, of which the fastest counts.")
def main(rows: int, repeat: int) -> None:
    """Print the table."""
    known = adult(rows)
    named = [
        f"{name} {version(name)}"
        for name, module in (("oxonfair", "oxonfair"), ("error-parity", "error_parity"))
        if find_spec(module)
    ]
    click.echo(f"Adult, {rows:,} rows, two groups; {', '.join(named) or 'no other library installed'}.\n")
    for line in table(known, repeat, list(cases())):
        click.echo(line)


if __name__ == "__main__":
    main()
