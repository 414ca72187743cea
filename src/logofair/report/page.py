"""The page: header, sections and footer in one file with its own style and script, and leave to load nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from typing import TYPE_CHECKING

from logofair.files.tables import DataSource
from logofair.files.writing import put_whole
from logofair.fitting.solution import Solution
from logofair.report.contents import Provenance, ReportContents, gather
from logofair.report.markup import Element, Section, Trusted, render, render_section, tag
from logofair.report.measured import NewRows
from logofair.report.sections.clients import clients_section
from logofair.report.sections.closing import cite_section, warnings_section
from logofair.report.sections.data import cells_section, reliability_section, rules_section
from logofair.report.sections.frontier import frontier_section
from logofair.report.sections.glance import glance_section, verdict_banner
from logofair.report.sections.prices import prices_section
from logofair.report.wording import counted, joined

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

__all__ = ["render_page", "report_html", "report_sections", "write_report"]


def report_sections(contents: ReportContents) -> tuple[Section, ...]:
    """Return the report's sections in reading order.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report.contents import in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 0, 1, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> [section.anchor for section in report_sections(gather(solution, Provenance(in_memory("4", solution), "fit")))]
    ['glance', 'clients', 'frontier', 'prices', 'rules', 'reliability', 'cells', 'warnings', 'cite']
    """
    return (
        glance_section(contents),
        clients_section(contents),
        frontier_section(contents.frontier),
        prices_section(contents),
        rules_section(contents),
        reliability_section(contents),
        cells_section(contents),
        warnings_section(contents),
        cite_section(contents),
    )


def render_page(contents: ReportContents) -> str:
    """Return the report as one HTML document.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report.contents import in_memory
    >>> solution = logofair.fit([0.9, 0.2], None, groups=["<a>", "b"], calibration="none")
    >>> page = render_page(gather(solution, Provenance(in_memory("two rows", solution), "fit")))
    >>> "&lt;a&gt;" in page, "<a>" in page
    (True, False)
    """
    sections = report_sections(contents)
    script = files("logofair.report").joinpath("script.js").read_text("utf-8")
    title = f"Fairness report: {contents.provenance.data.name}"
    document = tag(
        "html",
        tag("head", _head(title, script)),
        tag(
            "body",
            tag("a", "Skip to the report", href="#report", class_="skip"),
            _header(contents),
            tag("div", _navigation(sections), _main(contents, sections), class_="page"),
            tag("footer", tag("p", "Made by logofair. This file is complete: it loads nothing and sends nothing.")),
            tag("script", Trusted(script)),
        ),
        lang="en",
    )
    return "<!DOCTYPE html>\n" + render(document) + "\n"


def _head(title: str, script: str) -> list[Element]:
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
        tag("style", Trusted(style)),
    ]


def _header(contents: ReportContents) -> Element:
    groups = joined(contents.groups, most=6)
    clients = f", {counted(len(contents.clients), 'client')}" if contents.has_clients else ""
    about = f"{counted(contents.solution.rows.scores.size, 'calibration row')}{clients}; groups {groups}"
    made = f" Made {contents.provenance.made}." if contents.provenance.made else ""
    return tag(
        "header",
        tag("p", "Fairness report", class_="kind"),
        tag("h1", tag("bdi", contents.provenance.data.name)),
        tag("p", f"{about}.{made}", class_="about"),
        tag("button", "Dark", type="button", id="theme", class_="js-only"),
    )


def _navigation(sections: tuple[Section, ...]) -> Element:
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return tag("nav", tag("ol", links), aria_label="Contents")


def _main(contents: ReportContents, sections: tuple[Section, ...]) -> Element:
    return tag("main", verdict_banner(contents), [render_section(section) for section in sections], id="report")


def report_html(
    solution: Solution,
    *,
    data: DataSource,
    command: str,
    new_rows: NewRows | None = None,
    frontier: Frontier | None = None,
    made: str | None = None,
) -> str:
    """Return a solution's report as one HTML document that needs nothing else; arguments as for `write_report`.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> report_html(solution, data=in_memory("four rows", solution), command="logofair fit rows.csv")[:15]
    '<!DOCTYPE html>'
    """
    return render_page(gather(solution, Provenance(data, command, made), new_rows, frontier))


def write_report(
    path: str | os.PathLike[str],
    solution: Solution,
    *,
    data: DataSource,
    command: str,
    new_rows: NewRows | None = None,
    frontier: Frontier | None = None,
    made: str | None = None,
) -> None:
    """Write a solution's report: one HTML file that opens offline, in any browser, on a phone and on paper.

    It holds figures, rules and the names of clients and groups, never rows.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced at once or not at all.
    solution : Solution
        What :func:`logofair.fit` returned.
    data : DataSource
        The data's name and fingerprint; :func:`in_memory` makes one for rows that came from no file.
    command : str
        What makes the same again, as it would be typed.
    new_rows : NewRows, optional
        Rows that took no part in the fit, to measure the policy on.
    frontier : Frontier, optional
        The trade-off that :func:`logofair.tradeoff.frontier` found, shown with the chosen point.
    made : str, optional
        The day it was made, as it should be written.

    Raises
    ------
    InputError
        If the file cannot be written, or the new rows cannot be used.

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
    page = report_html(solution, data=data, command=command, new_rows=new_rows, frontier=frontier, made=made)
    put_whole(path, page.encode("utf-8"))
