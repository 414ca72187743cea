"""What fairness costs: the accuracy, or cost, within every pair of tolerances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logofair.report.markup import Cell, Element, Section, Trusted, folded, grid, named, note, paragraph, tag
from logofair.report.wording import figure, tolerance_of

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

_MOST = 12  # points that no rule meets, named


def frontier_section(
    frontier: Frontier | None, *, has_sites: bool, policy_tested: bool, price: float | None = None
) -> Section:
    """Return the accuracy within every pair of tolerances, or how to find it; ``policy_tested``: on other rows.

    ``price`` is the expected accuracy that the policy gives for its promises, None where it makes none.
    """
    title, each = "The trade-off", "pair of tolerances" if has_sites else "tolerance"
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
