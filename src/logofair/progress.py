"""Progress of long work: one protocol for whoever does the work and whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["Progress", "no_progress"]

T = TypeVar("T")


class Progress(Protocol):
    """Hands the steps of some work on, and shows how many are done."""

    def __call__(self, steps: Iterable[T], what: str, total: int) -> Iterable[T]:
        """Pass ``steps`` through."""


def no_progress(steps: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Hand the steps on and show nothing."""
    del what, total
    return steps
