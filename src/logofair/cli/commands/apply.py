"""``logofair apply``: decide on new rows by a policy, in batches, so that files may be larger than memory."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from logofair.cli.options import (
    SectionedCommand,
    drop_missing_option,
    examples,
    force_option,
    group_probability_option,
    json_option,
    na_option,
    name_option,
    path_option,
    seed_option,
)
from logofair.errors import InputError
from logofair.files.inputs import SCALES, ColumnNames, check_not_read
from logofair.files.writing import TABLE, check_output


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair apply policy.json data/others.csv --id id --keep sex --out decisions.csv",
        "logofair apply policy.json data/new-north.csv --on-unknown merged --id id --keep age --out north.parquet",
        "logofair apply policy.json data/others.csv --score score --group sex --site site --seed 1 --out all.parquet",
    ),
)
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW...", nargs=-1, required=True)
@click.option("--score", metavar="COLUMN", help="Scores.  [default: as in the fit]")
@click.option(
    "--group", metavar="COLUMN", multiple=True, help="Groups; several as in the fit.  [default: as in the fit]"
)
@click.option("--site", metavar="COLUMN", help="Sites.  [default: as in the fit]")
@group_probability_option
@name_option("--scale", SCALES, f"What scores are: {', '.join(SCALES)}.  [default: as in the fit]")
@drop_missing_option
@na_option(default=None, otherwise="as in the fit")
@click.option("--id", metavar="COLUMN", help="Ids of people: the same id always gets the same decision.")
@click.option("--keep", metavar="COLUMN", multiple=True, help="Column to copy into the output; may be given again.")
@path_option("--out", "Where to write the decisions; the ending says how: Parquet, CSV or Arrow.", required=True)
@name_option(
    "--on-unknown",
    ("raise", "merged", "base"),
    "What to do with people of sites the policy does not know: raise (refuse the file), merged (use the rule of all "
    "sites taken as one) or base (accept from a score of 1/2 on; unknown groups too).",
    default="raise",
)
@click.option(
    "--deterministic",
    is_flag=True,
    help="No coins: one threshold per site and group. Gaps then exceed their limits: for equalized odds by 10 to 18 "
    "points on Adult.",
)
@click.option(
    "--exact-counts",
    is_flag=True,
    help="Accept as many people as expected, to within one, in every site and group and overall. A person's decision "
    "then depends on who else is in the files; other files may not keep a limit on how many are accepted. Files are "
    "read twice.",
)
@seed_option("Seed of the coins where there are no ids; a policy with coins needs --id or --seed.", default=None)
@force_option()
@json_option("Print JSON in place of a summary.")
def apply(
    policy: Path,
    new: Sequence[str],
    scale: str | None,
    na: tuple[str, ...] | None,
    keep: tuple[str, ...],
    out: Path,
    on_unknown: str,
    deterministic: bool,
    exact_counts: bool,
    seed: int | None,
    force: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Decide on the rows of NEW by a policy: 1 accept, 0 reject.

    NEW is a file (CSV, Parquet, Arrow), several, a pattern in quotes, or a folder
    with one file per site, of any size. The output has the id (or the
    row's number from 1), the decision, and the columns to keep.
    """
    check_output(out, force=force, endings=TABLE)
    check_not_read([out], [policy], new)
    from logofair.cli.console import show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.policy.deciding import Decider, columns_of_fit, decide_files
        from logofair.policy.policy import Policy
        from logofair.words.explained import applied_page

        rules = Policy.load(policy)
        files, columns = columns_of_fit(rules, new, ColumnNames(**named), scale, na)
        if rules.looks_away:
            if named["group"]:
                raise InputError("--group: the policy may not look at groups; leave it out.")
            columns = replace(columns, group=())
            columns.require(files, score="the model's scores", group_probability="each group's probability")
        else:
            columns.require(files, score="the model's scores", group="the groups")
        if columns.site is not None and not rules.has_sites and rules.site is None:
            raise InputError("--site: the policy was fitted without sites; leave it out.")
        kept = tuple(dict.fromkeys(keep))
        decider = Decider(rules, columns, kept, on_unknown, seed, deterministic, exact_counts, policy)
        totals = decide_files(decider, files, out, progress)
        checked = columns.site is not None
        audit = shlex.join(["logofair", "audit", *map(str, new), "--policy", str(policy)])
        page = applied_page(
            totals,
            str(out),
            by_position=decider.by_position,
            site=rules.site,
            site_checked=checked,
            audit=f"{audit} --label COLUMN",
        )
    show(page, as_json=as_json)
