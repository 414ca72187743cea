"""More speed for many rows: two threads or more, and the optional compiled code (numba, ``logofair[fast]``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

__all__ = ["ENOUGH_ROWS", "PIECE", "accelerated", "piece_by_piece", "side_by_side", "two_at_once"]

First = TypeVar("First")
Second = TypeVar("Second")

# The compiled code pays its loading time (a third of a second; ten seconds the first time ever) back from this many
# rows on.
ENOUGH_ROWS = 200_000
# Rows worked on at once: temporaries of this length stay in the processor's caches.
PIECE = 1 << 15
_MOST_THREADS = 4


@cache
def _numba_installed() -> bool:
    return find_spec("numba") is not None


def accelerated(rows: int) -> bool:
    """Whether to use the compiled code; the variable ``LOGOFAIR_ACCELERATE`` forces it: ``0`` never, ``1`` always."""
    wish = os.environ.get("LOGOFAIR_ACCELERATE", "")
    return wish != "0" and (rows >= ENOUGH_ROWS or wish == "1") and _numba_installed()


def side_by_side(work: Callable[[Any], None], parts: Iterable[Any], rows: int) -> None:
    """Do some work on every part; in threads where the parts have many rows in all, as numpy lets others run."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1) if rows >= ENOUGH_ROWS else 1
    if threads == 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, parts):
            pass


def two_at_once(first: Callable[[], First], second: Callable[[], Second], rows: int) -> tuple[First, Second]:
    """Do two pieces of work, neither of which needs the other; in two threads where they are on many rows."""
    if rows < ENOUGH_ROWS or os.cpu_count() == 1:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(second)
        return first(), other.result()


def piece_by_piece(work: Callable[[slice], None], rows: int) -> None:
    """Do some work on every piece of rows, :func:`side_by_side`."""
    side_by_side(work, [slice(first, first + PIECE) for first in range(0, rows, PIECE)], rows)
