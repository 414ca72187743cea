"""Pooling: what small cells borrow, and how much of it is chosen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

import logofair
from benchmarks.pooling import excess_losses
from logofair.calibration.maps import log_odds
from logofair.errors import InputError
from logofair.fitting import pooling as of_pooling
from logofair.fitting import solving
from logofair.fitting.pooling import Choice, Reference, ScoredRows, ShiftRule, borrow, choose, group_priors
from logofair.fitting.solving import FitSettings, checked_rows, prepare
from logofair.notions import NOTIONS
from logofair.records import plain
from support.oracles import Case, spelled_out

KINDS = ("group", "site", "cell")


def table(shifts, rows=40, groups=2, seed=0, weighted=False):
    """Scores, labels and columns of sites whose log-odds are shifted, by site or by cell."""
    rng = np.random.default_rng(seed)
    shifts = np.atleast_2d(np.asarray(shifts, float).T).T + np.zeros((len(shifts), groups))
    site, group = (np.repeat(index.ravel(), rows) for index in np.indices(shifts.shape))
    odds = rng.normal(shifts[site, group] + 0.6 * group - 0.5, 1.2)
    label = (rng.random(odds.size) < expit(odds)).astype(int)
    columns = {"sensitive_features": np.array(list("FMX"))[group], "sites": site}
    if weighted:
        columns["sample_weight"] = rng.choice([0.5, 1.0, 3.0], odds.size)
    return expit(odds), label, columns


def scored(scores, columns):
    rows = checked_rows(
        scores, None, columns["sensitive_features"], columns["sites"], columns.get("sample_weight"), "none", "eta"
    )
    return ScoredRows(log_odds(rows.scores), rows.cells, rows.weights, len(rows.groups.names), len(rows.sites.names))


def chosen(scores, columns, seed=0):
    return choose(scored(scores, columns), "auto", 5, np.random.default_rng(seed))


def shifts(rows, kind):
    """How far every cell is moved, (sites, groups)."""
    reference = Reference.of(of_pooling.score_moments(rows), rows.n_sites)
    between = of_pooling.shift_variance(of_pooling.shift_moments(rows, reference), reference)
    return ShiftRule.of(reference, between).shifts(rows, kind)[-1]


def borrowing(monkeypatch, kind, kappa):
    """Let every fit with pooling borrow in this way."""
    monkeypatch.setattr(solving, "choose", lambda *_: Choice(kind, kappa))


# --- invariants


@pytest.mark.parametrize("calibration", ["none", "beta"])
def test_a_choice_of_nothing_is_the_fit_without_pooling_bit_by_bit(monkeypatch, calibration):
    scores, labels, columns = table([0.0, 0.3, -0.3])
    monkeypatch.setitem(solving.STRENGTHS, "auto", solving.STRENGTHS["none"])
    alone = logofair.fit(scores, labels, **columns, calibration=calibration, pooling="none")
    for kind, kappa in (("none", 0.0), *((kind, 1e-3) for kind in KINDS)):  # less than a thousandth is nothing
        borrowing(monkeypatch, kind, kappa)
        solution = logofair.fit(scores, labels, **columns, calibration=calibration, pooling="auto")
        assert plain(solution.policy.mixtures) == plain(alone.policy.mixtures)
        assert solution.certificate.as_dict() == alone.certificate.as_dict()
        assert solution.pooling.prior == "none"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kappa", [10.0, None])
def test_the_mass_of_every_cell_stays(monkeypatch, kind, kappa, weighted):
    scores, labels, columns = table([0.0, 0.5, -0.5], groups=3, weighted=weighted)
    rows = checked_rows(
        scores, labels, columns["sensitive_features"], columns["sites"], columns.get("sample_weight"), "beta", "eta"
    )
    borrowing(monkeypatch, kind, kappa)
    alone, lent = (prepare(rows, FitSettings("beta", "eta", pooling, 0)) for pooling in ("none", "auto"))
    assert lent.pooling.cells == 9
    np.testing.assert_allclose(lent.cells.mass, alone.cells.mass, rtol=1e-12)
    np.testing.assert_array_equal(lent.cells.rows, alone.cells.rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kappa", [10.0, 200.0, None])
def test_without_shifts_the_distribution_of_a_group_stays(kappa, weighted):
    scores, _, columns = table([0.0, 0.5, -0.5, 1.0], weighted=weighted)
    keep = np.random.default_rng(1).random(scores.size) < np.linspace(0.1, 1.0, scores.size)  # cells of any size
    scores, columns = np.round(scores, 1)[keep], {name: column[keep] for name, column in columns.items()}
    weights = columns.get("sample_weight", np.ones(scores.size))
    rows = scored(scores, columns)
    found = borrow(rows, group_priors(rows, Choice("group", kappa)))
    own = found.own.ravel()[rows.cells] * weights
    for code, group in enumerate("FM"):
        here, lent = columns["sensitive_features"] == group, found.groups == code
        for level in np.unique(scores):
            near = np.abs(found.scores - np.clip(level, 1e-6, 1 - 1e-6)) < 1e-6
            before = weights[here & (scores == level)].sum()
            after = own[here & (scores == level)].sum() + found.weights[lent & near].sum()
            assert after == pytest.approx(before, rel=1e-9, abs=1e-9)


def test_equal_weights_of_any_size_are_no_weights():
    scores, labels, columns = table([0.0, 0.4, -0.2])
    plain = logofair.fit(scores, labels, **columns, pooling="auto")
    weighted = logofair.fit(scores, labels, **columns, pooling="full", sample_weight=np.full(scores.size, 1.0))
    full = logofair.fit(scores, labels, **columns, pooling="full")
    assert weighted.certificate.primal == pytest.approx(full.certificate.primal, abs=1e-9)
    assert plain.certificate.holds


@pytest.mark.parametrize("pooling", ["auto", "full"])
def test_permuting_rows_changes_nothing(pooling):
    scores, labels, columns = table([0.0, 0.4, -0.2])
    order = np.random.default_rng(5).permutation(scores.size)
    moved = {name: column[order] for name, column in columns.items()}
    one = logofair.fit(scores, labels, **columns, pooling=pooling)
    other = logofair.fit(scores[order], labels[order], **moved, pooling=pooling)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-12)
    np.testing.assert_allclose(one.policy.mixtures.threshold, other.policy.mixtures.threshold, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_other_names_of_sites_and_groups_change_nothing(monkeypatch, kind):
    scores, _, columns = table([0.0, 0.4, -0.2])
    borrowing(monkeypatch, kind, 30.0)
    renamed = {
        "sensitive_features": np.where(columns["sensitive_features"] == "F", "z", "a"),
        "sites": np.array(["r", "p", "q"])[columns["sites"]],
    }
    one, other = (
        logofair.fit(scores, None, **names, pooling="auto", calibration="none", notion="equalized_odds")
        for names in (columns, renamed)
    )
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-9)


# --- what is solved


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_that_of_a_linear_program_over_own_and_borrowed_rows(monkeypatch, notion, kind):
    scores, _, columns = table([0.0, 0.5], rows=9)
    borrowing(monkeypatch, kind, 10.0)
    options = {"notion": notion, "local_tolerance": 0.03, "global_tolerance": 0.01}
    solution = logofair.fit(scores, None, **columns, calibration="none", pooling="auto", **options)
    rows = scored(scores, columns)
    found = borrow(rows, group_priors(rows, Choice(kind, 10.0)))
    assert np.all(found.own == pytest.approx(9 / 19))
    case = spelled_out(scores, {**columns, **options})
    longer = replace(
        case,
        scores=np.concatenate([scores, found.scores]),
        groups=np.concatenate([case.groups, found.groups]),
        sites=np.concatenate([case.sites, found.sites]),
        weights=np.concatenate([np.full(scores.size, 9 / 19), found.weights]),
    )
    assert solution.certificate.primal == pytest.approx(longer.best_rows()[0], abs=1e-6)
    assert solution.certificate.holds
    assert solution.certificate.pooling == kind
    on_own_rows(solution, case, scores, columns)


def on_own_rows(solution, case: Case, scores, columns):
    """The figures on the sites' own rows, recounted row by row."""
    chance = solution.policy.probabilities(scores, **columns)
    gaps = case.gaps(chance)
    assert solution.own_accuracy == pytest.approx(case.accuracy(chance), abs=1e-9)
    for found, by_hand in (
        (
            max(each.after for each in solution.on_own_rows if each.site is not None),
            [g for g in gaps if g.site is not None],
        ),
        (max(each.after for each in solution.on_own_rows if each.site is None), [g for g in gaps if g.site is None]),
    ):
        assert found == pytest.approx(max(gap.value for gap in by_hand), abs=1e-9)


