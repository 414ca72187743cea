"""``python -m reproduction.bench.one_site``: one client of a few thousand rows, beside other libraries' frontiers.

Rows of a data set are dealt anew into training, calibration and test rows. A logistic regression or boosted trees give
the scores; every library makes its rules on the calibration rows, and their gap and accuracy are measured on the test
rows, in expectation where coins are tossed. A peer's frontier is the mean over the resplits of its points at many
tolerances. It is interpolated at the mean gap of our rule: the difference is the accuracy that we gain at an equal gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.frontiers import PEERS, Rows, Rule, accuracy, gap, installed, ours
from logofair.cli.console import showing_progress
from logofair.cli.options import examples
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.datasets import Dataset
from logofair_reproduction.datasets.catalogue import load

NOTIONS = {"DP": "demographic_parity", "EO": "equalized_odds"}
TOLERANCES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 1.0)  # of the peers
OURS = (0.02, 0.05, 0.1)
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "platt": {"calibration": "platt"},
    "temperature": {"calibration": "temperature"},
    "isotonic": {"calibration": "isotonic"},
    "none": {"calibration": "none"},
    "labels": {"calibration": "none", "basis": "labels"},  # any calibration gives the same: it keeps the order
}
SETS = ("ENEM", "NM", "HI", "NM boosted")  # or any state of ACSIncome
TRAINING = CALIBRATION = 2500  # rows; all others are test rows


@dataclass(frozen=True, eq=False)
class People:
    """A data set with two groups, or four: sex and race."""

    features: Floats
    labels: Indices
    groups: Indices
    boosted: bool = False

    @classmethod
    def of(cls, name: str, groups: int) -> People:
        """Rows of ENEM (two groups: race) or of one state of ACSIncome (sex), perhaps "boosted": with boosted trees."""
        of, _, model = name.partition(" ")
        race, sex = (_loaded(of, sensitive) for sensitive in ("race", "sex"))
        two = race if of == "ENEM" else sex
        names = two.sensitive if groups == 2 else np.char.add(sex.sensitive, race.sensitive)
        return cls(
            race.features, race.labels, np.unique(names, return_inverse=True)[1].astype(np.int64), model == "boosted"
        )

    def resplit(self, number: int) -> tuple[Rows, Rows]:
        """Calibration and test rows with the scores of a model trained on others."""
        rows = np.random.default_rng(number).permutation(self.labels.size)
        train, known, test = np.split(rows, [TRAINING, TRAINING + CALIBRATION])
        model = HistGradientBoostingClassifier(random_state=0) if self.boosted else LogisticRegression(max_iter=2000)
        model.fit(self.features[train], self.labels[train])

        def scored(some: Indices) -> Rows:
            scores = model.predict_proba(self.features[some])[:, 1]
            return Rows(scores, self.labels[some], self.groups[some])

        return scored(known), scored(test)


def _loaded(name: str, sensitive: str) -> Dataset:
    if name == "ENEM":
        return load("enem", sensitive=sensitive)
    states = load("acs", sensitive="race2" if sensitive == "race" else sensitive)
    return states.take(states.sites == name)


def points(rules: list[Rule], test: Rows, notion: str) -> Floats:
    """Gap and accuracy on test rows, (rules, 2)."""
    chances = [rule(test) for rule in rules]
    return np.array([(gap(chance, test, notion), accuracy(chance, test)) for chance in chances])


def measured(people: People, notion: str, resplits: Sequence[int]) -> Iterator[dict[str, Floats]]:
    """Points of every library and variant of ours on each resplit."""
    for number in resplits:
        known, test = people.resplit(number)
        found = {name: points(ask(known, notion, TOLERANCES), test, notion) for name, ask in installed().items()}
        for name, options in VARIANTS.items():
            found[f"ours: {name}"] = points(ours(**options)(known, notion, OURS), test, notion)
        found["score >= 1/2"] = points([lambda rows: (rows.scores >= 0.5).astype(float)], test, notion)
        yield found


def gain(our: Floats, peers: Floats) -> tuple[float, float]:
    """Accuracy above a peer's frontier at our gap, and its standard error; points (resplits, 2) and (resplits, n, 2).

    The frontier joins the peer's mean points, but for those with a larger gap and no higher accuracy than another. It
    stays level below its smallest gap and above its largest. A resplit's difference is that of our accuracy and of the
    two ends of the chord, mixed to have our mean gap, less slope times their difference in gap there: these have mean
    zero, and their noise counts.
    """
    mean = peers.mean(axis=0)
    order = np.lexsort((-mean[:, 1], mean[:, 0]))
    best = np.maximum.accumulate(mean[order, 1])
    order = order[np.append(True, best[1:] > best[:-1])]
    at, gaps = our[:, 0].mean(), mean[order, 0]
    right = int(np.clip(np.searchsorted(gaps, at), 1, max(len(order) - 1, 1)))
    low, high = order[right - 1], order[min(right, len(order) - 1)]
    width = mean[high, 0] - mean[low, 0]
    share = float(np.clip((at - mean[low, 0]) / width, 0.0, 1.0)) if width > 0.0 else 0.0
    inside = width > 0.0 and 0.0 < share < 1.0
    slope = (mean[high, 1] - mean[low, 1]) / width if inside else 0.0
    theirs = (1.0 - share) * peers[:, low] + share * peers[:, high]
    difference = our[:, 1] - theirs[:, 1] - slope * (our[:, 0] - theirs[:, 0])
    n = difference.size
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def summary(found: list[dict[str, Floats]]) -> dict[str, Any]:
    """Mean points, and our gains over each peer, as plain values."""
    stacked = {name: np.stack([one[name] for one in found]) for name in found[0]}
    peers = [name for name in stacked if name in PEERS]
    variants: dict[str, Any] = {}
    for name in (name for name in stacked if name.startswith("ours: ")):
        lines = []
        for place, tolerance in enumerate(OURS):
            our = stacked[name][:, place]
            gains = {peer: _rounded(gain(our, stacked[peer])) for peer in peers}
            lines.append({"tolerance": tolerance, "point": _rounded(our.mean(axis=0)), "gains": gains})
        variants[name.removeprefix("ours: ")] = lines
    frontiers = {name: [_rounded(point) for point in stacked[name].mean(axis=0)] for name in (*peers, "score >= 1/2")}
    return {"ours": variants, "frontiers": frontiers}


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 5) for value in values]


@click.command(
    epilog=examples("python -m reproduction.bench.one_site", "python -m reproduction.bench.one_site --quick")
)
@click.option("--quick", is_flag=True, help="One state, three resplits.")
@click.option("--sets", default=",".join(SETS), show_default=True, help="ENEM or states of ACSIncome, prepared.")
@click.option("--resplits", default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(quick: bool, sets: str, resplits: int, as_json: bool) -> None:
    """Compare rules for one client with other libraries' frontiers on test rows."""
    resplits = 3 if quick else resplits
    cases = [
        (name, groups, notion)
        for name in (["NM"] if quick else sets.split(","))
        for groups in (2, 4)
        for notion in NOTIONS
    ]
    results = []
    with showing_progress(quiet=as_json) as progress:
        for name, groups, notion in cases:
            steps = progress(range(resplits), f"{name}, {groups} groups, {notion}", resplits)
            found = list(measured(People.of(name, groups), NOTIONS[notion], steps))  # type: ignore[arg-type]
            results.append({"set": name, "groups": groups, "notion": notion} | summary(found))
    versions = {name: version(PEERS[name][0].replace("_", "-")) for name in installed()}
    about = {"resplits": resplits, "training": TRAINING, "calibration": CALIBRATION, "versions": versions}
    if as_json:
        click.echo(json.dumps(about | {"cases": results}))
    else:
        show(about, results)


