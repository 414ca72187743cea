"""Claims judged on made-up lines whose verdict is known by hand."""

from __future__ import annotations

import pytest

from logofair_reproduction.experiments.claims import CLAIMS, rounds_needed, verdicts
from made.results import line, noisy, steady

ALPHAS = (0.5, 5.0, 100.0)


def judged(words, lines, place="Adult"):
    """The verdict on the claim that holds these words, at one place."""
    found = [each for each in verdicts(lines) if words in each.claim and each.place.startswith(place)]
    assert len(found) == 1, [each.place for each in found]
    return found[0]


def everywhere(method, figures, alphas=ALPHAS, **place):
    return [line(method, figures, alpha=alpha, **place) for alpha in alphas]


def baselines(**place):
    return [
        *everywhere("fedfb", steady(0.81, 0.09, 0.07), **place),
        *everywhere("fairfed", steady(0.80, 0.10, 0.08), **place),
        *everywhere("fcfl", steady(0.81, 0.06, 0.12), **place),
    ]


def good(method="algorithm1_lg", **place):
    return everywhere(method, steady(0.83, 0.02, 0.01), **place)


def test_without_lines_nothing_is_testable_and_every_claim_says_what_to_run():
    found = verdicts([])
    assert {each.verdict for each in found} == {"not testable"}
    assert all("run logofair reproduce " in each.reason for each in found)
    assert {each.claim for each in found} == {claim.sentence for claim in CLAIMS}


def test_both_sources_make_claims():
    assert {claim.source for claim in CLAIMS} == {"paper", "logofair"}


def test_every_claim_has_a_short_name_of_its_own():
    names = [claim.short for claim in CLAIMS]
    assert len(set(names)) == len(names)
    assert all(3 <= len(name.split()) <= 7 and len(name) <= 38 for name in names)  # beside six columns in a terminal


BETTER = "gets both better accuracy and a lower global gap"


def test_better_everywhere_is_confirmed_with_rows_and_seeds():
    found = judged(BETTER, [*good(), *baselines()])
    assert found.verdict == "confirmed"
    assert (found.columns, found.counts) == (("Adult DP",), {"for": 12, "against": 0, "open": 0})
    assert found.reason == "12 of 12 comparisons for it (alpha 0.5, 5, 100; 3 seeds)."
    assert found.figures[0].startswith(
        "alpha 0.5, accuracy: LoGoFair_l&g, Algorithm 1 0.8300 (paper 0.8214), FedFB 0.8"
    )


def test_worse_in_one_row_is_not_confirmed_and_that_row_is_named():
    lines = [*good(), *baselines()]
    lines[1] = line("algorithm1_lg", steady(0.805, 0.02, 0.01), alpha=5.0)  # less accurate than FedFB
    found = judged(BETTER, lines)
    assert (found.verdict, "1 against it" in found.reason) == ("not confirmed", True)
    assert next(text for text in found.figures if text.startswith("against: ")).startswith("against: alpha 5, accuracy")


def test_what_chance_alone_could_decide_is_not_testable():
    found = judged(BETTER, [*everywhere("algorithm1_lg", noisy(0.82, 0.05, 0.06)), *baselines()])
    assert found.verdict == "not testable"
    assert found.reason.endswith("Chance alone could decide what is open: other rows would tell, more seeds hardly.")
    assert "same sign in 2 of 3 splits" in found.figures[0]  # +0.31, +0.01 and -0.29


def varied(mean, *apart):
    """Accuracy that varies as told around its mean; gaps as of good()."""
    return {**steady(0.83, 0.02, 0.01), "accuracy": [mean + each for each in apart]}


