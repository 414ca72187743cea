"""Mutual information between group and decision, as a convex function of the shares that are accepted.

Shares are those of the entries (client, group, label) of a table, in the order of its flattened ``mass``. All values
here are in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import rel_entr

from logofair.bounds.table import LabelTable
from logofair.inputs import Floats
from logofair.segments import Indices

__all__ = ["Information", "across", "inside"]

# A tangent is taken this far from where a group is accepted or rejected entirely: there it would be vertical.
_FROM_THE_EDGE = 1e-12


@dataclass(frozen=True, eq=False)
class Information:
    """I(Z; Yhat) inside populations, in the mean over them: ``sum weight * KL(rate || mean)``.

    ``rates @ shares`` are the selection rates of the groups, ``means @ shares`` those of their populations.
    """

    rates: csr_array
    means: csr_array
    weight: Floats

    def value(self, shares: Floats) -> float:
        """The information, in nats."""
        # Rejected shares are summed on their own: 1 - rate and 1 - mean, both near 0, would round apart.
        (rate, mean), (rejected, of_all) = self._both(shares), self._both(1.0 - shares)
        return max(0.0, float(self.weight @ (rel_entr(rate, mean) + rel_entr(rejected, of_all))))

    def expression(self, cvxpy: Any, shares: Any) -> Any:
        """The same, for cvxpy."""
        rate, mean = self.rates @ shares, self.means @ shares
        return self.weight @ (cvxpy.rel_entr(rate, mean) + cvxpy.rel_entr(1.0 - rate, 1.0 - mean))

    def differences(self) -> csr_array:
        """Rows that are 0 at shares without any information."""
        return csr_array(self.rates - self.means)

    def tangent(self, shares: Floats) -> tuple[Floats, float]:
        """Slope and constant of an affine function of the shares that is nowhere above the information.

        By ``x ln(x/y) >= x w - y (e^w - 1) + ...`` with w the logarithms at the given shares, whose terms in y cancel
        because rates average to their mean.
        """
        rate, mean = self._both(shares)
        rate = rate + _FROM_THE_EDGE * (mean - rate)
        accepted, rejected = _log_ratio(rate, mean), _log_ratio(1.0 - rate, 1.0 - mean)
        slope = self.rates.T @ (self.weight * (accepted - rejected))
        return np.asarray(slope), float(self.weight @ rejected)

    def _both(self, shares: Floats) -> tuple[Floats, Floats]:
        return np.clip(self.rates @ shares, 0.0, 1.0), np.clip(self.means @ shares, 0.0, 1.0)


def across(table: LabelTable) -> Information:
    """Across all clients: I(Z; Yhat)."""
    clients, groups, _ = table.mass.shape
    return _information(table.mass.ravel(), np.tile(np.repeat(np.arange(groups), 2), clients), np.zeros(groups, int))


def inside(table: LabelTable) -> Information:
    """Inside the clients, in the mean over them: I(Z; Yhat | S)."""
    clients, groups, _ = table.mass.shape
    member = np.repeat(np.arange(clients * groups), 2)
    return _information(table.mass.ravel(), member, np.repeat(np.arange(clients), groups))


def _information(mass: Floats, member: Indices, population: Indices) -> Information:
    """Compare the members that have any mass with their population, where there are two or more."""
    weight: Floats = np.bincount(member, mass).astype(np.float64, copy=False)
    total = np.bincount(population, weight)
    present = np.bincount(population, weight > 0)
    compared = np.flatnonzero((weight > 0) & (present[population] > 1))
    home, entry = population[member], np.arange(mass.size)
    share = np.divide(mass, weight[member], out=np.zeros_like(mass), where=mass > 0)
    part = np.divide(mass, total[home], out=np.zeros_like(mass), where=mass > 0)
    rates = csr_array((share, (member, entry)), shape=(weight.size, mass.size))
    means = csr_array((part, (home, entry)), shape=(total.size, mass.size))
    return Information(rates[compared], means[population[compared]], weight[compared])


def _log_ratio(part: Floats, whole: Floats) -> Floats:
    """``ln(part / whole)``, or 0 where nobody is in the whole."""
    ratio = np.divide(part, whole, out=np.ones_like(part), where=whole > 0)
    return np.asarray(np.log(np.where(ratio > 0, ratio, 1.0)))
