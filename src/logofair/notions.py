"""What "fair" means: a notion is a tuple of rates that should agree between groups.

A *rate* of a group is the expected share of some of its members that a decision rule ``h`` accepts.
With ``eta`` the chance that a member has label 1, every rate here is linear in ``eta``::

    rate = E[h * (constant + slope * eta)] / E[base_constant + base_slope * eta]

so demographic parity, equal opportunity, predictive equality, equalized odds and any user's own
"composite linear disparity" (the paper's term) pass through one formula. The *gap* of a rate is its
largest value over the groups minus its smallest; a rule is fair when every gap is within tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from logofair.columns.checks import Floats, nearest_name, shown
from logofair.errors import InputError
from logofair.records import Condensed


def as_number(value: object) -> float:
    """Return a real number as a float: infinite where too large, NaN where it is no number at all."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf


@dataclass(frozen=True)
class Rate(Condensed):
    """A rate of a group, linear in the chance of label 1: who counts in the numerator, and who in the denominator.

    Parameters
    ----------
    name : str
        How the rate is called in tables.
    constant, slope : float
        An accepted row counts ``constant + slope * eta`` in the numerator; ``eta`` is its chance of label 1.
    base : (float, float), optional
        The line of the denominator; by default that of the numerator, so accepting all gives rate 1.

    Examples
    --------
    The expected benefit per person where a correct acceptance earns 1 and a wrong one costs 1:

    >>> benefit = Rate("benefit", constant=-1.0, slope=2.0, base=(1.0, 0.0))
    >>> benefit.numerator(1.0, 0.75), benefit.denominator(1.0, 0.75)
    (0.5, 1.0)
    """

    name: str
    constant: float
    slope: float
    base: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"Rate: its name must be text, got {self.name!r}.")
        base = tuple(self.base) if isinstance(self.base, list | tuple) else self.base
        numbers = (self.constant, self.slope, *(base if isinstance(base, tuple) else ()))
        if not np.all(np.isfinite([as_number(n) for n in numbers])) or (base is not None and len(numbers) != 4):
            raise InputError(
                f"Rate {self.name!r}: its lines in eta must be pairs of finite numbers, "
                f"got ({self.constant!r}, {self.slope!r}) and base={self.base!r}."
            )
        object.__setattr__(self, "base", base)
        if min(self._base[0], self._base[0] + self._base[1]) < 0 or self._base == (0.0, 0.0):
            raise InputError(
                f"Rate {self.name!r}: the denominator {self._base[0]:g} + {self._base[1]:g} * eta must not be "
                "negative for eta between 0 and 1, nor zero throughout; pass another base=."
            )

    @property
    def _base(self) -> tuple[float, float]:
        return (self.constant, self.slope) if self.base is None else self.base

    @property
    def is_share(self) -> bool:
        """Whether it is the share of some rows that is accepted, so that it lies between 0 and 1."""
        return self.base is None

    @property
    def ends(self) -> tuple[float, float]:
        """What it lies between whatever the rule; infinite where its denominator may be 0 and its numerator not."""
        found = [0.0]
        for eta in (0.0, 1.0):
            top, bottom = self.constant + self.slope * eta, self._base[0] + self._base[1] * eta
            found += [top / bottom if bottom > 0 else np.inf * top] if top else []
        return min(found), max(found)

    def condensed(self) -> Any:
        """Return its name where it is one of our notions', else all that it is."""
        return self.name if KNOWN_RATES.get(self.name) == self else vars(self)

    @classmethod
    def expanded(cls, value: Any) -> Rate:
        """Return the rate that :meth:`condensed` wrote."""
        return KNOWN_RATES[value] if isinstance(value, str) else cls(**value)

    @property
    def needs_labels(self) -> bool:
        """Whether measuring it needs to know who is positive."""
        return self.slope != 0 or self._base[1] != 0

    def normalised(self) -> tuple[Rate, float]:
        """The rate in units of order 1, and how many of these units one of its own has.

        Solvers work to fixed precision; whether a rate is counted in euros or in millions must not matter.
        """
        top = max(abs(self.constant), abs(self.constant + self.slope))
        bottom = max(self._base[0], self._base[0] + self._base[1])
        if top == 0 or (top == 1.0 and bottom == 1.0):
            return self, 1.0
        base = (self._base[0] / bottom, self._base[1] / bottom)
        return Rate(self.name, self.constant / top, self.slope / top, base), bottom / top

    def numerator(self, selected: Floats | float, positives: Floats | float) -> Any:
        """Numerator from the mass accepted and the mass of accepted positives."""
        return self.constant * selected + self.slope * positives

    def denominator(self, mass: Floats | float, positives: Floats | float) -> Any:
        """Denominator from the mass of a cell or group and the mass of its positives."""
        return self._base[0] * mass + self._base[1] * positives