def test_one_comparison_against_a_claim_refutes_it_only_beyond_what_chance_does_among_so_many():
    # Standard deviation 0.004, so the mean's error is 0.004 sqrt(1/3 + 3/7) = 0.0035. By Student's t of 2 degrees of
    # freedom the interval reaches 4.30 errors = 0.015, and among 12, where 0.05 / 12 is left, 15.4 errors = 0.054.
    lines = [*good(), *baselines()]
    lines[1] = line("algorithm1_lg", varied(0.79, -0.004, 0.0, 0.004), alpha=5.0)
    found = judged(BETTER, lines)
    assert (found.verdict, found.counts["open"]) == ("not testable", 2)  # 0.02 below FedFB, 0.01 below FairFed
    (text,) = [each for each in found.figures if "alpha 5, accuracy" in each and "within chance" in each]
    assert text.startswith("open: ")
    assert text.endswith("; against by itself, but within chance for one of 12 comparisons")
    lines[1] = line("algorithm1_lg", varied(0.75, -0.004, 0.0, 0.004), alpha=5.0)  # 0.06 below FedFB
    assert judged(BETTER, lines).verdict == "not confirmed"


def test_a_baseline_that_was_not_run_leaves_the_claim_untested():
    found = judged(BETTER, [*good(), *everywhere("fedfb", steady(0.81, 0.09, 0.07))])
    assert (found.verdict, found.reason.endswith("Not run: FairFed.")) == ("not testable", True)


def test_a_run_of_one_alpha_says_which_rows_are_missing():
    lines = [each for each in [*good(), *baselines()] if each.place["alpha"] == 5.0]
    found = judged(BETTER, lines)
    assert (found.verdict, found.reason.endswith("Not run: alpha 0.5, alpha 100.")) == ("confirmed", True)


def test_one_seed_decides_nothing():
    single = [
        line(method, {"accuracy": [a], "global_gap": [g]})
        for method, a, g in (("logofair_lg", 0.83, 0.01), ("fedfb", 0.81, 0.05), ("fairfed", 0.81, 0.05))
    ]
    assert judged("lower global gap than FedFB and FairFed", single).verdict == "not testable"


def test_the_exact_solver_is_judged_where_the_papers_procedure_was_not_run():
    found = judged(BETTER, [*good("logofair_lg"), *baselines()])
    assert "LoGoFair_l&g 0.8300" in found.figures[0]


def test_data_sets_and_notions_are_judged_by_themselves():
    odds = {"experiment": "comparison_eo", "notion": "equalized_odds"}
    lines = [*good(), *baselines(), *good(**odds), *baselines(**odds), *good(data="enem"), *baselines(data="enem")]
    places = [each.place for each in verdicts(lines) if BETTER in each.claim and each.verdict == "confirmed"]
    assert places == [
        "Adult (UCI), demographic parity",
        "ENEM microdata (INEP, Brazil), demographic parity",
        "Adult (UCI), equalized odds",
    ]


def test_a_local_gap_below_the_floor_on_both_sides_decides_nothing():
    lines = [
        *everywhere("algorithm1_lg", steady(0.83, 0.02, 0.01, floor=0.07)),
        *everywhere("fcfl", steady(0.81, 0.06, 0.12, floor=0.07)),
    ]
    found = judged("surpasses FCFL", lines)
    assert found.verdict == "not testable"
    assert sum("both below the noise floor" in text for text in found.figures) == 3


def ablation(local_of_l):
    return [
        *everywhere("algorithm1_l", steady(0.832, local_of_l, 0.05)),
        *everywhere("algorithm1_g", steady(0.831, 0.08, 0.008)),
        *good(),
    ]


def test_typically_asks_for_most_rows():
    assert judged("Typically", ablation(local_of_l=0.015)).verdict == "confirmed"
    assert judged("Typically", ablation(local_of_l=0.03)).verdict == "not confirmed"  # 3 of 6


def test_both_sides_at_a_slight_loss():
    assert judged("slight loss", ablation(local_of_l=0.015)).verdict == "confirmed"
    dear = [*ablation(0.015)[:6], *everywhere("algorithm1_lg", steady(0.80, 0.09, 0.06))]
    assert judged("slight loss", dear).verdict == "not confirmed"


def test_accuracy_alone_does_not_make_most_comparisons_of_both_sides():
    same = [*ablation(0.015)[:6], *everywhere("algorithm1_lg", steady(0.83, 0.08, 0.01))]
    same[6] = line("algorithm1_lg", steady(0.83, 0.02, 0.01), alpha=0.5)  # locally fairer at one alpha of three
    found = judged("slight loss", same)
    assert (found.verdict, found.counts["for"]) == ("not testable", 10)  # of 12


