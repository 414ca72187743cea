"""``logofair reproduce``: the paper's tables and figures again, and what is beyond them, claimed beside obtained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import examples, name_option, number_option, path_option, such_that, together
from logofair.errors import InputError
from logofair_reproduction.commands import need_torch, titled

if TYPE_CHECKING:
    from logofair.progress import Progress
    from logofair_reproduction.experiments.experiment import Experiment
    from logofair_reproduction.experiments.runner import RunState

_ALL, _QUICK_DATA = "all", "adult"

_count = such_that(lambda n: n >= 1, "pass a whole number from 1")
_seeds = such_that(lambda n: 1 <= n <= 1000, "pass a whole number from 1 to 1,000")
_numbers = such_that(lambda given: all(0 < a < math.inf for a in given), "pass numbers above 0, such as 0.5")


_which_options = together(
    click.option("--list", "list_all", is_flag=True, help="List the experiments, or those named, and run nothing."),
    click.option("--quick", is_flag=True, help="Adult alone, 2 seeds, few settings: minutes in place of hours."),
    click.option("--data", metavar="NAME", multiple=True, help="Only this data set; may be given again."),
    click.option("--method", metavar="NAME", multiple=True, help="Only this method; may be given again."),
    click.option(
        "--alpha",
        metavar="NUMBER",
        type=float,
        multiple=True,
        callback=_numbers,
        help="Only clients this even (Dirichlet); may be given again.",
    ),
    number_option("--seeds", int, _seeds, "Number of seeds.  [default: the experiment's]"),
    number_option(
        "--settings", int, _count, "How many settings of a training method are tried.  [default: the experiment's]"
    ),
)
_where_options = together(
    path_option("--out", "Folder of the results.", folder=True, default=Path("reproduced"), show_default=True),
    click.option("--show", is_flag=True, help="Write page and tables of --out again, and run nothing."),
    number_option("--jobs", int, _count, "Processes at work.  [default: one a core; with a GPU one]"),
    name_option("--device", ("auto", "cpu", "cuda"), "auto (a GPU where there is one), cpu or cuda.", "auto"),
    path_option("--cache", "Folder of prepared data, as of logofair data.", folder=True),
)


@click.command(
    epilog=examples(
        "logofair reproduce --list",
        "logofair reproduce comparison_dp --quick",
        "logofair reproduce comparison_dp --data adult --method fedfb --alpha 0.5",
        "logofair reproduce all --out results",
        "logofair reproduce --show --out results",
    )
)
@click.argument("names", metavar="[NAME...|all]", nargs=-1)
@_which_options
@_where_options
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    list_all: bool,
    show: bool,
    out: Path,
    jobs: int | None,
    device: str,
    cache: Path | None,
    **part: Any,
) -> None:
    """Run the paper's experiments, and others, and set claimed beside obtained.

    NAME is an experiment, such as comparison_dp; without one they are listed. Models
    are trained, their settings chosen on calibration rows, and everything is measured
    on test rows, over several seeds. Results go to the folder --out as they come: a
    run that was stopped goes on with the same command. In the end the folder holds
    page.html and tables.md.
    """
    if list_all or not (names or show):
        _list(names)
        return
    if show and (given := [name for name, value in part.items() if value]):
        raise InputError(f"--show: writes all results of --out again, so --{given[0]} changes nothing; leave it out.")
    from logofair.cli.console import print_parts, showing_progress
    from logofair.words.phrases import counted
    from logofair.words.sections import Facts

    try:
        with showing_progress() as progress:
            from logofair_reproduction.experiments.page import render  # here, while the reader sees that work goes on
            from logofair_reproduction.experiments.tables import Table, as_markdown

            wanted, ran, tables = _experiments(names), None, list[Table]()
            if not show:
                ran = _run(_parts(wanted, **part), out, progress, jobs=jobs, device=device, cache=cache)
            if ran is None or ran.measured or ran.before:
                (tables,) = progress(map(render, [out]), "Writing the page", total=1)
    except KeyboardInterrupt:
        click.echo(f"logofair: interrupted; what was measured is in {out}, and the same command goes on.", err=True)
        ctx.exit(130)
    for table in tables:
        if table.experiment in (*wanted, ""):  # verdicts are of no single one
            click.echo(as_markdown(table))  # as wide as it is
    lines = []
    if ran is not None:
        lines.append(("Measured", f"{counted(ran.measured, 'case')} now, {ran.before:,} before."))
        lines += titled("Left out", (f"{name}, which is not prepared: {how}" for name, how in ran.missing.items()))
    if tables:
        lines.append(("Files", f"{out / 'page.html'}; beside it tables.md, results.jsonl"))
    print_parts(Facts(tuple(lines)))
    if ran is not None and ran.failed:
        (case, reason), *others = ran.failed
        first = f"{case.experiment}, {case.method} on {case.split.name}: {' '.join(reason.split())}"
        click.echo(f"logofair: {counted(len(others) + 1, 'case')} failed; the first: {first.rstrip('.')}.", err=True)
        ctx.exit(1)


def _list(names: Sequence[str]) -> None:
    """Print the experiments that are named, or all: what they are about, data sets, methods, and how many cases."""
    from logofair.cli.console import print_parts
    from logofair.words.sections import Facts, Paragraph
    from logofair_reproduction.experiments.experiment import load_experiment

    lines = []
    for name in _experiments(names):
        parts = load_experiment(name)
        data, cases = (part.splits[0].data for part in parts), sum(1 for part in parts for _ in part.cases())
        lines.append((name, f"{parts[0].title}; {cases:,} cases of {', '.join(data)}"))
    print_parts(
        Facts(tuple(lines)), Paragraph("Run one: logofair reproduce NAME --quick; all of them: logofair reproduce all")
    )


def _experiments(names: Sequence[str]) -> list[str]:
    """The experiments that are named, each once, or all; raise on a name that is none."""
    from logofair_reproduction.experiments.experiment import experiment_names

    known = experiment_names()
    _check("NAME", names, [*known, _ALL])
    return known if not names or _ALL in names else list(dict.fromkeys(names))


def _check(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    from logofair.datasets.table import chosen

    names = list(dict.fromkeys(known))
    for name in given:
        chosen(name, names, option)


def _parts(
    names: Sequence[str],
    *,
    quick: bool,
    data: Sequence[str],
    method: Sequence[str],
    alpha: Sequence[float],
    seeds: int | None,
    settings: int | None,
) -> list[Experiment]:
    """What is to be run of some experiments; raise where a data set or a method is none of theirs, or nothing is left.

    ``data``, ``method`` and ``alpha`` keep a part, where they name any; a ``quick`` run takes Adult alone.
    """
    from logofair_reproduction.experiments.experiment import load_experiment

    full = [part for name in names for part in load_experiment(name)]
    _check("--data", data, (part.splits[0].data for part in full))
    _check("--method", method, (method for part in full for method in part.methods))
    taken = data or ((_QUICK_DATA,) if quick else ())
    kept: dict[str, Any] = {"data": taken, "methods": method, "alphas": alpha, "seeds": seeds, "budget": settings}
    found = [part for name in names for part in load_experiment(name, quick=quick, **kept)]
    if not found:
        alone = f" (--quick takes {_QUICK_DATA} alone unless --data names others)" if quick else ""
        raise InputError(
            f"{', '.join(names)}: no case has all that --data, --method and --alpha ask for{alone}; leave one out."
        )
    return found


def _run(
    parts: Sequence[Experiment], folder: Path, progress: Progress, *, jobs: int | None, device: str, cache: Path | None
) -> RunState:
    """Run what is not in the folder yet; data sets that are not prepared are left out."""
    need_torch()
    from logofair.files.writing import locked
    from logofair_reproduction.experiments.runner import missing_data, run
    from logofair_reproduction.experiments.scores import Machine
    from logofair_reproduction.training.rows import device_named

    missing = missing_data(parts, cache)
    left = [part for part in parts if part.splits[0].data not in missing]
    if not left:
        todo = "; ".join(f"{name} is not prepared, type: {command}" for name, command in missing.items())
        raise InputError(f"{', '.join(dict.fromkeys(part.name for part in parts))}: {todo}.")
    with locked(folder / ".lock", patience=0.0):
        state = run(left, Machine(folder, cache, device_named(device).type), jobs=jobs, progress=progress)
    return replace(state, missing=missing)
