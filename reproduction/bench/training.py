"""``make bench-training``: rounds of training beside Flower's own simulation, and images per second."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console

from benchmarks.memory import own_peak
from logofair.cli.options import examples
from logofair.columns.checks import Floats
from logofair.datasets import dirichlet_sites, load_adult

if TYPE_CHECKING:
    from logofair_reproduction.training import ClientRows, Network, Schedule
    from logofair_reproduction.training.methods import Method

__all__ = ["GOAL", "show_training", "training_speed"]


# How many times as fast as Flower's own simulation a round is to be.
GOAL = 10.0
# Clients, rounds in Flower and rounds in this process.
_CASES = ((5, 10, 30), (50, 6, 30), (500, 3, 10))
_FEW = 50  # most clients at which our own strategy is run inside Flower as well
_ALPHA = 5.0
_IMAGES = ((64, 128), (128, 128))  # edge of an image, images in a batch


def training_speed(shrink: int = 1) -> dict[str, Any]:
    """Seconds per round and peak memory, ours beside Flower's, and images per second; None where a package is missing.

    ``shrink`` above 1 leaves out the largest federation.
    """
    if find_spec("torch") is None:
        return {"rounds": None, "images": None, "missing": "PyTorch"}
    missing = next((name for name in ("flwr", "ray") if find_spec(name) is None), None)
    cases = _CASES if shrink == 1 else _CASES[:2]
    rounds = None if missing else beside_flower(cases)
    return {"rounds": rounds, "images": images_per_second(shrink), "missing": missing}


def beside_flower(cases: Sequence[tuple[int, int, int]], rows: int | None = None) -> list[dict[str, Any]]:
    """FedAvg of a logistic regression on Adult: a round in this process beside one in Flower's simulation.

    Both evaluate after every round. Flower's rounds count from the second on, and its start is left out. Memory is that
    of all processes at work.
    """
    from logofair.engines.events import ignore
    from logofair.engines.flower.processes import app_folder, simulator

    ours, apps = "logofair.engines.flower", "reproduction.bench.training_apps"
    with tempfile.TemporaryDirectory() as name, simulator(Path(name) / "flower", _environment()) as flower:
        app, found = Path(name) / "app", []
        with app_folder() as own:
            shutil.copytree(own, app)
        project = (app / "pyproject.toml").read_text(encoding="utf-8")
        for side in ("server", "client"):
            project = project.replace(f"{ours}.{side}_app:app", f"{apps}:{side}")
        (app / "pyproject.toml").write_text(project, encoding="utf-8")
        for clients, rounds, own_rounds in cases:
            folder = Path(name) / str(clients)
            write_case(folder, clients, rounds, rows)
            with peak_memory_of_home(flower.variables["FLWR_HOME"]) as peak:
                flower.run(app, folder, {}, nodes=clients, tell=ignore)
            found.append({"clients": clients, **_compared(folder, peak[0], in_process(folder, own_rounds))})
        return found


def _compared(folder: Path, memory: int, own: dict[str, Any]) -> dict[str, Any]:
    """One case's figures; a round is the median of all from the second on."""
    times = json.loads((folder / "times.json").read_text(encoding="utf-8"))
    stock, alone = (float(np.median(times["stock"][part][1:])) for part in ("round", "training"))
    ours = float(np.median(times["ours"]["round"][1:])) if "ours" in times else None
    return {
        "seconds": own["round"],
        "training_seconds": own["training"],
        "flower_seconds": stock,
        "flower_training_seconds": alone,
        "ours_in_flower_seconds": ours,
        "ratio": stock / own["round"],
        "training_ratio": alone / own["training"],
        "strategy_ratio": None if ours is None else stock / ours,
        "goal": GOAL,
        "peak": own["peak"],
        "flower_peak": memory or None,
    }


def write_case(folder: Path, clients: int, rounds: int, rows: int | None = None) -> None:
    """Write Adult dealt to clients, and what to train on it, where processes of their own find them."""
    from logofair_reproduction.training import Schedule

    folder.mkdir()
    data = load_adult("sex")
    some = np.random.default_rng(0).permutation(len(data))[:rows]
    dealt = dirichlet_sites(data.sensitive[some], n_sites=clients, alpha=_ALPHA, rng=0)
    np.savez(
        folder / "data.npz",
        features=data.features[some],
        labels=data.labels[some],
        groups=data.sensitive[some],
        clients=dealt,
    )
    settings = {"rounds": rounds, "ours": clients <= _FEW, "schedule": asdict(Schedule(local_epochs=1))}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


@cache
def read_settings(folder: Path) -> dict[str, Any]:
    """What :func:`write_case` wrote on what to train and for how long."""
    found: dict[str, Any] = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    return found


@cache
def read_rows(folder: Path) -> list[ClientRows]:
    """Every client's rows, as :func:`write_case` wrote them."""
    from logofair_reproduction.training import make_rows

    with np.load(folder / "data.npz", allow_pickle=False) as data:
        return make_rows(data["features"], data["labels"], groups=data["groups"], sites=data["clients"])


def read_schedule(folder: Path) -> Schedule:
    """How clients take local steps, as :func:`write_case` wrote it."""
    from logofair_reproduction.training import Schedule

    return Schedule(**read_settings(folder)["schedule"])


