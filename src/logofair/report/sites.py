"""Every site: what can be said of all of them, a picture of their gaps, one at a time, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from logofair.auditing import FEW_ROWS, Audit, Measured
from logofair.auditing.result import FITTED_ROWS, NOT_TESTED, with_few_rows
from logofair.report.charts import GapPoint, gap_dumbbells, shows_nothing
from logofair.report.contents import ReportContents
from logofair.report.markup import (
    Cell,
    Element,
    Section,
    Trusted,
    folded,
    grid,
    measured_cell,
    named,
    note,
    number,
    paragraph,
    rows_cell,
    tag,
    text,
    tolerance_cell,
)
from logofair.report.measured import MOST_CARDS, MeasuredRows
from logofair.report.wording import counted, figure, name_of, sentence, small, tolerance_of

_BY_ITSELF = "each interval that of this site by itself"
_WIDE, _NARROW = 860.0, 350.0
_MOST_DRAWN = 40  # sites in a picture
_MOST_LINES = 600  # of the table
_WORDS = {"accuracy": "accuracy", "cost": "cost per person"}
_MARKS = {"within": "met", "above": "missed", "cannot be told": "unclear"}


def sites_section(rows: MeasuredRows, contents: ReportContents | None = None) -> Section | None:
    """Return what is known of every site; ``contents`` adds the rules and prices of a solution."""
    if not rows.has_sites:
        return None
    count = len(rows.after.sites)
    words = (
        f"{counted(count, 'site')} on {counted(rows.size, 'row')}: the {rows.name}. "
        "Sites whose gap is shown to be largest come first, then those with the most rows. A site’s gap is that "
        f"between groups of {FEW_ROWS} rows or more where it has two such groups."
    )
    others = [] if contents is None else [c for c in contents.solution.requirement_checks if c.side == "local"]
    checked = [paragraph(words) for words in _checked(rows, more=any(c.kind != "tolerance" for c in others))]
    pictures = [_figure(rows, k) for k in range(len(rows.after.local.rates))]
    drawn = [_legend(rows), *pictures] if any(pictures) else []
    return Section("sites", "Every site", (*checked, paragraph(words), *drawn), tuple(_parts(rows, contents)))


def _checked(rows: MeasuredRows, *, more: bool) -> Iterator[str]:
    """How many sites are shown to be above or within; on the rows that chose the rule nothing is.

    ``more`` says that something else than tolerances is required inside sites.
    """
    if rows.after.fitted_rows:
        yield f"{sentence(NOT_TESTED)} Here gaps are {FITTED_ROWS}."
    if not np.isfinite(rows.local_tolerance).any():
        yield (
            "No tolerance is required of the gaps inside sites; the list of requirements has what is."
            if more
            else "Nothing is required inside sites."
        )
    elif rows.after.fitted_rows:
        yield rows.after.check_sites(rows.local_tolerance).reach
    elif len(rows.notions) == 1:
        yield str(rows.after.check_sites(rows.local_tolerance))
        if rows.unknown_sites:
            unknown = counted(rows.unknown_sites, "more site")
            yield f"Of {unknown} nothing is required: unknown at fit time, or free."
    else:
        tolerance = float(rows.local_tolerance.flat[0])
        yield from (f"{sentence(name)[:-1]}: {audit.check_sites(tolerance)}" for name, audit, _ in rows.notions)


def _parts(rows: MeasuredRows, contents: ReportContents | None) -> Iterator[Section]:
    """The cards and the table, which is folded away where sites are many."""
    count, table = len(rows.after.sites), _table(rows, contents)
    carded = rows.ranked[:MOST_CARDS]
    first = note(f"The first {len(carded)} of {counted(count, 'site')} have a card.") if count > MOST_CARDS else None
    cards = tag("div", [_card(rows, contents, place) for place in carded], class_="cards")
    yield Section("site", "One site at a time", (first, _picker(rows), cards))
    body = [folded(f"The table of {counted(count, 'site')}", table)] if count > MOST_CARDS else table
    yield Section("site-table", "All sites in a table", tuple(body))


def _gap(rows: MeasuredRows, audit: Audit | None, rate: int, place: int) -> Measured | None:
    gap = rows.site_gap(audit, rate, place)
    return None if gap is None else gap.value


def _card(rows: MeasuredRows, contents: ReportContents | None, place: int) -> Element:
    """One site: its groups with their rates and rules, and its gaps."""
    site, tally = rows.after.sites[place], rows.after.local.tally
    title = f"site-{place}-title"
    figures = "".join(_figure_words(rows, place, name) for name in _by_labels(rows))
    words = f"{counted(int(tally.rows[place].sum()), 'row')}{figures}."
    state = rows.state(place)
    badge = tag("span", f"Tolerance: {_shown(state)}", class_=f"badge {_MARKS[state]}") if state else None
    return tag(
        "article",
        tag("h4", tag("bdi", name_of(site)), id=title),
        tag("p", words, " ", badge),
        _groups(rows, place),
        _gaps(rows, place),
        None if contents is None else _rules(rows, contents, place),
        id=f"site-{place}",
        class_="card",
        tabindex="-1",
        aria_labelledby=title,
    )


def _shown(state: str) -> str:
    """What is shown of a site, in words."""
    return f"{state}, shown" if state in ("within", "above") else state


def _by_labels(rows: MeasuredRows) -> list[str]:
    """The figures that labels give of every site: none without labels, the cost where errors have one."""
    if not rows.after.local.tally.labelled or rows.in_chances:
        return []
    return ["accuracy", *([] if rows.after.costs is None else ["cost"])]


def _figure_words(rows: MeasuredRows, place: int, name: str) -> str:
    words, after = f"; {_WORDS[name]} by labels", _with_interval(_figure_at(rows.after, place, name))
    if rows.before is None:
        return f"{words} {after}"
    return f"{words} {_with_interval(_figure_at(rows.before, place, name))} before, {after} after"


def _groups(rows: MeasuredRows, place: int) -> Element:
    """Each group's rates, and on how many rows."""
    side, before = rows.after.local, rows.before
    after_rates = side.measured_rates(place)
    before_rates = {} if before is None else before.local.measured_rates(place)
    several, compared = len(after_rates) > 1, before is not None
    titles = [*(["rate"] if several else []), "group", "rows", *(["before", "after"] if compared else ["rate"])]
    lines = [
        [
            *([text(name)] if several else []),
            named(name_of(group)),
            rows_cell(0 if value is None else value.rows or 0),
            *([measured_cell(before_rates[name][group])] if compared else []),
            measured_cell(value),
        ]
        for name, row in after_rates.items()
        for group, value in row.items()
    ]
    return grid("Groups here" if several else f"{sentence(side.rates[0].name)[:-1]} of the groups here", titles, lines)


