"""Every error this package raises of its own accord, in one tree.

::

    LogofairError
    ├── InputError            input that cannot be used (also a ValueError)
    │   └── DiskFullError     a file cannot be written for lack of room
    ├── SolverError           no policy with a valid certificate was found
    │   └── InfeasibleError   no rule meets all requirements
    ├── RefusedError          a site does not answer a server's request
    ├── RunError              a federated run cannot go on
    │   └── QuorumLostError   too few sites are left
    ├── SecureRefusalError    a site does not take part in a secure sum
    └── SumError              a secure sum has no total
        └── GarbledTotalError the masks did not cancel, or the total is impossible

Messages are one line: where, what was got, what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any


class LogofairError(Exception):
    """The base of all errors of this package.

    Examples
    --------
    >>> import logofair
    >>> from logofair.errors import LogofairError
    >>> try:
    ...     logofair.fit([0.9], [1], sensitive_features=["a"])
    ... except LogofairError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(LogofairError, ValueError):
    """Input that cannot be used; the message says where, what was got and what to do, on one line.

    Examples
    --------
    >>> import logofair
    >>> try:
    ...     logofair.fit([0.9, 1.2], [1, 0], sensitive_features=["a", "b"])
    ... except logofair.InputError as error:
    ...     print(error)
    scores: row 1 is 1.2, outside [0, 1]; scores are probabilities of label 1: divide percentages by 100.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))  # what was got may be an array, which prints on several

    def renamed(self, name: Callable[[str], str]) -> InputError:
        """The same error with an argument called otherwise, say by the option that was typed.

        Examples
        --------
        >>> print(InputError("n_sites: got 0; pass 1 or more.").renamed(lambda name: "--sites"))
        --sites: got 0; pass 1 or more.
        """
        argument, colon, rest = str(self).partition(":")
        return InputError(f"{name(argument)}{colon}{rest}")


class DiskFullError(InputError):
    """A file cannot be written: its disk is full, or its owner's share of it."""


class SolverError(LogofairError, RuntimeError):
    """No policy with a valid certificate was found; none is returned."""


class InfeasibleError(SolverError):
    """No rule meets all requirements; ``least_relaxation`` has the few that conflict.

    Attributes
    ----------
    conflict : tuple
        The requirements that cannot hold together, none of which could be left out.
    least_relaxation : mapping
        For each of them the least by which it would have to give way with all others held; None: that is not enough.

    Examples
    --------
    >>> import logofair
    >>> require = ["selection rate >= 0.5 overall", "accepted <= 0.2 overall"]
    >>> try:
    ...     logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=[*"abab"], calibration="none", require=require)
    ... except logofair.InfeasibleError as error:
    ...     print(*error.conflict, sep="; ")
    selection rate >= 0.5 overall; accepted <= 0.2 overall
    """

    def __init__(self, least_relaxation: Mapping[Any, float | None], sentence: str = "") -> None:
        super().__init__(sentence or "no rule meets all requirements.")
        self.least_relaxation = dict(least_relaxation)

    @property
    def conflict(self) -> tuple[Any, ...]:
        """The requirements that cannot hold together."""
        return tuple(self.least_relaxation)


class RefusedError(LogofairError, RuntimeError):
    """A site does not answer. Only ``refusal`` leaves it; the sentence is for its own screen."""

    def __init__(self, refusal: Enum, sentence: str = "") -> None:
        super().__init__(sentence or refusal.value)
        self.refusal = refusal


class RunError(LogofairError, RuntimeError):
    """The run cannot go on; the sentence says why and what to do. Its state is stored."""


class QuorumLostError(RunError):
    """Too few sites are left to go on."""


class SecureRefusalError(LogofairError, RuntimeError):
    """A site does not take part in a secure sum; ``code`` is all that may travel, and holds no data."""

    def __init__(self, code: Enum) -> None:
        super().__init__(f"refused: {code.value}")
        self.code = code


class SumError(LogofairError, RuntimeError):
    """The server cannot form the total, say because too few sites answered; the sentence says what to do."""


class GarbledTotalError(SumError):
    """The masks did not cancel, or the total is impossible: some site sent rubbish and nobody can tell which."""
