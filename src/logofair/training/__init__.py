"""Federated training: rounds of local steps and averaging that produce a model, and so scores."""

from logofair.training.logistic import LogisticModel, Round, fedavg

__all__ = ["LogisticModel", "Round", "fedavg"]
