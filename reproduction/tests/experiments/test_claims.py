"""Claims judged on made-up records whose verdict is known by hand."""

from __future__ import annotations

import polars as pl
import pytest

from logofair_reproduction.experiments.claims import CLAIMS, READINGS, Claim, judge, matrix
from logofair_reproduction.experiments.experiment import METHODS, experiment_names
from logofair_reproduction.experiments.summaries import FIGURES, measured
from made.results import noisy, records, steady

ALPHAS = (0.5, 5.0, 100.0)
ODDS = {"experiment": "comparison_eo", "notion": "equalized_odds"}


def judged(short, found, columns=("Adult DP",)):
    """The verdict on a claim at one place, and the comparisons it rests on."""
    verdicts, comparisons = judge(measured(found))
    (row,) = [
        row
        for row in verdicts.iter_rows(named=True)
        if (row["claim"], tuple(row["columns"])) == (short, tuple(columns))
    ]
    return row, comparisons.filter(pl.col("claim") == short, pl.col("place") == ", ".join(columns))


def verdict(short, found, columns=("Adult DP",)):
    return judged(short, found, columns)[0]["verdict"]


def everywhere(method, figures, alphas=ALPHAS, **place):
    return [record for alpha in alphas for record in records(method, figures, alpha=alpha, **place)]


def baselines(**place):
    return [
        *everywhere("fedfb", steady(0.81, 0.09, 0.07), **place),
        *everywhere("fairfed", steady(0.80, 0.10, 0.08), **place),
        *everywhere("fcfl", steady(0.81, 0.06, 0.12), **place),
    ]


def good(method="algorithm1_lg", **place):
    return everywhere(method, steady(0.83, 0.02, 0.01), **place)


def ours(figures, alpha=5.0, method="algorithm1_lg"):
    """Good at every alpha but one, where it has these figures."""
    return [
        *everywhere(method, steady(0.83, 0.02, 0.01), [a for a in ALPHAS if a != alpha]),
        *records(method, figures, alpha=alpha),
    ]


BEATS = "Beats FedFB, FairFed globally"


# What the file says


def test_every_claim_has_a_short_name_of_its_own_and_both_sources_make_claims():
    names = [claim.short for claim in CLAIMS]
    assert len(set(names)) == len(names)
    assert {claim.source for claim in CLAIMS} == {"paper", "logofair"}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.short)
def test_what_a_claim_names_exists(claim):
    assert set(claim.experiments) <= set(experiment_names())
    for each in claim.compare:
        assert set(each) <= {"one", "other", "along", "at", "reads"}
        for name in (*each["one"], *each.get("other", ())):
            assert name == "paper" or {name.format(solver=way) for way in ("algorithm1", "logofair")} <= set(METHODS)
        for figure, read in each["reads"].items():
            assert figure in (*FIGURES, "distance", "above_floor")
            assert (read if isinstance(read, str) else read[0]) in READINGS


# How a difference is read


