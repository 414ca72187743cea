"""Federated training through Flower's simulation on this machine: the states of in-process training, to the bit.

Slow to start and slow per round beside :func:`training.train`: use it to see that what was tried in one
process holds on an engine. A deployment has a server app of its own with :class:`MethodStrategy` in it, and client apps
made by :func:`training_client_app`.

The two apps at the end of this module run in Flower's processes. They read what to do from a folder that
:func:`train_each_with_flower` makes for them alone, so that it may hold pickles; the states they write there are read
without.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid

from logofair.columns.checks import Label, whole_number
from logofair.engines.flower.deployment.processes import simulator
from logofair.engines.flower.server_app import recorded_server_app
from logofair.errors import InputError
from logofair_reproduction.flower.client import client_state, node_name, training_client_app
from logofair_reproduction.flower.records import CONFIG
from logofair_reproduction.flower.strategy import MethodStrategy
from logofair_reproduction.training import ClientRows, Network, Schedule, TrainingState
from logofair_reproduction.training.checkpoint import load_state, save_state
from logofair_reproduction.training.methods import Method

__all__ = ["TrainingJob", "client", "server", "train_each_with_flower", "train_with_flower"]


_JOBS = "jobs.pickle"


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """One training of several in a simulation; the fields are the arguments of :func:`training.train`."""

    method: Method
    network: Network
    rounds: int
    schedule: Schedule | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        whole_number(self.rounds, "rounds")


def train_with_flower(
    method: Method,
    network: Network,
    clients: Sequence[ClientRows],
    *,
    rounds: int,
    schedule: Schedule | None = None,
    random_state: int = 0,
) -> TrainingState:
    """Train as :func:`training.train` does, every client a node of Flower's simulation; the last state."""
    return train_each_with_flower([TrainingJob(method, network, rounds, schedule, random_state)], clients)[0]


def train_each_with_flower(jobs: Sequence[TrainingJob], clients: Sequence[ClientRows]) -> list[TrainingState]:
    """Train once per job, in one simulation: starting one takes longer than most trainings."""
    if not clients:
        raise InputError("clients: there are none; pass what make_rows returns.")
    if any(rows.labels.device.type != "cpu" for rows in clients):
        raise InputError(
            "clients: their rows lie on a GPU, and a simulated node has none; use make_rows(device='cpu')."
        )
    with tempfile.TemporaryDirectory(prefix="logofair-") as name:
        folder = Path(name)
        todo = _Jobs(list(jobs), len(clients), clients[0].groups, torch.get_num_threads())
        (folder / _JOBS).write_bytes(pickle.dumps(todo))
        for place, rows in enumerate(clients):
            (folder / f"rows-{place}.pickle").write_bytes(pickle.dumps(rows))
        with simulator(folder / "flower") as flower:
            flower.run(f"{__name__}:server", f"{__name__}:client", folder, len(clients))
        return [_state(folder, number, clients) for number in range(len(jobs))]


def _state(folder: Path, number: int, clients: Sequence[ClientRows]) -> TrainingState:
    """The last state of a job, with what each client keeps and under its own name."""
    state = load_state(folder / f"state-{number}.npz", {})
    paths = [folder / f"client-{number}-{place}.npy" for place in range(len(clients))]
    kept = tuple(np.load(path, allow_pickle=False) if path.exists() else None for path in paths)
    measured = replace(state.measured, clients=tuple(rows.client for rows in clients))
    return replace(state, measured=measured, client_states=kept)


@dataclass(frozen=True, eq=False)
class _Jobs:
    """What the apps are to do: the jobs, the number of clients and their groups, and PyTorch's threads."""

    jobs: Sequence[TrainingJob]
    clients: int
    groups: tuple[Label, ...]
    threads: int


@cache
def _read_jobs(folder: Path) -> _Jobs:
    found: _Jobs = pickle.loads((folder / _JOBS).read_bytes())
    return found


@cache
def _read_rows(folder: Path, place: str) -> ClientRows:
    found: ClientRows = pickle.loads((folder / f"rows-{place}.pickle").read_bytes())
    return found


def _folder(context: Context) -> Path:
    return Path(str(context.run_config["folder"]))


def _train_all(grid: Grid, folder: Path) -> None:
    """The server's work: one strategy after another, over the same nodes."""
    todo = _read_jobs(folder)
    sites = [str(place) for place in range(todo.clients)]
    for number, job in enumerate(todo.jobs):
        strategy = MethodStrategy(
            job.method,
            job.network,
            sites,
            groups=todo.groups,
            schedule=job.schedule,
            random_state=job.random_state,
            quorum=len(sites),  # with fewer it would be another training
        )
        strategy.start(grid, num_rounds=job.rounds, train_config=ConfigRecord({"job": number}))
        save_state(folder / f"state-{number}.npz", strategy.state, {})


def _as_in_process(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Use as many threads as the process whose bits are wanted, and store what the client keeps beside the states."""
    folder = _folder(context)
    torch.set_num_threads(_read_jobs(folder).threads)
    reply = call_next(message, context)
    state, config = client_state(context), message.content.config_records.get(CONFIG)
    if state is not None and config is not None and "job" in config:
        np.save(folder / f"client-{config['job']!s}-{node_name(context)}.npy", state, allow_pickle=False)
    return reply


server = recorded_server_app(_train_all)
client = training_client_app(
    lambda context: _read_rows(_folder(context), node_name(context)), threads=None, mods=[_as_in_process]
)
