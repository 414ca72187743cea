"""Prices out, every site's optimal rules back: the rounds of the exact decomposition, and the last of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import RefusedError, RunError
from logofair.federation.batch import LARGEST_PRICE, ClientBatch, best_answer, broadcast_prices, split_combinations
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
    beyond_rows,
    combination_limits,
    share_limits,
)
from logofair.federation.exchanges.final import FinalExchange, FinalRequest
from logofair.federation.plan import Plan
from logofair.solvers.decomposition import Decomposition, TriedPrices
from logofair.solvers.trials import trial_prices

# Bytes that a message of a secure sum carries for each site beside the numbers.
_SECURE_BYTES = 140


@dataclass(frozen=True, eq=False)
class AnswersRequest(Request):
    """Ask for the optimal rule at each of several prices of the global rates, given the totals of the roster.

    Prices of combinations of rates stand behind those of the groups' rates, for the first group alone.
    """

    mass: Floats
    positives: Floats
    prices: Floats  # (answers, groups, global rates)

    @property
    def lengths(self) -> dict[str, int]:
        """One answer to each price vector."""
        return {"answers": len(self.prices)}


@dataclass(frozen=True, eq=False)
class Answers(Sums):
    """What the site's optimal rule at each of these prices does."""

    gain: Annotated[
        Floats,
        Disclosure("accuracy above rejecting everybody, or cost saved, as a share of all rows", "answers", OF_SHARES),
    ]
    shares: Annotated[Floats, Disclosure("its share of each group's global rates", "answers groups rates", OF_SHARES)]
    bound: Annotated[Floats, Disclosure("dual value: no rule of the client is worth more", "answers", OF_SHARES)]
    combinations: Annotated[
        Floats,
        Disclosure(
            "its part of each rate of everyone, or difference of rates, that is limited over all",
            "answers combinations",
            OF_SHARES,
        ),
    ]

    def wrong(self, context: Context) -> str | None:
        """Gains and shares must be within what rows allow, dual values at least the value of their own answers."""
        counts, roster, request = context.counts, context.roster, context.request
        rates = context.plan.over_all.group_rates
        if counts is None or roster is None:
            return None
        beyond = beyond_rows(self.gain, self.shares, self.combinations, context.plan, counts, roster)
        if beyond is not None:
            return beyond
        prices, others = request.prices[..., : len(rates)], request.prices[:, 0, len(rates) :]
        value = self.gain - np.sum(prices * self.shares, axis=(1, 2)) - np.sum(others * self.combinations, axis=1)
        allowed = ROUNDING * (1.0 + np.abs(request.prices).sum(axis=(1, 2)))
        # A bound above its answer contradicts nothing: a site whose solver fails rejects all, which costs one round.
        low, high = share_limits(rates, counts, roster)
        own = counts.mass.sum() / roster.mass.sum() + ROUNDING
        largest = np.sum(np.abs(prices) * np.maximum(high, -low), axis=(1, 2))
        least, most = combination_limits(context.plan.over_all.combinations, counts, roster)
        largest = largest + own + np.sum(np.abs(others) * np.maximum(most, -least), axis=1)
        if np.any(self.bound < value - allowed) or np.any(self.bound > largest + allowed):
            return "sent a dual value that its own answer contradicts"
        return None


