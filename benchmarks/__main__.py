"""``make bench``: how fast fitting, deciding and federations are here, as ratios within one run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from logofair.cli.options import examples, such_that
from logofair.cli.pages.console import page, showing_progress
from logofair.progress import Progress

if TYPE_CHECKING:
    from benchmarks import measurements


# Goals as multiples of the sort: by notion, for two groups.
_GOALS = {
    (5, 200_000): {"demographic_parity": 4.0, "equalized_odds": 10.0},
    (1_000, 1_000): {"demographic_parity": 8.0, "equalized_odds": 40.0},
    (100_000, 100): {"demographic_parity": 15.0, "equalized_odds": 80.0},
}
_MORE_GROUPS = (3, 5)
# The same for more groups, by clients, groups and notion, and the most seconds of fits with many groups.
_MORE_GOALS = {(1_000, 5, "equalized_odds"): 60.0}
_MANY_GROUPS_GOAL = 5.0
# The same for other calls, two groups, by clients and rows of each; pooling may double the default call's.
_CALL_GOALS: dict[str, dict[tuple[int, int], float | None]] = {
    "with the merged rule": {(5, 200_000): None},
    "on labels": {(5, 200_000): None},
    "default call": {(5, 200_000): 80.0, (1_000, 1_000): 120.0, (100_000, 10): 250.0},
    "default call, then merged rule": {(5, 200_000): 80.0, (1_000, 1_000): 120.0},
    "with pooling": {(5, 200_000): 160.0, (1_000, 1_000): 240.0, (100_000, 10): None},
    "isotonic": {(5, 200_000): None, (1_000, 1_000): None},
}
_FRAME_GOAL = 0.5  # seconds of the default call on a million rows of a pandas DataFrame with text columns
_REQUIRED_GOAL = 2.0  # times the fit with gaps alone


@click.command(
    epilog=examples("python -m benchmarks", "python -m benchmarks --quick", "python -m benchmarks --json > bench.json")
)
@click.option(
    "--repeat",
    type=int,
    default=5,
    show_default=True,
    callback=such_that(lambda runs: runs >= 1, "use at least 1"),
    help="Runs of each measurement; the best counts.",
)
@click.option("--quick", is_flag=True, help="A tenth of the rows, two runs, no goals: seconds instead of minutes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def bench(repeat: int, quick: bool, as_json: bool) -> None:
    """Measure how fast fitting, deciding and federations are here.

    Times are multiples of numpy's own sort of the same scores, the faster of its
    two paths, so that machines can be compared.
    """
    with showing_progress(quiet=as_json) as progress:
        results = measure(2 if quick else repeat, 10 if quick else 1, progress)
    if as_json:
        click.echo(json.dumps(results, indent=1))
    else:
        show(results, page())


def measure(repeat: int, shrink: int, progress: Progress) -> dict[str, Any]:
    """Run every measurement; plain values."""
    from benchmarks import federation as together
    from benchmarks import measurements as m
    from benchmarks import memory as memory
    from benchmarks import peers as peers
    from benchmarks import policies as policies
    from benchmarks import stages as stages
    from benchmarks import tool as tool

    cases = _fit_cases(shrink)
    units: dict[int, dict[str, float]] = {}
    timings = []
    for call, size, notion, goal in progress(cases, "Fits", len(cases)):
        if size.rows not in units:
            units[size.rows] = m.sort_seconds(m.federation(size)[0], repeat)
        unit = min(units[size.rows].values())
        runs = repeat if size.rows <= 2_000_000 else max(2, repeat // 2)
        timings.append(m.time_fit(size, notion, unit, goal, runs, call=call))
    big = m.Size(5, 200_000 // shrink)
    others: dict[str, Callable[[], Any]] = {
        "stages": lambda: stages.all_stages(repeat, shrink),
        "frame": lambda: m.frame_seconds(big, repeat),
        "many_groups": lambda: m.many_groups(shrink),
        "required": lambda: m.required(big, repeat),
        "many_required": lambda: m.many_required(shrink),
        "text_columns": lambda: {
            str(size): m.text_columns(size, min(units[size.rows].values()), repeat)
            for size in (big, m.Size(1_000 // shrink, 1_000))
        },
        "decide": lambda: policies.decision_speed(repeat, 4_000_000 // shrink),
        "memory": lambda: {
            call: memory.peak_memory(m.Size(1_000, 10_000 // shrink), call) for call in ("solver alone", "default call")
        },
        "policy": lambda: policies.many_clients_policy(shrink),
        "federated": lambda: together.federated_speed(repeat, shrink),
        "many_clients": lambda: together.many_clients(shrink),
        "roster_bytes": together.roster_bytes,
        "rounds": together.rounds_and_bytes,
        "secure": lambda: together.secure_overhead(repeat),
        "tool": lambda: tool.tool_speed(repeat, shrink),
    }
    rest = {name: work() for name, work in progress(list(others.items()), "Stages, decisions, federation", len(others))}
    rest["peers"] = peers.beside(1_000_000 // shrink, progress)
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    return {"machine": machine, "sort_seconds": units, "fit": m.as_plain(timings), **rest}


def _fit_cases(shrink: int) -> list[tuple[str, measurements.Size, str, float | None]]:
    """Calls, sizes and notions to time, with their goals, of which more than two groups have few."""
    from benchmarks.measurements import Size

    cases: list[tuple[str, Size, str, float | None]] = []
    alone = "solver alone"
    for (clients, rows), goals in _GOALS.items():
        size = Size(max(clients // shrink, 5), rows if clients > 5 else rows // shrink)
        cases += [(alone, size, notion, goals[notion] if shrink == 1 else None) for notion in goals]
        if clients < 100_000:
            for groups in _MORE_GROUPS:
                more = Size(size.clients, size.rows_each, groups)
                for notion in goals:
                    goal = _MORE_GOALS.get((clients, groups, notion)) if shrink == 1 else None
                    cases.append((alone, more, notion, goal))
    for call, sizes in _CALL_GOALS.items():
        for (clients, rows), bound in sizes.items():
            size = Size(max(clients // shrink, 5), rows if clients > 5 else rows // shrink)
            cases += [
                (call, size, notion, bound if shrink == 1 else None)
                for notion in ("demographic_parity", "equalized_odds")
            ]
    return cases


def show(results: dict[str, Any], console: Console) -> None:
    """Print the results as tables."""
    for rows, paths in results["sort_seconds"].items():
        shown = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in paths.items())
        console.print(f"numpy sort of {int(rows):,} scores: {shown}")
    _show_fits(results, console)
    from benchmarks.stages import show_stages

    show_stages(results["stages"], console)
    _show_text(results["text_columns"], console)
    for name, speed in results["decide"].items():
        console.print(f"decide, {name}: {speed:.1f} million rows per second")
    from benchmarks.memory import show_memory

    show_memory(results["memory"], console)
    from benchmarks.policies import show_policy

    show_policy(results["policy"], console)
    from benchmarks.federation import show_federation

    show_federation(results, console)
    from benchmarks.tool import show_tool

    show_tool(results["tool"], console)
    from benchmarks.peers import show_peers

    show_peers(results["peers"], console)


def _show_fits(results: dict[str, Any], console: Console) -> None:
    """How long fits take."""
    from benchmarks.measurements import judged

    table = Table(title="fit from raw arrays, in multiples of the faster sort", title_justify="left")
    for name in ("call", "clients x rows", "notion"):
        table.add_column(name)
    for name in ("multiple", "goal", "ms", "gap", "rounds"):
        table.add_column(name, justify="right")
    for t in results["fit"]:
        goal = "" if t["goal"] is None else judged(t["multiple"], t["goal"])
        short = {"demographic_parity": "DP", "equalized_odds": "EO"}[t["notion"]]
        table.add_row(
            t["call"], t["size"], short, f"{t['multiple']:.1f}", goal, f"{1e3 * t['seconds']:.0f}",
            f"{t['gap']:.0e}", str(t["rounds"]),
        )  # fmt: skip
    console.print(table)
    for t in results["many_groups"]:
        console.print(
            f"many groups ({t['size']}, EO, tolerance {t['tolerance']:g}): {t['seconds']:.2f} s "
            f"(goal {judged(t['seconds'], _MANY_GROUPS_GOAL)}), "
            f"gap {t['gap']:.0e}, {t['rounds']} rounds"
        )
    if (seconds := results["frame"]) is not None:
        frame = "default call, a pandas DataFrame with text columns, 5 clients"
        console.print(f"{frame}: {seconds:.2f} s (goal {judged(seconds, _FRAME_GOAL)})")
    for call, kinds in results["required"].items():
        for name, multiple in kinds.items():
            goal = judged(multiple, _REQUIRED_GOAL)
            console.print(f"{name}, {call}: {multiple:.2f} times the fit with gaps alone (goal {goal})")
    for name, seconds in results["many_required"].items():
        console.print(f"{name}: {seconds:.2f} s")


def _show_text(cases: dict[str, dict[str, dict[str, float]]], console: Console) -> None:
    """What each form of the columns costs beside integers, in sorts."""
    table = Table(title="text groups and clients, in sorts on top of integers", title_justify="left")
    table.add_column("columns")
    for name in (*cases, "goal"):
        table.add_column(name, justify="right")
    forms = next(iter(cases.values()))
    for form in (form for form in forms if forms[form]["goal"]):
        costs = (f"{case[form]['on_top']:.1f}" for case in cases.values())
        table.add_row(form, *costs, f"{forms[form]['goal']:g}")
    console.print(table)


if __name__ == "__main__":
    bench()
