"""``python -m reproduction.bench.new_rows adult|acs|enem``: what pooling does to the gaps of new rows, on real data.

In every run the rows are split (35 % train, 35 % calibration, 30 % test), a logistic regression is trained by FedAvg,
and a rule is fitted in every way on the same calibration rows: without pooling, with all of it, with what
cross-validation chooses, and without pooling and without a local tolerance. Adult is dealt to five clients by Dirichlet
shares of the sexes, as in the paper; ACS has states and ENEM municipalities.

Test rows show gaps by chance too: beside the largest local gap stands the floor, what a rule whose true gap is the
tolerance everywhere shows on these rows on average. Adult is also taken as a population: calibration rows are drawn
with replacement from the rows that trained nothing, so that a rule's true gaps at every client are known.

ACS and ENEM must be prepared first: ``logofair data prepare acs --from FILE``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from scipy.special import expit

import logofair
from logofair.auditing.chance import noise_floor
from logofair.cli.options import examples, such_that
from logofair.columns.checks import Floats
from logofair.datasets import Dataset, split
from logofair_reproduction.datasets import load
from logofair_reproduction.datasets.dealing import random_sites
from logofair_reproduction.training import Schedule

PARTS = {"train": 0.35, "calibration": 0.35, "test": 0.3}
WAYS: dict[str, dict[str, Any]] = {
    "none": {"pooling": "none"},
    "full": {"pooling": "full"},
    "auto": {"pooling": "auto"},
    "no local tolerance": {"pooling": "none", "local_tolerance": None},
}
# The paper's tolerances, and the defaults of fit.
PAPERS = (("demographic_parity", 0.01), ("equalized_odds", 0.02))
DEFAULTS = (("demographic_parity", 0.02), ("equalized_odds", 0.02))
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as a rule sees them; ``weights`` only of a population that every client has its own part of."""

    scores: Floats
    labels: npt.NDArray[np.int64]
    groups: npt.NDArray[np.str_]
    sites: npt.NDArray[Any]
    weights: Floats | None = None

    def fitted(self, notion: str, tolerance: float, number: int, **way: Any) -> logofair.Solution:
        """A rule made of these rows."""
        options = {"local_tolerance": tolerance, "global_tolerance": tolerance, "random_state": number} | way
        columns: dict[str, Any] = {"sensitive_features": self.groups, "sites": self.sites}
        return logofair.fit(self.scores, self.labels, notion=notion, **columns, **options)

    def measured(self, policy: logofair.Policy, notion: str, tolerance: float) -> dict[str, float]:
        """Gaps and accuracy of a rule on these rows: of its decisions where they are a sample, else in expectation."""
        columns: dict[str, Any] = {"sensitive_features": self.groups, "sites": self.sites}
        chance = policy.probabilities(self.scores, on_unknown="merged", **columns)
        expected = logofair.audit(
            chance, self.labels, notion=notion, sample_weight=self.weights, chances=True, **columns
        )
        figures: dict[str, Any] = {"global": expected.global_gap, "accuracy": expected.accuracy}
        if self.weights is not None:
            figures |= _gaps("", expected.local.gaps)
        else:
            decisions = policy.decide(self.scores, on_unknown="merged", random_state=0, **columns)
            local = logofair.audit(decisions, self.labels, notion=notion, **columns).local
            floor = noise_floor(local.values, local.effective, [rate.name for rate in local.rates], tolerance)
            figures |= _gaps("", local.gaps) | _gaps("large ", local.large.gaps)
            figures |= _gaps("expected ", expected.local.gaps)
            figures |= {"floor": floor.mean, "mean floor": np.nanmean(floor.by_site)}
            figures["square"] = squared_gap(chance, self, by_label=notion != "demographic_parity")
            figures["coins"] = np.mean((chance > 0) & (chance < 1))
        return {name: round(float(figure), 6) for name, figure in figures.items() if figure is not None}


