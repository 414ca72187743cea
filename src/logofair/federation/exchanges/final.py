"""The end of a run: every site stores its policy and measures it; then it gets the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import RefusedError
from logofair.federation.batch import (
    LARGEST_PRICE,
    ClientBatch,
    broadcast_prices,
    measure,
    split_combinations,
)
from logofair.federation.empty_cells import held_rules, merged_rules
from logofair.federation.exchange import (
    OF_CHANCES,
    OF_SHARES,
    SLACK,
    AfterTotals,
    Context,
    Disclosure,
    Exchange,
    Refusal,
    Request,
    RosterTotals,
    Sums,
    beyond_rows,
)
from logofair.federation.plan import Plan
from logofair.policy.info import PublishedInfo
from logofair.policy.mixtures import filled, reduce
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.decomposition import Incumbent, TriedPrices


@dataclass(frozen=True, eq=False)
class FinalRequest(Request):
    """Mix the answers to these prices with these weights, store the policy, and measure it."""

    prices: Floats  # (answers mixed, groups, rates)
    weights: Floats


@dataclass(frozen=True, eq=False)
class FinalFigures(Sums):
    """Measured on the policy the client has stored: the certificate rests on this, not on a solver's word."""

    gain: Annotated[
        Floats, Disclosure("accuracy above rejecting everybody, or cost saved, as a share of all rows", "1", OF_SHARES)
    ]
    shares: Annotated[Floats, Disclosure("its share of each group's global rates", "groups rates", OF_SHARES)]
    exceeding: Annotated[
        Floats, Disclosure("1 where the stored policy misses a requirement inside the client, else 0", "1", OF_SHARES)
    ]
    combinations: Annotated[
        Floats,
        Disclosure(
            "its part of each rate of everyone, or difference of rates, that is limited over all",
            "combinations",
            OF_SHARES,
        ),
    ]
    own: Annotated[
        Floats,
        Disclosure(
            "with pooling, on its own rows alone: weight accepted, positives expected among them and in all",
            "own 3",
            OF_CHANCES,
        ),
    ]

    def wrong(self, context: Context) -> str | None:
        """Figures within what the rows behind them allow."""
        counts, roster = context.counts, context.roster
        if counts is None or roster is None:
            return None
        beyond = beyond_rows(self.gain, self.shares, self.combinations, context.plan, counts, roster)
        if beyond is not None:
            return beyond
        exceeding = float(self.exceeding[0])
        if not 0 <= exceeding <= counts.sites or abs(exceeding - round(exceeding)) >= 1e-3:
            return "sent a mark that is neither 0 nor 1"
        accepted, positives, of_all = self.own.T
        slack = SLACK * (1.0 + 1e-3 * counts.mass)
        below = ((positives, accepted), (positives, of_all), (accepted, counts.mass), (of_all, counts.mass))
        wrong = self.own.size and (self.own.min() < 0 or any(np.any(a > b + slack) for a, b in below))
        return "claims more on its own rows than it has" if wrong else None


