"""The chart kit: pictures as SVG of shapes and text, which scale, print, and follow a page's light or dark theme.

Shape and lightness tell what colour tells too. A picture always stands beside the table of the same figures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from logofair.columns.harmless import harmless
from logofair.files.writing import put_whole
from logofair.words.phrases import cut, listed, width

_FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif'
_LIGHT = "--ink:#1b2230;--soft:#5b6676;--line:#dfe3e8;--paper:#fff;--after:#0a62a8;--before:#8b94a1;--limit:#a13a12"
_DARK = "--ink:#e8ebf0;--soft:#aab4c3;--line:#38414f;--paper:#14181f;--after:#6fb6f2;--before:#8b94a1;--limit:#f0a35c"
_SHAPES = f"""
.chart text{{font:13px {_FONT};fill:var(--ink)}}.chart .soft{{fill:var(--soft);font-size:12px}}
.chart .grid{{stroke:var(--line)}}.chart .joint{{stroke:var(--before);stroke-width:2}}
.chart .interval{{stroke:var(--after);stroke-width:9;stroke-linecap:round;opacity:.25}}
.chart .before{{fill:var(--paper);stroke:var(--before);stroke-width:2}}.chart .after{{fill:var(--after)}}
.chart .limit{{stroke:var(--limit);stroke-width:2;stroke-dasharray:3 3}}
.chart .limit-name{{fill:var(--limit);font-size:12px}}
.chart .way{{fill:none;stroke:var(--after);stroke-width:2}}.chart .band{{fill:var(--after);fill-opacity:.15}}
.chart .mark{{fill:none;stroke:var(--limit);stroke-width:2.5}}
"""
# A file of its own follows the reader's theme; on a page the page's own colours rule.
_ALONE = f".chart{{{_LIGHT};background:var(--paper)}}@media(prefers-color-scheme:dark){{.chart{{{_DARK}}}}}"
STYLE = Markup(_SHAPES.replace("\n", ""))
_WIDE, _NARROW = 640.0, 360.0  # on a desk, on a phone: shrunk, the letters would be too small to read
_LETTER = 7.2  # how wide one is, about


@dataclass(frozen=True)
class Svg:
    """A picture: ``body`` is its SVG, ``label`` what it shows, in words, ``narrow`` the same drawn for a phone.

    Examples
    --------
    >>> Svg(Markup("<svg></svg>"), "nothing").label
    'nothing'
    """

    body: Markup
    label: str
    narrow: Markup | None = None

    @classmethod
    def empty(cls, words: str) -> Svg:
        """Return a picture that says why there is none."""
        return Svg(_picture(_WIDE, 40.0, words, _text(0.0, 24.0, words)), words)

    def __str__(self) -> str:
        """Return the picture as a file of its own, with its style."""
        start, end = self.body.split(">", 1)
        return f"{start}><style>{_ALONE}{STYLE}</style>{end}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, whole or not at all."""
        put_whole(Path(path), f"{self}\n".encode())

    def _repr_html_(self) -> str:
        return str(self)


def _tag(name: str, *inner: object, **attributes: Any) -> Markup:
    """An element; text and attributes are escaped, numbers written with one digit."""
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    written = ((key, f"{value:.1f}" if isinstance(value, float) else harmless(str(value))) for key, value in named)
    head = Markup("").join(Markup(' {}="{}"').format(Markup(key), value) for key, value in written)
    content = Markup("").join(each if isinstance(each, Markup) else escape(harmless(str(each))) for each in inner)
    return Markup(f"<{name}{head}>{content}</{name}>")


def _picture(wide: float, high: float, label: str, *parts: Markup) -> Markup:
    size = {"viewBox": f"0 0 {wide:g} {high:g}", "width": f"{wide:g}", "height": f"{high:g}"}
    described = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": label, "class_": "chart"}
    return _tag("svg", *parts, **described, **size)


def _text(x: float, y: float, words: str, kind: str | None = None, anchor: str | None = None) -> Markup:
    return _tag("text", words, x=float(x), y=float(y), class_=kind, text_anchor=anchor)


def _line(x: tuple[float, float], y: tuple[float, float], kind: str) -> Markup:
    return _tag("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_=kind)


def _ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from ``low`` or just below to ``high`` or just beyond.

    Examples
    --------
    >>> _ticks(0.0, 37.0)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    rough = max(high - low, 1e-9) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * m >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 12) for at in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class Dumbbell:
    """One line of a chart: a figure before and after, its interval and its limit, all in one unit."""

    name: str
    before: float | None
    after: float
    low: float | None
    high: float | None
    limit: float | None
    note: str


def dumbbells(lines: Sequence[Dumbbell], caption: str) -> Svg:
    """Draw a line for each place: an open circle before, a filled one after on its interval, and a dashed limit."""
    label = f"{caption}. {' '.join(f'{line.name}: {line.note}.' for line in lines)}"
    return Svg(_dumbbells(lines, label, _WIDE, 22), label, _dumbbells(lines, label, _NARROW, 18))


