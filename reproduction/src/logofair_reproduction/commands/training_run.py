"""A training run: rounds, stored states, and the scores of the rows that were not trained on."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from logofair.auditing.measure import plain, value_of
from logofair.columns.checks import Floats
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.tables import kind_of
from logofair.files.writing import put_whole, without_formulas
from logofair.notions import NOTIONS, Notion
from logofair_reproduction.commands.training_settings import RowPart, TrainingRows, TrainSettings
from logofair_reproduction.errors import TrainingInterrupted
from logofair_reproduction.training import ClientRows, Network, TrainingState, build_network, make_rows, train
from logofair_reproduction.training.checkpoint import load_state, save_state, stored_settings
from logofair_reproduction.training.rounds import measure

if TYPE_CHECKING:
    from logofair.progress import Progress

__all__ = [
    "CheckpointSettings",
    "TrainedModel",
    "history_file",
    "history_line",
    "resumed_settings",
    "train_and_score",
    "write_scores",
]


def history_line(state: TrainingState, notion: Notion) -> dict[str, Any]:
    """One round as plain values: how the model does on the rows trained on, globally and at every client."""
    measured = state.measured
    local, global_ = measured.gaps(notion)
    own = (measured.client_accuracy, measured.client_loss, measured.client_gaps(notion))
    figures = zip(measured.clients, *own, strict=True)
    return {
        "round": state.round,
        "loss": _number(measured.mean_loss),
        "accuracy": _number(measured.accuracy),
        "local_gap": _number(local),
        "global_gap": _number(global_),
        "clients": [
            {"client": plain(client), "accuracy": _number(accuracy), "loss": _number(loss), "gap": _number(gap)}
            for client, accuracy, loss, gap in figures
        ],
        "method_state": {name: _listed(values) for name, values in state.method_state.items()},
    }


def _number(value: float) -> float | None:
    return value_of(value) if np.isfinite(value) else None


def _listed(values: Any) -> Any:
    """An array as nested lists, None where a number is not finite."""
    return [_listed(part) for part in values] if np.ndim(values) else _number(float(values))


@contextmanager
def history_file(path: Path, after: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Open a file of lines, one per measured round, and return what adds one.

    Of a run that goes on, the lines of later rounds are dropped first. A run that fails before its first line leaves
    no file.
    """
    put_whole(path, "".join(f"{line}\n" for line in _lines_kept(path, after)).encode())
    with path.open("ab", buffering=0) as file:
        try:
            yield partial(_add_line, path, file)
        except BaseException:
            if not file.seek(0, os.SEEK_END):
                path.unlink(missing_ok=True)
            raise


def _add_line(path: Path, file: FileIO, line: dict[str, Any]) -> None:
    """Write a line, at once and whole, or raise."""
    complete, rest = file.seek(0, os.SEEK_END), (json.dumps(line, allow_nan=False) + "\n").encode()
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        file.truncate(complete)
        reason = error.strerror or str(error)
        raise InputError(f"{path}: cannot be written ({reason}); make room or choose another folder.") from None


def _lines_kept(path: Path, after: int) -> list[str]:
    """The lines of the rounds done; the last may be cut short."""
    if not after or not path.exists():
        return []
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            number = json.loads(line)["round"]
        except (ValueError, LookupError, TypeError):
            break
        if not isinstance(number, int) or number > after:
            break
        kept.append(line)
    if not kept and path.stat().st_size:
        raise InputError(f"{path}: is no history of this run; choose another name for --history.")
    return kept


_DIGITS = 16


@dataclass(frozen=True)
class CheckpointSettings:
    """Where the state is stored, every ``save_every`` rounds, and the history; ``resume`` goes on from the state."""

    checkpoint: Path | None = None
    save_every: int = 10
    resume: bool = False
    history: Path | None = None


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model after its last round, and its scores by part of the rows kept back."""

    settings: TrainSettings
    rows: TrainingRows
    network: Network
    state: TrainingState
    scores: Mapping[str, Floats]
    resumed: int


def train_and_score(
    settings: TrainSettings,
    rows: TrainingRows,
    progress: Progress,
    *,
    device: torch.device,
    engine: str,
    checkpoints: CheckpointSettings,
) -> TrainedModel:
    """Train on the rows of part "train", and score all others."""
    network = _network(settings, rows)
    sites = _on_device(rows, rows.parts["train"], device)
    if engine == "flower":
        resumed, state = 0, _with_flower(settings, network, sites, progress)
    else:
        stored = _run_settings(settings, rows, network)
        resumed, state = _in_process(settings, network, sites, progress, checkpoints, stored)
    state = _measured(settings, network, sites, state)
    del sites
    kept_back = {name: part for name, part in rows.parts.items() if name != "train"}
    scores = {name: _scores(network, state, rows, part, device) for name, part in kept_back.items()}
    return TrainedModel(settings, rows, network, state, scores, resumed)


def _network(settings: TrainSettings, rows: TrainingRows) -> Network:
    """The network asked for, or the data set's own."""
    name = settings.network or rows.entry.model
    if settings.hidden is not None and name != "mlp":
        raise InputError(f"--hidden: is the width of an mlp; leave it out for {name}.")
    wider: dict[str, Any] = {} if settings.hidden is None else {"hidden": settings.hidden}
    return build_network(name, rows.data.features.shape[1:], **wider)


def _on_device(rows: TrainingRows, part: RowPart, device: torch.device) -> list[ClientRows]:
    return make_rows(
        rows.data.features[part.places],
        part.labels,
        groups=part.groups,
        clients=part.clients,
        known_groups=rows.groups,
        device=device,
    )


