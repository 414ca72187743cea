"""Rules for people: a policy's mixtures in words, one line per client and group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Label
from logofair.policy.mixtures import Mixtures


@dataclass(frozen=True)
class RuleRow:
    """The rule of one client and group."""

    client: Label
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
    client  group  rule
    all     'a'    score >= 0.5
    all     'b'    score >= 0.5
    """

    groups: tuple[Label, ...]
    clients: tuple[Label, ...]
    mixtures: Mixtures
    too_small: tuple[str, ...] = ()  # groups with too few rows at a federation's site to say

    def __len__(self) -> int:
        return len(self.groups) * len(self.clients)

    def __getitem__(self, number: int) -> RuleRow:
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        cell = number % len(self)
        client, group = divmod(cell, len(self.groups))
        rule, needs_coin = self._words(cell)
        name = self.groups[group]
        return RuleRow(self.clients[client], name, rule, needs_coin, str(name) in self.too_small)

    def __iter__(self) -> Iterator[RuleRow]:
        return (self[number] for number in range(len(self)))

    def _words(self, cell: int) -> tuple[str, bool]:
        """A cell's rule in words, and whether it needs a coin."""
        used = np.flatnonzero(self.mixtures.weight[cell])
        if not used.size:
            return "reject all", False
        weights = self.mixtures.weight[cell, used].tolist()
        rules = _in_words(self.mixtures.threshold[cell, used].tolist(), self.mixtures.above[cell, used].tolist())
        if weights[0] == 1:
            return rules[0], False
        left = 1.0 - sum(weights)
        if left > 1e-9:
            weights, rules = [*weights, left], [*rules, "reject all"]
        return "; ".join(f"{_percent(w)}: {rule}" for w, rule in zip(weights, rules, strict=True)), True

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        most = 40
        rows = [self[number] for number in range(min(len(self), most))]
        table = [("client", "group", "rule"), *((_name(r.client), repr(r.group), _marked(r)) for r in rows)]
        widths = [max(len(row[i]) for row in table) for i in (0, 1)]
        lines = [f"{c:<{widths[0]}}  {g:<{widths[1]}}  {rule}" for c, g, rule in table]
        if len(self) > most:
            lines.append(f"... and {len(self) - most} more")
        return "\n".join(lines)


def _in_words(thresholds: list[float], above: list[bool]) -> list[str]:
    """Each rule in words, with as many digits as it takes to tell thresholds apart."""
    distinct = len(set(thresholds))
    digits = next(d for d in range(4, 18) if len({f"{t:.{d}g}" for t in thresholds}) >= distinct)
    return [_one_rule(t, up, digits) for t, up in zip(thresholds, above, strict=True)]


def _one_rule(threshold: float, above: bool, digits: int) -> str:
    if above:
        return "accept all" if threshold <= 0 else f"score >= {threshold:.{digits}g}"
    return "accept all" if threshold >= 1 else f"score <= {threshold:.{digits}g}"


def _marked(row: RuleRow) -> str:
    return row.rule + (" (too small to say)" if row.too_small else "")


def _percent(weight: float) -> str:
    """A share that is neither none nor all, and does not look like it."""
    return f"{weight:.1%}" if 0.0005 <= weight < 0.9995 else ("<0.1%" if weight < 0.5 else ">99.9%")


def _name(client: Label) -> str:
    return "all" if client is None else repr(client)
