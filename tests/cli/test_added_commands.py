"""Commands that logofair-reproduction adds through entry points, with and without it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import click
import pytest
from click.shell_completion import BashComplete

from logofair.cli.group import cli
from support.commandline import refused, run

ADDED = ("data", "reproduce", "train")


@pytest.fixture
def nothing_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **selected: ())


@pytest.mark.usefixtures("nothing_added")
@pytest.mark.parametrize("command", ADDED)
def test_without_the_distribution_its_commands_say_what_to_install(command: str) -> None:
    for words in ((command,), (command, "--help"), (command, "--data", "adult")):
        assert refused(*words) == (
            f"logofair: {command}: this command comes with logofair-reproduction, which this Python lacks; from a "
            "checkout of LoGoFair run: pip install ./reproduction."
        )


@pytest.mark.usefixtures("nothing_added")
def test_without_the_distribution_shells_complete_the_other_commands() -> None:
    complete = BashComplete(cli, {}, "logofair", "_LOGOFAIR_COMPLETE")
    assert [item.value for item in complete.get_completions([], "d")] == ["demo"]
    assert complete.get_completions(["train"], "--d") == []


def test_a_command_is_what_the_entry_point_of_its_name_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    selections = []

    class Entry:
        @staticmethod
        def load() -> click.Command:
            return click.Command("train", callback=lambda: click.echo("trained"))

    def entry_points(**selected: str) -> list[type[Entry]]:
        selections.append(selected)
        return [Entry]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    assert run("train") == (0, "trained\n", "")
    assert selections == [{"group": "logofair.commands", "name": "train"}]


def test_help_names_them_and_looks_for_no_entry_point() -> None:
    code = (
        "import sys\nfrom logofair.cli.group import cli\n"
        "try:\n    cli(['--help'])\nfinally:\n    print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("(with logofair-reproduction)") == len(ADDED)
    assert done.stdout.endswith("False\n")
