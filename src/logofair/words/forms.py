"""Auditors' forms: the figures of a rule as Markdown to be completed by people, each from a template of its own.

A form states what was measured, with intervals, and marks what is somebody else's to say. No form is a verdict: none
says that a rule is lawful. Names from data stay text in Markdown, and strings in YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment

from logofair import __version__
from logofair.auditing import Audit, Gap, Measured
from logofair.auditing.files import FileAudit
from logofair.auditing.impact import SMALL_SHARE, ImpactRatios
from logofair.columns.harmless import harmless
from logofair.files.inputs import DataSource
from logofair.fitting.solution import Solution
from logofair.policy.policy import Policy
from logofair.words.about import About, data_facts, made_facts
from logofair.words.audited import NO_RATIO, policy_warnings, rule_words
from logofair.words.explained import coins_sentence
from logofair.words.fitted import solution_facts
from logofair.words.limits import Places, verdict
from logofair.words.phrases import counted, people, points, sentence
from logofair.words.proof import pooling_sentence, proof_sentences
from logofair.words.sections import templates

_MARKS = re.compile(r"([\\`*_\[\]<>#|~&!$]|:(?=//))")
# What YAML does not take as it is, and the line ends and marks of direction that it does.
_UNQUOTED = re.compile(
    "[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    '|["\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]'
)
_TASK = {"type": "tabular-classification", "name": "Decisions by score and group"}


@dataclass(frozen=True)
class _Figure:
    """A line of a form's table: what, its value, and the gap it is of, if any."""

    name: str
    value: Measured | None
    kind: str
    gap: Gap | None = None


