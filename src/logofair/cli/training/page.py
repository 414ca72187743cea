"""A training run as a page for people, and as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing import audit
from logofair.auditing.figures import FEW_ROWS, Figure, figures_of, plain
from logofair.auditing.measure import Tally, tally_of
from logofair.auditing.result import value_of
from logofair.auditing.support import Support
from logofair.cli.pages.audit import grid, notes, print_page, words
from logofair.cli.pages.fit import Stage
from logofair.cli.training.rows import TrainingRows
from logofair.cli.training.run import TrainedModel
from logofair.cli.training.settings import TrainSettings
from logofair.columns.checks import Label
from logofair.columns.labels import Codes, encode, encode_known
from logofair.notions import NOTIONS

__all__ = ["TrainingMeasures", "as_dict", "show", "training_measures"]


_GROUPS = 8
_NAME = 10
_PURPOSE = {"calibration": "calibrate", "test": "test"}


@dataclass(frozen=True, eq=False)
class TrainingMeasures:
    """Accuracy and gaps of score >= 1/2 on the rows trained on and on the test rows, and what the latter rest on."""

    train: Stage
    test: Stage
    support: Support


def training_measures(settings: TrainSettings, rows: TrainingRows, trained: TrainedModel) -> TrainingMeasures:
    """Measure a trained model.

    Examples
    --------
    >>> import torch
    >>> from logofair.cli.pages.console import showing_progress
    >>> from logofair.cli.training.rows import training_rows
    >>> from logofair.cli.training.run import train_and_score
    >>> settings = TrainSettings("fedavg", "generated", limit=1000, rounds=2)
    >>> with showing_progress(quiet=True) as progress:
    ...     rows = training_rows(settings, progress)
    ...     trained = train_and_score(settings, rows, progress, device=torch.device("cpu"))
    >>> measures = training_measures(settings, rows, trained)
    >>> measures.train.accuracy == trained.state.measured.accuracy, int(measures.support.rows.sum())
    (True, 300)
    """
    test, measured = rows.parts["test"], trained.state.measured
    chance = (trained.scores["test"] >= 0.5).astype(np.float64)
    clients = encode(test.clients, "clients")
    groups = Codes(rows.groups, encode_known(test.groups, rows.groups, "groups"))
    counted = tally_of(chance, test.labels.astype(np.float64), None, groups, clients)
    found = audit(chance, test.labels, groups=test.groups, clients=test.clients, notion=settings.notion)
    return TrainingMeasures(
        _stage(measured.tally, settings, measured.groups, measured.clients),
        _stage(counted, settings, groups.names, clients.names),
        Support.of(found, settings.notion),
    )


def _stage(tally: Tally, settings: TrainSettings, groups: tuple[Label, ...], clients: tuple[Label, ...]) -> Stage:
    accepted = float(tally.accepted.sum() / tally.mass.sum())
    figures = figures_of(tally, NOTIONS[settings.notion], groups, clients)
    return Stage(value_of(tally.merged().accuracy()[0]), accepted, (figures,))


def show(
    settings: TrainSettings,
    rows: TrainingRows,
    trained: TrainedModel,
    measures: TrainingMeasures,
    out: Path,
    console: Console,
) -> None:
    """Print what was trained on what, how it does, and what to type next."""
    parts: list[Any] = [_heading(settings, rows, trained), "", _table(rows, measures), ""]
    lines = [*_reading(measures), *_terms(rows), *_next(settings, rows, out)]
    print_page([*parts, notes(lines)], console)


def _heading(settings: TrainSettings, rows: TrainingRows, trained: TrainedModel) -> Text:
    sizes = {name: part.places.size for name, part in rows.parts.items()}
    every = np.concatenate([part.groups for part in rows.parts.values()])
    counts = [f"{group} {int((every == group).sum()):,}" for group in rows.groups]
    more = f" and {len(counts) - _GROUPS} more" if len(counts) > _GROUPS else ""
    left_out = f", {rows.left_out:,} more left out" if rows.left_out else ""
    goal = "" if settings.method == "fedavg" else f" for {settings.notion.replace('_', ' ')}"
    model = f"{trained.network.name}, {trained.network.size:,} parameters"
    kept = "".join(f", {size:,} to {_PURPOSE[name]}" for name, size in sizes.items() if name != "train")
    lines = [
        f"{rows.data.name}: {sum(sizes.values()):,} rows at {_counted(len(rows.clients), 'client')}{left_out}; "
        f"{', '.join(counts[:_GROUPS])}{more}",
        f"{settings.method}{goal}: {model}; {_rounds(trained)}, seed {settings.seed}",
        f"{sizes['train']:,} rows to train{kept}",
    ]
    return Text("\n".join(lines))


def _rounds(trained: TrainedModel) -> str:
    before = f" ({trained.resumed:,} of them before)" if trained.resumed else ""
    return f"{_counted(trained.state.round, 'round')}{before}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _table(rows: TrainingRows, measures: TrainingMeasures) -> Table:
    """Accuracy and gaps on the rows trained on and on the test rows."""
    before, after = measures.train.notions[0], measures.test.notions[0]
    table = grid("score >= 1/2", "trained on", "rows", "test", "rows", left=1)
    sizes = [f"{rows.parts[name].places.size:,}" for name in ("train", "test")]
    stages = (measures.train, measures.test)
    table.add_row("accepted", *_pairs([f"{stage.accepted:.1%}" for stage in stages], sizes))
    table.add_row("accuracy", *_pairs([_figure(stage.accuracy) for stage in stages], sizes))
    lines = {f"{words(after)} gap": (before.whole, after.whole)}
    if len(rows.clients) > 1:
        lines["  at the worst client"] = worst = (before.worst, after.worst)
        if worst != (solid := (before.worst_solid, after.worst_solid)):
            lines[f"  the worst with {FEW_ROWS}+ rows"] = solid
    for name, figures in lines.items():
        table.add_row(name, *_pairs(map(_gap, figures), map(_rows, figures)))
    return table


def _pairs(values: Iterable[str], rows: Iterable[str]) -> list[str]:
    """Every figure and the rows behind it, side by side."""
    return [text for pair in zip(values, rows, strict=True) for text in pair]


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _gap(figure: Figure) -> str:
    """A gap and where it is."""
    where = "" if figure.client is None else f"{_short(str(figure.client))}  "
    return "undefined" if figure.value is None else f"{where}{figure.value:.4f}"


def _short(name: str) -> str:
    """A client's name as far as a column has room for it; --json tells it whole."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1].rstrip(' ,')}…"


