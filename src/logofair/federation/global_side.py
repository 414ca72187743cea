"""What a plan requires over all sites, in numbers: known to the server, and to every site, from the totals.

A combination of rates (everybody's, or one group's less another's) is one more rate with a floor and a ceiling, which
stands in the place of the first group: a reply has one number for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.errors import InfeasibleError
from logofair.federation.plan import Plan, strictest
from logofair.notions import Rate
from logofair.requirement import People, Requirement
from logofair.requirements import Combination, Holding, conflict_sentence
from logofair.solvers.decomposition import Decomposition, TriedPrices
from logofair.solvers.limits import Limits, Regions, gap_of
from logofair.solvers.problem import rates_defined
from logofair.solvers.trials import PriceMarks, price_marks

_ALL_GROUPS = "all groups"  # that a combination of rates is of
_PROOF = 1e-9  # by which a bound has to lie below what any rule gains, to prove that there is none
_STEP = 1e-6  # of a requirement, over which the support function is taken for a line
_HALVINGS = 30  # until the amount by which a requirement gives way is known


@dataclass(frozen=True, eq=False)
class GlobalRequirements:
    """What is required over all sites, given the rows of each group, and what is accepted of them today."""

    plan: Plan
    mass: Floats  # (groups,)
    positives: Floats
    # (groups, rates of today); None: a site does not know what is accepted today elsewhere, and does not need it
    today: Floats | None = None
    relaxation: Mapping[Requirement, float] = field(default_factory=dict)  # by how much some are looser

    @cached_property
    def defined(self) -> Booleans:
        """Which groups have a part in which rate, (groups, rates); of a combination the first group, if any has."""
        n, over_all = self.mass.sum(), self.plan.over_all
        first = len(over_all.group_rates)
        found = rates_defined(over_all.rates, self.mass / n, self.positives / n).copy()
        found[:, first:] = (np.arange(self.mass.size) == 0)[:, None] & found[:, first:].any(axis=0)
        return found

    @property
    def bands(self) -> Floats:
        """The tolerance of every rate, infinite where it is free, (rates,)."""
        over_all, found = self.plan.over_all, np.full(len(self.plan.over_all.rates), np.inf)
        bands = strictest(over_all.required, self.relaxation)
        found[: len(bands)] = np.array([each.tolerance for each in bands], dtype=float) * over_all.units
        return found

    @cached_property
    def limits(self) -> Limits:
        """What is required, in numbers: combinations as floors and ceilings in the first group's place.

        Where a ratio alone compares groups their tolerance is 1.
        """
        over_all, bands = self.plan.over_all, self.bands
        compared = np.arange(bands.size) < len(over_all.compared)
        tolerance = np.where(compared, np.where(np.isfinite(bands), bands, 1.0), np.inf)
        found, terms = Limits.within(tolerance[None], len(self.mass)), [each.terms for each in over_all.combinations]
        if over_all.only_tolerances:
            return found
        for k, band in enumerate(strictest(over_all.required, self.relaxation)):
            found.ratio[0, k] = band.ratio or 0.0
        for each in over_all.required:
            if each.measure in ("gap", "ratio"):
                continue
            (of, unit), bound, of_today = each.of.normalised(), each.requirement.bound, bool(np.isnan(each.bounds[0]))
            if isinstance(bound, People):
                value = np.asarray(bound.number / self.mass.sum())
            else:
                value = self._today(each) if of_today else np.asarray(each.bounds[0])
                value = value - float(bound) if each.requirement.is_loss else value
            own: int | slice
            if isinstance(of, Combination):
                k, own, value = len(over_all.group_rates) + terms.index(of.terms), 0, value * unit
            else:
                k, own = over_all.group_rates.index(of), slice(None) if each.group is None else each.group
                value = np.broadcast_to(value, self.mass.shape)[own]
            given = self.relaxation.get(each.requirement, 0.0) * unit
            given = np.inf if of_today and self.today is None else given  # nobody knows it here
            low, high = of.ends  # what gives way by more than that gives way altogether
            if each.relation in (">=", "=") or low < 0.0:
                least = value - given if each.relation in (">=", "=") else low
                found.least[0, own, k] = np.maximum(found.least[0, own, k], np.maximum(least, low))
            if each.relation in ("<=", "=") or high > 1.0:
                most = value + given if each.relation in ("<=", "=") else high
                found.most[0, own, k] = np.minimum(found.most[0, own, k], np.minimum(most, high))
        least, most = np.where(self.defined, found.least, -np.inf), np.where(self.defined, found.most, np.inf)
        return replace(found, least=least, most=most)

    @cached_property
    def regions(self) -> Regions:
        """The same, of the groups that have these rates."""
        return Regions(self.limits, self.defined[None])

    @property
    def of_totals(self) -> Limits:
        """The limits with combinations as those of a total over the groups, as a site's problem has them."""
        over_all, limits = self.plan.over_all, self.limits
        least, most = limits.least.copy(), limits.most.copy()
        total_least, total_most = limits.total_least.copy(), limits.total_most.copy()
        for k, each in enumerate(over_all.combinations, len(over_all.group_rates)):
            if self.defined[0, k]:
                low, high = each.ends
                total_least[0, k], total_most[0, k] = max(least[0, 0, k], low), min(most[0, 0, k], high)
            least[..., k], most[..., k] = -np.inf, np.inf
        return Limits(self.bands[None], limits.ratio, least, most, total_least, total_most, limits.unit)

    def _today(self, each: Holding) -> Floats:
        """What a requirement is of today, of every group, (groups,), or of a combination.

        Where it is not known a half, which unlike 0 and 1 leaves rows that count in a rate to be told apart.
        """
        if self.today is None:
            return np.full(self.mass.shape if isinstance(each.of, Rate) else (), 0.5)
        if isinstance(each.of, Rate):
            return self._accepted(self.today, self.plan.over_all.today.index(each.of.normalised()[0]))
        of, unit = each.of.normalised()
        found = 0.0
        for number, rate, groups in of.terms:
            k = self.plan.over_all.today.index(rate)
            if groups is not None:  # one, since a federation's groups are of one column
                found += number * float(self._accepted(self.today, k)[groups[0]])
            else:
                base = float(rate.denominator(self.mass, self.positives).sum())
                found += number * float(self.today[:, k].sum()) / base if base > 0 else 0.0
        return np.asarray(found / unit)

    def _accepted(self, today: Floats, number: int) -> Floats:
        """A rate of today of every group, (groups,)."""
        base = self.plan.over_all.today[number].denominator(self.mass, self.positives)
        share = np.divide(today[:, number], base, out=np.zeros(base.shape), where=base > 0)
        return np.asarray(np.clip(share, 0.0, 1.0))

    def decomposition(self, tried: TriedPrices) -> Decomposition:
        """The state of the rounds once some prices were tried."""
        return Decomposition(self.regions, tried, self.plan.inside.may_reject)

    @cached_property
    def marks(self) -> PriceMarks:
        """What the totals tell about prices."""
        n = self.mass.sum()
        return price_marks(self.mass / n, self.positives / n, self.plan.over_all.rates, self.plan.cost_scale.row_gain)

    def reported(self, gain: float) -> float:
        """Accuracy of a rule that gains so much over rejecting everybody; or its cost per row, in the user's units."""
        n, positives = float(self.mass.sum()), float(self.positives.sum())
        if self.plan.objective == "accuracy":
            return (n - positives) / n + gain
        return self.plan.cost_scale.largest[1] * positives / n - gain * self.plan.cost_scale.unit

    def by_name(self, rates: Floats) -> dict[str, dict[str, float]]:
        """The rates that are within more than tolerances, of rates (groups, rates), by name and group."""
        names, over_all = list(map(str, self.plan.groups)), self.plan.over_all
        return {
            over_all.rates[k].name: {_ALL_GROUPS: float(rates[0, k])}
            if k >= len(over_all.group_rates)
            else {name: float(rates[a, k]) for a, name in enumerate(names) if self.defined[a, k]}
            for k in np.flatnonzero(self.limits.more_than_tolerances[0])
        }

    @property
    def today_by_name(self) -> dict[str, dict[str, float]]:
        """The rates of today by name and group."""
        assert self.today is not None
        rates = {rate.name: self._accepted(self.today, i) for i, rate in enumerate(self.plan.over_all.today)}
        return {name: dict(zip(map(str, self.plan.groups), own.tolist(), strict=True)) for name, own in rates.items()}

    def columns(self, shares: Floats, combined: Floats) -> Floats:
        """What replies say of some rules as (..., groups, rates): combinations in the first group's place."""
        if not self.plan.over_all.combinations:
            return shares
        first = np.zeros((*shares.shape[:-1], len(self.plan.over_all.combinations)))
        first[..., 0, :] = combined
        return np.concatenate([shares, first], axis=-1)

    def gaps(self, rates: Floats) -> Floats:
        """The gap of each compared rate, in the user's units; rates (groups, rates)."""
        compared = len(self.plan.over_all.compared)
        counts = self.regions.compared[0, :, :compared]
        return np.asarray(gap_of(rates[:, :compared], counts, axis=0) / self.plan.over_all.units)

    def excess(self, rates: Floats) -> float:
        """Largest excess over a requirement, in the user's units (0: none); rates (groups, rates)."""
        over_all = self.plan.over_all
        found = float(np.max(self.gaps(rates) - over_all.tolerances / over_all.units, initial=0.0))
        besides = replace(self.limits, tolerance=np.full_like(self.limits.tolerance, np.inf))
        return max(found, float(np.max(Regions(besides, self.defined[None]).excess(rates[None]), initial=0.0)))

    def prices(self, prices: Floats) -> dict[Requirement, float]:
        """What a unit less of each requirement wins at most, at prices (groups, rates), in the user's units."""
        state, over_all = self.decomposition(TriedPrices.empty(*prices.shape)), self.plan.over_all
        rates = [band.rate for band in over_all.compared]
        found: dict[Requirement, float] = {}
        for item in dict.fromkeys(each.requirement for each in over_all.required):
            numbers = [rates.index(rate) for rate in item.rates] if item.measure == "gap" else []
            if numbers and not state.limited[numbers].any():
                binds = [k for k in numbers if over_all.compared[k].tolerance == item.bound]
                won = sum(0.5 * float(np.abs(prices[:, k]).sum()) * float(over_all.units[k]) for k in binds)
            else:
                more = replace(self, relaxation={item: _STEP}).decomposition(state.tried)
                won = float(more.support_function(prices[None])[0] - state.support_function(prices[None])[0]) / _STEP
            found[item] = won * self.plan.cost_scale.unit
        return found

    def impossible(self, state: Decomposition) -> bool:
        """Whether some prices prove that no rule meets all requirements: all of them gain less than any rule can."""
        return bool(np.min(state.bounds, initial=np.inf) < -self.marks.loss - _PROOF)

    def conflict(self, state: Decomposition) -> InfeasibleError:
        """Which requirements conflict, as far as the prices tried prove it, and what each has to give at least.

        A requirement here is what was typed: on several rates, or for every group. One is left out where the others are
        proved to conflict without it. Requirements inside sites are held.
        """
        every = list(dict.fromkeys(each.requirement for each in self.plan.over_all.required))
        few = list(every)
        # An amount after which nothing is left of any requirement: shares differ by 1 at most, other rates by 2.
        room = 2.0 / float(np.min(self.plan.over_all.units, initial=1.0))
        for item in every:
            rest = [each for each in few if each != item]
            out = [each for each in every if each not in rest]
            if self._short(state, dict.fromkeys(out, room)):
                few = rest
        amounts: dict[Requirement, float | None] = dict.fromkeys(few)
        for item in few:
            if not self._short(state, {item: room}):  # the least by which it has to give way, as far as is proved
                low, high = 0.0, room
                for _ in range(_HALVINGS):
                    middle = 0.5 * (low + high)
                    low, high = (middle, high) if self._short(state, {item: middle}) else (low, middle)
                amounts[item] = low
        inside = "what is required inside sites" if self.plan.inside.required else ""
        return InfeasibleError(amounts, conflict_sentence(amounts, held=inside, at_least=True))

    def _short(self, state: Decomposition, relaxation: Mapping[Requirement, float]) -> bool:
        """Whether no rule is left even where some requirements are looser by an amount."""
        return self.impossible(replace(self, relaxation=relaxation).decomposition(state.tried))
