"""Rules that may not look: their optimum against a program over rows, in which rates count probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.costs import Costs
from logofair.errors import InfeasibleError
from logofair.requirement import read_requirements
from logofair.requirements import Requirements
from logofair.solvers.blind import BlindRows, solve_blind
from support.examples import examples
from support.oracles import NOBODY
from support.required import COUNTS, Required


@dataclass(frozen=True)
class Unseen(Required):
    """A random problem whose rates count everybody in a group by the probability of belonging to it."""

    probabilities: Any = None

    @classmethod
    def of(cls, required: Required, seed: int) -> Unseen:
        """Blur the groups of a problem: some rows are known for certain, some not at all."""
        rng = np.random.default_rng([seed, 1])
        sure = np.eye(int(required.groups.max()) + 1)[required.groups]
        vague = rng.dirichlet(np.ones(sure.shape[1]), size=len(sure))
        mixed = rng.choice([0.0, 0.5, 1.0], size=(len(sure), 1), p=[0.3, 0.5, 0.2])
        return cls(**vars(required), probabilities=mixed * sure + (1.0 - mixed) * vague)

    def _parts(self, item: Any = None) -> list[Any]:
        return np.unique(self.groups).tolist()

    def _people(self, population: Any) -> Any:
        return int(population[0]) if population else None

    def _rate(self, counts: str, inside: np.ndarray, people: Any) -> np.ndarray | None:
        constant, slope = COUNTS[counts]
        members = self.mass * inside * (1.0 if people is None else self.probabilities[:, people])
        each = members * (constant + slope * self.chances)
        return each / each.sum() if each.sum() > NOBODY * members.sum() else None

    def rows(self) -> BlindRows:
        order = np.argsort(self.sites, kind="stable")
        seen, chances = np.asfortranarray(self.probabilities[order]), self.chances[order]
        pairs = self.costs if isinstance(self.costs, dict) else dict.fromkeys(np.unique(self.sites), self.costs)
        costs = np.array([pair or (1.0, 1.0) for _, pair in sorted(pairs.items())])
        mass = self.mass[order] / self.mass.sum()
        return BlindRows(chances, seen, seen, chances, mass, self.sites[order], costs)

    def required(self) -> Requirements:
        sites, groups = tuple(np.unique(self.sites).tolist()), tuple(np.unique(self.groups).tolist())
        people = tuple(float(self.mass[self.sites == site].sum()) for site in sites)
        costs = None if self.costs is None else Costs.of([self.costs])
        return Requirements(read_requirements(self.items), sites, groups, costs, people)


def check(problem: Unseen) -> bool:
    """Solve a problem and compare with its program; whether it can be met."""
    rows, best = problem.rows(), problem.least_cost()
    try:
        found = solve_blind(problem.required(), rows)
    except InfeasibleError as error:
        few = set(error.conflict)
        assert best is None
        assert not problem.possible(few)
        assert all(problem.possible(few - {item}) for item in few)
        own = [item for item in problem.items if not item.is_loss and not item.scope.is_global]
        if few <= set(own) and any(item.is_loss_inside for item in problem.items):
            problem = replace(problem, items=own)  # sites cannot do what they require of themselves, whatever they lose
        for item, amount in error.least_relaxation.items():
            step = 2e-4 if item.measure in ("ratio", "precision") else 1e-5
            if amount is None:
                assert not problem.possible(problem.binding() - {item})
            else:
                assert problem.possible(problem.binding(), {item: amount + step})
                assert amount <= step or not problem.possible(problem.binding(), {item: amount - step})
        return False
    accepted = found.rules.chances(rows.chances, rows.site, rows.seen)
    given = np.empty_like(accepted)
    given[np.argsort(problem.sites, kind="stable")] = accepted
    cost = problem.cost(given)
    nobody = problem.cost(np.zeros(given.size))
    assert found.bound is not None
    assert problem.violation(given) <= 1e-8
    assert found.violation == pytest.approx(max(problem.violation(given), 0.0), abs=1e-9)
    assert nobody - found.gain == pytest.approx(cost, abs=1e-9 * problem.dearest)
    assert best is not None
    assert nobody - found.bound <= best + 1e-7 * problem.dearest
    assert cost <= best + 1e-6 * problem.dearest
    return True


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_the_optimum_is_that_of_a_program_over_rows(first):
    assert sum(check(Unseen.of(Required.drawn(seed), seed)) for seed in range(first, first + 10)) > 4


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_sentences_of_every_form_are_met_or_conflict_as_in_a_program_over_rows(first):
    assert 2 < sum(check(Unseen.of(Required.spoken(seed), seed)) for seed in range(first, first + 10)) < 10


@pytest.mark.parametrize("about", [7, 8], ids=["precision", "losses"])
def test_precision_is_required_and_losses_are_limited_as_in_a_program_over_rows(about):
    drawn = (Unseen.of(Required.spoken(seed, forms=9, about=about), seed) for seed in range(50, 62))
    assert 4 < sum(map(check, drawn)) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_problems_are_those_of_a_program_over_rows(first):
    drawn = (Required.drawn(seed) if seed % 2 else Required.spoken(seed, forms=9) for seed in range(first, first + 100))
    assert 30 < sum(check(Unseen.of(each, each_seed)) for each_seed, each in enumerate(drawn, first)) < 100


@examples(500, few=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_optimum_is_that_of_a_program_over_rows_whatever_is_said(seed):
    check(Unseen.of(Required.spoken(seed, forms=9), seed))
