"""Every client: a picture of all gaps, one client at a time, and a table of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from logofair.auditing import FEW_ROWS
from logofair.report.charts import GapPoint, gap_dumbbells, gap_strip
from logofair.report.contents import ReportContents
from logofair.report.markup import (
    Cell,
    Element,
    Node,
    Section,
    Trusted,
    few_mark,
    grid,
    named,
    number,
    paragraph,
    rows_cell,
    span,
    tag,
    text,
    tolerance_cell,
)
from logofair.report.measured import BeforeAfter
from logofair.report.wording import counted, figure, small, tolerance_of

__all__ = ["clients_section"]


def _card(contents: ReportContents, client: int) -> Element:
    """One client: its gaps, its groups with their rules, and what more tolerance would win."""
    name, pair = contents.clients[client], contents.calibration.local
    rows = int(pair.after.tally.rows[client].sum())
    title = f"client-{client}-title"
    accuracies = [float(shares[client]) for shares in pair.accuracies]
    words = (
        f"{counted(rows, 'calibration row')}; accuracy {figure(accuracies[0])} before, {figure(accuracies[1])} after."
    )
    return tag(
        "article",
        tag("h4", tag("bdi", name), id=title),
        tag("p", words, " ", _badge(contents, client), " ", few_mark(bool(pair.few[:, client].any()))),
        _gaps(contents, client),
        _groups(contents, client),
        [tag("p", sentence, class_="note") for sentence in _prices(contents, client)],
        id=f"client-{client}",
        class_="card",
        tabindex="-1",
        aria_labelledby=title,
    )


def _badge(contents: ReportContents, client: int) -> Element:
    """How the requirements at a client stand, in their basis."""
    required, measured = contents.local.required[:, client], contents.local.measured[:, client]
    excess = contents.local.gap[:, client] - contents.local.tolerance[:, client]
    if not required.any():
        words, state = "Nothing required inside this client", "nothing"
    elif not measured.any():
        words, state = "Cannot be measured here: fewer than two groups", "unmeasured"
    elif (excess[measured] > contents.solution.certificate.precision).any():
        words, state = "Requirements missed", "missed"
    elif not measured[required].all():
        words, state = "Requirements met where they can be measured", "partly"
    else:
        words, state = "Requirements met", "met"
    return tag("span", words, class_=f"badge {state}")


def _gaps(contents: ReportContents, client: int) -> Element:
    """Gap of every rate before and after."""
    pair = contents.calibration.local
    low, high = pair.interval
    rows = [
        [
            named(rate.name),
            number(float(pair.before.gaps[k, client])),
            number(float(pair.after.gaps[k, client])),
            span(float(low[k, client]), float(high[k, client])),
            tolerance_cell(float(pair.tolerance[k, client])),
        ]
        for k, rate in enumerate(pair.rates)
    ]
    return grid("Gaps here", ["gap of the", "before", "after", "by chance", "tolerance"], rows)


def _groups(contents: ReportContents, client: int) -> Element:
    """Each group's rows, rates and rule."""
    pair = contents.calibration.local
    titles = ["group", "rows", "label 1", *(f"{rate.name}, before and after" for rate in pair.rates), "rule"]
    return grid("Groups here", titles, list(_group_rows(contents, client)))


def _group_rows(contents: ReportContents, client: int) -> Iterator[list[Cell]]:
    pair, rules = contents.calibration.local, contents.solution.policy.rules
    for group, name in enumerate(contents.groups):
        rows, positive = pair.after.tally.rows[client, group].sum(), pair.after.tally.rows[client, group, 1]
        bars = [
            _bars(float(pair.before.values[k, client, group]), float(pair.after.values[k, client, group]))
            for k in range(len(pair.rates))
        ]
        rule = rules[client * len(contents.groups) + group].rule
        yield [
            named(name),
            rows_cell(int(rows)),
            number(int(positive)),
            *bars,
            text(rule, mark="rule"),
        ]


