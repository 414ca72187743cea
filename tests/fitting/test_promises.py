"""``fit(..., confidence=)``: what is certified for new rows, at which price, and that it holds in the population."""

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
from logofair.fitting.ranks import Ranks, place_thresholds
from logofair.outcomes import MET, NEW_ROWS, UNCLEAR
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
def test_few_rows_neither_crash_nor_certify_anything(rows, notion):
    scores, labels, columns = table(seed=rows, rows=rows, sites=2)
    columns["sensitive_features"][:2], labels[:2] = ["F", "M"], [0, 1]
    certified = fit((scores, labels, columns), notion=notion, local_tolerance=0.02, global_tolerance=0.02).certified
    assert all(each.high is None or each.high <= 0.02 for each in certified.where(state=MET))
    assert certified.where(state=UNCLEAR)


# --- what is certified


def test_without_confidence_or_a_requirement_nothing_is_certified():
    for options in ({"confidence": None}, {"local_tolerance": None, "global_tolerance": None}):
        solution = fit(table(), **options)
        assert len(solution.certified) == 0
        assert solution.promises is solution.policy.info.promises is None


def test_there_is_an_outcome_for_every_requirement_and_site():
    solution = fit(table(), site_tolerances={1: None})
    certified = solution.certified
    assert [(each.requirement.scope.where, each.site) for each in certified] == [
        ("per site", 0),
        ("per site", 2),
        ("overall", None),
    ]
    assert certified == solution.outcomes.where(basis=NEW_ROWS)
    assert len(certified.where(state=MET)) == 3
    assert all(each.high <= each.limit and (each.before, each.after, each.low) == (None,) * 3 for each in certified)
    assert solution.promises.largest_local_bound >= max(each.high for each in certified if each.site is not None)
    assert certified[0].rows_needed < certified[0].rows


def test_a_site_with_few_rows_is_told_how_many_it_needs():
    scores, labels, columns = table(rows=6000)
    few = np.flatnonzero((columns["sites"] == 2) & (columns["sensitive_features"] == "F"))[12:]
    keep = np.setdiff1d(np.arange(scores.size), few)
    rows = scores[keep], labels[keep], {name: column[keep] for name, column in columns.items()}
    found = fit(rows, local_tolerance=0.1).certified[2]
    assert (found.state, found.groups, found.rows) == (UNCLEAR, ("F",), 12)
    assert found.rows_needed > 100


def test_a_site_without_rows_of_a_group_cannot_be_certified():
    scores, labels, columns = table(rows=3000)
    keep = (columns["sites"] != 2) | (columns["sensitive_features"] != "F")
    rows = scores[keep], labels[keep], {name: column[keep] for name, column in columns.items()}
    for notion in ("demographic_parity", "equalized_odds"):
        found = fit(rows, notion=notion).certified[2]
        assert (found.state, found.groups, found.rows, found.high) == (UNCLEAR, ("F",), 0, None)


def test_no_rows_certify_a_tolerance_of_zero():
    assert fit(table(), local_tolerance=0).certified[0].rows_needed is None


BENEFIT = logofair.Notion("benefit", given=(logofair.Rate("benefit", -1, 2, base=(1, 0)),))


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({}, "by rank"),
        ({"notion": "predictive_equality"}, "by rank"),
        ({"notion": "equalized_odds"}, "on rows held out"),
        ({"notion": {"local": "demographic_parity", "global": "equal_opportunity"}}, "on rows held out"),
        ({"sample_weight": np.ones(4000)}, "on rows held out"),
        ({"notion": BENEFIT}, "on rows held out"),
        ({"capacity": 0.7}, "on rows held out"),
    ],
)
def test_the_method_is_chosen_by_what_is_required(options, method):
    solution = fit(table(), **options)
    assert solution.promises.method == method
    if "notion" in options and options["notion"] is BENEFIT:  # no share of rows
        assert {each.state for each in solution.certified} == {UNCLEAR}