def test_what_most_comparisons_say_falls_with_most_of_a_figures_alone():
    lines = ablation(local_of_l=0.015)
    lines[0] = line("algorithm1_l", steady(0.832, 0.03, 0.05), alpha=0.5)
    assert judged("Typically", lines).verdict == "confirmed"  # 2 of 3 local gaps are lower
    lines[1] = line("algorithm1_l", noisy(0.832, 0.02, 0.05), alpha=5.0)
    assert judged("Typically", lines).verdict == "not testable"  # 1 of 3 for, 1 against


@pytest.mark.parametrize(("floor", "verdict"), [(0.01, "confirmed"), (0.09, "not testable")])
def test_gaps_that_come_nearer_are_no_finding_where_the_noise_floor_falls_as_much(floor, verdict):
    lines = [
        line("fedavg", steady(0.85, 0.20, 0.15, floor=floor), alpha=0.5),
        line("fedavg", steady(0.85, 0.16, 0.15, floor=0.01), alpha=100.0),
    ]
    assert judged("come nearer", lines).verdict == verdict


def sensitivity(change):
    return [
        line(
            "algorithm1_lg",
            steady(0.82 + change * (a + b), 0.03 + a, 0.01 + b),
            experiment="sensitivity_dp",
            alpha=0.5,
            local_tolerance=a,
            global_tolerance=b,
        )
        for a in (0.0, 0.02, 0.04)
        for b in (0.0, 0.02, 0.04)
    ]


def test_sensitivity_compares_the_ends_with_the_other_tolerance_fixed():
    found = judged("With one tolerance fixed", sensitivity(0.1))
    assert (found.verdict, len(found.figures)) == ("confirmed", 12)
    assert judged("With one tolerance fixed", sensitivity(-0.1)).verdict == "not confirmed"


@pytest.mark.parametrize(("local", "verdict"), [(0.05, "confirmed"), (0.40, "not confirmed")])
def test_more_clients_may_raise_the_local_gap_slightly(local, verdict):
    lines = [
        line("algorithm1_lg", steady(0.83, gap, 0.01, floor=gap), experiment="clients_dp", alpha=0.5, clients=number)
        for number, gap in ((2, 0.02), (50, local))
    ]
    found = judged("From 2 to 50 clients", lines)
    assert found.verdict == verdict
    assert f"noise floor alone grows by {local - 0.02:.4f}" in found.figures[-1]


def rounds(gap_at_ten):
    levels = {5: 0.08, 10: gap_at_ten, 100: 0.01}
    place = {"experiment": "rounds_dp", "alpha": 0.5}
    lines = [line("algorithm1_lg", steady(0.83, 0.03, gap), level=level, **place) for level, gap in levels.items()]
    return [*lines, line("protocol", steady(0.83, 0.03, 0.009, rounds=3.0), **place)]


def test_convergence_within_ten_rounds():
    assert judged("converge within 10", rounds(0.012)).verdict == "confirmed"
    assert judged("converge within 10", rounds(0.05)).verdict == "not confirmed"


def test_the_protocol_needs_fewer_rounds_than_algorithm_1():
    found = judged("exact protocol needs", rounds(0.0105))
    assert (found.verdict, found.figures[1][:14]) == ("confirmed", "after 5 rounds")
    assert rounds_needed(rounds(0.0105)).algorithm1 == 10
    never = [each for each in rounds(0.05) if each.place.get("level") != 100]
    assert "in 10 rounds" in rounds_needed(never).comparison
    wide = [each for each in rounds(0.0105) if each.place.get("level") != 5]
    vague_gap = {**steady(0.83, 0.03, 0.08), "global_gap": [0.0, 0.08, 0.16]}
    wide.append(line("algorithm1_lg", vague_gap, level=5, experiment="rounds_dp", alpha=0.5))
    assert judged("exact protocol needs", wide).verdict == "not testable"
    quick = [each for each in rounds(0.05) if each.place.get("level") != 5]
    quick.append(line("algorithm1_lg", steady(0.83, 0.03, 0.01), level=5, experiment="rounds_dp", alpha=0.5))
    assert judged("exact protocol needs", quick).verdict == "not confirmed"


