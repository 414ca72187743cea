"""The baselines side by side: accuracy and gaps on test rows for DP and EO, beside the figures of the LoGoFair paper.

``python -m logofair.experiments.baselines adult`` (or ``enem``, ``celeba``, once prepared) prints a table of
``docs/BASELINES.md``. Rows are dealt to five clients by the sensitive attribute with Dirichlet shares at alpha 0.5;
70 % are trained on and 30 % tested on, as in the paper, and every seed deals, splits and trains anew. The methods'
settings were chosen by small trials, mostly under other seeds, and some lie outside the paper's grids;
``docs/BASELINES.md`` lists them and says why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing import audit
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Booleans
from logofair.datasets import Dataset, dirichlet_clients, split
from logofair.datasets.catalogue import CATALOGUE, load
from logofair.errors import InputError
from logofair.notions import NOTIONS, Notion
from logofair.training import FCFL, ClientRows, FairFed, FedAvg, FedFB, Schedule, build_network, make_rows, train
from logofair.training.methods import Method

__all__ = ["PAPER", "SETTINGS", "BaselineLine", "BaselineSetting", "RunFigures", "lines", "main", "measure"]


_NOTIONS = {"demographic_parity": "DP", "equalized_odds": "EO"}
_CLIENTS, _ALPHA = 5, 0.5
_PARTS = {"train": 0.7, "test": 0.3}
_TITLES = {
    "fedavg": "FedAvg",
    "fairfed": "FairFed",
    "fedfb": "FedFB",
    "fcfl": "FCFL",
    "fcfl_first": "FCFL, first stage only",
}

# Accuracy, local gap, global gap at alpha 0.5: Zhang et al. (AAAI 2025), comparison tables for DP and EO.
PAPER = {
    ("adult", "DP"): {
        "fedavg": (0.8381, 0.1922, 0.1759),
        "fairfed": (0.8079, 0.1416, 0.0956),
        "fedfb": (0.8158, 0.1174, 0.0767),
        "fcfl": (0.8167, 0.0832, 0.1479),
    },
    ("adult", "EO"): {
        "fedavg": (0.8381, 0.2249, 0.1410),
        "fairfed": (0.8125, 0.1416, 0.1048),
        "fedfb": (0.8242, 0.1750, 0.0977),
        "fcfl": (0.8291, 0.0848, 0.1195),
    },
    ("enem", "DP"): {
        "fedavg": (0.7266, 0.2030, 0.1953),
        "fairfed": (0.6974, 0.1721, 0.1002),
        "fedfb": (0.7089, 0.1625, 0.0801),
        "fcfl": (0.6997, 0.0900, 0.1837),
    },
    ("enem", "EO"): {
        "fedavg": (0.7266, 0.2437, 0.2741),
        "fairfed": (0.7019, 0.1805, 0.1771),
        "fedfb": (0.7112, 0.1973, 0.1058),
        "fcfl": (0.7054, 0.1011, 0.1730),
    },
    ("celeba", "DP"): {
        "fedavg": (0.8934, 0.1308, 0.1441),
        "fairfed": (0.8555, 0.1163, 0.0975),
        "fedfb": (0.8705, 0.1064, 0.0723),
        "fcfl": (0.8391, 0.0827, 0.1373),
    },
    ("celeba", "EO"): {
        "fedavg": (0.8934, 0.0815, 0.0696),
        "fairfed": (0.8478, 0.0741, 0.0590),
        "fedfb": (0.8823, 0.0648, 0.0427),
        "fcfl": (0.8779, 0.0453, 0.0519),
    },
}


@dataclass(frozen=True)
class BaselineSetting:
    """How one data set is trained on: the network, the schedule, and how each method is set for a notion."""

    schedule: Schedule
    methods: dict[str, Callable[[Notion], Method]]
    rounds: dict[str, int]


@dataclass(frozen=True)
class _Steps:
    """Step sizes: FedFB's alpha and local FairBatch's, each for DP and EO, and FCFL's.

    Under label conditions a step has a fixed length, and the weight to be changed is a label's share of all rows.
    """

    fedfb: tuple[float, float]
    fairbatch: tuple[float, float]
    fcfl: float


def _setting(schedule: Schedule, rounds: int, fcfl_rounds: int, steps: _Steps) -> BaselineSetting:
    """How all methods are set."""

    def constrained(notion: Notion, first_stage: int) -> Method:
        stages = {"first_stage": first_stage, "batch_size": 512, "measure_every": 100}
        return FCFL(notion, tolerance=0.05, step_size=steps.fcfl, **stages)

    def of(pair: tuple[float, float], notion: Notion) -> float:
        return pair[list(_NOTIONS).index(notion.name)]

    methods: dict[str, Callable[[Notion], Method]] = {
        "fedavg": lambda notion: FedAvg(),
        "fairfed": lambda notion: FairFed(notion, 0.5, "fairbatch", debias_step=of(steps.fairbatch, notion)),
        "fedfb": lambda notion: FedFB(notion, alpha=of(steps.fedfb, notion)),
        "fcfl": lambda notion: constrained(notion, fcfl_rounds // 2),
        "fcfl_first": lambda notion: constrained(notion, fcfl_rounds),
    }
    lengths = {name: fcfl_rounds if name.startswith("fcfl") else rounds for name in methods}
    return BaselineSetting(schedule, methods, lengths)


SETTINGS = {
    "adult": _setting(Schedule(), 20, 1600, _Steps((0.3, 0.001), (0.05, 0.0002), 0.5)),
    "enem": _setting(Schedule(1, learning_rate=0.001), 20, 800, _Steps((0.6, 0.02), (0.2, 0.02), 0.1)),
    "celeba": _setting(Schedule(learning_rate=0.001), 9, 400, _Steps((0.3, 0.005), (0.05, 0.001), 0.05)),
}


@dataclass(frozen=True)
class RunFigures:
    """What one run reached on its test rows, NaN where undefined; ``large_gap``: of clients with 30 rows a rate."""

    accuracy: float
    local_gap: float
    large_gap: float
    global_gap: float


@dataclass(frozen=True)
class BaselineLine:
    """One line of a table: a method for a notion, over all seeds.

    Examples
    --------
    >>> runs = (RunFigures(0.84, 0.2, 0.2, 0.17), RunFigures(0.86, 0.2, 0.1, 0.19))
    >>> BaselineLine("adult", "DP", "fedavg", runs).as_markdown()
    '| DP | FedAvg | 0.850 ± 0.010 | 0.200 ± 0.000 | 0.150 ± 0.050 | 0.180 ± 0.010 | 0.838 / 0.192 / 0.176 |'
    """

    data: str
    notion: str
    method: str
    runs: tuple[RunFigures, ...]

    def as_markdown(self, *, beside_paper: bool = True) -> str:
        """The line as Markdown, beside the paper's figures."""
        names = ("accuracy", "local_gap", "large_gap", "global_gap")
        columns = np.array([[getattr(run, name) for name in names] for run in self.runs])
        cells = [_mean_and_deviation(column[np.isfinite(column)], len(self.runs)) for column in columns.T]
        theirs = PAPER[self.data, self.notion][self.method.removesuffix("_first")]
        paper = " / ".join(f"{figure:.3f}" for figure in theirs) if beside_paper else "-"
        return f"| {' | '.join((self.notion, _TITLES[self.method], *cells, paper))} |"


