"""A training run: rounds, states kept on the way, and the scores of the rows that were not trained on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from logofair.cli.data_out import replacing
from logofair.cli.train_history import History, line_of
from logofair.cli.train_rows import Part, TrainingRows
from logofair.cli.train_settings import TrainSettings
from logofair.inputs import Floats, InputError
from logofair.notions import NOTIONS, Notion
from logofair.tables import kind_of, polars_module
from logofair.training import Network, Rows, State, build_network, make_rows, train
from logofair.training.checkpoint import load_state, save_state, stored_settings
from logofair.training.rounds import measure

if TYPE_CHECKING:
    from logofair.cli.console import Watch

__all__ = ["Keeping", "Stopped", "Trained", "as_begun", "train_and_score", "write_scores"]

_DIGITS = 16


@dataclass(frozen=True)
class Keeping:
    """What is kept on the way: the state, every so many rounds, and the history; ``resume`` goes on from the state."""

    checkpoint: Path | None = None
    save_every: int = 10
    resume: bool = False
    history: Path | None = None


class Stopped(Exception):
    """An interrupt after some rounds; ``saved`` says whether their state was stored."""

    def __init__(self, rounds: int, saved: bool) -> None:
        super().__init__(rounds)
        self.rounds, self.saved = rounds, saved


@dataclass(frozen=True, eq=False)
class Trained:
    """A model after its last round, and its scores by part of the rows kept back."""

    network: Network
    state: State
    scores: Mapping[str, Floats]
    resumed: int


def train_and_score(
    settings: TrainSettings,
    rows: TrainingRows,
    watch: Watch,
    *,
    device: torch.device,
    engine: str = "inprocess",
    keeping: Keeping | None = None,
) -> Trained:
    """Train on the rows of part "train", and score all others.

    Examples
    --------
    >>> from logofair.cli.console import watching
    >>> from logofair.cli.train_rows import training_rows
    >>> settings = TrainSettings("fedavg", "generated", limit=1000, rounds=2)
    >>> with watching(quiet=True) as watch:
    ...     rows = training_rows(settings, watch)
    ...     trained = train_and_score(settings, rows, watch, device=torch.device("cpu"))
    >>> trained.state.round, {part: scores.size for part, scores in trained.scores.items()}
    (2, {'calibration': 350, 'test': 300})
    """
    network = _network(settings, rows)
    sites = _on_device(rows, rows.parts["train"], device)
    if engine == "flower":
        resumed, state = 0, _with_flower(settings, network, sites, watch)
    else:
        about = _about(settings, rows, network)
        resumed, state = _in_process(settings, network, sites, watch, keeping or Keeping(), about)
    state = _measured(settings, network, sites, state)
    del sites
    kept_back = {name: part for name, part in rows.parts.items() if name != "train"}
    scores = {name: _scores(network, state, rows, part, device) for name, part in kept_back.items()}
    return Trained(network, state, scores, resumed)


def _network(settings: TrainSettings, rows: TrainingRows) -> Network:
    """The network asked for, or the data set's own."""
    name = settings.network or rows.entry.model
    if settings.hidden is not None and name != "mlp":
        raise InputError(f"--hidden: is the width of an mlp; leave it out for {name}.")
    wider: dict[str, Any] = {} if settings.hidden is None else {"hidden": settings.hidden}
    return build_network(name, rows.data.features.shape[1:], **wider)


def _on_device(rows: TrainingRows, part: Part, device: torch.device) -> list[Rows]:
    return make_rows(
        rows.data.features[part.places],
        part.labels,
        groups=part.groups,
        clients=part.clients,
        known_groups=rows.groups,
        device=device,
    )


def _with_flower(settings: TrainSettings, network: Network, sites: list[Rows], watch: Watch) -> State:
    from logofair.engines.flower.training import train_with_flower

    def work(_: None) -> State:
        method, schedule = settings.federated_method(), settings.schedule()
        return train_with_flower(
            method, network, sites, rounds=settings.n_rounds, schedule=schedule, seed=settings.seed
        )

    (state,) = watch(map(work, [None]), f"Training by {settings.method} with Flower", 1)
    return state


