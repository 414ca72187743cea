"""What happens in a run, in a sentence: who is asked, who answered, and who is awaited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MOST_NAMES = 8  # in a sentence; the values of an event have all


def event_sentence(kind: str, values: Mapping[str, Any]) -> str:
    """Return what an event says to people, of its kind and values.

    Examples
    --------
    >>> event_sentence("request", {"exchange": 1, "purpose": "totals", "sites": ["south", "north"]})
    'exchange 1 (totals): north, south are asked'
    """
    exchange = f"exchange {values.get('exchange')} ({values.get('purpose')})"
    match kind:
        case "request":
            return f"{exchange}: {_names(values['sites'])} are asked"
        case "reply":
            return f"{exchange}: answered in {values['seconds']:.1f} s, {values['bytes_back']} bytes"
        case "exchange":
            without = _names(f"{site} ({reason})" for site, reason in values["excluded"].items())
            return (
                f"{exchange}: {_names(values['answered'])} answered in {values['seconds']:.1f} s, at most "
                f"{values['bytes_out']} bytes out and {values['bytes_back']} back"
                f"{f'; without {without} from now on' if values['excluded'] else ''}"
            )
        case "waiting":
            connected = values["connected"]
            awaited = (
                f"{site} ({'connected' if site in connected else 'not connected'})" for site in values["awaited"]
            )
            since = f"{values['seconds']:.0f} s of {values['timeout']:g}"
            return f"awaiting {_names(awaited)} for {since}; {_names(values['answered'])} answered"
        case "lost":
            return (
                f"{values['site']} is not connected; it has {values['return_within']:.0f} s to come back (start its "
                "command again), then the run goes on without it, or stops where it cannot"
            )
        case "sites":
            present, wanted = values["present"], values["wanted"]
            here = f"{len(present)} of {wanted} sites are here{f': {_names(present)}' if present else ''}"
            if len(present) >= wanted:
                return here
            missing = _names(values["awaited"]) if values["awaited"] else f"{wanted - len(present)} more"
            return f"{here}; awaiting {missing} for {values['seconds']:.0f} s of {values['wait']:g}"
        case "policy":
            return f"The policy of run {values['run']} is written."
    raise ValueError(kind)


def _names(sites: Iterable[str]) -> str:
    """Names in order; of many only the first."""
    names = sorted(sites)
    more = len(names) - _MOST_NAMES
    if more > 1:
        return f"{', '.join(names[:_MOST_NAMES])} and {more} others"
    return ", ".join(names) or "nobody"
