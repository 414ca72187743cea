"""Documents on disk: versioned JSON with a checksum, replaced whole or not at all, no pickle.

A document is one object: ``format``, ``version``, ``checksum`` and its body under its own name, say ``policy``. The
checksum is the SHA-256 of the body's canonical JSON (ASCII, sorted keys, no blanks). Reading checks each, so that a
file cut short, edited, foreign or newer says so. Floats come back to the last bit (as their shortest exact text).

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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Label
from logofair.errors import InputError
from logofair.files.writing import FileName, put_whole, reason_of

Kind = TypeVar("Kind")

_LISTED = 100_000  # numbers of an array up to which it is written as a list
_MAIN = "document.json"
_KINDS = ("<f8", "<i8", "|b1")
_MOST_RATIO, _SMALL = 1000, 1 << 26  # a file unpacks to no more than so many times its size, or so many bytes
_ZIP = b"PK\3\4"
_ZIP_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)  # of damaged ZIP files


def write_document(
    path: FileName, format: str, version: int, body: Mapping[str, Any], *, what: str, private: bool = False
) -> None:
    """Write a document; an existing file is replaced at once or not at all, even if the machine dies meanwhile.

    ``what`` says in words what the document is ("policy", "server checkpoint"); the body stands under this name.
    A ``private`` file can be read by its owner alone, from its first byte on and whatever an older file allowed.
    """
    put_whole(path, _encoded(format, version, body, what), private=private)


def read_document(path: FileName, format: str, version: int, *, what: str, remedy: str | None = None) -> dict[str, Any]:
    """Read a document's body, with format, version and checksum checked; raise `InputError` on any other file.

    ``remedy`` says what to do about a damaged file where saving it again is no advice.
    """
    source, again = _path(path), remedy or f"save the {what} again"
    document, members = _parsed(read_bytes(source), source, what, again)
    if not isinstance(document, dict) or document.get("format") != format:
        raise InputError(f"{source}: not a {what} file: it lacks the format mark {format!r}.")
    found = document.get("version")
    if type(found) is int and found > version:
        raise InputError(f"{source}: written by a newer version (file {found}, known {version}); upgrade logofair.")
    if type(found) is int and 1 <= found < version:
        renew = remedy or f"make the {what} again"
        raise InputError(f"{source}: written by an older version (file {found}, known {version}); {renew}.")
    body = document.get(what)
    if type(found) is not int or found != version or not isinstance(body, dict):
        raise InputError(f"{source}: its version mark {found!r} or its contents are damaged; {again}.")
    packed = _Unpacked(members)
    checksum, filled = or_damaged(lambda: (_checksum(body), packed.filled(body)), source, what=what, remedy=remedy)
    if document.get("checksum") != checksum or packed.damaged:
        advice = remedy or "save it again"
        raise InputError(f"{source}: its contents do not match its checksum; it was damaged or edited: {advice}.")
    return filled  # type: ignore[no-any-return]  # a body is a dict


def or_damaged(read: Callable[[], Kind], path: FileName, *, what: str, remedy: str | None = None) -> Kind:
    """Return ``read()``, which takes a body apart; where that fails, say which file is damaged."""
    try:
        return read()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        advice = remedy or f"save the {what} again"
        raise InputError(f"{path}: parts of the {what} are missing or malformed; {advice}.") from None


def of_type(value: Any, kind: type[Kind]) -> Kind:
    """Return a value of exactly this type, else raise `TypeError` (for `or_damaged`; True is no integer here)."""
    if type(value) is not kind:
        raise TypeError(kind.__name__)
    return value


def label_out(label: Label, what: str) -> Any:
    """Return a label (text, number, bool, None, tuple of these) as JSON; tuples tagged, to come back as tuples."""
    if isinstance(label, np.generic):
        label = label.item()
    if label is None or isinstance(label, str | bool | int | float):
        return label
    if isinstance(label, tuple):
        return {"tuple": [label_out(part, what) for part in label]}
    raise InputError(
        f"save: {what} {label!r} is of type {type(label).__name__}; only text, numbers and tuples can be saved."
    )


def label_in(value: Any) -> Label:
    """Return a label as it was before `label_out`; raise on anything else (for `or_damaged`)."""
    if isinstance(value, dict):
        return tuple(label_in(part) for part in of_type(value["tuple"], list))
    if isinstance(value, list):
        raise TypeError("list")
    return value  # type: ignore[no-any-return]


def labels_in(values: Any) -> tuple[Label, ...]:
    """Return a stored list of labels, at least one and all different; raise on anything else (for `or_damaged`)."""
    labels = tuple(map(label_in, of_type(values, list)))
    if len(set(labels)) != len(labels) or not labels:
        raise ValueError("duplicate")
    return labels


def numbers_out(array: npt.NDArray[Any]) -> Any:
    """Return an array as nested lists, which read back as the same bits; a large one as it is, to be packed."""
    return array if array.size > _LISTED else array.tolist()


def numbers_in(values: Any, shape: tuple[int | None, ...], low: float = -np.inf, high: float = np.inf) -> Floats:
    """Return finite numbers from ``low`` to ``high`` in this shape (None: any length); else raise `ValueError`."""
    array = (
        np.zeros((0, *(length or 0 for length in shape[1:])))
        if isinstance(values, list) and not values
        else np.asarray(values)
    )
    fits = array.ndim == len(shape) and all(w in (None, n) for w, n in zip(shape, array.shape, strict=True))
    if not fits or array.dtype.kind not in "if" or not np.all((array >= low) & (array <= high) & np.isfinite(array)):
        raise ValueError("numbers")
    return array.astype(np.float64)


def places_in(values: Any, length: int) -> npt.NDArray[np.int64]:
    """Return stored places in an array of so many entries, rising; else raise `ValueError`."""
    places = numbers_in(values, (None,), low=0, high=length - 1).astype(np.int64)
    if np.any(places != np.asarray(values)) or np.any(np.diff(places) <= 0):
        raise ValueError("places")
    return places


def _path(path: FileName) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InputError(f"path: got {path!r}; pass a file name.") from None


def _encoded(format: str, version: int, body: Mapping[str, Any], what: str) -> bytes:
    """The whole file."""
    packed = _Packed()
    try:
        plain = _plain(body, packed)
        document = {"format": format, "version": version, "checksum": _checksum(plain), what: plain}
        layout = None if packed.members else 1
        text = json.dumps(document, ensure_ascii=False, indent=layout, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"save: the {what} holds a label or value that JSON cannot hold ({error}).") from None
    return packed.with_document(text) if packed.members else text


class _Packed:
    """The arrays of a document that is written, as bytes that pack well."""

    def __init__(self) -> None:
        self.members: list[bytes] = []

    def reference(self, array: object) -> dict[str, Any]:
        """Keep an array, and return what stands for it in the document."""
        if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("<").str not in _KINDS or not array.size:
            raise TypeError(f"{type(array).__name__} is no JSON")
        kind = array.dtype.newbyteorder("<")
        entries = np.ascontiguousarray(array, dtype=kind).reshape(array.shape[0], -1).view(np.uint8)
        self.members.append(entries.T.tobytes())
        digest = hashlib.sha256(self.members[-1]).hexdigest()
        name = str(len(self.members) - 1)
        return {"packed": name, "kind": kind.str, "shape": list(array.shape), "sha256": digest}

    def with_document(self, text: bytes) -> bytes:
        """The whole file, without the time it was made at."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
            for name, data in ((_MAIN, text), *((str(place), each) for place, each in enumerate(self.members))):
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data, compresslevel=4)
        return buffer.getvalue()


