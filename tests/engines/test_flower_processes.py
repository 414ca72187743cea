"""Command lines, environment and children of the deployment; Flower itself is not started."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.common.config import parse_config_args
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import pull_objects

from logofair.engines.events import Event, append_event
from logofair.engines.flower import node, processes, require_flower
from logofair.engines.flower.keys import make_authority, make_site_key
from logofair.engines.flower.processes import (
    ServerCredentials,
    _admitted,
    _SuperLink,
    child,
    environment,
    executable,
    free_port,
    node_config,
    superlink,
)
from logofair.errors import InputError, RunError

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def script(text):
    return [sys.executable, "-c", text]


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


# Command lines and environment


@pytest.fixture
def credentials(tmp_path):
    make_authority(tmp_path)
    make_site_key(tmp_path / "sites", "north")
    return ServerCredentials(
        tmp_path / "ca.crt", tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "sites"
    ), node.SiteCredentials(tmp_path / "ca.crt", tmp_path / "sites" / "north")


class Started:
    """Stands in for a child, and remembers how it was started."""

    def __init__(self, says=""):
        self.says, self.command, self.variables = says, [], {}

    @contextlib.contextmanager
    def __call__(self, name, command, home, variables):
        self.command, self.variables = list(command), dict(variables)
        yield self

    def wait_for(self, words, timeout):
        pass

    def text(self):
        return self.says

    def option(self, name):
        return self.command[self.command.index(name) + 1]


@pytest.fixture
def started(monkeypatch):
    """The child of whichever side is begun."""
    found = Started()
    monkeypatch.setattr(processes, "child", found)
    monkeypatch.setattr(node, "child", found)
    monkeypatch.setattr(node, "_check_server", lambda server, authority: None)
    monkeypatch.setattr(node, "_LINGER", 0.0)
    return found


def taken_part(monkeypatch, settings, credentials, kind="policy"):
    """A site's part, whose one task is followed by an event."""
    events = []

    def one_task(child, address, app, done):
        tell = app.keywords["tell"]
        assert not done()
        tell(Event("problem", "this site took part before."))
        assert not done()
        tell(Event(kind, "It is over."))
        assert done()

    monkeypatch.setattr(node, "client_app", lambda handler: handler(None))
    monkeypatch.setattr(node, "_answer_tasks", one_task)
    place = {"site": "north", "server": "fair.example.org:9300", "home": settings.parent / "flower"}
    node.take_part(settings, credentials=credentials, tell=events.append, **place)
    return [event.sentence for event in events]


def test_with_credentials_both_sides_encrypt_and_authenticate(credentials, started, tmp_path, monkeypatch):
    server, site = credentials
    with superlink(tmp_path / "flower", "0.0.0.0", 9300, server):
        assert "--insecure" not in started.command
        assert "--enable-supernode-auth" in started.command
        assert started.option("--ssl-keyfile") == str(server.key)
    taken_part(monkeypatch, tmp_path / "s.json", site)
    assert "--insecure" not in started.command
    assert started.option("--root-certificates") == str(site.authority)
    assert started.option("--auth-supernode-private-key") == str(site.key)
    assert started.option("--isolation") == "process"  # code that comes with the run is not executed


def test_without_credentials_both_sides_say_that_they_are_insecure(started, tmp_path, monkeypatch):
    with superlink(tmp_path / "flower", "127.0.0.1", 9300, None):
        assert "--insecure" in started.command
    said = taken_part(monkeypatch, tmp_path / "s.json", None)
    assert "--insecure" in started.command
    assert said == ["this site took part before.", "It is over."]


def test_a_published_result_that_is_not_believed_is_a_failure(started, tmp_path, monkeypatch):
    with pytest.raises(RunError, match=r"^It is over\.$"):
        taken_part(monkeypatch, tmp_path / "s.json", None, kind="forged")


def test_flower_reads_settings_as_they_were_given():
    values = {"site": "north", "settings": "/data of north/north.toml"}
    assert parse_config_args([node_config(values)]) == values


@pytest.mark.parametrize("path", ["/data/o'brien.toml", "/data/two\nlines"])
def test_a_setting_that_would_leave_its_quotes_is_refused(path):
    with pytest.raises(InputError, match="holds a quote or a control character"):
        node_config({"settings": path})


