"""One site of a run as a pure state machine: an ask in, the next state and a reply out.

A client answers the questions of one roster in their order, and each once: the same question gets the stored reply
again (a server that was resumed may repeat itself), another one under the same number is refused.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from logofair.errors import InputError, RefusedError
from logofair.federation.batch import ClientBatch
from logofair.federation.expected import GroupCounts, fault
from logofair.federation.messages import (
    AnswersRequest,
    FinalRequest,
    Opening,
    Publish,
    Question,
    Refusal,
    Reply,
    StepsRequest,
    Sums,
    first_link,
)
from logofair.federation.privacy.release import Release
from logofair.federation.rows import SiteColumns, SiteRows, site_rows
from logofair.federation.state import ClientState
from logofair.federation.wire import carried, encode
from logofair.policy.mixtures import Mixtures

__all__ = ["Client", "SecureIdentity", "StoredClient"]


carried(Mixtures)
carried(Release)


# What is asked under one number, in this order: a plain question, or the steps of a secure sum.
_STEPS = ("", "keys", "shares", "masked", "unmask")


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
    """

    private_key: str
    peers: Mapping[str, str]
    agreed_without: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SecureIdentity(peers={sorted(self.peers)})"  # never the key


@carried
@dataclass(frozen=True, eq=False)
class StoredClient:
    """What a client must find again after its process ended: store it before the reply is sent. It may hold secrets."""

    run: str = ""
    roster: int = 0
    opened: int = 0  # number of the ask that began the roster
    number: int = 0
    step: str = ""
    question: bytes = b""  # digest of the last ask
    reply: Reply | None = None
    memory: ClientState | None = None
    masks: bytes = b""  # the state of secure sums, where they are used
    chain: bytes = b""  # fingerprint of all that this roster was asked


