"""Command lines, environment and the supervision of processes; Flower itself is not started."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.common.config import parse_config_args

from logofair.engines.events import Event, append_event
from logofair.engines.flower import require_flower
from logofair.engines.flower.deployment import processes
from logofair.engines.flower.deployment.commands import (
    ServerCredentials,
    SiteCredentials,
    assignments,
    connection_file,
    environment,
    executable,
    local_address,
    register_command,
    run_command,
    site_public_keys,
    superlink_command,
    supernode_command,
)
from logofair.engines.flower.deployment.keys import make_authority, make_site_key
from logofair.engines.flower.deployment.processes import RunStatus, follow_run, join, serve, simulate
from logofair.engines.flower.deployment.reach import Trouble
from logofair.engines.flower.deployment.superlink import admitted
from logofair.engines.flower.deployment.supervision import (
    free_port,
    held_port,
    process_group,
    require_free_port,
    wait_for_port,
)
from logofair.errors import InputError

NODE = {"site": "north", "settings": "/data of north/north.toml"}


@pytest.fixture
def credentials(tmp_path):
    make_authority(tmp_path)
    make_site_key(tmp_path / "sites", "north")
    return ServerCredentials(
        tmp_path / "ca.crt", tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "sites"
    ), SiteCredentials(tmp_path / "ca.crt", tmp_path / "sites" / "north")


def test_with_credentials_both_sides_encrypt_and_authenticate(credentials):
    server, site = credentials
    command = superlink_command("0.0.0.0", 9300, credentials=server, database=None)
    assert "--insecure" not in command
    assert "--enable-supernode-auth" in command
    assert command[command.index("--ssl-keyfile") + 1] == str(server.key)
    command = supernode_command("fair.example.org:9300", 9400, NODE, credentials=site)
    assert "--insecure" not in command
    assert command[command.index("--root-certificates") + 1] == str(site.authority)
    assert command[command.index("--auth-supernode-private-key") + 1] == str(site.key)


def test_without_credentials_both_sides_say_that_they_are_insecure():
    assert "--insecure" in superlink_command("127.0.0.1", 9300, credentials=None, database=None)
    assert "--insecure" in supernode_command("127.0.0.1:9300", 9400, NODE, credentials=None)


def test_a_missing_key_file_is_named(tmp_path, credentials):
    missing = SiteCredentials(tmp_path / "ca.crt", tmp_path / "nobody")
    with pytest.raises(InputError, match=r"^key: there is no file .*nobody"):
        supernode_command("127.0.0.1:9300", 9400, NODE, credentials=missing)


def test_flower_reads_settings_as_they_were_given():
    values = {**NODE, "sites-expected": 3, "patience": 1.5}
    assert parse_config_args([assignments(values)]) == values


def test_a_setting_that_would_leave_its_quotes_is_refused():
    with pytest.raises(InputError, match="holds a quote"):
        assignments({"settings": "/data/o'brien.toml"})


@pytest.mark.parametrize("authority", [None, Path("ca.crt")])
def test_the_connection_is_encrypted_unless_there_is_no_authority(authority):
    connection = tomllib.loads(connection_file("127.0.0.1:9300", authority))["superlink"]["logofair"]
    assert connection.get("insecure", False) is (authority is None)
    assert ("root-certificates" in connection) is (authority is not None)


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1:93"), ("10.0.0.5", "10.0.0.5:93"), ("::", "[::1]:93"), ("::1", "[::1]:93"), ("h", "h:93")],
)
def test_a_server_is_reached_from_its_own_machine_wherever_it_listens(host, address):
    assert local_address(host, 93) == address


def test_sites_are_registered_by_their_files_name_and_runs_start_with_their_settings():
    register = register_command(Path("keys/north.pub"), os.environ)
    assert register[1:5] == ["supernode", "register", "keys/north.pub", "logofair"]
    assert register[register.index("--name") + 1] == "north"
    command = run_command(Path("app"), {"plan": "plan.toml"}, os.environ, simulated_nodes=3)
    assert command[1:4] == ["run", "app", "logofair"]
    assert command[command.index("--run-config") + 1] == "plan='plan.toml'"
    assert "num-supernodes=3" in command[-1]


def test_a_taken_port_and_a_server_that_never_listens_are_said():
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(InputError, match="is taken"):
        require_free_port("127.0.0.1", other.getsockname()[1])
    with pytest.raises(InputError, match=r"nothing listens at 127.0.0.1:\d+ after 0.2 seconds"):
        wait_for_port(f"127.0.0.1:{free_port()}", lambda: None, timeout=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that vanish with their process")
def test_of_two_servers_started_at_once_on_one_port_the_second_is_refused():
    port = free_port()
    with held_port("127.0.0.1", port), pytest.raises(InputError, match="is taken"), held_port("127.0.0.1", port):
        pytest.fail("the port was given twice")
    with held_port("127.0.0.1", port):
        pass


def test_logs_and_databases_can_be_read_by_their_owner_alone(tmp_path, monkeypatch):
    (tmp_path / "flower").mkdir(mode=0o755)
    with process_group(tmp_path / "flower", os.environ) as group:
        monkeypatch.setattr(processes, "superlink_command", lambda *place, **options: script("pass"))
        monkeypatch.setattr(processes, "wait_for_port", lambda *place: None)
        database = group.folder / "superlink.db"
        processes._start_superlink(group, "127.0.0.1", free_port(), None, database=database)
        assert database.stat().st_mode & 0o077 == group.folder.stat().st_mode & 0o077 == 0


def test_flower_sends_nothing_home_and_installs_nothing(tmp_path):
    variables = environment(tmp_path, {"PATH": "/bin", "FLWR_TELEMETRY_ENABLED": "1", "FORWARDED_ALLOW_IPS": "*"})
    off = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    assert off.items() <= variables.items()
    assert variables["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert variables["FLWR_HOME"] == str(tmp_path)
    assert variables["FORWARDED_ALLOW_IPS"] == "127.0.0.1"
    assert variables["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/bin"]


def test_missing_packages_and_commands_name_the_extra():
    with pytest.raises(InputError, match=r"pip install 'logofair\[flower\]'"):
        require_flower("no_such_package")
    with pytest.raises(InputError, match=r"pip install 'logofair\[flower\]'"):
        executable("no-such-command", os.environ)


def test_credentials_are_required_unless_insecure_is_asked_for_by_name(tmp_path, credentials):
    server, _ = credentials
    with pytest.raises(InputError, match="ask for insecure by name"):
        next(serve(tmp_path / "plan", tmp_path))
    with pytest.raises(InputError, match="choose one of the two"):
        next(serve(tmp_path / "plan", tmp_path, credentials=server, insecure=True))
    with pytest.raises(InputError, match="ask for insecure by name"):
        join(tmp_path / "s", site="north", server="h:1", until=lambda: True, home=tmp_path)


def test_a_simulation_needs_sites_and_a_server_keys(tmp_path):
    with pytest.raises(InputError, match=r"^sites: none given"):
        next(simulate(tmp_path / "plan", {}, tmp_path))
    with pytest.raises(InputError, match=r"holds no NAME.pub"):
        site_public_keys(tmp_path)


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/runtime/pull-messages", "/docs", "/v1/fleet", "//v1/fleet/"]
)
@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7", "testclient", None])
def test_other_machines_reach_nothing_but_the_requests_of_nodes(path, peer):
    assert not admitted(path, peer, "10.0.0.5")


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "10.0.0.5"])
def test_this_machine_reaches_everything(peer):
    assert admitted("/v1/control/start-run", peer, "10.0.0.5")


def script(text):
    return [sys.executable, "-c", text]


def test_a_child_process_that_ended_is_reported_with_its_last_lines(tmp_path):
    with process_group(tmp_path, os.environ) as group:
        child = group.start("child", script("print('\\x1b[91mno such key\\x1b[0m'); raise SystemExit(3)"))
        child.process.wait(20)
        with pytest.raises(InputError, match=r"child: it ended with code 3; its last lines: no such key$"):
            wait_for_port(f"127.0.0.1:{free_port()}", child.check, 20.0)


IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition):
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_child_process_that_ignores_sigterm_is_killed(tmp_path):
    with process_group(tmp_path, os.environ) as group:
        child = group.start("child", script(IGNORES_SIGTERM))
        assert until(lambda: "up" in child.last_lines())
        group.stop(child, grace=0.1)
        assert child.process.poll() is not None


PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {IGNORES_SIGTERM!r}], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("leave", [None, KeyboardInterrupt, InputError])
def test_no_process_is_left_however_the_block_is_left(tmp_path, leave):
    pids = []

    def run_group():
        with process_group(tmp_path, os.environ) as group:
            parent = group.start("parent", script(PARENT))
            assert until(lambda: {"up"} < set(parent.last_lines().split()))
            pids.extend(int(word) for word in parent.last_lines().split() if word != "up")
            pids.append(parent.process.pid)
            if leave is not None:
                raise leave("interrupted")

    if leave is None:
        run_group()
    else:
        with pytest.raises(leave):
            run_group()
    assert len(pids) == 2
    assert until(lambda: not any(alive(pid) for pid in pids))


def test_the_command_lines_survive_a_shell():
    command = supernode_command("127.0.0.1:9300", 9400, NODE, credentials=None)
    assert shlex.split(shlex.join(command)) == command


CHILD = """
import os, time
from logofair.engines.flower.deployment.supervision import exit_with_parent
exit_with_parent()
print(os.getpid(), flush=True)
time.sleep(60)
"""

SUPERVISOR = """
import os, sys, pathlib
from logofair.engines.flower.deployment.supervision import process_group
with process_group(pathlib.Path(sys.argv[1]), os.environ) as group:
    child = group.start("child", [sys.executable, "-c", sys.argv[2]])
    while not child.last_lines().strip():
        pass
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_child_processes_end_when_their_supervisor_is_killed(tmp_path):
    subprocess.run([*script(SUPERVISOR), str(tmp_path), CHILD], timeout=60, check=False)
    pid = int((tmp_path / "child.log").read_text())
    assert until(lambda: not alive(pid))


