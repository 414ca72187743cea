"""Run a server over a transport: send, check every reply, exclude sites that fail, store the state, go on.

Nothing is decided here: the request and what follows from the replies is the server's business, who gets which message
and what came back is the transport's. The state is handed to ``save`` before and after every exchange, so a run that is
killed goes on from the last state; sites answer a message they have answered before with the same reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from logofair.engines.events import Event, Tell, happened, ignore
from logofair.errors import InputError, RunError, SumError
from logofair.federation.exchange import AfterTotals, Refusal, Sums, fault
from logofair.federation.exchanges.publication import PublishExchange, Received
from logofair.federation.exchanges.rounds import Totals
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.server import Server, check_result
from logofair.records import decode, encode

if TYPE_CHECKING:
    from logofair.federation.secure import Relay, SecureServer

# What the server counts the stages of a secure sum as; the last stage, unmask, counts as the exchange itself.
_COUNTED = {"keys": "keys", "shares": "keys", "masked": "masked sums", "confirm": "lists confirmed"}


@dataclass(frozen=True)
class NoReply:
    """No reply came from a site, and why, in words for the server's report.

    The reason is made by the engine from what it saw itself; it never repeats text that came from a site.
    """

    reason: str
    late: bool = False  # whether the site was waited for until the timeout: asking again would wait as long again


class Transport(Protocol):
    """What a run needs of an engine: who is there, and one message per site out and back."""

    def present(self) -> tuple[str, ...]:
        """Return the names of the sites that can be reached now, in ascending order."""

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
        """Send every named site its message; return what each replied, or why there is no reply.

        A site that has not replied within ``timeout`` seconds is absent, and a late reply never shows up in a later
        exchange.
        """


@dataclass(frozen=True, eq=False)
class ServerState:
    """What a run needs to go on after a restart: the server, each site's reply on its rows, and secure sums."""

    server: Server
    row_replies: tuple[tuple[str, Sums], ...] = ()
    secure_state: bytes = b""
    relay: bytes = b""  # what sites recompute the last total of a secure sum from


def conduct(
    state: ServerState,
    transport: Transport,
    *,
    timeout: float = 600.0,
    retries: int = 2,
    save: Callable[[ServerState], None] = lambda state: None,
    tell: Tell = ignore,
) -> Iterator[tuple[ServerState, Event]]:
    """Run to the end, yielding the state after every exchange and what happened in it.

    Start with ``ServerState(Server.start(plan, sites))``, or go on with a state that was stored: ``save`` stores one
    before the first exchange and after each. A site that has not answered within ``timeout`` seconds is absent. With
    secure sums a site without a usable reply is sent its message up to ``retries`` times again, unless it was waited
    for until the timeout; then the run stops, and can be resumed. ``tell`` is told when an exchange begins and ends.
    """
    save(state)
    while not state.server.done:
        server, start = state.server, time.monotonic()
        tell(happened("request", exchange=server.number, purpose=server.phase.name, sites=list(server.sites)))
        if server.plan.secure and not isinstance(server.phase, PublishExchange):
            state, values = _secure_exchange(state, transport, timeout, retries)
        else:
            state, values = _exchange(state, transport, timeout)
        check_result(state.server)
        save(state)
        event = happened("exchange", **values, seconds=round(time.monotonic() - start, 3))
        tell(event)
        yield state, event


