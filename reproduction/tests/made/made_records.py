"""Records as a run writes them, with made-up figures: for tests of what is made of records."""

from __future__ import annotations

from typing import Any

import numpy as np

from logofair_reproduction.experiments.experiment import METHODS, load_experiment


def made_records(experiment: str, *, data: str = "adult", splits: int = 3, **narrowed: Any) -> list[dict[str, Any]]:
    """Records of an experiment's cases on one data set; every method lies somewhere else, so that marks differ."""
    (plan,) = load_experiment(experiment, data=[data], seeds=splits, **narrowed)
    rng = np.random.default_rng(0)
    return [_record(case, list(METHODS).index(case.method), rng) for case in plan.cases()]


def _record(case: Any, number: int, rng: np.random.Generator) -> dict[str, Any]:
    bound = METHODS[case.method].bound
    level = 0.0 if case.level is None else 0.02 / case.level
    figures: dict[str, float | None] = {
        "accuracy": 0.84 - 0.001 * number - level + rng.normal(0, 0.001),
        "local_gap": 0.02 + 0.006 * number + level + abs(rng.normal(0, 0.003)),
        "local_gap_30": 0.02 + 0.005 * number,
        "global_gap": 0.01 + 0.005 * ((7 * number) % 23) + level + abs(rng.normal(0, 0.003)),
        "floor": 0.03,
        "floor_at_tolerance": 0.032,
    }
    if bound.startswith("aglfop"):
        figures = {"accuracy": 0.94, "local_gap": None, "global_gap": None}
    if case.method == "protocol":
        figures |= {"rounds": 2.0}
    setting = {"learning_rate": 0.01, "rounds": 20, "T": 50, "S": 20, "sharpness": 20.0}
    return {**case.as_dict(), "figures": figures, "setting": setting, "tried": [], "versions": {"logofair": "0.1.0"}}
