"""Isotonic regression of runs, compiled: the optional counterpart of ``columns.segments.pool_starts``, same pools."""

from __future__ import annotations

import numba
import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices

NO_WEIGHTS = np.zeros(0)  # every value counts 1


def starts_of_pools(values: Floats, mass: Floats, starts: Indices) -> Indices:
    """Where the pools of every run's isotonic regression begin; run i is ``values[starts[i]:starts[i + 1]]``."""
    return np.flatnonzero(_marked(values, mass, starts))


@numba.njit(cache=True, parallel=True, error_model="numpy")
def _marked(values, mass, starts):
    marks = np.zeros(values.size, np.bool_)
    for run in numba.prange(starts.size - 1):
        first = starts[run]
        _, _, ends = pools_of(values, mass, first, starts[run + 1])
        for end in ends:
            marks[first] = True
            first = end
    return marks


@numba.njit(cache=True, error_model="numpy")
def pools_of(values, mass, begin, end):
    """Sums, masses and ends of the pools of one run: neighbours that fall are one, until none fall."""
    # Pools lie on a stack, which grows with them: they are far fewer than rows. No quotient is needed to compare means.
    room = 64
    sums, masses, ends = np.empty(room), np.empty(room), np.empty(room, np.int64)
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
        if top == room:
            sums, masses, ends = np.append(sums, sums), np.append(masses, masses), np.append(ends, ends)
            room *= 2
        sums[top], masses[top], ends[top] = total, weight, i
    return sums[: top + 1], masses[: top + 1], ends[: top + 1]
