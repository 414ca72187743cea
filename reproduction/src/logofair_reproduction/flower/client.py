"""The client app of federated training: a request out of a Flower message, and the reply of the site's rows.

What leaves a site is what :mod:`training.messages` names, and nothing else: Flower would send the text of an
exception to the server; here every exception ends in the same empty refusal. What a site keeps from round to round
stays in Flower's context of its node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from logofair.columns.checks import Floats
from logofair.engines.flower.records import Envelope, pack
from logofair.errors import InputError
from logofair_reproduction.flower.records import model_record, pack_reply, unpack_request
from logofair_reproduction.training import ClientRows
from logofair_reproduction.training.local import label_counts
from logofair_reproduction.training.messages import LabelCounts, LocalStepsRequest, Reply
from logofair_reproduction.training.rounds import reply_to

__all__ = ["client_state", "node_name", "training_client_app"]


_STATE = "logofair state"
_log = logging.getLogger("flwr")


def node_name(context: Context) -> str:
    """Return the name of the site a node stands for, empty where it has none.

    A deployed node is configured with it (``--node-config "site='north'"``); a simulated one is named by its number.
    """
    node = context.node_config
    return str(node.get("site", node.get("partition-id", "")))


def training_client_app(
    rows_of: Callable[[Context], ClientRows], *, threads: int | None = 1, mods: Sequence[Mod] = ()
) -> ClientApp:
    """Return a client app that trains on a site's rows.

    Parameters
    ----------
    rows_of : callable
        Returns the rows of the site a node stands for; called for every message, so keep what is slow to load.
    threads : int
        PyTorch's threads. Sums over many rows may differ in the last bit between numbers of threads, so it is set here
        and not left to the machine; None leaves it.
    mods : sequence
        Flower's mods, the first outermost.
    """
    made = ClientApp(mods=list(mods))

    @made.query("name")
    def name(message: Message, context: Context) -> Message:
        return Message(pack(Envelope(node_name(context))), reply_to=message)

    @made.train()
    def train(message: Message, context: Context) -> Message:
        return Message(_reply(message, context, rows_of, threads, _train), reply_to=message)

    @made.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(_reply(message, context, rows_of, threads, _count), reply_to=message)

    return made


def client_state(context: Context) -> Floats | None:
    """Return what a node keeps from its last round, if anything."""
    kept = context.state.array_records.get(_STATE)
    return None if kept is None else kept["parameters"].numpy()


Work = Callable[[RecordDict, Context, ClientRows], Reply | LabelCounts]


def _reply(
    message: Message, context: Context, rows_of: Callable[[Context], ClientRows], threads: int | None, work: Work
) -> RecordDict:
    """The content of the reply; whatever goes wrong, a refusal that says nothing."""
    name = node_name(context)
    try:
        if not name or message.content.config_records["logofair"]["site"] != name:
            return pack_reply(name, None)  # a message for another site is not read
        rows = rows_of(context)
        with _threads(threads):
            return pack_reply(name, work(message.content, context, rows), rows.groups)
    except Exception as error:  # its text may hold data: only its kind and place are written to this node's own log
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "?" if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
        _log.warning("site %s could not answer: %s at %s", name, type(error).__name__, where)
        return pack_reply(name, None)


def _train(content: RecordDict, context: Context, rows: ClientRows) -> Reply:
    sent, model = unpack_request(content)
    request = sent.request
    if request is None:
        raise InputError("request: a round of training requests nothing.")
    if (
        isinstance(request, LocalStepsRequest)
        and request.weights is not None
        and request.weights.shape != rows.counts.shape
    ):
        raise InputError("request: its weights are of other groups.")
    key = (sent.random_state, sent.round)
    reply, state = reply_to(sent.network, rows, model, request, sent.schedule, key, client_state(context))
    if state is not None:
        context.state[_STATE] = model_record(state)
    return reply


def _count(content: RecordDict, context: Context, rows: ClientRows) -> LabelCounts:
    sent, model = unpack_request(content)
    if sent.round == 0:  # another training begins: what is kept belongs to the last
        context.state.pop(_STATE, None)
    return label_counts(sent.network, rows, model)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let PyTorch use that many threads in the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
