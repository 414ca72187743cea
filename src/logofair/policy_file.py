"""Policies on disk: versioned JSON with a checksum, no pickle.

The file is one object: ``format``, ``version``, ``policy`` (everything needed to decide) and ``checksum``, the SHA-256
of the policy's canonical JSON. Reading checks each of them, then the shape and range of every table, so that a file
cut short, edited by hand or written by a newer version says so instead of deciding wrongly.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.calibration import Calibrator
from logofair.inputs import InputError, Label
from logofair.mixtures import Mixtures

if TYPE_CHECKING:
    from logofair.policy import Policy

FORMAT = "logofair policy"
VERSION = 1


def write_policy(policy: Policy, path: Path) -> None:
    """Write to a temporary neighbour, then rename: the file is whole or not there."""
    body = {
        "groups": [_label(name, "group") for name in policy.groups],
        "clients": [_label(name, "client") for name in policy.clients],
        "has_clients": policy.has_clients,
        "key": policy.key,
        "mixtures": _mixtures_out(policy.mixtures),
        "pooled": None if policy.pooled is None else _mixtures_out(policy.pooled),
        "calibrator": policy.calibrator.as_json(),
        "about": dict(policy.about),
    }
    document = {"format": FORMAT, "version": VERSION, "checksum": _checksum(body), "policy": body}
    text = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose a folder that exists.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def read_policy(path: Path) -> Policy:
    """Read and check a policy file."""
    from logofair.policy import Policy

    document = _document(path)
    body = document["policy"]

    def read() -> Policy:
        groups, clients = _labels_in(body["groups"]), _labels_in(body["clients"])
        cells = len(groups) * len(clients)
        calibrator = Calibrator.from_json(body["calibrator"])
        if (calibrator.n_groups, calibrator.n_clients) != (len(groups), len(clients)):
            raise InputError(f"{path}: its calibrator is for other groups or clients; the file is damaged.")
        pooled = body["pooled"]
        return Policy(
            groups=groups,
            clients=clients,
            mixtures=_mixtures_in(body["mixtures"], cells),
            calibrator=calibrator,
            pooled=None if pooled is None else _mixtures_in(pooled, len(groups)),
            key=int(body["key"]),
            has_clients=bool(body["has_clients"]),
            about=dict(body["about"]),
        )

    policy: Policy = _or_damaged(read, path)
    return policy


def _document(path: Path) -> dict[str, Any]:
    """The file's outer object, with format, version and checksum checked."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: not a policy file, or cut short: it is no valid JSON; save the policy again."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path}: not a policy file: it lacks the format mark {FORMAT!r}.")
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{path}: written by a newer version (file {version}, known {VERSION}); upgrade logofair.")
    if version != VERSION or not isinstance(document.get("policy"), dict):
        raise InputError(f"{path}: its version mark {version!r} or its contents are damaged; save the policy again.")
    if document.get("checksum") != _or_damaged(lambda: _checksum(document["policy"]), path):
        raise InputError(f"{path}: its contents do not match its checksum; it was damaged or edited: save it again.")
    return document


def _or_damaged(read: Callable[[], Any], path: Path) -> Any:
    try:
        return read()
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise InputError(f"{path}: parts of the policy are missing or malformed; save the policy again.") from None


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
    weight, threshold = np.array(data["weight"], dtype=np.float64), np.array(data["threshold"], dtype=np.float64)
    above = np.array(data["above"])
    single = np.array([np.inf if t is None else t for t in data["single"]], dtype=np.float64)
    shapes = {weight.shape, threshold.shape, above.shape}
    if shapes != {(cells, 3)} or single.shape != (cells,) or above.dtype != bool:
        raise ValueError("shape")
    if not (np.isfinite(weight).all() and np.isfinite(threshold).all()) or np.isnan(single).any():
        raise ValueError("not finite")
    if weight.min(initial=0.0) < 0 or weight.sum(axis=1).max(initial=0.0) > 1 + 1e-9:
        raise ValueError("weights")
    return Mixtures(weight, threshold, above, single)


def _label(name: Label, what: str) -> Any:
    """A label as JSON; tuples as a tagged list, so that they come back as tuples."""
    if name is None or isinstance(name, str | bool | int | float):
        return name
    if isinstance(name, tuple):
        return {"tuple": [_label(part, what) for part in name]}
    raise InputError(
        f"save: {what} {name!r} is of type {type(name).__name__}; only text, numbers and tuples can be saved."
    )


def _labels_in(names: list[Any]) -> tuple[Label, ...]:
    def one(name: Any) -> Label:
        if isinstance(name, dict):
            return tuple(one(part) for part in name["tuple"])
        if isinstance(name, list):
            raise ValueError("list")
        return name  # type: ignore[no-any-return]

    labels = tuple(one(name) for name in names)
    if len(set(labels)) != len(labels) or not labels:
        raise ValueError("duplicate")
    return labels
