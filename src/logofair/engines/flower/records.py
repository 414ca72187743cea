"""Our bytes inside Flower's records, and out again.

One record named ``logofair`` travels in each message. The site's name goes along in both directions, so
that a message that reaches the wrong site, or a reply that comes from it, is never taken for another's.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from logofair.errors import InputError

MESSAGE_QUERY = "query.message"
NAME_QUERY = "query.name"
_RECORD = "logofair"


@dataclass(frozen=True)
class Envelope:
    """What one Flower message holds for us.

    ``site`` is the site that a request is for, or that a reply is from; ``body`` is the message of the federation, or
    None in the query for a name and in a refusal, where a site says no more than that it could not answer.
    """

    site: str
    body: bytes | None = None


def pack(envelope: Envelope) -> RecordDict:
    """Return the envelope as the content of a Flower message."""
    body = {} if envelope.body is None else {"body": envelope.body}
    return RecordDict({_RECORD: ConfigRecord({"site": envelope.site, **body})})


def unpack(content: RecordDict) -> Envelope | None:
    """Return the envelope inside a message's content, or None where there is no sound one."""
    record = content.config_records.get(_RECORD)
    if record is None:
        return None
    site, body = record.get("site"), record.get("body")
    if not isinstance(site, str) or not isinstance(body, bytes | None):
        return None
    return Envelope(site, body)


_HEARTBEATS = 2  # Flower: a node is online until two heartbeat intervals after its last sign of life


@dataclass(frozen=True)
class OnlineNode:
    """A node that Flower counts as online.

    ``registered`` is the name its key was registered under, ``started`` when it last connected and ``alive`` its
    last sign of life, both in seconds since 1970 and None where the engine does not say (a simulation).
    """

    node_id: int
    registered: str | None = None
    started: float | None = None
    alive: float | None = None


def online_node(node: NodeInfo) -> OnlineNode:
    """Return what the server knows about one node."""
    started = datetime.datetime.fromisoformat(node.last_activated_at).timestamp() if node.last_activated_at else None
    alive = node.online_until - _HEARTBEATS * node.heartbeat_interval if node.online_until else None
    return OnlineNode(node.node_id, node.name or None, started, alive)


def nodes_by_site(nodes: Iterable[OnlineNode], claims: Mapping[int, str]) -> dict[str, int]:
    """Return the node of every site; a site is left out while it is unclear which of two nodes is its own."""
    named: dict[str, list[OnlineNode]] = {}
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


def _both_alive(candidates: list[OnlineNode]) -> bool:
    """Return whether some older node gave a sign of life after the newest had started."""
    starts = [node.started for node in candidates]
    if any(start is None for start in starts) or any(node.alive is None for node in candidates):
        return True
    newest = max(start for start in starts if start is not None)
    return any(node.alive > newest for node in candidates if node.alive is not None and node.started != newest)
