"""Pictures: the gaps of all clients, the tolerances they can carry, and predictions beside what happened."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Binary, Floats, Label
from logofair.columns.segments import Indices
from logofair.fitting.prepare import CalibrationRows
from logofair.report.markup import Element, Node, tag
from logofair.report.wording import short

__all__ = [
    "GapPoint",
    "Reliability",
    "gap_dumbbells",
    "reliability_by_group",
    "reliability_diagram",
    "shows_nothing",
]


@dataclass(frozen=True)
class _Scale:
    """Maps numbers from ``low`` to ``high`` to pixels from ``start`` to ``end``; numbers beyond stay at the edge."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the pixel of a number."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def _nice_ticks(highest: float, about: int = 5) -> list[float]:
    """Return round numbers from 0 that reach up to ``highest`` or just beyond."""
    rough = max(highest, 0.01) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * m >= rough * 0.999)
    count = math.ceil(max(highest, 0.01) / step - 1e-9)
    return [round(step * i, 12) for i in range(count + 1)]


def _grid_line(
    x: tuple[float, float], y: tuple[float, float], text: str, at: tuple[float, float], anchor: str = "middle"
) -> Element:
    """Return a line from ``(x[0], y[0])`` to ``(x[1], y[1])`` with its number written at a point."""
    line = tag("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_="grid")
    return tag("g", line, tag("text", text, x=at[0], y=at[1], class_="tick", text_anchor=anchor))


def _picture(width: float, height: float, label: str, *parts: Node | Iterable[Node]) -> Element:
    """Return a picture of some parts; ``label`` tells those who do not see it what it shows."""
    return tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        class_="chart",
    )


_LETTER = 7.0  # width of a letter of the labels, in pixels
_ROW = 26.0
_NARROW = 500.0


@dataclass(frozen=True)
class GapPoint:
    """One client in a picture; ``interval`` is where chance leaves its gap after, ``few`` whether its rows are few."""

    name: str
    link: str | None
    before: float | None
    after: float
    tolerance: float | None
    interval: tuple[float, float] | None
    few: bool
    note: str


def shows_nothing(points: Sequence[GapPoint], width: float) -> bool:
    """Whether a picture would show nothing: one client, no gap at all, or all marks within a pixel of one another."""
    values = [value for point in points for value in (point.before, point.after) if value is not None]
    if len(points) < 2:
        return True
    return width * (max(values) - min(values)) < _nice_ticks(_largest(points))[-1]


def gap_dumbbells(points: Sequence[GapPoint], *, width: float, label: str) -> Element:
    """Draw one row per client, its gap before and after joined by a line."""
    letters = min(max((len(p.name) for p in points), default=0), 22 if width > _NARROW else 13)
    left, top = 16.0 + _LETTER * letters, 26.0
    bottom = top + _ROW * len(points) + 2.0
    ticks = _nice_ticks(_largest(points), about=6 if width > _NARROW else 4)
    scale = _Scale(0.0, ticks[-1], left, width - 18.0)
    places = [(t, scale.place(t)) for t in ticks]
    return _picture(
        width,
        bottom + 28.0,
        label,
        [
            tag("rect", x=0, y=top + _ROW * i, width=width, height=_ROW, class_="stripe")
            for i in range(0, len(points), 2)
        ],
        _common_tolerance(points, scale, top, bottom),
        [_grid_line((x, x), (top, bottom), f"{t:g}", (x, bottom + 18.0)) for t, x in places],
        [_dumbbell(point, scale, top + _ROW * (i + 0.5), letters) for i, point in enumerate(points)],
    )


def _dumbbell(point: GapPoint, scale: _Scale, y: float, letters: int) -> Element:
    """One client's row."""
    place, half = scale.place, _ROW / 2.0
    parts: list[Node] = [
        tag("rect", x=0, y=y - half, width=scale.end + 18.0, height=_ROW, class_="target"),
        tag("text", short(point.name, letters), x=scale.start - 10.0, y=y + 4.0, class_="name", text_anchor="end"),
    ]
    if point.tolerance is not None:
        x = place(point.tolerance)
        parts.append(tag("line", x1=x, x2=x, y1=y - half + 3.0, y2=y + half - 3.0, class_="limit"))
    if point.before is not None:
        parts.append(tag("line", x1=place(point.before), x2=place(point.after), y1=y, y2=y, class_="joint"))
    if point.interval is not None:
        x1, x2 = map(place, point.interval)
        parts.append(tag("line", x1=x1, x2=x2, y1=y, y2=y, class_="interval"))
    if point.before is not None:
        parts.append(tag("circle", cx=place(point.before), cy=y, r=5.0, class_="before"))
    parts.append(_after(place(point.after), y, 5.0, point.few))
    return _linked(point, parts)


def _after(x: float, y: float, radius: float, few: bool) -> Element:
    """A filled circle, or an open diamond where rows are few: shape tells, not colour alone."""
    if not few:
        return tag("circle", cx=x, cy=y, r=radius, class_="after")
    r = radius * 1.25
    outline = f"M{x:.1f} {y - r:.1f}l{r:.1f} {r:.1f}l{-r:.1f} {r:.1f}l{-r:.1f} {-r:.1f}z"
    return tag("path", d=outline, class_="after few")


def _linked(point: GapPoint, parts: Sequence[Node]) -> Element:
    """A client's marks, with what they say, leading to its card."""
    title = tag("title", f"{point.name}: {point.note}")
    if point.link is None:
        return tag("g", title, parts, class_="client")
    # Reached by keyboard through the table's links: hundreds of stops in a picture would bar the way.
    return tag("a", title, parts, class_="client", href=point.link, tabindex="-1", data_client=point.link[1:])


