"""A deployment's processes: the server's, a site's, and a whole simulation on one machine.

TLS and node authentication are the rule; without credentials these functions run only when ``insecure=True``
asks for it by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from logofair.engines.events import Event, EventReader, Reminders, Tell, no_one
from logofair.engines.flower import require_flower
from logofair.engines.flower.deployment.commands import (
    CONNECTION,
    ServerCredentials,
    SiteCredentials,
    connection_file,
    environment,
    executable,
    local_address,
    register_command,
    run_command,
    site_public_keys,
    superlink_command,
    supernode_command,
)
from logofair.engines.flower.deployment.keys import checked_site_name
from logofair.engines.flower.deployment.reach import Trouble, trouble_with
from logofair.engines.flower.deployment.supervision import (
    ManagedProcess,
    ProcessGroup,
    free_port,
    process_group,
    require_free_port,
    wait_for_port,
)
from logofair.engines.flower.status import RunStatus, clear_status, read_status
from logofair.errors import InputError, RunError

__all__ = [
    "RunStatus",
    "Simulator",
    "follow_run",
    "join",
    "serve",
    "simulate",
    "simulator",
]


_START = 60.0  # seconds a process gets to open its port
_CALL = 60.0  # seconds a flwr command gets
_RUN_CHECK = 15.0  # seconds between two checks with the server whether the run is still running
_SERVER_APP, _CLIENT_APP = (f"logofair.engines.flower.{side}_app:app" for side in ("server", "client"))
_REFUSED = "Failed to activate SuperNode"
_LOOK, _TRY = 15.0, 5.0  # seconds between two looks whether the server can be reached: while it can, while not
_AGAIN = "the same command tries again."
_RECONNECT = 90.0  # Flower takes a killed node for connected for up to 60 seconds, and refuses its return until then


def serve(
    plan: Path,
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 9300,
    credentials: ServerCredentials | None = None,
    insecure: bool = False,
) -> Generator[Event, None, RunStatus]:
    """Start the server, register the sites, run the plan once, and stop the server.

    Yields events, among them those that the server app appends to the file in ``folder``, the folder of the server's
    state; logs go to its subfolder ``flower``. ``insecure`` means no encryption, and that anyone may
    connect as any site: for trials on one machine.
    """
    _require_credentials(credentials, insecure)
    require_flower()
    keys = site_public_keys(credentials.sites) if credentials is not None else ()
    run = {"plan": str(plan.resolve()), "folder": str(folder.resolve())}
    home = folder / "flower"
    with _flower_processes(home) as processes:
        superlink = _start_superlink(processes, host, port, credentials, database=home / "superlink.db")
        yield Event("server", f"The server listens at {host}:{port}{' WITHOUT ENCRYPTION' if insecure else ''}.")
        for key in keys:
            yield Event("server", _register(processes, key))
        return (yield from _run_plan(processes, superlink, folder, run, simulated_nodes=0))


def join(
    settings: Path,
    *,
    site: str,
    server: str,
    credentials: SiteCredentials | None = None,
    insecure: bool = False,
    until: Callable[[], bool],
    home: Path,
    reconnect: float = _RECONNECT,
    tell: Tell = no_one,
) -> RunStatus:
    """Connect a site to its server at HOST:PORT, and stay connected until ``until()`` is true.

    ``until`` is called twice a second; ``home`` is a folder for Flower's files and logs. ``tell`` is told when the
    server cannot be reached, and when it can again. A node that the server refuses is started again for ``reconnect``
    seconds. The status is "failed" when it is refused still or ended by itself, or where waiting is of no use.
    """
    _require_credentials(credentials, insecure)
    require_flower()
    config = {"site": checked_site_name(site), "settings": str(settings.resolve())}
    line = _Line(server, None if credentials is None else credentials.authority, tell)
    with _flower_processes(home) as processes:
        command = supernode_command(server, free_port(), config, credentials=credentials)
        node, start = None, 0.0
        while not until():
            trouble = line.look()
            if trouble is not None and trouble.lasting:
                return RunStatus("failed", trouble.sentence)
            if node is None and trouble is None:
                node, start = processes.start("supernode", command), start or time.monotonic()
            elif node is not None and node.process.poll() is not None:
                if not (_REFUSED in node.last_lines() and time.monotonic() - start < reconnect):
                    return RunStatus("failed", _node_failure(node, trouble_with(server, line.authority)))
                time.sleep(3.0)
                node = None
                continue
            time.sleep(0.5)
    return RunStatus("completed", "The site has its result.")


class _Line:
    """Looks now and then whether the server can be reached, and says so when that changes."""

    def __init__(self, server: str, authority: Path | None, tell: Tell) -> None:
        self.server, self.authority, self.tell = server, authority, tell
        self.trouble: Trouble | None = None
        self.next, self.known = 0.0, False

    def look(self) -> Trouble | None:
        """What is wrong at the moment, None where nothing is."""
        if time.monotonic() < self.next:
            return self.trouble
        before, self.trouble = self.trouble, trouble_with(self.server, self.authority)
        self.next = time.monotonic() + (_LOOK if self.trouble is None else _TRY)
        if self.trouble is not None and self.trouble != before and not self.trouble.lasting:
            self.tell(Event("unreachable", self.trouble.sentence, {"server": self.server}))
        elif self.trouble is None and (before is not None or not self.known):
            again = " again" if before is not None else ""
            self.tell(Event("reached", f"{self.server} can be reached{again}.", {"server": self.server}))
        self.known = True
        return self.trouble


def simulate(plan: Path, sites: Mapping[str, Path], folder: Path) -> Generator[Event, None, RunStatus]:
    """Run the plan in Flower's simulation, one simulated node per site, and leave nothing running.

    ``sites`` has the settings file of each site by its name. Yields events.
    """
    if not sites:
        raise InputError("sites: none given; name at least one with its settings file.")
    home = folder / "flower"
    home.mkdir(parents=True, exist_ok=True)
    listing = home / "sites.json"
    rows = [{"site": checked_site_name(site), "settings": str(path.resolve())} for site, path in sites.items()]
    listing.write_text(json.dumps(rows), encoding="utf-8")
    run = {"plan": str(plan.resolve()), "folder": str(folder.resolve()), "sites": str(listing.resolve())}
    with simulator(home) as flower:
        yield Event("server", f"Simulating {len(sites)} sites.")
        return (yield from _run_plan(flower.processes, flower.superlink, folder, run, simulated_nodes=len(sites)))


@dataclass(frozen=True)
class Simulator:
    """A server on this machine that takes one run of simulated nodes after another; made by :func:`simulator`."""

    processes: ProcessGroup
    superlink: ManagedProcess

    def run(self, server: str, client: str, folder: Path, nodes: int) -> None:
        """Run two apps to the end, each named ``module:attribute``; raise where the run fails.

        ``folder`` is in their run's configuration. Make the server app with ``recorded_server_app``, so that what
        becomes of the run is recorded there.
        """
        with _app_folder() as ours, tempfile.TemporaryDirectory() as app:
            project = (ours / "pyproject.toml").read_text(encoding="utf-8")
            for component, ours_named in ((server, _SERVER_APP), (client, _CLIENT_APP)):
                project = project.replace(ours_named, component)
            (Path(app) / "pyproject.toml").write_text(project, encoding="utf-8")
            shutil.copy(ours / "LICENSE", app)
            run = start_run(self.processes, Path(app), {"folder": str(folder.resolve())}, simulated_nodes=nodes)
        progress = follow_run(self.processes, self.superlink, folder, run)
        while True:
            try:
                next(progress)
            except StopIteration as end:
                if end.value.status != "completed":
                    raise RunError(end.value.sentence) from None
                return


@contextlib.contextmanager
def simulator(home: Path, variables: Mapping[str, str] | None = None) -> Iterator[Simulator]:
    """Start a server for simulations; its logs lie in the folder, and all its processes end with the block.

    ``variables`` are added to the environment of the processes, such as a PYTHONPATH on which they find the apps.
    """
    require_flower("ray")
    # Ray's sockets need a short path
    with (
        tempfile.TemporaryDirectory(prefix="lf-", ignore_cleanup_errors=True) as short,
        _flower_processes(home, {"RAY_TMPDIR": short, **(variables or {})}) as processes,
    ):
        superlink = _start_superlink(processes, "127.0.0.1", free_port(), None, database=None, simulation=True)
        yield Simulator(processes, superlink)


def _flower_processes(
    home: Path, variables: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[ProcessGroup]:
    """Return a group for processes in Flower's environment and more variables."""
    return process_group(home, environment(home, {**os.environ, **(variables or {})}))


