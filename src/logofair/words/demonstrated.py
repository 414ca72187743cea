"""The demonstration's page: four ways to decide in one table, what improved, what it cost, and where the report is."""

from __future__ import annotations

from dataclasses import replace

from logofair.datasets.demonstration import BASE, Comparison, MethodResult
from logofair.tradeoff import frontier
from logofair.words.about import About, in_memory
from logofair.words.fitted import fit_page, rely_answer
from logofair.words.limits import Places
from logofair.words.people import cost_answer, rates_table
from logofair.words.phrases import NOTHING, counted, limit_points, listed, name_of, points
from logofair.words.sections import Answer, Cell, CellText, Page, Section, Table

_WAYS = {"LoGoFair_g": "fair overall", "LoGoFair_l": "fair per site", "LoGoFair_l&g": "fair both ways"}


def demo_report(found: Comparison, about: About) -> Page:
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


def demo_page(found: Comparison, *, report: str = "", kept: bool = False) -> Page:
    """Return the page of a demonstration; ``kept``: a report was there already and stays."""
    settings, rows = found.settings, found.rows
    title = (
        f"{found.data.capitalize()}: {sum(rows.values()):,} people dealt to {counted(settings.sites, 'site')}, "
        f"{listed([name_of(each) for each in found.groups])}. Tested on {rows['test']:,} others."
    )
    base, best = found.outcomes[0], found.outcomes[-1]
    assert best.difference is not None  # every way but the first is compared with the first
    gap = (base.audit.headline_global.value, best.audit.headline_global.value)
    local = (base.audit.headline_local.value, best.audit.headline_local.value)
    answers = (
        Answer(
            "What improved?",
            "Fair",
            f"overall {points(gap[0])} -> {points(gap[1])}",
            "points",
            f"at the worst site {points(local[0])} -> {points(local[1])}",
        ),
        cost_answer(best.difference),
        rely_answer(found.fair_tested.outcomes, Places(), "", found.fair_tested.tested),
    )
    audits = [(each.name, each.audit) for each in found.outcomes]
    written = (report,) if report and not kept else ()
    stays = (f"{report} is there already and stays; --force replaces it.",) if kept else ()
    return Page(
        "Demonstration",
        title,
        table=_table(found),
        answers=answers,
        warnings=stays,
        next="logofair federate example --out data",
        sections=(Section("rates", "Rates on the test rows", (rates_table(audits, "Rates of every group"),)),),
        values=found.as_dict(),
        written=written,
    )


def _table(found: Comparison) -> Table:
    def line(each: MethodResult) -> tuple[CellText, ...]:
        audit = each.audit
        gaps = [audit.headline_global.value, audit.headline_local.value]
        name = each.name if each.name == BASE else f"{each.name}: {_WAYS[each.name]}"
        asked = [
            NOTHING if limit is None else limit_points(limit) for limit in (each.global_tolerance, each.local_tolerance)
        ]
        limits = " / ".join(asked)
        return (name, limits, *(Cell(points(gap), gap) for gap in gaps), Cell(points(audit.accuracy), audit.accuracy))

    head = ("gap in points on the test rows", "limits", "overall", "worst site", "accuracy")
    after = "Limits: overall / per site. The worst site is one with 30 people or more of every group."
    return Table("Four ways to decide", head, tuple(map(line, found.outcomes)), "lrrrr", after=after)
