"""Records over their seeds: which of them a mean may hold."""

from __future__ import annotations

import pytest

from logofair_reproduction.experiments.summaries import Summary, lines
from made.results import records


def test_intervals_of_several_comparisons_are_wider_and_one_is_as_it_was():
    found = Summary.of_values([0.01, 0.02, 0.04, 0.03, 0.02])
    assert found.among(1).high == pytest.approx(found.high)
    # Tables of Student's t of 4 degrees of freedom: 2.776 leaves 2.5 %, 4.604 leaves 0.5 %.
    assert (found.among(5).high - found.mean) / (found.high - found.mean) == pytest.approx(4.604 / 2.776, abs=1e-3)
    assert Summary.of_values([0.01]).among(5).high is None


def test_signs_are_those_of_the_mean():
    assert Summary.of_values([0.01, -0.02, None, 0.04]).alike == 2
    assert Summary.of_values([-0.01, -0.02, 0.01]).alike == 2


def test_no_mean_mixes_records_made_with_other_settings():
    old = records("fedfb", {"accuracy": [0.5, 0.5, 0.5]}, plan="old")
    new = records("fedfb", {"accuracy": [0.8, 0.9]}, plan="new")
    (found,) = lines([*old, *new])
    accuracy = found.figure("accuracy")
    assert (accuracy.mean, accuracy.runs, accuracy.of) == (pytest.approx(0.85), 2, 2)
    assert sum(found.settings.values()) == 2