def test_significance_asks_for_every_comparison():
    assert judged("significant at 0.05", [*good(), *baselines()]).verdict == "confirmed"
    weak = [*good()[:2], line("algorithm1_lg", noisy(0.83, 0.02, 0.01), alpha=100.0), *baselines()]
    found = judged("significant at 0.05", weak)
    assert (found.verdict, found.counts) == ("not testable", {"for": 18, "against": 0, "open": 9})
    assert all(", p 0." in text for text in found.figures)
    worse = [*good()[:2], line("algorithm1_lg", steady(0.70, 0.02, 0.01), alpha=100.0), *baselines()]
    assert judged("significant at 0.05", worse).counts == {"for": 24, "against": 3, "open": 0}


def test_methods_for_one_side_fail_on_the_other():
    place = {"experiment": "introduction"}
    lines = [
        line("fcfl", steady(0.81, 0.05, 0.15), alpha=0.5, **place),
        line("fcfl", steady(0.81, 0.05, 0.08), alpha=100.0, **place),
        line("fedfb", steady(0.81, 0.15, 0.05), alpha=0.5, **place),
        line("fedfb", steady(0.81, 0.08, 0.05), alpha=100.0, **place),
    ]
    assert judged("Methods made for one side", lines).verdict == "confirmed"


def test_notions_are_compared_on_the_same_splits():
    odds = {"experiment": "comparison_eo", "notion": "equalized_odds"}
    worse = [
        *baselines(),
        *[
            line(each.place["method"], steady(0.79, 0.2, 0.2), alpha=each.place["alpha"], **odds)
            for each in baselines()
        ],
    ]
    assert judged("under equalized odds", worse).verdict == "confirmed"
    assert (
        judged("under equalized odds", [*baselines(), *good(**odds), *good(), *baselines(**odds)]).verdict
        != "confirmed"
    )


REACHED = "figures of LoGoFair_l&g are reached"


def reached(lines):
    (found,) = [v for v in verdicts(lines) if REACHED in v.claim and v.figures]
    return found


def test_the_papers_figures_are_reached_or_not():
    assert reached([line("algorithm1_lg", steady(0.83, 0.02, 0.01), alpha=5.0)]).verdict == "confirmed"
    found = reached([line("algorithm1_lg", steady(0.81, 0.02, 0.01), alpha=5.0)])
    assert (found.verdict, found.figures[0][:8]) == ("not confirmed", "against:")


def test_a_claimed_local_gap_below_the_floor_is_open():
    found = reached([line("algorithm1_lg", steady(0.83, 0.09, 0.01, floor=0.07), alpha=0.5)])
    assert "noise floor of these rows is 0.0700" in found.figures[1]
    assert found.figures[1].startswith("open: ")


def test_figures_that_are_no_targets_are_left_out():
    place = {"experiment": "sensitivity_dp", "data": "celeba", "alpha": 0.5}
    lines = [line("algorithm1_lg", steady(0.9, 0.1, 0.1), local_tolerance=0.0, global_tolerance=0.04, **place)]
    assert ["local gap" in reached(lines).figures[0], "global gap" in reached(lines).figures[1]] == [True, True]
    assert len(reached(lines).figures) == 2


def test_figures_beside_the_papers_are_judged_by_the_mean_which_the_verdict_says():
    varying = {**steady(0.83, 0.02, 0.01), "accuracy": [0.823, 0.825, 0.827]}  # the paper: 0.8244, within the interval
    found = judged("accuracy at least the paper's", [line("logofair_lg", varying, alpha=5.0)])
    assert (found.verdict, ", by the mean (alpha 5; 3 seeds)" in found.reason) == ("confirmed", True)
    assert "paper 0.8244; difference +0.0006 (-0.0069 to +0.0081, same sign in 2 of 3 splits)" in found.figures[0]


