"""``logofair frontier``: what fairness costs, for every pair of a local and a global tolerance.

``logofair recommend``: the tightest limits that these rows can guarantee for new people, and what they cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import (
    NOTIONS,
    OF_ROWS,
    SectionedCommand,
    about_page,
    command_of_same_rows,
    confidence_option,
    constrained,
    costs_option,
    data_options,
    examples,
    force_option,
    json_option,
    name_option,
    notion_option,
    path_option,
    read_to_fit,
    require_option,
    rule_options,
    seed_option,
    test_options,
    tolerance,
    verbose_option,
)
from logofair.files.inputs import ColumnNames, check_not_read
from logofair.files.writing import LIST, PICTURE, check_outputs, put_whole

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

_MEASURES = ("gap", "ratio")  # as in logofair.tradeoff.sweep, whose import would bring numpy


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
@name_option("--measure", _MEASURES, "gap, or ratio: least ratios of the smallest rate to the largest.", "gap")
@require_option()
@costs_option()
@rule_options
@test_options
@seed_option("Seed of the calibration's folds.", "random_state")
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
    check_outputs({"--out": (out, LIST), "--plot": (plot, PICTURE)}, force=force)
    check_not_read([out, plot], data, options["test"])
    from logofair.cli.console import show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.tradeoff import frontier as solve  # here, while the reader sees that work goes on
        from logofair.words.tradeoffs import frontier_page, frontier_plot

        rows, other, arguments = read_to_fit(data, columns, options, progress)
        surface = solve(**arguments, test_rows=None if other is None else other.arguments)
        for path, text in ((out, surface.as_csv), (plot, lambda: f"{frontier_plot(surface)}\n")):
            if path is not None:
                put_whole(path, text().encode("utf-8"))
        written = tuple(str(path) for path in (out, plot) if path is not None)
        page = frontier_page(surface, about_page(rows.source, written=written), next_=_fit_from_start(surface))
    where = rows.source.columns.get("where")
    name = f"{rows.source.name} where {where}" if where else rows.source.name
    show(page, as_json=as_json, verbose=verbose, data=name, table=out and str(out), plot=plot and str(plot))


def _fit_from_start(surface: Frontier) -> str:
    """The command that fits with the limits to start from; empty where there are none that a fit takes as numbers."""
    start = surface.knee.point
    limits = [] if start is None else [start.local_tolerance, start.global_tolerance]
    if not limits or any(not (each is None or isinstance(each, float)) for each in limits):
        return ""
    local, over_all = ("none" if each is None else f"{each:.4g}" for each in limits)
    fit = command_of_same_rows("fit", options=(*OF_ROWS, "--notion", "--require"))
    return f"{fit} --local {local} --global {over_all} --out policy.json"


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair recommend data/together.csv --score score --label label --group sex --site site",
        "logofair recommend data/together.csv --score score --label label --group sex --site site "
        "--notion equal_opportunity --confidence 0.9",
        "logofair recommend data/north.csv --score score --label label --group sex --costs 1,3",
    ),
)
@data_options
@name_option("--notion", NOTIONS, f"What is fair: {', '.join(NOTIONS)}.  [default: all that the labels allow]")
@costs_option()
@confidence_option("Confidence with which everything on the page holds for new people.", 0.95)
@rule_options
@seed_option(
    "Seed of the split. Choose it once: trying several for a better page voids what the page guarantees.",
    "random_state",
)
@verbose_option
@json_option()
def recommend(data: Sequence[str], columns: ColumnNames, verbose: bool, as_json: bool, **options: Any) -> None:
    """Find the tightest limits these rows can guarantee for new people.

    For every notion of fairness: how small a gap these people suffice to guarantee,
    inside sites and over all, what that costs, and the command that does it. Limits
    are found by really fitting and certifying, and honestly: everything on the page
    holds together at the confidence asked for, the search included. Use rows the
    model was not trained on.
    """
    from logofair.cli.console import show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.tradeoff import recommend as search
        from logofair.words.tradeoffs import recommend_page

        rows, _, arguments = read_to_fit(data, columns, options, progress)
        found = search(**arguments)
        about = about_page(rows.source, left_out=rows.dropped)
        page = recommend_page(found, about, command=command_of_same_rows("fit"))
    show(page, as_json=as_json, verbose=verbose, data=rows.source.name)
