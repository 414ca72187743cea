"""The exact optimum by decomposition: prices of the global rates out, the sites' summed answers back.

Dantzig-Wolfe: the master mixes the answers so far; its own prices are the next to try, and going half-way to them from
the best prices so far halves the number of rounds. Every price vector proves an upper bound on accuracy, so the
difference to the mixture's accuracy is a certificate at every moment.

:class:`Decomposition` is the state of a federation's server, which tries batches of prices
(:mod:`logofair.solvers.trials`), asks its sites by message and sees the sum of their answers alone. In memory
(:func:`solve_exact` for one problem, a frontier through one :class:`ExactSolver` for many tolerances) the sites come
in bunches, each with a mixture of its own (:mod:`logofair.solvers.master`), and early rounds make do with answers that
are nearly the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InfeasibleError
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.limits import Regions, support_of_tolerances, zero_sum
from logofair.solvers.local import LocalAnswer, local_bound, solve_local
from logofair.solvers.master import Master
from logofair.solvers.problem import Problem
from logofair.solvers.rational import ROUNDING, Mixture, best_mixture
from logofair.solvers.simplex import Tableau

# Where a solve in memory stops: well below the 1e-6 of a certificate, so that rounding in the stored policy has room.
_TARGET = 2e-7
_ROUNDS = 200
_RETREATS = 6
_ROUNDING = 1e-10  # by which a mixture's gaps may exceed the tolerances: a tenth of a certificate's precision
_ROUNDED = 2.0**-46  # of prices: what sums of products with them may be off by
# By how much a federation's rule may miss its requirements where none meets them: less than a certificate sees.
_MISSED_AT_MOST = 0.9 * LARGEST_VIOLATION
# Bunches of sites: so many for each free price beyond two, and at most. Up to two, one mixture of all takes few
# rounds; more bunches save hardly any, and a pivot of the master costs their square.
_BUNCHES_EACH, _MOST_BUNCHES = 8, 64
# From so many sites on, the first prices are those of a sample of sites, solved to a larger optimality gap.
_SAMPLED_FROM, _SAMPLE, _SAMPLE_TARGET = 20_000, 500, 1e-5
# How far from the best prices so far the next may be, where the first are near the optimum: of the gain of a row, and
# so many times as far after every round. Before a mixture has answers on either side of the optimum its own prices mean
# nothing, and answers far away take as long as all others together.
_FIRST_BOX, _BOX_GROWTH = 0.01, 4.0
# What sites may miss of their best answers: of the optimality gap, and of accuracy as long as there is none.
_MISSED_LATER, _MISSED_FIRST = 0.1, 1e-3


@dataclass(frozen=True, eq=False)
class TriedPrices:
    """Prices tried so far and the sites' summed answers; "reject everybody" is always known besides.

    In memory the answers are summed over each bunch of sites: gains and rates then have one more axis after the
    first. ``bounds`` are the sites' summed values at these prices, without the requirements' support function;
    infinite where an answer proves nothing.
    """

    prices: Floats  # (t, groups, global rates)
    gains: Floats  # (t,): accuracy above rejecting everybody
    rates: Floats  # (t, groups, global rates)
    bounds: Floats  # (t,)

    @classmethod
    def empty(cls, groups: int, rates: int, *bunches: int) -> TriedPrices:
        """Nothing tried yet."""
        gains, prices = np.zeros((0, *bunches)), np.zeros((0, groups, rates))
        return cls(prices, gains, np.zeros((*gains.shape, groups, rates)), np.zeros(0))

    def joined_with(self, more: TriedPrices) -> TriedPrices:
        """Both together."""
        return TriedPrices(*(np.concatenate([getattr(self, f.name), getattr(more, f.name)]) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class _Incumbent:
    """The best mixture of the answers so far, and how much better anything could be."""

    value: float
    weights: Floats  # (t + 1,), in memory (t + 1, bunches); the first is that of rejecting everybody
    prices: Floats  # (groups, global rates): the master's, which support the mixture
    bound: float
    centre: Floats  # (groups, global rates): the prices that prove the bound
    best: int  # their number

    @property
    def optimality_gap(self) -> float:
        """What could still be won."""
        return self.bound - self.value

    @property
    def near_prices(self) -> Floats:
        """The master's prices within reach of the centre: few answers and a tiny tolerance drive them to millions."""
        reach = 1.0 + 2.0 * np.abs(self.centre)
        return np.clip(self.prices, self.centre - reach, self.centre + reach)

    @property
    def half_way(self) -> Floats:
        """Half-way from the centre to the master's prices."""
        return 0.5 * self.centre + 0.5 * self.near_prices


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A decomposition under way: what was tried, and all that follows from it, the same on every machine.

    ``required`` is what has to hold over all sites, with a tolerance of 1 where a ratio alone compares groups.
    ``rejecting``: whether every site may reject everybody.
    """

    required: Regions
    tried: TriedPrices
    rejecting: bool = True

    @cached_property
    def incumbent(self) -> _Incumbent:
        """The best mixture that meets the requirements (none: worth -infinity), and the best bound.

        Both are of requirements that may be missed by rounding: where prices are of 1e8, that is worth something. Where
        nothing known meets them, by what a certificate does not see.
        """

        def best(widened: float) -> Mixture:
            tried = self.tried
            return best_mixture(tried.gains, tried.rates, self.required, rejecting=self.rejecting, widened=widened)

        found, widened = best(ROUNDING), ROUNDING
        if not np.isfinite(found.value) and np.isfinite((wider := best(_MISSED_AT_MOST)).value):
            found, widened = wider, _MISSED_AT_MOST
        return _Incumbent(
            found.value, found.weights, found.prices, *_best_bound(self.tried, self._support_at_tried(widened))
        )

    @property
    def bounds(self) -> Floats:
        """No rule that meets the requirements but for rounding gains more than any of these, (t,)."""
        return np.asarray(self.tried.bounds + self._support_at_tried(ROUNDING))

    def _support_at_tried(self, widened: float) -> Floats:
        """Support function of the requirements at the prices tried, (t,), with an allowance for rounding."""
        prices = self.tried.prices
        return np.asarray(self.support_function(prices, widened) + _ROUNDED * np.abs(prices).sum(axis=(1, 2)))

    @property
    def limited(self) -> Booleans:
        """Which rates are within more than tolerances, (rates,)."""
        return np.asarray(self.required.limits.more_than_tolerances[0])

    @property
    def counts(self) -> Booleans:
        """Which groups have a part in a requirement on which rate, (groups, rates)."""
        return np.asarray(self.required.limited[0])

    def support_function(self, prices: Floats, widened: float = 0.0) -> Floats:
        """Support function of the requirements at prices (t, groups, rates), (t,); all may be missed by an amount."""
        if not self.required.limits.only_tolerances:
            return self.required.support_function(prices, widened)
        tolerance = np.where(self.required.compared, self.required.limits.tolerance[:, None], np.inf)[0]
        return support_of_tolerances(prices, tolerance + widened)

    def repaired(self, prices: Floats) -> Floats:
        """Prices (t, groups, rates) that may be worth a try: summing to 0 where tolerances are all that compares.

        Where a ratio is all there is, those above 0 sum to the ratio times those below: elsewhere the ratio is worth
        less, or the lowest rate would be 0.
        """
        limits, balanced = self.required.limits, zero_sum(prices, self.required.compared, 1)
        if limits.only_tolerances:
            return balanced
        found = np.where(self.limited, np.where(self.counts, prices, 0.0), balanced)
        alone = (limits.ratio[0] > 0) & ~limits.on_groups[0].any(axis=0) & (limits.tolerance[0] >= 1.0)
        for k in np.flatnonzero(alone):
            above, below = np.maximum(found[..., k], 0.0), np.maximum(-found[..., k], 0.0)
            up, down = above.sum(axis=1, keepdims=True), below.sum(axis=1, keepdims=True)
            level = 0.5 * (up / limits.ratio[0, k] + down) * ((up > 0) & (down > 0))
            found[..., k] = above * level * limits.ratio[0, k] / np.where(up > 0, up, 1.0)
            found[..., k] -= below * level / np.where(down > 0, down, 1.0)
        return np.asarray(found)


def _best_bound(tried: TriedPrices, support: Floats) -> tuple[float, Floats, int]:
    """The lowest bound proved, given the support function at the prices tried; its prices, and which these are."""
    bounds = tried.bounds + support
    best = int(np.argmin(bounds))
    return float(bounds[best]), tried.prices[best], best


@dataclass(frozen=True)
class Optimum:
    """The (u, v) of every cell, and the prices of the rates that prove how good it is."""

    u: Floats  # (sites, groups)
    v: Floats
    local_prices: Floats  # (sites, groups, local rates), per site's mass (mu in the paper)
    global_prices: Floats  # (groups, global rates) (lambda)
    rounds: int
    solver: str


def solve_exact(problem: Problem) -> Optimum | None:
    """Solve a problem to a certified gap, or return None where the decomposition did not get there."""
    return ExactSolver().solve(problem)


@dataclass(eq=False)
class ExactSolver:
    """A solver of problems that differ in their global requirements alone; it remembers what the sites answered.

    An answer meets the sites' local requirements whatever the global ones are, so it may be mixed for every problem
    (and at every looser local tolerance). The bound that prices prove is the sites' value at them plus the support
    function of the global requirements, so one answer bounds every problem too. Only the master's small program is
    solved anew; most problems need one or two fresh answers, where starting from nothing takes five to ten.
    """

    tried: TriedPrices | None = None
    answers: list[LocalAnswer] = field(default_factory=list)  # one for each of the prices tried
    mixed: set[int] = field(default_factory=set)  # answers that were part of an optimum
    tableau: Tableau | None = None
    target: float = _TARGET  # the optimality gap that is small enough

    def at_looser_tolerances(self) -> ExactSolver:
        """A solver at looser local tolerances: answers that were of use may be mixed there, but prove nothing."""
        if self.tried is None:
            return ExactSolver()
        kept, unproved = sorted(self.mixed), replace(self.tried, bounds=np.full(self.tried.bounds.shape, np.inf))
        unproved = TriedPrices(*(getattr(unproved, f.name)[np.array(kept, dtype=np.int64)] for f in fields(unproved)))
        return ExactSolver(unproved, [self.answers[i] for i in kept], set())

    def solve(self, problem: Problem) -> Optimum | None:
        """Solve one problem to a certified gap; None where that fails."""
        unpriced = np.zeros((problem.shape[1], len(problem.global_rates)))
        if not problem.over_all.limited.any():
            local = self._local(problem, problem.priced_gain(unpriced), 0.0)
            return Optimum(local.u, local.v, local.prices, unpriced, 1, "exact") if local.sound else None
        bunches = _bunches(problem)
        if self.tried is None:
            self.tried = TriedPrices.empty(*unpriced.shape, bunches.size)
        box = np.inf
        if not np.isfinite(self.tried.bounds).any():
            first, box = _first_prices(problem)
            if self._try(problem, first, _MISSED_FIRST) is None:
                return None
        rejecting = np.logical_and.reduceat(problem.rejecting, bunches)
        master, before = Master.start(problem.over_all.layout, rejecting), -np.inf
        more: TriedPrices | None = self.tried
        for done in range(1, _ROUNDS + 1):
            if more is None:
                return None
            far = done > 1 and not master.within  # answers that no gains were asked of have to bring it nearer
            master.add(more.gains, more.rates)
            if (far and not master.improves) or not master.maximise():
                if not master.within and self._impossible(problem):
                    raise InfeasibleError({})  # which conflict is found by their names (solvers.joint.conflict_of)
                return None
            if not master.within:  # answers for which the requirements alone count
                more = self._try(problem, master.prices.reshape(unpriced.shape), 0.0, gains=False)
                continue
            if (found := self._incumbent(problem, master)) is None:
                return None
            if found.optimality_gap <= self.target:
                local_prices = self.answers[found.best].prices
                return Optimum(*self._mixture(problem, found.weights), local_prices, found.centre, done, "exact")
            prices = _next_prices(problem, found, box, in_vain=found.value <= before)
            before, box = found.value, _BOX_GROWTH * box
            for _ in range(_RETREATS):
                more = self._try(problem, prices, _MISSED_LATER * found.optimality_gap)
                if more is not None:
                    break
                prices = 0.5 * (prices + found.centre)  # huge prices drown the sites' gains in rounding
        return None

    def _impossible(self, problem: Problem) -> bool:
        """Whether the last prices prove that every rule misses some requirement by more than a certificate lets pass.

        Of a program in floating point that ends without a rule that alone is proof.
        """
        assert self.tried is not None
        prices = self.tried.prices[-1]
        missed = LARGEST_VIOLATION * float(problem.units.max() / problem.units.min())
        local = local_bound(problem, *problem.priced_gain(prices, gains=False), self.answers[-1].prices, missed)
        bound = float(problem.site_mass @ local) + float(problem.over_all.support_function(prices[None], missed)[0])
        return bound < -_ROUNDED * float(np.abs(prices).sum())

    def _incumbent(self, problem: Problem, master: Master) -> _Incumbent | None:
        """The master's mixture and the best bound; None: the mixture does not meet the requirements after all."""
        assert self.tried is not None
        weights = master.weights
        if np.max(problem.over_all.excess(np.einsum("tb,tbak->ak", weights[1:], self.tried.rates)[None])) > _ROUNDING:
            return None
        value = float(np.sum(weights[1:] * self.tried.gains))
        prices = problem.over_all.repaired(master.prices.reshape(1, *self.tried.prices.shape[1:]))[0]
        return _Incumbent(
            value, weights, prices, *_best_bound(self.tried, problem.over_all.support_function(self.tried.prices))
        )

    def _try(self, problem: Problem, prices: Floats, missed: float, *, gains: bool = True) -> TriedPrices | None:
        """Get the sites' answers at some prices and remember them; None where they are not sound.

        One mixture of all has few rounds, so that the best answers are worth their time; else nearly the best will do.
        Answers for which gains do not count prove nothing.
        """
        assert self.tried is not None
        bunches = _bunches(problem)
        missed = missed if bunches.size > 1 else 0.0
        priced = problem.priced_gain(prices, gains=gains)
        local = self._local(problem, priced, missed)
        if not local.sound:
            return None
        gained = np.add.reduceat(problem.site_gains(local.u, local.v), bunches)
        rates = np.add.reduceat(problem.site_shares(local.u, local.v), bunches)
        # What the sites gain at their optimum is also the bound; the certificate proves it in the end.
        bound = float(gained.sum() - np.sum(prices * rates.sum(axis=0)))
        if missed:
            bound = float(problem.site_mass @ local_bound(problem, *priced, local.prices))
        new = TriedPrices(prices[None], gained[None], rates[None], np.array([bound if gains else np.inf]))
        self.tried = self.tried.joined_with(new)
        self.answers.append(replace(local, tableau=None))
        return new

    def _local(self, problem: Problem, priced: tuple[Floats, Floats], missed: float) -> LocalAnswer:
        """Solve the sites' problems from where the last solve ended."""
        local = solve_local(problem, *priced, self.tableau, missed)
        self.tableau = local.tableau if local.sound else None
        return local

    def _mixture(self, problem: Problem, weights: Floats) -> tuple[Floats, Floats]:
        """The mixed (u, v); the master's first answer rejects everybody and adds nothing."""
        part = np.flatnonzero((weights[1:] > 0).any(axis=1)).tolist()
        self.mixed.update(part)
        each = np.diff(_bunches(problem), append=problem.shape[0])
        u = v = np.zeros_like(self.answers[0].u)
        for i in part:
            weight = np.repeat(weights[i + 1], each)[:, None]
            u, v = u + weight * self.answers[i].u, v + weight * self.answers[i].v
        return u, v