def _bars(before: float, after: float) -> Cell:
    """A rate before and after as two bars with their numbers."""
    parts: list[Node] = []
    for value, kind in ((before, "was"), (after, "is")):
        width = 0.0 if np.isnan(value) else 100.0 * min(max(value, 0.0), 1.0)
        bar = tag("span", class_=f"bar {kind}", style=f"width:{width:.1f}%")
        parts.append(tag("span", tag("span", bar, class_="track"), figure(value, 3), class_="rate"))
    return Cell(tuple(parts), "rates", numeric=False)


def _prices(contents: ReportContents, client: int) -> Iterator[str]:
    for k, rate in enumerate(contents.local.rates):
        price = 0.01 * float(contents.local.price[k, client])
        if price >= 1e-6:
            won = f"at most {small(price)} accuracy over all rows"
            yield f"0.01 more tolerance for the {rate.name} here would win {won}."


_WIDE, _NARROW = 860.0, 350.0
_MOST_ROWS = 40  # clients with a row each in the picture; more stand side by side
_MOST_COLUMNS = 600


def clients_section(contents: ReportContents) -> Section:
    """Return the pictures of every client's gaps, the cards and the table."""
    pair = contents.calibration.local
    pictures = [_figure(contents, k) for k in range(len(pair.rates))]
    if not contents.has_clients:
        return Section("clients", "The gap between groups", (*pictures, _table(contents)))
    count = len(contents.clients)
    basis = "counted with labels" if contents.calibration.with_labels else "counted in chances"
    words = paragraph(
        f"The gap inside each of {counted(count, 'client')} on the calibration rows, {basis}, "
        "largest gap before first. Choose a client in the picture, the list or the table to see its card. "
        "The table’s last column is the accuracy over all rows that 0.01 more tolerance would win at most."
    )
    listed = tag("div", [_card(contents, client) for client in contents.listed], class_="cards")
    cards = Section("client", "One client at a time", (_picker(contents), listed))
    table = Section("client-table", "All clients in a table", (contents.unlisted, _table(contents)))
    return Section("clients", "Every client", (words, _legend(), *pictures), (cards, table))


