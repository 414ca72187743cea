"""A site's steps of a training in the plan: mini-batches of a logistic regression, by Adam (Kingma and Ba, 2015)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from logofair.columns.checks import Binary, Floats

__all__ = ["train_locally"]

_DECAY, _SQUARE_DECAY, _FLOOR = 0.9, 0.999, 1e-8


def train_locally(
    design: Floats,
    labels: Binary,
    parameters: Floats,
    rng: np.random.Generator,
    *,
    local_epochs: int,
    learning_rate: float,
    batch_size: int,
) -> Floats:
    """A site's parameters after its local steps; ``design`` is its features and a column of ones."""
    parameters = parameters.copy()
    mean, square, taken = np.zeros_like(parameters), np.zeros_like(parameters), 0
    for _ in range(local_epochs):
        order = rng.permutation(labels.size)
        for first in range(0, labels.size, batch_size):
            batch = order[first : first + batch_size]
            gradient = (expit(design[batch] @ parameters) - labels[batch]) @ design[batch] / batch.size
            taken += 1
            mean = _DECAY * mean + (1.0 - _DECAY) * gradient
            square = _SQUARE_DECAY * square + (1.0 - _SQUARE_DECAY) * gradient**2
            scale = (square / (1.0 - _SQUARE_DECAY**taken)) ** 0.5 + _FLOOR
            parameters -= learning_rate * mean / (1.0 - _DECAY**taken) / scale
    return parameters
