"""A training state on disk: one file, replaced whole or not at all, no pickle; and what the run it belongs to was.

The file is numpy's ``.npz``. ``settings`` (plain JSON values) describe the run: method, network, schedule, data.
Going on with other settings would not be the same run, so that is refused with what differs.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.errors import InputError
from logofair.files.documents import label_in, label_out
from logofair.files.writing import FileName, put_whole
from logofair_reproduction.errors import OtherRunError
from logofair_reproduction.training.messages import ClientMeasures
from logofair_reproduction.training.rounds import TrainingState

__all__ = ["load_state", "save_state", "stored_settings"]

_FORMAT, _VERSION = "logofair training state", 1


def save_state(path: FileName, state: TrainingState, settings: Mapping[str, Any]) -> None:
    """Write a state; an existing file is replaced at once or not at all."""
    measured = state.measured
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "settings": settings,
        "round": state.round,
        "measured_at": state.measured_at,
        "clients": [label_out(name, "client") for name in measured.clients],
        "groups": [label_out(name, "group") for name in measured.groups],
    }
    arrays: dict[str, Any] = {
        "parameters": state.parameters,
        **{f"measured {name}": getattr(measured, name) for name in ("rows", "accepted", "loss")},
        **{f"method {name}": array for name, array in state.method_state.items()},
        **{f"client {place}": kept for place, kept in enumerate(state.client_states) if kept is not None},
    }
    # A damaged folder of the file may leave out arrays without a word, so the header names them.
    mark = json.dumps({**header, "arrays": sorted(arrays)}, allow_nan=False).encode()
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(mark, np.uint8), **arrays)
    put_whole(path, buffer.getvalue())


def load_state(path: FileName, settings: Mapping[str, Any]) -> TrainingState:
    """Read a state back, if it is of a run with these settings."""
    arrays, header = _read(path)
    _same_run(path, header["settings"], settings)
    try:
        clients, groups = (tuple(map(label_in, header[name])) for name in ("clients", "groups"))
        counts = {name: arrays[f"measured {name}"] for name in ("rows", "accepted", "loss")}
        if any(array.shape != (len(clients), len(groups), 2) for array in counts.values()):
            raise ValueError
        return TrainingState(
            round=int(header["round"]),
            parameters=arrays["parameters"],
            measured=ClientMeasures(clients, groups, **counts),
            measured_at=int(header["measured_at"]),
            method_state={name.removeprefix("method "): a for name, a in arrays.items() if name.startswith("method ")},
            client_states=tuple(arrays.get(f"client {place}") for place in range(len(clients))),
        )
    except (KeyError, TypeError, ValueError):
        raise _damaged(path) from None


def stored_settings(path: FileName) -> dict[str, Any]:
    """Return the settings of the run that a state is of."""
    settings: dict[str, Any] = _read(path)[1]["settings"]
    return settings


def _read(path: FileName) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """All arrays of a file, and its header."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != _FORMAT or not isinstance(header["settings"], dict):
            raise ValueError
    # RuntimeError: what zipfile says of a member that a wrong bit makes encrypted or packed in another way.
    except (ValueError, KeyError, TypeError, EOFError, AttributeError, RuntimeError, zipfile.BadZipFile):
        raise _damaged(path) from None
    if header.get("version") != _VERSION:
        raise InputError(
            f"{path}: is a training state of version {header.get('version')!r}, and version {_VERSION} is read here; "
            "train afresh or use the version that wrote it."
        )
    if header.get("arrays") != sorted(arrays):
        raise _damaged(path)
    return arrays, header


def _damaged(path: FileName) -> InputError:
    return InputError(f"{path}: is no training state of logofair, or is damaged; remove it and train afresh.")


def _same_run(path: FileName, stored: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise where a state is of another run."""
    wanted = json.loads(json.dumps(settings))
    other = [name for name in sorted({*stored, *wanted}) if stored.get(name) != wanted.get(name)]
    if other:
        raise OtherRunError(path, other[0], stored.get(other[0]), wanted.get(other[0]))