def test_of_several_rates_all_must_be_certified():
    few = fit(table(rows=1500), notion="equalized_odds").certified
    assert len(few) == 4
    assert few[0].rate in ("true positive rate", "false positive rate")
    enough = fit(table(rows=30_000), notion="equalized_odds", global_tolerance=None).certified
    assert {each.state for each in enough} == {MET}
    each_rate = fit(
        table(rows=30_000), notion={"equal_opportunity": 0.15, "predictive_equality": 0.15}, global_tolerance=None
    ).certified
    for site in range(3):
        assert enough.where(site=site)[0].high == pytest.approx(max(each.high for each in each_rate.where(site=site)))


def test_what_is_certified_is_plain_values_and_stays_with_the_policy(tmp_path):
    solution = fit(table(), site_tolerances={0: None}, global_tolerance=0.001)
    plain = json.loads(json.dumps(solution.as_dict(), allow_nan=False))
    assert [each["state"] for each in plain["outcomes"] if each["basis"] == NEW_ROWS] == [MET, MET, UNCLEAR]
    assert plain["promises"]["price"] == solution.promises.price
    solution.policy.save(tmp_path / "policy.json")
    stored = Policy.load(tmp_path / "policy.json").info
    assert stored.promises == solution.promises
    assert stored.outcomes.where(basis=NEW_ROWS) == solution.certified
    assert stored.promises.confidence == 0.95


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
    assert solution.certified.where(state=MET)


def test_the_verdict_of_a_fit_is_what_is_certified():
    assert fit(table(), local_tolerance=0.001, global_tolerance=None).outcomes.verdict == "unclear"
    assert fit(table()).outcomes.verdict == "met"
    assert fit(table(), confidence=None).outcomes.verdict == "not measured"


def test_over_all_sites_nothing_is_bounded_where_one_keeps_the_rule_of_all_rows():
    certified = fit(table(), site_tolerances={1: None}, global_tolerance=0.001).certified
    assert [each.state for each in certified] == [MET, MET, UNCLEAR]
    assert certified[2].high is None
    assert certified[2].rows_needed > certified[2].rows


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
    assert {each.state for each in solution.certified} == {UNCLEAR}
    assert all(each.low is each.high is None for each in solution.certified)
    assert solution.promises.largest_local_bound is None
    assert solution.certificate.as_dict() == plain.certificate.as_dict()
    assert records.plain(solution.policy.calibrator) == records.plain(plain.policy.calibrator)
    for each in fields(plain.policy.mixtures):
        found, expected = (getattr(policy.mixtures, each.name) for policy in (solution.policy, plain.policy))
        np.testing.assert_array_equal(found, expected)
    assert solution.promises.price == 0.0


def test_what_is_certified_has_its_price_against_the_fit_without_confidence():
    for costs in (None, (1, 2)):
        solution, plain = (
            fit(table(), pooling="none", random_state=5, costs=costs, confidence=each) for each in (0.95, None)
        )
        price = plain.certificate.primal - solution.certificate.primal
        assert solution.certified.where(state=MET)
        assert solution.promises.price == pytest.approx(price if costs is None else -price)
        assert costs is None or solution.promises.price > 0


def test_small_cells_borrow_among_the_rows_that_choose_and_what_is_certified_rests_on_their_own():
    rows = table(rows=2000, sites=1)
    rows[2]["sites"] = np.random.default_rng(0).integers(0, 40, 2000)  # all alike
    alone, lent = (
        fit(rows, pooling=pooling, local_tolerance=None, global_tolerance=0.2) for pooling in ("none", "full")
    )
    assert lent.certified[-1].state == alone.certified[-1].state == MET
    assert lent.certificate.pooling == "none"
    assert lent.pooling.prior == "group"
    assert lent.policy.info.pooling.prior == "group"
    assert lent.certificate.primal > alone.certificate.primal  # targets chosen on 7 rows of a cell are noise


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_where_nothing_can_be_said_of_new_rows_the_rules_are_those_of_all_rows(notion):
    rows = table(rows=2000, sites=100)
    options = {"notion": notion, "local_tolerance": 0.02, "global_tolerance": None, "random_state": 0}
    solution, without = fit(rows, **options), fit(rows, confidence=None, **options)
    assert {each.state for each in solution.certified} == {UNCLEAR}
    assert solution.promises.price == 0.0
    assert solution.certificate.primal == without.certificate.primal
    assert solution.pooling == without.pooling
    scores, _, columns = rows
    np.testing.assert_array_equal(
        solution.policy.probabilities(scores, **columns), without.policy.probabilities(scores, **columns)
    )


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_sites_of_which_nothing_can_be_said_keep_the_rules_of_all_rows_and_the_others_are_certified(notion):
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
    certified = solution.certified
    assert {each.state for each in certified.where(site=20)} == {MET}
    assert all(each.high is None and each.state == UNCLEAR for each in certified if each.site != 20)
    assert len(certified) == 21
    assert solution.promises.largest_local_bound is None
    assert abs(solution.promises.price) < 0.01


