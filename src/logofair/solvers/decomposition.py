"""The exact optimum by decomposition: prices of the global rates out, the clients' summed answers back.

Dantzig-Wolfe: the master mixes the answers so far; its own prices are the next to try, and going half-way to them from
the best prices so far halves the number of rounds. Every price vector proves an upper bound on accuracy, so the
difference to the mixture's accuracy is a certificate at every moment.

:class:`Decomposition` is the state of a federation's server, which tries batches of prices
(:mod:`logofair.solvers.trials`) and asks its clients by message. In memory (:func:`solve_exact` for one problem, a
frontier through one :class:`ExactSolver` for many tolerances) it is :class:`ContinuedDecomposition`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.solvers.local import LocalAnswer, solve_local
from logofair.solvers.problem import Problem, gap_of, tolerances_worth, zero_sum
from logofair.solvers.rational import best_mixture
from logofair.solvers.simplex import Corners, Tableau, maximise, refactorise, start

# Where a solve in memory stops: well below the 1e-6 of a certificate, so that rounding in the stored policy has room.
TARGET = 2e-7
_ROUNDS = 200
_RETREATS = 6
_NEGATIVE = -1e-11  # a weight below this is not one of rounding
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class TriedPrices:
    """Prices tried so far and the clients' summed answers; "reject everybody" is always known besides.

    ``bounds`` are the clients' summed values at these prices, without what the tolerances are worth at them; infinite
    where an answer proves nothing.
    """

    prices: Floats  # (t, groups, global rates)
    gains: Floats  # (t,): accuracy above rejecting everybody
    rates: Floats  # (t, groups, global rates)
    bounds: Floats  # (t,)

    @classmethod
    def none(cls, groups: int, rates: int) -> TriedPrices:
        """Nothing tried yet."""
        empty = np.zeros((0, groups, rates))
        return cls(empty, np.zeros(0), empty, np.zeros(0))

    def and_also(self, more: TriedPrices) -> TriedPrices:
        """Both together."""
        return TriedPrices(*(np.concatenate([getattr(self, f.name), getattr(more, f.name)]) for f in fields(self)))

    def only(self, which: Indices) -> TriedPrices:
        """Some of them."""
        return TriedPrices(*(getattr(self, f.name)[which] for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Incumbent:
    """The best mixture of the answers so far, and how much better anything could be."""

    value: float
    weights: Floats  # (t + 1,); the first is that of rejecting everybody
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

    def half_way(self, counts: Booleans) -> Floats:
        """Half-way from the centre to the master's prices; ``counts`` says which groups do, (groups, rates)."""
        return 0.5 * self.centre + 0.5 * zero_sum(self.near_prices, counts, 0)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A decomposition under way: what was tried, and all that follows from it, the same on every machine.

    ``tolerance`` is that of every group and global rate, infinite where a group does not count.
    """

    tolerance: Floats  # (groups, global rates)
    tried: TriedPrices

    @cached_property
    def incumbent(self) -> Incumbent:
        """The best mixture within the tolerances, and the best bound."""
        found = best_mixture(self.tried.gains, self.tried.rates, self.tolerance)
        return Incumbent(found.value, found.weights, found.prices, *_best_bound(self.tried, self.tolerance))


def _best_bound(tried: TriedPrices, tolerance: Floats) -> tuple[float, Floats, int]:
    """The lowest bound proved so far, the prices that prove it and their number."""
    bounds = tried.bounds + tolerances_worth(tried.prices, tolerance)
    best = int(np.argmin(bounds))
    return float(bounds[best]), tried.prices[best], best


@dataclass(frozen=True, eq=False)
class ContinuedDecomposition:
    """A decomposition in memory: each master goes on from the one before, in floating point.

    That takes a pivot or two where :class:`Decomposition` begins anew, and may fail where answers are nearly equal.
    """

    tolerance: Floats  # (groups, global rates)
    tried: TriedPrices
    tableau: Tableau  # from which the master goes on
    before: Incumbent | None = None  # of the round before

    @classmethod
    def start(cls, tolerance: Floats, tried: TriedPrices) -> ContinuedDecomposition:
        """Begin with the master that rejects everybody."""
        groups, rates = tolerance.shape
        family = np.tile(np.arange(rates), groups)
        high = tolerance.reshape(1, -1)
        low = np.where(np.isfinite(high), 0.0, -np.inf)
        tableau = start(low, high, np.ones_like(high), family, np.arange(groups * rates).reshape(1, -1))
        return cls(tolerance, tried, tableau)

    def take(self, more: TriedPrices) -> ContinuedDecomposition:
        """The state once more was tried."""
        found, tableau = self._master
        return ContinuedDecomposition(self.tolerance, self.tried.and_also(more), tableau, found)

    @property
    def incumbent(self) -> Incumbent | None:
        """The best mixture within the tolerances, and the best bound; None: the master has failed."""
        return self._master[0]

    @cached_property
    def _master(self) -> tuple[Incumbent | None, Tableau]:
        """The incumbent, and the tableau that the master ends with."""
        tableau = self.tableau.copy()
        mixed = _mix(self.tried, self.tolerance, tableau)
        if mixed is None or self._excess(mixed[1]) > _ROUNDING:
            return None, tableau
        return Incumbent(*mixed, *_best_bound(self.tried, self.tolerance)), tableau

    def next_prices(self, found: Incumbent) -> Floats:
        """Prices to try next: half-way from the centre to the master's, or the master's own after a round in vain."""
        if self.before is not None and found.value <= self.before.value:
            return found.prices
        return found.half_way(np.isfinite(self.tolerance))

    def _excess(self, weights: Floats) -> float:
        """Largest excess of a mixture's gaps over the tolerances."""
        gaps = gap_of(np.tensordot(weights[1:], self.tried.rates, 1), np.isfinite(self.tolerance), axis=0)
        return float(np.max(gaps - self.tolerance.min(axis=0), initial=0.0))


