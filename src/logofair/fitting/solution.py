"""The solution: a policy, the proof of how good it is, and what people should know about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from logofair.auditing import Audit, audit
from logofair.auditing.measure import FEW_ROWS
from logofair.calibration import CalibrationErrors
from logofair.columns.checks import Floats, Integers
from logofair.columns.labels import Codes
from logofair.columns.order import RowOrder
from logofair.columns.segments import Booleans, Indices, cell_numbers
from logofair.notions import Notion
from logofair.policy.mixtures import evaluate_single
from logofair.policy.policy import Policy
from logofair.requirements import Requirement, Requirements
from logofair.solvers.certificate import Certificate
from logofair.solvers.problem import Problem

_NAMED = 20


@dataclass(frozen=True, eq=False)
class CalibratedScores:
    """What calibration made of rows: the calibrated scores, the chances they count with, and their order.

    ``scores`` is what the stored policy compares with its thresholds, ``eta`` the chance of label 1 each row counts
    with: estimated without the row itself, and rising with ``scores``. ``order`` is that of the rows by cell and
    calibrated score, where it is known.
    """

    scores: Floats
    eta: Floats
    order: RowOrder | None = None


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """The calibration rows after checking; ``calibration`` is None where scores are taken as they are."""

    scores: Floats
    labels: Floats | None
    groups: Codes
    clients: Codes
    weights: Floats | None
    calibration: CalibratedScores | None = None

    @property
    def calibrated(self) -> Floats:
        """What the stored policy compares with its thresholds."""
        return self.scores if self.calibration is None else self.calibration.scores

    @property
    def eta(self) -> Floats:
        """The chance of label 1 each row counts with."""
        return self.scores if self.calibration is None else self.calibration.eta

    @property
    def cells(self) -> Integers:
        """Number of each row's cell."""
        return cell_numbers(self.groups.codes, self.clients.codes, len(self.groups.names))


@dataclass(frozen=True)
class Solution:
    """What :func:`logofair.fit` returns.

    Attributes
    ----------
    policy : Policy
        The rules, ready to decide on new rows.
    certificate : Certificate
        How accurate and how fair they are on the calibration rows, and how much better any rule could be.
    requirements : Promise
        The requirements the policy was made for.
    problem : Problem
        The cells and constraints, for those who want to look inside.
    warnings : tuple of str
        Cells on which a promise rests on little or nothing: empty, one row, one label, few rows.
    solver : str
        Which solver found the policy; ``rounds``: in how many rounds.
    calibration_errors : CalibrationErrors or None
        Calibration error per cell before and after calibration.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> print(solution.summary().splitlines()[0])
    Promised: demographic_parity within 0.02 inside each client.
    >>> solution.policy.decide([0.7, 0.3], groups=["a", "b"]).tolist()
    [1, 0]
    """

    policy: Policy
    certificate: Certificate
    requirements: Requirements
    problem: Problem
    warnings: tuple[str, ...]
    solver: str
    rounds: int
    calibration_errors: CalibrationErrors | None
    rows: CalibrationRows

    def __repr__(self) -> str:
        c = self.certificate
        return f"Solution(accuracy={c.primal:.4f}, optimality_gap={c.optimality_gap:.1e}, violation={c.violation:.1e}, solver={self.solver!r})"

    @cached_property
    def deterministic(self) -> tuple[float, float]:
        """Expected accuracy and violation of ``decide(..., deterministic=True)`` on the calibration rows."""
        u, v = (a.reshape(self.problem.shape) for a in evaluate_single(self.problem.cells, self.policy.mixtures))
        return self.problem.accuracy(u, v), self.problem.violation(u, v)

    @cached_property
    def measured(self) -> Audit | None:
        """Accuracy and gaps on the calibration rows counted with labels; None where there are none.

        Parity in calibrated chances is not parity in labels on the same rows: both are reported.
        """
        if self.rows.labels is None:
            return None
        groups = self.rows.groups.labels
        clients = self.rows.clients.labels if self.policy.has_clients else None
        local, global_ = self.requirements.local, self.requirements.global_
        return audit(
            self.policy.probabilities(self.rows.scores, groups=groups, clients=clients),
            self.rows.labels,
            groups=groups,
            clients=clients,
            notion={"local": _notion(local or global_), "global": _notion(global_ or local)},
            sample_weight=self.rows.weights,
        )

    def summary(self) -> str:
        """Return the solution in a few lines for people."""
        c, (accuracy, violation) = self.certificate, self.deterministic
        mixed = int(self.policy.mixtures.mixed.sum())
        lines = [
            f"Promised: {_promised(self.requirements)}.",
            f"Expected accuracy {c.primal:.4f} on {self.rows.scores.size:,} calibration rows; "
            f"no rule within the tolerances exceeds {c.dual:.4f} (gap {c.optimality_gap:.1e}, violation {c.violation:.1e}, "
            f"counted in {c.basis}, {self.solver} solver, {self.rounds} rounds).",
            f"{mixed:,} of {self.policy.mixtures.weight.shape[0]:,} cells need a coin; "
            f"without coins accuracy is {accuracy:.4f} and the largest violation {violation:.4f}.",
        ]
        if self.measured is not None:
            m = self.measured
            lines.append(
                f"Counted with labels on the same rows: accuracy {m.accuracy:.4f}, global gap {_number(m.global_gap)}, "
                f"largest local gap {_number(m.local_gap)} (both include chance; see the cells' sizes)."
            )
        lines += [f"Price: {sentence}" for sentence in self.prices()]
        return "\n".join([*lines, *(f"Warning: {sentence}" for sentence in self.warnings)])

    def prices(self, most: int = 3) -> list[str]:
        """What 0.01 more tolerance would win at most, dearest first, as sentences."""
        entries = []
        for k, price in enumerate(self.certificate.prices.global_):
            entries.append((float(price), f"{self.problem.global_rates[k].name} across all clients"))
        for c, k in _largest(self.certificate.prices.local, most):
            name = self.policy.clients[c]
            where = "" if name is None else f" inside client {name!r}"
            entries.append((float(self.certificate.prices.local[c, k]), self.problem.local_rates[k].name + where))
        entries = sorted((e for e in entries if e[0] > 1e-9), reverse=True)[:most]
        return [
            f"0.01 more tolerance for the {what} wins at most {0.01 * price:.5f} accuracy." for price, what in entries
        ]