def test_the_same_random_state_certifies_the_same():
    first, second, other = (fit(table(), random_state=state).certified for state in (1, 1, 2))
    assert first == second
    assert first != other


def test_of_two_tolerances_for_one_rate_the_looser_is_kept_with_the_stricter():
    given = {"local_tolerance": None, "global_tolerance": None}
    both = {
        bound: asked.fit(
            *table()[:2],
            confidence=0.95,
            **table()[2],
            **given,
            require=["selection rate gap <= 0.15 per site", f"selection rate gap <= {bound} per site"],
        )
        for bound in (0.01, 0.12)
    }
    assert {each.state for each in both[0.01].certified if each.limit == 0.01} == {UNCLEAR}
    assert {each.state for each in both[0.12].certified} == {MET}
    assert both[0.12].promises.largest_local_bound < 0.12


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


# --- what is certified holds in the population


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
def test_certified_gaps_hold_in_the_population(notion, given, levels, rows, tolerances):
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
        certified = solution.certified[: len(true)]
        broken += any(each.state == MET and gap > each.limit for each, gap in zip(certified, true, strict=True))
        made += len(certified.where(state=MET))
        covered += sum(gap <= each.high for each, gap in zip(certified, true, strict=True))
        largest += max(true[:4]) <= solution.promises.largest_local_bound
    assert broken <= binom.ppf(0.999, runs, 0.05)
    assert covered >= binom.ppf(0.001, runs * len(true), 0.95)
    assert largest >= binom.ppf(0.001, runs, 0.95)
    assert made >= runs  # and they are not empty words


# --- more than gaps


def figure(requirement, rates) -> float:
    """The figure of a requirement of rates by group, in a population of equal groups."""

    def of(rate, who):
        return rates[rate.name].mean() if not who else rates[rate.name][int(who[0])]

    if requirement.measure == "difference":
        (first, second), (one, other) = requirement.rates, requirement.who
        return of(first, one) - of(second, other)
    if requirement.measure == "accepted":
        return rates["selection rate"].mean()
    if requirement.who:
        return of(requirement.rates[0], requirement.who[0])
    found = [rates[rate.name] for rate in requirement.rates]
    if requirement.measure == "gap":
        return max(np.ptp(each) for each in found)
    if requirement.measure == "ratio":
        return min(each.min() / each.max() for each in found)
    return min(found[0]) if requirement.relation == ">=" else max(found[0])


def broken(solution) -> int:
    """How many outcomes that are met do not hold in the population that :func:`population` knows."""
    rates = {"selection rate": population(solution, 0, None), "true positive rate": population(solution, 0, 1)}
    found = 0
    for each in solution.certified.where(state=MET):
        here = {name: own.mean(axis=0) if each.site is None else own[each.site] for name, own in rates.items()}
        value = figure(each.requirement, here)
        found += value < each.limit if each.requirement.relation == ">=" else value > each.limit
    return found


