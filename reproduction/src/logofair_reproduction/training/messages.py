"""What a training round sends: requests, the replies that are all that leaves a client, and the counts side by side.

No row and no single score leaves a client; but parameters and gradients of few rows can reveal much about these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import Tally
from logofair.auditing.result import Side
from logofair.columns.checks import Floats, Label
from logofair.datasets.table import chosen
from logofair.notions import Notion
from logofair.records import Family
from logofair_reproduction.checks import not_negative

Vector: TypeAlias = npt.NDArray[np.floating[Any]]  # all parameters of a network, one after another
# What the rates of a notion are conditioned on: None (all rows), label 1 or label 0.
Given: TypeAlias = tuple[int | None, ...]

DEBIASING = ("none", "reweighing", "fairbatch")


class Request(Family):
    """What is requested of a client in a round."""

    given: Given  # what the rates compared are conditioned on


@dataclass(frozen=True, eq=False)
class LocalStepsRequest(Request):
    """A request to take local steps from the broadcast model.

    ``weights`` (groups, 2) says how much a row of each (group, label) counts, ``debias`` what the client does for
    fairness by itself on top of that; ``debias_step`` is the step size of FairBatch's weights, which change after every
    local epoch, and ``given`` what the rates compared are conditioned on.
    """

    weights: Floats | None = None
    debias: str = "none"
    debias_step: float = 0.01
    given: Given = (None,)

    def __post_init__(self) -> None:
        chosen(self.debias, DEBIASING, "debias")
        not_negative(self.debias_step, "debias_step")


@dataclass(frozen=True, eq=False)
class GradientsRequest(Request):
    """A request for the loss and the gaps of a mini-batch, and their gradients; ``given`` says which gaps."""

    given: Given
    batch_size: int


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """A client's rows of every (group, label), those accepted, and the sum of their losses; each (groups, 2)."""

    rows: Floats
    accepted: Floats
    loss: Floats


@dataclass(frozen=True, eq=False)
class TrainedParameters:
    """A client's parameters after its local steps."""

    parameters: Vector


@dataclass(frozen=True, eq=False)
class Gradients:
    """Loss, then gaps, of a mini-batch in ``values``, and the gradient of each in the rows of ``gradients``.

    A gap is NaN, with gradient 0, where the batch lacks a group.
    """

    values: Floats
    gradients: Vector


Reply: TypeAlias = TrainedParameters | Gradients


@dataclass(frozen=True, eq=False)
class ClientMeasures:
    """The counts of all clients for one model; arrays are (clients, groups, 2).

    Examples
    --------
    Two clients, two groups; the model accepts whoever has label 1, but for one row of the second client:

    >>> rows = np.array([[[2.0, 2.0], [2.0, 2.0]], [[1.0, 1.0], [1.0, 3.0]]])
    >>> accepted = np.array([[[0.0, 2.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 2.0]]])
    >>> model = ClientMeasures(("a", "b"), ("F", "M"), rows, accepted, 0.5 * rows)
    >>> model.accuracy, model.client_accuracy.round(3), model.mean_loss
    (0.9285714285714286, array([1.   , 0.833]), 0.5)
    >>> from logofair.notions import EQUAL_OPPORTUNITY
    >>> model.gaps(EQUAL_OPPORTUNITY)  # worst client, and all together
    (0.33333333333333337, 0.19999999999999996)
    """

    clients: tuple[Label, ...]
    groups: tuple[Label, ...]
    rows: Floats
    accepted: Floats
    loss: Floats

    @classmethod
    def together(
        cls, clients: Sequence[Label], groups: Sequence[Label], counts: Sequence[LabelCounts]
    ) -> ClientMeasures:
        """Put the clients' counts side by side."""
        rows, accepted, loss = (np.stack([getattr(c, name) for c in counts]) for name in ("rows", "accepted", "loss"))
        return cls(tuple(clients), tuple(groups), rows, accepted, loss)

    @property
    def tally(self) -> Tally:
        """The counts in the audit's own form."""
        return Tally.counted(self.rows.astype(np.intp), self.rows, self.accepted)

    @property
    def shares(self) -> Floats:
        """The share of all rows that each client has (n_c / n)."""
        shares: Floats = self.rows.sum((1, 2)) / self.rows.sum()
        return shares

    @property
    def client_accuracy(self) -> Floats:
        """Share of right decisions at each client."""
        return self.tally.accuracy()

    @property
    def accuracy(self) -> float:
        """Share of right decisions over all clients."""
        return float(self.tally.merged().accuracy()[0])

    @property
    def mean_loss(self) -> float:
        """Mean loss over all rows."""
        return float(self.loss.sum() / self.rows.sum())

    def sides(self, notion: Notion) -> tuple[Side, Side]:
        """The rates of a notion and their gaps: at every client, and over all."""
        local = Side.of(notion.rates, self.groups, self.clients, self.tally)
        return local, Side.of(notion.rates, self.groups, (None,), self.tally.merged())

    def gaps(self, notion: Notion) -> tuple[float, float]:
        """The largest gap at any client, and over all; NaN where no gap is defined."""
        local, global_ = (side.gaps[np.isfinite(side.gaps)] for side in self.sides(notion))
        return float(local.max()) if local.size else np.nan, float(global_.max()) if global_.size else np.nan
