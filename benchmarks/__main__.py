"""``make bench``: how fast fitting, deciding and federations are here, as ratios within one run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

from benchmarks import goals
from logofair.cli.console import showing_progress
from logofair.cli.options import examples, such_that
from logofair.progress import Progress

_MANY_GROUPS_GOAL = 5.0  # seconds of fits with many groups
_FRAME_GOAL = 0.5  # seconds of the default call on a million rows of a pandas DataFrame with text columns


@click.command(
    epilog=examples(
        "python -m benchmarks",
        "python -m benchmarks --goals",
        "python -m benchmarks --quick",
        "python -m benchmarks --json > bench.json",
    )
)
@click.option(
    "--repeat",
    type=int,
    default=5,
    show_default=True,
    callback=such_that(lambda runs: runs >= 1, "use at least 1"),
    help="Runs of each measurement; the best counts.",
)
@click.option("--goals", "goals_alone", is_flag=True, help="Only what there are goals for: minutes.")
@click.option("--quick", is_flag=True, help="A tenth of the rows, two runs, no goals: seconds instead of minutes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def bench(repeat: int, goals_alone: bool, quick: bool, as_json: bool) -> None:
    """Measure how fast fitting, deciding and federations are here.

    Times are multiples of numpy's own sort of the same scores, the faster of its
    two paths, so that machines can be compared.
    """
    with showing_progress(quiet=as_json) as progress:
        work = measured_goals if goals_alone else measure
        results = work(2 if quick else repeat, 10 if quick else 1, progress)
    if as_json:
        click.echo(json.dumps(results, indent=1))
    else:
        (goals.show_goals if goals_alone else show)(results, Console())


def measured_goals(
    repeat: int, shrink: int, progress: Progress, cases: list[goals.Case] = goals.FITS
) -> dict[str, Any]:
    """Run the measurements that have goals in every release; plain values."""
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    fits = goals.measured_fits(cases, repeat, shrink, progress)
    return {"machine": machine, **fits, "processes": goals.processes(repeat, shrink)}


def measure(repeat: int, shrink: int, progress: Progress) -> dict[str, Any]:
    """Run every measurement; plain values."""
    from benchmarks import federation as together
    from benchmarks import measurements as m
    from benchmarks import memory as memory
    from benchmarks import peers as peers
    from benchmarks import stages as stages
    from benchmarks import tool as tool

    found = measured_goals(repeat, shrink, progress, goals.FITS + goals.MORE_FITS)
    big = m.Size(5, 200_000 // shrink)
    others: dict[str, Callable[[], Any]] = {
        "stages": lambda: stages.all_stages(repeat, shrink),
        "frame": lambda: m.frame_seconds(big, repeat),
        "many_groups": lambda: m.many_groups(shrink),
        "decide": lambda: m.decision_speed(repeat, 4_000_000 // shrink),
        "memory": lambda: {
            call: memory.peak_memory(m.Size(1_000, 10_000 // shrink), call)
            for call in ("calibration none", "pooling none", "default call")
        },
        "federated": lambda: together.federated_speed(repeat, shrink),
        "rounds": together.rounds_and_bytes,
        "secure": lambda: together.secure_overhead(repeat),
        "tool": lambda: tool.tool_speed(repeat, shrink),
    }
    steps = progress(list(others.items()), "Stages, decisions, federation", len(others))
    found |= {name: work() for name, work in steps}
    return found | {"peers": peers.beside(1_000_000 // shrink, progress)}


def show(results: dict[str, Any], console: Console) -> None:
    """Print the results as tables."""
    goals.show_goals(results, console)
    _show_more_fits(results, console)
    from benchmarks.stages import show_stages

    show_stages(results["stages"], console)
    for name, speed in results["decide"].items():
        console.print(f"decide, {name}: {speed:.1f} million rows per second")
    from benchmarks.memory import show_memory

    show_memory(results["memory"], console)
    from benchmarks.federation import show_federation

    show_federation(results, console)
    from benchmarks.tool import show_tool

    show_tool(results["tool"], console)
    from benchmarks.peers import show_peers

    show_peers(results["peers"], console)


def _show_more_fits(results: dict[str, Any], console: Console) -> None:
    """Many groups, and columns of a frame."""
    from benchmarks.measurements import judged

    for t in results["many_groups"]:
        console.print(
            f"many groups ({t['size']}, EO, tolerance {t['tolerance']:g}): {t['seconds']:.2f} s "
            f"(goal {judged(t['seconds'], _MANY_GROUPS_GOAL)}), "
            f"gap {t['gap']:.0e}, {t['rounds']} rounds"
        )
    if (seconds := results["frame"]) is not None:
        frame = "default call, a pandas DataFrame with text columns, 5 sites"
        console.print(f"{frame}: {seconds:.2f} s (goal {judged(seconds, _FRAME_GOAL)})")


if __name__ == "__main__":
    bench()
