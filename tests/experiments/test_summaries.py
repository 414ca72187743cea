"""Records over their seeds: which of them a mean may hold."""

from __future__ import annotations

import pytest

from logofair.experiments.summaries import lines
from support.results import records


def test_no_mean_mixes_records_made_with_other_settings():
    old = records("fedfb", {"accuracy": [0.5, 0.5, 0.5]}, plan="old")
    new = records("fedfb", {"accuracy": [0.8, 0.9]}, plan="new")
    (found,) = lines([*old, *new])
    accuracy = found.figure("accuracy")
    assert (accuracy.mean, accuracy.runs, accuracy.of) == (pytest.approx(0.85), 2, 2)
    assert sum(found.settings.values()) == 2
