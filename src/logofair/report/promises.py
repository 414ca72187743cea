"""What is promised for new rows: of each gap certified, or the rows it would take."""

from __future__ import annotations

from collections.abc import Sequence

from logofair.fitting.promises import CANNOT, CERTIFIED, NOT_REQUIRED, Promise, Promises, called, with_confidence
from logofair.report.contents import ReportContents
from logofair.report.markup import (
    Cell,
    Element,
    Section,
    folded,
    grid,
    named,
    note,
    number,
    paragraph,
    rows_cell,
    tag,
    text,
)
from logofair.report.wording import name_of, sentence, tolerance_of

_MOST = 2000  # promises listed: a page stays below 6 MB
_FEW = 12  # shown at once; more behind their numbers
_HOW = {"ratio": "at least ", "floor": "at least ", "ceiling": "at most "}
_HOW |= {"capacity": "at most ", "exact capacity": "exactly "}
_HOLD = {"gap": "stay within their tolerances", "requirement": "hold"}
_ORDER = (CANNOT, CERTIFIED, NOT_REQUIRED)


def promises_section(contents: ReportContents) -> Section | None:
    """Return the promises, a line for each gap, of many their numbers first; None where none were asked for."""
    promises = contents.solution.promises
    if promises.confidence is None or not promises.required:
        return None
    made, *words = promises.details()
    listed = sorted(promises, key=lambda promise: (_ORDER.index(promise.status), -promise.missing))[:_MOST]
    what = called(promise.kind for promise in promises)
    table = _table(listed, contents)
    many = [] if len(promises) <= _FEW else [_counts(promises, what), folded(f"All {len(promises):,} {what}s", table)]
    left_out = len(promises) - len(listed)
    return Section(
        "promises",
        "What is promised for new rows",
        (
            paragraph(f"{sentence(with_confidence(promises.confidence))} {made}"),
            *(many or [table]),
            note(f"{left_out:,} more are not listed.") if left_out else None,
            tag("ul", [tag("li", sentence(line)) for line in words]),
            note(
                "For new rows drawn like the calibration rows of the same site; nothing is promised of sites that "
                f"are not known yet. A bound is of one {what} by itself; all certified {what}s {_HOLD[what]} together, "
                "which takes more."
            ),
        ),
    )


def _counts(promises: Promises, what: str) -> Element:
    """How many are certified; rows are those of the smallest group, at the median of the refused."""
    head, *lines = promises.table()
    cells = [[named(line[0]), *(Cell((figure or "–",)) for figure in line[1:])] for line in lines]
    return grid(f"How many {what}s are certified, and the rows that the others have and need", head, cells)


def _table(listed: Sequence[Promise], contents: ReportContents) -> Element:
    """One line per gap; those that cannot be certified first."""
    several = contents.has_sites
    what = called(promise.kind for promise in listed)
    required = "tolerance" if what == "gap" else "required"
    head = [*(["where"] if several else []), "rate", "status", required, "bound", "rows", "rows needed"]
    search = "Search promises" if len(listed) > _FEW else None
    lines = [_line(promise, contents) for promise in listed]
    return grid(f"What is promised of each {what}", head, lines, search=search)


def _line(promise: Promise, contents: ReportContents) -> list[Cell]:
    over_all = promise.side == "global"
    link = None if over_all else contents.shown.link(promise.site)
    where = named("over all sites" if over_all else name_of(promise.site), link)
    required = promise.status != NOT_REQUIRED
    needed = Cell(("no number",), key=1e12) if promise.rows_needed is None else number(promise.rows_needed)
    return [
        *([where] if contents.has_sites else []),
        text(promise.what) if contents.has_sites else named(promise.what),
        text(promise.status, mark=None if promise.status == CERTIFIED else "none"),
        Cell((f"{_HOW.get(promise.kind, '') if required else ''}{tolerance_of(promise.tolerance)}",)),
        number(promise.bound) if required else Cell(("–",), "none"),
        Cell(("–",), "none") if promise.rows is None else rows_cell(promise.rows),
        needed if promise.status == CANNOT and promise.missing else Cell(("–",), "none"),
    ]
