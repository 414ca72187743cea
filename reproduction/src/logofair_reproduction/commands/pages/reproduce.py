"""``logofair reproduce``: which experiments are wanted, running them, and what is told of the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import polars as pl
from rich.console import Console

from logofair.cli.console import counted, grid, notes, print_page, titled
from logofair.datasets.table import chosen
from logofair.errors import InputError
from logofair.files.writing import locked
from logofair.progress import Progress
from logofair_reproduction.experiments.experiment import Experiment, experiment_names, load_experiment
from logofair_reproduction.experiments.page import Rendered, render
from logofair_reproduction.experiments.runner import RunState, how_far, missing_data, run
from logofair_reproduction.experiments.scores import Machine
from logofair_reproduction.experiments.tables import as_markdown

_ALL = "all"
_QUICK_DATA = "adult"
_LOCK = ".lock"


@dataclass(frozen=True)
class Selection:
    """What the command line chooses: experiments by name, and which part of them; empty means all."""

    names: tuple[str, ...]
    quick: bool = False
    data: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    alpha: tuple[float, ...] = ()
    seeds: int | None = None
    settings: int | None = None

    @property
    def experiments(self) -> list[str]:
        """The names of the experiments, each once."""
        return experiment_names() if _ALL in self.names else list(dict.fromkeys(self.names))

    def parts(self) -> list[Experiment]:
        """What is to be run; raise on a name that is none, and where nothing is left."""
        _check("NAME", self.names, [*experiment_names(), _ALL])
        full = [part for name in self.experiments for part in load_experiment(name)]
        data = [part.splits[0].data for part in full]
        _check("--data", self.data, data)
        _check("--method", self.method, (method for part in full for method in part.methods))
        alphas = [split.alpha for part in full for split in part.splits if split.alpha is not None]
        _check("--alpha", (f"{a:g}" for a in self.alpha), (f"{a:g}" for a in alphas))
        if self.quick and not self.data and _QUICK_DATA not in data:
            what = ", ".join(self.experiments)
            raise InputError(f"--quick: takes {_QUICK_DATA} alone, which is not in {what}; add --data {data[0]}.")
        chosen = self.data or ((_QUICK_DATA,) if self.quick else ())
        found = [
            part
            for name in self.experiments
            for part in load_experiment(
                name,
                quick=self.quick,
                data=chosen,
                methods=self.method,
                alphas=self.alpha,
                seeds=self.seeds,
                budget=self.settings,
            )
        ]
        if not found:
            raise InputError(
                f"{', '.join(self.names)}: no case has all that --data, --method and --alpha ask for; leave one out."
            )
        return found


def _check(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise on a name that is none of those known."""
    names = list(dict.fromkeys(known))
    for name in given:
        chosen(name, names, option)


@dataclass(frozen=True)
class Outcome:
    """What a command did: results, what a run added to them, data sets left out, or how far it came until stopped."""

    folder: Path
    experiments: tuple[str, ...]
    rendered: Rendered | None
    state: RunState | None = None
    missing: Mapping[str, str] | None = None
    stopped: tuple[int, int] | None = None


def reproduced(
    wanted: Selection, folder: Path, progress: Progress, *, jobs: int | None, device: str, cache: Path | None
) -> Outcome:
    """Run what is wanted and not in the folder yet, and write page and tables."""
    from logofair_reproduction.training import need_torch

    parts = wanted.parts()
    need_torch()
    from logofair_reproduction.training.rows import device_named

    machine = Machine(folder, cache, device_named(device).type)
    missing = missing_data(parts, cache)
    parts = [part for part in parts if part.splits[0].data not in missing]
    if not parts:
        todo = "; ".join(f"{name} is not prepared, type: {command}" for name, command in missing.items())
        raise InputError(f"{', '.join(wanted.names)}: {todo}.")
    names = tuple(dict.fromkeys(part.name for part in parts))
    with locked(folder / _LOCK, patience=0.0):
        try:
            state = run(parts, machine, jobs=jobs, progress=progress)
        except KeyboardInterrupt:
            return Outcome(folder, names, None, stopped=how_far(parts, folder))
        rendered = _rendered(folder, progress) if state.measured or state.before else None
    return Outcome(folder, names, rendered, state, missing)