def test_the_connection_of_flwr_is_encrypted_unless_there_is_no_authority(credentials, started, tmp_path):
    for given in (None, credentials[0]):
        with superlink(tmp_path / "flower", "127.0.0.1", 9300, given) as flower:
            home = Path(flower.variables["FLWR_HOME"])
        connection = tomllib.loads((home / "config.toml").read_text())["superlink"]["logofair"]
        assert connection.get("insecure", False) is (given is None)
        assert connection.get("root-certificates") == (None if given is None else str(given.authority))


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1:93"), ("10.0.0.5", "10.0.0.5:93"), ("::", "[::1]:93"), ("::1", "[::1]:93"), ("h", "h:93")],
)
def test_a_server_is_reached_from_its_own_machine_wherever_it_listens(host, address, started, tmp_path):
    with superlink(tmp_path, host, 93, None):
        pass
    assert tomllib.loads((tmp_path / "config.toml").read_text())["superlink"]["logofair"]["address"] == address


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


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/runtime/pull-messages", "/docs", "/v1/fleet", "//v1/fleet/"]
)
@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7", "testclient", None])
def test_other_machines_reach_nothing_but_the_requests_of_nodes(path, peer):
    assert not _admitted(path, peer, "10.0.0.5")


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "10.0.0.5"])
def test_this_machine_reaches_everything(peer):
    assert _admitted("/v1/control/start-run", peer, "10.0.0.5")


# Children


def test_a_child_that_ended_is_reported_with_its_last_lines(tmp_path):
    text = "print('\\x1b[91mno such key\\x1b[0m'); raise SystemExit(3)"
    with (
        child("superlink", script(text), tmp_path, os.environ) as process,
        pytest.raises(RunError, match=r"superlink: ended with code 3; its last lines: no such key$"),
    ):
        process.wait_for("listening", 20.0)


def test_a_child_that_never_says_that_it_is_ready_is_given_up(tmp_path):
    with (
        child("node", script("import time; time.sleep(60)"), tmp_path, os.environ) as process,
        pytest.raises(RunError, match=r"node: is not ready after 0\.2 s; .*node\.log says why"),
    ):
        process.wait_for("ready", 0.2)


def test_what_an_earlier_child_has_written_is_not_taken_for_this_ones(tmp_path):
    for words in ("one", "two"):
        with child("node", script(f"print('{words}')"), tmp_path, os.environ) as process:
            process.process.wait(20.0)
            assert process.text().split() == [words]
    assert (tmp_path / "node.log").read_text().split() == ["one", "two"]


def test_logs_can_be_read_by_their_owner_alone(tmp_path):
    (tmp_path / "flower").mkdir(mode=0o755)
    with child("node", script("pass"), tmp_path / "flower", os.environ):
        assert (tmp_path / "flower").stat().st_mode & 0o077 == 0


IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {IGNORES_SIGTERM!r}])
print(child.pid, flush=True)
time.sleep(60)
"""


@NEEDS_PROC
@pytest.mark.parametrize("leave", [None, KeyboardInterrupt, InputError])
def test_no_process_is_left_however_the_block_is_left(tmp_path, leave, monkeypatch):
    monkeypatch.setattr("logofair.engines.flower.processes._GRACE", 0.5)
    pids = []
    with contextlib.suppress(*([leave] if leave else [])), child("c", script(PARENT), tmp_path, os.environ) as parent:
        assert until(lambda: "up" in parent.text().split())
        pids += [int(word) for word in parent.text().split() if word != "up"] + [parent.process.pid]
        if leave is not None:
            raise leave("interrupted")
    assert len(pids) == 2
    assert until(lambda: not any(alive(pid) for pid in pids))


KILLED = """
import os, sys, pathlib
from logofair.engines.flower.processes import child
with child("child", [sys.executable, "-c", sys.argv[2]], pathlib.Path(sys.argv[1]), os.environ) as started:
    while not started.text().strip():
        pass
    os.kill(os.getpid(), 9)
