"""What every bound says: an accuracy that is reached, and one that nothing exceeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["AccuracyBound"]


@dataclass(frozen=True, eq=False)
class AccuracyBound:
    """What every bound says.

    Attributes
    ----------
    accuracy : float
        That of the rule found, its coins counted by their chances.
    bound : float
        No rule of the kind is more accurate; at most 1e-6 above ``accuracy``.

    Examples
    --------
    >>> print(AccuracyBound(0.75, 0.75).summary())
    No rule has an accuracy above 0.7500; 0.7500 is reached.
    """

    accuracy: float
    bound: float
    _of: ClassVar[str] = "rule"  # what is bounded, in words

    @property
    def optimality_gap(self) -> float:
        """``bound - accuracy``: what could still be won; never above 1e-6."""
        return self.bound - self.accuracy

    def summary(self) -> str:
        """Return the bound in one sentence for people."""
        return f"No {self._of} has an accuracy above {self.bound:.4f}; {self.accuracy:.4f} is reached."

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"accuracy": self.accuracy, "bound": self.bound, "optimality_gap": self.optimality_gap}
