"""What a server lets a site's people know besides its requests: who is awaited, or that the run goes on without them.

A notice is no part of the protocol: it asks nothing, is answered with nothing and changes nothing but what the site's
screen says. Its words are the site's own; only names and a number of seconds travel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from logofair.engines.events import Event, spoken_names

__all__ = ["LeftOut", "Waiting", "notice_bytes", "read_notice"]

_MOST_BYTES, _MOST_LENGTH = 1 << 20, 64


@dataclass(frozen=True)
class Waiting:
    """The server awaits other sites, for so many seconds now."""

    awaited: tuple[str, ...]
    seconds: float

    def event(self) -> Event:
        """What the site's screen says."""
        sentence = f"the server awaits {spoken_names(self.awaited)} for {self.seconds:.0f} s; this site need do nothing"
        return Event("waiting", sentence, {"awaited": list(self.awaited), "seconds": round(self.seconds)})


@dataclass(frozen=True)
class LeftOut:
    """The site is not in the roster, or no longer."""

    def event(self) -> Event:
        """What the site's screen says."""
        return Event(
            "left out",
            "The run went on without this site: it was not there when it began, or was away for too long. Ask the "
            "server's people for result.json when the run has ended, and make this site's policy with logofair "
            "federate join.",
        )


def notice_bytes(notice: Waiting | LeftOut) -> bytes:
    """A notice as it travels."""
    body = {"awaited": notice.awaited, "seconds": notice.seconds} if isinstance(notice, Waiting) else {}
    return json.dumps(body).encode()


def read_notice(data: bytes) -> Waiting | LeftOut | None:
    """Read a notice; None where it is none.

    Examples
    --------
    >>> read_notice(notice_bytes(Waiting(("south",), 30.0)))
    Waiting(awaited=('south',), seconds=30.0)
    >>> read_notice(notice_bytes(LeftOut())), read_notice(b"rubbish")
    (LeftOut(), None)
    """
    try:
        body = json.loads(data) if len(data) <= _MOST_BYTES else None
    except ValueError:
        return None
    if body == {}:
        return LeftOut()
    if not isinstance(body, dict) or set(body) != {"awaited", "seconds"}:
        return None
    awaited, seconds = body["awaited"], body["seconds"]
    names = isinstance(awaited, list) and all(isinstance(name, str) and len(name) <= _MOST_LENGTH for name in awaited)
    if not names or type(seconds) not in (int, float) or not 0.0 <= seconds < 1e9:
        return None
    return Waiting(tuple(awaited), float(seconds))
