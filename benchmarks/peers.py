"""The speed of decisions, a fit beside Fairlearn's, and the memory of a fit."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

import logofair
from benchmarks.measurements import Size, best, drawn_labels, federation
from logofair.columns.checks import Floats


def decision_speed(repeat: int, rows: int = 4_000_000) -> dict[str, float]:
    """Million rows decided per second: plain thresholds, and mixtures with ids."""
    scores, groups, clients = federation(Size(5, rows // 5))
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
            groups=groups[some],
            clients=clients[some],
            notion=notion,
            local_tolerance=tolerance,
            global_tolerance=tolerance,
            calibration="none",
        ).policy

        def work(policy: logofair.Policy = policy, ids: Any = ids) -> None:
            policy.decide(scores, groups=groups, clients=clients, ids=ids)

        speeds[name] = rows / best(work, repeat) / 1e6
    return speeds


def against_fairlearn(repeat: int, rows: int = 200_000) -> dict[str, Any] | None:
    """Fairlearn's ThresholdOptimizer on its own problem (one client, demographic parity), beside ours at its gap."""
    try:
        from fairlearn.postprocessing import ThresholdOptimizer
    except ImportError:
        return None
    scores, groups, _ = federation(Size(1, rows))
    labels = drawn_labels(scores)
    theirs = ThresholdOptimizer(
        estimator=GivenScores(), constraints="demographic_parity", predict_method="predict_proba", prefit=True
    )
    column = scores[:, None]
    fairlearn_seconds = best(lambda: theirs.fit(column, labels, sensitive_features=groups), max(1, repeat // 2))
    decided = theirs._pmf_predict(column, sensitive_features=groups)[:, 1]
    measured = logofair.audit(decided, labels, groups=groups)
    tolerance = float(measured.global_gap or 0.0)

    def ours() -> logofair.Solution:
        return logofair.fit(
            scores,
            labels,
            groups=groups,
            local_tolerance=None,
            global_tolerance=tolerance,
            calibration="none",
            basis="labels",
        )

    def default() -> logofair.Solution:  # calibrates out of fold, which Fairlearn does not
        return logofair.fit(scores, labels, groups=groups)

    solution = ours()
    return {
        "rows": rows,
        "fairlearn_seconds": fairlearn_seconds,
        "logofair_seconds": best(ours, repeat),
        "default_seconds": best(default, max(1, repeat // 2)),
        "gap": tolerance,
        "fairlearn_accuracy": float(measured.accuracy or 0.0),
        "logofair_accuracy": solution.certificate.primal,
    }


class GivenScores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type information
    """A fitted model that hands its one feature back as the score."""

    classes_ = np.array([0, 1])

    def fit(self, features: Any, labels: Any) -> GivenScores:
        """Nothing to learn."""
        return self

    def predict_proba(self, features: Any) -> Floats:
        """Chances of both labels."""
        return np.column_stack([1 - features[:, 0], features[:, 0]])

    def __sklearn_is_fitted__(self) -> bool:
        return True


def peak_memory(size: Size, notion: str, compiled: bool, *, default: bool = False) -> float | None:
    """Peak memory of a fit as a multiple of its input arrays, in a child process; None where it cannot be read.

    ``default``: with labels, beta calibration and the merged rule; else without all three.
    """
    code = f"from benchmarks.peers import *; print_peak(Size({size.clients}, {size.rows_each}), {notion!r}, {default})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"LOGOFAIR_ACCELERATE": "1" if compiled else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    return float(json.loads(done.stdout)) if done.returncode == 0 and done.stdout.strip() else None


def print_peak(size: Size, notion: str, default: bool) -> None:
    """Fit once small (to load everything), then measure the peak of a large fit."""
    given: dict[str, Any] = {"pooling": "none"} if default else {"calibration": "none", "merged": False}

    def fit(size: Size, measure: Callable[[Callable[[], Any], int], Any]) -> Any:
        scores, groups, clients = federation(size)
        labels = drawn_labels(scores) if default else None
        inputs = sum(column.nbytes for column in (scores, groups, clients, *([] if labels is None else [labels])))
        return measure(
            lambda: logofair.fit(scores, labels, groups=groups, clients=clients, notion=notion, **given), inputs
        )

    fit(Size(5, 1000), lambda work, inputs: work())
    found = fit(size, peak_of)
    print("" if found is None else found["multiple"])


def peak_of(work: Callable[[], Any], inputs: int) -> dict[str, float] | None:
    """Peak memory of some work on inputs of so many bytes: in GB with these, as a multiple of them; and its seconds."""
    gc.collect()
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = _status("VmRSS")
    except OSError:
        return None
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    peak = _status("VmHWM") - before + inputs
    return {"gb": peak / 1e9, "multiple": peak / inputs, "seconds": seconds}


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))
