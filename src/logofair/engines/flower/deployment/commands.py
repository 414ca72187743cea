"""The command lines, the environment and the configuration file of Flower's processes; nothing is started here."""

from __future__ import annotations

import ipaddress
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from logofair.errors import InputError

__all__ = [
    "CONNECTION",
    "ServerCredentials",
    "SiteCredentials",
    "assignments",
    "connection_file",
    "environment",
    "local_address",
    "register_command",
    "run_command",
    "site_public_keys",
    "superlink_command",
    "supernode_command",
]


CONNECTION = "logofair"


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
class SiteCredentials:
    """What a site needs to know its server and to prove itself: ca.crt and its own private key."""

    authority: Path
    key: Path


def environment(home: Path, outside: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Flower's processes: a home of their own, nothing sent or installed."""
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
    beside = str(Path(sys.executable).parent)  # where an environment that is not activated has them
    found = shutil.which(name, path=os.pathsep.join([variables.get("PATH", ""), beside]))
    if found is None:
        raise InputError(f"flower: the command {name} is not installed; pip install 'logofair[flower]'.")
    return found


def superlink_command(
    host: str, port: int, *, credentials: ServerCredentials | None, database: Path | None, simulation: bool = False
) -> list[str]:
    """Return the command line of the server; without credentials it is insecure."""
    command = [
        sys.executable,
        "-m",
        "logofair.engines.flower.deployment.superlink",
        "--host",
        host,
        "--port",
        str(port),
    ]
    command.append("--disable-runtime-dependency-installation")
    if credentials is None:
        command.append("--insecure")
    else:
        command += ["--ssl-ca-certfile", str(_file(credentials.authority, "authority"))]
        command += ["--ssl-certfile", str(_file(credentials.certificate, "certificate"))]
        command += ["--ssl-keyfile", str(_file(credentials.key, "key")), "--enable-supernode-auth"]
    if database is not None:
        command += ["--database", str(database.resolve())]
    return [*command, "--simulation"] if simulation else command


def supernode_command(
    server: str,
    port: int,
    node: Mapping[str, str],
    *,
    credentials: SiteCredentials | None,
) -> list[str]:
    """Return the command line of a site's node, which opens ``port`` on loopback for its own client app."""
    command = [
        sys.executable,
        "-m",
        "logofair.engines.flower.deployment.supernode",
        "--superlink",
        server,
        "--host",
        "127.0.0.1",
    ]
    command += ["--port", str(port), "--node-config", assignments(node)]
    if credentials is None:
        return [*command, "--insecure"]
    command += ["--root-certificates", str(_file(credentials.authority, "authority"))]
    return [*command, "--auth-supernode-private-key", str(_file(credentials.key, "key"))]


def register_command(public_key: Path, variables: Mapping[str, str]) -> list[str]:
    """Return the command line that lets the site named like the file connect under that name."""
    command = [executable("flwr", variables), "supernode", "register", str(public_key), CONNECTION]
    return [*command, "--name", public_key.stem, "--format", "json"]


def run_command(
    app: Path, run: Mapping[str, str | int | float], variables: Mapping[str, str], *, simulated_nodes: int = 0
) -> list[str]:
    """Return the command line that starts a run of the app, in a simulation of that many nodes if any."""
    command = [executable("flwr", variables), "run", str(app), CONNECTION, "--format", "json"]
    command += ["--run-config", assignments(run)]
    if simulated_nodes:
        command += ["--federation-config", f"num-supernodes={simulated_nodes} client-resources-num-cpus=1"]
    return command


def connection_file(address: str, authority: Path | None) -> str:
    """Return the ``config.toml`` with which the flwr command finds our server."""
    trust = "insecure = true" if authority is None else f"root-certificates = {_literal(str(authority.resolve()))}"
    head = f"[superlink]\ndefault = '{CONNECTION}'\n\n[superlink.{CONNECTION}]\n"
    return f"{head}address = {_literal(address)}\n{trust}\n"


def local_address(host: str, port: int) -> str:
    """Return where the server is reached from its own machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if address.is_unspecified:
        return f"127.0.0.1:{port}" if address.version == 4 else f"[::1]:{port}"
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def site_public_keys(folder: Path) -> tuple[Path, ...]:
    """Return the public keys in a folder, one per site, in order of name."""
    keys = tuple(sorted(folder.glob("*.pub")))
    if not keys:
        raise InputError(f"sites: {folder} holds no NAME.pub; put the public key of each site there.")
    return keys


def assignments(values: Mapping[str, str | int | float]) -> str:
    """Return settings the way Flower's options take them."""
    return " ".join(f"{key}={_literal(value) if isinstance(value, str) else value}" for key, value in values.items())


def _literal(text: str) -> str:
    """Return text as a TOML literal string, which knows no escapes and cannot hold its own quote."""
    if "'" in text or any(ord(character) < 32 for character in text):
        raise InputError(f"path: {text[:120]!r} holds a quote or a control character; choose one without.")
    return f"'{text}'"


def _file(path: Path, what: str) -> Path:
    """Return the absolute path of a file that is there."""
    if not path.is_file():
        raise InputError(f"{what}: there is no file {path}; make keys and certificates first.")
    return path.resolve()
