"""Where prepared data lie, what is written down about them, and whether they still are what was written.

A prepared folder holds ``about.json`` (the data set's name, the version of its layout, counts, digests of all files)
beside its data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from logofair.errors import InputError
from logofair.files.documents import of_type, or_damaged, read_document, write_document

__all__ = [
    "ABOUT",
    "OWN_FILES",
    "advice_again",
    "are_remains",
    "cache_folder",
    "cache_option",
    "check_about",
    "digest_of",
    "is_prepared",
    "new_folder",
    "read_about",
    "summary_of",
    "write_about",
]


T = TypeVar("T")

ABOUT = "about.json"
# All names that a prepared folder may hold.
OWN_FILES = frozenset((ABOUT, "rows.parquet", "images.npy", "attributes.npy", "identities.npy"))
_WHAT = "prepared data set"
_BLOCK = 1 << 20
_BLOCKS = 256  # of a file that are read to tell whether it is the one stored; of a larger one, evenly spread


def cache_folder(name: str, base: Path | None = None) -> Path:
    """Where the data set of this name lies once it is prepared; the folder is not made.

    Below ``base``; without it below the environment's ``LOGOFAIR_CACHE``; without that below ``logofair`` in the
    user's folder of caches (``XDG_CACHE_HOME``, else ``~/.cache``).

    Examples
    --------
    >>> cache_folder("enem", Path("/data")).as_posix()
    '/data/enem'
    """
    if base is not None:
        return Path(base) / name
    if chosen := os.environ.get("LOGOFAIR_CACHE"):
        return Path(chosen).expanduser() / name
    global_ = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative path is to be ignored.
    caches = Path(global_) if global_ and Path(global_).is_absolute() else Path("~/.cache").expanduser()
    return caches / "logofair" / name


def is_prepared(folder: Path) -> bool:
    """Whether a folder holds a prepared data set, of whatever version.

    Examples
    --------
    >>> is_prepared(Path("nowhere"))
    False
    """
    return (folder / ABOUT).is_file()


def write_about(folder: Path, name: str, version: int, body: Mapping[str, Any]) -> None:
    """Write down what a folder holds: the data set's name, its layout's version, what loading needs, files' digests.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_about(Path(folder), "enem", 1, {"median": 500.5})
    ...     read_about(Path(folder), "enem", 1)
    {'median': 500.5}
    """
    files = {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.name != ABOUT}
    write_document(folder / ABOUT, _format(name), version, {**body, "files": files}, what=_WHAT)


def read_about(folder: Path, name: str, version: int) -> dict[str, Any]:
    """Read what `write_about` wrote; raise one sentence where it or a file beside it is missing, damaged or outdated.

    A file of more than 256 MB is checked by its length and by 256 MB of it, evenly spread.

    Examples
    --------
    >>> read_about(Path("nowhere"), "enem", 1)
    Traceback (most recent call last):
    logofair.errors.InputError: enem: nothing prepared in nowhere; run: logofair data prepare enem --from PATH.
    """
    body = check_about(folder, name, version)
    for file, digest in body.pop("files").items():
        if _digest(folder / file) != digest:
            raise InputError(f"{folder / file}: is damaged; {advice_again(name, folder)}.")
    return body


def check_about(folder: Path, name: str, version: int) -> dict[str, Any]:
    """Read what `write_about` wrote, and see that all files are there, but not what is in them.

    Examples
    --------
    >>> check_about(Path("nowhere"), "enem", 1)
    Traceback (most recent call last):
    logofair.errors.InputError: enem: nothing prepared in nowhere; run: logofair data prepare enem --from PATH.
    """
    folder = Path(folder)
    if not is_prepared(folder):
        raise InputError(f"{name}: nothing prepared in {folder}; run: {_command(name, folder)}.")
    remedy = advice_again(name, folder)
    body = read_document(folder / ABOUT, _format(name), version, what=_WHAT, remedy=remedy)
    for file in or_damaged(lambda: of_type(body["files"], dict), folder / ABOUT, what=_WHAT, remedy=remedy):
        if not (folder / file).is_file():
            raise InputError(f"{folder / file}: is missing; {remedy}.")
    return body


def digest_of(folder: Path) -> str:
    """What identifies the data prepared in a folder, read from what was written down about them alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_about(Path(folder), "enem", 1, {"median": 500.5})
    ...     digest_of(Path(folder))[:8]
    'ad567547'
    """
    about = Path(folder) / ABOUT
    try:
        return of_type(json.loads(about.read_text(encoding="utf-8"))["checksum"], str)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise InputError(f"{about}: is missing or damaged; prepare the data again.") from None


def _digest(path: Path) -> str:
    """SHA-256 of a file's length and bytes; of a large file not all bytes, but blocks from its start to its end."""
    found = hashlib.sha256()
    try:
        size = path.stat().st_size
        found.update(f"{size} ".encode())
        with path.open("rb") as file:
            for start in range(0, size, _BLOCK * max(1, size // (_BLOCK * _BLOCKS))):
                file.seek(start)
                found.update(file.read(_BLOCK))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the file.") from None
    return found.hexdigest()


def _format(name: str) -> str:
    return f"logofair data: {name}"


def summary_of(folder: Path) -> dict[str, Any]:
    """What was written down when a folder was prepared, by whatever version; nothing where it cannot be read.

    Examples
    --------
    >>> summary_of(Path("nowhere"))
    {}
    """
    try:
        body = json.loads((folder / ABOUT).read_text(encoding="utf-8"))[_WHAT]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def advice_again(name: str, folder: Path) -> str:
    """What to do where prepared data cannot be read.

    Examples
    --------
    >>> advice_again("enem", Path("/data/enem"))
    'prepare it again: logofair data prepare enem --from PATH --cache /data --force'
    """
    return f"prepare it again: {_command(name, folder)} --force"


def cache_option(name: str, folder: Path) -> str:
    """The option that a command needs to find a folder; nothing where it looks there anyway.

    Examples
    --------
    >>> cache_option("enem", Path("/data/enem")), cache_option("enem", cache_folder("enem"))
    (' --cache /data', '')
    """
    if folder == cache_folder(name) or folder.name != name:
        return ""
    return f" --cache {shlex.quote(str(folder.parent))}"


def _command(name: str, folder: Path) -> str:
    return f"logofair data prepare {name} --from PATH{cache_option(name, folder)}"


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
