"""A training run as a page for people, and as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from logofair.auditing.measure import plain, tally_of, text
from logofair.auditing.result import Audit, RuleAudit
from logofair.cli.pages.console import counted, notes, print_page, spoken, titled
from logofair.cli.pages.figures import gap_lines, rates_table, text_or_undefined
from logofair.columns.labels import Codes, encode, encode_known
from logofair.notions import NOTIONS
from logofair_reproduction.commands.training_run import TrainedModel
from logofair_reproduction.commands.training_settings import TrainingRows

__all__ = ["TrainingMeasures", "as_dict", "show", "training_measures"]


_GROUPS = 8
_PURPOSE = {"calibration": "calibrate", "test": "test"}


@dataclass(frozen=True, eq=False)
class TrainingMeasures:
    """Accuracy and gaps of score >= 1/2 on the rows trained on and on the test rows, for the notion trained for."""

    trained: TrainedModel
    train: RuleAudit
    test: RuleAudit

    @property
    def tested(self) -> Audit:
        """The audit of the test rows."""
        return self.test.by_notion[self.trained.settings.notion]


def training_measures(trained: TrainedModel) -> TrainingMeasures:
    """Measure a trained model."""
    test, measured, known = trained.rows.parts["test"], trained.state.measured, trained.rows.groups
    chance = (trained.scores["test"] >= 0.5).astype(np.float64)
    clients = encode(test.clients, "clients")
    groups = Codes(known, encode_known(test.groups, known, "groups"))
    tested = tally_of(chance, test.labels.astype(np.float64), None, groups, clients)
    notions = [NOTIONS[trained.settings.notion]]
    return TrainingMeasures(
        trained,
        RuleAudit.of(measured.tally, measured.groups, measured.clients, notions),
        RuleAudit.of(tested, groups.names, clients.names, notions),
    )


def show(measures: TrainingMeasures, out: Path, console: Console) -> None:
    """Print what was trained on what, how it does on the test rows, and what to type next."""
    trained, test = measures.trained, measures.test
    parts: list[Any] = [_heading(trained), "", _tested(measures), "", rates_table(test.rates), ""]
    parts += [Text(f"Accuracy {text_or_undefined(test.accuracy)}"), ""]
    parts.append(notes(gap_lines(trained.settings.notion, measures.tested)))
    lines = [*_reading(measures), *_terms(trained.rows), *_next(trained, out)]
    print_page([*parts, "", notes(lines)], console)


def _heading(trained: TrainedModel) -> Text:
    settings, rows = trained.settings, trained.rows
    sizes = {name: part.places.size for name, part in rows.parts.items()}
    every = np.concatenate([part.groups for part in rows.parts.values()])
    counts = [f"{group} {int((every == group).sum()):,}" for group in rows.groups]
    more = f" and {len(counts) - _GROUPS} more" if len(counts) > _GROUPS else ""
    left_out = f", {rows.left_out:,} more left out" if rows.left_out else ""
    goal = "" if settings.method == "fedavg" else f" for {spoken(settings.notion)}"
    model = f"{trained.network.name}, {trained.network.size:,} parameters"
    before = f" ({trained.resumed:,} of them before)" if trained.resumed else ""
    kept = "".join(f", {size:,} to {_PURPOSE[name]}" for name, size in sizes.items() if name != "train")
    lines = [
        f"{rows.data.name}: {sum(sizes.values()):,} rows at {counted(len(rows.clients), 'client')}{left_out}; "
        f"{', '.join(counts[:_GROUPS])}{more}",
        f"{settings.method}{goal}: {model}; {counted(trained.state.round, 'round')}{before}, seed {settings.seed}",
        f"{sizes['train']:,} rows to train{kept}",
    ]
    return Text("\n".join(lines))


def _tested(measures: TrainingMeasures) -> Text:
    """What the figures below are of."""
    rows = counted(measures.trained.rows.parts["test"].places.size, "test row")
    return Text(f"Score >= 1/2 on the {rows}\nAccepted {text_or_undefined(measures.test.accepted)}")


def _reading(measures: TrainingMeasures) -> Iterator[tuple[str, str]]:
    """How to read the figures, and those of the rows trained on."""
    yield "Gap", "The largest rate of a group minus the smallest. Rows: each of these two rates has at least so many."
    if measures.test.accepted in (0.0, 1.0):
        everybody = "accepts everybody" if measures.test.accepted else "refuses everybody"
        yield "Constant", f"The model {everybody} on the test rows: gaps of 0 then say nothing about fairness."
    before, train = measures.train.by_notion[measures.trained.settings.notion], measures.train
    largest = f", inside clients {text(before.headline_local.value)}" if len(before.clients) > 1 else ""
    figures = f"accuracy {text(train.accuracy)}, gap over all {text(before.headline_global.value)}{largest}"
    yield "Trained on", f"The rows that the model has seen: {figures}. On new rows expect what the test rows show."


def _terms(rows: TrainingRows) -> Iterator[tuple[str, str]]:
    """Where the data come from, and what is to know about them."""
    yield from titled("Note", rows.data.notes)
    if rows.data.licence:
        yield "Licence", f"{rows.data.licence.rstrip('.')}. Known harms: logofair data describe {rows.entry.name}"
    if rows.unread:
        yield "Files", "The data set was prepared before, so that the files of --from were not read."


def _next(trained: TrainedModel, out: Path) -> Iterator[tuple[str, str]]:
    """What was written, and the commands to use it."""
    sizes = {name: part.places.size for name, part in trained.rows.parts.items() if name != "train"}
    listed = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    yield "Wrote", f"{out}: the scores of the rows not trained on ({listed})"
    for command, lines in enumerate(_commands(trained, out)):
        for place, line in enumerate(lines):
            more = " \\" if place < len(lines) - 1 else ""  # so that what is shown can be copied as it is
            yield "" if command or place else "Next", f"{'    ' * bool(place)}{line}{more}"


def _commands(trained: TrainedModel, out: Path) -> Iterator[tuple[str, ...]]:
    """Commands to type next, each in pieces that fit on a line."""
    name, wanted = shlex.quote(str(out)), trained.settings.notion
    notion = () if wanted == "demographic_parity" else (f"--notion {wanted}",)
    columns = "--score score --label label --group group --client client"
    yield f"logofair audit {name}", columns, "--where part=test"
    if "calibration" in trained.rows.parts:
        yield f"logofair fit {name}", columns, *notion, "--where part=calibration --out policy.json"


def as_dict(measures: TrainingMeasures, out: Path) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    trained, rows = measures.trained, measures.trained.rows
    return {
        "out": str(out),
        "data": rows.data.name,
        "licence": rows.data.licence,
        "notes": list(rows.data.notes),
        "settings": trained.settings.as_dict(),
        "network": trained.network.name,
        "parameters": trained.network.size,
        "rounds": trained.state.round,
        "rounds_before": trained.resumed,
        "rows": {name: part.places.size for name, part in rows.parts.items()},
        "groups": [plain(group) for group in rows.groups],
        "clients": [plain(client) for client in rows.clients],
        "clients_left_out": rows.left_out,
        "test": measures.test.as_dict(),
        "train": measures.train.as_dict(),
        "test_support": measures.tested.small_as_dict(),
        "next": [" ".join(command) for command in _commands(trained, out)],
    }
