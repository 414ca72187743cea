"""The report: a solution as one self-contained HTML page for people.

Everything is measured once (:mod:`~logofair.report.contents`), told as a tree of sections, and rendered with text
escaped. Pictures are SVG drawn by hand, so that letters stay letters and colours follow the page's light or dark
theme.
"""

from logofair.report.contents import in_memory
from logofair.report.measured import NewRows
from logofair.report.page import report_html, write_report

__all__ = ["NewRows", "in_memory", "report_html", "write_report"]