class FakeProcesses:
    """Answers ``flwr list`` from a list of statuses, one per call."""

    def __init__(self, folder, statuses):
        self.folder = folder
        self.variables = dict(os.environ)
        self.statuses = statuses

    def call(self, name, command, timeout):
        listed = [{"run-id": "7", "status": self.statuses.pop(0)}]
        return 0, "Listing ...\n" + json.dumps({"success": True, "runs": listed})


class RunningSuperlink:
    def check(self):
        pass


def followed(folder, statuses, check_every=15.0):
    lines = []
    generator = follow_run(FakeProcesses(folder, statuses), RunningSuperlink(), folder, "7", check_every=check_every)
    while True:
        try:
            lines.append(next(generator))
        except StopIteration as end:
            return lines, end.value


def write_status(folder, status, run="7"):
    (folder / "status.json").write_text(json.dumps({"status": status, "sentence": "So it was.", "run": run}))


@pytest.mark.parametrize("word", ["completed", "failed", "stopped"])
def test_the_outcome_is_what_the_server_app_wrote_after_all_its_lines(tmp_path, word):
    write_status(tmp_path, word)
    for sentence in ("one", "two"):
        append_event(tmp_path, Event("exchange", sentence))
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"event": "half a li')
    lines, outcome = followed(tmp_path, ["running", "finished:completed"])
    assert [event.sentence for event in lines] == ["one", "two"]
    assert outcome == RunStatus(word, "So it was.")


