"""What a frontier trades for fairness, in words: accuracy, told in percent and points, or cost per person."""

from __future__ import annotations

from dataclasses import dataclass

from logofair.auditing import Audit, Comparison, Measured
from logofair.costs import Costs


@dataclass(frozen=True, eq=False)
class Objective:
    """Accuracy, or the cost per person where errors have costs.

    Examples
    --------
    >>> import numpy as np
    >>> accuracy, cost = Objective(), Objective(Costs(np.array([1.0]), np.array([3.0])))
    >>> accuracy.value(0.8123), accuracy.lost(0.003)
    ('81.23 %', '0.30 points lost')
    >>> cost.value(0.2134), cost.lost(0.003)
    ('0.2134 per person', '0.0030 more')
    """

    costs: Costs | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return "accuracy" if self.costs is None else "cost"

    @property
    def unit(self) -> float:
        """What differences are small or large against: all of the accuracy, or the dearest error."""
        return 1.0 if self.costs is None else self.costs.largest

    @property
    def scale(self) -> str:
        """The name with its unit, for an axis."""
        return "accuracy in %" if self.costs is None else "cost per person"

    @property
    def rises(self) -> str:
        """What it does where there is more tolerance."""
        return "rises" if self.costs is None else "falls"

    def loss(self, value: float, base: float) -> float:
        """What a value is worse than another by."""
        return base - value if self.costs is None else value - base

    def shown(self, number: float) -> float:
        """A value or a loss as it is written."""
        return 100.0 * number if self.costs is None else number

    def short(self, number: float) -> str:
        """A value or a loss without its unit."""
        return f"{self.shown(number):.{2 if self.costs is None else 4}f}"

    def value(self, value: float) -> str:
        """A value in words."""
        return f"{self.short(value)} {'%' if self.costs is None else 'per person'}"

    def lost(self, loss: float) -> str:
        """A loss in words."""
        return f"{self.short(max(loss, 0.0))} {'points lost' if self.costs is None else 'more'}"

    def amount(self, loss: float) -> str:
        """A loss as an amount."""
        return f"{self.short(max(loss, 0.0))} {'points' if self.costs is None else 'per person'}"

    def measured(self, audit: Audit | None) -> Measured | None:
        """What an audit measured of it."""
        if audit is None:
            return None
        return audit.accuracy if self.costs is None else audit.cost

    def changed(self, found: Comparison | None) -> Measured | None:
        """The difference between two rules on the same rows."""
        if found is None:
            return None
        return found.accuracy if self.costs is None else found.cost
