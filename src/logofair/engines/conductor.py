"""Drive a server over a transport: ask, check every reply, exclude who fails, store the state, go on.

Nothing is decided here: what to ask and what follows is the server's business, who is asked what and what came back is
the transport's. The state is handed to ``save`` before and after every exchange, so a conductor that is killed can be
started again from the last state; sites answer a question they have answered before with the same reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from logofair.engines.transport import Absent, Transport
from logofair.federation.expected import Part, fault
from logofair.federation.messages import Ask, Refusal, Reply
from logofair.federation.outcome import Outcome
from logofair.federation.server import Server
from logofair.federation.settlement import Finished
from logofair.federation.sums import Counts, Moments, Noted, Sums, Totals
from logofair.federation.wire import carried, decode, encode
from logofair.inputs import InputError

__all__ = ["Desk", "Progress", "RunError", "conduct", "outcome_of"]


# Rounding of sums and of stored rules, by which a policy may seem to exceed its bound.
_ROUNDING = 1e-7


class RunError(RuntimeError):
    """The run cannot go on; the sentence says why and what to do. Its state is stored."""


@dataclass(frozen=True)
class Progress:
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
class Desk:
    """All that a conductor must find again: the server, what sites said of their rows, and the state of secure sums."""

    server: Server
    parts: tuple[tuple[str, Sums], ...] = ()
    masks: bytes = b""


def conduct(
    desk: Desk,
    transport: Transport,
    *,
    timeout: float = 600.0,
    patience: int = 2,
    save: Callable[[Desk], None] = lambda desk: None,
) -> Iterator[tuple[Desk, Progress]]:
    """Run to the end, yielding the state after every exchange.

    Parameters
    ----------
    desk : Desk
        Where to start or to go on: ``Desk(Server.start(plan, sites))``, or one that was stored.
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
            from logofair.engines.masked import masked_exchange  # needs an extra

            after, progress = masked_exchange(desk, transport, timeout, patience)
        else:
            after, progress = _exchange(desk, transport, timeout)
        check_settled(after.server)
        desk = after
        save(desk)
        yield desk, progress


def outcome_of(steps: Iterator[tuple[Desk, Progress]]) -> Outcome:
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
    if outcome.certificate.gap < -_ROUNDING:
        raise RunError(
            f"run {server.plan.run}: the policies beat their own bound (gap {outcome.certificate.gap:.1e}), "
            "so the bound is wrong and nothing is published; please report the case."
        )
    if not outcome.keeps_promise:
        raise RunError(
            f"run {server.plan.run}: the stored policies exceed a tolerance by {outcome.violation:.1e} "
            f"({outcome.broken} sites locally), so nothing is published; please report the case."
        )


def _exchange(desk: Desk, transport: Transport, timeout: float) -> tuple[Desk, Progress]:
    """One question to every site, and what follows from the replies that can be used."""
    server = desk.server
    ask = server.ask()
    message = encode(ask)
    replies = _replies(transport, dict.fromkeys(server.sites, message), timeout)
    good, bad = _sorted_out(desk, ask, replies)
    back = max((len(each) for each in replies.values() if isinstance(each, bytes)), default=0)
    progress = Progress(server.number, server.purpose, len(good), tuple(sorted(bad)), len(message), back)
    after, usable = server.without(bad) if bad else (server, True)
    if not usable:
        return replace(desk, server=after, parts=()), progress
    if isinstance(server.phase, Finished):  # who did not hear of the result can ask later
        return replace(desk, server=after.take(Noted())), progress
    if not good:
        raise RunError(f"run {server.plan.run}: no site answered; bring the sites back and resume.")
    counted = tuple((site, sums) for site, sums in sorted(good.items()) if isinstance(sums, Moments | Counts | Totals))
    parts = counted or desk.parts
    return replace(desk, server=after.take(_total(list(good.values()))), parts=parts), progress


def _replies(transport: Transport, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | Absent]:
    """Every site's reply; one that is absent but can be reached again, say after a restart, is asked once more."""
    replies = dict(transport.exchange(messages, timeout))
    found = {site: replies.get(site, Absent("no reply")) for site in messages}
    absent = [site for site, reply in found.items() if isinstance(reply, Absent) and not reply.late]
    back = [site for site in absent if site in transport.present()] if len(absent) < len(messages) else []
    if back:
        replies |= transport.exchange({site: messages[site] for site in back}, timeout)
    return replies


def _total(replies: list[Any]) -> Any:
    return type(replies[0]).side_by_side(replies).together()


def _sorted_out(desk: Desk, ask: Ask, replies: Mapping[str, bytes | Absent]) -> tuple[dict[str, Sums], dict[str, str]]:
    """Replies that can be used, and what is wrong with the others."""
    good: dict[str, Sums] = {}
    bad: dict[str, str] = {}
    for site in desk.server.sites:
        read = read_reply(site, ask, replies.get(site, Absent("no reply")))
        wrong = read if isinstance(read, str) else _fault_of(desk, site, read)
        if wrong is None and not isinstance(read, str):
            good[site] = read.body
        else:
            bad[site] = str(wrong)
    return good, bad


def _fault_of(desk: Desk, site: str, reply: Reply) -> str | None:
    server = desk.server
    told = dict(desk.parts).get(site)
    part = None if told is None else Part.of(told)
    return fault(reply.body, server.request, server.plan, part, server.whole)


def read_reply(site: str, ask: Ask, data: bytes | Absent) -> Reply | str:
    """A reply to this very ask, or a sentence on why there is none."""
    if isinstance(data, Absent):
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
