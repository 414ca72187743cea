"""The files that platforms read: they parse, and say what the project itself says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from logofair import __version__

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    *(ROOT / name for name in (".pre-commit-config.yaml", ".readthedocs.yaml", "CITATION.cff")),
]

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="not a checkout")


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def jobs(file: Path) -> dict[str, Any]:
    return read(file)["jobs"]


def targets(text: str) -> set[str]:
    """What a text has make do."""
    found = re.findall(r"\bmake ((?:[a-z][\w.-]*(?: +|$))+)", text, re.MULTILINE)
    return {target for line in found for target in line.split()}


def targets_of_jobs() -> set[str]:
    """What all workflows have make do, those of a matrix included."""
    matrices = [job.get("strategy", {}).get("matrix", {}) for file in WORKFLOWS for job in jobs(file).values()]
    named = {target for matrix in matrices for target in matrix.get("target", ())}
    steps = [step for file in WORKFLOWS for job in jobs(file).values() for step in job["steps"]]
    return named | {target for step in steps for target in targets(step.get("run", ""))}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_that_platforms_read_parses(file: Path) -> None:
    assert isinstance(read(file), dict)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_may_read_and_only_its_publishing_job_may_identify_itself(file: Path) -> None:
    assert read(file)["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in jobs(file).items() if "permissions" in job}
    assert more == ({"publish": {"id-token": "write"}} if file.name == "release.yml" else {})


def test_workflows_run_what_the_projects_own_ci_runs_and_nothing_that_make_does_not_know() -> None:
    known = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if not line.startswith("#")]
    assert targets_of_jobs() <= known
    assert targets("\n".join(commands)) <= targets_of_jobs()


def test_every_python_that_is_stated_is_tested() -> None:
    stated = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    tested = jobs(ROOT / ".github" / "workflows" / "tests.yml")["test"]["strategy"]["matrix"]["python"]
    assert stated
    assert set(stated) <= set(tested)


def test_before_a_commit_runs_the_ruff_that_the_project_pins() -> None:
    pinned = re.search(r"^ruff==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    hooks = {each["repo"]: each for each in read(ROOT / ".pre-commit-config.yaml")["repos"]}
    assert pinned is not None
    assert hooks["https://github.com/astral-sh/ruff-pre-commit"]["rev"] == f"v{pinned[1]}"


def test_the_citation_names_this_version_and_the_paper() -> None:
    citation = read(ROOT / "CITATION.cff")
    (paper,) = citation["references"]
    assert citation["version"] == __version__
    assert citation["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert paper["title"].startswith("LoGoFair: Post-Processing for Local and Global Fairness")
    assert [each["family-names"] for each in paper["authors"]] == ["Zhang", "Chen", "Han", "Zhong", "Zheng"]


@pytest.mark.parametrize("engine", ["flower", "nvflare"])
def test_the_folder_of_an_engine_names_this_library_with_the_engines_extra(engine: str) -> None:
    folder = ROOT / "src" / "logofair" / "engines" / engine
    if engine == "flower":
        named = tomllib.loads((folder / "app" / "pyproject.toml").read_text())["project"]["dependencies"]
    else:
        named = (folder / "job" / "requirements.txt").read_text().splitlines()
    asked = {each.name: each for each in map(Requirement, named)}
    ours = asked.pop("logofair")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ranges = {each.name: each.specifier for each in map(Requirement, extras[engine])}
    assert ours.extras == {engine}
    assert ours.specifier.contains(__version__)
    assert {name: each.specifier for name, each in asked.items()} == {name: ranges[name] for name in asked}
