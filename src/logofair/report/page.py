"""The page: header, sections, warnings and sources in one file with its own style and script, and nothing to load."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING

from logofair._version import __version__
from logofair.columns.checks import listed
from logofair.files.inputs import DataSource
from logofair.files.writing import put_whole
from logofair.fitting.solution import FitWarning, Solution
from logofair.report.clients import clients_section
from logofair.report.contents import ReportContents
from logofair.report.costs import frontier_section, prices_section
from logofair.report.glance import glance_section, verdict_banner
from logofair.report.markup import (
    Element,
    Section,
    Trusted,
    grid,
    named,
    note,
    paragraph,
    render,
    render_section,
    tag,
    text,
)
from logofair.report.measured import NewRows, measure_calibration, measure_new, required_gaps
from logofair.report.rules import cells_section, reliability_section, rules_section
from logofair.report.verdict import judge
from logofair.report.wording import counted

if TYPE_CHECKING:
    from logofair.tradeoff import Frontier

__all__ = ["report_html", "write_report"]

_PAPER = """@inproceedings{zhang2025logofair,
  title     = {LoGoFair: Post-Processing for Local and Global Fairness in Federated Learning},
  author    = {Zhang, Li and Chen, Chaochao and Han, Zhongxuan and Zhong, Qiyong and Zheng, Xiaolin},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year      = {2025}
}"""


def _rendered(contents: ReportContents) -> str:
    """The report as one HTML document."""
    sections = (
        glance_section(contents),
        clients_section(contents),
        frontier_section(contents.frontier),
        prices_section(contents),
        rules_section(contents),
        reliability_section(contents),
        cells_section(contents),
        _warnings(contents),
        _cite(contents),
    )
    main = tag("main", verdict_banner(contents), [render_section(section) for section in sections], id="report")
    script = files("logofair.report").joinpath("script.js").read_text("utf-8")
    document = tag(
        "html",
        tag("head", _head(f"Fairness report: {contents.data.name}", script)),
        tag(
            "body",
            tag("a", "Skip to the report", href="#report", class_="skip"),
            _header(contents),
            tag("div", _navigation(sections), main, class_="page"),
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
    groups = listed(contents.groups, len(contents.groups), most=6)
    clients = f", {counted(len(contents.clients), 'client')}" if contents.has_clients else ""
    about = f"{counted(contents.solution.rows.scores.size, 'calibration row')}{clients}; groups {groups}"
    made = f" Made {contents.made}." if contents.made else ""
    return tag(
        "header",
        tag("p", "Fairness report", class_="kind"),
        tag("h1", tag("bdi", contents.data.name)),
        tag("p", f"{about}.{made}", class_="about"),
        tag("button", "Dark", type="button", id="theme", class_="js-only"),
    )


def _navigation(sections: tuple[Section, ...]) -> Element:
    links = [tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections]
    return tag("nav", tag("ol", links), aria_label="Contents")


def _warnings(contents: ReportContents) -> Section:
    """Return what a reader should be careful with."""
    found = contents.solution.warnings
    if not found:
        return Section("warnings", "Warnings", (paragraph("None: every cell has enough rows of both labels."),))
    items = tag("ul", [_warning(warning) for warning in found], class_="warnings")
    return Section("warnings", "Warnings", (paragraph("Where a requirement rests on little or nothing:"), items))


def _warning(warning: FitWarning) -> Element:
    """A warning, what is wrong first: the cells concerned may be many."""
    what, where = warning.finding, warning.subject
    return tag("li", tag("strong", what[:1].upper() + what[1:], "."), " ", where[:1].upper() + where[1:], ".")


def _cite(contents: ReportContents) -> Section:
    """Return how to cite the report and make it again; the report holds no rows."""
    rows = [[named(name), text(value, mark="code")] for name, value in _rests_on(contents)]
    again = (
        paragraph("The command:"),
        tag("pre", tag("code", contents.command), tabindex="0", aria_label="The command"),
        grid("What the figures rest on", ["what", "value"], rows),
        note("This page holds totals and rules, never rows."),
    )
    software = f"logofair {__version__}: fair decisions inside every client and over all of them"
    cited = (
        paragraph(f"The LoGoFair developers. {software}. The method, corrected and extended here, is from:"),
        tag("pre", tag("code", _PAPER), tabindex="0", aria_label="BibTeX entry"),
    )
    parts = (Section("reproduce", "Make it again", again), Section("citation", "Cite", cited))
    return Section("cite", "Cite and reproduce", (), parts)


def _rests_on(contents: ReportContents) -> Iterator[tuple[str, str]]:
    """What it takes to know that the same was made again."""
    solution, data = contents.solution, contents.data
    of = "of the file" if len(data.files) == 1 else "of the list of files" if data.files else "of the checked columns"
    yield "data", listed(data.files, len(data.files), most=5) if data.files else data.name
    yield f"SHA-256 {of}", data.fingerprint
    if data.columns:
        yield "columns", ", ".join(f"{role}: {name}" for role, name in data.columns.items())
    yield "rows, clients, groups", f"{solution.rows.scores.size:,}, {len(contents.clients):,}, {len(contents.groups):,}"
    yield "solver", f"{solution.solver}, {counted(solution.rounds, 'round')}"
    yield "calibration", solution.policy.calibrator.method
    certificate = solution.certificate
    yield "counted in", "labels" if certificate.basis == "labels" else "calibrated chances"
    yield "expected accuracy, and its upper bound", f"{certificate.primal:.6f}, {certificate.dual:.6f}"
    yield "certificate: optimality gap, violation", f"{certificate.optimality_gap:.1e}, {certificate.violation:.1e}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in _versions())
    if contents.made:
        yield "made", contents.made


def _versions() -> Iterator[tuple[str, str]]:
    """The versions a result may depend on, of what is installed."""
    yield "logofair", __version__
    yield "Python", platform.python_version()
    for package in ("numpy", "scipy", "numba", "polars"):
        with suppress(PackageNotFoundError):
            yield package, version(package)


def report_html(
    solution: Solution,
    *,
    data: DataSource,
    command: str,
    new_rows: NewRows | None = None,
    frontier: Frontier | None = None,
    made: str | None = None,
) -> str:
    """Return a solution's report as one HTML document that needs nothing else; arguments as for `write_report`."""
    local, global_ = required_gaps(solution)
    calibration = measure_calibration(solution)
    new = None if new_rows is None else measure_new(solution, new_rows)
    verdict = judge(solution, local, global_, calibration, new)
    return _rendered(ReportContents(solution, data, command, made, calibration, new, local, global_, verdict, frontier))


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
