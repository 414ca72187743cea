"""How a model does at every client: the clients' counts side by side, and the rates, gaps and losses they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from logofair.auditing.measure import Side, Tally, side_of
from logofair.inputs import Floats, Label
from logofair.notions import Notion
from logofair.training.messages import Counts

__all__ = ["Measured"]


@dataclass(frozen=True, eq=False)
class Measured:
    """The counts of all clients for one model; arrays are (clients, groups, 2).

    Examples
    --------
    Two clients, two groups; the model accepts whoever has label 1, but for one row of the second client:

    >>> rows = np.array([[[2.0, 2.0], [2.0, 2.0]], [[1.0, 1.0], [1.0, 3.0]]])
    >>> accepted = np.array([[[0.0, 2.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 2.0]]])
    >>> model = Measured(("a", "b"), ("F", "M"), rows, accepted, 0.5 * rows)
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
    def together(cls, clients: Sequence[Label], groups: Sequence[Label], counts: Sequence[Counts]) -> Measured:
        """Put the clients' counts side by side."""
        rows, accepted, loss = (np.stack([getattr(c, name) for c in counts]) for name in ("rows", "accepted", "loss"))
        return cls(tuple(clients), tuple(groups), rows, accepted, loss)

    @property
    def tally(self) -> Tally:
        """The counts in the audit's own form."""
        return Tally(self.rows.astype(np.intp), self.rows, self.accepted, labelled=True)

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
        return float(self.tally.pooled().accuracy()[0])

    @property
    def client_loss(self) -> Floats:
        """Mean loss at each client."""
        loss: Floats = self.loss.sum((1, 2)) / self.rows.sum((1, 2))
        return loss

    @property
    def mean_loss(self) -> float:
        """Mean loss over all rows."""
        return float(self.loss.sum() / self.rows.sum())

    def sides(self, notion: Notion) -> tuple[Side, Side]:
        """The rates of a notion and their gaps: at every client, and over all."""
        local = side_of(notion.rates, self.groups, self.clients, self.tally)
        return local, side_of(notion.rates, self.groups, (None,), self.tally.pooled())

    def gaps(self, notion: Notion) -> tuple[float, float]:
        """The largest gap at any client, and over all; NaN where no gap is defined."""
        local, shared = (_largest(side.gaps) for side in self.sides(notion))
        return float(_largest(local[:, None])[0]), float(shared[0])

    def client_gaps(self, notion: Notion) -> Floats:
        """The largest gap of any rate at each client; NaN where none is defined."""
        return _largest(self.sides(notion)[0].gaps)


def _largest(gaps: Floats) -> Floats:
    """The largest gap over the rates, (rates, places) to (places,); NaN where none is defined."""
    return np.where(np.isnan(gaps).all(0), np.nan, np.where(np.isnan(gaps), -np.inf, gaps).max(0))
