"""AGLFOP (Hamman and Dutta, ICLR 2024): the accuracy beyond which no rule of little information can go.

Found by a cone solver and proved here: the distribution is moved inside its limits, and cutting planes, whose duals
are evaluated in closed form, bound every other one. Neither figure is taken from a solver's word.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from logofair.bounds.cutting import Limits, Proof, prove
from logofair.bounds.gaps import GapBound, gap_bound_of_table
from logofair.bounds.information import across, inside
from logofair.bounds.table import LabelTable, label_table
from logofair.fitting import SolverError
from logofair.inputs import Floats, InputError, nearest_name

__all__ = ["InformationBound", "aglfop", "aglfop_of_table"]

LARGEST_GAP = 1e-6
_NATS = {"bits": math.log(2.0), "nats": 1.0}
_SOLVERS: dict[str, dict[str, Any]] = {
    "CLARABEL": {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 20_000},
}


@dataclass(frozen=True, eq=False)
class InformationBound:
    """What :func:`aglfop` returns.

    Attributes
    ----------
    accuracy : float
        That of the distribution found.
    bound : float
        No joint distribution within the limits is more accurate.
    global_information, local_information : float
        I(Z; Yhat) and I(Z; Yhat | S) of the distribution found, in ``unit``.
    unit : str
        ``"bits"`` or ``"nats"``.
    distribution : array of shape (clients, groups, 2, 2)
        Q(s, z, y, yhat): client, group, label, decision.
    table : LabelTable
        What it was found for, with the names of clients and groups.
    solver, status : str
        Who found the distribution, and what it said of it; ``"exact"`` where no cone solver was needed.

    Examples
    --------
    >>> found = aglfop([1, 1, 0, 0], groups=["F", "F", "M", "M"], global_information=0.1, local_information=None)
    >>> found.gap <= 1e-6, found.global_information <= 0.1
    (True, True)
    """

    accuracy: float
    bound: float
    global_information: float
    local_information: float
    unit: str
    distribution: Floats
    table: LabelTable
    solver: str
    status: str

    @property
    def gap(self) -> float:
        """``bound - accuracy``: what could still be won; never above 1e-6."""
        return self.bound - self.accuracy


def aglfop(
    labels: object,
    *,
    groups: object,
    clients: object = None,
    global_information: float | None = 0.01,
    local_information: float | None = 0.01,
    unit: str = "bits",
    sample_weight: object = None,
) -> InformationBound:
    """Find the accuracy that no rule can exceed whose decisions tell little about the group, whatever its model.

    The paper's accuracy and global-local fairness optimality problem: over all joint distributions Q(s, z, y, yhat)
    of client, group, label and decision with the given shares of client, group and label, minimise the error subject to
    ``I_Q(Z; Yhat) <= global_information`` (eps_g) and ``I_Q(Z; Yhat | S) <= local_information`` (eps_l). The decision
    may depend on the label itself, so the bound is loose for any given model: :func:`logofair.bounds.oracle` is the
    tight one for given scores.

    Parameters
    ----------
    labels, groups, clients, sample_weight : columns
        As in :func:`logofair.bounds.label_table`.
    global_information, local_information : float or None
        Largest mutual information of group and decision, over all clients, and inside them in the mean over clients; 0:
        independent; None: not constrained.
    unit : {"bits", "nats"}
        Of both limits and of the result: logarithms to base 2 or e.

    Returns
    -------
    InformationBound
        The bound, and a distribution that reaches it within 1e-6.

    Raises
    ------
    InputError
        If some argument cannot be used, or cvxpy is not installed.
    SolverError
        If no solver found a distribution that could be proved best within 1e-6.

    Examples
    --------
    Two groups that the label tells apart. Without any information half of the decisions are wrong, with one bit none:

    >>> labels, groups = [1, 1, 0, 0], ["F", "F", "M", "M"]
    >>> [round(aglfop(labels, groups=groups, global_information=bits).bound, 4) for bits in (0, 0.01)]
    [0.5, 0.5588]
    >>> aglfop(labels, groups=groups, global_information=1, local_information=1).bound
    1.0
    """
    table = label_table(labels, groups=groups, clients=clients, sample_weight=sample_weight)
    return aglfop_of_table(table, global_information=global_information, local_information=local_information, unit=unit)


def aglfop_of_table(
    table: LabelTable,
    *,
    global_information: float | None = 0.01,
    local_information: float | None = 0.01,
    unit: str = "bits",
) -> InformationBound:
    """:func:`aglfop` from the shares of clients, groups and labels.

    Parameters
    ----------
    table : LabelTable
        The shares p(s, z, y).
    global_information, local_information, unit
        As in :func:`aglfop`.

    Returns
    -------
    InformationBound
        The bound, and a distribution that reaches it within 1e-6.

    Raises
    ------
    InputError
        If some argument cannot be used, or cvxpy is not installed.
    SolverError
        If no solver found a distribution that could be proved best within 1e-6.

    Examples
    --------
    >>> from logofair.bounds import probability_table
    >>> table = probability_table([[[0.25, 0.25], [0.25, 0.25]]])
    >>> aglfop_of_table(table, global_information=0).bound  # the label is independent of the group: accept it
    1.0
    """
    cvxpy, scale = _cvxpy(), _scale(unit)
    most = _limit(global_information, "global_information"), _limit(local_information, "local_information")
    both = across(table), inside(table)
    limits = tuple(
        (side, limit * scale)
        for side, limit in zip(both, most, strict=True)
        if limit is not None and side.weight.size  # no client may have two groups
    )
    zero = [None if limit is None else 0.0 for limit in most]
    independent = gap_bound_of_table(table, global_tolerance=zero[0], local_tolerance=zero[1])
    proof, solver, status = _solved(cvxpy, table, limits, independent)
    return InformationBound(
        accuracy=proof.accuracy,
        bound=min(1.0, max(proof.bound, proof.accuracy)),  # they may cross by rounding
        global_information=both[0].value(proof.shares) / scale,
        local_information=both[1].value(proof.shares) / scale,
        unit=unit,
        distribution=table.distribution(proof.shares.reshape(table.mass.shape)),
        table=table,
        solver=solver,
        status=status,
    )


def _solved(cvxpy: Any, table: LabelTable, limits: Limits, independent: GapBound) -> tuple[Proof, str, str]:
    """The first answer that is proved; raise rather than return less."""
    start = independent.shares.ravel()
    if not any(limit > 0 for _, limit in limits):
        return Proof(start, independent.accuracy, independent.bound), "exact", "optimal"
    perfect = np.tile([0.0, 1.0], table.mass.size // 2)
    if all(side.value(perfect) <= limit for side, limit in limits):
        return Proof(perfect, 1.0, 1.0), "exact", "optimal"
    tried = []
    for solver in _SOLVERS:
        shares, status = _candidate(cvxpy, table, limits, solver)
        tried.append(f"{solver}: {status}")
        if shares is not None:
            proof = prove(table, limits, shares, start)
            if abs(proof.bound - proof.accuracy) <= LARGEST_GAP:
                return proof, solver, status
    raise SolverError(
        f"aglfop: no distribution could be proved best within {LARGEST_GAP:g} ({', '.join(tried)}), so none is "
        "returned; raise the smaller limit a little: a bound for a larger limit holds for the smaller one too."
    )


def _candidate(cvxpy: Any, table: LabelTable, limits: Limits, solver: str) -> tuple[Floats | None, str]:
    """What a cone solver proposes (None: nothing), and what it says of it; nothing of that is trusted."""
    shares = cvxpy.Variable(table.mass.size)
    right = table.mass.ravel() @ cvxpy.multiply(np.tile([-1.0, 1.0], table.mass.size // 2), shares)
    constraints = [shares >= 0, shares <= 1]
    for side, limit in limits:
        if limit > 0:  # in units of the limit: solvers work to an absolute precision
            constraints.append(side.expression(cvxpy, shares) / limit <= 1)
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


def _cvxpy() -> Any:
    try:
        import cvxpy
    except ImportError:
        raise InputError("aglfop: needs cvxpy; install it with: pip install 'logofair[bounds]'.") from None
    return cvxpy


def _scale(unit: object) -> float:
    """How many nats the unit has."""
    if isinstance(unit, str) and unit in _NATS:
        return _NATS[unit]
    raise InputError(f"unit: got {unit!r}{nearest_name(unit, _NATS)}; use 'bits' or 'nats'.")


def _limit(value: object, where: str) -> float | None:
    """A limit on information as a number of at least 0, or None."""
    if value is None:
        return None
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0.0 <= number < math.inf:
        raise InputError(f"{where}: got {value!r}; pass a finite number of at least 0, or None for no constraint.")
    return number
