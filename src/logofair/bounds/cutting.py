"""Proof of a bound: shares inside every limit, and cutting planes that no other shares can pass.

A tangent of an information is nowhere above it, so a linear program with tangents in place of the informations bounds
them all; its multipliers give that bound in closed form, whatever the linear solver's tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from logofair.bounds.information import Information
from logofair.bounds.table import LabelTable
from logofair.inputs import Floats

__all__ = ["Limits", "Proof", "prove"]

Limits = tuple[tuple[Information, float], ...]

# Information of rates that are equal up to rounding.
_ROUNDING = 1e-14
_CLOSE_ENOUGH = 1e-8
_ROUNDS = 60
_HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class Proof:
    """Shares within the limits, flattened, with their accuracy, and the bound on the accuracy of all such shares."""

    shares: Floats
    accuracy: float
    bound: float


@dataclass
class _Cuts:
    """The tangents known so far, as rows ``row @ shares <= right``, each in units of its limit."""

    rows: list[Floats]
    right: list[float]

    def add(self, limits: Limits, shares: Floats) -> None:
        """Add the tangents at some shares."""
        for side, limit in limits:
            if limit > 0:
                slope, constant = side.tangent(shares)
                self.rows.append(slope / limit)
                self.right.append((limit - constant) / limit)


def prove(table: LabelTable, limits: Limits, shares: Floats, independent: Floats) -> Proof:
    """Move shares inside the limits, and bound all others, improving both until they meet or rounds run out.

    ``independent`` are shares without information on any limited side: moving towards them leads inside.
    """
    label = np.broadcast_to([0.0, 1.0], table.mass.shape)
    cost = (table.mass * (1.0 - 2.0 * label)).ravel()
    best = _inside(limits, shares, independent)
    bound, cuts = 1.0, _Cuts([], [])
    for step in (0.0, 1e-6, 1e-3):  # the later ones where the first lies at an edge
        cuts.add(limits, best + step * (independent - best))
    for _ in range(_ROUNDS):
        solved = _relaxed(limits, cuts, cost)
        if solved is None:
            break
        point, least = solved
        bound = min(bound, 1.0 - float(table.mass[..., 1].sum()) - least)
        best = min(best, _inside(limits, point, independent), key=lambda each: float(cost @ each))
        if bound - table.accuracy(best.reshape(table.mass.shape)) <= _CLOSE_ENOUGH:
            break
        cuts.add(limits, (point + best) / 2.0)
        cuts.add(limits, point)
    accuracy = table.accuracy(best.reshape(table.mass.shape))
    return Proof(best, accuracy, bound)


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


def _relaxed(limits: Limits, cuts: _Cuts, cost: Floats) -> tuple[Floats, float] | None:
    """The best shares behind the cuts, and the least cost of any, from the multipliers; None where HiGHS fails."""
    upper, right = np.array(cuts.rows).reshape(-1, cost.size), np.array(cuts.right)
    differences = [side.differences() for side, limit in limits if limit == 0]
    equal = csr_array(vstack([csr_array((0, cost.size)), *differences]))
    program = cost, csr_array(upper), right, equal, np.zeros(equal.shape[0]), (0.0, 1.0)
    for method, presolve in (("highs", True), ("highs-ds", False), ("highs-ipm", True)):  # light cells need the others
        options = {**_HIGHS, "presolve": presolve}
        solved = linprog(*program, method=method, options=options)  # type: ignore[call-overload]  # sparse matrices
        if solved.status == 0:
            price = np.maximum(0.0, -solved.ineqlin.marginals)
            reduced = cost + upper.T @ price - equal.T @ solved.eqlin.marginals
            return np.clip(solved.x, 0.0, 1.0), float(np.minimum(0.0, reduced).sum() - price @ right)
    return None
