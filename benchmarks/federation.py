"""The speed of federations: beside the central fit, rounds and bytes, and what secure sums cost a site."""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

import logofair
from benchmarks.measurements import Size, best, federation
from logofair.columns.labels import encode
from logofair.datasets import dirichlet_sites, load_adult, split
from logofair.engines.conductor import ServerState, conduct
from logofair.engines.inprocess import LocalTransport, run, run_apart
from logofair.federation import Client, Plan, Server, SiteColumns, make_plan
from logofair.federation.client import SecureIdentity
from logofair.federation.secure.client import SecureClient
from logofair.federation.secure.primitives import new_signing_key, public_line
from logofair.federation.secure.server import SecureServer

_NOTIONS = ("demographic_parity", "equalized_odds")
_GOAL = 3.0
_LOCAL, _GLOBAL = 0.02, 0.005


def federated_speed(repeat: int, shrink: int) -> list[dict[str, Any]]:
    """A certified run of many sites in one process, as a multiple of the central fit of the same rows."""
    size = Size(max(1_000 // shrink, 5), 1_000)
    rows = federation(size)
    return [_against_central(size, notion, rows, repeat) for notion in _NOTIONS]


def _against_central(size: Size, notion: str, rows: tuple[Any, Any, Any], repeat: int) -> dict[str, Any]:
    scores, groups, sites = rows
    by_site = encode(sites, "sites").by_name()
    columns = {f"site {name}": SiteColumns(sensitive_features=groups[own], scores=scores[own]) for name, own in by_site}
    # In one process rounds are free and answers are not: one price vector per round.
    plan = make_plan(
        groups=[0, 1],
        notion=notion,
        calibration="none",
        pooling="none",
        trials=1,
        smallest_cell=1,
        run="bench",
        **_tolerances(),
    )

    def central() -> logofair.Solution:
        return logofair.fit(
            scores,
            None,
            sensitive_features=groups,
            sites=sites,
            notion=notion,
            calibration="none",
            **_tolerances(),
        )

    result, solution = run(plan, columns).result, central()
    together, alone = best(lambda: run(plan, columns), repeat), best(central, repeat)
    return {
        "size": str(size),
        "notion": notion,
        "multiple": together / alone,
        "goal": _GOAL,
        "rounds": result.rounds,
        "optimality_gap": result.certificate.optimality_gap,
        "accuracy_below_central": solution.certificate.primal - result.accuracy,
    }


def _tolerances() -> dict[str, Any]:
    return {"local_tolerance": _LOCAL, "global_tolerance": _GLOBAL}


def adult_sites(seed: int = 0, n_sites: int = 5, alpha: float = 0.5) -> dict[str, SiteColumns]:
    """Adult dealt to sites, with the scores of a model trained on other rows."""
    data = load_adult("sex")
    part = split(len(data), {"train": 0.35, "calibrate": 0.35, "test": 0.3}, rng=seed)
    site = dirichlet_sites(data.sensitive, n_sites=n_sites, alpha=alpha, rng=seed)
    train, rows = part["train"], part["calibrate"]
    model = LogisticRegression(solver="newton-cholesky").fit(data.features[train], data.labels[train])
    scores = model.predict_proba(data.features[rows])[:, 1]
    sites = {}
    for name in np.unique(site[rows]):
        own = site[rows] == name
        sites[f"site {name}"] = SiteColumns(data.sensitive[rows][own].tolist(), scores[own], data.labels[rows][own])
    return sites


def messages_of(
    plan: Plan, sites: dict[str, SiteColumns], identities: dict[str, SecureIdentity] | None = None
) -> dict[str, Any]:
    """Rounds, exchanges and bytes of one run, each site behind encoded messages."""
    keys = identities or {}
    transport = LocalTransport({site: Client(site, rows, identity=keys.get(site)) for site, rows in sites.items()})
    steps = list(conduct(ServerState(Server.start(plan, transport.present())), transport))
    result = steps[-1][0].server.result
    return {
        "rounds": result.rounds,
        "exchanges": dict(result.exchanges),
        "bytes_out": sum(event.values["bytes_out"] for _, event in steps),
        "bytes_back": sum(event.values["bytes_back"] for _, event in steps),
        "largest": max(max(event.values["bytes_out"], event.values["bytes_back"]) for _, event in steps),
        "optimality_gap": result.certificate.optimality_gap,
        "violation": result.violation,
        "accuracy": result.accuracy,
    }


def rounds_and_bytes() -> list[dict[str, Any]]:
    """The exact protocol to its optimality gap beside Algorithm 1 at its default 20 rounds, on Adult."""
    sites, found = adult_sites(), []
    for notion in _NOTIONS:
        for solver, calibration in (("exact", "none"), ("exact", "beta"), ("algorithm1", "none")):
            plan = make_plan(
                groups=["Female", "Male"],
                notion=notion,
                solver=solver,
                calibration=calibration,
                pooling="none",
                run="bench",
                local_tolerance=0.05,
                global_tolerance=0.01,
            )
            found.append({"notion": notion, "solver": solver, "calibration": calibration, **messages_of(plan, sites)})
    return found


def secure_overhead(repeat: int) -> dict[str, Any] | None:
    """What secure sums add: seconds per client and sum, and a whole run beside the same run without them."""
    if not find_spec("cryptography"):
        return None
    from logofair.federation.secure import new_signing_key, public_line
    from logofair.federation.secure.primitives import private_text

    sites = adult_sites()
    signing = {site: new_signing_key() for site in sites}
    peers = {site: public_line(key) for site, key in signing.items()}
    identities = {site: SecureIdentity(private_text(key), peers) for site, key in signing.items()}
    plans = [
        make_plan(
            groups=["Female", "Male"], calibration="none", pooling="none", secure=secure, run="bench", **_tolerances()
        )
        for secure in (False, True)
    ]
    plain = best(lambda: run_apart(plans[0], sites), max(1, repeat // 2))
    masked = best(lambda: run_apart(plans[1], sites, identities), max(1, repeat // 2))
    return {
        "milliseconds": {f"{n} sites": 1e3 * overhead(n, 100) for n in (3, 10, 30)},
        "run_multiple": masked / plain,
        "messages": messages_of(plans[1], sites, identities),
    }


def show_federation(results: dict[str, Any], console: Console) -> None:
    """Print the measurements as tables."""
    for t in results["federated"]:
        met = "met" if t["multiple"] <= t["goal"] else "missed"
        short = {"demographic_parity": "DP", "equalized_odds": "EO"}[t["notion"]]
        console.print(
            f"federation in one process, {t['size']}, {short}: {t['multiple']:.1f} times the central fit "
            f"(goal {t['goal']:g} {met}), {t['rounds']} rounds to an optimality gap of {t['optimality_gap']:.0e}"
        )
    table = Table(
        title="Adult, 5 sites: to an optimality gap of 1e-5, and Algorithm 1 (bytes: largest message)",
        title_justify="left",
    )
    for name in ("notion", "solver", "calibr."):
        table.add_column(name)
    for name in ("rounds", "exchanges", "bytes", "KB/site", "optimality gap", "violation"):
        table.add_column(name, justify="right")
    for t in results["rounds"]:
        total = (t["bytes_out"] + t["bytes_back"]) / 1000
        table.add_row(
            {"demographic_parity": "DP", "equalized_odds": "EO"}[t["notion"]], t["solver"], t["calibration"],
            str(t["rounds"]), str(sum(t["exchanges"].values())), str(t["largest"]), f"{total:.1f}",
            f"{t['optimality_gap']:.0e}", f"{t['violation']:.0e}",
        )  # fmt: skip
    console.print(table)
    masks = results["secure"]
    if masks is None:
        console.print("cryptography is not installed: no secure sums (pip install 'logofair[secure]').")
        return
    shown = ", ".join(f"{name} {ms:.1f} ms" for name, ms in masks["milliseconds"].items())
    console.print(f"secure sums, per client and sum of 100 numbers: {shown}")
    console.print(
        f"a whole run on Adult with secure sums: {masks['run_multiple']:.1f} times the same run without, "
        f"{sum(masks['messages']['exchanges'].values())} exchanges, largest message "
        f"{masks['messages']['largest']} bytes"
    )


def overhead(n_sites: int, length: int) -> float:
    """Seconds that one sum of ``length`` numbers costs each of ``n_sites`` sites, beyond finding the numbers."""
    sites = [f"site-{i}" for i in range(n_sites)]
    signing = {site: new_signing_key() for site in sites}
    peers = {site: public_line(key) for site, key in signing.items()}
    started = {site: SecureClient.start("bench", site, sites, signing[site], peers) for site in sites}
    server = SecureServer.start("bench", sites).collect_keys({site: keys for site, (_, keys) in started.items()})
    dealt = {site: client.shares(server.keys) for site, (client, _) in started.items()}
    server = server.collect_shares({site: material for site, (_, material) in dealt.items()})
    values, steps = np.linspace(-1.0, 1.0, length), np.full(length, 2.0**-40)
    server = server.begin_sum(b"", steps)
    deliveries, began = server.deliveries, perf_counter()
    masked = {s: client.masked(1, b"", deliveries[s], values, steps, signing[s]) for s, (client, _) in dealt.items()}
    seconds = perf_counter() - began
    server = server.collect_masked({site: message for site, (_, message) in masked.items()})
    listed, began = server.fingerprints, perf_counter()
    confirmed = {s: client.confirm(1, listed, signing[s]) for s, (client, _) in masked.items()}
    seconds += perf_counter() - began
    server = server.collect_confirmed({site: message for site, (_, message) in confirmed.items()})
    signed, began = server.confirmed, perf_counter()
    unmasked = {s: client.unmask(1, signed) for s, (client, _) in confirmed.items()}
    seconds += perf_counter() - began
    relay, began = server.collect_unmasked({s: message for s, (_, message) in unmasked.items()}).relay, perf_counter()
    assert relay is not None
    for client, _ in unmasked.values():
        client.recomputed(relay, steps)
    return (seconds + perf_counter() - began) / n_sites
