"""How a client trains within a round, whatever its model: the schedule and the optimiser's steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from logofair.columns.checks import nearest_name, positive_number, whole_number
from logofair.errors import InputError

__all__ = ["OPTIMISERS", "Schedule", "Step"]

# Changes parameters in place, given their gradient: numpy arrays, or tensors, which have the same operators.
Step = Callable[[Any, Any], None]


def _sgd(learning_rate: float) -> Step:
    def step(parameters: Any, gradient: Any) -> None:
        parameters -= learning_rate * gradient

    return step


def _adam(learning_rate: float, decay: float = 0.9, square_decay: float = 0.999, floor: float = 1e-8) -> Step:
    """Steps of Adam (Kingma and Ba, 2015), with moments of its own."""
    mean: Any = None
    square: Any = None
    taken = 0

    def step(parameters: Any, gradient: Any) -> None:
        nonlocal mean, square, taken
        if taken == 0:
            mean, square = 0.0 * parameters, 0.0 * parameters
        taken += 1
        mean *= decay
        mean += (1.0 - decay) * gradient
        square *= square_decay
        square += (1.0 - square_decay) * gradient**2
        # In place, since a network may have millions of parameters.
        change = learning_rate * mean
        change /= 1.0 - decay**taken
        scale = square / (1.0 - square_decay**taken)
        scale **= 0.5
        scale += floor
        change /= scale
        parameters -= change

    return step


OPTIMISERS: dict[str, Callable[[float], Step]] = {"adam": _adam, "sgd": _sgd}


@dataclass(frozen=True)
class Schedule:
    """Local epochs, and mini-batch steps within them; the defaults lie in the paper's grid.

    Parameters
    ----------
    local_epochs : int
        Passes of a client over its rows within a round.
    learning_rate : float
        Step size.
    batch_size : int or None
        Rows per step; None for all rows of the client.
    optimiser : {"adam", "sgd"}
        Rule of the steps; Adam starts afresh every round.

    Examples
    --------
    >>> Schedule(local_epochs=10).batch_size
    128
    >>> Schedule(optimiser="adan")
    Traceback (most recent call last):
    logofair.errors.InputError: optimiser: got 'adan' (did you mean 'adam'?); use one of adam, sgd.
    """

    local_epochs: int = 5
    learning_rate: float = 0.01
    batch_size: int | None = 128
    optimiser: str = "adam"

    def __post_init__(self) -> None:
        whole_number(self.local_epochs, "local_epochs")
        if self.batch_size is not None:
            whole_number(self.batch_size, "batch_size")
        positive_number(self.learning_rate, "learning_rate", 1e6)
        if self.optimiser not in OPTIMISERS:
            raise InputError(
                f"optimiser: got {self.optimiser!r}{nearest_name(self.optimiser, OPTIMISERS)}; "
                f"use one of {', '.join(OPTIMISERS)}."
            )

    def optimiser_step(self) -> Step:
        """Return the optimiser's step, with moments of its own: make one per client and round."""
        return OPTIMISERS[self.optimiser](self.learning_rate)
