"""The server's side, phase by phase: each asks one thing of all clients and takes the total of their replies.

A phase is a frozen value that can travel (:mod:`logofair.federation.wire`), so that a server can be stored after every
exchange and resumed to the bit. ``take`` returns the next phase. When clients are lost, ``without`` says how to go on:
totals that do not depend on who else takes part are simply taken from those who remain; the answers of a roster are
void with it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from logofair.calibration.levels import GroupMaps, Levels
from logofair.calibration.newton import Descent, Normal
from logofair.columns.checks import Floats
from logofair.federation import messages as ask
from logofair.federation import messages as told
from logofair.federation.expected import GroupCounts, global_rates
from logofair.federation.messages import Model, Request
from logofair.federation.plan import Plan
from logofair.federation.wire import carried
from logofair.solvers.algorithm1 import signed
from logofair.solvers.decomposition import TriedPrices, incumbent
from logofair.solvers.problem import groups_compared, spread, zero_sum
from logofair.solvers.trials import landmarks, trial_prices, trial_size

__all__ = [
    "AveragingPhase",
    "BoundPhase",
    "CalibrationPhase",
    "FinalPhase",
    "Finished",
    "MomentsPhase",
    "Phase",
    "PricingPhase",
    "RosterTotals",
    "SmoothnessPhase",
    "StepsPhase",
    "TotalsPhase",
    "first_phase",
    "global_bounds",
    "penalty_of",
]


class Phase(Protocol):
    """One question to all clients, and what follows from the total of the replies."""

    @property
    def name(self) -> str:
        """What the exchange is counted as."""

    @property
    def request(self) -> Request:
        """What every client is asked."""

    def take(self, total: Any, plan: Plan, clients: int) -> Phase:
        """The next phase, given the total of the replies of so many clients."""

    def without(self, plan: Plan) -> Phase | None:
        """Where to go on with fewer clients; None: the replies of those who remain can be taken as they are."""


@carried
@dataclass(frozen=True, eq=False)
class RosterTotals:
    """What all later phases share: the totals of the roster, and the phase they came from."""

    mass: Floats
    positives: Floats
    clients: int
    before: Any  # the phase that asked for them

    @property
    def part(self) -> GroupCounts:
        """The rows of the whole roster."""
        return GroupCounts(self.mass, self.positives)

    @property
    def baseline(self) -> float:
        """Accuracy of rejecting everybody."""
        return float((self.mass.sum() - self.positives.sum()) / self.mass.sum())

    def tolerance(self, plan: Plan) -> Floats:
        """Global tolerances, (groups, rates), in units of order 1; infinity where a group does not count."""
        rates, bounds = global_rates(plan), global_bounds(plan)[0]
        n = self.mass.sum()
        counts = groups_compared(rates, self.mass / n, self.positives / n, bounds)
        return np.where(counts, bounds, np.inf)

    def again(self, plan: Plan, prices: Floats | None) -> Phase:
        """The phase to go back to when clients are lost; ``prices`` are worth asking the new roster."""
        return self.before.again(plan, prices)  # type: ignore[no-any-return]


def global_bounds(plan: Plan) -> tuple[Floats, Floats]:
    """Tolerances of the constrained global rates in units of order 1, and those units."""
    constrained = [r for r in plan.global_ if r.tolerance is not None]
    units = np.array([r.rate.normalised()[1] for r in constrained])
    return np.array([r.tolerance for r in constrained], dtype=float) * units, units


def penalty_of(prices: Floats, tolerance: Floats) -> float:
    """What the tolerances are worth at given prices."""
    return 0.5 * float(np.sum(np.where(np.isfinite(tolerance), tolerance, 0.0) * np.abs(prices)))


@carried
@dataclass(frozen=True, eq=False)
class FinalPhase:
    """The weights of the mixture go out; every client stores its policy and measures it."""

    standing: RosterTotals
    prices: Floats  # (answers mixed, groups, rates)
    weights: Floats
    bound: float  # above rejecting everybody
    duals: Floats  # (groups, rates): the prices that prove the bound
    rounds: int
    name = "settlement"

    @classmethod
    def mixture(
        cls, standing: RosterTotals, asked: TriedPrices, weights: Floats, bound: float, duals: Floats, rounds: int
    ) -> FinalPhase:
        """Keep the answers that count; the weight of the first column is that of rejecting everybody."""
        used = np.flatnonzero(weights[1:] > 0)
        prices, weights = asked.prices[used], weights[1:][used]
        if not used.size:  # everybody is rejected: any answer with weight 0 says so
            prices, weights = asked.prices[:1], np.zeros(1)
        return cls(standing, prices, weights, bound, duals, rounds)

    @property
    def request(self) -> Request:
        """Ask every client to store its policy and to measure it."""
        return ask.FinalRequest(self.prices, self.weights)

    def take(self, total: told.FinalFigures, plan: Plan, clients: int) -> Phase:
        """What was measured is the result."""
        bounds, units = global_bounds(plan)
        counts = np.isfinite(self.standing.tolerance(plan))
        gaps = spread(total.shares, counts, axis=0)
        excess = float(np.max((gaps - bounds) / units, initial=0.0))
        return Finished(self, total, gaps / units, excess, clients)

    def without(self, plan: Plan) -> Phase | None:
        """Who is lost now was counted in every column: ask the new roster the prices that mattered."""
        return self.standing.again(plan, np.unique(np.concatenate([self.prices, self.duals[None]]), axis=0))


@carried
@dataclass(frozen=True, eq=False)
class Finished:
    """All measured; what remains is to tell everybody."""

    settling: FinalPhase
    settled: told.FinalFigures
    gaps: Floats  # global gaps in the user's units, (rates,)
    violation: float
    clients: int
    name = "publication"

    @property
    def request(self) -> Request:
        """The result itself is put together by the server, which knows the roster."""
        raise NotImplementedError

    def take(self, total: told.Received, plan: Plan, clients: int) -> Phase:
        """Nothing follows."""
        return self

    def without(self, plan: Plan) -> Phase | None:
        """A client that does not hear the result can ask for it later."""
        return None


@carried
@dataclass(frozen=True, eq=False)
class SmoothnessPhase:
    """Algorithm 1 takes one common step, from the largest smoothness constants."""

    standing: RosterTotals
    name = "steps"

    @property
    def request(self) -> Request:
        """Ask for smoothness constants."""
        return ask.SmoothnessRequest(self.standing.mass, self.standing.positives)

    def take(self, total: told.Smoothness, plan: Plan, clients: int) -> Phase:
        """``total`` holds the largest constants, not their sums."""
        assert plan.solver is not None
        step = plan.solver.length(total.constant, len(plan.groups))
        return StepsPhase.start(self.standing, plan, step, clients)

    def without(self, plan: Plan) -> Phase | None:
        """Back to the totals."""
        return self.standing.again(plan, None)


@carried
@dataclass(frozen=True, eq=False)
class StepsPhase:
    """One round of Algorithm 1; the server takes the mean of the clients' changes and projects it."""

    standing: RosterTotals
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    clients: int
    name = "steps"

    @classmethod
    def start(cls, standing: RosterTotals, plan: Plan, step: float, clients: int) -> StepsPhase:
        """All multipliers are 0 at first."""
        groups = len(plan.groups)
        return cls(standing, np.zeros((groups * (groups - 1), len(global_rates(plan)))), step, 1, clients)

    @property
    def request(self) -> Request:
        """Ask for local steps."""
        s = self.standing
        return ask.StepsRequest(s.mass, s.positives, self.multipliers, self.step, self.round, self.clients)

    def take(self, total: told.Steps, plan: Plan, clients: int) -> Phase:
        """Average, project, and after the last round settle at the final multipliers."""
        assert plan.solver is not None
        after = np.maximum(self.multipliers + total.change / clients, 0.0)
        if self.round < plan.solver.rounds:
            return replace(self, multipliers=after, round=self.round + 1)
        prices = signed(after, len(plan.groups))
        return BoundPhase(self.standing, prices[None], self.round)

    def without(self, plan: Plan) -> Phase | None:
        """Back to the totals: the steps so far were those of other rows."""
        return self.standing.again(plan, None)


