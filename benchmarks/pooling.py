"""``python -m benchmarks.pooling``: the true gaps of fitted rules, with and without pooling, in known populations.

Scores of a cell are normal in log-odds, so a rule's true rates are known: they are taken at 2,000 quantiles of every
cell. Each federation is drawn once and fitted in every way; the largest and the mean true local gap, the true global
gap and the true accuracy are averaged over federations. The excess is that of the global gap on the sites' own rows,
in chances, over the tolerance.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import click
import numpy as np
from scipy.special import expit, ndtri, rel_entr

import logofair
from logofair.calibration import METHODS, cross_fit
from logofair.columns.checks import Floats
from logofair.columns.labels import Codes
from logofair.columns.rows import Rows
from logofair.fitting.pooling import STRENGTHS

_QUANTILES = ndtri((np.arange(2000) + 0.5) / 2000)
_LOG_ODDS = (-0.9, -0.1, -0.5, 0.3, 0.0)  # of the groups' mean scores
_SD = 1.2
NOTIONS = ("demographic_parity", "equalized_odds")
WAYS = ("none", "full", "auto")


@dataclass(frozen=True)
class People:
    """A population: mean and standard deviation of each cell's log-odds, and what labels add, (sites, groups)."""

    mean: Floats
    sd: Floats
    added: Floats

    def draw(self, rows: Any, rng: np.random.Generator) -> tuple[Floats, Floats, Any, Any]:
        """Scores, labels, groups and sites of so many rows of each cell, (sites, groups)."""
        site, group = (np.repeat(index.ravel(), rows.ravel()) for index in np.indices(self.mean.shape))
        odds = rng.normal(self.mean[site, group], self.sd[site, group])
        label = rng.random(odds.size) < expit(odds + self.added[site, group])
        return expit(odds), label.astype(float), group, site

    def measured(self, policy: logofair.Policy, notion: str, rows: Any) -> dict[str, float]:
        """True gaps and accuracy of a policy, cells in proportion to their rows."""
        odds = self.mean[..., None] + self.sd[..., None] * _QUANTILES
        eta = expit(odds + self.added[..., None])
        site, group, _ = np.indices(odds.shape)
        chance = policy.probabilities(expit(odds).ravel(), sensitive_features=group.ravel(), sites=site.ravel())
        accepted = chance.reshape(odds.shape)
        share = rows / rows.sum()
        weights = [np.ones_like(eta)] if notion == "demographic_parity" else [eta, 1.0 - eta]
        local, global_ = [], []
        for weight in weights:
            taken, base = (accepted * weight).mean(axis=-1), weight.mean(axis=-1)
            local.append(np.ptp(taken / base, axis=1))
            global_.append(np.ptp((share * taken).sum(axis=0) / (share * base).sum(axis=0)))
        right = (accepted * eta + (1.0 - accepted) * (1.0 - eta)).mean(axis=-1)
        worst = np.max(local, axis=0)
        return {
            "largest": float(worst.max()),
            "mean": float(worst.mean()),
            "global": float(max(global_)),
            "accuracy": float((share * right).sum()),
        }


def population(kind: str, n_sites: int, groups: int, rng: np.random.Generator) -> People:
    """Sites that are alike, shift together (sd 0.3 in log-odds), shift by cell, or differ in every respect.

    Those that are "apart" differ in what labels mean for a score, by 0.9 in log-odds: calibration maps are then far
    from those of their group.
    """
    sites, cells = rng.normal(0.0, 0.3, (n_sites, 1)), rng.normal(0.0, 0.3, (n_sites, groups))
    labels, shapes = rng.normal(0.0, 0.2, (n_sites, 1)), rng.normal(0.0, 0.1, (n_sites, groups))
    mean, none = np.tile(_LOG_ODDS[:groups], (n_sites, 1)), np.zeros((n_sites, groups))
    moved = {"alike": none, "sites": none + sites, "cells": cells, "mixed": sites + 0.5 * cells, "apart": cells}[kind]
    if kind not in ("mixed", "apart"):
        return People(mean + moved, none + _SD, none)
    if kind == "apart":
        return People(mean + moved, none + _SD, rng.normal(0.0, 0.8, (n_sites, 1)) + rng.normal(0.0, 0.4, mean.shape))
    return People(mean + moved, _SD * np.exp(shapes), none + labels)


