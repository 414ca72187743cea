"""Examples of commands' help, commands of README and pages: run on files like those of ``federate example``.

What takes long, or other files, is at least understood.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

from support.commandline import run

pytest.importorskip("logofair_reproduction")

import click
import polars as pl

from logofair.cli.group import LazyGroup, cli

# Examples that are only read here, by how they begin, and what keeps them from being run.
NOT_RUN = {
    "demo": "seconds each: tests/cli/test_demo.py and make test-wheel run it",
    "train --method fairfed": "minutes: tests/cli/test_train.py trains on less",
    "train --method fedfb": "needs the official files of ENEM",
    "train --method fcfl": "needs the official files of the ACS",
    "data prepare": "needs official files",
    "reproduce comparison_dp": "minutes: tests/cli/test_reproduce.py runs less",
    "reproduce all": "hours",
    "reproduce --show": "needs results",
    "federate plan": "reads what a server wrote: tests/cli/test_federate.py shows one",
    "federate server": "needs sites: tests/cli/test_federate.py runs whole federations",
    "federate client": "needs a server",
    "federate join": "needs the result of a run",
    "federate example": "tests/cli/test_federate.py runs it",
    "federate simulate data/together.csv --site site --score score --label label": "Flower's simulation, likewise",
    "studio": "answers until Ctrl-C: tests/studio asks it",
    "audit scores.parquet": "reads what training wrote",
    "fit scores.parquet": "reads what training wrote",
}


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    if isinstance(group, LazyGroup):
        for name in group.list_commands(click.Context(group)):
            yield from commands(group.get_command(click.Context(group), name), (*path, name))


def examples_of(command: click.Command) -> list[str]:
    return re.findall(r"^ +(logofair .*)$", (command.epilog or ""), re.MULTILINE)


COMMANDS = dict(commands(cli))
EXAMPLES = list(dict.fromkeys(line for command in COMMANDS.values() for line in examples_of(command)))
_ROOT = Path(__file__).parents[2]
PAGES = [_ROOT / "README.md", *sorted((_ROOT / "docs").glob("start/*.md")), _ROOT / "docs" / "howto" / "train.md"]
ON_PAGES = list(
    dict.fromkeys(
        line
        for page in PAGES
        for line in re.findall(r"^(?: {4})?(logofair (?:.*\\\n)*.*)$", page.read_text("utf-8"), re.MULTILINE)
    )
)
BEGINNING = re.findall(r"^  (logofair (?:.*\\\n)*.*)$", cli.beginning, re.MULTILINE)


def words_of(example: str) -> list[str]:
    return shlex.split(example.replace("\\\n", " "), comments=True)[1:]


def is_run(example: str) -> bool:
    said = " ".join(words_of(example))
    return "--help" in said or not any(said.startswith(start) for start in NOT_RUN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files named as those that the examples read, of fewer rows."""
    folder, rng, rows = tmp_path_factory.mktemp("examples"), np.random.default_rng(0), 1000
    site, sex = rng.choice(["north", "south", "east"], rows), rng.choice(["Female", "Male"], rows)
    score, part = rng.random(rows).round(4), np.arange(rows) % 2
    people = pl.DataFrame({"site": site, "id": np.arange(rows), "age": rng.integers(17, 90, rows), "sex": sex})
    label, race = (rng.random(rows) < score).astype(int), rng.choice(["A", "B"], rows)
    people = people.with_columns(race=race, score=score, label=label, part=part)
    (folder / "data").mkdir()
    first, others = people.filter(part=0).drop("part"), people.filter(part=1).drop("part")
    files = {"together": first, "others": others, "new-north": others.filter(site="north").drop("site")}
    files |= {name: first.filter(site=name).drop("site") for name in ("north", "south", "east")}
    for name, table in files.items():
        table.write_csv(folder / "data" / f"{name}.csv")
    named = pl.when(pl.col("part") == 0).then(pl.lit("calibration")).otherwise(pl.lit("test"))
    scores = people.select("id", "score", "label", part=named, site="site", group="sex")
    scores.write_csv(folder / "scores.csv")
    columns = ("--score", "score", "--label", "label", "--group", "sex", "--site", "site")
    with chdir(folder):
        for out in ("policy.json", "other.json"):
            code, _, error = run("fit", "data/together.csv", *columns, "--local", "0.1", "--out", out)
            assert code == 0, error
        words = ("--id", "id", "--keep", "sex", "--out", "decisions.csv")
        assert run("apply", "policy.json", "data/others.csv", *words)[0] == 0
        assert run("federate", "keys", "site", "south", "--out", "keys")[0] == 0
    return folder


@pytest.mark.parametrize("example", list(dict.fromkeys([*BEGINNING, *EXAMPLES, *ON_PAGES])))
def test_every_example_of_a_help_or_a_page_runs_or_is_understood(
    example: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, new = words_of(example), "--out keys" in example  # keys are never written over
    if not is_run(example):
        monkeypatch.setattr(click.Command, "invoke", lambda self, ctx: None)
    elif "--force" in _options(words):
        words.append("--force")
    with chdir(tmp_path if new else folder):
        before = (folder / "policy.json").read_bytes()
        code, _, error = run(*words)
        (folder / "policy.json").write_bytes(before)  # of sites, as other examples expect it
    assert code == 0, error


def _options(words: list[str]) -> list[str]:
    command = max((path for path in COMMANDS if tuple(words[: len(path)]) == path), key=len)
    return [name for param in COMMANDS[command].params for name in param.opts]


def test_every_command_has_an_example_that_begins_with_its_name() -> None:
    for path, command in COMMANDS.items():
        start = " ".join(("logofair", *path))
        assert any(line.startswith(start) for line in examples_of(command)), start


def test_what_keeps_examples_from_being_run_is_said_of_existing_ones_alone() -> None:
    said = [" ".join(words_of(example)) for example in [*EXAMPLES, *ON_PAGES]]
    assert all(any(each.startswith(start) for each in said) for start in NOT_RUN)


def test_without_a_command_three_are_shown_to_begin_with() -> None:
    code, output, _ = run()
    assert code == 0
    assert output == cli.beginning
    assert len(BEGINNING) == 3
    assert max(map(len, output.splitlines())) <= 80


def test_shells_complete_commands_options_and_names() -> None:
    def completed(*words: str) -> list[str]:
        from click.shell_completion import BashComplete

        complete = BashComplete(cli, {}, "logofair", "_LOGOFAIR_COMPLETE")
        return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]

    assert completed("au") == ["audit"]
    assert completed("federate", "si") == ["simulate"]
    assert completed("audit", "--form") == ["--format"]
    assert completed("audit", "--format", "m") == ["model-card"]
    assert "_LOGOFAIR_COMPLETE=bash_source logofair" in run("--help")[1]
