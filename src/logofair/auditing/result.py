"""What an audit found, as figures, tables for people and plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import Gap, Side, text
from logofair.columns.checks import Floats, Label

__all__ = ["Audit", "ClientAudit", "ClientTable", "value_of"]

_LISTED = 20  # lines of a list for people


@dataclass(frozen=True)
class ClientAudit:
    """One client: its rows, accuracy, largest gap, the gap of every rate, and its undefined rates in words.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], groups=["M", "F", "F"], clients=["a", "a", "b"]).by_client[1].undefined
    ("selection rate of group 'M' at client 'b' is undefined: no rows",)
    """

    client: Label
    rows: int
    accuracy: float | None
    gap: float | None
    gaps: tuple[Gap, ...]
    undefined: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ClientTable:
    """The clients of an audit, in order; a row is built when asked for, and printing shows the first 20.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], groups=["M", "F", "F"], clients=["a", "a", "b"]).by_client
    client  rows  accuracy  gap
    a       2     1.0000    1.0000
    b       1     0.0000    undefined
    """

    clients: tuple[Label, ...]
    _accuracies: Floats
    _side: Side

    def __len__(self) -> int:
        return len(self.clients)

    def __getitem__(self, index: int) -> ClientAudit:
        place = range(len(self))[index]
        gaps = tuple(self._side.gap(rate, place) for rate in range(len(self._side.rates)))
        rows, accuracy = int(self._side.tally.rows[place].sum()), value_of(self._accuracies[place])
        undefined = tuple(self._side.undefined(place))
        return ClientAudit(self.clients[place], rows, accuracy, _worst(gaps).value, gaps, undefined)

    def __iter__(self) -> Iterator[ClientAudit]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        rates = self._side.rates if len(self._side.rates) > 1 else ()
        lines = [["client", "rows", "accuracy", "gap", *(f"gap of {rate.name}" for rate in rates)]]
        for row in islice(self, _LISTED):
            figures = (row.accuracy, row.gap, *(gap.value for gap in row.gaps[: len(rates)]))
            lines.append([str(row.client), str(row.rows), *map(text, figures)])
        return _aligned(lines) + (f"\n... and {len(self) - _LISTED} more" if len(self) > _LISTED else "")

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return every row as plain values, ready for JSON."""
        return [_plain(vars(row)) for row in self]


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What :func:`audit` measured; arrays are in the order of ``clients`` and ``groups``.

    Without ``clients=`` there is one client, ``"all"``. ``accuracy`` is the expected share of right decisions,
    ``score_auc`` the chance that a row with label 1 scores above one with label 0, ties counting half; both are
    None where undefined. ``by_client`` is a table with a row per client. It prints as its summary.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], groups=["M", "F", "F"])
    accuracy    0.6667
    global gap  1.0000 (selection rate, 'M' over 'F')
    local gap   1.0000 (selection rate, 'M' over 'F')
    <BLANKLINE>
    group  selection rate
    F      0.0000
    M      1.0000
    <BLANKLINE>
    client  rows  accuracy  gap
    all     3     0.6667    1.0000
    """

    groups: tuple[Label, ...]
    clients: tuple[Label, ...]
    accuracy: float | None
    score_auc: float | None
    by_client: ClientTable
    _missing: tuple[str, ...]
    _local: Side
    _global: Side

    @property
    def global_gap(self) -> float | None:
        """The largest of :attr:`global_gaps`; None where all are undefined."""
        return _worst(self.global_gaps).value

    @property
    def global_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate over all clients together."""
        return self._global.largest()

    @property
    def local_gap(self) -> float | None:
        """The largest of :attr:`local_gaps`; None where no client has any defined gap."""
        return _worst(self.local_gaps).value

    @property
    def local_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate at the client where it is largest."""
        return self._local.largest()

    @property
    def undefined_clients(self) -> int:
        """Number of clients where the gap of at least one rate is undefined."""
        return int(np.isnan(self._local.gaps).any(0).sum())

    @property
    def rates(self) -> dict[str, dict[Label, float | None]]:
        """Every rate of every group over all clients together; None where undefined."""
        rows = [dict(zip(self.groups, map(value_of, row), strict=True)) for row in self._global.values[:, 0]]
        return {rate.name: row for rate, row in zip(self._global.rates, rows, strict=True)}

    @property
    def local_rates(self) -> dict[str, Floats]:
        """Every rate as a (clients, groups) array; NaN where undefined."""
        return {rate.name: values.copy() for rate, values in zip(self._local.rates, self._local.values, strict=True)}

    @property
    def counts(self) -> dict[str, npt.NDArray[np.intp]]:
        """Unweighted ``"rows"`` and, with labels, ``"positives"`` of every cell as (clients, groups) arrays."""
        tally = self._local.tally
        return {"rows": tally.rows.sum(2)} | ({"positives": tally.rows[..., 1].copy()} if tally.labelled else {})

    @property
    def undefined(self) -> tuple[str, ...]:
        """A sentence for everything that could not be measured, with its reason."""
        return tuple(dict.fromkeys(self._undefined()))

    def _undefined(self) -> Iterator[str]:
        yield from self._missing
        yield from self._global.undefined(0)
        if self._local is not self._global:
            for place in np.flatnonzero(np.isnan(self._local.values).any((0, 2))).tolist():
                yield from self._local.undefined(place)

    def summary(self) -> str:
        """Return the audit as text for people."""
        unknown = f"; some gap is undefined at {self.undefined_clients} of {len(self.clients)} clients"
        local = f"{_worst(self.local_gaps)}{unknown if self.undefined_clients else ''}"
        figures = [
            ["accuracy", text(self.accuracy)],
            ["global gap", str(_worst(self.global_gaps))],
            ["local gap", local],
        ]
        figures += [] if self.score_auc is None else [["score AUC", text(self.score_auc)]]
        rates = [["group", *self.rates]]
        rates += [[str(group), *(text(row[group]) for row in self.rates.values())] for group in self.groups]
        reasons = list(islice(self._undefined(), _LISTED + 1))
        reasons[_LISTED:] = ["... and more"] if len(reasons) > _LISTED else []
        parts = [_aligned(figures), _aligned(rates), repr(self.by_client), "\n".join(reasons)]
        return "\n\n".join(part for part in parts if part)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; what is undefined is None."""
        names = ("groups", "clients", "accuracy", "score_auc", "global_gap", "local_gap", "undefined_clients")
        found = {
            name: getattr(self, name)
            for name in (*names, "global_gaps", "local_gaps", "counts", "local_rates", "undefined")
        }
        found["rates"] = {name: list(row.values()) for name, row in self.rates.items()}
        return {**_plain(found), "by_client": self.by_client.as_dicts()}

    __repr__ = summary


def value_of(number: float) -> float | None:
    """A number, or None for NaN."""
    return None if np.isnan(number) else float(number)


def _worst(gaps: tuple[Gap, ...]) -> Gap:
    """The largest gap that is defined, if any is."""
    return max(gaps, key=lambda gap: -1.0 if gap.value is None else gap.value)


def _aligned(lines: list[list[str]]) -> str:
    """Lines of a table with their columns below one another."""
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _plain(value: Any) -> Any:
    """Nested values as JSON has them: labels of other types as text, NaN as None."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(part) for part in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, Gap):
        value = vars(value)
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)
