"""The server app: builds the transport and lets the conductor run the plan from disk.

Flower reports a run as started long before it fails, so what became of it is written to ``status.json`` in the
server's state folder as well: one word and one sentence.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.superlink.grid import http_grid

from logofair.engines.flower.transport import FlowerTransport
from logofair.errors import InputError

__all__ = ["PROGRESS", "STATUS", "app", "conduct_run", "write_status"]

PROGRESS = "progress.txt"
STATUS = "status.json"
_HALF = 10.0  # seconds to wait for the rest of a reply; Flower would wait 180, and all other replies with it


def write_status(folder: Path, status: str, sentence: str, run: str) -> None:
    """Write what became of a run, in one step, so that a reader never sees half of it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_status(Path(folder), "completed", "All done.", "7")
    ...     print((Path(folder) / STATUS).read_text())
    {"status": "completed", "sentence": "All done.", "run": "7"}
    """
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{STATUS}.new"
    fresh.write_text(json.dumps({"status": status, "sentence": sentence, "run": run}), encoding="utf-8")
    os.replace(fresh, folder / STATUS)


def conduct_run(grid: Grid, context: Context) -> None:
    """Run the plan, and leave progress and status in the state folder; a failure is raised again.

    The run's configuration names ``plan`` and ``folder``. Lines for people are appended to ``progress.txt``.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> empty = {"plan": "", "folder": ""}
    >>> conduct_run(None, Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=empty))
    Traceback (most recent call last):
    logofair.errors.InputError: run: its configuration names no plan; pass -c "plan='plan.json' folder='state'".
    """
    settings = context.run_config
    for key in ("plan", "folder"):
        if not settings.get(key):
            raise InputError(f"run: its configuration names no {key}; pass -c \"plan='plan.json' folder='state'\".")
    folder, run = Path(str(settings["folder"])), str(context.run_id)
    write_status(folder, "running", "The run has started.", run)
    try:
        from logofair.engines.folder import conduct_from_disk

        conduct_from_disk(
            str(settings["plan"]), str(folder), FlowerTransport(grid), tell=lambda line: _tell(folder, line)
        )
    except BaseException as error:
        write_status(folder, *described(error), run)
        raise
    write_status(folder, "completed", "The run has ended.", run)


def _tell(folder: Path, line: str) -> None:
    """Append one line of progress."""
    with (folder / PROGRESS).open("a", encoding="utf-8") as file:
        file.write(" ".join(line.split()) + "\n")


def described(error: BaseException) -> tuple[str, str]:
    """Return the status a failure gives a run, and its sentence."""
    if not isinstance(error, Exception):
        return "stopped", "The run was stopped; its state is stored."
    own = type(error).__module__.startswith("logofair.")  # such errors are sentences already
    return "failed", " ".join((str(error) if own else f"{type(error).__name__}: {error}").split())


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the plan."""
    vars(http_grid)["pull_objects"] = partial(pull_objects, max_time=_HALF)  # a site may die while it replies
    conduct_run(grid, context)
