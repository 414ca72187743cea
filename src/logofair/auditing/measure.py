"""Masses of the (client, group, label) cells, the rates they make, and the gaps between rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Label
from logofair.columns.labels import Codes
from logofair.notions import Rate

__all__ = ["Gap", "Side", "Tally", "side_of", "tally_of", "text"]

FEW_ROWS = 30  # gaps measured on fewer rows than this are mostly noise
_LARGEST_RATE = 1e300  # keeps the difference of two rates finite; only a user's own rate comes near


@dataclass(frozen=True)
class Gap:
    """The largest rate over the groups minus the smallest; ``value`` is None where ``reason`` says why.

    ``highest`` and ``lowest`` are the groups concerned; ``client`` is None for all clients together.

    Examples
    --------
    >>> print(Gap(0.25, "selection rate", highest="M", lowest="F", client="north"))
    0.2500 (selection rate, 'M' over 'F', client 'north')
    """

    value: float | None
    rate: str
    highest: Label | None = None
    lowest: Label | None = None
    client: Label | None = None
    reason: str | None = None

    def __str__(self) -> str:
        what = self.reason if self.value is None else self.rate
        what = f"{what}, {self.highest!r} over {self.lowest!r}" if self.value else what
        return f"{text(self.value)} ({what}{'' if self.client is None else f', client {self.client!r}'})"


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows, mass and accepted mass by (client, group, label); without labels all stand under label 0."""

    rows: npt.NDArray[np.intp]
    mass: Floats
    accepted: Floats
    labelled: bool

    def merged(self) -> Tally:
        """All clients as one."""
        return Tally(self.rows.sum(0)[None], self.mass.sum(0)[None], self.accepted.sum(0)[None], self.labelled)

    def accuracy(self) -> Floats:
        """Expected share of right decisions by client; NaN where undefined."""
        right = self.accepted[..., 1] + (self.mass[..., 0] - self.accepted[..., 0])
        return _ratio(right.sum(1), self.labelled * self.mass.sum((1, 2)))

    def rate(self, rate: Rate) -> Floats:
        """One rate by (client, group); NaN where undefined."""
        with np.errstate(over="ignore", invalid="ignore"):  # a user's own rate may be huge
            # Label by label: the difference of two sums would lose a light label beside a heavy one.
            top = [rate.numerator(self.accepted[..., label], label * self.accepted[..., label]) for label in (0, 1)]
            bottom = [rate.denominator(self.mass[..., label], label * self.mass[..., label]) for label in (0, 1)]
            return _ratio(top[0] + top[1], bottom[0] + bottom[1])

    def why_undefined(self, rate: Rate, client: int, group: int) -> str:
        """Why a rate has no value in a cell."""
        counting = [label for label in (0, 1) if rate.weight(float(label)) > 0]
        those = f"rows with label {counting[0]}" if len(counting) == 1 else "rows"
        if not self.rows[client, group, counting].any():
            return f"no {those}"
        return "its value is not finite" if self.mass[client, group, counting].any() else f"all {those} have weight 0"


@dataclass(frozen=True, eq=False)
class Side:
    """The rates of one side: ``values[rate, client, group]`` and ``gaps[rate, client]``, NaN where undefined."""

    rates: tuple[Rate, ...]
    groups: tuple[Label, ...]
    clients: tuple[Label | None, ...]
    tally: Tally
    values: Floats
    gaps: Floats
    highest: npt.NDArray[np.intp]
    lowest: npt.NDArray[np.intp]

    def gap(self, rate: int, place: int) -> Gap:
        """The gap of one rate at one client."""
        name, client, gap = self.rates[rate].name, self.clients[place], float(self.gaps[rate, place])
        if math.isnan(gap):
            return Gap(None, name, client=client, reason=f"fewer than two groups have a defined {name}")
        return Gap(gap, name, self.groups[self.highest[rate, place]], self.groups[self.lowest[rate, place]], client)

    def largest(self) -> tuple[Gap, ...]:
        """The gap of every rate at the client where it is largest."""
        places = np.where(np.isnan(self.gaps), -1.0, self.gaps).argmax(1).tolist()
        gaps = [self.gap(rate, place) for rate, place in enumerate(places)]
        return tuple(gap if gap.reason is None else replace(gap, client=None) for gap in gaps)

    def undefined(self, place: int) -> Iterator[str]:
        """Sentences on the undefined rates of one client."""
        at = "" if self.clients[place] is None else f" at client {self.clients[place]!r}"
        for rate, group in np.argwhere(np.isnan(self.values[:, place])).tolist():
            why = self.tally.why_undefined(self.rates[rate], place, group)
            yield f"{self.rates[rate].name} of group {self.groups[group]!r}{at} is undefined: {why}"


def tally_of(chance: Floats, positive: Floats | None, weight: Floats | None, group: Codes, client: Codes) -> Tally:
    """Count and weigh the rows of every (client, group, label)."""
    shape = (len(client.names), len(group.names), 2)
    cell = (client.codes.astype(np.intp) * shape[1] + group.codes) * 2
    if positive is not None:
        cell += positive.astype(np.intp)
    rows = np.bincount(cell, minlength=math.prod(shape)).reshape(shape)
    mass = rows.astype(np.float64) if weight is None else _sums(cell, weight, shape)
    accepted = _sums(cell, chance if weight is None else weight * chance, shape)
    return Tally(rows, mass, accepted, positive is not None)


def _sums(cell: npt.NDArray[np.intp], values: Floats, shape: tuple[int, ...]) -> Floats:
    """Sum of the values in every cell."""
    return np.bincount(cell, values, minlength=math.prod(shape)).astype(np.float64, copy=False).reshape(shape)


def side_of(
    rates: tuple[Rate, ...], groups: tuple[Label, ...], clients: tuple[Label | None, ...], tally: Tally
) -> Side:
    """Measure every rate, and its gap at every client."""
    values = np.stack([tally.rate(rate) for rate in rates])
    known = ~np.isnan(values)
    high, low = np.where(known, values, -np.inf), np.where(known, values, np.inf)
    enough = known.sum(2) >= 2
    gaps = np.subtract(high.max(2), low.min(2), where=enough, out=np.full(enough.shape, np.nan))
    return Side(rates, groups, clients, tally, values, gaps, high.argmax(2), low.argmin(2))


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """``top / bottom``, or NaN where that is no finite number."""
    with np.errstate(all="ignore"):
        value = top / bottom
    return np.where((bottom > 0) & (bottom < np.inf) & (np.abs(value) < _LARGEST_RATE), value, np.nan)


def text(number: float | None) -> str:
    """A figure as people read it."""
    return "undefined" if number is None else f"{number:.4f}"
