"""What a federated method is: what it asks of every client in a round, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from logofair.columns.checks import Floats
from logofair.training.messages import Answer, ClientMeasures, GradientsRequest, LocalSteps, TrainedParameters, Vector

__all__ = ["Answers", "FedAvg", "Method", "MethodState", "average"]


# What a method remembers from round to round, by name: arrays of doubles, so that it can be stored and sent.
MethodState: TypeAlias = Mapping[str, Floats]
# The answers of a round by the client's number; clients that did not answer are missing.
Answers: TypeAlias = Mapping[int, Answer]


class Method(Protocol):
    """The server's side of a method; state in, state out.

    A round is: ``task`` (sent to all with the model), the clients' answers, ``step`` to the next model, and, every
    ``measure_every`` rounds, the clients' counts for that model, from which the method learns.
    """

    name: ClassVar[str]

    @property
    def measure_every(self) -> int:
        """Rounds between two counts of how the model does."""

    def begin(self, measured: ClientMeasures) -> MethodState:
        """What to remember at the start; ``measured`` is of the model to start from."""

    def task(self, memory: MethodState) -> LocalSteps | GradientsRequest:
        """What every client is asked."""

    def step(
        self, memory: MethodState, parameters: Vector, measured: ClientMeasures, answers: Answers
    ) -> tuple[Vector, MethodState]:
        """The next model; ``measured`` is of the model that was sent."""

    def learn(self, memory: MethodState, measured: ClientMeasures) -> MethodState:
        """What to remember once the next model was measured."""


def average(parameters: Vector, answers: Answers, weights: Floats) -> Vector:
    """Average the clients' models by weights, over those that answered; unchanged where none of these has weight.

    Examples
    --------
    >>> models = {0: TrainedParameters(np.array([1.0, 0.0])), 2: TrainedParameters(np.array([4.0, 3.0]))}
    >>> average(np.zeros(2), models, np.array([0.5, 0.25, 0.25]))
    array([2., 1.])
    """
    # A client without weight is left out: 0 times a model that is no number would be none.
    present = [
        client for client in sorted(answers) if isinstance(answers[client], TrainedParameters) and weights[client] > 0
    ]
    share = np.asarray(weights)[present]
    if share.sum() <= 0.0:
        return parameters
    share = share / share.sum()
    total = np.zeros(parameters.shape, np.float64)
    for client, weight in zip(present, share, strict=True):
        answer = answers[client]
        assert isinstance(answer, TrainedParameters)
        total += weight * answer.parameters
    return total.astype(parameters.dtype)


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

    def begin(self, measured: ClientMeasures) -> MethodState:
        """Nothing to remember."""
        return {}

    def task(self, memory: MethodState) -> LocalSteps:
        """Plain local steps."""
        return LocalSteps()

    def step(
        self, memory: MethodState, parameters: Vector, measured: ClientMeasures, answers: Answers
    ) -> tuple[Vector, MethodState]:
        """Average by rows."""
        return average(parameters, answers, measured.shares), memory

    def learn(self, memory: MethodState, measured: ClientMeasures) -> MethodState:
        """Nothing to learn."""
        return memory
