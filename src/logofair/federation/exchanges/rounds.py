"""The rounds of a run: the totals of its roster, then prices out and best answers back, or steps of Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from logofair.calibration.federated import GroupMaps
from logofair.columns.cells import Cells
from logofair.columns.checks import Floats
from logofair.errors import InfeasibleError, RefusedError, RunError
from logofair.federation.batch import (
    LARGEST_PRICE,
    ClientBatch,
    ClientState,
    best_answer,
    broadcast_prices,
    local_requirements,
    split_combinations,
)
from logofair.federation.exchange import (
    MOST_ROWS,
    OF_CHANCES,
    OF_ROWS,
    OF_SHARES,
    ROUNDING,
    AfterTotals,
    Context,
    Exchange,
    GroupCounts,
    Refusal,
    Request,
    RosterTotals,
    Sums,
    beyond_rows,
    combination_limits,
    disclosed,
    share_limits,
)
from logofair.federation.exchanges.final import FinalExchange, FinalRequest
from logofair.federation.plan import Plan
from logofair.fitting.pooling import GroupPriors
from logofair.solvers.algorithm1 import signed
from logofair.solvers.decomposition import Decomposition, TriedPrices
from logofair.solvers.joint import conflict_of, least_slack
from logofair.solvers.local import solve_local
from logofair.solvers.problem import make_problem
from logofair.solvers.trials import trial_prices

# Requirements that give way by less inside all sites together are met but for rounding.
_SLACK = 1e-8
# Prices of 2 to this power and below, all of an answer together, take no coarser steps than other shares do: with 100
# sites dual values up to 40 times such prices can be summed.
_USUAL_PRICES = 6
# Bytes that a message of a secure sum carries for each site beside the numbers.
_SECURE_BYTES = 140


@dataclass(frozen=True, eq=False)
class Totals(Sums):
    """Once per roster: from these the server knows the groups' shares and base rates."""

    impossible = "sent an impossible number of rows"
    mass: Floats = disclosed("weight of the rows of each group", "groups", OF_ROWS, 0, MOST_ROWS)
    positives: Floats = disclosed("sum of eta over the rows of each group", "groups", OF_CHANCES)
    today: Floats = disclosed(
        "where a rate over all has to be what it is without any requirement: what the rows that are then accepted "
        "count in it",
        "groups today",
        OF_CHANCES,
    )
    slack: Floats = disclosed(
        "where floors, ceilings or capacities hold inside sites: the least sum by which requirements there would "
        "have to give way, 0 where some rule meets them",
        "inside",
        OF_SHARES,
    )

    @property
    def row_counts(self) -> GroupCounts:
        """Rows and positives."""
        return GroupCounts(self.mass, self.positives)

    def wrong(self, context: Context) -> str | None:
        """The rows of before, no more positives than rows, no more accepted than there are."""
        counts, plan, slack = context.counts, context.plan, ROUNDING * (1.0 + self.mass)
        known = counts is not None and (plan.calibration != "none" or plan.pooling == "auto")
        if counts is not None and known and np.any(np.abs(self.mass - counts.mass) > slack):
            return "claims another number of rows than before"
        if np.any(self.positives < -slack) or np.any(self.positives > self.mass + slack):
            return "sent more expected positives than rows, or fewer than none"
        for rate, accepted in zip(plan.over_all.today, self.today.T, strict=True):
            if np.any(accepted < -slack) or np.any(accepted > rate.denominator(self.mass, self.positives) + slack):
                return "claims that more is accepted today than there is"
        return "sent a slack below 0" if self.slack.min(initial=0.0) < 0 else None


