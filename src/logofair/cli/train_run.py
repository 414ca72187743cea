"""A training run: rounds, states kept on the way, and the scores of the rows that were not trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from logofair.cli.data_out import replacing
from logofair.cli.train_history import History, line_of
from logofair.cli.train_rows import Part, TrainingRows
from logofair.cli.train_settings import TrainSettings
from logofair.inputs import Floats, InputError
from logofair.notions import NOTIONS
from logofair.tables import kind_of, polars_module
from logofair.training import Network, Rows, State, build_network, make_rows, train
from logofair.training.checkpoint import load_state, save_state
from logofair.training.rounds import measure

if TYPE_CHECKING:
    from logofair.cli.console import Watch

__all__ = ["Keeping", "Stopped", "Trained", "train_and_score", "write_scores"]


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
        resumed, state = _in_process(settings, network, sites, watch, keeping or Keeping())
    if not np.isfinite(state.parameters).all():
        raise InputError(f"--method: training by {settings.method} diverged; use a smaller step or learning rate.")
    if state.measured_at != state.round:
        state = replace(state, measured=measure(network, sites, state.parameters), measured_at=state.round)
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
        rows.data.features[part.ids],
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
    settings: TrainSettings, network: Network, sites: list[Rows], watch: Watch, keeping: Keeping
) -> tuple[int, State]:
    """The rounds done before, and the state after the last."""
    about = _about(settings, network, sites)
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
    return done, _kept(iter(watched), start, settings, keeping, about)


def _about(settings: TrainSettings, network: Network, sites: list[Rows]) -> dict[str, Any]:
    """What a state on disk must be of, to go on from it."""
    rows = sum(len(site) for site in sites)
    return settings.described() | {"network": network.name, "hidden": network.hidden, "rows_to_train": rows}


def _kept(
    states: Iterator[State], start: State | None, settings: TrainSettings, keeping: Keeping, about: dict[str, Any]
) -> State:
    """The last state; on the way states are stored and written down, and an interrupt stores the last one done."""
    state, saved, notion = start, -1 if start is None else start.round, NOTIONS[settings.notion]

    def save() -> None:
        nonlocal saved
        if keeping.checkpoint is not None and state is not None and state.round != saved:
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
    for first in range(0, part.ids.size, network.at_once):
        some = slice(first, first + network.at_once)
        piece = Part(part.ids[some], part.labels[some], part.groups[some], np.zeros(part.ids[some].size, np.int32))
        (site,) = _on_device(rows, piece, device)
        pieces.append(network.scores(state.parameters, site))
    return np.concatenate(pieces)


def write_scores(path: Path, rows: TrainingRows, scores: Mapping[str, Floats]) -> None:
    """Write the scores of the rows kept back, whole or not at all: id, part, client, group, label, score."""
    pl = polars_module()
    tables = [
        pl.DataFrame(
            {
                "id": rows.parts[name].ids.astype(np.int64),
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
    with replacing(path) as neighbour:
        if kind == "CSV":
            table.write_csv(neighbour, separator="\t" if path.suffix.lower() == ".tsv" else ",")
        else:
            (table.write_parquet if kind == "Parquet" else table.write_ipc)(neighbour)
