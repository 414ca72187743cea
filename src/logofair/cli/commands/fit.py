"""``logofair fit``: fair decision rules for some data, with a certificate."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import (
    FORMATS,
    SectionedCommand,
    about_page,
    check_format,
    check_gate,
    command_of_same_rows,
    confidence_option,
    data_options,
    examples,
    force_option,
    gate_options,
    group_probability_option,
    json_option,
    name_option,
    notion_arguments,
    path_option,
    read_to_fit,
    report_options,
    requirement_options,
    rule_options,
    seed_option,
    test_options,
    verbose_option,
)
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, check_not_read
from logofair.files.writing import POLICY, REPORT, check_outputs

if TYPE_CHECKING:
    from logofair.files.rows import DataRows
    from logofair.fitting.solution import Solution
    from logofair.policy.info import ColumnsInfo
    from logofair.tradeoff import Frontier

_HEADING = ("title", "purpose", "author", "decision_word")


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair fit data/north.csv --score score --label label --group sex --out policy.json",
        "logofair fit data/together.csv --score score --label label --group sex --site site --out policy.json",
        "logofair fit data/together.csv --score score --label label --group sex --site site --test data/others.csv "
        "--notion equalized_odds --out policy.json",
        "logofair fit data/together.csv --score score --label label --group sex --site site "
        "--require 'selection rate gap <= 0.05 per site except north' --out policy.json --report report.html",
        "logofair fit data/together.csv --score score --label label --group sex --site site --local 0.1 "
        "--confidence 0.95 --out policy.json",
        "logofair fit data/together.csv --score score --label label --group sex --site site --pooling full "
        "--out policy.json --format model-card",
        "logofair fit data/together.csv --score score --label label --group sex --site site --costs 1,3 "
        "--require 'selection rate ratio >= 0.8 per site' --require 'accepted <= 0.9 overall' --out policy.json",
        "logofair fit data/together.csv --score score --label label --group sex --site site --local 0.1 --global 0.02 "
        "--objective gap --require 'accuracy loss <= 0.02 overall' --out policy.json",
    ),
)
@data_options
@group_probability_option
@test_options
@requirement_options()
@rule_options
@confidence_option("Also certify with this confidence, such as 0.95, which limits hold for new people.")
@name_option(
    "--objective",
    ("accuracy", "gap"),
    "What is made best: accuracy (with --costs: cost) within the limits; or gap, the smallest that --require "
    "'accuracy loss <= ...' allows.",
    default="accuracy",
)
@name_option(
    "--solver",
    ("exact", "algorithm1"),
    "exact, or the paper's algorithm1, which may exceed its limits.",
    default="exact",
)
@seed_option(
    "Seed of the calibration's folds and the policy's coins.  [default: folds by 0, coins at random]",
    "random_state",
    default=None,
)
@path_option("--out", "Where to write the policy (JSON).", required=True)
@gate_options
@report_options
@name_option(
    "--format",
    FORMATS[1:],
    "Print a model-card, or the parts of annex-iv that can be stated, in place of tables.",
    None,
    "form",
)
@verbose_option
@force_option()
@json_option()
def fit(
    data: Sequence[str],
    columns: ColumnNames,
    out: Path,
    fail_on: str | None,
    annotate: str | None,
    report: Path | None,
    form: str | None,
    verbose: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Make decision rules that are fair inside every site and over all of them.

    Finds the most accurate rules, or with --costs the cheapest, that meet every
    requirement on the rows of DATA, or proves which requirements conflict. Writes
    them as a policy, and proves how good they are there. How good they are for other
    people --test shows, and --confidence certifies what holds for new ones; without
    either the verdict is NOT MEASURED. Use rows the model was not trained on. Then
    see logofair explain and logofair apply.
    """
    check_format(form, as_json=as_json)
    check_gate(fail_on, annotate, tested=any(options[name] for name in ("test", "test_where", "confidence")))
    check_outputs({"--out": (out, POLICY), "--report": (report, REPORT)}, force=force)
    check_not_read([out, report], data, options["test"])
    if options["confidence"] is not None and options["pooling"] == "full" and options["basis"] == "eta":
        raise InputError(
            "--pooling full: given together with --confidence, which certifies by labelled rows of each site alone; "
            "use one of the two."
        )
    from logofair.cli.console import fail_build, show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        import logofair  # here, while the reader sees that work goes on
        from logofair.records import plain
        from logofair.words.fitted import fit_page
        from logofair.words.forms import form_text

        heading, required = {name: options.pop(name) for name in _HEADING}, notion_arguments(options)
        rows, other, arguments = read_to_fit(data, columns, options, progress)
        solution = logofair.fit(**arguments, **required)
        (solution,) = progress((of_files(each, columns, rows, other) for each in [solution]), "Testing", total=1)
        if fail_on is not None and not len(solution.outcomes):
            raise InputError("--fail-on: nothing is required; add --local, --global or --require.")
        solution.policy.save(out)
        written = tuple(str(path) for path in (out, report) if path is not None)
        about = about_page(rows.source, **heading, left_out=rows.dropped, written=written)
        frontier = None if report is None or columns.group_probability else _trade_off(arguments, required)
        info, values = plain(solution.policy.info), solution.as_dict()
        if values["tested"] is not None:
            values["tested"] |= {"data": info["tested"]["data"]}
        values |= {"data": info["data"], "rows_left_out": rows.dropped}
        ids = " --id COLUMN" if solution.policy.mixtures.mixed.any() else ""
        parts: dict[str, Any] = {"frontier": frontier, "recommend": command_of_same_rows("recommend")}
        parts["next_"] = f"logofair apply {shlex.quote(str(out))} NEW.csv{ids} --out decisions.csv"
        own = f" --label {shlex.quote(columns.label)}" if columns.label else ""
        parts["test"] = f"logofair audit OTHERS.csv --policy {shlex.quote(str(out))}{own}"
        (page,) = progress((fit_page(each, about, values=values, **parts) for each in [solution]), "Measuring", total=1)
        if report is not None:
            (write,) = progress([page.save], "Writing the report", 1)
            write(report)
    if form is not None:
        click.echo(form_text(form, solution, about), nl=False)
    else:
        files = {"policy": str(out), "report": None if report is None else str(report)}
        show(page, as_json=as_json, verbose=verbose, **files)
    return fail_build(solution.outcomes, fail_on, annotate)


