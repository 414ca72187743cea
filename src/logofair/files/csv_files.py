"""The rules of CSV files: separator and header, encodings, blank lines at the end, a last line cut short.

Whatever the rules do not know, quotes and fields, is left to polars, which reads a clean copy where the file itself
is not UTF-8 without blank lines at its end.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from logofair.errors import InputError

__all__ = ["TableFile", "check_last_line", "clean_csv", "csv_header", "first_lines"]


BLOCK = 1 << 22
_ENDS = 1 << 20  # bytes at either end of a file that hold its first and last line
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as Excel saves "Unicode text"


@dataclass(frozen=True)
class TableFile:
    """A table on disk; ``member`` is its name inside a ZIP file."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path} ({self.member})"

    @property
    def name(self) -> str:
        """The table's own name, without folders: the same whether it is packed or not."""
        return Path(self.member or self.path.name).name

    @property
    def size(self) -> int:
        """Its bytes, unpacked."""
        if self.member is None:
            return self.path.stat().st_size
        with zip_errors(self.path), zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading bytes."""
        if self.member is None:
            with self.path.open("rb") as file:
                yield file
            return
        with zip_errors(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as packed:
            yield packed


@contextmanager
def zip_errors(path: Path) -> Iterator[None]:
    """Turn what may be wrong with a ZIP file into one sentence."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise InputError(f"{path}: is damaged, or no ZIP file; download it again.") from None
    except NotImplementedError:  # some official files are so
        raise InputError(
            f"{path}: is packed by a method that cannot be read here; unpack it and pass the CSV."
        ) from None
    except RuntimeError as error:
        if "password" not in str(error):
            raise
        raise InputError(f"{path}: is encrypted; unpack it and pass the CSV file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the file.") from None


def first_lines(file: TableFile) -> bytes:
    """The first lines of a CSV file as UTF-8 without its mark; the last one may be cut."""
    with file.open() as raw:
        head = raw.read(_ENDS)
    if head.startswith(_WIDE):
        return head.decode("utf-16", errors="ignore").encode()
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # which leaves out a cut character
    except UnicodeDecodeError:
        text = head.decode("cp1252", errors="replace")
    return text.removeprefix("\ufeff").encode()


def csv_header(head: bytes, names: Sequence[str]) -> tuple[str, list[str]]:
    """The separator under which most wanted names are found (then: most names), and the column names."""
    found: list[tuple[str, list[str]]] = []
    for separator in ",;\t|":
        rows = csv.reader(io.TextIOWrapper(io.BytesIO(head), "utf-8", newline=""), delimiter=separator)
        found.append((separator, [name.strip() for name in next(filter(None, rows), [])]))
    return max(found, key=lambda pair: (len(set(names) & set(pair[1])), len(pair[1])))


def check_last_line(clean: Path, separator: str, header: Sequence[str], file: TableFile) -> None:
    """Raise if the last line has too few fields: polars would fill it up with nulls."""
    end = _end(clean).rstrip(b"\r\n")
    last = end[end.rfind(b"\n") + 1 :]
    if b'"' not in last and last.count(separator.encode()) + 1 < len(header):
        raise InputError(f"{file}: cut short: its last line has too few fields; write the file again.")


def clean_csv(file: TableFile, folder: Path, block: int = BLOCK) -> Path:
    """The file itself where it is UTF-8 without blank lines at its end, else a copy in the folder that is."""
    encoding = _encoding(file, block)
    if file.member is None and encoding == "utf-8" and not _blank_end(file.path):
        return file.path
    copy = folder / "clean.csv"
    with file.open() as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        try:
            with copy.open("w", encoding="utf-8", newline="") as target:
                while part := text.read(block):
                    target.write(part)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{file}: no copy in {folder} ({reason}); set TMPDIR to a folder with room.") from None
    os.truncate(copy, copy.stat().st_size - _blank_end(copy))
    return copy


def _encoding(file: TableFile, block: int) -> str:
    """UTF-16 by its mark, UTF-8, or else Windows' Latin-1; raise on what is no text or ends within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with file.open() as raw:
            part = raw.read(2)
            if part in _WIDE:
                return "utf-16"
            while part:
                if b"\0" in part:
                    raise InputError(f"{file}: is no CSV text (it holds zero bytes); save it as CSV in UTF-8.")
                decoder.decode(part)
                part = raw.read(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise InputError(f"{file}: cut short: it ends within a character; write it again, in UTF-8.") from None
        return "cp1252"  # Latin-1, with the quotes and dashes that Excel writes
    return "utf-8"


def _end(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _ENDS))
        return file.read()


def _blank_end(path: Path) -> int:
    """How many bytes of blank lines a file ends in, which polars would take for rows; one line end is none."""
    end = _end(path)
    blank = end[len(end.rstrip(b" \r\n")) :]
    return 0 if blank in (b"\n", b"\r\n") else len(blank)
