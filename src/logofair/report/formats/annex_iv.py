"""The parts of the EU AI Act's Annex IV (technical documentation) that this tool can state, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from logofair._version import __version__
from logofair.auditing import Audit
from logofair.auditing.result import RuleAudit
from logofair.files.inputs import DataSource
from logofair.fitting.solution import Solution
from logofair.policy.policy import Policy
from logofair.report.formats.described import Described
from logofair.report.formats.markdown import code, escaped, to_fill
from logofair.report.heading import ReportHeading
from logofair.report.wording import sentence

_WHAT_IT_IS_NOT = (
    "A draft of parts of the technical documentation that Article 11 and Annex IV of Regulation (EU) 2024/1689 ask of "
    "providers of high-risk systems. It covers the step from scores to decisions, not the model that makes the scores. "
    "It is not complete, no conformity assessment and no legal advice; what is marked is the provider's to state."
)


def annex_iv_text(
    found: Solution | Audit | RuleAudit,
    *,
    data: DataSource | None = None,
    command: str | None = None,
    heading: ReportHeading | None = None,
    policy: Policy | None = None,
    rule: str | None = None,
    warning: str = "",
) -> str:
    """Return the points of Annex IV: what the tool can state of a rule, and the rest marked as the provider's.

    Arguments are those of :func:`model_card_text`.

    Examples
    --------
    >>> import logofair
    >>> text = annex_iv_text(logofair.audit([1, 0, 0, 1], [1, 0, 1, 1], groups=["F", "F", "M", "M"]))
    >>> [line for line in text.splitlines() if line.startswith("## ")][0]
    '## 1. General description of the system'
    """
    about = Described(found, data, command, heading or ReportHeading(), policy, rule, warning)
    parts = [
        f"# Technical documentation, in part (Annex IV): {escaped(about.name)}",
        *([f"**{sentence(warning)}**"] if warning else []),
        _WHAT_IT_IS_NOT,
        *_general(about),
        *_development(about),
        *_monitoring(about),
        *_rest(),
        "## Where the figures come from",
        about.sources(),
    ]
    return "\n\n".join(parts) + "\n"


def _general(about: Described) -> Iterator[str]:
    """Point 1."""
    purpose = about.heading.purpose
    yield "## 1. General description of the system"
    stated = [f"(a) Purpose: {escaped(sentence(purpose))}" if purpose else f"(a) {to_fill('the intended purpose.')}"]
    stated += [f"(a) {to_fill('the provider, and the version with its relation to earlier ones.')}"]
    stated += [f"(c) Software: logofair {__version__}; other versions stand at the end."]
    others = "interaction with other systems, forms of supply, hardware, user interface, instructions for use."
    yield _listed([*stated, f"(b), (d) to (h) {to_fill(others)}"])


def _development(about: Described) -> Iterator[str]:
    """Point 2."""
    solution = about.solution
    yield "## 2. Elements of the system and its development"
    yield "### 2 (a) Methods and steps"
    yield to_fill("how the model that makes the scores was developed.")
    yield "### 2 (b) Design: logic, choices, what is optimised, trade-offs"
    yield _logic(about)
    if solution is not None:
        yield _listed([escaped(line) for line in _choices(solution)])
    yield to_fill("why these groups, this notion of fairness and these tolerances were chosen.")
    yield "### 2 (d) Data"
    yield to_fill("the training data: origin, scope, labelling, cleaning. The rows measured here are named at the end.")
    yield "### 2 (e) Human oversight"
    yield _oversight(solution)
    yield "### 2 (g) Validation and testing, metrics of discriminatory impact"
    for rows in about.measured:
        yield f"#### On {about.rows_title(rows)}"
        yield from about.figures(rows)
    if solution is not None:
        yield escaped(str(solution.evidence))
    yield to_fill("robustness and other tests; test reports dated and signed by those responsible.")
    yield "### 2 (c), (f), (h) Architecture, planned changes, cybersecurity"
    yield to_fill("all of these.")


def _logic(about: Described) -> str:
    """What decides."""
    solution = about.solution
    if solution is None:
        decided = escaped(about.rule) if about.rule else "decisions as they were found"
        return f"What was audited: {decided}. {to_fill('the logic of the rule.')}"
    by = "score, group and site" if solution.rows.has_sites else "score and group"
    aim = "highest expected accuracy" if solution.certificate.objective == "accuracy" else "lowest expected cost"
    return (
        f"A policy turns a person's {by} into a decision by thresholds per group, some of them mixed by a coin that "
        f"the person's id decides; {code('logofair explain POLICY')} lists every rule. It was chosen for the {aim} "
        "of such rules that keep the requirements on the calibration rows."
    )


def _choices(solution: Solution) -> Iterator[str]:
    """What was required, what is proved on which rows, and what each requirement costs."""
    yield f"Required: {solution.requirements.summary()}"
    yield f"Proved: {solution.proof_sentence()}"
    if (pooling := solution.pooling_sentence()) is not None:
        yield f"Small cells: {pooling}"
    yield f"Coins: {solution.coins_summary()}"
    for price in solution.price_sentences():
        yield f"Trade-off: {price}"
    for check in solution.requirement_checks:
        if check.kind != "tolerance":
            yield f"Held: {check}"
    if (own := solution.own_checks_sentence()) is not None:
        yield f"Held: {own}"
    best = "the best accuracy" if solution.certificate.objective == "accuracy" else "the least cost"
    yield f"Trade-off: {best} for every pair of tolerances is what logofair frontier shows."


def _oversight(solution: Solution | None) -> str:
    help_ = "The rules can be read by people, and the same id at the same site always gets the same decision. "
    return (
        f"{help_ if solution is not None else ''}{to_fill('who oversees the decisions, and how they can be changed.')}"
    )


def _monitoring(about: Described) -> Iterator[str]:
    """Points 3 and 4."""
    solution = about.solution
    yield "## 3. Monitoring, functioning and control"
    limits = ["Accuracy over all people and rates by group: the tables of point 2 (g), with intervals."]
    if solution is not None:
        limits += [escaped(warning.brief()) for warning in solution.warnings]
    limits += ["Of people of other groups or sites than those measured nothing is known."]
    yield _listed(limits)
    yield to_fill("foreseeable unintended outcomes, sources of risk, and what input data must look like.")
    yield "## 4. Why these metrics"
    yield (
        "Gaps are differences between groups' rates, each with its 95% interval, the rows it rests on and what chance "
        "alone would show, since a gap on few rows is mostly chance."
    )
    yield to_fill("why these metrics suit this system.")


def _rest() -> Iterator[str]:
    """Points 5 to 9, none of which the tool knows anything of."""
    points = {
        "5. Risk management (Article 9)": "the risk management system.",
        "6. Changes through the lifecycle": "relevant changes; the checksum below tells policies apart.",
        "7. Harmonised standards": "the standards applied, or how else the requirements are met.",
        "8. EU declaration of conformity": "a copy of it.",
        "9. Post-market monitoring (Article 72)": "the plan; logofair audit on new rows can be part of it.",
    }
    for title, what in points.items():
        yield f"## {title}"
        yield to_fill(what)


def _listed(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
