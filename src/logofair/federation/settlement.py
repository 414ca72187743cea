"""The end of a run: the mixture is settled, every client's stored policy is measured, and that is the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from logofair.federation import messages as ask
from logofair.federation import sums as told
from logofair.federation.expected import Part, global_rates
from logofair.federation.messages import Request
from logofair.federation.plan import Plan
from logofair.federation.wire import carried
from logofair.inputs import Floats
from logofair.solvers.incumbent import Asked
from logofair.solvers.problem import groups_compared, spread

__all__ = ["Finished", "Phase", "Settling", "Standing", "global_bounds", "penalty_of"]


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
class Standing:
    """What all later phases share: the totals of the roster, and the phase they came from."""

    mass: Floats
    positives: Floats
    clients: int
    before: Any  # the phase that asked for them

    @property
    def part(self) -> Part:
        """The rows of the whole roster."""
        return Part(self.mass, self.positives)

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
    constrained = [r for r in plan.shared if r.tolerance is not None]
    units = np.array([r.rate.normalised()[1] for r in constrained])
    return np.array([r.tolerance for r in constrained], dtype=float) * units, units


def penalty_of(prices: Floats, tolerance: Floats) -> float:
    """What the tolerances are worth at given prices."""
    return 0.5 * float(np.sum(np.where(np.isfinite(tolerance), tolerance, 0.0) * np.abs(prices)))


@carried
@dataclass(frozen=True, eq=False)
class Settling:
    """The weights of the mixture go out; every client stores its policy and measures it."""

    standing: Standing
    prices: Floats  # (answers mixed, groups, rates)
    weights: Floats
    bound: float  # above rejecting everybody
    duals: Floats  # (groups, rates): the prices that prove the bound
    rounds: int
    name = "settlement"

    @classmethod
    def mixture(
        cls, standing: Standing, asked: Asked, weights: Floats, bound: float, duals: Floats, rounds: int
    ) -> Settling:
        """Keep the answers that count; the weight of the first column is that of rejecting everybody."""
        used = np.flatnonzero(weights[1:] > 0)
        prices, weights = asked.prices[used], weights[1:][used]
        if not used.size:  # everybody is rejected: any answer with weight 0 says so
            prices, weights = asked.prices[:1], np.zeros(1)
        return cls(standing, prices, weights, bound, duals, rounds)

    @property
    def request(self) -> Request:
        """Ask every client to store its policy and to measure it."""
        return ask.AskSettled(self.prices, self.weights)

    def take(self, total: told.Settled, plan: Plan, clients: int) -> Phase:
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

    settling: Settling
    settled: told.Settled
    gaps: Floats  # global gaps in the user's units, (rates,)
    violation: float
    clients: int
    name = "publication"

    @property
    def request(self) -> Request:
        """The result itself is put together by the server, which knows the roster."""
        raise NotImplementedError

    def take(self, total: told.Noted, plan: Plan, clients: int) -> Phase:
        """Nothing follows."""
        return self

    def without(self, plan: Plan) -> Phase | None:
        """A client that does not hear the result can ask for it later."""
        return None
