"""The commands are found where the distribution is installed; without PyTorch those that train name its extra."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from logofair_reproduction import commands
from support.commandline import refused, run

pytestmark = pytest.mark.tool


def test_the_distribution_adds_three_commands() -> None:
    assert {entry.name for entry in entry_points(group="logofair.commands")} == {"data", "reproduce", "train"}


@pytest.mark.parametrize(
    "words", ["train --method fairfed --data adult --out scores.csv", "reproduce comparison_dp --quick --out results"]
)
def test_without_pytorch_commands_that_train_name_its_extra(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "find_spec", lambda name: None)
    assert "pip install './reproduction[train]'" in refused(*words.split())


@pytest.mark.parametrize("words", ["data list", "data describe adult", "reproduce --list"])
def test_other_commands_do_without_it(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda name: None)
    code, _, error = run(*words.split())
    assert code == 0, error
