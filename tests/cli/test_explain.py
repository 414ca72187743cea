"""``logofair explain``: the rules in words and as bands that decide as the policy does."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")


import logofair
from logofair.cli.pages.explain import Band, bands_of, in_words, raw_scores
from logofair.policy.info import ColumnsInfo, PolicyInfo

pytestmark = pytest.mark.tool

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
        groups=sex,
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
            want = policy.probabilities(scores, groups=[sex] * 500, sites=[name] * 500)
            for values, edge in ((calibrated, "low"), (scores, "raw_low")):
                edges = np.array([getattr(band, edge) for band in bands])
                place = np.searchsorted(edges, values, side="right") - 1
                got = np.array([band.chance for band in bands])[place]
                near = np.abs(values[:, None] - edges[1:]).min(1, initial=1.0) < 1e-9  # which side is rounding
                np.testing.assert_allclose(got[~near], want[~near], atol=1e-9)


def test_raw_scores_are_where_the_calibrated_score_is_reached(policy: logofair.Policy) -> None:
    wanted = np.linspace(0.1, 0.9, 33)
    groups, sites = np.zeros(33, dtype=np.int32), np.ones(33, dtype=np.int32)
    raw = raw_scores(policy, wanted, groups, sites)
    inside = (raw > 0) & (raw < 1)
    assert inside.sum() > 20
    assert np.all(policy.calibrator(raw, groups, sites)[inside] >= wanted[inside] - 1e-12)
    below = np.clip(raw - 1e-6, 0, 1)
    assert np.all(policy.calibrator(below, groups, sites)[inside] < wanted[inside] + 1e-12)
    assert np.all(np.diff(raw) >= 0)


@pytest.mark.parametrize(
    ("bands", "calibrated", "words"),
    [
        ([Band(0, 1, 1.0, 0, 1)], True, "accepted whatever the score"),
        ([Band(0, 1, 0.0, 0, 1)], True, "rejected whatever the score"),
        ([Band(0, 1, 0.25, 0, 1)], True, "25 % by a coin whatever the score"),
        ([Band(0, 0.5, 0, 0, 0.5), Band(0.5, 1, 1, 0.5, 1)], False, "accepted from a score of 0.5 up; rejected below"),
        (
            [Band(0, 0.3, 0.5, 0, 0.4), Band(0.3, 1, 0.9999, 0.4, 1)],
            True,
            "more than 99.9 % by a coin from a calibrated score of 0.3 (raw score about 0.4) up; 50 % by a coin below",
        ),
        (
            [Band(0, 0.31001, 0, 0, 0.4), Band(0.31001, 0.31002, 1e-9, 0.4, 0.5), Band(0.31002, 1, 1, 0.5, 1)],
            True,
            "accepted from a calibrated score of 0.31002 (raw score about 0.5) up; "
            "between 0.31001 (0.4) and 0.31002, fewer than 0.1 % by a coin; rejected below",
        ),
    ],
    ids=range(6),
)
def test_rules_in_words(bands: list[Band], calibrated: bool, words: str) -> None:
    assert in_words(bands, calibrated=calibrated) == words


def test_the_page_tells_the_promise_the_proof_and_every_rule(tmp_path: Path) -> None:
    made(local_tolerance=0.05, pooling="none").save(tmp_path / "policy.json")
    page = words_of(tmp_path / "policy.json")
    both = "the true positive rate and the false positive rate of any two groups differ by at most"
    assert f"Inside each site, {both} 0.05" in page
    assert f"Over all sites, {both} 0.02" in page
    assert (
        "On the 1,200 calibration rows, in calibrated chances, every requirement is met and expected accuracy" in page
    )
    assert "no rule of score, group and site that meets them exceeds" in page
    first = "Nothing is known of new rows: what is proved is about the 1,200 calibration rows alone; not yet tested on"
    assert page.startswith(f"{first} other rows. logofair audit FILE --policy POLICY measures it on other rows.")
    assert "% of the rows it was made from; 0 of 6 rules ignore the score." in page
    one = replace(made(), info=replace(made().info, coin_share=0.0, score_blind_rules=1))
    one.save(tmp_path / "one.json")
    assert "A coin decides" not in words_of(tmp_path / "one.json")
    assert "1 of 6 rules ignores the score." in words_of(tmp_path / "one.json")
    for site in range(3):
        assert f"At site {site:02d} Female: " in page
    assert "Elsewhere Female: " in page


def test_one_site_and_one_group_can_be_asked_for(tmp_path: Path) -> None:
    made().save(tmp_path / "policy.json")
    page = words_of(tmp_path / "policy.json", "--only-site", "site 01", "--only-group", "Male")
    assert page.startswith("At site 01 Male: ")
    assert "Female" not in page
    assert "site 02" not in page
    assert "--only-site: no 'site 1'" in refused(tmp_path / "policy.json", "--only-site", "site 1")
    assert "--only-group: no 'male' (did you mean 'Male'?)" in refused(tmp_path / "policy.json", "--only-group", "male")


def test_of_many_sites_the_first_are_shown_and_how_to_see_others(tmp_path: Path) -> None:
    made(calibration="none", notion="demographic_parity", sites=20).save(tmp_path / "policy.json")
    page = words_of(tmp_path / "policy.json")
    assert "At site 05 " in page
    assert "At site 06 " not in page
    assert "These are 6 of 20 sites; --only-site NAME shows another, --json all." in page
    rules = json.loads(run(tmp_path / "policy.json", "--json")[1])["rules"]
    assert len(rules) == 2 * 20 + 2
    assert sum(rule["unknown_sites"] for rule in rules) == 2


def test_json_holds_what_the_words_say(tmp_path: Path) -> None:
    policy = made()
    policy.save(tmp_path / "policy.json")
    found = json.loads(run(tmp_path / "policy.json", "--json", "--only-site", "site 02")[1])
    assert [rule["group"] for rule in found["rules"]] == ["Female", "Male"]
    for group, rule in enumerate(found["rules"]):
        bands = bands_of(policy, 2, group)
        assert rule["bands"] == [vars(band) for band in bands]
        assert rule["words"] == in_words(bands, calibrated=True)
    assert found["info"]["requirements"]["local"][0]["tolerance"] == 0.02


@pytest.mark.parametrize(("scale", "middle"), [("percent", 50.0), ("logit", 0.0)])
def test_raw_scores_are_told_on_the_scale_of_the_files(scale: str, middle: float) -> None:
    plain = logofair.fit(
        [0.9, 0.2], None, groups=["a", "b"], calibration="none", local_tolerance=None, global_tolerance=None
    ).policy
    bands = bands_of(replace(plain, info=PolicyInfo(columns=ColumnsInfo(scale=scale))), 0, 0)
    assert bands[1].low == 0.5
    assert bands[1].raw_low == pytest.approx(middle, abs=1e-12)


def test_a_policy_without_sites_has_rules_for_all(tmp_path: Path) -> None:
    policy = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none").policy
    policy.save(tmp_path / "policy.json")
    page = words_of(tmp_path / "policy.json")
    assert "Rules a: " in page
    assert "Elsewhere" not in page
    assert "fitted without sites" in refused(tmp_path / "policy.json", "--only-site", "x")


def test_a_file_that_is_no_policy_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    assert "not a policy file, or cut short" in refused(tmp_path / "a.json")
    assert "cannot be read (No such file or directory)" in refused(tmp_path / "b.json")


def test_a_tested_policy_tells_what_its_test_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    score, sex, site = rng.random(3000), rng.choice(["F", "M"], 3000), rng.choice(["a", "b"], 3000)
    label, half = rng.random(3000) < score, slice(0, 1500)
    solution = logofair.fit(score[half], label[half], groups=sex[half], sites=site[half])
    other = slice(1500, 3000)
    tested = solution.test(score[other], label[other], groups=sex[other], sites=site[other])
    tested.policy.save(tmp_path / "policy.json")
    page, after = words_of(tmp_path / "policy.json"), tested.tested.second
    assert f"On 1,500 other rows. Accuracy {after.accuracy}. Global gap {after.headline_global.value}: " in page
    local = after.headline_local
    assert f"Local gap {local.value} at site {local.site!r}: {local.finding}." in page
    stored = json.loads(run(tmp_path / "policy.json", "--json")[1])["info"]["tested"]
    assert stored["accuracy"]["low"] == after.accuracy.low
