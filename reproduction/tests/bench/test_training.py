"""The benchmark of training measures what it says, on sizes too small to be of interest."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("torch")

import torch

from reproduction.bench import training as training_bench

pytestmark = pytest.mark.training

KEYS = {
    "clients",
    "seconds",
    "training_seconds",
    "flower_seconds",
    "flower_training_seconds",
    "ours_in_flower_seconds",
    "ratio",
    "training_ratio",
    "strategy_ratio",
    "goal",
    "peak",
    "flower_peak",
}


def a_case(**change):
    return {
        "clients": 5,
        "seconds": 0.02,
        "training_seconds": 0.01,
        "flower_seconds": 0.3,
        "flower_training_seconds": 0.2,
        "ours_in_flower_seconds": 0.25,
        "ratio": 15.0,
        "training_ratio": 20.0,
        "strategy_ratio": 1.2,
        "goal": 10.0,
        "peak": 4e8,
        "flower_peak": 1.6e9,
        **change,
    }


def shown(found, capsys):
    training_bench.show_training(found, Console())
    return " ".join(capsys.readouterr().out.split())


def test_the_page_shows_ratios_beside_the_goal(capsys):
    large = a_case(clients=500, ratio=9.0, strategy_ratio=None, flower_peak=None)
    images = {"device": "cpu", "sizes": {"64 x 64": 21.4}}
    text = shown({"rounds": [a_case(), large], "images": images, "missing": None}, capsys)
    assert "5 clients: a round in 20 ms, 15.0 times faster than Flower's own simulation (goal 10 met; training" in text
    assert "4.0 times less memory; our strategy in Flower: 1.2 times its speed" in text
    assert "(goal 10 missed; training alone 20.0 times) ResNet18" in text
    assert "on the CPU (no GPU here): 64 x 64: 21" in text


@pytest.mark.parametrize("package", ["torch", "flwr", "ray"])
def test_a_missing_package_is_said_and_nothing_is_compared(package, monkeypatch, capsys):
    monkeypatch.setattr(training_bench, "find_spec", lambda name: None if name == package else object())
    monkeypatch.setattr(training_bench, "images_per_second", lambda shrink: None)
    found = training_bench.training_speed()
    assert found["rounds"] is None
    name = {"torch": "PyTorch"}.get(package, package)
    assert shown(found, capsys).startswith(f"{name} is not installed: training is not compared")


def test_rounds_in_a_process_of_their_own_are_timed_with_their_memory(tmp_path):
    folder = tmp_path / "case"
    training_bench.write_case(folder, clients=3, rounds=2, rows=300)
    with np.load(folder / "data.npz") as data:
        assert (len(data["labels"]), len(np.unique(data["clients"]))) == (300, 3)
    own = training_bench.in_process(folder, rounds=3)
    assert own.keys() == {"round", "training", "peak"}


def test_a_round_is_the_median_of_all_but_the_first_and_ratios_are_flowers_over_ours(tmp_path):
    times = {"round": [9.0, 3.0, 1.0, 2.0], "training": [9.0, 1.0, 1.5, 2.0]}
    own = {"round": 0.5, "training": 0.25, "peak": 100}
    (tmp_path / "times.json").write_text(json.dumps({"stock": times}))
    found = training_bench._compared(tmp_path, 0, own)
    assert (found["ratio"], found["training_ratio"], found["strategy_ratio"]) == (4.0, 6.0, None)
    assert found["flower_peak"] is None
    (tmp_path / "times.json").write_text(json.dumps({"stock": times, "ours": {"round": [9.0, 4.0], "training": []}}))
    found = training_bench._compared(tmp_path, 300, own)
    assert (found["strategy_ratio"], found["flower_peak"]) == (0.5, 300)
    assert found.keys() | {"clients"} == KEYS


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs /proc")
def test_the_memory_of_the_processes_of_a_flower_home_is_measured():
    with training_bench.peak_memory_of_home("home of a test") as peak:
        code = "held = bytearray(50_000_000); import time; time.sleep(1.5)"
        environment = {**os.environ, "FLWR_HOME": "home of a test"}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert 50_000_000 < peak[0] < 500_000_000


def test_the_stock_client_trains_evaluates_and_leaves_our_messages_to_ours(tmp_path, monkeypatch):
    pytest.importorskip("flwr")
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    from reproduction.bench.training_apps import client

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    folder = tmp_path / "case"
    training_bench.write_case(folder, clients=2, rounds=1, rows=400)
    with np.load(folder / "data.npz") as data:
        n, width = int((data["clients"] == 1).sum()), data["features"].shape[1]
    run = {"folder": str(folder)}
    context = Context(run_id=1, node_id=7, node_config={"partition-id": 1}, state=RecordDict(), run_config=run)
    start = {"weight": torch.zeros(1, width), "bias": torch.zeros(1)}
    content = RecordDict({"arrays": ArrayRecord(start)})
    reply = client(Message(content, 7, "train"), context).content
    assert reply["metrics"]["num-examples"] == n
    assert reply["arrays"].to_torch_state_dict()["weight"].abs().max() > 0
    found = [client(Message(one, 7, "evaluate"), context).content["metrics"] for one in (content, reply)]
    assert found[0]["loss"] == pytest.approx(np.log(2))
    assert found[1]["loss"] < found[0]["loss"]
    ours = RecordDict({**content, "logofair": ConfigRecord({"site": "another"})})
    assert "metrics" not in client(Message(ours, 7, "train"), context).content


@pytest.mark.slow
def test_ours_and_flowers_rounds_are_measured_in_one_run():
    pytest.importorskip("ray")
    [found] = training_bench.beside_flower([(2, 2, 3)], rows=300)
    assert found.keys() == KEYS
    assert found["ratio"] == pytest.approx(found["flower_seconds"] / found["seconds"])