def test_full_gives_every_site_of_a_group_the_same_rule_for_one_common_tolerance():
    scores, labels, columns = table([0.0, 0.4, -0.2])
    solution = logofair.fit(scores, labels, **columns, pooling="full")
    grid = np.linspace(0.01, 0.99, 99)
    for group in "FM":
        chances = [
            solution.policy.probabilities(grid, sensitive_features=[group] * 99, sites=np.full(99, site))
            for site in range(3)
        ]
        differ = np.abs(np.diff(chances, axis=0)) > 1e-6
        assert differ.mean() < 0.03  # but for the score where a coin is tossed
    assert solution.pooling.kappa is None
    assert solution.pooling.largest_share == 1.0


# --- how the prior is chosen


def test_held_out_errors_are_those_of_plain_loops():
    scores, _, columns = table([0.0, 0.8], rows=12)
    rows = scored(scores, columns)
    fold = np.random.default_rng(0).permutation(np.arange(scores.size) % 3)
    rows = replace(rows, fold=fold, folds=3)
    reference = Reference.of(of_pooling.score_moments(rows), 2)
    between = of_pooling.shift_variance(of_pooling.shift_moments(rows, reference), reference)
    priors = of_pooling.fold_histograms(rows, reference, between)
    errors = of_pooling.held_out_errors(rows, reference, between, priors)
    bins = np.floor((rows.odds + 14) * 32)
    below = np.cumsum(np.bincount(bins.astype(int), minlength=896))
    cuts = sorted({int(np.searchsorted(below, below[-1] * k / 32)) for k in range(1, 32)})
    group, kappas = rows.cells % 2, [np.inf if each is None else each for each in of_pooling.KAPPAS]
    for cell in range(4):
        for j, kappa in enumerate(kappas):
            total = 0.0
            for i in np.flatnonzero(rows.cells == cell):
                known = fold != fold[i]
                own = known & (rows.cells == cell)
                share = 1.0 if kappa == 0 else own.sum() / (own.sum() + kappa)
                counts = np.bincount(rows.cells[known], minlength=4)
                gives = np.where(known & (group == cell % 2), (100.0 / (counts + 100.0))[rows.cells], 0.0)
                for cut in cuts:
                    prior = gives[bins <= cut].sum() / gives.sum()
                    expected = share * np.mean(bins[own] <= cut) + (1 - share) * prior
                    total += ((bins[i] <= cut) - expected) ** 2 - (bins[i] <= cut)
            assert errors[KINDS.index("group"), j, cell] == pytest.approx(total, abs=1e-9)