def test_what_was_not_judged_is_not_named():
    assert "(alpha 5, 100; 3 seeds)" in judged("above the noise floor", good_with(0.01)).reason
    ends = [line("fedavg", steady(0.85, 0.2, 0.15), alpha=alpha) for alpha in ALPHAS]
    assert "(alpha 0.5, 100; 3 seeds)" in judged("come nearer", ends).reason


def test_at_a_baselines_gaps_accuracy_decides():
    names = ("fedfb", "fairfed", "fcfl")
    halves = [line for name in names for line in everywhere(f"{name}_half", steady(0.81, 0.06, 0.06))]
    likes, lower = (
        [line for name in names for line in everywhere(f"like_{name}", steady(accuracy, 0.05, 0.05))]
        for accuracy in (0.83, 0.7)
    )
    assert judged("as a baseline's own gaps", [*likes, *halves]).verdict == "confirmed"
    assert judged("as a baseline's own gaps", [*lower, *halves]).verdict == "not confirmed"


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.8305, "confirmed"), (0.8315, "not confirmed")])
def test_labels_that_choose_elsewhere_gain_nothing(accuracy, verdict):
    lines = [*good("logofair_lg"), *everywhere("oracle_elsewhere", steady(accuracy, 0.02, 0.01))]
    assert judged("labels choose on the calibration rows", lines).verdict == verdict


def test_lower_gaps_at_no_lower_accuracy():
    lines = [*good("logofair_lg"), *baselines()]
    assert judged("lower global gap than FedFB", lines).verdict == "confirmed"
    assert judged("than FCFL, at no lower", lines).verdict == "confirmed"
    costly = [*everywhere("logofair_lg", steady(0.80, 0.02, 0.01)), *baselines()]
    assert judged("than FCFL, at no lower", costly).verdict == "not confirmed"


def test_our_claims_too_need_the_interval_and_not_the_mean_alone():
    lines = [*everywhere("logofair_lg", vague(0.83)), *baselines()]  # more accurate on average, by far within chance
    assert judged("than FCFL, at no lower", lines).verdict == "not testable"
    on = [line for name in ("fedfb", "fairfed", "fcfl") for line in everywhere(f"on_{name}", steady(0.82, 0.02, 0.01))]
    assert judged("Post-processing FedAvg's scores", [*lines[:3], *on]).verdict == "not testable"
    oracle = everywhere("oracle_same", steady(0.83, 0.02, 0.01))
    assert judged("best rule with its scores", [*lines[:3], *oracle]).verdict == "not testable"


def test_local_gaps_on_30_rows_below_the_floor_decide_nothing_in_our_claim_either():
    lines = [
        *everywhere("logofair_lg", steady(0.83, 0.02, 0.01, floor=0.07)),
        *everywhere("fcfl", steady(0.81, 0.06, 0.12, floor=0.07)),
    ]
    found = judged("than FCFL, at no lower", lines)
    assert (found.verdict, found.counts) == ("not testable", {"for": 3, "against": 0, "open": 3})


@pytest.mark.parametrize(("local", "verdict"), [(0.0129, "confirmed"), (0.0131, "not confirmed")])
def test_the_local_gap_stays_near_the_floor_at_the_tolerance(local, verdict):
    assert judged("above the noise floor", good_with(local)).verdict == verdict


def good_with(local):
    """The row of alpha 0.5, which the claim is not about, is far from the floor."""
    far = line("logofair_lg", steady(0.83, 0.2, 0.01), alpha=0.5)
    return [far, *everywhere("logofair_lg", steady(0.83, local, 0.01), alphas=(5.0, 100.0))]


@pytest.mark.parametrize(("oracle", "verdict"), [(0.834, "confirmed"), (0.836, "not confirmed")])
def test_accuracy_is_near_the_oracles(oracle, verdict):
    lines = [*good("logofair_lg"), *everywhere("oracle_same", steady(oracle, 0.02, 0.01))]
    assert judged("best rule with its scores", lines).verdict == verdict


