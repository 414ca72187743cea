"""``logofair audit``: how fair decisions are now, inside every client and over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from logofair.cli.options import NOTIONS, data_options, examples, json_option, number_option, one_of, such_that
from logofair.files.inputs import ColumnNames

__all__ = ["audit"]


_share = such_that(lambda number: 0 <= number <= 1, "pass a number from 0 to 1")


@click.command(
    epilog=examples(
        "logofair audit people.csv --score p --label income --positive '>50K' --group sex --client state",
        "logofair audit sites/ --score p --label y --group sex --group race",
        "logofair audit 'sites/*.parquet' --decision accepted --group sex --json",
    )
)
@data_options
@click.option("--decision", metavar="COLUMN", help="Existing decisions to audit, in place of scores.")
@number_option("--threshold", float, _share, "Scores from here on are accepted.", default=0.5)
@click.option(
    "--notion",
    metavar="NAME",
    multiple=True,
    callback=lambda ctx, param, names: tuple(one_of(NOTIONS)(ctx, param, name) for name in names),
    help=f"What is fair: {', '.join(NOTIONS)}; may be given again.  [default: all of them]",
)
@number_option("--tolerance", float, _share, "Gaps up to here are called fair.", default=0.05)
@number_option(
    "--worst",
    int,
    such_that(lambda n: n >= 0, "pass a whole number from 0"),
    "How many of the worst clients to list.",
    default=5,
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
        from logofair.cli.pages.audit import as_dict, examine, show  # here, while the reader sees that work goes on

        found = examine(data, columns, threshold, tolerance, notion, progress)
    if as_json:
        print_json(as_dict(found))
    else:
        show(found, worst, page())
