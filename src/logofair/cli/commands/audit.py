"""``logofair audit``: how fair decisions are now, inside every site and over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from logofair.cli.options import (
    FORMATS,
    NOTIONS,
    SectionedCommand,
    about_page,
    check_format,
    check_gate,
    command_of_same_rows,
    constrained,
    costs_option,
    data_options,
    examples,
    force_option,
    gate_options,
    json_option,
    name_option,
    number_option,
    one_of,
    path_option,
    report_options,
    require_option,
    such_that,
    tolerance_option,
    verbose_option,
)
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, check_not_read
from logofair.files.writing import REPORT, check_output

if TYPE_CHECKING:
    from logofair.files.values import CostsText

_SAID = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

_share = such_that(lambda number: 0 <= number <= 1, "pass a number from 0 to 1")


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair audit data/together.csv --score score --label label --group sex --site site",
        "logofair audit data/together.csv --score score --group sex --group race --format ll144",
        "logofair audit 'data/*th.csv' --score score --label label --positive 1 --group sex --json",
        "logofair audit decisions.csv --decision decision --group sex",
        "logofair audit data/others.csv --policy policy.json --label label --report audit.html",
        "logofair audit data/others.csv --policy policy.json --against other.json --label label --id id",
        "logofair audit data/together.csv --score score --label label --group sex --site site --costs 1,3 "
        "--require 'selection rate ratio >= 0.8 per site' --require 'accepted <= 0.6 overall'",
        "logofair audit decisions.csv --decision decision --group sex --global 0.3 --fail-on exceeded",
    ),
)
@data_options
@click.option("--decision", metavar="COLUMN", help="Existing decisions to audit, in place of scores.")
@path_option("--policy", "Audit what this policy decides; columns that are not named are as in its fit.")
@click.option(
    "--against",
    metavar="FILE",
    help="With --policy: another policy to compare with on the same rows, or base, scores from --threshold on.  "
    "[default: the policy's own rule without requirements]",
)
@number_option("--threshold", float, _share, "Scores from here on are accepted.", default=0.5)
@click.option(
    "--notion",
    metavar="NAME",
    multiple=True,
    callback=lambda ctx, param, names: tuple(one_of(NOTIONS)(ctx, param, name) for name in names),
    help=f"What is fair: {', '.join(NOTIONS)}; may be given again.  [default: all of them]",
)
@tolerance_option("local", "inside each site", otherwise="with --policy as it requires, else none")
@tolerance_option("global", "over all sites together", otherwise="with --policy as it requires, else none")
@require_option()
@costs_option()
@gate_options
@report_options
@name_option(
    "--format",
    FORMATS,
    "Print another form in place of tables: ll144 (selection rates and impact ratios by each --group and by all), "
    "model-card, or annex-iv (the parts that can be stated).",
    None,
    "form",
)
@verbose_option
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
    costs: CostsText | None,
    fail_on: str | None,
    annotate: str | None,
    report: Path | None,
    form: str | None,
    verbose: bool,
    force: bool,
    as_json: bool,
    **others: Any,
) -> int:
    """Show how fair decisions are, inside every site and over all of them.

    DATA is a file (CSV, Parquet, Arrow), several, a pattern in quotes, or a folder
    with one file per site. Rows are accepted where the score reaches the
    threshold, or as an existing decision column says, or with the chance that a
    policy gives them. Every figure carries its 95% interval and the rows it rests
    on. What is required (--require, --local, --global, or what the policy was made
    for) is MET, EXCEEDED, UNCLEAR or NOT MEASURED. Files may be larger than memory,
    except with --policy or --id.
    """
    local, global_ = (constrained(others.pop(f"{side}_tolerance")) for side in ("local", "global"))
    sentences = others.pop("require")
    if policy is None and against is not None:
        raise InputError("--against: there is no policy to compare with; name one with --policy.")
    check_format(form, as_json=as_json)
    check_gate(fail_on, annotate)
    if fail_on is not None and form == "ll144":
        raise InputError("--format: ll144 states rates and judges no requirement; leave --fail-on out.")
    if report is not None:
        if form == "ll144":
            raise InputError("--format: ll144 also counts people whom a report leaves out; leave --report out.")
        check_output(report, force=force, endings=REPORT)
        check_not_read([report], data, filter(None, [policy, against]))
    from logofair.cli.console import fail_build, show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        # here, while the reader sees that work goes on
        from logofair.auditing.files import (
            UNCONSTRAINED,
            RuleNames,
            categories,
            examine,
            examine_policy,
            wanted_requirements,
        )
        from logofair.outcomes import EXCEEDED, UNCLEAR
        from logofair.words.audited import file_audit_page
        from logofair.words.forms import form_text

        wanted = wanted_requirements(notion, local, global_, sentences)
        if form == "ll144" and policy is None:
            found = categories(data, columns, threshold, progress)
        elif policy is None:
            found = examine(data, columns, threshold, notion, progress, costs, wanted)
        else:
            sources = {name: ctx.get_parameter_source(name) for name in ("scale", "na")}
            said = {name: getattr(columns, name) for name, source in sources.items() if source in _SAID}
            names = RuleNames(policy, against or UNCONSTRAINED, threshold, **said)
            found = examine_policy(data, columns, names, notion, progress, costs, wanted)
        if fail_on is not None and not len(found.outcomes):
            raise InputError("--fail-on: nothing is required; add --local, --global or --require.")
        if fail_on is not None and found.compared is not None and found.compared.in_fit in ("all", "some"):
            raise InputError(
                "--fail-on: the policy was fitted on people of DATA; audit a file of others, or choose rows of others "
                "with --where."
            )
        written = () if report is None else (str(report),)
        about = about_page(found.source, **others, left_out=found.dropped, written=written)
        if form is not None:
            click.echo(form_text(form, found, about), nl=False)
            return fail_build(found.outcomes, fail_on, annotate)
        columns = found.columns
        asked = found.outcomes.verdict in (UNCLEAR, EXCEEDED) if len(found.outcomes) else None
        asked = asked and not (found.compared is not None and found.compared.policy.looks_away)
        name = "fit" if asked is None else "recommend" if asked and columns.label else ""
        next_ = command_of_same_rows(name, columns) if name and columns.score else ""
        next_ += " --out policy.json" if next_ and asked is None else ""
        (page,) = progress((file_audit_page(each, about, next_=next_) for each in [found]), "Measuring", total=1)
        if report is not None:
            (write,) = progress([page.save], "Writing the report", 1)
            write(report)
    show(page, as_json=as_json, verbose=verbose, report=None if report is None else str(report))
    return fail_build(found.outcomes, fail_on, annotate)
