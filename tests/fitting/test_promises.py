"""``fit(..., confidence=)``: what is promised for new rows, how it is told, and that it holds in the population."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import beta, binom, kstest

import logofair
import support.sentences as asked
from logofair import records
from logofair.columns.segments import cell_numbers
from logofair.errors import InputError
from logofair.fitting.promises import CANNOT, CERTIFIED, NOT_REQUIRED, Promises
from logofair.fitting.ranks import Ranks, place_thresholds
from logofair.policy.mixtures import base_rule
from logofair.policy.policy import Policy


def table(seed=0, rows=4000, groups=2, sites=3):
    """Scores, labels and columns of a federation whose sites and groups differ."""
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, groups, rows), rng.integers(0, sites, rows)
    scores = rng.beta(1.0 + 0.5 * group, 1.5 + 0.3 * site)
    labels = (rng.random(rows) < scores).astype(int)
    return scores, labels, {"sensitive_features": np.array(list("FMXYZ"))[group], "sites": site}


def fit(rows, **options):
    scores, labels, columns = rows
    given = {"local_tolerance": 0.15, "global_tolerance": 0.1, "confidence": 0.95, **columns, **options}
    return asked.fit(scores, labels, **given)


# --- input


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, float("nan"), float("inf"), "0.95", True])
def test_a_confidence_outside_zero_and_one_is_refused_in_one_sentence(confidence):
    with pytest.raises(InputError, match=r"confidence: got .*above 0 and below 1"):
        fit(table(rows=50), confidence=confidence)


def test_a_promise_about_labels_needs_labels():
    scores, _, columns = table(rows=60)
    with pytest.raises(InputError, match=r"confidence: .* true positive rate .* needs labels"):
        fit((scores, None, columns), notion="equal_opportunity", calibration="none")


@pytest.mark.parametrize("rows", [2, 3, 5, 12, 30])
@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_few_rows_neither_crash_nor_promise_anything(rows, notion):
    scores, labels, columns = table(seed=rows, rows=rows, sites=2)
    columns["sensitive_features"][:2], labels[:2] = ["F", "M"], [0, 1]
    promises = fit((scores, labels, columns), notion=notion, local_tolerance=0.02, global_tolerance=0.02).promises
    certain = [p for p in promises.with_status(CERTIFIED) if p.bound is not None and p.bound > 0.02]
    assert certain == []
    assert promises.with_status(CANNOT)


# --- what is told


def test_without_confidence_nothing_is_promised():
    solution = fit(table(), confidence=None)
    assert {promise.status for promise in solution.promises} == {NOT_REQUIRED}
    assert [promise.side for promise in solution.promises] == ["local", "global"]
    assert "no confidence was asked for" in solution.promises.summary()
    assert solution.policy.info.promises is None
    assert solution.promises.price is None


def test_with_nothing_required_nothing_is_promised():
    solution = fit(table(), local_tolerance=None, global_tolerance=None)
    assert {promise.status for promise in solution.promises} == {NOT_REQUIRED}


def test_there_is_a_promise_for_every_requirement_and_site():
    promises = fit(table(), site_tolerances={1: None}).promises
    assert [(p.side, p.site) for p in promises] == [("local", 0), ("local", 1), ("local", 2), ("global", None)]
    assert [p.status for p in promises] == [CERTIFIED, NOT_REQUIRED, CERTIFIED, CERTIFIED]
    assert all(p.bound <= p.tolerance for p in promises.with_status(CERTIFIED))
    assert promises.largest_local_bound >= max(p.bound for p in promises if p.side == "local" and p.bound)
    assert promises[0].rows_needed < promises[0].rows


def test_a_site_with_few_rows_is_told_how_many_it_needs():
    scores, labels, columns = table(rows=6000)
    few = np.flatnonzero((columns["sites"] == 2) & (columns["sensitive_features"] == "F"))[12:]
    keep = np.setdiff1d(np.arange(scores.size), few)
    rows = scores[keep], labels[keep], {name: column[keep] for name, column in columns.items()}
    solution = fit(rows, local_tolerance=0.1)
    promise = solution.promises[2]
    assert (promise.status, promise.group, promise.rows) == (CANNOT, "F", 12)
    assert str(promise).startswith("cannot certify: site 2 has 12 rows of group 'F'; ")
    assert f"{promise.rows_needed:,} would be needed for 0.10 (by rank, 4 promises together)" in str(promise)
    assert promise.rows_needed > 100


def test_a_site_without_rows_of_a_group_cannot_be_certified():
    scores, labels, columns = table(rows=3000)
    keep = (columns["sites"] != 2) | (columns["sensitive_features"] != "F")
    rows = scores[keep], labels[keep], {name: column[keep] for name, column in columns.items()}
    for notion in ("demographic_parity", "equalized_odds"):
        promise = fit(rows, notion=notion).promises[2]
        assert (promise.status, promise.rows, promise.bound) == (CANNOT, 0, None)
        assert "site 2 has no rows of group 'F'" in str(promise)


def test_no_rows_certify_a_tolerance_of_zero():
    promise = fit(table(), local_tolerance=0).promises[0]
    assert promise.rows_needed is None
    assert "no number of rows" in str(promise)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "by rank"),
        ({"notion": "predictive_equality"}, "by rank"),
        ({"notion": "equalized_odds"}, "several rates"),
        ({"notion": {"local": "demographic_parity", "global": "equal_opportunity"}}, "several rates"),
        ({"sample_weight": np.ones(4000)}, "the rows are weighted, so there is no promise by rank"),
        ({"notion": logofair.Notion("benefit", given=(logofair.Rate("benefit", -1, 2, base=(1, 0)),))}, "no share"),
    ],
)
def test_the_way_is_chosen_by_what_is_required_and_is_said(options, words):
    promises = fit(table(), **options).promises
    assert words in f"{promises.method}: {promises.why}"
    assert f"Made {promises.method}: {promises.why}." in promises.summary()


def test_on_rows_held_out_the_correction_and_the_power_are_told():
    promises = fit(table(rows=1500), notion="equalized_odds").promises
    assert len(promises) == 8
    assert "(Holm's correction, 8 promises together, power 0.8)" in str(promises.with_status(CANNOT)[0])
    assert "with label 1" in str(promises.with_status(CANNOT)[0])


def test_a_gap_that_is_no_share_of_rows_is_not_certified():
    benefit = logofair.Notion("benefit", given=(logofair.Rate("benefit", -1, 2, base=(1, 0)),))
    promises = fit(table(), notion=benefit).promises
    assert {p.status for p in promises} == {CANNOT}
    assert "the benefit is no share of rows" in str(promises[0])


def test_promises_are_plain_values_and_stay_with_the_policy(tmp_path):
    solution = fit(table(), site_tolerances={0: None})
    plain = json.loads(json.dumps(solution.as_dict()["promises"], allow_nan=False))
    assert [each["status"] for each in plain["promises"]] == [p.status for p in solution.promises]
    assert plain["price"] == solution.promises.price
    solution.policy.save(tmp_path / "policy.json")
    stored = Policy.load(tmp_path / "policy.json").info.promises
    assert stored == solution.policy.info.promises
    assert [each.sentence for each in stored.promises] == list(map(str, solution.promises))
    assert stored.confidence == 0.95


def test_the_certificate_is_of_the_stored_rules_and_its_bound_that_of_all_rules():
    rows = table()
    solution, without = fit(rows, pooling="none"), fit(rows, pooling="none", confidence=None)
    assert solution.certificate.dual == pytest.approx(without.certificate.dual, abs=1e-6)
    assert solution.promises.price == pytest.approx(without.certificate.primal - solution.certificate.primal, abs=1e-6)
    scores, _, columns = rows
    chance = solution.policy.probabilities(scores, **columns)
    assert chance == pytest.approx(solution.policy.chances(solution.rows.calibrated, solution.rows.cells))
    accuracy = np.mean(solution.rows.eta * chance + (1 - solution.rows.eta) * (1 - chance))
    assert solution.certificate.primal == pytest.approx(accuracy)


@pytest.mark.parametrize(
    "options",
    [
        {"basis": "labels"},
        {"calibration": "isotonic"},
        {"calibration": "platt", "notion": "predictive_equality"},
        {"solver": "algorithm1"},
        {"notion": "equalized_odds", "calibration": "isotonic", "basis": "labels", "local_tolerance": 0.4},
        {"sites": None},
    ],
)
def test_every_way_of_fitting_can_be_certified_and_measures_what_it_stores(options):
    scores, labels, columns = table(rows=3000)
    columns |= {"sites": options.get("sites", columns["sites"])}
    solution = fit((scores, labels, columns), **options)
    chance = solution.policy.probabilities(scores, **columns)
    value = solution.rows.labels if solution.certificate.basis == "labels" else solution.rows.eta
    assert solution.certificate.primal == pytest.approx(np.mean(value * chance + (1 - value) * (1 - chance)))
    assert solution.promises.with_status(CERTIFIED)


def test_the_verdict_of_a_fit_is_what_is_certified():
    assert fit(table(), local_tolerance=0.001, global_tolerance=None).outcomes.verdict == "unclear"
    assert fit(table()).outcomes.verdict == "met"
    assert fit(table(), confidence=None).outcomes.verdict == "not measured"


def test_promises_are_a_table_with_the_rows_that_are_needed():
    promises = fit(table(), site_tolerances={1: None}, global_tolerance=0.001).promises
    head, *lines = promises.table()
    assert head == ["gap of the selection rate", "", "tolerance", "bound", "rows", "needed"]
    assert lines[1] == ["site 1", "not asked", "", "", "", ""]
    refused = promises.with_status(CANNOT)[0]
    assert refused.bound is None  # site 1, of which nothing is required, keeps the rule of all rows
    figures = ["0.001", "", f"{refused.rows:,}", f"{refused.rows_needed:,}"]
    assert lines[3] == ["over all sites", "cannot certify", *figures]
    assert lines[0][-1] == ""  # certified: nothing is needed
    assert fit(table(), confidence=None).promises.table() == []
    both = fit(table(), notion="equalized_odds").promises.table()
    assert both[1][0] == "true positive rate, site 0"


def test_many_promises_are_counted_and_the_worst_are_named():
    scores, labels, columns = table(rows=3000, sites=60)
    gone = (columns["sites"] == 7) & (columns["sensitive_features"] == "F")
    rows = scores[~gone], labels[~gone], {name: column[~gone] for name, column in columns.items()}
    promises = fit(rows, site_tolerances={3: None}).promises
    head, local, over_all = promises.table()
    counts = promises.as_dict()["counts"]
    assert head[1:4] == ["certified", "cannot", "not asked"]
    by_column = [[int(line[place].replace(",", "")) for line in (local, over_all)] for place in (1, 2, 3)]
    assert [sum(column) for column in by_column] == list(counts.values())
    refused = promises.with_status(CANNOT)
    assert len(refused) > 50
    needed = float(np.median([p.rows_needed for p in refused if p.side == "local" and p.rows_needed is not None]))
    assert local[5] == f"{round(needed):,}"
    said = promises.summary()
    assert "site 7 has no rows of group 'F'" in said
    assert len(said.splitlines()) < 14


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": "auto", "calibration": "beta"},
        {"notion": "equalized_odds"},
        {"capacity": ("exactly", 0.3)},
    ],
    ids=str,
)
def test_where_nothing_is_certified_the_policy_is_that_of_a_fit_without_confidence(options):
    rows, options = table(), {"local_tolerance": 0.01, "global_tolerance": 0.01, "random_state": 5} | options
    solution, plain = fit(rows, **options), fit(rows, confidence=None, **options)
    promises = solution.promises
    assert not promises.with_status(CERTIFIED)
    assert promises.with_status(CANNOT)
    assert all(promise.bound is None for promise in promises)
    assert solution.certificate.as_dict() == plain.certificate.as_dict()
    assert records.plain(solution.policy.calibrator) == records.plain(plain.policy.calibrator)
    for each in fields(plain.policy.mixtures):
        found, expected = (getattr(policy.mixtures, each.name) for policy in (solution.policy, plain.policy))
        np.testing.assert_array_equal(found, expected)
    assert promises.price == 0.0


def test_what_is_certified_says_its_price_against_the_fit_without_confidence():
    solution = fit(table(), pooling="none", random_state=5)
    plain = fit(table(), pooling="none", random_state=5, confidence=None)
    price = plain.certificate.primal - solution.certificate.primal
    assert solution.promises.with_status(CERTIFIED)
    assert solution.promises.price == pytest.approx(price)
    assert "Nothing is certified" not in solution.promises.summary()


def test_stored_promises_say_the_same():
    solution = fit(table(), site_tolerances={0: None}, global_tolerance=0.001)
    stored = Promises.of(solution.policy.info.promises, solution.certificate.primal)
    assert stored.headline == solution.promises.headline
    assert [p.status for p in stored] == [p.status for p in solution.promises]
    assert [line[1:] for line in stored.table()] == [line[1:] for line in solution.promises.table()]
    assert [p.reason for p in stored.with_status(CANNOT)] == [p.reason for p in solution.promises.with_status(CANNOT)]
    assert stored.price == pytest.approx(solution.promises.price)


def test_small_cells_borrow_among_the_rows_that_choose_and_promises_rest_on_their_own():
    rows = table(rows=2000, sites=1)
    rows[2]["sites"] = np.random.default_rng(0).integers(0, 40, 2000)  # all alike
    alone, lent = (
        fit(rows, pooling=pooling, local_tolerance=None, global_tolerance=0.2) for pooling in ("none", "full")
    )
    assert lent.promises[-1].status == alone.promises[-1].status == CERTIFIED
    assert lent.certificate.pooling == "none"
    assert lent.pooling.prior == "group"
    assert lent.policy.info.pooling.prior == "group"
    assert lent.certificate.primal > alone.certificate.primal  # targets chosen on 7 rows of a cell are noise


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_where_nothing_can_be_said_of_new_rows_the_rules_are_those_of_all_rows(notion):
    rows = table(rows=2000, sites=100)
    options = {"notion": notion, "local_tolerance": 0.02, "global_tolerance": None, "random_state": 0}
    solution, without = fit(rows, **options), fit(rows, confidence=None, **options)
    assert {p.status for p in solution.promises if p.side == "local"} == {CANNOT}
    assert "so the policy is that of a fit without confidence" in solution.promises.price_sentence()
    assert solution.promises.price == 0.0
    assert solution.certificate.primal == without.certificate.primal
    assert solution.pooling == without.pooling
    scores, _, columns = rows
    np.testing.assert_array_equal(
        solution.policy.probabilities(scores, **columns), without.policy.probabilities(scores, **columns)
    )


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_sites_of_which_nothing_can_be_said_keep_the_rules_of_all_rows_and_the_others_their_promises(notion):
    small, large = (
        table(rows=400, sites=20, seed=1),
        table(rows=12_000, sites=1, seed=3),
    )  # on rows held out, 4 of 5 seeds
    scores, labels = (np.concatenate([a, b]) for a, b in zip(small[:2], large[:2], strict=True))
    names = np.append(small[2]["sites"], large[2]["sites"] + 20)
    columns = {
        "sensitive_features": np.append(small[2]["sensitive_features"], large[2]["sensitive_features"]),
        "sites": names,
    }
    solution = fit((scores, labels, columns), notion=notion, local_tolerance=0.18, global_tolerance=None)
    by_site = {site: [p for p in solution.promises if p.site == site] for site in range(21)}
    assert all(p.status == CERTIFIED for p in by_site[20])
    assert all(p.bound is None and p.status == CANNOT for site in range(20) for p in by_site[site])
    assert solution.promises.largest_local_bound is None
    assert abs(solution.promises.price) < 0.01


def test_the_same_random_state_makes_the_same_promises():
    first, second, other = (fit(table(), random_state=state).promises.as_dict() for state in (1, 1, 2))
    assert first == second
    assert first != other


def test_of_two_tolerances_for_one_rate_the_smaller_is_certified():
    again = logofair.Notion("again", given=(None,))
    few = fit(table(), notion={"demographic_parity": 0.15, again: 0.01}).promises
    assert {p.status for p in few if p.tolerance == 0.01} == {CANNOT}
    promises = fit(table(), notion={"demographic_parity": 0.15, again: 0.12}).promises
    assert {p.status for p in promises if p.tolerance == 0.12} == {CERTIFIED}
    assert promises.largest_local_bound < 0.12


# --- rules by rank


def ranks_of(rank, rows):
    rank, rows = np.array([rank]), np.array([rows])
    return Ranks(rank, rows, rows, np.full(2, np.inf))


def test_a_threshold_accepts_as_many_rows_as_its_rank_says():
    rng = np.random.default_rng(0)
    rows, rank = np.array([7, 5, 6, 0]), np.array([3, 0, 7, 1])
    cells = np.repeat(np.arange(4), rows)
    scores = rng.random(cells.size)
    rules = place_thresholds(ranks_of(rank, rows), scores, cells, base_rule(4), rng)
    accepted = np.bincount(cells, (rules.weight[cells, 0] > 0) & (scores >= rules.threshold[cells, 0]), minlength=4)
    assert accepted.tolist() == [3, 0, 6, 0]
    assert not rules.mixed.any()
    assert (rules.threshold[3, 0], rules.single[3]) == (0.5, 0.5)  # a cell without rows keeps its rule
    assert rules.single[1] == np.inf


def test_with_ties_the_coin_keeps_the_law_exact():
    # Three scores only: most thresholds fall among tied rows. The last leaves nothing to score above.
    rng = np.random.default_rng(3)
    levels, chances = np.array([0.2, 0.5, 1.0]), np.array([0.3, 0.4, 0.3])
    n, rank, runs = 20, 7, 1500
    shares = []
    for _ in range(runs):
        scores = rng.choice(levels, n, p=chances)
        rules = place_thresholds(ranks_of([rank], [n]), scores, np.zeros(n, dtype=np.int64), base_rule(1), rng)
        accepted = (rules.weight[0, :, None] * (levels >= rules.threshold[0, :, None])).sum(axis=0)
        shares.append(accepted @ chances)
    assert kstest(shares, beta(rank, n + 1 - rank).cdf).pvalue > 0.01


def test_a_cell_whose_few_rows_differ_by_chance_tosses_the_coin_too():
    # Five rows of twenty scores: in most cells no two are the same, yet new rows will have the threshold's score.
    rng = np.random.default_rng(4)
    n, rank, cells = 5, 2, 3000
    levels = np.arange(1, 21) / 20.0
    scores, cell = rng.choice(levels, n * cells), np.repeat(np.arange(cells), n)
    rules = place_thresholds(ranks_of([rank] * cells, [n] * cells), scores, cell, base_rule(cells), rng)
    accepted = (rules.weight[..., None] * (levels >= rules.threshold[..., None])).sum(axis=1)
    assert kstest(accepted.mean(axis=1), beta(rank, n + 1 - rank).cdf).pvalue > 0.01


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_the_global_bound_holds_whatever_cells_do_that_no_row_was_left_for(rate):
    # 100 sites with one row of the second group, which chose the targets at 30 of them: these keep another rule.
    rng = np.random.default_rng(5)
    rows = np.column_stack([np.full(100, 20), np.arange(100) >= 30])
    ranks = Ranks(np.minimum(rows, 10), rows, np.tile([28, 1], (100, 1)), np.append(np.full(100, np.inf), 0.2))
    _, bound = ranks.bounds(0.05)
    first = rng.beta(10, 11, (4000, 100)).mean(axis=1)
    second = np.concatenate([rng.random((4000, 70)), np.full((4000, 30), rate)], axis=1).mean(axis=1)
    gaps = np.abs(first - second)
    assert np.mean(gaps <= bound) >= 0.95
    assert ranks.risks[-1] >= np.mean(gaps > 0.2) - 0.02
    none = Ranks(ranks.ranks, ranks.rows, ranks.counts, np.append(np.full(100, np.inf), 0.1))
    assert none.risks[-1] == 1.0


def test_rows_that_choose_the_targets_place_no_threshold():
    scores, labels, columns = table()
    solution = fit((scores, labels, columns))
    codes = solution.rows.groups.codes, solution.rows.sites.codes
    cells = cell_numbers(*codes, 2)
    limits = solution.policy.mixtures.threshold[:, 0]
    assert all(np.isin(limits[c], solution.rows.calibrated[cells == c]) for c in range(6))


# --- promises hold in the population


SHIFT = 0.6 * np.array([[-0.8, -0.4], [0.3, 0.4], [-0.2, 0.5], [0.6, 0.1]])


def population(solution, levels, given):
    """True rates by (site, group), of scores that are a logistic function of a shifted normal, and their labels."""
    nodes = np.linspace(-5, 5, 2001)
    mass = np.exp(-0.5 * nodes**2)
    score = 1 / (1 + np.exp(-(SHIFT[..., None] + nodes)))
    score = np.ceil(score * levels) / levels if levels else score
    site, group, _ = np.indices(score.shape)
    chance = solution.policy.probabilities(score.ravel(), sensitive_features=group.ravel(), sites=site.ravel())
    counted = mass * (1 if given is None else score)
    return (counted * chance.reshape(score.shape)).sum(-1) / np.broadcast_to(counted, score.shape).sum(-1)


@pytest.mark.parametrize(
    ("notion", "given", "levels", "rows", "tolerances"),
    [
        ("demographic_parity", None, 0, 1600, (0.16, 0.08)),
        pytest.param("demographic_parity", None, 8, 1600, (0.16, 0.08), marks=pytest.mark.slow),
        pytest.param("equal_opportunity", 1, 0, 2400, (0.2, 0.1), marks=pytest.mark.slow),
    ],
)
def test_certified_promises_hold_in_the_population(notion, given, levels, rows, tolerances):
    runs, broken, made, covered, largest = 24, 0, 0, 0, 0
    for run in range(runs):
        rng = np.random.default_rng([run, levels, rows])
        site, group = rng.integers(0, 4, rows), rng.integers(0, 2, rows)
        score = 1 / (1 + np.exp(-(SHIFT[site, group] + rng.normal(size=rows))))
        score = np.ceil(score * levels) / levels if levels else score
        label = rng.random(rows) < score
        options = {"local_tolerance": tolerances[0], "global_tolerance": tolerances[1]}
        solution = fit(
            (score, label, {"sensitive_features": group, "sites": site}), notion=notion, calibration="none", **options
        )
        rates = population(solution, levels, given)
        true = [*np.ptp(rates, axis=1), np.ptp(rates.mean(axis=0))] if given is None else None
        true = [*np.ptp(rates, axis=1)] if true is None else true
        promises = solution.promises[: len(true)]
        broken += any(p.status == CERTIFIED and gap > p.tolerance for p, gap in zip(promises, true, strict=True))
        made += sum(p.status == CERTIFIED for p in promises)
        covered += sum(gap <= p.bound for p, gap in zip(promises, true, strict=True))
        largest += max(true[:4]) <= solution.promises.largest_local_bound
    assert broken <= binom.ppf(0.999, runs, 0.05)
    assert covered >= binom.ppf(0.001, runs * len(true), 0.95)
    assert largest >= binom.ppf(0.001, runs, 0.95)
    assert made >= runs  # and they are not empty words


# --- more than gaps


def broken_promises(solution) -> int:
    """How many certified promises do not hold in the population that :func:`population` knows."""
    rates = {"selection rate": population(solution, 0, None), "true positive rate": population(solution, 0, 1)}
    rates["share selected"] = rates["selection rate"].mean(axis=1, keepdims=True)
    broken = 0
    for promise in solution.promises.with_status(CERTIFIED):
        each = rates[promise.rate].mean(axis=0) if promise.site is None else rates[promise.rate][promise.site]
        each = each if promise.of_group is None else each[promise.of_group : promise.of_group + 1]
        value, below = promise.tolerance, {"ratio": each.min() / each.max(), "floor": each.min()}
        kept = below[promise.kind] >= value if promise.kind in below else each.max() <= value
        broken += not kept
    return broken


@pytest.mark.parametrize(
    "required",
    [
        {"local_tolerance": ("ratio", 0.75), "ceilings": {"demographic_parity": 0.75}},
        {"floors": {"equal_opportunity": 0.5}, "capacity": {"global": 0.55, "local": 0.7}, "costs": (1, 2)},
        {"local_tolerance": ("ratio", 0.7), "floors": {"equal_opportunity": "today"}},
    ],
)
def test_certified_ratios_floors_and_capacities_hold_in_the_population(required):
    runs, broken, made = 12, 0, 0
    for run in range(runs):
        rng = np.random.default_rng([run, 16])
        site, group = rng.integers(0, 4, 4000), rng.integers(0, 2, 4000)
        score = 1 / (1 + np.exp(-(SHIFT[site, group] + rng.normal(size=4000))))
        rows = score, rng.random(4000) < score, {"sensitive_features": group, "sites": site}
        given = {"local_tolerance": None, "global_tolerance": None, "confidence": 0.8, **required}
        solution = fit(rows, calibration="none", random_state=run, **given)
        broken += broken_promises(solution) > 0
        made += len(solution.promises.with_status(CERTIFIED))
    assert broken <= binom.ppf(0.999, runs, 0.2)
    assert made >= 2 * runs  # and they are not empty words


def test_every_kind_of_requirement_has_its_words():
    floors = {"equal_opportunity": {"F": 0.5}}
    given = {"local_tolerance": ("ratio", 0.6), "global_tolerance": None, "floors": floors}
    promises = fit(table(rows=9000), capacity={"global": 0.6}, costs=(1, 2), **given).promises
    first, floor, capacity = (next(p for p in promises if p.kind == kind) for kind in ("ratio", "floor", "capacity"))
    assert str(first).startswith(
        "certified: the smallest selection rate of any group inside site 0 is at least 0.6 times the largest (bound"
    )
    assert str(floor).startswith("certified: the true positive rate of group 'F' inside site 0 is at least 0.5 (")
    assert (floor.group, floor.of_group) == ("F", "F")
    assert str(capacity).startswith("certified: the share selected over all sites is at most 0.6 (")
    assert capacity.rows == 9000
    assert "of 7 requirements" in promises.headline
    assert "to the expected cost per person on the calibration rows" in promises.price_sentence()
    assert promises.price > 0
    stored = Promises.of(promises.info, promises.accuracy)
    assert stored.accuracy_without == pytest.approx(promises.accuracy_without)
    assert [(p.kind, p.tolerance, p.of_group) for p in stored] == [(p.kind, p.tolerance, p.of_group) for p in promises]
    json.dumps(promises.as_dict(), allow_nan=False)


def test_what_cannot_be_promised_of_a_requirement_is_one_sentence():
    given = {"local_tolerance": ("ratio", 1.0), "global_tolerance": None}
    promises = fit(table(), capacity={"global": ("exactly", 0.4)}, **given).promises
    assert str(promises[0]) == (
        "cannot certify: no number of rows shows that the smallest selection rate of any group inside site 0 is at "
        "least 1 times the largest"
    )
    assert str(promises[-1]) == (
        "cannot certify: the share selected over all sites is met in expectation, so that no number of rows shows "
        "that it is 0.4"
    )


def test_where_the_rows_that_choose_know_no_rule_nothing_is_promised():
    given = {"local_tolerance": None, "global_tolerance": None, "floors": {"equal_opportunity": 0.8}}
    solution = fit(table(rows=300, sites=1), capacity=0.578, calibration="none", **given)
    assert solution.certificate.holds  # on all rows there is one
    cannot = solution.promises.with_status(CANNOT)
    assert [p.kind for p in cannot] == ["floor", "capacity"]
    assert "on the rows left to choose a rule none meets all requirements" in str(cannot[0])
