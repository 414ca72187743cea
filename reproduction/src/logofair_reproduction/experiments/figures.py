"""Figures of experiments: accuracy against gaps, curves along what an experiment varies, tolerances side by side.

Which figure an experiment has follows from its plan: a curve along ``along``, lines over the tolerances where there are
several, and else marks of accuracy and gaps, one figure for every deal of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from logofair_reproduction.datasets import CATALOGUE
from logofair_reproduction.experiments.drawing import (
    INK,
    Look,
    Named,
    end_labels,
    exported,
    label_of,
    look_of,
    need_matplotlib,
    panels,
    point_labels,
    style,
)
from logofair_reproduction.experiments.experiment import METHODS, Experiment, load_experiment
from logofair_reproduction.experiments.summaries import Line, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = ["Figure", "by_experiment", "figures_of", "place_words"]

_AXES = {"accuracy": "Accuracy", "local_gap": "Local gap", "global_gap": "Global gap"}
_GAPS = ("local_gap", "global_gap")
_INTERVALS = "Bars are 95 % intervals of the mean; where they leave the frame they are cut."
_FLOOR = "The grey area is the noise floor: the largest local gap that a rule without any gap shows by chance."
_FLOOR_NAME = "noise floor"
# Whose noise floor is drawn: it depends on how many each rule accepts, though little.
_FLOOR_OF = ("logofair_lg", "protocol", "algorithm1_lg", "fedavg")
_CLAIMED = "Hollow marks are the paper's figures, tied to ours by a dotted line."


@dataclass(frozen=True)
class Figure:
    """A figure of an experiment; ``svg`` takes its ink from the page it stands in, ``png`` is on white."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