def test_accuracy_and_global_gap_against_the_papers_rows():
    lines = good("logofair_lg")
    assert judged("accuracy at least the paper's", lines).verdict == "confirmed"
    assert judged("global gap at most the paper's", lines).verdict == "confirmed"
    wide = everywhere("logofair_lg", steady(0.83, 0.02, 0.025))
    assert judged("global gap at most the paper's", wide).verdict == "not confirmed"


def test_post_processing_after_fair_training():
    on = [line for name in ("fedfb", "fairfed", "fcfl") for line in everywhere(f"on_{name}", steady(0.82, 0.02, 0.01))]
    assert judged("Post-processing FedAvg's scores", [*good("logofair_lg"), *on]).verdict == "confirmed"


def test_of_two_runs_the_one_with_more_settings_is_judged():
    quick = [*everywhere("algorithm1_lg", steady(0.7, 0.02, 0.01), budget=3), *baselines(budget=3)]
    assert judged(BETTER, [*quick, *good(), *baselines()]).verdict == "confirmed"


def test_runs_on_other_rows_are_not_compared_with_each_other():
    few = [
        *everywhere("fedfb", steady(0.5, 0.3, 0.3), limit=100),
        *everywhere("fcfl", steady(0.5, 0.3, 0.3), limit=100),
    ]
    lines = [
        *few,
        *good(),
        *everywhere("fairfed", steady(0.8, 0.1, 0.08)),
        *everywhere("fedavg", steady(0.8, 0.1, 0.1)),
    ]
    found = judged(BETTER, lines)
    assert not any("0.5000" in text for text in found.figures)
    assert (found.verdict, found.reason.endswith("Not run: FedFB.")) == ("not testable", True)


def test_a_method_that_failed_at_one_alpha_leaves_the_claim_untested_and_is_named():
    lines = [
        each for each in [*good(), *baselines()] if (each.place["method"], each.place["alpha"]) != ("fairfed", 5.0)
    ]
    found = judged(BETTER, lines)
    assert (found.verdict, found.reason.endswith("Not run: FairFed at alpha 5.")) == ("not testable", True)
    lines = [
        each
        for each in [*good(), *baselines()]
        if (each.place["method"], each.place["alpha"]) != ("algorithm1_lg", 0.5)
    ]
    found = judged(BETTER, lines)
    assert (found.verdict, "Algorithm 1 at alpha 0.5" in found.reason) == ("not testable", True)


def vague(accuracy):
    """An accuracy whose interval holds anything; gaps as of good()."""
    return {**steady(0.83, 0.02, 0.01), "accuracy": [accuracy - 0.3, accuracy, accuracy + 0.3]}


@pytest.mark.parametrize("words", ["lower global gap than FedFB", "than FCFL, at no lower"])
def test_a_loss_that_few_seeds_cannot_rule_out_is_open_and_confirms_nothing(words):
    found = judged(words, [*everywhere("logofair_lg", vague(0.75)), *baselines()])
    assert found.verdict == "not testable"
    assert sum(text.startswith("open: ") and ", accuracy: " in text for text in found.figures) >= 3
    slight = [
        *everywhere("logofair_lg", {**steady(0.8099, 0.02, 0.01), "accuracy": [0.809, 0.810, 0.8107]}),
        *baselines(),
    ]
    assert judged("than FCFL, at no lower", slight).verdict == "confirmed"


def test_one_seed_and_rounds_that_were_not_run_say_nothing_of_the_protocol():
    single = [
        type(each)(each.place, {name: {0: values[0]} for name, values in each.values.items()}, each.settings)
        for each in rounds(0.0105)
    ]
    assert judged("exact protocol needs", single).verdict == "not testable"
    early = [each for each in rounds(0.0105) if each.place.get("level") in (None, 5)]
    assert judged("exact protocol needs", early).verdict == "not testable"


def test_a_comparison_says_where_a_figure_is_undefined():
    some = {**steady(0.83, 0.02, 0.01), "global_gap": [0.01, None, 0.0101]}
    found = judged(BETTER, [*everywhere("algorithm1_lg", some), *baselines()])
    assert all("defined in 2 of 3 seeds" in text for text in found.figures if "global gap" in text)
