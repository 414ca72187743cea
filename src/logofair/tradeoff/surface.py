"""The door of the frontier: check, calibrate and sort once, then solve every pair of tolerances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from logofair.columns.checks import Floats, Label, random_number
from logofair.columns.labels import Codes
from logofair.columns.segments import Booleans
from logofair.errors import InputError
from logofair.fitting.fit import certified
from logofair.fitting.prepare import CalibrationRows, Prepared, checked_rows, prepare
from logofair.fitting.warnings import cell_warnings
from logofair.notions import Notion, Rate, named_notion, sides
from logofair.policy.mixtures import Mixtures, evaluate, filled
from logofair.progress import Progress, no_progress
from logofair.requirements import Requirements, make_requirements
from logofair.solvers.certificate import Certificate
from logofair.solvers.problem import Problem, make_problem, spread
from logofair.tradeoff.grid import Grid, Tolerances
from logofair.tradeoff.held_out import HeldOutRows, keep_back
from logofair.tradeoff.result import Frontier, Point, UnconstrainedRule
from logofair.tradeoff.sweep import Sweep

__all__ = ["FrontierRequirements", "Progress", "Surface", "frontier"]


@dataclass(frozen=True, eq=False)
class FrontierRequirements:
    """What is fair inside each client and across all, and which clients have a tolerance of their own."""

    local: Notion
    global_: Notion
    client_tolerances: Mapping[Label, float | None]
    clients: Codes
    has_clients: bool

    @classmethod
    def of(
        cls, notion: object, client_tolerances: object, clients: Codes, *, has_clients: bool
    ) -> FrontierRequirements:
        """Check the notion and the tolerances of single clients."""
        both = sides(notion)
        if any(isinstance(side, Mapping) for side in both):
            raise InputError(
                "notion: a mapping to tolerances leaves nothing to vary; for several notions at once pass one Notion "
                "with the rates of all, such as Notion('both', given=(None, 1))."
            )
        local, global_ = (named_notion(side, "notion") for side in both)  # type: ignore[arg-type]  # no mapping
        single = {} if client_tolerances is None else client_tolerances
        question = cls(local, global_, single, clients, has_clients)  # type: ignore[arg-type]  # checked next
        question.requirements(0.0, 0.0)
        return question

    @property
    def alone(self) -> bool:
        """Whether there is one client only, so that local and global are the same."""
        return len(self.clients.names) == 1

    @property
    def own(self) -> Booleans:
        """Which clients have a tolerance of their own."""
        return np.array([name in self.client_tolerances for name in self.clients.names])

    def requirements(self, local: float | None, global_: float | None) -> Requirements:
        """The promise at a pair of tolerances."""
        notion = {"local": self.local, "global": self.global_}
        return make_requirements(notion, local, global_, self.client_tolerances, self.clients)


@dataclass(frozen=True, eq=False)
class Surface:
    """Calibrated rows in cells, and what to ask of them."""

    question: FrontierRequirements
    prepared: Prepared
    basis: str
    ruler: Problem
    base: UnconstrainedRule
    measure: HeldOutRows | None

    @classmethod
    def of(
        cls, question: FrontierRequirements, prepared: Prepared, basis: str, held: CalibrationRows | None
    ) -> Surface:
        """Measure the unconstrained rule, and order the rows kept back."""
        local, global_ = question.local.rates, question.global_.rates
        ruler = _ruler(prepared, local, global_, question.own)
        free = FrontierRequirements(question.local, question.global_, {}, question.clients, question.has_clients)
        mixtures, certificate, _ = certified(make_problem(free.requirements(None, None), prepared.cells), basis)
        base = _base(question, ruler, mixtures, certificate.primal)
        measure = None if held is None else HeldOutRows.of(held, prepared.fitted.calibrator, local, global_)
        return cls(question, prepared, basis, ruler, base, measure)

    def points(self, local: Tolerances, global_: Tolerances) -> Iterator[Point]:
        """Solve every pair: strictest local tolerance first, and at each the loosest global one first.

        In this order an earlier point's answers can be mixed at every later one.
        """
        sweep = Sweep()
        for inside in local:
            for across in reversed(global_):
                problem = make_problem(self.question.requirements(inside, across), self.prepared.cells)
                # A single client's promises are all local: there is no sweep at one local tolerance.
                solvers = () if self.question.alone else (sweep.solve,)
                mixtures, certificate, _ = certified(problem, self.basis, *solvers)
                yield self._point(inside, across, mixtures, certificate)
            sweep = sweep.looser()

    def _point(self, local: float | None, global_: float | None, mixtures: Mixtures, certificate: Certificate) -> Point:
        local_gap, global_gap = _gaps(self.ruler, mixtures)
        local_price, global_price = self._prices(local, global_, certificate)
        whole = filled(self.prepared.cells, mixtures, None)
        return Point(
            local_tolerance=local,
            global_tolerance=global_,
            certificate=certificate,
            loss=self.base.accuracy - certificate.primal,
            local_gap=local_gap,
            global_gap=global_gap,
            local_price=local_price,
            global_price=global_price,
            held_out=None if self.measure is None else self.measure(whole),
        )

    def _prices(self, local: float | None, global_: float | None, certificate: Certificate) -> tuple[float, float]:
        """What a unit more of either tolerance wins at most."""
        prices, own = certificate.prices, self.question.own
        if not self.question.alone:
            return float(prices.local[~own].sum()), float(prices.global_.sum())
        # A single client holds the smaller of the two tolerances of each rate: the price is that of the smaller.
        held = self.question.client_tolerances.get(self.question.clients.names[0], local)
        bounds = dict.fromkeys(self.question.local.rates, np.inf if held is None else held)
        across = dict.fromkeys(self.question.global_.rates, np.inf if global_ is None else global_)
        promised = [r.rate for r in self.question.requirements(local, global_).local if r.tolerance is not None]
        inside = np.array([bounds.get(rate, np.inf) < across.get(rate, np.inf) for rate in promised], dtype=bool)
        each = prices.local[0]
        return 0.0 if own[0] else float(each[inside].sum()), float(each[~inside].sum())


def _ruler(prepared: Prepared, local: tuple[Rate, ...], global_: tuple[Rate, ...], own: Booleans) -> Problem:
    """A problem in which every rate counts, except inside clients with a tolerance of their own."""
    inside, across = ([rate.normalised() for rate in basis] for basis in (local, global_))
    return Problem(
        cells=prepared.cells,
        local_rates=tuple(rate for rate, _ in inside),
        global_rates=tuple(rate for rate, _ in across),
        local_tolerance=np.where(own[:, None], np.inf, np.zeros((own.size, len(inside)))),
        global_tolerance=np.zeros(len(across)),
        local_units=np.array([unit for _, unit in inside]),
        global_units=np.array([unit for _, unit in across]),
    )


def _base(question: FrontierRequirements, ruler: Problem, mixtures: Mixtures, accuracy: float) -> UnconstrainedRule:
    """The unconstrained rule, with the rows its gaps rest on."""
    (local, global_), (local_gap, global_gap) = _every_gap(ruler, mixtures), _gaps(ruler, mixtures)
    rows = ruler.cells.rows.reshape(ruler.shape)
    client, rate = np.unravel_index(int(local.argmax()), local.shape)
    inside = rows[client, ruler.local_counts[client, :, rate]]
    across = rows.sum(axis=0)[ruler.global_counts[:, int(global_.argmax())]]
    return UnconstrainedRule(
        accuracy=accuracy,
        local_gap=local_gap,
        local_gap_client=None if local_gap is None else question.clients.names[client],
        local_gap_rows=None if local_gap is None else int(inside.min()),
        global_gap=global_gap,
        global_gap_rows=None if global_gap is None else int(across.min()),
    )


def _gaps(ruler: Problem, mixtures: Mixtures) -> tuple[float | None, float | None]:
    """Largest local and global gap of a rule in expectation; None where no two groups are compared."""
    local, global_ = _every_gap(ruler, mixtures)
    return _largest(local, ruler.local_counts), _largest(global_, ruler.global_counts)


def _every_gap(ruler: Problem, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """Gaps in expectation inside clients, (clients, local rates), and across them, (global rates,)."""
    u, v = (array.reshape(ruler.shape) for array in evaluate(ruler.cells, mixtures))
    local = spread(ruler.local_values(u, v), ruler.local_counts, axis=1) / ruler.local_units
    global_ = spread(ruler.global_shares(u, v), ruler.global_counts, axis=0) / ruler.global_units
    # A gap that is not compared is 0; just below, so that one of 0 that is compared is found before it.
    local = np.where(ruler.local_counts.any(axis=1), local, -1.0)
    return local, np.where(ruler.global_counts.any(axis=0), global_, -1.0)


def _largest(gaps: Floats, counts: Booleans) -> float | None:
    return float(np.max(gaps)) if counts.any() else None


T = TypeVar("T")


def frontier(
    scores: object,
    labels: object,
    *,
    groups: object,
    clients: object = None,
    notion: str | Notion | Mapping[str, str | Notion] = "demographic_parity",
    local_tolerances: Iterable[float | None] | None = None,
    global_tolerances: Iterable[float | None] | None = None,
    client_tolerances: Mapping[Label, float | None] | None = None,
    chosen: tuple[float | None, float | None] | None = None,
    calibration: str = "beta",
    basis: str = "eta",
    sample_weight: object = None,
    random_state: int | None = None,
    folds: int = 5,
    test_share: float | None = None,
    progress: Progress = no_progress,
) -> Frontier:
    """Find the best rule for every pair of a grid of local and global tolerances, from one calibration and one sort.

    Parameters
    ----------
    scores, labels, groups, clients, calibration, rates, sample_weight, random_state, folds
        As in :func:`logofair.fit`: every point is what ``fit`` would find at its tolerances.
    notion : str, Notion, or {"local": ..., "global": ...} of these
        What is fair. Not a mapping with tolerances, since these are what the grid varies.
    local_tolerances, global_tolerances : iterable of float or None, optional
        The grid; None inside it: not constrained. By default from 0 to the gap of the unconstrained rule, where a side
        stops binding, and None; without clients the global side alone.
    client_tolerances : mapping, optional
        Tolerances of single clients, which hold at every point.
    chosen : (float or None, float or None), optional
        A pair of tolerances to add to the grid and to mark in figures.
    test_share : float, optional
        Share of every cell's rows to keep back, on which accuracy and gaps are then measured with labels. What a small
        cell promises on its own rows says little about others.
    watch : callable, optional
        ``progress(steps, what, total)`` passes steps through and shows how many are done.

    Returns
    -------
    Frontier
        The points with their certificates, ``table``, ``knee``, ``best(accuracy_cost)``, ``as_csv()``, ``as_dict()``.

    Raises
    ------
    InputError
        If some argument cannot be used.
    SolverError
        If no rule with a valid certificate was found at some point.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.tradeoff import frontier
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> label = rng.random(3000) < score
    >>> surface = frontier(score, label, groups=sex, clients=site)
    >>> max(point.certificate.optimality_gap for point in surface.points) < 1e-6
    True
    >>> surface.best(accuracy_cost=0.01).loss <= 0.01
    True
    """
    rows = checked_rows(scores, labels, groups, clients, sample_weight, calibration, basis)
    seed = 0 if random_state is None else random_number(random_state)
    question = FrontierRequirements.of(notion, client_tolerances, rows.clients, has_clients=clients is not None)
    grid = Grid.of(local_tolerances, global_tolerances, chosen, alone=question.alone)
    held = None
    if test_share is not None:
        rows, held = keep_back(rows, _share(test_share, rows), np.random.default_rng([seed, 1]))
    (prepared,) = progress((prepare(rows, calibration, basis, folds, seed) for _ in range(1)), "Calibrating", 1)
    surface = Surface.of(question, prepared, basis, held)
    local, global_ = grid.filled(surface.base.local_gap, surface.base.global_gap)
    points = sorted(
        progress(surface.points(local, global_), "Solving", len(local) * len(global_)),
        key=lambda point: (local.index(point.local_tolerance), global_.index(point.global_tolerance)),
    )
    strictest = make_problem(question.requirements(local[0], global_[0]), prepared.cells)
    return Frontier(
        local_tolerances=local,
        global_tolerances=global_,
        points=tuple(points),
        base=surface.base,
        notions=(question.local.name, question.global_.name),
        groups=rows.groups.names,
        clients=rows.clients.names,
        rows=rows.scores.size,
        held_out_rows=0 if held is None else held.scores.size,
        basis=basis,
        calibration=calibration,
        chosen=grid.chosen,
        warnings=tuple(map(str, cell_warnings(strictest, prepared.rows, merged=False))),
    )


def _share(test_share: object, rows: CalibrationRows) -> float:
    """Check the share of rows to keep back."""
    if rows.labels is None:
        raise InputError("test_share: needs labels to measure with, but labels= is None; pass labels or leave it out.")
    number = isinstance(test_share, int | float | np.number) and not isinstance(test_share, bool)
    if not number or not 0.0 < float(test_share) < 1.0:  # type: ignore[arg-type]  # a number, as was just checked
        raise InputError(f"test_share: got {test_share!r}; pass a number between 0 and 1, such as 0.3.")
    return float(test_share)  # type: ignore[arg-type]
