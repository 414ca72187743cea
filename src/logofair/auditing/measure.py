"""Masses of the (client, group, label) cells, the rates they make, and the gaps between rates with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Label
from logofair.columns.labels import Codes
from logofair.columns.segments import Indices
from logofair.notions import Rate

__all__ = ["FEW_ROWS", "Gap", "Side", "Tally", "plain", "side_of", "tally_of", "text"]

FEW_ROWS = 30  # gaps measured on fewer rows than this are mostly noise; a large cell has as many or more
_NORMAL = 1.96  # half the width of a 95% interval, in standard errors
_LARGEST_RATE = 1e300  # keeps the difference of two rates finite; only a user's own rate comes near


@dataclass(frozen=True)
class Gap:
    """The largest rate over the groups minus the smallest; ``value`` is None where ``reason`` says why.

    ``highest`` and ``lowest`` are the groups concerned, ``client`` is None for all clients together. ``rows`` is how
    many rows count in the rate of each of the two groups at least, and ``low`` and ``high`` are where chance leaves
    the gap at 95%: None where the rate is not the share of some rows that is accepted.

    Examples
    --------
    >>> print(Gap(0.25, "selection rate", highest="M", lowest="F", client="north", rows=40, low=0.03, high=0.42))
    0.2500 (selection rate, 'M' over 'F', client 'north'; 40 rows, 95%: 0.0300 to 0.4200)
    """

    value: float | None
    rate: str
    highest: Label | None = None
    lowest: Label | None = None
    client: Label | None = None
    rows: int | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        what = self.reason if self.value is None else self.rate
        what = f"{what}, {self.highest!r} over {self.lowest!r}" if self.value else what
        what = f"{what}{'' if self.client is None else f', client {self.client!r}'}"
        rows = "" if self.rows is None else f"; {self.rows:,} row{'' if self.rows == 1 else 's'}"
        chance = "" if self.low is None else f", 95%: {text(self.low)} to {text(self.high)}"
        return f"{text(self.value)} ({what}{rows}{chance})"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        names = ("highest", "lowest", "client")
        return vars(self) | {name: plain(getattr(self, name)) for name in names}


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

    def accepted_share(self) -> float | None:
        """Expected share of all mass that is accepted; None where there is no mass."""
        mass = float(self.mass.sum())
        return float(self.accepted.sum()) / mass if mass > 0 else None

    def rate(self, rate: Rate) -> Floats:
        """One rate by (client, group); NaN where undefined."""
        with np.errstate(over="ignore", invalid="ignore"):  # a user's own rate may be huge
            # Label by label: the difference of two sums would lose a light label beside a heavy one.
            top = [rate.numerator(self.accepted[..., label], label * self.accepted[..., label]) for label in (0, 1)]
            bottom = [rate.denominator(self.mass[..., label], label * self.mass[..., label]) for label in (0, 1)]
            return _ratio(top[0] + top[1], bottom[0] + bottom[1])

    def rows_behind(self, rate: Rate) -> Indices:
        """How many rows count in one rate by (client, group): those whose label has weight in its denominator."""
        return np.asarray(self.rows[..., _counting(rate)].sum(axis=-1), dtype=np.int64)

    def why_undefined(self, rate: Rate, client: int, group: int) -> str:
        """Why a rate has no value in a cell."""
        counting = _counting(rate)
        those = f"rows with label {counting[0]}" if len(counting) == 1 else "rows"
        if not self.rows[client, group, counting].any():
            return f"no {those}"
        return "its value is not finite" if self.mass[client, group, counting].any() else f"all {those} have weight 0"


@dataclass(frozen=True, eq=False)
class Side:
    """The rates of one side: ``values[rate, client, group]`` and ``gaps[rate, client]``, NaN where undefined.

    Only rates that rest on ``fewest`` rows or more have a value.
    """

    rates: tuple[Rate, ...]
    groups: tuple[Label, ...]
    clients: tuple[Label | None, ...]
    tally: Tally
    values: Floats
    gaps: Floats
    highest: npt.NDArray[np.intp]
    lowest: npt.NDArray[np.intp]
    fewest: int = 1

    @cached_property
    def rows(self) -> Indices:
        """Rows behind each rate, (rates, clients, groups)."""
        return np.stack([self.tally.rows_behind(rate) for rate in self.rates])

    @cached_property
    def gap_rows(self) -> Indices:
        """Rows behind each gap: the fewer of those behind its two rates, (rates, clients); 0 where undefined."""
        fewer = np.minimum(*self._at_ends(self.rows))
        return np.where(np.isnan(self.gaps), 0, fewer)

    @cached_property
    def smallest_rows(self) -> Indices:
        """Rows behind the least supported rate of all groups that are there, (rates, clients); 0 where none is.

        A group without a single row that counts is there with 0 rows, unless only rates on more rows are compared.
        """
        there = np.broadcast_to(self.tally.rows.sum(axis=2) > 0, self.rows.shape)
        there = there if self.fewest == 1 else there & (self.rows >= self.fewest)
        least = np.where(there, self.rows, np.iinfo(np.int64).max).min(axis=2)
        return np.where(there.any(axis=2), least, 0)

    @cached_property
    def large(self) -> Side:
        """The same over large cells alone: rates that rest on :data:`FEW_ROWS` rows or more."""
        values = np.where(self.rows >= FEW_ROWS, self.values, np.nan)
        return _compared(self.rates, self.groups, self.clients, self.tally, values, FEW_ROWS)

    def interval(self, errors: float = _NORMAL) -> tuple[Floats, Floats]:
        """Where chance leaves each gap, so many standard errors to either side, each end (rates, clients).

        NaN where a gap is undefined, or its rate is not the share of some rows that is accepted.
        """
        known = np.array([_counts_rows(rate) for rate in self.rates])[:, None] & ~np.isnan(self.gaps)
        high, low = (np.where(known, values, np.nan) for values in self._at_ends(self.values))
        rows = self._at_ends(self.rows)
        return _gap_interval(high, rows[0], low, rows[1], errors)

    def _at_ends(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """What the groups of the highest and of the lowest rate have, (rates, clients)."""
        ends = [np.take_along_axis(values, at[..., None], 2)[..., 0] for at in (self.highest, self.lowest)]
        return ends[0], ends[1]

    def gap(self, rate: int, place: int) -> Gap:
        """The gap of one rate at one client."""
        return self._gaps([rate], [place])[0]

    def largest(self) -> tuple[Gap, ...]:
        """The gap of every rate at the client where it is largest."""
        gaps = self._gaps(range(len(self.rates)), np.where(np.isnan(self.gaps), -1.0, self.gaps).argmax(1).tolist())
        return tuple(gap if gap.reason is None else replace(gap, client=None) for gap in gaps)

    def by_client(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every client."""
        rates = np.where(np.isnan(self.gaps), -1.0, self.gaps).argmax(0).tolist()
        return self._gaps(rates, range(len(self.clients)))

    def _gaps(self, rates: Sequence[int], places: Sequence[int]) -> tuple[Gap, ...]:
        """The gaps of some rates at some clients."""
        at = (np.asarray(rates), np.asarray(places))
        arrays = (self.gaps, self.highest, self.lowest, self.gap_rows, *self._interval)
        figures = zip(*(array[at].tolist() for array in arrays), strict=True)
        return tuple(starmap(self._gap, zip(rates, places, figures, strict=True)))

    @cached_property
    def _interval(self) -> tuple[Floats, Floats]:
        return self.interval()

    def _gap(self, rate: int, place: int, figures: tuple[Any, ...]) -> Gap:
        name, client, (gap, highest, lowest, rows, low, high) = self.rates[rate].name, self.clients[place], figures
        if math.isnan(gap):
            have = f"a {name} on {self.fewest} rows or more" if self.fewest > 1 else f"a defined {name}"
            return Gap(None, name, client=client, reason=f"fewer than two groups have {have}")
        ends = (None, None) if math.isnan(low) else (low, high)
        return Gap(gap, name, self.groups[highest], self.groups[lowest], client, rows, *ends)

    def undefined(self, place: int) -> Iterator[str]:
        """Sentences on the undefined rates of one client."""
        at = "" if self.clients[place] is None else f" at client {self.clients[place]!r}"
        for rate, group in np.argwhere(np.isnan(self.values[:, place])).tolist():
            why = self.tally.why_undefined(self.rates[rate], place, group)
            yield f"{self.rates[rate].name} of group {self.groups[group]!r}{at} is undefined: {why}"


