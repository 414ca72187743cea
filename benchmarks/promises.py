"""What is certified for new rows on simulated federations whose population is known: ``python -m benchmarks.promises``.

In every run a federation is drawn from its population, fitted with ``confidence=0.95``, and the policy's true gaps are
computed from the population itself. Stated bounds should hold in 95% of the runs, and certified promises fail, any of
them, in at most 5%. Tolerances are chosen so that promises are neither out of reach nor a matter of course.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import logofair
from logofair.cli.console import showing_progress
from logofair.cli.options import examples, such_that
from logofair.fitting.solution import Solution
from logofair.outcomes import MET, Outcome

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95
_EVALUATED = 200_000  # places of the population at which policies are evaluated, over all cells


@dataclass(frozen=True)
class Scenario:
    """A kind of federation: scores are logistic in a normal variable that is shifted by site and group."""

    name: str
    sites: int
    groups: int
    rows: int  # per cell, on average
    local: float | None
    global_: float | None
    differ: float = 0.5  # standard deviation of the sites' shifts; of a group's own shift there a third of that
    notion: str = "demographic_parity"
    calibration: str = "beta"
    digits: int = 12  # of the scores: few make ties
    weighted: bool = False
    per_person: tuple[int, ...] = (1,)  # rows of a person, any of these numbers
    ids: bool = False  # whether the fit is told who each row is of


SCENARIOS = (
    Scenario("alike", 5, 2, 400, 0.10, 0.05, differ=0.0),
    Scenario("different", 5, 2, 400, 0.10, 0.05),
    Scenario("small cells", 5, 2, 30, 0.35, 0.20),
    Scenario("many sites", 60, 2, 80, 0.30, 0.04),
    Scenario("five groups", 4, 5, 250, 0.17, 0.10),
    Scenario("one site", 1, 2, 500, 0.07, None),
    Scenario("ties", 5, 2, 400, 0.10, 0.05, digits=1, calibration="isotonic"),
    Scenario("equal opportunity", 5, 2, 500, 0.15, 0.08, notion="equal_opportunity"),
    Scenario("equalized odds", 4, 2, 1500, 0.12, 0.08, notion="equalized_odds"),
    Scenario("weighted rows", 4, 2, 800, 0.10, 0.07, weighted=True),
    Scenario("1 row a person", 2, 2, 1000, 0.12, 0.10, ids=True),
    Scenario("2 rows a person", 2, 2, 1000, 0.15, 0.12, per_person=(2,), ids=True),
    Scenario("5 rows a person", 2, 2, 1000, 0.25, 0.18, per_person=(5,), ids=True),
    Scenario("1 to 9 rows", 2, 2, 1000, 0.25, 0.18, per_person=(1, 2, 5, 9), ids=True),
    Scenario("5 rows, no ids", 2, 2, 1000, 0.15, 0.10, per_person=(5,)),
)


@dataclass(frozen=True, eq=False)
class Truth:
    """A policy in the population: rates by name, (sites, groups), with the mass of those who count; accuracy."""

    rates: dict[str, tuple[Array, Array]]
    accuracy: float

    def gap(self, found: Outcome) -> float:
        """The gap that an outcome is about: of several rates the largest."""
        gaps = []
        for each in found.requirement.rates:
            rate, people = self.rates[each.name]
            row = (rate * people).sum(axis=0) / people.sum(axis=0)
            gaps.append(float(np.ptp(row if found.site is None else rate[int(str(found.site))])))
        return max(gaps)


@dataclass(frozen=True, eq=False)
class Population:
    """Shares of the cells, (sites, groups), and the shifts of their scores."""

    scenario: Scenario
    share: Array
    shift: Array

    @classmethod
    def drawn(cls, scenario: Scenario, rng: np.random.Generator) -> Population:
        """Draw one."""
        shape = scenario.sites, scenario.groups
        share = rng.uniform(0.6, 1.4, shape)
        shift = scenario.differ * (rng.normal(size=(shape[0], 1)) + rng.normal(size=shape) / 3.0)
        return cls(scenario, share / share.sum(), shift - 0.8 + 0.5 * np.linspace(0.0, 1.0, shape[1]))

    def rows(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw rows, as arguments of a fit; those of one person have nearly one score, and labels of one draw."""
        per_person = self.scenario.per_person
        people = round(self.scenario.rows * self.share.size / np.mean(per_person))
        cell = rng.choice(self.share.size, people, p=self.share.ravel())
        normal, drawn, person = rng.normal(size=people), rng.random(people), np.arange(people)
        if per_person != (1,):
            person = np.repeat(person, rng.choice(per_person, people))
            cell, drawn = cell[person], drawn[person]
            normal = np.sqrt(0.9) * normal[person] + np.sqrt(0.1) * rng.normal(size=person.size)
        n = person.size
        score, chance = self.scores(self.shift.ravel()[cell], normal)
        weight = {"sample_weight": rng.uniform(0.5, 1.5, n)} if self.scenario.weighted else {}
        site, group = np.divmod(cell, self.share.shape[1])
        sites = {} if self.scenario.sites == 1 else {"sites": site}
        ids = {"ids": person} if self.scenario.ids else {}
        return {"scores": score, "labels": drawn < chance, "sensitive_features": group, **sites, **weight, **ids}

    def scores(self, shift: Array, normal: Array) -> tuple[Array, Array]:
        """Scores, and the chances of label 1 behind them, which the scores overstate at both ends."""
        logit = shift + 1.2 * normal
        return np.round(1.0 / (1.0 + np.exp(-1.3 * logit)), self.scenario.digits), 1.0 / (1.0 + np.exp(-logit))

    def measured(self, solution: Solution) -> Truth:
        """Evaluate a policy in the population."""
        nodes = np.linspace(-6.0, 6.0, max(_EVALUATED // self.share.size, 1000))
        mass = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
        cell = np.repeat(np.arange(self.share.size), nodes.size)
        score, chance = self.scores(self.shift.ravel()[cell], np.tile(nodes, self.share.size))
        site, group = np.divmod(cell, self.share.shape[1])
        known = set(solution.policy.groups) if self.scenario.sites == 1 else set(solution.policy.sites)
        assert known == set(range(len(known)))
        sites = None if self.scenario.sites == 1 else site
        accepted = solution.policy.probabilities(score, sensitive_features=group, sites=sites)
        shape = (*self.share.shape, nodes.size)
        accepted, chance = accepted.reshape(shape), chance.reshape(shape)
        counts = {"selection rate": 1.0, "true positive rate": chance, "false positive rate": 1.0 - chance}
        found = {}
        for name, count in counts.items():
            people = np.broadcast_to(mass * count, shape).sum(-1)
            found[name] = (mass * count * accepted).sum(-1) / people, people * self.share
        right = (mass * (chance * accepted + (1.0 - chance) * (1.0 - accepted))).sum(-1)
        return Truth(found, float((self.share * right).sum()))


@dataclass
class Results:
    """What the runs of a scenario found; lists have one entry per run."""

    scenario: str
    method: str = ""
    largest_holds: list[bool] = field(default_factory=list)
    global_holds: list[bool] = field(default_factory=list)
    local_holds: list[float] = field(default_factory=list)  # share of the sites
    broken: list[bool] = field(default_factory=list)  # some certified promise fails
    certified: list[float] = field(default_factory=list)  # share of the promises
    kept: list[float] = field(default_factory=list)  # share of the promises whose gap is within tolerance in truth
    kept_without: list[float] = field(default_factory=list)  # and that of the policy fitted without confidence
    price: list[float] = field(default_factory=list)  # accuracy in the population that confidence costs

    def add(self, solution: Solution, truth: Truth, without: Truth) -> None:
        """Compare what a solution says with the population, and with that of a fit without confidence."""
        certified, promises = solution.certified, solution.promises
        assert promises is not None
        gaps = [(each, truth.gap(each), each.limit or 0.0) for each in certified]
        self.kept_without.append(float(np.mean([without.gap(each) <= limit for each, _, limit in gaps])))
        self.price.append(without.accuracy - truth.accuracy)
        self.method = promises.method
        self.broken.append(any(gap > limit for each, gap, limit in gaps if each.state == MET))
        self.certified.append(len(certified.where(state=MET)) / len(certified))
        self.kept.append(float(np.mean([gap <= limit for _, gap, limit in gaps])))
        alone = len(solution.policy.sites) == 1
        inside = [each.site is not None or alone for each in certified]
        bounded = [
            (local, gap <= each.high)
            for local, (each, gap, _) in zip(inside, gaps, strict=True)
            if each.high is not None
        ]
        self.local_holds += [float(np.mean([holds for local, holds in bounded if local]))] if bounded else []
        self.global_holds += [holds for local, holds in bounded if not local]
        if promises.largest_local_bound is not None:
            largest = max(gap for local, (_, gap, _) in zip(inside, gaps, strict=True) if local)
            self.largest_holds.append(largest <= promises.largest_local_bound)

    def as_dict(self) -> dict[str, Any]:
        """Means over the runs, as plain values; None where there is nothing to average."""
        lists = ("largest_holds", "local_holds", "global_holds", "broken", "certified", "kept", "kept_without", "price")
        means = {name: float(np.mean(getattr(self, name))) if getattr(self, name) else None for name in lists}
        return {"scenario": self.scenario, "method": self.method, "runs": len(self.broken)} | means


def simulate(scenario: Scenario, runs: Iterable[int]) -> Results:
    """Draw, fit and compare, once for every number given: each starts its own stream."""
    found = Results(scenario.name)
    for run in runs:
        rng = np.random.default_rng([run, len(scenario.name), scenario.rows])
        population = Population.drawn(scenario, rng)
        rows = population.rows(rng)
        rows |= {"notion": scenario.notion, "calibration": scenario.calibration, "random_state": run}
        rows |= {"local_tolerance": scenario.local, "global_tolerance": scenario.global_}
        solution, without = (logofair.fit(**rows, confidence=level) for level in (CONFIDENCE, None))
        found.add(solution, population.measured(solution), population.measured(without))
    return found


@click.command(epilog=examples("python -m benchmarks.promises --runs 1000", "python -m benchmarks.promises --quick"))
@click.option(
    "--runs",
    type=int,
    default=1000,
    show_default=True,
    callback=such_that(lambda runs: runs >= 1, "use at least 1"),
    help="Federations of every kind.",
)
@click.option("--only", help="One kind of federation, by name.")
@click.option("--quick", is_flag=True, help="A twentieth of the runs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def promises(runs: int, only: str | None, quick: bool, as_json: bool) -> None:
    """Check promises for new rows on federations whose population is known."""
    runs = max(runs // 20, 1) if quick else runs
    chosen = [scenario for scenario in SCENARIOS if only in (None, scenario.name)]
    with showing_progress(quiet=as_json) as progress:
        steps = [simulate(each, progress(range(runs), each.name, runs)).as_dict() for each in chosen]
    if as_json:
        click.echo(json.dumps(steps, indent=1))
    else:
        show(steps)


def show(results: list[dict[str, Any]]) -> None:
    """Print the results as a table."""
    table = Table(title=f"promises with {CONFIDENCE:.0%} confidence, in percent", title_justify="left")
    table.box, table.padding = None, (0, 1, 0, 0)
    table.add_column("federations", no_wrap=True)
    for name in ("runs", "largest", "local", "global", "broken", "made", "kept", "plain", "price"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in results:
        names = ("largest_holds", "local_holds", "global_holds", "broken", "certified", "kept", "kept_without")
        digits = (1, 1, 1, 1, 0, 0, 0)
        shares = [
            "" if each[name] is None else f"{100 * each[name]:.{n}f}" for name, n in zip(names, digits, strict=True)
        ]
        table.add_row(each["scenario"], str(each["runs"]), *shares, f"{each['price']:+.4f}")
    console = Console()
    console.print(table)
    runs = min(each["runs"] for each in results)
    console.print(
        "largest, local, global: how often the bound of the largest local gap, of each local gap and of the global gap "
        "holds in the population; broken: runs in which some certified promise fails there; made: requirements that "
        "are certified; kept and plain: requirements that are within tolerance in the population, with and without "
        "confidence; price: accuracy there that it costs. "
        f"Standard error of a true 95% over {runs} runs: {100 * np.sqrt(0.95 * 0.05 / runs):.1f}."
    )


if __name__ == "__main__":
    promises()
