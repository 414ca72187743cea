"""The page of a recommendation: the tightest limits that these people can guarantee, what they cost, the command."""

from __future__ import annotations

from collections.abc import Iterator

from logofair.tradeoff.recommendation import LIMITS, Recommendation, RecommendedLimits
from logofair.words.about import About, title_line
from logofair.words.charts import Dumbbell, dumbbells
from logofair.words.phrases import NOTHING, counted, limit_points, listed, name_of, points, short_number
from logofair.words.sections import Answer, Bullets, CellText, Command, Page, Paragraph, Part, Picture, Section, Table


def recommend_page(found: Recommendation, about: About | None = None, *, command: str = "") -> Page:
    """Return the page of a recommendation; ``command`` is the fit of the same rows, to which limits are added.

    Examples
    --------
    >>> import logofair
    >>> rows = {"sensitive_features": ["a", "b"] * 40, "calibration": "none", "notion": "demographic_parity"}
    >>> page = recommend_page(logofair.recommend([0.9, 0.8, 0.6, 0.2] * 20, None, **rows))
    >>> page.table.rows[0][0], page.next
    ('selection rate', '')
    """
    about = about or About()
    best, picture = found.best, _picture(found)
    return Page(
        "Recommendation",
        f"{title_line(about, found.rows, found.sites, found.groups)}.",
        table=_table(found, about.site_word),
        answers=tuple(_answers(found, about.site_word)),
        picture=picture,
        beside=() if picture is None else (picture,),
        warnings=tuple(_warnings(found)),
        next="" if best is None else fit_command(found, best, command),
        sections=tuple(_sections(found, command)),
        about=about.heading,
        values=found.as_dict() | {"commands": [fit_command(found, line, command) for line in found.lines]},
        written=about.written,
    )


def subject_of(line: RecommendedLimits) -> str:
    """Return what a line is about: its rate, or its notion where that compares several."""
    return line.rates[0].name if len(line.rates) == 1 else line.notion.replace("_", " ")


def fit_command(found: Recommendation, line: RecommendedLimits, command: str) -> str:
    """Return what certifies a line again: a command, or without one to begin with the call; empty where none does."""
    if not line.found:
        return ""
    if not command:
        given = (f"{name}={value!r}" for name, value in line.arguments.items())
        return f"logofair.fit(..., {', '.join(given)}, random_state={found.random_state})"
    limits = ["none" if limit is None else f"{limit:g}" for limit in (line.local_limit, line.global_limit)]
    asked = f"--notion {line.notion} --local {limits[0]} --global {limits[1]} --confidence {line.confidence!r}"
    return f"{command} {asked} --seed {found.random_state} --out policy.json"


def _table(found: Recommendation, word: str) -> Table:
    """A line for each notion: limits inside sites and over all, how many sites, and what they cost."""
    sites = len(found.sites) > 1
    unit = "accuracy, %" if found.measure == "accuracy" else "cost per person"

    def limit(value: float | None) -> str:
        return "none" if value is None else limit_points(value)

    def line(each: RecommendedLimits) -> tuple[CellText, ...]:
        inside = [limit(each.local_limit), f"{len(each.sites):,} of {len(found.sites):,}"] if sites else []
        cost = f"{_figure(found, each.unlimited)} -> {_figure(found, each.value)}" if each.found else NOTHING
        return subject_of(each), *inside, limit(each.global_limit), cost, _figure(found, each.usual)

    head = ("tightest limit, points", *([f"per {word}", "where"] if sites else []), "overall", unit, "at limit 2")
    after = f"Guaranteed at {100 * found.confidence:g} % for new people like these, all lines together."
    return Table(
        "What these people can guarantee",
        head,
        tuple(map(line, found.lines)),
        "l" + "r" * (len(head) - 1),
        after=after if found.best is not None else "",
    )