@dataclass(frozen=True, eq=False)
class Client:
    """A site with its columns; ``handle`` never raises for what a server sends.

    Examples
    --------
    >>> from logofair.federation import Server, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", run="demo")
    >>> client = Client("north", SiteColumns(groups=["F", "M"], scores=[0.25, 0.5]))
    >>> client, reply = client.handle(Server.start(plan, ["north", "south"]).ask())
    >>> reply.body.mass.tolist(), reply.refusal
    ([1.0, 1.0], None)
    >>> client.handle(Question("another", 1, 7, None))[1].refusal
    'UNKNOWN_RUN'
    """

    site: str
    columns: SiteColumns
    notes: StoredClient = StoredClient()
    identity: SecureIdentity | None = None
    crowd: ClientBatch | None = None
    releases: tuple[Release, ...] = ()  # made before, and kept by the site
    complaint: str = ""  # for the site's own screen: why it refused, in full

    def handle(self, ask: Question) -> tuple[Client, Reply]:
        """Answer an ask, or refuse with a word from a fixed list."""
        try:
            return self._handled(ask)
        except RefusedError as error:
            return self._refuse(ask, Refusal(error.refusal), str(error))
        except InputError as error:
            return self._refuse(ask, Refusal.BAD_DATA, str(error))
        except Exception:  # whatever a message holds, nothing of the error may leave the site
            return self._refuse(ask, Refusal.INTERNAL, traceback.format_exc())

    def _handled(self, ask: Question) -> tuple[Client, Reply]:
        """The next state and the reply; the same question gets the same reply."""
        question = _question(ask)
        notes = self.notes
        if (ask.run, ask.roster, ask.number, ask.step) == (notes.run, notes.roster, notes.number, notes.step):
            if question != notes.question:
                raise RefusedError(Refusal.OTHER_REQUEST)
            if notes.reply is not None:
                return self, notes.reply
            after, body = self._answer(ask)  # it was refused before, and what was wrong may have been mended
            reply = _reply(ask, self.site, body)
            return replace(after, notes=replace(after.notes, reply=reply), complaint=""), reply
        after, body = self._opened(ask)._answer(ask)
        reply = _reply(ask, self.site, body)
        place = replace(after.notes, run=ask.run, roster=ask.roster, number=ask.number, step=ask.step)
        return replace(after, notes=replace(place, question=question, reply=reply), complaint=""), reply

    @property
    def finished(self) -> bool:
        """Whether the result has arrived."""
        return self.notes.memory is not None and self.notes.memory.result is not None

    def state(self) -> ClientBatch:
        """The client's rows with what it remembers of the run."""
        memory = self.notes.memory
        if memory is None:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        return self.crowd or ClientBatch.remembering([self._rows(memory)], memory)

    def _rows(self, memory: ClientState) -> SiteRows:
        return site_rows(self.columns, memory.plan)

    def _refuse(self, ask: Question, refusal: Refusal, sentence: str = "") -> tuple[Client, Reply]:
        """A refusal changes nothing, so that the right question can still be answered.

        Except under secure sums: there the first question fixes its number, or refusals would tell a server that goes
        on rephrasing it, bit by bit, what the masks hide.
        """
        reply = Reply(ask.run, ask.roster, ask.number, self.site, None, refusal.name)
        refused = replace(self, complaint=sentence or refusal.value)
        notes = self.notes
        secure = notes.memory is not None and notes.memory.plan.secure
        here = ask.step == "masked" and (ask.run, ask.roster) == (notes.run, notes.roster)
        if not (secure and here and self._is_next(ask)):
            return refused, reply
        place = replace(notes, number=ask.number, step=ask.step, question=_question(ask), reply=None)
        return replace(refused, notes=place), reply

    def _is_next(self, ask: Question) -> bool:
        """Whether an ask follows the last one in its roster."""
        notes = self.notes
        further = ask.number == notes.number and _STEPS.index(ask.step) > _STEPS.index(notes.step)
        return further or ask.number == notes.number + 1

    def _opened(self, ask: Question) -> Client:
        """The client in the run and roster of an ask, if the ask is the next one there."""
        notes = self.notes
        if ask.step not in _STEPS:
            raise RefusedError(Refusal.BAD_MESSAGE)
        if isinstance(ask.opening, Opening):
            return self._joined(ask, ask.opening)
        if ask.run != notes.run:
            raise RefusedError(Refusal.UNKNOWN_RUN)
        if ask.roster != notes.roster or not self._is_next(ask):
            raise RefusedError(Refusal.OUT_OF_TURN)
        return self

    def _joined(self, ask: Question, opening: Opening) -> Client:
        """The client at the beginning of a roster."""
        notes, plan = self.notes, opening.plan
        if plan.run != ask.run or self.site not in opening.sites:
            raise RefusedError(Refusal.BAD_MESSAGE)
        if notes.run != ask.run:
            fresh = ClientState(plan, (self.site,), roster=ask.roster, releases=self.releases)
            begun = StoredClient(ask.run, ask.roster, ask.number, memory=fresh, chain=first_link(opening, ask.roster))
            return replace(self, notes=begun, crowd=None)
        if notes.memory is None or plan.digest != notes.memory.plan.digest:
            raise RefusedError(Refusal.OTHER_REQUEST)
        if ask.roster <= notes.roster:
            raise RefusedError(Refusal.OUT_OF_TURN)
        memory = notes.memory.opened(ask.roster)
        crowd = None if self.crowd is None else self.crowd.opened(ask.roster)
        begun = replace(notes, memory=memory, roster=ask.roster, opened=ask.number)
        return replace(self, notes=replace(begun, chain=first_link(opening, ask.roster)), crowd=crowd)

    def _answer(self, ask: Question) -> tuple[Client, Any]:
        plan = self.state().memory.plan
        if ask.step:
            from logofair.federation.secure.exchange import masked_step  # needs an extra

            return masked_step(self, ask)
        if plan.secure and not isinstance(ask.request, Publish):
            raise RefusedError(Refusal.UNSAFE_SUM, "the plan says secure sums, and the server asked without them.")
        return self.sums(ask)

    def sums(self, ask: Question) -> tuple[Client, Sums]:
        """The client's own sums, checked as the server would check them."""
        crowd, stacked = self.state().answer(ask.request)
        own = stacked.member(0)
        found = fault(own, ask.request, crowd.memory.plan, _part(crowd, ask), _whole(crowd))  # type: ignore[arg-type]
        if found is not None:
            raise RefusedError(Refusal.IMPLAUSIBLE, f"not sent, since this site {found}.")
        return replace(self, crowd=crowd, notes=replace(self.notes, memory=crowd.memory)), own


def _question(ask: Question) -> bytes:
    return hashlib.sha256(encode(ask)).digest()


def _reply(ask: Question, site: str, body: Any) -> Reply:
    return Reply(ask.run, ask.roster, ask.number, site, body)


def _part(crowd: ClientBatch, ask: Question) -> GroupCounts | None:
    """The client's own rows, where the check of its reply needs them."""
    if not isinstance(ask.request, AnswersRequest | FinalRequest | StepsRequest):
        return None
    cells = crowd.problem.cells
    return GroupCounts(cells.mass, cells.positives)


def _whole(crowd: ClientBatch) -> GroupCounts | None:
    memory = crowd.memory
    return None if memory.mass is None or memory.positives is None else GroupCounts(memory.mass, memory.positives)
