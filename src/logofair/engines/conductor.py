"""Run a server over a transport: send, check every reply, exclude sites that fail, store the state, go on.

Nothing is decided here: the request and what follows from the replies is the server's business, who gets which message
and what came back is the transport's. The state is handed to ``save`` before and after every exchange, so a run that is
killed goes on from the last state; sites answer a message they have answered before with the same reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from logofair.engines.events import Event, Tell, no_one, spoken_names
from logofair.errors import InputError, RunError, SumError
from logofair.federation.exchange import Refusal, Sums, fault
from logofair.federation.exchanges.final import PublishExchange, Received
from logofair.federation.exchanges.roster import AfterTotals
from logofair.federation.exchanges.totals import Totals
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.result import RunResult
from logofair.federation.server import Server, check_result
from logofair.records import decode, encode

if TYPE_CHECKING:
    from logofair.federation.secure import Relay, SecureServer


@dataclass(frozen=True)
class NoReply:
    """No reply came from a site, and why, in words for the server's report.

    The reason is made by the engine from what it saw itself; it never repeats text that came from a site.
    """

    reason: str
    late: bool = False  # whether the site had its time and did not answer, so that asking again would double it


class Transport(Protocol):
    """What a run needs of an engine: who is there, and one message per site out and back."""

    def present(self) -> tuple[str, ...]:
        """Return the names of the sites that can be reached now, in ascending order."""

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
        """Send every named site its message; return what each replied, or why there is no reply.

        A site that has not replied within ``timeout`` seconds is absent, and a late reply never shows up in a later
        exchange.
        """


@dataclass(frozen=True)
class ExchangeReport:
    """One exchange done: its number and purpose, who answered, who was excluded, the largest messages, its seconds."""

    number: int
    purpose: str
    answered: tuple[str, ...]
    excluded: tuple[str, ...]
    bytes_out: int
    bytes_back: int
    seconds: float = 0.0

    def event(self, reasons: Mapping[str, str]) -> Event:
        """What screens and logs say of it; ``reasons`` are those why sites were excluded."""
        names = spoken_names(self.answered) if self.answered else "nobody"
        without = [f"{site} ({reasons.get(site, 'no reply')})" for site in self.excluded]
        sentence = (
            f"{_exchange_name(self.number, self.purpose)}: {names} answered in {self.seconds:.1f} s, at most "
            f"{self.bytes_out} bytes out and {self.bytes_back} back"
        )
        return Event(
            "exchange",
            f"{sentence}; without {spoken_names(without)} from now on" if without else sentence,
            {
                "exchange": self.number,
                "purpose": self.purpose,
                "answered": sorted(self.answered),
                "excluded": {site: reasons.get(site, "no reply") for site in sorted(self.excluded)},
                "bytes_out": self.bytes_out,
                "bytes_back": self.bytes_back,
                "seconds": round(self.seconds, 3),
            },
        )


@dataclass(frozen=True, eq=False)
class ServerState:
    """All that a run must find again: the server, each site's reply on its rows, and the state of secure sums."""

    server: Server
    row_replies: tuple[tuple[str, Sums], ...] = ()
    masks: bytes = b""
    relay: bytes = b""  # what sites recompute the last total of a secure sum from


def conduct(
    state: ServerState,
    transport: Transport,
    *,
    timeout: float = 600.0,
    retries: int = 2,
    save: Callable[[ServerState], None] = lambda state: None,
    tell: Tell = no_one,
) -> Iterator[tuple[ServerState, ExchangeReport]]:
    """Run to the end, yielding the state after every exchange.

    Start with ``ServerState(Server.start(plan, sites))``, or go on with a state that was stored: ``save`` stores one
    before the first exchange and after each. A site that has not answered within ``timeout`` seconds is absent; with
    secure sums absent sites are sent their message ``retries`` times again before the run stops (it can be resumed),
    unless they had their time.
    ``tell`` is told when an exchange begins.
    """
    save(state)
    while not state.server.done:
        tell(_begun(state.server))
        start = time.monotonic()
        if state.server.plan.secure and not isinstance(state.server.phase, PublishExchange):
            after, report = _secure_exchange(state, transport, timeout, retries)
        else:
            after, report = _exchange(state, transport, timeout)
        check_result(after.server)
        state = after
        save(state)
        yield state, replace(report, seconds=time.monotonic() - start)


def _begun(server: Server) -> Event:
    """An exchange begins."""
    sentence = f"{_exchange_name(server.number, server.purpose)}: {spoken_names(server.sites)} are asked"
    values = {"exchange": server.number, "purpose": server.purpose, "sites": list(server.sites)}
    return Event("request", sentence, values)