def _rules(rows: MeasuredRows, contents: ReportContents, place: int) -> Element:
    """Each group's rule here."""
    site, groups = rows.after.sites[place], rows.after.groups
    lines = [[named(name_of(group)), text(contents.rule(site, group), mark="rule")] for group in groups]
    return grid("Rules here", ["group", "rule"], lines)


def _gaps(rows: MeasuredRows, place: int) -> list[Element]:
    """Gap of every rate before and after."""
    titles = ["gap of the", *(["before", "after"] if rows.before is not None else ["value"]), "tolerance", "rows"]
    lines = []
    for k, rate in enumerate(rows.after.local.rates):
        after = _gap(rows, rows.after, k, place)
        lines.append(
            [
                named(rate.name),
                *([measured_cell(_gap(rows, rows.before, k, place))] if rows.before is not None else []),
                measured_cell(after),
                tolerance_cell(float(rows.local_tolerance[k, place])),
                number(None) if after is None else rows_cell(after.rows or 0),
            ]
        )
    few = (with_few_rows(rows.hidden_gap(k, place)) for k in range(len(rows.after.local.rates)))
    return [grid(f"Gaps here, {_BY_ITSELF}", titles, lines), *(note(words) for words in few if words)]


def _figure(rows: MeasuredRows, rate: int) -> Element | None:
    """One rate's picture, drawn for a desk and for a phone; none where it would show nothing."""
    name, ranked = rows.after.local.rates[rate].name, rows.ranked
    many = len(ranked) > _MOST_DRAWN
    there = ~np.isnan((rows.after.local.large if many else rows.after.local).gaps[rate])
    without = f"fewer than two groups of {FEW_ROWS} rows" if many else "fewer than two groups"
    missing, ranked = int((~there).sum()), [place for place in ranked if there[place]]
    left_out = f" {counted(missing, 'site')} with {without} not drawn." if missing else ""
    if len(ranked) > _MOST_DRAWN:
        left_out += f" Of the others the first {_MOST_DRAWN} are drawn; the table has all."
    points = [_point(rows, rate, place) for place in ranked[:_MOST_DRAWN]]
    if shows_nothing(points, _WIDE):
        return None
    both = " before and after" if rows.before is not None else ""
    words = f"Gap of the {name} between groups inside each of {counted(len(points), 'site')}{both}, {rows.name}."
    return tag(
        "figure",
        tag("div", gap_dumbbells(points, width=_WIDE, label=words), class_="wide"),
        tag("div", gap_dumbbells(points, width=_NARROW, label=words), class_="narrow"),
        tag("figcaption", f"{words}{left_out}"),
    )


