"""Where prepared data lie, and how they get there: a folder that is whole or not there at all.

A prepared folder holds ``about.json`` (the data set's name, the version of its layout, counts) beside its data.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from logofair.documents import read_document, write_document
from logofair.inputs import InputError

__all__ = [
    "ABOUT",
    "Watch",
    "advice_again",
    "cache_folder",
    "is_prepared",
    "new_folder",
    "read_about",
    "summary_of",
    "unwatched",
    "write_about",
]

T = TypeVar("T")

ABOUT = "about.json"
_WHAT = "prepared data set"


class Watch(Protocol):
    """Hands the steps of some work on, and shows how many are done."""

    def __call__(self, steps: Iterable[T], what: str, total: int) -> Iterable[T]:
        """Pass ``steps`` through."""


def unwatched(steps: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Hand the steps on and show nothing.

    Examples
    --------
    >>> list(unwatched(range(3), "Counting", total=3))
    [0, 1, 2]
    """
    return steps


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
    shared = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative path is to be ignored.
    caches = Path(shared) if shared and Path(shared).is_absolute() else Path("~/.cache").expanduser()
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
    """Write down what a folder holds: the data set's name, the version of its layout, and what else loading needs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_about(Path(folder), "enem", 1, {"median": 500.5})
    ...     read_about(Path(folder), "enem", 1)
    {'median': 500.5}
    """
    write_document(folder / ABOUT, f"logofair data: {name}", version, body, what=_WHAT)


def read_about(folder: Path, name: str, version: int) -> dict[str, Any]:
    """Read what `write_about` wrote; raise one sentence where it is missing, damaged, or of another version.

    Examples
    --------
    >>> read_about(Path("nowhere"), "enem", 1)
    Traceback (most recent call last):
    logofair.inputs.InputError: enem: nothing prepared in nowhere; run: logofair data prepare enem --from PATH.
    """
    if not is_prepared(folder):
        raise InputError(f"{name}: nothing prepared in {folder}; run: {_command(name)}.")
    return read_document(folder / ABOUT, f"logofair data: {name}", version, what=_WHAT, remedy=advice_again(name))


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


def advice_again(name: str) -> str:
    """What to do where prepared data cannot be read.

    Examples
    --------
    >>> advice_again("enem")
    'prepare it again: logofair data prepare enem --from PATH --force'
    """
    return f"prepare it again: {_command(name)} --force"


def _command(name: str) -> str:
    return f"logofair data prepare {name} --from PATH"


@contextmanager
def new_folder(into: Path) -> Iterator[Path]:
    """Hand out a temporary neighbour to fill, which takes the folder's name if all goes well and else vanishes.

    A prepared folder that is there is replaced; any other that holds something stays, and is an error.

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
        if target.is_dir() and any(target.iterdir()) and not is_prepared(target):
            raise InputError(f"{into}: holds other files; choose an empty folder for the prepared data.")
        target.parent.mkdir(parents=True, exist_ok=True)
        neighbour = target.with_name(f".logofair-{secrets.token_hex(8)}.part")
        neighbour.mkdir()
    try:
        yield neighbour
        with _writable(into):
            _put(neighbour, target)
    finally:
        shutil.rmtree(neighbour, ignore_errors=True)


@contextmanager
def _writable(into: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{into}: cannot be written ({reason}); choose a folder that may be written to.") from None


def _put(neighbour: Path, target: Path) -> None:
    """Give the new folder its name; the old one is put aside first, since folders cannot be swapped at once."""
    aside = neighbour.with_suffix(".old")
    if target.exists():
        target.rename(aside)
    try:
        neighbour.rename(target)
    except OSError:
        with contextlib.suppress(OSError):
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)
