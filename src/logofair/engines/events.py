"""What happens in a run: a sentence for screens and plain values for logs.

The server app, and the client app of a SuperNode that its people keep running, are processes that no terminal shows.
So they append events to a file of their folder, one JSON object a line; ``logofair federate server`` prints its own.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

EVENTS = "events.jsonl"


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


def happened(kind: str, **values: Any) -> Event:
    """An event of these values, with its sentence."""
    from logofair.words.events import event_sentence

    return Event(kind, event_sentence(kind, values), values)


def ignore(event: Event) -> None:
    """Take no notice of an event."""


def append_event(folder: Path, event: Event) -> None:
    """Append an event to the file of a folder, which only its owner may read."""
    line = json.dumps({**event.as_dict(), "sentence": " ".join(event.sentence.split())}) + "\n"
    with open(folder / EVENTS, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(line.encode())


def read_events(folder: Path, place: int = 0) -> tuple[list[Event], int]:
    """Return the events in a folder's file from a place on, and the place after them.

    A line that is half-written is left for the next look, one that a full disk has cut short is left out.
    """
    from logofair.records import FAULTS, parsed, read  # with numpy, which pages of help do without

    try:
        with (folder / EVENTS).open("rb") as file:
            file.seek(place)
            complete, end, _ = file.read().rpartition(b"\n")
    except FileNotFoundError:
        return [], place
    events = []
    for line in complete.splitlines():
        try:
            values = parsed(line.decode())
            own = {"time": values.pop("time"), "kind": values.pop("event"), "sentence": values.pop("sentence")}
            events.append(read({**own, "values": values}, Event))
        except FAULTS:
            continue
    return events, place + len(complete + end)
