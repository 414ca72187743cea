"""The oracle: the best weighted thresholds on the very rows, against enumeration and programs of thresholds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.errors import InputError
from logofair.notions import NOTIONS
from logofair_reproduction.bounds import oracle
from support.examples import examples
from support.oracles import Case

modest = examples(20)
seeds = st.integers(0, 10**9)


def federation(seed, rows=200, sites=2, decimals=3):
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, 2, rows), rng.integers(0, sites, rows)
    scores = np.round(rng.beta(1.0 + group, 1.5 + 0.3 * site), decimals)
    return scores, (rng.random(rows) < scores).astype(int), group, site


def as_case(scores, labels, groups, sites, notion, local, global_):
    rates, n_sites = NOTIONS[notion].rates, int(sites.max()) + 1
    bounds = np.full((n_sites, len(rates)), local), np.full(len(rates), global_)
    return Case(scores, groups, sites, 2, n_sites, rates, rates, *bounds, labels=labels.astype(float))


def tiny(seed):
    """Three rows with both labels in each of two groups at two sites."""
    rng = np.random.default_rng(seed)
    groups, sites = np.repeat([0, 1, 0, 1], 3), np.repeat([0, 0, 1, 1], 3)
    labels = np.concatenate([rng.permutation([0, 1, int(rng.integers(2))]) for _ in range(4)])
    return np.round(rng.random(12), 2), labels, groups, sites


def test_solved_by_hand():
    scores, labels, groups = [0.9, 0.6, 0.4, 0.2], [1, 0, 0, 0], ["F", "F", "M", "M"]
    free = oracle(scores, labels, sensitive_features=groups, local_tolerance=None, global_tolerance=None)
    assert free.accuracy == 1.0
    # Equal selection rates: accepting one in two of either group costs one row, accepting nobody costs one as well.
    fair = oracle(scores, labels, sensitive_features=groups, local_tolerance=0)
    assert fair.accuracy == pytest.approx(0.75, abs=1e-9)
    assert fair.bound == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_no_choice_of_a_threshold_for_every_cell_is_better(seed, notion):
    scores, labels, groups, sites = tiny(seed)
    local, global_ = 0.4, 0.2
    case = as_case(scores, labels, groups, sites, notion, local, global_)
    found = oracle(
        scores,
        labels,
        sensitive_features=groups,
        sites=sites,
        notion=notion,
        local_tolerance=local,
        global_tolerance=global_,
    )
    cells = [np.flatnonzero((sites == c) & (groups == g)) for c in (0, 1) for g in (0, 1)]
    best = 0.0
    for cuts in itertools.product(*([math.inf, *scores[cell]] for cell in cells)):
        chance = np.zeros(12)
        for cell, cut in zip(cells, cuts, strict=True):
            chance[cell] = scores[cell] >= cut
        if case.violation(chance) <= 1e-12:
            best = max(best, case.accuracy(chance))
    assert best > 0.4  # rejecting everybody is always among them
    assert found.accuracy >= best - 1e-9


@modest
@given(seeds, st.sampled_from(list(NOTIONS)))
def test_it_is_the_best_mixture_of_all_thresholds(seed, notion):
    scores, labels, groups, sites = federation(seed, rows=60, decimals=1)
    options = {"local_tolerance": 0.05, "global_tolerance": 0.02}
    found = oracle(scores, labels, sensitive_features=groups, sites=sites, notion=notion, **options)
    case = as_case(scores, labels, groups, sites, notion, 0.05, 0.02)
    assert found.accuracy == pytest.approx(case.best_thresholds(), abs=1e-6)
    assert found.accuracy - 1e-9 <= found.bound <= found.accuracy + 1e-6


@modest
@given(seeds, st.sampled_from(list(NOTIONS)), st.sampled_from(["none", "platt"]))
def test_it_is_never_below_a_fitted_policy_at_that_policys_own_gaps(seed, notion, calibration):
    scores, labels, groups, sites = federation(seed)
    columns = {"sensitive_features": groups, "sites": sites}
    fitted = logofair.fit(scores, labels, **columns, notion=notion, calibration=calibration)
    measured = logofair.audit(
        fitted.policy.probabilities(scores, **columns), labels, **columns, notion=notion, chances=True
    )
    tolerances = {"local_tolerance": measured.local.gap().value, "global_tolerance": measured.global_.gap().value}
    assert oracle(scores, labels, **columns, notion=notion, **tolerances).accuracy >= measured.accuracy - 1e-6


@modest
@given(seeds, st.sampled_from(list(NOTIONS)))
def test_its_audit_on_the_rows_agrees_with_its_own_figures(seed, notion):
    scores, labels, groups, sites = federation(seed)
    columns = {"sensitive_features": groups, "sites": sites}
    found = oracle(scores, labels, **columns, notion=notion, local_tolerance=0.05, global_tolerance=0.01)
    chance = found.solution.policy.probabilities(scores, **columns)
    measured = logofair.audit(chance, labels, **columns, notion=notion, chances=True)
    assert measured.local.gap().value <= 0.05 + 1e-9
    assert measured.global_.gap().value <= 0.01 + 1e-9
    assert found.audit.local.gap().value == pytest.approx(measured.local.gap().value, abs=1e-12)
    assert found.audit.global_gap == pytest.approx(measured.global_.gap().value, abs=1e-12)
    assert found.accuracy == pytest.approx(measured.accuracy, abs=1e-12)
    assert found.accuracy == pytest.approx(np.mean(np.where(labels == 1, chance, 1 - chance)), abs=1e-12)
    assert found.accuracy == pytest.approx(found.solution.certificate.primal, abs=1e-9)


def test_only_the_order_of_the_scores_matters():
    scores, labels, groups, sites = federation(7)
    columns = {"sensitive_features": groups, "sites": sites, "notion": "equalized_odds"}
    plain, bent = oracle(scores, labels, **columns), oracle(0.1 + scores**3 / 2, labels, **columns)
    assert plain.accuracy == pytest.approx(bent.accuracy, abs=1e-9)


def test_a_weight_of_two_is_the_row_twice():
    scores, labels, groups, sites = federation(8)
    twice = np.repeat(np.arange(200), np.where(np.arange(200) % 3 == 0, 2, 1))
    weighted = oracle(
        scores,
        labels,
        sensitive_features=groups,
        sites=sites,
        sample_weight=np.where(np.arange(200) % 3 == 0, 2.0, 1.0),
    )
    repeated = oracle(scores[twice], labels[twice], sensitive_features=groups[twice], sites=sites[twice])
    assert weighted.accuracy == pytest.approx(repeated.accuracy, abs=1e-9)


def test_order_of_rows_and_names_do_not_matter():
    scores, labels, groups, sites = federation(9, sites=3)
    order = np.random.default_rng(0).permutation(200)
    first = oracle(scores, labels, sensitive_features=groups, sites=sites)
    names = np.array(["west", "north", "east"])[sites], np.array(["M", "F"])[groups]
    second = oracle(scores[order], labels[order], sensitive_features=names[1][order], sites=names[0][order])
    assert first.accuracy == pytest.approx(second.accuracy, abs=1e-6)


def test_without_labels_there_is_no_oracle():
    with pytest.raises(InputError, match="labels: missing"):
        oracle([0.2, 0.8], None, sensitive_features=["F", "M"])
