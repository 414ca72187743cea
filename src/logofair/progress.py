"""Progress of long work: one protocol for whoever does the work and whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["Progress", "Stages", "no_progress"]

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
