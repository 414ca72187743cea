"""Errors of training, beside those of :mod:`logofair.errors`."""

from __future__ import annotations

from collections.abc import Callable

from logofair.errors import InputError, LogofairError

__all__ = ["OtherRunError", "TrainingInterrupted"]


class OtherRunError(InputError):
    """A stored state is of a run with another value of some setting."""

    def __init__(self, path: object, setting: str, was: object, now: object) -> None:
        super().__init__(
            f"{path}: is of a run with {setting} {was!r}, not {now!r}; use the same settings, or another file."
        )
        self.path, self.setting, self.was, self.now = path, setting, was, now

    def renamed(self, name: Callable[[str], str]) -> InputError:
        """The same error with the setting called otherwise."""
        return OtherRunError(self.path, name(self.setting), self.was, self.now)


class TrainingInterrupted(LogofairError):  # named after KeyboardInterrupt: nothing went wrong
    """An interrupt after some rounds; ``saved`` says whether their state was stored."""

    def __init__(self, rounds: int, saved: bool) -> None:
        super().__init__(rounds)
        self.rounds, self.saved = rounds, saved
