"""The benchmark of promises compares what is stated with the population it draws from."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import promises

pytestmark = pytest.mark.tool

SMALL = promises.Scenario("small", 2, 2, 150, 0.3, 0.2)


def test_the_population_is_that_of_its_rows():
    rng = np.random.default_rng(0)
    population = promises.Population.drawn(promises.Scenario("large", 2, 2, 20_000, 0.3, 0.2), rng)
    rows = population.rows(rng)
    solution = promises.logofair.fit(**rows, notion="equal_opportunity", confidence=0.95)
    truth = population.measured(solution)
    found = promises.logofair.audit(
        None,
        rows["labels"],
        sensitive_features=rows["sensitive_features"],
        sites=rows["sites"],
        notion="equal_opportunity",
        scores=rows["scores"],
        policy=solution.policy,
    )
    assert truth.accuracy == pytest.approx(found.accuracy, abs=0.01)
    for each, gap in zip(solution.certified, [*found.local.gaps[0], found.global_gap], strict=True):
        assert truth.gap(each) == pytest.approx(gap, abs=0.03)


def test_a_run_counts_bounds_that_hold_and_promises_that_fail():
    found = promises.simulate(SMALL, range(2)).as_dict()
    assert found["runs"] == 2
    assert found["method"] == "by rank"
    assert 0 <= found["broken"] <= 1
    assert 0 < found["local_holds"] <= 1


def test_the_command_prints_a_table_or_json(monkeypatch):
    monkeypatch.setattr(promises, "SCENARIOS", (SMALL, promises.Scenario("one", 1, 2, 100, 0.3, None)))
    text = CliRunner().invoke(promises.promises, ["--runs", "20", "--quick"]).output
    assert "broken" in text
    found = json.loads(CliRunner().invoke(promises.promises, ["--runs", "1", "--only", "one", "--json"]).output)
    assert [each["scenario"] for each in found] == ["one"]
    assert found[0]["global_holds"] is None
