"""Policies of very many clients: how long a fit of them takes, and how long and large its file is."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

import logofair
from benchmarks.measurements import Size, drawn_labels, federation

__all__ = ["GOALS", "many_clients_policy", "show_policy"]

# Of a million clients with ten rows each: seconds of the fit, of saving and loading together, megabytes of the file.
GOALS = {"fit": 60.0, "file": 10.0, "megabytes": 60.0}


def many_clients_policy(shrink: int = 1) -> dict[str, Any]:
    """Fit a million clients (divided by ``shrink``) without pooling, save the policy and load it.

    Examples
    --------
    >>> sorted(many_clients_policy(10_000))
    ['clients', 'fit_seconds', 'load_seconds', 'megabytes', 'save_seconds']
    """
    size = Size(1_000_000 // shrink, 10)
    scores, groups, clients = federation(size)
    labels = drawn_labels(scores)
    begin = time.perf_counter()
    policy = logofair.fit(scores, labels, groups=groups, clients=clients, pooling="none", random_state=0).policy
    fitted = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        policy.save(path)
        saved = time.perf_counter()
        logofair.Policy.load(path)
        loaded = time.perf_counter()
        megabytes = path.stat().st_size / 1e6
    return {
        "clients": size.clients,
        "fit_seconds": fitted - begin,
        "save_seconds": saved - fitted,
        "load_seconds": loaded - saved,
        "megabytes": megabytes,
    }


def show_policy(found: dict[str, Any], console: Console) -> None:
    """Print the measurements."""
    console.print(
        f"{found['clients']:,} clients with 10 rows each: fit {found['fit_seconds']:.1f} s (goal {GOALS['fit']:g}), "
        f"policy saved in {found['save_seconds']:.1f} s and loaded in {found['load_seconds']:.1f} s "
        f"(goal {GOALS['file']:g} together), {found['megabytes']:.0f} MB (goal {GOALS['megabytes']:g})"
    )
