"""``logofair studio``: a live page on this machine, where every limit is answered by a certified optimum."""

from __future__ import annotations

import functools
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.commands.fit import columns_info, of_files
from logofair.cli.options import (
    OF_ROWS,
    SectionedCommand,
    about_page,
    command_of_same_rows,
    confidence_option,
    data_options,
    examples,
    heading_options,
    notion_arguments,
    number_option,
    read_to_fit,
    requirement_options,
    rule_options,
    seed_option,
    such_that,
    test_options,
)
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.progress import Progress

if TYPE_CHECKING:
    from logofair.studio.session import Session

_HEADING = ("title", "purpose", "author", "decision_word")
# What a fit of the same rows is told besides what the page says.
_KEPT = (*(option for option in OF_ROWS if option != "--costs"), "--test", "--test-where")
_EXAMPLE = "logofair fit data/together.csv --score score --label label --group sex --site site --test data/others.csv"


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair studio",
        "logofair studio data/together.csv --score score --label label --group sex --site site --test data/others.csv",
    ),
)
@functools.partial(data_options, required=False)
@test_options
@requirement_options()
@rule_options
@confidence_option("Exports also certify with this confidence, such as 0.95, which limits hold for new people.")
@seed_option(
    "Seed of the calibration's folds and the policy's coins.  [default: drawn, and stated by every export]",
    "random_state",
    default=None,
)
@heading_options
@number_option(
    "--port",
    int,
    such_that(lambda port: 0 < port < 65536, "pass a number from 1 to 65535"),
    "Port.  [default: a free one]",
)
@click.option("--no-browser", is_flag=True, help="Print the page's address, and open no browser.")
def studio(data: Sequence[str], columns: ColumnNames, port: int | None, no_browser: bool, **options: Any) -> None:
    """Try limits on a live page, and see at once what they cost and who is affected.

    Reads and calibrates the rows of DATA once; every slider is then answered by the
    certified optimum. Without DATA it shows an example. The page is for this machine
    alone, holds totals and never rows, and gives the command, the policy and the
    report of what is on the screen. Ctrl-C ends it.
    """
    from logofair.cli.console import showing_progress

    with showing_progress() as progress:
        from logofair.studio.server import serve  # here, while the reader sees that work goes on

        if data:
            session = _session(data, columns, options, progress, command_of_same_rows("fit", options=_KEPT))
        else:
            session = _example(columns, options, progress)

    def ready(address: str) -> None:
        click.echo(f"{session.about.name} is open at {address}\nFor this machine alone. Ctrl-C ends it.")
        if not no_browser:
            webbrowser.open(address)

    serve(session, port or 0, ready)


def _session(
    data: Sequence[str], columns: ColumnNames, options: dict[str, Any], progress: Progress, command: str
) -> Session:
    """Read the rows, and begin with what was required."""
    from dataclasses import replace

    from logofair.requirements import DEFAULT, short_way
    from logofair.studio.session import FIT_OPTIONS, Session, Setting

    heading, required = {name: options.pop(name) for name in _HEADING}, notion_arguments(options)
    typed = options["costs"]
    rows, other, arguments = read_to_fit(data, columns, options, progress)
    given = (required.get(name, DEFAULT) for name in ("notion", "local_tolerance", "global_tolerance"))
    notion, local, overall = short_way(*given, alone=bool(arguments["require"]))
    start = Setting(
        notion=notion,
        local=local,
        overall=overall,
        require=tuple(map(str, arguments["require"])),
        costs=typed,
        confidence=arguments["confidence"],
    )
    about = about_page(rows.source, **heading, left_out=rows.dropped)
    return Session(
        rows.arguments,
        {name: arguments[name] for name in FIT_OPTIONS},
        start,
        arguments["random_state"],
        None if other is None else other.arguments,
        about=replace(about, command=command),
        columns=columns_info(columns),
        finished=functools.partial(of_files, columns=columns, rows=rows, other=other),
        progress=progress,
    )


def _example(columns: ColumnNames, options: dict[str, Any], progress: Progress) -> Session:
    """The files of ``logofair federate example``, which are read and gone again."""
    from logofair.datasets.adult import site_files

    if columns != ColumnNames() or options["test"] or options["test_where"]:
        raise InputError("studio: options that name columns or files are about DATA; name a file, or leave them out.")
    (texts,) = progress(map(site_files, [0]), "Training the example's model", total=1)
    with TemporaryDirectory() as folder:
        for name in ("together", "others"):
            Path(folder, f"{name}.csv").write_text(texts[name], encoding="utf-8")
        names = ColumnNames(score="score", label="label", group=("sex",), site="site")
        options |= {"test": (str(Path(folder, "others.csv")),)}
        return _session([str(Path(folder, "together.csv"))], names, options, progress, _EXAMPLE)
