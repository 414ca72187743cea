"""``logofair federate simulate``: rehearse a run with the sites of one file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.commands.federate import Screen, quiet_option
from logofair.cli.commands.federate.server import PLAN, RESULT, STATE, plan_options, planned, report
from logofair.cli.commands.federate.setup import fingerprints
from logofair.cli.options import (
    SectionedCommand,
    column_options,
    examples,
    force_option,
    json_option,
    name_option,
    path_option,
    read_client_file,
    verbose_option,
)
from logofair.engines.events import EVENTS, Event
from logofair.engines.flower import require_flower
from logofair.errors import InputError, RunError
from logofair.files.inputs import ColumnNames
from logofair.files.writing import locked

if TYPE_CHECKING:
    from logofair.engines.site import SiteSettings
    from logofair.federation import Plan
    from logofair.progress import Progress

_SITES, _POLICIES, _STATES = "sites", "policies", "states"
_OWN_FOLDERS = (_SITES, _POLICIES, _STATES, "keys", "flower")
_OWN_FILES = (PLAN, STATE, RESULT, EVENTS)
_WARNED = 5  # sites whose warnings are told one by one
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair federate simulate data/together.csv --site site --score score --label label --group sex --folder try",
        "logofair federate simulate data/together.csv --site site --score score --group sex --calibration none "
        "--engine inprocess --folder quick",
        "logofair federate simulate data/together.csv --site site --score score --label label --group sex "
        "--costs 1,3 --require 'selection rate ratio >= 0.8 per site' --require 'accepted <= 0.5 overall' "
        "--engine inprocess --folder required",
    ),
)
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--site", metavar="COLUMN", required=True, help="Column that names each row's site.")
@column_options
@path_option("--folder", "Where sites, policies and result go.", folder=True, required=True)
@name_option(
    "--engine",
    ("flower", "inprocess"),
    "flower (its simulation: real messages) or inprocess (the same numbers, in one process).",
    default="flower",
)
@force_option("Replace an earlier simulation in the folder.")
@json_option("Print the result as JSON in place of the page, and the log as one JSON object a line.")
@quiet_option
@verbose_option
@plan_options
def simulate(
    data: Path,
    columns: ColumnNames,
    folder: Path,
    engine: str,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Rehearse a run with the sites of one file.

    Splits the rows of DATA by their site into one file each, runs the plan as if every
    site were on a machine of its own, and writes FOLDER/policies/SITE.json and
    FOLDER/result.json. Groups default to those in the file.
    """
    if engine == "flower":
        try:
            require_flower("ray")
        except InputError as error:
            raise InputError(f"{error} Or do without it: --engine inprocess gives the same numbers.") from None
    from logofair.cli.console import showing_progress

    with showing_progress(quiet=quiet or as_json) as progress:
        plan, parts = _plan_and_parts(data, columns, options, progress)
    _check_folder(folder, force)
    with locked(folder / "command.lock", patience=0.0):
        for name in _OWN_FILES:  # of an earlier simulation
            (folder / name).unlink(missing_ok=True)
        for name in _OWN_FOLDERS:
            with suppress(FileNotFoundError):
                shutil.rmtree(folder / name)
        sites = _write_sites(folder, parts, columns)
        (folder / _POLICIES).mkdir()
        if engine == "flower":
            warned = _with_flower(folder, plan, sites, Screen(quiet=quiet, as_json=as_json))
        else:
            with showing_progress(quiet=quiet or as_json) as progress:
                warned = _in_process(folder, plan, sites, progress)
    report(folder, as_json, verbose=verbose)
    if plan.secure and engine == "inprocess" and not as_json:
        click.echo("Note: one process held all rows and masked nothing; the numbers are those of secure sums.")
    for number, (site, sentences) in enumerate(warned.items()):  # such as cells with few rows
        if as_json:
            Screen(as_json=True)(Event("warning", " ".join(sentences), {"site": site, "warnings": list(sentences)}))
        elif number < _WARNED:
            for sentence in sentences:
                click.echo(f"Warning: {sentence}")
    if as_json:
        return
    if len(warned) > _WARNED:
        click.echo(
            f"Warning: {len(warned) - _WARNED:,} further sites have warnings; logofair explain "
            f"{folder / _POLICIES / 'SITE.json'} shows them."
        )
    click.echo(f"{folder / _POLICIES}: the policies of {len(sites):,} sites.")


def _write_sites(folder: Path, parts: Mapping[str, Mapping[str, Any]], columns: ColumnNames) -> list[SiteSettings]:
    """Write one file per site, whose rows are those that count, and return each site's settings."""
    import polars

    from logofair.engines.site import SiteSettings

    home = folder.resolve()
    group = (", ".join(columns.group),)
    written = ColumnNames(columns.score, columns.label, group, columns.site, columns.weight, na=())
    (home / _SITES).mkdir(0o700, parents=True)  # it holds rows
    sites = []
    for site, table in parts.items():
        file = home / _SITES / f"{site}.parquet"
        polars.DataFrame(dict(table)).write_parquet(file)
        state, policy = home / _STATES / site, home / _POLICIES / f"{site}.json"
        sites.append(SiteSettings(site, str(file), written, folder=str(state), policy=str(policy)))
    return sites


