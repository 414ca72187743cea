"""One site of a run as a pure state machine: a message in, the next state and a reply out.

A roster is the numbered list of sites that take part: where a site is lost, the server may have to begin a new one.
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
from logofair.federation.exchanges.publication import PublishRequest
from logofair.federation.exchanges.rounds import Totals, conflict_inside
from logofair.federation.limits import SiteLimits
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.privacy import Release
from logofair.federation.rows import SiteColumns, site_rows
from logofair.federation.server import Server
from logofair.records import encode

# The messages of one number in their order: a plain request alone, or the five steps of a secure sum.
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
    """What a client needs to go on after a restart; it may hold secrets. Store it before the reply is sent.

    ``run``, ``roster``, ``number`` and ``step`` are those of the last message that was answered, ``digest`` is its
    fingerprint and ``reply`` the answer.
    """

    run: str = ""
    roster: int = 0
    opened: int = 0  # the number of the first message of the roster
    number: int = 0
    step: str = ""
    digest: bytes = b""
    reply: ReplyMessage | None = None
    state: ClientState | None = None
    # Under secure sums alone:
    secure_state: bytes = b""  # the encoded state of this site's masks
    replica: Server | None = None  # the server as this site recomputes it, to refuse what it would not have sent
    failed: str = ""  # why this site contributes random words from now on: they garble the total and so stop the run


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
    cached: ClientBatch | None = None  # of the last answer, with what it has computed from the rows
    releases: tuple[Release, ...] = ()  # noised histograms made before, so that the same rows are never noised twice
    limits: SiteLimits = field(default_factory=SiteLimits)  # what the site's people have agreed to
    trouble: str = ""  # why it refused, in full, for the site's own screen; the server learns the refusal's name alone

    def handle(self, message: RequestMessage) -> tuple[Client, ReplyMessage]:
        """Answer a message, or refuse with a word from a fixed list.

        A refusal changes nothing, so that the right request can still be answered. Under secure sums that is safe
        because no refusal after the first message depends on the rows, so the server cannot learn of them by asking.
        """
        try:
            stored, digest = self.stored, hashlib.sha256(encode(message)).digest()
            position = (message.run, message.roster, message.number, message.step)
            if position == (stored.run, stored.roster, stored.number, stored.step) and stored.reply is not None:
                if digest != stored.digest:
                    raise RefusedError(Refusal.OTHER_REQUEST)
                return replace(self, trouble=""), stored.reply
            client = replace(self, trouble="")._in_turn(message)
            client._check_plan(message)
            after, body = client._answer(message)
            reply = ReplyMessage(message.run, message.roster, message.number, self.site, body)
            run, roster, number, step = position
            stored = replace(after.stored, run=run, roster=roster, number=number, step=step, digest=digest, reply=reply)
            return replace(after, stored=stored, trouble=after.trouble or after.forged), reply
        except RefusedError as error:
            refusal, sentence = Refusal(error.refusal), str(error)
        except InputError as error:
            refusal, sentence = Refusal.BAD_DATA, str(error)
        except Exception:  # whatever a message holds, nothing of the error may leave the site
            refusal, sentence = Refusal.INTERNAL, traceback.format_exc()
        reply = ReplyMessage(message.run, message.roster, message.number, self.site, None, refusal.name)
        return replace(self, trouble=sentence), reply

    @property
    def finished(self) -> bool:
        """Whether the result has arrived."""
        return self.stored.state is not None and self.stored.state.result is not None

    @property
    def forged(self) -> str:
        """A sentence on why the published result was not accepted; empty if there is none yet, or it was."""
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

    def _in_turn(self, message: RequestMessage) -> Client:
        """The client in the run and roster of a message; refuses a message that is not the next one there."""
        stored, opening = self.stored, message.opening
        if message.step not in _STEPS:
            raise RefusedError(Refusal.BAD_MESSAGE)
        if opening is None:
            if message.run != stored.run:
                raise RefusedError(Refusal.UNKNOWN_RUN)
            later_step = message.number == stored.number and _STEPS.index(message.step) > _STEPS.index(stored.step)
            if message.roster != stored.roster or not (later_step or message.number == stored.number + 1):
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
            state = replace(stored.state.in_new_roster(message.roster), members=members)
        stored = replace(stored, roster=message.roster, opened=message.number, state=state)
        return replace(self, stored=stored, cached=None)

    def _check_plan(self, message: RequestMessage) -> None:
        """Refuse a plan that the site's people have not agreed to, before a row is looked at."""
        state = self.stored.state
        if state is None:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        self.limits.check(state.plan, self.site, None if message.opening is None else message.opening.members.number)
        for name, what in (("local_tolerance", "tolerance"), ("costs", "costs")):
            began = getattr(state, name)
            if began != getattr(self.limits, name):  # all answers of a run must rest on the same
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
        own, counts, roster_counts = stacked.total(), None, batch.state.totals
        assert request is not None  # else there would be no answer
        if roster_counts is not None:
            counts = GroupCounts(batch.problem.cells.mass, batch.problem.cells.positives)
        wrong = fault(own, request, batch.state.plan, counts, roster_counts)
        if wrong is not None:
            raise RefusedError(Refusal.IMPLAUSIBLE, f"not sent, since this site {wrong}.")
        trouble = conflict_inside(batch, own) if isinstance(own, Totals) else ""
        return replace(self, cached=batch, stored=replace(self.stored, state=batch.state), trouble=trouble), own
