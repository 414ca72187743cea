"""How figures of experiments look: one ink, colours and marks by method, labels beside what they name, SVG and PNG.

Colours are those of Okabe and Ito, which colour-blind readers tell apart, and every method has a mark or dashes of its
own besides: no figure means anything by hue alone. The ink becomes ``currentColor`` in the SVG, so that letters and
axes follow the page they stand in, light or dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from logofair.columns.checks import Floats
from logofair.errors import InputError
from logofair_reproduction.experiments.experiment import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "INK",
    "LABEL_SIZE",
    "Look",
    "Named",
    "apart",
    "end_labels",
    "exported",
    "in_page",
    "label_of",
    "look",
    "look_of",
    "need_matplotlib",
    "panels",
    "point_labels",
    "style",
]

INK = "#1b2230"
LABEL_SIZE = 8.0  # points
_DOTS = 150  # of the PNG, an inch
_BESIDE = 6.0  # points between an axis and its labels
_TITLES = {"axes.titlesize": 9.0, "axes.titleweight": "bold", "axes.titlelocation": "left"}
_STYLE: Mapping[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": LABEL_SIZE,
    **_TITLES,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **{f"axes.spines.{side}": False for side in ("top", "right")},
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
}
# What browsers have, mostly narrower than what the figure was laid out with.
_FONTS = "system-ui,'Liberation Sans',Arial,sans-serif"


def need_matplotlib() -> None:
    """Raise, naming the extra to install, where matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise InputError("Figures need matplotlib; install it with: pip install ./reproduction.")


@dataclass(frozen=True)
class Look:
    """A method's colour, mark, how it is filled, and the dashes of its line."""

    colour: str
    marker: str
    fill: str = "full"
    dashes: str | tuple[int, tuple[int, ...]] = "-"

    def mark(self, fill: str | None = None) -> dict[str, Any]:
        """Arguments for matplotlib that draw the mark alone."""
        return {
            "marker": self.marker,
            "color": self.colour,
            "fillstyle": fill or self.fill,
            "markerfacecoloralt": "none",
            "markersize": 6.5,
            "clip_on": False,
            "markeredgewidth": 1.1,
        }

    def bars(self) -> dict[str, Any]:
        """Arguments for matplotlib that draw the bars of an interval alone."""
        return {"fmt": "none", "ecolor": self.colour, "elinewidth": 0.8, "alpha": 0.5}


_ORANGE, _SKY, _GREEN, _BLUE, _RED, _PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
_SHORT_DASHES = (0, (4, 1, 1, 1))
# Half a mark is another way to the same: Algorithm 1 for the exact solver, or a method applied to a baseline.
_LOOKS: Mapping[str, Look] = {
    "fedavg": Look(INK, "p", dashes=":"),
    "fedfb": Look(_ORANGE, "s", dashes="--"),
    "fairfed": Look(_SKY, "^", dashes="-."),
    "fcfl": Look(_PURPLE, "D", dashes=_SHORT_DASHES),
    "logofair_g": Look(_GREEN, "P"),
    "logofair_l": Look(_RED, "X"),
    "logofair_lg": Look(_BLUE, "o"),
    "algorithm1_g": Look(_GREEN, "P", "left"),
    "algorithm1_l": Look(_RED, "X", "left"),
    "algorithm1_lg": Look(_BLUE, "o", "left", "--"),
    "fedfb_half": Look(_ORANGE, "s", "right", "--"),
    "fairfed_half": Look(_SKY, "^", "right", "-."),
    "fcfl_half": Look(_PURPLE, "D", "right", _SHORT_DASHES),
    "like_fedfb": Look(_ORANGE, "s", "bottom"),
    "like_fairfed": Look(_SKY, "^", "bottom"),
    "like_fcfl": Look(_PURPLE, "D", "bottom"),
    "on_fedfb": Look(_ORANGE, "s", "left"),
    "on_fairfed": Look(_SKY, "^", "left"),
    "on_fcfl": Look(_PURPLE, "D", "left"),
    "protocol": Look(_BLUE, "o", dashes=":"),
    "private": Look(_RED, "v"),
    "binned": Look(_GREEN, "H", dashes="--"),
    "oracle": Look(INK, "2", dashes="-."),
    "oracle_same": Look(INK, "1"),
    "oracle_elsewhere": Look(INK, "3"),
}


