"""What the bench runs in Flower's simulation: FedAvg as Flower's own users write it, then ours on the same nodes.

The stock app is Flower's ``FedAvg`` with a plain PyTorch client: ``nn.Linear``, ``torch.optim.Adam``, the rows shuffled
and cut into batches. Nothing slows it down: rows are loaded once per process, and there is no ``DataLoader``. Like ours
it evaluates after every round, which is Flower's default; how long training alone takes is noted beside.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg as StockFedAvg
from torch import Tensor, nn

from logofair.engines.flower.server_app import recorded
from logofair_reproduction.flower.client import node_name, training_client_app
from logofair_reproduction.flower.strategy import MethodStrategy
from logofair_reproduction.training import ClientRows, FedAvg, Schedule, build_network
from reproduction.bench.training import read_rows, read_schedule, read_settings

__all__ = ["client", "server"]


class Clock:
    """Notes when each round ends, and when its training does, through hooks that Flower has for other things.

    Examples
    --------
    >>> clock = Clock()
    >>> clock.ended(0, None), clock.trained([], ""), clock.ended(1, None)
    (None, {}, None)
    >>> [len(seconds) for seconds in clock.seconds().values()]
    [1, 1]
    """

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.trainings: list[float] = []

    def ended(self, number: int, arrays: object) -> None:
        """Stand in for an evaluation at the server, which comes before the first round and after each."""
        self.ends.append(time.perf_counter())

    def trained(self, replies: object, weight: str) -> MetricRecord:
        """Stand in for the averaging of training's metrics, the last thing in it."""
        self.trainings.append(time.perf_counter())
        return MetricRecord()

    def seconds(self) -> dict[str, list[float]]:
        """How long each round took, and its training alone where that was noted."""
        alone = np.subtract(self.trainings, self.ends[: len(self.trainings)])
        return {"round": np.diff(self.ends).tolist(), "training": alone.tolist()}


server = ServerApp()


@server.main()
def _time_both(grid: Grid, context: Context) -> None:
    folder = Path(str(context.run_config["folder"]))
    with recorded(folder):
        settings, rows = read_settings(folder), read_rows(folder)
        times = {"stock": _stock(grid, rows, settings["rounds"])}
        if settings["ours"]:
            times["ours"] = _ours(grid, rows, settings["rounds"])
        (folder / "times.json").write_text(json.dumps(times), encoding="utf-8")


def _stock(grid: Grid, rows: list[ClientRows], rounds: int) -> dict[str, list[float]]:
    clock, n = Clock(), len(rows)
    strategy = StockFedAvg(
        min_train_nodes=n, min_evaluate_nodes=n, min_available_nodes=n, train_metrics_aggr_fn=clock.trained
    )
    start = ArrayRecord(nn.Linear(rows[0].features.shape[1], 1).state_dict())
    strategy.start(grid, start, num_rounds=rounds, evaluate_fn=clock.ended)
    return clock.seconds()


def _ours(grid: Grid, rows: list[ClientRows], rounds: int) -> dict[str, list[float]]:
    clock, network = Clock(), build_network("logistic", (rows[0].features.shape[1],))
    sites = [str(place) for place in range(len(rows))]
    strategy = MethodStrategy(FedAvg(), network, sites, groups=rows[0].groups)
    strategy.start(grid, num_rounds=rounds, evaluate_fn=clock.ended)
    return clock.seconds()


def stock_steps(model: nn.Module, features: Tensor, labels: Tensor, schedule: Schedule) -> None:
    """Train a model the plain way; changes it.

    Examples
    --------
    >>> model = nn.Linear(1, 1)
    >>> stock_steps(model, torch.tensor([[-1.0], [1.0]]), torch.tensor([0.0, 1.0]), Schedule(100, 0.1))
    >>> model.weight.item() > 1.0
    True
    """
    optimiser, loss = torch.optim.Adam(model.parameters(), lr=schedule.learning_rate), nn.BCEWithLogitsLoss()
    for _ in range(schedule.local_epochs):
        for batch in torch.split(torch.randperm(len(labels)), schedule.batch_size or len(labels)):
            optimiser.zero_grad()
            loss(model(features[batch]).squeeze(-1), labels[batch]).backward()
            optimiser.step()


def _stock_model(message: Message, rows: ClientRows) -> nn.Module:
    model = nn.Linear(rows.features.shape[1], 1)
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return model


def _stock_training(message: Message, context: Context) -> Message:
    rows = _client_rows(context)
    model = _stock_model(message, rows)
    stock_steps(model, rows.features, rows.labels, read_schedule(Path(str(context.run_config["folder"]))))
    metrics = MetricRecord({"num-examples": len(rows)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


def _stock_evaluation(message: Message, context: Context) -> Message:
    rows = _client_rows(context)
    with torch.no_grad():
        logits = _stock_model(message, rows)(rows.features).squeeze(-1)
        loss = float(nn.BCEWithLogitsLoss()(logits, rows.labels))
        accuracy = float(((logits >= 0) == (rows.labels == 1)).double().mean())
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(rows)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def _client_rows(context: Context) -> ClientRows:
    return read_rows(Path(str(context.run_config["folder"])))[int(node_name(context))]


@cache
def _app_of(folder: Path) -> ClientApp:
    """Our client app for the case of a folder."""
    network = build_network("logistic", (read_rows(folder)[0].features.shape[1],))
    return training_client_app(_client_rows, network, read_schedule(folder))


def _ours_app(message: Message, context: Context) -> Message:
    return _app_of(Path(str(context.run_config["folder"])))(message, context)


_Reply = Callable[[Message, Context], Message]


def _client_app() -> ClientApp:
    """The stock client, and ours for the messages of our strategy."""
    made = ClientApp()

    def choose(message: Message, stock: _Reply) -> _Reply:
        return _ours_app if "logofair" in message.content.config_records else stock

    @made.train()
    def train(message: Message, context: Context) -> Message:
        return choose(message, _stock_training)(message, context)

    @made.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return choose(message, _stock_evaluation)(message, context)

    @made.query("name")
    def name(message: Message, context: Context) -> Message:
        return _ours_app(message, context)

    return made


client = _client_app()
