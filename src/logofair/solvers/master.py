"""The server's problem: mix the answers so far so that the global gaps hold; its duals are the next prices.

An answer enters only through its gain and the groups' global rates, both summed over clients. The first answer is
always "reject everybody" (gain 0, rates 0), which is fair by every notion, so the problem is never infeasible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logofair.inputs import Floats
from logofair.segments import Indices
from logofair.solvers.problem import zero_sum
from logofair.solvers.simplex import Corners, maximise
from logofair.solvers.tableau import Tableau, refactorise, start


@dataclass
class Master:
    """Answers as columns, and the simplex state that mixes them."""

    tolerance: Floats  # (groups, global rates); inf where a group does not count
    gains: list[float] = field(default_factory=list)
    rates: list[Floats] = field(default_factory=list)  # each (groups, global rates)
    tableau: Tableau | None = None

    def add(self, gain: float, rates: Floats) -> None:
        """Add one answer: its gain and the groups' rates, summed over all clients."""
        self.gains.append(gain)
        self.rates.append(rates)

    def solve(self) -> tuple[float, Floats, Floats] | None:
        """Best mixture of the answers: its gain, the weights, and the multipliers (groups, global rates).

        None where nearly equal answers have made the basis too ill-conditioned to be trusted.
        """
        groups, rates = self.tolerance.shape
        if self.tableau is None:
            family = np.tile(np.arange(rates), groups)
            everything = np.arange(groups * rates).reshape(1, -1)
            self.tableau = start(self.tolerance.reshape(1, -1), family, everything)
        gains, columns = np.array(self.gains), np.array(self.rates).reshape(len(self.rates), -1)

        def price(multipliers: Floats, programs: Indices) -> Corners:
            del programs
            priced = gains - columns @ multipliers[0]
            best = np.argmax(priced)
            at = np.array([[float(best)]])
            return Corners(
                gains[best].reshape(1, 1), priced[best].reshape(1, 1), columns[best].reshape(1, 1, -1), at, at
            )

        maximise(self.tableau, price)
        if not refactorise(self.tableau) or not self.tableau.done.all() or self._negative():
            return None
        return self._read(gains)

    def _negative(self) -> bool:
        assert self.tableau is not None
        corner = self.tableau.kind[0] == 0
        return bool(np.min(self.tableau.solution[0, corner], initial=0.0) < -1e-11)

    def _read(self, gains: Floats) -> tuple[float, Floats, Floats]:
        assert self.tableau is not None
        weights = np.zeros(gains.size)
        corner = self.tableau.kind[0] == 0
        # Basic corners remember the number of their answer in u; the starting corner is answer 0.
        np.add.at(weights, self.tableau.u[0, corner].astype(int), np.maximum(self.tableau.solution[0, corner], 0.0))
        weights /= weights.sum()
        multipliers = self.tableau.multipliers()[1].reshape(self.tolerance.shape)
        return float(weights @ gains), weights, self.proper(multipliers)

    def proper(self, multipliers: Floats) -> Floats:
        """Multipliers that sum to 0 over the groups that count and are 0 elsewhere."""
        return zero_sum(multipliers, np.isfinite(self.tolerance), 0)

    def penalty(self, multipliers: Floats) -> float:
        """What the tolerances are worth at these prices."""
        tolerance = np.where(np.isfinite(self.tolerance), self.tolerance, 0.0)
        return 0.5 * float(np.sum(tolerance * np.abs(multipliers)))
