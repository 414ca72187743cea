"""A federated method: what it requests of every client in a round, and the next model from their replies."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.training.messages import ClientMeasures, Reply, Request, StepsRequest, TrainedParameters, Vector

__all__ = ["FedAvg", "Method", "MethodState", "Replies", "average", "average_models"]


# What a method keeps from round to round, by name: arrays of doubles, so that it can be stored and sent.
MethodState: TypeAlias = Mapping[str, Floats]
# The replies of a round by the client's number; clients that did not reply are missing.
Replies: TypeAlias = Mapping[int, Reply]


class Method(Protocol):
    """The server's side of a method; state in, state out.

    A round is: ``request`` (sent to all with the model), the clients' replies, ``step`` to the next model, and, every
    ``measure_every`` rounds, the clients' counts for that model, from which the method learns.
    """

    name: ClassVar[str]

    @property
    def measure_every(self) -> int:
        """Rounds between two counts of how the model does."""

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """The state at the start; ``measured`` is of the model to start from."""

    def request(self, state: MethodState) -> Request:
        """What is requested of every client."""

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """The next model; ``measured`` is of the model that was sent."""

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """The state once the next model was measured."""


def average_models(models: Iterable[Vector], weights: npt.ArrayLike) -> Floats:
    """Average the clients' parameters by weights (McMahan et al., 2017: their numbers of rows), in doubles.

    Examples
    --------
    >>> average_models([np.array([1.0, 0.0]), np.array([4.0, 3.0])], [2, 1])
    array([2., 1.])
    """
    shares = np.asarray(weights, dtype=np.float64)
    # One model after another: a copy of all may not fit.
    weighted = (weight * model.astype(np.float64) for weight, model in zip(shares, models, strict=True))
    mean: Floats = functools.reduce(np.add, weighted) / shares.sum()
    return mean


def average(parameters: Vector, replies: Replies, weights: Floats) -> Vector:
    """Average the models of the clients that replied; unchanged where none of these has weight.

    Examples
    --------
    >>> models = {0: TrainedParameters(np.array([1.0, 0.0])), 2: TrainedParameters(np.array([4.0, 3.0]))}
    >>> average(np.zeros(2), models, np.array([0.5, 0.25, 0.25]))
    array([2., 1.])
    """
    # A client without weight is left out: 0 times a model that is no number would be none.
    present = {
        client: reply.parameters
        for client, reply in sorted(replies.items())
        if isinstance(reply, TrainedParameters) and weights[client] > 0
    }
    if not present:
        return parameters
    return average_models(present.values(), weights[list(present)]).astype(parameters.dtype)


@dataclass(frozen=True)
class FedAvg:
    """Average the clients' models with weights n_c / n."""

    name: ClassVar[str] = "fedavg"
    measure_every: int = 1

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """No state."""
        return {}

    def request(self, state: MethodState) -> StepsRequest:
        """Plain local steps."""
        return StepsRequest()

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Average by rows."""
        return average(parameters, replies, measured.shares), state

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """Nothing to learn."""
        return state
