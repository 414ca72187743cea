"""Pages of what fairness costs: a frontier of limits and where to start, and limits that these people can guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from logofair.outcomes import Outcome
from logofair.tradeoff import Frontier, Point, Recommendation
from logofair.tradeoff.recommendation import LIMITS, RecommendedLimits
from logofair.tradeoff.result import InfeasiblePoint, Tolerance, slack
from logofair.words.about import About, sources_section, title_line
from logofair.words.answers import interval
from logofair.words.charts import Curve, Dumbbell, Svg, curves, dumbbells
from logofair.words.phrases import (
    NOTHING,
    counted,
    in_objective,
    in_words,
    limit_points,
    listed,
    name_of,
    points,
    short_number,
)
from logofair.words.proof import pooling_sentence
from logofair.words.sections import (
    Answer,
    Bullets,
    Cell,
    CellText,
    Column,
    Command,
    Page,
    Paragraph,
    Part,
    Picture,
    Section,
    Table,
    can_rely,
    in_points,
    table_of,
    what_it_costs,
)

_WIDE, _DOWN = 6, 5  # limits in the small table
_LINES = 6  # of a picture
_KNEE = {
    "chance": "chance explains every difference between these rules",
    "even": "every point of limit wins about as much as the one before",
}


def frontier_page(frontier: Frontier, about: About | None = None, *, next_: str = "") -> Page:
    """Return the page of a frontier."""
    about = about or About()
    title = title_line(about, frontier.rows, frontier.sites, frontier.groups)
    tested = f" Tested on {frontier.test_rows:,} others." if frontier.test_rows else ""
    picture = frontier_plot(frontier)
    refused = [
        f"No rule meets {len(frontier.infeasible):,} of the pairs; the first: {each.error}"
        for each in frontier.infeasible
    ]
    facts = (
        ("people, others to test on", f"{frontier.rows:,}, {frontier.test_rows:,}"),
        ("notion", ", ".join(dict.fromkeys(name.replace("_", " ") for name in frontier.notions))),
        ("counted by, calibration", f"{frontier.basis}, {frontier.calibration}"),
    )
    return Page(
        "Frontier",
        f"{title}.{tested}",
        table=_frontier_table(frontier, f"{'--verbose' if about.command else 'summary(verbose=True)'} shows all"),
        answers=tuple(_frontier_answers(frontier)),
        picture=Picture(picture, picture.label),
        beside=(_frontier_table(frontier, "all are listed below"),),
        warnings=tuple(refused[:1]),
        next=next_,
        sections=(*_frontier_sections(frontier), sources_section(about, facts)),
        about=about.heading,
        values=frontier.as_dict(),
        written=about.written,
    )


def frontier_parts(frontier: Frontier) -> Iterator[Part]:
    """Return a frontier as a part of another page."""
    picture = frontier_plot(frontier)
    yield Picture(picture, picture.label)
    yield _frontier_table(frontier, "logofair frontier shows all")
    yield Paragraph(f"{': '.join(_advice(frontier))}.")


def _limit_text(frontier: Frontier, tolerance: Tolerance) -> str:
    """Return a limit on a gap in points, a ratio as it is, or none."""
    if tolerance is None:
        return "none"
    return f"{tolerance:g}" if frontier.measure == "ratio" else limit_points(round(tolerance, 5))


def _accurate(found: Frontier | Recommendation) -> bool:
    """Whether figures are accuracy, and not costs per person."""
    return found.objective == "accuracy"


def _figure(found: Frontier | Recommendation, value: float) -> str:
    return points(value) if _accurate(found) else short_number(value)


def _unit(found: Frontier | Recommendation) -> str:
    return "accuracy, %" if _accurate(found) else "cost per person"


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


def _frontier_table(frontier: Frontier, others: str) -> Table:
    """Limits inside sites down, over all columns; accuracy in percent or cost per person, the start marked."""
    start, paired = frontier.knee.point, frontier.paired
    over_all, inside = frontier.global_tolerances, frontier.local_tolerances
    places = _chosen(over_all, _WIDE, [] if start is None else [start.global_tolerance])
    down = _chosen(inside, _DOWN, [] if start is None else [start.local_tolerance])

    def cell(i: int, j: int) -> CellText:
        point = frontier.found(i, j)
        if isinstance(point, InfeasiblePoint):
            return "no rule"
        return Cell(f"{'*' if point is start else ''}{_figure(frontier, point.value)}", point.value)

    limits = "ratio" if frontier.measure == "ratio" else "limit in points"
    text = partial(_limit_text, frontier)
    head = (f"per site \\ overall, {limits}" if paired else limits, *(text(over_all[j]) for j in places))
    rows = [(text(inside[i]) if paired else _unit(frontier), *(cell(i, j) for j in places)) for i in down]
    shown, every = len(places) * len(down), len(over_all) * len(inside)
    what = "accuracy of the best rule, in %" if _accurate(frontier) else "cost per person of the best rule"
    after = [f"Expected {what}."] if paired else []
    after += ["* a good start."] if start is not None else []
    after += [f"{shown} of {every} pairs; {others}."] if shown < every else []
    return Table("What fairness costs", head, tuple(rows), "l" + "r" * len(places), after=" ".join(after))


def _frontier_answers(frontier: Frontier) -> Iterator[Answer]:
    """What limits cost at most, where to start, and on what that rests."""
    most = f"{_figure(frontier, frontier.unconstrained.value)} -> {_figure(frontier, frontier.points[0].value)}"
    unit = "% accuracy" if _accurate(frontier) else "per person"
    yield what_it_costs(most, unit, "without any limit, and with the strictest")
    start, why = _advice(frontier)
    yield Answer("Where to start?", "Start", start, "", why)
    change = frontier.measured(frontier.compared)
    if change is not None and change.low is not None and change.high is not None and _accurate(frontier):
        on = f"{frontier.test_rows:,} other people" if frontier.test_rows else "the people of the fit"
        either = f"could win {points(-change.low)} points or cost {points(change.high)}"
        found = either if change.low < 0 < change.high else f"cost {interval(change)} points"
        found = f"the strictest limits {found}, counted on {on}"
        yield can_rely("Measured" if frontier.test_rows else "Not yet", found)
    else:
        yield can_rely("Not yet", "expected on the rows of the fit; add --test FILE")


def _advice(frontier: Frontier) -> tuple[str, str]:
    """Return which limits to start from, and why."""
    knee = frontier.knee
    point = knee.point
    if point is None:
        return "No start stands out", _KNEE[knee.reason]
    where = _where(frontier, point)
    if knee.reason == "flat" and point.loss < 1e-3 * frontier.unit:
        return where, "even the strictest limits cost next to nothing"
    lost = f"costs {in_objective(frontier.objective, max(point.loss, 0.0))}"
    if knee.reason == "flat":
        return where, f"{lost}, and looser limits hardly win any of it back"
    return where, f"{lost}; each point less costs more, each point more wins little"


def _where(frontier: Frontier, point: Point | InfeasiblePoint) -> str:
    over_all = _limit_text(frontier, point.global_tolerance)
    if not frontier.paired:
        return f"A limit of {over_all}"
    return f"{_limit_text(frontier, point.local_tolerance)} per site, {over_all} overall"


def _frontier_sections(frontier: Frontier) -> Iterator[Section]:
    def measured(point: Point) -> str:
        found = frontier.measured(point.measured)
        return NOTHING if found is None else _figure(frontier, float(found))

    columns: list[Column[Point] | None] = [
        ("per site", "l", lambda each: _limit_text(frontier, each.local_tolerance)),
        ("overall", "r", lambda each: _limit_text(frontier, each.global_tolerance)),
        ("expected", "r", lambda each: Cell(_figure(frontier, each.value), each.value)),
        ("lost", "r", lambda each: Cell(_figure(frontier, max(each.loss, 0.0)), each.loss)),
        ("gap per site", "r", lambda each: in_points(each.local_gap)),
        ("gap overall", "r", lambda each: in_points(each.global_gap)),
        ("measured", "r", measured),
    ]
    table = table_of(f"Every pair, {_unit(frontier)}", columns, frontier.points, search="Find a pair")
    yield Section("pairs", "Every pair of limits", (table,))
    rest: list[Part] = [Bullets(sentences)] if (sentences := tuple(map(str, frontier.warnings))) else []
    if frontier.infeasible:
        rest.append(Bullets(tuple(f"{_where(frontier, each)}: {each.error}" for each in frontier.infeasible)))
    if frontier.has_sites:
        rest.append(Paragraph(pooling_sentence(frontier.pooling)))
    worst = max(point.certificate.optimality_gap or 0.0 for point in frontier.points)
    proved = f"Each rule is proved to be the best within its limits on the rows of the fit, to {worst:.0e}."
    yield Section("proof", "What is proved", (*rest, Paragraph(proved)))


def frontier_plot(frontier: Frontier) -> Svg:
    """Return a frontier as a picture: what is expected against one limit, a line for each of a few others.

    The start and the chosen pair are marked; a light band is the 95 % interval of what was measured.
    """
    along_global = len(frontier.global_tolerances) > 1
    along, others = frontier.global_tolerances, frontier.local_tolerances
    if not along_global:
        along, others = others, along
    # Where a limit lies: a gap in points, of a ratio what it lacks to 1; no limit beyond the loosest.
    lies = [None if each is None else 100.0 * slack(each, frontier.measure) for each in along]
    loosest = max((each for each in lies if each is not None), default=0.0) or 1.0
    place = [1.15 * loosest if each is None else each for each in lies]
    scale = 100.0 if _accurate(frontier) else 1.0
    lines: dict[int, list[tuple[float, Point]]] = {}
    for other in _chosen(others, _LINES, ()):
        pairs = ((other, at) if along_global else (at, other) for at in range(len(along)))
        found = [
            (x, point)
            for x, pair in zip(place, pairs, strict=True)
            if isinstance(point := frontier.found(*pair), Point)
        ]
        lines |= {other: found} if found else {}
    drawn, marked, unit = [], [], _unit(frontier)
    for other, found in lines.items():
        limit = _limit_text(frontier, others[other])
        name = f"{limit} {'per site' if along_global else 'overall'}" if len(others) > 1 else ""
        notes = (f"{_where(frontier, each)}: {_figure(frontier, each.value)} {unit}" for _, each in found)
        drawn.append(Curve(name, tuple((x, scale * each.value) for x, each in found), tuple(notes)))
        marked += [(x, scale * each.value, "a good start") for x, each in found if each is frontier.knee.point]
    band = _band(frontier, lines[max(lines)] if lines else [], scale)
    side = (" overall" if along_global else " per site") if frontier.paired else ""
    what = "accuracy in %" if _accurate(frontier) else unit
    marks = f"{'; ○ a good start' if marked else ''}{'; light: 95 % interval of what was measured' if band else ''}"
    return curves(
        drawn,
        label=f"Expected {what} by limit{side}{marks}",
        x_title=f"{'what the ratio lacks to 1' if frontier.measure == 'ratio' else 'limit'}{side}, points",
        y_title=unit,
        band=band,
        marked=marked,
        open_end=1.15 * loosest if None in along else None,
    )


def _band(frontier: Frontier, line: list[tuple[float, Point]], scale: float) -> list[tuple[float, float, float]]:
    """The interval of what was measured along the loosest line; empty where something was not."""
    found: list[tuple[float, float, float]] = []
    for place, point in line:
        value = frontier.measured(point.measured)
        if value is None or value.low is None or value.high is None:
            return []
        found.append((place, scale * value.low, scale * value.high))
    return found


def recommend_page(found: Recommendation, about: About | None = None, *, command: str = "") -> Page:
    """Return the page of a recommendation; ``command`` is the fit of the same rows, to which limits are added."""
    about = about or About()
    best, picture = found.best, _costs_picture(found)
    return Page(
        "Recommendation",
        f"{title_line(about, found.rows, found.sites, found.groups)}.",
        table=_limits_table(found, about.site_word, typed=bool(command)),
        answers=tuple(_recommend_answers(found, about.site_word)),
        picture=picture,
        beside=() if picture is None else (picture,),
        warnings=tuple(_recommend_warnings(found)),
        next="" if best is None else _fit_command(found, best, command),
        sections=tuple(_recommend_sections(found, command)),
        about=about.heading,
        values=found.as_dict() | {"commands": [_fit_command(found, line, command) for line in found.lines]},
        written=about.written,
    )


def _subject_of(line: RecommendedLimits) -> str:
    """Return what a line is about: its rate, or its notion where that compares several."""
    return line.rates[0].name if len(line.rates) == 1 else line.notion.replace("_", " ")


def recommended_words(found: Recommendation, line: RecommendedLimits) -> str:
    """Return the limits of a line, and what they cost, in few words."""
    limits = [
        f"{in_words(limit_points(limit))} {where}"
        for limit, where in ((line.local_limit, "per site"), (line.global_limit, "overall"))
        if limit is not None
    ]
    what, unit = ("accuracy", " %") if _accurate(found) else ("cost per person", "")
    cost = f"{what} {_figure(found, line.unlimited)} -> {_figure(found, line.value)}{unit}"
    listing = " and ".join(limits)
    return f"{_subject_of(line)} within {listing} ({cost})"


def _fit_command(found: Recommendation, line: RecommendedLimits, command: str) -> str:
    """Return what certifies a line again: a command, or without one to begin with the call; empty where none does."""
    if not line.found:
        return ""
    if not command:
        given = (f"{name}={value!r}" for name, value in line.arguments.items())
        return f"logofair.fit(..., {', '.join(given)}, random_state={found.random_state})"
    limits = ["none" if limit is None else f"{limit:g}" for limit in (line.local_limit, line.global_limit)]
    asked = f"--notion {line.notion} --local {limits[0]} --global {limits[1]} --confidence {line.confidence!r}"
    return f"{command} {asked} --seed {found.random_state} --out policy.json"


def _limits_table(found: Recommendation, word: str, *, typed: bool) -> Table:
    """A line for each notion: limits inside sites and over all, how many sites, and what they cost."""
    sites = len(found.sites) > 1

    def limit(value: float | None) -> str:
        return "none" if value is None else limit_points(value)

    def change(each: RecommendedLimits) -> str:
        return f"{_figure(found, each.unlimited)} -> {_figure(found, each.value)}" if each.found else NOTHING

    columns: list[Column[RecommendedLimits] | None] = [
        ("tightest limit, points", "l", _subject_of),
        (f"per {word}", "r", lambda each: limit(each.local_limit)) if sites else None,
        ("where", "r", lambda each: f"{len(each.sites):,} of {len(found.sites):,}") if sites else None,
        ("overall", "r", lambda each: limit(each.global_limit)),
        (_unit(found), "r", change),
        ("at limit 2", "r", lambda each: _figure(found, each.usual)),
    ]
    after = f"Guaranteed at {100 * found.confidence:g} % for new people like these, all lines together."
    each = "--verbose" if typed else "summary(verbose=True)"
    after += f" {each} shows how to make each." if sum(line.found for line in found.lines) > 1 else ""
    after = after if found.best is not None else ""
    return table_of("What these people can guarantee", columns, found.lines, after=after)


def _costs_picture(found: Recommendation) -> Picture | None:
    """What the limits of each line cost, beside what limits of 2 points would; the table has these figures too."""
    scale, unit = (100.0, "points of accuracy") if _accurate(found) else (1.0, "cost per person")
    lines = []
    for each in found.lines:
        usual, own = abs(each.unlimited - each.usual), each.price
        note = f"{_figure(found, own)} {unit}; limits of 2 points: {_figure(found, usual)}"
        lines += [Dumbbell(_subject_of(each), scale * usual, scale * own, None, None, None, note)] if each.found else []
    if not lines:
        return None
    caption = f"What it costs in {unit}: ● these limits, ○ limits of 2 points"
    return Picture(dumbbells(lines, caption), caption)


def _recommend_answers(found: Recommendation, word: str) -> Iterator[Answer]:
    """What to begin with, what it costs, and on what that rests."""
    best, question = found.best, "What can I defend?"
    if best is None:
        needed = min((line.rows_needed for line in found.lines if line.rows_needed is not None), default=None)
        more = "no number of people would do"
        takes = more if needed is None else f"it would take about {needed:,} people of every group"
        loosest = f"not even {limit_points(LIMITS[0])} points overall"
        yield Answer(question, "Start", "Nothing yet", "", f"{loosest} can be guaranteed; {takes}")
        return
    small = f" ({len(best.too_small):,} of {len(found.sites):,} too small)" if best.too_small else ""
    parts = [(best.local_limit, f"per {word}{small}"), (best.global_limit, "overall")]
    known = [(limit_points(limit), where) for limit, where in parts if limit is not None]
    limits = ", ".join(f"{limit if at else in_words(limit)} {where}" for at, (limit, where) in enumerate(known))
    yield Answer(question, "Start", limits, "", f"gap in {_subject_of(best)}")
    unit, plain = "points of accuracy" if _accurate(found) else "per person", abs(best.unlimited - best.usual)
    usual = f"limits of 2 points, not guaranteed, cost {_figure(found, plain)}"
    yield what_it_costs(_figure(found, best.price), unit, usual)
    split = f"split by seed {found.random_state}; do not try others for a better answer"
    yield can_rely(f"Yes, at {100 * found.confidence:g} %", split)


def _recommend_warnings(found: Recommendation) -> Iterator[str]:
    """What to do where a limit says little, or where one notion costs far more than another."""
    void = [line for line in found.lines if line.is_void]
    if void:
        rates = {line.rates[0].name: f"{line.rates[0].name} {points(line.share)} %" for line in reversed(void)}
        first = void[0].rates[0].name
        ratio = f"--require '{first} ratio >= 0.8 overall'"
        yield f"Such gaps say little of low rates ({', '.join(reversed(rates.values()))}): use a ratio, {ratio}."
    known = sorted((line for line in found.lines if line.found), key=lambda line: line.price)
    if len(known) > 1 and _accurate(found) and known[-1].price - known[0].price >= 0.02:
        dear, cheap = known[-1], known[0]
        rest = f"{_subject_of(cheap)} {points(cheap.price)}"
        yield f"{_subject_of(dear).capitalize()} costs {points(dear.price)} points of accuracy, {rest}."


def _recommend_sections(found: Recommendation, command: str) -> Iterator[Section]:
    certified: list[Column[Outcome] | None] = [
        ("where", "l", lambda each: "all sites" if each.site is None else name_of(each.site, 30)),
        ("limit", "r", lambda each: limit_points(each.limit or 0.0)),
        ("guaranteed below", "r", lambda each: points(each.high)),
        ("people", "r", lambda each: f"{each.rows or 0:,}"),
    ]
    for line in found.lines:
        subject = _subject_of(line)
        if not line.found:
            people = f"About {line.rows_needed:,} people of every group"
            needed = "No number of people" if line.rows_needed is None else people
            yield Section(line.notion, f"{subject}: nothing", (Paragraph(f"{needed} would do."),))
            continue
        parts: list[Part] = [Command(_fit_command(found, line, command))]
        parts.append(table_of("Guaranteed, points", certified, line.certified, search="Find a site"))
        if line.too_small:
            parts.append(Paragraph(f"Too small: {listed(map(name_of, line.too_small), 40)}."))
        yield Section(line.notion, f"{subject}, {line.method}", tuple(parts))
    how = (
        f"Each of the {counted(len(found.lines), 'line')} takes an equal part of the error, so that all hold together.",
        "By rank: thresholds are placed at ranks chosen beforehand among people who chose nothing, so that any limit "
        "may be tried.",
        "On rows held out: at most three limits are tried, chosen by numbers of people; they share the error.",
    )
    yield Section("how", "How it was found", (Bullets(how),))
