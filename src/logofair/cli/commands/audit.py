"""``logofair audit``: how fair decisions are now, inside every client and over all of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from logofair.cli.options import (
    NOTIONS,
    TOLERANCE,
    column_words,
    costs_option,
    data_options,
    examples,
    force_option,
    id_option,
    json_option,
    number_option,
    one_of,
    path_option,
    report_options,
    such_that,
)
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.files.writing import check_output

__all__ = ["audit"]

_SAID = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

_share = such_that(lambda number: 0 <= number <= 1, "pass a number from 0 to 1")


@click.command(
    epilog=examples(
        "logofair audit people.csv --score p --label income --positive '>50K' --group sex --client state",
        "logofair audit sites/ --score p --label y --group sex --group race",
        "logofair audit 'sites/*.parquet' --decision accepted --group sex --json",
        "logofair audit new.csv --policy policy.json --label y --report audit.html",
        "logofair audit new.csv --policy policy.json --against other.json --label y --id person",
    )
)
@data_options
@click.option("--decision", metavar="COLUMN", help="Existing decisions to audit, in place of scores.")
@id_option
@path_option("--policy", "Audit what this policy decides; columns that are not named are as in its fit.")
@click.option(
    "--against",
    metavar="FILE",
    help="With --policy: another policy to compare with on the same rows, or base, scores from --threshold on.  "
    "[default: base]",
)
@number_option("--threshold", float, _share, "Scores from here on are accepted.", default=0.5)
@click.option(
    "--notion",
    metavar="NAME",
    multiple=True,
    callback=lambda ctx, param, names: tuple(one_of(NOTIONS)(ctx, param, name) for name in names),
    help=f"What is fair: {', '.join(NOTIONS)}; may be given again.  [default: all of them]",
)
@number_option(
    "--tolerance",
    float,
    _share,
    "Count the clients with gaps above it, and within.  "
    f"[default: {TOLERANCE:g}; with --policy what it requires inside clients]",
)
@number_option(
    "--worst",
    int,
    such_that(lambda n: n >= 0, "pass a whole number from 0"),
    "How many of the worst clients to list.  [default: 5; none where most of very many are small]",
)
@costs_option
@report_options
@force_option()
@json_option()
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    data: Sequence[str],
    columns: ColumnNames,
    policy: Path | None,
    against: str | None,
    threshold: float,
    notion: Sequence[str],
    tolerance: float | None,
    worst: int | None,
    costs: tuple[float, float] | None,
    report: Path | None,
    force: bool,
    as_json: bool,
    **heading: str | None,
) -> None:
    """Show how fair decisions are, inside every client and over all of them.

    DATA is a file (CSV, Parquet, Arrow), several, a pattern in quotes, or a folder
    with one file per client. Rows are accepted where the score reaches the
    threshold, or as an existing decision column says, or with the chance that a
    policy gives them. Every figure carries its 95% interval and the rows it rests
    on. Files may be larger than memory, except with --policy or --id.
    """
    if policy is None and against is not None:
        raise InputError("--against: is compared with a policy; name it with --policy.")
    if report is not None:
        check_output(report, force=force)
    from logofair.cli.pages.console import page, print_json, print_page, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.cli.pages import audit as work  # here, while the reader sees that work goes on

        if policy is None:
            usual = TOLERANCE if tolerance is None else tolerance
            found = work.examine(data, columns, threshold, usual, notion, progress, costs)
        else:
            sources = {name: ctx.get_parameter_source(name) for name in ("scale", "na")}
            said = {name: getattr(columns, name) for name, source in sources.items() if source in _SAID}
            names = work.RuleNames(policy, against or work.BASE, threshold, **said)
            found = work.examine_policy(data, columns, names, tolerance, notion, progress, costs)
        if report is not None:
            words = {"--policy": policy, "--against": against, "--tolerance": found.tolerance}
            words |= {"--costs": None if costs is None else ",".join(f"{cost:g}" for cost in costs)}
            words |= {f"--{name.replace('_', '-')}": text for name, text in heading.items()}
            command = _command(data, columns, notion, words | {"--threshold": found.threshold, "--report": report})
            written = map(work.write_report_page, [report], [found], [data], [command], [heading])
            list(progress(written, "Writing the report", total=1))
        word = heading["decision_word"]
        contents: Any = work.as_dict if as_json else partial(work.page_parts, worst=worst, word=word, report=report)
        (measured,) = progress(map(contents, [found]), "Measuring", total=1)
    if as_json:
        print_json({"report": None if report is None else str(report), **measured})
    else:
        print_page(measured, page())


def _command(data: Sequence[str], columns: ColumnNames, notion: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the command that makes the same report again; options that are None are left out."""
    words: list[Any] = ["logofair", "audit", *data, *column_words(columns)]
    words += [word for name in notion for word in ("--notion", name)]
    words += [word for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(map(str, words))
