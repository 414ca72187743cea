"""What errors cost: a wrongly accepted row and a wrongly rejected one, one pair for all sites or one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.columns.checks import Floats, Integers, shown
from logofair.columns.labels import Codes, check_sites
from logofair.errors import InputError
from logofair.notions import as_number
from logofair.records import Condensed

_ERRORS = ("wrongly accepted", "wrongly rejected")
_MOST = 1e100  # sums of larger costs could overflow


@dataclass(frozen=True, eq=False)
class Costs(Condensed):
    """What a wrongly accepted and a wrongly rejected row cost (c_FP and c_FN) at each site, or at all in one entry.

    The cost of a rule is the mean over its rows. With costs 1 and 1 it is 1 less the accuracy.

    Examples
    --------
    >>> costs = Costs(np.array([1.0]), np.array([3.0]))
    >>> costs.gain(np.array([0.1, 0.25, 0.5])).tolist()
    [-0.6, 0.0, 1.0]
    >>> costs.break_even.tolist()
    [0.25]
    """

    wrongly_accepted: Floats
    wrongly_rejected: Floats

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]] | Floats) -> Costs:
        """The costs of sites from their pairs, (c_FP, c_FN) each."""
        table = np.array(pairs, dtype=np.float64)
        return cls(table[:, 0], table[:, 1])

    @classmethod
    def expanded(cls, value: Mapping[str, Any]) -> Costs:
        """Return the costs that :meth:`condensed` wrote."""
        return cls(*(np.atleast_1d(np.array(value[f"wrongly_{error}"], float)) for error in ("accepted", "rejected")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Costs) and self.condensed() == other.condensed()

    @property
    def same_everywhere(self) -> bool:
        """Whether one pair holds at all sites."""
        return self.wrongly_accepted.size == 1

    @property
    def largest(self) -> float:
        """What the dearest error costs."""
        return float(max(self.wrongly_accepted.max(), self.wrongly_rejected.max()))

    def only(self, site: int) -> Costs:
        """The costs of one site."""
        if self.same_everywhere:
            return self
        return Costs(self.wrongly_accepted[site : site + 1], self.wrongly_rejected[site : site + 1])

    def at(self, sites: Integers) -> Costs:
        """The costs at the site of each row, by its code; a site that is not known, below 0, has the mean of all."""
        if self.same_everywhere:
            return self
        accepted, rejected = (
            np.where(sites < 0, each.mean(), each[np.maximum(sites, 0)])
            for each in (self.wrongly_accepted, self.wrongly_rejected)
        )
        return Costs(accepted, rejected)

    def mean(self) -> Costs:
        """The mean over sites, as one pair for all."""
        return Costs(*(each.mean(keepdims=True) for each in (self.wrongly_accepted, self.wrongly_rejected)))

    def gain(self, chance: Floats) -> Floats:
        """What accepting wins over rejecting a row of this chance eta of label 1: ``(c_FN + c_FP) eta - c_FP``.

        With the label itself, 0 or 1, in place of the chance, it is the gain once the truth is known.
        """
        both = self.wrongly_accepted + self.wrongly_rejected
        return np.asarray(both * chance - self.wrongly_accepted)

    @property
    def break_even(self) -> Floats:
        """The chance at which accepting and rejecting cost the same, ``c_FP / (c_FP + c_FN)``, by site."""
        return np.asarray(self.wrongly_accepted / (self.wrongly_accepted + self.wrongly_rejected))

    def condensed(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: two numbers where one pair holds everywhere, else two lists by site."""
        found = {"wrongly_accepted": self.wrongly_accepted, "wrongly_rejected": self.wrongly_rejected}
        return {name: float(each[0]) if self.same_everywhere else each.tolist() for name, each in found.items()}


ACCURACY = Costs(np.ones(1), np.ones(1))  # a wrong decision costs 1: the least costly rule is the most accurate


def read_costs(costs: object, sites: Codes, where: str = "costs") -> Costs:
    """Read the user's costs: a pair, or a mapping from every site to its pair.

    Without a site column ``sites`` is :func:`logofair.columns.labels.one_site`, and a mapping is refused.

    Examples
    --------
    >>> from logofair.columns.labels import encode
    >>> read_costs({"a": (1, 1), "b": (1, 3)}, encode(["a", "b", "b"], "sites")).wrongly_rejected.tolist()
    [1.0, 3.0]
    """
    if not isinstance(costs, Mapping):
        return Costs.of([read_pair(costs, where)])
    if sites.names == (None,):
        raise InputError(f"{where}: names sites, but sites= is missing; pass one pair, or the site of each row.")
    check_sites(costs, sites, where)
    for name in sites.names:
        if name not in costs:
            raise InputError(f"{where}: has no pair for site {name!r}; pass one for every site.")
    return Costs.of([read_pair(costs[name], f"{where}: site {name!r}") for name in sites.names])


def read_pair(costs: object, where: str) -> tuple[float, float]:
    """Read one pair: what a wrongly accepted and a wrongly rejected row cost."""
    parts = list(costs) if isinstance(costs, list | tuple | np.ndarray) else []
    if len(parts) != 2:
        advice = "pass the cost of a wrongly accepted row and of a wrongly rejected one, such as (1, 3)"
        raise InputError(f"{where}: got {shown(costs)}; {advice}.")
    for error, part in zip(_ERRORS, parts, strict=True):
        if not 0.0 <= as_number(part) <= _MOST:
            raise InputError(f"{where}: a {error} row costs {shown(part)}; pass a number from 0 to {_MOST:g}.")
    accepted, rejected = map(as_number, parts)
    if accepted == rejected == 0.0:
        raise InputError(f"{where}: both errors cost 0; at least one must cost something.")
    return accepted, rejected
