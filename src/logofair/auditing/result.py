"""What an audit found, as figures, tables for people and plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import FEW_ROWS, Gap, Side, Tally, plain, side_of, text
from logofair.columns.checks import Floats, Label
from logofair.columns.segments import Booleans, Indices
from logofair.notions import Notion, Rate

__all__ = ["Audit", "ClientAudit", "ClientTable", "RateRows", "RuleAudit", "value_of"]

_LISTED = 20  # lines of a list for people


@dataclass(frozen=True)
class ClientAudit:
    """One client: its rows, accuracy, largest gap, the gap of every rate, and its undefined rates in words.

    ``large_gap`` is the largest gap between rates that rest on 30 rows or more.

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
    large_gap: float | None
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
        return ClientAudit(
            client=self.clients[place],
            rows=int(self._side.tally.rows[place].sum()),
            accuracy=value_of(self._accuracies[place]),
            gap=_worst(gaps).value,
            large_gap=value_of(_largest(self._side.large.gaps[:, place])),
            gaps=gaps,
            undefined=tuple(self._side.undefined(place)),
        )

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


@dataclass(frozen=True)
class RateRows:
    """A rate of a group at a client, and how many rows count in it."""

    rate: str
    client: Label
    group: Label
    rows: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"rate": self.rate, "client": plain(self.client), "group": plain(self.group), "rows": self.rows}


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What :func:`audit` measured; arrays are in the order of ``clients`` and ``groups``.

    Without ``clients=`` there is one client, ``"all"``. ``score_auc`` is the chance that a row with label 1 scores
    above one with label 0, ties counting half; None where undefined. Every :class:`Gap` says how many rows it rests on
    and where chance leaves it; ``large_...`` gaps are those between rates that rest on 30 rows or more. ``local`` and
    ``global_`` hold the same figures as arrays. It prints as its summary.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], groups=["M", "F", "F"])
    accuracy    0.6667
    global gap  1.0000 (selection rate, 'M' over 'F'; 1 row, 95%: 0.0000 to 1.0000)
    local gap   1.0000 (selection rate, 'M' over 'F'; 1 row, 95%: 0.0000 to 1.0000)
      30+ rows  undefined (fewer than two groups have a selection rate on 30 rows or more)
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
    local: Side
    global_: Side
    score_auc: float | None = None
    _missing: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        tally: Tally,
        groups: tuple[Label, ...],
        clients: tuple[Label | None, ...],
        local: tuple[Rate, ...],
        global_: tuple[Rate, ...] | None = None,
        **others: Any,
    ) -> Audit:
        """Measure counted rows; ``clients`` is ``(None,)`` where there are none, ``global_`` None: as ``local``."""
        side = side_of(local, groups, clients, tally)
        rates = local if global_ is None else global_
        same = clients == (None,) and rates == local
        merged = side if same else side_of(rates, groups, (None,), tally.merged())
        return cls(groups, ("all",) if clients == (None,) else clients, side, merged, **others)

    @cached_property
    def accuracy(self) -> float | None:
        """Expected share of right decisions; None where undefined."""
        return value_of(self.global_.tally.accuracy()[0])

    @property
    def accepted(self) -> float | None:
        """Expected share of the rows that is accepted."""
        return self.global_.tally.accepted_share()

    @property
    def by_client(self) -> ClientTable:
        """A table with a row per client."""
        return ClientTable(self.clients, self.local.tally.accuracy(), self.local)

    @property
    def global_gap(self) -> float | None:
        """The largest of :attr:`global_gaps`; None where all are undefined."""
        return self.worst_global.value

    @property
    def global_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate over all clients together."""
        return self.global_.largest()

    @property
    def worst_global(self) -> Gap:
        """The largest of :attr:`global_gaps`, with what it rests on."""
        return _worst(self.global_gaps)

    @property
    def local_gap(self) -> float | None:
        """The largest of :attr:`local_gaps`; None where no client has any defined gap."""
        return self.worst_local.value

    @property
    def local_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate at the client where it is largest."""
        return self.local.largest()

    @cached_property
    def worst_local(self) -> Gap:
        """The largest of :attr:`local_gaps`, with what it rests on."""
        return _worst(self.local_gaps)

    @property
    def large_local_gap(self) -> float | None:
        """The largest of :attr:`large_local_gaps`; None where no client has one."""
        return self.worst_large.value

    @property
    def large_local_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate between groups with 30 rows or more behind it, at the client where it is largest."""
        return self.local.large.largest()

    @cached_property
    def worst_large(self) -> Gap:
        """The largest of :attr:`large_local_gaps`, with what it rests on."""
        return _worst(self.large_local_gaps)

    @cached_property
    def client_gaps(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every client."""
        return self.local.by_client()

    @cached_property
    def large_client_gaps(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every client, between groups with 30 rows or more behind it."""
        return self.local.large.by_client()

    def contrary_clients(self, tolerance: float) -> tuple[Gap, ...]:
        """Where local and global disagree: clients above a tolerance that holds over all, or within one that does not.

        Judged by :attr:`large_client_gaps` alone, furthest from the tolerance first.
        """
        over_all = self.global_gap
        if over_all is None:
            return ()
        known = [(gap.value, gap) for gap in self.large_client_gaps if gap.value is not None]
        others = [pair for pair in known if (pair[0] > tolerance) == (over_all <= tolerance)]
        others.sort(key=lambda pair: pair[0], reverse=over_all <= tolerance)
        return tuple(gap for _, gap in others)

    @property
    def rows_behind(self) -> dict[str, Indices]:
        """How many rows count in every rate of :attr:`local_rates`, as (clients, groups) arrays."""
        return {rate.name: rows.copy() for rate, rows in zip(self.local.rates, self.local.rows, strict=True)}

    @property
    def small_cells(self) -> Booleans:
        """Which cells have a rate that rests on fewer than 30 rows, or none, as a (clients, groups) array."""
        return np.asarray((self.local.rows < FEW_ROWS).any(axis=0))

    @property
    def small_clients(self) -> int:
        """Number of clients with such a cell."""
        return int(self.small_cells.any(axis=1).sum())

    @property
    def smallest(self) -> RateRows:
        """The rate, client and group that rest on the fewest rows."""
        rows = self.local.rows
        rate, client, group = np.unravel_index(rows.argmin(), rows.shape)
        name = self.local.rates[rate].name
        return RateRows(name, self.clients[client], self.groups[group], int(rows[rate, client, group]))

    @property
    def undefined_clients(self) -> int:
        """Number of clients where the gap of at least one rate is undefined."""
        return int(np.isnan(self.local.gaps).any(0).sum())

    @property
    def rates(self) -> dict[str, dict[Label, float | None]]:
        """Every rate of every group over all clients together; None where undefined."""
        rows = [dict(zip(self.groups, map(value_of, row), strict=True)) for row in self.global_.values[:, 0]]
        return {rate.name: row for rate, row in zip(self.global_.rates, rows, strict=True)}

    @property
    def local_rates(self) -> dict[str, Floats]:
        """Every rate as a (clients, groups) array; NaN where undefined."""
        return {rate.name: values.copy() for rate, values in zip(self.local.rates, self.local.values, strict=True)}

    @property
    def counts(self) -> dict[str, npt.NDArray[np.intp]]:
        """Unweighted ``"rows"`` and, with labels, ``"positives"`` of every cell as (clients, groups) arrays."""
        tally = self.local.tally
        return {"rows": tally.rows.sum(2)} | ({"positives": tally.rows[..., 1].copy()} if tally.labelled else {})

    @property
    def undefined(self) -> tuple[str, ...]:
        """A sentence for everything that could not be measured, with its reason."""
        return tuple(dict.fromkeys(self._undefined()))

    def _undefined(self) -> Iterator[str]:
        yield from self._missing
        yield from self.global_.undefined(0)
        if self.local is not self.global_:
            for place in np.flatnonzero(np.isnan(self.local.values).any((0, 2))).tolist():
                yield from self.local.undefined(place)

    def summary(self) -> str:
        """Return the audit as text for people."""
        unknown = f"; some gap is undefined at {self.undefined_clients} of {len(self.clients)} clients"
        figures = [
            ["accuracy", text(self.accuracy)],
            ["global gap", str(self.worst_global)],
            ["local gap", f"{self.worst_local}{unknown if self.undefined_clients else ''}"],
        ]
        figures += [] if self.worst_large == self.worst_local else [[f"  {FEW_ROWS}+ rows", str(self.worst_large)]]
        figures += [] if self.score_auc is None else [["score AUC", text(self.score_auc)]]
        rates = [["group", *self.rates]]
        rates += [[str(group), *(text(row[group]) for row in self.rates.values())] for group in self.groups]
        reasons = list(islice(self._undefined(), _LISTED + 1))
        reasons[_LISTED:] = ["... and more"] if len(reasons) > _LISTED else []
        parts = [_aligned(figures), _aligned(rates), repr(self.by_client), "\n".join(reasons)]
        return "\n\n".join(part for part in parts if part)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; what is undefined is None."""
        names = ("groups", "clients", "accuracy", "accepted", "score_auc", "undefined_clients", "undefined")
        gaps = ("global_gap", "local_gap", "large_local_gap", "global_gaps", "local_gaps", "large_local_gaps")
        found = {name: getattr(self, name) for name in (*names, *gaps, "counts", "local_rates", "rows_behind")}
        found["rates"] = {name: list(row.values()) for name, row in self.rates.items()}
        return {**_plain(found), "small": self.small_as_dict(), "by_client": self.by_client.as_dicts()}

    def largest_as_dict(self) -> dict[str, Any]:
        """Return the largest gap over all, at any client, and between large cells, as plain values."""
        return {
            "global": self.worst_global.as_dict(),
            "largest_local": self.worst_local.as_dict(),
            f"largest_local_{FEW_ROWS}_rows": self.worst_large.as_dict(),
        }

    def small_as_dict(self) -> dict[str, Any]:
        """Return how many clients and cells are small, and the smallest, as plain values."""
        return {
            "fewer_than": FEW_ROWS,
            "clients": self.small_clients,
            "cells": int(self.small_cells.sum()),
            "smallest": self.smallest.as_dict(),
        }

    __repr__ = summary


@dataclass(frozen=True, eq=False)
class RuleAudit:
    """One decision rule on counted rows: accuracy, the share accepted, and an audit for each of several notions."""

    tally: Tally
    by_notion: dict[str, Audit]

    @classmethod
    def of(
        cls, tally: Tally, groups: tuple[Label, ...], clients: tuple[Label | None, ...], notions: Iterable[Notion]
    ) -> RuleAudit:
        """Measure every notion, without labels those that need none."""
        measured = [notion for notion in notions if tally.labelled or not notion.needs_labels]
        return cls(tally, {notion.name: Audit.of(tally, groups, clients, notion.rates) for notion in measured})

    @property
    def accuracy(self) -> float | None:
        """Expected share of right decisions; None without labels."""
        return value_of(self.tally.merged().accuracy()[0])

    @property
    def accepted(self) -> float | None:
        """Expected share of the rows that is accepted."""
        return self.tally.accepted_share()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        gaps = {name: audit.largest_as_dict() for name, audit in self.by_notion.items()}
        return {"accuracy": self.accuracy, "accepted": self.accepted, "gaps": gaps}


def value_of(number: float) -> float | None:
    """A number, or None for NaN."""
    return None if np.isnan(number) else float(number)


def _largest(gaps: Floats) -> float:
    """The largest gap that is defined; NaN if none is."""
    return float(np.max(gaps, where=~np.isnan(gaps), initial=-1.0)) if not np.isnan(gaps).all() else np.nan


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
