"""The client app of federated training: a request out of a Flower message, and the reply of the site's rows.

What leaves a site is what :mod:`training.messages` names, and nothing else: Flower would send the text of an
exception to the server; here every exception ends in the same empty refusal. What a site keeps from round to round
stays in Flower's context of its node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import extract_tb

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from logofair_reproduction.flower.records import OURS, model_record, pack_reply, read_model, unpack_request
from logofair_reproduction.training import ClientRows, Network, Schedule
from logofair_reproduction.training.local import label_counts
from logofair_reproduction.training.messages import LabelCounts, LocalStepsRequest, Reply
from logofair_reproduction.training.rounds import reply_to

_STATE = "logofair state"
_log = logging.getLogger("flwr")


def node_name(context: Context) -> str:
    """Return the name of the site a node stands for, empty where it has none.

    A deployed node is configured with it (``--node-config "site='north'"``); a simulated one is named by its number.
    """
    node = context.node_config
    return str(node.get("site", node.get("partition-id", "")))


def training_client_app(
    rows_of: Callable[[Context], ClientRows],
    network: Network,
    schedule: Schedule | None = None,
) -> ClientApp:
    """Return a client app that trains a network on a site's rows.

    It uses one thread: sums over many rows may differ in the last bit between numbers of threads.

    Parameters
    ----------
    rows_of : callable
        Returns the rows of the site a node stands for; called for every message, so keep what is slow to load.
    network : Network
        What is trained, the same at every site and at the server.
    schedule : Schedule, optional
        How the site takes local steps.
    """
    plan, app = schedule or Schedule(), ClientApp()

    @app.query("name")
    def name(message: Message, context: Context) -> Message:
        return Message(pack_reply(node_name(context), None), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answer(message, context, trained)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return answer(message, context, counted)

    def answer(
        message: Message, context: Context, work: Callable[[Message, Context, ClientRows], Reply | LabelCounts]
    ) -> Message:
        """The reply; whatever goes wrong, a refusal that says nothing."""
        site, before = node_name(context), torch.get_num_threads()
        try:
            if not site or message.content.config_records[OURS]["site"] != site:
                return Message(pack_reply(site, None), reply_to=message)  # for another site: it is not read
            torch.set_num_threads(1)
            rows = rows_of(context)
            return Message(pack_reply(site, work(message, context, rows), rows.groups), reply_to=message)
        except Exception as error:  # its text may hold data: only its kind and place go to this node's own log
            place = extract_tb(error.__traceback__)[-1]
            _log.warning("site %s: %s at %s:%s", site, type(error).__name__, place.filename, place.lineno)
            return Message(pack_reply(site, None), reply_to=message)
        finally:
            torch.set_num_threads(before)

    def trained(message: Message, context: Context, rows: ClientRows) -> Reply:
        key, request = unpack_request(message.content)
        assert request is not None
        if isinstance(request, LocalStepsRequest) and request.weights is not None:
            assert request.weights.shape == rows.counts.shape, "the weights are of other groups"
        kept = context.state.array_records.get(_STATE)
        state = None if kept is None else kept["parameters"].numpy()
        reply, state = reply_to(network, rows, read_model(message.content, network), request, plan, key, state)
        if state is not None:
            context.state[_STATE] = model_record(state)
        return reply

    def counted(message: Message, context: Context, rows: ClientRows) -> LabelCounts:
        (_, number), _ = unpack_request(message.content)
        if number == 0:  # another training begins: what is kept belongs to the last
            context.state.pop(_STATE, None)
        return label_counts(network, rows, read_model(message.content, network))

    return app
