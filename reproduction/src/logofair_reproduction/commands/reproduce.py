"""``logofair reproduce``: the paper's tables and figures again, and what is beyond them, claimed beside obtained."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from logofair.cli.options import examples, json_option, name_option, number_option, path_option, such_that, together
from logofair.errors import InputError

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
@json_option()
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    list_all: bool,
    show: bool,
    out: Path,
    as_json: bool,
    jobs: int | None,
    device: str,
    cache: Path | None,
    **options: Any,
) -> None:
    """Run the paper's experiments, and others, and set claimed beside obtained.

    NAME is an experiment, such as comparison_dp; without one they are listed. Models
    are trained, their settings chosen on calibration rows, and everything is measured
    on test rows, over several seeds. Results go to the folder --out as they come: a
    run that was stopped goes on with the same command. In the end the folder holds
    page.html and tables.md.
    """
    from logofair.cli.console import page, print_json, showing_progress

    if list_all or not (names or show):
        _list(names, as_json)
        return
    if show and (given := [name for name, value in options.items() if value]):
        raise InputError(f"--show: writes all results of --out again, so --{given[0]} changes nothing; leave it out.")
    try:
        with showing_progress(quiet=as_json) as progress:
            from logofair_reproduction.commands.pages import (
                reproduce as pages,  # here, while the reader sees that work goes on
            )

            if show:
                outcome = pages.shown_again(names, out, progress)
            else:
                wanted = pages.Selection(names, **options)
                outcome = pages.reproduced(wanted, out, progress, jobs=jobs, device=device, cache=cache)
    except KeyboardInterrupt:  # before anything was run, or while the page was written
        click.echo("logofair: interrupted; the same command goes on.", err=True)
        ctx.exit(130)
    if outcome.stopped is not None:
        done, cases = outcome.stopped
        click.echo(
            f"logofair: interrupted with {done:,} of {cases:,} results in {out}, beside what was trained; the same "
            "command goes on.",
            err=True,
        )
        ctx.exit(130)
    if as_json:
        print_json(pages.as_dict(outcome))
    else:
        pages.show(outcome, page())
    if (failed := pages.failures(outcome)) is not None:
        click.echo(failed, err=True)
        ctx.exit(1)


def _list(names: tuple[str, ...], as_json: bool) -> None:
    from logofair.cli.console import page, print_json
    from logofair_reproduction.commands.pages.reproduce import listed, show_list

    found = listed(names)
    if as_json:
        print_json(found)
    else:
        show_list(found, page())
