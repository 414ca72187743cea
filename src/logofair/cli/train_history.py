"""The history of a training run: a JSON line for every round whose model was measured, written as it happens."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.auditing.result import value_of
from logofair.cli.audit_figures import plain
from logofair.documents import put_whole
from logofair.inputs import InputError
from logofair.notions import Notion

if TYPE_CHECKING:
    from logofair.training import State

__all__ = ["History", "line_of"]


def line_of(state: State, notion: Notion) -> dict[str, Any]:
    """One round as plain values: how the model does on the rows trained on, overall and at every client.

    Examples
    --------
    >>> from logofair.notions import DEMOGRAPHIC_PARITY
    >>> from logofair.training import FairFed, build_network, make_rows, train
    >>> rows = make_rows([[0.0], [1.0]] * 2, [0, 1, 0, 1], groups=["a", "b", "b", "a"], clients=[0, 0, 1, 1])
    >>> *_, last = train(FairFed(), build_network("logistic", (1,)), rows, rounds=2)
    >>> line = line_of(last, DEMOGRAPHIC_PARITY)
    >>> line["round"], line["clients"][1]["client"], line["memory"]["weights"]
    (2, 1, [0.5, 0.5])
    """
    measured = state.measured
    local, shared = measured.gaps(notion)
    own = (measured.client_accuracy, measured.client_loss, measured.client_gaps(notion))
    figures = zip(measured.clients, *own, strict=True)
    return {
        "round": state.round,
        "loss": _number(measured.mean_loss),
        "accuracy": _number(measured.accuracy),
        "local_gap": _number(local),
        "global_gap": _number(shared),
        "clients": [
            {"client": plain(client), "accuracy": _number(accuracy), "loss": _number(loss), "gap": _number(gap)}
            for client, accuracy, loss, gap in figures
        ],
        "memory": {name: _listed(values) for name, values in state.memory.items()},
    }


def _number(value: float) -> float | None:
    return value_of(value) if np.isfinite(value) else None


def _listed(values: Any) -> Any:
    """An array as nested lists, None where a number is not finite."""
    return [_listed(part) for part in values] if np.ndim(values) else _number(float(values))


class History:
    """A file of lines, one per measured round; of a run that goes on, those of later rounds are dropped first.

    A run that fails before its first line leaves no file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "history.jsonl")
    ...     _ = path.write_text(chr(10).join(['{"round": 1}', '{"round": 2}', '{"rou']))
    ...     with History(path, after=1):
    ...         pass
    ...     path.read_text().splitlines()
    ['{"round": 1}']
    """

    def __init__(self, path: Path, after: int = 0) -> None:
        self.path = path
        put_whole(path, "".join(f"{line}\n" for line in _kept(path, after)).encode())
        self.file: FileIO | None = None

    def __enter__(self) -> History:
        self.file = self.path.open("ab", buffering=0)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.file is None:
            return
        empty = not self.file.seek(0, os.SEEK_END)
        self.file.close()
        if empty and kind is not None:
            self.path.unlink(missing_ok=True)

    def add(self, line: dict[str, Any]) -> None:
        """Write a line, at once and whole, or raise."""
        assert self.file is not None
        whole, rest = self.file.seek(0, os.SEEK_END), (json.dumps(line, allow_nan=False) + "\n").encode()
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            self.file.truncate(whole)
            reason = error.strerror or str(error)
            raise InputError(
                f"{self.path}: cannot be written ({reason}); make room or choose another folder."
            ) from None


def _kept(path: Path, after: int) -> list[str]:
    """The lines of the rounds done; the last may be cut short."""
    if not after or not path.exists():
        return []
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            number = json.loads(line)["round"]
        except (ValueError, LookupError, TypeError):
            break
        if not isinstance(number, int) or number > after:
            break
        kept.append(line)
    if not kept and path.stat().st_size:
        raise InputError(f"{path}: is no history of this run; choose another name for --history.")
    return kept
