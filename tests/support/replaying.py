"""A server fed again with the totals of a run that was: what it asks, as fingerprints.

As a program (``python -m support.replaying FILE...``) it prints the fingerprints of stored transcripts, for other
machines, processors and libraries; ``--store`` writes the transcripts of :data:`RUNS` anew, after a change of the
protocol.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np

from logofair.federation import ClientBatch, Server
from logofair.federation.exchange import Request, Sums
from logofair.federation.plan import Plan
from logofair.records import decode, encode
from support.sites import federation, plan_of

STORED = Path(__file__).parent / "transcripts"

# Settings of each run, and its number of groups.
RUNS = {
    "demographic_parity-2": ({"trials": 0}, 2),
    "equalized_odds-2": ({"trials": 0, "notion": "equalized_odds", "calibration": "beta"}, 2),
    "demographic_parity-3": ({"trials": 0, "global_tolerance": 0.0, "calibration": "platt"}, 3),
    "required-2": (
        {
            "trials": 0,
            "local_tolerance": ("ratio", 0.8),
            "global_tolerance": ("ratio", 0.9),
            "costs": (1, 3),
            "floors": {"global": {"equal_opportunity": "today"}},
            "capacity": 0.85,
            "calibration": "beta",
        },
        2,
    ),
    "equalized_odds-3": ({"trials": 8, "notion": "equalized_odds", "calibration": "beta"}, 3),
}


def plan_of_run(name: str) -> Plan:
    """The plan of one of the runs, under secure sums."""
    settings, groups = RUNS[name]
    return plan_of(groups=list(range(groups)), secure=True, run=name, **settings)


def recorded(name: str) -> tuple[Sums, ...]:
    """The totals of one of the runs, in the steps in which secure sums give them."""
    plan, sites = plan_of_run(name), federation((600, 400, 500), groups=RUNS[name][1], digits=2)
    batch, server, totals = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), []
    while not server.done:
        batch, sums = batch.answer(server.request)
        total = _in_steps(sums.total(), server.request)
        totals.append(total)
        server = server.take(total)
    assert server.result.holds
    return tuple(totals)


def _in_steps(total: Sums, request: Request) -> Sums:
    shapes = [np.shape(getattr(total, f.name)) for f in fields(total)]
    steps = total.steps_of(shapes, request)
    return type(total).from_vector(np.rint(total.vector() / steps) * steps, shapes)


def fingerprints(name: str, totals: tuple[Sums, ...]) -> list[str]:
    """Of everything that the server sends, one by one, and of its result."""
    server, found = Server.start(plan_of_run(name), "abc"), []
    for total in totals:
        found.append(_fingerprint(encode(server.message())))
        server = server.take(total)
    assert server.done
    return [*found, _fingerprint(encode(server.result))]


def numbers(name: str, totals: tuple[Sums, ...]) -> list[str]:
    """Fingerprints of the server's numbers alone, which no change of a plan or a sentence changes."""
    server, found = Server.start(plan_of_run(name), "abc"), []
    for total in totals[:-1]:
        found.append(_fingerprint(encode(server.request)))
        server = server.take(total)
    return found


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def stored(path: Path) -> tuple[Sums, ...]:
    """The totals in a file."""
    return decode(gzip.decompress(path.read_bytes()), tuple[Sums, ...])


def store(path: Path, totals: tuple[Sums, ...]) -> None:
    """Write totals to a file."""
    path.write_bytes(gzip.compress(encode(totals), mtime=0))


def main(arguments: list[str]) -> None:
    """Print the fingerprints of files named after their runs, or store the transcripts of all runs."""
    if arguments == ["--store"]:
        STORED.mkdir(exist_ok=True)
        for name in RUNS:
            store(STORED / name, recorded(name))
        known = {name: numbers(name, stored(STORED / name)) for name in RUNS}
        (STORED / "fingerprints.json").write_text(json.dumps(known, indent=1) + "\n")
    else:
        print(json.dumps([fingerprints(Path(file).name, stored(Path(file))) for file in arguments]))


if __name__ == "__main__":
    main(sys.argv[1:])
