"""The batched simplex: random small programs with listed corners against scipy's linprog."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from logofair.solvers.simplex import Corners, maximise, refactorise, start
from support.examples import examples
from support.oracles import HIGHS

modest = examples(60)


@dataclass(frozen=True)
class Programs:
    """A batch of programs of one shape whose corners are listed: block b touches every rate of the columns it owns."""

    gain: np.ndarray  # (programs, blocks, corners); corner 0 rejects: gain and rates 0
    rates: np.ndarray  # (programs, blocks, corners, rates a block touches)
    tolerance: np.ndarray  # (programs, rates)
    family: np.ndarray  # (rates,)
    touched: np.ndarray  # (blocks, rates a block touches)
    low: np.ndarray | None = None  # (programs, rates), of rates less slope times floor; None: 0 under a tolerance
    slope: np.ndarray | None = None  # (programs, rates); None: 1

    @property
    def lowest(self):
        """The lower ends of the rows."""
        return np.where(np.isfinite(self.tolerance), 0.0, -np.inf) if self.low is None else self.low

    @property
    def slopes(self):
        """How often each row takes its floor off."""
        return np.ones_like(self.tolerance) if self.slope is None else self.slope

    def begun(self, *, rejecting=False):
        """A tableau at the best corners, or one that rejects everybody."""
        programs = np.arange(self.gain.shape[0])
        corners = self.price(np.zeros_like(self.tolerance), programs, np.ones(programs.size, dtype=bool))
        if rejecting:
            none = np.zeros_like(corners.gain)
            corners = Corners(none, none, np.zeros_like(corners.rates), none, none)
        return start(self.lowest, self.tolerance, self.slopes, self.family, self.touched, corners)

    def price(self, prices, programs, gains):
        """The best corner of every block; its number is remembered in u."""
        own = prices[:, self.touched]  # (programs, blocks, touched)
        counted = np.where(gains[:, None, None], self.gain[programs], 0.0)
        priced = counted - np.einsum("nbcr,nbr->nbc", self.rates[programs], own)
        best = priced.argmax(axis=2)
        pick = np.ix_(np.arange(programs.size), np.arange(best.shape[1]))
        at = (*pick, best)
        number = best.astype(float)
        return Corners(self.gain[programs][at], priced[at], self.rates[programs][at], number, number)

    def best(self, program):
        """Optimal gain of one program by HiGHS; None where nothing is within its rows."""
        blocks, corners = self.gain.shape[1:]
        n, families = blocks * corners, int(self.family.max(initial=-1)) + 1
        rows, limits = [], []
        for rate in range(self.tolerance.shape[1]):
            row = np.zeros(n + families)
            row[n + self.family[rate]] = -self.slopes[program, rate]
            for block, place in np.argwhere(self.touched == rate):
                row[block * corners : (block + 1) * corners] = self.rates[program, block, :, place]
            for sign, end in ((1.0, self.tolerance[program, rate]), (-1.0, self.lowest[program, rate])):
                if np.isfinite(end):
                    rows.append(sign * row)
                    limits.append(sign * end)
        equality = np.hstack([np.kron(np.eye(blocks), np.ones(corners)), np.zeros((blocks, families))])
        bounds = [(0, None)] * n + [(None, None)] * families
        aim = np.concatenate([-self.gain[program].ravel(), np.zeros(families)])
        upper = (np.array(rows), limits) if rows else (None, None)
        solved = linprog(aim, *upper, equality, np.ones(blocks), bounds, "highs", options=HIGHS)
        assert solved.status in (0, 2)
        return None if solved.status == 2 else -solved.fun

    def totals(self, tableau, program):
        """Gain and rates of the mixture a tableau holds, recomputed from the listed corners, and its weights."""
        gain, rates = 0.0, np.zeros(self.tolerance.shape[1])
        weights = np.zeros(self.gain.shape[1])
        for kind, weight, number in zip(
            tableau.kind[program], tableau.solution[program], tableau.u[program], strict=True
        ):
            if kind < tableau.blocks:
                corner = int(number)
                gain += weight * self.gain[program, kind, corner]
                rates[self.touched[kind]] += weight * self.rates[program, kind, corner]
                weights[kind] += weight
        return gain, rates, weights


def random_programs(seed, *, blocks=None, families=None, programs=3):
    """Own rates for every block (a site's groups), or one block that touches all (the server)."""
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, 5)) if blocks is None else blocks
    families = int(rng.integers(1, 4)) if families is None else families
    corners = int(rng.integers(2, 7))
    groups = blocks if blocks > 1 else int(rng.integers(2, 5))
    family = np.tile(np.arange(families), groups)
    own = np.arange(groups * families).reshape((groups, families) if blocks > 1 else (1, -1))
    gain, rates = rng.normal(size=(programs, blocks, corners)), rng.random((programs, blocks, corners, own.shape[1]))
    if rng.random() < 0.3:
        gain, rates = np.round(gain, 1), np.round(rates, 1)  # ties
    gain[:, :, 0], rates[:, :, 0] = 0.0, 0.0
    tolerance = np.tile(rng.choice([0.0, 1e-6, 0.05, 0.3, np.inf], (programs, families)), groups)
    return Programs(gain, rates, tolerance, family, own)


def gap_of(programs, program, rates):
    """Largest excess of a family's spread over its tolerance."""
    excess = [0.0]
    for family in range(int(programs.family.max()) + 1):
        members = programs.family == family
        tolerance = programs.tolerance[program, members][0]
        if np.isfinite(tolerance):
            excess.append(np.ptp(rates[members]) - tolerance)
    return max(excess)


