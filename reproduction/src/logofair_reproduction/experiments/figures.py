"""Figures of experiments: accuracy against gaps, curves along what an experiment varies, tolerances side by side.

Which figure an experiment has follows from its plan. Colours are those of Okabe and Ito, which colour-blind readers
tell apart, and every method has a mark of its own besides: no figure means anything by hue alone.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from PIL import Image

from logofair.columns.checks import Floats
from logofair_reproduction.experiments.experiment import METHODS, Experiment, load_experiment
from logofair_reproduction.experiments.tables import SUBJECT, axis_of, subject_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


_AXES = {"accuracy": "Accuracy", "local_gap": "Local gap", "global_gap": "Global gap"}
_BARS = "Bars are 95 % intervals of the mean; where they leave the frame they are cut."
_HOLLOW = "Hollow marks are the paper's figures."
_FLOOR = "The grey area is the noise floor: the largest local gap that a rule without any gap shows by chance."
# Whose noise floor is drawn: it depends on how many each rule accepts, though little.
_FLOOR_OF = ("logofair_lg", "protocol", "algorithm1_lg", "fedavg")
_INK, _ORANGE, _SKY, _GREEN = "#1b2230", "#E69F00", "#56B4E9", "#009E73"
_BLUE, _RED, _PURPLE = "#0072B2", "#D55E00", "#CC79A7"
# Colour, mark and line; half a mark is Algorithm 1 in place of the exact solver.
_LOOKS = {
    "fedavg": (_INK, "p", ":"),
    "fedfb": (_ORANGE, "s", "--"),
    "fairfed": (_SKY, "^", "-."),
    "fcfl": (_PURPLE, "D", "--"),
    "logofair_g": (_GREEN, "P", "-"),
    "logofair_l": (_RED, "X", "-"),
    "logofair_lg": (_BLUE, "o", "-"),
    "algorithm1_g": (_GREEN, "P", "--"),
    "algorithm1_l": (_RED, "X", "--"),
    "algorithm1_lg": (_BLUE, "o", "--"),
    "protocol": (_SKY, "s", ":"),
    "private": (_RED, "v", "-"),
    "binned": (_GREEN, "H", "--"),
    "oracle": (_INK, "*", "-."),
}
_BY_TOLERANCE = ((_BLUE, "o", "-"), (_RED, "s", "--"), (_GREEN, "^", ":"), (_PURPLE, "D", "-."))
_STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    **{"axes.titlesize": 9.0, "axes.titleweight": "bold", "axes.titlelocation": "left"},
    **{f"axes.spines.{side}": False for side in ("top", "right")},
    **{"axes.grid": True, "grid.alpha": 0.2, "grid.linewidth": 0.5, "lines.markersize": 6.0},
}


@dataclass(frozen=True)
class Figure:
    """A figure of an experiment on one data set."""

    experiment: str
    title: str
    caption: str
    png: bytes


def figures_of(summed: pl.DataFrame) -> list[Figure]:
    """Draw all figures of some lines (:func:`summaries.lines`)."""
    from matplotlib import rc_context

    made = []
    for part in summed.partition_by(SUBJECT, maintain_order=True):
        place = part.row(0, named=True)
        plan = load_experiment(place["experiment"])[0]
        drawn = part.filter(pl.col("method").is_in(list(_LOOKS)))
        with rc_context(_STYLE):
            if plan.shows == "curve":
                found = _curves(plan, drawn)
            elif len(plan.tolerances) > 1:
                found = _sensitivity(drawn)
            else:
                found = _comparison(drawn)
            if found is not None:
                made.append(Figure(plan.name, f"{plan.title}: {subject_words(place)}", found[1], _png(found[0])))
    return made


def _png(drawing: Drawing) -> bytes:
    """The figure in 64 colours: a third of the bytes, and as sharp."""
    drawn, small = io.BytesIO(), io.BytesIO()
    drawing.savefig(drawn, format="png", dpi=120)
    Image.open(drawn).convert("RGB").quantize(64).save(small, "png", optimize=True)
    return small.getvalue()


def look_of(method: str) -> dict[str, Any]:
    """How a method is drawn, the same in every figure: arguments for matplotlib's lines."""
    fill = "left" if METHODS[method].solver == "algorithm1" else "full"
    return _look(*_LOOKS[method]) | {"label": METHODS[method].title, "fillstyle": fill, "markerfacecoloralt": "white"}