def _exchange(state: ServerState, transport: Transport, timeout: float) -> tuple[ServerState, dict[str, Any]]:
    """Send every site the same message, and go on with the total of the replies that can be used.

    Also what is said of it: who answered, who was excluded and why, and the sizes of the largest messages.
    """
    server = state.server
    message = replace(server.message(), relay=_relay(state))
    data = encode(message)
    replies = _replies(transport, dict.fromkeys(server.sites, data), timeout)
    good: dict[str, Sums] = {}
    bad: dict[str, str] = {}
    row_replies = dict(state.row_replies)  # what each site has said of its rows, which later replies must fit
    for site in server.sites:
        reply = _read_reply(site, message, replies[site])
        if isinstance(reply, str):
            bad[site] = reply
            continue
        counts = row_replies[site].row_counts if site in row_replies else None
        body: Any = reply.body  # of the type requested, if fault finds nothing wrong
        wrong = fault(body, server.request, server.plan, counts, server.roster_counts)
        if wrong is None:
            good[site] = body
        else:
            bad[site] = wrong
    back = max((len(each) for each in replies.values() if isinstance(each, bytes)), default=0)
    values = _said(server, server.phase.name, good, bad, (len(data), back))
    after, usable = server.without(bad, _totals_left(state, bad, replies)) if bad else (server, True)
    if not usable:
        kept = state.row_replies if isinstance(after.phase, AfterTotals) else ()
        return replace(state, server=after, row_replies=kept), values
    if isinstance(server.phase, PublishExchange):  # a site that missed the result can get it later
        return replace(state, server=after.take(Received())), values
    if not good:
        raise RunError(f"run {server.plan.run}: no site answered; bring the sites back and resume.")
    of_rows = tuple((site, sums) for site, sums in sorted(good.items()) if sums.row_counts is not None)
    sums = list(good.values())
    total = type(sums[0]).stacked(sums).total()
    return replace(state, server=after.take(total), row_replies=of_rows or state.row_replies), values


def _said(
    server: Server, purpose: str, answered: Iterable[str], excluded: Mapping[str, str], sizes: tuple[int, int]
) -> dict[str, Any]:
    """What is said of an exchange of a server; ``sizes`` are those of the largest messages out and back."""
    said = {"exchange": server.number, "purpose": purpose, "answered": tuple(answered), "excluded": dict(excluded)}
    return {**said, "bytes_out": sizes[0], "bytes_back": sizes[1]}


def _totals_left(state: ServerState, gone: Mapping[str, str], replies: Mapping[str, bytes | NoReply]) -> Totals | None:
    """The totals of the sites that remain, from their stored replies.

    None where one of them has not said how many rows it has, or where a site that goes did answer, but wrongly.
    """
    left = [sums for site, sums in state.row_replies if site in state.server.sites and site not in gone]
    totals = [sums for sums in left if isinstance(sums, Totals)]
    if not left or len(totals) < len(left) or any(isinstance(replies[site], bytes) for site in gone):
        return None
    return Totals.stacked(totals).total()


