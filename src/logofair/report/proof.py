"""What is proved on the calibration rows, and how the accuracies, or costs, of the report differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logofair.policy.info import added_to_rows, no_rule, reached_and_bound
from logofair.report.contents import ReportContents
from logofair.report.markup import Cell, Section, grid, measured_cell, named, note, paragraph, text
from logofair.report.wording import ROUNDING, counted, small
from logofair.solvers.certificate import Certificate

__all__ = ["proof_section"]


def proof_section(contents: ReportContents) -> Section:
    """Return the certificate: expected accuracy or cost, and its bound; the list of requirements says how they hold."""
    certificate = contents.solution.certificate
    size, meant = counted(contents.solution.rows.scores.size, "calibration row"), _meant(contents)
    size += added_to_rows(certificate.pooling)
    beyond = "exceed the upper bound" if certificate.objective == "accuracy" else "cost less than the lower bound"
    words = (
        f"On the {size} {meant} within the requirements can {beyond} below: {_room(certificate)}. This is "
        "about these rows as they are counted here, not about others."
    )
    if contents.solution.promises.price is not None:
        words += " The bound is that of rules that promise nothing for new rows, too."
    counts = "labels" if certificate.basis == "labels" else "calibrated chances of label 1, not labels"
    pooling, words_of = contents.solution.pooling_sentence(), _WORDS[certificate.objective]
    return Section(
        "proof",
        "What is proved",
        (
            paragraph(words),
            grid(f"The {words_of.many} of this report", [words_of.one, "value", "what it is"], list(_values(contents))),
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
    return f"{better}, and exceeds no requirement by more than {beyond}"


def _meant(contents: ReportContents) -> str:
    return no_rule(contents.solution.certificate.basis, has_clients=contents.has_clients)


def _values(contents: ReportContents) -> Iterator[list[Cell]]:
    certificate, tested, calibration = contents.solution.certificate, contents.tested, contents.calibration
    words_of = _WORDS[certificate.objective]
    if tested is not None:
        what = f"{words_of.by_labels} on rows that took no part in the fit: what to expect of new rows"
        yield [
            named("by labels, other rows"),
            measured_cell(getattr(tested.after, certificate.objective)),
            text(what, mark="words"),
        ]
    found = getattr(calibration.after, certificate.objective)
    if found is not None and not calibration.in_chances:
        what = "the same on the rows that chose the rule: too good for new rows"
        yield [named("by labels, calibration rows"), measured_cell(found), text(what, mark="words")]
    basis = "labels" if certificate.basis == "labels" else "calibrated chances"
    rows = f"the calibration rows{added_to_rows(certificate.pooling)}"
    what = f"{words_of.expected} on {rows}, in {basis}"
    reached, bound = reached_and_bound(certificate.primal, certificate.dual, certificate.objective)
    yield [named(f"expected, in {basis}"), Cell((reached,)), text(what, mark="words")]
    what = words_of.bound.format(meant=_meant(contents), value=bound)
    yield [named(words_of.limit), Cell((bound,)), text(what, mark="words")]


class _Words(NamedTuple):
    """The words of an objective."""

    one: str
    many: str
    by_labels: str
    expected: str
    bound: str
    limit: str


_WORDS = {
    "accuracy": _Words(
        "accuracy",
        "accuracies",
        "share of right decisions",
        "what the policy is expected to get right",
        "{meant} within the requirements can be expected to get more right there",
        "its upper bound",
    ),
    "cost": _Words(
        "cost per person",
        "costs",
        "mean cost of an error per person",
        "what the policy is expected to cost per person",
        "{meant} within the requirements is below {value} per person there",
        "its lower bound",
    ),
}