def _look(colour: str, marker: str, line: str) -> dict[str, Any]:
    return {"color": colour, "marker": marker, "ls": line, "lw": 1.2, "elinewidth": 0.8, "ecolor": (colour, 0.5)}


def _hollow(look: Mapping[str, Any]) -> dict[str, Any]:
    return {"color": look["color"], "marker": look["marker"], "ls": "none", "fillstyle": "none", "alpha": 0.7}


def _reach(own: pl.DataFrame) -> Floats:
    """Bars' lengths below and above the means, as matplotlib takes them; none with one seed."""
    reach = own.select(below=pl.col("mean") - pl.col("low"), above=pl.col("high") - pl.col("mean"))
    return reach.fill_null(0.0).to_numpy().T


def _fit(values: Sequence[float], *, from_0: bool) -> tuple[float, float]:
    """The ends of an axis that shows all means; bars may leave it, lest they make the means small."""
    low, high = (0.0 if from_0 else min(values)), max(values)
    room = 0.15 * max(high - low, 0.004)
    return (0.0 if from_0 else low - room), high + room


def _of(part: pl.DataFrame, figure: str) -> pl.DataFrame:
    return part.filter(pl.col("figure") == figure)


def _floor(part: pl.DataFrame) -> pl.DataFrame:
    """One method's noise floor."""
    floors = _of(part, "floor")
    own = (floors.filter(pl.col("method") == name) for name in _FLOOR_OF)
    return next((each for each in own if each.height), floors.head(0))


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Drawing, list[list[Axes]]]:
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def _legend(figure: Drawing, panels: Sequence[Sequence[Axes]]) -> None:
    """One legend below all panels, each name once."""
    pairs = [axes.get_legend_handles_labels() for row in panels for axes in row]
    names = {label: handle for handles, labels in pairs for handle, label in zip(handles, labels, strict=True)}
    figure.legend(names.values(), names.keys(), loc="outside lower center", ncols=min(len(names), 4), frameon=False)


def draw_points(axes: Axes, part: pl.DataFrame, gap: str) -> None:
    """Draw accuracy against a gap, a mark for every method at one place, hollow ones for the paper's figures."""
    both = _of(part, gap).join(_of(part, "accuracy"), on="method", suffix="_y")
    for name in (name for name in _LOOKS if name in both["method"]):
        x, y = (_of(part, figure).filter(pl.col("method") == name) for figure in (gap, "accuracy"))
        axes.errorbar(x["mean"], y["mean"], xerr=_reach(x), yerr=_reach(y), **look_of(name) | {"ls": "none"})
        if METHODS[name].solver == "exact":
            axes.plot(x["claimed"], y["claimed"], **_hollow(look_of(name)))
    if gap == "local_gap":
        for level in _floor(part)["mean"]:
            axes.axvspan(0.0, level, color=_INK, alpha=0.08, lw=0)
    axes.set_xlim(_fit([*both["mean"], *both["claimed"].drop_nulls()], from_0=True))
    axes.set_ylim(_fit([*both["mean_y"], *both["claimed_y"].drop_nulls()], from_0=False))
    axes.set_xlabel(_AXES[gap])


def _comparison(part: pl.DataFrame) -> tuple[Drawing, str] | None:
    """Accuracy against both gaps; one column of panels for every degree of heterogeneity."""
    dealt = part.sort("alpha").partition_by("alpha", maintain_order=True)
    if not dealt:
        return None
    figure, panels = _panels(2, len(dealt), (max(3.2 * len(dealt), 5.0), 6.0))
    for column, own in enumerate(dealt):
        for row, gap in enumerate(("local_gap", "global_gap")):
            draw_points(panels[row][column], own, gap)
        alpha = own["alpha"][0]
        panels[0][column].set_title("natural clients" if alpha is None else f"alpha {alpha:g}")
    for left, *_ in panels:
        left.set_ylabel("Accuracy")
    _legend(figure, panels)
    said = ["Accuracy against the gaps on test rows: up and to the left is better.", _BARS, _FLOOR]
    return figure, " ".join([*said, _HOLLOW] if part["claimed"].is_not_null().any() else said)


