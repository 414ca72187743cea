"""Federated runs: what a plan says to those who are asked to agree to it, and the page of what a run has found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import numpy as np

from logofair.columns.checks import listed_names
from logofair.federation.plan import Members, Plan
from logofair.federation.result import RunResult
from logofair.requirement import own_rates
from logofair.requirements import SELECTED
from logofair.words.phrases import (
    counted,
    group_names,
    limit_points,
    listed,
    name_of,
    people,
    points,
    short_number,
)
from logofair.words.proof import pooling_sentence, proof_sentences
from logofair.words.sections import Answer, Facts, Page, Section, Table, can_rely, in_points, what_it_costs

_SITES = 6  # named in the title
_EXCLUDED = 3
LATE_NOTE = (
    "This site did not take part in the run: its rule meets the local requirements on its own rows (or their noised "
    "histogram); the global requirements were met without it."
)


def _required_sentence(plan: Plan) -> str:
    """What must hold, and what errors cost at which site."""
    said = [f"{each}." for each in plan.require] or ["Nothing is required."]
    single = [f"{accepted:g} and {rejected:g} at {site}" for site, (accepted, rejected) in plan.site_costs]
    if plan.costs is not None:
        accepted, rejected = plan.costs
        alike = f"A wrongly accepted row costs {accepted:g}, a wrongly rejected one {rejected:g}"
        said.append(f"{alike}; {', '.join(single) if single else 'a site may count less'}.")
    elif single:
        said.append(f"A wrongly accepted row and a wrongly rejected one cost {', '.join(single)}.")
    return " ".join(said)


def plan_sentences(plan: Plan, members: Members | None = None) -> Iterator[tuple[str, str]]:
    """What a site agrees to by answering, as (label, sentence); ``members`` are those of the roster.

    Examples
    --------
    >>> from logofair.federation import make_plan
    >>> plan = make_plan(groups=["F", "M"], local_tolerance=0.05, run="spring")
    >>> dict(plan_sentences(plan))["Required"]
    'selection rate gap <= 0.05 per site.'
    """
    yield "Plan", f"Run {plan.run}, digest {plan.fingerprint}."
    if members is not None:
        names = f": {listed_names(members.names, show=str)}" if members.names else ""
        yield "Sites", f"{members.number:,}{names}; the run fails with fewer than {plan.quorum}."
    yield "Groups", f"{', '.join(map(str, plan.groups))}."
    yield "Required", _required_sentence(plan)
    if not plan.inside.may_reject or plan.inside.limited:
        yield (
            "Feasible",
            "This site sends whether the requirements inside it can be met, as the sum by which their limits would "
            "have to be looser.",
        )
    rates = []
    for rate in own_rates(plan.rates).values():
        base = (rate.constant, rate.slope) if rate.base is None else rate.base
        rates.append(
            f"the {rate.name} counts an accepted row of chance p as {rate.constant:g} + {rate.slope:g} p, and any row "
            f"as {base[0]:g} + {base[1]:g} p"
        )
    if rates:
        yield "Rates", f"{'; '.join(rates)}."
    yield from _what_is_sent(plan)
    yield (
        "Published",
        "To every site and to whom the server's people choose: requirements, "
        f"{'names' if plan.secure else 'number'} of the sites, names of those that dropped out, rows and rates of each "
        f"group over all of them, expected {plan.objective} and its bound, prices"
        f"{', scores of each group over all' if plan.pooling != 'none' else ''}. This site's policy stays here.",
    )


def _who_sees_what(plan: Plan) -> Iterator[tuple[str, str]]:
    """What secure sums hide, and what not."""
    yield (
        "Sums",
        "Secure: the server and every site see sums, each over 3 sites or more, from which a site can take its "
        "own part; what sums tell of single rows is measured in docs/THREATS.md.",
    )
    yield "Not hidden", "The server and every site learn by each site's name which groups it has enough people of."
    if plan.privacy is None:
        yield (
            "Not hidden",
            "A site that lies in its answers can read some scores of the others between the prices; only "
            "differential privacy ends that.",
        )


def _what_is_sent(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.secure:
        yield from _who_sees_what(plan)
    else:
        yield "Sums", "Not secure: the server sees the sums of this site by themselves."
    privacy = plan.privacy
    if privacy is None:
        yield "Privacy", "No differential privacy: sums are exact."
    else:
        yield (
            "Privacy",
            f"Differential privacy: one noised histogram, epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, "
            f"neighbours by {privacy.neighbours}.",
        )
    if plan.smallest_cell > 1:
        yield "Small groups", f"A group with fewer than {plan.smallest_cell} rows here is left out of all that is sent."
    elif privacy is None:
        yield "Small groups", "Every group is counted, however few rows it has here."
    drawn = f"{plan.folds} folds drawn with seed {plan.random_state}"
    if plan.calibration != "none":
        yield "Calibration", f"{plan.calibration}: sums over scores and labels are sent, for {drawn}."
    else:
        yield (
            "Calibration",
            f"None: scores count as chances{f', and there are {drawn}' if plan.deals_folds else ''}.",
        )
    if plan.pooling != "none":
        yield (
            "Pooling",
            "Histograms of this site's scores are sent, so that small groups at all sites can borrow from them.",
        )
    solver = plan.solver
    if solver is None:
        yield (
            "Rounds",
            f"At most {plan.rounds} rounds of questions, each with at most {counted(plan.trials_at_most(), 'price')} "
            f"of the global requirements, until nothing is better by more than {plan.optimality_gap:g}.",
        )
    else:
        step = "found in the run" if solver.step is None else f"{solver.step:g}"
        yield (
            "Rounds",
            f"Algorithm 1, at most {solver.rounds} rounds of {solver.local_steps} local steps, with sharpness "
            f"{solver.sharpness:g} and a step {step}.",
        )


def run_page(result: RunResult, *, written: tuple[str, ...] = (), next_: str = "") -> Page:
    """Return the page of a run's result."""
    plan, sites = result.plan, result.sites
    about = "about " if plan.privacy is not None else ""
    groups = [
        f"{group} {mass:,.0f}" for group, mass in zip(group_names(plan.groups, 20), result.totals.mass, strict=True)
    ]
    # Gaps inside a site are known there alone.
    gaps = [
        (each.rate.name, in_points(float(gap)), limit_points(round(each.tolerance, 5)))
        for each, gap in zip(plan.over_all.compared, result.global_gaps, strict=True)
        if np.isfinite(each.tolerance)
    ]
    head, after = ("gap over all sites, points", "now", "limit"), "Gaps inside a site stand in its own policy."
    sentences = list(_run_sentences(result))
    facts = [(label, " ".join(each for _, each in own)) for label, own in groupby(sentences, key=itemgetter(0))]
    return Page(
        "Federated run",
        f"Run {plan.run}: {about}{people(result.totals.mass.sum())} at {counted(len(sites), 'site')} "
        f"({listed(sites, _SITES)}), {listed(groups, _SITES)}.",
        table=Table("Gaps", head, tuple(gaps), "lrr", after=after) if gaps else None,
        answers=tuple(_answers(result)),
        warnings=tuple(_warnings(sentences)),
        next=next_,
        sections=(Section("run", "The run", (Facts(tuple(facts)),)),),
        values=result.as_dict(),
        written=written,
    )


