"""Child processes that never outlive their parent's interest in them.

Flower's processes start others, some of them in sessions of their own. Each family carries a mark in its
environment, by which what is left of it is found and ended. A parent that is killed outright can do nothing of
the kind; our own programs watch for that themselves (:func:`end_with_parent`).
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
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
    "end_with_parent",
    "family",
    "free_port",
    "require_free_port",
    "wait_for_port",
]


_MARK = "LOGOFAIR_FAMILY"
_PARENT = "LOGOFAIR_PARENT"
_TAIL = 12
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class ManagedProcess:
    """A running process and the file its output goes to.

    Examples
    --------
    >>> import sys, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, family(Path(folder), {}) as processes:
    ...     child = processes.start("hello", [sys.executable, "-c", "print('hi'); raise SystemExit(3)"])
    ...     code = child.process.wait()
    ...     print(code, child.last_lines())
    3 hi
    """

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
    """Processes that are ended together; made by :func:`family`.

    Examples
    --------
    >>> ProcessGroup(Path("."), {"A": "b"}, "mark").variables["A"]
    'b'
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self.variables = {**variables, _MARK: mark, _PARENT: str(os.getpid())}
        self.children: list[ManagedProcess] = []

    def start(self, name: str, command: Sequence[str]) -> ManagedProcess:
        """Start a process in a group of its own, its output appended to ``NAME.log``."""
        output = self.folder / f"{name}.log"
        with output.open("ab") as file:
            process = subprocess.Popen(
                command,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end the others in order
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
        """End one process and its group: asked first, then forced."""
        if child in self.children:
            self.children.remove(child)
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            _signal_group(child.process.pid, number)
            try:
                child.process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
            break
        _signal_group(child.process.pid, signal.SIGKILL)

    def stop_all(self) -> None:
        """End all processes, the last started first, and whatever they left behind."""
        for child in reversed(self.children.copy()):
            self.stop(child)
        _end_marked(self.mark, grace=3.0)


@contextmanager
def family(folder: Path, variables: Mapping[str, str]) -> Iterator[ProcessGroup]:
    """Hand out a family whose members are all ended when the block is left, however it is left.

    Examples
    --------
    >>> import sys, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with family(Path(folder), {}) as processes:
    ...         child = processes.start("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"])
    ...     child.process.poll() is not None
    True
    """
    folder.mkdir(parents=True, exist_ok=True)
    processes = ProcessGroup(folder, variables, secrets.token_hex(16))
    previous = _raise_on_terminate()
    try:
        yield processes
    finally:
        processes.stop_all()
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def end_with_parent() -> None:
    """End this process when the one that started it through a family is gone, even if that was killed outright.

    Examples
    --------
    >>> end_with_parent()  # no family started this process: nothing happens
    """
    parent = os.environ.get(_PARENT)
    if parent is not None:
        threading.Thread(target=_follow, args=(int(parent),), daemon=True).start()


def free_port() -> int:
    """Return a port on loopback that nobody uses at the moment.

    Examples
    --------
    >>> 0 < free_port() < 65536
    True
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free_port(host: str, port: int) -> None:
    """Raise where something listens already: whoever asks there would talk to another's server.

    Examples
    --------
    >>> require_free_port("127.0.0.1", free_port())
    >>> with socket.create_server(("127.0.0.1", 0)) as other:
    ...     require_free_port("127.0.0.1", other.getsockname()[1])
    Traceback (most recent call last):
    logofair.errors.InputError: port: 127.0.0.1:... is taken or cannot be listened at (...); choose another port ...
    """
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


def wait_for_port(address: str, check: Callable[[], None], timeout: float) -> None:
    """Wait until something listens at an address; ``check`` raises when waiting has become pointless.

    Examples
    --------
    >>> wait_for_port(f"127.0.0.1:{free_port()}", lambda: None, timeout=0.2)
    Traceback (most recent call last):
    logofair.errors.InputError: server: nothing listens at 127.0.0.1:... after 0.2 seconds; ...
    """
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        check()
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
            continue
        check()  # it may be another's port, and our own process have just given up
        return
    raise InputError(f"server: nothing listens at {address} after {timeout:g} seconds; see the logs in its folder.")


def _raise_on_terminate() -> signal.Handlers | Callable[..., object] | int | None:
    """Let SIGTERM unwind the stack as Ctrl-C does; return the handler it had, None outside the main thread."""
    try:
        return signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:
        return None


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _follow(parent: int) -> None:
    """Wait for the parent's end; then ask this process to end, and make it."""
    while os.getppid() == parent:  # not whether its number exists: a dead parent may never be buried
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10.0)
    os._exit(1)


def _signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _end_marked(mark: str, grace: float) -> None:
    """End the processes that carry the mark: they get a moment to follow their parents, then no choice."""
    deadline = time.monotonic() + grace
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """Return the processes with the mark in their environment; none where the system has no /proc."""
    needle = f"{_MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
