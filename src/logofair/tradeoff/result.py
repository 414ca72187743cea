"""A frontier: every point of a grid of tolerances, the one to look at first, and all of it in words and as data."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from logofair.columns.checks import Floats, Label
from logofair.errors import InputError
from logofair.requirements import check_tolerance
from logofair.solvers.certificate import Certificate
from logofair.tradeoff.grid import Tolerances

__all__ = ["Frontier", "HeldOut", "Knee", "Point", "UnconstrainedRule", "find_knee", "looseness", "tolerance_text"]


@dataclass(frozen=True)
class HeldOut:
    """Accuracy and gaps counted with labels on rows that took no part in the fit; None where undefined.

    ``local_gap`` is that of the worst client, ``local_gap_client``; ``large_local_gap`` compares only rates that
    rest on 30 rows or more. ``..._rows`` are the rows behind the less supported of the two rates compared: a gap on
    a few rows is chance.
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

    ``certificate`` is that of the stored rule, ``loss`` what it loses against the unconstrained rule. ``local_gap`` and
    ``global_gap`` are its gaps in expectation, None where no two groups can be compared. ``local_price`` and
    ``global_price`` are the accuracy won at most per unit more of the local tolerance at all clients, or of the global
    one: on the calibration rows no point has more than ``certificate.dual + local_price * (more local tolerance) +
    global_price * (more global tolerance)``. ``held_out`` is what was measured on held-out rows.
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

    def summary(self) -> str:
        """Return one line for people: the tolerances, accuracy, and what they cost."""
        return (
            f"local {tolerance_text(self.local_tolerance)}, global {tolerance_text(self.global_tolerance)}: "
            f"accuracy {100 * self.accuracy:.2f} %, {100 * max(self.loss, 0.0):.2f} points lost"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, for a table or JSON; None where something is not constrained or undefined."""
        found: dict[str, Any] = {
            "local_tolerance": self.local_tolerance,
            "global_tolerance": self.global_tolerance,
            "accuracy": self.accuracy,
            "loss": self.loss,
            "bound": self.certificate.dual,
            "optimality_gap": self.certificate.optimality_gap,
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


def tolerance_text(tolerance: float | None) -> str:
    """A tolerance as people write it."""
    return "none" if tolerance is None else f"{tolerance:.4g}"


# Less than this between the strictest and the loosest point (0.1 percentage points) is nothing to trade.
_FLAT = 1e-3
# A lead below this is a straight line for all practical purposes.
_STRAIGHT = 0.05


@dataclass(frozen=True)
class Knee:
    """The knee point of the frontier, how far it leads (0: not at all, 1: everything for nothing), and a sentence.

    ``point`` is None where accuracy rises evenly with tolerance, so that no point stands out.

    Examples
    --------
    >>> from logofair.tradeoff import frontier
    >>> surface = frontier([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> print(surface.knee.sentence)
    Even the strictest point (global 0) costs nothing: there is nothing to trade.
    """

    point: Point | None
    lead: float
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        at = self.point
        return {
            "local_tolerance": None if at is None else at.local_tolerance,
            "global_tolerance": None if at is None else at.global_tolerance,
            "found": at is not None,
            "lead": self.lead,
            "sentence": self.sentence,
        }


def looseness(local: Tolerances, global_: Tolerances, gaps: tuple[float | None, float | None]) -> Floats:
    """How loose each point's tolerances are, (local, global); 0: the strictest, 1: nothing binds.

    ``gaps`` are the unconstrained rule's; a side with a single tolerance does not count.
    """
    sides = [_shares(each, gap) for each, gap in zip((local, global_), gaps, strict=True)]
    moving = [len(local) > 1, len(global_) > 1]
    total = moving[0] * sides[0][:, None] + moving[1] * sides[1][None, :]
    return np.asarray(total / max(sum(moving), 1))


def _shares(tolerances: Tolerances, gap: float | None) -> Floats:
    """How far each tolerance is from the first to where its side stops binding."""
    first = tolerances[0] if tolerances[0] is not None else np.inf
    stop = max([gap or 0.0, *(t for t in tolerances[:1] if t is not None)])
    if stop <= first:
        return np.array([0.0 if i == 0 else 1.0 for i in range(len(tolerances))])
    return np.array([1.0 if t is None else min((t - first) / (stop - first), 1.0) for t in tolerances])


def find_knee(points: Sequence[Point], loose: Floats) -> Knee:
    """The point whose accuracy is furthest ahead of its looseness (as in Kneedle; Satopaa et al., 2011).

    The strictest where nothing is lost, none where accuracy rises evenly.
    """
    accuracy = np.array([point.accuracy for point in points])
    strictest = points[0]
    rise, one_side = float(accuracy.max() - accuracy[0]), all(point.local_tolerance is None for point in points)
    if rise < _FLAT:
        cost = "nothing" if rise < 5e-6 else f"only {100 * rise:.3f} percentage points of accuracy"
        where = _tolerances(strictest, one_side)
        return Knee(strictest, 0.0, f"Even the strictest point ({where}) costs {cost}: there is nothing to trade.")
    lead = (accuracy - accuracy[0]) / rise - loose.ravel()
    best = int(np.argmax(lead))
    if lead[best] < _STRAIGHT:
        sentence = "Accuracy rises evenly with tolerance: no point of the grid stands out."
        return Knee(None, max(float(lead[best]), 0.0), sentence)
    regained = float((accuracy[best] - accuracy[0]) / rise)
    return Knee(points[best], float(lead[best]), _sentence(points[best], regained, one_side))


def _sentence(point: Point, regained: float, one_side: bool) -> str:
    return (
        f"The knee is at {_tolerances(point, one_side)}: accuracy {100 * point.accuracy:.2f} %, "
        f"{100 * max(point.loss, 0.0):.2f} points below the unconstrained rule; it has regained "
        f"{100 * regained:.0f} % of what the strictest point loses, and more tolerance wins less than it did so far."
    )


def _tolerances(point: Point, one_side: bool) -> str:
    local = "" if one_side else f"local {tolerance_text(point.local_tolerance)}, "
    return f"{local}global {tolerance_text(point.global_tolerance)}"


@dataclass(frozen=True)
class UnconstrainedRule:
    """The unconstrained rule: its expected accuracy and its gaps, None where no two groups can be compared.

    ``local_gap`` is that of ``local_gap_client``, whose smallest group that is compared has ``local_gap_rows`` rows;
    ``global_gap_rows`` are those of the smallest group over all clients.
    """

    accuracy: float
    local_gap: float | None
    local_gap_client: Label
    local_gap_rows: int | None
    global_gap: float | None
    global_gap_rows: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        client = None if self.local_gap_client is None else str(self.local_gap_client)
        return vars(self) | {"local_gap_client": client}


@dataclass(frozen=True, eq=False)
class Frontier:
    """What :func:`logofair.tradeoff.frontier` returns.

    Attributes
    ----------
    local_tolerances, global_tolerances : tuple of float or None
        The grid, strictest first; None: not constrained.
    points : tuple of Point
        One for every pair, the global tolerance running fastest.
    unconstrained : UnconstrainedRule
        That against which losses are counted.
    notions, groups, clients, basis, calibration
        As the frontier was asked for; the one client is None where there are none.
    rows, held_out_rows : int
        Rows the rules were fitted on, and others they were measured on.
    chosen : (float or None, float or None) or None
        The tolerances to be marked in figures.
    warnings : tuple of str
        Cells in which a requirement rests on few rows or none.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.tradeoff import frontier
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> surface = frontier(score, None, groups=sex, clients=site, calibration="none",
    ...                    local_tolerances=[0.05, None], global_tolerances=[0, 0.05, None])
    >>> surface.losses.round(3).tolist()
    [[0.014, 0.01, 0.01], [0.014, 0.01, 0.0]]
    >>> surface.at(0.05, None).certificate.holds
    True
    >>> print(surface.as_csv().splitlines()[1][:12])
    0.05,0.0,0.7
    """

    local_tolerances: Tolerances
    global_tolerances: Tolerances
    points: tuple[Point, ...]
    unconstrained: UnconstrainedRule
    notions: tuple[str, str]
    groups: tuple[Label, ...]
    clients: tuple[Label, ...]
    rows: int
    held_out_rows: int
    basis: str
    calibration: str
    chosen: tuple[float | None, float | None] | None
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        sizes = f"{len(self.local_tolerances)} x {len(self.global_tolerances)} points"
        return f"Frontier({sizes}, unconstrained accuracy={self.unconstrained.accuracy:.4f}, {self.rows:,} rows)"

    @property
    def has_clients(self) -> bool:
        """Whether there are clients, so that local and global differ."""
        return len(self.clients) > 1

    @property
    def table(self) -> list[dict[str, Any]]:
        """The plain values of every point."""
        return [point.as_dict() for point in self.points]

    @cached_property
    def accuracies(self) -> Floats:
        """Expected accuracy of every point, (local tolerances, global tolerances)."""
        return np.array([point.accuracy for point in self.points]).reshape(self._shape)

    @property
    def losses(self) -> Floats:
        """Accuracy lost against the unconstrained rule, (local tolerances, global tolerances)."""
        return np.array([point.loss for point in self.points]).reshape(self._shape)

    @cached_property
    def looseness(self) -> Floats:
        """How loose the tolerances of every point are, 0 to 1, likewise."""
        gaps = (self.unconstrained.local_gap, self.unconstrained.global_gap)
        return looseness(self.local_tolerances, self.global_tolerances, gaps)

    @cached_property
    def knee(self) -> Knee:
        """A hint at which point to look first."""
        return find_knee(self.points, self.looseness)

    def at(self, local_tolerance: float | None, global_tolerance: float | None) -> Point:
        """Return the point of the grid at two tolerances."""
        place = []
        for side, wanted, known in (
            ("local", local_tolerance, self.local_tolerances),
            ("global", global_tolerance, self.global_tolerances),
        ):
            if wanted not in known:
                listed = ", ".join(map(tolerance_text, known))
                raise InputError(f"{side}_tolerance: got {wanted!r}, which is not on the grid; it has {listed}.")
            place.append(known.index(wanted))
        return self.points[place[0] * len(self.global_tolerances) + place[1]]

    def best(self, accuracy_cost: float) -> Point | None:
        """Return the strictest point that loses at most this much accuracy against the unconstrained rule.

        Strictest: the least loose in the mean over both sides, and among equals the most accurate. None where every
        point of the grid loses more.
        """
        most = check_tolerance(accuracy_cost, "accuracy_cost")
        if most is None:
            raise InputError("accuracy_cost: got None; pass the accuracy that may be lost, such as 0.01.")
        # A certificate proves accuracy to 1e-6: a loss of less is none.
        affordable = [i for i, point in enumerate(self.points) if point.loss <= most + 1e-6]
        loose = self.looseness.ravel()
        found = min(affordable, key=lambda i: (loose[i], self.points[i].loss), default=None)
        return None if found is None else self.points[found]

    def as_csv(self) -> str:
        """Return the table as CSV; a tolerance that is not constrained is "none", an undefined figure empty."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.table[0]), lineterminator="\n")
        writer.writeheader()
        for row in self.table:
            sides = {side: row[side] for side in ("local_tolerance", "global_tolerance")}
            free = {side: "none" for side, tolerance in sides.items() if tolerance is None}
            writer.writerow(row | free)
        return text.getvalue()

    def summary(self) -> str:
        """Return the frontier in a few sentences for people."""
        base = self.unconstrained
        worst = 100 * max(float(self.losses.max()), 0.0)
        sides = (("local", base.local_gap), ("global", base.global_gap))
        gaps = ", ".join(f"{side} {gap:.4f}" for side, gap in sides if gap is not None)
        return "\n".join(
            [
                f"Unconstrained, the expected accuracy is {100 * base.accuracy:.2f} % on {self.rows:,} rows"
                f"{f' (largest gaps: {gaps})' if gaps else ''}.",
                f"Over {len(self.points)} pairs of tolerances the loss is at most {worst:.2f} points.",
                self.knee.sentence,
                *self.warnings,
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        chosen = None if self.chosen is None else dict(zip(("local", "global"), self.chosen, strict=True))
        return {
            "notion": dict(zip(("local", "global"), self.notions, strict=True)),
            "rows": self.rows,
            "held_out_rows": self.held_out_rows,
            "groups": list(map(str, self.groups)),
            "clients": len(self.clients),
            "basis": self.basis,
            "calibration": self.calibration,
            "unconstrained": self.unconstrained.as_dict(),
            "local_tolerances": list(self.local_tolerances),
            "global_tolerances": list(self.global_tolerances),
            "chosen": chosen,
            "knee": self.knee.as_dict(),
            "points": self.table,
            "warnings": list(self.warnings),
        }

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.local_tolerances), len(self.global_tolerances)