@pytest.mark.parametrize("left", ["running", None])
def test_a_run_that_flower_does_not_begin_is_said_to_wait(tmp_path, left, monkeypatch):
    monkeypatch.setattr("logofair.engines.events.Reminders.due", lambda self, seconds: True)
    if left is not None:
        write_status(tmp_path, left)
    lines, _ = followed(tmp_path, ["running", "finished:failed"], check_every=0.0)
    said = [event.sentence for event in lines]
    assert all("Flower has not begun the run for" in each and "busy" in each for each in said)
    assert bool(said) == (left is None)


@pytest.mark.parametrize("left", ["running", None])
def test_a_server_app_that_ended_without_a_status_is_a_failure_though_its_command_succeeded(tmp_path, left):
    if left is not None:
        write_status(tmp_path, left)
    _, outcome = followed(tmp_path, ["running", "finished:failed"], check_every=0.0)
    assert outcome.status == "failed"
    assert "finished:failed" in outcome.sentence


def test_the_status_of_an_earlier_run_in_the_folder_is_not_taken_for_this_ones(tmp_path):
    write_status(tmp_path, "completed", run="6")
    assert followed(tmp_path, ["finished:failed"], check_every=0.0)[1].status == "failed"


def joined(tmp_path, monkeypatch, text, until, troubles=(None,), **more):
    seen = list(troubles)
    monkeypatch.setattr(processes, "trouble_with", lambda *address: seen.pop(0) if len(seen) > 1 else seen[0])
    monkeypatch.setattr(processes, "_TRY", 0.0)
    monkeypatch.setattr(processes, "supernode_command", lambda *arguments, **options: script(text))
    return join(tmp_path / "s", site="north", server="h:1", insecure=True, until=until, home=tmp_path / "home", **more)