def _point(rows: MeasuredRows, rate: int, place: int) -> GapPoint:
    """One site in the picture."""
    before, after = _gap(rows, rows.before, rate, place), _gap(rows, rows.after, rate, place)
    tolerance = float(rows.local_tolerance[rate, place])
    first = f"gap {figure(before)} before, after " if rows.before is not None else "gap "
    assert after is not None  # sites without a gap are not drawn
    interval = None if after.low is None or after.high is None else (after.low, after.high)
    return GapPoint(
        name=name_of(rows.after.sites[place]),
        link=rows.link(rows.after.sites[place]),
        before=before,
        after=after,
        tolerance=tolerance if np.isfinite(tolerance) else None,
        interval=interval,
        few=(after.rows or 0) < FEW_ROWS,
        note=f"{first}{after}, tolerance {tolerance_of(tolerance)}",
    )


def _legend(rows: MeasuredRows) -> Element:
    """What the marks mean, drawn as they are."""
    after = "after" if rows.before is not None else "gap"
    few = f"{after}, on fewer than {FEW_ROWS} rows"
    marks = [
        ('<circle cx="8" cy="8" r="5" class="before"/>', "before"),
        ('<circle cx="8" cy="8" r="5" class="after"/>', after),
        *([('<path d="M8 2l6 6l-6 6l-6 -6z" class="after few"/>', few)] if _draws_few(rows) else []),
        ('<path d="M0 8h16" class="interval"/>', "95% interval of each gap by itself"),
        ('<path d="M8 2v12" class="limit"/>', "tolerance"),
    ]
    items = [
        tag("li", tag("svg", Trusted(mark), viewBox="0 0 16 16", width=16, height=16, aria_hidden="true"), words)
        for mark, words in marks[rows.before is None :]
    ]
    return tag("ul", items, class_="legend")


def _draws_few(rows: MeasuredRows) -> bool:
    """Whether the picture has a gap on few rows: not of many sites, of whom only groups of 30 rows or more count."""
    side = rows.after.local
    return len(rows.ranked) <= _MOST_DRAWN and bool((np.isnan(side.large.gaps) & ~np.isnan(side.gaps)).any())


