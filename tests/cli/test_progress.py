"""Whoever waits for a command sees how far it is: every bar ends complete, and those of long work have steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars
import pytest

from logofair.cli import console
from support.commandline import run

COLUMNS = ("--score", "score", "--label", "label", "--group", "sex", "--site", "site")
READ = {"Reading": 100}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    score = rng.random(600)
    columns = {"sex": rng.choice(["F", "M"], 600), "site": rng.choice(["a", "b", "c"], 600)}
    file = tmp_path / "people.csv"
    polars.DataFrame({"score": score, "label": (rng.random(600) < score).astype(int)} | columns).write_csv(file)
    return file


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The bars shown, each with its steps done and all of its steps."""
    shown: dict[str, list[int]] = {}

    def progress(steps: Iterable[object], what: str, total: int) -> Iterable[object]:
        bar = shown[what] = [0, total]
        for step in steps:
            yield step
            bar[0] += 1

    @contextmanager
    def showing(*, quiet: bool = False) -> Iterator[object]:
        yield progress

    monkeypatch.setattr(console, "showing_progress", showing)
    return shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fit", *COLUMNS, "--out", "p.json"), READ | {"Fitting": 4, "Testing": 1, "Measuring": 1}),
        (
            ("fit", *COLUMNS, "--out", "p.json", "--report", "p.html"),
            READ | {"Fitting": 4, "Testing": 1, "Measuring": 1, "Calibrating": 1, "Writing the report": 1},
        ),
        (("audit", *COLUMNS), {"Counting": 100, "Measuring": 1}),
        (("frontier", *COLUMNS, "--pooling", "none"), READ | {"Calibrating": 1}),
        (
            ("federate", "simulate", *COLUMNS, "--engine", "inprocess", "--folder", "try"),
            READ | {"Splitting by site": 3, "Reading the sites": 3, "Running the plan": 14, "Writing the policies": 3},
        ),
    ],
)
def test_every_bar_of_a_long_command_is_filled(
    words: tuple[str, ...],
    expected: dict[str, int],
    people: Path,
    bars: dict[str, list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(people.parent)
    code, _, error = run(*words, people)
    assert code == 0, error
    solved, points = bars.pop("Solving", [0, 0])
    assert solved == points
    assert bars == {what: [total, total] for what, total in expected.items()}