@dataclass(frozen=True, eq=False)
class PricingExchange(AfterTotals, request=AnswersRequest, reply=Answers):
    """One round of the decomposition: several prices out, the sum of the answers back."""

    request: AnswersRequest
    totals: RosterTotals
    tried: TriedPrices
    round: int
    name = "answers"

    @classmethod
    def start(cls, totals: RosterTotals, plan: Plan, again: Floats | None) -> PricingExchange:
        """Begin with the prices that the last roster ended with (``again``), or else with the usual first ones."""
        none = TriedPrices.none(len(plan.groups), len(plan.over_all.rates))
        state = totals.required(plan).decomposition(none)
        if again is None:
            prices = _next_prices(plan, totals, state)
        else:
            # Prices give a bound only if they sum to 0 over the groups that count, and a lost site may change which do.
            prices = np.unique(totals.required(plan).marks.within(state.repaired(again)), axis=0)
        return cls(AnswersRequest(totals.mass, totals.positives, prices), totals, none, 1)

    @staticmethod
    def answer(batch: ClientBatch, request: AnswersRequest) -> tuple[ClientBatch, Answers]:
        """Answer each price vector, and keep the answers: the final policy mixes the very ones that are counted."""
        if not len(request.prices) or not np.all(np.abs(request.prices) <= LARGEST_PRICE):
            raise RefusedError(Refusal.BAD_REQUEST)
        plan, before = batch.state.plan, 0 if batch.state.prices is None else len(batch.state.prices)
        if before + len(request.prices) > plan.most_prices:
            raise RefusedError(Refusal.BAD_REQUEST, "more prices were sent than the plan allows.")
        after = batch.with_totals(request.mass, request.positives)
        found = [best_answer(after.problem, prices) for prices in broadcast_prices(request.prices, plan)]
        gain, shares, bound = (np.stack([getattr(a, name) for a in found], 1) for name in ("gain", "shares", "bound"))
        gain, bound = gain + after.cost_offset[:, None], bound + after.cost_offset[:, None]
        state, asked = after.state, request.prices
        u, v = (np.stack([getattr(a, name) for a in found]) for name in ("u", "v"))
        if state.prices is not None and state.u is not None and state.v is not None:
            asked, u, v = (np.concatenate(both) for both in ((state.prices, asked), (state.u, u), (state.v, v)))
        after = replace(after, state=replace(state, prices=asked, u=u, v=v))
        shares, combinations = split_combinations(shares, plan)
        return after, Answers(gain=gain, shares=shares, bound=bound, combinations=combinations)

    def take(self, total: Answers, plan: Plan, sites: int) -> Exchange:
        """Add the answers; go on to the final exchange where the optimality gap is small enough, else to another round.

        Raises
        ------
        InfeasibleError
            Where some prices prove that no rule meets all requirements.
        """
        required = self.totals.required(plan)
        rates = required.columns(total.shares, total.combinations)
        tried = self.tried.and_also(TriedPrices(self.request.prices, total.gain, rates, total.bound))
        state = required.decomposition(tried)
        if not np.isfinite(state.incumbent.value) and required.impossible(state):
            raise required.conflict(state)
        if state.incumbent.optimality_gap > plan.optimality_gap and self.round < plan.rounds:
            prices = _next_prices(plan, self.totals, state)
            if len(prices):  # none: all prices near the optimum were tried, and what is left is rounding
                return replace(self, request=replace(self.request, prices=prices), tried=tried, round=self.round + 1)
        if not np.isfinite(state.incumbent.value):
            raise RunError(
                f"run {plan.run}: after {self.round} rounds no rule that meets all requirements was found, nor a proof "
                "that there is none; allow more rounds, or require slightly less."
            )
        # The answers that count; the weight of the first column is that of rejecting everybody.
        found, used = state.incumbent, np.flatnonzero(state.incumbent.weights[1:] > 0)
        mixture = FinalRequest(tried.prices[used], found.weights[1:][used])
        if not used.size:  # everybody is rejected: any answer with weight 0 says so
            mixture = FinalRequest(tried.prices[:1], np.zeros(1))
        return FinalExchange(mixture, self.totals, found.bound, found.centre, self.round)

    def warm_start(self, plan: Plan) -> Floats | None:
        """The prices of the best mixture so far, of its bound, and those under way."""
        prices = self.request.prices
        if not self.tried.gains.size:
            return prices
        found = self.totals.required(plan).decomposition(self.tried).incumbent
        warm_start = np.concatenate([self.tried.prices[found.weights[1:] > 0], found.centre[None], prices])
        _, first = np.unique(warm_start, axis=0, return_index=True)
        return np.asarray(warm_start[np.sort(first)][: max(1, len(prices))])


def _next_prices(plan: Plan, totals: RosterTotals, state: Decomposition) -> Floats:
    """The prices of the next round; those of 0 alone where nothing global is constrained."""
    if not state.counts.any():
        return np.zeros((1, *state.counts.shape))
    size = plan.trials_at_most(_SECURE_BYTES * totals.sites if plan.secure else 0)
    return trial_prices(state, size, totals.required(plan).marks)


@dataclass(frozen=True, eq=False)
class BoundExchange(AfterTotals):
    """The end of Algorithm 1: every client's exact answer to the final multipliers, and the bound they prove."""

    request: AnswersRequest
    totals: RosterTotals
    round: int
    name = "answers"
    reply = Answers

    def take(self, total: Answers, plan: Plan, sites: int) -> Exchange:
        """The one answer is the rule, whether it meets the tolerances or not."""
        prices = self.request.prices
        tried = TriedPrices(prices, total.gain, total.shares, total.bound)
        bound = float(self.totals.required(plan).decomposition(tried).bounds[0])
        return FinalExchange(FinalRequest(prices, np.ones(1)), self.totals, bound, prices[0], self.round)
