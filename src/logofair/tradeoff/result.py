"""A frontier: every point of a grid of tolerances, the one to look at first, and the rows rules are measured on."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from logofair.auditing import Audit, Comparison, Measured
from logofair.auditing.measure import Tally, tally_of
from logofair.auditing.result import measured_values
from logofair.auditing.rows import compared_audits
from logofair.calibration import Calibrator
from logofair.columns.cells import Cells, build_cells
from logofair.columns.checks import Floats, Label
from logofair.columns.segments import Indices
from logofair.costs import Costs
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.solution import FitWarning
from logofair.fitting.solving import CalibrationRows
from logofair.notions import Rate
from logofair.policy.info import PoolingInfo
from logofair.policy.mixtures import Mixtures, evaluate
from logofair.policy.policy import Policy
from logofair.records import Result
from logofair.reportable import Reportable
from logofair.requirements import check_tolerance
from logofair.solvers.certificate import Certificate

# Less than this between the strictest and the loosest point (0.1 percentage points) is nothing to trade.
_FLAT = 1e-3
# A lead below this is a straight line for all practical purposes.
_STRAIGHT = 0.05


Tolerance: TypeAlias = float | None
Tolerances: TypeAlias = tuple[Tolerance, ...]


def slack(tolerance: float, measure: str) -> float:
    """How far a tolerance is from parity: a gap as it is, of a ratio what it lacks to 1."""
    return 1.0 - tolerance if measure == "ratio" else tolerance


# ---------------------------------------------------------------- rows to measure on


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Checked rows and which rule each of their cells takes, ready to measure any rule of a frontier on them.

    ``places[cell]`` is the cell of the fit; beyond these stand the merged rules, one per group, which sites take
    that the fit does not know. ``fitted`` says that these very rows chose the rules, ``base`` is the audit of the
    unconstrained rule, whose noise floors serve all others.
    """

    rows: CalibrationRows
    calibrated: Floats
    places: Indices
    calibrator: Calibrator
    local_rates: tuple[Rate, ...]
    global_rates: tuple[Rate, ...]
    fitted: bool
    costs: Costs | None = None
    base: Audit | None = None

    @classmethod
    def of(
        cls,
        rows: CalibrationRows,
        known: tuple[Label, ...],
        calibrator: Calibrator,
        rates: tuple[tuple[Rate, ...], tuple[Rate, ...]],
        *,
        fitted: bool,
        costs: Costs | None = None,
    ) -> MeasuredRows:
        """Find the rules that rows take; ``known`` are the sites of the fit, whose costs others have on average."""
        number = {name: place for place, name in enumerate(known)}
        sites = np.array([number.get(name, -1) for name in rows.sites.names], dtype=np.int32)
        groups = np.arange(len(rows.groups.names))
        # A site that is not known takes its groups' merged rules, which stand behind those of all cells.
        places = np.where(sites < 0, len(known), sites)[:, None] * groups.size + groups
        codes = sites[rows.sites.codes]
        calibrated = rows.calibrated if fitted else calibrator(rows.scores, rows.groups.codes, codes)
        own = None if costs is None or rows.labels is None else costs.at(sites)
        return cls(rows, calibrated, places.ravel(), calibrator, *rates, fitted, own)

    @cached_property
    def cells(self) -> Cells:
        """The rows by cell and calibrated score, valued by label."""
        rows = self.rows
        return build_cells(
            self.calibrated,
            rows.groups.codes,
            rows.sites.codes,
            n_groups=len(rows.groups.names),
            n_sites=len(rows.sites.names),
            values=rows.labels,
            weights=rows.weights,
            rising=True,  # labels do not rise with the score, but no corner is looked for: no hull is needed
        )

    def audit(self, rule: Mixtures) -> Audit:
        """Accuracy, rates and gaps of a rule, in expectation over its coins."""
        rows, shape = self.rows, self.rows.shape
        mass = self.cells.mass.reshape(shape)
        u, v = (share.reshape(shape) for share in evaluate(self.cells, rule))
        v = np.zeros_like(v) if rows.labels is None else v
        tally = self._nobody.accepting(np.stack([(u - v) * mass, v * mass], axis=-1))
        names = (rows.groups.names, rows.sites.names)
        rates = (self.local_rates, self.global_rates)
        return Audit.of(tally, *names, *rates, like=self.base, fitted_rows=self.fitted, costs=self.costs)

    @cached_property
    def _nobody(self) -> Tally:
        """The tally of a rule that accepts nobody."""
        rows = self.rows
        return tally_of(np.zeros_like(rows.scores), rows.labels, rows.weights, rows.groups, rows.sites, rows.ids)

    def compare(self, first: Mixtures, second: Mixtures) -> Comparison:
        """The second rule less the first, row by row."""
        rows = self.rows
        names = (rows.groups.names, rows.sites.names)
        before, after = (
            Policy(*names, rule, self.calibrator, None, 0).chances(self.calibrated, rows.cells)
            for rule in (first, second)
        )
        columns = (rows.labels, rows.weights, rows.groups, rows.sites, rows.ids)
        return compared_audits(before, after, columns, self.local_rates, self.global_rates, self.costs)


