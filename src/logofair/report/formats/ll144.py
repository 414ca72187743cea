"""The figures that New York City's Local Law 144 asks of a bias audit (6 RCNY 5-301), as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from logofair.auditing.impact import SMALL_SHARE, Category, CategoryTable, ImpactRatios
from logofair.auditing.measure import Measured, text
from logofair.files.inputs import DataSource
from logofair.policy.policy import Policy
from logofair.report.formats.markdown import escaped, lines_table, table, to_fill
from logofair.report.heading import ReportHeading
from logofair.report.sources import data_lines, made_lines, policy_lines
from logofair.report.wording import gap_words, sentence

_SMALL = f"{SMALL_SHARE:.0%}".replace("%", " %")
_WHAT_IT_IS_NOT = (
    "These are figures for a bias audit, not the audit: the law asks for an independent auditor, who answers for data, "
    "categories and exclusions. No figure here is a pass or a fail: the law and its rules name no ratio that is enough."
)


def ll144_text(
    found: ImpactRatios,
    *,
    data: DataSource | None = None,
    command: str | None = None,
    heading: ReportHeading | None = None,
    policy: Policy | None = None,
    rule: str | None = None,
    left_out: int = 0,
    warning: str = "",
) -> str:
    """Return selection rates and impact ratios by category, in the form of Local Law 144's summary of results.

    Parameters
    ----------
    found : ImpactRatios
        What :func:`logofair.auditing.impact_ratios` measured.
    data, command, heading : optional
        Where the rows came from, what makes the same again, and how it is headed, as for a report.
    policy : Policy, optional
        The policy that decided.
    rule : str, optional
        What decided, in words.
    left_out : int
        How many people were left out because a value that decides on them is missing.
    warning : str
        A sentence that a reader must see first.

    Examples
    --------
    >>> from logofair.auditing import impact_ratios
    >>> found = impact_ratios([1, 0, 0, 1, 1, 0], categories={"sex": ["F", "F", "F", "M", "M", None]})
    >>> print(ll144_text(found).split("## ")[1].splitlines()[4])
    | F | 3 | 50.0 % | 0.3333 (0.0084 to 0.9057) | 0.3333 (0.0084 to 1.0000) |
    """
    heading = heading or ReportHeading()
    name = heading.title or (data.name if data else "")
    parts = [
        f"# Selection rates and impact ratios{f': {escaped(name)}' if name else ''}",
        *([escaped(heading.purpose)] if heading.purpose else []),
        *([f"**{sentence(warning)}**"] if warning else []),
        _WHAT_IT_IS_NOT,
        *(part for each in found.tables for part in _table(each, heading.accepted)),
        "## How to read it",
        _reading(left_out),
        "## For the auditor",
        _for_the_auditor(found),
        "## Where the figures come from",
        lines_table(_sources(found, data, command, heading, policy, rule)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(found: CategoryTable, accepted: str) -> Iterator[str]:
    """One table and its notes."""
    yield f"## By {escaped(' and '.join(found.by))}"
    small = found.small
    again = [f"ratio without those below {_SMALL}"] if small else []
    head = ["category", "people", "share", f"selection rate ({escaped(accepted)})", "impact ratio", *again]
    if found.categories:
        yield table(head, (_line(category, again=bool(small)) for category in found.categories))
    yield "\n".join(f"- {note}" for note in _notes(found))


def _line(category: Category, *, again: bool) -> list[str]:
    name = escaped(", ".join(map(str, category.name))) + (" †" if category.small else "")
    figures = [category.rate, category.ratio, *([category.ratio_of_large] if again else [])]
    share = f"{category.share:.1%}".replace("%", " %")
    left_out = again and category.small
    return [name, f"{category.people:,}", share, *map(_figure, figures[:2]), *_last(figures[2:], left_out=left_out)]


def _last(figures: list[Measured | None], *, left_out: bool) -> list[str]:
    return ["left out"] if left_out else list(map(_figure, figures))


def _figure(figure: Measured | None) -> str:
    return "undefined" if figure is None else f"{text(figure)} ({figure.interval})"


def _notes(found: CategoryTable) -> Iterator[str]:
    """What stands below a table: who is missing, what is small, what is undefined, what chance alone would show."""
    columns = escaped(" or ".join(found.by))
    yield f"{_people(found.unknown)} of unknown {columns}, in no category of this table."
    if found.small:
        yield f"† below {_SMALL} of the people: the rules let an auditor leave such a category out and say why."
    if found.why_no_ratio:
        yield f"Impact ratios are undefined: {found.why_no_ratio}."
    elif found.floor is not None and found.detectable is not None:
        yield (
            f"Were all rates equal, chance alone would make the smallest impact ratio {text(found.floor)} on average "
            f"on so many people, and not below {text(found.detectable)} in 19 of 20 cases."
        )
    gap = found.gap
    if gap.value is not None:
        found_here = " ".join(sentence(words) for words in (gap.finding, gap.chance) if words)
        yield f"Largest difference of rates: {escaped(gap_words(gap))}, {_figure(gap.value)}. {found_here}"


def _reading(left_out: int) -> str:
    lines = [
        "- Selection rate: the share of a category's people who are selected. Impact ratio: that rate divided by the "
        "rate of the most selected category.",
        "- In brackets the 95% interval, were the people drawn again. That of a ratio allows for the most selected "
        "category being another in truth.",
    ]
    if left_out:
        lines.append(f"- Left out altogether: {_people(left_out)} who lack a value that decides on them.")
    return "\n".join(lines)


def _people(count: int) -> str:
    return f"{count:,} {'person' if count == 1 else 'people'}"


def _for_the_auditor(found: ImpactRatios) -> str:
    """What the published summary needs beyond these figures."""
    needed = [
        "the date of the audit and the distribution date of the tool;",
        "where the data come from, whether they are historical or test data, and why;",
        "whether the categories are those of the rules (those reported to the EEOC).",
    ]
    if any(table.small for table in found.tables):
        needed.insert(2, f"which categories below {_SMALL} are left out of the ratios, if any, and why;")
    return "\n".join(f"- {to_fill(what)}" for what in needed)


def _sources(
    found: ImpactRatios,
    data: DataSource | None,
    command: str | None,
    heading: ReportHeading,
    policy: Policy | None,
    rule: str | None,
) -> Iterator[tuple[str, str]]:
    yield "people", f"{found.people:,}"
    if rule:
        yield "selected by", rule
    yield from () if data is None else data_lines(data)
    yield from () if policy is None else policy_lines(policy)
    yield from made_lines(heading)
    if heading.author:
        yield "by", heading.author
    if command:
        yield "command", command
