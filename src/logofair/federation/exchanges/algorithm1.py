"""The paper's Algorithm 1 as messages: one common step, then rounds of local steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import RefusedError
from logofair.federation.batch import ClientBatch
from logofair.federation.exchange import (
    OF_SHARES,
    ROUNDING,
    AfterTotals,
    Context,
    Disclosure,
    Exchange,
    Refusal,
    Request,
    RosterTotals,
    Sums,
    share_limits,
)
from logofair.federation.exchanges.answers import AnswersRequest, BoundExchange
from logofair.federation.plan import Plan
from logofair.solvers.algorithm1 import signed


@dataclass(frozen=True, eq=False)
class SmoothnessRequest(Request):
    """The smoothness constants of the client's dual."""

    mass: Floats
    positives: Floats


@dataclass(frozen=True, eq=False)
class Smoothness(Sums):
    """Algorithm 1 takes one common step for all: the server needs the largest of these, not their sum."""

    impossible = "sent smoothness constants that no rows can have"
    # Coefficients of rates are at most 1e5, since a rate of fewer than 1 in 100,000 counts as undefined.
    constant: Annotated[
        Floats,
        Disclosure("smoothness constants of the client's dual, global and local", "2", OF_SHARES, low=0, high=1e14),
    ]

    def total(self) -> Self:
        """The largest of any client."""
        return type(self)(constant=np.max(self.constant, axis=0))


@dataclass(frozen=True, eq=False)
class SmoothnessExchange(AfterTotals, request=SmoothnessRequest, reply=Smoothness):
    """Algorithm 1 takes one common step, from the largest smoothness constants."""

    request: SmoothnessRequest
    totals: RosterTotals
    name = "steps"

    @staticmethod
    def answer(batch: ClientBatch, request: SmoothnessRequest) -> tuple[ClientBatch, Smoothness]:
        """The constants of the own dual."""
        after = batch.with_totals(request.mass, request.positives)
        return after, Smoothness(constant=after.derive().pairs.steepness())

    def take(self, total: Smoothness, plan: Plan, sites: int) -> Exchange:
        """``total`` holds the largest constants, not their sums."""
        assert plan.solver is not None
        return StepsExchange.start(self.totals, plan, plan.solver.length(total.constant, len(plan.groups)))


@dataclass(frozen=True, eq=False)
class StepsRequest(Request):
    """Local steps from these global multipliers."""

    mass: Floats
    positives: Floats
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    sites: int


@dataclass(frozen=True, eq=False)
class Steps(Sums):
    """One round of Algorithm 1."""

    change: Annotated[
        Floats, Disclosure("change of the global multipliers by the local steps", "pairs rates", OF_SHARES)
    ]

    def wrong(self, context: Context) -> str | None:
        """Changes no longer than the steps taken times the steepest slope that the rows behind them allow."""
        counts, roster, plan = context.counts, context.roster, context.plan
        if counts is None or roster is None:
            return None
        low, high = share_limits(plan.over_all.group_rates, counts, roster)
        tolerance = plan.over_all.tolerances.max(initial=0.0)
        slope = tolerance + 2.0 * max(high.max(initial=0.0), -low.min(initial=0.0))
        longest = 1 if plan.solver is None else plan.solver.local_steps * context.request.step * slope
        wrong = np.abs(self.change).max(initial=0.0) > longest * (1 + ROUNDING) + ROUNDING
        return "sent a larger change of the multipliers than its rows allow" if wrong else None


@dataclass(frozen=True, eq=False)
class StepsExchange(AfterTotals, request=StepsRequest, reply=Steps):
    """One round of Algorithm 1; the server takes the mean of the sites' changes and projects it."""

    request: StepsRequest
    totals: RosterTotals
    name = "steps"

    @classmethod
    def start(cls, totals: RosterTotals, plan: Plan, step: float) -> StepsExchange:
        """All multipliers are 0 at first."""
        groups = len(plan.groups)
        multipliers = np.zeros((groups * (groups - 1), len(plan.over_all.rates)))
        return cls(StepsRequest(totals.mass, totals.positives, multipliers, step, 1, totals.sites), totals)

    @staticmethod
    def answer(batch: ClientBatch, request: StepsRequest) -> tuple[ClientBatch, Steps]:
        """Take the steps, each round once."""
        after, settings = batch.with_totals(request.mass, request.positives), batch.state.plan.solver
        pairs, local = after.derive().pairs, after.state.local_multipliers
        if settings is None or not request.round == after.state.steps + 1 <= settings.rounds:
            raise RefusedError(Refusal.OUT_OF_TURN)
        local = pairs.zeros()[1] if local is None else local
        changes, local = pairs.descend(request.multipliers, local, settings, request.step, request.sites)
        state = replace(after.state, local_multipliers=local, steps=request.round)
        return replace(after, state=state), Steps(change=changes)

    def take(self, total: Steps, plan: Plan, sites: int) -> Exchange:
        """Average, project, and after the last round stop at the multipliers reached."""
        assert plan.solver is not None
        asked, totals = self.request, self.totals
        after = np.maximum(asked.multipliers + total.change / sites, 0.0)
        if asked.round < plan.solver.rounds:
            return replace(self, request=replace(asked, multipliers=after, round=asked.round + 1))
        prices = signed(after, len(plan.groups))
        return BoundExchange(AnswersRequest(totals.mass, totals.positives, prices[None]), totals, asked.round)
