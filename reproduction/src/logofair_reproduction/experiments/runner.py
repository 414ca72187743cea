"""Runs experiments: trains what they need, measures every case, and writes each result as it comes.

Two kinds of work follow one another, both on all cores: training, one method on one split at a time, and measuring, one
split at a time. A run that was stopped goes on where it was: what is in the results' folder is not done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing import active_children, get_context
from pathlib import Path
from signal import SIG_IGN, SIGINT, getsignal, signal
from typing import Any, TypeVar

from logofair.errors import LogofairError, RunError
from logofair.progress import Progress, no_progress
from logofair_reproduction.datasets import CATALOGUE
from logofair_reproduction.datasets.preparing import cache_folder, is_prepared, prepare_command
from logofair_reproduction.experiments.experiment import Case, Experiment, Split, Training
from logofair_reproduction.experiments.measuring import measure
from logofair_reproduction.experiments.records import append, identity, read_records
from logofair_reproduction.experiments.scores import Machine, SplitData, split_data, trained

T = TypeVar("T")


@dataclass(frozen=True)
class RunState:
    """What a run has done: how many cases were measured now, how many before, and those that failed, with the why.

    ``missing`` are the data sets that were left out because they are not prepared, each with what to do.
    """

    measured: int
    before: int
    failed: tuple[tuple[Case, str], ...]
    missing: Mapping[str, str] = field(default_factory=dict)


def missing_data(experiments: Iterable[Experiment], cache: Path | None) -> dict[str, str]:
    """The data sets that are not prepared, each with what to do."""
    wanted = dict.fromkeys(split.data for part in experiments for split in part.splits)
    return {
        name: prepare_command(name, folder)
        for name in wanted
        for folder in [cache_folder(name, cache)]
        if CATALOGUE[name].needs_files and not is_prepared(folder)
    }


def run(
    experiments: Sequence[Experiment], machine: Machine, *, jobs: int | None = None, progress: Progress = no_progress
) -> RunState:
    """Train and measure all cases of some experiments that are not in the results' folder yet.

    ``jobs`` are the processes at work: by default one for every core, and one where a GPU trains.
    """
    machine.folder.mkdir(parents=True, exist_ok=True)
    done = {identity(record) for record in read_records(machine.folder)}
    cases = {identity(case.as_dict()): case for part in experiments for case in part.cases()}
    left = [case for key, case in cases.items() if key not in done]
    number = jobs or (1 if machine.device == "cuda" else os.cpu_count() or 1)
    with _workers(number) as work:
        trainings = list(dict.fromkeys(training for case in left for training in case.trainings))
        trainings.sort(key=lambda training: training.method != "fcfl")  # the longest first
        training = work(partial(_train, machine=machine), trainings)
        broken = {task: why for task, why in progress(training, "Training", len(trainings)) if why is not None}
        failed, by_split = list[tuple[Case, str]](), dict[Split, list[Case]]()
        for case in left:
            why = next((broken[task] for task in case.trainings if task in broken), None)
            if why is None:
                by_split.setdefault(case.split, []).append(case)
            else:
                failed.append((case, why))
        measuring = work(partial(_measure, machine=machine), list(by_split.values()))
        for records, wrong in progress(measuring, "Measuring", len(by_split)):
            for record in records:
                append(machine.folder, record)
            failed += wrong
    return RunState(len(left) - len(failed), len(cases) - len(left), tuple(failed))


@contextmanager
def _workers(number: int) -> Iterator[Callable[[Callable[[Any], T], Sequence[Any]], Iterator[T]]]:
    """Hand out a map over tasks, in this process or over several, whose results come as they are ready."""
    if number == 1:
        yield lambda function, tasks: map(function, tasks)
        return
    others = active_children()
    signal(SIGINT, getsignal(SIGINT))  # as it was before Polars was imported, whose handler lets waiting go on
    # Fresh processes: PyTorch's threads do not survive a fork.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_one_thread) as pool:

        def work(function: Callable[[Any], T], tasks: Sequence[Any]) -> Iterator[T]:
            for ready in as_completed([pool.submit(function, task) for task in tasks]):
                yield ready.result()

        try:
            yield work
        except BrokenProcessPool:
            raise RunError(
                "reproduce: a process ended unexpectedly, perhaps for want of memory; run the same command with fewer "
                "--jobs, and it goes on where it stopped."
            ) from None
        except BaseException:  # an interrupt, say: what was begun is not waited for
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                if process not in others:
                    process.terminate()
            raise


def _one_thread() -> None:
    """Let a worker use one core, and leave an interrupt at the keyboard to the process that started it."""
    signal(SIGINT, SIG_IGN)
    import torch

    torch.set_num_threads(1)


@lru_cache(maxsize=2)
def _rows(split: Split, cache: Path | None) -> SplitData:
    return split_data(split, cache)


def _train(task: Training, machine: Machine) -> tuple[Training, str | None]:
    """Train, and say what went wrong if something did."""
    try:
        trained(lambda: _rows(task.split, machine.cache), task, machine)
    except Exception as error:
        return task, _reason(error)
    return task, None


def _measure(cases: list[Case], machine: Machine) -> tuple[list[dict[str, Any]], list[tuple[Case, str]]]:
    """Measure the cases of one split; those that cannot be are told, and do not stop the others."""
    found, failed = [], []
    for case in cases:
        try:
            found.append(measure(case, _rows(case.split, machine.cache), machine))
        except Exception as error:
            failed.append((case, _reason(error)))
    return found, failed


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, LogofairError) else f"{type(error).__name__}: {error}"
