"""What a reader should be careful with, what the figures rest on, and how to make them again."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from logofair._version import __version__
from logofair.auditing import FEW_ROWS
from logofair.auditing.result import NOT_TESTED
from logofair.columns.checks import listed
from logofair.files.inputs import DataSource
from logofair.fitting.figures import rows_of
from logofair.fitting.solution import FitWarning, Solution
from logofair.policy.policy import Policy
from logofair.report.contents import ReportContents
from logofair.report.heading import ReportHeading
from logofair.report.markup import Element, Section, grid, named, note, paragraph, tag, text
from logofair.report.measured import MeasuredRows
from logofair.report.wording import counted, sentence
from logofair.requirements import requirement_sentences

_PAPER = """@inproceedings{zhang2025logofair,
  title     = {LoGoFair: Post-Processing for Local and Global Fairness in Federated Learning},
  author    = {Zhang, Li and Chen, Chaochao and Han, Zhongxuan and Zhong, Qiyong and Zheng, Xiaolin},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year      = {2025}
}"""


def warnings_section(solution: Solution) -> Section:
    """Return what a reader should be careful with."""
    found = solution.warnings
    if not found:
        return Section(
            "warnings", "Warnings", (paragraph(f"None: no cell is empty or has fewer than {FEW_ROWS} rows."),)
        )
    items = tag("ul", [_warning(warning) for warning in found], class_="warnings")
    return Section("warnings", "Warnings", (paragraph("Where a requirement rests on little or nothing:"), items))


def _warning(warning: FitWarning) -> Element:
    """A warning, what is wrong first: the cells concerned may be many."""
    what, where = warning.finding, warning.subject
    return tag("li", tag("strong", what[:1].upper() + what[1:], "."), " ", where[:1].upper() + where[1:], ".")


def solution_sources(contents: ReportContents) -> Section:
    """Return how to cite the report of a solution and make it again; the report holds no rows."""
    lines = [*data_lines(contents.data), *fit_lines(contents.solution), *made_lines(contents.heading)]
    return _sources(contents.command, lines)


def audit_sources(
    rows: MeasuredRows,
    data: DataSource,
    command: str,
    tolerance: float,
    heading: ReportHeading,
    policy: Policy | None,
) -> Section:
    """Return how to cite the report of an audit and make it again, and which policy decided."""
    lines = [*data_lines(data), ("measured on", counted(rows.size, "row")), ("tolerance", f"{tolerance:g}")]
    lines += [] if policy is None else policy_lines(policy)
    return _sources(command, [*lines, *made_lines(heading)])


def _sources(command: str, lines: Sequence[tuple[str, str]]) -> Section:
    rows = [[named(name), text(value, mark="code")] for name, value in lines]
    again = (
        paragraph("The command:"),
        tag("pre", tag("code", command), tabindex="0", aria_label="The command"),
        grid("What the figures rest on", ["what", "value"], rows),
        note("This page holds totals and rules, never rows."),
    )
    software = f"logofair {__version__}: fair decisions inside every site and over all of them"
    cited = (
        paragraph(f"The LoGoFair developers. {software}. The method, corrected and extended here, is from:"),
        tag("pre", tag("code", _PAPER), tabindex="0", aria_label="BibTeX entry"),
    )
    parts = (Section("reproduce", "Make it again", again), Section("citation", "Cite", cited))
    return Section("cite", "Cite and reproduce", (), parts)


def data_lines(data: DataSource) -> Iterator[tuple[str, str]]:
    """Which rows these are."""
    of = "of the file" if len(data.files) == 1 else "of the list of files" if data.files else "of the checked columns"
    yield "data", listed(data.files, len(data.files), most=5) if data.files else data.name
    yield f"SHA-256 {of}", data.fingerprint
    if data.columns:
        yield "columns", ", ".join(f"{role}: {name}" for role, name in data.columns.items())


def policy_lines(policy: Policy) -> Iterator[tuple[str, str]]:
    """Which policy decided, and what it was made for."""
    required = " ".join(requirement_sentences(policy.info.requirements.as_dict()))
    made = "" if policy.info.rows is None else f" on {counted(policy.info.rows, 'calibration row')}"
    yield "the policy was made for", f"{required[:-1]}{made}."
    yield "checksum of the policy", policy.checksum


def fit_lines(solution: Solution) -> Iterator[tuple[str, str]]:
    """What it takes to know that the same policy was made again."""
    certificate, sites = solution.certificate, len(solution.policy.sites)
    sizes = {"calibration rows": solution.rows.scores.size}
    sizes |= {"sites": sites} if sites > 1 else {}
    sizes["groups"] = len(solution.policy.groups)
    yield ", ".join(sizes), ", ".join(f"{size:,}" for size in sizes.values())
    yield "other rows", sentence(NOT_TESTED) if solution.tested is None else f"{rows_of(solution.tested):,}"
    yield "solver", f"{solution.solver}, {counted(solution.rounds, 'round')}"
    yield "calibration", solution.policy.calibrator.method
    yield "pooling", str(solution.pooling)
    level = solution.promises.confidence
    yield "confidence", "none asked for" if level is None else f"{level:g}, {solution.promises.method}"
    yield "counted in", "labels" if certificate.basis == "labels" else "calibrated chances"
    yield "certificate: optimality gap, violation", f"{certificate.optimality_gap:.1e}, {certificate.violation:.1e}"
    yield "checksum of the policy", solution.policy.checksum


def made_lines(heading: ReportHeading) -> Iterator[tuple[str, str]]:
    """With which versions, and when."""
    yield "versions", ", ".join(f"{name} {version}" for name, version in _versions())
    if heading.made:
        yield "made", heading.made


def _versions() -> Iterator[tuple[str, str]]:
    """The versions a result may depend on, of what is installed."""
    yield "logofair", __version__
    yield "Python", platform.python_version()
    for package in ("numpy", "scipy", "polars"):
        with suppress(PackageNotFoundError):
            yield package, version(package)