def shown_again(names: Sequence[str], folder: Path, progress: Progress) -> Outcome:
    """Write page and tables of what is in the folder; the tables shown are of these experiments, or of all."""
    _check("NAME", names, [*experiment_names(), _ALL])
    rendered = _rendered(folder, progress)
    there = rendered.lines["experiment"].unique(maintain_order=True)
    return Outcome(folder, tuple(name for name in there if not names or _ALL in names or name in names), rendered)


def _rendered(folder: Path, progress: Progress) -> Rendered:
    (rendered,) = progress(map(render, [folder]), "Writing the page", total=1)
    return rendered


def failures(outcome: Outcome) -> str | None:
    """What could not be measured, in a sentence; None where everything was."""
    if outcome.state is None or not outcome.state.failed:
        return None
    (case, reason), *others = outcome.state.failed
    first = f"{case.experiment}, {case.method} on {case.split.name}: {' '.join(reason.split())}"
    return f"logofair: {counted(len(others) + 1, 'case')} failed; the first: {first.rstrip('.')}."


def listed(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Experiments, those named or all: name, title, what they are about, data sets, methods, and how many cases."""
    _check("NAME", names, [*experiment_names(), _ALL])
    found = []
    for name in Selection(tuple(names) or (_ALL,)).experiments:
        parts = load_experiment(name)
        found.append(
            {
                "name": name,
                "title": parts[0].title,
                "about": parts[0].about,
                "data": [part.splits[0].data for part in parts],
                "methods": list(dict.fromkeys(method for part in parts for method in part.methods)),
                "cases": sum(1 for part in parts for _ in part.cases()),
            }
        )
    return found


def show_list(found: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print all experiments, one line each."""
    table = grid("name", "what it is", "data", "cases", left=3)
    for each in found:
        table.add_row(each["name"], each["title"], ", ".join(each["data"]), f"{each['cases']:,}")
    print_page([table, "", "Run one: logofair reproduce NAME --quick; all of them: logofair reproduce all"], console)


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Plain values of a command that was not stopped."""
    rendered, state = outcome.rendered, outcome.state
    wanted = pl.col("experiment").is_in(outcome.experiments)
    return {
        "folder": str(outcome.folder),
        "experiments": list(outcome.experiments),
        "measured": state.measured if state else 0,
        "before": state.before if state else None,
        "failed": [{**case.as_dict(), "reason": why} for case, why in state.failed] if state else [],
        "missing": dict(outcome.missing or {}),
        "lines": rendered.lines.filter(wanted).to_dicts() if rendered else [],
        "verdicts": rendered.verdicts.to_dicts() if rendered else [],
        "files": [str(path) for path in rendered.files] if rendered else [],
    }


def show(outcome: Outcome, console: Console) -> None:
    """Print the tables of the experiments wanted, the verdicts, and where the files are."""
    rendered = outcome.rendered
    if rendered is not None:
        for table in rendered.tables:
            if table.experiment in outcome.experiments:
                click.echo(as_markdown(table))  # as wide as it is
        click.echo(as_markdown(rendered.matrix))
    print_page([notes(_done(outcome))], console)


def _done(outcome: Outcome) -> Iterator[tuple[str, str]]:
    state = outcome.state
    if state is not None:
        yield "Measured", f"{counted(state.measured, 'case')} now, {state.before:,} before."
    missing = outcome.missing or {}
    yield from titled("Left out", (f"{name}, which is not prepared: {command}" for name, command in missing.items()))
    if outcome.rendered is not None:
        yield "Files", f"{outcome.folder / 'page.html'}; beside it tables.md, results.jsonl"