@pytest.mark.parametrize(
    ("reads", "margin", "supports", "refutes", "leaves_open"),
    [
        ("higher", 0.0, (0.01, 0.02), (-0.02, -0.01), (-0.01, 0.02)),
        ("higher", 0.0, (0.01, 0.02), (-0.02, -0.01), (0.0, 0.0)),  # the very same shows nothing
        ("lower", 0.0, (-0.02, -0.01), (0.01, 0.02), (-0.01, 0.02)),
        ("no lower", 0.01, (-0.01, 0.03), (-0.009, -0.001), (-0.02, 0.03)),
        ("no higher", 0.01, (-0.03, 0.01), (0.001, 0.009), (-0.03, 0.02)),
        ("at most", 0.01, (-0.5, 0.01), (0.011, 0.02), (0.0, 0.02)),
        ("at least", 0.01, (0.01, 0.5), (-0.02, 0.009), (0.0, 0.02)),
        ("within", 0.01, (-0.01, 0.01), (-0.03, -0.02), (-0.02, 0.0)),
        ("within", 0.01, (-0.01, 0.01), (0.02, 0.03), (0.0, 0.02)),
        ("grows within", 0.05, (0.01, 0.05), (-0.03, -0.02), (-0.01, 0.04)),
        ("grows within", 0.05, (0.01, 0.05), (0.06, 0.08), (0.04, 0.06)),
        ("mean no lower", 0.0, (-0.01, 0.03), (-0.03, -0.01), (-0.03, 0.01)),
        ("mean no higher", 0.0, (-0.03, 0.01), (0.01, 0.03), (-0.01, 0.03)),
    ],
)
def test_intervals_are_read_as_their_names_say(reads, margin, supports, refutes, leaves_open):
    ends = pl.DataFrame([supports, refutes, leaves_open], schema=["low", "high"], orient="row")
    ends = ends.with_columns(mean=(pl.col("low") + pl.col("high")) / 2, margin=pl.lit(margin))
    for_it, against = (ends.select(rule.alias("is"))["is"].to_list() for rule in READINGS[reads])
    assert against == [False, True, False]
    assert (for_it[0], for_it[2]) == (True, False)


# What comparisons make of a claim


def test_better_everywhere_is_confirmed():
    found, comparisons = judged(BEATS, [*good(), *baselines()])
    assert (found["verdict"], found["for"], found["against"], found["open"]) == ("confirmed", 12, 0, 0)
    first = comparisons.row(0, named=True)
    assert (first["where"], first["one"], first["other"]) == ("alpha 0.5", "LoGoFair_l&g, Algorithm 1", "FedFB")
    assert (first["one_mean"], first["mean"]) == pytest.approx((0.83, 0.02))


def test_worse_in_one_row_is_not_confirmed_and_that_row_is_named():
    found, comparisons = judged(BEATS, [*ours(steady(0.805, 0.02, 0.01)), *baselines()])  # less accurate than FedFB
    assert (found["verdict"], found["against"]) == ("not confirmed", 1)
    (row,) = comparisons.filter(pl.col("state") == "against").iter_rows(named=True)
    assert (row["where"], row["figure"], row["other"]) == ("alpha 5", "accuracy", "FedFB")


def test_what_chance_alone_could_decide_is_not_testable():
    found, comparisons = judged(BEATS, [*everywhere("algorithm1_lg", noisy(0.82, 0.05, 0.06)), *baselines()])
    assert (found["verdict"], found["open"]) == ("not testable", 12)
    assert comparisons.row(0, named=True)["alike"] == 2  # +0.31, +0.01 and -0.29


def test_one_seed_decides_nothing():
    figures = {"logofair_lg": (0.83, 0.01), "fedfb": (0.81, 0.05), "fairfed": (0.81, 0.05)}
    single = [
        record
        for method, (accuracy, gap) in figures.items()
        for record in records(method, {"accuracy": [accuracy], "global_gap": [gap]})
    ]
    assert verdict("Globally fairer at no less accuracy", single) == "not testable"
    assert verdict("Accuracy at least the paper's", single) == "not testable"


def test_one_comparison_against_a_claim_refutes_it_only_beyond_what_chance_does_among_so_many():
    # Standard deviation 0.004, so the mean's error is 0.004 sqrt(1/3 + 3/7) = 0.0035. By Student's t of 2 degrees of
    # freedom the interval reaches 4.30 errors = 0.015, and among 12, where 0.05 / 12 is left, 15.4 errors = 0.054.
    def varied(mean):
        return {**steady(0.83, 0.02, 0.01), "accuracy": [mean - 0.004, mean, mean + 0.004]}

    found, comparisons = judged(BEATS, [*ours(varied(0.79)), *baselines()])
    assert (found["verdict"], found["open"]) == ("not testable", 2)  # 0.02 below FedFB, 0.01 below FairFed
    remarks = comparisons["remark"].drop_nulls().to_list()
    assert remarks == ["against by itself, but within chance for one of 12 comparisons"]
    assert verdict(BEATS, [*ours(varied(0.75)), *baselines()]) == "not confirmed"  # 0.06 below FedFB