@dataclass(frozen=True, eq=False)
class TotalsRequest(Request):
    """Rows of each group, and the positives expected among them; ``priors`` where small cells borrow."""

    reply = Totals
    maps: GroupMaps | None = None
    priors: GroupPriors | None = None

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Totals]:
        """Calibrate, borrow, and count."""
        before, plan = batch.state, batch.state.plan
        if self.priors is not None and plan.pooling == "none":
            raise RefusedError(Refusal.OUT_OF_TURN)
        state = replace(
            before.in_new_roster(before.roster),
            maps=self.maps,
            priors=self.priors,
            releases=batch.preparation.releases(before.releases),
            pooling_steps=before.pooling_steps,
        )
        after = replace(batch, state=state)
        cells, shape = after.cells, after.preparation.shape
        return after, Totals(
            mass=cells.mass.reshape(shape),
            positives=cells.positives.reshape(shape),
            today=after.today,
            slack=_least_slack(cells, state),
        )


@dataclass(frozen=True, eq=False)
class TotalsExchange(Exchange):
    """Rows and expected positives of the roster; a roster before it may have ended with ``prices`` worth sending."""

    request: TotalsRequest
    prices: Floats | None = None
    name = "totals"

    def with_strength(self, strength: float) -> TotalsExchange:
        """The same with calibrators that hold cells to their groups by so many rows."""
        maps = self.request.maps
        if maps is None:
            return self
        return replace(self, request=replace(self.request, maps=replace(maps, strength=strength)))

    def take(self, total: Totals, plan: Plan, sites: int) -> Exchange:
        """Begin with prices, or with Algorithm 1.

        Raises
        ------
        InfeasibleError
            Where what is required inside sites cannot be met at some of them.
        """
        slack, where = float(total.slack.sum()), "what is required inside sites"
        if slack > _SLACK:  # at how many sites, and which, is not known from a sum
            raise InfeasibleError(
                {where: slack},
                f"requirements: no rule meets all of them: {where} cannot be met at some site. Its limits would have "
                f"to be at least {slack:.4g} looser, summed over sites; the screen of such a site says what conflicts "
                "there.",
            )
        maps, priors = self.request.maps, self.request.priors
        totals = RosterTotals(total.mass, total.positives, sites, today=total.today, maps=maps, priors=priors)
        if plan.solver is None:
            return PricingExchange.start(totals, plan, self.prices)
        if plan.solver.step is None:
            return SmoothnessExchange(SmoothnessRequest(total.mass, total.positives), totals)
        return StepsExchange.start(totals, plan, float(plan.solver.step))


def _least_slack(cells: Cells, state: ClientState) -> Floats:
    """By how much the sites' own requirements would have to give way, (sites, 1); none where they can be met.

    Only floors, ceilings and capacities can fail: all else allows to reject everybody.
    """
    sites = len(state.sites)
    if not state.plan.inside.limited:
        return np.zeros((sites, 0))
    found = np.zeros((sites, 1))
    for number, site in enumerate(state.sites):
        own = cells.of_sites(np.array([number]))
        one = make_problem(local_requirements(replace(state, sites=(site,)).requirements, own), own).tied()
        if not solve_local(one, *one.gain).sound:
            found[number] = least_slack(one)
    return found


def conflict_inside(batch: ClientBatch, totals: Totals) -> str:
    """Which of its own requirements conflict at a site, for its own screen; nothing where some rule meets them."""
    if totals.slack.sum() <= _SLACK:
        return ""
    conflict = conflict_of(local_requirements(batch.state.requirements, batch.cells), batch.cells)
    return f"at this site {str(conflict).removeprefix('requirements: ')}"


