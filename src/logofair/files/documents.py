"""Documents on disk: versioned JSON with a checksum, replaced whole or not at all, no pickle.

A document is one object: ``format``, ``version``, ``checksum`` and its body under its own name, say ``policy``. The
checksum is the SHA-256 of the body's canonical JSON (ASCII, sorted keys, no blanks). Reading checks each, so that a
file cut short, edited, foreign or newer says so. Floats come back to the last bit (as their shortest exact text).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from logofair.columns.checks import Floats, Label
from logofair.errors import InputError
from logofair.files.writing import FileName, put_whole, reason_of

Kind = TypeVar("Kind")


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
    document = _json(source, what, again)
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
    if document.get("checksum") != or_damaged(lambda: _checksum(body), source, what=what, remedy=remedy):
        advice = remedy or "save it again"
        raise InputError(f"{source}: its contents do not match its checksum; it was damaged or edited: {advice}.")
    return body


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


def numbers_out(array: Floats) -> list[Any]:
    """Return an array as nested lists of floats, which read back as the same bits."""
    return list(np.asarray(array, dtype=np.float64).tolist())


def numbers_in(values: Any, shape: tuple[int | None, ...], low: float = -np.inf, high: float = np.inf) -> Floats:
    """Return finite numbers from ``low`` to ``high`` in this shape (None: any length); else raise `ValueError`."""
    array = np.zeros((0, *(length or 0 for length in shape[1:]))) if values == [] else np.array(values)
    fits = array.ndim == len(shape) and all(w in (None, n) for w, n in zip(shape, array.shape, strict=True))
    if not fits or array.dtype.kind not in "if" or not np.all((array >= low) & (array <= high) & np.isfinite(array)):
        raise ValueError("numbers")
    return array.astype(np.float64)


def _path(path: FileName) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InputError(f"path: got {path!r}; pass a file name.") from None


def _encoded(format: str, version: int, body: Mapping[str, Any], what: str) -> bytes:
    """The whole file."""
    try:
        plain = _plain(body)
        document = {"format": format, "version": version, "checksum": _checksum(plain), what: plain}
        return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"save: the {what} holds a label or value that JSON cannot hold ({error}).") from None


def document_checksum(body: Mapping[str, Any]) -> str:
    """Return the checksum that a document of this body has on disk."""
    return _checksum(_plain(body))


def _plain(body: Mapping[str, Any]) -> Any:
    # Through JSON and back: keys that are no text become text, which sorts otherwise and so sums otherwise.
    return json.loads(json.dumps(dict(body), allow_nan=False))


def _checksum(body: object) -> str:
    canonical = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _json(path: Path, what: str, again: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({reason_of(error)}); check the path.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not a {what} file, or cut short: it is no valid JSON; {again}.") from None
