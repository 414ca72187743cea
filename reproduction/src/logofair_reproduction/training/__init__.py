"""Federated training: rounds of local work and averaging that produce a model, and so scores.

FedAvg, FairFed, FedFB and FCFL on logistic regressions, perceptrons and ResNet18. All of it needs PyTorch
(``pip install './reproduction[train]'``), and is imported when it is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair_reproduction.training.local import Schedule
    from logofair_reproduction.training.methods import FCFL, METHODS, FairFed, FedAvg, FedFB
    from logofair_reproduction.training.networks import Network, build_network
    from logofair_reproduction.training.rounds import TrainingState, train
    from logofair_reproduction.training.rows import ClientRows, make_rows

_HOMES = {
    "local": ("Schedule",),
    "methods": ("FCFL", "METHODS", "FairFed", "FedAvg", "FedFB"),
    "networks": ("Network", "build_network"),
    "rounds": ("TrainingState", "train"),
    "rows": ("ClientRows", "make_rows"),
}

__all__ = [
    "FCFL",
    "METHODS",
    "ClientRows",
    "FairFed",
    "FedAvg",
    "FedFB",
    "Network",
    "Schedule",
    "TrainingState",
    "build_network",
    "make_rows",
    "need_torch",
    "train",
]


def need_torch() -> None:
    """Raise, naming the extra to install, where PyTorch is missing."""
    if find_spec("torch") is None:
        raise InputError("Training needs PyTorch; install it with: pip install './reproduction[train]'.")


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            need_torch()
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