# ---------------------------------------------------------------- points


@dataclass(frozen=True, eq=False)
class Point(Result):
    """A pair of tolerances (None: not constrained) and the best rule within them.

    ``certificate`` is that of the stored rule, ``loss`` what it loses against the unconstrained rule, in accuracy or in
    cost per person. ``local_gap`` and
    ``global_gap`` are its gaps in expectation, None where no two groups can be compared. ``local_price`` and
    ``global_price`` are the accuracy won at most per unit more of the local tolerance at all sites, or of the global
    one: on the calibration rows no point has more than ``certificate.dual + local_price * (more local tolerance) +
    global_price * (more global tolerance)``. With costs it is what is saved. Of a ratio it is what a
    little less wins, per unit: what is won is no concave function of a ratio. All these are expectations on the rows
    that chose the rule.

    ``measured`` counts with labels, on other rows where there are some: its ``fitted_rows`` says where there are none.
    ``rule`` is the stored rule of every cell of ``rows``, on which it is measured.

    Examples
    --------
    >>> import logofair
    >>> rows = {"sensitive_features": ["a", "b"] * 50, "labels": None, "calibration": "none"}
    >>> surface = logofair.frontier([0.1 + 0.008 * i for i in range(100)], **rows, global_tolerances=[0.0, None])
    >>> point = surface.at(None, 0.0)
    >>> point.certificate.holds, point.loss >= 0.0
    (True, True)
    """

    local_tolerance: Tolerance
    global_tolerance: Tolerance
    certificate: Certificate
    loss: float
    local_gap: float | None
    global_gap: float | None
    local_price: float
    global_price: float
    rule: Mixtures | None = field(default=None, repr=False)
    rows: MeasuredRows | None = field(default=None, repr=False)

    @cached_property
    def measured(self) -> Audit | None:
        """The rule on test rows or, for want of these, on the rows that chose it; None where neither can be measured.

        Its noise floors are those of the unconstrained rule on the same rows, on which they hardly depend.
        """
        return None if self.rows is None or self.rule is None else self.rows.audit(self.rule)

    @property
    def value(self) -> float:
        """Expected accuracy of the stored rule on the calibration rows, or its cost per person."""
        return self.certificate.primal

    def in_json(self) -> dict[str, Any]:
        """Return its figures; None where something is not constrained or undefined."""
        return {
            "local_tolerance": self.local_tolerance,
            "global_tolerance": self.global_tolerance,
            "measured": None if self.measured is None else measured_values(self.measured),
            self.certificate.objective: self.value,
            "loss": self.loss,
            "bound": self.certificate.dual,
            "optimality_gap": self.certificate.optimality_gap,
            "violation": self.certificate.violation,
            "local_gap": self.local_gap,
            "global_gap": self.global_gap,
            "local_price": self.local_price,
            "global_price": self.global_price,
        }


