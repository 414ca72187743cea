"""A fit as a page for people, and as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing.measure import Tally, tally_of
from logofair.auditing.result import value_of
from logofair.cli.audit_figures import FEW_ROWS, Figure, NotionFigures, figures_of, plain
from logofair.cli.audit_page import grid, notes, print_page, words
from logofair.cli.data_rows import DataRows
from logofair.notions import NOTIONS
from logofair.solution import Solution

__all__ = ["Stage", "as_dict", "before_and_after", "show"]


@dataclass(frozen=True, eq=False)
class Stage:
    """Accuracy, acceptance and gaps of one rule on the calibration rows, counted with labels."""

    accuracy: float | None
    accepted: float
    notions: tuple[NotionFigures, ...]

    def as_dict(self, tolerance: float) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("global", "largest_local", "largest_local_30_rows")
        found = {n.notion.name: n.as_dict(tolerance) for n in self.notions}
        gaps = {name: {key: values[key] for key in names} for name, values in found.items()}
        return {"accuracy": self.accuracy, "accepted": self.accepted, "gaps": gaps}


def before_and_after(solution: Solution, names: Sequence[str]) -> tuple[Stage, Stage]:
    """Measure score >= 1/2 and the policy on the calibration rows, for the notions promised.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> before, after = before_and_after(solution, ["demographic_parity"])
    >>> before.notions[0].whole.value, round(after.notions[0].whole.value, 2)
    (1.0, 0.02)
    """
    rows, policy = solution.rows, solution.policy
    clients = rows.clients.labels if policy.has_clients else None
    fair = policy.probabilities(rows.scores, groups=rows.groups.labels, clients=clients)
    return _stage(solution, (rows.scores >= 0.5).astype(np.float64), names), _stage(solution, fair, names)


def _stage(solution: Solution, chance: Any, names: Sequence[str]) -> Stage:
    rows = solution.rows
    tally: Tally = tally_of(chance, rows.labels, rows.weights, rows.groups, rows.clients)
    measured = [NOTIONS[name] for name in names if tally.labelled or not NOTIONS[name].needs_labels]
    figures = tuple(figures_of(tally, notion, rows.groups.names, rows.clients.names) for notion in measured)
    accepted = float(tally.accepted.sum() / tally.mass.sum())
    return Stage(value_of(tally.pooled().accuracy()[0]), accepted, figures)


def show(
    solution: Solution,
    compared: tuple[Stage, Stage],
    rows: DataRows,
    written: tuple[Path, Path | None],
    console: Console,
) -> None:
    """Print a fit."""
    source, policy = rows.source, solution.policy
    clients = f" at {len(policy.clients):,} clients" if policy.has_clients else ""
    dropped = f" ({rows.dropped:,} left out for lack of a value)" if rows.dropped else ""
    where = f" where {source.columns['where']}" if "where" in source.columns else ""
    heading = f"{source.name}: {source.rows:,} rows{where}{dropped}{clients}; {len(policy.groups):,} groups"
    parts: list[Any] = [Text(heading), "", _table(solution, *compared), "", notes(list(_sentences(solution)))]
    print_page([*parts, "", notes(list(_next(*written)))], console)


def _table(solution: Solution, before: Stage, after: Stage) -> Table:
    """Accuracy and gaps before and after, side by side."""
    counted = "on these rows" if solution.rows.labels is None else "on these rows, by label"
    table = grid(counted, "score >= 1/2", "fair", "rows", left=1)
    table.add_row("accepted", f"{before.accepted:.1%}", f"{after.accepted:.1%}", f"{solution.rows.scores.size:,}")
    if before.accuracy is not None and after.accuracy is not None:
        table.add_row("accuracy", f"{before.accuracy:.4f}", f"{after.accuracy:.4f}", f"{solution.rows.scores.size:,}")
    several = len(solution.policy.clients) > 1
    for old, new in zip(before.notions, after.notions, strict=True):
        name = words(new)
        table.add_row(f"{name}, over all", _gap(old.whole), _gap(new.whole), _rows(new.whole))
        if several:
            table.add_row("  at the worst client", _gap(old.worst), _gap(new.worst), _rows(new.worst))
        if several and (old.worst, new.worst) != (old.worst_solid, new.worst_solid):
            solid = old.worst_solid, new.worst_solid
            table.add_row(f"  the worst with {FEW_ROWS}+ rows", *map(_gap, solid), _rows(solid[1]))
    return table


def _gap(figure: Figure) -> str:
    """A gap and where it is."""
    where = "" if figure.client is None else f"{figure.client}  "
    return "undefined" if figure.value is None else f"{where}{figure.value:.4f}"


def _rows(figure: Figure) -> str:
    return "" if figure.rows is None else f"{figure.rows:,}"


def _sentences(solution: Solution) -> Iterator[tuple[str, str]]:
    """Promise, certificate, coins, prices and warnings."""
    c, lines = solution.certificate, solution.summary().splitlines()
    yield "Promise", lines[0].removeprefix("Promised: ").replace("_", " ")
    kept = "kept" if c.violation <= c.precision else f"missed by {c.violation:.4f}"
    yield (
        "Proof",
        f"On the calibration rows, in calibrated chances, the promise is {kept}; expected accuracy is {c.primal:.4f}, "
        f"and no rule that keeps it reaches more than {c.dual:.4f} (certified gap {max(c.gap, 0.0):.0e}).",
    )
    yield "Coins", lines[2]
    for place, sentence in enumerate(solution.prices()):
        yield "" if place else "Price", sentence
    yield (
        "New rows",
        "will differ by chance, the more so the fewer there are; gaps above are counted with labels, the promise with "
        "chances, so they differ a little too.",
    )
    for place, sentence in enumerate(solution.warnings):
        yield "" if place else "Warning", sentence


def _next(policy: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    """What was written and what to do with it."""
    yield "Wrote", str(policy) if report is None else f"{policy} and {report}"
    name = shlex.quote(str(policy))
    yield "Next", f"logofair explain {name}"
    yield "", f"logofair apply {name} NEW --out decisions.csv"


def as_dict(solution: Solution, compared: tuple[Stage, Stage], rows: DataRows) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    about, c, problem = solution.policy.about, solution.certificate, solution.problem
    accuracy, violation = solution.deterministic
    local = [
        {"client": plain(name), "rate": rate.name, "price": float(c.prices.local[place, k])}
        for place, name in enumerate(solution.policy.clients)
        for k, rate in enumerate(problem.local_rates)
        if c.prices.local[place, k] > 0
    ]
    shared = [{"rate": rate.name, "price": float(c.prices.global_[k])} for k, rate in enumerate(problem.global_rates)]
    return {
        "data": about["data"],
        "rows_left_out": rows.dropped,
        "groups": [plain(name) for name in solution.policy.groups],
        "clients": [plain(name) for name in solution.policy.clients] if solution.policy.has_clients else None,
        "promise": about["promise"],
        "certificate": about["certificate"] | {"holds": c.holds},
        "calibration": about["calibration"],
        "solver": solution.solver,
        "rounds": solution.rounds,
        "prices": {"local": local, "global": shared},
        "before": compared[0].as_dict(0.0),
        "after": compared[1].as_dict(0.0),
        "cells_with_coins": int(solution.policy.mixtures.mixed.sum()),
        "without_coins": {"accuracy": accuracy, "violation": violation},
        "warnings": list(solution.warnings),
    }