@dataclass(frozen=True, eq=False)
class Answers(Sums):
    """What the site's optimal rule at each of these prices does."""

    gain: Floats = disclosed(
        "accuracy above rejecting everybody, or cost saved, as a share of all rows", "answers", OF_SHARES
    )
    shares: Floats = disclosed("its share of each group's global rates", "answers groups rates", OF_SHARES)
    bound: Floats = disclosed("dual value: no rule of the site is worth more", "answers", OF_SHARES)
    combinations: Floats = disclosed(
        "its part of each rate of everyone, or difference of rates, that is limited over all",
        "answers combinations",
        OF_SHARES,
    )

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
class AnswersRequest(Request):
    """Ask for the optimal rule at each of several prices of the global rates, given the totals of the roster.

    Prices of combinations of rates stand behind those of the groups' rates, for the first group alone.
    """

    reply = Answers
    mass: Floats
    positives: Floats
    prices: Floats  # (answers, groups, global rates)

    @property
    def lengths(self) -> dict[str, int]:
        """One answer to each price vector."""
        return {"answers": len(self.prices)}

    @property
    def coarser(self) -> dict[str, Floats]:
        """Dual values are as large as the prices: of 1e9 where no rule within the requirements is known yet."""
        sizes = [math.fsum(np.abs(each).ravel().tolist()) for each in self.prices]  # rounded alike on every machine
        return {"bound": np.array([math.ldexp(1.0, max(0, math.frexp(size)[1] - _USUAL_PRICES)) for size in sizes])}

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Answers]:
        """Answer each price vector, and keep the answers: the final policy mixes the very ones that are counted."""
        state, asked = batch.state, self.prices
        if not len(asked) or not np.all(np.abs(asked) <= LARGEST_PRICE):
            raise RefusedError(Refusal.BAD_REQUEST)
        if len(asked) + (0 if state.prices is None else len(state.prices)) > state.plan.most_prices:
            raise RefusedError(Refusal.BAD_REQUEST, "more prices were sent than the plan allows.")
        after = batch.with_totals(self.mass, self.positives)
        found = [best_answer(after.problem, prices) for prices in broadcast_prices(asked, state.plan)]
        gain, shares, bound = (np.stack([getattr(a, name) for a in found], 1) for name in ("gain", "shares", "bound"))
        offset = after.cost_offset[:, None]
        u, v = (np.stack([getattr(a, name) for a in found]) for name in ("u", "v"))
        if state.prices is not None and state.u is not None and state.v is not None:
            asked, u, v = (np.concatenate(both) for both in ((state.prices, asked), (state.u, u), (state.v, v)))
        shares, combinations = split_combinations(shares, state.plan)
        bound = bound + offset
        coarser = self.coarser["bound"]
        if state.plan.secure and coarser.max() > 1:  # upwards: what a coarse step rounds off must not prove anything
            steps = OF_SHARES * coarser
            bound = np.where(coarser > 1, np.ceil(bound / steps) * steps, bound)
        replies = Answers(gain=gain + offset, shares=shares, bound=bound, combinations=combinations)
        return after.updated(prices=asked, u=u, v=v), replies


@dataclass(frozen=True, eq=False)
class PricingExchange(AfterTotals):
    """One round of the decomposition: several prices out, the sum of the answers back."""

    request: AnswersRequest
    totals: RosterTotals
    tried: TriedPrices
    round: int
    name = "answers"

    @classmethod
    def start(cls, totals: RosterTotals, plan: Plan, again: Floats | None) -> PricingExchange:
        """Begin with the prices that the last roster ended with (``again``), or else with the usual first ones."""
        none = TriedPrices.empty(len(plan.groups), len(plan.over_all.rates))
        state = totals.required(plan).decomposition(none)
        if again is None:
            prices = _next_prices(plan, totals, state)
        else:
            # Prices give a bound only if they sum to 0 over the groups that count, and a lost site may change which do.
            prices = np.unique(totals.required(plan).marks.within(state.repaired(again)), axis=0)
        return cls(AnswersRequest(totals.mass, totals.positives, prices), totals, none, 1)

    def take(self, total: Answers, plan: Plan, sites: int) -> Exchange:
        """Add the answers; go on to the final exchange where the optimality gap is small enough, else to another round.

        Raises
        ------
        InfeasibleError
            Where some prices prove that no rule meets all requirements.
        """
        required = self.totals.required(plan)
        rates = required.columns(total.shares, total.combinations)
        tried = self.tried.joined_with(TriedPrices(self.request.prices, total.gain, rates, total.bound))
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
class Smoothness(Sums):
    """Algorithm 1 takes one common step for all: the server needs the largest of these, not their sum."""

    impossible = "sent smoothness constants that no rows can have"
    # Coefficients of rates are at most 1e5, since a rate of fewer than 1 in 100,000 counts as undefined.
    constant: Floats = disclosed(
        "smoothness constants of the site's dual, global and local", "2", OF_SHARES, low=0, high=1e14
    )

    def total(self) -> Self:
        """The largest of any site."""
        return type(self)(constant=np.max(self.constant, axis=0))


