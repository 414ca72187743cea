"""The seam between the federation and what carries its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Absent", "Transport"]


@dataclass(frozen=True)
class Absent:
    """No reply came from a site, and why, in words for the server's report.

    The reason is made by the engine from what it saw itself; it never repeats text that came from a site.

    Examples
    --------
    >>> Absent("no reply within 60 seconds").reason
    'no reply within 60 seconds'
    """

    reason: str
    late: bool = False  # whether the site had its time and did not answer, so that asking again would double it


class Transport(Protocol):
    """What the conductor needs of an engine: who is there, and one message per site out and back.

    Examples
    --------
    >>> class Echo:
    ...     def present(self):
    ...         return ("north", "south")
    ...
    ...     def exchange(self, messages, timeout):
    ...         return {site: body if site in self.present() else Absent("unknown") for site, body in messages.items()}
    >>> transport: Transport = Echo()
    >>> transport.exchange({"north": b"ask", "west": b"ask"}, timeout=1.0)
    {'north': b'ask', 'west': Absent(reason='unknown', late=False)}
    """

    def present(self) -> tuple[str, ...]:
        """Return the names of the sites that can be reached now, in ascending order."""

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | Absent]:
        """Send every named site its message, and return what each replied.

        Parameters
        ----------
        messages : mapping
            One message per site, by the site's name.
        timeout : float
            Seconds after which a site that has not replied counts as absent.

        Returns
        -------
        mapping
            For every site asked, its reply or why there is none; late replies never show up in a later exchange.
        """
