"""One point of the frontier: what a pair of tolerances costs, proved on the calibration rows, measured on others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from logofair.inputs import Label
from logofair.solvers.certificate import Certificate

__all__ = ["HeldOut", "Point", "named"]


@dataclass(frozen=True)
class HeldOut:
    """Accuracy and gaps counted with labels on rows that took no part in the fit; None where undefined.

    ``local_gap`` is that of the worst client, ``local_gap_client``; ``large_local_gap`` leaves out the clients with a
    rate on fewer than 30 rows. ``..._rows`` are the rows behind the less supported of the two rates compared: a gap on
    a few rows is chance.

    Examples
    --------
    >>> HeldOut(rows=300, accuracy=0.8, local_gap=0.3, local_gap_client="north", local_gap_rows=7,
    ...         large_local_gap=0.04, large_local_gap_rows=41, global_gap=0.02, global_gap_rows=120).local_gap_rows
    7
    """

    rows: int
    accuracy: float | None
    local_gap: float | None
    local_gap_client: Label
    local_gap_rows: int | None
    large_local_gap: float | None
    large_local_gap_rows: int | None
    global_gap: float | None
    global_gap_rows: int | None


@dataclass(frozen=True, eq=False)
class Point:
    """A pair of tolerances (None: not constrained) and the best rule within them.

    Attributes
    ----------
    local_tolerance, global_tolerance : float or None
        The promise.
    certificate : Certificate
        Of the stored rule; ``certificate.primal`` is its expected accuracy.
    loss : float
        Expected accuracy of the unconstrained rule less that of this one.
    local_gap, global_gap : float or None
        The gaps of the rule in expectation, at most the tolerances; None where no two groups can be compared.
    local_price, global_price : float
        Accuracy won at most per unit more of the local tolerance at all clients, or of the global one: on the
        calibration rows no point has more than ``certificate.dual + local_price * (more local tolerance) +
        global_price * (more global tolerance)``.
    held_out : HeldOut or None
        What was measured on held-out rows, where some were kept back.

    Examples
    --------
    >>> from logofair.frontier import frontier
    >>> surface = frontier([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> surface.points[-1].loss
    0.0
    """

    local_tolerance: float | None
    global_tolerance: float | None
    certificate: Certificate
    loss: float
    local_gap: float | None
    global_gap: float | None
    local_price: float
    global_price: float
    held_out: HeldOut | None = None

    @property
    def accuracy(self) -> float:
        """Expected accuracy of the stored rule on the calibration rows."""
        return self.certificate.primal

    def record(self) -> dict[str, Any]:
        """Return plain values by name, for a table or JSON; None where something is not constrained or undefined."""
        found: dict[str, Any] = {
            "local_tolerance": self.local_tolerance,
            "global_tolerance": self.global_tolerance,
            "accuracy": self.accuracy,
            "loss": self.loss,
            "bound": self.certificate.dual,
            "certificate_gap": self.certificate.gap,
            "violation": self.certificate.violation,
            "local_gap": self.local_gap,
            "global_gap": self.global_gap,
            "local_price": self.local_price,
            "global_price": self.global_price,
        }
        if self.held_out is not None:
            found |= {f"held_out_{name}": value for name, value in asdict(self.held_out).items()}
            client = found["held_out_local_gap_client"]
            found["held_out_local_gap_client"] = None if client is None else str(client)
        return found


def named(tolerance: float | None) -> str:
    """A tolerance as people write it.

    Examples
    --------
    >>> named(0.05), named(None)
    ('0.05', 'none')
    """
    return "none" if tolerance is None else f"{tolerance:g}"
