"""The transport over a Flower grid: which node is which site, and one request and reply per site."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from flwr.app import Message

from logofair.engines.conductor import NoReply
from logofair.engines.events import Event, Tell, no_one, spoken_names
from logofair.engines.flower.records import (
    MESSAGE_QUERY,
    NAME_QUERY,
    Envelope,
    OnlineNode,
    nodes_by_site,
    online_node,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from flwr.serverapp import Grid

# Seconds a site's clock may be off: Flower computes when a reply expires from the site's clock, and refuses signatures
# older than this anyway.
_CLOCK_ALLOWANCE = 300.0

_RECONNECT_POLL = 2.0  # seconds between two looks, during an exchange, for sites that have connected
_RETURN = 30.0  # seconds a site that is lost is given to come back; its node was missed for up to 60 before
_REMIND = 30.0  # seconds after which it is said again who is awaited
_LOST, _UNAVAILABLE = 3, 5  # Flower's codes for an incomplete reply, and for a node without heartbeats for a minute

_REASONS = {
    1: "its node could not load the client app; logofair must be installed there",
    2: "its client app failed",
    _LOST: "its reply was lost",
    4: "its reply expired",
    _UNAVAILABLE: "its node stopped reporting to the server",
    6: "its node refused the message",
    7: "its node does not trust this app",
    8: "its client app crashed",
}

Key = TypeVar("Key")
NodeStart = tuple[int, float | None]  # a node's id, and when it was started


class FlowerTransport:
    """Carries messages over the nodes connected to a Flower server."""

    def __init__(
        self,
        grid: Grid,
        *,
        tell: Tell = no_one,
        name_timeout: float = 60.0,
        poll: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._grid = grid
        self._tell = tell
        self._name_timeout = name_timeout
        self._poll = poll
        self._clock = clock
        self._sleep = sleep
        self._claims: dict[int, str] = {}
        self._name_queries: dict[int, str] = {}  # node id -> id of the open query for its name
        self._missing: dict[str, float] = {}  # sites that are lost, and when that was seen

    def present(self) -> tuple[str, ...]:
        """Return the names of the sites connected now; new nodes are queried for theirs."""
        return tuple(self._sites(self._clock() + self._name_timeout))

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes | NoReply]:
        """Send every named site its message, and return each reply or why there is none.

        A site that is not connected gets its message when it is, and one whose node was restarted gets it again: the
        former node has lost what it had, and a site gives the same reply to the same request. One whose node does not
        report to the server, or no longer, is given up half a minute after that was seen, however long the timeout.
        """
        start = said = self._clock()
        deadline, exchange = start + timeout, _Exchange(messages, timeout)
        while exchange.awaited and self._clock() < deadline:
            look = min(deadline, self._clock() + _RECONNECT_POLL)
            sites = self._sites(look)
            self._give_up_lost(exchange, sites)
            due = exchange.due(sites)
            envelopes = {node[0]: Envelope(site, messages[site]) for site, node in due.items()}
            exchange.sent(due, self._push(envelopes, MESSAGE_QUERY, deadline - self._clock()))
            exchange.received(self._collect({identifier: site for site, identifier in exchange.out.items()}, look))
            if exchange.awaited and self._clock() < look:  # no message is out: those awaited are not connected
                self._sleep(look - self._clock())
            if exchange.awaited and self._clock() >= said + _REMIND:
                said = self._clock()
                self._tell(exchange.waiting(said - start, sites))
        return exchange.outcome

    def _give_up_lost(self, exchange: _Exchange, sites: Mapping[str, NodeStart]) -> None:
        """Say who is lost, and wait no longer for those that were for too long."""
        now = self._clock()
        for site in sites.keys() & self._missing.keys():
            del self._missing[site]
        for site in sorted(exchange.awaited - sites.keys()):
            if site not in self._missing:
                self._missing[site] = now
                self._tell(_lost(site))
            if now - self._missing[site] >= _RETURN:
                exchange.give_up(site, "it is not connected")

    def _sites(self, deadline: float) -> dict[str, NodeStart]:
        """Return the node of every site and its start, having queried new nodes for their names until the deadline."""
        nodes = [online_node(node) for node in self._grid.get_nodes()]
        self._learn_names(nodes, deadline)
        started = {node.node_id: node.started for node in nodes}
        return {site: (node, started[node]) for site, node in nodes_by_site(nodes, self._claims).items()}

    def _learn_names(self, nodes: list[OnlineNode], deadline: float) -> None:
        """Query nodes for their names; one that does not answer now may still answer later."""
        unknown = {node.node_id for node in nodes if node.registered is None} - self._claims.keys()
        new = unknown - self._name_queries.keys()
        remaining = max(deadline - self._clock(), 1.0)
        self._name_queries = {node: self._name_queries[node] for node in unknown & self._name_queries.keys()}
        self._name_queries |= self._push({node: Envelope("") for node in sorted(new)}, NAME_QUERY, remaining + 3600.0)
        # Wait for new nodes only; those that did not answer at an earlier look are polled once.
        until = deadline if new else self._clock()
        for node, reply in self._collect({query: node for node, query in self._name_queries.items()}, until).items():
            self._name_queries.pop(node)
            if not reply.has_error():  # after an error it is queried again at the next look
                envelope = unpack(reply.content)
                self._claims[node] = envelope.site if envelope is not None else ""

    def _push(self, envelopes: Mapping[int, Envelope], kind: str, lifetime: float) -> dict[int, str]:
        """Hand one message per node to the server; return the message ids of those it accepted."""
        ttl = max(lifetime, 1.0) + _CLOCK_ALLOWANCE
        messages = [Message(pack(envelope), node, kind, ttl=ttl) for node, envelope in envelopes.items()]
        if not messages:
            return {}
        identifiers: Iterable[str | None] = self._grid.push_messages(messages)  # None for one it did not accept
        # Too large a payload gives an empty list
        return {node: identifier for node, identifier in zip(envelopes, identifiers, strict=False) if identifier}

    def _collect(self, pending: Mapping[str, Key], deadline: float) -> dict[Key, Message]:
        """Poll for the replies to the messages pending until all are there or the deadline has passed."""
        waiting = dict(pending)
        replies: dict[Key, Message] = {}
        while waiting:
            remaining = deadline - self._clock()  # before the pull, which may take long: what is there in time counts
            for reply in self._grid.pull_messages(list(waiting)):
                # An error made by the server has node id 1 as its source: only the message it replies to identifies it.
                key = waiting.pop(reply.metadata.reply_to_message_id, None)
                if key is not None:
                    replies[key] = reply
            if not waiting or remaining <= 0:
                break
            self._sleep(min(self._poll, remaining))
        return replies


class _Exchange:
    """The messages of one exchange: who is awaited, which node has whose message, and the replies."""

    def __init__(self, messages: Mapping[str, bytes], timeout: float) -> None:
        self.timeout = timeout
        self.awaited = set(messages)
        self.outcome: dict[str, bytes | NoReply] = dict.fromkeys(messages, NoReply("it is not connected"))
        self.receivers: dict[str, NodeStart] = {}
        self.out: dict[str, str] = {}  # site -> id of its message

    def waiting(self, seconds: float, sites: Mapping[str, NodeStart]) -> Event:
        """Who is awaited after so many seconds, and who has answered."""
        answered = [site for site, reply in self.outcome.items() if not isinstance(reply, NoReply)]
        awaited = [f"{site} ({'connected' if site in sites else 'not connected'})" for site in sorted(self.awaited)]
        sentence = f"awaiting {spoken_names(awaited)} for {seconds:.0f} s of {self.timeout:g}"
        values = {"awaited": sorted(self.awaited), "answered": sorted(answered), "seconds": round(seconds)}
        return Event("waiting", f"{sentence}; {spoken_names(answered) or 'nobody'} answered", values)

    def give_up(self, site: str, reason: str) -> None:
        """Wait no longer for a site."""
        self.outcome[site] = NoReply(reason)
        self.awaited.discard(site)
        self.out.pop(site, None)

    def due(self, sites: Mapping[str, NodeStart]) -> dict[str, NodeStart]:
        """Return the sites to send to: awaited, connected, and their message not sent to the node they have now."""
        return {site: at for site, at in sites.items() if site in self.awaited and self.receivers.get(site) != at}

    def sent(self, due: Mapping[str, NodeStart], pushed: Mapping[int, str]) -> None:
        """Note which messages the server accepted, by node."""
        for site, node in due.items():
            if node[0] in pushed:
                self.out[site], self.receivers[site] = pushed[node[0]], node
                self.outcome[site] = NoReply(f"no reply within {self.timeout:g} seconds", late=True)
            else:
                self.outcome[site] = NoReply("the server did not accept the message for it")
                self.awaited.discard(site)

    def received(self, replies: Mapping[str, Message]) -> None:
        """Note replies; a site whose node has left, or died while replying, is asked again when it is back."""
        for site, reply in replies.items():
            del self.out[site]
            self.outcome[site] = _body(reply, site, self.receivers[site][0])
            if reply.has_error() and reply.error.code in (_LOST, _UNAVAILABLE):
                self.receivers.pop(site)
            else:
                self.awaited.discard(site)


def _lost(site: str) -> Event:
    """A site that is awaited has no node, or none any more."""
    then = "then the run goes on without it, or stops where it cannot"
    sentence = f"{site} is not connected; it has {_RETURN:.0f} s to come back (start its command again), {then}"
    return Event("lost", sentence, {"site": site, "return_within": _RETURN})


def _body(reply: Message, site: str, node: int) -> bytes | NoReply:
    """Return the bytes of a reply, or why it is none; no text from the site gets through."""
    if reply.has_error():
        return NoReply(_REASONS.get(reply.error.code, f"Flower reports error code {reply.error.code}"))
    envelope = unpack(reply.content)
    if envelope is None or reply.metadata.src_node_id != node:
        return NoReply("its reply is not one of this protocol")
    if envelope.site != site:
        return NoReply("its node answers for another site; check the name in its settings")
    if envelope.body is None:
        return NoReply("it could not answer; its own log says why")
    return envelope.body