def ablation(local_of_l):
    return [
        *everywhere("algorithm1_l", steady(0.832, local_of_l, 0.05)),
        *everywhere("algorithm1_g", steady(0.831, 0.08, 0.008)),
        *good(),
    ]


TYPICALLY = "One-sided variants fairer on one side"


def test_a_claim_about_most_rows_holds_and_falls_with_most_of_a_figure():
    assert verdict(TYPICALLY, ablation(local_of_l=0.015)) == "confirmed"
    assert verdict(TYPICALLY, ablation(local_of_l=0.03)) == "not confirmed"  # 3 of 6, but none of the local gaps
    others = ablation(0.015)[9:]
    two_of_three = [*everywhere("algorithm1_l", steady(0.832, 0.015, 0.05), (5.0, 100.0)), *others]
    worse = records("algorithm1_l", steady(0.832, 0.03, 0.05), alpha=0.5)
    assert verdict(TYPICALLY, [*two_of_three, *worse]) == "confirmed"
    one_of_three = [*everywhere("algorithm1_l", steady(0.832, 0.015, 0.05), (100.0,)), *others]
    open_ = records("algorithm1_l", noisy(0.832, 0.02, 0.05), alpha=5.0)
    assert verdict(TYPICALLY, [*one_of_three, *open_, *worse]) == "not testable"


def test_both_sides_at_a_slight_loss():
    assert verdict("Both gaps small at slight loss", ablation(0.015)) == "confirmed"
    dear = [*ablation(0.015)[:18], *everywhere("algorithm1_lg", steady(0.80, 0.09, 0.06))]
    assert verdict("Both gaps small at slight loss", dear) == "not confirmed"


# Which records are compared


def test_a_baseline_that_was_not_run_leaves_the_claim_untested_and_is_named():
    found, _ = judged(BEATS, [*good(), *everywhere("fedfb", steady(0.81, 0.09, 0.07))])
    assert (found["verdict"], found["not run"]) == ("not testable", "FairFed")
    some = [each for each in [*good(), *baselines()] if (each["method"], each["alpha"]) != ("fairfed", 5.0)]
    found, _ = judged(BEATS, some)
    assert (found["verdict"], found["not run"]) == ("not testable", "FairFed at alpha 5")


def test_the_exact_solver_is_judged_where_the_papers_procedure_was_not_run():
    _, comparisons = judged(BEATS, [*good("logofair_lg"), *baselines()])
    assert set(comparisons["one"]) == {"LoGoFair_l&g"}


def test_data_sets_and_notions_are_judged_by_themselves():
    found = [*good(), *baselines(), *good(**ODDS), *baselines(**ODDS), *good(data="enem"), *baselines(data="enem")]
    verdicts, _ = judge(measured(found))
    own = verdicts.filter(pl.col("claim") == BEATS)
    assert own["columns"].to_list() == [["Adult DP"], ["ENEM DP"], ["Adult EO"]]
    shown = matrix(verdicts)
    assert shown.columns == ["source", "claim", "Adult DP", "Adult EO", "ENEM DP"]
    (row,) = shown.filter(pl.col("claim") == BEATS).iter_rows()
    assert row == ("paper", BEATS, "✓", "✓", "✓")
    assert "Beats FCFL locally" in shown["claim"]
    assert "2 to 50 clients change little" not in shown["claim"]


def test_without_records_nothing_is_judged():
    verdicts, comparisons = judge(measured([]))
    assert (verdicts.height, comparisons.height, matrix(verdicts).columns) == (0, 0, ["source", "claim"])


