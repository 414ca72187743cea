"""Where prepared data lie, and what is written down about them.

A prepared folder holds ``about.json`` (the data set's name, what loading needs, counts, the files' sizes and checksums)
beside its data.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logofair.errors import InputError
from logofair.files.documents import of_type, or_damaged, read_document, write_document
from logofair.files.tables import fingerprint

__all__ = [
    "advice_again",
    "cache_folder",
    "cache_option",
    "check_about",
    "digest_of",
    "is_prepared",
    "new_folder",
    "summary_of",
    "write_about",
]

_ABOUT, _WHAT = "about.json", "prepared data set"
_VERSION = 3  # of what is stored, whatever the data set


def cache_folder(name: str, base: Path | None = None) -> Path:
    """Where the data set of this name lies once it is prepared; the folder is not made.

    Below ``base``; without it below the environment's ``LOGOFAIR_CACHE``; without that below ``logofair`` in the
    user's folder of caches (``XDG_CACHE_HOME``, else ``~/.cache``).
    """
    if base is not None:
        return Path(base) / name
    if chosen := os.environ.get("LOGOFAIR_CACHE"):
        return Path(chosen).expanduser() / name
    caches = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative path is to be ignored.
    folder = Path(caches) if caches and Path(caches).is_absolute() else Path("~/.cache").expanduser()
    return folder / "logofair" / name


def is_prepared(folder: Path) -> bool:
    """Whether a folder holds a prepared data set, of whatever version."""
    return (folder / _ABOUT).is_file()


def write_about(folder: Path, name: str, body: Mapping[str, Any]) -> None:
    """Write down what a folder holds: the data set's name, what loading needs, and its files."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": fingerprint(path)}
        for path in sorted(folder.iterdir())
        if path.name != _ABOUT
    }
    write_document(folder / _ABOUT, _format(name), _VERSION, {**body, "files": files}, what=_WHAT)


def check_about(folder: Path, name: str) -> dict[str, Any]:
    """Read what `write_about` wrote; raise one sentence where it or a file beside it is missing, cut or outdated."""
    folder = Path(folder)
    if not is_prepared(folder):
        raise InputError(f"{name}: nothing prepared in {folder}; run: {_command(name, folder)}.")
    remedy = advice_again(name, folder)
    body = read_document(folder / _ABOUT, _format(name), _VERSION, what=_WHAT, remedy=remedy)
    sizes = or_damaged(lambda: _sizes(body.pop("files")), folder / _ABOUT, what=_WHAT, remedy=remedy)
    for file, size in sizes.items():
        if not (folder / file).is_file():
            raise InputError(f"{folder / file}: is missing; {remedy}.")
        if (folder / file).stat().st_size != size:
            raise InputError(f"{folder / file}: is damaged; {remedy}.")
    return body


def _sizes(files: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: of_type(file["bytes"], int) for name, file in files.items()}


def digest_of(folder: Path) -> str:
    """What identifies the data prepared in a folder, read from what was written down about them alone."""
    found = _unchecked(Path(folder)).get("checksum")
    if not isinstance(found, str):
        raise InputError(f"{Path(folder) / _ABOUT}: is missing or damaged; prepare the data again.")
    return found


def summary_of(folder: Path) -> dict[str, Any]:
    """What was written down when a folder was prepared, by whatever version; nothing where it cannot be read."""
    body = _unchecked(folder).get(_WHAT)
    return body if isinstance(body, dict) else {}


def _unchecked(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def advice_again(name: str, folder: Path) -> str:
    """What to do where prepared data cannot be read."""
    return f"prepare it again: {_command(name, folder)} --force"


def cache_option(name: str, folder: Path) -> str:
    """The option that a command needs to find a folder; nothing where it looks there anyway."""
    if folder == cache_folder(name) or folder.name != name:
        return ""
    return f" --cache {shlex.quote(str(folder.parent))}"


def _command(name: str, folder: Path) -> str:
    return f"logofair data prepare {name} --from PATH{cache_option(name, folder)}"


def _format(name: str) -> str:
    return f"logofair data: {name}"


@contextmanager
def new_folder(into: Path) -> Iterator[Path]:
    """Hand out a temporary neighbour to fill, which takes the folder's name if all goes well and else vanishes.

    A prepared folder that is there is replaced; any other that holds something stays, and is an error.
    """
    target = Path(os.path.realpath(into))
    neighbour = target.with_name(f".logofair-{target.name}-{secrets.token_hex(8)}.part")
    with _writable(into):
        if target.exists() and not target.is_dir():
            raise InputError(f"{into}: is a file; choose a folder for the prepared data.")
        if target.is_dir() and any(target.iterdir()) and not is_prepared(target):
            raise InputError(f"{into}: holds other files; choose an empty folder for the prepared data.")
        neighbour.mkdir(parents=True)
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
    with contextlib.suppress(FileNotFoundError):
        target.rename(aside)
    try:
        neighbour.rename(target)
    except OSError:
        with contextlib.suppress(OSError):
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)