@modest
@given(st.integers(0, 10**9), st.booleans())
def test_random_programs_have_the_optimum_that_highs_finds(seed, rejecting):
    programs = random_programs(seed)
    tableau = maximise(programs.begun(rejecting=rejecting), programs.price)
    assert tableau.done.all()
    for program in range(programs.gain.shape[0]):
        gain, rates, weights = programs.totals(tableau, program)
        assert gain == pytest.approx(programs.best(program), abs=1e-8)
        np.testing.assert_allclose(weights, 1.0, atol=1e-9)
        assert gap_of(programs, program, rates) <= 1e-9


def outside(tableau, program):
    """How far a basic slack is outside its ends."""
    kind, solution = tableau.kind[program], tableau.solution[program]
    rate = kind - tableau.blocks
    slack = (rate >= 0) & (rate < tableau.low.shape[1])
    low, high = tableau.low[program][rate[slack]], tableau.high[program][rate[slack]]
    return float(np.max(np.maximum(low - solution[slack], solution[slack] - high), initial=0.0))


@modest
@given(st.integers(0, 10**9))
def test_rows_of_any_kind_are_met_at_the_optimum_or_nothing_meets_them(seed):
    rng, programs = np.random.default_rng(seed), random_programs(seed)
    shape = programs.tolerance.shape
    slope = rng.choice([0.0, 1.0, 2.0], shape)
    low = np.where(rng.random(shape) < 0.5, -np.inf, rng.choice([0.0, 0.1, 0.3], shape))
    high = np.where(rng.random(shape) < 0.5, np.inf, rng.choice([0.3, 0.5, 0.8], shape))
    programs = replace(programs, low=low, tolerance=high, slope=slope)
    tableau = maximise(programs.begun(), programs.price)
    assert tableau.done.all()
    for program in range(shape[0]):
        best = programs.best(program)
        assert (outside(tableau, program) <= 1e-9) == (best is not None)
        if best is not None:
            assert programs.totals(tableau, program)[0] == pytest.approx(best, abs=1e-8)


@modest
@given(st.integers(0, 10**9))
def test_prices_prove_that_no_mixture_gains_more(seed):
    programs = random_programs(seed)
    tableau = maximise(programs.begun(), programs.price)
    _, prices = tableau.prices()
    for program in range(programs.gain.shape[0]):
        counts = np.isfinite(programs.tolerance[program])
        price = np.where(counts, prices[program], 0.0)
        for family in np.unique(programs.family):
            assert price[programs.family == family].sum() == pytest.approx(0.0, abs=1e-7)
        own = np.einsum("bcr,br->bc", programs.rates[program], price[programs.touched])
        tolerance = np.where(counts, programs.tolerance[program], 0.0)
        bound = (programs.gain[program] - own).max(axis=1).sum() + 0.5 * tolerance @ np.abs(price)
        assert bound == pytest.approx(programs.best(program), abs=1e-7)


@modest
@given(st.integers(0, 10**9))
def test_refactorising_changes_nothing_but_rounding(seed):
    programs = random_programs(seed)
    tableau = maximise(programs.begun(), programs.price)
    before = tableau.solution.copy()
    assert refactorise(tableau)
    np.testing.assert_allclose(tableau.solution, before, rtol=0, atol=1e-9)


@modest
@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_solved_batch_continues_to_the_optimum_of_new_gains(seed, other):
    programs = random_programs(seed, blocks=2)
    tableau = maximise(programs.begun(), programs.price)
    gain = np.random.default_rng(other).normal(size=programs.gain.shape)
    gain[:, :, 0] = 0.0
    changed = Programs(gain, programs.rates, programs.tolerance, programs.family, programs.touched)
    block = np.minimum(tableau.kind, tableau.blocks - 1)
    pick = np.arange(gain.shape[0])[:, None]
    tableau.gain = np.where(tableau.kind < tableau.blocks, gain[pick, block, tableau.u.astype(int)], 0.0)
    maximise(tableau, changed.price)
    assert tableau.done.all()
    for program in range(gain.shape[0]):
        assert changed.totals(tableau, program)[0] == pytest.approx(changed.best(program), abs=1e-8)


def test_a_batch_gives_each_program_the_answer_it_has_alone():
    programs = random_programs(1, blocks=3, families=2, programs=40)
    together = maximise(programs.begun(), programs.price)
    for program in range(0, 40, 5):
        one = slice(program, program + 1)
        alone = Programs(
            programs.gain[one], programs.rates[one], programs.tolerance[one], programs.family, programs.touched
        )
        single = maximise(alone.begun(), alone.price)
        assert programs.totals(together, program)[0] == pytest.approx(alone.totals(single, 0)[0], abs=1e-9)


def test_too_few_pivots_are_not_called_done():
    programs = random_programs(2, blocks=4, families=2)
    tableau = maximise(programs.begun(), programs.price, pivots=1)
    assert not tableau.done.all()


def test_two_corners_by_hand():
    # Block 0 gains 1 at rate 1, block 1 loses 0.4 at rate 1; within 0.25 of each other: rates 1 and 0.75.
    gain = np.array([[[0.0, 1.0], [0.0, -0.4]]])
    rates = np.array([[[[0.0], [1.0]], [[0.0], [1.0]]]])
    programs = Programs(gain, rates, np.full((1, 2), 0.25), np.zeros(2, dtype=int), np.array([[0], [1]]))
    tableau = maximise(programs.begun(), programs.price)
    assert programs.totals(tableau, 0)[0] == pytest.approx(1 - 0.4 * 0.75)
    np.testing.assert_allclose(tableau.prices()[1], [[0.4, -0.4]], atol=1e-9)
