"""The trade-off between tolerances and accuracy as a table of the report, with the chosen point marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logofair.report.grids import Cell, Column, grid, named
from logofair.report.markup import Element, Section, Trusted, note, paragraph, tag
from logofair.report.wording import figure, tolerance_of

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

__all__ = ["frontier_section"]


def frontier_section(frontier: Frontier | None) -> Section:
    """Return the accuracy within every pair of tolerances, or how to find it.

    Examples
    --------
    >>> frontier_section(None).title
    'The trade-off'
    """
    title = "The trade-off"
    if frontier is None:
        command = tag("code", "logofair frontier")
        missing = paragraph("Not computed here; ", command, " shows the accuracy within every pair of tolerances.")
        return Section("frontier", title, (missing,))
    from logofair.tradeoff.figure import frontier_figure

    words = f"The best expected accuracy within each pair of tolerances, on {frontier.rows:,} rows. "
    return Section(
        "frontier",
        title,
        (
            paragraph(words, frontier.knee.sentence),
            tag("figure", Trusted(frontier_figure(frontier)), class_="pan", tabindex="0", aria_label=title),
            tag("details", tag("summary", "Expected accuracies in a table"), _table(frontier)),
            note(
                f"Without any requirement the expected accuracy is {figure(frontier.unconstrained.accuracy)}. "
                "Every value is proved to 0.000001 on these rows; new rows differ by chance."
            ),
        ),
    )


def _table(frontier: Frontier) -> Element:
    """Local tolerances downwards, global ones across; the more accurate, the darker."""
    low, high = float(frontier.accuracies.min()), float(frontier.accuracies.max())
    columns = [Column("local \\ global"), *(Column(tolerance_of(t), numeric=True) for t in frontier.global_tolerances)]
    rows = [
        [named(tolerance_of(local)), *(_cell(frontier, i, j, low, high) for j in range(len(columns) - 1))]
        for i, local in enumerate(frontier.local_tolerances)
    ]
    return grid("Expected accuracy by local and global tolerance", columns, rows)


def _cell(frontier: Frontier, row: int, column: int, low: float, high: float) -> Cell:
    """One pair of tolerances."""
    accuracy = float(frontier.accuracies[row, column])
    pair = (frontier.local_tolerances[row], frontier.global_tolerances[column])
    share = (accuracy - low) / (high - low) if high > low else 1.0
    chosen = frontier.chosen is not None and pair == frontier.chosen
    sign = tag("span", "chosen", class_="chosen-name") if chosen else None
    mark = "heat chosen" if chosen else "heat"
    return Cell((figure(accuracy), sign), mark, style=f"--heat:{100.0 * share:.0f}%")
