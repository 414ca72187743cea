"""Pooling over messages is pooling in one process: the same choice, the same prior, the same rule."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import expit

import logofair
from logofair.calibration import crossfit
from logofair.columns.segments import RowOrder
from logofair.engines.inprocess import run, run_apart
from logofair.errors import RunError
from logofair.federation import Privacy, SiteColumns, late_policy, make_plan
from logofair.federation.rows import _client_rng
from logofair.fitting import pooling
from logofair.fitting.pooling import Reference, ScoredRows
from support.sites import (
    Tampered,
    central,
    clients,
    go,
    gone_from,
    identities,
    instead,
    plan_of,
    policies_of,
    same_policy,
)

pytestmark = pytest.mark.federation


def federation(shifts=(0.0, 0.1, -0.1, 0.0), rows=40, groups=2, seed=0, weighted=False, missing=None):
    """Sites whose log-odds are shifted; ``missing`` (site, group) has no rows."""
    rng, sites = np.random.default_rng(seed), {}
    for i, shift in enumerate(shifts):
        group = np.repeat(np.arange(groups), rows + 7 * i)
        group = group if missing is None or missing[0] != i else group[group != missing[1]]
        odds = rng.normal(shift + 0.6 * group - 0.5, 1.2)
        label = (rng.random(odds.size) < expit(odds)).astype(int)
        weight = rng.choice([0.5, 1.0, 3.0], odds.size) if weighted else None
        sites["abcdefgh"[i]] = SiteColumns(group, expit(odds), label, weight)
    return sites


def folds_of(sites, plan, purpose):
    """The folds every site deals for itself, one after another."""
    dealt = []
    for site, columns in sites.items():
        order = RowOrder.of(columns.scores, columns.groups, len(plan.groups))
        fold = np.empty(len(columns.scores), dtype=np.int16)
        fold[order.rows] = crossfit.deal_folds(order, plan.folds, _client_rng(plan, site, purpose))
        dealt.append(fold)
    return np.concatenate(dealt)


def fitted(monkeypatch, sites, plan, options):
    """``logofair.fit`` on all rows, dealt into the folds that the sites deal."""
    of_calibration, of_pooling = (folds_of(sites, plan, purpose) for purpose in ("folds", "pooling folds"))
    more = {}
    if next(iter(sites.values())).sample_weight is not None:
        more["sample_weight"] = np.concatenate([columns.sample_weight for columns in sites.values()])
    with monkeypatch.context() as patch:
        patch.setattr(crossfit, "deal_folds", lambda order, *_: of_calibration[order.rows])
        patch.setattr(pooling, "deal_folds", lambda order, *_: of_pooling[order.rows])
        return central(sites, options, **more)


CASES = [
    {},
    {"pooling": "full"},
    {"notion": "equalized_odds", "pooling": "full", "calibration": "beta"},
    {"notion": "equalized_odds"},
    {"notion": "equalized_odds", "calibration": "beta"},
    {"calibration": "platt", "groups": [0, 1, 2]},
    {"calibration": "beta", "weighted": True},
    {"missing": (1, 0), "calibration": "temperature"},
    {"shifts": (1.0, -1.0, 0.5, 0.0), "rows": 100},
    {"shifts": (1.0, -1.0, 0.5, 0.0), "rows": 100, "calibration": "beta", "notion": "equalized_odds"},
    {"secure": True},
    {"secure": True, "calibration": "beta", "notion": "equalized_odds", "weighted": True},
]


def of_case(case, **more):
    """Sites, plan and the options of the plan."""
    kept = {"shifts", "rows", "weighted", "missing"}
    options = {"pooling": "auto", **{name: value for name, value in case.items() if name not in kept}, **more}
    how = {name: value for name, value in case.items() if name in kept}
    sites = federation(groups=len(options.get("groups", (0, 1))), **how)
    return sites, plan_of(optimality_gap=1e-7, trials=0, **options), options


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_federation_chooses_and_finds_what_one_process_does(monkeypatch, case):
    sites, plan, options = of_case(case)
    done = run_apart(plan, sites, identities(sites) if plan.secure else None)
    best = fitted(monkeypatch, sites, plan, options)
    ours, theirs = done.result.pooling, best.pooling
    assert (ours.prior, ours.kappa, ours.cells, ours.strength) == (
        theirs.prior, theirs.kappa, theirs.cells, theirs.strength,
    )  # fmt: skip
    assert ours.prior != "none"
    assert done.result.certificate.pooling == best.certificate.pooling == ours.prior
    assert done.result.certificate.holds
    # The calibrators of a federation stop a little earlier: no chance moves by more than 3e-5.
    precision = 1e-6 if plan.calibration == "none" else 1e-4
    assert done.result.accuracy == pytest.approx(best.certificate.primal, abs=precision)
    positives = best.problem.cells.positives.reshape(len(sites), -1).sum(axis=0)
    assert done.result.positives == pytest.approx(positives, rel=precision)
    assert max(done.policies[site].info.pooling.largest_share for site in sites) == pytest.approx(theirs.largest_share)
    assert sum(done.policies[site].info.pooling.cells for site in sites) == theirs.cells
    assert done.result.own_accuracy == pytest.approx(best.own_rows.accuracy, abs=20 * precision)
    same_rule(done, best, sites, plan)


def same_rule(done, best, sites, plan):
    """With demographic parity the optimum is one rule, but for coins; otherwise there may be several."""
    if "equalized_odds" in {r.notion for r in plan.local}:
        return
    grid = np.linspace(0.01, 0.99, 99)
    for group in plan.groups:
        for site, columns in sites.items():
            if group in columns.groups:
                mine = done.policies[site].probabilities(grid, groups=[group] * 99)
                theirs = best.policy.probabilities(grid, groups=[group] * 99, clients=[site] * 99)
                assert np.mean(np.abs(mine - theirs) > 0.01) <= 0.02
