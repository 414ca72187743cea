"""What became of a run, in a file of the server's state folder.

Flower reports a run as started long before it fails. So the server app writes ``status.json``, one word and one
sentence, beside the events of the run (:mod:`logofair.engines.events`); whoever started the run reads both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from logofair.engines.events import EVENTS

__all__ = ["RunStatus", "clear_status", "read_status", "recorded_status"]

_STATUS = "status.json"


@dataclass(frozen=True)
class RunStatus:
    """What became of a run: ``status`` is "running", "completed", "failed" or "stopped", ``sentence`` says more."""

    status: str
    sentence: str


@contextmanager
def recorded_status(folder: Path, run: str) -> Iterator[None]:
    """Record in the folder that a run has started, and how the block ended; a failure is raised again."""
    _write(folder, RunStatus("running", "The run has started."), run)
    try:
        yield
    except BaseException as error:
        _write(folder, _failure(error), run)
        raise
    _write(folder, RunStatus("completed", "The run has ended."), run)


def read_status(folder: Path, run: str) -> RunStatus | None:
    """Return the status of this very run; None where none is recorded yet."""
    try:
        found = json.loads((folder / _STATUS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return RunStatus(found["status"], found["sentence"]) if found["run"] == run else None


def clear_status(folder: Path) -> None:
    """Remove what an earlier run has left."""
    for name in (_STATUS, EVENTS):
        (folder / name).unlink(missing_ok=True)


def _write(folder: Path, status: RunStatus, run: str) -> None:
    """Replace the status in one step, so that a reader never sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{_STATUS}.new"
    fresh.write_text(json.dumps({**asdict(status), "run": run}), encoding="utf-8")
    os.replace(fresh, folder / _STATUS)


def _failure(error: BaseException) -> RunStatus:
    """Return the status that an exception gives a run."""
    if not isinstance(error, Exception):
        return RunStatus("stopped", "The run was stopped; its state is stored.")
    ours = type(error).__module__.startswith("logofair.")  # such errors are sentences already
    return RunStatus("failed", " ".join((str(error) if ours else f"{type(error).__name__}: {error}").split()))
