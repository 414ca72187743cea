"""The strictest problem as one linear program, by column generation through HiGHS: slower, and independent.

The fallback for problems on which the decomposition does not reach its certificate. Each cell mixes a growing list of
corners; HiGHS solves the restricted program, its prices find new corners, until none improves.

The same program with requirements that may give way finds which few cannot be met together (:func:`conflict_of`), and
the least by which each would have to give way. A requirement is what a person typed: a floor of every group is one, and
gives way for all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from logofair.columns.cells import Cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.errors import InfeasibleError
from logofair.requirement import Requirement
from logofair.requirements import Requirements, conflict_sentence
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.decomposition import Optimum, solve_exact
from logofair.solvers.limits import Limits
from logofair.solvers.problem import Problem, concatenated_parts, make_problem

HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_ITERATIONS = 200  # rounds of new corners
_MOST_ENTRIES = 4_000_000  # of a dense matrix worth a least-squares step
_NEGLIGIBLE_SLACK = 1e-8  # requirements that give way by less are met but for rounding
_NO_PRICE = 1e-9
_RATIO_STEP = 1e-8  # to which an amount is found by halving
_FIRST_THRESHOLDS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)  # thresholds that the corners of the first round accept from
_MANY_CELLS = 300  # from which on an interior point finds what conflicts several times faster than a simplex


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


def solve_joint(problem: Problem) -> Optimum | None:
    """Solve a problem as one program; None where HiGHS fails or does not converge.

    Raises
    ------
    InfeasibleError
        Where no rule meets all requirements.
    """
    program, limited = _Program.of(problem), not all(each.only_tolerances for each in problem.limits)
    if limited:
        found = program.generate(elastic=program.items)  # rejecting everybody may not meet them
        if found is None:
            return None
        if found.infeasible:
            raise InfeasibleError({})  # which conflict is found where they have names (:func:`conflict_of`)
    solved = program.generate()
    if solved is None and limited:  # a floor of 1 may be missed for want of a chance of 1e-9, which no certificate sees
        wider = [row.relaxed(0.9 * LARGEST_VIOLATION) for row in program.rows]
        solved = replace(program, rows=wider).generate()
    if solved is None:
        return None
    columns, weights, cells = program.columns, np.maximum(solved.weights, 0.0), problem.mass.size
    total = np.bincount(columns.cell, weights, minlength=cells)
    u, v = (np.bincount(columns.cell, weights * each, minlength=cells) / total for each in (columns.u, columns.v))
    prices = problem.inside.repaired(solved.local), problem.over_all.repaired(solved.global_[None])[0]
    return Optimum(u.reshape(problem.shape), v.reshape(problem.shape), *prices, solved.rounds, "joint")


def least_slack(problem: Problem) -> float:
    """The least sum by which the requirements have to give way for a rule to meet them; 0 where one does."""
    program = _Program.of(problem)
    found = program.generate(elastic=program.items)
    return found.shortfall if found is not None and found.infeasible else 0.0


@dataclass(frozen=True, eq=False)
class _Solved:
    """A restricted program's optimum: the weights of its corners, prices, and by how much requirements give way."""

    weights: Floats
    local: Floats  # prices, (sites, groups, local rates), per site's mass
    global_: Floats  # (groups, global rates)
    shortfall: float
    binding: frozenset[str]  # requirements with a price
    rounds: int = 0
    least: bool = True  # whether the requirements are known to have to give way by as much

    @property
    def infeasible(self) -> bool:
        """Whether no rule meets the requirements."""
        return self.least and self.shortfall > _NEGLIGIBLE_SLACK


@dataclass(frozen=True)
class _Row:
    """One row of the program: ``low <= sum of the groups' rates - slope * lowest rate <= high``."""

    item: str  # the requirement it is of
    side: str
    site: int
    groups: Indices  # one, or all of them
    cells: Indices  # the numbers of these groups' cells at a site
    rate: int
    level: int  # the number of the lowest rate that it compares with; -1: none
    slope: float
    low: float
    high: float
    unit: float

    @property
    def ratio(self) -> float | None:
        """The ratio that it is of, if it is of one."""
        return 1.0 / self.slope if self.level >= 0 and self.low == -np.inf else None

    def relaxed(self, amount: float) -> _Row:
        """The same, giving way by an amount in the user's units.

        A ratio of 0 says nothing; and that no rate is below the lowest is no requirement.
        """
        if self.ratio is not None:
            less = self.ratio - amount
            return replace(self, slope=1.0 / less) if less > 0 else replace(self, slope=1.0, high=np.inf)
        more = amount * self.unit
        return replace(self, low=self.low if self.level >= 0 else self.low - more, high=self.high + more)


