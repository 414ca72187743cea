"""What the policy does and what it rests on: rules with the rows of each, and reliability of the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from logofair.auditing import FEW_ROWS
from logofair.columns.segments import Indices
from logofair.report.charts import Reliability, reliability_by_group, reliability_diagram
from logofair.report.contents import ReportContents
from logofair.report.markup import (
    Cell,
    Element,
    Node,
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
from logofair.report.measured import MOST_CARDS
from logofair.report.wording import counted, figure, name_of

__all__ = ["reliability_section", "rules_section"]


_MOST_DIAGRAMS = 6
_MOST_BINS_TABLES = 12


def rules_section(contents: ReportContents) -> Section:
    """Return every client's and group's rule in a table."""
    policy = contents.solution.policy
    mixed = int(policy.mixtures.mixed.sum())
    calibrated = policy.calibrator.method != "none"
    of = "client and group" if contents.has_clients else "group"
    score = f"the calibrated score of the row’s {of}" if calibrated else "the score itself"
    words = f"Here “score” is {score}. {contents.solution.coins_summary()}"
    words += " Coins are tossed by a person’s id: the same person always gets the same decision." if mixed else ""
    words += (
        f" From such a score on a row is {contents.heading.accepted}; “accept all” and “reject all” ask for no score."
    )
    titles = [*(["client"] if contents.has_clients else []), "group", "rule", "coin", "rows", "label 1"]
    table = grid(f"Rules by {of}", titles, list(_rules(contents)), search="Search rules")
    return Section("rules", "The rules", (paragraph(words), *_merged(contents), *_listed(contents, table)))


def _listed(contents: ReportContents, table: Element) -> Iterator[Node]:
    """The table of rules, folded away where clients are many."""
    if len(contents.clients) <= MOST_CARDS:
        yield table
        return
    yield folded(f"The rules of {counted(len(contents.listed), 'client')}", contents.unlisted, table)


def _rules(contents: ReportContents) -> Iterator[list[Cell]]:
    counts, rules = _counts(contents), contents.solution.policy.rules
    labelled = contents.calibration.after.local.tally.labelled
    for client in contents.listed:
        for group, name in enumerate(contents.groups):
            row = rules[client * len(contents.groups) + group]
            rows, positive = int(counts[client, group].sum()), int(counts[client, group, 1])
            yield [
                *_names(contents, client, name),
                text(row.rule, mark="rule"),
                text("coin" if row.needs_coin else "–"),
                rows_cell(rows),
                number(positive) if labelled else Cell(("–",)),
            ]


def _names(contents: ReportContents, client: int, group: str) -> Iterator[Cell]:
    """What a rule is for: the client, where there are any, and the group."""
    if contents.has_clients:
        yield named(contents.clients[client], contents.link(client))
        yield text(tag("bdi", group))
    else:
        yield named(group)


def _merged(contents: ReportContents) -> Iterator[Node]:
    if contents.solution.policy.has_clients and contents.solution.policy.has_merged:
        yield note(
            "Rows of clients the policy does not know can take the merged rule of all clients, stored beside these."
        )


def _counts(contents: ReportContents) -> Indices:
    """Rows by client, group and label."""
    return np.asarray(contents.calibration.after.local.tally.rows, dtype=np.int64)


def reliability_section(contents: ReportContents) -> Section:
    """Return how far predicted chances are from what happened, per group, before and after calibration."""
    title = "How reliable the scores are"
    found = reliability_by_group(contents.solution.rows)
    if not found:
        return Section("reliability", title, (paragraph("There are no labels to compare the scores with."),))
    method = contents.solution.policy.calibrator.method
    done = (
        "no calibration was asked for"
        if method == "none"
        else f"calibrated by {method}, estimated without the row itself"
    )
    words = paragraph(
        "A score of 0.7 should mean 70 in 100 with label 1, in every group. The rows of each group are cut by rising "
        f"score into bins of equal count; on the diagonal the prediction is right ({done}). "
        "The bars show where chance leaves a share at 95%."
    )
    largest = sorted(found, key=lambda r: -int(r.rows.sum()))[:_MOST_DIAGRAMS]
    diagrams = tag("div", [_diagram(one) for one in found if one in largest], class_="diagrams")
    rows = [[named(name_of(r.group)), rows_cell(int(r.rows.sum())), number(r.before), number(r.after)] for r in found]
    errors = grid("Calibration error by group", ["group", "rows", "mean error before", "mean error after"], rows)
    return Section("reliability", title, (words, diagrams, errors, _bins(found)))


def _diagram(found: Reliability) -> Element:
    name, rows = name_of(found.group), int(found.rows.sum())
    label = f"Reliability of group {name}: mean error {figure(found.before)} before, {figure(found.after)} after"
    few = " ⚠ few rows" if rows < FEW_ROWS else ""
    caption = tag("figcaption", tag("bdi", name), f" ({counted(rows, 'row')}{few})")
    return tag("figure", caption, reliability_diagram(found, label=f"{label}, on {counted(rows, 'row')}."))


def _bins(found: Sequence[Reliability]) -> Element:
    """The numbers behind the diagrams, folded away."""
    titles = ["group", "rows", "score", "calibrated", "share of label 1"]
    rows = [
        [
            named(name_of(r.group)),
            number(int(r.rows[i])),
            number(float(r.score[i])),
            number(float(r.chance[i])),
            number(float(r.share[i])),
        ]
        for r in found[:_MOST_BINS_TABLES]
        for i in range(r.rows.size)
    ]
    return folded("The numbers behind the diagrams", grid("Bins by group", titles, rows))
