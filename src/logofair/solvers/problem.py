"""The optimisation problem as arrays: what each cell's (u, v) does to accuracy and to every rate.

Shapes: ``(clients, groups)`` for cells, ``(clients, groups, rates)`` for coefficients. u and v are shares of a cell's
own mass, so every number here is of order 1 whatever the size of a client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.cells.cells import Cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.notions import Rate
from logofair.requirements import Requirements, tolerance_of

# A rate over fewer than one in 100,000 of a cell's expected members is undefined: it would be noise to anybody, and
# the few would be lost in rounding.
_NOBODY = 1e-5


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """Weight of the rows and of the positives of each group over a whole federation, (groups,)."""

    mass: Floats
    positives: Floats


@dataclass(frozen=True)
class Problem:
    """Maximise expected accuracy over all rules whose gaps stay within their tolerances.

    ``local_tolerance`` is ``(clients, local rates)`` and ``global_tolerance`` ``(global rates,)``; infinity means free.
    Rates are of order 1; ``local_units`` and ``global_units`` say how many of these units one of the user's has (by
    default 1), for violations and prices in the user's. Where the cells are only some clients of a federation,
    ``totals`` has its totals: accuracies and global shares are then these clients' part of it, and add up over clients.
    ``objective`` replaces the gain in accuracy where something else is to be maximised. Cells ``left_out``, (clients,
    groups), are compared with no other inside their client; a group of which all are left out not over all either.
    """

    cells: Cells
    local_rates: tuple[Rate, ...]
    global_rates: tuple[Rate, ...]
    local_tolerance: Floats
    global_tolerance: Floats
    local_units: Floats | float = 1.0
    global_units: Floats | float = 1.0
    totals: GroupTotals | None = None
    objective: tuple[Floats, Floats] | None = None
    left_out: Booleans | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of clients and groups."""
        return self.cells.n_clients, self.cells.n_groups

    @cached_property
    def mass(self) -> Floats:
        """Share of each cell in all rows (p_ac in the paper), (clients, groups)."""
        return np.asarray(self.cells.mass.reshape(self.shape) / self._total)

    @cached_property
    def positives(self) -> Floats:
        """Share of each cell's positives in all rows, (clients, groups)."""
        return np.asarray(self.cells.positives.reshape(self.shape) / self._total)

    @cached_property
    def group_mass(self) -> Floats:
        """Share of each group in all rows (p_a in the paper), (groups,)."""
        return np.asarray(self.mass.sum(axis=0) if self.totals is None else self.totals.mass / self._total)

    @cached_property
    def group_positives(self) -> Floats:
        """Share of each group's positives in all rows, (groups,)."""
        return np.asarray(self.positives.sum(axis=0) if self.totals is None else self.totals.positives / self._total)

    @cached_property
    def _total(self) -> float:
        return float(self.cells.mass.sum() if self.totals is None else self.totals.mass.sum())

    @cached_property
    def client_mass(self) -> Floats:
        """Share of each client in all rows, (clients,)."""
        return np.asarray(self.mass.sum(axis=1))

    @cached_property
    def baseline(self) -> float:
        """Accuracy of rejecting everybody."""
        return float(self.mass.sum() - self.positives.sum())

    @cached_property
    def local(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in each cell's local rates; 0 where the rate is undefined or free."""
        base = [rate.denominator(self.mass, self.positives) for rate in self.local_rates]
        return self._coefficients(self.local_rates, base, self.local_counts)

    @cached_property
    def local_counts(self) -> Booleans:
        """Which cells take part in which local constraint, (clients, groups, local rates)."""
        out = False if self.left_out is None else self.left_out
        defined = _defined(self.local_rates, np.where(out, 0.0, self.mass), np.where(out, 0.0, self.positives))
        enough = defined.sum(axis=1, keepdims=True) > 1
        return np.asarray(defined & enough & np.isfinite(self.local_tolerance)[:, None, :])

    @cached_property
    def global_(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in each cell's share of its group's global rates."""
        base = [
            np.broadcast_to(rate.denominator(self.group_mass, self.group_positives), self.shape)
            for rate in self.global_rates
        ]
        return self._coefficients(
            self.global_rates, base, np.broadcast_to(self.global_counts, (*self.shape, len(base)))
        )

    @cached_property
    def global_counts(self) -> Booleans:
        """Which groups take part in which global constraint, (groups, global rates)."""
        out = False if self.left_out is None else self.left_out.all(axis=0)
        mass, positives = np.where(out, 0.0, self.group_mass), np.where(out, 0.0, self.group_positives)
        return groups_compared(self.global_rates, mass, positives, self.global_tolerance)

    @cached_property
    def compares_selection(self) -> bool:
        """Whether the local constraints are one family of plain selection rates."""
        if len(self.local_rates) != 1 or self.local_rates[0].slope != 0:
            return False
        return bool(np.all(np.abs(self.local[0][self.local_counts] - 1.0) < 1e-14))

    @cached_property
    def gain(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in accuracy, as a share of the client's mass, (clients, groups)."""
        if self.objective is not None:
            return self.objective
        share = self.mass / np.where(self.client_mass > 0, self.client_mass, 1.0)[:, None]
        return -share, 2.0 * share

    def priced_gain(self, prices: Floats) -> tuple[Floats, Floats]:
        """The gain less the price of the cells' shares in global rates (F in the paper), per client's mass."""
        u, v = self.gain
        if not self.global_rates:
            return u, v
        weight = np.where(self.client_mass > 0, self.client_mass, 1.0)[:, None]
        gu, gv = self.global_
        price_u, price_v = np.einsum("cak,ak->ca", gu, prices), np.einsum("cak,ak->ca", gv, prices)
        return u - price_u / weight, v - price_v / weight

    def at_prices(self, prices: Floats) -> Problem:
        """The clients' own problems at given prices of the global rates: no global constraint, the priced gain."""
        return replace(
            self,
            global_rates=(),
            global_tolerance=np.zeros(0),
            global_units=np.zeros(0),
            objective=self.priced_gain(prices),
        )

    def locally_priced(self, gain_u: Floats, gain_v: Floats, prices: Floats) -> tuple[Floats, Floats]:
        """A gain less the price of the cells' local rates."""
        lu, lv = self.local
        return gain_u - np.sum(prices * lu, axis=2), gain_v - np.sum(prices * lv, axis=2)

    def accuracy(self, u: Floats, v: Floats) -> float:
        """Expected accuracy of a rule with these u and v."""
        return self.baseline + float(np.sum(self.mass * (2.0 * v - u)))

    def client_gains(self, u: Floats, v: Floats) -> Floats:
        """What each client's rule adds to the accuracy of rejecting everybody, (clients,)."""
        return np.asarray(np.sum(self.mass * (2.0 * v - u), axis=1))

    def client_shares(self, u: Floats, v: Floats) -> Floats:
        """Each cell's share of its group's global rates, (clients, groups, global rates)."""
        gu, gv = self.global_
        return np.asarray(gu * u[..., None] + gv * v[..., None])

    def global_shares(self, u: Floats, v: Floats) -> Floats:
        """Each group's global rates, (groups, global rates)."""
        gu, gv = self.global_
        return np.asarray(np.einsum("cak,ca->ak", gu, u) + np.einsum("cak,ca->ak", gv, v))

    def local_values(self, u: Floats, v: Floats) -> Floats:
        """Each cell's local rates, (clients, groups, local rates)."""
        lu, lv = self.local
        return np.asarray(lu * u[..., None] + lv * v[..., None])

    def local_gaps(self, u: Floats, v: Floats) -> Floats:
        """Each client's gap in each local rate, (clients, local rates)."""
        return gap_of(self.local_values(u, v), self.local_counts, axis=1)

    def global_gaps(self, u: Floats, v: Floats) -> Floats:
        """The gap in each global rate, (global rates,)."""
        return gap_of(self.global_shares(u, v), self.global_counts, axis=0)

    def local_excess(self, u: Floats, v: Floats) -> Floats:
        """Excess of each local gap over its tolerance (negative: room left), (clients, local rates)."""
        return np.asarray(self.local_gaps(u, v) - self.local_tolerance)

    def violation(self, u: Floats, v: Floats) -> float:
        """Largest excess of any gap over its tolerance (0: none)."""
        local = self.local_excess(u, v) / self.local_units
        global_ = (self.global_gaps(u, v) - self.global_tolerance) / self.global_units
        return max(0.0, float(np.max(local, initial=0.0)), float(np.max(global_, initial=0.0)))

    def _coefficients(self, rates: tuple[Rate, ...], bases: list[Floats], counts: Booleans) -> tuple[Floats, Floats]:
        """Coefficients of u and v in rates with the given denominators."""
        u, v = np.zeros((*self.shape, len(rates))), np.zeros((*self.shape, len(rates)))
        for k, (rate, base) in enumerate(zip(rates, bases, strict=True)):
            scale = np.divide(self.mass, base, out=np.zeros(self.shape), where=counts[..., k])
            u[..., k], v[..., k] = rate.constant * scale, rate.slope * scale
        return u, v


def make_problem(requirements: Requirements, cells: Cells, totals: GroupTotals | None = None) -> Problem:
    """The optimisation problem on given cells; global requirements that are free are left out.

    So are local ones that are free at all of these clients. ``totals``: those of the federation, where the cells are
    only some of its clients.
    """
    constrained = [k for k in range(len(requirements.local)) if np.isfinite(requirements.tolerances[:, k]).any()]
    global_ = [r for r in requirements.global_ if r.tolerance is not None]
    local_rates = [requirements.local[k].rate.normalised() for k in constrained]
    global_rates = [r.rate.normalised() for r in global_]
    return Problem(
        cells=cells,
        local_rates=tuple(rate for rate, _ in local_rates),
        global_rates=tuple(rate for rate, _ in global_rates),
        local_tolerance=requirements.tolerances[:, constrained] * np.array([unit for _, unit in local_rates]),
        global_tolerance=np.array([tolerance_of(r) * unit for r, (_, unit) in zip(global_, global_rates, strict=True)]),
        local_units=np.array([unit for _, unit in local_rates]),
        global_units=np.array([unit for _, unit in global_rates]),
        totals=totals,
    )


def groups_compared(rates: tuple[Rate, ...], mass: Floats, positives: Floats, tolerance: Floats) -> Booleans:
    """Which groups take part in which global constraint, (groups, rates), from the groups' mass and positives."""
    defined = _defined(rates, mass, positives)
    return np.asarray(defined & (defined.sum(axis=0) > 1) & np.isfinite(tolerance))


def _defined(rates: tuple[Rate, ...], mass: Floats, positives: Floats) -> Booleans:
    """Where enough members count in a rate for it to mean something."""
    empty = np.zeros((*mass.shape, 0), dtype=bool)
    return np.stack([rate.denominator(mass, positives) > _NOBODY * mass for rate in rates], -1) if rates else empty


def zero_sum(prices: Floats, counts: Booleans, axis: int) -> Floats:
    """Prices that prove a bound: 0 where a group does not count, summing to 0 over the others along an axis."""
    members = np.maximum(counts.sum(axis=axis, keepdims=True), 1)
    mean = np.sum(np.where(counts, prices, 0.0), axis=axis, keepdims=True) / members
    return np.where(counts, prices - mean, 0.0)


def gap_of(rates: Floats, counts: Booleans, axis: int) -> Floats:
    """Largest less smallest rate along an axis, over those that count; 0 where fewer than two do."""
    highest = np.max(np.where(counts, rates, -np.inf), axis=axis, initial=-np.inf)
    lowest = np.min(np.where(counts, rates, np.inf), axis=axis, initial=np.inf)
    return np.where(highest > lowest, highest - lowest, 0.0)


def tolerances_worth(prices: Floats, tolerance: Floats) -> Floats:
    """What the tolerances are worth at prices of the rates, (...,); both (..., groups, rates), infinity: free.

    A unit of tolerance is worth half the sum of its groups' prices by size, since these sum to 0.
    """
    finite = np.where(np.isfinite(tolerance), tolerance, 0.0)
    *many, groups, rates = prices.shape
    worth = (finite * np.abs(prices)).reshape(*many, groups * rates)
    return np.asarray(0.5 * worth.sum(axis=-1))
