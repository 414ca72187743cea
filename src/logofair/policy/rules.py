"""Rules for people: a policy's mixtures in words, one line per site and group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Floats, Label
from logofair.policy.mixtures import NEGLIGIBLE, Mixtures


@dataclass(frozen=True)
class RuleRow:
    """The rule of one site and group."""

    site: Label
    group: Label
    rule: str
    needs_coin: bool
    too_small: bool = False  # whether the group has too few rows at a federation's site to say: it is the merged rule


@dataclass(frozen=True, eq=False)
class RuleTable:
    """All rules of a policy, read row by row; printing it gives a table.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.2], None, groups=["a", "b"], calibration="none", global_tolerance=None,
    ...     local_tolerance=None)
    >>> print(solution.policy.rules)
    site  group  rule
    all     'a'    accepted from a score of 0.5 up; rejected below
    all     'b'    accepted from a score of 0.5 up; rejected below
    """

    groups: tuple[Label, ...]
    sites: tuple[Label, ...]
    mixtures: Mixtures
    too_small: tuple[str, ...] = ()  # groups with too few rows at a federation's site to say

    def __len__(self) -> int:
        return len(self.groups) * len(self.sites)

    def __getitem__(self, number: int) -> RuleRow:
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        cell = number % len(self)
        site, group = divmod(cell, len(self.groups))
        edges, chances = steps(self.mixtures, cell)
        name, needs_coin = self.groups[group], bool(((chances > 0) & (chances < 1)).any())
        rule = rule_in_words(edges.tolist(), chances.tolist())
        return RuleRow(self.sites[site], name, rule, needs_coin, str(name) in self.too_small)

    def __iter__(self) -> Iterator[RuleRow]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        most = 40
        rows = [self[number] for number in range(min(len(self), most))]
        table = [("site", "group", "rule"), *((_name(r.site), repr(r.group), _marked(r)) for r in rows)]
        widths = [max(len(row[i]) for row in table) for i in (0, 1)]
        lines = [f"{c:<{widths[0]}}  {g:<{widths[1]}}  {rule}" for c, g, rule in table]
        if len(self) > most:
            lines.append(f"... and {len(self) - most} more")
        return "\n".join(lines)


def _marked(row: RuleRow) -> str:
    return row.rule + (" (too small to say)" if row.too_small else "")


def _name(site: Label) -> str:
    return "all" if site is None else repr(site)


def steps(mixtures: Mixtures, cell: int) -> tuple[Floats, Floats]:
    """Return the edges of a cell's bands of scores, from 0 to 1, and the chance of acceptance between each two."""
    used = mixtures.weight[cell] > 0
    weight, threshold, above = (a[cell][used] for a in (mixtures.weight, mixtures.threshold, mixtures.above))
    inner = np.unique(threshold[(threshold > 0) & (threshold < 1)])
    edges = np.concatenate(([0.0], inner, [1.0]))
    middle = (edges[:-1] + edges[1:]) / 2
    accepts = np.where(above, middle[:, None] >= threshold, middle[:, None] <= threshold)
    chance = (accepts * weight).sum(1)
    chance = np.where(chance > 1 - NEGLIGIBLE, 1.0, chance)
    differs = np.concatenate(([True], np.diff(chance) != 0))
    return np.concatenate((edges[:-1][differs], [1.0])), chance[differs]


def rule_in_words(edges: Sequence[float], chances: Sequence[float], raw: Sequence[float] | None = None) -> str:
    """Say a rule in words, from the highest scores down; ``raw`` are the edges as raw scores, where those are others.

    Examples
    --------
    >>> rule_in_words([0.0, 0.3, 0.5, 1.0], [0.0, 0.25, 1.0])
    'accepted from a score of 0.5 up; between 0.3 and 0.5, 25 % by a coin; rejected below'
    """
    if len(chances) == 1:
        return f"{_fate(chances[0])} whatever the score"
    digits, lowest = _digits(edges[1:-1]), edges[-2]
    if raw is None:
        score, also = f"a score of {lowest:.{digits}g}", [""] * len(edges)
    else:
        in_raw = [f"{edge:.{_digits(raw[1:-1])}g}" for edge in raw]
        score = f"a calibrated score of {lowest:.{digits}g} (raw score about {in_raw[-2]})"
        also = [f" ({edge})" for edge in in_raw]
    parts = [f"{_fate(chances[-1])} from {score} up"]
    for place in range(len(chances) - 2, 0, -1):
        low, high = edges[place], edges[place + 1]
        parts.append(f"between {low:.{digits}g}{also[place]} and {high:.{digits}g}, {_fate(chances[place])}")
    return "; ".join([*parts, f"{_fate(chances[0])} below"])


def _fate(chance: float) -> str:
    """What happens to a row with this chance; a share that is neither none nor all does not look like it."""
    if chance in (0.0, 1.0):
        return "accepted" if chance else "rejected"
    percent = 100 * chance
    text = f"{percent:.0f}" if 1 <= percent <= 99 else f"{percent:.1f}"
    text = "fewer than 0.1" if percent < 0.05 else "more than 99.9" if percent > 99.95 else text
    return f"{text} % by a coin"


def _digits(values: Sequence[float]) -> int:
    """As many digits as it takes to tell values apart, three at least."""
    different = len(set(values))
    return next((d for d in range(3, 17) if len({f"{v:.{d}g}" for v in values}) >= different), 17)
