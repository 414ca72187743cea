"""The pages: header, sections and sources in one file with its own style and script, and nothing to load."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from logofair.auditing import Comparison
from logofair.auditing.result import RuleAudit
from logofair.columns.checks import listed
from logofair.files.inputs import DataSource
from logofair.files.writing import put_whole
from logofair.fitting.solution import Solution
from logofair.policy.policy import Policy
from logofair.report.contents import ReportContents
from logofair.report.figures import figures_section
from logofair.report.frontier import frontier_section
from logofair.report.heading import ReportHeading
from logofair.report.markup import Element, Section, Trusted, render, render_section, tag
from logofair.report.measured import MeasuredRows, audited_rows, calibration_rows, other_rows
from logofair.report.promises import promises_section
from logofair.report.proof import proof_section
from logofair.report.required import requirements_section
from logofair.report.rules import reliability_section, rules_section
from logofair.report.sites import sites_section
from logofair.report.sources import audit_sources, solution_sources, warnings_section
from logofair.report.verdict import judge, verdict_banner
from logofair.report.wording import counted, name_of, sentence

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

_PLAIN = ReportHeading()


def document(
    header: Element, title: str, banner: Element | None, sections: Sequence[Section | None], style: str = ""
) -> str:
    """One HTML document of these sections; ``style`` is what it needs beyond the style of all pages."""
    shown = [section for section in sections if section is not None]
    main = tag("main", banner, [render_section(section) for section in shown], id="report")
    script = files("logofair.report").joinpath("script.js").read_text("utf-8")
    tree = tag(
        "html",
        tag("head", _head(title, script, style)),
        tag(
            "body",
            tag("a", "Skip to the report", href="#report", class_="skip"),
            header,
            tag("div", _navigation(shown), main, class_="page"),
            tag("footer", tag("p", "Made by logofair. This file is complete: it loads nothing and sends nothing.")),
            tag("script", Trusted(script)),
        ),
        lang="en",
    )
    return "<!DOCTYPE html>\n" + render(tree) + "\n"


def _head(title: str, script: str, more: str) -> list[Element]:
    style = files("logofair.report").joinpath("style.css").read_text("utf-8")
    # Nothing may be loaded and no script may run but our own, whatever the data holds.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    return [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=allowed),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Trusted(style + more)),
    ]


def page_header(kind: str, title: str, about: Iterable[tuple[str, str]]) -> Element:
    """The head of a page: of which kind it is, its title, and lines of what it is about."""
    lines = [tag("div", tag("dt", name), tag("dd", tag("bdi", words))) for name, words in about]
    return tag(
        "header",
        tag("p", kind, class_="kind"),
        tag("h1", tag("bdi", title)),
        tag("dl", lines, class_="about"),
        tag("button", "Dark", type="button", id="theme", class_="js-only"),
    )


def _header(kind: str, heading: ReportHeading, data: DataSource, measured: Sequence[MeasuredRows]) -> Element:
    """What the report is of, what for, who made it when, and what its words mean."""
    return page_header(kind, heading.title or data.name, _about(heading, data, measured))


def _about(heading: ReportHeading, data: DataSource, measured: Sequence[MeasuredRows]) -> Iterator[tuple[str, str]]:
    if heading.purpose:
        yield "Purpose", heading.purpose
    if heading.made or heading.author:
        yield "Made", ", ".join(filter(None, (heading.made, heading.author and f"by {heading.author}")))
    rows = " and ".join(f"{part.size:,} {part.name}" for part in measured)
    last = measured[-1]
    sites = f"; {counted(len(last.after.sites), 'site')}" if last.has_sites else ""
    named = f"{data.name}: " if heading.title else ""
    yield "Data", f"{named}{rows}{sites}"
    groups = [name_of(group) for group in last.after.groups]
    yield "Groups", listed(groups, len(groups), most=6)
    yield sentence(heading.accepted)[:-1], "a positive decision: the rule says 1"


def _navigation(sections: Sequence[Section]) -> Element:
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return tag("nav", tag("ol", links), aria_label="Contents")


def write_report(
    path: str | os.PathLike[str],
    solution: Solution,
    *,
    data: DataSource,
    command: str,
    frontier: Frontier | None = None,
    heading: ReportHeading = _PLAIN,
) -> None:
    """Write a solution's report: one HTML file that opens offline, in any browser, on a phone and on paper.

    It holds figures, rules and the names of sites and groups, never rows. Figures on rows that took no part in the
    fit come first: pass what :meth:`Solution.test` returns.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced at once or not at all.
    solution : Solution
        What :func:`logofair.fit` returned, or its ``test(...)``.
    data : DataSource
        The data's name and fingerprint; :func:`in_memory` makes one for rows that came from no file.
    command : str
        What makes the same again, as it would be typed.
    frontier : Frontier, optional
        The trade-off that :func:`logofair.tradeoff.frontier` found, shown with the chosen point.
    heading : ReportHeading, optional
        Title, purpose, who made it and when, and the word for a positive decision.

    Raises
    ------
    InputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, logofair
    >>> from logofair.report import in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/report.html"
    ...     write_report(path, solution, data=in_memory("four rows", solution), command="logofair fit rows.csv")
    ...     os.listdir(folder)
    ['report.html']
    """
    calibration, tested = calibration_rows(solution), other_rows(solution)
    verdict = judge(solution, tested)
    contents = ReportContents(solution, data, command, heading, calibration, tested, verdict, frontier)
    measured = [calibration] if tested is None else [tested, calibration]
    sections = (
        figures_section(contents.shown, heading.accepted, None if tested is None else calibration),
        requirements_section(
            () if tested is None else tested.after.requirements,
            solution.requirement_checks,
            solution.certificate.objective,
            solution.own_checks_sentence(),
        ),
        promises_section(contents),
        sites_section(contents.shown, contents),
        frontier_section(
            frontier,
            has_sites=contents.has_sites,
            policy_tested=tested is not None,
            price=solution.promises.price,
        ),
        proof_section(contents),
        rules_section(contents),
        reliability_section(contents),
        warnings_section(solution),
        solution_sources(contents),
    )
    header = _header("Fairness report", heading, data, measured)
    title = f"Fairness report: {heading.title or data.name}"
    put_whole(path, document(header, title, verdict_banner(verdict), sections).encode("utf-8"))


def write_audit_report(
    path: str | os.PathLike[str],
    audits: RuleAudit,
    *,
    data: DataSource,
    command: str,
    tolerance: float,
    heading: ReportHeading = _PLAIN,
    policy: Policy | None = None,
    comparison: Comparison | None = None,
) -> None:
    """Write an audit's report: one HTML file like that of :func:`write_report`, of decisions that are there already.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced at once or not at all.
    audits : RuleAudit
        One rule's figures for several notions.
    data, command, heading
        As for :func:`write_report`.
    tolerance : float
        What the gap inside each site is compared with.
    policy : Policy, optional
        The policy that decided, to say what it was made for.
    comparison : Comparison, optional
        Another rule and this one on the same rows, to show what was before.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from logofair.auditing.measure import tally_of
    >>> from logofair.auditing.result import RuleAudit
    >>> from logofair.columns.labels import encode, one_site
    >>> from logofair.files.inputs import DataSource
    >>> from logofair.notions import NOTIONS
    >>> group = encode(["a", "a", "b", "b"], "groups")
    >>> tally = tally_of(np.array([1.0, 0.0, 1.0, 1.0]), None, None, group, one_site(4))
    >>> audits = RuleAudit.of(tally, group.names, (None,), NOTIONS.values())
    >>> source = DataSource("four rows", (), "", 4, {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/audit.html"
    ...     write_audit_report(path, audits, data=source, command="logofair audit rows.csv", tolerance=0.05)
    ...     os.listdir(folder)
    ['audit.html']
    """
    rows = audited_rows(audits, comparison, tolerance)
    sections = (
        figures_section(rows, heading.accepted),
        requirements_section(audits.requirements),
        sites_section(rows),
        audit_sources(rows, data, command, tolerance, heading, policy),
    )
    title = f"Fairness audit: {heading.title or data.name}"
    page = document(_header("Fairness audit", heading, data, [rows]), title, None, sections)
    put_whole(path, page.encode("utf-8"))
