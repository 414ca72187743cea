"""Results as JSON lines: appended as they come, read again to go on, summarised over the seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from logofair.errors import InputError
from logofair.experiments.experiment import Case, Split

__all__ = ["FILE", "append", "identity", "read_records"]

FILE = "results.jsonl"
_IDENTITY = (
    *(field.name for field in fields(Split)),
    *(field.name for field in fields(Case) if field.name != "split"),
    "plan",
)


def identity(values: dict[str, Any]) -> str:
    """What tells a record from every other: all that its case depends on."""
    return json.dumps([values.get(name) for name in _IDENTITY])


def append(folder: Path, record: dict[str, Any]) -> None:
    """Add one record to the results of a folder."""
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All records of a folder, none twice; a last line that was cut off is left out."""
    path = folder / FILE
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").splitlines(keepends=True)
    found: dict[str, dict[str, Any]] = {}
    for record in _read(lines, path):
        found[identity(record)] = record
    return list(found.values())


def _read(lines: Iterable[str], path: Path) -> Iterator[dict[str, Any]]:
    numbered = list(enumerate(lines, 1))
    for number, line in numbered:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            if number == len(numbered) and not line.endswith("\n"):
                return  # the run was stopped while it wrote
            raise InputError(f"{path}: line {number} is no JSON; delete the line or take another folder.") from None
        if not isinstance(record, dict) or not isinstance(record.get("figures"), dict):
            raise InputError(f"{path}: line {number} is no record of an experiment; take another folder.")
        yield record
