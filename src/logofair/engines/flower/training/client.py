"""The client app of federated training: takes a question out of a Flower message and lets the training room answer it.

What leaves a site is what :mod:`logofair.training.messages` names, and nothing else: Flower would send the text of an
exception to the server; here every exception ends in the same empty refusal. What a site remembers from round to round
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
from logofair.engines.flower.records import Envelope, sealed
from logofair.engines.flower.training.records import model_out, told, understood
from logofair.errors import InputError
from logofair.training import ClientRows
from logofair.training.local import count
from logofair.training.messages import Answer, LabelCounts, LocalSteps
from logofair.training.rounds import answer

__all__ = ["node_name", "remembered", "training_client_app"]


_MEMORY = "logofair memory"
_log = logging.getLogger("flwr")


def node_name(context: Context) -> str:
    """Return the name of the site a node stands for, empty where it has none.

    A deployed node says it itself (``--node-config "site='north'"``); a simulated one is called by its number.

    Examples
    --------
    >>> node_name(Context(run_id=1, node_id=7, node_config={"partition-id": 4}, state=RecordDict(), run_config={}))
    '4'
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

    Examples
    --------
    >>> from logofair.training import make_rows
    >>> rows = make_rows([[0.0], [1.0]], [0, 1], groups=["a", "b"])[0]
    >>> isinstance(training_client_app(lambda context: rows), ClientApp)
    True
    """
    made = ClientApp(mods=list(mods))

    @made.query("who")
    def who(message: Message, context: Context) -> Message:
        return Message(sealed(Envelope(node_name(context))), reply_to=message)

    @made.train()
    def train(message: Message, context: Context) -> Message:
        return Message(_replied(message, context, rows_of, threads, _trained), reply_to=message)

    @made.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(_replied(message, context, rows_of, threads, _counted), reply_to=message)

    return made


def remembered(context: Context) -> Floats | None:
    """Return what a node remembers from its last round, if anything.

    Examples
    --------
    >>> fresh = Context(run_id=1, node_id=7, node_config={}, state=RecordDict(), run_config={})
    >>> remembered(fresh) is None
    True
    """
    kept = context.state.array_records.get(_MEMORY)
    return None if kept is None else kept["parameters"].numpy()


Work = Callable[[RecordDict, Context, ClientRows], Answer | LabelCounts]


def _replied(
    message: Message, context: Context, rows_of: Callable[[Context], ClientRows], threads: int | None, work: Work
) -> RecordDict:
    """The content of the reply; whatever goes wrong, a refusal that says nothing."""
    name = node_name(context)
    try:
        if not name or message.content.config_records["logofair"]["site"] != name:
            return told(name, None)  # a message for another site is not read
        rows = rows_of(context)
        with _threads(threads):
            return told(name, work(message.content, context, rows), rows.groups)
    except Exception as error:  # its text may hold data: only its kind and place are written to this node's own log
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "?" if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
        _log.warning("site %s could not answer: %s at %s", name, type(error).__name__, where)
        return told(name, None)


def _trained(content: RecordDict, context: Context, rows: ClientRows) -> Answer:
    asked, model = understood(content)
    task = asked.task
    if task is None:
        raise InputError("task: a round of training asks for nothing.")
    if isinstance(task, LocalSteps) and task.weights is not None and task.weights.shape != rows.counts.shape:
        raise InputError("task: its weights are of other groups.")
    seeds = (asked.seed, asked.round)
    found, memory = answer(asked.network, rows, model, task, asked.schedule, seeds, remembered(context))
    if memory is not None:
        context.state[_MEMORY] = model_out(memory)
    return found


def _counted(content: RecordDict, context: Context, rows: ClientRows) -> LabelCounts:
    asked, model = understood(content)
    if asked.round == 0:  # another training begins: what was remembered belongs to the last
        context.state.pop(_MEMORY, None)
    return count(asked.network, rows, model)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let PyTorch use so many threads in the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
