"""``logofair explain``: what a policy does, and what was required of it, in words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logofair.cli.options import SectionedCommand, examples, json_option, verbose_option
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.policy.policy import Policy


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair explain policy.json",
        "logofair explain policy.json --only-site north --only-group Female",
        "logofair explain policy.json --json",
    ),
)
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--only-site", "site", metavar="NAME", help="Only the rules at this site.")
@click.option("--only-group", "group", metavar="NAME", help="Only the rules for this group.")
@verbose_option
@json_option("Print JSON in place of words: every rule as bands of scores.")
def explain(policy: Path, site: str | None, group: str | None, verbose: bool, as_json: bool) -> None:
    """Say in words whom a policy accepts, what was required of it and how good it is."""
    from logofair.cli.console import show, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.policy.policy import Policy
        from logofair.words.explained import policy_page

        (rules,) = progress(map(Policy.load, [policy]), "Reading the policy", total=1)
    sites, groups = _chosen(rules, site, group)
    only = site is not None or group is not None
    file, ids = shlex.quote(str(policy)), " --id COLUMN" if rules.mixtures.mixed.any() else ""
    apply = f"logofair apply {file} NEW.csv{ids} --out decisions.csv"
    audit = f"logofair audit OTHERS.csv --policy {file} --label COLUMN"
    page = policy_page(rules, policy.name, sites, groups, only=only, apply=apply, audit=audit)
    show(page, as_json=as_json, verbose=verbose or only)


def _chosen(policy: Policy, site: str | None, group: str | None) -> tuple[list[int], list[int]]:
    """Numbers of the sites and groups asked for."""
    from logofair.files.values import known_label, label_text

    if site is not None and not policy.has_sites and policy.site is None:
        raise InputError("--only-site: the policy was fitted without sites; leave it out.")
    sites = {label_text(name): place for place, name in enumerate(policy.sites)}
    groups = {label_text(name): place for place, name in enumerate(policy.groups)}
    return (
        list(sites.values()) if site is None else [known_label(site, sites, "--only-site")],
        list(groups.values()) if group is None else [known_label(group, groups, "--only-group")],
    )