def _app_folder() -> contextlib.AbstractContextManager[Path]:
    """Return the folder of our own Flower app."""
    return resources.as_file(resources.files("logofair.engines.flower") / "app")


def _require_credentials(credentials: object, insecure: bool) -> None:
    """Raise unless there are credentials, or insecure mode was asked for."""
    if credentials is None and not insecure:
        raise InputError("credentials: none given; make keys and certificates, or ask for insecure by name.")
    if credentials is not None and insecure:
        raise InputError("insecure: asked for beside credentials; choose one of the two.")


def _start_superlink(
    processes: ProcessGroup,
    host: str,
    port: int,
    credentials: ServerCredentials | None,
    *,
    database: Path | None,
    simulation: bool = False,
) -> ManagedProcess:
    """Start the server and wait until it listens; its address is written where the flwr command looks for it."""
    require_free_port(host, port)
    address = local_address(host, port)
    authority = None if credentials is None else credentials.authority
    (processes.folder / "config.toml").write_text(connection_file(address, authority), encoding="utf-8")
    if database is not None:
        database.touch(0o600)  # Flower would let others read it
        database.chmod(0o600)
    command = superlink_command(host, port, credentials=credentials, database=database, simulation=simulation)
    child = processes.start("superlink", command)
    wait_for_port(address, child.check, _START)
    return child


