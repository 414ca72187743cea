"""What was required, what other rows show of it, and what is proved on the calibration rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from logofair.auditing.measure import FEW_ROWS, Gap, Side
from logofair.auditing.measure import text as rounded
from logofair.auditing.result import NOT_TESTED
from logofair.columns.checks import Floats
from logofair.fitting.solution import Solution
from logofair.policy.info import no_rule
from logofair.report.markup import Element, tag
from logofair.report.measured import MeasuredRows, RequiredGaps
from logofair.report.wording import counted, figure, sentence, tolerance_of
from logofair.requirements import requirement_sentences
from logofair.solvers.certificate import Certificate

__all__ = ["Verdict", "judge", "verdict_banner"]


@dataclass(frozen=True)
class Verdict:
    """``state`` is "met", "missed", "unclear", "untested" or "nothing"; only the first is a pass, and on other rows.

    ``lines`` are names and sentences: what was required, what other rows show, what is proved.
    """

    state: str
    title: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Finding:
    """What other rows show on one side: ``shown`` is True for within, False for above, None for neither."""

    where: str
    shown: bool | None
    phrase: str
    words: str


_WITHIN, _ABOVE = "within tolerance, shown", "above tolerance beyond chance"
_WITH_FEW = f"With groups of fewer than {FEW_ROWS} rows"
_SIGNS = {"met": "✓", "missed": "✗", "unclear": "?", "untested": "○", "nothing": "–"}


def verdict_banner(verdict: Verdict) -> Element:
    """Return the verdict in words and a sign, with what it rests on."""
    sign = tag("span", _SIGNS[verdict.state], class_="sign", aria_hidden="true")
    return tag(
        "section",
        tag("h2", sign, verdict.title, id="verdict-title"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", words)) for name, words in verdict.lines]),
        id="verdict",
        class_=f"verdict {verdict.state}",
        aria_labelledby="verdict-title",
    )


def judge(solution: Solution, local: RequiredGaps, global_: RequiredGaps, tested: MeasuredRows | None) -> Verdict:
    """Judge a solution on rows that took no part in the fit; the calibration rows alone make no pass."""
    proof = _proof(solution, local, global_)
    lines = [("Required", _required(solution))]
    if not (local.required.any() or global_.required.any()):
        return Verdict("nothing", "Nothing was required", (*lines, ("Calibration rows", proof)))
    found = [] if tested is None else list(_findings(tested))
    if tested is None:
        lines.append(("Other rows", "None were given; what is proved of the calibration rows need not hold on others."))
    else:
        size = counted(tested.size, "row")
        lines.append(("Other rows", f"{size} that took no part in the fit. {' '.join(f.words for f in found)}".strip()))
    state, title = _headline(solution.certificate, tested, found)
    return Verdict(state, title, (*lines, ("Calibration rows", proof)))


def _headline(certificate: Certificate, tested: MeasuredRows | None, found: list[_Finding]) -> tuple[str, str]:
    """State and title, from other rows alone; without them only a miss on the calibration rows is news."""
    if tested is None:
        if certificate.meets_requirements:
            return "untested", sentence(NOT_TESTED)[:-1]
        return "missed", f"Missed on the calibration rows, and {NOT_TESTED}"
    if not found:
        return "unclear", "On other rows nothing that was required can be measured"
    shown = [one.shown for one in found]
    state = "missed" if False in shown else "met" if all(shown) else "unclear"
    phrases = dict.fromkeys(one.phrase for one in found)
    if len(found) == 1 or len(phrases) == 1:
        return state, f"On other rows: {next(iter(phrases))}"
    return state, "On other rows: " + "; ".join(f"{one.where} {one.phrase}" for one in found)


def _required(solution: Solution) -> str:
    """The requirements in words."""
    local = f"Inside each of the {len(solution.policy.clients):,} clients"
    return " ".join(requirement_sentences(solution.requirements.as_dict(), local))


def _proof(solution: Solution, local: RequiredGaps, global_: RequiredGaps) -> str:
    """What is proved on the calibration rows, in a sentence."""
    certificate = solution.certificate
    size, basis = counted(solution.rows.scores.size, "calibration row"), _basis(certificate)
    required = int(local.required.sum() + global_.required.sum())
    measured = int(local.measured.sum() + global_.measured.sum())
    where = f"On the {size}, counted in {basis},"
    meant = no_rule(certificate.basis, has_clients=len(solution.policy.clients) > 1)
    to = f"(proved to {certificate.largest_optimality_gap:.9f}".rstrip("0") + ")"
    if not required:
        return f"{where} {meant} can be expected to be more accurate {to}."
    if not measured:
        return f"{where} none of the {counted(required, 'required gap')} has two groups to compare: nothing is shown."
    if not certificate.meets_requirements:
        return f"{where} a required gap exceeds its tolerance by {figure(certificate.violation)}."
    every = "the required gap is" if required == 1 else f"all {required:,} required gaps are"
    some = f"{measured:,} of {required:,} required gaps can be measured, and are"
    best = f", and {meant} within the tolerances can be expected to be more accurate {to}"
    return f"{where} {every if measured == required else some} within tolerance{best if certificate.holds else ''}."


def _basis(certificate: Certificate) -> str:
    return "labels" if certificate.basis == "labels" else "calibrated chances of label 1"


def _findings(tested: MeasuredRows) -> Iterator[_Finding]:
    """What other rows show on each side on which something was required and can be measured."""
    audit = tested.after
    over_all = "over all clients" if tested.has_clients else "between groups"
    for side, tolerance, where in (
        (audit.global_, tested.global_tolerance, over_all),
        (audit.local, tested.local_tolerance, "inside clients" if tested.has_clients else over_all),
    ):
        if not (np.isfinite(tolerance) & ~np.isnan(side.gaps)).any():
            continue
        finding = _finding(side, tolerance, where)
        if tested.has_clients and side is audit.local:
            check = str(audit.check_clients(tolerance)).replace("\n", " ")
            finding = replace(finding, words=f"{finding.words} {check}")
        yield finding


def _finding(side: Side, tolerance: Floats, where: str) -> _Finding:
    """What one side shows: of groups of 30 rows or more, then of all where smaller ones say something else."""
    first = side.headline
    shown, phrase, gap, limit = _judged(first, tolerance)
    largest = "The largest gap" if gap == first.worst() else "A gap"
    words = f"{largest if len(side.clients) > 1 else 'The gap'} {where} is {gap}, tolerance {limit}: {phrase}."
    if np.array_equal(np.isnan(first.values), np.isnan(side.values)):
        return _Finding(where, shown, phrase, words)
    all_shown, all_phrase, worst, limit = _judged(side, tolerance)
    if all_phrase == phrase and rounded(worst.value) == rounded(gap.value):
        return _Finding(where, shown, phrase, words)
    seen = f"; {worst.finding}" if worst.value is not None and worst.value.low else ""
    words += f" {_WITH_FEW} it is {worst}, tolerance {limit}: {all_phrase}{seen}."
    if all_phrase != phrase:
        phrase += f", but {_WITH_FEW[:1].lower()}{_WITH_FEW[1:]} {all_phrase}"
    return _Finding(where, False if shown is False else all_shown, phrase, words)


def _judged(side: Side, tolerance: Floats) -> tuple[bool | None, str, Gap, str]:
    """Whether a side's gaps are shown within tolerance, in words, and the gap that is judged with its tolerance."""
    shown, phrase = _shown(side, tolerance)
    excess = (side.limits()[0] if shown is False else side.gaps) - tolerance
    rate, place = np.unravel_index(int(np.where(np.isnan(excess), -np.inf, excess).argmax()), excess.shape)
    gap, worst = side.gap(int(rate), int(place)), side.worst()
    gap = worst if (worst.rate, worst.client) == (gap.rate, gap.client) else gap
    return shown, phrase, gap, tolerance_of(float(tolerance[rate, place]))


def _shown(side: Side, tolerance: Floats) -> tuple[bool | None, str]:
    """Whether gaps are shown to be within their tolerances or above, and in words; all clients judged together."""
    required = np.isfinite(tolerance).any(axis=0)
    above, within = side.above(tolerance), side.within(tolerance)
    if above.any():
        return False, _ABOVE
    if within[required].all():
        return True, _WITHIN
    if np.isnan(side.upper_limits[np.isfinite(tolerance)]).all():
        return None, "cannot be told, such a rate has no interval"
    few = not side.checkable(tolerance)[required].all()
    return None, f"cannot be told, {'rows too few' if few else 'too close to the tolerance'}"
