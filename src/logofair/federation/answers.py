"""What clients compute: pure, deterministic functions of (own cells, totals of the roster, multipliers).

No warm start and fixed tie-breaking: the best answer to the master's prices is not unique, and another one than was
counted would silently break the global promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.cells import Cells
from logofair.inputs import Floats
from logofair.mixtures import Mixtures, evaluate, reduce
from logofair.segments import Indices
from logofair.solvers.joint import solve_joint
from logofair.solvers.local import local_bound, solve_local
from logofair.solvers.problem import Problem, Whole

__all__ = ["Answer", "best_answer", "measure", "mixed_rules"]

# By how much the fallback's answer may leave a local tolerance: less than the settlement lets pass.
_EXCESS = 1e-10


@dataclass(frozen=True, eq=False)
class Answer:
    """The clients' best rules at some prices of the global rates; the first axis counts clients."""

    u: Floats  # (clients, groups)
    v: Floats
    gain: Floats  # (clients,), above rejecting everybody, as a share of all rows
    shares: Floats  # (clients, groups, global rates)
    bound: Floats  # (clients,): no rule within the local tolerances is worth more at these prices


def best_answer(problem: Problem, prices: Floats) -> Answer:
    """Every client's optimum at given prices (groups, global rates), with the bound that proves it.

    Examples
    --------
    >>> import logofair
    >>> problem = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none").problem
    >>> answer = best_answer(problem, np.zeros((2, 0)))
    >>> bool(np.isclose(answer.gain[0], answer.bound[0]))
    True
    """
    gain_u, gain_v = problem.priced_gain(prices)
    u, v, multipliers = np.zeros_like(gain_u), np.zeros_like(gain_v), np.zeros_like(problem.local[0])
    for clients in _alike(problem, gain_v):
        part = problem if clients.size == problem.shape[0] else _only(problem, clients)
        u[clients], v[clients], multipliers[clients] = _solved(part, prices)
    bound = problem.client_mass * local_bound(problem, gain_u, gain_v, multipliers)
    return Answer(u, v, problem.client_gains(u, v), problem.client_shares(u, v), bound)


def _alike(problem: Problem, gain_v: Floats) -> list[Indices]:
    """The clients by the method that solves them alone: whom a client stands beside must not choose it."""
    if not problem.compares_selection:
        return [np.arange(problem.shape[0])]
    by_rank = (gain_v.min(axis=1) >= 0) | ~problem.local_counts.any(axis=(1, 2))
    return [clients for clients in (np.flatnonzero(by_rank), np.flatnonzero(~by_rank)) if clients.size]


def _solved(problem: Problem, prices: Floats) -> tuple[Floats, Floats, Floats]:
    """Optimal u and v and the multipliers that prove it."""
    gain_u, gain_v = problem.priced_gain(prices)
    found = solve_local(problem, gain_u, gain_v)
    u, v, multipliers = found.u, found.v, found.multipliers
    clients = problem.shape[0]
    if not found.sound and clients > 1:  # one unsound program would have all of them solved again, otherwise
        each = [_solved(_only(problem, np.array([c])), prices) for c in range(clients)]
        u, v, multipliers = (np.concatenate(parts) for parts in zip(*each, strict=True))
    elif not found.sound:
        solved = solve_joint(problem.at_prices(prices))
        if solved is not None and problem.local_excess(solved.u, solved.v).max(initial=0.0) < _EXCESS:
            u, v, multipliers = solved.u, solved.v, solved.local_multipliers
        else:  # rejecting everybody is always fair, and any multipliers prove a bound
            u, v = np.zeros_like(u), np.zeros_like(v)
    free = np.flatnonzero(~problem.local_counts.any(axis=(1, 2)))
    if free.size:  # nothing to pivot for, so that rounding decides nothing
        cells = (free[:, None] * problem.shape[1] + np.arange(problem.shape[1])).ravel()
        _, corner_u, corner_v = problem.cells.best_corner(cells, gain_v[free].ravel(), gain_u[free].ravel())
        u[free], v[free] = corner_u.reshape(free.size, -1), corner_v.reshape(free.size, -1)
        multipliers[free] = 0.0
    return u, v, multipliers


def _only(problem: Problem, clients: Indices) -> Problem:
    """The same problem for some of the clients; totals are those of all."""
    mass, positives = (
        each.reshape(problem.shape).sum(axis=0) for each in (problem.cells.mass, problem.cells.positives)
    )
    whole = problem.whole or Whole(mass, positives)
    return replace(
        problem, cells=_cells_of(problem.cells, clients), local_tolerance=problem.local_tolerance[clients], whole=whole
    )


def _cells_of(cells: Cells, clients: Indices) -> Cells:
    """The cells of some clients, whose values rise with their scores."""
    assert cells.ladder is None
    which = (clients[:, None] * cells.n_groups + np.arange(cells.n_groups)).ravel()
    sizes = np.diff(cells.starts)[which]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = np.concatenate([np.arange(cells.starts[i], cells.starts[i + 1]) for i in which])
    sums = np.concatenate([np.arange(cells.starts[i] + i, cells.starts[i + 1] + i + 1) for i in which])
    return Cells(
        cells.n_groups,
        clients.size,
        starts,
        cells.lowest[blocks],
        cells.highest[blocks],
        cells.values[blocks],
        cells.positives_below[sums],
        None if cells.mass_below is None else cells.mass_below[sums],
        cells.rows[which],
    )


def mixed_rules(problem: Problem, u: Floats, v: Floats, weights: Floats, *, selection_only: bool) -> Mixtures:
    """The stored rules of answers (answers, clients, groups) mixed with weights (answers,)."""
    # Term by term: a matrix product sums in an order that depends on how many clients stand side by side.
    mixed_u, mixed_v = (sum(w * a for w, a in zip(weights, each, strict=True)).ravel() for each in (u, v))
    return reduce(problem.cells, mixed_u, mixed_v, selection_only=selection_only)


def measure(problem: Problem, rules: Mixtures) -> tuple[Floats, Floats, Floats]:
    """Gain, shares and largest local excess, in the user's units, of stored rules; the first axis counts clients."""
    u, v = (each.reshape(problem.shape) for each in evaluate(problem.cells, rules))
    excess = problem.local_excess(u, v) / problem.local_units
    return problem.client_gains(u, v), problem.client_shares(u, v), np.max(excess, axis=1, initial=0.0)
