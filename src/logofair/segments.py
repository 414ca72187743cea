"""Many short runs in one long array: group rows by key, sort each run, sum each run.

A federation is two hundred thousand small cells or ten large ones; these functions treat both with whole-array
operations. They decide the speed of the library, so the traps are written down where they were met.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from logofair.inputs import Floats, Integers

Indices = npt.NDArray[np.int64]

# Rows per bucket aimed at before sorting. Short runs are sorted by networks in registers; one long np.sort can
# be five times slower on processors where AVX-512 compress-store is microcoded.
_BUCKET = 24
_LONGEST_PADDED = 256
_CHUNK = 1 << 15


def group_by(keys: Integers, n_keys: int, data: Floats) -> tuple[Floats, Integers, Indices]:
    """Stable counting sort: data in the order of its keys, the permutation, and each key's start."""
    n = keys.size
    column_starts = np.arange(n + 1, dtype=np.int32 if n < 2**31 - 1 else np.int64)
    triple: Any = (data, keys, column_starts)
    grouped = csc_array(triple, shape=(n_keys, n)).tocsr()
    return grouped.data, grouped.indices, grouped.indptr.astype(np.int64)


def sorted_by_cell(cells: Integers, n_cells: int, scores: Floats) -> tuple[Floats, Indices]:
    """Scores in [0, 1] ordered by cell, ascending inside each, and where each cell starts."""
    buckets = int(np.clip(scores.size // (_BUCKET * n_cells), 1, 4096))
    if buckets == 1:
        ordered, _, starts = group_by(cells, n_cells, scores)
        sort_runs(ordered, starts)
        return ordered, starts
    # Rounding is monotone, so a larger score never falls into a lower bucket.
    keys = np.minimum((scores * buckets).astype(np.int32), buckets - 1)
    keys += cells * np.int32(buckets)
    ordered, _, starts = group_by(keys, n_cells * buckets, scores)
    sort_runs(ordered, starts)
    return ordered, starts[::buckets]


def sort_runs(data: Floats, starts: Indices) -> None:
    """Sort each run of ``data`` in place."""
    sizes = np.diff(starts)
    for run in np.flatnonzero(sizes > _LONGEST_PADDED):
        data[starts[run] : starts[run + 1]].sort()
    width = 2
    while width <= _LONGEST_PADDED:
        runs = np.flatnonzero((sizes > width // 2) & (sizes <= width))
        per_chunk = max(1, _CHUNK // width)
        for first in range(0, runs.size, per_chunk):
            chosen = runs[first : first + per_chunk]
            _sort_padded(data, starts[chosen], sizes[chosen], width)
        width *= 2


def _sort_padded(data: Floats, starts: Indices, sizes: Indices, width: int) -> None:
    """Sort runs of nearly equal length as the rows of one matrix, padded with infinity."""
    places = starts[:, None] + np.arange(width)
    inside = np.arange(width) < sizes[:, None]
    np.minimum(places, data.size - 1, out=places)
    block = data[places]
    block[~inside] = np.inf
    block.sort(axis=1)
    data[places[inside]] = block[inside]


def cumulative(data: Floats, starts: Indices) -> Floats:
    """Running sums within each run, a leading 0 for each: run i occupies ``starts[i] + i`` onwards.

    Summing run by run (short ones in chunks) keeps the rounding error at the scale of the run, not of the whole array:
    a client with one millionth of the rows needs its own sums to the last digit.
    """
    n_runs = starts.size - 1
    sums = np.zeros(data.size + n_runs)
    first = 0
    while first < n_runs:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _CHUNK, side="right")) - 1)
        offset = starts[first]
        running = np.concatenate(([0.0], np.cumsum(data[offset : starts[last]])))
        if last == first + 1:
            sums[offset + first : starts[last] + last] = running
        else:
            _spread(sums, running, starts[first : last + 1], first)
        first = last
    return sums


def _spread(sums: Floats, running: Floats, starts: Indices, first_run: int) -> None:
    """Write the running sums of several short runs, each counted from its own start."""
    lengths = np.diff(starts) + 1
    run = np.repeat(np.arange(lengths.size), lengths)
    place = np.arange(run.size)
    running_place = place - run
    begin = starts[0] + first_run
    sums[begin : begin + run.size] = running[running_place] - running[(starts[:-1] - starts[0])[run]]


def search_runs(
    data: Floats, first: Indices, last: Indices, targets: Floats, *, right: npt.NDArray[np.bool_]
) -> Indices:
    """Binary search of one target in each run ``data[first:last]``; the place of insertion, counted from 0.

    ``right`` says for each target whether it goes after equal entries.
    """
    if first.size <= 48:
        found = [
            data[a:b].searchsorted(t, "right" if r else "left")
            for a, b, t, r in zip(first.tolist(), last.tolist(), targets.tolist(), right.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.int64)
    low, high = first.copy(), last.copy()
    for _ in range(int(np.max(last - first, initial=0)).bit_length()):
        middle = (low + high) >> 1
        entry = data[np.minimum(middle, data.size - 1)]
        below = np.where(right, entry <= targets, entry < targets) & (middle < high)
        low = np.where(below, middle + 1, low)
        high = np.where(below, high, middle)
    return low - first


def run_sums(data: npt.NDArray[Any], starts: Indices) -> Floats:
    """Sum of each run (0 for an empty one)."""
    padded = np.append(data, 0.0)
    sums = np.add.reduceat(padded, np.minimum(starts[:-1], data.size))
    sums[np.diff(starts) == 0] = 0.0
    return sums
