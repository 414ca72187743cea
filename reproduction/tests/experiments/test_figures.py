"""Figures of experiments: what is drawn, how it is told apart, and that nothing depends on when it is drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair_reproduction.experiments import drawing
from logofair_reproduction.experiments.drawing import INK, apart, label_of, look_of
from logofair_reproduction.experiments.experiment import METHODS, experiment_names, load_experiment
from logofair_reproduction.experiments.figures import figures_of, place_words
from made.made_records import made_lines

KINDS = ("comparison_dp", "clients_dp", "rounds_dp", "introduction", "sensitivity_dp", "privacy_dp")
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def figures():
    return figures_of(made_lines(*KINDS, alphas=[0.5]))


def texts(figure) -> list[str]:
    return [node.text.strip() for node in ElementTree.fromstring(figure.svg).iter(f"{_SVG}text")]


def named(figures, start: str):
    (found,) = [figure for figure in figures if figure.name.startswith(start) and not figure.name.endswith("-beyond")]
    return found


def test_every_experiment_has_its_figure_under_a_name_of_its_own(figures):
    assert [figure.name.split("-")[0] for figure in figures] == ["comparison_dp", *KINDS]
    assert len({figure.name for figure in figures}) == len(figures)
    assert all(re.fullmatch(r"[\w.-]+", figure.name) for figure in figures)
    assert all(figure.png.startswith(b"\x89PNG") for figure in figures)


def test_every_degree_of_heterogeneity_has_a_comparison_of_its_own():
    drawn = figures_of(made_lines("comparison_dp", methods=["fedavg", "logofair_lg"])[::-1])
    assert [re.search(r"alpha ([\d.]+)", figure.title)[1] for figure in drawn] == ["0.5", "5", "100"]


def test_letters_stay_letters_and_the_ink_is_the_pages(figures):
    for figure in figures:
        assert len(texts(figure)) > 8
        assert INK not in figure.svg
        assert "currentColor" in figure.svg
        assert not re.search(r"<script|<style|<image|https?://(?!www\.w3\.org)", figure.svg)


def test_numbers_that_people_read_are_not_rounded():
    with drawing.style("numbers"):
        figure, (panel,) = drawing.panels(1, 1, (3.0, 2.0))
        panel.set_xlim(0.0, 0.2)
        panel.set_xticks([0.0, 0.025, 0.1255])
        svg, _ = drawing.exported(figure)
    assert {"0.0000", "0.0250", "0.1255"} <= set(re.findall(r">([^<>]+)</text>", svg))


def test_marks_of_a_comparison_are_named_beside_them(figures):
    shown = texts(named(figures, "comparison_dp"))
    for method in ("fedavg", "fedfb", "fairfed", "fcfl", "logofair_g", "logofair_l", "logofair_lg", "algorithm1_lg"):
        assert shown.count(label_of(method)) == 2, method  # once in each panel
    assert "noise floor" in shown


def test_what_a_comparison_does_not_draw_is_told(figures):
    assert "AGLFOP, the best accuracy of any rule, 0.940" in named(figures, "comparison_dp").caption


def test_hollow_marks_are_there_where_the_paper_has_figures(figures):
    hollow = re.compile(r"Hollow marks are the paper's figures")
    assert {figure.name.split("-")[0] for figure in figures if hollow.search(figure.caption)} == {
        "comparison_dp",
        "sensitivity_dp",
    }


def test_a_curve_has_its_levels_on_the_axis_and_its_names_at_the_end(figures):
    rounds, clients = texts(named(figures, "rounds_dp")), texts(named(figures, "clients_dp"))
    (plan,) = load_experiment("rounds_dp", data=["adult"])
    assert {f"{level:g}" for level in plan.levels} <= set(rounds)
    assert {"Exact protocol", "Algorithm 1, l&g", "FedAvg", "Oracle", "noise floor", "Rounds"} <= set(rounds)
    assert {"2", "50", "Clients", "LoGoFair_l&g"} <= set(clients)


def test_bounds_are_drawn_where_they_say_something(figures):
    assert texts(named(figures, "clients_dp")).count("Oracle") == 1  # its gaps are its tolerances


def test_the_introductions_figure_shows_both_gaps_of_three_methods():
    (drawn,) = figures_of(made_lines("introduction"))
    shown = texts(drawn)
    assert {"Local gap", "Global gap", "FCFL", "FedFB", "LoGoFair_l&g", "0.5", "5", "100"} <= set(shown)
    assert "Accuracy" not in shown


def test_drawn_twice_a_figure_is_the_same_to_the_byte(figures):
    again = figures_of(made_lines("clients_dp"))
    assert again == [named(figures, "clients_dp")]


def test_figures_can_stand_in_one_page(figures):
    names = [name for figure in figures for name in set(re.findall(r' id="([^"]+)"', figure.svg))]
    assert len(names) == len(set(names))
    for figure in figures:
        used = {a or b for a, b in re.findall(r"url\(#([\w-]+)\)|href=\"#([\w-]+)\"", figure.svg)}
        assert used == set(re.findall(r' id="([^"]+)"', figure.svg))


def test_drawing_leaves_matplotlib_as_it_was():
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    figures_of(made_lines("introduction"))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", experiment_names())
def test_methods_of_a_figure_differ_by_more_than_hue(name):
    drawn = [m for m in load_experiment(name)[0].methods if not METHODS[m].for_any_model and not METHODS[m].published]
    looks = [(look_of(method).marker, look_of(method).fill) for method in drawn]
    assert len(set(looks)) == len(looks)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install ./reproduction"):
        figures_of(made_lines("introduction"))


def test_figures_of_one_seed_have_no_bars_and_can_be_drawn():
    (drawn,) = figures_of(made_lines("clients_dp", splits=1))
    assert drawn.caption.startswith("One seed. The grey area")


def test_a_figure_nobody_could_measure_is_left_out():
    lines = [line for line in made_lines("comparison_dp") if METHODS[line.place["method"]].for_any_model]
    assert figures_of(lines) == []


@pytest.mark.parametrize(
    ("experiment", "method", "number"),
    [
        *(("rounds_dp", method, 0) for method in ("fedavg", "protocol", "aglfop")),
        *(("clients_dp", method, number) for method, number in (("oracle", 1), ("aglfop", 0))),
        *(("sensitivity_dp", method, number) for method, number in (("oracle", 0), ("algorithm1_lg", 1))),
        *(("comparison_dp", method, number) for method, number in (("oracle", 1), ("like_fedfb", 0))),
    ],
)
def test_a_run_of_one_method_has_a_figure_where_there_is_something_to_draw(experiment, method, number):
    assert len(figures_of(made_lines(experiment, methods=[method], alphas=[0.5]))) == number


def test_a_method_measured_at_one_place_is_a_mark_there():
    lines = made_lines("clients_dp", methods=["fedavg", "logofair_lg"])
    (drawn,) = figures_of([line for line in lines if line.place["method"] == "fedavg" or line.place["clients"] == 50])
    assert "LoGoFair_l&g" in texts(drawn)


def test_places_are_told_in_words():
    place = {"data": "enem", "clients": None, "alpha": None}
    assert place_words(place) == "ENEM microdata (INEP, Brazil), natural clients"


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0, 12))
def test_labels_are_apart_inside_and_in_their_order(wanted, distance):
    placed = apart(wanted, distance, 0.0, 100.0)
    ranked = placed[np.argsort(wanted, kind="stable")]
    assert np.all(np.diff(ranked) >= distance - 1e-9)
    assert placed.min() >= -1e-9
    assert placed.max() <= max(100.0, distance * (len(wanted) - 1)) + 1e-9


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True))
def test_labels_that_do_not_collide_stay_where_they_are(wanted):
    assert apart([5.0 * each for each in wanted], 5.0, 0.0, 100.0).tolist() == pytest.approx([5.0 * w for w in wanted])


def test_pictures_of_a_page_say_the_same_in_fewer_letters(figures):
    svgs = [figure.svg for figure in figures]
    shorter, sheet = drawing.in_page(svgs)
    rules = dict(re.findall(r"\.(d\d+)\{([^}]*)\}", sheet))
    assert sum(map(len, shorter)) + len(sheet) < 0.75 * sum(map(len, svgs))
    names = [name for svg in shorter for name in re.findall(r' id="([^"]+)"', svg)]
    assert len(names) == len(set(names))
    for before, after in zip(svgs, shorter, strict=True):
        styles = [rules[name] for name in re.findall(r' class="(d\d+)"', after)]
        assert styles == re.findall(r' style="([^"]*)"', before)
        assert re.findall(r' d="([^"]*)"', after) == re.findall(r' d="([^"]*)"', before)
        used = {a or b for a, b in re.findall(r"url\(#([\w-]+)\)|href=\"#([\w-]+)\"", after)}
        assert used == set(re.findall(r' id="([^"]+)"', after))


@pytest.mark.parametrize(
    ("number", "shown"),
    [("0.004", "0"), ("-0.004", "0"), ("-0.504", "-.5"), ("2.346", "2.35"), ("10.04", "10"), ("-123.46", "-123.5")],
)
def test_numbers_of_pictures_have_as_many_digits_as_are_seen(number, shown):
    assert drawing._shorter(f'<path x="{number}"/>') == f'<path x="{shown}"/>'


def test_lines_of_one_look_are_one_path():
    look = 'style="fill: none; stroke: red"'
    drawn = f'<path d="M 1 2 L 1 5 " {look}/>\n<path d="M 3 2 L 4 5 " {look}/>'
    assert drawing._shorter(drawn) == '<path d="M1 2V5M3 2L4 5" style="fill:none;stroke:red"/>'
