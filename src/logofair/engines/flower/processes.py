"""Flower's own commands, run as children of ours, and the server's part: a SuperLink, and ``flwr`` to run plans on it.

Each child has a log in a folder, and ends with the block that started it. Nothing is started twice here: where a child
ends by itself, its last lines are the reason, and the same command of ours goes on from what is stored.

``flwr run`` succeeds long before a run fails, so ``flwr list`` is asked how it ended; why is in the events of our own
server app. TLS and node authentication are the rule; without credentials nothing is encrypted: for trials.

``python -m logofair.engines.flower.processes`` is ``flower-superlink``, with its options, which accepts operators'
requests from this machine alone. Flower answers three kinds of requests on one port: those of the sites' nodes, which
node authentication guards; those that start and list runs; and those of the running server app. The latter two are not
authenticated, and whoever may start a run has the server and every site execute code of his choice. So everything but
the nodes' requests is answered only to this machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from logofair.engines.events import EVENTS, Tell, read_events
from logofair.engines.flower import require_flower
from logofair.engines.flower.keys import checked_site_name
from logofair.errors import InputError, RunError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LAST = 12  # lines of a log that are shown
_GRACE = 10.0  # seconds a child gets to end by itself
_DEATH_SIGNAL = 1  # Linux: PR_SET_PDEATHSIG
_CONNECTION = "logofair"
_START = 120.0  # seconds a SuperLink gets to listen
_CALL = 120.0  # seconds a flwr command gets
_LOOK = 15.0  # seconds between two questions whether a run has ended of which nothing was heard
_LISTENS, _TAKEN = "Uvicorn running on", "address already in use"
_NODES = "/v1/fleet/"  # where the sites' nodes make their requests


@dataclass(frozen=True)
class Child:
    """A running command of Flower's, and the file its output goes to, from ``start`` on."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    start: int

    def text(self) -> str:
        """What it has written so far, without colours."""
        return _COLOURS.sub("", self.log.read_bytes()[self.start :].decode(errors="replace"))

    def wait_for(self, words: str, timeout: float) -> None:
        """Wait until it has written some words; raise where it ends before."""
        deadline = time.monotonic() + timeout
        while words not in self.text():
            self.check()
            if time.monotonic() > deadline:
                raise RunError(f"{self.name}: is not ready after {timeout:g} s; {self.log} says why.")
            time.sleep(0.1)

    def check(self) -> None:
        """Raise if it has ended."""
        code = self.process.poll()
        if code is not None:
            last = " ".join(" ".join(self.text().split("\n")[-_LAST:]).split())
            raise RunError(f"{self.name}: ended with code {code}; its last lines: {last}")


