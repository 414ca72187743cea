"""A run with real processes on loopback: a server and its sites, TLS and node authentication, from files to policies.

The same plan gives the same numbers in one process, in Flower's simulation and in a deployment.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("polars")

from logofair.engines.folder import read_plan, read_result
from logofair.engines.inprocess import run
from logofair.policy.policy import Policy
from logofair.records import encode
from support.processes import (
    GROUPS,
    NEEDS_PROC,
    SITES,
    check_result,
    columns,
    deployment,
    expected_of,
    run_command,
    tables,
    write_table,
)
from support.sites import measured

pytestmark = [pytest.mark.federation, NEEDS_PROC]

USUAL = ("--groups", ",".join(GROUPS), "--local", "0.05", "--global", "0.01", "--pooling", "none")
PLAN = ("--sites", ",".join(SITES), *USUAL)
PLAIN = (*PLAN, "--calibration", "none", "--run", "smoke")


def same_files(folder, policies, tmp_path, name="{}.json"):
    """Policy files agree with policies to the last digit; the columns of its file a site alone knows."""
    for site, policy in policies.items():
        found = Policy.load(folder / name.format(site))
        assert found.info.columns is not None
        replace(policy, info=replace(policy.info, columns=found.info.columns)).save(tmp_path / "expected.json")
        assert (folder / name.format(site)).read_bytes() == (tmp_path / "expected.json").read_bytes()


def ended_well(server, sites, timeout=180.0):
    assert server.wait(timeout) == 0, server.text()
    for client in sites.values():
        assert client.wait(60.0) == 0, client.text()


def test_sites_get_policies_that_together_keep_the_promise_and_are_those_of_one_process(tmp_path):
    two = SITES[:2]  # every message to a site starts a process of Flower's
    with deployment(tmp_path / "real", tables(two)) as made:
        plan = ("--sites", ",".join(two), *PLAIN[2:], "--optimality-gap", "0.001")
        server, sites = made.server(*plan), made.clients()
        ended_well(server, sites)
        outcome, expected = check_result(made, two)
        assert outcome.summary(verbose=True) == expected.summary(verbose=True)
        assert outcome.excluded == ()
        same_files(made.folder, expected_of(made).policies, tmp_path, "{}-policy.json")
        plan, _ = read_plan(made.state / "plan.json")
        rows = {site: columns(table) for site, table in made.sites.items()}
        accuracy, global_, inside = measured(rows, made.policies(), plan)
        assert max(global_, inside) < 1e-10  # the replayed master's rows are 2**-36 wider
        assert accuracy == pytest.approx(outcome.accuracy, abs=1e-12)
        lines = [line for line in server.text().splitlines() if re.match(r"exchange \d+ ", line)]
        assert len(lines) == sum(outcome.exchanges.values())


def test_without_keys_and_without_asking_for_insecure_by_name_nothing_begins(tmp_path):
    write_table(tables()["north"], tmp_path / "north.csv")
    site = ("--name", "north", "--data", tmp_path / "north.csv", "--group", "sex", "--score", "score")
    where = ("--server", "127.0.0.1:9", "--folder", tmp_path / "north", "--out", tmp_path / "north.json")
    for command in (("server", "--folder", tmp_path / "state", *PLAIN), ("client", *site, *where)):
        code, out, err = run_command(*command)
        assert (code, out) == (2, "")
        assert "--insecure" in err
        assert len(err.strip().splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["north.csv"]


@pytest.mark.slow
def test_flowers_simulation_gives_the_numbers_of_one_process(tmp_path):
    sites = tables()
    together = {name: np.concatenate([table[name] for table in sites.values()]) for name in ("sex", "score", "label")}
    together["site"] = np.repeat(list(sites), [len(table["sex"]) for table in sites.values()])
    with deployment(tmp_path / "real", sites) as made:
        write_table(together, made.folder / "all.csv")
        files = ("--folder", made.folder / "simulated", "--site", "site", "--group", "sex", "--score", "score")
        simulation = made.command("simulate", "simulate", made.folder / "all.csv", *files, *PLAIN[2:])
        assert simulation.wait(240.0) == 0, simulation.text()
        plan, _ = read_plan(made.folder / "simulated" / "plan.json")
        expected = run(plan, {site: columns(table) for site, table in sites.items()})
        found = read_result(made.folder / "simulated" / "result.json")
        assert (encode(found.final), encode(found.figures)) == (
            encode(expected.result.final),
            encode(expected.result.figures),
        )
        assert found.summary(verbose=True) == expected.result.summary(verbose=True)
        same_files(made.folder / "simulated" / "policies", expected.policies, tmp_path)


@pytest.mark.slow
def test_secure_sums_give_the_numbers_of_plain_ones_within_their_precision(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*PLAIN, "--secure"), made.clients()
        ended_well(server, sites)
        outcome, _ = check_result(made, exactly=False)
        assert outcome.plan.secure
        assert "sums over 3 sites or more" in " ".join(server.text().split())


@pytest.mark.slow
def test_a_run_without_encryption_takes_place_when_both_sides_ask_for_it_by_name(tmp_path):
    with deployment(tmp_path, tables()) as made:
        bare = ("--insecure",)
        server, sites = made.server(*PLAIN, access=bare), made.clients(access=bare)
        ended_well(server, sites)
        check_result(made)
        assert all("WITHOUT ENCRYPTION" in command.text() for command in (server, *sites.values()))
