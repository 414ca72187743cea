"""Training round by round, all clients in this process: a generator whose every step is one round's state.

The same method, network, rows, schedule and seed give the same states to the bit, however the clients are ordered
in time, and a run that is resumed from a state goes on as if it had never stopped. (Across machines, PyTorch promises
no bits.) Training yields parameters, and so scores; it knows nothing of post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from logofair.columns.checks import Floats, whole_number
from logofair.errors import InputError
from logofair.training.local import count, slopes, take_steps
from logofair.training.messages import Answer, ClientMeasures, GradientsRequest, LocalSteps, Vector
from logofair.training.methods import Method, MethodState
from logofair.training.methods.method import Answers
from logofair.training.networks import Network
from logofair.training.rows import ClientRows
from logofair.training.schedule import Schedule

__all__ = ["TrainingState", "answer", "begin", "measure", "train"]


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Where training stands after a round.

    Parameters
    ----------
    round : int
        Rounds done; 0 before the first.
    parameters : array
        The model: the network's flat vector.
    measured : Measured
        How the model of round ``measured_at`` does at every client, on its training rows.
    measured_at : int
        The round that ``measured`` is of: ``round``, unless the method measures less often.
    memory : mapping
        What the method remembers.
    clients : tuple
        What each client remembers (FairBatch's weights), or None.

    Examples
    --------
    >>> from logofair.training import FedAvg, Schedule, build_network, make_rows, train
    >>> rows = make_rows([[0.0], [1.0]] * 2, [0, 1, 0, 1], groups=["a", "b", "b", "a"], clients=[0, 0, 1, 1])
    >>> network, schedule = build_network("logistic", (1,)), Schedule(learning_rate=0.5)
    >>> *_, last = train(FedAvg(), network, rows, rounds=3, schedule=schedule)
    >>> last.round, last.measured.client_accuracy
    (3, array([1., 1.]))
    """

    round: int
    parameters: Vector
    measured: ClientMeasures
    measured_at: int
    memory: MethodState
    clients: tuple[Floats | None, ...]

    @classmethod
    def before(cls, method: Method, parameters: Vector, measured: ClientMeasures) -> TrainingState:
        """The state before the first round, given how the first model does."""
        return cls(0, parameters, measured, 0, method.begin(measured), (None,) * len(measured.clients))

    def stepped(
        self, method: Method, answers: Answers, clients: tuple[Floats | None, ...] | None = None
    ) -> TrainingState:
        """The state with the next model, which is not measured yet; ``clients`` is what these remember now."""
        with np.errstate(all="ignore"):  # what is no number is said in a sentence
            parameters, memory = method.step(self.memory, self.parameters, self.measured, answers)
        if not np.isfinite(parameters).all():
            raise _diverged(self.round + 1)
        kept = self.clients if clients is None else clients
        return replace(self, round=self.round + 1, parameters=parameters, memory=memory, clients=kept)

    def learned(self, method: Method, measured: ClientMeasures) -> TrainingState:
        """The state once its model was measured."""
        if not np.isfinite(measured.loss).all():
            raise _diverged(self.round)
        memory = method.learn(self.memory, measured)
        return replace(self, measured=measured, measured_at=self.round, memory=memory)


def train(
    method: Method,
    network: Network,
    clients: Sequence[ClientRows],
    *,
    rounds: int,
    schedule: Schedule | None = None,
    seed: int = 0,
    start: TrainingState | None = None,
) -> Iterator[TrainingState]:
    """Train a network by a federated method; yield the state after every round.

    Parameters
    ----------
    method : FedAvg, FairFed, FedFB or FCFL
        How the clients' answers become the next model.
    network : Network
        From :func:`build_network`.
    clients : sequence of Rows
        From :func:`make_rows`.
    rounds : int
        Rounds in all, those of ``start`` included.
    schedule : Schedule, optional
        How clients take local steps; FCFL takes none.
    seed : int
        Of the network's first parameters and the clients' shuffling.
    start : State, optional
        Go on from here.

    Yields
    ------
    State

    Examples
    --------
    >>> from logofair.training import FedFB, build_network, make_rows
    >>> random = np.random.default_rng(0)
    >>> features = random.random((200, 2))
    >>> labels, groups = features.sum(1) > 1, features[:, 0] > 0.5
    >>> rows = make_rows(features, labels, groups=groups, clients=random.integers(3, size=200))
    >>> for state in train(FedFB(), build_network("mlp", (2,)), rows, rounds=5):
    ...     pass
    >>> state.round, state.measured.accuracy > 0.8
    (5, True)
    """
    total, plan = whole_number(rounds, "rounds"), schedule or Schedule()
    seed = whole_number(seed, "seed", least=0)
    state = begin(method, network, clients, seed) if start is None else _fitting(start, method, network, clients)
    return _rounds(method, network, clients, total, plan, seed, state)


def _diverged(number: int) -> InputError:
    return InputError(
        f"train: the model diverged in round {number} (it holds numbers that are not finite); use a smaller learning "
        "rate or step size."
    )


