"""What fairness costs: what a little less of each requirement would win, and the whole trade-off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logofair.report.contents import ReportContents
from logofair.report.markup import Cell, Element, Node, Section, Trusted, folded, grid, named, note, paragraph, tag
from logofair.report.wording import counted, figure, name_of, small, tolerance_of
from logofair.requirements import SELECTED

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

__all__ = ["frontier_section", "prices_section"]


_MOST, _CHEAP = 12, 50  # prices told, down to this fraction of the dearest
_STEP = 0.01
_NOTHING = 1e-6  # what accuracy is proved to


@dataclass(frozen=True)
class Price:
    """What giving way by 0.01 wins at most; ``gives`` says how, ``place`` is None for all clients together."""

    won: float
    gives: str
    place: str | None


def prices_section(contents: ReportContents) -> Section:
    """Return the dearest requirements in words, with bars to compare them."""
    found = sorted(_prices(contents), key=lambda price: -price.won)
    binding = [price for price in found if price.won > _NOTHING]
    accuracy = contents.solution.certificate.objective == "accuracy"
    if not binding:
        costs, gives = ("accuracy", "a little more tolerance") if accuracy else ("anything", "giving way a little")
        words = f"No requirement costs {costs} here: {gives} would win nothing on the calibration rows."
        return Section(
            "prices", "What each requirement costs", (paragraph(words if found else "Nothing was required."),)
        )
    dearest = [price for price in binding[:_MOST] if price.won > binding[0].won / _CHEAP]
    left_out = len(binding) - len(dearest)
    unseen = f"{counted(left_out, 'cheaper requirement')} not shown; the table of clients has them."
    more = note(unseen) if left_out > 0 else None
    free = len(found) - len(binding)
    idle = f" {counted(free, 'requirement')} cost{'s' if free == 1 else ''} nothing." if free else ""
    what = "expected accuracy over all calibration rows" if accuracy else "expected cost per calibration row"
    won = "win" if accuracy else "save"
    return Section(
        "prices",
        "What each requirement costs",
        (
            paragraph(
                f"Every requirement has a price: the {what} that {_STEP:g} less of it would {won} at most, so much "
                f"more tolerance or capacity, so much lower a ratio or floor.{idle}"
            ),
            *_together(contents),
            paragraph("One by one, dearest first:") if len(dearest) > 1 else None,
            tag("ul", [_item(price, contents, binding[0].won) for price in dearest], class_="prices"),
            more,
        ),
    )


def _prices(contents: ReportContents) -> Iterator[Price]:
    """The price of every requirement; floors and ceilings of one rate have one together."""
    several = len({check.rate for check in contents.solution.requirement_checks}) > 1
    seen: set[tuple[str, str, bool]] = set()
    for check in contents.solution.requirement_checks:
        limits = check.kind in ("floor", "ceiling")
        key = (check.side, check.rate, limits)
        if check.price is None or (limits and key in seen):
            continue
        seen.add(key)
        side = "" if not contents.has_clients else f"{check.side} "
        of = f" for the {check.rate}" if several and check.rate != SELECTED.name else ""
        gives = f"{_GIVES[check.kind].format(step=_STEP, side=side)}{of}"
        names = [contents.clients[0]] if check.clients == (None,) else [name_of(name) for name in check.clients]
        for name, price in zip(names, check.price.tolist(), strict=True):
            yield Price(_STEP * float(price), gives, None if check.side == "global" else name)


_GIVES = {
    "tolerance": "{step:g} more {side}tolerance",
    "ratio": "A {side}ratio lower by {step:g}",
    "floor": "{side}floors and ceilings looser by {step:g}",
    "ceiling": "{side}floors and ceilings looser by {step:g}",
    "most selected": "{step:g} more {side}capacity",
    "least selected": "{step:g} less to be selected {side}",
}


def _together(contents: ReportContents) -> Iterator[Element]:
    """What more tolerance at all clients at once wins: no more than the sum of their prices."""
    for k, rate in enumerate(contents.local.rates):
        total = _STEP * float(contents.local.price[k, contents.local.required[k]].sum())
        if contents.has_clients and contents.local.required[k].sum() > 1 and total > _NOTHING:
            of = f" for the {rate.name}" if len(contents.local.rates) > 1 else ""
            words = f"{_STEP:g} more local tolerance{of} at all clients at once would "
            yield paragraph(words, *_won(contents, total))


def _won(contents: ReportContents, won: float) -> list[Node]:
    """What giving way wins, with the same in decisions where there are some to speak of."""
    if contents.solution.certificate.objective == "cost":
        return ["save at most ", tag("strong", f"{small(won)} per person"), "."]
    count = 10_000 * won
    decisions = f": {count:,.0f} more right decisions in 10,000." if count >= 1.5 else "."
    return ["win at most ", tag("strong", f"{small(won)} accuracy"), decisions]


def _item(price: Price, contents: ReportContents, dearest: float) -> Element:
    """One requirement's price as a sentence and a bar."""
    where: list[Node] = [] if price.place is None or not contents.has_clients else [" at ", tag("bdi", price.place)]
    bar = tag("span", class_="bar is", style=f"width:{100.0 * price.won / dearest:.1f}%")
    gives = f"{price.gives[:1].upper()}{price.gives[1:]}"
    words = tag("span", gives, where, " would ", *_won(contents, price.won))
    return tag("li", words, tag("span", bar, class_="track", aria_hidden="true"))


