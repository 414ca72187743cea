"""The benchmark of one client: interpolation by hand, peers' rules at their own tolerances, one tiny run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import logofair
from benchmarks import frontiers
from benchmarks.frontiers import Rows
from reproduction.bench import one_site

pytestmark = pytest.mark.tool


def made(n: int, rng: np.random.Generator) -> Rows:
    groups = rng.integers(0, 2, n)
    scores = rng.beta(1.5 + groups, 2.0, n)
    return Rows(scores, (rng.random(n) < scores).astype(np.int64), groups)


@pytest.fixture
def people(monkeypatch):
    """One data set of generated rows, small parts of it."""
    rng = np.random.default_rng(0)
    groups, features = rng.integers(0, 2, 600), rng.normal(size=(600, 2))
    labels = (rng.random(600) < 1 / (1 + np.exp(-features[:, 0] - groups))).astype(np.int64)
    found = one_site.People(np.column_stack([features, groups]), labels, groups)
    monkeypatch.setattr(one_site.People, "of", classmethod(lambda cls, name, groups: found))
    monkeypatch.setattr(one_site, "TRAINING", 150)
    monkeypatch.setattr(one_site, "CALIBRATION", 200)
    monkeypatch.setattr(one_site, "NOTIONS", {"DP": "demographic_parity"})
    monkeypatch.setattr(one_site, "OURS", (0.1,))
    monkeypatch.setattr(one_site, "TOLERANCES", (0.05, 0.9))
    monkeypatch.setattr(one_site, "VARIANTS", {"default": {}})
    return found


def test_a_gain_is_the_height_above_the_chord_and_its_error_counts_the_noise_of_gaps():
    # Mean points (0.1, 0.60), (0.2, 0.64); the one at (0.3, 0.62) is worse than the second, so no part of the frontier.
    peers = np.array([[[0.1, 0.59], [0.2, 0.64], [0.3, 0.62]], [[0.1, 0.61], [0.2, 0.64], [0.3, 0.62]]])
    ours = np.array([[0.14, 0.63], [0.16, 0.64]])  # mean (0.15, 0.635); the chord is at 0.62 there, with slope 0.4
    # On the resplits: 0.63 - 0.615 - 0.4 * (0.14 - 0.15) = 0.019; 0.64 - 0.625 - 0.4 * (0.16 - 0.15) = 0.011.
    assert one_site.gain(ours, peers) == pytest.approx((0.015, 0.004))


@pytest.mark.parametrize(("at", "theirs"), [(0.02, 0.60), (0.5, 0.64)])
def test_beyond_its_ends_a_frontier_stays_level(at, theirs):
    peers = np.array([[[0.1, 0.60], [0.2, 0.64]]] * 2)
    ours = np.array([[at - 0.01, 0.7], [at + 0.01, 0.7]])
    assert one_site.gain(ours, peers) == pytest.approx((0.7 - theirs, 0.0))


def test_a_frontier_of_one_point_is_level():
    assert one_site.gain(np.full((3, 2), 0.5), np.full((3, 1, 2), 0.4)) == pytest.approx((0.1, 0.0))


def test_gap_and_accuracy_are_those_of_an_audit():
    rows = made(200, np.random.default_rng(1))
    chance = np.random.default_rng(2).random(200)
    for notion in one_site.NOTIONS.values():
        found = logofair.audit(chance, rows.labels, sensitive_features=rows.groups, notion=notion, chances=True)
        assert frontiers.gap(chance, rows, notion) == pytest.approx(found.global_gap)
        assert frontiers.accuracy(chance, rows) == pytest.approx(found.accuracy)


@pytest.mark.parametrize("name", frontiers.PEERS)
@pytest.mark.parametrize("notion", one_site.NOTIONS.values())
@pytest.mark.filterwarnings("ignore")
def test_a_peer_keeps_its_tolerance_on_the_rows_it_is_fitted_to(name, notion):
    if name not in frontiers.installed():
        pytest.skip(f"{name} is not installed")
    rows = made(800, np.random.default_rng(3))
    strict, loose = (rule(rows) for rule in frontiers.PEERS[name][1](rows, notion, [0.05, 1.0]))
    assert ((strict >= -1e-9) & (strict <= 1 + 1e-9)).all()
    assert frontiers.gap(strict, rows, notion) <= 0.05 + 0.02  # they search grids, or solve to some digits
    assert frontiers.gap(strict, rows, notion) < frontiers.gap(loose, rows, notion)
    assert frontiers.accuracy(loose, rows) >= frontiers.accuracy(rows.scores >= 0.5, rows) - 0.01


@pytest.mark.filterwarnings("ignore")
def test_the_command_prints_a_table_or_json_and_names_who_is_missing(people, monkeypatch):
    monkeypatch.setattr(one_site, "installed", lambda: {"Fairlearn": one_site.ours(calibration="none")})
    monkeypatch.setattr(one_site, "version", lambda module: "0")
    text = CliRunner().invoke(one_site.main, ["--quick"], catch_exceptions=False).output
    assert "left out: error-parity, OxonFair" in " ".join(text.split())
    options = ["--resplits", "2", "--sets", "NM", "--json"]
    found = json.loads(CliRunner().invoke(one_site.main, options, catch_exceptions=False).output)
    assert [(case["groups"], case["notion"]) for case in found["cases"]] == [(2, "DP"), (4, "DP")]
    line = found["cases"][0]["ours"]["default"][0]
    assert line["tolerance"] == 0.1
    assert set(line["gains"]) == {"Fairlearn"}
