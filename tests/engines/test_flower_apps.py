"""The two apps: what leaves a site when something goes wrong, and what the server leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
import types
from importlib import resources
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity

from logofair.engines.events import Event, EventReader
from logofair.engines.flower.client_app import client_app, site_of
from logofair.engines.flower.deployment.supernode import pull_complete, reply_to
from logofair.engines.flower.records import MESSAGE_QUERY, NAME_QUERY, NOTICE_QUERY, Envelope, pack, unpack
from logofair.engines.flower.server_app import conduct_run
from logofair.engines.folder import RunOptions, write_plan
from logofair.engines.inprocess import run
from logofair.engines.notices import LeftOut, Waiting, notice_bytes
from logofair.engines.site import SiteSettings, read_site, with_columns
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames
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
    assert site_of(a_context({"partition-id": 1, "num-partitions": 2}, {"sites": str(listing)})) == ("b", "b.toml")


@pytest.mark.parametrize("node", [NORTH, {**NORTH, "partition-id": 0}, {}])
def test_what_the_server_puts_into_a_run_never_chooses_a_deployed_sites_settings(node, tmp_path):
    listing = tmp_path / "sites.json"
    listing.write_text(json.dumps([{"site": "evil", "settings": "evil.toml"}]))
    found = site_of(a_context(node, {"sites": str(listing)}))
    assert found == (node.get("site", ""), node.get("settings", ""))


def test_a_message_of_an_unknown_kind_gets_an_error_without_text():
    reply = reply_to(client_app(upper), Message(pack(Envelope("north", b"a")), 7, "train"), a_context(NORTH))
    assert (reply.error.code, reply.error.reason) == (2, "")


def test_a_notice_reaches_the_sites_people_and_is_answered_with_nothing(tmp_path):
    context = a_context({"site": "north", "settings": str(tmp_path / "north.site.json")})
    for notice in (Waiting(("south",), 30.0), LeftOut()):
        reply = reply_of(client_app(leaking), Envelope("north", notice_bytes(notice)), context, NOTICE_QUERY)
        assert unpack(reply.content) == Envelope("north", None)
    waiting, left_out = EventReader(tmp_path).new()
    assert waiting.sentence == "the server awaits south for 30 s; this site need do nothing"
    assert left_out.kind == "left out"


@pytest.mark.parametrize(
    "body", [None, b"", b"[]", b'{"awaited": [1], "seconds": 1}', b'{"awaited": [], "seconds": "x"}']
)
@pytest.mark.parametrize("site", ["north", "south"])
def test_a_notice_that_is_none_or_for_another_says_nothing(body, site, tmp_path):
    context = a_context({"site": "north", "settings": str(tmp_path / "north.site.json")})
    body = notice_bytes(LeftOut()) if site == "south" else body
    reply_of(client_app(upper), Envelope(site, body), context, NOTICE_QUERY)
    assert EventReader(tmp_path).new() == []


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


def status(folder):
    return json.loads((folder / "status.json").read_text())


def test_the_conductor_gets_plan_folder_and_transport_and_the_status_says_completed(tmp_path, conductor):
    calls = []

    def conduct(plan, folder, transport, *, tell):
        calls.append((plan, folder, transport.present(), status(tmp_path)))
        tell(Event("sites", "first\nline", {"awaited": [], "seconds": 0}))
        tell(Event("exchange", "second line"))

    conductor(conduct)
    conduct_run(Nobody(), a_server_run(tmp_path))
    [(plan, folder, present, during)] = calls
    assert (plan, folder, present, during["status"]) == ("plan.json", str(tmp_path), (), "running")
    assert status(tmp_path)["status"] == "completed"
    assert [event.sentence for event in EventReader(tmp_path).new()] == ["first line", "second line"]
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("error", "word", "sentence"),
    [
        (InputError("quorum: 1 of 3 sites left."), "failed", "quorum: 1 of 3 sites left."),
        (KeyError("x"), "failed", "KeyError: 'x'"),
        (KeyboardInterrupt(), "stopped", "The run was stopped; its state is stored."),
    ],
)
def test_a_failure_is_written_down_and_raised_so_that_flower_marks_the_run_as_failed(
    tmp_path, conductor, error, word, sentence
):
    def fail(plan, folder, transport, *, tell):
        raise error

    conductor(fail)
    with pytest.raises(type(error)):
        conduct_run(Nobody(), a_server_run(tmp_path))
    assert status(tmp_path) == {"status": word, "sentence": sentence, "run": "1"}


def test_a_run_without_a_plan_is_refused():
    with pytest.raises(InputError, match="names no plan"):
        conduct_run(Nobody(), a_context({}))


def test_a_message_of_a_run_that_has_ended_is_given_up():
    def ended(part):
        raise RunNotRunningException

    with pytest.raises(ObjectPullError, match="the run has ended"):
        pull_complete(["7f"], ended)


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
def test_flwr_run_works_from_a_copy_of_the_app_in_a_fresh_folder(tmp_path):
    app, home = tmp_path / "logofair-app", tmp_path / "flower"
    with resources.as_file(resources.files("logofair.engines.flower") / "app") as folder:
        shutil.copytree(folder, app)
    plan = plan_of()
    write_plan(tmp_path / "plan.json", plan, RunOptions(tuple("abc")))
    settings = {}
    for site, rows in federation((40, 30, 35)).items():
        file = tmp_path / f"{site}.csv"
        lines = [f"{g},{s!r}" for g, s in zip(rows.groups.tolist(), rows.scores.tolist(), strict=True)]
        file.write_text("\n".join(["g,s", *lines]))
        columns = ColumnNames("s", None, ("g",))
        settings[site] = SiteSettings(site, str(file), columns, str(tmp_path / site), str(tmp_path / f"{site}.json"))
        settings[site].write(tmp_path / f"{site}.site.json")
    nodes = [{"site": site, "settings": str(tmp_path / f"{site}.site.json")} for site in settings]
    (tmp_path / "sites.json").write_text(json.dumps(nodes))
    config = {"plan": tmp_path / "plan.json", "folder": tmp_path / "state", "sites": tmp_path / "sites.json"}
    words = " ".join(f"{name}='{path}'" for name, path in config.items())
    programs = Path(sys.executable).parent  # flwr looks for Flower's other programs on the path
    command = [str(programs / "flwr"), "run", str(app), "--stream", "-c", words]
    command += ["--federation-config", "num-supernodes=3 client-resources-num-cpus=1"]
    quiet = ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED")
    off = ("FLWR_DISABLE_UPDATE_CHECK", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION")
    variables = {**os.environ, "FLWR_HOME": str(home), **dict.fromkeys(quiet, "0"), **dict.fromkeys(off, "1")}
    variables["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=540)
    finally:
        end_all_with(f"FLWR_HOME={home}")  # the SuperLink that flwr run leaves behind
    assert (tmp_path / "state" / "result.json").exists(), (done.stdout + done.stderr)[-4000:]
    expected = run(plan, {site: read_site(each, plan) for site, each in settings.items()})
    for site, each in settings.items():
        with_columns(expected.policies[site], each).save(tmp_path / "expected.json")
        assert Path(each.policy).read_bytes() == (tmp_path / "expected.json").read_bytes()


def end_all_with(variable):
    """End the processes that were started with this in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
