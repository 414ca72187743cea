"""Federated averaging (FedAvg) of a logistic regression, with numpy and scipy alone.

Every round each client starts from the broadcast model, takes local mini-batch steps on its own rows and
returns its parameters; the server averages them with weights ``n_c / n`` (McMahan et al., 2017).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from logofair.columns.checks import (
    Binary,
    Floats,
    RandomSource,
    binary,
    generator,
    matrix,
    not_empty,
    same_length,
    whole_number,
)
from logofair.columns.labels import Codes, encode
from logofair.errors import InputError
from logofair_reproduction.training.methods import average_models
from logofair_reproduction.training.schedule import Schedule

__all__ = ["FedAvgRound", "LogisticModel", "fedavg"]


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """A logistic regression: P(Y=1 | x) is the sigmoid of ``x @ weights + intercept``.

    Examples
    --------
    >>> LogisticModel(weights=np.array([2.0, -1.0]), intercept=0.5).scores([[0.0, 0.5], [1.0, 0.0]]).round(3)
    array([0.5  , 0.924])
    """

    weights: Floats
    intercept: float

    def scores(self, features: object) -> Floats:
        """Return P(Y=1) for each row of ``features``."""
        table = matrix(features, "features")
        if table.shape[1] != self.weights.size:
            raise InputError(f"features: got {table.shape[1]} columns, but the model has {self.weights.size} weights.")
        scores: Floats = expit(table @ self.weights + self.intercept)
        return scores


@dataclass(frozen=True, eq=False)
class FedAvgRound:
    """The state after a round.

    Parameters
    ----------
    number : int
        Rounds done, from 1.
    model : LogisticModel
        The averaged model.
    loss : float
        Its mean log loss over all training rows.
    accuracy : mapping of client to float
        The share of each client's training rows it gets right at threshold 1/2.

    Examples
    --------
    >>> import numpy as np
    >>> features = np.random.default_rng(0).random((200, 2))
    >>> *_, last = fedavg(features, features[:, 0] > 0.5, np.arange(200) % 2, rounds=3, random_state=0)
    >>> last.number, sorted(last.accuracy)
    (3, [0, 1])
    """

    number: int
    model: LogisticModel
    loss: float
    accuracy: Mapping[Hashable, float]


@dataclass(frozen=True, eq=False)
class _Client:
    """One client's rows; ``design`` is its features and a column of ones for the intercept."""

    name: Hashable
    design: Floats
    labels: Binary


def fedavg(
    features: object,
    labels: object,
    clients: object = None,
    *,
    random_state: RandomSource,
    rounds: int = 20,
    local_epochs: int = 5,
    learning_rate: float = 0.01,
    batch_size: int | None = 128,
    optimiser: str = "adam",
    start: LogisticModel | None = None,
) -> Iterator[FedAvgRound]:
    """Train a logistic regression by federated averaging; yield the state after every round.

    The defaults lie in the paper's grid and suit features scaled to [0, 1].

    Parameters
    ----------
    features : array of shape (n_rows, n_features)
        Finite numbers.
    labels : column of 0 and 1
        A client may hold one label only.
    clients : column of labels, optional
        The client of each row; None for a single client.
    random_state : np.random.Generator or int
        One number is drawn from it per round and every client shuffles with that number, so that the clients' names
        and order do not matter.
    rounds : int
        Number of rounds.
    local_epochs : int
        Passes of a client over its rows within a round.
    learning_rate : float
        Step size.
    batch_size : int or None
        Rows per step; None for all rows of the client.
    optimiser : {"adam", "sgd"}
        Rule of the local steps; Adam starts afresh every round.
    start : LogisticModel, optional
        Where to start; by default all parameters are 0.

    Yields
    ------
    FedAvgRound
        Round number, averaged model, its mean loss, and its accuracy at each client.

    Examples
    --------
    >>> features = np.random.default_rng(0).random((300, 2))
    >>> labels = features[:, 0] > features[:, 1]
    >>> for state in fedavg(features, labels, [0, 1, 2] * 100, random_state=0, learning_rate=0.05):
    ...     pass
    >>> state.number, round(state.loss, 2), min(state.accuracy.values()) > 0.95
    (20, 0.24, True)
    """
    table, outcomes = matrix(features, "features"), binary(labels, "labels")
    not_empty(len(table), "features")
    codes = Codes((0,), np.zeros(len(table), np.int32)) if clients is None else encode(clients, "clients")
    same_length(len(table), labels=outcomes, clients=codes)
    schedule = Schedule(local_epochs, learning_rate, batch_size, optimiser)
    parts = _by_client(table, outcomes, codes)
    first, rng = _parameters(start, table.shape[1]), generator(random_state, "random_state")
    return _rounds(parts, first, whole_number(rounds, "rounds"), schedule, rng)


def _rounds(
    clients: list[_Client], parameters: Floats, rounds: int, schedule: Schedule, rng: np.random.Generator
) -> Iterator[FedAvgRound]:
    """Alternate local training and averaging."""
    n = np.array([client.labels.size for client in clients])
    for number in range(1, rounds + 1):
        step_key = int(rng.integers(2**63))
        local = [
            train_locally(c.design, c.labels, parameters, schedule, np.random.default_rng(step_key)) for c in clients
        ]
        parameters = average_models(local, n)
        losses, accuracies = zip(*(_evaluate(client, parameters) for client in clients), strict=True)
        yield FedAvgRound(
            number=number,
            model=LogisticModel(parameters[:-1].copy(), float(parameters[-1])),
            loss=float(np.average(losses, weights=n)),
            accuracy={client.name: accuracy for client, accuracy in zip(clients, accuracies, strict=True)},
        )


def train_locally(
    design: Floats, labels: Binary, parameters: Floats, schedule: Schedule, rng: np.random.Generator
) -> Floats:
    """A client's parameters after its local steps; ``design`` is its features and a column of ones."""
    step, n, parameters = schedule.optimiser_step(), labels.size, parameters.copy()
    size = n if schedule.batch_size is None else schedule.batch_size
    for _ in range(schedule.local_epochs):
        order = rng.permutation(n)
        shuffled, outcomes = design[order], labels[order]
        for first in range(0, n, size):
            batch = slice(first, first + size)
            step(parameters, _gradient(parameters, shuffled[batch], outcomes[batch]))
    return parameters


def _gradient(parameters: Floats, design: Floats, labels: Binary) -> Floats:
    """Gradient of the mean log loss; (d,), (n, d), (n,)."""
    gradient: Floats = (expit(design @ parameters) - labels) @ design / labels.size
    return gradient


def _evaluate(client: _Client, parameters: Floats) -> tuple[float, float]:
    """Mean log loss and accuracy of a model on a client's rows."""
    logits = client.design @ parameters
    losses = np.logaddexp(0.0, logits) - client.labels * logits
    return float(np.mean(losses)), float(np.mean((logits >= 0.0) == (client.labels == 1.0)))


def _by_client(features: Floats, labels: Binary, clients: Codes) -> list[_Client]:
    """Each client's rows, in their order."""
    design = np.column_stack([features, np.ones(len(features))])
    return [_Client(name, design[rows], labels[rows]) for name, rows in clients.by_name()]


def _parameters(start: LogisticModel | None, n_features: int) -> Floats:
    """Weights, then the intercept, to start from."""
    if start is None:
        return np.zeros(n_features + 1)
    if start.weights.shape != (n_features,):
        raise InputError(f"start: the model has {start.weights.size} weights, but features has {n_features} columns.")
    return np.append(start.weights, start.intercept)