def _exchange_name(number: int, purpose: str) -> str:
    return f"exchange {number} ({purpose})"


def result_of(steps: Iterator[tuple[ServerState, ExchangeReport]]) -> RunResult:
    """Go to the end of a run and return its result."""
    done = [state for state, _ in steps]
    if not done:
        raise InputError("run: it has no steps left; its result was published before.")
    return done[-1].server.result


def _exchange(state: ServerState, transport: Transport, timeout: float) -> tuple[ServerState, ExchangeReport]:
    """One message to every site, and what follows from the replies that can be used."""
    server = state.server
    message = replace(server.message(), relay=_relay(state))
    data = encode(message)
    replies = _replies(transport, dict.fromkeys(server.sites, data), timeout)
    good, bad = _checked(state, message, replies)
    back = max((len(each) for each in replies.values() if isinstance(each, bytes)), default=0)
    report = ExchangeReport(server.number, server.purpose, tuple(good), tuple(sorted(bad)), len(data), back)
    after, usable = server.without(bad, _totals_left(state, bad, replies)) if bad else (server, True)
    if not usable:
        kept = state.row_replies if isinstance(after.phase, AfterTotals) else ()
        return replace(state, server=after, row_replies=kept), report
    if isinstance(server.phase, PublishExchange):  # a site that missed the result can get it later
        return replace(state, server=after.take(Received())), report
    if not good:
        raise RunError(f"run {server.plan.run}: no site answered; bring the sites back and resume.")
    of_rows = tuple((site, sums) for site, sums in sorted(good.items()) if sums.behind is not None)
    sums = list(good.values())
    total = type(sums[0]).stacked(sums).combined()
    return replace(state, server=after.take(total), row_replies=of_rows or state.row_replies), report


def _totals_left(state: ServerState, gone: Mapping[str, str], replies: Mapping[str, bytes | NoReply]) -> Totals | None:
    """The totals of those who remain, where sites did no worse than not to answer and all have told their rows."""
    left = [sums for site, sums in state.row_replies if site in state.server.sites and site not in gone]
    wrong = [site for site in gone if not isinstance(replies.get(site, NoReply("no reply")), NoReply)]
    if wrong or not left or not all(isinstance(sums, Totals) for sums in left):
        return None
    return Totals.stacked([sums for sums in left if isinstance(sums, Totals)]).combined()


