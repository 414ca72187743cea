"""Options for what is required beside tolerances: floors, ceilings, a capacity, and what errors cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import (
    NOTIONS,
    Decorator,
    constrained,
    costs_option,
    one_of,
    together,
)
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.files.rows import DataRows
    from logofair.files.values import CostsText
    from logofair.requirements import Requirements, Tolerance

_SIDES = ("local", "global")


@dataclass(frozen=True)
class LimitText:
    """A floor or a ceiling as it was typed: ``[global:]NOTION[:GROUP]=RATE``, or ``=today``."""

    text: str
    side: str
    notion: str
    group: str | None
    value: float | str


@dataclass(frozen=True)
class CapacityText:
    """A capacity as it was typed: ``[local:][exactly:]SHARE``, or a number of people over all."""

    text: str
    side: str
    exactly: bool
    number: float

    def as_argument(self, rows: int) -> Any:
        """What the library takes: a share of so many people, to be kept or met."""
        from logofair.requirements import Exactly

        share = self.number if self.number <= 1 else self.number / rows
        if share > 1:
            raise InputError(
                f"--capacity: got {self.text!r}, more than the {rows:,} people there are; pass fewer or none."
            )
        return Exactly(share) if self.exactly else share


@dataclass(frozen=True)
class Required:
    """What is required beside tolerances."""

    floor: tuple[LimitText, ...] = ()
    ceiling: tuple[LimitText, ...] = ()
    capacity: tuple[CapacityText, ...] = ()
    costs: CostsText | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Required:
        """Take what these options read out of a command's."""
        return cls(**{each.name: options.pop(each.name) for each in fields(cls)})

    def arguments(self, rows: DataRows) -> dict[str, Any]:
        """What :func:`logofair.fit` takes for these rows."""
        from logofair.files.values import costs_by_site

        sites = None if rows.sites is None else list(dict.fromkeys(rows.sites.tolist()))
        found = self.of_groups(list(dict.fromkeys(rows.groups.tolist())), len(rows.groups))
        return found | {"costs": costs_by_site(self.costs, sites)}

    def of_groups(self, names: list[Any], people: int) -> dict[str, Any]:
        """Floors, ceilings and the capacity as the library takes them, for groups of these names and so many people."""
        from logofair.files.values import known_label, labels_by_text

        found: dict[str, Any] = {"capacity": {each.side: each.as_argument(people) for each in self.capacity} or None}
        groups = labels_by_text(names, "--group")
        for name in ("floor", "ceiling"):
            sides: dict[str, dict[str, Any]] = {}
            for limit in getattr(self, name):
                own = sides.setdefault(limit.side, {}).setdefault(limit.notion, {})
                group = None if limit.group is None else known_label(limit.group, groups, f"--{name}")
                if group in own:
                    raise InputError(f"--{name}: {limit.text!r} is of a rate that has one already; give it once.")
                own[group] = limit.value
            found[f"{name}s"] = {side: _for_groups(own, groups.values()) for side, own in sides.items()} or None
        return found


@dataclass(frozen=True)
class Wanted:
    """What decisions that are there are judged by: tolerances of some notions, floors, ceilings, a capacity."""

    notions: tuple[str, ...]
    local_tolerance: Tolerance
    global_tolerance: Tolerance
    required: Required

    @classmethod
    def of(cls, notion: Sequence[str], options: dict[str, Any]) -> Wanted | None:
        """Take what these options read out of a command's; None where nothing was wanted."""
        local, global_ = (constrained(options.pop(f"{side}_tolerance")) for side in _SIDES)
        required = Required.of(options | {"costs": None})
        for name in ("floor", "ceiling", "capacity"):
            options.pop(name)
        if local is None and global_ is None and not (required.floor or required.ceiling or required.capacity):
            return None
        return cls(tuple(notion) or NOTIONS[:1], local, global_, required)

    def requirements(self, groups: Sequence[Any], sites: Sequence[Any], people: int) -> Requirements:
        """What must hold of these groups and sites."""
        import numpy as np

        from logofair.columns.labels import Codes
        from logofair.requirements import make_requirements

        sides = {"local": self.local_tolerance, "global": self.global_tolerance}
        notion = {side: dict.fromkeys(self.notions, own) for side, own in sides.items()}
        named = Codes(tuple(sites), np.zeros(0, dtype=np.int32))
        given = self.required.of_groups(list(groups), people)
        tolerances = (self.local_tolerance, self.global_tolerance)
        return make_requirements(notion, *tolerances, None, named, groups=list(groups), **given)


