"""Runs experiments: trains what they need, measures every case, and writes each result as it comes.

Two kinds of work follow one another, both on all cores: training, one method on one split at a time, and measuring, one
split at a time. A run that was stopped goes on where it was: what is in the results' folder is not done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from logofair.datasets import CATALOGUE
from logofair.datasets.preparing import cache_folder, is_prepared
from logofair.experiments.experiment import Case, Experiment, Split
from logofair.experiments.measuring import measure, needs
from logofair.experiments.records import append, identity, read_records
from logofair.experiments.scores import Machine, SplitData, split_data, trained
from logofair.progress import Progress, no_progress

__all__ = ["RunState", "missing_data", "run"]

T = TypeVar("T")


@dataclass(frozen=True)
class RunState:
    """What a run has done: how many cases were measured now, how many before, and those that failed, with the why."""

    measured: int
    before: int
    failed: tuple[tuple[Case, str], ...]


@dataclass(frozen=True)
class _Training:
    """One method to be trained on one split."""

    split: Split
    method: str
    notion: str | None
    published: bool
    budget: int


def missing_data(experiments: Iterable[Experiment], cache: Path | None) -> dict[str, str]:
    """The data sets that are not prepared, each with what to do."""
    wanted = dict.fromkeys(split.data for part in experiments for split in part.splits)
    return {
        name: f"logofair data prepare {name} --from FOLDER"
        for name in wanted
        if CATALOGUE[name].needs_files and not is_prepared(cache_folder(name, cache))
    }


def run(
    experiments: Sequence[Experiment], machine: Machine, *, jobs: int | None = None, progress: Progress = no_progress
) -> RunState:
    """Train and measure all cases of some experiments that are not in the results' folder yet.

    Parameters
    ----------
    experiments : sequence of Experiment
        From :func:`load_experiment`.
    machine : Machine
        Where results go, and where models are trained.
    jobs : int, optional
        Processes; by default one for every core, and one where a GPU trains.
    progress : Progress, optional
        Shows how far training and measuring are.

    Returns
    -------
    RunState
    """
    machine.folder.mkdir(parents=True, exist_ok=True)
    done = {identity(record) for record in read_records(machine.folder)}
    cases = list({identity(case.as_dict()): case for part in experiments for case in part.cases()}.items())
    left = [case for key, case in cases if key not in done]
    number = jobs or (1 if machine.device == "cuda" else os.cpu_count() or 1)
    with _workers(number) as work:
        trainings = list(dict.fromkeys(training for case in left for training in _trainings(case)))
        trainings.sort(key=lambda training: training.method != "fcfl")  # the longest first
        for _ in progress(work(partial(_train, machine=machine), trainings), "Training", len(trainings)):
            pass
        by_split: dict[Split, list[Case]] = {}
        for case in left:
            by_split.setdefault(case.split, []).append(case)
        failed: list[tuple[Case, str]] = []
        measuring = work(partial(_measure, machine=machine), list(by_split.values()))
        for records, wrong in progress(measuring, "Measuring", len(by_split)):
            for record in records:
                append(machine.folder, record)
            failed += wrong
    return RunState(len(left) - len(failed), len(cases) - len(left), tuple(failed))


def _trainings(case: Case) -> Iterator[_Training]:
    for method, notion, published in needs(case):
        yield _Training(case.split, method, notion, published, case.budget)


@contextmanager
def _workers(number: int) -> Iterator[Callable[[Callable[[Any], T], Sequence[Any]], Iterator[T]]]:
    """Hand out a map over tasks, in this process or over several, whose results come as they are ready."""
    if number == 1:
        yield lambda function, tasks: map(function, tasks)
        return
    # Fresh processes: PyTorch's threads do not survive a fork.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_one_thread) as pool:

        def work(function: Callable[[Any], T], tasks: Sequence[Any]) -> Iterator[T]:
            waiting = [pool.submit(function, task) for task in tasks]
            try:
                for ready in as_completed(waiting):
                    yield ready.result()
            except BaseException:
                for task in waiting:
                    task.cancel()
                raise

        yield work


def _one_thread() -> None:
    """Let a worker use one core: as many workers run as there are cores."""
    import torch

    torch.set_num_threads(1)


@lru_cache(maxsize=2)
def _rows(split: Split, cache: Path | None) -> SplitData:
    return split_data(split, cache)


def _train(task: _Training, machine: Machine) -> None:
    def rows() -> SplitData:
        return _rows(task.split, machine.cache)

    trained(rows, task.split, task.method, task.notion, machine, budget=task.budget, published=task.published)


def _measure(cases: list[Case], machine: Machine) -> tuple[list[dict[str, Any]], list[tuple[Case, str]]]:
    """Measure the cases of one split; those that cannot be are told, and do not stop the others."""
    found, failed = [], []
    for case in cases:
        try:
            found.append(measure(case, _rows(case.split, machine.cache), machine))
        except Exception as error:
            failed.append((case, f"{type(error).__name__}: {error}"))
    return found, failed
