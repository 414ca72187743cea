"""Results as JSON lines: appended as they come, and read again to go on and to be summarised."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

from logofair.errors import InputError
from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.experiment import METHODS, Case, Split, experiment_names

FILE = "results.jsonl"
PACKED = f"{FILE}.gz"  # results that are kept beside the code; what a run adds to them is written to FILE
_IDENTITY = (
    *(field.name for field in fields(Split)),
    *(field.name for field in fields(Case) if field.name != "split"),
    "plan",
)


def identity(values: dict[str, Any]) -> str:
    """What tells a record from every other: all that its case depends on."""
    return json.dumps([values.get(name) for name in _IDENTITY])


def append(folder: Path, record: dict[str, Any]) -> None:
    """Add one record to the results of a folder; what is left of a line that was cut off gives way to it."""
    path, line = folder / FILE, json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
    with path.open("ab+") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        if file.read(1) not in (b"", b"\n"):
            file.truncate(path.read_bytes().rfind(b"\n") + 1)
        file.write(line.encode())


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All records of a folder, packed ones too, none twice; a last line that was cut off is left out."""
    found: dict[str, dict[str, Any]] = {}
    experiments = experiment_names()
    for path in (folder / PACKED, folder / FILE):
        if not path.is_file():
            continue
        try:
            text = gzip.decompress(path.read_bytes()) if path.name == PACKED else path.read_bytes()
        except (OSError, EOFError, zlib.error):
            raise InputError(f"{path}: is damaged; fetch it again or take another folder.") from None
        for number, line in enumerate(text.split(b"\n")[:-1], 1):  # what follows the last end of a line was cut off
            try:
                record = json.loads(line)
                known = record["experiment"] in experiments and record["method"] in METHODS
                known = known and record["data"] in CATALOGUE
            except (ValueError, KeyError, TypeError):  # no JSON, no text, or something else altogether
                known = False
            if not known:
                raise InputError(
                    f"{path}: line {number} is no record of this version's experiments; delete it or take another "
                    "folder."
                )
            found[identity(record)] = record
    return list(found.values())
