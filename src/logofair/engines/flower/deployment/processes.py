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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from logofair.engines.flower import require_flower
from logofair.engines.flower.deployment.children import (
    ManagedProcess,
    ProcessGroup,
    family,
    free_port,
    require_free_port,
    wait_for_port,
)
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
from logofair.errors import InputError

__all__ = ["RunStatus", "join", "json_object", "run_and_watch", "serve", "simulate"]


_CALL = 60.0  # seconds a flwr command gets
_LOOK = 15.0  # seconds between two questions to the server whether the run still lives


@dataclass(frozen=True)
class RunStatus:
    """What became of a run: ``status`` is "completed", "failed" or "stopped", ``sentence`` says more.

    Examples
    --------
    >>> RunStatus("completed", "The run has ended.").status
    'completed'
    """

    status: str
    sentence: str


def run_and_watch(
    processes: ProcessGroup, superlink: ManagedProcess, folder: Path, run: Mapping[str, str], *, simulated_nodes: int
) -> Generator[str, None, RunStatus]:
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


def watch_run(
    processes: ProcessGroup, superlink: ManagedProcess, folder: Path, identifier: str
) -> Generator[str, None, RunStatus]:
    """Yield new lines of progress until the run's status is final."""
    told, next_look = 0, time.monotonic() + _LOOK
    while True:
        status = _json_file(folder / "status.json")  # read before the lines, so that the last ones are not missed
        lines = _lines(folder / "progress.txt")
        yield from lines[told:]
        told = len(lines)
        if status.get("run") == identifier and status.get("status") != "running":
            _await_end(processes, identifier)
            return RunStatus(str(status["status"]), str(status["sentence"]))
        superlink.check()
        if time.monotonic() > next_look:
            seen = _status_of(processes, identifier)
            if seen.startswith("finished") and status == _json_file(folder / "status.json"):
                return RunStatus("failed", f"The server app ended without a word; Flower says {seen}: see its logs.")
            next_look = time.monotonic() + _LOOK
        time.sleep(0.2)


def _await_end(processes: ProcessGroup, identifier: str) -> None:
    """Let the server app hand in its result, so that a server started again does not find it running."""
    for _ in range(10):
        if _status_of(processes, identifier).startswith("finished"):
            return
        time.sleep(0.5)


def _status_of(processes: ProcessGroup, identifier: str) -> str:
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


_START = 60.0  # seconds a process gets to open its port
_WAIT = 60.0  # seconds a flwr command gets
_TURNED_AWAY = "Failed to activate SuperNode"
_COMEBACK = 90.0  # Flower takes a killed node for alive for up to 60 seconds, and refuses its return until then


def serve(
    plan: Path,
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 9300,
    credentials: ServerCredentials | None = None,
    insecure: bool = False,
) -> Generator[str, None, RunStatus]:
    """Start the server, let the sites in, run the plan once, and stop the server.

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
    Outcome
        As the generator's value.

    Examples
    --------
    >>> next(serve(Path("plan.toml"), Path("state")))
    Traceback (most recent call last):
    logofair.errors.InputError: credentials: none given; make keys and certificates, or ask for insecure by name.
    """
    _secure_or_asked(credentials, insecure)
    require_flower()
    keys = site_public_keys(credentials.sites) if credentials is not None else ()
    run = {"plan": str(plan.resolve()), "folder": str(folder.resolve())}
    home = folder / "flower"
    with flower_family(home) as processes:
        superlink = start_superlink(processes, host, port, credentials, database=home / "superlink.db")
        yield f"The server listens at {host}:{port}{' WITHOUT ENCRYPTION' if insecure else ''}."
        for key in keys:
            yield _register(processes, key)
        return (yield from run_and_watch(processes, superlink, folder, run, simulated_nodes=0))


