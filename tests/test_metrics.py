"""Metrics and scorers: against plain counts and the audit, and through scikit-learn's model selection."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import logofair
from logofair import InputError, LoGoFairClassifier, metrics


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    n = 600
    sex, site = rng.choice(["f", "m"], n), rng.choice(["east", "west"], n)
    X = rng.normal(size=(n, 3)) + 0.8 * (sex == "m")[:, None]
    y = np.where(X.sum(axis=1) + rng.normal(size=n) > 1.2, "yes", "no")
    return SimpleNamespace(X=X, y=y, sex=sex, site=site, columns={"sensitive_features": sex, "sites": site})


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def model(**settings):
    return LoGoFairClassifier(LogisticRegression(), random_state=0, cv=2, **settings)


def rate(decided, who):
    return decided[who].mean()


def test_gaps_ratios_and_room_are_those_of_plain_counts(people):
    decided = np.where(np.random.default_rng(0).random(people.y.size) < 0.3 + 0.3 * (people.sex == "m"), "yes", "no")
    ones, given = decided == "yes", {**people.columns, "pos_label": "yes"}
    rates = [rate(ones, people.sex == sex) for sex in "fm"]
    by_site = [[rate(ones, (people.sex == sex) & (people.site == at)) for sex in "fm"] for at in ("east", "west")]
    gaps, ratios = [max(pair) - min(pair) for pair in by_site], [min(pair) / max(pair) for pair in by_site]
    assert metrics.global_gap(people.y, decided, **given) == pytest.approx(abs(rates[0] - rates[1]))
    assert metrics.local_gap(people.y, decided, **given) == pytest.approx(max(gaps))
    assert metrics.global_ratio(people.y, decided, **given) == pytest.approx(min(rates) / max(rates))
    assert metrics.local_ratio(people.y, decided, **given) == pytest.approx(min(ratios))
    require = ["selection rate gap <= 0.1 per site", "selection rate of f >= 0.25 overall"]
    left = metrics.room(people.y, decided, require=require, **given)
    assert left == pytest.approx(min(0.1 - max(gaps), rates[0] - 0.25))
    assert metrics.fair_accuracy(people.y, decided, require=require, **given) == left < 0
    require = "selection rate gap <= 0.9 per site"
    assert metrics.fair_accuracy(people.y, decided, require=require, **given) == np.mean(people.y == decided)


def test_other_notions_count_their_own_rates_and_what_is_undefined_is_not_a_number(people):
    decided, given = people.y[::-1], {**people.columns, "pos_label": "yes"}
    found = logofair.audit(decided == "yes", people.y == "yes", **people.columns, notion="equalized_odds")
    assert metrics.local_gap(people.y, decided, notion="equalized_odds", **given) == float(found.local_gap)
    nobody = ["no"] * people.y.size
    assert np.isnan(metrics.global_gap(nobody, decided, notion="equal_opportunity", **given))
    assert np.isnan(metrics.fair_accuracy(nobody, decided, require="true positive rate gap <= 0.1 overall", **given))


def test_labels_that_are_not_two_or_lack_the_positive_one_are_refused(people):
    with pytest.raises(InputError, match="pos_label: got 1, but labels are 'no', 'yes'; pass two"):
        metrics.global_gap(people.y, people.y, sensitive_features=people.sex)


def test_scorers_measure_each_fold_as_the_metrics_do(people, routing):
    scoring = {
        "accuracy": metrics.scorer(metrics.accuracy),
        "gap": metrics.scorer(metrics.local_gap, notion="equal_opportunity"),
        "ratio": metrics.scorer(metrics.global_ratio),
        "room": metrics.scorer(metrics.room, require="selection rate gap <= 0.1 per site"),
    }
    pipeline, folds = make_pipeline(StandardScaler(), model()), KFold(2)
    found = cross_validate(
        pipeline, people.X, people.y, cv=folds, scoring=scoring, params=people.columns, error_score="raise"
    )
    for at, (train, test) in enumerate(folds.split(people.X)):
        fitted = clone(pipeline).fit(
            people.X[train], people.y[train], **{name: column[train] for name, column in people.columns.items()}
        )
        there = {name: column[test] for name, column in people.columns.items()}
        decided, rest = fitted.predict(people.X[test], **there), {**there, "pos_label": "yes"}
        assert found["test_accuracy"][at] == np.mean(decided == people.y[test])
        gap = metrics.local_gap(people.y[test], decided, notion="equal_opportunity", **rest)
        assert found["test_gap"][at] == -gap < 0
        assert found["test_ratio"][at] == metrics.global_ratio(people.y[test], decided, **rest)
        room = metrics.room(people.y[test], decided, require="selection rate gap <= 0.1 per site", **rest)
        assert found["test_room"][at] == room


def test_a_model_that_takes_no_columns_and_one_that_may_not_look_are_scored_too(people, routing):
    scoring = {"gap": metrics.scorer(metrics.global_gap), "accuracy": metrics.scorer(metrics.accuracy)}
    given = {"cv": 2, "params": people.columns, "scoring": scoring, "error_score": "raise"}
    with sklearn.config_context(enable_metadata_routing=True):
        plain = cross_validate(LogisticRegression(), people.X, people.y, **given | {"params": people.columns})
        away = cross_validate(model(group_classifier=LogisticRegression()), people.X, people.y, **given)
    assert (plain["test_gap"] < -0.3).all()
    assert (away["test_gap"] > plain["test_gap"]).all()


def test_a_search_chooses_by_accuracy_and_fairness(people, routing):
    scoring = {
        "accuracy": metrics.scorer(metrics.accuracy),
        "fair": metrics.scorer(metrics.fair_accuracy, require="selection rate gap <= 0.2 overall"),
    }
    grid = {"global_tolerance": [0.02, 0.9]}
    chosen = {}
    for refit in scoring:
        search = GridSearchCV(
            model(local_tolerance=None), grid, scoring=scoring, refit=refit, cv=KFold(2), error_score="raise"
        )
        chosen[refit] = search.fit(people.X, people.y, **people.columns).best_params_["global_tolerance"]
    assert chosen == {"accuracy": 0.9, "fair": 0.02}


def test_scorers_are_cloned_and_say_what_they_need(people):
    scorer = metrics.scorer(metrics.global_gap, notion="equal_opportunity")
    assert clone(scorer).get_params() == scorer.get_params()
    fitted = model().fit(people.X, people.y, **people.columns)
    assert scorer(fitted, people.X, people.y, **people.columns) <= 0  # without routing, called by hand
    with pytest.raises(InputError, match=r"sensitive_features: got None.*enable_metadata_routing=True"):
        cross_validate(model(), people.X, people.y, cv=2, scoring=scorer, params=people.columns, error_score="raise")


def test_fairlearns_metric_frame_takes_the_metrics(people):
    fairlearn = pytest.importorskip("fairlearn.metrics")  # comes with make bench
    labels, decided = ((column == "yes").astype(int) for column in (people.y, people.y[::-1]))
    frame = fairlearn.MetricFrame(
        metrics={"accuracy": metrics.accuracy, "gap": metrics.global_gap},
        y_true=labels,
        y_pred=decided,
        sensitive_features={"site": people.site},
        sample_params={"gap": {"sensitive_features": people.sex}},
    )
    for site in ("east", "west"):
        here = people.site == site
        gap = metrics.global_gap(labels[here], decided[here], sensitive_features=people.sex[here])
        assert frame.by_group.loc[site].tolist() == [np.mean(labels[here] == decided[here]), gap]
