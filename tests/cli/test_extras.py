"""Without an optional package a command that needs it names the extra to install, and the others work."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import logofair
from logofair.cli.group import _EXTRAS

# Runs commands in a Python that does not find some packages, as if they had never been installed.
SCRIPT = """
import json, sys
packages, commands = json.loads(sys.argv[1])

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in packages else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
from click.testing import CliRunner
from logofair.cli.group import cli

found = [CliRunner().invoke(cli, words.split(), prog_name="logofair") for words in commands]
print(json.dumps([(result.exit_code, result.stderr) for result in found]))
"""

COLUMNS = "--score p --label y --group sex"
SIMULATE = f"federate simulate people.csv {COLUMNS} --site site"
NEEDING = {
    "polars": (
        f"audit people.csv {COLUMNS}",
        f"audit people.csv {COLUMNS} --format ll144",
        "audit people.csv --policy policy.json",
        f"fit people.csv {COLUMNS} --out new.json",
        f"frontier people.csv {COLUMNS}",
        "apply policy.json people.csv --seed 1 --out decisions.csv",
        f"{SIMULATE} --folder try --engine inprocess",
    ),
    "flwr": (
        "federate server --insecure --folder state --sites a,b --groups F,M",
        f"federate client --insecure --name a --data people.csv {COLUMNS} --server 127.0.0.1:1 --folder a --out a.json "
        f"--accept-plan {'0' * 32}",
        f"{SIMULATE} --folder try",
    ),
    "cryptography": ("federate keys server", "federate keys site north", "federate keys show"),
    "starlette": ("studio --no-browser", f"studio people.csv {COLUMNS} --no-browser"),
    "uvicorn": ("studio --no-browser",),
    "opendp": (f"{SIMULATE} --folder try --engine inprocess --epsilon 1",),
}
DOING_WITHOUT = ("explain policy.json", "--help")


def without(packages: list[str], commands: tuple[str, ...], folder: Path) -> list[tuple[int, str]]:
    words = [sys.executable, "-c", SCRIPT, json.dumps([packages, commands])]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("extras"), np.random.default_rng(0)
    sex, score = rng.choice(["F", "M"], 60), rng.random(60).round(3)
    lines = [
        f"{p},{int(p > 0.5)},{group},{'ab'[row % 2]}" for row, (p, group) in enumerate(zip(score, sex, strict=True))
    ]
    (folder / "people.csv").write_text("\n".join(["p,y,sex,site", *lines]) + "\n")
    logofair.fit(score, None, sensitive_features=sex, calibration="none").policy.save(folder / "policy.json")
    return folder


@pytest.mark.parametrize("package", NEEDING)
def test_a_command_that_needs_a_package_names_its_extra(package: str, folder: Path) -> None:
    for words, (code, said) in zip(NEEDING[package], without([package], NEEDING[package], folder), strict=True):
        assert code == 2, (words, said)
        assert said.count("\n") == 1, said
        extras = {_EXTRAS[package], "flower"} if package == "cryptography" else {_EXTRAS[package]}
        assert any(f"pip install 'logofair[{extra}]'" in said for extra in extras), (words, said)


def test_other_commands_do_without_any_of_them(folder: Path) -> None:
    assert all(code == 0 for code, _ in without([*_EXTRAS, "pandas"], DOING_WITHOUT, folder))


def test_every_optional_package_has_its_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for package, extra in _EXTRAS.items():
        needed = project["optional-dependencies"][extra]
        assert any(each.startswith(package) for each in needed), package
