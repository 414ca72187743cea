"""What supports the requirements beyond the calibration rows: the first line of every page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import logofair
import support.sentences as asked
from logofair.fitting.evidence import evidence_of
from logofair.policy.info import FederationInfo, PolicyInfo
from logofair.policy.policy import Policy


def table(seed=0, n=3000, sites=3):
    rng = np.random.default_rng(seed)
    group, site = rng.choice(["F", "M"], n), rng.integers(0, sites, n)
    score = rng.beta(1 + (group == "M"), 2, n)
    return score, rng.random(n) < score, {"groups": group, "sites": np.array([f"s{c}" for c in site])}


def fit(rows, **options):
    scores, labels, columns = rows
    return asked.fit(scores, labels, **columns, **({"pooling": "none"} | options))


def measured(solution, rows):
    scores, labels, columns = rows
    return solution.test(scores, labels, **columns)


_WITH_BORROWED = "the 3,000 calibration rows and what small cells borrow"


@pytest.mark.parametrize("pooling", ["none", "full"])
def test_the_calibration_rows_alone_say_nothing_of_new_rows(pooling):
    evidence = fit(table(), pooling=pooling).evidence
    rows = {"none": "about the 3,000 calibration rows alone", "full": f"only about {_WITH_BORROWED}"}[pooling]
    assert evidence.state == "untested"
    assert str(evidence) == (f"Nothing is known of new rows: what is proved is {rows}; not yet tested on other rows.")


def test_a_tolerance_that_is_missed_on_the_calibration_rows_is_said():
    evidence = fit(table(), local_tolerance=0, global_tolerance=0, solver=logofair.Algorithm1(rounds=1)).evidence
    assert evidence.state == "missed"
    assert "on the 3,000 calibration rows a gap exceeds its tolerance by up to 0." in evidence.headline


def test_where_nothing_is_required_nothing_is_supported():
    solution = fit(table(), local_tolerance=None, global_tolerance=None)
    assert (solution.evidence.state, str(solution.evidence)) == ("nothing", "Nothing was required.")
    free = {"local_tolerance": None, "global_tolerance": None, "site_tolerances": {"s1": 0.1}}
    assert fit(table(), **free).evidence.state == "untested"


def test_a_test_tells_each_side_with_its_gap_interval_and_tolerance():
    solution = measured(fit(table(), local_tolerance=0.05, global_tolerance=0.02), table(seed=1))
    gap = solution.tested.second.headline_global.value
    said = str(solution.evidence)
    assert said.startswith("Tested on 3,000 other rows: ")
    assert f"Gap over all sites {gap}, tolerance 0.02; inside sites 0." in said
    assert said.endswith(", tolerance 0.05.")


def test_what_a_test_shows_decides_over_promises():
    tolerances = {"local_tolerance": 0.15, "global_tolerance": 0.1, "confidence": 0.95}
    certified = fit(table(n=6000), **tolerances)
    scores, labels, columns = table(seed=2, n=6000)
    distorted = np.where(columns["groups"] == "M", scores**4, scores**0.25)  # nothing like the calibration rows
    found = measured(certified, (distorted, labels, columns)).evidence
    assert certified.evidence.state == "met"
    assert found.state == "missed"
    words = "Certified for new rows: all 4 required gaps together, with 95% confidence, by rank"
    assert found.headline.startswith(f"{words}, for 0.00")
    assert found.headline.endswith(" of expected accuracy. Tested on 6,000 other rows: above tolerance beyond chance")


@pytest.mark.parametrize("options", [{}, {"confidence": 0.9}], ids=["test alone", "promises too"])
def test_a_stored_policy_says_the_same(options, tmp_path):
    solution = measured(fit(table(), local_tolerance=0.1, **options), table(seed=1))
    solution.policy.save(tmp_path / "policy.json")
    assert evidence_of(Policy.load(tmp_path / "policy.json").info) == solution.evidence


def test_without_a_certificate_nothing_is_said_to_be_proved():
    info = fit(table()).policy.info
    assert str(evidence_of(replace(info, certificate=None))) == (
        "Nothing is known of new rows; not yet tested on other rows."
    )
    run = FederationInfo("run", 2, "", (), (), {}, 1, {}, {}, {}, secure_sums=False)
    assert "about the rows of the 2 sites alone" in str(evidence_of(replace(info, federation=run)))
    assert evidence_of(PolicyInfo()).state == "nothing"


def test_a_test_stored_before_findings_were_is_no_more_than_mentioned(tmp_path):
    solution = measured(fit(table()), table(seed=1))
    older = replace(solution.policy.info, tested=replace(solution.policy.info.tested, findings=None))
    replace(solution.policy, info=older).save(tmp_path / "policy.json")
    evidence = evidence_of(Policy.load(tmp_path / "policy.json").info)
    assert (evidence.state, str(evidence)) == ("unclear", "Tested on 3,000 other rows.")


def test_rows_on_which_nothing_can_be_measured_are_no_evidence():
    scores, labels, columns = table(n=600)
    columns["sites"] = np.where(columns["groups"] == "F", "s0", "s1")  # nobody to compare with at either
    rows = scores, labels, columns
    fewer = scores[1:], labels[1:], {name: column[1:] for name, column in columns.items()}
    evidence = measured(fit(rows, local_tolerance=0.02), fewer).evidence
    assert evidence.state == "unclear"
    assert evidence.headline == "Tested on 599 other rows: nothing that was required can be measured there"
