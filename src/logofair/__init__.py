"""Fair decisions inside every site and over all of them, exactly and with a certificate.

Functions and types of daily use are here; ``datasets``, ``federation``, ``metrics`` and ``testing`` are imported when
they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from logofair import datasets as datasets
    from logofair import federation as federation
    from logofair import metrics as metrics
    from logofair import testing as testing
    from logofair.auditing import Audit, audit, compare
    from logofair.errors import InfeasibleError, InputError
    from logofair.estimator import LoGoFairClassifier
    from logofair.fitting.fit import fit
    from logofair.fitting.solution import Solution
    from logofair.notions import Notion, Rate
    from logofair.policy.policy import Policy
    from logofair.requirement import Requirement
    from logofair.studio.notebook import explore
    from logofair.tradeoff import frontier, recommend

__all__ = [
    "Audit",
    "InfeasibleError",
    "InputError",
    "LoGoFairClassifier",
    "Notion",
    "Policy",
    "Rate",
    "Requirement",
    "Solution",
    "audit",
    "compare",
    "explore",
    "fit",
    "frontier",
    "recommend",
]

_HOME = {
    "Audit": "logofair.auditing",
    "InfeasibleError": "logofair.errors",
    "InputError": "logofair.errors",
    "LoGoFairClassifier": "logofair.estimator",
    "Notion": "logofair.notions",
    "Policy": "logofair.policy.policy",
    "Rate": "logofair.notions",
    "Requirement": "logofair.requirement",
    "Solution": "logofair.fitting.solution",
    "audit": "logofair.auditing",
    "compare": "logofair.auditing",
    "explore": "logofair.studio.notebook",
    "fit": "logofair.fitting.fit",
    "frontier": "logofair.tradeoff",
    "recommend": "logofair.tradeoff",
}
_ROOMS = ("datasets", "federation", "metrics", "testing")


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
