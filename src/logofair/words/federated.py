"""The page of a federated run: what holds over all sites, what it costs, who took part, and what to be careful with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from logofair.federation.result import RunResult
from logofair.words.phrases import counted, limit_points, listed, name_of, people, points, short_number
from logofair.words.sections import Answer, Cell, Facts, Page, Section, Table

_SITES = 6  # named in the title
_EXCLUDED = 3


def run_page(result: RunResult, *, written: tuple[str, ...] = (), next_: str = "") -> Page:
    """Return the page of a run's result.

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import SiteColumns, make_plan
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", smallest_cell=1, run="demo")
    >>> run_page(run(plan, {"north": rows, "south": rows}).result).title
    'Run demo: 8 people at 2 sites (north and south), F 4 and M 4.'
    """
    plan, sites = result.plan, result.sites
    about = "about " if plan.privacy is not None else ""
    groups = [f"{name_of(group, 20)} {mass:,.0f}" for group, mass in zip(plan.groups, result.mass, strict=True)]
    title = (
        f"Run {plan.run}: {about}{people(result.mass.sum())} at {counted(len(sites), 'site')} "
        f"({listed(sites, _SITES)}), {listed(groups, _SITES)}."
    )
    lines = [
        (label, " ".join(sentence for _, sentence in own))
        for label, own in groupby(result.sentences(), key=itemgetter(0))
    ]
    return Page(
        "Federated run",
        title,
        table=_gaps(result),
        answers=tuple(_answers(result)),
        warnings=tuple(_warnings(result)),
        next=next_,
        sections=(Section("run", "The run", (Facts(tuple(lines)),)),),
        values=result.as_dict(),
        written=written,
    )


def _gaps(result: RunResult) -> Table | None:
    """The gaps over all sites beside their limits; those inside a site are known there alone."""
    lines = [
        (each.rate.name, Cell(points(float(gap)), float(gap)), limit_points(round(each.tolerance, 5)))
        for each, gap in zip(result.plan.constrained, result.global_gaps, strict=True)
        if each.tolerance is not None
    ]
    after = "Gaps inside a site stand in its own policy."
    return (
        Table("Gaps", ("gap over all sites, points", "now", "limit"), tuple(lines), "lrr", after=after)
        if lines
        else None
    )


def _answers(result: RunResult) -> Iterator[Answer]:
    certificate = result.certificate
    if certificate.meets_requirements:
        yield Answer("Is it fair now?", "Limits", "Every limit holds", "", "on the rows of the sites, in expectation")
    else:
        inside = f", and inside {counted(result.exceeding, 'site')}" if result.exceeding else ""
        excess = f"by up to {short_number(result.violation)} over all sites{inside}"
        yield Answer("Is it fair now?", "Limits", "A limit is exceeded", "", excess)
    question = "What does it cost?"
    if result.objective == "accuracy":
        best = f"no rule within the limits has more than {points(result.bound, 2)} %"
        yield Answer(question, "Accuracy", points(result.accuracy, 2), "%", f"expected; {best}")
    else:
        best = f"no rule within the limits costs less than {short_number(result.bound)}"
        yield Answer(question, "Cost", short_number(result.accuracy), "per person", f"expected; {best}")
    how = "logofair audit FILE --policy POLICY measures a site's policy on other people"
    yield Answer("Can I rely on it?", "Rely on it", "Not known", "", f"proved of the sites' own people alone; {how}")
    if result.plan.secure:
        seen = "the server saw sums over 3 sites or more; docs/THREATS.md says what they tell"
        yield Answer("Who saw what?", "Sums", "Secure", "", seen)


def _warnings(result: RunResult) -> Iterator[str]:
    for each in result.excluded[:_EXCLUDED]:
        yield f"Excluded: {name_of(each.site)}: {each.reason} (during {each.purpose})."
    if len(result.excluded) > _EXCLUDED:
        yield f"{len(result.excluded) - _EXCLUDED:,} more sites were excluded; --verbose names them."
    certificate = result.certificate
    if not certificate.meets_requirements:
        yield "algorithm1 may exceed its limits; the exact solver keeps them."
    elif not certificate.holds and result.plan.solver is None:
        rounds = counted(result.rounds, "round")
        yield f"The optimality gap is still above the one agreed on after {rounds}: allow more rounds."
    yield from (sentence for label, sentence in result.sentences() if label == "NOT MEASURED")
