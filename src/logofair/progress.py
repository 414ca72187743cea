"""Progress of long work: one protocol for whoever does the work and whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Protocol, TypeVar

_T = TypeVar("_T")

_SHOWN = 100


class Progress(Protocol):
    """Hands the steps of some work on, and shows how many are done."""

    def __call__(self, steps: Iterable[_T], what: str, total: int) -> Iterable[_T]:
        """Pass ``steps`` through."""


def no_progress(steps: Iterable[_T], what: str, total: int) -> Iterable[_T]:
    """Hand the steps on and show nothing."""
    del what, total
    return steps


class Stages:
    """Work that counts how much of it is done, from any thread; of more than 100 things, hundredths are shown.

    Examples
    --------
    >>> from logofair.progress import Stages
    >>> shown = []
    >>> def progress(steps, what, total):
    ...     for step in steps:
    ...         yield step
    ...         shown.append(f"{what}: {step + 1} of {total}")
    >>> with Stages(progress, "Fitting", 3) as stages:
    ...     stages.done()
    ...     shown
    ['Fitting: 1 of 3']
    >>> shown[-1]
    'Fitting: 3 of 3'
    """

    def __init__(self, progress: Progress, what: str, expected: int) -> None:
        self._left = min(max(expected, 1), _SHOWN)
        self._each = max(expected, 1) / self._left  # things in a step
        self._lock, self._count = Lock(), 0.0
        self._steps = iter(progress(range(self._left), what, self._left))
        next(self._steps, None)  # a step is done when the next one is asked for

    def done(self, count: int = 1) -> None:
        """So many more are done; more than were expected count for nothing."""
        with self._lock:
            self._count += count
            while self._left and self._count >= self._each:
                self._count -= self._each
                self._step()

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        while self._left:
            self._step()

    def _step(self) -> None:
        self._left -= 1
        next(self._steps, None)
