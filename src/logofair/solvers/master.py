"""The master of a decomposition in memory: the best mixture of the answers so far, bunch of sites by bunch.

The sites are dealt into bunches, and each bunch mixes its own answers, so that a few prices tell much more than one
mixture of all sites' sums would: with many groups a tenth of the rounds. The program is::

    max  sum_j gain_j x_j    s.t.  sum of x_j in bunch b = 1,   x >= 0
                                   sum_j rate_ij x_j - slope_i floor_f - slack_i = 0,   low_i <= slack_i <= high_i

for every row i of the global requirements (:class:`logofair.solvers.limits.Layout`), of family f; the floors are free.
Where no mixture of the answers known meets the requirements, what lies outside is driven in as far as it goes, and the
prices are those of that: answers to them bring the mixture nearer. New answers are new columns, so the simplex goes on
from the basis of the round before. It is in floating point: a federation's server, which sees sums alone, has
:mod:`logofair.solvers.rational`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.limits import Layout
from logofair.solvers.simplex import PIVOT

_OPTIMALITY_TOLERANCE = 1e-12  # a gain below this, over all that a variable can move, is none
_REFACTORISE_AFTER = 50  # pivots after which the inverse is computed anew
_PIVOTS_PER_ROW = 50  # for each row: more than any sound program needs
# Rows are widened by a hundredth of a certificate's precision and a little more, each by its own: answers that
# are equal but for rounding can then be mixed at tolerance 0, and no two slacks are stopped by the same step, on which
# a simplex may turn in circles. Steps that differ by less than a hundredth of that count as one.
_WIDENED = 0.01 * LARGEST_VIOLATION
_TIE_TOLERANCE = 0.01 * _WIDENED


@dataclass(eq=False)
class Master:
    """A basis of the program. Its variables are the slacks, the floors and the answers, oldest first."""

    summing: Floats  # (rows of requirements, groups * global rates): which rates each is about
    matrix: Floats  # (rows, variables): one row for each bunch, then one for each row of the requirements
    gain: Floats  # (variables,)
    lowest: Floats  # (variables,)
    highest: Floats
    range: Floats  # (variables,): how far each can move, at most 1 of those without an end
    value: Floats  # (variables,)
    basic: Indices  # (rows,): the variable of every row
    bunches: int
    first: int  # the number of the first answer
    inverse: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.inverse = np.asarray(np.linalg.inv(self.matrix[:, self.basic]), dtype=np.float64)

    @classmethod
    def start(cls, rows: Layout, rejecting: Booleans) -> Master:
        """Every bunch rejects everybody: rates 0, slacks in the middle of their range where it goes, floors just below.

        ``rejecting``: which bunches may, (bunches,); the others have to find something else first.
        """
        kept = np.flatnonzero(np.isfinite(rows.low[0]) | np.isfinite(rows.high[0]))
        low, high, slope = (ends[0, kept] for ends in (rows.low, rows.high, rows.slope))
        names, family = np.unique(rows.family[kept], return_inverse=True)
        number, families, bunches = kept.size, names.size, rejecting.size
        wider = _WIDENED * (1.0 + np.arange(number) / max(number, 1))
        low, high = np.where(np.isinf(high), low - wider, low), high + wider
        # Floors begin below 0 by half the narrowest tolerance, and at 0 under a ratio, which allows no less.
        room = np.where((low == 0.0) & (slope > 0), 0.5 * high, np.where(slope > 0, 0.0, np.inf))
        floor = np.full(families, np.inf)
        np.minimum.at(floor, family, room)
        floor = np.where(np.isinf(floor), 0.0, floor)
        matrix = np.zeros((bunches + number, number + families + bunches))
        matrix[bunches + np.arange(number), np.arange(number)] = -1.0
        matrix[bunches + np.arange(number), number + family] = -slope
        matrix[np.arange(bunches), number + families + np.arange(bunches)] = 1.0
        free, none = np.full(families, np.inf), np.zeros(bunches)
        return cls(
            rows.summing[kept],
            matrix,
            gain=np.zeros(matrix.shape[1]),
            lowest=np.concatenate([low, -free, none]),
            highest=np.concatenate([high, free, np.where(rejecting, np.inf, 0.0)]),
            range=np.concatenate([np.minimum(high - low, 1.0), np.ones(families + bunches)]),
            value=np.concatenate([slope * floor[family], -floor, none + 1.0]),
            basic=np.concatenate([number + families + np.arange(bunches), np.arange(number)]),
            bunches=bunches,
            first=number + families,
        )

    def add(self, gains: Floats, rates: Floats) -> None:
        """Add answers of every bunch: gains (t, bunches), rates (t, bunches, groups, global rates)."""
        rows = self.summing @ rates.reshape(gains.size, -1).T
        ones, none = np.tile(np.eye(self.bunches), len(gains)), np.zeros(gains.size)
        self.matrix = np.hstack([self.matrix, np.vstack([ones, rows])])
        self.gain = np.append(self.gain, gains)
        self.lowest, self.highest = np.append(self.lowest, none), np.append(self.highest, none + np.inf)
        self.range, self.value = np.append(self.range, none + 1.0), np.append(self.value, none)

    def maximise(self) -> bool:
        """Pivot until nothing improves; whether that came to an end."""
        for turn in range(1, _PIVOTS_PER_ROW * self.basic.size):
            if turn % _REFACTORISE_AFTER == 0 and not self._refactorise():
                return False
            moving, direction = self._entering()
            if moving < 0:
                return self._refactorise()
            if not self._move(moving, direction):
                return False
        return False

    @property
    def within(self) -> bool:
        """Whether the mixture meets the requirements."""
        return not self._outside().any()

    @property
    def improves(self) -> bool:
        """Whether there is an answer that has not been made use of."""
        return self._entering()[0] >= 0

    def _outside(self) -> Floats:
        """Which way each basic variable has to go to be within its ends, (rows,): 1 up, -1 down, 0 it is."""
        at = self.value[self.basic]
        below, above = at < self.lowest[self.basic] - _WIDENED, at > self.highest[self.basic] + _WIDENED
        return below.astype(np.float64) - above

    def _basic_gains(self) -> tuple[Floats, bool]:
        """What the basic variables gain per unit, and whether it is what counts: as long as some are outside, no."""
        outside = self._outside()
        return (outside, False) if outside.any() else (self.gain[self.basic], True)

    def _entering(self) -> tuple[int, float]:
        """The variable that promises most over all it can move (-1: none), and whether it rises (1) or falls (-1)."""
        basic_gain, counts = self._basic_gains()
        reduced = (self.gain if counts else 0.0) - (basic_gain @ self.inverse) @ self.matrix
        reduced[self.basic] = 0.0
        able = np.where(reduced > 0, self.value < self.highest, self.value > self.lowest)
        merit = np.where(able, np.abs(reduced) * self.range, 0.0)
        best = int(np.argmax(merit))
        return best if merit[best] > _OPTIMALITY_TOLERANCE else -1, 1.0 if reduced[best] > 0 else -1.0

    def _move(self, moving: int, direction: float) -> bool:
        """Move a variable until a basic one stops it, which leaves, or until its other end; False where nothing does.

        What is outside its ends stops where it gets in.
        """
        column = self.inverse @ self.matrix[:, moving]
        falls, at, outside = direction * column, self.value[self.basic], self._outside()
        low, high = self.lowest[self.basic], self.highest[self.basic]
        lower = np.where(outside > 0, -np.inf, np.where(outside < 0, high, low))
        upper = np.where(outside < 0, np.inf, np.where(outside > 0, low, high))
        room = np.where(falls > 0, at - lower, upper - at)
        stops = np.abs(falls) > PIVOT
        ratio = np.maximum(room, 0.0) / np.where(stops, np.abs(falls), 1.0)
        ratio[~stops] = np.inf
        step = float(ratio.min())
        end = self.highest[moving] if direction > 0 else self.lowest[moving]
        own = abs(float(end - self.value[moving]))
        row = -1 if own <= step else int(np.argmax(np.where(ratio <= step + _TIE_TOLERANCE, np.abs(falls), -1.0)))
        step = own if row < 0 else float(ratio[row])
        if not np.isfinite(step):
            return False
        self.value[self.basic] = at - step * falls
        self.value[moving] = end if row < 0 else self.value[moving] + direction * step
        if row < 0:
            return True
        self.value[self.basic[row]] = lower[row] if falls[row] > 0 else upper[row]
        line = self.inverse[row] / column[row]
        self.inverse -= np.outer(column, line)
        self.inverse[row] = line
        self.basic[row] = moving
        return True

    def _refactorise(self) -> bool:
        """Compute inverse and values from the basis itself; False where it has become singular."""
        try:
            self.inverse = np.asarray(np.linalg.inv(self.matrix[:, self.basic]), dtype=np.float64)
        except np.linalg.LinAlgError:
            return False
        right = np.append(np.ones(self.bunches), np.zeros(self.basic.size - self.bunches))
        self.value[self.basic] = 0.0
        self.value[self.basic] = self.inverse @ (right - self.matrix @ self.value)
        return True

    @property
    def prices(self) -> Floats:
        """The prices of the groups' rates, (groups * global rates,); 0 where a group does not count."""
        return np.asarray((self._basic_gains()[0] @ self.inverse)[self.bunches :] @ self.summing)

    @property
    def weights(self) -> Floats:
        """The weights of the answers, (t + 1, bunches), of which the first rejects everybody; never negative."""
        weights = np.maximum(self.value[self.first :].reshape(-1, self.bunches), 0.0)
        return np.asarray(weights / weights.sum(axis=0))
