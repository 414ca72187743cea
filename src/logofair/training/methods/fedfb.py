"""FedFB (Zeng, Chen and Lee, 2021): FairBatch with the losses of all clients together.

The server changes the weights of (group, label) cells along the differences of their losses over all clients
(:mod:`logofair.training.balance`); clients train under these weights, and their models are averaged in proportion to
the weight their rows have. For selection rates the step falls as ``alpha / sqrt(t + 1)``; for conditions on labels it
has the length ``alpha`` throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from logofair.columns.checks import not_negative
from logofair.notions import DEMOGRAPHIC_PARITY, Notion
from logofair.training.balance import conditions, equal_ratios, updated_ratios
from logofair.training.messages import ClientMeasures, StepsRequest, Vector
from logofair.training.methods.method import MethodState, Replies, average

__all__ = ["FedFB"]


@dataclass(frozen=True)
class FedFB:
    """Weigh (group, label) cells by their losses over all clients.

    Parameters
    ----------
    notion : Notion
        Demographic parity, equal opportunity, predictive equality or equalized odds.
    alpha : float
        Step size; 0 is FedAvg. The LoGoFair paper tries 0.005, 0.01, 0.05 and 0.3.

    Examples
    --------
    >>> FedFB(alpha=-1)
    Traceback (most recent call last):
    logofair.errors.InputError: alpha: got -1; pass a number of at least 0.
    """

    name: ClassVar[str] = "fedfb"
    notion: Notion = DEMOGRAPHIC_PARITY
    alpha: float = 0.3
    measure_every: int = 1

    def __post_init__(self) -> None:
        not_negative(self.alpha, "alpha")
        conditions(self.notion)

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """Start from plain training."""
        return {"ratios": equal_ratios(measured.rows.sum(0)), "moves": np.zeros(1)}

    def request(self, state: MethodState) -> StepsRequest:
        """Local steps under the weights reached."""
        return StepsRequest(weights=state["ratios"])

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Average by the weight of the clients' rows."""
        weights = (measured.rows * state["ratios"]).sum((1, 2)) / measured.rows.sum()
        return average(parameters, replies, weights), state

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """Change the weights along the differences of the losses."""
        moves, given = state["moves"], conditions(self.notion)
        step = self.alpha / float(np.sqrt(moves[0] + 1.0)) if given == (None,) else self.alpha
        ratios = updated_ratios(given, state["ratios"], measured.rows.sum(0), measured.loss.sum(0), step)
        return {"ratios": ratios, "moves": moves + 1.0}
