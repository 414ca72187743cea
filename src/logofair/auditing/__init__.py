"""What a decision rule did: its accuracy, and its gaps inside every client and over all of them.

Labels take the place of eta in the rates of :mod:`logofair.notions`, so one formula over the masses of the
(client, group, label) cells serves every notion, any number of groups and any number of clients. A rate
nobody counts in, and a gap between fewer than two rates, is undefined: ``None`` with a reason, never 0.
"""

from logofair.auditing.measure import FEW_ROWS, Gap
from logofair.auditing.result import Audit, ClientAudit, ClientTable
from logofair.auditing.rows import audit

__all__ = ["FEW_ROWS", "Audit", "ClientAudit", "ClientTable", "Gap", "audit"]
