"""What every picture needs: a scale, round ticks, grid lines, and the frame."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from logofair.report.markup import Element, Node, tag

__all__ = ["Scale", "grid_line", "nice_ticks", "picture"]


@dataclass(frozen=True)
class Scale:
    """Maps numbers from ``low`` to ``high`` to pixels from ``start`` to ``end``; numbers beyond stay at the edge.

    Examples
    --------
    >>> scale = Scale(0.0, 0.5, 100.0, 200.0)
    >>> scale.place(0.25), scale.place(7.0)
    (150.0, 200.0)
    """

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the pixel of a number."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def nice_ticks(highest: float, about: int = 5) -> list[float]:
    """Return round numbers from 0 that reach up to ``highest`` or just beyond.

    Examples
    --------
    >>> nice_ticks(0.21)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    rough = max(highest, 0.01) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * m >= rough * 0.999)
    count = math.ceil(max(highest, 0.01) / step - 1e-9)
    return [round(step * i, 12) for i in range(count + 1)]


def grid_line(
    x: tuple[float, float], y: tuple[float, float], text: str, at: tuple[float, float], anchor: str = "middle"
) -> Element:
    """Return a line from ``(x[0], y[0])`` to ``(x[1], y[1])`` with its number written at a point.

    Examples
    --------
    >>> str(grid_line((0.0, 9.0), (5.0, 5.0), "0.2", (0.0, 9.0))).count("0.2")
    1
    """
    line = tag("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_="grid")
    return tag("g", line, tag("text", text, x=at[0], y=at[1], class_="tick", text_anchor=anchor))


def picture(width: float, height: float, label: str, *parts: Node | Iterable[Node]) -> Element:
    """Return a picture of some parts; ``label`` tells those who do not see it what it shows.

    Examples
    --------
    >>> str(picture(10, 5, "Nothing"))[:30]
    '<svg xmlns="http://www.w3.org/'
    """
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
