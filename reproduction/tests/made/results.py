"""Made-up results of experiments: records with the figures a test gives them, one for every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PLACE = {
    "experiment": "comparison_dp",
    "data": "adult",
    "clients": 5,
    "alpha": 5.0,
    "scheme": "plain",
    "notion": "demographic_parity",
    "local_tolerance": 0.01,
    "global_tolerance": 0.01,
    "budget": 20,
}


def records(method: str, figures: Mapping[str, Sequence[float | None]], **place: Any) -> list[dict[str, Any]]:
    """One record for every seed; ``figures`` are their values, seed by seed."""
    seeds = max(map(len, figures.values()))
    return [
        {
            **PLACE,
            **place,
            "method": method,
            "random_state": number,
            "figures": {name: values[number] for name, values in figures.items()},
            "setting": {},
        }
        for number in range(seeds)
    ]


def steady(accuracy: float, local: float, global_: float, floor: float = 0.01, **more: float) -> dict[str, list[float]]:
    """Figures that vary so little over three seeds that every difference of 0.001 is beyond chance."""
    means = {
        "accuracy": accuracy,
        "local_gap": local,
        "local_gap_30": local,
        "global_gap": global_,
        "floor": floor,
        "floor_at_tolerance": floor,
        **more,
    }
    return {name: [mean - 0.00001, mean, mean + 0.00001] for name, mean in means.items()}


def noisy(accuracy: float, local: float, global_: float, floor: float = 0.01) -> dict[str, list[float]]:
    """Figures that vary so much over three seeds, unlike those of other lines, that no difference is beyond chance."""
    return {
        name: [values[1] + 0.3, values[1], values[1] - 0.3]
        for name, values in steady(accuracy, local, global_, floor).items()
    }
