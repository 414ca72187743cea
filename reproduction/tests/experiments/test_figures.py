"""Figures of experiments: what is drawn where, and how methods are told apart."""

from __future__ import annotations

import io

import matplotlib
import polars as pl
import pytest
from matplotlib.figure import Figure as Drawing
from PIL import Image

from logofair_reproduction.experiments import figures
from logofair_reproduction.experiments.experiment import METHODS, experiment_names, load_experiment
from logofair_reproduction.experiments.figures import draw_points, figures_of, look_of
from logofair_reproduction.experiments.summaries import lines, measured
from made.made_records import made_records

KINDS = ("comparison_dp", "clients_dp", "rounds_dp", "introduction", "sensitivity_dp", "privacy_dp")


def made(*experiments, **narrowed):
    return lines(measured([record for name in experiments for record in made_records(name, **narrowed)]))


@pytest.fixture(name="drawn")
def _drawn(monkeypatch):
    """The figures as matplotlib has them, before they are pictures."""
    found = []
    monkeypatch.setattr(figures, "_png", lambda drawing: found.append(drawing) or b"")
    return found


def legend(drawing):
    return [text.get_text() for text in drawing.legends[0].get_texts()]


def test_every_kind_of_experiment_has_its_figure_and_it_is_a_picture():
    found = figures_of(made(*KINDS, alphas=[0.5]))
    assert [figure.experiment for figure in found] == list(KINDS)
    for figure in found:
        picture = Image.open(io.BytesIO(figure.png))
        assert picture.width > 500
        assert len(picture.getcolors()) > 8
        assert figure.title
        assert figure.caption.endswith(".")


def test_a_mark_is_where_its_means_are_and_a_hollow_one_where_the_papers_are():
    summed = made("comparison_dp", alphas=[0.5], methods=["fedfb"])
    axes = Drawing().subplots()
    draw_points(axes, summed, "global_gap")
    filled, hollow = (line.get_xydata()[0].tolist() for line in axes.lines if len(line.get_xydata()))
    means = dict(summed.select("figure", "mean").rows())
    assert filled == pytest.approx([means["global_gap"], means["accuracy"]])
    assert hollow == [0.0767, 0.8158]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left <= min(filled[0], hollow[0]) <= max(filled[0], hollow[0]) < right
    assert low < 0.8158 < means["accuracy"] < high


def test_a_comparison_has_two_panels_for_every_degree_of_heterogeneity(drawn):
    figures_of(made("comparison_dp")[::-1])
    (drawing,) = drawn
    titles = [axes.get_title(loc="left") for axes in drawing.axes]
    assert titles == ["alpha 0.5", "alpha 5", "alpha 100", "", "", ""]
    assert {"FedAvg", "FedFB", "LoGoFair_l&g", "LoGoFair_l&g, Algorithm 1"} <= set(legend(drawing))
    assert not {METHODS[name].title for name in ("aglfop", "like_fedfb")} & set(legend(drawing))


def test_a_curve_runs_through_its_means_and_a_method_that_nothing_varies_is_level(drawn):
    summed = made("rounds_dp")
    figures_of(summed)
    accuracy, _, gap = drawn[0].axes
    own = summed.filter(pl.col("method") == "algorithm1_lg", pl.col("figure") == "accuracy").sort("level")
    curves = [line.get_xydata() for line in accuracy.lines if len(line.get_xydata()) == own.height]
    assert any(curve.tolist() == own.select("level", "mean").to_numpy().tolist() for curve in curves)
    level = [path[:, 0].tolist() for found in accuracy.collections for path in found.get_segments()]
    assert [2.0, 100.0] in level  # from the protocol's own rounds on
    assert METHODS["oracle"].title in legend(drawn[0])
    oracles = look_of("oracle")["marker"]
    assert oracles in [line.get_marker() for line in accuracy.lines]
    assert oracles not in [line.get_marker() for line in gap.lines]  # its gaps are its tolerances


def test_the_introductions_figure_shows_both_gaps_and_a_sensitivity_both_solvers(drawn):
    figures_of(made("introduction", "sensitivity_dp"))
    introduction, sensitivity = drawn
    assert [axes.get_title(loc="left") for axes in introduction.axes] == ["Local gap", "Global gap"]
    assert len(sensitivity.axes) == 6
    assert legend(sensitivity) == [f"global tolerance {tolerance}" for tolerance in ("0", "0.02", "0.04")]


@pytest.mark.parametrize("name", experiment_names())
def test_methods_of_a_figure_differ_by_more_than_hue(name):
    drawn = [method for method in load_experiment(name)[0].methods if method in figures._LOOKS]
    looks = [(look_of(method)["marker"], look_of(method)["fillstyle"]) for method in drawn]
    assert len(set(looks)) == len(looks)


def test_drawing_leaves_matplotlib_as_it_was():
    before = dict(matplotlib.rcParams)
    figures_of(made("introduction"))
    assert dict(matplotlib.rcParams) == before


def test_one_seed_can_be_drawn_and_what_cannot_be_is_left_out():
    assert len(figures_of(made("clients_dp", splits=1))) == 1
    assert figures_of(made("comparison_dp", methods=["aglfop"])) == []
    assert figures_of(made("rounds_dp", methods=["fedavg", "protocol"])) == []
    assert figures_of(made("sensitivity_dp", methods=["oracle"])) == []
