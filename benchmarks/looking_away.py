"""``python -m benchmarks.looking_away``: rules that may not look at the group, beside those of other libraries.

Adult's embedded rows in five sites, split at random into rows to train on, to fit rules on and to test, several times.
Nothing sees the sex of a test row. OxonFair and ours are given the same scores and chances of a sex, of logistic
regressions without the column; Fairlearn's ExponentiatedGradient trains a logistic regression of its own on the rows of
both. Gaps are of true sexes on test rows, accuracies expected over coins.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import click
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import logofair
from benchmarks.frontiers import Rows, accuracy, gap
from logofair.cli.options import examples
from logofair.columns.checks import Floats
from logofair.datasets import dirichlet_sites, load_adult, split

TOLERANCE, SITES = 0.02, 5
NOTIONS = ("demographic_parity", "equalized_odds")


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a split, with what a rule may see of them."""

    rows: Rows
    features: Floats
    sites: Any
    sexes: Floats  # the chance of each

    @property
    def columns(self) -> dict[str, Any]:
        """What our own rules see."""
        seen = {a: self.sexes[:, a] for a in range(self.sexes.shape[1])}
        return {"sites": self.sites, "group_probabilities": seen}

    def beside(self, other: Part) -> tuple[Any, ...]:
        """Features, labels and groups of these rows and others."""
        pairs = (self.features, other.features), (self.rows.labels, other.rows.labels)
        features, labels = (np.concatenate(pair) for pair in pairs)
        return features, labels, np.concatenate([self.rows.groups, other.rows.groups])


Split = dict[str, Part]
Peer = Callable[[Split, str], Floats]  # chances of acceptance of the test rows, by a notion


def splits(count: int) -> Iterator[Split]:
    """Splits of Adult into rows to train on, to fit on and to test."""
    adult = load_adult()
    unseen = [not name.startswith("sex=") for name in adult.feature_names]
    features = StandardScaler().fit_transform(adult.features[:, unseen])
    groups = np.unique(adult.sensitive, return_inverse=True)[1].astype(np.int64)
    labels = adult.labels.astype(np.int64)
    for seed in range(count):
        parts = split(len(adult), {"train": 0.35, "calibration": 0.35, "test": 0.3}, rng=seed)
        site, train = dirichlet_sites(adult.sensitive, n_sites=SITES, alpha=5, rng=seed), parts["train"]
        of_label, of_sex = (LogisticRegression(max_iter=300).fit(features[train], y[train]) for y in (labels, groups))
        yield {
            name: Part(
                Rows(of_label.predict_proba(features[at])[:, 1], labels[at], groups[at]),
                features[at],
                site[at],
                of_sex.predict_proba(features[at]),
            )
            for name, at in parts.items()
        }


def unconstrained(parts: Split, notion: str) -> Floats:
    """The model's own decision."""
    return (parts["test"].rows.scores >= 0.5).astype(float)


def ours(local: float | None) -> Peer:
    """`logofair.fit`, with a limit inside sites or without."""

    def chances(parts: Split, notion: str) -> Floats:
        part, test = parts["calibration"], parts["test"]
        given: dict[str, Any] = {
            "notion": notion,
            "local_tolerance": local,
            "global_tolerance": TOLERANCE,
            "random_state": 0,
        }
        rows = part.rows
        found = logofair.fit(rows.scores, rows.labels, sensitive_features=rows.groups, **part.columns, **given)
        return found.policy.probabilities(test.rows.scores, **test.columns)

    return chances


def by_oxonfair(parts: Split, notion: str) -> Floats:
    """FairPredictor with inferred groups: a threshold for each group that a row is taken for, by its own grid."""
    import oxonfair

    logging.getLogger("oxonfair").setLevel(logging.ERROR)

    def given(part: Part) -> dict[str, Any]:
        scores = np.column_stack([1.0 - part.rows.scores, part.rows.scores, part.sexes])
        return {"data": scores, "target": part.rows.labels, "groups": part.rows.groups}

    metrics = oxonfair.group_metrics
    largest = metrics.pos_pred_rate.max_diff if notion == NOTIONS[0] else metrics.equalized_odds_max
    rule = oxonfair.FairPredictor(
        lambda seen: seen[:, :2],
        given(parts["calibration"]),
        inferred_groups=lambda seen: seen[:, 2:],
        threshold=0,
    )
    rule.fit(metrics.accuracy, largest, TOLERANCE)
    return np.asarray(rule.predict(given(parts["test"])), dtype=float)


def by_fairlearn(parts: Split, notion: str) -> Floats:
    """ExponentiatedGradient: a mixture of models, trained on the rows that ours sees in all."""
    from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient

    limit = (DemographicParity if notion == NOTIONS[0] else EqualizedOdds)(
        difference_bound=TOLERANCE / 2
    )  # from everybody's
    model = ExponentiatedGradient(LogisticRegression(max_iter=300), limit)
    features, labels, groups = parts["train"].beside(parts["calibration"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, labels, sensitive_features=groups)
    return np.asarray(model._pmf_predict(parts["test"].features)[:, 1])


PEERS: dict[str, tuple[str, Peer]] = {
    "score >= 1/2": ("logofair", unconstrained),
    "ours, limit over all": ("logofair", ours(None)),
    "ours, the same inside sites": ("logofair", ours(TOLERANCE)),
    "OxonFair, `inferred_groups`": ("oxonfair", by_oxonfair),
    "Fairlearn, `ExponentiatedGradient`": ("fairlearn", by_fairlearn),
}


def largest_inside(chance: Floats, part: Part, notion: str) -> float:
    """The largest gap inside a site."""
    found = []
    for site in np.unique(part.sites):
        here = part.sites == site
        rows = Rows(part.rows.scores[here], part.rows.labels[here], part.rows.groups[here])
        found.append(gap(chance[here], rows, notion))
    return max(found)


def table(count: int) -> Iterator[str]:
    """Lines of a Markdown table: means over the splits."""
    yield "| limit 0.02 | by | accuracy | gap over all | largest gap inside a site | seconds |"
    yield "|---|---|---|---|---|---|"
    drawn = list(splits(count))
    for notion in NOTIONS:
        for name, (module, peer) in PEERS.items():
            if find_spec(module) is None:
                yield f"| {notion.replace('_', ' ')} | {name} | not installed | | | |"
                continue
            found = []
            for parts in drawn:
                begin = time.perf_counter()
                chance = peer(parts, notion)
                seconds, test = time.perf_counter() - begin, parts["test"]
                inside = largest_inside(chance, test, notion)
                found.append((accuracy(chance, test.rows), gap(chance, test.rows, notion), inside, seconds))
            own = np.mean(found, axis=0)
            yield (
                f"| {notion.replace('_', ' ')} | {name} | {own[0]:.3f} | {own[1]:.3f} | {own[2]:.3f} | {own[3]:.2f} |"
            )


@click.command(epilog=examples("python -m benchmarks.looking_away --splits 3"))
@click.option("--splits", "count", default=5, show_default=True, help="How many random splits.")
def main(count: int) -> None:
    """Print the table."""
    for line in table(count):
        click.echo(line)


if __name__ == "__main__":
    main()
