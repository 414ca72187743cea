"""Running sums and levels of scores within cells, compiled: the optional counterparts of numpy's code, same result."""

from __future__ import annotations

import numpy as np

from logofair.columns.compiled import compiled


@compiled
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


@compiled
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
