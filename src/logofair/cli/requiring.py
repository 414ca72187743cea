"""Options for what is required beside tolerances: floors, ceilings, a capacity, and what errors cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import NOTIONS, costs_option, one_of, together

if TYPE_CHECKING:
    from logofair.files.rows import DataRows

__all__ = ["CapacityText", "LimitText", "Required", "requirement_options"]

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

        share = self.number if self.number <= 1 else min(1.0, self.number / rows)
        return Exactly(share) if self.exactly else share


@dataclass(frozen=True)
class Required:
    """What is required beside tolerances."""

    floor: tuple[LimitText, ...] = ()
    ceiling: tuple[LimitText, ...] = ()
    capacity: tuple[CapacityText, ...] = ()
    costs: tuple[float, float] | None = None

    def arguments(self, rows: DataRows) -> dict[str, Any]:
        """What :func:`logofair.fit` takes for these rows."""
        from logofair.files.values import known_label, labels_by_text

        found: dict[str, Any] = {"costs": self.costs}
        found["capacity"] = {each.side: each.as_argument(len(rows.scores)) for each in self.capacity} or None
        groups = labels_by_text(list(dict.fromkeys(rows.groups.tolist())), "--group")
        for name in ("floor", "ceiling"):
            sides: dict[str, dict[str, Any]] = {}
            for limit in getattr(self, name):
                own = sides.setdefault(limit.side, {})
                if limit.group is None:
                    own[limit.notion] = limit.value
                else:
                    of_groups = own.setdefault(limit.notion, {})
                    of_groups[known_label(limit.group, groups, f"--{name}")] = limit.value
            found[f"{name}s"] = sides or None
        return found

    def words(self) -> list[str]:
        """The options as they are typed."""
        texts = [(name, each.text) for name in ("floor", "ceiling", "capacity") for each in getattr(self, name)]
        words = [word for name, text in texts for word in (f"--{name}", text)]
        return words + ([] if self.costs is None else ["--costs", ",".join(f"{cost:g}" for cost in self.costs)])


def _limits(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[LimitText, ...]:
    """Read floors or ceilings; groups are looked for among the rows later."""
    return tuple(_limit(ctx, param, text) for text in texts)


def _limit(ctx: click.Context, param: click.Parameter, text: str) -> LimitText:
    named, _, number = text.rpartition("=")
    side, _, rest = named.partition(":")
    side, rest = (side, rest) if side in _SIDES else ("local", named)
    notion, _, group = rest.partition(":")
    value: float | str = number if number == "today" else _number(number)
    if not notion or (value != "today" and not 0 <= float(value) <= 1):
        advice = "pass [global:]NOTION[:GROUP]=RATE, such as equal_opportunity=0.6 or demographic_parity:F=today"
        raise click.BadParameter(f"got {text!r}; {advice}.", ctx, param)
    return LimitText(text, side, one_of(NOTIONS)(ctx, param, notion), group or None, value)


def _capacities(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[CapacityText, ...]:
    """Read capacities, one for each side."""
    found: dict[str, CapacityText] = {}
    for text in texts:
        *words, last = text.split(":")
        side, number = ("local" if "local" in words else "global"), _number(last)
        people = number > 1
        sound = number > 0 and set(words) <= {*_SIDES, "exactly"} and (number.is_integer() or not people)
        if not sound or side in found or (people and side == "local"):
            advice = "pass a share such as 0.1 or a number of people, local:0.1 for each client, exactly:0.1 to meet it"
            raise click.BadParameter(f"got {text!r}; {advice}.", ctx, param)
        found[side] = CapacityText(text, side, "exactly" in words, number)
    return tuple(found.values())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _limit_option(kind: str, how: str) -> Any:
    return click.option(
        f"--{kind}",
        metavar="[SIDE:]NOTION[:GROUP]=RATE",
        multiple=True,
        callback=_limits,
        help=f"A group's rate is {how} RATE, or today (that of no requirement), inside each client, with global: over "
        "all; may be given again.",
    )


requirement_options = together(
    _limit_option("floor", "at least"),
    _limit_option("ceiling", "at most"),
    click.option(
        "--capacity",
        metavar="[local:][exactly:]SHARE",
        multiple=True,
        callback=_capacities,
        help="At most this share of all people is accepted, or this number; local: at each client; exactly: met.",
    ),
    costs_option,
)
