"""Federated averaging (McMahan et al., 2017): the mean of the clients' models, weighted by their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from logofair.training.measured import Measured
from logofair.training.messages import LocalSteps, Vector
from logofair.training.methods.method import Answers, Memory, average

__all__ = ["FedAvg"]


@dataclass(frozen=True)
class FedAvg:
    """Average the clients' models with weights n_c / n.

    Examples
    --------
    >>> FedAvg().task({}).debias
    'none'
    """

    name: ClassVar[str] = "fedavg"
    measure_every: int = 1

    def begin(self, measured: Measured) -> Memory:
        """Nothing to remember."""
        return {}

    def task(self, memory: Memory) -> LocalSteps:
        """Plain local steps."""
        return LocalSteps()

    def step(self, memory: Memory, parameters: Vector, measured: Measured, answers: Answers) -> tuple[Vector, Memory]:
        """Average by rows."""
        return average(parameters, answers, measured.shares), memory

    def learn(self, memory: Memory, measured: Measured) -> Memory:
        """Nothing to learn."""
        return memory
