"""The two apps of federated training in Flower's simulation; the folder their run is told says what to do.

The folder is made by :func:`logofair.engines.flower.training.run.train_each_with_flower` for its own processes alone, so
that they may speak in pickles; what comes back to it, the states, is written and read without.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid

from logofair.columns.checks import Label
from logofair.engines.flower.training.client import node_name, remembered, training_client_app
from logofair.engines.flower.training.records import CONFIG
from logofair.engines.flower.training.run import TrainingJob
from logofair.engines.flower.training.simulation import reported
from logofair.engines.flower.training.strategy import MethodStrategy
from logofair.training import ClientRows
from logofair.training.checkpoint import save_state

__all__ = ["TrainingJobs", "client", "plan_out", "server"]


PLAN = "plan.pickle"


def plan_out(folder: Path, plan: TrainingJobs, clients: Sequence[ClientRows]) -> None:
    """Write what the apps are to do.

    Examples
    --------
    >>> import tempfile
    >>> from logofair.training import make_rows
    >>> rows = make_rows([[0.0], [1.0]], [0, 1], groups=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan_out(Path(folder), TrainingJobs([], 1, ("a", "b"), 1), rows)
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['plan.pickle', 'rows-0.pickle']
    """
    (folder / PLAN).write_bytes(pickle.dumps(plan))
    for place, rows in enumerate(clients):
        (folder / f"rows-{place}.pickle").write_bytes(pickle.dumps(rows))


@dataclass(frozen=True, eq=False)
class TrainingJobs:
    """What the apps are told: the jobs, how many clients of which groups, and PyTorch's threads.

    Examples
    --------
    >>> TrainingJobs([], 3, ("F", "M"), threads=2).clients
    3
    """

    jobs: Sequence[TrainingJob]
    clients: int
    groups: tuple[Label, ...]
    threads: int


@lru_cache(maxsize=2)
def plan_in(folder: Path) -> TrainingJobs:
    found: TrainingJobs = pickle.loads((folder / PLAN).read_bytes())
    return found


@cache
def _rows(folder: Path, place: str) -> ClientRows:
    found: ClientRows = pickle.loads((folder / f"rows-{place}.pickle").read_bytes())
    return found


def _folder(context: Context) -> Path:
    return Path(str(context.run_config["folder"]))


def _train_all(grid: Grid, folder: Path) -> None:
    """The server's work: one strategy after another, over the same nodes."""
    plan = plan_in(folder)
    sites = [str(place) for place in range(plan.clients)]
    for number, job in enumerate(plan.jobs):
        strategy = MethodStrategy(
            job.method,
            job.network,
            sites,
            groups=plan.groups,
            schedule=job.schedule,
            seed=job.seed,
            quorum=len(sites),  # with fewer it would be another training
        )
        strategy.start(grid, num_rounds=job.rounds, train_config=ConfigRecord({"job": number}))
        save_state(folder / f"state-{number}.npz", strategy.state, {})


def _alike(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Use as many threads as the process whose bits are wanted, and put what is remembered beside the states."""
    import torch

    folder = _folder(context)
    torch.set_num_threads(plan_in(folder).threads)
    reply = call_next(message, context)
    memory, config = remembered(context), message.content.config_records.get(CONFIG)
    if memory is not None and config is not None and "job" in config:
        np.save(folder / f"memory-{config['job']!s}-{node_name(context)}.npy", memory, allow_pickle=False)
    return reply


server = reported(_train_all)
client = training_client_app(lambda context: _rows(_folder(context), node_name(context)), threads=None, mods=[_alike])
