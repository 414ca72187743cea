"""Selection rates by category, and impact ratios: each category's rate divided by that of the most selected one.

Categories come from one column or more (sex, race): there is a table for each column, and one for all of them together.
People with a missing value in a column are counted, but left out of the tables that use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.auditing.chance import TAIL, quotient_limits, ratio_floor
from logofair.auditing.measure import Measured, Tally, tally_of, value_of
from logofair.auditing.result import Gap, Side
from logofair.auditing.rows import checked_chances
from logofair.columns import checks as inputs
from logofair.columns.checks import Label
from logofair.columns.labels import encode, labels_or_none, one_site
from logofair.columns.segments import Booleans
from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY
from logofair.records import Result
from logofair.reportable import Reportable

SMALL_SHARE = 0.02  # categories with a smaller share of the people may be left out of impact ratios (6 RCNY 5-301 (d))


@dataclass(frozen=True)
class Category(Result):
    """A category: how many people it has, their share of all, its selection rate, and that rate's impact ratio.

    ``ratio`` divides by the rate of the most selected category, ``ratio_of_large`` by that of the most selected one
    with 2% of the people or more. None where undefined: fewer than two categories to compare, or nobody selected in
    any.
    """

    name: tuple[Label, ...]
    people: int
    share: float
    rate: Measured | None
    ratio: Measured | None
    ratio_of_large: Measured | None

    @property
    def small(self) -> bool:
        """Whether it has less than 2% of the people."""
        return self.share < SMALL_SHARE

    def in_json(self) -> dict[str, Any]:
        """Return its fields, and whether it is small."""
        return vars(self) | {"small": self.small}


@dataclass(frozen=True)
class CategoryTable:
    """The categories of some columns; ``unknown`` people lack a value in one of them and are in no category.

    ``gap`` is the largest selection rate less the smallest, with its noise floor. ``floor`` and ``detectable`` are the
    noise floor of the smallest ratio: its mean and its 5% quantile on these people, were all rates equal; None where
    there is nothing to compare. ``why_no_ratio`` is "no categories", "nobody selected" or "fewer than two
    rates" where ratios are undefined; empty where they are not.

    Examples
    --------
    >>> (table,) = impact_ratios([1, 0, 1, 1, 0], categories={"sex": ["F", "F", "M", "M", None]}).tables
    >>> table.by, [category.people for category in table.categories], table.unknown
    (('sex',), [2, 2], 1)
    """

    by: tuple[str, ...]
    categories: tuple[Category, ...]
    unknown: int
    gap: Gap
    floor: float | None
    detectable: float | None
    why_no_ratio: str

    @property
    def small(self) -> tuple[Category, ...]:
        """The categories with less than 2% of the people."""
        return tuple(category for category in self.categories if category.small)


@dataclass(frozen=True, repr=False)
class ImpactRatios(Reportable):
    """Tables of selection rates and impact ratios: by each column, then by all of them together.

    ``people`` are all that were counted, those of unknown category too. It prints as its summary.

    Examples
    --------
    >>> found = impact_ratios([1, 0, 1, 1, 0], categories={"sex": ["F", "F", "M", "M", None]})
    >>> [(category.name, float(category.ratio)) for category in found.tables[0].categories]
    [(('F',), 0.5), (('M',), 1.0)]
    >>> found.people, found.tables[0].unknown
    (5, 1)
    """

    people: int
    tables: tuple[CategoryTable, ...]

    def __repr__(self) -> str:
        return self.summary()


def impact_ratios(
    decisions: object,
    *,
    categories: Mapping[str, object],
    sample_weight: object = None,
    ids: object = None,
    chances: bool = False,
) -> ImpactRatios:
    """Measure selection rates and impact ratios by category, with intervals.

    Parameters
    ----------
    decisions : column of 0 and 1
        What was decided.
    categories : mapping of names to columns
        Such as ``{"sex": ..., "race": ...}``; a value that is missing (None or NaN) is an unknown category.
    sample_weight, ids, chances : optional
        As for :func:`logofair.audit`.

    Returns
    -------
    ImpactRatios
        A table by each column and, where there are several, one by all of them together.

    Raises
    ------
    InputError
        If a column cannot be used.

    Examples
    --------
    >>> sex, race = ["F"] * 40 + ["M"] * 60, ["A", "B"] * 50
    >>> found = impact_ratios([1, 0, 0, 0] * 10 + [1, 1, 0, 0, 0, 1] * 10, categories={"sex": sex, "race": race})
    >>> [table.by for table in found.tables]
    [('sex',), ('race',), ('sex', 'race')]
    >>> print(found.tables[0].categories[0].ratio)
    0.5000 (95%: 0.2455 to 0.9020; 40 rows)
    """
    if not isinstance(categories, Mapping) or not categories:
        raise InputError("categories: pass a mapping of names to columns, such as {'sex': sex}.")
    inputs.same_order(
        decisions=decisions, ids=ids, **{f"categories {name!r}": each for name, each in categories.items()}
    )
    chance = checked_chances(decisions, chances=chances)
    columns = {
        f"categories {name!r}": labels_or_none(each, f"categories {name!r}") for name, each in categories.items()
    }
    weight = inputs.weights(sample_weight, chance.size)
    people = None if ids is None else encode(ids, "ids")
    inputs.same_length(chance.size, ids=people, **columns)
    group = encode(list(zip(*columns.values(), strict=True)), "categories")
    tally = tally_of(chance, None, weight, group, one_site(chance.size), people)
    return impact_tables(tally, group.names, tuple(map(str, categories)))


def impact_tables(tally: Tally, names: Sequence[Any], columns: tuple[str, ...]) -> ImpactRatios:
    """Return the tables of counted people; every group's name is a tuple, by column, None where a value is missing."""
    merged = tally.merged()
    people = int(merged.people[0, :, -1].sum())
    every = range(len(columns))
    tables = []
    for chosen in [(place,) for place in every] + ([tuple(every)] if len(columns) > 1 else []):
        categories = [tuple(name[place] for place in chosen) for name in names]
        tables.append(_table(merged, categories, tuple(columns[place] for place in chosen), people))
    return ImpactRatios(people, tuple(tables))