def test_a_site_stays_connected_until_it_has_its_result_and_leaves_no_node_running(tmp_path, monkeypatch):
    log = tmp_path / "home" / "supernode.log"
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    outcome = joined(tmp_path, monkeypatch, text, lambda: log.exists() and log.read_text().strip().isdigit())
    assert outcome.status == "completed"
    assert until(lambda: not alive(int(log.read_text())))


def test_a_site_the_server_does_not_know_is_told_so(tmp_path, monkeypatch):
    refused = "print('Failed to activate SuperNode.'); raise SystemExit(49)"
    outcome = joined(tmp_path, monkeypatch, refused, lambda: False, reconnect=0.0)
    assert outcome.status == "failed"
    assert outcome.sentence.startswith("The server does not let this site in: its key is not registered there")


def test_a_node_that_ends_by_itself_is_a_failure_with_its_last_lines(tmp_path, monkeypatch):
    outcome = joined(tmp_path, monkeypatch, "print('no route to host'); raise SystemExit(3)", lambda: False)
    sentence = "The node ended with code 3; the same command tries again. Its last lines: no route to host"
    assert outcome == RunStatus("failed", sentence)


def test_a_site_says_at_once_that_its_server_cannot_be_reached_and_when_it_can(tmp_path, monkeypatch):
    away, said = Trouble("Cannot reach h:1 (Connection refused), trying again."), []
    text = "import time; time.sleep(60)"
    outcome = joined(tmp_path, monkeypatch, text, lambda: len(said) == 2, (away, away, None), tell=said.append)
    assert outcome.status == "completed"
    assert [event.sentence for event in said] == [away.sentence, "h:1 can be reached again."]
    assert (tmp_path / "home" / "supernode.log").exists()


def test_a_site_that_waits_in_vain_is_not_told_to_try_again(tmp_path, monkeypatch):
    wrong = Trouble("Your certificate authority is not the server's.", lasting=True)
    outcome = joined(tmp_path, monkeypatch, "pass", lambda: False, (wrong,))
    assert outcome == RunStatus("failed", wrong.sentence)
    assert not (tmp_path / "home" / "supernode.log").exists()


def test_a_node_that_ended_because_its_clock_went_wrong_says_so(tmp_path, monkeypatch):
    clock = Trouble("Your clock is 12 s ahead of the server's.", lasting=True)
    text = "print('SuperNode terminated gracefully.')"
    outcome = joined(tmp_path, monkeypatch, text, lambda: False, (None, clock))
    assert outcome == RunStatus("failed", clock.sentence)


def test_a_key_the_server_has_already_is_no_error_when_it_is_started_again(tmp_path):
    class AlreadyRegistered(FakeProcesses):
        def call(self, name, command, timeout):
            return 1, json.dumps({"success": False, "error-message": "Public key already in use."})

    key = tmp_path / "north.pub"
    assert processes._register(AlreadyRegistered(tmp_path, []), key) == "Site north may connect, as before."
