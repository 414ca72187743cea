"""``logofair frontier``: what fairness costs, for every pair of a local and a global tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import (
    SectionedCommand,
    about_page,
    basis_option,
    calibration_option,
    constrained,
    costs_option,
    data_options,
    examples,
    force_option,
    id_option,
    json_option,
    name_option,
    notion_option,
    path_option,
    pooling_option,
    seed_option,
    test_options,
    tolerance,
    verbose_option,
)
from logofair.cli.requiring import require_option
from logofair.files.inputs import ColumnNames, DataSource, find_files
from logofair.files.writing import LIST, PICTURE, check_outputs, put_whole

if TYPE_CHECKING:
    from logofair.files.rows import DataRows
    from logofair.progress import Progress
    from logofair.tradeoff import Frontier


MEASURES = ("gap", "ratio")  # as in logofair.tradeoff.grid, whose import would bring numpy


def _tolerances(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[float | None, ...] | None:
    """A list of tolerances as it is typed."""
    if text is None:
        return None
    return tuple(1.0 if each.strip() == "1" else constrained(tolerance(ctx, param, each)) for each in text.split(","))


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair frontier data/together.csv --score score --label label --group sex --site site",
        "logofair frontier data/north.csv --score score --label label --group sex --notion equalized_odds "
        "--plot frontier.svg",
        "logofair frontier data/together.csv --score score --label label --group sex --site site "
        "--local 0.01,0.05,none --global 0.01,0.02 --test data/others.csv --out frontier.csv",
        "logofair frontier scores.csv --score score --label label --group group --site site "
        "--where part=calibration --test-where part=test",
        "logofair frontier data/together.csv --score score --label label --group sex --site site --costs 1,3 "
        "--measure ratio --local 0.9,0.8,none --global none --require 'accepted <= 0.5 overall' --plot frontier.svg",
    ),
)
@data_options
@notion_option
@click.option(
    "--local",
    "local_tolerances",
    metavar="LIST",
    callback=_tolerances,
    help="Gaps allowed inside each site, such as 0,0.01,none.  [default: from 0 to where they stop binding]",
)
@click.option(
    "--global",
    "global_tolerances",
    metavar="LIST",
    callback=_tolerances,
    help="Gaps allowed over all sites together.  [default: likewise]",
)
@name_option("--measure", MEASURES, "gap, or ratio: least ratios of the smallest rate to the largest.", "gap")
@require_option()
@costs_option()
@calibration_option
@basis_option
@pooling_option
@test_options
@id_option
@seed_option("Of the calibration's folds.", "random_state")
@path_option("--out", "Where to write the table (CSV).")
@path_option("--plot", "Where to write the picture (SVG).")
@verbose_option
@force_option()
@json_option()
def frontier(
    data: Sequence[str],
    columns: ColumnNames,
    out: Path | None,
    plot: Path | None,
    force: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what fairness costs: accuracy for every pair of tolerances.

    Finds the most accurate rules for a grid of local and global tolerances, each
    with a certificate, and says where the knee is: the tolerances after which more
    of them wins little accuracy. What --require says holds at every point; with
    --costs the rules are the cheapest. Points that no rule meets are
    shown with the requirements that conflict. Use rows the model was not trained
    on; then make the rules with logofair fit.
    """
    from logofair.cli.console import print_json, show, showing_progress

    check_outputs({"--out": out, "--plot": plot}, force=force, endings={"--out": LIST, "--plot": PICTURE})
    with showing_progress(quiet=as_json) as progress:
        source, surface = _solve(data, columns, options, progress)
        _write(surface, out, plot)
        from logofair.words.tradeoffs import frontier_page

        written = tuple(str(path) for path in (out, plot) if path is not None)
        page = frontier_page(surface, about_page(source, written=written))
    if as_json:
        where = source.columns.get("where")
        files = {
            "data": f"{source.name} where {where}" if where else source.name,
            "table": out and str(out),
            "plot": plot and str(plot),
        }
        print_json(files | page.values)
    else:
        show(page, verbose=verbose)


def _solve(
    data: Sequence[str], columns: ColumnNames, options: dict[str, Any], progress: Progress
) -> tuple[DataSource, Frontier]:
    """Read the rows and solve the grid; where the rows came from and the frontier."""
    from logofair.files.rows import read_parts  # here, while the reader sees that work goes on
    from logofair.files.values import costs_by_site
    from logofair.tradeoff import frontier as solve

    test, test_where, costs = (options.pop(name) for name in ("test", "test_where", "costs"))
    files = find_files(data, site=columns.site)
    columns.require(files, score="the model's scores", group="the groups to compare, such as sex")
    if options["basis"] == "labels":
        columns.require(files, label="labels, which --basis labels counts with")
    rows, other = read_parts(files, columns, test, test_where, progress)
    options["calibration"] = options["calibration"] or ("none" if rows.labels is None else "beta")
    surface = solve(
        rows.scores,
        rows.labels,
        sensitive_features=rows.groups,
        sites=rows.sites,
        sample_weight=rows.weights,
        ids=rows.ids,
        test_rows=None if other is None else _columns(other),
        progress=progress,
        costs=costs_by_site(costs, None if rows.sites is None else list(dict.fromkeys(rows.sites.tolist()))),
        **options,
    )
    return rows.source, surface


def _columns(rows: DataRows) -> dict[str, Any]:
    """Test rows as the library takes them."""
    names = {"scores": rows.scores, "labels": rows.labels, "sensitive_features": rows.groups}
    return names | {"sites": rows.sites, "sample_weight": rows.weights, "ids": rows.ids}


def _write(surface: Frontier, out: Path | None, plot: Path | None) -> None:
    """Write the files asked for, each whole or not at all."""
    from logofair.words.tradeoffs import frontier_plot

    texts = ((out, surface.as_csv), (plot, lambda: f"{frontier_plot(surface)}\n"))
    for path, text in texts:
        if path is not None:
            put_whole(path, text().encode("utf-8"))
