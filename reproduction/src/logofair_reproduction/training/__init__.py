"""Federated training: rounds of local work and averaging that produce a model, and so scores.

``fedavg`` trains a logistic regression with numpy alone. The rest needs PyTorch (``pip install
'./reproduction[train]'``) and is imported when first used: FedAvg, FairFed, FedFB and FCFL on logistic regressions,
perceptrons and ResNet18.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from logofair.errors import InputError
from logofair_reproduction.training.logistic import FedAvgRound, LogisticModel, fedavg
from logofair_reproduction.training.schedule import Schedule

if TYPE_CHECKING:
    from logofair_reproduction.training.methods import FCFL, METHODS, FairFed, FedAvg, FedFB
    from logofair_reproduction.training.networks import Network, build_network
    from logofair_reproduction.training.rounds import TrainingState, train
    from logofair_reproduction.training.rows import ClientRows, make_rows

__all__ = [
    "FCFL",
    "METHODS",
    "ClientRows",
    "FairFed",
    "FedAvg",
    "FedAvgRound",
    "FedFB",
    "LogisticModel",
    "Network",
    "Schedule",
    "TrainingState",
    "build_network",
    "fedavg",
    "make_rows",
    "need_torch",
    "train",
]

_HOMES = {
    "methods": ("FCFL", "METHODS", "FairFed", "FedAvg", "FedFB"),
    "networks": ("Network", "build_network"),
    "rounds": ("TrainingState", "train"),
    "rows": ("ClientRows", "make_rows"),
}


def need_torch() -> None:
    """Raise, naming the extra to install, where PyTorch is missing.

    Examples
    --------
    >>> need_torch()  # it is here
    """
    if find_spec("torch") is None:
        raise InputError("Training of networks needs PyTorch; install it with: pip install './reproduction[train]'.")


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            if module != "methods":
                need_torch()
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
