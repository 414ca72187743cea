"""A training method as a Flower strategy: Flower's rounds and grid, the method's own steps.

With all sites present and the same schedule at each, training gives the states of :func:`training.train` to the bit.
A site that does not reply, or whose reply is of another shape or not finite, is left out of the round; its last counts
stand for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from logofair.columns.checks import Label, whole_number
from logofair.engines.flower.server_app import nodes_by_site
from logofair.errors import InputError
from logofair_reproduction.flower.records import (
    ARRAYS,
    OURS,
    check_sender,
    model_record,
    pack_request,
    read_counts,
    read_model,
    read_reply,
)
from logofair_reproduction.training import Network, TrainingState
from logofair_reproduction.training.messages import ClientMeasures, LabelCounts
from logofair_reproduction.training.methods import Method

_POLL = 0.2  # seconds between two looks for nodes
_log = logging.getLogger("flwr")
Sound = TypeVar("Sound")  # what a sound reply is read as


class MethodStrategy(Strategy):
    """A training method as a Flower strategy.

    Parameters
    ----------
    method, network
        One of :data:`training.METHODS`, and from ``build_network`` what sites pass to their client app too.
    sites : sequence of str
        The sites' names, in the order of every table: ``site`` in a node's configuration, the node's number as text in
        a simulation.
    groups : sequence
        The groups, in the order of every table; sites pass them to ``make_rows`` as ``known_groups``.
    random_state : int
        Decides the network's first parameters and the sites' shuffling.
    quorum : int, optional
        Fewest sites whose replies make a round; by default more than half.
    connect_timeout : float
        Seconds for nodes to connect at the start, and to give their names.

    In a server app: ``strategy.start(grid, num_rounds=20)``, then ``strategy.state``.
    """

    def __init__(
        self,
        method: Method,
        network: Network,
        sites: Sequence[str],
        *,
        groups: Sequence[Label],
        random_state: int = 0,
        quorum: int | None = None,
        connect_timeout: float = 60.0,
    ) -> None:
        if not sites or len(set(sites)) != len(sites) or not all(isinstance(site, str) and site for site in sites):
            raise InputError(f"sites: got {list(sites)!r}; pass at least one name, each a text of its own.")
        self.method, self.network = method, network
        self.sites, self.groups = tuple(sites), tuple(groups)
        self.random_state = whole_number(random_state, "random_state", least=0)
        self.quorum = len(sites) // 2 + 1 if quorum is None else whole_number(quorum, "quorum")
        if self.quorum > len(sites):
            raise InputError(f"quorum: got {quorum} of {len(sites)} sites; pass at most as many as there are.")
        self._connect_timeout = connect_timeout
        self._nodes: dict[str, int] = {}
        self._state: TrainingState | None = None

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
        parameters = read_model(RecordDict({ARRAYS: arrays}), self.network)
        self._nodes = self._connected(grid)
        messages = self._messages(MessageType.EVALUATE, 0, arrays)
        replies = grid.send_and_receive(messages, timeout=timeout)
        found = self._sound(0, replies, lambda content: read_counts(content, len(self.groups)))
        self.sites = tuple(site for site in self.sites if site in found)
        measured = ClientMeasures.together(self.sites, self.groups, [found[site] for site in self.sites])
        self._state = TrainingState.initial(self.method, parameters, measured)
        return super().start(grid, arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the method's request to every site."""
        return self._messages(MessageType.TRAIN, server_round, arrays)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the method make the next model of the replies."""
        state, request = self.state, self.method.request(self.state.method_state)
        found = self._sound(
            server_round, replies, lambda content: read_reply(content, request, self.network, len(self.groups))
        )
        by_number = {number: found[site] for number, site in enumerate(self.sites) if site in found}
        self._state = state.after_step(self.method, by_number)
        return model_record(self._state.parameters), MetricRecord({"sites": len(by_number)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Request the counts of every site, in the rounds in which the method measures."""
        if server_round % self.method.measure_every:
            return []
        return self._messages(MessageType.EVALUATE, server_round, arrays)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the method learn from the counts; of a site that is missing the last ones count."""
        if server_round % self.method.measure_every:
            return None
        before = self.state.measured
        last = {
            site: LabelCounts(before.rows[place], before.accepted[place], before.loss[place])
            for place, site in enumerate(self.sites)
        }
        found = self._sound(server_round, replies, lambda content: read_counts(content, len(self.groups)))
        measured = ClientMeasures.together(self.sites, self.groups, list((last | found).values()))
        self._state = self.state.after_measuring(self.method, measured)
        return MetricRecord({"accuracy": measured.accuracy, "loss": measured.mean_loss, "sites": len(found)})

    def summary(self) -> None:
        """Log what is trained, how and by whom."""
        _log.info("%s of %s (%s parameters)", self.method, self.network.name, f"{self.network.size:,}")
        _log.info("%d sites, quorum %d, random state %d", len(self.sites), self.quorum, self.random_state)

    def _connected(self, grid: Grid) -> dict[str, int]:
        """Wait for the sites' nodes; the node of every site, by its registered name or else by the one it gives."""
        deadline = time.monotonic() + self._connect_timeout
        while len(list(grid.get_node_ids())) < len(self.sites) and time.monotonic() < deadline:
            time.sleep(_POLL)
        nodes, claims = list(grid.get_nodes()), dict[int, str]()
        queries = [Message(RecordDict(), node.node_id, "query.name") for node in nodes if not node.name]
        for reply in grid.send_and_receive(queries, timeout=self._connect_timeout):
            if not reply.has_error():
                ours = reply.content.config_records.get(OURS, ConfigRecord())
                claims[reply.metadata.src_node_id] = str(ours.get("site", ""))
        return {site: node.node_id for site, node in nodes_by_site(nodes, claims).items() if site in self.sites}

    def _messages(self, kind: str, number: int, arrays: ArrayRecord) -> list[Message]:
        """One request per site."""
        request = self.method.request(self.state.method_state) if kind == MessageType.TRAIN else None
        return [
            Message(pack_request(site, number, self.random_state, request, arrays), self._nodes[site], kind)
            for site in self.sites
            if site in self._nodes
        ]

    def _sound(self, number: int, replies: Iterable[Message], read: Callable[[RecordDict], Sound]) -> dict[str, Sound]:
        """The sound replies of a round by site; the log names the sites left out, too few are an error."""
        why = {site: "no reply in time" if site in self._nodes else "it is not connected" for site in self.sites}
        sites, found = {self._nodes[site]: site for site in self.sites if site in self._nodes}, dict[str, Sound]()
        for reply in replies:
            # An error made by the server itself comes from no site's node: that site has not replied.
            site = sites.get(reply.metadata.src_node_id)
            if site is None:
                continue
            if reply.has_error():
                why[site] = f"Flower reports error code {reply.error.code}"
                continue
            try:
                check_sender(reply.content, site, self.groups)
                found[site] = read(reply.content)
            except InputError as error:
                why[site] = str(error)
        left_out = [site for site in self.sites if site not in found]
        for site in left_out:
            _log.warning("round %d: site %s is left out: %s.", number, site, why[site])
        if len(found) < self.quorum:
            raise InputError(
                f"round {number}: {len(found)} of {len(self.sites)} sites gave a sound reply, and {self.quorum} are "
                f"needed ({left_out[0]}: {why[left_out[0]]}); see that they are connected, or ask for a smaller quorum."
            )
        return {site: found[site] for site in self.sites if site in found}
