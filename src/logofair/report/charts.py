"""The picture of a report: the gaps of sites before and after, a row for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logofair.report.markup import Element, Node, tag
from logofair.report.wording import short


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
    """One site in a picture; ``interval`` is where chance leaves its gap after, ``few`` whether its rows are few."""

    name: str
    link: str | None
    before: float | None
    after: float
    tolerance: float | None
    interval: tuple[float, float] | None
    few: bool
    note: str


def shows_nothing(points: Sequence[GapPoint], width: float) -> bool:
    """Whether a picture would show nothing: one site, no gap at all, or all marks within a pixel of one another."""
    values = [value for point in points for value in (point.before, point.after) if value is not None]
    if len(points) < 2:
        return True
    return width * (max(values) - min(values)) < _nice_ticks(_largest(points))[-1]


def gap_dumbbells(points: Sequence[GapPoint], *, width: float, label: str) -> Element:
    """Draw one row per site, its gap before and after joined by a line."""
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
    """One site's row."""
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
    """A site's marks, with what they say, leading to its card."""
    title = tag("title", f"{point.name}: {point.note}")
    if point.link is None:
        return tag("g", title, parts, class_="site")
    # Reached by keyboard through the table's links: hundreds of stops in a picture would bar the way.
    return tag("a", title, parts, class_="site", href=point.link, tabindex="-1", data_site=point.link[1:])


def _common_tolerance(points: Sequence[GapPoint], scale: _Scale, top: float, bottom: float) -> list[Node]:
    """The tolerance most sites share: a band from 0, and its name."""
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
