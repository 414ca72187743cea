"""What was promised for every rate at every place, what is held there, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.inputs import Floats
from logofair.mixtures import evaluate
from logofair.notions import Rate, Requirement
from logofair.report.figures import compared_rates
from logofair.segments import Booleans
from logofair.solution import Solution
from logofair.solvers.problem import spread

__all__ = ["Promised", "promised_gaps"]


@dataclass(frozen=True, eq=False)
class Promised:
    """What one side promises, for each of its rates at each place, and what it holds in the basis of the promise.

    ``tolerance`` is infinite where free; ``gap`` NaN where nothing is promised or fewer than two groups have the rate;
    ``price`` is what one more unit of tolerance wins at most. All are (rates, places).
    """

    rates: tuple[Rate, ...]
    tolerance: Floats
    gap: Floats
    price: Floats

    def line(self, rate: Rate) -> int | None:
        """Where a rate stands, if anything is promised for it."""
        return self.rates.index(rate) if rate in self.rates else None

    @property
    def bound(self) -> Booleans:
        """Where something is promised."""
        return np.isfinite(self.tolerance)

    @property
    def measured(self) -> Booleans:
        """Where something is promised and can be measured."""
        return self.bound & ~np.isnan(self.gap)


def promised_gaps(solution: Solution) -> tuple[Promised, Promised]:
    """Return what is promised and held inside each client and over all.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> inside, across = promised_gaps(solution)
    >>> inside.tolerance.tolist(), inside.gap.round(6).tolist(), across.rates
    ([[0.02]], [[0.02]], ())
    """
    problem, promise, prices = solution.problem, solution.promise, solution.certificate.prices
    u, v = (part.reshape(problem.shape) for part in evaluate(problem.cells, solution.policy.mixtures))
    inside = [r for k, r in enumerate(promise.local) if np.isfinite(promise.tolerances[:, k]).any()]
    across = [r for r in promise.shared if r.tolerance is not None]
    local = spread(problem.local_values(u, v), problem.local_counts, axis=1) / problem.local_units
    shared = spread(problem.global_shares(u, v), problem.global_counts, axis=0) / problem.global_units
    local = np.where(problem.local_counts.any(axis=1), local, np.nan)
    shared = np.where(problem.global_counts.any(axis=0), shared, np.nan)
    bounds = problem.local_tolerance / problem.local_units
    return (
        _tightest(inside, bounds.T, local.T, prices.local.T),
        _tightest(
            across,
            (problem.global_tolerance / problem.global_units)[:, None],
            shared[:, None],
            prices.global_[:, None],
        ),
    )


def _tightest(requirements: list[Requirement], tolerance: Floats, gap: Floats, price: Floats) -> Promised:
    """One line per rate: where several notions bound the same rate, the smaller tolerance and the sum of prices."""
    rates = compared_rates(tuple(requirements))
    lines = [[k for k, r in enumerate(requirements) if r.rate == rate] for rate in rates]
    shape = (len(rates), tolerance.shape[1])
    return Promised(
        rates,
        np.array([tolerance[k].min(axis=0) for k in lines]).reshape(shape),
        np.array([gap[k[0]] for k in lines]).reshape(shape),
        np.array([price[k].sum(axis=0) for k in lines]).reshape(shape),
    )
