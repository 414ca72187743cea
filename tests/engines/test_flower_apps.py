"""The two apps: what leaves a site when something goes wrong, and what the server leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import types
from importlib import resources
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("polars")

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.supercore.task_identity import TaskIdentity

from logofair.engines.events import Event, read_events
from logofair.engines.flower.client_app import MESSAGE_QUERY, NAME_QUERY, Envelope, _site_of, client_app, pack, unpack
from logofair.engines.flower.node import _reply_to
from logofair.engines.flower.processes import child, environment, executable, free_port, node_config
from logofair.engines.flower.server_app import _conduct_run, recorded
from logofair.engines.folder import RunOptions, write_plan
from logofair.engines.inprocess import run
from logofair.engines.site import SiteSettings, read_site, with_columns
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
from support.processes import NEEDS_PROC, wait_until
from support.sites import federation, plan_of

NORTH = {"site": "north", "settings": "north.toml"}


@pytest.fixture(autouse=True)
def a_run(monkeypatch):
    """Messages can be made only inside a run."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def a_context(node=None, run=None):
    return Context(run_id=1, node_id=7, node_config=node or {}, state=RecordDict(), run_config=run or {})


def reply_of(app, envelope, context, kind=MESSAGE_QUERY):
    return app(Message(pack(envelope), 7, kind), context)


def upper(context):
    return bytes.upper


def leaking(context):
    def answer(message):
        raise ValueError("patient 4711 has HIV")

    return answer


def test_a_message_for_the_site_is_answered_by_its_handler():
    reply = reply_of(client_app(upper), Envelope("north", b"sums"), a_context(NORTH))
    assert unpack(reply.content) == Envelope("north", b"SUMS")


def test_an_exception_becomes_a_refusal_that_says_nothing():
    reply = reply_of(client_app(leaking), Envelope("north", b"sums"), a_context(NORTH))
    assert not reply.has_error()
    assert unpack(reply.content) == Envelope("north", None)
    assert b"4711" not in reply.content.config_records["logofair"].deflate()


def test_a_message_for_another_site_is_not_read():
    def read(context):
        pytest.fail("the handler was called")

    reply = reply_of(client_app(read), Envelope("south", b"sums"), a_context(NORTH))
    assert unpack(reply.content) == Envelope("north", None)


def test_a_node_without_a_name_answers_nothing():
    reply = reply_of(client_app(upper), Envelope("", b"sums"), a_context({"settings": "north.toml"}))
    assert unpack(reply.content) == Envelope("", None)


def test_a_node_says_its_name():
    assert unpack(reply_of(client_app(upper), Envelope(""), a_context(NORTH), NAME_QUERY).content) == Envelope("north")


def test_a_simulated_node_takes_its_site_from_the_list_by_its_number(tmp_path):
    listing = tmp_path / "sites.json"
    listing.write_text(json.dumps([{"site": "a", "settings": "a.toml"}, {"site": "b", "settings": "b.toml"}]))
    assert _site_of(a_context({"partition-id": 1, "num-partitions": 2}, {"sites": str(listing)})) == ("b", "b.toml")


@pytest.mark.parametrize("node", [NORTH, {**NORTH, "partition-id": 0}, {}])
def test_what_the_server_puts_into_a_run_never_chooses_a_deployed_sites_settings(node, tmp_path):
    listing = tmp_path / "sites.json"
    listing.write_text(json.dumps([{"site": "evil", "settings": "evil.toml"}]))
    found = _site_of(a_context(node, {"sites": str(listing)}))
    assert found == (node.get("site", ""), node.get("settings", ""))


def test_a_message_of_an_unknown_kind_gets_an_error_without_text():
    reply = _reply_to(client_app(upper), Message(pack(Envelope("north", b"a")), 7, "train"), a_context(NORTH))
    assert (reply.error.code, reply.error.reason) == (2, "")


@pytest.fixture
def conductor(monkeypatch):
    """Stands in for the conductor; returns the function that sets what it does."""
    module = types.ModuleType("logofair.engines.folder")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return lambda function: setattr(module, "conduct_from_disk", function)


class Nobody:
    def get_nodes(self):
        return []


def a_server_run(folder):
    return a_context(run={"plan": "plan.json", "folder": str(folder)})


def test_the_conductor_gets_plan_folder_and_transport_and_the_last_event_says_how_it_ended(tmp_path, conductor):
    calls = []

    def conduct(plan, folder, transport, *, tell):
        calls.append((plan, folder, transport.present()))
        tell(Event("sites", "first\nline", {"awaited": [], "seconds": 0}))
        tell(Event("exchange", "second line"))

    conductor(conduct)
    _conduct_run(Nobody(), a_server_run(tmp_path))
    assert calls == [("plan.json", str(tmp_path), ())]
    events = read_events(tmp_path)[0]
    assert [event.sentence for event in events] == ["first line", "second line", ""]
    assert events[-1].kind == "ended"
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("quorum: 1 of 3 sites left."), "quorum: 1 of 3 sites left."),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyboardInterrupt(), "the server app was stopped; its state is stored."),
    ],
)
def test_a_failure_is_the_last_event_and_raised_so_that_flower_marks_the_run_as_failed(
    tmp_path, conductor, error, sentence
):
    def fail(plan, folder, transport, *, tell):
        raise error

    conductor(fail)
    with pytest.raises(type(error)):
        _conduct_run(Nobody(), a_server_run(tmp_path))
    (ended,) = read_events(tmp_path)[0]
    assert (ended.kind, ended.sentence) == ("ended", sentence)


