"""A deployment's processes: the server's, a site's, and a whole simulation on one machine.

TLS and node authentication are the rule; without credentials these functions run only when ``insecure=True``
asks for it by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from importlib import resources
from pathlib import Path

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
from logofair.engines.flower.deployment.supervision import (
    ManagedProcess,
    ProcessGroup,
    free_port,
    process_group,
    require_free_port,
    wait_for_port,
)
from logofair.engines.flower.status import RunStatus, clear_status, read_progress, read_status
from logofair.errors import InputError, RunError

__all__ = [
    "RunStatus",
    "follow_run",
    "join",
    "serve",
    "simulate",
    "simulation_superlink",
    "start_run",
]


_START = 60.0  # seconds a process gets to open its port
_CALL = 60.0  # seconds a flwr command gets
_RUN_CHECK = 15.0  # seconds between two checks with the server whether the run is still running
_REFUSED = "Failed to activate SuperNode"
_RECONNECT = 90.0  # Flower takes a killed node for connected for up to 60 seconds, and refuses its return until then


def serve(
    plan: Path,
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 9300,
    credentials: ServerCredentials | None = None,
    insecure: bool = False,
) -> Generator[str, None, RunStatus]:
    """Start the server, register the sites, run the plan once, and stop the server.

    Parameters
    ----------
    plan, folder : path
        The plan file, and the folder of the server's state; logs go to its subfolder ``flower``.
    host, port
        Where the server listens; sites must reach it there.
    credentials : ServerCredentials, optional
        Certificate, key and the sites' public keys. Required unless ``insecure``.
    insecure : bool
        No encryption, and anyone may connect as any site: for trials on one machine.

    Yields
    ------
    str
        Lines on progress, among them those the conductor appends to ``progress.txt`` in the folder.

    Returns
    -------
    RunStatus
        As the generator's value.

    Examples
    --------
    >>> next(serve(Path("plan.toml"), Path("state")))
    Traceback (most recent call last):
    logofair.errors.InputError: credentials: none given; make keys and certificates, or ask for insecure by name.
    """
    _require_credentials(credentials, insecure)
    require_flower()
    keys = site_public_keys(credentials.sites) if credentials is not None else ()
    run = {"plan": str(plan.resolve()), "folder": str(folder.resolve())}
    home = folder / "flower"
    with flower_processes(home) as processes:
        superlink = _start_superlink(processes, host, port, credentials, database=home / "superlink.db")
        yield f"The server listens at {host}:{port}{' WITHOUT ENCRYPTION' if insecure else ''}."
        for key in keys:
            yield _register(processes, key)
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
) -> RunStatus:
    """Connect a site to its server, and stay connected until ``until()`` is true.

    Parameters
    ----------
    settings : path
        The site's settings file.
    site, server : str
        The site's name, as registered with the server, and the server's HOST:PORT.
    credentials : SiteCredentials, optional
        The authority's certificate and the site's private key. Required unless ``insecure``.
    insecure : bool
        No encryption and no proof of who the server is: for trials on one machine.
    until : callable
        Called twice a second; for example whether the site's policy has been written.
    home : path
        A folder for Flower's files and logs.
    reconnect : float
        Seconds for which a node that the server refuses is started again.

    Returns
    -------
    RunStatus
        "completed" when ``until`` was true; "failed" when the server refused the node or the node ended by itself.

    Examples
    --------
    >>> join(Path("north.toml"), site="north", server="127.0.0.1:9300", until=lambda: True, home=Path("north"))
    Traceback (most recent call last):
    logofair.errors.InputError: credentials: none given; make keys and certificates, or ask for insecure by name.
    """
    _require_credentials(credentials, insecure)
    require_flower()
    config = {"site": checked_site_name(site), "settings": str(settings.resolve())}
    with flower_processes(home) as processes:
        command = supernode_command(server, free_port(), config, credentials=credentials)
        start = time.monotonic()
        node = processes.start("supernode", command)
        while not until():
            if node.process.poll() is not None:
                if not (_REFUSED in node.last_lines() and time.monotonic() - start < reconnect):
                    return RunStatus("failed", _node_failure(node))
                time.sleep(3.0)
                node = processes.start("supernode", command)
            time.sleep(0.5)
    return RunStatus("completed", "The site has its result.")


def simulate(plan: Path, sites: Mapping[str, Path], folder: Path) -> Generator[str, None, RunStatus]:
    """Run the plan in Flower's simulation, one simulated node per site, and leave nothing running.

    Parameters
    ----------
    plan, folder : path
        The plan file, and the folder of the server's state.
    sites : mapping
        The settings file of each site, by the site's name.

    Yields
    ------
    str
        Lines on progress.

    Returns
    -------
    RunStatus
        As the generator's value.

    Examples
    --------
    >>> next(simulate(Path("plan.toml"), {}, Path("state")))
    Traceback (most recent call last):
    logofair.errors.InputError: sites: none given; name at least one with its settings file.
    """
    if not sites:
        raise InputError("sites: none given; name at least one with its settings file.")
    require_flower("ray")
    home = folder / "flower"
    home.mkdir(parents=True, exist_ok=True)
    listing = home / "sites.json"
    rows = [{"site": checked_site_name(site), "settings": str(path.resolve())} for site, path in sites.items()]
    listing.write_text(json.dumps(rows), encoding="utf-8")
    run = {"plan": str(plan.resolve()), "folder": str(folder.resolve()), "sites": str(listing.resolve())}
    with simulation_superlink(home) as (processes, superlink):
        yield f"Simulating {len(sites)} sites."
        return (yield from _run_plan(processes, superlink, folder, run, simulated_nodes=len(sites)))


@contextlib.contextmanager
def flower_processes(home: Path, variables: Mapping[str, str] | None = None) -> Iterator[ProcessGroup]:
    """Yield a group for processes in Flower's environment and more variables; all are ended with the block."""
    home.mkdir(parents=True, exist_ok=True)
    with process_group(home, environment(home, {**os.environ, **(variables or {})})) as processes:
        yield processes


