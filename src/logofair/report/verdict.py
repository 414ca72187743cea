"""What was required, what other rows show of it, and what is proved on the calibration rows."""

from __future__ import annotations

from dataclasses import dataclass

from logofair.auditing.required import UNMEASURED
from logofair.fitting.evidence import findings
from logofair.fitting.solution import Solution
from logofair.report.markup import Element, tag
from logofair.report.measured import MeasuredRows
from logofair.report.wording import counted
from logofair.requirements import requirement_sentences


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


def judge(solution: Solution, tested: MeasuredRows | None) -> Verdict:
    """Judge a solution by what is known beyond the rows that chose it; these alone make no pass."""
    evidence, proof = solution.evidence, _proof(solution)
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
    local = f"Inside each of the {len(solution.policy.sites):,} sites"
    return " ".join(requirement_sentences(solution.requirements.as_dict(), local))


def _proof(solution: Solution) -> str:
    """What is proved on the calibration rows, and what is found on the sites' own where others count too."""
    states = [state for check in solution.requirement_checks for state in check.states]
    if states and set(states) == {UNMEASURED}:
        return f"None of the {counted(len(states), 'required gap')} has two groups to compare: nothing is shown."
    alone = "" if solution.certificate.pooling == "none" else f" {solution.own_rows.summary()}"
    return f"{solution.proof_sentence()}{alone}"
