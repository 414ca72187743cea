"""Writing files: whole or not at all, never over another without being told, one process at a time."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from logofair.errors import DiskFullError, InputError

if TYPE_CHECKING:
    import polars

FileName: TypeAlias = str | os.PathLike[str]
_Table = TypeVar("_Table", "polars.DataFrame", "polars.LazyFrame")
_FULL = (errno.ENOSPC, errno.EDQUOT)  # what the system says of a full disk, or of a user's full share of it
_FORMULA, _QUOTED = r"(?s)^'*[=+\-@\t\r].", r"(?s)^'+[=+\-@\t\r]."
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# What the names of files that we write end in, each with the format in which such a file is written.
POLICY, REPORT, PICTURE, LIST = {".json": "JSON"}, {".html": "HTML", ".htm": "HTML"}, {".svg": "SVG"}, {".csv": "CSV"}
TABLE = dict.fromkeys((".parquet", ".pq"), "Parquet") | dict.fromkeys((".csv", ".tsv"), "CSV")
TABLE |= dict.fromkeys((".arrow", ".feather", ".ipc"), "Arrow")
_LOOK = 0.05  # seconds between two attempts at a lock


def check_outputs(outputs: Mapping[str, tuple[Path | None, Mapping[str, str]]], *, force: bool) -> None:
    """Raise unless a file can be written for each option, and a file of its own; with each path its endings."""
    taken: dict[str, str] = {}
    for option, (path, endings) in outputs.items():
        if path is None:
            continue
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise InputError(f"{option}: {path} is the file of {other} too; choose another name for one of them.")
        check_output(path, force=force, endings=endings)


def check_output(path: Path, *, force: bool, endings: Mapping[str, str]) -> None:
    """Raise unless a file can be written there, before any work is done.

    ``endings`` are those of the kind of file that is written: another would promise another kind.
    """
    file_path(path)
    if path.suffix.lower() not in endings:
        first: dict[str, str] = {}
        for ending, kind in endings.items():
            first.setdefault(kind, ending)
        kinds, names = " or ".join(first), " or ".join(first.values())
        raise InputError(f"{path}: is written as {kinds}; give it a name that ends in {names}.")
    with _refusals(path):  # a name may be too long for the system
        there = path.exists()
    if there and not force:
        raise InputError(f"{path}: exists already; choose another name or add --force.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written (no folder {str(path.parent)!r}); make the folder first.")
    try:  # what a folder may hold is known only once it does: /sys, a full disk, another's folder
        neighbour = _neighbour(folder / path.name)
        neighbour.touch(exist_ok=False)
        neighbour.unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({reason_of(error)}); choose another folder.") from None


@contextmanager
def replacing(path: FileName, *, private: bool = False) -> Iterator[Path]:
    """Hand out a temporary neighbour to write to, which takes the file's name if all goes well and else vanishes.

    An existing file is replaced at once or not at all, even if the machine dies meanwhile. A ``private`` file can be
    read by its owner alone, from its first byte on and whatever an older file allowed.
    """
    file_path(path)
    target, neighbour = Path(), None
    try:
        with _refusals(path):
            target = Path(os.path.realpath(path))
            # Not mkstemp, whose files only their owner may read.
            beside = _neighbour(target)
            beside.touch(0o600 if private else 0o666, exist_ok=False)
            neighbour = beside
        try:
            yield neighbour
        except OSError as error:
            raise _unwritable(path, error) from None
        with _refusals(path):
            with neighbour.open("rb+") as file:
                os.fsync(file.fileno())  # else a power cut may leave the new name with none of its bytes
            if target.exists() and not private:
                shutil.copymode(target, neighbour)
            os.replace(neighbour, target)
    finally:
        if neighbour is not None:
            neighbour.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # on Windows and some networks folders cannot be synced
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # so that the rename itself survives a power cut
        finally:
            os.close(handle)


def put_whole(path: FileName, data: bytes, *, private: bool = False) -> None:
    """Write bytes to a file by `replacing`."""
    with replacing(path, private=private) as neighbour:
        neighbour.write_bytes(data)


def file_path(path: FileName) -> Path:
    """A path where a regular file is, or nothing: to read or write a pipe would wait for ever."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path: got {path!r}; pass a file name.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is a folder or no regular file; pass a file name.")
    return Path(path)