def columns_info(columns: ColumnNames) -> ColumnsInfo:
    """Return what apply and explain want to know of the columns."""
    from logofair.policy.info import ColumnsInfo

    return ColumnsInfo(
        columns.score, tuple(columns.group), columns.site, columns.scale, columns.na, columns.group_probability
    )


def of_files(solution: Solution, columns: ColumnNames, rows: DataRows, other: DataRows | None) -> Solution:
    """Return a solution that knows its files, tested on other rows where there are some, which its policy notes."""
    named = replace(solution.policy.info, columns=columns_info(columns), data=rows.source)
    solution = solution.with_info(named)
    if other is None:
        return solution
    try:
        solution = solution.test(**other.arguments)
    except InputError as error:
        raise InputError(f"--test: {error}") from None
    info = solution.policy.info
    assert info.tested is not None
    return solution.with_info(replace(info, tested=replace(info.tested, data=other.source)))


def _trade_off(arguments: Mapping[str, Any], required: Mapping[str, Any]) -> Frontier:
    """The frontier that stands in the report: of the notion and its tolerances."""
    from logofair.requirements import DEFAULT, requirements_of_notion
    from logofair.tradeoff import frontier

    given = [required.get(name, DEFAULT) for name in ("notion", "local_tolerance", "global_tolerance")]
    items = requirements_of_notion(*given, alone=bool(arguments["require"]))[0]
    bounds = {item.scope.is_global: item.bound for item in items}
    kept = {name: value for name, value in arguments.items() if name not in ("solver", "confidence", "objective")}
    if arguments["confidence"] is not None:
        kept["pooling"] = "none"  # as the certificate
    chosen: Any = bounds.get(False), bounds.get(True)
    return frontier(**kept, notion=required.get("notion", "demographic_parity"), chosen=chosen)