_BY_LABEL = {
    None: Rate("selection rate", 1.0, 0.0),
    1: Rate("true positive rate", 0.0, 1.0),
    0: Rate("false positive rate", 1.0, -1.0),
}


@dataclass(frozen=True)
class Notion:
    """A fairness notion: the rates that should agree between groups.

    Parameters
    ----------
    name : str
        How the notion is called.
    given : tuple
        For each rate either the label it is conditioned on (``None``: all rows, ``1``: the rows with
        label 1, ``0``: those with label 0) or a :class:`Rate` of the user's own.

    Examples
    --------
    >>> Notion("equalized_odds", given=(1, 0)).rates[0].name
    'true positive rate'
    >>> benefit = Notion("equal_benefit", given=(Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))
    >>> benefit.needs_labels
    True
    """

    name: str
    given: tuple[int | Rate | None, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"Notion: its name must be text, got {self.name!r}.")
        given = tuple(self.given) if isinstance(self.given, list | tuple) else (self.given,)
        if not given:
            raise InputError(f"Notion {self.name!r}: given= is empty; name at least one rate, e.g. given=(None,).")
        for condition in given:
            if condition is not None and not isinstance(condition, Rate) and as_number(condition) not in (0.0, 1.0):
                raise InputError(
                    f"Notion {self.name!r}: given= holds {condition!r}; a rate is conditioned on None, 0 or 1, "
                    "or is a logofair.Rate."
                )
        object.__setattr__(self, "given", given)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates, in the order of ``given``."""
        return tuple(g if isinstance(g, Rate) else _BY_LABEL[g] for g in self.given)

    @property
    def of_shares(self) -> bool:
        """Whether every rate lies between 0 and 1."""
        return all(rate.is_share for rate in self.rates)

    @property
    def needs_labels(self) -> bool:
        """Whether measuring the rates needs to know who is positive."""
        return any(rate.needs_labels for rate in self.rates)


DEMOGRAPHIC_PARITY = Notion("demographic_parity", given=(None,))
EQUAL_OPPORTUNITY = Notion("equal_opportunity", given=(1,))
PREDICTIVE_EQUALITY = Notion("predictive_equality", given=(0,))
EQUALIZED_ODDS = Notion("equalized_odds", given=(1, 0))
KNOWN_RATES = {rate.name: rate for rate in _BY_LABEL.values()}
NOTIONS = {n.name: n for n in (DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY, PREDICTIVE_EQUALITY, EQUALIZED_ODDS)}

NotionLike: TypeAlias = "str | Notion"


def named_notion(notion: str | Notion, where: str) -> Notion:
    """Look a notion up by name, or pass one through."""
    if isinstance(notion, Notion):
        return notion
    if isinstance(notion, str) and notion in NOTIONS:
        return NOTIONS[notion]
    raise InputError(
        f"{where}: unknown notion {shown(notion)}{nearest_name(notion, NOTIONS)}; "
        f"use one of {', '.join(NOTIONS)}, or a logofair.Notion."
    )


def sides(notion: object) -> tuple[Any, Any]:
    """Split ``notion`` into its local and its global side; one notion serves for both."""
    if isinstance(notion, Mapping) and set(notion) & {"local", "global"}:
        if set(notion) != {"local", "global"}:
            raise InputError(
                "notion: a mapping by side needs both 'local' and 'global', "
                f"got {sorted(map(str, notion))}; switch a side off with its tolerance None."
            )
        return notion["local"], notion["global"]
    if not isinstance(notion, str | Notion):
        raise InputError(f"notion: got {notion!r}; use one of {', '.join(NOTIONS)}, a logofair.Notion or a mapping.")
    return notion, notion
