"""The command line: the demonstration's figures and page, and what happens on bad input."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from logofair.auditing import audit
from logofair.cli.commands.demo import _DEFAULT_TOLERANCES, demo
from logofair.cli.console import showing_progress
from logofair.cli.group import cli
from logofair.datasets import Dataset
from logofair.datasets.demonstration import Settings, compare
from logofair.errors import InputError, SolverError
from logofair.notions import NOTIONS
from logofair.words.fitted import demo_page

METHODS = ["Plain model", "LoGoFair_g", "LoGoFair_l", "LoGoFair_l&g"]


@pytest.fixture(scope="module", autouse=True)
def _in_a_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with contextlib.chdir(tmp_path_factory.mktemp("demo")):  # the demo writes its report where it runs
        yield


def run(*arguments: str) -> tuple[int, str]:
    """Exit code, and standard output and error together."""
    result = CliRunner().invoke(cli, list(arguments), prog_name="logofair")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def adult(*arguments: str) -> dict[str, Any]:
    code, output = run("demo", "--json", *arguments)
    assert code == 0, output
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.fixture(scope="module")
def parity() -> dict[str, Any]:
    return adult()


@pytest.fixture(scope="module")
def odds() -> dict[str, Any]:
    return adult("--notion", "equalized_odds")


@pytest.fixture(scope="module")
def printed() -> str:
    code, output = run("demo")
    assert code == 0
    return output


@pytest.fixture
def toy() -> Dataset:
    random = np.random.default_rng(0)
    features = random.random((1200, 2))
    groups = np.where(random.random(1200) < 0.2 + 0.6 * features[:, 0], "M", "F")
    return Dataset("toy", features, ("a", "b"), features.sum(axis=1) > random.normal(1.0, 0.3, 1200), groups)


def by_method(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in found["methods"]}


def test_json_holds_every_method_with_its_figures_requirements_and_certificate(parity: dict[str, Any]) -> None:
    assert [row["method"] for row in parity["methods"]] == METHODS
    for row in parity["methods"]:
        assert list(row["rates"]["selection rate"]) == ["Female", "Male"]
        for found in (row["accuracy"], row["local_gap"], row["global_gap"], *row["rates"]["selection rate"].values()):
            assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1
            assert found["rows"] >= 30
        for gap in ("local_gap", "global_gap"):
            assert row[gap]["floor"] < row[gap]["detectable"]
    required = {name: row["required"] for name, row in by_method(parity).items()}
    assert required == {
        "Plain model": {"local": None, "global": None},
        "LoGoFair_g": {"local": None, "global": 0.01},
        "LoGoFair_l": {"local": 0.01, "global": None},
        "LoGoFair_l&g": {"local": 0.01, "global": 0.01},
    }
    assert parity["settings"] == vars(Settings())
    assert sum(parity["rows"].values()) == 48_842
    assert parity["rows"]["test"] == 14_653


@pytest.mark.parametrize("notion", ["parity", "odds"])
def test_every_requirement_is_certified_on_the_calibration_rows(notion: str, request: pytest.FixtureRequest) -> None:
    base, *variants = request.getfixturevalue(notion)["methods"]
    assert base["certificate"] is None
    for row in variants:
        certificate = row["certificate"]
        assert certificate["violation"] <= 1e-9
        assert certificate["dual"] - certificate["primal"] == pytest.approx(certificate["optimality_gap"], abs=1e-12)
        assert certificate["optimality_gap"] <= 1e-6


def test_on_test_rows_the_required_gaps_of_adult_shrink(parity: dict[str, Any]) -> None:
    row = by_method(parity)
    base = row["Plain model"]
    for name in ("LoGoFair_g", "LoGoFair_l&g"):
        assert row[name]["global_gap"]["value"] < base["global_gap"]["value"] / 5
        assert row[name]["difference"]["global_gap"]["high"] < 0
    for name in ("LoGoFair_l", "LoGoFair_l&g"):
        assert row[name]["local_gap"]["value"] < base["local_gap"]["value"] / 2  # 40 women at a site: mostly chance
    assert row["LoGoFair_l"]["certificate"]["primal"] >= row["LoGoFair_l&g"]["certificate"]["primal"]
    assert row["LoGoFair_g"]["certificate"]["primal"] >= row["LoGoFair_l&g"]["certificate"]["primal"]


def test_the_readme_has_the_demos_figures(parity: dict[str, Any]) -> None:
    row, readme = by_method(parity), (Path(__file__).parents[2] / "README.md").read_text("utf-8").replace("\n", " ")
    before, after = row["Plain model"], row["LoGoFair_l&g"]
    assert f"accepts men {100 * before['global_gap']['value']:.0f} percentage points more often than women" in readme
    assert f"brings that to {100 * after['global_gap']['value']:.1f} points over all sites" in readme
    assert f"for {-100 * after['difference']['accuracy']['value']:.1f} points of accuracy" in readme
    assert after["local_gap"]["low"] == 0.0  # no difference inside any site that could be told from chance


def test_default_tolerances_are_those_of_the_papers_tables(parity: dict[str, Any], odds: dict[str, Any]) -> None:
    for found, tolerance in ((parity, 0.01), (odds, 0.02)):
        assert found["settings"]["local_tolerance"] == tolerance
        assert found["settings"]["global_tolerance"] == tolerance


def test_the_same_seed_gives_the_same_comparison_and_another_seed_does_not(toy: Dataset) -> None:
    first, again, other = (compare(toy, Settings(sites=3, random_state=seed)).as_dict() for seed in (4, 4, 5))
    assert first == again
    assert first["methods"] != other["methods"]


def test_options_are_passed_on() -> None:
    found = adult("--local", "0.3", "--global", "0.2", "--sites", "3", "--alpha", "100", "--seed", "7")
    assert found["settings"] == vars(Settings("demographic_parity", 0.3, 0.2, sites=3, alpha=100.0, random_state=7))
    assert by_method(found)["LoGoFair_l&g"]["required"] == {"local": 0.3, "global": 0.2}
    # Tolerances beyond what the base model needs bind nowhere: all variants are one rule.
    assert len({row["accuracy"]["value"] for row in found["methods"][1:]}) == 1


def test_a_free_side_requires_nothing_there(toy: Dataset) -> None:
    found = compare(toy, Settings(sites=2, alpha=100, local_tolerance=None))
    rows = by_method(found.as_dict())
    assert rows["LoGoFair_l"]["required"] == {"local": None, "global": None}
    assert rows["LoGoFair_l&g"]["accuracy"] == rows["LoGoFair_g"]["accuracy"]
    assert next(line for line in demo_page(found).text().splitlines() if "fair per site" in line).split()[4:7] == [
        *"–/–"
    ]


def test_the_page_fits_80_columns_without_colour_or_cut_text(printed: str) -> None:
    assert "\x1b" not in printed
    assert "…" not in printed
    for line in printed.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


def test_the_page_has_a_line_for_every_method_and_its_figures_are_those_of_the_json(
    printed: str, parity: dict[str, Any]
) -> None:
    assert len(printed.splitlines()) <= 20
    lines = {name: next(line for line in printed.splitlines() if line.startswith(name)) for name in METHODS}
    for name, row in by_method(parity).items():
        wanted = [f"{100 * row[figure]['value']:.1f}" for figure in ("global_gap", "local_gap", "accuracy")]
        assert lines[name].split()[-3:] == wanted


def test_gaps_are_expectations_of_the_policy_on_the_test_rows(toy: Dataset) -> None:
    found = compare(toy, Settings(sites=2, alpha=5))
    test, last = found.test_rows, found.outcomes[-1].audit
    where = {name: test[name] for name in ("sensitive_features", "sites")}
    chance = found.fair.policy.probabilities(test["scores"], **where)
    assert found.fair.policy.mixtures.mixed.any()  # else coins would not matter
    expected = audit(chance, test["labels"], **where, chances=True)
    assert (last.accuracy, last.local_gap, last.global_gap) == (
        expected.accuracy,
        expected.local_gap,
        expected.global_gap,
    )


def test_sites_without_calibration_rows_are_decided_by_the_merged_rule(toy: Dataset) -> None:
    found = compare(toy, Settings(sites=300))
    assert set(found.test_rows["sites"]) - set(found.calibration_rows["sites"])
    assert found.outcomes[-1].audit.accuracy is not None


@pytest.mark.parametrize(
    ("terminal", "quiet", "shown"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_progress_is_shown_on_terminals_only_and_not_where_quiet_is_asked(
    terminal: bool, quiet: bool, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
    with showing_progress(quiet=quiet) as progress:
        assert list(progress(range(3), "Counting", total=3)) == [0, 1, 2]
    captured = capsys.readouterr()
    assert ("Counting" in captured.err) == shown
    assert captured.out == ""


BAD = {
    "alpha zero": (["--alpha", "0"], "logofair demo --alpha: got 0.0; pass a number above 0"),
    "alpha negative": (["--alpha", "-1"], "logofair demo --alpha: got -1.0;"),
    "alpha nan": (["--alpha", "nan"], "logofair demo --alpha: got nan;"),
    "alpha huge": (["--alpha", "1e200"], "alpha: got 1e+200; pass a number above 0 and at most"),
    "alpha text": (["--alpha", "half"], "logofair demo --alpha: 'half' is not a valid float"),
    "no sites": (["--sites", "0"], "logofair demo --sites: got 0; pass a whole number from 2 to 1000"),
    "one site": (["--sites", "1"], "logofair demo --sites: got 1; pass a whole number from 2 to 1000"),
    "a million sites": (["--sites", "1000000"], "--sites: got 1000000; pass a whole number from 2"),
    "unknown notion": (["--notion", "equalised_odds"], "did you mean 'equalized_odds'?"),
    "strange notion": (["--notion", "x"], "--notion: got 'x'; use one of demographic_parity, equal_opportunity"),
    "local negative": (["--local", "-0.1"], "logofair demo --local: got '-0.1'; pass a number from 0"),
    "global infinite": (["--global", "inf"], "logofair demo --global: got 'inf';"),
    "seed negative": (["--seed", "-1"], "logofair demo --seed: got -1; pass a whole number from 0"),
    "unknown option": (["--site", "5"], "no option '--site' (did you mean '--sites'?)"),
    "argument": (["extra"], "got unexpected extra argument (extra); see logofair demo --help"),
    "value missing": (["--seed"], "option '--seed' requires an argument"),
}


@pytest.mark.parametrize(("arguments", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_ends_with_code_2_and_one_sentence(arguments: list[str], sentence: str) -> None:
    code, output = run("demo", *arguments)
    assert code == 2
    assert sentence in output
    assert output.count("\n") == 1
    assert output.endswith(".\n")


def test_an_unknown_command_is_refused_with_the_nearest() -> None:
    code, said = run("dmo")
    assert code == 2
    assert said.startswith("logofair: no command 'dmo' (did you mean 'demo'?); use one of apply, audit, data, ")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("scores: got none."), 2, "logofair: scores: got none."),
        (
            click.BadParameter("got 0; pass more.", param_hint="--repeat"),
            2,
            "logofair demo --repeat: got 0; pass more.",
        ),
        (SolverError("exact: no policy was found."), 1, "logofair: exact: no policy was found."),
        (KeyboardInterrupt(), 130, "logofair: interrupted."),
        (OSError(28, "No space left on device"), 1, "logofair: [Errno 28] No space left on device."),
        (ZeroDivisionError("two\nlines"), 1, "logofair: unexpected ZeroDivisionError: two lines; please report it"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_no_failure_shows_a_traceback(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(demo, "callback", fail)
    monkeypatch.delenv("LOGOFAIR_TRACEBACK", raising=False)
    found, output = run("demo")
    assert found == code
    assert output.lstrip().startswith(said)
    assert output.strip().count("\n") == 0


def test_an_interrupt_while_a_compiled_module_is_imported_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(demo, "callback", fail)
    assert run("demo") == (130, "logofair: interrupted.\n")


def test_a_traceback_is_shown_to_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(demo, "callback", fail)
    monkeypatch.setenv("LOGOFAIR_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(cli, ["demo"]).exception, ZeroDivisionError)


def test_the_commands_choices_are_those_of_the_package() -> None:
    assert set(_DEFAULT_TOLERANCES) == set(NOTIONS)


def test_python_dash_m_is_the_command_and_bad_input_is_said_on_standard_error() -> None:
    found = python("-m", "logofair", "--help")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("Usage: logofair [OPTIONS]")
    found = python("-m", "logofair", "demo", "--seed", "-1")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "logofair demo --seed: got -1; pass a whole number from 0.\n"


@pytest.mark.parametrize("command", ["", "demo"])
def test_help_imports_nothing_heavy(command: str) -> None:
    script = f"""
import sys
sys.argv = ["logofair", *{command!r}.split(), "--help"]
from logofair.cli import main
try:
    main()
finally:
    print("IMPORTED", *({{"numpy", "scipy", "sklearn", "rich"}} & set(sys.modules)))
"""
    found = python("-c", script)
    assert found.returncode == 0, found.stderr
    assert found.stdout.endswith("\nIMPORTED\n")


@pytest.mark.parametrize("missing", [("click",), ("rich",), ("click", "rich")], ids="+".join)
def test_without_its_optional_packages_the_command_names_the_extra(missing: tuple[str, ...]) -> None:
    script = f"""
import sys
for name in {missing!r}:
    sys.modules[name] = None  # import then fails as if it were not installed
from logofair.cli import main
main()
"""
    found = python("-c", script)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        f"logofair: the command line needs {' and '.join(missing)}, which this Python lacks; "
        "run: pip install 'logofair[cli]'\n"
    )
