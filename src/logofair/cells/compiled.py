"""Scores sorted into cells, compiled: the optional counterpart of ``columns.segments.sorted_by_cell``, same result.

Dealing rows into buckets and summing them are simple loops that numba runs at memory speed; the sorting itself is left
to numpy, whose sort of short rows no loop of ours beats.
"""

from __future__ import annotations

import numba
import numpy as np

from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Indices, bucket_count, sort_buckets, sort_runs


def sorted_cells(
    groups: Integers, clients: Integers, n_groups: int, n_clients: int, scores: Floats, data: Floats | None = None
) -> tuple[Floats, Indices]:
    """Scores, or what stands for them, ascending within each cell, and where cells start."""
    n_cells = n_groups * n_clients
    buckets = bucket_count(scores.size, n_cells)
    # Waking threads pays on large inputs only, and every part needs counters of its own.
    parts = min(numba.get_num_threads(), 4, 1 + scores.size // 400_000)
    data = scores if data is None else data
    ordered, starts = _deal(groups, clients, np.int32(n_groups), n_cells, scores, data, np.int32(buckets), parts)
    if buckets > 1:
        starts = sort_buckets(ordered, starts, buckets)
    else:
        sort_runs(ordered, starts, _sort_padded)
    return ordered, starts


@numba.njit(cache=True)
def _key(group, client, n_groups, score, buckets):
    """Cell and bucket of a row; rounding is monotone, so a larger score never falls into a lower bucket."""
    return (client * n_groups + group) * buckets + min(np.int32(score * buckets), buckets - np.int32(1))


@numba.njit(cache=True, parallel=True)
def _deal(groups, clients, n_groups, n_cells, scores, data, buckets, parts):
    """Stable counting sort by cell and bucket of the score; parts of the rows are dealt side by side."""
    n, n_keys = scores.size, n_cells * buckets
    place = np.zeros((parts, n_keys), dtype=np.int64)
    for part in numba.prange(parts):
        for i in range(part * n // parts, (part + 1) * n // parts):
            place[part, _key(groups[i], clients[i], n_groups, scores[i], buckets)] += 1
    starts = np.empty(n_keys + 1, dtype=np.int64)
    total = 0
    for key in range(n_keys):
        starts[key] = total
        for part in range(parts):
            size = place[part, key]
            place[part, key] = total
            total += size
    starts[n_keys] = total
    ordered = np.empty(n)
    for part in numba.prange(parts):
        for i in range(part * n // parts, (part + 1) * n // parts):
            # Computed again rather than remembered: an array of keys would cost more in page faults.
            key = _key(groups[i], clients[i], n_groups, scores[i], buckets)
            ordered[place[part, key]] = data[i]
            place[part, key] += 1
    return ordered, starts


def _sort_padded(data: Floats, starts: Indices, sizes: Indices, width: int) -> None:
    """Sort runs of nearly equal length as the rows of one matrix, padded with infinity."""
    block = np.empty((starts.size, width))
    _fill(block, data, starts, sizes)
    block.sort(axis=1)
    _take(data, block, starts, sizes)


@numba.njit(cache=True)
def _fill(block, data, starts, sizes):
    for row in range(starts.size):
        for i in range(sizes[row]):
            block[row, i] = data[starts[row] + i]
        for i in range(sizes[row], block.shape[1]):
            block[row, i] = np.inf


@numba.njit(cache=True)
def _take(data, block, starts, sizes):
    for row in range(starts.size):
        for i in range(sizes[row]):
            data[starts[row] + i] = block[row, i]


@numba.njit(cache=True)
def running(data, starts):
    """Running sums within each run, a leading 0 for each."""
    n_runs = starts.size - 1
    sums = np.empty(data.size + n_runs)
    for run in range(n_runs):
        total = 0.0
        sums[starts[run] + run] = 0.0
        for i in range(starts[run], starts[run + 1]):
            total += data[i]
            sums[i + run + 1] = total
    return sums


@numba.njit(cache=True)
def counted(bits, starts):
    """Levels of sorted scores with their labels as last bit: see the numpy code in ``cells``."""
    n_cells, n_levels = starts.size - 1, 0
    level_starts = np.empty(n_cells + 1, dtype=np.int64)
    for cell in range(n_cells):
        level_starts[cell] = n_levels
        for i in range(starts[cell], starts[cell + 1]):
            n_levels += i == starts[cell] or bits[i] >> 1 != bits[i - 1] >> 1
    level_starts[n_cells] = n_levels
    level, mass, values = np.empty(n_levels, dtype=np.int64), np.empty(n_levels), np.empty(n_levels)
    mass_below, positives_below = np.empty(n_levels + n_cells), np.empty(n_levels + n_cells)
    at = -1
    for cell in range(n_cells):
        mass_below[level_starts[cell] + cell] = positives_below[level_starts[cell] + cell] = 0.0
        rows, positives, before, positives_before = 0.0, 0.0, 0.0, 0.0
        for i in range(starts[cell], starts[cell + 1]):
            if i == starts[cell] or bits[i] >> 1 != bits[i - 1] >> 1:
                at += 1
                level[at] = bits[i] >> 1
                before, positives_before = rows, positives
            rows += 1.0
            positives += bits[i] & 1
            mass[at], values[at] = rows - before, (positives - positives_before) / (rows - before)
            mass_below[at + cell + 1], positives_below[at + cell + 1] = rows, positives
    return level_starts, level, mass, values, mass_below, positives_below
