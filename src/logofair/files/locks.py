"""One process at a time: a lock that vanishes with the process that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logofair.errors import InputError

__all__ = ["locked"]


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file while the block runs; ``wait=False`` refuses at once where another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on Windows, where deployments are left to one process by hand
        yield
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise InputError(
                f"{path}: another process works in this folder; wait for it or use another folder."
            ) from None
        yield