def _picture(found: Recommendation) -> Picture | None:
    """What the limits of each line cost, beside what limits of 2 points would; the table has these figures too."""
    scale, unit = (100.0, "points of accuracy") if found.measure == "accuracy" else (1.0, "cost per person")

    def line(each: RecommendedLimits) -> Dumbbell:
        usual, own = abs(each.unlimited - each.usual), each.price
        note = f"{_figure(found, own)} {unit}; limits of 2 points: {_figure(found, usual)}"
        return Dumbbell(subject_of(each), scale * usual, scale * own, None, None, None, note)

    lines = [line(each) for each in found.lines if each.found]
    if not lines:
        return None
    caption = f"What it costs in {unit}: ● these limits, ○ limits of 2 points"
    return Picture(dumbbells(lines, caption), caption)


def _figure(found: Recommendation, value: float) -> str:
    return points(value) if found.measure == "accuracy" else short_number(value)


def _answers(found: Recommendation, word: str) -> Iterator[Answer]:
    """What to begin with, what it costs, and on what that rests."""
    best = found.best
    if best is None:
        needed = [line.rows_needed for line in found.lines if line.rows_needed is not None]
        takes = (
            f"it would take about {min(needed):,} people of every group" if needed else "no number of people would do"
        )
        loosest = f"not even {limit_points(LIMITS[0])} points overall"
        yield Answer("What can I defend?", "Start", "Nothing yet", "", f"{loosest} can be guaranteed; {takes}")
        return
    small = f" ({len(best.too_small):,} of {len(found.sites):,} too small)" if best.too_small else ""
    parts = [(best.local_limit, f"per {word}{small}"), (best.global_limit, "overall")]
    known = [(limit_points(limit), where) for limit, where in parts if limit is not None]
    limits = ", ".join(
        f"{limit}{'' if at else ' point' if limit == '1' else ' points'} {where}"
        for at, (limit, where) in enumerate(known)
    )
    yield Answer("What can I defend?", "Start", limits, "", f"gap in {subject_of(best)}")
    unit = "points of accuracy" if found.measure == "accuracy" else "per person"
    more = _figure(found, abs(best.unlimited - best.usual))
    yield Answer(
        "What does it cost?",
        "Cost",
        _figure(found, best.price),
        unit,
        f"limits of 2 points: {more}, guaranteeing nothing",
    )
    sure = f"Yes, at {100 * found.confidence:g} %"
    split = f"split by seed {found.random_state}; do not try others for a better answer"
    yield Answer("Can I rely on it?", "Rely on it", sure, "", split)


def _warnings(found: Recommendation) -> Iterator[str]:
    """What to do where a limit says little, or where one notion costs far more than another."""
    for line in found.lines:
        if line.is_void:
            rate, limit = line.rates[0].name, max(line.local_limit or 0.0, line.global_limit or 0.0)
            yield (
                f"The {rate} is {points(line.share)} %, so {limit_points(limit)} points say little. "
                f"Use a ratio: --require '{rate} ratio >= 0.8 overall'."
            )
    known = sorted((line for line in found.lines if line.found), key=lambda line: line.price)
    if len(known) > 1 and found.measure == "accuracy" and known[-1].price - known[0].price >= 0.02:
        dear, cheap = known[-1], known[0]
        rest = f"{subject_of(cheap)} {points(cheap.price)}"
        yield f"{subject_of(dear).capitalize()} costs {points(dear.price)} points of accuracy, {rest}."


def _sections(found: Recommendation, command: str) -> Iterator[Section]:
    for line in found.lines:
        subject = subject_of(line)
        if not line.found:
            needed = (
                "No number of people would do"
                if line.rows_needed is None
                else f"About {line.rows_needed:,} people of every group would do"
            )
            yield Section(line.notion, f"{subject}: nothing", (Paragraph(f"{needed}."),))
            continue
        parts: list[Part] = [Command(fit_command(found, line, command))]
        head, rows = ("where", "limit", "guaranteed below", "people"), []
        for each in line.certified:
            where = "all sites" if each.site is None else name_of(each.site, 30)
            below = NOTHING if each.high is None else points(each.high)
            rows.append((where, limit_points(each.limit or 0.0), below, f"{each.rows or 0:,}"))
        parts.append(Table("Guaranteed, points", head, tuple(rows), "lrrr", "Find a site"))
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
