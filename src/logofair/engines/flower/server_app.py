"""The server app: builds the transport and lets the conductor run the plan from disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from logofair.engines.events import append_event
from logofair.engines.flower.status import recorded_status
from logofair.engines.flower.transport import FlowerTransport
from logofair.errors import InputError

__all__ = ["app", "conduct_run", "recorded_server_app"]

_INCOMPLETE = 10.0  # seconds to wait for the rest of a reply


def conduct_run(grid: Grid, context: Context) -> None:
    """Run the plan, and leave events and status in the state folder; a failure is raised again.

    The run's configuration names ``plan`` and ``folder``.
    """
    settings = context.run_config
    for key in ("plan", "folder"):
        if not settings.get(key):
            raise InputError(f"run: its configuration names no {key}; pass -c \"plan='plan.json' folder='state'\".")
    folder = Path(str(settings["folder"]))
    with recorded_status(folder, str(context.run_id)):
        from logofair.engines.folder import conduct_from_disk

        transport = FlowerTransport(grid, tell=partial(append_event, folder))
        conduct_from_disk(str(settings["plan"]), str(folder), transport, tell=transport.tell)


def recorded_server_app(work: Callable[[Grid, Path], None]) -> ServerApp:
    """Return a server app that does some work with the run's folder, and records there what became of it."""
    made = ServerApp()

    @made.main()
    def main(grid: Grid, context: Context) -> None:
        folder = Path(str(context.run_config["folder"]))
        with recorded_status(folder, str(context.run_id)):
            work(grid, folder)

    return made


def _adapt_flower() -> None:
    """Adapt Flower's internals (1.41): a reply of which a part never comes delays the others by seconds only.

    A site may die while it replies. Flower would wait 180 seconds for the missing part, and all other replies with it;
    it has no option for that time.
    """
    from flwr.supercore.inflatable.inflatable_utils import pull_objects
    from flwr.superlink.grid import http_grid

    vars(http_grid)["pull_objects"] = partial(pull_objects, max_time=_INCOMPLETE)


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the plan."""
    _adapt_flower()
    conduct_run(grid, context)
