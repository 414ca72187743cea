"""Policies on disk: versioned JSON with a checksum, no pickle.

The file is one object: ``format``, ``version``, ``policy`` (everything needed to decide) and ``checksum``, the SHA-256
of the policy's canonical JSON. Reading checks each of them, then the shape and range of every table, so that a file
cut short, edited by hand or written by a newer version says so instead of deciding wrongly.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from logofair.calibration import Calibrator
from logofair.inputs import Floats, InputError, Label
from logofair.mixtures import Mixtures

FORMAT = "logofair policy"
VERSION = 1

Kind = TypeVar("Kind")


def write_policy(parts: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the parts of a policy, by field name; an existing file is replaced at once or not at all."""
    target = _path(path)
    data = _encoded(parts)
    if os.path.exists(target) and not os.path.isfile(target):
        raise InputError(f"{target}: cannot be written, since it is no regular file; choose a file name.")
    try:
        _replace(Path(os.path.realpath(target)), data)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{target}: cannot be written ({_reason(error)}); choose a folder that exists and may be written to."
        ) from None


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check the parts of a policy, by field name."""
    source = _path(path)
    body = _document(source)["policy"]
    parts: dict[str, Any] = _or_damaged(lambda: _parts(body), source)
    return parts


def _parts(body: dict[str, Any]) -> dict[str, Any]:
    groups, clients = _labels_in(body["groups"]), _labels_in(body["clients"])
    calibrator = Calibrator.from_json(body["calibrator"])
    if (calibrator.n_groups, calibrator.n_clients) != (len(groups), len(clients)):
        raise InputError("its calibrator is for other groups or clients; save the policy again.")
    pooled, has_clients = body["pooled"], _of_type(body["has_clients"], bool)
    if not has_clients and len(clients) > 1:
        raise ValueError("clients")
    return {
        "groups": groups,
        "clients": clients,
        "mixtures": _mixtures_in(body["mixtures"], len(groups) * len(clients)),
        "calibrator": calibrator,
        "pooled": None if pooled is None else _mixtures_in(pooled, len(groups)),
        "key": _of_type(body["key"], int),
        "has_clients": has_clients,
        "about": _of_type(body["about"], dict),
    }


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InputError(f"path: got {path!r}; pass a file name.") from None


def _encoded(parts: Mapping[str, Any]) -> bytes:
    """The whole file."""
    pooled = parts["pooled"]
    body = {
        "groups": [_label(name, "group") for name in parts["groups"]],
        "clients": [_label(name, "client") for name in parts["clients"]],
        "has_clients": parts["has_clients"],
        "key": parts["key"],
        "mixtures": _mixtures_out(parts["mixtures"]),
        "pooled": None if pooled is None else _mixtures_out(pooled),
        "calibrator": parts["calibrator"].as_json(),
        "about": dict(parts["about"]),
    }
    try:
        document = {"format": FORMAT, "version": VERSION, "checksum": _checksum(body), "policy": body}
        return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"save: the policy holds a label or value that JSON cannot hold ({error}).") from None


def _replace(path: Path, data: bytes) -> None:
    """Write to a temporary neighbour, then rename: the file is whole or not there."""
    temporary = path.with_name(f".logofair-{secrets.token_hex(8)}.part")
    file = temporary.open("xb")  # not mkstemp, whose files only their owner may read
    try:
        with file:
            file.write(data)
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _document(path: Path) -> dict[str, Any]:
    """The file's outer object, with format, version and checksum checked."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)}); check the path.") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: not a policy file, or cut short: it is no valid JSON; save the policy again."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path}: not a policy file: it lacks the format mark {FORMAT!r}.")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise InputError(f"{path}: written by a newer version (file {version}, known {VERSION}); upgrade logofair.")
    if type(version) is not int or version != VERSION or not isinstance(document.get("policy"), dict):
        raise InputError(f"{path}: its version mark {version!r} or its contents are damaged; save the policy again.")
    if document.get("checksum") != _or_damaged(lambda: _checksum(document["policy"]), path):
        raise InputError(f"{path}: its contents do not match its checksum; it was damaged or edited: save it again.")
    return document


def _or_damaged(read: Callable[[], Any], path: Path) -> Any:
    try:
        return read()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise InputError(f"{path}: parts of the policy are missing or malformed; save the policy again.") from None


def _of_type(value: Any, kind: type[Kind]) -> Kind:
    if type(value) is not kind:
        raise TypeError(kind.__name__)
    return value


def _checksum(body: object) -> str:
    canonical = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _mixtures_out(mixtures: Mixtures) -> dict[str, Any]:
    # JSON has no infinity; null stands for "reject all"
    single = [None if np.isinf(t) else t for t in mixtures.single.tolist()]
    return {
        "weight": mixtures.weight.tolist(),
        "threshold": mixtures.threshold.tolist(),
        "above": mixtures.above.tolist(),
        "single": single,
    }


def _mixtures_in(data: dict[str, Any], cells: int) -> Mixtures:
    weight, threshold = _shares_in(data["weight"], (cells, 3)), _shares_in(data["threshold"], (cells, 3))
    above, single = np.array(data["above"]), _of_type(data["single"], list)
    rejects = np.array([limit is None for limit in single])
    limits = _shares_in([0.0 if limit is None else limit for limit in single], (cells,))
    if above.shape != (cells, 3) or above.dtype != bool or weight.sum(axis=1).max() > 1.0 + 1e-9:
        raise ValueError("above or weights")
    return Mixtures(weight, threshold, above, np.where(rejects, np.inf, limits))


def _shares_in(values: Any, shape: tuple[int, ...]) -> Floats:
    """Numbers from 0 to 1; anything else, NaN too, is an error."""
    array = np.array(values)
    if array.dtype.kind not in "if" or array.shape != shape or not np.all((array >= 0) & (array <= 1)):
        raise ValueError("numbers")
    return array.astype(np.float64)


def _label(name: Label, what: str) -> Any:
    """A label as JSON; tuples as a tagged list, so that they come back as tuples."""
    if isinstance(name, np.generic):
        name = name.item()
    if name is None or isinstance(name, str | bool | int | float):
        return name
    if isinstance(name, tuple):
        return {"tuple": [_label(part, what) for part in name]}
    raise InputError(
        f"save: {what} {name!r} is of type {type(name).__name__}; only text, numbers and tuples can be saved."
    )


def _labels_in(names: Any) -> tuple[Label, ...]:
    def one(name: Any) -> Label:
        if isinstance(name, dict):
            return tuple(one(part) for part in _of_type(name["tuple"], list))
        if isinstance(name, list):
            raise TypeError("list")
        return name  # type: ignore[no-any-return]

    labels = tuple(one(name) for name in _of_type(names, list))
    if len(set(labels)) != len(labels) or not labels:
        raise ValueError("duplicate")
    return labels
