"""Flower's own commands, run as children of ours: each has a log in a folder, and ends with the block that started it.

Nothing is started twice here. Where a child ends by itself, its last lines are the reason, and the same command of ours
goes on from what is stored.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from logofair.errors import InputError, RunError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LAST = 12  # lines of a log that are shown
_GRACE = 10.0  # seconds a child gets to end by itself
_DEATH_SIGNAL = 1  # Linux: PR_SET_PDEATHSIG


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
