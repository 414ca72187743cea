"""What happens in a run, in a sentence: who is asked, who answered, and who is awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_MOST_NAMES = 8  # in a sentence; the values of an event have all


def event_sentence(kind: str, values: Mapping[str, Any]) -> str:
    """Return what an event says to people, of its kind and values.

    Examples
    --------
    >>> event_sentence("request", {"exchange": 1, "purpose": "totals", "sites": ["south", "north"]})
    'exchange 1 (totals): north, south are asked'
    """
    return _SENTENCES[kind](values)


def _request(values: Mapping[str, Any]) -> str:
    return f"{_exchange(values)}: {_names(values['sites'])} are asked"


def _reply(values: Mapping[str, Any]) -> str:
    return f"{_exchange(values)}: answered in {values['seconds']:.1f} s, {values['bytes_back']} bytes"


def _answered(values: Mapping[str, Any]) -> str:
    without = _names([f"{site} ({reason})" for site, reason in values["excluded"].items()])
    return (
        f"{_exchange(values)}: {_names(values['answered'])} answered in {values['seconds']:.1f} s, at most "
        f"{values['bytes_out']} bytes out and {values['bytes_back']} back"
        f"{f'; without {without} from now on' if values['excluded'] else ''}"
    )


def _waiting(values: Mapping[str, Any]) -> str:
    connected = values["connected"]
    awaited = [f"{site} ({'connected' if site in connected else 'not connected'})" for site in values["awaited"]]
    since = f"{values['seconds']:.0f} s of {values['timeout']:g}"
    return f"awaiting {_names(awaited)} for {since}; {_names(values['answered'])} answered"


def _lost(values: Mapping[str, Any]) -> str:
    return (
        f"{values['site']} is not connected; it has {values['return_within']:.0f} s to come back (start its command "
        "again), then the run goes on without it, or stops where it cannot"
    )


def _sites(values: Mapping[str, Any]) -> str:
    present, awaited, wanted = values["present"], values["awaited"], values["wanted"]
    here = f": {_names(present)}" if present else ""
    missing = _names(awaited) if awaited else f"{wanted - len(present)} more"
    waiting = f"; awaiting {missing} for {values['seconds']:.0f} s of {values['wait']:g}"
    return f"{len(present)} of {wanted} sites are here{here}{'' if len(present) >= wanted else waiting}"


def _policy(values: Mapping[str, Any]) -> str:
    return f"The policy of run {values['run']} is written."


_SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "exchange": _answered,
    "lost": _lost,
    "policy": _policy,
    "reply": _reply,
    "request": _request,
    "sites": _sites,
    "waiting": _waiting,
}


def _exchange(values: Mapping[str, Any]) -> str:
    return f"exchange {values['exchange']} ({values['purpose']})"


def _names(sites: Sequence[str]) -> str:
    """Names in order; of many only the first."""
    names = sorted(sites)
    more = len(names) - _MOST_NAMES
    if more > 1:
        return f"{', '.join(names[:_MOST_NAMES])} and {more} others"
    return ", ".join(names) or "nobody"
