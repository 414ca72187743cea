"""What a frontier trades for fairness: accuracy, or cost per person."""

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
    >>> accuracy.name, accuracy.loss(0.75, 0.875)
    ('accuracy', 0.125)
    >>> cost.name, cost.loss(0.75, 0.5), cost.unit
    ('cost', 0.25, 3.0)
    """

    costs: Costs | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return "accuracy" if self.costs is None else "cost"

    @property
    def unit(self) -> float:
        """The scale of differences: 1 for accuracy, the larger cost of an error for costs."""
        return 1.0 if self.costs is None else self.costs.largest

    def loss(self, value: float, base: float) -> float:
        """What a value is worse than another by."""
        return base - value if self.costs is None else value - base

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
