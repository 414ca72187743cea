"""Secure sums over a transport: two exchanges prepare a roster (keys, shares), then every sum takes two.

Every call makes one exchange and returns the next state, so that a conductor that is killed goes on where it was. In
the first sum of a roster, sites that vanish are excluded and the total is that of the others. Later no site may be
lost: the difference of two rosters' totals would be one site's own numbers. The run stops then, with its state stored;
when the site is back it is resumed, or goes on without the site once every other site has agreed to that by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from logofair.engines.conductor import Desk, Progress, RunError, read_reply
from logofair.engines.transport import Absent, Transport
from logofair.federation.expected import fault, reply_form
from logofair.federation.messages import Ask, Reply, next_link
from logofair.federation.secure import SecureServer, SumFailed
from logofair.federation.wire import decode, encode

import logofair.federation.masked  # isort: skip  # noqa: F401  # so that messages of secure sums can be read

__all__ = ["masked_exchange"]


def masked_exchange(desk: Desk, transport: Transport, timeout: float, patience: int) -> tuple[Desk, Progress]:
    """One exchange of a secure sum."""
    masks = _masks(desk)
    stages = {"keys": _keys, "shares": _shares, "masked": _masked, "unmask": _unmask}
    asks = _asks(desk, masks)
    replies, reasons, sizes = _collected(asks, transport, timeout, 1 if _may_lose(masks) else 1 + patience)
    try:
        after = stages[masks.stage](desk, masks, replies, reasons)
    except SumFailed as error:
        raise RunError(f"run {desk.server.plan.run}: {error}{_because(reasons)}") from None
    purpose = desk.server.purpose + f" ({masks.stage})"
    lost = tuple(sorted(set(desk.server.sites) - set(after.server.sites)))
    return after, Progress(desk.server.number, purpose, len(replies), lost, *sizes)


def _masks(desk: Desk) -> SecureServer:
    """The state of the secure sum under way, or of a new one."""
    server = desk.server
    masks: SecureServer | None = decode(desk.masks) if desk.masks else None
    if masks is None or masks.roster.number != server.roster:
        masks = SecureServer.start(server.plan.run, server.sites, server.roster)
    if masks.stage == "ready":
        kind, shapes = reply_form(server.request, server.plan)
        masks = masks.ask(next_link(server.chain, server.request), kind.steps_of(shapes))
    return masks


def _asks(desk: Desk, masks: SecureServer) -> dict[str, Ask]:
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
    asks: Mapping[str, Ask], transport: Transport, timeout: float, tries: int
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
            data = replies.get(site, Absent("no reply"))
            read = read_reply(site, asks[site], data)
            if isinstance(read, Reply):
                bodies[site] = read.body
                back = max(back, 0 if isinstance(data, Absent) else len(data))
            else:
                reasons[site] = read
    return bodies, {site: why for site, why in reasons.items() if site not in bodies}, (out, back)


def _stored(desk: Desk, masks: SecureServer, lost: Mapping[str, str], purpose: str) -> Desk:
    """The next state; sites lost before the first total are excluded."""
    server = desk.server
    gone = {site: why for site, why in lost.items() if site in server.sites}
    if gone:
        server, _ = server.without(gone)
    return replace(desk, server=server.counted(purpose), masks=encode(masks))


def _keys(desk: Desk, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> Desk:
    after = masks.collect_keys(replies)
    return _stored(desk, after, _missing(after.lost, reasons), "keys")


def _shares(desk: Desk, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> Desk:
    after = masks.collect_shares(replies)
    return _stored(desk, after, _missing(after.lost, reasons), "keys")


def _masked(desk: Desk, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> Desk:
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


def _unmask(desk: Desk, masks: SecureServer, replies: dict[str, Any], reasons: dict[str, str]) -> Desk:
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
