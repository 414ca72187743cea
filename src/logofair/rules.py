"""Rules for people: a policy's mixtures in words, one line per client and group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logofair.inputs import Label
from logofair.mixtures import Mixtures


@dataclass(frozen=True)
class RuleRow:
    """The rule of one client and group."""

    client: Label
    group: Label
    rule: str
    needs_coin: bool


@dataclass(frozen=True)
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

    def __len__(self) -> int:
        return len(self.groups) * len(self.clients)

    def __getitem__(self, number: int) -> RuleRow:
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        client, group = divmod(number % len(self), len(self.groups))
        cell = client * len(self.groups) + group
        return RuleRow(self.clients[client], self.groups[group], self._words(cell), bool(self.mixtures.mixed[cell]))

    def __iter__(self) -> Iterator[RuleRow]:
        return (self[number] for number in range(len(self)))

    def _words(self, cell: int) -> str:
        parts = []
        for weight, threshold, above in zip(
            self.mixtures.weight[cell], self.mixtures.threshold[cell], self.mixtures.above[cell], strict=True
        ):
            if weight > 0:
                rule = _one_rule(float(threshold), bool(above))
                parts.append(rule if weight == 1 else f"{weight:.1%}: {rule}")
        left = 1.0 - float(self.mixtures.weight[cell].sum())
        if not parts:
            return "reject all"
        if left > 1e-9:
            parts.append(f"{left:.1%}: reject all")
        return "; ".join(parts)

    def __str__(self) -> str:
        most = 40
        rows = [self[number] for number in range(min(len(self), most))]
        table = [("client", "group", "rule"), *((_name(r.client), repr(r.group), r.rule) for r in rows)]
        widths = [max(len(row[i]) for row in table) for i in (0, 1)]
        lines = [f"{c:<{widths[0]}}  {g:<{widths[1]}}  {rule}" for c, g, rule in table]
        if len(self) > most:
            lines.append(f"... and {len(self) - most} more")
        return "\n".join(lines)


def _one_rule(threshold: float, above: bool) -> str:
    if above:
        return "accept all" if threshold <= 0 else f"score >= {threshold:.4g}"
    return "accept all" if threshold >= 1 else f"score <= {threshold:.4g}"


def _name(client: Label) -> str:
    return "all" if client is None else repr(client)