def _next_prices(problem: Problem, found: _Incumbent, box: float, *, in_vain: bool) -> Floats:
    """Prices half-way to the master's, or after a round in vain these; where they are outside the box, its edge."""
    edge = np.clip(found.prices, found.centre - box, found.centre + box)
    if np.any(edge != found.prices):
        return np.asarray(problem.over_all.repaired(edge[None])[0])
    return found.prices if in_vain else np.asarray(problem.over_all.repaired(found.half_way[None])[0])


def _first_prices(problem: Problem) -> tuple[Floats, float]:
    """Prices to begin with, and how far from the best the second may be.

    Where sites are many, the best for a sample of them, which save rounds over all. It is drawn at random, always the
    same: every tenth site, say, could be of one kind.
    """
    sites, groups = problem.shape
    if sites >= _SAMPLED_FROM:
        sample = problem.of_sites(np.sort(np.random.default_rng(0).choice(sites, _SAMPLE, replace=False)))
        found = ExactSolver(target=_SAMPLE_TARGET).solve(sample) if sample.cells.mass.any() else None
        if found is not None:
            return problem.over_all.repaired(found.global_prices[None])[0], _FIRST_BOX * float(
                np.max(problem.row_gain[1])
            )
    return np.zeros((groups, len(problem.global_rates))), np.inf


def _bunches(problem: Problem) -> Indices:
    """The first site of every bunch."""
    sites, groups = problem.shape
    free = (groups - 1) * len(problem.global_rates)
    bunches = min(sites, _MOST_BUNCHES, max(1, _BUNCHES_EACH * (free - 2)))
    return np.arange(bunches) * sites // bunches
