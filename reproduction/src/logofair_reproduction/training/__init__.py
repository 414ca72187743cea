"""Federated training: rounds of local work and averaging that produce a model, and so scores.

FedAvg, FairFed, FedFB and FCFL on logistic regressions, perceptrons and ResNet18. All of it needs PyTorch
(``pip install './reproduction[train]'``).
"""

from logofair_reproduction.training.local import Schedule
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
    "FedFB",
    "Network",
    "Schedule",
    "TrainingState",
    "build_network",
    "make_rows",
    "train",
]
