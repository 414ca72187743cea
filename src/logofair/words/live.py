"""What a live page says of a setting beside its verdict: what is compared, what to know, and what a hand has made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from logofair.auditing import Comparison
from logofair.columns.checks import Floats, Label
from logofair.notions import Notion
from logofair.outcomes import Outcomes
from logofair.solvers.certificate import Certificate
from logofair.words.answers import accepted_shares, base_rates_differ
from logofair.words.limits import Places, figure, limit, subject, unit_of
from logofair.words.phrases import NOTHING, counted, group_name, in_objective, listed, name_of, points, short_number

_NO_LOSS = 5e-6  # of accuracy or cost, which no page would show
_NOBODY = 0.5  # of a person


def notion_words(notion: Notion) -> str:
    """Return what a notion asks for."""
    return f"equal {listed(f'{rate.name}s' for rate in notion.rates)}"


def compared_lines(found: Comparison, judged: Outcomes, changed: int | None, fewest: int) -> list[dict[str, str]]:
    """Return what is compared of settings, before and now: who is accepted, limits over all, accuracy or cost.

    ``changed``: how many people change side, where that is known; groups of fewer than ``fewest`` are left out.
    """
    lines: list[tuple[str, str, str]] = []
    (groups, before, rows), (_, after, _) = accepted_shares(found.first, judged), accepted_shares(found.second, judged)
    for group, was, now, size in zip(groups, before, after, rows, strict=True):
        if size >= fewest:
            lines.append((f"{group_name(group, 24)} accepted", f"{points(was)} %", f"{points(now)} %"))
    if changed is not None:
        lines.append(("people who change side", "", f"{changed:,}"))
    for each in judged.where(site=None):
        unit = f" {unit_of(each)}".rstrip()
        before_ = NOTHING if each.before is None else f"{figure(each, each.before)}{unit}"
        lines.append((subject(each), before_, f"{figure(each, each.after)}{unit}"))
    first, second = found.first, found.second
    if second.cost is not None:
        lines.append(("cost per person", short_number(first.cost), short_number(second.cost)))
    elif second.accuracy is not None:
        lines.append(("accuracy", f"{points(first.accuracy)} %", f"{points(second.accuracy)} %"))
    return [dict(zip(("name", "before", "now"), line, strict=True)) for line in lines]


def live_warnings(found: Comparison, notion: str, promised: float | None) -> Iterator[str]:
    """Return what to know before a setting is taken for the last word; ``promised``: what an export will certify."""
    differ = base_rates_differ(found.second)
    if differ and notion == "demographic_parity":
        yield f"{differ}: equal selection rates cost accuracy here. Compare equal true positive rates."
    if promised is not None:
        yield (
            f"These limits leave room for chance, which only an export takes: it certifies them for new people at "
            f"{100 * promised:g} %, and costs more than is shown here. Export the report to see its verdict."
        )


def by_hand_sentence(best: Certificate, made: Certificate, exceeded: Outcomes, places: Places) -> str:
    """Return how far a rule made by hand is from the optimum, and the limit that it exceeds most."""
    worse = best.primal - made.primal
    away = f"{in_objective(best.objective, abs(worse), 2)} {'below' if worse > 0 else 'above'} the optimum"
    amount = "as good as the optimum" if abs(worse) < _NO_LOSS else away
    first = min(exceeded, key=lambda each: each.room or 0.0, default=None)
    if first is None:
        limits = "" if made.meets_requirements else " and exceeds a limit"
        return f"Your rule is {amount}{limits or ' and keeps every limit'}."
    return (
        f"Your rule is {amount} and exceeds {counted(len(exceeded), 'limit')}: the {subject(first)}{places.at(first)} "
        f"would be {f'{figure(first, first.after)} {unit_of(first)}'.strip()}, your limit is {limit(first)}."
    )


def who_pays(change: Floats, groups: Sequence[Label], sites: Sequence[Label | None]) -> list[str]:
    """Return whose decisions change, (sites, groups) of people, the most first; without sites they are everyone."""
    places = np.argwhere(np.abs(change) >= _NOBODY).tolist()
    return [
        f"{abs(change[site, group]):,.0f} {'more' if change[site, group] > 0 else 'fewer'} "
        f"{group_name(groups[group], 24)}{f' at {name_of(sites[site], 24)}' if sites else ''} are accepted."
        for site, group in sorted(places, key=lambda place: -abs(change[tuple(place)]))
    ]