def _mean_and_deviation(defined: Floats, runs: int) -> str:
    """Mean and standard deviation over the runs in which a figure is defined, and how many these are if not all."""
    if not defined.size:
        return "-"
    partly = "" if defined.size == runs else f" ({defined.size} of {runs})"
    return f"{defined.mean():.3f} ± {defined.std():.3f}{partly}"


def measure(
    data: Dataset,
    setting: BaselineSetting,
    name: str,
    notions: Sequence[Notion],
    random_state: int,
    device: str = "cpu",
) -> list[RunFigures]:
    """Deal, split and train for the first of some notions, and audit by each of them."""
    clients = dirichlet_clients(data.sensitive, n_clients=_CLIENTS, alpha=_ALPHA, rng=random_state)
    parts = split(len(data), _PARTS, rng=random_state)
    sites = _rows(data, parts["train"], device, clients=clients[parts["train"]])
    network = build_network(CATALOGUE[data.name].model, data.features.shape[1:])
    method, rounds = setting.methods[name](notions[0]), setting.rounds[name]
    *_, last = train(method, network, sites, rounds=rounds, schedule=setting.schedule, random_state=random_state)
    test = parts["test"]
    (test_rows,) = _rows(data, test, device, known_groups=sites[0].groups)
    decisions = network.scores(last.parameters, test_rows) >= 0.5
    return [_audited(decisions, data, test, clients, notion) for notion in notions]


def _audited(
    decisions: Booleans, data: Dataset, rows: npt.NDArray[np.intp], clients: Integers, notion: Notion
) -> RunFigures:
    """Accuracy and gaps on test rows."""
    found = audit(decisions, data.labels[rows], groups=data.sensitive[rows], clients=clients[rows], notion=notion)
    figures = (found.accuracy, found.local_gap, found.large_local_gap, found.global_gap)
    return RunFigures(*(np.nan if figure is None else float(figure) for figure in figures))


def _rows(data: Dataset, rows: npt.NDArray[np.intp], device: str, **more: Any) -> list[ClientRows]:
    return make_rows(data.features[rows], data.labels[rows], groups=data.sensitive[rows], device=device, **more)


def lines(
    data: Dataset, setting: BaselineSetting, methods: Sequence[str], seeds: int, device: str = "cpu"
) -> Iterator[BaselineLine]:
    """Measure every method for every notion; FedAvg, which knows none, is trained once for all."""
    notions = [NOTIONS[notion] for notion in _NOTIONS]
    for name in methods:
        for together in [notions] if name == "fedavg" else [[notion] for notion in notions]:
            runs = [measure(data, setting, name, together, random_state, device) for random_state in range(seeds)]
            for notion, figures in zip(together, zip(*runs, strict=True), strict=True):
                yield BaselineLine(data.name, _NOTIONS[notion.name], name, figures)


def main(words: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="baselines", description=__doc__)
    parser.add_argument("data", help=", ".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(_TITLES))
    parser.add_argument("--sensitive", help="another attribute than the paper's, which then has no figures beside ours")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cache", type=Path)
    wanted = parser.parse_args(words)
    if wanted.data not in SETTINGS:
        sys.exit(f"baselines: got {wanted.data!r}; use one of {', '.join(SETTINGS)}.")
    methods = wanted.methods.split(",")
    if unknown := [name for name in methods if name not in _TITLES]:
        sys.exit(f"baselines: --methods: got {unknown[0]!r}; use some of {', '.join(_TITLES)}.")
    if wanted.seeds < 1:
        sys.exit(f"baselines: --seeds: got {wanted.seeds}; pass a whole number from 1.")
    try:
        data = load(wanted.data, sensitive=wanted.sensitive, cache=wanted.cache)
        header = ("notion", "method", "accuracy", "local gap", "local gap 30+", "global gap", "paper")
        print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)
        for line in lines(data, SETTINGS[wanted.data], methods, wanted.seeds, wanted.device):
            print(line.as_markdown(beside_paper=wanted.sensitive is None), flush=True)
    except InputError as error:
        sys.exit(f"baselines: {error}")


if __name__ == "__main__":
    main()
