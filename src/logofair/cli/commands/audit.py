"""``logofair audit``: how fair decisions are now, inside every client and over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from logofair.cli.data import data_options
from logofair.cli.options import NOTIONS, examples, json_option, one_of, such_that
from logofair.files.inputs import ColumnNames, find_files

if TYPE_CHECKING:
    from logofair.auditing.result import RuleAudit
    from logofair.cli.tally import FileTally
    from logofair.progress import Progress

__all__ = ["audit"]


@dataclass(frozen=True, eq=False)
class FileAudit:
    """What an audit of files found."""

    data: str
    files: int
    columns: ColumnNames
    threshold: float
    tolerance: float
    counted: FileTally
    measured: RuleAudit


@click.command(
    epilog=examples(
        "logofair audit people.csv --score p --label income --positive '>50K' --group sex --client state",
        "logofair audit sites/ --score p --label y --group sex --group race",
        "logofair audit 'sites/*.parquet' --decision accepted --group sex --json",
    )
)
@data_options
@click.option("--decision", metavar="COLUMN", help="Existing decisions to audit, in place of scores.")
@click.option(
    "--threshold",
    type=float,
    default=0.5,
    show_default=True,
    callback=such_that(lambda t: 0 <= t <= 1, "pass a number from 0 to 1"),
    help="Scores from here on are accepted.",
)
@click.option(
    "--notion",
    metavar="NAME",
    multiple=True,
    callback=lambda ctx, param, names: tuple(one_of(NOTIONS)(ctx, param, name) for name in names),
    help=f"What is fair: {', '.join(NOTIONS)}; may be given again.  [default: all of them]",
)
@click.option(
    "--tolerance",
    type=float,
    default=0.05,
    show_default=True,
    callback=such_that(lambda t: 0 <= t <= 1, "pass a number from 0 to 1"),
    help="Gaps up to here are called fair.",
)
@click.option(
    "--worst",
    type=int,
    default=5,
    show_default=True,
    callback=such_that(lambda n: n >= 0, "pass a whole number from 0"),
    help="How many of the worst clients to list.",
)
@json_option()
def audit(
    data: Sequence[str],
    columns: ColumnNames,
    threshold: float,
    notion: Sequence[str],
    tolerance: float,
    worst: int,
    as_json: bool,
) -> None:
    """Show how fair decisions are, inside every client and over all of them.

    DATA is a file (CSV, Parquet, Arrow), several, a pattern in quotes, or a folder
    with one file per client. Rows are accepted where the score reaches the
    threshold, or as an existing decision column says. Files may be larger than
    memory.
    """
    from logofair.cli.pages.console import page, print_json, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.cli.pages.audit import as_dict, show  # here, while the reader sees that work goes on

        found = examine(data, columns, threshold, tolerance, notion, progress)
    if as_json:
        print_json(as_dict(found))
    else:
        show(found, worst, page())


def examine(
    data: Sequence[str],
    columns: ColumnNames,
    threshold: float,
    tolerance: float,
    notion: Sequence[str],
    progress: Progress,
) -> FileAudit:
    """Count the rows of the files and measure the notions asked for; without labels those that need none."""
    from logofair.auditing.result import RuleAudit
    from logofair.cli.tally import count_rows
    from logofair.errors import InputError
    from logofair.notions import NOTIONS as KNOWN

    files = find_files(data, client=columns.client)
    columns.require(files, group="the groups to compare, such as sex")
    if columns.decision is None:
        columns.require(files, score="scores (or --decision that of decisions)")
    elif columns.score is not None:
        raise InputError("--decision: given together with --score; audit either the scores or the decisions.")
    wanted = list(dict.fromkeys(notion or NOTIONS))
    if columns.label is None:
        if notion and any(KNOWN[name].needs_labels for name in wanted):
            columns.require(files, label="labels, which these notions count by")
        wanted = [name for name in wanted if not KNOWN[name].needs_labels]
    counted = count_rows(files, columns, threshold, progress)
    measured = RuleAudit.of(counted.tally, counted.groups, counted.clients, [KNOWN[name] for name in wanted])
    return FileAudit(files.name, len(files.paths), columns, threshold, tolerance, counted, measured)
