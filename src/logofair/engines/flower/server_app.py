"""The server app: builds the transport and lets the conductor run the plan from disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from logofair.engines.events import Event, append_event
from logofair.engines.flower.transport import FlowerTransport
from logofair.errors import InputError, LogofairError


def conduct_run(grid: Grid, context: Context) -> None:
    """Run the plan, and leave what happens in the state folder; a failure is raised again.

    The run's configuration names ``plan`` and ``folder``.
    """
    settings = context.run_config
    for key in ("plan", "folder"):
        if not settings.get(key):
            raise InputError(f"run: its configuration names no {key}; pass -c \"plan='plan.json' folder='state'\".")
    folder = Path(str(settings["folder"]))
    with recorded(folder):
        from logofair.engines.folder import conduct_from_disk

        tell = partial(append_event, folder)
        conduct_from_disk(str(settings["plan"]), str(folder), FlowerTransport(grid, tell=tell), tell=tell)


@contextmanager
def recorded(folder: Path) -> Iterator[None]:
    """Tell, as the last event, how the block ended: Flower keeps no word on why a run failed."""
    folder.mkdir(parents=True, exist_ok=True)
    why = "the server app was stopped; its state is stored."
    try:
        yield
        why = ""
    except Exception as error:
        ours = isinstance(error, LogofairError)  # such errors are sentences already
        why = str(error) if ours else f"{type(error).__name__}: {error}"
        raise
    finally:
        with suppress(OSError):  # a full disk, which the error says
            append_event(folder, Event("ended", why))


app = ServerApp()
app.main()(conduct_run)