@dataclass(frozen=True, eq=False)
class SmoothnessRequest(Request):
    """The smoothness constants of the site's dual."""

    reply = Smoothness
    mass: Floats
    positives: Floats

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Smoothness]:
        """The constants of the own dual."""
        after = batch.with_totals(self.mass, self.positives)
        return after, Smoothness(constant=after.smoothed_dual.squared_norms())


@dataclass(frozen=True, eq=False)
class SmoothnessExchange(AfterTotals):
    """Algorithm 1 takes one common step, from the largest smoothness constants."""

    request: SmoothnessRequest
    totals: RosterTotals
    name = "steps"

    def take(self, total: Smoothness, plan: Plan, sites: int) -> Exchange:
        """``total`` holds the largest constants, not their sums."""
        assert plan.solver is not None
        return StepsExchange.start(self.totals, plan, plan.solver.step_length(total.constant, len(plan.groups)))


@dataclass(frozen=True, eq=False)
class Steps(Sums):
    """One round of Algorithm 1."""

    change: Floats = disclosed("change of the global multipliers by the local steps", "pairs rates", OF_SHARES)

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
class StepsRequest(Request):
    """Local steps from these global multipliers."""

    reply = Steps
    mass: Floats
    positives: Floats
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    sites: int

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Steps]:
        """Take the steps, each round once."""
        after, settings = batch.with_totals(self.mass, self.positives), batch.state.plan.solver
        dual, local = after.smoothed_dual, after.state.local_multipliers
        if settings is None or not self.round == after.state.steps + 1 <= settings.rounds:
            raise RefusedError(Refusal.OUT_OF_TURN)
        local = dual.zeros()[1] if local is None else local
        changes, local = dual.descend(self.multipliers, local, settings, self.step, self.sites)
        return after.updated(local_multipliers=local, steps=self.round), Steps(change=changes)


@dataclass(frozen=True, eq=False)
class StepsExchange(AfterTotals):
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

    def take(self, total: Steps, plan: Plan, sites: int) -> Exchange:
        """Average, project, and after the last round stop at the multipliers reached."""
        assert plan.solver is not None
        asked, totals = self.request, self.totals
        after = np.maximum(asked.multipliers + total.change / sites, 0.0)
        if asked.round < plan.solver.rounds:
            return replace(self, request=replace(asked, multipliers=after, round=asked.round + 1))
        prices = signed(after, len(plan.groups))
        return BoundExchange(AnswersRequest(totals.mass, totals.positives, prices[None]), totals, asked.round)


@dataclass(frozen=True, eq=False)
class BoundExchange(AfterTotals):
    """The end of Algorithm 1: every site's exact answer to the final multipliers, and the bound they prove."""

    request: AnswersRequest
    totals: RosterTotals
    round: int
    name = "answers"

    def take(self, total: Answers, plan: Plan, sites: int) -> Exchange:
        """The one answer is the rule, whether it meets the tolerances or not."""
        prices = self.request.prices
        tried = TriedPrices(prices, total.gain, total.shares, total.bound)
        bound = float(self.totals.required(plan).decomposition(tried).bounds[0])
        return FinalExchange(FinalRequest(prices, np.ones(1)), self.totals, bound, prices[0], self.round)
