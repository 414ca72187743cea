"""Fair decisions across sites that keep their rows: messages, client, server, secure sums, noise.

Pure state machines without input or output, for people who bring their own transport; :mod:`logofair.engines` has
engines that carry the messages. :mod:`logofair.federation.messages` says what leaves a client, field by field.
"""

from __future__ import annotations

from logofair.federation.batch import Crowd
from logofair.federation.client import Client
from logofair.federation.messages import Ask, Refusal, Reply
from logofair.federation.outcome import Lost, Outcome
from logofair.federation.plan import Plan, Training, make_plan
from logofair.federation.policies import SitePolicies, late_policy
from logofair.federation.privacy.release import Privacy
from logofair.federation.rows import Columns
from logofair.federation.server import QuorumLostError, Server

__all__ = [
    "Ask",
    "Client",
    "Columns",
    "Crowd",
    "Lost",
    "Outcome",
    "Plan",
    "Privacy",
    "QuorumLostError",
    "Refusal",
    "Reply",
    "Server",
    "SitePolicies",
    "Training",
    "late_policy",
    "make_plan",
]
