"""``logofair reproduce``: which experiments are wanted, running them, and what is told of the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.cli.pages.console import counted, grid, notes, print_page, titled
from logofair.columns.checks import nearest_name
from logofair.errors import InputError
from logofair.files.writing import locked
from logofair.progress import Progress
from logofair_reproduction.experiments.experiment import Experiment, experiment_names, load_experiment
from logofair_reproduction.experiments.rendering import Rendered, check_packages, render
from logofair_reproduction.experiments.runner import RunState, how_far, missing_data, run
from logofair_reproduction.experiments.scores import Machine

if TYPE_CHECKING:
    from logofair_reproduction.experiments.claims import Verdict
    from logofair_reproduction.experiments.glance import Matrix

__all__ = ["Outcome", "Selection", "as_dict", "failures", "listed", "reproduced", "show", "show_list", "shown_again"]

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
        found = [part for name in self.experiments for part in self._parts_of(name)]
        if not found:
            raise InputError(
                f"{', '.join(self.names)}: no case has all that --data, --method and --alpha ask for; leave one out."
            )
        return found

    def _parts_of(self, name: str) -> list[Experiment]:
        return load_experiment(
            name,
            quick=self.quick,
            data=self.data or ((_QUICK_DATA,) if self.quick else ()),
            methods=self.method,
            alphas=self.alpha,
            seeds=self.seeds,
            budget=self.settings,
        )


def _check(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise on a name that is none of those known."""
    names = list(dict.fromkeys(known))
    for name in given:
        if name not in names:
            raise InputError(f"{option}: got {name!r}{nearest_name(name, names)}; use one of {', '.join(names)}.")


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
    """Run what is wanted and not in the folder yet, and write page, tables and figures."""
    from logofair_reproduction.training import need_torch

    parts = wanted.parts()
    need_torch()
    check_packages()
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
        rendered = _rendered(folder, cache, progress) if state.measured or state.before else None
    return Outcome(folder, names, rendered, state, missing)


def shown_again(names: Sequence[str], folder: Path, cache: Path | None, progress: Progress) -> Outcome:
    """Write page, tables and figures of what is in the folder; the tables shown are of these experiments, or of all."""
    _check("NAME", names, [*experiment_names(), _ALL])
    check_packages()
    rendered = _rendered(folder, cache, progress)
    there = dict.fromkeys(line.place["experiment"] for line in rendered.lines)
    return Outcome(folder, tuple(name for name in there if not names or _ALL in names or name in names), rendered)


def _rendered(folder: Path, cache: Path | None, progress: Progress) -> Rendered:
    (rendered,) = progress(map(render, [folder], [cache]), "Writing the page", total=1)
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
    found = rendered.lines if rendered else ()
    return {
        "folder": str(outcome.folder),
        "experiments": list(outcome.experiments),
        "measured": state.measured if state else 0,
        "before": state.before if state else None,
        "failed": [{**case.as_dict(), "reason": why} for case, why in state.failed] if state else [],
        "missing": dict(outcome.missing or {}),
        "lines": [
            {
                **line.place,
                "figures": {name: known.as_dict() if (known := line.figure(name)) else None for name in line.values},
                "claimed": line.claimed,
                "settings": dict(line.settings),
            }
            for line in found
            if line.place["experiment"] in outcome.experiments
        ],
        "verdicts": [asdict(verdict) for verdict in rendered.verdicts] if rendered else [],
        "files": [str(path) for path in rendered.files] if rendered else [],
    }


def show(outcome: Outcome, console: Console) -> None:
    """Print the tables of the experiments wanted, the verdicts, and where the files are."""
    from logofair_reproduction.experiments.tables import as_text, tables_of

    rendered = outcome.rendered
    if rendered is not None:
        for table in tables_of([line for line in rendered.lines if line.place["experiment"] in outcome.experiments]):
            click.echo(f"{as_text(table)}\n")  # as wide as it is
        print_page(["What was claimed", "", *_judged(rendered.verdicts, outcome.folder), ""], console)
    print_page([notes(_done(outcome))], console)


def _judged(verdicts: Sequence[Verdict], folder: Path) -> Iterator[Any]:
    """Claims by places with a sign each, why some are not confirmed, and where to read more."""
    from logofair_reproduction.experiments.glance import LEGEND, matrix

    found = matrix(verdicts)
    if found.rows:
        yield _matrix(found)
        yield ""
        yield LEGEND
    refuted = [verdict for verdict in verdicts if verdict.verdict == "not confirmed"]
    if refuted:
        yield "\nHow many comparisons speak for what is not confirmed, and against it\n"
        yield _comparisons(refuted)
    without = sum(1 for verdict in verdicts if not verdict.figures)
    more = f"{counted(without, 'verdict')} for want of results: what to run, and " if without else ""
    yield f"\n{more}every comparison: {folder / 'page.html'}"


def _matrix(found: Matrix) -> Table:
    from logofair_reproduction.experiments.glance import SIGNS, SOURCES

    table = grid("claim", *(column.replace(" ", "\n") for column in found.columns), padding=1)
    for source, title in SOURCES.items():
        own = found.of(source)
        if own:
            table.add_row(Text(title, style="bold"))
        for row in own:
            signs = [SIGNS[row.verdicts[name].verdict] if name in row.verdicts else "" for name in found.columns]
            table.add_row(row.short, *signs)
    return table


def _comparisons(verdicts: Sequence[Verdict]) -> Table:
    """How many comparisons speak for a claim, against it, and leave it open, over the places of its verdicts."""
    counts: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        counts.setdefault(verdict.short, Counter()).update(verdict.counts)
    states = ("for", "against", "open")
    table = grid("claim", *states)
    for short, number in counts.items():
        table.add_row(short, *(f"{number[state]}" for state in states))
    return table


def _done(outcome: Outcome) -> Iterator[tuple[str, str]]:
    state = outcome.state
    if state is not None:
        yield "Measured", f"{counted(state.measured, 'case')} now, {state.before:,} before."
    missing = outcome.missing or {}
    yield from titled("Left out", (f"{name}, which is not prepared: {command}" for name, command in missing.items()))
    if outcome.rendered is not None:
        yield "Files", f"{outcome.folder / 'page.html'}; beside it tables.md, tables.tex, figures, results.jsonl"
