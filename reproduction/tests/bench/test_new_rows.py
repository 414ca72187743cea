"""The benchmark of new rows: its floor, its yardsticks and a run on few generated rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from logofair.auditing.chance import noise_floor
from logofair.datasets import Dataset
from reproduction.bench import new_rows

pytestmark = pytest.mark.tool


def generated(rows: int = 1500, clients: int | None = None) -> Dataset:
    rng = np.random.default_rng(0)
    features = rng.random((rows, 2))
    labels = rng.random(rows) < features.mean(axis=1)
    groups = np.where(features[:, 0] + rng.random(rows) > 0.9, "M", "F")
    sites = None if clients is None else rng.integers(0, clients, rows).astype(str)
    return Dataset("toy", features, ("a", "b"), labels, groups, sites)


def test_the_floor_of_a_rule_with_a_gap_is_that_of_drawn_rows():
    people = np.array([[[300.0, 100.0], [40.0, 500.0]]])
    shares = np.array([[[0.3, 0.3], [0.6, 0.6]]])
    rng = np.random.default_rng(1)
    drawn = [
        abs((rng.random((4000, int(n))) < p + 0.05).mean(axis=1) - (rng.random((4000, int(m))) < p - 0.05).mean(axis=1))
        for (n, m), (p, _) in zip(people[0], shares[0], strict=True)
    ]
    floor = noise_floor(shares, people, ["selection rate"], 0.1)
    assert floor.mean == pytest.approx(np.maximum(*drawn).mean(), abs=0.006)
    assert floor.by_site == pytest.approx([gaps.mean() for gaps in drawn], abs=0.006)
    assert floor.mean > noise_floor(shares, people, ["selection rate"]).mean + 0.03


@pytest.mark.parametrize("by_label", [False, True])
def test_the_squared_gap_is_found_without_bias(by_label):
    rng = np.random.default_rng(2)
    chance = np.array([0.2, 0.5])  # of the groups: a gap of 0.3
    clients, groups, labels = (index.ravel() for index in np.indices((40, 2, 8)))
    found = []
    for _ in range(200):
        decided = (rng.random(clients.size) < chance[groups]).astype(float)
        rows = new_rows.Rows(decided, labels % 2, groups.astype(str), clients)
        found.append(new_rows.squared_gap(decided, rows, by_label=by_label))
    assert np.mean(found) == pytest.approx(0.09, abs=4 * np.std(found) / np.sqrt(200))


def test_every_client_of_a_population_has_all_rows_of_its_groups_by_its_own_mix():
    rng = np.random.default_rng(3)
    rows = new_rows.Rows(rng.random(60), rng.integers(0, 2, 60), np.array(["F", "M", "M"] * 20), np.zeros(60, int))
    mix = np.array(["F", "F", "F", "M", "M"]), np.array([0, 0, 1, 1, 1])
    drawn, every = new_rows.as_population(rows, new_rows.Rows(np.zeros(5), np.zeros(5, int), *mix), rng)
    assert np.isin(drawn.scores[:3], rows.scores[rows.groups == "F"]).all()
    assert np.isin(drawn.scores[3:], rows.scores[rows.groups == "M"]).all()
    at = {(c, g): every.weights[(every.sites == c) & (every.groups == g)].sum() for c in (0, 1) for g in "FM"}
    assert at == pytest.approx({(0, "F"): 2, (0, "M"): 0, (1, "F"): 1, (1, "M"): 2})
    assert every.scores[every.sites == 1].tolist() == rows.scores.tolist()


def test_rows_dealt_by_chance_are_measured_on_test_rows_and_in_the_population():
    found = new_rows.dealt_by_chance(generated(), 5.0, 2)
    assert [(r.setting.notion, r.setting.true) for r in found][::3] == [
        ("demographic_parity", False),
        ("equalized_odds", True),
    ]
    for results in found:
        assert set(results.runs) == set(new_rows.WAYS)
        assert sum(results.chosen.values()) == 2
        assert results.mean("none", "own excess") <= 1e-6
        assert results.difference("none", "none", "largest") == (0.0, 0.0)
        assert len(list(results.goals())) >= 2


def test_the_command_tells_every_goal(monkeypatch):
    monkeypatch.setattr(new_rows, "load", lambda _: generated(clients=3))
    text = CliRunner().invoke(new_rows.new_rows, ["enem", "--quick"]).output
    assert text.count("better of none and full") == 4
    result = CliRunner().invoke(new_rows.new_rows, ["acs", "--seeds", "2", "--json"])
    tables = json.loads(result.stdout)
    assert [table["setting"]["data"] for table in tables][1:3] == ["toy, 5% of the rows", "toy"]
    assert all(len(figures["mean"]) == 2 for table in tables for figures in table["runs"].values())
