"""AGLFOP (Hamman and Dutta, ICLR 2024): the accuracy beyond which no rule of little information can go.

Found by a cone solver and proved here: the distribution is moved inside its limits, and cutting planes, whose
prices give a value in closed form, bound every other one. Neither figure is taken from a solver's word.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack
from scipy.special import rel_entr

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.errors import SolverError
from logofair.solvers.certificate import LARGEST_OPTIMALITY_GAP
from logofair.solvers.joint import HIGHS
from logofair_reproduction.bounds.oracle import AccuracyBound, GapBound, gap_bound
from logofair_reproduction.bounds.table import LabelTable
from logofair_reproduction.checks import not_negative

_FROM_THE_EDGE = 1e-12  # how far from accepting or rejecting a group entirely, where a tangent would be vertical
_ROUNDING = 1e-14  # information of rates that are equal up to rounding
_CLOSE_ENOUGH = 1e-8
_ROUNDS = 60
_SOLVERS: dict[str, dict[str, Any]] = {
    "CLARABEL": {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 20_000},
}


@dataclass(frozen=True, eq=False)
class InformationBound(AccuracyBound):
    """What :func:`aglfop` returns.

    ``global_information`` and ``local_information`` are I(Z; Yhat) and I(Z; Yhat | S) of the distribution found, in
    nats; ``shares`` are the shares accepted of every site, group and label. ``solver`` found them; ``"exact"`` where no
    cone solver was needed.
    """

    global_information: float
    local_information: float
    shares: Floats
    solver: str


def aglfop(
    table: LabelTable, *, global_information: float | None = None, local_information: float | None = None
) -> InformationBound:
    """Find the accuracy that no rule can exceed whose decisions tell little about the group, whatever its model.

    The paper's accuracy and global-local fairness optimality problem: over all joint distributions Q(s, z, y, yhat)
    of site, group, label and decision with the given shares of site, group and label, minimise the error subject to
    ``I_Q(Z; Yhat) <= global_information`` (eps_g) and ``I_Q(Z; Yhat | S) <= local_information`` (eps_l). The decision
    may depend on the label itself, so the bound is loose for any given model: :func:`oracle` is the
    tight one for given scores.

    The limits are in nats (bits times ln 2), over all sites, and inside them in the mean over sites. 0 requires
    independence, None nothing. Raises ``SolverError`` where no distribution could be proved best within 1e-6.

    Examples
    --------
    Two groups that the label tells apart. Without any information half of the decisions are wrong, with one bit none:

    >>> import math
    >>> from logofair_reproduction.bounds import label_table
    >>> table = label_table([1, 1, 0, 0], sensitive_features=["F", "F", "M", "M"])
    >>> [round(aglfop(table, global_information=nats).bound, 4) for nats in (0, 0.01, math.log(2))]
    [0.5, 0.5706, 1.0]
    """
    given = {"global_information": global_information, "local_information": local_information}
    most = [None if limit is None else not_negative(limit, name) for name, limit in given.items()]
    both = Information.both(table)
    limits = tuple(
        (side, limit)
        for side, limit in zip(both, most, strict=True)
        if limit is not None and side.weight.size  # no site may have two groups
    )
    zero = [None if limit is None else 0.0 for limit in most]
    independent = gap_bound(table, global_tolerance=zero[0], local_tolerance=zero[1])
    flat, bound, solver = _solved(table, limits, independent)
    accuracy = table.accuracy(flat)
    return InformationBound(
        accuracy=accuracy,
        bound=min(1.0, max(bound, accuracy)),  # they may cross by rounding
        global_information=both[0].value(flat),
        local_information=both[1].value(flat),
        shares=flat.reshape(table.mass.shape),
        solver=solver,
    )


def information(table: LabelTable, shares: Floats) -> tuple[float, float]:
    """What some rule's decisions tell about the group, in nats: I(Z; Yhat) and I(Z; Yhat | S).

    ``shares`` are those that the rule accepts of every site, group and label: :meth:`LabelTable.shares` counts them.
    """
    flat = np.asarray(shares, dtype=np.float64).ravel()
    over_all, inside = Information.both(table)
    return over_all.value(flat), inside.value(flat)


def _solved(table: LabelTable, limits: Limits, independent: GapBound) -> tuple[Floats, float, str]:
    """The first answer that is proved; raise rather than return less."""
    start = independent.shares.ravel()
    if not any(limit > 0 for _, limit in limits):
        return start, independent.bound, "exact"
    perfect = np.tile([0.0, 1.0], table.mass.size // 2)
    if all(side.value(perfect) <= limit for side, limit in limits):
        return perfect, 1.0, "exact"
    tried = []
    for solver in _SOLVERS:
        shares, status = _candidate(table, limits, solver)
        tried.append(f"{solver}: {status}")
        if shares is not None:
            best, bound = prove(table, limits, shares, start)
            if abs(bound - table.accuracy(best)) <= LARGEST_OPTIMALITY_GAP:
                return best, bound, solver
    raise SolverError(
        f"aglfop: no distribution could be proved best within {LARGEST_OPTIMALITY_GAP:g} ({', '.join(tried)}), so none "
        "is returned; raise the smaller limit a little: a bound for a larger limit holds for the smaller one too."
    )


def _candidate(table: LabelTable, limits: Limits, solver: str) -> tuple[Floats | None, str]:
    """What a cone solver proposes (None: nothing), and what it says of it; nothing of that is trusted."""
    cvxpy: Any = import_module("cvxpy")  # takes its time to load

    shares = cvxpy.Variable(table.mass.size)
    right = table.mass.ravel() @ cvxpy.multiply(np.tile([-1.0, 1.0], table.mass.size // 2), shares)
    constraints = [shares >= 0, shares <= 1]
    for side, limit in limits:
        if limit > 0:  # in units of the limit: solvers work to an absolute precision
            constraints.append(side.expression(cvxpy.rel_entr, shares) / limit <= 1)
        else:
            constraints.append(side.differences() @ shares == 0)
    problem = cvxpy.Problem(cvxpy.Maximize(right), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inaccuracy, which the proof judges
        try:
            problem.solve(solver=solver, **_SOLVERS[solver])
        except (cvxpy.error.SolverError, ValueError, ArithmeticError) as error:
            return None, type(error).__name__
    if shares.value is None or not np.all(np.isfinite(shares.value)):
        return None, str(problem.status)
    return np.clip(shares.value, 0.0, 1.0), str(problem.status)


@dataclass(frozen=True, eq=False)
class Information:
    """I(Z; Yhat) inside populations, in the mean over them: ``sum weight * KL(rate || mean)``.

    ``rates @ shares`` are the selection rates of the groups, ``means @ shares`` those of their populations.
    """

    rates: csr_array
    means: csr_array
    weight: Floats

    @classmethod
    def both(cls, table: LabelTable) -> tuple[Information, Information]:
        """Over all sites, I(Z; Yhat), and inside them, in the mean over sites, I(Z; Yhat | S)."""
        sites, groups, _ = table.mass.shape
        mass, cells = table.mass.ravel(), sites * groups
        over_all = _information(mass, np.tile(np.repeat(np.arange(groups), 2), sites), np.zeros(groups, int))
        return over_all, _information(mass, np.repeat(np.arange(cells), 2), np.repeat(np.arange(sites), groups))

    def value(self, shares: Floats) -> float:
        """The information, in nats."""
        # Rejected shares are summed on their own: 1 - rate and 1 - mean, both near 0, would round apart.
        (rate, mean), (rejected, of_all) = self._both(shares), self._both(1.0 - shares)
        return max(0.0, float(self.weight @ (rel_entr(rate, mean) + rel_entr(rejected, of_all))))

    def expression(self, relative_entropy: Any, shares: Any) -> Any:
        """The same, as an expression of a cone solver."""
        rate, mean = self.rates @ shares, self.means @ shares
        return self.weight @ (relative_entropy(rate, mean) + relative_entropy(1.0 - rate, 1.0 - mean))

    def differences(self) -> csr_array:
        """Rows that are 0 at shares without any information."""
        return csr_array(self.rates - self.means)

    def tangent(self, shares: Floats) -> tuple[Floats, float]:
        """Slope and constant of an affine function of the shares that is nowhere above the information.

        By ``x ln(x/y) >= x w - y (e^w - 1) + ...`` with w the logarithms at the given shares, whose terms in y cancel
        because rates average to their mean.
        """
        rate, mean = self._both(shares)
        rate = rate + _FROM_THE_EDGE * (mean - rate)
        accepted, rejected = _log_ratio(rate, mean), _log_ratio(1.0 - rate, 1.0 - mean)
        slope = self.rates.T @ (self.weight * (accepted - rejected))
        return np.asarray(slope), float(self.weight @ rejected)

    def _both(self, shares: Floats) -> tuple[Floats, Floats]:
        return np.clip(self.rates @ shares, 0.0, 1.0), np.clip(self.means @ shares, 0.0, 1.0)


def _information(mass: Floats, member: Indices, population: Indices) -> Information:
    """Compare the members that have any mass with their population, where there are two or more."""
    weight: Floats = np.bincount(member, mass).astype(np.float64, copy=False)
    total = np.bincount(population, weight)
    present = np.bincount(population, weight > 0)
    compared = np.flatnonzero((weight > 0) & (present[population] > 1))
    home, entry = population[member], np.arange(mass.size)
    share = np.divide(mass, weight[member], out=np.zeros_like(mass), where=mass > 0)
    part = np.divide(mass, total[home], out=np.zeros_like(mass), where=mass > 0)
    rates = csr_array((share, (member, entry)), shape=(weight.size, mass.size))
    means = csr_array((part, (home, entry)), shape=(total.size, mass.size))
    return Information(rates[compared], means[population[compared]], weight[compared])


def _log_ratio(part: Floats, total: Floats) -> Floats:
    """``ln(part / total)``, or 0 where the total is nobody."""
    ratio = np.divide(part, total, out=np.ones_like(part), where=total > 0)
    return np.asarray(np.log(np.where(ratio > 0, ratio, 1.0)))


# Sides whose information is limited, each with its limit in nats.
Limits: TypeAlias = tuple[tuple[Information, float], ...]


def prove(table: LabelTable, limits: Limits, shares: Floats, independent: Floats) -> tuple[Floats, float]:
    """Move shares inside the limits, and bound the accuracy of all others, until both meet or rounds run out.

    ``independent`` are shares without information on any limited side: moving towards them leads inside.
    """
    label = np.broadcast_to([0.0, 1.0], table.mass.shape)
    cost = (table.mass * (1.0 - 2.0 * label)).ravel()
    best = _inside(limits, shares, independent)
    # Tangents at these points, as rows ``row @ shares <= right``; the later ones where the first lies at an edge.
    bound, cuts = 1.0, _tangents(limits, [best + step * (independent - best) for step in (0.0, 1e-6, 1e-3)])
    for _ in range(_ROUNDS):
        solved = _relaxed(limits, cuts, cost)
        if solved is None:
            break
        point, least = solved
        bound = min(bound, 1.0 - float(table.mass[..., 1].sum()) - least)
        best = min(best, _inside(limits, point, independent), key=lambda each: float(cost @ each))
        if bound - table.accuracy(best) <= _CLOSE_ENOUGH:
            break
        cuts += _tangents(limits, [(point + best) / 2.0, point])
    return best, bound


def _tangents(limits: Limits, points: Sequence[Floats]) -> list[tuple[Floats, float]]:
    """Cuts that hold for all shares within the limits, each in units of its limit."""
    found = []
    for shares in points:
        for side, limit in limits:
            if limit > 0:
                slope, constant = side.tangent(shares)
                found.append((slope / limit, (limit - constant) / limit))
    return found


def _inside(limits: Limits, shares: Floats, independent: Floats) -> Floats:
    """The last shares within every limit on the way from the independent ones."""

    def at(step: float) -> Floats:
        return np.asarray(independent + step * (shares - independent))

    def holds(step: float) -> bool:
        return all(side.value(at(step)) <= max(limit, _ROUNDING) for side, limit in limits)

    if holds(1.0):
        return at(1.0)
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return at(low)


def _relaxed(limits: Limits, cuts: list[tuple[Floats, float]], cost: Floats) -> tuple[Floats, float] | None:
    """The best shares behind the cuts, and the least cost of any, from their prices; None where HiGHS fails."""
    upper, right = np.array([row for row, _ in cuts]).reshape(-1, cost.size), np.array([most for _, most in cuts])
    differences = [side.differences() for side, limit in limits if limit == 0]
    equal = csr_array(vstack([csr_array((0, cost.size)), *differences]))
    program = cost, csr_array(upper), right, equal, np.zeros(equal.shape[0]), (0.0, 1.0)
    for method, presolve in (("highs", True), ("highs-ds", False), ("highs-ipm", True)):  # light cells need the others
        options = {**HIGHS, "presolve": presolve}
        solved = linprog(*program, method=method, options=options)  # type: ignore[call-overload]  # sparse matrices
        if solved.status == 0:
            price = np.maximum(0.0, -solved.ineqlin.marginals)
            reduced = cost + upper.T @ price - equal.T @ solved.eqlin.marginals
            return np.clip(solved.x, 0.0, 1.0), float(np.minimum(0.0, reduced).sum() - price @ right)
    return None
