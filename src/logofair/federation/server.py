"""The server as a pure state machine: what to ask next, what follows from a total, how to go on when sites are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logofair.errors import InputError, QuorumLostError
from logofair.federation.expected import GroupCounts
from logofair.federation.messages import Opening, Publish, Question, Request, Sums, first_link, next_link
from logofair.federation.outcome import ExcludedSite, RunResult
from logofair.federation.phases import CalibrationPhase, Finished, Phase, first_phase
from logofair.federation.plan import Plan
from logofair.federation.wire import carried

__all__ = ["Server"]


@carried
@dataclass(frozen=True, eq=False)
class Server:
    """A run as the server knows it; it can be stored after every exchange and resumed to the bit.

    Parameters
    ----------
    plan : Plan
        What was agreed on.
    sites : tuple of str
        The roster: whose totals count.
    phase : Phase
        What is asked now, and what is known so far.
    roster, number : int
        Rosters so far, and the number of the exchange under way.
    opened : int
        Number of the exchange that began this roster.
    lost : tuple of Lost
        Sites that were excluded, when and why.
    exchanges : mapping
        Exchanges done, by what they were for.
    done : bool
        Whether the result has been published.
    chain : bytes
        Fingerprint of all that this roster was asked before the exchange under way.

    Examples
    --------
    >>> from logofair.federation import SiteColumns, ClientBatch, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", local_tolerance=0, global_tolerance=0, run="demo")
    >>> crowd = ClientBatch.of({name: SiteColumns(["F", "F", "M", "M"], [0.9, 0.3, 0.6, 0.1]) for name in "abc"}, plan)
    >>> server = Server.start(plan, "abc")
    >>> while not server.done:
    ...     crowd, sums = crowd.answer(server.request)
    ...     server = server.take(sums.total())
    >>> server.outcome.certificate.violation < 1e-9, round(server.outcome.certificate.primal, 3)
    (True, 0.775)
    """

    plan: Plan
    sites: tuple[str, ...]
    phase: Any
    roster: int = 1
    number: int = 1
    opened: int = 1
    lost: tuple[ExcludedSite, ...] = ()
    exchanges: Mapping[str, int] | None = None
    done: bool = False
    chain: bytes = b""

    @classmethod
    def start(cls, plan: Plan, sites: Sequence[str], absent: Sequence[str] = ()) -> Server:
        """Begin a run with the sites that are there; ``absent`` were expected and did not come."""
        names = tuple(sorted(sites))
        if len(set(names)) != len(names):
            raise InputError("sites: some name occurs twice; give every site a name of its own.")
        unknown = [site for site, _ in plan.client_tolerances if site not in (*names, *absent)]
        if unknown:
            raise InputError(
                f"client_tolerances: names site {unknown[0]!r}, which is not here; sites are {', '.join(names[:9])}."
            )
        _enough(plan, names)
        lost = tuple(ExcludedSite(site, "did not come", 0, "the beginning") for site in sorted(absent))
        return cls(plan, names, first_phase(plan), lost=lost).begun()

    @property
    def request(self) -> Request:
        """What every site of the roster is asked now."""
        phase: Phase = self.phase
        return Publish(self.outcome.summary()) if isinstance(phase, Finished) else phase.request

    @property
    def purpose(self) -> str:
        """What the exchange under way is for."""
        return str(self.phase.name)

    def ask(self) -> Question:
        """The message to every site of the roster; the first of a roster tells the plan and who takes part."""
        opening = Opening(self.plan, self.sites) if self.number == self.opened else None
        return Question(self.plan.run, self.roster, self.number, self.request, opening)

    def take(self, total: Sums) -> Server:
        """The next state, given the total of the replies of the whole roster."""
        counted = self.counted(self.purpose)
        if isinstance(self.phase, Finished):
            return replace(counted, done=True)
        phase = self.phase.take(total, self.plan, len(self.sites))
        return replace(counted, phase=phase, number=self.number + 1, chain=next_link(self.chain, self.request))

    def begun(self) -> Server:
        """The state at the beginning of a roster, with its first link."""
        return replace(self, chain=first_link(Opening(self.plan, self.sites), self.roster))

    def counted(self, purpose: str) -> Server:
        """The state with one more exchange counted."""
        return replace(self, exchanges=dict(Counter(self.exchanges or {}) + Counter({purpose: 1})))

    def without(self, lost: Mapping[str, str]) -> tuple[Server, bool]:
        """The state without some sites, and whether the replies of the others may be taken as they are.

        Where they may not, a new roster begins: its totals and all past answers are void.
        """
        gone = tuple(ExcludedSite(site, reason, self.number, self.purpose) for site, reason in sorted(lost.items()))
        if isinstance(self.phase, Finished):  # every policy is settled: who did not hear of it can ask later
            return replace(self, lost=self.lost + gone), True
        left = tuple(site for site in self.sites if site not in lost)
        after = replace(self, sites=left, lost=self.lost + gone)
        _enough(self.plan, left, gone)
        phase = self.phase.without(self.plan)
        if phase is None:
            return after, True
        number = self.number + 1
        void = after.counted(self.purpose)
        return replace(void, phase=phase, roster=self.roster + 1, number=number, opened=number).begun(), False

    @property
    def whole(self) -> GroupCounts | None:
        """Rows and positives of the roster, once known."""
        phase = self.phase.settling if isinstance(self.phase, Finished) else self.phase
        if isinstance(phase, CalibrationPhase) and phase.levels.counts is not None:
            return replace(GroupCounts.of_counts(phase.levels.counts), clients=len(self.sites))
        standing = getattr(phase, "standing", None)
        return None if standing is None else replace(standing.part, clients=len(self.sites))

    @property
    def outcome(self) -> RunResult:
        """The result; only once every client's stored policy is measured."""
        if not isinstance(self.phase, Finished):
            raise InputError("outcome: the run is not finished; go on until the last exchange.")
        counted = dict(Counter(self.exchanges or {}))
        return RunResult.of(self.plan, self.sites, self.lost, counted, self.phase)


def _enough(plan: Plan, sites: Sequence[str], lost: Sequence[ExcludedSite] = ()) -> None:
    """Refuse to go on below the quorum."""
    least = max(plan.quorum, 3 if plan.secure else 1)
    if len(sites) >= least:
        return
    reasons = "; ".join(f"{each.site}: {each.reason}" for each in lost[:5])
    raise QuorumLostError(
        f"run {plan.run}: {len(sites)} of at least {least} sites are left{f' ({reasons})' if reasons else ''}; "
        "bring the missing sites back and resume, or start a new run with a smaller quorum."
    )
