"""The speed of fits: ratios within one run, best of several, on data made here.

The unit is numpy's own sort of the same scores. numpy has several sort paths and picks one by processor, not always the
fastest (on some AVX-512 machines the AVX2 path is five times faster), so both are timed, the second in a child
process with AVX-512 switched off, and the faster is the unit.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

import logofair
from logofair.columns.checks import Floats


@dataclass(frozen=True)
class Size:
    """Sites, rows per site and groups of a generated federation."""

    sites: int
    rows_each: int
    groups: int = 2

    @property
    def rows(self) -> int:
        """Rows in all."""
        return self.sites * self.rows_each

    def __str__(self) -> str:
        groups = "" if self.groups == 2 else f", {self.groups} groups"
        return f"{self.sites:,} x {self.rows_each:,}{groups}"


# What is given of ``fit`` beside the requirements; labels are given unless ``labels`` is False, and the merged rule,
# which a fit leaves for later, is only made where ``then_merged`` says so.
CALLS: dict[str, dict[str, Any]] = {
    "default call": {},
    "pooling none": {"pooling": "none"},
    "pooling none, then merged rule": {"pooling": "none", "then_merged": True},
    "calibration none": {"labels": False, "calibration": "none", "pooling": "none"},
    "on labels": {"calibration": "none", "basis": "labels"},
    "isotonic": {"calibration": "isotonic", "pooling": "none"},
}


@dataclass(frozen=True)
class Timing:
    """One fit: the best of several runs, as seconds and as a multiple of the sort."""

    call: str
    size: str
    notion: str
    seconds: float
    multiple: float
    goal: float | None
    gap: float
    violation: float
    rounds: int


def federation(size: Size, seed: int = 0) -> tuple[Floats, Any, Any]:
    """Scores, groups and sites whose sites and groups differ, as plain integer columns."""
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, size.groups, size.rows), rng.integers(0, size.sites, size.rows)
    shift = rng.normal(0.0, 0.3, (size.sites, size.groups)) + 0.5 * np.arange(size.groups)
    return 1.0 / (1.0 + np.exp(0.8 - shift[site, group] - rng.normal(0.0, 1.2, size.rows))), group, site


def best(work: Callable[[], Any], repeat: int) -> float:
    """Shortest of several runs, in seconds."""
    shortest = float("inf")
    gc.collect()
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest


def sort_seconds(scores: Floats, repeat: int) -> dict[str, float]:
    """Seconds of numpy's default sort of these scores, and of its path without AVX-512."""
    found = {"default": best(lambda: np.sort(scores), repeat)}
    other = _sort_without_avx512(scores, max(repeat, 3))
    return found if other is None else found | {"without AVX-512": other}


def _sort_without_avx512(scores: Floats, repeat: int) -> float | None:
    # No public name tells which instruction sets numpy chose among at run time.
    core = import_module("numpy._core._multiarray_umath")
    wide = [name for name in core.__cpu_dispatch__ if "512" in name or name == "X86_V4"]
    wide = [name for name in wide if core.__cpu_features__.get(name)]
    if not wide:
        return None
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/scores.npy", scores)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _SORT, folder, str(repeat)],
            env=os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(wide)},
            capture_output=True,
            text=True,
            check=False,
        )
    return float(done.stdout) if done.returncode == 0 and done.stdout else None


_SORT = """
import sys, time
import numpy
scores, best = numpy.load(sys.argv[1] + "/scores.npy"), 1e9
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter()
    numpy.sort(scores)
    best = min(best, time.perf_counter() - begin)
print(best)
"""


def time_fit(
    size: Size,
    notion: str,
    unit: float,
    goal: float | None,
    repeat: int,
    tolerances: tuple[float, float] = (0.02, 0.005),
    call: str = "calibration none",
) -> Timing:
    """Time ``fit`` from raw arrays, called as one of ``CALLS`` says, with tolerances that bind."""
    work = a_fit(call, size, notion, tolerances)
    solution = work()
    seconds = best(work, repeat)
    proof = solution.certificate
    assert proof.optimality_gap is not None
    proved = proof.optimality_gap, proof.violation, solution.rounds
    return Timing(call, str(size), notion, seconds, seconds / unit, goal, *proved)


def a_fit(
    call: str, size: Size, notion: str, tolerances: tuple[float, float] = (0.02, 0.005)
) -> Callable[[], logofair.Solution]:
    """A call of ``fit`` on generated rows, as one of ``CALLS`` says."""
    scores, groups, sites = federation(size)
    given = dict(CALLS[call])
    labels = drawn_labels(scores) if given.pop("labels", True) else None
    given |= {"notion": notion, "local_tolerance": tolerances[0], "global_tolerance": tolerances[1]}
    then_merged = given.pop("then_merged", False)

    def work() -> logofair.Solution:
        solution = logofair.fit(scores, labels, sensitive_features=groups, sites=sites, **given)
        if then_merged:
            assert solution.policy.merged is not None
        return solution

    return work


def judged(found: float, goal: float) -> str:
    """A goal, and whether it is met: less is better.

    Examples
    --------
    >>> judged(2.5, 3.0), judged(3.5, 3.0)
    ('3 met', '3 missed')
    """
    return f"{goal:g} {'met' if found <= goal else 'missed'}"


def drawn_labels(scores: Floats) -> Any:
    """A label for every score, true with its chance."""
    return (np.random.default_rng(1).random(scores.size) < scores).astype(np.int8)


def frame_seconds(size: Size, repeat: int) -> float | None:
    """Seconds of the default call on columns of a pandas DataFrame, groups and sites as text; None without pandas."""
    if not find_spec("pandas"):
        return None
    import pandas  # type: ignore[import-untyped,unused-ignore]

    scores, groups, sites = federation(size)
    names = np.array(["female", "male"]), np.array([f"site {c}" for c in range(size.sites)])
    rows = pandas.DataFrame(
        {"score": scores, "label": drawn_labels(scores), "sex": names[0][groups], "site": names[1][sites]}
    )

    def work() -> None:
        logofair.fit(rows["score"], rows["label"], sensitive_features=rows["sex"], sites=rows["site"])

    work()
    return best(work, repeat)


def many_groups(shrink: int) -> list[dict[str, Any]]:
    """Fits with many groups under equalized odds, where rounds are many: seconds, with what was proved."""
    cases = [
        (Size(30, 1_000, 20), 0.0),
        (Size(200, 1_000, 12), 0.0),
        (Size(200, 1_000, 12), 0.02),
        (Size(35, 1_000, 5), 0.0),
    ]
    found = []
    for size, local in cases:
        small = Size(max(size.sites // shrink, 5), size.rows_each, size.groups)
        timing = time_fit(small, "equalized_odds", 1.0, None, 1, (local, local / 4))
        found.append(asdict(timing) | {"tolerance": local})
    return found


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


def as_plain(timings: list[Timing]) -> list[dict[str, Any]]:
    """Timings as dictionaries."""
    return [asdict(timing) for timing in timings]


def lined(lines: Sequence[Sequence[str]]) -> Table:
    """A table of these lines, the first its head; the first column is text, the others are figures."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for place, header in enumerate(lines[0]):
        table.add_column(header, justify="right" if place else "left", overflow="fold", no_wrap=bool(place))
    for line in lines[1:]:
        table.add_row(*line)
    return table