def _dumbbells(lines: Sequence[Dumbbell], label: str, wide: float, name: int) -> Markup:
    left = 16.0 + min(max(width(line.name) for line in lines), name) * _LETTER
    ends = [end for line in lines for end in (line.before, line.after, line.high, line.limit) if end is not None]
    scale = _ticks(min([0.0, *(line.low or 0.0 for line in lines)]), max([*ends, 0.01]), round(wide / 128))
    row, top = 34.0, 22.0
    bottom = top + row * len(lines)

    def x(value: float) -> float:
        share = (min(max(value, scale[0]), scale[-1]) - scale[0]) / (scale[-1] - scale[0])
        return left + share * (wide - left - 20.0)

    parts = [
        Markup("").join(
            [_line((x(t), x(t)), (top, bottom), "grid"), _text(x(t), bottom + 18, f"{t:g}", "soft", "middle")]
        )
        for t in scale
    ]
    for place, line in enumerate(lines):
        y = top + row * (place + 0.5)
        marks = [_tag("title", f"{line.name}: {line.note}"), _text(0.0, y + 4.0, cut(line.name, name))]
        if line.limit is not None:
            marks.append(_line((x(line.limit), x(line.limit)), (y - row / 2 + 3, y + row / 2 - 3), "limit"))
        if line.before is not None:
            marks.append(_line((x(line.before), x(line.after)), (y, y), "joint"))
        if line.low is not None and line.high is not None:
            marks.append(_line((x(line.low), x(line.high)), (y, y), "interval"))
        if line.before is not None:
            marks.append(_tag("circle", cx=x(line.before), cy=y, r=7.5, class_="before"))
        marks.append(_tag("circle", cx=x(line.after), cy=y, r=5.0, class_="after"))
        parts.append(_tag("g", *marks))
    limits = sorted({line.limit for line in lines if line.limit is not None})
    if limits:
        several = listed([f"{each:g}" for each in limits]) if len(limits) < 4 else f"{limits[0]:g} to {limits[-1]:g}"
        named = f"limit{'s' if len(limits) > 1 else ''} {several}"
        room = wide - len(named) * _LETTER  # so that the words end within the picture
        parts.append(_text(min(x(limits[0]) + 4.0, room), 14.0, named, "limit-name"))
    return _picture(wide, bottom + 26.0, label, *parts)


@dataclass(frozen=True)
class Curve:
    """A line of a chart: its points from left to right, and what it is called at its end."""

    name: str
    points: tuple[tuple[float, float], ...]
    notes: tuple[str, ...] = ()


def curves(
    lines: Sequence[Curve],
    *,
    label: str,
    x_title: str,
    y_title: str,
    band: Sequence[tuple[float, float, float]] = (),
    marked: Sequence[tuple[float, float, str]] = (),
    open_end: float | None = None,
) -> Svg:
    """Draw lines over a common axis; ``band`` is what was measured along one, ``marked`` points that are named.

    At ``open_end``, if any, stands what has no number: no limit.
    """

    def drawn(wide: float) -> Markup:
        high, left, top = 260.0, 52.0, 34.0
        right = 20.0 + min(max((width(line.name) for line in lines), default=0), 16) * _LETTER
        xs = [x for line in lines for x, _ in line.points]
        ys = [y for line in lines for _, y in line.points] + [end for _, *ends in band for end in ends]
        last = max([x for x in xs if x != open_end], default=1e-9)
        axis, up = _ticks(0.0, max(last, 1e-9), round(wide / 128)), _ticks(min(ys), max(ys))
        if open_end is not None:
            axis = [*(value for value in axis if value <= last * 1.001), open_end]

        def place(x: float, y: float) -> tuple[float, float]:
            return (
                left + (x - axis[0]) / (axis[-1] - axis[0]) * (wide - left - right),
                top + high * (up[-1] - y) / (up[-1] - up[0]),
            )

        def path(points: Sequence[tuple[float, float]]) -> str:
            return " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))

        end = wide - right
        parts = [_text(0.0, 14.0, y_title, "soft")]
        for value in up:
            y = place(axis[0], value)[1]
            parts += [_line((left, end), (y, y), "grid"), _text(left - 6, y + 4, f"{value:g}", "soft", "end")]
        for value in axis:
            name = "none" if value == open_end else f"{value:g}"
            parts.append(_text(place(value, up[0])[0], top + high + 18, name, "soft", "middle"))
        parts.append(_text((left + end) / 2, top + high + 38, x_title, "soft", "middle"))
        if band:
            outline = [(x, last) for x, _, last in band] + [(x, first) for x, first, _ in reversed(band)]
            parts.append(_tag("polygon", points=path(outline), class_="band"))
        apart = -math.inf
        for line in sorted(lines, key=lambda each: -each.points[-1][1]):
            parts.append(_tag("polyline", points=path(line.points), class_="way"))
            for at, point in enumerate(line.points):
                x, y = place(*point)
                tip = (_tag("title", line.notes[at]),) if line.notes else ()
                parts.append(_tag("circle", *tip, cx=x, cy=y, r=3.0, class_="after"))
            x, y = place(*line.points[-1])
            if y - apart >= 15.0:  # names do not overlap: of lines that end together the first is named
                parts.append(_text(x + 8, y + 4, cut(line.name, 16), "soft"))
                apart = y
        for x, y, name in marked:
            cx, cy = place(x, y)
            parts.append(_tag("circle", _tag("title", name), cx=cx, cy=cy, r=9.0, class_="mark"))
        return _picture(wide, top + high + 46.0, label, *parts)

    return Svg(drawn(_WIDE), label, drawn(_NARROW))
