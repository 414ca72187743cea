"""The memory of a fit, at its peak, in a process of its own."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import logofair
from benchmarks.measurements import Size, drawn_labels, federation


def peak_memory(size: Size, notion: str, compiled: bool, *, default: bool = False) -> float | None:
    """Peak memory of a fit as a multiple of its input arrays, in a child process; None where it cannot be read.

    ``default``: with labels, beta calibration and the merged rule; else without all three.
    """
    code = f"from benchmarks.memory import *; print_peak(Size({size.clients}, {size.rows_each}), {notion!r}, {default})"
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


def available() -> float:
    """Bytes of memory that are free; infinitely many where it cannot be read."""
    try:
        with open("/proc/meminfo") as file:
            return next(1024.0 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except OSError:
        return math.inf
