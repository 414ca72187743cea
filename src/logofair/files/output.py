"""What commands write: a whole file or none, and never over another without being told."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

__all__ = ["check_output", "force_option", "replacing"]


force_option = click.option("--force", is_flag=True, help="Write over files that exist.")


def check_output(path: Path, *, force: bool) -> None:
    """Raise unless a file can be written there, before any work is done.

    Examples
    --------
    >>> check_output(Path(__file__), force=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    logofair.errors.InputError: ...output.py: exists already; choose another name or add --force.
    """
    from logofair.errors import InputError

    if path.is_dir() or (path.exists() and not path.is_file()):
        raise InputError(f"{path}: cannot be written, since it is no regular file; choose a file name.")
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; choose another name or add --force.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise InputError(f"{path}: cannot be written (no folder {str(path.parent)!r}); make the folder first.")
    neighbour = folder / f".logofair-{secrets.token_hex(8)}.part"
    try:  # what a folder may hold is known only once it does: /sys, a full disk, another's folder
        neighbour.touch(exist_ok=False)
        neighbour.unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); choose another folder.") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Hand out a temporary neighbour to write to, which takes the file's name if all goes well and else vanishes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "decisions.csv")) as neighbour:
    ...         _ = neighbour.write_text("row,decision")
    ...     [path.name for path in Path(folder).iterdir()]
    ['decisions.csv']
    """
    from logofair.errors import InputError

    target = Path(os.path.realpath(path))
    neighbour = target.with_name(f".logofair-{secrets.token_hex(8)}.part{target.suffix}")
    try:
        yield neighbour
        with neighbour.open("rb") as file:
            os.fsync(file.fileno())  # else a power cut may leave the new name with none of its bytes
        if target.exists():
            shutil.copymode(target, neighbour)
        os.replace(neighbour, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{path}: cannot be written ({reason}); choose a folder with room that may be written to."
        ) from None
    finally:
        neighbour.unlink(missing_ok=True)