@pytest.mark.parametrize(
    "required",
    [
        {"local_tolerance": ("ratio", 0.75), "ceilings": {"demographic_parity": 0.75}},
        {"floors": {"equal_opportunity": 0.5}, "capacity": {"global": 0.55, "local": 0.7}, "costs": (1, 2)},
        {"local_tolerance": ("ratio", 0.7), "floors": {"equal_opportunity": "today"}},
        {"require": ["selection rate of 0 - selection rate of 1 <= 0.12 per site"]},
        {"require": ["accepted >= 0.3 per site", "selection rate of 1 - selection rate of 0 <= today overall"]},
        {
            "require": [
                "selection rate of everyone <= 0.6 per site",
                "selection rate of 0 - selection rate of everyone >= -0.08 overall",
                "selection rate of everyone - selection rate of 0 >= -0.08 overall",
            ]
        },
    ],
    ids=str,
)
def test_what_is_certified_besides_gaps_holds_in_the_population(required):
    runs, wrong, made = 12, 0, 0
    for run in range(runs):
        rng = np.random.default_rng([run, 16])
        site, group = rng.integers(0, 4, 4000), rng.integers(0, 2, 4000)
        score = 1 / (1 + np.exp(-(SHIFT[site, group] + rng.normal(size=4000))))
        rows = score, rng.random(4000) < score, {"sensitive_features": group, "sites": site}
        given = {"local_tolerance": None, "global_tolerance": None, "confidence": 0.8, **required}
        solution = fit(rows, calibration="none", random_state=run, **given)
        wrong += broken(solution) > 0
        made += len(solution.certified.where(state=MET))
    assert wrong <= binom.ppf(0.999, runs, 0.2)
    assert made >= 2 * runs  # and they are not empty words


def test_every_kind_of_requirement_is_certified():
    required = [
        "selection rate ratio >= 0.55 per site",
        "true positive rate of F >= 0.5 per site",
        "accepted <= 0.6 overall",
        "accepted >= 0.2 overall",
        "selection rate of everyone <= 0.6 overall",
        "selection rate of F - selection rate of everyone >= -0.2 overall",
        "true positive rate of M <= 0.97 at 1",
    ]
    given = {"local_tolerance": None, "global_tolerance": None}
    solution = fit(table(rows=9000), costs=(1, 2), require=required, **given)
    certified = solution.certified
    assert [str(each) for each in certified.requirements] == required
    assert [len(certified.where(requirement=each)) for each in certified.requirements] == [3, 3, 1, 1, 1, 1, 1]
    assert [(each.requirement, each.site) for each in certified] == [(e.requirement, e.site) for e in solution.proved]
    assert {each.state for each in certified} == {MET}
    for each in certified:
        known, other = (each.low, each.high) if each.requirement.relation == ">=" else (each.high, each.low)
        assert other is None
        assert known >= each.limit if each.requirement.relation == ">=" else known <= each.limit
    assert [each.groups for each in certified][3:9] == [("F",)] * 3 + [()] * 3
    assert certified.where(requirement=certified.requirements[2])[0].rows == 9000
    json.dumps(solution.as_dict(), allow_nan=False)


@pytest.mark.parametrize("required", ["accepted = 0.4 overall", "selection rate gap <= today per site"])
def test_an_equality_or_todays_gap_is_never_certified(required):
    given = {"local_tolerance": None, "global_tolerance": None}
    solution = fit(table(rows=8000), require=[required, "selection rate gap <= 0.25 per site"], **given)
    asked_for, other = solution.certified.requirements
    assert all(
        (each.state, each.high, each.rows_needed) == (UNCLEAR, None, None)
        for each in solution.certified.where(requirement=asked_for)
    )
    assert len(solution.certified.where(requirement=other, state=MET)) == 3
    assert solution.outcomes.verdict == UNCLEAR
    assert "people in every group" not in solution.summary()  # of which no number would do


def test_what_today_is_of_a_group_without_such_a_rate_certifies_nothing():
    scores, labels, columns = table(rows=3000)
    labels[columns["sensitive_features"] == "F"] = 0  # nobody of F has a true positive rate
    options = {"local_tolerance": None, "global_tolerance": 0.3, "calibration": "none", "basis": "labels"}
    found = fit((scores, labels, columns), require=["true positive rate >= today per site"], **options).certified
    assert {each.state for each in found if each.site is not None} == {UNCLEAR}


def test_where_the_rows_that_choose_know_no_rule_nothing_is_certified():
    given = {"local_tolerance": None, "global_tolerance": None, "floors": {"equal_opportunity": 0.8}}
    solution = fit(table(rows=300, sites=1), capacity=0.578, calibration="none", **given)
    assert solution.certificate.holds  # on all rows there is one
    assert [each.requirement.measure for each in solution.certified.where(state=UNCLEAR)] == ["rate", "accepted"]
