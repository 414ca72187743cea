"""Rules of local steps on one flat vector: plain gradient descent and Adam.

PyTorch's optimisers do the same for many tensors at once; for one small vector most of their time is bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from logofair.training.schedule import Schedule

__all__ = ["Step", "fresh_steps"]

Step: TypeAlias = Callable[[Tensor, Tensor], None]  # changes the vector in place, given a gradient


def _sgd(learning_rate: float) -> Step:
    def step(vector: Tensor, gradient: Tensor) -> None:
        vector.sub_(gradient, alpha=learning_rate)

    return step


def _adam(learning_rate: float, decay: float = 0.9, square_decay: float = 0.999, floor: float = 1e-8) -> Step:
    """Steps of Adam (Kingma and Ba, 2015), with moments of its own."""
    moments: list[Tensor] = []
    taken = 0

    def step(vector: Tensor, gradient: Tensor) -> None:
        nonlocal taken
        if not moments:
            moments.extend((torch.zeros_like(vector), torch.zeros_like(vector)))
        taken += 1
        mean, square = moments
        mean.lerp_(gradient, 1.0 - decay)
        square.mul_(square_decay).addcmul_(gradient, gradient, value=1.0 - square_decay)
        # The root of the square's bias is taken out of the fraction: one pass over the vector less.
        root = (1.0 - square_decay**taken) ** 0.5
        vector.addcdiv_(mean, square.sqrt().add_(floor * root), value=-learning_rate * root / (1.0 - decay**taken))

    return step


_RULES: dict[str, Callable[[float], Step]] = {"adam": _adam, "sgd": _sgd}


def fresh_steps(schedule: Schedule) -> Step:
    """A schedule's rule of steps, with moments of its own: they start afresh every round.

    Examples
    --------
    >>> vector = torch.ones(2)
    >>> fresh_steps(Schedule(learning_rate=0.5, optimiser="sgd"))(vector, torch.tensor([1.0, 2.0]))
    >>> vector
    tensor([0.5000, 0.0000])
    """
    return _RULES[schedule.optimiser](schedule.learning_rate)