def join(
    settings: Path,
    *,
    site: str,
    server: str,
    credentials: SiteCredentials | None = None,
    insecure: bool = False,
    until: Callable[[], bool],
    home: Path,
) -> RunStatus:
    """Connect a site to its server, and stay until ``until`` is true.

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
        Looked at twice a second; say, whether the site's policy has been written.
    home : path
        A folder for Flower's files and logs.

    Returns
    -------
    Outcome
        "completed" when ``until`` was true; "failed" when the server refused the node or the node ended by itself.

    Examples
    --------
    >>> join(Path("north.toml"), site="north", server="127.0.0.1:9300", until=lambda: True, home=Path("north"))
    Traceback (most recent call last):
    logofair.errors.InputError: credentials: none given; make keys and certificates, or ask for insecure by name.
    """
    _secure_or_asked(credentials, insecure)
    require_flower()
    node = {"site": checked_site_name(site), "settings": str(settings.resolve())}
    with flower_family(home) as processes:
        command = supernode_command(server, free_port(), node, credentials=credentials)
        start = time.monotonic()
        child = processes.start("supernode", command)
        while not until():
            if child.process.poll() is not None:
                if not _may_come_back(child, time.monotonic() - start):
                    return RunStatus("failed", _why(child))
                time.sleep(3.0)
                child = processes.start("supernode", command)
            time.sleep(0.5)
    return RunStatus("completed", "The site has what it came for.")


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
    Outcome
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
    # Ray's sockets need a short path
    with (
        tempfile.TemporaryDirectory(prefix="lf-", ignore_cleanup_errors=True) as short,
        flower_family(home, short) as processes,
    ):
        superlink = start_superlink(processes, "127.0.0.1", free_port(), None, database=None, simulation=True)
        yield f"Simulating {len(sites)} sites."
        return (yield from run_and_watch(processes, superlink, folder, run, simulated_nodes=len(sites)))


@contextlib.contextmanager
def flower_family(home: Path, ray_folder: str | None = None) -> Iterator[ProcessGroup]:
    """Hand out a family of processes in Flower's environment."""
    home.mkdir(parents=True, exist_ok=True)
    variables = environment(home, os.environ)
    if ray_folder is not None:
        variables["RAY_TMPDIR"] = ray_folder
    with family(home, variables) as processes:
        yield processes


def _secure_or_asked(credentials: object, insecure: bool) -> None:
    """Raise unless there are credentials, or their absence was asked for by name."""
    if credentials is None and not insecure:
        raise InputError("credentials: none given; make keys and certificates, or ask for insecure by name.")
    if credentials is not None and insecure:
        raise InputError("insecure: asked for beside credentials; choose one of the two.")


def start_superlink(
    processes: ProcessGroup,
    host: str,
    port: int,
    credentials: ServerCredentials | None,
    *,
    database: Path | None,
    simulation: bool = False,
) -> ManagedProcess:
    """Start the server and wait until it listens; the flwr command is told where."""
    require_free_port(host, port)
    address = local_address(host, port)
    authority = None if credentials is None else credentials.authority
    (processes.folder / "config.toml").write_text(connection_file(address, authority), encoding="utf-8")
    command = superlink_command(host, port, credentials=credentials, database=database, simulation=simulation)
    child = processes.start("superlink", command)
    wait_for_port(address, child.check, _START)
    return child


def _register(processes: ProcessGroup, key: Path) -> str:
    """Let one site connect."""
    checked_site_name(key.stem)
    code, printed = processes.call("register", register_command(key, processes.variables), _WAIT)
    answer = json_object(printed)
    if code == 0 and answer.get("success"):
        return f"Site {key.stem} may connect."
    if "already in use" in printed:  # a server started again on the same folder
        return f"Site {key.stem} may connect, as before."
    raise InputError(f"sites: the server does not take the key {key}; is it an elliptic-curve key in OpenSSH format?")


def _may_come_back(child: ManagedProcess, elapsed: float) -> bool:
    """Return whether a node may have been turned away only because Flower takes its predecessor for alive."""
    return elapsed < _COMEBACK and _TURNED_AWAY in child.last_lines()


def _why(child: ManagedProcess) -> str:
    """Return why a node ended, for its site's people."""
    lines = child.last_lines()
    if _TURNED_AWAY in lines:
        return (
            "The server does not let this site in: its key is not registered there, or another node with the same key "
            "is connected."
        )
    return f"The node ended with code {child.process.poll()}; its last lines: {' '.join(lines.split())}"