@dataclass(frozen=True)
class _Rows:
    """Some rows that were measured: what they are called, where they came from, and their figures."""

    name: str
    size: int
    fitted: bool
    source: DataSource | None
    figures: tuple[_Figure, ...]

    @property
    def lines(self) -> Iterator[tuple[str, str, str, str, str]]:
        """A line of a table for each figure: its name, value, interval, people, and what chance alone shows."""
        for each in self.figures:
            gap, value, between = each.gap, each.value, ""
            if gap is not None and gap.value and gap.highest is not None:
                at = "" if gap.site is None else f", at {gap.site}"
                between = f" ({gap.highest} over {gap.lowest}{at})"
            rows = "" if value is None or value.rows is None else f"{value.rows:,}"
            chance = (
                "" if value is None or value.floor is None else f"{_text(value.floor)}, up to {_text(value.detectable)}"
            )
            yield f"{each.name}{between}", _text(value), _interval(value), rows, chance


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Templates of Markdown: every value is escaped but what is Markdown already."""
    made = templates(lambda value: value if isinstance(value, _Markdown) else _escaped(value), autoescape=False)
    made.filters.update(code=_code, sentence=sentence, figure=_text, people=people, md=_Markdown)
    made.filters["percent"] = lambda share: f"{points(share)} %"
    made.globals.update(version=__version__, no_ratio=NO_RATIO, small=f"{points(SMALL_SHARE, 0)} %")
    made.globals["ratio"] = lambda value: _text(value) if value is None else f"{_text(value)} ({_interval(value)})"
    made.globals["fill"] = lambda what: _Markdown(f"**To be filled in:** {what}")
    return made


def _text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _interval(value: Measured | None) -> str:
    return "" if value is None or value.low is None else f"{value.low:.4f} to {value.high:.4f}"


_FORMS = {"ll144": "ll144.md.j2", "model-card": "model_card.md.j2", "annex-iv": "annex_iv.md.j2"}


def form_text(
    form: str,
    found: Solution | Audit | FileAudit | ImpactRatios,
    about: About | None = None,
    *,
    rule: str = "",
) -> str:
    r"""Return figures in a form that auditors ask for, as Markdown: what is not the tool's to state is marked.

    ``ll144``: selection rates and impact ratios by category, in the form of Local Law 144's summary of results.
    ``model-card``: a model card with the front matter that Hugging Face reads (``model-index``, which holds figures of
    the first rows alone). ``annex-iv``: the points of Annex IV of the EU AI Act. Figures on rows that took no part in
    the fit come first.

    Parameters
    ----------
    form : str
        ``"ll144"``, ``"model-card"`` or ``"annex-iv"``.
    found : Solution, Audit or ImpactRatios
        What :func:`logofair.fit` or :func:`logofair.audit` returned; for ``ll144`` what
        :func:`logofair.auditing.impact_ratios` measured.
    about : About, optional
        Where the rows came from, what makes the same again, and how it is headed.
    rule : str
        What decided, in words; an audit of files knows that itself.

    Examples
    --------
    >>> import logofair
    >>> audit = logofair.audit([1, 0, 0, 1], [1, 0, 1, 1], sensitive_features=["F", "F", "M", "M"])
    >>> print("\n".join(form_text("model-card", audit).splitlines()[:4]))
    ---
    library_name: "logofair"
    pipeline_tag: "tabular-classification"
    tags:
    >>> [line for line in form_text("annex-iv", audit).splitlines() if line.startswith("## ")][0]
    '## 1. General description of the system'
    >>> from logofair.auditing import impact_ratios
    >>> found = impact_ratios([1, 0, 0, 1, 1, 0], categories={"sex": ["F", "F", "F", "M", "M", None]})
    >>> print(form_text("ll144", found).split("## ")[1].splitlines()[4])
    | F | 3 | 50.0 % | 0.3333 (0.0084 to 0.9057) | 0.3333 (0.0084 to 1.0000) |
    """
    about = about or About()
    policy: Policy | None = None
    warnings: Sequence[str] = ()
    if isinstance(found, FileAudit):
        rule = rule_words(found.columns, found.threshold, found.compared)
        if found.compared is not None:
            warnings, policy = policy_warnings(found.compared), found.compared.policy
        found = found.impact if form == "ll144" else found
    name = about.title or (about.data.name if about.data else "")
    facts = list(_facts(about, policy, rule))
    if isinstance(found, ImpactRatios):
        facts = [("people", f"{found.people:,}"), *facts]
        parts: dict[str, Any] = {"found": found, "name": name}
    else:
        solution, name = found if isinstance(found, Solution) else None, name or "a decision rule"
        measured = list(_measured(found, about.data))
        front = _Markdown("\n".join(_yaml_lines(_front_matter(name, measured, solution is not None))))
        described = None if solution is None else _described(solution)
        facts += [] if solution is None else solution_facts(solution)
        parts = {"name": name, "measured": measured, "front": front, "solution": described}
    template = _environment().get_template(_FORMS[form])
    return template.render(about=about, rule=rule, warnings=warnings, facts=facts, **parts)


def _facts(about: About, policy: Policy | None, rule: str) -> Iterator[tuple[str, str]]:
    """What the figures rest on and how to make them again."""
    if rule:
        yield "accepted by", rule
    yield from data_facts(about.data)
    if policy is not None:
        required = "; ".join(map(str, policy.info.requirements.require))
        yield "the policy was made for", required or "no requirement"
        yield "checksum of the policy", policy.checksum
    yield from made_facts(about)
    if about.command:
        yield "command", about.command


def _described(solution: Solution) -> dict[str, Any]:
    """What a form says of a rule that was made."""
    places = Places(several=len(solution.policy.sites) > 1)
    found = verdict(solution.outcomes, places, "add --test FILE or --confidence 0.95")
    info = solution.policy.info
    coins = coins_sentence(info.coin_share, info.score_blind_rules, len(solution.policy.rules))
    return {
        "by": "score, group and site" if places.several else "score and group",
        "aim": "highest expected accuracy" if solution.certificate.objective == "accuracy" else "lowest expected cost",
        "required": list(map(str, solution.outcomes.requirements)),
        "verdict": "Nothing was required." if found is None else f"{found.word}. {found.words}",
        "proof": proof_sentences(
            solution.certificate.info,
            rows=f"the {counted(solution.rows.scores.size, 'row')} of the fit",
            solver=solution.solver,
            sites=places.several,
        ),
        "pooling": pooling_sentence(solution.pooling) if places.several else "",
        "coins": "" if coins is None else coins.text,
        "warnings": tuple(map(str, solution.warnings)),
    }


def _measured(found: Solution | Audit | FileAudit, data: DataSource | None) -> Iterator[_Rows]:
    """The rows that were measured, those that took no part in the fit first."""
    if not isinstance(found, Solution):
        audits = list(found.by_notion.values()) if isinstance(found, FileAudit) else [found]
        yield _rows("audited people", audits, data)
        return
    if found.tested is not None:
        info = found.policy.info.tested
        tested = None if info is None else info.data
        yield _rows("people who took no part in the fit", [found.tested.second], tested)
    if found.compared is not None:
        yield _rows("people of the fit", [found.compared.second], data)


def _rows(name: str, audits: Sequence[Audit], source: DataSource | None) -> _Rows:
    first = audits[0]
    rates = {
        (rate, group): value for audit in audits for rate, row in audit.rates.items() for group, value in row.items()
    }
    figures = []
    for (rate, group), value in rates.items():
        who = ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)  # whole, however long
        figures.append(_Figure(f"{rate}, {who}", value, _slug(rate)))
    figures.append(_Figure("accepted, all groups", first.accepted, "accepted"))
    if first.accuracy is not None:
        figures.append(_Figure("accuracy", first.accuracy, "accuracy"))
    if first.cost is not None:
        figures.append(_Figure("cost per person", first.cost, "cost_per_person"))
    gaps: dict[str, Gap] = {}
    for audit in audits:
        several = len(audit.sites) > 1
        for where, side in (("over all", audit.global_gaps), ("at a site", audit.local_gaps if several else ())):
            gaps |= {f"largest gap {where}, {gap.rate}": gap for gap in side}
    figures += [_Figure(what, gap.value, f"{_slug(gap.rate)}_gap", gap) for what, gap in gaps.items()]
    return _Rows(name, int(first.global_.tally.rows.sum()), first.fitted_rows, source, tuple(figures))


def _front_matter(name: str, measured: Sequence[_Rows], made: bool) -> dict[str, Any]:
    """What Hugging Face reads: the figures of the first rows, each with its interval."""
    results: list[dict[str, Any]] = []
    for rows in measured[:1]:
        source = rows.source
        dataset: dict[str, Any] = {"type": _slug(source.name if source else rows.name)}
        dataset["name"] = source.name if source else rows.name
        dataset |= {"split": "calibration" if rows.fitted else "test"} if made else {}
        dataset |= {"revision": source.fingerprint} if source and source.fingerprint else {}
        metrics = []
        for each in rows.figures:
            if (value := each.value) is None or each.kind == "accepted":
                continue
            known = {"low": value.low, "high": value.high, "rows": value.rows, "noise_floor": value.floor}
            rests = {key: round(end, 6) for key, end in known.items() if end is not None}
            metrics.append({"type": each.kind, "name": each.name, "value": round(float(value), 6), "args": rests})
        results.append({"task": _TASK, "dataset": dataset, "metrics": metrics})
    return {
        "library_name": "logofair",
        "pipeline_tag": _TASK["type"],
        "tags": ["fairness", "post-processing", f"logofair-{__version__}"],
        "model-index": [{"name": name, "results": results}],
    }


def _slug(text: str) -> str:
    """Text as an identifier."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "data"