@dataclass(frozen=True, eq=False)
class InfeasiblePoint(Result):
    """A pair of tolerances that no rule meets together with what else is required; ``error`` is the proof."""

    local_tolerance: Tolerance
    global_tolerance: Tolerance
    error: InfeasibleError

    def in_json(self) -> dict[str, Any]:
        """Return the tolerances and the proof."""
        return {
            "local_tolerance": self.local_tolerance,
            "global_tolerance": self.global_tolerance,
            "infeasible": str(self.error),
            "least_relaxation": self.error.least_relaxation,
        }


@dataclass(frozen=True)
class Knee(Result):
    """The knee point of the frontier, and how far it leads (0: not at all, 1: everything for nothing).

    ``reason`` is "knee", or "flat" where no other point is much better than the strictest, which then is the point.
    There is no point where accuracy rises evenly with tolerance, so that none stands out ("even"), and where the rows
    cannot tell the points apart: their largest difference in accuracy, or all of their gaps, are within chance
    ("chance").

    Examples
    --------
    >>> from logofair.tradeoff import frontier
    >>> surface = frontier([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "b", "a", "b"], calibration="none")
    >>> surface.knee
    Knee(point=None, lead=0.0, reason='chance')
    """

    point: Point | None
    lead: float
    reason: Literal["knee", "flat", "even", "chance"] = "knee"

    def in_json(self) -> dict[str, Any]:
        """Return where it is, and why."""
        at = self.point
        return {
            "local_tolerance": None if at is None else at.local_tolerance,
            "global_tolerance": None if at is None else at.global_tolerance,
            "found": at is not None,
            "lead": self.lead,
            "reason": self.reason,
        }


def looseness_of(
    local: Tolerances, global_: Tolerances, stops: tuple[float | None, float | None], measure: str = "gap"
) -> Floats:
    """How loose each point's tolerances are, (local, global); 0: the strictest, 1: nothing binds.

    ``stops`` are the slacks from which on a side binds nothing: the unconstrained rule's gaps, or what its smallest
    ratio lacks to 1. A side with a single tolerance does not count.
    """
    sides = []
    for tolerances, stop in zip((local, global_), stops, strict=True):
        far = [np.inf if each is None else slack(each, measure) for each in tolerances]
        way = (stop or 0.0) - far[0]
        sides.append(np.array([min((each - far[0]) / way, 1.0) if way > 0 else float(each > far[0]) for each in far]))
    moving = [len(local) > 1, len(global_) > 1]
    total = moving[0] * sides[0][:, None] + moving[1] * sides[1][None, :]
    return np.asarray(total / max(sum(moving), 1))


def find_knee(points: Sequence[Point], loose: Floats, unit: float = 1.0) -> Knee:
    """The point whose accuracy is furthest ahead of its looseness (as in Kneedle; Satopaa et al., 2011).

    The strictest where nothing is won, none where accuracy rises evenly. With costs: what is saved; ``unit`` is then
    the cost of the dearest error. Where the strictest tolerances cannot be had, looseness counts from the first points
    that can.
    """
    loose = loose.ravel()
    loose = (loose - loose.min()) / (1.0 - float(loose.min()) or 1.0)
    won = np.array([points[0].loss - point.loss for point in points])
    rise = float(won.max())
    if rise < _FLAT * unit:
        return Knee(points[0], 0.0, "flat")
    lead = won / rise - loose
    best = int(np.argmax(lead))
    if lead[best] < _STRAIGHT:
        return Knee(None, max(float(lead[best]), 0.0), "even")
    return Knee(points[best], float(lead[best]))


