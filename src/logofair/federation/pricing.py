"""Rounds of prices to a certified gap.

Dantzig-Wolfe: the summed answers to each price vector are a column of the master problem; its duals and a few points
around them are the next prices. Every price vector proves an upper bound on accuracy, so the difference to the best
mixture so far is a certificate at every moment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from logofair.federation import messages as ask
from logofair.federation import sums as told
from logofair.federation.expected import global_rates
from logofair.federation.messages import Request
from logofair.federation.plan import Plan
from logofair.federation.settlement import Phase, Settling, Standing
from logofair.federation.wire import carried
from logofair.inputs import Floats
from logofair.solvers.incumbent import Asked, incumbent
from logofair.solvers.problem import zero_sum
from logofair.solvers.trials import landmarks, trial_prices, trial_size

__all__ = ["Pricing"]

carried(Asked)

# Bytes that a secure sum's message carries for each site beside the numbers.
_SEALED = 140


@carried
@dataclass(frozen=True, eq=False)
class Pricing:
    """One round: a batch of prices out, summed answers back."""

    standing: Standing
    asked: Asked
    prices: Floats
    round: int
    name = "answers"

    @classmethod
    def start(cls, standing: Standing, plan: Plan) -> Pricing:
        """Begin with what the last roster found worth asking, or with the usual batch."""
        groups, rates = len(plan.groups), len(global_rates(plan))
        none = Asked(np.zeros((0, groups, rates)), np.zeros(0), np.zeros((0, groups, rates)), np.zeros(0))
        again = standing.before.prices
        if again is None:
            return cls(standing, none, _next_prices(plan, standing, none), 1)
        # Prices prove a bound only if they sum to 0 over the groups that count, and a lost site may change which do.
        counts = np.isfinite(standing.tolerance(plan))
        return cls(standing, none, np.unique(zero_sum(again, counts[None], 1), axis=0), 1)

    @property
    def request(self) -> Request:
        """Ask for the best answer to every price vector of the batch."""
        return ask.AskAnswers(self.standing.mass, self.standing.positives, self.prices)

    def take(self, total: told.Answers, plan: Plan, clients: int) -> Phase:
        """Add the columns; settle where the certificate is good enough, else ask on."""
        asked = _with(self.asked, Asked(self.prices, total.gain, total.shares, total.bound))
        found = incumbent(asked, self.standing.tolerance(plan))
        if found.bound - found.value > plan.gap and self.round < plan.rounds:
            prices = _next_prices(plan, self.standing, asked)
            if len(prices):  # none: everything near the optimum was tried, and rounding is all that is left
                return Pricing(self.standing, asked, prices, self.round + 1)
        return Settling.mixture(self.standing, asked, found.weights, found.bound, found.centre, self.round)

    def without(self, plan: Plan) -> Phase | None:
        """The columns are void; the most telling prices are asked of the new roster at once."""
        if not self.asked.gains.size:
            return self.standing.again(plan, self.prices)
        found = incumbent(self.asked, self.standing.tolerance(plan))
        telling = np.concatenate([self.asked.prices[found.weights[1:] > 0], found.centre[None], self.prices])
        _, first = np.unique(telling, axis=0, return_index=True)
        return self.standing.again(plan, telling[np.sort(first)][: max(1, len(self.prices))])


def _next_prices(plan: Plan, standing: Standing, asked: Asked) -> Floats:
    """The next batch; a single zero price where nothing global is constrained."""
    tolerance = standing.tolerance(plan)
    if not np.isfinite(tolerance).any():
        return np.zeros((1, *tolerance.shape))
    share = standing.mass.sum()
    marks = landmarks(standing.mass / share, standing.positives / share, global_rates(plan))
    groups, rates = tolerance.shape
    size = plan.trials or trial_size(groups, rates, _SEALED * standing.clients if plan.secure else 0)
    return trial_prices(asked, tolerance, size, marks)


def _with(asked: Asked, more: Asked) -> Asked:
    """All that was asked, and answered, together."""
    return Asked(*(np.concatenate([getattr(asked, f.name), getattr(more, f.name)]) for f in fields(Asked)))
