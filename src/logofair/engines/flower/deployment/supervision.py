"""Supervised child processes: started with a log each, and ended together with everything they started.

Flower's processes start others, some of them in sessions of their own. Every process of a group inherits the group's
id in its environment, by which those still running are found and ended. A supervisor killed by SIGKILL cannot do
that; so our own programs end themselves when their parent process is gone (:func:`exit_with_parent`).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from logofair.errors import InputError

__all__ = [
    "ManagedProcess",
    "ProcessGroup",
    "exit_with_parent",
    "free_port",
    "held_port",
    "process_group",
    "processes_in_group",
    "require_free_port",
    "wait_for_port",
]


_GROUP_ID = "LOGOFAIR_PROCESS_GROUP"
_PARENT_ID = "LOGOFAIR_PARENT_PROCESS"
_TAIL = 12
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class ManagedProcess:
    """A running process and the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    def last_lines(self, count: int = _TAIL) -> str:
        """Return the end of what the process wrote, without colours."""
        text = _COLOURS.sub("", self.output.read_text(encoding="utf-8", errors="replace"))
        return "\n".join([line for line in text.splitlines() if line.strip()][-count:])

    def check(self) -> None:
        """Raise if the process has ended."""
        code = self.process.poll()
        if code is not None:
            raise InputError(f"{self.name}: it ended with code {code}; its last lines: {self.last_lines()}")


class ProcessGroup:
    """Processes that are ended together; made by :func:`process_group`."""

    def __init__(self, folder: Path, variables: Mapping[str, str], group_id: str) -> None:
        self.folder = folder
        self.group_id = group_id
        self.variables = {**variables, _GROUP_ID: group_id, _PARENT_ID: str(os.getpid())}
        self.children: list[ManagedProcess] = []

    def start(self, name: str, command: Sequence[str]) -> ManagedProcess:
        """Start a process in a session of its own, its output appended to ``NAME.log``."""
        output = self.folder / f"{name}.log"
        with output.open("ab") as file:
            process = subprocess.Popen(
                command,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the supervisor alone, which ends the others in order
            )
        self.children.append(ManagedProcess(name, process, output))
        return self.children[-1]

    def call(self, name: str, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it printed."""
        try:
            done = subprocess.run(
                command, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"{name}: no answer within {timeout:g} seconds; is the server alive?") from None
        with (self.folder / f"{name}.log").open("ab") as file:
            file.write(done.stdout + done.stderr)
        return done.returncode, done.stdout.decode(errors="replace")

    def stop(self, child: ManagedProcess, grace: float = 10.0) -> None:
        """End one process and those of its session: SIGTERM first, then SIGKILL."""
        if child in self.children:
            self.children.remove(child)
        for number, timeout in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            _signal_session(child.process.pid, number)
            try:
                child.process.wait(timeout)
            except subprocess.TimeoutExpired:
                continue
            break
        _signal_session(child.process.pid, signal.SIGKILL)

    def stop_all(self) -> None:
        """End all processes, the last started first, and then those they have left running."""
        for child in reversed(self.children.copy()):
            self.stop(child)
        _kill_remaining(self.group_id, grace=3.0)


@contextmanager
def process_group(folder: Path, variables: Mapping[str, str]) -> Iterator[ProcessGroup]:
    """Yield a group whose processes are all ended when the block is left, however it is left."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # logs and databases are their owner's
    processes = ProcessGroup(folder, variables, secrets.token_hex(16))
    previous = _raise_on_terminate()
    try:
        yield processes
    finally:
        processes.stop_all()
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def exit_with_parent() -> None:
    """End this process when its supervisor is gone, even if that was killed by SIGKILL."""
    parent = os.environ.get(_PARENT_ID)
    if parent is not None:
        threading.Thread(target=_wait_for_end, args=(int(parent),), daemon=True).start()


def free_port() -> int:
    """Return a port on loopback that is not in use at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free_port(host: str, port: int) -> None:
    """Raise where another server listens already: our own requests would go to it."""
    try:
        kind, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a killed server linger
            probe.bind(place)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(
            f"port: {host}:{port} is taken or cannot be listened at ({why}); choose another port or host, or stop what "
            "listens there."
        ) from None


@contextmanager
def held_port(host: str, port: int, patience: float = 0.0) -> Iterator[None]:
    """Hold a port for a server that is about to start, so that no second one starts there meanwhile.

    Raises where another listens or is about to, after ``patience`` seconds for a server killed a moment ago to end.
    """
    deadline = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX if hasattr(socket, "AF_UNIX") else socket.AF_INET) as mark:
        while True:
            try:
                require_free_port(host, port)
                _mark_port(mark, host, port)
            except InputError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.2)
            else:
                break
        yield


def _mark_port(mark: socket.socket, host: str, port: int) -> None:
    """Take a name that one process of this machine can have, and that vanishes with it; Linux alone has such names."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mark.bind(f"\0logofair server {host}:{port}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise InputError(
            f"port: another server of this machine has just been started at {host}:{port}, so it is taken; choose "
            "another port, or stop that one."
        ) from None


def wait_for_port(address: str, check: Callable[[], None], timeout: float) -> None:
    """Wait until a server listens at an address; ``check`` raises where it has ended meanwhile."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        check()
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
            continue
        check()  # another server may listen there, and our own process have just ended because of it
        return
    raise InputError(f"server: nothing listens at {address} after {timeout:g} seconds; see the logs in its folder.")


def _raise_on_terminate() -> signal.Handlers | Callable[..., object] | int | None:
    """Let SIGTERM raise as Ctrl-C does; return the handler it had, None outside the main thread."""
    try:
        return signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:
        return None


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _wait_for_end(parent: int) -> None:
    """Wait for the end of the parent process; then end this one, by SIGTERM and at last by force."""
    while os.getppid() == parent:  # its id would exist for as long as nobody waits for it
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10.0)
    os._exit(1)


def _signal_session(pid: int, number: int) -> None:
    """Send a signal to the processes of a session's first group, if there are any left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _kill_remaining(group_id: str, grace: float) -> None:
    """Kill the processes of a group that are still there after a time to end by themselves."""
    deadline = time.monotonic() + grace
    while (left := processes_in_group(group_id)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def processes_in_group(group_id: str) -> list[int]:
    """Return the ids of a group's processes, by their environment; none where the system has no /proc."""
    variable = f"{_GROUP_ID}={group_id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
