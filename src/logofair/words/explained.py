"""Policies: what one was made for and is known to do, whom it accepts in words, and the page of its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from logofair import records
from logofair.fitting.solution import STORED_OUTCOMES
from logofair.outcomes import MET
from logofair.policy.deciding import DecisionCounts
from logofair.policy.policy import Policy
from logofair.policy.rules import Band, RuleRow, bands_of
from logofair.words.about import About, groups_listed, site_word, sources_section
from logofair.words.answers import rely_answer
from logofair.words.limits import Places, limit_tables, limits_table, shown_outcomes, verdict
from logofair.words.phrases import counted, group_names, listed, name_of, names_of, people, points, width
from logofair.words.proof import pooling_sentence, proof_sentences
from logofair.words.sections import (
    Answer,
    Bullets,
    CellText,
    Column,
    Page,
    Paragraph,
    Part,
    Section,
    Table,
    can_rely,
    table_of,
)

_HOW = "logofair audit FILE --policy POLICY measures it on other people"
_FEW_SITES = 5  # whose rules are listed one by one on the first screen
_UNUSUAL = 2
_COLUMNS = 4  # of groups
_SCREEN, _FIRST_COLUMN = 80, 24  # characters that the table may be wide, and that its first column takes at least
_GROUPS = 6  # named in a line
_UNCUT = 10_000  # columns, which no rule needs


def policy_page(
    policy: Policy,
    name: str = "This policy",
    sites: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    *,
    only: bool = False,
    apply: str = "",
    audit: str = "",
) -> Page:
    """Return the page of a policy, or of the rules at some of its sites and of some groups alone.

    What comes next: ``apply`` where its limits are met, ``audit`` of more people where that is not known.
    """
    sites = list(range(len(policy.sites))) if sites is None else list(sites)
    groups = list(range(len(policy.groups))) if groups is None else list(groups)
    info, word = policy.info, site_word(None if policy.info.columns is None else policy.info.columns.site)
    made = [] if info.rows is None else [f"made from {people(info.rows)}"]
    made += [f"of {info.data.name}"] if info.data is not None else []
    if policy.site is not None:
        made.append(f"of site {name_of(policy.site)} alone")
    elif policy.has_sites:
        made.append(f"at {counted(len(policy.sites), word)}")
    title = f"{name}{': ' if made else ''}{' '.join(made)}, for {groups_listed([policy.groups[at] for at in groups])}."
    values, table = _policy_values(policy, sites, groups), _rules_table(policy, sites, groups, word)
    rules = Section("rules", "Every rule", tuple(every_rule(policy, sites, groups)))
    if only:
        return Page("Policy", title, table=table, sections=(rules,), values=values)
    outcomes, places = info.outcomes, Places(word, several=policy.has_sites)
    limits = limits_table(shown_outcomes(outcomes), places, 2)
    if limits is not None and len(policy.sites) > STORED_OUTCOMES:
        stored = f"{STORED_OUTCOMES} of {counted(len(policy.sites), word)} are stored here: those that tell most."
        limits = replace(limits, after=stored)
    return Page(
        "Policy",
        title,
        verdict=verdict(outcomes, places, _HOW),
        table=limits,
        answers=tuple(_answers(policy, places)),
        more=table,
        warnings=() if info.note is None else (info.note,),
        next=apply if outcomes.verdict == MET or not (len(outcomes) or info.requirements.require) else audit,
        next_tells="" if outcomes.verdict == MET else "measure it on more people",
        sections=tuple(_sections(policy, rules, places)),
        values=values,
    )


def _answers(policy: Policy, places: Places) -> Iterator[Answer]:
    """On what its verdict rests, what it is worth on the rows it was made from, and what it does at its own site."""
    info, proof, figures = policy.info, policy.info.certificate, policy.info.site_figures
    if not len(info.outcomes) and info.requirements.require:
        yield can_rely("Not known", f"not tested on other people; {_HOW}")
    else:
        yield rely_answer(info.outcomes, places, _HOW)
    if proof is not None and proof.objective == "accuracy":
        run = info.federation
        where = "on the rows of the fit" if run is None else f"over the rows of {counted(run.sites, 'site')}"
        yield Answer("How often is it right?", "Accuracy", points(proof.primal), "%", f"expected {where}")
    if figures is None:
        return
    here = [] if figures.accuracy is None else [f"accuracy {points(figures.accuracy)} %"]
    here += [f"gap in {rate} {points(gap)}" for rate, gap in figures.local_gaps.items()]
    if here:
        yield Answer("", "Here", ", ".join(here))
    names = group_names(list(figures.accepted), 20)
    accepted = [f"{name} {points(share, 0)} %" for name, share in zip(names, figures.accepted.values(), strict=True)]
    yield Answer("", "Accepted", listed(accepted, 4, ", "), "", "expected at this site")
    if figures.too_small:
        few = f"fewer than {figures.smallest_cell} people here: the rule of all sites applies"
        yield Answer("", "Too few", listed(figures.too_small, 4), "", few)


def _sections(policy: Policy, rules: Section, places: Places) -> Iterator[Section]:
    info, run = policy.info, policy.info.federation
    if limits := tuple(limit_tables(info.outcomes, places)):
        yield Section("fair", "Is it fair?", limits)
    elif info.requirements.require:
        yield Section("fair", "What was required", (Bullets(tuple(map(str, info.requirements.require))),))
    yield rules
    parts: list[Part] = []
    if info.certificate is not None:
        rows = "the rows of the fit" if info.rows is None else f"the {counted(info.rows, 'row')} of the fit"
        rows = rows if run is None else f"the rows of {counted(run.sites, 'site')}"
        how = {"solver": info.solver, "calibration": info.calibration}
        parts.append(Bullets(proof_sentences(info.certificate, rows=rows, sites=policy.has_sites, **how)))
    if info.pooling is not None and (places.several or info.pooling.cells):
        parts.append(Paragraph(pooling_sentence(info.pooling)))
    coins = coins_sentence(info.coin_share, info.score_blind_rules, policy.mixtures.mixed.size)
    parts += [coins] if coins is not None else []
    parts += [Bullets(info.warnings)] if info.warnings else []
    if run is not None:
        gaps = [f"{rate} {points(gap)}" for rate, gap in run.global_gaps.items()]
        parts.append(Paragraph(f"Run {run.run}: {counted(run.sites, 'site')}, {counted(run.rounds, 'round')}."))
        parts += [Paragraph(f"Gaps over all sites, points: {', '.join(gaps)}.")] if gaps else []
    if parts:
        yield Section("proof", "What is proved", tuple(parts))
    facts = [("checksum", policy.checksum), ("calibration", policy.calibrator.method)]
    yield sources_section(About(info.data), facts)


def _policy_values(policy: Policy, sites: Sequence[int], groups: Sequence[int]) -> dict[str, Any]:
    """Return a policy as plain values: what it says of itself, and every rule as bands of scores."""
    known = _rules(policy, sites, groups)
    merged = _rules(policy, [-1], groups) if policy.has_merged and len(sites) == len(policy.sites) else []
    rules = [
        {
            "site": row.site,
            "unknown_sites": unknown,
            "group": row.group,
            "too_small": row.too_small,
            "words": rule_in_words(row.bands),
            "bands": row.bands,
        }
        for rows, unknown in ((known, False), (merged, True))
        for row in rows
    ]
    values = {"outcomes": policy.info.outcomes, "info": records.plain(policy.info)}
    plain: dict[str, Any] = records.for_json(values | {"calibration": policy.calibrator.method, "rules": rules})
    return plain


def _rules(policy: Policy, sites: Sequence[int], groups: Sequence[int]) -> list[RuleRow]:
    """The rules of some groups at some sites; site -1 stands for those that the policy does not know."""
    return [policy.rules.of(site, group) for site in sites for group in groups]


def _accepted_from(bands: Sequence[Band]) -> str:
    """Return from which score on a rule accepts, in the scores of the user's files.

    Examples
    --------
    >>> _accepted_from([Band(0, 0.4, 0.0, 0, 0.4), Band(0.4, 0.5, 0.25, 0.4, 0.5), Band(0.5, 1, 1.0, 0.5, 1)])
    '0.4–0.5 coin'
    """
    found: list[Band] = []  # with chances that nobody would notice taken for none or all
    for band in bands:
        chance = 0.0 if band.chance < 0.001 else 1.0 if band.chance > 0.999 else band.chance
        first = found.pop() if found and found[-1].chance == chance else band
        found.append(replace(first, high=band.high, raw_high=band.raw_high, chance=chance))
    chances = [band.chance for band in found]
    if len(found) == 1:
        chance = chances[0]
        return "nobody" if chance == 0.0 else "everybody" if chance == 1.0 else f"{_percent(chance)} coin"
    rising = all(here <= there for here, there in pairwise(chances))
    if not rising or chances[-1] < 1.0 or chances[0] > 0.0:
        return "mixed" if len(found) > 2 else f"below {_edges(found)[0]}"
    edges = list(dict.fromkeys(_edges(found)))
    coin = "" if len(found) == 2 else " coin"
    return f"{edges[0]}{coin}" if len(edges) == 1 else f"{edges[0]}–{edges[-1]}{coin}"


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


def _rules_table(policy: Policy, sites: Sequence[int], groups: Sequence[int], word: str) -> Table:
    """Return the rules of a few sites one by one, of many the range and the most unusual ones."""
    columns, after = list(groups)[:_COLUMNS], ""
    lines: list[tuple[CellText, ...]] = []
    shown = list(sites)
    if len(sites) > _FEW_SITES:
        middles = np.array([[_middle(bands_of(policy, site, group)) for group in columns] for site in sites])
        typical, low, high = (of(middles, axis=0) for of in (np.nanmedian, np.nanmin, np.nanmax))
        ranges = (f"{first:.3g}–{last:.3g}" for first, last in zip(low, high, strict=True))
        lines.append((f"lowest to highest of {len(sites):,}", *ranges))
        lines.append(("in the middle", *(f"{each:.3g}" for each in typical.tolist())))
        unusual = np.nanmax(np.abs(middles - typical), axis=1, initial=0.0)
        shown = [sites[at] for at in np.argsort(-np.nan_to_num(unusual), kind="stable")[:_UNUSUAL].tolist()]
        after = f"The last {len(shown)} are the most unusual; --only-site NAME shows one {word}."
    for site in shown:
        name = name_of(policy.sites[site], 30) if _named(policy) else "everybody"
        lines.append((name, *(_accepted_from(bands_of(policy, site, group)) for group in columns)))
    after = f"{after} {looking_away(policy)}".strip()
    head = ("accepted from a score of", *names_of([policy.groups[group] for group in columns], 16))
    widths = [2 + max(width(str(line[at])) for line in (head, *lines)) for at in range(1, len(head))]
    fitting = next((n for n in range(len(widths), 1, -1) if _FIRST_COLUMN + sum(widths[:n]) <= _SCREEN), 1)
    if len(groups) > fitting:
        more = counted(len(groups) - fitting, "more group")
        if len(sites) > _FEW_SITES and not policy.looks_away:  # one line
            after = f"The last {len(shown)} are the most unusual; --verbose shows all, and {more}."
        else:
            after = f"{after} {more}: --verbose shows them.".strip()
    cut = tuple(line[: 1 + fitting] for line in lines)
    return Table("The rules", head[: 1 + fitting], cut, "l" + "r" * fitting, after=after)


def looking_away(policy: Policy) -> str:
    """Return what rules that may not look go by in place of the group; nothing of other rules."""
    if not policy.looks_away:
        return ""
    columns = () if policy.info.columns is None else policy.info.columns.group_probability
    named = f" ({listed([column for _, column in columns], 4, last=', ')})" if columns else ""
    return (
        f"No rule sees a group, only the probability of every group{named}. Scores here are for people surely of one "
        "group, and shift with that probability."
    )


def _named(policy: Policy) -> bool:
    """Whether its rules are of sites, or of one, and not of everybody."""
    return policy.has_sites or policy.site is not None


def _middle(bands: Sequence[Band]) -> float:
    """Where a rule turns from rejecting to accepting; NaN where it never does."""
    chances = np.array([band.chance for band in bands])
    return bands[int(np.argmax(chances >= 0.5))].raw_low if chances.min() < 0.5 <= chances.max() else float("nan")


def every_rule(policy: Policy, sites: Sequence[int], groups: Sequence[int], accepted: str = "accepted") -> list[Part]:
    """Return all rules as sentences, and those for sites that the policy does not know."""
    parts: list[Part] = [Paragraph(looking_away(policy))] if policy.looks_away else []
    parts.append(_rules_listed(policy, _rules(policy, sites, groups), accepted))
    if policy.has_sites and policy.has_merged:
        merged = ((name_of(row.group), rule_in_words(row.bands, accepted)) for row in _rules(policy, [-1], groups))
        unknown = "Sites that the policy does not know (--on-unknown merged)"
        parts.append(Table(unknown, ("group", "rule"), tuple(merged), "ll"))
    return parts


def _rules_listed(policy: Policy, rules: Iterable[RuleRow], accepted: str = "accepted") -> Table:
    """Rules as sentences."""
    small = " (too few people to say: the merged rule)"
    columns: list[Column[RuleRow] | None] = [
        ("site", "l", lambda row: name_of(row.site)) if _named(policy) else None,
        ("group", "l", lambda row: name_of(row.group)),
        ("rule", "l", lambda row: f"{rule_in_words(row.bands, accepted)}{small if row.too_small else ''}"),
    ]
    return table_of("Every rule", columns, rules, search="Find a site or a group")


def coins_sentence(share: float | None, blind: int | None, rules: int) -> Paragraph | None:
    """Return how many people a coin decides on, and how many rules ignore the score."""
    if share is None:
        return None
    tossed = f"A coin decides on {_percent(share)} of the people" if share else "No rule tosses a coin"
    ignored = f"; {blind:,} of {counted(rules, 'rule')} ignore the score" if blind else ""
    return Paragraph(f"{tossed}{ignored}.")


def rules_text(policy: Policy, most: int = 20) -> str:
    """Return the first rules as text, a line for each site and group."""
    lines = _rules_listed(policy, islice(policy.rules, most)).text_lines(_UNCUT)
    more = [f"... and {len(policy.rules) - most:,} more"] if len(policy.rules) > most else []
    return "\n".join([*lines, *more])


def applied_page(
    totals: DecisionCounts,
    out: str,
    *,
    by_position: bool,
    site: str | None = None,
    site_checked: bool = True,
    audit: str = "",
) -> Page:
    """Return the page of ``logofair apply``; ``site``: a federated policy's own, ``audit``: what measures these."""
    left_out = f" ({totals.dropped:,} rows left out for lack of a value)" if totals.dropped else ""
    title = f"{out}: {people(totals.rows)}{left_out}, {points(totals.accepted / totals.rows, 0)} % accepted."
    counts = list(totals.by_group())
    groups = [
        f"{name} {points(accepted / rows, 0)} % of {rows:,}"
        for name, (_, rows, accepted) in zip(group_names([each[0] for each in counts], 24), counts, strict=True)
    ]
    warnings = []
    if site is not None and not site_checked:
        warnings.append(f"Rows without a site count as those of {name_of(site)}; --site COLUMN checks them.")
    if totals.unknown:
        unknown = f"{counted(totals.unknown, 'row')} of sites or groups the policy does not know"
        warnings.append(f"{unknown}, decided by --on-unknown.")
    if totals.repeated:
        same = (
            "each is decided by itself" if totals.summed_chances is not None else "one coin per person, site and group"
        )
        warnings.append(f"{counted(totals.repeated, 'row')} with an id that was met before: {same}.")
    if totals.summed_chances is not None:
        warnings.append(
            f"{totals.accepted:,} accepted where chances sum to {totals.summed_chances:,.2f}. A decision depends on "
            "who else is in these files; other files may not keep a limit on how many are accepted."
        )
    if by_position:
        place = "Some rules toss a coin, here by the row's place in the file"
        warnings.append(f"{place}. Add --id: a person then keeps a decision.")
    return Page(
        "Decisions",
        title,
        answers=(Answer("Who is accepted?", "Accepted", listed(groups, _GROUPS, last=", ")),),
        warnings=tuple(warnings),
        next=audit,
        next_tells="once it is known who was right",
        written=(out,),
        values={"out": out, **totals.as_dict(), "coins_by_position": by_position}
        | ({} if site is None else {"site": site, "site_checked": site_checked}),
    )
