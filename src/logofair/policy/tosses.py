"""Rows on which chance decides: each by its own coin, or all in one pass that keeps counts exact.

The pass is systematic sampling (Madow 1949): rows lie one after another on a line, each as long as its chance, and of
the points ``start``, ``start + 1``, ``start + 2``, ... each accepts the row that it falls on. A stretch of the line of
length s holds s points but for less than one. So where the rows of a cell follow each other, and so do the cells of a
site, every cell, every site and all together are within one of their summed chances; and where the start is
uniform, each row keeps its chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Booleans
from logofair.policy.coins import Words, coins


@dataclass(frozen=True, eq=False)
class Tosses:
    """Rows as far as they are decided without chance, and what decides on the others.

    ``decided`` is of all rows, 0 where chance decides: on ``rows``, whose chances of acceptance, numbers of their
    cells and random words (:func:`logofair.policy.coins.coin_words`) are ``chance``, ``cells`` and ``words``.
    """

    decided: npt.NDArray[np.int64]
    rows: npt.NDArray[np.intp]
    chance: Floats
    cells: Integers
    words: Words

    @classmethod
    def none(cls, decided: npt.NDArray[np.int64]) -> Tosses:
        """Rows on which chance decides nowhere."""
        cells, words = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint64)
        return cls(decided, np.zeros(0, dtype=np.intp), np.zeros(0), cells, words)

    def decisions(self, accepted: Booleans) -> npt.NDArray[np.int64]:
        """All decisions, given which of the rows on which chance decides are accepted."""
        self.decided[self.rows] = accepted
        return self.decided

    def by_coin(self) -> Booleans:
        """Which rows are accepted where each has a coin of its own."""
        return np.asarray(coins(self.words) < self.chance)


def exact_counts(chance: Floats, cells: Integers, words: Words) -> Booleans:
    """Which rows are accepted, so that every run of cells is within one of its summed chances.

    By what is known of the rows, not by their order. The start is the sum of all random words: as uniform as a coin,
    of a single row its own coin, and another in another batch, so that batches are not all lucky at the same places.
    """
    order = np.lexsort((chance, words, cells))  # rows that share an id and a cell by their chances
    accepted = np.empty(order.size, dtype=np.bool_)
    accepted[order] = in_steps(chance[order], words.sum(dtype=np.uint64))
    return accepted


def in_steps(chance: Floats, start: np.uint64) -> Booleans:
    """Which rows, in this order, the points ``start``, ``start + 1``, ... fall on; ``start`` in steps of 2**-64.

    Chances between 0 and 1 are counted in the same steps. Whole numbers of 64 bits wrap round at 1, which is all that
    matters here, and lose nothing: a sum of floats would drift.

    Examples
    --------
    >>> in_steps(np.full(8, 0.25), np.uint64(2**63)).tolist()
    [False, False, True, False, False, False, True, False]
    """
    length = (chance * 2.0**64).astype(np.uint64)
    begins = np.cumsum(length, dtype=np.uint64) - length
    return np.asarray(start - begins < length)
