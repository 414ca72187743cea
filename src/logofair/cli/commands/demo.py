"""``logofair demo``: the whole story on the embedded Adult data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from logofair.cli.options import (
    SectionedCommand,
    about_page,
    constrained,
    examples,
    force_option,
    json_option,
    notion_option,
    number_option,
    path_option,
    seed_option,
    such_that,
    tolerance_option,
    verbose_option,
)

# The tolerances of the paper's tables: 0.01 for demographic parity, 0.02 for equalized odds. Equal opportunity and
# predictive equality are one half of equalized odds each.
_DEFAULT_TOLERANCES = {
    "demographic_parity": 0.01,
    "equal_opportunity": 0.02,
    "predictive_equality": 0.02,
    "equalized_odds": 0.02,
}
_MOST_SITES = 1000
_USUAL = "0.01 for demographic_parity, 0.02 otherwise"  # in --help


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair demo",
        "logofair demo --notion equalized_odds --local 0.05 --global 0.02",
        "logofair demo --sites 10 --alpha 100 --seed 1 --json",
    ),
)
@number_option(
    "--alpha",
    float,
    such_that(lambda a: 0 < a < math.inf, "pass a number above 0, such as 0.5 (uneven) or 100 (even)"),
    "How evenly groups are spread over sites: the smaller, the less.",
    default=0.5,
)
@number_option(
    "--sites",
    int,
    such_that(lambda k: 2 <= k <= _MOST_SITES, f"pass a whole number from 2 to {_MOST_SITES}"),
    "Number of sites.",
    default=5,
)
@notion_option
@tolerance_option("local", "inside each site", otherwise=_USUAL)
@tolerance_option("global", "over all sites together", otherwise=_USUAL)
@seed_option("The same seed prints the same table.", "random_state")
@path_option(
    "--report",
    "Where the report is written; a file that is there stays.",
    default=Path("report.html"),
    show_default=True,
)
@verbose_option
@force_option("Replace a report that is there already.")
@json_option("Print JSON in place of the table, and write no report.")
def demo(
    notion: str,
    local_tolerance: float | None,
    global_tolerance: float | None,
    report: Path,
    verbose: bool,
    force: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Train, post-process and audit on the embedded Adult data.

    Deals 48,842 census rows to sites, trains a logistic regression on a part of
    them, makes its decisions fair over all sites (LoGoFair_g), inside each site
    (LoGoFair_l) and both (LoGoFair_l&g), compares them on held-out test rows, and
    writes a report of the last. It takes a few seconds and needs no network.
    """
    from logofair.cli.console import show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.datasets import load_adult  # slow to import: here the progress shows already
        from logofair.datasets.demonstration import Settings, compare
        from logofair.words.fitted import demo_page, demo_report

        # Work of one step is passed to the progress as an iterable of one.
        (data,) = progress(map(load_adult, ["sex"]), "Reading the Adult data", total=1)
        usual = _DEFAULT_TOLERANCES[notion]
        settings = Settings(
            notion=notion,
            local_tolerance=usual if local_tolerance is None else constrained(local_tolerance),
            global_tolerance=usual if global_tolerance is None else constrained(global_tolerance),
            **others,
        )
        comparison = compare(data, settings, progress)
        written = None
        if not as_json and (force or not report.exists()):
            about = about_page(None, purpose="a demonstration on public data")
            (written,) = progress(map(demo_report, [comparison], [about]), "Writing the report", total=1)
            written.save(report)
    page = demo_page(comparison, report=str(report), kept=written is None)
    show(page, as_json=as_json, verbose=verbose)
