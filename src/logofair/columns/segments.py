"""Many short runs in one long array: group rows by key, sort each run, sum each run.

Rows are sorted once by cell and score (:class:`RowOrder`), and folds, chances and cells all stand on that order.
A federation is two hundred thousand small cells or ten large ones; these functions treat both with whole-array
operations. They decide the speed of the library, so the traps are written down where they were met.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression
from scipy.sparse import csc_array

from logofair.columns.checks import Floats, Integers

Indices = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
_Column = TypeVar("_Column", bound=npt.NDArray[Any])

# Sorting one long array is several times slower than sorting short runs, which fit in registers and caches (on some
# processors the long sort's AVX-512 instructions are microcoded besides). So rows are first put into buckets of
# about this many, in order, and only neighbours remain to be sorted.
_BUCKET = 16
_WINDOW = 128
_LONG = 192  # runs up to this length are sorted as rows of one padded matrix, longer ones one by one
_LONG_SUM = 1024  # runs up to this length are summed as rows of one padded matrix, this many at a time:
_SHORT_RUNS = 512
_RUNS_AT_ONCE = 256  # isotonic regressions are fitted to this many runs at once


def narrowest(most: int) -> type[np.int32] | type[np.int64]:
    """The type that holds whole numbers up to ``most`` in least memory, which is what work on many rows waits for."""
    return np.int32 if most < 2**31 else np.int64


def group_by(keys: npt.NDArray[Any], n_keys: int, data: _Column) -> tuple[_Column, Indices]:
    """Stable counting sort: data in the order of its keys, and each key's start."""
    # Turning a sparse matrix from columns to rows is a counting sort, several times faster than argsort.
    n = keys.size
    narrow = narrowest(max(n, n_keys) + 1)
    triple: Any = (data, keys.astype(narrow, copy=False), np.arange(n + 1, dtype=narrow))
    together: Any = csc_array(triple, shape=(n_keys, n)).tocsr()
    return together.data, together.indptr.astype(np.int64)


def grouped(keys: npt.NDArray[Any], n_keys: int) -> Indices:
    """Order that brings rows of equal key together, keys ascending, rows of one key in their old order."""
    return group_by(keys, n_keys, np.arange(keys.size))[0]


def cell_numbers(groups: Integers, sites: Integers, n_groups: int) -> Integers:
    """Number of every row's cell, its (group, site) pair; sites of code -1 fall just before the first cell."""
    numbers = sites * np.int32(n_groups)
    numbers += groups
    return numbers


