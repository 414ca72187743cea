"""The page of a fit: is it fair now, what does it cost, can I rely on it; then the rules, the proof and the sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from logofair.auditing import Comparison
from logofair.fitting.solution import Solution
from logofair.outcomes import (
    CALIBRATION_ROWS,
    EXCEEDED,
    MET,
    NEW_ROWS,
    NOT_MEASURED,
    TEST_ROWS,
    Outcomes,
)
from logofair.words.about import About, sources_section, title_line
from logofair.words.limits import (
    Places,
    every_limit,
    figure,
    limit,
    limits_picture,
    limits_table,
    prices,
    shown_first,
    subject,
    unit_of,
    verdict,
    with_figures,
)
from logofair.words.people import base_rate_warning, changes_table, cost_answer, rates_table, selected_answer
from logofair.words.phrases import NOTHING, counted, listed, name_of, points, short_number
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
_SITES = 1000  # whose rules a report lists


def fit_page(
    solution: Solution,
    about: About | None = None,
    *,
    frontier: Frontier | None = None,
    next_: str = "",
    values: dict[str, Any] | None = None,
) -> Page:
    """Return the page of a solution.

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
    others = None if solution.tested is None else people_of(solution.tested)
    answers.append(rely_answer(outcomes, places, others, how))
    title = title_line(about, _people(solution), solution.policy.sites, solution.policy.groups)
    tested = "" if others is None else f" Tested on {others:,} others."
    return Page(
        "Fairness report",
        f"{title}.{tested}",
        verdict=verdict(outcomes, places, how),
        table=limits_table(judged, places),
        answers=tuple(answers),
        picture=limits_picture(judged, places),
        beside=() if found is None else (changes_table(found, about.accepted),),
        warnings=tuple(_warnings(solution, found, from_command=bool(about.command))),
        next=next_,
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


def rely_answer(outcomes: Outcomes, places: Places, tested: int | None, how: str) -> Answer:
    """Return the third tile: on what the verdict rests, and what it would take; ``tested``: on how many others."""
    question, name = "Can I rely on it?", "Rely on it"
    rows = "" if tested is None else f"tested on {counted(tested, 'other')}"
    if not len(outcomes):
        return Answer(question, name, "Nothing required", "", rows)
    evidence = outcomes.evidence
    if not len(evidence):
        return Answer(question, name, "Not known", "", rows or f"not tested on other people; {how}")
    certified = [each for each in outcomes.where(basis=NEW_ROWS) if each.state == MET]
    details = [
        part
        for part in (rows, f"{counted(len(certified), 'limit')} certified for new people" if certified else "")
        if part
    ]
    state, first = outcomes.verdict, shown_first(evidence, 1)
    if state == EXCEEDED:
        where = [places.name(each) for each in evidence if each.state == EXCEEDED]
        return Answer(
            question, name, "No", "", "; ".join([*details, f"beyond the limit: {', '.join(dict.fromkeys(where[:3]))}"])
        )
    if state == MET:
        small = len({each.site for each in evidence if each.too_small or each.state == NOT_MEASURED} - {None})
        details += [f"{counted(small, places.word)} too small to judge"] if small else []
        return Answer(question, name, "Yes", "", "; ".join(details))
    open_ = [each for each in (*first, *outcomes.where(basis=NEW_ROWS)) if each.rows_needed and each.state != MET]
    needed = next(iter(open_), None)
    if needed is not None and needed.rows is not None:
        unit = unit_of(needed)
        one = limit(needed) == "1" and unit == "points"
        takes = f"a limit of {limit(needed)} {'point' if one else unit}".strip()
        details.append(
            f"{takes} takes about {needed.rows_needed:,} people in every group, the smallest has {needed.rows:,}"
        )
    return Answer(question, name, "Not yet", "", "; ".join(details))


def people_of(found: Comparison) -> int:
    """Return how many people were measured: ids where there are any, else rows."""
    return int(found.second.global_.tally.people[..., -1].sum())


def _people(solution: Solution) -> int:
    """People of the fit: ids where there are any, else rows."""
    ids = solution.rows.people
    return int(solution.rows.scores.size) if ids is None else len(ids.names)


def _warnings(solution: Solution, found: Comparison | None, *, from_command: bool) -> Iterator[str]:
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
    selection = any(
        rate.name == "selection rate" and each.measure in ("gap", "ratio")
        for each in solution.outcomes.requirements
        for rate in each.rates
    )
    if selection and found is not None:
        hint = "--notion equal_opportunity" if from_command else 'notion="equal_opportunity"'
        yield from base_rate_warning(found.second, hint)


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
    yield "calibration, pooling", f"{solution.policy.calibrator.method}, {solution.pooling}"
    promises = solution.promises
    yield "confidence", NOTHING if promises is None else f"{promises.confidence:g}, {promises.method}"
    yield "optimality gap, violation", f"{certificate.optimality_gap:.1e}, {certificate.violation:.1e}"
    yield "checksum of the policy", solution.policy.checksum
