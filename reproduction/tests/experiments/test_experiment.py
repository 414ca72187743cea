"""Experiments as data: every file loads, what it names exists, and every method has the same number of settings."""

from __future__ import annotations

import copy
import json
from dataclasses import fields, replace

import pytest

from logofair.errors import InputError
from logofair.notions import NOTIONS
from logofair_reproduction.datasets import CATALOGUE
from logofair_reproduction.experiments import experiment
from logofair_reproduction.experiments.experiment import (
    METHODS,
    Case,
    Experiment,
    Split,
    experiment_names,
    load_experiment,
    trials,
)
from logofair_reproduction.experiments.records import identity
from logofair_reproduction.experiments.summaries import paper_figures
from support.data import DATA

TABLES = DATA.parent / "paper" / "tables.json"
TRAINED = ("fedavg", "fedfb", "fairfed", "fcfl")


def case(method, data="adult", budget=20):
    return Case("comparison_dp", Split(data, 0), "demographic_parity", method, 0.01, 0.01, None, budget)


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_loads_and_what_it_names_exists(name):
    for part in load_experiment(name, seeds=1):
        assert part.shows in ("table", "curve")
        assert part.title
        assert part.about.endswith(".")
        assert set(part.methods) <= set(METHODS)
        for split in part.splits:
            assert split.data in CATALOGUE
            assert split.sensitive in (None, *CATALOGUE[split.data].sensitive)
        for one in part.cases():
            assert set(one.notions) <= set(NOTIONS)
            for training in one.trainings:  # raises where a data set lists no setting of a method
                assert training.trials


@pytest.mark.parametrize("name", experiment_names())
def test_no_case_of_an_experiment_is_there_twice(name):
    found = [identity(one.as_dict()) for part in load_experiment(name, seeds=2) for one in part.cases()]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", experiment_names())
def test_a_quick_run_is_a_part_of_the_experiment_with_fewer_seeds_and_settings(name):
    full = {part.splits[0].data: part for part in load_experiment(name)}
    for part in load_experiment(name, quick=True):
        all_of_it = full[part.splits[0].data]
        assert part.seeds == 2 < all_of_it.seeds
        assert part.budget <= min(3, all_of_it.budget)
        assert set(part.splits) <= set(all_of_it.splits)
        assert set(part.methods) <= set(all_of_it.methods)


@pytest.mark.parametrize("data", ["adult", "enem"])
@pytest.mark.parametrize("method", [*TRAINED, "algorithm1"])
def test_every_method_has_twenty_settings_and_none_twice(data, method):
    listed = [json.dumps(each, sort_keys=True) for trial in trials(data, method) for each in trial.as_dicts()]
    assert len(listed) == 20
    assert len(set(listed)) == 20


def test_a_budget_takes_the_first_settings_listed():
    everything = [each for trial in trials("adult", "fcfl") for each in trial.as_dicts()]
    for budget in range(1, 21):
        some = [each for trial in trials("adult", "fcfl", budget) for each in trial.as_dicts()]
        assert some == everything[:budget]


@pytest.mark.parametrize(
    ("place", "changed", "unchanged"),
    [
        (("adult", "fedfb", "trials"), ["fedfb", "on_fedfb", "like_fedfb"], ["fedavg", "fairfed", "fedfb_published"]),
        (("adult", "fedfb", "published"), ["fedfb_published"], ["fedavg", "fedfb", "on_fedfb", "like_fedfb"]),
        (("algorithm1", "trials"), ["algorithm1_lg"], []),
    ],
)
def test_a_setting_that_is_changed_makes_other_cases_of_all_that_depend_on_it(monkeypatch, place, changed, unchanged):
    names = [*changed, *unchanged]
    before = {name: identity(case(name).as_dict()) for name in names}
    real = experiment._toml
    settings = copy.deepcopy(dict(real("settings.toml")))
    section = settings
    for key in place:
        section = section[key]
    (section[0] if isinstance(section, list) else section)["rounds"] = [7]
    monkeypatch.setattr(experiment, "_toml", lambda name: settings if name == "settings.toml" else real(name))
    assert [name for name in names if identity(case(name).as_dict()) != before[name]] == changed


