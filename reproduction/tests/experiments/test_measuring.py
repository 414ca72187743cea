"""What is measured of a case: the audit of test rows, bounds that are bounds, choices made on calibration rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest

from logofair.datasets import Dataset
from logofair_reproduction.experiments import measuring
from logofair_reproduction.experiments.experiment import METHODS, Split, Training
from logofair_reproduction.experiments.measuring import measure
from logofair_reproduction.experiments.scores import Machine, SplitData, Trained, split_data, trained
from made.experiments import SMALL, case, use_settings

pytestmark = pytest.mark.training

LARGER = replace(SMALL, limit=6000)


@pytest.fixture(scope="module", name="machine")
def _machine(tmp_path_factory):
    return Machine(tmp_path_factory.mktemp("results"))


@pytest.fixture(name="record")
def _record(machine, monkeypatch):
    use_settings(monkeypatch)

    def record(method, split=LARGER, **more):
        return measure(case(method, split, **more), split_data(split), machine)

    return record


def gap_by_hand(selected, groups):
    rates = [selected[groups == group].mean() for group in np.unique(groups)]
    return max(rates) - min(rates)


def test_the_figures_of_a_trained_model_are_those_counted_by_hand(record, machine):
    found = record("fedavg")
    rows = split_data(LARGER)
    model = trained(lambda: rows, Training(LARGER, "fedavg", None, 3), machine)
    test, decided = rows.rows("test"), model.decided >= 0.5
    inside = [
        gap_by_hand(decided[test.sites == name], test.groups[test.sites == name]) for name in np.unique(test.sites)
    ]
    figures = found["figures"]
    assert figures["accuracy"] == pytest.approx(np.mean(decided == test.labels), abs=1e-6)
    assert figures["global_gap"] == pytest.approx(gap_by_hand(decided, test.groups), abs=1e-6)
    assert figures["local_gap"] == pytest.approx(max(inside), abs=1e-6)
    assert figures["mean_local_gap"] == pytest.approx(np.mean(inside), abs=1e-6)
    assert 0 < figures["floor"] < figures["floor_at_tolerance"]
    assert found["setting"] == model.setting
    assert [each["rounds"] for each in found["tried"]] == [2, 5, 3]


def test_a_local_gap_that_is_undefined_is_not_written_as_0():
    groups = np.repeat(["a", "b"], 40)
    people = Dataset(name="toy", features=np.zeros((80, 1)), feature_names=("x",), labels=[0, 1] * 40, sensitive=groups)
    one_group_each = (groups == "b").astype(np.int32)
    rows = SplitData(Split("toy", 0), people, one_group_each, {"test": np.arange(80)})
    figures = measuring._figures(case("fedavg"), rows, groups == "a")
    assert figures["global_gap"] == 1.0
    names = ("local_gap", "local_gap_30", "mean_local_gap", "floor")
    assert [figures[name] for name in names] == [None] * 4  # no client has two groups


def test_tolerances_like_a_baseline_are_its_gaps_on_the_calibration_rows(record, machine, monkeypatch):
    given = []
    real = measuring.fit
    monkeypatch.setattr(measuring, "fit", lambda *columns, **more: given.append(more) or real(*columns, **more))
    record("like_fedfb")
    rows = split_data(LARGER)
    like = trained(lambda: rows, Training(LARGER, "fedfb", "demographic_parity", 3), machine)
    calibration = rows.rows("calibration")
    found = calibration.audit(like.calibration >= 0.5, "demographic_parity")
    assert given[-1]["local_tolerance"] == pytest.approx(found.headline_local.value, abs=1e-5)
    assert given[-1]["global_tolerance"] == pytest.approx(found.global_gap, abs=1e-5)


def test_a_gap_that_is_undefined_or_as_large_as_can_be_requires_nothing():
    none = np.zeros(0)
    did = {"accuracy": 0.8, "local_gap": 1.0, "global_gap": None}
    like = Trained({"rounds": 2}, ({"rounds": 2} | did,), none, none, none)
    found = measuring._tolerances(case("like_fcfl"), METHODS["like_fcfl"], [like, like])
    assert found == {"local_tolerance": None, "global_tolerance": None}


def test_no_rule_with_these_scores_and_gaps_does_better_than_the_oracle(record):
    ours, oracle = record("logofair_lg")["figures"], record("oracle_same")["figures"]
    assert oracle["accuracy"] >= ours["accuracy"] - 2e-6
    for gap in ("local_gap", "global_gap"):
        assert oracle[gap] <= ours[gap] + 2e-6


NOTION_PAIRS = ("demographic_parity", "equalized_odds", "demographic_parity / equal_opportunity")


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("notion", NOTION_PAIRS)
def test_the_oracle_at_a_rules_own_gaps_is_never_below_it_on_any_rows(notion, number):
    rng = np.random.default_rng(number)
    n, n_groups, n_clients = 400, 2 + number % 3, 1 + number
    code, clients = rng.integers(0, n_groups, n), rng.integers(0, n_clients, n).astype(np.int32)
    code[(clients == 1) & (number % 2 == 1)] = 0  # a client with one group
    scores = np.round(rng.beta(1 + 0.5 * code, 2), 1 + number % 2 * 3)  # few different ones, or many
    labels = (rng.random(n) < np.clip(scores + rng.normal(0, 0.2, n), 0, 1)).astype(int)
    names = np.array([f"group {each}" for each in code])
    people = Dataset(name="toy", features=np.zeros((n, 1)), feature_names=("x",), labels=labels, sensitive=names)
    parts = {"calibration": np.arange(n // 2), "test": np.arange(n // 2, n)}
    rows = SplitData(Split("toy", 0), people, clients, parts)
    model = Trained({}, (), scores[: n // 2], scores[n // 2 :], scores[n // 2 :])
    one = replace(case("logofair_lg"), notion=notion)
    ours, _ = measuring._processed(one, METHODS["logofair_lg"], rows, [model])
    best, _ = measuring._bound(one, METHODS["oracle_same"], rows, [model])
    assert best["accuracy"] >= ours["accuracy"] - 2e-6
    for gap in ("local_gap", "global_gap"):
        assert (best[gap] is None) == (ours[gap] is None)
        assert (best[gap] or 0.0) <= (ours[gap] or 0.0) + 2e-6


def test_bounds_keep_the_required_tolerances_on_the_test_rows_and_are_in_order(record):
    oracle, bound = record("oracle")["figures"], record("aglfop")["figures"]
    assert max(oracle["local_gap"], oracle["global_gap"]) <= 0.05 + 2e-6
    assert bound["accuracy"] >= oracle["accuracy"] - 2e-6
    assert bound["local_gap"] is None
    as_little = record("aglfop_information")["figures"]["accuracy"]
    assert record("logofair_lg")["figures"]["accuracy"] <= as_little <= 1.0


@pytest.mark.federation
def test_the_federated_protocol_is_worth_as_much_as_a_fit(record):
    fitted, protocol = record("logofair_lg"), record("protocol")
    assert protocol["figures"]["accuracy"] == pytest.approx(fitted["figures"]["accuracy"], abs=1e-4)
    assert 1 <= protocol["figures"]["rounds"] <= 5


@pytest.mark.parametrize("method", ["algorithm1_l", "algorithm1_g", "algorithm1_lg"])
def test_of_algorithm_1s_settings_that_of_the_smallest_excess_is_taken(record, method):
    found = record(method, SMALL, budget=9)
    assert len(found["tried"]) == 20
    setting = found["setting"]
    (taken,) = [
        each
        for each in found["tried"]
        if (each["rounds"], each["local_steps"], each["sharpness"])
        == (setting["T"], setting["S"], setting["sharpness"])
    ]
    best = min(found["tried"], key=lambda each: (round(each["excess"] / 0.001), -each["accuracy"]))
    assert taken == best
    assert found["figures"]["violation"] == pytest.approx(taken["excess"], abs=1e-4)


def test_at_a_level_algorithm_1_runs_so_many_rounds_of_its_best_setting(record):
    found = record("algorithm1_lg", SMALL, level=7)
    assert found["level"] == found["setting"]["T"] == 7
    assert [each["rounds"] for each in found["tried"]] == [7] * 4
    best = min(found["tried"], key=lambda each: (round(each["excess"] / 0.001), -each["accuracy"]))
    assert (found["setting"]["S"], found["setting"]["sharpness"]) == (best["local_steps"], best["sharpness"])


@pytest.mark.parametrize("method", ["fedfb_published", "on_fcfl", "binned", "like_fairfed"])
def test_every_kind_of_method_is_measured(record, method):
    found = record(method, SMALL)
    assert 0.5 < found["figures"]["accuracy"] <= 1
    assert found["method"] == method
    assert found["versions"]["logofair"]


def test_a_record_tells_its_day_its_rows_and_what_its_model_was_trained_with(record, monkeypatch):
    monkeypatch.setattr(measuring, "CATALOGUE", {"adult": SimpleNamespace(needs_files=True)})
    monkeypatch.setattr(measuring, "is_prepared", lambda folder: True)
    monkeypatch.setattr(measuring, "check_about", lambda *_: {"counts": {"rows kept": 50_000}, "year": "1994"})
    found = record("fedavg")
    assert found["date"] == date.today().isoformat()
    assert found["sample"] == {"of": 50_000, "year": "1994"}  # Adult has no natural clients
    assert found["trained_with"] == {"device": "cpu", **found["versions"]}
