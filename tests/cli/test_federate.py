"""``logofair federate``: options become plans, folders become runs, one file becomes many sites; and one sentence."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.cli.commands.federate import Screen
from logofair.cli.commands.federate import client as client_commands
from logofair.cli.commands.federate.server import _check_same, plan_options, planned, prepare
from logofair.cli.commands.federate.server import server as server_command
from logofair.cli.group import cli
from logofair.datasets.adult import _SITES
from logofair.engines.events import Event
from logofair.engines.folder import RunOptions, read_plan, read_result, write_plan
from logofair.errors import InputError, RunError
from logofair.federation import make_plan
from logofair.federation.limits import SiteLimits
from logofair.files.inputs import ColumnNames
from logofair.policy.policy import Policy
from logofair.words.federated import plan_sentences
from support.commandline import refused
from support.examples import examples

pytestmark = pytest.mark.federation

NOTHING_SAID: dict[str, Any] = {option.name: None for option in server_command.params}


def run(*arguments: object) -> tuple[int, str]:
    """Exit code, and standard output and error together."""
    result = CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="logofair")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def done(*arguments: object) -> str:
    """What a command that succeeds prints."""
    code, output = run(*arguments)
    assert code == 0, output
    return output


def options(*arguments: str) -> dict[str, Any]:
    """What a command line says of a plan."""
    import click

    found: dict[str, Any] = {}

    @click.command()
    @plan_options
    def take(**said: Any) -> None:
        found.update(said)

    take.main(list(arguments), standalone_mode=False)
    return found


def write_csv(path: Path, columns: dict[str, Any]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
    return path


def people(sites: int = 3, rows: int = 900, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    site, sex = random.integers(0, sites, rows), random.integers(0, 2, rows)
    risk = random.beta(1.5 + sex + 0.2 * site, 2.0)
    return {
        "place": np.array(["north", "south", "east", "west"])[site],
        "sex": np.where(sex, "M", "F"),
        "risk": risk.round(6),
        "repaid": (random.random(rows) < risk).astype(int),
        "age": random.integers(18, 80, rows),
        "hours": random.integers(1, 60, rows) + 8 * sex,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "people.csv", people())


COLUMNS = ("--site", "place", "--group", "sex", "--score", "risk", "--label", "repaid")
TIGHT = ("--local", "0.03", "--global", "0.01", "--run", "spring", "--pooling", "none")


def simulate(file: Path, folder: Path, *more: object) -> str:
    return done("federate", "simulate", file, *COLUMNS, "--engine", "inprocess", "--folder", folder, "--verbose", *more)


def test_a_rehearsal_of_secure_sums_in_one_process_says_that_nothing_was_masked(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "all.csv", people())
    for more, said in (((), False), (("--secure",), True)):
        output = simulate(file, tmp_path / str(said), *TIGHT, *more)
        assert ("one process held all rows and masked nothing" in output) == said


# Help


def test_every_command_explains_itself_with_an_example() -> None:
    for path in (
        "",
        "client",
        "example",
        "join",
        "keys",
        "keys server",
        "keys show",
        "keys site",
        "plan",
        "server",
        "simulate",
    ):
        output = done("federate", *path.split(), "--help")
        assert f"logofair federate {path}".strip() in output.split("\n  Examples")[1]


def test_help_imports_neither_numpy_nor_flower() -> None:
    program = (
        "import sys, contextlib, io\n"
        "from logofair.cli.group import cli\n"
        "for words in ([], ['server'], ['client'], ['simulate'], ['join'], ['keys'], ['example']):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        cli(['federate', *words, '--help'])\n"
        "print(sorted({'numpy', 'polars', 'flwr', 'cryptography', 'sklearn'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_command_is_told_the_nearest() -> None:
    assert "did you mean 'client'?" in refused("federate", "clinet")


# Options and plans


def test_options_make_the_plan_they_name() -> None:
    plan = planned(
        options(
            *("--groups", "Female,Male", "--notion", "equalized_odds", "--local", "none", "--global", "0.01"),
            *("--require", "equalized odds gap <= 0.05 at north", "--calibration", "platt", "--optimality-gap", "1e-4"),
            *("--quorum", "3", "--seed", "0", "--run", "spring", "--pooling", "full"),
        )
    )
    assert plan.groups == ("Female", "Male")
    assert list(map(str, plan.require)) == ["equalized odds gap <= 0.01 overall", "equalized odds gap <= 0.05 at north"]
    assert (plan.calibration, plan.optimality_gap, plan.quorum, plan.random_state, plan.run) == (
        "platt",
        1e-4,
        3,
        0,
        "spring",
    )
    assert planned(options("--groups", "Female,Male", "--secure")).secure
    assert plan.pooling == "full"
    assert plan.solver is None


def test_what_is_not_said_is_left_to_make_plan() -> None:
    assert planned(options("--groups", "F,M", "--run", "x")) == make_plan(groups=["F", "M"], run="x")


@given(st.integers(0, 999).map(lambda n: n / 1000), st.integers(0, 999).map(lambda n: n / 1000), st.integers(0, 2**31))
@examples(20)
def test_numbers_arrive_as_they_were_written_and_zero_is_a_number(local: float, global_: float, seed: int) -> None:
    said = options("--groups", "F,M", "--local", repr(local), "--global", repr(global_), "--seed", str(seed))
    plan = planned(said)
    bounds = {item.scope.is_global: item.bound for item in plan.require}
    small = (0.0 if number < 1e-9 else number for number in (local, global_))
    assert (bounds[False], bounds[True], plan.random_state) == (*small, seed)
    _check_same(said, plan, "state")


def test_groups_that_are_integers_are_read_as_a_file_would_be() -> None:
    assert planned(options("--groups", "0,1")).groups == (0, 1)
    assert planned(options("--groups", "0,01")).groups == ("0", "01")
    assert planned(options("--groups", "0,none")).groups == ("0", "none")


def test_a_group_with_a_comma_stands_in_quotes() -> None:
    assert planned(options("--groups", '"F, 1", "M, 1"')).groups == ("F, 1", "M, 1")


def test_a_privacy_budget_switches_calibration_off_and_has_a_usual_delta() -> None:
    plan = planned(options("--groups", "F,M", "--epsilon", "2"))
    assert plan.privacy is not None
    assert (plan.privacy.epsilon, plan.privacy.delta, plan.calibration) == (2.0, 1e-6, "none")


def test_a_plan_trains_no_model(file: Path, tmp_path: Path) -> None:
    assert "no option '--train'" in refused("federate", "simulate", file, *COLUMNS, "--train", "age,hours")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--groups", "F,,M"], "--groups: got 'F,,M'; separate names by commas, each once."),
        (["--groups", "F"], "groups: got ['F']; list two groups or more"),
        (["--groups", "F,M", "--notion", "equal_odds"], "did you mean 'equalized_odds'?"),
        (["--groups", "F,M", "--local", "-0.1"], "--local: got '-0.1'; pass a number from 0"),
        (["--groups", "F,M", "--global", "inf"], "--global: got 'inf'"),
        (["--groups", "F,M", "--global", "nan"], "--global: got 'nan'"),
        (["--groups", "F,M", "--require", "north"], "'north' stands where 'equalized odds', 'selection rate'"),
        (["--groups", "F,M", "--calibration", "isotonic"], "isotonic curves are not sums"),
        (["--groups", "F,M", "--optimality-gap", "0"], "optimality_gap"),
        (["--groups", "F,M", "--solver", "exactly"], "did you mean 'exact'?"),
        (["--groups", "F,M", "--pooling", "ful"], "did you mean 'full'?"),
        (["--groups", "F,M", "--pooling", "full", "--epsilon", "1"], "cannot be combined with differential privacy"),
        (["--groups", "F,M", "--solver", "algorithm1", "--secure"], "leave out --secure"),
        (["--groups", "F,M", "--delta", "1e-6"], "--delta: means nothing without --epsilon"),
        (["--groups", "F,M", "--epsilon", "0"], "epsilon: got 0.0"),
        (["--groups", "F,M", "--epsilon", "1", "--calibration", "beta"], "with differential privacy"),
        (["--groups", "F,M", "--quorum", "4"], "3 are expected, but the run needs 4"),
        (
            ["--groups", "F,M", "--require", "selection rate gap <= 0.1 at west"],
            "--require: names site 'west', which is not here; sites are north, south, east",
        ),
        (["--groups", "F,M", "--costs", "west=1,3"], "--costs: names site 'west', which is not here"),
        (["--groups", "F,M", "--costs", "east=1,3"], "--costs: has no pair for site 'north'"),
        (["--groups", "F,M", "--costs", "1;3"], "or those of one site, such as north=1,3"),
        (["--groups", "F,M", "--costs", "east=1,3", "--secure"], "cannot be combined with secure sums"),
        (["--groups", "F,M", "--run", "a/b"], "run: got 'a/b'"),
        (["--groups", "F,M", "--run", "x" * 5000], "xxx...; pass up to 64 letters"),
        (["--groups", "F,M", "--seed", "-1"], "--seed: got -1"),
        ([], "--groups: missing"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_one_sentence_and_nothing_is_written(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    output = refused("federate", "server", "--folder", folder, "--insecure", "--sites", "north,south,east", *arguments)
    assert sentence in output
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--insecure"], "--sites: missing"),
        (["--insecure", "--sites", "a,b", "--expect", "2"], "--expect: given beside --sites"),
        (["--sites", "a,b"], "--keys: missing"),
        (["--sites", "a,b", "--keys", "none-such"], "there is no none-such"),
        (["--sites", "a,b", "--insecure", "--without", "a"], "there is no stopped run"),
        (["--sites", "a,b", "--insecure", "--port", "0"], "--port: got 0"),
        (["--sites", "a,b", "--insecure", "--wait", "0"], "--wait: got 0.0"),
    ],
)
def test_a_server_that_cannot_start_says_why(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert sentence in refused("federate", "server", "--folder", folder, "--groups", "F,M", *arguments)
    assert not folder.exists()


# Keys


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Keys of a server and of sites north and south."""
    pytest.importorskip("cryptography")
    keys = tmp_path / "keys"
    done("federate", "keys", "server", "--out", keys, "--host", "fair.example.org")
    for site in ("north", "south"):
        done("federate", "keys", "site", site, "--out", keys)
    return keys


