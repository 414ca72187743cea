"""``logofair fit``: fair decision rules for some data, with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from logofair.cli.options import (
    FORMATS,
    SectionedCommand,
    about_page,
    basis_option,
    calibration_option,
    check_format,
    command_of_same_rows,
    data_options,
    examples,
    force_option,
    format_option,
    id_option,
    json_option,
    name_option,
    number_option,
    path_option,
    pooling_option,
    report_options,
    seed_option,
    such_that,
    test_options,
    verbose_option,
)
from logofair.cli.requiring import requirement_options, short_way
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.writing import POLICY, REPORT, check_outputs


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
    ),
)
@data_options
@test_options
@id_option
@requirement_options()
@calibration_option
@basis_option
@pooling_option
@number_option(
    "--confidence",
    float,
    such_that(lambda confidence: 0 < confidence < 1, "pass a number above 0 and below 1, such as 0.95"),
    "Also certify with this confidence, such as 0.95, which gaps stay within tolerance on new rows.",
)
@name_option(
    "--solver",
    ("exact", "algorithm1"),
    "exact, or the paper's algorithm1, which may miss its tolerances.",
    default="exact",
)
@seed_option("Of the calibration's folds and the policy's coins.  [default: folds by 0, coins at random]", default=None)
@path_option("--out", "Where to write the policy (JSON).", required=True)
@report_options
@format_option(FORMATS[1:], "Print a model-card, or the parts of annex-iv that can be stated, in place of tables.")
@verbose_option
@force_option()
@json_option()
def fit(
    data: Sequence[str],
    columns: ColumnNames,
    out: Path,
    report: Path | None,
    form: str | None,
    verbose: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make decision rules that are fair inside every site and over all of them.

    Finds the most accurate rules, or with --costs the cheapest, that meet every
    requirement on the rows of DATA, or proves which requirements conflict. Writes
    them as a policy, and proves how good they are there. How good they are for other
    people --test shows, and --confidence certifies what holds for new ones; without
    either the verdict is NOT MEASURED. Use rows the model was not trained on. Then
    see logofair explain and logofair apply.
    """
    check_format(form, as_json=as_json)
    check_outputs({"--out": out, "--report": report}, force=force, endings={"--out": POLICY, "--report": REPORT})
    from logofair.cli.console import print_json, show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.cli import fitting as work  # here, while the reader sees that work goes on
        from logofair.files.rows import read_parts
        from logofair.words import write_report
        from logofair.words.fitted import fit_page
        from logofair.words.forms import FORMS

        wanted = work.FitOptions(short_way=short_way(options), **options)
        files = find_files(data, site=columns.site)
        columns.require(files, score="the model's scores", group="the groups to compare, such as sex")
        if wanted.basis == "labels":
            columns.require(files, label="labels, which --basis labels counts with")
        wanted.check_pooling()
        rows, other = read_parts(files, columns, wanted.test, wanted.test_where, progress)
        solution = work.solve(rows, wanted, progress)
        solution = work.annotated(solution, rows, columns)
        if other is not None:
            (solution,) = progress(map(work.measured_on, [other], [solution]), "Testing", total=1)
        solution.policy.save(out)
        written = tuple(str(path) for path in (out, report) if path is not None)
        about = about_page(rows.source, **wanted.heading, left_out=rows.dropped, written=written)
        frontier = None if report is None else work.trade_off(rows, wanted, progress)
        parts: dict[str, Any] = {"frontier": frontier, "next_": work.next_command(solution, out)}
        parts["recommend"] = command_of_same_rows("recommend")
        values = work.values_of(solution, rows)
        (page,) = progress((fit_page(each, about, values=values, **parts) for each in [solution]), "Measuring", total=1)
        if report is not None:
            (write,) = progress([write_report], "Writing the report", 1)
            write(report, page)
    if form is not None:
        click.echo(FORMS[form](solution, about), nl=False)
    elif as_json:
        print_json({"policy": str(out), "report": None if report is None else str(report)} | page.values)
    else:
        show(page, verbose=verbose)
