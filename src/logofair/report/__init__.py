"""The report: a solution, or an audit, as one self-contained HTML page for people.

Every figure comes from an audit (:mod:`~logofair.report.measured`), is told in a tree of sections, and rendered with
text escaped. Pictures are SVG drawn by hand, so that letters stay letters and colours follow the page's light or dark
theme. :mod:`~logofair.report.formats` writes the same figures in the forms that auditors ask for.
"""

from logofair.report.contents import in_memory
from logofair.report.formats import annex_iv_text, ll144_text, model_card_text
from logofair.report.heading import ReportHeading
from logofair.report.page import write_audit_report, write_report

__all__ = [
    "ReportHeading",
    "annex_iv_text",
    "in_memory",
    "ll144_text",
    "model_card_text",
    "write_audit_report",
    "write_report",
]