def _mix(tried: TriedPrices, tolerance: Floats, tableau: Tableau) -> tuple[float, Floats, Floats] | None:
    """Best mixture of the answers: its gain, the weights, and the prices (groups, rates) that support it.

    Pivots the tableau in place. None where nearly equal answers have made the basis too ill-conditioned to be trusted.
    """
    counts = np.isfinite(tolerance)
    gains = np.append(0.0, tried.gains)
    columns = np.concatenate([np.zeros((1, *tolerance.shape)), np.where(counts, tried.rates, 0.0)])
    columns = columns.reshape(gains.size, -1)

    def price(prices: Floats, programs: Indices, counts: Booleans) -> Corners:
        del programs, counts
        priced = gains - columns @ prices[0]
        best = np.argmax(priced)
        at = np.array([[float(best)]])
        return Corners(gains[best].reshape(1, 1), priced[best].reshape(1, 1), columns[best].reshape(1, 1, -1), at, at)

    maximise(tableau, price)
    sound = refactorise(tableau) and tableau.done.all()
    corner = tableau.kind[0] == 0
    share = tableau.solution[0, corner]
    if not sound or np.min(share, initial=0.0) < _NEGATIVE:
        return None
    weights = np.zeros(gains.size)
    # Basic corners remember the number of their answer in u; the starting corner is answer 0.
    np.add.at(weights, tableau.u[0, corner].astype(int), np.maximum(share, 0.0))
    weights /= weights.sum()
    return float(weights @ gains), weights, zero_sum(tableau.prices()[1].reshape(tolerance.shape), counts, 0)


@dataclass(frozen=True)
class Optimum:
    """The (u, v) of every cell, and the prices of the rates that prove how good it is."""

    u: Floats  # (clients, groups)
    v: Floats
    local_prices: Floats  # (clients, groups, local rates), per client's mass (mu in the paper)
    global_prices: Floats  # (groups, global rates) (lambda)
    rounds: int
    solver: str


def solve_exact(problem: Problem) -> Optimum | None:
    """Solve a problem to a certified gap, or return None where the decomposition did not get there."""
    if problem.local_limits is not None or problem.global_limits is not None:
        return None
    return ExactSolver().solve(problem)


