"""The Transport over a Flower grid: names for nodes, and one message per site out and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from flwr.app import Message

from logofair.engines.conductor import NoReply
from logofair.engines.flower.records import CARRY, WHO, Envelope, OnlineNode, opened, sealed, seen, sites_of

if TYPE_CHECKING:
    from flwr.serverapp import Grid

__all__ = ["FlowerTransport"]

# A site's clock may be off by this much and its reply still count: Flower computes how long a reply lives from
# the site's clock, and refuses signatures that are older than this anyway.
_CLOCK_ALLOWANCE = 300.0

_LOOK = 2.0  # seconds between two looks, during an exchange, for sites that came or came back
_LOST, _AWAY = 3, 5  # Flower's codes for half a reply, and for a node that has left or was silent for a minute

_REASONS = {
    1: "its node could not load the client app; logofair must be installed there",
    2: "its client app failed",
    _LOST: "its reply was lost",
    4: "its reply expired",
    _AWAY: "its node stopped reporting to the server",
    6: "its node refused the message",
    7: "its node does not trust this app",
    8: "its client app crashed",
}

Key = TypeVar("Key")
Place = tuple[int, float | None]  # a node's id, and when it was started


class FlowerTransport:
    """Carries messages over the nodes connected to a Flower server.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The grid of the running server app.
    patience : float
        Seconds to wait for a newly connected node to say its name.
    poll : float
        Seconds between two looks for replies.

    Attributes
    ----------
    nameless : tuple of int
        Ids of the nodes online at the last look that have said no name: they take part in nothing.

    Examples
    --------
    >>> class Empty:
    ...     def get_nodes(self):
    ...         return []
    >>> transport = FlowerTransport(Empty())
    >>> transport.present()
    ()
    >>> transport.exchange({"north": b"ask"}, timeout=1.0)
    {'north': NoReply(reason='it is not connected', late=False)}
    """

    def __init__(
        self,
        grid: Grid,
        *,
        patience: float = 60.0,
        poll: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._grid = grid
        self._patience = patience
        self._poll = poll
        self._clock = clock
        self._sleep = sleep
        self._claims: dict[int, str] = {}
        self._asked: dict[int, str] = {}  # node id -> id of the query for its name that is still out
        self.nameless: tuple[int, ...] = ()

    def present(self) -> tuple[str, ...]:
        """Return the names of the sites connected now; nodes never seen before are asked for theirs.

        Raises
        ------
        InputError
            Where two living nodes share a name.
        """
        return tuple(self._sites(self._clock() + self._patience))

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes | NoReply]:
        """Send every named site its message, and return each reply or why there is none.

        A site that is away gets its message when it is back, and one whose node has been started anew gets it again:
        what the former node has taken is lost with it, and a site gives the same reply to the same question.
        """
        deadline = self._clock() + timeout
        mail = _Mail(messages, timeout)
        while mail.awaited and self._clock() < deadline:
            look = min(deadline, self._clock() + _LOOK)
            due = mail.due(self._sites(look))
            envelopes = {place[0]: Envelope(site, messages[site]) for site, place in due.items()}
            mail.sent(due, self._push(envelopes, CARRY, deadline - self._clock()))
            mail.came(self._collect({identifier: site for site, identifier in mail.out.items()}, look))
            if mail.awaited and self._clock() < look:  # nothing is out: those awaited are away
                self._sleep(look - self._clock())
        return mail.outcome

    def _sites(self, deadline: float) -> dict[str, Place]:
        """Return the node of every site and its start, having asked new nodes for their names until the deadline."""
        nodes = [seen(node) for node in self._grid.get_nodes()]
        self._learn_names(nodes, deadline)
        sites = sites_of(nodes, self._claims)
        self.nameless = tuple(
            node.node_id for node in nodes if node.registered is None and self._claims.get(node.node_id, "") == ""
        )
        started = {node.node_id: node.started for node in nodes}
        return {site: (node, started[node]) for site, node in sites.items()}

    def _learn_names(self, nodes: list[OnlineNode], deadline: float) -> None:
        """Ask nodes without a name who they are; one that stays silent now may still answer later."""
        unknown = {node.node_id for node in nodes if node.registered is None} - self._claims.keys()
        new = unknown - self._asked.keys()
        remaining = max(deadline - self._clock(), 1.0)
        self._asked = {node: self._asked[node] for node in unknown & self._asked.keys()}
        self._asked |= self._push({node: Envelope("") for node in sorted(new)}, WHO, remaining + 3600.0)
        # Only new nodes are worth a wait; those silent since an earlier look get one glance.
        until = deadline if new else self._clock()
        for node, reply in self._collect({query: node for node, query in self._asked.items()}, until).items():
            self._asked.pop(node)
            if not reply.has_error():  # after an error it is asked again at the next look
                envelope = opened(reply.content)
                self._claims[node] = envelope.site if envelope is not None else ""

    def _push(self, envelopes: Mapping[int, Envelope], kind: str, lifetime: float) -> dict[int, str]:
        """Hand one message per node to the server; return the message ids of those it took."""
        ttl = max(lifetime, 1.0) + _CLOCK_ALLOWANCE
        messages = [Message(sealed(envelope), node, kind, ttl=ttl) for node, envelope in envelopes.items()]
        if not messages:
            return {}
        identifiers: Iterable[str | None] = self._grid.push_messages(messages)  # None for one it did not take
        # Too large a payload gives an empty list
        return {node: identifier for node, identifier in zip(envelopes, identifiers, strict=False) if identifier}

    def _collect(self, pending: Mapping[str, Key], deadline: float) -> dict[Key, Message]:
        """Poll for the replies to the messages pending until all are there or the deadline has passed."""
        waiting = dict(pending)
        replies: dict[Key, Message] = {}
        while waiting:
            remaining = deadline - self._clock()  # before the look, which may take long: what is there in time counts
            for reply in self._grid.pull_messages(list(waiting)):
                # An error made by the server has node id 1 as its source: only the message it answers is telling.
                asked = waiting.pop(reply.metadata.reply_to_message_id, None)
                if asked is not None:
                    replies[asked] = reply
            if not waiting or remaining <= 0:
                break
            self._sleep(min(self._poll, remaining))
        return replies


class _Mail:
    """The messages of one exchange: who is awaited, which node has whose message, and what came back."""

    def __init__(self, messages: Mapping[str, bytes], timeout: float) -> None:
        self.timeout = timeout
        self.awaited = set(messages)
        self.outcome: dict[str, bytes | NoReply] = dict.fromkeys(messages, NoReply("it is not connected"))
        self.holders: dict[str, Place] = {}
        self.out: dict[str, str] = {}  # site -> id of its message

    def due(self, sites: Mapping[str, Place]) -> dict[str, Place]:
        """Return the sites to send to: awaited, connected, and their message not with the very node they have now."""
        return {site: at for site, at in sites.items() if site in self.awaited and self.holders.get(site) != at}

    def sent(self, due: Mapping[str, Place], pushed: Mapping[int, str]) -> None:
        """Take down which messages the server took, by node."""
        for site, place in due.items():
            if place[0] in pushed:
                self.out[site], self.holders[site] = pushed[place[0]], place
                self.outcome[site] = NoReply(f"no reply within {self.timeout:g} seconds", late=True)
            else:
                self.outcome[site] = NoReply("the server could not take the message for it")
                self.awaited.discard(site)

    def came(self, replies: Mapping[str, Message]) -> None:
        """Take down replies; who has left, or died while replying, may come back and is asked again."""
        for site, reply in replies.items():
            self.out.pop(site)
            self.outcome[site] = _body(reply, site, self.holders[site][0])
            if reply.has_error() and reply.error.code in (_LOST, _AWAY):
                self.holders.pop(site)
            else:
                self.awaited.discard(site)


def _body(reply: Message, site: str, node: int) -> bytes | NoReply:
    """Return the bytes of a reply, or why it is none; no text from the site gets through."""
    if reply.has_error():
        return NoReply(_REASONS.get(reply.error.code, f"Flower reports error code {reply.error.code}"))
    envelope = opened(reply.content)
    if envelope is None or reply.metadata.src_node_id != node:
        return NoReply("its reply is not one of this protocol")
    if envelope.site != site:
        return NoReply("its node answers for another site; check the name in its settings")
    if envelope.body is None:
        return NoReply("it could not answer; its own log says why")
    return envelope.body
