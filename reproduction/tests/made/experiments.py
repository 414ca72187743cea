"""Small experiments: a few hundred rows of Adult, settings that train in a moment."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from logofair_reproduction.experiments import experiment
from logofair_reproduction.experiments.experiment import Case, Experiment, Split

SMALL = Split("adult", 0, clients=3, alpha=5.0, limit=900)
_STEPS = {"learning_rate": 0.05, "batch_size": 128, "local_epochs": 1}
# Two settings of one run for each method, and one more.
SETTINGS: Mapping[str, Any] = {
    "fedavg": {"trials": [_STEPS | {"rounds": [2, 5]}, _STEPS | {"learning_rate": 0.01, "rounds": [3]}]},
    "fedfb": {"trials": [_STEPS | {"alpha": 0.3, "rounds": [2, 5]}, _STEPS | {"alpha": 1.0, "rounds": [3]}]},
    "fairfed": {
        "trials": [
            _STEPS | {"beta": 0.5, "debias": "fairbatch", "debias_step": 0.05, "rounds": [2, 5]},
            _STEPS | {"beta": 1.0, "debias": "reweighing", "rounds": [3]},
        ]
    },
    "fcfl": {
        "trials": [
            {"tolerance": 0.05, "step_size": 0.5, "first_stage": 3, "batch_size": 64, "rounds": [2, 5]},
            {"tolerance": 0.01, "step_size": 0.5, "first_stage": 2, "batch_size": 64, "rounds": [3]},
        ]
    },
}


def use_settings(patch: pytest.MonkeyPatch, settings: Mapping[str, Any] = SETTINGS) -> None:
    """Let methods on Adult be trained with these settings, each of which is its own published one too."""
    real = experiment._toml
    changed = copy.deepcopy(dict(real("settings.toml")))
    changed["adult"] = {
        name: section | {"published": section["trials"][0] | {"rounds": [2]}} for name, section in settings.items()
    }
    patch.setattr(experiment, "_toml", lambda name: changed if name == "settings.toml" else real(name))


def case(method: str, split: Split = SMALL, *, budget: int = 3, level: float | None = None) -> Case:
    """A case of demographic parity at 0.05."""
    return Case("comparison_dp", split, "demographic_parity", method, 0.05, 0.05, level, budget)


def small_experiment(methods: Sequence[str], *, seeds: int = 2, budget: int = 1, data: str = "adult") -> Experiment:
    """Some methods on a few rows."""
    return Experiment(
        name="comparison_dp",
        title="Small",
        about="A few rows.",
        shows="table",
        notion="demographic_parity",
        tolerances=((0.05, 0.05),),
        seeds=seeds,
        budget=budget,
        methods=tuple(methods),
        splits=(replace(SMALL, data=data),),
    )