@dataclass(frozen=True, eq=False)
class Frontier(Reportable):
    """What :func:`logofair.tradeoff.frontier` returns.

    Attributes
    ----------
    local_tolerances, global_tolerances : tuple of float or None
        The grid, strictest first; None: not constrained. ``measure`` says what it is of: "gap", or "ratio".
    every : tuple of Point and InfeasiblePoint
        One for every pair, the global tolerance running fastest: ``points`` are those that can be had, ``infeasible``
        those that no rule meets together with what else is required, each with its proof.
    held : mapping
        What holds at every point: sentences and costs.
    unconstrained : Point
        That against which losses are counted: no tolerance holds in it; what holds at every point does.
    stops : pair of float or None
        How far its rates are from parity, inside sites and over all: looser tolerances bind nothing.
    unit : float
        The scale of losses: 1 for accuracy, the larger cost of an error for costs.
    notions, groups, sites, basis, calibration
        As the frontier was asked for; the one site is None where there are none.
    pooling : PoolingInfo
        What cells borrow from other sites; expected accuracies are then about rows and prior together.
    rows, test_rows : int
        Rows the rules were fitted on, and others they were measured on (0: none, they are measured on the same).
    warnings : tuple of FitWarning
        Cells in which a requirement rests on few rows or none.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.tradeoff import frontier
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> surface = frontier(score, None, sensitive_features=sex, sites=site, calibration="none",
    ...                    local_tolerances=[0.05, None], global_tolerances=[0, 0.05, None])
    >>> [round(point.loss, 3) for point in surface.points]
    [0.014, 0.01, 0.01, 0.014, 0.01, 0.0]
    >>> surface.at(0.05, None).certificate.holds
    True
    >>> print(surface.as_csv().splitlines()[1][:16])
    gap,0.05,0.0,0.7
    """

    measure: str
    local_tolerances: Tolerances
    global_tolerances: Tolerances
    every: tuple[Point | InfeasiblePoint, ...]
    unconstrained: Point
    stops: tuple[float | None, float | None]
    unit: float
    notions: tuple[str, str]
    groups: tuple[Label, ...]
    sites: tuple[Label, ...]
    rows: int
    test_rows: int
    basis: str
    calibration: str
    pooling: PoolingInfo
    warnings: tuple[FitWarning, ...]
    held: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{len(self.local_tolerances)} x {len(self.global_tolerances)} points"
        base = f"unconstrained {self.objective}={self.unconstrained.value:.4f}"
        return f"Frontier({sizes}, {base}, {self.rows:,} rows)"

    @property
    def objective(self) -> str:
        """What is traded for fairness: ``"accuracy"``, or the ``"cost"`` per person."""
        return self.unconstrained.certificate.objective

    def measured(self, found: Audit | Comparison | None) -> Measured | None:
        """What was measured of the objective: of a rule, or of the difference between two on the same rows."""
        measured: Measured | None = None if found is None else getattr(found, self.objective)
        return measured

    @property
    def has_sites(self) -> bool:
        """Whether there are sites, so that local and global differ."""
        return len(self.sites) > 1

    @property
    def paired(self) -> bool:
        """Whether a point has two tolerances; without sites one says all, unless a local one was asked for too."""
        return self.has_sites or self.local_tolerances != (None,)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The pairs that can be had."""
        return tuple(point for point in self.every if isinstance(point, Point))

    @cached_property
    def infeasible(self) -> tuple[InfeasiblePoint, ...]:
        """The pairs that no rule meets."""
        return tuple(point for point in self.every if isinstance(point, InfeasiblePoint))

    @property
    def table(self) -> list[dict[str, Any]]:
        """The plain values of every pair, those that cannot be had too."""
        return [{"measure": self.measure} | point.as_dict() for point in self.every]

    def found(self, local: int, global_: int) -> Point | InfeasiblePoint:
        """Return the point at two places of the grid."""
        return self.every[local * len(self.global_tolerances) + global_]

    @cached_property
    def values(self) -> Floats:
        """Expected accuracy of every point, or cost per person, (local tolerances, global tolerances).

        NaN where no rule meets the requirements.
        """
        found = np.array([point.value if isinstance(point, Point) else np.nan for point in self.every])
        return found.reshape(len(self.local_tolerances), len(self.global_tolerances))

    @cached_property
    def looseness(self) -> Floats:
        """How loose the tolerances of the points are, 0 to 1."""
        every = looseness_of(self.local_tolerances, self.global_tolerances, self.stops, self.measure)
        return np.asarray(every[~np.isnan(self.values)])

    @cached_property
    def knee(self) -> Knee:
        """A hint at which point to look first; none where what was measured cannot tell the points apart."""
        return Knee(None, 0.0, "chance") if self._within_chance() else find_knee(self.points, self.looseness, self.unit)

    @cached_property
    def compared(self) -> Comparison | None:
        """The strictest and the loosest point on the same measured rows; None where these are one, or not measured."""
        first, last = self.points[0], self.points[-1]
        if first is last or last.rows is None or first.rule is None or last.rule is None:
            return None
        return last.rows.compare(first.rule, last.rule)

    def _within_chance(self) -> bool:
        """Whether no two points can be told apart by what was measured of them."""
        if self.compared is None:
            return False
        found = self.measured(self.compared)
        if found is not None and found.low is not None and found.high is not None and found.low <= 0 <= found.high:
            return True
        varied = [("local", self.local_tolerances), ("global_", self.global_tolerances)]
        names = [name for name, tolerances in varied if len(tolerances) > 1]
        for name in names:
            sides = [getattr(point.measured, name).headline for point in self.points]
            gaps = np.array([gap for audited in sides for gap in audited.gaps.ravel()])
            known = gaps[~np.isnan(gaps)]
            if not known.size or known.max() >= sides[0].floor.detectable:
                return False
        return bool(names)

    def at(self, local_tolerance: float | None, global_tolerance: float | None) -> Point:
        """Return the point of the grid at two tolerances; raise the proof where no rule meets the requirements."""
        local, global_ = (
            _place(side, wanted, known)
            for side, wanted, known in (
                ("local", local_tolerance, self.local_tolerances),
                ("global", global_tolerance, self.global_tolerances),
            )
        )
        point = self.found(local, global_)
        if isinstance(point, InfeasiblePoint):
            raise point.error
        return point

    def best(self, accuracy_cost: float) -> Point | None:
        """Return the strictest point that loses at most this much accuracy against the unconstrained rule, or cost.

        Strictest: the least loose in the mean over both sides, and among equals the most accurate. None where every
        point of the grid loses more.
        """
        most = check_tolerance(accuracy_cost, "accuracy_cost", of_shares=False)
        if most is None:
            raise InputError(f"accuracy_cost: got {most}; pass the accuracy that may be lost, such as 0.01.")
        # A certificate proves accuracy to 1e-6: a loss of less is none.
        pairs = zip(self.looseness.tolist(), self.points, strict=True)
        affordable = [pair for pair in pairs if pair[1].loss <= most + 1e-6 * self.unit]
        return min(affordable, key=lambda pair: (pair[0], pair[1].loss), default=(None, None))[1]

    def as_csv(self) -> str:
        """Return the table as CSV; a tolerance that is not constrained is "none", an undefined figure empty."""
        text, table = io.StringIO(), []
        for point in self.table:  # in one line; of what was measured, accuracy and gaps with what they rest on
            row = {name: value for name, value in point.items() if name not in ("measured", "least_relaxation")}
            for figure in ("accuracy", "cost", "local_gap", "global_gap"):
                for part, value in ((point.get("measured") or {}).get(figure) or {}).items():
                    row[f"measured_{figure}" if part == "value" else f"measured_{figure}_{part}"] = value
            sides = ("local_tolerance", "global_tolerance")
            table.append(row | {side: "none" for side in sides if row[side] is None})
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in table for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        return text.getvalue()

    def in_json(self) -> dict[str, Any]:
        """Return the grid with all its points, and what holds of it."""
        free = self.unconstrained.in_json()
        return {
            "notion": dict(zip(("local", "global"), self.notions, strict=True)),
            "rows": self.rows,
            "test_rows": self.test_rows,
            "groups": self.groups,
            "sites": len(self.sites),
            "basis": self.basis,
            "calibration": self.calibration,
            "pooling": self.pooling,
            "measure": self.measure,
            "objective": self.objective,
            "held": self.held,
            "unconstrained": {name: free[name] for name in (self.objective, "local_gap", "global_gap", "measured")},
            "local_tolerances": self.local_tolerances,
            "global_tolerances": self.global_tolerances,
            "knee": self.knee,
            "strictest_to_loosest": self.compared,
            "points": self.table,
            "warnings": self.warnings,
        }


def _place(side: str, wanted: Tolerance, known: Tolerances) -> int:
    if wanted not in known:
        every = ", ".join("none" if each is None else f"{each:.4g}" for each in known)
        raise InputError(f"{side}_tolerance: got {wanted!r}, which is not on the grid; it has {every}.")
    return known.index(wanted)