def sorted_by_cell(
    groups: Integers, sites: Integers, n_groups: int, n_sites: int, scores: Floats, data: Floats | None = None
) -> tuple[Floats, Indices]:
    """Scores in [0, 1] ordered by cell and ascending inside each, and where each cell starts.

    ``data`` stands for the scores: numbers that rise with them and may tell equal ones apart.
    """
    n_cells = n_groups * n_sites
    buckets = min(scores.size // (_BUCKET * n_cells), 1 << 14)
    buckets = buckets if buckets >= 64 else 1  # cells are small
    keys = np.empty(scores.size, dtype=np.int32)
    # Piece by piece: temporaries of full length cost more in page faults than in arithmetic.
    for first in range(0, scores.size, PIECE):
        piece = slice(first, first + PIECE)
        key = cell_numbers(groups[piece], sites[piece], n_groups)
        if buckets > 1:
            key *= np.int32(buckets)
            # Rounding is monotone, so a larger score never falls into a lower bucket.
            key += np.minimum(scores[piece] * buckets, buckets - 1).astype(np.int32)
        keys[piece] = key
    ordered, starts = group_by(keys, n_cells * buckets, scores if data is None else data)
    if buckets == 1:
        _sort_runs(ordered, starts)
        return ordered, starts
    for run in np.flatnonzero(np.diff(starts) > _WINDOW // 2):
        ordered[starts[run] : starts[run + 1]].sort()
    cell_starts = starts[::buckets].copy()
    for begin, end in pairwise(cell_starts):
        cell = ordered[begin:end]
        # Every entry is less than half a window from its place, or sorted already: windows side by side, then shifted
        # by half, so that whatever straddles a border of the first lies within one of the second.
        for shift in (0, _WINDOW // 2):
            complete = max(cell.size - shift, 0) // _WINDOW * _WINDOW
            cell[shift : shift + complete].reshape(-1, _WINDOW).sort(axis=1)
            cell[shift + complete :].sort()
    return ordered, cell_starts


def _sort_runs(data: Floats, starts: Indices) -> None:
    """Sort each run of ``data`` in place."""
    sizes = np.diff(starts)
    for run in np.flatnonzero(sizes > _LONG):
        data[starts[run] : starts[run + 1]].sort()
    width = 2
    while width < 2 * _LONG:
        runs = np.flatnonzero((sizes > width // 2) & (sizes <= min(width, _LONG)))
        per_chunk = max(1, PIECE // width)
        for first in range(0, runs.size, per_chunk):
            # Runs of nearly equal length are the rows of one matrix, padded with infinity.
            chosen, step = runs[first : first + per_chunk], np.arange(min(width, _LONG))
            places = starts[chosen, None] + step
            inside = step < sizes[chosen, None]
            np.minimum(places, data.size - 1, out=places)
            block = data[places]
            block[~inside] = np.inf
            block.sort(axis=1)
            data[places[inside]] = block[inside]
        width *= 2


def cumulative(data: Floats, starts: Indices) -> Floats:
    """Running sums within each run, a leading 0 for each: run i occupies ``starts[i] + i`` onwards.

    Summing run by run (short ones in chunks) keeps the rounding error at the scale of the run, not of the whole array:
    a site with one millionth of the rows needs its own sums to the last digit.
    """
    n_runs = starts.size - 1
    sums = np.zeros(data.size + n_runs)
    long = np.flatnonzero(np.diff(starts) > _LONG_SUM)
    for run in long:
        begin, end = starts[run], starts[run + 1]
        np.cumsum(data[begin:end], out=sums[begin + run + 1 : end + run + 1])
    for before, after in pairwise([-1, *long.tolist(), n_runs]):
        for first in range(before + 1, after, _SHORT_RUNS):
            last = min(first + _SHORT_RUNS, after)
            own = starts[first : last + 1]
            inside = np.arange(int(np.diff(own).max()) + 1) <= np.diff(own)[:, None]
            block = np.zeros(inside.shape)
            block[:, 1:][inside[:, 1:]] = data[own[0] : own[-1]]
            np.cumsum(block, axis=1, out=block)
            sums[own[0] + first : own[-1] + last] = block[inside]
    return sums


def search_runs(data: Floats, first: Indices, last: Indices, targets: Floats, *, right: Booleans) -> Indices:
    """Binary search of one target in each run ``data[first:last]``; the place of insertion, counted from 0.

    ``right`` says for each target whether it goes after equal entries.
    """
    if first.size <= 48:
        found = [
            data[a:b].searchsorted(t, "right" if r else "left")
            for a, b, t, r in zip(first.tolist(), last.tolist(), targets.tolist(), right.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.int64)
    found_at = np.empty(first.size, dtype=np.int64)

    def search(some: slice) -> None:
        found_at[some] = _search(data, first[some], last[some], targets[some], right[some])

    pieces_in_threads(search, first.size)
    return found_at


def _search(data: Floats, first: Indices, last: Indices, targets: Floats, right: Booleans) -> Indices:
    """The same in some runs, all at once, by halving what is left of each.

    "After equal entries" is "before the next larger number".
    """
    if not data.size:
        return np.zeros(first.size, dtype=np.int64)
    targets = np.nextafter(targets, np.inf, out=targets.copy(), where=right)
    left, before = last - first, first - 1
    for _ in range(max(int(left.max(initial=0)) - 1, 0).bit_length()):
        half = left >> 1
        left -= half
        half *= data[before + half] < targets  # where nothing is left to halve, whatever entry this is
        before += half
    place = np.minimum(before + 1, data.size - 1)
    return np.asarray(before + 1 - first + ((left > 0) & (data[place] < targets)))


def gather(column: _Column, rows: npt.NDArray[Any]) -> _Column:
    """A column's entries at some places; in threads where they are many, since each one waits for memory."""
    found = np.empty(rows.size, dtype=column.dtype)

    def take(some: slice) -> None:
        found[some] = column[rows[some]]

    pieces_in_threads(take, rows.size)
    return found  # type: ignore[return-value]  # as the one given


def run_starts(changes: Booleans) -> Indices:
    """Starts of the runs of a column of at least one entry, and its end, from where neighbours differ."""
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [changes.size + 1]]).astype(np.int64)


def level_changes(levels: npt.NDArray[Any], starts: Indices) -> Booleans:
    """Where a row's level, or the run it is in, differs from that of the row before."""
    changes = np.asarray(levels[1:] != levels[:-1])
    inside = (starts > 0) & (starts < levels.size)
    changes[starts[inside] - 1] = True
    return changes


def pool_starts(values: Floats, weights: Floats, runs: npt.NDArray[Any], *, rising: bool = True) -> Indices:
    """Where the pools of an isotonic regression begin that is fitted to each run by itself; values lie in [0, 1].

    ``runs`` numbers the run of each value, in rising order.
    """
    if values.size == 0:
        return np.zeros(0, dtype=np.int64)
    # An offset of 4 per run keeps pools from spanning two of them, with room for rounding; it begins anew every so many
    # runs, or among a hundred thousand of them it would round away what values differ by.
    bounds = np.flatnonzero(np.diff(runs // _RUNS_AT_ONCE)) + 1
    found = []
    for first, last in pairwise([0, *bounds.tolist(), values.size]):
        offset = 4.0 * (runs[first:last] % _RUNS_AT_ONCE) * (1.0 if rising else -1.0)
        pools = isotonic_regression(values[first:last] + offset, weights=weights[first:last], increasing=rising)
        found.append(first + np.asarray(pools.blocks[:-1], dtype=np.int64))
    return np.concatenate(found)


def run_means(values: Floats, weights: Floats, starts: Indices) -> Floats:
    """Weighted mean of each run; none is without weight."""
    return run_sums(weights * values, starts) / run_sums(weights, starts)


def run_sums(data: npt.NDArray[Any], starts: Indices) -> Floats:
    """Sum of each run (0 for an empty one)."""
    padded = np.append(data, 0.0)
    # Ended where it ends: with the padding in its sum, the last run would round otherwise than the same run elsewhere.
    sums = np.add.reduceat(padded, np.append(np.minimum(starts[:-1], data.size), data.size))[:-1]
    sums[np.diff(starts) == 0] = 0.0
    return sums


def _packed(scores: Floats, cells: npt.NDArray[Any], score_bits: int, row_bits: int) -> Indices:
    """Cell, score rounded down and row of each row in one number: sorting bare numbers is several times faster.

    Rounding is monotone, so a larger score never has a lower number.
    """
    low, high = float(scores.min()), float(scores.max())
    levels = (1 << score_bits) - 1
    keys = np.empty(scores.size, dtype=np.int64)

    def pack(piece: slice) -> None:
        share = (scores[piece] - low) / (high - low) if high > low else np.zeros_like(scores[piece])
        key = np.minimum(share * levels, levels).astype(np.int64)
        key += cells[piece].astype(np.int64) << score_bits
        key <<= row_bits
        key += np.arange(piece.start, piece.start + key.size)
        keys[piece] = key

    pieces_in_threads(pack, scores.size)
    return keys


def _sort_ties(rows: Indices, scores: Floats, ties: Indices, falls: Indices) -> None:
    """Sort, in place, the runs of rows with one number and falling scores; ``ties`` are as the row after them."""
    first = np.append(True, np.diff(ties) > 1)
    starts, lengths = ties[first], np.diff(np.append(np.flatnonzero(first), ties.size)) + 1
    wrong = np.unique(np.searchsorted(starts, falls, "right") - 1)
    starts, lengths = starts[wrong], lengths[wrong]
    ends = np.cumsum(lengths)
    places = np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])
    run = np.repeat(np.arange(wrong.size), lengths)
    rows[places] = rows[places][np.lexsort((scores[rows[places]], run))]


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Rows by cell and, inside each, by rising score; rows of equal score stand in the order they came.

    ``rows`` are their places in the user's columns; those of cell i begin at ``starts[i]``.
    """

    rows: npt.NDArray[Any]  # whole numbers, of four bytes where these suffice: an order is kept as long as a solution
    starts: Indices

    @classmethod
    def of(cls, scores: Floats, cells: npt.NDArray[Any], n_cells: int) -> RowOrder:
        """Order rows by cell and score."""
        # Stable, or tied rows would be in other folds on a machine that sorts in another way.
        starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=n_cells))]).astype(np.int64)
        if scores.size == 0:
            return cls(np.zeros(0, dtype=np.int32), starts)
        row_bits, cell_bits = (max(number - 1, 1).bit_length() for number in (scores.size, n_cells))
        score_bits = min(max(63 - row_bits - cell_bits, 0), 52)
        keys = _packed(scores, cells, score_bits, row_bits)
        keys.sort()
        ties = np.concatenate(
            [
                some.start + np.flatnonzero(np.diff(keys[some.start : some.stop + 1] >> row_bits) == 0)
                for some in pieces(keys.size)
            ]
        )
        keys &= (1 << row_bits) - 1
        falls = ties[scores[keys[ties + 1]] < scores[keys[ties]]]
        if falls.size:
            _sort_ties(keys, scores, ties, falls)
        return cls(keys.astype(narrowest(scores.size)), starts)

    @property
    def cells(self) -> npt.NDArray[Any]:
        """The cell of every row, in this order: made anew, as it would take as much memory as the order itself."""
        cells = self.starts.size - 1
        return np.repeat(np.arange(cells, dtype=narrowest(1024 * cells)), np.diff(self.starts))  # times folds, too

    def changes(self, levels: Floats) -> Booleans:
        """Where a row's level, given in this order, or its cell differs from that of the row before."""
        return level_changes(levels, self.starts)

    def in_input_order(self, ordered: _Column) -> _Column:
        """A column in this order, put back into the order of the user's columns."""
        column = np.empty_like(ordered)
        column[self.rows] = ordered
        return column  # type: ignore[no-any-return]  # as the one given

    def falls(self, levels: Floats) -> bool:
        """Whether levels, given in this order, fall somewhere inside a cell, as by rounding."""
        falling = np.flatnonzero(levels[1:] < levels[:-1]) + 1
        return bool(np.any(self.starts[np.searchsorted(self.starts, falling)] != falling))


# More speed for many rows: pieces that stay in the processor's caches, and two threads or more.

_First = TypeVar("_First")
_Second = TypeVar("_Second")

# Threads pay from this many rows on.
_ENOUGH_ROWS = 200_000
# Rows worked on at once: temporaries of this length stay in the processor's caches.
PIECE = 1 << 15
_MOST_THREADS, _PIECES = 4, 16  # more pieces than threads, so that none waits long for the last


def in_threads(work: Callable[[Any], None], parts: Iterable[Any], rows: int) -> None:
    """Do some work on every part; in threads where the parts have many rows in all, as numpy lets others run."""
    parts = list(parts)
    threads = 1 if rows < _ENOUGH_ROWS else min(_MOST_THREADS, os.cpu_count() or 1, len(parts))
    if threads <= 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, parts):
            pass


def pieces_of_runs(starts: npt.NDArray[np.int64]) -> list[slice]:
    """Runs in pieces of about as many rows, the same on every machine; run i has the rows from ``starts[i]`` on."""
    rows = int(starts[-1]) if starts.size else 0
    parts = _PIECES if rows >= _ENOUGH_ROWS else 1
    cuts = np.searchsorted(starts[:-1], np.arange(1, parts) * rows // parts)
    ends = np.unique(np.concatenate(([0], cuts, [starts.size - 1]))).tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def both_in_threads(first: Callable[[], _First], second: Callable[[], _Second], rows: int) -> tuple[_First, _Second]:
    """Do two pieces of work, neither of which needs the other; in two threads where they are on many rows."""
    if rows < _ENOUGH_ROWS or os.cpu_count() == 1:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(second)
        return first(), other.result()


def pieces(rows: int, size: int = PIECE) -> list[slice]:
    """Rows, or what there is of something else, in pieces of a size."""
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


def pieces_in_threads(work: Callable[[slice], None], rows: int) -> None:
    """Do some work on every piece of rows, :func:`in_threads`."""
    in_threads(work, pieces(rows), rows)
