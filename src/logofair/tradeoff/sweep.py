"""Many global tolerances at one local tolerance: what the clients answered at one point serves all others.

An answer of the clients keeps their local tolerances whatever the global ones are, so it may be mixed at every point
of the sweep (and at every looser local tolerance). The bound that a price vector proves is the clients' value at these
prices plus the worth of the global tolerances, so one evaluation bounds every point too. Only the master's small
program is solved anew; most points need one or two fresh answers, where starting from nothing takes five to ten.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logofair.columns.checks import Floats
from logofair.solvers.decomposition import Master, Optimum
from logofair.solvers.local import LocalAnswer, solve_local
from logofair.solvers.problem import Problem
from logofair.solvers.simplex import Tableau

__all__ = ["Sweep"]


# As the exact solver: well below the 1e-6 that a certificate promises.
_TARGET = 2e-7
_ROUNDS = 200
_RETREATS = 6


@dataclass(frozen=True, eq=False)
class _Answer:
    """The clients' (u, v), what it gains over rejecting everybody, and the groups' global rates."""

    u: Floats
    v: Floats
    gain: float
    shares: Floats


@dataclass(frozen=True, eq=False)
class _Proof:
    """Prices of the global rates, the clients' value at these, and their local multipliers."""

    prices: Floats
    value: float
    multipliers: Floats


@dataclass(eq=False)
class Sweep:
    """A solver of problems that differ in their global tolerances alone; it remembers answers and proofs.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.cells.cells import build_cells
    >>> from logofair.columns.labels import encode
    >>> from logofair.requirements import make_requirements
    >>> from logofair.solvers.problem import make_problem
    >>> rng = np.random.default_rng(0)
    >>> group, client = rng.integers(0, 2, 400).astype(np.int32), rng.integers(0, 3, 400)
    >>> cells = build_cells(rng.beta(1 + group, 2), group, encode(client, "clients").codes, n_groups=2, n_clients=3)
    >>> sweep = Sweep()
    >>> for tolerance in (0.1, 0.05, 0.01):
    ...     requirements = make_requirements("demographic_parity", 0.1, tolerance, None, encode(client, "clients"))
    ...     print(sweep.solve(make_problem(requirements, cells)).solver)
    sweep
    sweep
    sweep
    """

    answers: list[_Answer] = field(default_factory=list)
    proofs: list[_Proof] = field(default_factory=list)
    tableau: Tableau | None = None
    used: set[int] = field(default_factory=set)

    def looser(self) -> Sweep:
        """A sweep at a looser local tolerance: answers that were of use may be mixed there, proofs prove nothing."""
        return Sweep(answers=[self.answers[i] for i in sorted(self.used)])

    def solve(self, problem: Problem) -> Optimum | None:
        """Solve one problem to a certified gap; None where that fails."""
        nothing = np.zeros((problem.shape[1], len(problem.global_rates)))
        if not problem.global_counts.any():
            local = self._local(problem, nothing)
            return _optimum(local.u, local.v, local.multipliers, nothing, 1) if local.sound else None
        master = Master(np.where(problem.global_counts, problem.global_tolerance, np.inf))
        master.add(0.0, nothing)
        for known in self.answers:
            master.add(known.gain, known.shares)
        if not self.proofs and not self._ask(problem, nothing, master):
            return None
        return self._refine(problem, master)

    def _refine(self, problem: Problem, master: Master) -> Optimum | None:
        """Mix the answers, ask at the prices of the mixture, until the best proof meets it."""
        value = -np.inf
        for done in range(1, _ROUNDS + 1):
            before, mixed = value, master.solve()
            if mixed is None:
                return None
            value, weights, duals = mixed
            bounds = [proof.value + master.penalty(proof.prices) for proof in self.proofs]
            best = int(np.argmin(bounds))
            proof = self.proofs[best]
            if bounds[best] - value <= _TARGET:
                return _optimum(*self._mixture(weights), proof.multipliers, proof.prices, done)
            prices = duals if value <= before else _trial(proof.prices, duals, master)
            if not self._ask_near(problem, prices, proof.prices, master):
                return None
        return None

    def _ask_near(self, problem: Problem, prices: Floats, centre: Floats, master: Master) -> bool:
        """Ask at some prices, or nearer to the best ones known: huge prices drown the clients' gains in rounding."""
        for _ in range(_RETREATS):
            if self._ask(problem, prices, master):
                return True
            prices = 0.5 * (prices + centre)
        return False

    def _ask(self, problem: Problem, prices: Floats, master: Master) -> bool:
        """Get the clients' best answer at some prices, and remember it with what it proves; whether it is sound."""
        local = self._local(problem, prices)
        if local.sound:
            gain = problem.accuracy(local.u, local.v) - problem.baseline
            shares = problem.global_shares(local.u, local.v)
            self.answers.append(_Answer(local.u, local.v, gain, shares))
            self.proofs.append(_Proof(prices, gain - float(np.sum(prices * shares)), local.multipliers))
            master.add(gain, shares)
        return local.sound

    def _local(self, problem: Problem, prices: Floats) -> LocalAnswer:
        """Solve the clients' problems from where the last solve ended."""
        local = solve_local(problem, *problem.priced_gain(prices), self.tableau)
        self.tableau = local.tableau if local.sound else None
        return local

    def _mixture(self, weights: Floats) -> tuple[Floats, Floats]:
        """The mixed (u, v); the master's first answer rejects everybody and adds nothing."""
        weighty = np.flatnonzero(weights[1:] > 0).tolist()
        self.used.update(weighty)
        none = np.zeros_like(self.answers[0].u)
        u = sum((weights[i + 1] * self.answers[i].u for i in weighty), none)
        return u, sum((weights[i + 1] * self.answers[i].v for i in weighty), none)


def _trial(centre: Floats, duals: Floats, master: Master) -> Floats:
    """Prices half-way from the best proof's to the master's, which few answers can drive into the millions."""
    reach = 1.0 + 2.0 * np.abs(centre)
    return 0.5 * centre + 0.5 * master.proper(np.clip(duals, centre - reach, centre + reach))


def _optimum(u: Floats, v: Floats, multipliers: Floats, prices: Floats, rounds: int) -> Optimum:
    return Optimum(u, v, multipliers, prices, rounds, "sweep")
