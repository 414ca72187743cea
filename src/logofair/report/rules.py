"""What the policy does and what it rests on: rules with the rows of each, and reliability of the scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logofair.columns.checks import Label
from logofair.columns.segments import Indices
from logofair.fitting.prepare import CalibrationRows
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
from logofair.report.wording import counted, name_of

# Fewer rows than this in a bin are mostly noise.
_ROWS_PER_BIN = 25
_MOST_BINS = 10


def rules_section(contents: ReportContents) -> Section:
    """Return every site's and group's rule in a table."""
    policy = contents.solution.policy
    mixed = int(policy.mixtures.mixed.sum())
    calibrated = policy.calibrator.method != "none"
    of = "site and group" if contents.has_sites else "group"
    score = f"the calibrated score of the row’s {of}" if calibrated else "the score itself"
    words = f"Here “score” is {score}. {contents.solution.coins_summary()}"
    words += " Coins are tossed by a person’s id: the same person always gets the same decision." if mixed else ""
    titles = [*(["site"] if contents.has_sites else []), "group", "rule", "coin", "rows", "label 1"]
    table = grid(f"Rules by {of}", titles, list(_rules(contents)), search="Search rules")
    return Section("rules", "The rules", (paragraph(words), *_merged(contents), *_listed(contents, table)))


def _listed(contents: ReportContents, table: Element) -> Iterator[Node]:
    """The table of rules, folded away where sites are many."""
    if len(contents.sites) <= MOST_CARDS:
        yield table
        return
    yield folded(f"The rules of {counted(len(contents.listed), 'site')}", contents.unlisted, table)


def _rules(contents: ReportContents) -> Iterator[list[Cell]]:
    counts, rules = _counts(contents), contents.solution.policy.rules
    labelled = contents.calibration.after.local.tally.labelled
    for site in contents.listed:
        for group, name in enumerate(contents.groups):
            row = rules[site * len(contents.groups) + group]
            rows, positive = int(counts[site, group].sum()), int(counts[site, group, 1])
            yield [
                *_names(contents, site, name),
                text(contents.rule_text(row), mark="rule"),
                text("coin" if row.needs_coin else "–"),
                rows_cell(rows),
                number(positive) if labelled else Cell(("–",)),
            ]


def _names(contents: ReportContents, site: int, group: str) -> Iterator[Cell]:
    """What a rule is for: the site, where there are any, and the group."""
    if contents.has_sites:
        yield named(contents.sites[site], contents.link(site))
        yield text(tag("bdi", group))
    else:
        yield named(group)


def _merged(contents: ReportContents) -> Iterator[Node]:
    if contents.solution.policy.has_sites and contents.solution.policy.has_merged:
        yield note("Rows of sites the policy does not know can take the merged rule of all sites, stored beside these.")


def _counts(contents: ReportContents) -> Indices:
    """Rows by site, group and label."""
    return np.asarray(contents.calibration.after.local.tally.rows, dtype=np.int64)


def reliability_section(contents: ReportContents) -> Section:
    """Return how far predicted chances are from what happened, per group, before and after calibration."""
    title = "How reliable the scores are"
    found = calibration_errors(contents.solution.rows)
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
        f"score into bins of equal count; the error is how far predictions are from the share of label 1 ({done})."
    )
    rows = [
        [named(name_of(group)), rows_cell(size), number(before), number(after)] for group, size, before, after in found
    ]
    errors = grid("Calibration error by group", ["group", "rows", "mean error before", "mean error after"], rows)
    return Section("reliability", title, (words, errors))


def calibration_errors(rows: CalibrationRows) -> list[tuple[Label, int, float, float]]:
    """Return each group's rows and mean error before and after calibration, over bins of equal count.

    Rows of the group count by weight; predictions are those of calibrators that did not see the row. Without labels
    there is nothing to compare with.
    """
    if rows.labels is None:
        return []
    weights = np.ones_like(rows.scores) if rows.weights is None else rows.weights
    found = []
    for code, name in enumerate(rows.groups.names):
        mine = np.flatnonzero((rows.groups.codes == code) & (weights > 0))
        if not mine.size:
            continue
        mine = mine[np.argsort(rows.scores[mine], kind="stable")]
        score, label, weight = rows.scores[mine], rows.labels[mine], weights[mine]
        bins = int(np.clip(mine.size // _ROWS_PER_BIN, 1, _MOST_BINS))
        first = np.searchsorted(score, score)  # equal scores share a bin
        bin_of = np.unique(first * bins // mine.size, return_inverse=True)[1]
        sums = [np.bincount(bin_of, weight * column) for column in (score, rows.out_of_fold[mine], label)]
        before, after = (float(np.abs(sums[2] - predicted).sum() / weight.sum()) for predicted in sums[:2])
        found.append((name, int(mine.size), before, after))
    return found