@carried
@dataclass(frozen=True, eq=False)
class BoundPhase:
    """The end of Algorithm 1: every client's exact answer to the final multipliers, and the bound they prove."""

    standing: RosterTotals
    prices: Floats
    round: int
    name = "answers"

    @property
    def request(self) -> Request:
        """Ask for the answer to the final multipliers."""
        return ask.AnswersRequest(self.standing.mass, self.standing.positives, self.prices)

    def take(self, total: told.Answers, plan: Plan, clients: int) -> Phase:
        """Settle on that one answer, whether it keeps the tolerances or not."""
        penalty = penalty_of(self.prices[0], self.standing.tolerance(plan))
        bound = float(total.bound[0]) + penalty
        return FinalPhase(self.standing, self.prices, np.ones(1), bound, self.prices[0], self.round)

    def without(self, plan: Plan) -> Phase | None:
        """Back to the totals."""
        return self.standing.again(plan, None)


carried(TriedPrices)

# Bytes that a secure sum's message carries for each site beside the numbers.
_SEALED = 140


@carried
@dataclass(frozen=True, eq=False)
class PricingPhase:
    """One round: a batch of prices out, summed answers back."""

    standing: RosterTotals
    asked: TriedPrices
    prices: Floats
    round: int
    name = "answers"

    @classmethod
    def start(cls, standing: RosterTotals, plan: Plan) -> PricingPhase:
        """Begin with what the last roster found worth asking, or with the usual batch."""
        groups, rates = len(plan.groups), len(global_rates(plan))
        none = TriedPrices(np.zeros((0, groups, rates)), np.zeros(0), np.zeros((0, groups, rates)), np.zeros(0))
        again = standing.before.prices
        if again is None:
            return cls(standing, none, _next_prices(plan, standing, none), 1)
        # Prices prove a bound only if they sum to 0 over the groups that count, and a lost site may change which do.
        counts = np.isfinite(standing.tolerance(plan))
        return cls(standing, none, np.unique(zero_sum(again, counts[None], 1), axis=0), 1)

    @property
    def request(self) -> Request:
        """Ask for the best answer to every price vector of the batch."""
        return ask.AnswersRequest(self.standing.mass, self.standing.positives, self.prices)

    def take(self, total: told.Answers, plan: Plan, clients: int) -> Phase:
        """Add the columns; settle where the certificate is good enough, else ask on."""
        asked = _with(self.asked, TriedPrices(self.prices, total.gain, total.shares, total.bound))
        found = incumbent(asked, self.standing.tolerance(plan))
        if found.bound - found.value > plan.optimality_gap and self.round < plan.rounds:
            prices = _next_prices(plan, self.standing, asked)
            if len(prices):  # none: everything near the optimum was tried, and rounding is all that is left
                return PricingPhase(self.standing, asked, prices, self.round + 1)
        return FinalPhase.mixture(self.standing, asked, found.weights, found.bound, found.centre, self.round)

    def without(self, plan: Plan) -> Phase | None:
        """The columns are void; the most telling prices are asked of the new roster at once."""
        if not self.asked.gains.size:
            return self.standing.again(plan, self.prices)
        found = incumbent(self.asked, self.standing.tolerance(plan))
        telling = np.concatenate([self.asked.prices[found.weights[1:] > 0], found.centre[None], self.prices])
        _, first = np.unique(telling, axis=0, return_index=True)
        return self.standing.again(plan, telling[np.sort(first)][: max(1, len(self.prices))])


