"""``logofair audit``: how fair decisions are now, inside every site and over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from logofair.cli.options import (
    FORMATS,
    NOTIONS,
    TOLERANCE,
    check_format,
    costs_option,
    data_options,
    examples,
    force_option,
    format_option,
    id_option,
    json_option,
    number_option,
    one_of,
    path_option,
    report_options,
    such_that,
    tolerance_option,
)
from logofair.cli.requiring import Wanted, limit_options
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from logofair.files.writing import REPORT, check_output

if TYPE_CHECKING:
    from logofair.auditing.files import FileAudit
    from logofair.files.values import CostsText

_SAID = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

_share = such_that(lambda number: 0 <= number <= 1, "pass a number from 0 to 1")


@click.command(
    epilog=examples(
        "logofair audit data/together.csv --score score --label label --group sex --site site",
        "logofair audit data/together.csv --score score --group sex --group race --format ll144",
        "logofair audit 'data/*th.csv' --score score --label label --positive 1 --group sex --json",
        "logofair audit decisions.csv --decision decision --group sex",
        "logofair audit data/others.csv --policy policy.json --label label --report audit.html",
        "logofair audit data/others.csv --policy policy.json --against other.json --label label --id id",
        "logofair audit data/together.csv --score score --label label --group sex --site site --local ratio:0.8 "
        "--floor global:equal_opportunity=0.5 --capacity 0.6 --costs 1,3",
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
    "--worst",
    int,
    such_that(lambda n: n >= 0, "pass a whole number from 0"),
    "How many of the worst sites to list.  [default: 5; none where most of very many are small]",
)
@tolerance_option(
    "local",
    "inside each site, by which sites are counted as above or within",
    otherwise=f"with --policy as it requires, else nothing is required and {TOLERANCE:g} is counted by",
)
@tolerance_option("global", "over all sites together", otherwise="with --policy as it requires, else none")
@limit_options()
@costs_option()
@report_options
@format_option(
    FORMATS,
    "Print another form in place of tables: ll144 (selection rates and impact ratios by each --group and by all), "
    "model-card, or annex-iv (the parts that can be stated).",
)
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
    worst: int | None,
    costs: CostsText | None,
    report: Path | None,
    form: str | None,
    force: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Show how fair decisions are, inside every site and over all of them.

    DATA is a file (CSV, Parquet, Arrow), several, a pattern in quotes, or a folder
    with one file per site. Rows are accepted where the score reaches the
    threshold, or as an existing decision column says, or with the chance that a
    policy gives them. Every figure carries its 95% interval and the rows it rests
    on. What is required (--local, --global, --floor, --ceiling, --capacity, or what
    the policy was made for) is said to be kept, broken, or too small to say. Files
    may be larger than memory, except with --policy or --id.
    """
    wanted, heading = Wanted.of(notion, others), others
    local = None if wanted is None or not isinstance(wanted.local_tolerance, float) else wanted.local_tolerance
    judge = None if wanted is None else wanted.requirements
    if policy is None and against is not None:
        raise InputError("--against: is compared with a policy; name it with --policy.")
    check_format(form, as_json=as_json)
    if report is not None:
        if form == "ll144":
            raise InputError("--format: ll144 also counts people whom a report leaves out; leave --report out.")
        check_output(report, force=force, endings=REPORT)
    from logofair.cli.pages.console import page, print_json, print_page, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.auditing.against import BASE, RuleNames  # here, while the reader sees that work goes on
        from logofair.auditing.files import examine, examine_policy
        from logofair.cli.pages import audit as work

        if form == "ll144" and policy is None:
            from logofair.cli.pages.formats import categories_text, heading_of

            text = categories_text(data, columns, threshold, heading_of(**heading), progress)
            return click.echo(text, nl=False)
        if policy is None:
            usual = TOLERANCE if local is None else local
            found = examine(data, columns, threshold, usual, notion, progress, costs, judge)
        else:
            sources = {name: ctx.get_parameter_source(name) for name in ("scale", "na")}
            said = {name: getattr(columns, name) for name, source in sources.items() if source in _SAID}
            names = RuleNames(policy, against or BASE, threshold, **said)
            found = examine_policy(data, columns, names, local, notion, progress, costs, judge)
        if report is not None:
            list(progress(_reports(report, found, data, heading), "Writing the report", total=1))
        if form is not None:
            from logofair.cli.pages.formats import audit_text, heading_of

            return click.echo(audit_text(form, found, data, heading_of(**heading)), nl=False)
        word = heading["decision_word"]
        contents: Any = work.as_dict if as_json else partial(work.page_parts, worst=worst, word=word, report=report)
        (measured,) = progress(map(contents, [found]), "Measuring", total=1)
    if as_json:
        return print_json({"report": None if report is None else str(report), **measured})
    return print_page(measured, page())


def _reports(path: Path, found: FileAudit, data: Sequence[str], heading: Mapping[str, str | None]) -> Iterator[None]:
    """Write the report, as a step of its own."""
    from logofair.cli.pages.audit import write_report_page
    from logofair.cli.pages.formats import heading_of

    write_report_page(path, found, data, heading_of(**heading))
    yield
