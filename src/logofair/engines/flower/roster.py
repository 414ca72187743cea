"""Which of Flower's nodes is which site.

A node's name is the one its key was registered under, where the server knows one; a node without such a name
(no authentication, or a simulation) is asked, and its answer is believed. A site that was killed and started
again without a key comes back under a new node id while Flower still counts the old one as online for up to a
minute; two nodes of one name are therefore an error only once both are known to be alive.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flwr.proto.node_pb2 import NodeInfo

from logofair.inputs import InputError

__all__ = ["Seen", "seen", "sites_of"]

_PATIENCE = 2  # Flower: a node is online until two heartbeat intervals after its last sign of life


@dataclass(frozen=True)
class Seen:
    """A node that Flower counts as online.

    ``registered`` is the name its key was registered under, ``started`` when it last connected and ``alive`` its
    last sign of life, both in seconds since 1970 and None where the engine does not say (a simulation).

    Examples
    --------
    >>> Seen(7, registered="north").registered
    'north'
    """

    node_id: int
    registered: str | None = None
    started: float | None = None
    alive: float | None = None


def seen(node: NodeInfo) -> Seen:
    """Return what the server knows of one node.

    Examples
    --------
    >>> seen(NodeInfo(node_id=7, name="north", online_until=160.0, heartbeat_interval=30.0))
    Seen(node_id=7, registered='north', started=None, alive=100.0)
    """
    started = datetime.datetime.fromisoformat(node.last_activated_at).timestamp() if node.last_activated_at else None
    alive = node.online_until - _PATIENCE * node.heartbeat_interval if node.online_until else None
    return Seen(node.node_id, node.name or None, started, alive)


def sites_of(nodes: Iterable[Seen], claims: Mapping[int, str]) -> dict[str, int]:
    """Return the node of every site; a site whose node cannot be told yet is left out.

    Parameters
    ----------
    nodes : iterable of Seen
        The nodes online now.
    claims : mapping
        What nodes without a registered name call themselves, by node id.

    Examples
    --------
    >>> sites_of([Seen(7, registered="north"), Seen(8), Seen(9)], {8: "south"})
    {'north': 7, 'south': 8}
    >>> old, new = Seen(8, started=0.0, alive=40.0), Seen(9, started=50.0, alive=50.0)
    >>> sites_of([old, new], {8: "south", 9: "south"})
    {}
    """
    named: dict[str, list[Seen]] = {}
    for node in nodes:
        name = node.registered or claims.get(node.node_id)
        if name:
            named.setdefault(name, []).append(node)
    for name, candidates in named.items():
        if len(candidates) > 1 and _both_alive(candidates):
            raise InputError(
                f"sites: {len(candidates)} connected nodes are called {name!r}; a name stands for one site: "
                "stop the others or give them names of their own."
            )
    return {name: candidates[0].node_id for name, candidates in sorted(named.items()) if len(candidates) == 1}


def _both_alive(candidates: list[Seen]) -> bool:
    """Return whether some older node gave a sign of life after the newest had started."""
    starts = [node.started for node in candidates]
    if any(start is None for start in starts) or any(node.alive is None for node in candidates):
        return True
    newest = max(start for start in starts if start is not None)
    return any(node.alive > newest for node in candidates if node.alive is not None and node.started != newest)
