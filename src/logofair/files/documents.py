"""Documents on disk: versioned JSON with a checksum, replaced whole or not at all, no pickle.

A document is one object: ``format``, ``version``, ``checksum`` and its record (:mod:`logofair.records`) under its own
name, say ``policy``. The checksum is the SHA-256 of the record's canonical JSON (ASCII, sorted keys, no blanks).
Reading checks each, so that a file cut short, edited, foreign or newer says so.

Arrays of more than 100,000 numbers (the rules of many sites) would be slow and large as text. A document that holds
some is a ZIP file: its member ``document.json`` is the document, and in place of such an array stands
``{"packed": "0", "kind": "<f8", "shape": [2000000, 3], "sha256": "..."}``. The member ``0`` holds its bytes: of each
entry along the first axis the first byte, then of each the second, and so on, since bytes of equal place pack well.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from logofair.errors import InputError
from logofair.files.writing import FileName, file_path, put_whole, readable
from logofair.records import FAULTS, listed, parsed, plain, read

_Kind = TypeVar("_Kind")

_LISTED = 100_000  # numbers of an array up to which it is written as a list
_MAIN = "document.json"
_KINDS = ("<f8", "<i8", "|b1")
_MOST_RATIO, _SMALL = 1000, 1 << 26  # a file unpacks to no more than so many times its size, or so many bytes
_ZIP = b"PK\3\4"
_ZIP_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)  # of damaged ZIP files


@dataclass(frozen=True)
class Document(Generic[_Kind]):
    """One kind of file of our own: what record it holds, and the marks by which it is known.

    Parameters
    ----------
    record : type
        What is written and read.
    format, version
        The marks in the file; an older or newer version is refused.
    what : str
        What the document is, in words ("policy", "server checkpoint"); the record stands under this name.
    remedy : str, optional
        What to do about a damaged file, where saving it again is no advice.
    private : bool
        Whether its owner alone may read it, from its first byte on and whatever an older file allowed.
    """

    record: type[_Kind]
    format: str
    version: int
    what: str
    remedy: str | None = None
    private: bool = False

    def write(self, path: FileName, record: _Kind) -> None:
        """Write a file; an existing one is replaced at once or not at all, even if the machine dies meanwhile."""
        body, members = self._plain(record)
        document = {"format": self.format, "version": self.version, "checksum": _checksum(body), self.what: body}
        text = json.dumps(document, ensure_ascii=False, indent=None if members else 1, allow_nan=False)
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise self._unwritable(error) from None
        if members:  # without the time it was made at
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                for name, part in ((_MAIN, data), *((str(place), each) for place, each in enumerate(members))):
                    archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED, compresslevel=4)
            data = buffer.getvalue()
        put_whole(path, data, private=self.private)

    def checksum(self, record: _Kind) -> str:
        """Return the checksum that the file of a record states."""
        return _checksum(self._plain(record)[0])

    def _plain(self, record: _Kind) -> tuple[Any, list[bytes]]:
        """What stands in the file for a record, and the bytes of the arrays that are packed beside it."""
        members: list[bytes] = []

        def put(value: npt.NDArray[Any] | bytes) -> Any:
            if isinstance(value, bytes) or value.size <= _LISTED:
                return listed(value)
            kind = value.dtype.newbyteorder("<")
            if kind.str not in _KINDS:
                raise TypeError(f"an array of {kind} cannot be packed")
            entries = np.ascontiguousarray(value, dtype=kind).reshape(value.shape[0], -1).view(np.uint8)
            members.append(entries.T.tobytes())
            digest, name = hashlib.sha256(members[-1]).hexdigest(), str(len(members) - 1)
            return {"packed": name, "kind": kind.str, "shape": list(value.shape), "sha256": digest}

        try:
            body = plain(record, put)
            json.dumps(body, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._unwritable(error) from None
        return body, members

    def _unwritable(self, error: Exception) -> InputError:
        return InputError(f"save: the {self.what} holds a label or value that JSON cannot hold ({error}).")

    def read(self, path: FileName) -> _Kind:
        """Read a file, with format, version and checksum checked; raise `InputError` on any other file."""
        source, again = file_path(path), self.remedy or f"save the {self.what} again"
        data = read_bytes(source)
        no_json = InputError(f"{source}: not a {self.what} file, or cut short: it is no valid JSON; {again}.")
        advice = self.remedy or "save it again"
        edited = InputError(f"{source}: its contents do not match its checksum; it was damaged or edited: {advice}.")
        try:
            archive = zipfile.ZipFile(io.BytesIO(data)) if data.startswith(_ZIP) else None
        except _ZIP_FAULTS:
            raise no_json from None
        if archive and sum(entry.file_size for entry in archive.infolist()) > max(_MOST_RATIO * len(data), _SMALL):
            times = f"{_MOST_RATIO} times its size, as no {self.what} does"
            raise InputError(f"{source}: unpacks to more than {times}; {again}.")
        try:
            document = parsed((archive.read(_MAIN) if archive else data).decode())
        except (LookupError, RecursionError, *_ZIP_FAULTS):
            raise no_json from None
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise InputError(f"{source}: not a {self.what} file: it lacks the format mark {self.format!r}.")
        found, version = document.get("version"), self.version
        if type(found) is int and found > version:
            raise InputError(f"{source}: written by a newer version (file {found}, known {version}); upgrade logofair.")
        if type(found) is int and 1 <= found < version:
            renew = self.remedy or f"make the {self.what} again"
            raise InputError(f"{source}: written by an older version (file {found}, known {version}); {renew}.")
        body = document.get(self.what)
        if type(found) is not int or found != version or not isinstance(body, dict):
            raise InputError(f"{source}: its version mark {found!r} or its contents are damaged; {again}.")
        if document.get("checksum") != _checksum(body):
            raise edited
        try:
            return read(_filled(body, archive, edited) if archive else body, self.record)
        except InputError as error:
            raise InputError(f"{source}: {str(error).removeprefix(f'{source}: ')}") from None
        except FAULTS:
            raise InputError(f"{source}: parts of the {self.what} are missing or malformed; {again}.") from None


def _filled(value: Any, archive: zipfile.ZipFile, edited: InputError) -> Any:
    """A part of a document with its packed arrays in their places."""
    if not isinstance(value, dict):
        return value
    if set(value) != {"packed", "kind", "shape", "sha256"}:
        return {name: _filled(part, archive, edited) for name, part in value.items()}
    kind, shape = value["kind"], tuple(value["shape"])
    if kind not in _KINDS or any(type(n) is not int or n < 1 for n in shape):
        raise ValueError("kind or shape")
    try:
        data = archive.read(value["packed"])
    except (LookupError, *_ZIP_FAULTS):
        data = b""
    if hashlib.sha256(data).hexdigest() != value["sha256"]:
        raise edited
    planes = np.frombuffer(data, dtype=np.uint8).reshape(-1, shape[0])
    return np.ascontiguousarray(planes.T).view(kind).reshape(shape)


def _checksum(body: object) -> str:
    canonical = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_bytes(path: FileName) -> bytes:
    """The bytes of a file that people name."""
    with readable(path) as source:
        return source.read_bytes()