def _replies(transport: Transport, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
    """Every site's reply; a site that is absent but can be reached again, say after a restart, is asked once more.

    If nobody answered, nobody is asked again: the fault is then more likely on the server's side.
    """
    came = transport.exchange(messages, timeout)
    replies = {site: came.get(site, NoReply("no reply")) for site in messages}
    absent = [site for site, reply in replies.items() if isinstance(reply, NoReply) and not reply.late]
    back = [site for site in absent if site in transport.present()] if len(absent) < len(messages) else []
    if back:
        again = transport.exchange({site: messages[site] for site in back}, timeout)
        replies |= {site: again[site] for site in back if site in again}
    return replies


def _read_reply(site: str, message: RequestMessage, data: bytes | NoReply) -> ReplyMessage | str:
    """A reply to this very message, or a sentence on why there is none."""
    if isinstance(data, NoReply):
        return data.reason
    try:
        reply = decode(data, ReplyMessage)
    except InputError:
        return "sent bytes that are no message"
    if reply.site != site:
        return "sent a message in another's name"
    if (reply.run, reply.roster, reply.number) != (message.run, message.roster, message.number):
        return "answered another request than was sent"
    if reply.refusal is not None:
        known = Refusal.__members__.get(reply.refusal)
        return known.value if known is not None else "refused for a reason this version does not know"
    return reply


def _secure_exchange(
    state: ServerState, transport: Transport, timeout: float, retries: int
) -> tuple[ServerState, dict[str, Any]]:
    """One stage of a secure sum; sites missing before the first total of the run are excluded."""
    from logofair.federation.secure import SecureServer  # needs an extra

    server = state.server
    secure = decode(state.secure_state, SecureServer) if state.secure_state else None
    if secure is None or secure.roster.number != server.roster:
        secure = SecureServer.start(server.plan.run, server.sites, server.roster)
    if secure.stage == "ready":
        secure = secure.begin_sum(server.request_history, server.sum_steps)
    stage, may_exclude = secure.stage, secure.roster.number == 1 and secure.number < 2
    messages = _secure_messages(state, secure)
    replies, reasons, sizes = _secure_replies(messages, transport, timeout, 1 if may_exclude else 1 + retries)
    missing: Sequence[str] = ()
    try:
        if stage == "unmask":
            secure = secure.collect_unmasked(replies)
            server, relay = server.take_sum(secure.total), encode(secure.relay)
            state = replace(state, relay=relay)
            secure = replace(secure, relay=None)
        elif stage == "confirm":
            secure = secure.collect_confirmed(replies)
        elif stage == "masked":
            asked, secure = secure.participants, secure.collect_masked(replies)
            missing = [site for site in asked if site not in secure.contributors]
        else:
            secure = secure.collect_keys(replies) if stage == "keys" else secure.collect_shares(replies)
            missing = secure.missing
    except SumError as error:
        causes = "; ".join(f"{site}: {why}" for site, why in sorted(reasons.items())[:5])
        raise RunError(f"run {server.plan.run}: {error}{f' ({causes})' if causes else ''}") from None
    without = {site: reasons.get(site, "sent something unusable") for site in missing}
    if without and not may_exclude:  # in a later roster neither: no site goes on without it that has not agreed
        names = ", ".join(f"{site} ({why})" for site, why in sorted(without.items()))
        raise RunError(
            f"run {server.plan.run}: missing in exchange {server.number}: {names}; with secure sums nobody "
            "can be left out now: bring them back and resume, or, once every other site has agreed by name to go on "
            "without them, resume without them."
        )
    excluded = {site: why for site, why in without.items() if site in server.sites}
    if excluded:
        server, _ = server.without(excluded)
    if stage in _COUNTED:
        server = server.counted(_COUNTED[stage])
    values = _said(state.server, f"{state.server.phase.name} ({stage})", replies, excluded, sizes)
    return replace(state, server=server, secure_state=encode(secure)), values


def _relay(state: ServerState) -> Relay | None:
    """What the last total of a secure sum is recomputed from, if there is one."""
    if not state.relay:
        return None
    from logofair.federation.secure import Relay  # needs an extra

    return decode(state.relay, Relay)


def _secure_messages(state: ServerState, secure: SecureServer) -> dict[str, RequestMessage]:
    """The message of the stage to each site."""
    plain = state.server.message()
    message = replace(plain, request=None, opening=None, step=secure.stage)
    if secure.stage == "keys":
        opening = replace(message, opening=plain.opening, relay=_relay(state))
        return dict.fromkeys(secure.roster.sites, opening)
    if secure.stage == "shares":
        return dict.fromkeys(secure.keys, replace(message, keys=secure.keys))
    if secure.stage == "masked":
        message = replace(message, request=plain.request, relay=_relay(state) if secure.number > 1 else None)
        return {site: replace(message, sealed=sealed) for site, sealed in secure.deliveries.items()}
    if secure.stage == "confirm":
        return dict.fromkeys(secure.contributors, replace(message, sealed=secure.fingerprints))
    return dict.fromkeys(secure.confirmed, replace(message, sealed=secure.confirmed))


def _secure_replies(
    messages: Mapping[str, RequestMessage], transport: Transport, timeout: float, tries: int
) -> tuple[dict[str, Any], dict[str, str], tuple[int, int]]:
    """Replies by site, why others are missing, and the sizes of the largest messages out and back.

    A site without a usable reply is asked again, ``tries`` times in all, unless it was waited for until the timeout.
    """
    bodies: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    late: set[str] = set()
    out = back = 0
    for _ in range(tries):
        waiting = {site: encode(message) for site, message in messages.items() if site not in {*bodies, *late}}
        if not waiting:
            break
        out = max(out, *map(len, waiting.values()))
        replies = transport.exchange(waiting, timeout)
        for site in waiting:
            data = replies.get(site, NoReply("no reply"))
            read = _read_reply(site, messages[site], data)
            if isinstance(read, ReplyMessage):
                bodies[site] = read.body
                back = max(back, 0 if isinstance(data, NoReply) else len(data))
            else:
                reasons[site] = read
                late |= {site} if isinstance(data, NoReply) and data.late else set()
    return bodies, {site: why for site, why in reasons.items() if site not in bodies}, (out, back)
