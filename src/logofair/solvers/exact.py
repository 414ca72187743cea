"""The exact optimum by decomposition: prices of the global rates out, the clients' summed answers back.

Dantzig-Wolfe: the master mixes the answers so far; its duals are the next prices; smoothing them with the best
prices so far halves the number of rounds. Every price vector proves an upper bound on accuracy, so the difference to
the mixture's own accuracy is a certificate at every moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.inputs import Floats
from logofair.solvers.local import LocalAnswer, solve_local
from logofair.solvers.master import Master
from logofair.solvers.problem import Problem

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
