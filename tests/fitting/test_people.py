"""``fit(ids=)``: rows of one person stay together, promises are by person, and every row counts in the rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

import logofair
from benchmarks import promises as simulated
from logofair.calibration.crossfit import assign_folds_by_person
from logofair.errors import InputError
from support.examples import examples


def table(people=1500, rows_each=4, seed=0):
    """Columns of people who have several rows each, alike but for a little noise in the score."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), rows_each)
    group, site = rng.integers(0, 2, people)[person], rng.integers(0, 2, people)[person]
    level = np.clip(
        rng.beta(1.0 + 0.5 * group[::rows_each], 2.0)[person] + rng.normal(0, 0.01, person.size), 0.01, 0.99
    )
    label = (rng.random(people)[person] < level).astype(int)
    return level, label, {"sensitive_features": np.array(["F", "M"])[group], "sites": site}, person


def fit(columns, **options):
    scores, labels, named = columns
    return logofair.fit(scores, labels, **{"local_tolerance": 0.2, "global_tolerance": 0.2, **named, **options})


@given(seed=st.integers(0, 10**6), people=st.integers(1, 60), folds=st.integers(2, 6), cells=st.integers(1, 5))
@examples(50)
def test_a_person_is_dealt_to_one_fold_and_each_cells_people_evenly(seed, people, folds, cells):
    rng = np.random.default_rng(seed)
    person = np.unique(rng.integers(0, people, 3 * people), return_inverse=True)[1]
    home = rng.integers(0, cells, person.max() + 1)
    fold = assign_folds_by_person(person, home[person].astype(np.int32), cells, folds, rng)
    of_person = np.full(home.size, -1)
    of_person[person] = fold
    np.testing.assert_array_equal(of_person[person], fold)
    for cell in range(cells):
        counts = np.bincount(of_person[home == cell], minlength=folds)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("options", [{"pooling": "auto"}, {"confidence": 0.95}, {"notion": "equalized_odds"}], ids=str)
def test_ids_of_which_none_stands_twice_change_nothing(options):
    *columns, _ = table(people=900, rows_each=1)
    options = options | {"random_state": 3}
    without, given_ids = fit(columns, **options), fit(columns, **options, ids=np.arange(900)[::-1] + 7)
    assert given_ids.certificate.as_dict() == without.certificate.as_dict()
    assert given_ids.certified == without.certified


def test_rows_of_one_person_share_their_fold_in_calibration_and_pooling():
    *columns, person = table()
    solution = fit(columns, ids=person, pooling="auto")
    held_out = solution.rows.calibration.chances.__self__  # the out-of-fold calibrators
    fold = held_out.order.in_input_order(held_out.fold).reshape(-1, 4)
    assert (fold == fold[:, :1]).all()
    blind = fit(columns, pooling="auto").rows.calibration.chances.__self__
    fold = blind.order.in_input_order(blind.fold).reshape(-1, 4)
    assert not (fold == fold[:, :1]).all()


def test_promises_rest_on_people_who_are_held_out_whole():
    *columns, person = table()
    solution = fit(columns, ids=person, confidence=0.95)
    blind = fit(columns, confidence=0.95)
    assert (blind.promises.method, solution.promises.method) == ("by rank", "on rows held out")
    for each, other in zip(solution.certified, blind.certified, strict=True):
        assert 4 * each.rows == pytest.approx(other.rows, rel=0.1)
    # half of all people test the rule: limits of so many, each with all rows
    strict = {"confidence": 0.95, "local_tolerance": 0.1, "global_tolerance": None}
    by_person, by_row = fit(columns, **strict, ids=person), fit(columns, **strict, sample_weight=np.ones(person.size))
    assert by_row.promises.method == "on rows held out"
    assert [each.state for each in by_person.certified] == ["unclear", "unclear"]
    assert [each.state for each in by_row.certified] == ["met", "met"]


def test_every_row_counts_in_the_rule():
    *columns, person = table()
    plain, by_person = (fit(columns, calibration="none", pooling="none", ids=ids) for ids in (None, person))
    assert by_person.certificate.as_dict() == plain.certificate.as_dict()


def test_people_who_were_fitted_on_are_no_test():
    scores, labels, columns, person = table()
    half, solution = person < 750, None
    first, second = (
        (scores[at], labels[at], {name: column[at] for name, column in columns.items()}) for at in (half, ~half)
    )
    solution = fit(first, ids=person[half])
    tested = solution.test(*second[:2], **second[2], ids=person[~half])
    assert tested.tested.second.accuracy.rows == 750
    known = person[~half].copy()
    known[:8] = [3] * 4 + [5] * 4
    with pytest.raises(
        InputError, match=r"^ids: the policy was fitted on 2 of these people, such as '3'; a test needs"
    ):
        solution.test(*second[:2], **second[2], ids=known.astype(str))


def test_the_estimator_keeps_a_persons_rows_in_one_fold():
    scores, labels, columns, person = table(people=400)
    seen = []

    class Recorded(LogisticRegression):
        def fit(self, X, y):
            seen.append(set(X[:, 1]))
            return super().fit(X[:, :1], y)

        def predict_proba(self, X):
            return super().predict_proba(X[:, :1])

    X = np.column_stack([scores, person])
    given_columns = {"sensitive_features": columns["sensitive_features"], "sites": columns["sites"], "ids": person}
    model = logofair.LoGoFairClassifier(Recorded(), local_tolerance=0.3, random_state=0, cv=4)
    model.fit(X, labels, **given_columns)
    assert sorted(map(len, seen))[:4] == pytest.approx([300] * 4, abs=4)
    assert len(seen[-1]) == 400
    assert model.solution_.rows.people is not None
    with pytest.raises(
        InputError, match=r"^cv: some folds separate the rows of one person; pass a number, or folds that"
    ):
        logofair.LoGoFairClassifier(Recorded(), cv=KFold(3, shuffle=True)).fit(X, labels, **given_columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1 row a person", "2 rows a person", "5 rows a person", "1 to 9 rows"])
def test_bounds_hold_however_many_rows_a_person_has(name):
    (scenario,) = (each for each in simulated.SCENARIOS if each.name == name)
    found, runs = simulated.simulate(scenario, range(60)).as_dict(), 60
    slack = 2 * np.sqrt(0.95 * 0.05 / runs)
    assert found["local_holds"] >= 0.95 - slack
    assert found["global_holds"] is None or found["global_holds"] >= 0.95 - slack
    assert found["broken"] <= 0.05 + slack
    assert found["certified"] > 0.1
