"""Rules in words: from which score on people are accepted, at each site and of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np

from logofair.policy.policy import Policy
from logofair.policy.rules import Band, bands_of
from logofair.words.phrases import columns_text, counted, name_of
from logofair.words.sections import CellText, Paragraph, Part, Table

_FEW_SITES = 5  # whose rules are listed one by one on the first screen
_UNUSUAL = 3
_GROUPS = 4  # columns


def accepted_from(bands: Sequence[Band]) -> str:
    """Return from which score on a rule accepts, in the scores of the user's files.

    Examples
    --------
    >>> accepted_from([Band(0, 0.4, 0.0, 0, 0.4), Band(0.4, 0.5, 0.25, 0.4, 0.5), Band(0.5, 1, 1.0, 0.5, 1)])
    '0.4–0.5 coin'
    """
    bands = _noticeable(bands)
    if len(bands) == 1:
        chance = bands[0].chance
        return "nobody" if chance == 0.0 else "everybody" if chance == 1.0 else f"{_percent(chance)} coin"
    chances = [band.chance for band in bands]
    rising = all(here <= there for here, there in pairwise(chances))
    if not rising or chances[-1] < 1.0 or chances[0] > 0.0:
        return "mixed" if len(bands) > 2 else f"below {_edges(bands)[0]}"
    edges = list(dict.fromkeys(_edges(bands)))
    coin = "" if len(bands) == 2 else " coin"
    return f"{edges[0]}{coin}" if len(edges) == 1 else f"{edges[0]}–{edges[-1]}{coin}"


def _noticeable(bands: Sequence[Band]) -> list[Band]:
    """The bands with chances that nobody would notice taken for none or all."""
    found: list[Band] = []
    for band in bands:
        chance = 0.0 if band.chance < 0.001 else 1.0 if band.chance > 0.999 else band.chance
        same = bool(found) and found[-1].chance == chance
        first = found.pop() if same else band
        found.append(replace(first, high=band.high, raw_high=band.raw_high, chance=chance))
    return found


def _edges(bands: Sequence[Band]) -> list[str]:
    """The scores between bands, with as many digits as it takes to tell them apart, three at least.

    A band may be one score alone, up to the next number there is: both its ends are then written alike.
    """
    values = [band.raw_high for band in bands[:-1]]
    different = {round(value, 12) for value in values}
    digits = next((d for d in range(3, 13) if len({f"{value:.{d}g}" for value in different}) == len(different)), 13)
    return [f"{value:.{digits}g}" for value in values]


def _percent(chance: float) -> str:
    percent = 100 * chance
    if percent < 0.05 or percent > 99.95:
        return "fewer than 0.1 %" if percent < 50 else "more than 99.9 %"
    return f"{percent:.0f} %" if 1 <= percent <= 99 else f"{percent:.1f} %"


def rule_in_words(bands: Sequence[Band], accepted: str = "accepted") -> str:
    """Say a rule in one sentence, from the highest scores down, in the scores of the user's files.

    Examples
    --------
    >>> rule_in_words([Band(0, 0.3, 0.0, 0, 0.3), Band(0.3, 0.5, 0.25, 0.3, 0.5), Band(0.5, 1, 1.0, 0.5, 1)])
    'accepted from 0.5; a coin accepts 25 % from 0.3 to 0.5; rejected below 0.3'
    """
    if len(bands) == 1:
        return f"{_fate(bands[0].chance, accepted)}, whatever the score"
    edges = _edges(bands)
    above = "above" if len(edges) > 1 and edges[-1] == edges[-2] else "from"
    parts = [f"{_fate(bands[-1].chance, accepted)} {above} {edges[-1]}"]
    for place in range(len(bands) - 2, 0, -1):
        low, high = edges[place - 1], edges[place]
        where = f"at {low}" if low == high else f"from {low} to {high}"
        parts.append(f"{_fate(bands[place].chance, accepted)} {where}")
    return "; ".join([*parts, f"{_fate(bands[0].chance, accepted)} below {edges[0]}"])


def _fate(chance: float, accepted: str) -> str:
    if chance in (0.0, 1.0):
        return accepted if chance else f"not {accepted}" if accepted != "accepted" else "rejected"
    return f"a coin accepts {_percent(chance)}"


def rules_table(policy: Policy, sites: Sequence[int], groups: Sequence[int], word: str) -> Table:
    """Return the rules of a few sites one by one, of many the range and the most unusual ones."""
    shown, more = list(groups)[:_GROUPS], len(groups) - _GROUPS
    after = f"{counted(more, 'more group')}: --verbose shows them." if more > 0 else ""
    named = policy.has_sites or policy.site is not None
    head = ("accepted from a score of", *(name_of(policy.groups[group], 16) for group in shown))
    if len(sites) <= _FEW_SITES:
        lines = [_line(policy, site, shown, named) for site in sites]
        return Table("The rules", head, tuple(lines), "l" + "r" * len(shown), after=after)
    middles = np.array([[_middle(policy, site, group) for group in shown] for site in sites])
    typical = np.nanmedian(middles, axis=0)
    unusual = np.nanmax(np.abs(middles - typical), axis=1, initial=0.0)
    order = np.argsort(-np.nan_to_num(unusual), kind="stable")[:_UNUSUAL]
    span: tuple[CellText, ...] = (
        f"{counted(len(sites), word)}, lowest to highest",
        *(
            f"{low:.3g}–{high:.3g}"
            for low, high in zip(np.nanmin(middles, axis=0), np.nanmax(middles, axis=0), strict=True)
        ),
    )
    usual: tuple[CellText, ...] = (f"the {word} in the middle", *(f"{each:.3g}" for each in typical.tolist()))
    lines = [span, usual, *(_line(policy, sites[place], shown, named) for place in order.tolist())]
    after = f"The last {len(order)} are the most unusual; --only-site NAME shows one {word}. {after}".strip()
    return Table("The rules", head, tuple(lines), "l" + "r" * len(shown), after=after)


def _middle(policy: Policy, site: int, group: int) -> float:
    """Where a rule turns from rejecting to accepting; NaN where it never does."""
    bands = bands_of(policy, site, group)
    chances = [band.chance for band in bands]
    return (
        bands[int(np.argmax(np.array(chances) >= 0.5))].raw_low if min(chances) < 0.5 <= max(chances) else float("nan")
    )


def _line(policy: Policy, site: int, groups: Sequence[int], named: bool) -> tuple[CellText, ...]:
    name = name_of(policy.sites[site], 30) if named else "everybody"
    return name, *(accepted_from(bands_of(policy, site, group)) for group in groups)


def every_rule(policy: Policy, sites: Sequence[int], groups: Sequence[int], accepted: str = "accepted") -> list[Part]:
    """Return all rules as sentences, and those for sites that the policy does not know."""
    named = policy.has_sites or policy.site is not None
    places = [(site, group) for site in sites for group in groups]
    lines: list[tuple[CellText, ...]] = []
    for site, group in places:
        small = " (too few people to say: the merged rule)" if str(policy.groups[group]) in policy.too_small else ""
        where = [name_of(policy.sites[site])] if named else []
        lines.append(
            (*where, name_of(policy.groups[group]), rule_in_words(bands_of(policy, site, group), accepted) + small)
        )
    head = (*(["site"] if named else []), "group", "rule")
    parts: list[Part] = [Table("Every rule", head, tuple(lines), "l" * len(head), "Find a site or a group")]
    if policy.has_sites and policy.has_merged:
        merged = tuple((name_of(policy.groups[g]), rule_in_words(bands_of(policy, -1, g), accepted)) for g in groups)
        parts.append(
            Table("Sites that the policy does not know (--on-unknown merged)", ("group", "rule"), merged, "ll")
        )
    return parts


def coins_sentence(share: float | None, blind: int | None, rules: int) -> Paragraph | None:
    """Return how many people a coin decides on, and how many rules ignore the score."""
    if share is None:
        return None
    tossed = f"A coin decides on {_percent(share)} of the people" if share else "No rule tosses a coin"
    ignored = f"; {blind:,} of {counted(rules, 'rule')} ignore the score" if blind else ""
    return Paragraph(f"{tossed}{ignored}.")


def rules_text(policy: Policy, most: int = 20) -> str:
    """Return the first rules as text, a line for each site and group."""
    named = policy.has_sites or policy.site is not None
    lines = [[*(["site"] if named else []), "group", "rule"]]
    for row in islice(policy.rules, most):
        small = " (too few people to say)" if row.too_small else ""
        where = [name_of(row.site, 30)] if named else []
        lines.append([*where, name_of(row.group, 30), rule_in_words(row.bands) + small])
    more = [f"... and {len(policy.rules) - most:,} more"] if len(policy.rules) > most else []
    return "\n".join([*columns_text(lines, "l" * len(lines[0])), *more])
