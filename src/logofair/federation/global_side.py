"""What a plan requires over all sites, in numbers: known to the server, and to every site, from the totals.

The share of everybody that is selected, on which there may be a capacity, is one more rate with a floor and a ceiling,
which stands in the place of the first group: a reply has one number for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.errors import InfeasibleError
from logofair.federation.plan import Plan
from logofair.requirements import (
    Capacity,
    RateLimit,
    Requirement,
    called,
    conflict_sentence,
    strictest,
    tolerance_of,
)
from logofair.solvers.decomposition import Decomposition, TriedPrices
from logofair.solvers.limits import Limits, limit_excess
from logofair.solvers.problem import gap_of, rates_defined
from logofair.solvers.trials import PriceMarks, price_marks

EVERYBODY = "everybody"  # whose share is selected
_WHERE = "over all sites"

# A requirement over all sites on one rate; a capacity that has to be met is two, one for each end.
Item: TypeAlias = Requirement | RateLimit | Capacity
_PROOF = 1e-9  # by which a bound has to lie below what any rule gains, to prove that there is none
_STEP = 1e-6  # of a requirement, over which what it is worth is a line
_SMALLEST_RATIO = 1e-12  # next to none: the rates stay shares
_HALVINGS = 30  # until the amount by which a requirement gives way is known


@dataclass(frozen=True, eq=False)
class GlobalRequirements:
    """What is required over all sites, given the rows of each group, and what is accepted of them today."""

    plan: Plan
    mass: Floats  # (groups,)
    positives: Floats
    # (groups, rates of today); None: a site does not know what is accepted today elsewhere, and does not need it
    today: Floats | None = None

    @cached_property
    def defined(self) -> Booleans:
        """Which groups have which rate, (groups, rates); everybody's share is the first group's."""
        n = self.mass.sum()
        found = rates_defined(self.plan.global_rates, self.mass / n, self.positives / n)
        if self.plan.has_capacity:
            found[:, -1] = np.arange(self.mass.size) == 0
        return found

    @property
    def bands(self) -> Floats:
        """The tolerance of every rate, infinite where it is free, (rates,)."""
        return self._bands({})

    def _bands(self, giving: Mapping[Item, float]) -> Floats:
        """The same where some give way by an amount."""
        units, found = self.plan.global_tolerances[1], np.full(len(self.plan.global_rates), np.inf)
        found[: units.size] = [tolerance_of(each) for each in self._compared(giving)]
        found[: units.size] *= units
        return found

    def _compared(self, giving: Mapping[Item, float]) -> tuple[Requirement, ...]:
        """The strictest of each compared rate (:attr:`Plan.constrained`) where some give way by an amount."""
        looser = (
            replace(
                each,
                tolerance=None if each.tolerance is None else each.tolerance + giving.get(each, 0.0),
                ratio=None if each.ratio is None else max(each.ratio - giving.get(each, 0.0), _SMALLEST_RATIO),
            )
            for each in self.plan.compared
        )
        return strictest(looser)

    @cached_property
    def tolerance(self) -> Floats:
        """Tolerances by group, (groups, rates): infinite where a group is not compared, 1 where a ratio alone does."""
        return self._tolerance({})

    def _tolerance(self, giving: Mapping[Item, float]) -> Floats:
        """The same where some give way by an amount."""
        bands, compared = self._bands(giving), np.arange(len(self.plan.global_rates)) < len(self.plan.constrained)
        counts = self.defined & (self.defined.sum(axis=0) > 1) & compared
        return np.where(counts, np.where(np.isfinite(bands), bands, 1.0), np.inf)

    @cached_property
    def limits(self) -> Limits | None:
        """Ratios, floors, ceilings and the capacity; None: there are tolerances alone."""
        return self._limits({})

    def _limits(self, giving: Mapping[Item, float]) -> Limits | None:
        """The same where some give way by an amount."""
        plan = self.plan
        if not plan.limits_global:
            return None
        groups, rates = self.defined.shape
        found = Limits.none(1, groups, rates)
        for k, each in enumerate(self._compared(giving)):
            found.ratio[0, k] = each.ratio or 0.0
        for limit in plan.global_limits:
            rate = limit.rate.normalised()[0]
            k, own = (
                plan.group_rates.index(rate),
                slice(None) if limit.group is None else plan.groups.index(limit.group),
            )
            floor = limit.kind == "floor"
            value: Floats | float = (0.0 if floor else 1.0) if limit.value is None else limit.value
            if limit.value is None and self.today is not None:
                value = self._accepted(self.today, plan.today_rates.index(rate))[own]
            value = value - giving.get(limit, 0.0) if floor else value + giving.get(limit, 0.0)
            ends, stricter = (found.least, np.maximum) if floor else (found.most, np.minimum)
            ends[0, own, k] = stricter(ends[0, own, k], value)
        for end in self._ends():
            if end.least > 0:
                found.least[0, 0, -1] = max(found.least[0, 0, -1], end.least - giving.get(end, 0.0))
            else:
                found.most[0, 0, -1] = min(found.most[0, 0, -1], end.most + giving.get(end, 0.0))
        return replace(
            found,
            least=np.where(self.defined, found.least, -np.inf),
            most=np.where(self.defined, found.most, np.inf),
        )

    @property
    def of_totals(self) -> Limits | None:
        """The limits with the capacity as one of a total over the groups, as a client's problem has it."""
        if self.limits is None or not self.plan.has_capacity:
            return self.limits
        least, most = self.limits.least.copy(), self.limits.most.copy()
        total_least, total_most = self.limits.total_least.copy(), self.limits.total_most.copy()
        total_least[0, -1], total_most[0, -1] = least[0, 0, -1], most[0, 0, -1]
        least[..., -1], most[..., -1] = -np.inf, np.inf
        return Limits(self.limits.ratio, least, most, total_least, total_most)

    def _accepted(self, today: Floats, number: int) -> Floats:
        """A rate of today of every group, (groups,)."""
        base = self.plan.today_rates[number].denominator(self.mass, self.positives)
        return np.clip(np.divide(today[:, number], base, out=np.zeros(base.shape), where=base > 0), 0.0, 1.0)

    def decomposition(self, tried: TriedPrices) -> Decomposition:
        """The state of the rounds once some prices were tried."""
        return Decomposition(self.tolerance, tried, self.limits, self.plan.may_reject)

    @cached_property
    def marks(self) -> PriceMarks:
        """What the totals tell about prices."""
        n = self.mass.sum()
        return price_marks(self.mass / n, self.positives / n, self.plan.global_rates, self.plan.row_worth)

    def reported(self, gain: float) -> float:
        """Accuracy of a rule that gains so much over rejecting everybody; or its cost per row, in the user's units."""
        n, positives = float(self.mass.sum()), float(self.positives.sum())
        if self.plan.objective == "accuracy":
            return (n - positives) / n + gain
        return self.plan.dearest[1] * positives / n - gain * self.plan.cost_unit

    @property
    def limited(self) -> tuple[int, ...]:
        """The numbers of the rates that are within more than tolerances."""
        return () if self.limits is None else tuple(np.flatnonzero(self.limits.anything[0]).tolist())

    def by_name(self, rates: Floats, which: tuple[int, ...]) -> dict[str, dict[str, float]]:
        """Some rates, (groups, rates), by their name and group; everybody's share under its own name."""
        names, plan = [str(group) for group in self.plan.groups], self.plan
        return {
            plan.global_rates[k].name: {EVERYBODY: float(rates[0, k])}
            if plan.has_capacity and k == len(plan.group_rates)
            else {name: float(rates[a, k]) for a, name in enumerate(names) if self.defined[a, k]}
            for k in which
        }

    def from_names(self, named: Mapping[str, Mapping[str, float]], which: tuple[int, ...]) -> Floats | None:
        """The inverse of :meth:`by_name`; None where the names are others."""
        found = np.zeros(self.defined.shape)
        if named.keys() != {self.plan.global_rates[k].name for k in which}:
            return None
        for k in which:
            own = named[self.plan.global_rates[k].name]
            if own.keys() != self.by_name(found, (k,))[self.plan.global_rates[k].name].keys():
                return None
            for a, name in enumerate(map(str, self.plan.groups)):
                found[a, k] = own.get(name, own.get(EVERYBODY, 0.0) if a == 0 else 0.0)
        return found

    @property
    def today_by_name(self) -> dict[str, dict[str, float]]:
        """The rates of today by name and group."""
        assert self.today is not None
        rates = {rate.name: self._accepted(self.today, i) for i, rate in enumerate(self.plan.today_rates)}
        return {name: dict(zip(map(str, self.plan.groups), own.tolist(), strict=True)) for name, own in rates.items()}

    def with_today(self, named: Mapping[str, Mapping[str, float]]) -> GlobalRequirements | None:
        """The same with rates of today by name and group; None where the names are others."""
        names, groups = [rate.name for rate in self.plan.today_rates], list(map(str, self.plan.groups))
        if named.keys() != set(names) or any(own.keys() != set(groups) for own in named.values()):
            return None
        today = np.zeros((len(groups), len(names)))
        for i, rate in enumerate(self.plan.today_rates):
            own = np.array([named[rate.name][group] for group in groups])
            today[:, i] = own * rate.denominator(self.mass, self.positives)
        return replace(self, today=today)

    def columns(self, shares: Floats, selected: Floats) -> Floats:
        """What replies say of some rules as (..., groups, rates): everybody's share in the first group's place."""
        if not self.plan.has_capacity:
            return shares
        everybody = np.zeros((*shares.shape[:-1], 1))
        everybody[..., 0, :] = selected
        return np.concatenate([shares, everybody], axis=-1)

    def gaps(self, rates: Floats) -> Floats:
        """The gap of each compared rate, in the user's units; rates (groups, rates)."""
        compared = len(self.plan.constrained)
        counts = np.isfinite(self.tolerance[:, :compared])
        return np.asarray(gap_of(rates[:, :compared], counts, axis=0) / self.plan.global_tolerances[1])

    def excess(self, rates: Floats) -> float:
        """Largest excess over a requirement, in the user's units (0: none); rates (groups, rates)."""
        tolerances, units = self.plan.global_tolerances
        found = float(np.max(self.gaps(rates) - tolerances / units, initial=0.0))
        if self.limits is None:
            return found
        more = limit_excess(self.limits, rates[None], np.isfinite(self.tolerance)[None], self.defined[None])
        return max(found, float(np.max(more, initial=0.0)))

    def prices(self, prices: Floats) -> dict[str, float]:
        """What a unit less of each requirement wins at most, at prices (groups, rates), in the user's units, by name.

        A tolerance or a capacity that is larger, a ratio or a floor that is lower, a ceiling that is higher. Of a
        tolerance under the name of its rate; those of one name give way together.
        """
        state, rates = self.decomposition(TriedPrices.none(*prices.shape)), [r.rate for r in self.plan.constrained]
        by_name: dict[str, list[Item]] = {}
        every: tuple[Item, ...] = (*self.plan.compared, *self.plan.global_limits, *self._ends())
        for item in every:
            by_name.setdefault(self._called(item), []).append(item)
        found = {}
        for name, items in by_name.items():
            first = items[0]
            k = rates.index(first.rate) if isinstance(first, Requirement) else -1
            if k >= 0 and first.kind == "tolerance" and not state.limited[k]:
                won = 0.5 * float(np.abs(prices[:, k]).sum()) * float(self.plan.global_tolerances[1][k])
            else:
                more = self._given_way(state, dict.fromkeys(items, _STEP))
                won = float(more.worth(prices[None])[0] - state.worth(prices[None])[0]) / _STEP
            found[name] = won * self.plan.cost_unit
        return found

    def _ends(self) -> Iterator[Capacity]:
        """The capacities over all sites, at most and at least each by itself."""
        return (end for each in _global(self.plan) for end in each.ends)

    def _called(self, item: Item) -> str:
        """What a requirement is called: a tolerance has the name of its rate."""
        if isinstance(item, Requirement) and item.kind == "tolerance":
            return item.rate.name
        rates = () if isinstance(item, Capacity) else (item.rate,)
        return called(item.kind, _WHERE, rates, item.group if isinstance(item, RateLimit) else None)

    def impossible(self, state: Decomposition) -> bool:
        """Whether some prices prove that no rule meets all requirements: all of them gain less than any rule can."""
        return bool(np.min(state.bounds, initial=np.inf) < -self.marks.loss - _PROOF)

    def conflict(self, state: Decomposition) -> InfeasibleError:
        """Which requirements conflict, as far as the prices tried prove it, and what each has to give at least.

        A requirement here is what was typed: on several rates, or for every group. One is left out where the others are
        proved to conflict without it. Requirements inside sites are held.
        """
        typed = self._typed()
        few = list(typed)
        for name in typed:
            rest = [each for each in few if each != name]
            out = [item for each in typed if each not in rest for item in typed[each]]
            if self.impossible(self._given_way(state, dict.fromkeys(out, self._room))):
                few = rest
        amounts = {name: self._least(state, typed[name]) for name in few}
        inside = any(r.tolerance is not None or r.ratio is not None for r in self.plan.local)
        inside = inside or self.plan.limited_inside or bool(self.plan.site_tolerances)
        sentence = conflict_sentence(amounts, held="what is required inside sites" if inside else "", at_least=True)
        return InfeasibleError(amounts, sentence)

    def _typed(self) -> dict[str, tuple[Item, ...]]:
        """The single requirements of each that was typed, by its name."""
        every = self.plan.requirements(())
        over_all = replace(every, limits=self.plan.global_limits, capacities=_global(self.plan))
        return {name: (*one.global_, *one.limits, *one.capacities) for name, one in over_all.one_by_one(_WHERE).items()}

    def _least(self, state: Decomposition, items: tuple[Item, ...]) -> float | None:
        """The least by which a requirement has to give way, as far as is proved; None: that is not enough."""
        low, high = 0.0, self._room
        if self.impossible(self._given_way(state, dict.fromkeys(items, high))):
            return None
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            short = self.impossible(self._given_way(state, dict.fromkeys(items, middle)))
            low, high = (middle, high) if short else (low, middle)
        return low

    @property
    def _room(self) -> float:
        """An amount after which nothing is left of any requirement: shares differ by 1 at most, other rates by 2."""
        return 2.0 / float(np.min(self.plan.global_tolerances[1], initial=1.0))

    def _given_way(self, state: Decomposition, giving: Mapping[Item, float]) -> Decomposition:
        """The state with some requirements looser by an amount."""
        return replace(state, tolerance=self._tolerance(giving), limits=self._limits(giving))


def _global(plan: Plan) -> tuple[Capacity, ...]:
    """The capacities over all sites."""
    return tuple(each for each in plan.capacities if each.side == "global")
