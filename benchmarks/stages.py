"""Where the time of a fit goes: the functions of its stages timed inside real calls.

A stage is the time inside some functions of the library, but for those that another stage has called: the merged rule,
say, counts with its order and its solver. What no stage covers is the rest.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from rich.console import Console
from rich.text import Text

from benchmarks.measurements import Size, a_fit, lined

# The functions of each stage: module, colon, name.
STAGES: dict[str, tuple[str, ...]] = {
    "columns checked and numbered": ("logofair.fitting.solving:checked_rows",),
    "rows ordered, folds drawn": (
        "logofair.columns.rows:Rows.order",
        "logofair.calibration.crossfit:both_in_threads",
    ),
    "folds assigned": (
        "logofair.calibration.crossfit:assign_folds",
        "logofair.calibration.fits:FoldRuns.of",
    ),
    "maps fitted, with and without folds": (
        "logofair.calibration.fits:LogisticFits.of",
        "logofair.calibration.fits:LogisticFits.maps",
    ),
    "out-of-fold chances": ("logofair.calibration.crossfit:held_out_chances",),
    "isotonic chances": ("logofair.fitting.solving:isotonic_chances",),
    "pooling": tuple(f"logofair.fitting.solving:{name}" for name in ("choose", "group_priors", "borrow")),
    "cells and hulls": (
        "logofair.fitting.solving:build_cells",
        "logofair.fitting.solving:cells_in_order",
        "logofair.solvers.problem:make_problem",
    ),
    "solver": ("logofair.solvers.decomposition:solve_exact", "logofair.solvers.joint:solve_joint"),
    "rules stored": ("logofair.policy.mixtures:reduce",),
    "certificate": ("logofair.solvers.certificate:certify",),
    "merged rule": ("logofair.fitting.solving:merged_cells", "logofair.fitting.solving:merged_rules"),
    "policy and warnings": ("logofair.fitting.fit:_make_solution",),
}
REST = "the rest"

# Short names of calls, the calls, sites and rows of each.
WHERE = (
    ("default", "default call", 5, 200_000),
    ("default", "default call", 1_000, 1_000),
    ("merged", "pooling none, then merged rule", 5, 200_000),
    ("merged", "pooling none, then merged rule", 1_000, 1_000),
    ("merged", "pooling none, then merged rule", 100_000, 10),
    ("solver", "calibration none", 5, 200_000),
)


def all_stages(repeat: int, shrink: int = 1) -> dict[str, dict[str, dict[str, float]]]:
    """For each notion the stages of every call; ``shrink`` divides the rows."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for notion in ("demographic_parity", "equalized_odds"):
        case = found.setdefault(notion, {})
        for name, call, sites, rows in WHERE:
            size = Size(max(sites // shrink, 5), rows if sites > 5 else rows // shrink)
            case[f"{name} {size.sites:,}"] = stages(call, size, notion, repeat)
    return found


def stages(call: str, size: Size, notion: str, repeat: int) -> dict[str, float]:
    """Milliseconds of every stage of the fastest of several fits, called as ``CALLS`` says.

    Examples
    --------
    >>> found = stages("pooling none", Size(5, 200), "demographic_parity", 1)
    >>> list(found) == [*STAGES, REST], found["solver"] > 0, found["pooling"]
    (True, True, 0.0)
    """
    work = a_fit(call, size, notion)
    fastest: tuple[float, dict[str, float]] = float("inf"), {}
    work()
    for _ in range(repeat):
        with timed_stages() as taken:
            begin = time.perf_counter()
            work()
            seconds = time.perf_counter() - begin
        fastest = min(fastest, (seconds, taken | {REST: seconds - sum(taken.values())}), key=lambda each: each[0])
    return {name: 1e3 * each for name, each in fastest[1].items()}


@contextmanager
def timed_stages() -> Iterator[dict[str, float]]:
    """Time the stages of what is called meanwhile, in seconds."""
    taken, inside = dict.fromkeys(STAGES, 0.0), [False]
    undo: list[tuple[Any, str, Any]] = []
    try:
        for stage, names in STAGES.items():
            for owner, name, work in (place for each in names for place in _places(each)):
                undo.append((owner, name, work))
                bare = work.__func__ if isinstance(work, classmethod) else work
                timed = _timed(bare, stage, taken, inside)
                setattr(owner, name, classmethod(timed) if isinstance(work, classmethod) else timed)
        yield taken
    finally:
        for owner, name, work in reversed(undo):
            setattr(owner, name, work)


def _places(path: str) -> list[tuple[Any, str, Any]]:
    """Where a function is bound: every module of the library that has imported it, or its class."""
    module, _, name = path.partition(":")
    owner: Any = importlib.import_module(module)
    if "." in name:
        kind, name = name.split(".")
        owner = getattr(owner, kind)
        return [(owner, name, vars(owner)[name])]
    work = getattr(owner, name)
    modules = [each for key, each in sys.modules.items() if key.partition(".")[0] == "logofair"]
    return [(each, name, work) for each in modules if vars(each).get(name) is work]


def _timed(work: Callable[..., Any], stage: str, taken: dict[str, float], inside: list[bool]) -> Callable[..., Any]:
    @wraps(work)
    def timed(*args: Any, **given: Any) -> Any:
        if inside[0]:
            return work(*args, **given)
        inside[0], begin = True, time.perf_counter()
        try:
            return work(*args, **given)
        finally:
            inside[0] = False
            taken[stage] += time.perf_counter() - begin

    return timed


def show_stages(found: dict[str, dict[str, dict[str, float]]], console: Console) -> None:
    """Print a table for each notion: stages by line, calls and sites by column.

    "default" is the default call, "merged" one without pooling and then the merged rule, "solver" one without labels,
    calibration and pooling.
    """
    for case, calls in found.items():
        console.print(Text(f"where the time of a fit goes ({case}), in milliseconds", style="bold"))
        lines = [["", *(name.replace(" ", "\n") for name in calls)]]
        for stage in (*STAGES, REST):
            each = [parts[stage] for parts in calls.values()]
            if max(each) >= 0.05:
                lines.append([stage, *(f"{ms:,.1f}" if ms >= 0.05 else "" for ms in each)])
        console.print(lined([*lines, ["all", *(f"{sum(parts.values()):,.1f}" for parts in calls.values())]]))
