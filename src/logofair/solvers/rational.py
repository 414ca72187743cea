"""The master in whole numbers: the best mixture of the clients' answers and its prices, the same on every machine.

A federation's sites check a server by doing its sums again, and with rounding two machines may not choose the same one
of several optimal prices. Here nothing is rounded before the end. The program is that of
:mod:`logofair.solvers.simplex` with one block::

    max  sum_j gain_j x_j    s.t.  sum_j x_j = 1,   x >= 0
                                   sum_j rate_ij x_j - floor_f - slack_i = 0,   0 <= slack_i <= tolerance_i

for every rate i of family f; the floors are free. Gains, rates and tolerances are counted in steps of 2^-60, and the
inverse of the basis is kept as integers over its determinant (Edmonds, 1967): every division leaves nothing over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices

Wholes = npt.NDArray[np.object_]  # Python's integers, of any size

_BITS = 60  # a step is 2^-60: finer than the rounding of any total of order 1
# Sums are rounded: at tolerance 0, answers that are equal but for that could not be mixed otherwise.
_ROUNDING = 2.0**-40


@dataclass(frozen=True, eq=False)
class Mixture:
    """The best mixture of some answers: what it gains, its weights, and the prices of the rates that support it."""

    value: float
    weights: Floats  # (t + 1,); the first is that of rejecting everybody
    prices: Floats  # (groups, rates); 0 where a group does not count


def best_mixture(gains: Floats, rates: Floats, tolerance: Floats) -> Mixture:
    """The mixture of answers, and of rejecting everybody, that gains most with its gaps within the tolerances.

    Gains are (t,), rates (t, groups, rates), tolerances (groups, rates), infinite where a group does not count. Every
    number that is returned is the exact one, rounded once.

    Examples
    --------
    >>> import numpy as np
    >>> rates = np.array([[[0.5], [0.25]], [[0.25], [0.5]]])
    >>> found = best_mixture(np.array([0.3, 0.2]), rates, np.full((2, 1), 0.125))
    >>> found.weights.round(9).tolist(), round(found.value, 9), found.prices.round(9).tolist()
    ([0.0, 0.75, 0.25], 0.275, [[0.2], [-0.2]])
    """
    counts = np.isfinite(tolerance)
    places = np.flatnonzero(counts)
    answers = np.concatenate([np.zeros((1, places.size)), rates.reshape(gains.size, -1)[:, places]])
    columns = np.concatenate([np.ones((gains.size + 1, 1), dtype=object), _steps(answers)], axis=1)
    program = _Program.start(
        columns,
        _steps(np.append(0.0, gains)),
        _steps(tolerance.ravel()[places] + _ROUNDING),
        places % tolerance.shape[1],
    )
    while (entering := program.entering()) is not None:
        program.enter(entering)
    value, weights, prices = program.optimum()
    every = np.zeros(tolerance.size)
    every[places] = prices
    return Mixture(value, weights, every.reshape(tolerance.shape))


def _steps(numbers: Floats) -> Wholes:
    """Numbers as integers, in steps."""
    rounded = np.rint(np.ldexp(numbers, _BITS))
    return np.array([int(each) for each in rounded.ravel().tolist()], dtype=object).reshape(rounded.shape)


@dataclass(eq=False)
class _Program:
    """A basis of the program; its columns are the answers', then one slack for each rate, then the floors."""

    columns: Wholes  # of the answers, (answers, 1 + rates)
    gains: Wholes  # (answers,)
    width: Wholes  # the most of each slack, (rates,)
    basic: Indices  # the variable of every row; a floor never leaves
    adjugate: Wholes  # inverse of the basis times its determinant
    determinant: int
    at_upper: Booleans  # slacks out of the basis that are at their most, (rates,)
    values: Wholes = field(init=False)  # of the basic variables, times the determinant
    prices: Wholes = field(init=False)  # of the rows, times the determinant
    idle: int = 0  # pivots in a row that gained nothing

    def __post_init__(self) -> None:
        self._follow()

    @classmethod
    def start(cls, columns: Wholes, gains: Wholes, width: Wholes, family: Indices) -> _Program:
        """Everybody is rejected: basic are the first answer, a floor for each family and its other slacks."""
        answers, rows = columns.shape
        _, first, member = np.unique(family, return_index=True, return_inverse=True)
        first = first[member]  # the first rate of each rate's family
        basic = np.append(
            0, np.where(first == np.arange(rows - 1), answers + rows + member - 1, answers + np.arange(rows - 1))
        )
        inverse = -np.eye(rows, dtype=np.int64)
        inverse[0, 0] = 1
        for row, one in enumerate(first, 1):
            inverse[row, 1 + one] += row != 1 + one
        return cls(columns, gains, width, basic, inverse.astype(object), 1, np.zeros(rows - 1, dtype=bool))

    def _follow(self) -> None:
        """Work out values and prices of the basis."""
        answers = len(self.columns)
        self.values = self.adjugate @ np.append(1, np.where(self.at_upper, self.width, 0))
        mixed = np.flatnonzero(self.basic < answers)
        self.prices = self.gains[self.basic[mixed]] @ self.adjugate[mixed]

    def entering(self) -> int | None:
        """The variable that promises most over all it can move; None: the basis is optimal.

        It is looked for in floating point and confirmed exactly. After many pivots that gained nothing it is the first
        one that promises anything (Bland), so that they end.
        """
        stuck = self.idle > len(self.prices)
        if not stuck:
            best = int(np.argmax(self._rough_merits()))
            if self._merits(np.array([best]))[0] > 0:
                return best
        merits = self._merits(np.arange(len(self.columns) + self.width.size))
        best = int(np.argmax(merits > 0 if stuck else merits))
        return best if merits[best] > 0 else None

    def _merits(self, variables: Indices) -> Wholes:
        """What some answers and slacks promise over all they can move, times the determinant."""
        answers = len(self.columns)
        mixed, slack = variables[variables < answers], variables[variables >= answers] - answers
        reduced = self.gains[mixed] * self.determinant - self.columns[mixed] @ self.prices
        prices = self.prices[1:][slack]
        return np.concatenate([reduced, np.where(self.at_upper[slack], -prices, prices) * self.width[slack]])

    def _rough_merits(self) -> Floats:
        """The merits of all in floating point, row by row: nothing that machines could add up in another order."""
        columns, gains, width = self._rough
        prices = np.array([int(price) / self.determinant for price in self.prices])
        merits = gains.copy()
        for price, row in zip(prices, columns, strict=True):
            merits -= price * row
        return np.concatenate([merits, np.where(self.at_upper, -prices[1:], prices[1:]) * width])

    @cached_property
    def _rough(self) -> tuple[Floats, Floats, Floats]:
        """Columns, one row of the program after another, gains and widths in floating point."""
        return self.columns.T.astype(np.float64), self.gains.astype(np.float64), self.width.astype(np.float64)

    def enter(self, entering: int) -> None:
        """Let a variable move until another one stops it, which leaves the basis, or to its other end."""
        slack = entering - len(self.columns)
        column = self.adjugate @ self.columns[entering] if slack < 0 else -self.adjugate[:, 1 + slack]
        falls = -column if slack >= 0 and self.at_upper[slack] else column
        step, _, row = min(self._stops(falls) + ([(Fraction(self.width[slack]), entering, -1)] if slack >= 0 else []))
        self.idle = 0 if step > 0 else self.idle + 1
        if row < 0:
            self.at_upper[slack] ^= True
        else:
            self._exchange(entering, row, column, rises=falls[row] < 0)
        self._follow()

    def _stops(self, falls: Wholes) -> list[tuple[Fraction, int, int]]:
        """How far one can go until a basic variable is at an end: length, variable, row. Floors have no end."""
        answers, floors = len(self.columns), len(self.columns) + self.width.size
        found = []
        for row, variable in enumerate(self.basic.tolist()):
            if falls[row] > 0 and variable < floors:
                found.append((Fraction(self.values[row], falls[row]), variable, row))
            elif falls[row] < 0 and answers <= variable < floors:
                room = self.width[variable - answers] * self.determinant - self.values[row]
                found.append((Fraction(room, -falls[row]), variable, row))
        return found

    def _exchange(self, entering: int, row: int, column: Wholes, *, rises: bool) -> None:
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
        """Value, weights and the prices of the rates, each rounded once."""
        weights = np.zeros(len(self.columns))
        mixed = np.flatnonzero(self.basic < weights.size)
        for row in mixed:
            weights[self.basic[row]] = self.values[row] / self.determinant
        gained = int(self.gains[self.basic[mixed]] @ self.values[mixed])
        prices = [int(price) / self.determinant for price in self.prices[1:]]
        return gained / (self.determinant << _BITS), weights, np.array(prices)
