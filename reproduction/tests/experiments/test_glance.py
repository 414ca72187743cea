"""What a run says at a glance, on lines whose sentences and matrix are known by hand."""

from __future__ import annotations

from logofair_reproduction.experiments.claims import verdicts
from logofair_reproduction.experiments.glance import LEGEND, headline, matrix, sentences
from made.results import line, noisy, steady

ALPHAS = (0.5, 5.0, 100.0)
ODDS = {"experiment": "comparison_eo", "notion": "equalized_odds"}


def everywhere(method, *figures, **place):
    return [line(method, steady(*figures), alpha=alpha, **place) for alpha in ALPHAS]


def said(lines):
    return dict(sentences(lines, verdicts(lines)))


def test_nothing_is_said_without_results():
    assert said([]) == {}
    assert matrix(verdicts([])).columns == ()


def test_columns_are_data_sets_with_results_each_with_its_notions():
    lines = [
        *(each for data in ("adult", "enem") for each in everywhere("logofair_lg", 0.83, 0.02, 0.01, data=data)),
        *everywhere("logofair_lg", 0.83, 0.02, 0.01, **ODDS),
    ]
    found = matrix(verdicts(lines))
    assert found.columns == ("Adult DP", "Adult EO", "ENEM DP")
    names = {row.short: set(row.verdicts) for row in found.rows}
    assert names["Paper's comparison figures reached"] == set(found.columns)
    assert names["Accuracy at least the paper's"] == {"Adult DP"}
    assert "2 to 50 clients change little" not in names
    assert "Beats FCFL locally" not in names  # there is nothing to compare with


def test_a_claim_about_both_notions_stands_in_both_columns_and_counts_once():
    methods = ("fedavg", "fedfb", "fairfed", "fcfl", "algorithm1_lg")
    lines = [
        each
        for name in methods
        for each in [*everywhere(name, 0.85, 0.1, 0.1), *everywhere(name, 0.84, 0.2, 0.2, **ODDS)]
    ]
    (row,) = [row for row in matrix(verdicts(lines)).rows if row.short == "Equalized odds harder than parity"]
    assert row.verdicts["Adult DP"] is row.verdicts["Adult EO"]


def test_what_chance_leaves_open_has_a_sign_and_what_was_not_run_in_full_has_none():
    fedfb = everywhere("fedfb", 0.81, 0.1, 0.1)
    named = [{row.short for row in matrix(verdicts([*own, *fedfb])).rows} for own in (good(), [*good()[:2], wide()])]
    assert ["Beats FedFB, FairFed globally" in names for names in named] == [False, True]  # FairFed was not run
    assert "chance alone could decide; empty: not claimed there, or not run" in LEGEND


def good():
    return everywhere("algorithm1_lg", 0.83, 0.02, 0.01)


def wide():
    return line("algorithm1_lg", noisy(0.83, 0.02, 0.01), alpha=100.0)


def test_verdicts_are_counted_by_data_set():
    lines = [
        *everywhere("algorithm1_lg", 0.83, 0.02, 0.01),  # as good as the paper says
        *everywhere("algorithm1_lg", 0.5, 0.9, 0.9, data="enem"),
    ]
    own = [each for each in verdicts(lines) if each.short == "Paper's comparison figures reached"]
    assert dict(sentences(lines, own))["The paper's claims"] == "On Adult: 1 confirmed; on ENEM: 1 not confirmed."


def test_what_is_reached_is_counted_against_the_paper_and_the_floor():
    # The paper: accuracy 0.8214, 0.8244, 0.8283; local gap 0.0489, 0.0259, 0.0362; global 0.0204, 0.0138, 0.0297.
    lines = [
        line("logofair_lg", steady(0.8220, 0.05, 0.02, floor=0.04) | {"floor_at_tolerance": [0.06] * 3}, alpha=0.5),
        line("logofair_lg", steady(0.8220, 0.02, 0.02, floor=0.01), alpha=5.0),
        line("logofair_lg", steady(0.8220, 0.03, 0.02, floor=0.01), alpha=100.0),
    ]
    words = said(lines)["What is reached"]
    assert "mean accuracy at least the paper's at 1 of 3" in words
    assert "global gap at most the paper's at 2 of 3" in words
    assert "local gap at most the paper's at 2 of 3" in words
    assert "no larger than chance alone shows where the true gap is the tolerance at 1 of 3." in words


def test_the_headline_is_of_the_first_comparison_exact_first_with_the_most_settings():
    lines = [
        *everywhere("logofair_lg", 0.83, 0.02, 0.01, **ODDS),
        *everywhere("algorithm1_lg", 0.82, 0.02, 0.01),
        *everywhere("logofair_lg", 0.83, 0.02, 0.01),
        *everywhere("logofair_lg", 0.80, 0.02, 0.01, budget=3),
    ]
    shown = [(each.place["experiment"], each.place["method"], each.place["alpha"]) for each in headline(lines)]
    methods = ("logofair_lg", "algorithm1_lg")
    assert shown == [("comparison_dp", method, alpha) for method in methods for alpha in ALPHAS]
    assert {each.place["budget"] for each in headline(lines)} == {20}


def test_what_is_beyond_is_said_with_its_sign():
    rounds = {"experiment": "rounds_dp", "alpha": 0.5}
    lines = [
        *everywhere("logofair_lg", 0.83, 0.02, 0.01),
        *everywhere("like_fedfb", 0.83, 0.05, 0.05),
        *everywhere("fedfb_half", 0.81, 0.05, 0.05),
        *everywhere("like_fcfl", 0.80, 0.05, 0.05),
        *everywhere("fcfl_half", 0.81, 0.05, 0.05),
        *(line("algorithm1_lg", steady(0.83, 0.03, gap), level=n, **rounds) for n, gap in ((5, 0.08), (20, 0.01))),
        line("protocol", steady(0.83, 0.03, 0.009, rounds=3.0), **rounds),
    ]
    words = said(lines)["What is beyond the paper"]
    assert "FedFB +0.0200, FCFL -0.0100." in words
    assert "the exact protocol ends after 3.0 rounds" in words
    assert "comes within 0.002 of the protocol's global gap of 0.0090 after 20 rounds." in words
