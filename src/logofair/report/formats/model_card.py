"""A model card: Markdown with the front matter that Hugging Face reads (``model-index``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from logofair._version import __version__
from logofair.auditing import Audit
from logofair.auditing.measure import Measured
from logofair.auditing.result import RuleAudit
from logofair.files.inputs import DataSource
from logofair.fitting.solution import Solution
from logofair.policy.policy import Policy
from logofair.report.formats.described import Described
from logofair.report.formats.markdown import escaped, to_fill, yaml_lines
from logofair.report.heading import ReportHeading
from logofair.report.measured import MeasuredRows
from logofair.report.wording import name_of, sentence

_TASK = {"type": "tabular-classification", "name": "Decisions by score and group"}
_NO_VERDICT = (
    "A gap that is not shown is not shown to be absent, and no figure here says that the decisions are lawful, just or "
    "fit for a purpose."
)


def model_card_text(
    found: Solution | Audit | RuleAudit,
    *,
    data: DataSource | None = None,
    command: str | None = None,
    heading: ReportHeading | None = None,
    policy: Policy | None = None,
    rule: str | None = None,
    warning: str = "",
) -> str:
    r"""Return a model card of the rule that a fit made, or of the one that an audit measured.

    Figures on rows that took no part in the fit come first; ``model-index`` holds those of the first rows alone.

    Parameters
    ----------
    found : Solution or Audit
        What :func:`logofair.fit` or :func:`logofair.audit` returned.
    data, command, heading : optional
        Where the rows came from, what makes the same again, and how it is headed, as for a report.
    policy : Policy, optional
        The policy that decided in an audit.
    rule : str, optional
        What decided in an audit, in words.
    warning : str
        A sentence that a reader must see first.

    Examples
    --------
    >>> import logofair
    >>> card = model_card_text(logofair.audit([1, 0, 0, 1], [1, 0, 1, 1], groups=["F", "F", "M", "M"]))
    >>> print("\n".join(card.splitlines()[:4]))
    ---
    library_name: "logofair"
    pipeline_tag: "tabular-classification"
    tags:
    """
    about = Described(found, data, command, heading or ReportHeading(), policy, rule, warning)
    front = "\n".join(["---", *yaml_lines(_front_matter(about)), "---"])
    return "\n\n".join([front, *_body(about)]) + "\n"


def _front_matter(about: Described) -> dict[str, Any]:
    rows = about.measured[0]
    source = about.source(rows)
    dataset = {"type": _slug(source.name if source else rows.name), "name": source.name if source else rows.name}
    dataset |= {} if about.solution is None else {"split": "calibration" if rows.after.fitted_rows else "test"}
    dataset |= {"revision": source.fingerprint} if source and source.fingerprint else {}
    return {
        "library_name": "logofair",
        "pipeline_tag": _TASK["type"],
        "tags": ["fairness", "post-processing", f"logofair-{__version__}"],
        "model-index": [
            {"name": about.name, "results": [{"task": _TASK, "dataset": dataset, "metrics": list(_metrics(rows))}]}
        ],
    }


def _metrics(rows: MeasuredRows) -> Iterator[dict[str, Any]]:
    """Every figure that is defined, with its interval; those of chance beside gaps."""
    if rows.after.accuracy is not None:
        yield _metric("accuracy", "accuracy", rows.after.accuracy)
    if rows.after.cost is not None and not rows.in_chances:
        yield _metric("cost_per_person", "cost per person", rows.after.cost)
    for rate, group, _, figure in rows.rates:
        if figure is not None:
            yield _metric(_slug(rate), f"{rate}, {name_of(group)}", figure)
    for line in rows.gap_lines:
        if line.after.value is not None:
            yield _metric(f"{_slug(line.after.rate)}_gap", f"{line.what}, {line.after.rate}", line.after.value)


def _metric(kind: str, name: str, figure: Measured) -> dict[str, Any]:
    known = {"low": figure.low, "high": figure.high, "rows": figure.rows, "noise_floor": figure.floor}
    rests = {key: round(value, 6) for key, value in known.items() if value is not None}
    return {"type": kind, "name": name, "value": round(float(figure), 6), "args": rests}


def _slug(text: str) -> str:
    """Text as an identifier."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "data"


def _body(about: Described) -> Iterator[str]:
    solution, heading = about.solution, about.heading
    yield f"# Model card: {escaped(about.name)}"
    if about.warning:
        yield f"**{sentence(about.warning)}**"
    yield "## Model details"
    yield _what_it_is(about)
    yield "## Uses"
    yield escaped(sentence(heading.purpose)) if heading.purpose else to_fill("what the decisions are for.")
    yield to_fill("who may use it, on whom, and for what it must not be used.")
    yield "## Evaluation"
    for rows in about.measured:
        yield f"### On {about.rows_title(rows)}"
        yield from about.figures(rows)
    yield "## Bias, risks and limitations"
    yield "\n".join(f"- {line}" for line in _limits(solution))
    yield "## Training"
    yield to_fill("how the scores were made: the model, its features and training data.")
    if solution is not None:
        yield f"What is proved of the rule. {escaped(solution.proof_sentence())}"
    yield "## Where the figures come from"
    yield about.sources()


def _what_it_is(about: Described) -> str:
    """What decides, and what it was made for."""
    solution = about.solution
    if solution is None:
        rule = f" Accepted are rows by: {escaped(about.rule)}." if about.rule else ""
        return f"An audit of decisions that are there already.{rule}"
    required = escaped(solution.requirements.summary())
    rule = "It decides by score, group and site" if solution.rows.has_sites else "It decides by score and group"
    return f"{rule}, made by logofair {__version__} from the scores of a model. Required was: {required}"


def _limits(solution: Solution | None) -> Iterator[str]:
    if solution is not None:
        yield escaped(str(solution.evidence))
        yield escaped(solution.coins_summary())
        yield from (escaped(warning.brief()) for warning in solution.warnings)
    yield "People decided on must be of the groups and sites that the figures are of; of others nothing is known."
    yield _NO_VERDICT
    yield to_fill("harms that these rates do not show.")