@dataclass(eq=False)
class ExactSolver:
    """A solver of problems that differ in their global tolerances alone; it remembers what the clients answered.

    An answer keeps the clients' local tolerances whatever the global ones are, so it may be mixed for every problem
    (and at every looser local tolerance). The bound that prices prove is the clients' value at them plus what the
    global tolerances are worth there, so one answer bounds every problem too. Only the master's small program is solved
    anew; most problems need one or two fresh answers, where starting from nothing takes five to ten.
    """

    tried: TriedPrices | None = None
    answers: list[LocalAnswer] = field(default_factory=list)  # one for each of the prices tried
    mixed: set[int] = field(default_factory=set)  # answers that were part of an optimum
    tableau: Tableau | None = None

    def looser(self) -> ExactSolver:
        """A solver at a looser local tolerance: answers that were of use may be mixed there, but prove nothing."""
        if self.tried is None:
            return ExactSolver()
        kept = sorted(self.mixed)
        tried = self.tried.only(np.array(kept, dtype=np.int64))
        unproved = replace(tried, bounds=np.full(len(kept), np.inf))
        return ExactSolver(unproved, [self.answers[i] for i in kept], set())

    def solve(self, problem: Problem) -> Optimum | None:
        """Solve one problem to a certified gap; None where that fails."""
        unpriced = np.zeros((problem.shape[1], len(problem.global_rates)))
        if not problem.global_counts.any():
            local = self._local(problem, unpriced)
            return Optimum(local.u, local.v, local.prices, unpriced, 1, "exact") if local.sound else None
        if self.tried is None:
            self.tried = TriedPrices.none(*unpriced.shape)
        if not np.isfinite(self.tried.bounds).any() and self._try(problem, unpriced) is None:
            return None
        tolerance = np.where(problem.global_counts, problem.global_tolerance, np.inf)
        state = ContinuedDecomposition.start(tolerance, self.tried)
        for done in range(1, _ROUNDS + 1):
            found = state.incumbent
            if found is None:
                return None
            if found.optimality_gap <= TARGET:
                local_prices = self.answers[found.best].prices
                return Optimum(*self._mixture(found.weights), local_prices, found.centre, done, "exact")
            more = self._try_near(problem, state.next_prices(found), found.centre)
            if more is None:
                return None
            state = state.take(more)
        return None

    def _try_near(self, problem: Problem, prices: Floats, centre: Floats) -> TriedPrices | None:
        """Try prices, or others nearer to the best ones known: huge prices drown the clients' gains in rounding."""
        for _ in range(_RETREATS):
            tried = self._try(problem, prices)
            if tried is not None:
                return tried
            prices = 0.5 * (prices + centre)
        return None

    def _try(self, problem: Problem, prices: Floats) -> TriedPrices | None:
        """Get the clients' best answer at some prices, and remember it; None where it is not sound."""
        assert self.tried is not None
        local = self._local(problem, prices)
        if not local.sound:
            return None
        gain = problem.accuracy(local.u, local.v) - problem.baseline
        rates = problem.global_shares(local.u, local.v)
        # What the clients gain at their optimum is also the bound; the certificate proves it in the end.
        bound = gain - float(np.sum(prices * rates))
        new = TriedPrices(prices[None], np.array([gain]), rates[None], np.array([bound]))
        self.tried = self.tried.and_also(new)
        self.answers.append(replace(local, tableau=None))
        return new

    def _local(self, problem: Problem, prices: Floats) -> LocalAnswer:
        """Solve the clients' problems from where the last solve ended."""
        local = solve_local(problem, *problem.priced_gain(prices), self.tableau)
        self.tableau = local.tableau if local.sound else None
        return local

    def _mixture(self, weights: Floats) -> tuple[Floats, Floats]:
        """The mixed (u, v); the master's first answer rejects everybody and adds nothing."""
        part = np.flatnonzero(weights[1:] > 0).tolist()
        self.mixed.update(part)
        none = np.zeros_like(self.answers[0].u)
        u = sum((weights[i + 1] * self.answers[i].u for i in part), none)
        return u, sum((weights[i + 1] * self.answers[i].v for i in part), none)
