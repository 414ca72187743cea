"""What is known after some answers: the best mixture of them, and how much better anything could be."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog

from logofair.inputs import Floats
from logofair.segments import Indices
from logofair.solvers.master import Master
from logofair.solvers.problem import spread

_ROUNDING = 1e-12
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class Asked:
    """Prices tried so far and the clients' summed answers; "reject everybody" is always known besides.

    ``bounds`` are the clients' summed dual values, without what the tolerances are worth at these prices.
    """

    prices: Floats  # (t, groups, rates)
    gains: Floats  # (t,)
    shares: Floats  # (t, groups, rates)
    bounds: Floats  # (t,)


@dataclass(frozen=True)
class Incumbent:
    """What is known after some answers: a mixture of them, and how much better anything could be."""

    value: float
    weights: Floats  # (t + 1,); the first is that of rejecting everybody
    duals: Floats  # (groups, rates): prices that support the mixture
    bound: float
    centre: Floats  # (groups, rates): prices that prove the bound

    @property
    def gap(self) -> float:
        """What could still be won."""
        return self.bound - self.value


def incumbent(asked: Asked, tolerance: Floats) -> Incumbent:
    """Best mixture of the answers within the tolerances (inf: a group does not count), and the best bound.

    Examples
    --------
    >>> import numpy as np
    >>> shares = np.array([[[0.8], [0.4]], [[0.5], [0.5]]])
    >>> prices = np.array([[[0.0], [0.0]], [[0.2], [-0.2]]])
    >>> asked = Asked(prices, np.array([0.3, 0.26]), shares, np.array([0.3, 0.26]))
    >>> found = incumbent(asked, np.full((2, 1), 0.1))
    >>> round(found.value, 4), found.weights.round(4).tolist(), round(found.gap, 4)
    (0.27, [0.0, 0.25, 0.75], 0.01)
    """
    master = _mixer(asked, tolerance, np.arange(asked.gains.size))
    bounds = asked.bounds + np.array([master.penalty(prices) for prices in asked.prices])
    best = int(np.argmin(bounds))
    solved = master.solve()
    if solved is None or _excess(solved[1], asked, tolerance) > _ROUNDING:
        solved = _by_few(asked, tolerance)
    return Incumbent(*solved, float(bounds[best]), asked.prices[best])


def _mixer(asked: Asked, tolerance: Floats, which: Indices) -> Master:
    """The server's problem over some of the answers."""
    master = Master(tolerance)
    master.add(0.0, np.zeros(tolerance.shape))
    for t in which:
        master.add(float(asked.gains[t]), np.where(np.isfinite(tolerance), asked.shares[t], 0.0))
    return master


def _excess(weights: Floats, asked: Asked, tolerance: Floats) -> float:
    """Largest excess of a mixture's gaps over the tolerances."""
    gaps = spread(np.tensordot(weights[1:], asked.shares, 1), np.isfinite(tolerance), axis=0)
    return float(np.max(gaps - tolerance.min(axis=0), initial=0.0))


def _by_few(asked: Asked, tolerance: Floats) -> tuple[float, Floats, Floats]:
    """The mixture where nearly equal answers confuse the simplex: HiGHS says which few are needed."""
    counts = np.isfinite(tolerance)
    rows, limits = [np.zeros(asked.gains.size)], [0.0]
    for k, a, b in product(range(tolerance.shape[1]), *[range(tolerance.shape[0])] * 2):
        if a != b and counts[a, k] and counts[b, k]:
            rows.append(asked.shares[:, a, k] - asked.shares[:, b, k])
            limits.append(tolerance[a, k])
    rows.append(np.ones(asked.gains.size))
    solved = linprog(  # type: ignore[call-overload]  # the stubs want the options typed
        -asked.gains, np.array(rows), [*limits, 1.0], method="highs", options=_OPTIONS
    )
    rejecting = np.eye(1, asked.gains.size + 1)[0]
    few = np.flatnonzero(solved.x > 1e-9) if solved.status == 0 else np.zeros(0, dtype=np.int64)
    mixed = _mixer(asked, tolerance, few).solve()
    if mixed is not None:
        weights = np.zeros(asked.gains.size + 1)
        weights[np.append(0, few + 1)] = mixed[1]
        if _excess(weights, asked, tolerance) <= _ROUNDING:
            return mixed[0], weights, mixed[2]
    return 0.0, rejecting, np.zeros(tolerance.shape)
