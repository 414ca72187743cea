"""Flower's simulation on this machine, for apps of installed modules: one server, run after run.

An app is named as Flower names it, ``module:attribute``. Make the server app with :func:`recorded_server_app`, so that
what becomes of a run is recorded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logofair.engines.flower import require_flower
from logofair.engines.flower.deployment.processes import follow_run, simulation_superlink, start_run
from logofair.engines.flower.deployment.supervision import ManagedProcess, ProcessGroup
from logofair.engines.flower.status import recorded_status
from logofair.errors import InputError, RunError

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

__all__ = ["Simulator", "recorded_server_app", "simulator"]


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
    """A server that takes one run of simulated nodes after another; made by :func:`simulator`."""

    processes: ProcessGroup
    superlink: ManagedProcess

    def run(self, server: str, client: str, folder: Path, nodes: int) -> None:
        """Run two apps, with ``folder`` in their run's configuration, to the end; raise where the run fails."""
        with tempfile.TemporaryDirectory() as app:
            (Path(app) / "pyproject.toml").write_text(_APP.format(server=server, client=client), encoding="utf-8")
            (Path(app) / "LICENSE").write_text("Apache-2.0\n", encoding="utf-8")
            config = {"folder": str(folder.resolve())}
            run = start_run(self.processes, Path(app), config, simulated_nodes=nodes)
        progress = follow_run(self.processes, self.superlink, folder, run)
        while True:
            try:
                next(progress)
            except StopIteration as end:
                if end.value.status != "completed":
                    raise RunError(end.value.sentence) from None
                return


@contextmanager
def simulator(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[Simulator]:
    """Start a server for simulations; its logs lie in the folder, and all its processes end with the block.

    ``variables`` are added to the environment of the processes, such as a PYTHONPATH on which they find the apps.

    Examples
    --------
    >>> with simulator(Path("/no/such/folder")) as flower:
    ...     pass
    Traceback (most recent call last):
    logofair.errors.InputError: folder: there is no folder /no/such/folder; make it first.
    """
    require_flower("ray")
    if not folder.is_dir():
        raise InputError(f"folder: there is no folder {folder}; make it first.")
    with simulation_superlink(folder, variables) as (processes, superlink):
        yield Simulator(processes, superlink)


def recorded_server_app(work: Callable[[Grid, Path], None]) -> ServerApp:
    """Return a server app that does some work with the run's folder, and records there what became of it."""
    from flwr.serverapp import ServerApp

    made = ServerApp()

    @made.main()
    def main(grid: Grid, context: Context) -> None:
        folder = Path(str(context.run_config["folder"]))
        with recorded_status(folder, str(context.run_id)):
            work(grid, folder)

    return made
