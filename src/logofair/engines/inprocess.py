"""All sites in one process: the default engine, for tests, sweeps and papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logofair.engines.conductor import NoReply, ServerState, conduct
from logofair.errors import InputError, RefusedError, RunError
from logofair.federation.batch import ClientBatch
from logofair.federation.client import Client, SecureIdentity
from logofair.federation.exchange import fault
from logofair.federation.messages import RequestMessage
from logofair.federation.plan import Plan
from logofair.federation.policies import SitePolicies
from logofair.federation.result import RunResult
from logofair.federation.rows import SiteColumns
from logofair.federation.server import Server, check_result
from logofair.policy.policy import Policy
from logofair.progress import Progress, Stages, no_progress
from logofair.records import decode, encode


@dataclass(frozen=True, eq=False)
class FederatedRun:
    """The result and every site's policy.

    Examples
    --------
    >>> from logofair.federation import make_plan
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> tolerances = {"local_tolerance": 0, "global_tolerance": 0}
    >>> plan = make_plan(groups=["F", "M"], calibration="none", **tolerances, smallest_cell=1, run="demo")
    >>> done = run(plan, {"north": rows, "south": rows})
    >>> done.result.holds, sorted(done.policies)
    (True, ['north', 'south'])
    >>> done.policies["north"].decide([0.7, 0.05], sensitive_features=["M", "F"]).tolist()
    [1, 0]
    """

    result: RunResult
    policies: Mapping[str, Policy]


# About how many exchanges a run takes, for its progress bar: in any case, and more with calibration and with pooling.
_EXCHANGES, _CALIBRATION, _POOLING = 6, 3, 5


def run(plan: Plan, sites: Mapping[str, SiteColumns], progress: Progress = no_progress) -> FederatedRun:
    """Run a plan with all sites in this process, answering in vectorised passes.

    No message is made or masked here, since nothing leaves the process; the numbers are those of any other engine.
    """
    expected = _EXCHANGES + _CALIBRATION * (plan.calibration != "none") + _POOLING * (plan.pooling != "none")
    exchanges = Stages(progress, "Running the plan", expected)
    batch, server = ClientBatch.of(dict(sites), plan), Server.start(plan, list(sites))
    while not server.done:
        try:
            batch, sums = batch.answer(server.request)
        except RefusedError as error:
            raise RunError(f"run {plan.run}: {error}") from None
        total = sums.total()  # checked like the reply of one site that has all rows
        wrong = fault(total, server.request, plan, server.roster_counts, server.roster_counts)
        if wrong is not None:
            raise RunError(f"run {plan.run}: the sites together {wrong}; please report the case.")
        server = server.take(total)
        check_result(server)
        exchanges.done(1)
    exchanges.done(expected)  # the bar ends full, however many there were
    if batch.state.forged:
        raise RunError(f"run {plan.run}: {batch.state.forged}; please report the case.")
    return FederatedRun(server.result, SitePolicies(batch))


class LocalTransport:
    """Sites in this process that get and send the bytes that would travel between machines: for tests, rehearsals."""

    def __init__(self, sites: Mapping[str, Client]) -> None:
        self.sites = dict(sites)

    def present(self) -> tuple[str, ...]:
        """The sites, in ascending order."""
        return tuple(sorted(self.sites))

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
        """Hand every client its message."""
        return {site: self.deliver(site, message) for site, message in messages.items()}

    def deliver(self, site: str, message: bytes) -> bytes | NoReply:
        """One message to one client, and its reply."""
        if site not in self.sites:
            return NoReply("not connected")
        self.sites[site], reply = self.sites[site].handle(decode(message, RequestMessage))
        return encode(reply)


def run_apart(
    plan: Plan, sites: Mapping[str, SiteColumns], identities: Mapping[str, SecureIdentity] | None = None
) -> FederatedRun:
    """Run a plan with every site as a client of its own that sends and receives bytes, as between machines.

    Secure sums need every site's :class:`SecureIdentity`.
    """
    keys = identities or {}
    if plan.secure and set(keys) != set(sites):
        raise InputError("identities: secure sums need the keys of every site; pass one SecureIdentity each.")
    transport = LocalTransport({site: Client(site, rows, identity=keys.get(site)) for site, rows in sites.items()})
    *_, (state, _) = conduct(ServerState(Server.start(plan, transport.present())), transport)
    return FederatedRun(
        state.server.result, {site: SitePolicies(client.batch)[site] for site, client in transport.sites.items()}
    )
