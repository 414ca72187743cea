"""The page of a frontier: what fairness costs for a few pairs of limits, and which to start from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from logofair.tradeoff import Frontier, Point
from logofair.tradeoff.result import Ratio, Tolerance
from logofair.words.about import About, sources_section, title_line
from logofair.words.charts import Curve, Svg, curves
from logofair.words.phrases import NOTHING, limit_points, points, short_number, span
from logofair.words.proof import pooling_sentence, warning_sentences
from logofair.words.sections import Answer, Bullets, Cell, CellText, Page, Paragraph, Part, Picture, Section, Table

_WIDE, _DOWN = 6, 5  # limits in the small table
_LINES = 6  # of a picture
_KNEE = {
    "chance": "chance explains every difference between these rules",
    "even": "every point of limit wins about as much as the one before",
}


def frontier_page(frontier: Frontier, about: About | None = None, *, next_: str = "") -> Page:
    """Return the page of a frontier.

    Examples
    --------
    >>> import logofair
    >>> rows = {"sensitive_features": ["a", "a", "b", "b"], "calibration": "none"}
    >>> surface = logofair.frontier([0.9, 0.8, 0.6, 0.2], None, **rows, global_tolerances=[0.0, None])
    >>> frontier_page(surface).table.head
    ('limit in points', '0', 'none')
    """
    about = about or About()
    title = title_line(about, frontier.rows, frontier.sites, frontier.groups)
    tested = f" Tested on {frontier.test_rows:,} others." if frontier.test_rows else ""
    picture = frontier_plot(frontier)
    warnings: tuple[str, ...] = ()
    if frontier.infeasible:
        first = frontier.infeasible[0]
        warnings = (f"No rule meets {len(frontier.infeasible):,} of the pairs; the first: {first.error}",)
    facts = (
        ("people, others to test on", f"{frontier.rows:,}, {frontier.test_rows:,}"),
        ("notion", ", ".join(dict.fromkeys(name.replace("_", " ") for name in frontier.notions))),
        ("counted by, calibration", f"{frontier.basis}, {frontier.calibration}"),
    )
    return Page(
        "Frontier",
        f"{title}.{tested}",
        table=_table(frontier, f"{'--verbose' if about.command else 'summary(verbose=True)'} shows all"),
        answers=tuple(_answers(frontier)),
        picture=Picture(picture, picture.label),
        beside=(_table(frontier, "all are listed below"),),
        warnings=warnings,
        next=next_,
        sections=(*_sections(frontier), sources_section(about, iter(facts))),
        about=about.heading,
        values=frontier.as_dict(),
        written=about.written,
    )


def frontier_parts(frontier: Frontier) -> Iterator[Part]:
    """Return a frontier as a part of another page."""
    picture = frontier_plot(frontier)
    yield Picture(picture, picture.label)
    yield _table(frontier, "logofair frontier shows all")
    yield Paragraph(f"{': '.join(advice(frontier))}.")


def limit_text(tolerance: Tolerance) -> str:
    """Return a limit on a gap in points, a ratio as it is, or none."""
    if isinstance(tolerance, Ratio):
        return f"{tolerance.least:g}"
    return "none" if tolerance is None else limit_points(round(tolerance, 5))


def _value(frontier: Frontier, value: float) -> str:
    return points(value) if frontier.objective.costs is None else short_number(value)


def _chosen(limits: Sequence[Tolerance], most: int, wanted: Sequence[Tolerance]) -> list[int]:
    """The places of a few limits: the ends, those wanted, and others evenly between."""
    if len(limits) <= most:
        return list(range(len(limits)))
    known = [limits.index(each) for each in wanted if each in limits]
    even = np.linspace(0, len(limits) - 1, most).round().astype(int).tolist()
    kept = list(dict.fromkeys([0, len(limits) - 1, *known]))
    for place in even:
        if len(kept) < most and place not in kept:
            kept.append(place)
    return sorted(kept)


def _table(frontier: Frontier, others: str) -> Table:
    """Limits inside sites down, over all columns; accuracy in percent or cost per person, the start marked."""
    start = frontier.knee.point
    columns = _chosen(frontier.global_tolerances, _WIDE, [] if start is None else [start.global_tolerance])
    down = _chosen(frontier.local_tolerances, _DOWN, [] if start is None else [start.local_tolerance])
    ratios = any(isinstance(each, Ratio) for each in (*frontier.local_tolerances, *frontier.global_tolerances))
    limits = "ratio" if ratios else "limit in points"
    head = (
        f"per site \\ overall, {limits}" if frontier.paired else limits,
        *(limit_text(frontier.global_tolerances[j]) for j in columns),
    )

    def cell(i: int, j: int) -> CellText:
        point = frontier.found(i, j)
        if point is None:
            return "no rule"
        return Cell(f"{'*' if point is start else ''}{_value(frontier, point.value)}", point.value)

    rows = [
        (
            limit_text(frontier.local_tolerances[i]) if frontier.paired else _unit(frontier),
            *(cell(i, j) for j in columns),
        )
        for i in down
    ]
    shown = len(columns) * len(down)
    every = len(frontier.global_tolerances) * len(frontier.local_tolerances)
    after = [f"Expected {_unit(frontier)} of the best rule."] if frontier.paired else []
    after += ["* a good start."] if start is not None else []
    after += [f"{shown} of {every} pairs; {others}."] if shown < every else []
    return Table("What fairness costs", head, tuple(rows), "l" + "r" * len(columns), after=" ".join(after))


def _unit(frontier: Frontier) -> str:
    return "accuracy, %" if frontier.objective.costs is None else "cost per person"


def _answers(frontier: Frontier) -> Iterator[Answer]:
    """What limits cost at most, where to start, and on what that rests."""
    base, objective = frontier.unconstrained, frontier.objective
    strictest = frontier.points[0]
    unit = "% accuracy" if objective.costs is None else "per person"
    yield Answer(
        "What does it cost?",
        "Cost",
        f"{_value(frontier, base.value)} -> {_value(frontier, strictest.value)}",
        unit,
        "without any limit, and with the strictest",
    )
    start, why = advice(frontier)
    yield Answer("Where to start?", "Start", start, "", why)
    compared = frontier.compared
    change = objective.measured(compared)
    if change is not None and change.low is not None and change.high is not None and objective.costs is None:
        on = f"{frontier.test_rows:,} other people" if frontier.test_rows else "the people of the fit"
        found = f"the strictest limits cost {span(change.low, change.high)} points, counted on {on}"
        yield Answer("Can I rely on it?", "Rely on it", "Measured" if frontier.test_rows else "Not yet", "", found)
    else:
        yield Answer(
            "Can I rely on it?", "Rely on it", "Not yet", "", "expected on the rows of the fit; add --test FILE"
        )


def advice(frontier: Frontier) -> tuple[str, str]:
    """Return which limits to start from, and why."""
    knee = frontier.knee
    point = knee.point
    if point is None:
        return "No start stands out", _KNEE[knee.reason]
    where = _where(frontier, point)
    objective = frontier.objective
    if knee.reason == "flat" and point.loss < 1e-3 * objective.unit:
        return where, "even the strictest limits cost next to nothing"
    unit = "points of accuracy" if objective.costs is None else "per person"
    lost = f"costs {_value(frontier, max(point.loss, 0.0))} {unit}"
    if knee.reason == "flat":
        return where, f"{lost}, and looser limits hardly win any of it back"
    return where, f"{lost}; looser limits win less than tighter ones did"


def _where(frontier: Frontier, point: Point) -> str:
    over_all = limit_text(point.global_tolerance)
    if not frontier.paired:
        return f"A limit of {over_all}"
    return f"{limit_text(point.local_tolerance)} per site, {over_all} overall"


def _sections(frontier: Frontier) -> Iterator[Section]:
    head = ("per site", "overall", "expected", "lost", "gap per site", "gap overall", "measured")

    def line(point: Point) -> tuple[CellText, ...]:
        found = frontier.objective.measured(point.measured)
        measured = NOTHING if found is None else f"{_value(frontier, float(found))}"
        return (
            limit_text(point.local_tolerance),
            limit_text(point.global_tolerance),
            Cell(_value(frontier, point.value), point.value),
            Cell(_value(frontier, max(point.loss, 0.0)), point.loss),
            Cell(points(point.local_gap), point.local_gap),
            Cell(points(point.global_gap), point.global_gap),
            measured,
        )

    table = Table(
        f"Every pair, {_unit(frontier)}", head, tuple(map(line, frontier.points)), "l" + "r" * 6, "Find a pair"
    )
    yield Section("pairs", "Every pair of limits", (table,))
    rest: list[Part] = [Bullets(sentences)] if (sentences := warning_sentences(frontier.warnings)) else []
    if frontier.infeasible:
        rest.append(Bullets(tuple(f"{_where(frontier, each)}: {each.error}" for each in frontier.infeasible)))  # type: ignore[arg-type]
    if frontier.has_sites:
        rest.append(Paragraph(pooling_sentence(frontier.pooling)))
    worst = max(point.certificate.optimality_gap for point in frontier.points)
    rest.append(
        Paragraph(f"Each rule is proved to be the best within its limits on the rows of the fit, to {worst:.0e}.")
    )
    yield Section("proof", "What is proved", tuple(rest))


def frontier_plot(frontier: Frontier) -> Svg:
    """Return a frontier as a picture: what is expected against one limit, a line for each of a few others.

    The start and the chosen pair are marked; a light band is the 95 % interval of what was measured.
    """
    along_global = len(frontier.global_tolerances) > 1
    along, others = frontier.global_tolerances, frontier.local_tolerances
    if not along_global:
        along, others = others, along
    finite = [_position(each) for each in along if each is not None]
    loosest = max(finite, default=0.0) or 1.0
    scale = 100.0 if frontier.objective.costs is None else 1.0

    def point_at(one: int, other: int) -> Point | None:
        return frontier.found(other, one) if along_global else frontier.found(one, other)

    def x(tolerance: Tolerance) -> float:
        return 1.15 * loosest if tolerance is None else _position(tolerance)

    def line(other: int) -> list[tuple[float, Point]]:
        found = ((x(each), point_at(at, other)) for at, each in enumerate(along))
        return [(place, point) for place, point in found if point is not None]

    lines = {other: line(other) for other in _chosen(others, _LINES, ()) if line(other)}
    name = "per site" if along_global else "overall"
    drawn = [
        Curve(
            f"{limit_text(others[other])} {name}" if len(others) > 1 else "",
            tuple((place, scale * point.value) for place, point in found),
            tuple(
                f"{_where(frontier, point)}: {_value(frontier, point.value)} {_unit(frontier)}" for _, point in found
            ),
        )
        for other, found in lines.items()
    ]
    start, marked = frontier.knee.point, []
    for found in lines.values():
        marked += [(place, scale * point.value, "a good start") for place, point in found if point is start]
    unit = _unit(frontier)
    side = (" overall" if along_global else " per site") if frontier.paired else ""
    ratios = any(isinstance(each, Ratio) for each in along)
    band = _band(frontier, lines, scale)
    what = "accuracy in %" if frontier.objective.costs is None else unit
    marks = f"{'; ○ a good start' if marked else ''}{'; light: 95 % interval of what was measured' if band else ''}"
    return curves(
        drawn,
        label=f"Expected {what} by limit{side}{marks}",
        x_title=f"{'what the ratio lacks to 1' if ratios else 'limit'}{side}, points",
        y_title=unit,
        band=band,
        marked=marked,
        open_end=x(None) if None in along else None,
    )


def _position(tolerance: float | Ratio) -> float:
    """Where a limit lies: a gap in points, of a ratio what it lacks to 1."""
    return 100.0 * (1.0 - tolerance.least if isinstance(tolerance, Ratio) else tolerance)


def _band(
    frontier: Frontier, lines: dict[int, list[tuple[float, Point]]], scale: float
) -> list[tuple[float, float, float]]:
    """The interval of what was measured along the loosest line; empty where something was not."""
    found: list[tuple[float, float, float]] = []
    for place, point in lines[max(lines)] if lines else []:
        value: Any = frontier.objective.measured(point.measured)
        if value is None or value.low is None or value.high is None:
            return []
        found.append((place, scale * value.low, scale * value.high))
    return found
