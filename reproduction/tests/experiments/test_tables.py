"""Tables: which rows and figures they hold, and their Markdown against one written by hand."""

from __future__ import annotations

import math

import polars as pl

from logofair_reproduction.experiments.summaries import measured
from logofair_reproduction.experiments.tables import Table, as_markdown, tables_of
from made.results import records

# Mean 0.83; standard deviation 0.01, error 0.01 sqrt(1/3 + 3/7), times the quantile 4.3027 of t with 2 degrees: 0.0376.
VARIED = [0.82, 0.83, 0.84]


def tables(*found):
    return tables_of(measured([record for each in found for record in each]))


def gaps(of=0.0):
    names = ("local_gap", "local_gap_30", "global_gap", "floor", "floor_at_tolerance")
    return {name: [of, of, of] for name in names}


SMALL = (
    records("logofair_lg", {"accuracy": VARIED, **gaps(0.02)}),
    records("fedfb", {"accuracy": [0.81, 0.81, 0.81], **gaps(0.05), "local_gap_30": [0.05, None, 0.05]}),
    records("aglfop", {"accuracy": [0.9, 0.9, 0.9]}),
)


def test_a_table_in_markdown():
    text = as_markdown(tables(*SMALL)[0])
    assert text.startswith("### Comparison, demographic parity: Adult (UCI)\n\nThe paper's main table")
    title, ruler, *rows = text.rstrip().split("\n\n")[-1].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (title, *rows)]
    assert cells == [
        ["alpha", "method", "accuracy", "local gap", "on 30+ rows", "floor", "at tol.", "global gap", "seeds"],
        [
            *("5", "FedFB", "0.810 ±0.000 (0.8243)", "0.050 ±0.000 (0.1134)", "0.050 ±0.000, 2 seeds"),
            *("0.050", "0.050", "0.050 ±0.000 (0.0658)", "3"),
        ],
        [
            *("5", "LoGoFair_l&g", "0.830 ±0.038 (0.8244)", "0.020 ±0.000 (0.0259)", "0.020 ±0.000"),
            *("0.020", "0.020", "0.020 ±0.000 (0.0138)", "3"),
        ],
        ["5", "AGLFOP, best of any rule", "0.900 ±0.000", "-", "-", "-", "-", "-", "3"],
    ]
    assert {len(line) for line in (title, ruler, *rows)} == {len(title)}
    assert set(ruler) == {"|", "-"}


def test_a_cell_is_never_cut_and_a_table_shows_all_rows():
    rows = pl.DataFrame({"x": ["long " * 50] * 200})
    text = as_markdown(Table("", "Title", "Caption.", rows))
    assert text.count("long " * 49) == 200


def test_differences_are_split_by_split_with_paired_p():
    _, table = tables(*SMALL)
    (row,) = table.rows.iter_rows(named=True)
    statistic = 0.02 / (0.01 * math.sqrt(1 / 3 + 3 / 7))
    p = 1 - statistic / math.sqrt(statistic**2 + 2)  # Student's t with 2 degrees has this closed form
    assert (row["less"], row["accuracy"]) == ("FedFB", f"+0.020 ±0.038 (p {p:.3f})")
    assert row["local gap, 30+ rows"] == "-0.030 ±0.000, 2 seeds (p <0.001)"


def test_a_rule_at_a_baselines_gaps_is_compared_with_that_baseline():
    more = records(
        "like_fedfb", {"accuracy": [0.82, 0.82, 0.82], **gaps()}, local_tolerance=None, global_tolerance=None
    )
    _, table = tables(*SMALL, more)
    row = table.rows.row(-1, named=True)
    assert (row["less"], row["accuracy"]) == ("FedFB, at its own gaps", "+0.010 ±0.000 (p <0.001)")


def test_bounds_are_not_compared_and_nothing_to_compare_makes_no_table():
    assert len(tables(records("fedavg", {"accuracy": VARIED}), records("oracle", {"accuracy": VARIED}))) == 1


def test_rows_follow_alpha_and_the_list_of_methods_whatever_the_order_of_the_records():
    found = [
        records(method, {"accuracy": VARIED}, alpha=alpha)
        for alpha in (100.0, 0.5)
        for method in ("oracle", "logofair_lg", "fedavg")
    ]
    methods = ["FedAvg", "LoGoFair_l&g", "Oracle, best with these scores"]
    expected = [(alpha, method) for alpha in ("0.5", "100") for method in methods]
    assert tables(*found)[0].rows.select("alpha", "method").rows() == expected


def test_a_sensitivity_table_has_a_row_for_every_pair_of_tolerances():
    pairs = ((0.02, 0.0), (0.0, 0.02), (0.0, 0.0))
    place = {"experiment": "sensitivity_dp"}
    found = [
        records("logofair_lg", {"accuracy": VARIED}, local_tolerance=a, global_tolerance=b, **place) for a, b in pairs
    ]
    rows = tables(*found)[0].rows
    assert rows.select("local tolerance", "global tolerance").rows() == [("0", "0"), ("0.02", "0"), ("0", "0.02")]


def test_a_curve_has_a_row_for_every_point_and_the_protocol_says_its_own_rounds():
    found = [records("algorithm1_lg", {"accuracy": VARIED}, experiment="rounds_dp", level=n) for n in (10, 2)]
    found.append(records("protocol", {"accuracy": VARIED, "rounds": [2.0, 3.0, 4.0]}, experiment="rounds_dp"))
    assert tables(*found)[0].rows.select("method", "rounds").rows() == [
        ("LoGoFair_l&g, Algorithm 1", "2"),
        ("LoGoFair_l&g, Algorithm 1", "10"),
        ("LoGoFair_l&g, exact protocol", "3.0, then it ends"),
    ]


def test_natural_sites_and_groups_are_named():
    (natural,) = tables(
        records("fedavg", {"accuracy": VARIED}, experiment="natural", data="acs", alpha=None, limit=200_000)
    )
    assert "200,000 rows of it" in natural.title
    assert natural.rows["alpha"].to_list() == ["natural"]
    (by_race,) = tables(records("fedavg", {"accuracy": VARIED}, experiment="groups", sensitive="race"))
    assert "groups by race" in by_race.title


def test_runs_with_other_budgets_and_data_have_their_own_tables():
    places = ({}, {"budget": 3}, {"data": "enem"})
    assert len(tables(*(records("fedavg", {"accuracy": VARIED}, **place) for place in places))) == 3


def test_figures_of_the_paper_that_repeat_are_marked_as_no_targets():
    (table,) = tables(records("fairfed", {"accuracy": VARIED, **gaps()}, alpha=100.0))
    row = table.rows.row(0, named=True)
    assert (row["accuracy"][-8:], row["local gap"][-9:]) == ("(0.8267)", "(0.0977*)")
    assert "*: no target, for the paper's figure is the same for both notions" in table.caption


def test_a_caption_says_which_lines_saw_test_labels_and_how_coins_are_counted():
    figures = {"accuracy": [0.8, 0.8]}
    caption = tables(*(records(name, figures) for name in ("logofair_lg", "oracle", "aglfop")))[0].caption
    assert "with the test rows' labels: Oracle, best with these scores; AGLFOP, best of any rule." in caption
    assert "Rules that toss coins are measured by their chances." in caption
    plain = tables(records("fedavg", figures))[0].caption
    assert ("test rows' labels" in plain, "coins" in plain) == (False, False)
