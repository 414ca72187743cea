"""The page of an audit: the gap of each notion and what it could be, where one is shown, and who is too few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logofair.auditing import Audit, Comparison, Gap, ImpactRatios
from logofair.auditing.files import ComparedRules, FileAudit
from logofair.auditing.impact import CategoryTable
from logofair.auditing.result import Undefined
from logofair.columns.checks import Label
from logofair.files.inputs import ColumnNames
from logofair.outcomes import FEW_ROWS, Outcomes
from logofair.words.about import About, sources_section, title_line
from logofair.words.answers import (
    GUARANTEED,
    accepted_shares,
    base_rates_differ,
    changes_table,
    cost_answer,
    fair_answer,
    interval,
    left_out_sentence,
    rates_table,
    rely_answer,
    selected_answer,
)
from logofair.words.charts import Dumbbell, dumbbells
from logofair.words.limits import Places, every_limit, limits_picture, limits_table, verdict
from logofair.words.phrases import (
    NOTHING,
    counted,
    group_names,
    in_words,
    listed,
    name_of,
    names_of,
    people,
    plural,
    points,
    sentence,
    short_number,
)
from logofair.words.sections import (
    Answer,
    Cell,
    CellText,
    Column,
    Page,
    Picture,
    Section,
    Table,
    in_points,
    number,
    table_of,
    what_it_costs,
)

_MANY = 20  # people left out are many if they are more than one in so many
_IN_FIT = {
    "all": "Optimistic: these people chose the policy. Audit others",
    "some": "Optimistic: some of these people chose the policy. Leave them out with --where",
    "unknown": "The policy does not say which file it was fitted on: they may be these people",
}
_SITES_DRAWN = 6  # beside those over all
_SITES_NAMED = 3
_TERMINAL, _ANY = 80, 10_000  # columns
_SELECTIVE = "everybody left was accepted; for rejected people no rate of right and wrong can be known"
NO_RATIO = {
    "no categories": "every category is unknown",
    "nobody selected": "nobody is selected in any category",
    "fewer than two rates": "fewer than two categories have a selection rate",
}
_UNDEFINED = {
    "no labels": "there are no labels",
    "no rows": "nobody{those} is there",
    "no weight": "all{those} have weight 0",
    "not finite": "its value is not finite",
}
_WITHOUT_LABELS = "there are no labels (--label), so only selection rates can be judged"


def file_audit_page(found: FileAudit, about: About, *, next_: str = "") -> Page:
    """Return the page of an audit of files."""
    compared = found.compared
    first = None if compared is None else next(iter(compared.by_notion.values()))
    warnings = () if compared is None else policy_warnings(compared)
    rule = rule_words(found.columns, found.threshold, compared)
    return _page(found.by_notion, found.outcomes, first, about, rule, warnings, found.as_dict(), next_)


def rule_words(columns: ColumnNames, threshold: float | None, compared: ComparedRules | None = None) -> str:
    """Return what decides, in words."""
    if compared is not None:
        return f"decisions of {compared.name}, its coins averaged"
    if columns.decision:
        return f"decisions in {columns.decision!r}"
    return f"accepted where {columns.score!r} is {threshold:g} or more"


def policy_warnings(compared: ComparedRules) -> tuple[str, ...]:
    """Return what to be careful with where a policy is measured on rows."""
    found = [f"{_IN_FIT[compared.in_fit]}."] if compared.in_fit in _IN_FIT else []
    if compared.against_in_fit in ("all", "some"):
        found.append(f"{compared.against} was fitted on these people, which favours it.")
    if compared.unknown:
        unknown = counted(compared.unknown, "person", "people")
        found.append(f"{unknown} of sites that the policy does not know: its merged rule decided.")
    return tuple(found)


def audit_page(audit: Audit, about: About | None = None) -> Page:
    """Return the page of an audit."""
    notion = listed([rate.name for rate in audit.global_.rates])
    warnings = (f"{_IN_FIT['all']}.",) if audit.fitted_rows else ()
    return _page({notion: audit}, audit.outcomes, None, about, warnings=warnings)


def comparison_page(found: Comparison, about: About | None = None) -> Page:
    """Return the page of two rules on the same rows: the first is before, the second now."""
    notion = listed([rate.name for rate in found.second.global_.rates])
    return _page({notion: found.second}, found.second.outcomes, found, about, values=found.as_dict())


def _page(
    by_notion: Mapping[str, Audit],
    outcomes: Outcomes,
    compared: Comparison | None,
    about: About | None,
    rule: str = "",
    warnings: Sequence[str] = (),
    values: dict[str, Any] | None = None,
    next_: str = "",
) -> Page:
    """The page of an audit for each notion, of what was required, and of another rule on the same rows."""
    about, first = about or About(), next(iter(by_notion.values()))  # all are of the same rows
    places = Places(about.site_word, several=len(first.sites) > 1, label=about.label_word)
    telling = _telling(by_notion)
    gaps = [_notions_table(telling, compared, places, most) for most in (_TERMINAL, _ANY)]
    judged = verdict(outcomes, places, "")
    selective = bool(about.left_out) and first.accuracy is not None and first.accepted == 1.0
    if judged is not None:
        answers = [fair_answer(outcomes, places)]
    elif selective:
        answers = [Answer("Is it fair now?", "Gap", "Not measured", "", _SELECTIVE)]
    else:
        answers = list(_sites_answers(telling, places))
    if compared is None:
        answers += [_right_answer(first), _accepted_answer(first, outcomes, about.accepted)]
    else:
        answers += [cost_answer(compared), selected_answer(compared, outcomes, about.accepted)]
        answers += [] if judged is None else [rely_answer(outcomes, places, "", compared)]
    picture = _gaps_picture(telling, places) if judged is None else limits_picture(outcomes, places)
    changes = None if compared is None else changes_table(compared, outcomes, about.accepted)
    beside = picture if judged is None else changes
    cautions = [*warnings]
    if selective:
        cautions.append("Only accepted people have a label: leave --label out, and selection rates can be judged.")
    elif about.left_out * _MANY > first.global_.tally.rows.sum() and first.accuracy is not None:
        cautions.append(left_out_sentence(about.left_out, "leave --label out"))
    if judged is None and about.command and (differ := base_rates_differ(first)):
        cautions.append(f"{differ}: equal selection rates cost accuracy. logofair recommend tells how much.")
    people_ = float(first.global_.tally.people[..., -1].sum())
    return Page(
        "Fairness audit",
        f"{title_line(about, people_, first.sites, first.groups)}{f'; {rule}' if rule else ''}.",
        verdict=judged,
        table=gaps[0] if judged is None else limits_table(outcomes, places, 3),
        answers=tuple(answers),
        picture=picture,
        beside=() if beside is None else (beside,),
        warnings=tuple(cautions),
        next=next_,
        next_tells="" if not next_ else "fair rules for people like these" if judged is None else GUARANTEED,
        sections=tuple(_sections(about, telling, outcomes, compared, places, gaps[1], rule)),
        about=about.heading,
        values=values or {},
        written=about.written,
    )


def _sections(
    about: About,
    telling: Mapping[str, Audit],
    outcomes: Outcomes,
    compared: Comparison | None,
    places: Places,
    gaps: Table,
    rule: str,
) -> Iterator[Section]:
    limits = [every_limit(outcomes.where(requirement=each), places, str(each)) for each in outcomes.requirements]
    limits += [gaps] if len(outcomes) or not places.several else []
    limits += _site_tables(telling, places) if places.several else []
    yield Section("fair", "Is it fair now?", tuple(limits))
    before = [] if compared is None else [("before", compared.first)]
    rates = []
    for name, audit in telling.items():
        own = [*(each for each in before if each[1].global_.rates == audit.global_.rates), ("now", audit)]
        rates.append(rates_table(own, f"Rates of every group: {name.replace('_', ' ')}"))
    yield Section("groups", "Who is affected?", tuple(rates))
    first = next(iter(telling.values()))
    facts = [("people", f"{int(first.global_.tally.rows.sum()):,}"), ("groups", listed(map(str, first.groups), 8))]
    yield sources_section(about, [*facts, *([("rule", rule)] if rule else [])])


def _telling(by_notion: Mapping[str, Audit]) -> dict[str, Audit]:
    """The notions that say something of their own: not those whose rates each have a notion of their own."""
    alone = {audit.local.given[0] for audit in by_notion.values() if len(audit.local.given) == 1}
    return {
        name: audit
        for name, audit in by_notion.items()
        if len(audit.local.given) == 1 or not set(audit.local.given) <= alone
    }


def ratios_page(found: ImpactRatios) -> Page:
    """Return the page of impact ratios: a table by each column, and one by all of them together."""
    first, *others = map(_ratios_table, found.tables)
    sections = (Section("ratios", "By other columns", tuple(others)),) if others else ()
    return Page("Impact ratios", f"Impact ratios: {people(found.people)}.", table=first, sections=sections)


def _ratios_table(table: CategoryTable) -> Table:
    lines: list[tuple[CellText, ...]] = []
    for each in table.categories:
        ratio, could = each.ratio, NOTHING
        if ratio is not None and ratio.low is not None and ratio.high is not None:
            could = f"{ratio.low:.2f} to {ratio.high:.2f}"
        figure = Cell(NOTHING if ratio is None else f"{ratio:.2f}", ratio)
        lines.append((name_of(each.name, 30), number(each.people), in_points(each.rate), figure, could))
    unknown = f"{people(table.unknown)} of unknown category" if table.unknown else ""
    after = "; ".join(
        filter(None, (unknown, f"no ratio: {NO_RATIO[table.why_no_ratio]}" if table.why_no_ratio else ""))
    )
    head = (f"by {' and '.join(table.by)}", "people", "rate in %", "ratio", "could be")
    return Table("Impact ratios", head, tuple(lines), "lrrrl", after=sentence(after) if after else "")


def undefined_sentence(found: Undefined) -> str:
    """Return why a figure could not be measured."""
    whose = "" if found.group is None else f" of {name_of(found.group)}"
    where = "" if found.site is None else f" at {name_of(found.site)}"
    why = _UNDEFINED[found.reason].format(those="" if found.label is None else f" with label {found.label}")
    return f"{found.figure}{whose}{where} is undefined: {why}"


def _found_gap(gap: Gap) -> str:
    """Return what a gap shows beyond chance.

    Examples
    --------
    >>> from logofair.auditing import Measured
    >>> _found_gap(Gap(Measured(0.25, low=0.13, high=0.42, rows=40), "selection rate", "M", "F"))
    'at least 13 points'
    >>> _found_gap(Gap(Measured(0.05, low=0.0, high=0.2, rows=40), "selection rate", "M", "F"))
    'none detected'
    """
    if gap.value is None:
        return "not measured"
    if gap.value.low is None:
        return NOTHING
    return f"at least {in_words(interval(gap.value).split(' to ')[0])}" if gap.shown else "none detected"


def _notions_table(telling: Mapping[str, Audit], compared: Comparison | None, places: Places, most: int) -> Table:
    """A line for each notion: its largest gap over all, between whom, and the site where it is largest.

    Between whom is left out where there are not so many columns: the answer below the table tells it.
    """
    before = None if compared is None else compared.first.global_
    audits = list(telling.values())
    paired = before is not None and before.rates == audits[0].global_.rates
    lines: list[tuple[CellText, ...]] = []
    for audit in (
        audits if before is None else [each for each in audits if (each.global_.rates == before.rates) == paired]
    ):
        for at in range(len(audit.global_.rates)):
            gap = audit.global_.headline.gap(at, 0)
            was = [in_points(before.headline.gap(at, 0).value)] if before is not None and paired else []
            worst = [_worst_site(audit, at)] if places.several else []
            who = _between(gap, audit.global_.groups)
            lines.append((gap.rate, *was, in_points(gap.value), interval(gap.value), who, *worst))
    head = ("gap in points", *(["before"] if paired else []), places.all(), "could be", "between")
    head = (*head, *([f"worst {places.word}"] if places.several else []))
    align = "l" + "r" * (2 + paired) + "l" * (1 + places.several)
    table = Table("Gaps", head, tuple(dict.fromkeys(lines)), align)
    if table.fits(most):
        return table
    kept = [at for at, name in enumerate(head) if name != "between"]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return Table("Gaps", tuple(head[at] for at in kept), rows, "".join(align[at] for at in kept))


def _gaps_picture(telling: Mapping[str, Audit], places: Places) -> Picture | None:
    """Gaps where nothing is required: of the first rate over all and at the sites where it is largest, or of all."""
    audits = list(telling.values())
    gaps = [audit.global_.headline.gap(at, 0) for audit in audits for at in range(len(audit.global_.rates))]
    first, side = gaps[0], audits[0].local.large
    what, drawn = "Gaps between groups", list({gap.rate: gap for gap in gaps}.items())
    if places.several:
        sites = [side.gap(0, at) for at in range(len(audits[0].sites)) if side.gaps[0][at] == side.gaps[0][at]]
        sites.sort(key=lambda gap: -(gap.value or 0.0))
        what = f"Gap in {first.rate}"
        drawn = [(places.all(), first), *((name_of(gap.site, 22), gap) for gap in sites[:_SITES_DRAWN])]
    known = [(name, gap.value) for name, gap in drawn if gap.value is not None]
    if not known:
        return None
    lines = []
    for name, gap in known:
        low, high = (None if end is None else 100.0 * end for end in (gap.low, gap.high))
        note = f"{points(gap)} points, could be {interval(gap)}"
        lines.append(Dumbbell(name, None, 100.0 * gap, low, high, None, note))
    caption = f"{what} in points, with 95 % intervals"
    rows = tuple((name, points(gap), interval(gap)) for name, gap in known)
    return Picture(dumbbells(lines, caption), caption, Table(caption, ("", "gap", "could be"), rows, "lrr"))


def _between(gap: Gap, groups: Sequence[Label], most: int = 12) -> str:
    if gap.value is None:
        return "not measured"
    names = dict(zip(groups, names_of(groups, most), strict=True))
    return f"{names[gap.highest]} over {names[gap.lowest]}" if gap.value else NOTHING


def _worst_site(audit: Audit, rate: int) -> str:
    """The site with the largest gap of a rate between groups of 30 people or more."""
    known = [(float(gap), place) for place, gap in enumerate(audit.local.large.gaps[rate]) if gap == gap]
    if not known:
        return "too few people"
    value, place = max(known)
    return f"{name_of(audit.sites[place], 16)} {points(value)}"


def _sites_answers(telling: Mapping[str, Audit], places: Places) -> Iterator[Answer]:
    """What is shown beyond chance: over all, at which sites, and what cannot be judged."""
    gaps = [gap for audit in telling.values() for gap in audit.global_.headline.largest()]
    worst = max((gap for gap in gaps if gap.shown), key=_least, default=None)
    question = "Is it fair now?"
    if worst is not None:
        who = _between(worst, next(iter(telling.values())).global_.groups, 24)
        yield Answer(question, "Gap", _found_gap(worst), "", f"{worst.rate}, {who}, {places.all()}")
    else:
        hidden = [gap.value.high for gap in gaps if gap.value is not None and gap.value.high is not None]
        detail = f"up to {in_words(points(max(hidden), 0))} could hide" if hidden else "no two groups can be compared"
        yield Answer(question, "Gap", "No gap detected" if hidden else "Not measured", "", detail)
    if not places.several:
        return
    detected: dict[Label | None, Gap] = {}
    for audit in telling.values():
        for gap in audit.site_gaps:
            known = detected.get(gap.site)
            if gap.shown and (known is None or _least(gap) > _least(known)):
                detected[gap.site] = gap
    order = sorted(detected.values(), key=_least, reverse=True)
    named = [f"{name_of(gap.site, 20)} ({points(gap.value, 0)})" for gap in order]
    first = next(iter(telling.values()))
    words = f"a gap at {len(order):,} of {counted(len(first.sites), places.word)}"
    where = f": {listed(named, _SITES_NAMED)}" if named else ""
    few = f"; {first.small_sites:,} have a group of fewer than {FEW_ROWS}" if first.small_sites else ""
    yield Answer("", plural(places.word).capitalize()[:10], f"{words}{where}{few}")


def _least(gap: Gap) -> float:
    """What a gap is at least."""
    return 0.0 if gap.value is None else gap.value.low or 0.0


def _right_answer(audit: Audit) -> Answer:
    """How many decisions are right, or what errors cost."""
    if audit.cost is not None:
        cost = audit.cost
        ends = "" if cost.low is None or cost.high is None else f"{short_number(cost.low)} to {short_number(cost.high)}"
        return what_it_costs(short_number(cost), "per person", ends)
    question, accuracy = "How often is it right?", audit.accuracy
    if accuracy is None:
        return Answer(question, "Accuracy", "Not known", "", _WITHOUT_LABELS)
    return Answer(question, "Accuracy", points(accuracy), "%", f"could be {interval(accuracy)}")


def _accepted_answer(audit: Audit, asked: Outcomes, accepted: str) -> Answer:
    """The share accepted of each group, the extremes where there are many."""
    groups, shares, _ = accepted_shares(audit, asked)
    order = sorted(range(len(groups)), key=lambda at: shares[at])
    if len(order) > 4:
        order = [order[0], order[1], order[-2], order[-1]]
    names = group_names(groups, 24)
    named = [f"{names[at]} {points(float(shares[at]), 0)} %" for at in order]
    more = f" ({counted(len(groups) - 4, 'group')} between)" if len(groups) > 4 else ""
    figure = "" if audit.accepted is None else f"{points(audit.accepted, 0)} %"
    return Answer(f"Who is {accepted}?", accepted.capitalize(), figure, "", f"{', '.join(named)}{more}")


def _site_tables(telling: Mapping[str, Audit], places: Places) -> Iterator[Table]:
    """Every site with the gap of every rate, what it shows beyond chance, and its people."""
    first = next(iter(telling.values()))
    columns: list[Column[Gap] | None] = [
        (places.word, "l", lambda gap: name_of(gap.site)),
        ("gap", "r", lambda gap: in_points(gap.value)),
        ("could be", "r", lambda gap: interval(gap.value)),
        ("between", "l", lambda gap: _between(gap, first.local.groups, 30)),
        ("people", "r", lambda gap: number(None if gap.value is None else gap.value.rows)),
        ("shown", "l", _found_gap),
    ]
    for audit in telling.values():
        for at, rate in enumerate(audit.local.rates):
            gaps = [audit.local.gap(at, place) for place in range(len(audit.sites))]
            yield table_of(f"Gap in {rate.name}, points", columns, gaps, search=f"Find a {places.word}")
