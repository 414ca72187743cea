"""The steps of a secure sum inside a client: its sums leave masked, and only in answer to what must be asked.

The server decides nothing: what it asks next follows from the plan and the totals. So every client holds a replica of
it (:class:`~logofair.federation.server.Server`), recomputes each total from what all sites have signed, and refuses a
request that its replica would not send, or a result that its replica did not reach.

Nothing that a server can see depends on the rows once they were checked in answer to the first message: order and
replay are checked before the rows are touched. A client that cannot answer contributes random words, in this sum and
in all that follow, and says so on its own screen: the total is garbled and the run stops at once. Zeros would leave a
total of the others, which with enough failures is one site's.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import InfeasibleError, InputError, RefusedError, RunError, SecureRefusalError
from logofair.federation.client import SecureIdentity
from logofair.federation.exchange import OF_CHANCES, Refusal, reply_form
from logofair.federation.exchanges.calibrating import ContributorsRequest
from logofair.federation.exchanges.publication import PublishRequest, Received
from logofair.federation.messages import Opening, RequestMessage, agrees
from logofair.federation.secure import (
    Keys,
    Masked,
    Relay,
    SecureClient,
    SecureRefusal,
)
from logofair.federation.secure.primitives import SigningKey, fits_sum, signing_key
from logofair.federation.server import Server, check_result
from logofair.records import decode, encode

if TYPE_CHECKING:
    from logofair.federation.batch import ClientBatch
    from logofair.federation.client import Client

# Steps whose message brings what others have sealed, signed or listed.
_SEALED = ("masked", "confirm", "unmask")

_REFUSALS: dict[Enum, Refusal] = {
    SecureRefusal.ROSTER_CHANGED: Refusal.NOT_AGREED,
    SecureRefusal.BAD_RELAY: Refusal.OTHER_THAN_REPLAY,
}


def secure_step(client: Client, message: RequestMessage) -> tuple[Client, Any]:
    """One of the steps ``keys``, ``shares``, ``masked``, ``confirm`` and ``unmask``, or the publication."""
    if client.identity is None:
        raise RefusedError(Refusal.NO_KEYS, "secure sums need this site's key and its peers' public keys; name them.")
    if message.opening is not None and message.step != "keys":
        raise RefusedError(Refusal.BAD_MESSAGE)
    if message.step in _SEALED and message.sealed is None:
        raise RefusedError(Refusal.BAD_MESSAGE)
    number, sealed = message.number - client.stored.opened + 1, message.sealed or {}  # sums of a roster are from 1 on
    try:
        if message.step == "keys":
            return _keys(client, message)
        if message.step == "masked":
            return _masked(client, message, number)
        if message.step == "":
            return _publish(client, message)
        body: Any = None
        state = _secure_state(client)
        if message.step == "shares":
            keys = {site: each for site, each in (message.keys or {}).items() if isinstance(each, Keys)}
            state, body = state.shares(keys)
        elif message.step == "confirm":
            state, body = state.confirm(number, sealed, _signing_key(client))
        elif message.step == "unmask":
            state, body = state.unmask(number, sealed)
        return _with_secure_state(client, state), body
    except SecureRefusalError as refused:
        refusal = _REFUSALS.get(refused.code, Refusal.UNSAFE_SUM)
        raise RefusedError(refusal, f"secure sums: {refused.code.value.replace('_', ' ')}.") from None


def _identity(client: Client) -> SecureIdentity:
    assert client.identity is not None
    return client.identity


def _signing_key(client: Client) -> SigningKey:
    return signing_key(_identity(client).private_key.encode())


def _secure_state(client: Client) -> SecureClient:
    if not client.stored.secure_state:
        raise RefusedError(Refusal.OUT_OF_TURN)
    return decode(client.stored.secure_state, SecureClient).agree(_identity(client).agreed_without)


def _with_secure_state(client: Client, state: SecureClient) -> Client:
    return replace(client, stored=replace(client.stored, secure_state=encode(state)))


def _keys(client: Client, message: RequestMessage) -> tuple[Client, Keys]:
    identity, opening = _identity(client), message.opening
    if opening is None:
        raise RefusedError(Refusal.OUT_OF_TURN)
    known = {*identity.peers, client.site}
    strangers = sorted(set(opening.members.names) - known)
    if strangers:
        raise RefusedError(
            Refusal.NO_KEYS,
            f"nobody here has said that the key of {', '.join(strangers)} is genuine: have its people read you its "
            "fingerprint (logofair federate keys show), and pass --trust NAME=FINGERPRINT.",
        )
    if 3 * len(opening.members.names) < 2 * len(known - set(identity.agreed_without)):
        # Few sites can be outnumbered by those that help the server; who may be missing is for people to say.
        raise RefusedError(Refusal.NOT_AGREED, "the roster has fewer than two thirds of the sites whose keys are here.")
    _check_range(client.batch, len(opening.members.names))  # rows are checked here: no later refusal depends on them
    client = _with_replica(_caught_up(client, message) if client.stored.secure_state else client, message, opening)
    key = _signing_key(client)
    if client.stored.secure_state:
        before = _secure_state(client)
        if before.roster.number >= message.roster:  # a second beginning would let one roster be summed twice
            raise RefusedError(Refusal.OUT_OF_TURN)
        state, keys = before.again(opening.members.names, key, number=message.roster)
    else:
        state, keys = SecureClient.start(
            message.run,
            client.site,
            opening.members.names,
            key,
            identity.peers,
            identity.agreed_without,
            number=message.roster,
        )
    return _with_secure_state(client, state), keys


def _with_replica(client: Client, message: RequestMessage, opening: Opening) -> Client:
    """The client with its replica of the server at the beginning of a roster."""
    before = client.stored.replica
    try:
        if before is None:
            replica = Server.start(opening.plan, opening.members.names)
        else:
            gone = [site for site in before.sites if site not in opening.members.names]
            if not gone or message.number <= before.number:  # without someone less there is nothing to begin again
                raise RefusedError(Refusal.OTHER_THAN_REPLAY)
            replica = before.reopened(dict.fromkeys(gone, "taken out by agreement"))
    except (InputError, RunError) as error:
        raise RefusedError(Refusal.OTHER_THAN_REPLAY, str(error)) from None
    if replica.sites != opening.members.names:
        raise RefusedError(Refusal.OTHER_THAN_REPLAY)
    replica = replica.begun(message.roster, message.number)
    return replace(client, stored=replace(client.stored, replica=replica))


def _caught_up(client: Client, message: RequestMessage) -> Client:
    """The client after the last total, which it recomputes; where a new roster begins it may never have been formed."""
    secure, replica = _secure_state(client), client.stored.replica
    if replica is None:
        raise RefusedError(Refusal.OUT_OF_TURN)
    due = secure.number > 0 and replica.number == replica.opened + secure.number - 1
    relay = message.relay
    formed = isinstance(relay, Relay) and (relay.roster, relay.number) == (replica.roster, secure.number)
    if not due or (message.opening is not None and not formed):
        return client
    secure, vector = secure.recomputed(relay, replica.sum_steps)  # type: ignore[arg-type]  # which it looks at itself
    assert secure.last is not None
    gone = set(replica.sites) - set(secure.last.contributors or ())
    if gone and (replica.roster, secure.number) != (1, 1):
        raise RefusedError(Refusal.OTHER_THAN_REPLAY)
    try:
        if gone:
            replica, _ = replica.without(dict.fromkeys(gone, "not in the first total"))
        after = replica.take_sum(vector)
    except (RunError, InfeasibleError) as error:  # either would have ended the run
        raise RefusedError(Refusal.OTHER_THAN_REPLAY, str(error)) from None
    stored = replace(client.stored, replica=after, secure_state=encode(secure))
    if isinstance(replica.request, ContributorsRequest) and _misattributed(client, replica.request, vector, gone):
        why = "this site contributes random numbers, since another contributes in its name, or in a lost site's."
        return replace(client, stored=replace(stored, failed=why), trouble=why)
    return replace(client, stored=stored)


def _misattributed(client: Client, request: ContributorsRequest, total: Floats, gone: Collection[str]) -> bool:
    """Whether this site's row of the contributors is another than it sent, or one is filled of a site that is gone."""
    own = client.batch.answer(request)[1].total().vector()
    kind, shapes = reply_form(request, client.batch.state.plan)
    for said, sent in zip(*(vars(kind.from_vector(each, shapes)).values() for each in (total, own)), strict=True):
        for place, site in enumerate(request.sites):
            if site in (client.site, *gone) and not np.array_equal(said[place], sent[place]):
                return True
    return False