def _figure(contents: ReportContents, rate: int) -> Element:
    """One rate's picture, drawn for a desk and for a phone."""
    name = contents.calibration.local.rates[rate].name
    ranked = contents.ranked
    every = -(-len(ranked) // _MOST_COLUMNS)
    points = [_point(contents, rate, client) for client in ranked[::every]]
    draw = gap_dumbbells if len(points) <= _MOST_ROWS else gap_strip
    label = f"{name} gap of {counted(len(points), 'client')} before and after. {_in_short(points)}"
    left_out = f" Every {every}th client is drawn." if every > 1 else ""
    return tag(
        "figure",
        tag("div", draw(points, width=_WIDE, label=label), class_="wide"),
        tag("div", draw(points, width=_NARROW, label=label), class_="narrow"),
        tag("figcaption", f"Gap of the {name} between groups. {_in_short(points)}{left_out}"),
    )


def _in_short(points: Sequence[GapPoint]) -> str:
    """The picture in a sentence."""
    before, after = [p.before for p in points if p.before is not None], [p.after for p in points if p.after is not None]
    if not before or not after:
        return "No gap can be measured."
    above = sum(p.after > p.tolerance + 1e-9 for p in points if p.after is not None and p.tolerance is not None)
    required = sum(p.after is not None and p.tolerance is not None for p in points)
    half = f"Half of the clients had a gap above {figure(float(np.median(before)), 3)} before and above "
    half += f"{figure(float(np.median(after)), 3)} after"
    return f"{half}; {above:,} of {counted(required, 'required gap')} lie above tolerance." if required else f"{half}."


def _point(contents: ReportContents, rate: int, client: int) -> GapPoint:
    """One client in the picture."""
    pair, name = contents.calibration.local, contents.clients[client]
    before, after, tolerance = (
        _or_none(array[rate, client]) for array in (pair.before.gaps, pair.after.gaps, pair.tolerance)
    )
    low, high = (_or_none(end[rate, client]) for end in pair.interval)
    rows = int(pair.after.smallest_rows[rate, client])
    words = f"gap {figure(before)} before, {figure(after)} after, tolerance {tolerance_of(tolerance)}"
    return GapPoint(
        name=name,
        link=contents.link(client),
        before=before,
        after=after,
        tolerance=tolerance,
        interval=None if low is None or high is None else (low, high),
        few=rows < FEW_ROWS,
        note=f"{words}; smallest group {counted(rows, 'row')}",
    )


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _legend() -> Element:
    """What the marks mean, drawn as they are."""
    marks = (
        ('<circle cx="8" cy="8" r="5" class="before"/>', "before"),
        ('<circle cx="8" cy="8" r="5" class="after"/>', "after"),
        ('<path d="M8 2l6 6l-6 6l-6 -6z" class="after few"/>', f"after, on fewer than {FEW_ROWS} rows"),
        ('<path d="M0 8h16" class="interval"/>', "where chance leaves the gap after (95%)"),
        ('<path d="M8 2v12" class="limit"/>', "tolerance"),
    )
    items = [
        tag("li", tag("svg", Trusted(mark), viewBox="0 0 16 16", width=16, height=16, aria_hidden="true"), words)
        for mark, words in marks
    ]
    return tag("ul", items, class_="legend")


def _picker(contents: ReportContents) -> Element:
    """The list to choose a client from; without JavaScript the links do the same."""
    by_name = sorted(contents.listed, key=lambda client: contents.clients[client].casefold())
    options = [tag("option", contents.clients[client], value=f"client-{client}") for client in by_name]
    return tag(
        "p",
        tag("label", "Client ", for_="pick"),
        tag("select", options, id="pick"),
        tag("button", "← Larger gap", type="button", id="previous"),
        tag("button", "Smaller gap →", type="button", id="next"),
        class_="picker js-only",
    )


def _table(contents: ReportContents) -> Element:
    """One line per client and rate."""
    pair = contents.calibration.local
    several, in_chances = len(pair.rates) > 1, _counts_in_chances(contents)
    titles = ["client", *(["rate"] if several else []), "gap before", "gap after", "by chance", "tolerance"]
    titles += ["gap after, in chances"] if in_chances else []
    titles += ["smallest group", *([] if several else ["accuracy before", "accuracy after"]), "0.01 more wins"]
    rows = [
        _line(contents, pair, client, rate, several, in_chances)
        for client in contents.listed
        for rate in range(len(pair.rates))
    ]
    return grid("Gaps and accuracy of every client, calibration rows", titles, rows, search="Search clients")


def _counts_in_chances(contents: ReportContents) -> bool:
    """Whether the requirements are counted otherwise than what was measured."""
    needs = any(rate.needs_labels for rate in contents.calibration.local.rates)
    return needs and contents.calibration.with_labels and contents.solution.certificate.basis == "eta"


def _line(
    contents: ReportContents, pair: BeforeAfter, client: int, rate: int, several: bool, in_chances: bool
) -> list[Cell]:
    low, high = (float(end[rate, client]) for end in pair.interval)
    line = contents.local.line(pair.rates[rate])
    accuracies = [float(shares[client]) for shares in pair.accuracies]
    price = 0.0 if line is None else 0.01 * float(contents.local.price[line, client])
    in_basis = None if line is None else float(contents.local.gap[line, client])
    return [
        named(contents.clients[client], contents.link(client)),
        *([text(pair.rates[rate].name, mark="span")] if several else []),
        number(float(pair.before.gaps[rate, client])),
        number(float(pair.after.gaps[rate, client])),
        span(low, high),
        tolerance_cell(float(pair.tolerance[rate, client])),
        *([number(in_basis)] if in_chances else []),
        rows_cell(int(pair.after.smallest_rows[rate, client])),
        *([] if several else map(number, accuracies)),
        Cell((small(price),), key=price),
    ]
