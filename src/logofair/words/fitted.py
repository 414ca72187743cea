"""The page of a fit: is it fair now, what does it cost, can I rely on it; then the rules, the proof and the sources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from logofair.auditing import Comparison
from logofair.fitting.solution import Solution
from logofair.notions import DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY
from logofair.outcomes import (
    CALIBRATION_ROWS,
    EXCEEDED,
    MET,
    NEW_ROWS,
    NOT_MEASURED,
    TEST_ROWS,
    UNCLEAR,
    Outcome,
    Outcomes,
)
from logofair.words.about import About, sources_section, title_line
from logofair.words.limits import (
    Places,
    every_limit,
    figure,
    limit,
    limit_words,
    limits_picture,
    limits_table,
    prices,
    shown_first,
    subject,
    unit_of,
    verdict,
    with_figures,
)
from logofair.words.people import base_rates_differ, changes_table, cost_answer, rates_table, selected_answer
from logofair.words.phrases import NOTHING, counted, listed, name_of, people, points, short_number
from logofair.words.proof import pooling_sentence, proof_sentences, warning_sentences
from logofair.words.rules import coins_sentence, every_rule
from logofair.words.sections import Answer, Bullets, Page, Paragraph, Part, Section

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

BASES = {
    TEST_ROWS: "measured on people who took no part in the fit",
    NEW_ROWS: "certified for new people drawn like these",
    CALIBRATION_ROWS: "proved of the people of the fit alone",
}
GUARANTEED = "find limits that this many people can guarantee"
_CHEAPER = 0.005  # accuracy by which another notion must be cheaper to be worth a line
_SITES = 1000  # whose rules a report lists


def fit_page(
    solution: Solution,
    about: About | None = None,
    *,
    frontier: Frontier | None = None,
    next_: str = "",
    recommend: str = "",
    values: dict[str, Any] | None = None,
) -> Page:
    """Return the page of a solution; ``recommend`` is what finds limits that these people can guarantee.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "b", "a", "b"], calibration="none")
    >>> fit_page(solution).verdict.state
    'not measured'
    """
    about = about or About()
    places = Places(about.site_word, several=len(solution.policy.sites) > 1)
    outcomes, found = solution.outcomes, solution.tested or solution.compared
    how = "add --test FILE, or --confidence 0.95" if about.command else "pass other rows to test(), or confidence=0.95"
    judged = shown_outcomes(outcomes)
    expected = solution.tested is None and solution.rows.labels is None
    answers = [*fair_answer(judged, places), cost_answer(found, expected=expected)]
    answers += [] if found is None else [selected_answer(found, about.accepted)]
    answers.append(rely_answer(outcomes, places, how, solution.tested))
    title = title_line(about, _people(solution), solution.policy.sites, solution.policy.groups)
    tested = "" if solution.tested is None else f" Tested on {people_of(solution.tested):,} others."
    open_ = outcomes.verdict in (UNCLEAR, EXCEEDED)
    asks = open_ and not outcomes.where(basis=NEW_ROWS, state=MET)  # else that was asked, and answered
    recommend = recommend or "logofair.recommend(scores, labels, sensitive_features=..., sites=...)"
    return Page(
        "Fairness report",
        f"{title}.{tested}",
        verdict=verdict(outcomes, places, how),
        table=limits_table(judged, places, 3 if open_ else 4),
        answers=tuple(answers),
        picture=limits_picture(judged, places),
        beside=() if found is None else (changes_table(found, about.accepted),),
        warnings=tuple(_warnings(solution, found, from_command=bool(about.command), left_out=about.left_out)),
        next=recommend if asks else next_,
        next_tells=GUARANTEED if asks else "",
        sections=tuple(_sections(solution, about, places, frontier)),
        about=about.heading,
        values=solution.as_dict() if values is None else values,
        written=about.written,
    )


def shown_outcomes(outcomes: Outcomes) -> Outcomes:
    """Return those that a page shows: the evidence or, for want of any, what is proved of the people of the fit."""
    fitted = outcomes.where(basis=CALIBRATION_ROWS)
    return with_figures(outcomes.evidence, fitted) if len(outcomes.evidence) else fitted


def fair_answer(judged: Outcomes, places: Places) -> Iterator[Answer]:
    """Return the first tile: the figure told first, before and after, and its limit."""
    question = "Is it fair now?"
    first = next(iter(shown_first(judged, 1)), None)
    if first is None:
        yield Answer(question, "", "Nothing required" if not len(judged) else "Not measured")
        return
    now = figure(first, first.after)
    change = now if first.before is None else f"{figure(first, first.before)} -> {now}"
    where = f", {places.name(first)}" if places.several else ""
    unit = ", ".join(part for part in (unit_of(first), f"limit {limit(first)}") if part)
    yield Answer(question, "", change, unit, f"{subject(first)}{where}")


def rely_answer(outcomes: Outcomes, places: Places, how: str, found: Comparison | None = None) -> Answer:
    """Return the third tile: on what the verdict rests, and what it would take; ``found``: measured on other people."""

    def answer(figure: str, *details: str) -> Answer:
        return Answer("Can I rely on it?", "Rely on it", figure, "", "; ".join(filter(None, details)))

    evidence = outcomes.evidence
    tested = "" if found is None else f"tested on {counted(people_of(found), 'other')}"
    if not len(outcomes):
        return answer("Nothing required", tested)
    if not len(evidence):
        return answer("Not known", tested or f"not tested on other people; {how}")
    certified = len(outcomes.where(basis=NEW_ROWS, state=MET))
    proved = f"{counted(certified, 'limit')} certified for new people" if certified else ""
    if outcomes.verdict == EXCEEDED:
        where = list(dict.fromkeys(places.name(each, 24) for each in evidence.where(state=EXCEEDED)))
        return answer("No", proved, f"over the limit at {listed(where, 3)}, which chance does not explain")
    local = {each.site for each in evidence if each.site is not None}
    small = {each.site for each in evidence if each.is_small_site or each.state == NOT_MEASURED} - {None}
    if outcomes.verdict == MET:
        judged = f"at {len(local - small):,} of {counted(len(local), places.word)}" if local else ""
        few = f"{len(small):,} too small to judge" if small else ""
        return answer("Yes", " ".join(filter(None, (tested, judged))), proved, few)
    return answer("Not yet", proved, _it_takes(evidence, places, found) or (f"{tested}, too few" if tested else how))


def _it_takes(evidence: Outcomes, places: Places, found: Comparison | None) -> str:
    """How many people there are, which limit they could check, and how many the one asked for takes; then for sites."""
    unclear = [each for each in evidence if each.state == UNCLEAR and not each.is_small_site and each.rows]
    first = min((each for each in unclear if each.site is None), key=lambda each: each.room or 0.0, default=None)
    local = [each for each in unclear if each.site is not None and _needed(each)]
    nearest = min(local, key=lambda each: _needed(each) / (each.rows or 1), default=None)
    sentences = [] if first is None else [_people_for(first, "the smallest group", found)]
    if nearest is not None and len(local) > 1 and _needed(nearest) > (nearest.rows or 0):
        some = any(each.site is not None and each.state == MET for each in evidence)
        few = f"{counted(len(local), places.word)} have too few" if some else f"no {places.word} has enough"
        sentences.append(f"{few} for {limit_words(nearest, nearest.limit)}")
    if nearest is not None and first is None:
        sentences.append(_people_for(nearest, f"{places.name(nearest, 24)} comes nearest: its smallest group", None))
    return ". ".join(f"{each[:1].upper()}{each[1:]}" if at else each for at, each in enumerate(sentences))


def _needed(each: Outcome) -> int:
    """How many people it takes to check a limit, or to certify it; 0: not known."""
    return each.rows_to_check or each.rows_needed or 0


def _people_for(each: Outcome, who: str, found: Comparison | None) -> str:
    """How many people a group has, which limit they could check, and how many it takes."""
    has = f"{who} has {each.rows:,}"
    if each.requirement.measure == "accepted":
        has = f"{people(each.rows or 0)} were measured"
    elif found is not None and len(each.groups) > 1:
        rows = dict(zip(found.second.groups, found.second.global_.tally.rows[0].sum(axis=1), strict=True))
        has = f"{who} is {name_of(min(each.groups, key=lambda group: float(rows[group])), 24)} ({each.rows:,})"
    needed, could, asked = _needed(each), _could_check(each), limit_words(each, each.limit)
    if not needed:
        return f"{has}, and chance may explain that the limit is exceeded" if (each.room or 0.0) < 0 else has
    if needed <= (each.rows or 0):
        return f"{has}, enough to check {asked}, but the figure is too close to it"
    enough = f", enough to check {could}" if could else ""
    return f"{has}{enough}; {asked} would take about {float(f'{needed:.2g}'):,.0f} of them"


def _could_check(each: Outcome) -> str:
    """The tightest limit that these people could check, rounded so that they can."""
    if each.checkable is None or not 0 < each.checkable < 1:
        return ""
    rounded = math.floor if each.requirement.measure == "ratio" else math.ceil
    return limit_words(each, rounded(100 * each.checkable) / 100)


def people_of(found: Comparison) -> int:
    """Return how many people were measured: ids where there are any, else rows."""
    return int(found.second.global_.tally.people[..., -1].sum())


def _people(solution: Solution) -> int:
    """People of the fit: ids where there are any, else rows."""
    ids = solution.rows.people
    return int(solution.rows.scores.size) if ids is None else len(ids.names)


def _warnings(solution: Solution, found: Comparison | None, *, from_command: bool, left_out: int) -> Iterator[str]:
    """What to do about what is wrong."""
    if not solution.certificate.meets_requirements:
        excess = short_number(solution.certificate.violation)
        use = "--solver exact" if from_command else 'solver="exact"'
        yield f"A limit is exceeded on the rows of the fit, by up to {excess}. Use {use}."
    if solution.tested is not None:
        names, rows = solution.tested.unknown_sites(solution.policy.sites)
        if names:
            named = listed([name_of(name, 24) for name in names], 3)
            yield f"{counted(rows, 'row')} of sites the policy does not know ({named}): its merged rule decided."
    if left_out * 20 > solution.rows.scores.size and solution.rows.labels is not None:
        leave = "leave --label out" if from_command else "pass labels=None"
        yield f"{left_out:,} people were left out. If only accepted people have a label, {leave}: selection needs none."
    differ = "" if found is None else base_rates_differ(found.second)
    selection = {item.rates for item in solution.outcomes.requirements} == {DEMOGRAPHIC_PARITY.rates}
    costs = solution.prices_with(EQUAL_OPPORTUNITY) if differ and selection else None
    if costs is not None and costs[0] - costs[1] >= _CHEAPER:
        less = points(costs[0] - costs[1])
        hint = "--notion equal_opportunity" if from_command else 'notion="equal_opportunity"'
        yield f"{differ}: equal selection rates are expensive here. {hint} would cost about {less} points less."


def _sections(solution: Solution, about: About, places: Places, frontier: Frontier | None) -> Iterator[Section]:
    """All there is to say, in the order of the questions; proof and sources last."""
    outcomes = solution.outcomes
    yield Section("fair", "Is it fair now?", tuple(_fair(solution, outcomes, places)))
    yield Section("cost", "What does it cost, and who is affected?", tuple(_cost(solution, frontier)))
    yield Section("rely", "Can I rely on it?", tuple(_rely(solution, outcomes, places)))
    sites = list(range(min(len(solution.policy.sites), _SITES)))
    groups = list(range(len(solution.policy.groups)))
    coins = coins_sentence(solution.coin_share, solution.score_blind_rules, len(sites) * len(groups))
    rules: list[Part | None] = [coins, *every_rule(solution.policy, sites, groups, about.accepted)]
    if len(sites) < len(solution.policy.sites):
        more = counted(len(solution.policy.sites) - len(sites), f"more {places.word}")
        rules.append(Paragraph(f"Rules of {more} are not listed: logofair explain POLICY --only-site NAME shows one."))
    yield Section("rules", "The rules", tuple(part for part in rules if part is not None), folded=len(sites) > 20)
    yield Section("proof", "What is proved", tuple(_proof(solution)))
    yield sources_section(about, solution_facts(solution))


def _fair(solution: Solution, outcomes: Outcomes, places: Places) -> Iterator[Part]:
    for basis in (TEST_ROWS, CALIBRATION_ROWS):
        for requirement in outcomes.where(basis=basis).requirements:
            yield every_limit(
                outcomes.where(basis=basis, requirement=requirement), places, f"{requirement}: {BASES[basis]}"
            )
    for name, found in (("other people", solution.tested), ("the people of the fit", solution.compared)):
        if found is not None:
            rules = [("before", found.first), ("after", found.second)]
            yield rates_table(
                rules, f"Rates of every group{f' over {places.all()}' if places.several else ''}, on {name}"
            )


def _cost(solution: Solution, frontier: Frontier | None) -> Iterator[Part]:
    won = prices(solution.outcomes.where(basis=CALIBRATION_ROWS), solution.certificate.objective)
    yield Bullets(won) if won else Paragraph("No limit costs anything on the rows of the fit.")
    if frontier is not None:
        from logofair.words.tradeoffs import frontier_parts

        yield from frontier_parts(frontier)


def _rely(solution: Solution, outcomes: Outcomes, places: Places) -> Iterator[Part]:
    certified = outcomes.where(basis=NEW_ROWS)
    for requirement in certified.requirements:
        yield every_limit(certified.where(requirement=requirement), places, f"{requirement}: {BASES[NEW_ROWS]}")
    warnings = warning_sentences(solution.warnings)
    yield Bullets(warnings) if warnings else Paragraph("Every group has 30 people or more at every site.")
    if len(solution.rows.sites.names) > 1:
        yield Paragraph(pooling_sentence(solution.pooling))


def _proof(solution: Solution) -> Iterator[Part]:
    rows = f"the {counted(solution.rows.scores.size, 'row')} of the fit"
    sentences = proof_sentences(
        solution.certificate.info,
        rows=rows,
        solver=solution.solver,
        calibration=solution.policy.calibrator.method,
        sites=len(solution.policy.sites) > 1,
    )
    yield Bullets(sentences)
    accuracy, violation = solution.deterministic
    if solution.policy.mixtures.mixed.any():
        worth = (
            f"{points(accuracy, 2)} % accuracy"
            if solution.certificate.objective == "accuracy"
            else f"{short_number(accuracy)} per person"
        )
        broken = (
            f"a limit exceeded by up to {short_number(violation)}" if violation > 1e-6 else "every limit still holds"
        )
        yield Paragraph(f"Without coins (--deterministic): {worth}, {broken}.")


def solution_facts(solution: Solution) -> Iterator[tuple[str, str]]:
    """Return what it takes to know that the same policy was made again."""
    certificate = solution.certificate
    yield (
        "people, sites, groups",
        f"{_people(solution):,}, {len(solution.policy.sites):,}, {len(solution.policy.groups):,}",
    )
    yield "requirements", "; ".join(map(str, solution.outcomes.requirements)) or "none"
    yield "solver", f"{solution.solver}, {counted(solution.rounds, 'round')}"
    prior, kappa = solution.pooling.prior, solution.pooling.kappa
    strength = "" if prior == "none" else f", {'infinitely many' if kappa is None else f'{kappa:g}'} rows"
    yield "calibration, pooling", f"{solution.policy.calibrator.method}, {prior}{strength}"
    promises = solution.promises
    yield "confidence", NOTHING if promises is None else f"{promises.confidence:g}, {promises.method}"
    yield "optimality gap, violation", f"{certificate.optimality_gap:.1e}, {certificate.violation:.1e}"
    yield "checksum of the policy", solution.policy.checksum
