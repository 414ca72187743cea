"""What is published: the figures of all policies together, from which every site derives the result and checks it.

A site knows the plan, the totals, its own answers and what it has measured of its own policy. So it is told only what
it cannot know, and what the figures leave for the others must be what rows like theirs can give. By how much a forged
figure must be off to be noticed depends on how much of the roster the site is: a site that has most of the rows knows
the result nearly, one of many little more than that it can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import RefusedError
from logofair.federation.batch import ClientBatch, ClientState
from logofair.federation.exchange import (
    Context,
    Exchange,
    GroupCounts,
    Refusal,
    Request,
    RosterTotals,
    Sums,
    fault,
    share_limits,
)
from logofair.federation.exchanges.final import FinalExchange, FinalFigures, FinalRequest, measured
from logofair.federation.plan import Members
from logofair.federation.result import ExcludedSite, RunResult

# Of prices, in units of the dearest error.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Received(Sums):
    """The result was received."""


@dataclass(frozen=True, eq=False)
class PublishRequest(Request):
    """What a site does not know of the result; its policy is written with it."""

    reply = Received
    members: Members
    excluded: tuple[ExcludedSite, ...]
    exchanges: Mapping[str, int]
    rounds: int
    bound: float
    bound_prices: Floats
    today: Floats
    figures: FinalFigures

    @classmethod
    def of(cls, result: RunResult) -> PublishRequest:
        """The request that publishes a result."""
        final = result.final
        return cls(
            result.published_members,
            result.excluded,
            result.exchanges,
            final.rounds,
            final.bound,
            final.bound_prices,
            final.totals.today,
            result.figures,
        )

    @property
    def replayed(self) -> PublishRequest:
        """All but what no number depends on and only the server knows: who dropped out why, how often it asked."""
        return replace(self, excluded=(), exchanges={})

    def result(self, state: ClientState) -> RunResult:
        """The result, with what sites in this state know of it."""
        assert state.totals is not None
        assert isinstance(state.mixture, FinalRequest)
        mass, positives, sites = state.totals.mass, state.totals.positives, self.members.number
        totals = RosterTotals(mass, positives, sites, today=self.today, maps=state.maps, priors=state.priors)
        final = FinalExchange(state.mixture, totals, self.bound, self.bound_prices, self.rounds)
        return RunResult(state.plan, self.members, self.excluded, self.exchanges, final, self.figures)

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Received]:
        """Store the result, unless it cannot be true; what is wrong with it is for this site's own people alone."""
        if batch.state.rules is None or batch.state.result is not None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        result = self.result(batch.state)
        wrong = wrong_in(batch, result)
        if wrong is not None:
            return batch.updated(forged=wrong), Received()
        return batch.updated(result=result.published(), forged=""), Received()


@dataclass(frozen=True, eq=False)
class PublishExchange(Exchange):
    """All is measured; the server, which knows the roster, publishes the result, and nothing follows."""

    final: FinalExchange
    figures: FinalFigures
    request: PublishRequest | None = None  # type: ignore[assignment]  # None: what the server's result says
    name = "publication"


def wrong_in(batch: ClientBatch, result: RunResult, *, counted: bool = True) -> str | None:
    """Why the sites refuse a result, as the rest of a sentence; None where it agrees with what they know.

    ``counted`` says whether their rows are among those that it is about.
    """
    state, plan, problem, final = batch.state, batch.state.plan, batch.problem, result.final
    if state.exceeding:
        return "the rule misses a requirement inside this site"
    own, names = set(state.sites) if counted else set[str](), set(result.members.names)
    # One that only could not store its policy was counted all the same, and takes it later.
    without = {each.site for each in result.excluded if each.purpose != "publication"} & own
    if without or ((names or plan.secure) and not names >= own):
        return "it leaves this site out"
    if state.members is not None:
        known = set(state.members.names)  # with secure sums some of these, if others never took part in a sum
        if not (names <= known if plan.secure else result.members == state.members):
            return "it is about sites that were not in the roster"
    if not plan.secure and not _fit(result):
        return "its exchanges and rounds contradict each other"
    roster = replace(final.totals, sites=result.members.number)
    impossible = fault(result.figures, final.request, plan, roster, roster)
    if impossible is not None:
        return f"it {impossible}"
    assert state.rules is not None
    mine, cells = vars(measured(batch, state.rules).total()), problem.cells
    others = FinalFigures(**{name: getattr(result.figures, name) - counted * value for name, value in mine.items()})
    mass, positives = (counted * each.reshape(problem.shape).sum(axis=0) for each in (cells.mass, cells.positives))
    rest = GroupCounts(np.maximum(roster.mass - mass, 0.0), np.maximum(roster.positives - positives, 0.0), roster.sites)
    impossible = others.wrong(Context(final.request, plan, rest, roster))
    if impossible is not None:
        return f"without this site's own figures it {impossible}"
    groups, over_all = len(plan.groups), plan.over_all
    shapes = (groups, len(over_all.today)), (groups, len(over_all.rates))
    if (final.totals.today.shape, final.bound_prices.shape) != shapes:
        return "it is malformed"
    base = np.array([rate.denominator(roster.mass, roster.positives) for rate in over_all.today]).reshape(-1, groups).T
    accepted = final.totals.today - counted * batch.today.sum(axis=0)
    share = np.divide(accepted, base, out=np.zeros(base.shape), where=base > 0)
    low, high = share_limits(over_all.today, rest, roster)
    if np.any(share < low) or np.any(share > high):
        return "it says of today what this site's own rows exclude"
    answered = () if state.prices is None else state.prices
    if len(answered) and not any(np.allclose(final.bound_prices, each, 0, _ROUNDING) for each in answered):
        return "its bound is at other prices than were sent"
    return result.objection


def _fit(result: RunResult) -> bool:
    """Whether there were exchanges for all that the plan asks, and rounds for the exchanges."""
    solver, rounds = result.plan.solver, result.rounds
    counts = {purpose: count for purpose, count in result.exchanges.items() if purpose != "publication"}  # as in files
    purposes = {"totals", "answers", "final"} | ({"calibration"} if result.plan.calibration != "none" else set())
    purposes |= ({"pooling"} if result.plan.pooling != "none" else set()) | (set() if solver is None else {"steps"})
    if counts.keys() != purposes or min(counts.values()) < 1:
        return False
    if result.excluded:  # exchanges of a roster that lost a site were counted too, and its rounds began anew
        return 0 < rounds <= counts["answers" if solver is None else "steps"]
    once = counts["totals"] == counts["final"] == 1
    if solver is None:
        return once and counts["answers"] == rounds
    # Before its steps Algorithm 1 asks how long they may be, unless the plan says.
    return once and counts["answers"] == 1 and counts["steps"] - (solver.step is None) == rounds == solver.rounds
