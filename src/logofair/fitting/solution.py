"""The solution: a policy, the proof of how good it is, and what people should know about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from logofair.auditing import Audit
from logofair.auditing.measure import plain
from logofair.auditing.rows import audit_codes
from logofair.calibration import CalibrationErrors
from logofair.columns.checks import Floats
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.warnings import FitWarning
from logofair.notions import Notion
from logofair.policy.info import CertificateInfo, price_sentence
from logofair.policy.mixtures import evaluate_single
from logofair.policy.policy import Policy
from logofair.requirements import Requirement, Requirements
from logofair.solvers.certificate import Certificate
from logofair.solvers.problem import Problem

__all__ = ["Solution", "certificate_info"]


@dataclass(frozen=True)
class Solution:
    """What :func:`logofair.fit` returns.

    Attributes
    ----------
    policy : Policy
        The rules, ready to decide on new rows.
    certificate : Certificate
        How accurate and how fair they are on the calibration rows, and how much better any rule could be.
    requirements : Requirements
        What the policy was made for.
    problem : Problem
        The cells and constraints, for those who want to look inside.
    warnings : tuple of FitWarning
        Cells on which a requirement rests on little or nothing: empty, one row, one label, few rows.
    solver : str
        Which solver found the policy; ``rounds``: in how many rounds.
    calibration_errors : CalibrationErrors or None
        Calibration error per cell before and after calibration.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> print(solution.requirements.summary())
    Inside each client, the selection rate of any two groups differs by at most 0.02 (demographic parity).
    >>> solution.policy.decide([0.7, 0.3], groups=["a", "b"]).tolist()
    [1, 0]
    """

    policy: Policy
    certificate: Certificate
    requirements: Requirements
    problem: Problem
    warnings: tuple[FitWarning, ...]
    solver: str
    rounds: int
    calibration_errors: CalibrationErrors | None
    rows: CalibrationRows

    def __repr__(self) -> str:
        c = self.certificate
        figures = f"accuracy={c.primal:.4f}, optimality_gap={c.optimality_gap:.1e}, violation={c.violation:.1e}"
        return f"Solution({figures}, solver={self.solver!r})"

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
        rows = self.rows
        if rows.labels is None:
            return None
        chance = self.policy.chances(rows.calibrated, rows.cells)
        local, global_ = self.requirements.local, self.requirements.global_
        sides = _notion(local or global_), _notion(global_ or local)
        return audit_codes(chance, rows.labels, rows.weights, rows.groups, rows.clients, *sides)

    def summary(self) -> str:
        """Return the solution in a few lines for people."""
        c = self.certificate
        lines = [
            f"Required: {self.requirements.summary()}",
            f"Expected accuracy {c.primal:.4f} on {self.rows.scores.size:,} calibration rows; "
            f"no rule within the tolerances exceeds {c.dual:.4f} (optimality gap {c.optimality_gap:.1e}, "
            f"violation {c.violation:.1e}, counted in {c.basis}, {self.solver} solver, {self.rounds} rounds).",
            self.coins_summary(),
        ]
        if self.measured is not None:
            m = self.measured
            lines.append(
                f"Counted with labels on the same rows: accuracy {m.accuracy:.4f}, global gap {_number(m.global_gap)}, "
                f"largest local gap {_number(m.local_gap)} (both include chance; see the cells' sizes)."
            )
        lines += [f"Price: {sentence}" for sentence in self.prices()]
        return "\n".join([*lines, *(f"Warning: {warning}" for warning in self.warnings)])

    def coins_summary(self) -> str:
        """How many cells need a coin, and what doing without would cost, in a sentence."""
        mixed, (accuracy, violation) = self.policy.mixtures.mixed, self.deterministic
        return (
            f"{int(mixed.sum()):,} of {mixed.size:,} cells need a coin; "
            f"without coins accuracy is {accuracy:.4f} and the largest violation {violation:.4f}."
        )

    def prices(self, most: int = 3) -> list[str]:
        """What 0.01 more tolerance would win at most, dearest first, as sentences."""
        entries = []
        for k, price in enumerate(self.certificate.prices.global_):
            entries.append((float(price), self.problem.global_rates[k].name, " over all clients"))
        for c, k in _largest(self.certificate.prices.local, most):
            name = self.policy.clients[c]
            where = "" if name is None else f" inside client {name!r}"
            entries.append((float(self.certificate.prices.local[c, k]), self.problem.local_rates[k].name, where))
        entries = sorted((entry for entry in entries if entry[0] > 1e-9), reverse=True)[:most]
        return [price_sentence(*entry) for entry in entries]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        accuracy, violation = self.deterministic
        return {
            "groups": [plain(name) for name in self.policy.groups],
            "clients": [plain(name) for name in self.policy.clients] if self.rows.has_clients else None,
            "rows": int(self.rows.scores.size),
            "requirements": self.requirements.as_dict(),
            "certificate": asdict(certificate_info(self.certificate)),
            "calibration": self.policy.calibrator.method,
            "solver": self.solver,
            "rounds": self.rounds,
            "prices": self._prices(),
            "cells_with_coins": int(self.policy.mixtures.mixed.sum()),
            "without_coins": {"accuracy": accuracy, "violation": violation},
            "measured": None if self.measured is None else self.measured.as_dict(),
            "warnings": [warning.as_dict() for warning in self.warnings],
        }

    def _prices(self) -> dict[str, Any]:
        """Every price above 0 inside a client, and those over all clients."""
        prices, problem = self.certificate.prices, self.problem
        local = [
            {"client": plain(self.policy.clients[c]), "rate": problem.local_rates[k].name, "price": price}
            for (c, k), price in np.ndenumerate(prices.local)
            if price > 0
        ]
        names = [rate.name for rate in problem.global_rates]
        global_ = [{"rate": name, "price": float(p)} for name, p in zip(names, prices.global_, strict=True)]
        return {"local": local, "global": global_}


def certificate_info(certificate: Certificate) -> CertificateInfo:
    """The figures of a certificate, as policies and results store them."""
    return CertificateInfo(
        certificate.primal,
        certificate.dual,
        certificate.optimality_gap,
        certificate.violation,
        certificate.basis,
        certificate.holds,
    )


def _largest(prices: Floats, most: int) -> list[tuple[int, int]]:
    order = np.argsort(-prices, axis=None, kind="stable")[:most]
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, prices.shape), strict=True)]


def _notion(requirements: tuple[Requirement, ...]) -> Notion:
    """One notion of all the rates on a side."""
    names = dict.fromkeys(r.notion for r in requirements)
    return Notion(" and ".join(names), given=tuple(dict.fromkeys(r.rate for r in requirements)))


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