def frontier_section(
    frontier: Frontier | None, *, has_clients: bool, policy_tested: bool, price: float | None = None
) -> Section:
    """Return the accuracy within every pair of tolerances, or how to find it; ``policy_tested``: on other rows.

    ``price`` is the expected accuracy that the policy gives for its promises, None where it makes none.
    """
    title, each = "The trade-off", "pair of tolerances" if has_clients else "tolerance"
    if frontier is None:
        command = tag("code", "logofair frontier")
        missing = paragraph("Not computed here; ", command, f" shows the accuracy within every {each}.")
        return Section("frontier", title, (missing,))
    from logofair.tradeoff.figure import frontier_figure

    objective = frontier.objective
    best = "best expected accuracy" if objective.costs is None else "least expected cost per person"
    held = " ".join(frontier.held_sentences)
    words = f"The {best} within each {each}, on {frontier.rows:,} calibration rows. {f'{held} ' if held else ''}"
    drawn = frontier_figure(frontier, policy_tested=policy_tested)
    without = (
        f" These points promise nothing for new rows; the policy, which does, is expected to be less accurate than the "
        f"chosen point by {figure(price)} here."
        if price is not None
        else ""
    )
    return Section(
        "frontier",
        title,
        (
            paragraph(words, frontier.knee.sentence),
            tag("figure", Trusted(drawn), class_="pan", tabindex="0", aria_label=title),
            folded(f"Expected {'accuracies' if objective.costs is None else 'costs'} in a table", _trade_off(frontier)),
            *(note(point.summary(paired=frontier.paired)) for point in frontier.infeasible[:_MOST]),
            note(f"{len(frontier.infeasible):,} points in all that no rule meets.")
            if len(frontier.infeasible) > _MOST
            else None,
            note(
                f"Without any {'tolerance' if held else 'requirement'} the expected {objective.name} is "
                f"{figure(frontier.unconstrained.value)}. "
                f"Every value is proved to 0.000001 on these rows; new rows differ by chance.{without}"
            ),
        ),
    )


def _trade_off(frontier: Frontier) -> Element:
    """Local tolerances downwards, global ones across; the better, the darker."""
    most, name = max(point.loss for point in frontier.points), frontier.objective.name
    if not frontier.paired:
        lines = [
            [named(tolerance_of(tolerance)), _pair(frontier, 0, j, most)]
            for j, tolerance in enumerate(frontier.global_tolerances)
        ]
        return grid(f"Expected {name} by tolerance", ["tolerance", f"expected {name}"], lines)
    titles = ["local \\ global", *map(tolerance_of, frontier.global_tolerances)]
    rows = [
        [named(tolerance_of(local)), *(_pair(frontier, i, j, most) for j in range(len(titles) - 1))]
        for i, local in enumerate(frontier.local_tolerances)
    ]
    return grid(f"Expected {name} by local and global tolerance", titles, rows, stacked=False)


def _pair(frontier: Frontier, row: int, column: int, most: float) -> Cell:
    """One pair of tolerances."""
    point = frontier.found(row, column)
    if point is None:
        return Cell(("no rule",), "none")
    least = min(each.loss for each in frontier.points)
    pair = (point.local_tolerance, point.global_tolerance)
    share = (most - point.loss) / (most - least) if most > least else 1.0
    chosen = frontier.chosen is not None and pair == frontier.chosen
    sign = tag("span", "chosen", class_="chosen-name") if chosen else None
    mark = "heat chosen" if chosen else "heat"
    return Cell((figure(point.value), sign), mark, style=f"--heat:{100.0 * share:.0f}%")