def _for_groups(limits: dict[str, dict[Any, Any]], groups: Iterable[Any]) -> dict[str, Any]:
    """What is required of each group: its own, or that of all."""
    return {
        notion: own[None]
        if list(own) == [None]
        else (dict.fromkeys(groups, own[None]) if None in own else {}) | _named(own)
        for notion, own in limits.items()
    }


def _named(own: dict[Any, Any]) -> dict[Any, Any]:
    return {group: value for group, value in own.items() if group is not None}


def _limits(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[LimitText, ...]:
    """Read floors or ceilings; groups are looked for among the rows later."""
    return tuple(_limit(ctx, param, text) for text in texts)


def _limit(ctx: click.Context, param: click.Parameter, text: str) -> LimitText:
    named, _, number = text.rpartition("=")
    side, _, rest = named.partition(":")
    side, rest = (side, rest) if side in _SIDES else ("local", named)
    notion, _, group = rest.partition(":")
    value: float | str = number if number == "today" else _number(number)
    advice = ""
    if not notion or (isinstance(value, float) and math.isnan(value)):
        advice = "pass [global:]NOTION[:GROUP]=RATE, such as equal_opportunity=0.6 or demographic_parity:F=today"
    elif isinstance(value, float) and not 0 <= value <= 1:
        advice = "a rate lies between 0 and 1: write 0.6 for 60 percent, or today"
    if advice:
        raise click.BadParameter(f"got {text!r}; {advice}.", ctx, param)
    return LimitText(text, side, one_of(NOTIONS)(ctx, param, notion), group or None, value)


def _capacities(
    place: str, ctx: click.Context, param: click.Parameter, texts: Sequence[str]
) -> tuple[CapacityText, ...]:
    """Read capacities, one for each side."""
    found: dict[str, CapacityText] = {}
    for text in texts:
        *words, last = text.split(":")
        side, number = ("local" if "local" in words else "global"), _number(last)
        people = number > 1
        sound = number > 0 and set(words) <= {*_SIDES, "exactly"} and (number.is_integer() or not people)
        sound = sound and not set(words) >= set(_SIDES)
        if side in found:
            raise click.BadParameter(f"got {text!r} beside {found[side].text!r}; give one for each side.", ctx, param)
        if sound and people and side == "local":
            raise click.BadParameter(f"got {text!r}; a number of people is over all: pass a share.", ctx, param)
        if not sound:
            advice = f"local:0.1 for each {place}, exactly:0.1 to meet it"
            raise click.BadParameter(
                f"got {text!r}; pass a share such as 0.1 or a number of people, {advice}.", ctx, param
            )
        found[side] = CapacityText(text, side, "exactly" in words, number)
    return tuple(found.values())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _limit_option(kind: str, how: str, place: str) -> Any:
    return click.option(
        f"--{kind}",
        metavar="[SIDE:]NOTION[:GROUP]=RATE",
        multiple=True,
        callback=_limits,
        help=f"A group's rate is {how} RATE, or today (that of no requirement), inside each {place}, with global: "
        "over all; may be given again.",
    )


def limit_options(place: str = "site") -> Decorator[Any]:
    """Return the options for floors, ceilings and a capacity, at participants of this word."""
    return together(
        _limit_option("floor", "at least", place),
        _limit_option("ceiling", "at most", place),
        click.option(
            "--capacity",
            metavar="[local:][exactly:]SHARE",
            multiple=True,
            callback=partial(_capacities, place),
            help=f"At most this share of all people is accepted, or this number; local: at each {place}; exactly: met.",
        ),
    )


def requirement_options(place: str = "site") -> Decorator[Any]:
    """Return the options for all that is required beside tolerances, and for costs."""
    return together(limit_options(place), costs_option(place))
