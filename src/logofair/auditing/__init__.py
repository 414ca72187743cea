"""What a decision rule did: its accuracy, and its gaps inside every site and over all of them.

Labels take the place of eta in the rates of :mod:`logofair.notions`, so one formula over the masses of the
(site, group, label) cells serves every notion, any number of groups and any number of sites. A rate
nobody counts in, and a gap between fewer than two rates, is undefined: ``None`` with a reason, never 0. Every figure
carries its interval and the rows it rests on, every largest gap the noise floor, since a gap on few rows is chance.
"""

from logofair.auditing.impact import CategoryTable, ImpactRatios, impact_ratios
from logofair.auditing.measure import Measured
from logofair.auditing.result import Audit, Comparison, Gap, SiteAudit
from logofair.auditing.rows import audit, compare
from logofair.outcomes import FEW_ROWS, Outcome, Outcomes

__all__ = [
    "FEW_ROWS",
    "Audit",
    "CategoryTable",
    "Comparison",
    "Gap",
    "ImpactRatios",
    "Measured",
    "Outcome",
    "Outcomes",
    "SiteAudit",
    "audit",
    "compare",
    "impact_ratios",
]
