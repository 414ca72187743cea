"""The server's part in Flower: a SuperLink as a child, and ``flwr`` to register sites, start a run and ask for it.

``flwr run`` succeeds long before a run fails, so ``flwr list`` is asked how it ended; why is in the events of our own
server app. TLS and node authentication are the rule; without credentials nothing is encrypted: for trials.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from logofair.engines.events import EVENTS, Tell, read_events
from logofair.engines.flower import require_flower
from logofair.engines.flower.deployment.children import Child, child, environment, executable, free_port, node_config
from logofair.engines.flower.deployment.keys import checked_site_name
from logofair.errors import InputError, RunError

_CONNECTION = "logofair"
_START = 120.0  # seconds a SuperLink gets to listen
_CALL = 120.0  # seconds a flwr command gets
_LOOK = 15.0  # seconds between two questions whether a run has ended of which nothing was heard
_LISTENS, _TAKEN = "Uvicorn running on", "address already in use"


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
class SuperLink:
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
) -> Iterator[SuperLink]:
    """Run a SuperLink while the block lasts; ``home`` holds its database, its logs and the address for ``flwr``."""
    home.mkdir(parents=True, exist_ok=True)
    environ = environment(home, {**os.environ, **(variables or {})})
    trust = "insecure = true"
    command = [sys.executable, "-m", "logofair.engines.flower.deployment.superlink", "--host", host]
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
        yield SuperLink(process, environ)


@contextlib.contextmanager
def simulator(home: Path, variables: Mapping[str, str] | None = None) -> Iterator[SuperLink]:
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