"""


@NEEDS_PROC
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    subprocess.run([*script(KILLED), str(tmp_path), text], timeout=60, check=False)
    pid = int((tmp_path / "child.log").read_text())
    assert until(lambda: not alive(pid))


# A run as flwr tells of it


class Running:
    """A SuperLink that goes on."""

    log = Path("superlink.log")

    def check(self):
        pass


def flower_of(monkeypatch, answers):
    """A SuperLink whose ``flwr`` gives these answers, one per call; the calls, and the SuperLink."""
    calls = []

    def flwr(self, *arguments):
        calls.append(arguments)
        answer = answers.pop(0)
        answer = answer() if callable(answer) else answer
        return (answer, json.dumps(answer)) if isinstance(answer, dict) else ({}, answer)

    monkeypatch.setattr(_SuperLink, "_flwr", flwr)
    return calls, _SuperLink(Running(), {})


def listed(status):
    return {"success": True, "runs": [{"run-id": "7", "status": status}]}


STARTED = {"success": True, "run-id": "7"}


def ran(monkeypatch, folder, *answers):
    """A run that Flower answers so; what was told, and why it failed."""
    events = []
    calls, flower = flower_of(monkeypatch, [STARTED, *answers])
    try:
        flower.run_plan(folder / "plan.json", folder, tell=events.append)
    except RunError as error:
        return calls, events, str(error)
    return calls, events, None


def ends(folder, why, status):
    """The server app tells two things, and ends."""

    def answer():
        for event in (Event("exchange", "one"), Event("exchange", "two"), Event("ended", why)):
            append_event(folder, event)
        return listed(status)

    return answer


def test_a_plan_is_run_with_its_files_and_flwr_list_says_that_it_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_LOOK", 0.0)
    calls, events, failure = ran(monkeypatch, tmp_path, ends(tmp_path, "", "running"), listed("finished:completed"))
    assert failure is None
    assert [event.sentence for event in events] == ["one", "two"]
    start = calls[0]
    assert (start[0], start[2]) == ("run", "logofair")
    assert f"plan='{tmp_path / 'plan.json'}' folder='{tmp_path}'" in start
    assert [call[0] for call in calls[1:]] == ["list", "list"]


def test_a_run_that_fails_says_what_its_server_app_said_though_flwr_run_succeeded(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_LOOK", 0.0)
    answer = ends(tmp_path, "quorum: 1 of 3 sites left.", "running")
    _, _, failure = ran(monkeypatch, tmp_path, answer, listed("finished:failed"))
    assert failure == "quorum: 1 of 3 sites left."


def test_a_server_app_that_never_said_anything_is_a_failure_with_where_to_look(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_LOOK", 0.0)
    append_event(tmp_path, Event("ended", ""))  # of an earlier run in this folder
    _, events, failure = ran(monkeypatch, tmp_path, listed("running"), listed("finished:failed"))
    assert failure.startswith("Flower says finished:failed: see ")
    assert events == []


def test_a_run_that_flower_does_not_accept_is_said(tmp_path, monkeypatch):
    calls, flower = flower_of(monkeypatch, ["No SuperLink answers."])
    with pytest.raises(RunError, match=r"did not accept the run; it said: No SuperLink answers\.$"):
        flower.run_plan(tmp_path / "plan.json", tmp_path, tell=lambda event: None)
    assert len(calls) == 1


def test_a_superlink_that_ends_during_a_run_is_a_failure(tmp_path, monkeypatch):
    _, flower = flower_of(monkeypatch, [STARTED])
    with child("superlink", script("raise SystemExit(2)"), tmp_path, os.environ) as process:
        process.process.wait(20.0)
        with pytest.raises(RunError, match="superlink: ended with code 2"):
            _SuperLink(process, flower.variables).run_plan(tmp_path / "plan.json", tmp_path, tell=lambda event: None)


def test_a_simulation_has_the_settings_of_each_node_in_a_file(tmp_path, monkeypatch):
    answers = [STARTED, ends(tmp_path, "", "finished:completed")]
    calls, flower = flower_of(monkeypatch, answers)
    flower.process.log = tmp_path / "superlink.log"
    monkeypatch.setattr(processes, "_LOOK", 0.0)
    sites = {site: tmp_path / f"{site}.site.json" for site in ("north", "south")}
    flower.run_plan(tmp_path / "plan.json", tmp_path, sites, tell=lambda event: None)
    listing = json.loads((tmp_path / "sites.json").read_text())
    assert listing == [{"site": site, "settings": str(path)} for site, path in sites.items()]
    assert f"sites='{tmp_path / 'sites.json'}'" in calls[0][4]
    assert "num-supernodes=2" in calls[0][-1]


def test_sites_are_registered_by_their_files_name_and_a_second_time_is_no_error(tmp_path, monkeypatch):
    refused = {"success": False, "error-message": "Public key already in use."}
    calls, flower = flower_of(monkeypatch, [{"success": True}, refused, {"success": False}])
    for _ in range(2):
        flower.register(tmp_path / "north.pub")
    assert calls[0] == ("supernode", "register", str(tmp_path / "north.pub"), "logofair", "--name", "north")
    with pytest.raises(InputError, match="does not accept the key"):
        flower.register(tmp_path / "north.pub")


def test_flwr_answers_with_its_json_whatever_else_it_prints(tmp_path, monkeypatch):
    flwr = tmp_path / "flwr"
    flwr.write_text(f"#!{sys.executable}\nprint('Listing ...'); print('{{\"success\": true}}')\n")
    flwr.chmod(0o700)
    flower = _SuperLink(Running(), {**os.environ, "PATH": str(tmp_path)})
    answer, printed = flower._flwr("list")
    assert answer == {"success": True}
    assert "Listing ..." in printed
    flwr.write_text(f"#!{sys.executable}\nprint('nothing')\n")
    assert flower._flwr("list")[0] == {}
    flwr.write_text(f"#!{sys.executable}\nimport time; time.sleep(60)\n")
    monkeypatch.setattr(processes, "_CALL", 0.5)
    with pytest.raises(RunError, match=r"flwr list: no answer within 0\.5 s"):
        flower._flwr("list")


def test_a_taken_port_is_said(tmp_path, monkeypatch):
    class Taken(Started):
        def wait_for(self, words, timeout):
            raise RunError("superlink: ended with code 1")

    monkeypatch.setattr(processes, "child", Taken("[Errno 98] address already in use"))
    taken = pytest.raises(InputError, match=r"--port: 127\.0\.0\.1:9300 is taken")
    with taken, superlink(tmp_path, "127.0.0.1", 9300, None):
        pytest.fail("it listens")


# A site's node


def node_failure(tmp_path, text):
    """What a site's people read where Flower's node ends so."""
    with child("supernode", script(text), tmp_path, os.environ) as process, pytest.raises(RunError) as caught:
        node._answer_tasks(process, f"127.0.0.1:{free_port()}", None, lambda: False)
    return str(caught.value)


def test_a_site_that_is_not_admitted_is_told_so_and_not_that_it_is_ready(tmp_path):
    said = node_failure(tmp_path, "print('Failed to activate SuperNode.'); raise SystemExit(49)")
    assert said.startswith("The server does not let this site in: its key is not registered there")
    assert "ready" not in said


@pytest.mark.parametrize(("seconds", "kinds"), [(60.0, ["refused", "policy"]), (0.0, [])])
def test_a_site_whose_former_node_still_counts_as_connected_tries_again_for_a_while(
    started, tmp_path, monkeypatch, seconds, kinds
):
    events, tries = [], []

    def let_in_at_the_third(child, address, app, done):
        tries.append(child)
        if len(tries) < 3:
            raise RunError("The server does not let this site in.")
        app.keywords["tell"](Event("policy", "It is over."))

    started.says = "Failed to activate SuperNode."
    monkeypatch.setattr(node, "client_app", lambda handler: handler(None))
    monkeypatch.setattr(node, "_answer_tasks", let_in_at_the_third)
    monkeypatch.setattr(node, "_STALE", seconds)
    monkeypatch.setattr(node, "_RETRY", 0.0)
    place = {"site": "north", "server": "fair.example.org:9300", "home": tmp_path / "flower", "credentials": None}
    with contextlib.nullcontext() if kinds else pytest.raises(RunError, match="does not let this site in"):
        node.take_part(tmp_path / "s.json", tell=events.append, **place)
    assert [event.kind for event in events] == kinds
    assert len(tries) == (3 if kinds else 1)


def test_a_message_of_which_only_the_announcement_arrived_is_given_up(monkeypatch):
    """Flower awaits the rest for two hours, and meanwhile nothing else would be answered."""

    class Announced:
        asked = 0

        def PullObject(self, request):
            Announced.asked += 1
            return PullObjectResponse(object_found=True, object_available=False)

        def SendTaskHeartbeat(self, request):
            return object()

    def pulling(task):
        fetch = make_pull_object_fn_protobuf(task.PullObject, None, 1)
        pull_objects(["a"], fetch, max_tries_per_object=1000, initial_backoff=0.01, backoff_cap=0.01)

    monkeypatch.setattr(node, "pull_task_input", pulling)
    monkeypatch.setattr(node, "_DOWNLOAD", 0.2)
    node._answer(Announced(), None)
    assert 1 <= Announced.asked < 500  # not to the last try


def test_a_site_whose_server_has_gone_for_good_is_told_what_to_do(tmp_path):
    said = node_failure(tmp_path, "print('Giving up reconnection'); raise SystemExit(0)")
    assert said.startswith("The server has not answered for 600 s")
    assert "logofair federate join" in said


def test_a_node_that_ends_by_itself_is_a_failure_with_its_last_lines(tmp_path):
    said = node_failure(tmp_path, "print('no route to host'); raise SystemExit(3)")
    assert said.startswith("supernode: ended with code 3; its last lines: no route to host")
    assert said.endswith("Start the same command again when that is mended.")


def test_a_node_whose_interface_does_not_answer_is_a_failure(tmp_path):
    said = node_failure(tmp_path, "import time; print('Uvicorn running on'); print('', flush=True); time.sleep(60)")
    assert said.endswith("Start the same command again when that is mended.")