def _warnings(sentences: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Those of a run's sentences that somebody should act on; of sites that were excluded the first few."""
    excluded = [each for label, each in sentences if label == "Excluded"]
    yield from (f"Excluded: {each}" for each in excluded[:_EXCLUDED])
    if len(excluded) > _EXCLUDED:
        yield f"{len(excluded) - _EXCLUDED:,} more sites were excluded; --verbose names them."
    yield from (each for label, each in sentences if label in ("WARNING", "NOT MEASURED"))


def _answers(result: RunResult) -> Iterator[Answer]:
    question, bound = "Is it fair now?", "no rule within the limits"
    if result.certificate.meets_requirements:
        yield Answer(question, "Limits", "Every limit holds", "", "on the rows of the sites, in expectation")
    else:
        inside = f", and inside {counted(result.exceeding, 'site')}" if result.exceeding else ""
        excess = f"by up to {short_number(result.violation)} over all sites{inside}"
        yield Answer(question, "Limits", "A limit is exceeded", "", excess)
    if result.plan.objective == "accuracy":
        best = f"expected; {bound} has more than {points(result.bound, 2)} %"
        yield Answer("What does it cost?", "Accuracy", points(result.accuracy, 2), "%", best)
    else:
        best = f"expected; {bound} costs less than {short_number(result.bound)}"
        yield what_it_costs(short_number(result.accuracy), "per person", best)
    how = "logofair audit FILE --policy POLICY measures a site's policy on other people"
    yield can_rely("Not known", "proved of the sites' own people alone", how)
    if result.plan.secure:
        seen = "the server saw sums over 3 sites or more; docs/THREATS.md says what they tell"
        yield Answer("Who saw what?", "Sums", "Secure", "", seen)


def _run_sentences(result: RunResult) -> Iterator[tuple[str, str]]:
    """What was required, what holds, how the numbers came together, and warnings, as (label, sentence)."""
    plan, certificate = result.plan, result.certificate
    yield "Required", _required_sentence(plan)
    rows = f"the rows of {counted(len(result.sites), 'site')}"
    solver = None if plan.solver is None else "algorithm1"
    proved = proof_sentences(certificate.info, rows=rows, solver=solver, calibration=plan.calibration)
    yield "Holds" if certificate.holds else "Found", " ".join(proved)
    for requirement, gap in zip(plan.over_all.compared, result.global_gaps, strict=True):
        if np.isfinite(requirement.tolerance):
            yield "Gaps", f"{requirement.rate.name} over all sites: {gap:.5f} of {requirement.tolerance:g} allowed."
    ratios = {each.rate.name for each in plan.over_all.compared if each.ratio is not None}
    for name, own in result.required.by_name(result.rates).items():
        rates = ", ".join(f"{group} {rate:.5f}" for group, rate in own.items())
        nothing = name in ratios and max(own.values(), default=0.0) < 1e-9
        none = " All are 0, so a ratio says nothing." if nothing else ""
        yield "Rates", f"{name} over all sites: {rates}.{none}"
    for name, price in result.prices_by_name.items():
        if price > 1e-9:
            won = ("saves", "a person") if plan.objective == "cost" else ("wins", "accuracy")
            yield "Price", f"{name!r} looser by 0.01 {won[0]} at most {0.01 * price:.5f} {won[1]}."
    yield from _sources(result)
    yield from _reservations(result)


def _sources(result: RunResult) -> Iterator[tuple[str, str]]:
    """How the numbers came together."""
    plan = result.plan
    if result.totals.priors is not None:
        yield "Pooling", f"{pooling_sentence(result.pooling)} {_own_rows(result)}"
    if result.totals.maps is not None:
        names, places = np.array([str(group) for group in plan.groups]), result.totals.maps.places
        for place in np.unique(places).tolist():
            few = names[places == place].tolist()
            if place >= 0 and len(few) > 1:
                yield (
                    "Calibration",
                    f"{listed_names(few, show=str)} have few rows each and were calibrated as one group.",
                )
            elif place < 0:
                others = "the map of the other groups" if len(few) < names.size else "the scores as they are"
                yield (
                    "NOT MEASURED",
                    f"How scores of {listed_names(few, show=str)} relate to labels over all sites is not known: too "
                    f"few rows, or too few sites with both labels; every site started from {others}.",
                )
    if plan.smallest_cell > 1:
        yield (
            "Small groups",
            f"A group with fewer than {plan.smallest_cell} rows at a site is in none of these figures and "
            "gets the rule of all sites taken as one; the site's own policy names it.",
        )
    counts = ", ".join(f"{purpose} {count}" for purpose, count in result.exchanges.items())
    yield "Exchanges", f"{sum(result.exchanges.values())} in all: {counts}."
    if plan.secure:
        yield from _who_sees_what(plan)
    if plan.privacy is not None:
        yield (
            "Privacy",
            f"All numbers come from one noised histogram per site (epsilon {plan.privacy.epsilon:g}, delta "
            f"{plan.privacy.delta:g}); the requirements are met on these counts, and real rows differ from them. No "
            "group borrows from other sites.",
        )


def _own_rows(result: RunResult) -> str:
    """What holds on the sites' own rows, in a sentence."""
    rows = result.own_rows
    own = []
    if rows.accuracy is not None:
        at_costs = "" if result.plan.objective == "accuracy" else " at the plan's costs"
        own.append(f"expected {result.plan.objective} {rows.accuracy:.5f}{at_costs}")
    if SELECTED.terms in [each.terms for each in result.plan.over_all.combinations] and result.figures.own.size:
        own.append(f"share of people selected {result.figures.own[:, 0].sum() / result.totals.mass.sum():.5f}")
    if rows.global_gaps:
        own.append("gaps over all sites: " + ", ".join(f"{name} {gap:.5f}" for name, gap in rows.global_gaps.items()))
    alone = f"On the sites' own rows alone: {', '.join(own)}; gaps" if own else "Gaps"
    return f"{alone} inside a site stand in its own policy."


def _reservations(result: RunResult) -> Iterator[tuple[str, str]]:
    """Who is missing, and what was not reached."""
    for each in result.excluded:
        # Whoever is still in the roster was counted: only the confirmation of the result did not come.
        rest = "it may not have its policy yet" if each.site in result.sites else "the figures are about the others"
        if each.known and (result.totals.maps is not None or result.totals.priors is not None):
            rest += ", whose calibrators and priors were made together with it"
        yield "Excluded", f"{name_of(each.site)}: {each.reason} (during {each.purpose}); {rest}."
    certificate = result.certificate
    if not certificate.meets_requirements:
        inside = f", and one inside {counted(result.exceeding, 'site')}" if result.exceeding else ""
        yield (
            "WARNING",
            f"A limit over all sites is exceeded by up to {result.violation:.5f}{inside}: algorithm1 may exceed its "
            "limits; use the exact solver to keep them.",
        )
    elif not certificate.holds and result.plan.solver is None:
        yield (
            "WARNING",
            "Every requirement is met, but the optimality gap is still above "
            f"{certificate.largest_optimality_gap:g}, the one agreed on, after {result.rounds:,} "
            f"{'round' if result.rounds == 1 else 'rounds'}: a better rule may exist; allow more rounds.",
        )