def test_any_work_in_a_server_app_records_how_it_ended(tmp_path):
    for divisor in (1, 0):
        with contextlib.suppress(ZeroDivisionError), recorded(tmp_path):
            1 / divisor
    sentences = [event.sentence for event in read_events(tmp_path)[0]]
    assert sentences == ["", "ZeroDivisionError: division by zero"]


def test_a_run_without_a_plan_is_refused():
    with pytest.raises(InputError, match="names no plan"):
        _conduct_run(Nobody(), a_context({}))


def test_the_app_folder_follows_flowers_conventions_and_names_the_installed_apps():
    folder = resources.files("logofair.engines.flower") / "app"
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    flower = settings["tool"]["flwr"]["app"]
    assert (folder / settings["project"]["license"]["file"]).is_file()
    assert {"publisher", "fab-format-version", "flwr-version-target", "components", "config"} <= flower.keys()
    assert {"plan", "folder", "sites"} == flower["config"].keys()
    kinds = {"serverapp": ServerApp, "clientapp": ClientApp}
    for component, kind in kinds.items():
        module, _, name = flower["components"][component].partition(":")
        assert isinstance(getattr(__import__(module, fromlist=[name]), name), kind)


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # inside Flower
def test_flower_builds_a_bundle_from_the_app_folder():
    from flwr.cli.build import build_fab_from_disk

    with resources.as_file(resources.files("logofair.engines.flower") / "app") as folder:
        assert len(build_fab_from_disk(folder)) > 500


@pytest.mark.slow
@NEEDS_PROC
def test_the_apps_run_on_a_superlink_and_supernodes_that_people_keep_running(tmp_path):
    """As docs/ENGINES.md says it: Flower's own commands, and ``flwr run`` of a copy of the app's folder."""
    app, home, state = tmp_path / "logofair-app", tmp_path / "flower", tmp_path / "state"
    with resources.as_file(resources.files("logofair.engines.flower") / "app") as folder:
        shutil.copytree(folder, app)
    plan, sites = plan_of(calibration="none"), federation((40, 30))
    write_plan(tmp_path / "plan.json", plan, RunOptions(tuple(sites)))
    settings = {}
    for site, rows in sites.items():
        file = tmp_path / f"{site}.csv"
        lines = [f"{g},{s!r}" for g, s in zip(rows.sensitive_features.tolist(), rows.scores.tolist(), strict=True)]
        file.write_text("\n".join(["g,s", *lines]))
        columns = ColumnNames("s", None, ("g",))
        settings[site] = SiteSettings(site, str(file), columns, str(tmp_path / site), str(tmp_path / f"{site}.json"))
        settings[site].write(tmp_path / f"{site}.site.json")
    port, variables = free_port(), environment(home, os.environ)
    home.mkdir()
    (home / "config.toml").write_text(
        f"[superlink]\ndefault = 'ours'\n[superlink.ours]\naddress = '127.0.0.1:{port}'\ninsecure = true\n"
    )

    with contextlib.ExitStack() as running:
        running.callback(end_all_with, f"FLWR_HOME={home}")

        def start(name, *options):
            command = [executable(name.partition(" ")[0], variables), "--insecure", *map(str, options)]
            running.enter_context(child(name, command, tmp_path / "logs", variables))

        ours = "--disable-runtime-dependency-installation"  # else it installs the app's logofair from an index
        start("flower-superlink", "--host", "127.0.0.1", "--port", port, ours)
        for site in sites:
            who = node_config({"site": site, "settings": str(tmp_path / f"{site}.site.json")})
            own = ("--host", "127.0.0.1", "--port", free_port())
            start(f"flower-supernode {site}", "--superlink", f"127.0.0.1:{port}", *own, "--node-config", who)
        words = node_config({"plan": str(tmp_path / "plan.json"), "folder": str(state)})
        command = [executable("flwr", variables), "run", str(app), "ours", "-c", words]
        for _ in range(60):  # until the SuperLink listens
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode == 0:
                break
            time.sleep(1.0)
        wait_until(lambda: (state / "result.json").exists(), 400.0, lambda: logs(tmp_path / "logs", done))
        wait_until(lambda: all(Path(each.policy).exists() for each in settings.values()), 60.0)
    expected = run(plan, {site: read_site(each, plan) for site, each in settings.items()})
    for site, each in settings.items():
        with_columns(expected.policies[site], each).save(tmp_path / "expected.json")
        assert Path(each.policy).read_bytes() == (tmp_path / "expected.json").read_bytes()
        events = [event.kind for event in read_events(tmp_path / site)[0]]
        assert "plan" in events
        assert "policy" in events
    assert read_events(state)[0][-1].kind == "ended"


def logs(folder, done):
    """The end of what every process has written."""
    found = [f"{file.name}: {file.read_text()[-1500:]}" for file in sorted(folder.glob("*.log"))]
    return "\n".join([done.stdout + done.stderr, *found])


def end_all_with(variable):
    """End the processes that were started with this in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
