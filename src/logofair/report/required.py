"""Every requirement: what must hold, how tightly it holds on the calibration rows, its price, and what others show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from logofair.auditing.required import BROKEN, KEPT, SILENT, CheckedAt, RequirementCheck
from logofair.report.markup import (
    Cell,
    Element,
    Node,
    Section,
    folded,
    grid,
    measured_cell,
    named,
    note,
    paragraph,
    tag,
    text,
)
from logofair.report.wording import ROUNDING, counted, figure, name_of, sentence, small

_MOST = 600  # lines of the table by site
_STEP = 0.01
_MARKS = {KEPT: "met", BROKEN: "missed"}
_GIVES = {
    "tolerance": "0.01 more tolerance",
    "ratio": "a ratio lower by 0.01",
    "floor": "all floors of the rate lower by 0.01",
    "ceiling": "all ceilings of the rate higher by 0.01",
    "most selected": "0.01 more capacity",
    "least selected": "0.01 less to be met",
}


def requirements_section(
    measured: Sequence[RequirementCheck],
    proved: Sequence[RequirementCheck] = (),
    objective: str = "accuracy",
    own: str | None = None,
) -> Section | None:
    """Return a line for every requirement, of many sites that of the worst; None where nothing is required.

    ``proved`` are the same on the calibration rows, with prices; ``measured`` on other rows, with intervals; ``own``
    says what is found on the sites' own rows alone, where others count too.
    """
    if not measured and not proved:
        return None
    tested = {_key(check): check for check in measured}
    lines = [_line(check, tested.get(_key(check)), objective) for check in proved]
    lines = lines or [_measured_line(check) for check in measured]
    several = any(len(check.sites) > 1 for check in (*proved, *measured))
    title = "What was required, and whether it holds" if proved else "What is required, and whether it holds"
    return Section(
        "requirements",
        title,
        (
            paragraph(_words(proved, measured)),
            grid("Every requirement", _titles(bool(proved), bool(measured)), lines),
            None if own is None else note(own),
            *(note(sentence(words)) for words in _cautions(proved or measured)),
            *([_by_site(measured or proved)] if several else []),
        ),
    )


def _key(check: RequirementCheck) -> tuple[object, ...]:
    return check.side, check.kind, check.rate, check.group


def _words(proved: Sequence[RequirementCheck], measured: Sequence[RequirementCheck]) -> str:
    one = " Of many sites the one is shown where it is worst."
    many = one if any(len(check.sites) > 1 for check in (*proved, *measured)) else ""
    if not proved:
        return f"Kept or broken is said only where chance does not explain it, all sites judged together.{many}"
    words = "On the calibration rows all is proved in expectation; room is what is left before it would be broken."
    return f"{words}{many}" + (
        " On other rows kept or broken is said only where chance does not explain it." if measured else ""
    )


def _titles(proved: bool, measured: bool) -> list[str]:
    known = ["calibration rows", "what giving way wins"] if proved else []
    return ["requirement", "must be", *known, *(["other rows" if proved else "found"] if measured else [])]


def _line(check: RequirementCheck, tested: RequirementCheck | None, objective: str) -> list[Cell]:
    at = check.worst
    room = (
        []
        if at.found is None
        else [tag("small", _room(float(check.room[check.sites.index(at.site)])), class_="chance")]
    )
    return [
        _named(check),
        _must(check, at),
        _with(_found(at), *room),
        _price(check, objective),
        *([] if tested is None else [_with(_found(tested.worst), *_state(tested))]),
    ]


def _measured_line(check: RequirementCheck) -> list[Cell]:
    return [_named(check), _must(check, check.worst), _with(_found(check.worst), *_state(check))]


def _with(cell: Cell, *more: Node) -> Cell:
    """A cell with more below."""
    return replace(cell, content=(*cell.content, *(part for each in more for part in (" ", each))))


def _named(check: RequirementCheck) -> Cell:
    where = f" {check.where}" if check.where else ""
    return named(f"{check.called}{where}")


def _must(check: RequirementCheck, at: CheckedAt) -> Cell:
    today = _with(text(), tag("small", "without any requirement", class_="chance")).content if check.today else ()
    return text(check.how if math.isnan(at.required) else f"{check.how} {at.required:.4g}", *today)


def _found(at: CheckedAt) -> Cell:
    """What was found, and where."""
    if at.state == SILENT:
        return text("nobody selected")
    cell = measured_cell(at.found)
    if at.site is None:
        return cell
    return _with(cell, tag("small", "at ", tag("bdi", name_of(at.site)), class_="chance"))


def _room(room: float) -> str:
    if room < -ROUNDING:
        return f"exceeded by {small(-room)}"
    return "tight" if room < ROUNDING else f"room {figure(room)}"


def _state(check: RequirementCheck) -> Iterator[Element]:
    """Whether it holds, and at how many sites."""
    yield tag("span", check.state, class_=f"badge {_MARKS.get(check.state, 'unclear')}")
    if check.reason:
        yield tag("small", check.reason, class_="chance")
    if len(check.sites) > 1:
        for state in dict.fromkeys(check.states):
            yield tag("small", f"{state} at {check.count(state):,} of {len(check.sites):,}", class_="chance")


def _price(check: RequirementCheck, objective: str) -> Cell:
    """What giving way by 0.01 everywhere wins at most."""
    won = 0.0 if check.price is None else _STEP * float(check.price.sum())
    if won < 1e-7:
        return text("nothing")
    amount = f"{small(won)} accuracy" if objective == "accuracy" else f"{small(won)} less per person"
    return text(amount, " ", tag("small", f"by {_GIVES[check.kind]}", class_="chance"), mark="words")


def _cautions(checks: Sequence[RequirementCheck]) -> Iterator[str]:
    silent = [check for check in checks if SILENT in check.states]
    for check in silent:
        where = counted(check.count(SILENT), "site") if check.side == "local" and len(check.sites) > 1 else "all rows"
        yield f"The ratio of the {check.rate} says nothing where nobody is selected ({where}); a floor would"
    if any(check.today for check in checks):
        yield (
            "A floor or ceiling of today compares with the rule that nothing is required of, on the same rows; its "
            "interval is that of the difference"
        )


def _by_site(checks: Sequence[RequirementCheck]) -> Element:
    """Every requirement at every site."""
    lines = []
    for check in checks:
        for place in range(len(check.sites)) if len(check.sites) > 1 else ():
            at = check.at(place)
            found = text("nobody selected") if at.state == SILENT else measured_cell(at.found)
            lines.append([named(name_of(at.site)), text(check.called), _must(check, at), found, text(at.state)])
    shown = lines[:_MOST]
    titles = ["site", "requirement", "must be", "found", "whether it holds"]
    table = grid("Requirements at every site", titles, shown, search="Search sites")
    more = note(f"{len(lines) - len(shown):,} more lines are not listed.") if len(lines) > len(shown) else None
    return folded("Every requirement at every site", (table, more))
