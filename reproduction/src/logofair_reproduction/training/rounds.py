"""Training round by round, all clients in this process: a generator whose every step is one round's state.

The same method, network, rows, schedule and random state give the same states to the bit on one machine, however the
clients are ordered in time. Training yields parameters, and so scores; it knows nothing of post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from logofair.columns.checks import Floats, whole_number
from logofair.errors import InputError
from logofair_reproduction.training.local import Schedule, batch_gradients, label_counts, take_steps
from logofair_reproduction.training.messages import (
    ClientMeasures,
    GradientsRequest,
    LocalStepsRequest,
    Reply,
    Request,
    Vector,
)
from logofair_reproduction.training.methods import Method, MethodState, Replies
from logofair_reproduction.training.networks import Network
from logofair_reproduction.training.rows import ClientRows


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Where training stands after a round; 0 before the first."""

    round: int
    parameters: Vector  # the model: the network's flat vector
    measured: ClientMeasures  # how the model of round ``measured_at`` does at every client, on its training rows
    measured_at: int  # ``round``, unless the method measures less often
    method_state: MethodState
    client_states: tuple[Floats | None, ...]  # what each client keeps (FairBatch's weights), or None

    @classmethod
    def initial(cls, method: Method, parameters: Vector, measured: ClientMeasures) -> TrainingState:
        """The state before the first round, given how the first model does."""
        return cls(0, parameters, measured, 0, method.initial_state(measured), (None,) * len(measured.clients))

    def after_step(
        self, method: Method, replies: Replies, client_states: tuple[Floats | None, ...] | None = None
    ) -> TrainingState:
        """The state with the next model, which is not measured yet."""
        with np.errstate(all="ignore"):  # the check below says it in a sentence
            parameters, method_state = method.step(self.method_state, self.parameters, self.measured, replies)
        _check_finite(parameters, self.round + 1)
        kept = self.client_states if client_states is None else client_states
        return replace(self, round=self.round + 1, parameters=parameters, method_state=method_state, client_states=kept)

    def after_measuring(self, method: Method, measured: ClientMeasures) -> TrainingState:
        """The state once its model was measured."""
        _check_finite(measured.loss, self.round)
        method_state = method.learn(self.method_state, measured)
        return replace(self, measured=measured, measured_at=self.round, method_state=method_state)


def _check_finite(numbers: Vector, number: int) -> None:
    if not np.isfinite(numbers).all():
        raise InputError(
            f"train: the model diverged in round {number} (it holds numbers that are not finite); use a smaller "
            "learning rate or step size."
        )


def train(
    method: Method,
    network: Network,
    clients: Sequence[ClientRows],
    *,
    rounds: int,
    schedule: Schedule | None = None,
    random_state: int = 0,
) -> Iterator[TrainingState]:
    """Train a network by a federated method; yield the state after every round.

    Network and rows are those of :func:`build_network` and :func:`make_rows`. ``schedule`` is how clients take local
    steps (FCFL takes none); ``random_state`` decides the network's first parameters and the clients' shuffling.

    Examples
    --------
    >>> from logofair_reproduction.training import FedFB, build_network, make_rows
    >>> random = np.random.default_rng(0)
    >>> features = random.random((200, 2))
    >>> labels, groups = features.sum(1) > 1, features[:, 0] > 0.5
    >>> rows = make_rows(features, labels, groups=groups, sites=random.integers(3, size=200))
    >>> for state in train(FedFB(), build_network("mlp", (2,)), rows, rounds=5):
    ...     pass
    >>> state.round, state.measured.accuracy > 0.8
    (5, True)
    """
    total, schedule = whole_number(rounds, "rounds"), schedule or Schedule()
    random_state = whole_number(random_state, "random_state", least=0)
    first = initial_state(method, network, clients, random_state)

    def states() -> Iterator[TrainingState]:
        state = first
        for number in range(1, total + 1):
            with _deterministic():
                request, key = method.request(state.method_state), (random_state, number)
                answers = [
                    reply_to(network, rows, state.parameters, request, schedule, key, kept)
                    for rows, kept in zip(clients, state.client_states, strict=True)
                ]
                replies, kept_states = zip(*answers, strict=True)
                state = state.after_step(method, dict(enumerate(replies)), kept_states)
                if number % method.measure_every == 0:
                    state = state.after_measuring(method, measure(network, clients, state.parameters))
            yield state

    return states()


def initial_state(
    method: Method, network: Network, clients: Sequence[ClientRows], random_state: int = 0
) -> TrainingState:
    """The state before the first round."""
    whole_number(method.measure_every, "measure_every")
    fits = [
        (rows.groups, tuple(rows.features.shape[1:]), rows.labels.dtype)
        == (clients[0].groups, network.shape, network.dtype)
        for rows in clients
    ]
    if not fits or not all(fits):
        raise InputError(
            f"clients: pass the rows of one call of make_rows, with features of shape {network.shape} and in "
            f"{network.dtype}, for which the network is built."
        )
    parameters = network.start(random_state)
    with _deterministic():
        return TrainingState.initial(method, parameters, measure(network, clients, parameters))


def reply_to(
    network: Network,
    rows: ClientRows,
    parameters: Vector,
    request: Request,
    schedule: Schedule,
    key: tuple[int, int],
    state: Floats | None = None,
) -> tuple[Reply, Floats | None]:
    """One client's reply to a request, and what it keeps; ``key`` is the run's random state and the round's number."""
    # All clients shuffle by the same numbers, so that their names and order do not matter.
    rng = np.random.default_rng(key)
    if isinstance(request, GradientsRequest):
        return batch_gradients(network, rows, parameters, request, rng), state
    assert isinstance(request, LocalStepsRequest)
    return take_steps(network, rows, parameters, request, schedule, rng, state)


def measure(network: Network, clients: Sequence[ClientRows], parameters: Vector) -> ClientMeasures:
    """Count how a model decides at every client."""
    counts = [label_counts(network, rows, parameters) for rows in clients]
    return ClientMeasures.together([rows.client for rows in clients], clients[0].groups, counts)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Convolutions that give the same bits every time, where there is a GPU; the user's other settings stay."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
