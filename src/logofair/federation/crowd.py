"""Clients answering side by side; a real client is a crowd of one.

Given the prices of the global rates clients do not interact, so many of them can be solved in one vectorised pass: that
is what makes runs inside one process fast. Each client's numbers are the same whoever stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from logofair.cells import Cells, build_cells
from logofair.federation import messages as ask
from logofair.federation.answers import Answer, best_answer, measure, mixed_rules
from logofair.federation.chances import Chances, Workbench, prepare
from logofair.federation.memory import Memory
from logofair.federation.messages import Refusal
from logofair.federation.plan import Plan
from logofair.federation.rows import Columns, RefusedError, SiteRows, site_rows
from logofair.federation.sums import Answers, Noted, Settled, Steepness, Steps, Sums, Totals
from logofair.inputs import Floats, InputError
from logofair.mixtures import Mixtures, filled
from logofair.solvers.algorithm1 import Pairs
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.problem import Problem, Whole

__all__ = ["Crowd"]

# Prices are accuracy per unit of a rate: beyond this no tolerance is worth anything.
_LARGEST_PRICE = 1e9


@dataclass(frozen=True, eq=False)
class _Ready:
    """What follows from rows and memory: chances, cells, and the problem once the totals are known."""

    chances: tuple[Chances, ...]
    cells: Cells
    problem: Problem | None = None

    @cached_property
    def pairs(self) -> Pairs:
        assert self.problem is not None
        return Pairs(self.problem)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Rows of one client or several, and what they remember; every answer returns the next state.

    Examples
    --------
    >>> from logofair.federation.plan import make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none")
    >>> crowd = Crowd.of({"north": Columns(groups=["F", "M", "M"], scores=[0.5, 0.2, 0.75])}, plan)
    >>> crowd, sums = crowd.answer(ask.AskTotals())
    >>> sums.member(0).mass.tolist(), sums.member(0).positives.tolist()
    ([1.0, 2.0], [0.5, 0.95])
    """

    rows: tuple[SiteRows, ...]
    memory: Memory
    bench: Workbench
    ready: _Ready | None = None

    @classmethod
    def of(cls, columns: dict[str, Columns], plan: Plan) -> Crowd:
        """Check the columns of some sites against a plan; names in sorted order."""
        sites = tuple(sorted(columns))
        return cls.remembering([_named_rows(site, columns[site], plan) for site in sites], Memory(plan, sites))

    @classmethod
    def remembering(cls, rows: Sequence[SiteRows], memory: Memory) -> Crowd:
        """Rows and what was remembered of them, say in another process."""
        return cls(tuple(rows), memory, Workbench(tuple(rows), memory.plan, memory.sites))

    def answer(self, request: object) -> tuple[Crowd, Sums]:
        """Answer a request: the next state, and sums whose first axis counts the clients."""
        handlers: dict[type, Callable[[Any], tuple[Crowd, Sums]]] = {
            ask.AskMoments: self._from_bench,
            ask.AskUpdate: self._from_bench,
            ask.AskCounts: self._counts,
            ask.AskCurvature: self._from_bench,
            ask.AskTotals: self._totals,
            ask.AskAnswers: self._answers,
            ask.AskSteepness: self._steepness,
            ask.AskSteps: self._steps,
            ask.AskSettled: self._settled,
            ask.Publish: self._publish,
        }
        if type(request) not in handlers:
            raise RefusedError(Refusal.BAD_MESSAGE)
        return handlers[type(request)](request)

    def opened(self, roster: int) -> Crowd:
        """The state when a new roster begins."""
        ready = None if self.ready is None else replace(self.ready, problem=None)
        return replace(self, memory=self.memory.opened(roster), ready=ready)

    @property
    def problem(self) -> Problem:
        """The clients' part of the federation's problem; known once its totals are."""
        memory = self.memory
        ready = self._prepared()
        if ready.problem is None:
            if memory.mass is None or memory.positives is None:
                raise RefusedError(Refusal.OUT_OF_TURN)
            return _problem(ready.cells, memory)
        return ready.problem

    @property
    def chances(self) -> tuple[Chances, ...]:
        """Every client's rows as they count, with its calibrator."""
        return self._prepared().chances

    def _from_bench(self, request: Any) -> tuple[Crowd, Sums]:
        return self, self.bench.answer(request, self.memory)

    def _counts(self, request: ask.AskCounts) -> tuple[Crowd, Sums]:
        told = replace(self, memory=replace(self.memory, model=request.model), ready=None)
        return told, told.bench.answer(request, told.memory)

    def _totals(self, request: ask.AskTotals) -> tuple[Crowd, Sums]:
        memory = replace(self.memory, maps=request.maps, model=request.model or self.memory.model)
        memory = replace(memory, releases=self.bench.releases(memory))
        told = replace(self, memory=memory.opened(memory.roster), ready=None)
        ready = told._prepared()
        shape = (len(self.rows), len(memory.plan.groups))
        sums = Totals(mass=ready.cells.mass.reshape(shape), positives=ready.cells.positives.reshape(shape))
        return replace(told, ready=ready), sums

    def _prepared(self) -> _Ready:
        """Rows turned into chances and cells, once."""
        if self.ready is not None:
            return self.ready
        plan = self.memory.plan
        if plan.calibration != "none" and self.memory.maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        chances = prepare(self.bench, self.memory)
        ready = _Ready(chances, _cells(chances, len(plan.groups)))
        if self.memory.mass is not None:
            ready = replace(ready, problem=_problem(ready.cells, self.memory))
        return ready

    def _told(self, mass: Floats, positives: Floats) -> Crowd:
        """The state in which the totals of the roster are known."""
        memory, ready = self.memory, self._prepared()
        if memory.mass is not None and memory.positives is not None:
            if not (np.array_equal(memory.mass, mass) and np.array_equal(memory.positives, positives)):
                raise RefusedError(Refusal.OTHER_REQUEST)  # totals belong to a roster: they never change within it
            return replace(self, ready=ready)
        _check_totals(mass, positives, ready.cells)
        memory = replace(memory, mass=mass, positives=positives)
        return replace(self, memory=memory, ready=replace(ready, problem=_problem(ready.cells, memory)))

    def _answers(self, request: ask.AskAnswers) -> tuple[Crowd, Sums]:
        if not len(request.prices) or not np.all(np.abs(request.prices) <= _LARGEST_PRICE):
            raise RefusedError(Refusal.BAD_REQUEST)
        told = self._told(request.mass, request.positives)
        found = [told._best(prices) for prices in request.prices]
        gain, shares, bound = (np.stack([getattr(a, name) for a in found], 1) for name in ("gain", "shares", "bound"))
        memory = told.memory.answered(request.prices, np.stack([a.u for a in found]), np.stack([a.v for a in found]))
        return replace(told, memory=memory), Answers(gain=gain, shares=shares, bound=bound)

    def _best(self, prices: Floats) -> Answer:
        return best_answer(self.problem, prices)

    def _steepness(self, request: ask.AskSteepness) -> tuple[Crowd, Sums]:
        told = self._told(request.mass, request.positives)
        assert told.ready is not None
        return told, Steepness(constant=told.ready.pairs.steepness())

    def _steps(self, request: ask.AskSteps) -> tuple[Crowd, Sums]:
        told, settings = self._told(request.mass, request.positives), self.memory.plan.solver
        assert told.ready is not None
        pairs, own = told.ready.pairs, told.memory.own
        if settings is None or request.round != told.memory.steps + 1:
            raise RefusedError(Refusal.OUT_OF_TURN)
        own = pairs.zeros()[1] if own is None else own
        changes, own = pairs.descend(request.multipliers, own, settings, request.step, request.clients)
        memory = replace(told.memory, own=own, steps=request.round)
        return replace(told, memory=memory), Steps(change=changes)

    def _settled(self, request: ask.AskSettled) -> tuple[Crowd, Sums]:
        weights = request.weights
        if self.memory.result is not None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        if not (np.all(weights >= 0) and weights.sum() <= 1 + 1e-9 and len(weights) == len(request.prices) > 0):
            raise RefusedError(Refusal.BAD_REQUEST)
        told = replace(self, ready=self._prepared())
        problem = told.problem
        u, v = (np.stack(each) for each in zip(*map(told._stored, request.prices), strict=True))
        rules = filled(
            problem.cells,
            mixed_rules(problem, u, v, request.weights, selection_only=told.memory.plan.selection_only),
            None,
        )
        gain, shares, excess = measure(problem, rules)
        rounding = LARGEST_VIOLATION / float(np.min([1.0, *np.ravel(problem.local_units)]))
        sums = Settled(gain=gain[:, None], shares=shares, broken=(excess > rounding).astype(float)[:, None])
        broken = bool(np.any(~(excess <= rounding)))
        return replace(told, memory=replace(told.memory, rules=rules, broken=broken)), sums

    def _stored(self, prices: Floats) -> tuple[Floats, Floats]:
        """(u, v) of the answer given to some prices; the very one that was counted, if it is still there."""
        number = self.memory.find(prices)
        if number is None or self.memory.u is None or self.memory.v is None:
            answer = self._best(prices)
            return answer.u, answer.v
        return self.memory.u[number], self.memory.v[number]

    def _publish(self, request: ask.Publish) -> tuple[Crowd, Sums]:
        if self.memory.rules is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        if self.memory.broken:
            raise RefusedError(Refusal.NO_SOLUTION, "the rule does not keep this site's local promise; not stored.")
        if not isinstance(request.result, dict):
            raise RefusedError(Refusal.BAD_MESSAGE)
        return replace(self, memory=replace(self.memory, result=request.result)), Noted()

    def rules_of(self, number: int) -> Mixtures:
        """The stored rules of one client."""
        rules, groups = self.memory.rules, len(self.memory.plan.groups)
        assert rules is not None
        own = slice(number * groups, (number + 1) * groups)
        return Mixtures(rules.weight[own], rules.threshold[own], rules.above[own], rules.single[own])


