"""Scores of experiments: test rows choose nothing, one run stands for several settings, what is stored is read back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair_reproduction.experiments import scores
from logofair_reproduction.experiments.experiment import Split, Training, Trial
from logofair_reproduction.experiments.measuring import measure
from logofair_reproduction.experiments.scores import Machine, choose, split_data, trained
from made.experiments import SETTINGS, SMALL, case, use_settings
from support.examples import examples

pytestmark = pytest.mark.training

METHODS = ("fedavg", "fedfb", "fairfed", "fcfl")


def notion_of(method):
    return None if method == "fedavg" else "demographic_parity"


def train(rows, method, folder, budget=3, **more):
    return trained(lambda: rows, Training(rows.split, method, notion_of(method), budget, **more), Machine(folder))


def same(one, other):
    """Whether two trained methods are the same to the last bit."""
    assert (one.setting, one.tried) == (other.setting, other.tried)
    for name in ("calibration", "test", "decided"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@examples(20)
@given(
    random_state=st.integers(0, 1000),
    clients=st.integers(2, 8),
    dealt=st.sampled_from([(0.5, None), (5.0, 1000), (100.0, 300)]),  # fewer rows, more even: no client is empty
)
def test_test_rows_are_in_no_other_part(random_state, clients, dealt):
    alpha, limit = dealt
    made = split_data(Split("adult", random_state, clients, alpha, limit=limit))
    together = np.concatenate(list(made.parts.values()))
    assert list(made.parts) == ["train", "calibration", "test"]
    np.testing.assert_array_equal(np.sort(together), np.arange(len(made.data)))  # every row, and none twice
    assert made.parts["test"].size == pytest.approx(0.3 * len(made.data), abs=1)


def test_the_same_split_has_the_same_rows_and_another_seed_others():
    one, again, other = split_data(SMALL), split_data(SMALL), split_data(replace(SMALL, random_state=1))
    np.testing.assert_array_equal(one.parts["test"], again.parts["test"])
    np.testing.assert_array_equal(one.sites, again.sites)
    assert not np.array_equal(one.parts["test"], other.parts["test"])


@pytest.mark.parametrize("method", METHODS)
def test_the_labels_of_test_rows_change_nothing(method, monkeypatch, tmp_path):
    use_settings(monkeypatch)
    rows = split_data(SMALL)
    labels = rows.data.labels.copy()
    labels[rows.parts["test"]] = 1 - labels[rows.parts["test"]]
    others = replace(rows, data=replace(rows.data, labels=labels))
    same(train(rows, method, tmp_path / "a"), train(others, method, tmp_path / "b"))


def test_test_rows_that_are_others_altogether_leave_the_choice_and_the_other_scores_alone(monkeypatch, tmp_path):
    use_settings(monkeypatch)
    rows, test = split_data(SMALL), split_data(SMALL).parts["test"]
    features, sensitive = rows.data.features.copy(), rows.data.sensitive.copy()
    features[test], sensitive[test] = features[test[::-1]] * 3.0, sensitive[test[::-1]]
    others = replace(rows, data=replace(rows.data, features=features, sensitive=sensitive))
    one, other = train(rows, "fedfb", tmp_path / "a"), train(others, "fedfb", tmp_path / "b")
    assert (one.setting, one.tried) == (other.setting, other.tried)
    np.testing.assert_array_equal(one.calibration, other.calibration)
    assert not np.array_equal(one.test, other.test)


def test_a_model_to_be_processed_sees_the_first_half_and_one_that_decides_both(monkeypatch, tmp_path):
    use_settings(monkeypatch)
    rows = split_data(SMALL)
    labels, calibration = rows.data.labels.copy(), rows.parts["calibration"]
    labels[calibration] = 1 - labels[calibration]
    others = replace(rows, data=replace(rows.data, labels=labels))
    one, other = (train(each, "fedavg", tmp_path / name, budget=1) for each, name in ((rows, "a"), (others, "b")))
    np.testing.assert_array_equal(one.test, other.test)  # not trained on calibration rows
    assert np.abs(one.decided - other.decided).max() > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_settings_that_differ_in_their_rounds_are_one_run(method):
    rows = split_data(SMALL)
    first = SETTINGS[method]["trials"][0]
    setting = {name: value for name, value in first.items() if name != "rounds"}
    places = [rows.parts["calibration"]]

    def after(*rounds):
        trial = Trial(setting, rounds)
        made = scores.train_trial(rows, rows.parts["train"], places, method, notion_of(method), trial)
        return {said["rounds"]: found for said, (found,) in made}

    together = after(2, 5)
    assert list(together) == [2, 5]
    for number in (2, 5):
        np.testing.assert_array_equal(together[number], after(number)[number])


def test_what_was_trained_is_read_back_bit_for_bit_and_not_trained_again(monkeypatch, tmp_path):
    use_settings(monkeypatch)
    made = train(split_data(SMALL), "fairfed", tmp_path)

    def nobody():
        raise AssertionError("the rows are not needed")

    again = trained(nobody, Training(SMALL, "fairfed", "demographic_parity", 3), Machine(tmp_path))
    same(made, again)
    assert len(list((tmp_path / "scores").iterdir())) == 1  # and no temporary file


def test_a_published_setting_is_trained_on_both_halves_and_nothing_is_tried(monkeypatch, tmp_path):
    use_settings(monkeypatch)
    made = train(split_data(SMALL), "fedfb", tmp_path, published=True)
    assert (made.setting["rounds"], made.tried) == (2, ())
    assert made.decided.size == split_data(SMALL).parts["test"].size


def test_the_chosen_setting_says_what_it_did_though_others_lack_one_of_its_values(monkeypatch, tmp_path):
    use_settings(monkeypatch)  # of FairFed's settings one has a step of FairBatch and the other none
    made = train(split_data(SMALL), "fairfed", tmp_path)
    for tried in made.tried:
        setting = {name: tried[name] for name in tried if name not in made.did}
        assert replace(made, setting=setting).did == {name: tried[name] for name in made.did}


def tried(*figures):
    return [{"accuracy": accuracy, "local_gap": gap, "global_gap": None} for accuracy, gap in figures]


def test_the_smallest_gap_among_those_that_lose_little_accuracy_is_chosen():
    assert choose(tried((0.85, 0.20), (0.84, 0.05), (0.70, 0.00)), "local") == 1
    assert choose(tried((0.85, 0.20), (0.8301, 0.10), (0.8299, 0.01)), "local") == 1  # 0.02 below is the limit
    assert choose(tried((0.85, 0.20), (0.84, None), (0.83, 0.19)), "local") == 2
    assert choose(tried((0.70, 0.00), (0.85, 0.20)), "local") == 1
    assert choose(tried((0.84, 0.10), (0.85, 0.10)), "local") == 0  # the first listed
    assert choose(tried((0.84, 0.00), (0.85, 0.20)), None) == 1


def test_where_no_gap_is_defined_the_most_accurate_is_chosen():
    assert choose(tried((0.60, None), (0.85, None), (0.84, None)), "local") == 1
    assert choose(tried((0.60, 0.0), (0.85, None)), "local") == 1  # a gap, but far too little accuracy
    assert choose(tried((0.60, 0.0), (0.85, 0.1)), "global") == 1


def test_a_setting_whose_model_diverges_is_tried_and_not_chosen(monkeypatch, tmp_path):
    wild = {"learning_rate": 1e30, "batch_size": 128, "local_epochs": 1, "optimiser": "sgd", "rounds": [2, 60]}
    calm = SETTINGS["fedavg"]["trials"]
    use_settings(monkeypatch, {"fedavg": {"trials": [wild, *calm]}})
    monkeypatch.setattr(scores, "train_trial", diverging(scores.train_trial))
    made = train(split_data(SMALL), "fedavg", tmp_path, budget=5)
    assert made.setting["learning_rate"] != 1e30
    assert len(made.tried) == 5
    assert [each["accuracy"] is None for each in made.tried] == [False, False, False, True, True]


def test_where_every_setting_diverges_the_sentence_says_so(monkeypatch, tmp_path):
    use_settings(monkeypatch, {"fedavg": {"trials": [{"learning_rate": 1e30, "rounds": [2]}]}})
    monkeypatch.setattr(scores, "train_trial", diverging(scores.train_trial))
    with pytest.raises(InputError, match="diverged"):
        train(split_data(SMALL), "fedavg", tmp_path)


def diverging(real):
    """Training that diverges with long steps."""

    def models(rows, places, scored, method, notion, trial, **more):
        if trial.setting["learning_rate"] > 1:
            raise InputError("train: the model diverged in round 1; use a smaller learning rate.")
        return real(rows, places, scored, method, notion, trial, **more)

    return models


def others(rows, changed):
    """The same split of data prepared anew: one row less, other labels, groups or features."""
    if changed == "rows":
        return replace(rows, parts={**rows.parts, "test": rows.parts["test"][:-1]})
    values = getattr(rows.data, changed).copy()
    values[rows.parts["test"]] = values[rows.parts["test"][::-1]]
    return replace(rows, data=replace(rows.data, **{changed: values}))


@pytest.mark.parametrize("changed", ["rows", "labels", "sensitive", "features"])
def test_scores_of_other_rows_are_refused(changed, monkeypatch, tmp_path):
    use_settings(monkeypatch)
    rows, machine = split_data(SMALL), Machine(tmp_path)
    train(rows, "fedavg", tmp_path)
    one = replace(case("logofair_lg"), split=SMALL)
    measure(one, rows, machine)
    with pytest.raises(InputError, match="the scores of adult, 3 clients, alpha 5, seed 0 belong to other rows"):
        measure(one, others(rows, changed), machine)


def test_scores_keep_what_they_were_trained_with(monkeypatch, tmp_path):
    use_settings(monkeypatch)
    rows = split_data(SMALL)
    made = train(rows, "fedavg", tmp_path, budget=1)
    assert made.trained_with == {"device": "cpu", **scores.versions()}
    monkeypatch.setattr(scores, "versions", lambda: {"torch": "of today"})
    assert train(rows, "fedavg", tmp_path, budget=1).trained_with == made.trained_with


@pytest.mark.parametrize("length", [0, 30, 2000, -30])
def test_a_file_of_scores_that_was_cut_is_named(length, monkeypatch, tmp_path):
    use_settings(monkeypatch)
    rows = split_data(SMALL)
    train(rows, "fedavg", tmp_path, budget=1)
    (path,) = (tmp_path / "scores").iterdir()
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match=r"\.npz: is damaged; delete it"):
        train(rows, "fedavg", tmp_path, budget=1)
