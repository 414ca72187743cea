"""Rates per group, accuracy and gaps of one set of rows, before and after: the first figures of every report."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from logofair.auditing import FEW_ROWS, Measured
from logofair.auditing.result import FITTED_ROWS, NOT_TESTED, with_few_rows
from logofair.report.markup import (
    Cell,
    Element,
    Node,
    Section,
    difference_cell,
    few_mark,
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
from logofair.report.measured import GapLine, MeasuredRows
from logofair.report.wording import (
    UNDEFINED,
    counted,
    figure,
    gap_words,
    name_of,
    sentence,
    signed,
    tolerance_of,
)

_MOST_REASONS = 5
_OF_ALL = "the interval is that of the largest of all sites, wherever it is"


def figures_section(shown: MeasuredRows, accepted: str, calibration: MeasuredRows | None = None) -> Section:
    """Return the figures of some rows; below, folded away, those of the calibration rows where others come first."""
    fitted = shown.after.fitted_rows
    words = f"Measured on {counted(shown.size, 'row')}: the {shown.name}."
    words += f" {sentence(NOT_TESTED)} {sentence(FITTED_ROWS)}" if fitted else ""
    words += " There are no labels: every row counts by its calibrated chance." if shown.in_chances else ""
    before = f" Before: {accepted} from score 1/2 on. After: the policy, in expectation over its coins."
    parts: list[Node] = [paragraph(words + (before if shown.before is not None else "")), *_figures(shown, accepted)]
    if calibration is not None:
        size = counted(calibration.size, "calibration row")
        inside = (note(sentence(FITTED_ROWS)), *_figures(calibration, accepted))
        parts.append(folded(f"The same on the {size}", inside))
    return Section("figures", "Rates, accuracy and gaps", tuple(parts))


def _figures(rows: MeasuredRows, accepted: str) -> Iterator[Node]:
    yield _rates(rows)
    if len(rows.notions) == 1:
        yield tag("div", list(_tiles(rows)), class_="tiles")
    yield _shares(rows, accepted)
    if rows.after.costs is not None and not rows.in_chances:
        yield note(rows.after.costs.summary())
    yield _gaps(rows)
    yield note(
        "Small figures are 95% intervals, were the rows drawn again; of a largest gap they hold for the largest in "
        "truth, wherever it is. A gap is the largest rate over the groups less the smallest, and rests on the rows of "
        "the smaller of these two groups. Its noise floor is what a rule without any gap shows on average on as many "
        "rows."
    )
    if not rows.in_chances:
        yield from (note(sentence(reason)) for reason in islice(rows.after.global_.undefined(0), _MOST_REASONS))
    if rows.has_sites and rows.after.undefined_sites:
        count = counted(len(rows.after.sites), "site")
        yield note(f"At {rows.after.undefined_sites:,} of {count} some gap is undefined: fewer than two groups count.")


def _rates(rows: MeasuredRows) -> Element:
    """Every group's rates with interval and rows."""
    compared, several = rows.before is not None, len({rate for rate, *_ in rows.rates}) > 1
    titles = [*(["rate"] if several else []), "group", "rows", *(["before", "after"] if compared else ["rate"])]
    lines = [
        [
            *([text(rate)] if several else []),
            named(name_of(group)),
            number(None) if after is None else rows_cell(after.rows or 0),
            *([_bar(before, "was")] if compared else []),
            _bar(after, "is"),
        ]
        for rate, group, before, after in rows.rates
    ]
    names = ", ".join(dict.fromkeys(rate for rate, *_ in rows.rates))
    return grid(f"{names[:1].upper()}{names[1:]} of every group, {rows.name}", titles, lines)


def _bar(value: Measured | None, kind: str) -> Cell:
    """A rate with its interval and a bar."""
    cell = measured_cell(value)
    if value is None:
        return cell
    bar = tag("span", class_=f"bar {kind}", style=f"width:{100.0 * min(max(value, 0.0), 1.0):.1f}%")
    return Cell((*cell.content, tag("span", bar, class_="track")), "rates")


