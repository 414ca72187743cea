"""The page of decisions on new rows: how many were accepted, of which groups, and what to be careful with."""

from __future__ import annotations

from collections.abc import Iterator

from logofair.policy.deciding import DecisionCounts
from logofair.words.phrases import counted, listed, name_of, people, points
from logofair.words.sections import Answer, Page

_GROUPS = 6


def applied_page(
    totals: DecisionCounts, out: str, *, by_position: bool, site: str | None = None, site_checked: bool = True
) -> Page:
    """Return the page of ``logofair apply``; ``site`` is a federated policy's own."""
    left_out = f" ({totals.dropped:,} rows left out for lack of a value)" if totals.dropped else ""
    title = f"{out}: {people(totals.rows)}{left_out}, {points(totals.accepted / totals.rows, 0)} % accepted."
    groups = [
        f"{name_of(name, 24)} {points(accepted / rows, 0)} % of {rows:,}" for name, rows, accepted in totals.by_group()
    ]
    answers = (Answer("Who is accepted?", "Accepted", listed(groups, _GROUPS, last=", ")),)
    warnings = tuple(_cautions(totals, by_position, site, site_checked))
    values = {"out": out, **totals.as_dict(), "coins_by_position": by_position}
    values |= {} if site is None else {"site": site, "site_checked": site_checked}
    return Page("Decisions", title, answers=answers, warnings=warnings, written=(out,), values=values)


def _cautions(totals: DecisionCounts, by_position: bool, site: str | None, site_checked: bool) -> Iterator[str]:
    if site is not None and not site_checked:
        yield f"Rows without a site count as those of {name_of(site)}; --site COLUMN checks them."
    if totals.unknown:
        yield f"{counted(totals.unknown, 'row')} of sites or groups the policy does not know, decided by --on-unknown."
    if totals.repeated:
        same = "each is decided by itself" if totals.excess is not None else "one coin per person, site and group"
        yield f"{counted(totals.repeated, 'row')} with an id that was met before: {same}."
    if totals.excess is not None:
        yield (
            f"{totals.accepted:,} accepted where chances sum to {totals.summed_chances:,.2f}. A decision depends on "
            "who else is in these files; other files may not keep a limit on how many are accepted."
        )
    if by_position:
        yield "Some rules toss a coin, here by the row's place in the file. Add --id: a person then keeps a decision."