def in_process(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of a round in one process of its own, of its training alone, and that process's peak memory in bytes."""
    code = "import sys; from reproduction.bench.training import print_rounds; print_rounds(sys.argv[1], sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(rounds)],
        env={**os.environ, **_environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _environment() -> dict[str, str]:
    """A PYTHONPATH on which processes find this package, which is not installed."""
    path = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(part for part in path if part)}


def print_rounds(folder: str, rounds: str) -> None:
    """Train what a folder names, and print the seconds of a round, of its training alone, and the peak memory."""
    import torch

    from logofair_reproduction.training import FedAvg, build_network

    torch.set_num_threads(1)  # as a simulated node has
    rows, schedule = read_rows(Path(folder)), read_schedule(Path(folder))
    network, number = build_network("logistic", (rows[0].features.shape[1],)), int(rounds)
    methods = {"round": FedAvg(), "training": FedAvg(measure_every=number + 1)}
    found = {
        name: float(np.median(_seconds(method, network, rows, number, schedule)[1:]))
        for name, method in methods.items()
    }
    print(json.dumps({**found, "peak": own_peak()}))


def _seconds(method: Method, network: Network, rows: Sequence[ClientRows], rounds: int, schedule: Schedule) -> Floats:
    """How long each round takes in this process."""
    from logofair_reproduction.training import train

    ends = [time.perf_counter()]
    for _ in train(method, network, rows, rounds=rounds, schedule=schedule):
        ends.append(time.perf_counter())
    return np.diff(ends)


@contextmanager
def peak_memory_of_home(home: str) -> Iterator[list[int]]:
    """Measure twice a second how much memory the processes of a Flower home take; the entry is the peak, in bytes.

    What processes share counts once; 0 where the system has no /proc.
    """
    peak, done = [0], threading.Event()

    def measure() -> None:
        while not done.wait(0.5):
            peak[0] = max(peak[0], sum(map(_share, processes_of_home(home))))

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def processes_of_home(home: str) -> list[int]:
    """The processes with this FLWR_HOME in their environment, which a SuperLink hands on to all that it starts."""
    found, variable = [], f"FLWR_HOME={home}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # another user's, or it has just ended
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _share(pid: int) -> int:
    """A process's proportional share of memory, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def images_per_second(shrink: int = 1, device: str = "auto") -> dict[str, Any]:
    """Images a second that ResNet18 is trained on, on a GPU where there is one; else one small figure on the CPU."""
    from logofair_reproduction.training.rows import device_named

    place = device_named(device)
    if place.type == "cpu":
        return {"device": "cpu", "sizes": {"64 x 64": _images(64, 16, batches=1, rounds=2, device="cpu")}}
    import torch

    batches = max(20 // shrink, 2)
    sizes = {f"{edge} x {edge}": _images(edge, batch, batches, 4, place.type) for edge, batch in _IMAGES}
    return {"device": torch.cuda.get_device_name(), "sizes": sizes}


def _images(edge: int, batch: int, batches: int, rounds: int, device: str) -> float:
    """Images a second of the fastest round but the first, which warms up."""
    from logofair_reproduction.training import FedAvg, Schedule, build_network, make_rows

    random, n = np.random.default_rng(0), batch * batches
    images = random.integers(256, size=(n, 3, edge, edge), dtype=np.uint8)
    rows = make_rows(images, np.arange(n) % 2, groups=np.arange(n) // 2 % 2, device=device)
    network, schedule = build_network("resnet18", (3, edge, edge)), Schedule(local_epochs=1, batch_size=batch)
    method = FedAvg(measure_every=rounds + 1)  # training steps alone
    return float(n / _seconds(method, network, rows, rounds, schedule)[1:].min())


def show_training(found: dict[str, Any], console: Console) -> None:
    """Print the measurements."""
    if found["missing"]:
        console.print(
            f"{found['missing']} is not installed: training is not compared (pip install '.[flower]' "
            "'./reproduction[train]')."
        )
    for t in found["rounds"] or ():
        met = "met" if t["ratio"] >= t["goal"] else "missed"
        memory = "" if t["flower_peak"] is None else f", {t['flower_peak'] / t['peak']:.1f} times less memory"
        inside = t["strategy_ratio"]
        strategy = "" if inside is None else f"; our strategy in Flower: {inside:.1f} times its speed"
        console.print(
            f"FedAvg on Adult, {t['clients']} clients: a round in {1e3 * t['seconds']:.0f} ms, {t['ratio']:.1f} times "
            f"faster than Flower's own simulation (goal {t['goal']:g} {met}; training alone "
            f"{t['training_ratio']:.1f} times){memory}{strategy}"
        )
    if found["images"]:
        sizes = ", ".join(f"{size}: {speed:,.0f}" for size, speed in found["images"]["sizes"].items())
        where = "the CPU (no GPU here)" if found["images"]["device"] == "cpu" else found["images"]["device"]
        console.print(f"ResNet18, images a second in training on {where}: {sizes}")


@click.command(
    epilog=examples("python -m reproduction.bench.training", "python -m reproduction.bench.training --quick")
)
@click.option("--quick", is_flag=True, help="Without the largest federation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of sentences.")
def bench_training(quick: bool, as_json: bool) -> None:
    """Measure how fast training is here, beside Flower's own simulation."""
    found = training_speed(10 if quick else 1)
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        show_training(found, Console())


if __name__ == "__main__":
    bench_training()