def _next_prices(plan: Plan, standing: RosterTotals, asked: TriedPrices) -> Floats:
    """The next batch; a single zero price where nothing global is constrained."""
    tolerance = standing.tolerance(plan)
    if not np.isfinite(tolerance).any():
        return np.zeros((1, *tolerance.shape))
    share = standing.mass.sum()
    marks = landmarks(standing.mass / share, standing.positives / share, global_rates(plan))
    groups, rates = tolerance.shape
    size = plan.trials or trial_size(groups, rates, _SEALED * standing.clients if plan.secure else 0)
    return trial_prices(asked, tolerance, size, marks)


def _with(asked: TriedPrices, more: TriedPrices) -> TriedPrices:
    """All that was asked, and answered, together."""
    return TriedPrices(*(np.concatenate([getattr(asked, f.name), getattr(more, f.name)]) for f in fields(TriedPrices)))


for kind in (Levels, Descent, Normal):
    carried(kind)

# A feature that never varies must not be divided by zero.
_LEAST_SPREAD = 1e-9


def first_phase(plan: Plan) -> Phase:
    """Where a run begins."""
    return MomentsPhase() if plan.training is not None else after_training(plan, None)


def after_training(plan: Plan, model: Model | None, prices: Floats | None = None) -> Phase:
    """Calibration where the plan has one, else the totals; ``prices`` are worth asking once these are known."""
    if plan.calibration == "none":
        return TotalsPhase(None, model, prices)
    levels = Levels.start(plan.calibration, n_groups=len(plan.groups), folds=plan.folds, **_precision(plan))
    return CalibrationPhase(levels, model, prices)