def _one_line(text: object) -> str:
    r"""Return text on one line; control characters, line ends among them, are written as escapes.

    Examples
    --------
    >>> print(_one_line("north\nsouth\x1b[2J"))
    north\nsouth\x1b[2J
    """
    return harmless(str(text)).replace("\t", "\\t").replace("\n", "\\n")


class _Markdown(str):
    """Text that is Markdown already, and not escaped again."""


def _escaped(text: object) -> _Markdown:
    r"""Return text as Markdown that shows it as it is.

    Examples
    --------
    >>> print(_escaped("*bold* | <b> [link](x)"))
    \*bold\* \| \<b\> \[link\](x)
    """
    return _Markdown(_MARKS.sub(r"\\\1", _one_line(text)))


def _code(text: object) -> _Markdown:
    """Return text as code of Markdown.

    Examples
    --------
    >>> print(_code("a `b` c"))
    `` a `b` c ``
    """
    line = _one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if "`" in line else ""
    return _Markdown(f"{fence}{space}{line}{space}{fence}")


def _yaml_lines(value: Any, depth: int = 0) -> list[str]:
    r"""Return plain values as lines of YAML; text is quoted, so that none is read as anything else.

    Examples
    --------
    >>> print("\n".join(_yaml_lines({"tags": ["yes", 'a: "b"'], "metrics": [{"type": "x", "value": 0.5}]})))
    tags:
    - "yes"
    - "a: \"b\""
    metrics:
    - type: "x"
      value: 0.5
    """
    indent, lines = "  " * depth, []
    if isinstance(value, dict):
        for name, part in value.items():
            inner = _yaml_lines(part, depth + isinstance(part, dict)) if isinstance(part, dict | list) else []
            lines += [f"{indent}{name}:", *inner] if inner else [f"{indent}{name}: {_scalar(part)}"]
        return lines
    for part in value:
        inner = _yaml_lines(part, depth + 1) if isinstance(part, dict) else [f"{indent}  {_scalar(part)}"]
        lines += [f"{indent}- {inner[0].strip()}", *inner[1:]]
    return lines


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    lone = "[\ud800-\udfff]"  # halves of a character, which no file can hold
    quoted = _UNQUOTED.sub(
        lambda found: f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04x}", re.sub(lone, "\ufffd", value)
    )
    return f'"{quoted}"'
