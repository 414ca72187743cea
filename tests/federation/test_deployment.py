"""A run with real processes on loopback: a server and three sites, TLS and node authentication, from files to policies.

The same plan gives the same numbers in one process, in Flower's simulation and in a deployment.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("flwr")
polars = pytest.importorskip("polars")

from processes import GROUPS, NEEDS_PROC, SITES, columns, deployment, run_command, tables
from sites import measured, same_policy

from logofair.engines.folder import read_plan, read_result
from logofair.engines.inprocess import run
from logofair.policy import Policy

pytestmark = [pytest.mark.federation, NEEDS_PROC]

PLAN = ("--sites", ",".join(SITES), "--groups", ",".join(GROUPS), "--local", "0.05", "--global", "0.01")
PLAIN = (*PLAN, "--calibration", "none")


def same_numbers(one, other):
    """Two results agree to the bit, in all that is a number of the run."""
    for name in ("accuracy", "bound", "gaps", "violation", "broken", "rounds", "duals", "prices", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.summary() == other.summary()


def same_policies(made, policies, tmp_path):
    """Policy files agree to the last digit."""
    for site, policy in policies.items():
        policy.save(tmp_path / "expected.json")
        assert made.policy(site).read_bytes() == (tmp_path / "expected.json").read_bytes()


def ended_well(made, server, clients, timeout=120.0):
    """The server and all clients end with code 0."""
    assert server.wait(timeout) == 0, server.text()
    for client in clients.values():
        assert client.wait(30.0) == 0, client.text()
    return made.result()


def test_three_sites_get_policies_that_together_keep_the_promise_and_are_those_of_one_process(tmp_path):
    sites = tables()
    with deployment(tmp_path / "real", sites) as made:
        server = made.server(*PLAIN, "--run", "smoke", "--wait", "60", "--timeout", "60")
        outcome = ended_well(made, server, made.clients())
        assert outcome.holds
        assert outcome.sites == SITES
        assert outcome.lost == ()
        plan, _ = read_plan(made.state / "plan.json")
        rows = {site: columns(table) for site, table in sites.items()}
        accuracy, across, inside = measured(rows, made.policies(), plan)
        assert max(across, inside) < 1e-12
        assert accuracy == pytest.approx(outcome.accuracy, abs=1e-12)
        expected = run(plan, rows)
        same_numbers(outcome, expected.outcome)
        same_policies(made, expected.policies, tmp_path)
        told = [line for line in server.text().splitlines() if re.match(r"exchange \d+ ", line)]
        assert len(told) == sum(outcome.exchanges.values())


@pytest.mark.slow
def test_flowers_simulation_gives_the_numbers_of_one_process(tmp_path):
    sites = tables()
    together = {name: np.concatenate([table[name] for table in sites.values()]) for name in ("sex", "score", "label")}
    together["site"] = np.repeat(list(sites), [len(table["sex"]) for table in sites.values()])
    polars.DataFrame(together).write_csv(tmp_path / "all.csv")
    with deployment(tmp_path / "real", sites) as made:
        files = ("--folder", made.folder / "simulated", "--client", "site", "--group", "sex", "--score", "score")
        simulation = made.command("simulate", "simulate", tmp_path / "all.csv", *files, *PLAIN[2:], "--run", "smoke")
        assert simulation.wait(240.0) == 0, simulation.text()
        plan, _ = read_plan(made.folder / "simulated" / "plan.json")
        expected = run(plan, {site: columns(table) for site, table in sites.items()})
        same_numbers(read_result(made.folder / "simulated" / "result.json"), expected.outcome)
        for site, policy in expected.policies.items():
            policy.save(tmp_path / "expected.json")
            made_here = made.folder / "simulated" / "policies" / f"{site}.json"
            assert made_here.read_bytes() == (tmp_path / "expected.json").read_bytes()
