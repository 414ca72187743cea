"""The steps of a secure sum inside a client: its sums leave masked, and only under the rules of secure sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logofair.errors import RefusedError, SecureRefusalError
from logofair.federation.replies import Refusal
from logofair.federation.requests import RequestMessage, next_history
from logofair.federation.secure import Keys, Masked, Material, SecureClient, SecureRefusal, Unmasked
from logofair.federation.secure.primitives import signing_key
from logofair.federation.wire import decode, encode

if TYPE_CHECKING:
    from logofair.federation.client import Client


def secure_step(client: Client, message: RequestMessage) -> tuple[Client, Any]:
    """One of the steps ``keys``, ``shares``, ``masked`` and ``unmask``."""
    if client.identity is None:
        raise RefusedError(Refusal.NO_KEYS, "secure sums need this site's key and its peers' public keys; name them.")
    steps = {"keys": _keys, "shares": _shares, "masked": _masked, "unmask": _unmask}
    if message.step not in steps:
        raise RefusedError(Refusal.BAD_MESSAGE)
    try:
        return steps[message.step](client, message)
    except SecureRefusalError as refused:
        changed = refused.code is SecureRefusal.ROSTER_CHANGED
        refusal = Refusal.NOT_AGREED if changed else Refusal.UNSAFE_SUM
        raise RefusedError(refusal, f"secure sums: {refused.code.value.replace('_', ' ')}.") from None


def _sum_number(client: Client, message: RequestMessage) -> int:
    """Sums of a roster are numbered from 1, messages of a run throughout."""
    return message.number - client.stored.opened + 1


def _secure_state(client: Client) -> SecureClient:
    if not client.stored.masks:
        raise RefusedError(Refusal.OUT_OF_TURN)
    state: SecureClient = decode(client.stored.masks)
    assert client.identity is not None
    return state.agree(client.identity.agreed_without)


def _with_secure_state(client: Client, state: SecureClient) -> Client:
    return replace(client, stored=replace(client.stored, masks=encode(state)))


def _keys(client: Client, message: RequestMessage) -> tuple[Client, Keys]:
    identity, opening = client.identity, message.opening
    if opening is None or identity is None:
        raise RefusedError(Refusal.OUT_OF_TURN)
    known = {*identity.peers, client.site}
    if 3 * len(opening.sites) < 2 * len(known - set(identity.agreed_without)):
        # Few sites can be outnumbered by those that help the server; who may be missing is for people to say.
        raise RefusedError(Refusal.NOT_AGREED, "the roster has fewer than two thirds of the sites whose keys are here.")
    key = signing_key(identity.private_key.encode())
    if client.stored.masks:
        before = _secure_state(client)
        if before.roster.number >= message.roster:  # a second beginning would let one roster be summed twice
            raise RefusedError(Refusal.OUT_OF_TURN)
        state, keys = before.again(opening.sites, key, number=message.roster)
    else:
        state, keys = SecureClient.start(
            message.run,
            client.site,
            opening.sites,
            key,
            identity.peers,
            identity.agreed_without,
            number=message.roster,
        )
    return _with_secure_state(client, state), keys


def _shares(client: Client, message: RequestMessage) -> tuple[Client, Material]:
    if not isinstance(message.sealed, Mapping):
        raise RefusedError(Refusal.BAD_MESSAGE)
    state, material = _secure_state(client).shares(message.sealed)
    return _with_secure_state(client, state), material


def _masked(client: Client, message: RequestMessage) -> tuple[Client, Masked]:
    if not isinstance(message.sealed, Mapping):
        raise RefusedError(Refusal.BAD_MESSAGE)
    secure = _secure_state(client)
    history = next_history(client.stored.history, message.request)
    client, sums = client.sums(message)
    state, masked = secure.masked(_sum_number(client, message), history, message.sealed, sums.vector(), sums.steps())
    after = _with_secure_state(client, state)
    return replace(after, stored=replace(after.stored, history=history)), masked


def _unmask(client: Client, message: RequestMessage) -> tuple[Client, Unmasked]:
    if not isinstance(message.sealed, tuple) or not all(isinstance(name, str) for name in message.sealed):
        raise RefusedError(Refusal.BAD_MESSAGE)
    state, unmasked = _secure_state(client).unmask(_sum_number(client, message), message.sealed)
    return _with_secure_state(client, state), unmasked