def _in_process(
    settings: TrainSettings, network: Network, sites: list[Rows], watch: Watch, keeping: Keeping, about: dict[str, Any]
) -> tuple[int, State]:
    """The rounds done before, and the state after the last."""
    start = load_state(keeping.checkpoint, about) if keeping.resume and keeping.checkpoint else None
    done = 0 if start is None else start.round
    if done > settings.n_rounds:
        raise InputError(f"--rounds: {keeping.checkpoint} has {done} rounds done already; ask for as many or more.")
    states = train(
        settings.federated_method(),
        network,
        sites,
        rounds=settings.n_rounds,
        schedule=settings.schedule(),
        seed=settings.seed,
        start=start,
    )
    watched = watch(states, f"Training by {settings.method}, {settings.n_rounds:,} rounds", settings.n_rounds - done)
    sound = partial(_measured, settings, network, sites)
    return done, _kept(iter(watched), start, NOTIONS[settings.notion], keeping, about, sound)


def _measured(settings: TrainSettings, network: Network, sites: list[Rows], state: State) -> State:
    """The state with its own model measured; raise where that diverged."""
    if state.measured_at == state.round:
        return state
    return state.learned(settings.federated_method(), measure(network, sites, state.parameters))


def _about(settings: TrainSettings, rows: TrainingRows, network: Network) -> dict[str, Any]:
    """What a state on disk must be of, to go on from it."""
    prepared = None if rows.digest is None else rows.digest[:_DIGITS]
    model = {"network": network.name, "hidden": network.hidden}
    return settings.described() | model | {"rows_to_train": rows.parts["train"].places.size, "prepared_data": prepared}


def as_begun(settings: TrainSettings, keeping: Keeping) -> TrainSettings:
    """The settings, with the first stage that a run of fcfl began with where it goes on.

    Examples
    --------
    >>> settings = TrainSettings("fcfl", "generated", rounds=10)
    >>> as_begun(settings, Keeping()) == settings
    True
    """
    if settings.method != "fcfl" or settings.first_stage is not None or not keeping.resume or not keeping.checkpoint:
        return settings
    began = stored_settings(keeping.checkpoint).get("method_first_stage")
    return replace(settings, first_stage=began) if isinstance(began, int) else settings


def _kept(
    states: Iterator[State],
    start: State | None,
    notion: Notion,
    keeping: Keeping,
    about: dict[str, Any],
    sound: Callable[[State], State],
) -> State:
    """The last state; on the way states are stored and written down, and an interrupt stores the last one done."""
    state, saved = start, -1 if start is None else start.round

    def save() -> None:
        nonlocal saved
        if keeping.checkpoint is not None and state is not None and state.round != saved:
            sound(state)  # what diverged is not kept
            save_state(keeping.checkpoint, state, about)
            saved = state.round

    with ExitStack() as stack:
        done = 0 if start is None else start.round
        history = stack.enter_context(History(keeping.history, done)) if keeping.history is not None else None
        try:
            for state in states:
                if history is not None and state.measured_at == state.round:
                    history.add(line_of(state, notion))
                if state.round % keeping.save_every == 0:
                    save()
        except KeyboardInterrupt:
            save()
            raise Stopped(0 if state is None else state.round, saved >= 0) from None
    save()
    assert state is not None
    return state


def _scores(network: Network, state: State, rows: TrainingRows, part: Part, device: torch.device) -> Floats:
    """Scores of some rows, a bounded number at a time."""
    pieces = []
    for first in range(0, part.places.size, network.at_once):
        some = slice(first, first + network.at_once)
        piece = Part(
            part.places[some], part.labels[some], part.groups[some], np.zeros(part.places[some].size, np.int32)
        )
        (site,) = _on_device(rows, piece, device)
        pieces.append(network.scores(state.parameters, site))
    return np.concatenate(pieces)


def write_scores(path: Path, rows: TrainingRows, scores: Mapping[str, Floats]) -> None:
    """Write the scores of the rows kept back, whole or not at all: id, part, client, group, label, score."""
    pl = polars_module()
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
        for name, own in scores.items()
    ]
    table, kind = pl.concat(tables), kind_of(path)
    packed = io.BytesIO()  # of a full disk polars may say only that the file is out of specification
    if kind == "CSV":
        table.write_csv(packed, separator="\t" if path.suffix.lower() == ".tsv" else ",")
    else:
        (table.write_parquet if kind == "Parquet" else table.write_ipc)(packed)
    with replacing(path) as neighbour:
        neighbour.write_bytes(packed.getbuffer())
