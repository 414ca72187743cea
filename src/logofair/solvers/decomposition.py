"""The exact optimum by decomposition: prices of the global rates out, the clients' summed answers back.

Dantzig-Wolfe: the master mixes the answers so far; its duals are the next prices; smoothing them with the best
prices so far halves the number of rounds. Every price vector proves an upper bound on accuracy, so the difference to
the mixture's own accuracy is a certificate at every moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.optimize import linprog

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.solvers.local import LocalAnswer, solve_local
from logofair.solvers.problem import Problem, spread, zero_sum
from logofair.solvers.simplex import Corners, Tableau, maximise, refactorise, start


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


_ROUNDING = 1e-12
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class TriedPrices:
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
    def optimality_gap(self) -> float:
        """What could still be won."""
        return self.bound - self.value


def incumbent(asked: TriedPrices, tolerance: Floats) -> Incumbent:
    """Best mixture of the answers within the tolerances (inf: a group does not count), and the best bound.

    Examples
    --------
    >>> import numpy as np
    >>> shares = np.array([[[0.8], [0.4]], [[0.5], [0.5]]])
    >>> prices = np.array([[[0.0], [0.0]], [[0.2], [-0.2]]])
    >>> asked = TriedPrices(prices, np.array([0.3, 0.26]), shares, np.array([0.3, 0.26]))
    >>> found = incumbent(asked, np.full((2, 1), 0.1))
    >>> round(found.value, 4), found.weights.round(4).tolist(), round(found.optimality_gap, 4)
    (0.27, [0.0, 0.25, 0.75], 0.01)
    """
    master = _mixer(asked, tolerance, np.arange(asked.gains.size))
    bounds = asked.bounds + np.array([master.penalty(prices) for prices in asked.prices])
    best = int(np.argmin(bounds))
    solved = master.solve()
    if solved is None or _excess(solved[1], asked, tolerance) > _ROUNDING:
        solved = _by_few(asked, tolerance)
    return Incumbent(*solved, float(bounds[best]), asked.prices[best])


def _mixer(asked: TriedPrices, tolerance: Floats, which: Indices) -> Master:
    """The server's problem over some of the answers."""
    master = Master(tolerance)
    master.add(0.0, np.zeros(tolerance.shape))
    for t in which:
        master.add(float(asked.gains[t]), np.where(np.isfinite(tolerance), asked.shares[t], 0.0))
    return master


def _excess(weights: Floats, asked: TriedPrices, tolerance: Floats) -> float:
    """Largest excess of a mixture's gaps over the tolerances."""
    gaps = spread(np.tensordot(weights[1:], asked.shares, 1), np.isfinite(tolerance), axis=0)
    return float(np.max(gaps - tolerance.min(axis=0), initial=0.0))


def _by_few(asked: TriedPrices, tolerance: Floats) -> tuple[float, Floats, Floats]:
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


# Stop well below the promised 1e-6, so that rounding in the stored policy has room.
_TARGET = 2e-7


@dataclass(frozen=True)
class Optimum:
    """The (u, v) of every cell and the multipliers that prove how good it is."""

    u: Floats  # (clients, groups)
    v: Floats
    local_multipliers: Floats  # (clients, groups, local rates), per client's mass
    global_multipliers: Floats  # (groups, global rates)
    rounds: int
    solver: str


def solve_exact(problem: Problem, *, rounds: int = 200) -> Optimum | None:
    """Solve a problem to a certified gap, or return None where the decomposition did not get there."""
    prices = np.zeros((problem.shape[1], len(problem.global_rates)))
    answer = solve_local(problem, *problem.priced_gain(prices))
    if not problem.global_counts.any():
        return _optimum(answer.u, answer.v, answer, prices, 1) if answer.sound else None
    master = Master(np.where(problem.global_counts, problem.global_tolerance, np.inf))
    master.add(0.0, np.zeros_like(prices))
    answers = [(np.zeros_like(answer.u), np.zeros_like(answer.v))]
    best, value, centre, proof = np.inf, -1.0, prices, answer
    for done in range(1, rounds + 1):
        gain = problem.accuracy(answer.u, answer.v) - problem.baseline
        shares = problem.global_shares(answer.u, answer.v)
        # What the clients gain at their optimum is also the bound; the certificate proves it in the end.
        bound = gain - float(np.sum(prices * shares)) + master.penalty(prices)
        if bound < best:
            best, centre, proof = bound, prices, answer
        master.add(gain, shares)
        answers.append((answer.u, answer.v))
        before = value
        mixed = master.solve()
        if mixed is None:
            return None
        value, weights, duals = mixed
        if best - value <= _TARGET:
            u, v = (sum(w * a[i] for w, a in zip(weights, answers, strict=True) if w) for i in (0, 1))
            return _optimum(np.asarray(u), np.asarray(v), proof, centre, done)
        prices = duals if value <= before else _between(centre, duals, master)
        answer = solve_local(problem, *problem.priced_gain(prices), answer.tableau)
        if not answer.sound:
            return None
    return None


def _between(centre: Floats, duals: Floats, master: Master) -> Floats:
    """Trial prices half-way from the best so far to the master's duals.

    With few answers and a tiny tolerance those duals run to millions; a box keeps the trial sane.
    """
    reach = 1.0 + 2.0 * np.abs(centre)
    return 0.5 * centre + 0.5 * master.proper(np.clip(duals, centre - reach, centre + reach))


def _optimum(u: Floats, v: Floats, proof: LocalAnswer, prices: Floats, rounds: int) -> Optimum:
    return Optimum(u, v, proof.multipliers, prices, rounds, "exact")
