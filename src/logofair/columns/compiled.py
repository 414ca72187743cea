"""Sorting and isotonic regression, compiled: the optional counterparts of ``columns.segments``, with the same result.

Dealing rows into buckets and summing them are simple loops that numba runs at memory speed; the sorting itself is left
to numpy, whose sort of short rows no loop of ours beats.
"""

from __future__ import annotations

import numba
import numpy as np

from logofair.columns.acceleration import pieces_of_runs, side_by_side, threads_for
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Indices, bucket_count, sort_buckets, sort_runs

# What is compiled once, kept on disk, and lets other threads run; and what becomes a part of it: between functions
# numba counts the references to every array, which takes as long as the work on a few rows.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
inlined = numba.njit(inline="always", error_model="numpy")

NO_WEIGHTS = np.zeros(0)  # every value counts 1


def starts_of_pools(values: Floats, mass: Floats, starts: Indices) -> Indices:
    """Where the pools of every run's isotonic regression begin; run i is ``values[starts[i]:starts[i + 1]]``."""
    marks = np.zeros(values.size, dtype=bool)
    side_by_side(
        lambda runs: _mark(runs.start, runs.stop, values, mass, starts, marks), pieces_of_runs(starts), values.size
    )
    return np.flatnonzero(marks)


@compiled
def _mark(first, last, values, mass, starts, marks):
    stack = empty_stack(starts, first, last)
    for run in range(first, last):
        begin = starts[run]
        for pool in range(pool_run(values, mass, begin, starts[run + 1], stack)):
            marks[begin] = True
            begin = stack[2][pool]


@compiled
def empty_stack(starts, first, last):
    """Room for the sums, masses and ends of the pools of any of some runs."""
    room = 0
    for run in range(first, last):
        room = max(room, starts[run + 1] - starts[run])
    return np.empty(room), np.empty(room), np.empty(room, np.int64)


@inlined
def pool_run(values, mass, begin, end, stack):
    """Pool one run, neighbours that fall becoming one until none fall, onto the stack; how many pools there are."""
    # Pools are far fewer than rows, so that most of the stack is never touched. Means are compared without quotients.
    sums, masses, ends = stack
    top, i = -1, begin
    while i < end:
        total, weight, falling = 0.0, 0.0, True
        while falling:
            # First the rows that follow, as they come, then the pool before: most pools never reach the stack.
            while i < end and (weight == 0.0 or values[i] * weight <= total):
                more = mass[i] if mass.size else 1.0
                total += more * values[i]
                weight += more
                i += 1
            falling = top >= 0 and sums[top] * weight >= total * masses[top]
            if falling:
                total += sums[top]
                weight += masses[top]
                top -= 1
        top += 1
        sums[top], masses[top], ends[top] = total, weight, i
    return top + 1


def sorted_cells(
    groups: Integers, clients: Integers, n_groups: int, n_clients: int, scores: Floats, data: Floats | None = None
) -> tuple[Floats, Indices]:
    """Scores, or what stands for them, ascending within each cell, and where cells start."""
    n_cells, n = n_groups * n_clients, scores.size
    buckets = bucket_count(n, n_cells)
    # A stable counting sort. Waking threads pays on large inputs only, and every part needs counters of its own.
    parts = min(threads_for(n), 1 + n // 400_000)
    rows = [(part * n // parts, (part + 1) * n // parts) for part in range(parts)]
    counts, ordered = np.zeros((parts, n_cells * buckets), dtype=np.int64), np.empty(n)
    columns = (groups, clients, np.int32(n_groups), scores, np.int32(buckets))
    side_by_side(lambda part: _count(rows[part], *columns, counts[part]), range(parts), n)
    starts = _to_places(counts)
    data = scores if data is None else data
    side_by_side(lambda part: _deal(rows[part], *columns, counts[part], data, ordered), range(parts), n)
    if buckets > 1:
        starts = sort_buckets(ordered, starts, buckets)
    else:
        sort_runs(ordered, starts, _sort_padded)
    return ordered, starts


@inlined
def _key(group, client, n_groups, score, buckets):
    """Cell and bucket of a row; rounding is monotone, so a larger score never falls into a lower bucket."""
    return (client * n_groups + group) * buckets + min(np.int32(score * buckets), buckets - np.int32(1))


@compiled
def _count(rows, groups, clients, n_groups, scores, buckets, counts):
    """Count some rows by cell and bucket of the score."""
    for i in range(rows[0], rows[1]):
        counts[_key(groups[i], clients[i], n_groups, scores[i], buckets)] += 1


@compiled
def _to_places(counts):
    """Turn counts by part and key, in place, into where the first row of each belongs; where the keys start."""
    parts, n_keys = counts.shape
    starts, total = np.empty(n_keys + 1, dtype=np.int64), 0
    for key in range(n_keys):
        starts[key] = total
        for part in range(parts):
            size = counts[part, key]
            counts[part, key] = total
            total += size
    starts[n_keys] = total
    return starts


@compiled
def _deal(rows, groups, clients, n_groups, scores, buckets, place, data, ordered):
    """Put some rows where they belong, in the order in which they come; ``place`` is that of the next of each key."""
    for i in range(rows[0], rows[1]):
        # Computed again rather than remembered: an array of keys would cost more in page faults.
        key = _key(groups[i], clients[i], n_groups, scores[i], buckets)
        ordered[place[key]] = data[i]
        place[key] += 1


def _sort_padded(data: Floats, starts: Indices, sizes: Indices, width: int) -> None:
    """Sort runs of nearly equal length as the rows of one matrix, padded with infinity."""
    block = np.empty((starts.size, width))
    _fill(block, data, starts, sizes)
    block.sort(axis=1)
    _take(data, block, starts, sizes)


@compiled
def _fill(block, data, starts, sizes):
    for row in range(starts.size):
        for i in range(sizes[row]):
            block[row, i] = data[starts[row] + i]
        for i in range(sizes[row], block.shape[1]):
            block[row, i] = np.inf


@compiled
def _take(data, block, starts, sizes):
    for row in range(starts.size):
        for i in range(sizes[row]):
            data[starts[row] + i] = block[row, i]


def dealt_numbers(keys: Indices, shift: int, n_buckets: int) -> tuple[Indices, Indices]:
    """Whole numbers by their first bits, a stable counting sort, and where each bucket starts."""
    n, parts = keys.size, threads_for(keys.size)
    rows = [slice(part * n // parts, (part + 1) * n // parts) for part in range(parts)]
    counts, dealt = np.zeros((parts, n_buckets), dtype=np.int64), np.empty_like(keys)
    side_by_side(lambda part: _count_numbers(keys[rows[part]], shift, counts[part]), range(parts), n)
    starts = _to_places(counts)
    side_by_side(lambda part: _deal_numbers(keys[rows[part]], shift, counts[part], dealt), range(parts), n)
    return dealt, starts


@compiled
def _count_numbers(keys, shift, counts):
    for i in range(keys.size):
        counts[keys[i] >> shift] += 1


@compiled
def _deal_numbers(keys, shift, place, dealt):
    for i in range(keys.size):
        bucket = keys[i] >> shift
        dealt[place[bucket]] = keys[i]
        place[bucket] += 1
