"""More speed for many rows: pieces that stay in the processor's caches, and two threads or more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

First = TypeVar("First")
Second = TypeVar("Second")

# Threads pay from this many rows on.
ENOUGH_ROWS = 200_000
# Rows worked on at once: temporaries of this length stay in the processor's caches.
PIECE = 1 << 15
_MOST_THREADS, _PIECES = 4, 16  # more pieces than threads, so that none waits long for the last


def threads_for(rows: int) -> int:
    """How many threads are worth waking for some rows."""
    return min(_MOST_THREADS, os.cpu_count() or 1) if rows >= ENOUGH_ROWS else 1


def side_by_side(work: Callable[[Any], None], parts: Iterable[Any], rows: int) -> None:
    """Do some work on every part; in threads where the parts have many rows in all, as numpy lets others run."""
    parts = list(parts)
    threads = min(threads_for(rows), len(parts))
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
    parts = _PIECES if rows >= ENOUGH_ROWS else 1
    cuts = np.searchsorted(starts[:-1], np.arange(1, parts) * rows // parts)
    ends = np.unique(np.concatenate(([0], cuts, [starts.size - 1]))).tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def two_at_once(first: Callable[[], First], second: Callable[[], Second], rows: int) -> tuple[First, Second]:
    """Do two pieces of work, neither of which needs the other; in two threads where they are on many rows."""
    if threads_for(rows) == 1:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(second)
        return first(), other.result()


def pieces(rows: int, size: int = PIECE) -> list[slice]:
    """Rows, or what there is of something else, in pieces of a size."""
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


def piece_by_piece(work: Callable[[slice], None], rows: int) -> None:
    """Do some work on every piece of rows, :func:`side_by_side`."""
    side_by_side(work, pieces(rows), rows)
