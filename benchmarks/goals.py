"""What is promised of speed, measured alone by ``python -m benchmarks --goals``: fits, processes, a large fit."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from benchmarks.measurements import (
    Size,
    Timing,
    as_plain,
    best,
    drawn_labels,
    federation,
    judged,
    lined,
    sort_seconds,
    time_fit,
)
from benchmarks.scaling import measured as measured_apart
from logofair.progress import Progress

NOTIONS = {"demographic_parity": "DP", "equalized_odds": "EO"}
# Multiples of the sort, for demographic parity and equalized odds, a million rows: of the default call as it is, which
# pools, and without pooling, which makes cells larger; then of the solver, without calibration and pooling.
Case = tuple[str, Size, tuple[float | None, float | None]]
FITS: list[Case] = [
    (call, size, goals)
    for call in ("default call", "pooling none")
    for size, goals in (
        (Size(5, 200_000), (40.0, 48.0)),
        (Size(1_000, 1_000), (115.0, 145.0)),
        (Size(100_000, 10), (1_100.0, 1_500.0)),
    )
]
FITS += [
    ("calibration none", Size(5, 200_000), (8.0, 12.0)),
    ("calibration none", Size(1_000, 1_000, 5), (None, 60.0)),
]
# Fits without goals of their own.
MORE_FITS: list[Case] = [
    (call, size, (None, None))
    for call, sizes in {
        "calibration none": (
            Size(5, 200_000, 3), Size(5, 200_000, 5), Size(1_000, 1_000), Size(1_000, 1_000, 3), Size(100_000, 100)
        ),
        "pooling none, then merged rule": (Size(5, 200_000), Size(1_000, 1_000)),
        "on labels": (Size(5, 200_000),),
        "isotonic": (Size(5, 200_000), Size(1_000, 1_000)),
    }.items()
    for size in sizes
]  # fmt: skip
# Of the rest: the first call of a process in warm ones, seconds of an import and of the help, and the GB of a fit of a
# hundred million rows.
GOALS = {"first": 1.25, "import": 0.03, "help": 0.15, "gb": 8.0}
_LARGEST = 100_000_000


def measured_fits(cases: list[Case], repeat: int, shrink: int, progress: Progress) -> dict[str, Any]:
    """Time fits, with the sorts that they are multiples of; ``shrink`` divides the rows, and leaves out goals."""
    units: dict[int, dict[str, float]] = {}
    timings: list[Timing] = []
    for call, given, goals in progress(cases, "Fits", len(cases)):
        # Few sites keep their number and have fewer rows; many keep their rows and are fewer.
        few = given.sites == 5
        size = Size(max(given.sites // shrink, 5), given.rows_each // (shrink if few else 1), given.groups)
        if size.rows not in units:
            units[size.rows] = sort_seconds(federation(size)[0], max(repeat, 5))
        unit = min(units[size.rows].values())
        runs = repeat if size.sites < 100_000 else max(2, repeat // 2)
        for notion, goal in zip(NOTIONS, goals, strict=True):
            timings.append(time_fit(size, notion, unit, goal if shrink == 1 else None, runs, call=call))
    return {"sort_seconds": units, "fit": as_plain(timings)}


def processes(repeat: int, shrink: int) -> dict[str, Any]:
    """What a process waits for: the import, the first call, the help; and the peak memory of a large fit.

    Examples
    --------
    >>> found = processes(1, 10_000)
    >>> sorted(found), sorted(found["first"]), found["help"] > 0
    (['first', 'help', 'import', 'largest'], ['first', 'load', 'warm'], True)
    """
    (largest,) = measured_apart([_LARGEST // shrink], "default call")
    runs, command = max(repeat, 3), [sys.executable, "-m", "logofair", "--help"]
    return {
        "import": min(apart(_IMPORT) for _ in range(runs)),
        "first": first_call(Size(5, 200_000 // shrink), runs),
        "help": best(lambda: subprocess.run(command, capture_output=True, check=True), runs),
        "largest": largest,
    }


def apart(code: str, *words: str) -> Any:
    """What some code prints as JSON in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


_IMPORT = "import time; begin = time.perf_counter(); import logofair; print(time.perf_counter() - begin)"


def first_call(size: Size, repeat: int) -> dict[str, float]:
    """Seconds of loading ``logofair.fit``, of its first call and of a warm one; best of some processes.

    The columns are there, and numpy with them.
    """
    scores, groups, sites = federation(size)
    columns = {"scores": scores, "labels": drawn_labels(scores), "sensitive_features": groups, "sites": sites}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "columns.npz"
        np.savez(path, **columns)
        runs = [apart(_FIRST_CALL, str(path)) for _ in range(repeat)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


_FIRST_CALL = """
import json, sys, time
import numpy
columns, times = dict(numpy.load(sys.argv[1])), [time.perf_counter()]
import logofair
logofair.fit
times.append(time.perf_counter())
for _ in range(6):
    logofair.fit(**columns)
    times.append(time.perf_counter())
load, first, *warm = (end - begin for begin, end in zip(times, times[1:]))
print(json.dumps({"load": load, "first": first, "warm": min(warm)}))
"""


def show_goals(results: dict[str, Any], console: Console) -> None:
    """Print the sorts, the fits, and what a process waits for."""
    for rows, paths in results["sort_seconds"].items():
        shown = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in paths.items())
        console.print(f"numpy sort of {int(rows):,} scores: {shown}")
    _show_fits(results["fit"], console)
    found = results["processes"]
    first = found["first"]
    loaded, loading = (each / first["warm"] for each in (first["first"], first["load"] + first["first"]))
    console.print(
        f"first call of a process: {loaded:.2f} times a warm one, {loading:.2f} times with the "
        f"{1e3 * first['load']:.0f} ms of loading before it (goal {judged(loading, GOALS['first'])})"
    )
    for name, seconds, goal in (
        ("import logofair", found["import"], GOALS["import"]),
        ("logofair --help", found["help"], GOALS["help"]),
    ):
        console.print(f"{name}: {seconds:.3f} s (goal {judged(seconds, goal)})")
    largest = found["largest"]
    if largest is None or "peak_gb" not in largest:
        console.print("a large fit: no room in memory here")
    else:
        console.print(
            f"default call without pooling, {largest['rows']:,} rows at 1,000 sites: peak memory "
            f"{largest['peak_gb']:.2f} GB with the rows (goal {judged(largest['peak_gb'], GOALS['gb'])}), "
            f"{largest['seconds']:.1f} s"
        )


def _show_fits(timings: list[dict[str, Any]], console: Console) -> None:
    """Print how long fits take; what was proved of them is in the JSON."""
    lines = [["call", "sites x rows", "", "sorts", "goal", "ms"]]
    for t in timings:
        goal = "" if t["goal"] is None else judged(t["multiple"], t["goal"])
        measured = f"{t['multiple']:.1f}", goal, f"{1e3 * t['seconds']:.0f}"
        lines.append([t["call"], t["size"], NOTIONS[t["notion"]], *measured])
    console.print(Text("fit from raw arrays, in multiples of the faster sort", style="bold"))
    console.print(lined(lines))
