"""What fails a build: the exit code and its lines, the same in an assertion, an action and a hook before a commit."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import logofair
from logofair.outcomes import FAIL_ON
from logofair.testing import assert_requirements
from support.commandline import refused, run

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "howto" / "gate.md").read_text("utf-8")
WORKFLOW, HOOKS = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE))
audit = partial(run, "audit")


def decisions(file: Path, women: float, men: float, *, rows: int = 2000, site: str | None = None) -> Path:
    """Decisions of which these shares accept, half of the rows each."""
    half = rows // 2
    accepted = [*(int(at < women * half) for at in range(half)), *(int(at < men * half) for at in range(half))]
    table = pl.DataFrame({"sex": ["women"] * half + ["men"] * half, "decision": accepted})
    if site is not None:
        table = table.with_columns(site=pl.lit(site))
    table.write_csv(file)
    return file


OF_DECISIONS = ("--decision", "decision", "--group", "sex", "--global", "0.1")


@pytest.mark.parametrize(
    ("women", "men", "failing"),
    [(0.3, 0.6, ["EXCEEDED", "EXCEEDED"]), (0.49, 0.58, [None, "UNCLEAR"]), (0.5, 0.51, [None, None])],
)
def test_exceeded_fails_on_what_chance_does_not_explain_and_unclear_on_what_is_not_shown_to_be_met(
    women: float, men: float, failing: list[str | None], tmp_path: Path
) -> None:
    file = decisions(tmp_path / "all.csv", women, men)
    for fail_on, state in zip(FAIL_ON, failing, strict=True):
        code, page, lines = audit(file, *OF_DECISIONS, "--fail-on", fail_on)
        assert page == audit(file, *OF_DECISIONS)[1]
        assert code == (state is not None)
        assert [line.split("  ")[0] for line in lines.splitlines()] == ([state] if state else [])


def test_a_line_says_the_requirement_as_typed_where_and_the_figure_beside_its_limit(tmp_path: Path) -> None:
    files = [decisions(tmp_path / "Oslo.csv", 0.2, 0.7), decisions(tmp_path / "Lyon.csv", 0.5, 0.5)]
    code, _, lines = audit(
        *files, *OF_DECISIONS[:4], "--require", "selection rate ratio >= 0.8 per site", "--fail-on", "exceeded"
    )
    assert (code, lines.count("\n")) == (1, 1)
    assert lines.startswith("EXCEEDED  selection rate ratio >= 0.8 per site, at Oslo: 0.286, could be 0.2")
    assert lines.endswith("(limit >= 0.8)\n")


def test_a_small_site_fails_no_build_unless_all_are_small(tmp_path: Path) -> None:
    small = [decisions(tmp_path / f"{name}.csv", 0.5, 0.6, rows=20) for name in ("tiny", "little")]
    large = decisions(tmp_path / "large.csv", 0.5, 0.5)
    words = (*OF_DECISIONS[:4], "--local", "0.1", "--fail-on")
    assert audit(large, *small, *words, "unclear")[0] == 0
    code, _, lines = audit(*small, *words, "unclear")
    assert (code, lines) == (1, "UNCLEAR  every site has too few people to judge\n")
    assert audit(*small, *words, "exceeded")[0] == 0


def test_annotations_are_single_commands_whatever_sites_are_called(tmp_path: Path) -> None:
    table = pl.read_csv(decisions(tmp_path / "all.csv", 0.1, 0.9)).with_columns(site=pl.lit("50%0A\n::warning::no"))
    table.write_csv(tmp_path / "all.csv")
    words = (*OF_DECISIONS[:4], "--site", "site", "--require", "selection rate gap <= 0.1 per site")
    other = decisions(tmp_path / "other.csv", 0.5, 0.5, site="other")
    code, _, lines = audit(tmp_path / "all.csv", other, *words, "--fail-on", "unclear", "--annotate", "github")
    assert code == 1
    assert lines.count("\n") == 1
    assert lines.startswith("::error title=logofair EXCEEDED::selection rate gap <= 0.1 per site, at 50%250A")


def test_rules_are_gated_by_the_people_they_are_tested_on_and_json_stays_json(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    score, group, site = rng.random(3000), rng.choice(["a", "b"], 3000), rng.choice(["north", "south"], 3000)
    label = (rng.random(3000) < score).astype(int)
    table = pl.DataFrame({"score": score, "label": label, "group": group, "site": site})
    for name, part in {"fit": table[:2000], "test": table[2000:]}.items():
        part.write_csv(tmp_path / f"{name}.csv")
    words = ("fit", tmp_path / "fit.csv", "--score", "score", "--label", "label", "--group", "group", "--site", "site")
    words = (*words, "--test", tmp_path / "test.csv", "--local", "0.01", "--out", tmp_path / "policy.json", "--force")
    code, output, lines = run(*words, "--json", "--fail-on", "unclear")
    assert code == 1
    assert '"verdict": "unclear"' in output
    assert set(re.findall(r"^[A-Z ]+(?=  )", lines, re.MULTILINE)) == {"UNCLEAR"}
    assert run(*words, "--fail-on", "exceeded")[0] == 0
    policy = ("--policy", tmp_path / "policy.json", "--label", "label", "--fail-on", "exceeded")
    assert audit(tmp_path / "test.csv", *policy)[0] == 0
    assert "fitted on people of DATA" in refused("audit", tmp_path / "fit.csv", *policy)


def test_a_gate_that_could_never_fail_is_refused(tmp_path: Path) -> None:
    file = decisions(tmp_path / "all.csv", 0.3, 0.6)
    assert "nothing is required" in refused("audit", file, *OF_DECISIONS[:4], "--fail-on", "unclear")
    assert "without --fail-on" in refused("audit", file, *OF_DECISIONS, "--annotate", "github")
    assert "ll144" in refused("audit", file, *OF_DECISIONS, "--fail-on", "unclear", "--format", "ll144")
    out = tmp_path / "policy.json"
    assert "add --test" in refused("fit", file, "--score", "p", "--group", "sex", "--out", out, "--fail-on", "exceeded")
    assert not out.exists()
    with pytest.raises(logofair.InputError, match="nothing is required"):
        assert_requirements([1, 0], None, sensitive_features=["a", "b"])
    with pytest.raises(logofair.InputError, match="fail_on"):
        assert_requirements([1, 0], None, sensitive_features=["a", "b"], global_tolerance=0.1, fail_on="met")


def test_an_assertion_says_the_lines_of_the_command(tmp_path: Path) -> None:
    file = decisions(tmp_path / "all.csv", 0.3, 0.6)
    table = pl.read_csv(file)
    require = ["selection rate gap <= 0.1 overall", "selection rate of women >= 0.4 overall"]
    words = [word for sentence in require for word in ("--require", sentence)]
    _, _, lines = audit(file, *OF_DECISIONS[:4], *words, "--fail-on", "unclear")
    with pytest.raises(AssertionError) as caught:
        assert_requirements(
            table["decision"], None, sensitive_features=table["sex"], require=require, fail_on="unclear"
        )
    assert f"{caught.value}\n" == lines
    assert lines.count("EXCEEDED") == 2


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the file that the page's workflow audits, its command on the path."""
    for name in ("repository/data", "bin", "runner"):
        (tmp_path / name).mkdir(parents=True)
    command = tmp_path / "bin" / "logofair"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m logofair "$@"\n', "utf-8")
    command.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    return folder


