"""The master of a decomposition in memory: the best mixture of the answers so far, bunch of clients by bunch.

The clients are dealt into bunches, and each bunch mixes its own answers, so that a few prices tell much more than one
mixture of all clients' sums would: with many groups a tenth of the rounds. The program is::

    max  sum_j gain_j x_j    s.t.  sum of x_j in bunch b = 1,   x >= 0
                                   sum_j rate_ij x_j - floor_f - slack_i = 0,   0 <= slack_i <= tolerance_i

for every rate i of family f; the floors are free. New answers are new columns, so the simplex goes on from the basis of
the round before. It is in floating point: a federation's server, which sees sums alone, has
:mod:`logofair.solvers.rational`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.simplex import PIVOT

_OPTIMAL = 1e-12  # a gain below this, over all that a variable can move, is none
_REFRESH = 50  # pivots after which the inverse is computed anew
_PIVOTS = 50  # for each row: more than any sound program needs
# Tolerances are widened by a hundredth of a certificate's precision and a little more, each by its own: answers that
# are equal but for rounding can then be mixed at tolerance 0, and no two slacks are stopped by the same step, on which
# a simplex may turn in circles. Steps that differ by less than a hundredth of that count as one.
_WIDER = 0.01 * LARGEST_VIOLATION
_TIE = 0.01 * _WIDER


@dataclass(eq=False)
class Master:
    """A basis of the program. Its variables are the slacks, the floors and the answers, oldest first."""

    tolerance: Floats  # (groups, global rates), infinite where a group does not count
    matrix: Floats  # (rows, variables): one row for each bunch, then one for each rate
    gain: Floats  # (variables,)
    lowest: Floats  # (variables,)
    highest: Floats
    range: Floats  # (variables,): how far each can move, at most 1 of those without an end
    value: Floats  # (variables,)
    basic: Indices  # (rows,): the variable of every row
    bunches: int
    inverse: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.inverse = np.asarray(np.linalg.inv(self.matrix[:, self.basic]), dtype=np.float64)

    @classmethod
    def start(cls, tolerance: Floats, bunches: int) -> Master:
        """Every bunch rejects everybody: rates 0, slacks in the middle of their range, floors just below."""
        places = np.flatnonzero(np.isfinite(tolerance))
        _, family = np.unique(places % tolerance.shape[1], return_inverse=True)
        rates, families = places.size, int(family.max(initial=-1)) + 1
        width = tolerance.ravel()[places] + _WIDER * (1.0 + np.arange(rates) / max(rates, 1))
        floor = np.full(families, np.inf)
        np.minimum.at(floor, family, 0.5 * width)
        matrix = np.zeros((bunches + rates, rates + families + bunches))
        matrix[bunches + np.arange(rates), np.arange(rates)] = -1.0
        matrix[bunches + np.arange(rates), rates + family] = -1.0
        matrix[np.arange(bunches), rates + families + np.arange(bunches)] = 1.0
        free, none = np.full(families, np.inf), np.zeros(bunches)
        return cls(
            tolerance,
            matrix,
            gain=np.zeros(matrix.shape[1]),
            lowest=np.concatenate([np.zeros(rates), -free, none]),
            highest=np.concatenate([width, free, none + np.inf]),
            range=np.concatenate([np.minimum(width, 1.0), np.ones(families + bunches)]),
            value=np.concatenate([floor[family], -floor, none + 1.0]),
            basic=np.concatenate([rates + families + np.arange(bunches), np.arange(rates)]),
            bunches=bunches,
        )

    def add(self, gains: Floats, rates: Floats) -> None:
        """Add answers of every bunch: gains (t, bunches), rates (t, bunches, groups, global rates)."""
        rates = rates.reshape(gains.size, -1)[:, np.isfinite(self.tolerance).ravel()]
        ones, none = np.tile(np.eye(self.bunches), len(gains)), np.zeros(gains.size)
        self.matrix = np.hstack([self.matrix, np.vstack([ones, rates.T])])
        self.gain = np.append(self.gain, gains)
        self.lowest, self.highest = np.append(self.lowest, none), np.append(self.highest, none + np.inf)
        self.range, self.value = np.append(self.range, none + 1.0), np.append(self.value, none)

    def maximise(self) -> bool:
        """Pivot until nothing improves; whether that came to an end."""
        for turn in range(1, _PIVOTS * self.basic.size):
            if turn % _REFRESH == 0 and not self._refresh():
                return False
            moving, direction = self._entering()
            if moving < 0:
                return self._refresh()
            self._move(moving, direction)
        return False

    def _entering(self) -> tuple[int, float]:
        """The variable that promises most over all it can move (-1: none), and whether it rises (1) or falls (-1)."""
        reduced = self.gain - (self.gain[self.basic] @ self.inverse) @ self.matrix
        reduced[self.basic] = 0.0
        able = np.where(reduced > 0, self.value < self.highest, self.value > self.lowest)
        merit = np.where(able, np.abs(reduced) * self.range, 0.0)
        best = int(np.argmax(merit))
        return best if merit[best] > _OPTIMAL else -1, 1.0 if reduced[best] > 0 else -1.0

    def _move(self, moving: int, direction: float) -> None:
        """Move a variable until a basic one stops it, which leaves, or until its other end."""
        column = self.inverse @ self.matrix[:, moving]
        falls, at = direction * column, self.value[self.basic]
        room = np.where(falls > 0, at - self.lowest[self.basic], self.highest[self.basic] - at)
        stops = np.abs(falls) > PIVOT
        ratio = np.maximum(room, 0.0) / np.where(stops, np.abs(falls), 1.0)
        ratio[~stops] = np.inf
        step = float(ratio.min())
        end = self.highest[moving] if direction > 0 else self.lowest[moving]
        own = abs(float(end - self.value[moving]))
        row = -1 if own <= step else int(np.argmax(np.where(ratio <= step + _TIE, np.abs(falls), -1.0)))
        step = own if row < 0 else float(ratio[row])
        self.value[self.basic] = at - step * falls
        self.value[moving] = end if row < 0 else self.value[moving] + direction * step
        if row < 0:
            return
        leaving = self.basic[row]
        self.value[leaving] = self.lowest[leaving] if falls[row] > 0 else self.highest[leaving]
        line = self.inverse[row] / column[row]
        self.inverse -= np.outer(column, line)
        self.inverse[row] = line
        self.basic[row] = moving

    def _refresh(self) -> bool:
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
        """The prices of the rates, (groups, global rates); 0 where a group does not count."""
        prices = np.zeros(self.tolerance.shape)
        prices[np.isfinite(self.tolerance)] = (self.gain[self.basic] @ self.inverse)[self.bunches :]
        return prices

    @property
    def weights(self) -> Floats:
        """The weights of the answers, (t + 1, bunches), of which the first rejects everybody; never negative."""
        others = int(np.isfinite(self.tolerance).sum() + np.isfinite(self.tolerance).any(axis=0).sum())
        weights = np.maximum(self.value[others:].reshape(-1, self.bunches), 0.0)
        return np.asarray(weights / weights.sum(axis=0))