def test_sites_that_are_alike_borrow_nearly_everything():
    for seed in range(3):
        found = chosen(*table(np.zeros(20), rows=30, seed=seed)[::2])
        assert found.kind == "group"
        assert found.kappa is None or found.kappa >= 100  # at least three quarters of a cell of 30 rows


def test_sites_that_shift_all_their_groups_borrow_with_their_shift():
    for seed in range(3):
        shifts = np.random.default_rng(seed).normal(0.0, 1.0, 20)
        found = chosen(*table(shifts, rows=100, seed=seed)[::2])
        assert found.kind == "site"
        assert found.kappa is None or found.kappa >= 100


def test_sites_that_differ_in_every_respect_borrow_little():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores, _, columns = table(rng.normal(0.0, 1.0, (10, 2)), rows=400, seed=seed)
        shape = np.exp(rng.normal(0.0, 0.6, 10))[columns["sites"]]
        assert chosen(expit(shape * logit(scores)), columns).kappa <= 100


def test_large_cells_and_a_single_site_have_nothing_to_choose(monkeypatch):
    scores, labels, columns = table([0.0, 0.1], rows=60)
    monkeypatch.setattr(of_pooling, "_ENOUGH_ROWS", 60)
    assert logofair.fit(scores, labels, **columns, pooling="auto").pooling.prior == "none"
    for sites in (None, np.zeros(scores.size)):
        solution = logofair.fit(
            scores, labels, sensitive_features=columns["sensitive_features"], sites=sites, pooling="full"
        )
        assert solution.pooling.prior == "none"


def test_shifts_are_found_and_drawn_in_by_their_noise():
    truth = np.array([-1.0, 0.0, 1.0])
    many = shifts(scored(*table(truth, rows=4000)[::2]), "site")[:, 0]
    np.testing.assert_allclose(many - many.mean(), truth, atol=0.06)
    few = np.concatenate(
        [shifts(scored(*table(np.zeros(30), rows=5, seed=seed)[::2]), "site")[:, 0] for seed in range(5)]
    )
    raw_error = 1.2 / math.sqrt(10)
    assert few.std() < 0.4 * raw_error
    own = np.array([[0.5, -0.5], [-0.5, 0.5], [0.0, 0.0]])
    by_cell = shifts(scored(*table(own, rows=4000)[::2]), "cell")
    np.testing.assert_allclose(by_cell - by_cell.mean(axis=0), own, atol=0.08)


def test_the_calibrators_of_sites_that_are_alike_become_their_groups():
    scores, labels, columns = table(np.zeros(10), rows=200)
    solution = logofair.fit(scores, labels, **columns, pooling="auto")
    assert solution.pooling.strength >= 3200
    assert logofair.fit(scores, labels, **columns, pooling="none").pooling.strength == 1.0


