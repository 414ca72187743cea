"""The page of a fit: is it fair, what does it cost, can I rely on it; then rules, proof and sources. And a demo's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logofair.auditing import Audit, Comparison
from logofair.fitting.least_gap import LeastGap
from logofair.fitting.solution import Solution
from logofair.notions import DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY
from logofair.outcomes import CALIBRATION_ROWS, EXCEEDED, MET, NEW_ROWS, TEST_ROWS, UNCLEAR, Outcomes
from logofair.tradeoff import Frontier, frontier
from logofair.words.about import About, groups_listed, in_memory, sources_section, title_line
from logofair.words.answers import (
    GUARANTEED,
    base_rates_differ,
    changes_table,
    cost_answer,
    fair_answer,
    left_out_sentence,
    people_of,
    rates_table,
    rely_answer,
    selected_answer,
)
from logofair.words.explained import coins_sentence, every_rule
from logofair.words.limits import (
    Places,
    limit_tables,
    limits_picture,
    limits_table,
    prices,
    shown_outcomes,
    verdict,
)
from logofair.words.phrases import NOTHING, counted, limit_points, listed, name_of, points, short_number
from logofair.words.proof import pooling_sentence, proof_sentences
from logofair.words.sections import (
    Answer,
    Bullets,
    Column,
    Page,
    Paragraph,
    Part,
    Section,
    in_points,
    table_of,
)
from logofair.words.tradeoffs import frontier_parts

if TYPE_CHECKING:
    from logofair.datasets.demonstration import Comparison as Methods
    from logofair.datasets.demonstration import MethodResult

_CHEAPER = 0.005  # accuracy by which another notion must be cheaper to be worth a line
_SMALLER = 0.05  # a gap that is smaller by so much is worth a line
_MANY = 20  # people left out are many if they are more than one in so many
_SITES = 1000  # whose rules a report lists
_WAYS = {"LoGoFair_g": "fair overall", "LoGoFair_l": "fair per site", "LoGoFair_l&g": "fair both ways"}


def fit_page(
    solution: Solution,
    about: About | None = None,
    *,
    frontier: Frontier | None = None,
    next_: str = "",
    test: str = "",
    recommend: str = "",
    values: dict[str, Any] | None = None,
) -> Page:
    """Return the page of a solution.

    What comes next: ``recommend`` where limits are open, which finds those that these people can guarantee, ``test``
    where too little is known of other people, and ``next_`` where all limits are met.
    """
    about = about or About()
    places = Places(about.site_word, several=len(solution.policy.sites) > 1, label=about.label_word)
    outcomes, found = solution.outcomes, solution.tested or solution.compared
    how = "add --test FILE, or --confidence 0.95" if about.command else "pass other rows to test(), or confidence=0.95"
    if solution.away is not None:  # nothing can be certified for new rows
        how = "add --test FILE" if about.command else "pass other rows to test()"
    judged = shown_outcomes(outcomes)
    expected = solution.tested is None and solution.rows.labels is None
    answers = [fair_answer(judged, places), cost_answer(found, expected=expected)]
    answers += [] if found is None else [selected_answer(found, judged, about.accepted)]
    answers.append(rely_answer(outcomes, places, how, solution.tested))
    title = title_line(about, _people(solution), solution.policy.sites, solution.policy.groups)
    tested = "" if solution.tested is None else f" Tested on {people_of(solution.tested):,} others."
    open_ = outcomes.verdict in (UNCLEAR, EXCEEDED)
    answered = outcomes.verdict == UNCLEAR and outcomes.where(basis=NEW_ROWS, state=MET)  # what can be guaranteed
    asks = open_ and solution.away is None and not answered
    recommend = recommend or "logofair.recommend(scores, labels, sensitive_features=..., sites=...)"
    usable = not len(outcomes) or outcomes.verdict == MET
    others = "other people" if solution.tested is None else f"more people{_open_sites(outcomes, places)}"
    step, tells = (next_, "") if usable else (recommend, GUARANTEED) if asks else (test, f"test it on {others}")
    return Page(
        "Fairness report",
        f"{title}.{tested}",
        verdict=verdict(outcomes, places, how),
        table=limits_table(judged, places, 3 if open_ else 4),
        answers=tuple(answers),
        picture=limits_picture(judged, places),
        beside=() if found is None else (changes_table(found, judged, about.accepted),),
        warnings=tuple(_warnings(solution, found, from_command=bool(about.command), left_out=about.left_out)),
        next=step,
        next_tells=tells if step else "",
        sections=tuple(_sections(solution, about, places, frontier)),
        about=about.heading,
        values=solution.as_dict() if values is None else values,
        written=about.written,
    )


def _open_sites(outcomes: Outcomes, places: Places) -> str:
    """The sites at which the test says too little, unless they are too small to ask for more."""
    unclear = (each for each in outcomes.evidence.where(state=UNCLEAR) if each.site is not None)
    sites = dict.fromkeys(places.name(each, 16) for each in unclear if not each.is_small_site)
    return f" at {listed(sites, 2)}" if sites and places.several else ""


def _people(solution: Solution) -> int:
    """People of the fit: ids where there are any, else rows."""
    ids = solution.rows.people
    return int(solution.rows.scores.size) if ids is None else len(ids.names)


def least_gap_sentence(least: LeastGap) -> str:
    """Return by what the limits on gaps were multiplied, and that less is not possible.

    Examples
    --------
    >>> least_gap_sentence(LeastGap(0.25, 0.2499, ""))
    'The limits on gaps are 0.25 times those given, the smallest possible: at 0.2499 times no rule keeps all limits.'
    """
    times = f"The limits on gaps are {least.factor:g} times those given, the smallest possible"
    return f"{times}." if least.below is None else f"{times}: at {least.below:g} times no rule keeps all limits."


def _warnings(solution: Solution, found: Comparison | None, *, from_command: bool, left_out: int) -> Iterator[str]:
    """What to do about what is wrong."""
    if solution.least_gap is not None:
        yield least_gap_sentence(solution.least_gap)
    if solution.solver != "exact" and not solution.certificate.meets_requirements:
        excess = short_number(solution.certificate.violation)
        use = "--solver exact" if from_command else 'solver="exact"'
        yield f"A limit is exceeded on the rows of the fit, by up to {excess}. Use {use}."
    if by_score := _by_score(solution):
        yield by_score
    if solution.tested is not None:
        names, rows = solution.tested.unknown_sites(solution.policy.sites)
        if names:
            named = listed([name_of(name, 24) for name in names], 3)
            yield f"{counted(rows, 'row')} of sites the policy does not know ({named}): its merged rule decided."
    if solution.away is not None and not solution.away.groups_known:
        use = "logofair audit FILE --policy POLICY" if from_command else "test()"
        so_far = "gaps are counted by probability, and true ones may be larger"
        yield f"Nobody's group was known: {so_far}. {use} measures them."
    if left_out * _MANY > solution.rows.scores.size and solution.rows.labels is not None:
        yield left_out_sentence(left_out, "leave --label out" if from_command else "pass labels=None")
    if found is not None and (scarce := _scarce(solution.outcomes, found.second)):
        yield scarce
    differ = "" if found is None else base_rates_differ(found.second)
    selection = {item.rates for item in solution.outcomes.requirements} == {DEMOGRAPHIC_PARITY.rates}
    costs = solution.prices_with(EQUAL_OPPORTUNITY) if differ and selection else None
    if costs is not None and costs[0] - costs[1] >= _CHEAPER:
        other = points(max(costs[1], 0.0))
        would = "almost nothing" if other == "0.0" else f"about {other} points"
        hint = "fit --notion equal_opportunity" if from_command else 'fit(..., notion="equal_opportunity")'
        yield f"{differ}: equal selection rates cost accuracy here. {hint} would cost {would}."


def _by_score(solution: Solution) -> str:
    """How large the gap is by the score alone, where it is much smaller than that of the best rule of each group."""
    tested = solution.outcomes.where(basis=TEST_ROWS, site=None)
    for each in solution.by_score:
        before = [own.before for own in tested.where(requirement=each.requirement) if own.before is not None]
        if each.after is not None and before and before[0] - each.after >= _SMALLER:
            most = "most accurate" if solution.certificate.objective == "accuracy" else "cheapest"
            return f"Before: {most} per group. One cut-off at 0.5 has a gap of {points(each.after)} points."
    return ""


def _scarce(outcomes: Outcomes, found: Audit) -> str:
    """That a limit on the gap of selection rates says little, since hardly anybody is accepted; else nothing."""
    bounds = [
        each.limit
        for each in outcomes
        if each.requirement.measure == "gap" and each.requirement.rates == DEMOGRAPHIC_PARITY.rates and each.limit
    ]
    accepted = found.accepted
    if not bounds or accepted is None or accepted >= max(bounds):
        return ""
    use = "--require 'selection rate ratio >= 0.8 overall'"
    return f"Only {points(accepted)} % are accepted, so a limit on gaps says little. Use a ratio: {use}."


def _sections(solution: Solution, about: About, places: Places, frontier: Frontier | None) -> Iterator[Section]:
    """All there is to say, in the order of the questions; proof and sources last."""
    outcomes = solution.outcomes
    fair: list[Part] = []
    for basis in (TEST_ROWS, CALIBRATION_ROWS):
        fair += limit_tables(outcomes.where(basis=basis), places)
    over = f" over {places.all()}" if places.several else ""
    for name, found in (("other people", solution.tested), ("the people of the fit", solution.compared)):
        if found is not None:
            own = [("before", found.first), ("after", found.second)]
            fair.append(rates_table(own, f"Rates of every group{over}, on {name}"))
    yield Section("fair", "Is it fair now?", tuple(fair))
    won = prices(outcomes.where(basis=CALIBRATION_ROWS), solution.certificate.objective)
    nothing = "No limit costs anything on the rows of the fit."
    if solution.away is not None:
        nothing = "What single limits cost is not known for rules that may not look at groups."
    cost: list[Part] = [Bullets(won) if won else Paragraph(nothing)]
    cost += [] if frontier is None else frontier_parts(frontier)
    yield Section("cost", "What does it cost, and who is affected?", tuple(cost))
    rely: list[Part] = [*limit_tables(outcomes.where(basis=NEW_ROWS), places)]
    warnings = tuple(map(str, solution.warnings))
    rely.append(Bullets(warnings) if warnings else Paragraph("Every group has 30 people or more at every site."))
    rely += [Paragraph(pooling_sentence(solution.pooling))] if len(solution.rows.sites.names) > 1 else []
    if solution.away is not None and solution.away.groups_known:
        who, off = {TEST_ROWS: "other people", CALIBRATION_ROWS: "the people of the fit"}, solution.away.by_probability
        differ = ", ".join(f"{points(number)} points on {who[rows]}" for rows, number in off.items())
        rely.append(Paragraph(f"A group's rate counted by probability is off the true one by up to {differ}."))
    yield Section("rely", "Can I rely on it?", tuple(rely))
    sites = list(range(min(len(solution.policy.sites), _SITES)))
    groups = list(range(len(solution.policy.groups)))
    info = solution.policy.info
    coins = coins_sentence(info.coin_share, info.score_blind_rules, len(sites) * len(groups))
    rules: list[Part | None] = [coins, *every_rule(solution.policy, sites, groups, about.accepted)]
    if len(sites) < len(solution.policy.sites):
        more = counted(len(solution.policy.sites) - len(sites), f"more {places.word}")
        rules.append(Paragraph(f"Rules of {more} are not listed: logofair explain POLICY --only-site NAME shows one."))
    yield Section("rules", "The rules", tuple(part for part in rules if part is not None), folded=len(sites) > 20)
    yield Section("proof", "What is proved", tuple(_proof(solution)))
    yield sources_section(about, solution_facts(solution))


def _proof(solution: Solution) -> Iterator[Part]:
    rows = f"the {counted(solution.rows.scores.size, 'row')} of the fit"
    how = {"solver": solution.solver, "calibration": solution.policy.calibrator.method}
    several = len(solution.policy.sites) > 1
    yield Bullets(proof_sentences(solution.certificate.info, rows=rows, sites=several, **how))
    accurate = solution.certificate.objective == "accuracy"
    if solution.away is not None and (bound := solution.away.bound()) is not None:
        most = f"is more accurate than {points(bound, 2)} %" if accurate else f"costs less than {short_number(bound)}"
        yield Paragraph(f"With groups counted by probability, as predicted, no such rule that keeps the limits {most}.")
    if solution.deterministic is not None and solution.policy.mixtures.mixed.any():
        accuracy, violation = solution.deterministic
        worth = f"{points(accuracy, 2)} % accuracy" if accurate else f"{short_number(accuracy)} per person"
        exceeded = f"a limit exceeded by up to {short_number(violation)}"
        broken = exceeded if violation > 1e-6 else "every limit still holds"
        yield Paragraph(f"Without coins (--deterministic): {worth}, {broken}.")


def solution_facts(solution: Solution) -> Iterator[tuple[str, str]]:
    """Return what it takes to know that the same policy was made again."""
    certificate = solution.certificate
    size = (_people(solution), len(solution.policy.sites), len(solution.policy.groups))
    yield "people, sites, groups", ", ".join(f"{each:,}" for each in size)
    yield "requirements", "; ".join(map(str, solution.outcomes.requirements)) or "none"
    yield "solver", f"{solution.solver}, {counted(solution.rounds, 'round')}"
    prior, kappa = solution.pooling.prior, solution.pooling.kappa
    strength = "" if prior == "none" else f", {'infinitely many' if kappa is None else f'{kappa:g}'} rows"
    yield "calibration, pooling", f"{solution.policy.calibrator.method}, {prior}{strength}"
    promises = solution.promises
    yield "confidence", NOTHING if promises is None else f"{promises.confidence:g}, {promises.method}"
    gap = NOTHING if certificate.optimality_gap is None else f"{certificate.optimality_gap:.1e}"
    yield "optimality gap, violation", f"{gap}, {certificate.violation:.1e}"
    yield "checksum of the policy", solution.policy.checksum


def demo_report(found: Methods, about: About) -> Page:
    """Return the report of the way that is fair per site and overall, with the frontier around it."""
    settings = found.settings
    trade_off = frontier(
        **found.calibration_rows,
        notion=settings.notion,
        chosen=(settings.local_tolerance, settings.global_tolerance),
        random_state=settings.random_state,
        test_rows=found.test_rows,
    )
    return fit_page(found.fair_tested, replace(about, data=in_memory(found.data, found.fair)), frontier=trade_off)


def demo_page(found: Methods, *, report: str = "", kept: bool = False) -> Page:
    """Return the page of a demonstration; ``kept``: a report was there already and stays."""
    settings, rows = found.settings, found.rows
    base, best = found.outcomes[0], found.outcomes[-1]
    assert best.difference is not None  # every way but the first is compared with the first
    overall, local = (
        f"{points(getattr(base.audit, gap).value)} -> {points(getattr(best.audit, gap).value)}"
        for gap in ("headline_global", "headline_local")
    )
    answers = (
        Answer("What improved?", "Fair", f"overall {overall}", "points", f"at the worst site {local}"),
        cost_answer(best.difference),
        rely_answer(found.fair_tested.outcomes, Places(), "", found.fair_tested.tested),
    )

    def limits(each: MethodResult) -> str:
        asked = (each.global_tolerance, each.local_tolerance)
        return " / ".join(NOTHING if limit is None else limit_points(limit) for limit in asked)

    columns: list[Column[MethodResult] | None] = [
        (
            "gap in points on the test rows",
            "l",
            lambda each: ": ".join(filter(None, (each.name, _WAYS.get(each.name)))),
        ),
        ("limits", "r", limits),
        ("overall", "r", lambda each: in_points(each.audit.headline_global.value)),
        ("worst site", "r", lambda each: in_points(each.audit.headline_local.value)),
        ("accuracy", "r", lambda each: in_points(each.audit.accuracy)),
    ]
    after = "Limits: overall / per site. The worst site is one with 30 people or more of every group."
    rates = rates_table([(each.name, each.audit) for each in found.outcomes], "Rates of every group")
    return Page(
        "Demonstration",
        f"{found.data.capitalize()}: {sum(rows.values()):,} people dealt to {counted(settings.sites, 'site')}, "
        f"{groups_listed(found.groups)}. Tested on {rows['test']:,} others.",
        table=table_of("Four ways to decide", columns, found.outcomes, after=after),
        answers=answers,
        warnings=(f"{report} is there already and stays; --force replaces it.",) if kept else (),
        next="logofair federate example --out data",
        sections=(Section("rates", "Rates on the test rows", (rates,)),),
        values=found.as_dict(),
        written=(report,) if report and not kept else (),
    )
