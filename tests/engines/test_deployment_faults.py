"""Plugs pulled, stragglers, strangers and crowds, with real processes on loopback.

Whatever happens, a run ends in the right result on the sites that remain, with the exclusion reported, or in a clear
failure from which the same commands go on. What is right is computed in one process from the same rows.
"""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")
pytest.importorskip("polars")

from logofair.engines.flower.processes import free_port
from support.processes import (
    GROUPS,
    LABELLED,
    NEEDS_PROC,
    SITES,
    check_result,
    deployment,
    make_keys,
    tables,
    wait_until,
)

pytestmark = [pytest.mark.federation, pytest.mark.slow, NEEDS_PROC]

USUAL = ("--groups", ",".join(GROUPS), "--local", "0.05", "--global", "0.01", "--pooling", "none")
PLAN = ("--sites", ",".join(SITES), *USUAL)
PLATT = (*PLAN, "--calibration", "platt")  # nine exchanges: enough to be in their midst
SECURE = (*PLAN, "--calibration", "none", "--secure")
PATIENT, SHORT = ("--timeout", "150"), ("--timeout", "25")
TO_THE_END = 240.0  # seconds; nothing here takes half as long on two idle cores


def mid_run(made, exchange=3):
    """Wait until an exchange is under way, with more to come."""
    file = made.state / "state.json"

    def there():
        return file.exists() and made.state_now().number >= exchange

    wait_until(lambda: there() or made.ended(), TO_THE_END, made.last_outputs)
    assert there(), made.last_outputs()
    assert made.state_now().phase.name != "publication"


def ended_well(server, *sites):
    assert server.wait(TO_THE_END) == 0, server.text()
    for client in sites:
        assert client.wait(60.0) == 0, client.text()


def ended_badly(command, words, timeout=TO_THE_END):
    """A failure is one sentence and no traceback."""
    assert command.wait(timeout) == 1, command.text()
    assert words in command.text()
    assert "Traceback" not in command.text()


def lost_of(outcome):
    return {each.site: each.reason for each in outcome.excluded}


def leaves(client):
    """A client that nobody asks any more ends when it is told to."""
    client.interrupt()
    assert client.wait(30.0) not in (0, None)
    assert "Traceback" not in client.text()


def test_a_site_killed_in_a_round_is_excluded_and_the_others_get_the_result_of_their_own(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*PLATT, *SHORT), made.clients(columns=LABELLED)
        mid_run(made)
        sites["south"].kill_all()
        ended_well(server, sites["east"], sites["north"])
        outcome, _ = check_result(made, ["east", "north"])
        assert list(lost_of(outcome)) == ["south"]
        assert "without south (no reply within 25 seconds) from now on" in server.text()
        assert not made.policy("south").exists()
        late = ("--name", "south", "--data", made.data("south"), "--group", "sex", "--out", made.policy("south"))
        joined = made.command("join", "join", made.state / "result.json", *late, *LABELLED)
        assert joined.wait(60.0) == 0, joined.text()
        assert "the global requirements were met without it" in " ".join(joined.text().split())


def test_a_site_killed_in_a_round_and_started_again_in_time_is_back_in_the_run(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*PLATT, *PATIENT), made.clients(columns=LABELLED)
        mid_run(made)
        sites["south"].kill_all()
        made.check_files()
        again = made.client_again("south", TO_THE_END, columns=LABELLED)
        ended_well(server, sites["east"], sites["north"], again)
        outcome, expected = check_result(made)
        assert outcome.summary(verbose=True) == expected.summary(verbose=True)


def test_a_straggler_is_excluded_after_the_timeout(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*PLATT, *SHORT), made.clients(columns=LABELLED)
        mid_run(made)
        sites["north"].suspend()
        ended_well(server, sites["east"], sites["south"])
        outcome, _ = check_result(made, ["east", "south"])
        assert lost_of(outcome) == {"north": "no reply within 25 seconds"}
        sites["north"].resume()
        leaves(sites["north"])
        assert not made.policy("north").exists()


def test_a_server_killed_in_a_round_and_started_again_ends_with_the_same_result(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*PLATT, *PATIENT), made.clients(columns=LABELLED)
        mid_run(made)
        server.kill_all()
        assert not (made.state / "result.json").exists()
        made.check_files()
        again = made.server(*PLATT, *PATIENT)
        assert "goes on in" in again.text()
        ended_well(again, *sites.values())
        outcome, expected = check_result(made)
        assert outcome.summary(verbose=True) == expected.summary(verbose=True)


