"""How a client trains within a round, whatever its model."""

from __future__ import annotations

from dataclasses import dataclass

from logofair.columns.checks import nearest_name, positive_number, whole_number
from logofair.errors import InputError

__all__ = ["OPTIMISERS", "Schedule"]

OPTIMISERS = ("adam", "sgd")


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