def by_experiment(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines by the name of their experiment, in their order."""
    return _grouped(lines, lambda line: str(line.place["experiment"]))


def figures_of(lines: Sequence[Line]) -> list[Figure]:
    """Draw all figures of these lines.

    Parameters
    ----------
    lines : sequence of Line
        From :func:`logofair_reproduction.experiments.summaries.lines`.

    Returns
    -------
    list of Figure
        In the order of the lines' experiments; names are different and can name files.

    Raises
    ------
    InputError
        If matplotlib is missing.

    Examples
    --------
    >>> figures_of([])
    []
    """
    if not lines:
        return []
    need_matplotlib()
    found: dict[str, Figure] = {}
    for name, part in by_experiment(lines).items():
        plan = load_experiment(name)[0]
        for drawn in _of_experiment(plan, part):
            with style(drawn.name):
                svg, png = exported(drawn.draw())
            found[drawn.name] = Figure(drawn.name, drawn.title, " ".join(drawn.caption), svg, png)
    return list(found.values())


@dataclass(frozen=True)
class _Planned:
    """A figure that is still to be drawn."""

    name: str
    title: str
    caption: tuple[str, ...]
    draw: Callable[[], Drawing]


def _of_experiment(plan: Experiment, lines: Sequence[Line]) -> Iterator[_Planned]:
    fixed = tuple(name for name in _DEAL if name != plan.along)
    parts = _grouped(lines, lambda line: tuple(line.place[name] for name in fixed)).values()
    known = list(dict.fromkeys(line.place["data"] for line in lines))
    for part in sorted(parts, key=lambda part: (known.index(part[0].place["data"]), part[0].place["alpha"] or 0.0)):
        place, runs = part[0].place, _runs_words(part)
        name, where = f"{plan.name}-{_slug(place, plan.along)}", place_words(place, plan.along)
        if plan.along:
            if any(
                line.place[plan.along] is not None and not METHODS[line.place["method"]].for_any_model for line in part
            ):
                yield _curve(plan, name, where, part, runs)
        elif len(plan.tolerances) > 1:
            if any(line.place["method"] in _SIDE_BY_SIDE for line in part):
                yield _sensitivity(name, where, part, runs)
        else:
            yield from _comparisons(name, where, part, runs)


# What one figure's lines have in common.
_DEAL = ("data", "sensitive", "limit", "scheme", "clients", "alpha", "notion", "budget")


def place_words(place: Mapping[str, Any], along: str = "") -> str:
    """Where a figure's rows come from and how they were dealt, less what varies along it.

    Examples
    --------
    >>> place_words({"data": "adult", "clients": 5, "alpha": 0.5, "sensitive": "race"})
    'Adult (UCI), groups by race, 5 clients, alpha 0.5'
    """
    words = [CATALOGUE[place["data"]].title]
    if place.get("sensitive"):
        words.append(f"groups by {place['sensitive']}")
    if place.get("alpha") is None:
        words.append("natural clients")
    else:
        words += [f"{place['clients']} clients"] * (along != "clients") + [f"alpha {place['alpha']:g}"] * (
            along != "alpha"
        )
    return ", ".join(words)


def _slug(place: Mapping[str, Any], along: str) -> str:
    """A place in short, for the name of a file."""
    parts = [place["data"], place.get("sensitive"), place.get("limit") and f"{place['limit']}-rows"]
    parts += ["natural"] if place.get("alpha") is None else []
    parts += [f"{key}-{place[key]:g}" for key in ("clients", "alpha") if place.get(key) is not None and key != along]
    parts.append(f"budget-{place['budget']}")
    return "-".join(str(part) for part in parts if part)


def _runs_words(lines: Sequence[Line]) -> str:
    runs = sorted({found.of for line in lines if (found := line.figure("accuracy")) is not None})
    number = " to ".join(map(str, runs if len(runs) < 3 else (runs[0], runs[-1])))
    if number == "1":
        return "One seed."
    return f"Means over {number} seeds. {_INTERVALS}"


def _grouped(lines: Iterable[Line], key: Callable[[Line], Any]) -> dict[Any, list[Line]]:
    found: dict[Any, list[Line]] = {}
    for line in lines:
        found.setdefault(key(line), []).append(line)
    return found


def _floor_line(lines: Sequence[Line]) -> Line | None:
    for method in _FLOOR_OF:
        for line in lines:
            if line.place["method"] == method and line.figure("floor") is not None:
                return line
    return None


def _limits(panel: Axes, axis: str, values: Sequence[float], bars: Iterable[Summary], lowest: float | None) -> None:
    """Fit an axis to the values, and to the bars as far as they do not make the values small."""
    low, high = min(values), max(values)
    room = max(high - low, 0.004)
    ends = [(bar.low, bar.high) for bar in bars if bar.low is not None and bar.high is not None]
    bottom = min([low - 0.12 * room, *(max(end[0], low - 0.4 * room) for end in ends)])
    top = max([high + 0.12 * room, *(min(end[1], high + 0.4 * room) for end in ends)])
    bottom = bottom if lowest is None else max(bottom, lowest)
    panel.set_xlim(bottom, top) if axis == "x" else panel.set_ylim(bottom, top)


def _reach(found: Summary) -> list[list[float]] | None:
    """A bar's lengths below and above the mean, as matplotlib takes them."""
    return None if found.low is None or found.high is None else [[found.mean - found.low], [found.high - found.mean]]


# Accuracy against gaps


_TRAINED = ("fedfb", "fairfed", "fcfl")
_OF_PAPER = (
    *("fedavg", *_TRAINED, "logofair_g", "logofair_l", "logofair_lg"),
    *("algorithm1_g", "algorithm1_l", "algorithm1_lg", "oracle"),
)
_BEYOND = (
    *(f"{name}_half" for name in _TRAINED),
    *(f"like_{name}" for name in _TRAINED),
    *(f"on_{name}" for name in _TRAINED),
    "logofair_lg",
)
_HALF = "Half-filled marks are Algorithm 1, corrected; filled ones the exact solver."


def _comparisons(name: str, where: str, lines: Sequence[Line], runs: str) -> Iterator[_Planned]:
    """The methods of the paper; and, where they were measured, ours at each baseline's gaps and on its scores."""
    found = {line.place["method"]: line for line in lines}
    of_paper = [found[method] for method in _OF_PAPER if method in found]
    claims = [line for line in of_paper if line.claimed and not line.place["method"].startswith("algorithm1")]
    said = (f"Accuracy against the gaps on test rows. {runs}",)
    halves = (_HALF,) * any(line.place["method"].startswith("algorithm1") for line in of_paper)
    hollow = (_CLAIMED,) * bool(claims)
    if of_paper:
        caption = (*said, *halves, *hollow, _FLOOR, *_above(lines))
        yield _Planned(name, f"{where}: the paper's methods", caption, lambda: _marks(of_paper, claims, []))
    beyond = [found[method] for method in _BEYOND if method in found]
    likes = [(like, f"{METHODS[like].like}_half") for like in found if METHODS[like].like]
    ties = [(found[like], found[half]) for like, half in likes if half in found]
    if ties:
        pairs = "Dotted lines lead from a method trained on as many rows to ours with that method's gaps as tolerances."
        title = f"{where}: LoGoFair_l&g at the gaps of trained methods, and on their scores"
        yield _Planned(f"{name}-beyond", title, (*said, pairs, _FLOOR), lambda: _marks(beyond, [], ties))


def _above(lines: Sequence[Line]) -> tuple[str, ...]:
    """The bound over all rules, in words: drawn to scale it would leave the methods no room."""
    values = [f.mean for line in lines if line.place["method"] == "aglfop" and (f := line.figure("accuracy"))]
    if not values:
        return ()
    ends = dict.fromkeys(f"{value:.3f}" for value in (min(values), max(values)))
    return (f"Not drawn: AGLFOP, the best accuracy of any rule, {' to '.join(ends)}.",)


def _marks(lines: Sequence[Line], claims: Sequence[Line], ties: Sequence[tuple[Line, Line]]) -> Drawing:
    """Accuracy against the local and the global gap, one mark a line."""
    figure, axes = panels(2, 1, (8.0, 7.2), left=0.09, right=0.985, bottom=0.065, top=0.96, hspace=0.3)
    for panel, gap in zip(axes, _GAPS, strict=True):
        _mark_panel(panel, gap, lines, claims, ties)
        panel.set_ylabel(_AXES["accuracy"])
    return figure


def _mark_panel(
    panel: Axes, gap: str, lines: Sequence[Line], claims: Sequence[Line], ties: Sequence[tuple[Line, Line]]
) -> None:
    placed = [(line, x, y) for line in lines if (x := line.figure(gap)) and (y := line.figure("accuracy"))]
    panel.set_title(f"{_AXES['accuracy']} against the {_AXES[gap].lower()}")
    panel.set_xlabel(_AXES[gap])
    if not placed:
        return
    claimed = [(line, line.claimed[gap], line.claimed["accuracy"]) for line in claims if line.claimed]
    floor = _floor_line(lines) if gap == "local_gap" else None
    level = None if floor is None else floor.figure("floor")
    wide = [x.mean for _, x, _ in placed] + [x for _, x, _ in claimed] + ([level.mean] if level else [])
    _limits(panel, "x", [0.0, *wide], [x for _, x, _ in placed], 0.0)
    _limits(panel, "y", [y.mean for *_, y in placed] + [y for *_, y in claimed], [y for *_, y in placed], None)
    if level is not None:
        panel.axvspan(0.0, level.mean, color=INK, alpha=0.07, lw=0)
        panel.text(0.0, 0.01, f" {_FLOOR_NAME}", transform=panel.get_xaxis_transform())
    means = {line.place["method"]: (x.mean, y.mean) for line, x, y in placed}
    for line, x, y in placed:
        look = look_of(line.place["method"])
        panel.errorbar(x.mean, y.mean, xerr=_reach(x), yerr=_reach(y), **look.bars())
        panel.plot(x.mean, y.mean, linestyle="none", **look.mark())
    for line, gap_claimed, accuracy in claimed:
        look = look_of(line.place["method"])
        panel.plot(gap_claimed, accuracy, linestyle="none", **look.mark("none"))
        _tie(panel, look, (gap_claimed, accuracy), means.get(line.place["method"]))
    for one, other in ties:
        method = one.place["method"]
        _tie(panel, look_of(method), means.get(other.place["method"]), means.get(method))
    names = [
        Named(label_of(line.place["method"]), x.mean, y.mean, look_of(line.place["method"]).colour)
        for line, x, y in placed
    ]
    point_labels(panel, names, [(x, y) for _, x, y in claimed])


def _tie(panel: Axes, look: Look, start: tuple[float, float] | None, end: tuple[float, float] | None) -> None:
    if start is not None and end is not None:
        panel.plot([start[0], end[0]], [start[1], end[1]], color=look.colour, lw=0.8, ls=":")


# Curves along what an experiment varies


_ALONG = {
    "clients": "Clients",
    "alpha": "alpha (the smaller, the more clients differ)",
    "epsilon": "epsilon (the smaller, the more noise)",
    "rounds": "Rounds",
}


def _curve(plan: Experiment, name: str, where: str, lines: Sequence[Line], runs: str) -> _Planned:
    along = plan.along if plan.along != "level" else "epsilon" if "private" in plan.methods else "rounds"
    title = f"{where}: {'number of clients' if along == 'clients' else along}"
    horizontal = _ALONG[along]
    shown = _GAPS if plan.along == "alpha" else tuple(_AXES)
    ends = "Dotted from its own number of rounds on: the exact protocol." if "protocol" in plan.methods else ""
    caption = (runs, ends, _FLOOR, *_above(lines))
    return _Planned(name, title, tuple(filter(None, caption)), lambda: _stacked(plan, lines, shown, horizontal))


def _stacked(plan: Experiment, lines: Sequence[Line], shown: Sequence[str], horizontal: str) -> Drawing:
    """One panel below another, with a common horizontal axis, and the names of lines at their ends."""
    height = 0.7 + 1.75 * len(shown)
    places = {"left": 0.1, "right": 0.72, "bottom": 0.45 / height, "top": 1.0 - 0.25 / height, "hspace": 0.28}
    figure, axes = panels(len(shown), 1, (7.0, height), **places)
    known = sorted({x for line in lines if (x := line.place[plan.along]) is not None})
    for panel, measure in zip(axes, shown, strict=True):
        if plan.along != "clients":
            panel.set_xscale("log")
        panel.set_xticks(known, [f"{x:g}" for x in known])
        panel.minorticks_off()
        panel.set_xlim(*_around(known, by_ratio=plan.along != "clients"))
        panel.set_title(_AXES[measure])
        _curve_panel(panel, plan, measure, lines, known)
    for panel in axes[:-1]:
        panel.tick_params(labelbottom=False)
    axes[-1].set_xlabel(horizontal)
    return figure


def _around(known: Sequence[float], *, by_ratio: bool) -> tuple[float, float]:
    """The ends of an axis, a little beyond its first and last value."""
    low, high = known[0], known[-1]
    if by_ratio:
        room = (high / low) ** 0.04 if high > low else 1.5
        return low / room, high * room
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


def _curve_panel(panel: Axes, plan: Experiment, measure: str, lines: Sequence[Line], known: Sequence[float]) -> None:
    series = [found for name in plan.methods if (found := _series(plan, name, lines, measure, known))]
    if not series:
        return
    floor_line = _floor_line(lines) if measure == "local_gap" else None
    floor = None if floor_line is None else _series(plan, floor_line.place["method"], lines, "floor", known)
    means = [found.mean for curve in series for _, found in curve.points]
    means += [found.mean for _, found in floor.points] if floor else []
    bars = [found for curve in series for _, found in curve.points]
    _limits(panel, "y", means if measure == "accuracy" else [0.0, *means], bars, None if measure == "accuracy" else 0.0)
    for number, curve in enumerate(series):
        _draw_curve(panel, curve, 1.6 * (number - (len(series) - 1) / 2))
    names = [Named(curve.title, *curve.end, look_of(curve.method).colour) for curve in series]
    if floor is not None:
        xs, ys = floor.drawn
        panel.fill_between(
            [panel.get_xlim()[0], *xs, panel.get_xlim()[1]], [ys[0], *ys, ys[-1]], color=INK, alpha=0.07, lw=0
        )
        names.append(Named(_FLOOR_NAME, *floor.end))
    end_labels(panel, names)


@dataclass(frozen=True)
class _Curve:
    """A method's figures along the horizontal axis; a single one that nothing varies is drawn from first to last."""

    method: str
    points: tuple[tuple[float, Summary], ...]
    first: float
    last: float

    @property
    def title(self) -> str:
        return label_of(self.method)

    @property
    def drawn(self) -> tuple[list[float], list[float]]:
        """Where its line runs."""
        xs, ys = [x for x, _ in self.points], [found.mean for _, found in self.points]
        return ([self.first, self.last], ys * 2) if len(xs) == 1 else (xs, ys)

    @property
    def end(self) -> tuple[float, float]:
        xs, ys = self.drawn
        return xs[-1], ys[-1]


def _series(
    plan: Experiment, method: str, lines: Sequence[Line], measure: str, known: Sequence[float]
) -> _Curve | None:
    """A method's curve; None where there is none, or where its gaps are its tolerances by definition."""
    if METHODS[method].kind == "bound" and (measure != "accuracy" or METHODS[method].for_any_model):
        return None
    points, first, last = [], known[0], known[-1]
    for line in lines:
        if line.place["method"] == method and (found := line.figure(measure)) is not None:
            x, own = line.place[plan.along], line.figure("rounds")
            if x is not None:
                first = last = x
            elif own is not None:
                x = first = own.mean
            points.append((float(last if x is None else x), found))
    points.sort(key=lambda point: point[0])
    return _Curve(method, tuple(points), first, last) if points else None


def _draw_curve(panel: Axes, curve: _Curve, aside: float) -> None:
    """A line with marks and bars, so many points aside, lest bars of one place hide one another."""
    from matplotlib.transforms import ScaledTranslation

    look = look_of(curve.method)
    moved = panel.transData + ScaledTranslation(aside / 72, 0.0, panel.figure.dpi_scale_trans)
    panel.plot(*curve.drawn, color=look.colour, ls=look.dashes, lw=1.2, transform=moved)
    for x, found in curve.points:
        panel.errorbar(x, found.mean, yerr=_reach(found), transform=moved, **look.bars())
    panel.plot(
        *zip(*((x, found.mean) for x, found in curve.points), strict=True), ls="", transform=moved, **look.mark()
    )


# Figures over the tolerances


_SIDE_BY_SIDE = ("logofair_lg", "algorithm1_lg")
_BY_TOLERANCE = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
_TOLERANCE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def _sensitivity(name: str, where: str, lines: Sequence[Line], runs: str) -> _Planned:
    caption = (
        f"One line for each global tolerance. {runs}",
        *((_CLAIMED.split(",")[0] + ".",) if any(line.claimed for line in lines) else ()),
        _FLOOR,
        *_above(lines),
    )
    return _Planned(name, f"{where}: tolerances", caption, lambda: _tolerances(lines))


def _tolerances(lines: Sequence[Line]) -> Drawing:
    """Accuracy and gaps against the local tolerance, one line for every global one, solvers side by side."""
    methods = [name for name in _SIDE_BY_SIDE if any(line.place["method"] == name for line in lines)]
    places = {"left": 0.08, "right": 0.88, "bottom": 0.075, "top": 0.95, "hspace": 0.34, "wspace": 0.55}
    figure, axes = panels(len(_AXES), len(methods), (4.2 * len(methods), 6.4), **places)
    for row, measure in enumerate(_AXES):
        beside = axes[row * len(methods) : (row + 1) * len(methods)]
        drawn = [[line for line in lines if line.place["method"] == name] for name in methods]
        every = [line for part in drawn for line in part]
        for panel, part in zip(beside, drawn, strict=True):
            panel.set_title(
                f"{_AXES[measure]}, {'exact' if METHODS[part[0].place['method']].solver == 'exact' else 'Algorithm 1'}"
            )
            _tolerance_limits(panel, measure, every)
            _tolerance_panel(panel, measure, part)
    for panel in axes[-len(methods) :]:
        panel.set_xlabel("Local tolerance")
    return figure


def _tolerance_limits(panel: Axes, measure: str, lines: Sequence[Line]) -> None:
    """The same limits side by side, so that heights can be compared."""
    bars = [found for line in lines if (found := line.figure(measure))]
    values = [found.mean for found in bars] + [line.claimed[measure] for line in lines if line.claimed]
    if measure == "local_gap":
        values += [found.mean for line in lines if (found := line.figure("floor"))]
    is_gap = measure in _GAPS
    _limits(panel, "y", [0.0, *values] if is_gap else values, bars, 0.0 if is_gap else None)


def _tolerance_panel(panel: Axes, measure: str, lines: Sequence[Line]) -> None:
    local = sorted({line.place["local_tolerance"] for line in lines})
    panel.set_xticks(local, [f"{x:g}" for x in local])
    step = min((b - a for a, b in pairwise(local)), default=0.01)
    names = []
    by_global = _grouped(sorted(lines, key=_tolerance_pair), lambda line: line.place["global_tolerance"])
    for number, (tolerance, part) in enumerate(by_global.items()):
        (marker, dashes), colour = _BY_TOLERANCE[number % 4], _TOLERANCE_COLOURS[number % 4]
        look, aside = Look(colour, marker, dashes=dashes), 0.06 * step * (number - (len(by_global) - 1) / 2)
        known = [(line, found) for line in part if (found := line.figure(measure))]
        xs = [line.place["local_tolerance"] + aside for line, _ in known]
        ys = [found.mean for _, found in known]
        panel.plot(xs, ys, lw=1.1, ls=dashes, **look.mark())
        for x, (line, found) in zip(xs, known, strict=True):
            panel.errorbar(x, found.mean, yerr=_reach(found), **look.bars())
            if line.claimed:
                panel.plot(x + 0.08 * step, line.claimed[measure], ls="", **look.mark("none"))
        names.append(Named(f"global {tolerance:g}", xs[-1], ys[-1], colour))
    floor = _floor_line(lines) if measure == "local_gap" else None
    if floor is not None and (level := floor.figure("floor")) is not None:
        panel.axhspan(0.0, level.mean, color=INK, alpha=0.07, lw=0)
        names.append(Named(_FLOOR_NAME, local[-1] + 0.15 * step, level.mean))
    panel.set_xlim(local[0] - 0.15 * step, local[-1] + 0.2 * step)
    end_labels(panel, names)


def _tolerance_pair(line: Line) -> tuple[float, float]:
    return line.place["global_tolerance"], line.place["local_tolerance"]
