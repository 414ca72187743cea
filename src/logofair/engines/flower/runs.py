"""One run: started through the flwr command, and watched until what became of it is known."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from logofair.engines.flower.children import Child, Family
from logofair.engines.flower.commands import CONNECTION, executable, run_command
from logofair.inputs import InputError

__all__ = ["Outcome", "json_object", "run_and_watch"]

_CALL = 60.0  # seconds a flwr command gets
_LOOK = 15.0  # seconds between two questions to the server whether the run still lives


@dataclass(frozen=True)
class Outcome:
    """What became of a run: ``status`` is "completed", "failed" or "stopped", ``sentence`` says more.

    Examples
    --------
    >>> Outcome("completed", "The run has ended.").status
    'completed'
    """

    status: str
    sentence: str


def run_and_watch(
    processes: Family, superlink: Child, folder: Path, run: Mapping[str, str], *, simulated_nodes: int
) -> Generator[str, None, Outcome]:
    """Start a run, yield its lines of progress, and return what became of it.

    Parameters
    ----------
    processes, superlink
        The server's processes, and the SuperLink among them: when it dies, waiting ends.
    folder : path
        The server's state folder, where the server app writes ``progress.txt`` and ``status.json``.
    run : mapping
        The run's configuration.
    simulated_nodes : int
        How many nodes to simulate; none in a deployment.

    Examples
    --------
    >>> import inspect
    >>> inspect.isgeneratorfunction(run_and_watch)
    True
    """
    for name in ("status.json", "progress.txt"):
        (folder / name).unlink(missing_ok=True)
    with resources.as_file(resources.files("logofair.engines.flower") / "app") as app:
        command = run_command(app, run, processes.variables, simulated_nodes=simulated_nodes)
        _, printed = processes.call("run", command, _CALL)
    answer = json_object(printed)
    if not answer.get("success"):
        raise InputError(f"run: the server did not take it; it said: {printed[-300:]}")
    identifier = str(answer["run-id"])
    yield f"Run {identifier} has started."
    return (yield from watch_run(processes, superlink, folder, identifier))


def watch_run(processes: Family, superlink: Child, folder: Path, identifier: str) -> Generator[str, None, Outcome]:
    """Yield new lines of progress until the run's status is final."""
    told, next_look = 0, time.monotonic() + _LOOK
    while True:
        status = _json_file(folder / "status.json")  # read before the lines, so that the last ones are not missed
        lines = _lines(folder / "progress.txt")
        yield from lines[told:]
        told = len(lines)
        if status.get("run") == identifier and status.get("status") != "running":
            _await_end(processes, identifier)
            return Outcome(str(status["status"]), str(status["sentence"]))
        superlink.check()
        if time.monotonic() > next_look:
            seen = _status_of(processes, identifier)
            if seen.startswith("finished") and status == _json_file(folder / "status.json"):
                return Outcome("failed", f"The server app ended without a word; Flower says {seen}: see its logs.")
            next_look = time.monotonic() + _LOOK
        time.sleep(0.2)


def _await_end(processes: Family, identifier: str) -> None:
    """Let the server app hand in its result, so that a server started again does not find it running."""
    for _ in range(10):
        if _status_of(processes, identifier).startswith("finished"):
            return
        time.sleep(0.5)


def _status_of(processes: Family, identifier: str) -> str:
    """Return the run's status as the server knows it; the exit code of ``flwr run`` says nothing."""
    flwr = executable("flwr", processes.variables)
    command = [flwr, "list", CONNECTION, "--run-id", identifier, "--format", "json"]
    _, printed = processes.call("list", command, _CALL)
    runs = json_object(printed).get("runs")
    return str(runs[0].get("status", "unknown")) if isinstance(runs, list) and runs else "unknown"


def json_object(text: str) -> dict[str, object]:
    """Return the JSON object at the end of a command's output, empty where there is none.

    Examples
    --------
    >>> json_object('Listing runs ... {"success": true}'), json_object("no such command")
    ({'success': True}, {})
    """
    start = text.find("{")
    try:
        found = json.loads(text[start:]) if start >= 0 else {}
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _json_file(path: Path) -> dict[str, object]:
    """Return a JSON object from a file, empty where there is none yet."""
    try:
        return json_object(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _lines(path: Path) -> Sequence[str]:
    """Return the complete lines of a file that grows; none where there is none yet."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]