def _gaps(name: str, gaps: Floats) -> dict[str, float]:
    """The largest gap and the mean of the clients' largest, of (rates, clients); nothing where none is known."""
    known = ~np.isnan(gaps)
    if not known.any():
        return {}
    by_client = np.max(gaps, axis=0, where=known, initial=0.0)[known.any(axis=0)]
    return {f"{name}largest": float(by_client.max()), f"{name}mean": float(by_client.mean())}


def squared_gap(chance: Floats, rows: Rows, *, by_label: bool) -> float:
    """The mean square of the clients' true gaps between two groups, estimated without bias from a sample.

    The square of a gap between two means is too large by the variances of both, which the sample tells. Rates are
    those of all rows, or of each label by itself; clients count that have two rows of both groups.
    """
    groups, group = np.unique(rows.groups, return_inverse=True)
    clients, client = np.unique(rows.sites, return_inverse=True)
    label = rows.labels if by_label else np.zeros_like(rows.labels)
    assert groups.size == 2
    cell, shape = (label * clients.size + client) * 2 + group, (label.max() + 1, clients.size, 2)
    n, total, square = (
        np.bincount(cell, column, np.prod(shape)).reshape(shape) for column in (np.ones_like(chance), chance, chance**2)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n
        variance = (square / n - mean**2) / (n - 1)  # of the mean
    estimate = (mean[..., 1] - mean[..., 0]) ** 2 - variance.sum(axis=-1)
    return float(estimate[(n >= 2).all(axis=-1)].mean())


@dataclass(frozen=True)
class Setting:
    """One table: which rows, what is required, and whether gaps are true ones or of test rows.

    ``alpha`` says how evenly groups are dealt to clients; None: these are the data set's own.
    """

    data: str
    alpha: float | None
    notion: str
    tolerance: float
    true: bool = False

    def __str__(self) -> str:
        dealt = "" if self.alpha is None else f", alpha {self.alpha:g}"
        where = "in the population" if self.true else "on test rows"
        return f"{self.data}{dealt}, {self.notion} {self.tolerance:g}, {where}"


@dataclass
class Results:
    """What the runs of a setting found, for every way: figures by name, one for each run, and what was borrowed."""

    setting: Setting
    runs: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    chosen: dict[str, int] = field(default_factory=dict)

    def add(self, calibration: Rows, measured_on: Rows, number: int) -> None:
        """Fit and measure in every way."""
        notion, tolerance = self.setting.notion, self.setting.tolerance
        for name, way in WAYS.items():
            solution = calibration.fitted(notion, tolerance, number, **way)
            own = max(each.after or 0.0 for each in solution.on_own_rows if each.site is None)
            figures = measured_on.measured(solution.policy, notion, tolerance)
            figures["own excess"] = round(own - tolerance, 6)
            for figure, value in figures.items():
                self.runs.setdefault(name, {}).setdefault(figure, []).append(value)
            if name == "auto":
                kind = str(solution.pooling)
                self.chosen[kind] = self.chosen.get(kind, 0) + 1

    def values(self, way: str, figure: str) -> Floats:
        """A figure in all runs; "excess" is that of the largest gap over the floor."""
        if figure == "excess":
            return self.values(way, "largest") - self.values(way, "floor")
        return np.array(self.runs[way][figure])

    def mean(self, way: str, figure: str) -> float:
        """Mean of a figure over the runs."""
        return float(self.values(way, figure).mean())

    def difference(self, way: str, other: str, figure: str) -> tuple[float, float]:
        """How much larger a figure is in one way than in another, and the standard error of that."""
        differences = self.values(way, figure) - self.values(other, figure)
        error = differences.std(ddof=1) / np.sqrt(differences.size) if differences.size > 1 else np.nan
        return float(differences.mean()), float(error)

    def as_dict(self) -> dict[str, Any]:
        """Every figure of every run, and the goals, as plain values."""
        goals = [{"goal": what, "figure": figure, "limit": limit} for what, figure, limit in self.goals()]
        return {"setting": vars(self.setting), "chosen": self.chosen, "goals": goals, "runs": self.runs}

    def goals(self) -> Iterator[tuple[str, float, float]]:
        """What "auto" is to reach in this setting: in words, the figure found, and the most it may be."""
        yield "global gap on the clients' own rows above its tolerance", self.mean("auto", "own excess"), 0.002
        if self.setting.alpha is None:
            for figure in ("mean", "largest"):
                best = min(self.mean("none", figure), self.mean("full", figure))
                yield f"{figure} local gap above the better of none and full", self.mean("auto", figure) - best, 0.004
            larger, error = self.difference("auto", "no local tolerance", "mean")
            errors = larger / error if error else math.copysign(math.inf, larger) if larger else 0.0
            yield "mean local gap above that without a local tolerance, in standard errors", errors, 3.0
            return
        yield "accuracy below none's", -self.difference("auto", "none", "accuracy")[0], 0.001
        if self.setting.notion == "demographic_parity":
            if self.setting.alpha >= 5 and not self.setting.true:
                yield "largest local gap above the floor", self.mean("auto", "excess"), 0.003
        elif self.setting.true:
            ratio = self.mean("auto", "largest") / self.mean("none", "largest")
            yield "largest true local gap as a share of none's", ratio, 0.6
        else:
            yield "largest local gap above the floor, beyond none's", self.difference("auto", "none", "excess")[0], 0.0


def scored(data: Dataset, clients: npt.NDArray[Any], number: int) -> tuple[dict[str, npt.NDArray[np.intp]], Rows]:
    """The parts of a run, and all rows with the scores of a model trained on the first of them."""
    splitting, training = np.random.default_rng((number, 7)).spawn(2)
    parts = split(len(data), PARTS, rng=splitting)
    design = np.column_stack([data.features, np.ones(len(data))])
    sites = [parts["train"][clients[parts["train"]] == client] for client in np.unique(clients[parts["train"]])]
    sizes, parameters = np.array([site.size for site in sites], dtype=float), np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        key = int(training.integers(2**63))
        models = [local_steps(design[site], data.labels[site], parameters, Schedule(), key) for site in sites]
        parameters = sum(size * model for size, model in zip(sizes, models, strict=True)) / sizes.sum()
    return parts, Rows(expit(data.features @ parameters[:-1] + parameters[-1]), data.labels, data.sensitive, clients)


def local_steps(design: Floats, labels: npt.NDArray[Any], start: Floats, schedule: Schedule, key: int) -> Floats:
    """A logistic regression's parameters after a client's mini-batch steps; the last column of ``design`` is ones."""
    step, parameters, rng = schedule.optimiser_step(), start.copy(), np.random.default_rng(key)
    size = schedule.batch_size or labels.size
    for _ in range(schedule.local_epochs):
        order = rng.permutation(labels.size)
        for batch in np.split(order, range(size, labels.size, size)):
            step(parameters, (expit(design[batch] @ parameters) - labels[batch]) @ design[batch] / batch.size)
    return parameters


def taken(rows: Rows, which: npt.NDArray[np.intp]) -> Rows:
    """Some of the rows, in the order given."""
    return Rows(rows.scores[which], rows.labels[which], rows.groups[which], rows.sites[which])


def as_population(rows: Rows, calibration: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Calibration rows drawn with replacement from the rows of their group, and what every client then has in truth.

    In truth a client has all rows of each group, with the weight that the group has among its calibration rows.
    """
    drawn = np.empty(calibration.scores.size, np.intp)
    clients = np.unique(calibration.sites)
    weights = np.zeros((clients.size, rows.scores.size))
    for group in np.unique(rows.groups):
        here, wanted = np.flatnonzero(rows.groups == group), calibration.groups == group
        drawn[wanted] = rng.choice(here, wanted.sum())
        counts = (calibration.sites[wanted, None] == clients).sum(axis=0)
        weights[:, here] = counts[:, None] / here.size
    sample = Rows(rows.scores[drawn], rows.labels[drawn], calibration.groups, calibration.sites)
    every = taken(rows, np.tile(np.arange(rows.scores.size), clients.size))
    return sample, replace(every, sites=np.repeat(clients, rows.scores.size), weights=weights.ravel())


def dealt_by_chance(data: Dataset, alpha: float, seeds: int) -> list[Results]:
    """Five clients by Dirichlet shares of the groups: on test rows and in the population."""
    settings = [Setting(data.name, alpha, *required, true) for true in (False, True) for required in PAPERS]
    results = [Results(setting) for setting in settings]
    for number in range(seeds):
        clients = random_sites(data, n_sites=5, alpha=alpha, rng=np.random.default_rng((number, 5)))
        parts, rows = scored(data, clients, number)
        calibration, test = taken(rows, parts["calibration"]), taken(rows, parts["test"])
        untrained = taken(rows, np.sort(np.concatenate([parts["calibration"], parts["test"]])))
        drawn = as_population(untrained, calibration, np.random.default_rng((number, 11)))
        for result in results:
            result.add(*(drawn if result.setting.true else (calibration, test)), number)
    return results


def natural_clients(data: Dataset, share: float, seeds: int) -> list[Results]:
    """The data set's own clients, on test rows; of a share of all rows that is drawn anew in every run."""
    name = data.name if share == 1.0 else f"{data.name}, {share:.0%} of the rows"
    results = [Results(Setting(name, None, *required)) for required in DEFAULTS]
    for number in range(seeds):
        which = np.random.default_rng((number, 3)).permutation(len(data))[: round(share * len(data))]
        some = data if share == 1.0 else data.take(np.sort(which))
        assert some.sites is not None
        parts, rows = scored(some, some.sites, number)
        for result in results:
            result.add(taken(rows, parts["calibration"]), taken(rows, parts["test"]), number)
    return results


def compared(name: str, seeds: int | None, *, quick: bool) -> Iterator[Results]:
    """All settings of a data set."""
    data = load(name)
    if name == "adult":
        for alpha in (5.0,) if quick else (0.5, 5.0, 100.0):
            yield from dealt_by_chance(data, alpha, seeds or (2 if quick else 20))
    elif name == "enem":
        yield from natural_clients(data, 1.0, seeds or (2 if quick else 16))
    else:
        yield from natural_clients(data, 0.05, seeds or (2 if quick else 16))
        yield from () if quick else natural_clients(data, 1.0, seeds or 5)


def show(results: Results, *, err: bool = False) -> None:
    """Print one setting, on standard error where JSON goes to standard output."""
    some = next(iter(results.runs.values()))
    lines = [f"{results.setting}, {len(some['largest'])} runs"]
    for name in WAYS:
        parts = [f"{figure} {results.mean(name, figure):.4f}" for figure in ("largest", "mean", "global")]
        parts += [f"above the floor {results.mean(name, 'excess'):+.4f}"] if "floor" in some else []
        gain, error = results.difference(name, "none", "accuracy")
        parts += [f"accuracy {gain:+.4f} (se {error:.4f})", f"own rows {results.mean(name, 'own excess'):+.4f}"]
        lines.append(f"  {name:18} {'  '.join(parts)}")
    chosen = sorted(results.chosen.items(), key=lambda item: -item[1])
    lines.append(f"  auto borrows: {'; '.join(f'{kind} ({runs})' for kind, runs in chosen)}")
    for what, figure, limit in results.goals():
        lines.append(f"  {'reached' if figure <= limit else 'NOT REACHED'}: {what}: {figure:.4f}, at most {limit:g}")
    click.echo("\n".join(lines), err=err)


@click.command(
    epilog=examples(
        "python -m reproduction.bench.new_rows adult", "python -m reproduction.bench.new_rows acs --seeds 3"
    )
)
@click.argument("name", type=click.Choice(["adult", "acs", "enem"]))
@click.option("--quick", is_flag=True, help="Two runs of the smallest setting.")
@click.option("--seeds", type=int, callback=such_that(lambda n: n >= 2, "use at least 2"), help="Runs of each setting.")
@click.option("--json", "as_json", is_flag=True, help="Print every figure of every run as JSON.")
def new_rows(name: str, quick: bool, seeds: int | None, as_json: bool) -> None:
    """Compare gaps of new rows with and without pooling."""
    found = []
    for results in compared(name, seeds, quick=quick):
        found.append(results.as_dict())
        show(results, err=as_json)
    if as_json:
        click.echo(json.dumps(found))


if __name__ == "__main__":
    new_rows()