@contextlib.contextmanager
def simulation_superlink(
    home: Path, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[ProcessGroup, ManagedProcess]]:
    """Start a server for simulations on this machine; yield its processes and itself, and end them with the block."""
    # Ray's sockets need a short path
    with (
        tempfile.TemporaryDirectory(prefix="lf-", ignore_cleanup_errors=True) as short,
        flower_processes(home, {"RAY_TMPDIR": short, **(variables or {})}) as processes,
    ):
        yield processes, _start_superlink(processes, "127.0.0.1", free_port(), None, database=None, simulation=True)


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


def _node_failure(node: ManagedProcess) -> str:
    """Return why a node ended, for the people at its site."""
    lines = node.last_lines()
    if _REFUSED in lines:
        return (
            "The server does not let this site in: its key is not registered there, or another node with the same key "
            "is connected."
        )
    return f"The node ended with code {node.process.poll()}; its last lines: {' '.join(lines.split())}"


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
) -> Generator[str, None, RunStatus]:
    """Yield new lines of progress until the run has ended; return what became of it.

    Parameters
    ----------
    processes, superlink
        The server's processes, and the SuperLink among them: when it ends, so does the run.
    folder : path
        Where the server app writes progress and status.
    run : str
        The run's id.
    check_every : float
        Seconds between two checks with the server, in case the server app ends without writing its status.
    """
    shown, next_check = 0, time.monotonic() + check_every
    while True:
        status = read_status(folder, run)  # read before the lines, so that the last ones are not missed
        lines = read_progress(folder)
        yield from lines[shown:]
        shown = len(lines)
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
) -> Generator[str, None, RunStatus]:
    """Start a run of our own app and follow it."""
    clear_status(folder)
    with resources.as_file(resources.files("logofair.engines.flower") / "app") as app:
        run = start_run(processes, app, config, simulated_nodes=simulated_nodes)
    yield f"Run {run} has started."
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