def _rows(problem: Problem, names: Mapping[str, Sequence[str]] | None) -> Iterator[_Row]:
    """The requirements as rows, each with its name: that of its rate, or (None) one of its own kind, rate and group."""
    levels = 0
    for side, regions in (("local", problem.inside), ("global", problem.over_all)):
        layout, units = regions.layout, regions.limits.unit
        for site, i in np.argwhere(np.isfinite(layout.low) | np.isfinite(layout.high)).tolist():
            rate, slope = int(layout.family[i]), float(layout.slope[site, i])
            groups, cells = (np.flatnonzero((each == i).any(axis=1)) for each in (layout.owned, layout.touched))
            level = levels + site * layout.rates + rate if slope > 0 else -1
            low, high = float(layout.low[site, i]), float(layout.high[site, i])
            ends = [("tolerance" if np.isfinite(low) else "ratio", low, high)]
            if slope == 0:  # a floor and a ceiling may be of two requirements
                ends = [(f"floor of {groups}", low, np.inf), (f"ceiling of {groups}", -np.inf, high)]
            for kind, least, most in ends:
                if np.isfinite(least) or np.isfinite(most):
                    item = f"{side} {rate} {kind}" if names is None else names[side][rate]
                    unit = float(units[site, rate])
                    yield _Row(item, side, site, groups, cells, rate, level, slope, least, most, unit)
        levels += regions.limits.tolerance.size


