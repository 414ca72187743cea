"""Fair policies for sites that keep their rows: the protocol, for people who bring their own transport.

A run in outline; :mod:`logofair.engines` has engines that carry the messages (in one process, over Flower)::

    plan = make_plan(groups=["F", "M"], local_tolerance=0.02, global_tolerance=0.01)     # agreed on by all sites
    client = Client("north", SiteColumns(sensitive_features=..., scores=..., labels=...))             # at every site
    server = Server.start(plan, ["north", "south"])                                       # at the server
    while not server.done:
        message = server.message()                    # RequestMessage: one request, the same for every site
        client, reply = client.handle(message)        # ReplyMessage: sums over the site's rows, or a refusal
        server = server.take(total_of_the_replies)
    server.result                                     # RunResult: what holds, with its certificate
    SitePolicies(client.batch)["north"]               # the site's policy, which never leaves it

All are frozen values without input or output: a state goes in, the next one comes out. Where things are:

==================  ====================================================================================
``plan``            what the sites agree on
``exchange``        what an exchange is: request, reply, what both sides do with them, what is plausible
``exchanges``       all exchanges of a run, each declared in one place: the reply's type is the privacy statement
``messages``        what carries a request or a reply
``rows``            what sites do with their rows before there are prices: calibration, pooling, noise
``batch``           several sites in one pass, and their state between the requests
``client``          one site: the order of messages, and what it stores between them
``server, result``  the run as the server knows it, and what it publishes
``policies``        from a finished run to each site's policy; sites that come later
``secure``          secure sums: the server learns totals of 3 sites or more
``privacy``         differential privacy: one noised histogram per site
==================  ====================================================================================

A new message is declared in one file of ``exchanges``.
"""

from __future__ import annotations

from logofair.federation.batch import ClientBatch
from logofair.federation.client import Client, SecureIdentity
from logofair.federation.exchange import Refusal
from logofair.federation.limits import SiteLimits
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.plan import Plan, make_plan
from logofair.federation.policies import SitePolicies, late_policy
from logofair.federation.privacy import Privacy
from logofair.federation.result import ExcludedSite, RunResult
from logofair.federation.rows import SiteColumns
from logofair.federation.server import Server

__all__ = [
    "Client",
    "ClientBatch",
    "ExcludedSite",
    "Plan",
    "Privacy",
    "Refusal",
    "ReplyMessage",
    "RequestMessage",
    "RunResult",
    "SecureIdentity",
    "Server",
    "SiteColumns",
    "SiteLimits",
    "SitePolicies",
    "late_policy",
    "make_plan",
]
