"""Fair decisions inside every site and over all of them, exactly and with a certificate.

Functions and types of daily use are here; ``datasets`` and ``federation`` are imported when they
are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from logofair._version import __version__

if TYPE_CHECKING:
    from logofair import datasets, federation
    from logofair.auditing import Audit, audit
    from logofair.errors import InfeasibleError, InputError, LogofairError, RunError, SolverError
    from logofair.estimator import LoGoFairClassifier
    from logofair.fitting.fit import fit
    from logofair.fitting.solution import Solution
    from logofair.notions import Notion, Rate
    from logofair.policy.policy import Policy
    from logofair.requirement import Requirement
    from logofair.solvers.algorithm1 import Algorithm1
    from logofair.solvers.certificate import Certificate
    from logofair.tradeoff import Frontier, frontier

__all__ = [
    "Algorithm1",
    "Audit",
    "Certificate",
    "Frontier",
    "InfeasibleError",
    "InputError",
    "LoGoFairClassifier",
    "LogofairError",
    "Notion",
    "Policy",
    "Rate",
    "Requirement",
    "RunError",
    "Solution",
    "SolverError",
    "__version__",
    "audit",
    "datasets",
    "federation",
    "fit",
    "frontier",
]

_HOME = {
    "Algorithm1": "logofair.solvers.algorithm1",
    "Audit": "logofair.auditing",
    "Certificate": "logofair.solvers.certificate",
    "Frontier": "logofair.tradeoff",
    "InfeasibleError": "logofair.errors",
    "InputError": "logofair.errors",
    "LoGoFairClassifier": "logofair.estimator",
    "LogofairError": "logofair.errors",
    "Notion": "logofair.notions",
    "Policy": "logofair.policy.policy",
    "Rate": "logofair.notions",
    "Requirement": "logofair.requirement",
    "RunError": "logofair.errors",
    "Solution": "logofair.fitting.solution",
    "SolverError": "logofair.errors",
    "audit": "logofair.auditing",
    "fit": "logofair.fitting.fit",
    "frontier": "logofair.tradeoff",
}
_ROOMS = ("datasets", "federation")


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line's help must not wait for scikit-learn."""
    if name in _ROOMS:
        return import_module(f"logofair.{name}")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'logofair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
