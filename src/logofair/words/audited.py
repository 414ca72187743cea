"""The page of an audit: the gap of each notion and what it could be, where one is shown, and who is too few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from logofair.auditing import Audit, Comparison, Gap, ImpactRatios
from logofair.auditing.files import ComparedRules, FileAudit
from logofair.auditing.impact import CategoryTable
from logofair.columns.checks import Label
from logofair.files.inputs import ColumnNames
from logofair.outcomes import FEW_ROWS, Outcomes
from logofair.words.about import About, sources_section, title_line
from logofair.words.charts import Dumbbell, dumbbells
from logofair.words.fitted import GUARANTEED, fair_answer, rely_answer
from logofair.words.limits import Places, every_limit, limits_picture, limits_table, verdict
from logofair.words.people import (
    accepted_shares,
    base_rates_differ,
    changes_table,
    cost_answer,
    rates_table,
    selected_answer,
)
from logofair.words.phrases import NOTHING, counted, listed, name_of, people, points, sentence, short_number, span
from logofair.words.sections import Answer, Cell, CellText, Page, Part, Picture, Section, Table

_IN_FIT = {
    "all": "Optimistic: these people chose the policy. Audit others",
    "some": "Optimistic: some of these people chose the policy. Leave them out with --where",
    "unknown": "The policy does not say which file it was fitted on: these people may be of the fit",
}
_SITES_DRAWN = 6  # beside those over all
_SITES_NAMED = 3
_SELECTIVE = "everybody left was accepted; of people who were rejected no rate of right and wrong can be known"
_WITHOUT_LABELS = "there are no labels (--label), so only selection rates can be judged"


@dataclass(frozen=True)
class Audited:
    """What an audit page is of: an audit for each notion, what was required, and another rule on the same rows."""

    by_notion: Mapping[str, Audit]
    outcomes: Outcomes = field(default_factory=Outcomes)
    compared: Comparison | None = None
    rule: str = ""
    warnings: tuple[str, ...] = ()
    others: int | None = None  # people who are known to have taken no part in the fit

    @property
    def first(self) -> Audit:
        """Any of the audits: all are of the same rows."""
        return next(iter(self.by_notion.values()))

    @property
    def telling(self) -> dict[str, Audit]:
        """The notions that say something of their own: not those whose rates each have a notion of their own."""
        alone = {audit.local.rates[0] for audit in self.by_notion.values() if len(audit.local.rates) == 1}
        several = {name: audit for name, audit in self.by_notion.items() if len(audit.local.rates) > 1}
        hidden = {name for name, audit in several.items() if set(audit.local.rates) <= alone}
        return {name: audit for name, audit in self.by_notion.items() if name not in hidden}


def file_audit_page(found: FileAudit, about: About, *, next_: str = "") -> Page:
    """Return the page of an audit of files."""
    compared = found.compared
    first = None if compared is None else next(iter(compared.by_notion.values()))
    others = found.rows if compared is not None and compared.in_fit in ("none", "another file") else None
    audited = Audited(
        found.by_notion,
        found.outcomes,
        first,
        rule_words(found.columns, found.threshold, found.compared),
        tuple(() if compared is None else policy_warnings(compared)),
        others,
    )
    return audit_page(audited, about, values=found.as_dict(), next_=next_)


def rule_words(columns: ColumnNames, threshold: float | None, compared: ComparedRules | None = None) -> str:
    """Return what decides, in words."""
    if compared is not None:
        return f"decisions of {compared.name}, its coins averaged"
    if columns.decision:
        return f"decisions in {columns.decision!r}"
    return f"accepted where {columns.score!r} is {threshold:g} or more"


def policy_warnings(compared: ComparedRules) -> Iterator[str]:
    """Return what to be careful with where a policy is measured on rows."""
    if compared.in_fit in _IN_FIT:
        yield f"{_IN_FIT[compared.in_fit]}."
    if compared.against_in_fit in ("all", "some"):
        yield f"{compared.against} was fitted on these people, which favours it."
    if compared.unknown:
        unknown = counted(compared.unknown, "person", "people")
        yield f"{unknown} of sites that the policy does not know: its merged rule decided."


def of_audit(audit: Audit) -> Audited:
    """Return what the page of an audit in Python is of."""
    notion = listed([rate.name for rate in audit.global_.rates])
    return Audited({notion: audit}, audit.outcomes, warnings=(_IN_FIT["all"] + ".",) if audit.fitted_rows else ())


def audit_page(
    audited: Audited, about: About | None = None, *, values: dict[str, Any] | None = None, next_: str = ""
) -> Page:
    """Return the page of an audit.

    Examples
    --------
    >>> import logofair
    >>> page = audit_page(of_audit(logofair.audit([1, 0, 0, 1], None, sensitive_features=["F", "F", "M", "M"])))
    >>> page.table.rows[0][:2]
    ('selection rate', Cell(text='0.0', key=0.0, state=None))
    """
    about = about or About()
    first, compared = audited.first, audited.compared
    places = Places(about.site_word, several=len(first.sites) > 1)
    people_ = float(first.global_.tally.people[..., -1].sum())
    outcomes = audited.outcomes
    judged = verdict(outcomes, places, "") if len(outcomes) else None
    selective = bool(about.left_out) and first.accuracy is not None and first.accepted == 1.0
    table = limits_table(outcomes, places) if len(outcomes) else _notions_table(audited, places)
    answers: list[Answer] = []
    if len(outcomes):
        answers += fair_answer(outcomes, places)
    else:
        answers += [Answer("Is it fair now?", "Gap", "Not measured", "", _SELECTIVE)] if selective else []
        answers += [] if selective else _sites_answers(audited, places)
    answers += [cost_answer(compared)] if compared is not None else [_right_answer(first)]
    if compared is not None:
        answers.append(selected_answer(compared, about.accepted))
        if len(outcomes):
            answers.append(rely_answer(outcomes, places, "", compared))
    else:
        answers.append(_accepted_answer(first, about.accepted))
    picture = limits_picture(outcomes, places) if len(outcomes) else _gaps_picture(audited, places)
    beside = picture if judged is None else None if compared is None else changes_table(compared, about.accepted)
    warnings = [*audited.warnings]
    if selective:
        warnings.append("Only accepted people have a label: leave --label out, and selection rates can be judged.")
    if not len(outcomes) and about.command and (differ := base_rates_differ(first)):
        warnings.append(f"{differ}: equal selection rates cost accuracy. logofair recommend tells how much.")
    return Page(
        "Fairness audit",
        f"{title_line(about, people_, first.sites, first.groups)}{f'; {audited.rule}' if audited.rule else ''}.",
        verdict=judged,
        table=table,
        answers=tuple(answers),
        picture=picture,
        beside=() if beside is None else (beside,),
        warnings=tuple(warnings),
        next=next_,
        next_tells="" if not next_ else "fair rules for people like these" if judged is None else GUARANTEED,
        sections=tuple(_sections(audited, about, places)),
        about=about.heading,
        values=values or {},
        written=about.written,
    )


def comparison_page(found: Comparison, about: About | None = None) -> Page:
    """Return the page of two rules on the same rows: the first is before, the second now.

    Examples
    --------
    >>> import logofair
    >>> found = logofair.auditing.compare([1, 1, 0, 1], [1, 1, 1, 1], [1, 0, 1, 1], sensitive_features=[*"aabb"])
    >>> comparison_page(found).answers[-2].line
    '50.0 -> 75.0 % accuracy; could be 39.8 points lost or 89.8 points won'
    """
    notion = listed([rate.name for rate in found.second.global_.rates])
    audited = Audited({notion: found.second}, found.second.outcomes, found)
    return audit_page(audited, about, values=found.as_dict())


def ratios_page(found: ImpactRatios) -> Page:
    """Return the page of impact ratios: a table by each column, and one by all of them together.

    Examples
    --------
    >>> from logofair.auditing import impact_ratios
    >>> impact_ratios([1, 0, 1, 1, 0], categories={"sex": ["F", "F", "M", "M", None]})
    Impact ratios: 5 people.
    <BLANKLINE>
    by sex   people   rate in %   ratio   could be
    F             2        50.0    0.50   0.01 to 1.00
    M             2       100.0    1.00   0.29 to 1.00
    1 person of unknown category.
    <BLANKLINE>
    """
    first, *others = map(_ratios_table, found.tables)
    sections = (Section("ratios", "By other columns", tuple(others)),) if others else ()
    return Page("Impact ratios", f"Impact ratios: {people(found.people)}.", table=first, sections=sections)


def _ratios_table(table: CategoryTable) -> Table:
    lines: list[tuple[CellText, ...]] = []
    for each in table.categories:
        ratio, ends = each.ratio, NOTHING
        if ratio is not None and ratio.low is not None and ratio.high is not None:
            ends = f"{ratio.low:.2f} to {ratio.high:.2f}"
        figure = Cell(NOTHING if ratio is None else f"{ratio:.2f}", ratio)
        name = name_of(", ".join(map(str, each.name)), 30)
        lines.append((name, Cell(f"{each.people:,}", each.people), Cell(points(each.rate), each.rate), figure, ends))
    unknown = f"{people(table.unknown)} of unknown category" if table.unknown else ""
    after = "; ".join(filter(None, (unknown, f"no ratio: {table.why_no_ratio}" if table.why_no_ratio else "")))
    head = (f"by {' and '.join(table.by)}", "people", "rate in %", "ratio", "could be")
    return Table("Impact ratios", head, tuple(lines), "lrrrl", after=sentence(after) if after else "")


def found_gap(gap: Gap) -> str:
    """Return what a gap shows beyond chance.

    Examples
    --------
    >>> from logofair.auditing import Measured
    >>> found_gap(Gap(Measured(0.25, low=0.13, high=0.42, rows=40), "selection rate", "M", "F"))
    'at least 13 points'
    >>> found_gap(Gap(Measured(0.05, low=0.0, high=0.2, rows=40), "selection rate", "M", "F"))
    'none detected'
    """
    if gap.value is None:
        return "not measured"
    if gap.value.low is None:
        return NOTHING
    return (
        f"at least {points(gap.value.low, 0 if gap.value.low >= 0.01 else 1)} points" if gap.shown else "none detected"
    )


def _notions_table(audited: Audited, places: Places) -> Table:
    """A line for each notion: its largest gap over all, between whom, and the site where it is largest."""
    site, compared = places.several, audited.compared
    lines: list[tuple[CellText, ...]] = []
    for audit in audited.telling.values():
        same = compared is not None and compared.first.global_.rates == audit.global_.rates
        before = compared.first if same and compared is not None else None
        for at in range(len(audit.global_.rates)):
            gap, local = audit.global_.headline.gap(at, 0), _worst_site(audit, at)
            was = None if before is None else before.global_.headline.gap(at, 0).value
            lines.append(
                (
                    gap.rate,
                    *([] if before is None else [Cell(points(was), was)]),
                    Cell(points(gap.value), gap.value),
                    NOTHING if gap.value is None else span(gap.value.low, gap.value.high),
                    _between(gap),
                    *([local] if site else []),
                )
            )
    paired = compared is not None and len(lines) > 0 and len(lines[0]) > 4 + site
    head = ("gap in points", *(["before"] if paired else []), places.all(), "could be", "between")
    head = (*head, *([f"worst {places.word}"] if site else []))
    lines = [line for line in lines if len(line) == len(head)]
    return Table("Gaps", head, tuple(dict.fromkeys(lines)), "l" + "r" * (2 + paired) + "l" * (1 + site))


def _gaps_picture(audited: Audited, places: Places) -> Picture | None:
    """Gaps where nothing is required: of the first rate over all and at the sites where it is largest, or of all."""
    audits = list(audited.telling.values())
    gaps = [audit.global_.headline.gap(at, 0) for audit in audits for at in range(len(audit.global_.rates))]
    first, side = gaps[0], audits[0].local.large
    what, drawn = "Gaps between groups", list({gap.rate: gap for gap in gaps}.items())
    if places.several:
        sites = [side.gap(0, at) for at in range(len(audits[0].sites)) if side.gaps[0][at] == side.gaps[0][at]]
        sites.sort(key=lambda gap: -(gap.value or 0.0))
        what = f"Gap in {first.rate}"
        drawn = [(places.all(), first), *((name_of(_label(gap.site), 22), gap) for gap in sites[:_SITES_DRAWN])]
    known = [(name, gap.value) for name, gap in drawn if gap.value is not None]
    if not known:
        return None
    ends = [[None if end is None else 100.0 * end for end in (gap.low, gap.high)] for _, gap in known]
    notes = [f"{points(gap)} points, could be {span(gap.low, gap.high)}" for _, gap in known]
    lines = [
        Dumbbell(name, None, 100.0 * gap, low, high, None, note)
        for (name, gap), (low, high), note in zip(known, ends, notes, strict=True)
    ]
    caption = f"{what} in points, with 95 % intervals"
    rows = tuple((name, points(gap), span(gap.low, gap.high)) for name, gap in known)
    return Picture(dumbbells(lines, caption), caption, Table(caption, ("", "gap", "could be"), rows, "lrr"))


def _between(gap: Gap) -> str:
    if gap.value is None:
        return "not measured"
    if not gap.value:
        return NOTHING
    return f"{name_of(_label(gap.highest), 12)} over {name_of(_label(gap.lowest), 12)}"


def _label(label: Label | None) -> Label:
    return "" if label is None else label


def _worst_site(audit: Audit, rate: int) -> str:
    """The site with the largest gap of a rate between groups of 30 people or more."""
    side = audit.local.large
    gaps = side.gaps[rate]
    known = [(float(gap), place) for place, gap in enumerate(gaps) if gap == gap]
    if not known:
        return "too few people"
    value, place = max(known)
    return f"{name_of(_label(audit.sites[place]), 16)} {points(value)}"


def _sites_answers(audited: Audited, places: Places) -> Iterator[Answer]:
    """What is shown beyond chance: over all, at which sites, and what cannot be judged."""
    gaps = [gap for audit in audited.telling.values() for gap in audit.global_.headline.largest()]
    shown = [gap for gap in gaps if gap.shown]
    question = "Is it fair now?"
    if shown:
        worst = max(shown, key=lambda gap: gap.value.low or 0.0 if gap.value is not None else 0.0)
        yield Answer(question, "Gap", found_gap(worst), "", f"{worst.rate}, {_between(worst)}, {places.all()}")
    else:
        hidden = [gap.value.high for gap in gaps if gap.value is not None and gap.value.high is not None]
        detail = f"up to {points(max(hidden), 0)} points could hide" if hidden else "no two groups can be compared"
        yield Answer(question, "Gap", "No gap detected" if hidden else "Not measured", "", detail)
    if not places.several:
        return
    detected: dict[Label | None, Gap] = {}
    for audit in audited.telling.values():
        for gap in audit.site_gaps:
            known = detected.get(gap.site)
            if gap.shown and (known is None or _least(gap) > _least(known)):
                detected[gap.site] = gap
    order = sorted(detected.values(), key=_least, reverse=True)
    named = [f"{name_of(_label(gap.site), 20)} ({points(gap.value, 0)})" for gap in order]
    sites = len(audited.first.sites)
    small = audited.first.small_sites
    words = f"a gap at {len(order):,} of {counted(sites, places.word)}"
    where = f": {listed(named, _SITES_NAMED)}" if named else ""
    few = f"; {small:,} have a group of fewer than {FEW_ROWS}" if small else ""
    yield Answer("", f"{places.word.capitalize()}s"[:10], f"{words}{where}{few}")


def _least(gap: Gap) -> float:
    return 0.0 if gap.value is None else gap.value.low or 0.0


def _right_answer(audit: Audit) -> Answer:
    """How many decisions are right, or what errors cost."""
    if audit.cost is not None:
        cost = audit.cost
        ends = "" if cost.low is None or cost.high is None else f"{short_number(cost.low)} to {short_number(cost.high)}"
        return Answer("What does it cost?", "Cost", short_number(float(cost)), "per person", ends)
    if audit.accuracy is None:
        return Answer("How often is it right?", "Accuracy", "Not known", "", _WITHOUT_LABELS)
    return Answer(
        "How often is it right?",
        "Accuracy",
        points(audit.accuracy),
        "%",
        f"could be {span(audit.accuracy.low, audit.accuracy.high)}",
    )


def _accepted_answer(audit: Audit, accepted: str) -> Answer:
    """The share accepted of each group, the extremes where there are many."""
    shares, _ = accepted_shares(audit)
    order = sorted(range(len(audit.groups)), key=lambda at: shares[at])
    if len(order) > 4:
        order = [order[0], order[1], order[-2], order[-1]]
    named = [f"{name_of(audit.groups[at], 24)} {points(float(shares[at]), 0)} %" for at in order]
    more = f" ({len(audit.groups) - 4:,} groups between)" if len(audit.groups) > 4 else ""
    figure = "" if audit.accepted is None else f"{points(audit.accepted, 0)} %"
    return Answer(f"Who is {accepted}?", accepted.capitalize(), figure, "", f"{', '.join(named)}{more}")


def _sections(audited: Audited, about: About, places: Places) -> Iterator[Section]:
    outcomes, first = audited.outcomes, audited.first
    parts: list[Part] = [
        every_limit(outcomes.where(requirement=each), places, str(each)) for each in outcomes.requirements
    ]
    parts += [_notions_table(audited, places)] if len(outcomes) or not places.several else []
    yield Section("fair", "Is it fair now?", (*parts, *(_site_table(audited, places) if places.several else ())))
    rules = [("before", audited.compared.first)] if audited.compared is not None else []
    tables = []
    for name, audit in audited.telling.items():
        own = [*((n, each) for n, each in rules if each.global_.rates == audit.global_.rates), ("now", audit)]
        tables.append(rates_table(own, f"Rates of every group: {name.replace('_', ' ')}"))
    yield Section("groups", "Who is affected?", tuple(tables))
    facts = [("people", f"{int(first.global_.tally.rows.sum()):,}"), ("groups", listed(map(str, first.groups), 8))]
    yield sources_section(about, iter(facts + ([("rule", audited.rule)] if audited.rule else [])))


def _site_table(audited: Audited, places: Places) -> Iterator[Table]:
    """Every site with the gap of every rate, what it shows beyond chance, and its people."""
    for audit in audited.telling.values():
        for at, rate in enumerate(audit.local.rates):
            lines: list[tuple[CellText, ...]] = []
            for place, site in enumerate(audit.sites):
                gap = audit.local.gap(at, place)
                could = NOTHING if gap.value is None else span(gap.value.low, gap.value.high)
                rows = None if gap.value is None else gap.value.rows
                few = Cell(NOTHING if rows is None else f"{rows:,}", rows)
                lines.append(
                    (
                        name_of(_label(site)),
                        Cell(points(gap.value), gap.value),
                        could,
                        _between(gap),
                        few,
                        found_gap(gap),
                    )
                )
            head = (places.word, "gap", "could be", "between", "people", "shown")
            yield Table(f"Gap in {rate.name}, points", head, tuple(lines), "lrrlrl", f"Find a {places.word}")