def test_a_machine_that_reboots_with_all_on_it_loses_nothing(tmp_path):
    with deployment(tmp_path, tables()) as made:
        made.server(*PLATT, *PATIENT)
        made.clients(columns=LABELLED)
        mid_run(made, exchange=4)
        made.kill_all()
        made.check_files()
        server = made.server(*PLATT, *PATIENT)
        ended_well(server, *made.clients_again(TO_THE_END, columns=LABELLED).values())
        outcome, expected = check_result(made)
        assert outcome.summary(verbose=True) == expected.summary(verbose=True)


def test_when_all_sites_are_gone_the_server_stops_and_goes_on_when_they_are_back(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*PLATT, *SHORT), made.clients(columns=LABELLED)
        mid_run(made)
        for client in sites.values():
            client.kill()  # its node must follow by itself
        ended_badly(server, "bring the missing sites back and resume")
        for client in sites.values():
            client.wait_for_descendants()
        made.check_files()
        server, sites = made.server(*PATIENT), made.clients(columns=LABELLED)
        ended_well(server, *sites.values())
        outcome, expected = check_result(made)
        assert outcome.summary(verbose=True) == expected.summary(verbose=True)


def test_with_secure_sums_a_run_stops_without_a_site_and_goes_on_when_it_is_back(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*SECURE, *SHORT), made.clients()
        mid_run(made)
        sites["south"].kill_all()
        ended_badly(server, "the same command goes on from there")
        assert "south (" in server.text() or "south:" in server.text()
        made.check_files()
        server = made.server(*PATIENT)
        again = made.client_again("south", TO_THE_END)
        ended_well(server, sites["east"], sites["north"], again)
        check_result(made, exactly=False)


def test_with_secure_sums_a_site_started_again_in_time_is_back_in_the_run(tmp_path):
    with deployment(tmp_path, tables()) as made:
        server, sites = made.server(*SECURE, *PATIENT), made.clients()
        mid_run(made)
        sites["south"].kill()
        sites["south"].wait_for_descendants()
        again = made.client_again("south", TO_THE_END)
        ended_well(server, sites["east"], sites["north"], again)
        check_result(made, exactly=False)


def test_strangers_are_refused_and_the_run_goes_on_with_the_others(tmp_path):
    with deployment(tmp_path, {**tables(), **tables(["west"], seed=1)}) as made:
        (made.keys / "sites" / "west.pub").unlink()  # the server does not know this key
        make_keys(tmp_path / "others", ["north"])
        server = made.server(*PLAN, "--calibration", "none", *PATIENT)
        sites = {site: made.client(site) for site in ("east", "north")}
        server.wait_for_output("2 of 3 sites are here", 120.0)
        unknown = made.client("west")
        elsewhere = ("--folder", tmp_path / "elsewhere", "--out", tmp_path / "elsewhere.json")
        other = ("--authority", tmp_path / "others" / "ca.crt", "--key", made.keys / "sites" / "south")
        misled = made.client("south", *elsewhere, access=other, name="misled")
        bare = made.client("south", "--folder", tmp_path / "bare", access=("--insecure",), name="bare")
        ended_badly(misled, "Your certificate authority is not the server's")
        ended_badly(bare, "wants encryption")
        ended_badly(unknown, "The server does not let this site in")
        assert "3 of 3" not in server.text()
        sites["south"] = made.client("south")
        ended_well(server, *sites.values())
        check_result(made)


def test_two_runs_at_once_on_the_same_files_do_not_disturb_each_other(tmp_path):
    with deployment(tmp_path / "one", tables()) as one, deployment(tmp_path / "two", tables()) as two:
        plans = ((one, PLATT, LABELLED), (two, (*PLAN, "--calibration", "none"), ("--score", "score")))
        servers = [made.server(*plan, *PATIENT) for made, plan, _ in plans]
        sites = [made.clients(columns=columns) for made, _, columns in plans]
        again = one.server(*PLATT, "--port", free_port(), name="second", listens=False)
        assert again.wait(60.0) == 2
        assert "another process works in this folder" in again.text()
        for made, server, each in zip((one, two), servers, sites, strict=True):
            ended_well(server, *each.values())
            outcome, expected = check_result(made)
            assert outcome.summary(verbose=True) == expected.summary(verbose=True)


def test_a_port_that_is_taken_is_said_so(tmp_path):
    with deployment(tmp_path / "one", tables()) as one, deployment(tmp_path / "two", tables(), port=one.port) as two:
        first = one.server(*PLATT, *PATIENT)
        second = two.server(*PLATT, *PATIENT, listens=False)
        assert second.wait(60.0) == 2
        assert f"127.0.0.1:{one.port} is taken" in second.text()
        assert not (two.state / "plan.json").exists()
        leaves(first)