def _rows(figure: Figure) -> str:
    return "" if figure.rows is None else f"{figure.rows:,}"


def _reading(measures: TrainingMeasures) -> Iterator[tuple[str, str]]:
    """How to read the gaps, and what they rest on."""
    rate, client, group, fewest = measures.support.smallest()
    small, clients = int(measures.support.small_clients.sum()), len(measures.support.clients)
    yield "Gap", "The largest rate of a group minus the smallest. Rows: each of these two rates has at least so many."
    if measures.test.accepted in (0.0, 1.0):
        everybody = "accepts everybody" if measures.test.accepted else "refuses everybody"
        yield "Constant", f"The model {everybody} on the test rows: gaps of 0 then say nothing about fairness."
    if not small:
        return
    cell = f"The {rate} of {group} at client {client} rests on {_counted(fewest, 'test row')}"
    if clients == 1:
        yield "Small", f"{cell}, fewer than {FEW_ROWS}, so that the gap is mostly chance."
        return
    others = f"at {small:,} of {clients:,} clients some rate rests on fewer than {FEW_ROWS}"
    yield "Small", f"{cell}, the fewest; {others}, so that its gap is mostly chance."


def _terms(rows: TrainingRows) -> Iterator[tuple[str, str]]:
    """Where the data come from, and what is to know about them."""
    for place, note in enumerate(rows.data.notes):
        yield "" if place else "Note", note
    if rows.data.licence:
        yield "Licence", f"{rows.data.licence.rstrip('.')}. Known harms: logofair data describe {rows.entry.name}"
    if rows.unread:
        yield "Files", "The data set was prepared before, so that the files of --from were not read."


def _next(settings: TrainSettings, rows: TrainingRows, out: Path) -> Iterator[tuple[str, str]]:
    """What was written, and the commands to use it."""
    sizes = {name: part.places.size for name, part in rows.parts.items() if name != "train"}
    listed = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    yield "Wrote", f"{out}: the scores of the rows not trained on ({listed})"
    for command, lines in enumerate(_commands(settings, out, "calibration" in sizes)):
        for place, line in enumerate(lines):
            more = " \\" if place < len(lines) - 1 else ""  # so that what is shown can be copied as it is
            yield "" if command or place else "Next", f"{'    ' * bool(place)}{line}{more}"


def _commands(settings: TrainSettings, out: Path, calibration: bool) -> Iterator[tuple[str, ...]]:
    """Commands to type next, each in pieces that fit on a line."""
    name = shlex.quote(str(out))
    notion = () if settings.notion == "demographic_parity" else (f"--notion {settings.notion}",)
    columns = "--score score --label label --group group --client client"
    yield f"logofair audit {name}", columns, "--where part=test"
    if calibration:
        yield f"logofair fit {name}", columns, *notion, "--where part=calibration --out policy.json"


def as_dict(
    settings: TrainSettings, rows: TrainingRows, trained: TrainedModel, measures: TrainingMeasures, out: Path
) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    return {
        "out": str(out),
        "data": rows.data.name,
        "licence": rows.data.licence,
        "notes": list(rows.data.notes),
        "settings": settings.as_dict(),
        "network": trained.network.name,
        "parameters": trained.network.size,
        "rounds": trained.state.round,
        "rounds_before": trained.resumed,
        "rows": {name: part.places.size for name, part in rows.parts.items()},
        "groups": [plain(group) for group in rows.groups],
        "clients": [plain(client) for client in rows.clients],
        "clients_left_out": rows.left_out,
        "train": measures.train.as_dict(0.0),
        "test": measures.test.as_dict(0.0),
        "test_support": measures.support.as_dict(),
        "next": [" ".join(command) for command in _commands(settings, out, "calibration" in rows.parts)],
    }
