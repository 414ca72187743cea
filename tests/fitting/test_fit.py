"""``logofair.fit``: its door, its invariances, and what it does when a solver fails."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import logofair
import support.sentences as asked
from logofair.errors import InputError, SolverError
from logofair.fitting import solving
from logofair.notions import NOTIONS
from logofair.solvers.algorithm1 import Algorithm1
from logofair.solvers.decomposition import solve_exact
from support.examples import examples
from support.oracles import EVERY_NOTION, USERS, Case, random_request, rates_of, spelled_out

modest = examples(25)
seeds = st.integers(0, 10**9)


def table(seed=0, rows=300, groups=2, sites=3):
    """Scores, labels and plain columns of a small federation."""
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, groups, rows), rng.integers(0, sites, rows)
    scores = np.round(rng.beta(1.0 + group, 1.5 + 0.3 * site), 4)
    labels = (rng.random(rows) < scores).astype(int)
    return (
        scores,
        labels,
        {"sensitive_features": np.array(list("FMXYZ"))[group], "sites": np.array([10, 20, 30, 40])[site]},
    )


def fit(scores, labels, columns, **options):
    return asked.fit(scores, labels, **{"calibration": "none", "pooling": "none", **columns, **options})


def chances(solution, scores, columns):
    return solution.policy.probabilities(scores, **columns)


# --- what it guarantees


@pytest.mark.parametrize("options", [{}, {"basis": "labels"}, {"calibration": "beta"}])
def test_merged_rules_asked_for_later_are_those_of_the_rows_as_they_were(options):
    scores, labels, columns = table()
    weights, labels = np.linspace(1, 2, scores.size), labels.astype(float)
    at_once, later = (fit(scores, labels, columns, sample_weight=weights, **options).policy for _ in range(2))
    expected = at_once.merged
    for column in (scores, labels, weights):
        column[:] = 1.0
    for name in ("weight", "threshold", "above", "single"):
        np.testing.assert_array_equal(getattr(later.merged, name), getattr(expected, name))


@pytest.mark.parametrize("calibration", ["beta", "platt", "isotonic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_chances_out_of_fold_asked_for_later_are_those_the_fit_counted_with(calibration, weighted):
    scores, labels, columns = table(seed=3)
    weights = np.random.default_rng(4).random(scores.size) if weighted else None
    options = {"calibration": calibration, "sample_weight": weights, "random_state": 0, "pooling": "none"}
    expected = fit(scores, labels, columns, **options).rows.calibration.chances()
    rows = fit(scores, labels, columns, **options).rows
    scores[:] = 0.5
    found = rows.calibration.chances()
    np.testing.assert_array_equal(found, expected)
    # Averaged over neighbours until they rise, they are what rows count with: the same sum in every cell.
    mass = np.ones(scores.size) if weights is None else weights
    sums = [
        np.bincount(rows.cells, mass * column) for column in (rows.calibration.order.in_input_order(found), rows.eta)
    ]
    np.testing.assert_allclose(*sums, rtol=1e-9)


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_tolerance_zero_gives_exact_parity_on_the_calibration_rows(notion):
    scores, _, columns = table(groups=3)
    options = {"notion": EVERY_NOTION[notion], "local_tolerance": 0, "global_tolerance": 0}
    solution = fit(scores, None, columns, **options)
    case = spelled_out(scores, {**columns, **options})
    gaps = case.gaps(chances(solution, scores, columns))
    assert len(gaps) == 4 * len(EVERY_NOTION[notion].rates)
    assert max(gap.value for gap in gaps) <= 1e-9


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("tolerance", [0.999999, None])
def test_loose_tolerances_give_back_score_at_least_one_half(notion, tolerance):
    scores, _, columns = table()
    solution = fit(scores, None, columns, notion=notion, local_tolerance=tolerance, global_tolerance=tolerance)
    np.testing.assert_array_equal(chances(solution, scores, columns), scores >= 0.5)


def test_with_calibration_the_accuracy_is_that_of_the_calibrated_chances():
    scores, labels, columns = table(rows=600)
    solution = fit(scores, labels, columns, calibration="beta", notion="equalized_odds")
    request = {**columns, "notion": "equalized_odds"}
    case = spelled_out(solution.rows.eta, request)
    assert solution.certificate.primal == pytest.approx(case.best_rows()[0], abs=1e-6)
    assert solution.certificate.holds


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_one_site_makes_local_and_global_the_same(notion):
    scores, _, columns = table(groups=3, sites=1)
    columns = {"sensitive_features": columns["sensitive_features"]}
    both = [(0.02, None), (None, 0.02), (0.02, 0.02), (0.02, 0.3), (0.3, 0.02)]
    found = [
        fit(scores, None, columns, notion=EVERY_NOTION[notion], local_tolerance=a, global_tolerance=b) for a, b in both
    ]
    for other in found[1:]:
        assert other.certificate.primal == pytest.approx(found[0].certificate.primal, abs=1e-6)
    one_name = {**columns, "sites": ["only"] * scores.size}
    named = fit(scores, None, one_name, notion=EVERY_NOTION[notion])
    assert named.certificate.primal == pytest.approx(found[0].certificate.primal, abs=1e-6)


@modest
@given(seeds)
def test_a_further_requirement_never_raises_accuracy(seed):
    request = random_request(np.random.default_rng(seed), rows=40)
    before = asked.fit(request.scores, None, **request.arguments)
    free = {"local_tolerance": None, "site_tolerances": None}
    looser = asked.fit(request.scores, None, **{**request.arguments, **free})
    assert before.certificate.primal <= looser.certificate.primal + 1e-6


@pytest.mark.parametrize("notion", NOTIONS)
def test_site_tolerances_replace_the_common_one_and_none_frees(notion):
    scores, _, columns = table(seed=3)
    options = {"notion": notion, "global_tolerance": None, "local_tolerance": 0.01}
    strict = fit(scores, None, columns, **options)
    mixed = fit(scores, None, columns, **options, site_tolerances={20: None, 30: 0.2})
    case = spelled_out(scores, {**columns, **options, "site_tolerances": {20: None, 30: 0.2}})
    assert np.isinf(case.local_tolerance[1]).all()
    assert mixed.certificate.primal == pytest.approx(case.best_rows()[0], abs=1e-6)
    assert mixed.certificate.primal > strict.certificate.primal + 1e-4
    here = columns["sites"] == 20
    np.testing.assert_array_equal(chances(mixed, scores, columns)[here], scores[here] >= 0.5)


@pytest.mark.parametrize("notion", NOTIONS)
def test_rates_from_labels_meet_the_requirements_in_labels(notion):
    scores, labels, columns = table(seed=5, rows=400)
    options = {"notion": notion, "local_tolerance": 0.05, "global_tolerance": 0.01}
    solution = fit(scores, labels, columns, basis="labels", **options)
    case = replace(spelled_out(scores, {**columns, **options}), labels=labels.astype(float))
    chance = chances(solution, scores, columns)
    assert solution.certificate.basis == "labels"
    assert solution.certificate.primal == pytest.approx(case.accuracy(chance), abs=1e-9)
    assert case.violation(chance) <= 1e-9


@modest
@given(seeds, st.sampled_from(list(NOTIONS)))
def test_the_oracle_is_never_below_a_policy_at_its_own_gaps(seed, notion):
    scores, labels, columns = table(seed, rows=60)
    policy = fit(scores, None, columns, notion=notion, local_tolerance=0.1, global_tolerance=0.05)
    chance = chances(policy, scores, columns)
    tight = {"notion": notion, "local_tolerance": 0.0, "global_tolerance": 0.0}
    by_labels = replace(spelled_out(scores, {**columns, **tight}), labels=labels.astype(float))
    local, global_ = by_labels.local_tolerance.copy(), by_labels.global_tolerance.copy()
    for gap in by_labels.gaps(chance):  # its own gaps, measured with labels, become the tolerances
        place = by_labels.local_rates.index(gap.rate)
        if gap.site is None:
            global_[place] = gap.value
        else:
            local[gap.site, place] = gap.value
    case = replace(by_labels, local_tolerance=local, global_tolerance=global_)
    problem = case.problem()
    oracle = solve_exact(problem) or solving.solve_joint(problem)
    assert problem.accuracy(oracle.u, oracle.v) >= case.accuracy(chance) - 1e-6


# --- what does not matter


@modest
@given(seeds, st.sampled_from(list(NOTIONS)))
def test_the_order_of_the_rows_does_not_matter(seed, notion):
    scores, _, columns = table(seed, rows=80)
    order = np.random.default_rng(seed).permutation(scores.size)
    shuffled = {name: values[order] for name, values in columns.items()}
    one, other = fit(scores, None, columns, notion=notion), fit(scores[order], None, shuffled, notion=notion)
    assert one.certificate.primal == other.certificate.primal
    np.testing.assert_array_equal(chances(one, scores, columns)[order], chances(other, scores[order], shuffled))


@modest
@given(seeds, st.sampled_from(list(NOTIONS)))
def test_the_names_of_groups_and_sites_do_not_matter(seed, notion):
    scores, _, columns = table(seed, rows=80, groups=3)
    renamed = {
        "sensitive_features": np.array(
            [{"F": "zeta", "M": "alpha", "X": "mu"}[g] for g in columns["sensitive_features"]]
        ),
        "sites": np.array([{10: "c", 20: "a", 30: "b"}[c] for c in columns["sites"]]),
    }
    one, other = fit(scores, None, columns, notion=notion), fit(scores, None, renamed, notion=notion)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-6)
    assert other.certificate.holds


def test_the_names_of_groups_and_sites_do_not_matter_to_parity_decisions():
    for seed in range(5):
        scores, _, columns = table(seed, rows=200)
        scores = np.random.default_rng(seed).beta(
            1.0 + (columns["sensitive_features"] == "M"), 2.0
        )  # no ties: one optimum
        renamed = {
            "sensitive_features": np.where(columns["sensitive_features"] == "F", "z", "a"),
            "sites": np.array([{10: "c", 20: "a", 30: "b"}[c] for c in columns["sites"]]),
        }
        one, other = fit(scores, None, columns), fit(scores, None, renamed)
        np.testing.assert_allclose(chances(one, scores, columns), chances(other, scores, renamed), atol=1e-6)


@pytest.mark.parametrize("calibration", ["none", "platt"])
def test_arrays_lists_and_frames_give_the_same_result(calibration):
    scores, labels, columns = table()
    every = {"scores": scores, "labels": labels, **columns, "weight": np.arange(scores.size) % 3 + 1.0}
    kinds = {
        "array": every,
        "list": {name: values.tolist() for name, values in every.items()},
        "pandas": pd.DataFrame(every),
        "polars": pl.DataFrame(every),
        "categorical": {**every, "sensitive_features": pd.Categorical(every["sensitive_features"])},
        "bool labels": {**every, "labels": labels == 1},
        "column": {**every, "scores": scores.reshape(-1, 1)},
    }
    found = {}
    for kind, frame in kinds.items():
        found[kind] = asked.fit(
            frame["scores"],
            frame["labels"],
            sensitive_features=frame["sensitive_features"],
            sites=frame["sites"],
            sample_weight=frame["weight"],
            calibration=calibration,
        )
    expected = found["array"]
    for kind, solution in found.items():
        assert solution.certificate.primal == expected.certificate.primal, kind
        assert solution.policy.sites == (10, 20, 30), kind
        np.testing.assert_array_equal(solution.policy.mixtures.threshold, expected.policy.mixtures.threshold)


@pytest.mark.parametrize("calibration", ["none", "beta", "isotonic"])
def test_the_same_call_gives_the_same_policy(calibration):
    scores, labels, columns = table()
    one, other = (fit(scores, labels, columns, calibration=calibration, random_state=4) for _ in range(2))
    assert one.certificate.primal == other.certificate.primal
    np.testing.assert_array_equal(one.policy.mixtures.weight, other.policy.mixtures.weight)
    np.testing.assert_array_equal(one.policy.mixtures.threshold, other.policy.mixtures.threshold)


def test_the_seed_deals_the_folds():
    scores, labels, columns = table()
    etas = [fit(scores, labels, columns, calibration="platt", random_state=seed).rows.eta for seed in (None, 0, 1)]
    np.testing.assert_array_equal(etas[0], etas[1])
    assert np.any(etas[0] != etas[2])


def test_ten_policies_fitted_without_a_seed_do_not_reject_the_same_people():
    # Two rows of one score, of which one half is wanted: everybody in group b is accepted with chance one half.
    options = {
        "sensitive_features": ["a", "a", "b", "b"],
        "local_tolerance": 0,
        "global_tolerance": 0,
        "calibration": "none",
    }
    policies = [asked.fit([0.9, 0.1, 0.6, 0.6], None, **options).policy for _ in range(10)]
    assert len({policy.key for policy in policies}) == 10
    rows = {"scores": [0.6] * 2000, "sensitive_features": ["b"] * 2000, "ids": np.arange(2000)}
    assert policies[0].probabilities([0.6], sensitive_features=["b"]).tolist() == [0.5]
    accepted = sum(policy.decide(**rows) for policy in policies)
    assert np.mean(accepted == 0) < 0.01  # not one half
    again = [asked.fit([0.9, 0.1, 0.6, 0.6], None, **options, random_state=6).policy for _ in range(2)]
    np.testing.assert_array_equal(*(policy.decide(**rows) for policy in again))


def test_inputs_are_left_as_they_were():
    scores, labels, columns = table()
    weight = np.random.default_rng(0).random(scores.size) * 1e200
    given_ = [scores, labels, columns["sensitive_features"], columns["sites"], weight]
    before = [array.copy() for array in given_]
    tolerances = {10: 0.1}
    for array in given_:
        array.flags.writeable = False
    for basis in ("eta", "labels"):
        options = {"sample_weight": weight, "site_tolerances": tolerances, "basis": basis, "calibration": "isotonic"}
        fit(scores, labels, columns, **options)
    for array, copy in zip(given_, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert tolerances == {10: 0.1}


def test_a_weight_counts_as_that_many_rows():
    scores, _, columns = table(rows=60)
    weight = np.arange(60) % 4
    again = np.repeat(np.arange(60), weight)
    repeated = {name: values[again] for name, values in columns.items()}
    heavy = fit(scores, None, columns, sample_weight=weight, notion="equalized_odds")
    many = fit(scores[again], None, repeated, notion="equalized_odds")
    assert heavy.certificate.primal == pytest.approx(many.certificate.primal, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-310, 1e-150, 1e150, 1e300])
def test_the_scale_of_the_weights_does_not_matter(scale):
    scores, _, columns = table(rows=60)
    weight = 1.0 + np.arange(60) % 4
    one, other = (fit(scores, None, columns, sample_weight=w * weight) for w in (1.0, scale))
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-6)


# --- when a solver fails


def no_optimum(problem):
    """A solver that gives up."""


def unfair(problem):
    """A solver that ignores the requirements and proves it with honest multipliers."""
    right = solve_exact(problem)
    every = np.arange(problem.mass.size)
    _, u, v = problem.cells.best_corner(every, np.full(every.size, 2.0), np.full(every.size, -1.0))
    return replace(right, u=u.reshape(problem.shape), v=v.reshape(problem.shape))


def wasteful(problem):
    """A solver that rejects everybody: fair, and far from the optimum."""
    right = solve_exact(problem)
    return replace(right, u=np.zeros(problem.shape), v=np.zeros(problem.shape))


def unproven(problem):
    """A solver with the right rule and multipliers that prove nothing."""
    right = solve_exact(problem)
    spoilt = 50.0 * np.sign(np.arange(problem.shape[1]) - 0.5)[None, :, None]
    return replace(right, local_prices=right.local_prices + spoilt)


@pytest.mark.parametrize("broken", [no_optimum, unfair, wasteful, unproven])
@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_a_failed_solve_falls_back_to_one_that_holds(broken, notion, monkeypatch):
    scores, _, columns = table(seed=1)
    expected = fit(scores, None, columns, notion=notion)
    monkeypatch.setattr(solving, "solve_exact", broken)
    solution = fit(scores, None, columns, notion=notion)
    assert (expected.solver, solution.solver) == ("exact", "joint")
    assert solution.certificate.holds
    assert solution.certificate.primal == pytest.approx(expected.certificate.primal, abs=1e-6)
    case = spelled_out(scores, {**columns, "notion": notion})
    assert case.violation(chances(solution, scores, columns)) <= 1e-9


@pytest.mark.parametrize("first", [no_optimum, unfair, wasteful, unproven])
@pytest.mark.parametrize("second", [no_optimum, unfair, wasteful, unproven])
def test_where_nothing_holds_an_error_is_raised_and_nothing_returned(first, second, monkeypatch):
    scores, _, columns = table(seed=1)
    monkeypatch.setattr(solving, "solve_exact", first)
    monkeypatch.setattr(solving, "solve_joint", second)
    with pytest.raises(SolverError, match="no policy with a valid certificate was found, so none is returned"):
        fit(scores, None, columns)


# --- the door

GOOD = {
    "scores": [0.1, 0.4, 0.6, 0.9, 0.3, 0.7],
    "labels": [0, 0, 1, 1, 0, 1],
    "sensitive_features": list("ababab"),
    "sites": list("xxyyxy"),
}


def call(**changes):
    arguments = {**GOOD, "calibration": "none", **changes}
    return logofair.fit(arguments.pop("scores"), arguments.pop("labels"), **arguments)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": [0, 1]}, "labels: has 2 rows, but the first column has 6; pass one value per row"),
        ({"sensitive_features": ["a", "b"]}, "sensitive_features: has 2 rows, but the first column has 6"),
        ({"sites": ["x"] * 7}, "sites: has 7 rows, but the first column has 6"),
        ({"sample_weight": [1.0]}, "sample_weight: has 1 rows, but the first column has 6"),
        ({"scores": [0.1, 0.4, math.nan, 0.9, 0.3, 0.7]}, "scores: row 2 is nan; every value must be a finite number"),
        ({"scores": [0.1, 0.4, math.inf, 0.9, 0.3, 0.7]}, "scores: row 2 is inf; every value must be a finite number"),
        ({"scores": [0.1, 0.4, None, 0.9, 0.3, 0.7]}, "scores: row 2 is nan"),
        ({"scores": [0.1, 0.4, 1.5, 0.9, 0.3, 0.7]}, r"scores: row 2 is 1.5, outside \[0, 1\]"),
        ({"scores": [0.1, -0.4, 0.5, 0.9, 0.3, 0.7]}, r"scores: row 1 is -0.4, outside \[0, 1\].*sigmoid"),
        ({"scores": [10, 40, 60, 90, 30, 70]}, "scores: row 0 is 10.*divide percentages by 100"),
        ({"scores": ["high"] * 6}, "scores: row 0 is 'high'; expected numbers"),
        ({"scores": None}, "scores: got None; pass one value per row"),
        ({"scores": np.zeros((6, 2))}, "scores: expected one value per row, got an array of shape"),
        ({"scores": [], "labels": [], "sensitive_features": [], "sites": []}, "scores: no rows; pass at least one"),
        ({"labels": [0, 0, 2, 1, 0, 1]}, "labels: row 2 is 2; expected 0 and 1"),
        ({"labels": [0, 0, math.nan, 1, 0, 1]}, "labels: row 2 is nan; expected 0 and 1"),
        ({"labels": ["no", "no", "yes", "yes", "no", "yes"]}, "labels: row 0 is 'no'; expected 0 and 1"),
        (
            {"labels": None, "calibration": "beta"},
            "labels: missing, but calibration='beta' with basis='eta' needs them",
        ),
        ({"labels": None, "basis": "labels"}, "labels: missing, but calibration='none' with basis='labels' needs them"),
        ({"sensitive_features": ["a"] * 6}, "sensitive_features: only one group, 'a'; fairness compares two or more"),
        (
            {"sensitive_features": ["a", "b", None, "a", "b", "a"]},
            "sensitive_features: row 2 is missing; drop such rows",
        ),
        ({"sensitive_features": [1.0, 2.0, math.nan, 1.0, 2.0, 1.0]}, "sensitive_features: row 2 is missing"),
        (
            {"sensitive_features": [["a"], ["b"], ["a", "b"], [], ["a"], ["b"]]},
            "sensitive_features: labels must be hashable",
        ),
        ({"sensitive_features": [{}, {}, {}, {}, {}, {}]}, "sensitive_features: labels must be hashable"),
        ({"sensitive_features": None}, "sensitive_features: got None; pass one value per row"),
        ({"sites": ["x", "x", "y", None, "x", "y"]}, "sites: row 3 is missing"),
        ({"sites": pd.Series(["x", "x", "y", pd.NA, "x", "y"])}, "sites: row 3 is missing"),
        (
            {"notion": "demographic_party"},
            r"unknown notion 'demographic_party' \(did you mean 'demographic_parity'\?\)",
        ),
        ({"notion": "fair"}, "notion: unknown notion 'fair'; use one of demographic_parity"),
        ({"notion": 3}, "notion: got 3; use one of demographic_parity"),
        ({"notion": {"equalized_odds": 0.1}}, "notion: got {'equalized_odds': 0.1}; use one of"),
        ({"local_tolerance": -0.1}, "local_tolerance: a tolerance is a number from 0 to 1,.*got -0.1"),
        ({"local_tolerance": math.nan}, "local_tolerance: a tolerance is a number from 0 to 1"),
        ({"local_tolerance": math.inf}, "local_tolerance: a tolerance is a number.*or None for no constraint; got inf"),
        ({"local_tolerance": True}, "local_tolerance: a tolerance is a number from 0 to 1.*got True"),
        ({"global_tolerance": "0.02"}, "global_tolerance: a tolerance is a number from 0 to 1.*got '0.02'"),
        ({"require": "selection rate gap <= 0.1 at z"}, "require: .* names site 'z', which has no rows"),
        ({"require": "selection rate gap <= -1 at x"}, "require: .* got a gap of -1; it is at least 0"),
        ({"require": [0.1]}, r"require: got 0.1; pass a sentence"),
        ({"require": "selection rate gap <= 0.1 at x", "sites": None}, "names sites, but sites= is missing"),
        ({"sensitive_features": [1, "1", 2, 1, 1, 1]}, "sensitive_features: 1 and '1' are both written 1; rename one"),
        ({"sites": [1, "1", 2, 1, 1, 1]}, "sites: 1 and '1' are both written 1; rename one"),
        ({"calibration": "bta"}, r"calibration: got 'bta' \(did you mean 'beta'\?\); use one of"),
        ({"calibration": np.zeros(2)}, "calibration: got array"),
        ({"basis": "label"}, r"basis: got 'label' \(did you mean 'labels'\?\); use one of eta, labels"),
        (
            {"solver": "simplex"},
            "solver: got 'simplex'; use 'exact', 'algorithm1' or a logofair.solvers.algorithm1.Alg",
        ),
        ({"solver": np.zeros(2)}, "solver: got array"),
        ({"sample_weight": [1, 1, -1, 1, 1, 1]}, "sample_weight: row 2 is -1; weights must not be negative"),
        ({"sample_weight": [0] * 6}, "sample_weight: all weights are zero; at least one row must count"),
        ({"sample_weight": [1, 1, math.nan, 1, 1, 1]}, "sample_weight: row 2 is nan"),
        ({"random_state": -1}, "random_state: got -1; pass a non-negative integer, or None"),
        ({"random_state": 1.5}, "random_state: got 1.5"),
        ({"random_state": True}, "random_state: got True"),
    ],
)
def test_bad_input_is_answered_by_one_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        call(**changes)
    assert "\n" not in str(caught.value)


def test_two_sites_that_nearly_match_are_suggested():
    with pytest.raises(InputError, match=r"names site 'nort', which has no rows \(did you mean 'north'\?\)"):
        call(sites=["north", "north", "south", "south", "north", "south"], require="selection rate gap <= 0.1 at nort")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.dates(),
    st.sampled_from(
        ["exact", "labels", "beta", "isotonic", "equalized_odds", "x", object(), int, np.float32(0.1), np.nan]
    ),
)
columns_of_six = st.one_of(
    st.lists(scalars, min_size=6, max_size=6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.lists(st.integers(0, 1), min_size=6, max_size=6),
    arrays.arrays(
        st.sampled_from([np.float64, np.float32, np.int8, np.uint64, np.bool_, np.complex128, "U2", "M8[D]"]), 6
    ),
)
junk = st.one_of(
    scalars,
    columns_of_six,
    st.lists(scalars, max_size=7),
    arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=3)),
    st.dictionaries(st.one_of(st.sampled_from([*NOTIONS, "local", "global", "x", "y"]), scalars), scalars, max_size=3),
    st.dictionaries(st.sampled_from([*USERS.values()]), st.none() | st.floats(0, 1), max_size=2),
    st.sampled_from([*EVERY_NOTION.values(), Algorithm1(rounds=1, local_steps=1), {1, 2}, iter([1, 2]), range(6)]),
)
FIELDS = {
    **GOOD,
    "notion": "equalized_odds",
    "local_tolerance": 0.1,
    "global_tolerance": 0.05,
    "require": ["selection rate gap <= 0.2 at x"],
    "solver": "exact",
    "calibration": "platt",
    "basis": "eta",
    "sample_weight": [1, 2, 1, 1, 3, 1],
    "random_state": 1,
}


@examples(250)
@given(st.sampled_from(list(FIELDS)), junk)
@example("calibration", np.zeros(2))
@example("sample_weight", [5e-324] * 5 + [1.0])
@example("sample_weight", [1e-320] * 6)
@example("sensitive_features", [float("nan"), "a", 1, None, (), b""])
@example("scores", np.ma.masked_array([0.5] * 6, [True] + [False] * 5))
@example("require", {None: 0.1})
@example("notion", {"local": None, "global": 1})
@example("local_tolerance", datetime.date(2020, 1, 1))
def test_junk_gives_a_solution_or_a_sentence_and_nothing_else(field, value):
    arguments = {**FIELDS, field: value}
    try:
        solution = logofair.fit(arguments.pop("scores"), arguments.pop("labels"), **arguments)
    except InputError:
        return
    assert isinstance(solution, logofair.Solution)
    assert solution.solver == "algorithm1" or solution.certificate.holds
    assert solution.summary()


@modest
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 1), st.integers(0, 2), st.integers(0, 2), st.floats(0, 10)),
        min_size=2,
        max_size=25,
    ),
    st.sampled_from(list(EVERY_NOTION.values())),
    st.sampled_from(["none", "beta", "isotonic", "temperature"]),
    st.sampled_from(["eta", "labels"]),
)
def test_any_valid_rows_give_a_policy_that_holds(rows, notion, calibration, basis):
    scores, labels, groups, sites, weights = zip(*rows, strict=True)
    assume(len(set(groups)) > 1 and any(weights) and len(set(labels)) > 1)
    columns = {"sensitive_features": groups, "sites": sites, "sample_weight": weights}
    solution = asked.fit(scores, labels, **columns, notion=notion, calibration=calibration, basis=basis)
    assert solution.certificate.holds
    assert solution.summary()


def test_a_policy_of_labels_on_many_ties_is_the_one_of_the_grouped_rows():
    scores, labels, columns = table(rows=500)
    solution = fit(np.round(scores, 1), labels, columns, basis="labels", notion="equal_opportunity")
    rates = rates_of(["equal_opportunity"])
    _, groups = np.unique(columns["sensitive_features"], return_inverse=True)
    _, sites = np.unique(columns["sites"], return_inverse=True)
    bounds = np.full((3, 1), 0.02), np.full(1, 0.02)
    case = Case(np.round(scores, 1), groups, sites, 2, 3, rates, rates, *bounds, labels=labels.astype(float))
    assert solution.certificate.primal == pytest.approx(case.best_thresholds(), abs=1e-6)


@pytest.mark.parametrize(
    ("rate", "unit"),
    [(logofair.Rate("tiny", 5e-6, 0.0), 1.0), (logofair.Rate("cents", 1e8, 0.0, base=(1.0, 0.0)), 1e8)],
)
def test_the_unit_of_a_rate_does_not_matter(rate, unit):
    rng = np.random.default_rng(5)
    scores, groups, sites = rng.random(300), rng.integers(0, 2, 300), rng.integers(0, 3, 300)
    scores = np.where(groups == 1, scores, scores**2)
    keywords = {"sensitive_features": groups, "sites": sites, "calibration": "none"}
    plain = asked.fit(scores, None, **keywords, local_tolerance=0.02, global_tolerance=0.01)
    other = asked.fit(
        scores,
        None,
        **keywords,
        notion=logofair.Notion("parity", given=(rate,)),
        local_tolerance=0.02 * unit,
        global_tolerance=0.01 * unit,
    )
    assert other.certificate.holds
    assert other.certificate.primal == pytest.approx(plain.certificate.primal, abs=1e-6)
    assert other.certificate.prices.global_ * unit == pytest.approx(plain.certificate.prices.global_, abs=1e-6)


def test_what_is_required_of_single_sites_stands_in_the_summary_and_in_the_file():
    rng = np.random.default_rng(6)
    required = ("selection rate gap <= 0.02 overall", "selection rate gap <= 0.3 at south")
    solution = logofair.fit(
        rng.random(90),
        None,
        sensitive_features=rng.integers(0, 2, 90),
        sites=rng.choice(["north", "south"], 90),
        calibration="none",
        require=required,
    )
    assert tuple(map(str, solution.policy.info.requirements.require)) == required


def test_every_step_of_a_fit_is_handed_to_progress_and_changes_nothing():
    seen = []

    def progress(steps, what, total):
        for step in steps:
            yield step
            seen.append((what, step + 1, total))

    rng = np.random.default_rng(0)
    score, group = rng.random(200), rng.integers(0, 2, 200)
    given = {"sensitive_features": group, "sites": rng.integers(0, 2, 200), "random_state": 0}
    label = rng.random(200) < score
    shown = asked.fit(score, label, **given, progress=progress)
    (what,), (total,) = ({each[place] for each in seen} for place in (0, 2))
    assert what == "Fitting"
    assert [step for _, step, _ in seen] == list(range(1, total + 1))
    silent = asked.fit(score, label, **given)
    assert shown.policy.mixtures.threshold.tolist() == silent.policy.mixtures.threshold.tolist()


# --- what would go wrong without a word


def test_columns_that_cannot_be_meant_are_refused():
    scores, labels, columns = table()
    people = np.arange(scores.size)
    for groups in (people, np.minimum(people, 200) * 1.5, people.astype(str)):
        with pytest.raises(
            InputError, match=r"^sensitive_features: \d+ groups among 300 rows; name a column of groups to compare"
        ):
            fit(scores, labels, columns | {"sensitive_features": groups})
    for label in (0, 1):
        with pytest.raises(InputError, match=rf"^labels: every one of the 300 rows has label {label}, so nothing"):
            fit(scores, np.full(300, label), columns, calibration="beta")
    fit(scores, np.ones(300), columns)  # which nothing is learnt from


@pytest.mark.parametrize(("name", "first"), [("sensitive_features", "F"), ("sites", "north")])
def test_a_label_written_in_two_ways_is_refused(name, first):
    scores, labels, columns = table()
    columns |= {
        "sensitive_features": np.where(columns["sensitive_features"] == "F", "F", "M"),
        "sites": np.full(300, "north"),
    }
    for other in (first.swapcase(), f"{first} "):
        written = columns[name].astype(object)
        written[np.flatnonzero(written == first)[::2]] = other
        with pytest.raises(
            InputError, match=rf"^{name}: '.*' and '.*' differ by capitals or blanks alone, or look the same; write"
        ):
            fit(scores, labels, columns | {name: written})
        with pytest.raises(InputError, match=rf"^{name}: '.*' and '.*' differ by capitals or blanks alone"):
            asked.audit(scores >= 0.5, labels, **columns | {name: written})


@pytest.mark.parametrize(
    ("one", "other"), [("Jos\u00e9", "Jose\u0301"), ("F", "F\u200b"), ("New York", "New\u00a0 York")]
)
def test_labels_that_look_the_same_are_refused(one, other):
    scores, labels, columns = table()
    written = np.where(np.arange(300) % 3, np.where(np.arange(300) % 2, one, "M"), other)
    with pytest.raises(InputError, match=r"^sites: '.*' and '.*' differ by capitals or blanks alone, or look the same"):
        fit(scores, labels, columns | {"sites": written})


def test_columns_of_pandas_in_another_order_are_refused_and_renumbered_ones_are_not():
    scores, labels, columns = table()
    order = np.random.default_rng(1).permutation(300)
    score = pd.Series(scores, index=np.arange(300) + 7)
    shuffled = pd.Series(labels, index=score.index).iloc[order]
    sentence = (
        r"^labels: its index is that of scores in another order; pass labels\.reindex\(scores\.index\), or "
        r"labels\.to_numpy\(\) to pair rows by position\.$"
    )
    with pytest.raises(InputError, match=sentence):
        fit(score, shuffled, columns)
    solution = fit(score, shuffled.reindex(score.index), columns)
    assert solution.certificate.primal == fit(scores, labels, columns).certificate.primal
    groups = pd.Series(columns["sensitive_features"], index=score.index).iloc[order]
    with pytest.raises(InputError, match=r"^sensitive_features: its index is that of scores in another order"):
        solution.policy.probabilities(score, sensitive_features=groups, sites=columns["sites"])
    with pytest.raises(InputError, match=r"^sensitive_features: its index is that of labels in another order"):
        asked.audit(scores >= 0.5, pd.Series(labels, index=score.index), sensitive_features=groups)
    ids = pd.Series(np.arange(300), index=score.index)
    for ask in (solution.policy.decide, lambda scores, **more: asked.audit(scores >= 0.5, labels, **more)):
        with pytest.raises(InputError, match=r"^ids: its index is that of (scores|decisions) in another order"):
            ask(score, **columns, ids=ids.iloc[order])
        ask(score, **columns, ids=ids)
    fit(score, pd.Series(labels), columns)  # other rows, by their numbers: scores are often numbered anew
