"""The scikit-learn door: scikit-learn's own checks, its tools, and what the classifier hands to model and policy."""

from __future__ import annotations

import pickle
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import support.sentences as asked
from logofair import InputError, LoGoFairClassifier


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The problems are small: threads of the linear algebra would only wait for each other."""
    with threadpool_limits(1):
        yield


class ReadsGroupsOffRows(LoGoFairClassifier):
    """For scikit-learn's checks, which know nothing of groups: the group is a function of the row."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sensitive_features=groups_of(X), sample_weight=sample_weight)

    def predict(self, X):
        return super().predict(X, sensitive_features=groups_of(X))

    def predict_proba(self, X):
        return super().predict_proba(X, sensitive_features=groups_of(X))

    def score(self, X, y, sample_weight=None):
        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)


def groups_of(X):
    rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
    try:
        sums = np.clip(np.nan_to_num(rows.reshape(len(rows), -1).real.astype(float)), -1e6, 1e6).sum(axis=1)
    except (TypeError, ValueError):  # rows that the checks want refused, which is the estimator's part
        sums = np.arange(len(rows))
    return np.where(np.cos(3 * sums) > 0, "even", "odd")  # for whole numbers about their parity


def expected_failures(estimator):
    failures = {}
    if sklearn.__version__.startswith("1.6."):
        reason = "before 1.7 the check itself makes two classes of three differently for the two fits it compares"
        failures |= {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    return failures


@parametrize_with_checks(
    # Coins depend on the row's position where there are no ids, and the checks have none.
    [ReadsGroupsOffRows(LogisticRegression(), deterministic=True, cv=3, random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_it_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(7)
    n = 400
    sex, site = rng.choice(["f", "m"], n), rng.choice(["east", "west"], n, p=[0.4, 0.6])
    X = np.column_stack([np.arange(n) / n, rng.normal(size=(n, 3)) + 0.8 * (sex == "m")[:, None]])
    y = (X[:, 1:].sum(axis=1) + rng.normal(size=n) > 1.2).astype(int)
    columns = {"sensitive_features": sex, "sites": site}
    return SimpleNamespace(
        X=X,
        y=y,
        sex=sex,
        site=site,
        columns=columns,
        ids=rng.permutation(n),
        weight=rng.integers(1, 4, n).astype(float),
    )


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def classifier(estimator=None, **settings):
    return LoGoFairClassifier(estimator or LogisticRegression(), **{"random_state": 0, "cv": 3, **settings})


def frozen():
    """A model fitted to other rows than the people's."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    return FrozenEstimator(LogisticRegression().fit(X, (X[:, 1:].sum(axis=1) > 0).astype(int)))


class Witness(ClassifierMixin, BaseEstimator):
    """Remembers, for all its clones together, what it was given; a row's first feature is its name."""

    __metadata_request__fit: ClassVar = {"sample_weight": True, "sites": True}

    def __init__(self, fits=None, overlaps=None):
        self.fits = fits
        self.overlaps = overlaps

    def __sklearn_clone__(self):
        return Witness(self.fits, self.overlaps)  # a true clone would remember for itself alone

    def fit(self, X, y, sample_weight=None, sites=None):
        self.names_, self.classes_ = X[:, 0], np.unique(y)
        self.fits.append((X[:, 0], sample_weight, sites))
        return self

    def predict_proba(self, X):
        self.overlaps.append(np.isin(X[:, 0], self.names_).any())
        return np.column_stack([1 - X[:, 0], X[:, 0]])


# What the policy is made from


def test_the_policy_never_sees_scores_of_rows_the_model_was_trained_on(people):
    witness = Witness([], [])
    classifier(witness, cv=4).fit(people.X, people.y, **people.columns)
    assert witness.overlaps == [False] * 4
    assert [len(names) for names, *_ in witness.fits] == [300, 300, 300, 300, 400]


def test_held_out_scores_are_those_of_a_plain_loop_over_seeded_stratified_folds(people):
    expected = np.empty(len(people.y))
    for train, test in StratifiedKFold(3, shuffle=True, random_state=5).split(people.X, people.y):
        model = LogisticRegression().fit(people.X[train], people.y[train])
        expected[test] = model.predict_proba(people.X[test])[:, 1]
    fitted = classifier(random_state=5).fit(people.X, people.y, **people.columns)
    np.testing.assert_array_equal(fitted.solution_.rows.scores, expected)
    refitted = LogisticRegression().fit(people.X, people.y)
    np.testing.assert_array_equal(fitted.estimator_.coef_, refitted.coef_)


def test_other_folds_than_a_number_are_used_as_they_are(people):
    splits = list(KFold(4).split(people.X))
    by_splitter = classifier(cv=KFold(4)).fit(people.X, people.y, **people.columns)
    by_list = classifier(cv=splits).fit(people.X, people.y, **people.columns)
    seeded = classifier(cv=4).fit(people.X, people.y, **people.columns)
    np.testing.assert_array_equal(by_splitter.solution_.rows.scores, by_list.solution_.rows.scores)
    assert not np.array_equal(by_splitter.solution_.rows.scores, seeded.solution_.rows.scores)


@pytest.mark.parametrize("routed", [False, True])
def test_a_frozen_model_is_used_as_it_is_and_the_policy_is_that_of_logofair_fit(people, routed):
    model = frozen()
    with sklearn.config_context(enable_metadata_routing=routed):
        # More folds than rows: there is nothing to fold.
        fitted = classifier(model, global_tolerance=0.01, cv=1000).fit(
            people.X, people.y, **people.columns, sample_weight=people.weight
        )
    solution = asked.fit(
        model.predict_proba(people.X)[:, 1],
        people.y,
        sensitive_features=people.sex,
        sites=people.site,
        global_tolerance=0.01,
        sample_weight=people.weight,
        random_state=0,
    )
    assert fitted.estimator_ is model
    assert fitted.solution_.certificate.primal == solution.certificate.primal
    np.testing.assert_array_equal(fitted.policy_.mixtures.threshold, solution.policy.mixtures.threshold)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
def test_gaps_of_the_policy_on_the_held_out_scores_are_within_both_tolerances(people, notion):
    tolerances = {"local_tolerance": 0.05, "global_tolerance": 0.01}
    fitted = classifier(notion=notion, **tolerances, calibration="none", pooling="none")
    fitted.fit(people.X, people.y, **people.columns)
    assert fitted.solution_.certificate.holds
    scores = fitted.solution_.rows.scores
    chance = fitted.policy_.probabilities(scores, sensitive_features=people.sex, sites=people.site)
    counted = np.ones_like(scores) if notion == "demographic_parity" else scores

    def gap(rows):
        rates = [np.average(chance[rows & (people.sex == s)], weights=counted[rows & (people.sex == s)]) for s in "fm"]
        return abs(rates[0] - rates[1])

    assert gap(people.sex != "") <= 0.01 + 1e-9
    assert max(gap(people.site == "east"), gap(people.site == "west")) <= 0.05 + 1e-9
    base = fitted.estimator_.predict(people.X)
    assert abs(base[people.sex == "f"].mean() - base[people.sex == "m"].mean()) > 0.2  # there was something to repair


def test_every_setting_reaches_the_policy(people):
    settings = {
        "notion": "equalized_odds",
        "local_tolerance": None,
        "global_tolerance": 0.03,
        "require": ("selection rate gap <= 0.07 at east",),
        "solver": "algorithm1",
        "calibration": "platt",
        "basis": "labels",
        "random_state": 11,
    }
    fitted = classifier(frozen(), **settings).fit(people.X, people.y, **people.columns)
    scores = frozen().predict_proba(people.X)[:, 1]
    solution = asked.fit(scores, people.y, sensitive_features=people.sex, sites=people.site, **settings)
    assert fitted.policy_.info == solution.policy.info
    assert fitted.policy_.key == 11


# Labels and columns


@pytest.mark.parametrize("names", [("no", "yes"), (False, True), (-1, 1), (2.0, 7.0)])
def test_any_two_labels_will_do_and_the_second_in_sorted_order_is_positive(people, names):
    labels = np.array(names)[people.y]
    numbered = classifier().fit(people.X, people.y, **people.columns)
    named = classifier().fit(people.X, labels.tolist(), **people.columns)
    decided = named.predict(people.X, **people.columns, ids=people.ids)
    assert named.classes_.tolist() == list(names)
    np.testing.assert_array_equal(
        decided, np.array(names)[numbered.predict(people.X, **people.columns, ids=people.ids)]
    )


def test_class_weights_by_name_hold_in_the_folds_as_well(people):
    labels = np.where(people.y == 1, "yes", "no")
    by_name = classifier(LogisticRegression(class_weight={"no": 1, "yes": 5})).fit(people.X, labels, **people.columns)
    by_number = classifier(LogisticRegression(class_weight={0: 1, 1: 5})).fit(people.X, people.y, **people.columns)
    np.testing.assert_array_equal(by_name.solution_.rows.scores, by_number.solution_.rows.scores)


@pytest.mark.parametrize("library", [pd, pl])
def test_tables_and_columns_of_dataframe_libraries_give_what_arrays_give(people, library):
    table = library.DataFrame({f"x{i}": people.X[:, i] for i in range(4)})
    sex, site = library.Series(people.sex), library.Series(people.site)
    labels, weight = library.Series(np.where(people.y == 1, "yes", "no")), library.Series(people.weight)
    ids = library.Series(people.ids)
    fitted = classifier().fit(table, labels, sensitive_features=sex, sites=site, sample_weight=weight)
    arrays = classifier().fit(people.X, people.y, **people.columns, sample_weight=people.weight)
    decided = fitted.predict(table, sensitive_features=sex, sites=site, ids=ids)
    np.testing.assert_array_equal(
        decided == "yes", arrays.predict(people.X, **people.columns, ids=people.ids).astype(bool)
    )
    if library is pd:  # scikit-learn reads other tables' names only with an optional package
        assert fitted.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    assert not hasattr(fitted.fit(people.X, people.y, **people.columns), "feature_names_in_")


def test_sparse_rows_give_what_dense_rows_give(people):
    dense = classifier().fit(people.X, people.y, **people.columns)
    thin = classifier().fit(sparse.csr_matrix(people.X), people.y, **people.columns)
    np.testing.assert_allclose(thin.solution_.rows.scores, dense.solution_.rows.scores, atol=1e-6)


def test_fitted_attributes_are_those_of_the_model_and_absent_before_fit(people):
    model = classifier()
    assert not hasattr(model, "n_features_in_")
    assert model.fit(people.X, people.y, **people.columns).n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")


# Weights


def test_weights_count_as_repeated_rows(people):
    times = people.weight.astype(int)
    settings = {"calibration": "none", "pooling": "none", "notion": "equalized_odds"}
    weighted = classifier(frozen(), **settings).fit(people.X, people.y, **people.columns, sample_weight=people.weight)
    repeated = classifier(frozen(), **settings).fit(
        np.repeat(people.X, times, axis=0),
        np.repeat(people.y, times),
        sensitive_features=np.repeat(people.sex, times),
        sites=np.repeat(people.site, times),
    )
    unweighted = classifier(frozen(), **settings).fit(people.X, people.y, **people.columns)
    assert weighted.solution_.certificate.primal == pytest.approx(repeated.solution_.certificate.primal, abs=1e-6)
    assert unweighted.solution_.certificate.primal != pytest.approx(repeated.solution_.certificate.primal, abs=1e-4)
    decided = weighted.predict(people.X, **people.columns, ids=people.ids)
    same = decided == repeated.predict(people.X, **people.columns, ids=people.ids)
    assert same.mean() > 0.99  # the optimum may be tied


@pytest.mark.parametrize("routed", [False, True])
def test_every_fold_gets_the_weights_of_its_own_rows_and_what_else_the_model_asks_for(people, routed):
    witness = Witness([], [])
    with sklearn.config_context(enable_metadata_routing=routed):
        classifier(witness).fit(people.X, people.y, **people.columns, sample_weight=people.weight.tolist())
    assert len(witness.fits) == 4
    for names, weight, sites in witness.fits:
        rows = np.round(names * len(people.y)).astype(int)
        np.testing.assert_array_equal(weight, people.weight[rows])
        if routed:
            np.testing.assert_array_equal(sites, people.site[rows])
        else:
            assert sites is None


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("estimator", [KNeighborsClassifier(), Pipeline([("model", KNeighborsClassifier())])])
def test_weights_that_the_model_cannot_take_are_refused(people, estimator, routed):
    with (
        sklearn.config_context(enable_metadata_routing=routed),
        pytest.raises(InputError, match=r"^sample_weight: \w+\.fit takes none; leave the weights out"),
    ):
        classifier(estimator).fit(people.X, people.y, **people.columns, sample_weight=people.weight)


@pytest.mark.usefixtures("routing")
def test_with_routing_the_model_gets_weights_if_and_only_if_it_requests_them(people):
    def coefficients(model):
        fitted = classifier(model).fit(people.X, people.y, **people.columns, sample_weight=people.weight)
        return fitted.estimator_[-1].coef_ if isinstance(model, Pipeline) else fitted.estimator_.coef_

    asks, declines = (LogisticRegression().set_fit_request(sample_weight=wanted) for wanted in (True, False))
    weighted = LogisticRegression().fit(people.X, people.y, sample_weight=people.weight).coef_
    np.testing.assert_array_equal(coefficients(asks), weighted)
    np.testing.assert_array_equal(coefficients(Pipeline([("model", asks)])), weighted)
    np.testing.assert_array_equal(coefficients(declines), LogisticRegression().fit(people.X, people.y).coef_)
    with pytest.raises(UnsetMetadataPassedError, match=r"LogisticRegression\.set_fit_request"):
        coefficients(LogisticRegression())


# scikit-learn's tools


def test_a_pipeline_passes_groups_sites_and_ids_on(people, routing):
    pipeline = make_pipeline(StandardScaler(), classifier()).fit(people.X, people.y, **people.columns)
    scaled = StandardScaler().fit_transform(people.X)
    alone = classifier().fit(scaled, people.y, **people.columns)
    decided = pipeline.predict(people.X, **people.columns, ids=people.ids)
    np.testing.assert_array_equal(decided, alone.predict(scaled, **people.columns, ids=people.ids))
    score = pipeline.score(people.X, people.y, **people.columns, ids=people.ids)
    assert score == accuracy_score(people.y, decided)


def test_a_pipeline_works_without_routing_too(people):
    pipeline = make_pipeline(StandardScaler(), classifier()).fit(
        people.X,
        people.y,
        logofairclassifier__sensitive_features=people.sex,
        logofairclassifier__sites=people.site,
    )
    decided = pipeline.predict(people.X, **people.columns)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(StandardScaler(), classifier()).fit(people.X, people.y, **people.columns)
        np.testing.assert_array_equal(decided, routed.predict(people.X, **people.columns))


def test_columns_may_go_by_other_names(people, routing):
    model = classifier().set_fit_request(sensitive_features="sex").set_predict_request(sensitive_features="sex")
    pipeline = make_pipeline(StandardScaler(), model).fit(people.X, people.y, sex=people.sex)
    decided = pipeline.predict(people.X, sex=people.sex)
    plain = make_pipeline(StandardScaler(), classifier()).fit(people.X, people.y, sensitive_features=people.sex)
    np.testing.assert_array_equal(decided, plain.predict(people.X, sensitive_features=people.sex))


def test_cross_validation_scores_each_fold_with_its_own_columns(people, routing):
    weighted = LogisticRegression().set_fit_request(sample_weight=True)
    model = classifier(weighted).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    params = {**people.columns, "ids": people.ids, "sample_weight": people.weight}
    found = cross_validate(model, people.X, people.y, cv=KFold(3), params=params, error_score="raise")["test_score"]
    for score, (train, test) in zip(found, KFold(3).split(people.X), strict=True):
        part = {name: column[train] for name, column in people.columns.items()}
        fitted = clone(model).fit(people.X[train], people.y[train], **part, sample_weight=people.weight[train])
        rest = {name: column[test] for name, column in params.items()}
        assert score == fitted.score(people.X[test], people.y[test], **rest)


@pytest.mark.slow
def test_a_grid_search_runs_over_the_tolerances(people, routing):
    grid = {"local_tolerance": [0.0, 0.2], "global_tolerance": [0.0, None], "estimator__C": [1.0]}
    search = GridSearchCV(classifier(), grid, cv=KFold(2), error_score="raise")
    search.fit(people.X, people.y, **people.columns)
    scores = {
        (found["local_tolerance"], found["global_tolerance"]): score
        for found, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(scores) == 4
    assert scores[0.2, None] > scores[0.0, 0.0]
    best = search.best_estimator_
    assert best.solution_.certificate.holds
    assert best.solution_.outcomes.requirements[0].bound == search.best_params_["local_tolerance"]
    assert search.score(people.X, people.y, **people.columns) == best.score(people.X, people.y, **people.columns)


def test_score_is_the_weighted_accuracy_of_predict(people):
    model = classifier(notion="equalized_odds", local_tolerance=0.0).fit(people.X, people.y, **people.columns)
    decided = model.predict(people.X, **people.columns, ids=people.ids)
    expected = np.average(decided == people.y, weights=people.weight)
    score = model.score(people.X, people.y, **people.columns, ids=people.ids, sample_weight=people.weight)
    assert score == pytest.approx(expected, abs=1e-12)


# Reproducible decisions


def test_equal_seeds_give_equal_classifiers_and_a_clone_is_one(people):
    first = classifier(random_state=3).fit(people.X, people.y, **people.columns)
    again = clone(first)
    assert not hasattr(again, "policy_")
    again.fit(people.X, people.y, **people.columns)
    np.testing.assert_array_equal(first.solution_.rows.eta, again.solution_.rows.eta)
    np.testing.assert_array_equal(first.predict(people.X, **people.columns), again.predict(people.X, **people.columns))
    other = again.set_params(random_state=4, estimator__C=1.0).fit(people.X, people.y, **people.columns)
    assert not np.array_equal(first.solution_.rows.scores, other.solution_.rows.scores)


def test_parameters_are_set_and_read_by_name(people):
    model = classifier().set_params(local_tolerance=0.3, estimator__C=0.5)
    assert model.get_params()["local_tolerance"] == 0.3
    assert model.estimator.C == 0.5
    loose = model.set_params(global_tolerance=None, local_tolerance=None).fit(people.X, people.y, **people.columns)
    assert loose.solution_.certificate.prices.global_.size == 0


def test_the_same_id_gets_the_same_decision_in_any_row_and_after_pickling(people):
    model = classifier(notion="equalized_odds", local_tolerance=0.0, random_state=None)
    model.fit(people.X, people.y, **people.columns)
    assert model.policy_.mixtures.mixed.any()
    decided = model.predict(people.X, **people.columns, ids=people.ids)
    order = np.random.default_rng(0).permutation(len(people.y))[:150]
    part = {name: column[order] for name, column in people.columns.items()}
    there = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(there.predict(people.X[order], **part, ids=people.ids[order]), decided[order])
    by_position = model.predict(people.X, **people.columns)
    np.testing.assert_array_equal(there.predict(people.X, **people.columns), by_position)


def test_without_ids_the_number_of_the_fit_tosses_the_coins(people):
    options = {"notion": "equalized_odds", "local_tolerance": 0.0}
    model = classifier(**options, random_state=4).fit(people.X, people.y, **people.columns)
    assert model.random_state_ == 4
    decided = model.predict(people.X, **people.columns)
    np.testing.assert_array_equal(model.set_params(random_state=9).predict(people.X, **people.columns), decided)
    one, other = (classifier(**options, random_state=None).fit(people.X, people.y, **people.columns) for _ in range(2))
    assert one.random_state_ != other.random_state_
    # The folds are those of 0: only the coins differ.
    np.testing.assert_array_equal(one.policy_.mixtures.threshold, other.policy_.mixtures.threshold)


def test_deterministic_decisions_need_no_coin(people):
    model = classifier(notion="equalized_odds", local_tolerance=0.0, deterministic=True, random_state=None)
    model.fit(people.X, people.y, **people.columns)
    scores = model.estimator_.predict_proba(people.X)[:, 1]
    expected = model.policy_.decide(scores, sensitive_features=people.sex, sites=people.site, deterministic=True)
    np.testing.assert_array_equal(model.predict(people.X, **people.columns), expected)


def test_exact_counts_are_those_of_the_policy(people):
    model = classifier(notion="equalized_odds", local_tolerance=0.0, exact_counts=True, random_state=3)
    model.fit(people.X, people.y, **people.columns)
    scores = model.estimator_.predict_proba(people.X)[:, 1]
    rows = {"sensitive_features": people.sex, "sites": people.site}
    expected = model.policy_.decide(scores, **rows, random_state=3, exact_counts=True)
    np.testing.assert_array_equal(model.predict(people.X, **people.columns), expected)
    assert abs(expected.sum() - model.policy_.probabilities(scores, **rows).sum()) < 1


def test_an_unknown_site_is_refused_pooled_or_given_the_base_rule(people):
    model = classifier(calibration="none").fit(people.X, people.y, **people.columns)
    north = {"sensitive_features": people.sex, "sites": ["north"] * len(people.sex)}
    with pytest.raises(InputError, match=r"sites: row 0 is 'north', a site the policy does not know"):
        model.predict(people.X, **north)
    scores = model.estimator_.predict_proba(people.X)[:, 1]
    base = model.set_params(on_unknown="base").predict(people.X, **north)
    np.testing.assert_array_equal(base, (scores >= 0.5).astype(int))
    merged = model.set_params(on_unknown="merged").predict(people.X, **north)
    rates = [merged[people.sex == s].mean() for s in "fm"]
    assert abs(rates[0] - rates[1]) < abs(base[people.sex == "f"].mean() - base[people.sex == "m"].mean())


def test_the_chance_of_a_decision_is_the_policys_and_people_without_a_coin_have_none(people):
    model = classifier(notion="equalized_odds", local_tolerance=0.0).fit(people.X, people.y, **people.columns)
    chance = model.predict_proba(people.X, **people.columns)
    scores = model.estimator_.predict_proba(people.X)[:, 1]
    np.testing.assert_array_equal(chance[:, 1], model.policy_.probabilities(scores, **people.columns))
    np.testing.assert_array_equal(chance.sum(axis=1), 1.0)
    decided, sure = model.predict(people.X, **people.columns), np.isin(chance[:, 1], [0, 1])
    assert 0 < (~sure).sum() < 0.1 * sure.size
    np.testing.assert_array_equal(decided[sure], chance[sure, 1])


def test_without_routing_the_way_to_switch_it_on_is_said(people):
    for call in (cross_val_predict, partial(cross_validate, error_score="raise")):
        with pytest.raises(InputError, match=r"sensitive_features: got None.*enable_metadata_routing=True"):
            call(classifier(), people.X, people.y, cv=2, params=people.columns)


# Refusals


def test_groups_are_required_everywhere(people):
    model = classifier().fit(people.X, people.y, **people.columns)
    calls = (
        lambda **columns: model.fit(people.X, people.y, **columns),
        lambda **columns: model.predict(people.X, **columns),
        lambda **columns: model.score(people.X, people.y, **columns),
    )
    for call in calls:
        with pytest.raises((TypeError, InputError), match="sensitive_features"):
            call(sites=people.site)
        with pytest.raises(InputError, match="sensitive_features: got None"):
            call(sensitive_features=None, sites=people.site)


def test_with_a_classifier_of_groups_the_policy_may_not_look_at_them(people):
    own = LogisticRegression(max_iter=500)
    model = classifier(group_classifier=own).fit(people.X, people.y, **people.columns)
    assert model.solution_.certificate.holds is None
    assert model.policy_.looks_away
    groups = clone(own).fit(people.X, people.sex)
    seen = dict(zip(groups.classes_.tolist(), groups.predict_proba(people.X).T, strict=True))
    scores = model.estimator_.predict_proba(people.X)[:, 1]
    rows = {"sites": people.site, "random_state": model.random_state_}
    decided = model.policy_.decide(scores, group_probabilities=seen, **rows)
    assert np.array_equal(model.predict(people.X, sites=people.site), model.classes_[decided])
    with pytest.raises(InputError, match="may not look at them"):
        model.predict(people.X, **people.columns)


def test_sites_are_needed_in_predict_exactly_if_fit_had_them(people):
    with_sites = classifier().fit(people.X, people.y, **people.columns)
    without = classifier().fit(people.X, people.y, sensitive_features=people.sex)
    with pytest.raises(InputError, match="sites: missing"):
        with_sites.predict(people.X, sensitive_features=people.sex)
    with pytest.raises(InputError, match="sites: the policy was fitted without"):
        without.predict(people.X, **people.columns)


@pytest.mark.parametrize(
    ("settings", "labels", "error", "words"),
    [
        ({}, lambda y: np.arange(len(y)) % 3, InputError, "y: got 3 class.* Only binary classification is supported"),
        ({}, lambda y: np.ones(len(y), int), InputError, r"y: got 1 class, expected two"),
        ({}, lambda y: y + 0.5 * (np.arange(len(y)) % 3), ValueError, "Unknown label type: continuous"),
        ({}, lambda y: y[:-1], ValueError, "inconsistent numbers of samples"),
        (
            {"estimator": GaussianNB()},
            lambda y: np.arange(len(y)) == 5,
            InputError,
            "cv: the training rows of some fold are all of one class",
        ),
        ({"estimator": LinearSVC()}, None, InputError, "estimator: LinearSVC has no predict_proba"),
        ({"estimator": FrozenEstimator(LogisticRegression())}, None, NotFittedError, "not fitted yet"),
        ({"cv": [([0, 1, 2, 3], [4, 5])]}, None, InputError, "cv: some rows are tested never or twice"),
        ({"cv": 1}, None, ValueError, "n_splits=1"),
        ({"random_state": -1}, None, InputError, "random_state: got -1"),
        ({"notion": "parity"}, None, InputError, "unknown notion 'parity'"),
    ],
)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_what_cannot_be_fitted_is_refused_in_one_sentence(people, settings, labels, error, words):
    y = people.y if labels is None else labels(people.y)
    with pytest.raises(error, match=words):
        classifier(**settings).fit(people.X, y, **people.columns)


@pytest.mark.parametrize("foreign", ["2", "1"])
def test_labels_that_a_frozen_model_does_not_know_are_refused(people, foreign):
    labels = np.where(people.y == 1, foreign, "0") if foreign == "1" else np.where(people.y == 1, 2, 0)
    with pytest.raises(InputError, match=r"is no class of the frozen estimator, which knows \[0, 1\]"):
        classifier(frozen()).fit(people.X, labels, **people.columns)


def test_a_frozen_model_knows_its_classes_even_if_the_rows_hold_one(people):
    rows = people.y == 1
    fitted = classifier(frozen(), calibration="none").fit(
        people.X[rows], people.y[rows], sensitive_features=people.sex[rows]
    )
    assert fitted.classes_.tolist() == [0, 1]


class Overshoot(GaussianNB):
    """A model whose probabilities miss [0, 1] by a little, or by much."""

    miss = 1e-9

    def predict_proba(self, X):
        sure = super().predict_proba(X).round()
        return sure + np.where(sure > 0, self.miss, -self.miss)


def test_probabilities_may_miss_their_bounds_by_rounding_only(people, monkeypatch):
    fitted = classifier(Overshoot(), calibration="none").fit(people.X, people.y, **people.columns)
    assert set(fitted.solution_.rows.scores) == {0.0, 1.0}
    monkeypatch.setattr(Overshoot, "miss", 0.5)
    with pytest.raises(InputError, match=r"scores: row \d+ is -?[\d.]+, outside \[0, 1\]"):
        classifier(Overshoot()).fit(people.X, people.y, **people.columns)


def test_nothing_is_decided_before_fit(people):
    with pytest.raises(NotFittedError):
        classifier().predict(people.X, **people.columns)


def test_a_failed_fit_leaves_the_fitted_classifier_as_it_was(people):
    model = classifier().fit(people.X, people.y, **people.columns)
    before = model.predict(people.X, **people.columns, ids=people.ids)
    with pytest.raises(InputError):
        model.set_params(notion="parity").fit(people.X, 5 - people.y, **people.columns)
    np.testing.assert_array_equal(model.predict(people.X, **people.columns, ids=people.ids), before)