def _gap_interval(
    high: Floats, high_rows: Indices, low: Floats, low_rows: Indices, errors: float = _NORMAL
) -> tuple[Floats, Floats]:
    """Both ends of the interval of ``high - low``, the shares of two groups with so many rows each.

    By Agresti and Caffo (2000), so that it stands with few rows too; NaN where a share is. Each gap is taken by
    itself; the largest of many groups' gaps errs upwards as well, which no such interval covers.
    """
    gap = high - low
    (top, top_error), (bottom, bottom_error) = _adjusted(high, high_rows), _adjusted(low, low_rows)
    middle, half = top - bottom, errors * np.sqrt(top_error + bottom_error)
    return np.clip(middle - half, 0.0, gap), np.clip(middle + half, gap, 1.0)


def _adjusted(share: Floats, rows: Indices) -> tuple[Floats, Floats]:
    """A share with one success and one failure added, and its squared standard error."""
    centre = (share * rows + 1.0) / (rows + 2.0)
    return centre, centre * (1.0 - centre) / (rows + 2.0)


def _counts_rows(rate: Rate) -> bool:
    """Whether every row counts in a rate once or not at all: such a share of rows alone has this interval."""
    lines = [(float(rate.moment(label)), float(rate.weight(label))) for label in (0.0, 1.0)]
    return all(top == bottom and top in (0.0, 1.0) for top, bottom in lines)


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
    return _compared(rates, groups, clients, tally, np.stack([tally.rate(rate) for rate in rates]))


def _compared(
    rates: tuple[Rate, ...],
    groups: tuple[Label, ...],
    clients: tuple[Label | None, ...],
    tally: Tally,
    values: Floats,
    fewest: int = 1,
) -> Side:
    """The side with these values of its rates."""
    known = ~np.isnan(values)
    high, low = np.where(known, values, -np.inf), np.where(known, values, np.inf)
    enough = known.sum(2) >= 2
    gaps = np.subtract(high.max(2), low.min(2), where=enough, out=np.full(enough.shape, np.nan))
    return Side(rates, groups, clients, tally, values, gaps, high.argmax(2), low.argmin(2), fewest)


def _counting(rate: Rate) -> list[int]:
    """The labels whose rows count in a rate."""
    return [label for label in (0, 1) if rate.weight(float(label)) > 0]


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """``top / bottom``, or NaN where that is no finite number."""
    with np.errstate(all="ignore"):
        value = top / bottom
    return np.where((bottom > 0) & (bottom < np.inf) & (np.abs(value) < _LARGEST_RATE), value, np.nan)


def text(number: float | None) -> str:
    """A figure as people read it."""
    return "undefined" if number is None else f"{number:.4f}"


def plain(label: Label | None) -> Any:
    """A label as JSON has it; one of a type that JSON lacks as text."""
    label = label.item() if isinstance(label, np.generic) else label
    fits = label is None or isinstance(label, str | int) or (isinstance(label, float) and math.isfinite(label))
    return label if fits else str(label)