def _with_flower(
    settings: TrainSettings, network: Network, sites: list[ClientRows], progress: Progress
) -> TrainingState:
    from logofair_reproduction.flower.simulation import train_with_flower

    def work(_: None) -> TrainingState:
        method, schedule = settings.federated_method(), settings.schedule()
        return train_with_flower(
            method, network, sites, rounds=settings.n_rounds, schedule=schedule, random_state=settings.seed
        )

    (state,) = progress(map(work, [None]), f"Training by {settings.method} with Flower", 1)
    return state


def _in_process(
    settings: TrainSettings,
    network: Network,
    sites: list[ClientRows],
    progress: Progress,
    checkpoints: CheckpointSettings,
    stored: dict[str, Any],
) -> tuple[int, TrainingState]:
    """The rounds done before, and the state after the last."""
    start = load_state(checkpoints.checkpoint, stored) if checkpoints.resume and checkpoints.checkpoint else None
    done = 0 if start is None else start.round
    if done > settings.n_rounds:
        raise InputError(f"--rounds: {checkpoints.checkpoint} has {done} rounds done already; ask for as many or more.")
    states = train(
        settings.federated_method(),
        network,
        sites,
        rounds=settings.n_rounds,
        schedule=settings.schedule(),
        random_state=settings.seed,
        start=start,
    )
    shown = progress(states, f"Training by {settings.method}, {settings.n_rounds:,} rounds", settings.n_rounds - done)
    measured = partial(_measured, settings, network, sites)
    return done, _kept(iter(shown), start, NOTIONS[settings.notion], checkpoints, stored, measured)


def _measured(
    settings: TrainSettings, network: Network, sites: list[ClientRows], state: TrainingState
) -> TrainingState:
    """The state with its own model measured; raise where that diverged."""
    if state.measured_at == state.round:
        return state
    return state.after_measuring(settings.federated_method(), measure(network, sites, state.parameters))


def _run_settings(settings: TrainSettings, rows: TrainingRows, network: Network) -> dict[str, Any]:
    """The settings a stored state must have, to go on from it."""
    prepared = None if rows.digest is None else rows.digest[:_DIGITS]
    model = {"network": network.name, "hidden": network.hidden}
    return settings.as_dict() | model | {"rows_to_train": rows.parts["train"].places.size, "prepared_data": prepared}


def resumed_settings(settings: TrainSettings, checkpoints: CheckpointSettings) -> TrainSettings:
    """The settings, with the first stage that a run of fcfl began with where it goes on."""
    stored = checkpoints.checkpoint if checkpoints.resume else None
    if settings.method != "fcfl" or settings.first_stage is not None or stored is None:
        return settings
    began = stored_settings(stored).get("method_first_stage")
    return replace(settings, first_stage=began) if isinstance(began, int) else settings


def _kept(
    states: Iterator[TrainingState],
    start: TrainingState | None,
    notion: Notion,
    checkpoints: CheckpointSettings,
    stored: dict[str, Any],
    measured: Callable[[TrainingState], TrainingState],
) -> TrainingState:
    """The last state; on the way states are stored and their figures written, and an interrupt stores the last one."""
    state, saved = start, -1 if start is None else start.round

    def save() -> None:
        nonlocal saved
        if checkpoints.checkpoint is not None and state is not None and state.round != saved:
            measured(state)  # raises where it diverged
            save_state(checkpoints.checkpoint, state, stored)
            saved = state.round

    path, done = checkpoints.history, 0 if start is None else start.round
    with nullcontext() if path is None else history_file(path, done) as add:
        try:
            for state in states:
                if add is not None and state.measured_at == state.round:
                    add(history_line(state, notion))
                if state.round % checkpoints.save_every == 0:
                    save()
        except KeyboardInterrupt:
            save()
            raise TrainingInterrupted(0 if state is None else state.round, saved >= 0) from None
    save()
    assert state is not None
    return state


def _scores(network: Network, state: TrainingState, rows: TrainingRows, part: RowPart, device: torch.device) -> Floats:
    """Scores of some rows, a bounded number at a time."""
    pieces = []
    for first in range(0, part.places.size, network.at_once):
        some = slice(first, first + network.at_once)
        piece = RowPart(
            part.places[some], part.labels[some], part.groups[some], np.zeros(part.places[some].size, np.int32)
        )
        (site,) = _on_device(rows, piece, device)
        pieces.append(network.scores(state.parameters, site))
    return np.concatenate(pieces)


def write_scores(path: Path, trained: TrainedModel) -> None:
    """Write the scores of the rows kept back, whole or not at all: id, part, client, group, label, score."""
    pl, rows = polars_module(), trained.rows
    tables = [
        pl.DataFrame(
            {
                "id": rows.data.row_numbers[rows.parts[name].places],
                "part": [name] * own.size,
                "client": rows.parts[name].clients.tolist(),
                "group": rows.parts[name].groups.tolist(),
                "label": rows.parts[name].labels,
                "score": own,
            }
        )
        for name, own in trained.scores.items()
    ]
    table, kind = pl.concat(tables), kind_of(path)
    packed = io.BytesIO()  # of a full disk polars may say only that the file is out of specification
    if kind == "CSV":
        without_formulas(table).write_csv(packed, separator="\t" if path.suffix.lower() == ".tsv" else ",")
    else:
        (table.write_parquet if kind == "Parquet" else table.write_ipc)(packed)
    put_whole(path, packed.getvalue())
