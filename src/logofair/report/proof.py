"""What is proved on the calibration rows, and how the accuracies of the report differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logofair.policy.info import added_to_rows, no_rule
from logofair.report.contents import ReportContents
from logofair.report.markup import Cell, Section, grid, measured_cell, named, note, number, paragraph, text
from logofair.report.measured import RequiredGaps
from logofair.report.wording import ROUNDING, counted, name_of, small
from logofair.solvers.certificate import Certificate

__all__ = ["proof_section"]


def proof_section(contents: ReportContents) -> Section:
    """Return the certificate: expected accuracy, its upper bound, and the required gaps as they were counted."""
    certificate = contents.solution.certificate
    size, meant = counted(contents.solution.rows.scores.size, "calibration row"), _meant(contents)
    size += added_to_rows(certificate.pooling)
    words = (
        f"On the {size} {meant} within the tolerances can exceed the upper bound below: {_room(certificate)}. This is "
        "about these rows as they are counted here, not about others."
    )
    if contents.solution.promises.price is not None:
        words += " The bound is that of rules that promise nothing for new rows, too."
    sides = ("over all clients", "inside clients") if contents.has_clients else ("between groups", "between groups")
    lines = [*_required(contents, contents.global_, sides[0]), *_required(contents, contents.local, sides[1])]
    gaps = (
        grid("Required gaps as the proof counts them", ["gap", "largest", "tolerance", "at"], lines) if lines else None
    )
    counts = "labels" if certificate.basis == "labels" else "calibrated chances of label 1, not labels"
    pooling = contents.solution.pooling_sentence()
    return Section(
        "proof",
        "What is proved",
        (
            paragraph(words),
            grid("The accuracies of this report", ["accuracy", "value", "what it is"], list(_accuracies(contents))),
            gaps,
            None if pooling is None else paragraph(pooling),
            note(
                f"Counted in {counts}. Figures elsewhere on this page are counted with labels wherever there are any."
            ),
        ),
    )


def _room(certificate: Certificate) -> str:
    """By how much the policy could be better at most, and by how much it exceeds a tolerance."""
    gap, violation = certificate.optimality_gap, certificate.violation
    better = f"the policy could be better by {small(gap)} at most" if gap >= ROUNDING else "the policy reaches it"
    beyond = small(violation) if violation >= ROUNDING else "rounding"
    return f"{better}, and exceeds no tolerance by more than {beyond}"


def _meant(contents: ReportContents) -> str:
    return no_rule(contents.solution.certificate.basis, has_clients=contents.has_clients)


def _accuracies(contents: ReportContents) -> Iterator[list[Cell]]:
    certificate, tested, calibration = contents.solution.certificate, contents.tested, contents.calibration
    if tested is not None:
        what = "share of right decisions on rows that took no part in the fit: what to expect of new rows"
        yield [named("by labels, other rows"), measured_cell(tested.after.accuracy), text(what, mark="words")]
    if calibration.after.accuracy is not None and not calibration.in_chances:
        what = "the same on the rows that chose the rule: too good for new rows"
        yield [
            named("by labels, calibration rows"),
            measured_cell(calibration.after.accuracy),
            text(what, mark="words"),
        ]
    basis = "labels" if certificate.basis == "labels" else "calibrated chances"
    rows = f"the calibration rows{added_to_rows(certificate.pooling)}"
    what = f"what the policy is expected to get right on {rows}, in {basis}"
    yield [named(f"expected, in {basis}"), number(certificate.primal), text(what, mark="words")]
    what = f"{_meant(contents)} within the tolerances can be expected to get more right there"
    yield [named("its upper bound"), number(certificate.dual), text(what, mark="words")]


def _required(contents: ReportContents, gaps: RequiredGaps, where: str) -> Iterator[list[Cell]]:
    """Each rate's gap that comes nearest to its tolerance."""
    for k, rate in enumerate(gaps.rates):
        excess = np.where(gaps.measured[k], gaps.gap[k] - gaps.tolerance[k], -np.inf)
        if not np.isfinite(excess).any():
            continue
        place = int(excess.argmax())
        at = name_of(contents.solution.policy.clients[place]) if excess.size > 1 else "–"
        limit = Cell((f"{gaps.tolerance[k, place]:g}",))
        yield [named(f"{rate.name}, {where}"), number(float(gaps.gap[k, place])), limit, text(at)]
