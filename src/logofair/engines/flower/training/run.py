"""Federated training through Flower's simulation on this machine: the states of in-process training, to the bit.

Slow to start and slow per round beside :func:`logofair.training.train`: use it to see that what was tried in one
process holds on an engine. A deployment has a server app of its own with :class:`MethodStrategy` in it, and client apps
made by :func:`training_client_app`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from logofair.columns.checks import Floats, whole_number
from logofair.engines.flower import require_flower
from logofair.errors import InputError
from logofair.training.rows import need_torch

if TYPE_CHECKING:
    from logofair.training import ClientRows, Network, Schedule, TrainingState
    from logofair.training.methods import Method

__all__ = ["TrainingJob", "train_each_with_flower", "train_with_flower"]


_APPS = "logofair.engines.flower.training.apps"


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """One training of several in a simulation; the fields are the arguments of :func:`logofair.training.train`.

    Examples
    --------
    >>> from logofair.training import FedAvg, build_network
    >>> TrainingJob(FedAvg(), build_network("logistic", (2,)), rounds=5).seed
    0
    """

    method: Method
    network: Network
    rounds: int
    schedule: Schedule | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.rounds, "rounds")


def train_with_flower(
    method: Method,
    network: Network,
    clients: Sequence[ClientRows],
    *,
    rounds: int,
    schedule: Schedule | None = None,
    seed: int = 0,
) -> TrainingState:
    """Train as :func:`logofair.training.train` does, every client a node of Flower's simulation; the last state.

    Parameters
    ----------
    method, network, clients, rounds, schedule, seed
        As in :func:`logofair.training.train`; the clients' rows lie on the CPU.

    Returns
    -------
    State

    Examples
    --------
    >>> from logofair.training import FedAvg, build_network
    >>> train_with_flower(FedAvg(), build_network("logistic", (2,)), [], rounds=5)
    Traceback (most recent call last):
    logofair.errors.InputError: clients: there are none; pass what make_rows returns.
    """
    return train_each_with_flower([TrainingJob(method, network, rounds, schedule, seed)], clients)[0]


def train_each_with_flower(jobs: Sequence[TrainingJob], clients: Sequence[ClientRows]) -> list[TrainingState]:
    """Train once per job, in one simulation: starting one takes longer than most trainings.

    Examples
    --------
    >>> train_each_with_flower([], [])
    Traceback (most recent call last):
    logofair.errors.InputError: clients: there are none; pass what make_rows returns.
    """
    if not clients:
        raise InputError("clients: there are none; pass what make_rows returns.")
    if any(rows.labels.device.type != "cpu" for rows in clients):
        raise InputError(
            "clients: their rows lie on a GPU, and a simulated node has none; use make_rows(device='cpu')."
        )
    need_torch()
    require_flower("ray")
    import torch

    from logofair.engines.flower.training.apps import TrainingJobs, plan_out
    from logofair.engines.flower.training.simulation import simulator

    with tempfile.TemporaryDirectory(prefix="logofair-") as name:
        folder, logs = Path(name), Path(name) / "flower"
        plan_out(folder, TrainingJobs(list(jobs), len(clients), clients[0].groups, torch.get_num_threads()), clients)
        logs.mkdir()
        with simulator(logs) as flower:
            flower.run(f"{_APPS}:server", f"{_APPS}:client", folder, len(clients))
        return [_state(folder, number, clients) for number in range(len(jobs))]


def _state(folder: Path, number: int, clients: Sequence[ClientRows]) -> TrainingState:
    """The last state of a job, with what each client remembers and under its own name."""
    from logofair.training.checkpoint import load_state

    state = load_state(folder / f"state-{number}.npz", {})
    kept = tuple(_memory(folder, number, place) for place in range(len(clients)))
    measured = replace(state.measured, clients=tuple(rows.client for rows in clients))
    return replace(state, measured=measured, clients=kept)


def _memory(folder: Path, number: int, place: int) -> Floats | None:
    path = folder / f"memory-{number}-{place}.npy"
    return np.load(path, allow_pickle=False) if path.exists() else None