_SHORT = {
    "oracle": "Oracle",
    "oracle_same": "Oracle, same gaps",
    "binned": "Histograms, no noise",
    "private": "Histograms, noised",
    "protocol": "Exact protocol",
    **{f"algorithm1_{way}": f"Algorithm 1, {words}" for way, words in (("g", "g"), ("l", "l"), ("lg", "l&g"))},
    **{f"like_{name}": f"at {METHODS[name].title}'s gaps" for name in ("fedfb", "fairfed", "fcfl")},
    **{f"on_{name}": f"on {METHODS[name].title}'s scores" for name in ("fedfb", "fairfed", "fcfl")},
}


def label_of(method: str) -> str:
    """What figures call a method: its title, or less where the figure says the rest."""
    return _SHORT.get(method, METHODS[method].title)


def look_of(method: str) -> Look:
    """How a method is drawn, the same in every figure."""
    return _LOOKS.get(method, Look(INK, "."))


def look(name: str) -> dict[Any, Any]:
    """Matplotlib's settings for all figures, with identifiers that follow from the figure's name."""
    return {**_STYLE, "svg.hashsalt": name}


@contextmanager
def style(name: str) -> Iterator[None]:
    """Draw in the style of all figures."""
    import matplotlib

    with matplotlib.rc_context(look(name)):
        yield


def panels(rows: int, columns: int, size: tuple[float, float], **places: float) -> tuple[Figure, list[Axes]]:
    """A new figure of so many inches and its panels, row by row; ``places`` as for a grid of matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    grid = figure.add_gridspec(rows, columns, **places)
    return figure, [figure.add_subplot(grid[row, column]) for row in range(rows) for column in range(columns)]


@dataclass(frozen=True)
class Named:
    """A label and the point of a panel, in the panel's own numbers, that it names."""

    text: str
    x: float
    y: float
    colour: str = INK


def apart(wanted: Sequence[float], distance: float, low: float, high: float) -> Floats:
    """Positions nearest to those wanted, in the least squares, that are ``distance`` apart and from low to high.

    Examples
    --------
    >>> apart([5.0, 1.0, 5.0], 2.0, 0.0, 10.0).tolist()
    [4.0, 1.0, 6.0]
    """
    if not len(wanted):
        return np.zeros(0)
    order, steps = np.argsort(wanted, kind="stable"), distance * np.arange(len(wanted))
    near = isotonic_regression(np.asarray(wanted, dtype=np.float64)[order] - steps).x
    placed = np.empty(len(wanted))
    placed[order] = np.clip(near, low, max(low, high - steps[-1])) + steps
    return placed


