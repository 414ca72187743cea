"""Tables of lines: which rows and figures they hold, and their three renderings against ones written by hand."""

from __future__ import annotations

import math

import pytest

from logofair_reproduction.experiments.summaries import difference, doubtful_figures
from logofair_reproduction.experiments.tables import Cell, Table, as_latex, as_markdown, as_text, tables_of
from made.results import line

# Mean 0.83; standard deviation 0.01, error 0.01 sqrt(1/3 + 3/7), times the quantile 4.3027 of t with 2 degrees: 0.0376.
VARIED = [0.82, 0.83, 0.84]


def gaps(of=0.0):
    names = ("local_gap", "local_gap_30", "global_gap", "floor", "floor_at_tolerance")
    return {name: [of, of, of] for name in names}


def small_lines():
    return [
        line("logofair_lg", {"accuracy": VARIED, **gaps(0.02)}),
        line("fedfb", {"accuracy": [0.81, 0.81, 0.81], **gaps(0.05), "local_gap_30": [0.05, None, 0.05]}),
        line("aglfop", {"accuracy": [0.9, 0.9, 0.9]}),
    ]


def result_rows(lines):
    return tables_of(lines)[0].rows


def test_a_table_in_a_terminal():
    text = as_text(tables_of(small_lines())[0])
    assert text.startswith("Comparison, demographic parity: Adult (UCI)\nThe paper's main table")
    assert text.split("\n\n", 1)[1].splitlines() == [
        "method                    accuracy     local gap    on 30+ rows  floor  at tol.    global gap  seeds",
        "----------------------------------------------------------------------------------------------------",
        "alpha 5",
        "FedFB                 0.810 ±0.000  0.050 ±0.000  0.050 ±0.000ᵃ  0.050    0.050  0.050 ±0.000      3",
        "  paper                     0.8243        0.1134                                       0.0658",
        "LoGoFair_l&g          0.830 ±0.038  0.020 ±0.000   0.020 ±0.000  0.020    0.020  0.020 ±0.000      3",
        "  paper                     0.8244        0.0259                                       0.0138",
        "AGLFOP, best of any   0.900 ±0.000             -              -      -        -             -      3",
        "  rule",
        "ᵃ defined in 2 of 3 seeds.",
    ]
    assert max(map(len, text.splitlines())) <= 100


def test_a_table_in_markdown():
    markdown = as_markdown(tables_of(small_lines())[0]).splitlines()
    assert markdown[0] == "### Comparison, demographic parity: Adult (UCI)"
    assert markdown[4:] == [
        "| method | accuracy | local gap | on 30+ rows | floor | at tol. | global gap | seeds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        "| **alpha 5** |  |  |  |  |  |  |  |",
        "| FedFB | 0.8100 ±0.0000 (paper 0.8243) | 0.0500 ±0.0000 (paper 0.1134) | 0.0500 ±0.0000ᵃ | 0.0500 | 0.0500 "
        "| 0.0500 ±0.0000 (paper 0.0658) | 3 |",
        "| LoGoFair_l&g | 0.8300 ±0.0376 (paper 0.8244) | 0.0200 ±0.0000 (paper 0.0259) | 0.0200 ±0.0000 | 0.0200 "
        "| 0.0200 | 0.0200 ±0.0000 (paper 0.0138) | 3 |",
        "| AGLFOP, best of any rule | 0.9000 ±0.0000 | - | - | - | - | - | 3 |",
        "",
        "ᵃ defined in 2 of 3 seeds.  ",
    ]


def test_a_table_in_latex():
    latex = as_latex(tables_of(small_lines())[0]).splitlines()
    assert latex[2:] == [
        r"\small",
        r"\begin{tabular}{lrrrrrrr}",
        r"\toprule",
        r"method & accuracy & local gap & on 30+ rows & floor & at tol. & global gap & seeds \\",
        r"\midrule",
        r"\addlinespace",
        r"\multicolumn{8}{l}{\textit{alpha 5}} \\",
        r"FedFB & 0.8100 $\pm$0.0000 & 0.0500 $\pm$0.0000 & 0.0500 $\pm$0.0000\textsuperscript{a} & 0.0500 & 0.0500 "
        r"& 0.0500 $\pm$0.0000 & 3 \\",
        r"\quad paper & 0.8243 & 0.1134 &  &  &  & 0.0658 &  \\",
        r"LoGoFair\_l\&g & 0.8300 $\pm$0.0376 & 0.0200 $\pm$0.0000 & 0.0200 $\pm$0.0000 & 0.0200 & 0.0200 "
        r"& 0.0200 $\pm$0.0000 & 3 \\",
        r"\quad paper & 0.8244 & 0.0259 &  &  &  & 0.0138 &  \\",
        r"AGLFOP, best of any rule & 0.9000 $\pm$0.0000 & - & - & - & - & - & 3 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par{\footnotesize \textsuperscript{a} defined in 2 of 3 seeds.}",
        r"\end{table}",
    ]
    assert r"95 \% intervals" in latex[1]