def test_of_two_runs_the_one_with_more_settings_is_judged():
    quick = [*everywhere("algorithm1_lg", steady(0.7, 0.02, 0.01), budget=3), *baselines(budget=3)]
    assert verdict(BEATS, [*quick, *good(), *baselines()]) == "confirmed"


def test_a_quick_run_of_algorithm_1_gives_way_to_one_with_all_its_settings():
    quick = everywhere("algorithm1_lg", steady(0.7, 0.02, 0.01), solver_budget=4)
    assert verdict(BEATS, [*quick, *good(), *baselines()]) == "confirmed"
    assert verdict(BEATS, [*quick, *baselines()]) == "not confirmed"


def test_runs_on_other_rows_are_not_compared_with_each_other():
    few = everywhere("fedfb", steady(0.5, 0.3, 0.3), limit=100)
    found, comparisons = judged(BEATS, [*few, *good(), *everywhere("fairfed", steady(0.8, 0.1, 0.08))])
    assert "FedFB" not in comparisons["other"]
    assert (found["verdict"], found["not run"]) == ("not testable", "FedFB")


def test_a_comparison_says_where_a_figure_is_undefined():
    some = {**steady(0.83, 0.02, 0.01), "global_gap": [0.01, None, 0.0101]}
    _, comparisons = judged(BEATS, [*everywhere("algorithm1_lg", some), *baselines()])
    runs = {row["figure"]: (row["runs"], row["seeds"]) for row in comparisons.iter_rows(named=True)}
    assert runs == {"accuracy": (3, 3), "global_gap": (2, 3)}


# What noise alone explains is open


def test_a_local_gap_below_the_floor_on_both_sides_decides_nothing():
    found, comparisons = judged(
        "Beats FCFL locally",
        [
            *everywhere("algorithm1_lg", steady(0.83, 0.02, 0.01, floor=0.07)),
            *everywhere("fcfl", steady(0.81, 0.06, 0.12, floor=0.07)),
        ],
    )
    assert (found["verdict"], found["for"], found["open"]) == ("not testable", 3, 3)
    assert comparisons["remark"].drop_nulls().to_list() == ["both below the noise floor"] * 3


@pytest.mark.parametrize(("floor", "state"), [(0.01, "for"), (0.09, "open")])
def test_gaps_that_come_nearer_are_no_finding_where_the_noise_floor_falls_as_much(floor, state):
    _, comparisons = judged(
        "Gaps nearer where clients are alike",
        [
            *records("fedavg", steady(0.85, 0.20, 0.15, floor=floor), alpha=0.5),
            *records("fedavg", steady(0.85, 0.16, 0.15, floor=0.01), alpha=100.0),
        ],
    )
    assert comparisons.select("where", "state").rows() == [("alpha 100 less 0.5", state)]


REACHED = "Paper's comparison figures reached"


def test_the_papers_figures_are_reached_or_not_by_the_mean():
    varying = {**steady(0.83, 0.02, 0.01), "accuracy": [0.823, 0.825, 0.827]}  # the paper: 0.8244, within the interval
    found, comparisons = judged(REACHED, records("algorithm1_lg", varying))
    assert found["verdict"] == "confirmed"
    assert comparisons.row(0, named=True)["other_mean"] == pytest.approx(0.8244)
    assert verdict(REACHED, records("algorithm1_lg", steady(0.81, 0.02, 0.01))) == "not confirmed"
    wide = records("logofair_lg", steady(0.83, 0.02, 0.025))
    assert verdict("Accuracy at least the paper's", wide) == "confirmed"
    assert verdict("Global gap at most the paper's", wide) == "not confirmed"


def test_a_claimed_local_gap_below_the_floor_is_open():
    _, comparisons = judged(REACHED, records("algorithm1_lg", steady(0.83, 0.09, 0.01, floor=0.07), alpha=0.5))
    assert comparisons.filter(pl.col("figure") == "local_gap").select("state", "remark").rows() == [
        ("open", "the noise floor of these rows is 0.07")
    ]


