"""Pooling over messages is pooling in one process: the same choice, the same prior, the same rule."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from logofair.calibration import crossfit
from logofair.calibration.maps import log_odds
from logofair.columns.segments import RowOrder
from logofair.engines.inprocess import run, run_apart
from logofair.errors import InputError, RefusedError
from logofair.federation import ClientBatch, Privacy, Server, SiteColumns, make_plan
from logofair.federation.exchanges.pooling import PriorSums
from logofair.federation.messages import ReplyMessage
from logofair.federation.rows import _site_rng
from logofair.fitting import pooling
from logofair.fitting.pooling import Reference, ScoredRows
from logofair.records import decode
from support.examples import examples
from support.sites import Tampered, central, clients, go, gone_from, instead, plan_of, problems, said_of_run

pytestmark = pytest.mark.federation


def federation(shifts=(0.0, 0.1, -0.1, 0.0), rows=40, groups=2, seed=0, weighted=False, missing=None):
    """Sites whose log-odds are shifted, all groups alike or each by its own; ``missing`` (site, group) has no rows."""
    rng, sites = np.random.default_rng(seed), {}
    for i, shift in enumerate(shifts):
        group = np.repeat(np.arange(groups), rows + 7 * i)
        group = group if missing is None or missing[0] != i else group[group != missing[1]]
        odds = rng.normal(np.broadcast_to(shift, groups)[group] + 0.6 * group - 0.5, 1.2)
        label = (rng.random(odds.size) < expit(odds)).astype(int)
        weight = rng.choice([0.5, 1.0, 3.0], odds.size) if weighted else None
        sites["abcdefgh"[i]] = SiteColumns(group, expit(odds), label, weight)
    return sites


def folds_of(sites, plan, purpose):
    """The folds every site deals for itself, one after another."""
    dealt = []
    for site, columns in sites.items():
        order = RowOrder.of(columns.scores, columns.sensitive_features, len(plan.groups))
        fold = np.empty(len(columns.scores), dtype=np.int16)
        fold[order.rows] = crossfit.assign_folds(order, plan.folds, _site_rng(plan, site, purpose))
        dealt.append(fold)
    return np.concatenate(dealt)


def fitted(monkeypatch, sites, plan, options):
    """``logofair.fit`` on all rows, dealt into the folds that the sites deal."""
    of_calibration, of_pooling = (folds_of(sites, plan, purpose) for purpose in ("folds", "pooling folds"))
    more = {}
    if next(iter(sites.values())).sample_weight is not None:
        more["sample_weight"] = np.concatenate([columns.sample_weight for columns in sites.values()])
    with monkeypatch.context() as patch:
        patch.setattr(crossfit, "_draw_folds", lambda *_: lambda order: of_calibration[order.rows])
        patch.setattr(pooling, "assign_folds", lambda order, *_: of_pooling[order.rows])
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
    {"shifts": (1.0, -1.0, 0.5, 0.0), "rows": 100, "calibration": "beta"},
    {"shifts": ((0.9, -0.9), (-0.9, 0.9), (0.9, 0.0), (-0.9, 0.0)), "rows": 100},
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
    done = run_apart(plan, sites)
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
    assert done.result.totals.positives == pytest.approx(positives, rel=precision)
    assert max(done.policies[site].info.pooling.largest_share for site in sites) == pytest.approx(theirs.largest_share)
    assert sum(done.policies[site].info.pooling.cells for site in sites) == theirs.cells
    assert done.result.own_rows.accuracy == pytest.approx(best.own_accuracy, abs=20 * precision)
    same_rule(done, best, sites, plan)


def same_rule(done, best, sites, plan):
    """With demographic parity the optimum is one rule, but for coins; otherwise there may be several."""
    if any(len(item.rates) > 1 for item in plan.inside.required):
        return
    grid = np.linspace(0.01, 0.99, 99)
    for group in plan.groups:
        for site, columns in sites.items():
            if group in columns.sensitive_features:
                mine = done.policies[site].probabilities(grid, sensitive_features=[group] * 99)
                theirs = best.policy.probabilities(grid, sensitive_features=[group] * 99, sites=[site] * 99)
                assert np.mean(np.abs(mine - theirs) > 0.01) <= 0.02


# --- the sums


def scored(sites, which, groups=2):
    """The rows of some sites as pooling sees them, dealt into three folds by their place."""
    chosen = [sites[site] for site in which]
    client = np.repeat(np.arange(len(which)), [len(columns.scores) for columns in chosen])
    group, score, weight = (
        np.concatenate([getattr(columns, name) for columns in chosen])
        for name in ("sensitive_features", "scores", "sample_weight")
    )
    rows = ScoredRows(log_odds(score), client * groups + group, weight, groups, len(which))
    fold = np.concatenate([np.arange(len(columns.scores)) % 3 for columns in chosen])
    return replace(rows, fold=fold, folds=3)


def added(parts):
    """Sums of several sites, field by field."""
    if isinstance(parts[0], np.ndarray):
        return [np.sum(parts, axis=0)]
    return [np.sum([getattr(part, f.name) for part in parts], axis=0) for f in fields(parts[0])]


def test_every_step_of_pooling_is_a_sum_over_sites():
    sites = federation(((0.5, 0.0), (-0.5, 0.2), (0.1, -0.4)), rows=12, weighted=True, missing=(1, 0))
    whole, alone = scored(sites, "abc"), [scored(sites, site) for site in "abc"]

    def step(function, *known):
        together = function(whole, *known)
        for mine, theirs in zip(added([together]), added([function(rows, *known) for rows in alone]), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
        return together

    reference = Reference.of(step(pooling.score_moments), 3)
    between = pooling.shift_variance(step(pooling.shift_moments, reference), reference)
    priors = step(pooling.fold_histograms, reference, between)
    step(pooling.candidate_errors, reference, between, priors)
    rule = pooling.ShiftRule.of(reference, between)
    for kind in pooling.KINDS:
        step(pooling.prior_sums, pooling.Choice(kind, 30.0), rule)


def test_the_spread_of_shifts_is_dersimonian_and_lairds():
    rows = scored(federation((0.6, -0.6, 0.0, 0.3), rows=25, weighted=True), "abcd")
    reference = Reference.of(pooling.score_moments(rows), 4)
    between = pooling.shift_variance(pooling.shift_moments(rows, reference), reference)
    means, mass, counts = rows.means[-1], rows.mass[-1], rows.counts[-1]
    noise = reference.variance[-1] / counts
    own = (mass * (means - reference.centre[-1])).sum(axis=1) / mass.sum(axis=1)
    own_noise = (mass**2 * noise).sum(axis=1) / mass.sum(axis=1) ** 2
    rest = means - reference.centre[-1] - own[:, None]
    for found, effect, variance in zip(between[-1], [own, *rest.T], [own_noise, *noise.T], strict=True):
        w = 1 / variance
        q = sum(w * (effect - np.average(effect, weights=w)) ** 2)
        assert found == pytest.approx(max(0.0, (q - 3) / (sum(w) - sum(w**2) / sum(w))), rel=1e-9, abs=1e-15)
    assert between[-1, 0] > 0


# --- what goes wrong

AUTO = {"pooling": "auto", "optimality_gap": 1e-4, "trials": 0}


@cache
def when():
    """The number of the first exchange of the usual run that asks for each type of reply."""
    sites, plan = federation(rows=15), plan_of(**AUTO)
    probe, known = Tampered(clients(sites)), {}
    go(plan, probe)
    for reply in (decode(data, ReplyMessage) for site, data in probe.sent if site == "b"):
        known.setdefault(type(reply.body).__name__, reply.number)
    return known


@pytest.mark.parametrize(
    ("kind", "field", "change", "said"),
    [
        ("ScoreMoments", "mass", lambda a: -a, "impossible number of rows"),
        ("ScoreMoments", "rows", lambda a: 0 * a, "moments of scores that no rows can have"),
        ("ScoreMoments", "mass", lambda a: a + np.arange(6)[:, None], "folds that do not make up"),
        ("ScoreMoments", "odds", lambda a: a + 1e4, "moments of scores"),
        ("ScoreMoments", "squares", lambda a: -a - 1, "moments of scores"),
        ("ScoreMoments", "freedom", lambda a: a + 1e3, "moments of scores"),
        ("ScoreMoments", "counts", lambda a: a + 1e9, "moments of scores"),
        ("ScoreMoments", "small_cells", lambda a: a - 9, "moments of scores"),
        ("ScoreMoments", "histogram", lambda a: a + 1, "moments of scores"),
        ("ScoreMoments", "losses", lambda a: np.zeros((1, 5)), "of shape"),
        ("ScoreMoments", "odds", lambda a: a * np.nan, "no finite number"),
        ("ShiftMoments", "sums", lambda a: a + 3, "shifts that no rows"),
        ("ShiftMoments", "sums", lambda a: -a, "shifts that no rows"),
        ("FoldHistograms", "mass", lambda a: a - 1, "histograms that its rows"),
        ("FoldHistograms", "mass", lambda a: 1e3 * a, "histograms that its rows"),
        ("FoldHistograms", "mass", lambda a: a * np.arange(3)[:, None, None, None], "histograms that its rows"),
        ("CandidateErrors", "excess", lambda a: a + 3, "errors of held-out rates"),
        ("CandidateErrors", "products", lambda a: -1 - a, "errors of held-out rates"),
        ("PriorSums", "mass", lambda a: a + 10, "a prior that its rows"),
        ("PriorSums", "odds", lambda a: a + 1e3, "a prior that its rows"),
        ("PriorSums", "cells", lambda a: a + 9, "a prior that its rows"),
        ("FinalFigures", "own", lambda a: a + 1e3, "more on its own rows"),
    ],
)
def test_a_reply_that_no_rows_can_give_excludes_its_site(kind, field, change, said):
    sites, plan = federation(rows=15), plan_of(**AUTO)

    def act(reply):
        return replace(reply, body=replace(reply.body, **{field: change(getattr(reply.body, field))}))

    result, _ = go(plan, Tampered(clients(sites), instead("b", when()[kind], act)))
    assert result.sites == tuple("acd")
    assert said in result.excluded[0].reason


@pytest.mark.parametrize("options", [{}, {"pooling": "full", "notion": "equal_opportunity"}], ids=str)
def test_a_site_that_vanishes_before_the_totals_leaves_the_prior_of_the_others(options):
    sites, plan = federation(rows=20), plan_of(**{**AUTO, **options})
    fresh = run(plan, {site: rows for site, rows in sites.items() if site != "b"}).result
    before = fresh.exchanges.get("calibration", 0) + fresh.exchanges["pooling"]
    for number in range(1, before + 1, 3):
        result, _ = go(plan, Tampered(clients(sites), deaf=gone_from("b", number)))
        assert result.sites == tuple("acd")
        assert result.pooling == fresh.pooling
        assert result.accuracy == pytest.approx(fresh.accuracy, abs=2 * plan.optimality_gap)
        np.testing.assert_allclose(result.totals.priors.share, fresh.totals.priors.share, atol=1e-12)


def test_a_site_tells_each_histogram_once_and_nothing_where_the_plan_does_not_pool():
    sites, plan = federation(rows=15), plan_of(**AUTO)
    batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
    steps = []
    while server.phase.name == "pooling":
        steps.append(server.request)
        batch, sums = batch.answer(server.request)
        server = server.take(sums.total())
        for request in steps:
            with pytest.raises(RefusedError, match="another round"):
                batch.answer(request)
    assert len(steps) == 5
    for request in (*steps, server.request):
        with pytest.raises(RefusedError, match="another round"):
            ClientBatch.of(sites, plan_of()).answer(request)
    full = ClientBatch.of(sites, plan_of(pooling="full"))
    for request in steps[:-1]:
        with pytest.raises(RefusedError, match="another round"):
            full.answer(request)
    far = replace(steps[-1], rule=replace(steps[-1].rule, centre=np.full((1, 2), 100.0)))
    with pytest.raises(RefusedError, match="makes no sense"):
        full.answer(far)


# --- where there is nothing to borrow


def test_differential_privacy_and_pooling_exclude_each_other():
    private = {"groups": ["F", "M"], "calibration": "none", "privacy": Privacy(1, 1e-6)}
    with pytest.raises(InputError, match="pooling: 'full' cannot be combined with differential privacy"):
        make_plan(**private, pooling="full")
    assert make_plan(**private).pooling == "none"
    assert make_plan(groups=["F", "M"]).pooling == "auto"
    with pytest.raises(InputError, match=r"pooling: got 'ful' \(did you mean 'full'"):
        make_plan(groups=["F", "M"], pooling="ful")


def test_one_site_alone_and_large_cells_borrow_nothing(monkeypatch):
    one = {"a": federation()["a"]}
    for way in ("auto", "full"):
        result = run(plan_of(pooling=way, calibration="beta", quorum=1), one).result
        assert (result.pooling.prior, result.pooling.strength) == ("none", 200.0)
        assert result.exchanges["pooling"] == 1
    monkeypatch.setattr(pooling, "_ENOUGH_ROWS", 10)
    result = run(plan_of(pooling="auto", calibration="beta"), federation()).result
    assert (result.pooling.prior, result.pooling.strength, result.exchanges["pooling"]) == ("none", 200.0, 1)
    assert result.certificate.pooling == "none"


# --- what is said


def test_a_site_learns_what_its_own_cells_borrow_and_do():
    sites, plan = federation(rows=20), plan_of(pooling="full", calibration="beta")
    done = run_apart(plan, sites)
    info = done.policies["b"].info
    assert info.pooling.largest_share == 1.0
    assert info.pooling.cells == 2
    assert info.certificate.pooling == "group"
    accepted = done.policies["b"].probabilities(sites["b"].scores, sensitive_features=sites["b"].sensitive_features)
    for group in (0, 1):
        assert info.site_figures.accepted[str(group)] == pytest.approx(
            accepted[sites["b"].sensitive_features == group].mean()
        )
    said = said_of_run(done.result)
    assert "Pooling: 8 small groups are smoothed with the same group at the other sites" in said
    assert "On the sites' own rows alone" in said
    assert "and what small groups borrow" in said
    plain = done.result.as_dict()
    assert plain["pooling"]["prior"] == plain["certificate"]["pooling"] == "group"
    assert plain["own_rows"]["accuracy"] == done.result.own_rows.accuracy


def test_the_gaps_on_own_rows_are_those_of_the_rows():
    sites, plan = federation(rows=20), plan_of(pooling="full")
    done = run_apart(plan, sites)
    accepted = {
        site: done.policies[site].probabilities(c.scores, sensitive_features=c.sensitive_features)
        for site, c in sites.items()
    }
    rates = [
        np.mean(np.concatenate([accepted[site][sites[site].sensitive_features == group] for site in sites]))
        for group in (0, 1)
    ]
    assert list(done.result.own_rows.global_gaps.values()) == pytest.approx([abs(rates[0] - rates[1])], abs=1e-9)
    chance = np.concatenate([c.scores for c in sites.values()])
    taken = np.concatenate(list(accepted.values()))
    assert done.result.own_rows.accuracy == pytest.approx(
        np.mean(chance * taken + (1 - chance) * (1 - taken)), abs=1e-9
    )


def test_messages_of_pooling_do_not_grow_with_the_rows():
    plan = plan_of(pooling="auto", calibration="beta", notion="equalized_odds", trials=0, optimality_gap=1e-2)
    for rows in (10, 400):
        transport = Tampered(clients(federation(rows=rows)))
        _, steps = go(plan, transport)
        assert max(max(step.bytes_out, step.bytes_back) for step in steps) <= 33_000
        assert PriorSums in {type(decode(data, ReplyMessage).body) for _, data in transport.sent}


@examples(8)
@given(problems(), st.sampled_from(["none", "beta"]), st.sampled_from(["auto", "full"]))
def test_any_sites_can_pool_and_meet_what_is_required(problem, calibration, way):
    sites, n_groups, options = problem
    plan = plan_of(groups=list(range(n_groups)), quorum=1, calibration=calibration, pooling=way, **options)
    one, other = run(plan, sites).result, run_apart(plan, sites).result
    assert one.accuracy == other.accuracy
    assert other.certificate.meets_requirements
    assert not other.excluded