def small_cells(problem: Problem, rows: CalibrationRows, *, merged: bool) -> Iterator[str]:
    """Name the cells on which a promise rests on little or nothing, one sentence per kind.

    ``merged`` says whether the merged federation's rule was there for cells without rows.
    """
    count, one_label = _counted(problem, rows)
    every = problem.cells.rows.reshape(problem.shape)
    empty = "so nothing is promised for it and it takes " + ("its group's merged rule" if merged else "score >= 1/2")
    kinds = (
        (every == 0, f"no rows, {empty}"),
        ((every > 0) & (count == 0), f"only rows of weight 0, {empty}"),
        (count == 1, "one row only"),
        ((count > 1) & one_label, "rows of one label only"),
        ((count > 1) & (count < FEW_ROWS) & ~one_label, f"fewer than {FEW_ROWS} rows, so its rates are mostly noise"),
    )
    for which, what in kinds:
        named = _named(which, rows)
        if named:
            yield f"{named}: {what}."
    yield from _unmeasured(problem, rows)


def _counted(problem: Problem, rows: CalibrationRows) -> tuple[Indices, Booleans]:
    """Rows of positive weight in every cell, and whether all of them have the same label."""
    shape, count = problem.shape, problem.cells.rows
    if rows.labels is None and rows.weights is None:  # nothing to count: millions of rows need not be touched
        return count.reshape(shape), np.zeros(shape, dtype=bool)
    weighty = slice(None) if rows.weights is None else rows.weights > 0
    cell = rows.cells[weighty]
    if rows.weights is not None:
        count = np.bincount(cell, minlength=count.size)
    if rows.labels is None:
        return count.reshape(shape), np.zeros(shape, dtype=bool)
    positive = np.bincount(cell, rows.labels[weighty], minlength=count.size)
    return count.reshape(shape), ((positive == 0) | (positive == count)).reshape(shape)


def _unmeasured(problem: Problem, rows: CalibrationRows) -> Iterator[str]:
    """Say where a promised gap is not measured, or leaves a group out, because nobody counts in its rate."""
    named = rows.clients.names[0] is not None
    for k, rate in enumerate(problem.local_rates):
        counts = problem.local_counts[..., k]
        promised = np.isfinite(problem.local_tolerance[:, k])
        blind = promised & ~counts.any(axis=1)
        if blind.any():
            sites = _listed((repr(rows.clients.names[c]) for c in np.flatnonzero(blind)[:_NAMED]), int(blind.sum()))
            where = f" inside {sites}" if named else ""
            yield f"the gap of the {rate.name} cannot be measured{where}: fewer than two groups have such a rate."
        left_out = _named(counts.any(axis=1, keepdims=True) & ~counts & (problem.mass > 0), rows)
        if left_out:
            yield f"{left_out}: nobody counts in its {rate.name}, so the gap inside the client leaves it out."
    for k, rate in enumerate(problem.global_rates):
        counts = problem.global_counts[:, k]
        if not counts.any():
            yield f"the gap of the {rate.name} across all cannot be measured: fewer than two groups have such a rate."
        elif not counts.all():
            missing = np.flatnonzero(~counts)
            left_out = _listed((f"group {rows.groups.names[a]!r}" for a in missing[:_NAMED]), missing.size)
            yield f"{left_out}: nobody counts in its {rate.name}, so the gap across all leaves it out."


def _named(which: Booleans, rows: CalibrationRows) -> str:
    """The cells marked, by name."""
    return _listed([_cell_name(rows, c, a) for c, a in np.argwhere(which)[:_NAMED]], int(which.sum()))


def _cell_name(rows: CalibrationRows, client: int, group: int) -> str:
    name = f"group {rows.groups.names[group]!r}"
    return name if rows.clients.names[client] is None else f"{name} at client {rows.clients.names[client]!r}"


def _listed(names: Iterable[str], total: int) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names)
    return shown if total <= _NAMED else f"{shown} and {total - _NAMED:,} more"


def _largest(prices: Floats, most: int) -> list[tuple[int, int]]:
    order = np.argsort(-prices, axis=None, kind="stable")[:most]
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, prices.shape), strict=True)]


def _notion(requirements: tuple[Requirement, ...]) -> Notion:
    """One notion of all the rates on a side."""
    names, basis = (
        tuple(dict.fromkeys(each)) for each in zip(*((r.notion, r.rate) for r in requirements), strict=True)
    )
    return Notion(" and ".join(names), given=basis)


def _promised(requirements: Requirements) -> str:
    parts = []
    for side, items in (("inside each client", requirements.local), ("across all clients", requirements.global_)):
        bounds = dict.fromkeys((r.notion, r.tolerance) for r in items)
        parts += [f"{notion} within {tolerance:g} {side}" for notion, tolerance in bounds if tolerance is not None]
    if requirements.client_tolerances:
        first = requirements.client_tolerances[:_NAMED]
        single = (f"{name!r} {'free' if t is None else f'within {t:g}'}" for name, t in first)
        parts.append(f"in place of that inside single clients: {_listed(single, len(requirements.client_tolerances))}")
    return " and ".join(parts) or "nothing (every tolerance is None)"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
