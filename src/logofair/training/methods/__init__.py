"""Federated methods: FedAvg, FairFed, FedFB and FCFL, each the server's side of a round, in numpy."""

from logofair.training.methods.fairfed import FairFed
from logofair.training.methods.fcfl import FCFL
from logofair.training.methods.fedfb import FedFB
from logofair.training.methods.method import FedAvg, Method, MethodState

__all__ = ["FCFL", "METHODS", "FairFed", "FedAvg", "FedFB", "Method", "MethodState"]

METHODS: dict[str, type[FedAvg] | type[FairFed] | type[FedFB] | type[FCFL]] = {
    kind.name: kind for kind in (FedAvg, FairFed, FedFB, FCFL)
}
