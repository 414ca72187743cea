"""``logofair federate join``: the policy of a site that comes after the run."""

from __future__ import annotations

from pathlib import Path

import click

from logofair.cli.data import column_options, read_client_file
from logofair.cli.options import examples
from logofair.files.inputs import ColumnNames

__all__ = ["join"]


@click.command(
    epilog=examples(
        "logofair federate join state/result.json --site west --data west.csv --group sex --score score --label label "
        "--out west.json"
    )
)
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--site", metavar="NAME", required=True, help="The name of the site.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Its file: CSV, Parquet or Arrow.")
@column_options
@click.option("--folder", type=click.Path(path_type=Path), help="The site's private state; needed under --epsilon.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where its policy is written.")
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
def join(
    result: Path, site: str, data: Path, folder: Path | None, out: Path, force: bool, columns: ColumnNames
) -> None:
    """Make the policy of a site that comes later, or that missed the end.

    RESULT is the server's result.json. The policy is made from it and the site's own
    rows, on the site's own machine; it is fair inside the site, and the requirements
    over all sites were met without it. A site that took part gets the policy it had.
    """
    from logofair.cli.pages.console import page
    from logofair.cli.pages.federate import show_policy
    from logofair.engines.folder import read_result
    from logofair.engines.site import SiteSettings, read_site, stored_release
    from logofair.errors import InputError
    from logofair.federation import late_policy

    found = read_result(result)
    if out.exists() and not force:
        raise InputError(f"--out: {out} exists; choose another name, or pass --force.")
    if found.plan.privacy is not None and folder is None:
        raise InputError(
            "--folder: missing, but the run is differentially private: name the folder of the site's private state, "
            "where its one noised histogram is kept (or will be)."
        )
    read_client_file(data, columns)
    settings = SiteSettings(site, str(data), columns, folder="", policy=str(out))
    rows = read_site(settings, found.plan)
    release = None if folder is None or found.plan.privacy is None else stored_release(folder, rows, found.plan)
    policy = late_policy(found, rows, site, release)
    policy.save(out)
    show_policy(policy, out, page())
