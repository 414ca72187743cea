"""The paper's Algorithm 1 as a protocol: local gradient steps, and the mean of the clients' changes.

The same formulas as :mod:`logofair.solvers.algorithm1`, which says where they depart from the printed algorithm. Its
result may violate the tolerances; the settlement measures by how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.federation import messages as ask
from logofair.federation import sums as told
from logofair.federation.expected import global_rates
from logofair.federation.messages import Request
from logofair.federation.plan import Plan
from logofair.federation.settlement import Phase, Settling, Standing, penalty_of
from logofair.federation.wire import carried
from logofair.inputs import Floats
from logofair.solvers.algorithm1 import signed

__all__ = ["Bounding", "Steepening", "Stepping"]


@carried
@dataclass(frozen=True, eq=False)
class Steepening:
    """Algorithm 1 takes one common step, from the largest smoothness constants."""

    standing: Standing
    name = "steps"

    @property
    def request(self) -> Request:
        """Ask for smoothness constants."""
        return ask.AskSteepness(self.standing.mass, self.standing.positives)

    def take(self, total: told.Steepness, plan: Plan, clients: int) -> Phase:
        """``total`` holds the largest constants, not their sums."""
        assert plan.solver is not None
        step = plan.solver.length(total.constant, len(plan.groups))
        return Stepping.start(self.standing, plan, step, clients)

    def without(self, plan: Plan) -> Phase | None:
        """Back to the totals."""
        return self.standing.again(plan, None)


@carried
@dataclass(frozen=True, eq=False)
class Stepping:
    """One round of Algorithm 1; the server takes the mean of the clients' changes and projects it."""

    standing: Standing
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    clients: int
    name = "steps"

    @classmethod
    def start(cls, standing: Standing, plan: Plan, step: float, clients: int) -> Stepping:
        """All multipliers are 0 at first."""
        groups = len(plan.groups)
        return cls(standing, np.zeros((groups * (groups - 1), len(global_rates(plan)))), step, 1, clients)

    @property
    def request(self) -> Request:
        """Ask for local steps."""
        s = self.standing
        return ask.AskSteps(s.mass, s.positives, self.multipliers, self.step, self.round, self.clients)

    def take(self, total: told.Steps, plan: Plan, clients: int) -> Phase:
        """Average, project, and after the last round settle at the final multipliers."""
        assert plan.solver is not None
        after = np.maximum(self.multipliers + total.change / clients, 0.0)
        if self.round < plan.solver.rounds:
            return replace(self, multipliers=after, round=self.round + 1)
        prices = signed(after, len(plan.groups))
        return Bounding(self.standing, prices[None], self.round)

    def without(self, plan: Plan) -> Phase | None:
        """Back to the totals: the steps so far were those of other rows."""
        return self.standing.again(plan, None)


@carried
@dataclass(frozen=True, eq=False)
class Bounding:
    """The end of Algorithm 1: every client's exact answer to the final multipliers, and the bound they prove."""

    standing: Standing
    prices: Floats
    round: int
    name = "answers"

    @property
    def request(self) -> Request:
        """Ask for the answer to the final multipliers."""
        return ask.AskAnswers(self.standing.mass, self.standing.positives, self.prices)

    def take(self, total: told.Answers, plan: Plan, clients: int) -> Phase:
        """Settle on that one answer, whether it keeps the tolerances or not."""
        penalty = penalty_of(self.prices[0], self.standing.tolerance(plan))
        bound = float(total.bound[0]) + penalty
        return Settling(self.standing, self.prices, np.ones(1), bound, self.prices[0], self.round)

    def without(self, plan: Plan) -> Phase | None:
        """Back to the totals."""
        return self.standing.again(plan, None)