def _rounds(
    method: Method,
    network: Network,
    clients: Sequence[ClientRows],
    rounds: int,
    plan: Schedule,
    seed: int,
    state: TrainingState,
) -> Iterator[TrainingState]:
    while state.round < rounds:
        with _same_bits():
            state = _advanced(method, network, clients, plan, seed, state)
        yield state


def begin(method: Method, network: Network, clients: Sequence[ClientRows], seed: int = 0) -> TrainingState:
    """The state before the first round.

    Examples
    --------
    >>> from logofair.training import FairFed, build_network, make_rows
    >>> rows = make_rows([[0.0], [1.0], [1.0]], [0, 1, 1], groups=["a", "b", "a"], clients=["n", "s", "s"])
    >>> begin(FairFed(), build_network("logistic", (1,)), rows).memory["weights"].round(3)
    array([0.333, 0.667])
    """
    _check(method, network, clients)
    parameters = network.start(seed)
    with _same_bits():
        return TrainingState.before(method, parameters, measure(network, clients, parameters))


def _advanced(
    method: Method, network: Network, clients: Sequence[ClientRows], plan: Schedule, seed: int, state: TrainingState
) -> TrainingState:
    """One round: ask, step, measure, learn."""
    task, number = method.task(state.memory), state.round + 1
    answers: dict[int, Answer] = {}
    memories = list(state.clients)
    for place, rows in enumerate(clients):
        answers[place], memories[place] = answer(
            network, rows, state.parameters, task, plan, (seed, number), state.clients[place]
        )
    after = state.stepped(method, answers, tuple(memories))
    if number % method.measure_every:
        return after
    return after.learned(method, measure(network, clients, after.parameters))


def answer(
    network: Network,
    rows: ClientRows,
    parameters: Vector,
    task: LocalSteps | GradientsRequest,
    schedule: Schedule,
    seeds: tuple[int, int],
    memory: Floats | None = None,
) -> tuple[Answer, Floats | None]:
    """One client's answer to a task, and what it remembers; ``seeds`` are the run's and the round's number.

    Examples
    --------
    >>> from logofair.training import Schedule, build_network, make_rows
    >>> rows = make_rows([[0.0], [1.0]], [0, 1], groups=["a", "b"])[0]
    >>> network = build_network("logistic", (1,))
    >>> answer(network, rows, network.start(0), LocalSteps(), Schedule(), (0, 1))[0].parameters.shape
    (2,)
    """
    # All clients shuffle by the same number, so that their names and order do not matter.
    rng = np.random.default_rng(seeds)
    if isinstance(task, GradientsRequest):
        return slopes(network, rows, parameters, task, rng), memory
    return take_steps(network, rows, parameters, task, schedule, rng, memory)


def measure(network: Network, clients: Sequence[ClientRows], parameters: Vector) -> ClientMeasures:
    """Count how a model does at every client.

    Examples
    --------
    >>> from logofair.training import build_network, make_rows
    >>> rows = make_rows([[0.0], [1.0]], [0, 1], groups=["a", "b"])
    >>> measure(build_network("logistic", (1,)), rows, np.array([2.0, -1.0])).accuracy
    1.0
    """
    counts = [count(network, rows, parameters) for rows in clients]
    return ClientMeasures.together([rows.client for rows in clients], clients[0].groups, counts)


def _check(method: Method, network: Network, clients: Sequence[ClientRows]) -> None:
    """Raise where method, network and rows cannot go together."""
    whole_number(method.measure_every, "measure_every")
    if not clients:
        raise InputError("clients: there are none; pass what make_rows returns.")
    for rows in clients:
        if rows.groups != clients[0].groups:
            raise InputError(
                f"clients: {rows.client!r} has other groups than {clients[0].client!r}; make all rows with the same "
                "known_groups=."
            )
        if tuple(rows.features.shape[1:]) != network.shape:
            raise InputError(
                f"clients: a row of {rows.client!r} has shape {tuple(rows.features.shape[1:])}, but {network.name} is "
                f"built for {network.shape}; build the network for these rows."
            )
        if rows.labels.dtype != network.dtype:
            raise InputError(
                f"clients: the rows of {rows.client!r} are {rows.labels.dtype}, the network {network.dtype}; make both "
                "with the same dtype=."
            )


def _fitting(state: TrainingState, method: Method, network: Network, clients: Sequence[ClientRows]) -> TrainingState:
    """The state to go on from, if it is one of this method, these clients and this network."""
    _check(method, network, clients)
    names = tuple(rows.client for rows in clients)
    if state.measured.clients != names or state.measured.groups != clients[0].groups:
        raise InputError("start: the state is of other clients or groups; start afresh.")
    if not np.array_equal(state.measured.rows, np.stack([rows.counts for rows in clients])):
        raise InputError("start: the state is of other rows, by their counts of groups and labels; start afresh.")
    if set(state.memory) != set(method.begin(state.measured)):
        raise InputError(f"start: the state is of another method than {method.name}; start afresh.")
    if state.parameters.size != network.size:
        raise InputError(
            f"start: the state has {state.parameters.size:,} parameters, the network {network.size:,}; start afresh."
        )
    return state


@contextmanager
def _same_bits() -> Iterator[None]:
    """Convolutions that give the same bits every time, where there is a GPU; the user's other settings stay."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