@contextlib.contextmanager
def child(name: str, command: Sequence[str], home: Path, variables: Mapping[str, str]) -> Iterator[Child]:
    """Run a command while the block lasts, its output appended to ``NAME.log``; logs are their owner's alone."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    log, end_with_parent = home / f"{name}.log", None
    if sys.platform.startswith("linux"):  # so that it gets SIGTERM when our command is gone, even by SIGKILL
        end_with_parent = partial(ctypes.CDLL(None).prctl, _DEATH_SIGNAL, signal.SIGTERM)
    with log.open("ab") as file:
        start = file.tell()
        process = subprocess.Popen(
            command,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches our command alone, which ends its child in order
            preexec_fn=end_with_parent,
        )
    try:
        yield Child(name, process, log, start)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):  # the latter reaches those of its session in any case
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)


def environment(home: Path, outside: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Flower's commands: a home of their own, nothing sent or installed."""
    # Flower starts its own commands by name; "python -m" in an environment that is not activated would miss them.
    path = os.pathsep.join(part for part in (str(Path(sys.executable).parent), outside.get("PATH", "")) if part)
    loopback = ",".join(part for part in (outside.get("NO_PROXY", ""), "127.0.0.1,localhost") if part)
    return {
        **outside,
        "PATH": path,
        "NO_PROXY": loopback,
        "no_proxy": loopback,
        "PYTHONUNBUFFERED": "1",
        "FORWARDED_ALLOW_IPS": "127.0.0.1",
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def executable(name: str, variables: Mapping[str, str]) -> str:
    """Return the path of one of Flower's commands, or say how to get it."""
    found = shutil.which(name, path=variables.get("PATH"))
    if found is None:
        raise InputError(f"flower: the command {name} is not installed; pip install 'logofair[flower]'.")
    return found


def free_port() -> int:
    """Return a port on loopback that is not in use at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def node_config(values: Mapping[str, str]) -> str:
    """Return settings the way Flower's options take them: TOML literal strings, which cannot hold their own quote.

    Examples
    --------
    >>> node_config({"site": "north", "settings": "/data/north.site.json"})
    "site='north' settings='/data/north.site.json'"
    """
    for text in values.values():
        if "'" in text or any(ord(character) < 32 for character in text):
            raise InputError(f"path: {text[:120]!r} holds a quote or a control character; choose one without.")
    return " ".join(f"{key}='{text}'" for key, text in values.items())


@dataclass(frozen=True)
class ServerCredentials:
    """What the server needs to prove itself and to know its sites.

    ``authority``, ``certificate`` and ``key`` are the files ca.crt, server.crt and server.key;
    ``sites`` is the folder with one ``NAME.pub`` per site that may connect.
    """

    authority: Path
    certificate: Path
    key: Path
    sites: Path


@dataclass(frozen=True)
class _SuperLink:
    """A SuperLink that listens, and the ``flwr`` command that speaks to it; made by :func:`superlink`."""

    process: Child
    variables: Mapping[str, str]

    def register(self, key: Path) -> None:
        """Let the site that a public key is named after connect under that name."""
        checked_site_name(key.stem)
        answer, printed = self._flwr("supernode", "register", str(key), _CONNECTION, "--name", key.stem)
        # A server started again on the same folder knows its sites.
        if not answer.get("success") and "already in use" not in printed:
            raise InputError(
                f"sites: the server does not accept the key {key}; is it an elliptic-curve key in OpenSSH format?"
            )

    def run_plan(self, plan: Path, folder: Path, sites: Mapping[str, Path] | None = None, *, tell: Tell) -> None:
        """Run a stored plan to the end with the sites that connect; raise where the run fails.

        ``folder`` is that of the server's state; ``tell`` is told what happens, in the words of the server app. In a
        simulation ``sites`` has the settings file of each site by its name.
        """
        config = {"plan": str(plan.resolve())}
        if sites is not None:
            rows = [{"site": checked_site_name(site), "settings": str(path.resolve())} for site, path in sites.items()]
            listing = self.process.log.with_name("sites.json")
            listing.write_text(json.dumps(rows), encoding="utf-8")
            config["sites"] = str(listing.resolve())
        with app_folder() as app:
            self.run(app, folder, config, nodes=len(sites or ()), tell=tell)

    def run(self, app: Path, folder: Path, config: Mapping[str, str], *, nodes: int = 0, tell: Tell) -> None:
        """Run the app in a folder to the end, hand on what its server app tells, and ask Flower how it ended.

        The app finds ``folder`` in its configuration and records there how it ended; ``nodes`` are those of a
        simulation.
        """
        (folder / EVENTS).unlink(missing_ok=True)
        settings = node_config({**config, "folder": str(folder.resolve())})
        simulated = ("--federation-config", f"num-supernodes={nodes} client-resources-num-cpus=1") if nodes else ()
        answer, printed = self._flwr("run", str(app), _CONNECTION, "--run-config", settings, *simulated)
        if not answer.get("success"):
            raise RunError(f"Flower did not accept the run; it said: {printed[-300:]}")
        place, ended, next_look = 0, None, time.monotonic() + _LOOK
        while True:
            self.process.check()
            status, look = "running", ended is not None or time.monotonic() > next_look
            if look:
                runs = self._flwr("list", _CONNECTION, "--run-id", str(answer["run-id"]))[0].get("runs")
                status = str(runs[0].get("status")) if isinstance(runs, list) and runs else "unknown"
                next_look = time.monotonic() + _LOOK
            events, place = read_events(folder, place)
            for event in events:
                if event.kind == "ended":
                    ended = event
                else:
                    tell(event)
            if status == "finished:completed":
                return
            if status.startswith("finished"):
                raise RunError(ended.sentence if ended else f"Flower says {status}: see {self.process.log.parent}.")
            time.sleep(0.5)

    def _flwr(self, *arguments: str) -> tuple[dict[str, object], str]:
        """Run a flwr command to its end; return its answer, empty where it gave none, and all that it printed."""
        command = [executable("flwr", self.variables), *arguments, "--format", "json"]
        try:
            done = subprocess.run(
                command, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CALL, check=False
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"flwr {arguments[0]}: no answer within {_CALL:g} s; is the machine busy?") from None
        printed = done.stdout.decode(errors="replace")
        try:
            answer = json.loads(printed[printed.index("{") :])
        except ValueError:
            answer = {}
        return answer, printed + done.stderr.decode(errors="replace")


@contextlib.contextmanager
def superlink(
    home: Path,
    host: str,
    port: int,
    credentials: ServerCredentials | None,
    *,
    simulation: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Iterator[_SuperLink]:
    """Run a SuperLink while the block lasts; ``home`` holds its database, its logs and the address for ``flwr``."""
    home.mkdir(parents=True, exist_ok=True)
    environ = environment(home, {**os.environ, **(variables or {})})
    trust = "insecure = true"
    command = [sys.executable, "-m", "logofair.engines.flower.processes", "--host", host]
    command += ["--port", str(port), "--disable-runtime-dependency-installation"]
    if credentials is None:
        command.append("--insecure")
    else:
        trust = f"root-certificates = '{credentials.authority.resolve()}'"
        command += ["--ssl-ca-certfile", str(credentials.authority.resolve()), "--enable-supernode-auth"]
        command += ["--ssl-certfile", str(credentials.certificate.resolve())]
        command += ["--ssl-keyfile", str(credentials.key.resolve())]
    if simulation:
        command.append("--simulation")
    else:
        command += ["--database", str((home / "superlink.db").resolve())]
    connection = f"[superlink]\ndefault = '{_CONNECTION}'\n\n[superlink.{_CONNECTION}]\n"
    connection += f"address = '{_local_address(host, port)}'\n{trust}\n"
    (home / "config.toml").write_text(connection, encoding="utf-8")
    with child("superlink", command, home, environ) as process:
        try:
            process.wait_for(_LISTENS, _START)  # its own word: another server may answer at the address
        except RunError:
            if _TAKEN not in process.text():
                raise
            raise InputError(
                f"--port: {host}:{port} is taken; choose another port or host, or stop what listens there (a server "
                "that was killed needs some seconds to end)."
            ) from None
        yield _SuperLink(process, environ)


@contextlib.contextmanager
def simulator(home: Path, variables: Mapping[str, str] | None = None) -> Iterator[_SuperLink]:
    """Run a SuperLink for simulations on this machine; its logs lie in the folder.

    ``variables`` are added to the environment of the processes, such as a PYTHONPATH on which they find the apps.
    """
    require_flower("ray")
    # Ray's sockets need a short path
    with tempfile.TemporaryDirectory(prefix="lf-", ignore_cleanup_errors=True) as short:
        more = {"RAY_TMPDIR": short, **(variables or {})}
        with superlink(home, "127.0.0.1", free_port(), None, simulation=True, variables=more) as flower:
            yield flower


def app_folder() -> contextlib.AbstractContextManager[Path]:
    """Return the folder of our own Flower app."""
    return resources.as_file(resources.files("logofair.engines.flower") / "app")


def _local_address(host: str, port: int) -> str:
    """Return where the server is reached from its own machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if address.is_unspecified:
        return f"127.0.0.1:{port}" if address.version == 4 else f"[::1]:{port}"
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _admitted(path: str, peer: str | None, own: str | None) -> bool:
    """Return whether a request may pass: it is a node's, or comes from this machine."""
    if path.startswith(_NODES):
        return True
    if peer is None:
        return False
    try:
        return peer == own or ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False


class _LocalOperatorsOnly:
    """ASGI middleware that answers 403 to operators' requests from other machines."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it without reading it."""
        peer, own = scope.get("client"), scope.get("server")
        path = scope.get("path", "")
        if scope["type"] == "lifespan" or _admitted(path, peer[0] if peer else None, own[0] if own else None):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """Start the SuperLink, with our middleware as the outermost."""
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    # Flower (1.41, 1.42) has no option to add one.
    inherited = extensions.get_middleware
    extensions.get_middleware = lambda: (Middleware(_LocalOperatorsOnly), *inherited())
    flower_superlink()


if __name__ == "__main__":
    main()
