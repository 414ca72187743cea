"""The frontier as a picture: accuracy or cost along one tolerance, a line for each of a few others.

One SVG of text and shapes that scales, needs nothing else, and follows the reader's light or dark theme (also a page's
own ``data-theme``). Order is shown by lightness and by words, never by hue alone.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from logofair.auditing import Measured
from logofair.auditing.result import NOT_TESTED
from logofair.requirements import Ratio, Tolerance
from logofair.tradeoff.grid import has_ratios, slack
from logofair.tradeoff.objective import Objective
from logofair.tradeoff.result import Frontier, Point, tolerance_text

_WIDTH = 480.0
_LEFT, _RIGHT = 46.0, 86.0
_PLOT = 210.0  # height
_APART = 15.0  # of two labels
_MOST_NAMED = 6  # lines
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NOTHING = 5e-5  # of accuracy, or of the dearest error: less is 0.00 points
_LEAST_SPAN = 0.004  # of the axis, likewise: less would magnify noise
_WRAPPED = 70  # characters of a line of words

_LIGHT = """--f-paper:var(--paper,#fff);--f-ink:var(--ink,#1b2230);--f-soft:var(--soft,#515b6b);
--f-line:var(--line,#d5d9e0);--f-0:#14204f;--f-1:#2b4f96;--f-2:#1f7aa8;--f-3:#218060;--f-4:#8a6d00;--f-5:#b4500f"""
_DARK = """--f-paper:var(--paper,#14181f);--f-ink:var(--ink,#e8ebf0);--f-soft:var(--soft,#aab4c3);
--f-line:var(--line,#38414f);--f-0:#dbe6ff;--f-1:#93b8f7;--f-2:#4fb3dd;--f-3:#55c69a;--f-4:#dcb83a;--f-5:#f0a35c"""
_SHAPES = """.frontier-figure{max-width:100%;height:auto;background:var(--f-paper)}
.frontier-figure text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif}
.frontier-figure text{fill:var(--f-ink)}.frontier-figure .f-soft,.frontier-figure .f-tick{fill:var(--f-soft)}
.frontier-figure .f-title{font-size:16px;font-weight:600}
.frontier-figure .f-tick{font-size:12px;font-variant-numeric:tabular-nums}
.frontier-figure .f-grid{stroke:var(--f-line)}.frontier-figure .f-way{fill:none;stroke-width:2}
.frontier-figure .f-free{fill:none;stroke-width:2;stroke-dasharray:2 4}
.frontier-figure .f-mark{fill:none;stroke:var(--f-ink);stroke-width:2.5}.frontier-figure .f-knee{stroke-dasharray:4 3}
.frontier-figure .f-band{fill:var(--f-ink);fill-opacity:.09}
.frontier-figure .f-found{fill:none;stroke:var(--f-ink);stroke-width:1.5;stroke-dasharray:1 3;stroke-linecap:round}"""


def frontier_figure(frontier: Frontier, *, policy_tested: bool = False) -> str:
    """Return a frontier as one SVG element, to be written to a file or put into a page.

    Accuracy (or cost per person) against the global tolerance with a line for each of a few local ones, and for one of
    them a light band: the 95% interval of what was measured. The knee and the chosen pair are marked. A side with one
    tolerance needs one line. ``policy_tested`` says that the picture stands beside figures of the chosen policy on
    other rows: it then speaks of its own points alone.
    """
    parts, bottom = _heading(frontier)
    several = max(frontier.values.shape) > 1
    if several and _costs_something(frontier):
        drawn, bottom = _plot(frontier, bottom)
        parts += drawn
    elif several:
        loses = "loses accuracy" if frontier.objective.costs is None else "costs anything"
        parts.append(_text(8, bottom + 10, f"No tolerance of the grid {loses}: there is nothing to draw.", "f-label"))
        bottom += 28.0
    notes, bottom = _legend(frontier, bottom, policy_tested)
    height, words = f"{bottom:g}", frontier.summary(policy_tested=policy_tested).splitlines()
    return "".join(
        [
            f'<svg class="frontier-figure" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height}" ',
            f'width="720" height="{1.5 * bottom:g}" role="img" aria-labelledby="frontier-title frontier-desc">',
            f'<title id="frontier-title">{_clean(_title(frontier))}</title>',
            f'<desc id="frontier-desc">{_clean(" ".join(words))}</desc>',
            f"<style>{_style()}</style>",
            f'<rect width="{_WIDTH:g}" height="{height}" fill="var(--f-paper)"/>',
            *parts,
            *notes,
            "</svg>",
        ]
    )


def _costs_something(frontier: Frontier) -> bool:
    """Whether there is something to draw."""
    objective = frontier.objective
    return bool(frontier.infeasible) or max(point.loss for point in frontier.points) >= _NOTHING * objective.unit


def _style() -> str:
    """Colours of both themes: the reader's, or the one a page has set on its root; paper is light."""
    figure = ".frontier-figure"
    colours = [f"{figure},:root[data-theme=light] {figure}{{{_LIGHT}}}"]
    colours.append(f"@media screen and (prefers-color-scheme:dark){{{figure}{{{_DARK}}}")
    colours.append(f":root[data-theme=light] {figure}{{{_LIGHT}}}}}")
    colours.append(f"@media screen{{:root[data-theme=dark] {figure}{{{_DARK}}}}}")
    return "".join([*colours, _SHAPES])


def _title(frontier: Frontier) -> str:
    local, global_ = (name.replace("_", " ") for name in frontier.notions)
    return f"What fairness costs: {local if local == global_ else f'{local} locally, {global_} globally'}"


def _heading(frontier: Frontier) -> tuple[list[str], float]:
    many = "site" if len(frontier.sites) == 1 else "sites"
    sites = f" at {len(frontier.sites):,} {many}" if frontier.has_sites else ""
    parts = [_text(8, 20, _title(frontier), "f-title")]
    parts.append(_text(8, 38, f"Expected on {frontier.rows:,} calibration rows{sites}.", "f-soft"))
    bottom = 38.0
    for sentence in frontier.held_sentences:
        for line in textwrap.wrap(sentence, _WRAPPED):
            bottom += 18.0
            parts.append(_text(8, bottom, line, "f-soft"))
    return parts, bottom + 12.0


@dataclass(frozen=True)
class _Band:
    """What was measured at the points along one line, and the other side's tolerance there."""

    side: str
    tolerance: Tolerance
    found: tuple[Measured, ...]

    @classmethod
    def of(cls, frontier: Frontier) -> _Band | None:
        """Of the line through the chosen point, else the knee, else of the loosest; None where nothing is measured."""
        marked = [point for point, _ in _marked(frontier)]
        point = marked[-1] if marked else frontier.points[-1]
        along_global = len(frontier.global_tolerances) > 1
        tolerance = point.local_tolerance if along_global else point.global_tolerance
        objective = frontier.objective
        measured = [
            objective.measured(None if each is None else each.measured) for each in _points(frontier, tolerance)
        ]
        found = tuple(each for each in measured if each is not None)
        complete = len(found) == len(measured) and all(each.low is not None for each in found)
        return cls("local" if along_global else "global", tolerance, found) if complete else None

    @property
    def low(self) -> float:
        """The lowest end of all intervals."""
        return min(each.low or 0.0 for each in self.found)

    @property
    def high(self) -> float:
        """The highest."""
        return max(each.high or 0.0 for each in self.found)

    def drawn(self, axes: _Axes, along: Sequence[Tolerance]) -> Iterator[str]:
        """A light area between the ends, and a dotted line of what was measured."""
        xs = [axes.x(tolerance) for tolerance in along]
        upper = [(x, axes.y(each.high or 0.0)) for x, each in zip(xs, self.found, strict=True)]
        lower = [(x, axes.y(each.low or 0.0)) for x, each in zip(xs, self.found, strict=True)]
        yield f'<polygon points="{_path([*upper, *reversed(lower)])}" class="f-band"/>'
        middle = [(x, axes.y(each)) for x, each in zip(xs, self.found, strict=True)]
        yield f'<polyline points="{_path(middle)}" class="f-found"/>'


def _points(frontier: Frontier, tolerance: Tolerance) -> list[Point | None]:
    """The points along the plot's axis at one tolerance of the other side; None where there is no rule."""
    if len(frontier.global_tolerances) > 1:
        row = frontier.local_tolerances.index(tolerance)
        return [frontier.found(row, j) for j in range(len(frontier.global_tolerances))]
    column = frontier.global_tolerances.index(tolerance)
    return [frontier.found(i, column) for i in range(len(frontier.local_tolerances))]


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


@dataclass(frozen=True)
class _Axes:
    """Where values and tolerances lie in the plot; a tolerance of None stands apart on the right."""

    top: float
    low: float
    high: float
    stop: float  # the loosest tolerance, as its distance from parity
    ratios: bool

    def x(self, tolerance: Tolerance) -> float:
        end = _WIDTH - _RIGHT
        free = end - 12.0
        if tolerance is None:
            return free
        return _LEFT + 6.0 + slack(tolerance) / self.stop * (free - 44.0 - _LEFT)

    def y(self, value: float) -> float:
        return self.top + _PLOT * (self.high - value) / (self.high - self.low)


def _plot(frontier: Frontier, top: float) -> tuple[list[str], float]:
    """What is expected against one tolerance, the other as lines; the global one is the axis unless it is single."""
    by_global, objective = len(frontier.global_tolerances) > 1, frontier.objective
    along = frontier.global_tolerances if by_global else frontier.local_tolerances
    sides = frontier.local_tolerances if by_global else frontier.global_tolerances
    known = [*(point.value for point in frontier.points), frontier.unconstrained.value]
    low, high = min(known), max(known)
    band = _Band.of(frontier)
    low, high = (low, high) if band is None else (min(low, band.low), max(high, band.high))
    ticks = _ticks(low, max(high, low + _LEAST_SPAN * objective.unit))
    stop = max([slack(t) for t in along if t is not None], default=0.0) or 1.0
    axes = _Axes(top + 26.0, ticks[0], ticks[-1], stop, has_ratios(along))
    name, other = ("global", "local") if by_global else ("local", "global")
    by = f"{name} " if frontier.has_sites else ""
    words = f"{objective.scale[:1].upper()}{objective.scale[1:]}, by {by}{'ratio' if axes.ratios else 'tolerance'}"
    words = f"{words}; {objective.short(frontier.unconstrained.value)} {'without' if axes.ratios else 'unconstrained'}"
    parts = [_text(8, top + 10, words, "f-label"), *([] if band is None else band.drawn(axes, along))]
    parts += _frame(axes, ticks, along, objective)
    lines = {i: points for i, side in enumerate(sides) if any(points := _points(frontier, side))}
    ends = [axes.y([point.value for point in points if point][-1]) for points in lines.values()]
    chosen = _labelled_lines(ends)
    places = _without_overlap([ends[i] for i in chosen])
    for shade, (i, place) in enumerate(zip(chosen, places, strict=True)):
        row = list(lines)[i]
        own = sides[row]
        label = tolerance_text(own) if isinstance(own, Ratio) else f"{other} {tolerance_text(own)}"
        label = label if len(sides) > 1 else ""
        ink = round(shade * 5 / max(len(chosen) - 1, 1))
        parts += _line(axes, along, lines[row], ink, (label, place), frontier.paired)
    for point, mark in _marked(frontier):
        at = (axes.x(point.global_tolerance if by_global else point.local_tolerance), axes.y(point.value))
        parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="8" class="f-mark {mark}"/>')
    return parts, axes.top + _PLOT + 44.0


def _frame(axes: _Axes, ticks: Sequence[float], along: Sequence[Tolerance], objective: Objective) -> Iterator[str]:
    """Grid lines with values, and tolerances below."""
    digits = max(0, -math.floor(math.log10(objective.shown(ticks[1] - ticks[0])) + 1e-9))
    for tick in ticks:
        y = axes.y(tick)
        yield f'<line x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}" class="f-grid"/>'
        yield _text(_LEFT - 6, y + 4, f"{objective.shown(tick):.{digits}f}", "f-tick", "end")
    below = axes.top + _PLOT + 18
    finite = [t for t in along if t is not None]
    if finite:
        for tick in [t for t in _ticks(0.0, axes.stop) if t <= axes.stop * 1.001]:
            place: Tolerance = Ratio(1.0 - tick) if axes.ratios and tick < 1 else tick
            words = f"{1.0 - tick:.4g}" if axes.ratios else tolerance_text(tick)
            yield _text(axes.x(place), below, words, "f-tick", "middle")
    if len(finite) < len(along):
        yield _text(axes.x(None), below, "none", "f-tick", "middle")


def _line(
    axes: _Axes,
    along: Sequence[Tolerance],
    points: Sequence[Point | None],
    shade: int,
    end: tuple[str, float],
    paired: bool,
) -> Iterator[str]:
    """One line with its points and its name at the right end; to None it is dotted, since None has no place.

    Where no rule meets a pair of tolerances there is no point; looser tolerances can be met where stricter ones can.
    """
    known = [(t, point) for t, point in zip(along, points, strict=True) if point is not None]
    at = [(axes.x(t), axes.y(point.value)) for t, point in known]
    stroke = f'style="stroke:var(--f-{shade})"'
    ends = len([t for t, _ in known if t is not None])
    for piece, kind in ((at[:ends], "f-way"), (at[max(ends - 1, 0) :], "f-free")):
        if len(piece) > 1:
            yield f'<polyline points="{_path(piece)}" class="{kind}" {stroke}/>'
    for (x, y), (_, point) in zip(at, known, strict=True):
        tip = f"<title>{_clean(point.summary(paired=paired))}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:var(--f-{shade})">{tip}</circle>'
    label, height = end
    if label:
        yield _text(_WIDTH - _RIGHT + 6, height + 4, label, "f-tick")


def _marked(frontier: Frontier) -> Iterator[tuple[Point, str]]:
    """Points to be pointed out, and how."""
    if frontier.knee.point is not None:
        yield frontier.knee.point, "f-knee"
    if frontier.chosen is not None:
        local, global_ = frontier.chosen
        chosen = frontier.found(frontier.local_tolerances.index(local), frontier.global_tolerances.index(global_))
        if chosen is not None:
            yield chosen, "f-chosen"


def _legend(frontier: Frontier, top: float, policy_tested: bool) -> tuple[list[str], float]:
    """What the marks mean."""
    parts = []
    for point, mark in _marked(frontier):
        word = "Knee" if mark == "f-knee" else "Chosen"
        where = f"local {tolerance_text(point.local_tolerance)}, global" if frontier.has_sites else "tolerance"
        objective = frontier.objective
        value = objective.value(point.value) if objective.costs is None else objective.short(point.value)
        loss = f"{value}, {objective.lost(point.loss)}"
        parts.append(f'<circle cx="16" cy="{top + 5:.1f}" r="7" class="f-mark {mark}"/>')
        parts.append(
            _text(30, top + 10, f"{word}: {where} {tolerance_text(point.global_tolerance)} ({loss})", "f-label")
        )
        top += 22.0
    drawn, top = _band_legend(frontier, top, policy_tested)
    parts += drawn
    if None in (*frontier.local_tolerances, *frontier.global_tolerances):
        parts.append(
            _text(8, top + 10, f"none: nothing required{' on that side' if frontier.has_sites else ''}.", "f-soft")
        )
        top += 22.0
    if frontier.infeasible:
        pairs = f"{len(frontier.infeasible):,} {'pairs' if frontier.paired else 'tolerances'}"
        parts.append(_text(8, top + 10, f"No rule meets the requirements at {pairs}; the table says why.", "f-soft"))
        top += 22.0
    return parts, top + 4.0


def _band_legend(frontier: Frontier, top: float, policy_tested: bool) -> tuple[list[str], float]:
    """What the band and its dotted line were measured on."""
    shown = max(frontier.values.shape) > 1 and _costs_something(frontier)
    band = _Band.of(frontier) if shown else None
    parts, lines = [], []
    if band is not None:
        one = min(frontier.values.shape) == 1
        where = "" if one else f" at {band.side} {tolerance_text(band.tolerance)}"
        rows = f"{frontier.test_rows:,} other rows" if frontier.test_rows else "the rows that chose the rules"
        lines += [f"95 % band{where}, measured on", f"{rows}."]
        middle = f"{top + 5:.1f}"
        parts.append(f'<rect x="9" y="{top - 2:.1f}" width="14" height="14" class="f-band"/>')
        parts.append(f'<polyline points="9,{middle} 23,{middle}" class="f-found"/>')
    if not frontier.test_rows and policy_tested:
        lines.append("Too narrow for new rows." if lines else "These points were measured on the calibration rows.")
    elif not frontier.test_rows:
        lines.append(f"{'Too narrow for new rows; n' if lines else 'N'}{NOT_TESTED[1:]}.")
    for line in lines:
        parts.append(_text(30 if band is not None else 8, top + 10, line, "f-label" if line is lines[0] else "f-soft"))
        top += 22.0
    return parts, top


def _labelled_lines(heights: Sequence[float]) -> list[int]:
    """Lines whose ends are far enough apart to be named, up to six; always the first and the last."""
    last, kept = len(heights) - 1, [0]
    for i in range(1, last):
        clear = all(abs(heights[i] - heights[k]) >= _APART for k in (kept[-1], last))
        if clear and len(kept) < _MOST_NAMED - 1:
            kept.append(i)
    return [*kept, last] if last else kept


def _without_overlap(heights: Sequence[float]) -> list[float]:
    """The same heights moved apart so that labels do not overlap, in their order."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = list(heights)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + _APART)
    return placed


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from just below ``low`` to just above ``high``."""
    rough = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1.0, 2.0, 5.0, 10.0) if unit * m >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * i, 12) for i in range(first, last + 1)]


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{_clean(words)}</text>'


def _clean(words: str) -> str:
    """Text that stays text; characters XML cannot hold become a visible mark."""
    return escape(_FORBIDDEN.sub("\ufffd", words))