@pytest.mark.parametrize(("char", "escaped"), [("_", r"\_"), ("&", r"\&"), ("%", r"\%"), ("\\", r"\textbackslash{}")])
def test_latex_escapes_what_has_a_meaning_there(char, escaped):
    assert f"a{escaped}b" in as_latex(Table("t", "", ("x",), ((f"a{char}b", "1"),)))


def test_markdown_escapes_what_ends_a_cell():
    assert r"a\|b" in as_markdown(Table("t", "", ("x", "y"), (("a|b", "1"),)))


def test_methods_are_compared_split_by_split():
    _, table = tables_of(small_lines())
    heading, (label, accuracy, p, *_, seeds) = table.rows
    assert (heading, label, seeds) == (("alpha 5",), "FedFB", "3")
    assert accuracy.text() == "+0.0200 ±0.0376"
    statistic = 0.02 / (0.01 * math.sqrt(1 / 3 + 3 / 7))
    assert p == f"{1 - statistic / math.sqrt(statistic**2 + 2):.3f}"  # Student's t with 2 degrees has this closed form


def test_a_difference_says_where_it_is_defined_in_fewer_splits():
    _, table = tables_of(small_lines())
    assert table.rows[1][3].note
    assert table.remarks == ("ᵃ defined in 2 of 3 seeds.",)


def test_a_rule_at_a_baselines_gaps_is_compared_with_that_baseline():
    more = line("like_fedfb", {"accuracy": [0.82, 0.82, 0.82], **gaps()}, local_tolerance=None, global_tolerance=None)
    _, table = tables_of([*small_lines(), more])
    label, accuracy, *_ = table.rows[-1]
    assert (label, accuracy.text()) == ("FedFB, at its own gaps", "+0.0100 ±0.0000")


def test_bounds_are_not_compared_and_nothing_to_compare_makes_no_table():
    tables = tables_of([line("fedavg", {"accuracy": VARIED}), line("oracle", {"accuracy": VARIED})])
    assert len(tables) == 1


def test_rows_follow_alpha_and_the_list_of_methods_whatever_the_order_of_the_records():
    found = [
        line(method, {"accuracy": VARIED}, alpha=alpha)
        for alpha in (100.0, 0.5)
        for method in ("oracle", "logofair_lg", "fedavg")
    ]
    names = [row[0] for row in result_rows(found)]
    methods = ["FedAvg", "LoGoFair_l&g", "Oracle, best with these scores"]
    assert names == ["alpha 0.5", *methods, "alpha 100", *methods]


def test_a_sensitivity_table_has_a_row_for_every_pair_of_tolerances():
    found = [
        line("logofair_lg", {"accuracy": VARIED}, experiment="sensitivity_dp", local_tolerance=a, global_tolerance=b)
        for a, b in ((0.02, 0.0), (0.0, 0.02), (0.0, 0.0))
    ]
    assert [row[0] for row in result_rows(found)] == ["LoGoFair_l&g", "0.00, 0.00", "0.02, 0.00", "0.00, 0.02"]


def test_a_curve_has_a_row_for_every_point_and_the_protocol_says_its_own_rounds():
    found = [line("algorithm1_lg", {"accuracy": VARIED}, experiment="rounds_dp", level=n) for n in (10, 2)]
    found.append(line("protocol", {"accuracy": VARIED, "rounds": [2.0, 3.0, 4.0]}, experiment="rounds_dp"))
    names = [row[0] for row in result_rows(found)]
    assert names == ["LoGoFair_l&g, Algorithm 1", "2", "10", "LoGoFair_l&g, exact protocol", "3.0, then it ends"]