class _Unpacked:
    """The arrays of a document that is read; ``damaged`` once one is not what the document says."""

    def __init__(self, archive: zipfile.ZipFile | None) -> None:
        self.archive, self.damaged = archive, False

    def filled(self, value: Any) -> Any:
        """A value of the document with its arrays in their places."""
        if self.archive is None:
            return value
        if isinstance(value, dict):
            if set(value) == {"packed", "kind", "shape", "sha256"}:
                return self._array(self.archive, value)
            return {name: self.filled(each) for name, each in value.items()}
        return value

    def _array(self, archive: zipfile.ZipFile, reference: dict[str, Any]) -> npt.NDArray[Any]:
        kind, shape = of_type(reference["kind"], str), tuple(of_type(n, int) for n in reference["shape"])
        if kind not in _KINDS or min(shape) < 1:
            raise ValueError("kind or shape")
        try:
            data = archive.read(of_type(reference["packed"], str))
        except (LookupError, *_ZIP_FAULTS):
            data = b""
        if hashlib.sha256(data).hexdigest() != reference["sha256"]:
            self.damaged = True
            return np.zeros(0)
        planes = np.frombuffer(data, dtype=np.uint8).reshape(-1, shape[0])
        return np.ascontiguousarray(planes.T).view(kind).reshape(shape)


def document_checksum(body: Mapping[str, Any]) -> str:
    """Return the checksum that a document of this body has on disk."""
    return _checksum(_plain(body, _Packed()))


def _plain(body: Mapping[str, Any], packed: _Packed) -> Any:
    # Through JSON and back: keys that are no text become text, which sorts otherwise and so sums otherwise.
    return json.loads(json.dumps(dict(body), allow_nan=False, default=packed.reference))


def _checksum(body: object) -> str:
    canonical = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_bytes(path: Path) -> bytes:
    """The bytes of a file that people name."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would wait for ever
        raise InputError(f"{path}: is no regular file; pass one.")
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({reason_of(error)}); check the path.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: of two values under one name readers take either."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate")
    return found


def _parsed(data: bytes, path: Path, what: str, again: str) -> tuple[Any, zipfile.ZipFile | None]:
    """The document in a file's bytes, and the ZIP file that holds its arrays where it has some."""
    no_json = InputError(f"{path}: not a {what} file, or cut short: it is no valid JSON; {again}.")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data)) if data.startswith(_ZIP) else None
    except _ZIP_FAULTS:
        raise no_json from None
    if archive and sum(entry.file_size for entry in archive.infolist()) > max(_MOST_RATIO * len(data), _SMALL):
        raise InputError(f"{path}: unpacks to more than {_MOST_RATIO} times its size, as no {what} does; {again}.")
    try:
        text = archive.read(_MAIN) if archive else data
        return json.loads(text.decode("utf-8"), object_pairs_hook=_unique), archive
    except (LookupError, *_ZIP_FAULTS):
        raise no_json from None
