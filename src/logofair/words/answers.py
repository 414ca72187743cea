"""The answers to three questions: is it fair now; what does it cost, and who is affected; can I rely on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.measure import Measured, Tally
from logofair.columns.attributes import Attributes
from logofair.columns.checks import Floats, Label
from logofair.outcomes import EXCEEDED, FEW_ROWS, MET, NOT_MEASURED, TEST_ROWS, UNCLEAR, Outcome, Outcomes
from logofair.requirement import ALL
from logofair.words.limits import (
    Places,
    certified_places,
    figure,
    headline,
    limit,
    limit_words,
    shown_to_hold,
    subject,
    unit_of,
)
from logofair.words.phrases import (
    NOTHING,
    capitalised,
    counted,
    fitting,
    group_names,
    listed,
    names_of,
    people,
    points,
    short_number,
    span,
)
from logofair.words.sections import Answer, Cell, CellText, Table, can_rely, in_points, number, what_it_costs

GUARANTEED = "find limits that this many people can guarantee"
_GROUPS = 4  # named in a line
_LISTED = 105  # columns for them
_BASE_RATES_DIFFER = 0.15
_TABLE_GROUPS = 6  # in the first screen's table


def fair_answer(judged: Outcomes, places: Places) -> Answer:
    """Return the first tile: the figure told first, before and after, and its limit."""
    question = "Is it fair now?"
    first = headline(judged)
    if first is None:
        return Answer(question, "", "Nothing required" if not len(judged) else "Not measured")
    now = figure(first, first.after)
    change = now if first.before is None else f"{figure(first, first.before)} -> {now}"
    where = f", {places.name(first)}" if places.several else ""
    unit = ", ".join(part for part in (unit_of(first), f"limit {limit(first)}") if part)
    return Answer(question, "", change, unit, f"{subject(first)}{where}")


def cost_answer(found: Comparison, *, expected: bool = False) -> Answer:
    """Return what it costs: accuracy, or cost per person, before and after, with the interval of the difference.

    ``expected``: by predicted probabilities, for want of labels.
    """
    if found.cost is not None:
        change, shown, unit, more, less = found.cost, short_number, "per person", "more", "less"
        before, after = found.first.cost, found.second.cost
    elif found.accuracy is not None:
        change, shown, unit, more, less = found.accuracy, points, "% accuracy", "points won", "points lost"
        before, after = found.first.accuracy, found.second.accuracy
    else:
        return what_it_costs("Not known", detail="there are no labels to tell right from wrong")
    # The interval where it leaves no doubt about the sign, else that it may be either.
    low, high = (change, change) if change.low is None or change.high is None else (change.low, change.high)
    if low < 0 < high:
        detail = f"could be {shown(-low)} {less} or {shown(high)} {more}"
    else:
        first, last = map(shown, sorted((abs(low), abs(high))))
        detail = f"could be {first} to {last}" if first != last else first
        detail += f" {more if low >= 0 else less}"
    if {shown(low), shown(high)} == {shown(0.0)}:
        detail = "no change"
    if expected and found.cost is None:
        detail += ", expected: there are no labels to count with"
    return what_it_costs(f"{shown(before)} -> {shown(after)}", unit, detail)


def left_out_sentence(number: int, leave: str) -> str:
    """Return what cannot be known of people without a label, and which notion can still be judged."""
    known = f"{number:,} people were left out; rates of right and wrong are of the others alone"
    return f"{known}. If only accepted people have a label, {leave}: selection needs none."


def interval(found: Measured | None) -> str:
    """Return from where to where a share or a gap could lie, in points; what is not nothing is not shown as 0."""
    return NOTHING if found is None else span(found.low, found.high, apart=0.0)


def shares_accepted(tally: Tally) -> Floats:
    """Return the share accepted of every group at every place of a tally; 0 where nobody is."""
    mass, accepted = tally.mass.sum(axis=-1), tally.accepted.sum(axis=-1)
    return np.asarray(np.divide(accepted, mass, out=np.zeros_like(mass), where=mass > 0))


def accepted_shares(audit: Audit, asked: Outcomes) -> tuple[tuple[Label, ...], Floats, Floats]:
    """Return the groups, the share accepted of each over all sites, and how many people it has.

    Of several attributes they are the groups of each, or the intersections where those asked for compare some.
    """
    side = audit.global_
    together = any(each.requirement.by == ALL or len(each.requirement.by) > 1 for each in asked)
    groups, tally = (audit.groups, side.tally) if together else (side.groups, side.counted)
    return groups, shares_accepted(tally)[0], tally.rows[0].sum(axis=1).astype(np.float64)


def selected_answer(found: Comparison, asked: Outcomes, accepted: str) -> Answer:
    """Return whose decisions change: the share accepted of each group before and after, the most changed first."""
    (groups, before, rows), (_, after, _) = accepted_shares(found.first, asked), accepted_shares(found.second, asked)
    order = np.argsort(-np.abs(after - before), kind="stable") if rows.size > _GROUPS else np.arange(rows.size)
    names = group_names(groups, 24)
    named = [f"{names[at]} {points(before[at], 0)} -> {points(after[at], 0)} %" for at in order.tolist()]
    listing = listed(named, fitting(named, _LISTED) if rows.size <= _GROUPS else 1, last=", ")
    return Answer("", accepted.capitalize(), listing, "", _changed(found))


def changes_table(found: Comparison, asked: Outcomes, accepted: str) -> Table:
    """Return how many of each group are accepted before and after."""
    (groups, before, rows), (_, after, _) = accepted_shares(found.first, asked), accepted_shares(found.second, asked)
    order = np.argsort(-np.abs((after - before) * rows), kind="stable")[:_TABLE_GROUPS]
    names = names_of(groups, 30)

    def line(at: int) -> tuple[CellText, ...]:
        was, now = round(before[at] * rows[at]), round(after[at] * rows[at])
        change = f"{now - was:+,}".replace("-", "−") if now != was else "0"
        return names[at], f"{was:,} of {rows[at]:,.0f}", f"{now:,}", Cell(change, now - was)

    lines = tuple(line(at) for at in sorted(order.tolist()))
    more = [f"{rows.size - len(lines):,} more groups change less."] if rows.size > len(lines) else []
    more += [f"{capitalised(_changed(found))}, both ways."] if found.changed is not None else []
    return Table(
        f"How many are {accepted}", ("", f"{accepted} before", "after", "change"), lines, "lrrr", after=" ".join(more)
    )


def _changed(found: Comparison) -> str:
    """How many decisions change."""
    rows = found.second.global_.tally.rows.sum()
    if found.changed is None:
        return ""
    number = found.changed * rows  # expected over coins, where there are any
    about = "" if abs(number - round(number)) < 1e-6 * max(rows, 1) else "about "
    return f"{about}{number:,.0f} of {counted(rows, 'decision')} change"


def rates_table(audits: Sequence[tuple[str, Audit]], caption: str) -> Table:
    """Return every rate of every group over all sites, under each of some rules, with interval and people."""
    last = audits[-1][1]
    names = dict(zip(last.global_.groups, names_of(last.global_.groups, 30), strict=True))
    measured = [
        (f"{rate}, {names[group]}", [audit.rates[rate][group] for _, audit in audits])
        for rate, row in last.rates.items()
        for group in row
    ]
    totals = ("accuracy", [audit.accuracy for _, audit in audits]), ("accepted", [each.accepted for _, each in audits])
    measured += [(name, figures) for name, figures in totals if any(each is not None for each in figures)]
    lines: list[tuple[CellText, ...]] = []
    for name, figures in measured:
        now = figures[-1]
        people_ = number(None if now is None else now.rows)
        lines.append((name, *map(in_points, figures), interval(now), people_))
    head = ("%", *(name for name, _ in audits), "95 % interval", "people")
    search = "Find a rate or a group" if len(lines) > 12 else None
    return Table(caption, head, tuple(lines), "l" + "r" * (len(head) - 1), search)


def base_rates_differ(audit: Audit) -> str:
    """Return that labels differ much between groups of 30 people or more, with the extremes; else nothing."""
    tally = audit.global_.tally
    mass, rows = tally.mass[0], tally.rows[0].sum(axis=1)
    total = mass.sum(axis=1)
    known = [
        (float(mass[at, 1] / total[at]), name)
        for at, name in enumerate(group_names(audit.groups, 24))
        if tally.labelled and rows[at] >= FEW_ROWS and total[at] > 0
    ]
    (least, low), (most, high) = min(known, default=(0.0, "")), max(known, default=(0.0, ""))
    differ = most - least >= _BASE_RATES_DIFFER
    return f"Labels differ ({low} {points(least, 0)} %, {high} {points(most, 0)} %)" if differ else ""


def people_of(found: Comparison) -> int:
    """Return how many people were measured: ids where there are any, else rows."""
    return int(found.second.global_.tally.people[..., -1].sum())


def rely_answer(outcomes: Outcomes, places: Places, how: str, found: Comparison | None = None) -> Answer:
    """Return the third tile: on what the verdict rests, and what it would take; ``found``: measured on other people."""
    evidence = outcomes.evidence
    tested = "" if found is None else f"tested on {counted(people_of(found), 'other')}"
    if not len(outcomes):
        return can_rely("Nothing required", tested)
    if not len(evidence):
        return can_rely("Not known", tested or f"not tested on other people; {how}")
    proved = certified_places(outcomes, places)
    if outcomes.verdict == EXCEEDED:
        where = list(dict.fromkeys(places.name(each, 24) for each in evidence.where(state=EXCEEDED)))
        return can_rely("No", f"over the limit at {listed(where, 3)}, which chance does not explain", proved)
    local = {each.site for each in evidence if each.site is not None}
    small = {each.site for each in evidence if each.is_small_site or each.state == NOT_MEASURED} - {None}
    if outcomes.verdict == MET:
        judged = f"at {len(local - small):,} of {counted(len(local), places.word)}" if local else ""
        few = f"{len(small):,} too small to judge" if small else ""
        return can_rely("Yes", " ".join(filter(None, (tested, judged))), proved, few)
    return can_rely("Not yet", _it_takes(evidence, places, found) or (f"{tested}, too few" if tested else how), proved)


def _it_takes(evidence: Outcomes, places: Places, found: Comparison | None) -> str:
    """How many people there are, which limit they show, and how many the one asked for takes; then for sites."""
    unclear = [each for each in evidence if each.state == UNCLEAR and not each.is_small_site and each.rows]
    first = min((each for each in unclear if each.site is None), key=lambda each: each.room or 0.0, default=None)
    local = [each for each in unclear if each.site is not None and _needed(each)]
    nearest = min(local, key=lambda each: _needed(each) / (each.rows or 1), default=None)
    sentences = [] if first is None else [_people_for(first, "the smallest group", places, found)]
    if nearest is not None and len(local) > 1 and _needed(nearest) > (nearest.rows or 0):
        some = any(each.site is not None and each.state == MET for each in evidence)
        sites = len({each.site for each in local})
        few = f"{counted(sites, places.word)} have too few" if some else f"no {places.word} has enough"
        tested = " tested" if nearest.basis == TEST_ROWS else ""
        sentences.append(f"{few}{tested} for {limit_words(nearest, nearest.limit)}")
    if nearest is not None and first is None:
        who = f"{places.name(nearest, 24)} comes nearest: its smallest group"
        sentences.append(_people_for(nearest, who, places, found))
    return ". ".join(capitalised(each) if at else each for at, each in enumerate(sentences))


def _needed(each: Outcome) -> int:
    """How many people it takes to check a limit, or to certify it; 0: not known."""
    return each.rows_to_check or each.rows_needed or 0


def _smallest_group(each: Outcome, found: Comparison | None) -> str:
    """The name of the group whose people are the fewest behind an outcome; empty where that is not known."""
    if found is None or each.requirement.measure not in ("gap", "ratio") or len(each.groups) < 2:
        return ""
    side = found.second.global_ if each.site is None else found.second.local
    rates = [rate for rate in each.requirement.rates if each.rate in (None, rate.name)]
    groups, place = Attributes(found.second.groups).parted(each.requirement.by or ALL)
    tally = side.tally.gathered(place.tolist(), len(groups))
    rows = tally.rows_behind(rates[0])[side.sites.index(each.site)].tolist()
    return next((name for name, own in zip(group_names(groups, 24), rows, strict=True) if own == each.rows), "")


def _people_for(each: Outcome, who: str, places: Places, found: Comparison | None) -> str:
    """How many people a group has, the tightest limit that they show, and how many the limit takes."""
    who += " tested" if each.basis == TEST_ROWS else ""
    number = " with ".join(filter(None, (f"{each.rows:,}", places.who_counts(each))))
    name = _smallest_group(each, found)
    has = f"{who} is {name} ({number})" if name else f"{who} has {number}"
    if each.requirement.measure == "accepted" or each.requirement.is_loss:
        has = f"{people(each.rows or 0)} were measured"
    needed, asked = _needed(each), limit_words(each, each.limit)
    if not needed:
        return f"{has}, and chance may explain that the limit is exceeded" if (each.room or 0.0) < 0 else has
    if needed <= (each.rows or 0):
        return f"{has}, enough for {asked}, but the figure is too close to it"
    if shown := shown_to_hold(each):
        has += f", enough to show {shown}"
    return f"{has}; {asked} would take about {float(f'{needed:.2g}'):,.0f} of them"
