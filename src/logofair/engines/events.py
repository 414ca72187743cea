"""What happens in a run: a sentence for screens and plain values for logs.

The server app, and the client app of a SuperNode that its people keep running, are processes that no terminal shows.
So they append events to a file of their folder, one JSON object a line; ``logofair federate server`` prints its own.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

EVENTS = "events.jsonl"
_MOST_NAMES = 8  # in a sentence; the values have all
_OWN = ("time", "event", "sentence")


@dataclass(frozen=True)
class Event:
    """One thing that happened: its ``kind`` in a word, a sentence for people, and values for machines.

    Examples
    --------
    >>> Event("lost", "south is lost.", {"site": "south"}, time="2026-01-01T10:00:00+00:00").as_dict()["site"]
    'south'
    """

    kind: str
    sentence: str
    values: Mapping[str, Any] = field(default_factory=dict)
    time: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"time": self.time, "event": self.kind, "sentence": self.sentence, **self.values}


Tell: TypeAlias = Callable[[Event], None]


def no_one(event: Event) -> None:
    """Tell nobody."""


def append_event(folder: Path, event: Event) -> None:
    """Append an event to the file of a folder, which only its owner may read."""
    line = json.dumps({**event.as_dict(), "sentence": " ".join(event.sentence.split())}) + "\n"
    with open(folder / EVENTS, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(line.encode())


class EventReader:
    """Reads the events that are appended to a folder's file, each once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / EVENTS
        self.place = 0

    def new(self) -> list[Event]:
        """Return the events since the last look; a line half-written is left for the next."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.place)
                complete, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self.place += len(complete + end)
        return [event for line in complete.splitlines() if (event := _read(line)) is not None]


def _read(line: bytes) -> Event | None:
    """The event of a line; none where a full disk has cut it short."""
    from logofair.records import FAULTS, parsed, read  # with numpy, which pages of help do without

    try:
        found = parsed(line.decode())
        values = {name: value for name, value in found.items() if name not in _OWN}
        own = {"kind": found["event"], "sentence": found["sentence"], "time": found["time"]}
        return read({**own, "values": values}, Event)
    except FAULTS:
        return None


def spoken_names(sites: Sequence[str]) -> str:
    """Names in a sentence, in order; of many only the first.

    Examples
    --------
    >>> spoken_names(["south", "north"]), spoken_names([str(site) for site in range(10, 40)])
    ('north, south', '10, 11, 12, 13, 14, 15, 16, 17 and 22 others')
    """
    names = sorted(sites)
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_MOST_NAMES])} and {more} others"
