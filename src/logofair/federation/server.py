"""The server as a pure state machine: the next request, what follows from a total, how to go on without a site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import InputError, QuorumLostError, RunError
from logofair.federation.exchange import AfterTotals, Exchange, GroupCounts, Request, Sums, fault, reply_form
from logofair.federation.exchanges.calibrating import (
    ContributorsExchange,
    ContributorsRequest,
    CurvatureExchange,
    first_exchange,
)
from logofair.federation.exchanges.pooling import PoolingExchange
from logofair.federation.exchanges.publication import PublishExchange, PublishRequest
from logofair.federation.exchanges.rounds import Totals, TotalsExchange, TotalsRequest
from logofair.federation.messages import Opening, RequestMessage, next_history
from logofair.federation.plan import Members, Plan
from logofair.federation.result import ExcludedSite, RunResult

# Under secure sums every site gets what all the others contributed: its messages grow with the roster.
_MOST_SECURE_SITES = 100


@dataclass(frozen=True, eq=False)
class Server:
    """A run as the server knows it; it can be stored after every exchange and resumed to the bit.

    Examples
    --------
    >>> from logofair.federation import SiteColumns, ClientBatch, make_plan
    >>> tolerances = {"local_tolerance": 0, "global_tolerance": 0}
    >>> plan = make_plan(groups=["F", "M"], calibration="none", **tolerances, smallest_cell=1, run="demo")
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
    phase: Exchange  # the exchange under way, with its request and what is known so far
    roster: int = 1
    number: int = 1  # of the exchange under way
    opened: int = 1  # number of the exchange that began this roster
    excluded: tuple[ExcludedSite, ...] = ()
    exchanges: Mapping[str, int] | None = None  # so far, by purpose
    done: bool = False
    prices: Floats | None = None  # worth sending once the totals of this roster are known, from the roster before
    history: bytes = b""  # fingerprint of all requests and totals of this roster before the request under way

    @classmethod
    def start(cls, plan: Plan, sites: Sequence[str], absent: Sequence[str] = ()) -> Server:
        """Begin a run with the sites that are there; ``absent`` were expected and did not come."""
        names = tuple(sorted(sites))
        if len(set(names)) != len(names):
            raise InputError("sites: some name occurs twice; give every site a name of its own.")
        plan.check_sites(names, absent)
        if plan.secure and len(names) > _MOST_SECURE_SITES:
            raise InputError(
                f"sites: {len(names)} with secure sums, which take at most {_MOST_SECURE_SITES}, since each site "
                "checks what all others contribute; join small sites, or use differential privacy without secure sums."
            )
        _check_quorum(plan, names)
        excluded = tuple(ExcludedSite(site, "did not come", 0, "the beginning") for site in sorted(absent))
        return cls(plan, names, first_exchange(plan, names), excluded=excluded).begun(1, 1)

    @property
    def request(self) -> Request:
        """The request of the exchange under way, to every site of the roster."""
        if isinstance(self.phase, PublishExchange):
            return self.phase.request or PublishRequest.of(self.result)
        return self.phase.request

    def message(self) -> RequestMessage:
        """The message to every site of the roster; the first of a roster carries the plan and who takes part."""
        opening = None
        if self.number == self.opened:
            opening = Opening(self.plan, Members.of(self.sites, named=self.plan.secure))
        return RequestMessage(self.plan.run, self.roster, self.number, self.request, opening)

    def take(self, total: Sums) -> Server:
        """The next state, given the total of the replies of the roster."""
        counted = self.counted(self.phase.name)
        if isinstance(self.phase, PublishExchange):
            return replace(counted, done=True)
        self._check_rows(total)
        phase = replace(self.phase, prices=self.prices) if isinstance(self.phase, TotalsExchange) else self.phase
        phase = phase.take(total, self.plan, len(self.sites))
        history = next_history(self.request_history, total)
        return replace(counted, phase=phase, number=self.number + 1, history=history)

    @property
    def request_history(self) -> bytes:
        """Fingerprint of all requests and totals of this roster, with the request under way: what replies belong to."""
        return next_history(self.history, self.request)

    @property
    def sum_steps(self) -> Floats:
        """The fixed-point step of every number requested, in which secure sums add."""
        kind, shapes = reply_form(self.request, self.plan)
        return kind.steps_of(shapes, self.request)

    def take_sum(self, vector: Floats) -> Server:
        """The next state, given the total of a secure sum; raise where no rows could give such a total."""
        kind, shapes = reply_form(self.request, self.plan)
        total = kind.from_vector(vector, shapes)
        wrong = fault(total, self.request, self.plan, self.roster_counts, self.roster_counts)
        if wrong is not None:
            raise RunError(
                f"run {self.plan.run}: the sites together {wrong}, and masks hide which of them; have every site check "
                "its data and start a new run."
            )
        return self.take(total)

    def _check_rows(self, total: Sums) -> None:
        """Raise where no site has a row that counts; a single site may have small groups alone."""
        if total.row_counts is not None and not total.row_counts.mass.sum() > 0:
            raise RunError(
                f"run {self.plan.run}: no group has {self.plan.smallest_cell} rows or more at any site, so there is "
                "nothing to count; agree on a plan with a smaller smallest cell, or on fewer and larger groups."
            )

    def begun(self, roster: int, number: int) -> Server:
        """The state in which the exchange under way begins a roster, and its history."""
        phase = self.phase
        if isinstance(phase, ContributorsExchange):
            phase = replace(phase, request=ContributorsRequest(self.sites))
        members = Members.of(self.sites, named=False)
        history = next_history(b"", (self.plan, members.digest, roster))
        return replace(self, phase=phase, roster=roster, number=number, opened=number, history=history)

    def counted(self, purpose: str) -> Server:
        """The state with one more exchange counted."""
        return replace(self, exchanges=dict(Counter(self.exchanges or {}) + Counter({purpose: 1})))

    def without(self, reasons: Mapping[str, str], totals: Totals | None = None) -> tuple[Server, bool]:
        """The state without some sites, and whether the replies of the others may be taken as they are.

        Where they may not, a new roster begins and all past answers are void. It goes on from its ``totals`` where the
        server knows those of each site, else it begins with the first exchange.
        """
        phase = self.phase
        kept = isinstance(phase, AfterTotals) and totals is not None
        gone = tuple(
            ExcludedSite(site, reason, self.number, self.phase.name, kept) for site, reason in sorted(reasons.items())
        )
        if isinstance(phase, PublishExchange):  # every policy is final: a site that missed the result can get it later
            return replace(self, excluded=self.excluded + gone), True
        left = tuple(site for site in self.sites if site not in reasons)
        after = replace(self, sites=left, excluded=self.excluded + gone)
        _check_quorum(self.plan, left, gone)
        prices = phase.warm_start(self.plan) if isinstance(phase, AfterTotals) else self.prices
        if isinstance(phase, AfterTotals) and totals is not None:  # those who are left go on from their totals
            after._check_rows(totals)
            request = TotalsRequest(phase.totals.maps, phase.totals.priors)
            phase = TotalsExchange(request, prices).take(totals, self.plan, len(left))
        elif isinstance(phase, ContributorsExchange):  # the marks of those who are left
            return after, True
        else:
            phase = first_exchange(self.plan, left)
        void = replace(after.counted(self.phase.name), phase=phase, prices=prices)
        return void.begun(self.roster + 1, self.number + 1), False

    def reopened(self, reasons: Mapping[str, str]) -> Server:
        """The state at the beginning of a new roster without some sites, since masks belong to a roster."""
        after, _ = self.without(reasons)
        if isinstance(after.phase, PublishExchange):
            raise InputError(
                "without: every policy is final, and a site that is away can get the result later; resume."
            )
        return after.begun(self.roster + 1, self.number + 1)

    @property
    def roster_counts(self) -> GroupCounts | None:
        """Rows and positives of the roster, once known."""
        phase = self.phase.final if isinstance(self.phase, PublishExchange) else self.phase
        if isinstance(phase, CurvatureExchange):
            return GroupCounts(phase.mass, np.zeros_like(phase.mass), len(self.sites))
        if isinstance(phase, AfterTotals):
            return phase.totals
        if isinstance(phase, PoolingExchange) and phase.reference is not None:
            mass = phase.reference.mass
            return GroupCounts(mass, np.zeros_like(mass), len(self.sites))
        return None

    @property
    def result(self) -> RunResult:
        """The result, which exists once every site's stored policy is measured."""
        if not isinstance(self.phase, PublishExchange):
            raise InputError("result: the run is not finished; go on until the last exchange.")
        members, exchanges = Members.of(self.sites, named=True), dict(self.exchanges or {})
        return RunResult(self.plan, members, self.excluded, exchanges, self.phase.final, self.phase.figures)


def check_result(server: Server) -> None:
    """Never publish an exact run that does not meet its requirements."""
    objection = server.result.objection if isinstance(server.phase, PublishExchange) else None
    if objection is not None:
        own = server.plan.secure and server.result.exceeding
        advice = "the screen of each site says why" if own else "please report the case"
        raise RunError(f"run {server.plan.run}: {objection}, so nothing is published; {advice}.")


def _check_quorum(plan: Plan, sites: Sequence[str], excluded: Sequence[ExcludedSite] = ()) -> None:
    """Refuse to go on below the quorum."""
    if len(sites) >= plan.quorum:
        return
    reasons = "; ".join(f"{each.site}: {each.reason}" for each in excluded[:5])
    raise QuorumLostError(
        f"run {plan.run}: {len(sites)} of at least {plan.quorum} sites are left{f' ({reasons})' if reasons else ''}; "
        "bring the missing sites back and resume, or start a new run with a smaller quorum."
    )
