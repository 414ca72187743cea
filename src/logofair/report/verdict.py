"""What was required, what other rows show of it, and what is proved on the calibration rows."""

from __future__ import annotations

from dataclasses import dataclass

from logofair.auditing.required import SILENT, UNMEASURED
from logofair.fitting.evidence import findings
from logofair.fitting.solution import Solution
from logofair.policy.info import added_to_rows, no_rule, reached_and_bound
from logofair.report.markup import Element, tag
from logofair.report.measured import MeasuredRows, RequiredGaps
from logofair.report.wording import counted, figure
from logofair.requirements import requirement_sentences
from logofair.solvers.certificate import Certificate

__all__ = ["Verdict", "judge", "verdict_banner"]


@dataclass(frozen=True)
class Verdict:
    """``state`` is that of the :class:`Evidence`, and ``title`` its headline; only "met" is a pass.

    ``lines`` are names and sentences: what was required, what is promised, what other rows show, what is proved.
    """

    state: str
    title: str
    lines: tuple[tuple[str, str], ...]


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
    """Judge a solution by what is known beyond the rows that chose it; these alone make no pass."""
    evidence, proof = solution.evidence, _proof(solution, local, global_)
    lines = [("Required", _required(solution))]
    if evidence.state == "nothing":
        return Verdict(evidence.state, evidence.headline, (*lines, ("Calibration rows", proof)))
    if (price := solution.promises.price_sentence()) is not None:
        lines.append(("New rows", price))
    if tested is None:
        lines.append(("Other rows", "None were given; what is proved of the calibration rows need not hold on others."))
    else:
        found = findings(tested.after, tested.local_tolerance, tested.global_tolerance)
        size = counted(tested.size, "row")
        lines.append(("Other rows", f"{size} that took no part in the fit. {' '.join(f.words for f in found)}".strip()))
    return Verdict(evidence.state, evidence.headline, (*lines, ("Calibration rows", proof)))


def _required(solution: Solution) -> str:
    """The requirements in words."""
    local = f"Inside each of the {len(solution.policy.clients):,} clients"
    return " ".join(requirement_sentences(solution.requirements.as_dict(), local))


def _proof(solution: Solution, local: RequiredGaps, global_: RequiredGaps) -> str:
    """What is proved on the calibration rows, in a sentence."""
    certificate = solution.certificate
    size, basis = counted(solution.rows.scores.size, "calibration row"), _basis(certificate)
    gaps = (int(local.required.sum() + global_.required.sum()), int(local.measured.sum() + global_.measured.sum()))
    others = [state for check in solution.requirement_checks if check.kind != "tolerance" for state in check.states]
    required, measured = gaps[0] + len(others), gaps[1] + len(others) - others.count(UNMEASURED)
    what, within = ("requirement", "met") if others else ("required gap", "within tolerance")
    where = f"On the {size}{added_to_rows(certificate.pooling)}, counted in {basis},"
    alone = "" if certificate.pooling == "none" else f" {solution.own_rows.summary()}"
    meant = no_rule(certificate.basis, has_clients=len(solution.policy.clients) > 1)
    to = f"(proved to {certificate.largest_optimality_gap:.9f}".rstrip("0") + ")"
    if not required:
        return f"{where} {_best(certificate, meant, '')} {to}."
    if not measured:
        return f"{where} none of the {counted(required, 'required gap')} has two groups to compare: nothing is shown."
    if not certificate.meets_requirements:
        exceeds = "a requirement is exceeded" if others else "a required gap exceeds its tolerance"
        return f"{where} {exceeds} by {figure(certificate.violation)}.{alone}"
    every = f"the {what} is" if required == 1 else f"all {required:,} {what}s are"
    some = f"{measured:,} of {required:,} {what}s can be measured, and are"
    best = f", and {_best(certificate, meant, ' within the requirements' if others else ' within the tolerances')} {to}"
    kept = every if measured == required else some
    silent = others.count(SILENT)
    says = "says" if silent == 1 else "say"
    nothing = f" {counted(silent, 'ratio')} of these {says} nothing: nobody is selected there." if silent else ""
    return f"{where} {kept} {within}{best if certificate.holds else ''}.{nothing}{alone}"


def _best(certificate: Certificate, meant: str, within: str) -> str:
    """What no rule does better."""
    if certificate.objective == "accuracy":
        return f"{meant}{within} can be expected to be more accurate"
    value, bound = reached_and_bound(certificate.primal, certificate.dual, certificate.objective)
    return f"the cost is {value} per person; {meant}{within} is below {bound}"


def _basis(certificate: Certificate) -> str:
    return "labels" if certificate.basis == "labels" else "calibrated chances of label 1"