def _followed(client: Client, message: RequestMessage) -> Client:
    """The client whose replica has sent the same, or a refusal."""
    replica = client.stored.replica
    if replica is None or replica.number != message.number or not agrees(replica.request, message.request):
        raise RefusedError(
            Refusal.OTHER_THAN_REPLAY, "the server asks or publishes what does not follow from the totals so far."
        )
    if encode(replica.request) != encode(message.request):  # by rounding alone: the replica goes on from what came
        replica = replace(replica, phase=replace(replica.phase, request=message.request))
    return replace(client, stored=replace(client.stored, replica=replica))


def _masked(client: Client, message: RequestMessage, number: int) -> tuple[Client, Masked]:
    client = _followed(_caught_up(client, message), message)
    secure, replica = _secure_state(client), client.stored.replica
    assert replica is not None
    # All that may be refused is refused by now, but for seals and participants, which know nothing of the rows either.
    client, vector = _own_vector(client, message, replica.sum_steps, len(secure.roster.sites))
    state, masked = secure.masked(
        number,
        replica.request_history,
        message.sealed or {},
        vector,
        replica.sum_steps,
        _signing_key(client),
    )
    return _with_secure_state(client, state), masked


def _own_vector(client: Client, message: RequestMessage, steps: Floats, sites: int) -> tuple[Client, Floats | None]:
    """The client's numbers; None from the first time on that it could not answer."""
    if client.stored.failed:
        return client, None
    try:
        after, sums = client.sums(message)
        if fits_sum(sums.vector(), steps, sites):
            return after, sums.vector()
        why = "its numbers are too large to be summed."
    except (RefusedError, InputError) as error:
        why = str(error)
    except Exception:
        why = traceback.format_exc()
    why = f"this site could not answer, so it contributes random numbers, and the run stops without a result: {why}"
    return replace(client, stored=replace(client.stored, failed=why), trouble=why), None


