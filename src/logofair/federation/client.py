"""One site of a run as a pure state machine: a message in, the next state and a reply out.

A client answers the requests of one roster in their order, and each once: the same message gets the stored reply
again (a server that was resumed may repeat itself), another one under the same number is refused.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from logofair.errors import InputError, RefusedError
from logofair.federation.batch import ClientBatch, ClientState
from logofair.federation.exchange import GroupCounts, Refusal, Sums, fault
from logofair.federation.exchanges.algorithm1 import StepsRequest
from logofair.federation.exchanges.answers import AnswersRequest
from logofair.federation.exchanges.final import FinalRequest, PublishRequest
from logofair.federation.limits import SiteLimits
from logofair.federation.messages import Opening, ReplyMessage, RequestMessage
from logofair.federation.privacy import Release
from logofair.federation.rows import SiteColumns, site_rows
from logofair.federation.server import Server
from logofair.records import encode

# What comes under one number, in this order: a plain request, or the steps of a secure sum.
_STEPS = ("", "keys", "shares", "masked", "confirm", "unmask")


@dataclass(frozen=True)
class SecureIdentity:
    """What secure sums need of a site: its private key, the public keys of its peers, and whom it can do without.

    Parameters
    ----------
    private_key : str
        The site's own key, in OpenSSH's format.
    peers : mapping
        Public keys of the other sites by name, from outside the protocol.
    agreed_without : tuple of str
        Sites without whom this one agrees, by name, to go on.

    Examples
    --------
    >>> identity = SecureIdentity("-----BEGIN OPENSSH PRIVATE KEY----- ...", {"south": "ecdsa-sha2-nistp384 ..."})
    >>> sorted(identity.peers), identity.agreed_without
    (['south'], ())
    """

    private_key: str
    peers: Mapping[str, str]
    agreed_without: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SecureIdentity(peers={sorted(self.peers)})"  # never the key


@dataclass(frozen=True, eq=False)
class StoredClient:
    """All that a client must find again after its process ended; it may hold secrets. Store it before a reply is sent.

    ``run``, ``roster``, ``number`` and ``step`` are those of the last message, ``digest`` its fingerprint and ``reply``
    what was replied to it.
    """

    run: str = ""
    roster: int = 0
    opened: int = 0  # number of the message that began the roster
    number: int = 0
    step: str = ""
    digest: bytes = b""
    reply: ReplyMessage | None = None
    state: ClientState | None = None
    masks: bytes = b""  # the state of secure sums, where they are used
    replica: Server | None = None  # under secure sums: the server as the totals so far make it
    failed: str = ""  # under secure sums: why this site contributes random words for the rest of the run


@dataclass(frozen=True, eq=False)
class Client:
    """A site with its columns; ``handle`` never raises for what a server sends.

    Examples
    --------
    >>> from logofair.federation import Server, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", pooling="none", smallest_cell=1, run="demo")
    >>> client = Client("north", SiteColumns(sensitive_features=["F", "M"], scores=[0.25, 0.5]))
    >>> client, reply = client.handle(Server.start(plan, ["north", "south"]).message())
    >>> reply.body.mass.tolist(), reply.refusal
    ([1.0, 1.0], None)
    >>> client.handle(RequestMessage("another", 1, 7, None))[1].refusal
    'UNKNOWN_RUN'
    """

    site: str
    columns: SiteColumns
    stored: StoredClient = field(default_factory=StoredClient)
    identity: SecureIdentity | None = None
    cached: ClientBatch | None = None
    releases: tuple[Release, ...] = ()  # made before, and kept by the site
    limits: SiteLimits = field(default_factory=SiteLimits)  # what its people have agreed to
    problem: str = ""  # for the site's own screen: why it refused, in full

    def handle(self, message: RequestMessage) -> tuple[Client, ReplyMessage]:
        """Answer a message, or refuse with a word from a fixed list."""
        try:
            return self._handled(message)
        except RefusedError as error:
            return self._refuse(message, Refusal(error.refusal), str(error))
        except InputError as error:
            return self._refuse(message, Refusal.BAD_DATA, str(error))
        except Exception:  # whatever a message holds, nothing of the error may leave the site
            return self._refuse(message, Refusal.INTERNAL, traceback.format_exc())

    def _handled(self, message: RequestMessage) -> tuple[Client, ReplyMessage]:
        """The next state and the reply; the same message gets the same reply."""
        digest = _digest(message)
        stored = self.stored
        if _position(message) == _position(stored) and stored.reply is not None:
            if digest != stored.digest:
                raise RefusedError(Refusal.OTHER_REQUEST)
            return replace(self, problem=""), stored.reply
        after, body = replace(self, problem="")._opened(message)._answer(message)
        reply = ReplyMessage(message.run, message.roster, message.number, self.site, body)
        there = replace(after.stored, run=message.run, roster=message.roster, number=message.number, step=message.step)
        problem = after.problem or after.forged
        return replace(after, stored=replace(there, digest=digest, reply=reply), problem=problem), reply

    @property
    def finished(self) -> bool:
        """Whether the result has arrived."""
        return self.stored.state is not None and self.stored.state.result is not None

    @property
    def forged(self) -> str:
        """Why the result that was published is not stored, in a sentence; empty where nothing speaks against it."""
        state = self.stored.state
        if state is None or not state.forged:
            return ""
        return f"run {self.stored.run!r}: the published result is refused, since {state.forged}; no policy is stored."

    @property
    def batch(self) -> ClientBatch:
        """The client's rows with its state of the run, as a batch of one."""
        state = self.stored.state
        if state is None:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        return self.cached or ClientBatch.resumed([site_rows(self.columns, state.plan)], state)

    def _refuse(self, message: RequestMessage, refusal: Refusal, sentence: str = "") -> tuple[Client, ReplyMessage]:
        """A refusal changes nothing, so that the right request can still be answered.

        Under secure sums that is safe because no refusal after the first message depends on the rows.
        """
        reply = ReplyMessage(message.run, message.roster, message.number, self.site, None, refusal.name)
        return replace(self, problem=sentence or refusal.value), reply

    def _is_next(self, message: RequestMessage) -> bool:
        """Whether a message follows the last one in its roster."""
        stored = self.stored
        further = message.number == stored.number and _STEPS.index(message.step) > _STEPS.index(stored.step)
        return further or message.number == stored.number + 1

    def _opened(self, message: RequestMessage) -> Client:
        """The client in the run and roster of a message, if the message is the next one there."""
        stored = self.stored
        if message.step not in _STEPS:
            raise RefusedError(Refusal.BAD_MESSAGE)
        if isinstance(message.opening, Opening):
            return self._joined(message, message.opening)
        if message.run != stored.run:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        if message.roster != stored.roster or not self._is_next(message):
            raise RefusedError(Refusal.OUT_OF_TURN)
        return self

    def _joined(self, message: RequestMessage, opening: Opening) -> Client:
        """The client at the beginning of a roster."""
        stored, plan = self.stored, opening.plan
        if plan.run != message.run or (plan.secure and self.site not in opening.members.names):
            raise RefusedError(Refusal.BAD_MESSAGE)
        if stored.run != message.run:
            fresh = ClientState(
                plan,
                (self.site,),
                roster=message.roster,
                releases=self.releases,
                members=opening.members,
                local_tolerance=self.limits.local_tolerance,
                costs=self.limits.costs,
            )
            begun = StoredClient(message.run, message.roster, message.number, state=fresh)
            return replace(self, stored=begun, cached=None)
        if stored.state is None or plan.digest != stored.state.plan.digest:
            raise RefusedError(Refusal.OTHER_REQUEST)
        if message.roster <= stored.roster:
            raise RefusedError(Refusal.OUT_OF_TURN)
        state = replace(stored.state.opened(message.roster), members=opening.members)
        batch = None if self.cached is None else self.cached.opened(message.roster)
        batch = None if batch is None else replace(batch, state=state)
        begun = replace(stored, state=state, roster=message.roster, opened=message.number)
        return replace(self, stored=begun, cached=batch)

    def _check_plan(self, message: RequestMessage) -> None:
        """Refuse a plan that the site's people have not agreed to: before a row is looked at."""
        sites = message.opening.members.number if isinstance(message.opening, Opening) else None
        state = self.stored.state
        if state is None:
            return
        self.limits.check(state.plan, self.site, sites)
        for name, what in (("local_tolerance", "tolerance"), ("costs", "costs")):
            began = getattr(state, name)
            if began != getattr(self.limits, name):  # its answers so far were given with that
                raise RefusedError(
                    Refusal.PLAN_REFUSED,
                    f"run {state.plan.run!r}: it began with {'none' if began is None else began} as this site's own "
                    f"{what}; start the site with that again.",
                )

    def _answer(self, message: RequestMessage) -> tuple[Client, Any]:
        self._check_plan(message)
        if self.stored.state is None:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        secure = self.stored.state.plan.secure
        if not message.step and not secure:
            return self.sums(message)
        if not message.step and not isinstance(message.request, PublishRequest):
            raise RefusedError(Refusal.UNSAFE_SUM, "the plan says secure sums, and the request came without them.")
        from logofair.federation.secure.client_steps import secure_step  # needs an extra

        return secure_step(self, message)

    def sums(self, message: RequestMessage) -> tuple[Client, Sums]:
        """The client's own sums, checked as the server would check them."""
        batch, stacked = self.batch.answer(message.request)
        own = stacked.client(0)
        counts, roster = _own_counts(batch, message), _roster_counts(batch)
        found = fault(own, message.request, batch.state.plan, counts, roster)  # type: ignore[arg-type]
        if found is not None:
            raise RefusedError(Refusal.IMPLAUSIBLE, f"not sent, since this site {found}.")
        return replace(self, cached=batch, stored=replace(self.stored, state=batch.state)), own


def _position(of: RequestMessage | StoredClient) -> tuple[str, int, int, str]:
    return of.run, of.roster, of.number, of.step


def _digest(message: RequestMessage) -> bytes:
    return hashlib.sha256(encode(message)).digest()


def _own_counts(batch: ClientBatch, message: RequestMessage) -> GroupCounts | None:
    """The client's own rows, where the check of its reply needs them."""
    if not isinstance(message.request, AnswersRequest | FinalRequest | StepsRequest):
        return None
    cells = batch.problem.cells
    return GroupCounts(cells.mass, cells.positives)


def _roster_counts(batch: ClientBatch) -> GroupCounts | None:
    state = batch.state
    return None if state.mass is None or state.positives is None else GroupCounts(state.mass, state.positives)