def end_labels(axes: Axes, names: Sequence[Named]) -> None:
    """Write labels right of a panel, each as near to its point's height as the others let it, with a line to it."""
    box, points = axes.get_window_extent(), axes.figure.dpi / 72.0
    at = [axes.transData.transform((name.x, name.y)) for name in names]
    heights = apart([float(y) for _, y in at], 1.3 * LABEL_SIZE * points, box.y0, box.y1)
    for name, (x, y), height in zip(names, at, heights, strict=True):
        axes.annotate(
            name.text,
            ((float(x) - box.x0) / box.width, (float(y) - box.y0) / box.height),
            (1.0 + 2.5 * _BESIDE * points / box.width, (height - box.y0) / box.height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": name.colour, "lw": 0.6, "shrinkA": 1.0, "shrinkB": 3.0},
        )


_DIRECTIONS = np.radians([0, 180, 90, 270, *range(30, 360, 15)])
_FAR = (7.0, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0)  # points between a mark and its label
_MARK = 5.0  # points from a mark's middle to its edge


def point_labels(axes: Axes, names: Sequence[Named], obstacles: Iterable[tuple[float, float]] = ()) -> None:
    """Write labels beside points, where they hide neither one another nor a point; those further off have a line."""
    points, frame = axes.figure.dpi / 72.0, np.array(axes.get_window_extent().extents)
    named = [(name.x, name.y) for name in names]
    marks = axes.transData.transform([*named, *obstacles]) if names else np.zeros((0, 2))
    taken = np.hstack([marks - _MARK * points, marks + _MARK * points])
    lines = np.zeros((0, 2))
    for name, mark in zip(names, marks, strict=False):
        drawn = axes.text(0.0, 0.0, name.text)
        extent = drawn.get_window_extent()
        drawn.remove()
        places = _beside(mark, np.array([extent.width, extent.height]), points)
        costs = _hidden(places, taken, frame) + _crossed(places, mark, taken[len(marks) :], lines)
        box = places[np.argmin(costs)]
        taken, lines = np.vstack([taken, box]), np.vstack([lines, _line_to(box[None], mark)[0]])
        _write_label(axes, name, axes.transAxes.inverted().transform((box[:2] + box[2:]) / 2))


def _write_label(axes: Axes, name: Named, middle: Floats) -> None:
    axes.annotate(
        name.text,
        (name.x, name.y),
        (float(middle[0]), float(middle[1])),
        textcoords="axes fraction",
        ha="center",
        va="center",
        annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": name.colour, "lw": 0.6, "shrinkA": 0.0, "shrinkB": 4.0},
    )


def _beside(mark: Floats, size: Floats, points: float) -> Floats:
    """Boxes (left, bottom, right, top) where a label may lie: in all directions from its mark, near ones first."""
    ways = np.column_stack([np.cos(_DIRECTIONS), np.sin(_DIRECTIONS)]).round(6)
    middles = [mark + ways * far * points + np.sign(ways) * size / 2 for far in _FAR]
    middle = np.concatenate(middles)
    return np.hstack([middle - size / 2, middle + size / 2])


def _hidden(places: Floats, taken: Floats, frame: Floats) -> Floats:
    """How much of each box, in square pixels, lies on what is there already or outside the frame."""
    area = (places[:, 2:] - places[:, :2]).prod(axis=1)
    hidden: Floats = area + _common(places, taken).sum(axis=1) - _common(places, frame[None])[:, 0]
    return hidden


def _common(boxes: Floats, others: Floats) -> Floats:
    """The area that each box has in common with each other one."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    area: Floats = np.clip(high - low, 0.0, None).prod(axis=2)
    return area


def _line_to(places: Floats, mark: Floats) -> Floats:
    """Points of the lines that lead from a mark to its label, as far as they are seen."""
    middle = (places[:, :2] + places[:, 2:]) / 2
    points: Floats = mark + np.linspace(0.2, 0.8, 13)[None, :, None] * (middle - mark)[:, None, :]
    return points


def _crossed(places: Floats, mark: Floats, labels: Floats, lines: Floats) -> Floats:
    """What places cost besides what they hide: how far they are, and lines that run over labels."""
    middle = (places[:, :2] + places[:, 2:]) / 2
    own = _line_to(places, mark)
    over = _inside(own[:, :, None, :], labels[None, None]).sum(axis=(1, 2))
    under = _inside(lines[None], places[:, None]).sum(axis=1)
    costs: Floats = 0.3 * np.linalg.norm(middle - mark, axis=1) + 40.0 * (over + under)
    return costs


def _inside(points: Floats, boxes: Floats) -> npt.NDArray[np.bool_]:
    inside = (points >= boxes[..., :2]) & (points <= boxes[..., 2:])
    return np.asarray(np.all(inside, axis=-1))


def exported(figure: Figure) -> tuple[str, bytes]:
    """The figure as SVG, ready to stand in a page, and as PNG on white."""
    drawn, painted = io.StringIO(), io.BytesIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    figure.savefig(painted, format="png", dpi=_DOTS, facecolor="white", metadata={"Software": None})
    return _for_page(drawn.getvalue()), painted.getvalue()


def _for_page(svg: str) -> str:
    """An SVG that can stand in an HTML page beside others: no header, no style for all, no name that is not used."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda found: found[0] if found[1] in used else "", svg)
    return _shorter(svg.replace(INK, "currentColor")).replace("<svg ", f'<svg style="{_COMMON}" ', 1)


_COMMON = f"stroke-linejoin:round;stroke-linecap:butt;fill:currentColor;font-size:{LABEL_SIZE:g}px;font-family:{_FONTS}"


_NUMBER = re.compile(r"-?\d+\.\d+")


def _rounded(number: re.Match[str]) -> str:
    """Hundredths of a point for the shape of a mark, tenths for where it is."""
    value = float(number[0])
    shown = f"{value:.{2 if abs(value) < 10.0 else 1}f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else re.sub(r"^(-?)0\.", r"\1.", shown)


def _shorter(svg: str) -> str:
    """The same picture in half as many letters: fewer digits, groups that group nothing left out."""
    svg = re.sub(r"<[^>]*>", lambda found: _NUMBER.sub(_rounded, found[0]), svg)  # numbers people read stay
    svg = re.sub(r' d="([^"]*)"', lambda found: f' d="{_shorter_path(found[1])}"', svg)
    svg = re.sub(r" font-family: [^;\"]+;| transform=\"rotate\(-?0 [^)]*\)\"", "", svg)
    svg = re.sub(r'(style="[^"]*")', lambda found: found[0].replace(": ", ":").replace("; ", ";"), svg)
    svg = svg.replace(f'style="font-size:{LABEL_SIZE:g}px;', 'style="').replace(";fill:currentColor", "")
    svg = re.sub(r'(<use [^>]*) style="fill:currentColor;stroke:currentColor;stroke-width:.8"', r"\1", svg)  # ticks
    svg = re.sub(r"\s*\n\s*", " ", svg)
    svg = re.sub(r"> <", "><", svg)
    svg = re.sub(r' clip-path="[^"]*"( style="fill:none;stroke:currentColor;stroke-opacity:\.12;)', r"\1", svg)  # grid
    svg = _until_stable(r"<g>((?:(?!</?g\b).)*)</g>", r"\1", svg)
    svg = _until_stable(
        r'<path d="([^"]*)"([^>]* style="fill:none;[^>]*)/><path d="([^"]*)"\2/>', r'<path d="\1\3"\2/>', svg
    )
    return svg.replace("<defs></defs>", "")


def _until_stable(pattern: str, replacement: str, text: str) -> str:
    while (less := re.sub(pattern, replacement, text)) != text:
        text = less
    return text


def _shorter_path(path: str) -> str:
    """A path without the spaces that nothing needs, and with lines along an axis said by one number.

    Examples
    --------
    >>> _shorter_path("M 48.4 128.4 L 238.1 128.4 L 238.1 12 z ")
    'M48.4 128.4H238.1V12z'
    """
    at, parts = ("", ""), []
    for letter, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        ends = numbers.split()
        if letter == "L" and len(ends) == 2 and (ends[0] == at[0] or ends[1] == at[1]):
            parts.append(f"V{ends[1]}" if ends[0] == at[0] else f"H{ends[0]}")
        else:
            parts.append(letter + " ".join(ends))
        at = (ends[-2], ends[-1]) if len(ends) > 1 else ("", "")
    return "".join(parts)


def in_page(svgs: Sequence[str]) -> tuple[list[str], str]:
    """Pictures for one HTML page, in fewer letters: short names, and one style sheet in place of styles of their own.

    Examples
    --------
    >>> pictures = ['<svg><path id="p12ab" style="fill:none"/><use xlink:href="#p12ab"/></svg>'] * 2
    >>> shorter, style = in_page(pictures)
    >>> shorter[1], style
    ('<svg><path id="d1" class="d0"/><use href="#d1"/></svg>', '.d0{fill:none}')
    """
    styles: dict[str, int] = {}
    found, before = [], 0
    for svg in svgs:
        names = {name: f"d{before + i}" for i, name in enumerate(re.findall(r' id="([^"]+)"', svg))}
        before += len(names)
        svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="[^"]*"', "", svg).replace(" xlink:href=", " href=")
        svg = re.sub(r' style="([^"]*)"', lambda own: f' class="d{styles.setdefault(own[1], len(styles))}"', svg)
        found.append(_renamed(svg, names))
    return found, "".join(f".d{number}{{{style}}}" for style, number in styles.items())


def _renamed(svg: str, names: Mapping[str, str]) -> str:
    """The picture with other names for its parts, where they are defined and where they are used."""
    pattern = r'(?<= id=")[^"]+(?=")|(?<= href="#)[^"]+(?=")|(?<=url\(#)[^)]+(?=\))'
    return re.sub(pattern, lambda name: names.get(name[0], name[0]), svg)
