"""Every training method as a Flower strategy, for a server app of one's own.

The strategy only carries messages: requests, and the next model from the replies, are the method's
(:mod:`training.methods`). A site whose reply is missing or unsound is left out of that round, and the log says
so; when fewer than a quorum are left the run fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from logofair.columns.checks import Label, whole_number
from logofair.engines.conductor import NoReply
from logofair.engines.flower.records import NAME_QUERY, Envelope, nodes_by_site, online_node, pack, unpack
from logofair.errors import InputError
from logofair_reproduction.flower.records import (
    TrainingRequest,
    checked_content,
    model_record,
    pack_request,
    read_counts,
    read_model,
    read_reply,
)
from logofair_reproduction.training import Network, Schedule, TrainingState
from logofair_reproduction.training.messages import ClientMeasures, LabelCounts, Reply
from logofair_reproduction.training.methods import Method

__all__ = ["MethodStrategy"]


_POLL = 0.2  # seconds between two looks for nodes
_log = logging.getLogger("flwr")

Sound = TypeVar("Sound")  # what a sound reply is read as


class MethodStrategy(Strategy):
    """A training method as a Flower strategy.

    Parameters
    ----------
    method : FedAvg, FairFed, FedFB or FCFL
        How the sites' replies become the next model.
    network : Network
        From :func:`logofair_reproduction.training.build_network`.
    sites : sequence of str
        The sites' names, in the order of every table: ``site`` in a node's configuration, the node's number as text in
        a simulation.
    groups : sequence
        The groups, in the order of every table; sites pass them to ``make_rows`` as ``known_groups``.
    schedule : Schedule, optional
        How sites take local steps.
    random_state : int
        Decides the network's first parameters and the sites' shuffling.
    quorum : int, optional
        Fewest sites whose replies make a round; by default more than half.
    connect_timeout : float
        Seconds for nodes to connect at the start, and to give their names.

    Attributes
    ----------
    state : TrainingState
        Where training stands; what sites keep is not in it, but stays with them. To store it after every round, pass
        ``start`` an ``evaluate_fn`` that does.

    Examples
    --------
    >>> from logofair_reproduction.training import FairFed, build_network
    >>> network = build_network("logistic", (10,))
    >>> strategy = MethodStrategy(FairFed(), network, ["north", "south", "west"], groups=["F", "M"])
    >>> strategy.quorum
    2

    In a server app: ``result = strategy.start(grid, num_rounds=20)``, then ``strategy.state``.
    """

    def __init__(
        self,
        method: Method,
        network: Network,
        sites: Sequence[str],
        *,
        groups: Sequence[Label],
        schedule: Schedule | None = None,
        random_state: int = 0,
        quorum: int | None = None,
        connect_timeout: float = 60.0,
    ) -> None:
        if not sites or len(set(sites)) != len(sites) or not all(isinstance(site, str) and site for site in sites):
            raise InputError(f"sites: got {list(sites)!r}; pass at least one name, each a text of its own.")
        self.method, self.network, self.groups = method, network, tuple(groups)
        self.schedule = schedule or Schedule()
        self.random_state = whole_number(random_state, "random_state", least=0)
        self.sites = tuple(sites)
        self.quorum = len(sites) // 2 + 1 if quorum is None else whole_number(quorum, "quorum")
        if self.quorum > len(sites):
            raise InputError(f"quorum: got {quorum} of {len(sites)} sites; pass at most as many as there are.")
        self._connect_timeout = connect_timeout
        self._state: TrainingState | None = None
        self._claims: dict[int, str] = {}  # the names that nodes without a registered one give
        self._nodes: dict[str, int] = {}  # the sites of the last requests, and their nodes

    @property
    def state(self) -> TrainingState:
        """Where training stands."""
        if self._state is None:
            raise InputError("state: training has not begun; call start(grid).")
        return self._state

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Train for that many rounds; sites that do not reply before the first take no part.

        Without ``initial_arrays`` training starts from the network's own first parameters; others come from
        ``model_record``.
        """
        arrays = model_record(self.network.start(self.random_state)) if initial_arrays is None else initial_arrays
        self._begin(grid, arrays, timeout, evaluate_config or ConfigRecord())
        return super().start(grid, arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the method's request to every site that is connected."""
        return self._messages(MessageType.TRAIN, server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the method make the next model of the replies."""
        state, request = self.state, self.method.request(self.state.method_state)
        found: Mapping[str, Reply] = self._sound(
            server_round, replies, lambda content, site: read_reply(content, request, self.network, len(self.groups))
        )
        by_number = {number: found[site] for number, site in enumerate(self.sites) if site in found}
        self._state = state.after_step(self.method, by_number)
        return model_record(self._state.parameters), MetricRecord({"sites": len(by_number)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Request the counts of every site that is connected, in the rounds in which the method measures."""
        if server_round % self.method.measure_every:
            return []
        return self._messages(MessageType.EVALUATE, server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the method learn from the counts; of a site that is missing the last ones count."""
        if server_round % self.method.measure_every:
            return None
        state, before = self.state, self.state.measured
        first = dict(zip(self.sites, before.rows, strict=True))
        found = self._sound(
            server_round, replies, lambda content, site: read_counts(content, len(self.groups), first[site])
        )
        kept = zip(before.rows, before.accepted, before.loss, strict=True)
        counts = [found.get(site, LabelCounts(*last)) for site, last in zip(self.sites, kept, strict=True)]
        measured = ClientMeasures.together(self.sites, self.groups, counts)
        self._state = state.after_measuring(self.method, measured)
        return MetricRecord({"accuracy": measured.accuracy, "loss": measured.mean_loss, "sites": len(found)})

    def summary(self) -> None:
        """Log what is trained, how and by whom."""
        _log.info("%s of %s (%s parameters)", self.method, self.network.name, f"{self.network.size:,}")
        _log.info("%s, random state %d", self.schedule, self.random_state)
        _log.info("%d sites, quorum %d", len(self.sites), self.quorum)

    def _begin(self, grid: Grid, arrays: ArrayRecord, timeout: float, config: ConfigRecord) -> None:
        """Measure the first model at every site; those that reply are the sites of the run."""
        parameters = read_model(arrays, self.network)
        deadline = time.monotonic() + min(timeout, self._connect_timeout)
        while len(list(grid.get_node_ids())) < len(self.sites) and time.monotonic() < deadline:
            time.sleep(_POLL)
        replies = grid.send_and_receive(self._messages(MessageType.EVALUATE, 0, arrays, config, grid), timeout=timeout)
        found = self._sound(0, replies, lambda content, site: read_counts(content, len(self.groups)))
        self.sites = tuple(site for site in self.sites if site in found)
        measured = ClientMeasures.together(self.sites, self.groups, [found[site] for site in self.sites])
        self._state = TrainingState.initial(self.method, parameters, measured)

    def _messages(self, kind: str, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        """One request per site that is connected."""
        request = self.method.request(self.state.method_state) if kind == MessageType.TRAIN else None
        self._nodes = self._connected(grid)
        messages = []
        for site, node in self._nodes.items():
            sent = TrainingRequest(site, number, self.random_state, self.network, self.schedule, request)
            messages.append(Message(pack_request(sent, arrays, config), node, kind))
        return messages

    def _connected(self, grid: Grid) -> dict[str, int]:
        """The node of every site of the run that is connected; new ones are queried for names."""
        nodes = [online_node(node) for node in grid.get_nodes()]
        new = [n.node_id for n in nodes if n.registered is None and n.node_id not in self._claims]
        if new:
            self._claims |= dict.fromkeys(new, "")  # one that gives no name takes part in nothing
            queries = [Message(pack(Envelope("")), node, NAME_QUERY) for node in new]
            for reply in grid.send_and_receive(queries, timeout=self._connect_timeout):
                envelope = None if reply.has_error() else unpack(reply.content)
                self._claims[reply.metadata.src_node_id] = "" if envelope is None else envelope.site
        by_site = nodes_by_site(nodes, self._claims)
        return {site: by_site[site] for site in self.sites if site in by_site}

    def _sound(
        self, number: int, replies: Iterable[Message], read: Callable[[RecordDict, str], Sound | NoReply]
    ) -> Mapping[str, Sound]:
        """The sound replies of a round by site; the log names the sites left out, too few are an error."""
        outcome: dict[str, Sound | NoReply] = {
            site: NoReply("no reply in time" if site in self._nodes else "it is not connected") for site in self.sites
        }
        sites = {node: site for site, node in self._nodes.items()}
        for reply in replies:
            # An error made by the server itself comes from no site's node: that site has not replied.
            site = sites.get(reply.metadata.src_node_id)
            if site is not None:
                content = checked_content(reply, site, self.groups)
                outcome[site] = content if isinstance(content, NoReply) else read(content, site)
        absent = {site: found for site, found in outcome.items() if isinstance(found, NoReply)}
        for site, why in absent.items():
            _log.warning("round %d: site %s is left out: %s.", number, site, why.reason)
        found = {site: value for site, value in outcome.items() if not isinstance(value, NoReply)}
        if len(found) < self.quorum:
            first = next(f"{site}: {why.reason}" for site, why in absent.items())
            raise InputError(
                f"round {number}: {len(found)} of {len(self.sites)} sites gave a sound reply, and {self.quorum} are "
                f"needed ({first}); see that they are connected, or ask for a smaller quorum."
            )
        return found
