"""``logofair fit``: fair decision rules for some data, with a certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.data import data_options
from logofair.cli.options import NOTIONS, examples, force_option, one_of, seed_option
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.writing import check_output

if TYPE_CHECKING:
    from logofair.cli.pages.fit import FitOptions
    from logofair.files.rows import DataRows
    from logofair.fitting.solution import Solution

__all__ = ["fit"]


CALIBRATIONS = ("beta", "platt", "temperature", "isotonic", "none")


def _tolerance(text: str, ctx: click.Context, param: click.Parameter) -> float | None:
    """A tolerance as it is typed."""
    if text.strip().lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise click.BadParameter(f"got {text!r}; pass a number of at least 0, such as 0.02, or none.", ctx, param)
    return value


def _one_tolerance(ctx: click.Context, param: click.Parameter, text: str) -> float | None:
    return _tolerance(text, ctx, param)


def _notions(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> dict[str, float | None]:
    """Notions with the tolerance each was given, None where it was given none."""
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, tolerance = text.partition("=")
        found[one_of(NOTIONS)(ctx, param, name)] = _tolerance(tolerance, ctx, param) if equals else None
    return found


def _single(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> dict[str, float | None]:
    """Tolerances of single clients."""
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, tolerance = text.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"got {text!r}; pass CLIENT=TOLERANCE, such as north=0.01.", ctx, param)
        found[name] = _tolerance(tolerance, ctx, param)
    return found


@click.command(
    epilog=examples(
        "logofair fit people.csv --score p --label y --group sex --client state --out policy.json",
        "logofair fit sites/ --score p --label y --group sex --notion equalized_odds --out policy.json",
        "logofair fit ... --local 0.05 --local-for north=0.01 --global none --out policy.json --report report.html",
    )
)
@data_options
@click.option(
    "--notion",
    metavar="NAME[=TOL]",
    multiple=True,
    default=("demographic_parity",),
    show_default=True,
    callback=_notions,
    help=f"What is fair: {', '.join(NOTIONS)}; may be given again, each with a tolerance of its own.",
)
@click.option(
    "--local",
    "local_tolerance",
    metavar="TOL",
    default="0.02",
    show_default=True,
    callback=_one_tolerance,
    help="Largest gap allowed inside each client, or none.",
)
@click.option(
    "--global",
    "global_tolerance",
    metavar="TOL",
    default="0.02",
    show_default=True,
    callback=_one_tolerance,
    help="Largest gap allowed across all clients, or none.",
)
@click.option(
    "--local-for",
    metavar="CLIENT=TOL",
    multiple=True,
    callback=_single,
    help="Tolerance of a single client in place of --local; may be given again.",
)
@click.option(
    "--calibration",
    metavar="NAME",
    callback=lambda ctx, param, name: name and one_of(CALIBRATIONS)(ctx, param, name),
    help=f"How scores become chances: {', '.join(CALIBRATIONS)}.  [default: beta, none without labels]",
)
@click.option(
    "--solver",
    metavar="NAME",
    default="exact",
    show_default=True,
    callback=one_of(("exact", "algorithm1")),
    help="exact, or the paper's algorithm1, which may miss its tolerances.",
)
@seed_option("Of the calibration's folds and the policy's coins.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to write the policy (JSON).")
@click.option("--report", type=click.Path(path_type=Path), help="Where to write a report (HTML).")
@force_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
def fit(
    data: Sequence[str], columns: ColumnNames, out: Path, report: Path | None, force: bool, as_json: bool, **wishes: Any
) -> None:
    """Make decision rules that are fair inside every client and across all of them.

    Finds the most accurate rules that keep every gap within its tolerance on the
    rows of DATA, writes them as a policy, and proves how good they are. Use rows
    the model was not trained on. Then see logofair explain and logofair apply.
    """
    for path in (out, report):
        if path is not None:
            check_output(path, force=force)
    from logofair.cli.pages.console import showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.cli.pages import fit as work  # here, while the reader sees that work goes on
        from logofair.files.rows import read_rows

        wanted = work.FitOptions(**wishes)
        files = find_files(data, client=columns.client)
        columns.require(files, score="the model's scores", group="the groups to compare, such as sex")
        rows = read_rows(files, columns, progress)
        (solution,) = progress(map(work.solve, [rows], [wanted]), "Fitting", total=1)
        solution = work.annotated(solution, rows, columns, by_file=files.by_file)
        solution.policy.save(out)
        if report is not None:
            command = work.repeat_command(data, columns, wanted, out, report)
            page = map(work.write_report_page, [report], [solution], [rows], [wanted], [command])
            list(progress(page, "Writing the report", total=1))
    _show(solution, rows, wanted, out, report, as_json)


def _show(
    solution: Solution, rows: DataRows, wanted: FitOptions, out: Path, report: Path | None, as_json: bool
) -> None:
    """Print what was found."""
    from logofair.cli.pages.fit import as_dict, before_and_after, show

    compared = before_and_after(solution, list(wanted.notion))
    if as_json:
        import json

        files = {"policy": str(out), "report": None if report is None else str(report)}
        click.echo(json.dumps(files | as_dict(solution, compared, rows), indent=2, allow_nan=False))
    else:
        from logofair.cli.pages.console import page

        show(solution, compared, rows, (out, report), page())
