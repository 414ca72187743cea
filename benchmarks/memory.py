"""The memory of a fit, at its peak, in a process of its own."""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console

from benchmarks.measurements import CALLS, Size, a_fit, judged

GOAL = 3.0  # times the columns, of the default call


def peak_memory(size: Size, call: str) -> dict[str, float] | None:
    """Peak memory of a fit, called as one of ``CALLS`` says, with its columns; None where it cannot be read.

    In a process of its own: in bytes a row, and as a multiple of the columns, of which scores have 8 bytes a row,
    labels 1, groups and sites 8 each.
    """
    code = f"from benchmarks.memory import *; print_peak({call!r}, Size({size.sites}, {size.rows_each}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found: dict[str, float] | None = json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else None
    return found


def print_peak(call: str, size: Size) -> None:
    """Fit once small (to load everything), then measure the peak of a large fit; as JSON."""
    a_fit(call, Size(5, 1000), "demographic_parity")()
    work, inputs = a_fit(call, size, "demographic_parity"), size.rows * (24 + CALLS[call].get("labels", True))
    found = peak_of(work, inputs)
    columns = {"rows": size.rows, "bytes_a_row": inputs / size.rows}
    print(json.dumps(None if found is None else found | columns | {"peak_bytes_a_row": 1e9 * found["gb"] / size.rows}))


def show_memory(found: dict[str, dict[str, float] | None], console: Console) -> None:
    """Print the measurements."""
    for case, peak in found.items():
        if peak is not None:
            console.print(
                f"peak memory of a fit ({case}), {peak['rows']:,} rows: {peak['peak_bytes_a_row']:.0f} bytes a row, "
                f"{peak['multiple']:.1f} times its columns of {peak['bytes_a_row']:.0f} bytes "
                f"(goal {judged(peak['multiple'], GOAL)})"
            )


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


def own_peak() -> int:
    """Peak memory of this process in bytes.

    Not ``ru_maxrss`` where there is something else: it begins at what the process that started this one had.
    """
    try:
        return _status("VmHWM")
    except OSError:
        import resource

        return (1 if sys.platform == "darwin" else 1024) * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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