def test_a_quick_run_tries_few_settings_of_algorithm_1_and_says_so():
    quick, full = (load_experiment("rounds_dp", quick=quick, data=["adult"])[0] for quick in (True, False))
    few, every = (next(c for c in part.cases() if c.method == "algorithm1_lg") for part in (quick, full))
    tried = trials("", "algorithm1", few.solver_budget)
    assert sum(len(trial.rounds) for trial in tried) == 4
    assert max(quick.levels) <= max(round for trial in tried for round in trial.rounds)
    assert few.as_dict()["solver_budget"] == 4
    assert "solver_budget" not in every.as_dict()
    assert few.as_dict()["plan"] != every.as_dict()["plan"]


def test_every_setting_of_algorithm_1_is_tried_whatever_the_budget(monkeypatch):
    tried = [replace(case("algorithm1_lg"), budget=1, level=level) for level in (None, 10)]
    before = [each.as_dict()["plan"] for each in tried]
    real = experiment._toml
    settings = copy.deepcopy(dict(real("settings.toml")))
    settings["algorithm1"]["trials"][-1]["rounds"] = [7]  # beyond a budget of one
    monkeypatch.setattr(experiment, "_toml", lambda name: settings if name == "settings.toml" else real(name))
    assert not set(before) & {each.as_dict()["plan"] for each in tried}


def test_parts_of_an_experiment_can_be_chosen():
    (part,) = load_experiment("comparison_dp", data=["adult"], methods=["fedfb"], alphas=[0.5], seeds=1, budget=2)
    (found,) = part.cases()
    assert (found.method, found.split, found.budget) == ("fedfb", Split("adult", 0), 2)
    assert load_experiment("comparison_dp", data=["acs"]) == []
    assert load_experiment("natural", alphas=[0.5]) == []


def test_an_unknown_experiment_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match=r"got 'mixd' \(did you mean 'mixed'\?\); use one of .*, sensitivity_eo\.$"):
        load_experiment("mixd")


@pytest.mark.skipif(not TABLES.is_file(), reason=f"the paper's tables are not at {TABLES}")
@pytest.mark.parametrize("name", ["comparison_dp", "comparison_eo", "sensitivity_dp", "sensitivity_eo"])
def test_the_papers_figures_are_those_of_its_tables(name):
    for row in json.loads(TABLES.read_text())[name]["rows"]:
        named = [plan.name for plan in METHODS.values() if plan.paper == row.get("method", "LoGoFair_l&g")]
        assert named, row
        at = f"{row['alpha']:g}" if "alpha" in row else f"{row['delta_local']:g}, {row['delta_global']:g}"
        own = paper_figures().filter(experiment=name, data=row["dataset"], at=at)
        for method in named:
            found = dict(own.filter(method=method).select("figure", "claimed").rows())
            assert found == {"accuracy": row["accuracy"], "local_gap": row["local"], "global_gap": row["global"]}


KEYS = {field.name for field in fields(Experiment)} - {"name", "splits", "solver_budget"}
KEYS |= {field.name for field in fields(Split)} - {"data", "random_state"} | {"natural"}


@pytest.mark.parametrize("name", experiment_names())
def test_no_word_of_a_plan_is_misspelt(name):
    plan = experiment._toml(f"plans/{name}.toml")
    for table in (plan, *plan["data"].values(), plan["quick"]):
        assert table.keys() - {"data", "quick"} <= KEYS
        assert set(table.get("methods", ())) <= METHODS.keys()


@pytest.mark.parametrize("name", [name for name in experiment_names() if name.endswith("_dp")])
def test_experiments_on_both_notions_differ_in_what_the_notion_makes_different(name):
    one, other = (experiment._toml(f"plans/{each}.toml") for each in (name, name.replace("_dp", "_eo")))
    differ = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    assert differ <= {"title", "about", "notion", "tolerances", "paper"}
