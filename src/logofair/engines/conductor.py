"""Drive a server over a transport: ask, check every reply, exclude who fails, store the state, go on.

Nothing is decided here: what to ask and what follows is the server's business, who is asked what and what came back is
the transport's. The state is handed to ``save`` before and after every exchange, so a conductor that is killed can be
started again from the last state; sites answer a question they have answered before with the same reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from logofair.errors import RunError, SumError
from logofair.federation.expected import fault, reply_form
from logofair.federation.messages import Question, Reply, next_link
from logofair.federation.secure import SecureServer
from logofair.federation.wire import decode, encode

import logofair.federation.secure.exchange  # isort: skip  # noqa: F401  # so that messages of secure sums can be read
from collections.abc import Callable, Iterator

from logofair.errors import InputError
from logofair.federation.expected import GroupCounts
from logofair.federation.messages import FoldCounts, Moments, Received, Refusal, Sums, Totals
from logofair.federation.outcome import RunResult
from logofair.federation.phases import Finished
from logofair.federation.server import Server
from logofair.federation.wire import carried

__all__ = [
    "ExchangeReport",
    "NoReply",
    "ServerState",
    "Transport",
    "conduct",
    "masked_exchange",
    "outcome_of",
]


@dataclass(frozen=True)
class NoReply:
    """No reply came from a site, and why, in words for the server's report.

    The reason is made by the engine from what it saw itself; it never repeats text that came from a site.

    Examples
    --------
    >>> NoReply("no reply within 60 seconds").reason
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
    ...         return {site: body if site in self.present() else NoReply("unknown") for site, body in messages.items()}
    >>> transport: Transport = Echo()
    >>> transport.exchange({"north": b"ask", "west": b"ask"}, timeout=1.0)
    {'north': b'ask', 'west': NoReply(reason='unknown', late=False)}
    """

    def present(self) -> tuple[str, ...]:
        """Return the names of the sites that can be reached now, in ascending order."""

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
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


def masked_exchange(
    desk: ServerState, transport: Transport, timeout: float, patience: int
) -> tuple[ServerState, ExchangeReport]:
    """One exchange of a secure sum."""
    masks = _masks(desk)
    stages = {"keys": _keys, "shares": _shares, "masked": _masked, "unmask": _unmask}
    asks = _asks(desk, masks)
    replies, reasons, sizes = _collected(asks, transport, timeout, 1 if _may_lose(masks) else 1 + patience)
    try:
        after = stages[masks.stage](desk, masks, replies, reasons)
    except SumError as error:
        raise RunError(f"run {desk.server.plan.run}: {error}{_because(reasons)}") from None
    purpose = desk.server.purpose + f" ({masks.stage})"
    lost = tuple(sorted(set(desk.server.sites) - set(after.server.sites)))
    return after, ExchangeReport(desk.server.number, purpose, len(replies), lost, *sizes)


def _masks(desk: ServerState) -> SecureServer:
    """The state of the secure sum under way, or of a new one."""
    server = desk.server
    masks: SecureServer | None = decode(desk.masks) if desk.masks else None
    if masks is None or masks.roster.number != server.roster:
        masks = SecureServer.start(server.plan.run, server.sites, server.roster)
    if masks.stage == "ready":
        kind, shapes = reply_form(server.request, server.plan)
        masks = masks.ask(next_link(server.chain, server.request), kind.steps_of(shapes))
    return masks


def _asks(desk: ServerState, masks: SecureServer) -> dict[str, Question]:
    """Each site's message of the stage."""
    plain = desk.server.ask()
    step = replace(plain, request=None, opening=None, step=masks.stage)
    if masks.stage == "keys":
        return dict.fromkeys(masks.roster.sites, replace(step, opening=plain.opening))
    if masks.stage == "shares":
        return dict.fromkeys(masks.keys, replace(step, sealed=dict(masks.keys)))
    if masks.stage == "masked":
        asked = replace(step, request=plain.request)
        return {site: replace(asked, sealed=sealed) for site, sealed in masks.deliveries.items()}
    return dict.fromkeys(masks.contributors, replace(step, sealed=masks.contributors))


def _collected(
    asks: Mapping[str, Question], transport: Transport, timeout: float, tries: int
) -> tuple[dict[str, Any], dict[str, str], tuple[int, int]]:
    """Replies by site, why others are missing, and the largest messages; who is missing is asked again."""
    bodies: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    out = back = 0
    for _ in range(tries):
        waiting = {site: encode(ask) for site, ask in asks.items() if site not in bodies}
        if not waiting:
            break
        out = max(out, *map(len, waiting.values()))
        replies = transport.exchange(waiting, timeout)
        for site in waiting:
            data = replies.get(site, NoReply("no reply"))
            read = read_reply(site, asks[site], data)
            if isinstance(read, Reply):
                bodies[site] = read.body
                back = max(back, 0 if isinstance(data, NoReply) else len(data))
            else:
                reasons[site] = read
    return bodies, {site: why for site, why in reasons.items() if site not in bodies}, (out, back)


