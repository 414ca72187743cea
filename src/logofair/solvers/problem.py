"""The linear program over rules as arrays: what each cell's (u, v) does to accuracy and to every rate.

Shapes: ``(sites, groups)`` for cells, ``(sites, groups, rates)`` for coefficients. u and v
(:mod:`logofair.columns.cells`) are shares of a cell's own mass, so every number here is of order 1 whatever
the size of a site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.columns.cells import Cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.costs import Costs
from logofair.errors import InputError
from logofair.notions import Rate
from logofair.requirement import Requirement
from logofair.requirements import Combination, Holding, Requirements
from logofair.solvers.limits import Limits, Regions, gap_of, given_to_cells, range_of, summed_cells

# A rate that counts less than this share of a cell's mass is undefined: it would be noise, and lost in rounding.
LEAST_COUNTED = 1e-5
_ONE = 1.0 - 1e-12  # a rate this large is 1 but for rounding
_ROUNDING = 1e-15  # as a share of the dearest error: sums that should be a cost of 0 leave this much


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """Weight of the rows and of the positives of each group over a whole federation, (groups,)."""

    mass: Floats
    positives: Floats


@dataclass(frozen=True)
class Problem:
    """Maximise expected accuracy, or minus the expected cost, over all rules that meet the requirements.

    ``local_limits`` and ``global_limits`` say in numbers what is required of the rates, at every site and, as of one
    place, over all of them. ``local_holding`` and ``global_holding`` name the requirements behind the limits of each
    rate, with the numbers that "today" stands for. ``local_parted`` and ``global_parted`` say to which group of each
    rate every cell belongs, (groups, rates), where groups are unions of cells; None: every cell of a site is a group.

    Rates are scaled to order 1; violations and prices are told in the user's units. ``costs``, (sites, 2), are those of
    a wrongly accepted and of a wrongly rejected row in units of ``cost_unit``; None: accuracy counts, which is 1 less a
    cost of 1 each. ``objective`` replaces the gain where something else is maximised.

    Where the cells are only some sites of a federation, ``totals`` has its totals: accuracies and global shares are
    then these sites' part of it, and add up over sites.
    """

    cells: Cells
    local_rates: tuple[Rate | Combination, ...]
    global_rates: tuple[Rate | Combination, ...]
    local_limits: Limits
    global_limits: Limits
    totals: GroupTotals | None = None
    objective: tuple[Floats, Floats] | None = None
    costs: Floats | None = None
    cost_unit: float = 1.0
    local_holding: tuple[tuple[Holding, ...], ...] = ()
    global_holding: tuple[tuple[Holding, ...], ...] = ()
    local_parted: Indices | None = None
    global_parted: Indices | None = None

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
        """A value of the objective in the user's units: the accuracy, or the cost per row."""
        if self.costs is None:
            return value
        return 0.0 if abs(value) < _ROUNDING else -value * self.cost_unit

    @property
    def measure(self) -> str:
        """What the objective is: "accuracy" or "cost"."""
        return "accuracy" if self.costs is None else "cost"

    @cached_property
    def row_gain(self) -> tuple[Floats, Floats]:
        """What accepting a row adds to the objective, linear in its chance eta: constant and slope, (sites, 1)."""
        if self.costs is None:
            return np.full((1, 1), -1.0), np.full((1, 1), 2.0)
        return -self.costs[:, :1], self.costs.sum(axis=1, keepdims=True)

    @cached_property
    def inside(self) -> Regions:
        """The limits inside sites, and which rates and groups they hold for."""
        defined = rates_defined(self.local_rates, self.mass, self.positives, self.local_parted)
        # A site without weight has no share selected either.
        return Regions(self.local_limits, defined & (self.site_mass > 0)[:, None, None], self.local_parted)

    @cached_property
    def over_all(self) -> Regions:
        """The limits over all sites, as of one place, and which rates and groups they hold for."""
        defined = rates_defined(self.global_rates, self.group_mass, self.group_positives, self.global_parted)
        return Regions(self.global_limits, defined[None], self.global_parted)

    @cached_property
    def units(self) -> Floats:
        """The user's units in the scales of the rates, that of shares (1) first."""
        return np.concatenate([[1.0], self.local_limits.unit.ravel(), self.global_limits.unit.ravel()])

    @cached_property
    def local(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in each cell's local rates; 0 where the rate is undefined or not limited."""
        return self._coefficients(self.local_rates, self.mass, self.positives, self.inside)

    @cached_property
    def global_(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in each cell's share of its group's global rates."""
        return self._coefficients(self.global_rates, self.group_mass, self.group_positives, self.over_all)

    @cached_property
    def compares_selection(self) -> bool:
        """Whether tolerances on the gaps of the selection rate are all that is required inside sites."""
        if len(self.local_rates) != 1 or not self.local_limits.only_tolerances or self.local_parted is not None:
            return False
        (rate,) = self.local_rates
        if isinstance(rate, Combination) or rate.slope != 0:
            return False
        return bool(np.all(np.abs(self.local[0][self.inside.compared] - 1.0) < 1e-14))

    @cached_property
    def gain(self) -> tuple[Floats, Floats]:
        """Coefficients of u and v in what is maximised, as a share of the site's mass, (sites, groups)."""
        if self.objective is not None:
            return self.objective
        share = self.mass / np.where(self.site_mass > 0, self.site_mass, 1.0)[:, None]
        constant, slope = self.row_gain
        return constant * share, slope * share

    @property
    def limits(self) -> tuple[Limits, Limits]:
        """What is required inside sites and over all of them, in numbers."""
        return self.local_limits, self.global_limits

    def priced_gain(self, prices: Floats, *, gains: bool = True) -> tuple[Floats, Floats]:
        """Reduced gain: less the price of the cells' shares in global rates (F in the paper), per mass of the site.

        Without ``gains`` prices alone count, as in a search for a feasible rule.
        """
        u, v = self.gain if gains else (np.zeros(self.shape), np.zeros(self.shape))
        if not self.global_rates:
            return u, v
        weight = np.where(self.site_mass > 0, self.site_mass, 1.0)[:, None]
        gu, gv = self.global_
        prices = given_to_cells(prices, self.global_parted)
        price_u, price_v = np.einsum("cak,ak->ca", gu, prices), np.einsum("cak,ak->ca", gv, prices)
        return u - price_u / weight, v - price_v / weight

    def tied(self, apart: Sequence[int] = ()) -> Problem:
        """The same problem with rows tied together where a rate that must be 0 or 1 leaves no choice between them.

        A floor of 1 under the true positive rate accepts every row whose chance is above 0, however little: only a
        price beyond all rounding could tell a chance of 1e-12 from 0, so these rows become one block. The rows of sites
        listed in ``apart`` are not tied.
        """
        cells, values = self.cells, self.cells.values
        fixed = ((each.least >= _ONE).any() or (each.most <= 1.0 - _ONE).any() for each in self.limits)
        if cells.hull_of is not None or not any(fixed):
            return self
        begins = np.ones(values.size, dtype=bool)
        number = np.repeat(np.arange(cells.rows.size), np.diff(cells.starts))
        for rate in dict.fromkeys((*self.local_rates, *self.global_rates)):
            if isinstance(rate, Rate) and rate.slope != 0:
                counts = rate.numerator(1.0, values) > 0.0
                begins &= (
                    ~self._fixed(rate).ravel()[number] | np.append(False, counts[1:] != counts[:-1])[: counts.size]
                )
        begins |= np.isin(number // self.shape[1], apart)
        return replace(self, cells=cells.joined(begins))

    def _fixed(self, rate: Rate) -> Booleans:
        """The cells, (sites, groups), in which a rate must be 0 or 1, by their own limits or through those of others.

        Bounds on the rate are propagated between cells and over all sites until no more become 0 or 1.
        """
        found = np.zeros(self.shape, dtype=bool)
        low, high = np.zeros(self.shape), np.ones(self.shape)
        while True:
            low, high = _narrowed(rate, low, high, self.local_rates, self.inside)
            ends = low.min(axis=0)[None], high.max(axis=0)[None]
            least, most = _narrowed(rate, *ends, self.global_rates, self.over_all)
            low, high = np.where(least >= _ONE, 1.0, low), np.where(most <= 1.0 - _ONE, 0.0, high)
            before, found = found, (low >= _ONE) | (high <= 1.0 - _ONE)
            if np.array_equal(before, found):
                return found

    def at_prices(self, prices: Floats) -> Problem:
        """The Lagrangian's problem at given prices of the global rates: priced gain under the local requirements."""
        return replace(
            self,
            global_rates=(),
            global_limits=Limits.within(np.zeros((1, 0)), self.shape[1]),
            global_parted=None,
            objective=self.priced_gain(prices),
        )

    def of_sites(self, sites: Indices) -> Problem:
        """The problem of some sites, as if there were no others."""
        return replace(
            self,
            cells=self.cells.of_sites(sites),
            local_limits=self.local_limits.of(sites),
            totals=None,
            objective=None if self.objective is None else (self.objective[0][sites], self.objective[1][sites]),
            costs=None if self.costs is None else self.costs[sites],
        )

    def locally_priced(self, gain_u: Floats, gain_v: Floats, prices: Floats) -> tuple[Floats, Floats]:
        """A gain less the price of the cells' local rates."""
        lu, lv = self.local
        prices = given_to_cells(prices, self.local_parted)
        return gain_u - total_price(prices, lu), gain_v - total_price(prices, lv)

    def accuracy(self, u: Floats, v: Floats) -> float:
        """Expected accuracy of a rule with these u and v, or minus its cost."""
        constant, slope = self.row_gain
        return self.baseline + float(np.sum(self.mass * (slope * v + constant * u)))

    def site_gains(self, u: Floats, v: Floats) -> Floats:
        """What each site's rule adds to the accuracy of rejecting everybody, (sites,)."""
        constant, slope = self.row_gain
        return np.asarray(np.einsum("ca,ca->c", self.mass, slope * v + constant * u))

    def site_shares(self, u: Floats, v: Floats) -> Floats:
        """Each site's share of every group's global rates, (sites, groups, global rates)."""
        gu, gv = self.global_
        return summed_cells(np.asarray(gu * u[..., None] + gv * v[..., None]), self.global_parted)

    def global_shares(self, u: Floats, v: Floats) -> Floats:
        """Each group's global rates, (groups, global rates)."""
        gu, gv = self.global_
        found = np.asarray(np.einsum("cak,ca->ak", gu, u) + np.einsum("cak,ca->ak", gv, v))
        return summed_cells(found, self.global_parted)

    def local_values(self, u: Floats, v: Floats) -> Floats:
        """Each group's local rates, (sites, groups, local rates)."""
        lu, lv = self.local
        return summed_cells(np.asarray(lu * u[..., None] + lv * v[..., None]), self.local_parted)

    def local_gaps(self, u: Floats, v: Floats) -> Floats:
        """Each site's gap in each local rate, (sites, local rates)."""
        return gap_of(self.local_values(u, v), self.inside.compared, axis=1)

    def global_gaps(self, u: Floats, v: Floats) -> Floats:
        """The gap in each global rate, (global rates,)."""
        return gap_of(self.global_shares(u, v), self.over_all.compared[0], axis=0)

    def local_excess(self, u: Floats, v: Floats) -> Floats:
        """Largest excess over a requirement on each local rate (negative: room left), (sites, local rates)."""
        return self.inside.excess(self.local_values(u, v))

    def global_excess(self, u: Floats, v: Floats) -> Floats:
        """Largest excess over a requirement on each global rate (negative: room left), (global rates,)."""
        return np.asarray(self.over_all.excess(self.global_shares(u, v)[None])[0])

    @cached_property
    def rejecting(self) -> Booleans:
        """At which sites rejecting everybody is feasible, (sites,)."""
        nobody = np.zeros(self.shape)
        return np.asarray(np.max(self.local_excess(nobody, nobody), axis=1, initial=0.0) <= 0.0)

    def violation(self, u: Floats, v: Floats) -> float:
        """Largest excess over any requirement (0: none)."""
        local, global_ = self.local_excess(u, v), self.global_excess(u, v)
        each = local / self.local_limits.unit, global_ / self.global_limits.unit[0]
        return max(0.0, *(float(np.max(excess, initial=0.0)) for excess in each))

    def empty_ratios(self, u: Floats, v: Floats) -> int:
        """How many required ratios are of rates that are all 0, and so say nothing."""
        over_all = self.over_all.empty_ratios(self.global_shares(u, v)[None])
        return self.inside.empty_ratios(self.local_values(u, v)) + over_all

    def requirement_prices(self, local: Floats, global_: Floats) -> dict[tuple[Requirement, str], Floats]:
        """The shadow price of each requirement, by requirement and side, (n,): 0 where it does not bind.

        It bounds what the objective would gain per unit by which the requirement is relaxed, in the user's units.
        ``local`` and ``global_`` are dual prices of the rates. Of several requirements on one rate only the strictest
        binds, and of equal ones the first.
        """
        found: dict[tuple[Requirement, str], Floats] = {}
        for side, regions, holding, prices in (
            ("local", self.inside, self.local_holding, local),
            ("global", self.over_all, self.global_holding, global_[None]),
        ):
            won, unit = regions.shadow_prices(prices), regions.limits.unit
            for k, each_of_rate in enumerate(holding):
                taken = np.zeros((len(won), self.shape[1], 2), dtype=bool)  # limits priced by an earlier one
                for each in each_of_rate:
                    own = _shadow_price(each, regions.limits, k, prices[..., k], won[:, k], taken)
                    key = each.requirement, side
                    found[key] = found.get(key, 0.0) + own * unit[:, k]
        return found

    def _coefficients(
        self, rates: tuple[Rate | Combination, ...], mass: Floats, positives: Floats, regions: Regions
    ) -> tuple[Floats, Floats]:
        """Coefficients of every cell's u and v in rates, (sites, groups, rates), of groups of these cells."""
        u, v = np.zeros((*self.shape, len(rates))), np.zeros((*self.shape, len(rates)))
        counts = given_to_cells(regions.limited, regions.parted)
        for k, each in enumerate(rates):
            for number, rate, own, place in _terms(each, self.shape[1], _column(regions.parted, k)):
                base = rate.denominator(_of_groups(mass, place), _of_groups(positives, place))
                base = np.broadcast_to(base, self.shape)
                scale = np.divide(self.mass, base, out=np.zeros(self.shape), where=counts[..., k] & own)
                u[..., k] += number * rate.constant * scale
                v[..., k] += number * rate.slope * scale
        return u, v


def make_problem(requirements: Requirements, cells: Cells, totals: GroupTotals | None = None) -> Problem:
    """The optimisation problem on given cells, without the requirements that concern none of these sites.

    ``totals``: those of the federation, where the cells are only some of its sites. What "today" stands for is measured
    on the unconstrained rule.
    """
    local, global_ = _columns(requirements, "local"), _columns(requirements, "global")
    costs, sites = requirements.costs, cells.n_sites
    problem = Problem(
        cells,
        tuple(each.of for each in local),
        tuple(each.of for each in global_),
        _free(cells, local, sites),
        _free(cells, global_, 1),
        totals=totals,
        costs=None if costs is None else cost_pairs(costs, costs.largest, sites),
        cost_unit=1.0 if costs is None else costs.largest,
        local_parted=_parts(local, cells.n_groups),
        global_parted=_parts(global_, cells.n_groups),
    )
    found = _bounded(problem, (local, global_), (None, None))
    if not any(np.isnan(each.bounds).any() for column in (*local, *global_) for each in column.holding):
        return found
    u, v = unconstrained(cells, problem.row_gain)
    return _bounded(problem, (local, global_), (found.local_values(u, v), found.global_shares(u, v)[None]))


@dataclass(frozen=True)
class _Column:
    """What is required of one rate: of its gap and its ratio, of groups by themselves, or of a combination of rates."""

    of: Rate | Combination  # scaled to order 1
    unit: float  # of the user's, in this scale
    holding: tuple[Holding, ...]

    @property
    def parted(self) -> tuple[int, ...] | None:
        """To which group every cell belongs; None: each is one, or is named by the combination itself."""
        return None if isinstance(self.of, Combination) else self.holding[0].parted

    def write(self, limits: Limits, k: int, defined: Booleans, today: Floats | None) -> tuple[Holding, ...]:
        """Write the requirements' bounds into column k, the strictest of several; return them with these numbers.

        ``today`` are the groups' values under the unconstrained rule, (n, groups); None: not known yet, and any
        finite bound will do, which makes the rate a limited one that has coefficients.
        """
        found = []
        for each in self.holding:
            bounds = np.repeat((each.bounds * self.unit)[:, None], defined.shape[1], axis=1)
            if np.isnan(bounds).any():
                bounds = np.full(bounds.shape, 0.5) if today is None else _today(each.measure, today, defined)
                if each.requirement.is_loss_inside:
                    raise InputError(
                        f"require: {str(each.requirement)!r}: what sites could do by themselves is not known here; "
                        "require the loss 'from unconstrained'."
                    )
                if each.requirement.is_loss:
                    bounds = bounds - float(each.requirement.bound) * self.unit  # type: ignore[arg-type]
            own, wanted = slice(None) if each.group is None else each.group, _numbers_of(each)
            written = dict.fromkeys(wanted, bounds)
            if isinstance(self.of, Combination):  # both ends are finite, or there is none
                free = zip(("total_least", "total_most"), self.of.ends, strict=True)
                written = {name: bounds if name in wanted else np.full(bounds.shape, end) for name, end in free}
            for name, numbers in written.items():
                limit = getattr(limits, name)[..., k]
                strictest = np.maximum if name in _FLOORS else np.minimum
                place = (each.at, own) if limit.ndim == 2 else (each.at,)
                limit[place] = strictest(limit[place], numbers[each.at, own if limit.ndim == 2 else 0])
            found.append(replace(each, bounds=bounds / self.unit))
        return tuple(found)


_FLOORS = ("ratio", "least", "total_least")  # the limits of which the largest is the strictest


def _numbers_of(each: Holding) -> tuple[str, ...]:
    """The limits that a requirement sets."""
    if each.measure in ("gap", "ratio"):
        return ("tolerance",) if each.measure == "gap" else ("ratio",)
    least, most = ("least", "most") if each.measure == "rate" else ("total_least", "total_most")
    return {">=": (least,), "<=": (most,), "=": (least, most)}[each.relation]


def _shadow_price(each: Holding, limits: Limits, k: int, prices: Floats, won: Floats, taken: Booleans) -> Floats:
    """The shadow price of one requirement on rate k, (n,); marks the limits at which it binds as ``taken``.

    ``prices`` are the rate's, (n, groups); ``won`` is the gain per unit by which all its limits are relaxed.
    """
    bounds, here, found = each.bounds * limits.unit[:, k, None], np.asarray(each.at)[:, None], np.zeros(len(won))
    for name in _numbers_of(each):
        limit, most = getattr(limits, name)[..., k], int(name not in _FLOORS)
        same = np.isclose(bounds, limit if limit.ndim == 2 else limit[:, None], rtol=1e-12, atol=0.0)  # in other units
        binds = here & same & ~taken[..., most]
        if each.group is not None and each.measure == "rate":
            binds &= np.arange(taken.shape[1]) == each.group
        taken[..., most] |= binds
        sided = np.maximum(prices if most else -prices, 0.0)
        if each.measure == "rate":
            found += np.where(binds, sided, 0.0).sum(axis=1)
        elif each.measure == "combination":
            found += np.where(binds[:, 0], sided[:, 0], 0.0)
        elif each.measure == "gap":
            found += np.where(binds[:, 0], 0.5 * np.abs(prices).sum(axis=1), 0.0)
        else:
            found += np.where(binds[:, 0], won, 0.0)
    return found


def _today(measure: str, values: Floats, defined: Booleans) -> Floats:
    """The bound that "today" stands for: a gap, ratio, rate or combination of the values, repeated for every group."""
    if measure == "rate":
        return np.clip(values, 0.0, 1.0)
    if measure == "combination":
        found = values.sum(axis=1)
    else:
        low, high = range_of(values, defined, 1)
        some = high > low
        high, low = np.where(some, high, 1.0), np.where(some, low, 1.0)
        found = high - low if measure == "gap" else low / np.where(high > 0, high, 1.0)
    return np.repeat(found[:, None], values.shape[1], axis=1)


def _columns(requirements: Requirements, side: str) -> list[_Column]:
    """The requirements of a side by rate: gaps and ratios first, then groups' rates, then combinations."""
    found: dict[tuple[str, object], list[Holding]] = {}
    for each in requirements.holding[side]:
        key = each.of.terms if isinstance(each.of, Combination) else (each.of, each.parted)
        measure = "band" if each.measure in ("gap", "ratio") else each.measure
        found.setdefault((measure, key), []).append(each)
    columns = []
    for _, holding in sorted(found.items(), key=lambda item: ("band", "rate", "combination").index(item[0][0])):
        of, unit = holding[0].of.normalised()
        if isinstance(of, Combination) and not np.isfinite(of.ends).all():
            raise InputError(
                f"require: {str(holding[0].requirement)!r} is of a rate without bounds; limit its gap instead."
            )
        columns.append(_Column(of, unit, tuple(holding)))
    return columns


def _parts(columns: list[_Column], groups: int) -> Indices | None:
    """To which group of each rate every cell belongs, (groups, rates); None where each is one in all of them."""
    each = ((None if c.parted is None else np.array(c.parted, dtype=np.int64)[:, None], 1) for c in columns)
    return concatenated_parts(list(each), groups)


def _bounded(
    problem: Problem, columns: tuple[list[_Column], list[_Column]], today: tuple[Floats | None, Floats | None]
) -> Problem:
    """The problem with its limits filled in; nothing is required where a rate is undefined."""
    filled = []
    for of_side, regions, values in zip(columns, (problem.inside, problem.over_all), today, strict=True):
        defined, limits = regions.defined, _free(problem.cells, of_side, len(regions.defined))
        holding = tuple(
            column.write(limits, k, defined[..., k], None if values is None else values[..., k])
            for k, column in enumerate(of_side)
        )
        limits.least[~defined], limits.most[~defined] = -np.inf, np.inf
        nothing = ~defined.any(axis=1)
        limits.total_least[nothing], limits.total_most[nothing] = -np.inf, np.inf
        filled.append((limits, holding))
    (local, of_local), (global_, of_global) = filled
    return replace(problem, local_limits=local, global_limits=global_, local_holding=of_local, global_holding=of_global)


def _free(cells: Cells, columns: list[_Column], places: int) -> Limits:
    """Limits of a side on which nothing is required yet."""
    units = np.array([each.unit for each in columns])
    return Limits.within(np.full((places, len(columns)), np.inf), cells.n_groups, units)


def cost_pairs(costs: Costs, unit: float, sites: int) -> Floats:
    """What a wrongly accepted and a wrongly rejected row cost at every site, in this unit, (sites, 2)."""
    pairs = np.column_stack([costs.wrongly_accepted, costs.wrongly_rejected]) / unit
    return np.broadcast_to(pairs, (sites, 2))


def unconstrained(cells: Cells, row_gain: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """(u, v) of the unconstrained rule, (sites, groups); ``row_gain`` as in a problem.

    Each cell is solved by itself, so that its numbers do not depend, even in rounding, on the rows of others.
    """
    shape = (cells.n_sites, cells.n_groups)
    constant, slope = (np.broadcast_to(each, shape).ravel() for each in row_gain)
    _, u, v = cells.best_corner(np.arange(constant.size), slope, constant)
    return u.reshape(shape), v.reshape(shape)


def rates_defined(
    rates: tuple[Rate | Combination, ...], mass: Floats, positives: Floats, parted: Indices | None = None
) -> Booleans:
    """Where enough mass counts in a rate for it to be defined, (..., groups, rates), ``parted`` as in a problem.

    A combination is defined for the cells that it names, where all of its rates are.
    """
    found = np.zeros((*mass.shape, len(rates)), dtype=bool)
    first = None if parted is None else _first_cells(parted)
    for k, each in enumerate(rates):
        everything, some = np.ones((*mass.shape[:-1], 1), dtype=bool), np.zeros(mass.shape, dtype=bool)
        for _, rate, own, place in _terms(each, mass.shape[-1], _column(parted, k)):
            own_mass, own_positives = _of_groups(mass, place), _of_groups(positives, place)
            there = rate.denominator(own_mass, own_positives) > LEAST_COUNTED * own_mass
            if not isinstance(each, Combination):
                # What is known of a group's cells, in the place of the group.
                some |= there if first is None else there[..., first[:, k]] & (first[:, k] >= 0)
                continue
            everything &= there if there.shape[-1] == 1 else there[..., own][..., :1]
            some |= own
        found[..., k] = some & everything
    return found


def _first_cells(parted: Indices) -> Indices:
    """The first cell of every group of each rate, (groups, rates); -1 where there is none."""
    found = np.full_like(parted, -1)
    for k, place in enumerate(parted.T):
        groups, first = np.unique(place, return_index=True)
        found[groups, k] = first
    return found


def concatenated_parts(several: Sequence[tuple[Indices | None, int]], groups: int) -> Indices | None:
    """To which group of each rate every cell belongs, of the rates of several problems: (parts, how many rates)."""
    if all(parted is None for parted, _ in several):
        return None
    every = np.arange(groups)[:, None]
    return np.concatenate([np.repeat(every, n, axis=1) if part is None else part for part, n in several], axis=1)


def total_price(prices: Floats, rates: Floats) -> Floats:
    """The price of all rates of each cell together, (sites, groups); both (sites, groups, rates)."""
    return np.asarray(np.einsum("cak,cak->ca", prices, rates))  # a sum over a short axis would be slow


def _terms(
    rate: Rate | Combination, groups: int, place: Indices | None
) -> list[tuple[float, Rate, Booleans, Indices | None]]:
    """The terms of a combination, each a factor, a rate, the cells it is of, and to which group every cell belongs.

    A rate of every group by itself is one term; groups are None where every cell is one.
    """
    every = np.ones(groups, dtype=bool)
    if not isinstance(rate, Combination):
        return [(1.0, rate, every, place)]
    found: list[tuple[float, Rate, Booleans, Indices | None]] = []
    for number, each, cells in rate.terms:
        own = every if cells is None else np.isin(np.arange(groups), cells)
        found.append((number, each, own, None if cells is not None and len(cells) == 1 else (~own).astype(np.int64)))
    return found


def _column(parted: Indices | None, k: int) -> Indices | None:
    """To which group of one rate every cell belongs; None: each is one."""
    if parted is None or np.array_equal(parted[:, k], np.arange(len(parted))):
        return None
    return parted[:, k]


def _of_groups(counted: Floats, place: Indices | None) -> Floats:
    """What is counted of cells, (..., groups), added up over the group of each; of everybody as one column."""
    if place is None:
        return counted
    if not place.any():
        return np.asarray(counted.sum(axis=-1, keepdims=True))
    same = (place[:, None] == place).astype(np.float64)
    return np.asarray(counted @ same)


def _narrowed(
    rate: Rate, low: Floats, high: Floats, rates: tuple[Rate | Combination, ...], regions: Regions
) -> tuple[Floats, Floats]:
    """Bounds on a rate of every cell, (n, groups), narrowed by what is required of it on one side.

    Of a union of cells, whose rate is a mean of theirs, only what must be 0 or 1 bounds each.
    """
    own = [k for k, each in enumerate(rates) if each == rate]
    unions = [k for k in own if _column(regions.parted, k) is not None]
    for k in own:
        if k not in unions:
            low, high = _within_ends(low, high, regions, k)
    for k in own:  # by its tolerance and ratio to the bounds of the other groups
        if k not in unions:
            low, high = _near_others(low, high, regions, k)
    for k in unions:
        place = regions.parted[:, k]  # type: ignore[index]
        belongs = place == np.arange(place.size)[:, None]
        ends = (
            np.where(belongs, low[:, None, :], 1.0).min(axis=2),
            np.where(belongs, high[:, None, :], 0.0).max(axis=2),
        )
        least, most = _near_others(*_within_ends(*ends, regions, k), regions, k)
        low = np.where(least[:, place] >= _ONE, 1.0, low)
        high = np.where(most[:, place] <= 1.0 - _ONE, 0.0, high)
    return low, high


def _within_ends(low: Floats, high: Floats, regions: Regions, k: int) -> tuple[Floats, Floats]:
    """Bounds on a rate, (n, groups), narrowed by floors and ceilings."""
    defined, limits = regions.defined[..., k], regions.limits
    low = np.where(defined, np.maximum(low, limits.least[..., k]), low)
    return low, np.where(defined, np.minimum(high, limits.most[..., k]), high)


def _near_others(low: Floats, high: Floats, regions: Regions, k: int) -> tuple[Floats, Floats]:
    """Bounds on a rate, (n, groups), narrowed by its tolerance and ratio to the bounds of the other groups."""
    limits, compared = regions.limits, regions.compared[..., k]
    tolerance, ratio = limits.tolerance[:, k, None], limits.ratio[:, k, None]
    width = np.where(np.isfinite(tolerance), tolerance, 1.0)
    most = np.min(np.where(compared, high, 1.0), axis=1, keepdims=True, initial=1.0)
    most = np.minimum(most + width, np.where(ratio > 0, most / np.maximum(ratio, 1e-300), 1.0))
    least = np.max(np.where(compared, low, 0.0), axis=1, keepdims=True, initial=0.0)
    least = np.maximum(least - width, ratio * least)
    return np.where(compared, np.maximum(low, least), low), np.where(compared, np.minimum(high, most), high)
