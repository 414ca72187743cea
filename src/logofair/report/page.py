"""The page: header, sections and footer in one file with its own style and script, and leave to load nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from logofair.report.clients_section import clients_section
from logofair.report.closing import cite_section, warnings_section
from logofair.report.data_sections import cells_section, reliability_section, rules_section
from logofair.report.facts import Facts
from logofair.report.frontier_view import frontier_section
from logofair.report.glance import glance_section, verdict_banner
from logofair.report.markup import Element, Trusted, render, tag
from logofair.report.prices_section import prices_section
from logofair.report.section import Section, render_section
from logofair.report.wording import counted, joined

__all__ = ["render_page", "report_sections"]


def report_sections(facts: Facts) -> tuple[Section, ...]:
    """Return the report's sections in reading order.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report.facts import gather
    >>> from logofair.report.provenance import Provenance, in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 0, 1, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> [section.anchor for section in report_sections(gather(solution, Provenance(in_memory("4", solution), "fit")))]
    ['glance', 'clients', 'frontier', 'prices', 'rules', 'reliability', 'cells', 'warnings', 'cite']
    """
    return (
        glance_section(facts),
        clients_section(facts),
        frontier_section(facts.frontier),
        prices_section(facts),
        rules_section(facts),
        reliability_section(facts),
        cells_section(facts),
        warnings_section(facts),
        cite_section(facts),
    )


def render_page(facts: Facts) -> str:
    """Return the report as one HTML document.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report.facts import gather
    >>> from logofair.report.provenance import Provenance, in_memory
    >>> solution = logofair.fit([0.9, 0.2], None, groups=["<a>", "b"], calibration="none")
    >>> page = render_page(gather(solution, Provenance(in_memory("two rows", solution), "fit")))
    >>> "&lt;a&gt;" in page, "<a>" in page
    (True, False)
    """
    sections = report_sections(facts)
    script = files("logofair.report").joinpath("script.js").read_text("utf-8")
    title = f"Fairness report: {facts.provenance.data.name}"
    document = tag(
        "html",
        tag("head", _head(title, script)),
        tag(
            "body",
            tag("a", "Skip to the report", href="#report", class_="skip"),
            _header(facts),
            tag("div", _contents(sections), _main(facts, sections), class_="page"),
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


def _header(facts: Facts) -> Element:
    groups = joined(facts.groups, most=6)
    clients = f", {counted(len(facts.clients), 'client')}" if facts.has_clients else ""
    about = f"{counted(facts.solution.rows.scores.size, 'calibration row')}{clients}; groups {groups}"
    made = f" Made {facts.provenance.made}." if facts.provenance.made else ""
    return tag(
        "header",
        tag("p", "Fairness report", class_="kind"),
        tag("h1", tag("bdi", facts.provenance.data.name)),
        tag("p", f"{about}.{made}", class_="about"),
        tag("button", "Dark", type="button", id="theme", class_="js-only"),
    )


def _contents(sections: tuple[Section, ...]) -> Element:
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return tag("nav", tag("ol", links), aria_label="Contents")


def _main(facts: Facts, sections: tuple[Section, ...]) -> Element:
    return tag("main", verdict_banner(facts), [render_section(section) for section in sections], id="report")
