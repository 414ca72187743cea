"""Every training method as a Flower strategy, to be started in an engineer's own server app.

The strategy only carries: what is asked, and what becomes of the answers, are the method's own
(:mod:`logofair.training.methods`). A site whose reply is missing or unsound is left out of that round, and the log says
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
from logofair.engines.flower.records import WHO, Envelope, opened, sealed, seen, sites_of
from logofair.engines.flower.training.records import (
    TrainingRequest,
    answer_in,
    asked,
    content_in,
    counts_in,
    model_in,
    model_out,
)
from logofair.errors import InputError
from logofair.training import Network, Schedule, TrainingState
from logofair.training.messages import Answer, ClientMeasures, GradientsRequest, LabelCounts, LocalSteps
from logofair.training.methods import Method

__all__ = ["MethodStrategy"]


_PATIENCE = 60.0  # seconds for nodes to connect, and to say their names
_LOOK = 0.2  # seconds between two looks for nodes
_log = logging.getLogger("flwr")

Sound = TypeVar("Sound")  # what a site may rightly answer


class MethodStrategy(Strategy):
    """A training method as a Flower strategy.

    Parameters
    ----------
    method : FedAvg, FairFed, FedFB or FCFL
        How the sites' answers become the next model.
    network : Network
        From :func:`logofair.training.build_network`.
    sites : sequence of str
        The sites' names, in the order of every table: ``site`` in a node's configuration, the node's number as text in
        a simulation.
    groups : sequence
        The groups, in the order of every table; sites pass them to ``make_rows`` as ``known_groups``.
    schedule : Schedule, optional
        How sites take local steps.
    seed : int
        Of the network's first parameters and the sites' shuffling.
    quorum : int, optional
        Fewest sites whose answers make a round; by default more than half.

    Attributes
    ----------
    state : State
        Where training stands; what sites remember is not in it, but stays with them. To store it after every round,
        pass ``start`` an ``evaluate_fn`` that does.

    Examples
    --------
    >>> from logofair.training import FairFed, build_network
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
        seed: int = 0,
        quorum: int | None = None,
    ) -> None:
        if not sites or len(set(sites)) != len(sites) or not all(isinstance(site, str) and site for site in sites):
            raise InputError(f"sites: got {list(sites)!r}; pass at least one name, each a text of its own.")
        self.method, self.network, self.groups = method, network, tuple(groups)
        self.schedule, self.seed = schedule or Schedule(), whole_number(seed, "seed", least=0)
        self.sites = tuple(sites)
        self.quorum = len(sites) // 2 + 1 if quorum is None else whole_number(quorum, "quorum")
        if self.quorum > len(sites):
            raise InputError(f"quorum: got {quorum} of {len(sites)} sites; pass at most as many as there are.")
        self._state: TrainingState | None = None
        self._claims: dict[int, str] = {}  # what nodes without a registered name call themselves
        self._nodes: dict[str, int] = {}  # who was asked last, and where

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
        """Train for so many rounds; sites that do not answer before the first take no part.

        Without ``initial_arrays`` training starts from the network's own first parameters; others come from
        ``model_out``.
        """
        arrays = model_out(self.network.start(self.seed)) if initial_arrays is None else initial_arrays
        self._begin(grid, arrays, timeout, evaluate_config or ConfigRecord())
        return super().start(grid, arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every site that is there for what the method wants."""
        return self._messages(MessageType.TRAIN, server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the method make the next model of the answers."""
        state, task = self.state, self.method.task(self.state.memory)
        found: Mapping[str, Answer] = self._sound(
            server_round, replies, lambda content, site: answer_in(content, task, self.network, len(self.groups))
        )
        answers = {place: found[site] for place, site in enumerate(self.sites) if site in found}
        self._state = state.stepped(self.method, answers)
        return model_out(self._state.parameters), MetricRecord({"sites": len(answers)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every site that is there for its counts, in the rounds in which the method measures."""
        if server_round % self.method.measure_every:
            return []
        return self._messages(MessageType.EVALUATE, server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the method learn from the counts; a site that is missing keeps those it told last."""
        if server_round % self.method.measure_every:
            return None
        state, before = self.state, self.state.measured
        first = dict(zip(self.sites, before.rows, strict=True))
        found = self._sound(
            server_round, replies, lambda content, site: counts_in(content, len(self.groups), first[site])
        )
        kept = zip(before.rows, before.accepted, before.loss, strict=True)
        counts = [found.get(site, LabelCounts(*last)) for site, last in zip(self.sites, kept, strict=True)]
        measured = ClientMeasures.together(self.sites, self.groups, counts)
        self._state = state.learned(self.method, measured)
        return MetricRecord({"accuracy": measured.accuracy, "loss": measured.mean_loss, "sites": len(found)})

    def summary(self) -> None:
        """Log what is trained, how and by whom."""
        _log.info("%s of %s (%s parameters)", self.method, self.network.name, f"{self.network.size:,}")
        _log.info("%s, seed %d", self.schedule, self.seed)
        _log.info("%d sites, quorum %d", len(self.sites), self.quorum)

    def _begin(self, grid: Grid, arrays: ArrayRecord, timeout: float, config: ConfigRecord) -> None:
        """Measure the first model at every site; those that answer are the sites of the run."""
        parameters = model_in(arrays, self.network)
        deadline = time.monotonic() + min(timeout, _PATIENCE)
        while len(list(grid.get_node_ids())) < len(self.sites) and time.monotonic() < deadline:
            time.sleep(_LOOK)
        replies = grid.send_and_receive(self._messages(MessageType.EVALUATE, 0, arrays, config, grid), timeout=timeout)
        found = self._sound(0, replies, lambda content, site: counts_in(content, len(self.groups)))
        self.sites = tuple(site for site in self.sites if site in found)
        measured = ClientMeasures.together(self.sites, self.groups, [found[site] for site in self.sites])
        self._state = TrainingState.before(self.method, parameters, measured)

    def _messages(self, kind: str, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        """One question per site that is connected."""
        task = self.method.task(self.state.memory) if kind == MessageType.TRAIN else None
        self._nodes = self._connected(grid)
        return [
            Message(asked(self._question(site, number, task), arrays, config), node, kind)
            for site, node in self._nodes.items()
        ]

    def _question(self, site: str, number: int, task: LocalSteps | GradientsRequest | None) -> TrainingRequest:
        return TrainingRequest(site, number, self.seed, self.network, self.schedule, task)

    def _connected(self, grid: Grid) -> dict[str, int]:
        """The node of every site of the run that is connected; nodes never seen before are asked for their names."""
        nodes = [seen(node) for node in grid.get_nodes()]
        new = [n.node_id for n in nodes if n.registered is None and n.node_id not in self._claims]
        if new:
            self._claims |= dict.fromkeys(new, "")  # one that says nothing takes part in nothing
            questions = [Message(sealed(Envelope("")), node, WHO) for node in new]
            for reply in grid.send_and_receive(questions, timeout=_PATIENCE):
                envelope = None if reply.has_error() else opened(reply.content)
                self._claims[reply.metadata.src_node_id] = "" if envelope is None else envelope.site
        places = sites_of(nodes, self._claims)
        return {site: places[site] for site in self.sites if site in places}

    def _sound(
        self, number: int, replies: Iterable[Message], read: Callable[[RecordDict, str], Sound | NoReply]
    ) -> Mapping[str, Sound]:
        """The sound replies of a round by site; who is left out is said in the log, too few are an error."""
        outcome: dict[str, Sound | NoReply] = {
            site: NoReply("no reply in time" if site in self._nodes else "it is not connected") for site in self.sites
        }
        sites = {node: site for site, node in self._nodes.items()}
        for reply in replies:
            # An error made by the server itself comes from no site's node: that site has not replied.
            site = sites.get(reply.metadata.src_node_id)
            if site is not None:
                content = content_in(reply, site, self.groups)
                outcome[site] = content if isinstance(content, NoReply) else read(content, site)
        absent = {site: found for site, found in outcome.items() if isinstance(found, NoReply)}
        for site, why in absent.items():
            _log.warning("round %d: site %s is left out: %s.", number, site, why.reason)
        found = {site: value for site, value in outcome.items() if not isinstance(value, NoReply)}
        if len(found) < self.quorum:
            first = next(f"{site}: {why.reason}" for site, why in absent.items())
            raise InputError(
                f"round {number}: {len(found)} of {len(self.sites)} sites gave a sound answer, and {self.quorum} are "
                f"needed ({first}); see that they are connected, or ask for a smaller quorum."
            )
        return found
