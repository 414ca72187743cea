"""Reliability of scores per group: what was predicted beside what happened, before and after calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from logofair.inputs import Floats, Label
from logofair.report.canvas import Scale, grid_line, picture
from logofair.report.markup import Element, Node, tag
from logofair.segments import Indices
from logofair.solution import Rows

__all__ = ["Reliability", "reliability_by_group", "reliability_diagram"]

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


def reliability_by_group(rows: Rows) -> list[Reliability]:
    """Cut each group's rows by score into bins of equal count and measure them; nothing without labels.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 1], groups=["a", "a", "b", "b"], calibration="none")
    >>> first = reliability_by_group(solution.rows)[0]
    >>> first.rows.tolist(), first.score.tolist(), first.share.tolist(), round(first.before, 3)
    ([2], [0.75], [1.0], 0.25)
    """
    if rows.labels is None:
        return []
    weight = np.ones_like(rows.scores) if rows.weights is None else rows.weights
    found = []
    for code, name in enumerate(rows.groups.names):
        mine = np.flatnonzero((rows.groups.codes == code) & (weight > 0))
        if mine.size:
            mine = mine[np.argsort(rows.scores[mine], kind="stable")]
            columns = (rows.scores[mine], rows.eta[mine], rows.labels[mine], weight[mine])
            found.append(_binned(name, *columns))
    return found


def _binned(name: Label, score: Floats, chance: Floats, label: Floats, weight: Floats) -> Reliability:
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
    """Draw predictions across, the share of label 1 upwards: on the diagonal a prediction is right.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.array([0.5])
    >>> found = Reliability("a", np.array([40]), one, one, one, one - 0.1, one + 0.1, 0.0, 0.0)
    >>> str(reliability_diagram(found, label="Group a")).count("<title>")
    2
    """
    across, up = Scale(0.0, 1.0, 38.0, size - 10.0), Scale(0.0, 1.0, size - 40.0, 12.0)
    grid: list[Node] = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = across.place(tick), up.place(tick)
        grid.append(grid_line((x, x), (up.end, up.start), f"{tick:g}", (x, up.start + 16.0)))
        grid.append(grid_line((across.start, across.end), (y, y), f"{tick:g}", (across.start - 6.0, y + 4.0), "end"))
    diagonal = tag("line", x1=across.start, y1=up.start, x2=across.end, y2=up.end, class_="diagonal")
    words = tag("text", "predicted chance of label 1", x=size / 2, y=size - 6, class_="tick", text_anchor="middle")
    return picture(size, size, label, grid, diagonal, words, _marks(found, across, up))


def _marks(found: Reliability, across: Scale, up: Scale) -> list[Node]:
    """Marks of every bin; those before lie below those after."""
    rows = found.rows.tolist()
    befores: Sequence[Node] = [
        tag(
            "circle",
            tag("title", f"Score {x:.3f}, share of label 1 {y:.3f} ({n:,} rows)"),
            cx=across.place(x),
            cy=up.place(y),
            r=5.0,
            class_="before",
        )
        for x, y, n in zip(found.score.tolist(), found.share.tolist(), rows, strict=True)
    ]
    afters = []
    for x, y, low, high, n in zip(
        found.chance.tolist(), found.share.tolist(), found.low.tolist(), found.high.tolist(), rows, strict=True
    ):
        at = across.place(x)
        title = tag(
            "title", f"Calibrated {x:.3f}, share of label 1 {y:.3f}, by chance {low:.3f} to {high:.3f} ({n:,} rows)"
        )
        whisker = tag("line", x1=at, x2=at, y1=up.place(low), y2=up.place(high), class_="interval")
        afters.append(tag("g", title, whisker, tag("circle", cx=at, cy=up.place(y), r=4.0, class_="after")))
    return [*befores, *afters]