def _named_rows(site: str, columns: Columns, plan: Plan) -> SiteRows:
    """A site's rows; what is wrong with them is said with its name, since all sites are in one process here."""
    try:
        return site_rows(columns, plan)
    except RefusedError as error:
        raise RefusedError(error.refusal, f"site {site!r}: {error}") from None
    except InputError as error:
        raise InputError(f"site {site!r}: {error}") from None


def _check_totals(mass: Floats, positives: Floats, cells: Cells) -> None:
    """A roster has at least the rows of these clients: refuse totals that say otherwise."""
    for whole, own in ((mass, cells.mass), (positives, cells.positives)):
        least = own.reshape(-1, cells.n_groups).sum(axis=0)
        if whole.shape != least.shape or not np.all((whole >= least * (1 - 1e-6) - 1e-6) & (whole <= 1e15)):
            raise RefusedError(Refusal.BAD_REQUEST)


def _problem(cells: Cells, memory: Memory) -> Problem:
    assert memory.mass is not None
    assert memory.positives is not None
    return memory.plan.promise(memory.sites).problem(cells, Whole(memory.mass, memory.positives))


def _cells(chances: Sequence[Chances], n_groups: int) -> Cells:
    """The rows of all clients in cells, ordered by what the stored policy compares with its thresholds."""
    client = np.repeat(np.arange(len(chances), dtype=np.int32), [each.groups.size for each in chances])
    plain = all(each.eta is each.calibrated for each in chances)
    weighted = any(each.weights is not None for each in chances)
    return build_cells(
        np.concatenate([each.calibrated for each in chances]),
        np.concatenate([each.groups for each in chances]),
        client,
        n_groups=n_groups,
        n_clients=len(chances),
        values=None if plain else np.concatenate([each.eta for each in chances]),
        weights=np.concatenate([each.weight for each in chances]) if weighted else None,
        rising=True,
    )
