"""How fast policies decide; how long a fit of very many sites takes, and how large its policy's file is."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import logofair
from benchmarks.measurements import Size, best, drawn_labels, federation

__all__ = ["GOALS", "decision_speed", "many_sites_policy", "show_policy"]

# Of a million sites with ten rows each: seconds of the fit, of saving and loading together, megabytes of the file.
GOALS = {"fit": 60.0, "file": 10.0, "megabytes": 60.0}


def decision_speed(repeat: int, rows: int = 4_000_000) -> dict[str, float]:
    """Million rows decided per second: plain thresholds, and mixtures with ids."""
    scores, groups, sites = federation(Size(5, rows // 5))
    some = slice(0, 200_000)
    speeds = {}
    for name, notion, ids in (
        ("plain thresholds", "demographic_parity", None),
        ("mixtures with ids", "equalized_odds", np.arange(rows)),
    ):
        tolerance = None if ids is None else 0.02
        policy = logofair.fit(
            scores[some],
            None,
            sensitive_features=groups[some],
            sites=sites[some],
            notion=notion,
            local_tolerance=tolerance,
            global_tolerance=tolerance,
            calibration="none",
        ).policy

        def work(policy: logofair.Policy = policy, ids: Any = ids) -> None:
            policy.decide(scores, sensitive_features=groups, sites=sites, ids=ids)

        speeds[name] = rows / best(work, repeat) / 1e6
    return speeds


def many_sites_policy(shrink: int = 1) -> dict[str, Any]:
    """Fit a million sites (divided by ``shrink``) without pooling, save the policy and load it.

    Examples
    --------
    >>> sorted(many_sites_policy(10_000))
    ['sites', 'fit_seconds', 'load_seconds', 'megabytes', 'save_seconds']
    """
    size = Size(1_000_000 // shrink, 10)
    scores, groups, sites = federation(size)
    labels = drawn_labels(scores)
    begin = time.perf_counter()
    policy = logofair.fit(scores, labels, sensitive_features=groups, sites=sites, pooling="none", random_state=0).policy
    fitted = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        policy.save(path)
        saved = time.perf_counter()
        logofair.Policy.load(path)
        loaded = time.perf_counter()
        megabytes = path.stat().st_size / 1e6
    return {
        "sites": size.sites,
        "fit_seconds": fitted - begin,
        "save_seconds": saved - fitted,
        "load_seconds": loaded - saved,
        "megabytes": megabytes,
    }


def show_policy(found: dict[str, Any], console: Console) -> None:
    """Print the measurements."""
    console.print(
        f"{found['sites']:,} sites with 10 rows each: fit {found['fit_seconds']:.1f} s (goal {GOALS['fit']:g}), "
        f"policy saved in {found['save_seconds']:.1f} s and loaded in {found['load_seconds']:.1f} s "
        f"(goal {GOALS['file']:g} together), {found['megabytes']:.0f} MB (goal {GOALS['megabytes']:g})"
    )
