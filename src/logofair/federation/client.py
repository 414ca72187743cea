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
from logofair.federation.exchanges.final import PublishRequest
from logofair.federation.limits import SiteLimits
from logofair.federation.messages import ReplyMessage, RequestMessage
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

    private_key: str = field(repr=False)
    peers: Mapping[str, str]
    agreed_without: tuple[str, ...] = ()


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
        """Answer a message, or refuse with a word from a fixed list.

        A refusal changes nothing, so that the right request can still be answered. Under secure sums that is safe
        because no refusal after the first message depends on the rows.
        """
        try:
            stored, digest = self.stored, hashlib.sha256(encode(message)).digest()
            position = (message.run, message.roster, message.number, message.step)
            if position == (stored.run, stored.roster, stored.number, stored.step) and stored.reply is not None:
                if digest != stored.digest:
                    raise RefusedError(Refusal.OTHER_REQUEST)
                return replace(self, problem=""), stored.reply
            client = replace(self, problem="")._opened(message)
            client._check_plan(message)
            after, body = client._answer(message)
            reply = ReplyMessage(message.run, message.roster, message.number, self.site, body)
            run, roster, number, step = position
            stored = replace(after.stored, run=run, roster=roster, number=number, step=step, digest=digest, reply=reply)
            return replace(after, stored=stored, problem=after.problem or after.forged), reply
        except RefusedError as error:
            refusal, sentence = Refusal(error.refusal), str(error)
        except InputError as error:
            refusal, sentence = Refusal.BAD_DATA, str(error)
        except Exception:  # whatever a message holds, nothing of the error may leave the site
            refusal, sentence = Refusal.INTERNAL, traceback.format_exc()
        reply = ReplyMessage(message.run, message.roster, message.number, self.site, None, refusal.name)
        return replace(self, problem=sentence), reply

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

    def _opened(self, message: RequestMessage) -> Client:
        """The client in the run and roster of a message, if the message is the next one there."""
        stored, opening = self.stored, message.opening
        if message.step not in _STEPS:
            raise RefusedError(Refusal.BAD_MESSAGE)
        if opening is None:
            if message.run != stored.run:
                raise RefusedError(Refusal.UNKNOWN_RUN)
            further = message.number == stored.number and _STEPS.index(message.step) > _STEPS.index(stored.step)
            if message.roster != stored.roster or not (further or message.number == stored.number + 1):
                raise RefusedError(Refusal.OUT_OF_TURN)
            return self
        plan, members = opening.plan, opening.members
        if plan.run != message.run or (plan.secure and self.site not in members.names):
            raise RefusedError(Refusal.BAD_MESSAGE)
        if stored.run != message.run:
            state = ClientState(
                plan,
                (self.site,),
                roster=message.roster,
                releases=self.releases,
                members=members,
                local_tolerance=self.limits.local_tolerance,
                costs=self.limits.costs,
            )
            stored = StoredClient(message.run)
        elif stored.state is None or plan.digest != stored.state.plan.digest:
            raise RefusedError(Refusal.OTHER_REQUEST)
        elif message.roster <= stored.roster:
            raise RefusedError(Refusal.OUT_OF_TURN)
        else:
            state = replace(stored.state.opened(message.roster), members=members)
        stored = replace(stored, roster=message.roster, opened=message.number, state=state)
        return replace(self, stored=stored, cached=None)

    def _check_plan(self, message: RequestMessage) -> None:
        """Refuse a plan that the site's people have not agreed to: before a row is looked at."""
        state = self.stored.state
        if state is None:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        self.limits.check(state.plan, self.site, None if message.opening is None else message.opening.members.number)
        for name, what in (("local_tolerance", "tolerance"), ("costs", "costs")):
            began = getattr(state, name)
            if began != getattr(self.limits, name):  # its answers so far were given with that
                raise RefusedError(
                    Refusal.PLAN_REFUSED,
                    f"run {state.plan.run!r}: it began with {'none' if began is None else began} as this site's own "
                    f"{what}; start the site with that again.",
                )

    def _answer(self, message: RequestMessage) -> tuple[Client, Any]:
        secure = self.stored.state is not None and self.stored.state.plan.secure
        if not message.step and not secure:
            return self.sums(message)
        if not message.step and not isinstance(message.request, PublishRequest):
            raise RefusedError(Refusal.UNSAFE_SUM, "the plan says secure sums, and the request came without them.")
        from logofair.federation.secure.client_steps import secure_step  # needs an extra

        return secure_step(self, message)

    def sums(self, message: RequestMessage) -> tuple[Client, Sums]:
        """The client's own sums, checked as the server would check them."""
        request = message.request
        batch, stacked = self.batch.answer(request)
        own, counts, roster = stacked.total(), None, batch.state.totals
        assert request is not None  # which has been answered
        if roster is not None:
            counts = GroupCounts(batch.problem.cells.mass, batch.problem.cells.positives)
        found = fault(own, request, batch.state.plan, counts, roster)
        if found is not None:
            raise RefusedError(Refusal.IMPLAUSIBLE, f"not sent, since this site {found}.")
        return replace(self, cached=batch, stored=replace(self.stored, state=batch.state)), own