def test_the_calibrators_of_sites_that_differ_keep_their_own():
    rng = np.random.default_rng(0)
    scores, _, columns = table(np.zeros(8), rows=400)
    added = rng.normal(0.0, 1.5, 8)[columns["sites"]]
    labels = (rng.random(scores.size) < expit(logit(scores) + added)).astype(int)
    assert logofair.fit(scores, labels, **columns, pooling="auto").pooling.strength <= 200


@pytest.mark.parametrize("method", ["beta", "platt", "temperature", "isotonic"])
def test_without_pooling_the_map_of_a_cell_is_that_of_its_own_rows(method):
    rng = np.random.default_rng(0)
    scores, _, columns = table(np.zeros(2), rows=150)
    added = np.where(columns["sites"] == columns["sites"][0], 1.5, -1.5)
    labels = (rng.random(scores.size) < expit(logit(scores) + added)).astype(int)
    site = columns["sites"] == columns["sites"][0]
    options = {"pooling": "none", "calibration": method}
    both = logofair.fit(scores, labels, **columns, **options).policy.calibrator
    alone = logofair.fit(
        scores[site], labels[site], sensitive_features=columns["sensitive_features"][site], **options
    ).policy.calibrator
    grid, group = np.linspace(0.05, 0.95, 19), np.zeros(19, dtype=np.int32)
    at = both(grid, group, np.full(19, int(columns["sites"][0] != min(columns["sites"])), dtype=np.int32))
    assert np.abs(at - alone(grid, group, group)).max() < (0.1 if method != "isotonic" else 0.2)
    if method != "temperature":  # which has one parameter, and no place for what differs here
        assert np.abs(at - both(grid, group, np.full(19, -1, dtype=np.int32))).mean() > 0.15  # the group's


@pytest.mark.parametrize("method", ["beta", "platt", "temperature", "isotonic"])
@pytest.mark.parametrize("few", [[1], [1, 1], [0, 0, 0], [0, 1]], ids=str)
def test_without_pooling_cells_of_few_rows_or_one_label_are_sure_of_nothing(method, few):
    scores, _, columns = table(np.zeros(3), rows=60)
    labels = (np.random.default_rng(1).random(scores.size) < scores).astype(int)
    small = np.flatnonzero(
        (columns["sites"] == columns["sites"][0]) & (columns["sensitive_features"] == columns["sensitive_features"][0])
    )
    keep = np.ones(scores.size, dtype=bool)
    keep[small[len(few) :]] = False
    labels[small[: len(few)]] = few
    solution = logofair.fit(
        scores[keep],
        labels[keep],
        **{name: column[keep] for name, column in columns.items()},
        pooling="none",
        calibration=method,
    )
    eta = solution.policy.calibrator(np.array([0.2, 0.8]), np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.int32))
    assert ((eta > 0.001) & (eta < 0.999)).all()
    assert solution.certificate.holds


@pytest.mark.parametrize("method", ["beta", "platt", "temperature", "isotonic"])
@pytest.mark.parametrize(("kind", "rows"), [("alike", 20), ("mixed", 20), ("apart", 150)])
def test_the_strength_that_is_chosen_is_no_worse_than_all_or_nothing(method, kind, rows):
    lost = excess_losses(kind, rows, method, 6)
    assert lost["auto"] <= min(lost["none"], lost["full"]) + 0.002
    if kind == "apart" and method in ("beta", "platt"):
        assert lost["none"] < 0.015  # with maps held to their group by 200 rows: 0.033


# --- what is refused, and what is stored


def test_unknown_pooling_is_refused_in_a_sentence():
    scores, labels, columns = table([0.0, 0.1], rows=5)
    with pytest.raises(InputError, match=r"pooling: got 'ful' \(did you mean 'full'"):
        logofair.fit(scores, labels, **columns, pooling="ful")
    with pytest.raises(InputError, match="'full' needs basis='eta'"):
        logofair.fit(scores, labels, **columns, pooling="full", basis="labels")
    assert logofair.fit(scores, labels, **columns, pooling="auto", basis="labels").pooling.prior == "none"


def test_a_stored_policy_knows_what_was_borrowed(tmp_path):
    scores, labels, columns = table(np.zeros(6), rows=20)
    solution = logofair.fit(scores, labels, **columns, pooling="auto")
    solution.policy.save(tmp_path / "policy.json")
    assert logofair.Policy.load(tmp_path / "policy.json").info.pooling == solution.pooling
    assert solution.as_dict()["own_rows"]["accuracy"] == solution.own_accuracy