def scores(repository: Path, men: float) -> None:
    """Two sites with scores, those of men higher by so much."""
    rows = [
        (site, sex, round((at + 0.5) / 500 * 0.8 + (men if sex == "men" else 0.0), 4), at % 2)
        for site in ("north", "south")
        for sex in ("women", "men")
        for at in range(500)
    ]
    table = pl.DataFrame(rows, schema=["site", "sex", "score", "label"], orient="row")
    table.write_csv(repository / "data" / "together.csv")


def environment(repository: Path) -> dict[str, str]:
    folder = repository.parent
    (folder / "runner" / "summary").touch()
    names = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b"}
    return {
        **os.environ,
        **names,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "RUNNER_TEMP": str(folder / "runner"),
        "GITHUB_STEP_SUMMARY": str(folder / "runner" / "summary"),
    }


def test_the_action_fails_the_build_of_a_repository_whose_decisions_become_unfair(repository: Path) -> None:
    action = yaml.safe_load((_ROOT / "action.yml").read_text("utf-8"))
    install, step = action["runs"]["steps"]
    (used,) = (each["with"] for each in WORKFLOW["jobs"]["fair"]["steps"] if "logofair" in each["uses"])
    assert used.keys() == action["inputs"].keys()
    assert "pip install" in install["run"]
    assert (step["env"]["AUDIT"], step["env"]["FAIL_ON"]) == ("${{ inputs.audit }}", "${{ inputs.fail-on }}")
    given = environment(repository) | {"AUDIT": used["audit"], "FAIL_ON": used["fail-on"]}

    def build() -> subprocess.CompletedProcess[str]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # as GitHub's shell: bash
        return subprocess.run(command, cwd=repository, env=given, capture_output=True, text=True, check=False)

    scores(repository, men=0.01)
    passed = build()
    assert (passed.returncode, passed.stderr) == (0, "")
    scores(repository, men=0.2)
    failed = build()
    assert failed.returncode == 1
    assert re.findall(r"^::error title=logofair EXCEEDED::.*, at (\w+): ", failed.stderr, re.MULTILINE) == [
        "north",
        "south",
    ]
    begin, *page, end = failed.stdout.splitlines()
    token = begin.removeprefix("::stop-commands::")
    assert end == f"::{token}::"
    assert page[0].startswith("together.csv: 2,000 people at 2 sites")
    summary = Path(given["GITHUB_STEP_SUMMARY"]).read_text("utf-8")
    assert "    MET " in summary
    assert "    EXCEEDED " in summary
    given["AUDIT"] = "missing.csv"
    assert build().returncode == 2


def test_the_hook_of_the_page_stops_a_commit(repository: Path) -> None:
    ((hook,),) = (each["hooks"] for each in HOOKS["repos"])
    (repository / ".git" / "hooks" / "pre-commit").write_text(f"#!/bin/sh\n{hook['entry']}\n", "utf-8")
    (repository / ".git" / "hooks" / "pre-commit").chmod(0o755)
    given = environment(repository)

    def commit() -> subprocess.CompletedProcess[str]:
        subprocess.run(["git", "add", "data"], cwd=repository, env=given, check=True)
        command = ["git", "commit", "--quiet", "--message", "scores"]
        return subprocess.run(command, cwd=repository, env=given, capture_output=True, text=True, check=False)

    scores(repository, men=0.01)
    assert commit().returncode == 0
    scores(repository, men=0.2)
    stopped = commit()
    assert stopped.returncode == 1
    assert "EXCEEDED  selection rate gap <= 0.1 per site, at north" in stopped.stderr
    assert re.match(hook["files"], "data/together.csv")


def test_the_page_shows_the_lines_that_its_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("federate", "example", "--out", "data")[0] == 0
    (command,) = re.findall(r"^    logofair (audit .*)$", _PAGE, re.MULTILINE)
    code, _, lines = run(*shlex.split(command))
    assert code == 1
    assert f"```text\n{lines}```" in _PAGE