def test_natural_clients_and_groups_are_named():
    natural = line("fedavg", {"accuracy": VARIED}, experiment="natural", data="acs", alpha=None, limit=200_000)
    assert "200,000 rows of it" in tables_of([natural])[0].title
    assert result_rows([natural])[0] == ("natural clients",)
    by_race = line("fedavg", {"accuracy": VARIED}, experiment="groups", sensitive="race")
    assert "groups by race" in tables_of([by_race])[0].title


def test_runs_with_other_budgets_and_data_have_their_own_tables():
    places = ({}, {"budget": 3}, {"data": "enem"})
    assert len(tables_of([line("fedavg", {"accuracy": VARIED}, **place) for place in places])) == 3


def test_figures_of_the_paper_that_repeat_are_marked_as_no_targets():
    table = tables_of([line("fairfed", {"accuracy": VARIED, **gaps()}, alpha=100.0)])[0]
    (remark,) = table.remarks
    assert "same for both notions" in remark
    _, accuracy, local, *_ = table.rows[1]
    assert (accuracy.claimed_text, local.claimed_text) == ("0.8267", "0.0977ᵃ")


def test_columns_that_differ_by_one_amount_are_found_by_rule():
    place = {"experiment": "sensitivity_dp", "method": "logofair_lg", "local_tolerance": 0.0}
    celeba = doubtful_figures(place | {"data": "celeba", "global_tolerance": 0.02})
    assert list(celeba) == ["accuracy", "local_gap", "global_gap"]
    assert "0.1600 in 6 of 9" in celeba["accuracy"]
    assert not doubtful_figures(place | {"data": "adult", "global_tolerance": 0.02})
    assert not doubtful_figures(place | {"data": "celeba", "global_tolerance": 0.0})


def test_accuracy_without_requirements_may_be_the_same_for_both_notions():
    assert not doubtful_figures({"experiment": "comparison_dp", "method": "fedavg", "data": "adult", "alpha": 0.5})


def test_the_interval_of_a_gap_ends_at_0():
    wide = line("logofair_lg", {"local_gap": [0.0, 0.01, 0.02], "accuracy": [0.0, 0.01, 0.02]})
    # 0.01 sqrt(1/3 + 3/7) is the mean's error, and Student's t of 2 degrees of freedom 4.303: 0.0376.
    assert Cell(wide.figure("local_gap")).text() == "0.0100 0–0.0476"
    assert Cell(wide.figure("accuracy")).text() == "0.0100 ±0.0376"
    other = line("fedfb", {"local_gap": [0.0, 0.0, 0.0]})
    assert difference(wide, other, "local_gap").low == pytest.approx(-0.0276, abs=1e-4)  # a difference may be below


def test_one_seed_has_no_interval_and_an_undefined_figure_is_a_dash():
    row = result_rows([line("fedavg", {"accuracy": [0.8], "global_gap": [None]})])[1]
    assert [cell.text() for cell in row[1:3]] == ["0.8000", "-"]
    assert str(Cell(None)) == "-"


def test_more_notes_than_letters_have_two():
    seeds = 60
    lines = [
        line("logofair_lg", {"accuracy": [0.8] * known + [None] * (seeds - known)}, alpha=float(known))
        for known in range(1, seeds)
    ]
    table = tables_of(lines)[0]
    marks = [remark.split()[0] for remark in table.remarks]
    assert len(set(marks)) == len(marks) == len(table.notes) == seeds - 1
    assert marks[23:28] == ["ʸ", "ᶻ", "ᵃᵃ", "ᵃᵇ", "ᵃᶜ"]
    assert r"\textsuperscript{a}\textsuperscript{b} defined in" in as_latex(table)


def test_a_caption_says_which_lines_saw_test_labels_and_how_coins_are_counted():
    figures = {"accuracy": [0.8, 0.8]}
    caption = tables_of([line(name, figures) for name in ("logofair_lg", "oracle", "aglfop")])[0].caption
    seen = (
        "Bounds are not methods; they are found with the test rows' labels: Oracle, best with these scores; AGLFOP, "
        "best of any rule."
    )
    assert seen in caption
    assert "Rules that toss coins are measured by their chances." in caption
    plain = tables_of([line("fedavg", figures)])[0].caption
    assert ("labels of the test rows" in plain, "coins" in plain) == (False, False)