@contextmanager
def readable(path: FileName) -> Iterator[Path]:
    """Hand out the path of a regular file to be read; what the system refuses is told in one sentence."""
    source = file_path(path)
    try:
        yield source
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be read ({reason_of(error)}); check the path.") from None


@contextmanager
def _refusals(path: FileName) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def _unwritable(path: FileName, error: Exception) -> InputError:
    if getattr(error, "errno", None) in _FULL:
        return DiskFullError(f"{path}: cannot be written ({reason_of(error)}); make room on its disk.")
    advice = "choose a folder that exists, has room and may be written to"
    return InputError(f"{path}: cannot be written ({reason_of(error)}); {advice}.")


def reason_of(error: Exception) -> str:
    """What the system says of an error, without the path."""
    return getattr(error, "strerror", None) or str(error)


def _neighbour(target: Path) -> Path:
    return target.with_name(f".logofair-{secrets.token_hex(8)}.part{target.suffix}")


@contextmanager
def locked(path: Path, *, patience: float = math.inf) -> Iterator[None]:
    """Hold a lock file while the block runs; the lock vanishes with the process.

    Refuses where another process holds it for longer than ``patience`` seconds.
    """
    with _refusals(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        try:
            import fcntl
        except ImportError:  # not on Windows, where deployments are left to one process by hand
            yield
            return
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise InputError(
                        f"{path}: another process works in this folder; wait for it or use another folder."
                    ) from None
                time.sleep(_LOOK)
        yield


@contextmanager
def written_in_parts(path: Path) -> Iterator[Callable[[polars.DataFrame], None]]:
    """Hand out what takes a table part by part; in the end the whole is written as the ending of the name says.

    Until then the parts lie in a folder beside it, so that no more than one is in memory.
    """
    import polars

    with TemporaryDirectory(prefix=".logofair-", dir=path.parent) as folder:
        parts: list[Path] = []

        def write(part: polars.DataFrame) -> None:
            parts.append(Path(folder) / f"{len(parts)}.parquet")
            part.write_parquet(parts[-1], compression="lz4")

        yield write
        try:
            sink(polars.scan_parquet(parts, glob=False), path)
        except polars.exceptions.PolarsError as error:  # such as lists, which a CSV file cannot hold
            raise OSError(" ".join(str(error).split())[:200]) from None


def sink(table: polars.LazyFrame, path: Path) -> None:
    """Write a lazy table as its name's ending says."""
    ending = path.suffix.lower()
    if TABLE.get(ending) == "CSV":
        _escaped_formulas(table).sink_csv(path, separator="\t" if ending == ".tsv" else ",", check_extension=False)
    elif TABLE.get(ending) == "Parquet":
        table.sink_parquet(path)
    else:
        table.sink_ipc(path)


def _escaped_formulas(table: _Table) -> _Table:
    """A table for a CSV file, its formulas escaped, which a spreadsheet would run (CSV injection).

    A formula is a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return, goes on, and is no
    number; it gets an apostrophe in front, which spreadsheets take for "this is text" and :func:`unescaped_formula`
    takes away again.
    """
    import polars
    from polars import selectors

    text = (selectors.string() | selectors.categorical() | selectors.enum()).cast(polars.String)
    formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return table.with_columns(polars.when(formula).then("'" + text).otherwise(text).name.keep())


def unescaped_formula(cell: polars.Expr) -> polars.Expr:
    """A cell of a CSV file as it was before :func:`_escaped_formulas`."""
    import polars

    return polars.when(cell.str.contains(_QUOTED)).then(cell.str.strip_prefix("'")).otherwise(cell)