def _plan_and_parts(
    data: Path, columns: ColumnNames, options: Mapping[str, Any], progress: Progress
) -> tuple[Plan, dict[str, dict[str, Any]]]:
    """Read and check the file, make the plan, and split the columns by site; nothing is written."""
    import numpy as np

    from logofair.columns.labels import encode
    from logofair.files.values import label_text

    rows = read_client_file(data, columns, progress)
    assert rows.groups is not None
    labels = rows.groups.labels.tolist()
    joined = np.array(labels if len(columns.group) == 1 else [label_text(label) for label in labels])
    groups = encode(joined, "groups").names
    plan = planned(options, sorted(groups, key=lambda value: (str(type(value)), value)))
    for role, needed in (("label", plan.calibration != "none"), ("score", True)):
        if needed and getattr(columns, role) is None:
            raise InputError(f"--{role}: missing, but the plan needs it; name the column of {data}.")
    known = {str(group) for group in plan.groups}
    strange = next((value for value in groups if str(value) not in known), None)
    if strange is not None:
        raise InputError(f"--groups: leaves out {strange!r}, which {data} has; name it too, or drop such rows.")
    found = {columns.score: rows.scores, columns.label: rows.labels, columns.weight: rows.weights}
    named: dict[str, Any] = {", ".join(columns.group): joined} | {
        name: each for name, each in found.items() if name is not None
    }
    assert rows.sites is not None
    sites = {}
    for value, here in encode(rows.sites, "sites").by_name():
        if not _NAME.fullmatch(str(value)):
            raise InputError(
                f"{data}: column {columns.site!r} holds {str(value)[:80]!r}, which cannot name a site; use up to 64 "
                "letters, digits, '-', '_' and '.', starting with a letter or digit."
            )
        sites[str(value)] = here
    if len(sites) < plan.quorum:
        raise InputError(
            f"--site: column {columns.site!r} names {len(sites)} sites, but the plan needs {plan.quorum} (--quorum)."
        )
    split = progress(sorted(sites), "Splitting by site", len(sites))
    return plan, {site: {name: values[sites[site]] for name, values in named.items()} for site in split}


def _in_process(folder: Path, plan: Plan, sites: list[SiteSettings], progress: Progress) -> dict[str, Sequence[str]]:
    """Run in this process, and write what the sites and the server would have written; return the sites' warnings."""
    from logofair.engines.folder import RunOptions, write_plan, write_result
    from logofair.engines.inprocess import run
    from logofair.engines.site import read_site, with_columns

    write_plan(folder / PLAN, plan, RunOptions(tuple(site.site for site in sites)))
    read = progress(sites, "Reading the sites", len(sites))
    done = run(plan, {site.site: read_site(site, plan) for site in read}, progress)
    warned: dict[str, Sequence[str]] = {}
    for site in progress(sites, "Writing the policies", len(sites)):
        policy = with_columns(done.policies[site.site], site)
        policy.save(site.policy)
        if policy.info.warnings:
            warned[site.site] = policy.info.warnings
    write_result(folder / RESULT, done.result)
    return warned


def _with_flower(folder: Path, plan: Plan, sites: list[SiteSettings], screen: Screen) -> dict[str, Sequence[str]]:
    """Run in Flower's simulation, in which sites and server write their files themselves; return their warnings."""
    from dataclasses import replace

    from logofair.engines.flower.keys import make_site_key
    from logofair.engines.flower.processes import simulator
    from logofair.engines.folder import RunOptions, write_plan
    from logofair.policy.policy import Policy

    write_plan(folder / PLAN, plan, RunOptions(tuple(site.site for site in sites)))
    settings, keys = {}, folder.resolve() / "keys"
    if plan.secure:  # all keys are made here, so that no one has to compare any
        sites = [replace(site, key=str(make_site_key(keys, site.site)[0]), peers=str(keys)) for site in sites]
        sites = [replace(site, trusted=fingerprints(keys)) for site in sites]
    for site in sites:
        state = Path(site.folder)
        state.mkdir(parents=True)
        settings[site.site] = state / f"{site.site}.site.json"
        site.write(settings[site.site])
    try:
        with simulator(folder / "flower") as flower:
            screen(Event("server", f"Simulating {len(sites)} sites."))
            flower.run_plan(folder / PLAN, folder, settings, tell=screen)
    except RunError as error:
        raise RunError(f"{error} The logs are in {folder / 'flower'}.") from None
    written = {site.site: Policy.load(site.policy) for site in sites if Path(site.policy).exists()}
    return {site: policy.info.warnings for site, policy in written.items() if policy.info.warnings}


def _check_folder(folder: Path, force: bool) -> None:
    """Only an empty folder, an unfinished simulation, or with force a finished one is written to."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--folder: {folder} is a file; choose a folder.")
    if not folder.exists() or not any(file.name != "command.lock" for file in folder.iterdir()):
        return
    if not (folder / _SITES).is_dir() or not (folder / _POLICIES).is_dir():
        raise InputError(f"--folder: {folder} holds other files; choose a folder of its own.")
    if (folder / RESULT).exists() and not force:
        raise InputError(f"--folder: {folder} holds a finished simulation; choose another folder, or pass --force.")
