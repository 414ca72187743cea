"""Generated populations: what a fit finds on them and on rows drawn from them is the optimum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import logofair
from logofair.datasets.generated import Population, make_population
from logofair.errors import InputError
from logofair.notions import NOTIONS, Notion, Rate
from logofair.solvers.joint import solve_joint
from support.oracles import spelled_out

BENEFIT = Notion("benefit", given=(Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))
GIVEN = {
    "demographic_parity": (None,),
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
    "equalized_odds": (1, 0),
}


def gaps(people: Population, acceptance: np.ndarray, notion: str) -> tuple[float, float]:
    """Largest local and the global gap of a rule, summed in plain loops over the table."""

    def rate(given: int | None, sites: list[int], group: int) -> float:
        accepted, everybody = [], []
        for c, k in itertools.product(sites, range(people.mass.shape[2])):
            chance = people.chance[c, group, k]
            weight = people.mass[c, group, k] * {None: 1.0, 1: chance, 0: 1.0 - chance}[given]
            accepted.append(weight * acceptance[c, group, k])
            everybody.append(weight)
        return math.fsum(accepted) / math.fsum(everybody)

    def gap(sites: list[int]) -> float:
        found = [[rate(given, sites, a) for a in range(people.mass.shape[1])] for given in GIVEN[notion]]
        return max(max(rates) - min(rates) for rates in found)

    every = list(range(people.mass.shape[0]))
    return max(gap([c]) for c in every), gap(every)


def optimum(people: Population, notion: object, local: float | None, global_: float | None) -> float:
    """The best accuracy of any rule within the tolerances, by a linear program over the whole table."""
    columns = people.columns()
    asked = {"notion": notion, "local_tolerance": local, "global_tolerance": global_}
    return spelled_out(columns.pop("scores"), columns | asked).best_rows()[0]


def test_the_best_rule_under_demographic_parity_is_the_one_computed_by_hand() -> None:
    # Both groups are half of all. By chances alone a accepts a fifth of its people and b three fifths. To accept
    # level 0 costs 0.6 a head, to reject level 1 costs 0.8: so a accepts half of its level 0 (0.4 of all) as well.
    # With a tolerance of 0.1 it accepts an eighth of its level 0 less.
    people = Population(mass=[[[0.4, 0.1], [0.2, 0.3]]], chance=[[[0.2, 0.9], [0.2, 0.9]]])  # type: ignore[arg-type]
    for tolerance, accepted in ((0.0, 0.5), (0.1, 0.375)):
        fitted = logofair.fit(
            labels=None, calibration="none", local_tolerance=tolerance, global_tolerance=None, **people.columns()
        )
        assert fitted.certificate.primal == pytest.approx(0.84 - 0.4 * accepted * 0.6, abs=1e-7)
        assert optimum(people, "demographic_parity", tolerance, None) == pytest.approx(fitted.certificate.primal)


@pytest.mark.parametrize("n_groups", [2, 3, 4])
@pytest.mark.parametrize("notion", [*NOTIONS, BENEFIT], ids=str)
@pytest.mark.parametrize(("local", "global_"), [(0.0, 0.0), (0.02, 0.02), (0.05, None), (None, 0.01), (0.2, 0.001)])
def test_the_solver_finds_the_optimum_of_the_population(
    n_groups: int, notion: str | Notion, local: float | None, global_: float | None
) -> None:
    people = make_population(4, n_groups, 7, rng=n_groups)
    best = optimum(people, notion, local, global_)
    fitted = logofair.fit(
        labels=None,
        calibration="none",
        pooling="none",
        notion=notion,
        local_tolerance=local,
        global_tolerance=global_,
        **people.columns(),  # type: ignore[arg-type]
    )
    certificate = fitted.certificate
    # At tolerance 0 a rule may leave it by rounding (violations up to 1e-9 count as none), which prices magnify.
    assert certificate.primal - 1e-9 <= best <= certificate.dual + 1e-10
    assert best - certificate.primal < 2e-7  # the gap at which the solver stops
    joint = solve_joint(fitted.problem)
    assert joint is not None
    assert fitted.problem.accuracy(joint.u, joint.v) == pytest.approx(best, abs=1e-9)


def test_sides_with_notions_of_their_own_agree_with_the_solver() -> None:
    people = make_population(3, 2, 6, rng=5)
    notion = {"local": "equalized_odds", "global": "demographic_parity"}
    alone = {"calibration": "none", "pooling": "none", "local_tolerance": 0.02, "global_tolerance": 0.02}
    fitted = logofair.fit(labels=None, notion=notion, **alone, **people.columns())  # type: ignore[arg-type]
    assert optimum(people, notion, 0.02, 0.02) == pytest.approx(fitted.certificate.primal, abs=1e-7)


def test_a_group_that_a_site_lacks_is_left_out_of_its_gap() -> None:
    mass = np.full((2, 2, 2), 0.125)
    mass[0, 1], mass[0, 0] = 0.0, 0.25
    people = Population(mass, np.tile([0.2, 0.9], (2, 2, 1)))
    fitted = logofair.fit(
        labels=None, calibration="none", local_tolerance=0.0, global_tolerance=None, **people.columns()
    )  # type: ignore[arg-type]
    assert fitted.certificate.primal == pytest.approx(0.85)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_a_fit_on_many_drawn_rows_comes_near_the_optimum_of_the_population(notion: str) -> None:
    people = make_population(4, 2, 8, rng=3)
    best = optimum(people, notion, 0.02, 0.02)
    assert optimum(people, notion, None, None) - best > 0.01  # else the tolerances would not matter
    rows = people.draw(200_000, rng=4)
    scores = people.scores(rows)
    fitted = logofair.fit(
        scores,
        rows.labels,
        sensitive_features=rows.sensitive,
        sites=rows.sites,
        notion=notion,
        calibration="none",
    )
    assert fitted.certificate.primal == pytest.approx(best, abs=4 * 0.5 / math.sqrt(200_000))
    # What was learnt on the rows, judged on the population itself:
    columns = people.columns()
    chance = fitted.policy.probabilities(
        columns["scores"], sensitive_features=columns["sensitive_features"], sites=columns["sites"]
    )
    acceptance = np.asarray(chance).reshape(people.mass.shape)
    accuracy = np.sum(people.mass * (1.0 - people.chance + acceptance * (2.0 * people.chance - 1.0)))
    assert accuracy == pytest.approx(best, abs=0.01)
    assert max(gaps(people, acceptance, notion)) < 0.02 + 0.04


def test_rows_are_drawn_with_the_shares_and_chances_of_the_population() -> None:
    people = make_population(3, 3, 4, rng=0)
    rows = people.draw(300_000, rng=1)
    codes = [np.unique(column, return_inverse=True)[1] for column in (rows.sites, rows.sensitive)]
    level = rows.features[:, 3:].argmax(axis=1)
    np.testing.assert_array_equal(rows.features[:, :3].argmax(axis=1), codes[1])
    np.testing.assert_array_equal(people.scores(rows), people.chance[codes[0], codes[1], level])
    counts, positives = np.zeros(people.mass.shape), np.zeros(people.mass.shape)
    np.add.at(counts, (*codes, level), 1)
    np.add.at(positives, (*codes, level), rows.labels)
    np.testing.assert_allclose(counts / len(rows), people.mass, atol=5 * 0.5 / math.sqrt(len(rows)))
    assert np.all(np.abs(positives - counts * people.chance) <= 5 * 0.5 * np.sqrt(counts))


def test_features_are_one_group_and_one_level_each() -> None:
    rows = make_population(2, 2, 3, rng=0).draw(50, rng=0)
    assert rows.feature_names == ("group=a", "group=b", "level=0", "level=1", "level=2")
    np.testing.assert_array_equal(rows.features.sum(axis=1), 2.0)
    assert rows.name == "generated"
    assert rows.known_harms


def test_the_same_seed_makes_the_same_population_and_the_same_rows() -> None:
    first, again, other = (
        make_population(3, rng=rng).draw(500, rng=rng) for rng in map(np.random.default_rng, (7, 7, 8))
    )
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert np.any(first.labels != other.labels)


def test_the_population_behind_generated_rows_can_be_made_again() -> None:
    rows = make_population(4, rng=2).draw(50_000, rng=3)
    scores = make_population(4, rng=2).scores(rows)
    assert abs(rows.labels.mean() - scores.mean()) < 5 * 0.5 / math.sqrt(50_000)
    for low in (0.1, 0.3, 0.5, 0.7):
        inside = (scores >= low) & (scores < low + 0.2)
        assert abs(rows.labels[inside].mean() - scores[inside].mean()) < 5 * 0.5 / math.sqrt(inside.sum())


def test_a_larger_difference_between_groups_costs_more_accuracy() -> None:
    prices = []
    for difference in (0.0, 2.0, 4.0):
        people = make_population(1, 2, 8, rng=0, alpha=1e6, difference=difference)
        free, fair = (optimum(people, "demographic_parity", tolerance, None) for tolerance in (None, 0.0))
        prices.append(free - fair)
    assert prices[0] < prices[1] < prices[2]


def test_groups_beyond_the_alphabet_have_names_of_their_own() -> None:
    people = make_population(1, 30, 1, rng=0)
    assert people.groups[:2] + people.groups[25:28] == ("a", "b", "z", "a1", "b1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": [[0.5, 0.5]]}, r"got mass of shape \(1, 2\) and chance of shape \(1, 2, 1\)"),
        ({"mass": [[[0.5], [0.4]]]}, "mass: the shares sum to 0.9; make them sum to 1"),
        ({"mass": [[[1.5], [-0.5]]]}, "mass: row 0 is 1.5, outside"),
        ({"chance": [[[0.5], [1.5]]]}, "chance: row 1 is 1.5, outside"),
        ({"chance": [[["x"], ["y"]]]}, "mass and chance must be arrays of numbers"),
        ({"chance": [[[0.5], [np.nan]]]}, "chance: row 1 is nan"),
    ],
)
def test_tables_that_are_no_population_are_refused(changes: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {"mass": [[[0.5], [0.5]]], "chance": [[[0.5], [0.6]]]}
    with pytest.raises(InputError, match=message):
        Population(**(fields | changes))  # type: ignore[arg-type]


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="n_groups: got 1; pass a whole number of at least 2"):
        make_population(2, 1, 3, rng=0)
    with pytest.raises(InputError, match="makes more than 100,000 entries"):
        make_population(1000, 10, 100, rng=0)
    with pytest.raises(InputError, match="alpha: got 0"):
        make_population(rng=0, alpha=0)


def test_scores_of_other_rows_are_refused() -> None:
    people = make_population(2, 2, 3, rng=0)
    with pytest.raises(InputError, match="was not drawn from this population"):
        people.scores(make_population(2, 2, 4, rng=0).draw(10, rng=0))
    with pytest.raises(InputError, match="sites or groups that are not of this population"):
        people.scores(make_population(20, 2, 3, rng=0).draw(100, rng=0))