def _picker(rows: MeasuredRows) -> Element:
    """The list to choose a site from; without JavaScript the links do the same."""
    carded = [(name_of(rows.after.sites[place]), place) for place in rows.ranked[:MOST_CARDS]]
    options = [tag("option", name, value=f"site-{place}") for name, place in sorted(carded, key=_by_name)]
    return tag(
        "p",
        tag("label", "Site ", for_="pick"),
        tag("select", options, id="pick"),
        tag("button", "← Previous", type="button", id="previous"),
        tag("button", "Next →", type="button", id="next"),
        class_="picker js-only",
    )


def _by_name(carded: tuple[str, int]) -> str:
    return carded[0].casefold()


def _table(rows: MeasuredRows, contents: ReportContents | None) -> Sequence[Element | None]:
    """One line per site and rate."""
    rates, compared = rows.after.local.rates, rows.before is not None
    columns = [
        ("site", True),
        ("rate", len(rates) > 1),
        ("gap before", compared),
        ("gap after" if compared else "gap", True),
        ("rows", True),
        ("tolerance", True),
        *((_WORDS[name], True) for name in _listed_figures(rows)),
        ("0.01 more wins", contents is not None),
    ]
    listed = rows.ranked[: max(1, _MOST_LINES // len(rates))]
    lines = [_line(rows, contents, place, k) for place in listed for k in range(len(rates))]
    missing = len(rows.after.sites) - len(listed)
    left_out = note(f"The first {len(listed):,} sites are listed; {missing:,} are not.") if missing else None
    cost = contents is not None and contents.solution.certificate.objective == "cost"
    what = "cost per person" if cost else "accuracy"
    won = f"The last column is the expected {what} over all calibration rows that 0.01 more tolerance wins at most."
    caption, titles = f"Gaps of every site, {_BY_ITSELF}, {rows.name}", [name for name, there in columns if there]
    table = grid(caption, titles, lines, search="Search sites")
    return (left_out, table, note(won) if contents is not None else None)


def _listed_figures(rows: MeasuredRows) -> list[str]:
    """The figures by labels that the table tells: once for each site."""
    return _by_labels(rows) if len(rows.after.local.rates) == 1 else []


def _line(rows: MeasuredRows, contents: ReportContents | None, place: int, rate: int) -> list[Cell]:
    site, side = rows.after.sites[place], rows.after.local
    name, after = side.rates[rate].name, _gap(rows, rows.after, rate, place)
    before = [] if rows.before is None else [measured_cell(_gap(rows, rows.before, rate, place))]
    price = 0.0 if contents is None else contents.price(name, site)
    return [
        named(name_of(site), rows.link(site)),
        *([text(name)] if len(side.rates) > 1 else []),
        *before,
        measured_cell(after),
        _below(
            number(None) if after is None else rows_cell(after.rows or 0),
            f"of {int(side.tally.rows[place].sum()):,}",
        ),
        _below(tolerance_cell(float(rows.local_tolerance[rate, place])), _shown(rows.state(place))),
        *(_figure_cell(rows, place, name) for name in _listed_figures(rows)),
        *([Cell((small(price),), key=price)] if contents is not None else []),
    ]


def _below(cell: Cell, words: str) -> Cell:
    """A cell with small words below."""
    return replace(cell, content=(*cell.content, " ", tag("small", words, class_="chance"))) if words else cell


def _figure_cell(rows: MeasuredRows, place: int, name: str) -> Cell:
    """A figure by labels at a site, and what it was before."""
    before = "" if rows.before is None else f"before {figure(_figure_at(rows.before, place, name))}"
    return _below(measured_cell(_figure_at(rows.after, place, name)), before)


def _figure_at(audit: Audit, place: int, name: str) -> Measured | None:
    found: Measured | None = getattr(audit.by_site[place], name)
    return found


def _with_interval(value: Measured | None) -> str:
    """A figure in a sentence that says on how many rows it rests."""
    chance = "" if value is None or value.low is None else f" (95%: {figure(value.low)} to {figure(value.high)})"
    return f"{figure(value)}{chance}"
