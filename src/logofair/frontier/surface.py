"""The value of every pair of tolerances on one set of calibrated, sorted rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from logofair.fitting import certified
from logofair.frontier.grid import Tolerances
from logofair.frontier.held_out import Measure
from logofair.frontier.point import Point
from logofair.frontier.result import Base
from logofair.frontier.sweep import Sweep
from logofair.inputs import Floats, InputError, Label
from logofair.labels import Codes
from logofair.mixtures import Mixtures, evaluate, filled
from logofair.notions import Notion, Rate, named_notion, sides
from logofair.preparing import Prepared
from logofair.promise import Promise, make_promise
from logofair.segments import Booleans
from logofair.solution import Rows
from logofair.solvers.certificate import Certificate
from logofair.solvers.problem import Problem, spread

__all__ = ["Question", "Surface"]


@dataclass(frozen=True, eq=False)
class Question:
    """What is fair inside each client and across all, and which clients have a tolerance of their own."""

    local: Notion
    shared: Notion
    client_tolerances: Mapping[Label, float | None]
    clients: Codes
    has_clients: bool

    @classmethod
    def of(cls, notion: object, client_tolerances: object, clients: Codes, *, has_clients: bool) -> Question:
        """Check the notion and the tolerances of single clients."""
        both = sides(notion)
        if any(isinstance(side, Mapping) for side in both):
            raise InputError(
                "notion: a mapping to tolerances leaves nothing to vary; for several notions at once pass one Notion "
                "with the rates of all, such as Notion('both', given=(None, 1))."
            )
        local, shared = (named_notion(side, "notion") for side in both)  # type: ignore[arg-type]  # no mapping
        single = {} if client_tolerances is None else client_tolerances
        question = cls(local, shared, single, clients, has_clients)  # type: ignore[arg-type]  # checked next
        question.promise(0.0, 0.0)
        return question

    @property
    def alone(self) -> bool:
        """Whether there is one client only, so that local and global are the same."""
        return len(self.clients.names) == 1

    @property
    def own(self) -> Booleans:
        """Which clients have a tolerance of their own."""
        return np.array([name in self.client_tolerances for name in self.clients.names])

    def promise(self, local: float | None, shared: float | None) -> Promise:
        """The promise at a pair of tolerances."""
        notion = {"local": self.local, "global": self.shared}
        return make_promise(notion, local, shared, self.client_tolerances, self.clients, self.has_clients)


@dataclass(frozen=True, eq=False)
class Surface:
    """Calibrated rows in cells, and what to ask of them."""

    question: Question
    prepared: Prepared
    basis: str
    ruler: Problem
    base: Base
    measure: Measure | None

    @classmethod
    def of(cls, question: Question, prepared: Prepared, basis: str, held: Rows | None) -> Surface:
        """Measure the unconstrained rule, and order the rows kept back."""
        local, shared = question.local.rates, question.shared.rates
        ruler = _ruler(prepared, local, shared, question.own)
        free = Question(question.local, question.shared, {}, question.clients, question.has_clients)
        mixtures, certificate, _ = certified(free.promise(None, None).problem(prepared.cells), basis)
        base = _base(question, ruler, mixtures, certificate.primal)
        measure = None if held is None else Measure.of(held, prepared.fitted.calibrator, local, shared)
        return cls(question, prepared, basis, ruler, base, measure)

    def points(self, local: Tolerances, shared: Tolerances) -> Iterator[Point]:
        """Solve every pair: strictest local tolerance first, and at each the loosest global one first.

        In this order an earlier point's answers can be mixed at every later one.
        """
        sweep = Sweep()
        for inside in local:
            for across in reversed(shared):
                problem = self.question.promise(inside, across).problem(self.prepared.cells)
                # A single client's promises are all local: there is no sweep at one local tolerance.
                solvers = () if self.question.alone else (sweep.solve,)
                mixtures, certificate, _ = certified(problem, self.basis, *solvers)
                yield self._point(inside, across, mixtures, certificate)
            sweep = sweep.looser()

    def _point(self, local: float | None, shared: float | None, mixtures: Mixtures, certificate: Certificate) -> Point:
        local_gap, global_gap = _gaps(self.ruler, mixtures)
        local_price, global_price = self._prices(local, shared, certificate)
        whole = filled(self.prepared.cells, mixtures, None)
        return Point(
            local_tolerance=local,
            global_tolerance=shared,
            certificate=certificate,
            loss=self.base.accuracy - certificate.primal,
            local_gap=local_gap,
            global_gap=global_gap,
            local_price=local_price,
            global_price=global_price,
            held_out=None if self.measure is None else self.measure(whole),
        )

    def _prices(self, local: float | None, shared: float | None, certificate: Certificate) -> tuple[float, float]:
        """What a unit more of either tolerance wins at most."""
        prices, own = certificate.prices, self.question.own
        if not self.question.alone:
            return float(prices.local[~own].sum()), float(prices.global_.sum())
        # A single client holds the smaller of the two tolerances of each rate: the price is that of the smaller.
        held = self.question.client_tolerances.get(self.question.clients.names[0], local)
        bounds = dict.fromkeys(self.question.local.rates, np.inf if held is None else held)
        across = dict.fromkeys(self.question.shared.rates, np.inf if shared is None else shared)
        promised = [r.rate for r in self.question.promise(local, shared).local if r.tolerance is not None]
        inside = np.array([bounds.get(rate, np.inf) < across.get(rate, np.inf) for rate in promised], dtype=bool)
        each = prices.local[0]
        return 0.0 if own[0] else float(each[inside].sum()), float(each[~inside].sum())


def _ruler(prepared: Prepared, local: tuple[Rate, ...], shared: tuple[Rate, ...], own: Booleans) -> Problem:
    """A problem in which every rate counts, except inside clients with a tolerance of their own."""
    inside, across = ([rate.normalised() for rate in rates] for rates in (local, shared))
    return Problem(
        cells=prepared.cells,
        local_rates=tuple(rate for rate, _ in inside),
        global_rates=tuple(rate for rate, _ in across),
        local_tolerance=np.where(own[:, None], np.inf, np.zeros((own.size, len(inside)))),
        global_tolerance=np.zeros(len(across)),
        local_units=np.array([unit for _, unit in inside]),
        global_units=np.array([unit for _, unit in across]),
    )


def _base(question: Question, ruler: Problem, mixtures: Mixtures, accuracy: float) -> Base:
    """The unconstrained rule, with the rows its gaps rest on."""
    (local, shared), (local_gap, global_gap) = _every_gap(ruler, mixtures), _gaps(ruler, mixtures)
    rows = ruler.cells.rows.reshape(ruler.shape)
    client, rate = np.unravel_index(int(local.argmax()), local.shape)
    inside = rows[client, ruler.local_counts[client, :, rate]]
    across = rows.sum(axis=0)[ruler.global_counts[:, int(shared.argmax())]]
    return Base(
        accuracy=accuracy,
        local_gap=local_gap,
        local_gap_client=None if local_gap is None else question.clients.names[client],
        local_gap_rows=None if local_gap is None else int(inside.min()),
        global_gap=global_gap,
        global_gap_rows=None if global_gap is None else int(across.min()),
    )


def _gaps(ruler: Problem, mixtures: Mixtures) -> tuple[float | None, float | None]:
    """Largest local and global gap of a rule in expectation; None where no two groups are compared."""
    local, shared = _every_gap(ruler, mixtures)
    return _largest(local, ruler.local_counts), _largest(shared, ruler.global_counts)


def _every_gap(ruler: Problem, mixtures: Mixtures) -> tuple[Floats, Floats]:
    """Gaps in expectation inside clients, (clients, local rates), and across them, (global rates,)."""
    u, v = (array.reshape(ruler.shape) for array in evaluate(ruler.cells, mixtures))
    local = spread(ruler.local_values(u, v), ruler.local_counts, axis=1) / ruler.local_units
    shared = spread(ruler.global_shares(u, v), ruler.global_counts, axis=0) / ruler.global_units
    # A gap that is not compared is 0; just below, so that one of 0 that is compared is found before it.
    local = np.where(ruler.local_counts.any(axis=1), local, -1.0)
    return local, np.where(ruler.global_counts.any(axis=0), shared, -1.0)


def _largest(gaps: Floats, counts: Booleans) -> float | None:
    return float(np.max(gaps)) if counts.any() else None
