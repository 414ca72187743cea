"""The optimisation problem as arrays: what each cell's (u, v) does to accuracy and to every rate.

Shapes: ``(sites, groups)`` for cells, ``(sites, groups, rates)`` for coefficients. u and v are shares of a cell's
own mass, so every number here is of order 1 whatever the size of a site.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.cells.cells import Cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.costs import Costs
from logofair.notions import Rate
from logofair.requirements import SELECTED, Requirements, tolerance_of
from logofair.solvers.limits import (
    Layout,
    Limits,
    Row,
    empty_ratios,
    layout,
    limit_excess,
    relief,
    rows_of,
    within_others,
    worth,
)

# A rate over fewer than one in 100,000 of a cell's expected members is undefined: it would be noise to anybody, and
# the few would be lost in rounding.
_NOBODY = 1e-5
_ONE = 1.0 - 1e-12  # a rate this large is 1 but for rounding
_ROUNDING = 1e-15  # of the dearest error: what sums leave of a cost of 0


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """Weight of the rows and of the positives of each group over a whole federation, (groups,)."""

    mass: Floats
    positives: Floats


@dataclass(frozen=True)
class Problem:
    """Maximise expected accuracy, or minus the expected cost, over all rules that meet their requirements.

    ``local_tolerance`` is ``(sites, local rates)`` and ``global_tolerance`` ``(global rates,)``; infinity means free.
    Rates are of order 1; ``local_units`` and ``global_units`` say how many of these units one of the user's has (by
    default 1), for violations and prices in the user's. Where the cells are only some sites of a federation,
    ``totals`` has its totals: accuracies and global shares are then these sites' part of it, and add up over sites.
    ``local_limits`` and ``global_limits`` are what is required besides tolerances (None: nothing). ``costs``, (sites,
    2), are those of a wrongly accepted and of a wrongly rejected row in units of ``cost_unit`` (None: accuracy counts,
    which is 1 less a cost of 1 each). ``objective`` replaces the gain where something else is to be maximised. Cells
    ``left_out``, (sites, groups), are compared with no other inside their site; a group of which all are left out
    not over all either.
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
    local_limits: Limits | None = None
    global_limits: Limits | None = None
    costs: Floats | None = None
    cost_unit: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of sites and groups."""
        return self.cells.n_sites, self.cells.n_groups

    @cached_property
    def mass(self) -> Floats:
        """Share of each cell in all rows (p_ac in the paper), (sites, groups)."""
        return np.asarray(self.cells.mass.reshape(self.shape) / self._total)

    @cached_property
    def positives(self) -> Floats:
        """Share of each cell's positives in all rows, (sites, groups)."""
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
        found = float(self.cells.mass.sum() if self.totals is None else self.totals.mass.sum())
        return found or 1.0  # a site whose groups are all too small to be counted has a share of 0 in nothing

    @cached_property
    def site_mass(self) -> Floats:
        """Share of each site in all rows, (sites,)."""
        return np.asarray(self.mass.sum(axis=1))

    @cached_property
    def baseline(self) -> float:
        """Accuracy of rejecting everybody, or minus its cost."""
        if self.costs is None:
            return float(self.mass.sum() - self.positives.sum())
        return -float(self.costs[:, 1] @ self.positives.sum(axis=1))

    def reported(self, value: float) -> float:
        """A value as people read it: the accuracy, or the cost per row in the user's units."""
        if self.costs is None:
            return value
        return 0.0 if abs(value) < _ROUNDING else -value * self.cost_unit

    @property
    def measure(self) -> str:
        """What the objective is: "accuracy" or "cost"."""
        return "accuracy" if self.costs is None else "cost"

    @cached_property
    def row_worth(self) -> tuple[Floats, Floats]:
        """What accepting a row adds, as a line in its chance: constant and slope, (sites, 1)."""
        if self.costs is None:
            return np.full((1, 1), -1.0), np.full((1, 1), 2.0)
        return -self.costs[:, :1], self.costs.sum(axis=1, keepdims=True)

    @cached_property
    def local(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in each cell's local rates; 0 where the rate is undefined or free."""
        everybody = np.broadcast_to(self.site_mass[:, None], self.shape)
        base = [
            everybody if rate == SELECTED else rate.denominator(self.mass, self.positives) for rate in self.local_rates
        ]
        return self._coefficients(self.local_rates, base, self.local_limited)

    @cached_property
    def local_defined(self) -> Booleans:
        """Which cells have which local rate, (sites, groups, local rates)."""
        out = False if self.left_out is None else self.left_out
        mass, positives = np.where(out, 0.0, self.mass), np.where(out, 0.0, self.positives)
        # A site without weight has no share selected either.
        return rates_defined(self.local_rates, mass, positives) & (self.site_mass > 0)[:, None, None]

    @cached_property
    def local_counts(self) -> Booleans:
        """Which cells are compared in which local rate, (sites, groups, local rates)."""
        enough = self.local_defined.sum(axis=1, keepdims=True) > 1
        bound = np.isfinite(self.local_tolerance)
        bound = bound if self.local_limits is None else bound | (self.local_limits.ratio > 0)
        return np.asarray(self.local_defined & enough & bound[:, None, :])

    @cached_property
    def local_limited(self) -> Booleans:
        """Which cells take part in any requirement on which local rate, (sites, groups, local rates)."""
        if self.local_limits is None:
            return self.local_counts
        return np.asarray(self.local_counts | (self.local_defined & self.local_limits.on_groups))

    @cached_property
    def global_(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in each cell's share of its group's global rates."""
        base = [
            np.ones(self.shape)
            if rate == SELECTED
            else np.broadcast_to(rate.denominator(self.group_mass, self.group_positives), self.shape)
            for rate in self.global_rates
        ]
        return self._coefficients(
            self.global_rates, base, np.broadcast_to(self.global_limited, (*self.shape, len(base)))
        )

    @cached_property
    def global_defined(self) -> Booleans:
        """Which groups have which global rate, (groups, global rates)."""
        out = False if self.left_out is None else self.left_out.all(axis=0)
        mass, positives = np.where(out, 0.0, self.group_mass), np.where(out, 0.0, self.group_positives)
        return rates_defined(self.global_rates, mass, positives)

    @cached_property
    def global_counts(self) -> Booleans:
        """Which groups are compared in which global rate, (groups, global rates)."""
        bound = np.isfinite(self.global_tolerance)
        bound = bound if self.global_limits is None else bound | (self.global_limits.ratio[0] > 0)
        return np.asarray(self.global_defined & (self.global_defined.sum(axis=0) > 1) & bound)

    @cached_property
    def global_limited(self) -> Booleans:
        """Which groups take part in any requirement on which global rate, (groups, global rates)."""
        if self.global_limits is None:
            return self.global_counts
        return np.asarray(self.global_counts | (self.global_defined & self.global_limits.on_groups[0]))

    @cached_property
    def compares_selection(self) -> bool:
        """Whether the local constraints are one family of plain selection rates."""
        if len(self.local_rates) != 1 or self.local_rates[0].slope != 0 or self.local_limits is not None:
            return False
        return bool(np.all(np.abs(self.local[0][self.local_counts] - 1.0) < 1e-14))

    @cached_property
    def gain(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in what is maximised, as a share of the site's mass, (sites, groups)."""
        if self.objective is not None:
            return self.objective
        share = self.mass / np.where(self.site_mass > 0, self.site_mass, 1.0)[:, None]
        constant, slope = self.row_worth
        return constant * share, slope * share

    def priced_gain(self, prices: Floats, *, gains: bool = True) -> tuple[Floats, Floats]:
        """The gain less the price of the cells' shares in global rates (F in the paper), per site's mass.

        Not ``gains``: the price alone counts, as long as the requirements are not met.
        """
        u, v = self.gain if gains else (np.zeros(self.shape), np.zeros(self.shape))
        if not self.global_rates:
            return u, v
        weight = np.where(self.site_mass > 0, self.site_mass, 1.0)[:, None]
        gu, gv = self.global_
        price_u, price_v = np.einsum("cak,ak->ca", gu, prices), np.einsum("cak,ak->ca", gv, prices)
        return u - price_u / weight, v - price_v / weight

    def tied(self) -> Problem:
        """The same problem with the rows of a cell in one block where a rate of 0 or 1 leaves no choice about them.

        A floor of 1 under a true positive rate accepts all that have a chance, however small: a price that would tell
        those of 1e-12 from those of 0 is beyond all rounding, and none has to.
        """
        cells, values = self.cells, self.cells.values
        limited = [each for each in (self.local_limits, self.global_limits) if each is not None]
        if cells.hull_of is not None or not any(
            (each.least >= _ONE).any() or (each.most <= 1.0 - _ONE).any() for each in limited
        ):
            return self
        begins = np.ones(values.size, dtype=bool)
        number = np.repeat(np.arange(cells.rows.size), np.diff(cells.starts))
        for rate in dict.fromkeys((*self.local_rates, *self.global_rates)):
            if rate.slope != 0:
                counts = rate.moment(values) > 0.0
                begins &= (
                    ~self._fixed(rate).ravel()[number] | np.append(False, counts[1:] != counts[:-1])[: counts.size]
                )
        return replace(self, cells=cells.joined(begins))

    def _fixed(self, rate: Rate) -> Booleans:
        """The cells, (sites, groups), in which a rate has to be 0, or 1, by limits there, elsewhere or over all."""
        local = self.local_rates, self.local_limits, self.local_tolerance, self.local_counts, self.local_defined
        over_all = self.global_tolerance[None], self.global_counts[None], self.global_defined[None]
        found = np.zeros(self.shape, dtype=bool)
        low, high = np.zeros(self.shape), np.ones(self.shape)
        while True:
            low, high = _narrowed(rate, low, high, *local)
            least, most = _narrowed(
                rate, low.min(axis=0)[None], high.max(axis=0)[None], self.global_rates, self.global_limits, *over_all
            )
            low, high = np.where(least >= _ONE, 1.0, low), np.where(most <= 1.0 - _ONE, 0.0, high)
            before, found = found, (low >= _ONE) | (high <= 1.0 - _ONE)
            if np.array_equal(before, found):
                return found

    def at_prices(self, prices: Floats) -> Problem:
        """The sites' own problems at given prices of the global rates: no global constraint, the priced gain."""
        return replace(
            self,
            global_rates=(),
            global_tolerance=np.zeros(0),
            global_units=np.zeros(0),
            global_limits=None,
            objective=self.priced_gain(prices),
        )

    def of_sites(self, sites: Indices) -> Problem:
        """The same problem for some sites, as if there were no others."""
        limits = None if self.local_limits is None else self.local_limits.of(sites)
        return replace(
            self,
            cells=self.cells.of_sites(sites),
            local_tolerance=self.local_tolerance[sites],
            totals=None,
            objective=None if self.objective is None else (self.objective[0][sites], self.objective[1][sites]),
            left_out=None if self.left_out is None else self.left_out[sites],
            local_limits=limits if limits is not None and limits.anything.any() else None,
            costs=None if self.costs is None else self.costs[sites],
        )

    def locally_priced(self, gain_u: Floats, gain_v: Floats, prices: Floats) -> tuple[Floats, Floats]:
        """A gain less the price of the cells' local rates."""
        lu, lv = self.local
        return gain_u - total_price(prices, lu), gain_v - total_price(prices, lv)

    def accuracy(self, u: Floats, v: Floats) -> float:
        """Expected accuracy of a rule with these u and v, or minus its cost."""
        constant, slope = self.row_worth
        return self.baseline + float(np.sum(self.mass * (slope * v + constant * u)))

    def site_gains(self, u: Floats, v: Floats) -> Floats:
        """What each site's rule adds to the accuracy of rejecting everybody, (sites,)."""
        constant, slope = self.row_worth
        return np.asarray(np.einsum("ca,ca->c", self.mass, slope * v + constant * u))

    def site_shares(self, u: Floats, v: Floats) -> Floats:
        """Each cell's share of its group's global rates, (sites, groups, global rates)."""
        gu, gv = self.global_
        return np.asarray(gu * u[..., None] + gv * v[..., None])

    def global_shares(self, u: Floats, v: Floats) -> Floats:
        """Each group's global rates, (groups, global rates)."""
        gu, gv = self.global_
        return np.asarray(np.einsum("cak,ca->ak", gu, u) + np.einsum("cak,ca->ak", gv, v))

    def local_values(self, u: Floats, v: Floats) -> Floats:
        """Each cell's local rates, (sites, groups, local rates)."""
        lu, lv = self.local
        return np.asarray(lu * u[..., None] + lv * v[..., None])

    def local_gaps(self, u: Floats, v: Floats) -> Floats:
        """Each site's gap in each local rate, (sites, local rates)."""
        return gap_of(self.local_values(u, v), self.local_counts, axis=1)

    def global_gaps(self, u: Floats, v: Floats) -> Floats:
        """The gap in each global rate, (global rates,)."""
        return gap_of(self.global_shares(u, v), self.global_counts, axis=0)

    def local_excess(self, u: Floats, v: Floats) -> Floats:
        """Largest excess over a requirement on each local rate (negative: room left), (sites, local rates)."""
        excess = np.asarray(self.local_gaps(u, v) - self.local_tolerance)
        if self.local_limits is None:
            return excess
        more = limit_excess(self.local_limits, self.local_values(u, v), self.local_counts, self.local_defined)
        return np.asarray(np.maximum(excess, more))

    def global_excess(self, u: Floats, v: Floats) -> Floats:
        """Largest excess over a requirement on each global rate (negative: room left), (global rates,)."""
        return self.excess_of(self.global_shares(u, v))

    def excess_of(self, shares: Floats) -> Floats:
        """The same for given global rates, (groups, global rates)."""
        excess = np.asarray(gap_of(shares, self.global_counts, axis=0) - self.global_tolerance)
        if self.global_limits is None:
            return excess
        more = limit_excess(self.global_limits, shares[None], self.global_counts[None], self.global_defined[None])
        return np.asarray(np.maximum(excess, more[0]))

    @cached_property
    def rejecting(self) -> Booleans:
        """Which sites may reject everybody, (sites,)."""
        nobody = np.zeros(self.shape)
        return np.asarray(np.max(self.local_excess(nobody, nobody), axis=1, initial=0.0) <= 0.0)

    def violation(self, u: Floats, v: Floats) -> float:
        """Largest excess over any requirement (0: none)."""
        local, global_ = self.local_excess(u, v) / self.local_units, self.global_excess(u, v) / self.global_units
        return max(0.0, float(np.max(local, initial=0.0)), float(np.max(global_, initial=0.0)))

    def empty_ratios(self, u: Floats, v: Floats) -> int:
        """How many ratios say nothing, since nobody is selected there."""
        inside = (self.local_limits, self.local_values(u, v), self.local_counts)
        over_all = (self.global_limits, self.global_shares(u, v)[None], self.global_counts[None])
        return sum(empty_ratios(each[0], *each[1:]) for each in (inside, over_all) if each[0] is not None)

    @cached_property
    def local_layout(self) -> Layout:
        """The local requirements as rows of the sites' programs."""
        return layout(self.local_tolerance, self.local_counts, self.local_defined, self.local_limits)

    @cached_property
    def global_layout(self) -> Layout:
        """The global requirements as rows of one program."""
        tolerance, counts, defined = self.global_tolerance[None], self.global_counts[None], self.global_defined[None]
        return layout(tolerance, counts, defined, self.global_limits)

    def local_rows(self) -> Iterator[Row]:
        """The local requirements as rows of a linear program."""
        return rows_of(self.local_tolerance, self.local_counts, self.local_defined, self.local_limits)

    def global_rows(self) -> Iterator[Row]:
        """The global requirements as rows of a linear program."""
        tolerance, counts, defined = self.global_tolerance[None], self.global_counts[None], self.global_defined[None]
        return rows_of(tolerance, counts, defined, self.global_limits)

    def repaired_local(self, prices: Floats) -> Floats:
        """Local prices as they prove a bound, whatever rounding did to them."""
        return repaired(prices, self.local_counts, self.local_limits)

    def repaired_global(self, prices: Floats) -> Floats:
        """Global prices as they prove a bound, whatever rounding did to them."""
        return np.asarray(repaired(prices[None], self.global_counts[None], self.global_limits)[0])

    def kind(self, side: str, rate: int) -> str:
        """What is required of a rate on a side (:meth:`Limits.kind`)."""
        limits = self.local_limits if side == "local" else self.global_limits
        return "tolerance" if limits is None else limits.kind(rate)

    def local_relief(self, prices: Floats) -> Floats:
        """What a unit less of each local requirement would win at most, per site's mass, (sites, rates)."""
        return relief(prices, self.local_tolerance, self.local_counts, self.local_limits)

    def global_relief(self, prices: Floats) -> Floats:
        """What a unit less of each global requirement would win at most, (rates,)."""
        counts, tolerance = self.global_counts[None], self.global_tolerance[None]
        return np.asarray(relief(prices[None], tolerance, counts, self.global_limits)[0])

    def local_worth(self, prices: Floats) -> Floats:
        """What the local requirements are worth at prices of the local rates, (sites,)."""
        return worth(prices, self.local_tolerance, self.local_counts, self.local_limits)

    def global_worth(self, prices: Floats) -> Floats:
        """What the global requirements are worth at prices of the global rates: (t, groups, rates) to (t,)."""
        return worth(prices, self.global_tolerance[None], self.global_counts[None], self.global_limits)

    def _coefficients(self, rates: tuple[Rate, ...], bases: list[Floats], counts: Booleans) -> tuple[Floats, Floats]:
        """Coefficients of u and v in rates with the given denominators."""
        u, v = np.zeros((*self.shape, len(rates))), np.zeros((*self.shape, len(rates)))
        for k, (rate, base) in enumerate(zip(rates, bases, strict=True)):
            scale = np.divide(self.mass, base, out=np.zeros(self.shape), where=counts[..., k])
            u[..., k], v[..., k] = rate.constant * scale, rate.slope * scale
        return u, v


def _narrowed(
    rate: Rate,
    low: Floats,
    high: Floats,
    rates: tuple[Rate, ...],
    limits: Limits | None,
    tolerance: Floats,
    compared: Booleans,
    defined: Booleans,
) -> tuple[Floats, Floats]:
    """The least and the most that a side's requirements leave a rate where it lies between two ends, (n, groups)."""
    own, given = [k for k, each in enumerate(rates) if each == rate], limits or Limits.none(*defined.shape)
    for k in own:
        low = np.where(defined[..., k], np.maximum(low, given.least[..., k]), low)
        high = np.where(defined[..., k], np.minimum(high, given.most[..., k]), high)
    for k in own:
        low, high = within_others(low, high, compared[..., k], tolerance[:, k], given.ratio[:, k])
    return low, high


def make_problem(requirements: Requirements, cells: Cells, totals: GroupTotals | None = None) -> Problem:
    """The optimisation problem on given cells; global requirements that are free are left out.

    So are local ones that are free at all of these sites. ``totals``: those of the federation, where the cells are
    only some of its sites.
    """
    local, tolerance, ratio = _compared_local(requirements)
    global_ = [r for r in requirements.global_ if r.tolerance is not None or r.ratio is not None]
    of_local, of_global = (limited_rates(requirements, side) for side in ("local", "global"))
    local_rates = [rate.normalised() for rate in (*local, *of_local)]
    global_rates = [rate.normalised() for rate in (*(r.rate for r in global_), *of_global)]
    free, sites, costs = np.full((cells.n_sites, len(of_local)), np.inf), cells.n_sites, requirements.costs
    local_units, global_units = (np.array([unit for _, unit in rates]) for rates in (local_rates, global_rates))
    problem = Problem(
        cells=cells,
        local_rates=tuple(rate for rate, _ in local_rates),
        global_rates=tuple(rate for rate, _ in global_rates),
        local_tolerance=np.concatenate([tolerance, free], axis=1) * local_units,
        global_tolerance=np.array([*map(tolerance_of, global_), *(np.inf for _ in of_global)]) * global_units,
        local_units=local_units,
        global_units=global_units,
        totals=totals,
        costs=None if costs is None else cost_pairs(costs, costs.largest, sites),
        cost_unit=1.0 if costs is None else costs.largest,
    )
    if not (of_local or of_global or ratio.any() or any(r.ratio for r in global_)):
        return problem
    ratios = np.concatenate([ratio, np.zeros((sites, len(of_local)))], axis=1)
    global_ratios = np.array([[*(r.ratio or 0.0 for r in global_), *(0.0 for _ in of_global)]])
    return _with_limits(problem, requirements, (ratios, global_ratios))


def cost_pairs(costs: Costs, unit: float, sites: int) -> Floats:
    """What a wrongly accepted and a wrongly rejected row cost at every site, in this unit, (sites, 2)."""
    pairs = np.column_stack([costs.wrongly_accepted, costs.wrongly_rejected]) / unit
    return np.broadcast_to(pairs, (sites, 2))


def _compared_local(requirements: Requirements) -> tuple[list[Rate], Floats, Floats]:
    """The rates compared inside some site, and their tolerances and ratios there, (sites, rates)."""
    tolerances = requirements.tolerances
    ratios = np.zeros_like(tolerances) if requirements.ratios is None else requirements.ratios
    some = np.flatnonzero(np.isfinite(tolerances).any(axis=0) | (ratios > 0).any(axis=0)).tolist()
    return [requirements.local[k].rate for k in some], tolerances[:, some], ratios[:, some]


def limited_rates(requirements: Requirements, side: str) -> list[Rate]:
    """The rates that have floors or ceilings on a side, and the share selected where there is a capacity."""
    limited = dict.fromkeys(limit.rate for limit in requirements.limits if limit.side == side)
    return [*limited, *([SELECTED] if any(each.side == side for each in requirements.capacities) else [])]


def _with_limits(problem: Problem, requirements: Requirements, ratios: tuple[Floats, Floats]) -> Problem:
    """The problem with ratios, floors, ceilings and capacities; those of "today" come from the rule that gains most."""
    sides = (problem.local_defined.shape, (1, *problem.global_defined.shape))
    rates = (problem.local_rates, problem.global_rates)

    def limited(local: Floats, global_: Floats) -> Problem:
        local_limits, global_limits = (
            fill_limits(requirements, side, replace(Limits.none(*shape), ratio=ratio), own, today)
            for side, shape, ratio, own, today in zip(
                ("local", "global"), sides, ratios, rates, (local, global_), strict=True
            )
        )
        nobody = problem.site_mass == 0  # of whom no share is selected, whatever is to be
        local_limits.total_least[nobody], local_limits.total_most[nobody] = -np.inf, np.inf
        for own, defined in ((local_limits, problem.local_defined), (global_limits, problem.global_defined[None])):
            own.least[~defined], own.most[~defined] = -np.inf, np.inf  # likewise a rate of which there are no rows
        return replace(problem, local_limits=local_limits, global_limits=global_limits)

    made = limited(*(np.zeros(shape) for shape in sides))
    if all(limit.value is not None for limit in requirements.limits):
        return made
    u, v = unconstrained(problem.cells, problem.row_worth)
    return limited(made.local_values(u, v), made.global_shares(u, v)[None])


def unconstrained(cells: Cells, row_worth: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The (u, v) that gain most where nothing is required, (sites, groups); what a row is worth as in a problem.

    How many rows others have plays no part in it, not even in its rounding.
    """
    shape = (cells.n_sites, cells.n_groups)
    constant, slope = (np.broadcast_to(each, shape).ravel() for each in row_worth)
    _, u, v = cells.best_corner(np.arange(constant.size), slope, constant)
    return u.reshape(shape), v.reshape(shape)


def fill_limits(
    requirements: Requirements,
    side: str,
    limits: Limits,
    rates: tuple[Rate, ...],
    today: Floats,
) -> Limits:
    """Write one side's floors, ceilings and capacities into its limits; the strictest of several holds."""
    place = {rate: k for k, rate in enumerate(rates)}  # the last of equal rates: the one that is not compared
    for limit in requirements.limits:
        if limit.side == side:
            k, own = place[limit.rate], slice(None) if limit.group is None else requirements.groups.index(limit.group)
            value = np.clip(today[:, own, k], 0.0, 1.0) if limit.value is None else limit.value
            ends, stricter = (limits.least, np.maximum) if limit.kind == "floor" else (limits.most, np.minimum)
            ends[:, own, k] = stricter(ends[:, own, k], value)
    for capacity in requirements.capacities:
        if capacity.side == side:
            k = place[SELECTED]
            limits.total_most[:, k] = np.minimum(limits.total_most[:, k], capacity.most)
            if capacity.least > 0:
                limits.total_least[:, k] = np.maximum(limits.total_least[:, k], capacity.least)
    return limits


def rates_defined(rates: tuple[Rate, ...], mass: Floats, positives: Floats) -> Booleans:
    """Where enough members count in a rate for it to mean something."""
    if not rates:
        return np.zeros((*mass.shape, 0), dtype=bool)
    everybody = np.ones(mass.shape, dtype=bool)
    return np.stack(
        [everybody if rate == SELECTED else rate.denominator(mass, positives) > _NOBODY * mass for rate in rates], -1
    )


def total_price(prices: Floats, rates: Floats) -> Floats:
    """What rates cost together, by cell; both (sites, groups, rates)."""
    return np.asarray(np.einsum("cak,cak->ca", prices, rates))  # a sum over a short axis would be slow


def zero_sum(prices: Floats, counts: Booleans, axis: int) -> Floats:
    """Prices that prove a bound: 0 where a group does not count, summing to 0 over the others along an axis."""
    members = np.maximum(counts.sum(axis=axis, keepdims=True), 1)
    mean = np.sum(np.where(counts, prices, 0.0), axis=axis, keepdims=True) / members
    return np.where(counts, prices - mean, 0.0)


def repaired(prices: Floats, counts: Booleans, limits: Limits | None) -> Floats:
    """Prices that prove a bound, (n, groups, rates): where tolerances alone are required they sum to 0."""
    balanced = zero_sum(prices, counts, 1)
    return balanced if limits is None else np.where(limits.anything[:, None, :], prices, balanced)


def gap_of(rates: Floats, counts: Booleans, axis: int) -> Floats:
    """Largest less smallest rate along an axis, over those that count; 0 where fewer than two do."""
    lowest, highest = range_of(rates, counts, axis)
    return np.where(highest > lowest, highest - lowest, 0.0)


def range_of(rates: Floats, counts: Booleans, axis: int) -> tuple[Floats, Floats]:
    """Smallest and largest rate along an axis, over those that count; infinite and the wrong way round where none does.

    One rate after the other: reductions over a short axis are slow.
    """
    each, counted = np.moveaxis(rates, axis, 0), np.moveaxis(np.broadcast_to(counts, rates.shape), axis, 0)
    lowest, highest = np.full(each.shape[1:], np.inf), np.full(each.shape[1:], -np.inf)
    for rate, some in zip(each, counted, strict=True):
        lowest = np.where(some, np.minimum(lowest, rate), lowest)
        highest = np.where(some, np.maximum(highest, rate), highest)
    return lowest, highest


def tolerances_worth(prices: Floats, tolerance: Floats) -> Floats:
    """What the tolerances are worth at prices of the rates, (...,); both (..., groups, rates), infinity: free.

    A unit of tolerance is worth half the sum of its groups' prices by size, since these sum to 0.
    """
    finite = np.where(np.isfinite(tolerance), tolerance, 0.0)
    *many, groups, rates = prices.shape
    worth = (finite * np.abs(prices)).reshape(*many, groups * rates)
    return np.asarray(0.5 * worth.sum(axis=-1))
