"""Where a report's figures come from, so that they can be made again: data, command, versions; never rows."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from logofair._version import __version__
from logofair.solution import Rows, Solution
from logofair.tables import DataSource

__all__ = ["Provenance", "in_memory", "versions"]

_PACKAGES = ("numpy", "scipy", "numba", "polars")


def versions() -> dict[str, str]:
    """Return the versions a result may depend on, of what is installed.

    Examples
    --------
    >>> list(versions())[:3]
    ['logofair', 'Python', 'numpy']
    """
    found = {"logofair": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Provenance:
    """How a report was made: from which data, by which command, when (the clock is not asked) and with what.

    Examples
    --------
    >>> Provenance(DataSource("loans.csv", ("loans.csv",), "5d41", 1200, {}), "logofair fit loans.csv").made is None
    True
    """

    data: DataSource
    command: str
    made: str | None = None
    versions: dict[str, str] = field(default_factory=versions)


def in_memory(name: str, solution: Solution) -> DataSource:
    """Return the source of a solution whose rows came from no file: a name, and a fingerprint of its columns.

    The same rows in the same order have the same fingerprint.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.2], None, groups=["a", "b"], calibration="none")
    >>> in_memory("two rows", solution).rows
    2
    """
    rows = solution.rows
    return DataSource(name, (), _fingerprint(rows), rows.scores.size, {})


def _fingerprint(rows: Rows) -> str:
    """SHA-256 of the checked columns."""
    digest = hashlib.sha256()
    for numbers in (rows.scores, rows.labels, rows.weights):
        digest.update(b"none;" if numbers is None else np.ascontiguousarray(numbers, dtype="<f8").tobytes())
    for column in (rows.groups, rows.clients):
        digest.update(repr(column.names).encode("utf-8", "backslashreplace"))
        digest.update(np.ascontiguousarray(column.codes, dtype="<i8").tobytes())
    return digest.hexdigest()
