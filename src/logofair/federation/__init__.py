"""Fair decisions across sites that keep their rows: messages, client, server, secure sums, noise.

Pure state machines without input or output, for people who bring their own transport; :mod:`logofair.engines` has
engines that carry the messages. :mod:`logofair.federation.messages` says what leaves a client, field by field.
"""

from __future__ import annotations

from logofair.errors import QuorumLostError
from logofair.federation.batch import ClientBatch
from logofair.federation.client import Client
from logofair.federation.messages import Question, Refusal, Reply
from logofair.federation.outcome import ExcludedSite, RunResult
from logofair.federation.plan import Plan, Training, make_plan
from logofair.federation.policies import SitePolicies, late_policy
from logofair.federation.privacy.release import Privacy
from logofair.federation.rows import SiteColumns
from logofair.federation.server import Server

__all__ = [
    "Client",
    "ClientBatch",
    "ExcludedSite",
    "Plan",
    "Privacy",
    "Question",
    "QuorumLostError",
    "Refusal",
    "Reply",
    "RunResult",
    "Server",
    "SiteColumns",
    "SitePolicies",
    "Training",
    "late_policy",
    "make_plan",
]
