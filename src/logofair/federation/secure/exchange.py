"""The steps of a secure sum inside a client: its sums leave masked, and only under the rules of secure sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logofair.errors import RefusedError, SecureRefusalError
from logofair.federation.messages import Question, Refusal, next_link
from logofair.federation.secure import Keys, Masked, Material, SecureClient, SecureRefusal, SecureServer, Unmasked
from logofair.federation.secure.client import Contribution, DealtSecrets
from logofair.federation.secure.primitives import signing_key
from logofair.federation.secure.roster import Roster
from logofair.federation.wire import carried, decode, encode

if TYPE_CHECKING:
    from logofair.federation.client import Client

__all__ = ["masked_step"]


for kind in (Contribution, DealtSecrets, Keys, Masked, Material, Roster, SecureClient, SecureServer, Unmasked):
    carried(kind)


def masked_step(client: Client, ask: Question) -> tuple[Client, Any]:
    """One of the steps ``keys``, ``shares``, ``masked`` and ``unmask``."""
    if client.identity is None:
        raise RefusedError(Refusal.NO_KEYS, "secure sums need this site's key and its peers' public keys; name them.")
    steps = {"keys": _keys, "shares": _shares, "masked": _masked, "unmask": _unmask}
    if ask.step not in steps:
        raise RefusedError(Refusal.BAD_MESSAGE)
    try:
        return steps[ask.step](client, ask)
    except SecureRefusalError as refused:
        changed = refused.code is SecureRefusal.ROSTER_CHANGED
        refusal = Refusal.NOT_AGREED if changed else Refusal.UNSAFE_SUM
        raise RefusedError(refusal, f"secure sums: {refused.code.value.replace('_', ' ')}.") from None


def _sum_number(client: Client, ask: Question) -> int:
    """Sums of a roster are numbered from 1, asks of a run throughout."""
    return ask.number - client.notes.opened + 1


def _remembered(client: Client) -> SecureClient:
    if not client.notes.masks:
        raise RefusedError(Refusal.OUT_OF_TURN)
    state: SecureClient = decode(client.notes.masks)
    assert client.identity is not None
    return state.agree(client.identity.agreed_without)


def _kept(client: Client, state: SecureClient) -> Client:
    return replace(client, notes=replace(client.notes, masks=encode(state)))


def _keys(client: Client, ask: Question) -> tuple[Client, Keys]:
    identity, opening = client.identity, ask.opening
    if opening is None or identity is None:
        raise RefusedError(Refusal.OUT_OF_TURN)
    known = {*identity.peers, client.site}
    if 3 * len(opening.sites) < 2 * len(known - set(identity.agreed_without)):
        # Few sites can be outnumbered by those that help the server; who may be missing is for people to say.
        raise RefusedError(Refusal.NOT_AGREED, "the roster has fewer than two thirds of the sites whose keys are here.")
    key = signing_key(identity.private_key.encode())
    if client.notes.masks:
        before = _remembered(client)
        if before.roster.number >= ask.roster:  # a second beginning would let one roster be asked twice
            raise RefusedError(Refusal.OUT_OF_TURN)
        state, keys = before.again(opening.sites, key, number=ask.roster)
    else:
        state, keys = SecureClient.start(
            ask.run,
            client.site,
            opening.sites,
            key,
            identity.peers,
            identity.agreed_without,
            number=ask.roster,
        )
    return _kept(client, state), keys


def _shares(client: Client, ask: Question) -> tuple[Client, Material]:
    if not isinstance(ask.sealed, Mapping):
        raise RefusedError(Refusal.BAD_MESSAGE)
    state, material = _remembered(client).shares(ask.sealed)
    return _kept(client, state), material


def _masked(client: Client, ask: Question) -> tuple[Client, Masked]:
    if not isinstance(ask.sealed, Mapping):
        raise RefusedError(Refusal.BAD_MESSAGE)
    secure = _remembered(client)
    chain = next_link(client.notes.chain, ask.request)
    client, sums = client.sums(ask)
    state, message = secure.masked(_sum_number(client, ask), chain, ask.sealed, sums.vector(), sums.steps())
    kept = _kept(client, state)
    return replace(kept, notes=replace(kept.notes, chain=chain)), message


def _unmask(client: Client, ask: Question) -> tuple[Client, Unmasked]:
    if not isinstance(ask.sealed, tuple) or not all(isinstance(name, str) for name in ask.sealed):
        raise RefusedError(Refusal.BAD_MESSAGE)
    state, message = _remembered(client).unmask(_sum_number(client, ask), ask.sealed)
    return _kept(client, state), message
