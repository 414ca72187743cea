"""The server as a pure state machine: the next request, what follows from a total, how to go on without a site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logofair.errors import InputError, QuorumLostError
from logofair.federation.phases import AfterTotals, CalibrationPhase, Finished, Phase, first_phase
from logofair.federation.plan import Plan
from logofair.federation.replies import Sums, Totals
from logofair.federation.reply_checks import GroupCounts
from logofair.federation.requests import Opening, PublishRequest, Request, RequestMessage, next_history, opening_history
from logofair.federation.result import ExcludedSite, RunResult
from logofair.federation.wire import wire_type


@wire_type
@dataclass(frozen=True, eq=False)
class Server:
    """A run as the server knows it; it can be stored after every exchange and resumed to the bit.

    Examples
    --------
    >>> from logofair.federation import SiteColumns, ClientBatch, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", local_tolerance=0, global_tolerance=0, run="demo")
    >>> batch = ClientBatch.of({name: SiteColumns(["F", "F", "M", "M"], [0.9, 0.3, 0.6, 0.1]) for name in "abc"}, plan)
    >>> server = Server.start(plan, "abc")
    >>> while not server.done:
    ...     batch, sums = batch.answer(server.request)
    ...     server = server.take(sums.total())
    >>> server.result.certificate.violation < 1e-9, round(server.result.certificate.primal, 3)
    (True, 0.775)
    """

    plan: Plan
    sites: tuple[str, ...]  # the roster: whose totals count
    phase: Any  # the request under way, and what is known so far
    roster: int = 1
    number: int = 1  # of the exchange under way
    opened: int = 1  # number of the exchange that began this roster
    excluded: tuple[ExcludedSite, ...] = ()
    exchanges: Mapping[str, int] | None = None  # so far, by purpose
    done: bool = False
    history: bytes = b""  # fingerprint of all requests of this roster before the one under way

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
        excluded = tuple(ExcludedSite(site, "did not come", 0, "the beginning") for site in sorted(absent))
        return cls(plan, names, first_phase(plan), excluded=excluded).begun()

    @property
    def request(self) -> Request:
        """The request to every site of the roster."""
        phase: Phase = self.phase
        return PublishRequest(self.result.published()) if isinstance(phase, Finished) else phase.request

    @property
    def purpose(self) -> str:
        """What the exchange under way is for."""
        return str(self.phase.name)

    def message(self) -> RequestMessage:
        """The message to every site of the roster; the first of a roster carries the plan and who takes part."""
        opening = Opening.of(self.plan, self.sites) if self.number == self.opened else None
        return RequestMessage(self.plan.run, self.roster, self.number, self.request, opening)

    def take(self, total: Sums) -> Server:
        """The next state, given the total of the replies of the roster."""
        counted = self.counted(self.purpose)
        if isinstance(self.phase, Finished):
            return replace(counted, done=True)
        phase = self.phase.take(total, self.plan, len(self.sites))
        return replace(counted, phase=phase, number=self.number + 1, history=next_history(self.history, self.request))

    def begun(self) -> Server:
        """The state at the beginning of a roster, with the history that begins here."""
        return replace(self, history=opening_history(Opening.of(self.plan, self.sites), self.roster))

    def counted(self, purpose: str) -> Server:
        """The state with one more exchange counted."""
        return replace(self, exchanges=dict(Counter(self.exchanges or {}) + Counter({purpose: 1})))

    def without(self, reasons: Mapping[str, str], totals: Totals | None = None) -> tuple[Server, bool]:
        """The state without some sites, and whether the replies of the others may be taken as they are.

        Where they may not, a new roster begins: all past answers are void. It begins with its ``totals`` where the
        server knows them, from what each site said of its rows before, else at the beginning.
        """
        kept = isinstance(self.phase, AfterTotals) and totals is not None
        gone = tuple(
            ExcludedSite(site, reason, self.number, self.purpose, kept) for site, reason in sorted(reasons.items())
        )
        if isinstance(self.phase, Finished):  # every policy is final: a site that missed the result can get it later
            return replace(self, excluded=self.excluded + gone), True
        left = tuple(site for site in self.sites if site not in reasons)
        after = replace(self, sites=left, excluded=self.excluded + gone)
        _enough(self.plan, left, gone)
        phase = self.phase.corrected(totals, self.plan, len(left)) if kept else self.phase.without(self.plan)
        if phase is None:
            return after, True
        number = self.number + 1
        void = after.counted(self.purpose)
        return replace(void, phase=phase, roster=self.roster + 1, number=number, opened=number).begun(), False

    @property
    def roster_counts(self) -> GroupCounts | None:
        """Rows and positives of the roster, once known."""
        phase = self.phase.final if isinstance(self.phase, Finished) else self.phase
        if isinstance(phase, CalibrationPhase) and phase.levels.counts is not None:
            return replace(GroupCounts.from_folds(phase.levels.counts), clients=len(self.sites))
        totals, reference = getattr(phase, "totals", None), getattr(phase, "reference", None)
        if reference is not None:
            return GroupCounts(reference.mass, np.zeros_like(reference.mass), len(self.sites))
        return None if totals is None else totals.counts

    @property
    def result(self) -> RunResult:
        """The result; only once every client's stored policy is measured."""
        if not isinstance(self.phase, Finished):
            raise InputError("result: the run is not finished; go on until the last exchange.")
        figures, final, totals = self.phase.figures, self.phase.final, self.phase.final.totals
        return RunResult(
            plan=self.plan,
            sites=self.sites,
            excluded=self.excluded,
            exchanges=dict(self.exchanges or {}),
            accuracy=totals.baseline + float(figures.gain[0]),
            bound=totals.baseline + final.bound,
            global_gaps=self.phase.global_gaps,
            violation=self.phase.violation,
            exceeding=round(float(figures.exceeding[0])),
            rounds=final.rounds,
            bound_prices=final.bound_prices,
            prices=final.prices,
            weights=final.weights,
            mass=totals.mass,
            positives=totals.positives,
            maps=totals.before.maps,
            model=totals.before.model,
            priors=totals.before.priors,
            own=figures.own,
        )


def _enough(plan: Plan, sites: Sequence[str], excluded: Sequence[ExcludedSite] = ()) -> None:
    """Refuse to go on below the quorum."""
    if len(sites) >= plan.quorum:
        return
    reasons = "; ".join(f"{each.site}: {each.reason}" for each in excluded[:5])
    raise QuorumLostError(
        f"run {plan.run}: {len(sites)} of at least {plan.quorum} sites are left{f' ({reasons})' if reasons else ''}; "
        "bring the missing sites back and resume, or start a new run with a smaller quorum."
    )
