"""``logofair explain``: what a policy does and promises, in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import examples

if TYPE_CHECKING:
    from logofair.policy.info import PolicyInfo
    from logofair.policy.policy import Policy

__all__ = ["explain"]


_ROUNDING = 1e-9
_LINES = 12  # rules listed before the reader is asked to choose a client


@click.command(
    epilog=examples(
        "logofair explain policy.json",
        "logofair explain policy.json --client north --group Female",
        "logofair explain policy.json --json",
    )
)
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--client", metavar="NAME", help="Only the rules at this client.")
@click.option("--group", metavar="NAME", help="Only the rules for this group.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of words: every rule as bands of scores.")
def explain(policy: Path, client: str | None, group: str | None, as_json: bool) -> None:
    """Say in words whom a policy accepts, what it promises and how good it is."""
    from logofair.policy.policy import Policy

    rules = Policy.load(policy)
    clients, groups = _chosen(rules, client, group)
    if as_json:
        import json

        click.echo(json.dumps(as_dict(rules, clients, groups), indent=2, allow_nan=False))
        return
    from logofair.cli.pages.audit import notes, print_page
    from logofair.cli.pages.console import page

    lines = [] if client or group else [("Policy", _overview(rules)), *requirement_lines(rules.info)]
    listed = clients if client else clients[: max(1, _LINES // len(groups))]
    parts: list[Any] = [notes(lines), ""] if lines else []
    parts += [notes(list(_rules(rules, listed, groups, client)))]
    if len(listed) < len(clients):
        parts += ["", f"These are {len(listed)} of {len(clients):,} clients; --client NAME shows another, --json all."]
    print_page(parts, page())


def _chosen(policy: Policy, client: str | None, group: str | None) -> tuple[list[int], list[int]]:
    """Numbers of the clients and groups asked for."""
    from logofair.errors import InputError
    from logofair.files.values import known_label, label_text

    if client is not None and not policy.has_clients:
        raise InputError("--client: the policy was fitted without clients; leave it out.")
    clients = {label_text(name): place for place, name in enumerate(policy.clients)}
    groups = {label_text(name): place for place, name in enumerate(policy.groups)}
    return (
        list(clients.values()) if client is None else [known_label(client, clients, "--client")],
        list(groups.values()) if group is None else [known_label(group, groups, "--group")],
    )


def _overview(policy: Policy) -> str:
    """What the policy is about."""
    data, rows = policy.info.data, policy.info.rows
    made = "" if rows is None else f", made from {rows:,} rows"
    made += "" if data is None else f" of {data.name}"
    clients = f"{len(policy.clients):,} clients and " if policy.has_clients else ""
    coins, cells = int(policy.mixtures.mixed.sum()), len(policy.mixtures.weight)
    tossed = f"{coins:,} of {cells:,} rules toss a coin for some scores" if coins else "no rule tosses a coin"
    method = policy.calibrator.method
    scores = "raw scores" if method == "none" else f"calibrated scores ({method}: the chance of a positive label)"
    return f"for {clients}{len(policy.groups):,} groups{made}; it compares {scores}; {tossed}."


def requirement_lines(info: PolicyInfo) -> Iterator[tuple[str, str]]:
    """What a policy tells of requirements, certificate, prices and warnings; each with a word to stand beside.

    Examples
    --------
    >>> from logofair.policy.info import PolicyInfo, RequirementInfo, RequirementsInfo
    >>> parity = RequirementInfo("demographic_parity", "selection rate", 0.1)
    >>> list(requirement_lines(PolicyInfo(RequirementsInfo(global_=(parity,)))))
    [('Requirements', 'Over all clients, the selection rate of any two groups differs by at most 0.1.')]
    """
    title, required = "Requirements", info.requirements
    for items, where in ((required.local, "Inside each client"), (required.global_, "Over all clients")):
        bounds: dict[float, list[str]] = {}
        for item in items:
            if item.tolerance is not None:
                bounds.setdefault(item.tolerance, []).append(item.rate)
        for tolerance, rates in bounds.items():
            what, differ = " and the ".join(dict.fromkeys(rates)), "differs" if len(rates) == 1 else "differ"
            yield title, f"{where}, the {what} of any two groups {differ} by at most {tolerance:g}."
            title = ""
    for client, own in required.client_tolerances:
        bound = "is free" if own is None else f"is at most {own:g}"
        yield title, f"In place of that, the gap at {client} {bound}."
        title = ""
    proof = info.certificate
    if proof is not None:
        kept = "keeps it" if proof.violation <= _ROUNDING else f"misses it by up to {proof.violation:.4f}"
        yield (
            "Proof",
            f"On the rows it was made from, the policy {kept} and is expected to be right in {proof.primal:.2%} of "
            f"all cases; no policy that keeps it is in more than {proof.dual:.2%}. New rows differ by chance.",
        )
    for word, sentences in (("Price", info.prices), ("Warning", info.warnings)):
        for place, sentence in enumerate(sentences):
            yield "" if place else word, sentence


def _rules(policy: Policy, clients: list[int], groups: list[int], asked: str | None) -> Iterator[tuple[str, str]]:
    """A line per client and group, then those for clients the policy does not know."""
    from logofair.cli.pages.explain import bands_of, rule_in_words

    calibrated = policy.calibrator.method != "none"
    for client in clients:
        title = f"At {policy.clients[client]}" if policy.has_clients else "Rules"
        for group in groups:
            yield (
                title,
                f"{policy.groups[group]}: {rule_in_words(bands_of(policy, client, group), calibrated=calibrated)}",
            )
            title = ""
    if asked is None and policy.has_clients and policy.merged is not None:
        title = "Elsewhere"
        for group in groups:
            yield title, f"{policy.groups[group]}: {rule_in_words(bands_of(policy, -1, group), calibrated=calibrated)}"
            title = ""
        yield "", "(clients the policy does not know, with --on-unknown merged)"


def as_dict(policy: Policy, clients: list[int], groups: list[int]) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    from logofair.auditing.figures import plain
    from logofair.cli.pages.explain import bands_of, rule_in_words

    calibrated = policy.calibrator.method != "none"
    places = [(client, group) for client in clients for group in groups]
    if policy.merged is not None and len(clients) == len(policy.clients):
        places += [(-1, group) for group in groups]
    rules = []
    for client, group in places:
        bands = bands_of(policy, client, group)
        rules.append(
            {
                "client": plain(policy.clients[client]) if client >= 0 else None,
                "unknown_clients": client < 0,
                "group": plain(policy.groups[group]),
                "words": rule_in_words(bands, calibrated=calibrated),
                "bands": [vars(band) for band in bands],
            }
        )
    return {"info": policy.info.as_dict(), "calibration": policy.calibrator.method, "rules": rules}