def excess_losses(kind: str, rows: int, method: str, runs: int) -> dict[str, float]:
    """How much log-loss each way's calibrators add to that of the true chances, on average over new rows."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(runs):
        rng = np.random.default_rng((number, rows))
        people = population(kind, 5, 2, rng)
        scores, labels, groups, sites = people.draw(np.full((5, 2), rows), rng)
        other, _, group, site = people.draw(np.full((5, 2), 2000), rng)
        true = expit(np.log(other / (1.0 - other)) + people.added[site, group])
        group_codes, site_codes = Codes((0, 1), groups.astype(np.int32)), Codes(tuple(range(5)), sites.astype(np.int32))
        sample = Rows(scores, labels.astype(np.int8), group_codes, site_codes, None)
        for way in WAYS:
            fitted = cross_fit(sample, method, rng=np.random.default_rng(number), strengths=STRENGTHS[way])
            guess = np.clip(fitted.calibrator(other, group.astype(np.int32), site.astype(np.int32)), 1e-12, 1 - 1e-12)
            found[way].append(float(np.mean(rel_entr(true, guess) + rel_entr(1.0 - true, 1.0 - guess))))
    return {way: float(np.mean(values)) for way, values in found.items()}


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    kind: str
    sites: int
    rows: int
    notion: str
    groups: int = 2
    uneven: bool = False

    def cell_rows(self, rng: np.random.Generator) -> Any:
        """Rows of each cell: all the same, or sites of very different size."""
        shape = (self.sites, self.groups)
        if not self.uneven:
            return np.full(shape, self.rows)
        return np.maximum(2, np.rint(self.rows * np.exp(rng.normal(-0.5, 1.0, shape)))).astype(int)


def compare(setting: Setting, runs: int, ways: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """Every way on the same federations: means, ratios to the first way, and standard errors of the differences."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    chosen: dict[str, dict[str, int]] = {name: {} for name in ways}
    for number in range(runs):
        rng = np.random.default_rng((number, setting.rows, setting.sites))
        people = population(setting.kind, setting.sites, setting.groups, rng)
        rows = setting.cell_rows(rng)
        scores, labels, groups, sites = people.draw(rows, rng)
        for name, way in ways.items():
            solution = way(scores, labels, groups=groups, sites=sites, notion=setting.notion, random_state=number)
            own = max(each.after or 0.0 for each in solution.on_own_rows if each.site is None) - 0.02
            found[name].append(people.measured(solution.policy, setting.notion, rows) | {"own_excess": own})
            kind = str(solution.pooling)
            chosen[name][kind] = chosen[name].get(kind, 0) + 1
    first = {key: np.array([one[key] for one in found[next(iter(ways))]]) for key in found[next(iter(ways))][0]}
    table = {}
    for name in ways:
        values = {key: np.array([one[key] for one in found[name]]) for key in first}
        table[name] = {key: float(value.mean()) for key, value in values.items()} | {
            "ratio": float(values["largest"].mean() / first["largest"].mean()),
            "largest_se": _standard_error(values["largest"] - first["largest"]),
            "largest_own_excess": float(values["own_excess"].max()),
            "accuracy_gain": float((values["accuracy"] - first["accuracy"]).mean()),
            "accuracy_se": _standard_error(values["accuracy"] - first["accuracy"]),
            "chosen": chosen[name],
        }
    return {"setting": vars(setting), "runs": runs, "ways": table}


def _standard_error(differences: Floats) -> float:
    return float(differences.std(ddof=1) / np.sqrt(differences.size)) if differences.size > 1 else float("nan")


def fitted_by(pooling: str) -> Callable[..., Any]:
    """`logofair.fit` with this pooling and tolerances of 0.02."""
    return lambda *columns, **options: logofair.fit(*columns, pooling=pooling, **options)


def settings(kinds: list[str], sizes: list[int], sites: int, groups: int, *, uneven: bool) -> list[Setting]:
    """All lines of a table."""
    return [
        Setting(kind, sites, rows, notion, groups, uneven) for kind in kinds for rows in sizes for notion in NOTIONS
    ]


@click.command()
@click.option("--quick", is_flag=True, help="Rows per cell 20 and 100, ten federations each: a minute.")
@click.option("--kinds", default="alike,sites,cells,mixed", show_default=True)
@click.option("--sizes", default="20,100,1000,10000", show_default=True, help="Rows per cell.")
@click.option("--sites", default=5, show_default=True)
@click.option("--groups", default=2, show_default=True)
@click.option("--uneven", is_flag=True, help="Sites of very different size.")
@click.option("--runs", default=100, show_default=True, help="Federations; fewer where cells are large.")
@click.option("--json", "as_json", is_flag=True)
@click.option("--chances", is_flag=True, help="Compare the log-loss that calibration adds, for every method.")
def main(
    quick: bool,
    kinds: str,
    sizes: str,
    sites: int,
    groups: int,
    uneven: bool,
    runs: int,
    as_json: bool,
    chances: bool,
) -> None:
    """Compare the true gaps of rules fitted with and without pooling, or what their calibrators lose."""
    if chances:
        for kind, rows, method in product(kinds.split(","), map(int, sizes.split(",")), METHODS[:-1]):
            lost = " | ".join(f"{loss:.4f}" for loss in excess_losses(kind, rows, method, runs).values())
            click.echo(f"| {kind} | {rows:,} | {method} | {lost} |")
        return
    numbers = [20, 100] if quick else [int(size) for size in sizes.split(",")]
    runs = 10 if quick else runs
    results = []
    for setting in settings(kinds.split(","), numbers, sites, groups, uneven=uneven):
        fewer = max(4, min(runs, runs * 500 // setting.rows))
        results.append(compare(setting, fewer, {way: fitted_by(way) for way in WAYS}))
        if not as_json:
            show(results[-1])
    if as_json:
        json.dump(results, sys.stdout, indent=1)


def show(result: dict[str, Any]) -> None:
    """Print one setting."""
    s = result["setting"]
    click.echo(f"{s['kind']}, {s['sites']} sites, {s['rows']:,} rows per cell, {s['notion']}, {result['runs']} runs")
    for name, way in result["ways"].items():
        chosen = ", ".join(f"{kind} {n}" for kind, n in sorted(way["chosen"].items(), key=lambda item: -item[1])[:4])
        click.echo(
            f"  {name:5} largest {way['largest']:.4f} (ratio {way['ratio']:.3f}, se {way['largest_se']:.4f})  mean "
            f"{way['mean']:.4f}  global {way['global']:.4f} (own rows: excess {way['own_excess']:+.4f}, at most "
            f"{way['largest_own_excess']:+.4f})  accuracy {way['accuracy_gain']:+.4f} "
            f"(se {way['accuracy_se']:.4f})  {chosen}"
        )


if __name__ == "__main__":
    main()
