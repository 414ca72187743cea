"""Progress of long work: one protocol for whoever does the work and whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Protocol, TypeVar

__all__ = ["NO_STAGES", "Counted", "Progress", "Stages", "no_progress"]

T = TypeVar("T")


class Progress(Protocol):
    """Hands the steps of some work on, and shows how many are done."""

    def __call__(self, steps: Iterable[T], what: str, total: int) -> Iterable[T]:
        """Pass ``steps`` through."""


def no_progress(steps: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Hand the steps on and show nothing."""
    del what, total
    return steps


class Stages:
    """Work in stages of unequal length, shown as one; lengths are in steps, about in proportion to the time they take.

    Examples
    --------
    >>> from logofair.progress import Stages
    >>> shown = []
    >>> def progress(steps, what, total):
    ...     for step in steps:
    ...         yield step
    ...         shown.append(f"{what}: {step + 1} of {total}")
    >>> stages = Stages(progress, "Fitting", 3)
    >>> stages.done(2)
    >>> shown
    ['Fitting: 1 of 3', 'Fitting: 2 of 3']
    """

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self._steps = iter(progress(range(total), what, total))
        next(self._steps, None)  # a step is done when the next one is asked for

    def done(self, length: int) -> None:
        """A stage of this length is over."""
        for _ in range(length):
            next(self._steps, None)

    def counted(self, length: int, expected: int) -> Counted:
        """A stage of this length in which about so many things are counted."""
        return Counted(self, length, expected)


class Counted:
    """A stage that goes on with what is counted, from any thread; at most its length, whatever was expected.

    Examples
    --------
    >>> from logofair.progress import Stages
    >>> shown = []
    >>> def progress(steps, what, total):
    ...     for step in steps:
    ...         yield step
    ...         shown.append(step + 1)
    >>> with Stages(progress, "Reading", 4).counted(4, expected=1000) as count:
    ...     count(600)
    ...     shown
    [1, 2]
    >>> shown
    [1, 2, 3, 4]
    """

    def __init__(self, stages: Stages, length: int, expected: int) -> None:
        self._stages, self._left = stages, length
        self._each = max(expected, 1) / max(length, 1)  # things in a step
        self._lock, self._count = Lock(), 0.0

    def __call__(self, count: int) -> None:
        """So many more were counted."""
        with self._lock:
            self._count += count
            while self._left and self._count >= self._each:
                self._count -= self._each
                self._step()

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        while self._left:
            self._step()

    def _step(self) -> None:
        self._left -= 1
        self._stages.done(1)


# For work that nobody waits for.
NO_STAGES = Stages(no_progress, "", 0)