def test_keys_are_laid_out_as_server_and_site_look_for_them(keys: Path) -> None:
    found = sorted(str(path.relative_to(keys)) for path in keys.rglob("*") if path.is_file())
    sites = [f"sites/{name}" for name in ("north", "north.pub", "south", "south.pub")]
    assert found == ["ca.crt", "ca.key", "server.crt", "server.key", *sites]
    if os.name == "posix":
        assert all((keys / name).stat().st_mode & 0o077 == 0 for name in ("ca.key", "server.key", "sites/north"))


def test_the_fingerprint_shown_is_that_of_ssh_keygen_and_one_that_was_misread_is_refused(
    keys: Path, tmp_path: Path
) -> None:
    shown = dict(line.split() for line in done("federate", "keys", "show", "--keys", keys).splitlines())
    assert sorted(shown) == ["north", "south"]
    blob = base64.b64decode((keys / "sites" / "north.pub").read_text().split()[1])
    assert shown["north"].replace("-", "") == hashlib.sha256(blob).hexdigest()[:32]
    output = refused(*client(tmp_path, "--keys", keys, "--trust", "north=0000-1111"))
    assert "north.pub" in output
    assert "is not the one whose fingerprint you were told" in output
    assert shown["north"] not in output  # or it would be copied from here
    assert "there is no key west.pub" in refused(*client(tmp_path, "--keys", keys, "--trust", f"west={shown['north']}"))
    output = refused(*client(tmp_path, "--keys", keys, "--trust", "south"))
    assert "--trust: got 'south' alone; pass south=FINGERPRINT, as its people read it to you" in output
    assert "there is no public key of a site" in refused("federate", "keys", "show", "--keys", tmp_path)
    named = [f"{site}={read}" for site, read in shown.items()]
    assert client_commands._trusted_keys(named, keys / "sites") == shown
    assert client_commands._trusted_keys((), None) == {}