def test_figures_of_the_paper_that_are_no_targets_are_left_out():
    place = {"experiment": "sensitivity_dp", "data": "celeba", "alpha": 0.5}
    found = records("algorithm1_lg", steady(0.9, 0.1, 0.1), local_tolerance=0.0, global_tolerance=0.04, **place)
    _, comparisons = judged("Paper's sensitivity figures reached", found, ("CelebA DP",))
    assert set(comparisons["figure"]) == {"local_gap", "global_gap"}


# Claims along something


def sensitivity(change):
    return [
        record
        for a in (0.0, 0.02, 0.04)
        for b in (0.0, 0.02, 0.04)
        for record in records(
            "algorithm1_lg",
            steady(0.82 + change * (a + b), 0.03 + a, 0.01 + b),
            experiment="sensitivity_dp",
            alpha=0.5,
            local_tolerance=a,
            global_tolerance=b,
        )
    ]


def test_sensitivity_compares_the_ends_with_the_other_tolerance_fixed():
    found, comparisons = judged("Tolerances trade accuracy for gaps", sensitivity(0.1))
    assert (found["verdict"], found["for"]) == ("confirmed", 12)
    assert "global tolerance 0.02, local tolerance 0.04 less 0" in comparisons["where"]
    assert verdict("Tolerances trade accuracy for gaps", sensitivity(-0.1)) == "not confirmed"


@pytest.mark.parametrize(("local", "expected"), [(0.05, "confirmed"), (0.40, "not confirmed")])
def test_more_clients_may_raise_the_local_gap_slightly(local, expected):
    found = [
        record
        for number, gap in ((2, 0.02), (10, 0.03), (50, local))
        for record in records(
            "algorithm1_lg", steady(0.83, gap, 0.01), experiment="clients_dp", alpha=0.5, clients=number
        )
    ]
    row, comparisons = judged("2 to 50 clients change little", found)
    assert (row["verdict"], set(comparisons["where"])) == (expected, {"clients 50 less 2"})


def rounds(gap_at_ten, gap_at_five=0.08):
    place = {"experiment": "rounds_dp", "alpha": 0.5}
    levels = {5: gap_at_five, 10: gap_at_ten, 100: 0.01}
    took = [
        record
        for level, gap in levels.items()
        for record in records("algorithm1_lg", steady(0.83, 0.03, gap), level=level, **place)
    ]
    return [*took, *records("protocol", steady(0.83, 0.03, 0.009, rounds=3.0), **place)]


def test_convergence_within_ten_rounds():
    name = "Algorithm 1 converges within 10 rounds"
    assert verdict(name, rounds(0.012)) == "confirmed"
    assert verdict(name, rounds(0.05)) == "not confirmed"


def test_the_protocol_needs_fewer_rounds_than_algorithm_1():
    name = "5 rounds where Algorithm 1 takes 10"
    found, comparisons = judged(name, rounds(0.0105))
    assert (found["verdict"], comparisons["where"].to_list()) == ("confirmed", ["alpha 0.5", "after 5 rounds"])
    assert verdict(name, rounds(0.0105, gap_at_five=0.0105)) == "not confirmed"
    assert verdict(name, rounds(0.0105)[9:]) == "not testable"  # the protocol alone


def test_methods_for_one_side_fail_on_the_other():
    place = {"experiment": "introduction"}
    found = [
        *records("fcfl", steady(0.81, 0.05, 0.15), alpha=0.5, **place),
        *records("fcfl", steady(0.81, 0.05, 0.08), alpha=100.0, **place),
        *records("fedfb", steady(0.81, 0.15, 0.05), alpha=0.5, **place),
        *records("fedfb", steady(0.81, 0.08, 0.05), alpha=100.0, **place),
    ]
    assert verdict("Training for one side fails the other", found) == "confirmed"