def _tiles(rows: MeasuredRows) -> Iterator[Element]:
    """What is told first, in large figures."""
    after, before, found = rows.after, rows.before, rows.compared
    if after.accuracy is not None and not rows.in_chances:
        first = None if before is None else before.accuracy
        change = None if found is None else found.accuracy
        yield _tile("Accuracy by labels", first, after.accuracy, list(_change_words(change)), few=False)
    if after.cost is not None and not rows.in_chances:
        first, change = (None if each is None else each.cost for each in (before, found))
        yield _tile("Cost per person by labels", first, after.cost, list(_change_words(change)), few=False)
    for line in rows.gap_lines:
        first = None if line.before is None else line.before.value
        few = line.after.value is not None and (line.after.value.rows or 0) < FEW_ROWS
        yield _tile(sentence(line.what)[:-1], first, line.after.value, list(_gap_words(line)), few=few)


def _change_words(change: Measured | None) -> Iterator[str]:
    if change is not None:
        chance = "" if change.low is None else f" (95%: {signed(change.low)} to {signed(change.high or 0.0)})"
        yield f"Difference {signed(change)}{chance}."


def _which(line: GapLine) -> str:
    """Which gap is told; where that before is another site's or of other groups, both are named."""
    after, before = gap_words(line.after), line.before
    if before is None or before.value is None or gap_words(before) == after:
        return after
    return f"before: {gap_words(before)} ({counted(before.value.rows or 0, 'row')}); after: {after}"


def _gap_words(line: GapLine) -> Iterator[str]:
    yield sentence(_which(line))
    if line.local:
        yield f"{_OF_ALL[:1].upper()}{_OF_ALL[1:]}."
    free = tolerance_of(line.tolerance) == "free"
    yield "No tolerance." if free else f"Tolerance {tolerance_of(line.tolerance)}."
    if line.after.finding:
        yield sentence(line.after.finding)
    yield with_few_rows(line.worst)


def _tile(title: str, before: Measured | None, after: Measured | None, words: list[str], *, few: bool) -> Element:
    compared = before is not None
    spoken = f"{title}: {f'{figure(before)} before, ' if compared else ''}{figure(after)}{' after' if compared else ''}"
    numbers = tag(
        "p",
        [tag("span", figure(before), class_="was"), tag("span", " → ", class_="arrow")] if compared else None,
        tag("span", figure(after), class_="is"),
        class_="change",
        role="img",
        aria_label=spoken,
    )
    rests = tag("p", str(after).partition(" ")[2].strip("()"), class_="small") if after is not None else None
    small = tag("p", " ".join(words), " ", few_mark(few), class_="small")
    return tag("div", tag("h3", title), numbers, rests, small, class_="tile")


def _shares(rows: MeasuredRows, accepted: str) -> Element:
    """Accuracy, cost and the share of positive decisions, with their paired differences."""
    found, before = rows.compared, rows.before
    titles = ["over all rows", *(["before", "after", "difference"] if before is not None else ["value"]), "rows"]
    by_labels = {"accuracy": "accuracy by labels", "cost": "cost per person by labels"}
    lines = []
    for name, words in (by_labels | {"accepted": f"share {accepted}"}).items():
        after = getattr(rows.after, name)
        if name in by_labels and (after is None or rows.in_chances):
            continue
        compared = [measured_cell(getattr(before, name))] if before is not None else []
        change = [difference_cell(getattr(found, name))] if found is not None else []
        size = number(None if after is None else after.rows)
        lines.append([named(words), *compared, measured_cell(after), *change, size])
    return grid(f"Accuracy and share {accepted}, {rows.name}", titles, lines)


def _gaps(rows: MeasuredRows) -> Element:
    """The gaps that are told, with what they show beyond chance."""
    compared = rows.before is not None
    titles = ["gap", *(["before", "after"] if compared else ["value"])]
    titles += ["rows, after" if compared else "rows", "noise floor", "tolerance", "what it shows"]
    lines = [_gap_cells(line, compared) for line in rows.gap_lines]
    return grid(f"Gaps, {rows.name}", titles, lines)


def _gap_cells(line: GapLine, compared: bool) -> list[Cell]:
    value = line.after.value
    which = tag("small", f"{_which(line)}{f'; {_OF_ALL}' if line.local else ''}", class_="chance")
    before = [measured_cell(None if line.before is None else line.before.value)] if compared else []
    small = [*_change_words(line.change), with_few_rows(line.worst)]
    return [
        Cell((tag("bdi", line.what), " ", which), heading=True, numeric=False),
        *before,
        measured_cell(value),
        number(None) if value is None else rows_cell(value.rows or 0),
        number(None if value is None else value.floor),
        tolerance_cell(line.tolerance),
        text(
            sentence(line.after.finding or UNDEFINED),
            *(tag("small", words, class_="chance") for words in small if words),
            mark="words",
        ),
    ]
