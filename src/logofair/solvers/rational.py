"""The master in whole numbers: the best mixture of the sites' answers and its prices, the same on every machine.

A federation's sites check a server by doing its sums again, and with rounding two machines may not choose the same one
of several optimal prices. Here nothing is rounded before the end. The program is that of
:mod:`logofair.solvers.simplex` with one block::

    max  sum_j gain_j x_j    s.t.  sum_j x_j = 1,   x >= 0
                                   sum_j rate_ij x_j - lowest_f = s_i,   low_i <= s_i <= high_i

for every row i of family f; ``lowest_f`` is free, and taken off where a row compares. A ratio is a row too: a rate
times the ratio is at most the lowest one. Where no mixture is within all limits, what lies outside is driven in as far
as it goes, and the prices are those of that (phase one). Gains, rates and limits are counted in steps of 2^-60, and the
inverse of the basis is kept as integers over its determinant (Edmonds, 1967): every division leaves nothing over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.solvers.limits import Regions

_Wholes = npt.NDArray[np.object_]  # Python's integers, of any size

_BITS = 60  # a step is 2^-60: finer than the rounding of any total of order 1
_ONE = 1 << _BITS
# Rows are widened by about a hundredth of a certificate's precision, as the master in memory does: answers that are
# equal but for rounding can then be mixed at tolerance 0, and no price has to tell rows whose chances are next to 0
# from those at 0.
ROUNDING = 2.0**-36


@dataclass(frozen=True, eq=False)
class Mixture:
    """The best mixture of some answers: what it gains, its weights, and the prices of the rates that support it.

    Where no mixture meets the requirements the value is -infinity, the weights are those of one that misses them by
    least, and the prices say in which direction answers would help.
    """

    value: float
    weights: Floats  # (t + 1,); the first is that of rejecting everybody
    prices: Floats  # (groups, rates); 0 where a group does not count


def best_mixture(
    gains: Floats,
    rates: Floats,
    required: Regions,
    *,
    rejecting: bool = True,
    widened: float = ROUNDING,
) -> Mixture:
    """The mixture of answers, and of rejecting everybody, that gains most within the requirements.

    Gains are (t,), rates (t, groups, rates); nothing may be required of totals. ``rejecting`` says whether everybody
    may be rejected. Every requirement may be missed by as much as is ``widened``.
    Every number that is returned is the exact one, rounded once.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.solvers.limits import Limits, Regions
    >>> rates = np.array([[[0.5], [0.25]], [[0.25], [0.5]]])
    >>> required = Regions(Limits.within(np.array([[0.125]]), 2), np.ones((1, 2, 1), dtype=bool))
    >>> found = best_mixture(np.array([0.3, 0.2]), rates, required)
    >>> found.weights.round(9).tolist(), round(found.value, 9), found.prices.round(9).tolist()
    ([0.0, 0.75, 0.25], 0.275, [[0.2], [-0.2]])
    """
    rows, shape = list(_rows(required, widened)), required.defined.shape[1:]
    place, times = np.array([row.place for row in rows], dtype=np.int64), np.array([row.times for row in rows])
    answers = rates.reshape(gains.size, -1)[:, place] * times
    if rejecting:
        answers, gains = np.concatenate([np.zeros((1, place.size)), answers]), np.append(0.0, gains)
    columns = np.concatenate([np.ones((gains.size, 1), dtype=object), _steps(answers)], axis=1)
    program = _Program.start(columns, _steps(gains), rows)
    while (entering := program.entering()) is not None:
        program.enter(entering)
    value, weights, prices = program.optimum()
    every = np.zeros(shape[0] * shape[1])
    np.add.at(every, place, times * prices)
    weights = weights if rejecting else np.append(0.0, weights)
    return Mixture(value, weights, every.reshape(shape))


@dataclass(frozen=True)
class _Row:
    """One row: ``times`` the rate at a place, less the lowest of its family (-1: of none), between two limits."""

    place: int
    times: float
    family: int
    low: float
    high: float


def _rows(required: Regions, widened: float) -> Iterator[_Row]:
    """The requirements as rows: gaps first, then ratios, then floors and ceilings."""
    compared, limits = required.compared[0], required.limits
    tolerance, rates = limits.tolerance[0], compared.shape[1]
    for group, k in np.argwhere(compared).tolist():
        yield _Row(group * rates + k, 1.0, k, 0.0, float(tolerance[k]) + widened)
    for group, k in np.argwhere(compared & (limits.ratio > 0)).tolist():
        yield _Row(group * rates + k, float(limits.ratio[0, k]), k, -np.inf, widened)
    for group, k in np.argwhere(np.isfinite(limits.least[0]) | np.isfinite(limits.most[0])).tolist():
        low, high = float(limits.least[0, group, k]) - widened, float(limits.most[0, group, k]) + widened
        ends = [(low, high)] if low <= high else [(low, np.inf), (-np.inf, high)]  # which contradict each other
        yield from (_Row(group * rates + k, 1.0, -1, *pair) for pair in ends)


def _steps(numbers: Floats) -> _Wholes:
    """Numbers as integers, in steps."""
    rounded = np.rint(np.ldexp(numbers, _BITS))
    return np.array([int(each) for each in rounded.ravel().tolist()], dtype=object).reshape(rounded.shape)


@dataclass(eq=False)
class _Program:
    """A basis of the program; its columns are the answers', then one slack for each row, then the lowest rates.

    A slack is what a row lies above its lower limit, or below its upper one where it has no lower (``sign`` is that of
    its column), at most ``width`` (-1: without end).
    """

    columns: _Wholes  # of the answers, (answers, 1 + rows)
    gains: _Wholes  # (answers,)
    sign: _Wholes  # (rows,)
    ends: _Wholes  # the limit that slacks are counted from, (rows,)
    width: _Wholes  # (rows,)
    basic: Indices  # the variable of every row; a lowest rate never leaves
    adjugate: _Wholes  # inverse of the basis times its determinant
    determinant: int
    at_upper: Booleans  # slacks out of the basis that are at their most, (rows,)
    values: _Wholes = field(init=False)  # of the basic variables, times the determinant
    outside: _Wholes = field(init=False)  # which way each has to go to be within its limits: 1 up, -1 down, 0 it is
    prices: _Wholes = field(init=False)  # of the rows, times the determinant
    idle: int = 0  # pivots in a row that gained nothing

    def __post_init__(self) -> None:
        self._update_basis()

    @classmethod
    def start(cls, columns: _Wholes, gains: _Wholes, rows: list[_Row]) -> _Program:
        """The first answer alone: basic besides are the lowest rate of each family and the slacks of its other rows."""
        answers, size = columns.shape
        low, high = (np.array([getattr(row, end) for row in rows]) for end in ("low", "high"))
        from_low = np.isfinite(low)
        both = from_low & np.isfinite(high)
        sign = np.where(from_low, -1, 1).astype(object)
        ends = _steps(np.where(from_low, low, np.where(np.isfinite(high), high, 0.0)))
        width = np.where(both, _steps(np.where(both, high, 0.0)) - _steps(np.where(both, low, 0.0)), -1)
        family = [row.family for row in rows]
        families = list(dict.fromkeys(each for each in family if each >= 0))
        basic, inverse = np.zeros(size, dtype=np.int64), np.zeros((size, size), dtype=object)
        inverse[0, 0] = 1
        for i, each in enumerate(family):
            first = family.index(each)
            if each >= 0 and first == i:
                basic[1 + i] = answers + len(rows) + families.index(each)
                inverse[1 + i, 0], inverse[1 + i, 1 + i] = columns[0, 1 + i], -1
                continue
            basic[1 + i] = answers + i
            inverse[1 + i, 0], inverse[1 + i, 1 + i] = -columns[0, 1 + i] * sign[i], sign[i]
            if each >= 0:
                inverse[1 + i, 0] += columns[0, 1 + first] * sign[i]
                inverse[1 + i, 1 + first] = -sign[i]
        return cls(columns, gains, sign, ends, width, basic, inverse, 1, np.zeros(len(rows), dtype=bool))

    @property
    def feasible(self) -> bool:
        """Whether everything is within its limits."""
        return not self.outside.any()

    def _update_basis(self) -> None:
        """Work out values and prices of the basis; only getting inside counts as long as something is outside."""
        answers = len(self.columns)
        self.values = self.adjugate @ np.append(1, self.ends - np.where(self.at_upper, self.sign * self.width, 0))
        most = self._most() * self.determinant
        self.outside = np.where(self.values < 0, 1, 0) - np.where((most >= 0) & (self.values > most), 1, 0)
        self.outside = np.where(self.basic >= answers + self.width.size, 0, self.outside)
        if self.feasible:
            mixed = np.flatnonzero(self.basic < answers)
            self.prices = self.gains[self.basic[mixed]] @ self.adjugate[mixed]
        else:
            self.prices = self.outside @ self.adjugate

    def _most(self) -> _Wholes:
        """The most of every basic variable; negative: without end."""
        answers, slacks = len(self.columns), self.width.size
        is_slack = (self.basic >= answers) & (self.basic < answers + slacks)
        if not slacks:
            return np.full(self.basic.size, -1, dtype=object)
        return np.where(is_slack, self.width[np.clip(self.basic - answers, 0, slacks - 1)], -1)

    def entering(self) -> int | None:
        """The variable that promises most over all it can move; None: the basis is optimal.

        It is looked for in floating point and confirmed exactly. After many pivots that gained nothing it is the first
        one that promises anything (Bland), so that they end.
        """
        stuck = self.idle > len(self.prices)
        if not stuck:
            # Row by row: nothing that machines could add up in another order.
            columns, gains, sign, reach = self._in_floats
            prices = np.array([int(price) / self.determinant for price in self.prices])
            rough = gains.copy() if self.feasible else np.zeros_like(gains)
            for price, row in zip(prices, columns, strict=True):
                rough -= price * row
            slack = -sign * prices[1:]
            rough = np.concatenate([rough, np.where(self.at_upper, -slack, slack) * reach])
            rough[self.basic[self.basic < rough.size]] = 0.0
            best = int(np.argmax(rough))
            if self._merits(np.array([best]))[0] > 0:
                return best
        merits = self._merits(np.arange(len(self.columns) + self.width.size))
        best = int(np.argmax(merits > 0 if stuck else merits))
        return best if merits[best] > 0 else None

    def _merits(self, variables: Indices) -> _Wholes:
        """What some answers and slacks promise over all they can move, times the determinant; basic ones nothing."""
        answers = len(self.columns)
        mixed, slack = variables[variables < answers], variables[variables >= answers] - answers
        gains = self.gains[mixed] * self.determinant if self.feasible else 0
        reduced = gains - self.columns[mixed] @ self.prices
        prices, reach = -self.sign[slack] * self.prices[1:][slack], self._reach[slack]
        merits = np.concatenate([reduced, np.where(self.at_upper[slack], -prices, prices) * reach])
        return np.where(np.isin(variables, self.basic), 0, merits)

    @cached_property
    def _reach(self) -> _Wholes:
        """How far slacks can move, as a way to compare them: without end they count as 1."""
        return np.where(self.width < 0, _ONE, self.width)

    @cached_property
    def _in_floats(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Columns, one row of the program after another, gains, signs and reach in floating point."""
        columns, gains = self.columns.T.astype(np.float64), self.gains.astype(np.float64)
        return columns, gains, self.sign.astype(np.float64), self._reach.astype(np.float64)

    def enter(self, entering: int) -> None:
        """Let a variable move until another one stops it, which leaves the basis, or to its other end."""
        slack = entering - len(self.columns)
        column = self.adjugate @ self.columns[entering] if slack < 0 else self.sign[slack] * self.adjugate[:, 1 + slack]
        falls = -column if slack >= 0 and self.at_upper[slack] else column
        ends = [(Fraction(self.width[slack]), entering, -1)] if slack >= 0 and self.width[slack] >= 0 else []
        step, _, row = min(self._ratio_test(falls) + ends)
        self.idle = 0 if step > 0 else self.idle + 1
        if row < 0:
            self.at_upper[slack] ^= True
        else:
            inside = self.outside[row] == 0
            self._exchange(entering, row, column, rises=falls[row] < 0 if inside else self.outside[row] < 0)
        self._update_basis()

    def _ratio_test(self, falls: _Wholes) -> list[tuple[Fraction, int, int]]:
        """How far one can go until a basic variable is at an end: length, variable, row.

        Lowest rates have no end; what is outside its limits stops where it gets in.
        """
        lowest, most, found = len(self.columns) + self.width.size, self._most(), []
        for row, variable in enumerate(self.basic.tolist()):
            if variable >= lowest or falls[row] == 0:
                continue
            value, end, out = self.values[row], most[row] * self.determinant, self.outside[row]
            if falls[row] > 0 and out <= 0:
                found.append((Fraction(value - (end if out < 0 else 0), falls[row]), variable, row))
            elif falls[row] < 0 and (out > 0 or (out == 0 and most[row] >= 0)):
                found.append((Fraction((0 if out > 0 else end) - value, -falls[row]), variable, row))
        return found

    def _exchange(self, entering: int, row: int, column: _Wholes, *, rises: bool) -> None:
        """Swap the variable of a row for another one with this column."""
        answers, leaving = len(self.columns), int(self.basic[row])
        if leaving >= answers:
            self.at_upper[leaving - answers] = rises
        if entering >= answers:
            self.at_upper[entering - answers] = False
        line, pivot = self.adjugate[row], column[row]
        after = (self.adjugate * pivot - np.outer(column, line)) // self.determinant
        after[row] = line
        self.adjugate, self.determinant = (after, pivot) if pivot > 0 else (-after, -pivot)
        self.basic[row] = entering

    def optimum(self) -> tuple[float, Floats, Floats]:
        """Value, weights and the prices of the rows, each rounded once."""
        weights = np.zeros(len(self.columns))
        mixed = np.flatnonzero(self.basic < weights.size)
        for row in mixed:
            weights[self.basic[row]] = self.values[row] / self.determinant
        gained = int(self.gains[self.basic[mixed]] @ self.values[mixed])
        prices = [int(price) / self.determinant for price in self.prices[1:]]
        return gained / (self.determinant << _BITS) if self.feasible else -np.inf, weights, np.array(prices)
