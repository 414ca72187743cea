"""Selection rates by category, and impact ratios: each category's rate divided by that of the most selected one.

Categories come from one column or more (sex, race); every table is over one of them, or over all of them together.
People of whom a column says nothing are counted and left out of the tables that use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.auditing.chance import ratio_floor, ratio_limits
from logofair.auditing.measure import Gap, Measured, Side, Tally, side_of, tally_of, text, value_of
from logofair.auditing.result import aligned
from logofair.auditing.rows import check_decisions, checked_chances
from logofair.columns import checks as inputs
from logofair.columns.checks import Label
from logofair.columns.labels import encode, labels_or_none, one_site, plain
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY

SMALL_SHARE = 0.02  # categories with a smaller share of the people may be left out of impact ratios (6 RCNY 5-301 (d))


@dataclass(frozen=True)
class Category:
    """A category: its people, their share of all, how many of them are selected, and that rate's ratio to the largest.

    ``ratio`` is to the most selected category of all, ``ratio_of_large`` to the most selected of those with 2% of the
    people or more; None where undefined: fewer than two categories to compare, or nobody selected in any.
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

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        figures = {name: getattr(self, name) for name in ("rate", "ratio", "ratio_of_large")}
        known = {"name": [plain(part) for part in self.name], "people": self.people, "share": self.share}
        return {
            **known,
            "small": self.small,
            **{name: None if figure is None else figure.as_dict() for name, figure in figures.items()},
        }


@dataclass(frozen=True)
class CategoryTable:
    """The categories of some columns; ``unknown`` people lack a value in one of them and are in no category.

    ``gap`` is the largest selection rate less the smallest, with its noise floor. ``floor`` is the smallest ratio that
    equal rates would show on these people on average, ``detectable`` what it stays above in 19 of 20 draws; None where
    there is nothing to compare. ``why_no_ratio`` says why ratios are undefined; empty where they are not.

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

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "by": list(self.by),
            "categories": [category.as_dict() for category in self.categories],
            "unknown": self.unknown,
            "gap": self.gap.as_dict(),
            "floor": self.floor,
            "detectable": self.detectable,
            "why_no_ratio": self.why_no_ratio,
        }


@dataclass(frozen=True, repr=False)
class ImpactRatios:
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

    def summary(self) -> str:
        """Return the tables as text for people."""
        return "\n\n".join(map(_table_text, self.tables))

    __repr__ = summary

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"people": self.people, "tables": [table.as_dict() for table in self.tables]}


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
    inputs.same_order(decisions=decisions, **{f"categories {name!r}": each for name, each in categories.items()})
    if not chances:
        check_decisions(decisions)
    chance = checked_chances(decisions)
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
    """Return the tables of counted people; every name is a tuple, by column, None where a value is missing."""
    merged = tally.merged()
    single = [(place,) for place in range(len(columns))]
    every = [*single, *([tuple(range(len(columns)))] if len(columns) > 1 else [])]
    people = int(_people(merged).sum())
    return ImpactRatios(people, tuple(_table(merged, names, columns, places, people) for places in every))


def _people(tally: Tally) -> Indices:
    """People of each category that have any weight."""
    return np.asarray(tally.people[0, :, -1], dtype=np.int64)


def _table(
    tally: Tally, names: Sequence[Any], columns: tuple[str, ...], places: tuple[int, ...], people: int
) -> CategoryTable:
    """The table over some of the columns."""
    by, parts = tuple(columns[place] for place in places), [tuple(name[place] for place in places) for name in names]
    known = [name for name in dict.fromkeys(parts) if None not in name]
    if not known:
        nobody = Gap(None, "selection rate", reason="every category is unknown")
        return CategoryTable(by, (), people, nobody, None, None, "every category is unknown")
    gathered = tally.gathered([-1 if None in name else known.index(name) for name in parts], len(known))
    side = side_of(DEMOGRAPHIC_PARITY.rates, tuple(known), (None,), gathered)
    counts, rates = _people(gathered), side.measured_rates(0)["selection rate"]
    shares = counts / max(people, 1)
    every, large = (_ratios(side, which) for which in (shares >= 0, shares >= SMALL_SHARE))
    categories = tuple(
        Category(name, int(count), float(share), rates[name], *ratios)
        for name, count, share, *ratios in zip(known, counts, shares, every, large, strict=True)
    )
    unknown, undefined = people - int(counts.sum()), _why_no_ratio(side)
    if undefined:
        return CategoryTable(by, categories, unknown, side.worst(), None, None, undefined)
    low, high = map(value_of, ratio_floor(side.values[0, 0], side.effective[0, 0], "selection rate"))
    return CategoryTable(by, categories, unknown, side.worst(), low, high, "")


def _ratios(side: Side, which: Booleans) -> list[Measured | None]:
    """The impact ratio of every category to the most selected of those marked; None for others, and where undefined."""
    shares = np.where(which, side.values[0, 0], np.nan)
    known = ~np.isnan(shares)
    largest = float(np.max(shares, where=known, initial=0.0))
    if known.sum() < 2 or largest == 0:
        return [None] * shares.size
    low, high = ratio_limits(shares, side.effective[0, 0])
    ratios, rows = shares / largest, side.rows[0, 0]
    fewer = np.minimum(rows, rows[int(np.nanargmax(shares))])
    return [
        Measured(ratio, low=min(low[at], ratio), high=max(high[at], ratio), rows=int(fewer[at])) if known[at] else None
        for at, ratio in enumerate(ratios.tolist())
    ]


def _why_no_ratio(side: Side) -> str:
    """Why no category has an impact ratio; empty where some have."""
    rates = side.values[~np.isnan(side.values)]
    if rates.size < 2:
        return "fewer than two categories have a selection rate"
    return "" if rates.max() > 0 else "nobody is selected in any category"


def _table_text(table: CategoryTable) -> str:
    """A table as aligned text."""
    lines = [["category", "people", "selection rate", "impact ratio"]]
    for category in table.categories:
        name = ", ".join(map(str, category.name)) + (" (below 2 % of the people)" if category.small else "")
        ratio = "undefined" if category.ratio is None else f"{text(category.ratio)} ({category.ratio.interval})"
        rate = "undefined" if category.rate is None else f"{text(category.rate)} ({category.rate.interval})"
        lines.append([name, f"{category.people:,}", rate, ratio])
    why = f"\nImpact ratios are undefined: {table.why_no_ratio}." if table.why_no_ratio else ""
    return f"By {' and '.join(table.by)}, {table.unknown:,} of unknown category\n{aligned(lines)}{why}"