@dataclass(frozen=True, eq=False)
class FinalExchange(AfterTotals, request=FinalRequest, reply=FinalFigures):
    """The weights of the mixture go out; every client stores its policy and measures it."""

    request: FinalRequest
    totals: RosterTotals
    bound: float  # above rejecting everybody
    bound_prices: Floats  # (groups, rates): the prices that prove the bound
    rounds: int
    name = "final"

    @classmethod
    def mixture(cls, totals: RosterTotals, tried: TriedPrices, found: Incumbent, rounds: int) -> FinalExchange:
        """Keep the answers that count; the weight of the first column is that of rejecting everybody."""
        used = np.flatnonzero(found.weights[1:] > 0)
        prices, weights = tried.prices[used], found.weights[1:][used]
        if not used.size:  # everybody is rejected: any answer with weight 0 says so
            prices, weights = tried.prices[:1], np.zeros(1)
        return cls(FinalRequest(prices, weights), totals, found.bound, found.centre, rounds)

    @staticmethod
    def answer(batch: ClientBatch, request: FinalRequest) -> tuple[ClientBatch, FinalFigures]:
        """Mix the answers that were counted into rules, store these, and measure what is stored."""
        weights, plan = request.weights, batch.state.plan
        if batch.state.result is not None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        fits = np.all(weights >= 0) and weights.sum() <= 1 + 1e-9 and len(weights) == len(request.prices) > 0
        if not (fits and np.all(np.abs(request.prices) <= LARGEST_PRICE)):
            raise RefusedError(Refusal.BAD_REQUEST)
        after = batch.with_derived()
        problem, selection_only = after.problem, plan.selection_only(after.state.local_tolerance)
        u, v = (np.stack(each) for each in zip(*map(after.counted_answer, request.prices), strict=True))
        at = (broadcast_prices(request.prices, plan), weights)
        # Term by term: a matrix product sums in an order that depends on how many sites are in the batch.
        mixed_u, mixed_v = (sum(w * a for w, a in zip(weights, each, strict=True)).ravel() for each in (u, v))
        mixed = reduce(problem.cells, mixed_u, mixed_v, selection_only=selection_only)
        rules = filled(problem.cells, mixed, merged_rules(problem, *at))
        priors, derived = after.state.priors, after.derive()
        if priors is not None and not derived.cells.mass.all():
            # With their group's scores at all sites in cells without rows.
            expected, _ = after.preparation.borrowing(derived.chances, priors, fill=True)
            rules = held_rules(problem, expected, rules, *at, selection_only=selection_only)
        gain, shares, excess = measure(problem, rules)
        shares, combinations = split_combinations(shares, plan)
        rounding = LARGEST_VIOLATION / float(np.min([1.0, *np.ravel(problem.local_units)]))
        figures = FinalFigures(
            gain=(gain + after.cost_offset)[:, None],
            shares=shares,
            exceeding=(excess > rounding).astype(float)[:, None],
            combinations=combinations,
            own=after.on_own_rows(rules),
        )
        exceeding = bool(np.any(~(excess <= rounding)))
        return replace(after, state=replace(after.state, rules=rules, exceeding=exceeding)), figures

    def take(self, total: FinalFigures, plan: Plan, sites: int) -> Exchange:
        """What was measured is the result."""
        return PublishExchange(self, total)

    def warm_start(self, plan: Plan) -> Floats | None:
        """The prices that mattered."""
        return np.unique(np.concatenate([self.request.prices, self.bound_prices[None]]), axis=0)


@dataclass(frozen=True, eq=False)
class PublishRequest(Request):
    """The result: the policy is written with it."""

    result: PublishedInfo

    @property
    def replayed(self) -> PublishRequest:
        """All but what no number depends on and only the server knows: who dropped out why, how often it asked."""
        return PublishRequest(replace(self.result, run=replace(self.result.run, excluded=(), exchanges={})))


@dataclass(frozen=True, eq=False)
class Received(Sums):
    """The result was received."""


@dataclass(frozen=True, eq=False)
class PublishExchange(Exchange, request=PublishRequest, reply=Received):
    """All is measured; the server, which knows the roster, publishes the result, and nothing follows."""

    final: FinalExchange
    figures: FinalFigures
    request: PublishRequest | None = None  # type: ignore[assignment]  # None: what the server's result says
    name = "publication"

    @staticmethod
    def answer(batch: ClientBatch, request: PublishRequest) -> tuple[ClientBatch, Received]:
        """Store the result, unless it cannot be true; what is wrong with it is for this site's own people alone."""
        if batch.state.rules is None or batch.state.result is not None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        wrong = batch.wrong_in(request.result)
        if wrong is not None:
            return replace(batch, state=replace(batch.state, forged=wrong)), Received()
        return replace(batch, state=replace(batch.state, result=request.result, forged="")), Received()
