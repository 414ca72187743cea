"""The page of a policy: what it was made for and what is known of it, whom it accepts, and what is proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from logofair import records
from logofair.columns.labels import plain
from logofair.policy.policy import Policy
from logofair.policy.rules import bands_of
from logofair.words.about import About, site_word, sources_section
from logofair.words.fitted import BASES, rely_answer, shown_outcomes
from logofair.words.limits import Places, every_limit, limits_table, verdict
from logofair.words.phrases import counted, listed, name_of, people, points
from logofair.words.proof import pooling_sentence, proof_sentences
from logofair.words.rules import coins_sentence, every_rule, rule_in_words, rules_table
from logofair.words.sections import Answer, Bullets, Page, Paragraph, Part, Section

_HOW = "logofair audit FILE --policy POLICY measures it on other people"


def policy_page(
    policy: Policy,
    name: str = "This policy",
    sites: Sequence[int] | None = None,
    groups: Sequence[int] | None = None,
    *,
    only: bool = False,
    next_: str = "",
) -> Page:
    """Return the page of a policy, or of the rules at some of its sites and of some groups alone.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "b", "a", "b"], calibration="none")
    >>> print(policy_page(solution.policy, only=True).text())
    This policy: made from 4 people, for a and b.
    <BLANKLINE>
    accepted from a score of     a     b
    everybody                  0.5   0.5
    <BLANKLINE>
    """
    sites = list(range(len(policy.sites))) if sites is None else list(sites)
    groups = list(range(len(policy.groups))) if groups is None else list(groups)
    word = site_word(None if policy.info.columns is None else policy.info.columns.site)
    title = f"{name}{_made_from(policy, word)}, for {listed([name_of(policy.groups[g], 24) for g in groups], 6)}."
    values = policy_values(policy, sites, groups)
    if only:
        parts: list[Part] = every_rule(policy, sites, groups)
        table = rules_table(policy, sites, groups, word)
        detail = Section("rules", "Every rule", tuple(parts))
        return Page("Policy", title, table=table, sections=(detail,), next=next_, values=values)
    outcomes, places = policy.info.outcomes, Places(word, several=policy.has_sites)
    judged = shown_outcomes(outcomes)
    rely = rely_answer(outcomes, places, _HOW)
    if not len(outcomes) and policy.info.requirements.require:
        rely = Answer("Can I rely on it?", "Rely on it", "Not known", "", f"not tested on other people; {_HOW}")
    answers = [rely, *_accuracy(policy), *_site_answers(policy)]
    return Page(
        "Policy",
        title,
        verdict=verdict(outcomes, places, _HOW),
        table=limits_table(judged, places, 3),
        answers=tuple(answers),
        more=rules_table(policy, sites, groups, word),
        warnings=() if policy.info.note is None else (policy.info.note,),
        next=next_,
        sections=tuple(_sections(policy, sites, groups, places)),
        values=values,
    )


def _made_from(policy: Policy, word: str) -> str:
    info = policy.info
    parts = [] if info.rows is None else [f"made from {people(info.rows)}"]
    parts += [f"of {info.data.name}"] if info.data is not None else []
    where = f"at {counted(len(policy.sites), word)}" if policy.has_sites else ""
    where = f"of site {name_of(policy.site)} alone" if policy.site is not None else where
    words = " ".join([*parts, *([where] if where else [])])
    return f": {words}" if words else ""


def _accuracy(policy: Policy) -> Iterator[Answer]:
    """What it is worth on the rows it was made from."""
    proof = policy.info.certificate
    if proof is not None and proof.objective == "accuracy":
        run = policy.info.federation
        where = "on the rows of the fit" if run is None else f"over the rows of {counted(run.sites, 'site')}"
        yield Answer("How often is it right?", "Accuracy", points(proof.primal), "%", f"expected {where}")


def _site_answers(policy: Policy) -> Iterator[Answer]:
    """What a federated policy does at its own site."""
    figures = policy.info.site_figures
    if figures is None:
        return
    here = [] if figures.accuracy is None else [f"accuracy {points(figures.accuracy)} %"]
    here += [f"gap in {rate} {points(gap)}" for rate, gap in figures.local_gaps.items()]
    if here:
        yield Answer("", "Here", ", ".join(here))
    accepted = listed(
        [f"{name_of(group, 20)} {points(share, 0)} %" for group, share in figures.accepted.items()], 4, ", "
    )
    yield Answer("", "Accepted", accepted, "", "expected at this site")
    if figures.too_small:
        few = f"fewer than {figures.smallest_cell} people here: the rule of all sites applies"
        yield Answer("", "Too few", listed(figures.too_small, 4), "", few)


def _sections(policy: Policy, sites: Sequence[int], groups: Sequence[int], places: Places) -> Iterator[Section]:
    info, stored = policy.info, policy.info.outcomes
    limits = [
        every_limit(stored.where(basis=basis, requirement=each), places, f"{each}: {BASES[basis]}")
        for basis in dict.fromkeys(each.basis for each in stored)
        for each in stored.where(basis=basis).requirements
    ]
    required = [] if limits or not info.requirements.require else [Bullets(tuple(map(str, info.requirements.require)))]
    if limits or required:
        yield Section("fair", "Is it fair?" if limits else "What was required", (*limits, *required))
    yield Section("rules", "Every rule", tuple(every_rule(policy, sites, groups)))
    parts: list[Part] = []
    if info.certificate is not None:
        run = info.federation
        rows = f"the rows of {counted(run.sites, 'site')}" if run is not None else "the rows of the fit"
        rows = rows if run is not None or info.rows is None else f"the {counted(info.rows, 'row')} of the fit"
        parts.append(
            Bullets(
                proof_sentences(
                    info.certificate,
                    rows=rows,
                    solver=info.solver,
                    calibration=info.calibration,
                    sites=policy.has_sites,
                )
            )
        )
    borrowed = info.pooling is not None and (places.several or info.pooling.cells)
    parts += [Paragraph(pooling_sentence(info.pooling))] if borrowed and info.pooling is not None else []
    coins = coins_sentence(info.coin_share, info.score_blind_rules, len(policy.mixtures.weight))
    parts += [coins] if coins is not None else []
    parts += [Bullets(info.warnings)] if info.warnings else []
    if info.federation is not None:
        run = info.federation
        gaps = [f"{rate} {points(gap)}" for rate, gap in run.global_gaps.items()]
        parts.append(Paragraph(f"Run {run.run}: {counted(run.sites, 'site')}, {counted(run.rounds, 'round')}."))
        parts += [Paragraph(f"Gaps over all sites, points: {', '.join(gaps)}.")] if gaps else []
    if parts:
        yield Section("proof", "What is proved", tuple(parts))
    yield sources_section(
        About(info.data), iter([("checksum", policy.checksum), ("calibration", policy.calibrator.method)])
    )


def policy_values(policy: Policy, sites: Sequence[int], groups: Sequence[int]) -> dict[str, Any]:
    """Return a policy as plain values: what it says of itself, and every rule as bands of scores."""
    places = [(site, group) for site in sites for group in groups]
    if policy.has_merged and len(sites) == len(policy.sites):
        places += [(-1, group) for group in groups]
    rules = []
    for site, group in places:
        bands = bands_of(policy, site, group)
        rules.append(
            {
                "site": plain(policy.sites[site]) if site >= 0 else None,
                "unknown_sites": site < 0,
                "group": plain(policy.groups[group]),
                "too_small": str(policy.groups[group]) in policy.too_small,
                "words": rule_in_words(bands),
                "bands": [vars(band) for band in bands],
            }
        )
    known = {"outcomes": policy.info.outcomes.as_dict(), "info": records.plain(policy.info)}
    return known | {"calibration": policy.calibrator.method, "rules": rules}