def _precision(plan: Plan) -> dict[str, float]:
    # Sums of limited precision cannot show progress below it.
    return {"slack": 1e-3, "least_gain": 1e-4} if plan.secure else {}


@carried
@dataclass(frozen=True, eq=False)
class MomentsPhase:
    """How features are spread, so that all sites scale them alike."""

    name = "training"

    @property
    def request(self) -> Request:
        """Ask for sums and sums of squares."""
        return ask.MomentsRequest()

    def take(self, total: told.Moments, plan: Plan, clients: int) -> Phase:
        """Scale by mean and standard deviation, and start from the zero model."""
        mean = total.first / total.mass
        spread = np.sqrt(np.maximum(total.second / total.mass - mean**2, 0.0))
        spread = np.where(spread > _LEAST_SPREAD, spread, 1.0)
        return AveragingPhase(Model(mean, spread, np.zeros(mean.size + 1)), 1)

    def without(self, plan: Plan) -> Phase | None:
        """Sums of those who remain."""
        return None


@carried
@dataclass(frozen=True, eq=False)
class AveragingPhase:
    """One round of federated averaging (McMahan et al., 2017)."""

    model: Model
    round: int
    name = "training"

    @property
    def request(self) -> Request:
        """Ask for local steps."""
        return ask.UpdateRequest(self.model, self.round)

    def take(self, total: told.Update, plan: Plan, clients: int) -> Phase:
        """Average with the numbers of rows as weights."""
        model = replace(self.model, parameters=total.parameters / total.mass)
        assert plan.training is not None
        return (
            AveragingPhase(model, self.round + 1) if self.round < plan.training.rounds else after_training(plan, model)
        )

    def without(self, plan: Plan) -> Phase | None:
        """Averaging goes on with those who remain."""
        return None


@carried
@dataclass(frozen=True, eq=False)
class CalibrationPhase:
    """The calibrators of all rows and of the groups, by Newton's method on additive sums."""

    levels: Levels
    model: Model | None
    prices: Floats | None = None  # worth asking later, from a roster before this one
    name = "calibration"

    @property
    def request(self) -> Request:
        """Ask for loss, gradient and Hessian, and in the first round for counts."""
        points = self.levels.request
        if self.levels.counts is None:
            return ask.CountsRequest(points.at, points.live, self.model)
        return ask.CurvatureRequest(points.at, points.live)

    def take(self, total: told.FoldCounts | told.Curvature, plan: Plan, clients: int) -> Phase:
        """One Newton step."""
        levels = self.levels.count(total.counts) if isinstance(total, told.FoldCounts) else self.levels
        levels = levels.take(total.sums)
        if levels.done:
            return TotalsPhase(levels.published, self.model, self.prices, model_known=True)
        return replace(self, levels=levels)

    def without(self, plan: Plan) -> Phase | None:
        """The loss of other rows: begin again, unless this is the beginning."""
        return None if self.levels.counts is None else after_training(plan, self.model, self.prices)


@carried
@dataclass(frozen=True, eq=False)
class TotalsPhase:
    """Rows and expected positives of the roster; ``prices`` were asked of a roster before this one."""

    maps: GroupMaps | None
    model: Model | None
    prices: Floats | None = None
    model_known: bool = False  # whether the clients have the model already
    name = "totals"

    @property
    def request(self) -> Request:
        """Ask for rows and expected positives per group."""
        return ask.TotalsRequest(self.maps, None if self.model_known else self.model)

    def take(self, total: told.Totals, plan: Plan, clients: int) -> Phase:
        """Begin with prices, or with Algorithm 1."""
        standing = RosterTotals(total.mass, total.positives, clients, self)
        if plan.solver is None:
            return PricingPhase.start(standing, plan)
        if plan.solver.step is None:
            return SmoothnessPhase(standing)
        return StepsPhase.start(standing, plan, float(plan.solver.step), clients)

    def without(self, plan: Plan) -> Phase | None:
        """Totals of those who remain; where calibrators hold the lost rows too, these are fitted again first."""
        return None if self.maps is None else self.again(plan, self.prices)

    def again(self, plan: Plan, prices: Floats | None) -> Phase:
        """Where a new roster begins."""
        return after_training(plan, self.model, prices)
