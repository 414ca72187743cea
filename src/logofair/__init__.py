"""Fair decisions inside every client and across the whole federation, exactly and with a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logofair._version import __version__

if TYPE_CHECKING:
    from logofair.auditing import Audit, audit
    from logofair.errors import InputError, SolverError
    from logofair.estimator import LoGoFairClassifier
    from logofair.fitting.fit import fit
    from logofair.fitting.solution import Solution
    from logofair.notions import Notion, Rate
    from logofair.policy.policy import Policy
    from logofair.solvers.algorithm1 import Algorithm1
    from logofair.solvers.certificate import Certificate

__all__ = [
    "Algorithm1",
    "Audit",
    "Certificate",
    "InputError",
    "LoGoFairClassifier",
    "Notion",
    "Policy",
    "Rate",
    "Solution",
    "SolverError",
    "__version__",
    "audit",
    "fit",
]

_HOME = {
    "Algorithm1": "logofair.solvers.algorithm1",
    "Audit": "logofair.auditing",
    "Certificate": "logofair.solvers.certificate",
    "InputError": "logofair.errors",
    "LoGoFairClassifier": "logofair.estimator",
    "Notion": "logofair.notions",
    "Policy": "logofair.policy.policy",
    "Rate": "logofair.notions",
    "Solution": "logofair.fitting.solution",
    "SolverError": "logofair.errors",
    "audit": "logofair.auditing",
    "fit": "logofair.fitting.fit",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line's help must not wait for scikit-learn."""
    if name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'logofair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