def test_notions_are_compared_on_the_same_splits():
    name, both = "Equalized odds harder than parity", ("Adult DP", "Adult EO")
    methods = ("fedavg", "fedfb", "fairfed", "fcfl", "algorithm1_lg")
    parity = [record for method in methods for record in everywhere(method, steady(0.83, 0.1, 0.1))]
    harder = [record for method in methods for record in everywhere(method, steady(0.79, 0.2, 0.2), **ODDS)]
    easier = [record for method in methods for record in everywhere(method, steady(0.84, 0.1, 0.1), **ODDS)]
    assert verdict(name, [*parity, *harder], both) == "confirmed"
    assert verdict(name, [*parity, *easier], both) == "not confirmed"


# What this package claims


def test_at_a_baselines_gaps_accuracy_decides():
    names = ("fedfb", "fairfed", "fcfl")
    halves = [each for name in names for each in everywhere(f"{name}_half", steady(0.81, 0.06, 0.06))]
    for accuracy, expected in ((0.83, "confirmed"), (0.7, "not confirmed")):
        likes = [each for name in names for each in everywhere(f"like_{name}", steady(accuracy, 0.05, 0.05))]
        assert verdict("As accurate at a baseline's gaps", [*likes, *halves]) == expected


@pytest.mark.parametrize(
    ("method", "claim", "near", "far"),
    [
        ("oracle_same", "Accuracy near the oracle's", 0.834, 0.836),
        ("oracle_elsewhere", "Labels would choose no better rule", 0.8305, 0.8315),
    ],
)
def test_accuracy_is_near_a_bounds_or_not(method, claim, near, far):
    for accuracy, expected in ((near, "confirmed"), (far, "not confirmed")):
        found = [*good("logofair_lg"), *everywhere(method, steady(accuracy, 0.02, 0.01))]
        assert verdict(claim, found) == expected
    assert verdict(claim, [*everywhere("logofair_lg", noisy(0.83, 0.02, 0.01)), *found[9:]]) == "not testable"


@pytest.mark.parametrize(("local", "expected"), [(0.0129, "confirmed"), (0.0131, "not confirmed")])
def test_the_local_gap_stays_near_the_floor_at_the_tolerance_where_clients_are_alike(local, expected):
    far = records("logofair_lg", steady(0.83, 0.2, 0.01), alpha=0.5)  # which the claim is not about
    near = everywhere("logofair_lg", steady(0.83, local, 0.01), alphas=(5.0, 100.0))
    assert verdict("Local gap near the noise floor", [*far, *near]) == expected


def test_a_loss_that_few_seeds_cannot_rule_out_is_open_and_confirms_nothing():
    vague = {**steady(0.83, 0.02, 0.01), "accuracy": [0.45, 0.75, 1.0]}
    found, comparisons = judged("Locally fairer at no less accuracy", [*everywhere("logofair_lg", vague), *baselines()])
    assert found["verdict"] == "not testable"
    assert set(comparisons.filter(pl.col("figure") == "accuracy")["state"]) == {"open"}
    slight = {**steady(0.81, 0.02, 0.01), "accuracy": [0.809, 0.810, 0.8107]}
    assert (
        verdict("Locally fairer at no less accuracy", [*everywhere("logofair_lg", slight), *baselines()]) == "confirmed"
    )
    costly = everywhere("logofair_lg", steady(0.80, 0.02, 0.01))
    assert verdict("Locally fairer at no less accuracy", [*costly, *baselines()]) == "not confirmed"


def test_any_claim_can_be_judged():
    claim = Claim(
        "paper",
        "More",
        "FedAvg is more accurate.",
        ["comparison_dp"],
        [{"one": ["fedavg"], "other": ["fedfb"], "reads": {"accuracy": "higher"}}],
    )
    found = [*everywhere("fedavg", steady(0.85, 0.2, 0.2)), *baselines()]
    verdicts, _ = judge(measured(found), [claim])
    assert verdicts.select("claim", "verdict", "for").rows() == [("More", "confirmed", 3)]
