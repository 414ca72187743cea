"""How prepared data get into their folder: built in a temporary neighbour, which takes the folder's name at the end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logofair.datasets.cache import ABOUT, OWN_FILES, is_prepared
from logofair.inputs import InputError

__all__ = ["are_remains", "new_folder"]

_DAY = 86_400.0


def are_remains(folder: Path) -> bool:
    """Whether a folder holds nothing but files of prepared data, without what says which data they are.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "rows.parquet").write_bytes(b"")
    ...     are_remains(Path(folder))
    True
    """
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return bool(names) and ABOUT not in names and names <= OWN_FILES


@contextmanager
def new_folder(into: Path) -> Iterator[Path]:
    """Hand out a temporary neighbour to fill, which takes the folder's name if all goes well and else vanishes.

    A prepared folder that is there is replaced, remains of one too; any other that holds something stays, and is an
    error. What an earlier process left of its neighbour when it was killed is cleared.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_folder(Path(folder, "caches", "enem")) as neighbour:
    ...         _ = (neighbour / "rows.txt").write_text("1")
    ...     [path.name for path in Path(folder, "caches").rglob("*")]
    ['enem', 'rows.txt']
    """
    target = Path(os.path.realpath(into))
    with _writable(into):
        if target.exists() and not target.is_dir():
            raise InputError(f"{into}: is a file; choose a folder for the prepared data.")
        if target.is_dir() and any(target.iterdir()) and not is_prepared(target) and not are_remains(target):
            raise InputError(f"{into}: holds other files; choose an empty folder for the prepared data.")
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(target)
        neighbour = target.with_name(f"{_prefix(target)}{_machine()}-{os.getpid()}-{secrets.token_hex(8)}.part")
        neighbour.mkdir()
        before = _state(target)
    try:
        yield neighbour
        with _writable(into):
            _put(neighbour, target, into, before)
    finally:
        shutil.rmtree(neighbour, ignore_errors=True)


@contextmanager
def _writable(into: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{into}: cannot be written ({reason}); choose a folder that may be written to.") from None


def _state(target: Path) -> tuple[int, int] | None:
    """What tells one prepared folder from the next of the same name."""
    try:
        found = (target / ABOUT).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _put(neighbour: Path, target: Path, into: Path, before: tuple[int, int] | None) -> None:
    """Give the new folder its name; the old one is put aside first, since folders cannot be swapped at once."""
    aside = neighbour.with_suffix(".old")
    with contextlib.suppress(FileNotFoundError):
        if _state(target) == before:
            target.rename(aside)
    try:
        neighbour.rename(target)
    except OSError:
        if _state(target) not in (None, before):
            raise InputError(
                f"{into}: was prepared by another process meanwhile; what that one stored is kept."
            ) from None
        with contextlib.suppress(OSError):
            aside.rename(target)
        raise
    finally:
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".logofair-{target.name}-"


def _machine() -> str:
    """A short mark of this machine: folders of caches may be shared, numbers of processes are not."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _clear_leftovers(target: Path) -> None:
    """Remove neighbours of this folder that no living process fills."""
    for path in target.parent.iterdir():
        if path.name.startswith(_prefix(target)) and path.suffix in (".part", ".old") and _is_dead(path, target):
            shutil.rmtree(path, ignore_errors=True)


def _is_dead(path: Path, target: Path) -> bool:
    """Whether the process that made a neighbour has ended, or nothing in it changed for a day."""
    machine, _, rest = path.name.removeprefix(_prefix(target)).partition("-")
    process = rest.partition("-")[0]
    if machine == _machine() and process.isdecimal() and os.name == "posix":  # elsewhere asking could end it
        return not _is_alive(int(process))
    with contextlib.suppress(OSError):
        return time.time() - max(each.stat().st_mtime for each in (path, *path.iterdir())) > _DAY
    return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