def _stored(desk: ServerState, masks: SecureServer, lost: Mapping[str, str], purpose: str) -> ServerState:
    """The next state; sites lost before the first total are excluded."""
    server = desk.server
    gone = {site: why for site, why in lost.items() if site in server.sites}
    if gone:
        server, _ = server.without(gone)
    return replace(desk, server=server.counted(purpose), masks=encode(masks))


def _keys(desk: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_keys(replies)
    return _stored(desk, after, _missing(after.lost, reasons), "keys")


def _shares(desk: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_shares(replies)
    return _stored(desk, after, _missing(after.lost, reasons), "keys")


def _masked(desk: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_masked(replies)
    lost = _missing([site for site in masks.participants if site not in after.contributors], reasons)
    if lost and not _may_lose(masks):
        names = ", ".join(f"{site} ({why})" for site, why in sorted(lost.items()))
        raise RunError(
            f"run {desk.server.plan.run}: missing in exchange {desk.server.number}: {names}; with secure sums nobody "
            "can be left out now: bring them back and resume, or, once every other site has agreed by name to go on "
            "without them, resume without them."
        )
    return _stored(desk, after, lost, "masked sums")


def _unmask(desk: ServerState, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> ServerState:
    after = masks.collect_unmasked(replies)
    server = desk.server
    kind, shapes = reply_form(server.request, server.plan)
    total = kind.of_vector(after.total, shapes)
    wrong = fault(total, server.request, server.plan, server.whole, server.whole)
    if wrong is not None:
        raise RunError(
            f"run {server.plan.run}: the sites together {wrong}, and masks hide which of them; have every site check "
            "its data and start a new run."
        )
    return replace(desk, server=server.take(total), masks=encode(after))


def _may_lose(masks: SecureServer) -> bool:
    """Whether a site may be left out without the others' agreement: only before the first total of the run."""
    return masks.roster.number == 1 and masks.number < 2


def _missing(sites: Any, reasons: Mapping[str, str]) -> dict[str, str]:
    return {site: reasons.get(site, "sent something unusable") for site in sites}


def _because(reasons: Mapping[str, str]) -> str:
    return f" ({'; '.join(f'{site}: {why}' for site, why in sorted(reasons.items())[:5])})" if reasons else ""


# Rounding of sums and of stored rules, by which a policy may seem to exceed its bound.
_ROUNDING = 1e-7


@dataclass(frozen=True)
class ExchangeReport:
    """One exchange done: its number and purpose, who answered, who was excluded, and the largest messages."""

    number: int
    purpose: str
    sites: int
    lost: tuple[str, ...]
    bytes_out: int
    bytes_back: int

    def __str__(self) -> str:
        gone = f"; without {', '.join(self.lost)} from now on" if self.lost else ""
        return (
            f"exchange {self.number} ({self.purpose}): {self.sites} sites, at most {self.bytes_out} bytes out and "
            f"{self.bytes_back} back{gone}"
        )


@carried
@dataclass(frozen=True, eq=False)
class ServerState:
    """All that a conductor must find again: the server, what sites said of their rows, and the state of secure sums."""

    server: Server
    parts: tuple[tuple[str, Sums], ...] = ()
    masks: bytes = b""


def conduct(
    desk: ServerState,
    transport: Transport,
    *,
    timeout: float = 600.0,
    patience: int = 2,
    save: Callable[[ServerState], None] = lambda desk: None,
) -> Iterator[tuple[ServerState, ExchangeReport]]:
    """Run to the end, yielding the state after every exchange.

    Parameters
    ----------
    desk : Desk
        Where to start or to go on: ``ServerState(Server.start(plan, sites))``, or one that was stored.
    transport : Transport
        Carries the messages.
    timeout : float
        Seconds after which a site that has not answered is absent.
    patience : int
        With secure sums: how often absent sites are asked again before the run stops (it can be resumed).
    save : callable
        Stores a state; called before the first exchange and after each.
    """
    save(desk)
    while not desk.server.done:
        if desk.server.plan.secure and not isinstance(desk.server.phase, Finished):
            after, progress = masked_exchange(desk, transport, timeout, patience)
        else:
            after, progress = _exchange(desk, transport, timeout)
        check_settled(after.server)
        desk = after
        save(desk)
        yield desk, progress


def outcome_of(steps: Iterator[tuple[ServerState, ExchangeReport]]) -> RunResult:
    """Go to the end of a run and return its result."""
    done = [desk for desk, _ in steps]
    if not done:
        raise InputError("run: it has no steps left; its result was published before.")
    return done[-1].server.outcome


def check_settled(server: Server) -> None:
    """Never publish an exact run that does not keep its promise."""
    if not isinstance(server.phase, Finished) or server.plan.solver is not None:
        return
    outcome = server.outcome
    if outcome.certificate.optimality_gap < -_ROUNDING:
        raise RunError(
            f"run {server.plan.run}: the policies beat their own bound (gap {outcome.certificate.optimality_gap:.1e}), "
            "so the bound is wrong and nothing is published; please report the case."
        )
    if not outcome.meets_requirements:
        raise RunError(
            f"run {server.plan.run}: the stored policies exceed a tolerance by {outcome.violation:.1e} "
            f"({outcome.broken} sites locally), so nothing is published; please report the case."
        )


def _exchange(desk: ServerState, transport: Transport, timeout: float) -> tuple[ServerState, ExchangeReport]:
    """One question to every site, and what follows from the replies that can be used."""
    server = desk.server
    ask = server.ask()
    message = encode(ask)
    replies = _replies(transport, dict.fromkeys(server.sites, message), timeout)
    good, bad = _sorted_out(desk, ask, replies)
    back = max((len(each) for each in replies.values() if isinstance(each, bytes)), default=0)
    progress = ExchangeReport(server.number, server.purpose, len(good), tuple(sorted(bad)), len(message), back)
    after, usable = server.without(bad) if bad else (server, True)
    if not usable:
        return replace(desk, server=after, parts=()), progress
    if isinstance(server.phase, Finished):  # who did not hear of the result can ask later
        return replace(desk, server=after.take(Received())), progress
    if not good:
        raise RunError(f"run {server.plan.run}: no site answered; bring the sites back and resume.")
    counted = tuple(
        (site, sums) for site, sums in sorted(good.items()) if isinstance(sums, Moments | FoldCounts | Totals)
    )
    parts = counted or desk.parts
    return replace(desk, server=after.take(_total(list(good.values()))), parts=parts), progress


def _replies(transport: Transport, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
    """Every site's reply; one that is absent but can be reached again, say after a restart, is asked once more."""
    replies = dict(transport.exchange(messages, timeout))
    found = {site: replies.get(site, NoReply("no reply")) for site in messages}
    absent = [site for site, reply in found.items() if isinstance(reply, NoReply) and not reply.late]
    back = [site for site in absent if site in transport.present()] if len(absent) < len(messages) else []
    if back:
        replies |= transport.exchange({site: messages[site] for site in back}, timeout)
    return replies


def _total(replies: list[Any]) -> Any:
    return type(replies[0]).side_by_side(replies).together()


def _sorted_out(
    desk: ServerState, ask: Question, replies: Mapping[str, bytes | NoReply]
) -> tuple[dict[str, Sums], dict[str, str]]:
    """Replies that can be used, and what is wrong with the others."""
    good: dict[str, Sums] = {}
    bad: dict[str, str] = {}
    for site in desk.server.sites:
        read = read_reply(site, ask, replies.get(site, NoReply("no reply")))
        wrong = read if isinstance(read, str) else _fault_of(desk, site, read)
        if wrong is None and not isinstance(read, str):
            good[site] = read.body
        else:
            bad[site] = str(wrong)
    return good, bad


def _fault_of(desk: ServerState, site: str, reply: Reply) -> str | None:
    server = desk.server
    told = dict(desk.parts).get(site)
    part = None if told is None else GroupCounts.of(told)
    return fault(reply.body, server.request, server.plan, part, server.whole)


def read_reply(site: str, ask: Question, data: bytes | NoReply) -> Reply | str:
    """A reply to this very ask, or a sentence on why there is none."""
    if isinstance(data, NoReply):
        return data.reason
    try:
        reply = decode(data)
    except InputError:
        return "sent bytes that are no message"
    if not isinstance(reply, Reply) or reply.site != site:
        return "sent a message in another's name, or of another kind"
    if (reply.run, reply.roster, reply.number) != (ask.run, ask.roster, ask.number):
        return "answered another question than was asked"
    if reply.refusal is not None:
        known = Refusal.__members__.get(reply.refusal) if isinstance(reply.refusal, str) else None
        return known.value if known is not None else "refused for a reason this version does not know"
    return reply
