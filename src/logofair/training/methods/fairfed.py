r"""FairFed (Ezzeldin et al., AAAI 2023): clients whose local gap is far from the global one count less.

In every round, for the model that was sent,

.. math:: \bar w_k \leftarrow \bar w_k - \beta (\Delta_k - \bar\Delta), \qquad w_k = \bar w_k / \sum_j \bar w_j,

where :math:`\Delta_k` is the distance of the client's signed gap from that over all rows (not the mean of the clients'
gaps), or of its accuracy from the overall accuracy where its gap is undefined. The paper leaves negative weights open:
here :math:`\bar w_k` is not let below 0, and all are scaled to sum 1 again. Equalized odds and more than two groups
are ours: the gap followed is that of the rate and the pair of groups for which it is largest over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from logofair.columns.checks import Floats, not_negative
from logofair.notions import DEMOGRAPHIC_PARITY, Notion
from logofair.training.balance import conditions
from logofair.training.messages import ClientMeasures, StepsRequest, Vector
from logofair.training.methods.method import MethodState, Replies, average

__all__ = ["FairFed", "distances"]


@dataclass(frozen=True)
class FairFed:
    """Average with weights that fall for clients unlike the whole federation.

    Parameters
    ----------
    notion : Notion
        Which rates are compared; the paper has demographic parity and equal opportunity.
    beta : float
        How fast weights change; 0 is FedAvg. The LoGoFair paper tries 0.01, 0.05, 0.5 and 1.
    debias : {"none", "reweighing", "fairbatch"}
        What clients do about fairness in their own training; by default reweighing for selection rates and none for
        conditions on labels, whose gaps reweighing may widen.
    debias_step : float
        Step size of FairBatch; the LoGoFair paper tries 0.005, 0.01 and 0.05.

    Examples
    --------
    >>> from logofair.notions import EQUALIZED_ODDS
    >>> FairFed(beta=1.0).debias, FairFed(EQUALIZED_ODDS).debias
    ('reweighing', 'none')
    """

    name: ClassVar[str] = "fairfed"
    notion: Notion = DEMOGRAPHIC_PARITY
    beta: float = 0.05
    debias: str = ""
    debias_step: float = 0.05

    def __post_init__(self) -> None:
        not_negative(self.beta, "beta")
        if self.debias == "":
            object.__setattr__(self, "debias", "reweighing" if conditions(self.notion) == (None,) else "none")
        self.request({})  # refuses what clients could not do

    @property
    def measure_every(self) -> int:
        """Every round: the weights follow the model that was sent."""
        return 1

    def initial_state(self, measured: ClientMeasures) -> MethodState:
        """Start from the clients' shares of all rows."""
        return {"weights": measured.shares}

    def request(self, state: MethodState) -> StepsRequest:
        """Local steps with the clients' own debiasing."""
        return StepsRequest(debias=self.debias, debias_step=self.debias_step, given=conditions(self.notion))

    def step(
        self, state: MethodState, parameters: Vector, measured: ClientMeasures, replies: Replies
    ) -> tuple[Vector, MethodState]:
        """Change the weights by how far each client was from the whole federation, then average."""
        apart = distances(measured, self.notion)
        changed = state["weights"] - self.beta * (apart - apart.mean())
        weights = np.maximum(changed, 0.0)
        if (changed < 0.0).any():  # else the sum is 1 as it is
            weights = weights / weights.sum()
        return average(parameters, replies, weights), {"weights": weights}

    def learn(self, state: MethodState, measured: ClientMeasures) -> MethodState:
        """Nothing to learn beyond what was measured, which ``step`` gets."""
        return state


def distances(measured: ClientMeasures, notion: Notion) -> Floats:
    """How far each client is from all together: in its signed gap, or in accuracy where that is undefined (Delta_k).

    Examples
    --------
    Group F is accepted 1 of 2 and M 2 of 2 at the first client; both 1 of 2 at the second; overall 2 of 4 and 3 of 4.

    >>> rows = np.ones((2, 2, 2))
    >>> accepted = np.array([[[0.0, 1.0], [1.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    >>> distances(ClientMeasures(("a", "b"), ("F", "M"), rows, accepted, rows), DEMOGRAPHIC_PARITY)
    array([0.25, 0.25])
    """
    local, global_ = measured.sides(notion)
    accuracy = np.abs(measured.client_accuracy - measured.accuracy)
    if np.isnan(global_.gaps).all():
        return accuracy
    rate = int(np.nanargmax(global_.gaps[:, 0]))
    values = global_.values[rate, 0]
    low, *_, high = np.argsort(values, kind="stable")[: np.isfinite(values).sum()]  # two groups even in a tie
    global_gap = values[high] - values[low]
    local_gaps = local.values[rate, :, high] - local.values[rate, :, low]
    return np.where(np.isnan(local_gaps), accuracy, np.abs(local_gaps - global_gap))