def test_no_name_in_a_plan_forges_a_line_of_what_people_agree_to(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "M.\nSums: Secure: the server sees totals.\r\nPrivacy: all of it\u2028\x85\x0b"
    plan = make_plan(groups=["F", forged], run="forged")
    screen, sentences = Screen(), list(plan_sentences(plan))
    for label, sentence in sentences:
        screen(Event("plan", f"{label}: {sentence}"))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == [label for label, _ in sentences]


def test_keys_are_never_overwritten_and_names_are_checked(keys: Path) -> None:
    before = (keys / "sites" / "north").read_bytes()
    assert "exists already" in refused("federate", "keys", "site", "north", "--out", keys)
    assert (keys / "sites" / "north").read_bytes() == before
    assert "the name is '../north'" in refused("federate", "keys", "site", "../north", "--out", keys)


@pytest.mark.skipif(os.name != "posix", reason="no rights of others to look at")
def test_private_keys_that_others_may_read_are_refused_at_both_ends(keys: Path, tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    folder = tmp_path / "state"
    for key in (keys / "server.key", keys / "sites" / "north"):
        key.chmod(0o644)
    start = ("federate", "server", "--folder", folder, "--keys", keys, "--groups", "F,M", "--sites", "north,south")
    assert f"chmod 600 {keys / 'server.key'}" in refused(*start)
    own = ("--key", keys / "sites" / "north")
    for access in (("--keys", keys), ("--insecure", *own, "--peers", keys / "sites")):
        assert f"chmod 600 {keys / 'sites' / 'north'}" in refused(*client(tmp_path, *access))
    assert not folder.exists()
    assert not (tmp_path / "north").exists()


@pytest.mark.parametrize("name", ["north.pub", "north.PUB"])
def test_a_site_whose_secret_key_would_lie_among_public_ones_is_refused(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    assert "not ending in .pub" in refused("federate", "keys", "site", name, "--out", tmp_path / "keys")
    assert not (tmp_path / "keys").exists()


def test_a_server_misses_the_public_key_of_a_site_it_is_to_wait_for(keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    start = ("federate", "server", "--folder", folder, "--keys", keys, "--groups", "F,M")
    assert "public key of site 'west'" in refused(*start, "--sites", "north,west")
    assert "--insecure: given beside --keys" in refused(*start, "--sites", "north,south", "--insecure")
    assert not folder.exists()


# A folder and a command line


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder in which a run was planned, and nothing more."""
    folder = tmp_path / "state"
    folder.mkdir()
    said = options("--groups", "F,M", "--local", "0.02", "--global", "0.01", "--seed", "0", "--run", "spring")
    write_plan(folder / "plan.json", planned(said), RunOptions(sites=("north", "south")))
    return folder


def test_the_same_command_and_a_shorter_one_resume_the_stored_plan(begun: Path) -> None:
    stored, run_options = read_plan(begun / "plan.json")
    for line in (
        [],
        ["--groups", "F,M"],
        ["--groups", "F,M", "--global", "0.01", "--seed", "0", "--run", "spring"],
        ["--local", "0.02", "--calibration", "beta", "--solver", "exact"],
    ):
        assert prepare(begun, options(*line), {}) == (stored, run_options)


@pytest.mark.parametrize(
    "line",
    [
        ["--groups", "M,F"],
        ["--global", "0.02"],
        ["--local", "0"],
        ["--require", "selection rate gap <= 0.5 at north"],
        ["--costs", "1,3", "--costs", "north=2,1"],
        ["--notion", "equal_opportunity"],
        ["--calibration", "none"],
        ["--optimality-gap", "1e-3"],
        ["--solver", "algorithm1"],
        ["--secure"],
        ["--epsilon", "1"],
        ["--quorum", "1"],
        ["--seed", "1"],
        ["--run", "autumn"],
    ],
)
def test_another_plan_in_the_same_folder_is_refused_by_the_option_that_differs(begun: Path, line: list[str]) -> None:
    before = (begun / "plan.json").read_bytes()
    output = refused("federate", "server", "--folder", begun, "--insecure", *line)
    assert output.startswith(f"logofair: {line[0]}: differs from the plan of run spring")
    assert (begun / "plan.json").read_bytes() == before


def test_a_run_that_has_not_begun_can_wait_for_others_and_longer(begun: Path) -> None:
    _, run_options = prepare(begun, NOTHING_SAID, {"sites": ("north", "east"), "wait": 5.0})
    assert (run_options.sites, run_options.wait, run_options.timeout) == (("north", "east"), 5.0, 600.0)
    _, run_options = prepare(begun, NOTHING_SAID, {"count": 4})
    assert (run_options.sites, run_options.count) == ((), 4)


def stop_after_one_exchange(folder: Path) -> None:
    """Leave the state of a run whose three sites have answered once."""
    from logofair.engines.folder import conduct_from_disk
    from logofair.engines.inprocess import LocalTransport
    from logofair.federation import Client, SiteColumns

    class Plug(Exception):
        pass

    class Pulled(LocalTransport):
        exchanges = 0

        def exchange(self, messages: Any, timeout: float) -> Any:
            self.exchanges += 1
            if self.exchanges > 1:
                raise Plug
            return super().exchange(messages, timeout)

    table = people()
    rows = {name: table["place"] == name for name in ("north", "south", "east")}
    sites = {
        name: Client(name, SiteColumns(table["sex"][own], table["risk"][own], table["repaid"][own]))
        for name, own in rows.items()
    }
    with pytest.raises(Plug):
        conduct_from_disk(folder / "plan.json", folder, Pulled(sites))


@pytest.fixture
def stopped(begun: Path) -> Path:
    plan, run_options = read_plan(begun / "plan.json")
    write_plan(begun / "plan.json", plan, replace(run_options, sites=("north", "south", "east")))
    stop_after_one_exchange(begun)
    return begun


def test_a_run_that_has_begun_keeps_its_sites(stopped: Path) -> None:
    plan, run_options = prepare(stopped, NOTHING_SAID, {"timeout": 9.0})
    assert (plan.run, run_options.timeout) == ("spring", 9.0)
    prepare(stopped, NOTHING_SAID, {"sites": ("north", "south", "east")})
    start = ("federate", "server", "--folder", stopped, "--insecure")
    assert "has begun with its own" in refused(*start, "--sites", "north,south")
    assert "'west' is not in the run" in refused(*start, "--without", "west")


def served(monkeypatch: pytest.MonkeyPatch, ends: str) -> list[Any]:
    """Replace Flower by a SuperLink whose run fails at once; what it was given, in order."""
    pytest.importorskip("flwr")
    from logofair.engines.flower import processes

    given: list[Any] = []

    class Flower:
        def __init__(self, plan: Path) -> None:
            self.plan = plan

        def register(self, key: Path) -> None:
            given.append((key.name, self.plan.exists()))

        def run_plan(self, plan: Path, folder: Path, *, tell: Any) -> None:
            given.append(read_plan(plan)[0].run)
            tell(Event("sites", "0 of 2 sites are here"))
            raise RunError(ends)

    @contextmanager
    def superlink(home: Path, host: str, port: int, credentials: Any) -> Iterator[Flower]:
        given.append((host, port, credentials))
        yield Flower(home.parent / "plan.json")

    monkeypatch.setattr(processes, "superlink", superlink)
    return given


def test_a_site_can_be_taken_out_of_a_stopped_run_and_saying_so_twice_is_no_error(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logofair.engines.folder import read_state

    served(monkeypatch, "Somebody pulled the plug.")
    for _ in range(2):
        code, output = run("federate", "server", "--folder", stopped, "--insecure", "--without", "south")
        assert code == 1
        assert "Somebody pulled the plug. The state is in" in output
        server = read_state(stopped / "state.json").server
        assert server.sites == ("east", "north")
        assert [each.site for each in server.excluded] == ["south"]


def test_sites_are_registered_before_their_people_are_told_what_to_agree_to(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, folder = served(monkeypatch, "Nobody came."), tmp_path / "state"
    line = ("--groups", "F,M", "--sites", "north,south", "--run", "spring", "--host", "0.0.0.0", "--port", "9400")
    code, output = run("federate", "server", "--folder", folder, "--keys", keys, *line)
    assert code == 1, output
    (host, port, credentials), *rest = given
    assert (host, port, credentials.authority) == ("0.0.0.0", 9400, keys / "ca.crt")
    assert rest == [("north.pub", False), ("south.pub", False), "spring"]
    plan, _ = read_plan(folder / "plan.json")
    assert f"Sites agree to {folder / 'plan.json'} with --accept-plan {plan.fingerprint}" in output
    assert output.splitlines()[-2:] == [
        "0 of 2 sites are here",
        f"logofair: Nobody came. The state is in {folder}: the same command goes on from there.",
    ]
    assert f"Plan: Run spring, digest {plan.fingerprint}." in done("federate", "plan", folder / "plan.json")


def test_a_site_is_not_taken_out_of_a_run_that_is_still_under_way(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr")
    pytest.importorskip("fcntl")
    from logofair.engines import folder
    from logofair.files.writing import locked

    monkeypatch.setattr(folder, "_LOCK_PATIENCE", 0.0)
    before = (stopped / "state.json").read_bytes()
    with locked(stopped / "server.lock"):
        output = refused("federate", "server", "--folder", stopped, "--insecure", "--without", "south")
    assert "another process works" in output
    assert (stopped / "state.json").read_bytes() == before


def test_a_screen_prints_what_is_under_way_or_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    events = (
        Event("request", "", {"exchange": 3, "purpose": "answers"}),
        Event("waiting", "awaiting north for 30 s of 600; nobody answered"),
        Event("lost", "north is not connected"),
        Event("problem", "the disk\nis full"),
    )
    waiting = "exchange 3 (answers): awaiting north for 30 s of 600; nobody answered"
    always = ["north is not connected", "Problem: the disk is full"]
    for screen, expected in ((Screen(), [waiting, *always]), (Screen(quiet=True), always)):
        for event in events:
            screen(event)
        assert capsys.readouterr().err.splitlines() == expected
    for event in events:
        Screen(as_json=True)(event)
    objects = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [found["event"] for found in objects] == ["request", "waiting", "lost", "problem"]
    assert objects[0]["exchange"] == 3


# Simulation


def test_a_simulation_writes_a_policy_per_site_and_a_result_that_holds(file: Path, tmp_path: Path) -> None:
    output = simulate(file, tmp_path / "try", *TIGHT)
    said = " ".join(output.split())
    assert "selection rate gap <= 0.03 per site" in said
    assert "selection rate gap <= 0.01 overall" in said
    assert "'selection rate gap <= 0.01 overall' looser by 0.01 wins at" in said
    result = read_result(tmp_path / "try" / "result.json")
    assert result.holds
    table, chances = people(), np.zeros(900)
    for name in ("north", "south", "east"):
        own = table["place"] == name
        policy = Policy.load(tmp_path / "try" / "policies" / f"{name}.json")
        chances[own] = policy.probabilities(table["risk"][own], sensitive_features=table["sex"][own])
        assert policy.info.federation.run == "spring"
    women = table["sex"] == "F"
    assert abs(chances[women].mean() - chances[~women].mean()) <= 0.01 + 1e-9


def central_fit(table: dict[str, Any], **more: Any) -> logofair.Solution:
    """What TIGHT requires, of all rows in one place, their scores taken as chances."""
    return logofair.fit(
        table["risk"],
        None,
        sensitive_features=table["sex"],
        sites=table["place"],
        local_tolerance=0.03,
        global_tolerance=0.01,
        calibration="none",
        pooling="none",
        **more,
    )


def test_a_simulation_has_the_numbers_of_a_central_fit(file: Path, tmp_path: Path) -> None:
    output = simulate(file, tmp_path / "try", *TIGHT, "--calibration", "none", "--optimality-gap", "1e-7", "--json")
    central = central_fit(people())
    assert json.loads(output)["certificate"]["primal"] == pytest.approx(central.certificate.primal, abs=2e-7)


def test_a_simulation_with_costs_of_single_sites_has_the_numbers_of_a_fit_on_all_rows(
    file: Path, tmp_path: Path
) -> None:
    words = ("--costs", "1,3", "--costs", "south=2,0.5", "--calibration", "none", "--optimality-gap", "1e-7")
    output = simulate(file, tmp_path / "try", *TIGHT, *words)
    assert "A wrongly accepted row costs 1, a wrongly rejected one 3; 2 and 0.5 at south." in " ".join(output.split())
    table = people()
    central = central_fit(table, costs={"north": (1, 3), "east": (1, 3), "south": (2, 0.5)})
    result = tmp_path / "try" / "result.json"
    assert read_result(result).accuracy == pytest.approx(central.certificate.primal, abs=1e-6)
    south, own = table["place"] == "south", tmp_path / "south.csv"
    write_csv(own, {name: np.asarray(values)[south] for name, values in table.items()})
    late = ("federate", "join", result, "--data", own, *COLUMNS[2:])
    made = [tmp_path / name for name in ("again.json", "east.json", "cheap.json")]
    for line in (("south",), ("west",), ("west", "--costs", "2,0.5")):
        output = done(*late, "--name", *line, "--out", made.pop(0))
    found = [
        Policy.load(tmp_path / name).probabilities(table["risk"][south], sensitive_features=table["sex"][south])
        for name in ("again.json", "east.json", "cheap.json")
    ]
    assert found[0] == pytest.approx(found[2], abs=1e-9)
    assert found[1].mean() > found[0].mean() + 0.2
    assert "larger" in run(*late, "--name", "west", "--costs", "3,1", "--out", tmp_path / "dear.json")[1]
    assert "--costs: names sites; a site sets its own alone" in refused(
        *late, "--name", "west", "--costs", "west=1,1", "--out", tmp_path / "dear.json"
    )


def test_federations_speak_of_sites() -> None:
    for command in ("simulate", "server", "client", "join"):
        said = run("federate", command, "--help")[1].replace("federate client", "")
        assert "client" not in said.lower().split("examples")[0].replace("_site", ""), command


def test_a_simulation_warns_of_small_sites_as_a_fit_does(tmp_path: Path) -> None:
    table = people(sites=3, rows=900)
    few = (table["place"] != "east") | (np.cumsum(table["place"] == "east") <= 20)
    file = write_csv(tmp_path / "people.csv", {name: np.asarray(values)[few] for name, values in table.items()})
    output = simulate(file, tmp_path / "try", *TIGHT, "--calibration", "none")
    central = logofair.fit(
        table["risk"][few],
        None,
        sensitive_features=table["sex"][few],
        sites=table["place"][few],
        local_tolerance=0.03,
        global_tolerance=0.01,
        calibration="none",
    )
    (warning,) = central.warnings
    assert all(site == "east" for site, _ in warning.cells)
    assert f"Warning: {warning}" in output
    assert (tmp_path / "try" / "sites").stat().st_mode & 0o077 == 0
    output = simulate(file, tmp_path / "other", *TIGHT, "--calibration", "none", "--json")
    assert {"event": "warning", "site": "east", "warnings": [str(warning)]}.items() <= json.loads(
        output.splitlines()[-1]
    ).items()


def test_groups_scale_conditions_and_missing_values_mean_what_they_mean_in_a_fit(tmp_path: Path) -> None:
    table = people()
    old = table["age"] > 48
    life = np.where(old, "old", "young").tolist()
    plain = table | {"both": [f"{sex}, {age}" for sex, age in zip(table["sex"], life, strict=True)]}
    keep = np.arange(900) % 9 > 1
    kept = write_csv(tmp_path / "kept.csv", {name: np.asarray(values)[keep] for name, values in plain.items()})
    raw: dict[str, Any] = dict(table)
    raw["risk"] = (100 * table["risk"]).round(4).tolist()
    raw["part"] = np.where(np.arange(900) % 9 == 0, "test", "train")
    raw["life"] = ["" if row % 9 == 1 else value for row, value in enumerate(life)]
    file = write_csv(tmp_path / "raw.csv", raw)
    more = ("--engine", "inprocess", *TIGHT)
    columns = ("--site", "place", "--score", "risk", "--label", "repaid")
    reading = ("--group", "sex", "--group", "life", "--scale", "percent", "--where", "part=train", "--drop-missing")
    for source, words, folder in ((kept, ("--group", "both"), "one"), (file, reading, "other")):
        done("federate", "simulate", source, *columns, *words, *more, "--folder", tmp_path / folder)
    one, other = (read_result(tmp_path / folder / "result.json") for folder in ("one", "other"))
    assert one.plan.groups == other.plan.groups == ("F, old", "F, young", "M, old", "M, young")
    assert other.certificate.primal == pytest.approx(one.certificate.primal, abs=1e-9)
    late = (
        "federate",
        "join",
        tmp_path / "one" / "result.json",
        "--name",
        "west",
        "--score",
        "risk",
        "--label",
        "repaid",
    )
    for source, words, name in ((kept, ("--group", "both"), "a"), (file, reading, "b")):
        done(*late, "--data", source, *words, "--out", tmp_path / f"{name}.json")
    rules = [Policy.load(tmp_path / f"{name}.json").rules for name in "ab"]
    bands = [[(band.low, band.chance) for row in each for band in row.bands] for each in rules]
    np.testing.assert_allclose(*bands, atol=1e-12)
    start = ("federate", "simulate", file, *columns, *more, "--folder", tmp_path / "third")
    assert "--group: not given; name the column of the groups" in refused(*start)
    assert "add --drop-missing" in refused(*start, "--group", "life", "--scale", "percent")
    assert "no row has part=tests (did you mean 'test'?)" in refused(*start, "--group", "sex", "--where", "part=tests")


def test_algorithm_1_may_miss_a_tolerance_and_says_so_but_does_not_fail(file: Path, tmp_path: Path) -> None:
    output = simulate(file, tmp_path / "try", "--local", "none", "--global", "0", "--solver", "algorithm1")
    result = read_result(tmp_path / "try" / "result.json")
    assert not result.certificate.meets_requirements
    assert "WARNING" in output


def test_integer_sites_and_groups_and_text_labels_are_read_as_meant(tmp_path: Path) -> None:
    table = people()
    table["place"] = np.unique(table["place"], return_inverse=True)[1]
    table["sex"] = (table["sex"] == "M").astype(int)
    table["repaid"] = np.where(table["repaid"], "yes", "no")
    file = write_csv(tmp_path / "people.csv", table)
    simulate(file, tmp_path / "try", "--positive", "yes")
    policy = Policy.load(tmp_path / "try" / "policies" / "0.json")
    assert policy.groups == (0, 1)
    assert policy.decide([0.99, 0.01], sensitive_features=[1, 0], random_state=0).tolist() == [1, 0]
    start = ("federate", "simulate", file, *COLUMNS, "--engine", "inprocess")
    assert "expected 0 and 1; say with --positive which one" in refused(*start, "--folder", tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        ({}, ["--site", "plaice"], "did you mean 'place'?"),
        ({}, ["--quorum", "9"], "names 3 sites, but the plan needs 9"),
        ({}, ["--groups", "F,X"], "--groups: leaves out 'M'"),
        ({}, ["--engine", "flour"], "did you mean 'flower'?"),
        ({"place": ["New York"] * 900}, [], "holds 'New York', which cannot name a site"),
        ({"risk": [1.5] * 900}, [], "column 'risk': runs from 1.5 to 1.5, which looks like percentages"),
        ({"sex": [""] * 900}, [], "column 'sex': 900 of 900 rows have no value"),
        ({"repaid": [2] * 900}, [], "column 'repaid': holds 2, expected 0 and 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    change: dict[str, Any], arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    file = write_csv(tmp_path / "people.csv", people() | change)
    folder = tmp_path / "try"
    line = ("federate", "simulate", file, *COLUMNS, "--engine", "inprocess", "--folder", folder, *arguments)
    assert sentence in refused(*line)
    assert not folder.exists()


def test_a_missing_column_option_is_named(file: Path, tmp_path: Path) -> None:
    start = ("federate", "simulate", file, "--site", "place", "--group", "sex", "--folder", tmp_path / "try")
    assert "--label: missing" in refused(*start, "--engine", "inprocess", "--score", "risk")
    assert "--score: missing" in refused(*start, "--engine", "inprocess", "--calibration", "none")
    assert not (tmp_path / "try").exists()


def test_a_simulation_replaces_only_an_earlier_simulation_and_only_when_told(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "try"
    simulate(file, folder, *TIGHT)
    before = (folder / "result.json").read_bytes()
    again = ("federate", "simulate", file, *COLUMNS, "--engine", "inprocess", *TIGHT)
    assert "finished simulation" in refused(*again, "--folder", folder)
    assert (folder / "result.json").read_bytes() == before
    simulate(file, folder, *TIGHT, "--force")
    assert (folder / "result.json").read_bytes() == before
    assert "holds other files" in refused(*again, "--folder", tmp_path, "--force")
    assert file.exists()


def test_without_flower_the_way_out_is_named(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logofair.engines import flower

    monkeypatch.setattr(flower.importlib.util, "find_spec", lambda name: None)
    output = refused("federate", "simulate", file, *COLUMNS, "--folder", tmp_path / "try")
    assert "pip install 'logofair[flower]'" in output
    assert "--engine inprocess" in output


# What a site's policy is good for


def words(output: str) -> str:
    return " ".join(output.split())


def test_a_sites_policy_explains_its_own_figures_and_those_of_all_sites_apart(published: Path) -> None:
    figures = {}
    for site in ("north", "south", "east"):
        path = published.parent / "policies" / f"{site}.json"
        info = Policy.load(path).info
        own, page = info.site_figures, words(run("explain", path)[1])
        assert own is not None
        assert f"made from {info.rows:,} people of site {site} alone, for F and M" in page
        assert f"Here accuracy {100 * own.accuracy:.1f} %" in page
        assert f"gap in selection rate {100 * own.local_gaps['selection rate']:.1f}" in page
        assert f"{100 * info.certificate.primal:.1f} %; expected over the rows of 3 sites" in page
        assert f"{site} " in page.partition("accepted from a score of")[2]
        figures[site] = (info.rows, own.accuracy, info.certificate.primal)
    rows, accuracy, together = (np.array(column) for column in zip(*figures.values(), strict=True))
    assert rows.sum() == 900
    assert rows @ accuracy / 900 == pytest.approx(together[0], abs=1e-9)  # all sites' accuracy is the mean of theirs
    assert np.ptp(accuracy) > 0.001
    assert run("explain", published.parent / "policies" / "north.json", "--only-site", "north")[0] == 0
    assert "no 'south'" in refused("explain", published.parent / "policies" / "north.json", "--only-site", "south")


def test_what_small_cells_borrow_is_said_to_all_and_to_each_site(file: Path, tmp_path: Path) -> None:
    output = simulate(file, tmp_path / "try", *TIGHT[:-1], "full")
    assert "6 small groups are smoothed with the same group at the other sites" in words(output)
    assert "On the sites' own rows alone: expected accuracy" in words(output)
    page = words(run("explain", tmp_path / "try" / "policies" / "north.json")[1])
    assert "what small groups borrow" not in page
    verbose = words(run("explain", tmp_path / "try" / "policies" / "north.json", "--verbose")[1])
    assert verbose.count("2 small groups are smoothed with the same group at the other sites") == 1
    assert "On the rows of 3 sites and what small groups borrow" in verbose


def test_a_sites_policy_refuses_rows_of_other_sites_and_needs_no_names_of_columns(
    published: Path, file: Path, tmp_path: Path
) -> None:
    polars = pytest.importorskip("polars")
    policy, out, table = published.parent / "policies" / "north.json", tmp_path / "out.csv", people()
    sentence = refused("apply", policy, file, "--out", out, "--seed", "1")
    assert "people.csv: column 'place': row " in sentence
    assert "but the policy is of site 'north' alone; take that site's policy, leave such rows out, or use" in sentence
    assert not out.exists()
    output = done("apply", policy, file, "--out", out, "--on-unknown", "base", "--deterministic", "--json")
    counts, own = json.loads(output), table["place"] == "north"
    assert (counts["unknown_rows"], counts["site"], counts["site_checked"]) == (int((~own).sum()), "north", True)
    decided = polars.read_csv(out)["decision"].to_numpy()
    assert np.array_equal(decided[~own], table["risk"][~own] >= 0.5)
    expected = Policy.load(policy).decide(table["risk"][own], sensitive_features=table["sex"][own], deterministic=True)
    assert np.array_equal(decided[own], expected)


@pytest.mark.parametrize("names", [(), ("east", "north", "south")], ids=["plain", "secure sums"])
def test_without_a_site_column_rows_are_the_sites_own_but_for_files_named_after_others(
    names: tuple[str, ...], published: Path, tmp_path: Path
) -> None:
    """Without secure sums a policy has no names of other sites; but whoever has their files has their policies too."""
    stored, sites, out = published.parent / "policies" / "north.json", published.parent / "sites", tmp_path / "out.csv"
    policy, own = (tmp_path / "north.json" if names else stored), Policy.load(stored)
    assert own.info.federation is not None
    replace(own, info=replace(own.info, federation=replace(own.info.federation, names=names))).save(policy)
    other = refused("apply", policy, sites / "south.parquet", "--out", out, "--seed", "1")
    assert "south.parquet: is named after site 'south', but the policy is of site 'north' alone; take that" in other
    assert "is named after site 'east'" in refused("apply", policy, sites, "--out", out, "--seed", "1")
    new = tmp_path / "new.parquet"
    new.write_bytes((sites / "north.parquet").read_bytes())
    for path in (sites / "north.parquet", new):
        output = done("apply", policy, path, "--out", out, "--deterministic", "--force")
        assert "Rows without a site count as those of north; --site COLUMN checks them." in words(output)
        assert "Unknown" not in output
    output = done("apply", policy, sites, "--out", out, "--deterministic", "--on-unknown", "base", "--force")
    assert "rows of sites or groups the policy does not know" in words(output)
    assert "needs the merged rule, which this policy lacks" in refused(
        "apply", policy, sites, "--out", tmp_path / "other.csv", "--on-unknown", "merged", "--seed", "1"
    )


def test_a_policy_under_the_name_of_another_site_does_not_decide_on_that_sites_file(
    published: Path, tmp_path: Path
) -> None:
    folder, out = published.parent, tmp_path / "out.csv"
    Policy.load(folder / "policies" / "north.json").save(tmp_path / "south.json")
    sentence = refused(
        "apply", tmp_path / "south.json", folder / "sites" / "south.parquet", "--out", out, "--seed", "1"
    )
    assert "is named after site 'south', but the policy is of site 'north' alone" in sentence
    (tmp_path / "east.json").write_text("{}")  # no policy: then the name tells nothing
    assert run("apply", tmp_path / "south.json", folder / "sites" / "east.parquet", "--out", out, "--seed", "1")[0] == 0


# Joining later


@pytest.fixture
def published(file: Path, tmp_path: Path) -> Path:
    simulate(file, tmp_path / "try", *TIGHT)
    return tmp_path / "try" / "result.json"


def one_site(path: Path, name: str, seed: int = 0) -> Path:
    table = people(sites=4, seed=seed) if name == "west" else people(seed=seed)
    own = table["place"] == name
    return write_csv(path, {column: values[own] for column, values in table.items()})


OWN = ("--group", "sex", "--score", "risk", "--label", "repaid")


def test_a_late_site_gets_a_policy_fair_inside_and_is_told_what_was_not_promised(
    published: Path, tmp_path: Path
) -> None:
    data, out = one_site(tmp_path / "west.csv", "west"), tmp_path / "west.json"
    output = done("federate", "join", published, "--name", "west", "--data", data, *OWN, "--out", out)
    assert "global requirements were met without it" in " ".join(output.split())
    table = people(sites=4)
    own, policy = table["place"] == "west", Policy.load(out)
    chance = policy.probabilities(table["risk"][own], sensitive_features=table["sex"][own])
    women = table["sex"][own] == "F"
    assert policy.sites == ("west",)
    assert policy.info.columns.score == "risk"
    page = words(run("explain", out)[1])
    assert f"made from {own.sum():,} people of site west alone" in page
    assert "expected over the rows of 3 sites" in page
    assert "! This site did not take part in the run" in page
    assert chance[women].size > 30
    assert abs(chance[women].mean() - chance[~women].mean()) <= 0.03 + 1e-9
    assert "exists" in refused("federate", "join", published, "--name", "w", "--data", data, *OWN, "--out", out)


def test_a_site_that_took_part_gets_back_the_policy_it_had(published: Path, tmp_path: Path) -> None:
    data, out = one_site(tmp_path / "north.csv", "north"), tmp_path / "north.json"
    output = done("federate", "join", published, "--name", "north", "--data", data, *OWN, "--out", out)
    assert "Note" not in output
    had, got = Policy.load(published.parent / "policies" / "north.json"), Policy.load(out)
    assert np.array_equal(had.mixtures.threshold, got.mixtures.threshold)
    assert np.array_equal(had.mixtures.weight, got.mixtures.weight)


def test_a_late_site_with_a_group_or_column_that_the_plan_does_not_know_is_refused(
    published: Path, tmp_path: Path
) -> None:
    table = people()
    data = write_csv(tmp_path / "odd.csv", table | {"sex": np.where(table["sex"] == "M", "X", "F")})
    line = ("federate", "join", published, "--name", "west", "--data", data, "--out", tmp_path / "west.json")
    assert "has rows of the group 'X', which is not in the plan ('F', 'M')" in refused(*line, *OWN)
    assert "needs a label column; name it with --label" in refused(*line, "--group", "sex", "--score", "risk")
    assert not (tmp_path / "west.json").exists()


def test_a_result_that_is_none_is_refused(tmp_path: Path, file: Path) -> None:
    line = ("federate", "join", file, "--name", "west", "--data", file, *OWN, "--out", tmp_path / "west.json")
    assert "not a result file" in refused(*line)


# A site


def client(tmp_path: Path, *arguments: object) -> tuple[object, ...]:
    data = one_site(tmp_path / "north.csv", "north")
    return (
        *("federate", "client", "--name", "north", "--data", data, *OWN, "--server", "127.0.0.1:9300"),
        *("--folder", tmp_path / "north", "--out", tmp_path / "north.json", "--site-policy", any_plan(tmp_path)),
        *arguments,
    )


def any_plan(folder: Path) -> Path:
    """A file of limits that sets none."""
    file = folder / "site-policy.toml"
    file.touch()
    return file


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--keys: missing"),
        (["--keys", "none-such"], "there is no none-such"),
        (["--insecure", "--authority", "ca.crt"], "--insecure: given beside"),
        (["--insecure", "--group", "sexe"], "did you mean 'sex'?"),
        (["--insecure", "--score", "age"], "looks like percentages; add --scale percent"),
        (["--insecure", "--data", "none.csv"], "none.csv: cannot be read"),
        (["--insecure", "--server", "localhost"], "--server: got 'localhost'; pass HOST:PORT"),
        (["--insecure", "--out", "none-such/p.json"], "there is no folder none-such"),
        (["--insecure", "--key", "none-such"], "there is no none-such, the key of this site"),
        (["--insecure", "--name", "../n"], "site: the name is '../n'"),
        (["--insecure", "--name", "north.pub"], "and not ending in .pub"),
    ],
)
def test_a_site_that_cannot_take_part_says_why_before_it_connects(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    pytest.importorskip("flwr")
    assert sentence in refused(*client(tmp_path, *arguments))
    assert not (tmp_path / "north").exists()


def connected(monkeypatch: pytest.MonkeyPatch, policy: Policy, run: str = "spring") -> list[dict[str, Any]]:
    """Replace the engine by one whose run ends at once, and return the settings it was given."""
    pytest.importorskip("flwr")
    from logofair.engines.flower import node
    from logofair.engines.site import SiteSettings

    seen: list[dict[str, Any]] = []

    def take_part(settings: Path, *, tell: Any, **others: Any) -> None:
        site = SiteSettings.read(settings)
        seen.append({**others, "settings": site})
        tell(Event("problem", "this site took part before."))
        (Path(site.folder) / f"{run}.client.json").write_text("{}")
        policy.save(site.policy)

    monkeypatch.setattr(node, "take_part", take_part)
    return seen


def test_a_site_stays_until_its_policy_is_written_and_prints_problems_and_rules(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy.load(published.parent / "policies" / "north.json")
    seen = connected(monkeypatch, policy)
    line = client(tmp_path, "--insecure", "--agree-without", "south", "--again", "spring")
    output = done(*line)
    assert "Problem: this site took part before." in output
    assert "accepted from a score of" in output
    (given_,) = seen
    site = given_["settings"]
    assert (site.site, site.agreed_without, site.again, given_["credentials"]) == ("north", ("south",), "spring", None)
    assert site.columns == ColumnNames(score="risk", label="repaid", group=("sex",))
    output = done(*line)  # a supervisor starts it again
    assert "Run spring has ended" in output
    assert len(seen) == 1
    output = done(*line, "--json", "--quiet")
    assert json.loads(output)["rules"] == str(policy.rules).splitlines()
    assert len(seen) == 1
    assert run(*line, "--force")[0] == 0
    assert len(seen) == 2


def test_a_policy_is_never_written_over_the_rows(published: Path, tmp_path: Path) -> None:
    line = client(tmp_path, "--insecure", "--force")
    data = Path(line[line.index("--data") + 1])
    before = data.read_bytes()
    join = ("federate", "join", published, "--name", "west", "--data", data, *OWN, "--force")
    for words in (line, join):
        code, output = run(*words, "--out", data)
        assert code == 2, output
        assert "is written as JSON; give it a name that ends in .json" in output
    assert data.read_bytes() == before


def test_a_policy_of_another_run_is_not_replaced_unless_told(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy.load(published.parent / "policies" / "north.json")
    seen = connected(monkeypatch, policy)
    policy.save(tmp_path / "north.json")
    before = (tmp_path / "north.json").read_bytes()
    assert "is not of a run in" in refused(*client(tmp_path, "--insecure"))
    (tmp_path / "north.json").write_text("something else")
    assert "pass --force" in refused(*client(tmp_path, "--insecure"))
    assert not seen
    assert run(*client(tmp_path, "--insecure", "--force"))[0] == 0
    assert (tmp_path / "north.json").read_bytes() == before


def without_limits(line: tuple[object, ...]) -> tuple[object, ...]:
    at = line.index("--site-policy")
    return line[:at] + line[at + 2 :]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "--accept-plan: missing; have the server's people send you plan.json"),
        (("--accept-plan", "12"), "--accept-plan: got '12'; pass the digest that the server prints"),
        (("--site-policy", "none.toml"), "none.toml: cannot be read"),
    ],
)
def test_a_site_says_what_it_agrees_to_before_it_connects(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    assert sentence in refused(*without_limits(client(tmp_path, "--insecure")), *arguments)
    assert not (tmp_path / "north").exists()


def test_limits_of_a_file_and_a_digest_go_to_the_site(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = connected(monkeypatch, Policy.load(published.parent / "policies" / "north.json"))
    line = client(tmp_path, "--insecure", "--accept-plan", "0123 4567 89ab cdef 0123 4567 89AB CDEF", "--local", "0.01")
    line = (*line, "--costs", "1,2")
    (tmp_path / "site-policy.toml").write_text("only_secure = true\nlocal_tolerance = 0.02\n")
    assert run(*line)[0] == 0
    (given_,) = seen
    digest = "0123-4567-89ab-cdef-0123-4567-89ab-cdef"
    own = {"local_tolerance": 0.01, "costs": (1.0, 2.0)}
    assert given_["settings"].limits == SiteLimits(plan=digest, only_secure=True, **own)


def test_nobody_is_asked_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_, **__: pytest.fail("somebody was asked"))
    assert "--accept-plan: missing" in refused(*without_limits(client(tmp_path, "--insecure")))
    assert not (tmp_path / "north").exists()


def test_a_result_that_is_not_believed_ends_the_command_with_a_failure_and_no_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr")
    from logofair.engines.flower import node

    def take_part(settings: Path, **others: Any) -> None:
        raise RunError("run 'spring': the published result is refused, since it is forged.")

    monkeypatch.setattr(node, "take_part", take_part)
    code, output = run(*client(tmp_path, "--insecure"))
    assert code == 1
    assert "the published result is refused, since it is forged." in output
    assert not (tmp_path / "north.json").exists()


def test_a_site_that_is_started_again_looks_at_plans_again(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected(monkeypatch, Policy.load(published.parent / "policies" / "north.json"))
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "unfit.json").write_text("{}")
    assert run(*client(tmp_path, "--insecure"))[0] == 0
    assert not (tmp_path / "north" / "unfit.json").exists()


def test_two_commands_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr")
    pytest.importorskip("fcntl")
    from logofair.files.writing import locked

    with locked(tmp_path / "north" / "command.lock"):
        assert "another process works in this folder" in refused(*client(tmp_path, "--insecure"))


# The example's files


def test_the_example_writes_raw_columns_scores_of_other_rows_and_never_overwrites(tmp_path: Path) -> None:
    from logofair.datasets import load_adult

    done("federate", "example", "--out", tmp_path / "data")
    adult, race, seen = load_adult(), load_adult("race").sensitive, []
    for name in (*_SITES, "new-north"):
        with (tmp_path / "data" / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        ids = [int(row["id"]) for row in rows]
        seen += ids
        assert [row["sex"] for row in rows] == adult.sensitive[ids].tolist()
        assert [row["race"] for row in rows] == race[ids].tolist()
        assert [int(row["label"]) for row in rows] == adult.labels[ids].astype(int).tolist()
        assert 17 <= min(int(row["age"]) for row in rows) < max(int(row["age"]) for row in rows) <= 90
    assert len(set(seen)) == len(seen) < len(adult)
    with (tmp_path / "data" / "together.csv").open() as file:
        together = list(csv.DictReader(file))
    with (tmp_path / "data" / "others.csv").open() as file:
        others = list(csv.DictReader(file))
    assert {row["site"] for row in together} == {row["site"] for row in others} == set(_SITES[:3])
    assert not {row["id"] for row in together} & {row["id"] for row in others}
    first = (tmp_path / "data" / "north.csv").read_bytes()
    assert "exists" in refused("federate", "example", "--out", tmp_path / "data")
    assert run("federate", "example", "--out", tmp_path / "data", "--force")[0] == 0
    assert (tmp_path / "data" / "north.csv").read_bytes() == first


def test_a_stored_plan_is_the_same_for_a_command_line_that_says_all_of_it() -> None:
    said = options(
        "--groups", "F,M", "--smallest-cell", "3", "--require", "selection rate gap <= 0 at a", "--solver", "exact"
    )
    _check_same(said, planned(said), "state")
    with pytest.raises(InputError, match="--smallest-cell: differs"):
        _check_same({**said, "smallest_cell": 4}, planned(said), "state")


def test_a_late_site_under_privacy_releases_its_histogram_once(tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    lines = ["site,sex,score"]
    lines += [f"{site},{sex},{rng.random():.4f}" for site in ("a", "b") for sex in ("F", "M") for _ in range(200)]
    (tmp_path / "all.csv").write_text("\n".join(lines))
    (tmp_path / "late.csv").write_text("\n".join(["site,sex,score", *lines[1:301]]))
    runner = CliRunner()
    columns = ["--score", "score", "--group", "sex"]
    simulated = [str(tmp_path / "all.csv"), "--site", "site", *columns, "--folder", str(tmp_path / "run")]
    done = runner.invoke(cli, ["federate", "simulate", *simulated, "--epsilon", "1", "--engine", "inprocess"])
    assert done.exit_code == 0, done.output
    join = ["federate", "join", str(tmp_path / "run" / "result.json"), "--name", "late"]
    join += ["--data", str(tmp_path / "late.csv"), *columns]
    assert runner.invoke(cli, [*join, "--out", str(tmp_path / "no.json")]).exit_code == 2
    tables = []
    for name in ("one.json", "two.json"):
        made = runner.invoke(cli, [*join, "--folder", str(tmp_path / "private"), "--out", str(tmp_path / name)])
        assert made.exit_code == 0, made.output
        tables.append(json.loads((tmp_path / name).read_text())["policy"]["mixtures"])
    assert tables[0] == tables[1]
