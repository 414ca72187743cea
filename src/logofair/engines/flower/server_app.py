"""The server app: carries messages over Flower's grid, one per site, while the conductor runs the plan from disk."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from flwr.app import Context, Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid, ServerApp

from logofair.engines.conductor import NoReply
from logofair.engines.events import Event, Tell, append_event, happened, ignore
from logofair.engines.flower.client_app import MESSAGE_QUERY, NAME_QUERY, Envelope, pack, unpack
from logofair.errors import InputError, LogofairError

# Seconds a site's clock may be off: Flower computes when a reply expires from the site's clock, and refuses signatures
# older than this anyway.
_CLOCK_ALLOWANCE = 300.0

_RECONNECT_POLL = 2.0  # seconds between two looks, during an exchange, for sites that have connected
_RETURN = 30.0  # seconds a site that is lost is given to come back; its node was missed for up to 60 before
_REMIND = 30.0  # seconds after which it is said again who is awaited
_HEARTBEATS = 2  # Flower: a node is online until two heartbeat intervals after its last sign of life
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

_Key = TypeVar("_Key")


class _FlowerTransport:
    """Carries messages over the nodes connected to a Flower server."""

    def __init__(
        self,
        grid: Grid,
        *,
        tell: Tell = ignore,
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
        deadline, awaited = start + timeout, set(messages)
        outcome: dict[str, bytes | NoReply] = dict.fromkeys(messages, NoReply("it is not connected"))
        receivers: dict[str, tuple[int, str]] = {}  # the node that has a site's message, and when it was started
        out: dict[str, str] = {}  # site -> id of its message
        while awaited and self._clock() < deadline:
            look = min(deadline, self._clock() + _RECONNECT_POLL)
            sites = {site: (node.node_id, node.last_activated_at) for site, node in self._sites(look).items()}
            for site in self._lost_for_good(awaited, sites.keys()):
                outcome[site] = NoReply("it is not connected")
                awaited.discard(site)
                out.pop(site, None)
            due = {site: at for site, at in sites.items() if site in awaited and receivers.get(site) != at}
            envelopes = {at[0]: Envelope(site, messages[site]) for site, at in due.items()}
            pushed = self._push(envelopes, MESSAGE_QUERY, deadline - self._clock())
            for site, at in due.items():
                if at[0] in pushed:
                    out[site], receivers[site] = pushed[at[0]], at
                    outcome[site] = NoReply(f"no reply within {timeout:g} seconds", late=True)
                else:
                    outcome[site] = NoReply("the server did not accept the message for it")
                    awaited.discard(site)
            replies = self._collect({identifier: site for site, identifier in out.items()}, look)
            for site, reply in replies.items():
                del out[site]
                outcome[site] = _body(reply, site, receivers[site][0])
                if reply.has_error() and reply.error.code in (_LOST, _UNAVAILABLE):
                    receivers.pop(site)  # its node has left, or died while replying: asked again when it is back
                else:
                    awaited.discard(site)
            if awaited and self._clock() < look:  # no message is out: those awaited are not connected
                self._sleep(look - self._clock())
            if awaited and self._clock() >= said + _REMIND:
                said = self._clock()
                answered = sorted(site for site, reply in outcome.items() if not isinstance(reply, NoReply))
                values = {"awaited": sorted(awaited), "answered": answered, "seconds": round(said - start)}
                connected = [site for site in sorted(awaited) if site in sites]
                self._tell(happened("waiting", **values, connected=connected, timeout=timeout))
        return outcome

    def _lost_for_good(self, awaited: Iterable[str], connected: Iterable[str]) -> list[str]:
        """Say who of those awaited is lost; return those that were for too long."""
        now, given_up = self._clock(), []
        for site in connected:
            self._missing.pop(site, None)
        for site in sorted(set(awaited) - set(connected)):
            if site not in self._missing:
                self._missing[site] = now
                self._tell(happened("lost", site=site, return_within=_RETURN))
            if now - self._missing[site] >= _RETURN:
                given_up.append(site)
        return given_up

    def _sites(self, deadline: float) -> dict[str, NodeInfo]:
        """Return the node of every site, having queried new nodes for their names until the deadline."""
        nodes = list(self._grid.get_nodes())
        self._learn_names(nodes, deadline)
        return nodes_by_site(nodes, self._claims)

    def _learn_names(self, nodes: Iterable[NodeInfo], deadline: float) -> None:
        """Query nodes for their names; one that does not answer now may still answer later."""
        unknown = {node.node_id for node in nodes if not node.name} - self._claims.keys()
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

    def _collect(self, pending: Mapping[str, _Key], deadline: float) -> dict[_Key, Message]:
        """Poll for the replies to the messages pending until all are there or the deadline has passed."""
        waiting = dict(pending)
        replies: dict[_Key, Message] = {}
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


def nodes_by_site(nodes: Iterable[NodeInfo], claims: Mapping[int, str]) -> dict[str, NodeInfo]:
    """Return the node of every site by the name its key was registered under, or else by the one it claims.

    A node that was killed is online for a while beside its successor: until then the site is left out.
    """
    named: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        name = node.name or claims.get(node.node_id)
        if name:
            named.setdefault(name, []).append(node)
    for name, candidates in named.items():
        if len(candidates) > 1 and _both_alive(candidates):
            raise InputError(
                f"sites: {len(candidates)} connected nodes are called {name!r}; a name stands for one site: "
                "stop the others or give them names of their own."
            )
    return {name: candidates[0] for name, candidates in sorted(named.items()) if len(candidates) == 1}


def _both_alive(candidates: list[NodeInfo]) -> bool:
    """Return whether some older node gave a sign of life after the newest had started."""
    if not all(node.last_activated_at and node.online_until for node in candidates):
        return True  # a simulation does not say
    starts = [datetime.datetime.fromisoformat(node.last_activated_at).timestamp() for node in candidates]
    alive = [node.online_until - _HEARTBEATS * node.heartbeat_interval for node in candidates]
    newest = max(starts)
    return any(sign > newest for start, sign in zip(starts, alive, strict=True) if start != newest)


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


def _conduct_run(grid: Grid, context: Context) -> None:
    """Run the plan, and leave what happens in the state folder; a failure is raised again.

    The run's configuration names ``plan`` and ``folder``.
    """
    settings = context.run_config
    for key in ("plan", "folder"):
        if not settings.get(key):
            raise InputError(f"run: its configuration names no {key}; pass -c \"plan='plan.json' folder='state'\".")
    folder = Path(str(settings["folder"]))
    with recorded(folder):
        from logofair.engines.folder import conduct_from_disk

        tell = partial(append_event, folder)
        conduct_from_disk(str(settings["plan"]), str(folder), _FlowerTransport(grid, tell=tell), tell=tell)


@contextmanager
def recorded(folder: Path) -> Iterator[None]:
    """Tell, as the last event, how the block ended: Flower keeps no word on why a run failed."""
    folder.mkdir(parents=True, exist_ok=True)
    why = "the server app was stopped; its state is stored."
    try:
        yield
        why = ""
    except Exception as error:
        ours = isinstance(error, LogofairError)  # such errors are sentences already
        why = str(error) if ours else f"{type(error).__name__}: {error}"
        raise
    finally:
        with suppress(OSError):  # a full disk, which the error says
            append_event(folder, Event("ended", why))


app = ServerApp()
app.main()(_conduct_run)
