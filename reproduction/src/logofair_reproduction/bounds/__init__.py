"""Bounds: how accurate a fair rule could be at all on given rows.

None of these is a method. :func:`oracle` is the tight one for given scores: it looks at the labels of the very rows it
is measured on. :func:`aglfop` and :func:`gap_bound` know no scores, only how often each site, group and label occur
together, and let the decision depend on the label, so they hold for every model and are loose for any given one.
"""

from logofair_reproduction.bounds.aglfop import InformationBound, aglfop, information
from logofair_reproduction.bounds.oracle import GapBound, Oracle, gap_bound, oracle
from logofair_reproduction.bounds.table import LabelTable, label_table

__all__ = [
    "GapBound",
    "InformationBound",
    "LabelTable",
    "Oracle",
    "aglfop",
    "gap_bound",
    "information",
    "label_table",
    "oracle",
]