def _table(tally: Tally, names: Sequence[tuple[Any, ...]], by: tuple[str, ...], people: int) -> CategoryTable:
    """The table of the columns ``by``; ``names`` are the categories of the tally's groups in these columns."""
    known = [name for name in dict.fromkeys(names) if None not in name]
    if not known:
        return CategoryTable(by, (), people, Gap(None, "selection rate"), None, None, "no categories")
    gathered = tally.gathered([-1 if None in name else known.index(name) for name in names], len(known))
    side = Side.of(DEMOGRAPHIC_PARITY.rates, tuple(known), (None,), gathered)
    counts, rates = gathered.people[0, :, -1], side.measured_rates(0)["selection rate"]
    shares = counts / max(people, 1)
    ratios, ratios_of_large = _ratios(side, shares >= 0), _ratios(side, shares >= SMALL_SHARE)
    found = tuple(
        Category(name, int(counts[at]), float(shares[at]), rates[name], ratios[at], ratios_of_large[at])
        for at, name in enumerate(known)
    )
    floor = detectable = None
    why = "" if any(ratio is not None for ratio in ratios) else "nobody selected"
    if sum(rate is not None for rate in rates.values()) < 2:
        why = "fewer than two rates"
    if not why:
        floor, detectable = map(value_of, ratio_floor(side.values[0, 0], side.effective[0, 0], "selection rate"))
    return CategoryTable(by, found, people - int(counts.sum()), side.gap(), floor, detectable, why)


def _ratios(side: Side, which: Booleans) -> list[Measured | None]:
    """The impact ratio of every category to the most selected of those marked; None for others, and where undefined.

    Which category has the largest rate in truth is not known, but it is one of them. A category's ratio to it is at
    least the smallest of its lower limits against any other, each at the full error. It is also at most its ratio to
    any other, so that the smallest of the upper limits holds, the error divided among them.
    """
    shares, people = np.where(which, side.values[0, 0], np.nan), side.effective[0, 0]
    known = ~np.isnan(shares)
    largest = float(np.max(shares, where=known, initial=0.0))
    if known.sum() < 2 or largest == 0:
        return [None] * shares.size
    low = np.minimum(quotient_limits(shares, people, TAIL, upper=False), 1.0)
    high = np.minimum(quotient_limits(shares, people, TAIL / (known.sum() - 1), upper=True), 1.0)
    ratios, rows = shares / largest, side.rows[0, 0]
    fewer = np.minimum(rows, rows[int(np.nanargmax(shares))])
    return [
        Measured(ratio, low=min(low[at], ratio), high=max(high[at], ratio), rows=int(fewer[at])) if known[at] else None
        for at, ratio in enumerate(ratios.tolist())
    ]
