"""The end of the report: warnings, how to cite it, and how to make it again."""

from __future__ import annotations

from collections.abc import Iterator

from logofair.fitting.solution import FitWarning
from logofair.report.contents import ReportContents
from logofair.report.grids import Column, grid, named, text
from logofair.report.markup import Element, Section, note, paragraph, tag
from logofair.report.wording import counted, joined

__all__ = ["cite_section", "warnings_section"]


_PAPER = """@inproceedings{zhang2025logofair,
  title     = {LoGoFair: Post-Processing for Local and Global Fairness in Federated Learning},
  author    = {Zhang, Li and Chen, Chaochao and Han, Zhongxuan and Zhong, Qiyong and Zheng, Xiaolin},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year      = {2025}
}"""


def warnings_section(contents: ReportContents) -> Section:
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


def cite_section(contents: ReportContents) -> Section:
    """Return how to cite the report and make it again; the report holds no rows."""
    made = contents.provenance
    rows = [[named(name), text(value, mark="code")] for name, value in _rests_on(contents)]
    again = (
        paragraph("The command:"),
        tag("pre", tag("code", made.command), tabindex="0", aria_label="The command"),
        grid("What the figures rest on", [Column("what"), Column("value")], rows),
        note("This page holds totals and rules, never rows."),
    )
    software = f"logofair {made.versions['logofair']}: fair decisions inside every client and over all of them"
    cited = (
        paragraph(f"The LoGoFair developers. {software}. The method, corrected and extended here, is from:"),
        tag("pre", tag("code", _PAPER), tabindex="0", aria_label="BibTeX entry"),
    )
    parts = (Section("reproduce", "Make it again", again), Section("citation", "Cite", cited))
    return Section("cite", "Cite and reproduce", (), parts)


def _rests_on(contents: ReportContents) -> Iterator[tuple[str, str]]:
    """What it takes to know that the same was made again."""
    made, solution, data = contents.provenance, contents.solution, contents.provenance.data
    of = "of the file" if len(data.files) == 1 else "of the list of files" if data.files else "of the checked columns"
    yield "data", joined(data.files, most=5) if data.files else data.name
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
    yield "versions", ", ".join(f"{name} {version}" for name, version in made.versions.items())
    if made.made:
        yield "made", made.made