def _check_range(batch: ClientBatch, sites: int) -> None:
    """Refuse rows that weigh more than the totals of the plan can hold, before anything is sent of them."""
    rows = batch.preparation.rows
    weight = np.array([float(rows.scores.size if rows.weights is None else rows.weights.sum())])
    if not fits_sum(weight, np.full(weight.size, OF_CHANCES), sites):
        raise RefusedError(
            Refusal.BAD_DATA,
            f"sample_weight: the rows weigh {weight.sum():.3g} in all, and secure sums of {sites} sites hold less; "
            "divide the weights of all sites by one number.",
        )


def _publish(client: Client, message: RequestMessage) -> tuple[Client, Received]:
    """Take the result that the replica reached; what is wrong with it on the own rows stays on the own screen."""
    client = _caught_up(client, message)
    replica = client.stored.replica
    assert replica is not None
    try:
        check_result(replica)
    except RunError as error:
        raise RefusedError(Refusal.OTHER_THAN_REPLAY, str(error)) from None
    client = _followed(client, message)
    assert isinstance(message.request, PublishRequest)
    try:
        batch, _ = client.batch.answer(message.request)
    except (RefusedError, InputError) as error:
        return replace(client, trouble=str(error)), Received()
    return replace(client, cached=batch, stored=replace(client.stored, state=batch.state)), Received()