def _common_tolerance(points: Sequence[GapPoint], scale: _Scale, top: float, bottom: float) -> list[Node]:
    """The tolerance most clients share: a band from 0, and its name."""
    limits = [p.tolerance for p in points if p.tolerance is not None]
    if not limits:
        return []
    limit = max(dict.fromkeys(limits), key=limits.count)
    near, far = scale.place(0.0), scale.place(limit)
    return [
        tag("rect", x=near, y=top, width=far - near, height=bottom - top, class_="allowed"),
        tag("text", f"tolerance {limit:g}", x=far + 4.0, y=18.0, class_="allowed-name", text_anchor="start"),
    ]


def _largest(points: Sequence[GapPoint]) -> float:
    """The largest number a picture must show."""
    ends = ((p.before, p.after, p.tolerance, p.interval[1] if p.interval else None) for p in points)
    return max((value for four in ends for value in four if value is not None), default=0.0)


# As in the calibration errors: fewer rows than this in a bin are mostly noise.
_ROWS_PER_BIN = 25
_MOST_BINS = 10
_NORMAL = 1.96


@dataclass(frozen=True, eq=False)
class Reliability:
    """One group's rows in bins of rising score, each array (bins,).

    ``score`` and ``chance`` are the mean prediction before and after calibration, ``share`` the share of label 1, from
    ``low`` to ``high`` at 95% (Wilson), ``rows`` how many there are; ``before`` and ``after`` are the mean errors.
    """

    group: Label
    rows: Indices
    score: Floats
    chance: Floats
    share: Floats
    low: Floats
    high: Floats
    before: float
    after: float


def reliability_by_group(rows: CalibrationRows) -> list[Reliability]:
    """Cut each group's rows by score into bins of equal count and measure them; nothing without labels."""
    if rows.labels is None:
        return []
    weight = np.ones_like(rows.scores) if rows.weights is None else rows.weights
    found = []
    for code, name in enumerate(rows.groups.names):
        mine = np.flatnonzero((rows.groups.codes == code) & (weight > 0))
        if mine.size:
            mine = mine[np.argsort(rows.scores[mine], kind="stable")]
            columns = (rows.scores[mine], rows.out_of_fold[mine], rows.labels[mine], weight[mine])
            found.append(_binned(name, *columns))
    return found


def _binned(name: Label, score: Floats, chance: Floats, label: Binary, weight: Floats) -> Reliability:
    """One group's bins, from its rows by rising score."""
    bins = int(np.clip(score.size // _ROWS_PER_BIN, 1, _MOST_BINS))
    first = np.searchsorted(score, score)  # equal scores share a bin
    bin_of = np.unique(first * bins // score.size, return_inverse=True)[1]
    rows, mass = np.bincount(bin_of), np.bincount(bin_of, weight)
    means = [np.bincount(bin_of, weight * column) / mass for column in (score, chance, label)]
    before, after = (float(mass @ np.abs(means[2] - predicted) / mass.sum()) for predicted in means[:2])
    return Reliability(name, rows, means[0], means[1], means[2], *_wilson(means[2], rows), before, after)


def _wilson(share: Floats, rows: Indices) -> tuple[Floats, Floats]:
    """95% interval of a share."""
    squared = _NORMAL**2
    middle = (share + squared / (2 * rows)) / (1 + squared / rows)
    half = _NORMAL / (1 + squared / rows) * np.sqrt(share * (1 - share) / rows + squared / (4 * rows**2))
    return np.asarray(middle - half), np.asarray(middle + half)


def reliability_diagram(found: Reliability, *, label: str, size: float = 300.0) -> Element:
    """Draw predictions across, the share of label 1 upwards: on the diagonal a prediction is right."""
    along, up = _Scale(0.0, 1.0, 38.0, size - 10.0), _Scale(0.0, 1.0, size - 40.0, 12.0)
    grid: list[Node] = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = along.place(tick), up.place(tick)
        grid.append(_grid_line((x, x), (up.end, up.start), f"{tick:g}", (x, up.start + 16.0)))
        grid.append(_grid_line((along.start, along.end), (y, y), f"{tick:g}", (along.start - 6.0, y + 4.0), "end"))
    diagonal = tag("line", x1=along.start, y1=up.start, x2=along.end, y2=up.end, class_="diagonal")
    words = tag("text", "predicted chance of label 1", x=size / 2, y=size - 6, class_="tick", text_anchor="middle")
    return _picture(size, size, label, grid, diagonal, words, _marks(found, along, up))


def _marks(found: Reliability, along: _Scale, up: _Scale) -> list[Node]:
    """Marks of every bin; those before lie below those after."""
    befores, afters = [], []
    columns = (found.score, found.chance, found.share, found.low, found.high, found.rows)
    for score, chance, share, low, high, rows in zip(*(column.tolist() for column in columns), strict=True):
        x, y, happened = along.place(chance), up.place(share), f"share of label 1 {share:.3f}"
        title = tag("title", f"Score {score:.3f}, {happened} ({rows:,} rows)")
        befores.append(tag("circle", title, cx=along.place(score), cy=y, r=5.0, class_="before"))
        title = tag("title", f"Calibrated {chance:.3f}, {happened}, by chance {low:.3f} to {high:.3f} ({rows:,} rows)")
        whisker = tag("line", x1=x, x2=x, y1=up.place(low), y2=up.place(high), class_="interval")
        afters.append(tag("g", title, whisker, tag("circle", cx=x, cy=y, r=4.0, class_="after")))
    return [*befores, *afters]
