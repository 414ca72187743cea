"""Rows tallied by (site, group, label): the rates that their masses make, and how rates change between two rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.chance import share_limits
from logofair.columns.checks import Binary, Floats
from logofair.columns.labels import Codes, one_site
from logofair.columns.segments import Indices
from logofair.costs import Costs
from logofair.notions import DEMOGRAPHIC_PARITY, Rate
from logofair.records import Result

_BOTH = 2  # where a tally keeps what is counted without regard to labels
_NOBODY = 1e-9  # a share that is accepted by rounding alone
_LARGEST_RATE = 1e300  # keeps the difference of two rates finite; only a user's own rate comes near


class Measured(float, Result):
    """A figure that knows what it rests on: a float with ``low``, ``high``, ``rows``, ``floor`` and ``detectable``.

    ``low`` and ``high`` are the ends of its 95% interval, were the rows drawn again; None where there is none.
    ``rows`` is how many rows it rests on (people, where ids repeat); of a gap, those behind the rate of each of its
    groups at least. ``floor`` is what a rule without any gap would show on these rows on average, and ``detectable``
    what it stays below in 19 of 20 such draws: a gap up to there cannot be told from chance.

    Examples
    --------
    >>> gap = Measured(0.05, low=0.0, high=0.12, rows=140, floor=0.03, detectable=0.08)
    >>> gap + 0.01, gap.high, str(gap)
    (0.060000000000000005, 0.12, '0.0500 (95%: 0.0000 to 0.1200; 140 rows)')
    """

    low: float | None
    high: float | None
    rows: int | None
    floor: float | None
    detectable: float | None

    def __new__(
        cls,
        value: float,
        *,
        low: float | None = None,
        high: float | None = None,
        rows: int | None = None,
        floor: float | None = None,
        detectable: float | None = None,
    ) -> Measured:
        """Make a float that knows what it rests on."""
        self = super().__new__(cls, value)
        self.low, self.high, self.rows, self.floor, self.detectable = low, high, rows, floor, detectable
        return self

    def __str__(self) -> str:
        chance = [] if self.low is None else [f"95%: {self.low:.4f} to {self.high:.4f}"]
        rows = [] if self.rows is None else [f"{self.rows:,} row{'' if self.rows == 1 else 's'}"]
        return f"{self:.4f} ({'; '.join(chance + rows)})" if chance or rows else f"{self:.4f}"

    def times(self, unit: float) -> Measured:
        """The same in another unit; below 0, what was high is low."""
        low, high = (None if end is None else end * unit for end in (self.low, self.high)[:: 1 if unit > 0 else -1])
        return Measured(float(self) * unit, low=low, high=high, rows=self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Measured, float(self), **vars(self)), ()

    def in_json(self) -> dict[str, Any]:
        """Return the figure with what it rests on; the floor only of gaps."""
        found = {"value": float(self), "low": self.low, "high": self.high, "rows": self.rows}
        return found if self.floor is None else found | {"floor": self.floor, "detectable": self.detectable}


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows, mass and accepted mass by (site, group, label); without labels all stand under label 0.

    By (site, group, label or both) stands how much chance there is in the masses: how many ``people`` have any
    weight, the sum of their squared weights (``squares``), and of weight times accepted weight (``products``; None
    where weights have nothing to do with decisions). A person is an id of one group at one site, or a row where
    there are no ids; ``over_all`` counts all sites as one where ids repeat: a person may be at several.
    """

    rows: npt.NDArray[np.intp]
    mass: Floats
    accepted: Floats
    people: Indices
    squares: Floats
    labelled: bool
    products: Floats | None = None
    over_all: Tally | None = None
    least_share: float = 0.0  # of its cell that a rate must count to be defined: expected masses may be next to 0

    @classmethod
    def counted(cls, rows: npt.NDArray[np.intp], mass: Floats, accepted: Floats) -> Tally:
        """Labelled rows of which nobody stands under both labels, and whose weights hardly differ within a cell."""
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.where(rows > 0, mass * mass / rows, 0.0)
        return cls(rows, mass, accepted, with_both_labels(rows), with_both_labels(squares), labelled=True)

    def merged(self) -> Tally:
        """All sites as one."""
        return self.summed(0) if self.over_all is None else self.over_all

    def summed(self, axis: int) -> Tally:
        """All sites as one (axis 0), or all groups (axis 1)."""
        return self._each(lambda part: part.sum(axis, keepdims=True))

    def gathered(self, place: Sequence[int], count: int) -> Tally:
        """Groups summed to ``count`` others, each to the one at its place; those with place -1 are left out."""
        over_all = self.over_all and self.over_all.gathered(place, count)
        return replace(self._each(lambda part: _gathered(part, place, count)), over_all=over_all)

    @classmethod
    def beside(cls, several: Sequence[Tally]) -> Tally:
        """The groups of several tallies of the same rows, one after the other."""

        def joined(name: str) -> Any:
            parts = [getattr(each, name) for each in several]
            return None if parts[0] is None else np.concatenate(parts, axis=1)

        arrays = {name: joined(name) for name in ("rows", "mass", "accepted", "people", "squares", "products")}
        return replace(several[0], **arrays, over_all=None)

    def only(self, site: int) -> Tally:
        """One site."""
        return self._each(lambda part: part[site : site + 1])

    def _each(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Tally:
        rows, mass, accepted = map(change, (self.rows, self.mass, self.accepted))
        products = None if self.products is None else change(self.products)
        people, squares = change(self.people), change(self.squares)
        return Tally(rows, mass, accepted, people, squares, self.labelled, products, least_share=self.least_share)

    @property
    def of_accepted(self) -> Tally:
        """Those who are accepted, and of them the positives: what is accepted of these is the precision.

        Of rows with a chance count as many as are expected. Weights that have nothing to do with decisions may all be
        those of the accepted.
        """
        mass = np.where(self.accepted > _NOBODY * self.mass, self.accepted, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = [with_both_labels(part) for part in (mass, self.mass)]
            share = np.where(parts[1] > 0, parts[0] / parts[1], 0.0)
        rows, people = (
            np.rint(part * share[..., : part.shape[2]]).astype(np.int64) for part in (self.rows, self.people)
        )
        squares = self.squares if self.products is None else self.products
        over_all = self.over_all and self.over_all.of_accepted
        return Tally(rows, mass, mass * [0.0, 1.0], people, squares, self.labelled, over_all=over_all)

    def accepting(self, accepted: Floats) -> Tally:
        """The same rows with another rule's accepted mass; how far weights go with its decisions is not known."""
        over_all = self.over_all and replace(self.over_all, accepted=accepted.sum(0, keepdims=True), products=None)
        return replace(self, accepted=accepted, products=None, over_all=over_all)

    # ------------------------------------------------------------ rates by (site, group)

    def rate(self, rate: Rate) -> Floats:
        """One rate; NaN where undefined."""
        if rate.needs_labels and not self.labelled:
            return np.full(self.mass.shape[:2], np.nan)
        with np.errstate(all="ignore"):  # a user's own rate may be huge
            # Label by label: the difference of two sums would lose a light label beside a heavy one.
            top = [rate.numerator(self.accepted[..., label], label * self.accepted[..., label]) for label in (0, 1)]
            bottom = self.mass_behind(rate)
            value = (top[0] + top[1]) / bottom
            enough = bottom > self.least_share * self.mass.sum(axis=-1)
            defined = enough & (bottom < np.inf) & (np.abs(value) < _LARGEST_RATE)
        return np.where(defined, value, np.nan)

    def mass_behind(self, rate: Rate) -> Floats:
        """The denominator of one rate."""
        parts = [rate.denominator(self.mass[..., label], label * self.mass[..., label]) for label in (0, 1)]
        return np.asarray(parts[0] + parts[1])

    def rows_behind(self, rate: Rate) -> Indices:
        """How many rows (people, where ids repeat) count in one rate, each with some weight."""
        return np.asarray(self.people[..., _place(rate)], dtype=np.int64)

    def effective_rows(self, rate: Rate) -> Floats:
        """How many rows of equal weight would leave as much to chance."""
        counting, place = counting_labels(rate), _place(rate)
        mass, accepted = (part[..., counting].sum(axis=-1) for part in (self.mass, self.accepted))
        products = None if self.products is None else self.products[..., place]
        effective = _effective(mass, accepted, self.squares[..., place], products)
        return np.minimum(effective, self.people[..., place])  # squares of weights near 0 underflow

    def accuracy(self) -> Floats:
        """Expected share of right decisions by site; NaN where undefined."""
        mass, right = self.labelled * self.mass.sum((1, 2)), _right(self.accepted, self.mass).sum(1)
        return np.asarray(np.divide(right, mass, out=np.full(mass.shape, np.nan), where=mass > 0))

    # ------------------------------------------------------------ figures over all sites

    def measured_accuracy(self) -> Measured | None:
        """Expected share of right decisions; None without labels."""
        if not self.labelled:
            return None
        merged = self.merged()
        products = None if merged.products is None else _right(merged.products, merged.squares)
        return merged._share(_right(merged.accepted, merged.mass), products, by_label=True)

    def measured_cost(self, costs: Costs) -> Measured | None:
        """Expected cost of a row; None without labels.

        It is a share of the dearest error, so that its interval is that of a share; where errors differ in cost it is
        wider than need be, since costs between 0 and the dearest vary less.
        """
        if not self.labelled:
            return None
        merged, parts = self.merged(), self if self.over_all is None else self.over_all
        products = None
        if parts.products is not None and (
            costs.same_everywhere or parts is self
        ):  # a person at sites of other costs: unknown
            products = _spent(parts.products, parts.squares, costs) / costs.largest
        share = merged._share(_spent(self.accepted, self.mass, costs) / costs.largest, products, by_label=True)
        return None if share is None else share.times(costs.largest)

    def measured_accepted(self) -> Measured | None:
        """Expected share of all mass that is accepted; None where there is no mass."""
        merged = self.merged()
        return merged._share(merged.accepted, None if merged.products is None else merged.products[..., _BOTH])

    def _share(self, hits: Floats, products: Floats | None, *, by_label: bool = False) -> Measured | None:
        """All sites' share of the mass that ``hits`` holds, with its interval; None where there is no mass.

        Products ``by_label`` leave out those of a person's weight under one label with hits under the other. They are
        0 at least and all such products of weights at most; that end is taken which leaves more to chance.
        """
        mass, held, squares = (np.array(part.sum()) for part in (self.mass, hits, self.squares[..., _BOTH]))
        if not mass > 0:
            return None
        known = None if products is None else np.array(products.sum())
        if known is not None and by_label and held < mass / 2:
            known = known + max(float(squares - self.squares[..., :_BOTH].sum()), 0.0)
        share = min(float(held / mass), 1.0)
        low, high = map(float, share_limits(np.array(share), _effective(mass, held, squares, known)))
        return Measured(share, low=value_of(low), high=value_of(high), rows=int(self.people[..., _BOTH].sum()))


def _gathered(part: npt.NDArray[Any], place: Sequence[int], count: int) -> npt.NDArray[Any]:
    """Sums over groups, which stand on the second axis."""
    at, found = np.asarray(place, dtype=np.intp), np.zeros((len(part), count, *part.shape[2:]), part.dtype)
    np.add.at(np.swapaxes(found, 0, 1), at[at >= 0], np.swapaxes(part[:, at >= 0], 0, 1))
    return found


def _right(accepted: Floats, mass: Floats) -> Floats:
    """The mass that is decided rightly, by (site, group)."""
    return np.asarray(accepted[..., 1] + (mass[..., 0] - accepted[..., 0]))


def _spent(accepted: Floats, mass: Floats, costs: Costs) -> Floats:
    """What errors cost by (site, group)."""
    wrongly_accepted = costs.wrongly_accepted[:, None] * accepted[..., 0]
    wrongly_rejected = costs.wrongly_rejected[:, None] * np.maximum(mass[..., 1] - accepted[..., 1], 0.0)
    return np.asarray(wrongly_accepted + wrongly_rejected)


def _effective(mass: Floats, hits: Floats, squares: Floats, products: Floats | None) -> Floats:
    """How many rows of equal weight would leave a share of the mass to as much chance.

    By the weights alone (Kish); fewer, where heavy rows are the rare ones among hits or misses, by the share's variance
    sum w^2 (y - p)^2.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        by_weight = np.where(squares > 0, mass * mass / squares, 0.0)
        if products is None:
            return np.asarray(by_weight)
        share = hits / mass
        variance = (1.0 - 2.0 * share) * products + share * share * squares
        by_share = share * (1.0 - share) * mass * mass / variance
        known = (variance > 1e-12 * squares) & (share > 0) & (share < 1)
        return np.asarray(np.where(known, np.minimum(by_weight, by_share), by_weight))


def counts_rows(rate: Rate) -> bool:
    """Whether every row counts in a rate once or not at all: such a share of rows alone has this interval."""
    lines = [(float(rate.numerator(1.0, label)), float(rate.denominator(1.0, label))) for label in (0.0, 1.0)]
    return all(top == bottom and top in (0.0, 1.0) for top, bottom in lines)


def counting_labels(rate: Rate) -> list[int]:
    """The labels whose rows count in a rate."""
    return [label for label in (0, 1) if rate.denominator(1.0, float(label)) > 0]


def _place(rate: Rate) -> int:
    """Where a tally keeps the people whose rows count in a rate: under their label, or under both."""
    counting = counting_labels(rate)
    return counting[0] if len(counting) == 1 else _BOTH


def value_of(number: float) -> float | None:
    """A number, or None for NaN."""
    return None if math.isnan(number) else float(number)


# ---------------------------------------------------------------- counting rows


def tally_of(
    chance: Floats,
    positive: Binary | None,
    weight: Floats | None,
    group: Codes,
    site: Codes,
    ids: Codes | None = None,
) -> Tally:
    """Count and weigh the rows of every (site, group, label); rows of one id are one person."""
    weight = _scaled(weight)
    shape = (len(site.names), len(group.names))
    cell = site.codes.astype(np.intp) * shape[1] + group.codes
    label = np.zeros_like(cell) if positive is None else positive.astype(np.intp)
    both = (*shape, 2)
    rows = np.bincount(2 * cell + label, minlength=math.prod(both)).reshape(both)
    mass = rows.astype(np.float64) if weight is None else _sums(2 * cell + label, weight, both)
    accepted = _sums(2 * cell + label, chance if weight is None else weight * chance, both)
    if ids is not None:
        people, squares, products = people_of(cell, label, weight, chance, ids, shape)
    else:
        people, squares, products = rows, mass, accepted
        if weight is not None:
            parts = (weight > 0, weight * weight, weight * weight * chance)
            counted, squares, products = (_sums(2 * cell + label, part, both) for part in parts)
            people = counted.astype(np.int64)
        people, squares, products = map(with_both_labels, (people, squares, products))
    several = ids is not None and shape[0] > 1
    over_all = tally_of(chance, positive, weight, group, one_site(cell.size), ids) if several else None
    return Tally(rows, mass, accepted, people, squares, positive is not None, products, over_all)


def _scaled(weight: Floats | None) -> Floats | None:
    """Weights of order 1: only their proportions matter, and squares of tiny or huge ones must be finite."""
    return None if weight is None else np.ldexp(weight, -int(np.frexp(weight.max(initial=0.0))[1]))


def with_both_labels(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What was counted by label and, behind it, without regard to labels, where nobody stands under both."""
    return np.concatenate([part, part.sum(axis=2, keepdims=True)], axis=2)


def people_of(
    cell: npt.NDArray[np.intp],
    label: npt.NDArray[np.intp],
    weight: Floats | None,
    chance: Floats,
    ids: Codes,
    shape: tuple[int, int],
) -> tuple[Indices, Floats, Floats]:
    """People of some weight, and the sums of their squared weights and of weight times accepted weight.

    By (site, group, label or both).
    """
    weight = np.ones(cell.size) if weight is None else weight
    pairs, person = np.unique(cell * len(ids.names) + ids.codes, return_inverse=True)

    def own(values: Floats) -> Floats:
        """Every person's sum by label, and of both."""
        sums = np.bincount(2 * person + label, values, minlength=2 * pairs.size).reshape(-1, 2)
        return np.column_stack([sums, sums.sum(axis=1)])

    mass, accepted = own(weight), own(weight * chance)
    at = 3 * (pairs // len(ids.names))[:, None] + np.arange(3)
    parts = (mass > 0, mass * mass, mass * accepted)
    count, squares, products = (_sums(at.ravel(), part.ravel(), (*shape, 3)) for part in parts)
    return count.astype(np.int64), squares, products


def _sums(place: npt.NDArray[np.intp], values: npt.NDArray[Any], shape: tuple[int, ...]) -> Floats:
    """Sum of the values at every place."""
    return np.bincount(place, values, minlength=math.prod(shape)).astype(np.float64, copy=False).reshape(shape)


# ---------------------------------------------------------------- two rules on the same rows


@dataclass(frozen=True, eq=False)
class Changes:
    """Per (site, group, label): what the change of chances sums to, and the sums that its variance takes.

    ``rises`` tallies the rises, each a chance between 0 and 1, ``falls`` the mass of the falls; ``squared`` sums the
    squared changes, each with its squared weight.
    """

    rises: Tally
    falls: Floats
    squared: Floats

    @classmethod
    def of(cls, change: Floats, rows: tuple[Any, ...]) -> Changes:
        """Tally the changes of rows."""
        rises = tally_of(np.maximum(change, 0.0), *rows)
        positive, weight, group, site, ids = rows
        weights: Floats = np.ones(change.size) if weight is None else np.asarray(_scaled(weight))
        cell, own = site.codes.astype(np.intp) * len(group.names) + group.codes, weights
        if ids is not None:
            # Rows of one person may all change together: (sum w d)^2 <= (sum w) (sum w d^2) bounds their square.
            person = np.unique(cell * len(ids.names) + ids.codes, return_inverse=True)[1]
            own = np.asarray(np.bincount(person, weights)[person], dtype=np.float64)
        place = 2 * cell + (0 if positive is None else positive.astype(np.intp))
        parts = np.maximum(-change, 0.0) * weights, change**2 * own * weights
        return cls(rises, *(_sums(place, part, rises.mass.shape) for part in parts))

    def gathered(self, place: Sequence[int], count: int) -> Changes:
        """Groups summed to ``count`` others, each to the one at its place; those with place -1 are left out."""
        falls, squared = (_gathered(part, place, count) for part in (self.falls, self.squared))
        return Changes(self.rises.gathered(place, count), falls, squared)

    @classmethod
    def beside(cls, several: Sequence[Changes]) -> Changes:
        """The groups of several changes of the same rows, one after the other."""
        falls, squared = (np.concatenate([getattr(c, name) for c in several], axis=1) for name in ("falls", "squared"))
        return cls(Tally.beside([each.rises for each in several]), falls, squared)

    def rates(self, rate: Rate) -> tuple[Floats, Floats]:
        """Change of a rate by (site, group), and its squared standard error; NaN where undefined."""
        counts = np.isin([0, 1], counting_labels(rate)).astype(float)
        return self._mean(counts, counts, self.rises.effective_rows(rate))

    def gains(self, worth: Floats) -> tuple[Floats, Floats]:
        """The same of what accepting a row of each label is worth, (sites, labels), per person."""
        people = self.rises.effective_rows(DEMOGRAPHIC_PARITY.rates[0])
        return self._mean(worth[:, None], np.ones(2), people)

    def _mean(self, worth: Floats, counts: Floats, people: Floats) -> tuple[Floats, Floats]:
        """The mean change of rows that count, by label, and its squared standard error; ``worth``: of a change."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mass = (self.rises.mass * counts).sum(-1)
            mean = ((self.rises.accepted - self.falls) * worth).sum(-1) / mass
            # One change more than was seen, either way: without it nothing seen would mean nothing possible.
            variance = ((self.squared * worth**2).sum(-1) / mass**2) * people + (worth**2).max(-1) / people
            return mean, np.maximum(variance - mean * mean, 0.0) / people


def as_one_site(rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same rows, all sites as one: the same id is the same person at all of them."""
    return (*rows[:3], one_site(len(rows[2])), rows[4])
