"""Any two Flower apps of installed modules, run in Flower's simulation on this machine: one server, run after run.

An app is named as Flower names it, ``module:attribute``. The server app's work goes through :func:`reported`, so that
what became of a run is known: Flower itself reports a run as started long before it fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logofair.engines.flower import require_flower
from logofair.engines.flower.deployment.children import ManagedProcess, ProcessGroup, free_port
from logofair.engines.flower.deployment.commands import run_command
from logofair.engines.flower.deployment.processes import flower_family, json_object, start_superlink, watch_run
from logofair.errors import InputError, RunError

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

__all__ = ["Simulator", "reported", "simulator"]


_CALL = 60.0  # seconds a flwr command gets
_APP = """[project]
name = "logofair-simulated"
version = "1.0.0"
description = "Apps of installed modules."
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41.0,<1.42"]

[tool.flwr.app]
publisher = "logofair"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "{server}"
clientapp = "{client}"

[tool.flwr.app.config]
folder = ""
"""


@dataclass(frozen=True)
class Simulator:
    """A server that takes one run of simulated nodes after another; made by :func:`simulator`.

    Examples
    --------
    >>> Simulator.run.__name__
    'run'
    """

    processes: ProcessGroup
    superlink: ManagedProcess

    def run(self, server: str, client: str, folder: Path, nodes: int) -> None:
        """Run two apps, with ``folder`` in their run's configuration, to the end; raise where the run fails."""
        with tempfile.TemporaryDirectory() as app:
            (Path(app) / "pyproject.toml").write_text(_APP.format(server=server, client=client), encoding="utf-8")
            (Path(app) / "LICENSE").write_text("Apache-2.0\n", encoding="utf-8")
            settings = {"folder": str(folder.resolve())}
            command = run_command(Path(app), settings, self.processes.variables, simulated_nodes=nodes)
            _, printed = self.processes.call("run", command, _CALL)
        answer = json_object(printed)
        if not answer.get("success"):
            raise RunError(f"Flower did not take the run; it said: {printed[-300:]}")
        progress = watch_run(self.processes, self.superlink, folder, str(answer["run-id"]))
        while True:
            try:
                next(progress)
            except StopIteration as end:
                if end.value.status != "completed":
                    raise RunError(end.value.sentence) from None
                return


@contextmanager
def simulator(folder: Path) -> Iterator[Simulator]:
    """Start a server for simulations; its logs lie in the folder, and all its processes end with the block.

    Examples
    --------
    >>> with simulator(Path("/no/such/folder")) as flower:
    ...     pass
    Traceback (most recent call last):
    logofair.errors.InputError: folder: /no/such/folder is none; make it first.
    """
    require_flower("ray")
    if not folder.is_dir():
        raise InputError(f"folder: {folder} is none; make it first.")
    # Ray's sockets need a short path
    with (
        tempfile.TemporaryDirectory(prefix="lf-", ignore_cleanup_errors=True) as short,
        flower_family(folder, short) as processes,
    ):
        superlink = start_superlink(processes, "127.0.0.1", free_port(), None, database=None, simulation=True)
        yield Simulator(processes, superlink)


def reported(work: Callable[[Grid, Path], None]) -> ServerApp:
    """Return a server app that does some work with the run's folder, and writes there what became of it.

    Examples
    --------
    >>> type(reported(lambda grid, folder: None)).__name__
    'ServerApp'
    """
    from flwr.serverapp import ServerApp

    from logofair.engines.flower.server_app import described, write_status

    made = ServerApp()

    @made.main()
    def main(grid: Grid, context: Context) -> None:
        folder, run = Path(str(context.run_config["folder"])), str(context.run_id)
        write_status(folder, "running", "The run has started.", run)
        try:
            work(grid, folder)
        except BaseException as error:
            write_status(folder, *described(error), run)
            raise
        write_status(folder, "completed", "The run has ended.", run)

    return made
