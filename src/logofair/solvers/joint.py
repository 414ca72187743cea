"""The whole problem as one linear program, by column generation through HiGHS: slower, and independent.

The fallback for problems on which the decomposition does not reach its certificate. Each cell mixes a growing list of
corners; HiGHS solves the restricted program, its prices find new corners, until none improves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.solvers.decomposition import Optimum
from logofair.solvers.problem import Problem, zero_sum

HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_MOST_ENTRIES = 4_000_000  # of a dense matrix worth a least-squares step


@dataclass
class _Columns:
    """Corners known so far: the cell of each, and where it lies."""

    cell: Indices
    u: Floats
    v: Floats
    seen: set[tuple[int, float, float]] = field(default_factory=set)

    def add(self, cell: Indices, u: Floats, v: Floats) -> int:
        """Add the corners that are new; how many were."""
        fresh = [i for i, c in enumerate(zip(cell.tolist(), u.tolist(), v.tolist(), strict=True)) if c not in self.seen]
        self.seen.update(zip(cell[fresh].tolist(), u[fresh].tolist(), v[fresh].tolist(), strict=True))
        self.cell = np.concatenate([self.cell, cell[fresh]])
        self.u, self.v = np.concatenate([self.u, u[fresh]]), np.concatenate([self.v, v[fresh]])
        return len(fresh)


def solve_joint(problem: Problem, *, iterations: int = 200) -> Optimum | None:
    """Solve a problem as one program; None where HiGHS fails or does not converge."""
    every = np.arange(problem.mass.size)
    none = np.zeros(0)
    columns = _Columns(none.astype(np.int64), none, none)
    columns.add(every, np.zeros(every.size), np.zeros(every.size))
    gain_u, gain_v = (g.ravel() for g in problem.gain)
    columns.add(every, *problem.cells.best_corner(every, gain_v, gain_u)[1:])
    for done in range(1, iterations + 1):
        solved = _restricted(problem, columns)
        if solved is None:
            return None
        weights, local, global_ = solved
        priced = problem.locally_priced(*problem.priced_gain(global_), local)
        constant, slope = (gain.ravel() for gain in priced)
        value, u, v = problem.cells.best_corner(every, slope, constant)
        known = constant[columns.cell] * columns.u + slope[columns.cell] * columns.v
        best_known = np.full(every.size, -np.inf)
        np.maximum.at(best_known, columns.cell, known)
        better = np.flatnonzero(value > best_known + 1e-10)
        if better.size == 0 or not columns.add(better, u[better], v[better]):
            return _read(problem, columns, weights, local, global_, done)
    return None


def _restricted(problem: Problem, columns: _Columns) -> tuple[Floats, Floats, Floats] | None:
    """Solve over the known corners: their weights and the local and global prices."""
    groups = problem.shape[1]
    n, cell = columns.cell.size, columns.cell
    client, group = np.divmod(cell, groups)
    rows: list[tuple[Floats, Indices, int, float]] = []  # coefficients, columns, floor, tolerance
    owners: list[tuple[int, ...]] = []
    floors = 0
    for side, counts, (cu, cv), tolerance in (
        ("local", problem.local_counts, problem.local, problem.local_tolerance),
        ("global", problem.global_counts[None], problem.global_, problem.global_tolerance[None]),
    ):
        value = cu[client, group] * columns.u[:, None] + cv[client, group] * columns.v[:, None]
        for owner in range(counts.shape[0]):
            for k in range(counts.shape[2]):
                for a in np.flatnonzero(counts[owner, :, k]):
                    members = np.flatnonzero((group == a) & ((client == owner) | (side == "global")))
                    rows.append((value[members, k], members, n + floors + k, float(tolerance[owner, k])))
                    owners.append((owner if side == "local" else -1, int(a), k))
            floors += counts.shape[2]
    return _linprog(problem, columns, rows, owners, n + floors)


def _linprog(
    problem: Problem,
    columns: _Columns,
    rows: list[tuple[Floats, Indices, int, float]],
    owners: list[tuple[int, ...]],
    width: int,
) -> tuple[Floats, Floats, Floats] | None:
    """Assemble ``0 <= rate - floor <= tolerance`` as two rows each, and call HiGHS."""
    n, groups = columns.cell.size, problem.shape[1]
    weight = problem.client_mass[columns.cell // groups]
    gain_u, gain_v = (g.ravel() for g in problem.gain)
    objective = np.zeros(width)
    objective[:n] = -weight * (gain_u[columns.cell] * columns.u + gain_v[columns.cell] * columns.v)
    inequality, limit = _inequalities(rows, width)
    equality = csr_array((np.ones(n), (columns.cell, np.arange(n))), shape=(problem.mass.size, width))
    bounds = [(0.0, None)] * n + [(None, None)] * (width - n)
    solved = linprog(  # type: ignore[call-overload]  # the stubs do not know sparse matrices
        objective, inequality, limit, equality, np.ones(problem.mass.size), bounds, "highs", options=HIGHS
    )
    if solved.status != 0:
        return None
    prices = np.zeros(0) if limit is None else -np.asarray(solved.ineqlin.marginals)
    local, global_ = np.zeros(problem.local_counts.shape), np.zeros(problem.global_counts.shape)
    for price, (client, a, k) in zip(prices[::2] - prices[1::2], owners, strict=True):
        if client < 0:
            global_[a, k] = price
        else:
            local[client, a, k] = price / problem.client_mass[client]
    return _polished(np.asarray(solved.x), n, inequality, limit, equality)[:n], local, global_


def _polished(
    solution: Floats, n: int, inequality: csr_array | None, limit: list[float] | None, equality: csr_array
) -> Floats:
    """Meet the tight constraints to rounding: HiGHS leaves residuals of 1e-10 and more, which small rates magnify."""
    rows = [equality] if inequality is None else [equality, inequality]
    every = vstack(rows).tocsr()
    target = np.concatenate([np.ones(equality.shape[0]), [] if limit is None else limit])

    def excess(x: Floats) -> Floats:
        off = every @ x - target
        off[: equality.shape[0]] = np.abs(off[: equality.shape[0]])
        return np.concatenate([off, -x[:n]])

    tight = np.flatnonzero(excess(solution)[: target.size] > -1e-8)
    moving = np.flatnonzero((solution > 1e-9) | (np.arange(solution.size) >= n))
    matrix = every[tight].tocsc()[:, moving]
    if matrix.shape[0] * matrix.shape[1] > _MOST_ENTRIES:
        return solution
    polished = solution.copy()
    residual = target[tight] - matrix @ solution[moving]
    polished[moving] += np.linalg.lstsq(matrix.toarray(), residual, rcond=None)[0]
    return polished if excess(polished).max() < excess(solution).max() else solution


def _inequalities(
    rows: list[tuple[Floats, Indices, int, float]], width: int
) -> tuple[csr_array | None, list[float] | None]:
    """Two rows for each rate: at most the tolerance above its floor, and not below it."""
    data: list[float] = []
    row: list[int] = []
    column: list[int] = []
    limit: list[float] = []
    for values, members, floor, tolerance in rows:
        for sign, bound in ((1.0, tolerance), (-1.0, 0.0)):
            data += [*(sign * values).tolist(), -sign]
            column += [*members.tolist(), floor]
            row += [len(limit)] * (members.size + 1)
            limit.append(bound)
    return (csr_array((data, (row, column)), shape=(len(limit), width)), limit) if rows else (None, None)


def _read(
    problem: Problem, columns: _Columns, weights: Floats, local: Floats, global_: Floats, iterations: int
) -> Optimum:
    """Mixed (u, v) per cell, with the weights renormalised, and proper prices."""
    cells = problem.mass.size
    weights = np.maximum(weights, 0.0)
    total = np.bincount(columns.cell, weights, minlength=cells)
    u = np.bincount(columns.cell, weights * columns.u, minlength=cells) / total
    v = np.bincount(columns.cell, weights * columns.v, minlength=cells) / total
    return Optimum(
        u.reshape(problem.shape),
        v.reshape(problem.shape),
        zero_sum(local, problem.local_counts, 1),
        zero_sum(global_, problem.global_counts, 0),
        iterations,
        "joint",
    )