def show(about: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Print the results as tables."""
    console = Console()
    peers = list(about["versions"])
    for variant in VARIANTS:
        table = Table(title=f"ours: {variant}", title_justify="left")
        table.box, table.padding = None, (0, 1, 0, 0)
        for name in ("set", "groups", "notion", "tolerance", "gap", "accuracy", *peers):
            table.add_column(name, justify="right", no_wrap=True)
        for each in results:
            for line in each["ours"][variant]:
                start = (each["set"], str(each["groups"]), each["notion"], f"{line['tolerance']:g}")
                point = (f"{value:.4f}" for value in line["point"])
                table.add_row(*start, *point, *(in_words(*line["gains"][peer]) for peer in peers))
        console.print(table)
    missing = [name for name in PEERS if name not in peers]
    console.print(
        f"{about['resplits']} resplits; under a peer's name the accuracy gained over its frontier at our gap on test "
        "rows, in points of a percent, with its standard error; * where it is below -2 standard errors. "
        + (f"Not installed, so left out: {', '.join(missing)}." if missing else "")
    )


def in_words(difference: float, error: float) -> str:
    """A gain in points of a percent with its standard error."""
    return f"{100 * difference:+.2f} ({100 * error:.2f}){'*' if difference < -2.0 * error else ' '}"


if __name__ == "__main__":
    main()