def _register(processes: ProcessGroup, key: Path) -> str:
    """Register the key of one site, so that it may connect."""
    checked_site_name(key.stem)
    code, printed = processes.call("register", register_command(key, processes.variables), _CALL)
    answer = json_object(printed)
    if code == 0 and answer.get("success"):
        return f"Site {key.stem} may connect."
    if "already in use" in printed:  # a server started again on the same folder
        return f"Site {key.stem} may connect, as before."
    raise InputError(f"sites: the server does not accept the key {key}; is it an elliptic-curve key in OpenSSH format?")


def _node_failure(node: ManagedProcess, trouble: Trouble | None) -> str:
    """Return why a node ended, for the people at its site, and what to do; ``trouble`` is what was found since."""
    if trouble is not None:
        return trouble.sentence if trouble.lasting else f"{trouble.sentence} Its node ended; {_AGAIN}"
    lines = node.last_lines()
    if _REFUSED in lines:
        return (
            "The server does not let this site in: its key is not registered there, or another node with the same key "
            "is connected. Have the server's people check NAME.pub; when that is right, the same command tries again."
        )
    return f"The node ended with code {node.process.poll()}; {_AGAIN} Its last lines: {' '.join(lines.split())}"


def start_run(processes: ProcessGroup, app: Path, config: Mapping[str, str], *, simulated_nodes: int = 0) -> str:
    """Start a run of the app in a folder, in a simulation of that many nodes if any; return the run's id."""
    command = run_command(app, config, processes.variables, simulated_nodes=simulated_nodes)
    _, printed = processes.call("run", command, _CALL)
    answer = json_object(printed)
    if not answer.get("success"):
        raise RunError(f"Flower did not accept the run; it said: {printed[-300:]}")
    return str(answer["run-id"])


def follow_run(
    processes: ProcessGroup, superlink: ManagedProcess, folder: Path, run: str, *, check_every: float = _RUN_CHECK
) -> Generator[Event, None, RunStatus]:
    """Yield new events until the run has ended; return what became of it.

    The server is checked every ``check_every`` seconds, in case its app ends without writing its status.
    """
    start, events, reminders = time.monotonic(), EventReader(folder), Reminders()
    next_check = start + check_every
    while True:
        status = read_status(folder, run)  # read before the events, so that the last ones are not missed
        yield from events.new()
        seconds = time.monotonic() - start
        if status is None and reminders.due(seconds):
            why = f"this machine is busy, or {folder / 'flower'} says why"
            sentence = f"Flower has not begun the run for {seconds:.0f} s: {why}."
            yield Event("waiting", sentence, {"awaited": [], "seconds": round(seconds)})
        if status is not None and status.status != "running":
            _wait_for_result(processes, run)
            return status
        superlink.check()
        if time.monotonic() > next_check:
            reported = _flower_status(processes, run)
            if reported.startswith("finished") and status == read_status(folder, run):
                return RunStatus("failed", f"The server app ended unexpectedly; Flower says {reported}: see its logs.")
            next_check = time.monotonic() + check_every
        time.sleep(0.2)


def _run_plan(
    processes: ProcessGroup, superlink: ManagedProcess, folder: Path, config: Mapping[str, str], simulated_nodes: int
) -> Generator[Event, None, RunStatus]:
    """Start a run of our own app and follow it."""
    clear_status(folder)
    with _app_folder() as app:
        run = start_run(processes, app, config, simulated_nodes=simulated_nodes)
    yield Event("server", f"Run {run} has started.")
    return (yield from follow_run(processes, superlink, folder, run))


def _wait_for_result(processes: ProcessGroup, run: str) -> None:
    """Let the server app hand in its result, so that a server started again does not find it running."""
    for _ in range(10):
        if _flower_status(processes, run).startswith("finished"):
            return
        time.sleep(0.5)


def _flower_status(processes: ProcessGroup, run: str) -> str:
    """Return the run's status as the server knows it; the exit code of ``flwr run`` says nothing."""
    flwr = executable("flwr", processes.variables)
    command = [flwr, "list", CONNECTION, "--run-id", run, "--format", "json"]
    _, printed = processes.call("list", command, _CALL)
    runs = json_object(printed).get("runs")
    return str(runs[0].get("status", "unknown")) if isinstance(runs, list) and runs else "unknown"


def json_object(text: str) -> dict[str, object]:
    """Return the JSON object at the end of a command's output, empty where there is none."""
    start = text.find("{")
    try:
        found = json.loads(text[start:]) if start >= 0 else {}
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
