"""What is proved on the calibration rows."""

from __future__ import annotations

from logofair.report.contents import ReportContents
from logofair.report.markup import Section, note, paragraph


def proof_section(contents: ReportContents) -> Section:
    """Return what the certificate proves, and of what; the list of requirements says how each holds."""
    solution = contents.solution
    words = "This is about these rows as they are counted here, not about others."
    if solution.promises.price is not None:
        words += " The bound is that of rules that promise nothing for new rows, too."
    pooling = solution.pooling_sentence()
    counts = "labels" if solution.certificate.basis == "labels" else "calibrated chances of label 1, not labels"
    return Section(
        "proof",
        "What is proved",
        (
            paragraph(f"{solution.proof_sentence()} {words}"),
            None if pooling is None else paragraph(pooling),
            note(
                f"Counted in {counts}. Figures elsewhere on this page are counted with labels wherever there are any."
            ),
        ),
    )
