"""``logofair explain``: the rules in words and as bands that decide as the policy does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import logofair
from logofair.policy.info import ColumnsInfo, PolicyInfo
from logofair.policy.rules import Band, _raw_scores, bands_of
from logofair.words.explained import _accepted_from, rule_in_words
from support import commandline

EDGE = float(np.nextafter(0.45, 1.0))  # with 0.45 a band of one score

run = partial(commandline.run, "explain")
refused = partial(commandline.refused, "explain")


def words_of(*words: object) -> str:
    code, output, error = run(*words)
    assert code == 0, error
    return " ".join(output.split())


def made(calibration: str = "beta", notion: str = "equalized_odds", sites: int = 3, **options: Any) -> logofair.Policy:
    rng = np.random.default_rng(2)
    n = 400 * sites
    sex, site = rng.choice(["Female", "Male"], n), rng.integers(0, sites, n)
    score = rng.beta(1 + (sex == "Male"), 2, n)
    names = np.array([f"site {place:02d}" for place in range(sites)])
    return logofair.fit(
        score,
        rng.random(n) < score**1.5,
        sensitive_features=sex,
        sites=names[site],
        notion=notion,
        calibration=calibration,
        **options,
    ).policy


@pytest.fixture(scope="module", params=["beta", "isotonic", "none"])
def policy(request: pytest.FixtureRequest) -> logofair.Policy:
    return made(request.param)


def test_bands_on_either_scale_accept_whom_the_policy_accepts(policy: logofair.Policy) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    for site, name in enumerate(policy.sites):
        for group, sex in enumerate(policy.groups):
            bands = bands_of(policy, site, group)
            assert bands[0].low == bands[0].raw_low == 0.0
            assert bands[-1].high == bands[-1].raw_high == 1.0
            codes = np.full(500, group, dtype=np.int32), np.full(500, site, dtype=np.int32)
            calibrated = policy.calibrator(scores, *codes)
            want = policy.probabilities(scores, sensitive_features=[sex] * 500, sites=[name] * 500)
            for values, edge in ((calibrated, "low"), (scores, "raw_low")):
                edges = np.array([getattr(band, edge) for band in bands])
                place = np.searchsorted(edges, values, side="right") - 1
                got = np.array([band.chance for band in bands])[place]
                near = np.abs(values[:, None] - edges[1:]).min(1, initial=1.0) < 1e-9  # which side is rounding
                np.testing.assert_allclose(got[~near], want[~near], atol=1e-9)


def test_raw_scores_are_where_the_calibrated_score_is_reached(policy: logofair.Policy) -> None:
    wanted = np.linspace(0.1, 0.9, 33)
    groups, sites = np.zeros(33, dtype=np.int32), np.ones(33, dtype=np.int32)
    raw = _raw_scores(policy, wanted, groups, sites)
    inside = (raw > 0) & (raw < 1)
    assert inside.sum() > 20
    assert np.all(policy.calibrator(raw, groups, sites)[inside] >= wanted[inside] - 1e-12)
    below = np.clip(raw - 1e-6, 0, 1)
    assert np.all(policy.calibrator(below, groups, sites)[inside] < wanted[inside] + 1e-12)
    assert np.all(np.diff(raw) >= 0)


def test_one_site_and_one_group_can_be_asked_for(tmp_path: Path) -> None:
    made().save(tmp_path / "policy.json")
    page = words_of(tmp_path / "policy.json", "--only-site", "site 01", "--only-group", "Male")
    assert "site 01 Male accepted from " in page
    assert "Female" not in page
    assert "site 02" not in page
    assert "--only-site: no 'site 1'" in refused(tmp_path / "policy.json", "--only-site", "site 1")
    assert "--only-group: no 'male' (did you mean 'Male'?)" in refused(tmp_path / "policy.json", "--only-group", "male")


def test_json_holds_what_the_words_say(tmp_path: Path) -> None:
    policy = made()
    policy.save(tmp_path / "policy.json")
    found = json.loads(run(tmp_path / "policy.json", "--json", "--only-site", "site 02")[1])
    assert [rule["group"] for rule in found["rules"]] == ["Female", "Male"]
    for group, rule in enumerate(found["rules"]):
        bands = bands_of(policy, 2, group)
        assert rule["bands"] == [vars(band) for band in bands]
        assert rule["words"] == rule_in_words(bands)
    assert found["info"]["requirements"]["require"][0].startswith("equalized odds gap <= 0.02 ")


@pytest.mark.parametrize(("scale", "middle"), [("percent", 50.0), ("logit", 0.0)])
def test_raw_scores_are_told_on_the_scale_of_the_files(scale: str, middle: float) -> None:
    plain = logofair.fit(
        [0.9, 0.2], None, sensitive_features=["a", "b"], calibration="none", local_tolerance=None, global_tolerance=None
    ).policy
    bands = bands_of(replace(plain, info=PolicyInfo(columns=ColumnsInfo(scale=scale))), 0, 0)
    assert bands[1].low == 0.5
    assert bands[1].raw_low == pytest.approx(middle, abs=1e-12)


def test_a_policy_without_sites_has_rules_for_all(tmp_path: Path) -> None:
    policy = logofair.fit(
        [0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "a", "b", "b"], calibration="none"
    ).policy
    policy.save(tmp_path / "policy.json")
    page = words_of(tmp_path / "policy.json", "--verbose")
    assert "group rule a " in page
    assert "does not know" not in page
    assert "fitted without sites" in refused(tmp_path / "policy.json", "--only-site", "x")


def test_of_many_sites_the_range_and_the_most_unusual_are_shown_and_json_has_all(tmp_path: Path) -> None:
    made(calibration="none", notion="demographic_parity", sites=20).save(tmp_path / "policy.json")
    page = run(tmp_path / "policy.json")[1]
    assert "lowest to highest of 20" in page
    assert "--only-site NAME shows one site" in " ".join(page.split())
    assert len(page.splitlines()) <= 20
    rules = json.loads(run(tmp_path / "policy.json", "--json")[1])["rules"]
    assert len(rules) == 2 * 20 + 2

    assert sum(rule["unknown_sites"] for rule in rules) == 2
    verbose = run(tmp_path / "policy.json", "--verbose")[1]
    assert all(f"site {site:02d}" in verbose for site in range(20))


def test_of_many_sites_and_groups_the_table_keeps_to_the_screen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    groups, sites, scores = rng.integers(0, 6, 900), rng.integers(0, 12, 900), rng.random(900)
    columns = {"sensitive_features": groups, "sites": sites}
    logofair.fit(scores, None, **columns, calibration="none").policy.save(tmp_path / "policy.json")
    page = run(tmp_path / "policy.json")[1]
    assert max(map(len, page.partition("Next")[0].splitlines())) <= 80
    assert len(page.splitlines()) <= 20
    assert re.search(r"--verbose shows all, and \d more groups\.", " ".join(page.split()))


@pytest.mark.parametrize(
    ("bands", "words", "short"),
    [
        ([Band(0, 1, 1.0, 0, 1)], "accepted, whatever the score", "everybody"),
        ([Band(0, 1, 0.0, 0, 1)], "rejected, whatever the score", "nobody"),
        ([Band(0, 1, 0.25, 0, 1)], "a coin accepts 25 %, whatever the score", "25 % coin"),
        ([Band(0, 0.5, 0, 0, 0.4), Band(0.5, 1, 1, 0.4, 1)], "accepted from 0.4; rejected below 0.4", "0.4"),
        ([Band(0, 0.5, 1, 0, 0.4), Band(0.5, 1, 0, 0.4, 1)], "rejected from 0.4; accepted below 0.4", "below 0.4"),
        (
            [
                Band(0, 0.31001, 0, 0, 0.40001),
                Band(0.31001, 0.31002, 0.5, 0.40001, 0.40002),
                Band(0.31002, 1, 1, 0.40002, 1),
            ],
            "accepted from 0.40002; a coin accepts 50 % from 0.40001 to 0.40002; rejected below 0.40001",
            "0.40001–0.40002 coin",
        ),
        (
            [Band(0, 0.45, 0, 0, 0.45), Band(0.45, EDGE, 0.4, 0.45, EDGE), Band(EDGE, 1, 1, EDGE, 1)],
            "accepted above 0.45; a coin accepts 40 % at 0.45; rejected below 0.45",
            "0.45 coin",
        ),
        (
            [Band(0, 0.3, 0, 0, 0.3), Band(0.3, 0.4, 1e-9, 0.3, 0.4), Band(0.4, 1, 1, 0.4, 1)],
            "accepted from 0.4; a coin accepts fewer than 0.1 % from 0.3 to 0.4; rejected below 0.3",
            "0.4",
        ),
    ],
    ids=range(8),
)
def test_rules_in_words_are_in_the_scores_of_the_files(bands: list[Band], words: str, short: str) -> None:
    assert rule_in_words(bands) == words
    assert _accepted_from(bands) == short


def test_a_file_that_is_no_policy_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    assert "not a policy file, or cut short" in refused(tmp_path / "a.json")
    assert "cannot be read (No such file or directory)" in refused(tmp_path / "b.json")
