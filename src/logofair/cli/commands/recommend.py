"""``logofair recommend``: the tightest limits that these rows can guarantee for new people, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from logofair.cli.options import (
    NOTIONS,
    SectionedCommand,
    about_page,
    basis_option,
    calibration_option,
    command_of_same_rows,
    confidence_option,
    costs_option,
    data_options,
    examples,
    id_option,
    json_option,
    name_option,
    pooling_option,
    read_to_fit,
    seed_option,
    verbose_option,
)
from logofair.files.inputs import ColumnNames


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
@id_option
@name_option("--notion", NOTIONS, f"What is fair: {', '.join(NOTIONS)}.  [default: all that the labels allow]")
@costs_option()
@confidence_option("With which everything on the page holds for new people.", 0.95)
@calibration_option
@basis_option
@pooling_option
@seed_option("Of the split: part of what is claimed, so do not try many.", "random_state")
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