@dataclass(eq=False)
class _Program:
    """The rows of a problem, each with the requirement it is of, and the corners known so far."""

    problem: Problem
    columns: _Columns
    rows: list[_Row]

    @classmethod
    def of(cls, problem: Problem, names: Mapping[str, Sequence[str]] | None = None) -> _Program:
        """Begin with what rejects everybody, with what gains most, and with thresholds in between.

        ``names``: of each side, the requirement that each of its rates belongs to (None: every kind, rate and group is
        a requirement by itself).
        """
        every = np.arange(problem.mass.size)
        none = np.zeros(0)
        columns = _Columns(none.astype(np.int64), none, none)
        columns.add(every, np.zeros(every.size), np.zeros(every.size))
        gain_u, gain_v = (g.ravel() for g in problem.gain)
        columns.add(every, *problem.cells.best_corner(every, gain_v, gain_u)[1:])
        for threshold in _FIRST_THRESHOLDS if not all(each.only_tolerances for each in problem.limits) else ():
            line = np.ones(every.size), np.full(every.size, -threshold)
            columns.add(every, *problem.cells.best_corner(every, *line)[1:])
        return cls(problem, columns, list(_rows(problem, names)))

    @property
    def items(self) -> frozenset[str]:
        """All requirements."""
        return frozenset(each.item for each in self.rows)

    def generate(self, *, elastic: frozenset[str] = frozenset(), held: frozenset[str] | None = None) -> _Solved | None:
        """Add corners until none improves; with elastic requirements only their giving way counts.

        ``held``: the requirements there are (None: all). Where HiGHS fails on better corners, what was found before is
        by how much giving way is enough.
        """
        before: _Solved | None = None
        p, columns = self.problem, self.columns
        every, gain = np.arange(p.mass.size), (np.zeros(p.shape), np.zeros(p.shape)) if elastic else p.gain
        for done in range(1, _ITERATIONS + 1):
            solved = self._restricted(elastic, self.items if held is None else held)
            if solved is None:
                return replace(before, least=False) if elastic and before is not None else None
            before = solved
            priced = p.locally_priced(*replace(p, objective=gain).priced_gain(solved.global_), solved.local)
            constant, slope = (each.ravel() for each in priced)
            value, u, v = p.cells.best_corner(every, slope, constant)
            known = constant[columns.cell] * columns.u + slope[columns.cell] * columns.v
            best_known = np.full(every.size, -np.inf)
            np.maximum.at(best_known, columns.cell, known)
            better = np.flatnonzero(value > best_known + 1e-10)
            met = bool(elastic) and solved.shortfall <= 0.0
            if met or better.size == 0 or not columns.add(better, u[better], v[better]):
                return replace(solved, rounds=done)
        return replace(before, least=False) if elastic and before is not None else None

    def _restricted(self, elastic: frozenset[str], held: frozenset[str]) -> _Solved | None:
        """Solve over the known corners; elastic requirements may give way, at a cost of 1 a unit."""
        p, columns = self.problem, self.columns
        n, cells = columns.cell.size, p.mass.size
        levels = sum(each.tolerance.size for each in p.limits)
        width = n + levels + len(elastic)
        cost = np.zeros(width)
        if elastic:
            cost[n + levels :] = 1.0
        else:
            weight = p.site_mass[columns.cell // p.shape[1]]
            gain_u, gain_v = (g.ravel() for g in p.gain)
            cost[:n] = -weight * (gain_u[columns.cell] * columns.u + gain_v[columns.cell] * columns.v)
        giving = {item: n + levels + i for i, item in enumerate(sorted(elastic))}
        inequality, limit, owners = self._inequalities(width, giving, held)
        equality = csr_array((np.ones(n), (columns.cell, np.arange(n))), shape=(cells, width))
        bounds = [(0.0, None)] * n + [(None, None)] * levels + [(0.0, None)] * len(elastic)
        # With coefficients of 1e-9 beside those of 1 a method may fail; by how much requirements give way need not be
        # known as exactly.
        methods = ("highs-ipm", "highs") if elastic and cells > _MANY_CELLS else ("highs", "highs-ipm")
        attempts = [*((method, HIGHS) for method in methods), ("highs", dict.fromkeys(HIGHS, _NEGLIGIBLE_SLACK))]
        most = max(20_000, 50 * width)  # steps: a method that fails on such coefficients may go on for ever
        for method, exactness in attempts if elastic else attempts[:2]:
            options = {**exactness, "maxiter": most}
            solved = linprog(  # type: ignore[call-overload]  # the stubs do not know sparse matrices
                cost, inequality, limit, equality, np.ones(cells), bounds, method, options=options
            )
            if solved.status == 0:
                break
        else:
            return None
        prices = np.zeros(0) if limit is None else -np.asarray(solved.ineqlin.marginals)
        weights = np.asarray(solved.x)
        if not elastic:
            weights = _polished(weights, n, inequality, limit, equality)
        binding = frozenset(item for price, (_, _, item) in zip(prices, owners, strict=True) if price > _NO_PRICE)
        return _Solved(weights[:n], *self._prices(prices, owners), float(solved.fun), binding)

    def _prices(self, prices: Floats, owners: list[tuple[int, float, str]]) -> tuple[Floats, Floats]:
        """The prices of the rows' ends, added up by rate."""
        p = self.problem
        local, global_ = np.zeros(p.inside.defined.shape), np.zeros(p.over_all.defined.shape[1:])
        for price, (i, sign, _) in zip(prices, owners, strict=True):
            row = self.rows[i]
            if row.side == "global":
                global_[row.groups, row.rate] += sign * price
            else:
                local[row.site, row.groups, row.rate] += sign * price / p.site_mass[row.site]
        return local, global_

    def _inequalities(
        self, width: int, giving: Mapping[str, int], held: frozenset[str]
    ) -> tuple[csr_array | None, list[float] | None, list[tuple[int, float, str]]]:
        """Each finite end of a row as one inequality; the row, the end and the requirement it is of."""
        p, columns = self.problem, self.columns
        site, group = np.divmod(columns.cell, p.shape[1])
        by_cell = np.split(np.argsort(columns.cell, kind="stable"), np.cumsum(np.bincount(columns.cell))[:-1])
        by_group = [np.flatnonzero(group == a) for a in range(p.shape[1])]
        values = {
            side: cu[site, group] * columns.u[:, None] + cv[site, group] * columns.v[:, None]
            for side, (cu, cv) in (("local", p.local), ("global", p.global_))
        }
        parts: list[tuple[Floats, Indices]] = []
        limit: list[float] = []
        owners: list[tuple[int, float, str]] = []
        for i, row in enumerate(self.rows):
            of = by_group if row.side == "global" else by_cell[row.site * p.shape[1] : (row.site + 1) * p.shape[1]]
            members = np.concatenate([of[a] for a in row.cells])
            at, value = members, values[row.side][members, row.rate]
            if row.level >= 0:
                at, value = np.append(at, columns.cell.size + row.level), np.append(value, -row.slope)
            for sign, end in ((1.0, row.high), (-1.0, row.low)):
                lowest = row.level >= 0 and sign < 0  # that no rate is below the lowest is no requirement
                if not np.isfinite(end) or not (lowest or row.item in held):
                    continue
                gives = row.item in giving and not lowest  # in the user's units
                line, end = sign * value, sign * end
                if giving:
                    line, left_out = self._without_small(line, members)
                    end += left_out
                parts.append((np.append(line, -row.unit), np.append(at, giving[row.item])) if gives else (line, at))
                limit.append(end)
                owners.append((i, sign, row.item))
        if not limit:
            return None, None, owners
        where = np.repeat(np.arange(len(limit)), [at.size for _, at in parts]), np.concatenate([at for _, at in parts])
        return csr_array((np.concatenate([v for v, _ in parts]), where), shape=(len(limit), width)), limit, owners

    def _without_small(self, line: Floats, members: Indices) -> tuple[Floats, float]:
        """A row without the coefficients of corners that cannot matter, and the most that these could take off it.

        HiGHS takes those below 1e-9 for 0, so that a floor of 1 would be missed for want of a cell whose chances are
        next to none, and it fails on some that are larger.
        """
        small, most = (
            np.flatnonzero(np.abs(line[: members.size]) <= _NEGLIGIBLE_SLACK),
            np.zeros(self.problem.mass.size),
        )
        np.maximum.at(most, self.columns.cell[members[small]], -line[small])
        kept = line.copy()
        kept[small] = 0.0
        return kept, float(most.sum())


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


def conflict_of(requirements: Requirements, cells: Cells) -> InfeasibleError:
    """The conflict of requirements that no rule for some cells meets.

    Where losses are limited by what sites could do by themselves, what is required inside sites is held: looser, it
    would be other rules that these are compared with.
    """
    program = _separable_program(requirements, cells)
    kept = frozenset(map(str, requirements.of_sites_alone.items)) if requirements.best else frozenset[str]()

    def solved(names: frozenset[str]) -> _Solved | None:
        """By how much some requirements, and no others, would have to give way together."""
        return program.generate(elastic=names | kept, held=names | kept)

    def infeasible(names: frozenset[str]) -> bool:
        return (found := solved(names)) is not None and found.infeasible

    def proved(names: frozenset[str]) -> bool:
        """Whether prices prove that no rule meets some requirements but for what a certificate lets pass."""
        held = requirements.only(item for item in requirements.items if str(item) in names | kept)
        try:
            solve_exact(make_problem(held, cells))
        except InfeasibleError:
            return True
        return False

    found = solved(program.items)
    if found is not None and found.infeasible:
        few, conflict = found.binding or program.items, infeasible
    else:  # they miss each other by less than HiGHS tells from rounding
        few, conflict = program.items, proved
    few = few - kept
    for name in sorted(few):  # until none could be left out
        few = few - {name} if conflict(few - {name}) else few

    def relaxed(item: Requirement, amount: float) -> _Program:
        """The program with one requirement relaxed."""
        if item.measure != "precision":
            rows = [row.relaxed(amount) if row.item == str(item) else row for row in program.rows]
            return replace(program, rows=rows)
        bound = float(item.bound) + (amount if item.relation == "<=" else -amount)  # type: ignore[arg-type]
        given = replace(item, bound=min(max(bound, 0.0), 1.0))
        several = (given if each == item else each for each in requirements.items)
        return replace(_separable_program(requirements.only(several), cells), columns=program.columns)

    amounts = {item: _least_relaxation(program, item, relaxed) for item in requirements.items if str(item) in few}
    amounts = {item: None if least is None else max(least, _NEGLIGIBLE_SLACK) for item, least in amounts.items()}
    return InfeasibleError(amounts, conflict_sentence(amounts, held="what is required inside sites" if kept else ""))


def _separable_program(requirements: Requirements, cells: Cells) -> _Program:
    """A program in which every requirement has rates of its own, so that one can give way while all others hold."""
    alone = {str(item): make_problem(requirements.only([item]), cells) for item in requirements.items}
    problems, groups = list(alone.values()), cells.n_groups
    together = replace(
        problems[0],
        local_rates=tuple(rate for each in problems for rate in each.local_rates),
        global_rates=tuple(rate for each in problems for rate in each.global_rates),
        local_limits=Limits.concatenated([each.local_limits for each in problems]),
        global_limits=Limits.concatenated([each.global_limits for each in problems]),
        local_parted=concatenated_parts([(each.local_parted, len(each.local_rates)) for each in problems], groups),
        global_parted=concatenated_parts([(each.global_parted, len(each.global_rates)) for each in problems], groups),
    )
    names = {
        "local": [name for name, each in alone.items() for _ in each.local_rates],
        "global": [name for name, each in alone.items() for _ in each.global_rates],
    }
    return _Program.of(together, names)


def _least_relaxation(
    program: _Program, item: Requirement, relaxed: Callable[[Requirement, float], _Program]
) -> float | None:
    """How much one requirement has to give way with all others held; None where that is not enough."""
    name = str(item)
    others = program.items - {name}
    without = program.generate(elastic=others, held=others)  # also finds the corners that it takes
    if without is None or without.infeasible:
        return None
    own = [row for row in program.rows if row.item == name]
    ratios = [row.ratio for row in own if row.ratio is not None]
    slopes = bool(ratios) or item.measure == "precision"
    solved = None if slopes else program.generate(elastic=frozenset({name}))
    if solved is not None:
        return solved.shortfall
    # A ratio and a precision are no end of a row, and where chances are extreme HiGHS may fail on a single row.
    low, high = 0.0, max(ratios, default=1.0 if slopes else max(2.0 / row.unit for row in own))
    while high - low > _RATIO_STEP:
        middle = 0.5 * (low + high)
        given = relaxed(item, middle)
        found = given.generate(elastic=given.items)
        low, high = (low, middle) if found is not None and found.shortfall <= _NEGLIGIBLE_SLACK else (middle, high)
    return high
