"""A frontier: every point of a grid of tolerances, the one to look at first, and all of it in words and as data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.result import FITTED_ROWS, NOT_TESTED
from logofair.columns.checks import Floats, Label
from logofair.errors import InputError
from logofair.fitting.solution import FitWarning
from logofair.policy.info import PoolingInfo
from logofair.policy.mixtures import Mixtures
from logofair.requirements import check_tolerance
from logofair.solvers.certificate import Certificate
from logofair.tradeoff.grid import Tolerances
from logofair.tradeoff.measured import MeasuredRows

__all__ = [
    "Frontier",
    "Knee",
    "Point",
    "UnconstrainedRule",
    "find_knee",
    "looseness",
    "measured_values",
    "tolerance_text",
]


@dataclass(frozen=True, eq=False)
class Point:
    """A pair of tolerances (None: not constrained) and the best rule within them.

    ``certificate`` is that of the stored rule, ``loss`` what it loses against the unconstrained rule. ``local_gap`` and
    ``global_gap`` are its gaps in expectation, None where no two groups can be compared. ``local_price`` and
    ``global_price`` are the accuracy won at most per unit more of the local tolerance at all clients, or of the global
    one: on the calibration rows no point has more than ``certificate.dual + local_price * (more local tolerance) +
    global_price * (more global tolerance)``. All these are expectations on the rows that chose the rule.

    ``measured`` counts with labels, on other rows where there are some: its ``fitted_rows`` says where there are none.
    ``rule`` is the stored rule of every cell of ``rows``, on which it is measured.

    Examples
    --------
    >>> import logofair
    >>> rows = {"groups": ["a", "b"] * 50, "labels": None, "calibration": "none"}
    >>> surface = logofair.frontier([0.1 + 0.008 * i for i in range(100)], **rows, global_tolerances=[0.0, None])
    >>> point = surface.at(None, 0.0)
    >>> point.certificate.holds, point.loss >= 0.0
    (True, True)
    """

    local_tolerance: float | None
    global_tolerance: float | None
    certificate: Certificate
    loss: float
    local_gap: float | None
    global_gap: float | None
    local_price: float
    global_price: float
    rule: Mixtures | None = None
    rows: MeasuredRows | None = None

    @cached_property
    def measured(self) -> Audit | None:
        """The rule on test rows or, for want of these, on the rows that chose it; None where neither can be measured.

        Its noise floors are those of the unconstrained rule on the same rows, on which they hardly depend.
        """
        return None if self.rows is None or self.rule is None else self.rows.audit(self.rule)

    @property
    def accuracy(self) -> float:
        """Expected accuracy of the stored rule on the calibration rows."""
        return self.certificate.primal

    def summary(self, *, paired: bool = True) -> str:
        """Return one line for people: the tolerances (one, where they are not paired), accuracy, and what they cost."""
        return (
            f"{_tolerances(self, not paired, paired)}: "
            f"expected accuracy {100 * self.accuracy:.2f} %, {100 * max(self.loss, 0.0):.2f} points lost"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, for a table or JSON; None where something is not constrained or undefined."""
        return {
            "local_tolerance": self.local_tolerance,
            "global_tolerance": self.global_tolerance,
            "measured": None if self.measured is None else measured_values(self.measured),
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


def measured_values(audit: Audit) -> dict[str, Any]:
    """An audit's rates, accuracy and the gaps told first as plain values."""
    rates = {
        rate: {str(group): None if found is None else found.as_dict() for group, found in row.items()}
        for rate, row in audit.rates.items()
    }
    return {
        "rates": rates,
        "accuracy": None if audit.accuracy is None else audit.accuracy.as_dict(),
        "local_gap": audit.headline_local.as_dict(),
        "global_gap": audit.headline_global.as_dict(),
    }


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

    ``point`` is None where accuracy rises evenly with tolerance, so that no point stands out, and where the rows cannot
    tell the points apart: their largest difference in accuracy, or all of their gaps, are within chance.

    Examples
    --------
    >>> from logofair.tradeoff import frontier
    >>> surface = frontier([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> print(surface.knee.sentence)
    Every point is within chance of the others (all gaps are below 1.0000, too small to see here): no knee is offered.
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


def find_knee(points: Sequence[Point], loose: Floats, *, paired: bool = True) -> Knee:
    """The point whose accuracy is furthest ahead of its looseness (as in Kneedle; Satopaa et al., 2011).

    The strictest where nothing is lost, none where accuracy rises evenly.
    """
    accuracy = np.array([point.accuracy for point in points])
    strictest = points[0]
    rise = float(accuracy.max() - accuracy[0])
    free = all(point.local_tolerance is None for point in points)
    if rise < _FLAT:
        cost = "nothing" if rise < 5e-6 else f"only {100 * rise:.3f} percentage points of accuracy"
        where = _tolerances(strictest, free, paired)
        return Knee(strictest, 0.0, f"Even the strictest point ({where}) costs {cost}: there is nothing to trade.")
    lead = (accuracy - accuracy[0]) / rise - loose.ravel()
    best = int(np.argmax(lead))
    if lead[best] < _STRAIGHT:
        sentence = "Accuracy rises evenly with tolerance: no point of the grid stands out."
        return Knee(None, max(float(lead[best]), 0.0), sentence)
    regained = float((accuracy[best] - accuracy[0]) / rise)
    words = _sentence(points[best], regained, _tolerances(points[best], free, paired))
    return Knee(points[best], float(lead[best]), words)


def _sentence(point: Point, regained: float, where: str) -> str:
    return (
        f"The knee is at {where}: expected accuracy {100 * point.accuracy:.2f} %, "
        f"{100 * max(point.loss, 0.0):.2f} points below the unconstrained rule; it has regained "
        f"{100 * regained:.0f} % of what the strictest point loses, and more tolerance wins less than it did so far."
    )


def _tolerances(point: Point, free: bool, paired: bool) -> str:
    """A point's tolerances in words; ``free`` says that no point requires anything inside clients."""
    local = "" if free else f"local {tolerance_text(point.local_tolerance)}, "
    return f"{local}{'global' if paired else 'tolerance'} {tolerance_text(point.global_tolerance)}"


@dataclass(frozen=True, eq=False)
class UnconstrainedRule:
    """The unconstrained rule: its expected accuracy and gaps (None where no two groups can be compared).

    ``measured`` is the same rule counted with labels, as :attr:`Point.measured` is.

    Examples
    --------
    >>> import logofair
    >>> rows = {"groups": ["a", "a", "b", "b"], "labels": None, "calibration": "none"}
    >>> surface = logofair.frontier([0.9, 0.8, 0.6, 0.2], **rows, global_tolerances=[0.0, None])
    >>> surface.unconstrained.global_gap
    0.5
    """

    accuracy: float
    local_gap: float | None
    global_gap: float | None
    measured: Audit | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return vars(self) | {"measured": None if self.measured is None else measured_values(self.measured)}


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
    pooling : PoolingInfo
        What cells borrow from other clients; expected accuracies are then about rows and prior together.
    rows, test_rows : int
        Rows the rules were fitted on, and others they were measured on (0: none, they are measured on the same).
    chosen : (float or None, float or None) or None
        The tolerances to be marked in figures.
    warnings : tuple of FitWarning
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
    test_rows: int
    basis: str
    calibration: str
    pooling: PoolingInfo
    chosen: tuple[float | None, float | None] | None
    warnings: tuple[FitWarning, ...]

    def __repr__(self) -> str:
        sizes = f"{len(self.local_tolerances)} x {len(self.global_tolerances)} points"
        return f"Frontier({sizes}, unconstrained accuracy={self.unconstrained.accuracy:.4f}, {self.rows:,} rows)"

    @property
    def has_clients(self) -> bool:
        """Whether there are clients, so that local and global differ."""
        return len(self.clients) > 1

    @property
    def paired(self) -> bool:
        """Whether a point has two tolerances; without clients one says all, unless a local one was asked for too."""
        return self.has_clients or self.local_tolerances != (None,)

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
        """A hint at which point to look first; none where what was measured cannot tell the points apart."""
        alike = self._alike()
        if alike:
            return Knee(None, 0.0, f"Every point is within chance of the others ({alike}): no knee is offered.")
        return find_knee(self.points, self.looseness, paired=self.paired)

    @cached_property
    def compared(self) -> Comparison | None:
        """The strictest and the loosest point on the same measured rows; None where these are one, or not measured."""
        first, last = self.points[0], self.points[-1]
        if first is last or last.rows is None or first.rule is None or last.rule is None:
            return None
        return last.rows.compare(first.rule, last.rule)

    @property
    def measured_on(self) -> str:
        """What the measured figures were measured on, in words."""
        if self.test_rows:
            return f"measured on {self.test_rows:,} rows that took no part in the fit"
        return f"{FITTED_ROWS}; {NOT_TESTED}"

    def _alike(self) -> str:
        """Why no two points can be told apart, in words; empty where some can."""
        compared = self.compared
        if compared is None:
            return ""
        found = compared.accuracy
        if found is not None and found.low is not None and found.high is not None and found.low <= 0 <= found.high:
            limits = f"95%: {found.low:+.4f} to {found.high:+.4f}"
            return f"accuracy of the loosest less that of the strictest: {found:+.4f}, {limits}"
        seen = [self._unseen(side) for side, moves in zip(("local", "global_"), self._moving, strict=True) if moves]
        return f"all gaps are below {max(seen):.4f}, too small to see here" if seen and all(seen) else ""

    @property
    def _moving(self) -> tuple[bool, bool]:
        return len(self.local_tolerances) > 1, len(self.global_tolerances) > 1

    def _unseen(self, side: str) -> float:
        """What gaps of a side must exceed to be seen, if none does; 0 where some does or nothing can be said."""
        sides = [getattr(point.measured, side).headline for point in self.points]
        gaps = np.array([gap for found in sides for gap in found.gaps.ravel()])
        known = gaps[~np.isnan(gaps)]
        detectable = sides[0].floor.detectable
        return float(detectable) if known.size and known.max() < detectable else 0.0

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
        table = [_flat(row) for row in self.table]
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in table for name in row)), lineterminator="\n")
        writer.writeheader()
        for row in table:
            sides = {side: row[side] for side in ("local_tolerance", "global_tolerance")}
            free = {side: "none" for side, tolerance in sides.items() if tolerance is None}
            writer.writerow(row | free)
        return text.getvalue()

    def summary(self, *, policy_tested: bool = False) -> str:
        """Return the frontier in a few sentences for people.

        ``policy_tested`` says that it stands beside figures of the chosen policy on other rows: what was not tested
        are then these points alone.
        """
        base = self.unconstrained
        worst = 100 * max(float(self.losses.max()), 0.0)
        sides = [("local ", base.local_gap), ("global ", base.global_gap)]
        sides = sides if self.paired else [("", base.global_gap)]
        found = [f"{side}{gap:.4f}" for side, gap in sides if gap is not None]
        gaps = f" (largest gap{'s' if self.paired else ''}: {', '.join(found)})" if found else ""
        each = "pairs of tolerances" if self.paired else "tolerances"
        return "\n".join(
            [
                f"Unconstrained, the expected accuracy is {100 * base.accuracy:.2f} % on {self.rows:,} calibration rows"
                f"{gaps}.",
                f"Over {len(self.points)} {each} the loss is at most {worst:.2f} points.",
                self.knee.sentence,
                *([self.pooling.summary()] if self.pooling.counted != "none" else []),
                *self._measured_sentences(policy_tested),
                *map(str, self.warnings),
            ]
        )

    def _measured_sentences(self, policy_tested: bool) -> Iterator[str]:
        """What points were measured on, and how the loosest differs from the strictest."""
        if self.points[0].rows is not None:
            points_alone = policy_tested and not self.test_rows
            words = f"these points were {FITTED_ROWS}" if points_alone else self.measured_on
            yield f"{words[0].upper()}{words[1:]}."
        if self.compared is not None:
            names = {"accuracy": "accuracy", "accepted": "accepted", "gap": "global_gap"}
            lines = [f"{word} {self.compared.sentence(name)}" for word, name in names.items()]
            if self.paired:
                lines = [" ".join(line.split()) for line in self.compared.summary().splitlines()]
            yield f"From the strictest to the loosest point: {'; '.join(lines)}."

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        chosen = None if self.chosen is None else dict(zip(("local", "global"), self.chosen, strict=True))
        return {
            "notion": dict(zip(("local", "global"), self.notions, strict=True)),
            "rows": self.rows,
            "test_rows": self.test_rows,
            "measured_on": self.measured_on,
            "groups": list(map(str, self.groups)),
            "clients": len(self.clients),
            "basis": self.basis,
            "calibration": self.calibration,
            "pooling": asdict(self.pooling),
            "unconstrained": self.unconstrained.as_dict(),
            "local_tolerances": list(self.local_tolerances),
            "global_tolerances": list(self.global_tolerances),
            "chosen": chosen,
            "knee": self.knee.as_dict(),
            "strictest_to_loosest": None if self.compared is None else self.compared.as_dict(),
            "points": self.table,
            "warnings": [warning.as_dict() for warning in self.warnings],
        }

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.local_tolerances), len(self.global_tolerances)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A point's values in one line: of what was measured, accuracy and gaps with what they rest on."""
    measured = row["measured"] or {}
    plain = {name: value for name, value in row.items() if name != "measured"}
    for figure in ("accuracy", "local_gap", "global_gap"):
        for part, value in (measured.get(figure) or {}).items():
            plain[f"measured_{figure}" if part == "value" else f"measured_{figure}_{part}"] = value
    return plain