def _curves(plan: Experiment, part: pl.DataFrame) -> tuple[Drawing, str] | None:
    """A panel for each figure, with a line for every method along what the experiment varies."""
    known = sorted(part[plan.along].drop_nulls().unique())
    if not known:
        return None
    shown = [name for name in _AXES if plan.along != "alpha" or name != "accuracy"]
    figure, panels = _panels(1, len(shown), (3.4 * len(shown), 3.2))
    for axes, name in zip(panels[0], shown, strict=True):
        own = _of(part, name)
        if name != "accuracy":
            own = own.filter(pl.col("method") != "oracle")  # its gaps are its tolerances
        for line in own.partition_by("method", maintain_order=True):
            _curve(axes, plan.along, line, _of(part, "rounds"), known)
        floor = _floor(part).sort(plan.along) if name == "local_gap" else part.head(0)
        if floor.height == 1:  # nothing varies it
            axes.axhspan(0.0, floor["mean"][0], color=_INK, alpha=0.08, lw=0)
        elif floor.height:
            axes.fill_between(floor[plan.along], 0.0, floor["mean"], color=_INK, alpha=0.08, lw=0)
        axes.set_xscale("linear" if plan.along == "clients" else "log")
        axes.set_xticks(known, [f"{x:g}" for x in known])
        axes.minorticks_off()
        axes.set_ylim(_fit([*own["mean"], *floor["mean"]], from_0=name != "accuracy"))
        axes.set(title=_AXES[name], xlabel=axis_of(plan))
    _legend(figure, panels)
    protocol = "Dotted from its own number of rounds on: the exact protocol."
    return figure, " ".join([_BARS, _FLOOR, *([protocol] if "protocol" in plan.methods else [])])


def _curve(axes: Axes, along: str, line: pl.DataFrame, rounds: pl.DataFrame, known: Sequence[float]) -> None:
    """One method's line; one that nothing varies is level, from its own number of rounds on where it has one."""
    method = line["method"][0]
    look = look_of(method)
    varied = line.filter(pl.col(along).is_not_null()).sort(along)
    if varied.height:
        axes.errorbar(varied[along], varied["mean"], yerr=_reach(varied), **look)
        return
    own = rounds.filter(pl.col("method") == method)["mean"].to_list() or known[:1]
    axes.errorbar(own, line["mean"], yerr=_reach(line), **look)
    axes.hlines(line["mean"], own, known[-1], color=look["color"], linestyles=look["ls"], lw=look["lw"])


def _sensitivity(part: pl.DataFrame) -> tuple[Drawing, str] | None:
    """Accuracy and gaps against the local tolerance, one line for every global one, a row of panels for each solver."""
    methods = [name for name in ("logofair_lg", "algorithm1_lg") if name in part["method"]]
    if not methods:
        return None
    figure, panels = _panels(len(methods), len(_AXES), (10.2, 2.9 * len(methods)))
    level = float(_floor(part).select(pl.col("mean").mean()).item() or 0.0)
    for column, name in enumerate(_AXES):
        both = _of(part, name).filter(pl.col("method").is_in(methods)).sort("global_tolerance", "local_tolerance")
        values = [*both["mean"], *both["claimed"].drop_nulls()]
        for row, method in enumerate(methods):
            axes = panels[row][column]
            by_global = both.filter(pl.col("method") == method).partition_by("global_tolerance", maintain_order=True)
            for style, line in zip(_BY_TOLERANCE, by_global, strict=False):
                x, look = line["local_tolerance"], _look(*style)
                label = f"global tolerance {line['global_tolerance'][0]:g}"
                axes.errorbar(x, line["mean"], yerr=_reach(line), label=label, **look)
                axes.plot(x, line["claimed"], **_hollow(look))
            if name == "local_gap":
                axes.axhspan(0.0, level, color=_INK, alpha=0.08, lw=0)
            axes.set_ylim(_fit(values, from_0=name != "accuracy"))
            axes.set_xticks(sorted(both["local_tolerance"].unique()))
            axes.set(title=f"{_AXES[name]}, {METHODS[method].title}", xlabel="local tolerance")
    _legend(figure, panels)
    return figure, f"One line for each global tolerance. {_BARS} {_HOLLOW} {_FLOOR}"
