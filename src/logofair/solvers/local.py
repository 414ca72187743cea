"""Every client's own problem, given the prices of the global rates: clients are then independent of each other.

max  gain of (u, v) in its cells    s.t.  its local gaps are within its tolerances
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.cells.cells import accelerated
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.solvers.problem import Problem, zero_sum
from logofair.solvers.ranks import solve_by_rank
from logofair.solvers.simplex import Corners, Pricer, Tableau, maximise, refactorise, start

# An answer may leave its constraints by rounding errors only.
_ROUNDING = 1e-11


@dataclass(frozen=True)
class LocalAnswer:
    """The clients' best (u, v), and the prices that prove an upper bound on what they gain."""

    u: Floats  # (clients, groups)
    v: Floats  # (clients, groups)
    prices: Floats  # (clients, groups, local rates), summing to 0 over the groups
    sound: bool = True  # whether every client's program was solved within rounding errors
    tableau: Tableau | None = None


def solve_local(problem: Problem, gain_u: Floats, gain_v: Floats, tableau: Tableau | None = None) -> LocalAnswer:
    """Solve every client's problem for the gain ``gain_u * u + gain_v * v``; a tableau continues an earlier solve."""
    clients, groups = problem.shape
    if not problem.local_counts.any():
        _, u, v = _best_corners(problem, gain_u, gain_v, np.arange(clients))
        return LocalAnswer(u, v, np.zeros((clients, groups, len(problem.local_rates))))
    if problem.compares_selection and gain_v.min() >= 0 and not accelerated(problem.cells.values.size):
        u, v, prices = solve_by_rank(problem, gain_u, gain_v)
        return LocalAnswer(u, v, zero_sum(prices, problem.local_counts, 1), _within(problem, u, v))
    return _solve_by_simplex(problem, gain_u, gain_v, tableau)


def _solve_by_simplex(problem: Problem, gain_u: Floats, gain_v: Floats, tableau: Tableau | None) -> LocalAnswer:
    """Pivot from where the tableau stands, or from rejecting everybody."""
    clients, groups = problem.shape
    rates = len(problem.local_rates)
    if tableau is None:
        tolerance = np.where(problem.local_counts, problem.local_tolerance[:, None, :], np.inf)
        family = np.tile(np.arange(rates), groups)
        tableau = start(tolerance.reshape(clients, -1), family, np.arange(groups * rates).reshape(groups, rates))
    else:
        tableau.gain = _basic_gains(tableau, gain_u, gain_v)
    if accelerated(problem.cells.values.size):
        from logofair.solvers.compiled import maximise_compiled

        u, v, prices, off = maximise_compiled(tableau, problem, gain_u, gain_v)
        if tableau.done.all() and off < _ROUNDING:
            return LocalAnswer(u, v, prices, True, tableau)
        refactorise(tableau)
    for _ in range(2):
        maximise(tableau, _pricer(problem, gain_u, gain_v))
        u, v, sound = _read(problem, tableau)
        if sound or not refactorise(tableau):
            break
    prices = tableau.prices()[1].reshape(clients, groups, rates)
    prices = zero_sum(prices, problem.local_counts, 1)
    return LocalAnswer(u, v, prices, sound, tableau)


def local_bound(problem: Problem, gain_u: Floats, gain_v: Floats, prices: Floats) -> Floats:
    """No rule within its local tolerances gains more than this, whatever the prices, (clients,)."""
    priced = problem.locally_priced(gain_u, gain_v, prices)
    value, _, _ = _best_corners(problem, *priced, np.arange(problem.shape[0]))
    tolerance = np.where(np.isfinite(problem.local_tolerance), problem.local_tolerance, 0.0)
    return np.asarray(value.sum(axis=1) + 0.5 * np.sum(tolerance * np.abs(prices).sum(axis=1), axis=1))


def _best_corners(problem: Problem, gain_u: Floats, gain_v: Floats, clients: Indices) -> tuple[Floats, Floats, Floats]:
    groups = problem.shape[1]
    cells = (clients[:, None] * groups + np.arange(groups)).ravel()
    found = problem.cells.best_corner(cells, gain_v.ravel(), gain_u.ravel())
    value, u, v = (array.reshape(-1, groups) for array in found)
    return value, u, v


def _pricer(problem: Problem, gain_u: Floats, gain_v: Floats) -> Pricer:
    """Best corners of the clients' groups for given prices of their local rates."""
    lu, lv = problem.local
    groups, rates = lu.shape[1:]

    def price(prices: Floats, clients: Indices) -> Corners:
        everyone = clients.size == lu.shape[0]
        some = slice(None) if everyone else clients
        some_u, some_v, rate_u, rate_v = gain_u[some], gain_v[some], lu[some], lv[some]
        each = prices.reshape(-1, groups, rates)
        constant, slope = some_u - np.sum(each * rate_u, axis=2), some_v - np.sum(each * rate_v, axis=2)
        priced, u, v = _best_corners(problem, constant, slope, clients)
        touched = rate_u * u[..., None] + rate_v * v[..., None]
        return Corners(some_u * u + some_v * v, priced, touched, u, v)

    return price


def _basic_gains(tableau: Tableau, gain_u: Floats, gain_v: Floats) -> Floats:
    """Gains of the basic corners under a new objective; slacks and floors gain nothing."""
    block = np.minimum(tableau.kind, tableau.blocks - 1)
    gain = np.take_along_axis(gain_u, block, 1) * tableau.u + np.take_along_axis(gain_v, block, 1) * tableau.v
    return np.where(tableau.kind < tableau.blocks, gain, 0.0)


def _read(problem: Problem, tableau: Tableau) -> tuple[Floats, Floats, bool]:
    """(u, v) of the mixtures, and whether weights and gaps are right."""
    u, v, weight = tableau.mixture()
    corner = tableau.kind < tableau.blocks
    lowest = float(np.min(np.where(corner, tableau.solution, 0.0), initial=0.0))
    off = float(np.max(np.abs(weight - 1.0), initial=0.0))
    return u, v, bool(tableau.done.all() and lowest > -_ROUNDING and off < _ROUNDING and _within(problem, u, v))


def _within(problem: Problem, u: Floats, v: Floats) -> bool:
    """Whether every local gap is within its tolerance but for rounding."""
    return bool(np.max(problem.local_excess(u, v), initial=0.0) < _ROUNDING)