def _replies(transport: Transport, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
    """Every site's reply; one that is absent but can be reached again, say after a restart, is asked once more."""
    replies = dict(transport.exchange(messages, timeout))
    found = {site: replies.get(site, NoReply("no reply")) for site in messages}
    absent = [site for site, reply in found.items() if isinstance(reply, NoReply) and not reply.late]
    back = [site for site in absent if site in transport.present()] if len(absent) < len(messages) else []
    if back:
        replies |= transport.exchange({site: messages[site] for site in back}, timeout)
    return replies


def _checked(
    state: ServerState, message: RequestMessage, replies: Mapping[str, bytes | NoReply]
) -> tuple[dict[str, Sums], dict[str, str]]:
    """Replies that can be used, and what is wrong with the others."""
    good: dict[str, Sums] = {}
    bad: dict[str, str] = {}
    for site in state.server.sites:
        read = _read_reply(site, message, replies.get(site, NoReply("no reply")))
        wrong = read if isinstance(read, str) else _fault_of(state, site, read)
        if wrong is None and isinstance(read, ReplyMessage) and isinstance(read.body, Sums):
            good[site] = read.body
        else:
            bad[site] = str(wrong)
    return good, bad


def _fault_of(state: ServerState, site: str, reply: ReplyMessage) -> str | None:
    server = state.server
    earlier = dict(state.row_replies).get(site)
    counts = None if earlier is None else earlier.behind
    return fault(reply.body, server.request, server.plan, counts, server.roster_counts)


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
        known = Refusal.__members__.get(reply.refusal) if isinstance(reply.refusal, str) else None
        return known.value if known is not None else "refused for a reason this version does not know"
    return reply


def _secure_exchange(
    state: ServerState, transport: Transport, timeout: float, retries: int
) -> tuple[ServerState, ExchangeReport]:
    """One exchange of a secure sum."""
    masks = _masks(state)
    stages = {
        "keys": _prepared,
        "shares": _prepared,
        "masked": _masked,
        "confirm": _confirmed,
        "unmask": _unmask,
    }
    messages = _secure_messages(state, masks)
    replies, reasons, sizes = _collected(messages, transport, timeout, 1 if _may_exclude(masks) else 1 + retries)
    try:
        after = stages[masks.stage](state, masks, replies, reasons)
    except SumError as error:
        raise RunError(f"run {state.server.plan.run}: {error}{_because(reasons)}") from None
    purpose = state.server.purpose + f" ({masks.stage})"
    excluded = tuple(sorted(set(state.server.sites) - set(after.server.sites)))
    return after, ExchangeReport(state.server.number, purpose, tuple(replies), excluded, *sizes)


def _masks(state: ServerState) -> SecureServer:
    """The state of the secure sum under way, or of a new one."""
    from logofair.federation.secure import SecureServer  # needs an extra

    server = state.server
    masks = decode(state.masks, SecureServer) if state.masks else None
    if masks is None or masks.roster.number != server.roster:
        masks = SecureServer.start(server.plan.run, server.sites, server.roster)
    if masks.stage == "ready":
        masks = masks.begin_sum(server.request_history, server.sum_steps)
    return masks


def _relay(state: ServerState) -> Relay | None:
    """What the last total of a secure sum is recomputed from, if there is one."""
    if not state.relay:
        return None
    from logofair.federation.secure import Relay  # needs an extra

    return decode(state.relay, Relay)


def _secure_messages(state: ServerState, masks: SecureServer) -> dict[str, RequestMessage]:
    """Each site's message of the stage."""
    plain = state.server.message()
    message = replace(plain, request=None, opening=None, step=masks.stage)
    if masks.stage == "keys":
        opening = replace(message, opening=plain.opening, relay=_relay(state))
        return dict.fromkeys(masks.roster.sites, opening)
    if masks.stage == "shares":
        return dict.fromkeys(masks.keys, replace(message, keys=masks.keys))
    if masks.stage == "masked":
        message = replace(message, request=plain.request, relay=_relay(state) if masks.number > 1 else None)
        return {site: replace(message, sealed=sealed) for site, sealed in masks.deliveries.items()}
    if masks.stage == "confirm":
        return dict.fromkeys(masks.contributors, replace(message, sealed=masks.fingerprints))
    return dict.fromkeys(masks.confirmed, replace(message, sealed=masks.confirmed))


def _collected(
    messages: Mapping[str, RequestMessage], transport: Transport, timeout: float, tries: int
) -> tuple[dict[str, Any], dict[str, str], tuple[int, int]]:
    """Replies by site, why others are missing, and the largest messages; who is missing and not late is asked again."""
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


def _prepared(state: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_keys(replies) if masks.stage == "keys" else masks.collect_shares(replies)
    return _next_state(state, after, _reasons(after.missing, reasons), "keys")


def _masked(state: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_masked(replies)
    missing = _reasons([site for site in masks.participants if site not in after.contributors], reasons)
    if missing and not _may_exclude(masks):
        names = ", ".join(f"{site} ({why})" for site, why in sorted(missing.items()))
        raise RunError(
            f"run {state.server.plan.run}: missing in exchange {state.server.number}: {names}; with secure sums nobody "
            "can be left out now: bring them back and resume, or, once every other site has agreed by name to go on "
            "without them, resume without them."
        )
    return _next_state(state, after, missing, "masked sums")


def _confirmed(
    state: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]
) -> ServerState:
    return _next_state(state, masks.collect_confirmed(replies), {}, "lists confirmed")


def _unmask(state: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_unmasked(replies)
    server = state.server.take_sum(after.total)
    return replace(state, server=server, masks=encode(replace(after, relay=None)), relay=encode(after.relay))


def _next_state(state: ServerState, masks: SecureServer, missing: Mapping[str, str], purpose: str) -> ServerState:
    """The next state; sites missing before the first total are excluded."""
    server = state.server
    excluded = {site: why for site, why in missing.items() if site in server.sites}
    if excluded:
        server, _ = server.without(excluded)
    return replace(state, server=server.counted(purpose), masks=encode(masks))


def _may_exclude(masks: SecureServer) -> bool:
    """Whether a site may be left out without the others' agreement: only before the first total of the run."""
    return masks.roster.number == 1 and masks.number < 2


def _reasons(sites: Iterable[str], reasons: Mapping[str, str]) -> dict[str, str]:
    return {site: reasons.get(site, "sent something unusable") for site in sites}


def _because(reasons: Mapping[str, str]) -> str:
    return f" ({'; '.join(f'{site}: {why}' for site, why in sorted(reasons.items())[:5])})" if reasons else ""
